/* Backend-independent properties of an operation: output shape, weight shapes, and whether its description is valid.
 *
 * All backends and layers use these functions, so a wrong kernel or a missing channel is rejected in one place, with
 * the value in the message.  Nothing here computes on data. */
#include "tensor/op.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
#define X(name, text, least, most) text,
  SHOAL_OP_LIST(X)
#undef X
};
static const shoal_op_arity arities[] = {
#define X(name, text, least, most) { least, most },
  SHOAL_OP_LIST(X)
#undef X
};

shoal_op_arity shoal_op_arity_of(shoal_op_kind kind)
{
  return arities[kind];
}

bool shoal_op_is_curve(shoal_op_kind kind)
{
  return kind >= SHOAL_OP_GELU && kind <= SHOAL_OP_HARDSIGMOID;
}

int shoal_op_inputs(const shoal_op_desc *d)
{
  int n = 0;
  while (n < arities[d->kind].most && d->in[n].ndim > 0) n++;
  return n;
}

const char *shoal_op_kind_name(shoal_op_kind kind)
{
  return (unsigned)kind < SHOAL_OP_COUNT ? kind_names[kind] : "unknown operation";
}

const char *shoal_shape_text(const shoal_shape *s, char buf[SHOAL_SHAPE_TEXT])
{
  int n = snprintf(buf, SHOAL_SHAPE_TEXT, "[");
  for (int i = 0; i < s->ndim && i < SHOAL_MAX_DIMS; i++)
    n += snprintf(buf + n, SHOAL_SHAPE_TEXT - (size_t)n, "%s%lld", i ? "," : "", (long long)s->dim[i]);
  snprintf(buf + n, SHOAL_SHAPE_TEXT - (size_t)n, "]");
  return buf;
}

/* Every dimension at least 1, and the tensor small enough that its bytes fit 63 bits. */
static shoal_status check_shape(const char *op, const char *what, const shoal_shape *s, int ndim_min, int ndim_max)
{
  char text[SHOAL_SHAPE_TEXT], range[32];
  snprintf(range, sizeof range, ndim_min < ndim_max ? "%d to %d" : "%d", ndim_min, ndim_max);
  SHOAL_CHECK(s->ndim >= ndim_min && s->ndim <= ndim_max, SHOAL_ERR_ARG,
              "%s: %s is %s, %d dimensions; it needs %s, the batch first", op, what, shoal_shape_text(s, text), s->ndim,
              range);
  int64_t elements = 1;
  for (int i = 0; i < s->ndim; i++) {
    SHOAL_CHECK(s->dim[i] >= 1, SHOAL_ERR_ARG, "%s: %s is %s; dimension %d must be at least 1", op, what,
                shoal_shape_text(s, text), i);
    SHOAL_CHECK(!__builtin_mul_overflow(elements, s->dim[i], &elements) && elements <= INT64_MAX / 8, SHOAL_ERR_ARG,
                "%s: %s is %s; that is more than memory can hold, lower a dimension", op, what,
                shoal_shape_text(s, text));
  }
  return SHOAL_OK;
}

static bool may_fuse_relu(shoal_op_kind kind)
{
  return kind == SHOAL_OP_LINEAR || kind == SHOAL_OP_CONV || kind == SHOAL_OP_BATCHNORM || kind == SHOAL_OP_ADD;
}

/* Sliding windows: kernel, stride and padding of CONV and the pools; writes the size of dimensions 2 and 3.
 * Padding is smaller than the kernel, because a window of padding only has no maximum and no mean. */
static shoal_status infer_windows(const shoal_op_desc *d, shoal_shape *out)
{
  const char *op = shoal_op_kind_name(d->kind);
  for (int i = 0; i < 2; i++) {
    const char axis = "hw"[i];
    int64_t size = d->in[0].dim[2 + i], k = d->kernel[i], s = d->stride[i], p = d->pad[i];
    SHOAL_CHECK(k >= 1, SHOAL_ERR_ARG, "%s: kernel %lld along %c; must be at least 1", op, (long long)k, axis);
    SHOAL_CHECK(d->gap[i] >= 0, SHOAL_ERR_ARG, "%s: dilation %d along %c; must be at least 1", op, d->gap[i] + 1, axis);
    k += (k - 1) * d->gap[i];
    SHOAL_CHECK(s >= 1, SHOAL_ERR_ARG, "%s: stride %lld along %c; must be at least 1", op, (long long)s, axis);
    SHOAL_CHECK(p >= 0 && p < k, SHOAL_ERR_ARG, "%s: padding %lld along %c; must be from 0 to %s - 1 = %lld", op,
                (long long)p, axis, d->gap[i] ? "reach of the kernel" : "kernel", (long long)k - 1);
    SHOAL_CHECK(size + 2 * p >= k, SHOAL_ERR_ARG,
                "%s: kernel %lld%s along %c is larger than the input %lld with padding %lld on both sides", op,
                (long long)k, d->gap[i] ? ", dilated," : "", axis, (long long)size, (long long)p);
    out->dim[2 + i] = (size + 2 * p - k + (d->ceil ? s - 1 : 0)) / s + 1;
    if (d->ceil && (out->dim[2 + i] - 1) * s >= size + p) out->dim[2 + i]--;
  }
  return SHOAL_OK;
}

static shoal_status infer_linear(const shoal_op_desc *d, shoal_shape *out)
{
  SHOAL_TRY(check_shape("linear", "input", &d->in[0], 1, SHOAL_MAX_DIMS));
  *out = d->in[0];
  int last = out->ndim - 1;
  out->dim[last] = d->out.dim[last];
  SHOAL_CHECK(out->dim[last] >= 1, SHOAL_ERR_ARG, "linear: output width %lld; must be at least 1",
              (long long)out->dim[last]);
  return SHOAL_OK;
}

static shoal_status infer_embedding(const shoal_op_desc *d, shoal_shape *out)
{
  const int last = d->in[0].ndim;
  SHOAL_TRY(check_shape("embedding", "input", &d->in[0], 1, SHOAL_MAX_DIMS - 1));
  SHOAL_CHECK(d->rows >= 1 && d->rows <= SHOAL_OP_ROWS, SHOAL_ERR_ARG,
              "embedding: a table of %lld rows; must be 1 to %d", (long long)d->rows, SHOAL_OP_ROWS);
  SHOAL_CHECK(!d->need_dx, SHOAL_ERR_ARG, "embedding: reads tokens, so its input must be the network's");
  *out = d->in[0];
  out->ndim++;
  out->dim[last] = d->out.dim[last];
  SHOAL_CHECK(out->dim[last] >= 1, SHOAL_ERR_ARG, "embedding: output width %lld; must be at least 1",
              (long long)out->dim[last]);
  return SHOAL_OK;
}

static shoal_status infer_conv(const shoal_op_desc *d, shoal_shape *out)
{
  SHOAL_TRY(check_shape("conv", "input", &d->in[0], 4, 4));
  *out = d->in[0];
  out->dim[1] = d->out.dim[1];
  SHOAL_CHECK(out->dim[1] >= 1, SHOAL_ERR_ARG, "conv: %lld output channels; must be at least 1",
              (long long)out->dim[1]);
  SHOAL_CHECK(d->groups >= 0 && d->in[0].dim[1] % shoal_op_groups(d) == 0 && out->dim[1] % shoal_op_groups(d) == 0,
              SHOAL_ERR_ARG, "conv: %d groups of %lld input and %lld output channels; both must be multiples",
              d->groups, (long long)d->in[0].dim[1], (long long)out->dim[1]);
  return infer_windows(d, out);
}

static shoal_status infer_batchnorm(const shoal_op_desc *d, shoal_shape *out)
{
  const shoal_shape *in = &d->in[0];
  char text[SHOAL_SHAPE_TEXT];
  SHOAL_TRY(check_shape("batchnorm", "input", in, 2, 4));
  SHOAL_CHECK(in->ndim != 3, SHOAL_ERR_ARG, "batchnorm: input is %s; give [n,c] or [n,c,h,w]",
              shoal_shape_text(in, text));
  SHOAL_CHECK(d->eps > 0, SHOAL_ERR_ARG, "batchnorm: eps %g; must be above 0, usually 1e-5", (double)d->eps);
  SHOAL_CHECK(d->momentum >= 0 && d->momentum <= 1, SHOAL_ERR_ARG, "batchnorm: momentum %g; must be from 0 to 1",
              (double)d->momentum);
  /* A single value has no variance; PyTorch rejects this too. */
  SHOAL_CHECK(!d->training || shoal_shape_count(in) > in->dim[1], SHOAL_ERR_ARG,
              "batchnorm: input %s has one value per channel, training needs two; choose a batch size that leaves no "
              "batch of 1",
              shoal_shape_text(in, text));
  *out = *in;
  return SHOAL_OK;
}

/* Enough of them, each of a possible shape. */
static shoal_status check_inputs(const shoal_op_desc *d)
{
  const char *op = shoal_op_kind_name(d->kind);
  int n = shoal_op_inputs(d), least = arities[d->kind].least;
  SHOAL_CHECK(n >= least, SHOAL_ERR_ARG, "%s: %d input%s; it needs %d or more", op, n, n == 1 ? "" : "s", least);
  for (int k = 0; k < n; k++) {
    char what[24];
    snprintf(what, sizeof what, "input %d", k + 1);
    SHOAL_TRY(check_shape(op, what, &d->in[k], 1, SHOAL_MAX_DIMS));
  }
  return SHOAL_OK;
}

static shoal_status infer_add(const shoal_op_desc *d, shoal_shape *out)
{
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  SHOAL_TRY(check_inputs(d));
  for (int k = 1; k < shoal_op_inputs(d); k++)
    SHOAL_CHECK(shoal_shape_equal(&d->in[0], &d->in[k]), SHOAL_ERR_ARG,
                "add: inputs are %s and %s; all must have the same shape", shoal_shape_text(&d->in[0], a),
                shoal_shape_text(&d->in[k], b));
  *out = d->in[0];
  return SHOAL_OK;
}

/* Whether x1 scales whole planes of x0. */
static bool scales_planes(const shoal_shape *x0, const shoal_shape *x1)
{
  bool plane = x1->ndim == 2 || (x1->ndim == 4 && x1->dim[2] == 1 && x1->dim[3] == 1);
  return x0->ndim == 4 && plane && x0->dim[0] == x1->dim[0] && x0->dim[1] == x1->dim[1];
}

/* Whether x1 scales x0 along its last dimension, alike in all places. */
static bool scales_last(const shoal_shape *x0, const shoal_shape *x1)
{
  bool alike = x0->ndim == x1->ndim && x0->ndim > 2 && x0->dim[0] == x1->dim[0];
  for (int i = 1; alike && i < x0->ndim - 1; i++) alike = x1->dim[i] == 1;
  return alike && x0->dim[x0->ndim - 1] == x1->dim[x0->ndim - 1];
}

shoal_mul_form shoal_op_mul_form(const shoal_op_desc *d)
{
  if (shoal_shape_equal(&d->in[0], &d->in[1])) return SHOAL_MUL_ALIKE;
  return scales_planes(&d->in[0], &d->in[1]) ? SHOAL_MUL_PLANES : SHOAL_MUL_LAST;
}

static shoal_status infer_mul(const shoal_op_desc *d, shoal_shape *out)
{
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  SHOAL_TRY(check_inputs(d));
  SHOAL_CHECK(shoal_op_mul_form(d) != SHOAL_MUL_LAST || scales_last(&d->in[0], &d->in[1]), SHOAL_ERR_ARG,
              "mul: inputs are %s and %s; the second must have the shape of the first, or one number for each channel, "
              "or one for each place along the last dimension and 1 for the others",
              shoal_shape_text(&d->in[0], a), shoal_shape_text(&d->in[1], b));
  *out = d->in[0];
  return SHOAL_OK;
}

static shoal_status infer_concat(const shoal_op_desc *d, shoal_shape *out)
{
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  SHOAL_TRY(check_inputs(d));
  *out = d->in[0];
  for (int k = 0; k < shoal_op_inputs(d); k++) {
    shoal_shape alike = d->in[k];
    SHOAL_CHECK(alike.ndim >= 2, SHOAL_ERR_ARG, "concat: input %s has no channels", shoal_shape_text(&alike, a));
    alike.dim[1] = d->in[0].dim[1];
    SHOAL_CHECK(shoal_shape_equal(&alike, &d->in[0]), SHOAL_ERR_ARG,
                "concat: inputs are %s and %s; all but their channels must be equal", shoal_shape_text(&d->in[0], a),
                shoal_shape_text(&d->in[k], b));
    if (k > 0) out->dim[1] += d->in[k].dim[1];
  }
  return SHOAL_OK;
}

static shoal_status infer_slice(const shoal_op_desc *d, shoal_shape *out)
{
  char text[SHOAL_SHAPE_TEXT];
  const int64_t count = d->out.dim[1], all = d->in[0].dim[1];
  SHOAL_TRY(check_shape("slice", "input", &d->in[0], 2, SHOAL_MAX_DIMS));
  SHOAL_CHECK(d->first >= 0 && count >= 1 && d->first < all && count <= all - d->first, SHOAL_ERR_ARG,
              "slice: %lld from %lld on of %s, whose first dimension of a sample has %lld", (long long)count,
              (long long)d->first, shoal_shape_text(&d->in[0], text), (long long)all);
  *out = d->in[0];
  out->dim[1] = count;
  return SHOAL_OK;
}

static shoal_status infer_reshape(const shoal_op_desc *d, shoal_shape *out)
{
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  SHOAL_TRY(check_inputs(d));
  shoal_shape s = d->out;
  int64_t count = shoal_shape_count(&d->in[0]) / d->in[0].dim[0], known = 1;
  int open = -1, opens = 0;
  SHOAL_CHECK(s.ndim >= 2 && s.ndim <= SHOAL_MAX_DIMS, SHOAL_ERR_ARG,
              "reshape: a sample of %d dimensions; must be 1 to %d", s.ndim - 1, SHOAL_MAX_DIMS - 1);
  s.dim[0] = d->in[0].dim[0];
  for (int i = 1; i < s.ndim; i++) {
    SHOAL_CHECK(s.dim[i] >= 1 || s.dim[i] == -1, SHOAL_ERR_ARG,
                "reshape: dimension %lld; must be at least 1, or -1: the rest", (long long)s.dim[i]);
    if (s.dim[i] == -1)
      open = i, opens++;
    else
      SHOAL_CHECK(!__builtin_mul_overflow(known, s.dim[i], &known), SHOAL_ERR_ARG, "reshape: to %s; lower a dimension",
                  shoal_shape_text(&s, b));
  }
  SHOAL_CHECK(opens <= 1, SHOAL_ERR_ARG, "reshape: to %s; only one dimension can be -1, the rest",
              shoal_shape_text(&s, b));
  SHOAL_CHECK(open >= 0 ? count % known == 0 : count == known, SHOAL_ERR_ARG,
              "reshape: %s has %lld values a sample, which do not fill %s", shoal_shape_text(&d->in[0], a),
              (long long)count, shoal_shape_text(&s, b));
  if (open >= 0) s.dim[open] = count / known;
  *out = s;
  return SHOAL_OK;
}

static shoal_status infer_transpose(const shoal_op_desc *d, shoal_shape *out)
{
  char text[SHOAL_SHAPE_TEXT];
  unsigned seen = 0;
  SHOAL_TRY(check_inputs(d));
  *out = d->in[0];
  for (int i = 0; i + 1 < out->ndim; i++) {
    int from = d->order[i];
    SHOAL_CHECK(from >= 0 && from + 1 < out->ndim && !(seen >> from & 1), SHOAL_ERR_ARG,
                "transpose: order of %s must have each of 0 to %d once", shoal_shape_text(&d->in[0], text),
                out->ndim - 2);
    seen |= 1u << from;
    out->dim[1 + i] = d->in[0].dim[1 + from];
  }
  return SHOAL_OK;
}

static shoal_status infer_attention(const shoal_op_desc *d, shoal_shape *out)
{
  static const char *const names[] = { "queries", "keys", "values" };
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT], c[SHOAL_SHAPE_TEXT];
  const shoal_shape *q = &d->in[0], *k = &d->in[1];
  SHOAL_TRY(check_inputs(d));
  for (int i = 0; i < 3; i++) SHOAL_TRY(check_shape("attention", names[i], &d->in[i], 3, 3));
  SHOAL_CHECK(shoal_shape_equal(k, &d->in[2]) && q->dim[0] == k->dim[0] && q->dim[2] == k->dim[2] &&
                  (!d->causal || q->dim[1] == k->dim[1]),
              SHOAL_ERR_ARG, "attention: queries are %s, keys %s and values %s; %s", shoal_shape_text(q, a),
              shoal_shape_text(k, b), shoal_shape_text(&d->in[2], c),
              d->causal ? "where it is causal, all must have the same shape"
                        : "all must have the same width, keys and values the same shape");
  SHOAL_CHECK(d->heads >= 1 && q->dim[2] % d->heads == 0, SHOAL_ERR_ARG,
              "attention: %d heads of a width of %lld; the width must be a multiple", d->heads, (long long)q->dim[2]);
  *out = *q;
  return SHOAL_OK;
}

static shoal_status infer_same(const shoal_op_desc *d, shoal_shape *out)
{
  SHOAL_TRY(check_shape(shoal_op_kind_name(d->kind), "input", &d->in[0], 1, SHOAL_MAX_DIMS));
  *out = d->in[0];
  return SHOAL_OK;
}

static shoal_status infer(const shoal_op_desc *d, shoal_shape *out)
{
  const char *op = shoal_op_kind_name(d->kind);
  const shoal_shape *in = &d->in[0];
  switch (d->kind) {
  case SHOAL_OP_LINEAR:
    return infer_linear(d, out);
  case SHOAL_OP_EMBEDDING:
    return infer_embedding(d, out);
  case SHOAL_OP_CONV:
    return infer_conv(d, out);
  case SHOAL_OP_BATCHNORM:
    return infer_batchnorm(d, out);
  case SHOAL_OP_ADD:
    return infer_add(d, out);
  case SHOAL_OP_MUL:
    return infer_mul(d, out);
  case SHOAL_OP_CONCAT:
    return infer_concat(d, out);
  case SHOAL_OP_SLICE:
    return infer_slice(d, out);
  case SHOAL_OP_RELU:
  case SHOAL_OP_GELU:
  case SHOAL_OP_GELU_TANH:
  case SHOAL_OP_SIGMOID:
  case SHOAL_OP_TANH:
  case SHOAL_OP_SILU:
  case SHOAL_OP_RELU6:
  case SHOAL_OP_HARDSWISH:
  case SHOAL_OP_HARDSIGMOID:
    return infer_same(d, out);
  case SHOAL_OP_LEAKYRELU:
    SHOAL_CHECK(isfinite(d->slope), SHOAL_ERR_ARG, "leakyrelu: slope %g; must be a finite number, usually 0.01",
                (double)d->slope);
    return infer_same(d, out);
  case SHOAL_OP_LAYERNORM:
    SHOAL_CHECK(d->eps > 0, SHOAL_ERR_ARG, "layernorm: eps %g; must be above 0, usually 1e-5", (double)d->eps);
    return infer_same(d, out);
  case SHOAL_OP_DROPOUT:
    SHOAL_CHECK(d->p >= 0 && d->p < 1, SHOAL_ERR_ARG, "dropout: p %g; must be at least 0 and below 1", (double)d->p);
    return infer_same(d, out);
  case SHOAL_OP_MAXPOOL:
  case SHOAL_OP_AVGPOOL:
    SHOAL_TRY(check_shape(op, "input", in, 4, 4));
    *out = *in;
    return infer_windows(d, out);
  case SHOAL_OP_GLOBALPOOL:
    SHOAL_TRY(check_shape(op, "input", in, 4, 4));
    *out = SHOAL_SHAPE(in->dim[0], in->dim[1]);
    return SHOAL_OK;
  case SHOAL_OP_FLATTEN:
    SHOAL_TRY(check_shape(op, "input", in, 2, SHOAL_MAX_DIMS));
    *out = SHOAL_SHAPE(in->dim[0], shoal_shape_count(in) / in->dim[0]);
    return SHOAL_OK;
  case SHOAL_OP_PARAMETER:
    SHOAL_TRY(check_shape(op, "shape", &d->out, 2, SHOAL_MAX_DIMS));
    *out = d->out;
    return SHOAL_OK;
  case SHOAL_OP_RESHAPE:
    return infer_reshape(d, out);
  case SHOAL_OP_TRANSPOSE:
    return infer_transpose(d, out);
  case SHOAL_OP_ATTENTION:
    return infer_attention(d, out);
  case SHOAL_OP_COUNT:
    break;
  }
  return SHOAL_FAIL(SHOAL_ERR_ARG, "operation kind %d is unknown; see the list in tensor/op.h", (int)d->kind);
}

shoal_status shoal_op_infer(const shoal_op_desc *d, shoal_shape *out)
{
  shoal_shape s = { 0 };
  SHOAL_TRY(infer(d, &s));
  SHOAL_CHECK(!d->relu || may_fuse_relu(d->kind), SHOAL_ERR_ARG,
              "%s: relu cannot be fused here, only into linear, conv, batchnorm and add; use a relu operation",
              shoal_op_kind_name(d->kind));
  SHOAL_TRY(check_shape(shoal_op_kind_name(d->kind), "output", &s, 1, SHOAL_MAX_DIMS));
  *out = s;
  return SHOAL_OK;
}

void shoal_op_weight_shapes(const shoal_op_desc *d, shoal_shape w[SHOAL_OP_WEIGHTS])
{
  const shoal_shape *in = &d->in[0];
  w[0] = w[1] = (shoal_shape){ 0 };
  switch (d->kind) {
  case SHOAL_OP_LINEAR:
    w[0] = SHOAL_SHAPE(d->out.dim[in->ndim - 1], in->dim[in->ndim - 1]);
    break;
  case SHOAL_OP_EMBEDDING:
    w[0] = SHOAL_SHAPE(d->rows, d->out.dim[in->ndim]);
    break;
  case SHOAL_OP_CONV:
    w[0] = SHOAL_SHAPE(d->out.dim[1], in->dim[1] / shoal_op_groups(d), d->kernel[0], d->kernel[1]);
    break;
  case SHOAL_OP_PARAMETER:
    w[0].ndim = d->out.ndim - 1;
    memcpy(w[0].dim, d->out.dim + 1, (size_t)w[0].ndim * sizeof *w[0].dim);
    break;
  case SHOAL_OP_BATCHNORM:
    w[0] = w[1] = SHOAL_SHAPE(in->dim[1]);
    break;
  case SHOAL_OP_LAYERNORM:
    w[0] = w[1] = SHOAL_SHAPE(in->dim[in->ndim - 1]);
    break;
  default:
    break;
  }
  if (d->bias && (d->kind == SHOAL_OP_LINEAR || d->kind == SHOAL_OP_CONV)) w[1] = SHOAL_SHAPE(w[0].dim[0]);
}

double shoal_op_macs(const shoal_op_desc *d)
{
  shoal_shape w[SHOAL_OP_WEIGHTS], out = { 0 };
  if (d->kind == SHOAL_OP_ATTENTION) { /* products with keys and with values; where it is causal, of half of them */
    const double t = (double)d->in[0].dim[1], s = d->causal ? (t + 1) / 2 : (double)d->in[1].dim[1];
    return 2 * (double)d->in[0].dim[0] * t * s * (double)d->in[0].dim[2];
  }
  if (d->kind != SHOAL_OP_LINEAR && d->kind != SHOAL_OP_CONV) return 0;
  shoal_op_weight_shapes(d, w);
  if (shoal_op_infer(d, &out) != SHOAL_OK) return 0;
  /* Each output element is the product of one row of w0 and one patch of x. */
  return (double)shoal_shape_count(&out) * (double)(shoal_shape_count(&w[0]) / w[0].dim[0]);
}
