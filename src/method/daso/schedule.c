/* See schedule.h. */
#include "method/daso/schedule.h"
#include "base/mem.h"
#include <math.h>

/* ---------------------------------------------------------------------------------------------- within an epoch */

static bool is_last(uint64_t b, uint64_t batches)
{
  return b + 1 >= batches;
}

static bool is_turn(const shoal_daso_cycle *c, uint64_t b, uint64_t batches)
{
  return is_last(b, batches) || c->every == 0 || b % c->every == 0;
}

bool shoal_daso_blocks(const shoal_daso_cycle *c, uint64_t b, uint64_t batches)
{
  return is_last(b, batches) || c->every == 0 || (c->wait == 0 && b % c->every == 0);
}

static shoal_daso_event take_oldest(shoal_daso_flow *flow, shoal_daso_act act)
{
  shoal_daso_event e = { act, flow->sum[0].group, flow->sum[0].wait };
  flow->sum[0] = flow->sum[1];
  flow->n--;
  return e;
}

static int block(const shoal_daso_cycle *c, bool last, shoal_daso_flow *flow, shoal_daso_event *out)
{
  int n = 0;
  while (flow->n) out[n++] = take_oldest(flow, SHOAL_DASO_DROP);
  out[n++] = (shoal_daso_event){ SHOAL_DASO_BLOCK, flow->turn, 0 };
  flow->turn = last ? 0 : (flow->turn + 1) % c->groups;
  return n;
}

static shoal_daso_event start(const shoal_daso_cycle *c, uint64_t b, uint64_t left, shoal_daso_flow *flow)
{
  uint64_t wait = SHOAL_MIN(c->wait, left);
  int group = flow->turn;
  flow->sum[flow->n++] = (shoal_daso_sum){ group, b, wait };
  flow->turn = (flow->turn + 1) % c->groups;
  return (shoal_daso_event){ SHOAL_DASO_START, group, wait };
}

/* Whether the oldest sum is collected after batch b.  `started`: this batch has started a sum. */
static bool is_due(const shoal_daso_cycle *c, uint64_t b, uint64_t left, const shoal_daso_flow *flow, bool started)
{
  if (flow->n <= started) return false;
  if (!c->quirks) return b - flow->sum[0].batch >= flow->sum[0].wait;
  if (started) return true;
  return (b + 1) % c->every != 0 && b % c->every == SHOAL_MIN(c->wait, left);
}

/* A sum is started before the one due in the same batch is blended in (the reference's order, also for W = B). */
int shoal_daso_events(const shoal_daso_cycle *c, uint64_t b, uint64_t batches, shoal_daso_flow *flow,
                      shoal_daso_event out[SHOAL_DASO_EVENTS])
{
  int n = 0;
  uint64_t left = is_last(b, batches) ? 0 : batches - 1 - b;
  bool started = false;
  if (shoal_daso_blocks(c, b, batches)) return block(c, is_last(b, batches), flow, out);
  if (is_turn(c, b, batches)) {
    /* Full only after a resume, if the sums were started with other settings. */
    if (flow->n == SHOAL_DASO_SUMS) out[n++] = take_oldest(flow, SHOAL_DASO_COLLECT);
    out[n++] = start(c, b, left, flow);
    started = true;
  }
  if (is_due(c, b, left, flow, started)) out[n++] = take_oldest(flow, SHOAL_DASO_COLLECT);
  return n;
}

uint64_t shoal_daso_until(const shoal_daso_cycle *c, uint64_t b, uint64_t batches, const shoal_daso_flow *flow,
                          uint64_t most)
{
  shoal_daso_flow ahead = *flow;
  shoal_daso_event e[SHOAL_DASO_EVENTS];
  for (uint64_t k = 0; k < most && b + k < batches; k++) {
    int n = shoal_daso_events(c, b + k, batches, &ahead, e);
    for (int i = 0; i < n; i++)
      if (e[i].act != SHOAL_DASO_START) return k + 1;
  }
  return most;
}

/* ------------------------------------------------------------------------------------------ from epoch to epoch */

enum { FIRST_EVERY = 4, RESET_WAIT = 4, MOST_BLOCKING = 4, SHARE_BLOCKING = 10 };

void shoal_daso_default_phases(uint64_t epochs, uint64_t *warmup, uint64_t *cooldown)
{
  uint64_t tenth = (epochs + SHARE_BLOCKING - 1) / SHARE_BLOCKING;
  *warmup = epochs < 2 ? 0 : SHOAL_MIN(tenth, (uint64_t)MOST_BLOCKING);
  *cooldown = epochs < 3 ? 0 : *warmup;
}

static void block_always(shoal_daso_phase *p)
{
  p->every = p->wait = 0;
}

static void start_cycling(const shoal_daso_plan *p, shoal_daso_phase *phase)
{
  phase->every = SHOAL_MIN(p->max_every, (uint64_t)FIRST_EVERY);
  phase->wait = 1;
}

void shoal_daso_begin(const shoal_daso_plan *p, uint64_t done, shoal_daso_phase *out)
{
  *out = (shoal_daso_phase){ .best = INFINITY };
  if (done >= p->warmup && done + p->cooldown < p->epochs) start_cycling(p, out);
}

/* Plateau detector.  A NaN loss never counts as an improvement.  The best loss is kept when a plateau is found. */
static bool is_stable(const shoal_daso_plan *p, double loss, shoal_daso_phase *phase)
{
  double best = phase->best, bound = best < 0 ? best * (1 + p->threshold) : best * (1 - p->threshold);
  if (loss < bound) {
    phase->best = loss;
    phase->bad = 0;
    return false;
  }
  if (++phase->bad <= p->patience) return false;
  phase->bad = 0;
  return true;
}

static void sum_more_often(shoal_daso_phase *phase)
{
  phase->every /= 2;
  phase->wait = SHOAL_MAX(phase->wait - 1, (uint64_t)1);
  phase->wait = SHOAL_MIN(phase->wait, phase->every); /* with a large first B, W falls more slowly than B */
}

static void sum_least_often(const shoal_daso_plan *p, shoal_daso_phase *phase)
{
  phase->every = p->max_every;
  phase->wait = SHOAL_MAX(p->max_every / RESET_WAIT, (uint64_t)1);
}

void shoal_daso_next(const shoal_daso_plan *p, uint64_t done, double loss, shoal_daso_phase *phase)
{
  if (done < p->warmup || done + p->cooldown >= p->epochs) {
    block_always(phase);
    return;
  }
  if (phase->every == 0) start_cycling(p, phase); /* the warm-up is over, or the run was made longer */
  if (!is_stable(p, loss, phase)) return;
  if (phase->every > 1)
    sum_more_often(phase);
  else
    sum_least_often(p, phase);
}
