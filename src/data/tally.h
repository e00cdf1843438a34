/* Mean, standard deviation and identity of a data set, gathered while its samples pass by. */
#ifndef SHOAL_DATA_TALLY_H
#define SHOAL_DATA_TALLY_H
#include "data/dataset.h"

enum { SHOAL_DATA_SCALES = 4096 }; /* most features that have a mean and deviation each */

/* Element i of a sample belongs to group i / plane.  u8 is counted in bins, so its results are exact in any order. */
typedef struct {
  size_t groups, plane;
  int x_bytes;
  uint64_t samples, not_finite;
  uint64_t *bins;               /* u8: [groups][256] */
  double *shift, *sum, *square; /* f32: [groups], sums of x - shift */
} shoal_tally;
shoal_status shoal_tally_init(shoal_tally *t, shoal_data_kind kind, const shoal_shape *sample, int x_bytes);
void shoal_tally_fini(shoal_tally *t);
void shoal_tally_add(shoal_tally *t, uint64_t n, const void *x);
/** mean, std [groups]; a constant group and one never seen have std 1. */
void shoal_tally_result(const shoal_tally *t, double *mean, double *std);
uint32_t shoal_data_checksum(const uint32_t crc[4]); /* train x, train y, test x, test y */
#endif
