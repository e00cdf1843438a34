/* See tensor_mirror.h. */
#include "tensor_mirror.h"
#include "base/mem.h"
#include "check.h"

enum { PLACES = 24, GUARD = 64, PINNED = 1, OUT = 2 };

typedef struct {
  shoal_backend base, *behind;
} mirror;

/* Arguments of one call. */
typedef struct {
  const char *host;
  size_t bytes;
  int use;
  shoal_memory memory;
  char *there;
} place;
typedef struct {
  shoal_backend *b;
  place p[PLACES];
  int n;
  shoal_status st;
} call;

static call begin(shoal_backend *m)
{
  return (call){ .b = ((mirror *)m)->behind };
}

static shoal_status copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  return b->ops->copy(b, bytes, from, to);
}

/* Where an argument is to be for the backend behind.  An argument inside an earlier one shares its place, so the longest comes
 * first where that matters. */
static void *at(call *c, const void *host, size_t bytes, int use)
{
  if (!host) return NULL;
  const char *h = host;
  for (int i = 0; i < c->n; i++) {
    place *p = &c->p[i];
    if (h < p->host || h + bytes > p->host + p->bytes) continue;
    p->use |= use & OUT;
    return p->there + (h - p->host);
  }
  REQUIRE(c->n < PLACES, "raise PLACES");
  place *p = &c->p[c->n++];
  const size_t odd = (uintptr_t)h % SHOAL_ALIGN;
  char guard[GUARD];
  memset(guard, 0x5a, sizeof guard);
  *p = (place){ .host = h, .bytes = bytes, .use = use };
  shoal_memory_kind kind = use & PINNED ? SHOAL_MEMORY_PINNED : SHOAL_MEMORY_DEVICE;
  REQUIRE(c->b->ops->alloc(c->b, kind, odd + bytes + GUARD, &p->memory) == SHOAL_OK, "%s", check_error());
  p->there = (char *)p->memory.at + odd;
  CHECK_OK(copy(c->b, bytes, h, p->there));
  CHECK_OK(copy(c->b, GUARD, guard, p->there + bytes));
  return p->there;
}

/* For a call that returned `st`. */
static shoal_status end(call *c, shoal_status st)
{
  shoal_error e;
  shoal_error_take(&e);
  CHECK_OK(c->b->ops->settle(c->b));
  for (int i = 0; i < c->n; i++) {
    place *p = &c->p[i];
    char guard[GUARD];
    if (p->use & OUT) CHECK_OK(copy(c->b, p->bytes, p->there, (void *)(uintptr_t)p->host));
    CHECK_OK(copy(c->b, GUARD, p->there + p->bytes, guard));
    for (int k = 0; k < GUARD; k++)
      if (!CHECK_EQ(guard[k], 0x5a, "something wrote behind argument %d of %zu bytes", i, p->bytes)) break;
    c->b->ops->release(c->b, &p->memory);
  }
  if (st != SHOAL_OK) (void)shoal_error_put(&e);
  return st;
}

#define BEGIN                  call c = begin(m)
#define END(name, ...)         return end(&c, c.b->ops->name(c.b, __VA_ARGS__))
#define IN(p, n)               at(&c, (p), (size_t)(n) * sizeof *(p), 0)
#define INOUT(p, n)            at(&c, (p), (size_t)(n) * sizeof *(p), OUT)
#define PINNED_IN(p, bytes)    at(&c, (p), (bytes), PINNED)
#define PINNED_INOUT(p, bytes) at(&c, (p), (bytes), PINNED | OUT)

static shoal_status alloc(shoal_backend *m, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  if (kind == SHOAL_MEMORY_SHARED) return shoal_host_memory_alloc_shared(bytes, "mirror", out);
  *out = (shoal_memory){ .bytes = bytes, .kind = kind };
  return shoal_alloc(bytes, 1, "mirror", &out->at);
}

static void release(shoal_backend *m, shoal_memory *memory)
{
  shoal_host_memory_release(memory);
}

/* ---- operations ---- */

typedef struct {
  shoal_op op, *behind;
} mirror_op;

static const shoal_op_args *arguments(call *p, const shoal_op *op, const shoal_op_args *a, shoal_op_args *out)
{
  shoal_shape w[SHOAL_OP_WEIGHTS];
  call c = *p;
  shoal_op_weight_shapes(&op->desc, w);
  *out = *a;
  for (int i = 0; i < SHOAL_OP_INPUTS; i++) {
    out->x[i] = at(&c, a->x[i], op->in_format[i].bytes, OUT);
    out->dx[i] = at(&c, a->dx[i], op->in_format[i].bytes, OUT);
    const size_t bytes = (size_t)shoal_shape_count(&w[i]) * sizeof(float);
    if (w[i].ndim > 0) out->w[i] = at(&c, a->w[i], bytes, 0);
    if (w[i].ndim > 0) out->dw[i] = at(&c, a->dw[i], bytes, OUT);
    if (op->desc.kind == SHOAL_OP_BATCHNORM)
      out->stats[i] = at(&c, a->stats[i], (size_t)op->desc.in[0].dim[1] * sizeof(float), OUT);
  }
  out->y = at(&c, a->y, op->out_format.bytes, OUT);
  out->dy = at(&c, a->dy, op->out_format.bytes, OUT);
  out->saved = at(&c, a->saved, op->saved_bytes, OUT);
  out->at = at(&c, a->at, sizeof *a->at, 0);
  out->scratch = at(&c, a->scratch, op->scratch_bytes, OUT);
  *p = c;
  return out;
}

#define RUN(name)                                                                                                      \
  static shoal_status run_##name(shoal_op *op, const shoal_op_args *a)                                                 \
  {                                                                                                                    \
    call c = begin(op->backend);                                                                                       \
    shoal_op_args there;                                                                                               \
    shoal_op *behind = ((mirror_op *)op)->behind;                                                                      \
    return end(&c, behind->name(behind, arguments(&c, op, a, &there)));                                                \
  }
RUN(forward)
RUN(backward_weights)
RUN(backward_data)

static void destroy(shoal_op *op)
{
  shoal_op_destroy(((mirror_op *)op)->behind);
  free(op);
}

static shoal_status op_create(shoal_backend *m, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  shoal_backend *b = ((mirror *)m)->behind;
  shoal_op *behind;
  SHOAL_TRY(b->ops->op_create(b, d, in, &behind));
  mirror_op *o = calloc(1, sizeof *o);
  REQUIRE(o, "out of memory");
  *o = (mirror_op){ .op = *behind, .behind = behind };
  o->op.backend = m;
  o->op.forward = run_forward;
  o->op.destroy = destroy;
  if (behind->backward_weights) o->op.backward_weights = run_backward_weights;
  if (behind->backward_data) o->op.backward_data = run_backward_data;
  *out = &o->op;
  return SHOAL_OK;
}

static shoal_status to_dense(shoal_backend *m, const shoal_shape *s, const shoal_format *from, const float *x, float *y)
{
  BEGIN;
  END(to_dense, s, from, at(&c, x, from->bytes, 0), INOUT(y, shoal_shape_count(s)));
}

static shoal_status from_dense(shoal_backend *m, const shoal_shape *s, const shoal_format *to, const float *x, float *y)
{
  BEGIN;
  END(from_dense, s, to, IN(x, shoal_shape_count(s)), at(&c, y, to->bytes, OUT));
}

/* ---- products, loss, updates ---- */

static shoal_status gemm(shoal_backend *m, bool ta, bool tb, int64_t rows, int64_t n, int64_t k, float alpha,
                         const float *a, int64_t lda, const float *bm, int64_t ldb, float beta, float *out, int64_t ldc)
{
  BEGIN;
  const float *a2 = IN(a, ((ta ? k : rows) - 1) * lda + (ta ? rows : k)),
              *b2 = IN(bm, ((tb ? n : k) - 1) * ldb + (tb ? k : n));
  float *c2 = INOUT(out, (rows - 1) * ldc + n);
  END(gemm, ta, tb, rows, n, k, alpha, a2, lda, b2, ldb, beta, c2, ldc);
}

static shoal_status multiply(shoal_backend *m, int64_t rows, int64_t n, int64_t k, const float *a, const float *bm,
                             float *out)
{
  BEGIN;
  const float *a2 = IN(a, rows * k), *b2 = IN(bm, k * n);
  END(multiply, rows, n, k, a2, b2, INOUT(out, rows * n));
}

static shoal_status softmax_xent(shoal_backend *m, int64_t rows, int64_t classes, const float *logits,
                                 const int32_t *labels, float smoothing, float scale, bool leave_out, float *dlogits,
                                 shoal_loss *out)
{
  BEGIN;
  const float *x = IN(logits, rows * classes);
  float *dx = INOUT(dlogits, rows * classes);
  shoal_loss *loss = PINNED_INOUT(out, sizeof *out);
  END(softmax_xent, rows, classes, x, labels, smoothing, scale, leave_out, dx, loss);
}

static shoal_status add(shoal_backend *m, size_t n, const float *x, float *y)
{
  BEGIN;
  const float *x2 = IN(x, n);
  END(add, n, x2, INOUT(y, n));
}

static shoal_status axpby(shoal_backend *m, size_t n, float p, const float *x, float q, float *y)
{
  BEGIN;
  const float *x2 = IN(x, n);
  END(axpby, n, p, x2, q, INOUT(y, n));
}

static shoal_status sumsq(shoal_backend *m, size_t n, const float *x, double *out)
{
  BEGIN;
  const float *x2 = IN(x, n);
  END(sumsq, n, x2, PINNED_INOUT(out, sizeof *out));
}

static shoal_status clip(shoal_backend *m, float limit, const double *squares, float *out)
{
  BEGIN;
  const double *squares2 = PINNED_IN(squares, sizeof *squares);
  END(clip, limit, squares2, INOUT(out, 1));
}

static shoal_update_watch watch_there(call *p, size_t n, const shoal_update_watch *w)
{
  call c = *p;
  shoal_update_watch there = { .bad = PINNED_INOUT(w->bad, sizeof *w->bad), .w = INOUT(w->w, n) };
  for (int i = 0; i < 2 && w->w; i++) there.state[i] = INOUT(w->state[i], n);
  *p = c;
  return there;
}

static shoal_status descend(shoal_backend *m, size_t n, const shoal_descend_args *a, const float *g, float *w,
                            const shoal_update_watch *watch)
{
  BEGIN;
  shoal_update_watch there = watch_there(&c, n, watch);
  shoal_descend_args a2 = *a;
  a2.now = IN(a->now, 1);
  a2.scale = IN(a->scale, 1);
  const float *g2 = IN(g, n);
  END(descend, n, &a2, g2, INOUT(w, n), &there);
}

static shoal_status sgd(shoal_backend *m, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                        const shoal_update_watch *watch)
{
  BEGIN;
  shoal_update_watch there = watch_there(&c, n, watch);
  shoal_sgd_args a2 = *a;
  a2.now = IN(a->now, 1);
  a2.scale = IN(a->scale, 1);
  const float *g2 = IN(g, n);
  float *v2 = INOUT(v, n);
  END(sgd, n, &a2, g2, v2, INOUT(w, n), &there);
}

static shoal_status adam(shoal_backend *m, size_t n, const shoal_adam_args *a, const float *g, float *m1, float *v,
                         float *w, const shoal_update_watch *watch)
{
  BEGIN;
  shoal_update_watch there = watch_there(&c, n, watch);
  shoal_adam_args a2 = *a;
  a2.now = IN(a->now, 1);
  a2.scale = IN(a->scale, 1);
  const float *g2 = IN(g, n);
  float *m2 = INOUT(m1, n), *v2 = INOUT(v, n);
  END(adam, n, &a2, g2, m2, v2, INOUT(w, n), &there);
}

/* ---- arenas ---- */

static shoal_status settle(shoal_backend *m)
{
  shoal_backend *b = ((mirror *)m)->behind;
  return b->ops->settle(b);
}

static uint64_t mark(shoal_backend *m)
{
  shoal_backend *b = ((mirror *)m)->behind;
  return b->ops->mark(b);
}

static bool reached(shoal_backend *m, uint64_t number)
{
  shoal_backend *b = ((mirror *)m)->behind;
  return b->ops->reached(b, number);
}

/* Its memory is of no kind, so the copy is taken to be one to the host. */
static shoal_status copy_beside(shoal_backend *m, uint64_t after, size_t bytes, const void *from, void *to,
                                uint64_t *number)
{
  BEGIN;
  const void *x = at(&c, from, bytes, 0);
  END(copy_beside, after, bytes, x, PINNED_INOUT(to, bytes), number);
}

static shoal_status await(shoal_backend *m, uint64_t number)
{
  shoal_backend *b = ((mirror *)m)->behind;
  return b->ops->await(b, number);
}

static shoal_status fill(shoal_backend *m, size_t n, float value, float *y)
{
  BEGIN;
  END(fill, n, value, INOUT(y, n));
}

static shoal_status copy_bytes(shoal_backend *m, size_t bytes, const void *from, void *to)
{
  BEGIN;
  const void *x = at(&c, from, bytes, 0);
  END(copy, bytes, x, at(&c, to, bytes, OUT));
}

static size_t extent(const shoal_tile *t, const shoal_tile_side *s)
{
  int64_t row = (int64_t)t->rows - 1, col = (int64_t)t->cols - 1;
  for (size_t i = 0; s->rows && i < t->rows; i++) row = i == 0 || s->rows[i] > row ? s->rows[i] : row;
  for (size_t i = 0; s->cols && i < t->cols; i++) col = i == 0 || s->cols[i] > col ? s->cols[i] : col;
  return (((size_t)(row + s->row_shift) + 1) * t->grain - 1) * s->stride + (size_t)(col + s->col_shift + 1) * t->width;
}

static shoal_status copy_tile(shoal_backend *m, const shoal_tile *t, const float *from, float *to)
{
  BEGIN;
  const bool empty = shoal_tile_count(t) == 0;
  const float *x = IN(from, empty ? 0 : extent(t, &t->from));
  END(copy_tile, t, x, INOUT(to, empty ? 0 : extent(t, &t->to)));
}

static shoal_status copy_checked(shoal_backend *m, size_t n, const float *x, float *y, uint32_t *bad)
{
  BEGIN;
  const float *x2 = IN(x, n);
  float *y2 = INOUT(y, n);
  END(copy_checked, n, x2, y2, PINNED_INOUT(bad, sizeof *bad));
}

static shoal_status find_bad(shoal_backend *m, size_t n, const float *x, size_t *out)
{
  BEGIN;
  const float *x2 = IN(x, n);
  END(find_bad, n, x2, PINNED_INOUT(out, sizeof *out));
}

static shoal_status average(shoal_backend *m, size_t n, const float *x, const float *y, float *z)
{
  BEGIN;
  const float *x2 = IN(x, n), *y2 = IN(y, n);
  END(average, n, x2, y2, INOUT(z, n));
}

static shoal_status divide(shoal_backend *m, size_t n, float divisor, float *y)
{
  BEGIN;
  END(divide, n, divisor, INOUT(y, n));
}

static shoal_status scale(shoal_backend *m, size_t n, double s, const float *x, const float *plus, const float *minus,
                          float *y)
{
  BEGIN;
  const float *x2 = IN(x, n), *plus2 = IN(plus, n), *minus2 = IN(minus, n);
  END(scale, n, s, x2, plus2, minus2, INOUT(y, n));
}

static shoal_status mean(shoal_backend *m, size_t n, size_t count, const float *const *x, float *y)
{
  BEGIN;
  const float *there[PLACES];
  for (size_t k = 0; k < count; k++) there[k] = IN(x[k], n);
  END(mean, n, count, there, INOUT(y, n));
}

static shoal_status distance2(shoal_backend *m, size_t n, const float *x, const float *y, double *out)
{
  BEGIN;
  const float *x2 = IN(x, n), *y2 = IN(y, n);
  END(distance2, n, x2, y2, out);
}

static shoal_status pack16(shoal_backend *m, shoal_half format, size_t n, const float *x, const float *minus,
                           float divisor, uint16_t *out, uint32_t *bad)
{
  BEGIN;
  const float *x2 = IN(x, n), *minus2 = IN(minus, n);
  uint16_t *out2 = PINNED_INOUT(out, n * sizeof *out);
  END(pack16, format, n, x2, minus2, divisor, out2, PINNED_INOUT(bad, sizeof *bad));
}

static shoal_status unpack16(shoal_backend *m, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                             float *y)
{
  BEGIN;
  const uint16_t *x2 = PINNED_IN(x, n * sizeof *x);
  const float *plus2 = IN(plus, n);
  END(unpack16, format, n, x2, plus2, INOUT(y, n));
}

static shoal_status add16(shoal_backend *m, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  BEGIN;
  const uint16_t *x2 = PINNED_IN(x, n * sizeof *x);
  END(add16, format, n, x2, INOUT(y, n));
}

static shoal_status encode(shoal_backend *m, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                           void *out)
{
  BEGIN;
  const float *x2 = IN(x, n);
  int8_t *e = PINNED_INOUT(exponent, shoal_quant_blocks(n));
  END(encode, q, n, x2, e, PINNED_INOUT(out, shoal_quant_bytes(q->bits, n)));
}

static shoal_status decode(shoal_backend *m, int bits, size_t n, const void *parcel, const float *key, float *z,
                           uint8_t *bad)
{
  BEGIN;
  const void *p = PINNED_IN(parcel, shoal_quant_bytes(bits, n));
  const float *key2 = IN(key, n);
  float *z2 = INOUT(z, n);
  END(decode, bits, n, p, key2, z2, PINNED_INOUT(bad, (shoal_quant_blocks(n) + 7) / 8));
}

static shoal_status meet(shoal_backend *m, const shoal_meet_args *a, size_t n, const float *theirs, float *x,
                         float *distance)
{
  BEGIN;
  const size_t blocks = shoal_quant_blocks(n);
  shoal_meet_args there = *a;
  there.exponent = PINNED_IN(a->exponent, blocks);
  there.bad = PINNED_IN(a->bad, (blocks + 7) / 8);
  const float *theirs2 = IN(theirs, n);
  float *x2 = INOUT(x, n);
  END(meet, &there, n, theirs2, x2, PINNED_INOUT(distance, blocks * sizeof *distance));
}

static shoal_status fold(shoal_backend *m, size_t n, float *x, float *y, float *base, float *largest)
{
  BEGIN;
  float *x2 = INOUT(x, n), *y2 = INOUT(y, n), *base2 = INOUT(base, n);
  END(fold, n, x2, y2, base2, PINNED_INOUT(largest, shoal_quant_blocks(n) * sizeof *largest));
}

static void close_mirror(shoal_backend *m)
{
  shoal_backend_close(((mirror *)m)->behind);
  free(m);
}

static const shoal_backend_ops mirror_ops = {
  .alloc = alloc,
  .release = release,
  .op_create = op_create,
  .to_dense = to_dense,
  .from_dense = from_dense,
  .gemm = gemm,
  .multiply = multiply,
  .softmax_xent = softmax_xent,
  .add = add,
  .axpby = axpby,
  .sumsq = sumsq,
  .clip = clip,
  .descend = descend,
  .sgd = sgd,
  .adam = adam,
  .settle = settle,
  .mark = mark,
  .reached = reached,
  .copy_beside = copy_beside,
  .await = await,
  .fill = fill,
  .copy = copy_bytes,
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
  .close = close_mirror,
};

shoal_backend *mirror_of(shoal_backend *b)
{
  if (b->host_memory) return b;
  mirror *m = calloc(1, sizeof *m);
  REQUIRE(m, "out of memory");
  m->base = *b;
  m->base.ops = &mirror_ops;
  m->base.host_memory = true;
  m->behind = b;
  return &m->base;
}

bool mirrored(const shoal_backend *b)
{
  return b->ops == &mirror_ops;
}
