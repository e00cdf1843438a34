/* What ranks compute each for itself and must have alike: the updates of the optimizers, sums and products give the same bits on
 * a processor that fuses a product and a sum (what the library selects here) and on the oldest one (the same source, compiled
 * once more without multiversioning), and for any number of threads. */
#define SHOAL_BASE_WIDE_H
#define SHOAL_WIDE         __attribute__((noinline))
#define shoal_cpu_gemm     oldest_gemm
#define shoal_cpu_multiply oldest_multiply
#define shoal_cpu_add      oldest_add
#define shoal_cpu_axpby    oldest_axpby
#define shoal_cpu_sumsq    oldest_sumsq
#define shoal_cpu_descend  oldest_descend
#define shoal_cpu_sgd      oldest_sgd
#define shoal_cpu_adam     oldest_adam
#include "tensor/cpu/flat.c"

#include "base/rng.h"
#include "check.h"
#include "tensor/cpu/multiply.c"

enum { N = 70001, M = 37, K = 90 };
static float w[2][N], g[N], v[2][N], m[2][N];

static float number(uint64_t i, uint32_t of)
{
  return (2 * shoal_rng_unit(shoal_rng(11, SHOAL_RNG_TEST, i, of).v[0]) - 1) * 0.3f;
}

static void fill(void)
{
  for (uint64_t i = 0; i < N; i++) {
    g[i] = number(i, 0);
    w[0][i] = w[1][i] = number(i, 1);
    m[0][i] = m[1][i] = number(i, 2);
    v[0][i] = v[1][i] = number(i, 3) * number(i, 3);
  }
}

static void compare(const char *what)
{
  CHECK_BYTES(w[0], w[1], sizeof w[0], "%s", what);
  CHECK_BYTES(m[0], m[1], sizeof m[0], "%s", what);
  CHECK_BYTES(v[0], v[1], sizeof v[0], "%s", what);
}

/* `b` is what the library selects, `old` the oldest processor with other threads. */
static void updates(shoal_backend *b, shoal_backend *old)
{
  shoal_update_watch watch = { .bad = false };
  for (int kind = 0; kind < 3; kind++) {
    shoal_sgd_args a = { .lr = 0.013f, .momentum = 0.9f, .l2 = 3e-4f, .decoupled = 1e-3f, .scale = 0.7f };
    a.first = kind == 0;
    a.nesterov = kind == 1;
    fill();
    CHECK_OK(b->ops->sgd(b, N, &a, g, m[0], w[0], &watch));
    CHECK_OK(oldest_sgd(old, N, &a, g, m[1], w[1], &watch));
    compare("sgd");
  }
  shoal_adam_args a = { 0.01f, 0.9f, 0.999f, 1e-8f, 1e-3f, 0.02f, 0.7f, 0.1f, 0.001f };
  fill();
  CHECK_OK(b->ops->adam(b, N, &a, g, m[0], v[0], w[0], &watch));
  CHECK_OK(oldest_adam(old, N, &a, g, m[1], v[1], w[1], &watch));
  compare("adam");
  CHECK_OK(b->ops->descend(b, N, -0.013f, g, 0.997f, w[0], &watch));
  CHECK_OK(oldest_descend(old, N, -0.013f, g, 0.997f, w[1], &watch));
  compare("descend");
  CHECK_OK(b->ops->axpby(b, N, 0.3f, g, 0.7f, w[0]));
  CHECK_OK(oldest_axpby(old, N, 0.3f, g, 0.7f, w[1]));
  compare("axpby");
}

static void sums(shoal_backend *b, shoal_backend *old)
{
  double x = 0, y = 1;
  fill();
  CHECK_OK(b->ops->sumsq(b, N, g, &x));
  CHECK_OK(oldest_sumsq(old, N, g, &y));
  CHECK_BYTES(&x, &y, sizeof x, "sum of squares %.17g and %.17g", x, y);
  CHECK_OK(b->ops->multiply(b, M, N / K, K, w[0], g, m[0]));
  CHECK_OK(oldest_multiply(old, M, N / K, K, w[1], g, m[1]));
  compare("product");
}

int main(void)
{
  shoal_backend *b, *old;
  REQUIRE(shoal_backend_open("cpu", 2, &b) == SHOAL_OK, "backend");
  REQUIRE(shoal_backend_open("cpu", 3, &old) == SHOAL_OK, "backend");
  updates(b, old);
  sums(b, old);
  shoal_backend_close(b);
  shoal_backend_close(old);
  return check_done();
}
