/* A file system with quotas, to be preloaded (LD_PRELOAD): the user may still write QUOTA_LEFT_KIB and has used up all files of
 * QUOTA_FILES, the group has no limit.  With QUOTA_FULL set, reserving space fails as if a quota were reached. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>

int quotactl(int command, const char *device, int id, caddr_t out)
{
  enum { USED_KIB = 1000 };
  const char *left = getenv("QUOTA_LEFT_KIB"), *files = getenv("QUOTA_FILES");
  if (!left || !device || !device[0] || command != QCMD(Q_GETQUOTA, USRQUOTA) || id <= 0) {
    errno = ESRCH;
    return -1;
  }
  struct dqblk q = { .dqb_bhardlimit = USED_KIB + strtoull(left, NULL, 10),
                     .dqb_curspace = (unsigned long long)USED_KIB << 10,
                     .dqb_ihardlimit = files ? strtoull(files, NULL, 10) : 0,
                     .dqb_curinodes = files ? strtoull(files, NULL, 10) : 1000,
                     .dqb_valid = QIF_BLIMITS | QIF_SPACE | QIF_ILIMITS | QIF_INODES };
  memcpy(out, &q, sizeof q);
  return 0;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
  (void)fd, (void)mode, (void)offset, (void)length;
  errno = getenv("QUOTA_FULL") ? EDQUOT : EOPNOTSUPP; /* otherwise as a file system that cannot reserve */
  return -1;
}
