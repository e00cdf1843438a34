/* Several models in one arena, with one optimizer and one entry in the checkpoint, for a rank that trains more than
 * one.
 *
 *   part 0: w0 w1 w2 w3        part 1: w0 w1        joined: [ w0 w1 w2 w3 . . | w0 w1 . . ]       . padding, unused
 *
 * Nodes are copied because they describe parameters and statistics.  Their inputs are meaningless here: every part has
 * its own input. */
#include "base/mem.h"
#include "nn/model_impl.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16 }; /* elements: 64 bytes */

static size_t align(size_t n)
{
  return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void move_number(int *number, int by)
{
  if (*number >= 0) *number += by;
}

/* `copy` is a copy of the part; ownership of what its entries hold passes to the joined model. */
static void append(shoal_model *m, shoal_model *copy, size_t weights_at, size_t stats_at)
{
  for (int i = 0; i < copy->nodes; i++) {
    shoal_node n = copy->node[i];
    for (int k = 0; k < shoal_node_inputs(&n); k++) move_number(&n.in[k], m->nodes);
    for (int k = 0; k < SHOAL_OP_WEIGHTS; k++) move_number(&n.weight[k], m->params);
    for (int k = 0; k < 2; k++) move_number(&n.factor[k], m->params);
    move_number(&n.stats, (int)stats_at);
    n.space = n.residual = -1;
    m->node[m->nodes + i] = n;
  }
  for (int i = 0; i < copy->params; i++) {
    shoal_param p = copy->param[i];
    p.offset += weights_at;
    p.node += m->nodes;
    m->param[m->params + i] = p;
    copy->param[i].rows = copy->param[i].cols = NULL;
  }
  m->nodes += copy->nodes;
  m->params += copy->params;
}

static shoal_status make_room(const shoal_model *const *parts, int n, shoal_model *m)
{
  size_t nodes = 0, params = 0;
  for (int i = 0; i < n; i++) {
    nodes += (size_t)parts[i]->nodes;
    params += (size_t)parts[i]->params;
  }
  SHOAL_TRY(SHOAL_ALLOC(nodes, &m->node));
  return SHOAL_ALLOC(params, &m->param);
}

shoal_status shoal_model_join(const shoal_model *const *parts, int n, size_t *weights_at, size_t *stats_at,
                              shoal_model **out)
{
  SHOAL_CHECK(n >= 1, SHOAL_ERR_ARG, "%d models to join", n);
  shoal_model *m, *copy;
  shoal_status st;
  SHOAL_TRY(shoal_model_create(parts[0]->name, &parts[0]->input, parts[0]->classes, &m));
  m->joined = true;
  SHOAL_TRY_GOTO(st, make_room(parts, n, m), fail);
  for (int i = 0; i < n; i++) {
    SHOAL_TRY_GOTO(st, shoal_model_copy(parts[i], &copy), fail);
    weights_at[i] = m->weights;
    stats_at[i] = m->stats;
    append(m, copy, m->weights, m->stats);
    shoal_model_destroy(copy);
    m->weights = align(m->weights + parts[i]->weights);
    m->stats = align(m->stats + parts[i]->stats);
  }
  SHOAL_TRY_GOTO(st, shoal_model_find_runs(m), fail);
  *out = m;
  return SHOAL_OK;
fail:
  shoal_model_destroy(m);
  return st;
}
