/* See lease.h. */
#include "train/lease.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ENDING: a killed job's launcher can return a moment before its last process is gone; a restart waits that long. */
enum { LEASE_STALE_S = 120, TOUCH_EVERY_S = 10, LEASE_ENDING_S = 5 };

typedef struct {
  char host[64], job[64];
  long pid;
  unsigned long long started; /* start time of the process in clock ticks: tells a reused pid */
} holder;

static unsigned long long start_time_of(long pid)
{
  char path[64], *text = NULL;
  size_t n;
  unsigned long long ticks = 0;
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  if (shoal_read_file(path, &text, &n) == SHOAL_OK) {
    const char *p = strrchr(text, ')'); /* the name may hold spaces; field 22 counts from there */
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    if (p) ticks = strtoull(p + 1, NULL, 10);
  }
  free(text);
  return ticks;
}

static holder myself(void)
{
  holder h = { .pid = getpid() };
  gethostname(h.host, sizeof h.host - 1);
  const char *job = getenv("SLURM_JOB_ID");
  snprintf(h.job, sizeof h.job, "%s", job ? job : "-");
  h.started = start_time_of(h.pid);
  return h;
}

static bool read_lease(const char *path, holder *out)
{
  char *text = NULL;
  size_t n;
  bool ok = shoal_read_file(path, &text, &n) == SHOAL_OK;
  *out = (holder){ .pid = -1 };
  ok =
      ok && sscanf(text, "job %63s host %63s pid %ld started %llu", out->job, out->host, &out->pid, &out->started) == 4;
  free(text);
  return ok;
}

/* Whether the holder of this lease is certainly gone.  An unreadable lease is judged by its age only. */
static bool lease_is_stale(const char *path)
{
  holder h, me = myself();
  struct stat s;
  if (stat(path, &s) != 0) return errno == ENOENT;
  if (read_lease(path, &h)) {
    if (strcmp(h.job, "-") != 0 && strcmp(h.job, me.job) == 0 && strcmp(h.host, me.host) != 0)
      return true; /* requeued */
    if (strcmp(h.host, me.host) == 0) {
      if (kill((pid_t)h.pid, 0) != 0 && errno == ESRCH) return true;
      return start_time_of(h.pid) != h.started;
    }
  }
  return time(NULL) - s.st_mtime > LEASE_STALE_S;
}

/* One attempt to create the file exclusively.  A stale lease is renamed first: if two processes find it stale, only one
 * rename succeeds, and O_EXCL decides who creates the new one. */
static int make_lease(const char *path)
{
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd >= 0 || errno != EEXIST || !lease_is_stale(path)) return fd;
  char *aside = shoal_strdup_printf("%s.stale-%ld", path, (long)getpid());
  if (rename(path, aside) == 0) {
    shoal_info("took over the lease of a run that is gone");
    unlink(aside);
  }
  free(aside);
  return open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
}

static shoal_status write_lease(shoal_lease *l, int fd)
{
  holder me = myself();
  l->held = dprintf(fd, "job %s host %s pid %ld started %llu\n", me.job, me.host, me.pid, me.started) > 0;
  if (l->held) return SHOAL_OK;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s", l->path, strerror(errno));
  unlink(l->path);
  return st;
}

static shoal_status refuse_lease(const char *dir, const char *path)
{
  if (errno != EEXIST) return SHOAL_FAIL(SHOAL_ERR_IO, "cannot make %s: %s", path, strerror(errno));
  holder h;
  read_lease(path, &h);
  return SHOAL_FAIL(
      SHOAL_ERR_WORLD,
      "%s is in use by another run (job %s, host %s, process %ld); wait for it, or choose another run.name", dir, h.job,
      h.host, h.pid);
}

shoal_status shoal_lease_take(const char *dir, shoal_lease *l)
{
  *l = (shoal_lease){ .path = shoal_path_join(dir, "lease") };
  uint64_t start = shoal_now_ns();
  int fd = make_lease(l->path);
  while (fd < 0 && errno == EEXIST && shoal_seconds_since(start) < LEASE_ENDING_S) {
    usleep(200000);
    fd = make_lease(l->path);
  }
  shoal_status st = fd >= 0 ? write_lease(l, fd) : refuse_lease(dir, l->path);
  if (fd >= 0) close(fd);
  return st;
}

void shoal_lease_touch(shoal_lease *l)
{
  if (!l->held || shoal_seconds_since(l->touched_ns) < TOUCH_EVERY_S) return;
  utimensat(AT_FDCWD, l->path, NULL, 0);
  l->touched_ns = shoal_now_ns();
}

void shoal_lease_release(shoal_lease *l)
{
  if (l->held) unlink(l->path);
  free(l->path);
  *l = (shoal_lease){ 0 };
}
