/* y = x w^T + b, with the weights read in place in the arena.
 *
 * A linear layer's weights are read once per step, so a blocked copy would cost a third of the product itself; oneDNN's
 * sgemm reaches 85 % of the peak with the weights in place.  The products are split into pieces of about 2 ms so that
 * the network is polled in between: forward by output columns, dx by input columns, dw by rows.  Splitting costs
 * nothing measurable (128 x 4096 x 4096: 33 ms either way), so it is always done, and the bits do not depend on
 * polling.  Bias, relu and the sum for db run over a piece while it is still in the cache. */
#include "tensor/cpu/cpu_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_op op;
  int64_t rows, in, out;
  size_t dy_at; /* fused relu: dy as it was before the relu, in `saved` or scratch as for conv */
} linear_op;

/* Columns (or rows) per piece when each costs `macs`: a multiple of 64. */
static int64_t piece_of(const shoal_op *op, double macs, int64_t n)
{
  double most = SHOAL_CPU_PIECE_MACS * op->backend->threads / macs;
  int64_t piece = most < 64 ? 64 : most > (double)n ? n : (int64_t)most / 64 * 64;
  return SHOAL_MIN(piece, n);
}

static shoal_status gemm(shoal_op *op, char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                         const float *b, int64_t ldb, float *c, int64_t ldc)
{
  SHOAL_TRY_DNNL(dnnl_sgemm(ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc));
  return SHOAL_OK;
}

typedef struct {
  float *y;
  const float *bias; /* or NULL */
  int64_t cols, ld;
  bool relu;
} finish_args;

SHOAL_CPU_KERNEL static void finish_rows(const void *context, size_t begin, size_t end)
{
  const finish_args *f = context;
  const float *bias = f->bias;
  for (size_t r = begin; r < end; r++) {
    float *y = f->y + (int64_t)r * f->ld;
    if (bias) {
#pragma omp simd
      for (int64_t j = 0; j < f->cols; j++) y[j] += bias[j];
    }
    if (f->relu) {
#pragma omp simd
      for (int64_t j = 0; j < f->cols; j++) y[j] = y[j] <= 0 ? 0.0f : y[j];
    }
  }
}

static shoal_status linear_forward(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  int64_t piece = piece_of(op, (double)p->rows * (double)p->in, p->out);
  shoal_dnn_enter(&shoal_cpu_of(op)->dnn);
  for (int64_t o = 0; o < p->out; o += piece) {
    int64_t cols = SHOAL_MIN(piece, p->out - o);
    SHOAL_TRY(gemm(op, 'N', 'T', p->rows, cols, p->in, a->x[0], p->in, a->w[0] + o * p->in, p->in, a->y + o, p->out));
    finish_args f = { a->y + o, op->desc.bias ? a->w[1] + o : NULL, cols, p->out, op->desc.relu };
    if (op->desc.bias || op->desc.relu)
      shoal_cpu_parallel(shoal_cpu_of(op), (size_t)p->rows, 1, (size_t)cols * 2 * sizeof(float), finish_rows, &f);
    else
      shoal_backend_poll(op->backend);
  }
  return SHOAL_OK;
}

/* Column sums of dy, each in row order; groups of COLUMNS columns are distributed over the threads. */
enum { COLUMNS = 256 };
typedef struct {
  const float *dy;
  float *db;
  int64_t rows, cols;
} column_args;

SHOAL_CPU_KERNEL static void column_sums(const void *context, size_t begin, size_t end)
{
  const column_args *c = context;
  for (size_t group = begin; group < end; group++) {
    int64_t first = (int64_t)group * COLUMNS, n = SHOAL_MIN((int64_t)COLUMNS, c->cols - first);
    float sum[COLUMNS] = { 0 };
    for (int64_t r = 0; r < c->rows; r++) {
      const float *dy = c->dy + r * c->cols + first;
#pragma omp simd
      for (int64_t j = 0; j < n; j++) sum[j] += dy[j];
    }
    memcpy(c->db + first, sum, (size_t)n * sizeof(float));
  }
}

static const float *before_relu(linear_op *p, const shoal_op_args *a)
{
  if (!p->op.desc.relu) return a->dy;
  return shoal_cpu_at(p->op.desc.need_dx ? a->saved : a->scratch, p->dy_at);
}

static shoal_status linear_backward_weights(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  const float *dy = before_relu(p, a);
  int64_t piece = piece_of(op, (double)p->rows * (double)p->in, p->out);
  shoal_dnn_enter(&shoal_cpu_of(op)->dnn);
  if (op->desc.relu) shoal_cpu_mask(op, a->dy, a->y, (float *)(uintptr_t)dy);
  if (op->desc.bias) {
    column_args c = { dy, a->dw[1], p->rows, p->out };
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)((p->out + COLUMNS - 1) / COLUMNS), 1,
                       (size_t)p->rows * COLUMNS * sizeof(float), column_sums, &c);
  }
  if (!a->dw[0]) return SHOAL_OK;
  for (int64_t o = 0; o < p->out; o += piece) {
    int64_t rows = SHOAL_MIN(piece, p->out - o);
    SHOAL_TRY(gemm(op, 'T', 'N', rows, p->in, p->rows, dy + o, p->out, a->x[0], p->in, a->dw[0] + o * p->in, p->in));
    shoal_backend_poll(op->backend);
  }
  return SHOAL_OK;
}

static shoal_status linear_backward_data(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  const float *dy = before_relu(p, a);
  int64_t piece = piece_of(op, (double)p->rows * (double)p->out, p->in);
  shoal_dnn_enter(&shoal_cpu_of(op)->dnn);
  for (int64_t i = 0; i < p->in; i += piece) {
    int64_t cols = SHOAL_MIN(piece, p->in - i);
    SHOAL_TRY(gemm(op, 'N', 'N', p->rows, cols, p->out, dy, p->out, a->w[0] + i, p->in, a->dx[0] + i, p->in));
    shoal_backend_poll(op->backend);
  }
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_linear(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  linear_op *p;
  if (in && in[0].bytes && !in[0].dense) return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_linear, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  int last = d->in[0].ndim - 1;
  p->in = d->in[0].dim[last];
  p->out = d->out.dim[last];
  p->rows = shoal_shape_count(&d->in[0]) / p->in;
  op->forward = linear_forward;
  op->backward_weights = linear_backward_weights;
  op->backward_data = linear_backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = d->relu;
  if (d->relu && d->training)
    p->dy_at = shoal_cpu_carve(d->need_dx ? &op->saved_bytes : &op->scratch_bytes, op->out_format.bytes);
  *out = op;
  return SHOAL_OK;
}
