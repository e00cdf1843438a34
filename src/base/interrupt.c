/* See interrupt.h. */
#include "base/interrupt.h"
#include "base/error.h"

static _Thread_local struct {
  bool (*asked)(void *context);
  void *context;
} armed;

void shoal_interrupt_arm(bool (*asked)(void *context), void *context)
{
  armed.asked = asked;
  armed.context = context;
}

shoal_status shoal_interrupt_check(void)
{
  SHOAL_CHECK(!armed.asked || !armed.asked(armed.context), SHOAL_STOPPED, "a signal asked to stop");
  return SHOAL_OK;
}
