/* The third cut: a weight as a product A B (methods/ab.md section 4).  With A = W and B = I nothing changes; gradients
 * of both factors agree with differences of the loss and with dA = G B^T, dB = A^T G; wide weights are transposed. */
#include "base/mem.h"
#include "nn_rig.h"

static int find_node(const shoal_model *m, const char *name)
{
  for (int i = 0; i < m->nodes; i++)
    if (strcmp(m->node[i].name, name) == 0) return i;
  REQUIRE(false, "no layer %s", name);
  return -1;
}

static shoal_model *factor(const shoal_model *m, const char *name, int64_t rank)
{
  shoal_model *f = NULL;
  REQUIRE(shoal_model_factor(m, find_node(m, name), rank, &f) == SHOAL_OK, "factor %s", name);
  return f;
}

/* A [m,r] = the weight in 2-D form, transposed if it is wide; B = identity. */
static void set_factors(const shoal_model *full, const float *full_w, const shoal_model *f, int node, float *w)
{
  const shoal_param *p = &full->param[full->node[node].weight[0]];
  const shoal_param *a = &f->param[f->node[node].factor[0]], *b = &f->param[f->node[node].factor[1]];
  int64_t rows = p->shape.dim[0], cols = (int64_t)p->count / rows, r = b->shape.dim[0];
  CHECK(f->node[node].factor_transposed == (rows < cols), "%s: transposed", p->name);
  CHECK(a->shape.dim[0] == SHOAL_MAX(rows, cols) && b->shape.dim[1] == SHOAL_MIN(rows, cols), "%s: shapes", p->name);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      w[a->offset + (size_t)(rows < cols ? j * r + i : i * r + j)] = full_w[p->offset + (size_t)(i * cols + j)];
  for (int64_t i = 0; i < r; i++)
    for (int64_t j = 0; j < r; j++) w[b->offset + (size_t)(i * r + j)] = i == j;
}

static void check_exact(const char *backend, const shoal_model *m, const char *name, double bound)
{
  int node = find_node(m, name);
  const shoal_param *p = &m->param[m->node[node].weight[0]];
  int64_t rows = p->shape.dim[0], cols = (int64_t)p->count / rows, rank = SHOAL_MIN(rows, cols);
  shoal_model *f = factor(m, name, rank);
  CHECK(f->weights == m->weights + (size_t)(rank * rank) && f->params == m->params + 1, "%s: %zu", name, f->weights);
  CHECK(f->param[f->node[node].factor[0]].offset == p->offset, "%s: the factors take the weight's place", name);
  rig full, part;
  rig_open(&full, backend, m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&part, backend, f, 4, SHOAL_PLAN_TRAIN);
  shoal_model_gather(m, f, full.params->w, part.params->w);
  set_factors(m, full.params->w, f, node, part.params->w);
  rig_step(&full);
  rig_step(&part);
  float *a = rig_output(&full, m->nodes - 1), *b = rig_output(&part, f->nodes - 1);
  double error = rig_difference(b, a, (size_t)(4 * m->classes));
  CHECK(error <= bound, "%s on %s: outputs differ by %g", name, backend, error);
  /* B = I: dA is dW in A's orientation */
  const shoal_param *pa = &f->param[f->node[node].factor[0]];
  float *dw = malloc(p->count * sizeof *dw), *other = malloc(m->weights * sizeof *other);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      dw[i * cols + j] = part.params->g[pa->offset + (size_t)(rows < cols ? j * rank + i : i * rank + j)];
  error = rig_difference(dw, full.params->g + p->offset, p->count);
  CHECK(error <= bound, "%s on %s: dA differs by %g", name, backend, error);
  memset(other, 0, m->weights * sizeof *other);
  shoal_model_scatter(m, f, part.params->g, other);
  for (int i = 0; i < m->params; i++) {
    const shoal_param *q = &m->param[i];
    if (q != p) error = fmax(error, rig_difference(other + q->offset, full.params->g + q->offset, q->count));
  }
  CHECK(error <= bound, "%s on %s: another gradient differs by %g", name, backend, error);
  free(a);
  free(b);
  free(dw);
  free(other);
  rig_close(&full);
  rig_close(&part);
  shoal_model_destroy(f);
}

/* Products are made again when the weights change, and only then. */
static void check_version(const shoal_model *m)
{
  shoal_model *f = factor(m, "fc1", 2);
  const shoal_param *a = &f->param[f->node[find_node(f, "fc1")].factor[0]];
  rig r;
  rig_open(&r, "ref", f, 2, SHOAL_PLAN_EVAL);
  double before = rig_forward(&r);
  shoal_score s = { 0 };
  for (size_t i = 0; i < a->count; i++) r.params->w[a->offset + i] *= 2;
  CHECK_OK(shoal_plan_forward(r.plan, r.params, &r.at, r.x, r.y, 0, &s));
  CHECK(s.loss / 2 == before, "a product was made without a new version");
  CHECK(rig_forward(&r) != before, "a new version was not seen");
  rig_close(&r);
  shoal_model_destroy(f);
}

/* The variance of A B as drawn is that of the weight it stands for. */
static void check_start(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[96,64]", &SHOAL_SHAPE(80), 10), *f = factor(m, "fc2", 24);
  float *w = malloc(f->weights * sizeof *w);
  shoal_model_init(f, 5, w, NULL);
  const shoal_node *n = &f->node[find_node(f, "fc2")];
  const shoal_param *a = &f->param[n->factor[0]], *b = &f->param[n->factor[1]];
  double square = 0, want = 1.0 / 3 / 96;
  int64_t rows = a->shape.dim[0], cols = b->shape.dim[1];
  CHECK(rows == 96 && cols == 64, "%lld x %lld", (long long)rows, (long long)cols);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < 24; k++)
        sum += (double)w[a->offset + (size_t)(i * 24 + k)] * w[b->offset + (size_t)(k * cols + j)];
      square += sum * sum;
    }
  square /= (double)(rows * cols);
  CHECK(fabs(square - want) < 0.15 * want, "variance %g, want %g", square, want);
  CHECK(a->full_id == -1 && a->decay && b->decay, "factors");
  free(w);
  shoal_model_destroy(m);
  shoal_model_destroy(f);
}

static void check_gradients(const shoal_model *m, const char *first, const char *second, int64_t rank)
{
  shoal_model *f = factor(m, first, rank), *g = factor(f, second, rank);
  rig r;
  rig_open(&r, "ref", g, 4, SHOAL_PLAN_TRAIN);
  char what[160];
  snprintf(what, sizeof what, "%s with %s and %s of rank %lld", m->name, first, second, (long long)rank);
  rig_check_gradients(&r, what);
  rig_close(&r);
  shoal_model_destroy(f);
  shoal_model_destroy(g);
}

/* For any A and B: with W = A B in the full model, dA = G B^T and dB = A^T G of its G = dW.  No kink of relu disturbs
 * this comparison. */
static void check_formula(const shoal_model *m, const char *name, int64_t rank)
{
  int node = find_node(m, name);
  shoal_model *f = factor(m, name, rank);
  const shoal_param *p = &m->param[m->node[node].weight[0]];
  const shoal_param *a = &f->param[f->node[node].factor[0]], *b = &f->param[f->node[node].factor[1]];
  int64_t rows = a->shape.dim[0], cols = b->shape.dim[1];
  bool transposed = f->node[node].factor_transposed;
  rig full, part;
  rig_open(&full, "ref", m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&part, "ref", f, 4, SHOAL_PLAN_TRAIN);
  shoal_model_gather(m, f, full.params->w, part.params->w);
  const float *wa = part.params->w + a->offset, *wb = part.params->w + b->offset;
#define AT(i, j) ((size_t)(transposed ? (j)*rows + (i) : (i)*cols + (j)))
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < rank; k++) sum += (double)wa[i * rank + k] * wb[k * cols + j];
      full.params->w[p->offset + AT(i, j)] = (float)sum;
    }
  CHECK(rig_step(&full) == rig_step(&part), "%s: another loss", name);
  const float *g = full.params->g + p->offset;
  double worst = 0, largest = 0;
  for (int64_t k = 0; k < rank; k++) {
    for (int64_t i = 0; i < rows; i++) {
      double sum = 0;
      for (int64_t j = 0; j < cols; j++) sum += (double)g[AT(i, j)] * wb[k * cols + j];
      worst = fmax(worst, fabs(sum - part.params->g[a->offset + (size_t)(i * rank + k)]));
      largest = fmax(largest, fabs(sum));
    }
    for (int64_t j = 0; j < cols; j++) {
      double sum = 0;
      for (int64_t i = 0; i < rows; i++) sum += (double)wa[i * rank + k] * g[AT(i, j)];
      worst = fmax(worst, fabs(sum - part.params->g[b->offset + (size_t)(k * cols + j)]));
      largest = fmax(largest, fabs(sum));
    }
  }
#undef AT
  CHECK(worst < 1e-6 * largest, "%s: factors' gradients off by %g of %g", name, worst, largest);
  rig_close(&full);
  rig_close(&part);
  shoal_model_destroy(f);
}

static void check_refusals(const shoal_model *m)
{
  shoal_model *none = NULL;
  shoal_quiet_errors(1);
  CHECK(shoal_model_factor(m, find_node(m, "bn2"), 1, &none) == SHOAL_ERR_ARG, "a norm");
  CHECK(shoal_model_factor(m, find_node(m, "fc1"), 0, &none) == SHOAL_ERR_ARG, "rank 0");
  CHECK(shoal_model_factor(m, find_node(m, "fc1"), 7, &none) == SHOAL_ERR_ARG && !none, "rank 7 of 6 x 45");
  shoal_model *f = factor(m, "fc1", 2);
  CHECK(shoal_model_factor(f, find_node(f, "fc1"), 2, &none) == SHOAL_ERR_ARG, "factored twice");
  const int64_t units[] = { 1 };
  const int64_t *keep[] = { units, NULL, NULL };
  CHECK(shoal_model_narrow(f, (const int64_t *const[]){ NULL, units, NULL }, (const int64_t[]){ 0, 1, 0 }, NULL,
                           &none) == SHOAL_ERR_UNSUPPORTED,
        "narrowing the inputs of a product");
  shoal_model *part = NULL; /* elsewhere it may be narrow, and be sliced */
  CHECK_OK(shoal_model_narrow(f, keep, (const int64_t[]){ 1, 0, 0 }, NULL, &part));
  shoal_model_destroy(part);
  CHECK_OK(shoal_model_slice(f, 2, 4, NULL, &part));
  CHECK(part->node[0].kind == SHOAL_OP_FLATTEN && part->node[1].rank == 2, "slice of a factored model");
  shoal_model_destroy(part);
  shoal_quiet_errors(-1);
  shoal_model_destroy(f);
}

int main(void)
{
  shoal_model *m = rig_network("chain");
  check_exact("ref", m, "fc1", 0);   /* [6, 45], transposed */
  check_exact("ref", m, "conv1", 0); /* [4, 18], transposed */
  check_exact("ref", m, "fc2", 0);   /* [3, 6], transposed */
  check_gradients(m, "conv2", "fc1", 3);
  check_gradients(m, "fc2", "conv1", 2);
  check_version(m);
  check_refusals(m);
  shoal_model_destroy(m);
  m = rig_model("mlp", "model.widths=[12,5]", &SHOAL_SHAPE(7), 6);
  check_exact("ref", m, "fc1", 0); /* [12, 7], as it is */
  check_gradients(m, "fc1", "fc3", 4);
  check_formula(m, "fc1", 3);
  shoal_model_destroy(m);
  m = rig_network("residual");
  check_exact("ref", m, "b.down", 0); /* 1x1 convolution [6, 4] */
  check_formula(m, "b.down", 2);
  check_formula(m, "a.conv1", 2);
  check_formula(m, "fc", 1);
  shoal_model_destroy(m);
  m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 32, 32), 10);
  check_exact("cpu", m, "layer2.0.conv1", 1e-4);
  check_exact("cpu", m, "fc", 1e-4);
  shoal_model_destroy(m);
  check_start();
  return check_done();
}
