/* See stop.h.  Handlers only store a number; the loop does the rest, agreed by all ranks. */
#include "train/stop.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t requested;

static void on_signal(int number)
{
  if (number == SIGINT && requested == SIGINT) _exit(128 + SIGINT);
  requested = number;
}

void shoal_stop_install(void)
{
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  a.sa_flags = SA_RESTART;
  sigemptyset(&a.sa_mask);
  static const int numbers[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &a, NULL);
  signal(SIGPIPE, SIG_IGN); /* a closed output pipe must not end the training */
}

bool shoal_stop_requested(void)
{
  return requested != 0;
}
