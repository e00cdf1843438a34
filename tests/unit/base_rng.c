/* Philox against its published known answers, the shape of the numbers made from it, and the keyed permutation:
 * a bijection for every n, different from epoch to epoch, and pinned so that the order of samples never changes. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"

static uint64_t key(uint32_t low, uint32_t high)
{
  return (uint64_t)high << 32 | low;
}

static int is(shoal_rng_block r, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
  return r.v[0] == a && r.v[1] == b && r.v[2] == c && r.v[3] == d;
}

/* Known answers of the Random123 distribution, which accompanies the paper. */
static void test_known(void)
{
  CHECK(is(shoal_rng(0, (shoal_rng_purpose)0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  CHECK(is(shoal_rng(key(~0u, ~0u), (shoal_rng_purpose)~0u, key(~0u, ~0u), ~0u), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
           0x6d5451fd));
  /* counter and key from the digits of pi */
  CHECK(
      is(shoal_rng(key(0xa4093822, 0x299f31d0), (shoal_rng_purpose)0x03707344, key(0x243f6a88, 0x85a308d3), 0x13198a2e),
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

/* Values of this version; a change here changes every run and every checkpoint. */
static void test_pinned(void)
{
  float g[2];
  CHECK(is(shoal_rng(1, SHOAL_RNG_INIT, 5, 7), 0x42c43373, 0x4791560e, 0xefee1e67, 0x3d08816a));
  CHECK_EQ(shoal_rng_seed(1, 2), 0x8e76cc9d3f55b3f0u);
  CHECK_NE(shoal_rng_seed(1, 2), shoal_rng_seed(2, 1));
  CHECK_NE(shoal_rng_seed(1, 0), 1);
  shoal_rng_normal2(0x42c43373, 0x4791560e, g);
  CHECK_NEAR(g[0], -0x1.3609e4p-2f, 1e-7f);
  CHECK_NEAR(g[1], 0x1.9c7e14p+0f, 1e-6f);
}

static void test_unit_and_below(void)
{
  CHECK_EQ(shoal_rng_unit(0), 0.0f);
  CHECK_LT(shoal_rng_unit(~0u), 1.0f);
  CHECK_EQ(shoal_rng_unit(1u << 31), 0.5f);
  uint64_t seen[10] = { 0 };
  enum { N = 100000 };
  for (uint64_t i = 0; i < N; i++) {
    shoal_rng_block r = shoal_rng(3, SHOAL_RNG_TEST, i, 0);
    seen[shoal_rng_below(&r, 10)]++;
  }
  /* 10000 expected, standard deviation 95 */
  for (int k = 0; k < 10; k++) {
    CHECK_GT(seen[k], 9500, "digit %d", k);
    CHECK_LT(seen[k], 10500, "digit %d", k);
  }
  shoal_rng_block most = { { ~0u, ~0u, 0, 0 } };
  CHECK_EQ(shoal_rng_below(&most, 1), 0);
  CHECK_EQ(shoal_rng_below(&most, 7), 6);
  CHECK_EQ(shoal_rng_below(&most, UINT64_MAX), UINT64_MAX - 1);
}

static void test_normal(void)
{
  enum { N = 200000 };
  double sum = 0, squares = 0, fourths = 0, cross = 0;
  float g[2];
  for (uint64_t i = 0; i < N; i++) {
    shoal_rng_block r = shoal_rng(4, SHOAL_RNG_TEST, i, 0);
    shoal_rng_normal2(r.v[0], r.v[1], g);
    for (int k = 0; k < 2; k++) {
      double x = (double)g[k];
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
    cross += (double)g[0] * (double)g[1];
  }
  /* bounds of five standard deviations */
  CHECK_LT(fabs(sum / (2 * N)), 0.008, "mean %g", sum / (2 * N));
  CHECK_NEAR(squares / (2 * N), 1, 0.012);
  CHECK_NEAR(fourths / (2 * N), 3, 0.08);
  CHECK_LT(fabs(cross / N), 0.012, "covariance %g", cross / N);
  const uint32_t extremes[] = { 0, 1, ~0u };
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      shoal_rng_normal2(extremes[i], extremes[j], g);
      CHECK(isfinite(g[0]), "from %u %u", extremes[i], extremes[j]);
      CHECK(isfinite(g[1]), "from %u %u", extremes[i], extremes[j]);
    }
}

static void test_bijection(uint64_t n)
{
  unsigned char *hit = calloc(n, 1);
  shoal_perm p;
  REQUIRE(hit, "memory");
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    memset(hit, 0, n);
    shoal_perm_init(&p, 42, SHOAL_RNG_ORDER, epoch, n);
    CHECK_GE(UINT64_C(1) << (2 * p.half_bits), n, "%u half bits for %lu", p.half_bits, (unsigned long)n);
    CHECK(n <= 4 || UINT64_C(1) << (2 * p.half_bits) < 4 * n, "%u half bits for %lu", p.half_bits, (unsigned long)n);
    for (uint64_t i = 0; i < n; i++) {
      uint64_t at = shoal_perm_at(&p, i);
      REQUIRE(at < n, "n %lu epoch %lu: %lu -> %lu", (unsigned long)n, (unsigned long)epoch, (unsigned long)i,
              (unsigned long)at);
      REQUIRE(!hit[at], "n %lu epoch %lu: %lu -> %lu", (unsigned long)n, (unsigned long)epoch, (unsigned long)i,
              (unsigned long)at);
      hit[at] = 1;
    }
  }
  free(hit);
}

/* With n = 1000 two random orders agree at one place on average; 20 or more means they are not independent. */
static void test_orders_differ(void)
{
  enum { N = 1000 };
  shoal_perm base, other[4];
  shoal_perm_init(&base, 7, SHOAL_RNG_ORDER, 0, N);
  shoal_perm_init(&other[0], 7, SHOAL_RNG_ORDER, 1, N);
  shoal_perm_init(&other[1], 8, SHOAL_RNG_ORDER, 0, N);
  shoal_perm_init(&other[2], 7, SHOAL_RNG_METHOD, 0, N);
  shoal_perm_init(&other[3], 7, SHOAL_RNG_ORDER, UINT64_C(1) << 32, N);
  for (size_t k = 0; k < SHOAL_COUNT(other); k++) {
    int same = 0;
    for (uint64_t i = 0; i < N; i++) same += shoal_perm_at(&base, i) == shoal_perm_at(&other[k], i);
    CHECK_LT(same, 20, "order %zu agrees at too many places", k);
  }
}

/* Every element must appear about equally often at every place, for small n too, where the network has few bits. */
static void test_uniform(uint64_t n)
{
  enum { EPOCHS = 20000 };
  shoal_perm p;
  uint64_t counts[16][16] = { { 0 } };
  double chi2 = 0, expected = (double)EPOCHS / (double)n;
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
    shoal_perm_init(&p, 9, SHOAL_RNG_ORDER, epoch, n);
    for (uint64_t i = 0; i < n; i++) counts[i][shoal_perm_at(&p, i)]++;
  }
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t j = 0; j < n; j++) chi2 += pow((double)counts[i][j] - expected, 2) / expected;
  /* (n-1)^2 degrees of freedom; five standard deviations */
  double freedom = (double)((n - 1) * (n - 1));
  CHECK_LT(chi2, freedom + 5 * sqrt(2 * freedom) + 5, "n %lu: %g degrees of freedom", (unsigned long)n, freedom);
}

/* The serial correlation of neighbours: a weak network keeps neighbours together. */
static void test_neighbours(void)
{
  enum { N = 50000 };
  shoal_perm p;
  shoal_perm_init(&p, 1, SHOAL_RNG_ORDER, 0, N);
  double sum = 0, before = ((double)shoal_perm_at(&p, 0) + 0.5) / N - 0.5;
  for (uint64_t i = 1; i < N; i++) {
    double now = ((double)shoal_perm_at(&p, i) + 0.5) / N - 0.5;
    sum += now * before;
    before = now;
  }
  CHECK_LT(fabs(12 * sum / N), 5 / sqrt(N), "correlation %g", 12 * sum / N);
}

static void test_pinned_orders(void)
{
  static const struct {
    uint64_t n, first[6];
  } pins[] = {
    { 3, { 1, 2, 0 } },
    { 10, { 5, 4, 0, 2, 1, 7 } },
    { 1003, { 471, 544, 709, 516, 307, 771 } },
    { 65536, { 42811, 48588, 12658, 31861, 6901, 1651 } },
    { 100000, { 95297, 74393, 10512, 2693, 4028, 50975 } },
  };
  for (size_t k = 0; k < SHOAL_COUNT(pins); k++) {
    shoal_perm p;
    shoal_perm_init(&p, 42, SHOAL_RNG_ORDER, 0, pins[k].n);
    for (uint64_t i = 0; i < SHOAL_MIN(pins[k].n, 6u); i++)
      CHECK_EQ(shoal_perm_at(&p, i), pins[k].first[i], "n %lu place %lu", (unsigned long)pins[k].n, (unsigned long)i);
  }
}

int main(void)
{
  const uint64_t sizes[] = { 1, 2, 3, 4, 5, 10, 16, 17, 1003, 65536, 65537, 100000 };
  test_known();
  test_pinned();
  test_unit_and_below();
  test_normal();
  for (size_t k = 0; k < SHOAL_COUNT(sizes); k++) test_bijection(sizes[k]);
  test_orders_differ();
  for (uint64_t n = 2; n <= 16; n += n < 5 ? 1 : 3) test_uniform(n);
  test_neighbours();
  test_pinned_orders();
  return check_done();
}
