/* Graphs that say which ranks may interact, and random partners drawn without hidden state.
 *
 *   complete   everybody with everybody
 *   ring       r with r-1 and r+1
 *   torus      rows x columns, as square as the number allows, periodic in both; a prime number gives a ring
 *   random     each pair with probability p (Erdős–Rényi); then components are joined, so the graph is always connected
 *
 * Graphs are undirected and equal on every rank: a random one is a pure function of the seed. */
#ifndef SHOAL_METHOD_GRAPH_H
#define SHOAL_METHOD_GRAPH_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SHOAL_GRAPH_COMPLETE, SHOAL_GRAPH_RING, SHOAL_GRAPH_TORUS, SHOAL_GRAPH_RANDOM } shoal_graph_kind;

typedef struct {
  int n;
  size_t *first;  /* [n + 1] neighbours of i are neighbour[first[i]] .. neighbour[first[i + 1] - 1], ascending */
  int *neighbour; /* owned */
} shoal_graph;

/** @param p     random: probability of an edge, 0 to 1; else ignored
 *  @param seed  random: the run's seed */
shoal_status shoal_graph_create(shoal_graph_kind kind, int n, double p, uint64_t seed, shoal_graph **out);
void shoal_graph_destroy(shoal_graph *g); /* accepts NULL */
static inline int shoal_graph_degree(const shoal_graph *g, int i)
{
  return (int)(g->first[i + 1] - g->first[i]);
}
bool shoal_graph_joined(const shoal_graph *g, int i, int j);

/** The partner of rank `i` in its interaction number k: uniform among its neighbours, a pure function of (seed, i, k),
 *  and independent between ranks.  Neighbours marked in `gone` [n] (may be NULL) are skipped by redrawing.
 *  @return -1 if no neighbour is left */
int shoal_graph_partner(const shoal_graph *g, uint64_t seed, int i, uint64_t k, const bool *gone);

/** Local steps before interaction number k of rank i: `mean` itself, or geometric on 1, 2, … with that mean. */
uint64_t shoal_graph_steps(uint64_t mean, bool geometric, uint64_t seed, int i, uint64_t k);
#endif
