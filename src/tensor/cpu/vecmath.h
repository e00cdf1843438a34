/* exp, the normal distribution, the logistic function and tanh without library calls or branches, so that loops over them vectorise.
 *
 * All are polynomial fits, minimax in the relative error; unit.tensor.cpu_own compares them with libm over their
 * range.  libm's expf and erff are more accurate by a fraction of a bit, and many times slower here. */
#ifndef SHOAL_TENSOR_CPU_VECMATH_H
#define SHOAL_TENSOR_CPU_VECMATH_H
#include <stdint.h>
#include <string.h>

/* e^x with relative error below 2e-7.  Below -87 the result is that of -87 (1.6e-38), above 88 that of 88. */
static inline __attribute__((always_inline)) float shoal_cpu_exp(float x)
{
  const float to_integer = 12582912.0f; /* 1.5 * 2^23: adding it rounds to the nearest integer */
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  float shifted = x * 1.44269504f + to_integer, n = shifted - to_integer;
  float r = x - n * 0.693145752f - n * 1.42860677e-6f; /* |r| <= ln 2 / 2; ln 2 in two parts, the first with few bits */
  float p = 0.00138146f;
  p = p * r + 0.00836871f;
  p = p * r + 0.04166839f;
  p = p * r + 0.16666521f;
  p = p * r + 0.49999993f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (int32_t)((uint32_t)bits << 23) + 0x3f800000; /* 2^n; the shift discards the high bits of the constant */
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

/* Phi(x), the normal distribution function, and e^(-x^2/2) along the way: Phi(-|x|) = P(t) e^(-x^2/2) with
 * t = 1 / (1 + 0.29 |x|), so the small side keeps its relative accuracy (1e-6). */
static inline __attribute__((always_inline)) float shoal_cpu_normal(float x, float *density)
{
  float a = x < 0 ? -x : x, t = 1.0f / (1.0f + 0.29f * a), e = shoal_cpu_exp(-0.5f * a * a);
  float p = 0.039932128f;
  p = p * t - 0.19615135f;
  p = p * t + 0.31389892f;
  p = p * t - 0.16134086f;
  p = p * t + 0.19373207f;
  p = p * t + 0.07286194f;
  p = p * t + 0.12202631f;
  p = p * t + 0.115008935f;
  p = p * t + 3.1890057e-5f;
  *density = 0.398942280f * e;
  return x < 0 ? p * e : 1.0f - p * e;
}

/* 1 / (1 + e^-x) and its derivative, both with the relative accuracy of e^x on either side of 0. */
static inline __attribute__((always_inline)) float shoal_cpu_sigmoid(float x, float *slope)
{
  float a = x < 0 ? -x : x, e = shoal_cpu_exp(-a), s = 1.0f / (1.0f + e);
  *slope = e * s * s;
  return x < 0 ? e * s : s;
}

/* Near 0 by a polynomial, fitted to tanh(x) / x; else by e^(-2 |x|). */
static inline __attribute__((always_inline)) float shoal_cpu_tanh(float x, float *slope)
{
  float a = x < 0 ? -x : x, e = shoal_cpu_exp(-2.0f * a), over = 1.0f / (1.0f + e), z = x * x;
  float far = (1.0f - e) * over, p = -0.0060705822f;
  p = p * z + 0.0209799614f;
  p = p * z - 0.0538475029f;
  p = p * z + 0.133327499f;
  p = p * z - 0.333333284f;
  *slope = 4.0f * e * over * over;
  return a < 0.625f ? x + x * z * p : x < 0 ? -far : far;
}
#endif
