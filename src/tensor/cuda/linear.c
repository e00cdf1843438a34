/* Products by cuBLAS, in f32, TF32, or of factors that are copied as bf16, summed in f32.  cuBLAS stores by columns: C = A B by rows
 * is C' = B' A' to it.
 *
 * y = x W' + bias, relu: cuBLASLt adds the bias (fused.c) where that saves a pass, so without a relu; else one pass of our own does
 * both.  It also sums the gradient of the bias, if products are f32: it sums what it multiplies, and that may be rounded otherwise. */
#include "tensor/cuda/cuda_impl.h"
#include <stdlib.h>

typedef struct {
  cublasOperation_t ta, tb;
  int m, n, k, lda, ldb, ldc; /* as cuBLAS counts: of C' = B' A' */
  const float *alpha, *a, *b, *beta;
  size_t a_n, b_n; /* elements from the first to the last */
  float *c;
} product;

shoal_status shoal_cuda_to_bf16(shoal_cuda *b, size_t n, const float *x, uint16_t *y)
{
  return SHOAL_EACH(b, pack16, n, .n = n, .f16 = 0, .divisor = 1, .x = x, .y = y);
}

/* Weights and activations stay f32, and are copied for each product. */
static shoal_status multiply_bf16(shoal_cuda *b, const product *p)
{
  const size_t second = shoal_round_up(p->a_n * sizeof(uint16_t), SHOAL_ALIGN);
  char *there;
  SHOAL_TRY(shoal_cuda_scratch(b, second + p->b_n * sizeof(uint16_t), &there));
  uint16_t *a16 = (uint16_t *)(void *)there, *b16 = (uint16_t *)(void *)(there + second);
  SHOAL_TRY(shoal_cuda_to_bf16(b, p->a_n, p->a, a16));
  SHOAL_TRY(shoal_cuda_to_bf16(b, p->b_n, p->b, b16));
  SHOAL_TRY_CUBLAS(b->lib.cublasGemmEx(b->lib.blas, p->ta, p->tb, p->m, p->n, p->k, p->alpha, a16, CUDA_R_16BF, p->lda,
                                       b16, CUDA_R_16BF, p->ldb, p->beta, p->c, CUDA_R_32F, p->ldc, CUBLAS_COMPUTE_32F,
                                       CUBLAS_GEMM_DEFAULT));
  return SHOAL_OK;
}

static shoal_status multiply_f32(shoal_cuda *b, const product *p)
{
  SHOAL_TRY_CUBLAS(b->lib.cublasSgemm_v2(b->lib.blas, p->ta, p->tb, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b,
                                         p->ldb, p->beta, p->c, p->ldc));
  return SHOAL_OK;
}

static size_t extent(int64_t rows, int64_t cols, int64_t ld)
{
  return rows && cols ? (size_t)((rows - 1) * ld + cols) : 0;
}

shoal_status shoal_cuda_gemm(shoal_backend *base, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                             const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                             int64_t ldc)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const int64_t all[] = { m, n, k, lda, ldb, ldc };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++)
    SHOAL_CHECK(all[i] <= INT32_MAX, SHOAL_ERR_UNSUPPORTED,
                "a product of %lld x %lld x %lld; cuBLAS counts to 2^31 - 1", (long long)m, (long long)n, (long long)k);
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  const product p = { .ta = tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                      .tb = ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                      .m = (int)n,
                      .n = (int)m,
                      .k = (int)k,
                      .alpha = &alpha,
                      .a = bm,
                      .lda = (int)ldb,
                      .b = a,
                      .ldb = (int)lda,
                      .beta = &beta,
                      .c = c,
                      .ldc = (int)ldc,
                      .a_n = tb ? extent(n, k, ldb) : extent(k, n, ldb),
                      .b_n = ta ? extent(k, m, lda) : extent(m, k, lda) };
  return b->products == SHOAL_PRODUCTS_BF16 ? multiply_bf16(b, &p) : multiply_f32(b, &p);
}

typedef struct {
  shoal_op op;
  shoal_cuda_fused forward, dw;
  size_t fused_at; /* in the scratch, behind dy without what the relu blocked */
} linear_op;

typedef struct {
  int64_t rows, in, out;
} sizes;

static sizes sizes_of(const shoal_op *op)
{
  const shoal_shape *x = &op->desc.in[0], *y = &op->desc.out;
  int64_t in = x->dim[x->ndim - 1];
  return (sizes){ shoal_shape_count(x) / in, in, y->dim[y->ndim - 1] };
}

static shoal_cuda_channels outputs_of(const sizes *s)
{
  return (shoal_cuda_channels){ (size_t)(s->rows * s->out), (size_t)s->out, 1 };
}

static void *fused_scratch(const linear_op *l, const shoal_op_args *a)
{
  return (char *)a->scratch + l->fused_at;
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  const linear_op *l = (linear_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  sizes s = sizes_of(op);
  shoal_cuda_channels y = outputs_of(&s);
  if (shoal_cuda_fused_fits(&l->forward, a->w[0], a->x[0], a->w[1], a->y)) {
    SHOAL_TRY(shoal_cuda_fused_multiply(b, &l->forward, a->w[0], a->x[0], a->w[1], a->y, fused_scratch(l, a)));
  } else {
    SHOAL_TRY(shoal_cuda_gemm(op->backend, false, true, s.rows, s.out, s.in, 1, a->x[0], s.in, a->w[0], s.in, 0, a->y,
                              s.out));
    SHOAL_TRY(shoal_cuda_bias(b, &y, op->desc.bias ? a->w[1] : NULL, op->desc.relu, a->y));
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  const linear_op *l = (linear_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  sizes s = sizes_of(op);
  shoal_cuda_channels y = outputs_of(&s);
  const float *dy;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &dy));
  if (a->dw[0] && shoal_cuda_fused_fits(&l->dw, a->x[0], dy, a->dw[1], a->dw[0])) {
    SHOAL_TRY(shoal_cuda_fused_multiply(b, &l->dw, a->x[0], dy, a->dw[1], a->dw[0], fused_scratch(l, a)));
  } else {
    if (op->desc.bias) SHOAL_TRY(shoal_cuda_bias_back(b, &y, dy, a->dw[1]));
    if (a->dw[0])
      SHOAL_TRY(shoal_cuda_gemm(op->backend, true, false, s.out, s.in, s.rows, 1, dy, s.out, a->x[0], s.in, 0, a->dw[0],
                                s.in));
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(op);
  const float *dy;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &dy));
  SHOAL_TRY(
      shoal_cuda_gemm(op->backend, false, false, s.rows, s.in, s.out, 1, dy, s.out, a->w[0], s.in, 0, a->dx[0], s.in));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static void destroy(shoal_op *op)
{
  linear_op *l = (linear_op *)op;
  shoal_cuda_fused_destroy(shoal_cuda_of(op), &l->forward);
  shoal_cuda_fused_destroy(shoal_cuda_of(op), &l->dw);
  free(l);
}

static shoal_status plan_fused(shoal_cuda *b, linear_op *l)
{
  const shoal_op_desc *d = &l->op.desc;
  const sizes s = sizes_of(&l->op);
  const shoal_cuda_fused_shape y = { CUBLASLT_EPILOGUE_BIAS, true, false, s.out, s.rows, s.in },
                               dw = { CUBLASLT_EPILOGUE_BGRADB, false, true, s.in, s.out, s.rows };
  size_t of_y = 0, of_dw = 0;
  if (d->bias && !d->relu) SHOAL_TRY(shoal_cuda_fused_plan(b, &y, &l->forward, &of_y));
  if (d->bias && d->training && b->products == SHOAL_PRODUCTS_F32)
    SHOAL_TRY(shoal_cuda_fused_plan(b, &dw, &l->dw, &of_dw));
  l->op.scratch_bytes = l->fused_at + SHOAL_MAX(of_y, of_dw);
  return SHOAL_OK;
}

shoal_status shoal_cuda_plan_linear(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  linear_op *l;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *l, &l));
  l->op.forward = forward;
  l->op.backward_weights = backward_weights;
  l->op.backward_data = backward_data;
  l->op.destroy = destroy;
  l->op.backward_reads_x = true;
  l->op.backward_reads_y = d->relu;
  if (d->relu && d->training) l->fused_at = shoal_round_up(l->op.out_format.bytes, SHOAL_ALIGN);
  shoal_status st = plan_fused(b, l);
  if (st != SHOAL_OK) {
    destroy(&l->op);
    return st;
  }
  *out = &l->op;
  return SHOAL_OK;
}
