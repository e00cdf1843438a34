/* See veil.h.
 *
 * What calls use of PINNED memory is hidden range by range, as the host may use another part of a block meanwhile.  While a
 * function of the backend runs, the ranges are as they were, latest first; afterwards they are hidden again.
 *
 * Device memory comes from one reserved range of addresses, so that a single call opens or closes all of it; a page is left out
 * between two blocks.  While a function of the backend runs, the veil is open; it closes while that one polls the network. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "veil/veil.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include <execinfo.h>
#include <signal.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 4096, PAGE = 4096, LATE = 4096, EXIT = 99 };
static const size_t range_bytes = (size_t)1 << 34;

typedef struct {
  char *at;
  size_t bytes, whole;
  shoal_memory_kind kind;
} block;

typedef struct {   /* part of PINNED or SHARED memory that a call uses */
  char *at, *kept; /* what is in it */
  size_t bytes;
  uint64_t number; /* of the last call */
  const char *call;
} hidden;

typedef struct { /* a copy that has been asked for */
  uint64_t number;
  size_t bytes;
  const void *from;
  void *to;
  uint32_t crc; /* of what is there to be copied */
  int asked;    /* whether it is reached */
} late_copy;

typedef struct {
  shoal_backend base;
  shoal_backend *inner;
  char *range;
  size_t top; /* bytes of the range that were ever used */
  block block[BLOCKS];
  int blocks;
  uint64_t number;
  hidden *hide;
  int hides, hide_room;
  late_copy late[LATE];
  int lates;
  bool open;
} veil;
static veil *only; /* for the signal handler */

static veil *of(shoal_backend *b)
{
  return (veil *)b;
}

shoal_backend *veil_behind(shoal_backend *b)
{
  return of(b)->inner;
}

/* ---- accusations ---- */

__attribute__((noreturn, format(printf, 1, 2))) static void accuse(const char *format, ...)
{
  char text[256];
  void *caller[40];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text - 1, format, args);
  va_end(args);
  text[n++] = '\n';
  (void)!write(STDERR_FILENO, "veil: ", 6);
  (void)!write(STDERR_FILENO, text, (size_t)n);
  backtrace_symbols_fd(caller, backtrace(caller, SHOAL_COUNT(caller)), STDERR_FILENO);
  _exit(EXIT);
}

static block *find(veil *v, const void *p)
{
  const char *at = p;
  for (int i = 0; i < v->blocks; i++)
    if (at >= v->block[i].at && at <= v->block[i].at + v->block[i].bytes) return &v->block[i];
  return NULL;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
  const block *k = only ? find(only, info->si_addr) : NULL;
  if (k) accuse("host code touches byte %zu of %zu bytes of memory", (size_t)((char *)info->si_addr - k->at), k->bytes);
  accuse("signal %d at %p", signal, info->si_addr);
}

/* ---- memory ---- */

static void protect(void *at, size_t bytes, int how)
{
  if (bytes && mprotect(at, bytes, how) != 0) accuse("mprotect of %zu bytes", bytes);
}

static void show_all(veil *v)
{
  for (int i = v->hides - 1; i >= 0; i--) {
    hidden *h = &v->hide[i];
    for (size_t k = 0; k < h->bytes; k++)
      if ((unsigned char)h->at[k] != 0xff) accuse("host code writes to memory that %s uses", h->call);
    memcpy(h->at, h->kept, h->bytes);
  }
}

static void hide_all(veil *v)
{
  for (int i = 0; i < v->hides; i++) {
    hidden *h = &v->hide[i];
    memcpy(h->kept, h->at, h->bytes);
    memset(h->at, 0xff, h->bytes);
  }
}

static void enter(veil *v)
{
  if (v->open) accuse("the backend is called while one of its functions runs");
  protect(v->range, v->top, PROT_READ | PROT_WRITE);
  show_all(v);
  v->open = true;
}

static shoal_status leave(veil *v, shoal_status st)
{
  v->open = false;
  hide_all(v);
  protect(v->range, v->top, PROT_NONE);
  return st;
}

/* From when the call that now begins has returned. */
static void hide(veil *v, const char *call, const void *p, size_t bytes)
{
  hidden h = { .at = (char *)(uintptr_t)p, .bytes = bytes, .number = v->number + 1, .call = call };
  for (int i = 0; i < v->hides; i++)
    if (v->hide[i].at == h.at && v->hide[i].bytes == bytes) {
      v->hide[i].number = h.number;
      return;
    }
  if (v->hides == v->hide_room) {
    v->hide_room = v->hide_room ? 2 * v->hide_room : 64;
    v->hide = realloc(v->hide, (size_t)v->hide_room * sizeof *v->hide);
  }
  h.kept = malloc(bytes);
  if (!v->hide || !h.kept) accuse("out of memory");
  show_all(v);
  v->hide[v->hides++] = h;
  hide_all(v);
}

static void set_free(veil *v, uint64_t until)
{
  int n = 0;
  show_all(v);
  for (int i = 0; i < v->hides; i++) {
    if (v->hide[i].number <= until)
      free(v->hide[i].kept);
    else
      v->hide[n++] = v->hide[i];
  }
  v->hides = n;
  hide_all(v);
}

/* The block that holds these bytes. */
static block *owned(veil *v, const char *call, const void *p, size_t bytes)
{
  block *k = find(v, p);
  if (!k) accuse("%s is given host memory", call);
  if ((const char *)p + bytes > k->at + k->bytes)
    accuse("%s reaches %zu bytes beyond its memory", call, (size_t)((const char *)p + bytes - k->at) - k->bytes);
  return k;
}

/* `bytes` at `p` are the backend's and used by the call that begins. */
static void uses(veil *v, const char *call, const void *p, size_t bytes)
{
  if (!p || !bytes) return;
  block *k = owned(v, call, p, bytes);
  if (k->kind != SHOAL_MEMORY_DEVICE) hide(v, call, p, bytes);
}

/* As `uses`, but only reads: the host may read it, too. */
static void reads(veil *v, const char *call, const void *p, size_t bytes)
{
  if (p && bytes) (void)owned(v, call, p, bytes);
}

/* A result for the host. */
static void pinned(veil *v, const char *call, const void *p, size_t bytes)
{
  uses(v, call, p, bytes);
  if (p && bytes && find(v, p)->kind == SHOAL_MEMORY_DEVICE)
    accuse("%s writes a result for the host to DEVICE memory", call);
}

/* Host memory or the backend's. */
static void may_use(veil *v, const char *call, const void *p, size_t bytes)
{
  if (p && find(v, p)) uses(v, call, p, bytes);
}

static void copy_late(veil *v, uint64_t until)
{
  int n = 0;
  enter(v);
  for (; n < v->lates && v->late[n].number <= until; n++) {
    const late_copy *c = &v->late[n];
    if (shoal_crc32c(0, c->from, c->bytes) != c->crc)
      accuse("what copy_beside copies has changed before it was reached");
    memcpy(c->to, c->from, c->bytes);
  }
  leave(v, SHOAL_OK);
  v->lates -= n;
  memmove(v->late, v->late + n, (size_t)v->lates * sizeof *v->late);
}

static char *place(veil *v, size_t whole)
{
  size_t at = 0;
  for (bool moved = true; moved;) { /* the first gap */
    moved = false;
    for (int i = 0; i < v->blocks; i++) {
      const block *k = &v->block[i];
      if (k->kind != SHOAL_MEMORY_DEVICE) continue;
      size_t from = (size_t)(k->at - v->range), to = from + k->whole + PAGE;
      if (at < to && from < at + whole + PAGE) at = to, moved = true;
    }
  }
  if (at + whole > range_bytes) return NULL;
  v->top = SHOAL_MAX(v->top, at + whole);
  return v->range + at;
}

static shoal_status alloc(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  veil *v = of(b);
  block k = { .bytes = bytes, .whole = shoal_round_up(SHOAL_MAX(bytes, (size_t)1), PAGE), .kind = kind };
  *out = (shoal_memory){ .bytes = bytes, .kind = kind };
  SHOAL_CHECK(v->blocks < BLOCKS, SHOAL_ERR_MEM, "veil: no room for another block");
  if (kind == SHOAL_MEMORY_SHARED) {
    SHOAL_TRY(shoal_host_memory_alloc_shared(bytes, "memory behind a veil", out));
    k.at = out->at;
  } else if (kind == SHOAL_MEMORY_PINNED) {
    k.at = mmap(NULL, k.whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    k.at = place(v, k.whole);
    if (k.at) {
      protect(k.at, k.whole, PROT_READ | PROT_WRITE);
      memset(k.at, 0, k.whole);
      protect(k.at, k.whole, PROT_NONE);
    }
  }
  SHOAL_CHECK(k.at && k.at != MAP_FAILED, SHOAL_ERR_MEM, "veil: %zu bytes", bytes);
  out->at = k.at;
  v->block[v->blocks++] = k;
  return SHOAL_OK;
}

static shoal_status settle(shoal_backend *b)
{
  veil *v = of(b);
  copy_late(v, UINT64_MAX);
  set_free(v, UINT64_MAX);
  return SHOAL_OK;
}

static void release(shoal_backend *b, shoal_memory *m)
{
  veil *v = of(b);
  if (!m->at) return;
  (void)settle(b);
  block *k = find(v, m->at);
  if (!k || k->at != m->at) accuse("memory is released that was not allocated");
  if (k->kind == SHOAL_MEMORY_SHARED)
    shoal_host_memory_release(m);
  else if (k->kind == SHOAL_MEMORY_PINNED)
    munmap(k->at, k->whole);
  *k = v->block[--v->blocks];
  *m = (shoal_memory){ 0 };
}

/* ---- order ---- */

static uint64_t mark(shoal_backend *b)
{
  return ++of(b)->number;
}

static bool reached(shoal_backend *b, uint64_t number)
{
  veil *v = of(b);
  for (int i = 0; i < v->lates; i++) {
    if (v->late[i].number > number) break;
    if (v->late[i].asked++ == 0) return false;
  }
  copy_late(v, number);
  set_free(v, number);
  return true;
}

static shoal_status copy_beside(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                                uint64_t *number)
{
  veil *v = of(b);
  SHOAL_CHECK(v->lates < LATE, SHOAL_ERR_INTERNAL, "veil: too many copies are under way");
  (void)owned(v, __func__, from, bytes);
  (void)owned(v, __func__, to, bytes);
  *number = ++v->number;
  enter(v);
  v->late[v->lates++] = (late_copy){ *number, bytes, from, to, shoal_crc32c(0, from, bytes), 0 };
  memset(to, 0xff, bytes);
  return leave(v, SHOAL_OK);
}

static shoal_status await(shoal_backend *b, uint64_t number)
{
  copy_late(of(b), number);
  return SHOAL_OK;
}

/* ---- the table ---- */

#define INNER(call) (enter(of(b)), leave(of(b), of(b)->inner->ops->call))
#define F           sizeof(float)
#define IN          of(b)->inner

static shoal_status to_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x, float *y)
{
  reads(of(b), __func__, x, from->bytes);
  uses(of(b), __func__, y, (size_t)shoal_shape_count(s) * F);
  return INNER(to_dense(IN, s, from, x, y));
}

static shoal_status from_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x, float *y)
{
  reads(of(b), __func__, x, (size_t)shoal_shape_count(s) * F);
  uses(of(b), __func__, y, to->bytes);
  return INNER(from_dense(IN, s, to, x, y));
}

static size_t matrix(int64_t rows, int64_t cols, int64_t ld)
{
  return rows && cols ? (size_t)((rows - 1) * ld + cols) * F : 0;
}

static shoal_status gemm(shoal_backend *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                         const float *x, int64_t lda, const float *y, int64_t ldb, float beta, float *c, int64_t ldc)
{
  reads(of(b), __func__, x, ta ? matrix(k, m, lda) : matrix(m, k, lda));
  uses(of(b), __func__, y, tb ? matrix(n, k, ldb) : matrix(k, n, ldb));
  uses(of(b), __func__, c, matrix(m, n, ldc));
  return INNER(gemm(IN, ta, tb, m, n, k, alpha, x, lda, y, ldb, beta, c, ldc));
}

static shoal_status multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *x, const float *y,
                             float *c)
{
  reads(of(b), __func__, x, (size_t)(m * k) * F);
  uses(of(b), __func__, y, (size_t)(k * n) * F);
  uses(of(b), __func__, c, (size_t)(m * n) * F);
  return INNER(multiply(IN, m, n, k, x, y, c));
}

static shoal_status softmax_xent(shoal_backend *b, int64_t rows, int64_t classes, const float *logits,
                                 const int32_t *labels, float smoothing, float scale, bool leave_out, float *dlogits,
                                 shoal_loss *out)
{
  size_t bytes = (size_t)(rows * classes) * F;
  reads(of(b), __func__, logits, bytes);
  uses(of(b), __func__, dlogits, bytes);
  pinned(of(b), __func__, out, sizeof *out);
  return INNER(softmax_xent(IN, rows, classes, logits, labels, smoothing, scale, leave_out, dlogits, out));
}

static shoal_status add(shoal_backend *b, size_t n, const float *x, float *y)
{
  reads(of(b), __func__, x, n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(add(IN, n, x, y));
}

static shoal_status axpby(shoal_backend *b, size_t n, float p, const float *x, float q, float *y)
{
  reads(of(b), __func__, x, n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(axpby(IN, n, p, x, q, y));
}

static shoal_status sumsq(shoal_backend *b, size_t n, const float *x, double *out)
{
  reads(of(b), __func__, x, n * F);
  pinned(of(b), __func__, out, sizeof *out);
  return INNER(sumsq(IN, n, x, out));
}

static shoal_status clip(shoal_backend *b, float limit, const double *squares, float *scale)
{
  reads(of(b), __func__, squares, sizeof *squares);
  uses(of(b), __func__, scale, sizeof *scale);
  return INNER(clip(IN, limit, squares, scale));
}

static void watches(shoal_backend *b, const char *call, size_t n, const shoal_pace *now, const float *scale,
                    const shoal_update_watch *watch)
{
  reads(of(b), call, now, sizeof *now);
  reads(of(b), call, scale, F);
  pinned(of(b), call, watch->bad, sizeof *watch->bad);
  uses(of(b), call, watch->w, n * F);
  for (int i = 0; i < 2; i++) uses(of(b), call, watch->state[i], n * F);
}

static shoal_status descend(shoal_backend *b, size_t n, const shoal_descend_args *a, const float *g, float *w,
                            const shoal_update_watch *watch)
{
  watches(b, __func__, n, a->now, a->scale, watch);
  reads(of(b), __func__, g, n * F);
  uses(of(b), __func__, w, n * F);
  return INNER(descend(IN, n, a, g, w, watch));
}

static shoal_status sgd(shoal_backend *b, size_t n, const shoal_sgd_args *a, const float *g, float *s, float *w,
                        const shoal_update_watch *watch)
{
  watches(b, __func__, n, a->now, a->scale, watch);
  reads(of(b), __func__, g, n * F);
  uses(of(b), __func__, s, n * F);
  uses(of(b), __func__, w, n * F);
  return INNER(sgd(IN, n, a, g, s, w, watch));
}

static shoal_status adam(shoal_backend *b, size_t n, const shoal_adam_args *a, const float *g, float *m, float *s,
                         float *w, const shoal_update_watch *watch)
{
  watches(b, __func__, n, a->now, a->scale, watch);
  reads(of(b), __func__, g, n * F);
  uses(of(b), __func__, m, n * F);
  uses(of(b), __func__, s, n * F);
  uses(of(b), __func__, w, n * F);
  return INNER(adam(IN, n, a, g, m, s, w, watch));
}

static shoal_status fill(shoal_backend *b, size_t n, float value, float *y)
{
  uses(of(b), __func__, y, n * F);
  return INNER(fill(IN, n, value, y));
}

static shoal_status copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  if (find(of(b), from)) reads(of(b), __func__, from, bytes);
  may_use(of(b), __func__, to, bytes);
  return INNER(copy(IN, bytes, from, to));
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
  reads(of(b), __func__, from, reach(t, &t->from));
  uses(of(b), __func__, to, reach(t, &t->to));
  return INNER(copy_tile(IN, t, from, to));
}

static shoal_status copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad)
{
  reads(of(b), __func__, x, n * F);
  uses(of(b), __func__, y, n * F);
  pinned(of(b), __func__, bad, sizeof *bad);
  return INNER(copy_checked(IN, n, x, y, bad));
}

static shoal_status find_bad(shoal_backend *b, size_t n, const float *x, size_t *out)
{
  reads(of(b), __func__, x, n * F);
  pinned(of(b), __func__, out, sizeof *out);
  return INNER(find_bad(IN, n, x, out));
}

static shoal_status average(shoal_backend *b, size_t n, const float *x, const float *y, float *z)
{
  reads(of(b), __func__, x, n * F);
  uses(of(b), __func__, y, n * F);
  uses(of(b), __func__, z, n * F);
  return INNER(average(IN, n, x, y, z));
}

static shoal_status divide(shoal_backend *b, size_t n, float divisor, float *y)
{
  uses(of(b), __func__, y, n * F);
  return INNER(divide(IN, n, divisor, y));
}

static shoal_status scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus, const float *minus,
                          float *y)
{
  reads(of(b), __func__, x, n * F);
  reads(of(b), __func__, plus, n * F);
  reads(of(b), __func__, minus, n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(scale(IN, n, s, x, plus, minus, y));
}

static shoal_status mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y)
{
  for (size_t i = 0; i < count; i++) reads(of(b), __func__, x[i], n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(mean(IN, n, count, x, y));
}

static shoal_status distance2(shoal_backend *b, size_t n, const float *x, const float *y, double *out)
{
  reads(of(b), __func__, x, n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(distance2(IN, n, x, y, out));
}

static shoal_status pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                           float divisor, uint16_t *out, uint32_t *bad)
{
  reads(of(b), __func__, x, n * F);
  reads(of(b), __func__, minus, n * F);
  uses(of(b), __func__, out, n * sizeof *out);
  pinned(of(b), __func__, bad, sizeof *bad);
  return INNER(pack16(IN, format, n, x, minus, divisor, out, bad));
}

static shoal_status unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                             float *y)
{
  reads(of(b), __func__, x, n * sizeof *x);
  reads(of(b), __func__, plus, n * F);
  uses(of(b), __func__, y, n * F);
  return INNER(unpack16(IN, format, n, x, plus, y));
}

static shoal_status add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  reads(of(b), __func__, x, n * sizeof *x);
  uses(of(b), __func__, y, n * F);
  return INNER(add16(IN, format, n, x, y));
}

static size_t marks(size_t n)
{
  return (shoal_quant_blocks(n) + 7) / 8;
}

static shoal_status encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                           void *out)
{
  reads(of(b), __func__, x, n * F);
  pinned(of(b), __func__, exponent, shoal_quant_blocks(n));
  pinned(of(b), __func__, out, shoal_quant_bytes(q->bits, n));
  return INNER(encode(IN, q, n, x, exponent, out));
}

static shoal_status decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                           uint8_t *bad)
{
  reads(of(b), __func__, parcel, shoal_quant_bytes(bits, n));
  reads(of(b), __func__, key, n * F);
  uses(of(b), __func__, z, n * F);
  pinned(of(b), __func__, bad, marks(n));
  return INNER(decode(IN, bits, n, parcel, key, z, bad));
}

static shoal_status meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                         float *distance)
{
  reads(of(b), __func__, a->exponent, a->quant ? shoal_quant_blocks(n) : 0);
  reads(of(b), __func__, a->bad, a->quant ? marks(n) : 0);
  reads(of(b), __func__, theirs, n * F);
  uses(of(b), __func__, c, n * F);
  pinned(of(b), __func__, distance, shoal_quant_blocks(n) * F);
  return INNER(meet(IN, a, n, theirs, c, distance));
}

static shoal_status fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest)
{
  uses(of(b), __func__, x, n * F);
  uses(of(b), __func__, c, n * F);
  uses(of(b), __func__, base, n * F);
  pinned(of(b), __func__, largest, shoal_quant_blocks(n) * F);
  return INNER(fold(IN, n, x, c, base, largest));
}

/* ---- operations of networks ---- */

typedef struct {
  shoal_op op;
  shoal_op *inner;
} veiled_op;

static void uses_all(shoal_op *op, const char *call, const shoal_op_args *a)
{
  veil *v = of(op->backend);
  shoal_shape w[SHOAL_OP_WEIGHTS];
  shoal_op_weight_shapes(&op->desc, w);
  for (int i = 0; i < SHOAL_OP_INPUTS; i++) {
    reads(v, call, a->x[i], op->in_format[i].bytes);
    uses(v, call, a->dx[i], op->in_format[i].bytes);
    reads(v, call, a->w[i], w[i].ndim ? (size_t)shoal_shape_count(&w[i]) * F : 0);
    uses(v, call, a->dw[i], w[i].ndim ? (size_t)shoal_shape_count(&w[i]) * F : 0);
    uses(v, call, a->stats[i], F);
  }
  uses(v, call, a->y, op->out_format.bytes);
  reads(v, call, a->dy, op->out_format.bytes);
  uses(v, call, a->saved, op->saved_bytes);
  uses(v, call, a->scratch, op->scratch_bytes);
  reads(v, call, a->at, sizeof *a->at);
}

#define PASS(step)                                                                                                     \
  static shoal_status op_##step(shoal_op *op, const shoal_op_args *a)                                                  \
  {                                                                                                                    \
    veil *v = of(op->backend);                                                                                         \
    shoal_op *inner = ((veiled_op *)op)->inner;                                                                        \
    uses_all(op, #step, a);                                                                                            \
    enter(v);                                                                                                          \
    return leave(v, inner->step(inner, a));                                                                            \
  }
PASS(forward)
PASS(backward_weights)
PASS(backward_data)

static void op_destroy(shoal_op *op)
{
  shoal_op_destroy(((veiled_op *)op)->inner);
  free(op);
}

static shoal_status op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  veiled_op *o = calloc(1, sizeof *o);
  SHOAL_CHECK(o, SHOAL_ERR_MEM, "veil: operation");
  shoal_status st = IN->ops->op_create(IN, d, in, &o->inner);
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

/* ---- opening ---- */

static void progress(void *context)
{
  veil *v = context;
  if (!v->base.progress) return;
  if (v->open) leave(v, SHOAL_OK);
  v->base.progress(v->base.progress_context);
  enter(v);
}

static void close_veil(shoal_backend *b)
{
  veil *v = of(b);
  shoal_backend_close(v->inner);
  munmap(v->range, range_bytes);
  for (int i = 0; i < v->hides; i++) free(v->hide[i].kept);
  free(v->hide);
  only = NULL;
  free(v);
}

static const shoal_backend_ops veil_ops = {
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
  .close = close_veil,
};

shoal_status veil_over(shoal_backend *inner, shoal_backend **out)
{
  veil *v = calloc(1, sizeof *v);
  SHOAL_CHECK(v, SHOAL_ERR_MEM, "veil");
  v->range = mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SHOAL_CHECK(v->range != MAP_FAILED, SHOAL_ERR_MEM, "veil: %zu bytes of addresses", range_bytes);
  v->base = (shoal_backend){ .name = inner->name, .ops = &veil_ops, .threads = inner->threads };
  v->inner = inner;
  inner->progress = progress;
  inner->progress_context = v;
  only = v;
  struct sigaction on = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
  if (sigaction(SIGSEGV, &on, NULL) != 0) accuse("sigaction");
  *out = &v->base;
  return SHOAL_OK;
}
