/* Products, loss and flat vectors against double-precision formulas written out again here. */
#include "base/mem.h"
#include "base/rng.h"
#include "tensor_rig.h"
#include <stdlib.h>
#include <string.h>

static float full(uint64_t seed, int64_t i)
{
  return 2 * shoal_rng_unit(shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)i, 0).v[0]) - 1;
}

static float grid(uint64_t seed, int64_t i)
{
  return (float)(shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)i, 0).v[0] % 256) / 128 - 1;
}

static float *vector(int64_t n, bool on_grid, uint64_t seed)
{
  float *p = floats(n);
  for (int64_t i = 0; i < n; i++) p[i] = on_grid ? grid(seed, i) : full(seed, i);
  return p;
}

/* --- gemm --- */

typedef struct {
  bool ta, tb, on_grid;
  int64_t m, n, k, gap; /* gap: how much longer the leading dimensions are than needed */
  float alpha, beta;
} product;

/* Where C may be written it must be right; the gap behind each row must not change, and beta 0 must not read NaN. */
static void check_gemm(shoal_backend *b, const product *p)
{
  int64_t lda = (p->ta ? p->m : p->k) + p->gap, ldb = (p->tb ? p->k : p->n) + p->gap, ldc = p->n + p->gap;
  float *a = vector((p->ta ? p->k : p->m) * lda, p->on_grid, 1), *c = vector(p->m * ldc, p->on_grid, 3);
  float *bm = vector((p->tb ? p->n : p->k) * ldb, p->on_grid, 2), *old = floats(p->m * ldc);
  for (int64_t i = 0; i < p->m && p->beta == 0; i++)
    for (int64_t j = 0; j < p->n; j++) c[i * ldc + j] = NAN;
  memcpy(old, c, (size_t)(p->m * ldc) * sizeof(float));
  CHECK_OK(b->ops->gemm(b, p->ta, p->tb, p->m, p->n, p->k, p->alpha, a, lda, bm, ldb, p->beta, c, ldc));
  double worst = 0, limit = p->on_grid ? 0 : (4 + 2 * sqrt((double)p->k)) * 0x1p-24 * sqrt((double)p->k);
  bool gap_kept = true;
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < p->k; l++)
        sum += (double)a[p->ta ? l * lda + i : i * lda + l] * bm[p->tb ? j * ldb + l : l * ldb + j];
      double want = p->alpha * sum + (p->beta == 0 ? 0 : (double)p->beta * old[i * ldc + j]);
      double error = fabs(c[i * ldc + j] - want);
      worst = error > worst || isnan(error) ? error : worst;
    }
    gap_kept = gap_kept && same_bits(c + i * ldc + p->n, old + i * ldc + p->n, p->gap);
  }
  CHECK_LE(worst, limit, "gemm %d%d %dx%dx%d gap %d alpha %g beta %g", p->ta, p->tb, (int)p->m, (int)p->n, (int)p->k,
           (int)p->gap, (double)p->alpha, (double)p->beta);
  CHECK(gap_kept, "gemm wrote between the rows of C");
  free(a);
  free(bm);
  free(c);
  free(old);
}

/* The same bits as the sum in double from the first term to the last, which is the same sum for any threads and processor. */
static void check_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k)
{
  float *a = vector(m * k, false, 1), *bm = vector(k * n, false, 2), *c = floats(m * n), *want = floats(m * n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      c[i * n + j] = NAN;
      for (int64_t l = 0; l < k; l++) sum += (double)a[i * k + l] * bm[l * n + j];
      want[i * n + j] = (float)sum;
    }
  CHECK_OK(b->ops->multiply(b, m, n, k, a, bm, c));
  CHECK(same_bits(c, want, m * n), "multiply %dx%dx%d", (int)m, (int)n, (int)k);
  free(a);
  free(bm);
  free(c);
  free(want);
}

int test_multiply(shoal_backend *b)
{
  static const int64_t sizes[][3] = { { 1, 1, 1 },    { 3, 5, 7 },     { 17, 10, 33 },  { 4, 256, 64 },
                                      { 65, 257, 3 }, { 7, 600, 100 }, { 130, 300, 90 } };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++) check_multiply(b, sizes[s][0], sizes[s][1], sizes[s][2]);
  return check_failures;
}

int test_gemm(shoal_backend *b)
{
  static const int64_t sizes[][3] = { { 1, 1, 1 },  { 3, 5, 7 },    { 17, 10, 33 },  { 64, 16, 64 }, { 1, 33, 9 },
                                      { 31, 1, 5 }, { 65, 129, 3 }, { 7, 200, 100 }, { 130, 70, 90 } };
  static const float factors[][2] = { { 1, 0 }, { 1, 1 }, { 0.5f, -2 } };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++)
    for (size_t f = 0; f < SHOAL_COUNT(factors); f++)
      for (int bits = 0; bits < 16; bits++) {
        product p = { .ta = bits & 1,
                      .tb = bits & 2,
                      .on_grid = bits & 4,
                      .gap = bits & 8 ? 3 : 0,
                      .m = sizes[s][0],
                      .n = sizes[s][1],
                      .k = sizes[s][2],
                      .alpha = factors[f][0],
                      .beta = factors[f][1] };
        check_gemm(b, &p);
      }
  return check_failures;
}

/* --- softmax and cross-entropy --- */

typedef struct {
  int64_t rows, classes;
  double smoothing, scale, magnitude;
  bool in_place, weighted;
} loss_case;

static int32_t label_of(int64_t row, int64_t classes)
{
  return row % 5 == 3 ? -1 - (int32_t)row : (int32_t)((row * 7 + 1) % classes);
}

/* One of them is 0. */
static float weight_of(int64_t class)
{
  return (float)(class * 5 % 7) / 4;
}

/* One row in long double, by way of probabilities. */
static double reference_row(const float *x, int64_t classes, int32_t label, const loss_case *c, double *gradient)
{
  const long double weight = c->weighted ? (long double)weight_of(label) : 1;
  long double largest = x[0], sum = 0, loss = 0;
  for (int64_t j = 1; j < classes; j++) largest = x[j] > largest ? x[j] : largest;
  for (int64_t j = 0; j < classes; j++) sum += expl(x[j] - largest);
  for (int64_t j = 0; j < classes; j++) {
    long double target = (j == label ? 1 - c->smoothing : 0) + c->smoothing / (long double)classes;
    long double log_p = x[j] - largest - logl(sum);
    if (target > 0) loss -= weight * target * log_p;
    gradient[j] = (double)(weight * c->scale * (expl(log_p) - target));
  }
  return (double)loss;
}

static void check_loss(shoal_backend *b, const loss_case *c)
{
  int64_t n = c->rows * c->classes, hits = 0, counted = 0;
  float *x = vector(n, false, 5), *dx = c->in_place ? x : floats(n);
  int32_t *labels = calloc((size_t)c->rows, sizeof *labels);
  float *weights = c->weighted ? floats(c->classes) : NULL;
  double *want = calloc((size_t)n, sizeof *want), total = 0, worst = 0;
  const float scale = (float)c->scale;
  shoal_loss loss = { .loss = -1 }, loss_only = { .loss = -1 };
  REQUIRE(labels, "out of memory");
  REQUIRE(want, "out of memory");
  for (int64_t i = 0; i < n; i++) x[i] *= (float)c->magnitude;
  for (int64_t k = 0; weights && k < c->classes; k++) weights[k] = weight_of(k);
  for (int64_t r = 0; r < c->rows; r++) {
    const float *row = x + r * c->classes;
    int64_t best = 0;
    labels[r] = label_of(r, c->classes);
    if (labels[r] < 0) continue;
    counted++;
    for (int64_t j = 1; j < c->classes; j++) best = row[j] > row[best] ? j : best;
    hits += best == labels[r];
    total += reference_row(row, c->classes, labels[r], c, want + r * c->classes);
  }
  CHECK_OK(b->ops->softmax_xent(b, c->rows, c->classes, x, labels, weights, (float)c->smoothing, &scale, false, NULL,
                                &loss_only));
  if (!c->in_place) memset(dx, 0xff, (size_t)n * sizeof(float));
  CHECK_OK(
      b->ops->softmax_xent(b, c->rows, c->classes, x, labels, weights, (float)c->smoothing, &scale, true, dx, &loss));
  for (int64_t i = 0; i < n; i++) {
    double error = fabs(dx[i] - want[i]);
    worst = error > worst || isnan(error) ? error : worst;
  }
  CHECK_NEAR(loss.loss, total, 1e-6 * (1 + total), "%dx%d x%g", (int)c->rows, (int)c->classes, c->magnitude);
  CHECK_EQ(loss.loss, loss_only.loss, "the loss depends on whether gradients are wanted");
  CHECK_LE(worst, 2e-6 * c->scale, "%dx%d x%g: gradient off by %.3g of scale", (int)c->rows, (int)c->classes,
           c->magnitude, worst / c->scale);
  CHECK_EQ(loss.correct, hits);
  CHECK_EQ(loss.samples, counted);
  CHECK_EQ(loss.left_out, 0);
  if (!c->in_place) free(dx);
  free(x);
  free(labels);
  free(weights);
  free(want);
}

/* Weights of 1 are no weights, in every bit. */
static void check_weights_of_one(shoal_backend *b)
{
  enum { ROWS = 9, CLASSES = 37, N = ROWS * CLASSES };
  float *x = vector(N, false, 5), *plain = floats(N), *weighted = floats(N), ones[CLASSES], scale = 1.0f / 7;
  int32_t labels[ROWS];
  shoal_loss without, with;
  for (int k = 0; k < CLASSES; k++) ones[k] = 1;
  for (int r = 0; r < ROWS; r++) labels[r] = label_of(r, CLASSES);
  CHECK_OK(b->ops->softmax_xent(b, ROWS, CLASSES, x, labels, NULL, 0.1f, &scale, false, plain, &without));
  CHECK_OK(b->ops->softmax_xent(b, ROWS, CLASSES, x, labels, ones, 0.1f, &scale, false, weighted, &with));
  CHECK_BYTES(plain, weighted, N * sizeof *plain, "gradients");
  CHECK_EQ(without.loss, with.loss);
  free(x);
  free(plain);
  free(weighted);
}

static void check_loss_corners(shoal_backend *b)
{
  const float ties[6] = { 1, 3, 3, 3, 2, 3 };
  int32_t second = 1, third = 2, labels[2] = { -1, -5 };
  const float two[4] = { 1, 2, 3, 4 }, one = 1;
  float dx[4] = { 9, 9, 9, 9 };
  shoal_loss out;
  CHECK_OK(b->ops->softmax_xent(b, 1, 6, ties, &second, NULL, 0, &one, false, NULL, &out));
  CHECK_EQ(out.correct, 1, "the first of the largest logits decides");
  CHECK_OK(b->ops->softmax_xent(b, 1, 6, ties, &third, NULL, 0, &one, false, NULL, &out));
  CHECK_EQ(out.correct, 0, "only the first of the largest logits decides");
  CHECK_OK(b->ops->softmax_xent(b, 2, 2, two, labels, NULL, 0.1f, &one, false, dx, &out));
  CHECK_EQ(out.loss, 0, "all rows ignored");
  CHECK_EQ(out.correct, 0);
  for (int i = 0; i < 4; i++) CHECK_EQ(dx[i], 0, "dx[%d]", i);
}

/* Rows 1, 3 and 4 of five have no loss; the last one is ignored anyway. */
static void check_left_out(shoal_backend *b)
{
  const float x[] = { 1, 2, 3, NAN, 5, 1, -3e38f, 3e38f, 0, INFINITY, 1, 1 };
  const int32_t labels[] = { 1, 0, 0, 1, 0, -1 };
  float dx[SHOAL_COUNT(x)];
  shoal_loss all, alone;
  const float kept[] = { 1, 2, 5, 1 }, one = 1;
  const int32_t two[] = { 1, 0 };
  CHECK_OK(b->ops->softmax_xent(b, 6, 2, x, labels, NULL, 0.1f, &one, true, dx, &all));
  CHECK_OK(b->ops->softmax_xent(b, 2, 2, kept, two, NULL, 0.1f, &one, true, NULL, &alone));
  CHECK_EQ(all.loss, alone.loss);
  CHECK_EQ(all.correct, 2);
  CHECK_EQ(all.samples, 2);
  CHECK_EQ(all.left_out, 3);
  CHECK_EQ(all.first_left_out, 1);
  for (int i = 0; i < 12; i++)
    CHECK(i < 2 || i == 4 || i == 5 ? dx[i] != 0 : dx[i] == 0, "dx[%d] is %g", i, (double)dx[i]);
}

/* --- errors of targets --- */

/* Rows of small integers over 16: all sums are exact, so everything is compared with ==.  Every fourth row has no target. */
static void check_target_loss(shoal_backend *b, int64_t rows, int64_t width, bool absolute, bool in_place)
{
  const int64_t n = rows * width;
  const float quarter = 0.25f;
  float *y = vector(n, true, 5), *t = vector(n, true, 6), *dy = in_place ? y : floats(n);
  double *want = calloc((size_t)n, sizeof *want), total = 0;
  shoal_loss loss = { .loss = -1 }, alone = { .loss = -1 };
  int64_t counted = 0;
  REQUIRE(want, "out of memory");
  for (int64_t r = 0; r < rows; r++) {
    const bool known = r % 4 != 3;
    double sum = 0;
    if (!known) t[r * width] = NAN;
    for (int64_t i = r * width; known && i < (r + 1) * width; i++) {
      const double e = (double)y[i] - t[i];
      sum += absolute ? fabs(e) : e * e;
      want[i] = (float)(0.25 / (double)width * (absolute ? (e > 0) - (e < 0) : 2 * e));
    }
    total += sum / (double)width;
    counted += known;
  }
  CHECK_OK(b->ops->target_loss(b, rows, width, y, t, absolute, &quarter, true, NULL, &alone));
  if (!in_place) memset(dy, 0xff, (size_t)n * sizeof(float));
  CHECK_OK(b->ops->target_loss(b, rows, width, y, t, absolute, &quarter, true, dy, &loss));
  CHECK_EQ(loss.loss, total, "%dx%d", (int)rows, (int)width);
  CHECK_EQ(alone.loss, total, "the loss depends on whether gradients are wanted");
  CHECK_EQ(loss.samples, counted);
  CHECK_EQ(loss.correct, 0);
  CHECK_EQ(loss.left_out, 0);
  for (int64_t i = 0; i < n; i++) CHECK_EQ(dy[i], want[i], "dy[%d] of %dx%d", (int)i, (int)rows, (int)width);
  if (!in_place) free(dy);
  free(y);
  free(t);
  free(want);
}

/* dy is the slope of the loss: central differences, at places where |e| has no kink. */
static void check_target_slope(shoal_backend *b, bool absolute)
{
  const float t[] = { 0.5f, -1, 2, 0.25f, 3, -2 }, step = 1.0f / 64, one = 1;
  float y[] = { 1, 0.5f, -1, 2, -0.75f, 1.5f }, dy[SHOAL_COUNT(y)];
  shoal_loss up, down;
  CHECK_OK(b->ops->target_loss(b, 2, 3, y, t, absolute, &one, false, dy, &up));
  for (size_t i = 0; i < SHOAL_COUNT(y); i++) {
    const float at = y[i];
    y[i] = at + step;
    CHECK_OK(b->ops->target_loss(b, 2, 3, y, t, absolute, &one, false, NULL, &up));
    y[i] = at - step;
    CHECK_OK(b->ops->target_loss(b, 2, 3, y, t, absolute, &one, false, NULL, &down));
    y[i] = at;
    CHECK_NEAR(dy[i], (up.loss - down.loss) / (2 * (double)step), 1e-6, "dy[%zu]", i);
  }
}

/* Rows 0 and 3 have outputs without a loss, row 2 no target: row 1 counts.  In training a NaN goes on into the gradient. */
static void check_target_corners(shoal_backend *b)
{
  const float y[] = { NAN, 1, 3, 5, 1, 1, 0, INFINITY }, t[] = { 0, 0, 1, 2, NAN, 0, 0, 0 }, one = 1;
  float dy[SHOAL_COUNT(y)];
  shoal_loss out;
  for (int absolute = 0; absolute < 2; absolute++) {
    CHECK_OK(b->ops->target_loss(b, 4, 2, y, t, absolute, &one, true, dy, &out));
    CHECK_EQ(out.loss, absolute ? 2.5 : 6.5);
    CHECK_EQ(out.samples, 1);
    CHECK_EQ(out.left_out, 2);
    CHECK_EQ(out.first_left_out, 0);
    for (int i = 0; i < 8; i++) CHECK(i == 2 || i == 3 ? dy[i] > 0 : dy[i] == 0, "dy[%d] is %g", i, (double)dy[i]);
    CHECK_OK(b->ops->target_loss(b, 1, 2, y, t, absolute, &one, false, dy, &out));
    CHECK(isnan(out.loss), "loss %g", out.loss);
    CHECK(isnan(dy[0]), "gradient %g", (double)dy[0]);
  }
}

int test_target_loss(shoal_backend *b)
{
  static const int64_t sizes[][2] = { { 1, 1 }, { 5, 1 }, { 700, 1 }, { 33, 4 }, { 9, 64 } };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++)
    for (int bits = 0; bits < 4; bits++) check_target_loss(b, sizes[s][0], sizes[s][1], bits & 1, bits & 2);
  check_target_slope(b, false);
  check_target_slope(b, true);
  check_target_corners(b);
  return check_failures;
}

int test_loss(shoal_backend *b)
{
  static const int64_t sizes[][2] = { { 1, 1 }, { 1, 2 }, { 5, 10 }, { 33, 257 }, { 7, 1000 }, { 300, 17 } };
  static const double magnitudes[] = { 1, 20, 1e4 };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++)
    for (size_t m = 0; m < SHOAL_COUNT(magnitudes); m++)
      for (int bits = 0; bits < 8; bits++) {
        loss_case c = { sizes[s][0], sizes[s][1], bits & 1 ? 0.125 : 0, 1.0 / 64, magnitudes[m], bits & 2, bits & 4 };
        check_loss(b, &c);
      }
  check_weights_of_one(b);
  check_loss_corners(b);
  check_left_out(b);
  return check_failures;
}

/* --- flat vectors --- */

static void check_close(const char *what, int64_t n, const float *got, const double *want, double limit)
{
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    double error = fabs(got[i] - want[i]) / (1 + fabs(want[i]));
    worst = error > worst || isnan(error) ? error : worst;
  }
  CHECK_LE(worst, limit, "%s of %d", what, (int)n);
}

/* Starts at an odd address and looks at the element behind the end. */
static void check_sums(shoal_backend *b, int64_t n)
{
  float *x = vector(n + 2, true, 1), *y = vector(n + 2, true, 2);
  double *want = calloc((size_t)n + 1, sizeof *want), squares = 0, got = 0, again = -2;
  REQUIRE(want, "out of memory");
  const float behind = y[n + 1];
  for (int64_t i = 0; i < n; i++) want[i] = (double)y[1 + i] + x[1 + i];
  CHECK_OK(b->ops->add(b, (size_t)n, x + 1, y + 1));
  check_close("add", n, y + 1, want, 0);
  for (int64_t i = 0; i < n; i++) want[i] = 0.5 * x[1 + i] - 2.0 * y[1 + i];
  CHECK_OK(b->ops->axpby(b, (size_t)n, 0.5f, x + 1, -2, y + 1));
  check_close("axpby", n, y + 1, want, 0);
  for (int64_t i = 0; i < n; i++) {
    want[i] = 3.0 * x[1 + i];
    y[1 + i] = NAN;
  }
  CHECK_OK(b->ops->axpby(b, (size_t)n, 3, x + 1, 0, y + 1));
  check_close("axpby without y", n, y + 1, want, 0);
  CHECK_EQ(y[n + 1], behind, "something wrote behind %d elements", (int)n);
  for (int64_t i = 0; i < n; i++) squares += (double)x[1 + i] * x[1 + i];
  CHECK_OK(b->ops->sumsq(b, (size_t)n, x + 1, &got));
  CHECK_EQ(got, squares, "sumsq of %d on the grid", (int)n);
  float *z = vector(n, false, 3);
  squares = 0;
  for (int64_t i = 0; i < n; i++) squares += (double)z[i] * z[i];
  got = again = 0;
  CHECK_OK(b->ops->sumsq(b, (size_t)n, z, &got));
  CHECK_OK(b->ops->sumsq(b, (size_t)n, z, &again));
  CHECK_NEAR(got, squares, 1e-12 * squares, "sumsq of %d", (int)n);
  CHECK_EQ(got, again, "sumsq of %d", (int)n);
  CHECK_OK(b->ops->sumsq(b, (size_t)n, z, &again));
  CHECK_EQ(again, got + got, "sumsq of %d adds", (int)n);
  free(x);
  free(y);
  free(z);
  free(want);
}

enum { OPT_STEPS = 5 };

/* Weights, moments and their double-precision doubles. */
typedef struct {
  int64_t n;
  float *w, *m, *v, *g;
  double *ww, *mm, *vv;
} optimiser;

static void opt_open(optimiser *o, int64_t n)
{
  o->n = n;
  o->w = vector(n, false, 7);
  o->m = floats(n);
  o->v = floats(n);
  o->g = floats(n);
  o->ww = calloc((size_t)n + 1, sizeof(double));
  o->mm = calloc((size_t)n + 1, sizeof(double));
  o->vv = calloc((size_t)n + 1, sizeof(double));
  REQUIRE(o->ww, "out of memory");
  REQUIRE(o->mm, "out of memory");
  REQUIRE(o->vv, "out of memory");
  for (int64_t i = 0; i < n; i++) o->ww[i] = o->w[i];
}

static void opt_close(optimiser *o)
{
  void *all[] = { o->w, o->m, o->v, o->g, o->ww, o->mm, o->vv };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) free(all[i]);
}

static void check_sgd(shoal_backend *b, int64_t n, float lr, float scale, shoal_sgd_args a)
{
  optimiser o;
  uint32_t bad = 0;
  shoal_update_watch watch = { .bad = &bad };
  shoal_pace now = { .lr = lr };
  a.now = &now;
  a.scale = scale == 1 ? NULL : &scale;
  opt_open(&o, n);
  for (int64_t i = 0; i < n; i++) o.v[i] = 1e30f; /* what `first` has to overwrite */
  for (int t = 0; t < OPT_STEPS; t++) {
    now.first = t == 0;
    for (int64_t i = 0; i < n; i++) {
      o.g[i] = full(100 + (uint64_t)t, i);
      double g = (double)scale * o.g[i] + (double)a.l2 * o.ww[i];
      o.vv[i] = now.first ? g : a.momentum * o.vv[i] + g;
      o.ww[i] -= lr * (a.nesterov ? g + a.momentum * o.vv[i] : o.vv[i]);
      o.ww[i] -= (double)lr * a.decoupled * o.ww[i];
    }
    CHECK_OK(b->ops->sgd(b, (size_t)n, &a, o.g, o.v, o.w, &watch));
  }
  CHECK(!bad, "sgd: all was finite");
  check_close("sgd weights", n, o.w, o.ww, 1e-6);
  check_close("sgd momentum", n, o.v, o.vv, 1e-6);
  CHECK_EQ(o.w[n], 0, "sgd wrote behind the end");
  CHECK_EQ(o.v[n], 0);
  opt_close(&o);
}

static void check_adam(shoal_backend *b, int64_t n, float lr, float scale, shoal_adam_args a)
{
  optimiser o;
  uint32_t bad = 0;
  shoal_update_watch watch = { .bad = &bad };
  shoal_pace now = { .lr = lr };
  a.now = &now;
  a.scale = scale == 1 ? NULL : &scale;
  opt_open(&o, n);
  for (int t = 0; t < OPT_STEPS; t++) {
    now.c1 = (float)(1 - pow(a.beta1, t + 1));
    now.c2 = (float)(1 - pow(a.beta2, t + 1));
    for (int64_t i = 0; i < n; i++) {
      o.g[i] = i % 7 == 3 ? 0 : full(100 + (uint64_t)t, i);
      double g = (double)scale * o.g[i] + (double)a.l2 * o.ww[i];
      o.mm[i] = a.beta1 * o.mm[i] + (1.0 - a.beta1) * g;
      o.vv[i] = a.beta2 * o.vv[i] + (1.0 - a.beta2) * g * g;
      o.ww[i] -= lr * (o.mm[i] / now.c1 / (sqrt(o.vv[i] / now.c2) + a.eps) + (double)a.decoupled * o.ww[i]);
    }
    CHECK_OK(b->ops->adam(b, (size_t)n, &a, o.g, o.m, o.v, o.w, &watch));
  }
  CHECK(!bad, "adam: all was finite");
  check_close("adam weights", n, o.w, o.ww, 1e-6);
  check_close("adam first moment", n, o.m, o.mm, 1e-6);
  check_close("adam second moment", n, o.v, o.vv, 1e-6);
  CHECK_EQ(o.w[n], 0, "adam wrote behind the end");
  CHECK_EQ(o.m[n], 0);
  CHECK_EQ(o.v[n], 0);
  opt_close(&o);
}

typedef enum { DESCEND, SGD, SGD_FIRST, SGD_NESTEROV, ADAM, UPDATES } update_kind;

static void update_once(shoal_backend *b, update_kind kind, int64_t n, optimiser *o, shoal_update_watch *watch)
{
  const shoal_pace now = { .lr = 0.01f, .c1 = 0.1f, .c2 = 0.01f, .first = kind == SGD_FIRST };
  const shoal_adam_args adam = { .now = &now, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f };
  const shoal_sgd_args sgd = { .now = &now, .momentum = 0.9f, .nesterov = kind == SGD_NESTEROV };
  const shoal_descend_args descend = { .now = &now };
  size_t count = (size_t)n;
  if (kind == DESCEND)
    CHECK_OK(b->ops->descend(b, count, &descend, o->g, o->w, watch));
  else if (kind == ADAM)
    CHECK_OK(b->ops->adam(b, count, &adam, o->g, o->m, o->v, o->w, watch));
  else
    CHECK_OK(b->ops->sgd(b, count, &sgd, o->g, o->v, o->w, watch));
}

/* One number that makes the update's results not finite, at several places: seen.  The largest finite ones are not.  What
 * was there before is kept, bit for bit, and keeping it changes no result. */
static void check_watch(shoal_backend *b, update_kind kind, int64_t n, int64_t at, float gradient, float weight)
{
  optimiser o, kept;
  bool adam = kind == ADAM, overflows = fabsf(gradient) > 1e25f && (adam || kind == SGD_NESTEROV);
  bool expected = !isfinite(gradient) || !isfinite(weight) || overflows;
  opt_open(&o, n);
  opt_open(&kept, n);
  optimiser *both[] = { &o, &kept };
  for (int k = 0; k < 2; k++) {
    for (int64_t i = 0; i < n; i++) {
      both[k]->g[i] = full(300, i);
      both[k]->m[i] = full(301, i);
      both[k]->v[i] = fabsf(full(302, i));
    }
    both[k]->g[at] = gradient;
    both[k]->w[at] += weight;
  }
  float *before[] = { floats(n), floats(n), floats(n) };
  uint32_t bad[2] = { 0, 0 };
  shoal_update_watch bare = { .bad = &bad[0] };
  shoal_update_watch watch = { .bad = &bad[1],
                               .w = before[0],
                               .state = { adam ? before[2] : before[1], adam ? before[1] : NULL } };
  update_once(b, kind, n, &o, &bare);
  const size_t bytes = (size_t)n * sizeof(float);
  float *w = floats(n), *v = floats(n), *m = floats(n);
  memcpy(w, kept.w, bytes);
  memcpy(v, kept.v, bytes);
  memcpy(m, kept.m, bytes);
  update_once(b, kind, n, &kept, &watch);
  CHECK_EQ(bad[0], expected, "update %d, %g and %g at %lld", (int)kind, (double)gradient, (double)weight,
           (long long)at);
  CHECK_EQ(bad[1], expected, "update %d, %g and %g at %lld", (int)kind, (double)gradient, (double)weight,
           (long long)at);
  CHECK(same_bits(w, before[0], n), "update %d: weights were not kept", (int)kind);
  CHECK(kind == DESCEND || same_bits(v, before[1], n), "update %d: state was not kept", (int)kind);
  CHECK(!adam || same_bits(m, before[2], n), "update %d: means were not kept", (int)kind);
  CHECK(same_bits(o.w, kept.w, n), "update %d: keeping changes weights", (int)kind);
  CHECK(same_bits(o.v, kept.v, n), "update %d: keeping changes the state", (int)kind);
  for (int k = 0; k < 3; k++) free(before[k]);
  free(w);
  free(v);
  free(m);
  opt_close(&o);
  opt_close(&kept);
}

static void check_watches(shoal_backend *b)
{
  static const int64_t sizes[] = { 1, 37, 70001 };
  static const float gradients[] = { 0.5f, NAN, -NAN, INFINITY, -INFINITY, 3e38f, 0x1p-149f },
                     weights[] = { 0, NAN, INFINITY };
  for (int kind = 0; kind < UPDATES; kind++)
    for (size_t i = 0; i < SHOAL_COUNT(sizes); i++)
      for (size_t k = 0; k < SHOAL_COUNT(gradients); k++)
        check_watch(b, (update_kind)kind, sizes[i], k % 2 ? sizes[i] - 1 : sizes[i] / 2, gradients[k], 0);
  for (int kind = 0; kind < UPDATES; kind++)
    for (size_t k = 0; k < SHOAL_COUNT(weights); k++) check_watch(b, (update_kind)kind, 1000, 17, 0.5f, weights[k]);
}

static void check_clip(shoal_backend *b)
{
  static const struct {
    double squares;
    float limit, scale;
  } cases[] = { { 4, 1, 0.5f }, { 4, 2, 1 }, { 4, 3, 1 }, { 0, 1, 1 }, { 1e20, 1, 1e-10f }, { NAN, 1, 1 } };
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    float scale = -1;
    CHECK_OK(b->ops->clip(b, cases[i].limit, &cases[i].squares, &scale));
    CHECK_EQ(scale, cases[i].scale, "squares %g, limit %g", cases[i].squares, (double)cases[i].limit);
  }
}

int test_vectors(shoal_backend *b)
{
  static const int64_t sizes[] = { 0, 1, 3, 16, 17, 1000, 40009 };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++) {
    int64_t n = sizes[s];
    check_sums(b, n);
    check_sgd(b, n, 0.1f, 1, (shoal_sgd_args){ .l2 = 0 });
    check_sgd(b, n, 0.1f, 0.125f, (shoal_sgd_args){ .momentum = 0.9f });
    check_sgd(b, n, 0.1f, 1, (shoal_sgd_args){ .momentum = 0.9f, .l2 = 0.05f, .nesterov = true });
    check_sgd(b, n, 0.2f, 2, (shoal_sgd_args){ .momentum = 0.5f, .decoupled = 0.1f });
    shoal_adam_args adam = { .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f };
    check_adam(b, n, 0.01f, 1, adam);
    adam.l2 = 0.05f;
    check_adam(b, n, 0.01f, 0.25f, adam);
    adam.l2 = 0;
    adam.decoupled = 0.1f;
    adam.eps = 1e-3f;
    check_adam(b, n, 0.01f, 1, adam);
  }
  check_clip(b);
  check_watches(b);
  return check_failures;
}
