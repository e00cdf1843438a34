/* Products of two tensors, concatenation over channels and parts of them, transposition, learned numbers, and rows of tables. */
#include "tensor/ref/ref_impl.h"
#include <string.h>

/* Which number of x1 element i of x0 is multiplied with. */
static int64_t factor_of(const shoal_op_desc *d, int64_t i)
{
  const int64_t n = shoal_shape_count(&d->in[0]), m = shoal_shape_count(&d->in[1]), last = m / d->in[1].dim[0];
  if (shoal_op_mul_form(d) != SHOAL_MUL_LAST) return i / (n / m);
  return i / (n / d->in[0].dim[0]) * last + i % last;
}

static shoal_status mul_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->y[i] = a->x[0][i] * a->x[1][factor_of(&op->desc, i)];
  return SHOAL_OK;
}

static shoal_status mul_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  int64_t n = shoal_shape_count(&d->out);
  double *sum = a->scratch;
  memset(sum, 0, op->scratch_bytes);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = factor_of(d, i);
    a->dx[0][i] = a->dy[i] * a->x[1][k];
    sum[k] += (double)a->dy[i] * a->x[0][i];
  }
  for (int64_t k = 0; k < shoal_shape_count(&d->in[1]); k++) a->dx[1][k] = (float)sum[k];
  return SHOAL_OK;
}

void shoal_ref_plan_mul(shoal_op *op)
{
  op->forward = mul_forward;
  op->backward_data = mul_backward;
  op->backward_reads_x = true;
  op->scratch_bytes = (size_t)shoal_shape_count(&op->desc.in[1]) * sizeof(double);
}

/* Values of input k in a sample. */
static int64_t part_of(const shoal_op_desc *d, int k)
{
  return shoal_shape_count(&d->in[k]) / d->in[k].dim[0];
}

static shoal_status concat_forward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  float *y = a->y;
  for (int64_t n = 0; n < d->out.dim[0]; n++)
    for (int k = 0; k < shoal_op_inputs(d); k++) {
      int64_t part = part_of(d, k);
      memcpy(y, a->x[k] + n * part, (size_t)part * sizeof *y);
      y += part;
    }
  return SHOAL_OK;
}

static shoal_status concat_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  const float *dy = a->dy;
  for (int64_t n = 0; n < d->out.dim[0]; n++)
    for (int k = 0; k < shoal_op_inputs(d); k++) {
      int64_t part = part_of(d, k);
      memcpy(a->dx[k] + n * part, dy, (size_t)part * sizeof *dy);
      dy += part;
    }
  return SHOAL_OK;
}

void shoal_ref_plan_concat(shoal_op *op)
{
  op->forward = concat_forward;
  op->backward_data = concat_backward;
}

static shoal_status slice_forward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  const int64_t whole = part_of(d, 0), each = whole / d->in[0].dim[1], part = each * d->out.dim[1];
  for (int64_t n = 0; n < d->out.dim[0]; n++)
    memcpy(a->y + n * part, a->x[0] + n * whole + d->first * each, (size_t)part * sizeof *a->y);
  return SHOAL_OK;
}

static shoal_status slice_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  const int64_t whole = part_of(d, 0), each = whole / d->in[0].dim[1], part = each * d->out.dim[1];
  memset(a->dx[0], 0, (size_t)shoal_shape_count(&d->in[0]) * sizeof *a->y);
  for (int64_t n = 0; n < d->out.dim[0]; n++)
    memcpy(a->dx[0] + n * whole + d->first * each, a->dy + n * part, (size_t)part * sizeof *a->y);
  return SHOAL_OK;
}

void shoal_ref_plan_slice(shoal_op *op)
{
  op->forward = slice_forward;
  op->backward_data = slice_backward;
}

/* Where element i of y, counted in canonical order, lies in x. */
static int64_t source_of(const shoal_op_desc *d, int64_t i)
{
  int last = d->out.ndim - 1;
  int64_t place[SHOAL_MAX_DIMS], at = 0;
  for (int k = last; k >= 1; k--) {
    place[1 + d->order[k - 1]] = i % d->out.dim[k];
    i /= d->out.dim[k];
  }
  place[0] = i;
  for (int k = 0; k <= last; k++) at = at * d->in[0].dim[k] + place[k];
  return at;
}

static shoal_status transpose_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->y[i] = a->x[0][source_of(&op->desc, i)];
  return SHOAL_OK;
}

static shoal_status transpose_backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->dx[0][source_of(&op->desc, i)] = a->dy[i];
  return SHOAL_OK;
}

void shoal_ref_plan_transpose(shoal_op *op)
{
  op->forward = transpose_forward;
  op->backward_data = transpose_backward;
}

static shoal_status parameter_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = op->desc.out.dim[0], each = shoal_shape_count(&op->desc.out) / n;
  for (int64_t i = 0; i < n; i++) memcpy(a->y + i * each, a->w[0], (size_t)each * sizeof *a->y);
  return SHOAL_OK;
}

static shoal_status parameter_backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = op->desc.out.dim[0], each = shoal_shape_count(&op->desc.out) / n;
  for (int64_t e = 0; e < each; e++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a->dy[i * each + e];
    a->dw[0][e] = (float)sum;
  }
  return SHOAL_OK;
}

void shoal_ref_plan_parameter(shoal_op *op)
{
  op->forward = parameter_forward;
  op->backward_weights = parameter_backward;
}

static shoal_status embedding_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.in[0]), width = shoal_shape_count(&op->desc.out) / n;
  for (int64_t i = 0; i < n; i++) {
    int64_t row = shoal_op_row(op->desc.rows, a->x[0][i]);
    for (int64_t c = 0; c < width; c++) a->y[i * width + c] = row < 0 ? 0.0f : a->w[0][row * width + c];
  }
  return SHOAL_OK;
}

/* Sums over the places of a row, from the first to the last. */
static shoal_status embedding_backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.in[0]), width = shoal_shape_count(&op->desc.out) / n;
  memset(a->dw[0], 0, (size_t)(op->desc.rows * width) * sizeof *a->dw[0]);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = shoal_op_row(op->desc.rows, a->x[0][i]);
    for (int64_t c = 0; row >= 0 && c < width; c++) a->dw[0][row * width + c] += a->dy[i * width + c];
  }
  return SHOAL_OK;
}

void shoal_ref_plan_embedding(shoal_op *op)
{
  op->forward = embedding_forward;
  op->backward_weights = embedding_backward;
  op->backward_reads_x = true;
}
