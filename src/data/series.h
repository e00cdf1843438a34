/* Samples of two dimensions that are no images: series of several numbers, each in a unit of its own. */
#ifndef SHOAL_DATA_SERIES_H
#define SHOAL_DATA_SERIES_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/** How many of n samples are enough to tell: 256, or as many as 16 MiB hold, or one. */
size_t shoal_series_samples(uint64_t n, uint64_t numbers);

typedef struct {
  int axis; /* 1 (a) or 2 (b); 0: one scale fits all */
  double narrow,
      wide; /* the least deviation of one of the numbers (of more than SHOAL_DATA_CHANNELS the median), and that of all */
} shoal_series;

/** Along which dimension of a sample the numbers of a series lie, as pressure, temperature and acceleration of [steps, 3] do along the
 *  second: their scales are so different there that under one mean and deviation for all some would hardly count.
 *
 *  x [n][a][b], in the order of the array; values that are not finite do not count.  ERR_MEM if there is no room to sort. */
shoal_status shoal_find_series(const float *x, size_t n, size_t a, size_t b, shoal_series *out);
/** Tells what is made of them: channels, or, of too many for that, features; `what` are they of, "x.npy: X". */
void shoal_tell_series(const shoal_series *s, const char *what, size_t steps, size_t numbers);
#endif
