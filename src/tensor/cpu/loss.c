/* Softmax and cross-entropy in one pass over the logits.
 *
 * The largest logit is subtracted first, so that exp cannot overflow.  With z the shifted logits and S = sum exp z, the
 * loss of a row is  sum over targets t of t (log S - z); its gradient is softmax - target; both times the weight of its label.
 * Rows are independent, and their losses are summed in double in row order, so the bits do not depend on the number of threads. */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/cpu/vecmath.h"
#include <math.h>

enum { BATCH = 512, LANES = 16 }; /* BATCH: rows whose losses are kept on the stack before summing */

typedef struct {
  const float *logits;
  const int32_t *labels;
  const float *weights;
  float *dlogits;
  int64_t classes, first;
  float smoothing, scale;
  bool leave_out;
  double *loss;
  signed char *outcome; /* per row */
} pass;

enum { MISSED, HIT, IGNORED, WITHOUT_LOSS }; /* outcomes */

/* All logits are finite, and so is the distance between any two. */
static bool has_loss(int64_t n, const float *x)
{
  float least = x[0], most = x[0];
  bool finite = true;
  for (int64_t j = 0; j < n; j++) {
    finite &= isfinite(x[j]);
    least = fminf(least, x[j]);
    most = fmaxf(most, x[j]);
  }
  return finite && isfinite(most - least);
}

/* Writes exp(x - largest) to e and returns the sum. */
static inline __attribute__((always_inline)) double exp_row(int64_t n, const float *x, float largest, float *e)
{
  float lane[LANES] = { 0 };
  double sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      float v = shoal_cpu_exp(x[i + j] - largest);
      lane[j] += v;
      if (e) e[i + j] = v;
    }
  for (int j = 0; j < LANES; j++) sum += (double)lane[j];
  for (; i < n; i++) {
    float v = shoal_cpu_exp(x[i] - largest);
    sum += (double)v;
    if (e) e[i] = v;
  }
  return sum;
}

/* Index of the first largest logit, ignoring NaN. */
static int64_t argmax(int64_t n, const float *x)
{
  int64_t best = 0;
  for (int64_t j = 1; j < n; j++) best = x[j] > x[best] ? j : best;
  return best;
}

SHOAL_CPU_KERNEL static void xent_rows(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  int64_t n = t->classes;
  double rest = (double)t->smoothing / (double)n, on = 1 - (double)t->smoothing;
  for (int64_t k = (int64_t)begin; k < (int64_t)end; k++) {
    int64_t r = t->first + k;
    const float *x = t->logits + r * n;
    float *dx = t->dlogits ? t->dlogits + r * n : NULL;
    int32_t label = t->labels[r];
    t->loss[k] = 0;
    t->outcome[k] = label < 0 ? IGNORED : t->leave_out && !has_loss(n, x) ? WITHOUT_LOSS : MISSED;
    if (t->outcome[k] != MISSED) {
      for (int64_t j = 0; dx && j < n; j++) dx[j] = 0;
      continue;
    }
    int64_t best = argmax(n, x);
    float largest = x[best], at_label = x[label] - largest;
    double sum_z = 0;
    for (int64_t j = 0; rest != 0 && j < n; j++) sum_z += (double)(x[j] - largest);
    double sum = exp_row(n, x, largest, dx);
    const double weight = t->weights ? (double)t->weights[label] : 1, scale = weight * (double)t->scale;
    t->loss[k] = weight * (log(sum) - on * (double)at_label - rest * sum_z);
    t->outcome[k] = best == label ? HIT : MISSED;
    if (!dx) continue;
    float p = (float)(scale / sum), off = (float)(scale * rest);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) dx[j] = dx[j] * p - off;
    dx[label] -= (float)(scale * on);
  }
}

shoal_status shoal_cpu_softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                    const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                    bool leave_out, float *dlogits, shoal_loss *out)
{
  double part[BATCH];
  signed char outcome[BATCH];
  shoal_loss sum = { 0 };
  pass t = { logits, labels, weights, dlogits, classes, 0, smoothing, *scale, leave_out, part, outcome };
  for (; t.first < rows; t.first += BATCH) {
    int64_t count = SHOAL_MIN(rows - t.first, (int64_t)BATCH);
    shoal_cpu_parallel((shoal_cpu *)b, (size_t)count, 1, (size_t)classes * 4 * sizeof(float), xent_rows, &t);
    for (int64_t k = 0; k < count; k++) {
      sum.loss += part[k];
      sum.correct += outcome[k] == HIT;
      sum.samples += outcome[k] <= HIT;
      if (outcome[k] == WITHOUT_LOSS && sum.left_out++ == 0) sum.first_left_out = t.first + k;
    }
  }
  *out = sum;
  return SHOAL_OK;
}
