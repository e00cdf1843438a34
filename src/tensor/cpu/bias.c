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
  const float *dy, *y; /* y NULL: no relu */
  float *masked;       /* NULL: not wanted */
  double *partial;     /* [image][group][lane] */
} pass;

static inline __attribute__((always_inline)) void unit16(const pass *t, int64_t at, int64_t rows, int64_t stride,
                                                         double sum[16])
{
  v16d total = { 0 };
  for (int64_t first = 0; first < rows; first += TILE) {
    v16 s[2] = { { 0 } };
    int64_t last = SHOAL_MIN(first + TILE, rows);
    for (int64_t r = first; r < last; r++) {
      int64_t o = at + r * stride;
      v16 g = LOAD16(t->dy + o);
      if (t->y) {
        g = KEEP16(PASSES16(LOAD16(t->y + o)), g);
        STORE16(t->masked + o, g);
      }
      s[r % 2] += g;
    }
    total += __builtin_convertvector(s[0] + s[1], v16d);
  }
  for (int j = 0; j < 16; j++) sum[j] = total[j];
}

SHOAL_CPU_KERNEL static void bias_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = t->v;
  for (size_t i = begin; i < end; i++) {
    int64_t group = (int64_t)i % v->groups, at = shoal_cpu_unit_at(v, (int64_t)i / v->groups, group), done = 0;
    int stored = shoal_cpu_stored(v, group);
    double sum[16] = { 0 };
    if (stored == 16) {
      unit16(t, at, v->rows, v->row_stride, sum);
      done = v->rows;
    } else if (v->lanes == 1) {
      done = v->rows / 16 * 16;
      unit16(t, at, v->rows / 16, 16, sum);
      for (int j = 1; j < 16; j++) sum[0] += sum[j];
    }
    for (int64_t r = done; r < v->rows; r++)
      for (int j = 0; j < stored; j++) {
        int64_t o = at + r * v->row_stride + j;
        float g = t->y && t->y[o] <= 0 ? 0.0f : t->dy[o];
        if (t->y) t->masked[o] = g;
        sum[j] += (double)g;
      }
    for (int j = 0; j < v->lanes; j++) t->partial[(int64_t)i * v->lanes + j] = sum[j];
  }
}

size_t shoal_cpu_bias_scratch(const shoal_cpu_view *v)
{
  return (size_t)(v->images * v->groups * v->lanes) * sizeof(double);
}

void shoal_cpu_bias_gradient(shoal_cpu *b, const shoal_cpu_view *v, const float *dy, const float *y, float *masked,
                             double *partial, float *db)
{
  pass t = { v, dy, y, masked, partial };
  size_t bytes = (size_t)v->rows * (size_t)v->lanes * sizeof(float) * (y ? 3 : 1);
  shoal_cpu_parallel(b, (size_t)(v->images * v->groups), 1, bytes, bias_range, &t);
  for (int64_t c = 0; c < v->channels; c++) {
    double sum = 0;
    for (int64_t i = 0; i < v->images; i++) sum += partial[i * v->groups * v->lanes + c];
    db[c] = (float)sum;
  }
}
