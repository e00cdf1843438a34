/* See heads.h.  Layer names are short, since a slice prefixes them with "head.". */
#include "nn/heads.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "auto", "linear", "mlp-sr", "nokland" };

const char *shoal_head_name(shoal_head kind)
{
  return names[kind];
}

shoal_head shoal_head_from_name(const char *name)
{
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if (strcmp(names[i], name) == 0) return (shoal_head)i;
  return SHOAL_HEADS;
}

/* A head under construction; the first error is kept and ends the construction. */
typedef struct {
  shoal_model *m;
  shoal_status st;
  int last;
} builder;

static const shoal_shape *shape(const builder *b)
{
  return b->last < 0 ? &b->m->input : &b->m->node[b->last].out;
}

static void add(builder *b, shoal_node *n, shoal_init init)
{
  if (b->st == SHOAL_OK) b->st = shoal_model_add(b->m, n, init, &b->last);
}

static void plain(builder *b, shoal_op_kind kind, const char *name, int number, bool relu)
{
  char full[SHOAL_NAME_MAX];
  snprintf(full, sizeof full, number ? "%s%d" : "%s", name, number);
  shoal_node n = shoal_node_make(kind, full, b->last);
  n.relu = relu;
  add(b, &n, SHOAL_INIT_ZERO);
}

static void linear(builder *b, const char *name, int number, int64_t width, shoal_init init)
{
  char full[SHOAL_NAME_MAX];
  snprintf(full, sizeof full, number ? "%s%d" : "%s", name, number);
  shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, full, b->last);
  n.out.dim[0] = width;
  n.bias = true;
  add(b, &n, init);
}

static void conv1x1(builder *b, int number, int64_t width)
{
  char full[SHOAL_NAME_MAX];
  snprintf(full, sizeof full, "conv%d", number);
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, full, b->last);
  n.out.dim[0] = width;
  add(b, &n, SHOAL_INIT_KAIMING);
}

/* Average pooling to h x w; nothing if the plane has that size. */
static void pool(builder *b, const char *name, int64_t h, int64_t w)
{
  const shoal_shape *in = shape(b);
  const int64_t target[2] = { h, w };
  shoal_node n = shoal_node_make(SHOAL_OP_AVGPOOL, name, b->last);
  if (in->dim[1] == h && in->dim[2] == w) return;
  for (int i = 0; i < 2; i++) {
    n.stride[i] = (int)(in->dim[1 + i] / target[i]);
    n.kernel[i] = (int)(in->dim[1 + i] - (target[i] - 1) * n.stride[i]);
  }
  add(b, &n, SHOAL_INIT_ZERO);
}

static int64_t quarter(int64_t side)
{
  return (side + 3) / 4;
}

static void build_mlp_sr(builder *b, int64_t classes)
{
  const int64_t c = shape(b)->dim[0], h = quarter(shape(b)->dim[1]), w = quarter(shape(b)->dim[2]);
  pool(b, "reduce", h, w);
  for (int i = 1; i <= 3; i++) {
    conv1x1(b, i, c);
    plain(b, SHOAL_OP_BATCHNORM, "bn", i, true);
  }
  pool(b, "pool", SHOAL_MIN(h, 2), SHOAL_MIN(w, 2));
  plain(b, SHOAL_OP_FLATTEN, "flatten", 0, false);
  const int64_t width = b->st == SHOAL_OK ? shape(b)->dim[0] : 1;
  for (int i = 1; i <= 3; i++) {
    linear(b, "fc", i, width, SHOAL_INIT_UNIFORM);
    plain(b, SHOAL_OP_BATCHNORM, "norm", i, true);
  }
  linear(b, "fc", 4, classes, SHOAL_INIT_UNIFORM);
}

/* Halve the height and the width alternately until few enough values are left. */
static void build_nokland(builder *b, int64_t classes)
{
  enum { FEW = 4096 };
  const shoal_shape *in = shape(b);
  int64_t h = in->dim[1], w = in->dim[2];
  for (bool tall = true; in->dim[0] * h * w > FEW && (h > 1 || w > 1); tall = !tall) {
    int64_t *side = (tall && h > 1) || w == 1 ? &h : &w;
    *side = (*side + 1) / 2;
  }
  pool(b, "pool", h, w);
  plain(b, SHOAL_OP_FLATTEN, "flatten", 0, false);
  linear(b, "fc", 0, classes, SHOAL_INIT_ZERO);
}

/* The mean over the tokens: [tokens, width] to [width]. */
static void pool_tokens(builder *b)
{
  const shoal_shape in = *shape(b);
  shoal_node n = shoal_node_make(SHOAL_OP_TRANSPOSE, "channels", b->last);
  n.order[0] = 1, n.order[1] = 0, n.order[2] = -1;
  add(b, &n, SHOAL_INIT_ZERO);
  n = shoal_node_make(SHOAL_OP_RESHAPE, "plane", b->last);
  n.shape = SHOAL_SHAPE(in.dim[1], in.dim[0], 1);
  add(b, &n, SHOAL_INIT_ZERO);
  plain(b, SHOAL_OP_GLOBALPOOL, "pool", 0, false);
}

static void build(builder *b, shoal_head kind, bool plane, int64_t classes, int64_t labels)
{
  if (b->m->input.ndim == 2) {
    plain(b, SHOAL_OP_LAYERNORM, "norm", 0, false);
    if (labels == 1) pool_tokens(b);
  }
  if (plane && kind == SHOAL_HEAD_MLP_SR) {
    build_mlp_sr(b, classes);
  } else if (plane && kind == SHOAL_HEAD_NOKLAND) {
    build_nokland(b, classes);
  } else {
    if (plane) plain(b, SHOAL_OP_GLOBALPOOL, "pool", 0, false);
    linear(b, "fc", 0, classes, kind == SHOAL_HEAD_NOKLAND ? SHOAL_INIT_ZERO : SHOAL_INIT_UNIFORM);
  }
}

shoal_status shoal_head_build(shoal_head kind, const shoal_shape *input, int64_t classes, int64_t labels,
                              shoal_model **out)
{
  bool plane = input->ndim == 3;
  SHOAL_CHECK(
      plane || input->ndim <= 2, SHOAL_ERR_ARG,
      "a head after an output of %d dimensions per sample; heads take [channels, h, w], [tokens, width] or [width]",
      input->ndim);
  if (kind == SHOAL_HEAD_AUTO) kind = plane ? SHOAL_HEAD_MLP_SR : SHOAL_HEAD_LINEAR;
  builder b = { .last = -1 };
  SHOAL_TRY(shoal_model_create(shoal_head_name(kind), input, classes, &b.m));
  build(&b, kind, plane, classes, labels);
  if (b.st == SHOAL_OK) b.st = shoal_model_finish(b.m);
  if (b.st == SHOAL_OK)
    *out = b.m;
  else
    shoal_model_destroy(b.m);
  return b.st;
}
