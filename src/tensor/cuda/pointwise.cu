/* Pointwise operations, biases, fused relus, and dropout by address (tensor/op.h).  In place where the operation may be: each
 * element is read before it is written, by the same thread. */
#include "tensor/cuda/block.cuh"

enum { PURPOSE_SEED = 0, PURPOSE_DROPOUT = 4 }; /* of base/rng.c and rng.h */

static __device__ __forceinline__ float relu(float x)
{
  return x <= 0 ? 0.0f : x; /* a NaN stays one */
}

static __device__ __forceinline__ double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

/* f(x), and its derivative; where there is a kink, that of the side that is constant, or of the negative side. */
static __device__ double curve_at(int kind, float low, double x, double *slope)
{
  double s, t;
  switch (kind) {
  case SHOAL_K_GELU:
    s = 0.5 * erfc(-x * 0.70710678118654752440);
    *slope = s + x * 0.39894228040143267794 * exp(-0.5 * x * x);
    return x * s;
  case SHOAL_K_GELU_TANH:
    t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
  case SHOAL_K_SIGMOID:
    s = sigmoid(x);
    *slope = s * sigmoid(-x);
    return s;
  case SHOAL_K_TANH:
    s = tanh(x);
    *slope = 1 - s * s;
    return s;
  case SHOAL_K_SILU:
    s = sigmoid(x);
    *slope = s * (1 + x * sigmoid(-x));
    return x * s;
  case SHOAL_K_LEAKYRELU:
    *slope = x > 0 ? 1 : (double)low;
    return x * *slope;
  case SHOAL_K_RELU6:
    *slope = x <= 0 || x >= 6 ? 0 : 1;
    return x <= 0 ? 0 : x >= 6 ? 6 : x;
  case SHOAL_K_HARDSWISH:
    *slope = x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
  default: /* HARDSIGMOID */
    *slope = x <= -3 || x >= 3 ? 0 : 1.0 / 6;
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
  }
}

SHOAL_KERNEL(relu)
{
  EACH(i, a.n) a.y[i] = relu(a.x[i]);
}

SHOAL_KERNEL(mask)
{
  EACH(i, a.n) a.dx[i] = a.y[i] <= 0 ? 0.0f : a.dy[i];
}

SHOAL_KERNEL(curve)
{
  EACH(i, a.n)
  {
    double slope;
    a.y[i] = (float)curve_at(a.kind, a.slope, a.x[i], &slope);
  }
}

SHOAL_KERNEL(curve_back)
{
  EACH(i, a.n)
  {
    double slope;
    (void)curve_at(a.kind, a.slope, a.x[i], &slope);
    a.dx[i] = (float)((double)a.dy[i] * slope);
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

SHOAL_KERNEL(transpose)
{
  EACH(i, a.n)
  {
    size_t rest = i;
    int64_t place = 0;
    for (int k = a.dims - 1; k >= 0; k--) {
      place += (int64_t)(rest % (size_t)a.size[k]) * a.step[k];
      rest /= (size_t)a.size[k];
    }
    if (a.back)
      a.y[place] = a.x[i];
    else
      a.y[i] = a.x[place];
  }
}

static __device__ __forceinline__ int64_t row_of(int64_t rows, float x)
{
  return x >= 0 && x < (float)rows ? (int64_t)x : -1;
}

SHOAL_KERNEL(table)
{
  EACH(i, a.n)
  {
    int64_t row = row_of(a.rows, a.x[i / a.width]);
    a.y[i] = row < 0 ? 0.0f : a.w[(size_t)row * a.width + i % a.width];
  }
}

SHOAL_KERNEL(table_back)
{
  EACH(c, a.width)
  {
    for (int64_t r = 0; r < a.rows; r++) a.dw[(size_t)r * a.width + c] = 0;
    for (size_t i = 0; i < a.n / a.width; i++) {
      int64_t row = row_of(a.rows, a.x[i]);
      if (row >= 0) a.dw[(size_t)row * a.width + c] += a.dy[i * a.width + c];
    }
  }
}

SHOAL_KERNEL(product)
{
  EACH(i, a.n) a.y[i] = a.x[i] * a.s[i / (a.plane * a.width) * a.width + i % a.width];
}

SHOAL_KERNEL(product_sum)
{
  const size_t first = blockIdx.x / a.width * a.plane * a.width + blockIdx.x % a.width;
  const float *x = a.x + first, *dy = a.dy + first;
  double sum = 0;
  OF_BLOCK(i, a.plane) sum += (double)x[i * a.width] * (double)dy[i * a.width];
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.ds[blockIdx.x] = (float)sum;
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
