/* Unit spaces (layers that share hidden units) and decay runs (ranges of the arena with the same weight decay).
 *
 * A unit space is a set of hidden units: the outputs of one linear or convolution, and of all later nodes that keep
 * units separate.  An ADD merges the spaces of its inputs, because unit 3 of a sum is unit 3 of both terms.  They are
 * found by union-find over the nodes:
 *
 *   conv1 -- bn1 --+-- conv2 -- bn2 -- conv3 -- bn3 -- add       space A: conv1 bn1 conv3 bn3 add
 *                  '-----------------------------------'         space B: conv2 bn2
 *
 * Nodes merged with the input or the logits are never partitioned: space -1.  So are the inputs and the output of what
 * needs all of its units, such as a convolution of a few groups, a reshape, or learned numbers.
 *
 * Of tokens, [tokens, width], units lie along the width.  Those of attention are its heads: queries, keys, values and what it gives
 * share a space.  What a residual stream adds to is merged with embedding and places, and so is whole:
 *
 *   norm --+-- query --.                                         space A: query key value heads, a unit for each head
 *          +-- key   --+-- heads -- c_proj -- add                space B: c_fc gelu
 *          '-- value --'                                         whole: norm, c_proj, add, the rest of the stream
 *
 * A unit may cover several indices of a layer: after FLATTEN a unit is a channel with h*w consecutive values.  The size
 * of a space is the greatest common divisor of the widths of its layers; in a layer of width D a unit is D / size
 * consecutive values. */
#include "base/mem.h"
#include "nn/model_impl.h"
#include <stdlib.h>
#include <string.h>

static int find(int *parent, int i)
{
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

/* The smaller node number becomes the root, so that spaces are ordered by first appearance. */
static void unite(int *parent, int a, int b)
{
  a = find(parent, a), b = find(parent, b);
  if (a < b)
    parent[b] = a;
  else
    parent[a] = b;
}

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t r = a % b;
    a = b, b = r;
  }
  return a;
}

/* A linear over the last of three dimensions keeps the first, channels.  What is flattened token after token has no unit in one
 * piece.  A depthwise convolution keeps channels apart; one of fewer groups has none to draw from that would leave its groups
 * alike. */
shoal_units shoal_node_units(const shoal_model *m, const shoal_node *n)
{
  const shoal_shape *in = shoal_value_shape(m, n->in[0]);
  if (n->kind == SHOAL_OP_LINEAR) return in->ndim <= 2 ? SHOAL_UNITS_MAKE : SHOAL_UNITS_KEEP;
  if (n->kind == SHOAL_OP_FLATTEN && in->ndim == 2) return SHOAL_UNITS_WHOLE;
  if (n->kind == SHOAL_OP_MUL && shoal_value_shape(m, n->in[1])->dim[0] != in->dim[0]) return SHOAL_UNITS_WHOLE;
  if (n->kind == SHOAL_OP_SLICE || n->kind == SHOAL_OP_CONCAT || n->kind == SHOAL_OP_RESHAPE ||
      n->kind == SHOAL_OP_TRANSPOSE || n->kind == SHOAL_OP_PARAMETER || n->kind == SHOAL_OP_EMBEDDING)
    return SHOAL_UNITS_WHOLE;
  if (n->kind != SHOAL_OP_CONV) return SHOAL_UNITS_KEEP;
  if (n->groups == 1) return SHOAL_UNITS_MAKE;
  return n->groups == in->dim[0] && n->groups == n->out.dim[0] ? SHOAL_UNITS_KEEP : SHOAL_UNITS_WHOLE;
}

static bool makes_units(const shoal_model *m, const shoal_node *n)
{
  return shoal_node_units(m, n) == SHOAL_UNITS_MAKE;
}

/* parent and size have nodes + 1 entries; entry `nodes` stands for the input and the logits. */
static void join(const shoal_model *m, int *parent, int64_t *size)
{
  int outside = m->nodes;
  for (int i = 0; i <= m->nodes; i++) parent[i] = i;
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    if (makes_units(m, n)) continue;
    for (int k = 0; k < shoal_node_inputs(n); k++) unite(parent, i, n->in[k] < 0 ? outside : n->in[k]);
    if (shoal_node_units(m, n) == SHOAL_UNITS_WHOLE) unite(parent, i, outside);
  }
  unite(parent, m->nodes - 1, outside);
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    int root = find(parent, i);
    if (makes_units(m, n)) size[root] = gcd(size[root], n->out.dim[shoal_unit_dim(&n->out)]);
    if (n->kind == SHOAL_OP_ATTENTION) size[root] = gcd(size[root], n->heads);
  }
}

shoal_status shoal_model_find_spaces(shoal_model *m)
{
  int *parent = NULL, *number = NULL;
  int64_t *size = NULL;
  shoal_status st;
  size_t n = (size_t)m->nodes + 1;
  free(m->space_size);
  m->space_size = NULL;
  m->spaces = 0;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &parent), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &number), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &size), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &m->space_size), done);
  join(m, parent, size);
  int outside = find(parent, m->nodes);
  for (int i = 0; i < m->nodes; i++) {
    int root = find(parent, i);
    if (root == i && root != outside) {
      m->space_size[m->spaces] = size[root];
      number[root] = m->spaces++;
    }
    m->node[i].space = root == outside ? -1 : number[root];
  }
done:
  free(parent);
  free(number);
  free(size);
  return st;
}

shoal_status shoal_model_find_runs(shoal_model *m)
{
  free(m->run);
  m->run = NULL;
  m->runs = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->params, &m->run));
  for (int frozen = 0; frozen < 2; frozen++) /* in arena order */
    for (int i = 0; i < m->params; i++) {
      const shoal_param *p = &m->param[i];
      const shoal_decay_run *last = m->runs ? &m->run[m->runs - 1] : NULL;
      if (p->frozen != (frozen == 1)) continue;
      if (!last || last->decay != p->decay || last->offset + last->count != p->offset)
        m->run[m->runs++] = (shoal_decay_run){ p->offset, 0, p->decay };
      m->run[m->runs - 1].count += p->count;
    }
  return SHOAL_OK;
}
