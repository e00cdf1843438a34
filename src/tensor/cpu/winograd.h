/* The kernels of Winograd's algorithm F(4x4, 3x3) for 3x3 convolutions of stride 1 on nChw16c: see winograd.c. */
#ifndef SHOAL_TENSOR_CPU_WINOGRAD_H
#define SHOAL_TENSOR_CPU_WINOGRAD_H
#include "tensor/cpu/cpu_impl.h"

/* A convolution that reads images of `in` channels, h x w, and writes images of `out` channels, p x q.  Both are counted with the
 * zeros that fill up the last sixteen.  A tile is 4x4 outputs; tiles are numbered through all images, row by row. */
typedef struct {
  int64_t in, out, h, w, p, q;
  int64_t w_in, w_out; /* without these zeros: what weights and bias have */
  int64_t pad[2];
  int64_t across, each, tiles; /* tiles in a row, in an image, in all */
} shoal_winograd;

enum { SHOAL_WINOGRAD_POINTS = 36 };

/* Weights in the transformed domain: for each group of 32 (or, of 16 outputs only, 16) outputs [point][in][group]. */
int64_t shoal_winograd_group(const shoal_winograd *g);
size_t shoal_winograd_weights_floats(const shoal_winograd *g);
/* Tiles in the transformed domain: of all inputs [point][tile][in], of one group of outputs [point][tile][group]. */
size_t shoal_winograd_in_floats(const shoal_winograd *g, int64_t tiles);
size_t shoal_winograd_out_floats(const shoal_winograd *g, int64_t tiles);

/** Groups [begin, end) of the weights; `w` is [out, in, 3, 3], or with `flip` [in, out, 3, 3] turned by 180 degrees. */
void shoal_winograd_weights(const shoal_winograd *g, bool flip, const float *w, int64_t begin, int64_t end, float *u);
/** Tiles [begin, end) of x to v. */
void shoal_winograd_input(const shoal_winograd *g, const float *x, int64_t begin, int64_t end, float *v);
/** One group: m = v u for n tiles. */
void shoal_winograd_product(const shoal_winograd *g, int64_t n, const float *v, const float *u, float *m);
/** One group of tiles [begin, end): y = the image of m, plus the bias (NULL: none), through the relu if there is one. */
void shoal_winograd_output(const shoal_winograd *g, const float *m, int64_t begin, int64_t end, int64_t group,
                           const float *bias, bool relu, float *y);
/** One group of tiles [begin, end): m = the transformed gradient dy. */
void shoal_winograd_gradient(const shoal_winograd *g, const float *dy, int64_t begin, int64_t end, int64_t group,
                             float *m);
/** One group: u = v^T m over n tiles; added to u unless `first`. */
void shoal_winograd_correlate(const shoal_winograd *g, int64_t n, const float *v, const float *m, bool first, float *u);
/** Groups [begin, end): dw [out, in, 3, 3] from the sum of all tiles. */
void shoal_winograd_dw(const shoal_winograd *g, const float *u, int64_t begin, int64_t end, float *dw);
#endif
