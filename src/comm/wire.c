/* Number formats of messages.  Sums are always f32; the others are for transfer only.
 *
 *     a block of Q8 and Q4     | exponent | code 0 | code 1 | ...        k of the spacing 2^exponent, 8 or 4 bits in two's complement
 *
 * Spacings are powers of two, so products with them and with their inverse are exact, as is the difference of a number and what it is
 * rounded to.  The largest element of a block is above half the range of its spacing, and stays so when it is rounded: rounding once
 * more finds the same spacing and the same numbers. */
#include "base/wide.h"
#include "comm/exchange_impl.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- blocks */

/* Adding it rounds to nearest even and leaves the whole number in the low bits. */
static const float push = 0x1.8p23f;

static int bits_of(shoal_wire wire)
{
  return wire == SHOAL_WIRE_Q8 ? 8 : 4;
}

static int exponent_of(int bits, size_t n, const float *x)
{
  int32_t found = shoal_quant_largest_bits(n, x);
  float largest;
  memcpy(&largest, &found, sizeof largest);
  if (!isfinite(largest)) return SHOAL_QUANT_FULL;
  int e = SHOAL_MAX((found >> 23) - 126 - (bits - 1), SHOAL_QUANT_FINEST); /* largest < 2^(bits - 1 + e) */
  if (largest >= ldexpf((float)(1 << (bits - 1)) - 0.5f, e)) e++;
  return e <= SHOAL_QUANT_COARSEST ? e : SHOAL_QUANT_FULL;
}

SHOAL_WIDE static void codes_of(float inverse, size_t n, const float *x, uint16_t *codes)
{
  for (size_t i = 0; i < n; i++) {
    float pushed = x[i] * inverse + push;
    uint32_t low;
    memcpy(&low, &pushed, sizeof low);
    codes[i] = (uint16_t)low;
  }
}

SHOAL_WIDE static void points_of(int bits, float spacing, size_t n, const uint16_t *codes, float *x)
{
  for (size_t i = 0; i < n; i++) x[i] = spacing * (float)((int16_t)(codes[i] << (16 - bits)) >> (16 - bits));
}

static void pack_block(int bits, size_t n, const float *x, uint8_t *to)
{
  uint16_t codes[SHOAL_WIRE_BLOCK] = { 0 };
  int e = exponent_of(bits, n, x);
  if (e != SHOAL_QUANT_FULL) codes_of(ldexpf(1, -e), n, x, codes);
  *to = (uint8_t)e;
  shoal_quant_pack(bits, n, codes, to + 1);
}

static void unpack_block(int bits, size_t n, const uint8_t *from, float *x)
{
  uint16_t codes[SHOAL_WIRE_BLOCK];
  int8_t e;
  memcpy(&e, from, sizeof e);
  shoal_quant_unpack(bits, n, from + 1, codes);
  points_of(bits, e == SHOAL_QUANT_FULL ? NAN : ldexpf(1, e), n, codes, x);
}

/* ----------------------------------------------------------------------------------------------------- all formats */

size_t shoal_wire_grain(shoal_wire wire)
{
  return wire >= SHOAL_WIRE_Q8 ? SHOAL_WIRE_BLOCK : 1;
}

size_t shoal_wire_bytes(shoal_wire wire, size_t n)
{
  if (wire < SHOAL_WIRE_Q8) return n * (wire == SHOAL_WIRE_F32 ? 4 : 2);
  return (n + SHOAL_WIRE_BLOCK - 1) / SHOAL_WIRE_BLOCK + shoal_quant_packed_bytes(bits_of(wire), n);
}

const char *shoal_wire_name(shoal_wire wire)
{
  static const char *const names[] = { "f32", "bf16", "f16", "q8", "q4" };
  return names[wire];
}

static void add_f32(size_t n, const float *restrict x, float *restrict y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

/* Blocks, of which the last may be shorter, as they lie in a message. */
static void pack_blocks(shoal_wire wire, size_t n, const float *x, uint8_t *to)
{
  for (size_t at = 0; at < n; at += SHOAL_WIRE_BLOCK)
    pack_block(bits_of(wire), SHOAL_MIN(n - at, (size_t)SHOAL_WIRE_BLOCK), x + at, to + shoal_wire_bytes(wire, at));
}

static void unpack_blocks(shoal_wire wire, size_t n, const uint8_t *from, float *x)
{
  for (size_t at = 0; at < n; at += SHOAL_WIRE_BLOCK)
    unpack_block(bits_of(wire), SHOAL_MIN(n - at, (size_t)SHOAL_WIRE_BLOCK), from + shoal_wire_bytes(wire, at), x + at);
}

static void add_blocks(shoal_wire wire, size_t n, const uint8_t *from, float *x)
{
  float y[SHOAL_WIRE_BLOCK];
  for (size_t at = 0; at < n; at += SHOAL_WIRE_BLOCK) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_WIRE_BLOCK);
    unpack_block(bits_of(wire), count, from + shoal_wire_bytes(wire, at), y);
    add_f32(count, y, x + at);
  }
}

void shoal_wire_pack(shoal_wire wire, size_t n, const float *x, void *to)
{
  if (wire == SHOAL_WIRE_F32)
    memcpy(to, x, n * sizeof *x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_bf16_from_f32(n, x, to);
  else if (wire == SHOAL_WIRE_F16)
    shoal_f16_from_f32(n, x, to);
  else
    pack_blocks(wire, n, x, to);
}

void shoal_wire_unpack(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_F32)
    memcpy(x, from, n * sizeof *x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_f32_from_bf16(n, from, x);
  else if (wire == SHOAL_WIRE_F16)
    shoal_f32_from_f16(n, from, x);
  else
    unpack_blocks(wire, n, from, x);
}

void shoal_wire_add(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_F32)
    add_f32(n, from, x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_f32_add_bf16(n, from, x);
  else if (wire == SHOAL_WIRE_F16)
    shoal_f32_add_f16(n, from, x);
  else
    add_blocks(wire, n, from, x);
}

void shoal_wire_round(shoal_wire wire, size_t n, const float *x, float *error, void *to)
{
  float sent[SHOAL_WIRE_BLOCK];
  if (!error) {
    shoal_wire_pack(wire, n, x, to);
    return;
  }
  for (size_t at = 0; at < n; at += SHOAL_WIRE_BLOCK) {
    size_t count = SHOAL_MIN(n - at, (size_t)SHOAL_WIRE_BLOCK);
    char *out = (char *)to + shoal_wire_bytes(wire, at);
    add_f32(count, x + at, error + at);
    shoal_wire_pack(wire, count, error + at, out);
    shoal_wire_unpack(wire, count, out, sent);
    for (size_t i = 0; i < count; i++) error[at + i] -= sent[i];
  }
}
