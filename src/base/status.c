/* Names, general texts and exit codes of the status list. */
#include "base/status.h"

static const struct {
  const char *name, *text;
  int exit_code;
} statuses[] = {
#define X(name, exit_code, text) { #name, text, exit_code },
  SHOAL_STATUS_LIST(X)
#undef X
};

static unsigned known(shoal_status st)
{
  return (unsigned)st < SHOAL_STATUS_COUNT ? (unsigned)st : SHOAL_ERR_INTERNAL;
}

const char *shoal_status_text(shoal_status st)
{
  return statuses[known(st)].text;
}

const char *shoal_status_name(shoal_status st)
{
  return statuses[known(st)].name;
}

int shoal_status_exit_code(shoal_status st)
{
  return statuses[known(st)].exit_code;
}
