/* How well predictions fit targets, target by target: sums over samples, which add up over batches and ranks, and what is told
 * of them in the units of the data. */
#ifndef SHOAL_TRAIN_FIT_H
#define SHOAL_TRAIN_FIT_H
#include "tensor/memory.h"
#include <stdbool.h>
#include <stddef.h>

/* Of one target, normalised as it is trained: e is prediction - target, z the target. */
typedef struct {
  double n, squares, absolutes; /* samples; sums of e^2 and of |e| */
  double sum, sum_squares;      /* of z and of z^2 */
} shoal_fit;

/* In the units of the data; of several targets the means over them, with errors in deviations of each, for their units differ.  NAN: there are
 * no samples. */
typedef struct {
  double rmse, mae; /* root of the mean squared error; mean absolute error */
  double r2; /* 1 - squared error / squared distance from the mean of these samples; NAN where they do not differ */
} shoal_fit_scores;

/** Adds a sample of n targets: outputs y and targets t, normalised.
 *  @return false, and nothing is added, if it has no target, or an output is not finite */
bool shoal_fit_add(shoal_fit *fit, size_t n, const shoal_host_float *y, const shoal_host_float *t);
/** Scores of one target, which was normalised by `std`. */
shoal_fit_scores shoal_fit_score(const shoal_fit *fit, double std);
/** That of the target if there is one, else the means over n targets. */
shoal_fit_scores shoal_fit_mean_score(const shoal_fit *fit, size_t n, const double *std);
/** "rmse 31200, mae 22000, R2 0.8312"; of several, "means of 2 targets in deviations: rmse 0.0995, mae 0.0779, R2 0.9899" */
const char *shoal_fit_text(const shoal_fit_scores *s, size_t n, char *buf, size_t cap);
#endif
