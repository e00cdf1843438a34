/* See pause.h.  Who asks looks, too: after a pause the thread that looks may be the last to run again. */
#include "base/pause.h"
#include "base/mem.h"
#include <pthread.h>
#include <stdlib.h>

typedef struct {
  uint64_t from_ns, to_ns;
} pause_span;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seen_ns; /* the last look; 0: none yet */
static pause_span *spans;
static size_t n_spans;

/* Without memory for one more the last one grows: its end is right, and it counts too much. */
static void add(uint64_t from_ns, uint64_t to_ns)
{
  pause_span *more = realloc(spans, (n_spans + 1) * sizeof *more);
  if (more) {
    spans = more;
    spans[n_spans++] = (pause_span){ from_ns, to_ns };
  } else if (n_spans) {
    spans[n_spans - 1].to_ns = to_ns;
  }
}

/* A pause began somewhere in the half second after the look before it. */
static void look(uint64_t now_ns)
{
  const uint64_t ms = 1000000;
  if (now_ns <= seen_ns) return;
  if (seen_ns && now_ns - seen_ns >= SHOAL_PAUSE_LEAST_MS * ms) add(seen_ns + SHOAL_PAUSE_LOOK_MS * ms / 2, now_ns);
  seen_ns = now_ns;
}

void shoal_pause_look(uint64_t now_ns)
{
  pthread_mutex_lock(&lock);
  look(now_ns);
  pthread_mutex_unlock(&lock);
}

uint64_t shoal_paused_ns(uint64_t from_ns, uint64_t to_ns)
{
  uint64_t sum = 0;
  pthread_mutex_lock(&lock);
  if (seen_ns) look(to_ns);
  for (size_t i = n_spans; i-- > 0 && spans[i].to_ns > from_ns;) {
    uint64_t from = SHOAL_MAX(spans[i].from_ns, from_ns), to = SHOAL_MIN(spans[i].to_ns, to_ns);
    if (to > from) sum += to - from;
  }
  pthread_mutex_unlock(&lock);
  return sum;
}

double shoal_worked_since(uint64_t start_ns)
{
  uint64_t now = shoal_now_ns();
  return (double)(now - start_ns - shoal_paused_ns(start_ns, now)) * 1e-9;
}
