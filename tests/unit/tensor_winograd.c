/* Convolutions of backend cpu with Winograd's algorithm switched on, against ref: fewer multiplications, and rounding
 * errors that stay within 1e-5 of the largest value.  Where the rule of shape and instruction set takes oneDNN's direct
 * kernel, this test is as good as the suite. */
#include "base/mem.h"
#include "tensor/cpu/conv.h"
#include "tensor_rig.h"
#include <math.h>

enum { BACKENDS = 3 };
static shoal_backend *cpu[BACKENDS], *ref; /* cpu with 1, 2 and 3 threads */

/* The lanes of the last block of channels that are no channels stay zero: the next operation may count on it. */
static void check_lanes(const float *at, const shoal_shape *s, const shoal_format *f)
{
  shoal_cpu_layout layout = f->dense ? SHOAL_CPU_DENSE : shoal_cpu_layout_of(f);
  if (layout != SHOAL_CPU_BLOCK16 && layout != SHOAL_CPU_BLOCK8) return;
  int64_t wide = layout == SHOAL_CPU_BLOCK16 ? 16 : 8;
  int64_t c = s->dim[1], plane = s->dim[2] * s->dim[3], blocks = (c + wide - 1) / wide, bad = 0;
  for (int64_t i = 0; i < s->dim[0] * plane; i++)
    for (int64_t lane = c - (blocks - 1) * wide; lane < wide; lane++)
      bad += at[((i / plane * blocks + blocks - 1) * plane + i % plane) * wide + lane] != 0;
  CHECK_EQ(bad, 0, "lanes behind %lld channels are not zero", (long long)c);
}

static void run(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, in, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  if (b != ref) check_lanes(r.y_at, &r.op->desc.out, &r.op->out_format);
  if (rig_trains(&r)) rig_backward(&r, out, APART);
  if (b != ref && rig_trains(&r) && d->need_dx) check_lanes(r.dx[0], &d->in[0], &r.op->in_format[0]);
  rig_close(&r);
}

static void check_conv(shoal_backend *b, const shoal_op_desc *d)
{
  values v;
  results got, again, want;
  char text[160];
  values_make(&v, d, FULL, 8);
  results_make(&got, &v);
  results_make(&again, &v);
  results_make(&want, &v);
  run(b, d, NULL, &v, &got);
  run(b, d, NULL, &v, &again);
  run(ref, d, NULL, &v, &want);
  double y = worst_error(got.y, want.y, v.y_n, 0), dx = worst_error(got.dx[0], want.dx[0], v.x_n[0], 0);
  double dw = worst_error(got.dw[0], want.dw[0], v.w_n[0], 0);
  CHECK_LT(y, 1e-5, "%s", describe(d, text));
  CHECK_LT(dx, 1e-5, "%s", describe(d, text));
  CHECK_LT(dw, 1e-5, "%s", describe(d, text));
  if (d->bias) CHECK_LT(worst_error(got.dw[1], want.dw[1], v.w_n[1], 0), 1e-5, "%s", describe(d, text));
  CHECK(same_bits(got.y, again.y, v.y_n), "%s: other bits on a second run", describe(d, text));
  CHECK(same_bits(got.dx[0], again.dx[0], v.x_n[0]), "%s: other bits on a second run", describe(d, text));
  CHECK(same_bits(got.dw[0], again.dw[0], v.w_n[0]), "%s: other bits on a second run", describe(d, text));
  results_free(&got);
  results_free(&again);
  results_free(&want);
  values_free(&v);
}

static bool is_winograd(shoal_op_desc d)
{
  REQUIRE(shoal_op_infer(&d, &d.out) == SHOAL_OK, "shape");
  return shoal_cpu_suits_winograd((shoal_cpu *)cpu[0], &d);
}

/* The same values whatever the format of x and the number of threads; but dW is summed by as many sums as threads. */
static void check_alike(const shoal_op_desc *d)
{
  static const shoal_cpu_layout layout[] = { SHOAL_CPU_BLOCK16, SHOAL_CPU_BLOCK8, SHOAL_CPU_CHANNELS_LAST };
  values v;
  results got, want;
  char text[160];
  values_make(&v, d, FULL, 8);
  results_make(&got, &v);
  results_make(&want, &v);
  run(cpu[0], d, NULL, &v, &want);
  for (int i = 0; i < BACKENDS; i++) {
    shoal_format in;
    REQUIRE(shoal_cpu_format_of_layout((shoal_cpu *)cpu[i], &d->in[0], SHOAL_ELEMENTS_F32, layout[i], &in) == SHOAL_OK,
            "format");
    run(cpu[i], d, &in, &v, &got);
    CHECK(same_bits(got.y, want.y, v.y_n), "%s: other bits with %d threads", describe(d, text), i + 1);
    CHECK(same_bits(got.dx[0], want.dx[0], v.x_n[0]), "%s: other bits with %d threads", describe(d, text), i + 1);
    CHECK_LT(worst_error(got.dw[0], want.dw[0], v.w_n[0], 0), 1e-5, "%s: %d threads", describe(d, text), i + 1);
  }
  results_free(&got);
  results_free(&want);
  values_free(&v);
}

static void check_spreads(const float *got, const float *want, int64_t n, const char *what)
{
  int64_t lost = 0;
  for (int64_t i = 0; i < n; i++) lost += !isfinite(want[i]) && isfinite(got[i]);
  CHECK_EQ(lost, 0, "numbers of %s that are finite here and not in ref", what);
}

/* What is not finite by the definition is not finite here. */
static void check_numbers(const shoal_op_desc *d, float bad)
{
  values v;
  results got, want;
  values_make(&v, d, FULL, 8);
  results_make(&got, &v);
  results_make(&want, &v);
  v.x[0][v.x_n[0] / 2 + 1] = v.dy[v.y_n / 3 + 2] = bad;
  run(cpu[1], d, NULL, &v, &got);
  run(ref, d, NULL, &v, &want);
  check_spreads(got.y, want.y, v.y_n, "y");
  check_spreads(got.dx[0], want.dx[0], v.x_n[0], "dx");
  check_spreads(got.dw[0], want.dw[0], v.w_n[0], "dw");
  results_free(&got);
  results_free(&want);
  values_free(&v);
}

static shoal_op_desc conv(int64_t n, int64_t in, int64_t h, int64_t w, int64_t out, int pad_h, int pad_w)
{
  return (shoal_op_desc){ .kind = SHOAL_OP_CONV,
                          .in = { SHOAL_SHAPE(n, in, h, w) },
                          .out = SHOAL_SHAPE(0, out, 0, 0),
                          .kernel = { 3, 3 },
                          .stride = { 1, 1 },
                          .pad = { pad_h, pad_w },
                          .training = true,
                          .need_dx = true };
}

int main(void)
{
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "open ref");
  for (int t = 0; t < BACKENDS; t++) {
    REQUIRE(shoal_backend_open("cpu", t + 1, &cpu[t]) == SHOAL_OK, "open cpu");
    shoal_cpu_set_winograd(cpu[t], true);
  }
  const shoal_op_desc *cases;
  size_t n = test_cases(&cases);
  for (size_t i = 0; i < n; i++)
    if (cases[i].kind == SHOAL_OP_CONV) check_conv(cpu[1], &cases[i]);
  /* Widths of one group and of several, with and without a rest, whole tiles and cut ones, paddings 0 to 2, a last block
   * that is not full, sums of dW by tiles and (256 x 512 channels) by outputs; and one of four groups. */
  shoal_op_desc more[] = { conv(4, 64, 16, 16, 64, 1, 1), conv(9, 16, 18, 19, 48, 1, 1), conv(3, 40, 7, 11, 17, 0, 2),
                           conv(2, 32, 9, 8, 80, 2, 0),   conv(70, 16, 6, 4, 32, 2, 1),  conv(1, 256, 4, 4, 512, 1, 1),
                           conv(2, 64, 8, 8, 64, 1, 1) };
  more[6].groups = 4;
  for (size_t i = 0; i < SHOAL_COUNT(more); i++) {
    more[i].bias = i % 2 == 1;
    more[i].relu = i % 4 >= 2;
    check_conv(cpu[i % BACKENDS], &more[i]);
    if (is_winograd(more[i])) check_alike(&more[i]);
  }
  check_numbers(&more[1], NAN);
  check_numbers(&more[2], NAN);
  check_numbers(&more[3], INFINITY);
  shoal_backend_close(ref);
  for (int t = 0; t < BACKENDS; t++) shoal_backend_close(cpu[t]);
  return check_done() || rig_failures();
}
