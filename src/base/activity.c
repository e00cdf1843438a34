/* See activity.h.  A reader takes a copy and looks whether it was changed meanwhile, so a writer never waits. */
#include "base/activity.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static shoal_activity own;
static shoal_activity *_Atomic current = &own;
static _Thread_local bool announces;
static atomic_uint_least64_t told;       /* since_ns of what the thread has warned of */
static atomic_uint_least64_t longest_ns; /* of what it has warned of, and what has ended */

static struct {
  double warn_s;
  bool even_if_shared, runs, ends; /* ends: under the lock */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t end;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

void shoal_activity_announce(bool on)
{
  announces = on;
}

static void begin_change(shoal_activity *a)
{
  atomic_fetch_add(&a->changes, 1);
  atomic_thread_fence(memory_order_seq_cst);
}

static void end_change(shoal_activity *a)
{
  atomic_thread_fence(memory_order_seq_cst);
  atomic_fetch_add(&a->changes, 1);
}

void shoal_activity_place(shoal_activity *where)
{
  shoal_activity *from = current, *to = where ? where : &own;
  if (from == to) return;
  begin_change(to);
  to->depth = from->depth;
  to->since_ns = from->since_ns;
  to->shared = from->shared;
  memcpy(to->what, from->what, sizeof to->what);
  end_change(to);
  current = to;
}

void shoal_activity_begin(bool shared, const char *format, ...)
{
  shoal_activity *a = current;
  va_list args;
  if (!announces) return;
  begin_change(a);
  int level = a->depth++ ? 1 : 0;
  va_start(args, format);
  vsnprintf(a->what[level], sizeof a->what[level], format, args);
  va_end(args);
  if (level == 0) {
    a->shared = shared;
    a->since_ns = shoal_now_ns();
  }
  end_change(a);
}

void shoal_activity_end(void)
{
  shoal_activity *a = current;
  char text[2 * SHOAL_ACTIVITY_TEXT], taken[32];
  if (!announces || a->depth == 0) return;
  uint64_t since = a->since_ns;
  bool last = a->depth == 1;
  if (last) snprintf(text, sizeof text, "%s", a->what[0]);
  begin_change(a);
  a->depth--;
  if (a->depth < SHOAL_ACTIVITY_LEVELS) a->what[1][0] = '\0';
  end_change(a);
  if (!last || atomic_load(&told) != since) return;
  atomic_store(&longest_ns, shoal_now_ns() - since);
  shoal_warn("%s has ended after %s", text, shoal_format_seconds(shoal_seconds_since(since), taken, sizeof taken));
}

/* A copy of one moment; false if it is changed all the time, so that nothing hangs. */
static bool copy(const shoal_activity *a, shoal_activity *out)
{
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    uint64_t before = atomic_load(&a->changes);
    atomic_thread_fence(memory_order_seq_cst);
    out->depth = a->depth;
    out->since_ns = a->since_ns;
    out->shared = a->shared;
    memcpy(out->what, a->what, sizeof out->what);
    atomic_thread_fence(memory_order_seq_cst);
    if (before % 2 == 0 && atomic_load(&a->changes) == before) return true;
  }
  return false;
}

static bool describe(const shoal_activity *a, double least_s, char *buf, size_t cap)
{
  char taken[32];
  double seconds = a->depth ? shoal_seconds_since(a->since_ns) : 0;
  if (!a->depth || seconds < least_s) return false;
  bool inside = a->depth > 1 && a->what[1][0];
  snprintf(buf, cap, "%s%s%s, for %s", a->what[0], inside ? ", now " : "", inside ? a->what[1] : "",
           shoal_format_seconds(seconds, taken, sizeof taken));
  return true;
}

bool shoal_activity_describe(const shoal_activity *a, double least_s, char *buf, size_t cap)
{
  shoal_activity now;
  return copy(a, &now) && describe(&now, least_s, buf, cap);
}

bool shoal_activity_describe_shared(double least_s, char *buf, size_t cap)
{
  shoal_activity now;
  return copy(current, &now) && now.shared && describe(&now, least_s, buf, cap);
}

static void tell(const char *text)
{
  char host[SHOAL_HOST_NAME], line[4 * SHOAL_ACTIVITY_TEXT];
  snprintf(line, sizeof line, "still %s (host %s); its disk or server may not answer", text, shoal_host_name(host));
  shoal_log_warn_aside(line);
}

/* Rests for a while.  @return  whether to look again */
static bool rest(void)
{
  struct timespec until;
  double seconds = SHOAL_MIN(0.5, watch.warn_s / 4);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)(1e9 * seconds);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&watch.lock);
  while (!watch.ends && pthread_cond_timedwait(&watch.end, &watch.lock, &until) == 0) {}
  bool again = !watch.ends;
  pthread_mutex_unlock(&watch.lock);
  return again;
}

static void *look(void *unused)
{
  (void)unused;
  shoal_activity now;
  char text[3 * SHOAL_ACTIVITY_TEXT];
  while (rest()) {
    if (!copy(current, &now) || (now.shared && !watch.even_if_shared) || now.since_ns == atomic_load(&told)) continue;
    double usual_s = 1e-9 * (double)atomic_load(&longest_ns);
    if (!describe(&now, SHOAL_MAX(watch.warn_s, 2 * usual_s), text, sizeof text)) continue;
    tell(text);
    atomic_store(&told, now.since_ns);
  }
  return NULL;
}

void shoal_activity_watch(double warn_s, bool even_if_shared)
{
  pthread_condattr_t monotonic;
  sigset_t all, before;
  if (!announces || watch.runs) return;
  watch.warn_s = warn_s;
  watch.even_if_shared = even_if_shared;
  watch.ends = false;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&watch.end, &monotonic);
  pthread_condattr_destroy(&monotonic);
  sigfillset(&all); /* no signal is for this thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watch.runs = pthread_create(&watch.thread, NULL, look, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void shoal_activity_watch_end(void)
{
  if (!watch.runs) return;
  pthread_mutex_lock(&watch.lock);
  watch.ends = true;
  pthread_cond_signal(&watch.end);
  pthread_mutex_unlock(&watch.lock);
  pthread_join(watch.thread, NULL);
  pthread_cond_destroy(&watch.end);
  watch.runs = false;
}
