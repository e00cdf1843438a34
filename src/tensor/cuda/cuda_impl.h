/* Internal header of the cuda backend. */
#ifndef SHOAL_TENSOR_CUDA_CUDA_IMPL_H
#define SHOAL_TENSOR_CUDA_CUDA_IMPL_H
#include "base/mem.h"
#include "tensor/cuda/cuda.h"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/libraries.h"
#include <cuda_runtime_api.h>

enum {
  SHOAL_CUDA_MARKS = 256,        /* marks and copies beside the work that may be on their way */
  SHOAL_CUDA_STAGES = 4,         /* pieces of pinned memory through which host memory is copied ... */
  SHOAL_CUDA_STAGE = 1 << 20,    /* ... and their bytes */
  SHOAL_CUDA_TRAIL = 64,         /* events that say how far the device has come ... */
  SHOAL_CUDA_STRIDE = 16,        /* ... one after so many kernels, and behind each graph */
  SHOAL_CUDA_MOST_BLOCKS = 16384 /* of a launch with a thread per element; each then does several */
};

/* The streams: work in order, and copies beside it in either direction. */
typedef enum { SHOAL_CUDA_WORK, SHOAL_CUDA_TO_DEVICE, SHOAL_CUDA_TO_HOST, SHOAL_CUDA_STREAMS } shoal_cuda_stream;

typedef char shoal_cuda_name[96]; /* of a kernel or a graph */

typedef struct {
  shoal_backend base;
  int device;
  shoal_products products;
  char name[272];                                  /* of the device, for messages */
  cudaStream_t stream, beside[SHOAL_CUDA_STREAMS]; /* stream is that of the work, and beside[WORK] as well */
  cudaEvent_t mark[SHOAL_CUDA_MARKS];              /* number k is recorded in event k % MARKS ... */
  bool pending[SHOAL_CUDA_MARKS];                  /* ... and not known to be reached */
  uint64_t marked;                                 /* the last number */
  cudaEvent_t trail[SHOAL_CUDA_TRAIL];             /* event k % TRAIL is behind the kth stretch of work: ... */
  shoal_cuda_name last[SHOAL_CUDA_TRAIL];          /* ... a graph, or kernels of which this is the last */
  bool is_graph[SHOAL_CUDA_TRAIL];
  uint64_t trailed;          /* the last k */
  int launches;              /* kernels since */
  const char *launched;      /* the last kernel */
  shoal_cuda_name recording; /* the name of what is being recorded */
  bool hung;                 /* something does not end, so nothing is waited for any more */
  char *stage[SHOAL_CUDA_STAGES];
  cudaEvent_t staged[SHOAL_CUDA_STAGES];
  bool in_use[SHOAL_CUDA_STAGES]; /* the event was recorded and not waited for */
  int next_stage;
  char *scratch; /* device memory of the call that is being made */
  size_t scratch_bytes;
  int32_t *factor;      /* of the quantiser's hash, on the device */
  shoal_memory *memory; /* all that was allocated, by address */
  size_t memory_n, memory_room;
  shoal_cuda_libraries lib;
} shoal_cuda;

static inline shoal_cuda *shoal_cuda_of(const shoal_op *op)
{
  return (shoal_cuda *)op->backend;
}

/** Converts an error of CUDA to ours, with CUDA's text and the call that failed: ERR_MEM or ERR_DEVICE. */
shoal_status shoal_cuda_fail(cudaError_t e, const char *file, int line, const char *what);
#define SHOAL_TRY_CUDA(call)                                                                                           \
  do {                                                                                                                 \
    cudaError_t cuda_ = (call);                                                                                        \
    if (cuda_ != cudaSuccess) return shoal_cuda_fail(cuda_, __FILE__, __LINE__, #call);                                \
  } while (0)

/* Launches: the kernel with a thread per element (at most MOST_BLOCKS blocks), or with so many blocks; nothing if that is 0.
 * The arguments are members of its struct. */
shoal_status shoal_cuda_launch(shoal_cuda *b, const void *kernel, const char *name, size_t blocks, void *args);
static inline size_t shoal_cuda_blocks(size_t n)
{
  return SHOAL_MIN((n + SHOAL_CUDA_THREADS - 1) / SHOAL_CUDA_THREADS, (size_t)SHOAL_CUDA_MOST_BLOCKS);
}
#define SHOAL_BLOCKS(b, kernel, blocks, ...)                                                                           \
  shoal_cuda_launch((b), (const void *)shoal_k_##kernel, #kernel, (blocks), &(shoal_k_##kernel##_args){ __VA_ARGS__ })
#define SHOAL_EACH(b, kernel, n, ...) SHOAL_BLOCKS(b, kernel, shoal_cuda_blocks(n), __VA_ARGS__)

/* --- memory.c --- */
shoal_status shoal_cuda_alloc(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out);
void shoal_cuda_release(shoal_backend *b, shoal_memory *m);
shoal_status shoal_cuda_settle(shoal_backend *b);
uint64_t shoal_cuda_mark(shoal_backend *b);
bool shoal_cuda_reached(shoal_backend *b, uint64_t number);
shoal_status shoal_cuda_copy(shoal_backend *b, size_t bytes, const void *from, void *to);
/** Device memory of at least so many bytes, contents undefined, until the next call of this function. */
shoal_status shoal_cuda_scratch(shoal_cuda *b, size_t bytes, void *out);
/** Begins to copy host memory, which may change as soon as this returns, to memory of the backend. */
shoal_status shoal_cuda_send(shoal_cuda *b, size_t bytes, const void *from, void *to);
/** Behind a launch of that kernel. */
shoal_status shoal_cuda_launched(shoal_cuda *b, const char *kernel);
/** In front of a graph: ends the stretch of kernels.  Behind one. */
shoal_status shoal_cuda_trail_kernels(shoal_cuda *b);
shoal_status shoal_cuda_trail_graph(shoal_cuda *b, const char *name);
/** Wait, and tell the backend's `waits`. */
shoal_status shoal_cuda_wait_stream(shoal_cuda *b, cudaStream_t s);
shoal_status shoal_cuda_wait_event(shoal_cuda *b, cudaEvent_t e);
/** Waits for all that was asked for, without making progress in the network. */
shoal_status shoal_cuda_finish(shoal_cuda *b);
shoal_status shoal_cuda_copy_beside(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                                    uint64_t *number);
shoal_status shoal_cuda_await(shoal_backend *b, uint64_t number);

/* --- record.c --- */
shoal_status shoal_cuda_record(shoal_backend *b, const char *name);
shoal_status shoal_cuda_recorded(shoal_backend *b, shoal_recording **out);
shoal_status shoal_cuda_replay(shoal_backend *b, const shoal_recording *r);
void shoal_cuda_forget(shoal_backend *b, shoal_recording *r);
/** ERR_INTERNAL while the backend records. */
shoal_status shoal_cuda_not_recorded(const shoal_cuda *b, const char *what);

/* --- arena.c --- */
shoal_status shoal_cuda_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                 float *c);
shoal_status shoal_cuda_softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                     const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                     bool leave_out, float *dlogits, shoal_loss *out);
shoal_status shoal_cuda_target_loss(shoal_backend *b, int64_t rows, int64_t width, const float *y, const float *targets,
                                    bool absolute, const float *scale, bool leave_out, float *dy, shoal_loss *out);
shoal_status shoal_cuda_add(shoal_backend *b, size_t n, const float *x, float *y);
shoal_status shoal_cuda_axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y);
shoal_status shoal_cuda_sumsq(shoal_backend *b, size_t n, const float *x, double *out);
shoal_status shoal_cuda_clip(shoal_backend *b, float limit, const double *squares, float *scale);
shoal_status shoal_cuda_descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                                const shoal_update_watch *watch);
shoal_status shoal_cuda_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                            const shoal_update_watch *watch);
shoal_status shoal_cuda_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                             float *w, const shoal_update_watch *watch);
shoal_status shoal_cuda_fill(shoal_backend *b, size_t n, float value, float *y);
shoal_status shoal_cuda_copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to);
shoal_status shoal_cuda_copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad);
shoal_status shoal_cuda_find_bad(shoal_backend *b, size_t n, const float *x, size_t *out);
shoal_status shoal_cuda_average(shoal_backend *b, size_t n, const float *x, const float *y, float *z);
shoal_status shoal_cuda_divide(shoal_backend *b, size_t n, float divisor, float *y);
shoal_status shoal_cuda_scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus,
                              const float *minus, float *y);
shoal_status shoal_cuda_mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y);
shoal_status shoal_cuda_distance2(shoal_backend *b, size_t n, const float *x, const float *y, double *out);
shoal_status shoal_cuda_pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                               float divisor, uint16_t *out, uint32_t *bad);
shoal_status shoal_cuda_unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                 float *y);
shoal_status shoal_cuda_add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y);
shoal_status shoal_cuda_encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                               void *out);
shoal_status shoal_cuda_decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                               uint8_t *bad);
shoal_status shoal_cuda_meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                             float *distance);
shoal_status shoal_cuda_fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest);

/* --- fused.c --- */
/* C[m,n] = op(A) op(B), all by columns and dense. */
typedef struct {
  cublasLtEpilogue_t epilogue; /* BIAS: a bias [m] is added; BGRADB: the bias [n] becomes the sum of op(B) over k */
  bool ta, tb;
  int64_t m, n, k;
} shoal_cuda_fused_shape;
typedef struct {
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t a, b, c;
  bool chosen; /* there is an algorithm */
  cublasLtMatmulAlgo_t algo;
  size_t workspace, a_n, b_n, a_at, b_at; /* scratch: | workspace | A in bf16 | B in bf16 | */
} shoal_cuda_fused;
/** `f` is zeroed, and to be destroyed also after an error. */
shoal_status shoal_cuda_fused_plan(shoal_cuda *b, const shoal_cuda_fused_shape *s, shoal_cuda_fused *f,
                                   size_t *scratch_bytes);
/** Whether it is planned, for memory like this. */
bool shoal_cuda_fused_fits(const shoal_cuda_fused *f, const float *a, const float *bm, const float *bias,
                           const float *c);
/** What fits.  `bias` is written by BGRADB. */
shoal_status shoal_cuda_fused_multiply(shoal_cuda *b, const shoal_cuda_fused *f, const float *a, const float *bm,
                                       const float *bias, float *c, void *scratch);
void shoal_cuda_fused_destroy(const shoal_cuda *b, shoal_cuda_fused *f);

/* --- linear.c, conv.c, conv_dnn.c, attention.c, ops.c: operations --- */
shoal_status shoal_cuda_to_bf16(shoal_cuda *b, size_t n, const float *x, uint16_t *y);
/** How products are summed, and f32 factors rounded. */
static inline cublasComputeType_t shoal_cuda_compute(const shoal_cuda *b)
{
  return b->products == SHOAL_PRODUCTS_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
shoal_status shoal_cuda_gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                             const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                             int64_t ldc);
/** A zeroed operation with private fields: `bytes` is the size of a struct that begins with a shoal_op.  Description, dense formats,
 *  backend and a destroy that frees are set; planners add to it. */
shoal_status shoal_cuda_op_new(shoal_cuda *b, const shoal_op_desc *d, size_t bytes, void *out);
typedef shoal_status shoal_cuda_planner(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out);
shoal_cuda_planner shoal_cuda_plan_linear, shoal_cuda_plan_conv, shoal_cuda_plan_conv_dnn, shoal_cuda_plan_attention;
shoal_status shoal_cuda_op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out);
/** The gradient in front of a fused relu: `a->dy` itself, or its copy in `masked` that is zero where y is. */
shoal_status shoal_cuda_unmasked(shoal_op *op, const shoal_op_args *a, float *masked, const float **out);

/* A tensor [.., channels, plane] of n elements. */
typedef struct {
  size_t n, channels, plane;
} shoal_cuda_channels;
/** y += bias, relu; `bias` may be NULL. */
shoal_status shoal_cuda_bias(shoal_cuda *b, const shoal_cuda_channels *s, const float *bias, bool relu, float *y);
shoal_status shoal_cuda_bias_back(shoal_cuda *b, const shoal_cuda_channels *s, const float *dy, float *db);
#endif
