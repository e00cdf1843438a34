/* The model zoo: common benchmark networks, with the parameter names of the usual PyTorch code, so that weights can be
 * exchanged by name.
 *
 * relu is fused into the preceding node where possible.  Units (between which layer-parallel training may cut) are the
 * stem, each residual block, and the classifier; in VGG a pool belongs to the unit of the convolution after it.  Where
 * a residual block changes the shape, its shortcut is a 1x1 convolution with batch norm (He et al.'s option B); the
 * zero-padded shortcut of their CIFAR networks (option A) is not a layer here, so resnet20 has 2 752 parameters more
 * than theirs. */
#include "base/mem.h"
#include "nn/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SMOOTHING                                                                                                      \
  {                                                                                                                    \
    "model.smoothing", SHOAL_OPT_FLOAT, "0", NULL, "[0,1)", "Label smoothing of the loss.",                            \
        "Szegedy et al., CVPR 2016"                                                                                    \
  }
#define CLASS_WEIGHTS                                                                                                  \
  {                                                                                                                    \
    "model.class_weights", SHOAL_OPT_WORDS, "none", NULL, NULL,                                                        \
        "Factors on the loss of training samples by their class, for classes of unequal size: balanced, all classes "  \
        "together count alike; or a number for each class. They are scaled to a mean of 1 over the training samples.", \
        "balanced: King and Zeng, Political Analysis 2001"                                                             \
  }
#define LOSS                                                                                                           \
  {                                                                                                                    \
    "model.loss", SHOAL_OPT_ENUM, "auto", NULL, "auto|mse|mae",                                                        \
        "Loss of numbers that are predicted: mean squared or mean absolute error; auto is mse, and cross-entropy of "  \
        "classes.",                                                                                                    \
        "shoal"                                                                                                        \
  }
#define DROPOUT(where)                                                                                                 \
  {                                                                                                                    \
    "model.dropout", SHOAL_OPT_FLOAT, "0", NULL, "[0,1)", "Share of the units dropped " where ".",                     \
        "Srivastava et al., JMLR 2014"                                                                                 \
  }
#define WIDTH                                                                                                          \
  {                                                                                                                    \
    "model.width", SHOAL_OPT_FLOAT, "1", NULL, "(0,16]", "Factor on the number of channels of every layer.", "shoal"   \
  }

/* A model under construction; the first error is kept, so that builders read as a list of layers. */
typedef struct {
  shoal_model *m;
  shoal_status st;
  int last; /* number of the node added last, -1 before the first */
  int unit, residual;
} builder;

static int add(builder *b, shoal_node *n, shoal_init init)
{
  n->unit = b->unit;
  n->residual = b->residual;
  if (b->st == SHOAL_OK) b->st = shoal_model_add(b->m, n, init, &b->last);
  return b->last;
}

static int conv(builder *b, const char *name, int in, int64_t width, int kernel, int stride, bool bias, bool relu)
{
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, name, in);
  n.out.dim[0] = width;
  for (int i = 0; i < 2; i++) n.kernel[i] = kernel, n.stride[i] = stride, n.pad[i] = kernel / 2;
  n.bias = bias;
  n.relu = relu;
  return add(b, &n, SHOAL_INIT_KAIMING);
}

static int linear(builder *b, const char *name, int in, int64_t width, bool relu)
{
  shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, name, in);
  n.out.dim[0] = width;
  n.bias = true;
  n.relu = relu;
  return add(b, &n, SHOAL_INIT_UNIFORM);
}

/* Any layer without a width: norms, activations, pools, flatten. */
static int plain(builder *b, shoal_op_kind kind, const char *name, int in, bool relu)
{
  shoal_node n = shoal_node_make(kind, name, in);
  n.relu = relu;
  if (kind == SHOAL_OP_MAXPOOL)
    for (int i = 0; i < 2; i++) n.kernel[i] = n.stride[i] = 2;
  return add(b, &n, SHOAL_INIT_ZERO);
}

static int dropout(builder *b, const char *name, int in, double p)
{
  if (p == 0) return in;
  shoal_node n = shoal_node_make(SHOAL_OP_DROPOUT, name, in);
  n.p = (float)p;
  return add(b, &n, SHOAL_INIT_ZERO);
}

static shoal_status start(builder *b, const char *name, const shoal_config *c, const shoal_shape *input,
                          int64_t classes)
{
  *b = (builder){ .last = -1, .residual = -1 };
  SHOAL_TRY(shoal_model_create(name, input, classes, &b->m));
  b->m->smoothing = (float)shoal_config_float(c, "model.smoothing");
  return SHOAL_OK;
}

static shoal_status end(builder *b, shoal_model **out)
{
  shoal_status st = b->st == SHOAL_OK ? shoal_model_finish(b->m) : b->st;
  if (st == SHOAL_OK)
    *out = b->m;
  else
    shoal_model_destroy(b->m);
  return st;
}

static shoal_status check_image(const char *name, const shoal_shape *input, int64_t least)
{
  SHOAL_TRY(shoal_model_check_image("model", name, input));
  SHOAL_CHECK(input->ndim == 3 && input->dim[1] >= least && input->dim[2] >= least, SHOAL_ERR_ARG,
              "model %s takes images [channels, h, w] of at least %lld x %lld; this data has %d dimensions%s", name,
              (long long)least, (long long)least, input->ndim, input->ndim == 3 ? " but smaller sides" : "");
  return SHOAL_OK;
}

/* ---- mlp ---- */

static const shoal_option mlp_options[] = {
  { "model.widths", SHOAL_OPT_INTS, "[4096, 4096]", "units", "[1,inf)", "Widths of the hidden layers.", "shoal" },
  { "model.activation", SHOAL_OPT_ENUM, "relu", NULL, "relu|gelu", "Activation after each hidden layer.", "shoal" },
  { "model.norm", SHOAL_OPT_ENUM, "none", NULL, "none|batch|layer", "Normalisation before the activation.", "shoal" },
  { "model.norm_logits", SHOAL_OPT_BOOL, "false", NULL, NULL, "Batch norm of the logits too.",
    "Yuan et al., PVLDB 2022 (without scale and shift there)" },
  DROPOUT("after each hidden layer"),
  LOSS,
  CLASS_WEIGHTS,
  SMOOTHING,
  { .name = NULL },
};

/* fc1 norm1 act1 drop1 fc2 … fcN */
static int mlp_layer(builder *b, const shoal_config *c, int number, int in, int64_t width)
{
  const char *norm = shoal_config_string(c, "model.norm");
  bool relu = strcmp(shoal_config_string(c, "model.activation"), "relu") == 0;
  bool batch = strcmp(norm, "batch") == 0, layer = strcmp(norm, "layer") == 0;
  char name[SHOAL_NAME_MAX];
  snprintf(name, sizeof name, "fc%d", number);
  int x = linear(b, name, in, width, relu && !batch && !layer);
  snprintf(name, sizeof name, "norm%d", number);
  if (batch) x = plain(b, SHOAL_OP_BATCHNORM, name, x, relu);
  if (layer) x = plain(b, SHOAL_OP_LAYERNORM, name, x, false);
  snprintf(name, sizeof name, "act%d", number);
  if (!relu) x = plain(b, SHOAL_OP_GELU, name, x, false);
  if (relu && layer) x = plain(b, SHOAL_OP_RELU, name, x, false);
  snprintf(name, sizeof name, "drop%d", number);
  return dropout(b, name, x, shoal_config_float(c, "model.dropout"));
}

static shoal_status build_mlp(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  builder b;
  const int64_t *widths;
  size_t n = shoal_config_ints(c, "model.widths", &widths);
  char name[SHOAL_NAME_MAX];
  SHOAL_TRY(start(&b, "mlp", c, input, classes));
  int x = input->ndim > 1 ? plain(&b, SHOAL_OP_FLATTEN, "flatten", -1, false) : -1;
  for (size_t i = 0; i < n; i++, b.unit++) x = mlp_layer(&b, c, (int)i + 1, x, widths[i]);
  snprintf(name, sizeof name, "fc%d", (int)n + 1);
  x = linear(&b, name, x, classes, false);
  snprintf(name, sizeof name, "norm%d", (int)n + 1);
  if (shoal_config_bool(c, "model.norm_logits")) plain(&b, SHOAL_OP_BATCHNORM, name, x, false);
  return end(&b, out);
}

/* ---- residual networks ---- */

static int64_t scaled(const shoal_config *c, int64_t channels)
{
  return SHOAL_MAX(1, llround((double)channels * shoal_config_float(c, "model.width")));
}

static const shoal_option resnet20_options[] = {
  DROPOUT("before the classifier"), LOSS, CLASS_WEIGHTS, SMOOTHING, { .name = NULL }
};
static const shoal_option resnet18_options[] = { WIDTH, LOSS, CLASS_WEIGHTS, SMOOTHING, { .name = NULL } };

/* conv3x3 bn relu conv3x3 bn, plus the shortcut, relu.  Only the two convolutions and their norms are the body. */
static int basic_block(builder *b, const char *prefix, int number, int in, int64_t width, int stride, bool project)
{
  char name[SHOAL_NAME_MAX];
#define NAME(suffix) (snprintf(name, sizeof name, "%s.%s", prefix, suffix), name)
  b->unit++;
  b->residual = number;
  int x = conv(b, NAME("conv1"), in, width, 3, stride, false, false);
  x = plain(b, SHOAL_OP_BATCHNORM, NAME("bn1"), x, true);
  x = conv(b, NAME("conv2"), x, width, 3, 1, false, false);
  x = plain(b, SHOAL_OP_BATCHNORM, NAME("bn2"), x, false);
  b->residual = -1;
  int shortcut = in;
  if (project) {
    shortcut = conv(b, NAME("downsample.0"), in, width, 1, stride, false, false);
    shortcut = plain(b, SHOAL_OP_BATCHNORM, NAME("downsample.1"), shortcut, false);
  }
  shoal_node sum = shoal_node_make(SHOAL_OP_ADD, NAME("add"), x);
  sum.in[1] = shortcut;
  sum.relu = true;
  return add(b, &sum, SHOAL_INIT_ZERO);
#undef NAME
}

/* Stem of 3x3 stride 1, then stages of basic blocks whose first halves the plane and doubles the width. */
static void residual_network(builder *b, int64_t width, int stages, int blocks, double drop, int64_t classes)
{
  char prefix[SHOAL_NAME_MAX / 2];
  int number = 0;
  int x = conv(b, "conv1", -1, width, 3, 1, false, false);
  x = plain(b, SHOAL_OP_BATCHNORM, "bn1", x, true);
  for (int s = 0; s < stages; s++)
    for (int i = 0; i < blocks; i++) {
      bool first = s > 0 && i == 0;
      snprintf(prefix, sizeof prefix, "layer%d.%d", s + 1, i);
      x = basic_block(b, prefix, number++, x, width << s, first ? 2 : 1, first);
    }
  b->unit++;
  x = plain(b, SHOAL_OP_GLOBALPOOL, "avgpool", x, false);
  x = dropout(b, "dropout", x, drop);
  linear(b, "fc", x, classes, false);
}

static shoal_status build_resnet20(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  builder b;
  SHOAL_TRY(check_image("resnet20", input, 4));
  SHOAL_TRY(start(&b, "resnet20", c, input, classes));
  residual_network(&b, 16, 3, 3, shoal_config_float(c, "model.dropout"), classes);
  return end(&b, out);
}

static shoal_status build_resnet18(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  builder b;
  SHOAL_TRY(check_image("resnet18", input, 8));
  SHOAL_TRY(start(&b, "resnet18", c, input, classes));
  residual_network(&b, scaled(c, 64), 4, 2, 0, classes);
  return end(&b, out);
}

/* ---- vgg16 ---- */

static const shoal_option vgg16_options[] = {
  { "model.batch_norm", SHOAL_OPT_BOOL, "true", NULL, NULL, "Batch norm after every convolution.",
    "Ioffe and Szegedy, ICML 2015" },
  WIDTH,
  DROPOUT("before the classifier"),
  LOSS,
  CLASS_WEIGHTS,
  SMOOTHING,
  { .name = NULL },
};

/* Indices count as in PyTorch's Sequential, where relu and pool have an index too: conv 0, bn 1, relu 2, …  With batch
 * norm the convolutions have no bias, because the norm would remove it. */
static shoal_status build_vgg16(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  static const int channels[] = { 64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0 };
  bool norm = shoal_config_bool(c, "model.batch_norm");
  builder b;
  SHOAL_TRY(check_image("vgg16", input, 32));
  SHOAL_TRY(start(&b, "vgg16", c, input, classes));
  char name[SHOAL_NAME_MAX];
  int x = -1, index = 0;
  for (size_t i = 0; i < SHOAL_COUNT(channels); i++) {
    if (i > 0 && channels[i - 1] != 0) b.unit++;
    snprintf(name, sizeof name, "features.%d", index++);
    if (channels[i] == 0) {
      x = plain(&b, SHOAL_OP_MAXPOOL, name, x, false);
      continue;
    }
    x = conv(&b, name, x, scaled(c, channels[i]), 3, 1, !norm, !norm);
    if (norm) {
      snprintf(name, sizeof name, "features.%d", index++);
      x = plain(&b, SHOAL_OP_BATCHNORM, name, x, true);
    }
    index++; /* relu */
  }
  x = plain(&b, SHOAL_OP_FLATTEN, "flatten", x, false);
  x = dropout(&b, "dropout", x, shoal_config_float(c, "model.dropout"));
  linear(&b, "classifier", x, classes, false);
  return end(&b, out);
}

/* ---- transformers ---- */

#define TRANSFORMER(token, width, heads)                                                                               \
  { "model.width", SHOAL_OPT_INT, width,                                                                               \
    "numbers",     "[1,65536]",   "Numbers that stand for a " token " between two blocks.",                            \
    "shoal" },                                                                                                         \
      { "model.heads", SHOAL_OPT_INT, heads, NULL, "[1,65536]", "Heads of attention; the width must be a multiple.",   \
        "shoal" },                                                                                                     \
      { "model.depth", SHOAL_OPT_INT, "6", "blocks", "[1,1000]", "Blocks of attention and two layers.", "shoal" },     \
      DROPOUT("after the places are added, and before each sum"), SMOOTHING

static const shoal_option gpt_options[] = {
  TRANSFORMER("token", "256", "8"),
  { "model.tied", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "The output has the table of the tokens as its weight, and no bias; method local cannot cut it.",
    "Press and Wolf, EACL 2017" },
  { .name = NULL },
};
static const shoal_option vit_options[] = {
  { "model.patch", SHOAL_OPT_INT, "4", "pixels", "[1,65536]",
    "Side of the square patches that are the tokens; the sides of the images must be multiples.",
    "Dosovitskiy et al., ICLR 2021" },
  { "model.pool", SHOAL_OPT_ENUM, "class", NULL, "class|mean",
    "What the classifier reads: a learned token put before the patches, or the mean over the patches.",
    "class: Dosovitskiy et al., ICLR 2021" },
  TRANSFORMER("patch", "192", "3"),
  LOSS,
  CLASS_WEIGHTS,
  { .name = NULL },
};

typedef struct {
  int64_t width;
  int heads, depth;
  bool causal;
  double p;
} transformer;

static shoal_status read_transformer(const shoal_config *c, bool causal, transformer *t)
{
  *t = (transformer){ .width = shoal_config_int(c, "model.width"),
                      .heads = (int)shoal_config_int(c, "model.heads"),
                      .depth = (int)shoal_config_int(c, "model.depth"),
                      .causal = causal,
                      .p = shoal_config_float(c, "model.dropout") };
  SHOAL_CHECK(t->width % t->heads == 0, SHOAL_ERR_USAGE,
              "model.width is %lld and model.heads %d: the width must be a multiple of the heads", (long long)t->width,
              t->heads);
  return SHOAL_OK;
}

/* With the weight of the embedding; without a bias, as in GPT-2. */
static int tied_linear(builder *b, const char *name, int in, int64_t width)
{
  shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, name, in);
  n.out.dim[0] = width;
  n.tied = true;
  return add(b, &n, SHOAL_INIT_ZERO);
}

static int parameter(builder *b, const char *name, const shoal_shape *shape)
{
  shoal_node n = shoal_node_make(SHOAL_OP_PARAMETER, name, SHOAL_NO_INPUT);
  n.shape = *shape;
  return add(b, &n, SHOAL_INIT_UNIFORM);
}

/* A layer of two inputs. */
static int pair(builder *b, shoal_op_kind kind, const char *name, int one, int other)
{
  shoal_node n = shoal_node_make(kind, name, one);
  n.in[1] = other;
  return add(b, &n, SHOAL_INIT_ZERO);
}

static int transpose(builder *b, const char *name, int in)
{
  shoal_node n = shoal_node_make(SHOAL_OP_TRANSPOSE, name, in);
  n.order[0] = 1, n.order[1] = 0, n.order[2] = -1;
  return add(b, &n, SHOAL_INIT_ZERO);
}

static int reshape(builder *b, const char *name, int in, const shoal_shape *shape)
{
  shoal_node n = shoal_node_make(SHOAL_OP_RESHAPE, name, in);
  n.shape = *shape;
  return add(b, &n, SHOAL_INIT_ZERO);
}

/* x + drop(last(…)): the way round a part of a block. */
static int add_back(builder *b, int block, const char *part, int x, const transformer *t)
{
  char name[SHOAL_NAME_MAX];
  int x0 = x;
  snprintf(name, sizeof name, "h.%d.%.20s.c_proj", block, part);
  x = linear(b, name, b->last, t->width, false);
  snprintf(name, sizeof name, "h.%d.%.20s.dropout", block, part);
  x = dropout(b, name, x, t->p);
  snprintf(name, sizeof name, "h.%d.%.20s.add", block, part);
  return pair(b, SHOAL_OP_ADD, name, x, x0);
}

/* Norms before both parts (Xiong et al., ICML 2020), as in GPT-2. */
static int transformer_block(builder *b, int block, int x, const transformer *t)
{
  static const char *const inputs[] = { "query", "key", "value" };
  char name[SHOAL_NAME_MAX];
  int in[3];
  snprintf(name, sizeof name, "h.%d.ln_1", block);
  const int norm = plain(b, SHOAL_OP_LAYERNORM, name, x, false);
  for (int k = 0; k < 3; k++) {
    snprintf(name, sizeof name, "h.%d.attn.%.20s", block, inputs[k]);
    in[k] = linear(b, name, norm, t->width, false);
  }
  snprintf(name, sizeof name, "h.%d.attn.heads", block);
  shoal_node n = shoal_node_make(SHOAL_OP_ATTENTION, name, in[0]);
  n.in[1] = in[1], n.in[2] = in[2];
  n.heads = t->heads;
  n.causal = t->causal;
  add(b, &n, SHOAL_INIT_ZERO);
  x = add_back(b, block, "attn", x, t);
  snprintf(name, sizeof name, "h.%d.ln_2", block);
  int y = plain(b, SHOAL_OP_LAYERNORM, name, x, false);
  snprintf(name, sizeof name, "h.%d.mlp.c_fc", block);
  y = linear(b, name, y, 4 * t->width, false);
  snprintf(name, sizeof name, "h.%d.mlp.gelu", block);
  plain(b, SHOAL_OP_GELU, name, y, false);
  return add_back(b, block, "mlp", x, t);
}

/* Places added to `tokens` of that many, then the blocks, a unit each.  Names as in GPT-2's release, but that queries, keys
 * and values are three layers. */
static int transformer_body(builder *b, int tokens, int64_t count, const transformer *t)
{
  const int places = parameter(b, "wpe", &SHOAL_SHAPE(count, t->width));
  int x = dropout(b, "dropout", pair(b, SHOAL_OP_ADD, "embed", tokens, places), t->p);
  for (int i = 0; i < t->depth; i++) {
    b->unit++;
    x = transformer_block(b, i, x, t);
  }
  b->unit++;
  return x;
}

static shoal_status build_gpt(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  transformer t;
  builder b;
  SHOAL_CHECK(input->ndim == 1, SHOAL_ERR_ARG, "model gpt takes text, samples of tokens; this data has %d dimensions",
              input->ndim);
  SHOAL_TRY(read_transformer(c, true, &t));
  SHOAL_TRY(start(&b, "gpt", c, input, classes));
  shoal_node n = shoal_node_make(SHOAL_OP_EMBEDDING, "wte", -1);
  n.rows = classes;
  n.out.dim[0] = t.width;
  int x = transformer_body(&b, add(&b, &n, SHOAL_INIT_UNIFORM), input->dim[0], &t);
  x = plain(&b, SHOAL_OP_LAYERNORM, "ln_f", x, false);
  if (shoal_config_bool(c, "model.tied"))
    tied_linear(&b, "lm_head", x, classes);
  else
    linear(&b, "lm_head", x, classes, false);
  return end(&b, out);
}

/* [tokens, width] to [width]: the first token, or the mean of all. */
static int pool_tokens(builder *b, int x, bool first, const shoal_shape *shape)
{
  if (first) {
    shoal_node n = shoal_node_make(SHOAL_OP_SLICE, "first", x);
    n.out.dim[0] = 1;
    return plain(b, SHOAL_OP_FLATTEN, "pooled", add(b, &n, SHOAL_INIT_ZERO), false);
  }
  x = transpose(b, "channels", x);
  x = reshape(b, "plane", x, &SHOAL_SHAPE(shape->dim[1], shape->dim[0], 1));
  return plain(b, SHOAL_OP_GLOBALPOOL, "pooled", x, false);
}

/* The norm at the end is for each token alone, so it may follow the choice of the first, but not the mean. */
static shoal_status build_vit(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  const int patch = (int)shoal_config_int(c, "model.patch");
  const bool first = strcmp(shoal_config_string(c, "model.pool"), "class") == 0;
  transformer t;
  builder b;
  SHOAL_TRY(check_image("vit", input, 1));
  SHOAL_CHECK(input->dim[1] % patch == 0 && input->dim[2] % patch == 0, SHOAL_ERR_USAGE,
              "model.patch is %d, but the images are %lld x %lld: the sides must be multiples of it", patch,
              (long long)input->dim[1], (long long)input->dim[2]);
  SHOAL_TRY(read_transformer(c, false, &t));
  SHOAL_TRY(start(&b, "vit", c, input, classes));
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, "patches", -1);
  n.out.dim[0] = t.width;
  for (int i = 0; i < 2; i++) n.kernel[i] = n.stride[i] = patch;
  n.bias = true;
  int x = reshape(&b, "row", add(&b, &n, SHOAL_INIT_UNIFORM), &SHOAL_SHAPE(t.width, -1));
  x = transpose(&b, "tokens", x);
  const shoal_shape shape = SHOAL_SHAPE(first + input->dim[1] / patch * (input->dim[2] / patch), t.width);
  if (first) x = pair(&b, SHOAL_OP_CONCAT, "classed", parameter(&b, "class", &SHOAL_SHAPE(1, t.width)), x);
  x = transformer_body(&b, x, shape.dim[0], &t);
  if (!first) x = plain(&b, SHOAL_OP_LAYERNORM, "ln_f", x, false);
  x = pool_tokens(&b, x, first, &shape);
  if (first) x = plain(&b, SHOAL_OP_LAYERNORM, "ln_f", x, false);
  linear(&b, "head", x, classes, false);
  return end(&b, out);
}

/* ---- file ---- */

static const shoal_option file_options[] = {
  { "model.file", SHOAL_OPT_PATH, NULL, NULL, NULL,
    "Description of the network, a list of layers in YAML; `shoal models resnet20 --yaml` prints one.", "shoal" },
  LOSS,
  CLASS_WEIGHTS,
  SMOOTHING,
  { .name = NULL },
};

static shoal_status build_file(const shoal_config *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  SHOAL_TRY(shoal_model_from_file(shoal_config_string(c, "model.file"), input, classes, out));
  (*out)->smoothing = (float)shoal_config_float(c, "model.smoothing");
  return SHOAL_OK;
}

static const shoal_model_entry zoo[] = {
  { "mlp",
    "Fully connected network; images are flattened.",
    "shoal",
    mlp_options,
    build_mlp,
    { 3, { 1, 28, 28 } },
    10 },
  { "resnet20",
    "Residual network for 32x32 images, 9 blocks of 16, 32, 64 channels, 1x1 projections.",
    "He et al., Deep Residual Learning, CVPR 2016, section 4.2",
    resnet20_options,
    build_resnet20,
    { 3, { 3, 32, 32 } },
    10 },
  { "resnet18",
    "Residual network of 8 blocks, 64 to 512 channels, with the 3x3 stem for small images.",
    "He et al., Deep Residual Learning, CVPR 2016",
    resnet18_options,
    build_resnet18,
    { 3, { 3, 32, 32 } },
    10 },
  { "vgg16",
    "13 convolutions and one linear classifier, for small images.",
    "Simonyan and Zisserman, Very Deep Convolutional Networks, ICLR 2015",
    vgg16_options,
    build_vgg16,
    { 3, { 3, 32, 32 } },
    10 },
  { "gpt",
    "Decoder-only transformer for text: learned places, causal attention, norms before each part.",
    "Radford et al., Language Models are Unsupervised Multitask Learners, 2019",
    gpt_options,
    build_gpt,
    { 1, { 128 } },
    256 },
  { "vit",
    "Transformer for images: patches as tokens, a class token or their mean, learned places, norms before each part.",
    "Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021",
    vit_options,
    build_vit,
    { 3, { 3, 32, 32 } },
    10 },
  { "file",
    "A network of your own: the layers that model.file lists.",
    "docs/networks.md",
    file_options,
    build_file,
    { 3, { 3, 32, 32 } },
    10 },
};

size_t shoal_models(const shoal_model_entry **out)
{
  *out = zoo;
  return SHOAL_COUNT(zoo);
}

const shoal_model_entry *shoal_model_find(const char *name)
{
  for (size_t i = 0; i < SHOAL_COUNT(zoo); i++)
    if (strcmp(zoo[i].name, name) == 0) return &zoo[i];
  return NULL;
}
