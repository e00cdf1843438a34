/* A stand-in for cuBLAS: products in double from the first term to the last, as the backend ref computes them, queued like every
 * other work of a stream. */
#include "sim.h"
#include <cublas_v2.h>

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
};

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

/* By columns: element (i, j) of an m x n matrix is [i + j ld]. */
cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc)
{
  const bool at = ta != CUBLAS_OP_N, bt = tb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < (at ? k : m) || ldb < (bt ? n : k) || ldc < m || lda < 1 || ldb < 1 || ldc < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  auto extent = [](int rows, int cols, int ld) { return static_cast<size_t>(cols - 1) * ld + rows; };
  const float p = *alpha, q = *beta; /* host pointers: read now */
  const bool rounds = h->math == CUBLAS_TF32_TENSOR_OP_MATH;
  auto factor = [rounds](float v) { return static_cast<double>(rounds ? sim::tf32(v) : v); };
  sim::ranges r;
  if (k) r.reads(a, at ? extent(k, m, lda) : extent(m, k, lda));
  if (k) r.reads(b, bt ? extent(n, k, ldb) : extent(k, n, ldb));
  r.writes(c, extent(m, n, ldc));
  sim::submit(h->stream, "cublasSgemm", r, [=] {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int l = 0; l < k; l++)
          sum += factor(at ? a[l + size_t(i) * lda] : a[i + size_t(l) * lda]) *
                 factor(bt ? b[j + size_t(l) * ldb] : b[l + size_t(j) * ldb]);
        float &to = c[i + size_t(j) * ldc];
        to = static_cast<float>(p * sum + (q == 0 ? 0 : static_cast<double>(q) * static_cast<double>(to)));
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}
}
