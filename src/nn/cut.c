/* The three cuts.  Each walks the nodes of a model and appends them, modified as needed, to a new one.  Shapes, spaces
 * and the arena are thus derived again, and the usual checks reject what is impossible.
 *
 *   narrow, hidden space {0..5}, keep {4, 1}:        W1 rows 4, 1        W2 columns 4, 1
 *
 *        in --W1[6,3]-- h --W2[2,6]-- out      =>    in --W1'[2,3]-- h' --W2'[2,2]-- out
 *
 * The origin of the elements cannot be derived: carry_origin() copies it from the old parameter and composes index
 * lists, so that initial weights, gather and scatter always refer to the first model of the chain. */
#include "base/mem.h"
#include "nn/model_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const shoal_model *from;
  shoal_model *to;
  int *map;      /* [from->nodes] number in `to`, -1: the input of `to`; owned */
  int last_unit; /* unit in `from` of the node appended last, -1 before the first */
  int unit;      /* its unit in `to` */
} rebuild;

static shoal_status rebuild_open(rebuild *r, const shoal_model *from, const shoal_shape *input)
{
  *r = (rebuild){ .from = from, .last_unit = -1, .unit = -1 };
  SHOAL_TRY(shoal_model_create(from->name, input, from->classes, &r->to));
  r->to->loss = from->loss;
  r->to->smoothing = from->smoothing;
  r->to->recompute = from->recompute;
  r->to->products = from->products;
  SHOAL_TRY(shoal_model_weigh(r->to, from->class_weights));
  return SHOAL_ALLOC((size_t)from->nodes, &r->map);
}

/* Sets *out to the finished model, or destroys it on error. */
static shoal_status rebuild_close(rebuild *r, shoal_status st, shoal_model **out)
{
  free(r->map);
  if (st == SHOAL_OK) st = shoal_model_finish(r->to);
  if (st == SHOAL_OK)
    *out = r->to;
  else
    shoal_model_destroy(r->to);
  return st;
}

/* out[i] = old[keep[i]]; a NULL list is the identity. */
static shoal_status compose(const int64_t *old, const int64_t *keep, int64_t n, int64_t **out)
{
  *out = NULL;
  if (!old && !keep) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, out));
  for (int64_t i = 0; i < n; i++) {
    int64_t at = keep ? keep[i] : i;
    (*out)[i] = old ? old[at] : at;
  }
  return SHOAL_OK;
}

/* Records that parameter q of the new model holds these rows and columns of p of the old one. */
static shoal_status carry_origin(shoal_param *q, const shoal_param *p, const int64_t *rows, const int64_t *cols)
{
  q->init = p->init;
  q->fan_in = p->fan_in, q->fan_out = p->fan_out;
  q->decay = p->decay;
  q->full_id = p->full_id;
  q->full = p->full;
  q->family = p->family;
  q->factor_of = p->factor_of, q->factor = p->factor, q->frozen = p->frozen;
  SHOAL_TRY(compose(p->rows, rows, q->shape.dim[0], &q->rows));
  if (q->shape.ndim < 2) return SHOAL_OK;
  return compose(p->cols, cols, q->shape.dim[1], &q->cols);
}

/* Converts inputs and unit of `n`, a copy of node i of `from`, to the numbering of the new model. */
static void renumber(rebuild *r, int i, shoal_node *n)
{
  int unit = r->from->node[i].unit;
  for (int k = 0; k < shoal_node_inputs(n); k++) n->in[k] = n->in[k] < 0 ? -1 : r->map[n->in[k]];
  r->unit += unit != r->last_unit; /* unit numbers stay contiguous when a unit has lost all its nodes */
  r->last_unit = unit;
  n->unit = r->unit;
}

/* Appends `n`, a changed copy of node i of `from` whose inputs still have their old numbers. */
static shoal_status append(rebuild *r, int i, shoal_node *n, int64_t width, const int64_t *rows, const int64_t *cols)
{
  const shoal_node *old = &r->from->node[i];
  renumber(r, i, n);
  n->out.dim[0] = width;
  int id, was[3], is[3];
  shoal_init init = SHOAL_INIT_ZERO;
  int count = shoal_node_params(old, was);
  if (old->weight[0] >= 0) init = r->from->param[old->weight[0]].init;
  SHOAL_TRY(shoal_model_add(r->to, n, init, &id));
  r->map[i] = id;
  shoal_node *new = &r->to->node[id];
  new->stream = old->stream;
  shoal_node_params(new, is);
  if (old->rank == new->rank) {
    for (int k = 0; k < count; k++) SHOAL_TRY(carry_origin(&r->to->param[is[k]], &r->from->param[was[k]], rows, cols));
    return SHOAL_OK;
  }
  if (old->weight[1] < 0) return SHOAL_OK; /* just factored: only the bias has an origin */
  return carry_origin(&r->to->param[new->weight[1]], &r->from->param[old->weight[1]], NULL, NULL);
}

/* ---- slice ---- */

static shoal_status append_head(rebuild *r, const shoal_model *head, int family)
{
  shoal_model *to = r->to;
  int boundary = to->nodes - 1, units = r->unit + 1, residuals = 0;
  for (int i = 0; i < to->nodes; i++) residuals = SHOAL_MAX(residuals, to->node[i].residual + 1);
  SHOAL_CHECK(shoal_shape_equal(&head->input, &to->node[boundary].out), SHOAL_ERR_ARG,
              "head %s does not take the output of layer %s; build it for that shape", head->name,
              to->node[boundary].name);
  to->node[boundary].keep = true;
  to->classes = head->classes;
  rebuild h = { .from = head, .to = to, .last_unit = -1, .unit = units - 1 };
  SHOAL_TRY(SHOAL_ALLOC((size_t)head->nodes + 1, &h.map));
  h.map[head->nodes] = boundary; /* the head's input */
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < head->nodes && st == SHOAL_OK; i++) {
    shoal_node n = head->node[i];
    int first_param = to->params;
    snprintf(n.name, sizeof n.name, "head.%.*s", SHOAL_NAME_MAX - 6, head->node[i].name);
    if (n.residual >= 0) n.residual += residuals;
    for (int k = 0; k < shoal_node_inputs(&n); k++)
      if (n.in[k] < 0) n.in[k] = head->nodes;
    st = append(&h, i, &n, shoal_node_width(&n), NULL, NULL);
    if (st != SHOAL_OK) break;
    to->node[to->nodes - 1].stream += (uint64_t)family << 32;
    for (int p = first_param; p < to->params; p++) to->param[p].family = family;
  }
  free(h.map);
  return st;
}

shoal_status shoal_model_slice(const shoal_model *m, int first, int last, const shoal_model *head, shoal_model **out)
{
  SHOAL_CHECK(first >= 0 && first < last && last <= m->units, SHOAL_ERR_ARG,
              "model %s: units [%d, %d) of %d; give 0 <= first < last <= %d", m->name, first, last, m->units, m->units);
  int begin = 0, end = m->nodes, residual = 0;
  while (m->node[begin].unit < first) begin++;
  while (m->node[end - 1].unit >= last) end--;
  for (int i = begin; i < end; i++)
    SHOAL_CHECK(
        !m->node[i].tied || m->param[m->node[i].weight[0]].node >= begin, SHOAL_ERR_UNSUPPORTED,
        "layer %s has the table of layer %s as its weight, and cannot be in another part of the network: set tied: "
        "false",
        m->node[i].name, m->node[m->param[m->node[i].weight[0]].node].name);
  for (int i = 0; i < begin; i++) residual = SHOAL_MAX(residual, m->node[i].residual + 1);
  rebuild r;
  shoal_status st;
  SHOAL_TRY_GOTO(st, rebuild_open(&r, m, shoal_value_shape(m, begin - 1)), done);
  for (int i = 0; i < begin; i++) r.map[i] = -1; /* only the boundary is ever read */
  for (int i = begin; i < end; i++) {
    shoal_node n = m->node[i];
    n.keep = false;
    if (n.residual >= 0) n.residual -= residual;
    SHOAL_TRY_GOTO(st, append(&r, i, &n, shoal_node_width(&n), NULL, NULL), done);
  }
  if (head) st = append_head(&r, head, last);
done:
  return rebuild_close(&r, st, out);
}

/* ---- narrow ---- */

typedef struct {
  const int64_t *const *keep;
  const int64_t *count;
  const bool *residual_keep;
} selection;

/* Of the dimension along which the units of a value lie. */
static int64_t width_of(const shoal_model *m, int v)
{
  const shoal_shape *s = shoal_value_shape(m, v);
  return s->dim[shoal_unit_dim(s)];
}

/* Number of consecutive indices that form a unit of the value's space. */
static int64_t grain_of(const shoal_model *m, int v)
{
  return width_of(m, v) / m->space_size[m->node[v].space];
}

static int space_of(const shoal_model *m, int v)
{
  return v < 0 ? -1 : m->node[v].space;
}

/* Whether dimension 0 of the weight is that of the output's units; not if the layer acts on the last of three dimensions. */
static bool follows_units(const shoal_node *n)
{
  bool last = n->kind == SHOAL_OP_LINEAR || n->kind == SHOAL_OP_LAYERNORM;
  return n->out.ndim == 1 || (n->out.ndim == 2 && last) || n->kind == SHOAL_OP_CONV || n->kind == SHOAL_OP_BATCHNORM;
}

shoal_param_cut shoal_model_param_cut(const shoal_model *m, int param)
{
  const shoal_param *p = &m->param[param];
  const shoal_node *n = &m->node[p->node];
  shoal_param_cut c = { -1, -1, 1, 1 };
  if (n->rank > 0 || !follows_units(n)) return c;
  c.row_space = space_of(m, p->node);
  if (c.row_space >= 0) c.row_grain = grain_of(m, p->node);
  if (p->shape.ndim > 1 && shoal_node_units(m, n) == SHOAL_UNITS_MAKE) c.col_space = space_of(m, n->in[0]);
  if (c.col_space >= 0) c.col_grain = grain_of(m, n->in[0]);
  return c;
}

static int64_t kept_width(const shoal_model *m, int v, const selection *s)
{
  int space = space_of(m, v);
  if (space < 0 || !s->keep || !s->keep[space]) return width_of(m, v);
  return s->count[space] * grain_of(m, v);
}

/* The kept indices of value v in their new order; NULL: all.  Caller frees. */
static shoal_status kept_places(const shoal_model *m, int v, const selection *s, int64_t **out)
{
  *out = NULL;
  int space = space_of(m, v);
  if (space < 0 || !s->keep || !s->keep[space]) return SHOAL_OK;
  int64_t grain = grain_of(m, v), n = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)(s->count[space] * grain), out));
  for (int64_t i = 0; i < s->count[space]; i++)
    for (int64_t k = 0; k < grain; k++) (*out)[n++] = s->keep[space][i] * grain + k;
  return SHOAL_OK;
}

static shoal_status check_keep(const shoal_model *m, const selection *s)
{
  for (int space = 0; s->keep && space < m->spaces; space++) {
    if (!s->keep[space]) continue;
    int64_t size = m->space_size[space];
    SHOAL_CHECK(s->count[space] >= 1 && s->count[space] <= size, SHOAL_ERR_ARG,
                "model %s: %lld units kept of space %d; must be 1 to %lld", m->name, (long long)s->count[space], space,
                (long long)size);
    bool *seen;
    SHOAL_TRY(SHOAL_ALLOC((size_t)size, &seen));
    int64_t bad = -1;
    for (int64_t i = 0; i < s->count[space] && bad < 0; i++) {
      int64_t u = s->keep[space][i];
      if (u < 0 || u >= size || seen[u])
        bad = i;
      else
        seen[u] = true;
    }
    free(seen);
    SHOAL_CHECK(bad < 0, SHOAL_ERR_ARG,
                "model %s: unit %lld of space %d is out of range or kept twice; 0 to %lld, each once", m->name,
                (long long)s->keep[space][bad], space, (long long)size - 1);
  }
  return SHOAL_OK;
}

/* The ADD of two that ends residual block r, or -1; *shortcut is its other input. */
static int find_add(const shoal_model *m, int r, int *shortcut)
{
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    if (n->kind != SHOAL_OP_ADD || n->residual == r || shoal_node_inputs(n) != 2) continue;
    for (int k = 0; k < 2; k++)
      if (n->in[k] >= 0 && m->node[n->in[k]].residual == r) {
        *shortcut = n->in[1 - k];
        return i;
      }
  }
  return -1;
}

bool shoal_model_residual_can_drop(const shoal_model *m, int r)
{
  int shortcut = -1, add = find_add(m, r, &shortcut);
  if (add < 0) return false;
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    for (int k = 0; k < shoal_node_inputs(n); k++) {
      bool from_body = n->in[k] >= 0 && m->node[n->in[k]].residual == r;
      if (n->residual == r && !from_body && n->in[k] != shortcut) return false; /* a second input: a projection */
      if (n->residual != r && from_body && i != add) return false;              /* the body is read outside the block */
    }
  }
  return true;
}

static bool rectified(const shoal_model *m, int v)
{
  return v >= 0 && (m->node[v].relu || m->node[v].kind == SHOAL_OP_RELU);
}

/* Replaces the ADD of a dropped block by its shortcut; *removed: not even a relu remains. */
static void reduce_add(const rebuild *r, const selection *s, int i, shoal_node *n, bool *removed)
{
  for (int b = 0; b < r->from->residuals; b++) {
    int shortcut = -1;
    if (s->residual_keep[b] || find_add(r->from, b, &shortcut) != i) continue;
    int at = shortcut < 0 ? -1 : r->map[shortcut];
    *removed = !n->relu || rectified(r->to, at);
    n->kind = SHOAL_OP_RELU;
    n->relu = false;
    n->in[0] = shortcut;
    n->in[1] = SHOAL_NO_INPUT;
    if (*removed) r->map[i] = at;
    return;
  }
}

static shoal_status narrow_node(rebuild *r, const selection *s, int i)
{
  const shoal_model *m = r->from;
  shoal_node n = m->node[i];
  int64_t *rows = NULL, *cols = NULL;
  bool removed = false;
  shoal_status st = SHOAL_OK;
  if (n.residual >= 0 && s->residual_keep && !s->residual_keep[n.residual]) return SHOAL_OK;
  if (n.residual >= 0 && s->residual_keep) /* renumber the remaining blocks */
    for (int b = 0, all = n.residual; b < all; b++) n.residual -= !s->residual_keep[b];
  if (n.kind == SHOAL_OP_ADD && s->residual_keep) reduce_add(r, s, i, &n, &removed);
  if (removed) return SHOAL_OK;
  bool flat = follows_units(&n);
  int64_t width = flat ? kept_width(m, i, s) : shoal_node_width(&n);
  if (flat) SHOAL_TRY_GOTO(st, kept_places(m, i, s, &rows), done);
  if (flat && shoal_node_units(m, &n) != SHOAL_UNITS_KEEP) SHOAL_TRY_GOTO(st, kept_places(m, n.in[0], s, &cols), done);
  if (n.kind == SHOAL_OP_CONV && shoal_node_units(m, &n) == SHOAL_UNITS_KEEP) n.groups = (int)width;
  if (n.kind == SHOAL_OP_ATTENTION) n.heads = (int)(n.heads * kept_width(m, i, s) / width_of(m, i));
  SHOAL_CHECK_GOTO(st, n.rank == 0 || (!rows && !cols), done, SHOAL_ERR_UNSUPPORTED,
                   "layer %s is a product of factors; narrow the model first, then factor it", n.name);
  st = append(r, i, &n, width, rows, cols);
done:
  free(rows);
  free(cols);
  return st;
}

shoal_status shoal_model_narrow(const shoal_model *m, const int64_t *const *keep, const int64_t *count,
                                const bool *residual_keep, shoal_model **out)
{
  selection s = { keep, count, residual_keep };
  SHOAL_TRY(check_keep(m, &s));
  for (int b = 0; residual_keep && b < m->residuals; b++)
    SHOAL_CHECK(residual_keep[b] || shoal_model_residual_can_drop(m, b), SHOAL_ERR_ARG,
                "model %s: residual block %d changes the shape and cannot be dropped; keep it", m->name, b);
  rebuild r;
  shoal_status st;
  SHOAL_TRY_GOTO(st, rebuild_open(&r, m, &m->input), done);
  for (int i = 0; i < m->nodes; i++) SHOAL_TRY_GOTO(st, narrow_node(&r, &s, i), done);
done:
  return rebuild_close(&r, st, out);
}

/* ---- factor ---- */

static shoal_status check_factoring(const shoal_model *m, const shoal_node *n, shoal_factoring how)
{
  int64_t rank = how.rank;
  SHOAL_CHECK(n->weight[0] >= 0 && !n->tied && (n->kind == SHOAL_OP_LINEAR || n->kind == SHOAL_OP_CONV), SHOAL_ERR_ARG,
              "layer %s has no weight matrix to factor; choose a linear or convolution that is not factored yet",
              n->name);
  const shoal_param *w = &m->param[n->weight[0]];
  int64_t rows = w->shape.dim[0], cols = (int64_t)w->count / rows;
  SHOAL_CHECK(rank >= 1 && rank <= SHOAL_MIN(rows, cols), SHOAL_ERR_ARG,
              "layer %s: rank %lld of a weight that is %lld x %lld; must be 1 to the smaller side", n->name,
              (long long)rank, (long long)rows, (long long)cols);
  SHOAL_CHECK(!how.chain || n->kind != SHOAL_OP_CONV || n->groups == 1, SHOAL_ERR_ARG,
              "layer %s has %d groups and cannot become two layers; factor it as a product", n->name, n->groups);
  SHOAL_CHECK(strlen(n->name) + strlen(".right.running_mean") < SHOAL_NAME_MAX, SHOAL_ERR_ARG,
              "the name of layer %s leaves no room for .right; shorten it", n->name);
  return SHOAL_OK;
}

/* One node; its weight is multiplied out to the weight's offset in the arena of `from`. */
static shoal_status append_product(rebuild *r, int i, int64_t rank, shoal_factor_training train)
{
  const shoal_node *old = &r->from->node[i];
  const shoal_param *w = &r->from->param[old->weight[0]];
  shoal_node n = *old;
  n.rank = rank;
  n.product = w->offset;
  SHOAL_TRY(append(r, i, &n, shoal_node_width(&n), NULL, NULL));
  const shoal_node *new = &r->to->node[r->map[i]];
  shoal_model_name_factors(&r->to->param[new->factor[0]], &r->to->param[new->factor[1]], w, rank, train);
  r->to->products = r->from->weights;
  return SHOAL_OK;
}

/* Two nodes: right, the layer with `rank` outputs; then left, a linear or 1x1 convolution with bias and relu. */
static shoal_status append_chain(rebuild *r, int i, int64_t rank, shoal_factor_training train)
{
  const shoal_node *old = &r->from->node[i];
  const shoal_param *w = &r->from->param[old->weight[0]];
  shoal_node right = *old, left = *old;
  int id;
  renumber(r, i, &right);
  snprintf(right.name, sizeof right.name, "%.*s.right", (int)(sizeof right.name - sizeof ".right"), old->name);
  right.bias = right.relu = right.keep = false;
  right.out.dim[0] = rank;
  SHOAL_TRY(shoal_model_add(r->to, &right, w->init, &id));
  left.in[0] = id;
  left.unit = right.unit;
  left.out.dim[0] = shoal_node_width(old);
  for (int k = 0; k < 2; k++) left.kernel[k] = left.stride[k] = left.dilation[k] = 1, left.pad[k] = 0;
  SHOAL_TRY(shoal_model_add(r->to, &left, w->init, &r->map[i]));
  const shoal_node *new = &r->to->node[r->map[i]];
  r->to->node[r->map[i]].stream = old->stream;
  shoal_model_name_factors(&r->to->param[new->weight[0]], &r->to->param[r->to->node[id].weight[0]], w, rank, train);
  if (old->weight[1] < 0) return SHOAL_OK;
  return carry_origin(&r->to->param[new->weight[1]], &r->from->param[old->weight[1]], NULL, NULL);
}

shoal_status shoal_model_factor(const shoal_model *m, const shoal_factoring *how, shoal_factor_training train,
                                shoal_model **out)
{
  rebuild r;
  shoal_status st;
  SHOAL_TRY_GOTO(st, rebuild_open(&r, m, &m->input), done);
  for (int i = 0; i < m->nodes; i++) {
    shoal_node copy = m->node[i];
    if (how[i].rank == 0) {
      SHOAL_TRY_GOTO(st, append(&r, i, &copy, shoal_node_width(&copy), NULL, NULL), done);
      continue;
    }
    SHOAL_TRY_GOTO(st, check_factoring(m, &copy, how[i]), done);
    st = how[i].chain ? append_chain(&r, i, how[i].rank, train) : append_product(&r, i, how[i].rank, train);
    if (st != SHOAL_OK) goto done;
  }
done:
  return rebuild_close(&r, st, out);
}
