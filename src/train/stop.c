/* See stop.h.  Handlers only store a number; the loop does the rest, agreed by all ranks.
 *
 * They run in a thread of their own, which does little else (base/pause.h); all others block these signals.  The kernel writes a signal's frame below
 * the stack pointer, and oneDNN's matrix products on CPUs with AVX-512 let it point into a work space on the heap for a while: a
 * signal in that moment destroyed what lay before it. */
#include "train/stop.h"
#include "base/mem.h"
#include "base/pause.h"
#include "base/process.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const struct {
  int number;
  const char *name;
} signals[SHOAL_STOP_SIGNALS] = {
  [SHOAL_STOP_USR1] = { SIGUSR1, "USR1" }, [SHOAL_STOP_TERM] = { SIGTERM, "TERM" },
  [SHOAL_STOP_USR2] = { SIGUSR2, "USR2" }, [SHOAL_STOP_INT] = { SIGINT, "INT" },
  [SHOAL_STOP_HUP] = { SIGHUP, "HUP" },
};
static atomic_int requested, signals_heard, hung_up, first;
static atomic_llong first_at; /* seconds of time(); 0: none yet */
static int terminal;          /* at the start; 0: none */
static bool ignored[SHOAL_STOP_SIGNALS];

/* Processor time is limited, and used up first: the soft limit comes as a signal, the hard one kills, so there must be time between. */
static int64_t cpu_limit_s;

static bool limit_cpu(void)
{
  enum { LEAD_S = 30 };
  struct rlimit l;
  if (getrlimit(RLIMIT_CPU, &l) != 0 || (l.rlim_cur == RLIM_INFINITY && l.rlim_max == RLIM_INFINITY)) return false;
  if (l.rlim_max != RLIM_INFINITY) {
    rlim_t lead = SHOAL_MAX(SHOAL_MIN(l.rlim_max / 10, (rlim_t)LEAD_S), (rlim_t)1);
    l.rlim_cur = SHOAL_MIN(l.rlim_cur, l.rlim_max - SHOAL_MIN(lead, l.rlim_max));
    setrlimit(RLIMIT_CPU, &l);
  }
  cpu_limit_s = (int64_t)l.rlim_cur;
  return true;
}

static void on_signal(int number)
{
  if (number == SIGINT && requested == SIGINT) _exit(128 + SIGINT);
  if (!first) {
    first_at = (long long)time(NULL);
    first = number;
  }
  requested = number;
  if (number == SIGHUP) hung_up = 1;
  signals_heard++;
}

static void *listen(void *unused)
{
  const struct timespec nap = { .tv_nsec = SHOAL_PAUSE_LOOK_MS * 1000000L };
  for (;;) {
    shoal_pause_look(shoal_now_ns());
    nanosleep(&nap, NULL);
  }
  return unused;
}

/* Threads that are created later block what this one does.  Signals that `shoal launch` held back come now. */
static void hear_in_own_thread(const sigset_t *caught)
{
  pthread_t thread;
  sigset_t others, before;
  sigfillset(&others);
  for (int i = 0; i < SHOAL_STOP_SIGNALS; i++)
    if (sigismember(caught, signals[i].number)) sigdelset(&others, signals[i].number);
  if (sigismember(caught, SIGXCPU)) sigdelset(&others, SIGXCPU);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  bool listens = pthread_create(&thread, NULL, listen, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_sigmask(listens ? SIG_BLOCK : SIG_UNBLOCK, caught, NULL);
  if (listens) pthread_detach(thread);
}

static int terminal_now(void)
{
  shoal_process p = { 0 };
  (void)shoal_process_lives(getpid(), &p);
  return p.terminal;
}

void shoal_stop_install(void)
{
  terminal = terminal_now();
  struct sigaction a, before;
  sigset_t caught;
  sigemptyset(&caught);
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  a.sa_flags = SA_RESTART;
  sigemptyset(&a.sa_mask);
  for (int i = 0; i < SHOAL_STOP_SIGNALS; i++) {
    ignored[i] = sigaction(signals[i].number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (ignored[i]) continue;
    sigaction(signals[i].number, &a, NULL);
    sigaddset(&caught, signals[i].number);
  }
  if (limit_cpu()) {
    sigaction(SIGXCPU, &a, NULL);
    sigaddset(&caught, SIGXCPU);
  }
  hear_in_own_thread(&caught);
  if (!isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO)) {
    ignored[SHOAL_STOP_HUP] = true;
    signal(SIGHUP, SIG_IGN);
  }
  signal(SIGPIPE, SIG_IGN); /* a closed output pipe must not end the training */
}

bool shoal_stop_requested(void)
{
  return requested != 0;
}

/* A terminal that hangs up is taken from all processes of its session before any hears of it. */
bool shoal_stop_terminal_gone(void)
{
  return hung_up || (terminal && !terminal_now());
}

int64_t shoal_stop_cpu_limit(void)
{
  return cpu_limit_s;
}

int shoal_stop_count(void)
{
  return signals_heard;
}

const char *shoal_stop_words(char out[SHOAL_STOP_WORDS])
{
  const char *name = "the limit of processor time";
  char clock[16];
  time_t at = (time_t)first_at;
  struct tm when;
  for (int i = 0; i < SHOAL_STOP_SIGNALS; i++)
    if (signals[i].number == first) name = signals[i].name;
  strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&at, &when));
  if (first)
    snprintf(out, SHOAL_STOP_WORDS, "%s at %s", name, clock);
  else
    snprintf(out, SHOAL_STOP_WORDS, "a signal");
  return out;
}

const char *shoal_stop_name(int which)
{
  return signals[which].name;
}

bool shoal_stop_ignores(int which)
{
  return ignored[which];
}
