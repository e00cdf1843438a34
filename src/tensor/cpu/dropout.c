/* Dropout.  The mask is not stored: it is a function of an element's index (see tensor/op.h), so backward recomputes
 * it, and it is the same for any format and any number of threads.
 *
 * base/rng.h yields four numbers per counter.  Here several counters go through the ten rounds in parallel, which
 * vectorises; unit.tensor compares every element with the scalar function in backend ref. */
#include "base/rng.h"
#include "tensor/cpu/view.h"
#include <string.h>

enum { COUNTERS = 64, RUN = 4 * COUNTERS, ROUNDS = 10, LANES = 16 };

typedef struct {
  shoal_op op;
  shoal_cpu_view view; /* for formats that are not dense */
} dropout_op;

typedef struct {
  const dropout_op *p;
  const float *x;
  float *y;
  uint64_t seed, first; /* first: index of the batch's first element */
  uint32_t step;
} pass;

/* The words of COUNTERS consecutive counters, word w of counter i at out[w][i]. */
static inline __attribute__((always_inline)) void philox_run(uint64_t seed, uint64_t index, uint32_t step,
                                                             uint32_t out[4][COUNTERS])
{
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int i = 0; i < COUNTERS; i++) {
    out[0][i] = (uint32_t)(index + (uint64_t)i);
    out[1][i] = (uint32_t)((index + (uint64_t)i) >> 32);
    out[2][i] = step;
    out[3][i] = SHOAL_RNG_DROPOUT;
  }
  for (int round = 0; round < ROUNDS; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
#pragma omp simd
    for (int i = 0; i < COUNTERS; i++) {
      uint64_t p0 = (uint64_t)0xd2511f53u * out[0][i], p1 = (uint64_t)0xcd9e8d57u * out[2][i];
      uint32_t c0 = (uint32_t)(p1 >> 32) ^ out[1][i] ^ k0, c2 = (uint32_t)(p0 >> 32) ^ out[3][i] ^ k1;
      out[0][i] = c0;
      out[1][i] = (uint32_t)p1;
      out[2][i] = c2;
      out[3][i] = (uint32_t)p0;
    }
  }
}

/* factor[i] = 1/(1-p) or 0 for the elements with indices first .. first + n - 1, n <= RUN - 3. */
static inline __attribute__((always_inline)) void factors(const pass *t, uint64_t first, int64_t n, float *factor)
{
  uint32_t word[4][COUNTERS];
  float p = t->p->op.desc.p, keep = 1.0f / (1.0f - p);
  int64_t skip = (int64_t)(first % 4);
  philox_run(t->seed, first / 4, t->step, word);
  for (int64_t i = 0; i < n; i++) factor[i] = shoal_rng_unit(word[(i + skip) % 4][(i + skip) / 4]) >= p ? keep : 0.0f;
}

enum { STEP = RUN - 4 }; /* elements per run of counters, for any alignment of the first */

SHOAL_CPU_KERNEL static void dense_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  float factor[RUN];
  for (size_t i = begin; i < end; i += STEP) {
    size_t n = SHOAL_MIN(end - i, (size_t)STEP);
    factors(t, t->first + i, (int64_t)n, factor);
    /* 0 * x would propagate a NaN or an infinity of a dropped element */
#pragma omp simd
    for (size_t j = 0; j < n; j++) t->y[i + j] = factor[j] != 0 ? t->x[i + j] * factor[j] : 0.0f;
  }
}

/* Formats with contiguous channels: a lane is a plane in canonical order. */
SHOAL_CPU_KERNEL static void lanes_range(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const shoal_cpu_view *v = &t->p->view;
  float factor[LANES][RUN];
  memset(factor, 0, sizeof factor); /* lanes of padding */
  for (size_t i = begin; i < end; i++) {
    int64_t image = (int64_t)i / v->groups, group = (int64_t)i % v->groups, at = shoal_cpu_unit_at(v, image, group);
    int valid = shoal_cpu_valid(v, group), stored = shoal_cpu_stored(v, group);
    for (int64_t r = 0; r < v->rows; r += STEP) {
      int64_t n = SHOAL_MIN(v->rows - r, (int64_t)STEP);
      for (int j = 0; j < valid; j++) {
        int64_t channel = image * v->channels + group * v->lanes + j;
        factors(t, t->first + (uint64_t)(channel * v->plane + r), n, factor[j]);
      }
      for (int j = valid; j < stored; j++) memset(factor[j], 0, sizeof factor[j]);
      for (int64_t k = 0; k < n; k++)
        for (int j = 0; j < stored; j++) {
          int64_t o = at + (r + k) * v->row_stride + j;
          t->y[o] = factor[j][k] != 0 ? t->x[o] * factor[j][k] : 0.0f;
        }
    }
  }
}

static void apply(shoal_op *op, const shoal_op_args *a, const float *x, float *y)
{
  const dropout_op *p = (dropout_op *)op;
  int64_t n = shoal_shape_count(&op->desc.out);
  pass t = { .p = p, .x = x, .y = y, .step = a->at->step };
  t.seed = shoal_rng_seed(a->at->seed, op->desc.stream);
  t.first = a->at->slot0 * (uint64_t)(n / op->desc.out.dim[0]);
  /* `bytes` includes the random numbers, which cost about as much as moving 16 bytes per element. */
  if (op->out_format.dense)
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)n, STEP, 24, dense_range, &t);
  else
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(p->view.images * p->view.groups), 1,
                       (size_t)p->view.rows * (size_t)p->view.lanes * 24, lanes_range, &t);
}

static shoal_status dropout_forward(shoal_op *op, const shoal_op_args *a)
{
  if (op->desc.training)
    apply(op, a, a->x[0], a->y);
  else if (a->y != a->x[0])
    memcpy(a->y, a->x[0], op->out_format.bytes);
  return SHOAL_OK;
}

static shoal_status dropout_backward(shoal_op *op, const shoal_op_args *a)
{
  apply(op, a, a->dy, a->dx[0]);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_dropout(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  dropout_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->out_format = op->in_format[0];
  shoal_status st = op->out_format.dense ? SHOAL_OK : shoal_cpu_view_of(&d->in[0], &op->in_format[0], &p->view);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = dropout_forward;
  op->backward_data = dropout_backward;
  op->y_may_be_x = op->dx_may_be_dy = true;
  *out = op;
  return SHOAL_OK;
}
