/* See stop.h.  Handlers only store a number; the loop does the rest, agreed by all ranks. */
#include "train/stop.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct {
  int number;
  const char *name;
} signals[SHOAL_STOP_SIGNALS] = {
  [SHOAL_STOP_USR1] = { SIGUSR1, "USR1" }, [SHOAL_STOP_TERM] = { SIGTERM, "TERM" },
  [SHOAL_STOP_USR2] = { SIGUSR2, "USR2" }, [SHOAL_STOP_INT] = { SIGINT, "INT" },
  [SHOAL_STOP_HUP] = { SIGHUP, "HUP" },
};
static volatile sig_atomic_t requested, signals_heard;
static bool ignored[SHOAL_STOP_SIGNALS];

static void on_signal(int number)
{
  if (number == SIGINT && requested == SIGINT) _exit(128 + SIGINT);
  requested = number;
  signals_heard++;
}

void shoal_stop_install(void)
{
  struct sigaction a, before;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  a.sa_flags = SA_RESTART;
  sigemptyset(&a.sa_mask);
  for (int i = 0; i < SHOAL_STOP_SIGNALS; i++) {
    ignored[i] = sigaction(signals[i].number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored[i]) sigaction(signals[i].number, &a, NULL);
  }
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

int shoal_stop_count(void)
{
  return signals_heard;
}

const char *shoal_stop_name(int which)
{
  return signals[which].name;
}

bool shoal_stop_ignores(int which)
{
  return ignored[which];
}
