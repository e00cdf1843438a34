/* A request to stop, for long work that has nothing to lose: code of any layer asks between two pieces of it.
 *
 * Who runs the program arms it for the stages that can be given up, and says there how a request is found.  While it is not
 * armed, and in other threads, nothing is ever interrupted. */
#ifndef SHOAL_BASE_INTERRUPT_H
#define SHOAL_BASE_INTERRUPT_H
#include "base/status.h"
#include <stdbool.h>

/** From now on, in this thread, `asked(context)` is looked at.  NULL: never again. */
void shoal_interrupt_arm(bool (*asked)(void *context), void *context);
/** STOPPED if there is a request; to be returned. */
shoal_status shoal_interrupt_check(void);
#endif
