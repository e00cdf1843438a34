/* Pooling: the largest or the mean of each window, or the mean of the whole plane.
 *
 * Padding is excluded from the maximum, and from the count of a mean unless that says otherwise.  Of equal maxima the first in scan order is
 * chosen, and `saved` holds its offset in the plane (one int64 per output), so backward needs neither x nor y.  A NaN
 * counts as the maximum, so that it propagates. */
#include "tensor/ref/ref_impl.h"
#include <math.h>
#include <string.h>

/* The window of output (p,q), clipped to the plane: rows [top, bottom), columns [left, right).  Never empty. */
typedef struct {
  int64_t top, bottom, left, right;
} window;

static void cut(int64_t begin, int64_t kernel, int64_t size, int64_t *from, int64_t *to)
{
  *from = begin < 0 ? 0 : begin;
  *to = begin + kernel > size ? size : begin + kernel;
}

static window window_of(const shoal_op_desc *d, int64_t pq)
{
  int64_t p = pq / d->out.dim[3], q = pq % d->out.dim[3];
  window r;
  cut(p * d->stride[0] - d->pad[0], d->kernel[0], d->in[0].dim[2], &r.top, &r.bottom);
  cut(q * d->stride[1] - d->pad[1], d->kernel[1], d->in[0].dim[3], &r.left, &r.right);
  return r;
}

/* Planes are independent: x has [n*c] planes of h*w, y as many of h'*w'. */
typedef struct {
  int64_t planes, in, out, width;
} sizes;

static sizes sizes_of(const shoal_op_desc *d)
{
  const int64_t *x = d->in[0].dim, *y = d->out.dim;
  return (sizes){ x[0] * x[1], x[2] * x[3], d->kind == SHOAL_OP_GLOBALPOOL ? 1 : y[2] * y[3], x[3] };
}

static int64_t find_largest(const float *x, const window *r, int64_t width)
{
  int64_t best = r->top * width + r->left;
  for (int64_t i = r->top; i < r->bottom; i++)
    for (int64_t j = r->left; j < r->right; j++) {
      float v = x[i * width + j];
      if (v > x[best] || (isnan(v) && !isnan(x[best]))) best = i * width + j;
    }
  return best;
}

static shoal_status maxpool_forward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  int64_t *winner = a->saved;
  for (int64_t plane = 0; plane < s.planes; plane++)
    for (int64_t pq = 0; pq < s.out; pq++) {
      const float *x = a->x[0] + plane * s.in;
      window r = window_of(&op->desc, pq);
      int64_t best = find_largest(x, &r, s.width);
      a->y[plane * s.out + pq] = x[best];
      if (op->desc.training) winner[plane * s.out + pq] = best;
    }
  return SHOAL_OK;
}

static shoal_status maxpool_backward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  const int64_t *winner = a->saved;
  memset(a->dx[0], 0, op->in_format[0].bytes);
  for (int64_t plane = 0; plane < s.planes; plane++)
    for (int64_t pq = 0; pq < s.out; pq++) {
      int64_t i = plane * s.out + pq;
      a->dx[0][plane * s.in + winner[i]] += a->dy[i];
    }
  return SHOAL_OK;
}

void shoal_ref_plan_maxpool(shoal_op *op)
{
  op->forward = maxpool_forward;
  op->backward_data = maxpool_backward;
  if (op->desc.training) op->saved_bytes = (size_t)shoal_shape_count(&op->desc.out) * sizeof(int64_t);
}

/* How many values it is the mean of. */
static double window_area(const shoal_op_desc *d, int64_t pq)
{
  window r = window_of(d, pq);
  if (!d->count_pad) return (double)((r.bottom - r.top) * (r.right - r.left));
  int64_t top = pq / d->out.dim[3] * d->stride[0] - d->pad[0], left = pq % d->out.dim[3] * d->stride[1] - d->pad[1];
  int64_t bottom = d->in[0].dim[2] + d->pad[0], right = d->in[0].dim[3] + d->pad[1];
  if (bottom > top + d->kernel[0]) bottom = top + d->kernel[0];
  if (right > left + d->kernel[1]) right = left + d->kernel[1];
  return (double)((bottom - top) * (right - left));
}

static shoal_status avgpool_forward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  for (int64_t plane = 0; plane < s.planes; plane++)
    for (int64_t pq = 0; pq < s.out; pq++) {
      window r = window_of(&op->desc, pq);
      double sum = 0;
      for (int64_t i = r.top; i < r.bottom; i++)
        for (int64_t j = r.left; j < r.right; j++) sum += a->x[0][plane * s.in + i * s.width + j];
      a->y[plane * s.out + pq] = (float)(sum / window_area(&op->desc, pq));
    }
  return SHOAL_OK;
}

static shoal_status avgpool_backward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  memset(a->dx[0], 0, op->in_format[0].bytes);
  for (int64_t plane = 0; plane < s.planes; plane++)
    for (int64_t pq = 0; pq < s.out; pq++) {
      window r = window_of(&op->desc, pq);
      float share = (float)(a->dy[plane * s.out + pq] / window_area(&op->desc, pq));
      for (int64_t i = r.top; i < r.bottom; i++)
        for (int64_t j = r.left; j < r.right; j++) a->dx[0][plane * s.in + i * s.width + j] += share;
    }
  return SHOAL_OK;
}

void shoal_ref_plan_avgpool(shoal_op *op)
{
  op->forward = avgpool_forward;
  op->backward_data = avgpool_backward;
}

static shoal_status globalpool_forward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  for (int64_t plane = 0; plane < s.planes; plane++) {
    double sum = 0;
    for (int64_t i = 0; i < s.in; i++) sum += a->x[0][plane * s.in + i];
    a->y[plane] = (float)(sum / (double)s.in);
  }
  return SHOAL_OK;
}

static shoal_status globalpool_backward(shoal_op *op, const shoal_op_args *a)
{
  sizes s = sizes_of(&op->desc);
  for (int64_t plane = 0; plane < s.planes; plane++)
    for (int64_t i = 0; i < s.in; i++) a->dx[0][plane * s.in + i] = (float)(a->dy[plane] / (double)s.in);
  return SHOAL_OK;
}

void shoal_ref_plan_globalpool(shoal_op *op)
{
  op->forward = globalpool_forward;
  op->backward_data = globalpool_backward;
}
