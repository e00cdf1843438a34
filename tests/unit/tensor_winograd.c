/* Convolutions of backend cpu with Winograd's algorithm switched on, against ref: fewer multiplications, and rounding
 * errors that stay within 2e-5 of the largest value.  Where oneDNN finds no Winograd kernel for a shape or a processor
 * it takes the direct one, and this test is as good as the suite. */
#include "base/mem.h"
#include "tensor/cpu/cpu.h"
#include "tensor_rig.h"

static void run(shoal_backend *b, const shoal_op_desc *d, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, NULL, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  if (rig_trains(&r)) rig_backward(&r, out, APART);
  rig_close(&r);
}

static void check_conv(shoal_backend *cpu, shoal_backend *ref, const shoal_op_desc *d)
{
  values v;
  results got, again, want;
  char text[160];
  values_make(&v, d, FULL, 8);
  results_make(&got, &v);
  results_make(&again, &v);
  results_make(&want, &v);
  run(cpu, d, &v, &got);
  run(cpu, d, &v, &again);
  run(ref, d, &v, &want);
  double y = worst_error(got.y, want.y, v.y_n, 0), dx = worst_error(got.dx[0], want.dx[0], v.x_n[0], 0);
  double dw = worst_error(got.dw[0], want.dw[0], v.w_n[0], 0);
  CHECK_LT(y, 2e-5, "%s", describe(d, text));
  CHECK_LT(dx, 2e-5, "%s", describe(d, text));
  CHECK_LT(dw, 2e-5, "%s", describe(d, text));
  CHECK(same_bits(got.y, again.y, v.y_n), "%s: other bits on a second run", describe(d, text));
  CHECK(same_bits(got.dx[0], again.dx[0], v.x_n[0]), "%s: other bits on a second run", describe(d, text));
  CHECK(same_bits(got.dw[0], again.dw[0], v.w_n[0]), "%s: other bits on a second run", describe(d, text));
  results_free(&got);
  results_free(&again);
  results_free(&want);
  values_free(&v);
}

int main(void)
{
  shoal_backend *cpu = NULL, *ref = NULL;
  REQUIRE(shoal_backend_open("cpu", 2, &cpu) == SHOAL_OK, "open");
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "open");
  shoal_cpu_set_winograd(cpu, true);
  const shoal_op_desc *cases;
  size_t n = test_cases(&cases);
  for (size_t i = 0; i < n; i++)
    if (cases[i].kind == SHOAL_OP_CONV) check_conv(cpu, ref, &cases[i]);
  shoal_op_desc wide = { .kind = SHOAL_OP_CONV,
                         .in = { SHOAL_SHAPE(4, 64, 16, 16) },
                         .out = SHOAL_SHAPE(0, 64, 0, 0),
                         .kernel = { 3, 3 },
                         .stride = { 1, 1 },
                         .pad = { 1, 1 },
                         .training = true,
                         .need_dx = true };
  check_conv(cpu, ref, &wide);
  shoal_backend_close(ref);
  shoal_backend_close(cpu);
  return check_done() || rig_failures();
}
