/* Flat vectors: optimizers, sums, and the general product.
 *
 * All but the product are memory-bound, so each is one pass that reads and writes every element once.  An element's new
 * value depends on that element only, and sums are computed over blocks of fixed size and combined in order.  So the
 * bits depend neither on the number of threads nor, compiled without contraction, on the processor: ranks whose models must
 * stay equal may differ in both. */
#include "tensor/cpu/cpu_impl.h"
#include <math.h>
#include <string.h>

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
  *out += sum;
  return SHOAL_OK;
}

/* ---- updates: each checks its results, and copies the old values if wanted; one loop for both cases ---- */

/* The top bit is set if x is not finite: only then the exponent is all ones, and adding one to it carries. */
static inline __attribute__((always_inline)) uint32_t mark(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7f800000u) + 0x00800000u;
}

/* Ranges run on several threads, which only set it. */
static inline void report(const shoal_update_watch *watch, uint32_t marks)
{
  if (marks >> 31) __atomic_store_n(watch->bad, 1, __ATOMIC_RELAXED);
}

typedef struct {
  const float *g;
  float *w, p, q;
  const shoal_update_watch *watch;
} descend_args;

static inline __attribute__((always_inline)) uint32_t descend_loop(const descend_args *a, size_t begin, size_t end,
                                                                   bool keep)
{
  const float *g = a->g, p = a->p, q = a->q;
  float *w = a->w, *before = a->watch->w;
  uint32_t marks = 0;
#pragma omp simd reduction(| : marks)
  for (size_t i = begin; i < end; i++) {
    if (keep) before[i] = w[i];
    w[i] = p * g[i] + q * w[i];
    marks |= mark(w[i]);
  }
  return marks;
}

SHOAL_CPU_KERNEL static void descend_range(const void *context, size_t begin, size_t end)
{
  const descend_args *a = context;
  report(a->watch, a->watch->w ? descend_loop(a, begin, end, true) : descend_loop(a, begin, end, false));
}

static float scale_of(const float *scale)
{
  return scale ? *scale : 1;
}

shoal_status shoal_cpu_descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                               const shoal_update_watch *watch)
{
  float lr = a->now->lr, shrink = 1 - lr * a->decoupled;
  descend_args d = { g, w, -lr * scale_of(a->scale) * shrink, (1 - lr * a->l2) * shrink, watch };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 3 * sizeof(float), descend_range, &d);
  return SHOAL_OK;
}

typedef struct {
  const shoal_sgd_args *a;
  float lr, scale;
  bool first;
  const float *g;
  float *v, *w;
  const shoal_update_watch *watch;
} sgd_args;

typedef enum { FIRST, NESTEROV, PLAIN } sgd_form;

static inline __attribute__((always_inline)) uint32_t sgd_loop(const sgd_args *s, size_t begin, size_t end,
                                                               sgd_form form, bool keep)
{
  const float *g = s->g, lr = s->lr, l2 = s->a->l2, scale = s->scale, mu = s->a->momentum;
  const float decay = lr * s->a->decoupled, ahead = s->a->nesterov ? 1 + mu : 1;
  float *v = s->v, *w = s->w, *before_v = s->watch->state[0], *before_w = s->watch->w;
  uint32_t marks = 0;
#pragma omp simd reduction(| : marks)
  for (size_t i = begin; i < end; i++) {
    float grad = scale * g[i] + l2 * w[i];
    if (keep) {
      before_v[i] = v[i];
      before_w[i] = w[i];
    }
    v[i] = form == FIRST ? grad : mu * v[i] + grad;
    if (form == FIRST)
      w[i] -= lr * (ahead * grad);
    else if (form == NESTEROV)
      w[i] -= lr * (grad + mu * v[i]);
    else
      w[i] -= lr * v[i];
    w[i] -= decay * w[i];
    marks |= mark(v[i]) | mark(w[i]);
  }
  return marks;
}

static inline __attribute__((always_inline)) uint32_t sgd_any(const sgd_args *s, size_t begin, size_t end, bool keep)
{
  if (s->first) return sgd_loop(s, begin, end, FIRST, keep);
  return s->a->nesterov ? sgd_loop(s, begin, end, NESTEROV, keep) : sgd_loop(s, begin, end, PLAIN, keep);
}

SHOAL_CPU_KERNEL static void sgd_range(const void *context, size_t begin, size_t end)
{
  const sgd_args *s = context;
  report(s->watch, s->watch->w ? sgd_any(s, begin, end, true) : sgd_any(s, begin, end, false));
}

shoal_status shoal_cpu_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                           const shoal_update_watch *watch)
{
  sgd_args s = { a, a->now->lr, scale_of(a->scale), a->now->first != 0, g, v, w, watch };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 5 * sizeof(float), sgd_range, &s);
  return SHOAL_OK;
}

typedef struct {
  const shoal_adam_args *a;
  shoal_pace now;
  float scale;
  const float *g;
  float *m, *v, *w;
  const shoal_update_watch *watch;
} adam_args;

static inline __attribute__((always_inline)) uint32_t adam_loop(const adam_args *s, size_t begin, size_t end, bool keep)
{
  const shoal_adam_args a = *s->a;
  const float *g = s->g, rest1 = 1 - a.beta1, rest2 = 1 - a.beta2;
  const float lr = s->now.lr, scale = s->scale, over_c1 = 1 / s->now.c1, over_c2 = 1 / s->now.c2;
  float *m = s->m, *v = s->v, *w = s->w;
  float *before_m = s->watch->state[0], *before_v = s->watch->state[1], *before_w = s->watch->w;
  uint32_t marks = 0;
#pragma omp simd reduction(| : marks)
  for (size_t i = begin; i < end; i++) {
    float grad = scale * g[i] + a.l2 * w[i];
    if (keep) {
      before_m[i] = m[i];
      before_v[i] = v[i];
      before_w[i] = w[i];
    }
    m[i] = a.beta1 * m[i] + rest1 * grad;
    v[i] = a.beta2 * v[i] + rest2 * grad * grad;
    float step = m[i] * over_c1 / (sqrtf(v[i] * over_c2) + a.eps);
    w[i] -= lr * (step + a.decoupled * w[i]);
    marks |= mark(m[i]) | mark(v[i]) | mark(w[i]);
  }
  return marks;
}

SHOAL_CPU_KERNEL static void adam_range(const void *context, size_t begin, size_t end)
{
  const adam_args *s = context;
  report(s->watch, s->watch->w ? adam_loop(s, begin, end, true) : adam_loop(s, begin, end, false));
}

shoal_status shoal_cpu_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                            float *w, const shoal_update_watch *watch)
{
  adam_args s = { a, *a->now, scale_of(a->scale), g, m, v, w, watch };
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
