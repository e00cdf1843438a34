/* Flat vectors: optimizers, sums, and the general product.
 *
 * All but the product are memory-bound, so each is one pass that reads and writes every element once.  An element's new
 * value depends on that element only, and sums are computed over blocks of fixed size and combined in order, so the
 * bits do not depend on the number of threads. */
#include "tensor/cpu/cpu_impl.h"
#include <math.h>

enum { GRAIN = 1024 }; /* elements: ranges start at multiples, so that no cache line is written by two threads */

typedef struct {
  const float *x;
  float *y, p, q;
} axpby_args;

SHOAL_CPU_KERNEL static void add_range(const void *context, size_t begin, size_t end)
{
  const axpby_args *a = context;
  const float *x = a->x;
  float *y = a->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) y[i] += x[i];
}

shoal_status shoal_cpu_add(shoal_backend *b, size_t n, const float *x, float *y)
{
  axpby_args a = { .x = x, .y = y };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 3 * sizeof(float), add_range, &a);
  return SHOAL_OK;
}

SHOAL_CPU_KERNEL static void axpby_range(const void *context, size_t begin, size_t end)
{
  const axpby_args *a = context;
  const float *x = a->x, p = a->p, q = a->q;
  float *y = a->y;
  if (q == 0) { /* y may be uninitialised or NaN */
#pragma omp simd
    for (size_t i = begin; i < end; i++) y[i] = p * x[i];
  } else {
#pragma omp simd
    for (size_t i = begin; i < end; i++) y[i] = p * x[i] + q * y[i];
  }
}

shoal_status shoal_cpu_axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y)
{
  axpby_args a = { x, y, p, q };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 3 * sizeof(float), axpby_range, &a);
  return SHOAL_OK;
}

/* Sum of squares: one double per block of SUM_BLOCK elements, combined in order.  Inside a block 32 lanes accumulate in
 * parallel, which is a fixed order too. */
enum { SUM_BLOCK = 16384, SUM_LANES = 32, SUM_BATCH = 1024 };

typedef struct {
  const float *x;
  size_t n, first;
  double *sum;
} sumsq_args;

SHOAL_CPU_KERNEL static void sumsq_blocks(const void *context, size_t begin, size_t end)
{
  const sumsq_args *a = context;
  for (size_t block = begin; block < end; block++) {
    const float *x = a->x + (a->first + block) * SUM_BLOCK;
    size_t n = SHOAL_MIN((size_t)SUM_BLOCK, a->n - (a->first + block) * SUM_BLOCK), whole = n / SUM_LANES * SUM_LANES;
    double lane[SUM_LANES] = { 0 }, sum = 0;
    for (size_t i = 0; i < whole; i += SUM_LANES)
      for (int j = 0; j < SUM_LANES; j++) lane[j] += (double)x[i + (size_t)j] * x[i + (size_t)j];
    for (size_t i = whole; i < n; i++) lane[i - whole] += (double)x[i] * x[i];
    for (int j = 0; j < SUM_LANES; j++) sum += lane[j];
    a->sum[block] = sum;
  }
}

shoal_status shoal_cpu_sumsq(shoal_backend *b, size_t n, const float *x, double *out)
{
  double part[SUM_BATCH], sum = 0;
  size_t blocks = (n + SUM_BLOCK - 1) / SUM_BLOCK;
  for (size_t first = 0; first < blocks; first += SUM_BATCH) {
    size_t count = SHOAL_MIN((size_t)SUM_BATCH, blocks - first);
    sumsq_args a = { x, n, first, part };
    shoal_cpu_parallel((shoal_cpu *)b, count, 1, SUM_BLOCK * sizeof(float), sumsq_blocks, &a);
    for (size_t i = 0; i < count; i++) sum += part[i];
  }
  *out = sum;
  return SHOAL_OK;
}

typedef struct {
  const shoal_sgd_args *a;
  const float *g;
  float *v, *w;
} sgd_args;

SHOAL_CPU_KERNEL static void sgd_range(const void *context, size_t begin, size_t end)
{
  const sgd_args *s = context;
  const float *g = s->g, lr = s->a->lr, l2 = s->a->l2, scale = s->a->scale, mu = s->a->momentum;
  const float decay = lr * s->a->decoupled;
  float *v = s->v, *w = s->w;
  if (s->a->first) {
    float ahead = s->a->nesterov ? 1 + mu : 1;
#pragma omp simd
    for (size_t i = begin; i < end; i++) {
      float grad = scale * g[i] + l2 * w[i];
      v[i] = grad;
      w[i] -= lr * (ahead * grad);
      w[i] -= decay * w[i];
    }
  } else if (s->a->nesterov) {
#pragma omp simd
    for (size_t i = begin; i < end; i++) {
      float grad = scale * g[i] + l2 * w[i];
      v[i] = mu * v[i] + grad;
      w[i] -= lr * (grad + mu * v[i]);
      w[i] -= decay * w[i];
    }
  } else {
#pragma omp simd
    for (size_t i = begin; i < end; i++) {
      float grad = scale * g[i] + l2 * w[i];
      v[i] = mu * v[i] + grad;
      w[i] -= lr * v[i];
      w[i] -= decay * w[i];
    }
  }
}

shoal_status shoal_cpu_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w)
{
  sgd_args s = { a, g, v, w };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 5 * sizeof(float), sgd_range, &s);
  return SHOAL_OK;
}

typedef struct {
  const shoal_adam_args *a;
  const float *g;
  float *m, *v, *w;
} adam_args;

SHOAL_CPU_KERNEL static void adam_range(const void *context, size_t begin, size_t end)
{
  const adam_args *s = context;
  const shoal_adam_args a = *s->a;
  const float *g = s->g, rest1 = 1 - a.beta1, rest2 = 1 - a.beta2, over_c1 = 1 / a.c1, over_c2 = 1 / a.c2;
  float *m = s->m, *v = s->v, *w = s->w;
#pragma omp simd
  for (size_t i = begin; i < end; i++) {
    float grad = a.scale * g[i] + a.l2 * w[i];
    m[i] = a.beta1 * m[i] + rest1 * grad;
    v[i] = a.beta2 * v[i] + rest2 * grad * grad;
    float step = m[i] * over_c1 / (sqrtf(v[i] * over_c2) + a.eps);
    w[i] -= a.lr * (step + a.decoupled * w[i]);
  }
}

shoal_status shoal_cpu_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                            float *w)
{
  adam_args s = { a, g, m, v, w };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 7 * sizeof(float), adam_range, &s);
  return SHOAL_OK;
}

shoal_status shoal_cpu_gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                            const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                            int64_t ldc)
{
  shoal_dnn_enter(&((shoal_cpu *)b)->dnn);
  SHOAL_TRY_DNNL(dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, bm, ldb, beta, c, ldc));
  shoal_backend_poll(b);
  return SHOAL_OK;
}
