/* The modular quantiser: a number is rounded to a grid of spacing s, and only the grid point's number modulo q = 2^bits
 * is sent.  The receiver holds something near (its own number, the key) and takes the grid point of that colour nearest to
 * it.  So the error depends on the grid alone, and the bits on the distance between the two, never on how large they are.
 *
 *     colours     … 2 3 0 1 2 3 0 1 2 3 0 …        q = 4: colour 1 arrives; which of the points is meant?
 *     points          |   |   |   |   |
 *                             ^ key                the nearest one of colour 1.  Right whenever |x - key| < (q-1) s/2,
 *                                                  certainly wrong beyond (q+1) s/2, and then by a multiple of q s.
 *
 * A wrong decode is silent in the scheme itself.  Here each block of 4096 numbers carries a 64-bit hash of the whole grid
 * numbers; the receiver hashes what it decoded, so it knows which blocks to ask for unquantised.
 *
 * Results are those of double arithmetic rounded once: sender and receiver get the same bits for the same grid point, on
 * every machine.  A grid point is round(x / s), to even where two are equally near, or, stochastically, floor(x / s + U) with U
 * uniform and addressed, so that the mean is x.
 * Source: Davies, Gurunathan, Moshrefi, Ashkboos, Alistarh, New Bounds for Distributed Mean Estimation and Variance
 * Reduction, ICLR 2021 (cubic lattice); hash and adapted spacing are ours. */
#ifndef SHOAL_METHOD_QUANT_H
#define SHOAL_METHOD_QUANT_H
#include "base/rng.h"
#include <stdbool.h>

enum { SHOAL_QUANT_BLOCK = 4096 }; /* numbers under one hash */

typedef struct {
  int bits;       /* 4, 8, 14 or 16 per number; q = 2^bits */
  double spacing; /* s > 0; |x| / s must stay below 2^51 */
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
/** Bytes of a parcel: for each block its packed codes and 8 bytes of hash. */
size_t shoal_quant_bytes(int bits, size_t n);
/** Into out [shoal_quant_bytes].  Pure; allocates nothing. */
void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, void *out);
/** Out of a parcel, near the key y [n], into z [n] (not y).  Only bits and spacing of `q` matter.
 *  @param bad  [(blocks + 7) / 8] bit b % 8 of byte b / 8 set: block b does not have the sender's hash
 *  @return     how many blocks are bad */
size_t shoal_quant_decode(const shoal_quant *q, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad);
/** The factors of the hash, [SHOAL_QUANT_BLOCK]: odd, positive, all different. */
const int32_t *shoal_quant_factors(void);
/** z ← Q(x), bit for bit what a receiver decodes where its key is near enough; z may be x.
 *  @param first  number of x[0] in the parcel, a multiple of the block: addresses stochastic rounding */
void shoal_quant_value(const shoal_quant *q, size_t first, size_t n, const float *x, float *z);
static inline bool shoal_quant_marked(const uint8_t *blocks, size_t b)
{
  return blocks[b / 8] >> b % 8 & 1;
}
#endif
