/* Operations as wholes: against ref, the same bits twice, in place, new weights, and in the formats other operations
 * hand over.
 *
 * On GRID data (multiples of 2^-7 below 1) every product and sum of linear, conv, add and the maximum is exact, so the
 * backends must agree to the bit; the bounds below are for FULL data, relative to the largest value of a tensor.
 *
 * Where products may round their factors, by a part of 2^-11 (TF32) or 2^-8 (bf16) at most, GRID data still has the same bits,
 * because the factors have 8: it shows that nothing else is rounded.  Convolutions in bf16 may round their results likewise, so
 * that they are within 2^-8 on GRID data and 5 x 2^-8 on FULL data (linear layers: 0 and 4 x 2^-8); gradients of biases are never rounded.  A relu close to zero
 * may fall to the other side.
 *
 * Where activations are bf16 (cpu), ref is given the same rounded x, dy and factors.  Then sums, and with them dw and statistics,
 * follow the bounds of f32, and y and dx are within the rounding of what is written, 2^-8; where nothing else is rounded (GRID data;
 * operations that are exact) they are ref's, rounded. */
#include "base/mem.h"
#include "tensor/half.h"
#include "tensor_rig.h"

static shoal_products products;
static bool halves; /* activations are bf16 */

/* How many terms the longest sum of an operation has. */
static double longest_sum(const shoal_op_desc *d, const values *v)
{
  double channels = 1;
  if (d->kind == SHOAL_OP_CONV) channels = (double)d->out.dim[1];
  if (d->kind == SHOAL_OP_LINEAR) channels = (double)v->y_n / (double)(v->x_n[0] / d->in[0].dim[d->in[0].ndim - 1]);
  double inputs = v->w_n[0] ? (double)v->w_n[0] / channels : 1; /* ci * kh * kw, or in */
  double backward = v->w_n[0] ? (double)v->y_n / channels : 1;  /* rows, or n * p * q */
  return fmax(fmax(inputs, backward), channels);
}

static bool is_exact_on_grid(shoal_op_kind kind)
{
  return kind == SHOAL_OP_LINEAR || kind == SHOAL_OP_CONV;
}

/* Of products of two factors that are rounded; a sum may be smaller than its terms. */
static double rounding(void)
{
  if (halves) return 0;
  return products == SHOAL_PRODUCTS_BF16 ? 4 * 0x1p-8 : products == SHOAL_PRODUCTS_TF32 ? 4 * 0x1p-11 : 0;
}

/* Of results that are written in 16 bits. */
static double written(const shoal_op_desc *d)
{
  return products == SHOAL_PRODUCTS_BF16 && !halves && d->kind == SHOAL_OP_CONV ? 0x1p-8 : 0;
}

static void round_bf16(float *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    uint16_t h;
    shoal_bf16_from_f32(1, &x[i], &h);
    shoal_f32_from_bf16(1, &h, &x[i]);
  }
}

static void round_values(const shoal_op_desc *d, values *v)
{
  for (int k = 0; k < v->inputs; k++) round_bf16(v->x[k], v->x_n[k]);
  round_bf16(v->dy, v->y_n);
  if (is_exact_on_grid(d->kind)) round_bf16(v->w[0], v->w_n[0]);
}

static double bound(const shoal_op_desc *d, const values *v)
{
  const double unit = 0x1p-24;
  switch (d->kind) {
  case SHOAL_OP_LINEAR:
  case SHOAL_OP_CONV:
    return (4 + 2 * sqrt(longest_sum(d, v))) * unit; /* rounding errors of a sum walk at random */
  case SHOAL_OP_BATCHNORM:
  case SHOAL_OP_LAYERNORM:
    return 64 * unit; /* 4e-6 */
  case SHOAL_OP_ATTENTION:
    return 64 * unit;
  case SHOAL_OP_GELU:
  case SHOAL_OP_GELU_TANH:
  case SHOAL_OP_SIGMOID:
  case SHOAL_OP_TANH:
  case SHOAL_OP_SILU:
    return 16 * unit; /* 1e-6 */
  case SHOAL_OP_LEAKYRELU:
  case SHOAL_OP_HARDSWISH:
  case SHOAL_OP_HARDSIGMOID:
    return 4 * unit;
  case SHOAL_OP_MUL:
  case SHOAL_OP_PARAMETER:
  case SHOAL_OP_AVGPOOL:
  case SHOAL_OP_GLOBALPOOL:
    return 8 * unit;
  case SHOAL_OP_DROPOUT:
    return 2 * unit; /* x * (1 / (1-p)) or x / (1-p) */
  default:
    return 0; /* relu, relu6, maxpool, add, flatten: one rounding or none */
  }
}

/* How large the terms of a dx are that cancels to nothing: a layer norm of width 1 ignores its input, yet works with
 * rates of 1 / sqrt(eps). */
static double dx_terms(const shoal_op_desc *d)
{
  return d->kind == SHOAL_OP_LAYERNORM ? 1 / sqrt(d->eps) : 0;
}

static void compare(const char *case_text, const char *what, const float *got, const float *want, int64_t n,
                    double limit, double cancelled)
{
  double e = worst_error(got, want, n, cancelled);
  CHECK_LE(e, limit, "%s: %s differs from ref", case_text, what);
}

/* What is an activation, or its gradient. */
static void compare_activation(const char *case_text, const char *what, float *got, float *want, int64_t n,
                               double limit, double cancelled)
{
  if (halves && limit == 0) {
    round_bf16(got, n);
    round_bf16(want, n);
  }
  compare(case_text, what, got, want, n, halves && limit > 0 ? limit + 0x1p-8 : limit, cancelled);
}

static void run(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, in, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  if (rig_trains(&r)) rig_backward(&r, out, APART);
  rig_close(&r);
}

static void check_against_ref(shoal_backend *b, shoal_backend *ref, const shoal_op_desc *d, const shoal_format *in,
                              value_kind kind)
{
  values v;
  results got, want;
  char text[160];
  values_make(&v, d, kind, 1);
  if (halves) round_values(d, &v);
  results_make(&got, &v);
  results_make(&want, &v);
  run(b, d, in, &v, &got);
  run(ref, d, NULL, &v, &want);
  const bool exact = kind == GRID && is_exact_on_grid(d->kind);
  const double unrounded = exact ? 0 : bound(d, &v), limit = unrounded + (exact ? 0 : rounding()) + written(d);
  describe(d, text);
  compare_activation(text, "y", got.y, want.y, v.y_n, limit, 0);
  if (!exact && rounding() > 0 && !d->relu)
    CHECK_GT(worst_error(got.y, want.y, v.y_n, 0), unrounded, "%s: products are not rounded", text);
  const bool masks_alike = !d->relu || limit <= unrounded || (exact && !d->bias); /* rounding keeps the sign */
  for (int i = 0; i < 2 && masks_alike; i++) {
    compare(text, i ? "running variance" : "running mean", got.stats[i], want.stats[i], v.stats_n, limit, 0);
    compare(text, i ? "dw1" : "dw0", got.dw[i], want.dw[i], v.w_n[i], i ? unrounded : limit, 0);
  }
  for (int i = 0; i < v.inputs && masks_alike; i++)
    compare_activation(text, i ? "another dx" : "dx0", got.dx[i], want.dx[i], v.x_n[i], limit, dx_terms(d));
  results_free(&got);
  results_free(&want);
  values_free(&v);
}

static void check_same(const char *text, const char *when, const values *v, const results *a, const results *b)
{
  CHECK(same_bits(a->y, b->y, v->y_n), "%s: y has other bits %s", text, when);
  for (int i = 0; i < 2; i++) {
    CHECK(same_bits(a->stats[i], b->stats[i], v->stats_n), "%s: statistics have other bits %s", text, when);
    CHECK(same_bits(a->dw[i], b->dw[i], v->w_n[i]), "%s: dw has other bits %s", text, when);
  }
  for (int i = 0; i < v->inputs; i++)
    CHECK(same_bits(a->dx[i], b->dx[i], v->x_n[i]), "%s: dx has other bits %s", text, when);
}

/* The same operation again, then in place where it claims to manage that. */
static void check_repeats(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in)
{
  values v;
  results first, again;
  char text[160];
  rig r;
  describe(d, text);
  values_make(&v, d, FULL, 2);
  results_make(&first, &v);
  results_make(&again, &v);
  rig_open(&r, b, d, in, &v);
  for (int round = 0; round < 2; round++) {
    rig_load(&r);
    rig_forward(&r, round ? &again : &first, APART);
    if (rig_trains(&r)) rig_backward(&r, round ? &again : &first, APART);
  }
  check_same(text, "on a second run", &v, &again, &first);
  if (r.op->dx_may_be_dy && rig_trains(&r) && d->need_dx) {
    rig_load(&r);
    rig_forward(&r, &again, APART);
    rig_backward(&r, &again, IN_PLACE);
    check_same(text, "with dx in dy's place", &v, &again, &first);
  }
  if (r.op->y_may_be_x) {
    rig_load(&r);
    rig_forward(&r, &again, IN_PLACE);
    if (rig_trains(&r) && !r.op->backward_reads_x) rig_backward(&r, &again, APART);
    check_same(text, "with y in x's place", &v, &again, &first);
  }
  rig_close(&r);
  run(b, d, in, &v, &again);
  check_same(text, "in a second operation", &v, &again, &first);
  results_free(&first);
  results_free(&again);
  values_free(&v);
}

/* Weights rewritten in place under a new version count in forward, in backward, and whichever comes first. */
static void check_weights_version(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in)
{
  values old, new;
  results got, want;
  char text[160];
  rig r;
  describe(d, text);
  values_make(&old, d, FULL, 3);
  values_make(&new, d, FULL, 4);
  results_make(&got, &new);
  results_make(&want, &new);
  run(b, d, in, &new, &want);
  rig_open(&r, b, d, in, &old);
  rig_load(&r);
  rig_forward(&r, &got, APART);
  if (rig_trains(&r)) rig_backward(&r, &got, APART);
  r.v = &new;
  r.version = 9;
  rig_load(&r);
  rig_forward(&r, &got, APART);
  if (rig_trains(&r)) rig_backward(&r, &got, APART);
  check_same(text, "after new weights", &new, &got, &want);
  rig_close(&r);
  results_free(&got);
  results_free(&want);
  values_free(&old);
  values_free(&new);
}

/* What a convolution in front of this operation would hand over: usually not a dense tensor. */
static shoal_op *producer_of(shoal_backend *b, const shoal_shape *s)
{
  shoal_op_desc d = { .kind = SHOAL_OP_CONV, .in = { SHOAL_SHAPE(s->dim[0], 16, s->dim[2], s->dim[3]) }, .out = *s };
  shoal_op *op = NULL;
  d.kernel[0] = d.kernel[1] = d.stride[0] = d.stride[1] = 1;
  d.training = d.need_dx = true;
  CHECK_OK(shoal_op_create(b, &d, NULL, &op));
  return op;
}

static void check_case(shoal_backend *b, shoal_backend *ref, const shoal_op_desc *d, const shoal_format *in)
{
  if (b != ref) {
    check_against_ref(b, ref, d, in, GRID);
    check_against_ref(b, ref, d, in, FULL);
  }
  if (products != SHOAL_PRODUCTS_F32 && !halves) return; /* what follows is of the same calls */
  check_repeats(b, d, in);
  check_weights_version(b, d, in);
}

/* Small windows full of equal values: of equal maxima the first in scan order takes the gradient. */
static void check_pool_ties(shoal_backend *b)
{
  shoal_op_desc d = { .kind = SHOAL_OP_MAXPOOL, .in = { SHOAL_SHAPE(3, 17, 6, 6) }, .training = true, .need_dx = true };
  values v;
  results r;
  d.kernel[0] = d.kernel[1] = 3;
  d.stride[0] = d.stride[1] = 3;
  values_make(&v, &d, GRID, 5);
  for (int64_t i = 0; i < v.x_n[0]; i++) v.x[0][i] = v.x[0][i] > 0 ? 1 : 0;
  for (int64_t i = 0; i < v.y_n; i++) v.dy[i] = 1;
  results_make(&r, &v);
  run(b, &d, NULL, &v, &r);
  int wrong = 0;
  for (int64_t window = 0; window < v.y_n; window++) {
    int64_t corner = window / 4 * 36 + window % 4 / 2 * 18 + window % 2 * 3, first = -1;
    for (int64_t k = 0; k < 9 && first < 0; k++)
      if (v.x[0][corner + k / 3 * 6 + k % 3] == r.y[window]) first = k;
    for (int64_t k = 0; k < 9; k++) wrong += r.dx[0][corner + k / 3 * 6 + k % 3] != (k == first);
  }
  CHECK_EQ(wrong, 0);
  results_free(&r);
  values_free(&v);
}

/* A NaN of either sign in the input.  A relu, fused or not, has one exactly where the same operation without it has, and the
 * gradient passes there; a maximum has one wherever its window has. */
static void check_nan(shoal_backend *b, const shoal_op_desc *given, float nan)
{
  shoal_op_desc d = *given, plain = *given;
  values v;
  results got, bare;
  char text[160];
  bool pool = d.kind == SHOAL_OP_MAXPOOL;
  if (!d.relu && d.kind != SHOAL_OP_RELU && !pool) return;
  describe(&d, text);
  values_make(&v, &d, GRID, 6);
  v.x[0][v.x_n[0] / 3] = v.x[0][v.x_n[0] - 1] = nan;
  results_make(&got, &v);
  results_make(&bare, &v);
  run(b, &d, NULL, &v, &got);
  plain.relu = false;
  if (d.relu) run(b, &plain, NULL, &v, &bare);
  int64_t found = 0, lost = 0, other = 0, blocked = 0;
  for (int64_t i = 0; i < v.y_n; i++) {
    float y = d.relu ? bare.y[i] : pool ? got.y[i] : v.x[0][i];
    found += isnan(got.y[i]);
    lost += isnan(got.y[i]) != isnan(y);
    other += !isnan(y) && !pool && got.y[i] != (y > 0 ? y : 0);
    bool pointwise = d.kind == SHOAL_OP_RELU || d.kind == SHOAL_OP_ADD;
    blocked += isnan(y) && pointwise && d.training && d.need_dx && got.dx[0][i] != v.dy[i];
  }
  CHECK(found > 0, "%s: no NaN in y", text);
  CHECK_EQ(lost, 0, "%s: NaN lost or made", text);
  CHECK_EQ(other, 0, "%s: other values wrong", text);
  CHECK_EQ(blocked, 0, "%s: gradients of NaN blocked", text);
  if (d.training && d.need_dx && pool) {
    int64_t windows = 0;
    for (int64_t i = 0; i < v.x_n[0]; i++) windows += isnan(v.x[0][i]) && got.dx[0][i] != 0;
    CHECK(windows > 0, "%s: a NaN gets no gradient", text);
  }
  results_free(&got);
  results_free(&bare);
  values_free(&v);
}

int test_ops(shoal_backend *b, shoal_backend *ref, shoal_op_kind kind, shoal_products p)
{
  products = p;
  halves = p == SHOAL_PRODUCTS_BF16 && strcmp(b->name, "cpu") == 0;
  const shoal_op_desc *cases;
  size_t n = test_cases(&cases);
  for (size_t i = 0; i < n; i++) {
    const shoal_op_desc *d = &cases[i];
    if (kind != SHOAL_OP_COUNT && d->kind != kind) continue;
    check_case(b, ref, d, NULL);
    check_nan(b, d, NAN);
    check_nan(b, d, -NAN);
    if (b == ref || d->in[0].ndim != 4) continue;
    shoal_op *producer[SHOAL_OP_INPUTS];
    bool made_dense = true;
    for (int k = 0; k < shoal_op_inputs(d); k++) {
      producer[k] = d->in[k].ndim == 4 ? producer_of(b, &d->in[k]) : NULL;
      made_dense = made_dense && (!producer[k] || producer[k]->out_format.dense);
    }
    /* All inputs as it made them (where all are dense, that was checked above), and in turn every other one. */
    for (unsigned blocked = made_dense ? 0 : 3; blocked > 0; blocked = shoal_op_inputs(d) > 1 ? blocked - 1 : 0) {
      shoal_format in[SHOAL_OP_INPUTS];
      for (int k = 0; k < shoal_op_inputs(d); k++)
        in[k] = producer[k] && blocked >> (k & 1) & 1 ? producer[k]->out_format
                                                      : shoal_format_dense(&d->in[k], SHOAL_ELEMENTS_F32);
      check_case(b, ref, d, in);
    }
    for (int k = 0; k < shoal_op_inputs(d); k++) shoal_op_destroy(producer[k]);
  }
  check_pool_ties(b);
  return check_failures;
}
