/* Sums whose bits depend on the values alone, and the product that ranks compute each for itself. */
#include "tensor/cuda/block.cuh"

SHOAL_KERNEL(sumsq)
{
  size_t from = blockIdx.x * (size_t)SHOAL_CUDA_PART, left = a.n - from;
  const float *x = a.x + from;
  double sum = 0;
  OF_BLOCK(i, left < SHOAL_CUDA_PART ? left : (size_t)SHOAL_CUDA_PART) sum += (double)x[i] * (double)x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.part[blockIdx.x] = sum;
}

SHOAL_KERNEL(sum_parts)
{
  double sum = 0;
  OF_BLOCK(i, a.n) sum += a.part[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *a.sum += sum;
}

/* In double from the first term to the last, as every backend; the product of two floats is exact in double. */
SHOAL_KERNEL(multiply)
{
  EACH(i, a.m * a.n)
  {
    int64_t row = (int64_t)i / a.n, col = (int64_t)i % a.n;
    double sum = 0;
    for (int64_t l = 0; l < a.k; l++) sum += (double)a.a[row * a.k + l] * (double)a.b[l * a.n + col];
    a.c[i] = (float)sum;
  }
}
