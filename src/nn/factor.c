/* Factored weights: their cost, and the list of them.  The transformation itself is in cut.c with the other cuts.
 *
 * For x samples times positions, a weight of o x c and rank r (multiply-accumulates per step, without gradients that
 * are not needed):
 *
 *   product   x o c  forward, for dx, for dW      + o c r  to form it            + o c r  per factor trained
 *   chain     x r (o + c)  forward and for dx     + x r o  for the left factor, x r c for the right one
 *
 * A convolution has many positions and a small weight; a linear layer has few rows and a large weight, so a chain of
 * low rank saves most of its work, while a product of full rank would cost more than the layer.  A convolution of several
 * groups has no chain. */
#include "nn/model_impl.h"
#include <math.h>

double shoal_factor_macs(const shoal_model *m, int node, int64_t batch, shoal_factoring how,
                         shoal_factor_training train)
{
  const shoal_node *n = &m->node[node];
  const shoal_param *w = &m->param[n->weight[0]];
  int64_t rows = w->shape.dim[0];
  double o = (double)rows, c = (double)(w->count / (size_t)rows), r = (double)how.rank;
  double x = (double)batch * (double)shoal_shape_count(&n->out) / o;
  if (how.chain && n->kind == SHOAL_OP_CONV && n->groups > 1) return INFINITY; /* it cannot become two layers */
  bool dx = n->in[0] >= 0; /* an earlier layer is trained, which is practically always so */
  bool a = train != SHOAL_TRAIN_B, b = train != SHOAL_TRAIN_A;
  bool left = o >= c ? a : b, right = o >= c ? b : a;
  if (!how.chain) return x * o * c * (2 + dx) + o * c * r * (1 + left + right);
  return x * r * (o + c) + x * r * o * (dx || right) + x * r * c * dx + x * r * o * left + x * r * c * right;
}

static const shoal_param *partner(const shoal_model *part, const shoal_param *p)
{
  for (int i = 0; i < part->params; i++)
    if (part->param[i].factor_of == p->factor_of && part->param[i].factor != p->factor) return &part->param[i];
  return NULL;
}

size_t shoal_model_products(const shoal_model *full, const shoal_model *part, shoal_product *out)
{
  size_t n = 0;
  for (int i = 0; i < part->params; i++) {
    const shoal_param *a = &part->param[i], *b;
    if (a->factor != 'a' || !(b = partner(part, a))) continue;
    const shoal_param *w = &full->param[a->factor_of];
    int64_t rows = w->shape.dim[0], cols = (int64_t)w->count / rows;
    out[n++] = (shoal_product){ .weight = w,
                                .left = rows >= cols ? a : b,
                                .right = rows >= cols ? b : a,
                                .rows = rows,
                                .cols = cols,
                                .rank = (int64_t)(a->count / (size_t)(rows >= cols ? rows : cols)) };
  }
  return n;
}
