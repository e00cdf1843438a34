/* See limit.h.  The limits of the machine are read again for each question: other programs come and go. */
#include "base/limit.h"
#include "base/cgroup.h"
#include "base/env.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

/* MemAvailable, in bytes; UINT64_MAX if the kernel does not say. */
static uint64_t machine_memory(void)
{
  char line[128];
  unsigned long long kib;
  uint64_t found = UINT64_MAX;
  FILE *f = fopen("/proc/meminfo", "re");
  while (f && found == UINT64_MAX && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %llu", &kib) == 1) found = SHOAL_MIN(kib, UINT64_MAX >> 10) << 10;
  if (f) fclose(f);
  return found;
}

uint64_t shoal_memory_limit(void)
{
  int64_t asked = shoal_env_int(NULL, "SHOAL_MEMORY_LIMIT_MIB", 0);
  if (asked > 0) return (uint64_t)asked << 20;
  struct rlimit space;
  shoal_cgroup group;
  shoal_cgroup_read("", &group);
  uint64_t most = SHOAL_MIN(machine_memory(), group.memory_left);
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    most = SHOAL_MIN(most, (uint64_t)space.rlim_cur);
  return most / 2;
}

uint64_t shoal_limit_file_size(void)
{
  struct rlimit size;
  bool limited = getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY;
  return limited ? (uint64_t)size.rlim_cur : UINT64_MAX;
}

shoal_status shoal_limit_memory(const char *path, const char *what, uint64_t n, uint64_t size)
{
  char need[32], limit[32];
  uint64_t bytes, most = shoal_memory_limit();
  bool fits = !__builtin_mul_overflow(n, size, &bytes) && bytes <= most;
  SHOAL_CHECK(fits, SHOAL_ERR_MEM,
              "%s: %s would take %s of memory, the limit is %s (half of what is free here, or SHOAL_MEMORY_LIMIT_MIB)",
              path, what, shoal_format_bytes((double)n * (double)size, need, sizeof need),
              shoal_format_bytes((double)most, limit, sizeof limit));
  return SHOAL_OK;
}

shoal_status shoal_limit_held(const char *path, const char *what, uint64_t n, uint64_t size, uint64_t held)
{
  char need[32], most[32];
  uint64_t bytes;
  bool fits = !__builtin_mul_overflow(n, size, &bytes) && bytes <= held;
  SHOAL_CHECK(fits, SHOAL_ERR_IO, "%s says it has %s of %s, but can hold %s: it is cut short or damaged", path,
              shoal_format_bytes((double)n * (double)size, need, sizeof need), what,
              shoal_format_bytes((double)held, most, sizeof most));
  return SHOAL_OK;
}
