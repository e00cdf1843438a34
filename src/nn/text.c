/* A network of its text: names become numbers, relus are fused, units are chosen; then the model is built node by node, and
 * what does not fit is told with the place of its layer. */
#include "nn/text.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "nn/text_impl.h"
#include <stdlib.h>
#include <string.h>

/* ---- names, relus, units ---- */

static int find_layer(const shoal_text *r, const char *name, int before)
{
  for (int i = 0; i < before; i++)
    if (strcmp(r->layers[i].node.name, name) == 0) return i;
  return SHOAL_NO_INPUT;
}

static shoal_status resolve_input(const shoal_text *r, int i, int k)
{
  shoal_text_layer *l = &r->layers[i];
  const char *name = l->in.at[k];
  l->node.in[k] = strcmp(name, "input") == 0 ? -1 : find_layer(r, name, i);
  if (l->node.in[k] != SHOAL_NO_INPUT) return SHOAL_OK;
  const char **names;
  SHOAL_TRY(SHOAL_ALLOC((size_t)r->n, &names));
  for (int j = 0; j < i; j++) names[j] = r->layers[j].node.name;
  const char *near = shoal_nearest(name, names, (size_t)i);
  bool later = find_layer(r, name, r->n) >= 0;
  free(names);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s:%d:%d: layer %s reads \"%s\", %s%s%s", r->yaml.origin, l->in_line,
                    l->in_column, l->node.name, name,
                    later ? "which is not before it; write layers in the order of computation" : "which is no layer",
                    !later && near ? "; did you mean " : "", !later && near ? near : "");
}

static shoal_status resolve(shoal_text *r)
{
  for (int i = 0; i < r->n; i++) {
    shoal_text_layer *l = &r->layers[i];
    shoal_op_arity takes = shoal_op_arity_of(l->node.kind);
    int names = (int)l->in.n;
    SHOAL_CHECK(strcmp(l->node.name, "input") != 0 && find_layer(r, l->node.name, i) < 0, SHOAL_ERR_USAGE,
                SHOAL_AT_LAYER "%s; choose another name", SHOAL_LAYER_PLACE(r, l),
                strcmp(l->node.name, "input") == 0 ? "this is the name of the network's input"
                                                   : "a layer before it has this name");
    SHOAL_CHECK((names == 0 && takes.least <= 1) || (names >= takes.least && names <= takes.most), SHOAL_ERR_USAGE,
                SHOAL_AT_LAYER "%s reads %d%s layer%s; in names %d%s", SHOAL_LAYER_PLACE(r, l),
                shoal_op_kind_name(l->node.kind), takes.least, takes.most > takes.least ? " or more" : "",
                takes.most == 1 ? "" : "s", names, takes.least > 1 ? ", write in: [one, other]" : "");
    l->node.in[0] = takes.most == 0 ? SHOAL_NO_INPUT : i - 1;
    for (int k = 0; k < names; k++) SHOAL_TRY(resolve_input(r, i, k));
    for (int k = 0; k < shoal_node_inputs(&l->node); k++)
      if (l->node.in[k] >= 0) r->layers[l->node.in[k]].readers++;
  }
  return SHOAL_OK;
}

static bool may_have_relu(const shoal_text_layer *l)
{
  return shoal_layer_keys[shoal_layer_key_number("relu")].kinds >> l->node.kind & 1;
}

/* A relu that is the only reader of a layer which may have one becomes part of it. */
static shoal_status fuse_relus(shoal_text *r)
{
  int *number, kept = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)r->n, &number));
  for (int i = 0; i < r->n; i++) {
    shoal_text_layer *l = &r->layers[i];
    for (int k = 0; k < shoal_node_inputs(&l->node); k++)
      if (l->node.in[k] >= 0) l->node.in[k] = number[l->node.in[k]];
    shoal_text_layer *from = l->node.in[0] >= 0 ? &r->layers[l->node.in[0]] : NULL;
    bool fused = l->node.kind == SHOAL_OP_RELU && !l->facts.cut && from && from->readers == 1 && may_have_relu(from) &&
                 !from->facts.relu;
    if (fused) {
      from->facts.relu = true;
      from->readers = l->readers;
      number[i] = l->node.in[0];
      shoal_texts_free(&l->in);
      continue;
    }
    number[i] = kept;
    if (kept < i) {
      r->layers[kept] = *l;
      l->in = (shoal_texts){ 0 };
    }
    kept++;
  }
  r->n = kept;
  free(number);
  return SHOAL_OK;
}

/* Units where nobody says: one begins before each layer with a weight matrix, if no later layer reads anything from before it
 * but the last tensor. */
static shoal_status choose_units(shoal_text *r)
{
  int *last, reach = -1; /* last reader of value v - 1; of all values but the one just before */
  if (r->cuts) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)r->n + 1, &last));
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < shoal_node_inputs(&r->layers[i].node); k++) last[r->layers[i].node.in[k] + 1] = i;
  for (int i = 1; i < r->n; i++) {
    shoal_text_layer *l = &r->layers[i];
    reach = SHOAL_MAX(reach, last[i - 1]);
    l->facts.cut = reach < i && (l->node.kind == SHOAL_OP_LINEAR || l->node.kind == SHOAL_OP_CONV);
  }
  free(last);
  return SHOAL_OK;
}

/* ---- building ---- */

static bool is_weighted(shoal_op_kind kind)
{
  return kind == SHOAL_OP_LINEAR || kind == SHOAL_OP_CONV;
}

shoal_node shoal_text_node(const shoal_text_layer *l, int64_t classes)
{
  const shoal_layer_facts *f = &l->facts;
  shoal_node n = l->node;
  bool pool = n.kind == SHOAL_OP_MAXPOOL || n.kind == SHOAL_OP_AVGPOOL;
  if (shoal_layer_keys[shoal_layer_key_number("kernel")].kinds >> n.kind & 1)
    for (int k = 0; k < 2; k++) {
      n.kernel[k] = (int)f->kernel[k];
      n.stride[k] = (int)(f->stride[k] ? f->stride[k] : pool ? f->kernel[k] : 1);
      n.pad[k] = (int)f->pad[k];
      n.dilation[k] = (int)f->dilation[k];
    }
  n.groups = (int)f->groups;
  n.heads = (int)f->heads;
  n.causal = f->causal;
  n.first = f->first;
  n.rows = n.kind == SHOAL_OP_EMBEDDING ? f->rows ? f->rows : classes : 0;
  n.ceil = f->ceil;
  n.count_pad = f->count_pad;
  n.shape = f->shape;
  for (int k = 0; k < SHOAL_MAX_DIMS - 1; k++) n.order[k] = k < f->order.ndim ? (int)f->order.dim[k] : -1;
  n.bias = is_weighted(n.kind) && f->bias;
  n.relu = f->relu;
  n.tied = f->tied;
  n.eps = (float)f->eps;
  n.momentum = (float)f->momentum;
  n.p = (float)f->p;
  n.slope = (float)f->slope;
  n.residual = (int)f->block;
  n.out.dim[0] = f->width ? f->width : classes;
  return n;
}

/* Messages begin with the place in a text, or of other networks with the name of their file. */
static shoal_status at_layer(const shoal_text *r, const shoal_text_layer *l, shoal_status st)
{
  st = l->line ? shoal_error_prefix(st, SHOAL_YAML_AT, r->yaml.origin, l->line, l->column)
               : shoal_error_prefix(st, "%s: ", r->yaml.origin);
  return st == SHOAL_ERR_ARG ? shoal_error_as(st, SHOAL_ERR_USAGE) : st;
}

static shoal_status build_layer(const shoal_text *r, const shoal_text_layer *l, int *unit, shoal_model *m)
{
  shoal_node n = shoal_text_node(l, m->classes);
  n.unit = *unit += l->facts.cut && m->nodes > 0;
  bool drawn = shoal_layer_keys[shoal_layer_key_number("init")].kinds >> n.kind & 1;
  return at_layer(r, l, shoal_model_add(m, &n, drawn ? l->facts.init : SHOAL_INIT_ZERO, NULL));
}

static shoal_status check_output(const shoal_text *r, const shoal_model *m)
{
  const shoal_text_layer *l = &r->layers[r->n - 1];
  const shoal_shape *out = &m->node[m->nodes - 1].out;
  char text[SHOAL_SHAPE_TEXT], wanted[SHOAL_SHAPE_TEXT];
  bool tokens = shoal_model_reads_tokens(m);
  shoal_shape whole = tokens ? m->input : (shoal_shape){ 0 }; /* of tokens, for each of them */
  whole.dim[whole.ndim++] = m->classes;
  if (shoal_shape_equal(out, &whole)) return SHOAL_OK;
  if (tokens)
    return at_layer(
        r, l,
        SHOAL_FAIL(SHOAL_ERR_USAGE,
                   "layer %s: its output is %s for a sample, but the last layer must give %s: for each token "
                   "one number for each that may follow; end with { op: linear, width: classes }",
                   l->node.name, shoal_shape_text(out, text), shoal_shape_text(&whole, wanted)));
  return at_layer(r, l,
                  SHOAL_FAIL(SHOAL_ERR_USAGE,
                             "layer %s: its output is %s for a sample, but the last layer must give one number for "
                             "each of the %lld classes; end with { op: linear, width: classes }",
                             l->node.name, shoal_shape_text(out, text), (long long)m->classes));
}

static shoal_status finish(const shoal_text *r, shoal_model *m)
{
  SHOAL_TRY(check_output(r, m));
  shoal_status st = shoal_model_finish(m);
  return st == SHOAL_ERR_ARG ? at_layer(r, &r->layers[m->culprit], st) : st;
}

/* The shape and the classes: of the data, and as the text states them. */
static shoal_status agree(shoal_text *r, const shoal_shape *input, int64_t classes)
{
  char is[SHOAL_SHAPE_TEXT], said[SHOAL_SHAPE_TEXT];
  SHOAL_CHECK(input || (r->input.ndim && r->classes), SHOAL_ERR_USAGE, "%s does not say %s; add %s", r->yaml.origin,
              r->input.ndim ? "how many classes it has" : "for which inputs it is",
              r->input.ndim ? "\"classes: 10\"" : "\"input: [3, 32, 32]\" and \"classes: 10\"");
  if (!input) return SHOAL_OK;
  if (r->input.ndim == 3) SHOAL_TRY(shoal_model_check_image("model", r->name, input));
  SHOAL_CHECK(
      !r->input.ndim || shoal_shape_equal(&r->input, input), SHOAL_ERR_USAGE,
      "%s:%d: the network is for inputs %s, and samples of the data are %s; leave input out if other shapes will do",
      r->yaml.origin, r->input_line, shoal_shape_text(&r->input, said), shoal_shape_text(input, is));
  SHOAL_CHECK(
      !r->classes || r->classes == classes, SHOAL_ERR_USAGE,
      "%s:%d: the network is for %lld classes, and the data have %lld; leave classes out and write width: classes",
      r->yaml.origin, r->classes_line, (long long)r->classes, (long long)classes);
  r->input = *input;
  r->classes = classes;
  return SHOAL_OK;
}

/* "nets/wide.yaml" is called wide. */
static void take_origin(const char *origin, char name[SHOAL_NAME_MAX])
{
  const char *base = strrchr(origin, '/');
  base = base ? base + 1 : origin;
  snprintf(name, SHOAL_NAME_MAX, "%.*s", (int)strcspn(base, "."), base);
  if (!name[0]) snprintf(name, SHOAL_NAME_MAX, "network");
}

shoal_status shoal_text_build(shoal_text *r, shoal_model **out)
{
  shoal_model *m;
  int unit = 0;
  SHOAL_TRY(fuse_relus(r));
  SHOAL_TRY(choose_units(r));
  if (!r->name[0]) take_origin(r->yaml.origin, r->name);
  SHOAL_TRY(shoal_model_create(r->name, &r->input, r->classes, &m));
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < r->n && st == SHOAL_OK; i++) st = build_layer(r, &r->layers[i], &unit, m);
  if (st == SHOAL_OK) st = finish(r, m);
  if (st == SHOAL_OK)
    *out = m;
  else
    shoal_model_destroy(m);
  return st;
}

shoal_status shoal_model_from_text(const char *text, size_t n, const char *origin, const shoal_shape *input,
                                   int64_t classes, shoal_model **out)
{
  shoal_text r = { 0 };
  shoal_status st = shoal_yaml_open(text, n, origin, &r.yaml);
  if (st == SHOAL_OK) st = shoal_text_read(&r);
  if (st == SHOAL_OK) st = agree(&r, input, classes);
  if (st == SHOAL_OK) st = resolve(&r);
  if (st == SHOAL_OK) st = shoal_text_build(&r, out);
  if (st == SHOAL_OK) (*out)->text = shoal_strdup_printf("%.*s", (int)n, text);
  shoal_text_free(&r);
  shoal_yaml_close(&r.yaml);
  return st;
}

shoal_status shoal_model_from_file(const char *path, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  char *text;
  size_t n;
  SHOAL_TRY(shoal_read_file(path, &text, &n));
  shoal_status st = shoal_model_from_text(text, n, path, input, classes, out);
  free(text);
  return st;
}
