/* Rendezvous of ranks that run without a common step: see exchange.h.
 *
 * It has two parts, notices and an agreement.  Notices spread by gossip, in a flight that never ends: a receive of 16
 * bytes from each rank r - 2^k is always posted, and a notice holds the number of a rendezvous and what was requested.
 * A rank forwards a notice to the ranks r + 2^k if it is new.  So a request costs at most lg p messages per rank and
 * reaches all ranks in lg p hops, each as long as the interval between two polls of a rank.  The agreement (vote.c) is
 * the rendezvous itself: a rank joins by starting it, and it completes when all ranks have.
 *
 * A late rank is not a lost rank: one that is still training repeats its notice every few seconds as a heartbeat.  A
 * waiting rank sends heartbeats only while it receives them from the rank it waits for.  So silence spreads outward
 * from the rank that hangs, and the limit expires first on the ranks that wait for it directly. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>

typedef struct {
  int64_t number, what;
} notice;

struct shoal_rendezvous {
  shoal_flight f; /* sends and receives the notices */
  char *name;
  int rounds;
  notice in[SHOAL_AGREEMENT_ROUNDS], out[SHOAL_AGREEMENT_ROUNDS];
  int in_slot[SHOAL_AGREEMENT_ROUNDS], out_slot[SHOAL_AGREEMENT_ROUNDS];
  bool to_send[SHOAL_AGREEMENT_ROUNDS]; /* a notice is to be sent to r + 2^k */
  uint64_t received_ns[SHOAL_AGREEMENT_ROUNDS];
  int64_t number, requested, next_requested; /* next rendezvous, requests for it, for the one after */
  shoal_agreement meeting;
  uint64_t plan; /* plan number for the tags of the agreements */
  uint64_t heartbeat_ns, heartbeat_interval_ns;
};

static int peer_after(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank + ((int64_t)1 << round)) % g->size);
}

static int peer_before(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank - ((int64_t)1 << round) + g->size) % g->size);
}

static void notify_all(shoal_rendezvous *c)
{
  for (int k = 0; k < c->rounds; k++) c->to_send[k] = true;
}

/* Ranks are at most one rendezvous apart: none leaves one before all have joined. */
static void handle_notice(shoal_rendezvous *c, const notice *r)
{
  if (r->number == c->number + 1) c->next_requested = SHOAL_MAX(c->next_requested, r->what);
  if (r->number != c->number || r->what <= c->requested) return;
  c->requested = r->what;
  notify_all(c);
}

static shoal_status post_receive(shoal_rendezvous *c, int k)
{
  return shoal_flight_recv(&c->f, &c->in[k], sizeof c->in[k], peer_before(c->f.g, k), &c->in_slot[k]);
}

static shoal_status receive(shoal_rendezvous *c, int k, bool *moved)
{
  bool come;
  SHOAL_TRY(shoal_flight_look(&c->f, c->in_slot[k], peer_before(c->f.g, k), sizeof c->in[k], &come));
  if (!come) return SHOAL_OK;
  *moved = true;
  c->received_ns[k] = shoal_now_ns();
  c->f.g->w->transport->release(c->f.g->w, c->in_slot[k]);
  c->in_slot[k] = -1;
  handle_notice(c, &c->in[k]);
  return post_receive(c, k);
}

static shoal_status send(shoal_rendezvous *c, int k, bool *moved)
{
  shoal_group *g = c->f.g;
  bool sent = c->out_slot[k] < 0;
  if (!sent) SHOAL_TRY(shoal_flight_look(&c->f, c->out_slot[k], peer_after(g, k), sizeof c->out[k], &sent));
  if (!sent) return SHOAL_OK;
  if (c->out_slot[k] >= 0) g->w->transport->release(g->w, c->out_slot[k]);
  c->out_slot[k] = -1;
  if (!c->to_send[k]) return SHOAL_OK;
  c->to_send[k] = false;
  *moved = true;
  c->out[k] = (notice){ c->number, c->requested };
  return shoal_flight_send(&c->f, &c->out[k], sizeof c->out[k], peer_after(g, k), &c->out_slot[k]);
}

static shoal_status notice_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_rendezvous *c = (shoal_rendezvous *)f;
  *done = false;
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(receive(c, k, moved));
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(send(c, k, moved));
  return SHOAL_OK;
}

static int notice_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  return -1; /* no rank waits for a notice */
}

static void notice_give_up(shoal_flight *f)
{
  shoal_rendezvous *c = (shoal_rendezvous *)f;
  for (int k = 0; k < c->rounds; k++) {
    if (c->in_slot[k] >= 0) f->g->w->transport->release(f->g->w, c->in_slot[k]);
    if (c->out_slot[k] >= 0) f->g->w->transport->release(f->g->w, c->out_slot[k]);
    c->in_slot[k] = c->out_slot[k] = -1;
  }
}

static const shoal_flight_ops notice_ops = { notice_advance, notice_describe, notice_give_up };

static shoal_status start(shoal_rendezvous *c, const char *name)
{
  shoal_world *w = c->f.g->w;
  SHOAL_CHECK(c->name, SHOAL_ERR_MEM, "out of memory: rendezvous %s", name);
  if (c->rounds == 0) return SHOAL_OK;
  SHOAL_TRY(w->transport->reserve(w, 4 * c->rounds));
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(post_receive(c, k));
  return shoal_flight_start(&c->f);
}

shoal_status shoal_rendezvous_create(shoal_group *control, const char *name, shoal_rendezvous **out)
{
  shoal_rendezvous *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->name = shoal_strdup_printf("rendezvous \"%s\"", name);
  c->f = (shoal_flight){ .ops = &notice_ops, .g = control, .name = c->name, .control = true };
  c->f.tag = shoal_group_plan_tag(control, control->plans++, 0);
  c->plan = control->plans++;
  shoal_agreement_init(&c->meeting, control, c->name);
  c->number = 1;
  double every = SHOAL_MIN(control->w->o.warn_s, control->w->o.hang_s) / 4;
  c->heartbeat_interval_ns = (uint64_t)(every * 1e9);
  while ((int64_t)1 << c->rounds < control->size) c->rounds++;
  for (int k = 0; k < c->rounds; k++) c->in_slot[k] = c->out_slot[k] = -1;
  shoal_status st = start(c, name);
  if (st == SHOAL_OK)
    *out = c;
  else
    shoal_rendezvous_destroy(c);
  return st;
}

void shoal_rendezvous_listen(shoal_rendezvous *c, bool (*asked)(void *context), void *context)
{
  shoal_world *w = c->f.g->w;
  w->listener = c;
  w->listening = &c->f;
  w->asked = asked;
  w->asked_context = context;
}

void shoal_rendezvous_destroy(shoal_rendezvous *c)
{
  if (!c) return;
  if (c->f.g->w->listener == c) c->f.g->w->listener = NULL;
  shoal_flight_end(&c->f, SHOAL_ERR_COMM); /* receives that will never be matched */
  shoal_flight_end(&c->meeting.f, SHOAL_ERR_COMM);
  if (c->rounds) (void)c->f.g->w->transport->reserve(c->f.g->w, -4 * c->rounds);
  free(c->name);
  free(c);
}

/* Send pending notices now instead of in the next poll. */
static shoal_status send_pending(shoal_rendezvous *c)
{
  bool moved = false;
  for (int k = 0; k < c->rounds; k++) SHOAL_TRY(send(c, k, &moved));
  return SHOAL_OK;
}

shoal_status shoal_rendezvous_request(shoal_rendezvous *c, int64_t what)
{
  if (what <= c->requested) return SHOAL_OK;
  c->requested = what;
  notify_all(c);
  return send_pending(c);
}

int64_t shoal_rendezvous_requested(const shoal_rendezvous *c)
{
  return c->requested;
}

shoal_status shoal_rendezvous_heartbeat(shoal_rendezvous *c)
{
  uint64_t now = shoal_now_ns();
  if (!c->requested || now - c->heartbeat_ns < c->heartbeat_interval_ns) return SHOAL_OK;
  c->heartbeat_ns = now;
  notify_all(c);
  return send_pending(c);
}

shoal_status shoal_rendezvous_progress(shoal_rendezvous *c)
{
  return shoal_world_progress(c->f.g->w);
}

/* Called while waiting: restarts the hang timer with every notice received, and sends heartbeats to the ranks waiting
 * for us. */
static shoal_status check_missing(shoal_rendezvous *c, shoal_watch *watch, uint64_t arrived_ns)
{
  shoal_agreement *a = &c->meeting;
  if (a->round == a->rounds) return shoal_watch_check(watch, &a->f);
  uint64_t heard = SHOAL_MAX(c->received_ns[a->round], arrived_ns);
  if (shoal_now_ns() - heard < 3 * c->heartbeat_interval_ns) SHOAL_TRY(shoal_rendezvous_heartbeat(c));
  a->f.moved_ns = SHOAL_MAX(a->f.moved_ns, heard);
  return shoal_watch_check(watch, &a->f);
}

static shoal_status wait_for_all(shoal_rendezvous *c, int64_t (*more)(void *context), void *context)
{
  uint64_t arrived = shoal_now_ns();
  shoal_watch watch = { .since_ns = arrived };
  while (c->meeting.f.moving) {
    SHOAL_TRY(shoal_world_progress(c->f.g->w));
    if (!c->meeting.f.moving) break;
    if (more) SHOAL_TRY(shoal_rendezvous_request(c, more(context)));
    SHOAL_TRY(check_missing(c, &watch, arrived));
  }
  return SHOAL_OK;
}

shoal_status shoal_rendezvous_meet(shoal_rendezvous *c, int64_t mine, int64_t (*more)(void *context), void *context,
                                   int64_t *largest)
{
  SHOAL_TRY(shoal_rendezvous_request(c, mine));
  uint64_t number = (uint64_t)c->number;
  SHOAL_TRY(shoal_agreement_start(&c->meeting, number, shoal_group_plan_tag(c->f.g, c->plan, number), c->requested));
  SHOAL_TRY(wait_for_all(c, more, context));
  SHOAL_TRY(shoal_flight_result(&c->meeting.f));
  *largest = c->meeting.value;
  c->number++;
  c->requested = c->next_requested;
  c->next_requested = 0;
  if (c->requested) notify_all(c);
  return send_pending(c);
}
