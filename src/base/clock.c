/* The wall clock as text, always in UTC, so that logs from different time zones can be compared. */
#include "base/clock.h"

const char *shoal_wall_clock(char *buf, size_t cap)
{
  struct tm parts;
  time_t now = time(NULL);
  if (!gmtime_r(&now, &parts) || strftime(buf, cap, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) buf[0] = '\0';
  return buf;
}
