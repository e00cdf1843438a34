/* The kernels of Winograd's algorithm F(4x4, 3x3) for 3x3 convolutions of stride 1 on nChw16c and nChw8c: see winograd_kernels.h. */
#ifndef SHOAL_TENSOR_CPU_WINOGRAD_H
#define SHOAL_TENSOR_CPU_WINOGRAD_H
#include "tensor/cpu/cpu_impl.h"

enum { SHOAL_WINOGRAD_POINTS = 36, SHOAL_WINOGRAD_LINE = 16 /* floats */ };
typedef struct shoal_winograd shoal_winograd;

typedef struct {
  int lanes; /* channels in a block of the format */
  int rows;  /* tiles are worked on by so many */
  /** Groups [begin, end) of the weights; `w` is [out, in, 3, 3], or with `flip` [in, out, 3, 3] turned by 180 degrees. */
  void (*weights)(const shoal_winograd *g, bool flip, const float *w, int64_t begin, int64_t end, float *u);
  /** Tiles [begin, end) of x to v. */
  void (*input)(const shoal_winograd *g, const float *x, int64_t begin, int64_t end, float *v);
  /** One group: m = v u for n tiles. */
  void (*product)(const shoal_winograd *g, int64_t n, const float *v, const float *u, float *m);
  /** One group of tiles [begin, end): y = the image of m, plus the bias (NULL: none), through the relu if there is one. */
  void (*output)(const shoal_winograd *g, const float *m, int64_t begin, int64_t end, int64_t group, const float *bias,
                 bool relu, float *y);
  /** One group of tiles [begin, end): m = the transformed gradient dy. */
  void (*gradient)(const shoal_winograd *g, const float *dy, int64_t begin, int64_t end, int64_t group, float *m);
  /** One group: u = v^T m over n tiles; added to u unless `first`. */
  void (*correlate)(const shoal_winograd *g, int64_t n, const float *v, const float *m, bool first, float *u);
  /** Groups [begin, end): dw [out, in, 3, 3] from the sum of all tiles. */
  void (*dw)(const shoal_winograd *g, const float *u, int64_t begin, int64_t end, float *dw);
} shoal_winograd_kernels;
extern const shoal_winograd_kernels shoal_winograd_avx512, shoal_winograd_avx2;

/* A convolution that reads images of `in` channels, h x w, and writes images of `out` channels, p x q.  Both are counted with the
 * zeros that fill up the last block.  A tile is 4x4 outputs; tiles are numbered through all images, row by row. */
struct shoal_winograd {
  const shoal_winograd_kernels *run;
  int64_t in, out, h, w, p, q;
  int64_t w_in, w_out; /* without these zeros: what weights and bias have */
  int64_t pad[2];
  int64_t across, each, tiles; /* tiles in a row, in an image, in all */
};

/* Weights in the transformed domain: for each group of two blocks of outputs (of one, if they are odd) [point][in][group];
 * tiles: of all inputs [point][tile][in], of one group of outputs [point][tile][group].  In floats: */
static inline int64_t shoal_winograd_group(const shoal_winograd *g)
{
  return g->out % (2 * g->run->lanes) == 0 ? 2 * g->run->lanes : g->run->lanes;
}
static inline int64_t shoal_winograd_in_row(const shoal_winograd *g)
{
  return g->in + SHOAL_WINOGRAD_LINE;
}
static inline int64_t shoal_winograd_in_point(const shoal_winograd *g, int64_t tiles)
{
  int64_t whole = (int64_t)shoal_round_up((size_t)tiles, (size_t)g->run->rows);
  return whole * shoal_winograd_in_row(g) + SHOAL_WINOGRAD_LINE;
}
static inline int64_t shoal_winograd_out_point(const shoal_winograd *g, int64_t tiles)
{
  int64_t whole = (int64_t)shoal_round_up((size_t)tiles, (size_t)g->run->rows);
  return whole * shoal_winograd_group(g) + SHOAL_WINOGRAD_LINE;
}
static inline int64_t shoal_winograd_weights_point(const shoal_winograd *g)
{
  return g->in * shoal_winograd_group(g) + SHOAL_WINOGRAD_LINE;
}
static inline size_t shoal_winograd_weights_floats(const shoal_winograd *g)
{
  return (size_t)(g->out / shoal_winograd_group(g) * SHOAL_WINOGRAD_POINTS * shoal_winograd_weights_point(g));
}
#endif
