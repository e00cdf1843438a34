/* Operators that are a layer each: products, convolutions, pools, norms, functions of each element. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two numbers, height and width. */
static shoal_status pair_of(const shoal_onnx_node *n, const char *name, int64_t otherwise, int64_t out[2])
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, name);
  out[0] = out[1] = otherwise;
  if (!a) return SHOAL_OK;
  SHOAL_CHECK(a->list && a->n == 2, SHOAL_ERR_UNSUPPORTED, "its %s has %zu numbers; only images of height and width",
              name, a->n);
  for (int k = 0; k < 2; k++) {
    SHOAL_CHECK(a->list[k] >= 0 && a->list[k] <= INT32_MAX / 4, SHOAL_ERR_UNSUPPORTED, "its %s is %lld", name,
                (long long)a->list[k]);
    out[k] = a->list[k];
  }
  return SHOAL_OK;
}

static shoal_status windows(const shoal_onnx_node *n, shoal_layer_facts *f)
{
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(n, "pads");
  SHOAL_TRY(pair_of(n, "kernel_shape", f->kernel[0], f->kernel));
  SHOAL_TRY(pair_of(n, "strides", 1, f->stride));
  SHOAL_CHECK(f->stride[0] > 0 && f->stride[1] > 0, SHOAL_ERR_UNSUPPORTED, "a stride is 0");
  if (!p) return SHOAL_OK;
  SHOAL_CHECK(p->list && p->n == 4 && p->list[0] == p->list[2] && p->list[1] == p->list[3] && p->list[0] >= 0 &&
                  p->list[1] >= 0 && p->list[0] < INT32_MAX / 4 && p->list[1] < INT32_MAX / 4,
              SHOAL_ERR_UNSUPPORTED, "its padding is not the same on both sides, for height and width");
  f->pad[0] = p->list[0];
  f->pad[1] = p->list[1];
  return SHOAL_OK;
}

/* The input of a product along the last dimension, to which a batch of 1 is no matter, wherever it lies: [tokens,1,width]. */
static shoal_status read_rows(shoal_import *im, const shoal_onnx_node *n, int *layer)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  if (!x || shoal_import_batch(im) > 1 || x->dim[0] == 1) return shoal_import_read(im, n, 0, layer);
  shoal_import_value rows = *x;
  rows.ndim = 1;
  rows.dim[0] = 1;
  for (int d = 0; d < x->ndim; d++) {
    if (x->dim[d] == 1 && d < x->ndim - 1) continue;
    if (rows.ndim == SHOAL_ONNX_DIMS) return shoal_import_refuse("its input has too many dimensions");
    rows.dim[rows.ndim] = x->dim[d];
    rows.step[rows.ndim++] = x->step[d];
  }
  SHOAL_TRY(shoal_import_settle(im, &rows));
  *layer = rows.layer;
  return SHOAL_OK;
}

/* Whether a matrix [rows, cols], or `turned`, has the numbers of a table, which are not all alike. */
static shoal_status has_numbers(const shoal_import *im, const shoal_onnx_tensor *w, bool turned,
                                const shoal_onnx_tensor *table, bool *same)
{
  const int64_t rows = table->dim[0], cols = table->dim[1];
  shoal_host_float *a, *b;
  bool alike = true;
  *same = w->dim[turned ? 1 : 0] == rows && w->dim[turned ? 0 : 1] == cols;
  if (!*same) return SHOAL_OK;
  SHOAL_TRY(shoal_onnx_reals(&im->g, w, &a));
  shoal_status st = shoal_onnx_reals(&im->g, table, &b);
  for (int64_t r = 0; r < rows && *same && st == SHOAL_OK; r++)
    for (int64_t c = 0; c < cols && *same; c++) {
      *same = a[turned ? c * rows + r : r * cols + c] == b[r * cols + c];
      alike = alike && b[r * cols + c] == b[0];
    }
  *same = *same && !alike;
  free(a);
  if (st == SHOAL_OK) free(b);
  return st;
}

/* Whether a product's weight is tied to the table of the only embedding.  Exporters write the table once and transpose it, or write
 * it once more, transposed, so only the numbers tell. */
static shoal_status is_tied(const shoal_import *im, const shoal_onnx_tensor *w, bool turned, bool *tied)
{
  const shoal_onnx_tensor *table = NULL;
  int found = 0;
  for (size_t k = 0; k < im->n; k++)
    if (im->text.layers[im->weights[k].layer].node.kind == SHOAL_OP_EMBEDDING) {
      table = im->weights[k].t;
      found++;
    }
  *tied = false;
  return found == 1 ? has_numbers(im, w, turned, table, tied) : SHOAL_OK;
}

/* y = x W^T + b along the last dimension; W is [width, in], or `turned`. */
static shoal_status add_linear(shoal_import *im, const shoal_onnx_node *n, const shoal_onnx_tensor *w, bool turned,
                               const shoal_onnx_tensor *bias)
{
  char wish[128];
  shoal_text_layer *l;
  int from, layer;
  bool tied;
  int64_t width = w->dim[turned ? 1 : 0], in = w->dim[turned ? 0 : 1], dim[SHOAL_ONNX_DIMS];
  SHOAL_TRY(read_rows(im, n, &from));
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  SHOAL_CHECK(x->dim[x->ndim - 1] == in && x->ndim > 1, SHOAL_ERR_UNSUPPORTED,
              "its weight is for %lld inputs, and gets %lld", (long long)in, (long long)x->dim[x->ndim - 1]);
  SHOAL_TRY(is_tied(im, w, turned, &tied));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_LINEAR, shoal_import_wish(im, n, wish), &l));
  l->facts.width = width;
  l->facts.bias = bias != NULL;
  l->facts.tied = tied;
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  if (!tied) SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", w, turned));
  if (bias) SHOAL_TRY(shoal_import_put_weight(im, layer, "bias", bias, false));
  memcpy(dim, x->dim, sizeof dim);
  dim[x->ndim - 1] = width;
  shoal_import_give(im, n, layer, x->ndim, dim);
  return SHOAL_OK;
}

SHOAL_TAKE(gemm)
{
  const shoal_onnx_tensor *w, *bias = NULL;
  bool turned = shoal_import_int(n, "transB", 0) == 0;
  SHOAL_TRY(shoal_import_known_weight(im, n, 1, 2, &w));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(shoal_import_known_list(im, n, 2, w->dim[turned ? 1 : 0], "bias", &bias));
  return add_linear(im, n, w, turned, bias);
}

SHOAL_TAKE(matmul)
{
  const shoal_onnx_tensor *w;
  if (shoal_import_at(im, n, 0) && shoal_import_at(im, n, 1)) return shoal_import_product(im, n);
  SHOAL_TRY(shoal_import_known_weight(im, n, 1, 2, &w));
  return add_linear(im, n, w, true, NULL);
}

static void note_folded(shoal_import *im, const shoal_onnx_node *n, const char *layer)
{
  const char *name = im->g.value[n->in[1]].name;
  if (!n->folded && strncmp(name, "onnx::Conv_", 11) != 0) return;
  if (im->n_folded++ < 3) shoal_str_add(&im->folded, "%s%s", im->n_folded > 1 ? ", " : "", layer);
}

/* A convolution of [c,1,1] by 1 x 1 is a product with the [c] that a global pool gives here. */
static shoal_status conv_pooled(shoal_import *im, const shoal_onnx_node *n, const shoal_onnx_tensor *w,
                                const shoal_onnx_tensor *bias)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  char wish[128];
  shoal_text_layer *l;
  int layer;
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_LINEAR, shoal_import_wish(im, n, wish), &l));
  note_folded(im, n, l->node.name);
  l->facts.width = w->dim[0];
  l->facts.bias = bias != NULL;
  l->node.in[0] = x->layer;
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give(im, n, layer, 4, (int64_t[]){ x->dim[0], w->dim[0], 1, 1 });
  SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", w, false));
  return bias ? shoal_import_put_weight(im, layer, "bias", bias, false) : SHOAL_OK;
}

SHOAL_TAKE(conv)
{
  const shoal_onnx_tensor *w, *bias = NULL;
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  shoal_layer_facts f = shoal_layer_defaults();
  char wish[128];
  shoal_text_layer *l;
  int layer, from;
  SHOAL_TRY(shoal_import_known_weight(im, n, 1, 4, &w));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(shoal_import_known_list(im, n, 2, w->dim[0], "bias", &bias));
  SHOAL_TRY(windows(n, &f));
  SHOAL_TRY(pair_of(n, "dilations", 1, f.dilation));
  for (int k = 0; k < 2 && x; k++) f.pad[k] += x->pad[k];
  memcpy(f.kernel, w->dim + 2, sizeof f.kernel);
  f.groups = shoal_import_int(n, "group", 1);
  SHOAL_CHECK(f.groups >= 1 && f.groups <= INT32_MAX / 4 && f.dilation[0] > 0 && f.dilation[1] > 0,
              SHOAL_ERR_UNSUPPORTED, "a group or a dilation is 0");
  int64_t channels = w->dim[1] * f.groups;
  SHOAL_CHECK(x && x->ndim == 4 && x->dim[1] == channels, SHOAL_ERR_UNSUPPORTED,
              "its weight is for %lld channels, and gets %lld", (long long)channels,
              (long long)(x && x->ndim > 1 ? x->dim[1] : 0));
  bool pooled = x->dim[2] == 1 && x->dim[3] == 1 && shoal_import_is_whole(im, x) &&
                shoal_import_shape(im, x->layer)->ndim == 1 && f.groups == 1 && f.kernel[0] == 1 && f.kernel[1] == 1 &&
                !f.pad[0] && !f.pad[1];
  if (pooled) return conv_pooled(im, n, w, bias);
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_CONV, shoal_import_wish(im, n, wish), &l));
  note_folded(im, n, l->node.name);
  l->facts = f;
  l->facts.width = w->dim[0];
  l->facts.bias = bias != NULL;
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give_layer(im, n, layer);
  SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", w, false));
  return bias ? shoal_import_put_weight(im, layer, "bias", bias, false) : SHOAL_OK;
}

SHOAL_TAKE(pool)
{
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  bool largest = strcmp(n->op, "MaxPool") == 0;
  shoal_layer_facts f = shoal_layer_defaults();
  SHOAL_TRY(windows(n, &f));
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  const bool padded = x->pad[0] || x->pad[1];
  if (padded && (f.pad[0] || f.pad[1]) && shoal_import_int(n, "count_include_pad", 0) == 0)
    return shoal_import_refuse("zeros of a node count in its mean, those of its own do not");
  for (int k = 0; k < 2; k++) f.pad[k] += x->pad[k];
  bool one = f.kernel[0] == 1 && f.kernel[1] == 1 && f.stride[0] == 1 && f.stride[1] == 1;
  if (one && !f.pad[0] && !f.pad[1]) { /* as an adaptive pool may come out */
    shoal_import_give_same(im, n, shoal_import_at(im, n, 0));
    return SHOAL_OK;
  }
  f.ceil = shoal_import_int(n, "ceil_mode", 0) != 0;
  f.count_pad = !largest && (padded || shoal_import_int(n, "count_include_pad", 0) != 0) && (f.pad[0] || f.pad[1]);
  SHOAL_TRY(shoal_import_begin(im, largest ? SHOAL_OP_MAXPOOL : SHOAL_OP_AVGPOOL, shoal_import_wish(im, n, wish), &l));
  l->facts = f;
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}

/* Zeros around images, which the only reader takes as padding of its own. */
SHOAL_TAKE(pad)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  const shoal_onnx_value *out = &im->g.value[n->out[0]];
  const char *reader = out->readers == 1 && out->reader >= 0 ? im->g.node[out->reader].op : "";
  double with = 0;
  int64_t *pads;
  int count;
  if (strcmp(reader, "Conv") != 0 && strcmp(reader, "AveragePool") != 0)
    return shoal_import_refuse("only what one convolution or mean reads is padded");
  if (shoal_onnx_in(n, 2) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, 2), &with))
    return shoal_import_refuse("what it pads with is not a constant");
  SHOAL_TRY(shoal_import_list(im, n, 1, "pads", &pads, &count));
  bool good = x && x->ndim == 4 && count == 8 && with == 0 && !x->pad[0] && !x->pad[1];
  for (int k = 0; good && k < 4; k++)
    good = pads[k] == pads[k + 4] && pads[k] >= 0 && pads[k] < INT32_MAX / 4 && (k > 1 || pads[k] == 0);
  if (good) {
    shoal_import_give_same(im, n, x);
    memcpy(im->at[n->out[0]].pad, pads + 2, 2 * sizeof *pads);
  }
  free(pads);
  return good ? SHOAL_OK : shoal_import_refuse("only zeros on all sides of images, alike on both, are read");
}

static shoal_status global_pool(shoal_import *im, const shoal_onnx_node *n, bool keep)
{
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_GLOBALPOOL, shoal_import_wish(im, n, wish), &l));
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  shoal_import_give(im, n, layer, keep ? 4 : 2, (int64_t[]){ x->dim[0], x->dim[1], 1, 1 });
  return SHOAL_OK;
}

SHOAL_TAKE(global_pool)
{
  return global_pool(im, n, true);
}

/* The mean over all dimensions but the last: what lies last is put first, and the rest of it is an image. */
static shoal_status mean_of_places(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x, bool keep)
{
  shoal_text_layer *l;
  char wish[128];
  const int64_t batch = x->dim[0], last = x->dim[x->ndim - 1],
                places = x->ndim == 3 ? x->dim[1] : x->dim[1] * x->dim[2];
  const int sample = x->ndim - 1;
  int layer;
  SHOAL_TRY(shoal_import_read(im, n, 0, &layer));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_TRANSPOSE, "", &l));
  l->facts.order.ndim = sample;
  for (int d = 0; d < sample; d++) l->facts.order.dim[d] = d == 0 ? sample - 1 : d - 1;
  l->node.in[0] = layer;
  SHOAL_TRY(shoal_import_end(im, &layer));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_RESHAPE, "", &l));
  l->facts.shape = (shoal_shape){ .ndim = 3, .dim = { last, places, 1 } };
  l->node.in[0] = layer;
  SHOAL_TRY(shoal_import_end(im, &layer));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_GLOBALPOOL, shoal_import_wish(im, n, wish), &l));
  l->node.in[0] = layer;
  SHOAL_TRY(shoal_import_end(im, &layer));
  int64_t dim[4] = { batch, 1, 1, 1 };
  dim[keep ? sample : 1] = last;
  shoal_import_give(im, n, layer, keep ? sample + 1 : 2, dim);
  return SHOAL_OK;
}

SHOAL_TAKE(mean)
{
  int64_t *axes;
  int count;
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  SHOAL_TRY(shoal_import_list(im, n, 1, "axes", &axes, &count));
  unsigned which = 0;
  for (int k = 0; k < count; k++)
    if (x && axes[k] >= -x->ndim && axes[k] < x->ndim) which |= 1u << (axes[k] < 0 ? axes[k] + x->ndim : axes[k]);
  free(axes);
  bool keep = shoal_import_int(n, "keepdims", 1) != 0;
  if (x && x->ndim == 4 && which == (1u << 2 | 1u << 3)) return global_pool(im, n, keep);
  if (x && (x->ndim == 3 || x->ndim == 4) && which == (1u << (x->ndim - 1)) - 2) return mean_of_places(im, n, x, keep);
  return shoal_import_refuse("only means over height and width are read, or over all but the last dimension");
}

SHOAL_TAKE(batchnorm)
{
  static const char *const suffix[] = { NULL, "weight", "bias", "running_mean", "running_var" };
  const shoal_onnx_tensor *t[5];
  shoal_text_layer *l;
  char wish[128], rounded[32];
  int from, layer;
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  for (int k = 1; k < 5; k++) SHOAL_TRY(shoal_import_known_list(im, n, k, x->dim[1], suffix[k], &t[k]));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_BATCHNORM, shoal_import_wish(im, n, wish), &l));
  l->facts.eps = shoal_import_real(n, "epsilon", 1e-5);
  snprintf(rounded, sizeof rounded, "%.6g",
           1 - shoal_import_real(n, "momentum", 0.9)); /* theirs is the share that stays */
  l->facts.momentum = strtod(rounded, NULL);
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  for (int k = 1; k < 5; k++) SHOAL_TRY(shoal_import_put_weight(im, layer, suffix[k], t[k], false));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}

SHOAL_TAKE(layernorm)
{
  const shoal_onnx_tensor *scale, *shift = NULL;
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  int64_t axis = shoal_import_int(n, "axis", -1), width = x->dim[x->ndim - 1];
  if (axis != -1 && axis != x->ndim - 1) return shoal_import_refuse("only norms over the last dimension are read");
  SHOAL_TRY(shoal_import_known_list(im, n, 1, width, "scale", &scale));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(shoal_import_known_list(im, n, 2, width, "shift", &shift));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_LAYERNORM, shoal_import_wish(im, n, wish), &l));
  l->facts.eps = shoal_import_real(n, "epsilon", 1e-5);
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", scale, false));
  SHOAL_TRY(shoal_import_put_weight(im, layer, "bias", shift, false));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}

/* A function of each element, whatever their shape and order. */
static shoal_status by_element(shoal_import *im, const shoal_onnx_node *n, shoal_op_kind kind, double p)
{
  shoal_text_layer *l;
  char wish[128];
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  if (!x) return shoal_import_refuse("its input is a constant");
  SHOAL_TRY(shoal_import_plain(x));
  shoal_import_value v = *x;
  SHOAL_TRY(shoal_import_begin(im, kind, shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->facts.p = p;
  l->node.in[0] = x->layer;
  SHOAL_TRY(shoal_import_end(im, &v.layer));
  shoal_import_give_same(im, n, &v);
  return SHOAL_OK;
}

/* Activations whose operator says all. */
static const struct {
  const char *op;
  shoal_op_kind kind;
} curves[] = {
  { "Relu", SHOAL_OP_RELU },
  { "Sigmoid", SHOAL_OP_SIGMOID },
  { "Tanh", SHOAL_OP_TANH },
  { "HardSwish", SHOAL_OP_HARDSWISH },
};

SHOAL_TAKE(curve)
{
  size_t k = 0;
  while (strcmp(curves[k].op, n->op) != 0) k++;
  return by_element(im, n, curves[k].kind, 0);
}

SHOAL_TAKE(gelu)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, "approximate");
  return by_element(im, n, a && strcmp(a->text, "tanh") == 0 ? SHOAL_OP_GELU_TANH : SHOAL_OP_GELU, 0);
}

SHOAL_TAKE(hardsigmoid)
{
  bool usual = fabs(shoal_import_real(n, "alpha", 0.2) - 1.0 / 6) < 1e-6 && shoal_import_real(n, "beta", 0.5) == 0.5;
  if (!usual) return shoal_import_refuse("only x/6 + 1/2 is read, and it has another slope");
  return by_element(im, n, SHOAL_OP_HARDSIGMOID, 0);
}

SHOAL_TAKE(leakyrelu)
{
  SHOAL_TRY(by_element(im, n, SHOAL_OP_LEAKYRELU, 0));
  im->text.layers[im->text.n - 1].facts.slope = shoal_import_real(n, "alpha", 0.01);
  return SHOAL_OK;
}

/* From 0 to 6, or from 0 on. */
SHOAL_TAKE(clip)
{
  double least = shoal_import_real(n, "min", -INFINITY), most = shoal_import_real(n, "max", INFINITY);
  double *const bound[] = { &least, &most };
  for (int k = 1; k < 3; k++)
    if (shoal_onnx_in(n, k) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, k), bound[k - 1]))
      return shoal_import_refuse("a bound of it is not a constant");
  if (least != 0 || (most != 6 && most < 3e38)) return shoal_import_refuse("only from 0 to 6 and from 0 on is read");
  return by_element(im, n, most == 6 ? SHOAL_OP_RELU6 : SHOAL_OP_RELU, 0);
}

SHOAL_TAKE(same)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  if (!x) return shoal_import_refuse("its input is a constant");
  shoal_import_give_same(im, n, x);
  return SHOAL_OK;
}

SHOAL_TAKE(cast)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  bool tokens = x && x->layer < 0 && shoal_onnx_is_whole((int)shoal_import_int(n, "to", 0));
  if (!tokens && shoal_import_int(n, "to", SHOAL_ONNX_F32) != SHOAL_ONNX_F32)
    return shoal_import_refuse("values of layers are f32 here, and nothing else");
  return shoal_take_same(im, n);
}

SHOAL_TAKE(dropout)
{
  double p = shoal_import_real(n, "ratio", 0.5);
  if (shoal_onnx_in(n, 1) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, 1), &p))
    return shoal_import_refuse("its share is not a constant");
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  if (x && x->scores && p > 0) {
    char note[] = "dropout of attention's shares is left out";
    if (!shoal_texts_have(&im->notes, note)) SHOAL_TRY(shoal_texts_add(&im->notes, note));
  }
  if (p <= 0 || (x && x->scores)) return shoal_take_same(im, n);
  return by_element(im, n, SHOAL_OP_DROPOUT, p);
}
