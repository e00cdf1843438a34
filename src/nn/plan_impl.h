/* Internals of a plan: built by plan_build.c, executed by plan.c.
 *
 * Values are node outputs; -1 is the network's input.  Buffers are numbered slots of one arena.  Nodes that do nothing
 * (a flatten of a dense tensor, dropout in evaluation) have no operation: their value is an alias of their input.
 *
 * Where a model recomputes, a unit but the last keeps of its forward pass what other units read, and its nodes run forward again
 * before they run backward:
 *
 *   unit 0 | unit 1 | unit 2, loss, unit 2 back | unit 1 again, back | unit 0 again, back
 *
 * so a node may have two sets of slots, and only what backward reads is computed again. */
#ifndef SHOAL_NN_PLAN_IMPL_H
#define SHOAL_NN_PLAN_IMPL_H
#include "nn/parts.h"
#include "nn/place.h"
#include "nn/plan.h"

enum { SHOAL_NO_SLOT = -1 };

/* Slots that a pass forward writes. */
typedef struct {
  int y;                      /* the output; NO_SLOT: the network's input itself */
  int entry[SHOAL_OP_INPUTS]; /* the network's input in this operation's format */
  int saved;
} shoal_written;

typedef struct {
  shoal_op *op; /* NULL: the output is an alias of the input */
  int in[SHOAL_OP_INPUTS];
  bool stays;                 /* output is readable after forward */
  shoal_shape shape;          /* of the output, batch first */
  shoal_format format;        /* of the output */
  shoal_written first, again; /* again: what backward reads; where nothing is repeated, that of the first pass */
  bool repeats;               /* forward runs again */
  int again_at, back_at;      /* moments of that pass and of backward */
  bool backward;              /* output has a gradient */
  int dy;
  int dx[SHOAL_OP_INPUTS]; /* slots that backward_data writes; NO_SLOT: not needed */
  bool skip_data;          /* ADD without relu: its dx are its dy */
  struct {                 /* accumulation of a tensor's gradient over several readers: += from, after backward_data */
    int from, to;
    shoal_format format;
  } sum[SHOAL_OP_INPUTS];
  int dweight; /* slot of the gradient of a weight that is factored, or tied: then it waits for the embedding's */
  int first_range, ranges; /* announced after its weights' gradients */
} shoal_planned;

/* What changes from step to step.  The host writes it, and it is copied to the backend before a forward pass, so that all
 * operations are asked for with the same arguments in every step. */
typedef struct {
  shoal_address at;
  float grad_scale; /* of a label */
  int32_t label[];  /* [rows] if there is a loss; or in their place targets, f32 [rows, classes] */
} shoal_plan_now;

struct shoal_plan {
  shoal_backend *backend;
  shoal_model *model; /* own copy */
  int64_t batch;
  bool training;
  bool measuring; /* MEASURE mode */
  bool draws;     /* operations draw random numbers */
  shoal_planned *node;
  shoal_slot *slot;
  int slots, slot_room;
  int logits;       /* value of the last node */
  int dense_logits; /* slot, when that value is not dense */
  int dlogits;      /* slot of the dense gradient of the logits; then dy of the last node, in its format */
  int64_t rows;     /* of the logits */
  bool has_loss;    /* the output is [..., classes] */
  shoal_range *range;
  size_t n_ranges;
  bool *ends;                 /* [n_ranges] a recorded part of backward ends behind it */
  shoal_parts *parts;         /* NULL: the backend does not record */
  shoal_memory memory;        /* of all slots */
  shoal_memory result;        /* shoal_loss, pinned: of the last forward */
  shoal_memory class_weights; /* of the model, in the backend's memory; empty: all 1 */
  shoal_memory now;           /* shoal_plan_now of the last forward ... */
  shoal_plan_now *set;        /* ... as the host writes it */
  shoal_memory bad;           /* size_t [n_ranges], pinned: see shoal_announce_fn */
  size_t bytes, bytes_all;    /* all: if nothing were computed again */
  int scratch;
  int end; /* the moment behind the last of backward */
  /* of the last forward, for backward */
  const float *x;
  bool loss_ready;
  /* The weights from which private copies and products were computed.  Versions of different shoal_params are not
   * comparable, so operations get the plan's own version count. */
  const float *seen_w;
  uint64_t seen_version, version;
  shoal_layer_span_fn span;
  void *span_context;
  uint64_t span_t0; /* of the node that is being differentiated */
};

/** Of what the outputs of a batch are compared with. */
static inline size_t shoal_plan_label_bytes(const shoal_plan *p)
{
  const int64_t each = p->model->loss == SHOAL_LOSS_CLASSES ? 1 : p->model->classes;
  return (size_t)(p->rows * each) * sizeof p->set->label[0];
}
static inline int shoal_plan_moment_loss(const shoal_plan *p)
{
  return p->model->nodes;
}
/** Returns the new slot, or NO_SLOT if there is no room. */
int shoal_plan_add_slot(shoal_plan *p, size_t bytes, int birth, int death);
static inline void shoal_plan_use_slot(shoal_plan *p, int slot, int moment)
{
  if (slot >= 0 && p->slot[slot].death < moment) p->slot[slot].death = moment;
}
/** Plans backward (plan_backward.c): gradient slots and sums; the ranges, once. */
shoal_status shoal_plan_backward_slots(shoal_plan *p);
shoal_status shoal_plan_find_ranges(shoal_plan *p);
/** The first node of a node's unit. */
static inline int shoal_plan_unit_begin(const shoal_plan *p, int node)
{
  while (node > 0 && p->model->node[node - 1].unit == p->model->node[node].unit) node--;
  return node;
}
#endif
