/* The singular value decomposition, its ranks and its factors: exact on matrices whose singular values are known, within
 * bounds on random ones. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "method/common/svd.h"

static float *random_matrix(int64_t rows, int64_t cols, uint32_t number)
{
  float *x = calloc((size_t)(rows * cols), sizeof *x);
  for (int64_t i = 0; i < rows * cols; i++) {
    float pair[2];
    shoal_rng_block b = shoal_rng(7, SHOAL_RNG_INIT, (uint64_t)i, number);
    shoal_rng_normal2(b.v[0], b.v[1], pair);
    x[i] = pair[0];
  }
  return x;
}

static double norm(const float *x, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
  return sqrt(sum);
}

/* |x - left right|_F */
static double distance(const float *x, const float *left, const float *right, int64_t rows, int64_t cols, int64_t r)
{
  double sum = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      double y = 0;
      for (int64_t k = 0; k < r; k++) y += (double)left[i * r + k] * right[k * cols + j];
      sum += (x[i * cols + j] - y) * (x[i * cols + j] - y);
    }
  return sqrt(sum);
}

/* left^T left and right right^T are diag(sigma). */
static void check_balance(const shoal_svd *s, const float *left, const float *right, int64_t r)
{
  for (int64_t a = 0; a < r; a++)
    for (int64_t b = 0; b < r; b++) {
      double l = 0, m = 0, want = a == b ? (double)s->sigma[a] : 0;
      for (int64_t i = 0; i < s->rows; i++) l += (double)left[i * r + a] * left[i * r + b];
      for (int64_t i = 0; i < s->cols; i++) m += (double)right[a * s->cols + i] * right[b * s->cols + i];
      CHECK_LT(fabs(l - want), 2e-5 * s->sigma[0], "%lld x %lld rank %lld: balance of %lld %lld: %g %g, want %g",
               (long long)s->rows, (long long)s->cols, (long long)r, (long long)a, (long long)b, l, m, want);
      CHECK_LT(fabs(m - want), 2e-5 * s->sigma[0], "%lld x %lld rank %lld: balance of %lld %lld: %g %g, want %g",
               (long long)s->rows, (long long)s->cols, (long long)r, (long long)a, (long long)b, l, m, want);
    }
}

static void check_random(int64_t rows, int64_t cols, uint32_t number)
{
  float *x = random_matrix(rows, cols, number), *left = calloc((size_t)(rows * rows), sizeof *left);
  float *right = calloc((size_t)(cols * cols), sizeof *right);
  shoal_svd s;
  REQUIRE(shoal_svd_make(x, rows, cols, "random", NULL, &s) == SHOAL_OK, "svd");
  int64_t n = SHOAL_MIN(rows, cols);
  CHECK_EQ(s.k, n);
  for (int64_t j = 1; j < n; j++) {
    CHECK_LE(s.sigma[j], s.sigma[j - 1], "singular value %lld", (long long)j);
    CHECK_GE(s.sigma[j], 0, "singular value %lld", (long long)j);
  }
  /* lossless */
  shoal_svd_split(&s, n, left, right);
  CHECK_LE(distance(x, left, right, rows, cols, n), 4 * (double)n * 6e-8 * norm(x, rows * cols),
           "%lld x %lld: lossless", (long long)rows, (long long)cols);
  check_balance(&s, left, right, n);
  /* cut: the error is what was cut, and below the bound */
  for (double beta = 0.1; beta < 1; beta += 0.2) {
    int64_t r = shoal_svd_rank(s.sigma, n, beta);
    double cut = 0, bound = beta * s.sigma[0] * sqrt((double)(n - r));
    REQUIRE(r >= 1, "rank %lld", (long long)r);
    REQUIRE(r <= n, "rank %lld", (long long)r);
    CHECK_GT((double)s.sigma[r - 1], beta * s.sigma[0], "rank %lld", (long long)r);
    CHECK(r == n || (double)s.sigma[r] <= beta * s.sigma[0], "the spectral error");
    for (int64_t j = r; j < n; j++) cut += (double)s.sigma[j] * s.sigma[j];
    cut = sqrt(cut);
    shoal_svd_split(&s, r, left, right);
    double error = distance(x, left, right, rows, cols, r);
    CHECK_LT(fabs(error - cut), 1e-5 * norm(x, rows * cols), "beta %g: error %g, bound %g", beta, error, bound);
    CHECK_LE(cut, bound * (1 + 1e-12), "beta %g: error %g, bound %g", beta, error, bound);
    check_balance(&s, left, right, r);
  }
  shoal_svd_free(&s);
  free(x);
  free(left);
  free(right);
}

/* diag(8, 4, 2, 1) between reflections: the singular values are exact to a few units in the last place. */
static void check_known(void)
{
  float x[6 * 4] = { 0 };
  for (int i = 0; i < 4; i++) x[(5 - i) * 4 + (i + 1) % 4] = (float)(i % 2 ? -(8 >> i) : 8 >> i);
  shoal_svd s;
  REQUIRE(shoal_svd_make(x, 6, 4, "known", NULL, &s) == SHOAL_OK, "svd");
  for (int i = 0; i < 4; i++) CHECK_NEAR(s.sigma[i], 8 >> i, 4e-6, "singular value %d", i);
  shoal_svd_free(&s);
  /* the rule is strict, looks at the last value above the limit, and never gives 0 */
  const float sigma[] = { 8, 4, 2, 1 }, gap[] = { 4, 3, 1 }, none[] = { 0, 0, 0 };
  const struct {
    const float *sigma;
    int64_t n;
    double beta;
    int64_t rank;
  } rows[] = { { sigma, 4, 0.25, 2 }, { sigma, 4, 0.2499, 3 }, { sigma, 4, 0, 4 }, { sigma, 4, 1, 1 },
               { gap, 3, 0.5, 2 },    { none, 3, 0, 1 },       { none, 1, 0.5, 1 } };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    CHECK_EQ(shoal_svd_rank(rows[i].sigma, rows[i].n, rows[i].beta), rows[i].rank, "row %zu", i);
}

static void check_zero(void)
{
  float x[12] = { 0 }, left[4 * 1], right[1 * 3];
  shoal_svd s;
  REQUIRE(shoal_svd_make(x, 4, 3, "zero", NULL, &s) == SHOAL_OK, "svd");
  CHECK_EQ(shoal_svd_rank(s.sigma, s.k, 0.15), 1, "rank of zero");
  shoal_svd_split(&s, 1, left, right);
  CHECK_EQ(norm(left, 4), 0, "factors of zero");
  CHECK_EQ(norm(right, 3), 0);
  shoal_svd_free(&s);
}

static void check_orthogonal(int64_t rows, int64_t cols)
{
  float *x = random_matrix(rows, cols, 40);
  CHECK_OK(shoal_orthogonalise(x, rows, cols, "start", NULL));
  shoal_svd s;
  REQUIRE(shoal_svd_make(x, rows, cols, "start", NULL, &s) == SHOAL_OK, "svd");
  for (int64_t j = 0; j < s.k; j++) CHECK_NEAR(s.sigma[j], 1, 1e-5);
  shoal_svd_free(&s);
  free(x);
}

/* The nearest orthogonal matrix: of Q D with positive D it is Q. */
static void check_nearest(void)
{
  const float q[2][2] = { { 0.6f, -0.8f }, { 0.8f, 0.6f } };
  float x[4] = { q[0][0] * 3, q[0][1] * 0.5f, q[1][0] * 3, q[1][1] * 0.5f };
  CHECK_OK(shoal_orthogonalise(x, 2, 2, "nearest", NULL));
  for (int i = 0; i < 4; i++) CHECK_NEAR(x[i], q[i / 2][i % 2], 1e-6, "element %d", i);
}

static void check_refusals(void)
{
  float x[4] = { 1, NAN, 0, 1 }, y[4] = { 1, INFINITY, 0, 1 };
  shoal_svd s;
  CHECK_STATUS(shoal_svd_make(x, 2, 2, "fc7", NULL, &s), SHOAL_ERR_NUMERIC);
  CHECK(!s.u);
  CHECK_HAS(check_error(), "fc7");
  CHECK_STATUS(shoal_orthogonalise(y, 2, 2, "fc7", NULL), SHOAL_ERR_NUMERIC);
  CHECK_EQ(y[1], INFINITY);
  CHECK_STATUS(shoal_svd_make(x, 0, 2, "fc7", NULL, &s), SHOAL_ERR_ARG, "no rows");
}

int main(void)
{
  check_known();
  check_random(40, 23, 1);
  check_random(23, 40, 2);
  check_random(64, 64, 3);
  check_random(1, 5, 4);
  check_random(200, 130, 5);
  check_zero();
  check_orthogonal(30, 12);
  check_orthogonal(12, 30);
  check_nearest();
  check_refusals();
  return check_done();
}
