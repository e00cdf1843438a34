/* Parcels of the quantiser, all blocks at once. */
#ifndef SHOAL_TESTS_QUANT_WHOLE_H
#define SHOAL_TESTS_QUANT_WHOLE_H
#include "tensor/quant.h"

static inline void encode(const shoal_quant *q, size_t n, const float *x, int8_t *exponent, void *out)
{
  shoal_quant_encode(q, n, x, exponent, out, 0, shoal_quant_blocks(n));
}

/** @return how many blocks are bad. */
static inline size_t decode(int bits, size_t n, const void *parcel, const float *y, float *z, uint8_t *bad)
{
  size_t wrong = 0;
  shoal_quant_decode(bits, n, parcel, y, z, bad, 0, shoal_quant_blocks(n));
  for (size_t b = 0; b < shoal_quant_blocks(n); b++) wrong += shoal_quant_marked(bad, b);
  return wrong;
}
#endif
