/* An operation of a network: planned once for fixed shapes, then executed many times without allocating.
 *
 * Activations pass between operations in the memory format the backend prefers (a shoal_format); a consumer is created
 * with the formats its producers chose, so no reorder is needed in between.  An operation that reads the network's input may
 * ask for another format than f32 dense: its in_format says which.  Weights, their gradients and the running
 * statistics are always canonical: f32, dense, OIHW or [out, in], views into the flat arenas of the rank.  An operation
 * that wants another weight format keeps a private copy, refreshed when `weights_version` has changed, and reorders its
 * dW into the arena before it returns.
 *
 *   forward             y  = f(x; w)
 *   backward_weights    dw = (df/dw)^T dy      first, because the exchange of dw can then start
 *   backward_data       dx = (df/dx)^T dy      overwrites dx
 *
 * dw and dx are overwritten, never added to.  With a fused relu both backward calls receive the gradient of the relu's
 * output and mask it themselves where y is zero.  A NaN is no zero: it passes relus and maximum pools, both ways.
 *
 * DROPOUT keeps no mask.  Element e of the sample in slot s of the batch (e counts in canonical order, dense and
 * row-major, whatever the memory format; E elements per sample) is kept if and only if
 *
 *   shoal_rng_unit(shoal_rng(shoal_rng_seed(seed, stream), SHOAL_RNG_DROPOUT, index / 4, step).v[index % 4]) >= p
 *   with index = (slot0 + s) * E + e
 *
 * so the mask depends neither on the backend nor on how the global batch is divided among ranks.
 *
 * The caller (nn/plan) allocates buffers and plans their lifetimes; an operation only states what it needs. */
#ifndef SHOAL_TENSOR_OP_H
#define SHOAL_TENSOR_OP_H
#include "base/status.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

enum { SHOAL_OP_INPUTS = 64, SHOAL_OP_WEIGHTS = 2 };
enum { SHOAL_OP_ROWS = 1 << 24 }; /* of a table: f32 has all whole numbers up to there */

/* kind, name in messages and traces, least and most inputs.  Weights in order: see each line. */
#define SHOAL_OP_LIST(X)                                                                                                   \
  X(LINEAR, "linear", 1, 1) /* x[..., in] -> y[..., out]; w0 [out, in], w1 bias [out] if bias; relu fusable */             \
  X(CONV, "conv", 1, 1)     /* x[n,i,h,w] -> y[n,o,h',w']; w0 [o,i/groups,kh,kw], w1 bias [o] if bias; relu fusable */     \
  X(BATCHNORM, "batchnorm", 1, 1) /* per channel (dim 1) of [n,c] or [n,c,h,w]; w0 scale, w1 shift; relu fusable */        \
  X(LAYERNORM, "layernorm", 1, 1) /* over the last dimension; w0 scale, w1 shift */                                        \
  X(RELU, "relu", 1, 1)                                                                                                    \
  X(GELU, "gelu", 1, 1)           /* x Phi(x), by erf; as all activations up to hardsigmoid element by element */          \
  X(GELU_TANH, "gelu-tanh", 1, 1) /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */                                      \
  X(SIGMOID, "sigmoid", 1, 1)     /* 1 / (1 + e^-x) */                                                                     \
  X(TANH, "tanh", 1, 1)                                                                                                    \
  X(SILU, "silu", 1, 1)               /* x sigmoid(x) */                                                                   \
  X(LEAKYRELU, "leakyrelu", 1, 1)     /* x > 0 ? x : slope x */                                                            \
  X(RELU6, "relu6", 1, 1)             /* min(max(x, 0), 6) */                                                              \
  X(HARDSWISH, "hardswish", 1, 1)     /* x relu6(x + 3) / 6 */                                                             \
  X(HARDSIGMOID, "hardsigmoid", 1, 1) /* relu6(x + 3) / 6 */                                                               \
  X(MAXPOOL, "maxpool", 1, 1)         /* padding never wins */                                                             \
  X(AVGPOOL, "avgpool", 1, 1)         /* padding counts if count_pad */                                                    \
  X(GLOBALPOOL, "globalpool", 1, 1)   /* mean over h, w: [n,c,h,w] -> dense [n,c] */                                       \
  X(ADD, "add", 2, SHOAL_OP_INPUTS)   /* y = ((x0 + x1) + x2) + …, equal shapes; relu fusable */                         \
  X(MUL, "mul", 2, 2) /* y = x0 x1; x1 of x0's shape, [n,c] or [n,c,1,1] for [n,c,h,w], or [n,1,…,c] */                  \
  X(CONCAT, "concat", 2, SHOAL_OP_INPUTS) /* along dim 1, in order; the others are equal */                                \
  X(SLICE, "slice", 1, 1)                 /* of dim 1 those from `first` on, as many as y has */                           \
  X(FLATTEN, "flatten", 1, 1)             /* any format -> dense [n, c*h*w] in canonical order */                          \
  X(RESHAPE, "reshape", 1, 1)             /* any format -> dense, the same values in canonical order */                    \
  X(TRANSPOSE, "transpose", 1, 1) /* any format -> dense; dimension i of a sample is dimension order[i] of x's */          \
  X(PARAMETER, "parameter", 0, 0) /* y[n, …] = w0 […] for every sample: learned numbers as a layer */                  \
  X(EMBEDDING, "embedding", 1, 1) /* x[…] -> y[…, width] = w0[x]; w0 [rows, width]; zeros for what is no row; no dx */ \
  X(ATTENTION, "attention", 3,                                                                                             \
    3)                        /* queries [n,t,w], keys and values [n,s,w] -> y [n,t,w]; see tensor/ref/attention.c */      \
  X(DROPOUT, "dropout", 1, 1) /* training: y = mask * x / (1-p), mask by element index; evaluation: copy */
#define X(name, ...) SHOAL_OP_##name,
typedef enum { SHOAL_OP_LIST(X) SHOAL_OP_COUNT } shoal_op_kind;
#undef X
const char *shoal_op_kind_name(shoal_op_kind kind);
typedef struct {
  int least, most;
} shoal_op_arity;
shoal_op_arity shoal_op_arity_of(shoal_op_kind kind);

typedef struct {
  shoal_op_kind kind;
  shoal_shape in[SHOAL_OP_INPUTS], out; /* batch first; behind the last input ndim is 0 */
  int kernel[2], stride[2], pad[2];     /* h, w: CONV and pools */
  bool ceil;      /* pools: a last window may reach over the end, if it begins before the padding there */
  bool count_pad; /* AVGPOOL: padding counts as zeros; what a window has beyond it does not */
  int order[SHOAL_MAX_DIMS - 1]; /* TRANSPOSE */
  int gap[2];                    /* h, w: CONV, positions between two that a kernel reads; its dilation - 1 */
  int64_t first;                 /* SLICE */
  int64_t rows;                  /* EMBEDDING: of its table; x are whole numbers below it */
  int heads;                     /* ATTENTION: w is cut into so many */
  bool causal;                   /* ATTENTION: query i sees the keys up to i; t is s */
  int groups;                    /* CONV: output channels in so many groups, each of which reads as many groups of
                                           inputs; 0 is 1 */
  bool bias;
  bool relu;       /* max(., 0) fused at the end, where the list says so */
  float eps;       /* norms; 1e-5 */
  float momentum;  /* BATCHNORM: running = (1-m) running + m batch; the variance unbiased */
  float p;         /* DROPOUT */
  float slope;     /* LEAKYRELU, below 0; 0.01 */
  uint64_t stream; /* DROPOUT: number of the node, so that each node has its own random stream */
  bool training;   /* false: forward only, BATCHNORM uses the running statistics */
  bool need_dx;    /* false for the first layer: backward_data is never called */
} shoal_op_desc;

/** The row of a table of `rows` that a number names, or -1. */
static inline int64_t shoal_op_row(int64_t rows, float x)
{
  return x >= 0 && x < (float)rows ? (int64_t)x : -1;
}
/** Whether it is one of the activations y = f(x) that the list has from gelu to hardsigmoid. */
bool shoal_op_is_curve(shoal_op_kind kind);
static inline int shoal_op_groups(const shoal_op_desc *d)
{
  return d->groups ? d->groups : 1;
}
/* How MUL takes its second input: as of the first's shape; a number for each channel; one for each place along the last dimension. */
typedef enum { SHOAL_MUL_ALIKE, SHOAL_MUL_PLANES, SHOAL_MUL_LAST } shoal_mul_form;
shoal_mul_form shoal_op_mul_form(const shoal_op_desc *d);
/** How many inputs it has: those before the first of ndim 0, but no more than its kind takes. */
int shoal_op_inputs(const shoal_op_desc *d);
/** Output shape from inputs and attributes.  Also checks them; ERR_ARG names the value. `d->out` is not read, except
 *  that LINEAR, EMBEDDING and CONV take their output width from out.dim[last], of EMBEDDING one further, and out.dim[1], SLICE its count from out.dim[1], and RESHAPE the shape of a sample from
 *  out.dim[1], …, where one -1 is what is left; PARAMETER takes all of `out`. */
shoal_status shoal_op_infer(const shoal_op_desc *d, shoal_shape *out);
/** Shapes of the weights (ndim 0 if absent), and the multiply-accumulates of one forward (LINEAR, CONV and ATTENTION; 0 for
 *  the rest).  Both require a description that shoal_op_infer accepts, with the output width in `d->out`. */
void shoal_op_weight_shapes(const shoal_op_desc *d, shoal_shape w[SHOAL_OP_WEIGHTS]);
double shoal_op_macs(const shoal_op_desc *d);

/* A memory format of activations; opaque except to the backend that created it.  Arguments of operations are `float *` whatever the
 * elements are. */
typedef enum { SHOAL_ELEMENTS_F32, SHOAL_ELEMENTS_BF16 } shoal_elements;
typedef struct shoal_format {
  size_t bytes;       /* of one tensor in this format, padding included */
  const void *detail; /* NULL if dense */
  shoal_elements elements;
  bool dense; /* canonical row-major */
} shoal_format;
static inline size_t shoal_elements_bytes(shoal_elements e)
{
  return e == SHOAL_ELEMENTS_BF16 ? sizeof(uint16_t) : sizeof(float);
}
static inline shoal_format shoal_format_dense(const shoal_shape *s, shoal_elements e)
{
  return (shoal_format){ (size_t)shoal_shape_count(s) * shoal_elements_bytes(e), NULL, e, true };
}
static inline size_t shoal_format_count(const shoal_format *f) /* elements, padding included */
{
  return f->bytes / shoal_elements_bytes(f->elements);
}
/** Whether all code can read it: row-major f32. */
static inline bool shoal_format_plain(const shoal_format *f)
{
  return f->dense && f->elements == SHOAL_ELEMENTS_F32;
}
static inline bool shoal_format_equal(const shoal_format *a, const shoal_format *b)
{
  return a->bytes == b->bytes && a->dense == b->dense && a->elements == b->elements && a->detail == b->detail;
}

/* Which random numbers DROPOUT draws. */
typedef struct {
  uint64_t seed;  /* of the run */
  uint32_t step;  /* training step */
  uint64_t slot0; /* global number of this rank's first sample within the global batch */
} shoal_address;

typedef struct {
  const float *x[SHOAL_OP_INPUTS];
  float *y;
  const float *dy;
  float *dx[SHOAL_OP_INPUTS];
  const float *w[SHOAL_OP_WEIGHTS];
  float *dw
      [SHOAL_OP_WEIGHTS]; /* LINEAR and CONV: dw[0] NULL where w0 is not trained; backward_weights then does the rest */
  float *stats[2];        /* BATCHNORM: running mean and variance, [c] each; updated in training, unless NULL */
  void *saved;            /* op->saved_bytes, untouched between forward and backward */
  void *scratch;          /* op->scratch_bytes, contents undefined between calls */
  uint64_t weights_version; /* changes whenever the weights have been written */
  const shoal_address *at;  /* DROPOUT: in the backend's memory, read when the operation's turn comes */
} shoal_op_args;

typedef struct shoal_op shoal_op;
struct shoal_op {
  shoal_op_desc desc;
  shoal_backend *backend;
  shoal_format in_format[SHOAL_OP_INPUTS]; /* formats chosen by the producers; dx has the same */
  shoal_format out_format;                 /* dy has the same */
  size_t saved_bytes, scratch_bytes;
  bool y_may_be_x;   /* forward may run in place, where x is not needed later (ADD: on any input) */
  bool dx_may_be_dy; /* backward_data may run in place (ADD: any of dx, or all) */
  bool backward_reads_x, backward_reads_y; /* else the buffers may be reused after forward */
  bool dw_with_dx; /* backward_data also produces dw (norms); backward_weights is NULL then.  With need_dx
                      false backward_data is called all the same, with dx NULL */
  shoal_status (*forward)(shoal_op *op, const shoal_op_args *a);
  shoal_status (*backward_weights)(shoal_op *op, const shoal_op_args *a); /* NULL: none */
  shoal_status (*backward_data)(shoal_op *op, const shoal_op_args *a);    /* NULL in evaluation */
  void (*destroy)(shoal_op *op);
};
#endif
