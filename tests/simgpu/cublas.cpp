/* A stand-in for cuBLAS: products queued like every other work of a stream. */
#include "product.h"
#include <cublas_v2.h>

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
  char *workspace;
};

namespace
{
template <class T>
cublasStatus_t multiply(cublasHandle_t h, const char *name, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                        int k, const float *alpha, const T *a, int lda, const T *b, int ldb, const float *beta,
                        float *c, int ldc, bool tf32)
{
  const sim::product<T> x = { ta != CUBLAS_OP_N, tb != CUBLAS_OP_N, m, n, k, lda, ldb, ldc, a, b, tf32 };
  if (!x.valid()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  const float p = *alpha, q = *beta; /* host pointers: read now */
  sim::ranges r;
  if (!h->workspace) sim::mistake("%s: without a workspace, which graphs need", name);
  x.touches(r, c);
  r.writes(h->workspace, 1);
  sim::submit(h->stream, name, r, [=] {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        float &to = c[i + size_t(j) * ldc];
        to = static_cast<float>(p * x.sum(i, j) + (q == 0 ? 0 : static_cast<double>(q) * static_cast<double>(to)));
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}
} // namespace

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
  *h = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s)
{
  h->stream = s;
  h->workspace = nullptr; /* so does cuBLAS */
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *workspace, size_t bytes)
{
  if (reinterpret_cast<uintptr_t>(workspace) % 256 || bytes < size_t(4) << 20) return CUBLAS_STATUS_INVALID_VALUE;
  h->workspace = static_cast<char *>(workspace);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
  h->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *v)
{
  *v = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc)
{
  return multiply(h, "cublasSgemm", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                  h->math == CUBLAS_TF32_TENSOR_OP_MATH);
}

/* Of bf16 factors, with f32 sums and results. */
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t)
{
  if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return multiply(h, "cublasGemmEx", ta, tb, m, n, k, static_cast<const float *>(alpha),
                  static_cast<const uint16_t *>(a), lda, static_cast<const uint16_t *>(b), ldb,
                  static_cast<const float *>(beta), static_cast<float *>(c), ldc, false);
}

/* Of factors in f32, rounded to TF32 if asked for, or bf16. */
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                          int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                          long long a_step, const void *b, cudaDataType b_type, int ldb,
                                          long long b_step, const void *beta, void *c, cudaDataType c_type, int ldc,
                                          long long c_step, int count, cublasComputeType_t compute, cublasGemmAlgo_t)
{
  static const char name[] = "cublasGemmStridedBatchedEx";
  const bool f32 = a_type == CUDA_R_32F, tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const float *p = static_cast<const float *>(alpha), *q = static_cast<const float *>(beta);
  if (a_type != b_type || (!f32 && a_type != CUDA_R_16BF) || c_type != CUDA_R_32F ||
      (compute != CUBLAS_COMPUTE_32F && !(tf32 && f32)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasStatus_t e = CUBLAS_STATUS_SUCCESS;
  for (int i = 0; e == CUBLAS_STATUS_SUCCESS && i < count; i++) {
    float *to = static_cast<float *>(c) + i * c_step;
    e = f32 ? multiply(h, name, ta, tb, m, n, k, p, static_cast<const float *>(a) + i * a_step, lda,
                       static_cast<const float *>(b) + i * b_step, ldb, q, to, ldc, tf32)
            : multiply(h, name, ta, tb, m, n, k, p, static_cast<const uint16_t *>(a) + i * a_step, lda,
                       static_cast<const uint16_t *>(b) + i * b_step, ldb, q, to, ldc, false);
  }
  return e;
}
}
