/* Dropout is a function of addresses: the test computes every mask element again from the rule in tensor/op.h, and cuts
 * a batch in two to see that nobody but the address decides. */
#include "base/rng.h"
#include "tensor_rig.h"

enum { SAMPLES = 6, SLOT0 = 10 };

static shoal_op_desc dropout(shoal_shape s, float p, bool training)
{
  return (shoal_op_desc){
    .kind = SHOAL_OP_DROPOUT, .in = { s }, .p = p, .stream = 4, .training = training, .need_dx = true
  };
}

/* Forward and backward of all ones, so that y and dx are the mask over 1-p. */
static void mask_of(shoal_backend *b, const shoal_op_desc *d, uint64_t seed, uint32_t step, uint64_t slot0, float *y,
                    float *dx)
{
  values v;
  results r;
  rig g;
  values_make(&v, d, GRID, 1);
  for (int64_t i = 0; i < v.x_n[0]; i++) v.x[0][i] = v.dy[i] = 1;
  results_make(&r, &v);
  rig_open(&g, b, d, NULL, &v);
  g.at = (shoal_address){ .seed = seed, .step = step, .slot0 = slot0 };
  rig_load(&g);
  rig_forward(&g, &r, APART);
  if (d->training) rig_backward(&g, &r, APART);
  memcpy(y, r.y, (size_t)v.y_n * sizeof(float));
  memcpy(dx, r.dx[0], (size_t)v.x_n[0] * sizeof(float));
  rig_close(&g);
  results_free(&r);
  values_free(&v);
}

static bool is_kept(const shoal_op_desc *d, uint64_t seed, uint32_t step, uint64_t index)
{
  shoal_rng_block r = shoal_rng(shoal_rng_seed(seed, d->stream), SHOAL_RNG_DROPOUT, index / 4, step);
  return shoal_rng_unit(r.v[index % 4]) >= d->p;
}

static void check_rule(shoal_backend *b, shoal_shape s, float p)
{
  shoal_op_desc d = dropout(s, p, true);
  int64_t n = shoal_shape_count(&s), per_sample = n / s.dim[0], kept = 0, wrong = 0;
  float *y = floats(n), *dx = floats(n), value = 1.0f / (1.0f - p);
  mask_of(b, &d, 77, 5, SLOT0, y, dx);
  for (int64_t i = 0; i < n; i++) {
    bool keep = is_kept(&d, 77, 5, (uint64_t)(SLOT0 * per_sample + i));
    kept += y[i] != 0;
    wrong += (y[i] != 0) != keep || (keep && fabs(y[i] / value - 1) > 2e-7);
  }
  CHECK_EQ(wrong, 0, "p %g", (double)p);
  CHECK(same_bits(y, dx, n), "p %g: backward uses another mask than forward", (double)p);
  double sigma = sqrt((double)n * p * (1 - p));
  CHECK_NEAR((double)kept, (double)n * (1 - p), 5 * sigma, "p %g: kept of %d", (double)p, (int)n);
  free(y);
  free(dx);
}

static void check_cut(shoal_backend *b, shoal_shape half)
{
  shoal_shape whole = half;
  whole.dim[0] *= 2;
  shoal_op_desc dw = dropout(whole, 0.3f, true), dh = dropout(half, 0.3f, true);
  int64_t n = shoal_shape_count(&half);
  float *all = floats(2 * n), *parts = floats(2 * n), *dx = floats(2 * n);
  mask_of(b, &dw, 1, 2, SLOT0, all, dx);
  mask_of(b, &dh, 1, 2, SLOT0, parts, dx);
  mask_of(b, &dh, 1, 2, SLOT0 + (uint64_t)half.dim[0], parts + n, dx);
  CHECK(same_bits(all, parts, 2 * n), "two half batches have another mask than the whole");
  free(all);
  free(parts);
  free(dx);
}

static void check_addresses_differ(shoal_backend *b)
{
  shoal_op_desc d = dropout(SHOAL_SHAPE(4, 50), 0.5f, true), other = d;
  float y[5][200], dx[200];
  other.stream = 5;
  mask_of(b, &d, 1, 1, 0, y[0], dx);
  mask_of(b, &d, 2, 1, 0, y[1], dx);
  mask_of(b, &d, 1, 2, 0, y[2], dx);
  mask_of(b, &d, 1, 1, 4, y[3], dx);
  mask_of(b, &other, 1, 1, 0, y[4], dx);
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < i; j++) {
      int equal = 0;
      for (int k = 0; k < 200; k++) equal += y[i][k] == y[j][k];
      CHECK_GT(equal, 60, "masks %d and %d, equal places of 200", i, j);
      CHECK_LT(equal, 140, "masks %d and %d, equal places of 200", i, j);
    }
}

int test_dropout(shoal_backend *b)
{
  check_rule(b, SHOAL_SHAPE(SAMPLES, 3, 5), 0.5f);
  check_rule(b, SHOAL_SHAPE(SAMPLES, 17, 5, 3), 0.1f);
  check_rule(b, SHOAL_SHAPE(SAMPLES, 1001), 0.9f);
  check_rule(b, SHOAL_SHAPE(1, 7), 0.0f);
  check_cut(b, SHOAL_SHAPE(3, 15));
  check_cut(b, SHOAL_SHAPE(1, 17, 3, 3));
  check_cut(b, SHOAL_SHAPE(5, 16, 4, 4));
  check_addresses_differ(b);
  shoal_op_desc eval = dropout(SHOAL_SHAPE(3, 5), 0.5f, false);
  float y[15], dx[15];
  mask_of(b, &eval, 1, 1, 0, y, dx);
  for (int i = 0; i < 15; i++) CHECK_EQ(y[i], 1, "evaluation changed element %d", i);
  return check_failures;
}
