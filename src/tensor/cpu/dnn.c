/* See dnn.h.  All code that differs between oneDNN 2 and 3 is in this file, side by side. */
#include "tensor/cpu/dnn.h"
#include "base/mem.h"
#include <omp.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_dnn_fail(dnnl_status_t st, const char *file, int line, const char *what)
{
  shoal_status code = st == dnnl_out_of_memory ? SHOAL_ERR_MEM : SHOAL_ERR_INTERNAL;
  return shoal_fail(code, file, line, "oneDNN: %s in %.60s", dnnl_status2str(st), what);
}

shoal_status shoal_dnn_open(int threads, shoal_dnn *out)
{
  *out = (shoal_dnn){ .threads = threads };
  shoal_dnn_enter(out);
  SHOAL_TRY_DNNL(dnnl_engine_create(&out->engine, dnnl_cpu, 0));
  SHOAL_TRY_DNNL(dnnl_stream_create(&out->stream, out->engine, dnnl_stream_default_flags));
  return SHOAL_OK;
}

void shoal_dnn_close(shoal_dnn *d)
{
  if (d->stream) dnnl_stream_destroy(d->stream);
  if (d->engine) dnnl_engine_destroy(d->engine);
  *d = (shoal_dnn){ 0 };
}

const char *shoal_dnn_versions(void)
{
  static char text[80];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "oneDNN %d.%d.%d (compiled %d.%d.%d)", v->major, v->minor, v->patch, DNNL_VERSION_MAJOR,
           DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
  return text;
}

#ifdef __x86_64__
static bool allows(unsigned isa)
{
  return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}
#endif

int shoal_dnn_lanes(void)
{
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && allows(dnnl_cpu_isa_avx512_core))
    return 16;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && allows(dnnl_cpu_isa_avx2)) return 8;
#endif
  return 0;
}

bool shoal_dnn_has_bf16(bool emulate)
{
#ifdef __x86_64__
  return emulate ? shoal_dnn_lanes() == 16 : allows(dnnl_cpu_isa_avx512_core_bf16);
#else
  (void)emulate;
  return false;
#endif
}

void shoal_dnn_enter(const shoal_dnn *d)
{
  if (omp_get_max_threads() != d->threads) omp_set_num_threads(d->threads);
}

static dnnl_data_type_t type_of(shoal_elements e)
{
  return e == SHOAL_ELEMENTS_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* oneDNN declares arrays of twelve dimensions but reads only ndim. */
static void copy_dims(const shoal_shape *s, dnnl_dims_t out)
{
  for (int i = 0; i < s->ndim; i++) out[i] = s->dim[i];
}

#if DNNL_VERSION_MAJOR >= 3

shoal_status shoal_dnn_md_tag(const shoal_shape *s, shoal_elements e, dnnl_format_tag_t tag, shoal_dnn_md *out)
{
  dnnl_dims_t dims;
  copy_dims(s, dims);
  SHOAL_TRY_DNNL(dnnl_memory_desc_create_with_tag(out, s->ndim, dims, type_of(e), tag));
  return SHOAL_OK;
}

shoal_status shoal_dnn_md_strided(const shoal_shape *s, shoal_elements e, const int64_t *stride, shoal_dnn_md *out)
{
  dnnl_dims_t dims;
  copy_dims(s, dims);
  SHOAL_TRY_DNNL(dnnl_memory_desc_create_with_strides(out, s->ndim, dims, type_of(e), stride));
  return SHOAL_OK;
}

shoal_status shoal_dnn_md_copy(shoal_dnn_cmd md, shoal_dnn_md *out)
{
  SHOAL_TRY_DNNL(dnnl_memory_desc_clone(out, md));
  return SHOAL_OK;
}

void shoal_dnn_md_free(shoal_dnn_md md)
{
  if (md) dnnl_memory_desc_destroy(md);
}

shoal_elements shoal_dnn_md_elements(shoal_dnn_cmd md)
{
  dnnl_data_type_t type = dnnl_f32;
  dnnl_memory_desc_query(md, dnnl_query_data_type, &type);
  return type == dnnl_bf16 ? SHOAL_ELEMENTS_BF16 : SHOAL_ELEMENTS_F32;
}

#else

shoal_status shoal_dnn_md_copy(shoal_dnn_cmd md, shoal_dnn_md *out)
{
  shoal_dnn_md copy = malloc(sizeof *copy);
  SHOAL_CHECK(copy, SHOAL_ERR_MEM, "memory descriptor");
  *copy = *md;
  *out = copy;
  return SHOAL_OK;
}

shoal_status shoal_dnn_md_tag(const shoal_shape *s, shoal_elements e, dnnl_format_tag_t tag, shoal_dnn_md *out)
{
  dnnl_memory_desc_t md;
  dnnl_dims_t dims;
  copy_dims(s, dims);
  SHOAL_TRY_DNNL(dnnl_memory_desc_init_by_tag(&md, s->ndim, dims, type_of(e), tag));
  return shoal_dnn_md_copy(&md, out);
}

shoal_status shoal_dnn_md_strided(const shoal_shape *s, shoal_elements e, const int64_t *stride, shoal_dnn_md *out)
{
  dnnl_memory_desc_t md;
  dnnl_dims_t dims;
  copy_dims(s, dims);
  SHOAL_TRY_DNNL(dnnl_memory_desc_init_by_strides(&md, s->ndim, dims, type_of(e), stride));
  return shoal_dnn_md_copy(&md, out);
}

void shoal_dnn_md_free(shoal_dnn_md md)
{
  free(md);
}

shoal_elements shoal_dnn_md_elements(shoal_dnn_cmd md)
{
  return md->data_type == dnnl_bf16 ? SHOAL_ELEMENTS_BF16 : SHOAL_ELEMENTS_F32;
}

#endif

shoal_status shoal_dnn_md_dense(const shoal_shape *s, shoal_elements e, shoal_dnn_md *out)
{
  static const dnnl_format_tag_t tags[SHOAL_MAX_DIMS + 1] = { 0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde };
  return shoal_dnn_md_tag(s, e, tags[s->ndim], out);
}

bool shoal_dnn_md_equal(shoal_dnn_cmd a, shoal_dnn_cmd b)
{
  return dnnl_memory_desc_equal(a, b) != 0;
}

size_t shoal_dnn_md_bytes(shoal_dnn_cmd md)
{
  return dnnl_memory_desc_get_size(md);
}

static bool has_tag(shoal_dnn_cmd md, const shoal_shape *s, dnnl_format_tag_t tag)
{
  shoal_dnn_md probe;
  if (shoal_dnn_md_tag(s, shoal_dnn_md_elements(md), tag, &probe) != SHOAL_OK) return false;
  bool same = shoal_dnn_md_equal(md, probe);
  shoal_dnn_md_free(probe);
  return same;
}

bool shoal_dnn_md_is_dense(shoal_dnn_cmd md, const shoal_shape *s)
{
  static const dnnl_format_tag_t tags[SHOAL_MAX_DIMS + 1] = { 0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde };
  if (has_tag(md, s, tags[s->ndim])) return true;
  if (s->ndim != 4 || s->dim[2] * s->dim[3] != 1) return false;
  /* A 1x1 image: channels are contiguous in every format without padding. */
  return shoal_dnn_md_bytes(md) == shoal_format_dense(s, shoal_dnn_md_elements(md)).bytes &&
         (has_tag(md, s, dnnl_nChw16c) || has_tag(md, s, dnnl_nChw8c) || has_tag(md, s, dnnl_nhwc));
}

/* All primitives use a scratchpad of the caller, so that execution allocates nothing. */
static dnnl_status_t make_attr(dnnl_primitive_attr_t *out)
{
  dnnl_status_t st = dnnl_primitive_attr_create(out);
  if (st != dnnl_success) return st;
  st = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
  if (st != dnnl_success) dnnl_primitive_attr_destroy(*out);
  return st;
}

/* Windows in oneDNN's form: 64-bit, padding on both sides, and dilation counted from 0. */
typedef struct {
  dnnl_dims_t stride, dilate, near, far;
} windows;

static windows make_windows(const int *stride, const int *pad, const int *gap)
{
  windows w = { 0 };
  for (int i = 0; i < 2; i++) {
    w.stride[i] = stride[i];
    w.dilate[i] = gap[i];
    w.near[i] = w.far[i] = pad[i];
  }
  return w;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t matmul_pd(dnnl_engine_t e, shoal_dnn_cmd a, shoal_dnn_cmd b, shoal_dnn_cmd bias, shoal_dnn_cmd c,
                               dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  return dnnl_matmul_primitive_desc_create(out, e, a, b, bias, c, attr);
}

static dnnl_status_t conv_pd(dnnl_engine_t e, const shoal_dnn_conv *c, const windows *w, shoal_dnn_direction direction,
                             const_dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  const dnnl_alg_kind_t alg = dnnl_convolution_direct;
  dnnl_prop_kind_t prop = c->training ? dnnl_forward_training : dnnl_forward_inference;
  switch (direction) {
  case SHOAL_DNN_FORWARD:
    return dnnl_convolution_forward_primitive_desc_create(out, e, prop, alg, c->src, c->weights, c->bias, c->dst,
                                                          w->stride, w->dilate, w->near, w->far, attr);
  case SHOAL_DNN_BACKWARD_DATA:
    return dnnl_convolution_backward_data_primitive_desc_create(out, e, alg, c->src, c->weights, c->dst, w->stride,
                                                                w->dilate, w->near, w->far, hint, attr);
  case SHOAL_DNN_BACKWARD_WEIGHTS:
    break;
  }
  return dnnl_convolution_backward_weights_primitive_desc_create(out, e, alg, c->src, c->weights, c->bias, c->dst,
                                                                 w->stride, w->dilate, w->near, w->far, hint, attr);
}

#else

static dnnl_status_t matmul_pd(dnnl_engine_t e, shoal_dnn_cmd a, shoal_dnn_cmd b, shoal_dnn_cmd bias, shoal_dnn_cmd c,
                               dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  dnnl_matmul_desc_t desc;
  dnnl_status_t st = dnnl_matmul_desc_init(&desc, a, b, bias, c);
  return st == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, e, NULL) : st;
}

static dnnl_status_t conv_pd(dnnl_engine_t e, const shoal_dnn_conv *c, const windows *w, shoal_dnn_direction direction,
                             const_dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  const dnnl_alg_kind_t alg = dnnl_convolution_direct;
  dnnl_prop_kind_t prop = c->training ? dnnl_forward_training : dnnl_forward_inference;
  dnnl_convolution_desc_t desc;
  dnnl_status_t st;
  if (direction == SHOAL_DNN_FORWARD)
    st = dnnl_dilated_convolution_forward_desc_init(&desc, prop, alg, c->src, c->weights, c->bias, c->dst, w->stride,
                                                    w->dilate, w->near, w->far);
  else if (direction == SHOAL_DNN_BACKWARD_DATA)
    st = dnnl_dilated_convolution_backward_data_desc_init(&desc, alg, c->src, c->weights, c->dst, w->stride, w->dilate,
                                                          w->near, w->far);
  else
    st = dnnl_dilated_convolution_backward_weights_desc_init(&desc, alg, c->src, c->weights, c->bias, c->dst, w->stride,
                                                             w->dilate, w->near, w->far);
  return st == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, e, hint) : st;
}

#endif

shoal_status shoal_dnn_conv_pd(const shoal_dnn *d, const shoal_dnn_conv *c, shoal_dnn_direction direction,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
  windows w = make_windows(c->stride, c->pad, c->gap);
  dnnl_primitive_attr_t attr;
  SHOAL_TRY_DNNL(make_attr(&attr));
  dnnl_status_t st = conv_pd(d->engine, c, &w, direction, hint, attr, out);
  dnnl_primitive_attr_destroy(attr);
  return st == dnnl_success ? SHOAL_OK : shoal_dnn_fail(st, __FILE__, __LINE__, "convolution");
}

shoal_status shoal_dnn_matmul_pd(const shoal_dnn *d, shoal_dnn_cmd a, shoal_dnn_cmd b, shoal_dnn_cmd bias,
                                 shoal_dnn_cmd c, dnnl_primitive_desc_t *out)
{
  dnnl_primitive_attr_t attr;
  SHOAL_TRY_DNNL(make_attr(&attr));
  dnnl_status_t st = matmul_pd(d->engine, a, b, bias, c, attr, out);
  dnnl_primitive_attr_destroy(attr);
  return st == dnnl_success ? SHOAL_OK : shoal_dnn_fail(st, __FILE__, __LINE__, "product");
}

static bool implementation_has(const_dnnl_primitive_desc_t pd, const char *word)
{
  const char *name;
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strstr(name, word);
}

bool shoal_dnn_is_reference(const_dnnl_primitive_desc_t pd)
{
  return implementation_has(pd, "ref");
}

bool shoal_dnn_is_1x1(const_dnnl_primitive_desc_t pd)
{
  return implementation_has(pd, "jit_1x1");
}

shoal_status shoal_dnn_reorder_pd(const shoal_dnn *d, shoal_dnn_cmd from, shoal_dnn_cmd to, dnnl_primitive_desc_t *out)
{
  dnnl_primitive_attr_t attr;
  SHOAL_TRY_DNNL(make_attr(&attr));
  dnnl_status_t st = dnnl_reorder_primitive_desc_create(out, from, d->engine, to, d->engine, attr);
  dnnl_primitive_attr_destroy(attr);
  return st == dnnl_success ? SHOAL_OK : shoal_dnn_fail(st, __FILE__, __LINE__, "reorder");
}

static dnnl_status_t add_argument(const shoal_dnn *d, shoal_dnn_cmd md, int arg, shoal_dnn_call *c)
{
  dnnl_memory_t memory;
  dnnl_status_t st = dnnl_memory_create(&memory, md, d->engine, DNNL_MEMORY_NONE);
  if (st == dnnl_success) c->arg[c->n++] = (dnnl_exec_arg_t){ arg, memory };
  return st;
}

shoal_status shoal_dnn_call_init(const shoal_dnn *d, const_dnnl_primitive_desc_t pd, int n, const int *args,
                                 shoal_dnn_call *out)
{
  shoal_dnn_call c = { 0 };
  shoal_dnn_cmd pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  SHOAL_CHECK(n < SHOAL_DNN_ARGS, SHOAL_ERR_INTERNAL, "primitive with %d arguments", n);
  dnnl_status_t st = dnnl_primitive_create(&c.primitive, pd);
  for (int i = 0; st == dnnl_success && i < n; i++) st = add_argument(d, shoal_dnn_pd_md(pd, args[i]), args[i], &c);
  if (st == dnnl_success) st = add_argument(d, pad, DNNL_ARG_SCRATCHPAD, &c);
  if (st != dnnl_success) {
    shoal_dnn_call_fini(&c);
    return shoal_dnn_fail(st, __FILE__, __LINE__, "creating a primitive");
  }
  c.scratch_bytes = shoal_dnn_md_bytes(pad);
  *out = c;
  return SHOAL_OK;
}

shoal_status shoal_dnn_call_init_reorder(const shoal_dnn *d, shoal_dnn_cmd from, shoal_dnn_cmd to, shoal_dnn_call *out)
{
  dnnl_primitive_desc_t pd;
  *out = (shoal_dnn_call){ 0 };
  if (shoal_dnn_md_equal(from, to)) return SHOAL_OK;
  SHOAL_TRY(shoal_dnn_reorder_pd(d, from, to, &pd));
  shoal_status st = shoal_dnn_call_init(d, pd, 2, (const int[]){ DNNL_ARG_FROM, DNNL_ARG_TO }, out);
  dnnl_primitive_desc_destroy(pd);
  return st;
}

shoal_status shoal_dnn_call_run(const shoal_dnn *d, const shoal_dnn_call *c, void *scratch, const void *const *p)
{
  int last = c->n - 1;
  shoal_dnn_enter(d);
  for (int i = 0; i < last; i++) SHOAL_TRY_DNNL(dnnl_memory_set_data_handle(c->arg[i].memory, (void *)(uintptr_t)p[i]));
  SHOAL_TRY_DNNL(dnnl_memory_set_data_handle(c->arg[last].memory, scratch));
  SHOAL_TRY_DNNL(dnnl_primitive_execute(c->primitive, d->stream, c->n, c->arg));
  return SHOAL_OK;
}

void shoal_dnn_call_fini(shoal_dnn_call *c)
{
  for (int i = 0; i < c->n; i++) dnnl_memory_destroy(c->arg[i].memory);
  if (c->primitive) dnnl_primitive_destroy(c->primitive);
  *c = (shoal_dnn_call){ 0 };
}
