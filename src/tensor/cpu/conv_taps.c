/* The weight gradient of a convolution over small images, one matrix product per tap of the kernel:
 *
 *   dw[:, :, kh, kw] = sum over n and the positions where that tap meets the image of  dy[n, :, p] x[n, :, p + tap]^T
 *
 * On a 2x2 image with padding 1 a 3x3 kernel meets the image in 16 of its 36 places; oneDNN's direct kernel computes
 * all of them, and with many channels its dW no longer fits its register blocking.  Measured on one core for 512 x 512
 * channels and 64 images: 2x2 27 -> 9 ms, 4x4 44 -> 30 ms, including the reorder to OIHW.  From 8x8 on there is no
 * gain.  Each product is also short enough to poll the network in between. */
#include "tensor/cpu/conv_taps.h"
#include <string.h>

enum { POSITIONS = 16, CHANNELS = 128 }; /* most output positions, least channels */

/* One tap: the output positions that read the image through it, and the input positions they read. */
typedef struct {
  int n;
  int64_t y[POSITIONS], x[POSITIONS];
} tap;

static tap tap_of(const shoal_op_desc *d, int kh, int kw)
{
  tap t = { 0 };
  for (int64_t p = 0; p < d->out.dim[2]; p++)
    for (int64_t q = 0; q < d->out.dim[3]; q++) {
      int64_t i = p * d->stride[0] - d->pad[0] + kh, j = q * d->stride[1] - d->pad[1] + kw;
      if (i < 0 || i >= d->in[0].dim[2] || j < 0 || j >= d->in[0].dim[3]) continue;
      t.y[t.n] = p * d->out.dim[3] + q;
      t.x[t.n++] = i * d->in[0].dim[3] + j;
    }
  return t;
}

static bool pays(const shoal_op_desc *d)
{
  int64_t places = d->out.dim[2] * d->out.dim[3], met = 0;
  if (shoal_op_groups(d) > 1 || d->gap[0] > 0 || d->gap[1] > 0) return false;
  if (places > POSITIONS || d->in[0].dim[1] < CHANNELS || d->out.dim[1] < CHANNELS) return false;
  for (int i = 0; i < d->kernel[0]; i++)
    for (int j = 0; j < d->kernel[1]; j++) met += tap_of(d, i, j).n;
  return (double)met < 0.75 * (double)places * d->kernel[0] * d->kernel[1];
}

static shoal_status view(const shoal_shape *s, const shoal_format *f, shoal_cpu_view *out)
{
  return shoal_cpu_view_of_layout(s, shoal_cpu_layout_of(f), out);
}

shoal_status shoal_cpu_taps_plan(const shoal_op *op, size_t *scratch_bytes, shoal_cpu_taps *out)
{
  const shoal_op_desc *d = &op->desc;
  *out =
      (shoal_cpu_taps){ .on = !op->in_format[0].dense && op->in_format[0].elements == SHOAL_ELEMENTS_F32 && pays(d) };
  if (!out->on) return SHOAL_OK;
  SHOAL_TRY(view(&d->in[0], &op->in_format[0], &out->x));
  SHOAL_TRY(view(&d->out, &op->out_format, &out->y));
  size_t rows = (size_t)(d->out.dim[0] * d->out.dim[2] * d->out.dim[3]);
  size_t in = (size_t)d->in[0].dim[1], width = (size_t)d->out.dim[1];
  out->x_at = shoal_cpu_carve(scratch_bytes, rows * in * sizeof(float));
  out->dy_at = shoal_cpu_carve(scratch_bytes, rows * width * sizeof(float));
  out->product_at = shoal_cpu_carve(scratch_bytes, in * width * (size_t)(d->kernel[0] * d->kernel[1]) * sizeof(float));
  return SHOAL_OK;
}

/* Rows of channels: row r is position r / images of the tap, image r % images. */
typedef struct {
  const shoal_cpu_view *v;
  const int64_t *position;
  const float *from;
  float *to; /* [rows][channels] */
} pack_args;

SHOAL_CPU_KERNEL static void pack_rows(const void *context, size_t begin, size_t end)
{
  const pack_args *a = context;
  const shoal_cpu_view *v = a->v;
  for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
    const float *from = a->from + a->position[r / v->images] * v->row_stride;
    for (int64_t g = 0; g < v->groups; g++)
      memcpy(a->to + r * v->channels + g * v->lanes, from + shoal_cpu_unit_at(v, r % v->images, g),
             (size_t)shoal_cpu_valid(v, g) * sizeof(float));
  }
}

static void pack(shoal_cpu *b, const shoal_cpu_view *v, int n, const int64_t *position, const float *from, float *to)
{
  pack_args a = { v, position, from, to };
  shoal_cpu_parallel(b, (size_t)(n * v->images), 1, (size_t)v->channels * 2 * sizeof(float), pack_rows, &a);
}

/* [tap][o*i] -> [o*i][tap] */
typedef struct {
  const float *product;
  float *dw;
  size_t taps, n;
} gather_args;

SHOAL_CPU_KERNEL static void gather_taps(const void *context, size_t begin, size_t end)
{
  const gather_args *a = context;
  for (size_t i = begin; i < end; i++)
    for (size_t k = 0; k < a->taps; k++) a->dw[i * a->taps + k] = a->product[k * a->n + i];
}

shoal_status shoal_cpu_taps_run(const shoal_cpu_taps *t, const shoal_op *op, const float *x, const float *dy,
                                void *scratch, float *dw)
{
  shoal_cpu *b = shoal_cpu_of(op);
  const shoal_op_desc *d = &op->desc;
  int64_t in = t->x.channels, out = t->y.channels, k = 0;
  float *xs = shoal_cpu_at(scratch, t->x_at), *dys = shoal_cpu_at(scratch, t->dy_at);
  float *product = shoal_cpu_at(scratch, t->product_at);
  shoal_dnn_enter(&b->dnn);
  for (int i = 0; i < d->kernel[0]; i++)
    for (int j = 0; j < d->kernel[1]; j++, k++) {
      tap at = tap_of(d, i, j);
      float *c = product + k * in * out;
      if (at.n == 0) {
        memset(c, 0, (size_t)(in * out) * sizeof(float));
        continue;
      }
      pack(b, &t->x, at.n, at.x, x, xs);
      pack(b, &t->y, at.n, at.y, dy, dys);
      SHOAL_TRY_DNNL(dnnl_sgemm('T', 'N', out, in, at.n * t->x.images, 1.0f, dys, out, xs, in, 0.0f, c, in));
      shoal_backend_poll(&b->base);
    }
  gather_args g = { product, dw, (size_t)k, (size_t)(in * out) };
  shoal_cpu_parallel(b, g.n, 64, (size_t)k * 2 * sizeof(float), gather_taps, &g);
  return SHOAL_OK;
}
