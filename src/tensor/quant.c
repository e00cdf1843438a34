/* See quant.h.  Works block by block: integer grid points in a stack buffer, then codes, then bytes.
 *
 * All arithmetic is f32 and int32, in SIMD lanes of eight or sixteen.  A spacing is a power of two, so products with it
 * are exact; encode keeps grid points below 2^21.  Adding 1.5 * 2^23 shifts the fraction out of a float's mantissa, so
 * the hardware rounds to nearest even and the mantissa holds the integer; this is valid up to 2^22.
 *
 * Decoding: the key is grid point ky plus a remainder r, |r| <= 1/2; the nearest point of the colour is ky + w or ky +
 * w - q with w = (colour - ky) mod q, whichever is nearer to ky + r.  A key beyond 2^22 - 1 spacings is at least 2^21 -
 * 1 of them from any grid point that can be sent, far outside every window: such a block is bad without further
 * checks. */
#include "tensor/quant.h"
#include "base/mem.h"
#include "base/wide.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { MOST_BITS = 21 }; /* grid points sent are below 2^21 */
static const double push = 0x1.8p52;
static const float push_f = 0x1.8p23f;

static inline int32_t whole_f(float pushed)
{
  int32_t bits;
  memcpy(&bits, &pushed, sizeof bits);
  return bits - 0x4b400000; /* of `push_f` */
}

/* ----------------------------------------------------------------------------------------------------------- hash */

/* Sum of grid point times factor, modulo 2^56.  Factors are odd, below 2^31, distinct and otherwise random: one or two
 * grid points that are off by q are always detected, more of them except with probability about 2^-31.  The exponent is
 * hashed as one more value: small grid points may decode to the same integers with another spacing. */
static int32_t factor[SHOAL_QUANT_BLOCK + 1];
static pthread_once_t factors_once = PTHREAD_ONCE_INIT;

static void make_factors(void)
{
  for (uint64_t i = 0; i <= SHOAL_QUANT_BLOCK; i++)
    factor[i] = (int32_t)(shoal_rng_seed(UINT64_C(0x5bd1e995), i) >> 33 | 1);
}

const int32_t *shoal_quant_factors(void)
{
  pthread_once(&factors_once, make_factors);
  return factor;
}

SHOAL_WIDE static uint64_t sum_of_products(size_t n, const int32_t *k)
{
  uint64_t h = 0;
  for (size_t i = 0; i < n; i++) h += (uint64_t)((int64_t)k[i] * (int64_t)factor[i]);
  return h;
}

/* The trailer of a block: the hash, with the exponent in the upper byte. */
static uint64_t seal(size_t n, const int32_t *k, int exponent)
{
  uint64_t h = n + (uint64_t)((int64_t)exponent * factor[SHOAL_QUANT_BLOCK]) + sum_of_products(n, k);
  return (h & (UINT64_MAX >> 8)) | (uint64_t)(uint8_t)exponent << 56;
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

/* -------------------------------------------------------------------------------------------------------- numbers */

SHOAL_WIDE int32_t shoal_quant_largest_bits(size_t n, const float *x)
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

/* The exponent a block can be sent with, at least `wanted`; FULL if there is none. */
static int8_t fitting(int wanted, size_t n, const float *x)
{
  int beyond =
      (shoal_quant_largest_bits(n, x) >> 23) - 126; /* |x| < 2^beyond; 129 for infinity and NaN, which never fits */
  int least = SHOAL_MAX(beyond - MOST_BITS, SHOAL_QUANT_FINEST), e = SHOAL_MAX(wanted, least);
  return (int8_t)(e <= SHOAL_QUANT_COARSEST ? e : SHOAL_QUANT_FULL);
}

SHOAL_WIDE static void round_nearest(float inverse, size_t n, const float *x, int32_t *k)
{
  for (size_t i = 0; i < n; i++) k[i] = whole_f(x[i] * inverse + push_f);
}

/* floor(x / s + U).  One Philox block gives four values; U has 32 bits plus half a step, so it is never 0. */
static void round_stochastic(const shoal_quant *q, float inverse, size_t first, size_t n, const float *x, int32_t *k)
{
  shoal_rng_block r = { { 0 } };
  for (size_t i = 0; i < n; i++) {
    if (i % 4 == 0) r = shoal_rng(q->seed, SHOAL_RNG_ROUND, (first + i) / 4, q->turn);
    double v = (double)x[i] * (double)inverse + ((double)r.v[i % 4] + 0.5) * 0x1p-32;
    double near = (v + push) - push;
    k[i] = (int32_t)near - (near > v);
  }
}

static void grid_numbers(const shoal_quant *q, int exponent, size_t first, size_t n, const float *x, int32_t *k)
{
  float inverse = ldexpf(1, -exponent);
  if (q->stochastic)
    round_stochastic(q, inverse, first, n, x, k);
  else
    round_nearest(inverse, n, x, k);
}

SHOAL_WIDE static void colour(uint32_t mask, size_t n, const int32_t *k, uint16_t *codes)
{
  for (size_t i = 0; i < n; i++) codes[i] = (uint16_t)((uint32_t)k[i] & mask); /* floored modulo */
}

SHOAL_WIDE static void points(float s, size_t n, const int32_t *k, float *z)
{
  for (size_t i = 0; i < n; i++) z[i] = s * (float)k[i];
}

SHOAL_WIDE static void nearest_points(float s, float inverse, size_t n, const float *x, float *z)
{
  for (size_t i = 0; i < n; i++) z[i] = s * (x[i] * inverse + push_f - push_f);
}

SHOAL_WIDE static void points_near(int bits, float s, float inverse, size_t n, const uint16_t *codes, const float *y,
                                   int32_t *k, float *z)
{
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

/* Writes the codes of one block, whose first element is element `first` of the parcel; returns its trailer. */
static uint64_t encode_block(const shoal_quant *q, size_t first, size_t n, const float *x, int8_t *exponent,
                             uint16_t *codes)
{
  int32_t k[SHOAL_QUANT_BLOCK];
  *exponent = fitting(*exponent, n, x);
  if (*exponent == SHOAL_QUANT_FULL) {
    memset(codes, 0, n * sizeof *codes);
    return (uint64_t)SHOAL_QUANT_FULL << 56;
  }
  grid_numbers(q, *exponent, first, n, x, k);
  colour((UINT32_C(1) << q->bits) - 1, n, k, codes);
  return seal(n, k, *exponent);
}

/* Returns false if the result does not have the sender's hash. */
static bool decode_block(int bits, size_t n, const uint16_t *codes, uint64_t end, const float *y, float *z)
{
  int32_t k[SHOAL_QUANT_BLOCK];
  int exponent = (int)(end >> 56 ^ 0x80) - 0x80; /* sign-extended byte */
  bool sound = exponent >= SHOAL_QUANT_FINEST && exponent <= SHOAL_QUANT_COARSEST;
  float inverse = sound ? ldexpf(1, -exponent) : 0;
  int32_t largest = shoal_quant_largest_bits(n, y);
  float key;
  memcpy(&key, &largest, sizeof key);
  if (!sound || !(key * inverse < 0x1p22f - 1)) {
    memcpy(z, y, n * sizeof *z);
    return false;
  }
  points_near(bits, ldexpf(1, exponent), inverse, n, codes, y, k, z);
  return seal(n, k, exponent) == end;
}

/* Where block b of a parcel begins; all before it are whole. */
static size_t begin_of(int bits, size_t b)
{
  return b * (shoal_quant_packed_bytes(bits, SHOAL_QUANT_BLOCK) + 8);
}

void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, int8_t *exponent, void *out, size_t first,
                        size_t end)
{
  uint16_t codes[SHOAL_QUANT_BLOCK];
  (void)shoal_quant_factors();
  for (size_t b = first; b < end; b++) {
    size_t at = b * SHOAL_QUANT_BLOCK, count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    uint8_t *to = (uint8_t *)out + begin_of(q->bits, b);
    uint64_t trailer = encode_block(q, at, count, x + at, &exponent[b], codes);
    shoal_quant_pack(q->bits, count, codes, to);
    put_u64(to + shoal_quant_packed_bytes(q->bits, count), trailer);
  }
}

void shoal_quant_decode(int bits, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad, size_t first,
                        size_t end)
{
  uint16_t codes[SHOAL_QUANT_BLOCK];
  (void)shoal_quant_factors();
  for (size_t b = first; b < end; b++) {
    size_t at = b * SHOAL_QUANT_BLOCK, count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    const uint8_t *from = (const uint8_t *)parcel + begin_of(bits, b);
    if (b % 8 == 0) bad[b / 8] = 0;
    shoal_quant_unpack(bits, count, from, codes);
    uint64_t sent = get_u64(from + shoal_quant_packed_bytes(bits, count));
    if (!decode_block(bits, count, codes, sent, y + at, z + at)) bad[b / 8] |= (uint8_t)(1 << b % 8);
  }
}

static void value_block(const shoal_quant *q, size_t first, size_t n, const float *x, int exponent, float *z)
{
  int32_t k[SHOAL_QUANT_BLOCK];
  float s = ldexpf(1, exponent);
  if (exponent == SHOAL_QUANT_FULL) {
    memmove(z, x, n * sizeof *z);
  } else if (q->stochastic) {
    grid_numbers(q, exponent, first, n, x, k);
    points(s, n, k, z);
  } else {
    nearest_points(s, 1 / s, n, x, z);
  }
}

void shoal_quant_value(const shoal_quant *q, size_t first, size_t n, const float *x, const int8_t *exponent, float *z)
{
  for (size_t at = 0, b = 0; at < n; at += SHOAL_QUANT_BLOCK, b++)
    value_block(q, first + at, SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK), x + at, exponent[b], z + at);
}
