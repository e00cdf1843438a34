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

SHOAL_KERNEL(maxpool)
{
  EACH(i, a.planes * a.p * a.q)
  {
    int64_t pq = (int64_t)i % (a.p * a.q), p = pq / a.q, q = pq % a.q;
    const float *x = a.x + (int64_t)i / (a.p * a.q) * a.h * a.w;
    int64_t top = begin_of(p, a.stride[0], a.pad[0]), bottom = end_of(p, a.stride[0], a.pad[0], a.kernel[0], a.h);
    int64_t left = begin_of(q, a.stride[1], a.pad[1]), right = end_of(q, a.stride[1], a.pad[1], a.kernel[1], a.w);
    int64_t best = top * a.w + left;
    float most = x[best];
    for (int64_t r = top; r < bottom; r++)
      for (int64_t c = left; c < right; c++) {
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
    int64_t plane = (int64_t)i / (a.h * a.w), at = (int64_t)i % (a.h * a.w), r = at / a.w, c = at % a.w;
    float sum = 0;
    for (int64_t p = first_over(r, a.stride[0], a.pad[0], a.kernel[0]); p <= last_over(r, a.stride[0], a.pad[0], a.p);
         p++)
      for (int64_t q = first_over(c, a.stride[1], a.pad[1], a.kernel[1]); q <= last_over(c, a.stride[1], a.pad[1], a.q);
           q++) {
        int64_t o = (plane * a.p + p) * a.q + q;
        if (a.winner[o] == at) sum += a.dy[o];
      }
    a.dx[i] = sum;
  }
}

SHOAL_KERNEL(avgpool)
{
  EACH(i, a.planes * a.p * a.q)
  {
    int64_t pq = (int64_t)i % (a.p * a.q), p = pq / a.q, q = pq % a.q;
    const float *x = a.x + (int64_t)i / (a.p * a.q) * a.h * a.w;
    int64_t top = begin_of(p, a.stride[0], a.pad[0]), bottom = end_of(p, a.stride[0], a.pad[0], a.kernel[0], a.h);
    int64_t left = begin_of(q, a.stride[1], a.pad[1]), right = end_of(q, a.stride[1], a.pad[1], a.kernel[1], a.w);
    double sum = 0;
    for (int64_t r = top; r < bottom; r++)
      for (int64_t c = left; c < right; c++) sum += (double)x[r * a.w + c];
    a.y[i] = (float)(sum / (double)((bottom - top) * (right - left)));
  }
}

SHOAL_KERNEL(avgpool_back)
{
  EACH(i, a.planes * a.h * a.w)
  {
    int64_t plane = (int64_t)i / (a.h * a.w), at = (int64_t)i % (a.h * a.w), r = at / a.w, c = at % a.w;
    float sum = 0;
    for (int64_t p = first_over(r, a.stride[0], a.pad[0], a.kernel[0]); p <= last_over(r, a.stride[0], a.pad[0], a.p);
         p++)
      for (int64_t q = first_over(c, a.stride[1], a.pad[1], a.kernel[1]); q <= last_over(c, a.stride[1], a.pad[1], a.q);
           q++) {
        int64_t rows = end_of(p, a.stride[0], a.pad[0], a.kernel[0], a.h) - begin_of(p, a.stride[0], a.pad[0]);
        int64_t cols = end_of(q, a.stride[1], a.pad[1], a.kernel[1], a.w) - begin_of(q, a.stride[1], a.pad[1]);
        sum += (float)((double)a.dy[(plane * a.p + p) * a.q + q] / (double)(rows * cols));
      }
    a.dx[i] = sum;
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
