/* Optimizers and learning-rate schedules: pure arithmetic over ranges of the flat arena.
 *
 * The schedule is a pure function of the position; only `plateau` has state, a struct of four numbers. */
#ifndef SHOAL_NN_OPTIM_H
#define SHOAL_NN_OPTIM_H
#include "config/option.h"
#include "nn/plan.h"

extern const shoal_option shoal_optim_options[]; /* optim.*: see optim.c; ends with name NULL */

typedef enum { SHOAL_OPTIM_SGD, SHOAL_OPTIM_ADAMW } shoal_optim_kind;
typedef struct {
  shoal_optim_kind kind;
  float momentum, beta1, beta2, eps, weight_decay, clip; /* clip: largest global gradient norm, 0 off */
  bool nesterov, decoupled, decay_all; /* decay_all: also biases and norms, as PyTorch does by default */
  bool takes_back;                     /* a step whose results are not all finite changes nothing */
} shoal_optim_config;
/** Reads optim.name sgd|adamw, momentum, nesterov, weight_decay, decoupled, decay_on all|weights, beta1, beta2, eps,
 *  clip.  AdamW is always decoupled; takes_back is false. */
shoal_status shoal_optim_configure(const shoal_config *c, shoal_optim_config *out);

typedef struct {
  shoal_optim_config config;
  shoal_backend *backend;
  size_t n;
  int slots; /* state arrays that mirror the arena: SGD with momentum 1, AdamW 2, plain SGD 0 */
  float *slot[2];
  float *before[3];    /* takes_back: weights and slots before the step under way */
  shoal_memory own[5]; /* of both */
  uint64_t steps;      /* steps done: AdamW's bias correction and SGD's first step */
  shoal_memory now;    /* shoal_pace [paces]: of the step under way, of every range if they differ in age */
  shoal_pace *pace;    /* [paces] the same, being written */
  size_t paces;
  shoal_memory seen; /* shoal_optim_seen, pinned */
  /* Borrowed; for AdamW: steps done by each trainable range, if they differ; incremented by the caller.  NULL:
   * `steps`. */
  const uint64_t *ages;
  bool took_back; /* since the last outcome */
} shoal_optim;
typedef struct {  /* what steps leave in pinned memory */
  double squares; /* of the gradient, if clip is on */
  float scale;    /* by which it was clipped */
  uint32_t bad;
} shoal_optim_seen;
const char *shoal_optim_slot_name(const shoal_optim *o, int slot); /* "momentum", "exp_avg", "exp_avg_sq" */
shoal_status shoal_optim_create(shoal_backend *b, const shoal_optim_config *c, size_t n, shoal_optim **out);
void shoal_optim_destroy(shoal_optim *o);
/** One step over the trainable ranges (all of the arena when ranges is NULL; they may not overlap).  Gradients are
 *  scaled by min(1, clip/norm) within the update pass.  The norm is over these ranges; it is computed only if clip is
 *  on, and read where it was made.  Raises params->version.  The model's parameters say what decays (`decay`).
 *
 *  It is noted if a new weight or a new number of the state is not finite, and so if a gradient is not; it is looked at in
 *  the same pass.  Then the step counts, and either holds what came out or, with takes_back, changes nothing: then it waits
 *  for the backend, else nothing does.
 *  Cost: one pass over weights, gradients and state; one more over gradients for the norm.  takes_back writes a second
 *  copy of weights and state in that pass.  Allocates nothing, but with `ages` in the first step of so many ranges. */
shoal_status shoal_optim_step(shoal_optim *o, const shoal_model *m, shoal_params *p, const shoal_range *ranges,
                              size_t n_ranges, float lr);
/** Whether a step since the last call had a result that is not finite.  Waits for the backend. */
shoal_status shoal_optim_outcome(shoal_optim *o, bool *bad);

typedef enum { SHOAL_LR_CONSTANT, SHOAL_LR_STEP, SHOAL_LR_COSINE, SHOAL_LR_PLATEAU } shoal_lr_kind;
typedef struct {
  shoal_lr_kind kind;
  double lr, warmup_epochs, warmup_from; /* linear from warmup_from * lr */
  double epochs, min_factor;             /* cosine ends at min_factor * lr */
  size_t milestones;
  const double *milestone; /* STEP: epochs; each multiplies by gamma; borrowed from the config */
  double gamma;
  double factor,
      threshold; /* PLATEAU: multiply by factor after `patience` epochs without a relative improvement of threshold */
  int64_t patience;
} shoal_lr_schedule;
typedef struct { /* state of PLATEAU; saved verbatim */
  double best, scale;
  int64_t bad, seen;
} shoal_lr_plateau;
shoal_status shoal_lr_configure(const shoal_config *c, double epochs, shoal_lr_schedule *out);
void shoal_lr_plateau_init(shoal_lr_plateau *p);
/** @param epoch  epochs done so far as a real number: 2.5 is the middle of the third.  Warm-up comes first; the
 *  schedule covers the remaining epochs. */
double shoal_lr_at(const shoal_lr_schedule *s, const shoal_lr_plateau *p, double epoch);
void shoal_lr_plateau_feed(const shoal_lr_schedule *s, shoal_lr_plateau *p, double loss); /* after each epoch */
#endif
