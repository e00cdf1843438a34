/* See nn_rig.h. */
#include "nn_rig.h"
#include "base/mem.h"
#include "base/rng.h"

shoal_backend *ref_backend(void)
{
  static shoal_backend *b;
  if (!b) REQUIRE(shoal_backend_open("ref", 1, &b) == SHOAL_OK, "backend ref");
  return b;
}

shoal_model *rig_model(const char *name, const char *options, const shoal_shape *input, int64_t classes)
{
  const shoal_model_entry *e = shoal_model_find(name);
  REQUIRE(e, "model %s", name);
  shoal_settings *s;
  shoal_config *c;
  shoal_model *m = NULL;
  REQUIRE(shoal_settings_create(&s) == SHOAL_OK, "settings");
  char text[512];
  snprintf(text, sizeof text, "%s", options);
  for (char *save, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
    REQUIRE(shoal_settings_set(s, one, "test") == SHOAL_OK, "%s", one);
  const shoal_option_table table = { "model", e->options };
  REQUIRE(shoal_config_create(s, &table, 1, &c) == SHOAL_OK, "options %s", options);
  REQUIRE(e->build(c, input, classes, &m) == SHOAL_OK, "build %s %s", name, options);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
  return m;
}

/* ---- networks by hand ---- */

static int put(shoal_model *m, shoal_node n, shoal_init init)
{
  int id = -1;
  REQUIRE(shoal_model_add(m, &n, init, &id) == SHOAL_OK, "add %s", n.name);
  return id;
}

static int put_conv(shoal_model *m, const char *name, int in, int64_t width, int kernel, int stride, bool relu,
                    int unit, int residual)
{
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, name, in);
  n.out.dim[0] = width;
  n.kernel[0] = n.kernel[1] = kernel;
  n.stride[0] = n.stride[1] = stride;
  n.pad[0] = n.pad[1] = kernel / 2;
  n.bias = true;
  n.relu = relu;
  n.unit = unit;
  n.residual = residual;
  return put(m, n, SHOAL_INIT_UNIFORM);
}

static int put_plain(shoal_model *m, shoal_op_kind kind, const char *name, int in, bool relu, int unit, int residual)
{
  shoal_node n = shoal_node_make(kind, name, in);
  n.relu = relu;
  n.unit = unit;
  n.residual = residual;
  n.kernel[0] = n.kernel[1] = n.stride[0] = n.stride[1] = 2;
  n.p = 0.3f;
  return put(m, n, SHOAL_INIT_ZERO);
}

static int put_add(shoal_model *m, const char *name, int a, int b, bool relu, int unit)
{
  shoal_node n = shoal_node_make(SHOAL_OP_ADD, name, a);
  n.in[1] = b;
  n.relu = relu;
  n.unit = unit;
  return put(m, n, SHOAL_INIT_ZERO);
}

static int put_linear(shoal_model *m, const char *name, int in, int64_t width, bool relu, int unit)
{
  shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, name, in);
  n.out.dim[0] = width;
  n.bias = true;
  n.relu = relu;
  n.unit = unit;
  return put(m, n, SHOAL_INIT_UNIFORM);
}

static void build_chain(shoal_model *m)
{
  int x = put_conv(m, "conv1", -1, 4, 3, 1, true, 0, -1);
  x = put_plain(m, SHOAL_OP_AVGPOOL, "avg", x, false, 1, -1);
  x = put_conv(m, "conv2", x, 5, 3, 1, false, 1, -1);
  x = put_plain(m, SHOAL_OP_BATCHNORM, "bn2", x, false, 1, -1);
  x = put_plain(m, SHOAL_OP_GELU, "gelu2", x, false, 1, -1);
  x = put_plain(m, SHOAL_OP_DROPOUT, "drop", x, false, 1, -1);
  x = put_plain(m, SHOAL_OP_FLATTEN, "flat", x, false, 2, -1);
  x = put_linear(m, "fc1", x, 6, true, 2);
  x = put_plain(m, SHOAL_OP_LAYERNORM, "ln", x, false, 2, -1);
  put_linear(m, "fc2", x, 3, false, 3);
}

static void build_residual(shoal_model *m)
{
  int x = put_conv(m, "conv1", -1, 4, 3, 1, false, 0, -1);
  x = put_plain(m, SHOAL_OP_BATCHNORM, "bn1", x, true, 0, -1);
  int y = put_conv(m, "a.conv1", x, 3, 3, 1, false, 1, 0);
  y = put_plain(m, SHOAL_OP_BATCHNORM, "a.bn1", y, true, 1, 0);
  y = put_conv(m, "a.conv2", y, 4, 3, 1, false, 1, 0);
  y = put_plain(m, SHOAL_OP_BATCHNORM, "a.bn2", y, false, 1, 0);
  x = put_add(m, "a.add", y, x, true, 1);
  y = put_conv(m, "b.conv1", x, 5, 3, 2, false, 2, 1);
  y = put_plain(m, SHOAL_OP_BATCHNORM, "b.bn1", y, true, 2, 1);
  y = put_conv(m, "b.conv2", y, 6, 3, 1, false, 2, 1);
  y = put_plain(m, SHOAL_OP_BATCHNORM, "b.bn2", y, false, 2, 1);
  int p = put_conv(m, "b.down", x, 6, 1, 2, false, 2, -1);
  p = put_plain(m, SHOAL_OP_BATCHNORM, "b.downbn", p, false, 2, -1);
  x = put_add(m, "b.add", y, p, true, 2);
  x = put_plain(m, SHOAL_OP_GLOBALPOOL, "pool", x, false, 3, -1);
  put_linear(m, "fc", x, 3, false, 3);
}

/* Backward from s6: its gradient goes to s5 and t, from there to s4, r, x and a, all in one slot; s4 has a relu while r
 * still waits; x and a get shares from other sums while the first slot is shared. */
static void build_forks(shoal_model *m)
{
  int x = put_conv(m, "conv1", -1, 4, 3, 1, true, 0, -1);
  int a = put_conv(m, "conv2", x, 4, 3, 1, true, 0, -1);
  int s1 = put_add(m, "s1", x, a, true, 0);
  int b = put_conv(m, "conv3", a, 4, 1, 1, false, 0, -1);
  int s2 = put_add(m, "s2", s1, a, false, 0);
  int s3 = put_add(m, "s3", b, s2, false, 0);
  int r = put_plain(m, SHOAL_OP_RELU, "relu", s2, false, 0, -1);
  int c = put_conv(m, "conv4", x, 4, 1, 1, false, 0, -1);
  int u = put_add(m, "u", s3, x, false, 0);
  int s4 = put_add(m, "s4", u, c, true, 0);
  int s5 = put_add(m, "s5", r, s4, false, 0);
  int t = put_add(m, "t", x, a, false, 0);
  int s6 = put_add(m, "s6", s5, t, false, 0);
  int g = put_plain(m, SHOAL_OP_GLOBALPOOL, "pool", s6, false, 1, -1);
  put_linear(m, "fc", g, 3, false, 1);
}

static int put_join(shoal_model *m, shoal_op_kind kind, const char *name, int n, const int *in, bool relu, int unit)
{
  shoal_node node = shoal_node_make(kind, name, in[0]);
  for (int k = 1; k < n; k++) node.in[k] = in[k];
  node.relu = relu;
  node.unit = unit;
  return put(m, node, SHOAL_INIT_ZERO);
}

/* Layers of several inputs, each of which has other readers, too. */
static void build_branches(shoal_model *m)
{
  int x = put_conv(m, "conv1", -1, 4, 3, 1, true, 0, -1);
  int a = put_conv(m, "a", x, 4, 3, 1, false, 0, -1), b = put_conv(m, "b", x, 4, 1, 1, true, 0, -1);
  int s =
      put_join(m, SHOAL_OP_ADD, "s", 4, (const int[]){ a, x, b, put_conv(m, "c", a, 4, 1, 1, true, 0, -1) }, true, 0);
  int t = put_join(m, SHOAL_OP_ADD, "t", 3, (const int[]){ s, a, b }, false, 0);
  int u = put_join(m, SHOAL_OP_MUL, "u", 2, (const int[]){ t, b }, false, 0);
  x = put_plain(m, SHOAL_OP_GLOBALPOOL, "pool", u, false, 0, -1);
  x = put_plain(m, SHOAL_OP_SIGMOID, "gate", put_linear(m, "fc1", x, 4, true, 0), false, 0, -1);
  x = put_join(m, SHOAL_OP_MUL, "v", 2, (const int[]){ u, x }, false, 0);
  int d = put_conv(m, "d", x, 3, 1, 1, true, 0, -1);
  x = put_join(m, SHOAL_OP_CONCAT, "w", 3, (const int[]){ d, -1, put_conv(m, "e", d, 2, 3, 1, false, 0, -1) }, false,
               0);
  x = put_plain(m, SHOAL_OP_GLOBALPOOL, "pool2", x, false, 1, -1);
  put_linear(m, "fc", x, 3, false, 1);
}

/* Depthwise convolutions, which keep hidden units, and one of two groups. */
static void build_groups(shoal_model *m)
{
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, "deep", put_conv(m, "conv1", -1, 6, 3, 1, true, 0, -1));
  n.kernel[0] = 3, n.pad[0] = 2, n.dilation[0] = 2;
  n.out.dim[0] = n.groups = 6;
  n.bias = n.relu = true;
  int x = put_conv(m, "conv2", put(m, n, SHOAL_INIT_UNIFORM), 4, 1, 2, true, 1, -1);
  n = shoal_node_make(SHOAL_OP_CONV, "two", x);
  n.kernel[1] = 3, n.pad[1] = 1;
  n.out.dim[0] = 6;
  n.groups = 2;
  n.unit = 1;
  x = put_conv(m, "conv3", put(m, n, SHOAL_INIT_UNIFORM), 5, 1, 1, true, 2, -1);
  n = shoal_node_make(SHOAL_OP_CONV, "flat", x);
  n.kernel[0] = n.kernel[1] = 3;
  n.out.dim[0] = n.groups = 5;
  n.unit = 2;
  x = put(m, n, SHOAL_INIT_UNIFORM);
  n = shoal_node_make(SHOAL_OP_RESHAPE, "places", x);
  n.shape = SHOAL_SHAPE(5, -1);
  n.unit = 3;
  n = shoal_node_make(SHOAL_OP_TRANSPOSE, "turned", put(m, n, SHOAL_INIT_ZERO));
  n.order[0] = 1;
  n.unit = 3;
  x = put_linear(m, "places.fc", put(m, n, SHOAL_INIT_ZERO), 4, true, 3);
  n = shoal_node_make(SHOAL_OP_PARAMETER, "learned", SHOAL_NO_INPUT);
  n.shape = m->node[x].out;
  n.unit = 3;
  x = put_join(m, SHOAL_OP_ADD, "placed", 2, (const int[]){ x, put(m, n, SHOAL_INIT_UNIFORM) }, false, 3);
  x = put_plain(m, SHOAL_OP_FLATTEN, "flatten", x, false, 3, -1);
  put_linear(m, "fc", x, 3, false, 3);
}

static void build_wide(shoal_model *m)
{
  int x = put_conv(m, "conv", -1, 4, 3, 3, true, 0, -1);
  x = put_plain(m, SHOAL_OP_FLATTEN, "flat", x, false, 0, -1);
  int y = put_plain(m, SHOAL_OP_FLATTEN, "pixels", -1, false, 0, -1);
  y = put_linear(m, "fc1", y, 16, true, 0);
  x = put_add(m, "sum", x, y, false, 0);
  put_linear(m, "fc2", x, 3, false, 1);
}

/* Of tokens: a table, learned places, attention, and a label for each token. */
static void build_tokens(shoal_model *m, bool tied)
{
  shoal_node n = shoal_node_make(SHOAL_OP_EMBEDDING, "table", -1);
  n.rows = m->classes;
  n.out.dim[0] = 5;
  int x = put(m, n, SHOAL_INIT_UNIFORM);
  n = shoal_node_make(SHOAL_OP_PARAMETER, "places", SHOAL_NO_INPUT);
  n.shape = m->node[x].out;
  x = put_add(m, "placed", x, put(m, n, SHOAL_INIT_UNIFORM), false, 0);
  int y = put_plain(m, SHOAL_OP_LAYERNORM, "norm", x, false, 1, -1);
  int q = put_linear(m, "q", y, 6, false, 1), k = put_linear(m, "k", y, 6, false, 1);
  int v = put_linear(m, "v", y, 6, false, 1);
  n = shoal_node_make(SHOAL_OP_ATTENTION, "heads", q);
  n.in[1] = k, n.in[2] = v;
  n.heads = 2;
  n.causal = true;
  n.unit = 1;
  y = put_linear(m, "fc1", put(m, n, SHOAL_INIT_ZERO), 7, true, 1);
  x = put_add(m, "sum", x, put_linear(m, "fc2", y, 5, false, 1), false, 1);
  n = shoal_node_make(SHOAL_OP_LINEAR, "fc", x);
  n.out.dim[0] = m->classes;
  n.bias = true;
  n.tied = tied;
  n.unit = 1;
  put(m, n, SHOAL_INIT_UNIFORM);
}

shoal_model *rig_network(const char *which)
{
  shoal_model *m;
  bool tied = strcmp(which, "tied") == 0, tokens = tied || strcmp(which, "tokens") == 0;
  REQUIRE(shoal_model_create(which, tokens ? &SHOAL_SHAPE(6) : &SHOAL_SHAPE(2, 6, 6), tokens ? 11 : 3, &m) == SHOAL_OK,
          "create");
  if (tokens) build_tokens(m, tied);
  if (strcmp(which, "chain") == 0) build_chain(m);
  if (strcmp(which, "residual") == 0) build_residual(m);
  if (strcmp(which, "forks") == 0) build_forks(m);
  if (strcmp(which, "wide") == 0) build_wide(m);
  if (strcmp(which, "branches") == 0) build_branches(m);
  if (strcmp(which, "groups") == 0) build_groups(m);
  REQUIRE(shoal_model_finish(m) == SHOAL_OK, "finish %s", which);
  return m;
}

/* ---- numbers ---- */

void rig_fill(float *x, size_t n, uint64_t seed)
{
  for (size_t i = 0; i < n; i++) x[i] = 2 * shoal_rng_unit(shoal_rng(seed, SHOAL_RNG_TEST, i, 0).v[0]) - 1;
}

void rig_labels(int32_t *y, size_t n, int64_t classes, uint64_t seed)
{
  for (size_t i = 0; i < n; i++) {
    shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_TEST, i, 1);
    y[i] = (int32_t)shoal_rng_below(&r, (uint64_t)classes);
  }
}

shoal_products rig_products;

void rig_open(rig *r, const char *backend, const shoal_model *m, int64_t batch, shoal_plan_mode mode)
{
  *r = (rig){ .m = m, .batch = batch, .at = { .seed = 3, .step = 5, .slot0 = 11 } };
  const shoal_backend_options options = { .name = backend, .threads = 1, .products = rig_products, .emulate = true };
  REQUIRE(shoal_backend_open_as(&options, &r->b) == SHOAL_OK, "backend %s", backend);
  REQUIRE(shoal_params_create(r->b, m, NULL, &r->params) == SHOAL_OK, "params");
  REQUIRE(shoal_plan_create(r->b, m, batch, mode, &r->plan) == SHOAL_OK, "plan of %s", m->name);
  size_t n = (size_t)(batch * shoal_shape_count(&m->input));
  REQUIRE(SHOAL_ALLOC(n, &r->x) == SHOAL_OK, "x");
  size_t labels = (size_t)(batch * shoal_model_labels(m));
  REQUIRE(SHOAL_ALLOC(labels, &r->y) == SHOAL_OK, "y");
  rig_fill(r->x, n, 100);
  for (size_t i = 0; shoal_model_reads_tokens(m) && i < n; i++) r->x[i] = floorf((r->x[i] + 1) / 2 * (float)m->classes);
  rig_labels(r->y, labels, m->classes, 101);
  CHECK_OK(shoal_model_init(ref_backend(), m, 7, r->params->w, r->params->stats));
  size_t most = SHOAL_MAX(m->weights, m->stats);
  float *move = malloc((most + 1) * sizeof *move);
  rig_fill(move, most, 102);
  for (int k = 0; k < m->params; k++)
    for (size_t i = m->param[k].offset; i < m->param[k].offset + m->param[k].count; i++)
      r->params->w[i] += 0.1f * move[i] * (m->param[k].decay ? r->params->w[i] : 1);
  for (size_t i = 0; i < m->stats; i++) r->params->stats[i] += 0.3f * move[i];
  free(move);
}

void rig_close(rig *r)
{
  shoal_plan_destroy(r->plan);
  shoal_params_destroy(r->b, r->params);
  shoal_backend_close(r->b);
  free(r->x);
  free(r->y);
}

double rig_forward(rig *r)
{
  shoal_score s = { 0 };
  r->params->version++;
  REQUIRE(shoal_plan_forward(r->plan, r->params, &r->at, r->x, r->y, 1.0f / (float)r->batch, &s) == SHOAL_OK,
          "forward");
  return s.loss / (double)(r->batch * shoal_model_labels(r->m));
}

double rig_step(rig *r)
{
  double loss = rig_forward(r);
  REQUIRE(shoal_plan_backward(r->plan, r->params, NULL, NULL) == SHOAL_OK, "backward");
  return loss;
}

float *rig_output(rig *r, int node)
{
  float *out = malloc((size_t)(r->batch * shoal_shape_count(&r->m->node[node].out)) * sizeof *out);
  REQUIRE(shoal_plan_output(r->plan, node, out) == SHOAL_OK, "output of node %d", node);
  return out;
}

double rig_difference(const float *a, const float *b, size_t n)
{
  double worst = 0, largest = 0;
  for (size_t i = 0; i < n; i++) {
    worst = worse(worst, fabs((double)a[i] - b[i]));
    largest = fmax(largest, fabs((double)b[i]));
  }
  return largest > 0 ? worst / largest : worst;
}

/* ---- finite differences ---- */

static double loss_at(rig *r, const float *stats)
{
  memcpy(r->params->stats, stats, r->params->n_stats * sizeof *stats);
  return rig_forward(r);
}

/* Loss with w moved by h along d (NULL: element `at`); *moved: how far, after rounding. */
static double loss_beside(rig *r, const float *stats, const shoal_param *p, const float *d, size_t at, double h,
                          double *moved)
{
  float *w = r->params->w + p->offset, *old = malloc(p->count * sizeof *old);
  memcpy(old, w, p->count * sizeof *w);
  for (size_t i = 0; i < p->count; i++) w[i] = (float)(old[i] + h * (d ? d[i] : i == at));
  double loss = loss_at(r, stats);
  *moved = d ? h : (double)w[at] - old[at];
  memcpy(w, old, p->count * sizeof *w);
  free(old);
  return loss;
}

/* Central and one-sided differences at four steps; the nearest to `want`.  A kink of relu or maxpool spoils the side it
 * lies on; a wrong gradient is wrong everywhere. */
static double slope_error(rig *r, const float *stats, const shoal_param *p, const float *d, size_t at, double want)
{
  double best = INFINITY, here = loss_at(r, stats);
  for (double h = 4e-3; h > 5e-5; h /= 4) {
    double right, left;
    double up = loss_beside(r, stats, p, d, at, h, &right), down = loss_beside(r, stats, p, d, at, -h, &left);
    best = fmin(best, fabs((up - down) / (right - left) - want));
    best = fmin(best, fabs((up - here) / right - want));
    best = fmin(best, fabs((down - here) / left - want));
  }
  return best;
}

static double check_param(rig *r, const shoal_param *p, const float *g, const float *stats, double floor,
                          double tolerance)
{
  double norm = 0, largest = 0, worst = 0;
  size_t top = 0;
  float *d = malloc(p->count * sizeof *d);
  for (size_t i = 0; i < p->count; i++) {
    norm += (double)g[i] * g[i];
    if (fabs((double)g[i]) > largest) largest = fabs((double)g[i]), top = i;
  }
  norm = sqrt(norm);
  double scale = fmax(largest, floor);
  if (norm > floor) {
    for (size_t i = 0; i < p->count; i++) d[i] = (float)(g[i] / norm);
    worst = slope_error(r, stats, p, d, 0, norm) / norm;
    if (!(worst < tolerance)) printf("%s: slope along the gradient off by %g of %g\n", p->name, worst, norm);
  }
  for (size_t k = 0; k < 6; k++) {
    size_t i = k == 0 ? top : (size_t)(k * 7919) % p->count;
    double e = slope_error(r, stats, p, NULL, i, g[i]) / scale;
    if (!(e < tolerance)) printf("%s[%zu]: gradient %g, off by %g of %g\n", p->name, i, (double)g[i], e, scale);
    worst = worse(worst, e);
  }
  free(d);
  return worst;
}

double rig_gradient_error(rig *r, double tolerance)
{
  size_t n_stats = r->params->n_stats;
  float *stats = malloc((n_stats + 1) * sizeof *stats), *g = malloc((r->params->n + 1) * sizeof *g);
  memcpy(stats, r->params->stats, n_stats * sizeof *stats);
  for (size_t i = 0; i < r->params->n; i++) r->params->g[i] = NAN; /* all must be written */
  rig_step(r);
  memcpy(g, r->params->g, r->params->n * sizeof *g);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < r->m->trainable; i++) largest = fmax(largest, fabs((double)g[i]));
  for (size_t i = r->m->trainable; i < r->params->n; i++) CHECK(isnan(g[i]), "a gradient of what is frozen, at %zu", i);
  for (int i = 0; i < r->m->params; i++) {
    const shoal_param *p = &r->m->param[i];
    if (p->frozen) continue;
    double e = check_param(r, p, g + p->offset, stats, 0.05 * largest, tolerance);
    worst = worse(worst, e);
  }
  memcpy(r->params->stats, stats, n_stats * sizeof *stats);
  free(stats);
  free(g);
  return worst;
}
