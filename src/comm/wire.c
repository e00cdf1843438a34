/* Number formats of messages.  Sums are always f32; 16-bit formats are for transfer only. */
#include "comm/exchange_impl.h"
#include "tensor/half.h"
#include <string.h>

size_t shoal_wire_bytes(shoal_wire wire)
{
  return wire == SHOAL_WIRE_F32 ? 4 : 2;
}

const char *shoal_wire_name(shoal_wire wire)
{
  static const char *const names[] = { "f32", "bf16", "f16" };
  return names[wire];
}

static void add_f32(size_t n, const float *restrict x, float *restrict y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void shoal_wire_pack(shoal_wire wire, size_t n, const float *x, void *to)
{
  if (wire == SHOAL_WIRE_F32)
    memcpy(to, x, n * sizeof *x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_bf16_from_f32(n, x, to);
  else
    shoal_f16_from_f32(n, x, to);
}

void shoal_wire_unpack(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_F32)
    memcpy(x, from, n * sizeof *x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_f32_from_bf16(n, from, x);
  else
    shoal_f32_from_f16(n, from, x);
}

void shoal_wire_add(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_F32)
    add_f32(n, from, x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_f32_add_bf16(n, from, x);
  else
    shoal_f32_add_f16(n, from, x);
}
