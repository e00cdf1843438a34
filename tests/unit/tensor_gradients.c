/* Backward against finite differences of forward.
 *
 * With a fixed random vector r, L(x, w) = sum_i r_i y_i has dL/dx = backward_data(r) and dL/dw = backward_weights(r).
 * A probe moves one element, or all of them by random signs, and compares the slope of L with the gradient.  To get
 * more digits than f32 seems to allow, inputs and steps are multiples of powers of two (x + h is exact), differences
 * are taken per output in double before they are weighted with r, and curved operations use two step sizes
 * (Richardson), which leaves an error of order h^4.
 *
 * Kinks: outputs that a fused relu switches on or off between the two ends of any probe get r_i = 0, so they ask
 * nothing; inputs of relu and maximum pools keep a distance from them by choice of data. */
#include "base/mem.h"
#include "base/rng.h"
#include "tensor_rig.h"

enum { X0, W0 = SHOAL_OP_INPUTS, W1, TENSORS };
enum { SINGLES = 4, DIRECTIONS = 2, PROBES_MAX = TENSORS * (SINGLES + DIRECTIONS) };

typedef struct {
  int tensor;
  int64_t index; /* of the one element that moves; -1: all move */
  uint64_t seed;
  double *slope; /* [y_n], of each output */
} probe;

static float *tensor_of(const values *v, int tensor, int64_t *n)
{
  if (tensor < W0) {
    *n = tensor < v->inputs ? v->x_n[tensor] : 0;
    return v->x[tensor];
  }
  *n = v->w_n[tensor - W0];
  return v->w[tensor - W0];
}

static float move_of(const probe *p, int64_t i)
{
  if (p->index >= 0) return i == p->index;
  return shoal_rng(p->seed, SHOAL_RNG_TEST, (uint64_t)i, 1).v[0] & 1 ? 1.0f : -1.0f;
}

/* y at distance t along the probe; v comes back unchanged, because the steps are exact. */
static void evaluate(rig *r, const values *v, const probe *p, float t, results *out)
{
  int64_t n;
  float *x = tensor_of(v, p->tensor, &n);
  for (int64_t i = 0; i < n; i++) x[i] += t * move_of(p, i);
  r->version++;
  rig_load(r);
  rig_forward(r, out, APART);
  for (int64_t i = 0; i < n; i++) x[i] -= t * move_of(p, i);
}

static bool is_curved(shoal_op_kind kind)
{
  bool bent =
      kind == SHOAL_OP_LEAKYRELU || kind == SHOAL_OP_RELU6 || kind == SHOAL_OP_HARDSIGMOID; /* straight pieces */
  return kind == SHOAL_OP_BATCHNORM || kind == SHOAL_OP_LAYERNORM || kind == SHOAL_OP_ATTENTION ||
         (shoal_op_is_curve(kind) && !bent);
}

static void add_slope(rig *r, const values *v, probe *p, float h, double weight, results *up, results *down)
{
  evaluate(r, v, p, h, up);
  evaluate(r, v, p, -h, down);
  for (int64_t i = 0; i < v->y_n; i++) {
    p->slope[i] += weight * ((double)up->y[i] - down->y[i]) / (2.0 * h);
    if (r->op->desc.relu && (up->y[i] > 0) != (down->y[i] > 0)) v->dy[i] = 0;
  }
}

static size_t choose_probes(const values *v, const shoal_op_desc *d, probe *probes)
{
  size_t k = 0;
  for (int t = 0; t < TENSORS; t++) {
    int64_t n;
    tensor_of(v, t, &n);
    if (n == 0 || (t < W0 && !d->need_dx)) continue;
    for (int i = 0; i < SINGLES + DIRECTIONS; i++) {
      shoal_rng_block r = shoal_rng((uint64_t)t, SHOAL_RNG_TEST, (uint64_t)i, 2);
      int64_t index = i == 0 ? 0 : i == 1 ? n - 1 : i < SINGLES ? (int64_t)shoal_rng_below(&r, (uint64_t)n) : -1;
      probes[k++] = (probe){ t, index, r.v[2], calloc((size_t)v->y_n, sizeof(double)) };
      REQUIRE(probes[k - 1].slope, "out of memory");
    }
  }
  return k;
}

/* A slope from f32 outputs is good to about 2^-24 |y| / h per output; 1e-4 of the terms covers that with room. */
static void check_probe(const probe *p, const values *v, const results *r, const char *text)
{
  double numeric = 0, analytic = 0, scale = 0;
  int64_t n;
  tensor_of(v, p->tensor, &n);
  const float *g = p->tensor < W0 ? r->dx[p->tensor] : r->dw[p->tensor - W0];
  for (int64_t i = 0; i < v->y_n; i++) {
    double term = v->dy[i] * p->slope[i];
    numeric += term;
    scale += term * term;
  }
  for (int64_t i = 0; i < n; i++) analytic += (double)g[i] * move_of(p, i);
  double error = fabs(numeric - analytic), limit = 1e-4 * (0.5 + sqrt(scale));
  CHECK_LE(error, limit, "%s: gradient of tensor %d along %lld is %.7g, finite differences say %.7g", text, p->tensor,
           (long long)p->index, analytic, numeric);
}

static void check_gradient(shoal_backend *b, const shoal_op_desc *d)
{
  values v;
  results up, down;
  rig r;
  probe probes[PROBES_MAX];
  char text[160];
  describe(d, text);
  values_make(&v, d, d->kind == SHOAL_OP_MAXPOOL ? DISTINCT : GRID, 6);
  for (int64_t i = 0; shoal_op_is_curve(d->kind) && i < v.x_n[0]; i++) v.x[0][i] += 0x1p-5f; /* beside the kinks */
  if (d->kind == SHOAL_OP_RELU)
    for (int64_t i = 0; i < v.x_n[0]; i++) v.x[0][i] += v.x[0][i] >= 0 ? 0.25f : -0.25f;
  results_make(&up, &v);
  results_make(&down, &v);
  rig_open(&r, b, d, NULL, &v);
  size_t n = choose_probes(&v, d, probes);
  const float h = is_curved(d->kind) ? 0x1p-7f : 0x1p-6f;
  for (size_t i = 0; i < n; i++) {
    if (is_curved(d->kind)) add_slope(&r, &v, &probes[i], 2 * h, -1.0 / 3, &up, &down);
    add_slope(&r, &v, &probes[i], h, is_curved(d->kind) ? 4.0 / 3 : 1, &up, &down);
  }
  r.version++;
  rig_load(&r);
  rig_forward(&r, &up, APART);
  rig_backward(&r, &up, APART);
  for (size_t i = 0; i < n; i++) {
    check_probe(&probes[i], &v, &up, text);
    free(probes[i].slope);
  }
  rig_close(&r);
  results_free(&up);
  results_free(&down);
  values_free(&v);
}

int test_gradients(shoal_backend *b)
{
  const shoal_op_desc *cases;
  size_t n = test_cases(&cases);
  for (size_t i = 0; i < n; i++)
    if (cases[i].training) check_gradient(b, &cases[i]);
  return check_failures;
}
