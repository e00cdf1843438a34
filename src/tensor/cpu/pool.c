/* Max and average pooling in every format, 16 channels at a time where they are contiguous.
 *
 * Windows are clipped to the plane, so padding is excluded from the maximum, and from the count of a mean unless that says otherwise.  Of equal
 * maxima the first in scan order is chosen, and a NaN counts as the maximum, so that it propagates (oneDNN's kernel
 * drops it).  `saved` holds the position of the maximum in its window, one uint16 per output, so backward reads neither
 * x nor y.  Each dx receives its contributions in scan order of the outputs, for any number of threads.
 *
 *   window of output (p,q), kernel 3x2:     0 1
 *                                           2 3     places, whether cut or not
 *                                           4 5                                                                      */
#include "tensor/cpu/vector.h"
#include "tensor/cpu/view.h"
#include <string.h>

typedef struct {
  shoal_op op;
  shoal_cpu_view x, y;
  bool disjoint; /* no overlap, gaps or padding: dx is stored, not accumulated */
} pool_op;

typedef struct {
  const pool_op *p;
  const float *x;
  float *y;
  uint16_t *place;
} pass;

/* A window clipped to the plane: positions [top, bottom) x [left, right), and the origin before clipping. */
typedef struct {
  int64_t top, bottom, left, right, top0, left0;
} window;

static inline window window_at(const shoal_op_desc *d, int64_t pq)
{
  window w = { .top0 = pq / d->out.dim[3] * d->stride[0] - d->pad[0],
               .left0 = pq % d->out.dim[3] * d->stride[1] - d->pad[1] };
  w.top = SHOAL_MAX(w.top0, 0);
  w.left = SHOAL_MAX(w.left0, 0);
  w.bottom = SHOAL_MIN(w.top0 + d->kernel[0], d->in[0].dim[2]);
  w.right = SHOAL_MIN(w.left0 + d->kernel[1], d->in[0].dim[3]);
  return w;
}

#define FOR_WINDOW(w, i, j)                                                                                            \
  for (int64_t i = (w).top; i < (w).bottom; i++)                                                                       \
    for (int64_t j = (w).left; j < (w).right; j++)
#define PLACE(d, w, i, j) ((int)(((i) - (w).top0) * (d)->kernel[1] + (j) - (w).left0))

/* The rows of one unit: x position r at x + r * xs, output r at y + r * ys, positions of maxima at place + r * 16. */
typedef struct {
  const float *x;
  float *y;
  uint16_t *place; /* NULL in evaluation */
  int64_t xs, ys, outputs, width, inputs;
  int lanes;
} unit;

static inline unit unit_of(const pass *t, size_t index, bool backward)
{
  const shoal_cpu_view *x = &t->p->x, *y = &t->p->y;
  int64_t image = (int64_t)index / x->groups, group = (int64_t)index % x->groups;
  int64_t x_at = shoal_cpu_unit_at(x, image, group), y_at = shoal_cpu_unit_at(y, image, group);
  /* Backward reads dy, shaped like y, and writes dx, shaped like x. */
  unit u = { .x = t->x + (backward ? y_at : x_at),
             .y = t->y + (backward ? x_at : y_at),
             .xs = x->row_stride,
             .ys = y->row_stride,
             .outputs = y->rows,
             .inputs = x->rows,
             .width = t->p->op.desc.in[0].dim[3],
             .lanes = shoal_cpu_stored(x, group) };
  u.place = t->place ? t->place + (int64_t)index * y->rows * x->lanes : NULL;
  return u;
}

static inline __attribute__((always_inline)) void max16(const shoal_op_desc *d, const unit *u)
{
  for (int64_t pq = 0; pq < u->outputs; pq++) {
    window w = window_at(d, pq);
    v16 best = LOAD16(u->x + (w.top * u->width + w.left) * u->xs);
    v16i at = PLACE(d, w, w.top, w.left) + (v16i){ 0 };
    FOR_WINDOW(w, i, j)
    {
      v16 v = LOAD16(u->x + (i * u->width + j) * u->xs);
      v16i wins = (LESS16(best, v) | NAN16(v)) & ~NAN16(best);
      best = SELECT16(wins, v, best);
      at = (PLACE(d, w, i, j) & wins) | (at & ~wins);
    }
    STORE16(u->y + pq * u->ys, best);
    if (u->place) STORE16U16(u->place + pq * 16, at);
  }
}

static void max_any(const shoal_op_desc *d, const unit *u, int stride)
{
  for (int64_t pq = 0; pq < u->outputs; pq++)
    for (int k = 0; k < u->lanes; k++) {
      window w = window_at(d, pq);
      float best = u->x[(w.top * u->width + w.left) * u->xs + k];
      int at = PLACE(d, w, w.top, w.left);
      FOR_WINDOW(w, i, j)
      {
        float v = u->x[(i * u->width + j) * u->xs + k];
        if (v > best || (v != v && best == best)) {
          best = v;
          at = PLACE(d, w, i, j);
        }
      }
      u->y[pq * u->ys + k] = best;
      if (u->place) u->place[pq * stride + k] = (uint16_t)at;
    }
}

SHOAL_CPU_KERNEL static void max_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  for (size_t i = begin; i < end; i++) {
    unit u = unit_of(t, i, false);
    if (u.lanes == 16)
      max16(&t->p->op.desc, &u);
    else
      max_any(&t->p->op.desc, &u, t->p->x.lanes);
  }
}

/* Gradient of the maxima.  `disjoint`: every position is in exactly one window, so dx is written once, zeros
 * included. */
static inline __attribute__((always_inline)) void max_back16(const shoal_op_desc *d, const unit *u, bool disjoint)
{
  for (int64_t pq = 0; pq < u->outputs; pq++) {
    window w = window_at(d, pq);
    v16 dy = LOAD16(u->x + pq * u->ys);
    v16i at = LOAD16U16(u->place + pq * 16);
    FOR_WINDOW(w, i, j)
    {
      float *dx = u->y + (i * u->width + j) * u->xs;
      v16 share = KEEP16(EQUAL16(at, PLACE(d, w, i, j)), dy);
      if (!disjoint) share += LOAD16(dx);
      STORE16(dx, share);
    }
  }
}

static inline void clear_unit(const unit *u)
{
  for (int64_t r = 0; r < u->inputs; r++)
    for (int k = 0; k < u->lanes; k++) u->y[r * u->xs + k] = 0;
}

static void max_back_any(const shoal_op_desc *d, const unit *u, int stride)
{
  for (int64_t pq = 0; pq < u->outputs; pq++) {
    window w = window_at(d, pq);
    for (int k = 0; k < u->lanes; k++) {
      int place = u->place[pq * stride + k];
      int64_t i = w.top0 + place / d->kernel[1], j = w.left0 + place % d->kernel[1];
      u->y[(i * u->width + j) * u->xs + k] += u->x[pq * u->ys + k];
    }
  }
}

SHOAL_CPU_KERNEL static void max_back_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  for (size_t i = begin; i < end; i++) {
    unit u = unit_of(t, i, true);
    bool stored = u.lanes == 16 && t->p->disjoint;
    if (!stored) clear_unit(&u);
    if (u.lanes == 16)
      max_back16(&t->p->op.desc, &u, stored);
    else
      max_back_any(&t->p->op.desc, &u, t->p->x.lanes);
  }
}

/* --- average --- */
static inline float over_area(const shoal_op_desc *d, const window *w)
{
  int64_t top = d->count_pad ? w->top0 : w->top, left = d->count_pad ? w->left0 : w->left;
  int64_t bottom = d->count_pad ? SHOAL_MIN(w->top0 + d->kernel[0], d->in[0].dim[2] + d->pad[0]) : w->bottom;
  int64_t right = d->count_pad ? SHOAL_MIN(w->left0 + d->kernel[1], d->in[0].dim[3] + d->pad[1]) : w->right;
  return 1.0f / (float)((bottom - top) * (right - left));
}

SHOAL_CPU_KERNEL static void mean_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_op_desc *d = &t->p->op.desc;
  for (size_t index = begin; index < end; index++) {
    unit u = unit_of(t, index, false);
    for (int64_t pq = 0; pq < u.outputs; pq++) {
      window w = window_at(d, pq);
      if (u.lanes == 16) {
        v16 sum = { 0 };
        FOR_WINDOW(w, i, j) sum += LOAD16(u.x + (i * u.width + j) * u.xs);
        STORE16(u.y + pq * u.ys, sum * over_area(d, &w));
      } else {
        float sum[16] = { 0 };
        FOR_WINDOW(w, i, j)
        for (int k = 0; k < u.lanes; k++) sum[k] += u.x[(i * u.width + j) * u.xs + k];
        for (int k = 0; k < u.lanes; k++) u.y[pq * u.ys + k] = sum[k] * over_area(d, &w);
      }
    }
  }
}

SHOAL_CPU_KERNEL static void mean_back_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_op_desc *d = &t->p->op.desc;
  for (size_t index = begin; index < end; index++) {
    unit u = unit_of(t, index, true);
    clear_unit(&u);
    for (int64_t pq = 0; pq < u.outputs; pq++) {
      window w = window_at(d, pq);
      float over = over_area(d, &w), share[16];
      for (int k = 0; k < u.lanes; k++) share[k] = u.x[pq * u.ys + k] * over;
      FOR_WINDOW(w, i, j)
      for (int k = 0; k < u.lanes; k++) u.y[(i * u.width + j) * u.xs + k] += share[k];
    }
  }
}

static void run(shoal_op *op, shoal_cpu_range *f, const float *x, float *y, void *place)
{
  const pool_op *p = (pool_op *)op;
  pass t = { p, x, y, place };
  size_t bytes = (size_t)(p->x.rows + p->y.rows) * (size_t)p->x.lanes * sizeof(float);
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(p->x.images * p->x.groups), 1, bytes, f, &t);
}

static shoal_status pool_forward(shoal_op *op, const shoal_op_args *a)
{
  bool max = op->desc.kind == SHOAL_OP_MAXPOOL;
  run(op, max ? max_range : mean_range, a->x[0], a->y, op->desc.training ? a->saved : NULL);
  return SHOAL_OK;
}

static shoal_status pool_backward(shoal_op *op, const shoal_op_args *a)
{
  run(op, op->desc.kind == SHOAL_OP_MAXPOOL ? max_back_range : mean_back_range, a->dy, a->dx[0], a->saved);
  return SHOAL_OK;
}

/* y has the layout of x. */
static shoal_status plan(shoal_cpu *b, pool_op *p)
{
  shoal_op *op = &p->op;
  const shoal_op_desc *d = &op->desc;
  shoal_cpu_layout layout = shoal_cpu_layout_of(&op->in_format[0]);
  SHOAL_CHECK((int64_t)d->kernel[0] * d->kernel[1] <= UINT16_MAX, SHOAL_ERR_UNSUPPORTED,
              "%s: a window of %dx%d is too large; use globalpool", shoal_op_kind_name(d->kind), d->kernel[0],
              d->kernel[1]);
  SHOAL_TRY(shoal_cpu_format_of_layout(b, &d->out, SHOAL_ELEMENTS_F32, layout, &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_layout(&d->in[0], layout, &p->x));
  SHOAL_TRY(shoal_cpu_view_of_layout(&d->out, layout, &p->y));
  p->disjoint = true;
  for (int i = 0; i < 2; i++)
    p->disjoint &= d->pad[i] == 0 && d->kernel[i] == d->stride[i] && d->in[0].dim[2 + i] % d->kernel[i] == 0;
  if (d->kind == SHOAL_OP_MAXPOOL && d->training)
    op->saved_bytes = (size_t)(p->y.images * p->y.groups * p->y.rows * p->y.lanes) * sizeof(uint16_t);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_pool(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  pool_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->forward = pool_forward;
  op->backward_data = pool_backward;
  shoal_status st = plan(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  *out = op;
  return SHOAL_OK;
}
