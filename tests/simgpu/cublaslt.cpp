/* A stand-in for cuBLASLt: products with the epilogues that are used, and relu.  An algorithm is for the problem, the alignment and the
 * workspace that it was chosen for, and is not chosen inside the step.  The relu is cuBLASLt's: a NaN becomes 0. */
#include "product.h"
#include <cstdlib>
#include <cublasLt.h>

struct cublasLtContext {
};

namespace
{
const size_t room = 4096; /* the workspace that each product wants, and writes */

struct layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
};
struct how {
  cublasComputeType_t compute;
  int32_t ta, tb;
  uint32_t epilogue;
  void *bias;
};
struct wish {
  uint64_t workspace;
  uint32_t alignment[4]; /* of A, B, C, D */
};
/* In a cublasLtMatmulAlgo_t. */
struct choice {
  uint64_t m, n, k;
  uint32_t epilogue, type, alignment[4], of_bias;
};
static_assert(sizeof(choice) <= sizeof(cublasLtMatmulAlgo_t), "");

layout *of(cublasLtMatrixLayout_t x)
{
  return reinterpret_cast<layout *>(x);
}
how *of(cublasLtMatmulDesc_t x)
{
  return reinterpret_cast<how *>(x);
}
wish *of(cublasLtMatmulPreference_t x)
{
  return reinterpret_cast<wish *>(x);
}

uint32_t alignment_of(const void *p)
{
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  return static_cast<uint32_t>(at & (~at + 1) & 255);
}

choice choose(const how *h, const layout *a, const layout *d)
{
  choice c = {};
  c.m = d->rows;
  c.n = d->cols;
  c.k = h->ta == CUBLAS_OP_N ? a->cols : a->rows;
  c.epilogue = h->epilogue;
  c.type = a->type;
  return c;
}

bool supported(const how *h, const layout *a, const layout *b, const layout *d)
{
  const bool f32 = a->type == CUDA_R_32F && b->type == CUDA_R_32F,
             bf16 = a->type == CUDA_R_16BF && b->type == CUDA_R_16BF, tf32 = h->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const uint32_t epilogues = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB;
  return (f32 || bf16) && d->type == CUDA_R_32F && (h->compute == CUBLAS_COMPUTE_32F || (tf32 && f32)) &&
         !(h->epilogue & ~epilogues) && !(h->epilogue & CUBLASLT_EPILOGUE_BGRADB && h->epilogue & 0xff);
}

template <class T>
void queue(cudaStream_t s, const how *h, const sim::product<T> &x, float *c, void *space, size_t bytes)
{
  sim::ranges r;
  const uint32_t e = h->epilogue;
  float *bias = static_cast<float *>(h->bias);
  x.touches(r, c);
  if (e & CUBLASLT_EPILOGUE_BIAS) r.reads(static_cast<const float *>(bias), x.m);
  if (e & CUBLASLT_EPILOGUE_BGRADB) r.writes(bias, x.n);
  r.writes(static_cast<char *>(space), bytes);
  sim::submit(s, "cublasLtMatmul", r, [=] {
    memset(space, 0xff, bytes); /* it is nobody else's, first and last */
    for (int j = 0; j < x.n; j++) {
      for (int i = 0; i < x.m; i++) {
        const double sum = x.sum(i, j) + (e & CUBLASLT_EPILOGUE_BIAS ? static_cast<double>(bias[i]) : 0);
        c[i + size_t(j) * x.ldc] = static_cast<float>(e & CUBLASLT_EPILOGUE_RELU && !(sum > 0) ? 0 : sum);
      }
      double sum = 0;
      for (int l = 0; e & CUBLASLT_EPILOGUE_BGRADB && l < x.k; l++) sum += x.of_b(l, j);
      if (e & CUBLASLT_EPILOGUE_BGRADB) bias[j] = static_cast<float>(sum);
    }
    memset(space, 0xff, bytes);
  });
}
} // namespace

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
  *h = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{ type, rows, cols, ld });
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t x)
{
  delete of(x);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(
      new how{ compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr });
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t x)
{
  delete of(x);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t x, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
  how *h = of(x);
  void *to = what == CUBLASLT_MATMUL_DESC_TRANSA         ? static_cast<void *>(&h->ta)
             : what == CUBLASLT_MATMUL_DESC_TRANSB       ? static_cast<void *>(&h->tb)
             : what == CUBLASLT_MATMUL_DESC_EPILOGUE     ? static_cast<void *>(&h->epilogue)
             : what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? static_cast<void *>(&h->bias)
                                                         : nullptr;
  if (!to || bytes != (to == &h->bias ? sizeof h->bias : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new wish{ 0, { 256, 256, 256, 256 } });
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t x)
{
  delete of(x);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t x,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t bytes)
{
  const int matrix = what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  void *to = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? static_cast<void *>(&of(x)->workspace)
             : matrix >= 0 && matrix < 4                      ? static_cast<void *>(&of(x)->alignment[matrix])
                                                              : nullptr;
  if (!to || bytes != (to == &of(x)->workspace ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t h, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t *result, int *found)
{
  sim::not_in_step("cublasLtMatmulAlgoGetHeuristic");
  *found = 0;
  if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (getenv("SIMGPU_NO_EPILOGUE") || of(wanted)->workspace < room || !supported(of(h), of(a), of(b), of(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  choice c = choose(of(h), of(a), of(d));
  memcpy(c.alignment, of(wanted)->alignment, sizeof c.alignment);
  c.of_bias = alignment_of(of(h)->bias);
  *result = {};
  memcpy(&result->algo, &c, sizeof c);
  result->workspaceSize = room;
  result->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *space, size_t bytes, cudaStream_t s)
{
  const how *h = of(desc);
  const layout *x = of(la), *y = of(lb), *z = of(ld);
  choice made, fits = choose(h, x, z);
  if (*static_cast<const float *>(alpha) != 1 || *static_cast<const float *>(beta) != 0 || !supported(h, x, y, z))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (sim::injected("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!algo) sim::mistake("cublasLtMatmul: chooses an algorithm by itself");
  memcpy(&made, algo, sizeof made);
  if (made.m != fits.m || made.n != fits.n || made.k != fits.k || made.epilogue != fits.epilogue ||
      made.type != fits.type)
    sim::mistake("cublasLtMatmul: an algorithm that was chosen for another product");
  const void *const at[] = { a, b, c, d };
  for (int i = 0; i < 4; i++)
    if (reinterpret_cast<uintptr_t>(at[i]) % made.alignment[i])
      sim::mistake("cublasLtMatmul: %c, %p, is not a multiple of %u, for which its algorithm was chosen", "ABCD"[i],
                   at[i], made.alignment[i]);
  if (h->epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB)) {
    if (!h->bias) sim::mistake("cublasLtMatmul: no bias");
    if (reinterpret_cast<uintptr_t>(h->bias) % made.of_bias)
      sim::mistake("cublasLtMatmul: the bias, %p, is not a multiple of %u, for which its algorithm was chosen", h->bias,
                   made.of_bias);
  }
  if (bytes < room) sim::mistake("cublasLtMatmul: a workspace of %zu bytes", bytes);
  if (reinterpret_cast<uintptr_t>(space) % 16) sim::mistake("cublasLtMatmul: a workspace at %p", space);
  const bool at_ = h->ta != CUBLAS_OP_N, bt = h->tb != CUBLAS_OP_N;
  const int m = static_cast<int>(made.m), n = static_cast<int>(made.n), k = static_cast<int>(made.k),
            lda = static_cast<int>(x->ld), ldb = static_cast<int>(y->ld), ldc = static_cast<int>(z->ld);
  const bool rounds = h->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((at_ ? x->rows : x->cols) != made.k || (at_ ? x->cols : x->rows) != made.m ||
      (bt ? y->cols : y->rows) != made.k || (bt ? y->rows : y->cols) != made.n)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (x->type == CUDA_R_32F)
    queue<float>(
        s, h, { at_, bt, m, n, k, lda, ldb, ldc, static_cast<const float *>(a), static_cast<const float *>(b), rounds },
        static_cast<float *>(d), space, bytes);
  else
    queue<uint16_t>(
        s, h,
        { at_, bt, m, n, k, lda, ldb, ldc, static_cast<const uint16_t *>(a), static_cast<const uint16_t *>(b), rounds },
        static_cast<float *>(d), space, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
}
