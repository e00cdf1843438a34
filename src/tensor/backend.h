/* A backend creates operations for given shapes and does the flat-vector work of optimizers, exchanges and losses.
 *
 *   ref   plain loops, the readable oracle
 *   cpu   oneDNN primitives created once and reused, OpenMP threads
 *   cuda  cuBLAS, cuDNN and hand-written kernels (built with -DSHOAL_CUDA=ON)
 *
 * Each is a table of functions; backend.c holds the list.  All data is f32, but the activations of cpu where it was opened with
 * bf16.  Only one thread at a time may use a
 * backend.  Results are bitwise reproducible for the same threads, shapes and values. */
#ifndef SHOAL_TENSOR_BACKEND_H
#define SHOAL_TENSOR_BACKEND_H
#include "tensor/memory.h"
#include "tensor/op.h"
#include "tensor/quant.h"
#include "topo/gpu.h"

/* What changes of an update from step to step.  Updates read it where the backend keeps it, when their turn comes: they can be
 * recorded once (a CUDA graph) and run again. */
typedef struct {
  float lr, c1, c2; /* AdamW: c1 = 1 - beta1^t, c2 = 1 - beta2^t */
  uint32_t first;   /* SGD: v = g', as PyTorch does */
} shoal_pace;
/* `now` and `scale` are the backend's memory; g' = *scale g + l2 w, scale NULL: 1. */
typedef struct { /* w -= lr g';  then w -= lr dec w: w = -lr *scale q g + (1 - lr l2) q w, with q = 1 - lr dec */
  const shoal_pace *now;
  const float *scale;
  float l2, decoupled;
} shoal_descend_args;
typedef struct { /* SGD: v = mu v + g';  w -= lr (nesterov ? g' + mu v : v);  then w -= lr dec w */
  const shoal_pace *now;
  const float *scale;
  float momentum, l2, decoupled;
  bool nesterov;
} shoal_sgd_args;
typedef struct
{ /* AdamW (Loshchilov and Hutter, ICLR 2019); m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2;
                    w -= lr (m / c1 / (sqrt(v / c2) + eps) + dec w), with w before the update on the right */
  const shoal_pace *now;
  const float *scale;
  float beta1, beta2, eps, l2, decoupled;
} shoal_adam_args;
/* What an update observes of its results in the loop that computes them, without a pass of its own. */
typedef struct {
  uint32_t *bad; /* PINNED: set to 1 if a new weight or a new value of the state is not finite; else left as it is */
  float *w, *state[2]; /* receive the old weights and state; w NULL: not wanted */
} shoal_update_watch;
typedef struct {
  double loss;                      /* summed over the rows that count */
  int64_t correct, samples;         /* of them; how many there are */
  int64_t left_out, first_left_out; /* rows without a loss; the first (undefined if there is none) */
} shoal_loss;
/* How two models are averaged that were sent to each other: see `meet`. */
typedef struct {
  const shoal_quant *quant; /* by which c was sent; NULL: as it is */
  const int8_t *exponent;   /* [blocks] of c, as encode has left them */
  const uint8_t *bad;       /* [(blocks + 7) / 8] blocks that were sent as they are after all */
  bool average;             /* false: only measure the distance */
} shoal_meet_args;

typedef struct shoal_recording shoal_recording;

typedef struct {
  /* required */
  /* Zeroed, 64-byte aligned; 0 bytes are allowed.  release waits for what uses the memory; it also takes memory that was never
   * allocated, and clears it. */
  shoal_status (*alloc)(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out);
  void (*release)(shoal_backend *b, shoal_memory *m);
  shoal_status (*op_create)(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out);
  shoal_status (*to_dense)(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x, float *y);
  shoal_status (*from_dense)(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x, float *y);
  /* C[m,n] = alpha op(A) op(B) + beta C, row-major, leading dimensions in elements; beta 0 never reads C */
  shoal_status (*gemm)(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *bm, int64_t ldb, float beta, float *c, int64_t ldc);
  /* C[m,n] = A B, dense, with the same bits for any number of threads, on any processor and in every backend on the host: for
   * what ranks compute each for itself and must have alike.  Slower than gemm. */
  shoal_status (*multiply)(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                           float *c);
  /* Rows of logits [rows, classes] against labels [rows], below classes (negative: row is ignored).  Loss: cross-entropy with
   * label smoothing s (target 1-s+s/classes, others s/classes), times the weight of the row's label, summed in double over rows;
   * weights [classes], NULL: all 1, with the same bits.  correct: rows whose first largest logit is the label.  dlogits, if not
   * NULL: *scale * dloss/dlogits, may be the same buffer as logits; zero in ignored rows.  leave_out: rows without a loss are ignored, too: those with a logit that is not finite, or two whose
   * difference is not.  labels, weights and scale: the backend's memory, read when its turn comes.  out: PINNED */
  shoal_status (*softmax_xent)(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                               const int32_t *labels, const float *weights, float smoothing, const float *scale,
                               bool leave_out, float *dlogits, shoal_loss *out);
  /* Rows of outputs y [rows, width] against targets [rows, width] (first one NaN: row is ignored).  The loss of a
   * row is the mean over its elements of (y - target)^2, or with `absolute` of |y - target|, as in PyTorch; summed in double over
   * rows; correct is 0.  dy, if not NULL: *scale * dloss/dy, where that of |0| is 0; may be the same buffer as y; zero in ignored
   * rows.  leave_out: rows with an output that is not finite are ignored, too.  targets and scale: the backend's memory, read
   * when its turn comes.  out: PINNED */
  shoal_status (*target_loss)(shoal_backend *b, int64_t rows, int64_t width, const float *y, const float *targets,
                              bool absolute, const float *scale, bool leave_out, float *dy, shoal_loss *out);
  /* From here on results do not depend on threads and processor.  y += x;  y = p x + q y, where q 0 never reads y;
   * sumsq: *out (PINNED) += sum of squares, in double;  clip: *scale = min(1, limit / sqrt(*squares)), 1 if that is no number */
  shoal_status (*add)(shoal_backend *b, size_t n, const float *x, float *y);
  shoal_status (*add_bf16)(shoal_backend *b, size_t n, const uint16_t *x, uint16_t *y); /* NULL: no format has bf16 */
  shoal_status (*axpby)(shoal_backend *b, size_t n, float p, const float *x, float q, float *y);
  shoal_status (*sumsq)(shoal_backend *b, size_t n, const float *x, double *out);
  shoal_status (*clip)(shoal_backend *b, float limit, const double *squares, float *scale);
  /* Updates: `a` and `watch` are host memory, read before the call returns */
  shoal_status (*descend)(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                          const shoal_update_watch *watch);
  shoal_status (*sgd)(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                      const shoal_update_watch *watch);
  shoal_status (*adam)(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                       float *w, const shoal_update_watch *watch);

  /* Arenas.  x, y and z are the backend's memory, which may be PINNED; results that only the backend's functions read need no
   * settle.  Same bits for any number of threads and on any processor. */

  /* Order.  `progress` may call these, too, while another function runs. */
  shoal_status (*settle)(shoal_backend *b); /* everything asked for is done: the host may touch PINNED memory */
  uint64_t (*mark)(shoal_backend *b);       /* numbers rise: shoal_event */
  bool (*reached)(shoal_backend *b, uint64_t number); /* does not wait */
  /* A copy beside what is computed, between an arena and PINNED memory.  It is begun once `after` is reached (0: at once) and
   * what it reads is written by then; what it writes nobody else uses until *number is reached, which is drawn like a mark.
   * Copies in one direction are in order.  The host may touch the PINNED side when `reached` says so, without settle. */
  shoal_status (*copy_beside)(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                              uint64_t *number);
  shoal_status (*await)(shoal_backend *b, uint64_t number); /* what is asked for from here on sees that copy's result */
  shoal_status (*fill)(shoal_backend *b, size_t n, float value, float *y);
  /* Between any two of backend memory and host memory.  Host memory has been read, or written, when it returns; a copy inside
   * the backend is only begun.  The two may be the same, but not overlap otherwise. */
  shoal_status (*copy)(shoal_backend *b, size_t bytes, const void *from, void *to);
  shoal_status (*copy_tile)(shoal_backend *b, const shoal_tile *t, const float *from, float *to); /* memory.h */
  /* y = x; *bad (PINNED) = 1 if an element is not finite, else it is left as it is */
  shoal_status (*copy_checked)(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad);
  /* *out (PINNED): the number of the first element that is not finite; n: all are */
  shoal_status (*find_bad)(shoal_backend *b, size_t n, const float *x, size_t *out);
  shoal_status (*average)(shoal_backend *b, size_t n, const float *x, const float *y, float *z); /* z = (x + y) / 2 */
  shoal_status (*divide)(shoal_backend *b, size_t n, float divisor, float *y);                   /* y = y / divisor */
  /* y = s ((plus - minus) + x), in double; plus and minus NULL: y = s x.  y may be any of them. */
  shoal_status (*scale)(shoal_backend *b, size_t n, double s, const float *x, const float *plus, const float *minus,
                        float *y);
  /* y = (x[0] + x[1] + ...) / count, summed in double in this order; x: host memory, read before the call returns */
  shoal_status (*mean)(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y);
  /* Sum of (x - y)^2 in double, from the first element to the last.  Waits for it. */
  shoal_status (*distance2)(shoal_backend *b, size_t n, const float *x, const float *y, double *out);

  /* 16 bits.  pack16: out = round((x - minus) / divisor); minus NULL: zeros; *bad (PINNED) = 1 if one is not finite or beyond
   * the format's largest number, else it is left as it is.  unpack16: y = x + plus; plus NULL: zeros.  add16: y += x */
  shoal_status (*pack16)(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                         float divisor, uint16_t *out, uint32_t *bad);
  shoal_status (*unpack16)(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                           float *y);
  shoal_status (*add16)(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y);

  /* Parcels of the modular quantiser (quant.h), in blocks of SHOAL_QUANT_BLOCK.  exponent, out, parcel and bad: PINNED.  encode
   * raises exponents where it must; decode clears or sets every bit of `bad`. */
  shoal_status (*encode)(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent, void *out);
  shoal_status (*decode)(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                         uint8_t *bad);
  /* distance[k] = max |theirs - c| over block k (NaN: passed over); then c = (Q(c) + theirs) / 2, where Q(c) is what the other
   * side has decoded.  distance [blocks]: PINNED */
  shoal_status (*meet)(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                       float *distance);
  /* u = base - x;  c = c - u;  base = c;  x = c;  largest[k] = max |u| over block k.  largest [blocks]: PINNED */
  shoal_status (*fold)(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest);

  /* Recordings, if the backend `records`; else NULL.  What is asked for between record and recorded is kept with its arguments, and
   * done by each replay.  Meanwhile only operations, gemm and what arenas have from `softmax_xent` on may be called, as far as it reads
   * no host memory but its arguments and needs no more memory of the backend's own than the same call before.  A recording names
   * memory of the caller, which may be released first, but not replayed then; it is worthless once `moved` has changed. */
  shoal_status (*record)(shoal_backend *b, const char *name);        /* the name is for reports; copied */
  shoal_status (*recorded)(shoal_backend *b, shoal_recording **out); /* out NULL: what was recorded is dropped */
  shoal_status (*replay)(shoal_backend *b, const shoal_recording *r);
  void (*forget)(shoal_backend *b, shoal_recording *r); /* waits for its replays */
  void (*close)(shoal_backend *b);
} shoal_backend_ops;

struct shoal_backend {
  const char *name;
  const shoal_backend_ops *ops;
  int threads;
  bool host_memory;                /* the host reaches all of its memory: windows show the memory itself */
  int device;                      /* as it was opened with */
  const char *dtype;               /* of its products, as it was opened: "f32" */
  const char *card;                /* name of the device, "NVIDIA H200"; NULL: it computes on the host */
  bool records;                    /* it can, and was asked to */
  bool recording;                  /* between record and recorded: there is no progress */
  uint64_t moved;                  /* raised when memory of its own goes to another place */
  void (*progress)(void *context); /* called between primitives, about every 2 ms if their length permits; or NULL */
  void *progress_context;
  /* Called again and again while a function waits for a device, with the seconds of it, those left out in which this process
   * did not run, and what is not done: an error ends the wait, and the backend waits for nothing from then on; or NULL */
  shoal_status (*waits)(void *context, double seconds, const char *what);
  void *waits_context;
};

/* To what operations, and on cuda gemm, may round what they multiply; sums, weights and their gradients, statistics and the loss are
 * f32.  `multiply` never rounds. */
typedef enum {
  SHOAL_PRODUCTS_F32,
  SHOAL_PRODUCTS_TF32, /* cuda: 10 bits of mantissa */
  SHOAL_PRODUCTS_BF16 /* 7 bits of mantissa.  cuda: so may the results of convolutions be, before bias and relu.  cpu: so are all
                          activations and their gradients, and operations keep copies of the weights */
} shoal_products;
extern const char *const shoal_products_names[]; /* "f32", "tf32", "bf16", NULL */
typedef struct {
  const char *name; /* "ref", "cpu" or "cuda" */
  int threads;      /* >= 1 */
  int device;       /* number of a device of shoal_backend_devices */
  shoal_products products;
  bool graphs;  /* cuda: parts of a step are recorded, if they are asked for again and again (nn/parts.h) */
  bool emulate; /* cpu: bf16 also on a processor without instructions for it, many times slower: for tests */
} shoal_backend_options;
/** @return ERR_UNSUPPORTED says how to build it, or that it, or this processor, has not those products; ERR_DEVICE what is missing */
shoal_status shoal_backend_open_as(const shoal_backend_options *o, shoal_backend **out);
shoal_status shoal_backend_open(const char *name, int threads, shoal_backend **out); /* as above, with device 0 */
/** The devices that this process may use with a backend: none with those on the host.  Opens nothing.
 *  @return ERR_DEVICE says why it has none where it needs one, ERR_UNSUPPORTED how to build it */
shoal_status shoal_backend_devices(const char *name, shoal_gpu out[SHOAL_GPUS_MAX], int *n);
void shoal_backend_close(shoal_backend *b);
/** Makes the calling thread and the backend's threads flush subnormal numbers to zero, or not (base/subnormal.h). */
void shoal_backend_flush_subnormals(const shoal_backend *b, bool flush);
size_t shoal_backend_names(const char *const **out); /* those built in */
bool shoal_backend_built(const char *name);
static inline void shoal_backend_poll(shoal_backend *b)
{
  if (b->progress && !b->recording) b->progress(b->progress_context);
}
/** What has been asked of the backend so far. */
static inline shoal_event shoal_backend_mark(shoal_backend *b)
{
  return (shoal_event){ b, b->ops->mark(b) };
}
static inline bool shoal_event_reached(shoal_event e)
{
  return !e.backend || e.backend->ops->reached(e.backend, e.number);
}
/* A window of the host on backend memory, for files, messages, LAPACK and the few numbers that the host computes with.  Where the
 * host reaches the memory it is that memory, at no cost; elsewhere a copy: not for the step.
 *
 *   shoal_window v;
 *   SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_BOTH, n, x, &v));
 *   ... v.at[0 .. n) ...
 *   SHOAL_TRY(shoal_window_close(b, &v));
 */
typedef enum { SHOAL_WINDOW_READ = 1, SHOAL_WINDOW_WRITE = 2, SHOAL_WINDOW_BOTH = 3 } shoal_window_use;
typedef struct {
  shoal_host_float *at; /* WRITE alone: contents are undefined at first, and all of them must be written */
  size_t n;
  float *behind; /* the backend's memory */
  shoal_window_use use;
} shoal_window;
/** Waits for what was asked of the backend.  `x` is not changed by READ.  ERR_MEM; the window is then closed. */
shoal_status shoal_window_open(shoal_backend *b, shoal_window_use use, size_t n, const float *x, shoal_window *out);
/** What was written is in the backend's memory when it returns. */
shoal_status shoal_window_close(shoal_backend *b, shoal_window *w);
void shoal_window_drop(shoal_window *w); /* after an error; also if it is closed */
/** Create an operation; checks the description first.  `in` are the formats of the inputs, NULL for dense. */
shoal_status shoal_op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out);
void shoal_op_destroy(shoal_op *op);                  /* NULL is fine */
const char *shoal_backend_versions(const char *name); /* "oneDNN 2.6.3 (compiled 2.6.3)" */
#endif
