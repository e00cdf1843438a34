/* A stand-in for cuBLAS: products in double from the first term to the last, as the backend ref computes them, queued like every
 * other work of a stream. */
#include "sim.h"
#include <cstring>
#include <cublas_v2.h>

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
};

namespace
{
double value(const float *x)
{
  return static_cast<double>(*x);
}
double value(const uint16_t *x) /* bf16 */
{
  const uint32_t bits = static_cast<uint32_t>(*x) << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return static_cast<double>(f);
}

/* By columns: element (i, j) of an m x n matrix is [i + j ld]. */
template <class T>
cublasStatus_t multiply(cublasHandle_t h, const char *name, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                        int k, const float *alpha, const T *a, int lda, const T *b, int ldb, const float *beta,
                        float *c, int ldc)
{
  const bool at = ta != CUBLAS_OP_N, bt = tb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < (at ? k : m) || ldb < (bt ? n : k) || ldc < m || lda < 1 || ldb < 1 || ldc < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  auto extent = [](int rows, int cols, int ld) { return static_cast<size_t>(cols - 1) * ld + rows; };
  const float p = *alpha, q = *beta; /* host pointers: read now */
  const bool rounds = h->math == CUBLAS_TF32_TENSOR_OP_MATH;
  auto factor = [rounds](const T *v) {
    return rounds ? static_cast<double>(sim::tf32(static_cast<float>(value(v)))) : value(v);
  };
  sim::ranges r;
  if (k) r.reads(a, at ? extent(k, m, lda) : extent(m, k, lda));
  if (k) r.reads(b, bt ? extent(n, k, ldb) : extent(k, n, ldb));
  r.writes(c, extent(m, n, ldc));
  sim::submit(h->stream, name, r, [=] {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int l = 0; l < k; l++)
          sum += factor(&(at ? a[l + size_t(i) * lda] : a[i + size_t(l) * lda])) *
                 factor(&(bt ? b[j + size_t(l) * ldb] : b[l + size_t(j) * ldb]));
        float &to = c[i + size_t(j) * ldc];
        to = static_cast<float>(p * sum + (q == 0 ? 0 : static_cast<double>(q) * static_cast<double>(to)));
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
  return multiply(h, "cublasSgemm", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                         int k, const float *alpha, const float *a, int lda, long long a_step,
                                         const float *b, int ldb, long long b_step, const float *beta, float *c,
                                         int ldc, long long c_step, int count)
{
  cublasStatus_t e = CUBLAS_STATUS_SUCCESS;
  for (int i = 0; e == CUBLAS_STATUS_SUCCESS && i < count; i++)
    e = multiply(h, "cublasSgemmStridedBatched", ta, tb, m, n, k, alpha, a + i * a_step, lda, b + i * b_step, ldb, beta,
                 c + i * c_step, ldc);
  return e;
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
                  static_cast<const float *>(beta), static_cast<float *>(c), ldc);
}
}
