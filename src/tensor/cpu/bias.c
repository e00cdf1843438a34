/* Backward of the bias and relu at the end of a convolution, in one pass over dy:
 *
 *   masked = y <= 0 ? 0 : dy,   db[c] = sum over n, h, w of masked
 *
 * Eight positions are summed in floats, these sums in doubles, and images are combined in order: accurate to f32, and
 * the same bits for any number of threads. */
#include "tensor/cpu/vector.h"
#include "tensor/cpu/view.h"

enum { TILE = 8 };

typedef struct {
  const shoal_cpu_view *v;
  const void *dy, *y; /* y NULL: no relu */
  void *masked;       /* NULL: not wanted */
  double *partial;    /* [image][group][lane] */
} pass;

static inline __attribute__((always_inline)) void unit16(bool half, const pass *t, int64_t at, int64_t rows,
                                                         int64_t stride, double sum[16])
{
  v16d total = { 0 };
  for (int64_t first = 0; first < rows; first += TILE) {
    v16 s[2] = { { 0 } };
    int64_t last = SHOAL_MIN(first + TILE, rows);
    for (int64_t r = first; r < last; r++) {
      int64_t o = at + r * stride;
      v16 g = LOAD16_AS(half, t->dy, o);
      if (t->y) {
        const v16 y = LOAD16_AS(half, t->y, o);
        g = KEEP16(PASSES16(y), g);
        STORE16_AS(half, t->masked, o, g);
      }
      s[r % 2] += g;
    }
    total += __builtin_convertvector(s[0] + s[1], v16d);
  }
  for (int j = 0; j < 16; j++) sum[j] = total[j];
}

static inline __attribute__((always_inline)) void sum_units(bool half, const pass *t, size_t begin, size_t end)
{
  const shoal_cpu_view *v = t->v;
  for (size_t i = begin; i < end; i++) {
    int64_t group = (int64_t)i % v->groups, at = shoal_cpu_unit_at(v, (int64_t)i / v->groups, group), done = 0;
    int stored = shoal_cpu_stored(v, group);
    double sum[16] = { 0 };
    if (stored == 16) {
      unit16(half, t, at, v->rows, v->row_stride, sum);
      done = v->rows;
    } else if (v->lanes == 1) {
      done = v->rows / 16 * 16;
      unit16(half, t, at, v->rows / 16, 16, sum);
      for (int j = 1; j < 16; j++) sum[0] += sum[j];
    }
    for (int64_t r = done; r < v->rows; r++)
      for (int j = 0; j < stored; j++) {
        int64_t o = at + r * v->row_stride + j;
        float g = t->y && shoal_cpu_load(half, t->y, o) <= 0 ? 0.0f : shoal_cpu_load(half, t->dy, o);
        if (t->y) shoal_cpu_store(half, t->masked, o, g);
        sum[j] += (double)g;
      }
    for (int j = 0; j < v->lanes; j++) t->partial[(int64_t)i * v->lanes + j] = sum[j];
  }
}

SHOAL_CPU_KERNEL static void bias_range(const void *context, size_t begin, size_t end)
{
  sum_units(false, context, begin, end);
}

SHOAL_CPU_KERNEL static void bias_range_bf16(const void *context, size_t begin, size_t end)
{
  sum_units(true, context, begin, end);
}

size_t shoal_cpu_bias_scratch(const shoal_cpu_view *v)
{
  return (size_t)(v->images * v->groups * v->lanes) * sizeof(double);
}

void shoal_cpu_bias_gradient(shoal_cpu *b, const shoal_cpu_view *v, shoal_elements e, const void *dy, const void *y,
                             void *masked, double *partial, float *db)
{
  pass t = { v, dy, y, masked, partial };
  size_t bytes = (size_t)v->rows * (size_t)v->lanes * shoal_elements_bytes(e) * (y ? 3 : 1);
  shoal_cpu_parallel(b, (size_t)(v->images * v->groups), 1, bytes,
                     e == SHOAL_ELEMENTS_BF16 ? bias_range_bf16 : bias_range, &t);
  for (int64_t c = 0; c < v->channels; c++) {
    double sum = 0;
    for (int64_t i = 0; i < v->images; i++) sum += partial[i * v->groups * v->lanes + c];
    db[c] = (float)sum;
  }
}
