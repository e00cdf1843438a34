/* Normalisation over the batch for each channel, or over the last dimension for each row; a block of threads for each.
 *
 *   xhat = (x - mean) rate,   y = scale xhat + shift,   rate = 1 / sqrt(var + eps)
 *
 * Means and rates are double, as in the backend ref, whose comment has the formulas of the gradients.  cuDNN's batch norm keeps
 * them in float, and says nothing of what a fused relu does with a NaN. */
#include "tensor/cuda/block.cuh"

static __device__ __forceinline__ size_t place(size_t channels, size_t plane, size_t c, size_t e)
{
  return (e / plane * channels + c) * plane + e % plane;
}

SHOAL_KERNEL(batchnorm)
{
  const size_t c = blockIdx.x, count = a.n / a.channels;
  double mean, var;
  if (a.training) {
    double sum = 0, squares = 0;
    OF_BLOCK(e, count) sum += (double)a.x[place(a.channels, a.plane, c, e)];
    mean = block_sum(sum) / (double)count;
    OF_BLOCK(e, count)
    {
      double d = (double)a.x[place(a.channels, a.plane, c, e)] - mean;
      squares += d * d;
    }
    var = block_sum(squares) / (double)count;
  } else {
    mean = (double)a.mean[c];
    var = (double)a.var[c];
  }
  const double rate = 1 / sqrt(var + a.eps), scale = (double)a.scale[c], shift = (double)a.shift[c];
  OF_BLOCK(e, count)
  {
    size_t i = place(a.channels, a.plane, c, e);
    float y = (float)(((double)a.x[i] - mean) * rate * scale + shift);
    a.y[i] = a.relu && y <= 0 ? 0.0f : y;
  }
  if (!a.training || threadIdx.x != 0) return;
  a.saved[c] = { mean, rate };
  if (!a.mean) return;
  a.mean[c] = (float)((1 - a.momentum) * (double)a.mean[c] + a.momentum * mean);
  a.var[c] = (float)((1 - a.momentum) * (double)a.var[c] + a.momentum * (var * (double)count / (double)(count - 1)));
}

SHOAL_KERNEL(batchnorm_back)
{
  const size_t c = blockIdx.x, count = a.n / a.channels;
  const double mean = a.saved[c].mean, rate = a.saved[c].rate;
  double dshift = 0, dscale = 0;
  OF_BLOCK(e, count)
  {
    size_t i = place(a.channels, a.plane, c, e);
    double dy = a.y && a.y[i] <= 0 ? 0 : (double)a.dy[i];
    dshift += dy;
    dscale += dy * ((double)a.x[i] - mean) * rate;
  }
  dshift = block_sum(dshift);
  dscale = block_sum(dscale);
  if (threadIdx.x == 0) {
    a.dscale[c] = (float)dscale;
    a.dshift[c] = (float)dshift;
  }
  if (!a.dx) return;
  OF_BLOCK(e, count)
  {
    size_t i = place(a.channels, a.plane, c, e);
    double dy = a.y && a.y[i] <= 0 ? 0 : (double)a.dy[i], xhat = ((double)a.x[i] - mean) * rate;
    a.dx[i] = (float)((double)a.scale[c] * rate * (dy - (dshift + xhat * dscale) / (double)count));
  }
}

SHOAL_KERNEL(layernorm)
{
  const float *x = a.x + blockIdx.x * a.width;
  float *y = a.y + blockIdx.x * a.width;
  double sum = 0, squares = 0;
  OF_BLOCK(i, a.width) sum += (double)x[i];
  const double mean = block_sum(sum) / (double)a.width;
  OF_BLOCK(i, a.width)
  {
    double d = (double)x[i] - mean;
    squares += d * d;
  }
  const double rate = 1 / sqrt(block_sum(squares) / (double)a.width + a.eps);
  OF_BLOCK(i, a.width) y[i] = (float)(((double)x[i] - mean) * rate * (double)a.scale[i] + (double)a.shift[i]);
  if (a.saved && threadIdx.x == 0) a.saved[blockIdx.x] = { mean, rate };
}

SHOAL_KERNEL(layernorm_back)
{
  const float *x = a.x + blockIdx.x * a.width, *dy = a.dy + blockIdx.x * a.width;
  float *dx = a.dx + blockIdx.x * a.width;
  const double mean = a.saved[blockIdx.x].mean, rate = a.saved[blockIdx.x].rate;
  double g = 0, gx = 0;
  OF_BLOCK(i, a.width)
  {
    double v = (double)dy[i] * (double)a.scale[i];
    g += v;
    gx += v * ((double)x[i] - mean) * rate;
  }
  g = block_sum(g) / (double)a.width;
  gx = block_sum(gx) / (double)a.width;
  OF_BLOCK(i, a.width)
  {
    double v = (double)dy[i] * (double)a.scale[i], xhat = ((double)x[i] - mean) * rate;
    dx[i] = (float)(rate * (v - g - xhat * gx));
  }
}

SHOAL_KERNEL(layernorm_dw)
{
  const size_t i = blockIdx.x;
  double dscale = 0, dshift = 0;
  OF_BLOCK(r, a.rows)
  {
    double dy = (double)a.dy[r * a.width + i];
    dscale += dy * ((double)a.x[r * a.width + i] - a.saved[r].mean) * a.saved[r].rate;
    dshift += dy;
  }
  dscale = block_sum(dscale);
  dshift = block_sum(dshift);
  if (threadIdx.x == 0) {
    a.dscale[i] = (float)dscale;
    a.dshift[i] = (float)dshift;
  }
}
