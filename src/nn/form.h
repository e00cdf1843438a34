/* A form of the network: one description in training, with everything a step on it needs.
 *
 *   model    what is trained: the whole network, or a part, factors, a block of it
 *   params   weights, gradients, running statistics
 *   optim    optimizer state: mirrors params
 *   plans    what steps run, by batch size; `plan`, the usual one, gives the static order of announcements
 *   ranges   the trainable ranges of the arena
 *
 * A run owns the form it was opened with.  A training method may own more and switch between them from step to step, so
 * what works on weights (buckets, averages, the optimizer's step) is given a form and not a run. */
#ifndef SHOAL_NN_FORM_H
#define SHOAL_NN_FORM_H
#include "nn/optim.h"
#include "nn/plan.h"

typedef struct {
  const shoal_model *model; /* borrowed; another one of the same shapes may take its place between steps */
  shoal_params *params;
  shoal_optim *optim;
  shoal_plans *plans;     /* NULL: a method's step has plans of its own */
  const shoal_plan *plan; /* the usual one of these; NULL as well */
  const shoal_range *ranges;
  size_t n_ranges; /* `ranges` NULL: all of the arena is trained */
} shoal_form;

/** Weights and optimizer state for `m`, all zeros, without plans.
 *  @param gradients  memory for them, [m->weights] zeros, which stays the caller's; NULL: made here
 *  @param f          zeroed; after an error fini frees what there is */
shoal_status shoal_form_init(shoal_backend *b, const shoal_model *m, const shoal_optim_config *rules, float *gradients,
                             shoal_form *f);
/** Plans of the form's model, and the usual one: a training step of `batch` samples.  ERR_ARG names the layer that cannot
 *  take its input. */
shoal_status shoal_form_plan(shoal_backend *b, int64_t batch, shoal_form *f);
void shoal_form_fini(shoal_backend *b, shoal_form *f); /* also one that is zeroed */
/** The optimizer's step over what the form trains; errors and cost as in optim.h. */
static inline shoal_status shoal_form_step(shoal_form *f, float lr)
{
  return shoal_optim_step(f->optim, f->model, f->params, f->ranges, f->n_ranges, lr, NULL);
}
#endif
