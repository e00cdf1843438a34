/* Planning of backward: which slot holds which gradient, and where gradients are accumulated.
 *
 * Nodes are visited last to first, so when a node is reached, all readers of its output have contributed to the
 * gradient of that output.  The first contribution (from the last reader) is the gradient itself; each later one is
 * written to a new slot, the sum so far is added to it, and that slot becomes the gradient.  An ADD passes the same
 * gradient to both inputs without a copy:
 *
 *        x -----------+--> conv --> bn --+             dy of add  =  dy of bn  =  first part of dx
 *                     '----------------- add -->       dx of conv += first part         dx is complete
 *
 * A slot may thus be the gradient of several values not yet visited; `refs` counts them, and only a slot with a single
 * owner is written in place. */
#include "base/mem.h"
#include "nn/model_impl.h"
#include "nn/plan_impl.h"
#include <stdlib.h>

typedef struct {
  shoal_plan *p;
  int *grad; /* [nodes] slot of the gradient of a value so far */
  int *refs; /* [slot_room] values whose gradient a slot is */
} walk;

static bool wants(const walk *w, int v)
{
  return v >= 0 && w->p->node[v].backward;
}

/* Slot t holds a new contribution to v's gradient and has no other owner; the sum so far is added to it. */
static void bind(walk *w, shoal_planned *q, int k, int t, int moment)
{
  int v = q->in[k], before = w->grad[v];
  if (before >= 0) {
    q->sum[k].from = before;
    q->sum[k].to = t;
    q->sum[k].format = w->p->node[v].format;
    shoal_plan_use_slot(w->p, before, moment);
    w->refs[before]--;
  }
  shoal_plan_use_slot(w->p, t, moment);
  w->grad[v] = t;
  w->refs[t]++;
}

static int inputs_of(const shoal_planned *q)
{
  return shoal_op_inputs(&q->op->desc);
}

/* Whether all inputs can share one slot: they need the format of the sum, and a value that has a gradient already must
 * be its only owner, because the contribution is added there. */
static bool can_share(const walk *w, const shoal_planned *q)
{
  for (int k = 0; k < inputs_of(q); k++) {
    if (!shoal_format_equal(&q->op->in_format[k], &q->format)) return false;
    if (wants(w, q->in[k]) && w->grad[q->in[k]] >= 0 && w->refs[w->grad[q->in[k]]] > 1) return false;
    for (int j = 0; j < k; j++)
      if (q->in[j] == q->in[k]) return false;
  }
  return true;
}

static void shared_sum(walk *w, shoal_planned *q, int moment)
{
  int s = q->dy;
  bool in_place = w->refs[s] == 1 && q->op->dx_may_be_dy;
  q->skip_data = !q->op->desc.relu;
  w->refs[s]--;
  if (!q->skip_data && !in_place) s = shoal_plan_add_slot(w->p, q->format.bytes, moment, moment);
  for (int k = 0; k < inputs_of(q); k++) {
    int v = q->in[k];
    q->dx[k] = s;
    if (!wants(w, v)) continue;
    if (w->grad[v] < 0) {
      w->grad[v] = s;
      w->refs[s]++;
    } else {
      q->sum[k].from = s;
      q->sum[k].to = w->grad[v];
      q->sum[k].format = q->format;
      shoal_plan_use_slot(w->p, w->grad[v], moment);
    }
  }
}

static void separate_inputs(walk *w, shoal_planned *q, int moment)
{
  w->refs[q->dy]--;
  for (int k = 0; k < inputs_of(q); k++) {
    q->dx[k] = shoal_plan_add_slot(w->p, q->op->in_format[k].bytes, moment, moment);
    if (wants(w, q->in[k])) bind(w, q, k, q->dx[k], moment);
  }
}

static void single_input(walk *w, shoal_planned *q, int moment)
{
  bool in_place = q->op->dx_may_be_dy && w->refs[q->dy] == 1 && q->op->in_format[0].bytes == w->p->slot[q->dy].bytes;
  w->refs[q->dy]--;
  q->dx[0] = in_place ? q->dy : shoal_plan_add_slot(w->p, q->op->in_format[0].bytes, moment, moment);
  bind(w, q, 0, q->dx[0], moment);
}

/* dlogits are dense; the last node's dy is the same slot, or a copy in the node's format. */
static void start_from_loss(walk *w)
{
  shoal_plan *p = w->p;
  int moment = shoal_plan_moment_loss(p), last = p->model->nodes - 1;
  size_t dense = (size_t)shoal_shape_count(&p->node[last].shape) * sizeof(float);
  bool copy = !shoal_format_plain(&p->node[last].format);
  p->dlogits = copy ? p->dense_logits : shoal_plan_add_slot(p, dense, moment, moment);
  int dy = copy ? shoal_plan_add_slot(p, p->node[last].format.bytes, moment, moment) : p->dlogits;
  w->grad[p->logits] = dy;
  w->refs[dy] = 1;
}

static void walk_back(walk *w)
{
  shoal_plan *p = w->p;
  for (int i = 0; i < p->model->nodes; i++) w->grad[i] = SHOAL_NO_SLOT;
  start_from_loss(w);
  for (int i = p->model->nodes - 1; i >= 0; i--) {
    shoal_planned *q = &p->node[i];
    int moment = p->node[i].back_at;
    if (!q->op || !q->backward) continue;
    q->dy = w->grad[i];
    shoal_plan_use_slot(p, q->dy, moment);
    if (!q->op->desc.need_dx)
      w->refs[q->dy]--;
    else if (inputs_of(q) == 1)
      single_input(w, q, moment);
    else if (q->op->desc.kind == SHOAL_OP_ADD && can_share(w, q))
      shared_sum(w, q, moment);
    else
      separate_inputs(w, q, moment);
  }
}

shoal_status shoal_plan_find_ranges(shoal_plan *p)
{
  const shoal_model *m = p->model;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->params, &p->range));
  for (int i = m->nodes - 1; i >= 0; i--) {
    int ids[3], n = shoal_node_params(&m->node[i], ids);
    p->node[i].first_range = (int)p->n_ranges;
    for (int k = 0; k < n; k++) {
      const shoal_param *a = &m->param[ids[k]];
      if (a->frozen) continue;
      shoal_range *last = (int)p->n_ranges > p->node[i].first_range ? &p->range[p->n_ranges - 1] : NULL;
      if (last && last->offset + last->count == a->offset)
        last->count += a->count;
      else
        p->range[p->n_ranges++] = (shoal_range){ a->offset, a->count };
    }
    p->node[i].ranges = (int)p->n_ranges - p->node[i].first_range;
  }
  return SHOAL_OK;
}

shoal_status shoal_plan_backward_slots(shoal_plan *p)
{
  walk w = { .p = p };
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)p->model->nodes, &w.grad), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)p->slot_room, &w.refs), done);
  walk_back(&w);
done:
  free(w.grad);
  free(w.refs);
  return st;
}
