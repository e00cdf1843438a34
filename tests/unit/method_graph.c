/* Graphs have the edges their names promise, and partners are uniform, reproducible and independent. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "method/common/graph.h"

static shoal_graph *make(shoal_graph_kind kind, int n, double p, uint64_t seed)
{
  shoal_graph *g = NULL;
  REQUIRE(shoal_graph_create(kind, n, p, seed, SHOAL_GRAPH_ALL, &g) == SHOAL_OK, "graph %d of %d", kind, n);
  return g;
}

static bool connected(const shoal_graph *g)
{
  bool seen[64] = { true };
  for (int round = 0; round < g->n; round++)
    for (int i = 0; i < g->n; i++)
      for (int k = 0; seen[i] && k < shoal_graph_degree(g, i); k++) seen[shoal_graph_neighbour(g, i, k)] = true;
  for (int i = 0; i < g->n; i++)
    if (!seen[i]) return false;
  return true;
}

static void well_formed(const shoal_graph *g)
{
  CHECK(connected(g), "the graph of %d ranks is not connected", g->n);
  for (int i = 0; i < g->n; i++)
    for (int j = 0; j < g->n; j++) {
      CHECK_EQ(shoal_graph_joined(g, i, j), shoal_graph_joined(g, j, i), "edge %d %d", i, j);
      CHECK(!shoal_graph_joined(g, i, i), "edge %d %d", i, j);
    }
}

static void shapes(void)
{
  for (int n = 1; n <= 20; n++)
    for (shoal_graph_kind kind = SHOAL_GRAPH_COMPLETE; kind <= SHOAL_GRAPH_RANDOM; kind++) {
      shoal_graph *g = make(kind, n, 0.3, 4);
      well_formed(g);
      for (int i = 0; i < n; i++) {
        int degree = shoal_graph_degree(g, i), joined = 0;
        for (int j = 0; j < n; j++)
          if (shoal_graph_joined(g, i, j)) CHECK_EQ(shoal_graph_neighbour(g, i, joined++), j, "neighbours of %d", i);
        CHECK_EQ(joined, degree, "neighbours of %d", i);
        if (kind == SHOAL_GRAPH_COMPLETE) CHECK_EQ(degree, n - 1, "complete, %d", n);
        if (kind == SHOAL_GRAPH_RING) CHECK_EQ(degree, n > 2 ? 2 : n - 1, "ring, %d", n);
      }
      shoal_graph_destroy(g);
    }
  shoal_graph *g = make(SHOAL_GRAPH_TORUS, 12, 0, 0); /* 3 x 4 */
  static const int neighbours[] = { 1, 3, 4, 8 };
  for (int i = 0; i < 4; i++) CHECK(shoal_graph_joined(g, 0, neighbours[i]), "edge 0 %d", neighbours[i]);
  CHECK_EQ(shoal_graph_degree(g, 0), 4);
  shoal_graph_destroy(g);
  g = make(SHOAL_GRAPH_TORUS, 7, 0, 0);
  CHECK_EQ(shoal_graph_degree(g, 3), 2, "a prime torus is a ring");
  shoal_graph_destroy(g);
}

/* Drawn from the seed alone; p of the pairs that are no edges of the tree; that is all where p is 0.  One rank's own neighbours are
 * those that it has among all. */
static void random_graphs(void)
{
  size_t edges = 0;
  for (uint64_t seed = 0; seed < 100; seed++) {
    shoal_graph *g = make(SHOAL_GRAPH_RANDOM, 16, 0.5, seed), *again = make(SHOAL_GRAPH_RANDOM, 16, 0.5, seed);
    shoal_graph *tree = make(SHOAL_GRAPH_RANDOM, 16, 0, seed);
    edges += g->first[16] / 2;
    for (int i = 0; i < 16; i++) {
      shoal_graph *own = NULL;
      REQUIRE(shoal_graph_create(SHOAL_GRAPH_RANDOM, 16, 0.5, seed, i, &own) == SHOAL_OK, "own neighbours");
      if (CHECK_EQ(shoal_graph_degree(own, i), shoal_graph_degree(g, i), "rank %d", i))
        CHECK_BYTES(own->neighbour, &g->neighbour[g->first[i]], own->first[1] * sizeof(int), "rank %d", i);
      shoal_graph_destroy(own);
    }
    if (CHECK_EQ(g->first[16], again->first[16], "seed %llu twice", (unsigned long long)seed))
      CHECK_BYTES(g->neighbour, again->neighbour, g->first[16] * sizeof(int), "seed %llu twice",
                  (unsigned long long)seed);
    CHECK_EQ(tree->first[16], 2 * 15, "p = 0 leaves a tree");
    well_formed(tree);
    shoal_graph_destroy(g);
    shoal_graph_destroy(again);
    shoal_graph_destroy(tree);
  }
  double mean = (double)edges / 100, sd = sqrt(105 * 0.25 / 100);
  CHECK_LT(fabs(mean - 15 - 52.5), 4 * sd, "%g edges of 120 at p = 0.5", mean);
}

/* Chi-square over the neighbours (n - 1 = 7 degrees of freedom less one: 22.46 is the 0.1 % point of 6). */
static void uniform_partners(void)
{
  enum { N = 8, DRAWS = 70000 };
  shoal_graph *g = make(SHOAL_GRAPH_COMPLETE, N, 0, 0);
  for (int rank = 0; rank < N; rank++) {
    double count[N] = { 0 }, chi = 0;
    for (uint64_t k = 0; k < DRAWS; k++) count[shoal_graph_partner(g, 3, rank, k, NULL)]++;
    CHECK_EQ(count[rank], 0, "rank %d met itself", rank);
    for (int j = 0; j < N; j++)
      if (j != rank) chi += (count[j] - DRAWS / 7.0) * (count[j] - DRAWS / 7.0) / (DRAWS / 7.0);
    CHECK_LT(chi, 22.46, "rank %d", rank);
  }
  /* Streams of different ranks: the pairs (partner of 0, partner of 1) fill their 49 cells evenly (48 degrees of
   * freedom: 84.04 is the 0.1 % point). */
  double cell[N][N] = { { 0 } }, chi = 0;
  for (uint64_t k = 0; k < DRAWS; k++)
    cell[shoal_graph_partner(g, 3, 0, k, NULL)][shoal_graph_partner(g, 3, 1, k, NULL)]++;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < N; j++)
      if (j != 1) chi += (cell[i][j] - DRAWS / 49.0) * (cell[i][j] - DRAWS / 49.0) / (DRAWS / 49.0);
  CHECK_LT(chi, 84.04, "ranks 0 and 1 are correlated");
  shoal_graph_destroy(g);
}

/* Known values: partners belong to (seed, rank, interaction), so they may not change with a version. */
static void reproducible(void)
{
  shoal_graph *g = make(SHOAL_GRAPH_COMPLETE, 8, 0, 0);
  char text[64] = "";
  for (uint64_t k = 0; k < 12; k++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d%d ", shoal_graph_partner(g, 1, 0, k, NULL),
             shoal_graph_partner(g, 1, 5, k, NULL));
  CHECK_STR(text, "51 10 16 47 74 67 57 71 67 14 36 10 ", "partners of ranks 0 and 5");
  bool gone[8] = { false, true, true, true, false, true, true, true };
  for (uint64_t k = 0; k < 200; k++) CHECK_EQ(shoal_graph_partner(g, 1, 0, k, gone), 4, "only rank 4 is left");
  gone[4] = true;
  CHECK_EQ(shoal_graph_partner(g, 1, 0, 0, gone), -1, "nobody is left");
  gone[2] = gone[6] = false; /* uniform over those that are left */
  int two = 0;
  for (uint64_t k = 0; k < 10000; k++) two += shoal_graph_partner(g, 1, 0, k, gone) == 2;
  CHECK_LT(abs(two - 5000), 200, "%d of 10000", two);
  shoal_graph_destroy(g);
}

static void local_steps(void)
{
  enum { DRAWS = 100000, MEAN = 5 };
  double sum = 0, ones = 0;
  for (uint64_t k = 0; k < DRAWS; k++) {
    uint64_t h = shoal_graph_steps(MEAN, true, 9, 2, k);
    CHECK_GE(h, 1, "no steps at all");
    CHECK_EQ(shoal_graph_steps(MEAN, false, 9, 2, k), MEAN, "fixed steps");
    sum += (double)h;
    ones += h == 1;
  }
  CHECK_LT(fabs(sum / DRAWS - MEAN), 4 * sqrt(20.0 / DRAWS), "mean of geometric steps %g",
           sum / DRAWS); /* variance 20 */
  CHECK_LT(fabs(ones / DRAWS - 0.2), 4 * sqrt(0.16 / DRAWS), "ones %g", ones / DRAWS);
  CHECK_EQ(shoal_graph_steps(1, true, 9, 2, 0), 1, "mean 1 is always 1");
}

int main(void)
{
  shapes();
  random_graphs();
  uniform_partners();
  reproducible();
  local_steps();
  return check_done();
}
