/* The modular quantiser against the numbers of its specification: when decoding is right, when it wraps, that wraps are
 * noticed, that stochastic rounding has the right mean, and where every byte lies. */
#include "base/mem.h"
#include "check.h"
#include "method/quant.h"

static const int all_bits[] = { 4, 8, 14, 16 };

static float uniform(uint64_t i, uint32_t step, float width)
{
  shoal_rng_block r = shoal_rng(11, SHOAL_RNG_TEST, i, step);
  return ((float)(r.v[0] >> 8) * 0x1p-24f - 0.5f) * width;
}

static void *room(size_t bytes)
{
  void *p = NULL;
  REQUIRE(shoal_alloc(bytes, 1, "test", &p) == SHOAL_OK, "%zu bytes", bytes);
  return p;
}

/* Encode x, decode near y. */
static size_t send(const shoal_quant *q, size_t n, const float *x, const float *y, float *z, uint8_t *bad)
{
  void *parcel = room(shoal_quant_bytes(q->bits, n));
  shoal_quant_encode(q, n, x, parcel);
  size_t wrong = shoal_quant_decode(q, n, parcel, y, z, bad);
  free(parcel);
  return wrong;
}

static float send_one(const shoal_quant *q, float x, float y, size_t *wrong)
{
  uint8_t bad[1];
  float z;
  *wrong = send(q, 1, &x, &y, &z, bad);
  return z;
}

/* S10, the worked example: s = 0.01, q = 16, x = 0.30. */
static void worked_example(void)
{
  shoal_quant q = { .bits = 4, .spacing = 0.01 };
  static const struct {
    float key, value;
    size_t wrong;
  } rows[] = { { 0.37f, 0.30f, 0 }, { 0.381f, 0.46f, 1 }, { 0.39f, 0.46f, 1 }, { 0.50f, 0.46f, 1 } };
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
    size_t wrong;
    float z = send_one(&q, 0.30f, rows[i].key, &wrong);
    CHECK(fabsf(z - rows[i].value) < 1e-6f, "key %g: %g", (double)rows[i].key, (double)z);
    CHECK(wrong == rows[i].wrong, "key %g: %zu wrong blocks", (double)rows[i].key, wrong);
  }
}

/* S10 for many numbers, negative ones too.  With s a power of two and x, y multiples of s / 64, doubles are exact, so
 * every inequality is meant literally. */
static void windows(int bits)
{
  enum { N = 20000 };
  double s = 0x1p-10, colours = (double)(1 << bits);
  shoal_quant q = { .bits = bits, .spacing = s };
  size_t inside = 0, outside = 0;
  for (uint64_t i = 0; i < N; i++) {
    double x = nearbyint((double)uniform(i, 1, 60) / s * 64) * s / 64;
    double y = x + nearbyint((double)uniform(i, 2, (float)(3 * colours * s)) / s * 64) * s / 64, d = fabs(x - y);
    size_t wrong;
    double z = (double)send_one(&q, (float)x, (float)y, &wrong), k = nearbyint(x / s), off = z / s - k;
    CHECK(fabs(z - y) <= colours * s / 2, "z %g beyond the window of %g", z, y);
    CHECK(z / s == nearbyint(z / s), "z %g is not on the grid", z);
    CHECK(fmod(off, colours) == 0, "colour: off by %g of %g", off, colours);
    CHECK((off != 0) == (wrong != 0), "off by %g, reported %zu", off, wrong);
    if (d < (colours - 1) * s / 2) {
      CHECK(off == 0 && fabs(z - x) <= s / 2, "x %g, key %g: decoded %g", x, y, z);
      inside++;
    } else if (d > (colours + 1) * s / 2) {
      CHECK(off != 0, "x %g, key %g: decoded %g as if it were near", x, y, z);
      outside++;
    }
  }
  CHECK(inside > N / 4 && outside > N / 4, "%zu inside, %zu outside", inside, outside);
}

/* S11: exact consensus decodes to the nearest grid point whatever q is, and `value` says what the receiver sees. */
static void consensus(int bits, bool stochastic)
{
  enum { N = 3 * SHOAL_QUANT_BLOCK + 77 };
  static float x[N], z[N], v[N];
  uint8_t bad[1];
  shoal_quant q = { .bits = bits, .spacing = 0.003, .stochastic = stochastic, .seed = 5, .turn = 9 };
  for (uint64_t i = 0; i < N; i++) x[i] = uniform(i, 3, 8);
  CHECK(send(&q, N, x, x, z, bad) == 0, "consensus is misread");
  shoal_quant_value(&q, 0, N, x, v);
  CHECK(memcmp(v, z, sizeof v) == 0, "%d bits: sender and receiver see different numbers", bits);
  shoal_quant_value(&q, SHOAL_QUANT_BLOCK, N - SHOAL_QUANT_BLOCK, x + SHOAL_QUANT_BLOCK, v);
  CHECK(memcmp(v, z + SHOAL_QUANT_BLOCK, (N - SHOAL_QUANT_BLOCK) * sizeof *v) == 0, "a part is not as in the whole");
  double bound = stochastic ? q.spacing : q.spacing / 2;
  for (size_t i = 0; i < N; i++)
    if (!(fabs((double)z[i] - (double)x[i]) <= bound * (1 + 1e-4)))
      CHECK(false, "x %g, z %g", (double)x[i], (double)z[i]);
}

/* Half-way cases go to the even number, as nearbyint and PyTorch do. */
static void half_even(void)
{
  shoal_quant q = { .bits = 8, .spacing = 1 };
  static const float x[] = { 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.49f, -3.51f };
  static const float expected[] = { 0, 2, 2, 0, -2, -2, 3, -4 };
  float z[SHOAL_COUNT(x)];
  shoal_quant_value(&q, 0, SHOAL_COUNT(x), x, z);
  for (size_t i = 0; i < SHOAL_COUNT(x); i++) CHECK(z[i] == expected[i], "%g -> %g", (double)x[i], (double)z[i]);
}

/* S12: over 2e5 draws the mean is x within 3 standard errors, for several x. */
static void unbiased(void)
{
  enum { DRAWS = 200000 };
  static float x[DRAWS], z[DRAWS];
  static const float points[] = { 0.3f, -0.3f, 0.999f, 17.01f, 2 };
  for (size_t p = 0; p < SHOAL_COUNT(points); p++) {
    shoal_quant q = { .bits = 8, .spacing = 1, .stochastic = true, .seed = 77, .turn = (uint32_t)p };
    double sum = 0, squares = 0, fraction = (double)points[p] - floor((double)points[p]);
    for (size_t i = 0; i < DRAWS; i++) x[i] = points[p];
    shoal_quant_value(&q, 0, DRAWS, x, z);
    for (size_t i = 0; i < DRAWS; i++) {
      sum += (double)z[i];
      squares += ((double)z[i] - (double)x[i]) * ((double)z[i] - (double)x[i]);
    }
    double error = sqrt(fraction * (1 - fraction) / DRAWS);
    CHECK(fabs(sum / DRAWS - (double)points[p]) <= 3 * error, "mean %g of %g, error %g", sum / DRAWS, (double)points[p],
          error);
    CHECK(fabs(squares / DRAWS - fraction * (1 - fraction)) < 0.01, "variance %g", squares / DRAWS);
  }
  /* Another turn, other draws; the same turn, the same. */
  shoal_quant a = { .bits = 8, .spacing = 1, .stochastic = true, .seed = 1, .turn = 1 }, b = a;
  for (size_t i = 0; i < DRAWS; i++) x[i] = 0.5f;
  shoal_quant_value(&a, 0, DRAWS / 2, x, z);
  shoal_quant_value(&b, 0, DRAWS / 2, x, z + DRAWS / 2);
  CHECK(memcmp(z, z + DRAWS / 2, DRAWS / 2 * sizeof *z) == 0, "the same address gives other numbers");
  b.turn = 2;
  shoal_quant_value(&b, 0, DRAWS / 2, x, z + DRAWS / 2);
  CHECK(memcmp(z, z + DRAWS / 2, DRAWS / 2 * sizeof *z) != 0, "turns do not matter");
}

/* S13: every code comes back, and 0x1234 lies where the planar layout puts it. */
static void packing(int bits)
{
  enum { MAX = 70000 };
  static uint16_t codes[MAX], back[MAX];
  static uint8_t bytes[2 * MAX + 1];
  static const size_t lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 4096, 65536, MAX - 1 };
  for (size_t l = 0; l < SHOAL_COUNT(lengths); l++) {
    size_t n = lengths[l], expected = bits == 14 ? n + (6 * n + 7) / 8 : (n * (size_t)bits + 7) / 8;
    for (size_t i = 0; i < n; i++) codes[i] = (uint16_t)(i * 40503 + 4660) & (uint16_t)((1 << bits) - 1);
    CHECK(shoal_quant_packed_bytes(bits, n) == expected, "%zu codes of %d bits", n, bits);
    bytes[expected] = 0xa5;
    shoal_quant_pack(bits, n, codes, bytes);
    CHECK(bytes[expected] == 0xa5, "wrote beyond the end");
    memset(back, 0xff, sizeof back);
    shoal_quant_unpack(bits, n, bytes, back);
    CHECK(memcmp(codes, back, n * sizeof *codes) == 0, "%zu codes of %d bits come back changed", n, bits);
  }
}

static void planar(void)
{
  uint16_t codes[3] = { 0x1234, 0x0056, 0x2b01 };
  uint8_t bytes[6];
  shoal_quant_pack(16, 3, codes, bytes);
  CHECK(bytes[0] == 0x34 && bytes[1] == 0x56 && bytes[2] == 0x01, "plane 0");
  CHECK(bytes[3] == 0x12 && bytes[4] == 0x00 && bytes[5] == 0x2b, "plane 1");
  shoal_quant_pack(14, 3, codes, bytes);
  CHECK(bytes[0] == 0x34 && bytes[1] == 0x56 && bytes[2] == 0x01, "plane 0 of 14 bits");
  CHECK(bytes[3] == 0x12 && bytes[4] == 0xb0 && bytes[5] == 0x02, "six bits each: %02x %02x %02x", bytes[3], bytes[4],
        bytes[5]);
  uint16_t nibbles[3] = { 0xa, 0x5, 0xc };
  shoal_quant_pack(4, 3, nibbles, bytes);
  CHECK(bytes[0] == 0x5a && bytes[1] == 0x0c, "nibbles");
}

/* One wrapped number anywhere marks its block and no other. */
static void detection(int bits)
{
  enum { N = 5 * SHOAL_QUANT_BLOCK + 100 };
  static float x[N], y[N], z[N];
  uint8_t bad[1];
  double s = 0x1p-8;
  shoal_quant q = { .bits = bits, .spacing = s };
  for (size_t i = 0; i < N; i++) x[i] = uniform(i, 4, 4);
  for (size_t trial = 0; trial < 40; trial++) {
    size_t at = (size_t)(trial * 7919 + 13) % N, block = at / SHOAL_QUANT_BLOCK;
    memcpy(y, x, sizeof y);
    y[at] += (float)((trial % 2 ? 1 : -1) * (double)(1 << bits) * s * (1 + (double)(trial % 3)));
    CHECK(send(&q, N, x, y, z, bad) == 1 && bad[0] == 1 << block, "number %zu wrapped: marks %02x", at, bad[0]);
  }
  /* Two that wrap in opposite directions do not hide each other. */
  memcpy(y, x, sizeof y);
  y[8] += (float)((double)(1 << bits) * s);
  y[12] -= (float)((double)(1 << bits) * s);
  CHECK(send(&q, N, x, y, z, bad) == 1 && bad[0] == 1, "two wraps: marks %02x", bad[0]);
}

static int rising(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The hash's factors keep their promise: odd, positive, all different. */
static void factors(void)
{
  static int32_t f[SHOAL_QUANT_BLOCK];
  memcpy(f, shoal_quant_factors(), sizeof f);
  qsort(f, SHOAL_QUANT_BLOCK, sizeof *f, rising);
  for (size_t i = 0; i < SHOAL_QUANT_BLOCK; i++)
    CHECK(f[i] > 0 && f[i] % 2 == 1 && (i == 0 || f[i] != f[i - 1]), "factor %zu: %d", i, f[i]);
}

/* Blocks of moderate numbers go the quick way, and with one large number among them the general one: what both make of
 * the others is the same, parcels included. */
static void two_ways(int bits)
{
  enum { N = SHOAL_QUANT_BLOCK };
  static float x[N], y[N], z[2][N], v[2][N];
  static uint8_t parcel[2][2 * N + 8], bad[1];
  for (int scale = -12; scale <= 4; scale += 4) {
    shoal_quant q = { .bits = bits, .spacing = ldexp(1, scale) };
    for (size_t i = 0; i < N; i++) {
      x[i] = uniform(i, 6, (float)(q.spacing * 40000));
      y[i] = x[i] + uniform(i, 7, (float)(q.spacing * (double)(1 << bits) * 1.05)); /* a few are misread */
    }
    for (int way = 0; way < 2; way++) {
      x[N - 1] = y[N - 1] = way ? (float)(q.spacing * 0x1p30) : 0;
      shoal_quant_encode(&q, N, x, parcel[way]);
      CHECK(shoal_quant_decode(&q, N, parcel[way], y, z[way], bad) == 1, "none misread");
      shoal_quant_value(&q, 0, N, x, v[way]);
    }
    CHECK(memcmp(z[0], z[1], (N - 1) * sizeof *z[0]) == 0, "%d bits, spacing 2^%d: decoded differently", bits, scale);
    CHECK(memcmp(v[0], v[1], (N - 1) * sizeof *v[0]) == 0, "%d bits, spacing 2^%d: other values", bits, scale);
    CHECK(memcmp(parcel[0], parcel[1], shoal_quant_packed_bytes(bits, N) - 8) == 0, "%d bits: other codes", bits);
  }
}

/* S14: sizes by section 10 of the specification, plus 8 bytes of hash per block. */
static void sizes(void)
{
  CHECK(shoal_quant_bytes(8, 25557032) == 25557032 + 8 * 6240, "ResNet50 at 8 bits");
  CHECK(shoal_quant_bytes(16, 11689512) == 2 * 11689512 + 8 * 2854, "ResNet18 at 16 bits");
  CHECK(shoal_quant_bytes(4, 4097) == 2048 + 1 + 16, "a block and a number at 4 bits");
  CHECK(shoal_quant_bytes(14, 4096) == 7168 + 8, "a block at 14 bits");
}

int main(void)
{
  worked_example();
  half_even();
  unbiased();
  planar();
  sizes();
  factors();
  for (size_t b = 0; b < SHOAL_COUNT(all_bits); b++) {
    windows(all_bits[b]);
    consensus(all_bits[b], false);
    consensus(all_bits[b], true);
    packing(all_bits[b]);
    detection(all_bits[b]);
    two_ways(all_bits[b]);
  }
  return check_done();
}
