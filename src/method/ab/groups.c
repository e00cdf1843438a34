/* Groups of ranks and the factor each trains.
 *
 *   ranks     0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15        s = 4: a group is a node
 *   train     A         A         B           B
 *
 * Groups do not communicate with each other while factors are trained, so with a group per node the network is idle.
 * Roles are fixed for the whole run (unless method.swap is set). */
#include "base/mem.h"
#include "method/ab/ab.h"
#include <stdlib.h>

static int count_nodes(const int *node, int size)
{
  int last = 0;
  for (int i = 0; i < size; i++) last = SHOAL_MAX(last, node[i]);
  return last + 1;
}

/* The ranks by node, and of one node ascending.
 * @param before  [nodes] scratch space, zeroed */
static void order_by_node(const int *node, int size, int nodes, int *before, int *rank)
{
  for (int i = 0; i < size; i++)
    if (node[i] + 1 < nodes) before[node[i] + 1]++;
  for (int k = 1; k < nodes; k++) before[k] += before[k - 1];
  for (int i = 0; i < size; i++) rank[before[node[i]]++] = i;
}

static void cut_evenly(shoal_ab_groups *g, int groups)
{
  int each = g->size / groups, more = g->size % groups;
  g->groups = groups;
  for (int i = 0; i < groups; i++) g->first[i + 1] = g->first[i] + each + (i < more);
}

static void cut_at_nodes(shoal_ab_groups *g, const int *node)
{
  for (int i = 1; i <= g->size; i++)
    if (i == g->size || node[g->rank[i]] != node[g->rank[i - 1]]) g->first[++g->groups] = i;
}

static shoal_status check(const shoal_ab_groups *g, int64_t ranks, bool only_b)
{
  SHOAL_CHECK(only_b || g->size > 1, SHOAL_ERR_USAGE,
              "method ab needs two groups, one for A and one for B, and there is 1 rank: start two or more, or set "
              "method.mode to only-b");
  SHOAL_CHECK(only_b || g->a_groups > 0, SHOAL_ERR_USAGE,
              "method ab needs two groups, one for A and one for B, but %d ranks in groups of %lld make one: lower "
              "method.group, or set method.mode to only-b",
              g->size, (long long)ranks);
  for (int i = 1; i < g->groups; i++) {
    int size = g->first[i + 1] - g->first[i], before = g->first[i] - g->first[i - 1];
    if (!only_b && i == g->a_groups) continue;
    SHOAL_CHECK(size == before, SHOAL_ERR_USAGE,
                "method ab: groups %d and %d both train %c but have %d and %d ranks; choose a method.group that makes "
                "groups of one half equal",
                i - 1, i, i < g->a_groups ? 'A' : 'B', before, size);
  }
  return SHOAL_OK;
}

shoal_status shoal_ab_groups_make(const int *node, int size, int64_t ranks, bool only_b, shoal_ab_groups *out)
{
  SHOAL_CHECK(ranks >= SHOAL_AB_HALVES && ranks <= size, SHOAL_ERR_USAGE,
              "method.group is %lld: must be the ranks of a group, at most the %d there are, or 0 for a node or -1 for "
              "two halves",
              (long long)ranks, size);
  shoal_ab_groups g = { .size = size };
  shoal_status st;
  int nodes = count_nodes(node, size), *before = NULL;
  bool at_nodes = ranks == SHOAL_AB_AUTO && !only_b && nodes > 1;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &g.rank), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size + 1, &g.first), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)nodes, &before), fail);
  order_by_node(node, size, nodes, before, g.rank);
  free(before);
  if (at_nodes)
    cut_at_nodes(&g, node);
  else
    cut_evenly(&g, ranks > 0 ? (int)(size / ranks) : only_b || size == 1 ? 1 : 2);
  g.a_groups = only_b ? 0 : g.groups / 2;
  SHOAL_TRY_GOTO(st, check(&g, ranks > 0 ? ranks : size, only_b), fail);
  *out = g;
  return SHOAL_OK;
fail:
  shoal_ab_groups_free(&g);
  return st;
}

void shoal_ab_groups_free(shoal_ab_groups *g)
{
  free(g->rank);
  free(g->first);
  *g = (shoal_ab_groups){ 0 };
}

int shoal_ab_group_of(const shoal_ab_groups *g, int rank)
{
  int at = 0, group = 0;
  while (g->rank[at] != rank) at++;
  while (at >= g->first[group + 1]) group++;
  return group;
}

bool shoal_ab_trains_a(const shoal_ab_groups *g, int group)
{
  return group < g->a_groups;
}
