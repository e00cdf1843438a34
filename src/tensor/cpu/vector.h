/* A GCC vector of sixteen floats: one register with AVX-512, two with AVX2, four with SSE.
 *
 * Loads, stores and masks are macros, because functions that pass such a vector have another calling convention on
 * each instruction set, and the kernels are compiled for several.  Masks (-1 or 0 per lane) are computed by integer
 * arithmetic: GCC 12 splits a comparison of 512-bit vectors into sixteen scalar ones if its result is used as a value,
 * which made max pooling five times slower. */
#ifndef SHOAL_TENSOR_CPU_VECTOR_H
#define SHOAL_TENSOR_CPU_VECTOR_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double v16d __attribute__((vector_size(128)));
typedef int v16i __attribute__((vector_size(64), aligned(4), may_alias));
typedef unsigned v16u __attribute__((vector_size(64), aligned(4), may_alias));
typedef unsigned short v16u16 __attribute__((vector_size(32), aligned(2), may_alias));

#define LOAD16(p)        (*(const v16 *)(p))
#define STORE16(p, v)    (*(v16 *)(p) = (v))
#define LOAD16U16(p)     __builtin_convertvector(*(const v16u16 *)(p), v16i)
#define STORE16U16(p, v) (*(v16u16 *)(p) = __builtin_convertvector(v, v16u16))

/* Sixteen elements from element i of memory on that is f32 or, if `half`, bf16; half is known when the code is compiled.  Rounded to
 * nearest, ties to even, as by half.c. */
#define LOAD16_AS(half, p, i)                                                                                          \
  ((half) ? (v16)(__builtin_convertvector(*(const v16u16 *)((const uint16_t *)(p) + (i)), v16u) << 16)                 \
          : LOAD16((const float *)(p) + (i)))
#define STORE16_AS(half, p, i, v)                                                                                      \
  do {                                                                                                                 \
    if (half) {                                                                                                        \
      const v16u bits_ = (v16u)(v), nan_ = (v16u)NAN16(v);                                                             \
      const v16u round_ = (bits_ + 0x7fffu + (bits_ >> 16 & 1u)) >> 16, quiet_ = bits_ >> 16 | 0x40u;                  \
      *(v16u16 *)((uint16_t *)(p) + (i)) = __builtin_convertvector((round_ & ~nan_) | (quiet_ & nan_), v16u16);        \
    } else {                                                                                                           \
      STORE16((float *)(p) + (i), v);                                                                                  \
    }                                                                                                                  \
  } while (0)

/* One element of such memory. */
static inline float shoal_cpu_load(bool half, const void *p, int64_t i)
{
  if (!half) return ((const float *)p)[i];
  const uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline void shoal_cpu_store(bool half, void *p, int64_t i, float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (!half)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = (uint16_t)(x == x ? (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16 : bits >> 16 | 0x40u);
}

/* What passes a relu: v > 0, and every NaN.  Two terms: positive bits that are not zero, and beyond minus infinity. */
#define SHOAL_PASSES(vi, vu, v) ((vi)(((0u - (vu)(v)) & ~(vu)(v)) | ((0xff800000u - (vu)(v)) & (vu)(v))) >> 31)
#define PASSES16(v)             SHOAL_PASSES(v16i, v16u, v)
#define NAN16(v)                ((v16i)(0x7f800000u - ((v16u)(v)&0x7fffffffu)) >> 31)
/* a < b where neither is a NaN; for two equal infinities the answer may be either. */
#define LESS16(a, b) ((v16i)((a) - (b)) >> 31)
/* Equality of integers of 0 to 2^31 - 1. */
#define EQUAL16(a, b) ((((a) ^ (b)) - 1) >> 31)

#define KEEP16(mask, v)      ((v16)((v16i)(v) & (mask)))
#define SELECT16(mask, a, b) ((v16)(((v16i)(a) & (mask)) | ((v16i)(b) & ~(mask))))
#endif
