/* See quant.h.  A block at a time: whole grid numbers in a buffer on the stack, then codes, then bytes.
 *
 * Rounding without a library call: adding 1.5 * 2^52 pushes the fraction out of a double's mantissa, so the hardware's
 * own round-to-even does the work, and what is left in the mantissa is the whole number.  1.5 * 2^23 does the same for
 * floats up to 2^22.
 *
 * There are two ways through a block with the same results.  The general one works in double.  The quick one works in
 * f32 and 32-bit numbers, eight or sixteen side by side; it needs a spacing that is a power of two, so that products with
 * it are exact, and grid numbers below 2^22, and is taken where both hold (block by block), since it is several times
 * faster.  Decoding there: the key is grid number ky and a rest r, |r| <= 1/2; the nearest point of the colour is
 * ky + w or ky + w - q with w = (colour - ky) mod q, whichever is nearer to ky + r. */
#include "method/quant.h"
#include "base/mem.h"
#include "base/wide.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

static const double push = 0x1.8p52;
static const float push_f = 0x1.8p23f;

static inline int64_t whole(double pushed)
{
  int64_t bits;
  memcpy(&bits, &pushed, sizeof bits);
  return bits - INT64_C(0x4338000000000000); /* of `push` */
}

static inline int32_t whole_f(float pushed)
{
  int32_t bits;
  memcpy(&bits, &pushed, sizeof bits);
  return bits - 0x4b400000; /* of `push_f` */
}

/* ----------------------------------------------------------------------------------------------------------- hash */

/* Sum of number times factor, modulo 2^64.  Factors are odd, below 2^31, all different and otherwise random: one or two
 * numbers that are off by q always show, more of them with all but certainty (2^-31 or so). */
static int32_t factor[SHOAL_QUANT_BLOCK];
static pthread_once_t factors_once = PTHREAD_ONCE_INIT;

static void make_factors(void)
{
  for (uint64_t i = 0; i < SHOAL_QUANT_BLOCK; i++)
    factor[i] = (int32_t)(shoal_rng_seed(UINT64_C(0x5bd1e995), i) >> 33 | 1);
}

const int32_t *shoal_quant_factors(void)
{
  pthread_once(&factors_once, make_factors);
  return factor;
}

static uint64_t hash(size_t n, const int64_t *k)
{
  uint64_t h = n;
  for (size_t i = 0; i < n; i++) h += (uint64_t)k[i] * (uint64_t)factor[i];
  return h;
}

SHOAL_WIDE static uint64_t hash_f(size_t n, const int32_t *k)
{
  int64_t h = (int64_t)n;
  for (size_t i = 0; i < n; i++) h += (int64_t)k[i] * (int64_t)factor[i]; /* |h| < 2^12 * 2^22 * 2^31: no overflow */
  return (uint64_t)h;
}

static void put_u64(uint8_t *to, uint64_t v)
{
  for (int i = 0; i < 8; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_u64(const uint8_t *from)
{
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)from[i] << 8 * i;
  return v;
}

/* ------------------------------------------------------------------------------------------------- the general way */

static void round_nearest(double s, size_t n, const float *x, int64_t *k)
{
  for (size_t i = 0; i < n; i++) k[i] = whole((double)x[i] / s + push);
}

/* floor(x / s + U).  One Philox block serves four numbers; U has 32 bits and the half of a step, so it is never 0. */
static void round_stochastic(const shoal_quant *q, size_t first, size_t n, const float *x, int64_t *k)
{
  shoal_rng_block r = { { 0 } };
  for (size_t i = 0; i < n; i++) {
    if (i % 4 == 0) r = shoal_rng(q->seed, SHOAL_RNG_ROUND, (first + i) / 4, q->turn);
    double v = (double)x[i] / q->spacing + ((double)r.v[i % 4] + 0.5) * 0x1p-32;
    double near = v + push;
    k[i] = whole(near) - (near - push > v);
  }
}

static void grid_numbers(const shoal_quant *q, size_t first, size_t n, const float *x, int64_t *k)
{
  if (q->stochastic)
    round_stochastic(q, first, n, x, k);
  else
    round_nearest(q->spacing, n, x, k);
}

/* m = round((y/s - c) / q), k = c + q m, z = s k */
static void decode_numbers(const shoal_quant *q, size_t n, const uint16_t *codes, const float *y, int64_t *k, float *z)
{
  double colours = (double)(1 << q->bits), s = q->spacing;
  for (size_t i = 0; i < n; i++) {
    double m = ((double)y[i] / s - (double)codes[i]) / colours + push;
    k[i] = (int64_t)codes[i] + (int64_t)((uint64_t)whole(m) << q->bits);
    z[i] = (float)(s * (double)k[i]);
  }
}

/* --------------------------------------------------------------------------------------------------- the quick way */

/* The largest |x| as bits: they order like the numbers, and what is not a number is above all. */
SHOAL_WIDE static int32_t largest_bits(size_t n, const float *x)
{
  int32_t largest = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= INT32_MAX;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

static bool quick(const shoal_quant *q, size_t n, const float *x)
{
  int exponent;
  if (frexp(q->spacing, &exponent) != 0.5 || exponent < -100 || exponent > 100) return false;
  int32_t bits = largest_bits(n, x);
  float largest;
  memcpy(&largest, &bits, sizeof largest);
  return (double)largest / q->spacing < 0x1p22 - 0x1p17; /* with room for half a window on top */
}

SHOAL_WIDE static void round_quick(float inverse, size_t n, const float *x, int32_t *k)
{
  for (size_t i = 0; i < n; i++) k[i] = whole_f(x[i] * inverse + push_f);
}

SHOAL_WIDE static void codes_quick(uint32_t mask, size_t n, const int32_t *k, uint16_t *codes)
{
  for (size_t i = 0; i < n; i++) codes[i] = (uint16_t)((uint32_t)k[i] & mask); /* floor modulus */
}

SHOAL_WIDE static void value_quick(float s, size_t n, const float *x, float *z)
{
  float inverse = 1 / s;
  for (size_t i = 0; i < n; i++) z[i] = s * (x[i] * inverse + push_f - push_f);
}

SHOAL_WIDE static void decode_quick(int bits, float s, size_t n, const uint16_t *codes, const float *y, int32_t *k,
                                    float *z)
{
  const float inverse = 1 / s;
  const int32_t q = 1 << bits;
  for (size_t i = 0; i < n; i++) {
    float t = y[i] * inverse, pushed = t + push_f;
    int32_t ky = whole_f(pushed), w = (codes[i] - ky) & (q - 1);
    float rest = t - (pushed - push_f);
    int32_t beyond = (float)w - rest > (float)q * 0.5f ? q : 0;
    k[i] = ky + w - beyond;
    z[i] = s * (float)k[i];
  }
}

/* -------------------------------------------------------------------------------------------------------- parcels */

size_t shoal_quant_blocks(size_t n)
{
  return (n + SHOAL_QUANT_BLOCK - 1) / SHOAL_QUANT_BLOCK;
}

size_t shoal_quant_bytes(int bits, size_t n)
{
  size_t whole_blocks = n / SHOAL_QUANT_BLOCK, rest = n % SHOAL_QUANT_BLOCK;
  return whole_blocks * shoal_quant_packed_bytes(bits, SHOAL_QUANT_BLOCK) + shoal_quant_packed_bytes(bits, rest) +
         8 * shoal_quant_blocks(n);
}

/* Codes and hash of one block, whose first number is number `first` of the parcel. */
static uint64_t encode_block(const shoal_quant *q, size_t first, size_t n, const float *x, uint16_t *codes)
{
  uint32_t mask = (UINT32_C(1) << q->bits) - 1;
  if (!q->stochastic && quick(q, n, x)) {
    int32_t k[SHOAL_QUANT_BLOCK];
    round_quick((float)(1 / q->spacing), n, x, k);
    codes_quick(mask, n, k, codes);
    return hash_f(n, k);
  }
  int64_t k[SHOAL_QUANT_BLOCK];
  grid_numbers(q, first, n, x, k);
  for (size_t i = 0; i < n; i++) codes[i] = (uint16_t)((uint64_t)k[i] & mask);
  return hash(n, k);
}

static uint64_t decode_block(const shoal_quant *q, size_t n, const uint16_t *codes, const float *y, float *z)
{
  if (quick(q, n, y)) {
    int32_t k[SHOAL_QUANT_BLOCK];
    decode_quick(q->bits, (float)q->spacing, n, codes, y, k, z);
    return hash_f(n, k);
  }
  int64_t k[SHOAL_QUANT_BLOCK];
  decode_numbers(q, n, codes, y, k, z);
  return hash(n, k);
}

void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, void *out)
{
  uint16_t codes[SHOAL_QUANT_BLOCK];
  uint8_t *to = out;
  (void)shoal_quant_factors();
  for (size_t at = 0; at < n; at += SHOAL_QUANT_BLOCK) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    uint64_t h = encode_block(q, at, count, x + at, codes);
    shoal_quant_pack(q->bits, count, codes, to);
    to += shoal_quant_packed_bytes(q->bits, count);
    put_u64(to, h);
    to += 8;
  }
}

size_t shoal_quant_decode(const shoal_quant *q, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad)
{
  uint16_t codes[SHOAL_QUANT_BLOCK];
  const uint8_t *from = parcel;
  size_t wrong = 0;
  (void)shoal_quant_factors();
  memset(bad, 0, (shoal_quant_blocks(n) + 7) / 8);
  for (size_t at = 0, b = 0; at < n; at += SHOAL_QUANT_BLOCK, b++) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    shoal_quant_unpack(q->bits, count, from, codes);
    from += shoal_quant_packed_bytes(q->bits, count);
    if (decode_block(q, count, codes, y + at, z + at) != get_u64(from)) {
      bad[b / 8] |= (uint8_t)(1 << b % 8);
      wrong++;
    }
    from += 8;
  }
  return wrong;
}

static void value_block(const shoal_quant *q, size_t first, size_t n, const float *x, float *z)
{
  if (!q->stochastic && quick(q, n, x)) {
    value_quick((float)q->spacing, n, x, z);
    return;
  }
  int64_t k[SHOAL_QUANT_BLOCK];
  grid_numbers(q, first, n, x, k);
  for (size_t i = 0; i < n; i++) z[i] = (float)(q->spacing * (double)k[i]);
}

void shoal_quant_value(const shoal_quant *q, size_t first, size_t n, const float *x, float *z)
{
  for (size_t at = 0; at < n; at += SHOAL_QUANT_BLOCK)
    value_block(q, first + at, SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK), x + at, z + at);
}
