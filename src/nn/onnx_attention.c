/* Attention, which exporters write as products and a softmax:
 *
 *   queries [..., heads, t, d] x keys [..., heads, d, s]  scaled, a mask added  softmax  x values [..., heads, s, d]
 *
 * Nodes before the last product make no layer: what they give are scores (onnx_import.h).  The last makes the layer of three
 * others [t, heads d]; where these are parts of one product, the product is cut into three, each with its rows of the weight.
 * Masks are recognised by their numbers. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/onnx_import.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is added to a score so that its share is 0: exporters write anything from here to minus infinity. */
#define HIDDEN -1e4f

static shoal_status give_scores(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *shape,
                                const shoal_import_scores *s)
{
  shoal_import_scores *own;
  shoal_import_value v = *shape;
  SHOAL_TRY(shoal_onnx_take(&im->g, 1, sizeof *own, &own));
  *own = *s;
  v.scores = own;
  v.scale = 1;
  shoal_import_give_same(im, n, &v);
  return SHOAL_OK;
}

static bool before_softmax(const shoal_import_value *x)
{
  return x && x->scores && !x->scores->shares;
}

shoal_status shoal_import_scale_by(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x, double by)
{
  shoal_import_value v = *x;
  v.scale *= by;
  if (!x->scores) {
    shoal_import_give_same(im, n, &v);
    return SHOAL_OK;
  }
  if (!before_softmax(x)) return shoal_import_plain(x);
  shoal_import_scores s = *x->scores;
  s.scale *= by;
  return give_scores(im, n, x, &s);
}

/* Hides `hidden` of scores, its dimensions being the last of theirs: nothing, or from each query the keys behind its own. */
static shoal_status hide(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x,
                         const shoal_onnx_tensor *t, const bool *hidden)
{
  const int64_t rows = x->dim[x->ndim - 2], cols = x->dim[x->ndim - 1];
  const int64_t high = t->ndim > 1 ? t->dim[t->ndim - 2] : 1, wide = t->ndim > 0 ? t->dim[t->ndim - 1] : 1;
  shoal_import_scores s = *x->scores;
  bool any = false, causal = high == rows && wide == cols && rows == cols;
  for (size_t e = 0; e < t->count; e++) {
    int64_t row = (int64_t)e / wide % high, col = (int64_t)e % wide;
    any |= hidden[e];
    causal = causal && hidden[e] == (col > row);
  }
  if (any && !causal)
    return shoal_import_refuse("its mask is none that hides from each token what follows it, and nothing else");
  s.causal |= any;
  return give_scores(im, n, x, &s);
}

shoal_status shoal_import_mask(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x,
                               const shoal_onnx_tensor *mask)
{
  shoal_host_float *numbers;
  bool *hidden, good = true;
  if (!before_softmax(x)) return shoal_import_plain(x);
  SHOAL_TRY(shoal_onnx_reals(&im->g, mask, &numbers));
  shoal_status st = SHOAL_ALLOC(mask->count + 1, &hidden);
  for (size_t e = 0; e < mask->count && st == SHOAL_OK; e++) {
    hidden[e] = numbers[e] <= HIDDEN;
    good = good && (hidden[e] || numbers[e] == 0);
  }
  if (st == SHOAL_OK && !good) st = shoal_import_refuse("numbers are added to scores of attention that are no mask");
  if (st == SHOAL_OK) st = hide(im, n, x, mask, hidden);
  if (st != SHOAL_ERR_MEM) free(hidden);
  free(numbers);
  return st;
}

/* Scores where a condition holds, or where it does not, and elsewhere a number that hides. */
SHOAL_TAKE(where)
{
  const shoal_onnx_tensor *when = shoal_onnx_known(&im->g, n, 0);
  int64_t *truth;
  bool *hidden;
  double other;
  const int k = before_softmax(shoal_import_at(im, n, 1)) ? 1 : 2;
  const shoal_import_value *x = shoal_import_at(im, n, k);
  if (!before_softmax(x) || !when || !shoal_onnx_scalar(&im->g, shoal_onnx_known(&im->g, n, 3 - k), &other) ||
      !(other <= (double)HIDDEN))
    return shoal_import_refuse("only masks of attention are read");
  SHOAL_TRY(shoal_onnx_whole(&im->g, when, &truth));
  shoal_status st = SHOAL_ALLOC(when->count + 1, &hidden);
  if (st == SHOAL_OK) {
    for (size_t e = 0; e < when->count; e++) hidden[e] = (truth[e] != 0) != (k == 1);
    st = hide(im, n, x, when, hidden);
    free(hidden);
  }
  free(truth);
  return st;
}

SHOAL_TAKE(softmax)
{
  const shoal_import_value *x = shoal_import_at(im, n, 0);
  int64_t axis = shoal_import_int(n, "axis", im->g.opset < 13 ? 1 : -1);
  if (!before_softmax(x) || (axis != -1 && axis != x->ndim - 1))
    return shoal_import_refuse("only one at the end is read, and that of attention over the keys");
  shoal_import_scores s = *x->scores;
  s.shares = true;
  return give_scores(im, n, x, &s);
}

/* ---- queries, keys and values as layers ---- */

/* The product of which the heads are some outputs for each token; the rows of its weight that have them, in order.  NULL: they are
 * no such part. */
static int64_t *rows_of(shoal_import *im, const shoal_import_value *v, shoal_status *st)
{
  int64_t *rows;
  if (v->layer < 0 || im->text.layers[v->layer].node.kind != SHOAL_OP_LINEAR) return NULL;
  const shoal_shape *s = shoal_import_shape(im, v->layer);
  const int64_t heads = v->dim[2], d = v->dim[3], last = v->first + (heads - 1) * v->step[2] + (d - 1) * v->step[3];
  if (s->ndim != 2 || v->dim[1] != s->dim[0] || (v->dim[1] > 1 && v->step[1] != s->dim[1]) || last >= s->dim[1])
    return NULL;
  *st = shoal_onnx_take(&im->g, (size_t)(heads * d), sizeof *rows, &rows);
  if (*st != SHOAL_OK) return NULL;
  for (int64_t i = 0; i < heads * d; i++) rows[i] = v->first + i / d * v->step[2] + i % d * v->step[3];
  return rows;
}

static shoal_status put_rows(shoal_import *im, int from, int to, const char *suffix, const int64_t *rows, int64_t n)
{
  size_t k = 0;
  while (k < im->n && (im->weights[k].layer != from || strcmp(im->weights[k].suffix, suffix) != 0)) k++;
  if (k == im->n) return SHOAL_OK;
  SHOAL_TRY(shoal_import_put_weight(im, to, suffix, im->weights[k].t, im->weights[k].turned));
  im->weights[im->n - 1].rows = rows;
  im->weights[im->n - 1].picked = n;
  return SHOAL_OK;
}

/* A product that gives some outputs of another. */
static shoal_status cut_linear(shoal_import *im, int from, const char *part, const int64_t *rows, int64_t n, int *layer)
{
  const shoal_text_layer whole = im->text.layers[from];
  shoal_text_layer *l;
  char wish[SHOAL_NAME_MAX + 16];
  snprintf(wish, sizeof wish, "%s.%s", whole.node.name, part);
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_LINEAR, wish, &l));
  l->facts.width = n;
  l->facts.bias = whole.facts.bias;
  l->node.in[0] = whole.node.in[0];
  SHOAL_TRY(shoal_import_end(im, layer));
  SHOAL_TRY(put_rows(im, from, *layer, "weight", rows, n));
  return put_rows(im, from, *layer, "bias", rows, n);
}

/* [..., heads, tokens, d] as a layer [tokens, heads d].  */
static shoal_status heads_of(shoal_import *im, const shoal_import_value *v, const char *part, int64_t *heads,
                             int *layer)
{
  const int64_t batch = shoal_import_batch(im), tokens = v->dim[v->ndim - 2], d = v->dim[v->ndim - 1];
  shoal_import_value by_token = { .layer = v->layer, .ndim = 4, .first = v->first, .scale = 1 }, flat;
  int64_t step = 0;
  shoal_status st = SHOAL_OK;
  *heads = 1;
  if (batch > 1 && (v->ndim < 3 || v->dim[0] != batch))
    return shoal_import_refuse("the batch of attention's inputs does not stay first");
  for (int k = batch > 1; k < v->ndim - 2; k++) {
    if (v->dim[k] == 1) continue;
    if (*heads > 1) return shoal_import_refuse("attention's inputs have more dimensions than heads, tokens and width");
    *heads = v->dim[k];
    step = v->step[k];
  }
  const int64_t dim[] = { batch, tokens, *heads, d },
                steps[] = { batch > 1 ? v->step[0] : 0, v->step[v->ndim - 2], step, v->step[v->ndim - 1] };
  memcpy(by_token.dim, dim, sizeof dim);
  memcpy(by_token.step, steps, sizeof steps);
  const int64_t to[] = { batch, tokens, *heads * d };
  const bool there = shoal_import_reshape(&by_token, 3, to, &flat);
  int64_t *rows = there && shoal_import_own_shape(im, &flat) ? NULL : rows_of(im, &by_token, &st);
  SHOAL_TRY(st);
  if (rows) return cut_linear(im, v->layer, part, rows, to[2], layer);
  if (!there) {
    SHOAL_TRY(shoal_import_settle(im, &by_token));
    shoal_import_reshape(&by_token, 3, to, &flat);
  }
  SHOAL_TRY(shoal_import_settle(im, &flat));
  *layer = flat.layer;
  return SHOAL_OK;
}

static shoal_status begin_scores(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *a,
                                 const shoal_import_value *b)
{
  if (a->ndim < 2 || b->ndim != a->ndim || a->dim[a->ndim - 1] != b->dim[a->ndim - 2])
    return shoal_import_refuse("its inputs are no queries and keys of attention");
  shoal_import_scores s = { .queries = *a, .keys = *b, .scale = a->scale * b->scale };
  shoal_import_value shape = *a;
  shape.dim[a->ndim - 1] = b->dim[a->ndim - 1];
  return give_scores(im, n, &shape, &s);
}

static shoal_status end_attention(shoal_import *im, const shoal_onnx_node *n, const shoal_import_scores *s,
                                  const shoal_import_value *values)
{
  int64_t heads[3];
  int in[3], layer;
  char wish[128];
  shoal_text_layer *l;
  shoal_import_value q = s->queries, k = s->keys, v = *values, out = q;
  const int last = k.ndim - 1;
  const double d = (double)q.dim[q.ndim - 1];
  SHOAL_TRY(shoal_import_plain(&v));
  SHOAL_CHECK(fabs(s->scale * sqrt(d) - 1) < 1e-4, SHOAL_ERR_UNSUPPORTED,
              "scores of attention are scaled by %g, and only 1/sqrt(d) is read, which is %g here", s->scale,
              1 / sqrt(d));
  if (v.ndim < 2 || v.dim[v.ndim - 1] != q.dim[q.ndim - 1] || v.dim[v.ndim - 2] != k.dim[last])
    return shoal_import_refuse("its inputs are no shares and values of attention");
  k.dim[last - 1] = s->keys.dim[last]; /* turned back: [..., keys, d] */
  k.dim[last] = s->keys.dim[last - 1];
  k.step[last - 1] = s->keys.step[last];
  k.step[last] = s->keys.step[last - 1];
  SHOAL_TRY(heads_of(im, &q, "queries", &heads[0], &in[0]));
  SHOAL_TRY(heads_of(im, &k, "keys", &heads[1], &in[1]));
  SHOAL_TRY(heads_of(im, &v, "values", &heads[2], &in[2]));
  if (heads[1] != heads[0] || heads[2] != heads[0])
    return shoal_import_refuse("queries, keys and values have different numbers of heads");
  SHOAL_TRY(shoal_import_begin(im, SHOAL_OP_ATTENTION,
                               shoal_import_name_of_node(n->name, wish, sizeof wish) ? wish : "", &l));
  l->facts.heads = heads[0];
  l->facts.causal = s->causal;
  memcpy(l->node.in, in, sizeof in);
  SHOAL_TRY(shoal_import_end(im, &layer));
  const int64_t width = heads[0] * q.dim[q.ndim - 1], tokens = q.dim[q.ndim - 2];
  out.layer = layer;
  out.first = 0;
  out.scale = 1;
  for (int i = 0; i < q.ndim; i++) out.step[i] = q.dim[q.ndim - 1]; /* of the heads */
  if (shoal_import_batch(im) > 1) out.step[0] = tokens * width;
  out.step[q.ndim - 2] = width;
  out.step[q.ndim - 1] = 1;
  shoal_import_give_same(im, n, &out);
  return SHOAL_OK;
}

shoal_status shoal_import_product(shoal_import *im, const shoal_onnx_node *n)
{
  const shoal_import_value *a = shoal_import_at(im, n, 0), *b = shoal_import_at(im, n, 1);
  if (!a->scores && !b->scores) return begin_scores(im, n, a, b);
  if (!a->scores || !a->scores->shares || b->scores)
    return shoal_import_refuse("its inputs are no shares and values of attention");
  return end_attention(im, n, a->scores, b);
}
