/* See quant.h.  A block at a time: grid numbers in a buffer on the stack, then codes, then bytes.
 *
 * Rounding without a library call: adding 1.5 * 2^52 pushes the fraction out of a double's mantissa, so the hardware's
 * own round-to-even does the work, and what is left in the mantissa is the whole number.  Loops of plain double
 * arithmetic, which compilers turn into vector code. */
#include "method/quant.h"
#include "base/mem.h"
#include <string.h>

static const double push = 0x1.8p52;

static inline int64_t whole(double rounded_with_push)
{
  int64_t bits;
  memcpy(&bits, &rounded_with_push, sizeof bits);
  return bits - INT64_C(0x4338000000000000); /* of `push` */
}

/* ------------------------------------------------------------------------------------------------------ packing */

size_t shoal_quant_packed_bytes(int bits, size_t n)
{
  if (bits == 14) return n + (n * 6 + 7) / 8;
  return (n * (size_t)bits + 7) / 8;
}

/* Six bits each, in groups of four codes to three bytes. */
static void pack_six(size_t n, const uint16_t *codes, uint8_t *out)
{
  for (size_t i = 0; i < n; i += 4) {
    uint32_t group = 0;
    for (size_t k = 0; k < 4 && i + k < n; k++) group |= (uint32_t)(codes[i + k] >> 8 & 0x3f) << 6 * k;
    size_t bytes = (SHOAL_MIN(n - i, (size_t)4) * 6 + 7) / 8;
    for (size_t b = 0; b < bytes; b++) *out++ = (uint8_t)(group >> 8 * b);
  }
}

static void unpack_six(size_t n, const uint8_t *in, uint16_t *codes)
{
  for (size_t i = 0; i < n; i += 4) {
    uint32_t group = 0;
    size_t bytes = (SHOAL_MIN(n - i, (size_t)4) * 6 + 7) / 8;
    for (size_t b = 0; b < bytes; b++) group |= (uint32_t)*in++ << 8 * b;
    for (size_t k = 0; k < 4 && i + k < n; k++) codes[i + k] |= (uint16_t)((group >> 6 * k & 0x3f) << 8);
  }
}

void shoal_quant_pack(int bits, size_t n, const uint16_t *codes, uint8_t *out)
{
  if (bits == 4) {
    for (size_t i = 0; i + 1 < n; i += 2) out[i / 2] = (uint8_t)((codes[i] & 15) | codes[i + 1] << 4);
    if (n % 2) out[n / 2] = (uint8_t)(codes[n - 1] & 15);
    return;
  }
  for (size_t i = 0; i < n; i++) out[i] = (uint8_t)codes[i];
  if (bits == 14) pack_six(n, codes, out + n);
  if (bits == 16)
    for (size_t i = 0; i < n; i++) out[n + i] = (uint8_t)(codes[i] >> 8);
}

void shoal_quant_unpack(int bits, size_t n, const uint8_t *in, uint16_t *codes)
{
  if (bits == 4) {
    for (size_t i = 0; i < n; i++) codes[i] = in[i / 2] >> 4 * (i % 2) & 15;
    return;
  }
  for (size_t i = 0; i < n; i++) codes[i] = in[i];
  if (bits == 14) unpack_six(n, in + n, codes);
  if (bits == 16)
    for (size_t i = 0; i < n; i++) codes[i] |= (uint16_t)(in[n + i] << 8);
}

/* --------------------------------------------------------------------------------------------------- grid numbers */

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
    round_stochastic(q, first, n, x + first, k);
  else
    round_nearest(q->spacing, n, x + first, k);
}

/* Four polynomials in an odd number, so that one changed number always changes the hash: differences are small
 * multiples of q <= 2^16, and an odd factor never makes one of those vanish modulo 2^64. */
static uint64_t hash(size_t n, const int64_t *k)
{
  static const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
  static const uint64_t mix[4] = { UINT64_C(0xbf58476d1ce4e5b9), UINT64_C(0x94d049bb133111eb),
                                   UINT64_C(0xff51afd7ed558ccd), UINT64_C(0xc4ceb9fe1a85ec53) };
  uint64_t h[4] = { 1, 2, 3, 4 }, all = n;
  for (size_t i = 0; i < n; i += 4)
    for (size_t lane = 0; lane < SHOAL_MIN(n - i, (size_t)4); lane++) h[lane] = h[lane] * odd + (uint64_t)k[i + lane];
  for (size_t lane = 0; lane < 4; lane++) all += h[lane] * mix[lane];
  return all;
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

void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, void *out)
{
  int64_t k[SHOAL_QUANT_BLOCK];
  uint16_t codes[SHOAL_QUANT_BLOCK];
  uint8_t *to = out;
  uint64_t mask = (UINT64_C(1) << q->bits) - 1;
  for (size_t at = 0; at < n; at += SHOAL_QUANT_BLOCK) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    grid_numbers(q, at, count, x, k);
    for (size_t i = 0; i < count; i++) codes[i] = (uint16_t)((uint64_t)k[i] & mask); /* floor modulus */
    shoal_quant_pack(q->bits, count, codes, to);
    to += shoal_quant_packed_bytes(q->bits, count);
    put_u64(to, hash(count, k));
    to += 8;
  }
}

/* m = round((y/s - c) / q), k = c + q m, z = s k */
static void decode_block(const shoal_quant *q, size_t n, const uint16_t *codes, const float *y, int64_t *k, float *z)
{
  double colours = (double)(1 << q->bits), s = q->spacing;
  for (size_t i = 0; i < n; i++) {
    double m = ((double)y[i] / s - (double)codes[i]) / colours + push;
    k[i] = (int64_t)codes[i] + (int64_t)((uint64_t)whole(m) << q->bits);
    z[i] = (float)(s * (double)k[i]);
  }
}

size_t shoal_quant_decode(const shoal_quant *q, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad)
{
  int64_t k[SHOAL_QUANT_BLOCK];
  uint16_t codes[SHOAL_QUANT_BLOCK];
  const uint8_t *from = parcel;
  size_t wrong = 0;
  memset(bad, 0, (shoal_quant_blocks(n) + 7) / 8);
  for (size_t at = 0, b = 0; at < n; at += SHOAL_QUANT_BLOCK, b++) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    shoal_quant_unpack(q->bits, count, from, codes);
    from += shoal_quant_packed_bytes(q->bits, count);
    decode_block(q, count, codes, y + at, k, z + at);
    if (hash(count, k) != get_u64(from)) {
      bad[b / 8] |= (uint8_t)(1 << b % 8);
      wrong++;
    }
    from += 8;
  }
  return wrong;
}

void shoal_quant_value(const shoal_quant *q, size_t n, const float *x, const uint8_t *except, float *z)
{
  int64_t k[SHOAL_QUANT_BLOCK];
  for (size_t at = 0, b = 0; at < n; at += SHOAL_QUANT_BLOCK, b++) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_QUANT_BLOCK);
    if (except && shoal_quant_marked(except, b)) {
      if (z != x) memcpy(z + at, x + at, count * sizeof *z);
      continue;
    }
    grid_numbers(q, at, count, x, k);
    for (size_t i = 0; i < count; i++) z[at + i] = (float)(q->spacing * (double)k[i]);
  }
}
