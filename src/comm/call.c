/* Meetings of ranks on their own clocks: see exchange.h.
 *
 * Two things make one: a rumour, and an agreement.  The rumour is a flight that never ends.  From each of the
 * ranks r - 2^k a receive of 16 bytes is always posted; what comes is the number of a meeting and what it is for, and if
 * that is news it goes on to the ranks r + 2^k.  Every rank passes on every piece of news once, so a call costs at most
 * lg p messages per rank and reaches everybody in lg p hops, each as long as a rank goes without polling.  The
 * agreement (vote.c) is the meeting itself: whoever starts it is there, and it ends when all are.
 *
 * Being late is not being gone: a rank that trains on sends its rumour again every few seconds to those who might wait
 * for it.  One that waits does so only as long as it hears from the rank it waits for itself.  So silence spreads from
 * where it begins, and the watcher's clock runs out first at those who wait for the silent rank directly. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>

typedef struct {
  int64_t number, what;
} rumour;

struct shoal_call {
  shoal_flight f; /* of the rumour */
  char *name;
  int rounds;
  rumour in[SHOAL_AGREEMENT_ROUNDS], out[SHOAL_AGREEMENT_ROUNDS];
  int in_slot[SHOAL_AGREEMENT_ROUNDS], out_slot[SHOAL_AGREEMENT_ROUNDS];
  bool news[SHOAL_AGREEMENT_ROUNDS]; /* to be sent to r + 2^k */
  uint64_t heard_ns[SHOAL_AGREEMENT_ROUNDS];
  int64_t number, asked, next; /* the coming meeting, what it is for, what the one after it is for */
  shoal_agreement meeting;
  uint64_t plan; /* of the meetings' tags */
  uint64_t beat_ns, beat_every_ns;
};

static int peer_after(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank + ((int64_t)1 << round)) % g->size);
}

static int peer_before(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank - ((int64_t)1 << round) + g->size) % g->size);
}

static void spread(shoal_call *c)
{
  for (int k = 0; k < c->rounds; k++) c->news[k] = true;
}

/* Ranks are at most one meeting apart: nobody leaves one before all have come. */
static void hear(shoal_call *c, const rumour *r)
{
  if (r->number == c->number + 1) c->next = SHOAL_MAX(c->next, r->what);
  if (r->number != c->number || r->what <= c->asked) return;
  c->asked = r->what;
  spread(c);
}

static shoal_status listen(shoal_call *c, int k)
{
  return shoal_flight_recv(&c->f, &c->in[k], sizeof c->in[k], peer_before(c->f.g, k), &c->in_slot[k]);
}

static shoal_status receive(shoal_call *c, int k, bool *moved)
{
  bool come;
  SHOAL_TRY(shoal_flight_look(&c->f, c->in_slot[k], peer_before(c->f.g, k), sizeof c->in[k], &come));
  if (!come) return SHOAL_OK;
  *moved = true;
  c->heard_ns[k] = shoal_now_ns();
  c->f.g->w->transport->release(c->f.g->w, c->in_slot[k]);
  c->in_slot[k] = -1;
  hear(c, &c->in[k]);
  return listen(c, k);
}

static shoal_status send(shoal_call *c, int k, bool *moved)
{
  shoal_group *g = c->f.g;
  bool gone = c->out_slot[k] < 0;
  if (!gone) SHOAL_TRY(shoal_flight_look(&c->f, c->out_slot[k], peer_after(g, k), sizeof c->out[k], &gone));
  if (!gone) return SHOAL_OK;
  if (c->out_slot[k] >= 0) g->w->transport->release(g->w, c->out_slot[k]);
  c->out_slot[k] = -1;
  if (!c->news[k]) return SHOAL_OK;
  c->news[k] = false;
  *moved = true;
  c->out[k] = (rumour){ c->number, c->asked };
  return shoal_flight_send(&c->f, &c->out[k], sizeof c->out[k], peer_after(g, k), &c->out_slot[k]);
}

static shoal_status call_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_call *c = (shoal_call *)f;
  *done = false;
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(receive(c, k, moved));
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(send(c, k, moved));
  return SHOAL_OK;
}

static int call_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  return -1; /* nobody waits for a rumour */
}

static void call_give_up(shoal_flight *f)
{
  shoal_call *c = (shoal_call *)f;
  for (int k = 0; k < c->rounds; k++) {
    if (c->in_slot[k] >= 0) f->g->w->transport->release(f->g->w, c->in_slot[k]);
    if (c->out_slot[k] >= 0) f->g->w->transport->release(f->g->w, c->out_slot[k]);
    c->in_slot[k] = c->out_slot[k] = -1;
  }
}

static const shoal_flight_ops call_ops = { call_advance, call_describe, call_give_up };

static shoal_status start(shoal_call *c, const char *name)
{
  shoal_world *w = c->f.g->w;
  SHOAL_CHECK(c->name, SHOAL_ERR_MEM, "out of memory: call %s", name);
  if (c->rounds == 0) return SHOAL_OK;
  SHOAL_TRY(w->transport->reserve(w, 4 * c->rounds));
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(listen(c, k));
  return shoal_flight_start(&c->f);
}

shoal_status shoal_call_create(shoal_group *control, const char *name, shoal_call **out)
{
  shoal_call *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->name = shoal_strdup_printf("call \"%s\"", name);
  c->f = (shoal_flight){ .ops = &call_ops, .g = control, .name = c->name, .control = true };
  c->f.tag = shoal_group_plan_tag(control, control->plans++, 0);
  c->plan = control->plans++;
  shoal_agreement_init(&c->meeting, control, c->name);
  c->number = 1;
  double every = SHOAL_MIN(control->w->o.warn_s, control->w->o.hang_s) / 4;
  c->beat_every_ns = (uint64_t)(every * 1e9);
  while ((int64_t)1 << c->rounds < control->size) c->rounds++;
  for (int k = 0; k < c->rounds; k++) c->in_slot[k] = c->out_slot[k] = -1;
  shoal_status st = start(c, name);
  if (st == SHOAL_OK)
    *out = c;
  else
    shoal_call_destroy(c);
  return st;
}

void shoal_call_destroy(shoal_call *c)
{
  if (!c) return;
  shoal_flight_end(&c->f, SHOAL_ERR_COMM); /* receives that nobody will answer any more */
  shoal_flight_end(&c->meeting.f, SHOAL_ERR_COMM);
  if (c->rounds) (void)c->f.g->w->transport->reserve(c->f.g->w, -4 * c->rounds);
  free(c->name);
  free(c);
}

/* Send what there is to send now, without waiting for the next poll. */
static shoal_status push(shoal_call *c)
{
  bool moved = false;
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(send(c, k, &moved));
  return SHOAL_OK;
}

shoal_status shoal_call_ask(shoal_call *c, int64_t what)
{
  if (what <= c->asked) return SHOAL_OK;
  c->asked = what;
  spread(c);
  return push(c);
}

int64_t shoal_call_heard(const shoal_call *c)
{
  return c->asked;
}

shoal_status shoal_call_beat(shoal_call *c)
{
  uint64_t now = shoal_now_ns();
  if (!c->asked || now - c->beat_ns < c->beat_every_ns) return SHOAL_OK;
  c->beat_ns = now;
  spread(c);
  return push(c);
}

/* Called while waiting: the watcher, whose clock starts anew with every sign of life, and our own for others. */
static shoal_status watch_over(shoal_call *c, shoal_watch *watch, uint64_t arrived_ns)
{
  shoal_agreement *a = &c->meeting;
  if (a->round == a->rounds) return shoal_watch_check(watch, &a->f);
  uint64_t heard = SHOAL_MAX(c->heard_ns[a->round], arrived_ns);
  if (shoal_now_ns() - heard < 3 * c->beat_every_ns) SHOAL_TRY(shoal_call_beat(c));
  a->f.moved_ns = SHOAL_MAX(a->f.moved_ns, heard);
  return shoal_watch_check(watch, &a->f);
}

static shoal_status wait_for_all(shoal_call *c, int64_t (*more)(void *context), void *context)
{
  uint64_t arrived = shoal_now_ns();
  shoal_watch watch = { .since_ns = arrived };
  while (c->meeting.f.moving) {
    SHOAL_TRY(shoal_world_progress(c->f.g->w));
    if (!c->meeting.f.moving) break;
    if (more) SHOAL_TRY(shoal_call_ask(c, more(context)));
    SHOAL_TRY(watch_over(c, &watch, arrived));
  }
  return SHOAL_OK;
}

shoal_status shoal_call_meet(shoal_call *c, int64_t mine, int64_t (*more)(void *context), void *context,
                             int64_t *largest)
{
  SHOAL_TRY(shoal_call_ask(c, mine));
  uint64_t number = (uint64_t)c->number;
  SHOAL_TRY(shoal_agreement_start(&c->meeting, number, shoal_group_plan_tag(c->f.g, c->plan, number), c->asked));
  SHOAL_TRY(wait_for_all(c, more, context));
  SHOAL_TRY(shoal_flight_result(&c->meeting.f));
  *largest = c->meeting.value;
  c->number++;
  c->asked = c->next;
  c->next = 0;
  if (c->asked) spread(c);
  return push(c);
}
