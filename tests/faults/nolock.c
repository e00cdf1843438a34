/* A file system without working locks, to be preloaded (LD_PRELOAD): flock() fails with the number in NOLOCK_ERRNO.
 * Network file systems answer 11 (try again), 37 (no locks available) or 524 (not supported); see h5py#1101.
 * With NOLOCK_LOG set, every refused call appends one byte to that file, so a test can count them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int flock(int fd, int operation)
{
  const char *number = getenv("NOLOCK_ERRNO"), *log = getenv("NOLOCK_LOG");
  if (log) {
    int out = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t written = out < 0 ? 0 : write(out, "x", 1);
    if (out >= 0 && written >= 0) close(out);
  }
  errno = number ? atoi(number) : ENOLCK;
  return -1;
}
