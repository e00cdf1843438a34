/* Mean, standard deviation and checksum of a data set, accumulated while its samples are written or read.
 *
 * Of floats, values that are absurdly far from all others are left out of mean and standard deviation, for with them all others
 * would be normalised to nearly one value: the range of the others is less than a hundredth of the standard deviation with them.
 * They are few, at most as many as one sample in a thousand has, or three of at least thirty, and 10^6 away or more. */
#ifndef SHOAL_DATA_STATS_H
#define SHOAL_DATA_STATS_H
#include "data/dataset.h"

enum { SHOAL_DATA_SCALES = 1 << 15 }; /* maximum number of features with their own mean and std */

/* Element i of a sample belongs to group i / plane.  u8 uses a histogram, so its results are exact in any order. */
typedef struct {
  double value, next; /* the outermost value of a group, and the one next to it; infinite if there is none */
  uint64_t count;     /* how often it occurs */
  uint64_t sample;    /* the first that has it */
} shoal_data_extreme;
enum { SHOAL_DATA_BINS = 64 }; /* of floats: by sign and magnitude, a factor of 256 each, in ascending order */
typedef struct {
  double first, sum, square; /* the first value, sums of x - first and its square */
  double low, high;
  uint64_t count, sample; /* sample that the first value is of */
} shoal_data_bin;
typedef struct {
  size_t groups, plane;
  int x_bytes;
  uint64_t samples, not_finite;
  uint64_t number;              /* by which messages call the next sample; those that follow count on */
  uint64_t *counts;             /* u8: [groups][256] */
  shoal_data_bin *bins;         /* f32: [groups][SHOAL_DATA_BINS] */
  shoal_data_extreme *extremes; /* f32: [2 groups], the lowest of each group, then the highest */
  struct {
    uint64_t sample;
    size_t element;
    float value;
  } bad; /* the first that is not finite */
} shoal_data_stats;
shoal_status shoal_data_stats_init(shoal_data_stats *t, shoal_data_kind kind, const shoal_shape *sample, int x_bytes);
void shoal_data_stats_fini(shoal_data_stats *t);
void shoal_data_stats_add(shoal_data_stats *t, uint64_t n, const void *x);
/** mean, std [groups]; std is 1 for a constant group and for one without samples. */
void shoal_data_stats_result(const shoal_data_stats *t, double *mean, double *std);
/** Warns of groups one of whose ends is a number apart from all others that looks like a mark of missing values (-9999, 1e20),
 *  or is far beyond them; the first few by name, with the first sample.  Returns how many there are.
 *  @param array  as in messages, "/train/x"; @param part  what a group is: "feature" or "channel" */
size_t shoal_data_stats_warn(const shoal_data_stats *t, const char *path, const char *array, const char *part);
uint32_t shoal_data_checksum(const uint32_t crc[4]); /* train x, train y, test x, test y */
/** One mean and std over all of n groups. */
void shoal_data_overall(size_t n, const double *mean, const double *std, double *mean_out, double *std_out);
/** Whether a group holds one value alone, and that value. */
bool shoal_data_stats_is_constant(const shoal_data_stats *t, size_t group, double *value);
/** How many groups hold one value alone, and the first of them. */
size_t shoal_data_stats_constant(const shoal_data_stats *t, size_t *first);
#endif
