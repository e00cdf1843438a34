/* A method without the loop: the same hooks in the same order, on a problem whose answer can be worked out by hand.
 *
 * Sample s pulls parameter i towards a place of its own, c_i(s), with a strength a_i that all samples share:
 *
 *   loss(s) = 1/2 Σ_i a_i (w_i - c_i(s))²           gradient a_i (w_i - c_i(s)), exactly linear in w
 *
 * Global batch t holds samples t·total … (t+1)·total - 1, dealt to ranks as the loader deals them.  Every rank can
 * compute everybody's gradient, so oracles run on each rank by themselves, in double. */
#ifndef SHOAL_TESTS_METHOD_RIG_H
#define SHOAL_TESTS_METHOD_RIG_H
#include "check.h"
#include "method/method.h"

typedef struct {
  const char *pretend;  /* topology, or NULL */
  const char *method;   /* its name */
  const char *settings; /* "method.period=4 optim.momentum=0.9" */
  uint64_t epochs, batches;
  uint64_t total; /* samples of a global batch */
  uint64_t last;  /* of an epoch's last batch; 0: as many */
  bool same_data; /* all samples pull to the same place */
} method_rig_setup;

typedef struct {
  method_rig_setup setup;
  int rank, size;
  shoal_world *world;
  shoal_run run;
  shoal_form form;
  const shoal_method *method;
  void *state;
  shoal_config *config;
  shoal_model *model;
  float *gradients;
  float lr;
  uint64_t claimed[SHOAL_LINK_COUNT]; /* since open, by the method's formula */
  float *everyone;                    /* [size, n] weights of all ranks, filled by method_rig_gather */
} method_rig;

/** MPI must be started.  Opens world, model (an mlp of some 600 parameters), optimizer and method; ends the program when
 *  that fails. */
void method_rig_open(method_rig *m, const method_rig_setup *setup);
void method_rig_close(method_rig *m);
/** One step of training; `lr` 0 leaves weights to the method alone.  At the last batch of an epoch epoch_end hears `loss`. */
shoal_status method_rig_step(method_rig *m, float lr, double loss);
/** Payload of this rank counted so far; equal to `claimed`, which method_rig_step checks. */
void method_rig_counted(const method_rig *m, uint64_t out[SHOAL_LINK_COUNT]);
/** Weights of all ranks into `everyone`. */
const float *method_rig_gather(method_rig *m);
uint64_t method_rig_total(const method_rig *m, uint64_t step); /* samples of that global batch */
double method_rig_strength(size_t i);
double method_rig_place(const method_rig *m, uint64_t sample, size_t i);
/** Sum of gradients of rank `rank`'s samples in `step`, element i, at weight w; their number into `n` unless NULL. */
double method_rig_pull(const method_rig *m, uint64_t step, int rank, size_t i, double w, uint64_t *n);

/* SGD with momentum, Nesterov and L2 decay as optim.h says, on one parameter, in double. */
typedef struct {
  double w, v;
} method_rig_weight;
void method_rig_sgd(const method_rig *m, method_rig_weight *x, double g, uint64_t step);
/** Largest |a - b| over n, divided by the largest |b|. */
double method_rig_error(const float *a, const double *b, size_t n);
#endif
