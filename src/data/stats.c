/* Mean, standard deviation and checksum of a data set, accumulated while its samples are written or read.
 *
 * Bytes are counted in a histogram of 256 bins per channel: this is exact, so the result does not depend on the order
 * of the samples, and cheap.  Floats are summed in double as differences from the first sample, which keeps the digits
 * that the textbook formula E[x²] - E[x]² loses when the mean is far from zero. */
#include "data/stats.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include <math.h>
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
  SHOAL_TRY(SHOAL_ALLOC(3 * t->groups, &t->shift));
  t->sum = t->shift + t->groups;
  t->square = t->sum + t->groups;
  return SHOAL_OK;
}

void shoal_data_stats_fini(shoal_data_stats *t)
{
  free(t->bins);
  free(t->shift);
  *t = (shoal_data_stats){ 0 };
}

static void add_bytes(shoal_data_stats *t, const uint8_t *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    uint64_t *bins = t->bins + g * BINS;
    for (size_t i = 0; i < t->plane; i++) bins[x[i]]++;
  }
}

static void add_floats(shoal_data_stats *t, const float *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    if (t->samples == 0 && isfinite(x[0])) t->shift[g] = x[0];
    for (size_t i = 0; i < t->plane; i++) {
      if (!isfinite(x[i])) {
        t->not_finite++;
        continue;
      }
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

uint32_t shoal_data_checksum(const uint32_t crc[4])
{
  uint8_t bytes[16];
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(crc[i / 4] >> 8 * (i % 4));
  return shoal_crc32c(0, bytes, sizeof bytes);
}
