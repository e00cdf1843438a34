/* See samples.h. */
#include "simgpu/samples.h"

SAMPLE(sample_fill)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < a.n + a.beyond;
       i += (size_t)gridDim.x * blockDim.x)
    a.y[i] = a.value;
}

SAMPLE(sample_sum)
{
  __shared__ float part[128];
  size_t i = blockIdx.x * (size_t)128 + threadIdx.x;
  part[threadIdx.x] = i < a.n ? a.x[i] : 0;
  for (unsigned half = 64; half > 0; half /= 2) {
    if (!a.no_barrier) __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) a.sums[blockIdx.x] = part[0];
}

SAMPLE(sample_blocks)
{
  if (threadIdx.x != 0) return;
  if (a.shared == 1) {
    a.y[0] = (float)blockIdx.x;
  } else if (a.shared == 2) {
    float next = a.y[(blockIdx.x + 1) % gridDim.x];
    a.y[blockIdx.x] = next + 1;
  } else {
    a.y[blockIdx.x] = (float)blockIdx.x;
  }
}

SAMPLE(sample_shuffle)
{
  float sum = a.x[threadIdx.x];
  if (a.diverge && threadIdx.x >= 16) return;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) *a.y = sum;
}
