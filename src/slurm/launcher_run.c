/* Running a launcher as a child.
 *
 * Launchers must not take the signals that end a run themselves.  To TERM srun answers with KILL to all ranks, and mpirun with TERM
 * after a second and KILL after another one, which only a quick checkpoint survives, and their exit codes are not those of the
 * run.  USR1 they hand on at once.  So a signal that asks to stop becomes USR1 here; who insists gets what the launcher does. */
#include "base/error.h"
#include "base/mem.h"
#include "slurm/launcher.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ONE_STOP_S = 2 }; /* signals of the first seconds are one: `timeout` and terminals send several */

static volatile sig_atomic_t asked, ended, child, insisted;
static struct timespec first;

static void on_stop(int signal)
{
  struct timespec now;
  int error = errno;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!asked) first = now;
  asked = 1;
  if (signal != SIGUSR1 && signal != SIGUSR2) ended = 1;
  bool again = now.tv_sec - first.tv_sec > ONE_STOP_S && signal != SIGUSR1 && signal != SIGUSR2;
  insisted = insisted || again;
  if (child > 0) kill((pid_t)child, again ? SIGTERM : SIGUSR1);
  errno = error;
}

/* Ctrl-Z in a terminal, and `fg`: the run in its process group pauses with us. */
static void on_pause(int signal)
{
  int error = errno;
  if (child > 0) kill((pid_t)child, signal);
  if (signal == SIGTSTP) raise(SIGSTOP);
  errno = error;
}

static void hear(const int *signals, size_t n, void (*handler)(int))
{
  struct sigaction a = { .sa_handler = handler, .sa_flags = SA_RESTART }, was;
  sigemptyset(&a.sa_mask);
  for (size_t i = 0; i < n; i++)
    if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL);
}

void shoal_launcher_hear_stops(void)
{
  static const int stops[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP }, pauses[] = { SIGTSTP, SIGCONT };
  hear(stops, SHOAL_COUNT(stops), on_stop);
  hear(pauses, SHOAL_COUNT(pauses), on_pause);
}

bool shoal_launcher_stop_asked(void)
{
  return asked;
}

bool shoal_launcher_end_asked(void)
{
  return ended;
}

/* Its own process group: a Ctrl-C asks us, and we ask the run.  Should we be killed, it stops with a checkpoint. */
static _Noreturn void run_child(const shoal_launcher *l, const shoal_texts *program, pid_t parent)
{
  int nothing = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() != parent) _exit(127);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  shoal_error_report(shoal_launcher_become(l, program));
  _exit(shoal_status_exit_code(SHOAL_ERR_WORLD));
}

int shoal_launcher_run(const shoal_launcher *l, const shoal_texts *program)
{
  int how = 0;
  pid_t self = getpid();
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) run_child(l, program, self);
  child = pid;
  if (asked && pid > 0) kill(pid, SIGUSR1);
  while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
  child = 0;
  if (pid < 0) return 127;
  return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}
