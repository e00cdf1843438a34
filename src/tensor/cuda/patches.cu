/* The patches of a convolution as a matrix, and back: what output (p,q) reads through kernel element (u,v) of channel i is in row
 * (i,u,v), column (p,q).  Padding is zero.  Backward gathers, so the sums have the same bits every time. */
#include "tensor/cuda/block.cuh"

SHOAL_KERNEL(patches)
{
  const shoal_k_windows &k = a.k;
  EACH(i, k.planes * k.kernel[0] * k.kernel[1] * k.p * k.q)
  {
    int64_t rest = (int64_t)i;
    const int64_t q = rest % k.q, p = (rest /= k.q) % k.p, v = (rest /= k.p) % k.kernel[1],
                  u = (rest /= k.kernel[1]) % k.kernel[0], plane = rest / k.kernel[0];
    const int64_t r = p * k.stride[0] - k.pad[0] + u * k.dilation[0],
                  c = q * k.stride[1] - k.pad[1] + v * k.dilation[1];
    const float x = r >= 0 && r < k.h && c >= 0 && c < k.w ? a.x[(plane * k.h + r) * k.w + c] : 0.0f;
    if (a.y16)
      a.y16[i] = to_bf16(x);
    else
      a.y[i] = x;
  }
}

/* The output along an axis that reads element `at` through `tap`; -1: none. */
static __device__ __forceinline__ int64_t reader(int64_t at, int64_t tap, int stride, int pad, int dilation,
                                                 int64_t outputs)
{
  const int64_t from = at + pad - tap * dilation;
  return from >= 0 && from % stride == 0 && from / stride < outputs ? from / stride : -1;
}

SHOAL_KERNEL(patches_back)
{
  const shoal_k_windows &k = a.k;
  EACH(i, k.planes * k.h * k.w)
  {
    const int64_t plane = (int64_t)i / (k.h * k.w), r = (int64_t)i / k.w % k.h, c = (int64_t)i % k.w;
    float sum = 0;
    for (int64_t u = 0; u < k.kernel[0]; u++) {
      const int64_t p = reader(r, u, k.stride[0], k.pad[0], k.dilation[0], k.p);
      for (int64_t v = 0; p >= 0 && v < k.kernel[1]; v++) {
        const int64_t q = reader(c, v, k.stride[1], k.pad[1], k.dilation[1], k.q);
        if (q >= 0) sum += a.dy[(((plane * k.kernel[0] + u) * k.kernel[1] + v) * k.p + p) * k.q + q];
      }
    }
    a.dx[i] = sum;
  }
}
