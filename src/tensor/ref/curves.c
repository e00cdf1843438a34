/* Activations y = f(x), element by element: f and its derivative in double. */
#include "tensor/ref/ref_impl.h"
#include <math.h>

typedef struct {
  double y, slope;
} point;

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

/* x Phi(x) with Phi the normal distribution function; its derivative is Phi(x) + x phi(x)
 * (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016). */
static point gelu(double x)
{
  double cdf = 0.5 * erfc(-x * 0.70710678118654752440), density = 0.39894228040143267794 * exp(-0.5 * x * x);
  return (point){ x * cdf, cdf + x * density };
}

static point gelu_tanh(double x)
{
  const double k = 0.79788456080286535588, c = 0.044715;
  double t = tanh(k * (x + c * x * x * x));
  return (point){ 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * c * x * x) };
}

/* Where a piecewise one has a kink, the derivative is that of the side that is constant, or of the negative side. */
static point curve_at(const shoal_op_desc *d, double x)
{
  double s;
  switch (d->kind) {
  case SHOAL_OP_GELU:
    return gelu(x);
  case SHOAL_OP_GELU_TANH:
    return gelu_tanh(x);
  case SHOAL_OP_SIGMOID:
    s = sigmoid(x);
    return (point){ s, s * sigmoid(-x) };
  case SHOAL_OP_TANH:
    s = tanh(x);
    return (point){ s, 1 - s * s };
  case SHOAL_OP_SILU:
    s = sigmoid(x);
    return (point){ x * s, s * (1 + x * sigmoid(-x)) };
  case SHOAL_OP_LEAKYRELU:
    s = x > 0 ? 1 : (double)d->slope;
    return (point){ s * x, s };
  case SHOAL_OP_RELU6:
    return (point){ x <= 0 ? 0 : x >= 6 ? 6 : x, x <= 0 || x >= 6 ? 0 : 1 };
  case SHOAL_OP_HARDSWISH:
    return (point){ x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5 };
  default: /* HARDSIGMOID */
    return (point){ x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6, x <= -3 || x >= 3 ? 0 : 1.0 / 6 };
  }
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->y[i] = (float)curve_at(&op->desc, a->x[0][i]).y;
  return SHOAL_OK;
}

static shoal_status backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t n = shoal_shape_count(&op->desc.out);
  for (int64_t i = 0; i < n; i++) a->dx[0][i] = (float)(a->dy[i] * curve_at(&op->desc, a->x[0][i]).slope);
  return SHOAL_OK;
}

void shoal_ref_plan_curve(shoal_op *op)
{
  op->forward = forward;
  op->backward_data = backward;
  op->backward_reads_x = true;
  op->y_may_be_x = !op->desc.training; /* backward reads x */
  op->dx_may_be_dy = true;
}
