/* Internal header of the cpu backend: the backend struct, memory formats, and parallel loops.
 *
 * An operation is a shoal_op followed by private fields.  A planner fills both; cpu.c selects the planner by kind.
 * Compute-bound operations (convolutions, matrix products) use oneDNN; memory-bound ones are own loops that touch each
 * element as few times as possible. */
#ifndef SHOAL_TENSOR_CPU_CPU_IMPL_H
#define SHOAL_TENSOR_CPU_CPU_IMPL_H
#include "base/mem.h"
#include "base/wide.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/dnn.h"

#define SHOAL_CPU_KERNEL SHOAL_WIDE /* for innermost loops */

/* Memory formats of activations.  BLOCK16 is oneDNN's nChw16c: channels in blocks of 16, the block innermost, the last
 * one padded with zeros, which every operation keeps zero:
 *
 *   [n][channel block][h][w][16]
 *
 * OTHER is a format that only oneDNN can read. */
typedef enum {
  SHOAL_CPU_DENSE,
  SHOAL_CPU_BLOCK16,
  SHOAL_CPU_BLOCK8,
  SHOAL_CPU_CHANNELS_LAST,
  SHOAL_CPU_OTHER
} shoal_cpu_layout;

/* A non-dense format; it lives as long as the backend, so that a shoal_format may be copied freely. */
typedef struct shoal_cpu_format {
  struct shoal_cpu_format *next;
  shoal_dnn_md md;
  shoal_cpu_layout layout;
} shoal_cpu_format;

typedef struct {
  shoal_backend base;
  shoal_dnn dnn;
  bool winograd;           /* allowed; see shoal_cpu_suits_winograd */
  shoal_elements elements; /* of activations, and of the plans' copies of weights */
  shoal_cpu_format *formats;
} shoal_cpu;

static inline shoal_cpu *shoal_cpu_of(const shoal_op *op)
{
  return (shoal_cpu *)op->backend;
}

/* --- format.c --- */
/** The format of a tensor of shape `s` that oneDNN describes by `md`; dense if the memory layout is. */
shoal_status shoal_cpu_format_of(shoal_cpu *b, const shoal_shape *s, shoal_dnn_cmd md, shoal_format *out);
shoal_status shoal_cpu_format_of_layout(shoal_cpu *b, const shoal_shape *s, shoal_elements e, shoal_cpu_layout layout,
                                        shoal_format *out);
shoal_status shoal_cpu_md_of(const shoal_shape *s, const shoal_format *f, shoal_dnn_md *out); /* caller frees */
shoal_status shoal_cpu_md_of_layout(const shoal_shape *s, shoal_elements e, shoal_cpu_layout layout,
                                    shoal_dnn_md *out); /* as well */
shoal_status shoal_cpu_layout_of_md(const shoal_shape *s, shoal_dnn_cmd md, shoal_cpu_layout *out);
shoal_cpu_layout shoal_cpu_layout_of(const shoal_format *f);
shoal_status shoal_cpu_to_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x,
                                float *y);
shoal_status shoal_cpu_from_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x,
                                  float *y);

/* Multiply-accumulates that one thread does in 2 to 3 ms (60 G/s, a current server core): the longest work between two
 * polls of the network. */
#define SHOAL_CPU_PIECE_MACS 160e6

/* --- parallel.c --- */
typedef void shoal_cpu_range(const void *context, size_t begin, size_t end);
/** Run `f` over [0, n) in ranges that start at multiples of `grain`, spread over the threads, with a poll about every
 *  2 ms of one thread's work; `bytes` is the memory one index touches.  The ranges depend on the thread count: `f` must
 *  give the same values for any partition. */
void shoal_cpu_parallel(shoal_cpu *b, size_t n, size_t grain, size_t bytes, shoal_cpu_range *f, const void *context);

/** dx = y <= 0 ? 0 : dy over the whole output format of `op` (pointwise.c). */
void shoal_cpu_mask(const shoal_op *op, const float *dy, const float *y, float *dx);
void shoal_cpu_relu(shoal_cpu *b, size_t n, float *y); /* y <= 0 ? 0 : y, in place */

/** Reserve space in a scratch or saved area; returns its 64-byte aligned offset. */
static inline size_t shoal_cpu_carve(size_t *total, size_t bytes)
{
  size_t at = shoal_round_up(*total, SHOAL_ALIGN);
  *total = at + bytes;
  return at;
}
static inline void *shoal_cpu_at(void *area, size_t offset)
{
  return area ? (char *)area + offset : NULL;
}

/* --- bf16.c: f32 to bf16 and back, and the relu's gradient on bf16, all over n elements --- */
void shoal_cpu_to_bf16(shoal_cpu *b, size_t n, const void *x, void *y);
void shoal_cpu_from_bf16(shoal_cpu *b, size_t n, const void *x, void *y);
void shoal_cpu_mask_bf16(shoal_cpu *b, size_t n, const void *dy, const void *y,
                         void *dx); /* y its own: a relu in place */
shoal_status shoal_cpu_add_bf16(shoal_backend *b, size_t n, const uint16_t *x, uint16_t *y);

/* --- cpu.c --- */
/** A zeroed operation with private fields: `bytes` is the size of a struct that begins with a shoal_op.  Description,
 *  formats (the output dense), backend and a destroy that frees are set; planners add to it. */
shoal_status shoal_cpu_op_new(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, size_t bytes, void *out);

typedef shoal_status shoal_cpu_planner(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out);
shoal_cpu_planner shoal_cpu_plan_linear, shoal_cpu_plan_linear_bf16, shoal_cpu_plan_conv, shoal_cpu_plan_batchnorm,
    shoal_cpu_plan_layernorm, shoal_cpu_plan_relu, shoal_cpu_plan_curve, shoal_cpu_plan_pool, shoal_cpu_plan_globalpool,
    shoal_cpu_plan_add, shoal_cpu_plan_parameter, shoal_cpu_plan_embedding, shoal_cpu_plan_attention,
    shoal_cpu_plan_mul, shoal_cpu_plan_concat, shoal_cpu_plan_slice, shoal_cpu_plan_flatten, shoal_cpu_plan_dropout;
/** Plan an operation that reads dense tensors only for an input that is not dense (dense_wrapper.c). */
shoal_status shoal_cpu_plan_dense_wrapper(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in,
                                          shoal_cpu_planner *planner, shoal_op **out);

/** Plan an operation on bf16 activations whose loops read f32 only (inside_f32.c). */
shoal_status shoal_cpu_plan_inside_f32(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in,
                                       shoal_cpu_planner *planner, shoal_op **out);

/* --- flat.c, multiply.c and loss.c: the flat-vector part of the table --- */
shoal_status shoal_cpu_gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                            const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                            int64_t ldc);
shoal_status shoal_cpu_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                float *c);
shoal_status shoal_cpu_softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                    const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                    bool leave_out, float *dlogits, shoal_loss *out);
shoal_status shoal_cpu_add(shoal_backend *b, size_t n, const float *x, float *y);
shoal_status shoal_cpu_axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y);
shoal_status shoal_cpu_sumsq(shoal_backend *b, size_t n, const float *x, double *out);
shoal_status shoal_cpu_descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                               const shoal_update_watch *watch);
shoal_status shoal_cpu_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                           const shoal_update_watch *watch);
shoal_status shoal_cpu_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                            float *w, const shoal_update_watch *watch);

/* --- arena.c --- */
shoal_status shoal_cpu_fill(shoal_backend *b, size_t n, float value, float *y);
shoal_status shoal_cpu_copy(shoal_backend *b, size_t bytes, const void *from, void *to);
shoal_status shoal_cpu_copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to);
shoal_status shoal_cpu_copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad);
shoal_status shoal_cpu_average(shoal_backend *b, size_t n, const float *x, const float *y, float *z);
shoal_status shoal_cpu_divide(shoal_backend *b, size_t n, float divisor, float *y);
shoal_status shoal_cpu_scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus,
                             const float *minus, float *y);
shoal_status shoal_cpu_mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y);
shoal_status shoal_cpu_pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                              float divisor, uint16_t *out, uint32_t *bad);
shoal_status shoal_cpu_unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                float *y);
shoal_status shoal_cpu_add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y);
shoal_status shoal_cpu_encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                              void *out);
shoal_status shoal_cpu_decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                              uint8_t *bad);
shoal_status shoal_cpu_meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                            float *distance);
shoal_status shoal_cpu_fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest);
#endif
