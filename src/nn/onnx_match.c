/* Layers that exporters write as several nodes, found by what they compute, and replaced by one node with the name that newer
 * versions of ONNX have for them.  The last of the nodes becomes the new one; the others have no reader then.
 *
 *   Gelu                   1/2 x (1 + erf(x / sqrt 2)), in any order and grouping of its three factors; its form by tanh
 *   LayerNormalization     d / sqrt(mean d² + eps), d = x - mean x, means over the last dimension; then * scale + shift
 *
 * Constants are those that are known in the file or by nodes that make constants; what folding finds out later is not seen. */
#include "nn/onnx_graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static shoal_onnx_node *maker(const shoal_onnx_graph *g, int v)
{
  return v >= 0 && g->value[v].producer >= 0 ? &g->node[g->value[v].producer] : NULL;
}

static bool is(const shoal_onnx_node *n, const char *op, int ins)
{
  return n && !n->domain[0] && n->ins == ins && strcmp(n->op, op) == 0;
}

/* The node that makes value v, if it is this operator with so many inputs, and nobody else reads v. */
static shoal_onnx_node *only_for(const shoal_onnx_graph *g, int v, const char *op, int ins)
{
  shoal_onnx_node *n = maker(g, v);
  return v >= 0 && g->value[v].readers == 1 && is(n, op, ins) ? n : NULL;
}

static const shoal_onnx_tensor *constant(const shoal_onnx_graph *g, int v)
{
  const shoal_onnx_node *n = maker(g, v);
  while (is(n, "Identity", 1)) { /* tensors that are equal are written once */
    v = n->in[0];
    n = maker(g, v);
  }
  if (v < 0 || g->value[v].known || !n || strcmp(n->op, "Constant") != 0) return v < 0 ? NULL : g->value[v].known;
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, "value");
  return a ? a->tensor : NULL;
}

static bool is_number(const shoal_onnx_graph *g, int v, double x)
{
  double is;
  return shoal_onnx_scalar(g, constant(g, v), &is) && fabs(is - x) <= 1e-5 * fabs(x);
}

/* The input that is this number, and in *other the other one; false if neither is. */
static bool with_number(const shoal_onnx_graph *g, const shoal_onnx_node *n, double x, int *other)
{
  for (int k = 0; k < 2; k++)
    if (is_number(g, n->in[k], x)) {
      *other = n->in[1 - k];
      return true;
    }
  return false;
}

/* What only v's single reader uses. */
static shoal_onnx_node *reader_of(const shoal_onnx_graph *g, int v, const char *op, int ins)
{
  shoal_onnx_node *n =
      v >= 0 && g->value[v].readers == 1 && g->value[v].reader >= 0 ? &g->node[g->value[v].reader] : NULL;
  return is(n, op, ins) ? n : NULL;
}

/* ---- GELU ---- */

/* Factors of a product, through products that nobody else reads; returns how many, or 9 for too many. */
static int factors(const shoal_onnx_graph *g, int v, bool outermost, int out[8], int n)
{
  const shoal_onnx_node *m = outermost ? maker(g, v) : only_for(g, v, "Mul", 2);
  if (n > 8) return 9;
  if (!is(m, "Mul", 2)) {
    if (n == 8) return 9;
    out[n] = v;
    return n + 1;
  }
  n = factors(g, m->in[0], false, out, n);
  return n > 8 ? 9 : factors(g, m->in[1], false, out, n);
}

/* x, one plus erf and a half, and nothing else? */
static bool is_gelu(const shoal_onnx_graph *g, int v, int x, int sum)
{
  int f[8], n = factors(g, v, true, f, 0), halves = 0, xs = 0, sums = 0;
  if (n != 3) return false;
  for (int k = 0; k < 3; k++) {
    halves += is_number(g, f[k], 0.5);
    xs += f[k] == x;
    sums += f[k] == sum;
  }
  return halves == 1 && xs == 1 && sums == 1;
}

/* Makes a GELU of x of the product in which 1 + `curve` is a factor, if it is one. */
static shoal_status close_gelu(shoal_onnx_graph *g, int x, const shoal_onnx_node *curve, const char *approximate)
{
  int same;
  shoal_onnx_attribute *a;
  const shoal_onnx_node *sum = reader_of(g, curve->out[0], "Add", 2);
  if (x < 0 || !sum || !with_number(g, sum, 1, &same)) return SHOAL_OK;
  shoal_onnx_node *top = reader_of(g, sum->out[0], "Mul", 2);
  for (int depth = 0; top && depth < 3; depth++) {
    if (is_gelu(g, top->out[0], x, sum->out[0])) {
      SHOAL_TRY(shoal_onnx_take(g, 1, sizeof *a, &a));
      *a = (shoal_onnx_attribute){ .name = "approximate", .type = 3, .text = approximate };
      top->op = "Gelu";
      top->in[0] = x;
      top->ins = 1;
      top->attribute = a;
      top->attributes = 1;
      return SHOAL_OK;
    }
    top = reader_of(g, top->out[0], "Mul", 2);
  }
  return SHOAL_OK;
}

static shoal_status match_gelu(shoal_onnx_graph *g, const shoal_onnx_node *erf)
{
  int x = -1;
  const shoal_onnx_node *scale = maker(g, erf->in[0]);
  if (is(scale, "Div", 2) && is_number(g, scale->in[1], 1.4142135623730951)) x = scale->in[0];
  if (is(scale, "Mul", 2) && !with_number(g, scale, 0.70710678118654752, &x)) x = -1;
  return close_gelu(g, x, erf, "none");
}

/* x³ of x, as a power or a product. */
static bool is_cube(const shoal_onnx_graph *g, int v, int x)
{
  const shoal_onnx_node *n = maker(g, v);
  if (is(n, "Pow", 2)) return n->in[0] == x && is_number(g, n->in[1], 3);
  if (!is(n, "Mul", 2)) return false;
  const shoal_onnx_node *square = maker(g, n->in[n->in[0] == x ? 1 : 0]);
  return (n->in[0] == x || n->in[1] == x) && is(square, "Mul", 2) && square->in[0] == x && square->in[1] == x;
}

/* sqrt(2/pi) (x + 0.044715 x³) in the tanh. */
static shoal_status match_gelu_tanh(shoal_onnx_graph *g, const shoal_onnx_node *tanh)
{
  int inner = -1, cube = -1, x = -1;
  const shoal_onnx_node *scale = maker(g, tanh->in[0]);
  if (!is(scale, "Mul", 2) || !with_number(g, scale, 0.79788456080286536, &inner)) return SHOAL_OK;
  const shoal_onnx_node *sum = maker(g, inner);
  for (int k = 0; is(sum, "Add", 2) && k < 2 && x < 0; k++) {
    const shoal_onnx_node *cubic = maker(g, sum->in[k]);
    if (is(cubic, "Mul", 2) && with_number(g, cubic, 0.044715, &cube) && is_cube(g, cube, sum->in[1 - k]))
      x = sum->in[1 - k];
  }
  return close_gelu(g, x, tanh, "tanh");
}

/* ---- layer norm ---- */

/* Whether a node is the mean of something over the last dimension, which stays as 1. */
static bool is_mean(const shoal_onnx_graph *g, const shoal_onnx_node *n)
{
  if (!n || strcmp(n->op, "ReduceMean") != 0 || n->ins < 1) return false;
  const shoal_onnx_attribute *a = shoal_onnx_attribute_of(n, "axes"), *keep = shoal_onnx_attribute_of(n, "keepdims");
  if (keep && keep->whole == 0) return false;
  if (a) return a->n == 1 && a->list[0] == -1;
  const shoal_onnx_tensor *t = constant(g, shoal_onnx_in(n, 1));
  int64_t *axis;
  if (!t || t->count != 1 || !shoal_onnx_is_whole(t->type) || shoal_onnx_whole(g, t, &axis) != SHOAL_OK) return false;
  bool last = axis[0] == -1;
  free(axis);
  return last;
}

/* d² of d, as a power or a product. */
static bool is_square(const shoal_onnx_graph *g, const shoal_onnx_node *n, int d)
{
  return (is(n, "Pow", 2) && n->in[0] == d && is_number(g, n->in[1], 2)) ||
         (is(n, "Mul", 2) && n->in[0] == d && n->in[1] == d);
}

static shoal_status match_norm(shoal_onnx_graph *g, const shoal_onnx_node *root)
{
  double eps;
  int mean_square = -1, weight, bias;
  const shoal_onnx_node *sum = only_for(g, root->in[0], "Add", 2);
  if (!sum) return SHOAL_OK;
  for (int k = 0; k < 2; k++)
    if (shoal_onnx_scalar(g, constant(g, sum->in[k]), &eps)) mean_square = sum->in[1 - k];
  const shoal_onnx_node *mean2 = maker(g, mean_square), *square = is_mean(g, mean2) ? maker(g, mean2->in[0]) : NULL;
  const shoal_onnx_node *d = square && square->ins > 0 ? maker(g, square->in[0]) : NULL;
  if (!is(d, "Sub", 2) || !is_square(g, square, d->out[0])) return SHOAL_OK;
  const shoal_onnx_node *mean = maker(g, d->in[1]);
  if (!is_mean(g, mean) || mean->in[0] != d->in[0]) return SHOAL_OK;
  const shoal_onnx_node *ratio = reader_of(g, root->out[0], "Div", 2);
  if (!ratio || ratio->in[0] != d->out[0] || ratio->in[1] != root->out[0]) return SHOAL_OK;
  shoal_onnx_node *scaled = reader_of(g, ratio->out[0], "Mul", 2);
  shoal_onnx_node *top = scaled ? reader_of(g, scaled->out[0], "Add", 2) : NULL;
  if (!top) return SHOAL_OK;
  weight = scaled->in[scaled->in[0] == ratio->out[0] ? 1 : 0];
  bias = top->in[top->in[0] == scaled->out[0] ? 1 : 0];
  if (!constant(g, weight) || !constant(g, bias)) return SHOAL_OK;
  int *in;
  shoal_onnx_attribute *a;
  SHOAL_TRY(shoal_onnx_take(g, 3, sizeof *in, &in));
  SHOAL_TRY(shoal_onnx_take(g, 1, sizeof *a, &a));
  *a = (shoal_onnx_attribute){ .name = "epsilon", .type = 1, .real = (float)eps, .text = "" };
  in[0] = d->in[0];
  in[1] = weight;
  in[2] = bias;
  top->op = "LayerNormalization";
  top->in = in;
  top->ins = 3;
  top->attribute = a;
  top->attributes = 1;
  return SHOAL_OK;
}

shoal_status shoal_onnx_match(shoal_onnx_graph *g, int output)
{
  SHOAL_TRY(shoal_onnx_mark(g, output));
  for (int i = 0; i < g->nodes; i++) {
    const shoal_onnx_node *n = &g->node[i];
    if (n->live && is(n, "Erf", 1)) SHOAL_TRY(match_gelu(g, n));
    if (n->live && is(n, "Tanh", 1)) SHOAL_TRY(match_gelu_tanh(g, n));
    if (n->live && is(n, "Sqrt", 1)) SHOAL_TRY(match_norm(g, n));
  }
  return shoal_onnx_mark(g, output);
}
