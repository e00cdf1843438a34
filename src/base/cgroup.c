/* See cgroup.h.  Two files say where the limits are:
 *
 *     /proc/self/cgroup      4:memory:/batch/job7                              controller memory: group /batch/job7
 *     /proc/self/mountinfo   35 31 0:33 /batch /sys/fs/cgroup/memory … - cgroup cgroup rw,memory
 *                                       root   mounted at                 controllers of version 1
 *
 * A mount may show only a part of the hierarchy, from its root down, so that group is /sys/fs/cgroup/memory/job7 here.
 * A limit holds for everything below it: all groups from there up to the mount point are read, and the smallest counts.
 * Version 2 has one hierarchy, "0::/batch/job7", mounted as cgroup2.  A machine may use version 1 for some controllers
 * and 2 for the others; a hierarchy without a controller has no files of it, so both are read alike.  Inside a
 * namespace, groups above its own are "/..": a mount of one of them shows that group, but not the way down from it. */
#include "base/cgroup.h"
#include "base/mem.h"
#include "base/process.h"
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE = 2 * PATH_MAX };

static FILE *open_below(const char *root, const char *path)
{
  char whole[LINE];
  int n = snprintf(whole, sizeof whole, "%s%s", root, path);
  return n > 0 && (size_t)n < sizeof whole ? fopen(whole, "re") : NULL;
}

/* Whether `word` is one of the words of a list separated by commas. */
static bool has_word(const char *list, const char *word)
{
  size_t n = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
  }
  return false;
}

/* ---- the values of one group ---- */

/* Reads numbers from a file of a group: those of its lines that begin with one of `keys`, added up.  "max" and what is
 * not a number is no value. */
static bool read_sum(const char *group, const char *name, const char *const *keys, size_t n_keys, uint64_t *sum)
{
  char path[LINE], line[256];
  bool any = false;
  int n = snprintf(path, sizeof path, "%s/%s", group, name);
  FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
  *sum = 0;
  while (f && fgets(line, sizeof line, f))
    for (size_t k = 0; k < n_keys; k++) {
      size_t length = strlen(keys[k]);
      if (strncmp(line, keys[k], length) != 0 || line[length] < '0' || line[length] > '9') continue;
      char *end;
      unsigned long long value = strtoull(line + length, &end, 10);
      if (*end != '\n' && *end != '\0') continue;
      *sum = value > UINT64_MAX - *sum ? UINT64_MAX : *sum + value;
      any = true;
    }
  if (f) fclose(f);
  return any;
}

static bool read_value(const char *group, const char *name, uint64_t *value)
{
  static const char *const anything[] = { "" };
  return read_sum(group, name, anything, 1, value);
}

/* The kernel gives up the cache of files before a group runs out of memory. */
static uint64_t memory_used(const char *group, const char *use, const char *const cache_keys[2])
{
  uint64_t used, cache;
  if (!read_value(group, use, &used)) return 0;
  (void)read_sum(group, "memory.stat", cache_keys, 2, &cache);
  return used - SHOAL_MIN(used, cache);
}

static void read_memory(const char *group, shoal_cgroup *out)
{
  static const char *const cache_1[] = { "total_inactive_file ", "total_active_file " };
  static const char *const cache_2[] = { "inactive_file ", "active_file " };
  static const struct {
    const char *limit, *use;
    const char *const *cache;
  } files[] = { { "memory.limit_in_bytes", "memory.usage_in_bytes", cache_1 },
                { "memory.max", "memory.current", cache_2 },
                { "memory.high", "memory.current", cache_2 } }; /* above it processes are slowed almost to a stop */
  for (size_t i = 0; i < SHOAL_COUNT(files); i++) {
    uint64_t limit, used;
    if (!read_value(group, files[i].limit, &limit) || limit >= UINT64_MAX / 4)
      continue; /* version 1: none is 2^63 - 1 page */
    used = memory_used(group, files[i].use, files[i].cache);
    out->memory = SHOAL_MIN(out->memory, limit);
    out->memory_left = SHOAL_MIN(out->memory_left, limit - SHOAL_MIN(used, limit));
  }
}

static uint64_t identity(const char *group)
{
  struct stat s;
  return stat(group, &s) == 0 ? (uint64_t)s.st_ino ^ (uint64_t)s.st_dev << 48 : 0;
}

static void read_quota(const char *group, shoal_cgroup *out)
{
  char path[LINE], line[64] = "";
  unsigned long long quota, period;
  uint64_t quota_1, period_1;
  double cpus;
  int n = snprintf(path, sizeof path, "%s/cpu.max", group);
  FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
  if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
  if (f) fclose(f);
  if (line[0] >= '0' && line[0] <= '9' && sscanf(line, "%llu %llu", &quota, &period) == 2 && period > 0)
    cpus = (double)quota / (double)period;
  else if (read_value(group, "cpu.cfs_quota_us", &quota_1) && read_value(group, "cpu.cfs_period_us", &period_1) &&
           period_1 > 0)
    cpus = (double)quota_1 / (double)period_1;
  else
    return;
  if (cpus <= 0 || (out->cpus > 0 && out->cpus <= cpus)) return;
  out->cpus = cpus;
  out->cpus_group = identity(group);
}

/* ---- where the groups are ---- */

/* Finds the group of this process in the hierarchy of a controller; NULL stands for version 2.  Cuts the line's end. */
static bool find_group(const char *root, const char *controller, char group[LINE])
{
  bool found = false;
  FILE *f = open_below(root, "/proc/self/cgroup");
  while (f && !found && fgets(group, LINE, f)) {
    char *list = strchr(group, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    list++;
    path[strcspn(path, "\n")] = '\0';
    found = path[0] == '/' && (controller ? has_word(list, controller) : list[0] == '\0' && group[0] == '0');
    if (found) memmove(group, path, strlen(path) + 1);
  }
  if (f) fclose(f);
  return found;
}

/* Spaces and the like are \040 in mountinfo. */
static void unescape(char *text)
{
  char *to = text;
  for (const char *at = text; *at; at++)
    if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
      *to++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
      at += 3;
    } else {
      *to++ = *at;
    }
  *to = '\0';
}

typedef struct {
  char *root, *at, *type, *options; /* point into a line */
} mount;

static bool parse_mount(char *line, mount *m)
{
  char *field[6], *rest = strstr(line, " - "), *save = NULL;
  if (!rest) return false;
  *rest = '\0';
  rest[strcspn(rest + 3, "\n") + 3] = '\0';
  for (size_t i = 0; i < SHOAL_COUNT(field); i++)
    if (!(field[i] = strtok_r(i ? NULL : line, " ", &save))) return false;
  m->root = field[3];
  m->at = field[4];
  m->type = strtok_r(rest + 3, " ", &save);
  if (!m->type || !strtok_r(NULL, " ", &save)) return false;
  m->options = strtok_r(NULL, " ", &save);
  unescape(m->root);
  unescape(m->at);
  return m->options != NULL;
}

static bool leaves_namespace(const char *group)
{
  return strncmp(group, "/..", 3) == 0 && (group[3] == '/' || group[3] == '\0');
}

/* The part of the group's path below the mount's root; "" if the mount shows only a group around it. */
static const char *below_mount(const char *mount_root, const char *group)
{
  size_t n = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
  bool inside = strncmp(group, mount_root, n) == 0 && (group[n] == '/' || group[n] == '\0');
  return !inside || strcmp(group + n, "/") == 0 ? "" : group + n;
}

typedef void read_group(const char *group, shoal_cgroup *out);

/* Reads a group and those around it, up to the mount point. */
static void read_upwards(const char *root, const mount *m, const char *group, read_group *read, shoal_cgroup *out)
{
  char path[LINE];
  int top = snprintf(path, sizeof path, "%s%s", root, m->at);
  int n = snprintf(path, sizeof path, "%s%s%s", root, m->at, below_mount(m->root, group));
  if (top < 0 || n < top || (size_t)n >= sizeof path) return;
  for (;;) {
    read(path, out);
    char *slash = strrchr(path + top, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

static void read_controller(const char *root, const mount *m, const char *controller, read_group *read,
                            shoal_cgroup *out)
{
  char group[LINE];
  bool second = strcmp(m->type, "cgroup2") == 0;
  if (!second && (strcmp(m->type, "cgroup") != 0 || !has_word(m->options, controller))) return;
  if (find_group(root, second ? NULL : controller, group) && !leaves_namespace(group))
    read_upwards(root, m, group, read, out);
}

void shoal_cgroup_read(const char *root, shoal_cgroup *out)
{
  char line[LINE];
  mount m;
  *out = (shoal_cgroup){ .memory = UINT64_MAX, .memory_left = UINT64_MAX };
  FILE *f = open_below(root, "/proc/self/mountinfo");
  while (f && fgets(line, sizeof line, f))
    if (parse_mount(line, &m)) {
      read_controller(root, &m, "memory", read_memory, out);
      read_controller(root, &m, "cpu", read_quota, out);
    }
  if (f) fclose(f);
}

uint64_t shoal_memory_kills(const char *root)
{
  static const char *const key[] = { "oom_kill " };
  char folder[LINE];
  uint64_t kills;
  int n = snprintf(folder, sizeof folder, "%s/proc", root);
  return n > 0 && (size_t)n < sizeof folder && read_sum(folder, "vmstat", key, 1, &kills) ? kills : 0;
}

const char *shoal_memory_kills_told(const char *root, int64_t then, char buf[SHOAL_MEMORY_KILLS])
{
  int64_t more = (int64_t)shoal_memory_kills(root) - then;
  buf[0] = '\0';
  if (more > 0)
    snprintf(buf, SHOAL_MEMORY_KILLS,
             "memory ran out, and the kernel has killed %" PRId64
             " process%s on this host since the start (lower the batch, "
             "start fewer ranks on a node, or ask the batch system for more memory)",
             more, more == 1 ? "" : "es");
  return buf;
}

const char *shoal_memory_kills_since(const json_t *process, char buf[SHOAL_MEMORY_KILLS])
{
  const char *boot = json_string_value(json_object_get(process, "boot"));
  const json_t *then = json_object_get(process, "memory_kills");
  shoal_kernel here = shoal_kernel_here();
  buf[0] = '\0';
  if (!boot || strcmp(boot, here.boot) != 0 || !json_is_integer(then)) return buf;
  return shoal_memory_kills_told("", json_integer_value(then), buf);
}
