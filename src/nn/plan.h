/* An execution plan: one model at one batch size on one backend, with every operation created and every buffer placed.
 *
 *   batch x --from_dense--> [op][op]...[op] --logits--> loss
 *   weights arena  w ----------'  (read)
 *   gradient arena g <-- dW of each op, announced as a range as soon as it is final, last layer first
 *
 * A step only executes.  Plans are kept in a cache keyed by (model, batch, mode); a new phase creates new ones. */
#ifndef SHOAL_NN_PLAN_H
#define SHOAL_NN_PLAN_H
#include "nn/model.h"
#include "tensor/backend.h"

/* Weights, gradients and statistics of a rank's model. */
typedef struct {
  size_t n;     /* == model->weights */
  float *w, *g; /* backend memory, 64-byte aligned */
  size_t n_stats;
  float *stats;        /* running statistics, local in every method */
  float *products;     /* [m->products] factored weights, multiplied out; NULL if there are none */
  shoal_memory own[4]; /* what of these was allocated here: w, g, stats, products */
  uint64_t version;    /* increment after every write to w; different sets never share values */
} shoal_params;
/** @param g  memory for the gradients, [m->weights] zeros, owned by the caller; NULL: allocated here.  A
 *            caller with memory for products sets `products` afterwards */
shoal_status shoal_params_create(shoal_backend *b, const shoal_model *m, float *g, shoal_params **out);
/** Weights and statistics alone, g NULL: for forward passes. */
shoal_status shoal_params_create_forward(shoal_backend *b, const shoal_model *m, shoal_params **out);
void shoal_params_destroy(shoal_backend *b, shoal_params *p);

/* MEASURE is EVAL except for batch norm, which normalises by the batch statistics and updates the running ones as in
 * training; no dropout, no backward. */
typedef enum { SHOAL_PLAN_TRAIN, SHOAL_PLAN_EVAL, SHOAL_PLAN_MEASURE } shoal_plan_mode;
typedef struct shoal_plan shoal_plan;
/** Creates and places everything a step needs.  The model is copied.
 *  @param batch  samples, >= 1.  ERR_ARG names the layer that cannot take its input; in TRAIN mode also a model whose
 *                output is not its classes (a slice without a head). */
shoal_status shoal_plan_create(shoal_backend *b, const shoal_model *m, int64_t batch, shoal_plan_mode mode,
                               shoal_plan **out);
void shoal_plan_destroy(shoal_plan *p);
size_t shoal_plan_bytes(const shoal_plan *p); /* activations, workspaces, scratch */
/* What a plan of a model that recomputes saves and costs; zeros for others. */
typedef struct {
  double saved_bytes; /* of the plan that keeps all for backward */
  double macs;        /* multiply-accumulates of a step's batch that are done a second time */
} shoal_repeated;
shoal_repeated shoal_plan_repeated(const shoal_plan *p);
int64_t shoal_plan_batch(const shoal_plan *p);

typedef struct {
  double loss; /* summed over rows of outputs */
  int64_t correct, samples;
  int64_t left_out,
      first_left_out; /* rows whose outputs are not finite, not in TRAIN mode; the first, within its batch */
} shoal_score;

/** Forward and loss.  @param x [batch, …input] f32 dense, the backend's memory (nn/input.h brings it there), unchanged until
 *  backward is done; @param y in host memory, read before it returns, [batch, shoal_model_labels]: i32 labels, one per row of
 *  outputs (negative: ignored; ERR_ARG names one that is not below the number of classes), or f32 targets, one per output (the first
 *  of a row NaN: ignored); NULL: no loss.  @param score  NULL: the loss stays where the backend makes it, for shoal_plan_score; else waits for it.
 *  In TRAIN mode also dloss/dlogits * grad_scale is left ready for backward: grad_scale = 1 / global batch makes the
 *  sum over ranks the global mean: where samples have several labels, of the means over these.  Adds to `score`; samples counts labels that are not ignored.  In other modes rows whose
 *  outputs, or their range, are not finite are ignored, too, and counted as left_out.  `at` may be NULL if
 *  there is no dropout.  Polls the backend's progress between operations.  Errors are those of the operations; ERR_ARG
 *  if params belong to another model. */
shoal_status shoal_plan_forward(shoal_plan *p, const shoal_params *params, const shoal_address *at, const float *x,
                                const void *y, float grad_scale, shoal_score *score);
/** Adds the loss of the last forward to `score`.  Waits for the backend. */
shoal_status shoal_plan_score(shoal_plan *p, shoal_score *score);
typedef struct {
  size_t offset, count;
} shoal_range;
enum { SHOAL_PLAN_LOOKS = 256 };
/** What backward looks at of a range: its end, which holds a layer's bias, or what scales and shifts its outputs.  That is a sum
 *  over samples, which is not finite if anything that came back to this layer is not. */
static inline shoal_range shoal_plan_looked_at(size_t offset, size_t count)
{
  const size_t n = count < SHOAL_PLAN_LOOKS ? count : SHOAL_PLAN_LOOKS;
  return (shoal_range){ offset + count - n, n };
}
/** Backward from the loss, with the address of forward; overwrites params->g (all trained elements).  `announce` (or NULL) is called with a range
 *  [offset, offset+count) of the arena as soon as its gradient is final (of a table that is tied: with the embedding's); the order of ranges is fixed by the plan, and
 *  they are disjoint and cover all trained elements.  *bad, in pinned memory, says after `settle`, until the next backward, which of
 *  the elements looked at is the first that is not finite; their number: all are. */
typedef shoal_status (*shoal_announce_fn)(void *ctx, size_t offset, size_t count, size_t *bad);
shoal_status shoal_plan_backward(shoal_plan *p, shoal_params *params, shoal_announce_fn announce, void *ctx);
/** The order of announcements, for planning buckets: n ranges, from the last layer to the first; only in TRAIN mode. */
size_t shoal_plan_ranges(const shoal_plan *p, const shoal_range **out);
/** Dense copy of a node's output after forward: out [batch, …]; -1 is not allowed.  Available for the last node, nodes
 *  marked `keep`, and in TRAIN mode, before backward, outputs that backward reads and that are not computed again for it; ERR_ARG
 *  for others. */
shoal_status shoal_plan_output(shoal_plan *p, int node, float *out);
/** Sets a callback with the time of every layer, for traces at level op, of a forward pass that is repeated, too; NULL removes it. */
typedef void (*shoal_layer_span_fn)(void *ctx, int node, bool backward, uint64_t t0_ns, uint64_t t1_ns);
void shoal_plan_set_spans(shoal_plan *p, shoal_layer_span_fn f, void *ctx);

/** Says behind which ranges, in the order of announcements, something begins that should not wait: where the backend records, a
 *  part of backward ends there, and what it makes final is announced once it was launched.  `ends` [n ranges] is copied.
 *  Preset: the whole of backward is one part. */
void shoal_plan_end_parts(shoal_plan *p, const bool *ends);

/* Plans of one model, kept by (batch, mode). */
typedef struct shoal_plans shoal_plans;
shoal_status shoal_plans_create(shoal_backend *b, const shoal_model *m, shoal_plans **out);
shoal_status shoal_plans_get(shoal_plans *c, int64_t batch, shoal_plan_mode mode, shoal_plan **out); /* borrowed */
/** Creates the training plans that `as` has (of another form of the same model), so that no step needs to create
 *  one. */
shoal_status shoal_plans_match(shoal_plans *c, const shoal_plans *as);
/** As shoal_plan_end_parts, for all plans in TRAIN mode, also those to be made: they have the same ranges. */
shoal_status shoal_plans_end_parts(shoal_plans *c, size_t n, const bool *ends);
void shoal_plans_destroy(shoal_plans *c);
#endif
