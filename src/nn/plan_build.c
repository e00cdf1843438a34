/* Building a plan: operations are created in node order, each with the formats its producers chose; then every buffer
 * gets a lifetime and an offset in one arena.
 *
 * Time runs 0..n-1 forward, n the loss, then backward: node i at 2n-i, or later where units are repeated before they run backward.
 * An output is live until its last reader, which may be in backward.  An operation that supports it runs in place if its input
 * is not needed later. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/model_impl.h"
#include "nn/plan_impl.h"
#include <stdlib.h>

/* Slots per node at most: output and saved of two passes, gradient of a product; of each input an entry in each pass, and dx; a few
 * for all. */
enum { SLOTS_PER_NODE = 5, SLOTS_PER_INPUT = 3, SLOTS_MORE = 8 };
enum { PARTS_KEPT = 4 }; /* recordings of one part: two rooms of the input, for two sets of weights */

int shoal_plan_add_slot(shoal_plan *p, size_t bytes, int birth, int death)
{
  if (p->slots == p->slot_room) return SHOAL_NO_SLOT;
  p->slot[p->slots] = (shoal_slot){ .bytes = bytes, .birth = birth, .death = death };
  return p->slots++;
}

static int resolve(const shoal_plan *p, int v)
{
  return v >= 0 && !p->node[v].op ? p->node[v].in[0] : v;
}

/* Format of value v with the shape it has in the graph: an alias has its own shape, and so its own dense format. */
static shoal_format format_of(const shoal_plan *p, const shoal_op_desc *d, int k, int v)
{
  return v < 0 ? shoal_format_dense(&d->in[k], SHOAL_ELEMENTS_F32) : p->node[v].format;
}

static bool only_renames(const shoal_plan *p, const shoal_node *n, const shoal_format *in)
{
  if (n->kind == SHOAL_OP_DROPOUT) return !p->training || n->p == 0;
  return (n->kind == SHOAL_OP_FLATTEN || n->kind == SHOAL_OP_RESHAPE) && in->dense;
}

static bool has_gradient(const shoal_plan *p, int v)
{
  return v >= 0 && p->node[v].backward;
}

static shoal_status create_op(shoal_plan *p, const shoal_node *n, const shoal_op_desc *d, const shoal_format *in,
                              shoal_op **out)
{
  return shoal_error_prefix(shoal_op_create(p->backend, d, in, out), "layer %s: ", n->name);
}

static shoal_status plan_node(shoal_plan *p, int i)
{
  const shoal_node *n = &p->model->node[i];
  shoal_planned *q = &p->node[i];
  shoal_op_desc d;
  shoal_format in[SHOAL_OP_INPUTS] = { { 0 } };
  int inputs = shoal_node_inputs(n);
  shoal_node_desc(p->model, n, p->batch, &d);
  q->shape = d.out;
  q->backward = p->training && shoal_node_trains(p->model, n);
  for (int k = 0; k < inputs; k++) {
    in[k] = format_of(p, &d, k, n->in[k]);
    q->in[k] = resolve(p, n->in[k]);
    d.need_dx = d.need_dx || has_gradient(p, q->in[k]);
  }
  q->backward = q->backward || d.need_dx;
  if (only_renames(p, n, &in[0])) {
    q->format = in[0].dense ? shoal_format_dense(&q->shape, in[0].elements) : in[0];
    return SHOAL_OK;
  }
  d.training = p->training || (p->measuring && n->kind == SHOAL_OP_BATCHNORM);
  SHOAL_TRY(create_op(p, n, &d, in, &q->op));
  q->format = q->op->out_format;
  p->draws |= n->kind == SHOAL_OP_DROPOUT;
  return SHOAL_OK;
}

/* ---- lifetimes of the passes forward ---- */

/* Last read of a value: in the first pass forward (a node), when units are repeated, and in backward (-1: never). */
typedef struct {
  int forward, again, backward;
  bool pinned; /* live until the end */
  bool kept;   /* what the first pass writes is what is read later; else it is computed again for that */
} reads;

static bool same_unit(const shoal_plan *p, int a, int b)
{
  return p->model->node[a].unit == p->model->node[b].unit;
}

/* Backward of the last unit follows its forward, so nothing is gained by repeating it. */
static bool may_repeat(const shoal_plan *p, int i, bool recompute)
{
  return recompute && !same_unit(p, i, p->model->nodes - 1);
}

static void set_moments(shoal_plan *p, bool recompute)
{
  int moment = shoal_plan_moment_loss(p);
  for (int end = p->model->nodes, begin; end > 0; end = begin) {
    begin = shoal_plan_unit_begin(p, end - 1);
    for (int i = begin; i < end && may_repeat(p, i, recompute); i++) p->node[i].again_at = ++moment;
    for (int i = end - 1; i >= begin; i--) p->node[i].back_at = ++moment;
  }
  p->end = moment + 1;
}

static void read_first(const shoal_plan *p, reads *r, int v, int node)
{
  if (v < 0) return;
  r[v].forward = node;
  r[v].kept |= !same_unit(p, v, node);
}

static void read_backward(const shoal_plan *p, reads *r, int v, int node)
{
  if (v >= 0) r[v].backward = SHOAL_MAX(r[v].backward, p->node[node].back_at);
}

static void find_reads(const shoal_plan *p, bool recompute, reads *r)
{
  const shoal_model *m = p->model;
  for (int i = 0; i < m->nodes; i++) r[i] = (reads){ -1, -1, -1, .kept = !may_repeat(p, i, recompute) };
  for (int i = 0; i < m->nodes; i++) {
    const shoal_planned *q = &p->node[i];
    int v = resolve(p, i);
    if ((m->node[i].keep || i == m->nodes - 1) && v >= 0) r[v].pinned = r[v].kept = true;
    if (!q->op) continue;
    for (int k = 0; k < shoal_node_inputs(&m->node[i]); k++) {
      read_first(p, r, q->in[k], i);
      if (q->backward && q->op->backward_reads_x) read_backward(p, r, q->in[k], i);
    }
    if (q->backward && q->op->backward_reads_y) read_backward(p, r, i, i);
  }
}

/* Which nodes run again: those that save something for backward, or whose output backward or another one of them reads and the first
 * pass has not kept. */
static void find_repeated(shoal_plan *p, bool recompute, reads *r)
{
  for (int i = p->model->nodes - 1; i >= 0; i--) {
    shoal_planned *q = &p->node[i];
    const bool read = r[i].backward >= 0 || r[i].again >= 0;
    q->repeats =
        q->op && may_repeat(p, i, recompute) && ((q->backward && q->op->saved_bytes > 0) || (read && !r[i].kept));
    if (!q->repeats) continue;
    for (int k = 0; k < shoal_node_inputs(&p->model->node[i]); k++)
      if (q->in[k] >= 0) r[q->in[k]].again = SHOAL_MAX(r[q->in[k]].again, q->again_at);
    if (r[i].kept) r[i].again = SHOAL_MAX(r[i].again, q->again_at); /* written over by the same numbers */
  }
}

/* Whether operation i may write over its first input, which nobody reads later in this pass (`last`) or after it. */
static bool may_overwrite(const shoal_plan *p, int i, bool last)
{
  const shoal_planned *q = &p->node[i];
  int v = q->in[0];
  for (int k = 1; k < shoal_node_inputs(&p->model->node[i]); k++)
    if (q->in[k] == v) return false;
  return q->op->y_may_be_x && last && p->node[v].format.bytes == q->format.bytes;
}

static void first_output(shoal_plan *p, const reads *r, int i)
{
  shoal_planned *q = &p->node[i];
  const int v = q->in[0], x = v < 0 ? SHOAL_NO_SLOT : p->node[v].first.y;
  const int last = r[i].pinned ? p->end
                   : r[i].kept ? SHOAL_MAX(SHOAL_MAX(i, r[i].forward), SHOAL_MAX(r[i].again, r[i].backward))
                               : SHOAL_MAX(i, r[i].forward);
  const bool ends =
      v >= 0 && r[v].forward == i && !r[v].pinned && (!r[v].kept || (r[v].again < 0 && r[v].backward < 0));
  q->first.y = may_overwrite(p, i, ends) ? x : shoal_plan_add_slot(p, q->format.bytes, i, last);
  shoal_plan_use_slot(p, q->first.y, last);
}

static void output_again(shoal_plan *p, const reads *r, int i)
{
  shoal_planned *q = &p->node[i];
  const int v = q->in[0], last = SHOAL_MAX(q->again_at, SHOAL_MAX(r[i].again, r[i].backward));
  const bool ends = v >= 0 && !r[v].kept && r[v].again == q->again_at && r[v].backward < 0;
  q->again.y =
      may_overwrite(p, i, ends) ? p->node[v].again.y : shoal_plan_add_slot(p, q->format.bytes, q->again_at, last);
  shoal_plan_use_slot(p, q->again.y, last);
}

/* What a pass that begins at `moment` writes besides the output; `back`: backward reads it. */
static void plan_written(shoal_plan *p, int i, int moment, bool back, shoal_written *w)
{
  const shoal_planned *q = &p->node[i];
  for (int k = 0; k < shoal_node_inputs(&p->model->node[i]); k++)
    if (q->in[k] < 0 && !shoal_format_plain(&q->op->in_format[k]))
      w->entry[k] = shoal_plan_add_slot(p, q->op->in_format[k].bytes, moment,
                                        back && q->op->backward_reads_x ? q->back_at : moment);
  if (q->op->saved_bytes > 0) w->saved = shoal_plan_add_slot(p, q->op->saved_bytes, moment, back ? q->back_at : moment);
}

/* The gradient of a weight that is a product, or tied. */
static void plan_weight(shoal_plan *p, int i)
{
  const shoal_model *m = p->model;
  const shoal_node *n = &m->node[i];
  shoal_planned *q = &p->node[i];
  if (!p->training) return;
  if (n->tied) {
    const shoal_param *table = &m->param[n->weight[0]];
    q->dweight = shoal_plan_add_slot(p, table->count * sizeof(float), q->back_at, p->node[table->node].back_at);
  } else if (n->rank > 0) {
    const shoal_param *left = &m->param[n->factor[0]], *right = &m->param[n->factor[1]];
    q->dweight = shoal_plan_add_slot(p, (size_t)(left->shape.dim[0] * right->shape.dim[1]) * sizeof(float), q->back_at,
                                     q->back_at);
  }
}

static void forward_slots(shoal_plan *p, const reads *r)
{
  for (int i = 0; i < p->model->nodes; i++) {
    shoal_planned *q = &p->node[i];
    if (!q->op) continue;
    first_output(p, r, i);
    plan_written(p, i, i, q->backward && !q->repeats, &q->first);
    q->again = q->first;
    if (q->repeats) plan_written(p, i, q->again_at, q->backward, &q->again);
    if (q->repeats && !r[i].kept) output_again(p, r, i);
    plan_weight(p, i);
  }
  for (int i = 0; i < p->model->nodes; i++) {
    int v = resolve(p, i);
    p->node[i].stays = v >= 0 && r[v].kept && (r[v].pinned || r[v].again >= 0 || r[v].backward >= 0);
  }
}

static shoal_status plan_logits(shoal_plan *p)
{
  const shoal_model *m = p->model;
  int last = m->nodes - 1;
  const shoal_shape *s = &p->node[last].shape;
  int64_t width = s->dim[s->ndim - 1];
  p->logits = resolve(p, last);
  SHOAL_CHECK(p->logits >= 0, SHOAL_ERR_ARG, "model %s computes nothing", m->name);
  p->has_loss = width == m->classes;
  SHOAL_CHECK(p->has_loss || !p->training, SHOAL_ERR_ARG,
              "model %s ends in layer %s of width %lld, not in %lld classes; attach a head to train it", m->name,
              m->node[last].name, (long long)width, (long long)m->classes);
  p->rows = shoal_shape_count(s) / width;
  p->dense_logits = p->dlogits = SHOAL_NO_SLOT;
  if (!shoal_format_plain(&p->node[last].format))
    p->dense_logits = shoal_plan_add_slot(p, (size_t)shoal_shape_count(s) * sizeof(float), shoal_plan_moment_loss(p),
                                          shoal_plan_moment_loss(p));
  return SHOAL_OK;
}

static shoal_status allocate(shoal_plan *p, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  return p->backend->ops->alloc(p->backend, kind, bytes, out);
}

/* Scores of evaluations are not weighted. */
static shoal_status bring_class_weights(shoal_plan *p)
{
  const size_t bytes = (size_t)p->model->classes * sizeof *p->model->class_weights;
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_DEVICE, bytes, &p->class_weights));
  return p->backend->ops->copy(p->backend, bytes, p->model->class_weights, p->class_weights.at);
}

static shoal_status allocate_all(shoal_plan *p)
{
  const size_t now = sizeof *p->set + (p->has_loss ? shoal_plan_label_bytes(p) : 0);
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_PINNED, sizeof(shoal_loss), &p->result));
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_PINNED, p->n_ranges * sizeof(size_t), &p->bad));
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_DEVICE, now, &p->now));
  SHOAL_TRY(SHOAL_ALLOC(p->n_ranges, &p->ends));
  if (p->training && p->model->class_weights) SHOAL_TRY(bring_class_weights(p));
  if (p->backend->records)
    SHOAL_TRY(shoal_parts_create(p->backend, PARTS_KEPT * (p->n_ranges + 2), &p->parts)); /* forward, and a rest */
  SHOAL_TRY(shoal_alloc(1, now, "what changes from step to step", (void **)&p->set));
  return allocate(p, SHOAL_MEMORY_DEVICE, p->bytes, &p->memory);
}

static void forget_slots(shoal_plan *p)
{
  const shoal_written none = { .y = SHOAL_NO_SLOT, .saved = SHOAL_NO_SLOT };
  p->slots = 0;
  for (int i = 0; i < p->model->nodes; i++) {
    shoal_planned *q = &p->node[i];
    q->first = none;
    q->dy = q->dweight = SHOAL_NO_SLOT;
    q->skip_data = false;
    for (int k = 0; k < SHOAL_OP_INPUTS; k++)
      q->first.entry[k] = q->dx[k] = q->sum[k].from = q->sum[k].to = SHOAL_NO_SLOT;
    q->again = q->first;
  }
}

/* Every slot, its lifetime and its offset; p->bytes is what they take. */
static shoal_status plan_slots(shoal_plan *p, bool recompute)
{
  size_t scratch = 0;
  reads *r;
  forget_slots(p);
  set_moments(p, recompute);
  SHOAL_TRY(SHOAL_ALLOC((size_t)p->model->nodes, &r));
  find_reads(p, recompute, r);
  find_repeated(p, recompute, r);
  forward_slots(p, r);
  free(r);
  SHOAL_TRY(plan_logits(p));
  if (p->training) SHOAL_TRY(shoal_plan_backward_slots(p));
  for (int i = 0; i < p->model->nodes; i++)
    if (p->node[i].op) scratch = SHOAL_MAX(scratch, p->node[i].op->scratch_bytes);
  p->scratch = shoal_plan_add_slot(p, scratch, 0, p->end);
  SHOAL_CHECK(p->scratch != SHOAL_NO_SLOT, SHOAL_ERR_INTERNAL, "model %s: more buffers than planned", p->model->name);
  return shoal_place(p->slot, p->slots, &p->bytes);
}

static shoal_status build(shoal_plan *p, const shoal_model *m)
{
  SHOAL_TRY(shoal_model_copy(m, &p->model));
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->nodes, &p->node));
  p->slot_room = SLOTS_MORE;
  for (int i = 0; i < m->nodes; i++) {
    p->slot_room += SLOTS_PER_NODE + SLOTS_PER_INPUT * shoal_node_inputs(&m->node[i]);
    for (int k = 0; k < SHOAL_OP_INPUTS; k++) p->node[i].in[k] = SHOAL_NO_INPUT;
  }
  SHOAL_TRY(SHOAL_ALLOC((size_t)p->slot_room, &p->slot));
  for (int i = 0; i < m->nodes; i++) SHOAL_TRY(plan_node(p, i));
  if (p->training) SHOAL_TRY(shoal_plan_find_ranges(p));
  SHOAL_TRY(plan_slots(p, false));
  p->bytes_all = p->bytes;
  if (p->training && m->recompute) {
    SHOAL_TRY(plan_slots(p, true));
    if (p->bytes >= p->bytes_all) SHOAL_TRY(plan_slots(p, false)); /* it would cost time for nothing */
  }
  return allocate_all(p);
}

shoal_status shoal_plan_create(shoal_backend *b, const shoal_model *m, int64_t batch, shoal_plan_mode mode,
                               shoal_plan **out)
{
  SHOAL_CHECK(batch >= 1, SHOAL_ERR_ARG, "model %s: batch of %lld; must be at least 1", m->name, (long long)batch);
  SHOAL_CHECK(!m->joined, SHOAL_ERR_ARG, "model %s is several models side by side; plan each of them", m->name);
  shoal_plan *p = calloc(1, sizeof *p);
  SHOAL_CHECK(p, SHOAL_ERR_MEM, "plan of model %s", m->name);
  p->backend = b;
  p->batch = batch;
  p->training = mode == SHOAL_PLAN_TRAIN;
  p->measuring = mode == SHOAL_PLAN_MEASURE;
  shoal_status st = build(p, m);
  if (st != SHOAL_OK) {
    shoal_plan_destroy(p);
    return st;
  }
  *out = p;
  return SHOAL_OK;
}

void shoal_plan_destroy(shoal_plan *p)
{
  if (!p) return;
  shoal_parts_destroy(p->parts);
  for (int i = 0; p->node && i < p->model->nodes; i++) shoal_op_destroy(p->node[i].op);
  p->backend->ops->release(p->backend, &p->result);
  p->backend->ops->release(p->backend, &p->now);
  p->backend->ops->release(p->backend, &p->bad);
  p->backend->ops->release(p->backend, &p->class_weights);
  p->backend->ops->release(p->backend, &p->memory);
  free(p->set);
  free(p->ends);
  free(p->node);
  free(p->slot);
  free(p->range);
  shoal_model_destroy(p->model);
  free(p);
}
