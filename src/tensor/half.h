/* 16-bit wire formats: bfloat16 and half, both rounded to nearest even; NaN stays NaN.  Loops vectorise. */
#ifndef SHOAL_TENSOR_HALF_H
#define SHOAL_TENSOR_HALF_H
#include <stddef.h>
#include <stdint.h>
void shoal_bf16_from_f32(size_t n, const float *x, uint16_t *y);
void shoal_f32_from_bf16(size_t n, const uint16_t *x, float *y);
void shoal_f32_add_bf16(size_t n, const uint16_t *x, float *y); /* y += x, in f32 */
void shoal_f16_from_f32(size_t n, const float *x, uint16_t *y); /* overflow becomes infinity */
void shoal_f32_from_f16(size_t n, const uint16_t *x, float *y);
void shoal_f32_add_f16(size_t n, const uint16_t *x, float *y);
#endif
