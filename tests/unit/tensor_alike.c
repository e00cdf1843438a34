/* What ranks compute each for itself and must have alike: the updates of the optimizers, sums and products give the same bits on
 * a processor that fuses a product and a sum (what the library selects here) and on the oldest one (the same source, compiled
 * once more without multiversioning), and for any number of threads. */
#define SHOAL_BASE_WIDE_H
#define SHOAL_WIDE               __attribute__((noinline))
#define shoal_cpu_gemm           oldest_gemm
#define shoal_cpu_multiply       oldest_multiply
#define shoal_cpu_add            oldest_add
#define shoal_cpu_axpby          oldest_axpby
#define shoal_cpu_sumsq          oldest_sumsq
#define shoal_cpu_descend        oldest_descend
#define shoal_cpu_sgd            oldest_sgd
#define shoal_cpu_adam           oldest_adam
#define shoal_cpu_fill           oldest_fill
#define shoal_cpu_copy           oldest_copy
#define shoal_cpu_copy_tile      oldest_copy_tile
#define shoal_cpu_copy_checked   oldest_copy_checked
#define shoal_cpu_average        oldest_average
#define shoal_cpu_divide         oldest_divide
#define shoal_cpu_scale          oldest_scale
#define shoal_cpu_mean           oldest_mean
#define shoal_cpu_pack16         oldest_pack16
#define shoal_cpu_unpack16       oldest_unpack16
#define shoal_cpu_add16          oldest_add16
#define shoal_cpu_encode         oldest_encode
#define shoal_cpu_decode         oldest_decode
#define shoal_cpu_meet           oldest_meet
#define shoal_cpu_fold           oldest_fold
#define shoal_quant_largest_bits oldest_quant_largest_bits
#define shoal_quant_packed_bytes oldest_quant_packed_bytes
#define shoal_quant_pack         oldest_quant_pack
#define shoal_quant_unpack       oldest_quant_unpack
#define shoal_quant_blocks       oldest_quant_blocks
#define shoal_quant_bytes        oldest_quant_bytes
#define shoal_quant_encode       oldest_quant_encode
#define shoal_quant_decode       oldest_quant_decode
#define shoal_quant_factors      oldest_quant_factors
#define shoal_quant_value        oldest_quant_value
#include "tensor/cpu/flat.c"
#define GRAIN ARENA_GRAIN
#define mark  arena_mark
#include "tensor/cpu/arena.c"
#include "tensor/quant.c"
#include "tensor/quant_pack.c"
#undef mark

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
  uint32_t bad = 0;
  const float scale = 0.7f;
  shoal_pace now = { .lr = 0.013f };
  const shoal_update_watch watch = { .bad = &bad };
  for (int kind = 0; kind < 3; kind++) {
    shoal_sgd_args a = { .now = &now, .scale = &scale, .momentum = 0.9f, .l2 = 3e-4f, .decoupled = 1e-3f };
    now.first = kind == 0;
    a.nesterov = kind == 1;
    fill();
    CHECK_OK(b->ops->sgd(b, N, &a, g, m[0], w[0], &watch));
    CHECK_OK(oldest_sgd(old, N, &a, g, m[1], w[1], &watch));
    compare("sgd");
  }
  now = (shoal_pace){ .lr = 0.01f, .c1 = 0.1f, .c2 = 0.001f };
  shoal_adam_args a = { &now, &scale, 0.9f, 0.999f, 1e-8f, 1e-3f, 0.02f };
  fill();
  CHECK_OK(b->ops->adam(b, N, &a, g, m[0], v[0], w[0], &watch));
  CHECK_OK(oldest_adam(old, N, &a, g, m[1], v[1], w[1], &watch));
  compare("adam");
  const shoal_descend_args d = { &now, &scale, 0.02f, 0.3f };
  CHECK_OK(b->ops->descend(b, N, &d, g, w[0], &watch));
  CHECK_OK(oldest_descend(old, N, &d, g, w[1], &watch));
  compare("descend");
  CHECK_OK(b->ops->axpby(b, N, 0.3f, g, 0.7f, w[0]));
  CHECK_OK(oldest_axpby(old, N, 0.3f, g, 0.7f, w[1]));
  compare("axpby");
}

static void sums(shoal_backend *b, shoal_backend *old)
{
  double x = 0, y = 0;
  fill();
  CHECK_OK(b->ops->sumsq(b, N, g, &x));
  CHECK_OK(oldest_sumsq(old, N, g, &y));
  CHECK_BYTES(&x, &y, sizeof x, "sum of squares %.17g and %.17g", x, y);
  CHECK_OK(b->ops->multiply(b, M, N / K, K, w[0], g, m[0]));
  CHECK_OK(oldest_multiply(old, M, N / K, K, w[1], g, m[1]));
  compare("product");
}

/* Arenas; the model is that of `fill`, its parcels are sent with 8 bits. */
static void arenas(shoal_backend *b, shoal_backend *old)
{
  enum { PARCEL_BLOCKS = (N + SHOAL_QUANT_BLOCK - 1) / SHOAL_QUANT_BLOCK };
  static uint16_t half[2][N];
  static uint8_t parcel[2][N + 8 * PARCEL_BLOCKS], bad[2][PARCEL_BLOCKS / 8 + 1];
  static int8_t e[2][PARCEL_BLOCKS];
  static float far[2][PARCEL_BLOCKS];
  const float *list[2][2] = { { g, w[0] }, { g, w[1] } };
  fill();
  CHECK_OK(b->ops->average(b, N, g, w[0], v[0]));
  CHECK_OK(oldest_average(old, N, g, w[1], v[1]));
  compare("average");
  CHECK_OK(b->ops->scale(b, N, 1.0 / 3, w[0], g, m[0], v[0]));
  CHECK_OK(oldest_scale(old, N, 1.0 / 3, w[1], g, m[1], v[1]));
  compare("scale");
  CHECK_OK(b->ops->mean(b, N, 2, list[0], m[0]));
  CHECK_OK(oldest_mean(old, N, 2, list[1], m[1]));
  CHECK_OK(b->ops->divide(b, N, 7, m[0]));
  CHECK_OK(oldest_divide(old, N, 7, m[1]));
  compare("mean and divide");
  CHECK_OK(b->ops->pack16(b, SHOAL_F16, N, w[0], g, 3, half[0], NULL));
  CHECK_OK(oldest_pack16(old, SHOAL_F16, N, w[1], g, 3, half[1], NULL));
  CHECK_BYTES(half[0], half[1], sizeof half[0], "pack16");
  CHECK_OK(b->ops->unpack16(b, SHOAL_F16, N, half[0], g, v[0]));
  CHECK_OK(oldest_unpack16(old, SHOAL_F16, N, half[1], g, v[1]));
  compare("unpack16");
  for (int stochastic = 0; stochastic < 2; stochastic++) {
    shoal_quant q = { .bits = 8, .stochastic = stochastic == 1, .seed = 1, .turn = 2 };
    memset(e, -9, sizeof e);
    CHECK_OK(b->ops->encode(b, &q, N, w[0], e[0], parcel[0]));
    CHECK_OK(oldest_encode(old, &q, N, w[1], e[1], parcel[1]));
    CHECK_BYTES(parcel[0], parcel[1], sizeof parcel[0], "encode");
    CHECK_OK(b->ops->decode(b, 8, N, parcel[0], g, v[0], bad[0]));
    CHECK_OK(oldest_decode(old, 8, N, parcel[1], g, v[1], bad[1]));
    compare("decode");
    CHECK_BYTES(bad[0], bad[1], sizeof bad[0], "bad blocks");
    shoal_meet_args a = { &q, e[0], bad[0], true };
    CHECK_OK(b->ops->meet(b, &a, N, g, w[0], far[0]));
    CHECK_OK(oldest_meet(old, &a, N, g, w[1], far[1]));
    compare("meet");
    CHECK_BYTES(far[0], far[1], sizeof far[0], "distances");
  }
  CHECK_OK(b->ops->fold(b, N, w[0], m[0], v[0], far[0]));
  CHECK_OK(oldest_fold(old, N, w[1], m[1], v[1], far[1]));
  compare("fold");
  CHECK_BYTES(far[0], far[1], sizeof far[0], "largest of a fold");
}

int main(void)
{
  shoal_backend *b, *old;
  REQUIRE(shoal_backend_open("cpu", 2, &b) == SHOAL_OK, "backend");
  REQUIRE(shoal_backend_open("cpu", 3, &old) == SHOAL_OK, "backend");
  updates(b, old);
  sums(b, old);
  arenas(b, old);
  shoal_backend_close(b);
  shoal_backend_close(old);
  return check_done();
}
