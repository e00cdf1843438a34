/* Halving and doubling: the sum between nodes in 2 ceil(lg N) rounds instead of the ring's 2(N-1) steps, for the same bytes.
 *
 * The distances s_q = N, s_k = s_(k+1) / 2 rounded up, end at s_0 = 1, so there are q = ceil(lg N) rounds each way, for any
 * number N of nodes.  R_i is what node m holds of chunk m+i (modulo N):
 *
 *     reduce-scatter, k = q-1 .. 0    sends R_i, s_k <= i < s_(k+1), to node m + s_k; adds what comes from m - s_k to R_0, R_1, ...
 *     all-gather,     k = 0 .. q-1    the way back: sends R_0, R_1, ... to m - s_k, receives R_i, s_k <= i < s_(k+1), from m + s_k
 *
 *     N = 5, distances 3, 2, 1, node 0     k = 2: sends R3 R4 to 3, adds to R0 R1     k = 1: sends R2 to 2, adds to R0
 *                                          k = 0: sends R1 to 1, adds to R0: chunk 0 is complete
 *
 * After a round only R_i below s_k are of interest.  Every chunk but the own is sent once in reduce-scatter, so with c_i elements
 * in chunk i of n a node sends n - c_m, and s_(k+1) - s_k chunks from its own on in round k of the all-gather.  With N a power of
 * two these are the rounds of recursive halving and doubling.
 *
 * Each round is a leg of the lanes in and out, or two where it reaches over the end of the shard, so a round is as few messages
 * as its length allows, and pieces overlap across rounds: a piece is sent as soon as everything that it contains was added.
 * Additions to an element are in the order of rounds.
 *
 * Source: J. L. Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, 2024; the all-gather is in Bruck et al.,
 * IEEE TPDS 8(11), 1997; for powers of two, Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>

/* Rounds are numbered in their order: 0 .. q-1 reduce, q .. 2q-1 gather. */
enum { ROUNDS = 31, LEGS = 4 * ROUNDS };

struct shoal_halving {
  int rounds, skip[ROUNDS + 1];
  int sends[2 * ROUNDS + 1], receives[2 * ROUNDS + 1]; /* first leg of each round, and the number of all */
  shoal_leg out[LEGS], in[LEGS];
  uint64_t out_before[LEGS + 1], in_before[LEGS + 1]; /* pieces of the legs before */
};

/* @return  rounds each way */
static int find_skips(int nodes, int skip[ROUNDS + 1])
{
  int rounds = 0;
  while (((int64_t)1 << rounds) < nodes) rounds++;
  skip[rounds] = nodes;
  for (int k = rounds; k > 0; k--) skip[k - 1] = (skip[k] + 1) / 2;
  return rounds;
}

static int skip_of(const shoal_halving *h, int round)
{
  return h->skip[round < h->rounds ? h->rounds - 1 - round : round - h->rounds];
}

static int chunks_of(const shoal_halving *h, int round)
{
  return h->skip[round < h->rounds ? h->rounds - round : round - h->rounds + 1] - skip_of(h, round);
}

/* Appends `count` chunks from `first` on, around the end of the shard. */
static int add_legs(const shoal_cut *c, int first, int count, int peer, shoal_leg *legs, int n)
{
  int over = first + count - c->chunks;
  size_t at = c->begin + shoal_part_begin(c->n, c->grain, c->chunks, first);
  size_t end = c->begin + shoal_part_begin(c->n, c->grain, c->chunks, over > 0 ? c->chunks : first + count);
  legs[n++] = (shoal_leg){ peer, at, end };
  if (over > 0) legs[n++] = (shoal_leg){ peer, c->begin, c->begin + shoal_part_begin(c->n, c->grain, c->chunks, over) };
  return n;
}

static void count_pieces(const shoal_cut *c, const shoal_leg *legs, int n, uint64_t *before)
{
  before[0] = 0;
  for (int i = 0; i < n; i++) before[i + 1] = before[i] + (legs[i].end - legs[i].at + c->piece - 1) / c->piece;
}

static void lay_out(const shoal_exchange *e, int owner, shoal_halving *h)
{
  const shoal_node_layout *s = &e->layout;
  shoal_cut cut = shoal_ring_cut(e, owner);
  int nodes = s->nodes, sends = 0, receives = 0;
  h->rounds = find_skips(nodes, h->skip);
  for (int t = 0; t < 2 * h->rounds; t++) {
    int skip = skip_of(h, t), count = chunks_of(h, t);
    int up = shoal_node_layout_owner(e->f.g, e->algorithm, (s->node + skip) % nodes, owner);
    int down = shoal_node_layout_owner(e->f.g, e->algorithm, (s->node + nodes - skip) % nodes, owner);
    int far = (s->node + skip) % nodes;
    h->sends[t] = sends;
    h->receives[t] = receives;
    if (t < h->rounds) {
      sends = add_legs(&cut, far, count, up, h->out, sends);
      receives = add_legs(&cut, s->node, count, down, h->in, receives);
    } else {
      sends = add_legs(&cut, s->node, count, down, h->out, sends);
      receives = add_legs(&cut, far, count, up, h->in, receives);
    }
  }
  h->sends[2 * h->rounds] = sends;
  h->receives[2 * h->rounds] = receives;
  count_pieces(&cut, h->out, sends, h->out_before);
  count_pieces(&cut, h->in, receives, h->in_before);
}

shoal_status shoal_halving_plan(shoal_exchange *e)
{
  if (!shoal_sum_halves(e->algorithm) || e->layout.nodes == 1) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)e->layout.owners, &e->halving));
  for (int i = 0; i < e->layout.owners; i++) lay_out(e, i, &e->halving[i]);
  return SHOAL_OK;
}

void shoal_halving_free(shoal_exchange *e)
{
  free(e->halving);
}

/* What is sent in reduce-scatter, and then the own chunk; that, and what is received in the all-gather. */
void shoal_halving_orders(const shoal_exchange *e, int owner, shoal_lane *adding, shoal_lane *giving)
{
  const shoal_halving *h = &e->halving[owner];
  adding->legs = h->out;
  adding->steps = h->sends[h->rounds] + 1;
  giving->legs = h->in + h->receives[h->rounds - 1];
  giving->steps = h->receives[2 * h->rounds] - h->receives[h->rounds - 1];
}

void shoal_halving_lanes(shoal_exchange *e)
{
  const shoal_halving *h = &e->halving[e->layout.local];
  e->out.legs = h->out;
  e->out.steps = h->sends[2 * h->rounds];
  e->in.legs = h->in;
  e->in.steps = h->receives[2 * h->rounds];
  e->reduces = h->receives[h->rounds];
  e->sends = h->sends[h->rounds];
  e->partial = h->in_before[h->receives[h->rounds - 1]];
}

/* ---------------------------------------------------------------------------------------------------- what waits */

static int round_of(const int *first, int leg)
{
  int t = 0;
  while (first[t + 1] <= leg) t++;
  return t;
}

/* Pieces to receive until all up to element `end` of these legs is here; the legs follow each other around the shard. */
static uint64_t pieces_up_to(const shoal_exchange *e, const shoal_halving *h, int leg, int legs, size_t end)
{
  for (; leg < legs; leg++)
    if (h->in[leg].at < end && end <= h->in[leg].end)
      return h->in_before[leg] + (end - h->in[leg].at + e->cut.piece - 1) / e->cut.piece;
  return h->in_before[legs];
}

/* In reduce-scatter the round before has added to nearly all that is sent, and what it has not is from a round before that. */
bool shoal_halving_may_send(const shoal_exchange *e)
{
  const shoal_halving *h = &e->halving[e->layout.local];
  const shoal_cursor *c = &e->out.posted;
  size_t end = c->at + shoal_lane_length(&e->out, c);
  int t = round_of(h->sends, c->step);
  if (t == 0) return c->pieces < e->summed;
  int from = t < h->rounds ? h->receives[t - 1] : h->receives[h->rounds - 1];
  int to = t < h->rounds ? h->receives[t] : h->receives[2 * h->rounds];
  return (t >= h->rounds || c->pieces < e->summed) && pieces_up_to(e, h, from, to, end) <= e->in.finished.pieces;
}

/* Whether the send from where the next piece of the all-gather is received has completed. */
bool shoal_halving_may_overwrite(const shoal_exchange *e)
{
  const shoal_halving *h = &e->halving[e->layout.local];
  const shoal_cursor *c = &e->in.posted;
  int t = round_of(h->receives, c->step);
  int sent = h->sends[2 * h->rounds - 1 - t] + c->step - h->receives[t];
  uint64_t piece = h->out_before[sent] + (c->at - h->in[c->step].at) / e->cut.piece;
  return piece < e->out.finished.pieces;
}

/* -------------------------------------------------------------------------------------------------- hang reports */

/* What node m has for R_j after `rounds` rounds holds the parts of these nodes. */
static void heard_from(const shoal_halving *h, int nodes, int m, int rounds, int j, bool *late)
{
  late[m] = false;
  for (int t = 0; t < rounds; t++)
    if (j < chunks_of(h, t)) heard_from(h, nodes, (m + nodes - skip_of(h, t)) % nodes, t, skip_of(h, t) + j, late);
}

void shoal_halving_late(const shoal_exchange *e, bool arrived, bool *late)
{
  const shoal_halving *h = &e->halving[e->layout.local];
  int nodes = e->layout.nodes, m = e->layout.node, step = e->in.finished.step;
  for (int i = 0; i < nodes; i++) late[i] = i != m && step < e->reduces;
  for (int t = 0; t < h->rounds && step < e->reduces && h->receives[t + 1] <= step; t++)
    for (int j = 0; j < chunks_of(h, t); j++)
      heard_from(h, nodes, (m + nodes - skip_of(h, t)) % nodes, t, skip_of(h, t) + j, late);
  if (arrived && step < e->reduces) late[(m + nodes - skip_of(h, round_of(h->receives, step))) % nodes] = false;
}

/* --------------------------------------------------------------------------------------------------------- bytes */

static size_t bytes_of(shoal_wire wire, size_t n, int chunks, int first, int count)
{
  size_t all = 0, grain = shoal_wire_grain(wire);
  for (int i = 0; i < count; i++)
    all += shoal_wire_bytes(wire, shoal_part_size(n, grain, chunks, (first + i) % chunks));
  return all;
}

void shoal_halving_bytes(const shoal_group *g, shoal_sum_algorithm algorithm, const shoal_node_layout *s, size_t n,
                         shoal_wire wire, uint64_t *out)
{
  int skip[ROUNDS + 1], nodes = s->nodes, m = s->node;
  for (int k = find_skips(nodes, skip) - 1; k >= 0; k--) {
    int up = shoal_node_layout_owner(g, algorithm, (m + skip[k]) % nodes, s->local);
    int down = shoal_node_layout_owner(g, algorithm, (m + nodes - skip[k]) % nodes, s->local);
    out[shoal_group_class(g, up)] += bytes_of(wire, n, nodes, m + skip[k], skip[k + 1] - skip[k]);
    out[shoal_group_class(g, down)] += bytes_of(wire, n, nodes, m, skip[k + 1] - skip[k]);
  }
}
