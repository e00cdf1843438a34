/* Non-blocking agreement on one integer, without a root.
 *
 * Dissemination: in round k every rank sends the largest value it has seen to the rank 2^k after it.
 *
 *     round 0:  r receives from r-1                        has data of 2 members
 *     round 1:  r receives from r-2 (which has r-3)                    4
 *     round 2:  r receives from r-4 ...                                8     until the group is covered, for any size
 *
 * Counting a member twice does not change a maximum.  All receives are posted at the start (each round has a different
 * peer); a round's send is posted once the receives of the earlier rounds have completed.  A vote takes one 8-byte
 * message per round.
 * Source: Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>
#include <string.h>

static int peer_after(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank + ((int64_t)1 << round)) % g->size);
}

static int peer_before(const shoal_group *g, int round)
{
  return (int)(((int64_t)g->rank - ((int64_t)1 << round) + g->size) % g->size);
}

static shoal_status send_round(shoal_agreement *a, int round)
{
  a->out[round] = a->value;
  return shoal_flight_send(&a->f, &a->out[round], sizeof a->out[round], peer_after(a->f.g, round), &a->out_slot[round]);
}

static shoal_status take(shoal_agreement *a, int *slot, int peer, bool *finished)
{
  if (*slot < 0) {
    *finished = true;
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_flight_look(&a->f, *slot, peer, sizeof a->value, finished));
  if (!*finished) return SHOAL_OK;
  a->f.g->w->transport->release(a->f.g->w, *slot);
  *slot = -1;
  return SHOAL_OK;
}

static shoal_status agreement_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_agreement *a = (shoal_agreement *)f;
  while (a->round < a->rounds) {
    bool received;
    SHOAL_TRY(take(a, &a->in_slot[a->round], peer_before(f->g, a->round), &received));
    if (!received) return SHOAL_OK;
    a->value = SHOAL_MAX(a->value, a->in[a->round]);
    *moved = true;
    if (++a->round < a->rounds) SHOAL_TRY(send_round(a, a->round));
  }
  *done = true;
  for (int k = 0; k < a->rounds; k++) {
    bool gone;
    SHOAL_TRY(take(a, &a->out_slot[k], peer_after(f->g, k), &gone));
    if (!gone) *done = false;
  }
  return SHOAL_OK;
}

/* Rounds 0..k-1 covered the 2^k - 1 preceding members. */
static int agreement_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_agreement *a = (shoal_agreement *)f;
  int p = f->g->size;
  shoal_str_add(where, "round %d of %d", a->round + 1, a->rounds);
  for (int64_t d = (int64_t)1 << a->round; d < p; d++) missing[(f->g->rank - d + p) % p] = true;
  return a->round < a->rounds ? peer_before(f->g, a->round) : peer_after(f->g, a->rounds - 1);
}

static void agreement_give_up(shoal_flight *f)
{
  shoal_agreement *a = (shoal_agreement *)f;
  for (int k = 0; k < a->rounds; k++) {
    if (a->in_slot[k] >= 0) f->g->w->transport->release(f->g->w, a->in_slot[k]);
    if (a->out_slot[k] >= 0) f->g->w->transport->release(f->g->w, a->out_slot[k]);
    a->in_slot[k] = a->out_slot[k] = -1;
  }
}

static const shoal_flight_ops agreement_ops = { agreement_advance, agreement_describe, agreement_give_up };

void shoal_agreement_init(shoal_agreement *a, shoal_group *g, const char *name)
{
  memset(a, 0, sizeof *a);
  a->f = (shoal_flight){ .ops = &agreement_ops, .g = g, .name = name, .control = true };
  while ((int64_t)1 << a->rounds < g->size) a->rounds++;
  for (int k = 0; k < a->rounds; k++) a->in_slot[k] = a->out_slot[k] = -1;
}

static shoal_status post_first(shoal_agreement *a)
{
  for (int k = 0; k < a->rounds; k++)
    SHOAL_TRY(shoal_flight_recv(&a->f, &a->in[k], sizeof a->in[k], peer_before(a->f.g, k), &a->in_slot[k]));
  return a->rounds ? send_round(a, 0) : SHOAL_OK;
}

shoal_status shoal_agreement_start(shoal_agreement *a, uint64_t number, int tag, int64_t value)
{
  a->f.number = number;
  a->f.tag = tag;
  a->value = value;
  a->round = 0;
  shoal_status st = post_first(a);
  if (st == SHOAL_OK) return shoal_flight_start(&a->f);
  agreement_give_up(&a->f);
  return st;
}

/* ---------------------------------------------------------------------------------------------------- votes */

struct shoal_vote {
  shoal_agreement a;
  char *name;
  uint64_t plan, posts;
  bool posted;
};

shoal_status shoal_vote_create(shoal_group *control, const char *name, shoal_vote **out)
{
  shoal_vote *v;
  shoal_status st;
  SHOAL_TRY(SHOAL_ALLOC(1, &v));
  v->plan = control->plans++;
  v->name = shoal_strdup_printf("vote \"%s\"", name);
  SHOAL_CHECK_GOTO(st, v->name, fail, SHOAL_ERR_MEM, "out of memory: vote %s", name);
  shoal_agreement_init(&v->a, control, v->name);
  SHOAL_TRY_GOTO(st, control->w->transport->reserve(control->w, 2 * v->a.rounds), fail);
  *out = v;
  return SHOAL_OK;
fail:
  free(v->name);
  free(v);
  return st;
}

shoal_status shoal_vote_post(shoal_vote *v, int64_t value)
{
  SHOAL_CHECK(!v->posted, SHOAL_ERR_ARG, "%s was posted already: take its result first", v->name);
  v->posted = true;
  v->posts++;
  return shoal_agreement_start(&v->a, v->posts, shoal_group_plan_tag(v->a.f.g, v->plan, v->posts), value);
}

bool shoal_vote_done(const shoal_vote *v)
{
  return v->posted && !v->a.f.moving;
}

shoal_status shoal_vote_result(shoal_vote *v, int64_t *maximum)
{
  SHOAL_CHECK(v->posted, SHOAL_ERR_ARG, "%s has no result: nothing was posted", v->name);
  SHOAL_TRY(shoal_flight_wait(&v->a.f));
  v->posted = false;
  *maximum = v->a.value;
  return SHOAL_OK;
}

void shoal_vote_destroy(shoal_vote *v)
{
  if (!v) return;
  shoal_group *g = v->a.f.g;
  shoal_flight_end(&v->a.f, SHOAL_ERR_COMM);
  (void)g->w->transport->reserve(g->w, -2 * v->a.rounds);
  free(v->name);
  free(v);
}
