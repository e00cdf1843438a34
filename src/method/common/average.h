/* Means over ranks: running statistics and weights; and the samples that a node's gradient averages.
 *
 * Running means average; variances are mean(var + mean^2) - mean(mean)^2, the variance of the union. */
#ifndef SHOAL_METHOD_AVERAGE_H
#define SHOAL_METHOD_AVERAGE_H
#include "comm/exchange.h"
#include "nn/form.h"

/** Mean of the running statistics over all ranks, into `out` [n_stats] (may be `stats`), both of the backend.  Collective over
 *  `control`; sums in double, in rank order. */
shoal_status shoal_mean_stats(shoal_backend *b, shoal_group *control, const shoal_model *m, const float *stats,
                              float *out);
/** The same in two steps, for n sets of statistics in host memory: add each to `sum` [n_stats, zeroed], then take their mean. */
void shoal_moments_add(const shoal_model *m, const shoal_host_float *stats, double *sum);
void shoal_moments_mean(const shoal_model *m, double *sum, double n, shoal_host_float *stats);

/* A sum of whole models over all ranks; planned once, reusable. */
typedef struct {
  shoal_backend *backend; /* borrowed, as is the group */
  shoal_group *control;
  shoal_exchange *exchange; /* NULL until first use */
} shoal_model_sum;
/** Sums f->params->g over all ranks into `out` [n_params]; the gradient memory, unused between steps, is overwritten.
 *  Only for replicas of the whole model.  Collective over `control`.  Cost: an f32 sum of the weights (exchange.h),
 *  class control; planned by the first call. */
shoal_status shoal_model_sum_take(shoal_model_sum *s, shoal_form *f, float *out);
/** Weighted mean of all ranks' weights:  out ← Σ_r weight_r · w_r.  `weight` may differ between ranks and
 *  should add up to 1.  Collective; cost as above. */
shoal_status shoal_model_sum_weighted(shoal_model_sum *s, shoal_form *f, double weight, float *out);
void shoal_model_sum_fini(shoal_model_sum *s); /* also if never used */

/** x [n], of the backend, from one member to all others.  Collective over `g`; cost as of shoal_group_broadcast. */
shoal_status shoal_broadcast_arena(shoal_backend *b, shoal_group *g, float *x, size_t n, int root);

/** Samples of a global batch of `total` assigned to the ranks of the caller's node. */
uint64_t shoal_node_samples(const shoal_world *w, uint64_t total);
#endif
