/* What the stand-ins for cuBLAS and cuBLASLt compute: op(A) op(B) in double from the first term to the last, as the backend ref does.
 * By columns: element (i, j) of an m x n matrix is [i + j ld]. */
#ifndef SIMGPU_PRODUCT_H
#define SIMGPU_PRODUCT_H
#include "sim.h"
#include <cstring>

namespace sim
{
inline double value(const float *x)
{
  return static_cast<double>(*x);
}
inline double value(const uint16_t *x) /* bf16 */
{
  const uint32_t bits = static_cast<uint32_t>(*x) << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return static_cast<double>(f);
}

inline uint16_t bf16(float x) /* to the nearest, halves to even */
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return 0x7fc0;
  const uint32_t rest = bits & 0xffff, whole = bits >> 16;
  return static_cast<uint16_t>(whole + (rest > 0x8000 || (rest == 0x8000 && whole & 1)));
}

/* A of op(A) [m, k], B of op(B) [k, n]; f32 or bf16. */
template <class T> struct product {
  bool at, bt;
  int m, n, k, lda, ldb, ldc;
  const T *a, *b;
  bool rounds; /* to TF32 */

  bool valid() const
  {
    return m >= 0 && n >= 0 && k >= 0 && lda >= (at ? k : m) && ldb >= (bt ? n : k) && ldc >= m && lda >= 1 &&
           ldb >= 1 && ldc >= 1;
  }
  static size_t extent(int rows, int cols, int ld)
  {
    return static_cast<size_t>(cols - 1) * ld + rows;
  }
  void touches(ranges &r, float *c) const
  {
    if (k) r.reads(a, at ? extent(k, m, lda) : extent(m, k, lda));
    if (k) r.reads(b, bt ? extent(n, k, ldb) : extent(k, n, ldb));
    r.writes(c, extent(m, n, ldc));
  }
  double factor(const T *x) const
  {
    return rounds ? static_cast<double>(tf32(static_cast<float>(value(x)))) : value(x);
  }
  double of_b(int l, int j) const
  {
    return factor(&(bt ? b[j + size_t(l) * ldb] : b[l + size_t(j) * ldb]));
  }
  double sum(int i, int j) const
  {
    double s = 0;
    for (int l = 0; l < k; l++) s += factor(&(at ? a[l + size_t(i) * lda] : a[i + size_t(l) * lda])) * of_b(l, j);
    return s;
  }
};
} // namespace sim
#endif
