/* Layer norm over the last dimension, row by row (Ba, Kiros, Hinton, Layer Normalization, 2016).
 *
 * A row fits the L1 cache, so its moments and its output cost one pass over memory.  dscale and dshift are sums over
 * rows: each block of ROWS rows has its own partial sums in scratch, which are combined in order, so the bits do not
 * depend on the number of threads.  `saved`: mean and rate of each row, [rows][2]. */
#include "tensor/cpu/cpu_impl.h"
#include <math.h>

enum { LANES = 16, BLOCKS = 64 }; /* at most BLOCKS sets of partial sums */

typedef struct {
  shoal_op op;
  int64_t rows, width, block_rows, blocks;
  size_t partial_at; /* float [blocks][2][width] */
} layernorm_op;

typedef struct {
  const layernorm_op *p;
  const float *x, *dy, *scale, *shift;
  float *y, *dx, *saved, *partial;
} pass;

/* Sum of an expression over a row in LANES fixed lanes: the same order for every instruction set. */
#define ROW_SUM(result, n, expression)                                                                                 \
  do {                                                                                                                 \
    float lane_[LANES] = { 0 };                                                                                        \
    int64_t base_ = 0;                                                                                                 \
    for (; base_ + LANES <= (n); base_ += LANES)                                                                       \
      for (int j_ = 0; j_ < LANES; j_++) {                                                                             \
        int64_t i = base_ + j_;                                                                                        \
        lane_[j_] += (expression);                                                                                     \
      }                                                                                                                \
    for (int64_t i = base_; i < (n); i++) lane_[i - base_] += (expression);                                            \
    double sum_ = 0;                                                                                                   \
    for (int j_ = 0; j_ < LANES; j_++) sum_ += (double)lane_[j_];                                                      \
    (result) = sum_;                                                                                                   \
  } while (0)

SHOAL_CPU_KERNEL static void forward_rows(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  int64_t n = t->p->width;
  const float *scale = t->scale, *shift = t->shift;
  for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
    const float *x = t->x + r * n;
    float *y = t->y + r * n;
    double sum, squares;
    ROW_SUM(sum, n, x[i]);
    float mean = (float)(sum / (double)n);
    ROW_SUM(squares, n, (x[i] - mean) * (x[i] - mean));
    float rate = (float)(1 / sqrt(squares / (double)n + t->p->op.desc.eps));
    if (t->saved) {
      t->saved[2 * r] = mean;
      t->saved[2 * r + 1] = rate;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rate * scale[i] + shift[i];
  }
}

SHOAL_CPU_KERNEL static void sum_block(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  int64_t n = t->p->width;
  for (int64_t b = (int64_t)begin; b < (int64_t)end; b++) {
    float *dscale = t->partial + b * 2 * n, *dshift = dscale + n;
    int64_t last = SHOAL_MIN((b + 1) * t->p->block_rows, t->p->rows);
    for (int64_t i = 0; i < 2 * n; i++) dscale[i] = 0;
    for (int64_t r = b * t->p->block_rows; r < last; r++) {
      const float *x = t->x + r * n, *dy = t->dy + r * n;
      float mean = t->saved[2 * r], rate = t->saved[2 * r + 1];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        dscale[i] += dy[i] * ((x[i] - mean) * rate);
        dshift[i] += dy[i];
      }
    }
  }
}

SHOAL_CPU_KERNEL static void backward_rows(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  int64_t n = t->p->width;
  const float *scale = t->scale;
  for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
    const float *x = t->x + r * n, *dy = t->dy + r * n;
    float *dx = t->dx + r * n, mean = t->saved[2 * r], rate = t->saved[2 * r + 1];
    double g, gx;
    ROW_SUM(g, n, dy[i] * scale[i]);
    ROW_SUM(gx, n, dy[i] * scale[i] * (x[i] - mean));
    float mean_g = (float)(g / (double)n), slope = (float)(gx / (double)n) * rate * rate;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] = rate * (dy[i] * scale[i] - mean_g - (x[i] - mean) * slope);
  }
}

static void join_blocks(const layernorm_op *p, const float *partial, const shoal_op_args *a)
{
  for (int64_t i = 0; i < p->width; i++) {
    double dscale = 0, dshift = 0;
    for (int64_t b = 0; b < p->blocks; b++) {
      dscale += (double)partial[2 * b * p->width + i];
      dshift += (double)partial[(2 * b + 1) * p->width + i];
    }
    a->dw[0][i] = (float)dscale;
    a->dw[1][i] = (float)dshift;
  }
}

static shoal_status layernorm_forward(shoal_op *op, const shoal_op_args *a)
{
  const layernorm_op *p = (layernorm_op *)op;
  pass t = {
    .p = p, .x = a->x[0], .y = a->y, .scale = a->w[0], .shift = a->w[1], .saved = op->desc.training ? a->saved : NULL
  };
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)p->rows, 1, (size_t)p->width * 3 * sizeof(float), forward_rows, &t);
  return SHOAL_OK;
}

static shoal_status layernorm_backward(shoal_op *op, const shoal_op_args *a)
{
  const layernorm_op *p = (layernorm_op *)op;
  pass t = { .p = p,
             .x = a->x[0],
             .dy = a->dy,
             .dx = a->dx[0],
             .scale = a->w[0],
             .saved = a->saved,
             .partial = shoal_cpu_at(a->scratch, p->partial_at) };
  size_t row_bytes = (size_t)p->width * 3 * sizeof(float);
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)p->blocks, 1, row_bytes * (size_t)p->block_rows, sum_block, &t);
  join_blocks(p, t.partial, a);
  if (op->desc.need_dx) shoal_cpu_parallel(shoal_cpu_of(op), (size_t)p->rows, 1, row_bytes, backward_rows, &t);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_layernorm(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  layernorm_op *p;
  if (in && in[0].bytes && !in[0].dense) return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_layernorm, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  p->width = d->in[0].dim[d->in[0].ndim - 1];
  p->rows = shoal_shape_count(&d->in[0]) / p->width;
  p->block_rows = (p->rows + BLOCKS - 1) / BLOCKS;
  p->blocks = (p->rows + p->block_rows - 1) / p->block_rows;
  op->forward = layernorm_forward;
  op->backward_data = layernorm_backward;
  op->dw_with_dx = op->backward_reads_x = op->dx_may_be_dy = true;
  op->y_may_be_x = !d->training;
  if (d->training) {
    op->saved_bytes = (size_t)p->rows * 2 * sizeof(float);
    p->partial_at = shoal_cpu_carve(&op->scratch_bytes, (size_t)(p->blocks * 2 * p->width) * sizeof(float));
  }
  *out = op;
  return SHOAL_OK;
}
