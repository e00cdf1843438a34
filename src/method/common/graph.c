/* See graph.h. */
#include "method/common/graph.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>

/* The purpose of a random number, used as the `step` of its counter. */
enum { DRAW_STEPS = 0, DRAW_PARTNER = 1, DRAW_EDGE = 1000, DRAW_JOIN = 1001, DRAWS_MAX = 256 };

/* ---- neighbours that follow from the rank ---- */

/* The longest rows that divide n evenly, no longer than the columns. */
static int columns_of(int n)
{
  int rows = (int)sqrt((double)n);
  while (n % rows) rows--;
  return n / rows;
}

/* Neighbours of i in a ring or a torus, ascending.  @return  how many */
static int near(const shoal_graph *g, int i, int out[4])
{
  int n = g->n, c = g->columns, row = i / c, column = i % c, rows = n / c, found = 0;
  const int all[4] = { row * c + (column + 1) % c, row * c + (column + c - 1) % c, (row + 1) % rows * c + column,
                       (row + rows - 1) % rows * c + column };
  for (int k = 0; k < 4; k++) {
    int at = found;
    bool known = all[k] == i;
    for (int q = 0; q < found && !known; q++) known = out[q] == all[k];
    if (known) continue;
    for (; at > 0 && out[at - 1] > all[k]; at--) out[at] = out[at - 1];
    out[at] = all[k];
    found++;
  }
  return found;
}

/* ---- random ones ---- */

/* Whom rank i > 0 is joined to in any case. */
static int below(const shoal_graph *g, int i)
{
  shoal_rng_block r = shoal_rng(g->seed, SHOAL_RNG_METHOD, (uint64_t)i, DRAW_JOIN);
  return (int)shoal_rng_below(&r, (uint64_t)i);
}

static bool drawn(const shoal_graph *g, int i, int j)
{
  uint64_t low = (uint64_t)SHOAL_MIN(i, j), high = (uint64_t)SHOAL_MAX(i, j);
  shoal_rng_block r = shoal_rng(g->seed, SHOAL_RNG_METHOD, low << 32 | high, DRAW_EDGE);
  return (double)r.v[0] * 0x1p-32 < g->p || below(g, (int)high) == (int)low;
}

static bool is_random(const shoal_graph *g)
{
  return g->kind == SHOAL_GRAPH_RANDOM;
}

/* Number of the first rank whose neighbours are kept, and behind the last. */
static int kept_from(const shoal_graph *g)
{
  return g->of == SHOAL_GRAPH_ALL ? 0 : g->of;
}

static int kept_to(const shoal_graph *g)
{
  return g->of == SHOAL_GRAPH_ALL ? g->n : g->of + 1;
}

static shoal_status list_neighbours(shoal_graph *g)
{
  int from = kept_from(g), to = kept_to(g);
  size_t edges = 0, room = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)(to - from) + 1, &g->first));
  for (int i = from; i < to; i++) {
    for (int j = 0; j < g->n; j++) {
      if (j == i || !drawn(g, i, j)) continue;
      if (edges == room) {
        room = 2 * room + 16;
        int *more = realloc(g->neighbour, room * sizeof *more);
        SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory: graph of %d ranks with %zu edges", g->n, edges);
        g->neighbour = more;
      }
      g->neighbour[edges++] = j;
    }
    g->first[i - from + 1] = edges;
  }
  return SHOAL_OK;
}

/* ---- */

shoal_status shoal_graph_create(shoal_graph_kind kind, int n, double p, uint64_t seed, int of, shoal_graph **out)
{
  shoal_graph *g;
  SHOAL_CHECK(n >= 1 && p >= 0 && p <= 1, SHOAL_ERR_ARG, "a graph of %d ranks with edges of probability %g", n, p);
  SHOAL_TRY(SHOAL_ALLOC(1, &g));
  *g = (shoal_graph){ .kind = kind, .n = n, .columns = n, .p = p, .seed = seed, .of = of };
  if (kind == SHOAL_GRAPH_TORUS) g->columns = columns_of(n);
  shoal_status st = is_random(g) ? list_neighbours(g) : SHOAL_OK;
  if (st == SHOAL_OK)
    *out = g;
  else
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

int shoal_graph_degree(const shoal_graph *g, int i)
{
  int list[4];
  if (g->kind == SHOAL_GRAPH_COMPLETE) return g->n - 1;
  if (!is_random(g)) return near(g, i, list);
  i -= kept_from(g);
  return (int)(g->first[i + 1] - g->first[i]);
}

int shoal_graph_neighbour(const shoal_graph *g, int i, int k)
{
  int list[4];
  if (g->kind == SHOAL_GRAPH_COMPLETE) return k < i ? k : k + 1;
  if (is_random(g)) return g->neighbour[g->first[i - kept_from(g)] + (size_t)k];
  near(g, i, list);
  return list[k];
}

bool shoal_graph_joined(const shoal_graph *g, int i, int j)
{
  int list[4];
  if (i == j) return false;
  if (g->kind == SHOAL_GRAPH_COMPLETE) return true;
  if (is_random(g)) return drawn(g, i, j);
  for (int k = near(g, i, list); k-- > 0;)
    if (list[k] == j) return true;
  return false;
}

/* Draws until one is not gone; then, as draws are used up, takes the next one after the last drawn. */
int shoal_graph_partner(const shoal_graph *g, uint64_t seed, int i, uint64_t k, const bool *gone)
{
  uint64_t stream = shoal_rng_seed(seed, (uint64_t)i), degree = (uint64_t)shoal_graph_degree(g, i), pick = 0;
  for (uint32_t draw = 0; degree && draw < DRAWS_MAX; draw++) {
    shoal_rng_block r = shoal_rng(stream, SHOAL_RNG_METHOD, k, DRAW_PARTNER + draw);
    pick = shoal_rng_below(&r, degree);
    int j = shoal_graph_neighbour(g, i, (int)pick);
    if (!gone || !gone[j]) return j;
  }
  for (uint64_t more = 1; more < degree; more++) {
    int j = shoal_graph_neighbour(g, i, (int)((pick + more) % degree));
    if (!gone[j]) return j;
  }
  return -1;
}

uint64_t shoal_graph_steps(uint64_t mean, bool geometric, uint64_t seed, int i, uint64_t k)
{
  if (!geometric || mean <= 1) return mean;
  shoal_rng_block r = shoal_rng(shoal_rng_seed(seed, (uint64_t)i), SHOAL_RNG_METHOD, k, DRAW_STEPS);
  double u = ((double)r.v[0] + 0.5) * 0x1p-32;
  return 1 + (uint64_t)floor(log(u) / log1p(-1 / (double)mean));
}
