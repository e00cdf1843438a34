/* A start that does not come to an end: MPI_Init, and the barrier after it, wait for all ranks, without a limit and in silence.
 * No exchange exists yet that could be watched, and nobody knows here which rank is missing.  So a thread of every rank looks
 * at the clock: after warn_s rank 0 says that some have not come, after hang_s every rank ends, rank 0 a little earlier, so
 * that the launcher ends the others in silence. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "comm/group_impl.h"
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { OTHERS_LATER_S = 3 };

/* Waits for `seconds` from the begin on.  @return  false: the start is over */
static bool lasts(shoal_start *s, double seconds)
{
  struct timespec until = s->began;
  until.tv_sec += (time_t)seconds;
  until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&s->lock);
  while (!s->over && pthread_cond_timedwait(&s->end, &s->lock, &until) == 0) {}
  bool still = !s->over;
  pthread_mutex_unlock(&s->lock);
  return still;
}

static void *look_at_clock(void *start)
{
  shoal_start *s = start;
  char host[SHOAL_HOST_NAME], ranks[32] = "its ranks";
  const double warn_s = s->warn_s, hang_s = s->hang_s;
  shoal_host_name(host);
  if (s->size > 0) snprintf(ranks, sizeof ranks, "the %d ranks", s->size);
  if (warn_s < hang_s && lasts(s, warn_s) && s->rank <= 0)
    shoal_warn(
        "MPI has not started after %.3g s: rank 0 (%s) waits in MPI_Init, some of %s have not come; see whether all of "
        "them run, and whether their hosts reach each other; giving up after %.3g s",
        warn_s, host, ranks, hang_s);
  if (!lasts(s, hang_s + (s->rank > 0 ? OTHERS_LATER_S : 0))) return NULL;
  shoal_log(SHOAL_LOG_ERROR,
            "MPI has not started: rank %d (%s) waited in MPI_Init, some of %s did not come; gave up after %.3g s "
            "(comm.hang)",
            s->rank < 0 ? 0 : s->rank, host, ranks, hang_s);
  _exit(shoal_error_exit_code(SHOAL_ERR_HANG));
}

void shoal_start_begin(shoal_start *s)
{
  sigset_t all, before;
  pthread_condattr_t monotonic;
  s->runs = s->over = false;
  pthread_mutex_init(&s->lock, NULL);
  clock_gettime(CLOCK_MONOTONIC, &s->began);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s->end, &monotonic);
  pthread_condattr_destroy(&monotonic);
  sigfillset(&all); /* no signal is for this thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  s->runs = pthread_create(&s->thread, NULL, look_at_clock, s) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void shoal_start_end(shoal_start *s)
{
  pthread_mutex_lock(&s->lock);
  s->over = true;
  pthread_cond_signal(&s->end);
  pthread_mutex_unlock(&s->lock);
  if (s->runs) pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->end);
  pthread_mutex_destroy(&s->lock);
}
