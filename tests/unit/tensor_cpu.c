/* What backend cpu adds to the contract: wide convolutions over small images take another road, a large batch is cut
 * into pieces when somebody polls, sums do not depend on the number of threads, and exp and the normal distribution
 * are own arithmetic.  The suite of all backends knows none of this, so it is checked here, against ref and libm. */
#include "base/mem.h"
#include "tensor/cpu/cpu_impl.h"
#include "tensor/cpu/vecmath.h"
#include "tensor_rig.h"

static int polls;
static void count_poll(void *context)
{
  polls++;
}

static void run(shoal_backend *b, const shoal_op_desc *d, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, NULL, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  if (rig_trains(&r)) rig_backward(&r, out, APART);
  rig_close(&r);
}

static shoal_op_desc conv(int64_t n, int64_t in, int64_t size, int64_t width, int kernel, int stride)
{
  return (shoal_op_desc){ .kind = SHOAL_OP_CONV,
                          .in = { SHOAL_SHAPE(n, in, size, size) },
                          .out = SHOAL_SHAPE(0, width, 0, 0),
                          .kernel = { kernel, kernel },
                          .stride = { stride, stride },
                          .pad = { kernel / 2, kernel / 2 },
                          .training = true,
                          .need_dx = true };
}

typedef struct {
  values v;
  results first, second;
} pair;

static void pair_make(pair *p, const shoal_op_desc *d)
{
  values_make(&p->v, d, FULL, 5);
  results_make(&p->first, &p->v);
  results_make(&p->second, &p->v);
}

static void pair_free(pair *p)
{
  results_free(&p->first);
  results_free(&p->second);
  values_free(&p->v);
}

static void check_bits(const pair *p, const char *what)
{
  const results *a = &p->first, *b = &p->second;
  CHECK(same_bits(a->y, b->y, p->v.y_n), "%s: y has other bits", what);
  CHECK(same_bits(a->dx[0], b->dx[0], p->v.x_n[0]), "%s: dx has other bits", what);
  for (int i = 0; i < 2; i++) {
    CHECK(same_bits(a->dw[i], b->dw[i], p->v.w_n[i]), "%s: dw%d has other bits", what, i);
    CHECK(same_bits(a->stats[i], b->stats[i], p->v.stats_n), "%s: statistics have other bits", what);
  }
}

/* A net of conv -> conv, so that the second one gets blocked input; dw of both must be that of ref. */
static void check_small_images(shoal_backend *cpu, shoal_backend *ref, shoal_op_desc d)
{
  shoal_op_desc before = conv(d.in[0].dim[0], 16, d.in[0].dim[2], d.in[0].dim[1], 1, 1);
  shoal_op *producer = NULL;
  pair p;
  rig r;
  char text[160];
  CHECK_OK(shoal_op_create(cpu, &before, NULL, &producer));
  pair_make(&p, &d);
  run(ref, &d, &p.v, &p.first);
  rig_open(&r, cpu, &d, (shoal_format[]){ producer->out_format, producer->out_format }, &p.v);
  rig_load(&r);
  rig_forward(&r, &p.second, APART);
  rig_backward(&r, &p.second, APART);
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < p.v.w_n[0]; i++) {
    worst = worse(worst, fabs((double)p.first.dw[0][i] - p.second.dw[0][i]));
    largest = fmax(largest, fabs((double)p.first.dw[0][i]));
  }
  CHECK_LT(worst, 2e-6 * largest, "%s: dw", describe(&d, text));
  rig_close(&r);
  pair_free(&p);
  shoal_op_destroy(producer);
}

/* Narrow layers: with channels last on both sides oneDNN's 1x1 weight gradient was wrong for strides and 2 to 6 channels. */
static void check_channels_last(shoal_backend *cpu, shoal_backend *ref, shoal_op_desc d)
{
  shoal_format last;
  pair p;
  rig r;
  char text[160];
  CHECK_OK(shoal_cpu_format_of_layout((shoal_cpu *)cpu, &d.in[0], SHOAL_ELEMENTS_F32, SHOAL_CPU_CHANNELS_LAST, &last));
  pair_make(&p, &d);
  run(ref, &d, &p.v, &p.first);
  rig_open(&r, cpu, &d, (shoal_format[]){ last, last }, &p.v);
  rig_load(&r);
  rig_forward(&r, &p.second, APART);
  rig_backward(&r, &p.second, APART);
  double y = worst_error(p.second.y, p.first.y, p.v.y_n, 1);
  double dx = worst_error(p.second.dx[0], p.first.dx[0], p.v.x_n[0], 1);
  double dw = worst_error(p.second.dw[0], p.first.dw[0], p.v.w_n[0], 1);
  describe(&d, text);
  CHECK_LT(y, 2e-6, "%s", text);
  CHECK_LT(dx, 2e-6, "%s", text);
  CHECK_LT(dw, 2e-6, "%s", text);
  rig_close(&r);
  pair_free(&p);
}

static void check_pieces(shoal_backend *cpu, const shoal_op_desc *d, int at_least)
{
  pair p;
  char text[160];
  pair_make(&p, d);
  run(cpu, d, &p.v, &p.first);
  cpu->progress = count_poll;
  polls = 0;
  run(cpu, d, &p.v, &p.second);
  cpu->progress = NULL;
  check_bits(&p, describe(d, text));
  CHECK_GE(polls, at_least, "%s", text);
  pair_free(&p);
}

static void check_threads(shoal_backend *one, shoal_backend *two, const shoal_op_desc *d)
{
  pair p;
  char text[160];
  pair_make(&p, d);
  run(one, d, &p.v, &p.first);
  run(two, d, &p.v, &p.second);
  check_bits(&p, describe(d, text));
  pair_free(&p);
}

static void check_sums(shoal_backend *one, shoal_backend *two)
{
  size_t n = 1234567;
  double a = 0, b = 0;
  float *x = floats((int64_t)n);
  for (size_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u) % 1000003) / 1000003 - 0.5f;
  CHECK_OK(one->ops->sumsq(one, n, x, &a));
  CHECK_OK(two->ops->sumsq(two, n, x, &b));
  CHECK_EQ(a, b);
  free(x);
}

static void check_vecmath(void)
{
  double worst_exp = 0, worst_cdf = 0, worst_density = 0;
  for (int i = -87000; i <= 88000; i++) {
    float x = (float)i / 1000;
    worst_exp = worse(worst_exp, fabs(shoal_cpu_exp(x) / exp((double)x) - 1));
  }
  for (int i = -9000; i <= 9000; i++) {
    float x = (float)i / 1000, density, cdf = shoal_cpu_normal(x, &density);
    worst_cdf = worse(worst_cdf, fabs(cdf / (0.5 * erfc(-(double)x / sqrt(2))) - 1));
    worst_density = worse(worst_density, fabs(density / (exp(-0.5 * x * x) / sqrt(2 * M_PI)) - 1));
  }
  CHECK_LT(worst_exp, 2e-7);
  CHECK_LT(worst_cdf, 5e-6);
  CHECK_LT(worst_density, 5e-6); /* -x^2/2 = -40 rounded to a float costs 2e-6 */
  CHECK_LT(shoal_cpu_exp(-1000), 1e-37f);
  CHECK_GE(shoal_cpu_exp(-1000), 0);
}

int main(void)
{
  shoal_backend *one = NULL, *two = NULL, *ref = NULL;
  REQUIRE(shoal_backend_open("cpu", 1, &one) == SHOAL_OK, "open");
  REQUIRE(shoal_backend_open("cpu", 2, &two) == SHOAL_OK, "open");
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "open");
  for (int in = 1; in <= 17; in++)
    for (int out = 4; out <= 33; out += 4)
      for (int stride = 1; stride <= 3; stride++)
        check_channels_last(one, ref, conv(2, in, 6 + stride, out, 1, stride));
  check_small_images(one, ref, conv(3, 128, 2, 144, 3, 1));
  check_small_images(two, ref, conv(2, 130, 4, 128, 3, 1));
  check_small_images(one, ref, conv(2, 128, 1, 128, 3, 1)); /* eight taps meet nothing */
  check_small_images(one, ref, conv(2, 128, 5, 128, 5, 2));
  shoal_op_desc long_conv = conv(24, 32, 48, 32, 3, 1), first_conv = conv(24, 3, 96, 64, 3, 1);
  check_pieces(one, &long_conv, 8);
  check_pieces(one, &first_conv, 8);
  shoal_op_desc linear = { .kind = SHOAL_OP_LINEAR,
                           .in = { SHOAL_SHAPE(128, 2048) },
                           .out = SHOAL_SHAPE(0, 1536),
                           .bias = true,
                           .relu = true,
                           .training = true,
                           .need_dx = true };
  check_pieces(one, &linear, 9);
  shoal_op_desc norm = { .kind = SHOAL_OP_BATCHNORM,
                         .in = { SHOAL_SHAPE(9, 40, 33, 33) },
                         .relu = true,
                         .eps = 1e-5f,
                         .momentum = 0.1f,
                         .training = true,
                         .need_dx = true };
  check_threads(one, two, &norm);
  shoal_op_desc layer = {
    .kind = SHOAL_OP_LAYERNORM, .in = { SHOAL_SHAPE(777, 192) }, .eps = 1e-5f, .training = true, .need_dx = true
  };
  check_threads(one, two, &layer);
  check_sums(one, two);
  check_vecmath();
  shoal_backend_close(ref);
  shoal_backend_close(two);
  shoal_backend_close(one);
  return check_done();
}
