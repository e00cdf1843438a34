/* Arenas: one pass each.  The formulas are those of cpu/arena.c and cpu/flat.c, to the bit: no contraction (the build says so), and
 * division as IEEE wants it. */
#include "tensor/cuda/block.cuh"

SHOAL_KERNEL(fill)
{
  EACH(i, a.n) a.y[i] = a.value;
}

SHOAL_KERNEL(axpby)
{
  if (a.q == 0) { /* y may be uninitialised or NaN */
    EACH(i, a.n) a.y[i] = a.p * a.x[i];
  } else {
    EACH(i, a.n) a.y[i] = a.p * a.x[i] + a.q * a.y[i];
  }
}

SHOAL_KERNEL(add)
{
  EACH(i, a.n) a.y[i] += a.x[i];
}

SHOAL_KERNEL(average)
{
  EACH(i, a.n) a.z[i] = 0.5f * (a.x[i] + a.y[i]);
}

SHOAL_KERNEL(divide)
{
  EACH(i, a.n) a.y[i] /= a.divisor;
}

SHOAL_KERNEL(scale)
{
  EACH(i, a.n)
  {
    double v = a.plus ? (double)a.plus[i] - (double)a.minus[i] + (double)a.x[i] : (double)a.x[i];
    a.y[i] = (float)(a.s * v);
  }
}

SHOAL_KERNEL(mean)
{
  EACH(i, a.n)
  {
    double sum = 0;
    for (size_t k = 0; k < a.count; k++) sum += (double)a.x[k][i];
    a.y[i] = (float)(sum / (double)a.count);
  }
}

SHOAL_KERNEL(copy_checked)
{
  bool finite = true;
  EACH(i, a.n)
  {
    float x = a.x[i];
    finite = finite && is_finite(x);
    a.y[i] = x;
  }
  if (!finite) raise_flag(a.bad);
}

SHOAL_KERNEL(find_bad)
{
  EACH(i, a.n)
  {
    if (is_finite(a.x[i])) continue;
    atomicMin(a.first, (unsigned long long)i);
    return; /* later ones of this thread are larger */
  }
}

SHOAL_KERNEL(take_first)
{
  if (threadIdx.x == 0) *a.out = *a.first < a.n ? (size_t)*a.first : a.n;
}

static __device__ __forceinline__ size_t place(const shoal_k_copy_tile_args &a, const shoal_k_side &s, size_t row,
                                               size_t k, size_t col)
{
  size_t r = (size_t)((s.rows ? s.rows[row] : (int64_t)row) + s.row_shift) * a.grain + k;
  return r * s.stride + (size_t)((s.cols ? s.cols[col] : (int64_t)col) + s.col_shift) * a.width;
}

SHOAL_KERNEL(copy_tile)
{
  EACH(i, a.n)
  {
    size_t e = i % a.width, col = i / a.width % a.cols, line = i / a.width / a.cols;
    size_t row = line / a.grain, k = line % a.grain;
    a.to[place(a, a.out, row, k, col) + e] = a.from[place(a, a.in, row, k, col) + e];
  }
}

/* ---- 16 bits: see tensor/half.c ---- */

static __device__ __forceinline__ float of_bf16(uint16_t h)
{
  return __uint_as_float((uint32_t)h << 16);
}

static __device__ __forceinline__ uint16_t to_f16(float x)
{
  uint32_t u = __float_as_uint(x), sign = u >> 16 & 0x8000u, m = u & 0x7fffffffu;
  uint32_t normal = (m - (112u << 23) + 0xfffu + (m >> 13 & 1u)) >> 13;
  uint32_t small = __float_as_uint(__uint_as_float(m) + 0.5f) - 0x3f000000u;
  uint32_t h = m < (113u << 23) ? small : normal;
  h = m >= (143u << 23) ? 0x7c00u : h;
  h = m > 0x7f800000u ? 0x7e00u | (m >> 13 & 0x3ffu) : h;
  return (uint16_t)(sign | h);
}

static __device__ __forceinline__ float of_f16(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, m = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t small = __float_as_uint(__uint_as_float(m + (113u << 23)) - 0x1p-14f);
  uint32_t u = m < 0x00800000u ? small : m + (112u << 23);
  u = m >= 0x0f800000u ? m + (224u << 23) : u;
  return __uint_as_float(sign | u);
}

SHOAL_KERNEL(pack16)
{
  const float largest = a.f16 ? 65504.0f : 0x1.fep127f;
  bool fits = true;
  EACH(i, a.n)
  {
    float d = a.minus ? a.x[i] - a.minus[i] : a.x[i];
    if (a.divisor != 1) d /= a.divisor;
    fits = fits && fabsf(d) <= largest;
    a.y[i] = a.f16 ? to_f16(d) : to_bf16(d);
  }
  if (!fits && a.bad) raise_flag(a.bad);
}

SHOAL_KERNEL(unpack16)
{
  EACH(i, a.n)
  {
    float v = a.f16 ? of_f16(a.x[i]) : of_bf16(a.x[i]);
    a.y[i] = a.plus ? v + a.plus[i] : v;
  }
}
