/* Operators of several inputs, and what becomes of those that are constants: a bias, learned numbers, the scale of the input. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What an input that is known was called in the file, if it is a name that was given: exporters make "onnx::Add_208". */
static const char *wish_for_constant(const shoal_import *im, int v, char out[128])
{
  const char *name = shoal_import_origin(im, v);
  if (strstr(name, "::")) return "";
  return shoal_import_name_of_tensor(name, ".weight", out, 128) ? out : name;
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
  if (shoal_onnx_is_whole(t->type)) return shoal_import_refuse("its constant is of whole numbers");
  if (t->ndim > ndim) return shoal_import_refuse("its constant has more dimensions than its other input");
  for (int d = 0; d < ndim; d++) dim[d] = d < ndim - t->ndim ? 1 : t->dim[d - (ndim - t->ndim)];
  if (dim[0] != 1)
    return shoal_import_refuse("its constant is different for each sample of a batch; export it for a batch of 1");
  if (ndim > SHOAL_MAX_DIMS) return shoal_import_refuse("it reads a value of more than 4 dimensions beside the batch");
  dim[0] = shoal_import_batch(im);
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_PARAMETER, wish_for_constant(im, n->in[k], wish), &l));
  l->node.in[0] = SHOAL_NO_INPUT;
  l->facts.shape.ndim = ndim - 1;
  memcpy(l->facts.shape.dim, dim + 1, (size_t)(ndim - 1) * sizeof *dim);
  SHOAL_TRY(shoal_import_end(im, &layer));
  SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", t, false));
  im->at[n->in[k]] = shoal_import_dense(layer, ndim, dim);
  return SHOAL_OK;
}

/* What is known beside values of layers becomes layers. */
static shoal_status learn_constants(shoal_import *im, const shoal_onnx_node *n)
{
  int ndim = 0;
  for (int k = 0; k < n->ins; k++)
    ndim = SHOAL_MAX(ndim, shoal_import_at(im, n, k) ? shoal_import_at(im, n, k)->ndim : 0);
  for (int k = 0; k < n->ins; k++)
    if (!shoal_import_at(im, n, k) && shoal_onnx_known(&im->g, n, k)) SHOAL_TRY(learn(im, n, k, ndim));
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
  for (int k = 0; k < n->ins; k++) SHOAL_TRY(shoal_import_read(im, n, k, &from[k]));
  SHOAL_TRY(shoal_import_begin(im, kind, shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  memcpy(l->node.in, from, (size_t)n->ins * sizeof *from);
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}

/* A sum with a constant behind a product is that layer's bias. */
static shoal_status add_bias(shoal_import *im, const shoal_onnx_node *n, int k)
{
  const shoal_import_value *x = shoal_import_at(im, n, 1 - k);
  const shoal_onnx_tensor *bias;
  char wish[128], name[SHOAL_NAME_MAX];
  bool alone = im->g.value[n->in[1 - k]].readers == 1;
  shoal_text_layer *l = x && x->layer >= 0 ? &im->text.layers[x->layer] : NULL;
  const shoal_onnx_tensor *t = im->g.value[n->in[k]].known;
  bool product = l && l->node.kind == SHOAL_OP_LINEAR && !l->facts.bias && alone && shoal_import_is_whole(im, x) &&
                 x->dim[x->ndim - 1] == l->facts.width && (int64_t)t->count == l->facts.width && t->ndim > 0 &&
                 t->dim[t->ndim - 1] == l->facts.width;
  if (!product) return take_several(im, n, SHOAL_OP_ADD);
  SHOAL_TRY(shoal_import_known_list(im, n, k, l->facts.width, "bias", &bias));
  l->facts.bias = true;
  if (shoal_import_name_of_tensor(im->g.value[n->in[k]].name, ".bias", wish, sizeof wish)) {
    shoal_import_name_layer(im, SHOAL_OP_LINEAR, wish, name);
    if (strcmp(name, wish) == 0) snprintf(l->node.name, sizeof l->node.name, "%s", name);
  }
  SHOAL_TRY(shoal_import_put_weight(im, x->layer, "bias", bias, false));
  shoal_import_give_same(im, n, x);
  return SHOAL_OK;
}

SHOAL_TAKE(add)
{
  for (int k = 0; k < n->ins && n->ins == 2; k++) {
    const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, k);
    const shoal_import_value *x = shoal_import_at(im, n, 1 - k);
    if (t && x && x->scores) return shoal_import_mask(im, n, x, t);
    if (t) return add_bias(im, n, k);
  }
  return take_several(im, n, SHOAL_OP_ADD);
}

SHOAL_TAKE(concat)
{
  int64_t axis = shoal_import_int(n, "axis", 1);
  int first = 0;
  while (first + 1 < n->ins && !shoal_import_at(im, n, first)) first++;
  const shoal_import_value *x = shoal_import_at(im, n, first);
  if (x && axis < 0) axis += x->ndim;
  if (axis != 1) return shoal_import_refuse("only along axis 1, that of channels");
  return take_several(im, n, SHOAL_OP_CONCAT);
}

/* One number for all, or for each channel or feature: [c], [c,1,1], [1,c,1,1]; of channels last [c]. */
static shoal_status scale_list(const shoal_import *im, const shoal_onnx_tensor *t, shoal_host_float **out, size_t *n)
{
  const shoal_import_value *x = &im->at[im->g.input];
  const int64_t channels = x->dim[im->channels];
  int axis = t->ndim - (x->ndim - im->channels); /* of the channels in t */
  bool fits =
      t->count == 1 || (t->count == (size_t)channels && axis >= 0 && axis < t->ndim && t->dim[axis] == channels);
  if (!fits) return shoal_import_refuse("it scales the input by other numbers than one for each channel or feature");
  *n = t->count;
  return shoal_onnx_reals(&im->g, t, out);
}

static bool same_view(const shoal_import_value *a, const shoal_import_value *b)
{
  const size_t n = (size_t)a->ndim * sizeof *a->dim;
  return a->ndim == b->ndim && a->first == b->first && a->scale == b->scale && !a->scores && !b->scores &&
         memcmp(a->dim, b->dim, n) == 0 && memcmp(a->step, b->step, n) == 0;
}

/* The input minus a constant, or divided by one, or times one: (x - mean) / std. */
SHOAL_TAKE(scale)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, 1);
  double by;
  if (x && x->layer >= 0 && strcmp(n->op, "Div") == 0 && shoal_onnx_scalar(&im->g, t, &by))
    return shoal_import_scale_by(im, n, x, 1 / by);
  bool centre = strcmp(n->op, "Sub") == 0;
  if (!t || !x || x->layer >= 0 || im->text.n > 0 || im->g.value[n->in[0]].readers != 1 || im->divided ||
      (centre && im->centred) || !same_view(x, &im->at[im->g.input]))
    return shoal_import_refuse("only inputs are scaled by constants, once, before the first layer");
  shoal_host_float *c;
  size_t count = 0;
  SHOAL_TRY(scale_list(im, t, &c, &count));
  size_t all = SHOAL_MAX(count, SHOAL_MAX(im->scales, 1));
  double *mean = NULL, *std = NULL;
  shoal_status st = SHOAL_ALLOC(all, &mean);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(all, &std);
  for (size_t k = 0; k < all && st == SHOAL_OK; k++) {
    double number = (double)c[count == 1 ? 0 : k];
    mean[k] = centre ? number : im->scales ? im->mean[im->scales == 1 ? 0 : k] : 0;
    std[k] = centre ? 1 : strcmp(n->op, "Div") == 0 ? number : 1 / number;
    if (!isfinite(mean[k]) || !(std[k] > 0) || !isfinite(std[k]))
      st = shoal_import_refuse("it scales the input by what is no scale");
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
  shoal_import_give_same(im, n, x);
  return SHOAL_OK;
}

static int64_t count_of(const shoal_import_value *v)
{
  int64_t n = 1;
  for (int d = 0; d < v->ndim; d++) n *= v->dim[d];
  return n;
}

/* x times a sigmoid of x that nobody else reads is one layer: silu; a hard sigmoid's, hardswish. */
static bool joins_curve(shoal_import *im, const shoal_onnx_node *n, int k)
{
  const shoal_import_value *x = shoal_import_at(im, n, 1 - k), *curve = shoal_import_at(im, n, k);
  shoal_text_layer *l = curve->layer >= 0 ? &im->text.layers[curve->layer] : NULL;
  bool fits = l && (l->node.kind == SHOAL_OP_SIGMOID || l->node.kind == SHOAL_OP_HARDSIGMOID) &&
              l->node.in[0] == x->layer && im->g.value[n->in[k]].readers == 1 && same_view(curve, x);
  if (!fits) return false;
  l->node.kind = l->node.kind == SHOAL_OP_SIGMOID ? SHOAL_OP_SILU : SHOAL_OP_HARDSWISH;
  shoal_import_give_same(im, n, curve);
  return true;
}

SHOAL_TAKE(mul)
{
  for (int k = 0; k < 2; k++) {
    const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, k);
    const shoal_import_value *other = shoal_import_at(im, n, 1 - k);
    double by;
    if (other && other->layer >= 0 && shoal_onnx_scalar(&im->g, t, &by)) return shoal_import_scale_by(im, n, other, by);
    if (t && (t->count == 1 || !other || other->layer < 0)) return shoal_take_scale(im, n);
  }
  SHOAL_TRY(learn_constants(im, n));
  const shoal_import_value *x[2] = { shoal_import_at(im, n, 0), shoal_import_at(im, n, 1) };
  if (!x[0] || !x[1]) return shoal_take_scale(im, n);
  if (joins_curve(im, n, 0) || joins_curve(im, n, 1)) return SHOAL_OK;
  const int large = count_of(x[0]) < count_of(x[1]) ? 1 : 0;
  const shoal_import_value *scale = x[1 - large];
  shoal_text_layer *l;
  char wish[128];
  int from[2], layer;
  const bool pooled = x[large]->ndim == 4 && scale->ndim == 4 && scale->dim[2] == 1 && scale->dim[3] == 1 &&
                      shoal_import_shape(im, scale->layer)->ndim == 1 && shoal_import_is_whole(im, scale);
  SHOAL_TRY(shoal_import_read(im, n, large, &from[0]));
  from[1] = scale->layer;
  if (!pooled) SHOAL_TRY(shoal_import_read(im, n, 1 - large, &from[1]));
  SHOAL_TRY(
      shoal_import_begin(im, SHOAL_OP_MUL, shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  memcpy(l->node.in, from, sizeof from);
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}
