/* Attention in blocks of queries and keys, so that memory grows with their number and not with its square (Dao et al.,
 * FlashAttention, 2022; Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
 *
 *   forward    for each block of queries, over blocks of keys:  S = Q K^T,  P = exp(S - m),  O = O e^(m before - m) + P V
 *              `saved`: m + log of the sum, of each query [n, heads, queries]
 *   backward   P = exp(S - saved) again;  dV += P^T dY,  dS = P (dY V^T - D),  dQ += dS K,  dK += dS^T Q,  D_i = dy_i . y_i
 *
 * A head of a sample is one piece of work, in which everything happens in one order: the bits do not depend on the threads.  Its
 * numbers are copied to rows of their own in scratch, `d` filled up with zeros to LANES, keys and values also turned, so that
 * all products are of the form C += A B with rows of B and C in registers. */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/cpu/vecmath.h"
#include "tensor/cpu/vector.h"
#include <math.h>
#include <omp.h>
#include <string.h>

enum { LANES = 16, ROWS = 32, COLS = 128, TILE = ROWS * COLS }; /* queries and keys of a block */

typedef struct {
  shoal_op op;
  int64_t samples, queries, keys, width, d;
  int64_t wide, across; /* d, and keys, filled up to LANES */
  size_t each;          /* floats of scratch per thread */
} attention_op;

typedef struct {
  const attention_op *p;
  const shoal_op_args *a;
} pass;

/* Areas of a thread's scratch. */
typedef struct {
  float *q, *kt, *v;             /* [queries, wide], [d, across], [keys, wide]; q is divided by sqrt(d) */
  float *s;                      /* [ROWS, COLS] */
  float *o;                      /* [ROWS, wide] */
  float *k, *vt, *dy, *dp;       /* backward: [keys, wide], [d, across], [queries, wide], [ROWS, COLS] */
  float *dq, *dk, *dv, *d, *log; /* [queries, wide], [keys, wide], [keys, wide], [queries], [queries] */
} areas;

static size_t lay_out(const attention_op *p, float *at, areas *r)
{
  const size_t qs = (size_t)(p->queries * p->wide), ks = (size_t)(p->keys * p->wide), ts = (size_t)(p->d * p->across);
  struct {
    float **area;
    size_t n;
    bool back;
  } list[] = { { &r->q, qs, false },
               { &r->kt, ts, false },
               { &r->v, ks, false },
               { &r->s, TILE, false },
               { &r->o, (size_t)(ROWS * p->wide), false },
               { &r->k, ks, true },
               { &r->vt, ts, true },
               { &r->dy, qs, true },
               { &r->dp, TILE, true },
               { &r->dq, qs, true },
               { &r->dk, ks, true },
               { &r->dv, ks, true },
               { &r->d, (size_t)p->queries, true },
               { &r->log, (size_t)p->queries, true } };
  size_t all = 0;
  for (size_t i = 0; i < SHOAL_COUNT(list); i++) {
    if (list[i].back && !p->op.desc.training) continue;
    if (at) *list[i].area = at + all;
    all += shoal_round_up(list[i].n, LANES);
  }
  return all;
}

#define INLINE static inline __attribute__((always_inline))

/* R rows and 16 C columns of C (+)= A B; element (r, k) of A is a[r * ar + k * ak]. */
INLINE void tile(const int R, const int C, int64_t n, const float *a, int64_t ar, int64_t ak, const float *b,
                 int64_t ldb, float *c, int64_t ldc, bool add)
{
  v16 sum[4][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int j = 0; j < C; j++) sum[r][j] = add ? LOAD16(c + r * ldc + j * LANES) : (v16){ 0 };
  for (int64_t k = 0; k < n; k++) {
    v16 row[2];
#pragma GCC unroll 2
    for (int j = 0; j < C; j++) row[j] = LOAD16(b + k * ldb + j * LANES);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      const float x = a[r * ar + k * ak];
#pragma GCC unroll 2
      for (int j = 0; j < C; j++) sum[r][j] += x * row[j];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int j = 0; j < C; j++) STORE16(c + r * ldc + j * LANES, sum[r][j]);
}

/* C[rows, cols] (+)= A[rows, n] B[n, cols], cols a multiple of LANES. */
SHOAL_CPU_KERNEL static void multiply(int64_t rows, int64_t cols, int64_t n, const float *a, int64_t ar, int64_t ak,
                                      const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
  for (int64_t j = 0; j < cols; j += 2 * LANES) {
    const bool pair = cols - j > LANES;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      if (pair)
        tile(4, 2, n, a + r * ar, ar, ak, b + j, ldb, c + r * ldc + j, ldc, add);
      else
        tile(4, 1, n, a + r * ar, ar, ak, b + j, ldb, c + r * ldc + j, ldc, add);
    for (; r < rows; r++)
      if (pair)
        tile(1, 2, n, a + r * ar, ar, ak, b + j, ldb, c + r * ldc + j, ldc, add);
      else
        tile(1, 1, n, a + r * ar, ar, ak, b + j, ldb, c + r * ldc + j, ldc, add);
  }
}

/* Rows of a head, `width` apart, to rows of `wide`, times `by`. */
static void pack(const attention_op *p, const float *x, int64_t rows, float by, float *to)
{
  for (int64_t i = 0; i < rows; i++, x += p->width, to += p->wide) {
    for (int64_t c = 0; c < p->d; c++) to[c] = by * x[c];
    for (int64_t c = p->d; c < p->wide; c++) to[c] = 0;
  }
}

static void pack_turned(const attention_op *p, const float *x, float *to)
{
  for (int64_t c = 0; c < p->d; c++) {
    for (int64_t j = 0; j < p->keys; j++) to[c * p->across + j] = x[j * p->width + c];
    for (int64_t j = p->keys; j < p->across; j++) to[c * p->across + j] = 0;
  }
}

static void unpack(const attention_op *p, const float *from, int64_t rows, float by, float *x)
{
  for (int64_t i = 0; i < rows; i++, x += p->width, from += p->wide)
    for (int64_t c = 0; c < p->d; c++) x[c] = by * from[c];
}

/* How many keys of the block at `first` a query sees. */
static int64_t seen(const attention_op *p, int64_t query, int64_t first)
{
  int64_t n = SHOAL_MIN(p->keys - first, (int64_t)COLS);
  return p->op.desc.causal ? SHOAL_MAX(SHOAL_MIN(n, query + 1 - first), 0) : n;
}

/* Keys that a block of queries sees, up to the last one. */
static int64_t reach(const attention_op *p, int64_t query, int64_t rows)
{
  return p->op.desc.causal ? SHOAL_MIN(p->keys, query + rows) : p->keys;
}

/* s = exp(s - by), zero from n to `all`; returns the sum. */
SHOAL_CPU_KERNEL static float exponentials(float *s, int64_t n, int64_t all, float by)
{
  float lane[LANES] = { 0 }, sum = 0;
  for (int64_t j = n; j < all; j++) s[j] = 0;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += s[j + k] = shoal_cpu_exp(s[j + k] - by);
  for (; j < n; j++) lane[j % LANES] += s[j] = shoal_cpu_exp(s[j] - by);
  for (int k = 0; k < LANES; k++) sum += lane[k];
  return sum;
}

SHOAL_CPU_KERNEL static float largest(const float *s, int64_t n)
{
  float most = s[0];
#pragma omp simd reduction(max : most)
  for (int64_t j = 1; j < n; j++) most = s[j] > most ? s[j] : most;
  return most;
}

SHOAL_CPU_KERNEL static void scale_row(float *o, int64_t n, float by)
{
#pragma omp simd
  for (int64_t c = 0; c < n; c++) o[c] *= by;
}

/* The block of queries at i0: O [rows, wide], not yet divided by `sum`, and `most`. */
static void look(const attention_op *p, const areas *r, int64_t i0, int64_t rows, float *most, float *sum)
{
  for (int64_t i = 0; i < rows; i++) {
    most[i] = -INFINITY;
    sum[i] = 0;
  }
  memset(r->o, 0, (size_t)(rows * p->wide) * sizeof *r->o);
  for (int64_t j0 = 0; j0 < reach(p, i0, rows); j0 += COLS) {
    const int64_t n = SHOAL_MIN(reach(p, i0, rows) - j0, (int64_t)COLS),
                  all = (int64_t)shoal_round_up((size_t)n, LANES);
    multiply(rows, all, p->d, r->q + i0 * p->wide, p->wide, 1, r->kt + j0, p->across, r->s, COLS, false);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t sees = seen(p, i0 + i, j0);
      float *s = r->s + i * COLS, before = most[i];
      if (sees > 0) most[i] = SHOAL_MAX(before, largest(s, sees));
      const float by = before == most[i] ? 1 : j0 ? shoal_cpu_exp(before - most[i]) : 0;
      sum[i] = sum[i] * by + exponentials(s, sees, all, most[i]);
      if (by != 1) scale_row(r->o + i * p->wide, p->wide, by);
    }
    multiply(rows, p->wide, n, r->s, COLS, 1, r->v + j0 * p->wide, p->wide, r->o, p->wide, true);
  }
}

/* Where head `number` of all samples begins in queries, and in keys and values. */
static size_t query_at(const attention_op *p, size_t number)
{
  const size_t heads = (size_t)p->op.desc.heads;
  return number / heads * (size_t)(p->queries * p->width) + number % heads * (size_t)p->d;
}

static size_t key_at(const attention_op *p, size_t number)
{
  const size_t heads = (size_t)p->op.desc.heads;
  return number / heads * (size_t)(p->keys * p->width) + number % heads * (size_t)p->d;
}

static areas areas_of(const pass *t)
{
  areas r = { 0 };
  lay_out(t->p, (float *)t->a->scratch + (size_t)omp_get_thread_num() * t->p->each, &r);
  return r;
}

static void pack_head(const pass *t, size_t number, const areas *r)
{
  const attention_op *p = t->p;
  pack(p, t->a->x[0] + query_at(p, number), p->queries, 1 / sqrtf((float)p->d), r->q);
  pack_turned(p, t->a->x[1] + key_at(p, number), r->kt);
}

static void forward_heads(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const attention_op *p = t->p;
  const areas r = areas_of(t);
  float most[ROWS], sum[ROWS];
  for (size_t number = begin; number < end; number++) {
    float *saved = p->op.desc.training ? (float *)t->a->saved + number * (size_t)p->queries : NULL;
    pack_head(t, number, &r);
    pack(p, t->a->x[2] + key_at(p, number), p->keys, 1, r.v);
    for (int64_t i0 = 0; i0 < p->queries; i0 += ROWS) {
      const int64_t rows = SHOAL_MIN(p->queries - i0, (int64_t)ROWS);
      float *y = t->a->y + query_at(p, number) + i0 * p->width;
      look(p, &r, i0, rows, most, sum);
      for (int64_t i = 0; i < rows; i++) {
        unpack(p, r.o + i * p->wide, 1, 1 / sum[i], y + i * p->width);
        if (saved) saved[i0 + i] = most[i] + logf(sum[i]);
      }
    }
  }
}

/* dS = P (dP - D), in dp. */
SHOAL_CPU_KERNEL static void slopes(const float *s, float *dp, int64_t n, float d)
{
#pragma omp simd
  for (int64_t j = 0; j < n; j++) dp[j] = s[j] * (dp[j] - d);
}

static void block_backward(const attention_op *p, const areas *r, const float *saved, int64_t i0, int64_t rows,
                           int64_t j0)
{
  const int64_t n = SHOAL_MIN(reach(p, i0, rows) - j0, (int64_t)COLS), all = (int64_t)shoal_round_up((size_t)n, LANES);
  const float *dy = r->dy + i0 * p->wide, *q = r->q + i0 * p->wide;
  multiply(rows, all, p->d, q, p->wide, 1, r->kt + j0, p->across, r->s, COLS, false);
  for (int64_t i = 0; i < rows; i++) (void)exponentials(r->s + i * COLS, seen(p, i0 + i, j0), all, saved[i0 + i]);
  multiply(n, p->wide, rows, r->s, 1, COLS, dy, p->wide, r->dv + j0 * p->wide, p->wide, true);
  multiply(rows, all, p->d, dy, p->wide, 1, r->vt + j0, p->across, r->dp, COLS, false);
  for (int64_t i = 0; i < rows; i++) slopes(r->s + i * COLS, r->dp + i * COLS, all, r->d[i0 + i]);
  multiply(rows, p->wide, n, r->dp, COLS, 1, r->k + j0 * p->wide, p->wide, r->dq + i0 * p->wide, p->wide, true);
  multiply(n, p->wide, rows, r->dp, 1, COLS, q, p->wide, r->dk + j0 * p->wide, p->wide, true);
}

static void backward_heads(const void *context, size_t begin, size_t end)
{
  const pass *t = context;
  const attention_op *p = t->p;
  const shoal_op_args *a = t->a;
  const areas r = areas_of(t);
  for (size_t number = begin; number < end; number++) {
    const size_t queries = query_at(p, number), keys = key_at(p, number);
    const float *saved = (const float *)a->saved + number * (size_t)p->queries;
    pack_head(t, number, &r);
    pack(p, a->x[1] + keys, p->keys, 1, r.k);
    pack_turned(p, a->x[2] + keys, r.vt);
    pack(p, a->dy + queries, p->queries, 1, r.dy);
    for (int64_t i = 0; i < p->queries; i++) {
      float sum = 0;
      for (int64_t c = 0; c < p->d; c++) sum += r.dy[i * p->wide + c] * a->y[queries + (size_t)(i * p->width + c)];
      r.d[i] = sum;
    }
    memset(r.dq, 0, (size_t)(p->queries * p->wide) * sizeof *r.dq);
    memset(r.dk, 0, (size_t)(p->keys * p->wide) * sizeof *r.dk);
    memset(r.dv, 0, (size_t)(p->keys * p->wide) * sizeof *r.dv);
    for (int64_t i0 = 0; i0 < p->queries; i0 += ROWS) {
      const int64_t rows = SHOAL_MIN(p->queries - i0, (int64_t)ROWS);
      for (int64_t j0 = 0; j0 < reach(p, i0, rows); j0 += COLS) block_backward(p, &r, saved, i0, rows, j0);
    }
    unpack(p, r.dq, p->queries, 1 / sqrtf((float)p->d), a->dx[0] + queries);
    unpack(p, r.dk, p->keys, 1, a->dx[1] + keys);
    unpack(p, r.dv, p->keys, 1, a->dx[2] + keys);
  }
}

/* Work of a head in what shoal_cpu_parallel counts: 8 MB are as long as SHOAL_CPU_PIECE_MACS. */
static size_t weight_of(const attention_op *p, double products)
{
  double macs = products * (double)p->queries * (double)p->keys * (double)p->wide;
  return (size_t)(macs * (8 << 20) / SHOAL_CPU_PIECE_MACS) + 1;
}

static shoal_status run(shoal_op *op, const shoal_op_args *a, double products, shoal_cpu_range *f)
{
  const attention_op *p = (attention_op *)op;
  pass t = { p, a };
  shoal_cpu_parallel(shoal_cpu_of(op), (size_t)(p->samples * op->desc.heads), 1, weight_of(p, products), f, &t);
  return SHOAL_OK;
}

static shoal_status attention_forward(shoal_op *op, const shoal_op_args *a)
{
  return run(op, a, 2, forward_heads);
}

static shoal_status attention_backward(shoal_op *op, const shoal_op_args *a)
{
  return run(op, a, 5, backward_heads);
}

shoal_status shoal_cpu_plan_attention(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  attention_op *p;
  areas none;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  p->samples = d->in[0].dim[0];
  p->queries = d->in[0].dim[1];
  p->keys = d->in[1].dim[1];
  p->width = d->in[0].dim[2];
  p->d = p->width / d->heads;
  p->wide = (int64_t)shoal_round_up((size_t)p->d, LANES);
  p->across = (int64_t)shoal_round_up((size_t)p->keys, LANES);
  p->each = lay_out(p, NULL, &none);
  op->forward = attention_forward;
  op->backward_data = attention_backward;
  op->backward_reads_x = op->backward_reads_y = true;
  op->scratch_bytes = (size_t)b->base.threads * p->each * sizeof(float);
  if (d->training) op->saved_bytes = (size_t)(p->samples * d->heads * p->queries) * sizeof(float);
  *out = op;
  return SHOAL_OK;
}
