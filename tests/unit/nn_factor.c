/* The third cut: a weight as a product, multiplied out or run as a chain of two layers.  With
 * A = W and B = I nothing changes; gradients of the factors agree with differences of the loss and with dA = G B^T,
 * dB = A^T G; what is frozen gets no gradient and lies behind the rest. */
#include "base/mem.h"
#include "nn_rig.h"

static int find_node(const shoal_model *m, const char *name)
{
  for (int i = 0; i < m->nodes; i++)
    if (strcmp(m->node[i].name, name) == 0) return i;
  REQUIRE(false, "no layer %s", name);
  return -1;
}

/* Factors the layers of `names` (separated by spaces), every second one the other way. */
static shoal_model *factor(const shoal_model *m, const char *names, int64_t rank, bool chain,
                           shoal_factor_training train)
{
  shoal_factoring *how = calloc((size_t)m->nodes, sizeof *how);
  char text[128];
  snprintf(text, sizeof text, "%s", names);
  for (char *save, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save), chain = !chain)
    how[find_node(m, one)] = (shoal_factoring){ rank, chain };
  shoal_model *f = NULL;
  REQUIRE(shoal_model_factor(m, how, train, &f) == SHOAL_OK, "factor %s", names);
  free(how);
  return f;
}

static shoal_product product_of(const shoal_model *m, const shoal_model *f)
{
  shoal_product p[4];
  REQUIRE(shoal_model_products(m, f, p) == 1, "products");
  return p[0];
}

/* The factor of the longer side = the weight, the other the identity. */
static void set_factors(const shoal_product *p, const float *full_w, float *w)
{
  const shoal_param *a = p->rows >= p->cols ? p->left : p->right, *b = p->rows >= p->cols ? p->right : p->left;
  CHECK_EQ(a->factor, 'a', "%s", p->weight->name);
  CHECK_EQ(b->factor, 'b', "%s", p->weight->name);
  CHECK_EQ(p->rank, SHOAL_MIN(p->rows, p->cols), "%s", p->weight->name);
  memcpy(w + a->offset, full_w + p->weight->offset, p->weight->count * sizeof *w);
  for (int64_t i = 0; i < p->rank; i++)
    for (int64_t j = 0; j < p->rank; j++) w[b->offset + (size_t)(i * p->rank + j)] = i == j;
}

/* Gradients of everything but the weight that is a product, against the largest of the whole model: those of a bias in
 * front of batch norm are nothing but rounding. */
static void check_others(const shoal_model *m, const shoal_model *f, const shoal_param *w, const float *full_g,
                         const float *part_g, double bound)
{
  float *g = calloc(m->weights, sizeof *g);
  double largest = 0;
  CHECK_OK(shoal_model_scatter(ref_backend(), m, f, part_g, g));
  for (size_t k = 0; k < m->weights; k++) largest = fmax(largest, fabs((double)full_g[k]));
  for (size_t k = 0; k < m->weights; k++)
    CHECK((k >= w->offset && k < w->offset + w->count) || fabs((double)full_g[k] - g[k]) <= bound * largest,
          "%s: gradient %zu is %g, want %g", w->name, k, g[k], full_g[k]);
  free(g);
}

static void check_exact(const char *backend, const shoal_model *m, const char *name, bool chain, double bound)
{
  const shoal_param *w = &m->param[m->node[find_node(m, name)].weight[0]];
  int64_t rows = w->shape.dim[0], rank = SHOAL_MIN(rows, (int64_t)w->count / rows);
  shoal_model *f = factor(m, name, rank, chain, SHOAL_TRAIN_BOTH);
  shoal_product p = product_of(m, f);
  CHECK(p.weight == w, "%s", name);
  CHECK_EQ(f->weights, m->weights + (size_t)(rank * rank), "%s", name);
  CHECK_EQ(f->params, m->params + 1, "%s", name);
  CHECK_EQ(f->trainable, f->weights, "%s", name);
  CHECK_EQ(SHOAL_MIN(p.left->offset, p.right->offset), w->offset, "%s: the factors take the weight's place", name);
  rig full, part;
  rig_open(&full, backend, m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&part, backend, f, 4, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_model_gather(ref_backend(), m, f, full.params->w, part.params->w));
  set_factors(&p, full.params->w, part.params->w);
  rig_step(&full);
  rig_step(&part);
  float *a = rig_output(&full, m->nodes - 1), *b = rig_output(&part, f->nodes - 1);
  double error = rig_difference(b, a, (size_t)(4 * m->classes));
  CHECK_LE(error, bound, "%s on %s", name, backend);
  /* B = I: dA is dW */
  const shoal_param *pa = p.left->factor == 'a' ? p.left : p.right;
  error = rig_difference(part.params->g + pa->offset, full.params->g + w->offset, w->count);
  CHECK_LE(error, bound, "%s on %s", name, backend);
  check_others(m, f, w, full.params->g, part.params->g, bound);
  free(a);
  free(b);
  rig_close(&full);
  rig_close(&part);
  shoal_model_destroy(f);
}

/* Products are made again when the weights change, and only then; they stand where the caller has room for them. */
static void check_version(const shoal_model *m)
{
  shoal_model *f = factor(m, "fc1", 2, false, SHOAL_TRAIN_BOTH);
  shoal_product p = product_of(m, f);
  rig r;
  rig_open(&r, "ref", f, 2, SHOAL_PLAN_EVAL);
  CHECK_EQ(f->products, m->weights, "room for products");
  double before = rig_forward(&r);
  shoal_score s = { 0 };
  for (size_t i = 0; i < p.left->count; i++) r.params->w[p.left->offset + i] *= 2;
  CHECK_OK(shoal_plan_forward(r.plan, r.params, &r.at, r.x, r.y, 0, &s));
  CHECK_EQ(s.loss / 2, before, "a product was made without a new version");
  CHECK_NE(rig_forward(&r), before, "a new version was not seen");
  for (int64_t i = 0; i < p.rows; i++)
    for (int64_t j = 0; j < p.cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < 2; k++)
        sum += (double)r.params->w[p.left->offset + (size_t)(i * 2 + k)] *
               r.params->w[p.right->offset + (size_t)(k * p.cols + j)];
      CHECK_NEAR(sum, r.params->products[p.weight->offset + (size_t)(i * p.cols + j)], 1e-6);
    }
  float *room = r.params->products;
  r.params->products = NULL;
  CHECK_STATUS(shoal_plan_forward(r.plan, r.params, &r.at, r.x, r.y, 0, &s), SHOAL_ERR_ARG, "no room for products");
  r.params->products = room;
  rig_close(&r);
  shoal_model_destroy(f);
}

/* The variance of A B as drawn is that of the weight it stands for. */
static void check_start(bool chain)
{
  shoal_model *m = rig_model("mlp", "model.widths=[96,64]", &SHOAL_SHAPE(80), 10);
  shoal_model *f = factor(m, "fc2", 24, chain, SHOAL_TRAIN_BOTH);
  float *w = malloc(f->weights * sizeof *w);
  CHECK_OK(shoal_model_init(ref_backend(), f, 5, w, NULL));
  shoal_product p = product_of(m, f);
  double square = 0, want = 1.0 / 3 / 96;
  CHECK_EQ(p.rows, 64);
  CHECK_EQ(p.cols, 96);
  CHECK_EQ(p.rank, 24);
  for (int64_t i = 0; i < p.rows; i++)
    for (int64_t j = 0; j < p.cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < 24; k++)
        sum += (double)w[p.left->offset + (size_t)(i * 24 + k)] * w[p.right->offset + (size_t)(k * p.cols + j)];
      square += sum * sum;
    }
  square /= (double)(p.rows * p.cols);
  CHECK_LT(fabs(square - want), 0.15 * want, "variance %g, want %g", square, want);
  CHECK_EQ(p.left->full_id, -1);
  CHECK(p.left->decay);
  CHECK(p.right->decay);
  CHECK_EQ(p.left->factor_of, m->node[find_node(m, "fc2")].weight[0]);
  free(w);
  shoal_model_destroy(m);
  shoal_model_destroy(f);
}

/* Announcements cover what is trained once, and nothing else. */
static void check_ranges(const shoal_model *f, const shoal_plan *plan)
{
  const shoal_range *range;
  size_t n = shoal_plan_ranges(plan, &range), sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += range[i].count;
    CHECK_LE(range[i].offset + range[i].count, f->trainable, "a range beyond what is trained");
    for (size_t j = 0; j < i; j++)
      CHECK(range[i].offset >= range[j].offset + range[j].count || range[j].offset >= range[i].offset + range[i].count,
            "ranges overlap");
  }
  CHECK_EQ(sum, f->trainable);
  size_t frozen = 0;
  for (int i = 0; i < f->params; i++) {
    CHECK_EQ(f->param[i].frozen, f->param[i].offset >= f->trainable, "%s", f->param[i].name);
    frozen += f->param[i].frozen ? f->param[i].count : 0;
  }
  CHECK_EQ(f->trainable + frozen, f->weights, "%zu frozen", frozen);
}

static void check_gradients(const shoal_model *m, const char *names, int64_t rank)
{
  for (int k = 0; k < 6; k++) {
    shoal_factor_training train = (shoal_factor_training)(k / 2);
    shoal_model *f = factor(m, names, rank, k % 2, train);
    rig r;
    rig_open(&r, "ref", f, 4, SHOAL_PLAN_TRAIN);
    char what[160];
    snprintf(what, sizeof what, "%s with %s of rank %lld, training %d, %s first", m->name, names, (long long)rank,
             train, k % 2 ? "chain" : "product");
    check_ranges(f, r.plan);
    rig_check_gradients(&r, what);
    rig_close(&r);
    shoal_model_destroy(f);
  }
}

/* For any A and B: with W = left right in the full model, the factors' gradients follow from its G = dW.  On several
 * backends and both ways; no kink of relu disturbs this comparison. */
static void check_formula(const char *backend, const shoal_model *m, const char *name, int64_t rank, bool chain,
                          shoal_factor_training train)
{
  shoal_model *f = factor(m, name, rank, chain, train);
  shoal_product p = product_of(m, f);
  rig full, part;
  rig_open(&full, backend, m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&part, backend, f, 4, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_model_gather(ref_backend(), m, f, full.params->w, part.params->w));
  const float *left = part.params->w + p.left->offset, *right = part.params->w + p.right->offset;
  for (int64_t i = 0; i < p.rows; i++)
    for (int64_t j = 0; j < p.cols; j++) {
      double sum = 0;
      for (int64_t k = 0; k < rank; k++) sum += (double)left[i * rank + k] * right[k * p.cols + j];
      full.params->w[p.weight->offset + (size_t)(i * p.cols + j)] = (float)sum;
    }
  CHECK_NEAR(rig_step(&full), rig_step(&part), 1e-5, "%s: another loss", name);
  const float *g = full.params->g + p.weight->offset;
  double worst = 0, largest = 0;
  for (int64_t k = 0; k < rank; k++) {
    for (int64_t i = 0; !p.left->frozen && i < p.rows; i++) {
      double sum = 0;
      for (int64_t j = 0; j < p.cols; j++) sum += (double)g[i * p.cols + j] * right[k * p.cols + j];
      worst = worse(worst, fabs(sum - part.params->g[p.left->offset + (size_t)(i * rank + k)]));
      largest = fmax(largest, fabs(sum));
    }
    for (int64_t j = 0; !p.right->frozen && j < p.cols; j++) {
      double sum = 0;
      for (int64_t i = 0; i < p.rows; i++) sum += (double)left[i * rank + k] * g[i * p.cols + j];
      worst = worse(worst, fabs(sum - part.params->g[p.right->offset + (size_t)(k * p.cols + j)]));
      largest = fmax(largest, fabs(sum));
    }
  }
  double bound = strcmp(backend, "ref") == 0 ? 2e-6 : 1e-4;
  CHECK_LT(worst, bound * largest, "%s %s on %s: gradients of the factors", name, chain ? "chain" : "product", backend);
  check_others(m, f, p.weight, full.params->g, part.params->g, bound);
  rig_close(&full);
  rig_close(&part);
  shoal_model_destroy(f);
}

static void check_both_ways(const char *backend, const shoal_model *m, const char *name, int64_t rank)
{
  for (int k = 0; k < 6; k++) check_formula(backend, m, name, rank, k % 2, (shoal_factor_training)(k / 2));
}

/* The count of operations: against the operations' own count forward, by hand for the rest; and what it decides. */
static void check_cost(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[256,256,256]", &SHOAL_SHAPE(64), 10);
  int fc2 = find_node(m, "fc2"), fc1 = find_node(m, "fc1");
  shoal_model *f = factor(m, "fc2", 16, true, SHOAL_TRAIN_A);
  double own = shoal_model_macs(f) - shoal_model_macs(m) + 256 * 256;
  CHECK_EQ(own, 16 * (256 + 256));
  shoal_factoring chain = { 16, true }, product = { 16, false };
  double x = 32, sq = 256 * 256;
  CHECK_EQ(shoal_factor_macs(m, fc2, 32, product, SHOAL_TRAIN_A), 3 * x * sq + 2 * sq * 16);
  CHECK_EQ(shoal_factor_macs(m, fc2, 32, product, SHOAL_TRAIN_BOTH), 3 * x * sq + 3 * sq * 16, "product, both");
  CHECK_EQ(shoal_factor_macs(m, fc2, 32, chain, SHOAL_TRAIN_A), x * 16 * (512 + 512 + 256));
  /* fc1 [256, 64]: nobody wants its dx; A is the left factor */
  CHECK_EQ(shoal_factor_macs(m, fc1, 32, chain, SHOAL_TRAIN_A), x * 16 * (320 + 256), "first layer, A");
  CHECK_EQ(shoal_factor_macs(m, fc1, 32, chain, SHOAL_TRAIN_B), x * 16 * (320 + 256 + 64), "first layer, B");
  shoal_model_destroy(f);
  shoal_model_destroy(m);
  m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 32, 32), 10);
  int conv = find_node(m, "layer2.0.conv1"); /* [32, 16, 3, 3], stride 2, 16 x 16 positions */
  f = factor(m, "layer2.0.conv1", 8, true, SHOAL_TRAIN_A);
  own = shoal_model_macs(f) - shoal_model_macs(m) + 256.0 * 32 * 144;
  CHECK_EQ(own, 256.0 * 8 * (32 + 144));
  x = 4 * 256; /* A is the right factor: 144 > 32 */
  CHECK_EQ(shoal_factor_macs(m, conv, 4, chain, SHOAL_TRAIN_A), x * 16 * (2 * (32 + 144) + 144));
  CHECK_EQ(shoal_factor_macs(m, conv, 4, chain, SHOAL_TRAIN_B), x * 16 * (2 * (32 + 144) + 32));
  chain.rank = product.rank = 32; /* full rank: the product is cheaper */
  CHECK_LT(shoal_factor_macs(m, conv, 4, product, SHOAL_TRAIN_A), shoal_factor_macs(m, conv, 4, chain, SHOAL_TRAIN_A));
  chain.rank = product.rank = 4;
  CHECK_GT(shoal_factor_macs(m, conv, 4, product, SHOAL_TRAIN_A), shoal_factor_macs(m, conv, 4, chain, SHOAL_TRAIN_A));
  shoal_model_destroy(f);
  shoal_model_destroy(m);
}

static shoal_status try_factor(const shoal_model *m, const char *name, int64_t rank)
{
  shoal_factoring how[32] = { [0] = { 0 } };
  shoal_model *none = NULL;
  how[find_node(m, name)].rank = rank;
  shoal_status st = shoal_model_factor(m, how, SHOAL_TRAIN_BOTH, &none);
  CHECK_EQ(st == SHOAL_OK, none != NULL, "%s", name);
  shoal_model_destroy(none);
  return st;
}

static void check_refusals(const shoal_model *m)
{
  shoal_model *none = NULL;
  CHECK_STATUS(try_factor(m, "bn2", 1), SHOAL_ERR_ARG, "a norm");
  CHECK_OK(try_factor(m, "fc1", 0), "nothing to do");
  CHECK_STATUS(try_factor(m, "fc1", -1), SHOAL_ERR_ARG, "rank -1");
  CHECK_STATUS(try_factor(m, "fc1", 7), SHOAL_ERR_ARG, "rank 7 of 6 x 45");
  shoal_model *f = factor(m, "fc1", 2, false, SHOAL_TRAIN_BOTH);
  CHECK_STATUS(try_factor(f, "fc1", 2), SHOAL_ERR_ARG, "factored twice");
  const int64_t units[] = { 1 };
  const int64_t *keep[] = { units, NULL, NULL };
  CHECK_STATUS(
      shoal_model_narrow(f, (const int64_t *const[]){ NULL, units, NULL }, (const int64_t[]){ 0, 1, 0 }, NULL, &none),
      SHOAL_ERR_UNSUPPORTED, "narrowing the inputs of a product");
  shoal_model *part = NULL; /* elsewhere it may be narrow, and be sliced */
  CHECK_OK(shoal_model_narrow(f, keep, (const int64_t[]){ 1, 0, 0 }, NULL, &part));
  shoal_model_destroy(part);
  CHECK_OK(shoal_model_slice(f, 2, 4, NULL, &part));
  CHECK_EQ(part->node[0].kind, SHOAL_OP_FLATTEN, "slice of a factored model");
  CHECK_EQ(part->node[1].rank, 2);
  CHECK_EQ(part->products, f->products);
  shoal_model_destroy(part);
  shoal_model_destroy(f);
}

int main(void)
{
  shoal_model *m = rig_network("chain");
  for (int chain = 0; chain < 2; chain++) {
    double bound = chain ? 4e-6 : 0;              /* a chain rounds once more on the way */
    check_exact("ref", m, "fc1", chain, bound);   /* [6, 45], A is the right factor */
    check_exact("ref", m, "conv1", chain, bound); /* [4, 18] */
    check_exact("ref", m, "fc2", chain, bound);   /* [3, 6] */
  }
  check_gradients(m, "conv2 fc1", 3);
  check_gradients(m, "fc2 conv2", 2);
  check_version(m);
  check_refusals(m);
  shoal_model_destroy(m);
  m = rig_model("mlp", "model.widths=[12,5]", &SHOAL_SHAPE(7), 6);
  check_exact("ref", m, "fc1", false, 0); /* [12, 7], A is the left factor */
  check_exact("ref", m, "fc1", true, 4e-6);
  check_gradients(m, "fc1 fc3", 4);
  check_both_ways("ref", m, "fc1", 3);
  shoal_model_destroy(m);
  m = rig_network("groups");
  check_exact("ref", m, "two", false, 0); /* [6, 6], two groups */
  for (int t = 0; t < 3; t++) check_formula("ref", m, "two", 2, false, (shoal_factor_training)t);
  shoal_factoring how[16] = { { 0 } };
  how[3] = (shoal_factoring){ 2, true };
  shoal_model *two = NULL;
  CHECK_STATUS(shoal_model_factor(m, how, SHOAL_TRAIN_BOTH, &two), SHOAL_ERR_ARG);
  CHECK_HAS(check_error(), "layer two has 2 groups and cannot become two layers");
  CHECK(isinf(shoal_factor_macs(m, 3, 4, how[3], SHOAL_TRAIN_BOTH)), "the dearer way is chosen");
  shoal_model_destroy(m);
  m = rig_network("tokens");
  check_exact("ref", m, "fc1", false, 1e-6);
  check_exact("ref", m, "fc", true, 4e-6);
  shoal_model_destroy(m);
  m = rig_network("residual");
  check_exact("ref", m, "b.down", false, 0); /* 1x1 convolution [6, 4] */
  check_exact("ref", m, "b.down", true, 4e-6);
  check_both_ways("ref", m, "b.down", 2);
  check_both_ways("ref", m, "a.conv1", 2);
  check_both_ways("ref", m, "b.conv1", 3); /* stride 2 */
  check_both_ways("ref", m, "fc", 1);
  check_both_ways("cpu", m, "b.conv1", 3);
  shoal_model_destroy(m);
  m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 32, 32), 10);
  for (int chain = 0; chain < 2; chain++) {
    check_exact("cpu", m, "layer2.0.conv1", chain, 1e-4);
    check_exact("cpu", m, "fc", chain, 1e-4);
  }
  shoal_model_destroy(m);
  m = rig_model("vgg16", "model.width=0.1 model.batch_norm=false", &SHOAL_SHAPE(3, 32, 32), 10);
  check_both_ways("cpu", m, "features.7", 6); /* with bias and relu */
  check_formula("cpu", m, "classifier", 4, true, SHOAL_TRAIN_A);
  shoal_model_destroy(m);
  check_start(false);
  check_start(true);
  check_cost();
  return check_done();
}
