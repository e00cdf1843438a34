/* Asynchronous interactions: requests, grants and answers are processed between the primitives of a rank's compute.
 *
 *     initiator i                                  partner j
 *     request ------------------------------>      queued until c_j is free; the strongest request first
 *             <------------------------------      grant: c_j does not change from here on
 *     accept  ------------------------------>      (or decline: i has agreed with another rank)
 *     parcels <----------------------------->      then both average and release their c
 *
 * Notes are 24 bytes, class control.  One receive per neighbour is always posted, and a hook after every progress call
 * (the backend polls between primitives) reads and answers.  The hook changes only c: x and b belong to the training
 * step and are updated at its end.  So no rank waits for another's compute, and a slow rank is read in its last state.
 * A rank waits only for its own interaction if that takes more than `overlap` steps: otherwise, on links too slow for
 * the requested interactions, models would drift apart.
 *
 * Deadlock freedom: a rank that has granted a request (GRANTED) and receives a grant itself declines the latter and
 * asks again later if its own request is the weaker of the two; otherwise it waits for the other's answer first.  So a
 * rank that keeps others waiting waits only for a weaker request, down to one whose owner answers at once.  No
 * starvation: a request is stronger the fewer interactions its owner has had, so each becomes the strongest at some
 * time and is served.
 *
 * Dropping a partner ends the session of the pair.  Every note carries the session number; a rank that sees a higher
 * one also abandons its interactions with the sender, so both are back in the initial state.  Notes (by this number)
 * and parcels (by their tags) of an older session are thus never mistaken for those of the new one.
 *
 * The pull (V3) blocks no updates, needs no accept, and may run in both directions at once.  V1 grants only at the end
 * of a step, because its c is x, and waits there until the interaction is over. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <stdlib.h>
#include <string.h>

enum { TAG_NOTE = 128, NOTES = 16 };
enum { REQUEST, GRANT, ACCEPT, DECLINE, PING, PONG };

typedef struct {
  uint16_t kind, session; /* session: of this pair, from 0 */
  uint32_t era;           /* meetings so far */
  uint64_t number;        /* index of the initiator's interaction */
  double distance;        /* largest D_b of the sender; in a grant, of both */
} note;

typedef struct {
  int rank;
  shoal_message *in, *out;
  note got, going, queue[NOTES]; /* queue: notes to send, FIFO */
  int queued;
  bool asks; /* its request is waiting here */
  note request;
  bool gone; /* dropped */
  uint16_t session;
  uint64_t heard_ns, pinged_ns;
} peer;

struct shoal_swarm_pairs {
  shoal_swarm *s;
  size_t n;
  peer *peers; /* the neighbours, in the order of the graph */
  bool *gone;  /* [size], for drawing partners */
  shoal_swarm_talk mine, theirs;
  uint32_t era;
  bool blocking, pull;
  bool occupied,
      due;      /* a vector is being changed, or messages answered, here: what comes meanwhile is due afterwards */
  bool resting; /* between two steps: V1 may grant */
  bool meeting; /* waiting for a meeting, or in one */
  bool closed;  /* all ranks have gathered: no more grants */
  bool folds, pulled; /* at the end of the step: fold; average with `theirs` */
  bool folding;       /* the step ended while c was being sent: no new parcels before the fold */
  uint64_t answered;  /* V1: partners served since the step ended */
  bool changed;       /* x was modified */
  shoal_error failed; /* error of the hook */
};

static peer *find(shoal_swarm_pairs *p, int rank)
{
  for (size_t i = 0; i < p->n; i++)
    if (p->peers[i].rank == rank) return &p->peers[i];
  return NULL;
}

static const float *shown(const shoal_swarm_pairs *p)
{
  return p->pull ? p->s->shown : p->s->node.c;
}

/* ------------------------------------------------------------------------------------------------------- notes */

static shoal_status flush(shoal_swarm_pairs *p, peer *q)
{
  while (q->queued && shoal_message_done(q->out)) {
    q->going = q->queue[0];
    q->queued--;
    for (int i = 0; i < q->queued; i++) q->queue[i] = q->queue[i + 1];
    SHOAL_TRY(shoal_message_send(q->out, &q->going, sizeof q->going, q->rank, TAG_NOTE));
  }
  return SHOAL_OK;
}

static shoal_status say(shoal_swarm_pairs *p, peer *q, uint16_t kind, uint64_t number, double distance)
{
  if (q->queued == NOTES) return SHOAL_OK; /* a full queue means a partner that reads nothing: it will be dropped */
  q->queue[q->queued++] = (note){ kind, q->session, p->era, number, distance };
  return flush(p, q);
}

/* ---------------------------------------------------------------------------------------------------- decisions */

static bool stronger(uint64_t number, int rank, uint64_t than_number, int than_rank)
{
  if (number != than_number) return number < than_number;
  uint64_t a = shoal_rng_seed(number, (uint64_t)rank), b = shoal_rng_seed(number, (uint64_t)than_rank);
  return a != b ? a < b : rank < than_rank;
}

static bool busy(const shoal_swarm_talk *t)
{
  return t->stage >= SHOAL_TALK_PARCELS && t->stage < SHOAL_TALK_DONE;
}

/* Whether c is free, so that a request can be granted. */
static bool may_grant(const shoal_swarm_pairs *p)
{
  if (p->closed || p->folding || p->theirs.stage != SHOAL_TALK_NONE) return false;
  if (p->pull) return true;
  if (busy(&p->mine)) return false;
  /* Bounded if nothing else keeps this rank from its next step; a rank that waits must answer all. */
  bool waits = p->mine.stage != SHOAL_TALK_NONE || p->meeting;
  return !p->blocking || (p->resting && (waits || p->answered < p->n));
}

static peer *strongest(shoal_swarm_pairs *p)
{
  peer *best = NULL;
  for (size_t i = 0; i < p->n; i++) {
    peer *q = &p->peers[i];
    if (!q->asks || q->request.era > p->era) continue; /* the sender has left a meeting that this rank is still in */
    if (!best || stronger(q->request.number, q->rank, best->request.number, best->rank)) best = q;
  }
  return best;
}

static shoal_status grant(shoal_swarm_pairs *p, peer *q)
{
  shoal_swarm *s = p->s;
  shoal_swarm_talk *t = &p->theirs;
  double own = shoal_swarm_reach(s);
  q->asks = false;
  t->stage = SHOAL_TALK_GRANTED;
  t->peer = q->rank;
  t->session = q->session;
  t->number = q->request.number;
  t->distance = SHOAL_MAX(own, q->request.distance);
  t->gives = true;
  t->takes = !p->pull;
  t->t0_ns = shoal_now_ns();
  p->answered++;
  SHOAL_TRY(say(p, q, GRANT, t->number, t->distance));
  if (!p->pull) return SHOAL_OK;
  SHOAL_TRY(s->backend->ops->copy(s->backend, s->node.n * sizeof *s->shown, s->node.c, s->shown));
  return shoal_swarm_talk_start(s, t, shown(p));
}

static shoal_status ask(shoal_swarm_pairs *p)
{
  peer *q = find(p, p->mine.peer);
  p->mine.unsent = false;
  p->mine.session = q->session;
  p->mine.t0_ns = shoal_now_ns();
  return say(p, q, REQUEST, p->mine.number, shoal_swarm_reach(p->s));
}

/* The partner has granted the request.  Accept if c is free; if c was granted to another rank, the weaker request
 * yields. */
static shoal_status answer_offer(shoal_swarm_pairs *p)
{
  shoal_swarm_talk *m = &p->mine, *t = &p->theirs;
  peer *q = find(p, m->peer);
  if (t->stage == SHOAL_TALK_NONE) {
    SHOAL_TRY(say(p, q, ACCEPT, m->number, 0));
    return shoal_swarm_talk_start(p->s, m, shown(p));
  }
  if (t->stage != SHOAL_TALK_GRANTED || stronger(m->number, p->s->rank, t->number, t->peer)) return SHOAL_OK;
  m->stage = SHOAL_TALK_ASKED;
  m->unsent = true;
  return say(p, q, DECLINE, m->number, 0);
}

static shoal_status decide(shoal_swarm_pairs *p)
{
  if (p->mine.stage == SHOAL_TALK_OFFERED) SHOAL_TRY(answer_offer(p));
  if (p->mine.stage == SHOAL_TALK_ASKED && p->mine.unsent && p->theirs.stage == SHOAL_TALK_NONE) SHOAL_TRY(ask(p));
  peer *q = may_grant(p) ? strongest(p) : NULL;
  return q ? grant(p, q) : SHOAL_OK;
}

/* ------------------------------------------------------------------------------------------------------receiving */

static shoal_status hear_grant(shoal_swarm_pairs *p, peer *q, const note *got)
{
  shoal_swarm_talk *m = &p->mine;
  if (m->stage != SHOAL_TALK_ASKED || m->unsent || m->peer != q->rank || m->number != got->number)
    return say(p, q, DECLINE, got->number, 0); /* a grant of an abandoned request */
  m->stage = SHOAL_TALK_OFFERED;
  m->t0_ns = shoal_now_ns();
  m->distance = got->distance;
  return p->pull ? shoal_swarm_talk_start(p->s, m, shown(p)) : SHOAL_OK;
}

/* Abandons all interactions and requests with this partner and begins a new session. */
static shoal_status break_off(shoal_swarm_pairs *p, peer *q, uint16_t session)
{
  shoal_swarm_talk *talks[] = { &p->mine, &p->theirs };
  q->session = session;
  q->asks = false;
  q->queued = 0; /* drop notes of the old session */
  for (int i = 0; i < 2; i++)
    if (talks[i]->stage != SHOAL_TALK_NONE && talks[i]->stage != SHOAL_TALK_DONE && talks[i]->peer == q->rank)
      SHOAL_TRY(shoal_swarm_talk_abandon(p->s, talks[i]));
  return SHOAL_OK;
}

static void take_back(shoal_swarm_pairs *p, peer *q)
{
  if (q->gone) shoal_warn("rank %d is back: interactions with it continue", q->rank);
  q->gone = p->gone[q->rank] = false;
}

static shoal_status hear(shoal_swarm_pairs *p, peer *q, const note *got)
{
  shoal_swarm_talk *t = &p->theirs;
  q->heard_ns = shoal_now_ns();
  take_back(p, q);
  int16_t ahead = (int16_t)(got->session - q->session);
  if (ahead > 0) SHOAL_TRY(break_off(p, q, got->session)); /* the partner has dropped this rank */
  if (q->session) SHOAL_TRY(shoal_swarm_talk_clear(p->s, q->rank, q->session));
  if (got->kind == PING) return say(p, q, PONG, 0, 0);
  if (ahead < 0 || got->era < p->era) return SHOAL_OK; /* sent before a drop or the last meeting */
  bool about_theirs = t->stage == SHOAL_TALK_GRANTED && t->peer == q->rank && t->number == got->number;
  switch (got->kind) {
  case REQUEST:
    q->asks = true;
    q->request = *got;
    return SHOAL_OK;
  case GRANT:
    return hear_grant(p, q, got);
  case ACCEPT:
    return about_theirs ? shoal_swarm_talk_start(p->s, t, shown(p)) : SHOAL_OK;
  default:
    if (got->kind == DECLINE && about_theirs) t->stage = SHOAL_TALK_NONE;
    return SHOAL_OK;
  }
}

/* ---------------------------------------------------------------------------------------------------- progress */

/* Parcels have arrived and c is averaged; x and b are updated at the end of the step. */
static void conclude(shoal_swarm_pairs *p, shoal_swarm_talk *t, bool initiator)
{
  shoal_swarm *s = p->s;
  shoal_swarm_record(s, &t->deal, t->peer, initiator, t->number, t->moving_ns, 0);
  s->met += initiator;
  s->served += !initiator;
  p->changed |= p->blocking;
  p->folds |= shoal_swarm_folds(s->rules.variant, initiator);
  p->pulled |= p->pull && initiator && !t->deal.refused;
  if (!p->pulled || !initiator) t->stage = SHOAL_TALK_NONE;
}

static shoal_status move_on(shoal_swarm_pairs *p)
{
  shoal_swarm_talk *talks[] = { &p->mine, &p->theirs };
  for (int i = 0; i < 2; i++) {
    bool was_done = talks[i]->stage == SHOAL_TALK_DONE;
    SHOAL_TRY(shoal_swarm_talk_advance(p->s, talks[i], shown(p)));
    if (talks[i]->stage == SHOAL_TALK_DONE && !was_done) conclude(p, talks[i], i == 0);
  }
  return SHOAL_OK;
}

static shoal_status listen(peer *q)
{
  return shoal_message_recv(q->in, &q->got, sizeof q->got, q->rank, TAG_NOTE);
}

static shoal_status answer(shoal_swarm_pairs *p)
{
  for (size_t i = 0; i < p->n; i++) {
    peer *q = &p->peers[i];
    while (shoal_message_done(q->in)) {
      note got = q->got;
      SHOAL_TRY(listen(q));
      SHOAL_TRY(hear(p, q, &got));
    }
    SHOAL_TRY(flush(p, q));
  }
  SHOAL_TRY(move_on(p));
  return decide(p);
}

/* The backend makes progress between pieces of its work, which calls the hook: not here. */
static shoal_status pump(shoal_swarm_pairs *p)
{
  shoal_status st = SHOAL_OK;
  p->due = true;
  if (p->occupied) return SHOAL_OK;
  p->occupied = true;
  while (st == SHOAL_OK && p->due) {
    p->due = false;
    st = answer(p);
  }
  p->occupied = false;
  return st;
}

static shoal_status failure(const shoal_swarm_pairs *p)
{
  return p->failed.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&p->failed);
}

/* Called after every progress call.  Its error is kept until the end of the step, because the backend ignores it. */
static shoal_status hook(void *context)
{
  shoal_swarm_pairs *p = context;
  if (p->failed.code == SHOAL_OK) shoal_error_keep(&p->failed, pump(p));
  return failure(p);
}

/* --------------------------------------------------------------------------------------------------- lost partners */

static shoal_status lose(shoal_swarm_pairs *p, peer *q, double seconds)
{
  q->gone = p->gone[q->rank] = true;
  SHOAL_CHECK(!p->s->rules.stop_on_lost, SHOAL_ERR_COMM,
              "rank %d has not been heard of for %.3g s: the run ends (method.on_lost: stop)", q->rank, seconds);
  shoal_warn("rank %d has not been heard of for %.3g s: going on without it until it is back", q->rank, seconds);
  SHOAL_TRY(break_off(p, q, (uint16_t)(q->session + 1)));
  return say(p, q, PING, 0, 0); /* carries the new session: if the partner comes back, it learns of it and answers */
}

/* A rank that computes still answers a ping between two primitives, so only silence counts, not slowness; and only
 * after this rank, which may itself have been suspended, has sent a ping. */
static shoal_status check_silence(shoal_swarm_pairs *p)
{
  shoal_swarm_talk *talks[] = { &p->mine, &p->theirs };
  double limit = p->s->rules.drop_after_s;
  for (int i = 0; i < 2; i++) {
    shoal_swarm_talk *t = talks[i];
    if (t->stage == SHOAL_TALK_NONE || t->stage == SHOAL_TALK_DONE || t->stage == SHOAL_TALK_OFFERED || t->unsent)
      continue;
    peer *q = find(p, t->peer);
    uint64_t since = SHOAL_MAX(q->heard_ns, t->t0_ns);
    if (shoal_seconds_since(since) < limit / 2) continue;
    if (q->pinged_ns < since) {
      q->pinged_ns = shoal_now_ns();
      SHOAL_TRY(say(p, q, PING, 0, 0));
    } else if (shoal_seconds_since(q->pinged_ns) > limit / 2) {
      SHOAL_TRY(lose(p, q, shoal_seconds_since(since)));
    }
  }
  return SHOAL_OK;
}

/* ------------------------------------------------------------------------------------------------ the end of a step */

static shoal_status fold_and_pull(shoal_swarm_pairs *p)
{
  shoal_swarm *s = p->s;
  if (p->folds) {
    p->folding = busy(&p->mine) || busy(&p->theirs);
    if (!p->folding) {
      SHOAL_TRY(shoal_swarm_fold_own(s));
      p->folds = false;
      p->changed = true;
    }
  }
  if (p->pulled) {
    SHOAL_TRY(s->backend->ops->average(s->backend, s->node.n, s->node.x, s->theirs, s->node.x));
    p->mine.stage = SHOAL_TALK_NONE;
    p->pulled = false;
    p->changed = true;
  }
  return SHOAL_OK;
}

/* While x and c are changed, nobody is answered. */
static shoal_status apply(shoal_swarm_pairs *p)
{
  p->occupied = true;
  shoal_status st = fold_and_pull(p);
  p->occupied = false;
  return st;
}

static shoal_status publish(shoal_swarm_pairs *p)
{
  p->occupied = true;
  shoal_status st = shoal_swarm_publish(p->s);
  p->occupied = false;
  return st;
}

/* Starts an interaction if it is due and the last one is over. */
static void begin(shoal_swarm_pairs *p)
{
  shoal_swarm *s = p->s;
  const shoal_swarm_rules *r = &s->rules;
  uint64_t *begun = &s->begun[s->rank], *since = &s->since[s->rank];
  if (p->mine.stage != SHOAL_TALK_NONE || p->folds) return;
  if (*since < shoal_graph_steps(r->h, r->geometric, r->seed, s->rank, *begun)) return;
  int partner = shoal_graph_partner(s->graph, r->seed, s->rank, *begun, p->gone);
  if (partner < 0) return;
  shoal_swarm_talk *m = &p->mine;
  m->stage = SHOAL_TALK_ASKED;
  m->unsent = true;
  m->peer = partner;
  m->number = (*begun)++;
  m->gives = !p->pull;
  m->takes = true;
  *since = 0;
}

/* Whether no interaction of this rank is in flight (nor, for_others, one of another rank with it). */
static bool at_rest(const shoal_swarm_pairs *p, bool for_others)
{
  return p->mine.stage == SHOAL_TALK_NONE && !p->folds && (!for_others || p->theirs.stage == SHOAL_TALK_NONE);
}

/* Progresses until this rank is at rest. */
static shoal_status wait_here(shoal_swarm_pairs *p, bool for_others)
{
  for (;;) {
    SHOAL_TRY(failure(p));
    SHOAL_TRY(apply(p));
    SHOAL_TRY(pump(p));
    if (at_rest(p, for_others)) return SHOAL_OK;
    SHOAL_TRY(check_silence(p));
    SHOAL_TRY(shoal_world_progress(p->s->world));
  }
}

static shoal_status stay(shoal_swarm_pairs *p, bool for_others)
{
  uint64_t t0 = shoal_now_ns();
  if (at_rest(p, for_others)) return SHOAL_OK;
  shoal_status st = wait_here(p, for_others);
  if (p->s->trace) shoal_trace_span(p->s->trace, SHOAL_TRACE_WAIT, p->s->op, t0, shoal_now_ns());
  return st;
}

shoal_status shoal_swarm_pairs_step(shoal_swarm_pairs *p, bool *changed)
{
  p->changed = false;
  p->resting = true;
  p->answered = 0;
  SHOAL_TRY(publish(p));
  SHOAL_TRY(shoal_world_progress(p->s->world));
  SHOAL_TRY(failure(p));
  SHOAL_TRY(apply(p));
  if (++p->s->since[p->s->rank] >= p->s->rules.overlap) SHOAL_TRY(stay(p, false));
  begin(p);
  SHOAL_TRY(pump(p));
  if (p->blocking) SHOAL_TRY(stay(p, true));
  p->resting = false;
  *changed = p->changed;
  return check_silence(p);
}

/* ------------------------------------------------------------------------------------------------------- meetings */

shoal_status shoal_swarm_pairs_arrive(shoal_swarm_pairs *p, bool *changed)
{
  p->changed = false;
  p->resting = p->meeting = true;
  shoal_status st = wait_here(p, false);
  *changed = p->changed;
  return st;
}

shoal_status shoal_swarm_pairs_gathered(shoal_swarm_pairs *p, bool *changed)
{
  p->changed = false;
  shoal_status st = wait_here(p, true);
  *changed = p->changed;
  p->closed = true;
  return st;
}

shoal_status shoal_swarm_pairs_leave(shoal_swarm_pairs *p)
{
  p->closed = p->meeting = p->resting = false;
  p->era++;
  for (size_t i = 0; i < p->n; i++) take_back(p, &p->peers[i]); /* all of them took part in the meeting */
  return pump(p);
}

/* ------------------------------------------------------------------------------------------------ create, destroy */

static shoal_status open_peers(shoal_swarm_pairs *p)
{
  shoal_swarm *s = p->s;
  char name[64];
  for (size_t i = 0; i < p->n; i++) {
    peer *q = &p->peers[i];
    q->rank = s->graph->neighbour[s->graph->first[s->rank] + i];
    snprintf(name, sizeof name, "notes of rank %d", q->rank);
    SHOAL_TRY(shoal_message_create(s->control, name, &q->in));
    SHOAL_TRY(shoal_message_create(s->control, name, &q->out));
    SHOAL_TRY(listen(q));
  }
  return SHOAL_OK;
}

shoal_status shoal_swarm_pairs_create(shoal_swarm *s, shoal_swarm_pairs **out)
{
  shoal_status st;
  shoal_swarm_pairs *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  p->s = s;
  p->blocking = s->rules.variant == SHOAL_SWARM_BLOCKING;
  p->pull = s->rules.variant == SHOAL_SWARM_PULL;
  p->n = (size_t)shoal_graph_degree(s->graph, s->rank);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(p->n, &p->peers), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s->size, &p->gone), fail);
  SHOAL_TRY_GOTO(st, shoal_swarm_talk_init(s, &p->mine), fail);
  SHOAL_TRY_GOTO(st, shoal_swarm_talk_init(s, &p->theirs), fail);
  SHOAL_TRY_GOTO(st, open_peers(p), fail);
  shoal_world_set_hook(s->world, hook, p);
  *out = p;
  return SHOAL_OK;
fail:
  shoal_swarm_pairs_destroy(p);
  return st;
}

void shoal_swarm_pairs_destroy(shoal_swarm_pairs *p)
{
  if (!p) return;
  shoal_world_set_hook(p->s->world, NULL, NULL);
  for (size_t i = 0; p->peers && i < p->n; i++) {
    shoal_message_destroy(p->peers[i].in);
    shoal_message_destroy(p->peers[i].out);
  }
  shoal_swarm_talk_fini(p->s, &p->mine);
  shoal_swarm_talk_fini(p->s, &p->theirs);
  free(p->peers);
  free(p->gone);
  free(p);
}
