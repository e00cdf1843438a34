/* See quota.h.  quotactl() wants the device, which /proc/self/mountinfo names for the number that stat() gives.  Everything that
 * does not work means that there is no quota to know of: most file systems have none, and those of a network ask elsewhere. */
#define _GNU_SOURCE
#include "base/quota.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { BLOCK = 1024 }; /* unit of limits, whatever the file system's blocks are */

/* "36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw": the second word after " - " of the line with this device. */
static bool find_device(dev_t number, char *out, size_t cap)
{
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  FILE *f = fopen("/proc/self/mountinfo", "re");
  while (f && !found && getline(&line, &room, f) > 0) {
    unsigned major_number, minor_number;
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2) continue;
    if (major_number != major(number) || minor_number != minor(number)) continue;
    char format[32];
    snprintf(format, sizeof format, " - %%*s %%%zus", cap - 1);
    found = sscanf(rest, format, out) == 1;
  }
  free(line);
  if (f) fclose(f);
  return found;
}

static bool read_quota(const char *device, int kind, uint32_t id, struct dqblk *q)
{
  memset(q, 0, sizeof *q);
  return quotactl(QCMD(Q_GETQUOTA, kind), device, (int)id, (caddr_t)q) == 0;
}

static uint64_t left_of(const char *device, int kind, uint32_t id)
{
  struct dqblk q;
  if (!read_quota(device, kind, id, &q)) return UINT64_MAX;
  if (!(q.dqb_valid & QIF_BLIMITS) || !(q.dqb_valid & QIF_SPACE) || q.dqb_bhardlimit == 0) return UINT64_MAX;
  uint64_t limit = SHOAL_MIN(q.dqb_bhardlimit, UINT64_MAX / BLOCK) * BLOCK;
  return limit > q.dqb_curspace ? limit - q.dqb_curspace : 0;
}

static uint64_t used_up(const char *device, int kind, uint32_t id)
{
  struct dqblk q;
  if (!read_quota(device, kind, id, &q) || !(q.dqb_valid & QIF_ILIMITS) || !(q.dqb_valid & QIF_INODES)) return 0;
  return q.dqb_curinodes >= q.dqb_ihardlimit ? q.dqb_ihardlimit : 0;
}

/* The device of `dir`, and the group that new files there get; false where no quota holds. */
static bool find_quotas(const char *dir, char *device, size_t cap, uint32_t *group)
{
  struct stat info;
  if (geteuid() == 0 || stat(dir, &info) != 0 || !find_device(info.st_dev, device, cap))
    return false; /* none for root */
  *group = info.st_mode & S_ISGID ? info.st_gid : getegid();
  return true;
}

uint64_t shoal_quota_left(const char *dir, bool *group)
{
  char device[4096];
  uint32_t id;
  if (!find_quotas(dir, device, sizeof device, &id)) return UINT64_MAX;
  uint64_t user = left_of(device, USRQUOTA, geteuid()), others = left_of(device, GRPQUOTA, id);
  *group = others < user;
  return SHOAL_MIN(user, others);
}

uint64_t shoal_quota_files(const char *dir, bool *group)
{
  char device[4096];
  uint32_t id;
  if (!find_quotas(dir, device, sizeof device, &id)) return 0;
  uint64_t user = used_up(device, USRQUOTA, geteuid());
  *group = user == 0;
  return user ? user : used_up(device, GRPQUOTA, id);
}
