/* Values, names and layers of a network that is read from ONNX (onnx_import.h), and attributes of nodes. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <stdlib.h>
#include <string.h>

shoal_import_value *shoal_import_at(const shoal_import *im, const shoal_onnx_node *n, int k)
{
  int v = shoal_onnx_in(n, k);
  return v >= 0 && im->at[v].ndim > 0 ? &im->at[v] : NULL;
}

shoal_status shoal_import_refuse(const char *why)
{
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "%s", why);
}

const shoal_shape *shoal_import_shape(const shoal_import *im, int layer)
{
  return layer < 0 ? &im->shapes->input : &im->shapes->node[layer].out;
}

int64_t shoal_import_batch(const shoal_import *im)
{
  return im->at[im->g.input].dim[0];
}

bool shoal_import_is_whole(const shoal_import *im, const shoal_import_value *v)
{
  int64_t step = 1;
  bool dense = v->first == 0 && v->scale == 1 && !v->scores;
  for (int d = v->ndim - 1; d >= 0; step *= v->dim[d--]) dense = dense && (v->dim[d] == 1 || v->step[d] == step);
  return dense && step == shoal_import_batch(im) * shoal_shape_count(shoal_import_shape(im, v->layer));
}

bool shoal_import_own_shape(const shoal_import *im, const shoal_import_value *v)
{
  const shoal_shape *s = shoal_import_shape(im, v->layer);
  if (v->ndim != s->ndim + 1) return false;
  for (int d = 0; d < s->ndim; d++)
    if (v->dim[d + 1] != s->dim[d]) return false;
  return shoal_import_is_whole(im, v);
}

shoal_status shoal_import_plain(const shoal_import_value *v)
{
  if (v->scores) return shoal_import_refuse("its input are scores of attention, of which only a softmax is taken");
  if (v->scale != 1)
    return shoal_import_refuse("its input is a layer's output times a constant, which only attention reads");
  return SHOAL_OK;
}

shoal_import_value shoal_import_dense(int layer, int ndim, const int64_t *dim)
{
  shoal_import_value v = { .layer = layer, .ndim = ndim, .scale = 1 };
  memcpy(v.dim, dim, (size_t)ndim * sizeof *dim);
  for (int64_t d = ndim - 1, step = 1; d >= 0; step *= dim[d--]) v.step[d] = step;
  return v;
}

void shoal_import_give(shoal_import *im, const shoal_onnx_node *n, int layer, int ndim, const int64_t *dim)
{
  im->at[n->out[0]] = shoal_import_dense(layer, ndim, dim);
}

void shoal_import_give_layer(shoal_import *im, const shoal_onnx_node *n, int layer)
{
  const shoal_shape *s = shoal_import_shape(im, layer);
  int64_t dim[SHOAL_ONNX_DIMS] = { shoal_import_batch(im) };
  memcpy(dim + 1, s->dim, (size_t)s->ndim * sizeof *dim);
  shoal_import_give(im, n, layer, s->ndim + 1, dim);
}

void shoal_import_give_same(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *v)
{
  im->at[n->out[0]] = *v;
  memset(im->at[n->out[0]].pad, 0, sizeof v->pad);
}

/* ---- names ---- */

/* "conv1" of "conv1.weight". */
bool shoal_import_name_of_tensor(const char *name, const char *ending, char *out, size_t cap)
{
  size_t n = strlen(name), m = strlen(ending);
  if (n <= m || strcmp(name + n - m, ending) != 0 || strchr(name, '/') || strchr(name, ':') || n - m >= cap)
    return false;
  snprintf(out, cap, "%.*s", (int)(n - m), name);
  return true;
}

/* "layer1.0.conv1" of "/layer1/layer1.0/conv1/Conv": folders of a node's name are modules of PyTorch. */
bool shoal_import_name_of_node(const char *name, char *out, size_t cap)
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
void shoal_import_name_layer(const shoal_import *im, shoal_op_kind kind, const char *wish, char out[SHOAL_NAME_MAX])
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
shoal_status shoal_import_begin(shoal_import *im, shoal_op_kind kind, const char *wish, shoal_text_layer **out)
{
  char name[SHOAL_NAME_MAX];
  SHOAL_CHECK(im->text.n < SHOAL_TEXT_LAYERS, SHOAL_ERR_UNSUPPORTED, "more than %d layers", SHOAL_TEXT_LAYERS);
  shoal_import_name_layer(im, kind, wish, name);
  SHOAL_TRY(shoal_text_add_layer(&im->text, out));
  shoal_text_layer *l = *out;
  l->node = shoal_node_make(kind, name, -1);
  l->facts.bias = false;
  return SHOAL_OK;
}

/* Infers the layer's shape, which refuses what does not fit, and counts who reads what. */
shoal_status shoal_import_end(shoal_import *im, int *layer)
{
  shoal_text_layer *l = &im->text.layers[im->text.n - 1];
  shoal_node n = shoal_text_node(l, 0);
  SHOAL_TRY(shoal_model_add(im->shapes, &n, SHOAL_INIT_ZERO, layer));
  for (int k = 0; k < shoal_node_inputs(&l->node); k++)
    if (l->node.in[k] >= 0) im->text.layers[l->node.in[k]].readers++;
  return SHOAL_OK;
}

shoal_status shoal_import_read(shoal_import *im, const shoal_onnx_node *n, int k, int *layer)
{
  shoal_import_value *v = shoal_import_at(im, n, k);
  if (!v) return shoal_import_refuse("one of its inputs is a constant where the output of a layer should be");
  SHOAL_TRY(shoal_import_settle(im, v));
  *layer = v->layer;
  return SHOAL_OK;
}

shoal_status shoal_import_put_weight(shoal_import *im, int layer, const char *suffix, const shoal_onnx_tensor *t,
                                     bool turned)
{
  if (im->n == im->cap) {
    size_t cap = im->cap ? 2 * im->cap : 64;
    shoal_import_weight *more = realloc(im->weights, cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "%zu tensors", cap);
    im->weights = more;
    im->cap = cap;
  }
  im->weights[im->n++] = (shoal_import_weight){ .layer = layer, .suffix = suffix, .t = t, .turned = turned };
  return SHOAL_OK;
}

/* Input k, which must be known: [width], or any shape with width elements. */
shoal_status shoal_import_known_list(const shoal_import *im, const shoal_onnx_node *n, int k, int64_t width,
                                     const char *what, const shoal_onnx_tensor **out)
{
  char shape[192];
  *out = shoal_onnx_known(&im->g, n, k);
  SHOAL_CHECK(*out && !shoal_onnx_is_whole((*out)->type), SHOAL_ERR_UNSUPPORTED, "its %s is not a constant of reals",
              what);
  SHOAL_CHECK((*out)->count == (size_t)width, SHOAL_ERR_UNSUPPORTED, "its %s is %s, and should have %lld numbers", what,
              shoal_onnx_shape_text((*out)->ndim, (*out)->dim, shape, sizeof shape), (long long)width);
  return SHOAL_OK;
}

shoal_status shoal_import_known_weight(const shoal_import *im, const shoal_onnx_node *n, int k, int ndim,
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

const char *shoal_import_origin(const shoal_import *im, int v)
{
  for (const shoal_onnx_value *at; (at = &im->g.value[v])->producer >= 0;) {
    const shoal_onnx_node *n = &im->g.node[at->producer];
    if (n->ins < 1 || n->in[0] < 0) break;
    v = n->in[0];
  }
  return im->g.value[v].name;
}

const char *shoal_import_wish(const shoal_import *im, const shoal_onnx_node *n, char out[128])
{
  for (int k = 1; k < n->ins && k <= 2; k++) {
    int v = n->in[k];
    if (v < 0 || !im->g.value[v].known) continue;
    const char *ending = k == 1 ? ".weight" : ".bias";
    if (shoal_import_name_of_tensor(shoal_import_origin(im, v), ending, out, 128) && is_free(im, out)) return out;
  }
  return shoal_import_name_of_node(n->name, out, 128) ? out : "";
}

/* ---- attributes ---- */

int64_t shoal_import_int(const shoal_onnx_node *n, const char *name, int64_t otherwise)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, name);
  return a ? a->whole : otherwise;
}

double shoal_import_real(const shoal_onnx_node *n, const char *name, double otherwise)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, name);
  return a ? (double)a->real : otherwise;
}

/* A list of whole numbers in input k or, in older files, in an attribute; the caller frees.  *n < 0: there is none. */
shoal_status shoal_import_list(const shoal_import *im, const shoal_onnx_node *node, int k, const char *name,
                               int64_t **out, int *n)
{
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, node, k);
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(node, name);
  *out = NULL;
  *n = -1;
  if (shoal_onnx_in(node, k) >= 0 && !t) return shoal_import_refuse("its shape depends on the input");
  if (t && (t->count > SHOAL_ONNX_DIMS || !shoal_onnx_is_whole(t->type)))
    return shoal_import_refuse("its shape is none");
  if (t) {
    *n = (int)t->count;
    return shoal_onnx_whole(&im->g, t, out);
  }
  if (!a || !a->list) return SHOAL_OK;
  if (a->n > SHOAL_ONNX_DIMS) return shoal_import_refuse("its shape is none");
  SHOAL_TRY(SHOAL_ALLOC(a->n + 1, out));
  memcpy(*out, a->list, a->n * sizeof **out);
  *n = (int)a->n;
  return SHOAL_OK;
}
