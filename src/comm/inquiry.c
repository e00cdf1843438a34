/* One report of a hang for the whole job, instead of one from every rank that waits.
 *
 * A rank that has waited for too long does not warn: it sends a note to the rank that collects, which answers.  That is
 * rank 0; if it does not answer soon, because it hangs or is busy elsewhere, rank 1 is asked, then 2, 4, 8 and so on; a rank
 * that reaches itself in this list collects.  Ranks listen for notes only while they wait, so a rank that sends none is
 * one that does not wait: it hangs, or the others are early.  Those are the ranks that the report names.
 *
 *     rank 0  waits ───────── collects: "3 of 4 ranks wait for rank 2"
 *     rank 1  waits ── note ──↗ ↘ answer: stays silent, and gives up a little later than rank 0
 *     rank 2  (hangs)
 *     rank 3  waits ── note ──↗ ↘ answer
 *
 * Notes have a channel of their own, so that none can hide behind other messages.  They are empty: that one came says
 * all.  Those that came before a rank began to listen may be of an earlier wait and are answered, but not counted; an
 * answered rank repeats its note, and asks anew when the answers stop.  If no rank answers, every rank reports by
 * itself. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_NOTE = 1, TAG_ANSWER = 2, BYTES = 8, TRIES = 1000, SILENCE_S = 5 };

struct shoal_inquiry {
  shoal_channel *channel;
  char out[BYTES]; /* of every message sent; lives as long as the channel */
  int asked;       /* the rank that was asked last; -1: none */
  uint64_t asked_ns, answered_ns, listened_ns;
  bool answered; /* another rank reports for this one */
  bool collects;
  bool *waits; /* [size] has sent a note in this wait */
};

shoal_status shoal_inquiry_create(shoal_world *w, const int *ranks, shoal_inquiry **out)
{
  shoal_inquiry *q;
  SHOAL_TRY(SHOAL_ALLOC(1, &q));
  q->asked = -1;
  shoal_status st = SHOAL_ALLOC((size_t)w->size, &q->waits);
  if (st == SHOAL_OK && w->size > 1) st = w->transport->reserve(w, 1); /* one message at a time */
  if (st == SHOAL_OK && w->size > 1) st = w->transport->connect(w, ranks, w->size, &q->channel);
  if (st == SHOAL_OK)
    *out = q;
  else
    shoal_inquiry_destroy(w, q);
  return st;
}

void shoal_inquiry_destroy(const shoal_world *w, shoal_inquiry *q)
{
  if (!q) return;
  if (q->channel) w->transport->disconnect(q->channel);
  free(q->waits);
  free(q);
}

/* Small messages end at once; one that does not is left to the library.  What else completes meanwhile is for the next
 * progress call. */
static void finish(shoal_world *w, int slot)
{
  size_t completed = 0, got;
  for (int i = 0; i < TRIES && w->transport->state(w, slot, &got) == SHOAL_SLOT_PENDING; i++) {
    if (w->transport->poll(w, &completed) != SHOAL_OK) break;
    w->polled |= completed > 0;
  }
  w->transport->release(w, slot);
}

static void send(shoal_world *w, int to, int tag)
{
  shoal_inquiry *q = w->inquiry;
  int slot;
  if (w->transport->send(q->channel, q->out, sizeof q->out, to, tag, &slot) == SHOAL_OK) finish(w, slot);
}

static void take(shoal_world *w, int from, int tag, size_t bytes, bool counts)
{
  shoal_inquiry *q = w->inquiry;
  char in[BYTES];
  int slot;
  if (bytes != sizeof in || w->transport->recv(q->channel, in, sizeof in, from, tag, &slot) != SHOAL_OK) return;
  finish(w, slot);
  if (tag == TAG_NOTE) {
    q->waits[from] |= counts;
    send(w, from, TAG_ANSWER);
  } else if (from == q->asked) {
    q->answered = true;
    q->answered_ns = shoal_now_ns();
  }
}

static void listen(shoal_world *w, bool counts)
{
  shoal_inquiry *q = w->inquiry;
  size_t bytes;
  int tag, from = SHOAL_FROM_ANY;
  q->listened_ns = shoal_now_ns();
  for (int i = 0; q->channel && i < w->size + TRIES && w->transport->peek(q->channel, &from, &tag, &bytes); i++) {
    take(w, from, tag, bytes, counts);
    from = SHOAL_FROM_ANY;
  }
}

void shoal_inquiry_begin(shoal_world *w)
{
  shoal_inquiry *q = w->inquiry;
  q->asked = -1;
  q->answered = q->collects = false;
  memset(q->waits, 0, (size_t)w->size * sizeof *q->waits);
  listen(w, false);
}

void shoal_inquiry_listen(shoal_world *w)
{
  if (shoal_seconds_since(w->inquiry->listened_ns) >= 0.02) listen(w, true);
}

static int next_asked(int asked)
{
  return asked < 1 ? asked + 1 : 2 * asked;
}

static void ask(shoal_world *w, int rank)
{
  shoal_inquiry *q = w->inquiry;
  q->asked = rank;
  q->asked_ns = shoal_now_ns();
  q->collects = rank == w->rank || rank >= w->size;
  if (!q->collects) send(w, rank, TAG_NOTE);
}

bool shoal_inquiry_hold(shoal_world *w, double settle_s)
{
  shoal_inquiry *q = w->inquiry;
  if (!q->channel) return false;
  if (q->answered && shoal_seconds_since(q->answered_ns) > SILENCE_S) {
    q->answered = false;
    q->asked = -1;
  }
  double since = shoal_seconds_since(q->asked_ns);
  if (q->collects) return since < settle_s;
  if (q->answered && since > settle_s / 2) ask(w, q->asked);
  if (!q->answered && (q->asked < 0 || since > 2 * settle_s)) ask(w, next_asked(q->asked));
  return true;
}

bool shoal_inquiry_waits(const shoal_world *w, int rank)
{
  return w->inquiry->waits[rank];
}

bool shoal_inquiry_answered(const shoal_world *w)
{
  return w->inquiry->answered;
}

bool shoal_inquiry_describe(const shoal_world *w, double seconds, shoal_str *out)
{
  enum { NAMED = 8 };
  const shoal_inquiry *q = w->inquiry;
  int waiting = 1, named = 0;
  for (int r = 0; r < w->size; r++) waiting += q->waits[r] && r != w->rank;
  if (waiting == 1) return false; /* nobody else was heard: what this rank sees is all there is */
  shoal_str_add(out, "%d of %d ranks wait", waiting, w->size);
  for (int r = 0; r < w->size; r++) {
    if (q->waits[r] || r == w->rank || named++ >= NAMED) continue;
    shoal_str_add(out, "%srank %d (%s)", named == 1 ? " for " : ", ", r, w->topo ? w->topo->places[r].host : "?");
  }
  if (named > NAMED) shoal_str_add(out, " and %d more", named - NAMED);
  char since[40];
  time_t began = time(NULL) - (time_t)seconds;
  struct tm utc;
  strftime(since, sizeof since, "%H:%M:%SZ", gmtime_r(&began, &utc));
  shoal_str_add(out, "%s since %s; on rank %d ", named ? "" : ", each for another,", since, w->rank);
  return named > 0;
}
