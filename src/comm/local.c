/* Reduction inside a node: every rank's vector lies in memory that its node peers have mapped, so nothing is sent.
 *
 *     rank a   [ . . . . | x x x x ]        owner of shard 1 = rank b.  Once all have started, b reads a's part
 *                  ^ writes  | reads        and adds it to its own, piece by piece in the order its ring sends.
 *     rank b   [ . . . . | X X X X ]        When a piece is finished, b writes it into a's vector.
 *
 * An owner does all the work for its shard, and its peers need not poll: a rank that computes neither sends nor
 * receives.  Ranks synchronise through two numbers each, in a cache line of shared memory that only they write:
 *
 *     started   number and tag of the start they are in: their vector may be read and written
 *     pushed    pieces of their shard written into all peers' vectors, since the exchange was created
 *
 * A rank is done when it has pushed its own shard and all other owners have pushed theirs; then no peer reads its
 * vector any more, and it may be changed.  Parts are added in a fixed order, the own part first and then by rank around
 * the node, so the bits depend on the group alone. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>
#include <string.h>

enum { BURST = 16 }; /* pieces per progress call, so that the network is polled in between */

static uint64_t start_word(const shoal_exchange *e)
{
  return e->f.number << 32 | (uint32_t)e->f.tag;
}

shoal_status shoal_local_open(shoal_exchange *e)
{
  shoal_node_layout s;
  shoal_group *g = e->f.g;
  if (e->algorithm == SHOAL_SUM_SMALL) return SHOAL_OK;
  if (e->fabric.on) return SHOAL_OK;
  shoal_node_layout_find(g, e->wire, e->algorithm, &s);
  if (s.most == 1) return SHOAL_OK;
  SHOAL_CHECK(g->w->shares, SHOAL_ERR_UNSUPPORTED,
              "%s by %s needs memory that the ranks of a node share, which is switched off or does not work here: "
              "use auto or ring",
              e->name, shoal_sum_name(e->algorithm));
  return shoal_group_share(g, sizeof *e->local.flags, (void **)&e->local.flags);
}

/* The flags are at the same offset on every rank, in a region that all ranks of the node have mapped. */
static const shoal_node_flags *flags_of(const shoal_exchange *e, int peer)
{
  const shoal_world *w = e->f.g->w;
  const shoal_region *r = shoal_region_of(w, e->local.flags, sizeof *e->local.flags);
  uint64_t offset = (uint64_t)((const char *)e->local.flags - r->base);
  return (const shoal_node_flags *)(const void *)shoal_region_at(w, r->id, e->f.g->world_ranks[peer], offset);
}

shoal_status shoal_local_plan(shoal_exchange *e)
{
  const shoal_node_layout *s = &e->layout;
  shoal_local *l = &e->local;
  if (s->locals == 1) return SHOAL_OK;
  l->n = s->locals - 1;
  e->f.watches = true;
  SHOAL_TRY(SHOAL_ALLOC((size_t)l->n, &l->peers));
  for (int i = 0; i < l->n; i++) {
    shoal_node_peer *m = &l->peers[i];
    int q = (s->local + 1 + i) % s->locals;
    m->peer = shoal_node_layout_member(e->f.g, e->algorithm, q);
    m->flags = flags_of(e, m->peer);
    m->owner = q < s->owners;
    if (!m->owner) continue;
    shoal_ring_orders(e, q, &l->adding, &l->giving);
    m->all = l->giving.all;
  }
  if (s->local < s->owners)
    shoal_ring_orders(e, s->local, &l->adding, &l->giving);
  else
    l->adding = l->giving = (shoal_lane){ 0 };
  return SHOAL_OK;
}

void shoal_local_free(shoal_exchange *e)
{
  shoal_group_unshare(e->f.g, e->local.flags);
  free(e->local.peers);
}

shoal_status shoal_local_start(shoal_exchange *e)
{
  shoal_local *l = &e->local;
  if (!l->n || !e->n) return SHOAL_OK;
  const shoal_region *r = shoal_region_of(e->f.g->w, e->x, e->n * sizeof *e->x);
  SHOAL_CHECK(r, SHOAL_ERR_ARG, "%s: its vector is not in registered memory, which sums inside a node require",
              e->name);
  l->peers_started = 0;
  l->pushed = 0;
  shoal_lane_rewind(&l->adding);
  shoal_lane_rewind(&l->giving);
  atomic_store_explicit(&l->flags->fetched, shoal_stage_fetched(e), memory_order_relaxed);
  l->flags->region = r->id;
  l->flags->offset = (uint64_t)((const char *)e->x - r->base);
  atomic_store_explicit(&l->flags->started, start_word(e), memory_order_release);
  return SHOAL_OK;
}

static bool has_started(const shoal_exchange *e, const shoal_node_peer *m)
{
  return atomic_load_explicit(&m->flags->started, memory_order_acquire) == start_word(e);
}

/* A peer that has started cannot enter the next start before this rank has pushed, so its flags stay valid. */
static shoal_status map_started_peers(shoal_exchange *e)
{
  shoal_local *l = &e->local;
  for (; l->peers_started < l->n && has_started(e, &l->peers[l->peers_started]); l->peers_started++) {
    shoal_node_peer *m = &l->peers[l->peers_started];
    int rank = e->f.g->world_ranks[m->peer];
    m->x = (float *)(void *)shoal_region_at(e->f.g->w, m->flags->region, rank, m->flags->offset);
    SHOAL_CHECK(m->x, SHOAL_ERR_INTERNAL, "%s: the vector of rank %d is in memory that this rank does not share",
                e->name, rank);
  }
  return SHOAL_OK;
}

void shoal_local_tell_fetched(shoal_exchange *e)
{
  if (e->local.n) atomic_store_explicit(&e->local.flags->fetched, shoal_stage_fetched(e), memory_order_release);
}

/* Pieces of my shard that are there in all vectors. */
static uint64_t pieces_there(const shoal_exchange *e)
{
  const shoal_local *l = &e->local;
  if (!e->stage.backend) return e->all;
  uint64_t there = SHOAL_MIN(shoal_stage_fetched(e), e->all);
  for (int i = 0; i < l->n; i++)
    there = SHOAL_MIN(there, atomic_load_explicit(&l->peers[i].flags->fetched, memory_order_acquire));
  return there;
}

shoal_status shoal_local_collect(shoal_exchange *e, bool *moved)
{
  shoal_local *l = &e->local;
  if (e->summed == e->all) return SHOAL_OK;
  SHOAL_TRY(map_started_peers(e));
  if (l->peers_started < l->n) return SHOAL_OK;
  uint64_t there = pieces_there(e);
  for (int burst = 0; burst < BURST && e->summed < there; burst++, e->summed++) {
    const shoal_cursor *c = &l->adding.posted;
    size_t n = shoal_lane_length(&l->adding, c);
    for (int i = 0; i < l->n; i++) {
      shoal_wire_add(SHOAL_WIRE_F32, n, l->peers[i].x + c->at, e->x + c->at);
      shoal_flight_count(&e->f, l->peers[i].peer, n * sizeof(float));
    }
    shoal_lane_advance(&l->adding, &l->adding.posted);
    *moved = true;
  }
  return SHOAL_OK;
}

void shoal_local_spread(shoal_exchange *e, uint64_t complete, bool *moved)
{
  shoal_local *l = &e->local;
  if (!l->n || l->pushed == complete) return;
  for (; l->pushed < complete; l->pushed++) {
    const shoal_cursor *c = &l->giving.posted;
    size_t n = shoal_lane_length(&l->giving, c);
    for (int i = 0; i < l->n; i++) {
      memcpy(l->peers[i].x + c->at, e->x + c->at, n * sizeof(float));
      shoal_flight_count(&e->f, l->peers[i].peer, n * sizeof(float));
    }
    shoal_lane_advance(&l->giving, &l->giving.posted);
  }
  atomic_store_explicit(&l->flags->pushed, (e->f.number - 1) * e->all + l->pushed, memory_order_release);
  *moved = true;
}

static bool has_pushed(const shoal_exchange *e, const shoal_node_peer *m)
{
  return atomic_load_explicit(&m->flags->pushed, memory_order_acquire) >= e->f.number * m->all;
}

shoal_status shoal_local_give(shoal_exchange *e, bool *moved)
{
  for (int i = 0; i < e->local.n; i++) {
    const shoal_node_peer *m = &e->local.peers[i];
    if (!m->owner) continue;
    uint64_t before = (e->f.number - 1) * m->all, now = atomic_load_explicit(&m->flags->pushed, memory_order_acquire);
    SHOAL_TRY(
        shoal_stage_give(e, (e->layout.local + 1 + i) % e->layout.locals, now > before ? now - before : 0, moved));
  }
  return SHOAL_OK;
}

bool shoal_local_over(const shoal_exchange *e)
{
  const shoal_local *l = &e->local;
  if (!l->n) return true;
  if (l->pushed < e->all) return false;
  for (int i = 0; i < l->n; i++)
    if (!has_pushed(e, &l->peers[i])) return false;
  return true;
}

/* Peers that have not started are missing; the flags show which peers are in another start. */
int shoal_local_describe(const shoal_exchange *e, shoal_str *where, bool *missing)
{
  int peer = -1, waiting = -1;
  for (int i = e->local.n - 1; i >= 0; i--) {
    const shoal_node_peer *m = &e->local.peers[i];
    uint64_t word = atomic_load_explicit(&m->flags->started, memory_order_acquire);
    if (m->owner && !has_pushed(e, m)) waiting = m->peer;
    if (word == start_word(e) || word >> 32 > e->f.number) continue;
    missing[m->peer] = true;
    peer = m->peer;
    if (word >> 32 == e->f.number)
      shoal_str_add(where, ", rank %d is in another start of it: it skipped one or runs ahead",
                    e->f.g->world_ranks[m->peer]);
  }
  return peer >= 0 ? peer : waiting;
}
