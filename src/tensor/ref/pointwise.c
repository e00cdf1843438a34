/* Pointwise operations: relu, add, dropout; and flatten and reshape, which only change the shape.  Each element is read
 * before it is written, so all of them may run in place. */
#include "base/rng.h"
#include "tensor/ref/ref_impl.h"
#include <string.h>

static shoal_status relu_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->y[i] = shoal_ref_relu(a->x[0][i]);
  return SHOAL_OK;
}

static shoal_status relu_backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->dx[0][i] = a->y[i] <= 0 ? 0.0f : a->dy[i];
  return SHOAL_OK;
}

void shoal_ref_plan_relu(shoal_op *op)
{
  op->forward = relu_forward;
  op->backward_data = relu_backward;
  op->backward_reads_y = true;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

static shoal_status add_forward(shoal_op *op, const shoal_op_args *a)
{
  int inputs = shoal_op_inputs(&op->desc);
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) {
    float sum = a->x[0][i];
    for (int k = 1; k < inputs; k++) sum += a->x[k][i];
    a->y[i] = op->desc.relu ? shoal_ref_relu(sum) : sum;
  }
  return SHOAL_OK;
}

static shoal_status add_backward(shoal_op *op, const shoal_op_args *a)
{
  int inputs = shoal_op_inputs(&op->desc);
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) {
    float dx = shoal_ref_before_relu(op, a, i);
    for (int k = 0; k < inputs; k++) a->dx[k][i] = dx;
  }
  return SHOAL_OK;
}

void shoal_ref_plan_add(shoal_op *op)
{
  op->forward = add_forward;
  op->backward_data = add_backward;
  op->backward_reads_y = op->desc.relu;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

static shoal_status flatten_forward(shoal_op *op, const shoal_op_args *a)
{
  memmove(a->y, a->x[0], op->out_format.bytes);
  return SHOAL_OK;
}

static shoal_status flatten_backward(shoal_op *op, const shoal_op_args *a)
{
  memmove(a->dx[0], a->dy, op->out_format.bytes);
  return SHOAL_OK;
}

void shoal_ref_plan_flatten(shoal_op *op)
{
  op->forward = flatten_forward;
  op->backward_data = flatten_backward;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

/* The mask is not stored: it is a function of the element's index, so backward recomputes it.  See tensor/op.h. */
static void apply_mask(const shoal_op *op, const shoal_op_args *a, const float *x, float *y)
{
  const shoal_shape *s = &op->desc.out;
  int64_t n = shoal_shape_count(s);
  uint64_t first = a->at->slot0 * (uint64_t)(n / s->dim[0]), seed = shoal_rng_seed(a->at->seed, op->desc.stream);
  float keep = 1.0f / (1.0f - op->desc.p);
  for (int64_t i = 0; i < n; i++) {
    uint64_t index = first + (uint64_t)i;
    shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_DROPOUT, index / 4, a->at->step);
    y[i] = shoal_rng_unit(r.v[index % 4]) >= op->desc.p ? x[i] * keep : 0.0f;
  }
}

static shoal_status dropout_forward(shoal_op *op, const shoal_op_args *a)
{
  if (op->desc.training)
    apply_mask(op, a, a->x[0], a->y);
  else
    memmove(a->y, a->x[0], op->out_format.bytes);
  return SHOAL_OK;
}

static shoal_status dropout_backward(shoal_op *op, const shoal_op_args *a)
{
  apply_mask(op, a, a->dy, a->dx[0]);
  return SHOAL_OK;
}

void shoal_ref_plan_dropout(shoal_op *op)
{
  op->forward = dropout_forward;
  op->backward_data = dropout_backward;
  op->y_may_be_x = op->dx_may_be_dy = true;
}
