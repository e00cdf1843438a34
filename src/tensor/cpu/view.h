/* A uniform view of channels for every format that own loops can read.
 *
 * The tensor is divided into units, one per image and group of channels.  A unit is a small matrix: `rows` positions
 * (h*w) by `lanes` contiguous channels.
 *
 *   nChw16c        lanes 16, row stride 16          nchw     lanes 1, row stride 1: a plane
 *   nChw8c         lanes 8,  row stride 8           [n, c]   one image, rows = n, lanes 16, row stride c
 *   nhwc           lanes 16, row stride c
 *
 * The last group may have fewer channels than lanes; if `padded`, the remaining lanes are stored as zeros. */
#ifndef SHOAL_TENSOR_CPU_VIEW_H
#define SHOAL_TENSOR_CPU_VIEW_H
#include "tensor/cpu/cpu_impl.h"

typedef struct {
  int64_t images, groups, rows, channels, plane;
  int64_t image_stride, group_stride, row_stride;
  int lanes;
  bool padded;
} shoal_cpu_view;

/** View of a tensor [n,c] or [n,c,h,w]; dense ones as planes.  ERR_UNSUPPORTED for a layout that only oneDNN reads. */
shoal_status shoal_cpu_view_of_layout(const shoal_shape *s, shoal_cpu_layout layout, shoal_cpu_view *out);
/** The same for work that sums over n: a dense [n,c] or [n,c,1,1] is one image of n rows. */
shoal_status shoal_cpu_view_of(const shoal_shape *s, const shoal_format *f, shoal_cpu_view *out);

/** The same for every dense tensor of two dimensions and more: [n, c, …] as planes. */
shoal_status shoal_cpu_view_of_planes(const shoal_shape *s, const shoal_format *f, shoal_cpu_view *out);

/** bias.c: masked = y > 0 ? dy : 0 (skipped if y is NULL) and db = its sum per channel; `partial` is scratch. */
void shoal_cpu_bias_gradient(shoal_cpu *b, const shoal_cpu_view *v, shoal_elements e, const void *dy, const void *y,
                             void *masked, double *partial, float *db);
size_t shoal_cpu_bias_scratch(const shoal_cpu_view *v);

static inline int64_t shoal_cpu_unit_at(const shoal_cpu_view *v, int64_t image, int64_t group)
{
  return image * v->image_stride + group * v->group_stride;
}
/* Lanes of a group that are stored, and those that are channels. */
static inline int shoal_cpu_stored(const shoal_cpu_view *v, int64_t group)
{
  int64_t left = v->channels - group * v->lanes;
  return v->padded || left > v->lanes ? v->lanes : (int)left;
}
static inline int shoal_cpu_valid(const shoal_cpu_view *v, int64_t group)
{
  int64_t left = v->channels - group * v->lanes;
  return left > v->lanes ? v->lanes : (int)left;
}
/* Zeros in the lanes of an image that are no channels. */
static inline void shoal_cpu_clear_padding(const shoal_cpu_view *v, int64_t image, float *y)
{
  int valid = shoal_cpu_valid(v, v->groups - 1), stored = shoal_cpu_stored(v, v->groups - 1);
  float *last = y + shoal_cpu_unit_at(v, image, v->groups - 1);
  for (int64_t r = 0; r < v->rows && valid < stored; r++)
    for (int k = valid; k < stored; k++) last[r * v->row_stride + k] = 0;
}
#endif
