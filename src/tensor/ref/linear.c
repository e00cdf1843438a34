/* y = x W^T + b.  Leading dimensions of x count as rows, so [batch, time, in] needs no special code. */
#include "tensor/ref/ref_impl.h"
#include <string.h>

typedef struct {
  int64_t rows, in, out;
} sizes;

static sizes sizes_of(const shoal_op *op)
{
  const shoal_shape *x = &op->desc.in[0], *y = &op->desc.out;
  int64_t in = x->dim[x->ndim - 1];
  return (sizes){ shoal_shape_count(x) / in, in, y->dim[y->ndim - 1] };
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(op);
  for (int64_t r = 0; r < s.rows; r++)
    for (int64_t o = 0; o < s.out; o++) {
      const float *x = a->x[0] + r * s.in, *w = a->w[0] + o * s.in;
      double sum = op->desc.bias ? a->w[1][o] : 0;
      for (int64_t i = 0; i < s.in; i++) sum += (double)x[i] * w[i];
      a->y[r * s.out + o] = op->desc.relu ? shoal_ref_relu((float)sum) : (float)sum;
    }
  return SHOAL_OK;
}

/* dW = dy^T x, db = column sums of dy. */
static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(op);
  for (int64_t o = 0; o < s.out; o++) {
    double bias = 0;
    for (int64_t r = 0; r < s.rows; r++) bias += shoal_ref_before_relu(op, a, r * s.out + o);
    if (op->desc.bias) a->dw[1][o] = (float)bias;
    for (int64_t i = 0; a->dw[0] && i < s.in; i++) {
      double sum = 0;
      for (int64_t r = 0; r < s.rows; r++)
        sum += (double)shoal_ref_before_relu(op, a, r * s.out + o) * a->x[0][r * s.in + i];
      a->dw[0][o * s.in + i] = (float)sum;
    }
  }
  return SHOAL_OK;
}

/* dx = dy W */
static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(op);
  for (int64_t r = 0; r < s.rows; r++)
    for (int64_t i = 0; i < s.in; i++) {
      double sum = 0;
      for (int64_t o = 0; o < s.out; o++)
        sum += (double)shoal_ref_before_relu(op, a, r * s.out + o) * a->w[0][o * s.in + i];
      a->dx[0][r * s.in + i] = (float)sum;
    }
  return SHOAL_OK;
}

void shoal_ref_plan_linear(shoal_op *op)
{
  op->forward = forward;
  op->backward_weights = backward_weights;
  op->backward_data = backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = op->desc.relu;
}
