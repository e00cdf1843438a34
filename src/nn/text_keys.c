/* The table of keys, their defaults, and the writer that uses both: a key is written where its value is not the default. */
#include "base/mem.h"
#include "nn/text_impl.h"
#include <stdlib.h>
#include <string.h>

#define BIT(kind)  (UINT64_C(1) << SHOAL_OP_##kind)
#define WEIGHTED   (BIT(LINEAR) | BIT(CONV))
#define LEARNED    (BIT(PARAMETER) | BIT(EMBEDDING))
#define WINDOWED   (BIT(CONV) | BIT(MAXPOOL) | BIT(AVGPOOL))
#define NORMS      (BIT(BATCHNORM) | BIT(LAYERNORM))
#define AT(member) offsetof(shoal_layer_facts, member)
enum { MOST = 1 << 30 }; /* of any size: they are ints in an operation */

const shoal_layer_key shoal_layer_keys[] = {
  { "width", SHOAL_KEY_WIDTH, true, AT(width), WEIGHTED | BIT(EMBEDDING), 1, MOST },
  { "rows", SHOAL_KEY_WIDTH, true, AT(rows), BIT(EMBEDDING), 1, SHOAL_OP_ROWS },
  { "first", SHOAL_KEY_COUNT, false, AT(first), BIT(SLICE), 0, MOST },
  { "count", SHOAL_KEY_COUNT, true, AT(width), BIT(SLICE), 1, MOST },
  { "kernel", SHOAL_KEY_PAIR, true, AT(kernel), WINDOWED, 1, MOST },
  { "stride", SHOAL_KEY_PAIR, false, AT(stride), WINDOWED, 1, MOST },
  { "pad", SHOAL_KEY_PAIR, false, AT(pad), WINDOWED, 0, MOST },
  { "dilation", SHOAL_KEY_PAIR, false, AT(dilation), BIT(CONV), 1, MOST },
  { "heads", SHOAL_KEY_COUNT, true, AT(heads), BIT(ATTENTION), 1, MOST },
  { "causal", SHOAL_KEY_FLAG, false, AT(causal), BIT(ATTENTION), 0, 0 },
  { "groups", SHOAL_KEY_COUNT, false, AT(groups), BIT(CONV), 1, MOST },
  { "ceil", SHOAL_KEY_FLAG, false, AT(ceil), BIT(MAXPOOL) | BIT(AVGPOOL), 0, 0 },
  { "count_pad", SHOAL_KEY_FLAG, false, AT(count_pad), BIT(AVGPOOL), 0, 0 },
  { "shape", SHOAL_KEY_LIST, true, AT(shape), BIT(RESHAPE) | BIT(PARAMETER), -1, MOST },
  { "order", SHOAL_KEY_LIST, true, AT(order), BIT(TRANSPOSE), 0, SHOAL_MAX_DIMS - 2 },
  { "bias", SHOAL_KEY_FLAG, false, AT(bias), WEIGHTED, 0, 0 },
  { "tied", SHOAL_KEY_FLAG, false, AT(tied), BIT(LINEAR), 0, 0 },
  { "init", SHOAL_KEY_INIT, false, AT(init), WEIGHTED | LEARNED, 0, 0 },
  { "eps", SHOAL_KEY_REAL, false, AT(eps), NORMS, 1e-30, 1 },
  { "momentum", SHOAL_KEY_REAL, false, AT(momentum), BIT(BATCHNORM), 0, 1 },
  { "p", SHOAL_KEY_REAL, true, AT(p), BIT(DROPOUT), 0, 1 },
  { "slope", SHOAL_KEY_REAL, false, AT(slope), BIT(LEAKYRELU), -1e6, 1e6 },
  { "relu", SHOAL_KEY_FLAG, false, AT(relu), BIT(LINEAR) | BIT(CONV) | BIT(BATCHNORM) | BIT(ADD), 0, 0 },
  { "cut", SHOAL_KEY_FLAG, false, AT(cut), ~UINT64_C(0), 0, 0 },
  { "block", SHOAL_KEY_COUNT, false, AT(block), ~UINT64_C(0), 0, MOST },
  { .name = NULL },
};

static const char *const init_names[] = {
  [SHOAL_INIT_ZERO] = "zero",
  [SHOAL_INIT_ONE] = NULL,
  [SHOAL_INIT_UNIFORM] = "uniform",
  [SHOAL_INIT_KAIMING] = "kaiming",
  [SHOAL_INIT_KAIMING_IN] = "kaiming-in",
};

const char *shoal_init_name(shoal_init init)
{
  return init_names[init];
}

shoal_init shoal_init_from_name(const char *name)
{
  for (size_t i = 0; i < SHOAL_COUNT(init_names); i++)
    if (init_names[i] && strcmp(init_names[i], name) == 0) return (shoal_init)i;
  return SHOAL_INIT_ONE;
}

shoal_layer_facts shoal_layer_defaults(void)
{
  const shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, "", -1);
  return (shoal_layer_facts){ .dilation = { 1, 1 },
                              .groups = 1,
                              .bias = true,
                              .init = SHOAL_INIT_UNIFORM,
                              .eps = (double)n.eps,
                              .momentum = (double)n.momentum,
                              .slope = (double)n.slope,
                              .block = -1 };
}

/* ---- writing ---- */

static shoal_layer_facts facts_of(const shoal_model *m, int i)
{
  const shoal_node *n = &m->node[i];
  shoal_layer_facts f = shoal_layer_defaults();
  f.width = shoal_node_width(n);
  f.first = n->first;
  f.rows = n->kind == SHOAL_OP_EMBEDDING && n->rows != m->classes ? n->rows : 0;
  for (int k = 0; k < 2; k++) {
    f.kernel[k] = n->kernel[k];
    f.pad[k] = n->pad[k];
    f.dilation[k] = n->dilation[k];
    f.stride[k] = n->stride[k];
  }
  const int64_t *usual = n->kind == SHOAL_OP_CONV ? (int64_t[]){ 1, 1 } : f.kernel;
  if (f.stride[0] == usual[0] && f.stride[1] == usual[1]) f.stride[0] = f.stride[1] = 0;
  f.groups = n->groups;
  f.heads = n->heads;
  f.causal = n->causal;
  f.ceil = n->ceil;
  f.count_pad = n->count_pad;
  f.shape = n->shape;
  f.order.ndim = n->out.ndim;
  for (int k = 0; k < n->out.ndim; k++) f.order.dim[k] = n->order[k];
  f.bias = n->bias;
  f.relu = n->relu;
  f.tied = n->tied;
  f.eps = (double)n->eps;
  f.momentum = (double)n->momentum;
  f.p = (double)n->p;
  f.slope = (double)n->slope;
  f.block = n->residual;
  f.cut = i > 0 && m->node[i - 1].unit != n->unit;
  if (n->weight[0] >= 0 && !n->tied) f.init = m->param[n->weight[0]].init;
  return f;
}

/* With as many digits as read back to the same f32. */
static void add_real(shoal_str *out, double x)
{
  char text[32];
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    if (strtof(text, NULL) == (float)x) break;
  }
  shoal_str_add(out, "%s", text);
}

static void add_key(shoal_str *out, const shoal_layer_key *k, const shoal_layer_facts *f,
                    const shoal_layer_facts *usual)
{
  const void *is = (const char *)f + k->at, *was = (const char *)usual + k->at;
  const int64_t *n = is;
  size_t bytes[] = {
    [SHOAL_KEY_WIDTH] = sizeof *n,          [SHOAL_KEY_COUNT] = sizeof *n,     [SHOAL_KEY_PAIR] = 2 * sizeof *n,
    [SHOAL_KEY_LIST] = sizeof(shoal_shape), [SHOAL_KEY_REAL] = sizeof(double), [SHOAL_KEY_FLAG] = sizeof(bool),
    [SHOAL_KEY_INIT] = sizeof(shoal_init)
  };
  if (!k->required && memcmp(is, was, bytes[k->type]) == 0) return;
  shoal_str_add(out, ", %s: ", k->name);
  switch (k->type) {
  case SHOAL_KEY_WIDTH:
    if (*n == 0)
      shoal_str_add(out, "classes");
    else
      shoal_str_add(out, "%lld", (long long)*n);
    break;
  case SHOAL_KEY_COUNT:
    shoal_str_add(out, "%lld", (long long)*n);
    break;
  case SHOAL_KEY_PAIR:
    if (n[0] == n[1])
      shoal_str_add(out, "%lld", (long long)n[0]);
    else
      shoal_str_add(out, "[%lld, %lld]", (long long)n[0], (long long)n[1]);
    break;
  case SHOAL_KEY_LIST:
    for (int d = 0; d < ((const shoal_shape *)is)->ndim; d++)
      shoal_str_add(out, "%s%lld", d ? ", " : "[", (long long)((const shoal_shape *)is)->dim[d]);
    shoal_str_add(out, "]");
    break;
  case SHOAL_KEY_REAL:
    add_real(out, *(const double *)is);
    break;
  case SHOAL_KEY_FLAG:
    shoal_str_add(out, "%s", *(const bool *)is ? "true" : "false");
    break;
  case SHOAL_KEY_INIT:
    shoal_str_add(out, "%s", shoal_init_name(*(const shoal_init *)is));
    break;
  }
}

/* Names with other characters are quoted; so are words that YAML takes for something else. */
static void add_name(shoal_str *out, const char *name)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  bool bare =
      strspn(name, plain) == strlen(name) && strchr("-.0123456789", name[0]) == NULL && strcmp(name, "null") != 0;
  if (bare)
    shoal_str_add(out, "%s", name);
  else
    shoal_str_add_quoted(out, name);
}

static void add_inputs(const shoal_model *m, int i, shoal_str *out)
{
  const shoal_node *n = &m->node[i];
  int inputs = shoal_node_inputs(n);
  if (inputs == 0 || (inputs == 1 && n->in[0] == i - 1)) return;
  shoal_str_add(out, ", in: %s", inputs > 1 ? "[" : "");
  for (int k = 0; k < inputs; k++) {
    if (k > 0) shoal_str_add(out, ", ");
    add_name(out, n->in[k] < 0 ? "input" : m->node[n->in[k]].name);
  }
  if (inputs > 1) shoal_str_add(out, "]");
}

void shoal_model_add_text(const shoal_model *m, shoal_str *out)
{
  int last = m->nodes - 1;
  while (last >= 0 && m->node[last].kind != SHOAL_OP_LINEAR && m->node[last].kind != SHOAL_OP_CONV) last--;
  shoal_str_add(out, "name: ");
  add_name(out, m->name);
  shoal_str_add(out, "\ninput: [");
  for (int d = 0; d < m->input.ndim; d++) shoal_str_add(out, "%s%lld", d ? ", " : "", (long long)m->input.dim[d]);
  shoal_str_add(
      out, "] # of a sample; leave it out for other shapes\nclasses: %lld # leave it out for other numbers\nlayers:\n",
      (long long)m->classes);
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    shoal_layer_facts f = facts_of(m, i), usual = shoal_layer_defaults();
    if (i == last && f.width == m->classes) f.width = 0;
    shoal_str_add(out, "  - { name: ");
    add_name(out, n->name);
    shoal_str_add(out, ", op: %s", shoal_op_kind_name(n->kind));
    add_inputs(m, i, out);
    for (const shoal_layer_key *k = shoal_layer_keys; k->name; k++)
      if (k->kinds >> n->kind & 1) add_key(out, k, &f, &usual);
    if (i == 0 && m->units == 1) shoal_str_add(out, ", cut: false"); /* else units would be chosen */
    shoal_str_add(out, " }\n");
  }
}
