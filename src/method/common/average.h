/* Means over ranks: running statistics, weights of models, and the samples that a gradient is a mean of.
 *
 * Running means average; variances are mean(var + mean^2) - mean(mean)^2, the variance of the union. */
#ifndef SHOAL_METHOD_AVERAGE_H
#define SHOAL_METHOD_AVERAGE_H
#include "comm/exchange.h"
#include "nn/form.h"

/** Mean of the running statistics over all ranks, into `out` [n_stats] (may be `stats`).  Collective over `control`; sums in
 *  double, in rank order. */
shoal_status shoal_mean_stats(shoal_group *control, const shoal_model *m, const float *stats, float *out);
/** The same by hand, for any number of statistics: add each to `sum` [n_stats, zeroed], then take the mean of n. */
void shoal_moments_add(const shoal_model *m, const float *stats, double *sum);
void shoal_moments_mean(const shoal_model *m, double *sum, double n, float *stats);

/* A sum of whole models, put together from every rank's; plan once, use often. */
typedef struct {
  shoal_group *control;     /* borrowed */
  shoal_exchange *exchange; /* NULL until it is used for the first time */
} shoal_model_sum;
/** Sum over all ranks of what each has put into f->params->g (free between steps, gone afterwards), into `out` [n_params].
 *  Only where replicas are whole models.  Collective over `control`.  Cost: an f32 sum of the weights in the usual way
 *  (exchange.h), class control; planned by the first call. */
shoal_status shoal_model_sum_take(shoal_model_sum *s, shoal_form *f, float *out);
/** The model as a weighted mean of all ranks' weights:  out ← Σ_r weight_r · w_r.  `weight` may differ between ranks and
 *  should add up to 1.  Cost and collectiveness as above. */
shoal_status shoal_model_sum_weighted(shoal_model_sum *s, shoal_form *f, double weight, float *out);
void shoal_model_sum_fini(shoal_model_sum *s); /* also one that was never used */

/** Samples of a global batch of `total` that the ranks of my node hold. */
uint64_t shoal_node_samples(const shoal_world *w, uint64_t total);
#endif
