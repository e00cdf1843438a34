/* See relay.h.  A write of at most PIPE_BUF bytes to a pipe that poll says has room does not wait. */
#include "slurm/relay.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS = 2, MOST = 64 << 20, END_MS = 2000 };

typedef struct {
  int from, in; /* the ends of our pipe; -1: none */
  int to;       /* standard output or error; -1: nobody reads it any more */
  char *kept;   /* [n] of cap, after what was passed on already */
  size_t passed, n, cap;
} stream;

static pid_t process;

static bool is_pipe(int fd, struct stat *s)
{
  return fstat(fd, s) == 0 && (S_ISFIFO(s->st_mode) || S_ISSOCK(s->st_mode));
}

static bool open_streams(stream r[STREAMS])
{
  struct stat out, err;
  bool pipes[STREAMS] = { is_pipe(STDOUT_FILENO, &out), is_pipe(STDERR_FILENO, &err) };
  bool shared = pipes[0] && pipes[1] && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  for (int i = 0; i < STREAMS; i++) {
    int ends[2] = { -1, -1 };
    if (pipes[i] && !(i == 1 && shared) && pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
    r[i] = (stream){ .from = ends[0], .in = ends[1], .to = STDOUT_FILENO + i };
  }
  if (shared) r[1].in = r[0].in;
  return r[0].in >= 0 || r[1].in >= 0;
}

/* ---- the process ---- */

static void keep(stream *r, const char *data, size_t n)
{
  if (r->to < 0 || r->n - r->passed + n > MOST) return;
  if (r->passed) memmove(r->kept, r->kept + r->passed, r->n -= r->passed);
  r->passed = 0;
  if (r->n + n > r->cap) {
    size_t cap = SHOAL_MAX(2 * r->cap, r->n + n);
    char *more = realloc(r->kept, cap);
    if (!more) return;
    r->kept = more;
    r->cap = cap;
  }
  memcpy(r->kept + r->n, data, n);
  r->n += n;
}

static void take(stream *r)
{
  char data[8192];
  ssize_t n = read(r->from, data, sizeof data);
  if (n > 0) keep(r, data, (size_t)n);
  if (n == 0) {
    close(r->from);
    r->from = -1;
  }
}

static void pass_on(stream *r)
{
  ssize_t put = write(r->to, r->kept + r->passed, SHOAL_MIN(r->n - r->passed, (size_t)PIPE_BUF));
  if (put > 0) r->passed += (size_t)put;
  if (put < 0 && errno != EINTR && errno != EAGAIN) {
    r->to = -1;
    r->n = r->passed = 0;
  }
}

static _Noreturn void relay(stream r[STREAMS])
{
  for (;;) {
    struct pollfd fds[2 * STREAMS];
    bool more = false;
    for (int i = 0; i < STREAMS; i++) {
      bool waits = r[i].n > r[i].passed;
      fds[2 * i] = (struct pollfd){ .fd = r[i].from, .events = POLLIN };
      fds[2 * i + 1] = (struct pollfd){ .fd = waits ? r[i].to : -1, .events = POLLOUT };
      more = more || waits || r[i].from >= 0;
    }
    if (!more) _exit(0);
    (void)poll(fds, 2 * STREAMS, -1);
    for (int i = 0; i < STREAMS; i++) {
      if (fds[2 * i].revents) take(&r[i]);
      if (fds[2 * i + 1].revents) pass_on(&r[i]);
    }
  }
}

/* It may outlive us: nothing of ours stays open, and a Ctrl-C is not for it. */
static void detach(stream r[STREAMS])
{
  enum { FIRST = STDERR_FILENO + 1 };
  int nothing = open("/dev/null", O_RDONLY), from[STREAMS];
  setsid();
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  (void)!chdir("/");
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  for (int i = 0; i < STREAMS; i++) from[i] = r[i].from >= 0 ? fcntl(r[i].from, F_DUPFD, FIRST + STREAMS) : -1;
  for (int i = 0; i < STREAMS; i++) r[i].from = from[i] >= 0 ? dup2(from[i], FIRST + i) : -1;
  close_range(FIRST + STREAMS, ~0U, 0);
  for (int i = 0; i < STREAMS; i++)
    if (r[i].from < 0) close(FIRST + i);
}

/* ---- who writes ---- */

void shoal_relay_begin(void)
{
  stream r[STREAMS];
  fflush(NULL);
  if (!open_streams(r)) return;
  process = fork();
  if (process == 0) {
    detach(r);
    relay(r);
  }
  for (int i = 0; i < STREAMS; i++) {
    if (r[i].in >= 0 && process > 0) dup2(r[i].in, r[i].to);
    if (r[i].from >= 0) close(r[i].from);
  }
  if (r[1].in >= 0 && r[1].in != r[0].in) close(r[1].in);
  if (r[0].in >= 0) close(r[0].in);
  atexit(shoal_relay_end);
}

void shoal_relay_end(void)
{
  int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  fflush(NULL);
  if (process > 0 && nothing >= 0) {
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    for (int ms = 0; ms < END_MS && waitpid(process, NULL, WNOHANG) == 0; ms += 10)
      nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
  }
  if (nothing >= 0) close(nothing);
}
