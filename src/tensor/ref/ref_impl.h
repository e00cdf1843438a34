/* Internal header of the reference backend: planners of operations, and the flat-vector functions of the table.
 *
 * A planner receives an operation with a checked description, dense formats and all other fields zero; it sets the
 * functions and the sizes the operation needs. */
#ifndef SHOAL_TENSOR_REF_REF_IMPL_H
#define SHOAL_TENSOR_REF_REF_IMPL_H
#include "tensor/backend.h"

void shoal_ref_plan_linear(shoal_op *op);
void shoal_ref_plan_conv(shoal_op *op);
void shoal_ref_plan_batchnorm(shoal_op *op);
void shoal_ref_plan_layernorm(shoal_op *op);
void shoal_ref_plan_relu(shoal_op *op);
void shoal_ref_plan_curve(shoal_op *op);
void shoal_ref_plan_maxpool(shoal_op *op);
void shoal_ref_plan_avgpool(shoal_op *op);
void shoal_ref_plan_globalpool(shoal_op *op);
void shoal_ref_plan_add(shoal_op *op);
void shoal_ref_plan_mul(shoal_op *op);
void shoal_ref_plan_concat(shoal_op *op);
void shoal_ref_plan_slice(shoal_op *op);
void shoal_ref_plan_parameter(shoal_op *op);
void shoal_ref_plan_embedding(shoal_op *op);
void shoal_ref_plan_attention(shoal_op *op);
void shoal_ref_plan_transpose(shoal_op *op);
void shoal_ref_plan_flatten(shoal_op *op);
void shoal_ref_plan_dropout(shoal_op *op);

shoal_status shoal_ref_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                float *c);
shoal_status shoal_ref_gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                            const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                            int64_t ldc);
shoal_status shoal_ref_softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                    const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                    bool leave_out, float *dlogits, shoal_loss *out);
shoal_status shoal_ref_add(shoal_backend *b, size_t n, const float *x, float *y);
shoal_status shoal_ref_axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y);
shoal_status shoal_ref_sumsq(shoal_backend *b, size_t n, const float *x, double *out);
shoal_status shoal_ref_descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                               const shoal_update_watch *watch);
shoal_status shoal_ref_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                           const shoal_update_watch *watch);
shoal_status shoal_ref_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                            float *w, const shoal_update_watch *watch);

/* --- arena.c --- */
shoal_status shoal_ref_fill(shoal_backend *b, size_t n, float value, float *y);
shoal_status shoal_ref_copy(shoal_backend *b, size_t bytes, const void *from, void *to);
shoal_status shoal_ref_copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to);
shoal_status shoal_ref_copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad);
shoal_status shoal_ref_average(shoal_backend *b, size_t n, const float *x, const float *y, float *z);
shoal_status shoal_ref_divide(shoal_backend *b, size_t n, float divisor, float *y);
shoal_status shoal_ref_scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus,
                             const float *minus, float *y);
shoal_status shoal_ref_mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y);
shoal_status shoal_ref_pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                              float divisor, uint16_t *out, uint32_t *bad);
shoal_status shoal_ref_unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                float *y);
shoal_status shoal_ref_add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y);
shoal_status shoal_ref_encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                              void *out);
shoal_status shoal_ref_decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                              uint8_t *bad);
shoal_status shoal_ref_meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                            float *distance);
shoal_status shoal_ref_fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest);

/* Gradient of the input of a fused relu: zero where the relu's output is zero. */
static inline float shoal_ref_before_relu(const shoal_op *op, const shoal_op_args *a, int64_t i)
{
  return op->desc.relu && a->y[i] <= 0 ? 0.0f : a->dy[i];
}
static inline float shoal_ref_relu(float x)
{
  return x <= 0 ? 0.0f : x; /* a NaN stays one */
}
#endif
