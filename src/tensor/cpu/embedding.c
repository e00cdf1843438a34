/* y[i] = w[x[i]]: rows of a table, by numbers.
 *
 * dw[r] is the sum of dy over all places that name row r, from the first to the last: threads share the columns, so the bits do
 * not depend on them. */
#include "tensor/cpu/cpu_impl.h"
#include <string.h>

typedef struct {
  const float *x, *w, *dy;
  float *y, *dw;
  size_t places, rows, width;
} rows_args;

static rows_args rows_of(const shoal_op *op, const shoal_op_args *a)
{
  const size_t places = (size_t)shoal_shape_count(&op->desc.in[0]);
  return (rows_args){ .x = a->x[0],
                      .w = a->w[0],
                      .dy = a->dy,
                      .y = a->y,
                      .dw = a->dw[0],
                      .places = places,
                      .rows = (size_t)op->desc.rows,
                      .width = (size_t)shoal_shape_count(&op->desc.out) / places };
}

static void take_rows(const void *context, size_t begin, size_t end)
{
  const rows_args *t = context;
  for (size_t i = begin; i < end; i++) {
    int64_t row = shoal_op_row((int64_t)t->rows, t->x[i]);
    float *y = t->y + i * t->width;
    if (row < 0)
      memset(y, 0, t->width * sizeof *y);
    else
      memcpy(y, t->w + (size_t)row * t->width, t->width * sizeof *y);
  }
}

SHOAL_CPU_KERNEL static void sum_columns(const void *context, size_t begin, size_t end)
{
  const rows_args *t = context;
  for (size_t r = 0; r < t->rows; r++) memset(t->dw + r * t->width + begin, 0, (end - begin) * sizeof *t->dw);
  for (size_t i = 0; i < t->places; i++) {
    int64_t row = shoal_op_row((int64_t)t->rows, t->x[i]);
    const float *dy = t->dy + i * t->width;
    float *dw = t->dw + (size_t)SHOAL_MAX(row, 0) * t->width;
    if (row < 0) continue;
#pragma omp simd
    for (size_t c = begin; c < end; c++) dw[c] += dy[c];
  }
}

static shoal_status embedding_forward(shoal_op *op, const shoal_op_args *a)
{
  rows_args t = rows_of(op, a);
  shoal_cpu_parallel(shoal_cpu_of(op), t.places, 1, 2 * t.width * sizeof(float), take_rows, &t);
  return SHOAL_OK;
}

static shoal_status embedding_backward(shoal_op *op, const shoal_op_args *a)
{
  enum { COLUMNS = 16 };
  rows_args t = rows_of(op, a);
  shoal_cpu_parallel(shoal_cpu_of(op), t.width, COLUMNS, (3 * t.places + t.rows) * sizeof(float), sum_columns, &t);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_embedding(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  if (in && in[0].bytes && !in[0].dense) return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_embedding, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof **out, out));
  (*out)->forward = embedding_forward;
  (*out)->backward_weights = embedding_backward;
  (*out)->backward_reads_x = true;
  return SHOAL_OK;
}
