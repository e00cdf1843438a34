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

static uint64_t left_of(const char *device, int kind, uint32_t id)
{
  struct dqblk q = { 0 };
  if (quotactl(QCMD(Q_GETQUOTA, kind), device, (int)id, (caddr_t)&q) != 0) return UINT64_MAX;
  if (!(q.dqb_valid & QIF_BLIMITS) || !(q.dqb_valid & QIF_SPACE) || q.dqb_bhardlimit == 0) return UINT64_MAX;
  uint64_t limit = SHOAL_MIN(q.dqb_bhardlimit, UINT64_MAX / BLOCK) * BLOCK;
  return limit > q.dqb_curspace ? limit - q.dqb_curspace : 0;
}

uint64_t shoal_quota_left(const char *dir, bool *group)
{
  struct stat info;
  char device[4096];
  if (geteuid() == 0 || stat(dir, &info) != 0 || !find_device(info.st_dev, device, sizeof device))
    return UINT64_MAX; /* no quota holds for root */
  uint64_t user = left_of(device, USRQUOTA, geteuid());
  uint64_t others = left_of(device, GRPQUOTA, info.st_mode & S_ISGID ? info.st_gid : getegid());
  *group = others < user;
  return SHOAL_MIN(user, others);
}
