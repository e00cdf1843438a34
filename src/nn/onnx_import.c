/* See import.h.  Nodes are taken in the order of computation: what is known is computed (onnx_fold.c), the rest are layers.
 *
 * One table has all operators that become layers, with their numbers of inputs and their attributes.  An attribute that is
 * not in it, or has another value than the table allows, is refused with node and value, and so is any other operator. */
#include "base/error.h"
#include "base/mem.h"
#include "base/texts.h"
#include "nn/import.h"
#include "nn/onnx_graph.h"
#include "nn/text_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a value that depends on the input.  Its shape may be another one than that of the layer's output, as long
 * as the elements are the same: [N,c,1,1] for [c]. */
typedef struct {
  int layer; /* -1: the network's input */
  int ndim;  /* 0: not computed yet */
  int64_t dim[SHOAL_ONNX_DIMS];
  int64_t pad[2]; /* by a node for the convolution or mean that alone reads it; not in dim */
} value;

/* A tensor of a layer. */
typedef struct {
  int layer;
  const char *suffix;             /* "weight" */
  char name[SHOAL_NAME_MAX + 16]; /* "conv1.weight", when all layers have their names */
  const shoal_onnx_tensor *t;     /* NULL: zeros */
  bool turned;                    /* a matrix whose transpose is the layer's */
} weight;

struct shoal_import {
  shoal_onnx_graph g;
  shoal_text text;     /* the layers */
  shoal_model *shapes; /* the same, node by node, for their shapes */
  shoal_model *model;  /* what comes out */
  value *at;           /* [g.values] */
  weight *weights;
  size_t n, cap;
  double *mean, *std; /* [scales] */
  size_t scales;
  bool centred, divided; /* the input's scale, as far as nodes have computed it */
  shoal_texts notes;
  shoal_str folded; /* convolutions with a batch norm in them */
  int n_folded;
};

typedef struct {
  const char *op;
  int low, high;          /* inputs */
  const char *attributes; /* "kernel_shape group=1": any value, and this value only */
  shoal_status (*take)(shoal_import *im, const shoal_onnx_node *n);
} operator;

/* ---- values ---- */

static value *value_at(const shoal_import *im, const shoal_onnx_node *n, int k)
{
  int v = shoal_onnx_in(n, k);
  return v >= 0 && im->at[v].ndim > 0 ? &im->at[v] : NULL;
}

static shoal_status refuse(const char *why)
{
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "%s", why);
}

static const shoal_shape *layer_shape(const shoal_import *im, int layer)
{
  return layer < 0 ? &im->shapes->input : &im->shapes->node[layer].out;
}

static bool is_own_shape(const shoal_import *im, const value *v)
{
  const shoal_shape *s = layer_shape(im, v->layer);
  if (v->ndim != s->ndim + 1) return false;
  for (int d = 0; d < s->ndim; d++)
    if (v->dim[d + 1] != s->dim[d]) return false;
  return true;
}

static void give(shoal_import *im, const shoal_onnx_node *n, int layer, int ndim, const int64_t *dim)
{
  value *v = &im->at[n->out[0]];
  v->layer = layer;
  v->ndim = ndim;
  memcpy(v->dim, dim, (size_t)ndim * sizeof *dim);
}

static void give_layer(shoal_import *im, const shoal_onnx_node *n, int layer)
{
  const shoal_shape *s = layer_shape(im, layer);
  int64_t dim[SHOAL_ONNX_DIMS] = { im->at[im->g.input].dim[0] };
  memcpy(dim + 1, s->dim, (size_t)s->ndim * sizeof *dim);
  give(im, n, layer, s->ndim + 1, dim);
}

static void give_same(shoal_import *im, const shoal_onnx_node *n, const value *v)
{
  const value was = *v;
  give(im, n, was.layer, was.ndim, was.dim);
}

/* ---- names ---- */

/* "conv1" of "conv1.weight". */
static bool name_of_tensor(const char *name, const char *ending, char *out, size_t cap)
{
  size_t n = strlen(name), m = strlen(ending);
  if (n <= m || strcmp(name + n - m, ending) != 0 || strchr(name, '/') || strchr(name, ':') || n - m >= cap)
    return false;
  snprintf(out, cap, "%.*s", (int)(n - m), name);
  return true;
}

/* "layer1.0.conv1" of "/layer1/layer1.0/conv1/Conv": folders of a node's name are modules of PyTorch. */
static bool name_of_node(const char *name, char *out, size_t cap)
{
  const char *end = strrchr(name, '/');
  size_t n = 0, last = 0, last_n = 0;
  out[0] = 0;
  if (!end) return false;
  for (const char *at = name; at < end;) {
    size_t part = strcspn(at, "/");
    bool inner = last_n > 0 && part > last_n && strncmp(at, out + last, last_n) == 0 && at[last_n] == '.';
    if (inner) n = last;
    if (n + part + 2 > cap) return false;
    if (part > 0) {
      if (n > 0 && !inner) out[n++] = '.';
      last = n;
      last_n = part;
      memcpy(out + n, at, part);
      n += part;
      out[n] = 0;
    }
    at += part + (at + part < end);
  }
  return n > 0;
}

static bool is_free(const shoal_import *im, const char *name)
{
  if (!*name || strcmp(name, "input") == 0) return false;
  for (int i = 0; i < im->text.n; i++)
    if (strcmp(im->text.layers[i].node.name, name) == 0) return false;
  return true;
}

/* Names of tensors follow from it: plain ASCII without slashes, and room for ".running_mean". */
static void name_layer(const shoal_import *im, shoal_op_kind kind, const char *wish, char out[SHOAL_NAME_MAX])
{
  size_t n = 0;
  for (; wish[n] && n < SHOAL_NAME_MAX; n++) out[n] = wish[n] > ' ' && wish[n] <= '~' && wish[n] != '/' ? wish[n] : '_';
  if (n < SHOAL_NAME_MAX - sizeof ".running_mean") {
    out[n] = 0;
    if (is_free(im, out)) return;
  }
  int k = 0;
  do {
    snprintf(out, SHOAL_NAME_MAX, "%s%d", shoal_op_kind_name(kind), im->text.n + ++k);
  } while (!is_free(im, out));
}

/* ---- layers ---- */

/* Begins a layer for a node; its facts may be changed before it is ended. */
static shoal_status begin(shoal_import *im, shoal_op_kind kind, const char *wish, shoal_text_layer **out)
{
  char name[SHOAL_NAME_MAX];
  SHOAL_CHECK(im->text.n < SHOAL_TEXT_LAYERS, SHOAL_ERR_UNSUPPORTED, "more than %d layers", SHOAL_TEXT_LAYERS);
  name_layer(im, kind, wish, name);
  SHOAL_TRY(shoal_text_add_layer(&im->text, out));
  shoal_text_layer *l = *out;
  l->node = shoal_node_make(kind, name, -1);
  l->facts.bias = false;
  return SHOAL_OK;
}

/* Infers the layer's shape, which refuses what does not fit, and counts who reads what. */
static shoal_status end(shoal_import *im, int *layer)
{
  shoal_text_layer *l = &im->text.layers[im->text.n - 1];
  shoal_node n = shoal_text_node(l, 0);
  SHOAL_TRY(shoal_model_add(im->shapes, &n, SHOAL_INIT_ZERO, layer));
  for (int k = 0; k < shoal_node_inputs(&l->node); k++)
    if (l->node.in[k] >= 0) im->text.layers[l->node.in[k]].readers++;
  return SHOAL_OK;
}

/* Input k as the output of a layer: a layer makes one of what is a view of it in another shape. */
static shoal_status read_layer(shoal_import *im, const shoal_onnx_node *n, int k, int *layer)
{
  value *v = value_at(im, n, k);
  shoal_text_layer *l;
  char wish[128];
  if (!v) return refuse("one of its inputs is a constant where the output of a layer should be");
  if (!is_own_shape(im, v)) {
    if (v->ndim > SHOAL_MAX_DIMS) return refuse("it reads a value of more than 4 dimensions beside the batch");
    const shoal_onnx_node *view = &im->g.node[im->g.value[n->in[k]].producer];
    if (!name_of_node(view->name, wish, sizeof wish)) wish[0] = 0;
    SHOAL_TRY(begin(im, v->ndim == 2 ? SHOAL_OP_FLATTEN : SHOAL_OP_RESHAPE, wish, &l));
    if (v->ndim > 2) {
      l->facts.shape.ndim = v->ndim - 1;
      memcpy(l->facts.shape.dim, v->dim + 1, (size_t)(v->ndim - 1) * sizeof *v->dim);
    }
    l->node.in[0] = v->layer;
    SHOAL_TRY(end(im, &v->layer));
  }
  *layer = v->layer;
  return SHOAL_OK;
}

static shoal_status put_weight(shoal_import *im, int layer, const char *suffix, const shoal_onnx_tensor *t, bool turned)
{
  if (im->n == im->cap) {
    size_t cap = im->cap ? 2 * im->cap : 64;
    weight *more = realloc(im->weights, cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "%zu tensors", cap);
    im->weights = more;
    im->cap = cap;
  }
  im->weights[im->n++] = (weight){ .layer = layer, .suffix = suffix, .t = t, .turned = turned };
  return SHOAL_OK;
}

/* Input k, which must be known: [width], or any shape with width elements. */
static shoal_status known_list(const shoal_import *im, const shoal_onnx_node *n, int k, int64_t width, const char *what,
                               const shoal_onnx_tensor **out)
{
  char shape[192];
  *out = shoal_onnx_known(&im->g, n, k);
  SHOAL_CHECK(*out && !shoal_onnx_is_whole((*out)->type), SHOAL_ERR_UNSUPPORTED, "its %s is not a constant of reals",
              what);
  SHOAL_CHECK((*out)->count == (size_t)width, SHOAL_ERR_UNSUPPORTED, "its %s is %s, and should have %lld numbers", what,
              shoal_onnx_shape_text((*out)->ndim, (*out)->dim, shape, sizeof shape), (long long)width);
  return SHOAL_OK;
}

static shoal_status known_weight(const shoal_import *im, const shoal_onnx_node *n, int k, int ndim,
                                 const shoal_onnx_tensor **out)
{
  char shape[192];
  *out = shoal_onnx_known(&im->g, n, k);
  SHOAL_CHECK(*out && !shoal_onnx_is_whole((*out)->type), SHOAL_ERR_UNSUPPORTED,
              "its weight is not a constant of reals");
  SHOAL_CHECK((*out)->ndim == ndim && (*out)->count > 0, SHOAL_ERR_UNSUPPORTED,
              "its weight is %s; only weights of %d dimensions are read",
              shoal_onnx_shape_text((*out)->ndim, (*out)->dim, shape, sizeof shape), ndim);
  for (int d = 0; d < ndim; d++)
    SHOAL_CHECK((*out)->dim[d] <= INT32_MAX / 2, SHOAL_ERR_UNSUPPORTED, "its weight is %s",
                shoal_onnx_shape_text((*out)->ndim, (*out)->dim, shape, sizeof shape));
  return SHOAL_OK;
}

/* What the layer of a node should be called: as its weight, its bias, or the module that the node is of. */
static const char *wish_for(const shoal_import *im, const shoal_onnx_node *n, char out[128])
{
  for (int k = 1; k < n->ins && k <= 2; k++) {
    int v = n->in[k];
    if (v < 0 || !im->g.value[v].known) continue;
    const char *ending = k == 1 ? ".weight" : ".bias";
    if (name_of_tensor(im->g.value[v].name, ending, out, 128)) return out;
  }
  return name_of_node(n->name, out, 128) ? out : "";
}

/* ---- attributes ---- */

static int64_t int_of(const shoal_onnx_node *n, const char *name, int64_t otherwise)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, name);
  return a ? a->whole : otherwise;
}

static double real_of(const shoal_onnx_node *n, const char *name, double otherwise)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, name);
  return a ? (double)a->real : otherwise;
}

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

/* ---- operators ---- */

/* y = x W^T + b along the last dimension; W is [width, in], or `turned`. */
static shoal_status add_linear(shoal_import *im, const shoal_onnx_node *n, const shoal_onnx_tensor *w, bool turned,
                               const shoal_onnx_tensor *bias, int *layer)
{
  char wish[128];
  shoal_text_layer *l;
  int from;
  int64_t width = w->dim[turned ? 1 : 0], in = w->dim[turned ? 0 : 1];
  SHOAL_TRY(read_layer(im, n, 0, &from));
  const value *x = value_at(im, n, 0);
  SHOAL_CHECK(x->dim[x->ndim - 1] == in && x->ndim > 1, SHOAL_ERR_UNSUPPORTED,
              "its weight is for %lld inputs, and gets %lld", (long long)in, (long long)x->dim[x->ndim - 1]);
  SHOAL_TRY(begin(im, SHOAL_OP_LINEAR, wish_for(im, n, wish), &l));
  l->facts.width = width;
  l->facts.bias = bias != NULL;
  l->node.in[0] = from;
  SHOAL_TRY(end(im, layer));
  SHOAL_TRY(put_weight(im, *layer, "weight", w, turned));
  return bias ? put_weight(im, *layer, "bias", bias, false) : SHOAL_OK;
}

static shoal_status take_gemm(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_tensor *w, *bias = NULL;
  int layer;
  bool turned = int_of(n, "transB", 0) == 0;
  SHOAL_TRY(known_weight(im, n, 1, 2, &w));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(known_list(im, n, 2, w->dim[turned ? 1 : 0], "bias", &bias));
  SHOAL_TRY(add_linear(im, n, w, turned, bias, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

static shoal_status take_matmul(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_tensor *w;
  int layer;
  SHOAL_TRY(known_weight(im, n, 1, 2, &w));
  SHOAL_TRY(add_linear(im, n, w, true, NULL, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
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
  const value *x = value_at(im, n, 0);
  char wish[128];
  shoal_text_layer *l;
  int layer;
  SHOAL_TRY(begin(im, SHOAL_OP_LINEAR, wish_for(im, n, wish), &l));
  note_folded(im, n, l->node.name);
  l->facts.width = w->dim[0];
  l->facts.bias = bias != NULL;
  l->node.in[0] = x->layer;
  SHOAL_TRY(end(im, &layer));
  give(im, n, layer, 4, (int64_t[]){ x->dim[0], w->dim[0], 1, 1 });
  SHOAL_TRY(put_weight(im, layer, "weight", w, false));
  return bias ? put_weight(im, layer, "bias", bias, false) : SHOAL_OK;
}

static shoal_status take_conv(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_tensor *w, *bias = NULL;
  const value *x = value_at(im, n, 0);
  shoal_layer_facts f = shoal_layer_defaults();
  char wish[128];
  shoal_text_layer *l;
  int layer, from;
  SHOAL_TRY(known_weight(im, n, 1, 4, &w));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(known_list(im, n, 2, w->dim[0], "bias", &bias));
  SHOAL_TRY(windows(n, &f));
  SHOAL_TRY(pair_of(n, "dilations", 1, f.dilation));
  for (int k = 0; k < 2 && x; k++) f.pad[k] += x->pad[k];
  memcpy(f.kernel, w->dim + 2, sizeof f.kernel);
  f.groups = int_of(n, "group", 1);
  SHOAL_CHECK(f.groups >= 1 && f.groups <= INT32_MAX / 4 && f.dilation[0] > 0 && f.dilation[1] > 0,
              SHOAL_ERR_UNSUPPORTED, "a group or a dilation is 0");
  int64_t channels = w->dim[1] * f.groups;
  SHOAL_CHECK(x && x->ndim == 4 && x->dim[1] == channels, SHOAL_ERR_UNSUPPORTED,
              "its weight is for %lld channels, and gets %lld", (long long)channels,
              (long long)(x && x->ndim > 1 ? x->dim[1] : 0));
  bool pooled = x->dim[2] == 1 && x->dim[3] == 1 && layer_shape(im, x->layer)->ndim == 1 && f.groups == 1 &&
                f.kernel[0] == 1 && f.kernel[1] == 1 && !f.pad[0] && !f.pad[1];
  if (pooled) return conv_pooled(im, n, w, bias);
  SHOAL_TRY(read_layer(im, n, 0, &from));
  SHOAL_TRY(begin(im, SHOAL_OP_CONV, wish_for(im, n, wish), &l));
  note_folded(im, n, l->node.name);
  l->facts = f;
  l->facts.width = w->dim[0];
  l->facts.bias = bias != NULL;
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  give_layer(im, n, layer);
  SHOAL_TRY(put_weight(im, layer, "weight", w, false));
  return bias ? put_weight(im, layer, "bias", bias, false) : SHOAL_OK;
}

static shoal_status take_pool(shoal_import *im, const shoal_onnx_node *n)
{
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  bool largest = strcmp(n->op, "MaxPool") == 0;
  shoal_layer_facts f = shoal_layer_defaults();
  SHOAL_TRY(windows(n, &f));
  SHOAL_TRY(read_layer(im, n, 0, &from));
  const value *x = value_at(im, n, 0);
  const bool padded = x->pad[0] || x->pad[1];
  if (padded && (f.pad[0] || f.pad[1]) && int_of(n, "count_include_pad", 0) == 0)
    return refuse("zeros of a node count in its mean, those of its own do not");
  for (int k = 0; k < 2; k++) f.pad[k] += x->pad[k];
  bool one = f.kernel[0] == 1 && f.kernel[1] == 1 && f.stride[0] == 1 && f.stride[1] == 1;
  if (one && !f.pad[0] && !f.pad[1]) { /* as an adaptive pool may come out */
    give_same(im, n, value_at(im, n, 0));
    return SHOAL_OK;
  }
  f.ceil = int_of(n, "ceil_mode", 0) != 0;
  f.count_pad = !largest && (padded || int_of(n, "count_include_pad", 0) != 0) && (f.pad[0] || f.pad[1]);
  SHOAL_TRY(begin(im, largest ? SHOAL_OP_MAXPOOL : SHOAL_OP_AVGPOOL, wish_for(im, n, wish), &l));
  l->facts = f;
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

/* A list of whole numbers in input k or, in older files, in an attribute; the caller frees.  *n < 0: there is none. */
static shoal_status list_of(const shoal_import *im, const shoal_onnx_node *node, int k, const char *name, int64_t **out,
                            int *n)
{
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, node, k);
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(node, name);
  *out = NULL;
  *n = -1;
  if (shoal_onnx_in(node, k) >= 0 && !t) return refuse("its shape depends on the input");
  if (t && (t->count > SHOAL_ONNX_DIMS || !shoal_onnx_is_whole(t->type))) return refuse("its shape is none");
  if (t) {
    *n = (int)t->count;
    return shoal_onnx_whole(&im->g, t, out);
  }
  if (!a || !a->list) return SHOAL_OK;
  if (a->n > SHOAL_ONNX_DIMS) return refuse("its shape is none");
  SHOAL_TRY(SHOAL_ALLOC(a->n + 1, out));
  memcpy(*out, a->list, a->n * sizeof **out);
  *n = (int)a->n;
  return SHOAL_OK;
}

/* Zeros around images, which the only reader takes as padding of its own. */
static shoal_status take_pad(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  const shoal_onnx_value *out = &im->g.value[n->out[0]];
  const char *reader = out->readers == 1 && out->reader >= 0 ? im->g.node[out->reader].op : "";
  double with = 0;
  int64_t *pads;
  int count;
  if (strcmp(reader, "Conv") != 0 && strcmp(reader, "AveragePool") != 0)
    return refuse("only what one convolution or mean reads is padded");
  if (shoal_onnx_in(n, 2) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, 2), &with))
    return refuse("what it pads with is not a constant");
  SHOAL_TRY(list_of(im, n, 1, "pads", &pads, &count));
  bool good = x && x->ndim == 4 && count == 8 && with == 0 && !x->pad[0] && !x->pad[1];
  for (int k = 0; good && k < 4; k++)
    good = pads[k] == pads[k + 4] && pads[k] >= 0 && pads[k] < INT32_MAX / 4 && (k > 1 || pads[k] == 0);
  if (good) {
    give_same(im, n, x);
    memcpy(im->at[n->out[0]].pad, pads + 2, 2 * sizeof *pads);
  }
  free(pads);
  return good ? SHOAL_OK : refuse("only zeros on all sides of images, alike on both, are read");
}

static shoal_status global_pool(shoal_import *im, const shoal_onnx_node *n, bool keep)
{
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  SHOAL_TRY(read_layer(im, n, 0, &from));
  SHOAL_TRY(begin(im, SHOAL_OP_GLOBALPOOL, wish_for(im, n, wish), &l));
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  const value *x = value_at(im, n, 0);
  give(im, n, layer, keep ? 4 : 2, (int64_t[]){ x->dim[0], x->dim[1], 1, 1 });
  return SHOAL_OK;
}

static shoal_status take_global_pool(shoal_import *im, const shoal_onnx_node *n)
{
  return global_pool(im, n, true);
}

/* The mean over all dimensions but the last: what lies last is put first, and the rest of it is an image. */
static shoal_status mean_of_places(shoal_import *im, const shoal_onnx_node *n, const value *x, bool keep)
{
  shoal_text_layer *l;
  char wish[128];
  const int64_t batch = x->dim[0], last = x->dim[x->ndim - 1],
                places = x->ndim == 3 ? x->dim[1] : x->dim[1] * x->dim[2];
  const int sample = x->ndim - 1;
  int layer;
  SHOAL_TRY(read_layer(im, n, 0, &layer));
  SHOAL_TRY(begin(im, SHOAL_OP_TRANSPOSE, "", &l));
  l->facts.order.ndim = sample;
  for (int d = 0; d < sample; d++) l->facts.order.dim[d] = d == 0 ? sample - 1 : d - 1;
  l->node.in[0] = layer;
  SHOAL_TRY(end(im, &layer));
  SHOAL_TRY(begin(im, SHOAL_OP_RESHAPE, "", &l));
  l->facts.shape = (shoal_shape){ .ndim = 3, .dim = { last, places, 1 } };
  l->node.in[0] = layer;
  SHOAL_TRY(end(im, &layer));
  SHOAL_TRY(begin(im, SHOAL_OP_GLOBALPOOL, wish_for(im, n, wish), &l));
  l->node.in[0] = layer;
  SHOAL_TRY(end(im, &layer));
  int64_t dim[4] = { batch, 1, 1, 1 };
  dim[keep ? sample : 1] = last;
  give(im, n, layer, keep ? sample + 1 : 2, dim);
  return SHOAL_OK;
}

static shoal_status take_mean(shoal_import *im, const shoal_onnx_node *n)
{
  int64_t *axes;
  int count;
  const value *x = value_at(im, n, 0);
  SHOAL_TRY(list_of(im, n, 1, "axes", &axes, &count));
  unsigned which = 0;
  for (int k = 0; k < count; k++)
    if (x && axes[k] >= -x->ndim && axes[k] < x->ndim) which |= 1u << (axes[k] < 0 ? axes[k] + x->ndim : axes[k]);
  free(axes);
  bool keep = int_of(n, "keepdims", 1) != 0;
  if (x && x->ndim == 4 && which == (1u << 2 | 1u << 3)) return global_pool(im, n, keep);
  if (x && (x->ndim == 3 || x->ndim == 4) && which == (1u << (x->ndim - 1)) - 2) return mean_of_places(im, n, x, keep);
  return refuse("only means over height and width are read, or over all but the last dimension");
}

static shoal_status take_batchnorm(shoal_import *im, const shoal_onnx_node *n)
{
  static const char *const suffix[] = { NULL, "weight", "bias", "running_mean", "running_var" };
  const shoal_onnx_tensor *t[5];
  shoal_text_layer *l;
  char wish[128], rounded[32];
  int from, layer;
  SHOAL_TRY(read_layer(im, n, 0, &from));
  const value *x = value_at(im, n, 0);
  for (int k = 1; k < 5; k++) SHOAL_TRY(known_list(im, n, k, x->dim[1], suffix[k], &t[k]));
  SHOAL_TRY(begin(im, SHOAL_OP_BATCHNORM, wish_for(im, n, wish), &l));
  l->facts.eps = real_of(n, "epsilon", 1e-5);
  snprintf(rounded, sizeof rounded, "%.6g", 1 - real_of(n, "momentum", 0.9)); /* theirs is the share that stays */
  l->facts.momentum = strtod(rounded, NULL);
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  for (int k = 1; k < 5; k++) SHOAL_TRY(put_weight(im, layer, suffix[k], t[k], false));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

static shoal_status take_layernorm(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_tensor *scale, *shift = NULL;
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  SHOAL_TRY(read_layer(im, n, 0, &from));
  const value *x = value_at(im, n, 0);
  int64_t axis = int_of(n, "axis", -1), width = x->dim[x->ndim - 1];
  if (axis != -1 && axis != x->ndim - 1) return refuse("only norms over the last dimension are read");
  SHOAL_TRY(known_list(im, n, 1, width, "scale", &scale));
  if (shoal_onnx_in(n, 2) >= 0) SHOAL_TRY(known_list(im, n, 2, width, "shift", &shift));
  SHOAL_TRY(begin(im, SHOAL_OP_LAYERNORM, wish_for(im, n, wish), &l));
  l->facts.eps = real_of(n, "epsilon", 1e-5);
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  SHOAL_TRY(put_weight(im, layer, "weight", scale, false));
  SHOAL_TRY(put_weight(im, layer, "bias", shift, false));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

/* A function of each element, whatever their shape. */
static shoal_status by_element(shoal_import *im, const shoal_onnx_node *n, shoal_op_kind kind, double p)
{
  shoal_text_layer *l;
  char wish[128];
  int layer;
  const value *x = value_at(im, n, 0);
  if (!x) return refuse("its input is a constant");
  SHOAL_TRY(begin(im, kind, name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->facts.p = p;
  l->node.in[0] = x->layer;
  SHOAL_TRY(end(im, &layer));
  give(im, n, layer, x->ndim, x->dim);
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

static shoal_status take_curve(shoal_import *im, const shoal_onnx_node *n)
{
  size_t k = 0;
  while (strcmp(curves[k].op, n->op) != 0) k++;
  return by_element(im, n, curves[k].kind, 0);
}

static shoal_status take_gelu(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, "approximate");
  return by_element(im, n, a && strcmp(a->text, "tanh") == 0 ? SHOAL_OP_GELU_TANH : SHOAL_OP_GELU, 0);
}

static shoal_status take_hardsigmoid(shoal_import *im, const shoal_onnx_node *n)
{
  bool usual = fabs(real_of(n, "alpha", 0.2) - 1.0 / 6) < 1e-6 && real_of(n, "beta", 0.5) == 0.5;
  if (!usual) return refuse("only x/6 + 1/2 is read, and it has another slope");
  return by_element(im, n, SHOAL_OP_HARDSIGMOID, 0);
}

static shoal_status take_leakyrelu(shoal_import *im, const shoal_onnx_node *n)
{
  SHOAL_TRY(by_element(im, n, SHOAL_OP_LEAKYRELU, 0));
  im->text.layers[im->text.n - 1].facts.slope = real_of(n, "alpha", 0.01);
  return SHOAL_OK;
}

/* From 0 to 6, or from 0 on. */
static shoal_status take_clip(shoal_import *im, const shoal_onnx_node *n)
{
  double least = real_of(n, "min", -INFINITY), most = real_of(n, "max", INFINITY);
  double *const bound[] = { &least, &most };
  for (int k = 1; k < 3; k++)
    if (shoal_onnx_in(n, k) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, k), bound[k - 1]))
      return refuse("a bound of it is not a constant");
  if (least != 0 || (most != 6 && most < 3e38)) return refuse("only from 0 to 6 and from 0 on is read");
  return by_element(im, n, most == 6 ? SHOAL_OP_RELU6 : SHOAL_OP_RELU, 0);
}

static shoal_status take_same(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  if (!x) return refuse("its input is a constant");
  give_same(im, n, x);
  return SHOAL_OK;
}

static shoal_status take_cast(shoal_import *im, const shoal_onnx_node *n)
{
  if (int_of(n, "to", SHOAL_ONNX_F32) != SHOAL_ONNX_F32)
    return refuse("values of layers are f32 here, and nothing else");
  return take_same(im, n);
}

static shoal_status take_dropout(shoal_import *im, const shoal_onnx_node *n)
{
  double p = real_of(n, "ratio", 0.5);
  if (shoal_onnx_in(n, 1) >= 0 && !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, 1), &p))
    return refuse("its share is not a constant");
  if (p <= 0) return take_same(im, n);
  return by_element(im, n, SHOAL_OP_DROPOUT, p);
}

/* The same elements in another shape: a view of the layer's output, or a layer that flattens it. */
static shoal_status give_shape(shoal_import *im, const shoal_onnx_node *n, int ndim, const int64_t *dim)
{
  const value *x = value_at(im, n, 0);
  shoal_text_layer *l;
  char is[192], was[192], wish[128];
  int64_t count = 1, before = 1;
  int layer;
  for (int d = 0; d < x->ndim; d++) before *= x->dim[d];
  for (int d = 0; d < ndim; d++)
    if (dim[d] < 1 || __builtin_mul_overflow(count, dim[d], &count)) count = INT64_MAX;
  shoal_onnx_shape_text(x->ndim, x->dim, was, sizeof was);
  SHOAL_CHECK(ndim > 1 && count == before && dim[0] == x->dim[0], SHOAL_ERR_UNSUPPORTED,
              "it makes %s of %s; the first dimension, the batch, must stay",
              shoal_onnx_shape_text(ndim, dim, is, sizeof is), was);
  value next = { .layer = x->layer, .ndim = ndim };
  memcpy(next.dim, dim, (size_t)ndim * sizeof *dim);
  bool flattens = ndim == 2 && is_own_shape(im, x) && !is_own_shape(im, &next);
  if (!flattens) { /* a view, until a layer reads it */
    give(im, n, next.layer, ndim, dim);
    return SHOAL_OK;
  }
  SHOAL_TRY(begin(im, SHOAL_OP_FLATTEN, name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->node.in[0] = x->layer;
  SHOAL_TRY(end(im, &layer));
  give(im, n, layer, ndim, dim);
  return SHOAL_OK;
}

static shoal_status take_flatten(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  int64_t dim[2] = { 1, 1 };
  if (!x) return refuse("its input is a constant");
  int64_t axis = int_of(n, "axis", 1);
  if (axis < 0) axis += x->ndim;
  for (int d = 0; d < x->ndim; d++) dim[d < axis ? 0 : 1] *= x->dim[d];
  return give_shape(im, n, 2, dim);
}

static shoal_status take_reshape(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  int64_t *to, dim[SHOAL_ONNX_DIMS], known = 1, count = 1;
  int ndim, rest = -1;
  if (!x) return refuse("its input is a constant");
  SHOAL_TRY(list_of(im, n, 1, "shape", &to, &ndim));
  for (int d = 0; d < x->ndim; d++) count *= x->dim[d];
  for (int d = 0; d < ndim; d++) {
    dim[d] = to[d] == 0 && d < x->ndim ? x->dim[d] : to[d];
    if (dim[d] == -1)
      rest = d;
    else if (dim[d] < 1 || __builtin_mul_overflow(known, dim[d], &known))
      known = INT64_MAX;
  }
  free(to);
  if (ndim < 0 || known == 0) return refuse("it has no shape");
  if (rest >= 0) dim[rest] = count / known;
  return give_shape(im, n, ndim, dim);
}

/* Squeeze and Unsqueeze. */
static shoal_status take_squeeze(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  bool more = strcmp(n->op, "Unsqueeze") == 0;
  int64_t *axes, dim[2 * SHOAL_ONNX_DIMS];
  int count, ndim = 0;
  unsigned which = 0;
  if (!x) return refuse("its input is a constant");
  SHOAL_TRY(list_of(im, n, 1, "axes", &axes, &count));
  int of = more ? x->ndim + count : x->ndim;
  for (int k = 0; k < count; k++)
    if (axes[k] >= -of && axes[k] < of) which |= 1u << (axes[k] < 0 ? axes[k] + of : axes[k]);
  free(axes);
  if (more && (count < 0 || of > SHOAL_ONNX_DIMS)) return refuse("it has no axes");
  for (int d = 0, e = 0; d < of; d++) {
    bool at = which >> d & 1;
    if (more)
      dim[ndim++] = at ? 1 : e < x->ndim ? x->dim[e++] : 0;
    else if (!(at || (count < 0 && d > 0 && x->dim[d] == 1)))
      dim[ndim++] = x->dim[d];
  }
  return give_shape(im, n, ndim, dim);
}

/* What an input that is known was called in the file, before it was put into another shape. */
static const char *wish_for_constant(const shoal_import *im, int v, char out[128])
{
  for (const shoal_onnx_value *at; (at = &im->g.value[v])->producer >= 0;) {
    const shoal_onnx_node *n = &im->g.node[at->producer];
    if (n->ins < 1 || n->in[0] < 0) break;
    v = n->in[0];
  }
  const char *name = im->g.value[v].name;
  return name_of_tensor(name, ".weight", out, 128) ? out : name;
}

/* Input k, which is known, becomes a layer of learned numbers, one for all samples; as in ONNX its dimensions are the last of
 * a value of `ndim`. */
static shoal_status learn(shoal_import *im, const shoal_onnx_node *n, int k, int ndim)
{
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, k);
  shoal_text_layer *l;
  char wish[128];
  int64_t dim[SHOAL_ONNX_DIMS] = { 0 };
  int layer;
  if (shoal_onnx_is_whole(t->type)) return refuse("its constant is of whole numbers");
  if (t->ndim > ndim) return refuse("its constant has more dimensions than its other input");
  for (int d = 0; d < ndim; d++) dim[d] = d < ndim - t->ndim ? 1 : t->dim[d - (ndim - t->ndim)];
  if (dim[0] != 1) return refuse("its constant is different for each sample of a batch; export it for a batch of 1");
  if (ndim > SHOAL_MAX_DIMS) return refuse("it reads a value of more than 4 dimensions beside the batch");
  dim[0] = im->at[im->g.input].dim[0];
  SHOAL_TRY(begin(im, SHOAL_OP_PARAMETER, wish_for_constant(im, n->in[k], wish), &l));
  l->node.in[0] = SHOAL_NO_INPUT;
  l->facts.shape.ndim = ndim - 1;
  memcpy(l->facts.shape.dim, dim + 1, (size_t)(ndim - 1) * sizeof *dim);
  SHOAL_TRY(end(im, &layer));
  SHOAL_TRY(put_weight(im, layer, "weight", t, false));
  value *v = &im->at[n->in[k]];
  *v = (value){ .layer = layer, .ndim = ndim };
  memcpy(v->dim, dim, sizeof v->dim);
  return SHOAL_OK;
}

/* What is known beside values of layers becomes layers. */
static shoal_status learn_constants(shoal_import *im, const shoal_onnx_node *n)
{
  int ndim = 0;
  for (int k = 0; k < n->ins; k++) ndim = SHOAL_MAX(ndim, value_at(im, n, k) ? value_at(im, n, k)->ndim : 0);
  for (int k = 0; k < n->ins; k++)
    if (!value_at(im, n, k) && shoal_onnx_known(&im->g, n, k)) SHOAL_TRY(learn(im, n, k, ndim));
  return SHOAL_OK;
}

/* A layer of several others, in order. */
static shoal_status take_several(shoal_import *im, const shoal_onnx_node *n, shoal_op_kind kind)
{
  shoal_text_layer *l;
  char wish[128];
  int from[SHOAL_OP_INPUTS], layer;
  SHOAL_CHECK(n->ins <= SHOAL_OP_INPUTS, SHOAL_ERR_UNSUPPORTED, "it has %d inputs; at most %d are read", n->ins,
              SHOAL_OP_INPUTS);
  SHOAL_TRY(learn_constants(im, n));
  for (int k = 0; k < n->ins; k++) SHOAL_TRY(read_layer(im, n, k, &from[k]));
  SHOAL_TRY(begin(im, kind, name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  memcpy(l->node.in, from, (size_t)n->ins * sizeof *from);
  SHOAL_TRY(end(im, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

/* A sum with a constant behind a product is that layer's bias. */
static shoal_status add_bias(shoal_import *im, const shoal_onnx_node *n, int k)
{
  const value *x = value_at(im, n, 1 - k);
  const shoal_onnx_tensor *bias;
  char wish[128], name[SHOAL_NAME_MAX];
  bool alone = im->g.value[n->in[1 - k]].readers == 1;
  shoal_text_layer *l = x && x->layer >= 0 ? &im->text.layers[x->layer] : NULL;
  bool product = l && l->node.kind == SHOAL_OP_LINEAR && !l->facts.bias && alone && is_own_shape(im, x) &&
                 (int64_t)im->g.value[n->in[k]].known->count == l->facts.width;
  if (!product) return take_several(im, n, SHOAL_OP_ADD);
  SHOAL_TRY(known_list(im, n, k, l->facts.width, "bias", &bias));
  l->facts.bias = true;
  if (name_of_tensor(im->g.value[n->in[k]].name, ".bias", wish, sizeof wish)) {
    name_layer(im, SHOAL_OP_LINEAR, wish, name);
    if (strcmp(name, wish) == 0) snprintf(l->node.name, sizeof l->node.name, "%s", name);
  }
  SHOAL_TRY(put_weight(im, x->layer, "bias", bias, false));
  give_same(im, n, x);
  return SHOAL_OK;
}

static shoal_status take_add(shoal_import *im, const shoal_onnx_node *n)
{
  for (int k = 0; k < n->ins && n->ins == 2; k++)
    if (shoal_onnx_known(&im->g, n, k)) return add_bias(im, n, k);
  return take_several(im, n, SHOAL_OP_ADD);
}

static shoal_status take_concat(shoal_import *im, const shoal_onnx_node *n)
{
  int64_t axis = int_of(n, "axis", 1);
  int first = 0;
  while (first + 1 < n->ins && !value_at(im, n, first)) first++;
  const value *x = value_at(im, n, first);
  if (x && axis < 0) axis += x->ndim;
  if (axis != 1) return refuse("only along axis 1, that of channels");
  return take_several(im, n, SHOAL_OP_CONCAT);
}

static shoal_status take_transpose(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(n, "perm");
  const value *x = value_at(im, n, 0);
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  if (!x || !p || !p->list || p->n != (size_t)x->ndim || p->list[0] != 0)
    return refuse("the batch does not stay first");
  SHOAL_TRY(read_layer(im, n, 0, &from));
  SHOAL_TRY(begin(im, SHOAL_OP_TRANSPOSE, name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->facts.order.ndim = (int)p->n - 1;
  for (size_t k = 1; k < p->n; k++) {
    if (p->list[k] < 1 || p->list[k] >= x->ndim) return refuse("its order is none");
    l->facts.order.dim[k - 1] = p->list[k] - 1;
  }
  l->node.in[0] = from;
  SHOAL_TRY(end(im, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

/* One number for all, or for each channel or feature: [c], [c,1,1], [1,c,1,1]. */
static shoal_status scale_list(const shoal_import *im, const shoal_onnx_tensor *t, shoal_host_float **out, size_t *n)
{
  const value *x = &im->at[im->g.input];
  int axis = t->ndim - (x->ndim - 1); /* of the channels in t */
  bool fits =
      t->count == 1 || (t->count == (size_t)x->dim[1] && axis >= 0 && axis < t->ndim && t->dim[axis] == x->dim[1]);
  if (!fits) return refuse("it scales the input by other numbers than one for each channel or feature");
  *n = t->count;
  return shoal_onnx_reals(&im->g, t, out);
}

/* The input minus a constant, or divided by one, or times one: (x - mean) / std. */
static shoal_status take_scale(shoal_import *im, const shoal_onnx_node *n)
{
  const value *x = value_at(im, n, 0);
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, 1);
  bool centre = strcmp(n->op, "Sub") == 0;
  if (!t || !x || x->layer >= 0 || im->text.n > 0 || im->g.value[n->in[0]].readers != 1 || im->divided ||
      (centre && im->centred) || !is_own_shape(im, x))
    return refuse("only inputs are scaled by constants, once, before the first layer");
  shoal_host_float *c;
  size_t count = 0;
  SHOAL_TRY(scale_list(im, t, &c, &count));
  size_t all = SHOAL_MAX(count, SHOAL_MAX(im->scales, 1));
  double *mean = NULL, *std = NULL;
  shoal_status st = SHOAL_ALLOC(all, &mean);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(all, &std);
  for (size_t k = 0; k < all && st == SHOAL_OK; k++) {
    double by = (double)c[count == 1 ? 0 : k];
    mean[k] = centre ? by : im->scales ? im->mean[im->scales == 1 ? 0 : k] : 0;
    std[k] = centre ? 1 : strcmp(n->op, "Div") == 0 ? by : 1 / by;
    if (!isfinite(mean[k]) || !(std[k] > 0) || !isfinite(std[k]))
      st = refuse("it scales the input by what is no scale");
  }
  free(c);
  free(st == SHOAL_OK ? im->mean : mean);
  free(st == SHOAL_OK ? im->std : std);
  if (st != SHOAL_OK) return st;
  im->mean = mean;
  im->std = std;
  im->scales = all;
  im->centred |= centre;
  im->divided |= !centre;
  give_same(im, n, x);
  return SHOAL_OK;
}

/* x times a sigmoid of x that nobody else reads is one layer: silu; a hard sigmoid's, hardswish. */
static bool joins_curve(shoal_import *im, const shoal_onnx_node *n, int k)
{
  const value *x = value_at(im, n, 1 - k), *curve = value_at(im, n, k);
  shoal_text_layer *l = curve->layer >= 0 ? &im->text.layers[curve->layer] : NULL;
  bool fits = l && (l->node.kind == SHOAL_OP_SIGMOID || l->node.kind == SHOAL_OP_HARDSIGMOID) &&
              l->node.in[0] == x->layer && im->g.value[n->in[k]].readers == 1 && curve->ndim == x->ndim;
  if (!fits) return false;
  l->node.kind = l->node.kind == SHOAL_OP_SIGMOID ? SHOAL_OP_SILU : SHOAL_OP_HARDSWISH;
  give_same(im, n, curve);
  return true;
}

static shoal_status take_mul(shoal_import *im, const shoal_onnx_node *n)
{
  for (int k = 0; k < 2; k++) {
    const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, k);
    const value *other = value_at(im, n, 1 - k);
    if (t && (t->count == 1 || !other || other->layer < 0)) return take_scale(im, n);
  }
  SHOAL_TRY(learn_constants(im, n));
  const value *x[2] = { value_at(im, n, 0), value_at(im, n, 1) };
  if (!x[0] || !x[1]) return take_scale(im, n);
  if (joins_curve(im, n, 0) || joins_curve(im, n, 1)) return SHOAL_OK;
  int large = x[0]->ndim == 4 && x[1]->ndim == 4 && x[0]->dim[2] * x[0]->dim[3] < x[1]->dim[2] * x[1]->dim[3] ? 1 : 0;
  const value *scale = x[1 - large];
  shoal_text_layer *l;
  char wish[128];
  int from[2], layer;
  bool pooled =
      scale->ndim == 4 && scale->dim[2] == 1 && scale->dim[3] == 1 && layer_shape(im, scale->layer)->ndim == 1;
  SHOAL_TRY(read_layer(im, n, large, &from[0]));
  from[1] = scale->layer;
  if (!pooled) SHOAL_TRY(read_layer(im, n, 1 - large, &from[1]));
  SHOAL_TRY(begin(im, SHOAL_OP_MUL, name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  memcpy(l->node.in, from, sizeof from);
  SHOAL_TRY(end(im, &layer));
  give_layer(im, n, layer);
  return SHOAL_OK;
}

static const operator operators[] = {
  { "Add", 2, 2, "", take_add },
  { "AveragePool", 1, 1, "kernel_shape strides pads count_include_pad ceil_mode dilations=1 auto_pad=NOTSET",
    take_pool },
  { "BatchNormalization", 5, 5, "epsilon momentum training_mode spatial=1", take_batchnorm },
  { "Cast", 1, 1, "to saturate", take_cast },
  { "Clip", 1, 3, "min max", take_clip },
  { "Concat", 2, SHOAL_OP_INPUTS, "axis", take_concat },
  { "Conv", 2, 3, "kernel_shape strides pads group dilations auto_pad=NOTSET", take_conv },
  { "Div", 2, 2, "", take_scale },
  { "Dropout", 1, 3, "ratio seed", take_dropout },
  { "Flatten", 1, 1, "axis", take_flatten },
  { "Gelu", 1, 1, "approximate", take_gelu },
  { "Gemm", 2, 3, "transB transA=0 alpha=1 beta=1", take_gemm },
  { "GlobalAveragePool", 1, 1, "", take_global_pool },
  { "HardSigmoid", 1, 1, "alpha beta", take_hardsigmoid },
  { "HardSwish", 1, 1, "", take_curve },
  { "Identity", 1, 1, "", take_same },
  { "LayerNormalization", 2, 3, "axis epsilon stash_type=1", take_layernorm },
  { "LeakyRelu", 1, 1, "alpha", take_leakyrelu },
  { "MatMul", 2, 2, "", take_matmul },
  { "MaxPool", 1, 1, "kernel_shape strides pads ceil_mode dilations=1 storage_order=0 auto_pad=NOTSET", take_pool },
  { "Mul", 2, 2, "", take_mul },
  { "Pad", 1, 4, "pads mode=constant value=0", take_pad },
  { "ReduceMean", 1, 2, "axes keepdims noop_with_empty_axes", take_mean },
  { "Relu", 1, 1, "", take_curve },
  { "Reshape", 2, 2, "allowzero", take_reshape },
  { "Sigmoid", 1, 1, "", take_curve },
  { "Squeeze", 1, 2, "axes", take_squeeze },
  { "Sub", 2, 2, "", take_scale },
  { "Sum", 2, SHOAL_OP_INPUTS, "", take_add },
  { "Tanh", 1, 1, "", take_curve },
  { "Transpose", 1, 1, "perm", take_transpose },
  { "Unsqueeze", 1, 2, "axes", take_squeeze },
};

static const operator* find_operator(const shoal_onnx_node *n)
{
  for (size_t k = 0; k < SHOAL_COUNT(operators) && !n->domain[0]; k++)
    if (strcmp(operators[k].op, n->op) == 0) return &operators[k];
  return NULL;
}

/* ---- the table's checks ---- */

static bool has_value(const shoal_onnx_attribute *a, const char *want, size_t n)
{
  double number = strtod(want, NULL);
  bool same = a->n > 0 || a->type != 7;
  if (a->type == 3) return strlen(a->text) == n && memcmp(a->text, want, n) == 0;
  if (a->type == 1) return (double)a->real == number;
  if (a->type == 2) return (double)a->whole == number;
  for (size_t k = 0; k < a->n; k++) same = same && (double)a->list[k] == number;
  return same && a->type == 7;
}

static shoal_status check_attribute(const shoal_onnx_attribute *a, const char *known)
{
  for (const char *at = known; *at;) {
    size_t n = strcspn(at, " "), name = strcspn(at, "= ");
    if (strlen(a->name) == name && memcmp(a->name, at, name) == 0) {
      SHOAL_CHECK(name == n || has_value(a, at + name + 1, n - name - 1), SHOAL_ERR_UNSUPPORTED,
                  "only %.*s is read, and it has another value", (int)n, at);
      return SHOAL_OK;
    }
    at += n + (at[n] == ' ');
  }
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "its attribute %s is none that is read", a->name);
}

static shoal_status check_node(const operator* o, const shoal_onnx_node *n)
{
  SHOAL_CHECK(n->ins >= o->low && n->ins <= o->high, SHOAL_ERR_UNSUPPORTED, "it has %d inputs; %d to %d are read",
              n->ins, o->low, o->high);
  for (int i = 0; i < n->attributes; i++) SHOAL_TRY(check_attribute(&n->attribute[i], o->attributes));
  return SHOAL_OK;
}

/* ---- the graph ---- */

/* Other operators that there are, for a message about the first. */
static shoal_status refuse_operator(const shoal_import *im, int first)
{
  enum { SHOWN = 5 };
  shoal_texts others = { 0 };
  shoal_str list = { 0 };
  shoal_status st = SHOAL_OK;
  for (int i = first + 1; i < im->g.nodes && st == SHOAL_OK; i++) {
    const shoal_onnx_node *n = &im->g.node[i];
    bool news = n->live && !find_operator(n) && !shoal_onnx_folds(n->op) && strcmp(n->op, "Shape") != 0 &&
                strcmp(n->op, im->g.node[first].op) != 0 && others.n < SHOWN && !shoal_texts_have(&others, n->op);
    if (news) st = shoal_texts_add(&others, n->op);
  }
  for (size_t k = 0; k < others.n; k++) shoal_str_add(&list, "%s %s", k ? "," : ", and neither are", others.at[k]);
  const char *domain = im->g.node[first].domain;
  if (st == SHOAL_OK)
    st = SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED,
                    "%s%s%s is no operator that is read here%s; `shoal model import -h` lists them", domain,
                    *domain ? "::" : "", im->g.node[first].op, list.text ? list.text : "");
  shoal_texts_free(&others);
  shoal_str_free(&list);
  return st;
}

/* The shape of a value, as a list of whole numbers: of inputs and of layers it is known, too. */
static shoal_status take_shape(shoal_import *im, const shoal_onnx_node *n, shoal_onnx_tensor *out)
{
  const value *x = value_at(im, n, 0);
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, 0);
  int ndim = x ? x->ndim : t ? t->ndim : 0, first = (int)int_of(n, "start", 0), last = (int)int_of(n, "end", ndim);
  int64_t *list;
  if (!x && !t) return refuse("its input has no shape");
  if (first < 0) first += ndim;
  if (last < 0) last += ndim;
  first = SHOAL_MIN(SHOAL_MAX(first, 0), ndim);
  last = SHOAL_MIN(SHOAL_MAX(last, first), ndim);
  SHOAL_TRY(shoal_onnx_take(&im->g, (size_t)ndim + 1, sizeof *list, &list));
  memcpy(list, (x ? x->dim : t->dim) + first, (size_t)(last - first) * sizeof *list);
  *out = (shoal_onnx_tensor){
    .type = SHOAL_ONNX_I64, .ndim = 1, .dim = { last - first }, .count = (size_t)(last - first), .whole = list
  };
  return SHOAL_OK;
}

static bool all_known(const shoal_import *im, const shoal_onnx_node *n)
{
  for (int k = 0; k < n->ins; k++)
    if (n->in[k] >= 0 && !im->g.value[n->in[k]].known) return false;
  return true;
}

static shoal_status take_node(shoal_import *im, int i)
{
  const shoal_onnx_node *n = &im->g.node[i];
  const operator* o = find_operator(n);
  shoal_onnx_tensor *t;
  bool shape = strcmp(n->op, "Shape") == 0 && !n->domain[0];
  for (int k = 1; k < n->outs; k++)
    if (n->out[k] >= 0 && im->g.value[n->out[k]].readers > 0) return refuse("more than its first output is used");
  if (shape || (all_known(im, n) && shoal_onnx_folds(n->op) && !n->domain[0])) {
    SHOAL_TRY(shoal_onnx_take(&im->g, 1, sizeof *t, &t));
    SHOAL_TRY(shape ? take_shape(im, n, t) : shoal_onnx_fold(&im->g, n, t));
    im->g.value[n->out[0]].known = t;
    return SHOAL_OK;
  }
  if (!o) return refuse_operator(im, i);
  SHOAL_TRY(check_node(o, n));
  return o->take(im, n);
}

/* The logits: what the first output is before a softmax.  Others that are the same, such as probabilities, are no news. */
static int before_softmax(const shoal_import *im, int v)
{
  while (im->g.value[v].producer >= 0) {
    const shoal_onnx_node *n = &im->g.node[im->g.value[v].producer];
    bool passes = strcmp(n->op, "Softmax") == 0 || strcmp(n->op, "LogSoftmax") == 0 || strcmp(n->op, "Identity") == 0;
    if (!passes || n->ins < 1 || n->in[0] < 0 || n->domain[0]) break;
    v = n->in[0];
  }
  return v;
}

static shoal_status find_output(shoal_import *im, int *out)
{
  const shoal_onnx_graph *g = &im->g;
  *out = before_softmax(im, g->output[0]);
  for (int k = 1; k < g->outputs; k++)
    if (before_softmax(im, g->output[k]) != *out)
      SHOAL_TRY(
          shoal_texts_take(&im->notes, shoal_strdup_printf("its output %s is left out; %s is the network's",
                                                           g->value[g->output[k]].name, g->value[g->output[0]].name)));
  return SHOAL_OK;
}

static shoal_status take_input(shoal_import *im)
{
  shoal_onnx_graph *g = &im->g;
  const char *name = g->value[g->input].name;
  char shape[192];
  shoal_shape sample = { .ndim = g->input_ndim - 1 };
  shoal_onnx_shape_text(g->input_ndim, g->input_dim, shape, sizeof shape);
  SHOAL_CHECK(g->input_type == SHOAL_ONNX_F32, SHOAL_ERR_UNSUPPORTED,
              "%s: its input %s is of ONNX's type %d; inputs are f32 here", g->path, name, g->input_type);
  SHOAL_CHECK(g->input_ndim >= 2 && g->input_ndim <= SHOAL_MAX_DIMS, SHOAL_ERR_UNSUPPORTED,
              "%s: its input %s is %s; the batch and one to %d dimensions of a sample are read", g->path, name, shape,
              SHOAL_MAX_DIMS - 1);
  int64_t all = 1;
  for (int d = 0; d < g->input_ndim; d++) {
    if (d == 0 && g->input_dim[d] == 0) g->input_dim[d] = 1; /* any batch */
    SHOAL_CHECK(g->input_dim[d] > 0, SHOAL_ERR_UNSUPPORTED,
                "%s: dimension %d of its input %s is no number; export it for inputs of one shape", g->path, d, name);
    SHOAL_CHECK(!__builtin_mul_overflow(all, g->input_dim[d], &all) && all < INT32_MAX, SHOAL_ERR_UNSUPPORTED,
                "%s: its input %s is %s", g->path, name, shape);
    if (d > 0) sample.dim[d - 1] = g->input_dim[d];
  }
  value *v = &im->at[g->input];
  *v = (value){ .layer = -1, .ndim = g->input_ndim };
  memcpy(v->dim, g->input_dim, sizeof v->dim);
  im->text.input = sample;
  return shoal_model_create("imported", &sample, 1, &im->shapes);
}

static shoal_status take_nodes(shoal_import *im)
{
  const shoal_onnx_graph *g = &im->g;
  for (int i = 0; i < g->nodes; i++) {
    const shoal_onnx_node *n = &g->node[i];
    if (!n->live) continue;
    shoal_status st = take_node(im, i);
    if (st == SHOAL_ERR_ARG) st = shoal_error_as(st, SHOAL_ERR_UNSUPPORTED);
    if (st != SHOAL_OK) return shoal_error_prefix(st, "%s: node %s (%s): ", g->path, n->name, n->op);
  }
  return SHOAL_OK;
}

static shoal_status finish(shoal_import *im, int output)
{
  const value *v = &im->at[output];
  char is[192];
  im->text.yaml.origin = im->g.path;
  SHOAL_CHECK(v->ndim > 0 && im->text.n > 0, SHOAL_ERR_UNSUPPORTED, "%s: its output does not depend on its input",
              im->g.path);
  SHOAL_CHECK(v->ndim == 2 && is_own_shape(im, v) && v->layer == im->text.n - 1, SHOAL_ERR_UNSUPPORTED,
              "%s: its output %s is %s; only outputs [N,classes] of the last layer are trained here", im->g.path,
              im->g.value[output].name, shoal_onnx_shape_text(v->ndim, v->dim, is, sizeof is));
  im->text.classes = v->dim[1];
  for (size_t k = 0; k < im->n; k++)
    snprintf(im->weights[k].name, sizeof im->weights[k].name, "%s.%s", im->text.layers[im->weights[k].layer].node.name,
             im->weights[k].suffix);
  SHOAL_TRY(shoal_text_build(&im->text, &im->model));
  if (im->n_folded > 0)
    SHOAL_TRY(shoal_texts_take(
        &im->notes,
        shoal_strdup_printf(
            "batch norm is folded into %d convolution%s (%s%s), which train without it; to keep it export with "
            "training=torch.onnx.TrainingMode.TRAINING and do_constant_folding=False, or with dynamo=True and "
            "optimize=False",
            im->n_folded, im->n_folded == 1 ? "" : "s", im->folded.text, im->n_folded > 3 ? ", …" : "")));
  return SHOAL_OK;
}

static shoal_status import(shoal_import *im, const char *path)
{
  int output;
  SHOAL_TRY(shoal_onnx_open(path, &im->g));
  SHOAL_TRY(SHOAL_ALLOC((size_t)im->g.values, &im->at));
  SHOAL_TRY(find_output(im, &output));
  SHOAL_TRY(shoal_onnx_match(&im->g, output));
  SHOAL_TRY(take_input(im));
  SHOAL_TRY(take_nodes(im));
  return finish(im, output);
}

shoal_status shoal_import_open(const char *path, shoal_import **out)
{
  shoal_import *im;
  SHOAL_TRY(SHOAL_ALLOC(1, &im));
  shoal_status st = import(im, path);
  if (st == SHOAL_OK)
    *out = im;
  else
    shoal_import_close(im);
  return st;
}

void shoal_import_close(shoal_import *im)
{
  if (!im) return;
  shoal_onnx_free(&im->g);
  shoal_text_free(&im->text);
  shoal_model_destroy(im->shapes);
  shoal_model_destroy(im->model);
  shoal_texts_free(&im->notes);
  shoal_str_free(&im->folded);
  free(im->at);
  free(im->weights);
  free(im->mean);
  free(im->std);
  free(im);
}

const shoal_model *shoal_import_model(const shoal_import *im)
{
  return im->model;
}

void shoal_import_scale(const shoal_import *im, shoal_foreign *f)
{
  f->scales = im->scales;
  f->mean = im->mean;
  f->std = im->std;
}

const shoal_texts *shoal_import_notes(const shoal_import *im)
{
  return &im->notes;
}

shoal_status shoal_import_tensor(void *import, const char *name, size_t n, shoal_host_float *out)
{
  const shoal_import *im = import;
  const weight *w = NULL;
  shoal_host_float *x;
  for (size_t k = 0; k < im->n && !w; k++)
    if (strcmp(im->weights[k].name, name) == 0) w = &im->weights[k];
  SHOAL_CHECK(w && (!w->t || w->t->count == n), SHOAL_ERR_INTERNAL, "%s: no tensor %s of %zu numbers", im->g.path, name,
              n);
  memset(out, 0, n * sizeof *out);
  if (!w->t) return SHOAL_OK;
  SHOAL_TRY(shoal_onnx_reals(&im->g, w->t, &x));
  const size_t rows = w->turned ? (size_t)w->t->dim[1] : 1, cols = n / rows;
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) out[r * cols + c] = x[c * rows + r];
  free(x);
  return SHOAL_OK;
}
