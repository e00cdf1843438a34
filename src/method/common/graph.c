/* See graph.h.  A graph is built as an adjacency matrix and stored as neighbour lists. */
#include "method/common/graph.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>

/* The purpose of a random number, used as the `step` of its counter. */
enum { DRAW_STEPS = 0, DRAW_PARTNER = 1, DRAW_EDGE = 1000, DRAW_JOIN = 1001, DRAWS_MAX = 256 };

static void join(bool *matrix, int n, int i, int j)
{
  if (i == j) return;
  matrix[(size_t)i * (size_t)n + (size_t)j] = matrix[(size_t)j * (size_t)n + (size_t)i] = true;
}

static void make_torus(bool *matrix, int n)
{
  int rows = (int)sqrt((double)n);
  while (n % rows) rows--;
  int columns = n / rows;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) {
      join(matrix, n, r * columns + c, r * columns + (c + 1) % columns);
      join(matrix, n, r * columns + c, (r + 1) % rows * columns + c);
    }
}

/* Labels connected components: the smallest rank reachable from each rank, propagated until nothing changes. */
static void find_components(const bool *matrix, int n, int *smallest)
{
  for (int i = 0; i < n; i++) smallest[i] = i;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (matrix[(size_t)i * (size_t)n + (size_t)j] && smallest[j] < smallest[i]) {
          smallest[i] = smallest[j];
          changed = true;
        }
  }
}

/* Draws each pair independently; then joins the smallest rank of each component but the first to a random rank below
 * it.  That rank belongs to an earlier component, so the result is connected. */
static shoal_status make_random(bool *matrix, int n, double p, uint64_t seed)
{
  int *smallest;
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, &smallest));
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_METHOD, (uint64_t)i << 32 | (uint64_t)j, DRAW_EDGE);
      if ((double)r.v[0] * 0x1p-32 < p) join(matrix, n, i, j);
    }
  find_components(matrix, n, smallest);
  for (int i = 1; i < n; i++) {
    shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_METHOD, (uint64_t)i, DRAW_JOIN);
    if (smallest[i] == i) join(matrix, n, i, (int)shoal_rng_below(&r, (uint64_t)i));
  }
  free(smallest);
  return SHOAL_OK;
}

static shoal_status list_neighbours(shoal_graph *g, const bool *matrix)
{
  size_t n = (size_t)g->n, edges = 0;
  for (size_t k = 0; k < n * n; k++) edges += matrix[k];
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &g->first));
  SHOAL_TRY(SHOAL_ALLOC(edges, &g->neighbour));
  edges = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++)
      if (matrix[i * n + j]) g->neighbour[edges++] = (int)j;
    g->first[i + 1] = edges;
  }
  return SHOAL_OK;
}

static shoal_status make_matrix(shoal_graph_kind kind, int n, double p, uint64_t seed, bool *matrix)
{
  if (kind == SHOAL_GRAPH_RANDOM) return make_random(matrix, n, p, seed);
  if (kind == SHOAL_GRAPH_TORUS) make_torus(matrix, n);
  for (int i = 0; i < n && kind == SHOAL_GRAPH_RING; i++) join(matrix, n, i, (i + 1) % n);
  for (int i = 0; i < n && kind == SHOAL_GRAPH_COMPLETE; i++)
    for (int j = 0; j < i; j++) join(matrix, n, i, j);
  return SHOAL_OK;
}

shoal_status shoal_graph_create(shoal_graph_kind kind, int n, double p, uint64_t seed, shoal_graph **out)
{
  shoal_status st;
  shoal_graph *g = NULL;
  bool *matrix;
  SHOAL_CHECK(n >= 1 && p >= 0 && p <= 1, SHOAL_ERR_ARG, "a graph of %d ranks with edges of probability %g", n, p);
  SHOAL_TRY(shoal_alloc((size_t)n, (size_t)n, "graph", (void **)&matrix));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(1, &g), done);
  g->n = n;
  SHOAL_TRY_GOTO(st, make_matrix(kind, n, p, seed, matrix), done);
  SHOAL_TRY_GOTO(st, list_neighbours(g, matrix), done);
  *out = g;
  g = NULL;
done:
  free(matrix);
  shoal_graph_destroy(g);
  return st;
}

void shoal_graph_destroy(shoal_graph *g)
{
  if (!g) return;
  free(g->first);
  free(g->neighbour);
  free(g);
}

bool shoal_graph_joined(const shoal_graph *g, int i, int j)
{
  for (size_t k = g->first[i]; k < g->first[i + 1]; k++)
    if (g->neighbour[k] == j) return true;
  return false;
}

int shoal_graph_partner(const shoal_graph *g, uint64_t seed, int i, uint64_t k, const bool *gone)
{
  uint64_t stream = shoal_rng_seed(seed, (uint64_t)i), degree = (uint64_t)shoal_graph_degree(g, i);
  bool any = false;
  for (size_t e = g->first[i]; e < g->first[i + 1]; e++) any |= !gone || !gone[g->neighbour[e]];
  if (!any) return -1;
  uint64_t pick = 0;
  for (uint32_t draw = 0; draw < DRAWS_MAX; draw++) {
    shoal_rng_block r = shoal_rng(stream, SHOAL_RNG_METHOD, k, DRAW_PARTNER + draw);
    pick = shoal_rng_below(&r, degree);
    if (!gone || !gone[g->neighbour[g->first[i] + pick]]) break;
  }
  while (gone && gone[g->neighbour[g->first[i] + pick]]) pick = (pick + 1) % degree; /* redraws are used up */
  return g->neighbour[g->first[i] + pick];
}

uint64_t shoal_graph_steps(uint64_t mean, bool geometric, uint64_t seed, int i, uint64_t k)
{
  if (!geometric || mean <= 1) return mean;
  shoal_rng_block r = shoal_rng(shoal_rng_seed(seed, (uint64_t)i), SHOAL_RNG_METHOD, k, DRAW_STEPS);
  double u = ((double)r.v[0] + 0.5) * 0x1p-32;
  return 1 + (uint64_t)floor(log(u) / log1p(-1 / (double)mean));
}
