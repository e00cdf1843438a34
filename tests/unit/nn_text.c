/* Networks as text: what is written reads back to the same network, and what does not make sense is told with its place. */
#include "nn/text.h"
#include "nn_rig.h"

static const shoal_shape cifar = { 3, { 3, 32, 32 } };

/* What its operation reads of a node. */
static void check_node(const shoal_node *a, const shoal_node *b)
{
  bool windows = a->kind == SHOAL_OP_CONV || a->kind == SHOAL_OP_MAXPOOL || a->kind == SHOAL_OP_AVGPOOL;
  bool norm = a->kind == SHOAL_OP_BATCHNORM || a->kind == SHOAL_OP_LAYERNORM;
  CHECK_EQ(a->kind, b->kind, "%s", a->name);
  CHECK(strcmp(a->name, b->name) == 0, "%s is %s", a->name, b->name);
  CHECK(shoal_shape_equal(&a->out, &b->out), "%s: shape", a->name);
  for (int k = 0; k < 2; k++) {
    CHECK_EQ(a->in[k], b->in[k], "%s: input %d", a->name, k);
    CHECK(!windows || a->kernel[k] == b->kernel[k], "%s: kernel", a->name);
    CHECK(!windows || a->stride[k] == b->stride[k], "%s: stride", a->name);
    CHECK(!windows || a->pad[k] == b->pad[k], "%s: pad", a->name);
    CHECK_EQ(a->weight[k], b->weight[k], "%s", a->name);
  }
  CHECK_EQ(a->bias, b->bias, "%s", a->name);
  CHECK_EQ(a->relu, b->relu, "%s", a->name);
  CHECK_EQ(a->ceil, b->ceil, "%s", a->name);
  CHECK_EQ(a->count_pad, b->count_pad, "%s", a->name);
  for (int k = 0; a->kind == SHOAL_OP_TRANSPOSE && k < a->out.ndim; k++)
    CHECK_EQ(a->order[k], b->order[k], "%s", a->name);
  CHECK_EQ(a->groups, b->groups, "%s", a->name);
  CHECK_EQ(a->dilation[0], b->dilation[0], "%s", a->name);
  CHECK_EQ(a->dilation[1], b->dilation[1], "%s", a->name);
  CHECK(a->kind != SHOAL_OP_LEAKYRELU || a->slope == b->slope, "%s: slope", a->name);
  CHECK(!norm || a->eps == b->eps, "%s: eps", a->name);
  CHECK(!norm || a->momentum == b->momentum, "%s: momentum", a->name);
  CHECK(a->kind != SHOAL_OP_DROPOUT || a->p == b->p, "%s: p", a->name);
  CHECK_EQ(a->stats, b->stats, "%s", a->name);
  CHECK_EQ(a->unit, b->unit, "%s: unit", a->name);
  CHECK_EQ(a->space, b->space, "%s: space", a->name);
  CHECK_EQ(a->residual, b->residual, "%s: block", a->name);
  CHECK_EQ(a->stream, b->stream, "%s: stream", a->name);
}

/* All that training reads of a model. */
static void check_equal(const shoal_model *a, const shoal_model *b)
{
  CHECK_EQ(a->nodes, b->nodes, "%s", a->name);
  CHECK_EQ(a->params, b->params, "%s", a->name);
  CHECK_EQ(a->units, b->units, "%s", a->name);
  CHECK_EQ(a->spaces, b->spaces, "%s", a->name);
  CHECK_EQ(a->residuals, b->residuals, "%s", a->name);
  CHECK_EQ(a->weights, b->weights, "%s", a->name);
  CHECK_EQ(a->stats, b->stats, "%s", a->name);
  CHECK_EQ(a->runs, b->runs, "%s", a->name);
  CHECK_EQ(a->classes, b->classes, "%s", a->name);
  CHECK(shoal_shape_equal(&a->input, &b->input), "%s", a->name);
  for (int i = 0; i < a->nodes && i < b->nodes; i++) check_node(&a->node[i], &b->node[i]);
  for (int i = 0; i < a->params && i < b->params; i++) {
    const shoal_param *p = &a->param[i], *q = &b->param[i];
    CHECK(strcmp(p->name, q->name) == 0, "%s is %s", p->name, q->name);
    CHECK(shoal_shape_equal(&p->shape, &q->shape), "%s", p->name);
    CHECK_EQ(p->init, q->init, "%s", p->name);
    CHECK_EQ(p->fan_in, q->fan_in, "%s", p->name);
    CHECK_EQ(p->fan_out, q->fan_out, "%s", p->name);
    CHECK_EQ(p->decay, q->decay, "%s", p->name);
  }
}

/* Takes m. */
static void check_round(shoal_model *m)
{
  shoal_model *back = NULL;
  shoal_str text = { 0 }, again = { 0 };
  shoal_model_add_text(m, &text);
  CHECK_OK(shoal_model_from_text(text.text, text.len, "net.yaml", NULL, 0, &back), "%s", text.text);
  if (back) {
    check_equal(m, back);
    shoal_model_add_text(back, &again);
    CHECK(strcmp(text.text, again.text) == 0, "%s\nis not\n%s", again.text, text.text);
    CHECK(back->text, "the text is not kept");
    CHECK(strcmp(back->text ? back->text : "", text.text) == 0, "another text is kept");
  }
  shoal_str_free(&text);
  shoal_str_free(&again);
  shoal_model_destroy(back);
  shoal_model_destroy(m);
}

static shoal_model *read(const char *text, const shoal_shape *input, int64_t classes)
{
  shoal_model *m = NULL;
  CHECK_OK(shoal_model_from_text(text, strlen(text), "nets/small.v2.yaml", input, classes, &m), "%s", text);
  return m;
}

static void test_round(void)
{
  static const char *const zoo[][2] = {
    { "mlp", "" },
    { "mlp", "model.widths=[]" },
    { "mlp", "model.widths=[32,10,16] model.norm=batch model.dropout=0.1 model.norm_logits=true" },
    { "mlp", "model.widths=[32,16] model.norm=layer model.activation=gelu model.dropout=0.3" },
    { "resnet20", "model.dropout=0.25" },
    { "resnet18", "" },
    { "vgg16", "model.width=0.25 model.dropout=0.5" },
    { "vgg16", "model.batch_norm=false" },
    { "vit", "model.width=8 model.heads=2 model.depth=2 model.patch=8 model.dropout=0.2" },
    { "vit", "model.width=8 model.heads=2 model.depth=1 model.pool=mean" },
  };
  static const char shapes[] = "layers:\n"
                               "  - { op: avgpool, kernel: 3, stride: 2, pad: 1, ceil: true, count_pad: true }\n"
                               "  - { op: maxpool, kernel: 3, ceil: true }\n"
                               "  - { op: reshape, shape: [3, -1] }\n"
                               "  - { op: leakyrelu, slope: -0.25 }\n"
                               "  - { op: transpose, order: [1, 0] }\n"
                               "  - { op: flatten }\n"
                               "  - { op: linear, width: classes }\n";
  shoal_model *m = read(shapes, &cifar, 10);
  if (m) check_round(m);
  static const char *const nets[] = { "chain", "residual", "forks", "wide", "branches", "groups", "tokens", "tied" };
  for (size_t i = 0; i < sizeof zoo / sizeof zoo[0]; i++) check_round(rig_model(zoo[i][0], zoo[i][1], &cifar, 10));
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) check_round(rig_network(nets[i]));
  check_round(rig_model("gpt", "model.width=8 model.heads=2 model.depth=2 model.dropout=0.2", &SHOAL_SHAPE(5), 11));
}

/* What people need not write: names, inputs, strides of pools, units, fused relus. */
static void test_defaults(void)
{
  shoal_model *m = read("layers:\n"
                        "  - { op: conv, width: 8, kernel: 3, pad: [1, 0] }\n"
                        "  - { op: relu }\n"
                        "  - { op: maxpool, kernel: [2, 3] }\n"
                        "  - { op: conv, width: 8, kernel: 1, name: a }\n"
                        "  - { op: relu, name: r }\n"
                        "  - { op: conv, width: 8, kernel: 1, in: a }\n"
                        "  - { op: add, in: [r, conv6], relu: true }\n"
                        "  - { op: globalpool }\n"
                        "  - { op: linear, width: 32 }\n"
                        "  - { op: relu }\n"
                        "  - { op: linear, width: classes, name: fc }\n",
                        &cifar, 10);
  if (!m) return;
  static const struct {
    const char *name;
    int in, unit;
    bool relu;
  } want[] = { { "conv1", -1, 0, true },       { "maxpool3", 0, 0, false }, { "a", 1, 1, false },
               { "r", 2, 1, false },           { "conv6", 2, 1, false },    { "add7", 3, 1, true },
               { "globalpool8", 5, 1, false }, { "linear9", 6, 2, true },   { "fc", 7, 3, false } };
  CHECK_EQ(m->nodes, (int)(sizeof want / sizeof want[0]));
  for (int i = 0; i < m->nodes; i++) {
    CHECK(strcmp(m->node[i].name, want[i].name) == 0, "%s, want %s", m->node[i].name, want[i].name);
    CHECK_EQ(m->node[i].in[0], want[i].in, "%s", want[i].name);
    CHECK_EQ(m->node[i].unit, want[i].unit, "%s", want[i].name);
    CHECK_EQ(m->node[i].relu, want[i].relu, "%s", want[i].name);
  }
  CHECK_EQ(m->node[0].out.dim[1], 32);
  CHECK_EQ(m->node[0].out.dim[2], 30);
  CHECK_EQ(m->node[1].stride[1], 3);
  CHECK(m->node[0].bias, "bias is the default");
  CHECK(m->node[8].bias, "bias is the default");
  CHECK(strcmp(m->name, "small") == 0, "named %s", m->name);
  shoal_model_destroy(m);
}

static void test_refusals(void)
{
  static const char *const cases[][2] = {
    { "", "net.yaml:1:1: not a network" },
    { "- 1\n", "net.yaml:1:1: not a network" },
    { "layers: 3\n", "net.yaml:1:9: layers is no list" },
    { "name: x\n", "net.yaml: no layers" },
    { "layers: []\n", "net.yaml: no layers" },
    { "layer: []\n", "net.yaml:1:1: a network has no key \"layer\"" },
    { "layers:\n  - fc\n", "net.yaml:2:5: a layer is written as" },
    { "layers:\n  - { name: fc }\n", "net.yaml:2:5: a layer without op" },
    { "layers:\n  - { op: lineer, width: 3 }\n", "net.yaml:2:11: op is \"lineer\"; must be one of linear, conv" },
    { "layers:\n  - { op: lineer, width: 3 }\n", "did you mean linear?" },
    { "layers:\n  - { op: linear, widht: 3 }\n", "net.yaml:2:19: a layer has no key \"widht\"; did you mean width?" },
    { "layers:\n  - { op: linear, width: 3, width: 4 }\n", "net.yaml:2:29: width is given twice" },
    { "layers:\n  - { op: linear }\n", "net.yaml:2:5: layer linear1: linear needs width" },
    { "layers:\n  - { op: linear, width: 3, kernel: 2 }\n", "layer linear1: linear has no kernel" },
    { "layers:\n  - { op: linear, width: 0 }\n", "net.yaml:2:26: width is \"0\"; must be a whole number from 1 to" },
    { "layers:\n  - { op: linear, width: 1e3 }\n", "width is \"1e3\"; must be a whole number" },
    { "layers:\n  - { op: linear, width: 99999999999999999999 }\n", "must be a whole number" },
    { "layers:\n  - { op: linear, width: [3] }\n", "width is a list; must be a whole number" },
    { "layers:\n  - { op: linear, width: 3, bias: 1 }\n", "bias is \"1\"; must be true or false" },
    { "layers:\n  - { op: linear, width: 3, init: normal }\n", "init is \"normal\"; must be one of uniform" },
    { "layers:\n  - { op: dropout, p: nan }\n", "p is \"nan\"; must be a number from 0 to 1" },
    { "layers:\n  - { op: conv, width: 3, kernel: [1, 2, 3] }\n", "kernel has more than 2 numbers" },
    { "layers:\n  - { op: conv, width: 3, kernel: [] }\n", "net.yaml:2:35: kernel is an empty list" },
    { "layers:\n  - { op: linear, width: 3, name: a b }\n", "name has blanks" },
    { "layers:\n  - { op: flatten, name: input }\n", "layer input: this is the name of the network's input" },
    { "layers:\n  - { op: flatten, name: a }\n  - { op: linear, width: 3, name: a }\n",
      "net.yaml:3:5: layer a: a layer before it has this name" },
    { "layers:\n  - { op: flatten, name: flat }\n  - { op: linear, width: 3, in: flta }\n",
      "net.yaml:3:33: layer linear2 reads \"flta\", which is no layer; did you mean flat" },
    { "layers:\n  - { op: flatten, in: b }\n  - { op: linear, width: 3, name: b }\n",
      "layer flatten1 reads \"b\", which is not before it" },
    { "layers:\n  - { op: flatten, name: a }\n  - { op: add, in: a }\n",
      "layer add2: add reads 2 or more layers; in names 1" },
    { "layers:\n  - { op: relu, name: a, in: [input, input] }\n", "layer a: relu reads 1 layer; in names 2" },
    { "layers:\n  - { op: conv, width: 3, kernel: 3 }\n  - { op: linear, width: classes }\n",
      "net.yaml:3:5: layer linear2: its output is [3,30,10] for a sample" },
    { "layers:\n  - { op: conv, width: 3, kernel: 33 }\n",
      "net.yaml:2:5: layer conv1: conv: kernel 33 along h is larger than the input 32" },
    { "layers:\n  - { op: conv, width: 4, kernel: 3, groups: 2 }\n",
      "layer conv1: conv: 2 groups of 3 input and 4 output channels; both must be multiples" },
    { "layers:\n  - { op: flatten }\n  - { op: conv, width: 3, kernel: 3 }\n",
      "net.yaml:3:5: layer conv2: conv: input is [1,3072], 2 dimensions; it needs 4, the batch first" },
    { "layers:\n  - { op: conv, width: 3, kernel: 3, name: a }\n  - { op: conv, width: 3, kernel: 1, in: input, name: "
      "b }\n"
      "  - { op: add, in: [a, b] }\n",
      "net.yaml:4:5: layer add3: add: inputs are [1,3,30,30] and [1,3,32,32]" },
    { "layers:\n  - { op: flatten }\n  - { op: linear, width: 5, name: idle }\n  - { op: linear, width: classes, in: "
      "flatten1 }\n",
      "net.yaml:3:5: layer idle: its output is not used" },
    { "layers:\n  - { op: flatten }\n  - { op: linear, width: 3072, cut: true }\n  - { op: add, in: [linear2, "
      "flatten1], cut: true }\n"
      "  - { op: linear, width: classes }\n",
      "net.yaml:4:5: layer add3 reads flatten1 across the boundary" },
    { "layers:\n  - { op: embedding, rows: classes, width: 4 }\n  - { op: flatten }\n  - { op: linear, width: classes "
      "}\n",
      "net.yaml:4:5: layer linear3: its output is [10] for a sample, but the last layer must give [3,32,32,10]: for "
      "each token" },
    { "layers:\n  - { op: flatten }\n  - { op: embedding, rows: 3, width: 4 }\n",
      "layer embedding2: embedding: reads tokens, so its input must be the network's" },
    { "layers:\n  - { op: reshape, shape: [32, 96], name: a }\n  - { op: relu, name: b }\n  - { op: tanh, name: c, in: "
      "a }\n"
      "  - { op: attention, heads: 5, in: [a, b, c] }\n",
      "net.yaml:5:5: layer attention4: attention: 5 heads of a width of 96; the width must be a multiple" },
    { "layers:\n  - { op: reshape, shape: [32, 96], name: a }\n  - { op: relu, name: b }\n  - { op: linear, width: 5, "
      "name: c }\n"
      "  - { op: attention, heads: 1, in: [a, b, c] }\n",
      "attention: queries are [1,32,96], keys [1,32,96] and values [1,32,5]; all must have the same width" },
    { "input: [1, 28, 28]\nlayers:\n  - { op: flatten }\n",
      "net.yaml:1: the network is for inputs [1,28,28], and samples of the data are [3,32,32]" },
    { "layers:\n  - { op: flatten }\nclasses: 7\n", "net.yaml:3: the network is for 7 classes, and the data have 10" },
    { "layers: &a\n  - { op: flatten }\n", "uses a YAML anchor" },
    { "layers:\n  - { op: linear, width: 1000000000 }\n  - { op: linear, width: 1000000000 }\n", "more than" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    shoal_model *m = NULL;
    CHECK_STATUS(shoal_model_from_text(cases[i][0], strlen(cases[i][0]), "net.yaml", &cifar, 10, &m), SHOAL_ERR_USAGE,
                 "accepted: %s", cases[i][0]);
    CHECK_HAS(check_error(), cases[i][1]);
    shoal_model_destroy(m);
  }
  shoal_model *m = NULL;
  static const char bare[] = "layers: [{ op: linear, width: classes }]\n";
  CHECK_STATUS(shoal_model_from_text(bare, strlen(bare), "net.yaml", NULL, 0, &m), SHOAL_ERR_USAGE);
  CHECK_HAS(check_error(), "net.yaml does not say for which inputs it is");
}

int main(void)
{
  test_round();
  test_defaults();
  test_refusals();
  return check_done();
}
