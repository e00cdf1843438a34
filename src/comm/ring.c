/* The all-reduce of the training step: a non-blocking ring.
 *
 * A ring of p members takes 2(p-1) steps.  In step t member r sends chunk r-1-t to its right and receives chunk r-2-t
 * from its left (modulo p).  In the first p-1 steps (reduce-scatter) the chunk received is added to the own part;
 * afterwards (all-gather) it is complete and replaces the own part.  The chunk received in step t is the one sent in
 * step t+1.
 *
 *     p = 3, member 0   t:        0    1  |  2    3
 *                       send      c2   c1 |  c0   c2        reduce-scatter | all-gather
 *                       receive   c1   c0 |  c2   c1        c0 is complete after t = 1, so member 0 owns it
 *
 * In the flat ring the members are all ranks and the chunks are parts of the vector.  In the two-level sum the vector
 * is cut into shards, one per owner of a node (node_layout.c); each shard has its own ring with one member per node,
 * and a member contributes the sum over its node.  It computes that sum in sending order and distributes finished
 * pieces inside its node as they finish, so that the three phases overlap (local.c):
 *
 *     node m sums      chunks m-1, m-2, ... m+1, m          `summed` counts these pieces
 *     and completes    chunks m, m-1, ... m+1               complete() counts these
 *
 * Chunks are cut into pieces, and each direction is one sequence of pieces.  With `first` pieces in the first chunk
 * sent, and `all` pieces in the shard:
 *
 *     piece i <  first may be sent once piece i is summed inside the node
 *     piece i >= first may be sent once piece i - first has been received and added to the node's sum
 *     piece i of the all-gather may be received in place once the earlier send from there, of piece i + first - all,
 *                has completed
 *
 * f32 is sent in place, and received in place in the all-gather; only reduce-scatter needs piece buffers.  16-bit
 * formats use piece buffers in both directions; inside a node everything is f32.
 *
 * Pieces are just short of 64 KiB, and up to 32 are posted per direction.  A piece must be long enough to hide the
 * latency of a message, and short enough that a ring step can start before its whole chunk is available.  Below 64 KiB
 * Open MPI uses its eager protocol over TCP; above, the rendezvous protocol waits for the receiver, which may be
 * computing and whose reply queues behind data (4 MiB at 1 Gbit/s: 54 ms, with pieces of 256 KiB 60 ms).  The posted
 * pieces must cover the time between two polls (2 ms): 32 pieces per 2 ms are 1 GB/s. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>

enum { PIECE_BYTES = (64 << 10) - 256 }; /* leaves room for MPI's header within the 64 KiB */

/* Rounds the elements at c to the wire format. */
static void round_piece(const shoal_exchange *e, const shoal_cursor *c, size_t n, void *to)
{
  shoal_wire_round(e->wire, n, e->x + c->at, e->error ? e->error + (c->at - e->cut.begin) : NULL, to);
}

/* Process a received piece: add it, or copy it into place.  The last step of reduce-scatter completes the own chunk. */
static void use_piece(shoal_exchange *e, const shoal_cursor *c, char *piece)
{
  size_t n = shoal_lane_length(&e->in, c);
  float *x = e->x + c->at;
  if (c->step < e->reduces) {
    shoal_wire_add(e->wire, n, piece, x);
    if (c->step < e->reduces - 1 || e->wire == SHOAL_WIRE_F32) return;
    round_piece(e, c, n, piece); /* as the other members will receive it */
  }
  if (e->wire != SHOAL_WIRE_F32) shoal_wire_unpack(e->wire, n, piece, x);
}

static bool in_place(const shoal_exchange *e, const shoal_cursor *c)
{
  return e->wire == SHOAL_WIRE_F32 && c->step >= e->reduces;
}

/* Whether the node's own part of the next piece received is there.  Halving begins with what is summed last. */
static bool may_add(const shoal_exchange *e)
{
  return e->halving ? e->summed == e->all : e->summed > e->in.finished.pieces + e->first;
}

/* Our neighbour has read the old contents before it can send the next piece received, but the local send must have completed
 * too. */
static bool may_overwrite(const shoal_exchange *e)
{
  if (e->halving) return shoal_halving_may_overwrite(e);
  return e->out.finished.pieces + e->all > e->in.posted.pieces + e->first;
}

static shoal_status receive_finished(shoal_exchange *e, bool *moved)
{
  for (;;) {
    const shoal_cursor *c = &e->in.finished;
    bool yes;
    SHOAL_TRY(shoal_lane_look(&e->f, &e->in, &yes));
    if (!yes || (c->step < e->reduces && !may_add(e))) return SHOAL_OK;
    if (!in_place(e, c)) use_piece(e, c, shoal_lane_buffer(&e->in, c));
    shoal_lane_pop(&e->f, &e->in);
    *moved = true;
  }
}

static shoal_status post_receives(shoal_exchange *e, bool *moved)
{
  while (shoal_lane_has_room(&e->in)) {
    const shoal_cursor *c = &e->in.posted;
    bool straight = in_place(e, c);
    if (straight && !may_overwrite(e)) break;
    SHOAL_TRY(shoal_lane_post(&e->f, &e->in,
                              straight ? (void *)(shoal_stage_direct(e) + c->at) : shoal_lane_buffer(&e->in, c)));
    *moved = true;
  }
  return SHOAL_OK;
}

static bool may_send(const shoal_exchange *e)
{
  uint64_t piece = e->out.posted.pieces;
  if (e->halving) return shoal_halving_may_send(e);
  return piece < e->first ? piece < e->summed : piece - e->first < e->in.finished.pieces;
}

static shoal_status post_sends(shoal_exchange *e, bool *moved)
{
  while (shoal_lane_has_room(&e->out) && may_send(e)) {
    const shoal_cursor *c = &e->out.posted;
    bool summed = c->step > 0 && c->step < e->layout.nodes; /* by this rank's host */
    void *from = (summed ? e->x : shoal_stage_direct(e)) + c->at;
    if (e->wire != SHOAL_WIRE_F32) {
      size_t n = shoal_lane_length(&e->out, c);
      from = shoal_lane_buffer(&e->out, c);
      if (c->step < e->sends)
        round_piece(e, c, n, from);
      else
        shoal_wire_pack(e->wire, n, e->x + c->at, from); /* exact: it was rounded before */
    }
    SHOAL_TRY(shoal_lane_post(&e->f, &e->out, from));
    *moved = true;
  }
  return SHOAL_OK;
}

/* Number of finished pieces of my shard.  The first `partial` pieces received are only partial sums to pass on. */
static uint64_t complete(const shoal_exchange *e)
{
  if (e->layout.nodes == 1) return e->summed;
  uint64_t got = e->in.finished.pieces;
  return got > e->partial ? got - e->partial : 0;
}

/* What of a vector that is elsewhere is here by now. */
static void take_arrived(shoal_exchange *e, bool *moved)
{
  shoal_stage_fetch(e, moved);
  shoal_local_tell_fetched(e);
  if (e->layout.locals == 1) e->summed = SHOAL_MIN(shoal_stage_fetched(e), e->all);
}

static shoal_status give_back(shoal_exchange *e, bool *moved, bool *done)
{
  if (e->layout.local < e->layout.owners)
    SHOAL_TRY(shoal_stage_give(e, e->layout.local, SHOAL_MIN(complete(e), e->all), moved));
  SHOAL_TRY(shoal_local_give(e, moved));
  *done = *done && shoal_stage_over(e);
  return *done ? shoal_stage_end(e) : SHOAL_OK;
}

shoal_status shoal_ring_turn(shoal_exchange *e, bool *moved, bool *done)
{
  if (e->stage.backend) take_arrived(e, moved);
  SHOAL_TRY(shoal_local_collect(e, moved));
  SHOAL_TRY(receive_finished(e, moved));
  SHOAL_TRY(shoal_lane_reap(&e->f, &e->out, moved));
  SHOAL_TRY(post_sends(e, moved));
  SHOAL_TRY(post_receives(e, moved));
  shoal_local_spread(e, complete(e), moved);
  *done = shoal_lane_over(&e->in) && shoal_lane_over(&e->out) && shoal_local_over(e);
  return e->stage.backend ? give_back(e, moved, done) : SHOAL_OK;
}

static shoal_status ring_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_exchange *e = (shoal_exchange *)f;
  SHOAL_TRY(shoal_ring_turn(e, moved, done));
  if (*done) shoal_exchange_record_end(e);
  return SHOAL_OK;
}

/* ------------------------------------------------------------------------------------------------- hang reports */

/* The chunk received in step t holds the parts of the t+1 preceding nodes; in the all-gather it holds all parts. */
static void ring_late(const shoal_exchange *e, bool arrived, bool *late)
{
  int nodes = e->layout.nodes, received = e->in.finished.step + arrived;
  for (int d = received + 1; d < nodes; d++) late[(e->layout.node - d + nodes) % nodes] = true;
}

static int find_missing(shoal_exchange *e, bool *missing)
{
  const shoal_group *g = e->f.g;
  bool arrived = false, over = shoal_lane_over(&e->in);
  if (over || shoal_lane_look(&e->f, &e->in, &arrived) != SHOAL_OK) arrived = false;
  bool *late = calloc((size_t)e->layout.nodes, sizeof *late);
  if (late && e->halving)
    shoal_halving_late(e, arrived, late);
  else if (late)
    ring_late(e, arrived, late);
  for (int r = 0; late && r < g->size; r++) missing[r] |= late[shoal_node_layout_node(g, e->algorithm, r)];
  free(late);
  return over || arrived ? -1 : shoal_lane_peer(&e->in, &e->in.finished);
}

/* An owner knows whose part is missing; a rank that owns nothing knows only about its node. */
static int ring_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_exchange *e = (shoal_exchange *)f;
  int peer = -1;
  shoal_str_add(where, "step %d of %d of %s", SHOAL_MIN(e->in.finished.step + 1, e->in.steps), e->in.steps,
                e->halving ? "halving and doubling" : "the ring");
  if (e->local.n)
    shoal_str_add(where, ", %llu of %llu pieces of this node in", (unsigned long long)e->summed,
                  (unsigned long long)e->all);
  shoal_str_add(where, ", %zu elements", e->n);
  if (shoal_stage_fetched(e) != UINT64_MAX) shoal_str_add(where, ", not all of which this rank's backend has written");
  if (e->layout.local < e->layout.owners) peer = find_missing(e, missing);
  int mate = shoal_local_describe(e, where, missing);
  /* The node peer is not missing, so it waits for another node. */
  for (int r = 0; peer < 0 && mate >= 0 && !missing[mate] && r < f->g->size; r++)
    missing[r] |= !shoal_node_layout_same_node(f->g, e->algorithm, r, f->g->rank);
  return mate >= 0 ? mate : peer >= 0 ? peer : e->layout.right;
}

static void ring_give_up(shoal_flight *f)
{
  shoal_exchange *e = (shoal_exchange *)f;
  shoal_lane_give_up(f, &e->in);
  shoal_lane_give_up(f, &e->out);
}

const shoal_flight_ops shoal_ring_ops = { ring_advance, ring_describe, ring_give_up };

/* ------------------------------------------------------------------------------------------------------ planning */

/* Both ends of a lane must cut at the same offsets, so the piece size depends on nothing local. */
shoal_cut shoal_ring_cut(const shoal_exchange *e, int owner)
{
  const shoal_node_layout *s = &e->layout;
  const size_t grain = s->grain;
  shoal_cut c = { .chunks = s->nodes, .grain = grain };
  c.begin = shoal_shard_begin(s, e->n, owner);
  c.n = shoal_shard_size(s, e->n, owner);
  bool flat = shoal_sum_shape(e->algorithm) == SHOAL_SUM_RING;
  size_t unit = flat ? shoal_wire_bytes(e->wire, grain) : grain * sizeof(float);
  size_t largest = SHOAL_MIN((size_t)PIECE_BYTES, e->f.g->w->o.max_message) / unit * grain;
  size_t longest = e->halving ? c.n : shoal_part_size(c.n, grain, c.chunks, 0);
  c.piece = SHOAL_MAX(SHOAL_MIN(largest, longest), grain);
  return c;
}

void shoal_ring_orders(const shoal_exchange *e, int owner, shoal_lane *adding, shoal_lane *giving)
{
  const shoal_node_layout *s = &e->layout;
  *adding = *giving = (shoal_lane){ .cut = shoal_ring_cut(e, owner), .steps = s->nodes };
  adding->first_chunk = (s->node + s->nodes - 1) % s->nodes;
  giving->first_chunk = s->node;
  if (e->halving) shoal_halving_orders(e, owner, adding, giving);
  shoal_lane_count(adding);
  shoal_lane_count(giving);
}

static void plan_ring(shoal_exchange *e)
{
  int nodes = e->layout.nodes, m = e->layout.node;
  e->out.steps = e->in.steps = 2 * (nodes - 1);
  e->out.peer = e->layout.right;
  e->out.first_chunk = (m + nodes - 1) % nodes;
  e->in.peer = e->layout.left;
  e->in.first_chunk = (m + 2 * nodes - 2) % nodes;
  e->first = shoal_cut_pieces(&e->cut, e->out.first_chunk);
  e->reduces = e->sends = nodes - 1;
  e->partial = e->all - e->first - shoal_cut_pieces(&e->cut, m);
}

static shoal_status plan_lanes(shoal_exchange *e)
{
  e->out = e->in = (shoal_lane){ .cut = e->cut, .wire = e->wire };
  e->out.sending = true;
  if (e->halving)
    shoal_halving_lanes(e);
  else
    plan_ring(e);
  shoal_lane_count(&e->in);
  shoal_lane_count(&e->out);
  if (!e->in.steps) return SHOAL_OK;
  /* No more buffers than there are pieces; a ring has twice as many as its shard, and needs no more than for that. */
  uint64_t pieces = e->halving ? SHOAL_MAX(e->in.all, e->out.all) : e->all;
  int window = (int)SHOAL_MIN(pieces, (uint64_t)SHOAL_LANE_WINDOW);
  size_t bytes = (size_t)window * shoal_wire_bytes(e->wire, e->cut.piece);
  e->out.window = e->in.window = window;
  e->slots = 2 * window;
  SHOAL_TRY(shoal_alloc(bytes, 1, e->name, (void **)&e->in.buffer));
  if (e->wire != SHOAL_WIRE_F32) SHOAL_TRY(shoal_alloc(bytes, 1, e->name, (void **)&e->out.buffer));
  return SHOAL_OK;
}

shoal_status shoal_ring_plan_shard(shoal_exchange *e)
{
  shoal_lane adding, giving;
  e->cut = shoal_ring_cut(e, e->layout.local);
  shoal_ring_orders(e, e->layout.local, &adding, &giving);
  e->all = adding.all;
  return plan_lanes(e);
}

shoal_status shoal_ring_plan(shoal_exchange *e)
{
  shoal_node_layout_find(e->f.g, e->wire, e->algorithm, &e->layout);
  const shoal_node_layout *s = &e->layout;
  SHOAL_TRY(shoal_halving_plan(e));
  if (s->local < s->owners) SHOAL_TRY(shoal_ring_plan_shard(e));
  e->trace_peer = e->out.steps ? shoal_lane_peer(&e->out, &(shoal_cursor){ 0 })
                               : shoal_node_layout_member(e->f.g, e->algorithm, (s->local + 1) % s->locals);
  return shoal_local_plan(e);
}

shoal_status shoal_ring_start(shoal_exchange *e)
{
  shoal_lane_rewind(&e->out);
  shoal_lane_rewind(&e->in);
  e->summed = e->layout.locals == 1 && !e->stage.backend
                  ? e->all
                  : 0; /* alone on its node, the rank's vector is the node's sum */
  return shoal_local_start(e);
}
