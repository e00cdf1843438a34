/* Winograd's algorithm F(4x4, 3x3) (Lavin and Gray, CVPR 2016): 4x4 outputs of a 3x3 convolution from 6x6 inputs by 36
 * multiplications instead of 144,
 *
 *   y = A^T [ sum over inputs of (G w G^T) . (B^T x B) ] A          dw = G^T [ sum over tiles of (A dy A^T) . (B^T x B) ] G
 *
 * where . multiplies point by point: over many tiles and channels each of the 36 points is a matrix product.  The
 * gradient of x is the convolution of dy with the kernels turned by 180 degrees.
 *
 * Transforms work on LANES channels at a time, as they lie in nChw16c or nChw8c.  Rows and points are a cache line further
 * apart than they need be: powers of two would put all of them into the same few sets of the cache.
 *
 * Included by one file for each instruction set, which defines
 *   KERNELS   the table that this makes
 *   ISA       the instruction set, as in the attribute target
 *   LANES     floats in a register
 *   ROWS      rows of a product, two registers wide, that stay in registers; a divisor of LANES */
#include "tensor/cpu/vector.h"
#include "tensor/cpu/winograd.h"
#include <string.h>

typedef float V __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef unsigned VU __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define LOAD(p)       (*(const V *)(p))
#define STORE(p, v)   (*(V *)(p) = (v))
#define KEEP(mask, v) ((V)((VI)(v) & (mask)))
#define PASSES(v)     SHOAL_PASSES(VI, VU, v)

#define INLINE static inline __attribute__((always_inline))
#ifdef __x86_64__
#define KERNEL __attribute__((target(ISA), noinline))
#else
#define KERNEL __attribute__((noinline))
#endif
enum { POINTS = SHOAL_WINOGRAD_POINTS, LINE = SHOAL_WINOGRAD_LINE };

/* Of LANES outputs from k on, those that have a weight for input c; the others are filled with zeros. */
INLINE int weights_of(const shoal_winograd *g, int64_t k, int64_t c)
{
  int64_t left = c < g->w_in ? g->w_out - k : 0;
  return left > LANES ? LANES : left < 0 ? 0 : (int)left;
}

/* --- the one-dimensional transforms: from s vectors apart to vectors t apart ---
 *
 * They evaluate and interpolate polynomials at 0, N, -N, F, -F and infinity.  With N = 5/8 and F = 3/2 errors are a fifth of
 * those with 1 and 2, which need fewer products.  All factors of A and B are exact, too. */
#define N    (5.0f / 8)
#define F    (3.0f / 2)
#define NN   (N * N)
#define FF   (F * F)
#define AT_0 (1 / (NN * FF)) /* factors of G */
#define AT_N (-1 / (2 * NN * (FF - NN)))
#define AT_F (1 / (2 * FF * (FF - NN)))

INLINE void times_b(const V *d, int s, V *o, int64_t t)
{
  V d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
  V near = d4 - FF * d2, near_odd = d3 - FF * d1, far = d4 - NN * d2, far_odd = d3 - NN * d1;
  o[0] = NN * FF * d0 - (NN + FF) * d2 + d4;
  o[t] = near + N * near_odd;
  o[2 * t] = near - N * near_odd;
  o[3 * t] = far + F * far_odd;
  o[4 * t] = far - F * far_odd;
  o[5 * t] = NN * FF * d1 - (NN + FF) * d3 + d5;
}

INLINE void times_at(const V *m, int s, V *o, int t)
{
  V near = m[s] + m[2 * s], near_odd = m[s] - m[2 * s], far = m[3 * s] + m[4 * s], far_odd = m[3 * s] - m[4 * s];
  o[0] = m[0] + near + far;
  o[t] = N * near_odd + F * far_odd;
  o[2 * t] = NN * near + FF * far;
  o[3 * t] = NN * N * near_odd + FF * F * far_odd + m[5 * s];
}

INLINE void times_a(const V *y, int s, V *o, int64_t t)
{
  V y0 = y[0], y1 = y[s], y2 = y[2 * s], y3 = y[3 * s];
  V near = y0 + NN * y2, near_odd = y1 + NN * y3, far = y0 + FF * y2, far_odd = y1 + FF * y3;
  o[0] = y0;
  o[t] = near + N * near_odd;
  o[2 * t] = near - N * near_odd;
  o[3 * t] = far + F * far_odd;
  o[4 * t] = far - F * far_odd;
  o[5 * t] = y3;
}

INLINE void times_g(const V *w, int s, V *o, int64_t t)
{
  V w0 = w[0], w1 = w[s], w2 = w[2 * s], near = AT_N * (w0 + NN * w2), far = AT_F * (w0 + FF * w2);
  o[0] = AT_0 * w0;
  o[t] = near + AT_N * N * w1;
  o[2 * t] = near - AT_N * N * w1;
  o[3 * t] = far + AT_F * F * w1;
  o[4 * t] = far - AT_F * F * w1;
  o[5 * t] = w2;
}

INLINE void times_gt(const V *m, int s, V *o, int t)
{
  V near = AT_N * (m[s] + m[2 * s]), far = AT_F * (m[3 * s] + m[4 * s]);
  o[0] = AT_0 * m[0] + near + far;
  o[t] = AT_N * N * (m[s] - m[2 * s]) + AT_F * F * (m[3 * s] - m[4 * s]);
  o[2 * t] = NN * near + FF * far + m[5 * s];
}

/* --- tiles --- */
typedef struct {
  int64_t image, row, column; /* of its first output */
} place;

INLINE place place_of(const shoal_winograd *g, int64_t tile)
{
  int64_t at = tile % g->each;
  return (place){ tile / g->each, at / g->across * 4, at % g->across * 4 };
}

INLINE void next(const shoal_winograd *g, place *at)
{
  at->column += 4;
  if (at->column < g->q) return;
  at->column = 0;
  at->row += 4;
  if (at->row < g->p) return;
  at->row = 0;
  at->image++;
}

/* The part of n positions from `first` on that lies in an image side of `side`. */
INLINE void clip(int64_t first, int n, int64_t side, int *from, int *to)
{
  *from = first < 0 ? (int)-first : 0;
  *to = first + n > side ? (int)(side - first) : n;
}

INLINE void input_tile(const float *from, int64_t row, float *to, int64_t apart)
{
  V half[6][6];
  for (int k = 0; k < 6; k++) {
    V d[6];
    for (int r = 0; r < 6; r++) d[r] = LOAD(from + r * row + k * LANES);
    times_b(d, 1, &half[0][k], 6);
  }
  for (int r = 0; r < 6; r++) {
    V o[6];
    times_b(half[r], 1, o, 1);
    for (int k = 0; k < 6; k++) STORE(to + (r * 6 + k) * apart, o[k]);
  }
}

KERNEL static void input(const shoal_winograd *g, const float *x, int64_t begin, int64_t end, float *v)
{
  int64_t plane = g->h * g->w, apart = shoal_winograd_in_point(g, end - begin);
  for (int64_t c = 0; c < g->in; c += LANES) {
    place at = place_of(g, begin);
    for (int64_t tile = begin; tile < end; tile++, next(g, &at)) {
      int64_t i = at.row - g->pad[0], j = at.column - g->pad[1];
      const float *from = x + (at.image * g->in + c) * plane + (i * g->w + j) * LANES;
      float *to = v + (tile - begin) * shoal_winograd_in_row(g) + c;
      int top, bottom, left, right;
      clip(i, 6, g->h, &top, &bottom);
      clip(j, 6, g->w, &left, &right);
      for (int r = 6; r < 10; r++)
        for (int k = 1; k < 5; k++) __builtin_prefetch(from + (r * g->w + k) * LANES);
      if (top == 0 && bottom == 6 && left == 0 && right == 6) {
        input_tile(from, g->w * LANES, to, apart);
      } else {
        V framed[6][6];
        memset(framed, 0, sizeof framed);
        for (int r = top; r < bottom; r++)
          for (int k = left; k < right; k++) framed[r][k] = LOAD(from + (r * g->w + k) * LANES);
        input_tile((const float *)framed, 6 * LANES, to, apart);
      }
    }
  }
}

KERNEL static void output(const shoal_winograd *g, const float *m, int64_t begin, int64_t end, int64_t group,
                          const float *bias, bool relu, float *y)
{
  int64_t plane = g->p * g->q, apart = shoal_winograd_out_point(g, end - begin), wide = shoal_winograd_group(g);
  for (int64_t k = 0; k < wide; k += LANES) {
    place at = place_of(g, begin);
    int64_t channel = group * wide + k;
    int lanes = weights_of(g, channel, 0);
    V plus = { 0 };
    VI kept = { 0 }; /* the lanes behind the last channel are zero even where a NaN has met their zero weights */
    if (bias) memcpy(&plus, bias + channel, (size_t)lanes * sizeof(float));
    memset(&kept, 0xff, (size_t)lanes * sizeof(float));
    for (int64_t tile = begin; tile < end; tile++, next(g, &at)) {
      const float *from = m + (tile - begin) * wide + k;
      float *to = y + (at.image * g->out + channel) * plane + (at.row * g->q + at.column) * LANES;
      V half[4][6];
      for (int r = 4; r < 8; r++)
        for (int j = 0; j < 4; j++) __builtin_prefetch(to + (r * g->q + j) * LANES, 1);
      for (int j = 0; j < 6; j++) {
        V d[6];
        for (int r = 0; r < 6; r++) d[r] = LOAD(from + (r * 6 + j) * apart);
        times_at(d, 1, &half[0][j], 6);
      }
      int rows = (int)SHOAL_MIN(g->p - at.row, INT64_C(4)), columns = (int)SHOAL_MIN(g->q - at.column, INT64_C(4));
      for (int r = 0; r < rows; r++) {
        V o[4];
        times_at(half[r], 1, o, 1);
        for (int j = 0; j < 4; j++) {
          o[j] = KEEP(kept, o[j] + plus);
          if (relu) o[j] = KEEP(PASSES(o[j]), o[j]);
          if (j < columns) STORE(to + (r * g->q + j) * LANES, o[j]);
        }
      }
    }
  }
}

KERNEL static void gradient(const shoal_winograd *g, const float *dy, int64_t begin, int64_t end, int64_t group,
                            float *m)
{
  int64_t plane = g->p * g->q, apart = shoal_winograd_out_point(g, end - begin), wide = shoal_winograd_group(g);
  for (int64_t k = 0; k < wide; k += LANES) {
    place at = place_of(g, begin);
    for (int64_t tile = begin; tile < end; tile++, next(g, &at)) {
      int rows = (int)SHOAL_MIN(g->p - at.row, INT64_C(4)), columns = (int)SHOAL_MIN(g->q - at.column, INT64_C(4));
      const float *from = dy + (at.image * g->out + group * wide + k) * plane + (at.row * g->q + at.column) * LANES;
      float *to = m + (tile - begin) * wide + k;
      V d[4][4], half[6][4];
      for (int r = 4; r < 8; r++)
        for (int j = 0; j < 4; j++) __builtin_prefetch(from + (r * g->q + j) * LANES);
      if (rows < 4 || columns < 4) memset(d, 0, sizeof d);
      for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) d[r][j] = LOAD(from + (r * g->q + j) * LANES);
      for (int j = 0; j < 4; j++) times_a(&d[0][j], 4, &half[0][j], 4);
      for (int r = 0; r < 6; r++) {
        V o[6];
        times_a(half[r], 1, o, 1);
        for (int j = 0; j < 6; j++) STORE(to + (r * 6 + j) * apart, o[j]);
      }
    }
  }
}

/* --- weights --- */
KERNEL static void weights(const shoal_winograd *g, bool flip, const float *w, int64_t begin, int64_t end, float *u)
{
  int64_t wide = shoal_winograd_group(g), apart = shoal_winograd_weights_point(g);
  int64_t by_out = flip ? 9 : g->w_in * 9, by_in = flip ? g->w_out * 9 : 9;
  for (int64_t k = begin * wide; k < end * wide; k += LANES)
    for (int64_t c = 0; c < g->in; c++) {
      const float *from = w + k * by_out + c * by_in;
      float *to = u + k / wide * POINTS * apart + c * wide + k % wide;
      int lanes = weights_of(g, k, c);
      float taps[9][LANES];
      V half[6][3];
      if (lanes < LANES) memset(taps, 0, sizeof taps);
      for (int l = 0; l < lanes; l++)
        for (int i = 0; i < 9; i++) taps[flip ? 8 - i : i][l] = from[l * by_out + i];
      for (int j = 0; j < 3; j++) times_g((const V *)taps[j], 3, &half[0][j], 3);
      for (int r = 0; r < 6; r++) {
        V o[6];
        times_g(half[r], 1, o, 1);
        for (int j = 0; j < 6; j++) STORE(to + (r * 6 + j) * apart, o[j]);
      }
    }
}

KERNEL static void dw_of(const shoal_winograd *g, const float *u, int64_t begin, int64_t end, float *dw)
{
  int64_t wide = shoal_winograd_group(g), apart = shoal_winograd_weights_point(g);
  for (int64_t k = begin * wide; k < end * wide; k += LANES)
    for (int64_t c = 0; c < g->w_in; c++) {
      const float *from = u + k / wide * POINTS * apart + c * wide + k % wide;
      float taps[9][LANES];
      V half[3][6];
      for (int j = 0; j < 6; j++) {
        V d[6];
        for (int r = 0; r < 6; r++) d[r] = LOAD(from + (r * 6 + j) * apart);
        times_gt(d, 1, &half[0][j], 6);
      }
      for (int r = 0; r < 3; r++) times_gt(half[r], 1, (V *)taps[3 * r], 1);
      for (int l = 0; l < weights_of(g, k, c); l++)
        for (int i = 0; i < 9; i++) dw[((k + l) * g->w_in + c) * 9 + i] = taps[i][l];
    }
}

/* --- products --- */
/* Sums over n, ROWS x wide registers of them: a[r * by_row + i * by_n] b[i * wide + ...].  Meanwhile n (of `lines`, then again)
 * cache lines from `ahead` on are fetched, which the next products need. */
INLINE void tile_product(int wide, int64_t n, const float *a, int64_t by_row, int64_t by_n, const float *b, bool add,
                         float *c, const float *ahead, int64_t lines)
{
  V sum[ROWS][2];
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < wide; k++) sum[r][k] = add ? LOAD(c + (r * wide + k) * LANES) : (V){ 0 };
  for (int64_t i = 0; i < n; i++) {
    __builtin_prefetch(ahead + (i & (lines - 1)) * LINE);
    V x[2];
    for (int k = 0; k < wide; k++) x[k] = LOAD(b + (i * wide + k) * LANES);
    for (int r = 0; r < ROWS; r++)
      for (int k = 0; k < wide; k++) sum[r][k] += a[r * by_row + i * by_n] * x[k];
  }
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < wide; k++) STORE(c + (r * wide + k) * LANES, sum[r][k]);
}

INLINE void product_of(int wide, const shoal_winograd *g, int64_t n, const float *v, const float *u, float *m)
{
  int64_t row = shoal_winograd_in_row(g), in_apart = shoal_winograd_in_point(g, n),
          out_apart = shoal_winograd_out_point(g, n), u_apart = shoal_winograd_weights_point(g);
  for (int64_t p = 0; p < POINTS; p++, v += in_apart, u += u_apart, m += out_apart)
    for (int64_t t = 0; t < n; t += ROWS) {
      int64_t part = SHOAL_MIN(t / ROWS, (wide * LANES - 1) / LINE);
      tile_product(wide, g->in, v + t * row, row, 1, u, false, m + t * wide * LANES, u + u_apart + part * g->in * LINE,
                   INT64_C(1) << 40);
    }
}

KERNEL static void product(const shoal_winograd *g, int64_t n, const float *v, const float *u, float *m)
{
  if (shoal_winograd_group(g) == 2 * LANES)
    product_of(2, g, n, v, u, m);
  else
    product_of(1, g, n, v, u, m);
}

INLINE void correlate_of(int wide, const shoal_winograd *g, int64_t n, const float *v, const float *m, bool add,
                         float *u)
{
  int64_t row = shoal_winograd_in_row(g), in_apart = shoal_winograd_in_point(g, n),
          out_apart = shoal_winograd_out_point(g, n), u_apart = shoal_winograd_weights_point(g);
  int64_t tile = ROWS * wide * LANES;
  for (int64_t p = 0; p < POINTS; p++)
    for (int64_t c = 0; c < g->in; c += ROWS) {
      float *to = u + p * u_apart + c * wide * LANES;
      tile_product(wide, n, v + p * in_apart + c, 1, row, m + p * out_apart, add, to, to + tile, tile / LINE);
    }
}

KERNEL static void correlate(const shoal_winograd *g, int64_t n, const float *v, const float *m, bool first, float *u)
{
  if (shoal_winograd_group(g) == 2 * LANES)
    correlate_of(2, g, n, v, m, !first, u);
  else
    correlate_of(1, g, n, v, m, !first, u);
}

const shoal_winograd_kernels KERNELS = { LANES, ROWS, weights, input, product, output, gradient, correlate, dw_of };
