/* The wall clock as text, always UTC: log files of ranks in different places can then be laid side by side. */
#include "base/clock.h"

const char *shoal_wall_clock(char *buf, size_t cap)
{
  struct tm parts;
  time_t now = time(NULL);
  if (!gmtime_r(&now, &parts) || strftime(buf, cap, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) buf[0] = '\0';
  return buf;
}
