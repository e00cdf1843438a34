/* What can be dealt of a model: which dimension of which tensor is cut along which units, which residual blocks have
 * equal shapes and can be skipped, and the home of every element; and the scale that the whole network needs because
 * layers read n times as many units as in training.
 *
 *   W1 [h1, d]    rows are units of space 1                home: the unit's                    SHOAL_IST_ROWS
 *   W2 [h2, h1]   rows of space 2, columns of space 1      home: that of the column's unit     SHOAL_IST_COLS
 *   W3 [c, h2]    columns of space 2                       home: the unit's                    SHOAL_IST_COLS
 *   b3 [c]        not cut                                  each rank is home to a slice        SHOAL_IST_SLICE
 *
 * Of a transformer heads and units of its two layers are dealt: rows of queries, keys, values and of the first layer, columns of
 * the projections behind them.  All else is whole, shared and averaged: the residual stream, its norms, embedding, places.
 *
 * Home of unit u of a space is the rank whose contiguous slice of that space holds u (layout B of the release). */
#include "base/mem.h"
#include "method/ist/ist.h"
#include <stdlib.h>
#include <string.h>

/* ---- units ---- */

static const char *layer_of_space(const shoal_model *m, int space, bool *heads)
{
  const char *name = NULL;
  *heads = false;
  for (int i = 0; i < m->nodes; i++) {
    if (m->node[i].space != space) continue;
    *heads |= m->node[i].kind == SHOAL_OP_ATTENTION;
    if (!name && m->node[i].weight[0] >= 0) name = m->node[i].name;
  }
  return name ? name : "?";
}

static shoal_status check_units(const shoal_ist_plan *p)
{
  const shoal_model *m = p->model;
  SHOAL_CHECK(
      m->spaces > 0, SHOAL_ERR_USAGE,
      "model %s has no hidden units to deal to subnets: give it a hidden layer, or train it with another method",
      m->name);
  for (int space = 0; space < m->spaces; space++) {
    bool heads;
    const char *name = layer_of_space(m, space, &heads), *many = m->space_size[space] == 1 ? "" : "s";
    long long size = (long long)m->space_size[space];
    SHOAL_CHECK(size >= p->o.parts, SHOAL_ERR_USAGE,
                "layer %s of model %s has %lld %s%s and cannot be cut into %d subnets: use at most %lld rank%s or %s",
                name, m->name, size, heads ? "head" : "unit", many, p->o.parts, size, many,
                heads ? "more heads" : "a wider layer");
  }
  return SHOAL_OK;
}

static bool reads(const shoal_node *n, int i)
{
  for (int k = 0; k < shoal_node_inputs(n); k++)
    if (n->in[k] == i) return true;
  return false;
}

/* Whether every reader of node i is a norm, which cancels a scale factor. */
static bool norm_follows(const shoal_model *m, int i)
{
  bool any = false;
  for (int k = i + 1; k < m->nodes; k++) {
    const shoal_node *n = &m->node[k];
    if (!reads(n, i)) continue;
    if (n->kind != SHOAL_OP_BATCHNORM && n->kind != SHOAL_OP_LAYERNORM) return false;
    any = true;
  }
  return any && !m->node[i].relu;
}

static void describe_units(shoal_ist_plan *p, int param)
{
  const shoal_model *m = p->model;
  const shoal_param *q = &m->param[param];
  shoal_ist_tensor *t = &p->tensor[param];
  t->cut = shoal_model_param_cut(m, param);
  int64_t places = q->shape.ndim > 1 ? q->shape.dim[1] : 1;
  size_t rest = q->count / (size_t)(q->shape.dim[0] * places);
  t->rows = q->shape.dim[0] / t->cut.row_grain;
  t->cols = t->cut.col_space >= 0 ? places / t->cut.col_grain : 1;
  t->width = (size_t)(places / t->cols) * rest;
  t->home = t->cut.col_space >= 0 ? SHOAL_IST_COLS : t->cut.row_space >= 0 ? SHOAL_IST_ROWS : SHOAL_IST_SLICE;
  if (t->home == SHOAL_IST_COLS && !norm_follows(m, q->node)) t->scale = 1 / (float)p->o.parts;
}

/* ---- blocks ---- */

static bool same_node(const shoal_node *a, const shoal_node *b)
{
  return a->kind == b->kind && shoal_shape_equal(&a->out, &b->out) &&
         memcmp(a->kernel, b->kernel, sizeof a->kernel) == 0 && a->groups == b->groups;
}

/* Compares the nodes of two bodies. */
static bool same_shape(const shoal_model *m, int a, int b)
{
  int i = 0, k = 0;
  for (;; i++, k++) {
    while (i < m->nodes && m->node[i].residual != a) i++;
    while (k < m->nodes && m->node[k].residual != b) k++;
    if (i == m->nodes || k == m->nodes) return i == k;
    if (!same_node(&m->node[i], &m->node[k])) return false;
  }
}

static bool listed(const shoal_ist_options *o, int stage)
{
  bool found = o->n_stages == 0;
  for (size_t i = 0; i < o->n_stages; i++) found |= o->stages[i] == stage + 1;
  return found;
}

/* Numbers the stages of all blocks that can be skipped; those not selected become shared, the others are renumbered. */
static void find_stages(shoal_ist_plan *p, const shoal_ist_options *o, int *found)
{
  const shoal_model *m = p->model;
  int all = 0;
  for (int b = 0; b < m->residuals; b++) {
    p->stage[b] = -1;
    if (!shoal_model_residual_can_drop(m, b)) continue;
    int like = -1;
    for (int a = 0; a < b && like < 0; a++)
      if (p->stage[a] >= 0 && same_shape(m, a, b)) like = p->stage[a];
    p->stage[b] = like >= 0 ? like : all++;
  }
  *found = all;
  for (int stage = 0; stage < all; stage++) {
    bool wanted = listed(o, stage);
    for (int b = 0; b < m->residuals; b++)
      if (p->stage[b] == stage) {
        p->stage[b] = wanted ? p->stages : -1;
        p->stage_size[p->stages] += wanted;
      }
    p->stages += wanted;
  }
}

static int ceil_share(int64_t wanted, int64_t size, int64_t all)
{
  return (int)SHOAL_MAX(1, (wanted * size + all - 1) / all);
}

static shoal_status size_stages(shoal_ist_plan *p, const shoal_ist_options *o, int found)
{
  const shoal_model *m = p->model;
  int dealt = 0;
  for (size_t i = 0; i < o->n_stages; i++)
    SHOAL_CHECK(o->stages[i] <= found, SHOAL_ERR_USAGE, "method.stages names stage %lld, but model %s has %d of them",
                (long long)o->stages[i], m->name, found);
  for (int stage = 0; stage < p->stages; stage++) dealt += p->stage_size[stage];
  SHOAL_CHECK(dealt > 0, SHOAL_ERR_USAGE,
              "model %s has no residual block that could be left out: set method.cut to units", m->name);
  SHOAL_CHECK(o->min_blocks <= dealt, SHOAL_ERR_USAGE,
              "method.min_blocks is %d, but only %d blocks of model %s are dealt", o->min_blocks, dealt, m->name);
  for (int stage = 0; stage < p->stages; stage++) {
    int size = p->stage_size[stage];
    p->stage_min[stage] = o->min_blocks ? ceil_share(o->min_blocks, size, dealt) : ceil_share(5, size, 22);
  }
  return SHOAL_OK;
}

/* The node whose output a body adds to its shortcut. */
static bool ends_body(const shoal_model *m, int i)
{
  int body = m->node[i].residual;
  bool read_inside = false;
  for (int k = i + 1; k < m->nodes; k++) read_inside |= m->node[k].in[0] == i && m->node[k].residual == body;
  return body >= 0 && !read_inside;
}

static shoal_status describe_blocks(shoal_ist_plan *p)
{
  const shoal_model *m = p->model;
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    int stage = n->residual >= 0 ? p->stage[n->residual] : -1;
    if (stage < 0) continue;
    bool last = ends_body(m, i);
    SHOAL_CHECK(!last || n->weight[0] >= 0, SHOAL_ERR_UNSUPPORTED,
                "layer %s ends a residual block and has no weights to scale: set method.cut to units", n->name);
    float least = (float)p->stage_min[stage] / (float)p->stage_size[stage];
    for (int k = 0; k < SHOAL_OP_WEIGHTS; k++) {
      if (n->weight[k] < 0) continue;
      shoal_ist_tensor *t = &p->tensor[n->weight[k]];
      t->home = SHOAL_IST_BLOCK;
      t->block = n->residual;
      if (last) t->scale = SHOAL_MAX(1 / (float)p->o.parts, least);
    }
  }
  return SHOAL_OK;
}

/* ---- the plan ---- */

static shoal_status describe(shoal_ist_plan *p, const shoal_ist_options *o)
{
  const shoal_model *m = p->model;
  int found = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->params, &p->tensor));
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->residuals, &p->stage));
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->residuals, &p->stage_size));
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->residuals, &p->stage_min));
  for (int i = 0; i < m->params; i++)
    p->tensor[i] = (shoal_ist_tensor){ .home = SHOAL_IST_SLICE, .cut = { -1, -1, 1, 1 }, .block = -1, .scale = 1 };
  if (!o->blocks) {
    SHOAL_TRY(check_units(p));
    for (int i = 0; i < m->params; i++) describe_units(p, i);
    return SHOAL_OK;
  }
  find_stages(p, o, &found);
  SHOAL_TRY(size_stages(p, o, found));
  return describe_blocks(p);
}

shoal_status shoal_ist_plan_create(const shoal_model *m, const shoal_ist_options *o, shoal_ist_plan **out)
{
  shoal_ist_plan *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  p->model = m;
  p->o = *o;
  p->o.stages = NULL;
  shoal_status st = describe(p, o);
  if (st == SHOAL_OK)
    *out = p;
  else
    shoal_ist_plan_destroy(p);
  return st;
}

void shoal_ist_plan_destroy(shoal_ist_plan *p)
{
  if (!p) return;
  free(p->tensor);
  free(p->stage);
  free(p->stage_size);
  free(p->stage_min);
  free(p);
}

shoal_status shoal_ist_scale(shoal_backend *b, const shoal_ist_plan *p, bool undo, float *model)
{
  for (int i = 0; i < p->model->params; i++) {
    const shoal_param *q = &p->model->param[i];
    float scale = p->tensor[i].scale, *w = model + q->offset;
    if (scale == 1) continue;
    SHOAL_TRY(undo ? b->ops->divide(b, q->count, scale, w) : b->ops->axpby(b, q->count, scale, w, 0, w));
  }
  return SHOAL_OK;
}
