/* Byte layout of the codes: see quant.h.  Planar, as in the authors' code, to separate the low bytes, which look like
 * noise, from the upper ones, which do not. */
#include "base/mem.h"
#include "base/wide.h"
#include "tensor/quant.h"

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

SHOAL_WIDE void shoal_quant_pack(int bits, size_t n, const uint16_t *codes, uint8_t *out)
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

SHOAL_WIDE void shoal_quant_unpack(int bits, size_t n, const uint8_t *in, uint16_t *codes)
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
