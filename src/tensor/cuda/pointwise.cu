/* Pointwise operations, biases, fused relus, and dropout by address (tensor/op.h).  In place where the operation may be: each
 * element is read before it is written, by the same thread. */
#include "tensor/cuda/block.cuh"

enum { PURPOSE_SEED = 0, PURPOSE_DROPOUT = 4 }; /* of base/rng.c and rng.h */

static __device__ __forceinline__ float relu(float x)
{
  return x <= 0 ? 0.0f : x; /* a NaN stays one */
}

static __device__ __forceinline__ double normal_cdf(double x)
{
  return 0.5 * erfc(-x * 0.70710678118654752440);
}

SHOAL_KERNEL(relu)
{
  EACH(i, a.n) a.y[i] = relu(a.x[i]);
}

SHOAL_KERNEL(mask)
{
  EACH(i, a.n) a.dx[i] = a.y[i] <= 0 ? 0.0f : a.dy[i];
}

SHOAL_KERNEL(gelu)
{
  EACH(i, a.n) a.y[i] = (float)((double)a.x[i] * normal_cdf(a.x[i]));
}

SHOAL_KERNEL(gelu_back)
{
  EACH(i, a.n)
  {
    double x = a.x[i], density = 0.39894228040143267794 * exp(-0.5 * x * x);
    a.dx[i] = (float)((double)a.dy[i] * (normal_cdf(x) + x * density));
  }
}

SHOAL_KERNEL(sum)
{
  EACH(i, a.n)
  {
    float v = a.x0[i] + a.x1[i];
    a.y[i] = a.relu ? relu(v) : v;
  }
}

SHOAL_KERNEL(sum_back)
{
  EACH(i, a.n)
  {
    float dy = a.y && a.y[i] <= 0 ? 0.0f : a.dy[i];
    a.dx0[i] = dy;
    a.dx1[i] = dy;
  }
}

SHOAL_KERNEL(dropout)
{
  const uint64_t low = philox(a.at->seed, PURPOSE_SEED, a.stream, 0, 0),
                 high = philox(a.at->seed, PURPOSE_SEED, a.stream, 0, 1);
  const uint64_t seed = high << 32 | low, first = a.at->slot0 * a.per_sample; /* shoal_rng_seed(at->seed, stream) */
  const uint32_t step = a.at->step;
  EACH(i, a.n)
  {
    uint64_t index = first + i;
    float u = (float)(philox(seed, PURPOSE_DROPOUT, index / 4, step, (int)(index % 4)) >> 8) * 0x1p-24f;
    a.y[i] = u >= a.p ? a.x[i] * a.keep : 0.0f;
  }
}

SHOAL_KERNEL(bias)
{
  EACH(i, a.n)
  {
    float v = a.y[i];
    if (a.bias) v += a.bias[i / a.plane % a.channels];
    a.y[i] = a.relu ? relu(v) : v;
  }
}

SHOAL_KERNEL(bias_back)
{
  const size_t c = blockIdx.x, count = a.n / a.channels;
  double sum = 0;
  OF_BLOCK(e, count) sum += (double)a.dy[(e / a.plane * a.channels + c) * a.plane + e % a.plane];
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.db[c] = (float)sum;
}
