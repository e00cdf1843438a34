/* Memory formats: oneDNN's descriptors behind shoal_format, and conversion to and from dense.
 *
 * Equal formats are one object, kept by the backend: producers that chose the same format pass the same pointer, so
 * consumers compare pointers, and lifetime is no concern. */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/cpu/view.h"
#include <stdlib.h>
#include <string.h>

static const struct {
  dnnl_format_tag_t tag;
  shoal_cpu_layout layout;
} known[] = { { dnnl_nChw16c, SHOAL_CPU_BLOCK16 },
              { dnnl_nChw8c, SHOAL_CPU_BLOCK8 },
              { dnnl_nhwc, SHOAL_CPU_CHANNELS_LAST } };

shoal_status shoal_cpu_layout_of_md(const shoal_shape *s, shoal_dnn_cmd md, shoal_cpu_layout *out)
{
  *out = shoal_dnn_md_is_dense(md, s) ? SHOAL_CPU_DENSE : SHOAL_CPU_OTHER;
  for (size_t i = 0; s->ndim == 4 && *out == SHOAL_CPU_OTHER && i < SHOAL_COUNT(known); i++) {
    shoal_dnn_md probe;
    SHOAL_TRY(shoal_dnn_md_tag(s, shoal_dnn_md_elements(md), known[i].tag, &probe));
    if (shoal_dnn_md_equal(md, probe)) *out = known[i].layout;
    shoal_dnn_md_free(probe);
  }
  return SHOAL_OK;
}

static shoal_status add_format(shoal_cpu *b, const shoal_shape *s, shoal_dnn_cmd md, shoal_cpu_format **out)
{
  shoal_status st;
  shoal_cpu_format *f = calloc(1, sizeof *f);
  SHOAL_CHECK(f, SHOAL_ERR_MEM, "memory format");
  SHOAL_TRY_GOTO(st, shoal_cpu_layout_of_md(s, md, &f->layout), fail);
  SHOAL_TRY_GOTO(st, shoal_dnn_md_copy(md, &f->md), fail);
  f->next = b->formats;
  b->formats = f;
  *out = f;
  return SHOAL_OK;
fail:
  free(f);
  return st;
}

shoal_status shoal_cpu_format_of(shoal_cpu *b, const shoal_shape *s, shoal_dnn_cmd md, shoal_format *out)
{
  if (shoal_dnn_md_is_dense(md, s)) {
    *out = shoal_format_dense(s, shoal_dnn_md_elements(md));
    return SHOAL_OK;
  }
  shoal_cpu_format *f = b->formats;
  while (f && !shoal_dnn_md_equal(f->md, md)) f = f->next;
  if (!f) SHOAL_TRY(add_format(b, s, md, &f));
  *out = (shoal_format){ shoal_dnn_md_bytes(md), f, shoal_dnn_md_elements(md), false };
  return SHOAL_OK;
}

shoal_status shoal_cpu_md_of_layout(const shoal_shape *s, shoal_elements e, shoal_cpu_layout layout, shoal_dnn_md *out)
{
  size_t i = 0;
  if (layout == SHOAL_CPU_DENSE) return shoal_dnn_md_dense(s, e, out);
  while (i < SHOAL_COUNT(known) && known[i].layout != layout) i++;
  SHOAL_CHECK(i < SHOAL_COUNT(known), SHOAL_ERR_UNSUPPORTED,
              "oneDNN chose a memory format that the loops of backend cpu do not know; use backend ref");
  return shoal_dnn_md_tag(s, e, known[i].tag, out);
}

shoal_status shoal_cpu_format_of_layout(shoal_cpu *b, const shoal_shape *s, shoal_elements e, shoal_cpu_layout layout,
                                        shoal_format *out)
{
  shoal_dnn_md md;
  SHOAL_TRY(shoal_cpu_md_of_layout(s, e, layout, &md));
  shoal_status st = shoal_cpu_format_of(b, s, md, out);
  shoal_dnn_md_free(md);
  return st;
}

shoal_status shoal_cpu_md_of(const shoal_shape *s, const shoal_format *f, shoal_dnn_md *out)
{
  if (f->dense) return shoal_dnn_md_dense(s, f->elements, out);
  return shoal_dnn_md_copy(((const shoal_cpu_format *)f->detail)->md, out);
}

shoal_cpu_layout shoal_cpu_layout_of(const shoal_format *f)
{
  return f->dense ? SHOAL_CPU_DENSE : ((const shoal_cpu_format *)f->detail)->layout;
}

/* Between dense tensors of f32 and bf16, at the entry and the exit of a plan, a loop; else a primitive for one call, outside the step
 * (evaluation output, checkpoints of activations, tests). */
static shoal_status move(shoal_cpu *b, const shoal_shape *s, const shoal_format *from, const shoal_format *to,
                         const float *x, float *y)
{
  shoal_status st;
  shoal_dnn_md from_md = NULL, to_md = NULL;
  shoal_dnn_call call = { 0 };
  void *scratch = NULL;
  if (from->dense && to->dense && from->elements != to->elements) {
    if (to->elements == SHOAL_ELEMENTS_BF16)
      shoal_cpu_to_bf16(b, shoal_format_count(to), x, y);
    else
      shoal_cpu_from_bf16(b, shoal_format_count(to), x, y);
    return SHOAL_OK;
  }
  SHOAL_TRY_GOTO(st, shoal_cpu_md_of(s, from, &from_md), out);
  SHOAL_TRY_GOTO(st, shoal_cpu_md_of(s, to, &to_md), out);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, from_md, to_md, &call), out);
  SHOAL_TRY_GOTO(st, shoal_alloc(call.scratch_bytes, 1, "reorder", &scratch), out);
  if (call.primitive)
    st = shoal_dnn_call_run(&b->dnn, &call, scratch, (const void *const[]){ x, y });
  else
    memmove(y, x, from->bytes);
out:
  free(scratch);
  shoal_dnn_call_fini(&call);
  shoal_dnn_md_free(from_md);
  shoal_dnn_md_free(to_md);
  return st;
}

shoal_status shoal_cpu_to_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x,
                                float *y)
{
  shoal_format dense = shoal_format_dense(s, SHOAL_ELEMENTS_F32);
  return move((shoal_cpu *)b, s, from, &dense, x, y);
}

shoal_status shoal_cpu_from_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x,
                                  float *y)
{
  shoal_format dense = shoal_format_dense(s, SHOAL_ELEMENTS_F32);
  return move((shoal_cpu *)b, s, &dense, to, x, y);
}

shoal_status shoal_cpu_view_of_layout(const shoal_shape *s, shoal_cpu_layout layout, shoal_cpu_view *out)
{
  int64_t n = s->dim[0], c = s->dim[1], plane = s->ndim == 4 ? s->dim[2] * s->dim[3] : 1;
  shoal_cpu_view v = { .images = n, .rows = plane, .channels = c, .plane = plane };
  SHOAL_CHECK(layout != SHOAL_CPU_OTHER, SHOAL_ERR_UNSUPPORTED,
              "oneDNN chose a memory format that the loops of backend cpu do not know; use backend ref");
  v.lanes = layout == SHOAL_CPU_DENSE ? 1 : layout == SHOAL_CPU_BLOCK8 ? 8 : 16;
  v.groups = (c + v.lanes - 1) / v.lanes;
  v.padded = layout == SHOAL_CPU_BLOCK16 || layout == SHOAL_CPU_BLOCK8;
  bool last = layout == SHOAL_CPU_CHANNELS_LAST;
  v.row_stride = last ? c : v.lanes;
  v.group_stride = last ? v.lanes : plane * v.lanes;
  v.image_stride = last ? c * plane : v.groups * v.group_stride;
  *out = v;
  return SHOAL_OK;
}

shoal_status shoal_cpu_view_of(const shoal_shape *s, const shoal_format *f, shoal_cpu_view *out)
{
  bool matrix = f->dense && (s->ndim == 2 || s->dim[2] * s->dim[3] == 1);
  shoal_shape as_image = SHOAL_SHAPE(1, s->dim[1], s->dim[0], 1);
  if (matrix) return shoal_cpu_view_of_layout(&as_image, SHOAL_CPU_CHANNELS_LAST, out);
  return shoal_cpu_view_of_layout(s, shoal_cpu_layout_of(f), out);
}

shoal_status shoal_cpu_view_of_planes(const shoal_shape *s, const shoal_format *f, shoal_cpu_view *out)
{
  shoal_shape as_image = SHOAL_SHAPE(s->dim[0], s->dim[1], shoal_shape_count(s) / (s->dim[0] * s->dim[1]), 1);
  return f->dense ? shoal_cpu_view_of_layout(&as_image, SHOAL_CPU_DENSE, out)
                  : shoal_cpu_view_of_layout(s, shoal_cpu_layout_of(f), out);
}
