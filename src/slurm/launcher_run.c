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
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ONE_STOP: signals of the first seconds are one: `timeout` and terminals send several. */
enum { ONE_STOP_S = 2, REMIND_MS = 500 };

static const int stops[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP }, pauses[] = { SIGTSTP, SIGCONT };
static volatile sig_atomic_t leaves, asked, ended, child, insisted;
static struct timespec first[SHOAL_COUNT(stops)];

/* Before anything was started. */
static _Noreturn void leave(void)
{
  static const char text[] = "shoal: stopped on request, before the training began\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(shoal_status_exit_code(SHOAL_STOPPED));
}

/* Whether the same signal came before, a while ago.  Batch systems send several kinds, as bkill INT and then TERM: that is no haste. */
static bool comes_again(int signal)
{
  struct timespec now;
  size_t i = 0;
  while (stops[i] != signal) i++;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!first[i].tv_sec) first[i] = now;
  return now.tv_sec - first[i].tv_sec > ONE_STOP_S && signal != SIGUSR1 && signal != SIGUSR2;
}

static void on_stop(int signal)
{
  int error = errno;
  if (leaves) leave();
  bool again = comes_again(signal);
  asked = 1;
  if (signal != SIGUSR1 && signal != SIGUSR2) ended = 1;
  if (again) insisted = signal;
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
  leaves = 0;
  hear(stops, SHOAL_COUNT(stops), on_stop);
  hear(pauses, SHOAL_COUNT(pauses), on_pause);
}

void shoal_launcher_leave_at_stops(void)
{
  shoal_launcher_hear_stops();
  leaves = 1;
}

bool shoal_launcher_stop_asked(void)
{
  return asked;
}

bool shoal_launcher_end_asked(void)
{
  return ended;
}

int shoal_launcher_insisted(void)
{
  return insisted;
}

/* ---- the child ---- */

/* Asks again, unless who asked insists, or the run has heard it. */
static void remind(const shoal_launcher_ear *ear, struct timespec *last)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  long ms = (now.tv_sec - last->tv_sec) * 1000 + (now.tv_nsec - last->tv_nsec) / 1000000;
  if (!asked || insisted || ms < REMIND_MS) return;
  bool repeats = last->tv_sec != 0;
  *last = now;
  if (repeats && child > 0 && !ear->heard(ear->context)) kill((pid_t)child, SIGUSR1);
}

/* Until the launcher has ended.  `mask` lets the signals in, which end a look. */
static int wait_for(pid_t pid, const shoal_launcher_ear *ear, const sigset_t *mask)
{
  int how = 0;
  struct timespec last = { 0 }, most = { REMIND_MS / 1000, REMIND_MS % 1000 * 1000000L };
  while (waitpid(pid, &how, WNOHANG) != pid) {
    (void)ppoll(NULL, 0, asked && ear ? &most : NULL, mask);
    if (ear) remind(ear, &last);
  }
  child = 0;
  return how;
}

static void on_end(int signal)
{
  (void)signal; /* it only ends a wait */
}

/* Until it is another program, a stop ends it. */
static void forget_stops(const sigset_t *mask)
{
  struct sigaction a;
  for (size_t i = 0; i < SHOAL_COUNT(stops); i++)
    if (sigaction(stops[i], NULL, &a) == 0 && a.sa_handler == on_stop) signal(stops[i], SIG_DFL);
  sigprocmask(SIG_SETMASK, mask, NULL);
}

/* Its own process group: a Ctrl-C asks us, and we ask the run.  Should we be killed, it stops with a checkpoint.  To the terminal it is in
 * the background then, whose `stty tostop` must not hold up what it writes. */
static _Noreturn void run_child(const shoal_launcher *l, const shoal_texts *program, pid_t parent, const sigset_t *mask)
{
  int nothing = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGTTOU, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() != parent) _exit(127);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  forget_stops(mask);
  shoal_error_report(shoal_launcher_become(l, program));
  _exit(shoal_status_exit_code(SHOAL_ERR_WORLD));
}

/* Signals wait while there is no child yet that could have them. */
shoal_launcher_end shoal_launcher_run(const shoal_launcher *l, const shoal_texts *program,
                                      const shoal_launcher_ear *ear)
{
  sigset_t held, mask;
  struct sigaction quiet = { .sa_handler = on_end, .sa_flags = SA_RESTART }, before;
  pid_t self = getpid();
  fflush(NULL);
  sigemptyset(&quiet.sa_mask);
  sigemptyset(&held);
  sigaddset(&held, SIGCHLD);
  for (size_t i = 0; i < SHOAL_COUNT(stops); i++) sigaddset(&held, stops[i]);
  sigprocmask(SIG_BLOCK, &held, &mask);
  sigaction(SIGCHLD, &quiet, &before);
  pid_t pid = fork();
  if (pid == 0) run_child(l, program, self, &mask);
  child = pid;
  leaves = 0;
  if (asked && pid > 0) kill(pid, SIGUSR1);
  sigdelset(&held, SIGCHLD);
  sigprocmask(SIG_UNBLOCK, &held, NULL);
  int how = pid > 0 ? wait_for(pid, ear, &mask) : 0;
  child = 0;
  sigaction(SIGCHLD, &before, NULL);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  if (pid < 0) return (shoal_launcher_end){ .code = 127 };
  if (WIFEXITED(how)) return (shoal_launcher_end){ .code = WEXITSTATUS(how) };
  return (shoal_launcher_end){ .code = 128 + WTERMSIG(how), .signal = WTERMSIG(how) };
}
