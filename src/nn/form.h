/* A form of the network: a model description in training, with everything a training step on it needs.
 *
 *   model    what is trained: the whole network, a part of it, or its factors
 *   params   weights, gradients, running statistics
 *   optim    optimizer state: mirrors params
 *   plans    execution plans by batch size; `plan`, for the full batch, sets the order of gradient announcements
 *   ranges   the trainable ranges of the arena
 *
 * A run owns the form it was opened with.  A training method may own more and switch between them from step to step, so
 * code that works on weights (buckets, averages, the optimizer's step) takes a form and not a run. */
#ifndef SHOAL_NN_FORM_H
#define SHOAL_NN_FORM_H
#include "nn/optim.h"
#include "nn/plan.h"

typedef struct {
  shoal_backend *backend;   /* borrowed */
  const shoal_model *model; /* borrowed; may be replaced by one of the same shapes between steps */
  shoal_params *params;
  shoal_optim *optim;
  shoal_plans *plans;     /* NULL: the method has its own plans */
  const shoal_plan *plan; /* the one for the full batch; NULL without plans */
  const shoal_range *ranges;
  size_t n_ranges; /* `ranges` NULL: the whole arena is trained */
} shoal_form;

/** Weights and optimizer state for `m`, all zeros, without plans.
 *  @param gradients  memory for the gradients, [m->weights] zeros, owned by the caller; NULL: allocated here
 *  @param f          zeroed by the caller; after an error call fini */
shoal_status shoal_form_init(shoal_backend *b, const shoal_model *m, const shoal_optim_config *rules, float *gradients,
                             shoal_form *f);
/** Creates the plans of the form's model, with that of a training step of `batch` samples.  ERR_ARG names the layer
 *  that cannot take its input. */
shoal_status shoal_form_plan(shoal_backend *b, int64_t batch, shoal_form *f);
void shoal_form_fini(shoal_backend *b, shoal_form *f); /* also for a zeroed form */
/** Optimizer step over the form's trainable ranges; errors and cost as in optim.h. */
static inline shoal_status shoal_form_step(shoal_form *f, float lr)
{
  return shoal_optim_step(f->optim, f->model, f->params, f->ranges, f->n_ranges, lr);
}
#endif
