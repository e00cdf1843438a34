/* See child.h.  The child has this process's memory as it is now, so nothing has to be handed over.  It ends by _exit:
 * buffers and files stay the parent's. */
#include "base/child.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_FACTOR = 20 };

static _Noreturn void run(void (*what)(void *context), void *context, int seconds)
{
  static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGALRM };
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  shoal_log_set_file(NULL);
  if (nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
    signal(deadly[i], SIG_DFL); /* MPI prints a stack in its own */
  setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
  setrlimit(RLIMIT_CPU, &(struct rlimit){ (rlim_t)seconds, (rlim_t)seconds + 1 });
  alarm(WAIT_FACTOR * (unsigned)seconds); /* a child that waits for ever uses no processor time */
  what(context);
  _exit(0);
}

bool shoal_survives(void (*what)(void *context), void *context, int seconds)
{
  int how = 0;
  pid_t child = fork();
  if (child == 0) run(what, context, seconds);
  if (child < 0) return false;
  while (waitpid(child, &how, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}
