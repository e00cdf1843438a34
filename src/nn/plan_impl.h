/* The inside of a plan: what plan_build.c decides and plan.c runs.
 *
 * Values are node outputs; -1 is the network's input.  Buffers are numbered slots of one arena.  Nodes that only rename
 * (a flatten of a dense tensor, dropout when nothing is dropped) vanish: their value stands for the one they read. */
#ifndef SHOAL_NN_PLAN_IMPL_H
#define SHOAL_NN_PLAN_IMPL_H
#include "nn/place.h"
#include "nn/plan.h"

enum { SHOAL_NO_SLOT = -1 };

typedef struct {
  shoal_op *op; /* NULL: the node only renames its input */
  int in[SHOAL_OP_INPUTS];
  bool stays;                 /* its output is readable after forward */
  shoal_shape shape;          /* of the output, batch first */
  shoal_format format;        /* of the output */
  int y;                      /* slot of the output; NO_SLOT: the network's input itself */
  int entry[SHOAL_OP_INPUTS]; /* slot of the network's input in this operation's format */
  int saved;
  bool backward; /* its output has a gradient */
  int dy;
  int dx[SHOAL_OP_INPUTS]; /* slots backward_data writes; NO_SLOT: that gradient is not needed */
  bool skip_data;          /* a sum without relu: its dx are its dy */
  struct {                 /* gradients of one tensor that come from two readers: += from, after backward_data */
    int from, to;
    size_t n;
  } sum[SHOAL_OP_INPUTS];
  int dproduct;            /* slot of the gradient of a weight that is a product */
  int first_range, ranges; /* announced after its weights' gradients */
} shoal_planned;

struct shoal_plan {
  shoal_backend *backend;
  shoal_model *model; /* own copy */
  int64_t batch;
  bool training;
  bool measuring; /* batch norm by the batch, all else as in evaluation */
  shoal_planned *node;
  shoal_slot *slot;
  int slots, slot_room;
  int logits;       /* value of the last node */
  int dense_logits; /* slot, when that value is not dense */
  int dlogits;      /* slot of the dense gradient of the logits; then in the last node's format: its dy */
  int64_t rows;     /* of the logits */
  bool has_loss;    /* the output is [..., classes] */
  shoal_range *range;
  size_t n_ranges;
  char *arena; /* backend memory */
  size_t bytes;
  int scratch;
  /* of the last forward, for backward */
  const float *x;
  bool loss_ready;
  /* Which weights the operations' private copies and the products stem from.  Versions of different shoal_params mean
   * nothing to each other, so operations see the plan's own count. */
  const float *seen_w;
  uint64_t seen_version, version;
  shoal_layer_span_fn span;
  void *span_context;
};

static inline int shoal_plan_moment_loss(const shoal_plan *p)
{
  return p->model->nodes;
}
static inline int shoal_plan_moment_backward(const shoal_plan *p, int node)
{
  return 2 * p->model->nodes - node;
}
static inline int shoal_plan_moment_end(const shoal_plan *p)
{
  return 2 * p->model->nodes + 1;
}
/** The new slot, or NO_SLOT when memory is out. */
int shoal_plan_add_slot(shoal_plan *p, size_t bytes, int birth, int death);
static inline void shoal_plan_use_slot(shoal_plan *p, int slot, int moment)
{
  if (slot >= 0 && p->slot[slot].death < moment) p->slot[slot].death = moment;
}
/** Plans the way back: gradient slots, sums and ranges (plan_backward.c). */
shoal_status shoal_plan_backward_slots(shoal_plan *p);
#endif
