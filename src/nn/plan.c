/* Executing a plan: set what changes from step to step (weights, input, dropout counter), call the operations in order,
 * and poll between them so that exchanges progress.  Allocates nothing and makes no decisions. */
#include "base/clock.h"
#include "base/mem.h"
#include "nn/model_impl.h"
#include "nn/plan_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

enum { W, G, STATS, PRODUCTS }; /* of shoal_params.own */

static shoal_status allocate(shoal_backend *b, shoal_params *p, int which, size_t n, float **out)
{
  SHOAL_TRY(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, n * sizeof(float), &p->own[which]));
  *out = p->own[which].at;
  return SHOAL_OK;
}

shoal_status shoal_params_create_forward(shoal_backend *b, const shoal_model *m, shoal_params **out)
{
  static uint64_t created;
  shoal_params *p = calloc(1, sizeof *p);
  SHOAL_CHECK(p, SHOAL_ERR_MEM, "parameters of model %s", m->name);
  shoal_status st;
  p->n = m->weights;
  p->n_stats = m->stats;
  p->version = ++created << 32; /* never equal to a version of an earlier set at the same address */
  SHOAL_TRY_GOTO(st, allocate(b, p, W, p->n, &p->w), fail);
  SHOAL_TRY_GOTO(st, allocate(b, p, STATS, p->n_stats, &p->stats), fail);
  if (m->products) SHOAL_TRY_GOTO(st, allocate(b, p, PRODUCTS, m->products, &p->products), fail);
  *out = p;
  return SHOAL_OK;
fail:
  shoal_params_destroy(b, p);
  return st;
}

shoal_status shoal_params_create(shoal_backend *b, const shoal_model *m, float *g, shoal_params **out)
{
  shoal_params *p;
  SHOAL_TRY(shoal_params_create_forward(b, m, &p));
  p->g = g;
  shoal_status st = g ? SHOAL_OK : allocate(b, p, G, p->n, &p->g);
  if (st == SHOAL_OK)
    *out = p;
  else
    shoal_params_destroy(b, p);
  return st;
}

void shoal_params_destroy(shoal_backend *b, shoal_params *p)
{
  if (!p) return;
  for (size_t i = 0; i < SHOAL_COUNT(p->own); i++) b->ops->release(b, &p->own[i]);
  free(p);
}

/* ---- one operation ---- */

/* Where the backend has what changes from step to step. */
static shoal_plan_now *now_of(const shoal_plan *p)
{
  return p->now.at;
}

static float *slot_at(const shoal_plan *p, int slot)
{
  return slot < 0 ? NULL : (float *)(void *)((char *)p->memory.at + p->slot[slot].offset);
}

/* AGAIN is also backward. */
typedef enum { FIRST, AGAIN } pass_of_step;

static const shoal_written *written_of(const shoal_planned *q, pass_of_step pass)
{
  return pass == FIRST ? &q->first : &q->again;
}

static const float *input_at(const shoal_plan *p, const shoal_planned *q, pass_of_step pass, int k)
{
  const int entry = written_of(q, pass)->entry[k];
  if (entry >= 0) return slot_at(p, entry);
  if (q->in[k] == -1) return p->x;
  return q->in[k] >= 0 ? slot_at(p, written_of(&p->node[q->in[k]], pass)->y) : NULL;
}

static void fill_args(const shoal_plan *p, int i, pass_of_step pass, const shoal_params *params, shoal_op_args *a)
{
  const shoal_node *n = &p->model->node[i];
  const shoal_planned *q = &p->node[i];
  *a = (shoal_op_args){ .y = slot_at(p, written_of(q, pass)->y),
                        .dy = slot_at(p, q->dy),
                        .saved = slot_at(p, written_of(q, pass)->saved),
                        .scratch = slot_at(p, p->scratch),
                        .weights_version = p->version,
                        .at = &now_of(p)->at };
  for (int k = 0; k < shoal_node_inputs(n); k++) {
    a->x[k] = input_at(p, q, pass, k);
    a->dx[k] = slot_at(p, q->dx[k]);
  }
  for (int k = 0; k < SHOAL_OP_WEIGHTS; k++)
    if (n->weight[k] >= 0) {
      const shoal_param *w = &p->model->param[n->weight[k]];
      a->w[k] = params->w + w->offset;
      a->dw[k] = w->frozen || !params->g ? NULL : params->g + w->offset;
    }
  if (n->rank > 0) a->w[0] = params->products + n->product;
  if (q->dweight >= 0) a->dw[0] = slot_at(p, q->dweight);
  if (n->stats >= 0 && pass == FIRST) {
    a->stats[0] = params->stats + n->stats;
    a->stats[1] = a->stats[0] + n->out.dim[0];
  }
}

static uint64_t span_begin(const shoal_plan *p)
{
  return p->span ? shoal_now_ns() : 0;
}

static void span_end(const shoal_plan *p, int node, bool backward, uint64_t t0)
{
  if (p->span) p->span(p->span_context, node, backward, t0, shoal_now_ns());
}

/* ---- weights that are products: W [rows, cols] = L [rows, r] R [r, cols] ---- */

typedef struct {
  int64_t rows, cols, r;
  const shoal_param *left, *right;
} factors;

static factors factors_of(const shoal_plan *p, int i)
{
  const shoal_node *node = &p->model->node[i];
  const shoal_param *left = &p->model->param[node->factor[0]], *right = &p->model->param[node->factor[1]];
  return (factors){ left->shape.dim[0], right->shape.dim[1], node->rank, left, right };
}

static shoal_status multiply_factors(const shoal_plan *p, int i, const shoal_params *params)
{
  factors f = factors_of(p, i);
  return p->backend->ops->gemm(p->backend, false, false, f.rows, f.cols, f.r, 1, params->w + f.left->offset, f.r,
                               params->w + f.right->offset, f.cols, 0, params->products + p->model->node[i].product,
                               f.cols);
}

/* dL = G R^T, dR = L^T G, with G = dW */
static shoal_status differentiate_factors(const shoal_plan *p, int i, const shoal_params *params)
{
  factors f = factors_of(p, i);
  const shoal_backend_ops *ops = p->backend->ops;
  const float *left = params->w + f.left->offset, *right = params->w + f.right->offset;
  const float *g = slot_at(p, p->node[i].dweight);
  if (!f.left->frozen)
    SHOAL_TRY(ops->gemm(p->backend, false, true, f.rows, f.r, f.cols, 1, g, f.cols, right, f.cols, 0,
                        params->g + f.left->offset, f.r));
  if (!f.right->frozen)
    SHOAL_TRY(ops->gemm(p->backend, true, false, f.r, f.cols, f.rows, 1, left, f.r, g, f.cols, 0,
                        params->g + f.right->offset, f.cols));
  return SHOAL_OK;
}

/* ---- weights that are tied ---- */

/* An embedding's backward is the last to contribute to its table: what the layers that share it found is added. */
static shoal_status add_tied(const shoal_plan *p, int embedding, const shoal_params *params)
{
  const shoal_model *m = p->model;
  const shoal_param *table = &m->param[m->node[embedding].weight[0]];
  for (int i = embedding + 1; i < m->nodes; i++)
    if (m->node[i].tied)
      SHOAL_TRY(
          p->backend->ops->add(p->backend, table->count, slot_at(p, p->node[i].dweight), params->g + table->offset));
  return SHOAL_OK;
}

/* ---- forward ---- */

static shoal_status forward_node(shoal_plan *p, int i, pass_of_step pass, const shoal_params *params, bool multiplies)
{
  shoal_planned *q = &p->node[i];
  shoal_op_args a;
  for (int k = 0; k < shoal_node_inputs(&p->model->node[i]); k++)
    if (written_of(q, pass)->entry[k] >= 0)
      SHOAL_TRY(p->backend->ops->from_dense(p->backend, &q->op->desc.in[k], &q->op->in_format[k], p->x,
                                            slot_at(p, written_of(q, pass)->entry[k])));
  if (p->model->node[i].rank > 0 && multiplies) SHOAL_TRY(multiply_factors(p, i, params));
  fill_args(p, i, pass, params, &a);
  return q->op->forward(q->op, &a);
}

static shoal_status check_labels(const shoal_plan *p, const int32_t *y)
{
  for (int64_t r = 0; r < p->rows && p->model->loss == SHOAL_LOSS_CLASSES; r++)
    SHOAL_CHECK(y[r] < p->model->classes, SHOAL_ERR_ARG,
                "label %d in row %lld; must be below %lld, the number of classes", y[r], (long long)r,
                (long long)p->model->classes);
  return SHOAL_OK;
}

static shoal_status set_now(shoal_plan *p, const shoal_address *at, const void *y, float grad_scale)
{
  const size_t labels = y ? shoal_plan_label_bytes(p) : 0;
  if (at) p->set->at = *at;
  p->set->grad_scale = grad_scale * (float)p->batch / (float)p->rows; /* a sample's loss is the mean over its labels */
  if (y) memcpy(p->set->label, y, labels);
  return y || p->draws ? p->backend->ops->copy(p->backend, sizeof *p->set + labels, p->set, p->now.at) : SHOAL_OK;
}

static shoal_status find_loss(shoal_plan *p)
{
  const shoal_backend_ops *ops = p->backend->ops;
  const shoal_planned *last = &p->node[p->model->nodes - 1];
  const float *logits = slot_at(p, p->node[p->logits].first.y);
  float *dlogits = slot_at(p, p->dlogits);
  if (p->dense_logits >= 0) {
    float *dense = slot_at(p, p->dense_logits);
    SHOAL_TRY(ops->to_dense(p->backend, &last->shape, &last->format, logits, dense));
    logits = dense;
  }
  const shoal_plan_now *now = now_of(p);
  if (p->model->loss == SHOAL_LOSS_CLASSES)
    SHOAL_TRY(ops->softmax_xent(p->backend, p->rows, p->model->classes, logits, now->label, p->class_weights.at,
                                p->model->smoothing, &now->grad_scale, !p->training, dlogits, p->result.at));
  else
    SHOAL_TRY(ops->target_loss(p->backend, p->rows, p->model->classes, logits, (const void *)now->label,
                               p->model->loss == SHOAL_LOSS_MAE, &now->grad_scale, !p->training, dlogits,
                               p->result.at));
  if (p->training && p->dense_logits >= 0)
    SHOAL_TRY(ops->from_dense(p->backend, &last->shape, &last->format, dlogits, slot_at(p, p->node[p->logits].dy)));
  return SHOAL_OK;
}

shoal_status shoal_plan_score(shoal_plan *p, shoal_score *score)
{
  const shoal_loss *sum = p->result.at;
  SHOAL_TRY(p->backend->ops->settle(p->backend));
  score->loss += sum->loss;
  score->correct += sum->correct;
  score->samples += sum->samples;
  if (sum->left_out && score->left_out == 0) score->first_left_out = sum->first_left_out;
  score->left_out += sum->left_out;
  return SHOAL_OK;
}

static shoal_status timed_forward(shoal_plan *p, int i, pass_of_step pass, const shoal_params *params, bool multiplies)
{
  uint64_t t0 = span_begin(p);
  SHOAL_TRY(forward_node(p, i, pass, params, multiplies));
  span_end(p, i, false, t0);
  shoal_backend_poll(p->backend);
  return SHOAL_OK;
}

/* What a part of the step asks for. */
typedef struct {
  shoal_plan *p;
  const shoal_params *params;
  shoal_part part;
} asking;

static shoal_status run_part(const asking *a, const char *name, shoal_status (*ask)(void *))
{
  const shoal_plan *p = a->p;
  return p->parts && !p->span ? shoal_parts_run(p->parts, &a->part, name, ask, (void *)(uintptr_t)a)
                              : ask((void *)(uintptr_t)a);
}

static asking ask_for(shoal_plan *p, const shoal_params *params)
{
  return (asking){ p, params, { params->w, params->g, params->stats, params->products, p->x, .from = -1, .to = -1 } };
}

static shoal_status ask_forward(void *context)
{
  const asking *a = context;
  shoal_plan *p = a->p;
  for (int i = 0; i < p->model->nodes; i++)
    if (p->node[i].op) SHOAL_TRY(timed_forward(p, i, FIRST, a->params, a->part.multiplies));
  return a->part.labelled ? find_loss(p) : SHOAL_OK;
}

shoal_status shoal_plan_forward(shoal_plan *p, const shoal_params *params, const shoal_address *at, const float *x,
                                const void *y, float grad_scale, shoal_score *score)
{
  SHOAL_CHECK(params->n == p->model->weights && params->n_stats == p->model->stats, SHOAL_ERR_ARG,
              "parameters of %zu numbers given to model %s, which has %zu", params->n, p->model->name,
              p->model->weights);
  SHOAL_CHECK(!y || p->has_loss, SHOAL_ERR_ARG,
              "model %s does not end in %lld classes and has no loss; run it without labels", p->model->name,
              (long long)p->model->classes);
  SHOAL_CHECK(params->products || !p->model->products, SHOAL_ERR_ARG,
              "model %s has weights that are products, its parameters have no room for them", p->model->name);
  if (y) SHOAL_TRY(check_labels(p, y));
  bool new_weights = p->version == 0 || p->seen_w != params->w || p->seen_version != params->version;
  if (new_weights) p->version++;
  p->seen_w = params->w;
  p->seen_version = params->version;
  p->x = x;
  p->loss_ready = false;
  SHOAL_TRY(set_now(p, at, y, grad_scale));
  asking a = ask_for(p, params);
  a.part.labelled = y != NULL;
  a.part.multiplies = new_weights && p->model->products;
  SHOAL_TRY(run_part(&a, "forward", ask_forward));
  p->loss_ready = y && p->training;
  return y && score ? shoal_plan_score(p, score) : SHOAL_OK;
}

/* ---- backward ---- */

/* Backward is a sequence of pieces, two of each node, from the last to the first: the gradients of its weights, so that their
 * exchange can start while the rest is computed, and those of its inputs. */
static int pieces_of(const shoal_plan *p)
{
  return 2 * p->model->nodes;
}

static const shoal_planned *node_of(const shoal_plan *p, int piece)
{
  return &p->node[p->model->nodes - 1 - piece / 2];
}

/* The ranges that are final behind a piece. */
static int ranges_behind(const shoal_plan *p, int piece, int *first)
{
  const shoal_planned *q = node_of(p, piece);
  if (!q->op || !q->backward || piece % 2 != q->op->dw_with_dx) return 0;
  *first = q->first_range;
  return q->ranges;
}

/* The end of a range was just written, so looking at it costs next to nothing. */
static shoal_status look(const shoal_plan *p, int r, const shoal_params *params)
{
  const shoal_range end = shoal_plan_looked_at(p->range[r].offset, p->range[r].count);
  return p->backend->ops->find_bad(p->backend, end.count, params->g + end.offset, (size_t *)p->bad.at + r);
}

static shoal_status backward_of_weights(const shoal_plan *p, int i, const shoal_planned *q, const shoal_params *params,
                                        const shoal_op_args *a)
{
  if (!q->op->backward_weights) return SHOAL_OK;
  SHOAL_TRY(q->op->backward_weights(q->op, a));
  if (p->model->node[i].rank > 0) return differentiate_factors(p, i, params);
  return q->op->desc.kind == SHOAL_OP_EMBEDDING ? add_tied(p, i, params) : SHOAL_OK;
}

static shoal_status add_gradient(const shoal_plan *p, const shoal_format *f, const float *from, float *to)
{
  const shoal_backend_ops *ops = p->backend->ops;
  const size_t n = shoal_format_count(f);
  if (f->elements == SHOAL_ELEMENTS_F32) return ops->add(p->backend, n, from, to);
  return ops->add_bf16(p->backend, n, (const uint16_t *)(const void *)from, (uint16_t *)(void *)to);
}

static shoal_status backward_of_inputs(const shoal_plan *p, int i, const shoal_planned *q, const shoal_op_args *a)
{
  if ((q->op->desc.need_dx && !q->skip_data) || q->op->dw_with_dx) SHOAL_TRY(q->op->backward_data(q->op, a));
  for (int k = 0; k < shoal_node_inputs(&p->model->node[i]); k++)
    if (q->sum[k].from >= 0)
      SHOAL_TRY(add_gradient(p, &q->sum[k].format, slot_at(p, q->sum[k].from), slot_at(p, q->sum[k].to)));
  return SHOAL_OK;
}

/* The nodes of a unit that are repeated, before its last node i runs backward. */
static shoal_status repeat_unit(shoal_plan *p, int i, const shoal_params *params)
{
  const shoal_model *m = p->model;
  if (i < m->nodes - 1 && m->node[i + 1].unit == m->node[i].unit) return SHOAL_OK;
  for (int k = shoal_plan_unit_begin(p, i); k <= i; k++)
    if (p->node[k].repeats) SHOAL_TRY(timed_forward(p, k, AGAIN, params, false));
  return SHOAL_OK;
}

static shoal_status ask_piece(shoal_plan *p, int piece, const shoal_params *params, bool looks)
{
  const int i = p->model->nodes - 1 - piece / 2;
  const shoal_planned *q = &p->node[i];
  shoal_op_args a;
  int first = 0;
  if (piece % 2 == 0) SHOAL_TRY(repeat_unit(p, i, params));
  if (!q->op || !q->backward) return SHOAL_OK;
  fill_args(p, i, AGAIN, params, &a);
  if (piece % 2 == 0) {
    p->span_t0 = span_begin(p);
    SHOAL_TRY(backward_of_weights(p, i, q, params, &a));
  } else {
    SHOAL_TRY(backward_of_inputs(p, i, q, &a));
    span_end(p, i, true, p->span_t0);
  }
  const int n = looks ? ranges_behind(p, piece, &first) : 0;
  for (int r = first; r < first + n; r++) SHOAL_TRY(look(p, r, params));
  shoal_backend_poll(p->backend);
  return SHOAL_OK;
}

static shoal_status ask_backward(void *context)
{
  const asking *a = context;
  for (int k = a->part.from; k < a->part.to; k++) SHOAL_TRY(ask_piece(a->p, k, a->params, a->part.looks));
  return SHOAL_OK;
}

static shoal_status announce_behind(const shoal_plan *p, int piece, shoal_announce_fn announce, void *ctx)
{
  int first = 0, n = announce ? ranges_behind(p, piece, &first) : 0;
  for (int r = first; r < first + n; r++)
    SHOAL_TRY(announce(ctx, p->range[r].offset, p->range[r].count, (size_t *)p->bad.at + r));
  return SHOAL_OK;
}

/* Behind the next piece whose ranges are waited for.  What is not recorded is announced at once. */
static int end_of_part(const shoal_plan *p, int from)
{
  int first = 0;
  for (int k = from; k < pieces_of(p); k++) {
    const int n = ranges_behind(p, k, &first);
    for (int r = first; r < first + n; r++)
      if (!p->parts || p->ends[r]) return k + 1;
  }
  return pieces_of(p);
}

shoal_status shoal_plan_backward(shoal_plan *p, shoal_params *params, shoal_announce_fn announce, void *ctx)
{
  SHOAL_CHECK(p->loss_ready, SHOAL_ERR_ARG,
              "model %s: backward without a forward in training mode and with labels before it", p->model->name);
  SHOAL_CHECK(params->g, SHOAL_ERR_ARG, "model %s: backward with parameters that have no gradients", p->model->name);
  p->loss_ready = false;
  asking a = ask_for(p, params);
  a.part.looks = announce != NULL;
  for (int from = 0, number = 1; from < pieces_of(p); from = a.part.to, number++) {
    char name[32];
    a.part.from = from;
    a.part.to = end_of_part(p, from);
    snprintf(name, sizeof name, "backward, part %d", number);
    SHOAL_TRY(run_part(&a, name, ask_backward));
    for (int k = from; k < a.part.to; k++) SHOAL_TRY(announce_behind(p, k, announce, ctx));
  }
  return SHOAL_OK;
}

void shoal_plan_end_parts(shoal_plan *p, const bool *ends)
{
  memcpy(p->ends, ends, p->n_ranges * sizeof *ends);
}

/* ---- queries ---- */

size_t shoal_plan_bytes(const shoal_plan *p)
{
  return p->bytes;
}

shoal_repeated shoal_plan_repeated(const shoal_plan *p)
{
  shoal_repeated r = { .saved_bytes = (double)p->bytes_all - (double)p->bytes };
  for (int i = 0; i < p->model->nodes; i++)
    if (p->node[i].repeats) r.macs += shoal_op_macs(&p->node[i].op->desc);
  return r;
}

int64_t shoal_plan_batch(const shoal_plan *p)
{
  return p->batch;
}

size_t shoal_plan_ranges(const shoal_plan *p, const shoal_range **out)
{
  *out = p->range;
  return p->n_ranges;
}

shoal_status shoal_plan_output(shoal_plan *p, int node, float *out)
{
  SHOAL_CHECK(node >= 0 && node < p->model->nodes, SHOAL_ERR_ARG, "model %s: output of node %d of %d", p->model->name,
              node, p->model->nodes);
  const shoal_planned *q = &p->node[node];
  SHOAL_CHECK(q->stays, SHOAL_ERR_ARG, "layer %s: its output is not kept; set `keep` on the node",
              p->model->node[node].name);
  int v = q->op ? node : q->in[0];
  return p->backend->ops->to_dense(p->backend, &q->shape, &q->format, slot_at(p, p->node[v].first.y), out);
}

void shoal_plan_set_spans(shoal_plan *p, shoal_layer_span_fn f, void *ctx)
{
  p->span = f;
  p->span_context = ctx;
}
