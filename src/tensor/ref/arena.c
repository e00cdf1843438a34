/* Arenas: copies, means and 16-bit formats element by element, parcels by the functions that define them. */
#include "base/mem.h"
#include "tensor/half.h"
#include "tensor/ref/ref_impl.h"
#include <math.h>
#include <string.h>

shoal_status shoal_ref_fill(shoal_backend *b, size_t n, float value, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] = value;
  return SHOAL_OK;
}

shoal_status shoal_ref_copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  if (bytes && from != to) memcpy(to, from, bytes);
  return SHOAL_OK;
}

static size_t offset_of(const shoal_tile *t, const shoal_tile_side *s, size_t row, size_t k, size_t col)
{
  size_t r = (size_t)((s->rows ? s->rows[row] : (int64_t)row) + s->row_shift) * t->grain + k;
  size_t c = (size_t)((s->cols ? s->cols[col] : (int64_t)col) + s->col_shift) * t->width;
  return r * s->stride + c;
}

shoal_status shoal_ref_copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to)
{
  for (size_t i = 0; i < t->rows; i++)
    for (size_t k = 0; k < t->grain; k++)
      for (size_t j = 0; j < t->cols; j++)
        for (size_t e = 0; e < t->width; e++)
          to[offset_of(t, &t->to, i, k, j) + e] = from[offset_of(t, &t->from, i, k, j) + e];
  return SHOAL_OK;
}

shoal_status shoal_ref_copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad)
{
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) *bad = 1;
    y[i] = x[i];
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_average(shoal_backend *b, size_t n, const float *x, const float *y, float *z)
{
  for (size_t i = 0; i < n; i++) z[i] = 0.5f * (x[i] + y[i]);
  return SHOAL_OK;
}

shoal_status shoal_ref_divide(shoal_backend *b, size_t n, float divisor, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] /= divisor;
  return SHOAL_OK;
}

shoal_status shoal_ref_scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus,
                             const float *minus, float *y)
{
  for (size_t i = 0; i < n; i++)
    y[i] = (float)(s * (plus ? (double)plus[i] - (double)minus[i] + (double)x[i] : (double)x[i]));
  return SHOAL_OK;
}

shoal_status shoal_ref_mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y)
{
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < count; k++) sum += (double)x[k][i];
    y[i] = (float)(sum / (double)count);
  }
  return SHOAL_OK;
}

/* ---- 16 bits ---- */

shoal_status shoal_ref_pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                              float divisor, uint16_t *out, uint32_t *bad)
{
  for (size_t i = 0; i < n; i++) {
    float d = minus ? x[i] - minus[i] : x[i];
    if (divisor != 1) d /= divisor;
    if (bad && !(fabsf(d) <= shoal_half_largest(format))) *bad = 1;
    shoal_half_from_f32(format, 1, &d, &out[i]);
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                float *y)
{
  for (size_t i = 0; i < n; i++) {
    float v;
    shoal_half_to_f32(format, 1, &x[i], &v);
    y[i] = plus ? v + plus[i] : v;
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  for (size_t i = 0; i < n; i++) shoal_half_add(format, 1, &x[i], &y[i]);
  return SHOAL_OK;
}

/* ---- parcels ---- */

static size_t length_of(size_t n, size_t block)
{
  return SHOAL_MIN(n - block * SHOAL_QUANT_BLOCK, (size_t)SHOAL_QUANT_BLOCK);
}

shoal_status shoal_ref_encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                              void *out)
{
  shoal_quant_encode(q, n, x, exponent, out, 0, shoal_quant_blocks(n));
  return SHOAL_OK;
}

shoal_status shoal_ref_decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                              uint8_t *bad)
{
  shoal_quant_decode(bits, n, parcel, key, z, bad, 0, shoal_quant_blocks(n));
  return SHOAL_OK;
}

shoal_status shoal_ref_meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                            float *distance)
{
  for (size_t k = 0; k < shoal_quant_blocks(n); k++) {
    size_t at = k * SHOAL_QUANT_BLOCK, count = length_of(n, k);
    float largest = 0;
    for (size_t i = at; i < at + count; i++)
      if (fabsf(theirs[i] - c[i]) > largest) largest = fabsf(theirs[i] - c[i]);
    distance[k] = largest;
    if (!a->average) continue;
    if (a->quant && !shoal_quant_marked(a->bad, k))
      shoal_quant_value(a->quant, at, count, c + at, a->exponent + k, c + at);
    for (size_t i = at; i < at + count; i++) c[i] = 0.5f * (c[i] + theirs[i]);
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest)
{
  for (size_t k = 0; k < shoal_quant_blocks(n); k++) largest[k] = 0;
  for (size_t i = 0; i < n; i++) {
    float u = base[i] - x[i], *most = &largest[i / SHOAL_QUANT_BLOCK];
    if (fabsf(u) > *most) *most = fabsf(u);
    x[i] = base[i] = c[i] = c[i] - u;
  }
  return SHOAL_OK;
}
