/* Operators that only put elements into another shape or order, or take a part of them: views of a layer (onnx_import.h), and
 * the layers that make one of a view. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <stdlib.h>
#include <string.h>

/* ---- layers of views ---- */

/* A dimension of a view that has more than one element, and is not the batch. */
typedef struct {
  int64_t size, step;
  int at; /* its number in the view */
} span;

/* Those of a view by falling steps, as they lie in the layer's output; returns how many. */
static int axes_of(const shoal_import_value *v, span out[SHOAL_ONNX_DIMS])
{
  int n = 0;
  for (int d = 1; d < v->ndim; d++) {
    if (v->dim[d] == 1) continue;
    int k = n++;
    for (; k > 0 && out[k - 1].step < v->step[d]; k--) out[k] = out[k - 1];
    out[k] = (span){ v->dim[d], v->step[d], d };
  }
  return n;
}

/* A layer that does for a view what this node did, or NULL. */
static shoal_status add(shoal_import *im, shoal_op_kind kind, const shoal_onnx_node *like, int from,
                        shoal_text_layer **out)
{
  char wish[128];
  bool named = like && shoal_import_name_of_node(like->name, wish, sizeof wish);
  SHOAL_TRY(shoal_import_begin(im, kind, named ? wish : "", out));
  (*out)->node.in[0] = from;
  return SHOAL_OK;
}

static bool has_shape(const shoal_import *im, int layer, int ndim, const int64_t *dim)
{
  const shoal_shape *s = shoal_import_shape(im, layer);
  return s->ndim == ndim && memcmp(s->dim, dim, (size_t)ndim * sizeof *dim) == 0;
}

/* Each of these three puts a layer behind *layer where it is needed. */
static shoal_status reshape_to(shoal_import *im, const shoal_onnx_node *like, int ndim, const int64_t *dim, int *layer)
{
  shoal_text_layer *l;
  if (has_shape(im, *layer, ndim, dim)) return SHOAL_OK;
  if (ndim >= SHOAL_MAX_DIMS) return shoal_import_refuse("it reads a value of more than 4 dimensions beside the batch");
  SHOAL_TRY(add(im, ndim == 1 ? SHOAL_OP_FLATTEN : SHOAL_OP_RESHAPE, like, *layer, &l));
  l->facts.shape.ndim = ndim == 1 ? 0 : ndim;
  memcpy(l->facts.shape.dim, dim, (size_t)l->facts.shape.ndim * sizeof *dim);
  return shoal_import_end(im, layer);
}

static shoal_status turn(shoal_import *im, const shoal_onnx_node *like, int ndim, const int64_t *order, int *layer)
{
  shoal_text_layer *l;
  bool turns = false;
  for (int d = 0; d < ndim; d++) turns |= order[d] != d;
  if (!turns) return SHOAL_OK;
  SHOAL_TRY(add(im, SHOAL_OP_TRANSPOSE, like, *layer, &l));
  l->facts.order.ndim = ndim;
  memcpy(l->facts.order.dim, order, (size_t)ndim * sizeof *order);
  return shoal_import_end(im, layer);
}

static shoal_status cut(shoal_import *im, const shoal_onnx_node *like, int64_t first, int64_t count, int *layer)
{
  shoal_text_layer *l;
  SHOAL_TRY(add(im, SHOAL_OP_SLICE, like, *layer, &l));
  l->facts.first = first;
  l->facts.width = count;
  return shoal_import_end(im, layer);
}

/* Whether sizes of axes are the layer's dimensions, those of one element aside. */
static bool fit(const shoal_import *im, int layer, int n, const int64_t *size)
{
  const shoal_shape *s = shoal_import_shape(im, layer);
  int k = 0;
  for (int d = 0; d < s->ndim; d++)
    if (s->dim[d] > 1 && (k == n || size[k++] != s->dim[d])) return false;
  return k == n;
}

/* A view that leaves elements out, in one place: all of them are put into a shape whose dimension g has those that stay in a row,
 * either some places along the axis there, or of what lies around the axes from g on a single one. */
static shoal_status leave_out(shoal_import *im, shoal_import_value *v, span *a, int n)
{
  const int64_t all = shoal_shape_count(shoal_import_shape(im, v->layer));
  int g = -1;
  for (int k = 0; k <= n; k++) {
    if ((k == 0 ? all : a[k - 1].step) == (k == n ? 1 : a[k].step * a[k].size)) continue;
    if (g >= 0) return shoal_import_refuse("it reads a part of a value along more than one dimension");
    g = k;
  }
  if (g < 0) return SHOAL_OK;
  int64_t size[SHOAL_ONNX_DIMS + 1], order[SHOAL_ONNX_DIMS + 1], count = g < n ? a[g].size : 1;
  const int64_t outer = g == 0 ? all : a[g - 1].step, range = g < n ? a[g].step * a[g].size : 1;
  const int64_t row = all / shoal_import_shape(im, v->layer)->dim[0];
  if (g == 0 && v->first % row == 0 && range % row == 0) { /* a range of the layer's own first dimension */
    SHOAL_TRY(cut(im, v->cut, v->first / row, range / row, &v->layer));
    v->first = 0;
    return SHOAL_OK;
  }
  int64_t unit = g < n ? a[g].step : 1;
  int dims = g < n ? n : n + 1;
  for (int k = 0; k < dims; k++) size[k] = k == g ? outer / unit : a[k].size;
  if (g < n && outer % range == 0 && v->first % range == 0 && !fit(im, v->layer, dims, size)) {
    unit = range;
    count = 1;
    dims = n + 1;
    for (int k = 0; k < dims; k++) size[k] = k < g ? a[k].size : k == g ? outer / unit : a[k - 1].size;
  }
  if (outer % unit != 0 || v->first % unit != 0 || v->first / unit + count > outer / unit || dims >= SHOAL_MAX_DIMS)
    return shoal_import_refuse("it reads a part of a value that is no range along a dimension");
  SHOAL_TRY(reshape_to(im, v->shaped, dims, size, &v->layer));
  order[0] = g;
  for (int k = 1; k < dims; k++) order[k] = k <= g ? k - 1 : k;
  SHOAL_TRY(turn(im, v->turned, dims, order, &v->layer));
  SHOAL_TRY(cut(im, v->cut, v->first / unit, count, &v->layer));
  v->first = 0;
  int64_t step = 1; /* the axis in question is first now, the others are behind it in order */
  for (int k = n - 1; k >= 0; k--) {
    if (k == g && count > 1) continue;
    v->step[a[k].at] = step;
    step *= a[k].size;
  }
  if (g < n && count > 1) v->step[a[g].at] = step;
  return SHOAL_OK;
}

shoal_status shoal_import_settle(shoal_import *im, shoal_import_value *v)
{
  char text[192];
  span a[SHOAL_ONNX_DIMS];
  int64_t size[SHOAL_ONNX_DIMS], order[SHOAL_ONNX_DIMS];
  const int64_t batch = shoal_import_batch(im);
  SHOAL_TRY(shoal_import_plain(v));
  if (shoal_import_own_shape(im, v)) return SHOAL_OK;
  SHOAL_CHECK(v->ndim > 1 && v->dim[0] == batch &&
                  (batch == 1 || v->step[0] == shoal_shape_count(shoal_import_shape(im, v->layer))),
              SHOAL_ERR_UNSUPPORTED,
              "it reads %s, made of a value whose batch is %lld; the first dimension, the batch, must stay",
              shoal_onnx_shape_text(v->ndim, v->dim, text, sizeof text), (long long)batch);
  SHOAL_TRY(leave_out(im, v, a, axes_of(v, a)));
  const int n = axes_of(v, a);
  bool turned = false;
  for (int k = 0; k < n; k++) {
    size[k] = a[k].size;
    turned |= k > 0 && a[k].at < a[k - 1].at;
  }
  if (turned) {
    if (!fit(im, v->layer, n, size)) SHOAL_TRY(reshape_to(im, v->shaped, n, size, &v->layer));
    const shoal_shape s = *shoal_import_shape(im, v->layer);
    int from[SHOAL_MAX_DIMS], dims = 0, single = 0; /* from: the layer's dimension of each axis */
    for (int d = 0, k = 0; d < s.ndim; d++)
      if (s.dim[d] > 1) from[k++] = d;
    for (int d = 1; d < v->ndim && dims < s.ndim; d++) {
      int k = 0;
      while (k < n && a[k].at != d) k++;
      while (k == n && single < s.ndim && s.dim[single] > 1) single++;
      if (k < n)
        order[dims++] = from[k];
      else if (single < s.ndim)
        order[dims++] = single++;
    }
    for (; dims < s.ndim; single++)
      if (s.dim[single] == 1) order[dims++] = single;
    SHOAL_TRY(turn(im, v->turned, dims, order, &v->layer));
  }
  SHOAL_TRY(reshape_to(im, v->shaped, v->ndim - 1, v->dim + 1, &v->layer));
  *v = shoal_import_dense(v->layer, v->ndim, v->dim);
  return SHOAL_OK;
}

/* ---- shapes ---- */

/* Dimensions are taken in groups of as many elements before and behind; those of a group before must lie side by side. */
bool shoal_import_reshape(const shoal_import_value *v, int ndim, const int64_t *dim, shoal_import_value *out)
{
  int64_t size[SHOAL_ONNX_DIMS], step[SHOAL_ONNX_DIMS];
  shoal_import_value r = *v;
  int n = 0;
  for (int d = 0; d < v->ndim; d++)
    if (v->dim[d] > 1) {
      size[n] = v->dim[d];
      step[n++] = v->step[d];
    }
  r.ndim = ndim;
  memcpy(r.dim, dim, (size_t)ndim * sizeof *dim);
  for (int d = 0; d < ndim; d++) r.step[d] = 0;
  for (int i = 0, k = 0, j, l; i < n && k < ndim; i = j, k = l) {
    int64_t before = size[i], behind = dim[k];
    for (j = i + 1, l = k + 1; before != behind;) {
      if (before < behind ? j == n : l == ndim) return false;
      if (before < behind)
        before *= size[j++];
      else
        behind *= dim[l++];
    }
    for (int d = i; d + 1 < j; d++)
      if (step[d] != size[d + 1] * step[d + 1]) return false;
    r.step[l - 1] = step[j - 1];
    for (int d = l - 1; d > k; d--) r.step[d - 1] = r.step[d] * dim[d];
  }
  *out = r;
  return true;
}

/* Scores of attention may have other dimensions before the two that count. */
static bool keeps_places(const shoal_import_value *x, int ndim, const int64_t *dim)
{
  return ndim >= 2 && x->ndim >= 2 && dim[ndim - 1] == x->dim[x->ndim - 1] && dim[ndim - 2] == x->dim[x->ndim - 2];
}

/* The same elements in another shape. */
static shoal_status give_shape(shoal_import *im, const shoal_onnx_node *n, int ndim, const int64_t *dim)
{
  shoal_import_value *x = shoal_import_at(im, n, 0), view;
  char is[192], was[192];
  int64_t count = 1, before = 1;
  int layer;
  for (int d = 0; d < x->ndim; d++) before *= x->dim[d];
  for (int d = 0; d < ndim; d++)
    if (dim[d] < 1 || __builtin_mul_overflow(count, dim[d], &count)) count = INT64_MAX;
  shoal_onnx_shape_text(x->ndim, x->dim, was, sizeof was);
  SHOAL_CHECK(ndim > 0 && count == before, SHOAL_ERR_UNSUPPORTED,
              "it makes %s of %s, which has another number of elements",
              shoal_onnx_shape_text(ndim, dim, is, sizeof is), was);
  if (x->scores && !keeps_places(x, ndim, dim)) return shoal_import_plain(x);
  if (!shoal_import_reshape(x, ndim, dim, &view)) {
    SHOAL_TRY(shoal_import_read(im, n, 0, &layer));
    if (!shoal_import_reshape(x, ndim, dim, &view)) return shoal_import_refuse("its shape is none");
  }
  view.shaped = n;
  shoal_import_give_same(im, n, &view);
  return SHOAL_OK;
}

SHOAL_TAKE(flatten)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  int64_t dim[2] = { 1, 1 };
  if (!x) return shoal_import_refuse("its input is a constant");
  int64_t axis = shoal_import_int(n, "axis", 1);
  if (axis < 0) axis += x->ndim;
  for (int d = 0; d < x->ndim; d++) dim[d < axis ? 0 : 1] *= x->dim[d];
  return give_shape(im, n, 2, dim);
}

SHOAL_TAKE(reshape)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  int64_t *to, dim[SHOAL_ONNX_DIMS], known = 1, count = 1;
  int ndim, rest = -1;
  if (!x) return shoal_import_refuse("its input is a constant");
  SHOAL_TRY(shoal_import_list(im, n, 1, "shape", &to, &ndim));
  for (int d = 0; d < x->ndim; d++) count *= x->dim[d];
  for (int d = 0; d < ndim; d++) {
    dim[d] = to[d] == 0 && d < x->ndim ? x->dim[d] : to[d];
    if (dim[d] == -1)
      rest = d;
    else if (dim[d] < 1 || __builtin_mul_overflow(known, dim[d], &known))
      known = INT64_MAX;
  }
  free(to);
  if (ndim < 0 || known == 0) return shoal_import_refuse("it has no shape");
  if (rest >= 0) dim[rest] = count / known;
  return give_shape(im, n, ndim, dim);
}

/* Squeeze and Unsqueeze. */
SHOAL_TAKE(squeeze)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  bool more = strcmp(n->op, "Unsqueeze") == 0;
  int64_t *axes, dim[2 * SHOAL_ONNX_DIMS];
  int count, ndim = 0;
  unsigned which = 0;
  if (!x) return shoal_import_refuse("its input is a constant");
  SHOAL_TRY(shoal_import_list(im, n, 1, "axes", &axes, &count));
  int of = more ? x->ndim + count : x->ndim;
  for (int k = 0; k < count; k++)
    if (axes[k] >= -of && axes[k] < of) which |= 1u << (axes[k] < 0 ? axes[k] + of : axes[k]);
  free(axes);
  if (more && (count < 0 || of > SHOAL_ONNX_DIMS)) return shoal_import_refuse("it has no axes");
  for (int d = 0, e = 0; d < of; d++) {
    bool at = which >> d & 1;
    if (more)
      dim[ndim++] = at ? 1 : e < x->ndim ? x->dim[e++] : 0;
    else if (!(at || (count < 0 && d > 0 && x->dim[d] == 1)))
      dim[ndim++] = x->dim[d];
  }
  return give_shape(im, n, ndim, dim);
}

/* ---- order and parts ---- */

SHOAL_TAKE(transpose)
{
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(n, "perm");
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  unsigned seen = 0;
  if (!x) return shoal_import_refuse("its input is a constant");
  if (p && (!p->list || p->n != (size_t)x->ndim)) return shoal_import_refuse("its order is none");
  if (x->scores) return shoal_import_plain(x);
  shoal_import_value view = *x;
  for (int d = 0; d < x->ndim; d++) {
    int64_t from = p ? p->list[d] : x->ndim - 1 - d;
    if (from < 0 || from >= x->ndim || (seen >> from & 1)) return shoal_import_refuse("its order is none");
    seen |= 1u << from;
    view.dim[d] = x->dim[from];
    view.step[d] = x->step[from];
  }
  view.turned = n;
  shoal_import_give_same(im, n, &view);
  return SHOAL_OK;
}

/* Of dimension d those from `first` on. */
static shoal_status part_of(shoal_import_value *v, int d, int64_t first, int64_t count)
{
  char text[192];
  if (v->scores) return shoal_import_plain(v);
  SHOAL_CHECK(first >= 0 && count >= 1 && first < v->dim[d] && count <= v->dim[d] - first, SHOAL_ERR_UNSUPPORTED,
              "it takes %lld from %lld on along dimension %d of %s", (long long)count, (long long)first, d,
              shoal_onnx_shape_text(v->ndim, v->dim, text, sizeof text));
  v->first += first * v->step[d];
  v->dim[d] = count;
  return SHOAL_OK;
}

static int64_t within(int64_t at, int64_t size)
{
  if (at < 0) at += size;
  return SHOAL_MIN(SHOAL_MAX(at, 0), size);
}

SHOAL_TAKE(slice)
{
  static const char *const names[] = { "starts", "ends", "axes", "steps" };
  int64_t *list[4] = { 0 };
  int count[4];
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  shoal_status st = x ? SHOAL_OK : shoal_import_refuse("its input is a constant");
  for (int k = 0; k < 4 && st == SHOAL_OK; k++) st = shoal_import_list(im, n, k + 1, names[k], &list[k], &count[k]);
  if (st == SHOAL_OK && (count[0] < 0 || count[1] != count[0] || (count[2] >= 0 && count[2] != count[0]) ||
                         (count[3] >= 0 && count[3] != count[0])))
    st = shoal_import_refuse("its ranges are none");
  shoal_import_value view = x ? *x : (shoal_import_value){ 0 };
  view.cut = n;
  for (int k = 0; st == SHOAL_OK && k < count[0]; k++) {
    int64_t d = list[2] ? list[2][k] : k;
    if (d < 0) d += view.ndim;
    if (d < 0 || d >= view.ndim) st = shoal_import_refuse("its axis is none");
    if (st == SHOAL_OK && list[3] && list[3][k] != 1) st = shoal_import_refuse("only steps of 1 are read");
    if (st != SHOAL_OK) break;
    int64_t first = within(list[0][k], view.dim[d]), end = within(list[1][k], view.dim[d]);
    st = part_of(&view, (int)d, first, end - first);
  }
  for (int k = 0; k < 4; k++) free(list[k]);
  if (st == SHOAL_OK) shoal_import_give_same(im, n, &view);
  return st;
}

SHOAL_TAKE(split)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  int64_t *sizes, d = shoal_import_int(n, "axis", 0), first = 0;
  int count;
  if (!x) return shoal_import_refuse("its input is a constant");
  if (d < 0) d += x->ndim;
  if (d < 0 || d >= x->ndim) return shoal_import_refuse("its axis is none");
  SHOAL_TRY(shoal_import_list(im, n, 1, "split", &sizes, &count));
  shoal_status st =
      count >= 0 && count != n->outs ? shoal_import_refuse("it has another number of parts than of sizes") : SHOAL_OK;
  const shoal_import_value whole = *x;
  const int64_t even = (whole.dim[d] + n->outs - 1) / n->outs;
  for (int k = 0; k < n->outs && st == SHOAL_OK; k++) {
    shoal_import_value view = whole;
    view.cut = n;
    int64_t part = sizes ? sizes[k] : SHOAL_MIN(even, whole.dim[d] - first);
    st = part_of(&view, (int)d, first, part);
    first += part;
    if (st == SHOAL_OK && n->out[k] >= 0) im->at[n->out[k]] = view;
  }
  free(sizes);
  return st;
}

/* Rows of a table that the input numbers: an embedding. */
static shoal_status embed(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_import_value *x = shoal_import_at(im, n, 1);
  const shoal_onnx_tensor *t;
  shoal_text_layer *l;
  char wish[128];
  int layer;
  if (!x || x->layer >= 0 || !shoal_import_own_shape(im, x))
    return shoal_import_refuse("only the network's input numbers rows of a table");
  SHOAL_TRY(shoal_import_known_weight(im, n, 0, 2, &t));
  if (!shoal_import_name_of_tensor(im->g.value[n->in[0]].name, ".weight", wish, sizeof wish) &&
      !shoal_import_name_of_node(n->name, wish, sizeof wish))
    wish[0] = 0;
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_EMBEDDING, wish, &l));
  l->facts.rows = t->dim[0];
  l->facts.width = t->dim[1];
  SHOAL_TRY(shoal_import_end(im, &layer));
  SHOAL_TRY(shoal_import_put_weight(im, layer, "weight", t, false));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}

/* One place along a dimension, or rows of a table. */
SHOAL_TAKE(gather)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  const shoal_onnx_tensor *at = shoal_onnx_known(&im->g, n, 1);
  int64_t d = shoal_import_int(n, "axis", 0), *place;
  if (!x && d == 0) return embed(im, n);
  if (!x || !at || at->count != 1 || at->ndim > 1 || !shoal_onnx_is_whole(at->type))
    return shoal_import_refuse("only one place along a dimension is read, or rows of a table that the input numbers");
  if (d < 0) d += x->ndim;
  if (d < 0 || d >= x->ndim) return shoal_import_refuse("its axis is none");
  SHOAL_TRY(shoal_onnx_whole(&im->g, at, &place));
  const int64_t first = place[0] < 0 ? place[0] + x->dim[d] : place[0];
  free(place);
  shoal_import_value view = *x;
  view.cut = n;
  SHOAL_TRY(part_of(&view, (int)d, first, 1));
  if (at->ndim == 0) {
    view.ndim--;
    for (int64_t k = d; k < view.ndim; k++) {
      view.dim[k] = view.dim[k + 1];
      view.step[k] = view.step[k + 1];
    }
  }
  shoal_import_give_same(im, n, &view);
  return SHOAL_OK;
}
