/* A file system that answers as some do, to be preloaded (LD_PRELOAD).  ODDFS="CALL:ERRNO:PART:SKIP ..." lets a call fail on every path
 * that contains PART, but for the first SKIP times.  Calls: write, fsync, unlink, create (to open for writing), and blocks, for which
 * statvfs() succeeds and counts nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { RULES = 8, PATH = 4096 };
static struct {
  char call[16], part[64];
  int error;
  long left; /* times that it succeeds */
} rules[RULES];
static int n_rules;

__attribute__((constructor)) static void read_rules(void)
{
  const char *at = getenv("ODDFS");
  int used = 0;
  for (; at && n_rules < RULES; at += used, n_rules++)
    if (sscanf(at, " %15[^:]:%d:%63[^:]:%ld%n", rules[n_rules].call, &rules[n_rules].error, rules[n_rules].part,
               &rules[n_rules].left, &used) != 4)
      break;
}

static bool fails(const char *call, const char *path)
{
  for (int i = 0; i < n_rules; i++)
    if (strcmp(rules[i].call, call) == 0 && strstr(path, rules[i].part) &&
        __atomic_fetch_sub(&rules[i].left, 1, __ATOMIC_RELAXED) <= 0) {
      errno = rules[i].error;
      return true;
    }
  return false;
}

static bool fails_on(const char *call, int fd)
{
  char link[32], path[PATH];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = n_rules ? readlink(link, path, sizeof path - 1) : -1;
  path[n > 0 ? n : 0] = '\0';
  return n > 0 && fails(call, path);
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t n)
{
  NEXT(write);
  return fails_on("write", fd) ? -1 : next(fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
  NEXT(pwrite);
  return fails_on("write", fd) ? -1 : next(fd, data, n, at);
}

int fsync(int fd)
{
  NEXT(fsync);
  return fails_on("fsync", fd) ? -1 : next(fd);
}

int unlink(const char *path)
{
  NEXT(unlink);
  return fails("unlink", path) ? -1 : next(path);
}

int open(const char *path, int flags, ...)
{
  NEXT(open);
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
  va_end(args);
  return flags & (O_WRONLY | O_RDWR) && fails("create", path) ? -1 : next(path, flags, mode);
}

int statvfs(const char *path, struct statvfs *out)
{
  NEXT(statvfs);
  int failed = next(path, out);
  if (!failed && fails("blocks", path))
    out->f_blocks = out->f_bfree = out->f_bavail = out->f_files = out->f_ffree = out->f_favail = 0;
  return failed;
}
