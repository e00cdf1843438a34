/* Building a plan: operations are created in node order, each with the formats its producers chose; then every buffer
 * gets a lifetime and an offset in one arena.
 *
 * Time runs 0..n-1 forward, n the loss, n+1..2n backward (node i at 2n-i).  An output is live until its last reader,
 * which may be in backward.  An operation that supports it runs in place if its input is not needed later. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/model_impl.h"
#include "nn/plan_impl.h"
#include <stdlib.h>

/* Slots per node at most: output, saved, gradient of a product, and an entry and dx of each input; a few for all. */
enum { SLOTS_PER_NODE = 3, SLOTS_PER_INPUT = 2, SLOTS_MORE = 8 };
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

/* ---- lifetimes of the way forward ---- */

/* Last read of a value in forward and in backward (-1: never); .pinned: live until the end. */
typedef struct {
  int forward, backward;
  bool pinned;
} reads;

static void read_backward(const shoal_plan *p, reads *r, int v, int node)
{
  if (v >= 0) r[v].backward = SHOAL_MAX(r[v].backward, shoal_plan_moment_backward(p, node));
}

static void find_reads(const shoal_plan *p, reads *r)
{
  const shoal_model *m = p->model;
  for (int i = 0; i < m->nodes; i++) r[i] = (reads){ -1, -1, false };
  for (int i = 0; i < m->nodes; i++) {
    const shoal_planned *q = &p->node[i];
    int v = resolve(p, i);
    if ((m->node[i].keep || i == m->nodes - 1) && v >= 0) r[v].pinned = true;
    if (!q->op) continue;
    for (int k = 0; k < shoal_node_inputs(&m->node[i]); k++) {
      if (q->in[k] >= 0) r[q->in[k]].forward = i;
      if (q->backward && q->op->backward_reads_x) read_backward(p, r, q->in[k], i);
    }
    if (q->backward && q->op->backward_reads_y) read_backward(p, r, i, i);
  }
}

static bool may_overwrite(const shoal_plan *p, const reads *r, int i)
{
  const shoal_planned *q = &p->node[i];
  int v = q->in[0];
  for (int k = 1; k < shoal_node_inputs(&p->model->node[i]); k++)
    if (q->in[k] == v) return false;
  return q->op->y_may_be_x && v >= 0 && r[v].forward == i && r[v].backward < 0 && !r[v].pinned &&
         p->node[v].format.bytes == q->format.bytes;
}

static void forward_slots(shoal_plan *p, const reads *r)
{
  int end = shoal_plan_moment_end(p);
  for (int i = 0; i < p->model->nodes; i++) {
    shoal_planned *q = &p->node[i];
    if (!q->op) continue;
    int last = SHOAL_MAX(i, SHOAL_MAX(r[i].forward, r[i].backward)), back = shoal_plan_moment_backward(p, i);
    if (r[i].pinned) last = end;
    if (may_overwrite(p, r, i)) {
      q->y = p->node[q->in[0]].y;
      shoal_plan_use_slot(p, q->y, last);
    } else {
      q->y = shoal_plan_add_slot(p, q->format.bytes, i, last);
    }
    for (int k = 0; k < shoal_node_inputs(&p->model->node[i]); k++)
      if (q->in[k] < 0 && !shoal_format_plain(&q->op->in_format[k]))
        q->entry[k] =
            shoal_plan_add_slot(p, q->op->in_format[k].bytes, i, q->backward && q->op->backward_reads_x ? back : i);
    if (q->op->saved_bytes > 0) q->saved = shoal_plan_add_slot(p, q->op->saved_bytes, i, q->backward ? back : i);
    if (p->training && p->model->node[i].tied) {
      const shoal_param *table = &p->model->param[p->model->node[i].weight[0]];
      q->dweight =
          shoal_plan_add_slot(p, table->count * sizeof(float), back, shoal_plan_moment_backward(p, table->node));
    }
    if (p->model->node[i].rank == 0 || !p->training) continue;
    const shoal_param *left = &p->model->param[p->model->node[i].factor[0]];
    const shoal_param *right = &p->model->param[p->model->node[i].factor[1]];
    q->dweight = shoal_plan_add_slot(p, (size_t)(left->shape.dim[0] * right->shape.dim[1]) * sizeof(float), back, back);
  }
  for (int i = 0; i < p->model->nodes; i++) {
    int v = resolve(p, i);
    p->node[i].stays = v >= 0 && (r[v].pinned || r[v].backward >= 0);
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

static shoal_status allocate_all(shoal_plan *p)
{
  const size_t now = sizeof *p->set + (p->has_loss ? shoal_plan_label_bytes(p) : 0);
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_PINNED, sizeof(shoal_loss), &p->result));
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_PINNED, p->n_ranges * sizeof(size_t), &p->bad));
  SHOAL_TRY(allocate(p, SHOAL_MEMORY_DEVICE, now, &p->now));
  SHOAL_TRY(SHOAL_ALLOC(p->n_ranges, &p->ends));
  if (p->backend->records)
    SHOAL_TRY(shoal_parts_create(p->backend, PARTS_KEPT * (p->n_ranges + 2), &p->parts)); /* forward, and a rest */
  SHOAL_TRY(shoal_alloc(1, now, "what changes from step to step", (void **)&p->set));
  return allocate(p, SHOAL_MEMORY_DEVICE, p->bytes, &p->memory);
}

static shoal_status plan_slots(shoal_plan *p)
{
  size_t scratch = 0;
  reads *r;
  p->slot_room = SLOTS_MORE;
  for (int i = 0; i < p->model->nodes; i++)
    p->slot_room += SLOTS_PER_NODE + SLOTS_PER_INPUT * shoal_node_inputs(&p->model->node[i]);
  SHOAL_TRY(SHOAL_ALLOC((size_t)p->slot_room, &p->slot));
  SHOAL_TRY(SHOAL_ALLOC((size_t)p->model->nodes, &r));
  find_reads(p, r);
  forward_slots(p, r);
  free(r);
  SHOAL_TRY(plan_logits(p));
  if (p->training) SHOAL_TRY(shoal_plan_backward_slots(p));
  for (int i = 0; i < p->model->nodes; i++)
    if (p->node[i].op) scratch = SHOAL_MAX(scratch, p->node[i].op->scratch_bytes);
  p->scratch = shoal_plan_add_slot(p, scratch, 0, shoal_plan_moment_end(p));
  SHOAL_CHECK(p->scratch != SHOAL_NO_SLOT, SHOAL_ERR_INTERNAL, "model %s: more buffers than planned", p->model->name);
  SHOAL_TRY(shoal_place(p->slot, p->slots, &p->bytes));
  return allocate_all(p);
}

static shoal_status build(shoal_plan *p, const shoal_model *m)
{
  SHOAL_TRY(shoal_model_copy(m, &p->model));
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->nodes, &p->node));
  for (int i = 0; i < m->nodes; i++) {
    shoal_planned *q = &p->node[i];
    q->y = q->saved = q->dy = q->dweight = SHOAL_NO_SLOT;
    for (int k = 0; k < SHOAL_OP_INPUTS; k++) {
      q->in[k] = SHOAL_NO_INPUT;
      q->entry[k] = q->dx[k] = q->sum[k].from = q->sum[k].to = SHOAL_NO_SLOT;
    }
  }
  for (int i = 0; i < m->nodes; i++) SHOAL_TRY(plan_node(p, i));
  return plan_slots(p);
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
  p->backend->ops->release(p->backend, &p->memory);
  free(p->set);
  free(p->ends);
  free(p->node);
  free(p->slot);
  free(p->range);
  shoal_model_destroy(p->model);
  free(p);
}
