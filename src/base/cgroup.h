/* What control groups allow this process: memory and processor time.  A batch system, container or service limits its
 * processes this way, and neither the affinity mask nor /proc/meminfo shows it. */
#ifndef SHOAL_BASE_CGROUP_H
#define SHOAL_BASE_CGROUP_H
#include <jansson.h>
#include <stdint.h>

typedef struct {
  uint64_t memory;      /* bytes, the smallest limit of the group and those around it; UINT64_MAX: no limit */
  uint64_t memory_left; /* bytes that can still be had below all limits; the cache of files counts as free */
  double cpus;          /* processor time per time, the smallest quota: 0.5 is half a core; 0: no quota */
  uint64_t cpus_group;  /* identity of the group with that quota, which all its processes share; 0 without a quota */
} shoal_cgroup;

/** Versions 1 and 2 of control groups, and both at once.  What cannot be read does not limit.
 *  @param root  put in front of every path: "" for this machine, a folder with a made-up proc/ and sys/ in tests */
void shoal_cgroup_read(const char *root, shoal_cgroup *out);
/** How many processes the kernel has ended on this host, since it was started, because memory ran out, that of the host or of a
 *  group; 0 if it does not tell. */
uint64_t shoal_memory_kills(const char *root);
enum { SHOAL_MEMORY_KILLS = 256 };
/** "memory ran out, and the kernel has killed 2 processes on this host since the start (CURE)" if there are more than `then`, which was read
 *  at the start; else "".  Writes into `buf` and returns it. */
const char *shoal_memory_kills_told(const char *root, int64_t then, char buf[SHOAL_MEMORY_KILLS]);
/** The same of the process in a status.json, its object "process": "" if that was on another host or before this one was started. */
const char *shoal_memory_kills_since(const json_t *process, char buf[SHOAL_MEMORY_KILLS]);
#endif
