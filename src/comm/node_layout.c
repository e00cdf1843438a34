/* The nodes of a group as a sum sees them, the choice of the algorithm, and the bytes it sends.
 *
 *     nodes of 3, 2 and 3 ranks; the smallest has 2, so there are 2 shards
 *
 *     node 0   [0*  1^  2]        * owns shard 0       ring of shard 0:  0 → 3 → 5 → 0
 *     node 1   [3*  4^]           ^ owns shard 1       ring of shard 1:  1 → 4 → 6 → 1
 *     node 2   [5*  6^  7]        ranks 2 and 7 own nothing: the owners read their parts and write their sums
 *
 * Everything follows from the group's order and the topology, so members agree without communication.  A group's node
 * table is made once, with the group. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>
#include <string.h>

/* Thresholds of AUTO, in bytes on the wire.  "small" saves 0.1 to 0.3 ms of latency but a node sends more: 16 KiB take
 * 0.14 ms at 1 Gbit/s.  Up to 64 KiB one rank per node is as fast as all ranks or faster, above it slower (4 nodes of 2
 * ranks, TCP: 16 KiB 0.41 and 0.44 ms, 4 MiB 66.7 and 64.1 ms). */
enum { SMALL_BYTES = 8 << 10, SMALL_NODE_BYTES = 16 << 10, LEADERS_BYTES = 64 << 10 };

/* ---------------------------------------------------------------------------------------------------- node table */

void shoal_node_table_free(shoal_node_table *t)
{
  free(t->node);
  free(t->place);
  free(t->begin);
  free(t->member);
  *t = (shoal_node_table){ 0 };
}

static shoal_status alloc_table(shoal_node_table *t, size_t n, size_t nodes)
{
  SHOAL_TRY(SHOAL_ALLOC(n, &t->node));
  SHOAL_TRY(SHOAL_ALLOC(n, &t->place));
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MIN(n, nodes) + 1, &t->begin));
  return SHOAL_ALLOC(n, &t->member);
}

/* @param seen  [nodes of the topology] zeroed: one more than the number that the group gives each node */
static void number_nodes(const shoal_group *g, int *seen, shoal_node_table *t)
{
  for (int r = 0; r < g->size; r++) {
    int *number = &seen[g->w->topo ? g->w->topo->places[g->world_ranks[r]].node : 0];
    if (!*number) *number = ++t->nodes;
    t->node[r] = *number - 1;
    t->place[r] = t->begin[*number]++;
  }
  t->least = g->size;
  for (int m = 0; m < t->nodes; m++) {
    t->least = SHOAL_MIN(t->least, t->begin[m + 1]);
    t->most = SHOAL_MAX(t->most, t->begin[m + 1]);
    t->begin[m + 1] += t->begin[m];
  }
  for (int r = 0; r < g->size; r++) t->member[t->begin[t->node[r]] + t->place[r]] = r;
}

static shoal_status make_table(const shoal_group *g, shoal_node_table *out)
{
  size_t nodes = g->w->topo ? (size_t)g->w->topo->nodes : 1;
  shoal_node_table t = { 0 };
  int *seen = NULL;
  shoal_status st = alloc_table(&t, (size_t)g->size, nodes);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(nodes, &seen);
  if (st == SHOAL_OK) {
    number_nodes(g, seen, &t);
    shoal_node_table_free(out);
    *out = t;
  } else {
    shoal_node_table_free(&t);
  }
  free(seen);
  return st;
}

shoal_status shoal_node_table_fill(shoal_group *g)
{
  shoal_world *w = g->w;
  if (!g->everyone) return make_table(g, &g->nodes);
  if (!w->nodes.node || w->nodes_of != w->topo) SHOAL_TRY(make_table(g, &w->nodes));
  w->nodes_of = w->topo;
  g->nodes = w->nodes;
  return SHOAL_OK;
}

/* --------------------------------------------------------------------------------------------------------- layout */

static bool is_flat(shoal_sum_algorithm algorithm)
{
  return shoal_sum_shape(algorithm) == SHOAL_SUM_RING;
}

int shoal_node_layout_node(const shoal_group *g, shoal_sum_algorithm algorithm, int rank)
{
  return is_flat(algorithm) ? rank : g->nodes.node[rank];
}

bool shoal_node_layout_same_node(const shoal_group *g, shoal_sum_algorithm algorithm, int a, int b)
{
  return shoal_node_layout_node(g, algorithm, a) == shoal_node_layout_node(g, algorithm, b);
}

int shoal_node_layout_owner(const shoal_group *g, shoal_sum_algorithm algorithm, int node, int owner)
{
  return is_flat(algorithm) ? node : g->nodes.member[g->nodes.begin[node] + owner];
}

int shoal_node_layout_member(const shoal_group *g, shoal_sum_algorithm algorithm, int local)
{
  return shoal_node_layout_owner(g, algorithm, shoal_node_layout_node(g, algorithm, g->rank), local);
}

/* Fabrics cut where they like, and so not between blocks. */
static bool suits_fabric(const shoal_group *g, shoal_wire wire)
{
  return shoal_wire_grain(wire) == 1 && shoal_fabric_suits(g);
}

void shoal_node_layout_find(const shoal_group *g, shoal_wire wire, shoal_sum_algorithm algorithm,
                            shoal_node_layout *out)
{
  const shoal_node_table *t = &g->nodes;
  if (is_flat(algorithm)) {
    *out = (shoal_node_layout){ .nodes = g->size, .node = g->rank, .locals = 1, .owners = 1, .most = 1 };
  } else {
    int node = t->node[g->rank];
    *out = (shoal_node_layout){ .nodes = t->nodes, .node = node, .owners = t->least, .most = t->most };
    if (shoal_sum_shape(algorithm) == SHOAL_SUM_LEADERS) out->owners = 1;
    out->fabric = algorithm == SHOAL_SUM_TWO_LEVEL && suits_fabric(g, wire);
    out->locals = t->begin[node + 1] - t->begin[node];
    out->local = t->place[g->rank];
  }
  out->grain = shoal_wire_grain(wire);
  out->left = out->right = -1;
  if (out->local >= out->owners) return;
  out->left = shoal_node_layout_owner(g, algorithm, (out->node + out->nodes - 1) % out->nodes, out->local);
  out->right = shoal_node_layout_owner(g, algorithm, (out->node + 1) % out->nodes, out->local);
}

size_t shoal_shard_begin(const shoal_node_layout *s, size_t n, int owner)
{
  return s->fabric ? n / (size_t)s->owners * (size_t)owner : shoal_part_begin(n, s->grain, s->owners, owner);
}

size_t shoal_shard_size(const shoal_node_layout *s, size_t n, int owner)
{
  if (!s->fabric) return shoal_part_size(n, s->grain, s->owners, owner);
  return n / (size_t)s->owners + (owner == s->owners - 1 ? n % (size_t)s->owners : 0);
}

/* -------------------------------------------------------------------------------------------------------- choice */

/* Halving is for so many nodes and more, where a step of the ring would move less than this, so that its latencies count.  Of
 * longer vectors the ring sends each byte to the next node only, whatever the switches above can do. */
enum { HALVING_NODES = 8, HALVING_BYTES = 256 << 10 };

static shoal_sum_algorithm halve_if_short(shoal_sum_algorithm shape, const shoal_node_layout *s, size_t bytes)
{
  size_t chunk = bytes / (size_t)s->owners / (size_t)s->nodes;
  if (s->nodes < HALVING_NODES || chunk >= HALVING_BYTES) return shape;
  return shape == SHOAL_SUM_RING        ? SHOAL_SUM_HALVING
         : shape == SHOAL_SUM_TWO_LEVEL ? SHOAL_SUM_TWO_LEVEL_HALVING
                                        : SHOAL_SUM_LEADERS_HALVING;
}

/* Where nothing was measured. */
static shoal_sum_algorithm choose_by_size(const shoal_group *g, size_t bytes)
{
  const shoal_node_table *t = &g->nodes;
  shoal_node_layout layout;
  bool shared = t->most > 1 && g->w->shares;
  if (t->nodes == 1 && shared) return SHOAL_SUM_TWO_LEVEL;
  size_t node_sends = t->nodes > 1 ? bytes * (size_t)g->size * (size_t)t->most : 0;
  if (bytes <= SMALL_BYTES && node_sends <= SMALL_NODE_BYTES) return SHOAL_SUM_SMALL;
  shoal_sum_algorithm shape = !shared                  ? SHOAL_SUM_RING
                              : bytes <= LEADERS_BYTES ? SHOAL_SUM_LEADERS
                                                       : SHOAL_SUM_TWO_LEVEL;
  if (t->nodes == 1 || (t->most > 1 && !shared)) return shape;
  shoal_node_layout_find(g, SHOAL_WIRE_F32, shape, &layout);
  return halve_if_short(shape, &layout, bytes);
}

/* The quickest by the machine's costs, of equals the first; `small` keeps the parts of all members, so up to a size only. */
static shoal_sum_algorithm choose_by_costs(const shoal_group *g, size_t n, shoal_wire wire)
{
  shoal_sum_algorithm best = SHOAL_SUM_AUTO;
  double seconds = 0;
  bool shared = g->nodes.most > 1 && g->w->shares, several = g->nodes.nodes > 1;
  for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) {
    bool flat = shoal_sum_shape(a) == SHOAL_SUM_RING || a == SHOAL_SUM_SMALL;
    if (!flat && (!shared || (shoal_sum_halves(a) && !several))) continue;
    if (a == SHOAL_SUM_SMALL && shoal_wire_bytes(wire, n) > LEADERS_BYTES) continue;
    double s = shoal_costs_of_sum(&g->w->costs, g, n, wire, a);
    if (best != SHOAL_SUM_AUTO && s >= seconds) continue;
    best = a;
    seconds = s;
  }
  return best;
}

/* Of blocks: by halving, in which a part is rounded once and sums are rounded lg N times at most; on a ring each of N hops rounds
 * what has been added up so far.  Inside one node nothing is rounded. */
static shoal_sum_algorithm choose_for_blocks(const shoal_group *g)
{
  if (g->nodes.most == 1 || !g->w->shares) return SHOAL_SUM_HALVING;
  return g->nodes.nodes == 1 ? SHOAL_SUM_TWO_LEVEL : SHOAL_SUM_TWO_LEVEL_HALVING;
}

shoal_sum_algorithm shoal_sum_choose(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm wanted)
{
  if (wanted != SHOAL_SUM_AUTO) return wanted;
  if (g->size == 1 || !g->w->topo) return SHOAL_SUM_RING;
  if (shoal_wire_grain(wire) > 1) return choose_for_blocks(g);
  if (shoal_fabric_suits(g)) return SHOAL_SUM_TWO_LEVEL;
  return g->w->has_costs ? choose_by_costs(g, n, wire) : choose_by_size(g, shoal_wire_bytes(wire, n));
}

const char *shoal_sum_name(shoal_sum_algorithm algorithm)
{
  static const char *const names[] = { "auto",  "ring",    "two-level",         "leaders",
                                       "small", "halving", "two-level-halving", "leaders-halving" };
  return names[algorithm];
}

bool shoal_sum_halves(shoal_sum_algorithm algorithm)
{
  return algorithm >= SHOAL_SUM_HALVING;
}

shoal_sum_algorithm shoal_sum_shape(shoal_sum_algorithm algorithm)
{
  static const shoal_sum_algorithm shapes[] = { SHOAL_SUM_RING, SHOAL_SUM_TWO_LEVEL, SHOAL_SUM_LEADERS };
  return shoal_sum_halves(algorithm) ? shapes[algorithm - SHOAL_SUM_HALVING] : algorithm;
}

/* --------------------------------------------------------------------------------------------------------- bytes */

/* Round k sends the first 2^k blocks, or as many as the receiver still needs. */
static void small_bytes(const shoal_group *g, size_t n, shoal_wire wire, uint64_t *out)
{
  int64_t p = g->size;
  for (int64_t have = 1; have < p; have *= 2) {
    int to = (int)((g->rank - have + p) % p);
    out[shoal_group_class(g, to)] += (uint64_t)SHOAL_MIN(have, p - have) * shoal_wire_bytes(wire, n);
  }
}

/* With shard s of n_s elements in chunks c_0 .. c_(N-1), on node m:
 *   inside    an owner reads its shard from each of the others and writes it into each of them;
 *   between   2 n_s elements minus the own chunk (sent once, in the all-gather) and the next node's (once, in
 *             reduce-scatter); by halving and doubling, see halving.c. */
static void ring_bytes(const shoal_group *g, size_t n, shoal_wire wire, const shoal_node_layout *s,
                       shoal_sum_algorithm algorithm, uint64_t *out)
{
  bool owner = s->local < s->owners;
  size_t shard = owner ? shoal_shard_size(s, n, s->local) : 0;
  for (int q = 0; q < s->locals; q++)
    if (q != s->local)
      out[shoal_group_class(g, shoal_node_layout_member(g, algorithm, q))] += 2 * shard * sizeof(float);
  if (!owner || s->nodes <= 1) return;
  if (shoal_sum_halves(algorithm)) {
    shoal_halving_bytes(g, algorithm, s, shard, wire, out);
    return;
  }
  size_t own = shoal_part_size(shard, s->grain, s->nodes, s->node);
  size_t next = shoal_part_size(shard, s->grain, s->nodes, (s->node + 1) % s->nodes);
  out[shoal_group_class(g, s->right)] +=
      2 * shoal_wire_bytes(wire, shard) - shoal_wire_bytes(wire, own) - shoal_wire_bytes(wire, next);
}

void shoal_exchange_bytes(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm,
                          uint64_t out[SHOAL_LINK_COUNT])
{
  shoal_node_layout layout;
  memset(out, 0, SHOAL_LINK_COUNT * sizeof *out);
  algorithm = shoal_sum_choose(g, n, wire, algorithm);
  if (algorithm == SHOAL_SUM_SMALL) {
    small_bytes(g, n, wire, out);
    return;
  }
  shoal_node_layout_find(g, wire, algorithm, &layout);
  ring_bytes(g, n, wire, &layout, algorithm, out);
}
