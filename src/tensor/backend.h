/* A backend creates operations for given shapes and does the flat-vector work of optimizers, exchanges and losses.
 *
 *   ref   plain loops, the readable oracle
 *   cpu   oneDNN primitives created once and reused, OpenMP threads
 *   cuda  cuBLAS, cuDNN and hand-written kernels (built with -DSHOAL_CUDA=ON)
 *
 * Each is a table of functions; backend.c holds the list.  All data is f32.  Only one thread at a time may use a
 * backend.  Results are bitwise reproducible for the same threads, shapes and values. */
#ifndef SHOAL_TENSOR_BACKEND_H
#define SHOAL_TENSOR_BACKEND_H
#include "tensor/op.h"

typedef struct { /* SGD: v = mu v + g';  w -= lr (nesterov ? g' + mu v : v), g' = scale g + l2 w;  then w -= lr dec w */
  float lr, momentum, l2, decoupled, scale;
  bool nesterov, first; /* first: v = g', as PyTorch does */
} shoal_sgd_args;
typedef struct { /* AdamW (Loshchilov and Hutter, ICLR 2019); c1 = 1 - beta1^t, c2 = 1 - beta2^t; g' = scale g + l2 w;
                    m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2;
                    w -= lr (m / c1 / (sqrt(v / c2) + eps) + dec w), with w before the update on the right */
  float lr, beta1, beta2, eps, l2, decoupled, scale, c1, c2;
} shoal_adam_args;
/* What an update observes of its results in the loop that computes them, without a pass of its own. */
typedef struct {
  bool bad;            /* set if a new weight or a new value of the state is not finite; never cleared */
  float *w, *state[2]; /* receive the old weights and state; w NULL: not wanted */
} shoal_update_watch;

typedef struct {
  /* required */
  shoal_status (*alloc)(shoal_backend *b, size_t bytes, void **out); /* zeroed, 64-byte aligned, device memory */
  void (*release)(shoal_backend *b, void *p);
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
  /* Rows of logits [rows, classes] against labels [rows] (negative: row is ignored).  Loss: cross-entropy with label
   * smoothing s (target 1-s+s/classes, others s/classes), summed in double over rows; correct: rows whose first largest
   * logit is the label.  dlogits, if not NULL: scale * dloss/dlogits, may be the same buffer as logits; zero in
   * ignored rows.  ERR_ARG names a label that is not below classes. */
  shoal_status (*softmax_xent)(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                               const int32_t *labels, float smoothing, float scale, float *dlogits, double *loss,
                               int64_t *correct);
  /* From here on results do not depend on threads and processor.  y += x;  y = p x + q y, where q 0 never reads y;  sum of
   * squares */
  shoal_status (*add)(shoal_backend *b, size_t n, const float *x, float *y);
  shoal_status (*axpby)(shoal_backend *b, size_t n, float p, const float *x, float q, float *y);
  shoal_status (*sumsq)(shoal_backend *b, size_t n, const float *x, double *out);
  /* Updates.  descend: w = p g + q w */
  shoal_status (*descend)(shoal_backend *b, size_t n, float p, const float *g, float q, float *w,
                          shoal_update_watch *watch);
  shoal_status (*sgd)(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                      shoal_update_watch *watch);
  shoal_status (*adam)(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                       float *w, shoal_update_watch *watch);
  void (*close)(shoal_backend *b);
} shoal_backend_ops;

struct shoal_backend {
  const char *name;
  const shoal_backend_ops *ops;
  int threads;
  void (*progress)(void *context); /* called between primitives, about every 2 ms if their length permits; or NULL */
  void *progress_context;
};

/** @param name "ref", "cpu" or "cuda"; @param threads >= 1.
 *  @return ERR_UNSUPPORTED says how to build it, ERR_DEVICE what is missing */
shoal_status shoal_backend_open(const char *name, int threads, shoal_backend **out);
void shoal_backend_close(shoal_backend *b);
/** Makes the calling thread and the backend's threads flush subnormal numbers to zero, or not (base/subnormal.h). */
void shoal_backend_flush_subnormals(const shoal_backend *b, bool flush);
size_t shoal_backend_names(const char *const **out); /* those built in */
static inline void shoal_backend_poll(shoal_backend *b)
{
  if (b->progress) b->progress(b->progress_context);
}
/** Create an operation; checks the description first.  `in` are the formats of the inputs, NULL for dense. */
shoal_status shoal_op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out);
void shoal_op_destroy(shoal_op *op);                  /* NULL is fine */
const char *shoal_backend_versions(const char *name); /* "oneDNN 2.6.3 (compiled 2.6.3)" */
#endif
