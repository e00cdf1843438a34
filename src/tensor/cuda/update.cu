/* Updates: each checks its results, and keeps the old values if wanted, in the pass that makes the new ones.  The formulas are those
 * of cpu/flat.c, to the bit. */
#include "tensor/cuda/block.cuh"

static __device__ __forceinline__ float scale_of(const float *scale)
{
  return scale ? *scale : 1;
}

SHOAL_KERNEL(descend)
{
  const float lr = a.now->lr, shrink = 1 - lr * a.decoupled;
  const float p = -lr * scale_of(a.scale) * shrink, q = (1 - lr * a.l2) * shrink;
  bool finite = true;
  EACH(i, a.n)
  {
    float w = a.w[i];
    if (a.before) a.before[i] = w;
    w = p * a.g[i] + q * w;
    finite = finite && is_finite(w);
    a.w[i] = w;
  }
  if (!finite) raise_flag(a.bad);
}

SHOAL_KERNEL(sgd)
{
  const float lr = a.now->lr, scale = scale_of(a.scale), decay = lr * a.decoupled;
  const bool first = a.now->first;
  bool finite = true;
  EACH(i, a.n)
  {
    float w = a.w[i], v = a.v[i], grad = scale * a.g[i] + a.l2 * w;
    if (a.before_w) {
      a.before_v[i] = v;
      a.before_w[i] = w;
    }
    v = first ? grad : a.momentum * v + grad;
    if (first)
      w -= lr * (a.ahead * grad);
    else if (a.nesterov)
      w -= lr * (grad + a.momentum * v);
    else
      w -= lr * v;
    w -= decay * w;
    finite = finite && is_finite(v) && is_finite(w);
    a.v[i] = v;
    a.w[i] = w;
  }
  if (!finite) raise_flag(a.bad);
}

SHOAL_KERNEL(adam)
{
  const float lr = a.now->lr, scale = scale_of(a.scale), over_c1 = 1 / a.now->c1, over_c2 = 1 / a.now->c2;
  bool finite = true;
  EACH(i, a.n)
  {
    float w = a.w[i], m = a.m[i], v = a.v[i], grad = scale * a.g[i] + a.l2 * w;
    if (a.before_w) {
      a.before_m[i] = m;
      a.before_v[i] = v;
      a.before_w[i] = w;
    }
    m = a.beta1 * m + a.rest1 * grad;
    v = a.beta2 * v + a.rest2 * grad * grad;
    float step = m * over_c1 / (sqrtf(v * over_c2) + a.eps);
    w -= lr * (step + a.decoupled * w);
    finite = finite && is_finite(m) && is_finite(v) && is_finite(w);
    a.m[i] = m;
    a.v[i] = v;
    a.w[i] = w;
  }
  if (!finite) raise_flag(a.bad);
}

SHOAL_KERNEL(clip)
{
  if (threadIdx.x != 0) return;
  const double norm = sqrt(*a.squares);
  *a.scale = norm > a.limit ? (float)(a.limit / norm) : 1;
}
