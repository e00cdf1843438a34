/* The modular quantiser: a number is rounded to a grid of spacing s, and only the grid point's number modulo q = 2^bits
 * is sent.  The receiver holds something near (its own number, the key) and takes the grid point of that colour nearest to
 * it.  So the error depends on the grid alone, and the bits on the distance between the two, never on how large they are.
 *
 *     colours     … 2 3 0 1 2 3 0 1 2 3 0 …        q = 4: colour 1 arrives; which of the points is meant?
 *     points          |   |   |   |   |
 *                             ^ key                the nearest one of colour 1.  Right whenever |x - key| < (q-1) s/2,
 *                                                  certainly wrong beyond (q+1) s/2, and then by a multiple of q s.
 *
 * Every block of 4096 numbers has a spacing of its own, a power of two, which the sender chooses and the parcel says, so
 * layers whose numbers differ by little are not rounded as coarsely as those whose numbers differ by much:
 *
 *     | codes of block 0 | 7 bytes: hash | 1: exponent | codes of block 1 | hash | exponent | …
 *
 * A wrong decode is silent in the scheme itself.  Here the hash is one of the whole grid numbers and the exponent; the
 * receiver hashes what it decoded, so it knows which blocks to ask for unquantised.
 *
 * Results are exact but for the one rounding, so sender and receiver get the same bits for the same grid point, on every
 * machine.  A grid point is round(x / s), to even where two are equally near, or, stochastically, floor(x / s + U) with U
 * uniform and addressed, so that the mean is x.
 * Source: Davies, Gurunathan, Moshrefi, Ashkboos, Alistarh, New Bounds for Distributed Mean Estimation and Variance
 * Reduction, ICLR 2021 (cubic lattice); hash and spacings of blocks are ours. */
#ifndef SHOAL_METHOD_QUANT_H
#define SHOAL_METHOD_QUANT_H
#include "base/rng.h"
#include <stdbool.h>

enum {
  SHOAL_QUANT_BLOCK = 4096, /* numbers under one spacing and one hash */
  SHOAL_QUANT_FINEST = -100,
  SHOAL_QUANT_COARSEST = 100, /* spacings are 2^-100 ... 2^100 */
  SHOAL_QUANT_FULL = 127      /* in place of an exponent: this block cannot be quantised */
};

typedef struct {
  int bits; /* 4, 8, 14 or 16 per number; q = 2^bits */
  bool stochastic;
  uint64_t seed; /* stochastic: U of number i is addressed by (seed, i, turn); both as the sender says */
  uint32_t turn;
} shoal_quant;

/** Bytes of n packed codes: ceil(n * bits / 8), of 14 bits 8 and 6 apart. */
size_t shoal_quant_packed_bytes(int bits, size_t n);
/** Planar: first the low bytes of all codes, then their upper bits (8 or, of 14, 6 each, the first in the lowest bits);
 *  4 bits: two codes per byte, the first in the lower half. */
void shoal_quant_pack(int bits, size_t n, const uint16_t *codes, uint8_t *out);
void shoal_quant_unpack(int bits, size_t n, const uint8_t *in, uint16_t *codes);

size_t shoal_quant_blocks(size_t n);
/** Bytes of a parcel: for each block its packed codes and 8 bytes of hash and exponent. */
size_t shoal_quant_bytes(int bits, size_t n);
/** Into out [shoal_quant_bytes].  Allocates nothing.
 *  @param exponent  [blocks] block b has spacing 2^exponent[b], in FINEST ... COARSEST.  Raised to the one that was used
 *                   where a number of the block is 2^21 spacings large or more: half a spacing is then at most 2^-21 of
 *                   that number, and f32 itself knows it to 2^-25 only.  FULL where a number is infinite, none at all, or
 *                   beyond 2^121: such a block is always bad to the receiver. */
void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, int8_t *exponent, void *out);
/** Out of a parcel, near the key y [n], into z [n] (not y).  What stands in a bad block is finite where y is.  Any bytes
 *  at all may come in.
 *  @param bad  [(blocks + 7) / 8] bit b % 8 of byte b / 8 set: block b does not have the sender's hash
 *  @return     how many blocks are bad */
size_t shoal_quant_decode(int bits, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad);
/** The factors of the hash, [SHOAL_QUANT_BLOCK] and one for the exponent: odd, positive, all different. */
const int32_t *shoal_quant_factors(void);
/** z ← Q(x), bit for bit what a receiver decodes where its key is near enough; z may be x.
 *  @param first     number of x[0] in the parcel, a multiple of the block: addresses stochastic rounding
 *  @param exponent  of the blocks of x, as encode left them; a block of FULL is copied */
void shoal_quant_value(const shoal_quant *q, size_t first, size_t n, const float *x, const int8_t *exponent, float *z);
static inline bool shoal_quant_marked(const uint8_t *blocks, size_t b)
{
  return blocks[b / 8] >> b % 8 & 1;
}
#endif
