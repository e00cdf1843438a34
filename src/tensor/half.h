/* 16-bit wire formats: bfloat16 and half, both rounded to nearest even; NaN stays NaN.  Loops vectorise. */
#ifndef SHOAL_TENSOR_HALF_H
#define SHOAL_TENSOR_HALF_H
#include "tensor/memory.h"
void shoal_bf16_from_f32(size_t n, const float *x, uint16_t *y);
void shoal_f32_from_bf16(size_t n, const uint16_t *x, float *y);
void shoal_f32_add_bf16(size_t n, const uint16_t *x, float *y); /* y += x, in f32 */
void shoal_f16_from_f32(size_t n, const float *x, uint16_t *y); /* overflow becomes infinity */
void shoal_f32_from_f16(size_t n, const uint16_t *x, float *y);
void shoal_f32_add_f16(size_t n, const uint16_t *x, float *y);

/* The same by format. */
static inline void shoal_half_from_f32(shoal_half format, size_t n, const float *x, uint16_t *y)
{
  if (format == SHOAL_BF16)
    shoal_bf16_from_f32(n, x, y);
  else
    shoal_f16_from_f32(n, x, y);
}
static inline void shoal_half_to_f32(shoal_half format, size_t n, const uint16_t *x, float *y)
{
  if (format == SHOAL_BF16)
    shoal_f32_from_bf16(n, x, y);
  else
    shoal_f32_from_f16(n, x, y);
}
static inline void shoal_half_add(shoal_half format, size_t n, const uint16_t *x, float *y)
{
  if (format == SHOAL_BF16)
    shoal_f32_add_bf16(n, x, y);
  else
    shoal_f32_add_f16(n, x, y);
}
static inline float shoal_half_largest(shoal_half format) /* the largest finite number */
{
  return format == SHOAL_BF16 ? 0x1.fep127f : 65504.0f;
}
#endif
