/* Batch norm with fused relu, for every format, in as few passes over memory as the formula allows.
 *
 *   y = (x - mean) a + shift,  a = scale / sqrt(var + eps)
 *   dscale = rate * S2,  dshift = S1,  dx = a (dy - S1/n - (x - mean) rate^2 S2/n),  S1 = sum dy,  S2 = sum dy (x - mean)
 *
 * (Ioffe and Szegedy, ICML 2015.)  oneDNN has this too; own loops have three advantages.  Mean and variance come from
 * one read of x: a tile of 256 positions stays in the L1 cache for the second pass, and tiles are combined by the exact
 * formula (Chan, Golub, LeVeque 1979).  The mask of the relu is recomputed from x instead of being stored.  Channels
 * are processed in groups small enough that x is still in the L2 cache when it is normalised.
 *
 * Sums are computed per image and combined in image order, so the bits do not depend on the number of threads.  Full
 * rows of 16 lanes are computed in floats; the few positions and channels that do not fill a row in doubles, at no
 * measurable cost.  `saved`: mean and rate as doubles, [2][channels]. */
#include "tensor/cpu/vector.h"
#include "tensor/cpu/view.h"
#include <math.h>
#include <stdlib.h>

enum { TILE = 256, WORK_SET = 1 << 20, LANES = 16 };

/* Per channel: MEAN, A and SHIFT make y; A, MINUS_B and MINUS_C make dx = A dy - MINUS_B (x - mean) - MINUS_C. */
enum { MEAN, A, SHIFT, MINUS_B, MINUS_C, COEFFICIENTS };

typedef struct {
  shoal_op op;
  shoal_cpu_view view;
  int64_t stored, group_step; /* channels including padding; groups processed together */
  size_t partial_at, coef_at; /* scratch: double [image][stored][2], double [COEFFICIENTS][stored] */
} batchnorm_op;

/* Arguments of a loop over units. */
typedef struct {
  const batchnorm_op *p;
  int64_t first_group;
  const float *x, *dy;
  float *y, *dx;
  double *coef, *partial;
} pass;

/* A unit split into rows of 16 lanes and a remainder.  Where channels are contiguous without gaps, 16/lanes positions
 * form one such row. */
typedef struct {
  int64_t rows16, stride16, rest;
  int repeat, lanes;
} unit_shape;

static unit_shape shape_of(const shoal_cpu_view *v, int64_t group)
{
  unit_shape u = { .lanes = shoal_cpu_stored(v, group), .repeat = 1, .stride16 = v->row_stride };
  if (v->row_stride == v->lanes) {
    u.repeat = LANES / v->lanes;
    u.stride16 = LANES;
  }
  u.rows16 = u.lanes * u.repeat == LANES ? v->rows / u.repeat : 0;
  u.rest = v->rows - u.rows16 * u.repeat;
  return u;
}

/* Coefficient k of the lanes of a group, replicated to 16. */
static inline void spread(const pass *t, int k, int64_t group, const unit_shape *u, float out[LANES])
{
  const double *c = t->coef + k * t->p->stored + group * t->p->view.lanes;
  for (int j = 0; j < LANES; j++) out[j] = j < u->lanes * u->repeat ? (float)c[j % u->lanes] : 0.0f;
}

/* Coefficient k of lane j of a group, for the remainder of a unit. */
static inline double one(const pass *t, int k, int64_t group, int j)
{
  return t->coef[k * t->p->stored + group * t->p->view.lanes + j];
}

/* --- statistics --- */
typedef struct {
  double n, mean, m2;
} moments;

static inline void join(moments *a, double n, double mean, double m2)
{
  double delta = mean - a->mean, both = a->n + n;
  a->mean += delta * n / both;
  a->m2 += m2 + delta * delta * a->n * n / both;
  a->n = both;
}

/* Moments of up to TILE rows of 16 lanes. */
static inline __attribute__((always_inline)) void tile_moments(const float *x, int64_t rows, int64_t stride,
                                                               float mean[LANES], float m2[LANES])
{
  v16 s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float *q = x + r * stride;
    s0 += LOAD16(q);
    s1 += LOAD16(q + stride);
    s2 += LOAD16(q + 2 * stride);
    s3 += LOAD16(q + 3 * stride);
  }
  for (; r < rows; r++) s0 += LOAD16(x + r * stride);
  v16 mu = (s0 + s1 + s2 + s3) * (1.0f / (float)rows);
  s0 = s1 = (v16){ 0 };
  for (r = 0; r + 2 <= rows; r += 2) {
    v16 a = LOAD16(x + r * stride) - mu, b = LOAD16(x + (r + 1) * stride) - mu;
    s0 += a * a;
    s1 += b * b;
  }
  if (r < rows) {
    v16 a = LOAD16(x + r * stride) - mu;
    s0 += a * a;
  }
  STORE16(mean, mu);
  STORE16(m2, s0 + s1);
}

static inline __attribute__((always_inline)) void unit_moments(const float *x, const unit_shape *u, int64_t row_stride,
                                                               moments out[LANES])
{
  for (int j = 0; j < LANES; j++) out[j] = (moments){ 0 };
  for (int64_t r = 0; r < u->rows16; r += TILE) {
    float mean[LANES], m2[LANES];
    int64_t rows = SHOAL_MIN((int64_t)TILE, u->rows16 - r);
    tile_moments(x + r * u->stride16, rows, u->stride16, mean, m2);
    for (int j = 0; j < LANES; j++) join(&out[j], (double)rows, mean[j], m2[j]);
  }
  for (int k = 1; k < u->repeat && u->rows16; k++)
    for (int j = 0; j < u->lanes; j++) {
      const moments *other = &out[k * u->lanes + j];
      join(&out[j], other->n, other->mean, other->m2);
    }
  const float *rest = x + u->rows16 * u->stride16;
  for (int64_t r = 0; r < u->rest; r++)
    for (int j = 0; j < u->lanes; j++) join(&out[j], 1, rest[r * row_stride + j], 0);
}

SHOAL_CPU_KERNEL static void moments_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  for (size_t i = begin; i < end; i++) {
    int64_t group = t->first_group + (int64_t)i / v->images, image = (int64_t)i % v->images;
    unit_shape u = shape_of(v, group);
    moments m[LANES];
    unit_moments(t->x + shoal_cpu_unit_at(v, image, group), &u, v->row_stride, m);
    double *out = t->partial + (image * t->p->stored + group * v->lanes) * 2;
    for (int j = 0; j < u.lanes; j++) {
      out[2 * j] = m[j].mean;
      out[2 * j + 1] = m[j].m2;
    }
  }
}

/* --- y --- */
SHOAL_CPU_KERNEL static void normalise_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  const int all = t->p->op.desc.relu ? 0 : -1; /* without relu everything passes */
  for (size_t i = begin; i < end; i++) {
    int64_t group = t->first_group + (int64_t)i / v->images, at = shoal_cpu_unit_at(v, (int64_t)i % v->images, group);
    unit_shape u = shape_of(v, group);
    float mean[LANES], a[LANES], shift[LANES];
    spread(t, MEAN, group, &u, mean);
    spread(t, A, group, &u, a);
    spread(t, SHIFT, group, &u, shift);
    const v16 vm = LOAD16(mean), va = LOAD16(a), vs = LOAD16(shift);
    const v16i pass_all = all + (v16i){ 0 };
    const float *x = t->x + at;
    float *y = t->y + at;
    for (int64_t r = 0; r < u.rows16; r++) {
      v16 z = (LOAD16(x + r * u.stride16) - vm) * va + vs;
      STORE16(y + r * u.stride16, KEEP16(PASSES16(z) | pass_all, z));
    }
    for (int64_t r = 0, o = u.rows16 * u.stride16; r < u.rest; r++, o += v->row_stride)
      for (int j = 0; j < u.lanes; j++) {
        double z = (x[o + j] - one(t, MEAN, group, j)) * one(t, A, group, j) + one(t, SHIFT, group, j);
        y[o + j] = z <= 0 && !all ? 0.0f : (float)z;
      }
  }
}

/* --- backward --- */

/* dy masked by the relu, recomputing y from x by the same arithmetic as forward. */
#define BEFORE_RELU16(dy, d) KEEP16(PASSES16((d)*va + vs) | pass_all, dy)

SHOAL_CPU_KERNEL static void sums_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  const int all = t->p->op.desc.relu ? 0 : -1; /* without relu everything passes */
  for (size_t i = begin; i < end; i++) {
    int64_t group = t->first_group + (int64_t)i / v->images, image = (int64_t)i % v->images;
    int64_t at = shoal_cpu_unit_at(v, image, group);
    unit_shape u = shape_of(v, group);
    float mean[LANES], a[LANES], shift[LANES];
    spread(t, MEAN, group, &u, mean);
    spread(t, A, group, &u, a);
    spread(t, SHIFT, group, &u, shift);
    const v16 vm = LOAD16(mean), va = LOAD16(a), vs = LOAD16(shift);
    const v16i pass_all = all + (v16i){ 0 };
    const float *x = t->x + at, *dy = t->dy + at;
    double s1[LANES] = { 0 }, s2[LANES] = { 0 };
    for (int64_t first = 0; first < u.rows16; first += TILE) {
      v16 t1 = { 0 }, t2 = { 0 };
      int64_t last = SHOAL_MIN(first + TILE, u.rows16);
      for (int64_t r = first; r < last; r++) {
        v16 d = LOAD16(x + r * u.stride16) - vm, g = BEFORE_RELU16(LOAD16(dy + r * u.stride16), d);
        t1 += g;
        t2 += g * d;
      }
      for (int j = 0; j < LANES; j++) {
        s1[j] += (double)t1[j];
        s2[j] += (double)t2[j];
      }
    }
    for (int64_t r = 0, o = u.rows16 * u.stride16; r < u.rest; r++, o += v->row_stride)
      for (int j = 0; j < u.lanes; j++) {
        double d = x[o + j] - one(t, MEAN, group, j), z = d * one(t, A, group, j) + one(t, SHIFT, group, j);
        double g = z <= 0 && !all ? 0 : (double)dy[o + j];
        s1[j] += g;
        s2[j] += g * d;
      }
    double *out = t->partial + (image * t->p->stored + group * v->lanes) * 2;
    for (int j = 0; j < u.lanes; j++) {
      for (int k = 1; k < u.repeat && u.rows16; k++) {
        s1[j] += s1[k * u.lanes + j];
        s2[j] += s2[k * u.lanes + j];
      }
      out[2 * j] = s1[j];
      out[2 * j + 1] = s2[j];
    }
  }
}

SHOAL_CPU_KERNEL static void dx_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  const int all = t->p->op.desc.relu ? 0 : -1; /* without relu everything passes */
  for (size_t i = begin; i < end; i++) {
    int64_t group = t->first_group + (int64_t)i / v->images, at = shoal_cpu_unit_at(v, (int64_t)i % v->images, group);
    unit_shape u = shape_of(v, group);
    float mean[LANES], a[LANES], shift[LANES], b[LANES], c[LANES];
    spread(t, MEAN, group, &u, mean);
    spread(t, A, group, &u, a);
    spread(t, SHIFT, group, &u, shift);
    spread(t, MINUS_B, group, &u, b);
    spread(t, MINUS_C, group, &u, c);
    const v16 vm = LOAD16(mean), va = LOAD16(a), vs = LOAD16(shift), vb = LOAD16(b), vc = LOAD16(c);
    const v16i pass_all = all + (v16i){ 0 };
    const float *x = t->x + at, *dy = t->dy + at;
    float *dx = t->dx + at;
    for (int64_t r = 0; r < u.rows16; r++) {
      v16 d = LOAD16(x + r * u.stride16) - vm, g = BEFORE_RELU16(LOAD16(dy + r * u.stride16), d);
      STORE16(dx + r * u.stride16, va * g - vb * d - vc);
    }
    for (int64_t r = 0, o = u.rows16 * u.stride16; r < u.rest; r++, o += v->row_stride)
      for (int j = 0; j < u.lanes; j++) {
        double d = x[o + j] - one(t, MEAN, group, j), z = d * one(t, A, group, j) + one(t, SHIFT, group, j);
        double g = z <= 0 && !all ? 0 : (double)dy[o + j];
        dx[o + j] = (float)(one(t, A, group, j) * g - one(t, MINUS_B, group, j) * d - one(t, MINUS_C, group, j));
      }
  }
}

/* --- between the passes: one channel at a time --- */

static void set_forward(const batchnorm_op *p, const shoal_op_args *a, int64_t c, double mean, double rate,
                        double *coef)
{
  coef[MEAN * p->stored + c] = mean;
  coef[A * p->stored + c] = rate * a->w[0][c];
  coef[SHIFT * p->stored + c] = a->w[1][c];
}

static void finish_moments(const batchnorm_op *p, const shoal_op_args *a, int64_t c, const double *partial,
                           double *coef)
{
  int64_t images = p->view.images, rows = p->view.rows;
  double n = (double)images * (double)rows, mean = 0, m2 = 0, m = p->op.desc.momentum;
  const double *at = partial + 2 * c;
  for (int64_t i = 0; i < images; i++) mean += at[i * p->stored * 2];
  mean /= (double)images;
  for (int64_t i = 0; i < images; i++) {
    double delta = at[i * p->stored * 2] - mean;
    m2 += at[i * p->stored * 2 + 1] + (double)rows * delta * delta;
  }
  if (a->stats[0]) {
    a->stats[0][c] = (float)((1 - m) * a->stats[0][c] + m * mean);
    a->stats[1][c] = (float)((1 - m) * a->stats[1][c] + m * m2 / (n - 1));
  }
  double *saved = a->saved;
  saved[c] = mean;
  saved[p->stored + c] = 1 / sqrt(m2 / n + p->op.desc.eps);
  set_forward(p, a, c, saved[c], saved[p->stored + c], coef);
}

static void finish_sums(const batchnorm_op *p, const shoal_op_args *a, int64_t c, const double *partial, double *coef)
{
  double n = (double)p->view.images * (double)p->view.rows, s1 = 0, s2 = 0;
  double rate = ((const double *)a->saved)[p->stored + c];
  for (int64_t i = 0; i < p->view.images; i++) {
    s1 += partial[(i * p->stored + c) * 2];
    s2 += partial[(i * p->stored + c) * 2 + 1];
  }
  a->dw[0][c] = (float)(rate * s2);
  a->dw[1][c] = (float)s1;
  double scaled = rate * a->w[0][c];
  coef[MINUS_B * p->stored + c] = scaled * rate * rate * s2 / n;
  coef[MINUS_C * p->stored + c] = scaled * s1 / n;
}

/* One pass over some groups of channels; `streams` is the number of tensors it accesses. */
static void run(const batchnorm_op *p, pass *t, int64_t groups, size_t streams, shoal_cpu_range *f)
{
  const shoal_cpu_view *v = &p->view;
  size_t bytes = (size_t)v->rows * (size_t)v->lanes * sizeof(float) * streams;
  shoal_cpu_parallel(shoal_cpu_of(&p->op), (size_t)(groups * v->images), 1, bytes, f, t);
}

typedef void finish(const batchnorm_op *p, const shoal_op_args *a, int64_t c, const double *partial, double *coef);

static void finish_channels(const batchnorm_op *p, const shoal_op_args *a, const pass *t, int64_t groups, finish *f)
{
  int64_t first = t->first_group * p->view.lanes, end = first + groups * p->view.lanes;
  for (int64_t c = first; c < SHOAL_MIN(end, p->view.channels); c++) f(p, a, c, t->partial, t->coef);
}

static void clear_coefficients(const batchnorm_op *p, double *coef)
{
  for (int64_t k = 0; k < COEFFICIENTS; k++) /* padding lanes stay zero */
    for (int64_t c = p->view.channels; c < p->stored; c++) coef[k * p->stored + c] = 0;
}

static shoal_status batchnorm_forward(shoal_op *op, const shoal_op_args *a)
{
  const batchnorm_op *p = (batchnorm_op *)op;
  double *coef = shoal_cpu_at(a->scratch, p->coef_at);
  pass t = { .p = p, .x = a->x[0], .y = a->y, .coef = coef, .partial = shoal_cpu_at(a->scratch, p->partial_at) };
  clear_coefficients(p, coef);
  for (; t.first_group < p->view.groups; t.first_group += p->group_step) {
    int64_t groups = SHOAL_MIN(p->group_step, p->view.groups - t.first_group);
    run(p, &t, groups, 1, moments_range);
    finish_channels(p, a, &t, groups, finish_moments);
    run(p, &t, groups, 2, normalise_range);
  }
  return SHOAL_OK;
}

static shoal_status batchnorm_evaluate(shoal_op *op, const shoal_op_args *a)
{
  const batchnorm_op *p = (batchnorm_op *)op;
  double *coef = shoal_cpu_at(a->scratch, p->coef_at);
  pass t = { .p = p, .x = a->x[0], .y = a->y, .coef = coef };
  clear_coefficients(p, coef);
  for (int64_t c = 0; c < p->view.channels; c++)
    set_forward(p, a, c, a->stats[0][c], 1 / sqrt((double)a->stats[1][c] + op->desc.eps), coef);
  run(p, &t, p->view.groups, 2, normalise_range);
  return SHOAL_OK;
}

static shoal_status batchnorm_backward(shoal_op *op, const shoal_op_args *a)
{
  const batchnorm_op *p = (batchnorm_op *)op;
  const double *saved = a->saved;
  double *coef = shoal_cpu_at(a->scratch, p->coef_at);
  pass t = {
    .p = p, .x = a->x[0], .dy = a->dy, .dx = a->dx[0], .coef = coef, .partial = shoal_cpu_at(a->scratch, p->partial_at)
  };
  clear_coefficients(p, coef);
  for (int64_t c = 0; c < p->view.channels; c++) set_forward(p, a, c, saved[c], saved[p->stored + c], coef);
  for (; t.first_group < p->view.groups; t.first_group += p->group_step) {
    int64_t groups = SHOAL_MIN(p->group_step, p->view.groups - t.first_group);
    run(p, &t, groups, 2, sums_range);
    finish_channels(p, a, &t, groups, finish_sums);
    if (t.dx) run(p, &t, groups, 3, dx_range);
  }
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_batchnorm(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  batchnorm_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  shoal_status st = shoal_cpu_view_of(&d->in[0], &op->in_format[0], &p->view);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  const shoal_cpu_view *v = &p->view;
  int64_t group_bytes = v->images * v->rows * v->lanes * (int64_t)sizeof(float);
  p->stored = v->groups * v->lanes;
  p->group_step = SHOAL_MAX((int64_t)WORK_SET * b->base.threads / group_bytes, 1);
  op->out_format = op->in_format[0];
  op->forward = d->training ? batchnorm_forward : batchnorm_evaluate;
  op->backward_data = batchnorm_backward;
  op->dw_with_dx = op->backward_reads_x = op->dx_may_be_dy = true;
  op->y_may_be_x = !d->training;
  if (d->training) {
    op->saved_bytes = (size_t)p->stored * 2 * sizeof(double);
    p->partial_at = shoal_cpu_carve(&op->scratch_bytes, (size_t)(v->images * p->stored) * 2 * sizeof(double));
  }
  p->coef_at = shoal_cpu_carve(&op->scratch_bytes, (size_t)p->stored * COEFFICIENTS * sizeof(double));
  *out = op;
  return SHOAL_OK;
}
