/* Convolution (cross-correlation, as usual in deep learning), by its definition:
 *
 *   y[n,o,p,q] = b[o] + sum over i,u,v of  x[n, g(o) + i, p*stride-pad+u*dilation, q*stride-pad+v*dilation] * w[o,i,u,v]
 *
 * i counts the input channels of o's group, which begin at g(o); without groups they are all.
 * Forward and both gradients iterate over the same index set and differ only in what they sum. */
#include "tensor/ref/ref_impl.h"
#include <string.h>

typedef struct {
  int64_t n, ci, h, w; /* x [n,groups*ci,h,w] */
  int64_t groups;
  int64_t co, p, q; /* y [n,co,p,q] */
  int64_t kh, kw;
} sizes;

static sizes sizes_of(const shoal_op_desc *d)
{
  const int64_t *x = d->in[0].dim, *y = d->out.dim;
  int64_t groups = shoal_op_groups(d);
  return (sizes){ x[0], x[1] / groups, x[2], x[3], groups, y[1], y[2], y[3], d->kernel[0], d->kernel[1] };
}

/* Offset in a plane of x that output (p,q) reads through kernel element (u,v); false if it is padding. */
static bool source(const shoal_op_desc *d, const sizes *s, int64_t p, int64_t q, int64_t u, int64_t v, int64_t *out)
{
  int64_t row = p * d->stride[0] - d->pad[0] + u * (d->gap[0] + 1);
  int64_t column = q * d->stride[1] - d->pad[1] + v * (d->gap[1] + 1);
  *out = row * s->w + column;
  return row >= 0 && row < s->h && column >= 0 && column < s->w;
}

/* Offset in x of the first channel that output channel o of sample n reads. */
static int64_t inputs_of(const sizes *s, int64_t n, int64_t o)
{
  return (n * s->groups + o / (s->co / s->groups)) * s->ci * s->h * s->w;
}

static double dot_patch(const shoal_op *op, const sizes *s, const float *x, const float *w, int64_t p, int64_t q)
{
  double sum = 0;
  int64_t at;
  for (int64_t i = 0; i < s->ci; i++)
    for (int64_t u = 0; u < s->kh; u++)
      for (int64_t v = 0; v < s->kw; v++)
        if (source(&op->desc, s, p, q, u, v, &at))
          sum += (double)x[i * s->h * s->w + at] * w[(i * s->kh + u) * s->kw + v];
  return sum;
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  float *y = a->y;
  for (int64_t n = 0; n < s.n; n++)
    for (int64_t o = 0; o < s.co; o++) {
      const float *x = a->x[0] + inputs_of(&s, n, o), *w = a->w[0] + o * s.ci * s.kh * s.kw;
      double bias = op->desc.bias ? a->w[1][o] : 0;
      for (int64_t p = 0; p < s.p; p++)
        for (int64_t q = 0; q < s.q; q++) {
          float sum = (float)(bias + dot_patch(op, &s, x, w, p, q));
          *y++ = op->desc.relu ? shoal_ref_relu(sum) : sum;
        }
    }
  return SHOAL_OK;
}

/* One element of dw: the sum of dy times the x that each output read through kernel element (i,u,v). */
static double dw_element(const shoal_op *op, const shoal_op_args *a, const sizes *s, int64_t o, int64_t i, int64_t u,
                         int64_t v)
{
  double sum = 0;
  int64_t at;
  for (int64_t n = 0; n < s->n; n++) {
    const float *x = a->x[0] + inputs_of(s, n, o) + i * s->h * s->w;
    for (int64_t p = 0; p < s->p; p++)
      for (int64_t q = 0; q < s->q; q++)
        if (source(&op->desc, s, p, q, u, v, &at))
          sum += (double)x[at] * shoal_ref_before_relu(op, a, ((n * s->co + o) * s->p + p) * s->q + q);
  }
  return sum;
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  for (int64_t o = 0; o < s.co; o++) {
    for (int64_t i = 0; a->dw[0] && i < s.ci; i++)
      for (int64_t u = 0; u < s.kh; u++)
        for (int64_t v = 0; v < s.kw; v++)
          a->dw[0][((o * s.ci + i) * s.kh + u) * s.kw + v] = (float)dw_element(op, a, &s, o, i, u, v);
    if (!op->desc.bias) continue;
    double sum = 0;
    for (int64_t n = 0; n < s.n; n++)
      for (int64_t pq = 0; pq < s.p * s.q; pq++) sum += shoal_ref_before_relu(op, a, (n * s.co + o) * s.p * s.q + pq);
    a->dw[1][o] = (float)sum;
  }
  return SHOAL_OK;
}

/* dx is computed by scattering: each output adds dy * w to the inputs it read. */
static void scatter_patch(const shoal_op *op, const sizes *s, float dy, const float *w, int64_t p, int64_t q, float *dx)
{
  int64_t at;
  for (int64_t i = 0; i < s->ci; i++)
    for (int64_t u = 0; u < s->kh; u++)
      for (int64_t v = 0; v < s->kw; v++)
        if (source(&op->desc, s, p, q, u, v, &at)) dx[i * s->h * s->w + at] += dy * w[(i * s->kh + u) * s->kw + v];
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  memset(a->dx[0], 0, op->in_format[0].bytes);
  for (int64_t n = 0; n < s.n; n++)
    for (int64_t o = 0; o < s.co; o++)
      for (int64_t p = 0; p < s.p; p++)
        for (int64_t q = 0; q < s.q; q++)
          scatter_patch(op, &s, shoal_ref_before_relu(op, a, ((n * s.co + o) * s.p + p) * s.q + q),
                        a->w[0] + o * s.ci * s.kh * s.kw, p, q, a->dx[0] + inputs_of(&s, n, o));
  return SHOAL_OK;
}

void shoal_ref_plan_conv(shoal_op *op)
{
  op->forward = forward;
  op->backward_weights = backward_weights;
  op->backward_data = backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = op->desc.relu;
}
