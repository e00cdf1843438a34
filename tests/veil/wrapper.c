/* See wrapper.h. */
#include "veil/wrapper.h"
#include "base/mem.h"
#include <stdlib.h>

enum { MOST_MEANS = 64 };
#define F sizeof(float)

static void *at(shoal_backend *b, const char *call, const void *p, size_t bytes, int use)
{
  wrapper *w = (wrapper *)b;
  return w->policy->place(w, call, (void *)(uintptr_t)p, bytes, use);
}

/* Arguments become what the backend behind is given. */
#define IN(p, bytes)     ((p) = at(b, __func__, (p), (bytes), WRAPPED_READS))
#define PARCEL(p, bytes) ((p) = at(b, __func__, (p), (bytes), WRAPPED_READS | WRAPPED_PINNED))
#define OUT(p, bytes)    ((p) = at(b, __func__, (p), (bytes), WRAPPED_WRITES))
#define RESULT(p, bytes) ((p) = at(b, __func__, (p), (bytes), WRAPPED_RESULT))

#define PASS(name, ...)                                                                                                \
  (((wrapper *)b)->policy->before((wrapper *)b),                                                                       \
   ((wrapper *)b)->policy->after((wrapper *)b, ((wrapper *)b)->inner->ops->name(((wrapper *)b)->inner, __VA_ARGS__)))

static shoal_status to_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x, float *y)
{
  IN(x, from->bytes);
  OUT(y, (size_t)shoal_shape_count(s) * F);
  return PASS(to_dense, s, from, x, y);
}

static shoal_status from_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x, float *y)
{
  IN(x, (size_t)shoal_shape_count(s) * F);
  OUT(y, to->bytes);
  return PASS(from_dense, s, to, x, y);
}

static size_t matrix(int64_t rows, int64_t cols, int64_t ld)
{
  return rows && cols ? (size_t)((rows - 1) * ld + cols) * F : 0;
}

static shoal_status gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                         const float *x, int64_t lda, const float *y, int64_t ldb, float beta, float *c, int64_t ldc)
{
  IN(x, ta ? matrix(k, m, lda) : matrix(m, k, lda));
  IN(y, tb ? matrix(n, k, ldb) : matrix(k, n, ldb));
  OUT(c, matrix(m, n, ldc));
  return PASS(gemm, ta, tb, m, n, k, alpha, x, lda, y, ldb, beta, c, ldc);
}

static shoal_status multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *x, const float *y,
                             float *c)
{
  IN(x, (size_t)(m * k) * F);
  IN(y, (size_t)(k * n) * F);
  OUT(c, (size_t)(m * n) * F);
  return PASS(multiply, m, n, k, x, y, c);
}

static shoal_status softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                 const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                 bool leave_out, float *dlogits, shoal_loss *out)
{
  size_t bytes = (size_t)(rows * classes) * F;
  IN(logits, bytes);
  IN(labels, (size_t)rows * sizeof *labels);
  IN(weights, (size_t)classes * F);
  IN(scale, F);
  OUT(dlogits, bytes);
  RESULT(out, sizeof *out);
  return PASS(softmax_xent, rows, classes, logits, labels, weights, smoothing, scale, leave_out, dlogits, out);
}

static shoal_status target_loss(shoal_backend *b, int64_t rows, int64_t width, const float *y, const float *targets,
                                bool absolute, const float *scale, bool leave_out, float *dy, shoal_loss *out)
{
  size_t bytes = (size_t)(rows * width) * F;
  IN(y, bytes);
  IN(targets, bytes);
  IN(scale, F);
  OUT(dy, bytes);
  RESULT(out, sizeof *out);
  return PASS(target_loss, rows, width, y, targets, absolute, scale, leave_out, dy, out);
}

static shoal_status add(shoal_backend *b, size_t n, const float *x, float *y)
{
  IN(x, n * F);
  OUT(y, n * F);
  return PASS(add, n, x, y);
}

static shoal_status axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y)
{
  IN(x, n * F);
  OUT(y, n * F);
  return PASS(axpby, n, p, x, q, y);
}

static shoal_status sumsq(shoal_backend *b, size_t n, const float *x, double *out)
{
  IN(x, n * F);
  RESULT(out, sizeof *out);
  return PASS(sumsq, n, x, out);
}

static shoal_status clip(shoal_backend *b, float limit, const double *squares, float *scale)
{
  PARCEL(squares, sizeof *squares);
  OUT(scale, sizeof *scale);
  return PASS(clip, limit, squares, scale);
}

/* What an update is given beside its arenas, where the backend behind finds it. */
static shoal_update_watch watched(shoal_backend *b, const char *call, size_t n, const shoal_update_watch *watch)
{
  shoal_update_watch there = *watch;
  there.bad = at(b, call, watch->bad, sizeof *watch->bad, WRAPPED_RESULT);
  there.w = at(b, call, watch->w, n * F, WRAPPED_WRITES);
  for (int i = 0; i < 2 && watch->w; i++) there.state[i] = at(b, call, watch->state[i], n * F, WRAPPED_WRITES);
  return there;
}

static shoal_status descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                            const shoal_update_watch *watch)
{
  const shoal_update_watch seen = watched(b, __func__, n, watch);
  shoal_descend_args there = *a;
  IN(there.now, sizeof *there.now);
  IN(there.scale, F);
  IN(g, n * F);
  OUT(w, n * F);
  return PASS(descend, n, &there, g, w, &seen);
}

static shoal_status sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *s, float *w,
                        const shoal_update_watch *watch)
{
  const shoal_update_watch seen = watched(b, __func__, n, watch);
  shoal_sgd_args there = *a;
  IN(there.now, sizeof *there.now);
  IN(there.scale, F);
  IN(g, n * F);
  OUT(s, n * F);
  OUT(w, n * F);
  return PASS(sgd, n, &there, g, s, w, &seen);
}

static shoal_status adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *s,
                         float *w, const shoal_update_watch *watch)
{
  const shoal_update_watch seen = watched(b, __func__, n, watch);
  shoal_adam_args there = *a;
  IN(there.now, sizeof *there.now);
  IN(there.scale, F);
  IN(g, n * F);
  OUT(m, n * F);
  OUT(s, n * F);
  OUT(w, n * F);
  return PASS(adam, n, &there, g, m, s, w, &seen);
}

static shoal_status fill(shoal_backend *b, size_t n, float value, float *y)
{
  OUT(y, n * F);
  return PASS(fill, n, value, y);
}

static shoal_status copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  from = at(b, __func__, from, bytes, WRAPPED_READS | WRAPPED_ANY);
  to = at(b, __func__, to, bytes, WRAPPED_WRITES | WRAPPED_ANY);
  return PASS(copy, bytes, from, to);
}

static size_t reach(const shoal_tile *t, const shoal_tile_side *s)
{
  int64_t row = 0, col = 0;
  for (size_t i = 0; i < t->rows; i++) row = SHOAL_MAX(row, s->rows ? s->rows[i] : (int64_t)i);
  for (size_t i = 0; i < t->cols; i++) col = SHOAL_MAX(col, s->cols ? s->cols[i] : (int64_t)i);
  if (!shoal_tile_count(t)) return 0;
  return (((size_t)(row + s->row_shift) * t->grain + t->grain - 1) * s->stride +
          (size_t)(col + s->col_shift + 1) * t->width) *
         F;
}

static shoal_status copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to)
{
  IN(from, reach(t, &t->from));
  OUT(to, reach(t, &t->to));
  return PASS(copy_tile, t, from, to);
}

static shoal_status copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad)
{
  IN(x, n * F);
  OUT(y, n * F);
  RESULT(bad, sizeof *bad);
  return PASS(copy_checked, n, x, y, bad);
}

static shoal_status find_bad(shoal_backend *b, size_t n, const float *x, size_t *out)
{
  IN(x, n * F);
  RESULT(out, sizeof *out);
  return PASS(find_bad, n, x, out);
}

static shoal_status average(shoal_backend *b, size_t n, const float *x, const float *y, float *z)
{
  IN(x, n * F);
  OUT(y, n * F);
  OUT(z, n * F);
  return PASS(average, n, x, y, z);
}

static shoal_status divide(shoal_backend *b, size_t n, float divisor, float *y)
{
  OUT(y, n * F);
  return PASS(divide, n, divisor, y);
}

static shoal_status scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus, const float *minus,
                          float *y)
{
  IN(x, n * F);
  IN(plus, n * F);
  IN(minus, n * F);
  OUT(y, n * F);
  return PASS(scale, n, s, x, plus, minus, y);
}

static shoal_status mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y)
{
  const float *there[MOST_MEANS];
  if (count > MOST_MEANS) return SHOAL_FAIL(SHOAL_ERR_INTERNAL, "a mean of %zu: raise MOST_MEANS", count);
  for (size_t i = 0; i < count; i++) there[i] = at(b, __func__, x[i], n * F, WRAPPED_READS);
  OUT(y, n * F);
  return PASS(mean, n, count, there, y);
}

static shoal_status distance2(shoal_backend *b, size_t n, const float *x, const float *y, double *out)
{
  IN(x, n * F);
  IN(y, n * F);
  return PASS(distance2, n, x, y, out);
}

static shoal_status pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                           float divisor, uint16_t *out, uint32_t *bad)
{
  IN(x, n * F);
  IN(minus, n * F);
  OUT(out, n * sizeof *out);
  RESULT(bad, sizeof *bad);
  return PASS(pack16, format, n, x, minus, divisor, out, bad);
}

static shoal_status unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                             float *y)
{
  PARCEL(x, n * sizeof *x);
  IN(plus, n * F);
  OUT(y, n * F);
  return PASS(unpack16, format, n, x, plus, y);
}

static shoal_status add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  PARCEL(x, n * sizeof *x);
  OUT(y, n * F);
  return PASS(add16, format, n, x, y);
}

static size_t marks(size_t n)
{
  return (shoal_quant_blocks(n) + 7) / 8;
}

static shoal_status encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                           void *out)
{
  IN(x, n * F);
  RESULT(exponent, shoal_quant_blocks(n));
  RESULT(out, shoal_quant_bytes(q->bits, n));
  return PASS(encode, q, n, x, exponent, out);
}

static shoal_status decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                           uint8_t *bad)
{
  PARCEL(parcel, shoal_quant_bytes(bits, n));
  IN(key, n * F);
  OUT(z, n * F);
  RESULT(bad, marks(n));
  return PASS(decode, bits, n, parcel, key, z, bad);
}

static shoal_status meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                         float *distance)
{
  shoal_meet_args there = *a;
  PARCEL(there.exponent, a->quant ? shoal_quant_blocks(n) : 0);
  PARCEL(there.bad, a->quant ? marks(n) : 0);
  IN(theirs, n * F);
  OUT(c, n * F);
  RESULT(distance, shoal_quant_blocks(n) * F);
  return PASS(meet, &there, n, theirs, c, distance);
}

static shoal_status fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest)
{
  OUT(x, n * F);
  OUT(c, n * F);
  OUT(base, n * F);
  RESULT(largest, shoal_quant_blocks(n) * F);
  return PASS(fold, n, x, c, base, largest);
}

/* ---- operations of networks ---- */

typedef struct {
  shoal_op op;
  shoal_op *inner;
} wrapped_op;

static shoal_op_args placed(shoal_op *op, const char *call, const shoal_op_args *a)
{
  shoal_backend *b = op->backend;
  shoal_shape w[SHOAL_OP_WEIGHTS];
  shoal_op_args there = *a;
  shoal_op_weight_shapes(&op->desc, w);
  for (int i = 0; i < shoal_op_inputs(&op->desc); i++) {
    there.x[i] = at(b, call, a->x[i], op->in_format[i].bytes, WRAPPED_READS);
    there.dx[i] = at(b, call, a->dx[i], op->in_format[i].bytes, WRAPPED_WRITES);
  }
  for (int i = 0; i < SHOAL_OP_WEIGHTS; i++) {
    const size_t weights = w[i].ndim ? (size_t)shoal_shape_count(&w[i]) * F : 0;
    const size_t stats = op->desc.kind == SHOAL_OP_BATCHNORM ? (size_t)op->desc.in[0].dim[1] * F : 0;
    if (weights) there.w[i] = at(b, call, a->w[i], weights, WRAPPED_READS);
    if (weights) there.dw[i] = at(b, call, a->dw[i], weights, WRAPPED_WRITES);
    if (stats) there.stats[i] = at(b, call, a->stats[i], stats, WRAPPED_WRITES);
  }
  there.y = at(b, call, a->y, op->out_format.bytes, WRAPPED_WRITES);
  there.dy = at(b, call, a->dy, op->out_format.bytes, WRAPPED_READS);
  there.saved = at(b, call, a->saved, op->saved_bytes, WRAPPED_WRITES);
  there.at = at(b, call, a->at, sizeof *a->at, WRAPPED_READS);
  there.scratch = at(b, call, a->scratch, op->scratch_bytes, WRAPPED_WRITES);
  return there;
}

#define STEP(step)                                                                                                     \
  static shoal_status op_##step(shoal_op *op, const shoal_op_args *a)                                                  \
  {                                                                                                                    \
    wrapper *w = (wrapper *)op->backend;                                                                               \
    shoal_op *inner = ((wrapped_op *)op)->inner;                                                                       \
    const shoal_op_args there = placed(op, #step, a);                                                                  \
    w->policy->before(w);                                                                                              \
    return w->policy->after(w, inner->step(inner, &there));                                                            \
  }
STEP(forward)
STEP(backward_weights)
STEP(backward_data)

static void op_destroy(shoal_op *op)
{
  shoal_op_destroy(((wrapped_op *)op)->inner);
  free(op);
}

static shoal_status op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  shoal_backend *inner = ((wrapper *)b)->inner;
  wrapped_op *o = calloc(1, sizeof *o);
  SHOAL_CHECK(o, SHOAL_ERR_MEM, "wrapper: operation");
  shoal_status st = inner->ops->op_create(inner, d, in, &o->inner);
  if (st != SHOAL_OK) {
    free(o);
    return st;
  }
  o->op = *o->inner;
  o->op.backend = b;
  o->op.forward = op_forward;
  if (o->op.backward_weights) o->op.backward_weights = op_backward_weights;
  if (o->op.backward_data) o->op.backward_data = op_backward_data;
  o->op.destroy = op_destroy;
  *out = &o->op;
  return SHOAL_OK;
}

/* ---- the table ---- */

void wrapper_open(wrapper *w, shoal_backend *inner, const wrapper_policy *policy)
{
  w->policy = policy;
  w->inner = inner;
  w->ops = (shoal_backend_ops){
    .op_create = op_create,
    .to_dense = to_dense,
    .from_dense = from_dense,
    .gemm = gemm,
    .multiply = multiply,
    .softmax_xent = softmax_xent,
    .target_loss = target_loss,
    .add = add,
    .axpby = axpby,
    .sumsq = sumsq,
    .clip = clip,
    .descend = descend,
    .sgd = sgd,
    .adam = adam,
    .fill = fill,
    .copy = copy,
    .copy_tile = copy_tile,
    .copy_checked = copy_checked,
    .find_bad = find_bad,
    .average = average,
    .divide = divide,
    .scale = scale,
    .mean = mean,
    .distance2 = distance2,
    .pack16 = pack16,
    .unpack16 = unpack16,
    .add16 = add16,
    .encode = encode,
    .decode = decode,
    .meet = meet,
    .fold = fold,
    .alloc = policy->alloc,
    .release = policy->release,
    .settle = policy->settle,
    .mark = policy->mark,
    .reached = policy->reached,
    .copy_beside = policy->copy_beside,
    .await = policy->await,
    .close = policy->close,
  };
  w->base = *inner;
  w->base.ops = &w->ops;
  w->base.host_memory = false;
  w->base.progress = NULL;
}
