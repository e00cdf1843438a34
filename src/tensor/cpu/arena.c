/* Arenas: everything is bound by memory, so each function is one pass, shared out among the threads.
 *
 * An element's result depends on that element only, and what is measured of a block of 4096 on that block only, so the bits
 * depend neither on the number of threads nor, compiled without contraction, on the processor. */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/half.h"
#include <math.h>
#include <string.h>

enum { GRAIN = 1024, PAGE = 4096, BATCH = 256 }; /* elements; bytes; elements that stay in registers and first cache */

typedef struct {
  float *y, value;
} fill_args;

static void fill_range(const void *context, size_t begin, size_t end)
{
  const fill_args *a = context;
#pragma omp simd
  for (size_t i = begin; i < end; i++) a->y[i] = a->value;
}

shoal_status shoal_cpu_fill(shoal_backend *b, size_t n, float value, float *y)
{
  fill_args a = { y, value };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, sizeof(float), fill_range, &a);
  return SHOAL_OK;
}

typedef struct {
  const char *from;
  char *to;
} copy_args;

static void copy_range(const void *context, size_t begin, size_t end)
{
  const copy_args *a = context;
  memcpy(a->to + begin, a->from + begin, end - begin);
}

shoal_status shoal_cpu_copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  copy_args a = { from, to };
  if (from != to) shoal_cpu_parallel((shoal_cpu *)b, bytes, PAGE, 2, copy_range, &a);
  return SHOAL_OK;
}

typedef struct {
  const shoal_tile *t;
  const float *from;
  float *to;
} tile_args;

static size_t at_row(const shoal_tile *t, const shoal_tile_side *s, size_t row, size_t k)
{
  return ((size_t)((s->rows ? s->rows[row] : (int64_t)row) + s->row_shift) * t->grain + k) * s->stride;
}

static size_t at_col(const shoal_tile *t, const shoal_tile_side *s, size_t col)
{
  return (size_t)((s->cols ? s->cols[col] : (int64_t)col) + s->col_shift) * t->width;
}

static void copy_row(const shoal_tile *t, const float *from, float *to)
{
  if (!t->from.cols && !t->to.cols)
    memcpy(to + at_col(t, &t->to, 0), from + at_col(t, &t->from, 0), t->cols * t->width * sizeof *to);
  else if (t->width == 1)
    for (size_t j = 0; j < t->cols; j++) to[at_col(t, &t->to, j)] = from[at_col(t, &t->from, j)];
  else
    for (size_t j = 0; j < t->cols; j++)
      memcpy(to + at_col(t, &t->to, j), from + at_col(t, &t->from, j), t->width * sizeof *to);
}

static void tile_rows(const void *context, size_t begin, size_t end)
{
  const tile_args *a = context;
  const shoal_tile *t = a->t;
  for (size_t i = begin; i < end; i++)
    for (size_t k = 0; k < t->grain; k++)
      copy_row(t, a->from + at_row(t, &t->from, i, k), a->to + at_row(t, &t->to, i, k));
}

shoal_status shoal_cpu_copy_tile(shoal_backend *b, const shoal_tile *t, const float *from, float *to)
{
  tile_args a = { t, from, to };
  size_t row = t->cols * t->width, bytes = 2 * row * t->grain * sizeof *to;
  bool dense =
      !t->from.rows && !t->to.rows && !t->from.cols && !t->to.cols && t->from.stride == row && t->to.stride == row;
  if (row == 0 || t->rows == 0) return SHOAL_OK;
  if (dense)
    return shoal_cpu_copy(b, shoal_tile_count(t) * sizeof *to,
                          from + at_row(t, &t->from, 0, 0) + at_col(t, &t->from, 0),
                          to + at_row(t, &t->to, 0, 0) + at_col(t, &t->to, 0));
  shoal_cpu_parallel((shoal_cpu *)b, t->rows, 1, bytes, tile_rows, &a);
  return SHOAL_OK;
}

/* The top bit is set if x is not finite: only then the exponent is all ones, and adding one to it carries. */
static inline __attribute__((always_inline)) uint32_t mark(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7f800000u) + 0x00800000u;
}

/* Several threads only set it. */
static void set(uint32_t *flag)
{
  __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
}

typedef struct {
  const float *x, *minus;
  const float *const *list;
  float *y, divisor;
  double s;
  size_t count;
  shoal_half format;
  const uint16_t *half;
  uint16_t *out;
  uint32_t *bad;
} pass_args;

SHOAL_CPU_KERNEL static void checked_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  const float *x = a->x;
  float *y = a->y;
  uint32_t marks = 0;
#pragma omp simd reduction(| : marks)
  for (size_t i = begin; i < end; i++) {
    marks |= mark(x[i]);
    y[i] = x[i];
  }
  if (marks >> 31) set(a->bad);
}

shoal_status shoal_cpu_copy_checked(shoal_backend *b, size_t n, const float *x, float *y, uint32_t *bad)
{
  pass_args a = { .x = x, .y = y, .bad = bad };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 2 * sizeof(float), checked_range, &a);
  return SHOAL_OK;
}

typedef struct {
  const float *x, *y;
  float *z;
} average_args;

static inline __attribute__((always_inline)) void average_loop(size_t n, const float *x, const float *y, float *z)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) z[i] = 0.5f * (x[i] + y[i]);
}

SHOAL_CPU_KERNEL static void average_range(const void *context, size_t begin, size_t end)
{
  const average_args *a = context;
  average_loop(end - begin, a->x + begin, a->y + begin, a->z + begin);
}

shoal_status shoal_cpu_average(shoal_backend *b, size_t n, const float *x, const float *y, float *z)
{
  average_args a = { x, y, z };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 3 * sizeof(float), average_range, &a);
  return SHOAL_OK;
}

SHOAL_CPU_KERNEL static void divide_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  float *y = a->y, divisor = a->divisor;
#pragma omp simd
  for (size_t i = begin; i < end; i++) y[i] /= divisor;
}

shoal_status shoal_cpu_divide(shoal_backend *b, size_t n, float divisor, float *y)
{
  pass_args a = { .y = y, .divisor = divisor };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 2 * sizeof(float), divide_range, &a);
  return SHOAL_OK;
}

typedef struct {
  const float *x, *plus, *minus;
  float *y;
  double s;
} scale_args;

SHOAL_CPU_KERNEL static void scale_range(const void *context, size_t begin, size_t end)
{
  const scale_args *a = context;
  const float *x = a->x, *plus = a->plus, *minus = a->minus;
  float *y = a->y;
  double s = a->s;
  if (!plus) {
#pragma omp simd
    for (size_t i = begin; i < end; i++) y[i] = (float)(s * (double)x[i]);
  } else {
#pragma omp simd
    for (size_t i = begin; i < end; i++) y[i] = (float)(s * ((double)plus[i] - (double)minus[i] + (double)x[i]));
  }
}

shoal_status shoal_cpu_scale(shoal_backend *b, size_t n, double s, const float *x, const float *plus,
                             const float *minus, float *y)
{
  scale_args a = { x, plus, minus, y, s };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 4 * sizeof(float), scale_range, &a);
  return SHOAL_OK;
}

SHOAL_CPU_KERNEL static void mean_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  double divisor = (double)a->count;
  for (size_t at = begin; at < end; at += BATCH) {
    double sum[BATCH] = { 0 };
    size_t n = SHOAL_MIN(end - at, (size_t)BATCH);
    for (size_t k = 0; k < a->count; k++) {
      const float *x = a->list[k] + at;
#pragma omp simd
      for (size_t i = 0; i < n; i++) sum[i] += (double)x[i];
    }
    float *y = a->y + at;
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] = (float)(sum[i] / divisor);
  }
}

shoal_status shoal_cpu_mean(shoal_backend *b, size_t n, size_t count, const float *const *x, float *y)
{
  pass_args a = { .list = x, .count = count, .y = y };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, (count + 1) * sizeof(float), mean_range, &a);
  return SHOAL_OK;
}

/* ---- 16 bits ---- */

/* Differences are taken batch by batch, so that no vector of them is needed. */
SHOAL_CPU_KERNEL static void pack16_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  const float largest = shoal_half_largest(a->format), divisor = a->divisor;
  int bad = 0;
  for (size_t at = begin; at < end; at += BATCH) {
    size_t n = SHOAL_MIN(end - at, (size_t)BATCH);
    const float *x = a->x + at, *minus = a->minus ? a->minus + at : NULL;
    float d[BATCH];
    for (size_t i = 0; i < n; i++) d[i] = minus ? x[i] - minus[i] : x[i];
    if (divisor != 1)
      for (size_t i = 0; i < n; i++) d[i] /= divisor;
    for (size_t i = 0; i < n; i++) bad |= !(fabsf(d[i]) <= largest);
    shoal_half_from_f32(a->format, n, d, a->out + at);
  }
  if (bad && a->bad) set(a->bad);
}

shoal_status shoal_cpu_pack16(shoal_backend *b, shoal_half format, size_t n, const float *x, const float *minus,
                              float divisor, uint16_t *out, uint32_t *bad)
{
  pass_args a = { .format = format, .x = x, .minus = minus, .divisor = divisor, .out = out, .bad = bad };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 10, pack16_range, &a);
  return SHOAL_OK;
}

SHOAL_CPU_KERNEL static void unpack16_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  for (size_t at = begin; at < end; at += BATCH) {
    size_t n = SHOAL_MIN(end - at, (size_t)BATCH);
    float *y = a->y + at;
    shoal_half_to_f32(a->format, n, a->half + at, y);
    const float *plus = a->x ? a->x + at : NULL;
    for (size_t i = 0; plus && i < n; i++) y[i] += plus[i];
  }
}

shoal_status shoal_cpu_unpack16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                float *y)
{
  pass_args a = { .format = format, .half = x, .x = plus, .y = y };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 10, unpack16_range, &a);
  return SHOAL_OK;
}

static void add16_range(const void *context, size_t begin, size_t end)
{
  const pass_args *a = context;
  shoal_half_add(a->format, end - begin, a->half + begin, a->y + begin);
}

shoal_status shoal_cpu_add16(shoal_backend *b, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  pass_args a = { .format = format, .half = x, .y = y };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 10, add16_range, &a);
  return SHOAL_OK;
}

/* ---- parcels: a block at a time, so that its passes hit the cache ---- */

enum { BLOCKS = 8 }; /* whose marks share a byte */

static size_t length_of(size_t n, size_t block)
{
  return SHOAL_MIN(n - block * SHOAL_QUANT_BLOCK, (size_t)SHOAL_QUANT_BLOCK);
}

typedef struct {
  const shoal_quant *q;
  int bits;
  size_t n;
  const float *x;
  float *z;
  int8_t *exponent;
  const void *parcel;
  void *out;
  uint8_t *bad;
} parcel_args;

static void encode_blocks(const void *context, size_t begin, size_t end)
{
  const parcel_args *a = context;
  shoal_quant_encode(a->q, a->n, a->x, a->exponent, a->out, begin, end);
}

/* Quantising a block takes as long as passing over about 30 bytes per number. */
static const size_t block_bytes = SHOAL_QUANT_BLOCK * 30;

shoal_status shoal_cpu_encode(shoal_backend *b, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                              void *out)
{
  parcel_args a = { .q = q, .n = n, .x = x, .exponent = exponent, .out = out };
  shoal_cpu_parallel((shoal_cpu *)b, shoal_quant_blocks(n), BLOCKS, block_bytes, encode_blocks, &a);
  return SHOAL_OK;
}

static void decode_blocks(const void *context, size_t begin, size_t end)
{
  const parcel_args *a = context;
  shoal_quant_decode(a->bits, a->n, a->parcel, a->x, a->z, a->bad, begin, end);
}

shoal_status shoal_cpu_decode(shoal_backend *b, int bits, size_t n, const void *parcel, const float *key, float *z,
                              uint8_t *bad)
{
  parcel_args a = { .bits = bits, .n = n, .parcel = parcel, .x = key, .z = z, .bad = bad };
  shoal_cpu_parallel((shoal_cpu *)b, shoal_quant_blocks(n), BLOCKS, block_bytes, decode_blocks, &a);
  return SHOAL_OK;
}

typedef struct {
  const shoal_meet_args *a;
  size_t n;
  const float *theirs;
  float *c, *distance;
} meet_args;

SHOAL_CPU_KERNEL static float largest_difference(size_t n, const float *x, const float *y)
{
  float largest = 0;
  for (size_t i = 0; i < n; i++) {
    float d = fabsf(x[i] - y[i]);
    largest = d > largest ? d : largest;
  }
  return largest;
}

SHOAL_CPU_KERNEL static void average_block(size_t n, const float *x, const float *y, float *z)
{
  average_loop(n, x, y, z);
}

static void meet_blocks(const void *context, size_t begin, size_t end)
{
  const meet_args *m = context;
  const shoal_meet_args *a = m->a;
  for (size_t k = begin; k < end; k++) {
    size_t at = k * SHOAL_QUANT_BLOCK, count = length_of(m->n, k);
    const float *theirs = m->theirs + at;
    float *c = m->c + at;
    m->distance[k] = largest_difference(count, theirs, c);
    if (!a->average) continue;
    if (a->quant && !shoal_quant_marked(a->bad, k)) shoal_quant_value(a->quant, at, count, c, a->exponent + k, c);
    average_block(count, c, theirs, c);
  }
}

shoal_status shoal_cpu_meet(shoal_backend *b, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                            float *distance)
{
  meet_args m = { a, n, theirs, c, distance };
  shoal_cpu_parallel((shoal_cpu *)b, shoal_quant_blocks(n), 1, block_bytes, meet_blocks, &m);
  return SHOAL_OK;
}

typedef struct {
  size_t n;
  float *x, *c, *base, *largest;
} fold_args;

SHOAL_CPU_KERNEL static float fold_block(size_t n, float *restrict x, float *restrict c, float *restrict base)
{
  float largest = 0;
  for (size_t i = 0; i < n; i++) {
    float u = base[i] - x[i];
    largest = fabsf(u) > largest ? fabsf(u) : largest;
    x[i] = base[i] = c[i] = c[i] - u;
  }
  return largest;
}

static void fold_blocks(const void *context, size_t begin, size_t end)
{
  const fold_args *a = context;
  for (size_t k = begin; k < end; k++) {
    size_t at = k * SHOAL_QUANT_BLOCK;
    a->largest[k] = fold_block(length_of(a->n, k), a->x + at, a->c + at, a->base + at);
  }
}

shoal_status shoal_cpu_fold(shoal_backend *b, size_t n, float *x, float *c, float *base, float *largest)
{
  fold_args a = { n, x, c, base, largest };
  shoal_cpu_parallel((shoal_cpu *)b, shoal_quant_blocks(n), 1, SHOAL_QUANT_BLOCK * 6 * sizeof(float), fold_blocks, &a);
  return SHOAL_OK;
}
