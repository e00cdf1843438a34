/* Products by cuBLASLt, which adds a bias to what it multiplies, or sums the gradient of one beside it.
 *
 * Algorithm and workspace are chosen when the operation is made, for memory at multiples of 16 bytes.  Weights and their gradients are
 * views into an arena and may begin anywhere: where one is not aligned, linear.c does without.
 *
 * A relu is never fused: cuBLASLt's makes a zero of a NaN, so that a sum that overflows on both sides would come out as a finite loss,
 * here and in evaluations.  Nor is gelu, which is an operation of its own whose backward reads its input, and cuBLASLt does not say
 * by which formula it computes it. */
#include "tensor/cuda/cuda_impl.h"

enum { ALIGNED = 16, MOST_ROOM = 32 << 20 }; /* bytes: of all addresses; of a workspace */

static bool aligned(const void *p)
{
  return (uintptr_t)p % ALIGNED == 0;
}

bool shoal_cuda_fused_fits(const shoal_cuda_fused *f, const float *a, const float *bm, const float *bias,
                           const float *c)
{
  return f->chosen && aligned(a) && aligned(bm) && aligned(bias) && aligned(c);
}

static shoal_status set_bias(shoal_cuda *b, const shoal_cuda_fused *f, const void *bias)
{
  SHOAL_TRY_CUBLAS(
      b->lib.cublasLtMatmulDescSetAttribute(f->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  return SHOAL_OK;
}

shoal_status shoal_cuda_fused_multiply(shoal_cuda *b, const shoal_cuda_fused *f, const float *a, const float *bm,
                                       const float *bias, float *c, void *scratch)
{
  const float one = 1, zero = 0;
  const void *factor[] = { a, bm };
  if (b->products == SHOAL_PRODUCTS_BF16) {
    uint16_t *a16 = (uint16_t *)(void *)((char *)scratch + f->a_at),
             *b16 = (uint16_t *)(void *)((char *)scratch + f->b_at);
    SHOAL_TRY(shoal_cuda_to_bf16(b, f->a_n, a, a16));
    SHOAL_TRY(shoal_cuda_to_bf16(b, f->b_n, bm, b16));
    factor[0] = a16;
    factor[1] = b16;
  }
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY(set_bias(b, f, bias));
  SHOAL_TRY_CUBLAS(b->lib.cublasLtMatmul(b->lib.lt, f->how, &one, factor[0], f->a, factor[1], f->b, &zero, c, f->c, c,
                                         f->c, &f->algo, scratch, f->workspace, b->stream));
  return SHOAL_OK;
}

static shoal_status describe(shoal_cuda *b, const shoal_cuda_fused_shape *s, shoal_cuda_fused *f)
{
  const shoal_cuda_libraries *l = &b->lib;
  const cudaDataType type = b->products == SHOAL_PRODUCTS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
  const uint32_t epilogue = (uint32_t)s->epilogue;
  const int32_t ta = s->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = s->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  const uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
  const uint64_t a_rows = s->ta ? k : m, a_cols = s->ta ? m : k, b_rows = s->tb ? n : k, b_cols = s->tb ? k : n;
  const struct {
    cublasLtMatmulDescAttributes_t attribute;
    const void *value;
    size_t bytes;
  } set[] = { { CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta },
              { CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb },
              { CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue } };
  SHOAL_TRY_CUBLAS(l->cublasLtMatmulDescCreate(&f->how, shoal_cuda_compute(b), CUDA_R_32F));
  for (size_t i = 0; i < SHOAL_COUNT(set); i++)
    SHOAL_TRY_CUBLAS(l->cublasLtMatmulDescSetAttribute(f->how, set[i].attribute, set[i].value, set[i].bytes));
  SHOAL_TRY(set_bias(b, f, (const void *)(uintptr_t)ALIGNED)); /* what its choice knows of the address */
  SHOAL_TRY_CUBLAS(l->cublasLtMatrixLayoutCreate(&f->a, type, a_rows, a_cols, (int64_t)a_rows));
  SHOAL_TRY_CUBLAS(l->cublasLtMatrixLayoutCreate(&f->b, type, b_rows, b_cols, (int64_t)b_rows));
  SHOAL_TRY_CUBLAS(l->cublasLtMatrixLayoutCreate(&f->c, CUDA_R_32F, m, n, s->m));
  f->a_n = (size_t)(m * k);
  f->b_n = (size_t)(k * n);
  return SHOAL_OK;
}

/* Nothing is chosen where cuBLASLt has nothing for this device and epilogue. */
static shoal_status choose(shoal_cuda *b, cublasLtMatmulPreference_t wish, shoal_cuda_fused *f)
{
  const shoal_cuda_libraries *l = &b->lib;
  static const cublasLtMatmulPreferenceAttributes_t alignments[] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  const uint32_t bytes = ALIGNED;
  const uint64_t most = MOST_ROOM;
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  for (size_t i = 0; i < SHOAL_COUNT(alignments); i++)
    SHOAL_TRY_CUBLAS(l->cublasLtMatmulPreferenceSetAttribute(wish, alignments[i], &bytes, sizeof bytes));
  SHOAL_TRY_CUBLAS(
      l->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
  const cublasStatus_t e =
      l->cublasLtMatmulAlgoGetHeuristic(l->lt, f->how, f->a, f->b, f->c, f->c, wish, 1, &best, &found);
  if (e == CUBLAS_STATUS_NOT_SUPPORTED || (e == CUBLAS_STATUS_SUCCESS && !found)) return SHOAL_OK;
  SHOAL_TRY_CUBLAS(e);
  SHOAL_TRY_CUBLAS(best.state);
  f->algo = best.algo;
  f->workspace = best.workspaceSize;
  f->chosen = true;
  return SHOAL_OK;
}

shoal_status shoal_cuda_fused_plan(shoal_cuda *b, const shoal_cuda_fused_shape *s, shoal_cuda_fused *f,
                                   size_t *scratch_bytes)
{
  cublasLtMatmulPreference_t wish;
  *scratch_bytes = 0;
  if (SHOAL_MAX(SHOAL_MAX(s->m, s->n), s->k) > INT32_MAX) return SHOAL_OK; /* which shoal_cuda_gemm refuses */
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY(describe(b, s, f));
  SHOAL_TRY_CUBLAS(b->lib.cublasLtMatmulPreferenceCreate(&wish));
  shoal_status st = choose(b, wish, f);
  (void)b->lib.cublasLtMatmulPreferenceDestroy(wish);
  f->a_at = shoal_round_up(f->workspace, SHOAL_ALIGN);
  f->b_at = f->a_at + shoal_round_up(f->a_n * sizeof(uint16_t), SHOAL_ALIGN);
  if (st == SHOAL_OK && f->chosen)
    *scratch_bytes = b->products == SHOAL_PRODUCTS_BF16 ? f->b_at + f->b_n * sizeof(uint16_t) : f->workspace;
  return st;
}

void shoal_cuda_fused_destroy(const shoal_cuda *b, shoal_cuda_fused *f)
{
  const shoal_cuda_libraries *l = &b->lib;
  if (f->a) (void)l->cublasLtMatrixLayoutDestroy(f->a);
  if (f->b) (void)l->cublasLtMatrixLayoutDestroy(f->b);
  if (f->c) (void)l->cublasLtMatrixLayoutDestroy(f->c);
  if (f->how) (void)l->cublasLtMatmulDescDestroy(f->how);
}
