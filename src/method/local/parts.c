/* Blocks as models, their cost, and their assignment to stages.
 *
 * Every rank builds all of them, since descriptions need no arenas: it thus knows the sizes of its neighbours' messages
 * and the offsets of the network's weights in other ranks' arenas. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/local/local.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cost ---- */

/* The output of the last node of a unit. */
static const shoal_shape *boundary(const shoal_model *m, int unit)
{
  int node = m->nodes - 1;
  while (m->node[node].unit > unit) node--;
  return &m->node[node].out;
}

/* Cost per sample in multiply-accumulates (MACs).  A value written costs about as much as a fixed number of MACs:
 * norms, activations and pools are memory-bound.  So does a weight, once per minibatch: reordered, its gradient
 * written, updated.  The first factor was fitted to resnet20 and vgg16 on one core, the second to vgg16 at a batch of
 * 32; accurate enough to compare layers. */
static double counted(const shoal_model *m, double batch)
{
  enum { WRITTEN = 50, WEIGHT = 300 };
  double sum = shoal_model_macs(m) + WEIGHT * (double)m->weights / batch;
  for (int i = 0; i < m->nodes; i++) sum += WRITTEN * (double)shoal_shape_count(&m->node[i].out);
  return sum;
}

/* Layer l with its head, or the last one with the classifier, as a model of its own. */
static shoal_status one_layer(const shoal_model *m, shoal_head kind, int layer, bool with_head, shoal_model **out)
{
  bool last = layer == shoal_local_layers(m->units) - 1;
  shoal_model *head = NULL;
  if (with_head && !last) SHOAL_TRY(shoal_head_build(kind, boundary(m, layer), m->classes, shoal_model_rows(m), &head));
  shoal_status st = shoal_model_slice(m, layer, last ? m->units : layer + 1, head, out);
  shoal_model_destroy(head);
  return st;
}

shoal_status shoal_local_count(const shoal_model *m, shoal_head kind, uint64_t batch, double *cost, double *heads)
{
  for (int l = 0; l < shoal_local_layers(m->units); l++) {
    shoal_model *bare, *full;
    SHOAL_TRY(one_layer(m, kind, l, false, &bare));
    shoal_status st = one_layer(m, kind, l, true, &full);
    if (st == SHOAL_OK) {
      cost[l] = counted(bare, (double)batch);
      heads[l] = counted(full, (double)batch) - cost[l];
      shoal_model_destroy(full);
    }
    shoal_model_destroy(bare);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

typedef struct {
  int head_from; /* node */
  double own, head;
} stopwatch;

static void add_span(void *ctx, int node, bool backward, uint64_t t0_ns, uint64_t t1_ns)
{
  stopwatch *w = ctx;
  *(node < w->head_from ? &w->own : &w->head) += (double)(t1_ns - t0_ns) * 1e-9;
}

/* Minimum over some training steps: the first ones warm up, others may be disturbed. */
static shoal_status time_steps(shoal_plan *plan, shoal_params *params, const float *x, const int32_t *y, stopwatch *w)
{
  enum { STEPS = 4 };
  stopwatch best = { .own = INFINITY };
  shoal_plan_set_spans(plan, add_span, w);
  for (int i = 0; i < STEPS; i++) {
    shoal_address at = { .step = (uint32_t)i };
    shoal_score score = { 0 };
    w->own = w->head = 0;
    SHOAL_TRY(shoal_plan_forward(plan, params, &at, x, y, 1, &score));
    SHOAL_TRY(shoal_plan_backward(plan, params, NULL, NULL));
    if (w->own + w->head < best.own + best.head) best.own = w->own, best.head = w->head;
  }
  w->own = best.own, w->head = best.head;
  return SHOAL_OK;
}

static shoal_status measure_model(shoal_backend *b, const shoal_model *m, int64_t batch, stopwatch *w)
{
  shoal_params *params = NULL;
  shoal_plan *plan = NULL;
  shoal_memory x = { 0 };
  shoal_host_float *host = NULL;
  int32_t *y = NULL;
  shoal_status st;
  size_t n = (size_t)(batch * shoal_shape_count(&m->input));
  SHOAL_TRY_GOTO(st, shoal_params_create(b, m, NULL, &params), done);
  SHOAL_TRY_GOTO(st, shoal_plan_create(b, m, batch, SHOAL_PLAN_TRAIN, &plan), done);
  SHOAL_TRY_GOTO(st, b->ops->alloc(b, SHOAL_MEMORY_DEVICE, n * sizeof *host, &x), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &host), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)(batch * shoal_model_labels(m)), &y), done);
  SHOAL_TRY_GOTO(st, shoal_model_init(b, m, 1, params->w, params->stats), done);
  params->version++;
  for (size_t i = 0; i < n; i++) host[i] = (float)(i % 17) / 17;
  SHOAL_TRY_GOTO(st, b->ops->copy(b, n * sizeof *host, host, x.at), done);
  st = time_steps(plan, params, x.at, y, w);
done:
  free(y);
  free(host);
  b->ops->release(b, &x);
  shoal_plan_destroy(plan);
  shoal_params_destroy(b, params);
  return st;
}

shoal_status shoal_local_measure(shoal_backend *b, const shoal_model *m, shoal_head kind, int64_t batch, double *cost,
                                 double *heads)
{
  for (int l = 0; l < shoal_local_layers(m->units); l++) {
    shoal_model *bare, *full;
    SHOAL_TRY(one_layer(m, kind, l, false, &bare));
    stopwatch w = { .head_from = bare->nodes };
    shoal_model_destroy(bare);
    SHOAL_TRY(one_layer(m, kind, l, true, &full));
    shoal_status st = measure_model(b, full, batch, &w);
    shoal_model_destroy(full);
    SHOAL_TRY(st);
    cost[l] = w.own;
    heads[l] = w.head;
  }
  return SHOAL_OK;
}

/* ---- parts ---- */

/* The contiguous parameters of one unit of a slice. */
static shoal_range range_of(const shoal_model *m, int unit)
{
  shoal_range r = { 0 };
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    if (p->family != 0 || m->node[p->node].unit != unit) continue;
    if (r.count == 0) r.offset = p->offset;
    r.count += p->count;
  }
  return r;
}

/* The next block reads the output of the block; with overlapping blocks, that of its lower layer. */
static void find_output(shoal_local_part *p, bool overlapping)
{
  int units = overlapping ? 1 : p->units.last - p->units.first, node = 0;
  while (node + 1 < p->model->nodes && p->model->node[node + 1].unit < units) node++;
  p->model->node[node].keep = true;
  p->out_node = node;
  p->elements = (size_t)shoal_shape_count(&p->model->node[node].out);
}

static shoal_status make_part(const shoal_model *m, const shoal_local_parts *all, uint64_t batch, shoal_local_part *p)
{
  bool last = p->units.last == m->units, overlapping = all->form == SHOAL_LOCAL_OVERLAPPING;
  shoal_model *head = NULL;
  if (!last)
    SHOAL_TRY(shoal_head_build(all->head, boundary(m, p->units.last - 1), m->classes, shoal_model_rows(m), &head));
  shoal_status st = shoal_model_slice(m, p->units.first, p->units.last, head, &p->model);
  p->head = head ? shoal_head_from_name(head->name) : SHOAL_HEADS;
  p->head_weights = head ? head->weights : 0;
  p->head_stats = head ? head->stats : 0;
  shoal_model_destroy(head);
  SHOAL_TRY(st);
  p->out_node = -1;
  p->cost = counted(p->model, (double)batch);
  if (!last) find_output(p, overlapping);
  if (overlapping && p->units.first > 0) p->lower = range_of(p->model, 0);
  if (overlapping && !last) p->upper = range_of(p->model, 1);
  return SHOAL_OK;
}

shoal_status shoal_local_parts_create(const shoal_model *m, shoal_local_form form, shoal_head head, uint64_t batch,
                                      const shoal_local_block *blocks, int n, shoal_local_parts **out)
{
  shoal_local_parts *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  *p = (shoal_local_parts){ .form = form, .head = head, .n = n };
  shoal_status st = SHOAL_ALLOC((size_t)n, &p->part);
  for (int k = 0; st == SHOAL_OK && k < n; k++) {
    p->part[k].units = blocks[k];
    st = make_part(m, p, batch, &p->part[k]);
  }
  if (st == SHOAL_OK)
    *out = p;
  else
    shoal_local_parts_destroy(p);
  return st;
}

void shoal_local_parts_destroy(shoal_local_parts *p)
{
  if (!p) return;
  for (int k = 0; p->part && k < p->n; k++) shoal_model_destroy(p->part[k].model);
  free(p->part);
  free(p->stage_first);
  free(p);
}

shoal_status shoal_local_deal(shoal_local_parts *p, const shoal_local_grid *grid)
{
  double *cost;
  p->grid = *grid;
  free(p->stage_first);
  SHOAL_TRY(SHOAL_ALLOC((size_t)grid->stages + 1, &p->stage_first));
  SHOAL_TRY(SHOAL_ALLOC((size_t)p->n, &cost));
  for (int k = 0; k < p->n; k++) cost[k] = p->part[k].cost;
  shoal_status st = shoal_local_cut(p->n, cost, NULL, grid->stages, p->stage_first);
  free(cost);
  return st;
}

shoal_status shoal_local_join(const shoal_local_parts *p, int stage, size_t *weights_at, size_t *stats_at,
                              shoal_model **out)
{
  int first = p->stage_first[stage], n = p->stage_first[stage + 1] - first;
  const shoal_model **models;
  weights_at[0] = stats_at[0] = 0;
  if (n == 1) return shoal_model_copy(p->part[first].model, out); /* without padding: one block is the model itself */
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, &models));
  for (int i = 0; i < n; i++) models[i] = p->part[first + i].model;
  shoal_status st = shoal_model_join(models, n, weights_at, stats_at, out);
  free(models);
  return st;
}
