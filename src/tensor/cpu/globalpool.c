/* Mean over h and w of every image and channel: [n,c,h,w] in any format to dense [n,c], and the even spread back. */
#include "tensor/cpu/view.h"

enum { LANES = 16 };

typedef struct {
  shoal_op op;
  shoal_cpu_view view;
} globalpool_op;

typedef struct {
  const globalpool_op *p;
  const float *x;
  float *y;
} pass;

/* Rows of a unit in 16 lanes where they lie side by side, as in batchnorm.c. */
SHOAL_CPU_KERNEL static void mean_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  const double over = 1 / (double)v->plane;
  for (size_t i = begin; i < end; i++) {
    int64_t image = (int64_t)i / v->groups, group = (int64_t)i % v->groups;
    const float *x = t->x + shoal_cpu_unit_at(v, image, group);
    int lanes = shoal_cpu_valid(v, group);
    double sum[LANES] = { 0 };
    if (v->lanes == 1) {
      int64_t r = 0;
      for (; r + LANES <= v->rows; r += LANES)
        for (int j = 0; j < LANES; j++) sum[j] += (double)x[r + j];
      for (; r < v->rows; r++) sum[r % LANES] += (double)x[r];
      for (int j = 1; j < LANES; j++) sum[0] += sum[j];
    } else if (lanes == LANES) {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < LANES; j++) sum[j] += (double)x[r * v->row_stride + j];
    } else {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < lanes; j++) sum[j] += (double)x[r * v->row_stride + j];
    }
    for (int j = 0; j < lanes; j++) t->y[image * v->channels + group * v->lanes + j] = (float)(sum[j] * over);
  }
}

SHOAL_CPU_KERNEL static void spread_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  const float over = 1.0f / (float)v->plane;
  for (size_t i = begin; i < end; i++) {
    int64_t image = (int64_t)i / v->groups, group = (int64_t)i % v->groups;
    float *dx = t->y + shoal_cpu_unit_at(v, image, group), g[LANES] = { 0 };
    int valid = shoal_cpu_valid(v, group), stored = shoal_cpu_stored(v, group);
    for (int j = 0; j < valid; j++) g[j] = t->x[image * v->channels + group * v->lanes + j] * over;
    if (v->lanes == 1) {
      for (int64_t r = 0; r < v->rows; r++) dx[r] = g[0];
    } else if (stored == LANES) {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < LANES; j++) dx[r * v->row_stride + j] = g[j];
    } else {
      for (int64_t r = 0; r < v->rows; r++)
        for (int j = 0; j < stored; j++) dx[r * v->row_stride + j] = g[j];
    }
  }
}

static void run(shoal_op *op, shoal_cpu_range *f, const float *x, float *y)
{
  const globalpool_op *p = (globalpool_op *)op;
  const shoal_cpu_view *v = &p->view;
  pass t = { p, x, y };
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(v->images * v->groups), 1,
                     (size_t)v->rows * (size_t)v->lanes * sizeof(float), f, &t);
}

static shoal_status globalpool_forward(shoal_op *op, const shoal_op_args *a)
{
  run(op, mean_range, a->x[0], a->y);
  return SHOAL_OK;
}

static shoal_status globalpool_backward(shoal_op *op, const shoal_op_args *a)
{
  run(op, spread_range, a->dy, a->dx[0]);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_globalpool(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  globalpool_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  shoal_status st = shoal_cpu_view_of_layout(&d->in[0], shoal_cpu_layout_of(&op->in_format[0]), &p->view);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = globalpool_forward;
  op->backward_data = globalpool_backward;
  *out = op;
  return SHOAL_OK;
}
