/* What the tests of nn/ share: models from the zoo by options, small networks built by hand, numbers to feed them, and
 * a bundle of model, parameters and plan. */
#ifndef SHOAL_TESTS_NN_RIG_H
#define SHOAL_TESTS_NN_RIG_H
#include "check.h"
#include "nn/plan.h"

/** The backend ref, opened once. */
shoal_backend *ref_backend(void);
/** A zoo model; `options` is a list of assignments separated by spaces ("model.norm=batch model.widths=[8,4]"). */
shoal_model *rig_model(const char *name, const char *options, const shoal_shape *input, int64_t classes);
/** Networks with every kind of node, small enough for finite differences on [2,6,6] images with 3 classes:
 *  "chain"     conv+relu, avgpool, conv, bn, gelu, dropout, flatten, linear+relu, layernorm, linear
 *  "residual"  stem, identity block, projection block, global pool, linear
 *  "forks"     tensors with four readers, sums of sums, sums without relu, gradients shared in every order
 *  "tokens"    a table of 11 rows, places, layernorm, attention, linears along the last dimension, a label for each of 6 tokens
 *  "tied"      the same, but that the last layer has the table as its weight
 *  "wide"      flattened channels added to a linear: a space whose layers see different grains */
shoal_model *rig_network(const char *which);
/** Numbers in [-1, 1), a function of (seed, index). */
void rig_fill(float *x, size_t n, uint64_t seed);
void rig_labels(int32_t *y, size_t n, int64_t classes, uint64_t seed);

typedef struct {
  shoal_backend *b;
  const shoal_model *m;
  shoal_params *params;
  shoal_plan *plan;
  int64_t batch;
  float *x;
  int32_t *y;
  shoal_address at;
} rig;
/** Initial weights of seed 7 with every parameter and statistic moved by a tenth or so, so that no scale is 1 and no shift 0. */
extern shoal_products rig_products; /* of the backends that rig_open opens; f32 unless a test sets it */
void rig_open(rig *r, const char *backend, const shoal_model *m, int64_t batch, shoal_plan_mode mode);
void rig_close(rig *r);
/** One forward (and backward); mean loss over the batch. */
double rig_forward(rig *r);
double rig_step(rig *r);
/** Logits of the last forward: [batch, classes], caller frees. */
float *rig_output(rig *r, int node);
/** Largest |a - b| over n, divided by the largest |b| (1 if that is 0). */
double rig_difference(const float *a, const float *b, size_t n);
/** Compares every gradient with differences of the loss: along the gradient and at its largest and some other elements.
 *  Statistics are put back between forwards.  @return the worst error, relative to the largest of its tensor or to a
 *  twentieth of the largest of all; what exceeds the tolerance is printed. */
double rig_gradient_error(rig *r, double tolerance);
static inline void rig_check_gradients(rig *r, const char *what) /* CHECK counts in the file that uses it */
{
  double error = rig_gradient_error(r, 0.01);
  printf("%s, batch %lld: worst gradient error %.2g\n", what, (long long)r->batch, error);
  CHECK_LT(error, 0.01, "%s", what);
}
#endif
