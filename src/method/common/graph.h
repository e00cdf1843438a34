/* Graphs that say which ranks may interact, and random partners drawn without hidden state.
 *
 *   complete   everybody with everybody
 *   ring       r with r-1 and r+1
 *   torus      rows x columns, as square as the number allows, periodic in both; a prime number gives a ring
 *   random     each pair with probability p (Erdős–Rényi), and each rank with a random one below it, so the graph is always connected
 *
 * Graphs are undirected and equal on every rank: a random one is a pure function of the seed.  Whether two ranks are joined, and who
 * the neighbours of a rank are, is computed for these alone, so no rank holds the graph. */
#ifndef SHOAL_METHOD_GRAPH_H
#define SHOAL_METHOD_GRAPH_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SHOAL_GRAPH_COMPLETE, SHOAL_GRAPH_RING, SHOAL_GRAPH_TORUS, SHOAL_GRAPH_RANDOM } shoal_graph_kind;

typedef struct {
  shoal_graph_kind kind;
  int n, columns; /* columns: of a torus */
  double p;
  uint64_t seed;
  size_t *
      first; /* random, of the ranks whose neighbours are kept: those of i are neighbour[first[i]] .., ascending; else NULL */
  int *neighbour;
  int of; /* the only one of these; -1: they are all */
} shoal_graph;

enum { SHOAL_GRAPH_ALL = -1 };
/** @param p     random: probability of an edge, 0 to 1; else ignored
 *  @param seed  random: the run's seed
 *  @param of    the rank whose degree and partners will be asked for; SHOAL_GRAPH_ALL: those of all, which for a random graph takes
 *               time and memory for all its edges, and else nothing */
shoal_status shoal_graph_create(shoal_graph_kind kind, int n, double p, uint64_t seed, int of, shoal_graph **out);
void shoal_graph_destroy(shoal_graph *g); /* accepts NULL */
int shoal_graph_degree(const shoal_graph *g, int i);
int shoal_graph_neighbour(const shoal_graph *g, int i, int k); /* the k-th, ascending, k below the degree */
bool shoal_graph_joined(const shoal_graph *g, int i, int j);   /* of any two ranks */

/** The partner of rank `i` in its interaction number k: uniform among its neighbours, a pure function of (seed, i, k),
 *  and independent between ranks.  Neighbours marked in `gone` [n] (may be NULL) are skipped by redrawing.
 *  @return -1 if no neighbour is left */
int shoal_graph_partner(const shoal_graph *g, uint64_t seed, int i, uint64_t k, const bool *gone);

/** Local steps before interaction number k of rank i: `mean` itself, or geometric on 1, 2, … with that mean. */
uint64_t shoal_graph_steps(uint64_t mean, bool geometric, uint64_t seed, int i, uint64_t k);
#endif
