/* What is known without an input is computed here: the arithmetic of shapes that exporters write down, and weights that are
 * turned or put together.  Tensors of whole numbers and truth values are computed in 64 bits, others in f32.
 *
 * Sizes in a file are claims: what comes out is taken from the graph's memory, which has a limit for all of it. */
#include "base/error.h"
#include "base/limit.h"
#include "base/mem.h"
#include "nn/onnx_graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor with its elements in memory. */
typedef struct {
  const shoal_onnx_tensor *t;
  shoal_host_float *x; /* owned; or */
  int64_t *i;          /* owned */
} operand;

typedef struct {
  shoal_onnx_graph *g;
  const shoal_onnx_node *n;
  operand *in; /* [n->ins]; t NULL: left out */
  shoal_onnx_tensor *out;
  shoal_host_float *x; /* elements of out, in the graph's memory; or */
  int64_t *i;
} job;

static shoal_status wrong(const job *j, const char *what)
{
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "its inputs are known, but %s", what);
}

static shoal_status make(job *j, int type, int ndim, const int64_t *dim)
{
  shoal_onnx_tensor *t = j->out;
  *t = (shoal_onnx_tensor){ .type = type, .ndim = ndim, .count = 1 };
  for (int d = 0; d < ndim; d++) {
    t->dim[d] = dim[d];
    if (dim[d] < 0 || __builtin_mul_overflow(t->count, (size_t)dim[d], &t->count) || t->count > SIZE_MAX / 16)
      return wrong(j, "the shape that comes out is none");
  }
  bool whole = shoal_onnx_is_whole(type);
  SHOAL_TRY(whole ? shoal_onnx_take(j->g, t->count + 1, sizeof *j->i, &j->i)
                  : shoal_onnx_take(j->g, t->count + 1, sizeof *j->x, &j->x));
  t->whole = whole ? j->i : NULL;
  t->reals = whole ? NULL : j->x;
  if (!whole) t->type = SHOAL_ONNX_F32;
  return SHOAL_OK;
}

static void copy_element(job *j, size_t to, const operand *from, size_t at)
{
  if (j->i)
    j->i[to] = from->i[at];
  else
    j->x[to] = from->x[at];
}

static int64_t attribute(const job *j, const char *name, int64_t otherwise)
{
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(j->n, name);
  return a ? a->whole : otherwise;
}

static const operand *given(const job *j, int k)
{
  return k < j->n->ins && j->in[k].t ? &j->in[k] : NULL;
}

/* A list of whole numbers: input k, or in older files an attribute.  *n < 0: there is none. */
static const int64_t *list_of(const job *j, int k, const char *name, int *n)
{
  const operand *o = given(j, k);
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(j->n, name);
  *n = -1;
  if (o && o->i && o->t->count <= SHOAL_ONNX_DIMS) {
    *n = (int)o->t->count;
    return o->i;
  }
  if (!o && a && a->n <= SHOAL_ONNX_DIMS) {
    *n = (int)a->n;
    return a->list;
  }
  return NULL;
}

/* Whether *axis, counted from the end if it is negative, is one of n. */
static bool settle(int64_t *axis, int n)
{
  if (*axis < 0) *axis += n;
  return *axis >= 0 && *axis < n;
}

/* ---- element by element ---- */

/* The place in `t` of the element that is at `at` of a tensor of this shape, where t is repeated along what it lacks. */
static size_t place_in(const shoal_onnx_tensor *t, const shoal_onnx_tensor *out, size_t at)
{
  size_t place = 0, stride = 1;
  for (int d = out->ndim - 1; d >= 0; d--) {
    size_t k = at % (size_t)out->dim[d];
    int e = d - (out->ndim - t->ndim);
    at /= (size_t)out->dim[d];
    if (e < 0) continue;
    if (t->dim[e] != 1) place += k * stride;
    stride *= (size_t)t->dim[e];
  }
  return place;
}

/* The shape that tensors of the first n inputs have together. */
static shoal_status broadcast(const job *j, int n, int *ndim, int64_t dim[SHOAL_ONNX_DIMS])
{
  *ndim = 0;
  for (int k = 0; k < n; k++) *ndim = SHOAL_MAX(*ndim, j->in[k].t->ndim);
  for (int d = 0; d < *ndim; d++) {
    dim[d] = 1;
    for (int k = 0; k < n; k++) {
      int e = d - (*ndim - j->in[k].t->ndim);
      int64_t is = e < 0 ? 1 : j->in[k].t->dim[e];
      if (is != 1 && dim[d] != 1 && is != dim[d]) return wrong(j, "their shapes do not fit");
      if (is != 1) dim[d] = is;
    }
  }
  return SHOAL_OK;
}

static bool add(const char *op, int64_t a, int64_t b, int64_t *out)
{
  *out = 0;
  switch (op[0]) {
  case 'A':
    if (op[1] == 'n') *out = a && b;
    return op[1] == 'n' || !__builtin_add_overflow(a, b, out);
  case 'S':
    return !__builtin_sub_overflow(a, b, out);
  case 'M':
    if (op[1] == 'u') return !__builtin_mul_overflow(a, b, out);
    if (op[1] == 'o') { /* with the sign of b */
      if (b == 0 || b == -1) return b != 0;
      *out = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
      return true;
    }
    *out = op[1] == 'i' ? SHOAL_MIN(a, b) : SHOAL_MAX(a, b);
    return true;
  case 'D':
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *out = a / b;
    return true;
  case 'E':
    *out = a == b;
    return true;
  case 'G':
    *out = a > b;
    return true;
  case 'L':
    *out = a < b;
    return true;
  default:
    return false;
  }
}

/* Whether Equal, Greater or Less hold. */
static bool holds(const char *op, double a, double b)
{
  return op[0] == 'E' ? a == b : op[0] == 'G' ? a > b : a < b;
}

static bool add_real(const char *op, double a, double b, double *out)
{
  switch (op[0]) {
  case 'A':
    *out = a + b;
    return op[1] == 'd';
  case 'S':
    *out = a - b;
    return true;
  case 'M':
    *out = op[1] == 'u' ? a * b : op[1] == 'i' ? fmin(a, b) : fmax(a, b);
    return op[1] != 'o';
  case 'D':
    *out = a / b;
    return true;
  case 'P':
    *out = pow(a, b);
    return true;
  default:
    return false;
  }
}

/* Add, Sub, Mul, Div, Mod, Min, Max, Pow; Equal, Greater, Less; And of truth values. */
static shoal_status two(job *j)
{
  const char *op = j->n->op;
  int ndim;
  int64_t dim[SHOAL_ONNX_DIMS];
  if (j->n->ins != 2 || !given(j, 0) || !given(j, 1)) return wrong(j, "it needs two");
  const operand *a = &j->in[0], *b = &j->in[1];
  if (!a->i != !b->i) return wrong(j, "one of them is real and the other is not");
  SHOAL_TRY(broadcast(j, 2, &ndim, dim));
  bool truth = strchr("EGL", op[0]) != NULL || strcmp(op, "And") == 0;
  if (op[0] == 'A' && op[1] == 'n' && !a->i) return wrong(j, "they are no truth values");
  SHOAL_TRY(make(j, truth ? SHOAL_ONNX_BOOL : a->t->type, ndim, dim));
  for (size_t k = 0; k < j->out->count; k++) {
    size_t p = place_in(a->t, j->out, k), q = place_in(b->t, j->out, k);
    double real = 0;
    if (truth && !a->i) {
      j->i[k] = holds(op, (double)a->x[p], (double)b->x[q]);
      continue;
    }
    bool good = j->i ? add(op, a->i[p], b->i[q], &j->i[k]) : add_real(op, (double)a->x[p], (double)b->x[q], &real);
    if (!j->i) j->x[k] = (float)real;
    if (!good) return wrong(j, "what comes out is no number");
  }
  return SHOAL_OK;
}

static shoal_status where(job *j)
{
  int ndim;
  int64_t dim[SHOAL_ONNX_DIMS];
  if (j->n->ins != 3 || !given(j, 0) || !given(j, 1) || !given(j, 2) || !j->in[0].i || !j->in[1].i != !j->in[2].i)
    return wrong(j, "it needs a condition and two of one kind");
  SHOAL_TRY(broadcast(j, 3, &ndim, dim));
  SHOAL_TRY(make(j, j->in[1].t->type, ndim, dim));
  for (size_t k = 0; k < j->out->count; k++) {
    const operand *from = j->in[0].i[place_in(j->in[0].t, j->out, k)] ? &j->in[1] : &j->in[2];
    copy_element(j, k, from, place_in(from->t, j->out, k));
  }
  return SHOAL_OK;
}

/* Sqrt, Neg, Reciprocal, Floor, Ceil, Not, Identity. */
static shoal_status one(job *j)
{
  const char *op = j->n->op;
  const operand *a = given(j, 0);
  if (!a) return wrong(j, "it needs one");
  SHOAL_TRY(make(j, a->t->type, a->t->ndim, a->t->dim));
  for (size_t k = 0; k < j->out->count; k++) {
    if (j->i) {
      j->i[k] = strcmp(op, "Not") == 0 ? !a->i[k] : strcmp(op, "Neg") == 0 ? (int64_t)(0 - (uint64_t)a->i[k]) : a->i[k];
      continue;
    }
    double x = (double)a->x[k];
    if (strcmp(op, "Sqrt") == 0) x = sqrt(x);
    if (strcmp(op, "Neg") == 0) x = -x;
    if (strcmp(op, "Reciprocal") == 0) x = 1 / x;
    if (strcmp(op, "Floor") == 0) x = floor(x);
    if (strcmp(op, "Ceil") == 0) x = ceil(x);
    j->x[k] = (float)x;
  }
  return SHOAL_OK;
}

/* What is above a diagonal, or below it, becomes 0. */
static shoal_status trilu(job *j)
{
  const operand *a = given(j, 0), *at = given(j, 1);
  if (!a || a->t->ndim < 2 || (at && (!at->i || at->t->count != 1))) return wrong(j, "it needs a matrix");
  const bool upper = attribute(j, "upper", 1) != 0;
  const int64_t rows = a->t->dim[a->t->ndim - 2], cols = a->t->dim[a->t->ndim - 1], diagonal = at ? at->i[0] : 0;
  if (diagonal > INT32_MAX || diagonal < INT32_MIN) return wrong(j, "its diagonal is none");
  SHOAL_TRY(make(j, a->t->type, a->t->ndim, a->t->dim));
  for (size_t k = 0; k < j->out->count; k++) {
    int64_t place = (int64_t)k % cols - (int64_t)k / cols % rows - diagonal;
    if (upper ? place >= 0 : place <= 0) copy_element(j, k, a, k);
  }
  return SHOAL_OK;
}

static shoal_status cast(job *j)
{
  const operand *a = given(j, 0);
  int64_t to = attribute(j, "to", 0);
  if (!a) return wrong(j, "it needs one");
  bool whole = shoal_onnx_is_whole((int)to);
  if (!whole && to != SHOAL_ONNX_F32 && to != SHOAL_ONNX_F64 && to != SHOAL_ONNX_F16 && to != SHOAL_ONNX_BF16)
    return wrong(j, "the type is unknown");
  SHOAL_TRY(make(j, (int)to, a->t->ndim, a->t->dim));
  for (size_t k = 0; k < j->out->count; k++) {
    if (!whole) {
      j->x[k] = a->i ? (float)a->i[k] : a->x[k];
      continue;
    }
    double x = a->i ? 0 : (double)a->x[k];
    if (!(fabs(x) < 9e18)) return wrong(j, "what comes out is no whole number");
    j->i[k] = a->i ? a->i[k] : (int64_t)x;
    if (to == SHOAL_ONNX_BOOL) j->i[k] = a->i ? a->i[k] != 0 : x != 0;
  }
  return SHOAL_OK;
}

/* ---- shapes ---- */

/* The same elements in another shape: Reshape, Unsqueeze, Squeeze, Flatten. */
static shoal_status same_elements(job *j, int ndim, const int64_t *dim)
{
  const operand *a = &j->in[0];
  SHOAL_TRY(make(j, a->t->type, ndim, dim));
  if (j->out->count != a->t->count) return wrong(j, "their elements do not fit the shape that comes out");
  for (size_t k = 0; k < j->out->count; k++) copy_element(j, k, a, k);
  return SHOAL_OK;
}

static shoal_status reshape(job *j)
{
  int n, free_at = -1;
  int64_t dim[SHOAL_ONNX_DIMS], count = 1;
  const int64_t *to = list_of(j, 1, "shape", &n);
  if (!given(j, 0) || n < 0) return wrong(j, "it needs a shape");
  for (int d = 0; d < n; d++) {
    dim[d] = to[d] == 0 && d < j->in[0].t->ndim ? j->in[0].t->dim[d] : to[d];
    if (dim[d] == -1) free_at = d;
    if (dim[d] < -1 || (dim[d] > 0 && __builtin_mul_overflow(count, dim[d], &count)))
      return wrong(j, "the shape is none");
  }
  if (free_at >= 0) dim[free_at] = (int64_t)j->in[0].t->count / count;
  return same_elements(j, n, dim);
}

static shoal_status unsqueeze(job *j)
{
  int n;
  int64_t dim[2 * SHOAL_ONNX_DIMS] = { 0 };
  const int64_t *axes = list_of(j, 1, "axes", &n);
  const operand *a = given(j, 0);
  if (!a || n < 0 || a->t->ndim + n > SHOAL_ONNX_DIMS) return wrong(j, "it needs axes");
  int ndim = a->t->ndim + n;
  for (int k = 0; k < n; k++) {
    int64_t axis = axes[k];
    if (!settle(&axis, ndim) || dim[axis]) return wrong(j, "an axis is none");
    dim[axis] = 1;
  }
  for (int d = 0, e = 0; d < ndim; d++)
    if (!dim[d]) dim[d] = a->t->dim[e++];
  return same_elements(j, ndim, dim);
}

static shoal_status squeeze(job *j)
{
  int n, ndim = 0;
  int64_t dim[SHOAL_ONNX_DIMS];
  const int64_t *axes = list_of(j, 1, "axes", &n);
  const operand *a = given(j, 0);
  if (!a) return wrong(j, "it needs one");
  for (int d = 0; d < a->t->ndim; d++) {
    bool away = n < 0 && a->t->dim[d] == 1;
    for (int k = 0; k < n; k++) {
      int64_t axis = axes[k];
      if (!settle(&axis, a->t->ndim)) return wrong(j, "an axis is none");
      away |= axis == d;
    }
    if (!away) dim[ndim++] = a->t->dim[d];
  }
  return same_elements(j, ndim, dim);
}

static shoal_status constant_of_shape(job *j)
{
  const operand *a = given(j, 0);
  const shoal_onnx_attribute *v = shoal_onnx_attribute_of(j->n, "value");
  shoal_host_float *x = NULL;
  int64_t *i = NULL;
  if (!a || !a->i || a->t->count > SHOAL_ONNX_DIMS) return wrong(j, "it needs a shape");
  if (v && (!v->tensor || v->tensor->count != 1)) return wrong(j, "its value is no number");
  SHOAL_TRY(make(j, v ? v->tensor->type : SHOAL_ONNX_F32, (int)a->t->count, a->i));
  if (!v) return SHOAL_OK; /* zeros */
  SHOAL_TRY(j->i ? shoal_onnx_whole(j->g, v->tensor, &i) : shoal_onnx_reals(j->g, v->tensor, &x));
  for (size_t k = 0; k < j->out->count; k++)
    if (j->i)
      j->i[k] = i[0];
    else
      j->x[k] = x[0];
  free(x);
  free(i);
  return SHOAL_OK;
}

static shoal_status constant(job *j)
{
  const shoal_onnx_attribute *v = j->n->attributes == 1 ? &j->n->attribute[0] : NULL;
  if (v && v->tensor && strcmp(v->name, "value") == 0) {
    *j->out = *v->tensor;
    return SHOAL_OK;
  }
  if (v && strcmp(v->name, "value_int") == 0) {
    SHOAL_TRY(make(j, SHOAL_ONNX_I64, 0, NULL));
    j->i[0] = v->whole;
    return SHOAL_OK;
  }
  if (v && strcmp(v->name, "value_float") == 0) {
    SHOAL_TRY(make(j, SHOAL_ONNX_F32, 0, NULL));
    j->x[0] = v->real;
    return SHOAL_OK;
  }
  if (!v || strcmp(v->name, "value_ints") != 0 || !v->list) return wrong(j, "its value is of a kind that is not read");
  SHOAL_TRY(make(j, SHOAL_ONNX_I64, 1, (int64_t[]){ (int64_t)v->n }));
  memcpy(j->i, v->list, v->n * sizeof *j->i);
  return SHOAL_OK;
}

static shoal_status expand(job *j)
{
  int n, ndim;
  int64_t dim[SHOAL_ONNX_DIMS];
  const int64_t *to = list_of(j, 1, "", &n);
  const operand *a = given(j, 0);
  if (!a || n < 0) return wrong(j, "it needs a shape");
  ndim = SHOAL_MAX(n, a->t->ndim);
  for (int d = 0; d < ndim; d++) {
    int e = d - (ndim - a->t->ndim), f = d - (ndim - n);
    int64_t is = e < 0 ? 1 : a->t->dim[e], want = f < 0 ? 1 : to[f];
    if (is != 1 && want != 1 && is != want) return wrong(j, "the shape does not fit");
    dim[d] = is == 1 ? want : is;
  }
  SHOAL_TRY(make(j, a->t->type, ndim, dim));
  for (size_t k = 0; k < j->out->count; k++) copy_element(j, k, a, place_in(a->t, j->out, k));
  return SHOAL_OK;
}

static shoal_status transpose(job *j)
{
  const operand *a = given(j, 0);
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(j->n, "perm");
  int64_t dim[SHOAL_ONNX_DIMS];
  size_t stride[SHOAL_ONNX_DIMS + 1], step[SHOAL_ONNX_DIMS];
  unsigned seen = 0;
  if (!a || (p && p->n != (size_t)a->t->ndim)) return wrong(j, "its order is none");
  stride[a->t->ndim] = 1;
  for (int d = a->t->ndim - 1; d >= 0; d--) stride[d] = stride[d + 1] * (size_t)a->t->dim[d];
  for (int d = 0; d < a->t->ndim; d++) {
    int64_t from = p ? p->list[d] : a->t->ndim - 1 - d;
    if (from < 0 || from >= a->t->ndim || seen >> from & 1) return wrong(j, "its order is none");
    seen |= 1u << from;
    dim[d] = a->t->dim[from];
    step[d] = stride[from + 1];
  }
  SHOAL_TRY(make(j, a->t->type, a->t->ndim, dim));
  for (size_t k = 0; k < j->out->count; k++) {
    size_t rest = k, at = 0;
    for (int d = j->out->ndim - 1; d >= 0; d--) {
      at += rest % (size_t)dim[d] * step[d];
      rest /= (size_t)dim[d];
    }
    copy_element(j, k, a, at);
  }
  return SHOAL_OK;
}

/* Elements before and behind an axis. */
static void around(const shoal_onnx_tensor *t, int64_t axis, size_t *before, size_t *behind)
{
  *before = *behind = 1;
  for (int d = 0; d < t->ndim; d++) {
    if (d < axis) *before *= (size_t)t->dim[d];
    if (d > axis) *behind *= (size_t)t->dim[d];
  }
}

static shoal_status concat(job *j)
{
  int64_t axis = attribute(j, "axis", 0), dim[SHOAL_ONNX_DIMS];
  size_t before, behind, at = 0;
  for (int k = 0; k < j->n->ins; k++)
    if (!given(j, k) || !j->in[k].i != !j->in[0].i || j->in[k].t->ndim != j->in[0].t->ndim)
      return wrong(j, "they are of several kinds");
  if (j->n->ins == 0 || !settle(&axis, j->in[0].t->ndim)) return wrong(j, "its axis is none");
  memcpy(dim, j->in[0].t->dim, sizeof dim);
  for (int k = 1; k < j->n->ins; k++)
    for (int d = 0; d < j->in[0].t->ndim; d++) {
      const int64_t is = j->in[k].t->dim[d];
      if (d != axis && is != dim[d]) return wrong(j, "their shapes do not fit");
      if (d == axis && __builtin_add_overflow(dim[d], is, &dim[d])) return wrong(j, "they are too long");
    }
  SHOAL_TRY(make(j, j->in[0].t->type, j->in[0].t->ndim, dim));
  around(j->out, axis, &before, &behind);
  for (size_t b = 0; b < before; b++)
    for (int k = 0; k < j->n->ins; k++) {
      size_t n = (size_t)j->in[k].t->dim[axis] * behind;
      for (size_t e = 0; e < n; e++) copy_element(j, at++, &j->in[k], b * n + e);
    }
  return SHOAL_OK;
}

static shoal_status gather(job *j)
{
  const operand *a = given(j, 0), *at = given(j, 1);
  int64_t axis = attribute(j, "axis", 0), dim[2 * SHOAL_ONNX_DIMS];
  size_t before, behind;
  int ndim = 0;
  if (!a || !at || !at->i || !settle(&axis, a->t->ndim) || a->t->ndim + at->t->ndim - 1 > SHOAL_ONNX_DIMS)
    return wrong(j, "its axis is none");
  for (int d = 0; d < axis; d++) dim[ndim++] = a->t->dim[d];
  for (int d = 0; d < at->t->ndim; d++) dim[ndim++] = at->t->dim[d];
  for (int d = (int)axis + 1; d < a->t->ndim; d++) dim[ndim++] = a->t->dim[d];
  SHOAL_TRY(make(j, a->t->type, ndim, dim));
  around(a->t, axis, &before, &behind);
  for (size_t b = 0, to = 0; b < before; b++)
    for (size_t k = 0; k < at->t->count; k++) {
      int64_t index = at->i[k];
      if (!settle(&index, (int)SHOAL_MIN(a->t->dim[axis], INT32_MAX))) return wrong(j, "an index is beyond the end");
      for (size_t e = 0; e < behind; e++)
        copy_element(j, to++, a, (b * (size_t)a->t->dim[axis] + (size_t)index) * behind + e);
    }
  return SHOAL_OK;
}

/* Along one axis. */
static shoal_status slice(job *j)
{
  int n[4];
  static const char *const names[] = { "starts", "ends", "axes", "steps" };
  const int64_t *list[4];
  const operand *a = given(j, 0);
  int64_t dim[SHOAL_ONNX_DIMS];
  size_t before, behind, to = 0;
  for (int k = 0; k < 4; k++) list[k] = list_of(j, k + 1, names[k], &n[k]);
  if (!a || n[0] != 1 || n[1] != 1 || (n[2] >= 0 && n[2] != 1) || (n[3] >= 0 && (n[3] != 1 || list[3][0] < 1)))
    return wrong(j, "it is cut along more than one axis, or backwards");
  int64_t axis = n[2] == 1 ? list[2][0] : 0, start = list[0][0], end = list[1][0], step = n[3] == 1 ? list[3][0] : 1;
  if (!settle(&axis, a->t->ndim)) return wrong(j, "its axis is none");
  int64_t length = a->t->dim[axis];
  if (start < 0) start = SHOAL_MAX(start + length, 0);
  if (end < 0) end = SHOAL_MAX(end + length, 0);
  end = SHOAL_MIN(end, length);
  memcpy(dim, a->t->dim, sizeof dim);
  dim[axis] = start < end ? (end - start - 1) / step + 1 : 0;
  SHOAL_TRY(make(j, a->t->type, a->t->ndim, dim));
  around(a->t, axis, &before, &behind);
  for (size_t b = 0; b < before; b++)
    for (int64_t k = 0; k < dim[axis]; k++)
      for (size_t e = 0; e < behind; e++)
        copy_element(j, to++, a, (b * (size_t)length + (size_t)(start + k * step)) * behind + e);
  return SHOAL_OK;
}

static shoal_status range(job *j)
{
  enum { MOST = 1 << 24 };
  if (j->n->ins != 3 || !given(j, 0) || !given(j, 1) || !given(j, 2) || !j->in[0].i || !j->in[1].i || !j->in[2].i ||
      j->in[0].t->count != 1 || j->in[1].t->count != 1 || j->in[2].t->count != 1)
    return wrong(j, "they are no whole numbers");
  int64_t from = j->in[0].i[0], to = j->in[1].i[0], by = j->in[2].i[0];
  if (by <= 0 || from < -MOST || to > MOST) return wrong(j, "it is no range");
  SHOAL_TRY(make(j, j->in[0].t->type, 1, (int64_t[]){ to > from ? (to - from - 1) / by + 1 : 0 }));
  for (size_t k = 0; k < j->out->count; k++) j->i[k] = from + (int64_t)k * by;
  return SHOAL_OK;
}

/* The product of all elements, as sizes of flattened tensors are computed. */
static shoal_status product(job *j)
{
  const operand *a = given(j, 0);
  int64_t keep = attribute(j, "keepdims", 1), all = 1;
  if (!a || !a->i || a->t->ndim != 1) return wrong(j, "it is no list of whole numbers");
  for (size_t k = 0; k < a->t->count; k++)
    if (__builtin_mul_overflow(all, a->i[k], &all)) return wrong(j, "what comes out is too large");
  SHOAL_TRY(make(j, a->t->type, keep ? 1 : 0, (int64_t[]){ 1 }));
  j->i[0] = all;
  return SHOAL_OK;
}

static const struct {
  const char *op;
  shoal_status (*compute)(job *j);
} computed[] = {
  { "Add", two },
  { "And", two },
  { "Cast", cast },
  { "Ceil", one },
  { "Concat", concat },
  { "Constant", constant },
  { "ConstantOfShape", constant_of_shape },
  { "Div", two },
  { "Equal", two },
  { "Expand", expand },
  { "Floor", one },
  { "Gather", gather },
  { "Greater", two },
  { "Identity", one },
  { "Less", two },
  { "Max", two },
  { "Min", two },
  { "Mod", two },
  { "Mul", two },
  { "Neg", one },
  { "Not", one },
  { "Pow", two },
  { "Range", range },
  { "Reciprocal", one },
  { "ReduceProd", product },
  { "Reshape", reshape },
  { "Slice", slice },
  { "Sqrt", one },
  { "Squeeze", squeeze },
  { "Sub", two },
  { "Transpose", transpose },
  { "Trilu", trilu },
  { "Unsqueeze", unsqueeze },
  { "Where", where },
};

bool shoal_onnx_folds(const char *op)
{
  for (size_t k = 0; k < SHOAL_COUNT(computed); k++)
    if (strcmp(computed[k].op, op) == 0) return true;
  return false;
}

shoal_status shoal_onnx_fold(shoal_onnx_graph *g, const shoal_onnx_node *n, shoal_onnx_tensor *out)
{
  job j = { .g = g, .n = n, .out = out };
  size_t k = 0;
  while (k < SHOAL_COUNT(computed) && strcmp(computed[k].op, n->op) != 0) k++;
  if (k == SHOAL_COUNT(computed)) return wrong(&j, "the operator is not computed");
  SHOAL_TRY(SHOAL_ALLOC((size_t)n->ins + 1, &j.in));
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < n->ins && st == SHOAL_OK; i++) {
    const shoal_onnx_tensor *t = j.in[i].t = shoal_onnx_known(g, n, i);
    if (t && shoal_onnx_is_whole(t->type)) st = shoal_onnx_whole(g, t, &j.in[i].i);
    if (t && !shoal_onnx_is_whole(t->type)) st = shoal_onnx_reals(g, t, &j.in[i].x);
  }
  if (st == SHOAL_OK) st = computed[k].compute(&j);
  for (int i = 0; i < n->ins; i++) {
    free(j.in[i].x);
    free(j.in[i].i);
  }
  free(j.in);
  return st;
}
