/* 16-bit formats that halve the bytes on the wire: f32 to bfloat16 and half, and back.
 *
 * Everything is integer arithmetic on the bits (plus one exact float addition), without branches, so the loops
 * vectorise on any instruction set and give the same bits everywhere.  Rounding is to nearest, ties to even; adding
 * half a unit in the last place to the bits suffices, because a carry out of the mantissa correctly increments the
 * exponent, up to infinity.
 */
#include "tensor/half.h"
#include <string.h>

static inline uint32_t bits_of(float x)
{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float float_of(uint32_t u)
{
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* bfloat16 is the upper half of an f32. */
static inline uint16_t bf16_of(float x)
{
  uint32_t u = bits_of(x);
  uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  uint32_t quiet = u >> 16 | 0x40u; /* rounding could carry a NaN into infinity */
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float of_bf16(uint16_t h)
{
  return float_of((uint32_t)h << 16);
}

/* half: sign, 5 bits of exponent (bias 15), 10 bits of mantissa. */
static inline uint16_t f16_of(float x)
{
  uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  /* 2^-14 and above: move the exponent's bias from 127 to 15 and round 13 bits away. */
  uint32_t normal = (a - (112u << 23) + 0xfffu + (a >> 13 & 1u)) >> 13;
  /* Below: the last place of 0.5f is 2^-24, as of subnormal halves, so the float addition itself rounds correctly. */
  uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000u;
  uint32_t h = a < (113u << 23) ? small : normal;
  h = a >= (143u << 23) ? 0x7c00u : h; /* 65536 and above, infinity; 65520 and above became infinity by the carry */
  h = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x3ffu) : h;
  return (uint16_t)(sign | h);
}

static inline float of_f16(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t normal = a + (112u << 23);
  uint32_t special = a + (224u << 23); /* infinity and NaN: exponent 31 becomes 255 */
  /* Zero and subnormals: 2^-14 (1 + m) - 2^-14 is exact and leaves the mantissa where f32 wants it. */
  uint32_t small = bits_of(float_of(a + (113u << 23)) - 0x1p-14f);
  uint32_t u = a < 0x00800000u ? small : normal;
  u = a >= 0x0f800000u ? special : u;
  return float_of(sign | u);
}

/* "omp simd" because the compiler's cost model does not vectorise loops of unknown length at -O2.  Compiled for three
 * instruction sets, from which the dynamic loader chooses, because the baseline has neither blends nor wide integers.
 * (Not under sanitizers: the loader chooses before they are initialised.) */
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

WIDE void shoal_bf16_from_f32(size_t n, const float *x, uint16_t *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = bf16_of(x[i]);
}

WIDE void shoal_f32_from_bf16(size_t n, const uint16_t *x, float *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = of_bf16(x[i]);
}

WIDE void shoal_f32_add_bf16(size_t n, const uint16_t *x, float *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] += of_bf16(x[i]);
}

WIDE void shoal_f16_from_f32(size_t n, const float *x, uint16_t *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = f16_of(x[i]);
}

WIDE void shoal_f32_from_f16(size_t n, const uint16_t *x, float *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = of_f16(x[i]);
}

WIDE void shoal_f32_add_f16(size_t n, const uint16_t *x, float *y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] += of_f16(x[i]);
}
