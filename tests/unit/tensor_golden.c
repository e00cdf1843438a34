/* Operations against numbers that PyTorch computed in double: the meaning of padding, momentum, variance, stride and
 * layout is theirs too, and not only consistent with itself.  See tensor_golden.py. */
#include "base/mem.h"
#include "tensor_rig.h"

enum { GOLDEN_INPUTS = 3 };
enum { Y, DX0, DW0 = DX0 + GOLDEN_INPUTS, DW1, MEAN, VARIANCE, RESULTS };

static const struct {
  shoal_op_desc d;
  struct {
    double sum, scale;
  } want[RESULTS];
} golden[] = {
#include "tensor_golden.h"
};

static double pattern(int64_t i, int64_t salt)
{
  return (double)((i * 7919 + salt * 104729) % 257 - 128) / 64;
}

static void fill(float *p, int64_t n, int64_t salt)
{
  for (int64_t i = 0; p && i < n; i++) p[i] = (float)pattern(i, salt);
}

static void check_sum(size_t k, int which, const float *got, int64_t n)
{
  static const char *const names[] = { "y", "dx0", "dx1", "dx2", "dw0", "dw1", "running mean", "running variance" };
  double sum = 0, limit = 2e-6 * golden[k].want[which].scale;
  char text[160];
  for (int64_t i = 0; i < n; i++) sum += got[i] * pattern(i, 9);
  CHECK_NEAR(sum, golden[k].want[which].sum, limit, "%s: sum of %s", describe(&golden[k].d, text), names[which]);
}

int test_golden(shoal_backend *b)
{
  for (size_t k = 0; k < SHOAL_COUNT(golden); k++) {
    values v;
    results r;
    rig g;
    values_make(&v, &golden[k].d, GRID, 1);
    results_make(&r, &v);
    for (int i = 0; i < v.inputs; i++) fill(v.x[i], v.x_n[i], i < 2 ? 1 + i : 8 + i);
    for (int64_t i = 0; shoal_op_is_curve(golden[k].d.kind) && i < v.x_n[0]; i++)
      v.x[0][i] = 4 * v.x[0][i] + 0x1p-5f; /* beside kinks */
    for (int64_t i = 0; golden[k].d.kind == SHOAL_OP_EMBEDDING && i < v.x_n[0]; i++)
      v.x[0][i] = (float)((int64_t)fabsf(64 * v.x[0][i]) % golden[k].d.rows);
    for (int i = 0; i < 2; i++) {
      fill(v.w[i], v.w_n[i], 3 + i);
      fill(v.stats[i], v.stats_n, 5 + i);
    }
    fill(v.dy, v.y_n, 7);
    for (int64_t i = 0; i < v.stats_n; i++) v.stats[1][i] = fabsf(v.stats[1][i]) + 1;
    rig_open(&g, b, &golden[k].d, NULL, &v);
    rig_load(&g);
    rig_forward(&g, &r, APART);
    if (rig_trains(&g)) rig_backward(&g, &r, APART);
    check_sum(k, Y, r.y, v.y_n);
    for (int i = 0; rig_trains(&g) && i < v.inputs; i++) check_sum(k, DX0 + i, r.dx[i], v.x_n[i]);
    for (int i = 0; i < 2; i++) {
      if (rig_trains(&g)) check_sum(k, DW0 + i, r.dw[i], v.w_n[i]);
      check_sum(k, MEAN + i, r.stats[i], v.stats_n);
    }
    rig_close(&g);
    results_free(&r);
    values_free(&v);
  }
  return check_failures;
}
