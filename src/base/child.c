/* See child.h.  The child has this process's memory as it is now, so nothing has to be handed over; its error, which has no
 * pointers but one to static text, comes back through a pipe, and its last note, which it may not live to send, in shared memory.  It ends by _exit: buffers and files stay the parent's. */
#include "base/child.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_FACTOR = 20 };

/* Allows `bytes` more than are mapped by now; the sanitizers' shadow counts, so no fixed limit would do. */
static void limit_memory(uint64_t bytes)
{
  unsigned long long pages = 0;
  struct rlimit r;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f && fscanf(f, "%*u %*u %*u %*u %*u %llu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  uint64_t now = pages * (uint64_t)sysconf(_SC_PAGESIZE);
  if (pages == 0 || bytes > RLIM_INFINITY - now - 1 || getrlimit(RLIMIT_DATA, &r) != 0) return;
  r.rlim_cur = SHOAL_MIN(r.rlim_cur, now + bytes);
  setrlimit(RLIMIT_DATA, &r);
}

static void prepare(int seconds, uint64_t bytes)
{
  static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGALRM };
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  shoal_log_set_file(NULL, NULL);
  shoal_activity_announce(false);  /* the parent's is shared memory */
  shoal_interrupt_arm(NULL, NULL); /* asking would take messages from the parent's connections */
  if (nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
    signal(deadly[i], SIG_DFL); /* MPI prints a stack in its own */
  pthread_sigmask(SIG_UNBLOCK, &all, NULL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
  setrlimit(RLIMIT_CPU, &(struct rlimit){ (rlim_t)seconds, (rlim_t)seconds + 1 });
  limit_memory(bytes);
  alarm(WAIT_FACTOR * (unsigned)seconds); /* a child that waits for ever uses no processor time */
}

/* Sends the error; a pipe holds it whole, so this does not wait for the parent. */
static _Noreturn void answer(int to, shoal_status st)
{
  shoal_error e = { .code = SHOAL_OK };
  shoal_error_keep(&e, st);
  _exit(write(to, &e, sizeof e) == (ssize_t)sizeof e ? 0 : 1);
}

static bool await(pid_t child, int from, shoal_status *st_out)
{
  int how = 0;
  shoal_error e;
  while (waitpid(child, &how, 0) < 0)
    if (errno != EINTR) return false;
  if (!WIFEXITED(how) || WEXITSTATUS(how) != 0 || read(from, &e, sizeof e) != (ssize_t)sizeof e) return false;
  *st_out = e.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&e);
  return true;
}

/* Of the child; NULL in all other processes. */
static char *noted;

bool shoal_is_child(void)
{
  return noted != NULL;
}

void shoal_child_note(const char *place)
{
  if (noted) snprintf(noted, SHOAL_CHILD_PLACE, "%s", place);
}

bool shoal_survives(shoal_status (*what)(void *context), void *context, int seconds, uint64_t bytes,
                    char place[SHOAL_CHILD_PLACE], shoal_status *st_out)
{
  int ends[2];
  if (place) place[0] = '\0';
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  void *shared = mmap(NULL, SHOAL_CHILD_PLACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) {
    prepare(seconds, bytes);
    if (shared != MAP_FAILED) noted = shared;
    answer(ends[1], what(context));
  }
  close(ends[1]);
  bool survived = child > 0 && await(child, ends[0], st_out);
  close(ends[0]);
  if (shared == MAP_FAILED) return survived;
  if (place) snprintf(place, SHOAL_CHILD_PLACE, "%s", (const char *)shared);
  munmap(shared, SHOAL_CHILD_PLACE);
  return survived;
}
