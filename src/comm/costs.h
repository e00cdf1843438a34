/* What messages cost on a machine, and how long sums and broadcasts take there.
 *
 * With N nodes, L ranks on the largest, q = ceil(lg N), b bytes on the wire and f bytes of f32:
 *
 *   between nodes   ring 2 (N-1) (latency + b/N / near); halving 2 q latency + 2 (N-1)/N b / far
 *   inside a node   two-level and leaders: 2 local latency + 2 (L-1)/S f / local rate; S ranks of a node share the work
 *   flat            ring and halving: the above with every rank as a node, which halving takes L times over a node's link
 *   small           ceil(lg P) latency + (P-1) L b / far, and P parts added
 *
 *   broadcast       hops latency + turns (piece / near or, in a tree, far) between nodes, and piece / local rate for each rank of a
 *                   node behind the first; short: ceil(lg P) (latency + b / far)
 *
 * Phases are added up, though they overlap.  So the model orders algorithms better than it predicts times. */
#ifndef SHOAL_COMM_COSTS_H
#define SHOAL_COMM_COSTS_H
#include "comm/exchange.h"

typedef struct {
  double latency_s;       /* of a short message between nodes, from one rank's program to the other's */
  double near_rate;       /* bytes/s that each node sends to the next one, all nodes at once */
  double far_rate;        /* the same to the node half of all nodes away: less where upper switches are slow */
  double local_latency_s; /* until ranks of a node know of each other's progress */
  double local_rate;      /* bytes/s at which a rank adds or copies memory of another one on its node */
} shoal_costs;

/** Of Gigabit Ethernet, for predictions where nothing was measured. */
extern const shoal_costs shoal_costs_ethernet;

/** Measures them.  Collective over the world, about a second.  What cannot be measured (a single node, one rank per node) is as in
 *  shoal_costs_ethernet. */
shoal_status shoal_costs_measure(shoal_world *w, shoal_costs *out);
/** A file that `shoal bench comm --write` made, as JSON.  ERR_USAGE if it is none. */
shoal_status shoal_costs_read(const char *path, shoal_costs *out);
shoal_status shoal_costs_write(const char *path, const shoal_world *w, const shoal_costs *c);

/** From here on AUTO takes, for each sum that is planned, what is quickest by this model; copied.  On all ranks alike: the choice
 *  depends on nothing else but the group and the sum. */
void shoal_world_set_costs(shoal_world *w, const shoal_costs *c);
/** Seconds of a sum by this model.  @param algorithm  not AUTO */
double shoal_costs_of_sum(const shoal_costs *c, const shoal_group *g, size_t n, shoal_wire wire,
                          shoal_sum_algorithm algorithm);
double shoal_costs_of_broadcast(const shoal_costs *c, const shoal_group *g, size_t bytes);
#endif
