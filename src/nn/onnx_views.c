/* Operators that only put elements into another shape or order: a view of a layer, until a layer reads it. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <stdlib.h>
#include <string.h>

/* The same elements in another shape: a view of the layer's output, or a layer that flattens it. */
static shoal_status give_shape(shoal_import *im, const shoal_onnx_node *n, int ndim, const int64_t *dim)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
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
  shoal_import_value next = { .layer = x->layer, .ndim = ndim };
  memcpy(next.dim, dim, (size_t)ndim * sizeof *dim);
  bool flattens = ndim == 2 && shoal_import_own_shape(im, x) && !shoal_import_own_shape(im, &next);
  if (!flattens) { /* a view, until a layer reads it */
    shoal_import_give(im, n, next.layer, ndim, dim);
    return SHOAL_OK;
  }
  SHOAL_TRY(
      shoal_import_begin(im, SHOAL_OP_FLATTEN, shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->node.in[0] = x->layer;
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give(im, n, layer, ndim, dim);
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

SHOAL_TAKE(transpose)
{
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(n, "perm");
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  shoal_text_layer *l;
  char wish[128];
  int from, layer;
  if (!x || !p || !p->list || p->n != (size_t)x->ndim || p->list[0] != 0)
    return shoal_import_refuse("the batch does not stay first");
  SHOAL_TRY(shoal_import_read(im, n, 0, &from));
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_TRANSPOSE,
                               shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->facts.order.ndim = (int)p->n - 1;
  for (size_t k = 1; k < p->n; k++) {
    if (p->list[k] < 1 || p->list[k] >= x->ndim) return shoal_import_refuse("its order is none");
    l->facts.order.dim[k - 1] = p->list[k] - 1;
  }
  l->node.in[0] = from;
  SHOAL_TRY(shoal_import_end(im, &layer));
  shoal_import_give_layer(im, n, layer);
  return SHOAL_OK;
}
