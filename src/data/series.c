/* See series.h.  An image has edges, where its pixels vary little, and these in both directions; the numbers of a series differ in one.  What lies
 * within 0 and 255, or -1 and 1, is taken for pixels. */
#include "data/series.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/data_impl.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

size_t shoal_series_samples(uint64_t n, uint64_t numbers)
{
  enum { ENOUGH = 256, BYTES = 16 << 20 };
  const uint64_t room = SHOAL_MAX(BYTES / sizeof(float) / numbers, (uint64_t)1);
  return (size_t)SHOAL_MIN(n, SHOAL_MIN(room, (uint64_t)ENOUGH));
}

typedef struct {
  double n, mean, squares; /* squares: of the differences from the mean */
} moments;

static void join(moments *all, const moments *m)
{
  const double n = all->n + m->n, step = m->mean - all->mean;
  if (m->n == 0) return;
  all->squares += m->squares + step * step * all->n * m->n / n;
  all->mean += step * m->n / n;
  all->n = n;
}

/* Of what begins at x: n runs, `gap` apart, of `length` values, `step` apart. */
static moments measure(const float *x, size_t n, size_t gap, size_t length, size_t step)
{
  moments m = { 0 };
  for (size_t r = 0; r < n; r++)
    for (size_t i = 0; i < length; i++) {
      const double v = x[r * gap + i * step], away = v - m.mean;
      if (!isfinite(v)) continue;
      m.mean += away / ++m.n;
      m.squares += away * (v - m.mean);
    }
  return m;
}

static double deviation(const moments *m)
{
  return m->n > 0 ? sqrt(m->squares / m->n) : 0;
}

static bool are_pixels(const float *x, size_t n)
{
  float low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  return (low >= 0 && high <= UINT8_MAX) || (low >= -1 && high <= 1);
}

static int by_size(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The deviation of all beside that of the number with the least; 1 as what is constant has no scale.  Of many, some may be the edge of an
 * image, but not half of them. */
static shoal_status find_ratio(const float *x, size_t n, size_t a, size_t b, int axis, shoal_series *s, double *ratio)
{
  const size_t count = axis == 1 ? a : b;
  moments all = { 0 };
  double *own;
  size_t vary = 0;
  SHOAL_TRY(SHOAL_ALLOC(count, &own));
  for (size_t c = 0; c < count; c++) {
    const moments m = axis == 1 ? measure(x + c * b, n, a * b, b, 1) : measure(x + c, n, a * b, a, b);
    join(&all, &m);
    if (deviation(&m) > 0) own[vary++] = deviation(&m);
  }
  qsort(own, vary, sizeof *own, by_size);
  *ratio = 1;
  if (vary > 0) {
    *s = (shoal_series){ axis, own[count <= SHOAL_DATA_CHANNELS ? 0 : vary / 2], deviation(&all) };
    *ratio = s->wide / s->narrow;
  }
  free(own);
  return SHOAL_OK;
}

shoal_status shoal_find_series(const float *x, size_t n, size_t a, size_t b, shoal_series *out)
{
  const double most = 10; /* so much more along one dimension than along the other */
  double first, second;
  shoal_series one = { 0 }, other = { 0 };
  *out = (shoal_series){ 0 };
  if (a < 2 || b < 2 || are_pixels(x, n * a * b)) return SHOAL_OK;
  SHOAL_TRY(find_ratio(x, n, a, b, 1, &one, &first));
  SHOAL_TRY(find_ratio(x, n, a, b, 2, &other, &second));
  if (first > most * second) *out = one;
  if (second > most * first) *out = other;
  return SHOAL_OK;
}

void shoal_tell_series(const shoal_series *s, const char *what, size_t steps, size_t numbers)
{
  const bool channels = numbers <= SHOAL_DATA_CHANNELS;
  shoal_info(
      "%s: samples are series of %zu steps of %zu numbers, whose scales differ (deviations from %.3g, and %.3g of "
      "all): each %s a mean and deviation of its own; images would be [n, 1, height, width]",
      what, steps, numbers, s->narrow, s->wide, channels ? "is a channel with" : "of a sample is a feature with");
}
