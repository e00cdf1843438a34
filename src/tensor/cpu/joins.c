/* Products of two tensors, concatenation over channels and parts of them, in every memory format that own loops can read; inputs in others
 * are moved to dense.  Learned numbers, which are dense. */
#include "tensor/cpu/moves.h"
#include "tensor/cpu/view.h"
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 1024, LANES = 16 };

static shoal_format readable(const shoal_op *op, int k)
{
  const shoal_format *f = &op->in_format[k];
  return shoal_cpu_layout_of(f) == SHOAL_CPU_OTHER ? shoal_format_dense(&op->desc.in[k], SHOAL_ELEMENTS_F32) : *f;
}

/* ---- mul ---- */

typedef struct {
  shoal_op op;
  shoal_cpu_move *moves;
  shoal_mul_form form;
  shoal_cpu_view view; /* PLANES: of x0; x1 is dense [n,c] */
  int64_t rows, width; /* LAST: a sample of x0, which is dense as x1 is */
} mul_op;

typedef struct {
  const mul_op *p;
  const float *a, *b;
  float *y;
} product;

SHOAL_CPU_KERNEL static void product_range(const void *context, size_t begin, size_t end)
{
  const product *t = context;
  const float *a = t->a, *b = t->b;
  float *y = t->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) y[i] = a[i] * b[i];
}

/* y = a times b[image, channel] */
SHOAL_CPU_KERNEL static void scale_range(const void *context, size_t begin, size_t end)
{
  const product *t = context;
  const shoal_cpu_view *v = &t->p->view;
  for (size_t i = begin; i < end; i++) {
    int64_t image = (int64_t)i / v->groups, group = (int64_t)i % v->groups, at = shoal_cpu_unit_at(v, image, group);
    int valid = shoal_cpu_valid(v, group), stored = shoal_cpu_stored(v, group);
    const float *a = t->a + at;
    float *y = t->y + at, s[LANES] = { 0 };
    for (int j = 0; j < valid; j++) s[j] = t->b[image * v->channels + group * v->lanes + j];
    if (v->lanes == 1) {
      for (int64_t r = 0; r < v->rows; r++) y[r] = a[r] * s[0];
    } else if (stored == LANES) {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < LANES; j++) y[r * v->row_stride + j] = a[r * v->row_stride + j] * s[j];
    } else {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < stored; j++) y[r * v->row_stride + j] = a[r * v->row_stride + j] * s[j];
    }
  }
}

/* y[image, channel] = sum of a b over the plane */
SHOAL_CPU_KERNEL static void dot_range(const void *context, size_t begin, size_t end)
{
  const product *t = context;
  const shoal_cpu_view *v = &t->p->view;
  for (size_t i = begin; i < end; i++) {
    int64_t image = (int64_t)i / v->groups, group = (int64_t)i % v->groups, at = shoal_cpu_unit_at(v, image, group);
    int valid = shoal_cpu_valid(v, group);
    const float *a = t->a + at, *b = t->b + at;
    double sum[LANES] = { 0 };
    for (int64_t r = 0; r < v->rows; r++)
      for (int j = 0; j < valid; j++) sum[j] += (double)a[r * v->row_stride + j] * (double)b[r * v->row_stride + j];
    for (int j = 0; j < valid; j++) t->y[image * v->channels + group * v->lanes + j] = (float)sum[j];
  }
}

/* y = a times b[sample, column] */
SHOAL_CPU_KERNEL static void scale_rows(const void *context, size_t begin, size_t end)
{
  const product *t = context;
  const int64_t width = t->p->width;
  for (size_t i = begin; i < end; i++) {
    const float *a = t->a + (int64_t)i * width, *b = t->b + (int64_t)i / t->p->rows * width;
    float *y = t->y + (int64_t)i * width;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) y[j] = a[j] * b[j];
  }
}

/* y[sample, column] = sum of a b over the rows, for some columns of a sample each */
SHOAL_CPU_KERNEL static void dot_rows(const void *context, size_t begin, size_t end)
{
  const product *t = context;
  const int64_t width = t->p->width, pieces = (width + LANES - 1) / LANES;
  for (size_t i = begin; i < end; i++) {
    int64_t sample = (int64_t)i / pieces, column = (int64_t)i % pieces * LANES;
    int n = (int)SHOAL_MIN((int64_t)LANES, width - column);
    const float *a = t->a + sample * t->p->rows * width + column, *b = t->b + sample * t->p->rows * width + column;
    double sum[LANES] = { 0 };
    for (int64_t r = 0; r < t->p->rows; r++)
      for (int j = 0; j < n; j++) sum[j] += (double)a[r * width + j] * (double)b[r * width + j];
    for (int j = 0; j < n; j++) t->y[sample * width + column + j] = (float)sum[j];
  }
}

static void multiply(const shoal_op *op, const float *a, const float *b, float *y)
{
  product t = { .a = a, .b = b, .y = y };
  shoal_cpu_parallel(shoal_cpu_of(op), op->out_format.bytes / sizeof(float), GRAIN, 3 * sizeof(float), product_range,
                     &t);
}

/* y = a b, where b is the second input, or shaped as it */
static void scale(const shoal_op *op, const float *a, const float *b, float *y)
{
  const mul_op *p = (const mul_op *)op;
  product t = { p, a, b, y };
  if (p->form == SHOAL_MUL_ALIKE)
    multiply(op, a, b, y);
  else if (p->form == SHOAL_MUL_PLANES)
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(p->view.images * p->view.groups), 1,
                       (size_t)p->view.rows * (size_t)p->view.lanes * 2 * sizeof(float), scale_range, &t);
  else
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(op->desc.out.dim[0] * p->rows), 1,
                       (size_t)p->width * 2 * sizeof(float), scale_rows, &t);
}

/* y = the sum of a b over what one number of the second input scales */
static void gather(const shoal_op *op, const float *a, const float *b, float *y)
{
  const mul_op *p = (const mul_op *)op;
  product t = { p, a, b, y };
  if (p->form == SHOAL_MUL_ALIKE)
    multiply(op, a, b, y);
  else if (p->form == SHOAL_MUL_PLANES)
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(p->view.images * p->view.groups), 1,
                       (size_t)p->view.rows * (size_t)p->view.lanes * 2 * sizeof(float), dot_range, &t);
  else
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(op->desc.out.dim[0] * ((p->width + LANES - 1) / LANES)), 1,
                       (size_t)p->rows * LANES * 2 * sizeof(float), dot_rows, &t);
}

static shoal_status mul_forward(shoal_op *op, const shoal_op_args *a)
{
  const mul_op *p = (mul_op *)op;
  const float *x0, *x1;
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[0], a, a->x[0], &x0));
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[1], a, a->x[1], &x1));
  scale(op, x0, x1, a->y);
  return SHOAL_OK;
}

/* The gradient of an input that is moved takes its place in scratch, when the other's is done. */
static shoal_status mul_backward(shoal_op *op, const shoal_op_args *a)
{
  const mul_op *p = (mul_op *)op;
  const float *x0, *x1;
  float *dx0 = shoal_cpu_move_target(&p->moves[0], a, a->dx[0]);
  float *dx1 = shoal_cpu_move_target(&p->moves[1], a, a->dx[1]);
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[1], a, a->x[1], &x1));
  scale(op, a->dy, x1, dx0);
  SHOAL_TRY(shoal_cpu_move_out(op, &p->moves[0], a, dx0, a->dx[0]));
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[0], a, a->x[0], &x0));
  gather(op, a->dy, x0, dx1);
  return shoal_cpu_move_out(op, &p->moves[1], a, dx1, a->dx[1]);
}

static void mul_destroy(shoal_op *op)
{
  shoal_cpu_moves_free(op, ((mul_op *)op)->moves);
  free(op);
}

shoal_status shoal_cpu_plan_mul(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  mul_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  shoal_status st = SHOAL_OK;
  op->destroy = mul_destroy;
  p->form = shoal_op_mul_form(d);
  p->width = d->in[0].dim[d->in[0].ndim - 1];
  p->rows = shoal_shape_count(&d->in[0]) / d->in[0].dim[0] / p->width;
  op->out_format = p->form == SHOAL_MUL_LAST ? shoal_format_dense(&d->in[0], SHOAL_ELEMENTS_F32) : readable(op, 0);
  const shoal_format wanted[] = { op->out_format, p->form == SHOAL_MUL_ALIKE
                                                      ? op->out_format
                                                      : shoal_format_dense(&d->in[1], SHOAL_ELEMENTS_F32) };
  if (p->form == SHOAL_MUL_PLANES)
    st = shoal_cpu_view_of_layout(&d->in[0], shoal_cpu_layout_of(&op->out_format), &p->view);
  if (st == SHOAL_OK) st = shoal_cpu_moves_plan(b, op, wanted, &p->moves);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = mul_forward;
  op->backward_data = mul_backward;
  op->backward_reads_x = true;
  *out = op;
  return SHOAL_OK;
}

/* ---- concat ---- */

typedef struct {
  shoal_op op;
  shoal_cpu_move *moves;
  shoal_cpu_view whole, *part; /* [inputs] */
} concat_op;

typedef struct {
  const shoal_cpu_view *from, *to;
  int64_t from_channel, to_channel, channels;
  const float *x;
  float *y;
  bool clears; /* `to` has all its channels of this copy alone */
} channels_copy;

/* As many channels at a time as lie side by side on both sides. */
SHOAL_CPU_KERNEL static void copy_channels(const void *context, size_t begin, size_t end)
{
  const channels_copy *t = context;
  const shoal_cpu_view *f = t->from, *g = t->to;
  for (int64_t image = (int64_t)begin; image < (int64_t)end; image++) {
    for (int64_t c = 0, n; c < t->channels; c += n) {
      int64_t i = t->from_channel + c, j = t->to_channel + c;
      const float *x = t->x + shoal_cpu_unit_at(f, image, i / f->lanes) + i % f->lanes;
      float *y = t->y + shoal_cpu_unit_at(g, image, j / g->lanes) + j % g->lanes;
      n = SHOAL_MIN(SHOAL_MIN(f->lanes - i % f->lanes, g->lanes - j % g->lanes), t->channels - c);
      if (f->row_stride == 1 && g->row_stride == 1)
        memcpy(y, x, (size_t)f->rows * sizeof *y);
      else
        for (int64_t r = 0; r < f->rows; r++)
          for (int64_t k = 0; k < n; k++) y[r * g->row_stride + k] = x[r * f->row_stride + k];
    }
    if (t->clears && g->padded) shoal_cpu_clear_padding(g, image, t->y);
  }
}

static void copy(const shoal_op *op, const channels_copy *t)
{
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)t->from->images, 1,
                     (size_t)(t->channels * t->from->rows) * 2 * sizeof(float), copy_channels, t);
}

static shoal_status concat_forward(shoal_op *op, const shoal_op_args *a)
{
  const concat_op *p = (concat_op *)op;
  int64_t at = 0;
  int last = shoal_op_inputs(&op->desc) - 1;
  for (int k = 0; k <= last; k++) {
    channels_copy t = { &p->part[k], &p->whole, 0, at, p->part[k].channels, NULL, a->y, k == last };
    SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[k], a, a->x[k], &t.x));
    copy(op, &t);
    at += t.channels;
  }
  return SHOAL_OK;
}

static shoal_status concat_backward(shoal_op *op, const shoal_op_args *a)
{
  const concat_op *p = (concat_op *)op;
  int64_t at = 0;
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++) {
    float *dx = shoal_cpu_move_target(&p->moves[k], a, a->dx[k]);
    channels_copy t = { &p->whole, &p->part[k], at, 0, p->part[k].channels, a->dy, dx, true };
    if (dx) copy(op, &t);
    SHOAL_TRY(shoal_cpu_move_out(op, &p->moves[k], a, dx, a->dx[k]));
    at += t.channels;
  }
  return SHOAL_OK;
}

static void concat_destroy(shoal_op *op)
{
  concat_op *p = (concat_op *)op;
  shoal_cpu_moves_free(op, p->moves);
  free(p->part);
  free(p);
}

/* The output has the layout of the first input that is not dense. */
static shoal_status plan_concat(shoal_cpu *b, concat_op *p)
{
  shoal_op *op = &p->op;
  int n = shoal_op_inputs(&op->desc);
  shoal_format wanted[SHOAL_OP_INPUTS];
  shoal_cpu_layout layout = SHOAL_CPU_DENSE;
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, &p->part));
  for (int k = 0; k < n; k++) {
    wanted[k] = readable(op, k);
    if (layout == SHOAL_CPU_DENSE) layout = shoal_cpu_layout_of(&wanted[k]);
    SHOAL_TRY(shoal_cpu_view_of_planes(&op->desc.in[k], &wanted[k], &p->part[k]));
  }
  if (layout != SHOAL_CPU_DENSE)
    SHOAL_TRY(shoal_cpu_format_of_layout(b, &op->desc.out, SHOAL_ELEMENTS_F32, layout, &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_planes(&op->desc.out, &op->out_format, &p->whole));
  return shoal_cpu_moves_plan(b, op, wanted, &p->moves);
}

shoal_status shoal_cpu_plan_concat(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  concat_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = concat_destroy;
  shoal_status st = plan_concat(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = concat_forward;
  op->backward_data = concat_backward;
  *out = op;
  return SHOAL_OK;
}

/* ---- slice ---- */

typedef struct {
  shoal_op op;
  shoal_cpu_move *moves;
  shoal_cpu_view whole, part;
  size_t bytes; /* of the input, as it is read */
} slice_op;

static shoal_status slice_forward(shoal_op *op, const shoal_op_args *a)
{
  const slice_op *p = (slice_op *)op;
  channels_copy t = { &p->whole, &p->part, op->desc.first, 0, p->part.channels, NULL, a->y, true };
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[0], a, a->x[0], &t.x));
  copy(op, &t);
  return SHOAL_OK;
}

static shoal_status slice_backward(shoal_op *op, const shoal_op_args *a)
{
  const slice_op *p = (slice_op *)op;
  float *dx = shoal_cpu_move_target(&p->moves[0], a, a->dx[0]);
  channels_copy t = { &p->part, &p->whole, 0, op->desc.first, p->part.channels, a->dy, dx, false };
  memset(dx, 0, p->bytes);
  copy(op, &t);
  return shoal_cpu_move_out(op, &p->moves[0], a, dx, a->dx[0]);
}

static void slice_destroy(shoal_op *op)
{
  shoal_cpu_moves_free(op, ((slice_op *)op)->moves);
  free(op);
}

/* The output has the layout of the input. */
static shoal_status plan_slice(shoal_cpu *b, slice_op *p)
{
  shoal_op *op = &p->op;
  const shoal_format wanted = readable(op, 0);
  const shoal_cpu_layout layout = shoal_cpu_layout_of(&wanted);
  p->bytes = wanted.bytes;
  if (layout != SHOAL_CPU_DENSE)
    SHOAL_TRY(shoal_cpu_format_of_layout(b, &op->desc.out, SHOAL_ELEMENTS_F32, layout, &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_planes(&op->desc.in[0], &wanted, &p->whole));
  SHOAL_TRY(shoal_cpu_view_of_planes(&op->desc.out, &op->out_format, &p->part));
  return shoal_cpu_moves_plan(b, op, &wanted, &p->moves);
}

shoal_status shoal_cpu_plan_slice(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  slice_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = slice_destroy;
  shoal_status st = plan_slice(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = slice_forward;
  op->backward_data = slice_backward;
  *out = op;
  return SHOAL_OK;
}

/* ---- parameter ---- */

typedef struct {
  const float *x;
  float *y;
  size_t samples, each;
} spread;

static void spread_range(const void *context, size_t begin, size_t end)
{
  const spread *t = context;
  for (size_t i = begin; i < end; i++) memcpy(t->y + i * t->each, t->x, t->each * sizeof *t->y);
}

SHOAL_CPU_KERNEL static void gather_range(const void *context, size_t begin, size_t end)
{
  const spread *t = context;
  for (size_t e = begin; e < end; e += LANES) {
    double sum[LANES] = { 0 };
    size_t n = SHOAL_MIN((size_t)LANES, end - e);
    for (size_t i = 0; i < t->samples; i++)
      for (size_t k = 0; k < n; k++) sum[k] += (double)t->x[i * t->each + e + k];
    for (size_t k = 0; k < n; k++) t->y[e + k] = (float)sum[k];
  }
}

static spread spread_of(const shoal_op *op, const float *x, float *y)
{
  size_t samples = (size_t)op->desc.out.dim[0];
  return (spread){ x, y, samples, (size_t)shoal_shape_count(&op->desc.out) / samples };
}

static shoal_status parameter_forward(shoal_op *op, const shoal_op_args *a)
{
  spread t = spread_of(op, a->w[0], a->y);
  shoal_cpu_parallel(shoal_cpu_of(op), t.samples, 1, 2 * t.each * sizeof(float), spread_range, &t);
  return SHOAL_OK;
}

static shoal_status parameter_backward(shoal_op *op, const shoal_op_args *a)
{
  spread t = spread_of(op, a->dy, a->dw[0]);
  shoal_cpu_parallel(shoal_cpu_of(op), t.each, LANES, t.samples * sizeof(float), gather_range, &t);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_parameter(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof **out, out));
  (*out)->forward = parameter_forward;
  (*out)->backward_weights = parameter_backward;
  return SHOAL_OK;
}
