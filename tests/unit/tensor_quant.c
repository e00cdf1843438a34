/* The modular quantiser against numbers worked out by hand: when decoding is right, when it wraps, that wraps are
 * noticed, that stochastic rounding has the right mean, that every block has a spacing of its own, and where every byte
 * lies. */
#include "base/mem.h"
#include "check.h"
#include "unit/quant_whole.h"

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

/* Encode x, decode near y; every block with the same spacing. */
static size_t send(const shoal_quant *q, int exponent, size_t n, const float *x, const float *y, float *z, uint8_t *bad)
{
  int8_t exponents[64];
  REQUIRE(shoal_quant_blocks(n) <= SHOAL_COUNT(exponents), "%zu numbers", n);
  memset(exponents, exponent, sizeof exponents);
  void *parcel = room(shoal_quant_bytes(q->bits, n));
  encode(q, n, x, exponents, parcel);
  for (size_t b = 0; b < shoal_quant_blocks(n); b++) CHECK_EQ(exponents[b], exponent, "spacing of block %zu", b);
  size_t wrong = decode(q->bits, n, parcel, y, z, bad);
  free(parcel);
  return wrong;
}

static float send_one(const shoal_quant *q, int exponent, float x, float y, size_t *wrong)
{
  uint8_t bad[1];
  float z;
  *wrong = send(q, exponent, 1, &x, &y, &z, bad);
  return z;
}

/* A worked example (s = 0.01, q = 16, x = 0.30), in hundredths: spacings are powers of two here. */
static void worked_example(void)
{
  shoal_quant q = { .bits = 4 };
  static const struct {
    float key, value;
    size_t wrong;
  } rows[] = { { 37, 30, 0 }, { 38.1f, 46, 1 }, { 39, 46, 1 }, { 50, 46, 1 } };
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
    size_t wrong;
    float z = send_one(&q, 0, 30, rows[i].key, &wrong);
    CHECK_EQ(z, rows[i].value, "key %g", (double)rows[i].key);
    CHECK_EQ(wrong, rows[i].wrong, "key %g", (double)rows[i].key);
  }
}

/* The same for many numbers, negative ones too.  With s a power of two and x, y multiples of s / 64, doubles are exact, so
 * every inequality is meant literally. */
static void windows(int bits)
{
  enum { N = 20000 };
  double s = 0x1p-10, colours = (double)(1 << bits);
  shoal_quant q = { .bits = bits };
  size_t inside = 0, outside = 0;
  for (uint64_t i = 0; i < N; i++) {
    double x = nearbyint((double)uniform(i, 1, 60) / s * 64) * s / 64;
    double y = x + nearbyint((double)uniform(i, 2, (float)(3 * colours * s)) / s * 64) * s / 64, d = fabs(x - y);
    size_t wrong;
    double z = (double)send_one(&q, -10, (float)x, (float)y, &wrong), k = nearbyint(x / s), off = z / s - k;
    CHECK_NEAR(z, y, colours * s / 2);
    CHECK_EQ(z / s, nearbyint(z / s), "z %g is not on the grid", z);
    CHECK_EQ(fmod(off, colours), 0, "colour: off by %g of %g", off, colours);
    CHECK_EQ(off != 0, wrong != 0, "off by %g, reported %zu", off, wrong);
    if (d < (colours - 1) * s / 2) {
      CHECK_EQ(off, 0, "key %g", y);
      CHECK_NEAR(z, x, s / 2, "key %g", y);
      inside++;
    } else if (d > (colours + 1) * s / 2) {
      CHECK_NE(off, 0, "x %g, key %g: decoded %g as if it were near", x, y, z);
      outside++;
    }
  }
  CHECK_GT(inside, N / 4);
  CHECK_GT(outside, N / 4);
}

/* Exact consensus decodes to the nearest grid point whatever q is, and `value` says what the receiver sees. */
static void consensus(int bits, bool stochastic)
{
  enum { N = 3 * SHOAL_QUANT_BLOCK + 77 };
  static float x[N], z[N], v[N];
  static const int8_t exponents[4] = { -8, -8, -8, -8 };
  uint8_t bad[1];
  shoal_quant q = { .bits = bits, .stochastic = stochastic, .seed = 5, .turn = 9 };
  for (uint64_t i = 0; i < N; i++) x[i] = uniform(i, 3, 8);
  CHECK_EQ(send(&q, -8, N, x, x, z, bad), 0, "consensus is misread");
  shoal_quant_value(&q, 0, N, x, exponents, v);
  CHECK_BYTES(v, z, sizeof v, "%d bits: sender and receiver see different numbers", bits);
  shoal_quant_value(&q, SHOAL_QUANT_BLOCK, N - SHOAL_QUANT_BLOCK, x + SHOAL_QUANT_BLOCK, exponents, v);
  CHECK_BYTES(v, z + SHOAL_QUANT_BLOCK, (N - SHOAL_QUANT_BLOCK) * sizeof *v, "a part is not as in the whole");
  double bound = stochastic ? 0x1p-8 : 0x1p-9;
  for (size_t i = 0; i < N; i++)
    if (!(fabs((double)z[i] - (double)x[i]) <= bound)) CHECK(false, "x %g, z %g", (double)x[i], (double)z[i]);
}

/* Half-way cases go to the even number, as nearbyint and PyTorch do. */
static void half_even(void)
{
  shoal_quant q = { .bits = 8 };
  static const int8_t one = 0;
  static const float x[] = { 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.49f, -3.51f };
  static const float expected[] = { 0, 2, 2, 0, -2, -2, 3, -4 };
  float z[SHOAL_COUNT(x)];
  shoal_quant_value(&q, 0, SHOAL_COUNT(x), x, &one, z);
  for (size_t i = 0; i < SHOAL_COUNT(x); i++) CHECK_EQ(z[i], expected[i], "%g", (double)x[i]);
}

/* Over 2e5 draws the mean is x within 3 standard errors, for several x. */
static void unbiased(void)
{
  enum { DRAWS = 200000 };
  static float x[DRAWS], z[DRAWS];
  static const int8_t ones[(DRAWS + SHOAL_QUANT_BLOCK - 1) / SHOAL_QUANT_BLOCK]; /* exponent 0 */
  static const float points[] = { 0.3f, -0.3f, 0.999f, 17.01f, 2 };
  for (size_t p = 0; p < SHOAL_COUNT(points); p++) {
    shoal_quant q = { .bits = 8, .stochastic = true, .seed = 77, .turn = (uint32_t)p };
    double sum = 0, squares = 0, fraction = (double)points[p] - floor((double)points[p]);
    for (size_t i = 0; i < DRAWS; i++) x[i] = points[p];
    shoal_quant_value(&q, 0, DRAWS, x, ones, z);
    for (size_t i = 0; i < DRAWS; i++) {
      sum += (double)z[i];
      squares += ((double)z[i] - (double)x[i]) * ((double)z[i] - (double)x[i]);
    }
    double error = sqrt(fraction * (1 - fraction) / DRAWS);
    CHECK_NEAR(sum / DRAWS, (double)points[p], 3 * error, "error %g", error);
    CHECK_NEAR(squares / DRAWS, fraction * (1 - fraction), 0.01);
  }
  /* Another turn, other draws; the same turn, the same. */
  shoal_quant a = { .bits = 8, .stochastic = true, .seed = 1, .turn = 1 }, b = a;
  for (size_t i = 0; i < DRAWS; i++) x[i] = 0.5f;
  shoal_quant_value(&a, 0, DRAWS / 2, x, ones, z);
  shoal_quant_value(&b, 0, DRAWS / 2, x, ones, z + DRAWS / 2);
  CHECK_BYTES(z, z + DRAWS / 2, DRAWS / 2 * sizeof *z, "the same address gives other numbers");
  b.turn = 2;
  shoal_quant_value(&b, 0, DRAWS / 2, x, ones, z + DRAWS / 2);
  CHECK(memcmp(z, z + DRAWS / 2, DRAWS / 2 * sizeof *z) != 0, "turns do not matter");
}

/* Every code comes back, and 0x1234 lies where the planar layout puts it. */
static void packing(int bits)
{
  enum { MAX = 70000 };
  static uint16_t codes[MAX], back[MAX];
  static uint8_t bytes[2 * MAX + 1];
  static const size_t lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 4096, 65536, MAX - 1 };
  for (size_t l = 0; l < SHOAL_COUNT(lengths); l++) {
    size_t n = lengths[l], expected = bits == 14 ? n + (6 * n + 7) / 8 : (n * (size_t)bits + 7) / 8;
    for (size_t i = 0; i < n; i++) codes[i] = (uint16_t)(i * 40503 + 4660) & (uint16_t)((1 << bits) - 1);
    CHECK_EQ(shoal_quant_packed_bytes(bits, n), expected, "%zu codes of %d bits", n, bits);
    bytes[expected] = 0xa5;
    shoal_quant_pack(bits, n, codes, bytes);
    CHECK_EQ(bytes[expected], 0xa5, "wrote beyond the end");
    memset(back, 0xff, sizeof back);
    shoal_quant_unpack(bits, n, bytes, back);
    CHECK_BYTES(codes, back, n * sizeof *codes, "%zu codes of %d bits come back changed", n, bits);
  }
}

static void planar(void)
{
  uint16_t codes[3] = { 0x1234, 0x0056, 0x2b01 };
  uint8_t bytes[6];
  shoal_quant_pack(16, 3, codes, bytes);
  CHECK_BYTES(bytes, ((const uint8_t[]){ 0x34, 0x56, 0x01, 0x12, 0x00, 0x2b }), 6, "two planes of 8 bits");
  shoal_quant_pack(14, 3, codes, bytes);
  CHECK_BYTES(bytes, ((const uint8_t[]){ 0x34, 0x56, 0x01, 0x12, 0xb0, 0x02 }), 6, "8 bits, then six of each");
  uint16_t nibbles[3] = { 0xa, 0x5, 0xc };
  shoal_quant_pack(4, 3, nibbles, bytes);
  CHECK_BYTES(bytes, ((const uint8_t[]){ 0x5a, 0x0c }), 2, "nibbles");
}

/* One wrapped number anywhere marks its block and no other. */
static void detection(int bits)
{
  enum { N = 5 * SHOAL_QUANT_BLOCK + 100 };
  static float x[N], y[N], z[N];
  uint8_t bad[1];
  double s = 0x1p-8;
  shoal_quant q = { .bits = bits };
  for (size_t i = 0; i < N; i++) x[i] = uniform(i, 4, 4);
  for (size_t trial = 0; trial < 40; trial++) {
    size_t at = (size_t)(trial * 7919 + 13) % N, block = at / SHOAL_QUANT_BLOCK;
    memcpy(y, x, sizeof y);
    y[at] += (float)((trial % 2 ? 1 : -1) * (double)(1 << bits) * s * (1 + (double)(trial % 3)));
    CHECK_EQ(send(&q, -8, N, x, y, z, bad), 1, "number %zu wrapped", at);
    CHECK_EQ(bad[0], 1 << block, "number %zu wrapped", at);
  }
  /* Two that wrap in opposite directions do not hide each other. */
  memcpy(y, x, sizeof y);
  y[8] += (float)((double)(1 << bits) * s);
  y[12] -= (float)((double)(1 << bits) * s);
  CHECK_EQ(send(&q, -8, N, x, y, z, bad), 1, "two wraps");
  CHECK_EQ(bad[0], 1);
}

static int rising(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The hash's factors are odd, positive and all different. */
static void factors(void)
{
  static int32_t f[SHOAL_QUANT_BLOCK + 1];
  memcpy(f, shoal_quant_factors(), sizeof f);
  qsort(f, SHOAL_COUNT(f), sizeof *f, rising);
  for (size_t i = 0; i < SHOAL_COUNT(f); i++) {
    CHECK_GT(f[i], 0, "factor %zu", i);
    CHECK_EQ(f[i] % 2, 1, "factor %zu", i);
    CHECK(i == 0 || f[i] != f[i - 1], "factor %zu: %d", i, f[i]);
  }
}

/* Every byte of a parcel of two blocks with different spacings, the second of three numbers.  The sums are done by hand:
 * factors are 31-bit numbers f; a hash is n + e f_4096 + k_0 f_0 + k_1 f_1 + ... modulo 2^56. */
static void wire(void)
{
  enum { N = SHOAL_QUANT_BLOCK + 3 };
  static float x[N] = { 0.5f, -1.5f }, z[N]; /* k = 1, -3 of 2^-1 */
  static uint8_t parcel[N + 16], expected[N + 16] = { 0x01, 0xfd };
  static const uint8_t end0[8] = { 0xdb, 0xb9, 0x44, 0x5d, 0xfe, 0xff, 0xff, 0xff },
                       block1[3 + 8] = { 0x2c, 0xff, 0x00, 0xec, 0xff, 0xd0, 0x56, 0x3a, 0x00, 0x00, 0xf6 };
  int8_t exponents[2] = { -1, -10 };
  uint8_t bad[1];
  x[N - 3] = 300 * 0x1p-10f; /* code 300 - 256 = 0x2c */
  x[N - 2] = -0x1p-10f;      /* code 0xff */
  x[N - 1] = 0.4f * 0x1p-10f;
  memcpy(expected + SHOAL_QUANT_BLOCK, end0, sizeof end0);
  memcpy(expected + SHOAL_QUANT_BLOCK + 8, block1, sizeof block1);
  CHECK_EQ(shoal_quant_bytes(8, N), sizeof parcel);
  encode(&(shoal_quant){ .bits = 8 }, N, x, exponents, parcel);
  for (size_t i = 0; i < sizeof parcel; i++) CHECK_EQ(parcel[i], expected[i], "byte %zu", i);
  CHECK_EQ(decode(8, N, parcel, x, z, bad), 0, "not read");
  CHECK_EQ(bad[0], 0);
  static const size_t kept[] = { 0, 1, N - 3, N - 2 };
  for (size_t i = 0; i < SHOAL_COUNT(kept); i++) CHECK_EQ(z[kept[i]], x[kept[i]], "number %zu", kept[i]);
  CHECK_EQ(z[N - 1], 0);
}

/* Blocks of spacings from 2^-30 to 2^20 in one parcel, numbers of up to 2^20 spacings, keys up to the edge of the window:
 * each number comes back as s k, by double arithmetic, and within s_b / 2 (stochastic: less than s_b) of what it was. */
static void guarantee(int bits, bool stochastic)
{
  enum { BLOCKS = 11, N = BLOCKS * SHOAL_QUANT_BLOCK - 1000 };
  static float x[N], y[N], z[N], v[N];
  static uint8_t parcel[2 * N + 8 * BLOCKS], bad[(BLOCKS + 7) / 8];
  static int8_t e[BLOCKS];
  shoal_quant q = { .bits = bits, .stochastic = stochastic, .seed = 3, .turn = 4 };
  float window = (float)((1 << bits) - (stochastic ? 2 : 1)) * 0.999f; /* of y - x, in spacings, all its width */
  for (size_t i = 0; i < N; i++) {
    e[i / SHOAL_QUANT_BLOCK] = (int8_t)((int)(i / SHOAL_QUANT_BLOCK) * 5 - 30);
    float s = ldexpf(1, e[i / SHOAL_QUANT_BLOCK]);
    x[i] = s * uniform(i, 8, i % 3 ? 0x1p20f : 50);
    y[i] = x[i] + s * uniform(i, 9, window);
  }
  encode(&q, N, x, e, parcel);
  CHECK_EQ(decode(bits, N, parcel, y, z, bad), 0, "%d bits: blocks are misread", bits);
  shoal_quant_value(&q, 0, N, x, e, v);
  CHECK_BYTES(v, z, sizeof v, "%d bits: sender and receiver see different numbers", bits);
  for (size_t i = 0; i < N; i++) {
    int wanted = (int)(i / SHOAL_QUANT_BLOCK) * 5 - 30;
    double s = ldexp(1, wanted), error = fabs((double)z[i] - (double)x[i]), k = (double)z[i] / s;
    bool right = stochastic ? error < s && k == nearbyint(k) : error <= s / 2 && k == nearbyint((double)x[i] / s);
    if (!right || e[i / SHOAL_QUANT_BLOCK] != wanted)
      CHECK(false, "%d bits, spacing %g: x %g, z %g", bits, s, (double)x[i], (double)z[i]);
  }
}

/* A spacing too fine for the numbers of its block is raised, for that block, to the least that fits; numbers without any
 * go in full. */
static void too_fine(void)
{
  enum { N = 7 * SHOAL_QUANT_BLOCK };
  static const float large[7] = { 0, 0x1.fffffep20f, 0x1p21f, 0x1p40f, 0x1p121f, INFINITY, -NAN };
  static const int expected[7] = { 0, 0, 1, 20, SHOAL_QUANT_FULL, SHOAL_QUANT_FULL, SHOAL_QUANT_FULL };
  static float x[N], y[N], z[N];
  static uint8_t parcel[N + 8 * 7], bad[1];
  for (int stochastic = 0; stochastic < 2; stochastic++) {
    int8_t e[7] = { 0 };
    shoal_quant q = { .bits = 8, .stochastic = stochastic == 1 };
    for (size_t i = 0; i < N; i++) x[i] = i % 1000 == 77 ? large[i / SHOAL_QUANT_BLOCK] : uniform(i, 10, 100);
    encode(&q, N, x, e, parcel);
    memcpy(y, x, sizeof y);
    y[3] = 0x1p22f; /* a key this far off was never meant, whatever its colour */
    CHECK_EQ(decode(8, N, parcel, y, z, bad), 4, "bad blocks");
    CHECK_EQ(bad[0], 0x71);
    CHECK_EQ(z[3], y[3], "a bad block");
    shoal_quant_value(&q, 0, N, x, e, z);
    for (size_t b = 0; b < 7; b++) {
      CHECK_EQ(e[b], expected[b], "%g", (double)large[b]);
      double s = e[b] == SHOAL_QUANT_FULL ? 0 : ldexp(stochastic ? 1 : 0.5, e[b]);
      for (size_t i = b * SHOAL_QUANT_BLOCK; i < (b + 1) * SHOAL_QUANT_BLOCK; i++)
        if (!(fabs((double)z[i] - (double)x[i]) <= s) && memcmp(&z[i], &x[i], sizeof *x) != 0)
          CHECK(false, "block %zu: x %g, value %g", b, (double)x[i], (double)z[i]);
    }
  }
}

/* Another exponent on the wire is noticed, even where all grid numbers are so small that they would stay the same, and
 * leaves nothing but finite numbers; so do a parcel of random bytes, and NaN and infinite keys except at their own
 * places. */
static void damage(int bits)
{
  enum { N = 100 };
  float x[N], y[N], z[N];
  uint8_t parcel[2 * N + 8], bad[1];
  int8_t e = -6;
  for (size_t i = 0; i < N; i++) x[i] = (float)((int)(i % 5) - 2) * 0x1p-6f;
  size_t bytes = shoal_quant_bytes(bits, N), last = bytes - 1;
  encode(&(shoal_quant){ .bits = bits }, N, x, &e, parcel);
  CHECK_EQ(parcel[last], 0xfa);
  for (unsigned byte = 0; byte < 256; byte++) {
    parcel[last] = (uint8_t)byte;
    size_t wrong = decode(bits, N, parcel, x, z, bad);
    CHECK_EQ(wrong, byte != 0xfa, "%d bits, exponent byte %02x", bits, byte);
    for (size_t i = 0; i < N; i++) CHECK(isfinite(z[i]), "exponent byte %02x: %g", byte, (double)z[i]);
  }
  parcel[last] = 0xfa;
  static const float strange[] = { NAN, INFINITY, -INFINITY, 0x1.fffffep127f, -0x1p-149f };
  for (size_t k = 0; k < SHOAL_COUNT(strange); k++) {
    memcpy(y, x, sizeof y);
    y[50] = strange[k];
    CHECK_EQ(decode(bits, N, parcel, y, z, bad), k < 4, "key %g", (double)strange[k]);
  }
  for (uint32_t trial = 0; trial < 2000; trial++) {
    for (size_t i = 0; i < bytes; i++) parcel[i] = (uint8_t)shoal_rng(12, SHOAL_RNG_TEST, i, trial).v[0];
    for (size_t i = 0; i < N; i++) y[i] = uniform(i, trial, ldexpf(1, (int)(trial % 240) - 120));
    CHECK_EQ(decode(bits, N, parcel, y, z, bad), 1, "noise is taken for a parcel");
    CHECK_EQ(bad[0], 1);
    for (size_t i = 0; i < N; i++) CHECK(isfinite(z[i]), "noise becomes %g", (double)z[i]);
  }
}

/* The codes, and 8 bytes of hash and exponent for each block. */
static void sizes(void)
{
  CHECK_EQ(shoal_quant_bytes(8, 25557032), 25557032 + 8 * 6240, "ResNet50 at 8 bits");
  CHECK_EQ(shoal_quant_bytes(16, 11689512), 2 * 11689512 + 8 * 2854, "ResNet18 at 16 bits");
  CHECK_EQ(shoal_quant_bytes(4, 4097), 2048 + 1 + 16, "a block and a number at 4 bits");
  CHECK_EQ(shoal_quant_bytes(14, 4096), 7168 + 8, "a block at 14 bits");
}

int main(void)
{
  worked_example();
  half_even();
  unbiased();
  planar();
  wire();
  too_fine();
  sizes();
  factors();
  for (size_t b = 0; b < SHOAL_COUNT(all_bits); b++) {
    windows(all_bits[b]);
    consensus(all_bits[b], false);
    consensus(all_bits[b], true);
    packing(all_bits[b]);
    detection(all_bits[b]);
    guarantee(all_bits[b], false);
    guarantee(all_bits[b], true);
    damage(all_bits[b]);
  }
  return check_done();
}
