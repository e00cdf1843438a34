/* Flat vectors: products, the loss, and the updates of the optimizers, each by its textbook formula.
 * Sums run in double from the first element to the last, so they are the same bits every time. */
#include "tensor/ref/ref_impl.h"
#include <math.h>

shoal_status shoal_ref_gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                            const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *c,
                            int64_t ldc)
{
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum += (double)(ta ? a[l * lda + i] : a[i * lda + l]) * (tb ? bm[j * ldb + l] : bm[l * ldb + j]);
      /* beta = 0 overwrites C, which may be uninitialised or NaN */
      c[i * ldc + j] = (float)(alpha * sum + (beta == 0 ? 0 : (double)beta * c[i * ldc + j]));
    }
  return SHOAL_OK;
}

shoal_status shoal_ref_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                float *c)
{
  return shoal_ref_gemm(b, false, false, m, n, k, 1, a, k, bm, n, 0, c, n);
}

/* One row: its loss, and dlogits = scale * (softmax - target), for a weight of 1.  The largest logit is subtracted first, so that exp
 * cannot overflow; with z the shifted logits and S = sum exp z, loss = sum over targets t of t * (log S - z). */
static double xent_row(int64_t classes, const float *logits, int32_t label, double largest, double smoothing,
                       double scale, float *dlogits)
{
  double sum = 0, loss = 0, rest = smoothing / (double)classes;
  for (int64_t j = 0; j < classes; j++) sum += exp(logits[j] - largest);
  for (int64_t j = 0; j < classes; j++) {
    double z = logits[j] - largest, target = j == label ? 1 - smoothing + rest : rest;
    if (target != 0) loss += target * (log(sum) - z);
    if (dlogits) dlogits[j] = (float)(scale * (exp(z) / sum - target));
  }
  return loss;
}

/* All logits are finite, and so is the distance between any two. */
static bool has_loss(int64_t classes, const float *x)
{
  float least = x[0], most = x[0];
  bool finite = true;
  for (int64_t j = 0; j < classes; j++) {
    finite &= isfinite(x[j]);
    least = fminf(least, x[j]);
    most = fmaxf(most, x[j]);
  }
  return finite && isfinite(most - least);
}

shoal_status shoal_ref_softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                    const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                    bool leave_out, float *dlogits, shoal_loss *out)
{
  shoal_loss sum = { 0 };
  for (int64_t r = 0; r < rows; r++) {
    const float *x = logits + r * classes;
    float *dx = dlogits ? dlogits + r * classes : NULL;
    bool without = leave_out && labels[r] >= 0 && !has_loss(classes, x);
    if (without && sum.left_out++ == 0) sum.first_left_out = r;
    if (labels[r] < 0 || without) {
      for (int64_t j = 0; dx && j < classes; j++) dx[j] = 0;
      continue;
    }
    int64_t best = 0;
    for (int64_t j = 1; j < classes; j++)
      if (x[j] > x[best]) best = j;
    sum.samples++;
    sum.correct += best == labels[r];
    const double weight = weights ? (double)weights[labels[r]] : 1;
    sum.loss += weight * xent_row(classes, x, labels[r], x[best], smoothing, weight * *scale, dx);
  }
  *out = sum;
  return SHOAL_OK;
}

shoal_status shoal_ref_add(shoal_backend *b, size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] += x[i];
  return SHOAL_OK;
}

shoal_status shoal_ref_axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] = p * x[i] + (q == 0 ? 0 : q * y[i]);
  return SHOAL_OK;
}

shoal_status shoal_ref_sumsq(shoal_backend *b, size_t n, const float *x, double *out)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
  *out += sum;
  return SHOAL_OK;
}

static float scale_of(const float *scale)
{
  return scale ? *scale : 1;
}

static void keep(const shoal_update_watch *watch, size_t i, float w, float first, float second)
{
  if (!watch->w) return;
  watch->w[i] = w;
  if (watch->state[0]) watch->state[0][i] = first;
  if (watch->state[1]) watch->state[1][i] = second;
}

shoal_status shoal_ref_descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                               const shoal_update_watch *watch)
{
  float lr = a->now->lr, shrink = 1 - lr * a->decoupled;
  float p = -lr * scale_of(a->scale) * shrink, q = (1 - lr * a->l2) * shrink;
  for (size_t i = 0; i < n; i++) {
    keep(watch, i, w[i], 0, 0);
    w[i] = p * g[i] + q * w[i];
    if (!isfinite(w[i])) *watch->bad = 1;
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                           const shoal_update_watch *watch)
{
  const float lr = a->now->lr, scale = scale_of(a->scale);
  for (size_t i = 0; i < n; i++) {
    float grad = scale * g[i] + a->l2 * w[i];
    keep(watch, i, w[i], v[i], 0);
    v[i] = a->now->first ? grad : a->momentum * v[i] + grad;
    w[i] -= lr * (a->nesterov ? grad + a->momentum * v[i] : v[i]);
    w[i] -= lr * a->decoupled * w[i];
    if (!isfinite(v[i]) || !isfinite(w[i])) *watch->bad = 1;
  }
  return SHOAL_OK;
}

shoal_status shoal_ref_adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *v,
                            float *w, const shoal_update_watch *watch)
{
  const shoal_pace now = *a->now;
  const float scale = scale_of(a->scale);
  for (size_t i = 0; i < n; i++) {
    float grad = scale * g[i] + a->l2 * w[i];
    keep(watch, i, w[i], m[i], v[i]);
    m[i] = a->beta1 * m[i] + (1 - a->beta1) * grad;
    v[i] = a->beta2 * v[i] + (1 - a->beta2) * grad * grad;
    float step = m[i] / now.c1 / (sqrtf(v[i] / now.c2) + a->eps);
    w[i] -= now.lr * (step + a->decoupled * w[i]);
    if (!isfinite(m[i]) || !isfinite(v[i]) || !isfinite(w[i])) *watch->bad = 1;
  }
  return SHOAL_OK;
}
