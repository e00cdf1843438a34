/* A model description: a list of nodes in execution order and the parameters they own.  Holds no weights, needs no
 * backend.
 *
 * Methods do not depend on the kinds of layers; they transform the description in three ways and get a new description:
 *
 *   slice    a layer range with a head attached         (local parallelism)
 *   narrow   index sets of hidden units, channels, or residual blocks   (independent subnets)
 *   factor   a weight replaced by a product A B         (AB-training)
 *
 *   [conv1]-[bn1]-+-[conv2]-[bn2]-[add]-[pool]-[fc]-loss
 *                 +-----------------'
 *
 * Every cut rebuilds the description node by node, so shapes are inferred again and a cut can be cut further.  Each
 * parameter records which elements of the first model of the chain it holds.
 *
 * A node names its inputs by number (smaller than its own); -1 is the network's input.  The last node's output are
 * the logits.  Shapes in nodes are per sample (no batch dimension). */
#ifndef SHOAL_NN_MODEL_H
#define SHOAL_NN_MODEL_H
#include "base/status.h"
#include "base/str.h"
#include "tensor/backend.h"
#include <stdbool.h>

enum { SHOAL_NAME_MAX = 64 };
enum { SHOAL_NO_INPUT = -2 }; /* of a node, behind its last input */

typedef enum {
  SHOAL_INIT_ZERO,
  SHOAL_INIT_ONE,
  SHOAL_INIT_UNIFORM,   /* +-1/sqrt(fan_in): PyTorch's default for linear and convolution, weight and bias */
  SHOAL_INIT_KAIMING,   /* normal, sqrt(2 / fan_out): residual networks (He et al., ICCV 2015) */
  SHOAL_INIT_KAIMING_IN /* normal, sqrt(2 / fan_in) */
} shoal_init;

/* A parameter tensor: a dense view into the flat arena.  Views are contiguous in definition order; frozen ones come
 * last. */
typedef struct {
  char name[SHOAL_NAME_MAX]; /* "layer1.0.conv1.weight", as in PyTorch's reference models */
  shoal_shape shape;
  size_t offset, count; /* in elements of the arena */
  shoal_init init;
  int64_t fan_in, fan_out; /* of the full model, so that narrowing keeps the initial weights */
  bool decay;              /* subject to weight decay by default: a matrix or filter (not bias, not norm) */
  int node;
  /* Origin of the elements in the full model: the parameter number there, and for dimensions 0 and 1 the kept indices
   * (NULL: all).  `full` is the full shape.  Initial weights are a function of the index in the full model. */
  int full_id; /* -1: a factor, which has no elements in common with the full model */
  /* For a factor: the parameter number of the weight it factors in the full model (else -1), and which of the two it
   * is.  A belongs to the longer side of the weight's 2-D form, so it is the left one unless the weight has fewer rows
   * than columns. */
  int factor_of;
  char factor; /* 'a' or 'b'; else 0 */
  bool frozen; /* read but not trained: has no gradient and lies after all trained parameters */
  shoal_shape full;
  int64_t *rows, *cols; /* owned */
  int family;           /* 0: part of the network; k: of the head attached after unit k - 1 */
} shoal_param;

typedef struct {
  shoal_op_kind kind;
  char name[SHOAL_NAME_MAX]; /* "layer1.0.conv1" */
  int in[SHOAL_OP_INPUTS];   /* node numbers; -1 network input; NO_INPUT */
  shoal_shape out;           /* per sample */
  int kernel[2], stride[2], pad[2], dilation[2], groups;
  int64_t first;                 /* SLICE */
  int64_t rows;                  /* EMBEDDING: of its table */
  int heads;                     /* ATTENTION */
  bool causal;                   /* ATTENTION */
  shoal_shape shape;             /* RESHAPE, PARAMETER: of a sample; one dimension may be -1, the rest */
  int order[SHOAL_MAX_DIMS - 1]; /* TRANSPOSE */
  bool ceil, count_pad;          /* pools */
  bool bias, relu;
  bool tied; /* LINEAR: its weight is the table of the network's embedding, whose gradient is the sum of both */
  bool keep; /* output stays readable after forward (shoal_plan_output), as at the boundary before a head */
  float eps, momentum, p, slope;
  int weight[SHOAL_OP_WEIGHTS]; /* parameter numbers or -1; tied: [0] is that of the embedding */
  int stats;                    /* offset of running mean, then variance, in the statistics arena; -1 */
  /* Factored: weight[0] is -1 and the weight is the product left * right of two parameters (in its 2-D form) */
  int factor[2];  /* left [o, r] and right [r, i*kh*kw], or -1 */
  size_t product; /* offset of the product in shoal_params.products */
  int unit;       /* `slice` cuts between units only, so residual blocks stay whole */
  int space; /* unit space (set of hidden units) of its output, of channels, features or heads (spaces.c); -1: none */
  int residual;    /* number of the residual block whose body it belongs to, or -1; see narrow */
  int64_t rank;    /* rank r of the factors; 0: an ordinary weight */
  uint64_t stream; /* number of the node in the full model: selects its dropout random stream */
} shoal_node;

static inline int shoal_node_inputs(const shoal_node *n)
{
  int k = 0;
  while (k < SHOAL_OP_INPUTS && n->in[k] != SHOAL_NO_INPUT) k++;
  return k;
}

/* What a network learns: classes, by cross-entropy; or numbers, of which a sample has as many as the network has outputs: the loss is the
 * mean over them of the squared or the absolute error, as in PyTorch. */
typedef enum { SHOAL_LOSS_CLASSES, SHOAL_LOSS_MSE, SHOAL_LOSS_MAE } shoal_loss_kind;

/* A maximal range of the arena in which all parameters decay or none does; the unit of an optimizer pass. */
typedef struct {
  size_t offset, count;
  bool decay;
} shoal_decay_run;

typedef struct {
  char name[SHOAL_NAME_MAX];
  shoal_shape input;    /* per sample */
  int64_t classes;      /* outputs; of a network that learns numbers how many these are */
  shoal_loss_kind loss; /* set by whoever has built the model; cuts inherit it */
  float smoothing;      /* label smoothing of the loss by classes */
  shoal_host_float
      *class_weights; /* [classes] factors on the loss of a sample, by its class, in training; NULL: all 1; owned */
  bool
      recompute; /* plans for training keep what units read of each other, and compute the rest again before backward */
  int nodes, params, units, spaces, residuals;
  bool joined;         /* several models in one arena (shoal_model_join); not a network */
  shoal_node *node;    /* owned */
  shoal_param *param;  /* owned */
  int64_t *space_size; /* owned: [spaces] units in each space */
  size_t weights;      /* arena length */
  size_t trainable;    /* the first `trainable` weights are trained: all unless a factor is frozen */
  size_t products;     /* size of shoal_params.products: arena length of the model that was factored; or 0 */
  size_t stats;        /* statistics arena length */
  int runs;
  shoal_decay_run *run; /* owned; set by finish */
  int culprit;          /* the node that a failed finish complains of */
  char *text;           /* owned: the description that the model was read from (text.h); NULL: built in, or cut */
} shoal_model;

/* ---- building (used by models.c and by heads) ---- */
shoal_status shoal_model_create(const char *name, const shoal_shape *input, int64_t classes, shoal_model **out);
/** Copies `weights` [classes] to the model; NULL: all 1. */
shoal_status shoal_model_weigh(shoal_model *m, const shoal_host_float *weights);
void shoal_model_destroy(shoal_model *m);
shoal_status shoal_model_copy(const shoal_model *m, shoal_model **out);
/** Returns a node of one input with the usual defaults: kernel, stride and dilation 1, one group, no padding, no bias, eps 1e-5, momentum 0.1, slope 0.01, unit 0, no
 *  residual block.  Start from it: in a zeroed node `residual` would name block 0. */
shoal_node shoal_node_make(shoal_op_kind kind, const char *name, int in);
/** Refuses what reads images where samples are numbers in a row, and says how they become images.
 *  @param what, name  who reads them: "model" and "resnet20", "layer" and "conv1"
 *  @param input  shape of a sample, without the batch
 *  @return ERR_ARG if it has one dimension */
shoal_status shoal_model_check_image(const char *what, const char *name, const shoal_shape *input);
/** Appends a node: infers shapes, creates its parameters, statistics and unit spaces (an ADD merges those of its
 *  inputs).  `n` gives kind, name, in, attributes, unit, residual and for LINEAR, EMBEDDING and CONV the width, for SLICE how many, in out.dim[0].  `init`
 *  is for the weight of LINEAR, CONV, EMBEDDING and PARAMETER (of a tied LINEAR there is none); their bias follows it when it is UNIFORM and is zero otherwise.  *id_out (or
 *  NULL) receives its number.  Errors are ERR_ARG with the node's name; the model is then unchanged. */
shoal_status shoal_model_add(shoal_model *m, const shoal_node *n, shoal_init init, int *id_out);
/** Completes the model: numbers units and spaces; input space and output space are never partitioned (space -1).
 *  ERR_ARG names a layer whose output is unused, a duplicate name, or a layer that reads across a unit boundary. */
shoal_status shoal_model_finish(shoal_model *m);

/* ---- the three cuts ---- */
/** Nodes of units [first, last) as a model of its own; its input is the boundary tensor before `first`.  With `head`
 *  (a model whose input has the boundary's shape) attached, parameters named "head.…"; head may be NULL if `last` is
 *  the end or the part only runs forward.  full_id and full shapes refer to the full model; those of the head to the
 *  head, distinguished by `family`.  The head's parameters are the last of the arena. */
shoal_status shoal_model_slice(const shoal_model *m, int first, int last, const shoal_model *head, shoal_model **out);
/** Keeps a subset of units: for every space s, keep[s] lists count[s] unit numbers in the new order (NULL: all).  A
 *  channel that reaches a LINEAR through FLATTEN owns its h*w consecutive inputs (cols are then per channel block; they
 *  are expanded here).  A unit of attention is one head or several, with its rows of queries, keys and values.  residual_keep [residuals] (NULL: all) drops bodies of residual blocks: their nodes are removed
 *  and the ADD becomes the identity (with its relu, unless its input is already rectified).  ERR_ARG if a block changes
 *  the shape and so cannot be dropped. */
shoal_status shoal_model_narrow(const shoal_model *m, const int64_t *const *keep, const int64_t *count,
                                const bool *residual_keep, shoal_model **out);
/** Whether residual block r may be dropped: its shortcut is the identity. */
bool shoal_model_residual_can_drop(const shoal_model *m, int r);
/* The spaces along which `narrow` cuts a parameter: a unit of the row space is row_grain consecutive indices of
 * dimension 0, one of the column space col_grain indices of dimension 1. */
typedef struct {
  int row_space, col_space; /* -1: dimension not cut */
  int64_t row_grain, col_grain;
} shoal_param_cut;
shoal_param_cut shoal_model_param_cut(const shoal_model *m, int param);
/* How a node's weight W [o, i*kh*kw] is factored: as left [o, rank] times right [rank, i*kh*kw], both dense and
 * row-major, with rank at most the smaller side.  As a product it is multiplied out before the step and used like W; as
 * a chain the node is replaced by two, x -> right -> left, and W is never formed. */
typedef struct {
  int64_t rank; /* 0: not factored */
  bool chain;
} shoal_factoring;
typedef enum { SHOAL_TRAIN_BOTH, SHOAL_TRAIN_A, SHOAL_TRAIN_B } shoal_factor_training;
/** Replace weights by products.  Biases stay.  Nodes keep their numbers, except that a chain puts a node "NAME.right"
 *  before "NAME"; weight and bias of a node keep its position in the arena order, frozen factors come last.
 *  @param how  [nodes]
 *  @return ERR_ARG for a node without a weight matrix, or a rank it cannot have
 *  Source  Coquelin et al., AB-Training, arXiv 2405.01067, where A is the factor of the longer side */
shoal_status shoal_model_factor(const shoal_model *m, const shoal_factoring *how, shoal_factor_training train,
                                shoal_model **out);
/** Multiply-accumulates of a training step of node `node` at this batch size with its weight factored to that rank:
 *  forward and backward of the layer, the product, and the factors' gradients.  Used to choose the cheaper of product
 *  and chain. */
double shoal_factor_macs(const shoal_model *m, int node, int64_t batch, shoal_factoring how,
                         shoal_factor_training train);
/* A weight of `full` that is factored in `part`. */
typedef struct {
  const shoal_param *weight, *left, *right; /* weight: of the full model; shapes of the factors may be 2-D or 4-D */
  int64_t rows, cols, rank;
} shoal_product;
/** Lists them in arena order; `out` has room for part->params / 2.  Returns their number. */
size_t shoal_model_products(const shoal_model *full, const shoal_model *part, shoal_product *out);
/** Gather and scatter between the full arena and that of a cut model, both of the backend, by full_id, rows and cols (not
 *  factors, not heads).  `full` is the first model of the chain of cuts.  The second pair does the same for statistics. */
shoal_status shoal_model_gather(shoal_backend *b, const shoal_model *full, const shoal_model *part, const float *full_w,
                                float *part_w);
shoal_status shoal_model_scatter(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                 const float *part_w, float *full_w);
shoal_status shoal_model_gather_stats(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                      const float *full_s, float *part_s);
shoal_status shoal_model_scatter_stats(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                       const float *part_s, float *full_s);

/** Several models in one arena, for a rank that trains more than one: parameters and statistics of the parts follow
 *  each other, each part aligned to 16 elements, so that a part's plan can use its section directly.  Supports params,
 *  optimizer, init, gather and scatter; creating a plan for it is ERR_ARG.
 *  @param weights_at, stats_at  out, [n] offset of each part */
shoal_status shoal_model_join(const shoal_model *const *parts, int n, size_t *weights_at, size_t *stats_at,
                              shoal_model **out);

/** Initial weights (addressed by global index of the full model) and statistics (mean 0, variance 1; may be
 *  NULL), in the backend's memory.  Factors get random numbers of their own whose product has the variance of the weight they
 *  replace. */
shoal_status shoal_model_init(shoal_backend *b, const shoal_model *m, uint64_t seed, float *weights, float *stats);
/** The same for parameter `number` of m alone, in host memory: w [shape of p].  `p` may be a copy of the parameter that holds only some
 *  of its rows or columns; the values are those of the full model at these indices. */
void shoal_param_init(const shoal_param *p, int number, uint64_t seed, shoal_host_float *w);
/** Rows of outputs of a sample: one, or of a network whose output is [places, classes] one for each place. */
int64_t shoal_model_rows(const shoal_model *m);
/** What a sample is compared with, 4 bytes each: a class for each row of outputs, or a target for each output. */
int64_t shoal_model_labels(const shoal_model *m);
bool shoal_model_reads_tokens(const shoal_model *m);          /* its inputs are numbers of rows of a table */
double shoal_model_macs(const shoal_model *m);                /* multiply-accumulates per sample, forward */
void shoal_model_print(const shoal_model *m, shoal_str *out); /* the layer table */
/** Names of statistics for checkpoints: "bn1.running_mean"; calls f for every running mean and variance. */
void shoal_model_each_stat(const shoal_model *m, void (*f)(void *ctx, const char *name, size_t offset, size_t count),
                           void *ctx);

/* ---- the zoo: models.c; `shoal models` prints it ---- */
#include "config/option.h"
typedef struct {
  const char *name, *about, *source;
  const shoal_option *options; /* under "model.", table ends with name NULL; may be NULL */
  shoal_status (*build)(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out);
  shoal_shape typical; /* an input, and classes, for which it is described where there is no data */
  int64_t typical_classes;
} shoal_model_entry;
/* mlp (model.widths, model.activation relu|gelu, model.norm none|batch|layer, model.dropout), resnet20 (model.dropout),
 * resnet18, vgg16 (model.batch_norm, model.width a factor, model.dropout), gpt (model.width, heads, depth, dropout), vit (also
 * model.patch, model.pool class|mean), and file (model.file: text.h).  All take model.smoothing, and all but
 * gpt model.loss, by which whoever builds one for targets sets its loss. */
size_t shoal_models(const shoal_model_entry **out);
const shoal_model_entry *shoal_model_find(const char *name); /* NULL if unknown */
#endif
