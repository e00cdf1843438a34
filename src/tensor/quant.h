/* The modular quantiser: a value is rounded to a grid of spacing s, and only the index of the grid point modulo q =
 * 2^bits (its colour) is sent.  The receiver has a nearby value, the key, and takes the grid point of that colour
 * nearest to it.  So the error depends on the spacing only, and the bits needed on the distance of the two values, not
 * on their size.
 *
 *     colours     … 2 3 0 1 2 3 0 1 2 3 0 …        q = 4: colour 1 arrives; which of the points is meant?
 *     points          |   |   |   |   |
 *                             ^ key                the nearest one of colour 1.  Right whenever |x - key| < (q-1) s/2,
 *                                                  always wrong beyond (q+1) s/2, and then by a multiple of q s.
 *
 * Every block of 4096 values has its own spacing, a power of two chosen by the sender and stored in the parcel, so
 * layers with small differences are not rounded as coarsely as those with large ones:
 *
 *     | codes of block 0 | 7 bytes: hash | 1: exponent | codes of block 1 | hash | exponent | …
 *
 * The scheme itself does not detect a wrong decode.  Here the sender adds a hash of the grid points and the exponent;
 * the receiver hashes what it decoded and so knows which blocks to request unquantised.
 *
 * Rounding to the grid is the only inexact operation, so sender and receiver get the same bits for the same grid point
 * on every machine.  A grid point is round(x / s), ties to even, or, stochastically, floor(x / s + U) with U uniform
 * from a counter-based generator, so that the expected value is x.
 *
 * These functions work on blocks [first, end) of a parcel, so that a backend can share them out among threads; methods use the
 * backend's.
 * Source: Davies, Gurunathan, Moshrefi, Ashkboos, Alistarh, New Bounds for Distributed Mean Estimation and Variance
 * Reduction, ICLR 2021 (cubic lattice); hash and spacings of blocks are ours. */
#ifndef SHOAL_TENSOR_QUANT_H
#define SHOAL_TENSOR_QUANT_H
#include "base/rng.h"
#include <stdbool.h>

enum {
  SHOAL_QUANT_BLOCK = 4096, /* elements that share a spacing and a hash */
  SHOAL_QUANT_FINEST = -100,
  SHOAL_QUANT_COARSEST = 100, /* spacings are 2^-100 ... 2^100 */
  SHOAL_QUANT_FULL = 127      /* in place of an exponent: this block cannot be quantised */
};

typedef struct {
  int bits; /* 4, 8, 14 or 16 per element; q = 2^bits */
  bool stochastic;
  uint64_t seed; /* stochastic: U of element i is a function of (seed, i, turn); chosen by the sender */
  uint32_t turn;
} shoal_quant;

/** The largest |x| as bits, which order like the values; NaN is above all. */
int32_t shoal_quant_largest_bits(size_t n, const float *x);
/** Bytes of n packed codes: ceil(n * bits / 8); for 14 bits, the 8 low and 6 upper bits are rounded up separately. */
size_t shoal_quant_packed_bytes(int bits, size_t n);
/** Planar: the low bytes of all codes, then their upper bits (8 each, or 6 for 14 bits, the first code in the lowest
 *  bits).  4 bits: two codes per byte, the first in the low nibble. */
void shoal_quant_pack(int bits, size_t n, const uint16_t *codes, uint8_t *out);
void shoal_quant_unpack(int bits, size_t n, const uint8_t *in, uint16_t *codes);

size_t shoal_quant_blocks(size_t n);
/** Bytes of a parcel: for each block its packed codes and 8 bytes of hash and exponent. */
size_t shoal_quant_bytes(int bits, size_t n);
/** Encodes blocks of x [n] into out [shoal_quant_bytes].  Allocates nothing.
 *  @param exponent  [blocks] block b has spacing 2^exponent[b], in FINEST ... COARSEST.  Raised to the one used if an
 *                   element of the block is 2^21 spacings or more: half a spacing is then at most 2^-21 of that
 *                   element, against a rounding error of 2^-25 in f32.  FULL if an element is infinite, NaN, or beyond
 *                   2^121: such a block is always bad to the receiver. */
void shoal_quant_encode(const shoal_quant *q, size_t n, const float *x, int8_t *exponent, void *out, size_t first,
                        size_t end);
/** Decodes blocks of a parcel with the key y [n] into z [n] (not y).  Values of a bad block are finite where y is.  Safe for
 *  arbitrary bytes.
 *  @param bad    [(blocks + 7) / 8] bit b % 8 of byte b / 8: set if block b does not match the sender's hash, else cleared
 *  @param first  a multiple of 8, so that no two calls write the same byte of `bad` */
void shoal_quant_decode(int bits, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad, size_t first,
                        size_t end);
/** The factors of the hash, [SHOAL_QUANT_BLOCK] and one for the exponent: odd, positive, distinct. */
const int32_t *shoal_quant_factors(void);
/** z ← Q(x), bit for bit what a receiver decodes if its key is close enough; z may be x.
 *  @param first     index of x[0] in the parcel, a multiple of the block size: counter of stochastic rounding
 *  @param exponent  of the blocks of x, as set by encode; a FULL block is copied */
void shoal_quant_value(const shoal_quant *q, size_t first, size_t n, const float *x, const int8_t *exponent, float *z);
static inline bool shoal_quant_marked(const uint8_t *blocks, size_t b)
{
  return blocks[b / 8] >> b % 8 & 1;
}
#endif
