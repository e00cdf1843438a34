/* Descriptions and the list of backends: shapes, counts, and that every wrong value is refused by name. */
#include "base/mem.h"
#include "check.h"
#include "tensor/backend.h"

static void check_shape(shoal_op_desc d, shoal_shape want, double macs)
{
  shoal_shape got = { 0 };
  CHECK_OK(shoal_op_infer(&d, &got));
  CHECK(shoal_shape_equal(&got, &want), "%s: [%d %d %d %d]", shoal_op_kind_name(d.kind), (int)got.dim[0],
        (int)got.dim[1], (int)got.dim[2], (int)got.dim[3]);
  CHECK_EQ(shoal_op_macs(&d), macs, "%s", shoal_op_kind_name(d.kind));
}

static shoal_op_desc windows(shoal_op_kind kind, int k, int s, int p)
{
  return (shoal_op_desc){ .kind = kind,
                          .in = { SHOAL_SHAPE(2, 3, 9, 8) },
                          .out = SHOAL_SHAPE(0, 16, 0, 0),
                          .kernel = { k, k },
                          .stride = { s, s },
                          .pad = { p, p },
                          .eps = 1e-5f,
                          .training = true };
}

static shoal_op_desc plain(shoal_op_kind kind, shoal_shape in)
{
  return (shoal_op_desc){ .kind = kind, .in = { in, in }, .out = { 0, { 7, 7, 7, 7, 7 } }, .eps = 1e-5f };
}

static void test_shapes(void)
{
  check_shape(windows(SHOAL_OP_CONV, 3, 1, 1), SHOAL_SHAPE(2, 16, 9, 8), 2 * 16 * 72 * 27);
  check_shape(windows(SHOAL_OP_CONV, 5, 2, 0), SHOAL_SHAPE(2, 16, 3, 2), 2 * 16 * 6 * 75);
  check_shape(windows(SHOAL_OP_MAXPOOL, 3, 2, 1), SHOAL_SHAPE(2, 3, 5, 4), 0);
  check_shape(windows(SHOAL_OP_AVGPOOL, 2, 2, 0), SHOAL_SHAPE(2, 3, 4, 4), 0);
  check_shape(plain(SHOAL_OP_GLOBALPOOL, SHOAL_SHAPE(2, 3, 9, 8)), SHOAL_SHAPE(2, 3), 0);
  check_shape(plain(SHOAL_OP_FLATTEN, SHOAL_SHAPE(2, 3, 9, 8)), SHOAL_SHAPE(2, 216), 0);
  check_shape(plain(SHOAL_OP_LINEAR, SHOAL_SHAPE(2, 3, 9)), SHOAL_SHAPE(2, 3, 7), 2 * 3 * 9 * 7);
  check_shape(plain(SHOAL_OP_ADD, SHOAL_SHAPE(2, 3, 9)), SHOAL_SHAPE(2, 3, 9), 0);
  check_shape(plain(SHOAL_OP_MUL, SHOAL_SHAPE(2, 3, 9)), SHOAL_SHAPE(2, 3, 9), 0);
  check_shape(plain(SHOAL_OP_CONCAT, SHOAL_SHAPE(2, 3, 9)), SHOAL_SHAPE(2, 6, 9), 0);
  check_shape(plain(SHOAL_OP_LAYERNORM, SHOAL_SHAPE(2, 3, 9)), SHOAL_SHAPE(2, 3, 9), 0);
  check_shape(plain(SHOAL_OP_BATCHNORM, SHOAL_SHAPE(2, 3)), SHOAL_SHAPE(2, 3), 0);
}

static void test_weight_shapes(void)
{
  shoal_shape w[SHOAL_OP_WEIGHTS], want = SHOAL_SHAPE(16, 3, 5, 5), bias = SHOAL_SHAPE(16), norm = SHOAL_SHAPE(3);
  shoal_op_desc conv = windows(SHOAL_OP_CONV, 5, 1, 1), bn = windows(SHOAL_OP_BATCHNORM, 0, 0, 0);
  shoal_op_weight_shapes(&conv, w);
  CHECK(shoal_shape_equal(&w[0], &want), "conv without bias");
  CHECK_EQ(w[1].ndim, 0);
  conv.bias = true;
  shoal_op_weight_shapes(&conv, w);
  CHECK(shoal_shape_equal(&w[1], &bias), "conv with bias");
  shoal_op_weight_shapes(&bn, w);
  CHECK(shoal_shape_equal(&w[0], &norm));
  CHECK(shoal_shape_equal(&w[1], &norm));
  shoal_op_desc relu = plain(SHOAL_OP_RELU, SHOAL_SHAPE(2, 3));
  shoal_op_weight_shapes(&relu, w);
  CHECK_EQ(w[0].ndim, 0, "relu has no weights");
  CHECK_EQ(w[1].ndim, 0);
}

static void refuse(shoal_op_desc d, const char *words)
{
  shoal_shape untouched = { 4, { 1, 2, 3, 4 } }, out = untouched;
  CHECK_STATUS(shoal_op_infer(&d, &out), SHOAL_ERR_ARG, "accepted what should name '%s'", words);
  CHECK_HAS(check_error(), words);
  CHECK(shoal_shape_equal(&out, &untouched), "output written despite an error");
}

static void test_refusals(void)
{
  shoal_op_desc d = windows(SHOAL_OP_CONV, 3, 0, 1);
  refuse(d, "stride 0");
  refuse(windows(SHOAL_OP_CONV, 0, 1, 0), "kernel 0");
  refuse(windows(SHOAL_OP_CONV, 3, 1, 3), "padding 3");
  refuse(windows(SHOAL_OP_MAXPOOL, 3, 1, -1), "padding -1");
  refuse(windows(SHOAL_OP_CONV, 11, 1, 1), "kernel 11");
  d = windows(SHOAL_OP_CONV, 3, 1, 1);
  d.groups = 3;
  refuse(d, "3 groups of 3 input and 16 output channels");
  d.groups = 1;
  d.gap[0] = d.gap[1] = 4;
  refuse(d, "kernel 11, dilated, along w is larger than the input 8");
  d = windows(SHOAL_OP_CONV, 3, 1, 1);
  d.out.dim[1] = 0;
  refuse(d, "0 output channels");
  d.out.dim[1] = INT64_MAX / 64;
  refuse(d, "lower a dimension");
  refuse(plain(SHOAL_OP_CONV, SHOAL_SHAPE(2, 3)), "2 dimensions");
  refuse(plain(SHOAL_OP_CONV, SHOAL_SHAPE(0, 3, 5, 5)), "[0,3,5,5]");
  refuse(plain(SHOAL_OP_RELU, SHOAL_SHAPE(2, -3)), "[2,-3]");
  refuse(plain(SHOAL_OP_RELU, SHOAL_SHAPE(INT64_MAX / 2, 3)), "more than memory");
  refuse(plain(SHOAL_OP_RELU, (shoal_shape){ 9, { 1 } }), "9 dimensions");
  d = plain(SHOAL_OP_LINEAR, SHOAL_SHAPE(2, 3));
  d.out.dim[1] = -4;
  refuse(d, "width -4");
  refuse(plain(SHOAL_OP_BATCHNORM, SHOAL_SHAPE(2, 3, 4)), "[2,3,4]");
  d = plain(SHOAL_OP_BATCHNORM, SHOAL_SHAPE(1, 3));
  CHECK_OK(shoal_op_infer(&d, &d.out));
  d.training = true;
  refuse(d, "one value per channel");
  d = plain(SHOAL_OP_BATCHNORM, SHOAL_SHAPE(4, 3));
  d.momentum = 1.5f;
  refuse(d, "momentum 1.5");
  d.momentum = NAN;
  refuse(d, "momentum nan");
  d = plain(SHOAL_OP_LAYERNORM, SHOAL_SHAPE(4, 3));
  d.eps = 0;
  refuse(d, "eps 0");
  d = plain(SHOAL_OP_ADD, SHOAL_SHAPE(4, 3));
  d.in[1].dim[1] = 5;
  refuse(d, "[4,3] and [4,5]");
  d.kind = SHOAL_OP_MUL;
  refuse(d, "mul: inputs are [4,3] and [4,5]; the second must have");
  d.in[1].ndim = 0;
  refuse(d, "mul: 1 input; it needs 2");
  d = plain(SHOAL_OP_CONCAT, SHOAL_SHAPE(4, 3, 6));
  d.in[1].dim[2] = 7;
  refuse(d, "concat: inputs are [4,3,6] and [4,3,7]; all but their channels");
  d = plain(SHOAL_OP_SLICE, SHOAL_SHAPE(4, 3, 6));
  d.first = 2;
  d.out.dim[1] = 2;
  refuse(d, "slice: 2 from 2 on of [4,3,6], whose first dimension of a sample has 3");
  d = plain(SHOAL_OP_RESHAPE, SHOAL_SHAPE(4, 3, 6));
  d.out = SHOAL_SHAPE(4, 5, -1);
  refuse(d, "reshape: [4,3,6] has 18 values a sample, which do not fill [4,5,-1]");
  d.out = SHOAL_SHAPE(4, -1, -1);
  refuse(d, "only one dimension can be -1");
  d = plain(SHOAL_OP_TRANSPOSE, SHOAL_SHAPE(4, 3, 6));
  refuse(d, "transpose: order of [4,3,6] must have each of 0 to 1 once");
  d = plain(SHOAL_OP_DROPOUT, SHOAL_SHAPE(4, 3));
  d.p = 1;
  refuse(d, "p 1");
  d = plain(SHOAL_OP_GELU, SHOAL_SHAPE(4, 3));
  d.relu = true;
  refuse(d, "relu cannot be fused");
  d.kind = (shoal_op_kind)99;
  refuse(d, "kind 99");
}

static void test_backends(void)
{
  shoal_backend *b = NULL;
  const char *const *names;
  CHECK_STATUS(shoal_backend_open("gpu", 1, &b), SHOAL_ERR_ARG, "unknown name");
  CHECK_HAS(check_error(), "'gpu'");
  CHECK_STATUS(shoal_backend_open("ref", 0, &b), SHOAL_ERR_ARG, "no threads");
  CHECK_HAS(check_error(), "0 threads");
  CHECK(!b, "an output was written despite errors");
  size_t n = shoal_backend_names(&names);
  REQUIRE(n >= 1, "ref is always there");
  REQUIRE(strcmp(names[0], "ref") == 0, "ref is always there");
  bool cuda = false;
  for (size_t i = 0; i < n; i++) {
    shoal_status st = shoal_backend_open(names[i], 1, &b);
    cuda = cuda || strcmp(names[i], "cuda") == 0;
    if (cuda && st == SHOAL_ERR_DEVICE) { /* built in, and this machine has no GPU */
      CHECK_HAS(check_error(), "device cuda: no ");
      CHECK_HAS(shoal_backend_versions("cuda"), "on this host");
      continue;
    }
    CHECK_OK(st);
    CHECK_STR(b->name, names[i]);
    CHECK_GE(b->threads, 1);
    CHECK_GT(strlen(shoal_backend_versions(names[i])), 0, "versions of %s", names[i]);
    shoal_op *op = NULL;
    shoal_op_desc bad = plain(SHOAL_OP_DROPOUT, SHOAL_SHAPE(4, 3));
    bad.p = 2;
    CHECK_STATUS(shoal_op_create(b, &bad, NULL, &op), SHOAL_ERR_ARG, "%s: p 2", names[i]);
    CHECK(!op, "%s: p 2", names[i]);
    shoal_op_destroy(NULL);
    shoal_backend_close(b);
  }
  if (!cuda) {
    CHECK_STATUS(shoal_backend_open("cuda", 1, &b), SHOAL_ERR_UNSUPPORTED);
    CHECK_HAS(check_error(), "configure with -DSHOAL_CUDA=ON");
    CHECK_STR(shoal_backend_versions("cuda"), "not built in; configure with -DSHOAL_CUDA=ON");
  }
  shoal_backend_close(NULL);
}

int main(void)
{
  test_shapes();
  test_weight_shapes();
  test_refusals();
  test_backends();
  return check_done();
}
