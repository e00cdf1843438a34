/* The deterministic mode: every rank computes the schedule of all interactions and performs its own in that order.
 *
 *     step 7 is over:   order of ranks 2 0 3 1;  due to initiate: 0, 3
 *     edges:            0 with 1,  3 with 0          rank 0: first with 1, then with 3;  rank 2: none, goes on
 *
 * All ranks process the same edges in the same order, so no deadlock is possible; disjoint edges run in parallel.
 * Nothing depends on a clock: every run gives the same bits, and so do n simulated nodes in one process.
 *
 * Each interaction begins with 16 bytes each way, class control: the largest D_b of each side (math.h) and the step, to
 * detect ranks that are out of step. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <stdlib.h>
#include <string.h>

enum { TAG_HEAD = 100, TAG_BAD = 101, TAG_PARCEL = 102, TAG_AGAIN = 103 };

typedef struct {
  double distance;
  uint64_t step;
} head;

struct shoal_swarm_lockstep {
  shoal_swarm *s;
  shoal_swarm_deal deal;
  shoal_swarm_edge *edges;
  uint8_t *their_bad;
  head mine, theirs;
  shoal_message *control_out, *control_in, *out, *in;
};

int shoal_swarm_edges(const shoal_swarm_rules *rules, const shoal_graph *g, uint64_t step, uint64_t *begun,
                      uint64_t *since, shoal_swarm_edge *edges)
{
  int count = 0;
  shoal_perm order;
  shoal_perm_init(&order, rules->seed, SHOAL_RNG_METHOD, step, (uint64_t)g->n);
  for (uint64_t k = 0; k < (uint64_t)g->n; k++) {
    int i = (int)shoal_perm_at(&order, k);
    if (++since[i] < shoal_graph_steps(rules->h, rules->geometric, rules->seed, i, begun[i])) continue;
    int j = shoal_graph_partner(g, rules->seed, i, begun[i], NULL);
    since[i] = 0;
    begun[i]++;
    if (j >= 0) edges[count++] = (shoal_swarm_edge){ i, j };
  }
  return count;
}

shoal_status shoal_swarm_lockstep_create(shoal_swarm *s, shoal_swarm_lockstep **out)
{
  shoal_status st;
  shoal_swarm_lockstep *l;
  SHOAL_TRY(SHOAL_ALLOC(1, &l));
  l->s = s;
  SHOAL_TRY_GOTO(st, shoal_swarm_deal_init(s, s->blocks, &l->deal), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s->size, &l->edges), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(s->marks, &l->their_bad), fail);
  SHOAL_TRY_GOTO(st, shoal_message_create(s->control, "note of an interaction", &l->control_out), fail);
  SHOAL_TRY_GOTO(st, shoal_message_create(s->control, "note of an interaction", &l->control_in), fail);
  SHOAL_TRY_GOTO(st, shoal_message_create(s->all, "model of an interaction", &l->out), fail);
  SHOAL_TRY_GOTO(st, shoal_message_create(s->all, "model of an interaction", &l->in), fail);
  *out = l;
  return SHOAL_OK;
fail:
  shoal_swarm_lockstep_destroy(l);
  return st;
}

void shoal_swarm_lockstep_destroy(shoal_swarm_lockstep *l)
{
  if (!l) return;
  shoal_message_destroy(l->control_out);
  shoal_message_destroy(l->control_in);
  shoal_message_destroy(l->out);
  shoal_message_destroy(l->in);
  shoal_swarm_deal_fini(l->s, &l->deal);
  free(l->edges);
  free(l->their_bad);
  free(l);
}

/* ------------------------------------------------------------------------------------------------- one interaction */

/* Send and receive at once; NULL for a direction that is not there. */
static shoal_status swap(shoal_message *out, const void *mine, shoal_message *in, void *theirs, size_t bytes, int peer,
                         int tag)
{
  if (bytes == 0) return SHOAL_OK;
  if (theirs) SHOAL_TRY(shoal_message_recv(in, theirs, bytes, peer, tag));
  if (mine) SHOAL_TRY(shoal_message_send(out, mine, bytes, peer, tag));
  if (theirs) SHOAL_TRY(shoal_message_wait(in));
  return mine ? shoal_message_wait(out) : SHOAL_OK;
}

static shoal_status swap_heads(shoal_swarm_lockstep *l, int peer, uint64_t step)
{
  l->mine = (head){ shoal_swarm_reach(l->s), step };
  SHOAL_TRY(swap(l->control_out, &l->mine, l->control_in, &l->theirs, sizeof l->mine, peer, TAG_HEAD));
  SHOAL_CHECK(l->theirs.step == step, SHOAL_ERR_COMM,
              "interaction with rank %d: it is at step %llu, this rank at step %llu", peer,
              (unsigned long long)l->theirs.step, (unsigned long long)step);
  return SHOAL_OK;
}

/* Parcels, then what could not be read.  `gives` and `takes`: which directions there are. */
static shoal_status swap_models(shoal_swarm_lockstep *l, int peer, bool gives, bool takes)
{
  shoal_swarm *s = l->s;
  shoal_swarm_deal *d = &l->deal;
  if (gives) {
    SHOAL_TRY(shoal_swarm_pack(s, d, s->node.c, s->outbox.at));
    shoal_swarm_count_parcel(s, d->bytes, d->quantised, peer);
  }
  SHOAL_TRY(swap(l->out, gives ? s->outbox.at : NULL, l->in, takes ? s->inbox.at : NULL, d->bytes, peer, TAG_PARCEL));
  if (takes) SHOAL_TRY(shoal_swarm_unpack(s, d, s->inbox.at));
  if (!d->quantised) return SHOAL_OK;
  SHOAL_TRY(swap(l->control_out, takes ? d->bad.at : NULL, l->control_in, gives ? l->their_bad : NULL, s->marks, peer,
                 TAG_BAD));
  shoal_swarm_merge(s, d, gives ? l->their_bad : NULL);
  if (gives) {
    SHOAL_TRY(shoal_swarm_pack_again(s, d, s->node.c, s->outbox.at));
    shoal_swarm_count_again(s, d->resend, peer);
  }
  SHOAL_TRY(swap(l->out, gives ? s->outbox.at : NULL, l->in, takes ? s->inbox.at : NULL, d->resend, peer, TAG_AGAIN));
  return takes ? shoal_swarm_unpack_again(s, d, s->inbox.at) : SHOAL_OK;
}

static shoal_status interact(shoal_swarm_lockstep *l, const shoal_swarm_edge *e, uint64_t step, bool *changed)
{
  shoal_swarm *s = l->s;
  bool initiator = e->initiator == s->rank, both = shoal_swarm_averages(s->rules.variant);
  int peer = initiator ? e->partner : e->initiator;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(swap_heads(l, peer, step));
  shoal_swarm_deal_begin(s, &l->deal, SHOAL_MAX(l->mine.distance, l->theirs.distance));
  SHOAL_TRY(swap_models(l, peer, both || !initiator, both || initiator));
  if (both || initiator) SHOAL_TRY(shoal_swarm_deal_end(s, &l->deal));
  if (!both && initiator && !l->deal.refused)
    SHOAL_TRY(s->backend->ops->average(s->backend, s->node.n, s->node.x, s->theirs, s->node.x));
  if (shoal_swarm_folds(s->rules.variant, initiator)) SHOAL_TRY(shoal_swarm_fold(s, 0, s->blocks));
  *changed |= initiator || s->rules.variant != SHOAL_SWARM_NONBLOCKING;
  s->met += initiator;
  s->served += !initiator;
  shoal_swarm_record(s, l->deal.bytes + l->deal.resend, peer, initiator, step, t0, shoal_now_ns() - t0);
  return SHOAL_OK;
}

shoal_status shoal_swarm_lockstep_step(shoal_swarm_lockstep *l, uint64_t step, bool *changed)
{
  shoal_swarm *s = l->s;
  *changed = false;
  SHOAL_TRY(shoal_swarm_publish(s));
  int n = shoal_swarm_edges(&s->rules, s->graph, step, s->begun, s->since, l->edges);
  for (int k = 0; k < n; k++)
    if (l->edges[k].initiator == s->rank || l->edges[k].partner == s->rank)
      SHOAL_TRY(interact(l, &l->edges[k], step, changed));
  return SHOAL_OK;
}
