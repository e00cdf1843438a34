/* Activations y = f(x), element by element, in the memory format of their input.
 *
 * Storage is gone through in order, padding included.  Where f(0) is not 0, the padding is cleared behind it, because every
 * operation keeps it zero (cpu_impl.h). */
#include "tensor/cpu/vecmath.h"
#include "tensor/cpu/view.h"
#include <math.h>

enum { GRAIN = 1024 };

typedef struct {
  shoal_op op;
  bool clears; /* f(0) != 0, and the format has padding */
  shoal_cpu_view view;
} curve_op;

typedef struct {
  const float *x, *dy;
  float *to; /* y or dx */
  float slope;
} pass;

#define CURVE(name) static inline __attribute__((always_inline)) float name##_at(float x, float low, float *slope)
#define LOOPS(name)                                                                                                    \
  SHOAL_CPU_KERNEL static void name##_range(const void *context, size_t begin, size_t end)                             \
  {                                                                                                                    \
    const pass *p = context;                                                                                           \
    const float *x = p->x, low = p->slope;                                                                             \
    float *y = p->to;                                                                                                  \
    _Pragma("omp simd") for (size_t i = begin; i < end; i++)                                                           \
    {                                                                                                                  \
      float slope;                                                                                                     \
      y[i] = name##_at(x[i], low, &slope);                                                                             \
    }                                                                                                                  \
  }                                                                                                                    \
  SHOAL_CPU_KERNEL static void name##_back_range(const void *context, size_t begin, size_t end)                        \
  {                                                                                                                    \
    const pass *p = context;                                                                                           \
    const float *x = p->x, *dy = p->dy, low = p->slope;                                                                \
    float *dx = p->to;                                                                                                 \
    _Pragma("omp simd") for (size_t i = begin; i < end; i++)                                                           \
    {                                                                                                                  \
      float slope;                                                                                                     \
      (void)name##_at(x[i], low, &slope);                                                                              \
      dx[i] = dy[i] * slope;                                                                                           \
    }                                                                                                                  \
  }

/* x Phi(x); derivative Phi(x) + x phi(x) (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016). */
CURVE(gelu)
{
  float density, cdf = shoal_cpu_normal(x, &density);
  *slope = cdf + x * density;
  return x * cdf;
}
LOOPS(gelu)

/* x/2 (1 + tanh u) = x sigmoid(2u) */
CURVE(gelu_tanh)
{
  const float k = 1.59576912f, c = 0.044715f; /* 2 sqrt(2 / pi) */
  float steep, s = shoal_cpu_sigmoid(k * (x + c * x * x * x), &steep);
  *slope = s + x * steep * k * (1.0f + 3.0f * c * x * x);
  return x * s;
}
LOOPS(gelu_tanh)

CURVE(sigmoid)
{
  return shoal_cpu_sigmoid(x, slope);
}
LOOPS(sigmoid)

CURVE(tanh)
{
  return shoal_cpu_tanh(x, slope);
}
LOOPS(tanh)

CURVE(silu)
{
  float steep, s = shoal_cpu_sigmoid(x, &steep);
  *slope = s + x * steep;
  return x * s;
}
LOOPS(silu)

CURVE(leakyrelu)
{
  *slope = x > 0 ? 1.0f : low;
  return x > 0 ? x : low * x;
}
LOOPS(leakyrelu)

/* A NaN is neither below nor above, and stays one; as that of a relu, its gradient passes. */
CURVE(relu6)
{
  *slope = x <= 0 ? 0.0f : x >= 6 ? 0.0f : 1.0f;
  return x <= 0 ? 0.0f : x >= 6 ? 6.0f : x;
}
LOOPS(relu6)

CURVE(hardswish)
{
  *slope = x <= -3 ? 0.0f : x >= 3 ? 1.0f : x * (1.0f / 3) + 0.5f;
  return x <= -3 ? 0.0f : x >= 3 ? x : x * (x + 3) * (1.0f / 6);
}
LOOPS(hardswish)

CURVE(hardsigmoid)
{
  *slope = x <= -3 ? 0.0f : x >= 3 ? 0.0f : 1.0f / 6;
  return x <= -3 ? 0.0f : x >= 3 ? 1.0f : (x + 3) * (1.0f / 6);
}
LOOPS(hardsigmoid)

static const struct {
  shoal_cpu_range *forward, *backward;
  bool lifts_zero; /* f(0) != 0 */
} curves[SHOAL_OP_COUNT] = {
  [SHOAL_OP_GELU] = { gelu_range, gelu_back_range },
  [SHOAL_OP_GELU_TANH] = { gelu_tanh_range, gelu_tanh_back_range },
  [SHOAL_OP_SIGMOID] = { sigmoid_range, sigmoid_back_range, true },
  [SHOAL_OP_TANH] = { tanh_range, tanh_back_range },
  [SHOAL_OP_SILU] = { silu_range, silu_back_range },
  [SHOAL_OP_LEAKYRELU] = { leakyrelu_range, leakyrelu_back_range },
  [SHOAL_OP_RELU6] = { relu6_range, relu6_back_range },
  [SHOAL_OP_HARDSWISH] = { hardswish_range, hardswish_back_range },
  [SHOAL_OP_HARDSIGMOID] = { hardsigmoid_range, hardsigmoid_back_range, true },
};

static void run(const shoal_op *op, int streams, shoal_cpu_range *f, pass p)
{
  p.slope = op->desc.slope;
  shoal_cpu_parallel(shoal_cpu_of(op), op->out_format.bytes / sizeof(float), GRAIN, (size_t)streams * sizeof(float), f,
                     &p);
}

typedef struct {
  const shoal_cpu_view *v;
  float *y;
} padding;

static void clear_range(const void *context, size_t begin, size_t end)
{
  const padding *t = context;
  for (size_t image = begin; image < end; image++) shoal_cpu_clear_padding(t->v, (int64_t)image, t->y);
}

static shoal_status curve_forward(shoal_op *op, const shoal_op_args *a)
{
  const curve_op *p = (curve_op *)op;
  padding t = { &p->view, a->y };
  run(op, 4, curves[op->desc.kind].forward, (pass){ .x = a->x[0], .to = a->y });
  if (p->clears)
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)p->view.images, 1, (size_t)p->view.rows * 16 * sizeof(float),
                       clear_range, &t);
  return SHOAL_OK;
}

static shoal_status curve_backward(shoal_op *op, const shoal_op_args *a)
{
  run(op, 5, curves[op->desc.kind].backward, (pass){ .x = a->x[0], .dy = a->dy, .to = a->dx[0] });
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_curve(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  curve_op *p;
  bool lifts = curves[d->kind].lifts_zero;
  if (lifts && in && shoal_cpu_layout_of(&in[0]) == SHOAL_CPU_OTHER)
    return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_curve, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->out_format = op->in_format[0];
  if (lifts && !op->out_format.dense) {
    shoal_status st = shoal_cpu_view_of(&d->in[0], &op->out_format, &p->view);
    if (st != SHOAL_OK) {
      op->destroy(op);
      return st;
    }
    p->clears = p->view.padded && p->view.channels % p->view.lanes > 0;
  }
  op->forward = curve_forward;
  op->backward_data = curve_backward;
  op->backward_reads_x = true;
  op->y_may_be_x = !d->training; /* backward reads x */
  op->dx_may_be_dy = true;
  *out = op;
  return SHOAL_OK;
}
