/* Building a description: nodes are appended one by one; each is checked against the shapes before it, and its
 * parameters get the next free offset of the arena.
 *
 * So definition order, execution order and memory order are the same, and the gradients of late layers, which are final
 * first, are at the end.  This file handles offsets, not values; init.c fills in the values. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/model_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_model_create(const char *name, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  SHOAL_CHECK(input->ndim >= 1 && input->ndim < SHOAL_MAX_DIMS, SHOAL_ERR_ARG,
              "model %s: input has %d dimensions per sample; must be 1 to %d", name, input->ndim, SHOAL_MAX_DIMS - 1);
  for (int i = 0; i < input->ndim; i++)
    SHOAL_CHECK(input->dim[i] >= 1, SHOAL_ERR_ARG, "model %s: dimension %d of the input is %lld; must be at least 1",
                name, i, (long long)input->dim[i]);
  SHOAL_CHECK(classes >= 1, SHOAL_ERR_ARG, "model %s: %lld classes; must be at least 1", name, (long long)classes);
  shoal_model *m = calloc(1, sizeof *m);
  SHOAL_CHECK(m, SHOAL_ERR_MEM, "description of model %s", name);
  snprintf(m->name, sizeof m->name, "%s", name);
  m->input = *input;
  m->classes = classes;
  *out = m;
  return SHOAL_OK;
}

void shoal_model_destroy(shoal_model *m)
{
  if (!m) return;
  for (int i = 0; i < m->params; i++) {
    free(m->param[i].rows);
    free(m->param[i].cols);
  }
  free(m->node);
  free(m->param);
  free(m->space_size);
  free(m->run);
  free(m->text);
  free(m->class_weights);
  free(m);
}

/* Copies a buffer; n = 0 or p = NULL gives NULL. */
static shoal_status duplicate(const void *p, size_t bytes, void **out)
{
  *out = NULL;
  if (!p || bytes == 0) return SHOAL_OK;
  *out = malloc(bytes);
  SHOAL_CHECK(*out, SHOAL_ERR_MEM, "copy of a model description, %zu bytes", bytes);
  memcpy(*out, p, bytes);
  return SHOAL_OK;
}

static shoal_status copy_indices(shoal_param *q, const shoal_param *p)
{
  SHOAL_TRY(duplicate(p->rows, (size_t)p->shape.dim[0] * sizeof *p->rows, (void **)&q->rows));
  return duplicate(p->cols, (size_t)p->shape.dim[1] * sizeof *p->cols, (void **)&q->cols);
}

static shoal_status copy_into(shoal_model *c, const shoal_model *m)
{
  SHOAL_TRY(duplicate(m->node, (size_t)m->nodes * sizeof *m->node, (void **)&c->node));
  SHOAL_TRY(duplicate(m->space_size, (size_t)m->spaces * sizeof *m->space_size, (void **)&c->space_size));
  SHOAL_TRY(duplicate(m->run, (size_t)m->runs * sizeof *m->run, (void **)&c->run));
  SHOAL_TRY(duplicate(m->param, (size_t)m->params * sizeof *m->param, (void **)&c->param));
  for (int i = 0; i < m->params; i++) c->param[i].rows = c->param[i].cols = NULL;
  c->params = m->params;
  for (int i = 0; i < m->params; i++) SHOAL_TRY(copy_indices(&c->param[i], &m->param[i]));
  return SHOAL_OK;
}

shoal_status shoal_model_weigh(shoal_model *m, const shoal_host_float *weights)
{
  free(m->class_weights);
  return duplicate(weights, (size_t)m->classes * sizeof *weights, (void **)&m->class_weights);
}

shoal_status shoal_model_copy(const shoal_model *m, shoal_model **out)
{
  shoal_model *c = malloc(sizeof *c);
  SHOAL_CHECK(c, SHOAL_ERR_MEM, "copy of model %s", m->name);
  *c = *m;
  c->node = NULL, c->param = NULL, c->space_size = NULL, c->run = NULL, c->text = NULL, c->class_weights = NULL;
  c->params = 0; /* until its index lists are copied */
  shoal_status st = shoal_model_weigh(c, m->class_weights);
  if (st == SHOAL_OK) st = copy_into(c, m);
  if (st != SHOAL_OK) {
    shoal_model_destroy(c);
    return st;
  }
  *out = c;
  return SHOAL_OK;
}

shoal_node shoal_node_make(shoal_op_kind kind, const char *name, int in)
{
  shoal_node n = { .kind = kind,
                   .kernel = { 1, 1 },
                   .stride = { 1, 1 },
                   .dilation = { 1, 1 },
                   .groups = 1,
                   .eps = 1e-5f,
                   .momentum = 0.1f,
                   .slope = 0.01f,
                   .weight = { -1, -1 },
                   .factor = { -1, -1 },
                   .stats = -1,
                   .space = -1,
                   .residual = -1 };
  n.in[0] = in;
  for (int k = 1; k < SHOAL_OP_INPUTS; k++) n.in[k] = SHOAL_NO_INPUT;
  snprintf(n.name, sizeof n.name, "%s", name);
  return n;
}

static shoal_shape with_batch(const shoal_shape *s, int64_t batch)
{
  shoal_shape r = { .ndim = s->ndim + 1, .dim = { batch } };
  memcpy(r.dim + 1, s->dim, (size_t)s->ndim * sizeof *s->dim);
  return r;
}

static shoal_shape without_batch(const shoal_shape *s)
{
  shoal_shape r = { .ndim = s->ndim - 1 };
  memcpy(r.dim, s->dim + 1, (size_t)r.ndim * sizeof *r.dim);
  return r;
}

void shoal_node_desc(const shoal_model *m, const shoal_node *n, int64_t batch, shoal_op_desc *d)
{
  *d = (shoal_op_desc){ .kind = n->kind,
                        .kernel = { n->kernel[0], n->kernel[1] },
                        .stride = { n->stride[0], n->stride[1] },
                        .pad = { n->pad[0], n->pad[1] },
                        .gap = { n->dilation[0] - 1, n->dilation[1] - 1 },
                        .groups = n->groups,
                        .first = n->first,
                        .rows = n->rows,
                        .heads = n->heads,
                        .causal = n->causal,
                        .ceil = n->ceil,
                        .count_pad = n->count_pad,
                        .bias = n->bias,
                        .relu = n->relu,
                        .eps = n->eps,
                        .momentum = n->momentum,
                        .p = n->p,
                        .slope = n->slope,
                        .stream = n->stream };
  memcpy(d->order, n->order, sizeof d->order);
  for (int k = 0; k < shoal_node_inputs(n); k++) d->in[k] = with_batch(shoal_value_shape(m, n->in[k]), batch);
  d->out = with_batch(&n->out, batch);
}

int shoal_node_params(const shoal_node *n, int ids[3])
{
  int count = 0;
  const int all[4] = { n->factor[0], n->factor[1], n->tied ? -1 : n->weight[0], n->weight[1] };
  for (int i = 0; i < 4; i++)
    if (all[i] >= 0) ids[count++] = all[i];
  return count;
}

bool shoal_node_trains(const shoal_model *m, const shoal_node *n)
{
  int ids[3], count = shoal_node_params(n, ids);
  for (int i = 0; i < count; i++)
    if (!m->param[ids[i]].frozen) return true;
  return n->tied;
}

/* "1,28,28" of 784 numbers, "3,32,32" of 3072: square images, grey or in colour; else "C,H,W". */
static void guess_shape(int64_t numbers, char *buf, size_t cap)
{
  snprintf(buf, cap, "C,H,W");
  for (int channels = 1; channels <= 3; channels += 2) {
    const long long side = llround(sqrt((double)numbers / channels));
    if (channels * side * side == numbers) snprintf(buf, cap, "%d,%lld,%lld", channels, side, side);
  }
}

shoal_status shoal_model_check_image(const char *what, const char *name, const shoal_shape *input)
{
  char shape[64];
  if (input->ndim > 1) return SHOAL_OK;
  guess_shape(input->dim[0], shape, sizeof shape);
  return SHOAL_FAIL(
      SHOAL_ERR_ARG,
      "%s %s takes images [channels, h, w], and this data has %lld features in a row: if they are pixels, "
      "import them as images, by shoal data import csv (or npy) with --shape %s; if not, take model mlp",
      what, name, (long long)input->dim[0], shape);
}

static bool reads_images(shoal_op_kind kind)
{
  return kind == SHOAL_OP_CONV || kind == SHOAL_OP_MAXPOOL || kind == SHOAL_OP_AVGPOOL || kind == SHOAL_OP_GLOBALPOOL;
}

/* Infers the shapes of output and weights; n->out becomes the full output shape. */
static shoal_status infer_node(const shoal_model *m, shoal_node *n, shoal_shape w[SHOAL_OP_WEIGHTS])
{
  int64_t width = n->out.dim[0];
  if (n->in[0] == -1 && reads_images(n->kind)) SHOAL_TRY(shoal_model_check_image("layer", n->name, &m->input));
  n->out = *shoal_value_shape(m, n->in[0]);
  shoal_op_desc d;
  shoal_node_desc(m, n, 1, &d);
  d.need_dx = n->in[0] >= 0;
  if (n->kind == SHOAL_OP_LINEAR) d.out.dim[d.out.ndim - 1] = width;
  if (n->kind == SHOAL_OP_EMBEDDING && d.in[0].ndim < SHOAL_MAX_DIMS) d.out.dim[d.out.ndim++] = width;
  if (n->kind == SHOAL_OP_CONV || n->kind == SHOAL_OP_SLICE) d.out.dim[1] = width;
  if (n->kind == SHOAL_OP_RESHAPE || n->kind == SHOAL_OP_PARAMETER) d.out = with_batch(&n->shape, 1);
  SHOAL_TRY(shoal_error_prefix(shoal_op_infer(&d, &d.out), "layer %s: ", n->name));
  shoal_op_weight_shapes(&d, w);
  n->out = without_batch(&d.out);
  return SHOAL_OK;
}

static shoal_status check_inputs(const shoal_model *m, const shoal_node *n)
{
  SHOAL_CHECK(shoal_node_inputs(n) <= shoal_op_arity_of(n->kind).most, SHOAL_ERR_ARG,
              "layer %s: %d inputs; %s takes %d", n->name, shoal_node_inputs(n), shoal_op_kind_name(n->kind),
              shoal_op_arity_of(n->kind).most);
  for (int k = 0; k < shoal_node_inputs(n); k++) {
    SHOAL_CHECK(n->in[k] >= -1 && n->in[k] < m->nodes, SHOAL_ERR_ARG,
                "layer %s: input %d is node %d; must be -1 (the network's input) or a node before it, 0 to %d", n->name,
                k, n->in[k], m->nodes - 1);
    for (int j = 0; j < k; j++)
      SHOAL_CHECK(n->in[j] != n->in[k], SHOAL_ERR_ARG, "layer %s: reads a tensor twice; give different inputs",
                  n->name);
  }
  int last_unit = m->nodes ? m->node[m->nodes - 1].unit : 0;
  SHOAL_CHECK(n->unit == last_unit || n->unit == last_unit + (m->nodes > 0), SHOAL_ERR_ARG,
              "layer %s: unit %d; must be %d or the next one, because units follow each other", n->name, n->unit,
              last_unit);
  SHOAL_CHECK(n->rank >= 0 && (n->rank == 0 || n->kind == SHOAL_OP_LINEAR || n->kind == SHOAL_OP_CONV), SHOAL_ERR_ARG,
              "layer %s: rank %lld; only linear and conv have factors, of rank at least 1", n->name,
              (long long)n->rank);
  return SHOAL_OK;
}

/* The caller has reserved the space. */
static int add_param(shoal_model *m, const shoal_node *n, const char *suffix, const shoal_shape *shape, shoal_init init)
{
  shoal_param *p = &m->param[m->params];
  *p = (shoal_param){ .shape = *shape, .full = *shape, .init = init, .full_id = m->params, .factor_of = -1 };
  int length = snprintf(p->name, sizeof p->name, "%s.%s", n->name, suffix);
  if (length >= (int)sizeof p->name) p->name[0] = 0; /* shoal_model_add has rejected such names already */
  p->offset = m->weights;
  p->count = (size_t)shoal_shape_count(shape);
  p->node = m->nodes;
  m->weights += p->count;
  return m->params++;
}

/* A B has the variance of the weight: A has variance 1/r (KAIMING_IN with fan 2r), B is initialised like the weight. */
void shoal_model_name_factors(shoal_param *left, shoal_param *right, const shoal_param *w, int64_t rank,
                              shoal_factor_training train)
{
  int64_t rows = w->shape.dim[0], cols = shoal_shape_count(&w->shape) / rows;
  shoal_param *a = rows >= cols ? left : right, *b = rows >= cols ? right : left;
  a->init = SHOAL_INIT_KAIMING_IN;
  a->fan_in = a->fan_out = 2 * rank;
  b->init = w->init;
  b->fan_in = w->fan_in, b->fan_out = w->fan_out;
  a->factor = 'a', b->factor = 'b';
  a->frozen = train == SHOAL_TRAIN_B, b->frozen = train == SHOAL_TRAIN_A;
  a->decay = b->decay = w->decay;
  a->family = b->family = w->family;
  a->full_id = b->full_id = -1;
  a->factor_of = b->factor_of = w->full_id;
}

/* The table that a tied layer shares: of the only embedding. */
static shoal_status find_table(const shoal_model *m, const shoal_node *n, const shoal_shape *w, int *param)
{
  char is[SHOAL_SHAPE_TEXT], wanted[SHOAL_SHAPE_TEXT];
  int found = 0;
  for (int i = 0; i < m->nodes; i++)
    if (m->node[i].kind == SHOAL_OP_EMBEDDING) {
      *param = m->node[i].weight[0];
      found++;
    }
  SHOAL_CHECK(n->kind == SHOAL_OP_LINEAR && n->rank == 0 && found == 1, SHOAL_ERR_ARG,
              "layer %s: it is tied, and %d embeddings are before it; a linear layer has the table of the only one",
              n->name, found);
  SHOAL_CHECK(shoal_shape_equal(&m->param[*param].shape, w), SHOAL_ERR_ARG,
              "layer %s: it is tied to a table that is %s, but its weight would be %s", n->name,
              shoal_shape_text(&m->param[*param].shape, is), shoal_shape_text(w, wanted));
  return SHOAL_OK;
}

static void add_params(shoal_model *m, shoal_node *n, const shoal_shape w[SHOAL_OP_WEIGHTS], shoal_init init)
{
  bool norm = n->kind == SHOAL_OP_BATCHNORM || n->kind == SHOAL_OP_LAYERNORM;
  const int table = n->tied ? n->weight[0] : -1;
  n->weight[0] = n->weight[1] = n->factor[0] = n->factor[1] = -1;
  if (w[0].ndim == 0) return;
  int64_t field = w[0].ndim == 4 ? w[0].dim[2] * w[0].dim[3] : 1;
  int64_t fan_in = w[0].ndim > 1 ? w[0].dim[1] * field : 1, fan_out = w[0].dim[0] * field;
  bool learned = n->kind == SHOAL_OP_PARAMETER || n->kind == SHOAL_OP_EMBEDDING;
  if (learned) fan_in = fan_out = w[0].dim[w[0].ndim - 1];
  if (n->rank > 0) {
    int64_t rows = w[0].dim[0], cols = shoal_shape_count(&w[0]) / rows;
    n->factor[0] = add_param(m, n, "weight_left", &SHOAL_SHAPE(rows, n->rank), init);
    n->factor[1] = add_param(m, n, "weight_right", &SHOAL_SHAPE(n->rank, cols), init);
    shoal_param as_one = {
      .shape = w[0], .init = init, .full_id = -1, .fan_in = fan_in, .fan_out = fan_out, .decay = true
    };
    shoal_model_name_factors(&m->param[n->factor[0]], &m->param[n->factor[1]], &as_one, n->rank, SHOAL_TRAIN_BOTH);
  } else if (n->tied) {
    n->weight[0] = table;
  } else {
    n->weight[0] = add_param(m, n, "weight", &w[0], norm ? SHOAL_INIT_ONE : init);
    m->param[n->weight[0]].decay = !norm && !learned;
  }
  if (w[1].ndim > 0)
    n->weight[1] =
        add_param(m, n, "bias", &w[1], norm || init != SHOAL_INIT_UNIFORM ? SHOAL_INIT_ZERO : SHOAL_INIT_UNIFORM);
  for (int k = 0; k < SHOAL_OP_WEIGHTS; k++)
    if (n->weight[k] >= 0 && n->weight[k] != table) {
      m->param[n->weight[k]].fan_in = fan_in;
      m->param[n->weight[k]].fan_out = fan_out;
    }
}

/* Sizes come from a run file, so check that their sum in bytes does not overflow. */
static shoal_status check_weights(const shoal_model *m, const shoal_node *n, const shoal_shape w[SHOAL_OP_WEIGHTS])
{
  const int64_t most = INT64_C(1) << 48; /* 1 PiB in f32 */
  int64_t sum = (int64_t)m->weights;
  for (int k = 0; k < SHOAL_OP_WEIGHTS; k++) {
    int64_t count = w[k].ndim > 0;
    bool fits = true;
    for (int d = 0; fits && d < w[k].ndim; d++) fits = !__builtin_mul_overflow(count, w[k].dim[d], &count);
    fits = fits && !__builtin_add_overflow(sum, count, &sum) && sum <= most;
    SHOAL_CHECK(fits, SHOAL_ERR_ARG, "layer %s: the model has more than %lld weights; choose smaller layers", n->name,
                (long long)most);
  }
  return SHOAL_OK;
}

static shoal_status grow(shoal_model *m)
{
  void *nodes = realloc(m->node, (size_t)(m->nodes + 1) * sizeof *m->node);
  SHOAL_CHECK(nodes, SHOAL_ERR_MEM, "node %d of model %s", m->nodes, m->name);
  m->node = nodes;
  void *params = realloc(m->param, (size_t)(m->params + 3) * sizeof *m->param);
  SHOAL_CHECK(params, SHOAL_ERR_MEM, "parameters of node %d of model %s", m->nodes, m->name);
  m->param = params;
  return SHOAL_OK;
}

shoal_status shoal_model_add(shoal_model *m, const shoal_node *given, shoal_init init, int *id_out)
{
  shoal_node n = *given;
  shoal_shape w[SHOAL_OP_WEIGHTS];
  SHOAL_CHECK(n.name[0] && strlen(n.name) + strlen(".running_mean") < SHOAL_NAME_MAX, SHOAL_ERR_ARG,
              "layer name '%s' is empty or too long; at most %d characters", n.name,
              SHOAL_NAME_MAX - 1 - (int)strlen(".running_mean"));
  SHOAL_TRY(check_inputs(m, &n));
  SHOAL_TRY(infer_node(m, &n, w));
  SHOAL_TRY(check_weights(m, &n, w));
  int64_t rows = w[0].ndim ? w[0].dim[0] : 1, cols = w[0].ndim ? shoal_shape_count(&w[0]) / rows : 1;
  SHOAL_CHECK(n.rank <= SHOAL_MIN(rows, cols), SHOAL_ERR_ARG,
              "layer %s: rank %lld of a weight that is %lld x %lld; at most the smaller side", n.name,
              (long long)n.rank, (long long)rows, (long long)cols);
  if (n.tied) SHOAL_TRY(find_table(m, &n, &w[0], &n.weight[0]));
  SHOAL_TRY(grow(m));
  add_params(m, &n, w, init);
  n.stats = -1;
  if (n.kind == SHOAL_OP_BATCHNORM) {
    n.stats = (int)m->stats;
    m->stats += 2 * (size_t)n.out.dim[0];
  }
  n.space = -1;
  n.stream = (uint64_t)m->nodes;
  if (id_out) *id_out = m->nodes;
  m->node[m->nodes++] = n;
  return SHOAL_OK;
}

/* Checks that every node but the last has a reader, names are unique, and only the last tensor of a unit leaves it. */
static shoal_status check_graph(shoal_model *m)
{
  SHOAL_CHECK(m->nodes > 0, SHOAL_ERR_ARG, "model %s has no layers", m->name);
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    bool read = i == m->nodes - 1;
    m->culprit = i;
    for (int j = i + 1; j < m->nodes; j++) {
      for (int k = 0; k < shoal_node_inputs(&m->node[j]); k++) read = read || m->node[j].in[k] == i;
      SHOAL_CHECK(strcmp(n->name, m->node[j].name) != 0, SHOAL_ERR_ARG, "model %s: two layers are named %s", m->name,
                  n->name);
    }
    SHOAL_CHECK(read, SHOAL_ERR_ARG, "layer %s: its output is not used; connect or remove it", n->name);
    for (int k = 0; k < shoal_node_inputs(n); k++) {
      int v = n->in[k], boundary = i - 1;
      while (boundary >= 0 && m->node[boundary].unit == n->unit) boundary--;
      bool inside = v >= 0 && m->node[v].unit == n->unit;
      SHOAL_CHECK(inside || v == boundary, SHOAL_ERR_ARG,
                  "layer %s reads %s across the boundary of unit %d; a unit reads only the last tensor before it",
                  n->name, v < 0 ? "the network's input" : m->node[v].name, n->unit);
    }
  }
  return SHOAL_OK;
}

/* Trained parameters come first, so that they can be summed and updated as one range. */
static void place_params(shoal_model *m)
{
  m->weights = 0;
  for (int frozen = 0; frozen < 2; frozen++) {
    for (int i = 0; i < m->params; i++)
      if (m->param[i].frozen == (frozen == 1)) {
        m->param[i].offset = m->weights;
        m->weights += m->param[i].count;
      }
    if (!frozen) m->trainable = m->weights;
  }
}

shoal_status shoal_model_finish(shoal_model *m)
{
  SHOAL_TRY(check_graph(m));
  place_params(m);
  m->units = m->node[m->nodes - 1].unit + 1;
  m->residuals = 0;
  for (int i = 0; i < m->nodes; i++) m->residuals = SHOAL_MAX(m->residuals, m->node[i].residual + 1);
  SHOAL_TRY(shoal_model_find_spaces(m));
  return shoal_model_find_runs(m);
}

int64_t shoal_model_rows(const shoal_model *m)
{
  const shoal_shape *out = &m->node[m->nodes - 1].out;
  return shoal_shape_count(out) / out->dim[out->ndim - 1];
}

int64_t shoal_model_labels(const shoal_model *m)
{
  return shoal_model_rows(m) * (m->loss == SHOAL_LOSS_CLASSES ? 1 : m->classes);
}

bool shoal_model_reads_tokens(const shoal_model *m)
{
  for (int i = 0; i < m->nodes; i++)
    if (m->node[i].kind == SHOAL_OP_EMBEDDING) return true;
  return false;
}

double shoal_model_macs(const shoal_model *m)
{
  double sum = 0;
  for (int i = 0; i < m->nodes; i++) {
    shoal_op_desc d;
    shoal_node_desc(m, &m->node[i], 1, &d);
    sum += shoal_op_macs(&d);
  }
  return sum;
}

static void print_shape(const shoal_shape *s, char *buf, size_t cap)
{
  size_t n = 0;
  buf[0] = 0;
  for (int i = 0; i < s->ndim && n < cap; i++)
    n += (size_t)snprintf(buf + n, cap - n, i ? "x%lld" : "%lld", (long long)s->dim[i]);
}

void shoal_model_print(const shoal_model *m, shoal_str *out)
{
  char shape[96], kind[32];
  print_shape(&m->input, shape, sizeof shape);
  shoal_str_add(out, "%s: input %s, %lld classes\n", m->name, shape, (long long)m->classes);
  shoal_str_add(out, "%-28s %-16s %16s %12s %14s  unit\n", "layer", "kind", "output", "parameters", "MAC/sample");
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    int ids[3], count = shoal_node_params(n, ids);
    size_t params = 0;
    for (int k = 0; k < count; k++) params += m->param[ids[k]].count;
    shoal_op_desc d;
    shoal_node_desc(m, n, 1, &d);
    print_shape(&n->out, shape, sizeof shape);
    snprintf(kind, sizeof kind, "%s%s", shoal_op_kind_name(n->kind), n->relu ? "+relu" : "");
    shoal_str_add(out, "%-28s %-16s %16s %12zu %14.0f  %d\n", n->name, kind, shape, params, shoal_op_macs(&d), n->unit);
  }
  shoal_str_add(out, "total: %zu parameters in %d tensors, %zu statistics, %.0f MAC/sample forward\n", m->weights,
                m->params, m->stats, shoal_model_macs(m));
}

void shoal_model_each_stat(const shoal_model *m, void (*f)(void *ctx, const char *name, size_t offset, size_t count),
                           void *ctx)
{
  char name[SHOAL_NAME_MAX + 16];
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    if (n->stats < 0) continue;
    size_t c = (size_t)n->out.dim[0];
    snprintf(name, sizeof name, "%s.running_mean", n->name);
    f(ctx, name, (size_t)n->stats, c);
    snprintf(name, sizeof name, "%s.running_var", n->name);
    f(ctx, name, (size_t)n->stats + c, c);
  }
}
