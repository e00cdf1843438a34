/* See import.h.  Nodes are taken in the order of computation: what is known is computed (onnx_fold.c), the rest are layers.
 *
 * One table has all operators that become layers, with their numbers of inputs and their attributes.  An attribute that is
 * not in it, or has another value than the table allows, is refused with node and value, and so is any other operator. */
#include "nn/onnx_import.h"
#include "base/error.h"
#include "base/mem.h"
#include "nn/import.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *op;
  int low, high;          /* inputs */
  const char *attributes; /* "kernel_shape group=1": any value, and this value only */
  shoal_status (*take)(shoal_import *im, const shoal_onnx_node *n);
} operator;

static const operator operators[] = {
  { "Add", 2, 2, "", shoal_take_add },
  { "AveragePool", 1, 1, "kernel_shape strides pads count_include_pad ceil_mode dilations=1 auto_pad=NOTSET",
    shoal_take_pool },
  { "BatchNormalization", 5, 5, "epsilon momentum training_mode spatial=1", shoal_take_batchnorm },
  { "Cast", 1, 1, "to saturate", shoal_take_cast },
  { "Clip", 1, 3, "min max", shoal_take_clip },
  { "Concat", 2, SHOAL_OP_INPUTS, "axis", shoal_take_concat },
  { "Conv", 2, 3, "kernel_shape strides pads group dilations auto_pad=NOTSET", shoal_take_conv },
  { "Div", 2, 2, "", shoal_take_scale },
  { "Dropout", 1, 3, "ratio seed", shoal_take_dropout },
  { "Flatten", 1, 1, "axis", shoal_take_flatten },
  { "Gelu", 1, 1, "approximate", shoal_take_gelu },
  { "Gemm", 2, 3, "transB transA=0 alpha=1 beta=1", shoal_take_gemm },
  { "Gather", 2, 2, "axis", shoal_take_gather },
  { "GlobalAveragePool", 1, 1, "", shoal_take_global_pool },
  { "HardSigmoid", 1, 1, "alpha beta", shoal_take_hardsigmoid },
  { "HardSwish", 1, 1, "", shoal_take_curve },
  { "Identity", 1, 1, "", shoal_take_same },
  { "LayerNormalization", 2, 3, "axis epsilon stash_type=1", shoal_take_layernorm },
  { "LeakyRelu", 1, 1, "alpha", shoal_take_leakyrelu },
  { "MatMul", 2, 2, "", shoal_take_matmul },
  { "MaxPool", 1, 1, "kernel_shape strides pads ceil_mode dilations=1 storage_order=0 auto_pad=NOTSET",
    shoal_take_pool },
  { "Mul", 2, 2, "", shoal_take_mul },
  { "Pad", 1, 4, "pads mode=constant value=0", shoal_take_pad },
  { "ReduceMean", 1, 2, "axes keepdims noop_with_empty_axes", shoal_take_mean },
  { "Relu", 1, 1, "", shoal_take_curve },
  { "Reshape", 2, 2, "allowzero", shoal_take_reshape },
  { "Sigmoid", 1, 1, "", shoal_take_curve },
  { "Slice", 1, 5, "starts ends axes", shoal_take_slice },
  { "Softmax", 1, 1, "axis", shoal_take_softmax },
  { "Split", 1, 2, "axis split num_outputs", shoal_take_split },
  { "Squeeze", 1, 2, "axes", shoal_take_squeeze },
  { "Sub", 2, 2, "", shoal_take_scale },
  { "Sum", 2, SHOAL_OP_INPUTS, "", shoal_take_add },
  { "Tanh", 1, 1, "", shoal_take_curve },
  { "Transpose", 1, 1, "perm", shoal_take_transpose },
  { "Unsqueeze", 1, 2, "axes", shoal_take_squeeze },
  { "Where", 3, 3, "", shoal_take_where },
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
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  const shoal_onnx_tensor *t = shoal_onnx_known(&im->g, n, 0);
  int ndim = x   ? x->ndim
             : t ? t->ndim
                 : 0,
      first = (int)shoal_import_int(n, "start", 0), last = (int)shoal_import_int(n, "end", ndim);
  int64_t *list;
  if (!x && !t) return shoal_import_refuse("its input has no shape");
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
  for (int k = 1; k < n->outs && !(o && o->take == shoal_take_split); k++)
    if (n->out[k] >= 0 && im->g.value[n->out[k]].readers > 0)
      return shoal_import_refuse("more than its first output is used");
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

/* How an export of ours (onnx.c) ends that predicts numbers: outputs get the mean and standard deviation of the targets back. */
static bool rescales(const shoal_import *im, const shoal_onnx_node *n)
{
  const char *by = n->ins == 2 && n->in[1] >= 0 ? im->g.value[n->in[1]].name : "";
  return strcmp(by, "target/mean") == 0 || strcmp(by, "target/std") == 0;
}

/* The logits: what the first output is before a softmax.  Others that are the same, such as probabilities, are no news. */
static int before_softmax(const shoal_import *im, int v)
{
  while (im->g.value[v].producer >= 0) {
    const shoal_onnx_node *n = &im->g.node[im->g.value[v].producer];
    bool passes = strcmp(n->op, "Softmax") == 0 || strcmp(n->op, "LogSoftmax") == 0 || strcmp(n->op, "Identity") == 0 ||
                  rescales(im, n);
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

/* Whether a node turns the input, as it is or scaled, from channels last to channels first. */
static bool turns_input(const shoal_onnx_graph *g, const shoal_onnx_node *n)
{
  static const int64_t order[] = { 0, 3, 1, 2 };
  const shoal_onnx_attribute *p = shoal_onnx_attribute_of(n, "perm");
  if (!n->live || n->domain[0] || strcmp(n->op, "Transpose") != 0 || !p || p->n != SHOAL_COUNT(order) || !p->list)
    return false;
  if (memcmp(p->list, order, sizeof order) != 0) return false;
  int v = n->in[0];
  while (v >= 0 && v != g->input && g->value[v].producer >= 0) {
    const shoal_onnx_node *before = &g->node[g->value[v].producer];
    const bool scales =
        strcmp(before->op, "Mul") == 0 || strcmp(before->op, "Div") == 0 || strcmp(before->op, "Sub") == 0;
    if (!scales) return false;
    v = before->in[0];
  }
  return v == g->input;
}

/* Images of TensorFlow and Keras have their channels last, and exporters turn them for convolutions, which know channels first. */
static bool has_channels_last(const shoal_onnx_graph *g)
{
  bool turned = false;
  if (g->input_ndim != 4) return false;
  for (int i = 0; i < g->nodes && !turned; i++) turned = turns_input(g, &g->node[i]);
  return turned;
}

/* Samples have channels first here: what the file calls its input is a view of them. */
static void turn_input(shoal_import *im, shoal_shape *sample)
{
  const int64_t *d = im->g.input_dim, height = d[1], width = d[2], channels = d[3];
  shoal_import_value *v = &im->at[im->g.input];
  const int64_t step[] = { channels * height * width, width, 1, height * width };
  char was[192], is[192];
  memcpy(v->step, step, sizeof step);
  *sample = SHOAL_SHAPE(channels, height, width);
  im->channels = 3;
  (void)shoal_texts_take(&im->notes, shoal_strdup_printf("its input %s has channels last, %s; samples have them first "
                                                         "here, %s, as images are imported, and are turned for it",
                                                         im->g.value[im->g.input].name,
                                                         shoal_onnx_shape_text(4, d, was, sizeof was),
                                                         shoal_shape_text(sample, is)));
}

static shoal_status take_input(shoal_import *im)
{
  shoal_onnx_graph *g = &im->g;
  const char *name = g->value[g->input].name;
  char shape[192];
  shoal_shape sample = { .ndim = g->input_ndim - 1 };
  shoal_onnx_shape_text(g->input_ndim, g->input_dim, shape, sizeof shape);
  SHOAL_CHECK(g->input_type == SHOAL_ONNX_F32 || g->input_type == SHOAL_ONNX_I64 || g->input_type == SHOAL_ONNX_I32,
              SHOAL_ERR_UNSUPPORTED,
              "%s: its input %s is of ONNX's type %d; inputs are f32 here, or whole numbers: tokens", g->path, name,
              g->input_type);
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
  im->at[g->input] = shoal_import_dense(-1, g->input_ndim, g->input_dim);
  im->channels = 1;
  if (has_channels_last(g)) turn_input(im, &sample);
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

/* Layers of which parts became layers of their own, and that nobody else reads. */
static shoal_status drop_unread(shoal_import *im)
{
  int *number, kept = 0;
  size_t n = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)im->text.n, &number));
  for (int i = im->text.n - 2; i >= 0; i--) {
    const shoal_text_layer *l = &im->text.layers[i];
    for (int k = 0; l->readers == 0 && k < shoal_node_inputs(&l->node); k++)
      if (l->node.in[k] >= 0) im->text.layers[l->node.in[k]].readers--;
  }
  for (int i = 0; i < im->text.n; i++) {
    shoal_text_layer *l = &im->text.layers[i];
    number[i] = l->readers == 0 && i < im->text.n - 1 ? -1 : kept++;
    if (number[i] < 0) continue;
    for (int k = 0; k < shoal_node_inputs(&l->node); k++)
      if (l->node.in[k] >= 0) l->node.in[k] = number[l->node.in[k]];
    if (number[i] < i) im->text.layers[number[i]] = *l;
  }
  for (size_t k = 0; k < im->n; k++) {
    im->weights[n] = im->weights[k];
    im->weights[n].layer = number[im->weights[k].layer];
    n += im->weights[n].layer >= 0;
  }
  im->n = n;
  im->text.n = kept;
  free(number);
  return SHOAL_OK;
}

static shoal_status finish(shoal_import *im, int output)
{
  const shoal_import_value *v = &im->at[output];
  char is[192];
  bool tokens = false;
  im->text.yaml.origin = im->g.path;
  SHOAL_CHECK(v->ndim > 0 && im->text.n > 0, SHOAL_ERR_UNSUPPORTED, "%s: its output does not depend on its input",
              im->g.path);
  for (int i = 0; i < im->text.n; i++) tokens |= im->text.layers[i].node.kind == SHOAL_OP_EMBEDDING;
  SHOAL_CHECK(tokens || im->g.input_type == SHOAL_ONNX_F32, SHOAL_ERR_UNSUPPORTED,
              "%s: its input is of whole numbers, and no table of an embedding has rows for them", im->g.path);
  SHOAL_CHECK(v->ndim == (tokens ? im->g.input_ndim + 1 : 2) && shoal_import_own_shape(im, v) &&
                  v->layer == im->text.n - 1,
              SHOAL_ERR_UNSUPPORTED, "%s: its output %s is %s; only outputs %s of the last layer are trained here",
              im->g.path, im->g.value[output].name, shoal_onnx_shape_text(v->ndim, v->dim, is, sizeof is),
              tokens ? "[N,tokens,classes]" : "[N,classes]");
  im->text.classes = v->dim[v->ndim - 1];
  SHOAL_TRY(drop_unread(im));
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
  const shoal_import_weight *w = NULL;
  shoal_host_float *x;
  for (size_t k = 0; k < im->n && !w; k++)
    if (strcmp(im->weights[k].name, name) == 0) w = &im->weights[k];
  SHOAL_CHECK(w && (!w->t || w->rows || w->t->count == n), SHOAL_ERR_INTERNAL, "%s: no tensor %s of %zu numbers",
              im->g.path, name, n);
  memset(out, 0, n * sizeof *out);
  if (!w->t) return SHOAL_OK;
  SHOAL_TRY(shoal_onnx_reals(&im->g, w->t, &x));
  const size_t rows = w->rows ? (size_t)w->picked : w->turned ? (size_t)w->t->dim[1] : 1, cols = n / rows;
  const size_t step = w->turned ? (size_t)w->t->dim[1] : 1; /* of a row's elements */
  for (size_t r = 0; r < rows; r++) {
    const shoal_host_float *row = x + (w->rows ? (size_t)w->rows[r] : r) * (w->turned ? 1 : cols);
    for (size_t c = 0; c < cols; c++) out[r * cols + c] = row[c * step];
  }
  free(x);
  return SHOAL_OK;
}
