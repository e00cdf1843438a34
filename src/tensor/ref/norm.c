/* Normalisation: over the batch for each channel, or over the last dimension for each row.
 *
 *   xhat = (x - mean) / sqrt(var + eps),   y = scale * xhat + shift
 *
 * Both directions are written per group of values that share a mean.  With g = dy * scale and sums over the group,
 *
 *   dscale = sum dy*xhat,  dshift = sum dy,  dx = (g - mean(g) - xhat * mean(g * xhat)) / sqrt(var + eps)
 *
 * (Ioffe and Szegedy, ICML 2015; Ba et al., 2016.)  Statistics follow PyTorch: the biased variance normalises, the
 * unbiased one enters the running average.  Means and rates are kept in `saved` as doubles: [groups][2]. */
#include "tensor/ref/ref_impl.h"
#include <math.h>
#include <string.h>

enum { MEAN, RATE }; /* RATE = 1 / sqrt(var + eps) */

/* Batch norm: element e of channel c lies at (e / plane) * channels * plane + c * plane + e % plane. */
typedef struct {
  int64_t channels, plane, count; /* count: values per channel */
} channels;

static channels channels_of(const shoal_op_desc *d)
{
  const shoal_shape *x = &d->in[0];
  int64_t plane = shoal_shape_count(x) / (x->dim[0] * x->dim[1]);
  return (channels){ x->dim[1], plane, x->dim[0] * plane };
}

static int64_t at(const channels *s, int64_t c, int64_t e)
{
  return (e / s->plane * s->channels + c) * s->plane + e % s->plane;
}

static void batch_statistics(const channels *s, const float *x, int64_t c, double *mean, double *var)
{
  double sum = 0, squares = 0;
  for (int64_t e = 0; e < s->count; e++) sum += x[at(s, c, e)];
  *mean = sum / (double)s->count;
  for (int64_t e = 0; e < s->count; e++) squares += pow(x[at(s, c, e)] - *mean, 2);
  *var = squares / (double)s->count;
}

static void update_running(const shoal_op *op, const shoal_op_args *a, int64_t c, int64_t count, double mean,
                           double var)
{
  double m = op->desc.momentum, unbiased = var * (double)count / (double)(count - 1);
  if (!a->stats[0]) return;
  a->stats[0][c] = (float)((1 - m) * a->stats[0][c] + m * mean);
  a->stats[1][c] = (float)((1 - m) * a->stats[1][c] + m * unbiased);
}

static shoal_status batchnorm_forward(shoal_op *op, const shoal_op_args *a)
{
  channels s = channels_of(&op->desc);
  double(*saved)[2] = a->saved;
  for (int64_t c = 0; c < s.channels; c++) {
    double mean, var;
    if (op->desc.training) {
      batch_statistics(&s, a->x[0], c, &mean, &var);
      update_running(op, a, c, s.count, mean, var);
    } else {
      mean = a->stats[0][c];
      var = a->stats[1][c];
    }
    double rate = 1 / sqrt(var + op->desc.eps);
    if (op->desc.training) {
      saved[c][MEAN] = mean;
      saved[c][RATE] = rate;
    }
    for (int64_t e = 0; e < s.count; e++) {
      int64_t i = at(&s, c, e);
      float y = (float)((a->x[0][i] - mean) * rate * a->w[0][c] + a->w[1][c]);
      a->y[i] = op->desc.relu ? shoal_ref_relu(y) : y;
    }
  }
  return SHOAL_OK;
}

static shoal_status batchnorm_backward(shoal_op *op, const shoal_op_args *a)
{
  channels s = channels_of(&op->desc);
  double(*saved)[2] = a->saved;
  for (int64_t c = 0; c < s.channels; c++) {
    double mean = saved[c][MEAN], rate = saved[c][RATE], dshift = 0, dscale = 0;
    for (int64_t e = 0; e < s.count; e++) {
      int64_t i = at(&s, c, e);
      double dy = shoal_ref_before_relu(op, a, i);
      dshift += dy;
      dscale += dy * (a->x[0][i] - mean) * rate;
    }
    a->dw[0][c] = (float)dscale;
    a->dw[1][c] = (float)dshift;
    if (!op->desc.need_dx) continue;
    for (int64_t e = 0; e < s.count; e++) {
      int64_t i = at(&s, c, e);
      double xhat = (a->x[0][i] - mean) * rate, dy = shoal_ref_before_relu(op, a, i);
      a->dx[0][i] = (float)(a->w[0][c] * rate * (dy - (dshift + xhat * dscale) / (double)s.count));
    }
  }
  return SHOAL_OK;
}

void shoal_ref_plan_batchnorm(shoal_op *op)
{
  op->forward = batchnorm_forward;
  op->backward_data = batchnorm_backward;
  op->dw_with_dx = op->desc.training;
  op->backward_reads_x = true;
  op->backward_reads_y = op->desc.relu;
  op->dx_may_be_dy = true;
  if (op->desc.training)
    op->saved_bytes = (size_t)op->desc.in[0].dim[1] * 2 * sizeof(double);
  else
    op->y_may_be_x = true;
}

static int64_t width_of(const shoal_op *op)
{
  const shoal_shape *x = &op->desc.in[0];
  return x->dim[x->ndim - 1];
}

static shoal_status layernorm_forward(shoal_op *op, const shoal_op_args *a)
{
  int64_t width = width_of(op), rows = shoal_shape_count(&op->desc.in[0]) / width;
  double(*saved)[2] = a->saved;
  for (int64_t r = 0; r < rows; r++) {
    const float *x = a->x[0] + r * width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; i++) sum += x[i];
    double mean = sum / (double)width;
    for (int64_t i = 0; i < width; i++) squares += pow(x[i] - mean, 2);
    double rate = 1 / sqrt(squares / (double)width + op->desc.eps);
    if (op->desc.training) {
      saved[r][MEAN] = mean;
      saved[r][RATE] = rate;
    }
    for (int64_t i = 0; i < width; i++) a->y[r * width + i] = (float)((x[i] - mean) * rate * a->w[0][i] + a->w[1][i]);
  }
  return SHOAL_OK;
}

static void layernorm_dw(int64_t rows, int64_t width, const double (*saved)[2], const shoal_op_args *a)
{
  for (int64_t i = 0; i < width; i++) {
    double dscale = 0, dshift = 0;
    for (int64_t r = 0; r < rows; r++) {
      double dy = a->dy[r * width + i];
      dscale += dy * (a->x[0][r * width + i] - saved[r][MEAN]) * saved[r][RATE];
      dshift += dy;
    }
    a->dw[0][i] = (float)dscale;
    a->dw[1][i] = (float)dshift;
  }
}

static shoal_status layernorm_backward(shoal_op *op, const shoal_op_args *a)
{
  int64_t width = width_of(op), rows = shoal_shape_count(&op->desc.in[0]) / width;
  const double(*saved)[2] = a->saved;
  layernorm_dw(rows, width, saved, a);
  for (int64_t r = 0; r < rows && op->desc.need_dx; r++) {
    const float *x = a->x[0] + r * width, *dy = a->dy + r * width;
    double mean = saved[r][MEAN], rate = saved[r][RATE], mean_g = 0, mean_gx = 0;
    for (int64_t i = 0; i < width; i++) {
      double g = (double)dy[i] * a->w[0][i];
      mean_g += g / (double)width;
      mean_gx += g * (x[i] - mean) * rate / (double)width;
    }
    for (int64_t i = 0; i < width; i++) {
      double g = (double)dy[i] * a->w[0][i], xhat = (x[i] - mean) * rate;
      a->dx[0][r * width + i] = (float)(rate * (g - mean_g - xhat * mean_gx));
    }
  }
  return SHOAL_OK;
}

void shoal_ref_plan_layernorm(shoal_op *op)
{
  op->forward = layernorm_forward;
  op->backward_data = layernorm_backward;
  op->dw_with_dx = op->desc.training;
  op->backward_reads_x = true;
  op->dx_may_be_dy = true;
  size_t rows = (size_t)(shoal_shape_count(&op->desc.in[0]) / width_of(op));
  if (op->desc.training)
    op->saved_bytes = rows * 2 * sizeof(double);
  else
    op->y_may_be_x = true;
}
