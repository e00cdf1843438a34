/* Pooling.  Own kernels, not cuDNN's: of equal maxima the first in scan order takes the gradient, and a NaN counts as the maximum,
 * which cuDNN does not promise.  Backward gathers: a thread adds up what the windows over its element send it, in scan order, so
 * that the sum has the same bits as the backend ref's. */
#include "tensor/cuda/block.cuh"

/* Window number `at` along an axis, cut to the plane. */
static __device__ __forceinline__ int64_t begin_of(int64_t at, int stride, int pad)
{
  int64_t from = at * stride - pad;
  return from < 0 ? 0 : from;
}

static __device__ __forceinline__ int64_t end_of(int64_t at, int stride, int pad, int kernel, int64_t size)
{
  int64_t to = at * stride - pad + kernel;
  return to > size ? size : to;
}

/* The windows over element `at` along an axis: [first, last]. */
static __device__ __forceinline__ int64_t first_over(int64_t at, int stride, int pad, int kernel)
{
  int64_t from = at + pad - kernel + 1;
  return from <= 0 ? 0 : (from + stride - 1) / stride;
}

static __device__ __forceinline__ int64_t last_over(int64_t at, int stride, int pad, int64_t windows)
{
  int64_t last = (at + pad) / stride;
  return last < windows ? last : windows - 1;
}

struct window {
  int64_t top, bottom, left, right;
};

template <class A> static __device__ __forceinline__ window window_at(const A &a, int64_t p, int64_t q)
{
  return { begin_of(p, a.stride[0], a.pad[0]), end_of(p, a.stride[0], a.pad[0], a.kernel[0], a.h),
           begin_of(q, a.stride[1], a.pad[1]), end_of(q, a.stride[1], a.pad[1], a.kernel[1], a.w) };
}

/* The gradient of element i: the sum of what the windows over it send it, share(output, p, q, element of the plane, sum). */
template <class A, class F> static __device__ __forceinline__ float gather(const A &a, size_t i, F share)
{
  const int64_t plane = (int64_t)i / (a.h * a.w), at = (int64_t)i % (a.h * a.w), r = at / a.w, c = at % a.w;
  const int64_t p_last = last_over(r, a.stride[0], a.pad[0], a.p), q_last = last_over(c, a.stride[1], a.pad[1], a.q);
  float sum = 0;
  for (int64_t p = first_over(r, a.stride[0], a.pad[0], a.kernel[0]); p <= p_last; p++)
    for (int64_t q = first_over(c, a.stride[1], a.pad[1], a.kernel[1]); q <= q_last; q++)
      share((plane * a.p + p) * a.q + q, p, q, at, sum);
  return sum;
}

SHOAL_KERNEL(maxpool)
{
  EACH(i, a.planes * a.p * a.q)
  {
    const int64_t pq = (int64_t)i % (a.p * a.q);
    const float *x = a.x + (int64_t)i / (a.p * a.q) * a.h * a.w;
    const window k = window_at(a, pq / a.q, pq % a.q);
    int64_t best = k.top * a.w + k.left;
    float most = x[best];
    for (int64_t r = k.top; r < k.bottom; r++)
      for (int64_t c = k.left; c < k.right; c++) {
        float v = x[r * a.w + c];
        if (v > most || (v != v && most == most)) {
          best = r * a.w + c;
          most = v;
        }
      }
    a.y[i] = most;
    if (a.winner) a.winner[i] = (int32_t)best;
  }
}

SHOAL_KERNEL(maxpool_back)
{
  EACH(i, a.planes * a.h * a.w)
  {
    a.dx[i] = gather(a, i, [&](int64_t o, int64_t, int64_t, int64_t at, float &sum) {
      if (a.winner[o] == at) sum += a.dy[o];
    });
  }
}

/* How many values a mean is of. */
template <class A> static __device__ __forceinline__ double area(const A &a, int64_t p, int64_t q, const window &k)
{
  if (!a.count_pad) return (double)((k.bottom - k.top) * (k.right - k.left));
  const int64_t top = p * a.stride[0] - a.pad[0], left = q * a.stride[1] - a.pad[1];
  const int64_t h = a.h + a.pad[0] - top, w = a.w + a.pad[1] - left;
  return (double)((h < a.kernel[0] ? h : a.kernel[0]) * (w < a.kernel[1] ? w : a.kernel[1]));
}

SHOAL_KERNEL(avgpool)
{
  EACH(i, a.planes * a.p * a.q)
  {
    const int64_t pq = (int64_t)i % (a.p * a.q);
    const float *x = a.x + (int64_t)i / (a.p * a.q) * a.h * a.w;
    const window k = window_at(a, pq / a.q, pq % a.q);
    double sum = 0;
    for (int64_t r = k.top; r < k.bottom; r++)
      for (int64_t c = k.left; c < k.right; c++) sum += (double)x[r * a.w + c];
    a.y[i] = (float)(sum / area(a, pq / a.q, pq % a.q, k));
  }
}

SHOAL_KERNEL(avgpool_back)
{
  EACH(i, a.planes * a.h * a.w)
  {
    a.dx[i] = gather(a, i, [&](int64_t o, int64_t p, int64_t q, int64_t, float &sum) {
      const window k = window_at(a, p, q);
      sum += (float)((double)a.dy[o] / area(a, p, q, k));
    });
  }
}

SHOAL_KERNEL(globalpool)
{
  const float *x = a.x + blockIdx.x * a.plane;
  double sum = 0;
  OF_BLOCK(i, a.plane) sum += (double)x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.y[blockIdx.x] = (float)(sum / (double)a.plane);
}

SHOAL_KERNEL(globalpool_back)
{
  EACH(i, a.n) a.dx[i] = (float)((double)a.dy[i / a.plane] / (double)a.plane);
}
