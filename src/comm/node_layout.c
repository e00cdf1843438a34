/* The nodes of a group as a sum sees them, the choice of the algorithm, and the bytes it sends.
 *
 *     nodes of 3, 2 and 3 ranks; the smallest has 2, so there are 2 shards
 *
 *     node 0   [0*  1^  2]        * owns shard 0       ring of shard 0:  0 → 3 → 5 → 0
 *     node 1   [3*  4^]           ^ owns shard 1       ring of shard 1:  1 → 4 → 6 → 1
 *     node 2   [5*  6^  7]        ranks 2 and 7 own nothing: the owners read their parts and write their sums
 *
 * Everything follows from the group's order and the topology, so members agree without communication.  Searches walk
 * the member list; they run only when an exchange is planned, and need no memory. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <string.h>

/* Thresholds of AUTO, in bytes on the wire.  "small" saves 0.1 to 0.3 ms of latency but a node sends more: 16 KiB take
 * 0.14 ms at 1 Gbit/s.  Up to 64 KiB one rank per node is as fast as all ranks or faster, above it slower (4 nodes of 2
 * ranks, TCP: 16 KiB 0.41 and 0.44 ms, 4 MiB 66.7 and 64.1 ms). */
enum { SMALL_BYTES = 8 << 10, SMALL_NODE_BYTES = 16 << 10, LEADERS_BYTES = 64 << 10 };

static int node_of(const shoal_group *g, shoal_sum_algorithm algorithm, int rank)
{
  if (algorithm == SHOAL_SUM_RING) return rank;
  return g->w->topo ? g->w->topo->places[g->world_ranks[rank]].node : 0;
}

bool shoal_node_layout_same_node(const shoal_group *g, shoal_sum_algorithm algorithm, int a, int b)
{
  return node_of(g, algorithm, a) == node_of(g, algorithm, b);
}

/* Index of `rank` among the members of its node. */
static int place_of(const shoal_group *g, shoal_sum_algorithm algorithm, int rank)
{
  int place = 0;
  for (int r = 0; r < rank; r++) place += shoal_node_layout_same_node(g, algorithm, r, rank);
  return place;
}

/* Member number `place` of the node of `rank`, or -1. */
static int member_at(const shoal_group *g, shoal_sum_algorithm algorithm, int rank, int place)
{
  for (int r = 0; r < g->size; r++)
    if (shoal_node_layout_same_node(g, algorithm, r, rank) && place-- == 0) return r;
  return -1;
}

static int members_of(const shoal_group *g, shoal_sum_algorithm algorithm, int rank)
{
  int n = 0;
  for (int r = 0; r < g->size; r++) n += shoal_node_layout_same_node(g, algorithm, r, rank);
  return n;
}

int shoal_node_layout_member(const shoal_group *g, shoal_sum_algorithm algorithm, int local)
{
  return member_at(g, algorithm, g->rank, local);
}

/* The first member of the next node (by = 1) or the previous one (by = -1); nodes are identified by their first
 * member. */
static int first_of_next(const shoal_group *g, shoal_sum_algorithm algorithm, int first, int by)
{
  for (int d = 1; d <= g->size; d++) {
    int r = (first + by * d % g->size + g->size) % g->size;
    if (place_of(g, algorithm, r) == 0) return r;
  }
  return first;
}

void shoal_node_layout_find(const shoal_group *g, shoal_sum_algorithm algorithm, shoal_node_layout *out)
{
  int p = g->size;
  if (algorithm == SHOAL_SUM_RING) {
    *out = (shoal_node_layout){ .nodes = p, .node = g->rank, .locals = 1, .owners = 1, .most = 1 };
    out->left = (g->rank + p - 1) % p;
    out->right = (g->rank + 1) % p;
    return;
  }
  int first = member_at(g, algorithm, g->rank, 0);
  *out = (shoal_node_layout){ .owners = p, .left = -1, .right = -1 };
  for (int r = 0; r < p; r++) {
    if (place_of(g, algorithm, r) != 0) continue;
    if (r < first) out->node++;
    out->nodes++;
    int members = members_of(g, algorithm, r);
    out->owners = SHOAL_MIN(out->owners, members);
    out->most = SHOAL_MAX(out->most, members);
  }
  if (algorithm == SHOAL_SUM_LEADERS) out->owners = 1;
  out->fabric = algorithm == SHOAL_SUM_TWO_LEVEL && shoal_fabric_suits(g);
  out->locals = members_of(g, algorithm, g->rank);
  out->local = place_of(g, algorithm, g->rank);
  if (out->local >= out->owners) return;
  out->left = member_at(g, algorithm, first_of_next(g, algorithm, first, -1), out->local);
  out->right = member_at(g, algorithm, first_of_next(g, algorithm, first, +1), out->local);
}

size_t shoal_shard_begin(const shoal_node_layout *s, size_t n, int owner)
{
  return s->fabric ? n / (size_t)s->owners * (size_t)owner : shoal_part_begin(n, s->owners, owner);
}

size_t shoal_shard_size(const shoal_node_layout *s, size_t n, int owner)
{
  if (!s->fabric) return shoal_part_size(n, s->owners, owner);
  return n / (size_t)s->owners + (owner == s->owners - 1 ? n % (size_t)s->owners : 0);
}

/* -------------------------------------------------------------------------------------------------------- choice */

shoal_sum_algorithm shoal_sum_choose(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm wanted)
{
  shoal_node_layout layout;
  if (wanted != SHOAL_SUM_AUTO) return wanted;
  if (g->size == 1 || !g->w->topo) return SHOAL_SUM_RING;
  if (shoal_fabric_suits(g)) return SHOAL_SUM_TWO_LEVEL;
  size_t bytes = n * shoal_wire_bytes(wire);
  shoal_node_layout_find(g, SHOAL_SUM_TWO_LEVEL, &layout);
  bool shared = layout.most > 1 && g->w->shares;
  if (layout.nodes == 1 && shared) return SHOAL_SUM_TWO_LEVEL;
  size_t node_sends = layout.nodes > 1 ? bytes * (size_t)g->size * (size_t)layout.most : 0;
  if (bytes <= SMALL_BYTES && node_sends <= SMALL_NODE_BYTES) return SHOAL_SUM_SMALL;
  if (!shared) return SHOAL_SUM_RING;
  return bytes <= LEADERS_BYTES ? SHOAL_SUM_LEADERS : SHOAL_SUM_TWO_LEVEL;
}

const char *shoal_sum_name(shoal_sum_algorithm algorithm)
{
  static const char *const names[] = { "auto", "ring", "two-level", "leaders", "small" };
  return names[algorithm];
}

/* --------------------------------------------------------------------------------------------------------- bytes */

/* Round k sends the first 2^k blocks, or as many as the receiver still needs. */
static void small_bytes(const shoal_group *g, size_t n, shoal_wire wire, uint64_t *out)
{
  int64_t p = g->size;
  for (int64_t have = 1; have < p; have *= 2) {
    int to = (int)((g->rank - have + p) % p);
    out[shoal_group_class(g, to)] += (uint64_t)SHOAL_MIN(have, p - have) * n * shoal_wire_bytes(wire);
  }
}

/* With shard s of n_s elements in chunks c_0 .. c_(N-1), on node m:
 *   inside    an owner reads its shard from each of the others and writes it into each of them;
 *   between   2 n_s elements minus the own chunk (sent once, in the all-gather) and the next node's (once, in
 *             reduce-scatter). */
static void ring_bytes(const shoal_group *g, size_t n, shoal_wire wire, const shoal_node_layout *s,
                       shoal_sum_algorithm algorithm, uint64_t *out)
{
  bool owner = s->local < s->owners;
  size_t shard = owner ? shoal_shard_size(s, n, s->local) : 0;
  for (int q = 0; q < s->locals; q++)
    if (q != s->local)
      out[shoal_group_class(g, shoal_node_layout_member(g, algorithm, q))] += 2 * shard * sizeof(float);
  if (!owner || s->nodes <= 1) return;
  size_t once = shoal_part_size(shard, s->nodes, s->node) + shoal_part_size(shard, s->nodes, (s->node + 1) % s->nodes);
  out[shoal_group_class(g, s->right)] += (2 * shard - once) * shoal_wire_bytes(wire);
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
  shoal_node_layout_find(g, algorithm, &layout);
  ring_bytes(g, n, wire, &layout, algorithm, out);
}
