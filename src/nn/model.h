/* A model as a description: a list of nodes in execution order and the parameters they own.  No memory, no backend.
 *
 * Methods never look inside a layer; they cut the description, in three ways, and get a description again:
 *
 *   slice    a layer range with a head attached         (local parallelism)
 *   narrow   index sets of hidden units, channels, or residual blocks   (independent subnets)
 *   factor   a weight replaced by a product A B         (AB-training)
 *
 *   [conv1]-[bn1]-+-[conv2]-[bn2]-[add]-[pool]-[fc]-loss
 *                 +-----------------'
 *
 * A node names its inputs by number (smaller than its own); -1 is the network's input.  The last node's output are
 * the logits.  Shapes in nodes are per sample (no batch dimension). */
#ifndef SHOAL_NN_MODEL_H
#define SHOAL_NN_MODEL_H
#include "base/status.h"
#include "base/str.h"
#include "tensor/op.h"
#include <stdbool.h>

enum { SHOAL_NAME_MAX = 64 };

typedef enum {
  SHOAL_INIT_ZERO,
  SHOAL_INIT_ONE,
  SHOAL_INIT_UNIFORM,   /* +-1/sqrt(fan_in): PyTorch's default for linear and convolution, weight and bias */
  SHOAL_INIT_KAIMING,   /* normal, sqrt(2 / fan_out): residual networks (He et al., ICCV 2015) */
  SHOAL_INIT_KAIMING_IN /* normal, sqrt(2 / fan_in) */
} shoal_init;

/* A trainable tensor: a dense view into the flat arena.  Views follow each other without gaps, in definition order. */
typedef struct {
  char name[SHOAL_NAME_MAX]; /* "layer1.0.conv1.weight", as PyTorch's reference models would say */
  shoal_shape shape;
  size_t offset, count;      /* in the arena, in elements */
  shoal_init init;
  int64_t fan_in, fan_out;   /* of the full model: narrowing does not change the initial weights */
  bool decay;                /* a weight matrix or filter (not bias, not norm) */
  int node;
  /* Where the elements come from in the full model: parameter number there, and for dimensions 0 and 1 the kept indices
   * (NULL: all).  `full` is the full shape.  Initial weights are addressed by global index through this. */
  int full_id;
  shoal_shape full;
  int64_t *rows, *cols;
} shoal_param;

typedef struct {
  shoal_op_kind kind;
  char name[SHOAL_NAME_MAX]; /* "layer1.0.conv1" */
  int in[SHOAL_OP_INPUTS];   /* node numbers; -1 network input; unused -2 */
  shoal_shape out;           /* per sample */
  int kernel[2], stride[2], pad[2];
  bool bias, relu;
  float eps, momentum, p;
  int weight[SHOAL_OP_WEIGHTS]; /* parameter numbers or -1 */
  int stats;                 /* offset of running mean, then variance, in the statistics arena; -1 */
  /* factor: weight[0] is -1 and the weight is the product of two parameters (2-D form, AB spec section 4.1) */
  int factor[2];             /* A [m, r] and B [r, n] or -1 */
  bool factor_transposed;
  int unit;                  /* cut points of `slice` lie between units: residual blocks and their like are never cut */
  int space;                 /* which unit space (set of hidden units) its output's dimension 0 belongs to; -1: none */
  int residual;              /* number of the residual block it is the body of, or -1; see narrow */
} shoal_node;

typedef struct {
  char name[SHOAL_NAME_MAX];
  shoal_shape input;         /* per sample */
  int64_t classes;
  float smoothing;           /* label smoothing of the loss */
  int nodes, params, units, spaces, residuals;
  shoal_node *node;          /* owned */
  shoal_param *param;        /* owned */
  int64_t *space_size;       /* owned: [spaces] units in each space */
  size_t weights;            /* arena length: all trainable numbers */
  size_t stats;              /* statistics arena length */
} shoal_model;

/* ---- building (used by models.c and by heads) ---- */
shoal_status shoal_model_create(const char *name, const shoal_shape *input, int64_t classes, shoal_model **out);
void shoal_model_destroy(shoal_model *m);
shoal_status shoal_model_copy(const shoal_model *m, shoal_model **out);
/** Append a node; infers shapes, makes parameters and statistics, and unit spaces (an ADD unites those of its inputs).
 *  `n` gives kind, name, in, attributes and for LINEAR/CONV the width in out.dim[0].  *id_out its number.
 *  Errors are ERR_ARG with the node's name. */
shoal_status shoal_model_add(shoal_model *m, const shoal_node *n, shoal_init init, int *id_out);
/** Close: numbers parameters and spaces; input space and output space are never partitioned (space -1). */
shoal_status shoal_model_finish(shoal_model *m);

/* ---- the three cuts ---- */
/** Nodes of units [first, last) as a model of its own; its input is the boundary tensor before `first`.  With `head`
 *  (a model whose input has the boundary's shape) attached behind, parameters named "head.…"; head may be NULL when
 *  last is the end.  full_id and full shapes refer to `m`; those of the head to the head. */
shoal_status shoal_model_slice(const shoal_model *m, int first, int last, const shoal_model *head, shoal_model **out);
/** Keep only some units: for every space s, keep[s] lists count[s] unit numbers in the order wanted (NULL: all).
 *  A channel that reaches a LINEAR through FLATTEN owns its h*w consecutive inputs (cols are then per channel block;
 *  they are expanded here).  residual_keep [residuals] (NULL: all) drops bodies of residual blocks: their node list is
 *  removed and the ADD becomes the identity (+ its relu).  ERR_ARG if a block changes the shape and so cannot go. */
shoal_status shoal_model_narrow(const shoal_model *m, const int64_t *const *keep, const int64_t *count,
                                const bool *residual_keep, shoal_model **out);
/** Replace the weight of node `node` (LINEAR or CONV) by A B of inner size `rank`: 2-D form [o, i*kh*kw], transposed if
 *  that has fewer rows than columns.  Bias stays.  The two factors take the weight's place in the arena order. */
shoal_status shoal_model_factor(const shoal_model *m, int node, int64_t rank, shoal_model **out);
/** Copy between the full arena and a cut one, by full_id, rows and cols (not for factors): gather and scatter. */
void shoal_model_gather(const shoal_model *full, const shoal_model *part, const float *full_w, float *part_w);
void shoal_model_scatter(const shoal_model *full, const shoal_model *part, const float *part_w, float *full_w);

/** Initial weights (addressed by global index of the full model) and statistics (mean 0, variance 1). */
void shoal_model_init(const shoal_model *m, uint64_t seed, float *weights, float *stats);
double shoal_model_macs(const shoal_model *m);                       /* multiply-accumulates per sample, forward */
void shoal_model_print(const shoal_model *m, shoal_str *out);        /* the layer table */
/** Names of statistics for checkpoints: "bn1.running_mean"; calls f for every running mean and variance. */
void shoal_model_each_stat(const shoal_model *m,
                           void (*f)(void *ctx, const char *name, size_t offset, size_t count), void *ctx);

/* ---- the zoo: models.c; `shoal models` prints it ---- */
#include "base/option.h"
typedef struct {
  const char *name, *about, *source;
  const shoal_option *options; /* under "model.", table ends with name NULL; may be NULL */
  shoal_status (*build)(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out);
} shoal_model_entry;
/* mlp (model.widths, model.activation relu|gelu, model.norm none|batch|layer, model.dropout), resnet20 (model.dropout),
 * resnet18, vgg16 (model.batch_norm, model.width a factor, model.dropout).  All take model.smoothing. */
size_t shoal_models(const shoal_model_entry **out);
const shoal_model_entry *shoal_model_find(const char *name); /* NULL if unknown */
#endif
