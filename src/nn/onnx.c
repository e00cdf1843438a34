/* ONNX: the network as a graph of nodes, each with operator, inputs, outputs and attributes, and its tensors.
 *
 *     ModelProto   graph, opset, metadata            GraphProto   node*, initializer* (the tensors), input, output*
 *
 * Numbers of fields are those of the format's .proto file.  A value has the name of its layer behind which "/out" stands,
 * since no layer has a slash in its name; a tensor has its own. */
#include "base/error.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/texts.h"
#include "nn/foreign_impl.h"
#include "nn/model_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, IR_VERSION = 8 };
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FACTS = 14 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_FLOAT = 4, TENSOR_I64 = 7, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { F32 = 1, I64 = 7 };
enum { VALUE_MAX = SHOAL_NAME_MAX + 24 };

typedef struct {
  const shoal_foreign *f;
  shoal_proto graph, node, part; /* the graph but for its tensors; a node and an attribute under construction */
  char (*value)[VALUE_MAX];      /* [nodes] name of each node's output */
  char last[VALUE_MAX];          /* of the node that makes the logits */
  char input[VALUE_MAX];         /* of the normalised input */
  char shape[VALUE_MAX];         /* of the last constant for Reshape */
  shoal_texts numbers;           /* names of constants that are in the graph */
  shoal_status st;
} writer;

/* ---- nodes ---- */

static void begin(writer *w, const char *op, const char *output)
{
  w->node.n = 0;
  shoal_proto_text(&w->node, NODE_OUTPUT, output);
  shoal_proto_text(&w->node, NODE_NAME, strcmp(output, "logits") == 0 ? w->last : output);
  shoal_proto_text(&w->node, NODE_OP, op);
}

static void take(writer *w, const char *input)
{
  shoal_proto_text(&w->node, NODE_INPUT, input);
}

static void end(writer *w)
{
  shoal_proto_message(&w->graph, GRAPH_NODE, &w->node);
}

static void attribute(writer *w, const char *name, uint64_t type)
{
  w->part.n = 0;
  shoal_proto_text(&w->part, ATTRIBUTE_NAME, name);
  shoal_proto_number(&w->part, ATTRIBUTE_TYPE, type);
}

static void add_int(writer *w, const char *name, int64_t x)
{
  attribute(w, name, TYPE_INT);
  shoal_proto_number(&w->part, ATTRIBUTE_I, (uint64_t)x);
  shoal_proto_message(&w->node, NODE_ATTRIBUTE, &w->part);
}

static void add_float(writer *w, const char *name, float x)
{
  attribute(w, name, TYPE_FLOAT);
  shoal_proto_float(&w->part, ATTRIBUTE_F, x);
  shoal_proto_message(&w->node, NODE_ATTRIBUTE, &w->part);
}

static void add_ints(writer *w, const char *name, const int *x, int n)
{
  attribute(w, name, TYPE_INTS);
  for (int i = 0; i < n; i++) shoal_proto_number(&w->part, ATTRIBUTE_INTS, (uint64_t)x[i]);
  shoal_proto_message(&w->node, NODE_ATTRIBUTE, &w->part);
}

/* A node with one or two inputs and no attributes. */
static void simple(writer *w, const char *op, const char *a, const char *b, const char *output)
{
  begin(w, op, output);
  take(w, a);
  if (b) take(w, b);
  end(w);
}

static void add_windows(writer *w, const shoal_node *n)
{
  const int pads[4] = { n->pad[0], n->pad[1], n->pad[0], n->pad[1] };
  add_ints(w, "kernel_shape", n->kernel, 2);
  add_ints(w, "strides", n->stride, 2);
  add_ints(w, "pads", pads, 4);
}

/* ---- tensors that are no parameters ---- */

static void put_constant(writer *w, const char *name, const shoal_shape *shape, const double *numbers)
{
  w->part.n = 0;
  for (int d = 0; d < shape->ndim; d++) shoal_proto_number(&w->part, TENSOR_DIM, (uint64_t)shape->dim[d]);
  shoal_proto_number(&w->part, TENSOR_TYPE, F32);
  shoal_proto_text(&w->part, TENSOR_NAME, name);
  for (int64_t i = 0; i < shoal_shape_count(shape); i++) shoal_proto_float(&w->part, TENSOR_FLOAT, (float)numbers[i]);
  shoal_proto_message(&w->graph, GRAPH_TENSOR, &w->part);
}

static void put_wholes(writer *w, const char *name, const int64_t *numbers, int n)
{
  w->part.n = 0;
  shoal_proto_number(&w->part, TENSOR_DIM, (uint64_t)n);
  shoal_proto_number(&w->part, TENSOR_TYPE, I64);
  for (int d = 0; d < n; d++) shoal_proto_number(&w->part, TENSOR_I64, (uint64_t)numbers[d]);
  shoal_proto_text(&w->part, TENSOR_NAME, name);
  shoal_proto_message(&w->graph, GRAPH_TENSOR, &w->part);
}

/* The dimensions of a sample as a constant, behind `before` zeros.  Returns its name, good until the next call. */
static const char *put_counts(writer *w, const char *layer, const shoal_shape *sample, int before)
{
  int64_t dims[SHOAL_MAX_DIMS] = { 0 };
  snprintf(w->shape, sizeof w->shape, "%.*s/shape", (int)(sizeof w->shape - sizeof "/shape"), layer);
  memcpy(dims + before, sample->dim, (size_t)sample->ndim * sizeof *dims);
  put_wholes(w, w->shape, dims, before + sample->ndim);
  return w->shape;
}

/* For Reshape, where 0 leaves the batch as it is. */
static const char *put_shape(writer *w, const char *layer, const shoal_shape *sample)
{
  return put_counts(w, layer, sample, 1);
}

static const char *put_dims(writer *w, const char *layer, const shoal_shape *sample)
{
  return put_counts(w, layer, sample, 0);
}

static void put_scale(writer *w, const char *name, const double *numbers)
{
  const shoal_foreign *f = w->f;
  shoal_shape shape = SHOAL_SHAPE((int64_t)f->scales);
  if (f->scales > 1)
    for (; shape.ndim < f->model->input.ndim; shape.ndim++) shape.dim[shape.ndim] = 1; /* channels, 1, 1 */
  put_constant(w, name, &shape, numbers);
}

/* ---- layers ---- */

/* A constant of one number, the first time that its name is used; returns the name. */
static const char *number(writer *w, const char *name, double x)
{
  const shoal_shape scalar = { 0 };
  for (size_t i = 0; i < w->numbers.n; i++)
    if (strcmp(w->numbers.at[i], name) == 0) return name;
  if (w->st == SHOAL_OK) w->st = shoal_texts_add(&w->numbers, name);
  put_constant(w, name, &scalar, &x);
  return name;
}

/* x Phi(x) by erf: the operator Gelu came later, and not every program has it. */
static void put_gelu(writer *w, const char *name, const char *x, const char *output)
{
  char part[4][VALUE_MAX];
  for (int i = 0; i < 4; i++) snprintf(part[i], sizeof part[i], "%s/gelu%d", name, i + 1);
  simple(w, "Mul", x, number(w, "gelu/sqrt_half", 0.70710678118654752), part[0]);
  simple(w, "Erf", part[0], NULL, part[1]);
  simple(w, "Add", part[1], number(w, "gelu/one", 1), part[2]);
  simple(w, "Mul", x, part[2], part[3]);
  simple(w, "Mul", part[3], number(w, "gelu/half", 0.5), output);
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + c x^3))) */
static void put_gelu_tanh(writer *w, const char *name, const char *x, const char *output)
{
  char part[8][VALUE_MAX];
  for (int i = 0; i < 8; i++) snprintf(part[i], sizeof part[i], "%s/gelu%d", name, i + 1);
  simple(w, "Mul", x, x, part[0]);
  simple(w, "Mul", part[0], x, part[1]);
  simple(w, "Mul", part[1], number(w, "gelu/cubic", 0.044715), part[2]);
  simple(w, "Add", x, part[2], part[3]);
  simple(w, "Mul", part[3], number(w, "gelu/sqrt_2_over_pi", 0.79788456080286536), part[4]);
  simple(w, "Tanh", part[4], NULL, part[5]);
  simple(w, "Add", part[5], number(w, "gelu/one", 1), part[6]);
  simple(w, "Mul", x, part[6], part[7]);
  simple(w, "Mul", part[7], number(w, "gelu/half", 0.5), output);
}

static void put_linear(writer *w, const shoal_node *n, const char *x, const char *weight, const char *bias,
                       const char *output)
{
  char turned[VALUE_MAX], product[VALUE_MAX];
  snprintf(turned, sizeof turned, "%s/transposed", n->name);
  snprintf(product, sizeof product, "%s/product", n->name);
  if (n->out.ndim == 1) {
    begin(w, "Gemm", output);
    take(w, x);
    take(w, weight);
    if (bias) take(w, bias);
    add_int(w, "transB", 1);
    end(w);
    return;
  }
  simple(w, "Transpose", weight, NULL, turned);
  simple(w, "MatMul", x, turned, bias ? product : output);
  if (bias) simple(w, "Add", product, bias, output);
}

/* The batch's size of the input's shape, before the shape of a sample. */
static void put_parameter(writer *w, const shoal_node *n, const char *weight, const char *output)
{
  char part[3][VALUE_MAX];
  static const char *const ends[] = { "batch", "first", "whole" };
  const shoal_shape none = { 0 };
  for (int i = 0; i < 3; i++) snprintf(part[i], sizeof part[i], "%s/%s", n->name, ends[i]);
  simple(w, "Shape", "input", NULL, part[0]);
  simple(w, "Gather", part[0], put_shape(w, part[1], &none), part[1]); /* its dimension 0 */
  begin(w, "Concat", part[2]);
  take(w, part[1]);
  take(w, put_dims(w, n->name, &n->out));
  add_int(w, "axis", 0);
  end(w);
  simple(w, "Expand", weight, part[2], output);
}

static void put_slice(writer *w, const shoal_node *n, const char *x, const char *output)
{
  static const char *const ends[] = { "begin", "end", "axis" };
  const int64_t at[] = { n->first, n->first + n->out.dim[0], 1 };
  char part[3][VALUE_MAX];
  for (int i = 0; i < 3; i++) {
    snprintf(part[i], sizeof part[i], "%s/%s", n->name, ends[i]);
    put_wholes(w, part[i], &at[i], 1);
  }
  begin(w, "Slice", output);
  take(w, x);
  for (int i = 0; i < 3; i++) take(w, part[i]);
  end(w);
}

static const char *value_of(const writer *w, int v)
{
  return v < 0 ? w->input : w->value[v];
}

/* [n, rows, width] as [n, heads, rows, width / heads], or turned to [n, heads, width / heads, rows]. */
static void put_heads(writer *w, const shoal_node *n, int k, bool turned, const char *output)
{
  const shoal_shape *in = shoal_value_shape(w->f->model, n->in[k]);
  const int order[2][4] = { { 0, 2, 1, 3 }, { 0, 2, 3, 1 } };
  char part[VALUE_MAX];
  snprintf(part, sizeof part, "%.*s/split", (int)(sizeof part - sizeof "/split"), output);
  simple(w, "Reshape", value_of(w, n->in[k]),
         put_shape(w, output, &SHOAL_SHAPE(in->dim[0], n->heads, in->dim[1] / n->heads)), part);
  begin(w, "Transpose", output);
  take(w, part);
  add_ints(w, "perm", order[turned], 4);
  end(w);
}

/* 0 for what a query sees, and the lowest number of 32 bits for what it does not. */
static shoal_status put_mask(writer *w, const char *name, int64_t n)
{
  double *x;
  SHOAL_TRY(SHOAL_ALLOC((size_t)(n * n), &x));
  for (int64_t i = 0; i < n * n; i++) x[i] = i % n <= i / n ? 0 : -3.4028234663852886e38;
  put_constant(w, name, &SHOAL_SHAPE(n, n), x);
  free(x);
  return SHOAL_OK;
}

static void put_attention(writer *w, const shoal_node *n, const char *output)
{
  static const char *const ends[] = { "queries", "keys",   "values", "products", "scaled",
                                      "masked",  "shares", "heads",  "rows" };
  enum { Q, K, V, PRODUCTS, SCALED, MASKED, SHARES, HEADS, IN_ORDER, PARTS };
  char part[PARTS][VALUE_MAX], mask[VALUE_MAX], scale[VALUE_MAX];
  const int order[4] = { 0, 2, 1, 3 };
  const double by = 1 / sqrt((double)n->out.dim[1] / n->heads);
  for (int i = 0; i < PARTS; i++) snprintf(part[i], sizeof part[i], "%s/%s", n->name, ends[i]);
  snprintf(mask, sizeof mask, "%s/mask", n->name);
  snprintf(scale, sizeof scale, "%s/scale", n->name);
  for (int k = 0; k < 3; k++) put_heads(w, n, k, k == 1, part[k]);
  simple(w, "MatMul", part[Q], part[K], part[PRODUCTS]);
  put_constant(w, scale, &(shoal_shape){ 0 }, &by);
  simple(w, "Mul", part[PRODUCTS], scale, part[SCALED]);
  if (n->causal && w->st == SHOAL_OK) w->st = put_mask(w, mask, n->out.dim[0]);
  if (n->causal) simple(w, "Add", part[SCALED], mask, part[MASKED]);
  begin(w, "Softmax", part[SHARES]);
  take(w, part[n->causal ? MASKED : SCALED]);
  add_int(w, "axis", -1);
  end(w);
  simple(w, "MatMul", part[SHARES], part[V], part[HEADS]);
  begin(w, "Transpose", part[IN_ORDER]);
  take(w, part[HEADS]);
  add_ints(w, "perm", order, 4);
  end(w);
  simple(w, "Reshape", part[IN_ORDER], put_shape(w, n->name, &n->out), output);
}

static void take_all(writer *w, const shoal_node *n)
{
  for (int k = 0; k < shoal_node_inputs(n); k++) take(w, value_of(w, n->in[k]));
}

/* The operator of node n to output. */
static void put_operator(writer *w, const shoal_node *n, const char *output)
{
  const char *x = value_of(w, n->in[0]);
  const shoal_model *m = w->f->model;
  const char *weight = n->weight[0] >= 0 ? m->param[n->weight[0]].name : NULL;
  const char *bias = n->weight[1] >= 0 ? m->param[n->weight[1]].name : NULL;
  char mean[VALUE_MAX], var[VALUE_MAX];
  int order[SHOAL_MAX_DIMS] = { 0 };
  switch (n->kind) {
  case SHOAL_OP_LINEAR:
    put_linear(w, n, x, weight, bias, output);
    return;
  case SHOAL_OP_GELU:
    put_gelu(w, n->name, x, output);
    return;
  case SHOAL_OP_GELU_TANH:
    put_gelu_tanh(w, n->name, x, output);
    return;
  case SHOAL_OP_RELU:
    simple(w, "Relu", x, NULL, output);
    return;
  case SHOAL_OP_SIGMOID:
    simple(w, "Sigmoid", x, NULL, output);
    return;
  case SHOAL_OP_TANH:
    simple(w, "Tanh", x, NULL, output);
    return;
  case SHOAL_OP_SILU:
    snprintf(mean, sizeof mean, "%s/sigmoid", n->name);
    simple(w, "Sigmoid", x, NULL, mean);
    simple(w, "Mul", x, mean, output);
    return;
  case SHOAL_OP_HARDSWISH:
    simple(w, "HardSwish", x, NULL, output);
    return;
  case SHOAL_OP_HARDSIGMOID:
    begin(w, "HardSigmoid", output);
    take(w, x);
    add_float(w, "alpha", 1.0f / 6);
    add_float(w, "beta", 0.5f);
    break;
  case SHOAL_OP_LEAKYRELU:
    begin(w, "LeakyRelu", output);
    take(w, x);
    add_float(w, "alpha", n->slope);
    break;
  case SHOAL_OP_RELU6:
    begin(w, "Clip", output);
    take(w, x);
    take(w, number(w, "relu6/least", 0));
    take(w, number(w, "relu6/most", 6));
    break;
  case SHOAL_OP_ADD:
    begin(w, shoal_node_inputs(n) == 2 ? "Add" : "Sum", output);
    take_all(w, n);
    break;
  case SHOAL_OP_MUL:
    snprintf(mean, sizeof mean, "%s", value_of(w, n->in[1]));
    if (shoal_value_shape(m, n->in[1])->ndim == 1 && n->out.ndim == 3) {
      snprintf(mean, sizeof mean, "%s/scale", n->name);
      simple(w, "Reshape", value_of(w, n->in[1]), put_shape(w, n->name, &SHOAL_SHAPE(n->out.dim[0], 1, 1)), mean);
    }
    simple(w, "Mul", x, mean, output);
    return;
  case SHOAL_OP_CONCAT:
    begin(w, "Concat", output);
    take_all(w, n);
    add_int(w, "axis", 1);
    break;
  case SHOAL_OP_SLICE:
    put_slice(w, n, x, output);
    return;
  case SHOAL_OP_CONV:
    begin(w, "Conv", output);
    take(w, x);
    take(w, weight);
    if (bias) take(w, bias);
    add_windows(w, n);
    add_ints(w, "dilations", n->dilation, 2);
    add_int(w, "group", n->groups);
    break;
  case SHOAL_OP_MAXPOOL:
    begin(w, "MaxPool", output);
    take(w, x);
    add_windows(w, n);
    if (n->ceil) add_int(w, "ceil_mode", 1);
    break;
  case SHOAL_OP_AVGPOOL:
    begin(w, "AveragePool", output);
    take(w, x);
    add_windows(w, n);
    add_int(w, "count_include_pad", n->count_pad);
    if (n->ceil) add_int(w, "ceil_mode", 1);
    break;
  case SHOAL_OP_BATCHNORM:
    snprintf(mean, sizeof mean, "%s.running_mean", n->name);
    snprintf(var, sizeof var, "%s.running_var", n->name);
    begin(w, "BatchNormalization", output);
    take(w, x);
    take(w, weight);
    take(w, bias);
    take(w, mean);
    take(w, var);
    add_float(w, "epsilon", n->eps);
    add_float(w, "momentum", 1 - n->momentum); /* theirs is the share that stays */
    break;
  case SHOAL_OP_LAYERNORM:
    begin(w, "LayerNormalization", output);
    take(w, x);
    take(w, weight);
    take(w, bias);
    add_int(w, "axis", -1);
    add_float(w, "epsilon", n->eps);
    break;
  case SHOAL_OP_GLOBALPOOL:
    snprintf(mean, sizeof mean, "%s/plane", n->name);
    simple(w, "GlobalAveragePool", x, NULL, mean);
    begin(w, "Flatten", output);
    take(w, mean);
    break;
  case SHOAL_OP_FLATTEN:
    begin(w, "Flatten", output);
    take(w, x);
    break;
  case SHOAL_OP_ATTENTION:
    put_attention(w, n, output);
    return;
  case SHOAL_OP_EMBEDDING:
    simple(w, "Gather", weight, x, output);
    return;
  case SHOAL_OP_PARAMETER:
    put_parameter(w, n, weight, output);
    return;
  case SHOAL_OP_RESHAPE:
    simple(w, "Reshape", x, put_shape(w, n->name, &n->out), output);
    return;
  case SHOAL_OP_TRANSPOSE:
    begin(w, "Transpose", output);
    take(w, x);
    for (int k = 0; k < n->out.ndim; k++) order[k + 1] = n->order[k] + 1;
    add_ints(w, "perm", order, n->out.ndim + 1);
    break;
  case SHOAL_OP_DROPOUT:
  case SHOAL_OP_COUNT:
    begin(w, "Identity", output);
    take(w, x);
    break;
  }
  end(w);
}

static void put_layer(writer *w, int i)
{
  const shoal_model *m = w->f->model;
  const shoal_node *n = &m->node[i];
  bool last = i == m->nodes - 1;
  char before[VALUE_MAX];
  if (n->kind == SHOAL_OP_DROPOUT && !last) {
    snprintf(w->value[i], VALUE_MAX, "%s", value_of(w, n->in[0]));
    return;
  }
  snprintf(w->value[i], VALUE_MAX, last ? "logits" : "%s/out", n->name);
  snprintf(before, sizeof before, "%s/before_relu", n->name);
  put_operator(w, n, n->relu ? before : w->value[i]);
  if (n->relu) simple(w, "Relu", before, NULL, w->value[i]);
}

/* ---- the graph ---- */

/* [N, …] of f32. */
static void put_value(writer *w, unsigned field, const char *name, unsigned element, const shoal_shape *sample)
{
  shoal_proto dim = { 0 }, shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
  shoal_proto_text(&dim, 2, "N");
  shoal_proto_message(&shape, 1, &dim);
  for (int d = 0; d < sample->ndim; d++) {
    dim.n = 0;
    shoal_proto_number(&dim, 1, (uint64_t)sample->dim[d]);
    shoal_proto_message(&shape, 1, &dim);
  }
  shoal_proto_number(&tensor, 1, element);
  shoal_proto_message(&tensor, 2, &shape);
  shoal_proto_message(&type, 1, &tensor);
  shoal_proto_text(&value, 1, name);
  shoal_proto_message(&value, 2, &type);
  shoal_proto_message(&w->graph, field, &value);
  shoal_proto *const all[] = { &dim, &shape, &tensor, &type, &value };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) shoal_proto_free(all[i]);
}

static shoal_status put_graph(writer *w)
{
  const shoal_model *m = w->f->model;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->nodes, &w->value));
  shoal_proto_text(&w->graph, GRAPH_NAME, m->name);
  const bool tokens = shoal_model_reads_tokens(m);
  snprintf(w->input, sizeof w->input, tokens ? "input" : "input/normalised");
  if (!tokens) {
    put_scale(w, "input/mean", w->f->mean);
    put_scale(w, "input/std", w->f->std);
    simple(w, "Sub", "input", "input/mean", "input/centred");
    simple(w, "Div", "input/centred", "input/std", w->input);
  }
  snprintf(w->last, sizeof w->last, "%s/out", m->node[m->nodes - 1].name);
  for (int i = 0; i < m->nodes; i++) put_layer(w, i);
  SHOAL_TRY(w->st);
  const shoal_shape *out = &m->node[m->nodes - 1].out;
  put_value(w, GRAPH_INPUT, "input", tokens ? I64 : F32, &m->input);
  if (w->f->targets > 0) {
    put_constant(w, "target/mean", out, w->f->target_mean);
    put_constant(w, "target/std", out, w->f->target_std);
    simple(w, "Mul", "logits", "target/std", "logits/scaled");
    simple(w, "Add", "logits/scaled", "target/mean", "predictions");
    put_value(w, GRAPH_OUTPUT, "predictions", F32, out);
    return SHOAL_OK;
  }
  begin(w, "Softmax", "probabilities");
  take(w, "logits");
  add_int(w, "axis", -1);
  end(w);
  put_value(w, GRAPH_OUTPUT, "probabilities", F32, out);
  put_value(w, GRAPH_OUTPUT, "logits", F32, out);
  return SHOAL_OK;
}

static void put_fact(void *ctx, const char *key, const char *text)
{
  shoal_proto entry = { 0 };
  shoal_proto_text(&entry, 1, key);
  shoal_proto_text(&entry, 2, text);
  shoal_proto_message(ctx, MODEL_FACTS, &entry);
  shoal_proto_free(&entry);
}

static void put_model(const shoal_foreign *f, shoal_proto *model)
{
  shoal_proto opset = { 0 };
  shoal_proto_number(model, MODEL_IR, IR_VERSION);
  shoal_proto_text(model, MODEL_PRODUCER, "shoal");
  shoal_proto_text(model, MODEL_VERSION, SHOAL_VERSION);
  shoal_proto_text(&opset, 1, "");
  shoal_proto_number(&opset, 2, OPSET);
  shoal_proto_message(model, MODEL_OPSET, &opset);
  shoal_foreign_facts(f, put_fact, model);
  shoal_proto_free(&opset);
}

/* What stands before the values of a tensor in the graph, and in *bytes the length of all of it. */
static void put_tensor_head(const shoal_foreign_tensor *t, shoal_proto *head, double *bytes)
{
  shoal_proto inner = { 0 };
  size_t raw = t->count * sizeof(float);
  for (int d = 0; d < t->shape.ndim; d++) shoal_proto_number(&inner, TENSOR_DIM, (uint64_t)t->shape.dim[d]);
  shoal_proto_number(&inner, TENSOR_TYPE, F32);
  shoal_proto_text(&inner, TENSOR_NAME, t->name);
  shoal_proto_head(&inner, TENSOR_RAW, raw);
  head->n = 0;
  shoal_proto_head(head, GRAPH_TENSOR, inner.n + raw);
  shoal_proto_append(head, &inner);
  *bytes = (double)head->n + (double)raw;
  shoal_proto_free(&inner);
}

static shoal_status put_file(writer *w, const shoal_foreign_tensor *t, size_t n, const char *path)
{
  const double most = 2147483647; /* of a protobuf message */
  shoal_proto model = { 0 }, head = { 0 };
  shoal_foreign_file o;
  double graph = (double)w->graph.n, bytes;
  for (size_t i = 0; i < n; i++) {
    put_tensor_head(&t[i], &head, &bytes);
    graph += bytes;
  }
  put_model(w->f, &model);
  shoal_status st = SHOAL_OK;
  if (graph + (double)model.n + 16 > most)
    st = SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED,
                    "%s would have %.1f GiB, and a file of ONNX has 2 GiB at most; write NAME.safetensors or NAME.h5",
                    path, graph / 1073741824);
  if (st == SHOAL_OK) shoal_proto_head(&model, MODEL_GRAPH, (uint64_t)graph);
  bool opened = st == SHOAL_OK;
  if (opened) st = shoal_foreign_open(&o, path, graph + (double)model.n);
  if (st == SHOAL_OK) {
    shoal_foreign_put(&o, model.bytes, model.n);
    shoal_foreign_put(&o, w->graph.bytes, w->graph.n);
  }
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) {
    put_tensor_head(&t[i], &head, &bytes);
    shoal_foreign_put(&o, head.bytes, head.n);
    st = shoal_foreign_put_tensor(&o, w->f, &t[i]);
  }
  if (opened) st = shoal_foreign_close(&o, st);
  shoal_proto_free(&model);
  shoal_proto_free(&head);
  return st;
}

shoal_status shoal_foreign_onnx(const shoal_foreign *f, const char *path)
{
  writer w = { .f = f };
  shoal_foreign_tensor *t = NULL;
  size_t n;
  shoal_status st = put_graph(&w);
  if (st == SHOAL_OK) st = shoal_foreign_tensors(f->model, &t, &n);
  if (st == SHOAL_OK) st = put_file(&w, t, n, path);
  shoal_proto *const all[] = { &w.graph, &w.node, &w.part };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) shoal_proto_free(all[i]);
  shoal_texts_free(&w.numbers);
  free(w.value);
  free(t);
  return st;
}
