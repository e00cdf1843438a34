/* The zoo by exact numbers and names, and what a description refuses. */
#include "nn_rig.h"

static const shoal_shape cifar = { 3, { 3, 32, 32 } };

/* Arena without gaps, in definition order; every parameter's node points back. */
static void check_arena(const shoal_model *m)
{
  size_t at = 0;
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    CHECK_EQ(p->offset, at, "%s", p->name);
    CHECK_EQ(p->count, (size_t)shoal_shape_count(&p->shape), "%s", p->name);
    CHECK_EQ(p->full_id, i, "%s", p->name);
    CHECK(shoal_shape_equal(&p->full, &p->shape), "%s", p->name);
    CHECK(!p->rows, "%s", p->name);
    CHECK(!p->cols, "%s", p->name);
    CHECK(i == 0 || p->node >= m->param[i - 1].node, "%s comes before an earlier layer", p->name);
    CHECK(strncmp(p->name, m->node[p->node].name, strlen(m->node[p->node].name)) == 0, "%s", p->name);
    bool matrix = p->shape.ndim > 1 && m->node[p->node].kind != SHOAL_OP_PARAMETER;
    CHECK_EQ(p->decay, matrix, "%s: decay", p->name);
    at += p->count;
  }
  CHECK_EQ(at, m->weights);
  size_t run = 0;
  for (int i = 0; i < m->runs; i++) {
    CHECK_EQ(m->run[i].offset, run, "run %d", i);
    CHECK(i == 0 || m->run[i].decay != m->run[i - 1].decay, "run %d", i);
    run += m->run[i].count;
  }
  CHECK_EQ(run, m->weights);
}

static void check_names(const shoal_model *m, const char *const *names)
{
  for (int i = 0; names[i]; i++) {
    bool found = false;
    for (int p = 0; p < m->params; p++) found = found || strcmp(m->param[p].name, names[i]) == 0;
    CHECK(found, "%s has no parameter %s", m->name, names[i]);
  }
}

/* Counts: resnet18 and vgg16 as published for CIFAR-10 (the latter without the convolutions' biases, which batch norm
 * makes idle); the others from the layer sizes by hand. */
static void test_zoo(void)
{
  static const struct {
    const char *model, *options;
    size_t weights, stats;
    int params, units, residuals;
    double macs;
  } want[] = {
    { "mlp", "model.widths=[4096,4096]", 29409290, 0, 6, 3, 0, 29401088. },
    { "mlp", "model.widths=[4096,4096] model.norm=batch", 29425674, 16384, 10, 3, 0, 29401088. },
    { "mlp", "model.widths=[]", 30730, 0, 2, 1, 0, 30720. },
    { "resnet20", "", 272474, 1568, 65, 11, 9, 0 },
    { "resnet18", "", 11173962, 9600, 62, 10, 8, 555422720. },
    { "resnet18", "model.width=0.125", 176402, 1200, 62, 10, 8, 0 },
    { "vgg16", "", 14724042, 8448, 41, 14, 0, 313201664. },
    { "vgg16", "model.batch_norm=false", 14719818, 0, 28, 14, 0, 313201664. },
    { "vgg16", "model.width=0.125 model.dropout=0.5", 231746, 1056, 41, 14, 0, 0 },
    { "vit", "", 2693578, 0, 104, 8, 0, 182849664. },
    { "vit", "model.pool=mean model.dropout=0.1", 2693194, 0, 103, 8, 0, 0 },
  };
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    shoal_model *m = rig_model(want[i].model, want[i].options, &cifar, 10);
    printf("%s %s: %zu parameters in %d tensors, %zu statistics, %d units, %d spaces, %.0f MAC\n", want[i].model,
           want[i].options, m->weights, m->params, m->stats, m->units, m->spaces, shoal_model_macs(m));
    CHECK_EQ(m->weights, want[i].weights, "%s %s", want[i].model, want[i].options);
    CHECK_EQ(m->stats, want[i].stats, "%s", want[i].model);
    CHECK_EQ(m->params, want[i].params, "%s", want[i].model);
    CHECK_EQ(m->units, want[i].units, "%s", want[i].model);
    CHECK_EQ(m->residuals, want[i].residuals, "%s", want[i].model);
    CHECK(want[i].macs == 0 || shoal_model_macs(m) == want[i].macs, "%s: %.0f MAC", want[i].model, shoal_model_macs(m));
    check_arena(m);
    shoal_model_destroy(m);
  }
}

static void test_names(void)
{
  shoal_model *m = rig_model("resnet18", "", &cifar, 10);
  check_names(m, (const char *[]){ "conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
                                   "layer1.0.bn1.weight", "layer2.0.downsample.0.weight", "layer2.0.downsample.1.bias",
                                   "layer4.1.bn2.bias", "fc.weight", "fc.bias", NULL });
  shoal_model_destroy(m);
  m = rig_model("vgg16", "", &cifar, 10);
  check_names(m, (const char *[]){ "features.0.weight", "features.1.weight", "features.3.weight", "features.7.weight",
                                   "features.40.weight", "features.41.bias", "classifier.weight", NULL });
  shoal_model_destroy(m);
  m = rig_model("vgg16", "model.batch_norm=false", &cifar, 10);
  check_names(m, (const char *[]){ "features.0.bias", "features.2.weight", "features.5.weight", "features.28.weight",
                                   "classifier.bias", NULL });
  shoal_model_destroy(m);
  m = rig_model("mlp", "model.norm=layer", &cifar, 10);
  check_names(m, (const char *[]){ "fc1.weight", "norm1.bias", "fc3.weight", NULL });
  shoal_str table = { 0 };
  shoal_model_print(m, &table);
  CHECK_HAS(table.text, "norm2");
  CHECK_HAS(table.text, "total: 29425674 parameters");
  shoal_str_free(&table);
  shoal_model_destroy(m);
}

static void count_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  size_t *at = ctx;
  CHECK_EQ(offset, *at, "%s", name);
  *at += count;
}

static void test_stats(void)
{
  shoal_model *m = rig_model("resnet20", "", &cifar, 10);
  size_t at = 0;
  shoal_model_each_stat(m, count_stat, &at);
  CHECK_EQ(at, m->stats);
  shoal_model_destroy(m);
}

/* Spaces: residual stages share one, bodies have their own, input and logits none. */
static void test_spaces(void)
{
  shoal_model *m = rig_network("residual");
  static const struct {
    const char *layer;
    int space;
  } want[] = { { "conv1", 0 },   { "bn1", 0 },     { "a.conv1", 1 }, { "a.bn1", 1 }, { "a.conv2", 0 }, { "a.add", 0 },
               { "b.conv1", 2 }, { "b.conv2", 3 }, { "b.down", 3 },  { "b.add", 3 }, { "pool", 3 },    { "fc", -1 } };
  CHECK_EQ(m->spaces, 4);
  for (size_t k = 0; k < sizeof want / sizeof want[0]; k++)
    for (int i = 0; i < m->nodes; i++)
      if (strcmp(m->node[i].name, want[k].layer) == 0) CHECK_EQ(m->node[i].space, want[k].space, "%s", want[k].layer);
  const int64_t sizes[] = { 4, 3, 5, 6 };
  for (int s = 0; s < m->spaces && s < 4; s++) CHECK_EQ(m->space_size[s], sizes[s], "space %d", s);
  shoal_model_destroy(m);
  m = rig_network("chain"); /* conv2's channels reach fc1 through flatten: one space of 5 units */
  CHECK_EQ(m->spaces, 3);
  CHECK_EQ(m->space_size[1], 5);
  for (int i = 0; i < m->nodes; i++)
    if (strcmp(m->node[i].name, "flat") == 0) CHECK_EQ(m->node[i].space, 1);
  shoal_model_destroy(m);
}

/* Flattened channels plus a linear: units are channels, four numbers each behind flatten. */
static void test_grain(void)
{
  shoal_model *m = rig_network("wide");
  CHECK_EQ(m->spaces, 1);
  CHECK_EQ(m->space_size[0], 4);
  for (int i = 0; i < m->nodes; i++) {
    bool fixed = strcmp(m->node[i].name, "pixels") == 0 || strcmp(m->node[i].name, "fc2") == 0;
    CHECK_EQ(m->node[i].space, fixed ? -1 : 0, "%s", m->node[i].name);
  }
  shoal_model_destroy(m);
}

static double mean_square(const float *w, size_t n, double *mean)
{
  double sum = 0, square = 0;
  for (size_t i = 0; i < n; i++) sum += w[i], square += (double)w[i] * w[i];
  *mean = sum / (double)n;
  return square / (double)n;
}

/* Variances of the initial weights against their formulas; statistics 0 and 1. */
static void test_init(void)
{
  shoal_model *m = rig_model("resnet20", "", &cifar, 10);
  float *w = malloc(m->weights * sizeof *w), *again = malloc(m->weights * sizeof *w), *s = malloc(m->stats * sizeof *s);
  CHECK_OK(shoal_model_init(ref_backend(), m, 1, w, s));
  CHECK_OK(shoal_model_init(ref_backend(), m, 1, again, NULL));
  CHECK_BYTES(w, again, m->weights * sizeof *w, "the same seed gives other weights");
  CHECK_OK(shoal_model_init(ref_backend(), m, 2, again, NULL));
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    double mean, square = mean_square(w + p->offset, p->count, &mean);
    double n = sqrt((double)p->count), want = p->init == SHOAL_INIT_KAIMING ? 2.0 / (double)p->fan_out : 1.0 / 3 / 64;
    if (p->shape.ndim > 1) {
      CHECK_LT(fabs(square - want), 6 * want / n, "%s: variance %g, want %g", p->name, square, want);
      CHECK_LT(fabs(mean), 5 * sqrt(want) / n, "%s: mean %g", p->name, mean);
      CHECK(memcmp(w + p->offset, again + p->offset, p->count * sizeof *w) != 0, "%s: seed has no effect", p->name);
    } else if (p->init != SHOAL_INIT_UNIFORM) {
      float v = p->init == SHOAL_INIT_ONE ? 1 : 0;
      for (size_t k = 0; k < p->count; k++) CHECK_EQ(w[p->offset + k], v, "%s", p->name);
    }
  }
  for (int i = 0; i < m->nodes; i++)
    for (int64_t c = 0; m->node[i].stats >= 0 && c < m->node[i].out.dim[0]; c++) {
      CHECK_EQ(s[m->node[i].stats + c], 0);
      CHECK_EQ(s[m->node[i].stats + m->node[i].out.dim[0] + c], 1);
    }
  free(w);
  free(again);
  free(s);
  shoal_model_destroy(m);
}

static void expect_refusal(shoal_model *m, const shoal_node *n, const char *words)
{
  int nodes = m->nodes, params = m->params;
  CHECK_STATUS(shoal_model_add(m, n, SHOAL_INIT_ZERO, NULL), SHOAL_ERR_ARG, "%s was accepted", n->name);
  CHECK_HAS(check_error(), words);
  CHECK_EQ(m->nodes, nodes, "a refused layer left something behind");
  CHECK_EQ(m->params, params);
}

static void expect_unfinished(shoal_model *m, const char *words)
{
  CHECK_STATUS(shoal_model_finish(m), SHOAL_ERR_ARG);
  CHECK_HAS(check_error(), words);
  shoal_model_destroy(m);
}

static shoal_node wide(shoal_op_kind kind, const char *name, int in, int64_t width)
{
  shoal_node n = shoal_node_make(kind, name, in);
  n.out.dim[0] = width;
  return n;
}

static void test_refusals(void)
{
  shoal_model *m;
  REQUIRE(shoal_model_create("bad", &SHOAL_SHAPE(2, 5, 5), 3, &m) == SHOAL_OK, "create");
  shoal_node n = wide(SHOAL_OP_CONV, "big", -1, 4);
  n.kernel[0] = n.kernel[1] = 7;
  expect_refusal(m, &n, "layer big: conv: kernel 7");
  n = wide(SHOAL_OP_LINEAR, "future", 0, 4);
  expect_refusal(m, &n, "layer future: input 0 is node 0");
  n = shoal_node_make(SHOAL_OP_GELU, "gelu", -1);
  n.relu = true;
  expect_refusal(m, &n, "layer gelu: gelu: relu cannot be fused");
  n = shoal_node_make(SHOAL_OP_ADD, "twice", -1);
  n.in[1] = -1;
  expect_refusal(m, &n, "reads a tensor twice");
  n = wide(SHOAL_OP_LINEAR, "", -1, 4);
  expect_refusal(m, &n, "empty or too long");
  n = wide(SHOAL_OP_CONV, "c", -1, 4);
  n.unit = 1;
  expect_refusal(m, &n, "unit 1");
  n.unit = 0;
  n.rank = 5;
  expect_refusal(m, &n, "rank 5");
  n.rank = 0;
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  n = shoal_node_make(SHOAL_OP_RELU, "r", 0);
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  n = wide(SHOAL_OP_CONV, "d", -1, 4);
  n.unit = 1;
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  shoal_model *copy;
  CHECK_OK(shoal_model_copy(m, &copy));
  expect_unfinished(copy, "layer r: its output is not used");
  n = shoal_node_make(SHOAL_OP_ADD, "s", 1);
  n.in[1] = 2;
  n.unit = 1;
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  expect_unfinished(m, "layer d reads the network's input across the boundary of unit 1");
  REQUIRE(shoal_model_create("bad", &SHOAL_SHAPE(2, 5, 5), 3, &m) == SHOAL_OK, "create");
  n = wide(SHOAL_OP_CONV, "c", -1, 4);
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  n.in[0] = 0;
  CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, NULL));
  expect_unfinished(m, "two layers are named c");
}

int main(void)
{
  test_zoo();
  test_names();
  test_stats();
  test_spaces();
  test_grain();
  test_init();
  test_refusals();
  return check_done();
}
