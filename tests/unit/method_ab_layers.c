/* Which layers become products, and how many numbers they send, by shape inference alone; ResNet-50 and the large VGG16 are
 * not among the models, so they are described here. */
#include "base/mem.h"
#include "check.h"
#include "method/ab/ab.h"
#include <stdarg.h>

typedef struct {
  shoal_model *m;
  char name[SHOAL_NAME_MAX];
} builder;

static const char *name(builder *b, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(b->name, sizeof b->name, format, args);
  va_end(args);
  return b->name;
}

static int add(builder *b, shoal_op_kind kind, const char *layer, int in, int64_t width, int kernel, int stride,
               int pad, bool bias)
{
  shoal_node n = shoal_node_make(kind, layer, in);
  int id = -1;
  n.out.dim[0] = width;
  for (int i = 0; i < 2; i++) n.kernel[i] = kernel, n.stride[i] = stride, n.pad[i] = pad;
  n.bias = bias;
  REQUIRE(shoal_model_add(b->m, &n, SHOAL_INIT_UNIFORM, &id) == SHOAL_OK, "%s", layer);
  return id;
}

static int conv_bn(builder *b, const char *layer, int in, int64_t width, int kernel, int stride)
{
  char norm[SHOAL_NAME_MAX + 4];
  int x = add(b, SHOAL_OP_CONV, layer, in, width, kernel, stride, kernel / 2, false);
  snprintf(norm, sizeof norm, "%.50s.bn", layer);
  return add(b, SHOAL_OP_BATCHNORM, norm, x, 0, 1, 1, 0, false);
}

static shoal_model *resnet50(void)
{
  static const int blocks[] = { 3, 4, 6, 3 };
  builder b = { 0 };
  REQUIRE(shoal_model_create("resnet50", &SHOAL_SHAPE(3, 224, 224), 1000, &b.m) == SHOAL_OK, "resnet50");
  int x = conv_bn(&b, "conv1", -1, 64, 7, 2);
  x = add(&b, SHOAL_OP_MAXPOOL, "maxpool", x, 0, 3, 2, 1, false);
  for (int s = 0; s < 4; s++)
    for (int i = 0; i < blocks[s]; i++) {
      int64_t width = 64 << s;
      int stride = s > 0 && i == 0 ? 2 : 1, shortcut = x;
      int y = conv_bn(&b, name(&b, "layer%d.%d.conv1", s + 1, i), x, width, 1, 1);
      y = conv_bn(&b, name(&b, "layer%d.%d.conv2", s + 1, i), y, width, 3, stride);
      y = conv_bn(&b, name(&b, "layer%d.%d.conv3", s + 1, i), y, 4 * width, 1, 1);
      if (i == 0) shortcut = conv_bn(&b, name(&b, "layer%d.%d.downsample", s + 1, i), x, 4 * width, 1, stride);
      shoal_node sum = shoal_node_make(SHOAL_OP_ADD, name(&b, "layer%d.%d.add", s + 1, i), y);
      sum.in[1] = shortcut;
      REQUIRE(shoal_model_add(b.m, &sum, SHOAL_INIT_ZERO, &x) == SHOAL_OK, "add");
    }
  x = add(&b, SHOAL_OP_GLOBALPOOL, "avgpool", x, 0, 1, 1, 0, false);
  add(&b, SHOAL_OP_LINEAR, "fc", x, 1000, 1, 1, 0, true);
  REQUIRE(shoal_model_finish(b.m) == SHOAL_OK, "resnet50");
  return b.m;
}

/* 13 convolutions and three linear layers, as timm and torchvision have it, for 10 classes. */
static shoal_model *vgg16(void)
{
  static const int channels[] = { 64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0 };
  builder b = { 0 };
  REQUIRE(shoal_model_create("vgg16", &SHOAL_SHAPE(3, 224, 224), 10, &b.m) == SHOAL_OK, "vgg16");
  int x = -1;
  for (size_t i = 0; i < SHOAL_COUNT(channels); i++)
    if (channels[i])
      x = add(&b, SHOAL_OP_CONV, name(&b, "features.%d", (int)i), x, channels[i], 3, 1, 1, true);
    else
      x = add(&b, SHOAL_OP_MAXPOOL, name(&b, "features.%d", (int)i), x, 0, 2, 2, 0, false);
  x = add(&b, SHOAL_OP_FLATTEN, "flatten", x, 0, 1, 1, 0, false);
  x = add(&b, SHOAL_OP_LINEAR, "pre_logits.fc1", x, 4096, 1, 1, 0, true);
  x = add(&b, SHOAL_OP_LINEAR, "pre_logits.fc2", x, 4096, 1, 1, 0, true);
  add(&b, SHOAL_OP_LINEAR, "head.fc", x, 10, 1, 1, 0, true);
  REQUIRE(shoal_model_finish(b.m) == SHOAL_OK, "vgg16");
  return b.m;
}

static const char *const ends[] = { "first", "last" };

static int64_t *ranks_of(const shoal_ab_layers *l, double share)
{
  int64_t *r = calloc(l->n, sizeof *r);
  for (size_t i = 0; i < l->n; i++) r[i] = (int64_t)(share * (double)l->layer[i].n);
  return r;
}

static void check_volume(const shoal_ab_layers *l, double share, size_t a, size_t b, size_t both)
{
  int64_t *rank = ranks_of(l, share);
  shoal_ab_volume v = shoal_ab_volume_of(l, rank);
  CHECK_EQ(v.a + v.others, a, "share %g", share);
  CHECK_EQ(v.b + v.others, b, "share %g", share);
  CHECK_EQ(v.a + v.b + v.others, both, "share %g", share);
  free(rank);
}

static void check_resnet50(void)
{
  shoal_model *m = resnet50();
  shoal_ab_layers l;
  CHECK_EQ(m->weights, 25557032);
  CHECK_OK(shoal_ab_layers_make(m, ends, 2, &l));
  int64_t *rank = ranks_of(&l, 1);
  shoal_ab_volume v = shoal_ab_volume_of(&l, rank);
  CHECK_EQ(l.n, 52);
  CHECK_EQ(v.weights, 23445504);
  CHECK_EQ(v.others, 9408 + 2049000 + 53120);
  CHECK_EQ(v.weights + v.others, m->weights);
  free(rank);
  check_volume(&l, 1, 25557032, 7264296, 30709800);
  check_volume(&l, 0.5, 13834280, 4687912, 16410664);
  check_volume(&l, 0.25, 7972904, 3399720, 9261096);
  check_volume(&l, 0.1, 4426280, 2620968, 4935720);
  shoal_ab_layers_free(&l);
  shoal_model_destroy(m);
}

static void check_vgg16(void)
{
  shoal_model *m = vgg16();
  shoal_ab_layers l;
  CHECK_EQ(m->weights, 134301514);
  CHECK_OK(shoal_ab_layers_make(m, ends, 2, &l));
  CHECK_EQ(l.n, 14);
  CHECK_STR(m->node[l.layer[0].node].name, "features.1");
  int64_t *rank = ranks_of(&l, 1);
  shoal_ab_volume v = shoal_ab_volume_of(&l, rank);
  CHECK_EQ((v.a + v.b + v.others + 50000) / 100000, 1697, "169.7 M without a cut");
  free(rank);
  shoal_ab_layers_free(&l);
  shoal_model_destroy(m);
}

/* Names, the words, nothing exempt, and what cannot work. */
static void check_exempt(void)
{
  builder b = { 0 };
  REQUIRE(shoal_model_create("small", &SHOAL_SHAPE(3, 8, 8), 4, &b.m) == SHOAL_OK, "small");
  int x = conv_bn(&b, "stem", -1, 6, 3, 1); /* 6 x 27 */
  x = conv_bn(&b, "thin", x, 1, 3, 1);      /* 1 x 54: no matrix */
  x = conv_bn(&b, "point", x, 9, 1, 1);     /* 9 x 1: neither */
  x = conv_bn(&b, "wide", x, 90, 3, 1);     /* 90 x 81 */
  x = add(&b, SHOAL_OP_FLATTEN, "flatten", x, 0, 1, 1, 0, false);
  add(&b, SHOAL_OP_LINEAR, "fc", x, 4, 1, 1, 0, true);
  REQUIRE(shoal_model_finish(b.m) == SHOAL_OK, "small");
  shoal_ab_layers l;
  CHECK_OK(shoal_ab_layers_make(b.m, NULL, 0, &l));
  REQUIRE(l.n == 3, "%zu layers", l.n);
  CHECK_EQ(l.layer[0].rows, 6);
  CHECK_EQ(l.layer[0].cols, 27);
  CHECK_EQ(l.layer[0].m, 27);
  CHECK_EQ(l.layer[0].n, 6);
  CHECK_EQ(l.layer[1].m, 90);
  CHECK_EQ(l.layer[1].n, 81);
  CHECK_EQ(l.layer[2].m, 5760);
  CHECK_EQ(l.layer[2].n, 4);
  CHECK_EQ(l.others, b.m->weights - 6 * 27 - 90 * 81 - 4 * 5760);
  CHECK_EQ(shoal_ab_rank_cap(&l.layer[1]), 90 * 81 / 171);
  CHECK_EQ(shoal_ab_rank_cap(&l.layer[2]), 3);
  shoal_ab_layers_free(&l);
  CHECK_OK(shoal_ab_layers_make(b.m, ends, 2, &l));
  if (CHECK_EQ(l.n, 1, "between first and last")) CHECK_EQ(l.layer[0].m, 90);
  shoal_ab_layers_free(&l);
  CHECK_OK(shoal_ab_layers_make(b.m, (const char *const[]){ "wide" }, 1, &l));
  if (CHECK_EQ(l.n, 2, "by name")) CHECK_EQ(l.layer[1].m, 5760);
  shoal_ab_layers_free(&l);
  CHECK_STATUS(shoal_ab_layers_make(b.m, (const char *const[]){ "wid" }, 1, &l), SHOAL_ERR_USAGE, "a name nobody has");
  CHECK_HAS(check_error(), "wide");
  CHECK_STATUS(shoal_ab_layers_make(b.m, (const char *const[]){ "thin" }, 1, &l), SHOAL_ERR_USAGE, "no matrix anyway");
  CHECK_STATUS(shoal_ab_layers_make(b.m, (const char *const[]){ "first", "wide", "fc" }, 3, &l), SHOAL_ERR_USAGE,
               "nothing left");
  shoal_model_destroy(b.m);
}

/* Moments after 5 -> 3 keep the leading 3 columns or rows; after 3 -> 5 two of zeros are appended. */
static void check_fit(void)
{
  float a[4 * 5], b[5 * 4], out[4 * 5];
  shoal_backend *ref;
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "backend");
  for (int i = 0; i < 20; i++) a[i] = b[i] = (float)(i + 1), out[i] = -1;
  CHECK_OK(shoal_ab_fit(ref, a, 4, 5, out, 4, 3));
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) CHECK_EQ(out[i * 3 + j], a[i * 5 + j], "A %d %d", i, j);
  CHECK_OK(shoal_ab_fit(ref, b, 5, 4, out, 3, 4));
  for (int i = 0; i < 12; i++) CHECK_EQ(out[i], b[i], "B %d", i);
  CHECK_OK(shoal_ab_fit(ref, a, 4, 3, out, 4, 5));
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 5; j++) CHECK_EQ(out[i * 5 + j], j < 3 ? a[i * 3 + j] : 0, "A %d %d", i, j);
  CHECK_OK(shoal_ab_fit(ref, b, 3, 4, out, 5, 4));
  for (int i = 0; i < 20; i++) CHECK_EQ(out[i], i < 12 ? b[i] : 0, "B %d", i);
  shoal_backend_close(ref);
}

int main(void)
{
  check_fit();
  check_resnet50();
  check_vgg16();
  check_exempt();
  return check_done();
}
