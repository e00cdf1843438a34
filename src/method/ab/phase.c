/* From weights to factors and back.
 *
 *   split       W = U S V^T on one rank per layer, its rank agreed, its factors broadcast;
 *               the part is built for these ranks, trained factors and the rest contiguous
 *   reconcile   [ the rest | B | A ] packed in gradient memory, summed according to the mode, and multiplied out into W
 *
 * Packing costs a copy, but only here: otherwise the trained parameters are contiguous in the arena, so that a step's
 * sums run in place.  The packing order is the same for ranks that train A and ranks that train B. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "method/ab/ab_impl.h"
#include "method/common/average.h"
#include "method/common/svd.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- the part */

void shoal_ab_take(shoal_run *r, shoal_ab_state *s, bool factored)
{
  s->factored = factored;
  r->form = factored ? &s->part : s->whole;
  r->alike = factored && s->own ? s->own : r->all;
}

/* Chooses product or chain for each layer, whichever is cheaper at a full batch. */
static void choose_ways(const shoal_run *r, const shoal_ab_state *s, const int64_t *rank,
                        shoal_factor_training training, shoal_factoring *how)
{
  for (size_t i = 0; i < s->layers.n; i++) {
    int node = s->layers.layer[i].node;
    shoal_factoring product = { rank[i], false }, chain = { rank[i], true };
    double by_chain = shoal_factor_macs(r->model, node, s->batch, chain, training);
    how[node] = by_chain < shoal_factor_macs(r->model, node, s->batch, product, training) ? chain : product;
  }
}

/* The trained ranges of `cut`: factors and the rest alternate. */
static shoal_status find_ranges(shoal_ab_state *s)
{
  size_t n = (size_t)s->cut->params;
  SHOAL_TRY(SHOAL_ALLOC(n, &s->range));
  SHOAL_TRY(SHOAL_ALLOC(n, &s->age));
  SHOAL_TRY(SHOAL_ALLOC(n, &s->is_factor));
  s->ranges = 0;
  for (int i = 0; i < s->cut->params; i++) {
    const shoal_param *p = &s->cut->param[i];
    if (p->frozen) continue;
    bool factor = p->factor != 0;
    if (s->ranges == 0 || s->is_factor[s->ranges - 1] != factor) {
      s->is_factor[s->ranges] = factor;
      s->range[s->ranges++] = (shoal_range){ .offset = p->offset };
    }
    s->range[s->ranges - 1].count += p->count;
  }
  s->part.ranges = s->range;
  s->part.n_ranges = s->ranges;
  return SHOAL_OK;
}

void shoal_ab_set_ages(shoal_ab_state *s)
{
  uint64_t factor = s->factor_steps[s->training == SHOAL_TRAIN_B];
  for (size_t i = 0; i < s->ranges; i++)
    s->age[i] = (s->is_factor[i] ? factor : s->whole->optim->steps) + s->phase_steps;
  s->part.optim->ages = s->age;
  s->part.optim->steps = s->whole->optim->steps + s->phase_steps;
}

/* Moves one slot of the optimizer state to the layout of `cut`: the rest from the whole, factors truncated or
 * padded. */
static shoal_status fit_slot(const shoal_run *r, const shoal_ab_state *s, int slot, const shoal_product *old,
                             const shoal_model *cut, const shoal_product *product, float *next)
{
  const float *now = s->part.optim->slot[slot];
  SHOAL_TRY(shoal_model_gather(r->backend, r->model, cut, s->whole->optim->slot[slot], next));
  for (size_t i = 0; old && i < s->layers.n; i++) {
    const shoal_product *a = &old[i], *b = &product[i];
    SHOAL_TRY(
        shoal_ab_fit(r->backend, now + a->left->offset, a->rows, a->rank, next + b->left->offset, b->rows, b->rank));
    SHOAL_TRY(
        shoal_ab_fit(r->backend, now + a->right->offset, a->rank, a->cols, next + b->right->offset, b->rank, b->cols));
  }
  return SHOAL_OK;
}

static shoal_status move_slot(const shoal_run *r, shoal_ab_state *s, int slot, const shoal_product *old,
                              const shoal_model *cut, const shoal_product *product)
{
  const shoal_backend_ops *ops = r->backend->ops;
  shoal_memory next;
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, cut->weights * sizeof(float), &next));
  shoal_status st = fit_slot(r, s, slot, old, cut, product, next.at);
  if (st == SHOAL_OK) st = ops->copy(r->backend, next.bytes, next.at, s->part.optim->slot[slot]);
  ops->release(r->backend, &next);
  return st;
}

/* A new part, not in use yet. */
typedef struct {
  shoal_model *cut;
  shoal_plans *plans;
  shoal_plan *plan;
  shoal_product *product;
} candidate;

static shoal_status make_candidate(shoal_run *r, shoal_ab_state *s, const int64_t *rank, shoal_factor_training training,
                                   candidate *c)
{
  shoal_factoring *how;
  SHOAL_TRY(SHOAL_ALLOC((size_t)r->model->nodes, &how));
  choose_ways(r, s, rank, training, how);
  shoal_status st = shoal_model_factor(r->model, how, training, &c->cut);
  free(how);
  SHOAL_TRY(st);
  SHOAL_TRY(SHOAL_ALLOC((size_t)c->cut->params / 2 + 1, &c->product));
  size_t n = shoal_model_products(r->model, c->cut, c->product);
  assert(n == s->layers.n);
  (void)n;
  SHOAL_TRY(shoal_plans_create(r->backend, c->cut, &c->plans));
  SHOAL_TRY(shoal_plans_match(c->plans, s->whole->plans));
  SHOAL_TRY(shoal_plans_get(c->plans, shoal_plan_batch(s->whole->plan), SHOAL_PLAN_TRAIN, &c->plan));
  for (int k = 0; k < s->part.optim->slots; k++)
    SHOAL_TRY(move_slot(r, s, k, s->cut ? s->product : NULL, c->cut, c->product));
  return SHOAL_OK;
}

static void drop_part(shoal_ab_state *s)
{
  shoal_buckets_destroy(s->buckets);
  shoal_plans_destroy(s->part.plans);
  shoal_model_destroy(s->cut);
  free(s->product);
  free(s->range);
  free(s->age);
  free(s->is_factor);
  s->buckets = NULL;
  s->part.plans = NULL;
  s->part.plan = NULL;
  s->part.model = NULL;
  s->part.ranges = NULL;
  s->cut = NULL;
  s->product = NULL;
  s->range = NULL;
  s->age = NULL;
  s->is_factor = NULL;
}

void shoal_ab_phase_close(shoal_run *r, shoal_ab_state *s)
{
  if (s->whole) shoal_ab_take(r, s, false);
  drop_part(s);
}

static void use_candidate(shoal_ab_state *s, const candidate *c, const int64_t *rank, shoal_factor_training training)
{
  drop_part(s);
  s->cut = c->cut;
  s->product = c->product;
  s->training = training;
  s->part.plans = c->plans;
  s->part.plan = c->plan;
  s->part.model = c->cut;
  s->part.params->n = s->part.optim->n = c->cut->weights;
  memcpy(s->rank, rank, s->layers.n * sizeof *rank);
}

/* With unchanged ranks plans and sums are reused; only the optimizer state of the rest is copied again. */
static bool same_part(const shoal_ab_state *s, const int64_t *rank, shoal_factor_training training)
{
  return s->cut && s->training == training && memcmp(s->rank, rank, s->layers.n * sizeof *rank) == 0;
}

shoal_status shoal_ab_cut_part(shoal_run *r, shoal_ab_state *s, const int64_t *rank)
{
  shoal_factor_training training = shoal_ab_role_a(s, s->group) ? SHOAL_TRAIN_A : SHOAL_TRAIN_B;
  bool same = same_part(s, rank, training);
  candidate c = { 0 };
  shoal_status st = SHOAL_OK;
  if (same) {
    for (int k = 0; st == SHOAL_OK && k < s->part.optim->slots; k++)
      st = shoal_model_gather(r->backend, r->model, s->cut, s->whole->optim->slot[k], s->part.optim->slot[k]);
  } else {
    st = make_candidate(r, s, rank, training, &c);
  }
  if (st == SHOAL_OK && !same) {
    use_candidate(s, &c, rank, training);
    st = find_ranges(s);
  } else if (st != SHOAL_OK) {
    shoal_plans_destroy(c.plans);
    shoal_model_destroy(c.cut);
    free(c.product);
  }
  SHOAL_TRY(shoal_group_agree(r->control, st));
  if (s->buckets) return SHOAL_OK;
  return shoal_buckets_create(r->config, &s->part, s->own ? s->own : r->all, "exchange of factors", "factors", s->wire,
                              s->algorithm, &s->buckets);
}

/* ---------------------------------------------------------------------------------------------------------- split */

static int owner_of(const shoal_run *r, size_t layer)
{
  return (int)(layer % (size_t)shoal_group_size(r->all));
}

/* What a split decomposes: svd and rank [layers], filled where this rank owns the layer. */
typedef struct {
  shoal_run *r;
  shoal_ab_state *s;
  bool cut;
  shoal_svd *svd;
  int64_t *rank;
} splitting;

static shoal_status decompose_own(void *context, const shoal_meanwhile *meanwhile)
{
  const splitting *p = context;
  const shoal_run *r = p->r;
  const shoal_ab_state *s = p->s;
  shoal_svd *svd = p->svd;
  int64_t *rank = p->rank;
  for (size_t i = 0; i < s->layers.n; i++) {
    const shoal_ab_layer *l = &s->layers.layer[i];
    if (owner_of(r, i) != shoal_group_rank(r->all)) continue;
    shoal_window w;
    SHOAL_TRY(shoal_window_open(r->backend, SHOAL_WINDOW_READ, (size_t)(l->rows * l->cols),
                                s->whole->params->w + r->model->param[l->param].offset, &w));
    shoal_status st = shoal_svd_make(w.at, l->rows, l->cols, r->model->node[l->node].name, meanwhile, &svd[i]);
    shoal_window_drop(&w);
    SHOAL_TRY(st);
    rank[i] = l->n;
    if (!p->cut) continue;
    rank[i] = shoal_svd_rank(svd[i].sigma, l->n, s->cutoff);
    if (s->cap) rank[i] = SHOAL_MIN(rank[i], shoal_ab_rank_cap(l));
  }
  return SHOAL_OK;
}

static shoal_status send_from(shoal_run *r, shoal_ab_state *s, int root, float *x, size_t n)
{
  uint64_t bytes[SHOAL_LINK_COUNT] = { 0 };
  shoal_group_broadcast_bytes(r->all, n * sizeof *x, root, bytes);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) r->sent[link] += bytes[link];
  return shoal_broadcast_arena(r->backend, r->all, x, n, root);
}

static shoal_status put_factors(shoal_run *r, const shoal_product *p, const shoal_svd *svd, float *w)
{
  shoal_window left, right;
  SHOAL_TRY(shoal_window_open(r->backend, SHOAL_WINDOW_WRITE, p->left->count, w + p->left->offset, &left));
  shoal_status st = shoal_window_open(r->backend, SHOAL_WINDOW_WRITE, p->right->count, w + p->right->offset, &right);
  if (st == SHOAL_OK) {
    shoal_svd_split(svd, p->rank, left.at, right.at);
    st = shoal_window_close(r->backend, &right);
  }
  if (st == SHOAL_OK) return shoal_window_close(r->backend, &left);
  shoal_window_drop(&left);
  return st;
}

static shoal_status send_factors(shoal_run *r, shoal_ab_state *s, const shoal_svd *svd)
{
  float *w = s->part.params->w;
  for (size_t i = 0; i < s->layers.n; i++) {
    const shoal_product *p = &s->product[i];
    if (svd[i].u) SHOAL_TRY(put_factors(r, p, &svd[i], w));
    SHOAL_TRY(send_from(r, s, owner_of(r, i), w + p->left->offset, p->left->count));
    SHOAL_TRY(send_from(r, s, owner_of(r, i), w + p->right->offset, p->right->count));
  }
  return SHOAL_OK;
}

static shoal_status forget_moments(shoal_run *r, shoal_ab_state *s)
{
  for (int k = 0; s->reset && k < s->whole->optim->slots; k++) {
    SHOAL_TRY(r->backend->ops->fill(r->backend, s->whole->optim->n, 0, s->whole->optim->slot[k]));
    SHOAL_TRY(r->backend->ops->fill(r->backend, s->part.optim->n, 0, s->part.optim->slot[k]));
  }
  return SHOAL_OK;
}

void shoal_ab_print_split(const shoal_run *r, shoal_ab_state *s, uint64_t done, bool cut)
{
  int64_t least = s->rank[0], most = s->rank[0];
  size_t products = 0;
  char what[48];
  for (size_t i = 0; i < s->layers.n; i++) least = SHOAL_MIN(least, s->rank[i]), most = SHOAL_MAX(most, s->rank[i]);
  for (int i = 0; i < s->cut->nodes; i++) products += s->cut->node[i].rank > 0;
  snprintf(what, sizeof what, "cut at %g", s->cutoff);
  bool advise = cut && s->cut->weights > r->model->weights && !s->advised;
  s->advised |= advise;
  shoal_info("ab: factors from step %llu on, %s: ranks %lld to %lld, %zu numbers for %zu (%.1f %%), %zu of %zu layers "
             "multiplied out (rank 0)%s",
             (unsigned long long)done, cut ? what : "nothing cut", (long long)least, (long long)most, s->cut->weights,
             r->model->weights, 100.0 * (double)s->cut->weights / (double)r->model->weights, products, s->layers.n,
             advise ? "; raise method.cutoff or set method.cap to make them smaller" : "");
}

static shoal_status split(shoal_run *r, shoal_ab_state *s, bool cut, shoal_svd *svd, int64_t *rank)
{
  SHOAL_TRY(shoal_svd_together(r->control, "split", decompose_own, &(splitting){ r, s, cut, svd, rank }));
  SHOAL_TRY(shoal_group_max_i64(r->control, rank, s->layers.n));
  s->splits++;
  SHOAL_TRY(shoal_ab_cut_part(r, s, rank));
  SHOAL_TRY(shoal_model_gather(r->backend, r->model, s->cut, s->whole->params->w, s->part.params->w));
  SHOAL_TRY(send_factors(r, s, svd));
  SHOAL_TRY(r->backend->ops->copy(r->backend, r->model->stats * sizeof(float), s->whole->params->stats,
                                  s->part.params->stats));
  s->part.params->version++;
  s->phase_steps = 0;
  shoal_ab_take(r, s, true);
  shoal_ab_set_ages(s);
  SHOAL_TRY(forget_moments(r, s));
  shoal_ab_ramp_start(&s->ramp, s->schedule.ramp);
  return SHOAL_OK;
}

shoal_status shoal_ab_split(shoal_run *r, shoal_ab_state *s, bool cut)
{
  uint64_t t0 = shoal_now_ns();
  shoal_svd *svd = NULL;
  int64_t *rank = NULL;
  shoal_status st = SHOAL_ALLOC(s->layers.n, &svd);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(s->layers.n, &rank);
  shoal_status all = shoal_group_agree(r->control, st);
  if (st == SHOAL_OK && all == SHOAL_OK) all = split(r, s, cut, svd, rank);
  for (size_t i = 0; svd && i < s->layers.n; i++) shoal_svd_free(&svd[i]);
  free(svd);
  free(rank);
  shoal_trace_span(r->trace, SHOAL_TRACE_OTHER, s->op_split, t0, shoal_now_ns());
  return all;
}

/* ------------------------------------------------------------------------------------------------------ reconcile */

/* A reconciliation: over the world, counted as payload; or only to observe its result, counted as control. */
typedef struct {
  shoal_group *group;
  bool observing;
  float *pack;       /* gradient memory: the rest, then B, then A */
  size_t rest, b, a; /* elements of each */
} meeting;

static const shoal_param *factor_a(const shoal_product *p)
{
  return p->left->factor == 'a' ? p->left : p->right;
}

static const shoal_param *factor_b(const shoal_product *p)
{
  return p->left->factor == 'a' ? p->right : p->left;
}

static shoal_status put(shoal_run *r, meeting *m, size_t *count, const float *from, size_t n, float scale)
{
  float *to = m->pack + m->rest + m->b + m->a;
  *count += n;
  if (scale == 1) return r->backend->ops->copy(r->backend, n * sizeof *to, from, to);
  return r->backend->ops->axpby(r->backend, n, scale, from, 0, to);
}

static shoal_status pack(shoal_run *r, const shoal_ab_state *s, meeting *m, float rest, float b, float a)
{
  const float *w = s->part.params->w;
  m->rest = m->b = m->a = 0;
  for (int i = 0; i < s->cut->params; i++) {
    const shoal_param *p = &s->cut->param[i];
    if (p->full_id >= 0) SHOAL_TRY(put(r, m, &m->rest, w + p->offset, p->count, rest));
  }
  for (size_t i = 0; i < s->layers.n; i++) {
    const shoal_param *p = factor_b(&s->product[i]);
    SHOAL_TRY(put(r, m, &m->b, w + p->offset, p->count, b));
  }
  for (size_t i = 0; i < s->layers.n; i++) {
    const shoal_param *p = factor_a(&s->product[i]);
    SHOAL_TRY(put(r, m, &m->a, w + p->offset, p->count, a));
  }
  return SHOAL_OK;
}

/* Unpacks into the weights of the whole model.  Every rank multiplies for itself, and all get the same bits. */
static shoal_status unpack(shoal_run *r, const shoal_ab_state *s, const meeting *m, float *out)
{
  const float *at = m->pack, *b = m->pack + m->rest, *a = b + m->b;
  for (int i = 0; i < s->cut->params; i++) {
    const shoal_param *p = &s->cut->param[i];
    if (p->full_id < 0) continue;
    SHOAL_TRY(r->backend->ops->copy(r->backend, p->count * sizeof *out, at, out + r->model->param[p->full_id].offset));
    at += p->count;
  }
  for (size_t i = 0; i < s->layers.n; i++) {
    const shoal_product *p = &s->product[i];
    const float *left = p->left->factor == 'a' ? a : b, *right = p->left->factor == 'a' ? b : a;
    SHOAL_TRY(r->backend->ops->multiply(r->backend, p->rows, p->cols, p->rank, left, right, out + p->weight->offset));
    a += factor_a(p)->count;
    b += factor_b(p)->count;
  }
  return SHOAL_OK;
}

static shoal_status sum(shoal_run *r, const shoal_ab_state *s, const meeting *m, shoal_group *g, const char *name,
                        float *x, size_t n)
{
  shoal_exchange *e;
  shoal_sum_algorithm algorithm = s->algorithm == SHOAL_SUM_SMALL ? SHOAL_SUM_AUTO : s->algorithm;
  uint64_t bytes[SHOAL_LINK_COUNT];
  SHOAL_TRY(shoal_exchange_create_sum(g, name, n, SHOAL_WIRE_F32, algorithm, &e));
  shoal_exchange_bytes(g, n, SHOAL_WIRE_F32, shoal_exchange_algorithm(e), bytes);
  for (int link = 0; !m->observing && link < SHOAL_LINK_COUNT; link++) r->sent[link] += bytes[link];
  shoal_status st = shoal_exchange_start(e, x, shoal_backend_mark(r->backend));
  if (st == SHOAL_OK) st = shoal_exchange_wait(e);
  shoal_exchange_destroy(e);
  return st;
}

/* Half 0: the groups that started with A; half 1: the others.  With method.swap they alternate. */
static int half_of(const shoal_ab_state *s, int group)
{
  return group >= s->groups.a_groups;
}

static int half_that_trains_a(const shoal_ab_state *s)
{
  return shoal_ab_role_a(s, 0) ? 0 : 1;
}

static int groups_in(const shoal_ab_state *s, int half)
{
  return half == 0 ? s->groups.a_groups : s->groups.groups - s->groups.a_groups;
}

static int first_group(const shoal_ab_state *s, int half)
{
  return half == 0 ? 0 : s->groups.a_groups;
}

static int ranks_in(const shoal_ab_state *s, int half)
{
  int first = first_group(s, half);
  return s->groups.first[first + groups_in(s, half)] - s->groups.first[first];
}

/* Averages a trained factor over the ranks that trained it, then sends it to all. */
static shoal_status share_learned(shoal_run *r, shoal_ab_state *s, const meeting *m, int half, float *x, size_t n)
{
  if (s->half && half_of(s, s->group) == half) SHOAL_TRY(sum(r, s, m, s->half, "learned factors", x, n));
  return send_from(r, s, s->groups.rank[s->groups.first[first_group(s, half)]], x, n);
}

static shoal_status meet_learned(shoal_run *r, shoal_ab_state *s, meeting *m)
{
  int half_a = half_that_trains_a(s), mine = half_of(s, s->group);
  float share = 1.0f / (float)shoal_group_size(r->all), learned = 1;
  if (m->observing) { /* one rank per group contributes; ranks that did not train the factor add zeros */
    bool speaks = s->groups.rank[s->groups.first[s->group]] == shoal_group_rank(r->all);
    learned = speaks ? 1.0f / (float)groups_in(s, mine) : 0;
    SHOAL_TRY(pack(r, s, m, share, mine == half_a ? 0 : learned, mine == half_a ? learned : 0));
    return sum(r, s, m, m->group, "model", m->pack, m->rest + m->b + m->a);
  }
  if (groups_in(s, mine) > 1) learned = 1.0f / (float)ranks_in(s, mine);
  SHOAL_TRY(pack(r, s, m, share, mine == half_a ? 1 : learned, mine == half_a ? learned : 1));
  SHOAL_TRY(sum(r, s, m, m->group, "rest", m->pack, m->rest));
  SHOAL_TRY(share_learned(r, s, m, 1 - half_a, m->pack + m->rest, m->b));
  return share_learned(r, s, m, half_a, m->pack + m->rest + m->b, m->a);
}

/* Every rank multiplies its own factors; the products are averaged. */
static shoal_status meet_full(shoal_run *r, shoal_ab_state *s, meeting *m, float *out)
{
  SHOAL_TRY(pack(r, s, m, 1, 1, 1));
  SHOAL_TRY(unpack(r, s, m, out));
  SHOAL_TRY(
      r->backend->ops->axpby(r->backend, r->model->weights, 1.0f / (float)shoal_group_size(r->all), out, 0, m->pack));
  SHOAL_TRY(sum(r, s, m, m->group, "weights", m->pack, r->model->weights));
  return r->backend->ops->copy(r->backend, r->model->weights * sizeof *out, m->pack, out);
}

static shoal_status meet(shoal_run *r, shoal_ab_state *s, meeting *m, float *out)
{
  float share = 1.0f / (float)shoal_group_size(r->all);
  bool several = s->groups.groups > 1;
  switch (s->mode) {
  case SHOAL_AB_FULL:
    return meet_full(r, s, m, out);
  case SHOAL_AB_ONLY_LEARNED:
    SHOAL_TRY(meet_learned(r, s, m));
    break;
  case SHOAL_AB_WITH_STALE:
    SHOAL_TRY(pack(r, s, m, share, share, share));
    SHOAL_TRY(sum(r, s, m, m->group, "all factors", m->pack, m->rest + m->b + m->a));
    break;
  case SHOAL_AB_ONLY_B: /* A is equal on all ranks; in a single group all parameters are */
    SHOAL_TRY(pack(r, s, m, several ? share : 1, several ? share : 1, 1));
    if (several) SHOAL_TRY(sum(r, s, m, m->group, "B", m->pack, m->rest + m->b));
    break;
  }
  return unpack(r, s, m, out);
}

shoal_status shoal_ab_reconcile(shoal_run *r, shoal_ab_state *s)
{
  uint64_t t0 = shoal_now_ns();
  meeting m = { .group = r->all, .pack = s->part.params->g };
  SHOAL_TRY(meet(r, s, &m, s->whole->params->w));
  SHOAL_TRY(shoal_mean_stats(r->backend, r->control, r->model, s->part.params->stats, s->whole->params->stats));
  s->whole->params->version++;
  s->factor_steps[s->training == SHOAL_TRAIN_B] += s->phase_steps;
  s->phase_steps = 0;
  shoal_ab_take(r, s, false);
  SHOAL_TRY(forget_moments(r, s));
  shoal_ab_ramp_start(&s->ramp, s->schedule.ramp);
  shoal_trace_span(r->trace, SHOAL_TRACE_OTHER, s->op_reconcile, t0, shoal_now_ns());
  return SHOAL_OK;
}

shoal_status shoal_ab_observe(shoal_run *r, shoal_ab_state *s, float *weights, float *stats)
{
  meeting m = { .group = r->control, .observing = true, .pack = s->part.params->g };
  SHOAL_TRY(meet(r, s, &m, weights));
  return shoal_mean_stats(r->backend, r->control, r->model, s->part.params->stats, stats);
}
