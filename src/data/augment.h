/* Data augmentation: random crops and horizontal flips, applied while raw samples are normalised to floats. */
#ifndef SHOAL_DATA_AUGMENT_H
#define SHOAL_DATA_AUGMENT_H
#include "tensor/shape.h"
#include <stdbool.h>
#include <stdint.h>

/* Augmentation of one sample: the image is shifted by (down, right) pixels, then flipped. */
typedef struct {
  int down, right; /* -4 .. 4 */
  bool mirror;
} shoal_augment;
/** A pure function of (seed, epoch, sample): the same on any rank, with any prefetch depth, after any resume. */
shoal_augment shoal_augment_choose(uint64_t seed, uint64_t epoch, uint64_t sample, bool crop4, bool hflip);

/* Precomputed normalisation (raw - mean) / std.  u8 uses a lookup table of 256 values per group: exact, the same on
 * every processor, and no slower than arithmetic.  Floats are computed in f32, and in double where that fails: the
 * reciprocal of a standard deviation of 1e-39 is infinite, that of 3e38 is subnormal.  Element i belongs to group
 * i / plane. */
typedef struct {
  size_t groups, plane;
  float *table;               /* u8: [groups, 256]; else NULL */
  float *mean, *scale;        /* f32: [groups]; scale is 1 / std, or 0: to be computed in double */
  double *mean_f64, *std_f64; /* f32: [groups] */
} shoal_normal;

/** out [elements] = raw, normalised without augmentation.  @return whether all of it is finite and below 2^99: seen in the
 *  same loop */
bool shoal_normal_apply(const shoal_normal *n, const void *raw, float *out);
/** The same with the image [c,h,w] shifted and flipped; pixels from outside the image are 0, the mean. */
bool shoal_augment_apply(const shoal_augment *a, const shoal_normal *n, const shoal_shape *image, const void *raw,
                         float *out);
#endif
