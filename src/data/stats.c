/* Mean, standard deviation and checksum of a data set, accumulated while its samples are written or read.
 *
 * Bytes are counted in a histogram of 256 bins per channel: this is exact, so the result does not depend on the order
 * of the samples, and cheap.  Floats are summed in double as differences from the first sample, which keeps the digits
 * that the textbook formula E[x²] - E[x]² loses when the mean is far from zero. */
#include "data/stats.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 256 };

shoal_status shoal_data_stats_init(shoal_data_stats *t, shoal_data_kind kind, const shoal_shape *sample, int x_bytes)
{
  *t = (shoal_data_stats){ .x_bytes = x_bytes };
  size_t elements = (size_t)shoal_shape_count(sample);
  if (kind == SHOAL_DATA_IMAGES)
    t->groups = (size_t)sample->dim[0];
  else
    t->groups = elements <= SHOAL_DATA_SCALES ? elements : 1;
  t->plane = elements / t->groups;
  if (x_bytes == 1) return SHOAL_ALLOC(t->groups * BINS, &t->bins);
  SHOAL_TRY(SHOAL_ALLOC(2 * t->groups, &t->extremes));
  for (size_t g = 0; g < t->groups; g++) {
    t->extremes[g] = (shoal_data_extreme){ INFINITY, INFINITY, 0 };
    t->extremes[t->groups + g] = (shoal_data_extreme){ -INFINITY, -INFINITY, 0 };
  }
  SHOAL_TRY(SHOAL_ALLOC(3 * t->groups, &t->shift));
  t->sum = t->shift + t->groups;
  t->square = t->sum + t->groups;
  return SHOAL_OK;
}

void shoal_data_stats_fini(shoal_data_stats *t)
{
  free(t->bins);
  free(t->shift);
  free(t->extremes);
  *t = (shoal_data_stats){ 0 };
}

static void add_bytes(shoal_data_stats *t, const uint8_t *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    uint64_t *bins = t->bins + g * BINS;
    for (size_t i = 0; i < t->plane; i++) bins[x[i]]++;
  }
}

/* A value at or beyond the one next to the extreme; `sign` is 1 for the highest, -1 for the lowest. */
static void note_extreme(shoal_data_extreme *e, double sign, double value)
{
  if (value == e->value) {
    e->count++;
  } else if (sign * value > sign * e->value) {
    *e = (shoal_data_extreme){ value, e->value, 1 };
  } else {
    e->next = value;
  }
}

static void note_bad(shoal_data_stats *t, size_t element, float value)
{
  if (t->not_finite++ > 0) return;
  t->bad.sample = t->samples;
  t->bad.element = element;
  t->bad.value = value;
}

static void add_floats(shoal_data_stats *t, const float *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    shoal_data_extreme *low = &t->extremes[g], *high = &t->extremes[t->groups + g];
    if (t->samples == 0 && isfinite(x[0])) t->shift[g] = x[0];
    for (size_t i = 0; i < t->plane; i++) {
      if (!isfinite(x[i])) {
        note_bad(t, g * t->plane + i, x[i]);
        continue;
      }
      if (x[i] < low->next) note_extreme(low, -1, x[i]);
      if (x[i] > high->next) note_extreme(high, 1, x[i]);
      double away = x[i] - t->shift[g];
      t->sum[g] += away;
      t->square[g] += away * away;
    }
  }
}

void shoal_data_stats_add(shoal_data_stats *t, uint64_t n, const void *x)
{
  size_t step = t->groups * t->plane;
  for (uint64_t i = 0; i < n; i++, t->samples++) {
    if (t->x_bytes == 1)
      add_bytes(t, (const uint8_t *)x + i * step);
    else
      add_floats(t, (const float *)x + i * step);
  }
}

void shoal_data_stats_result(const shoal_data_stats *t, double *mean, double *std)
{
  double n = (double)t->samples * (double)t->plane;
  for (size_t g = 0; g < t->groups; g++) {
    double sum = 0, square = 0;
    if (t->x_bytes == 1) {
      /* Integers below 2^53 for up to 10^11 values per channel: exact. */
      for (int v = 0; v < BINS; v++) {
        double count = (double)t->bins[g * BINS + (size_t)v];
        sum += v * count;
        square += (double)v * v * count;
      }
    } else {
      sum = t->sum[g];
      square = t->square[g];
    }
    double away = n > 0 ? sum / n : 0, variance = n > 0 ? square / n - away * away : 0;
    mean[g] = away + (t->shift ? t->shift[g] : 0);
    std[g] = variance > 0 ? sqrt(variance) : 1;
  }
}

void shoal_data_overall(size_t n, const double *mean, const double *std, double *mean_out, double *std_out)
{
  double sum = 0, square = 0;
  for (size_t k = 0; k < n; k++) {
    sum += mean[k] / (double)n;
    square += (std[k] * std[k] + mean[k] * mean[k]) / (double)n;
  }
  *mean_out = sum;
  *std_out = square > sum * sum ? sqrt(square - sum * sum) : 1;
}

static bool is_constant(const shoal_data_stats *t, size_t group)
{
  size_t values = 0;
  if (t->x_bytes > 1) return t->extremes[group].value == t->extremes[t->groups + group].value;
  for (size_t v = 0; v < BINS; v++) values += t->bins[group * BINS + v] > 0;
  return values == 1;
}

size_t shoal_data_stats_constant(const shoal_data_stats *t, size_t *first)
{
  size_t found = 0;
  for (size_t g = 0; g < t->groups; g++)
    if (is_constant(t, g) && found++ == 0) *first = g;
  return found;
}

uint32_t shoal_data_checksum(const uint32_t crc[4])
{
  uint8_t bytes[16];
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(crc[i / 4] >> 8 * (i % 4));
  return shoal_crc32c(0, bytes, sizeof bytes);
}

/* ---- numbers apart from all others ---- */

/* 999, -9999, 99.99, the ends of integers, and what climate data is filled with: 1e20, 9.96921e36. */
static bool is_mark(double value)
{
  const double v = fabs(value);
  char text[32];
  size_t nines = 0, others = 0;
  if (v >= 1e19 || v == 32767 || v == 32768 || v == 65535 || v == 2147483648.0) return true; /* f32 has no 2147483647 */
  snprintf(text, sizeof text, "%.6g", v);
  for (const char *c = text; *c; c++) {
    nines += *c == '9';
    others += *c != '9' && *c != '.';
  }
  return v >= 99 && nines >= 2 && others == 0;
}

/* Whether an extreme is apart from all other numbers, which go from its next one to `other_end`. */
static bool is_apart(const shoal_data_extreme *e, double other_end)
{
  enum { APART = 5, FAR = 1000 };
  if (!isfinite(e->next)) return false; /* a constant */
  const double gap = fabs(e->value - e->next), range = fabs(e->next - other_end);
  return (is_mark(e->value) && gap > APART * range) || (range > 0 && gap > FAR * range);
}

size_t shoal_data_stats_warn(const shoal_data_stats *t, const char *path, const char *array, const char *part)
{
  enum { SHOWN = 5 };
  size_t found = 0;
  if (t->x_bytes == 1) return 0;
  for (size_t g = 0; g < t->groups; g++)
    for (int end = 0; end < 2; end++) {
      const shoal_data_extreme *e = &t->extremes[(size_t)end * t->groups + g];
      const double other_end = t->extremes[(size_t)!end * t->groups + g].value;
      char one[64] = "";
      if (!is_apart(e, other_end) || found++ >= SHOWN) continue;
      if (t->groups > 1) snprintf(one, sizeof one, ", %s %zu", part, g);
      shoal_warn(
          "%s: %s%s: %" PRIu64 " of %" PRIu64
          " numbers %s %.6g, all others are between %.6g and %.6g: if it marks missing values, fill these or remove "
          "the samples",
          path, array, one, e->count, t->samples * t->plane, e->count > 1 ? "are" : "is", e->value,
          fmin(e->next, other_end), fmax(e->next, other_end));
    }
  if (found > SHOWN) shoal_warn("%s: %s: the same holds for %zu more", path, array, found - SHOWN);
  return found;
}
