/* Inside a node: every rank's vector lies in memory that its neighbours reach, so nothing is sent.
 *
 *     rank a   [ . . . . | x x x x ]        owner of shard 1 = rank b.  When all have started, b adds a's part to its own
 *                  ^ writes  | reads        (reads), piece by piece in the order in which its ring sends; when a piece is
 *     rank b   [ . . . . | X X X X ]        finished, b writes it into a's vector, where it belongs.
 *
 * So an owner does all the work for its shard, and the others need not even be looking: a rank that computes is neither
 * asked to send nor to receive.  What ranks tell each other are two numbers each, in a line of shared memory that only
 * they write:
 *
 *     started   which start of this exchange they are in, and its tag: their vector may be read and written
 *     pushed    pieces of their shard they have written into all the others, since the exchange was made
 *
 * A rank is done when its own shard is pushed and all other owners have pushed theirs; only then may it change its
 * vector, and by then nobody reads it any more.  The order of additions is fixed, the own part first and then around
 * the node, so the bits depend on the group alone. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>
#include <string.h>

enum { BURST = 16 }; /* pieces per visit: the network must get its turn */

static uint64_t start_word(const shoal_exchange *e)
{
  return e->f.number << 32 | (uint32_t)e->f.tag;
}

shoal_status shoal_local_open(shoal_exchange *e)
{
  shoal_shape s;
  shoal_group *g = e->f.g;
  if (e->algorithm != SHOAL_SUM_TWO_LEVEL && e->algorithm != SHOAL_SUM_LEADERS) return SHOAL_OK;
  shoal_shape_find(g, e->algorithm, &s);
  if (s.most == 1) return SHOAL_OK;
  SHOAL_CHECK(g->w->shares, SHOAL_ERR_UNSUPPORTED,
              "%s by %s needs memory that the ranks of a node share, which is switched off or does not work here: "
              "use auto or ring",
              e->name, shoal_sum_name(e->algorithm));
  return shoal_group_share(g, sizeof *e->local.line, (void **)&e->local.line);
}

/* Lines lie at the same place everywhere, and the region is one that all of the node have opened. */
static const shoal_line *line_of(const shoal_exchange *e, int peer)
{
  const shoal_world *w = e->f.g->w;
  const shoal_region *r = shoal_region_of(w, e->local.line, sizeof *e->local.line);
  uint64_t offset = (uint64_t)((const char *)e->local.line - r->base);
  return (const shoal_line *)(const void *)shoal_region_at(w, r->id, e->f.g->world_ranks[peer], offset);
}

shoal_status shoal_local_plan(shoal_exchange *e)
{
  const shoal_shape *s = &e->shape;
  shoal_local *l = &e->local;
  if (s->locals == 1) return SHOAL_OK;
  l->n = s->locals - 1;
  e->f.watches = true;
  SHOAL_TRY(SHOAL_ALLOC((size_t)l->n, &l->mates));
  for (int i = 0; i < l->n; i++) {
    shoal_mate *m = &l->mates[i];
    int q = (s->local + 1 + i) % s->locals;
    m->peer = shoal_shape_local(e->f.g, e->algorithm, q);
    m->line = line_of(e, m->peer);
    m->owner = q < s->owners;
    if (!m->owner) continue;
    shoal_cut cut = shoal_ring_cut(e, q);
    m->all = shoal_cut_all_pieces(&cut);
  }
  if (s->local >= s->owners) return SHOAL_OK;
  l->adding = l->giving = (shoal_lane){ .cut = e->cut, .steps = s->nodes };
  l->adding.first_chunk = (s->node + s->nodes - 1) % s->nodes;
  l->giving.first_chunk = s->node;
  return SHOAL_OK;
}

void shoal_local_free(shoal_exchange *e)
{
  shoal_group_unshare(e->f.g, e->local.line);
  free(e->local.mates);
}

shoal_status shoal_local_start(shoal_exchange *e)
{
  shoal_local *l = &e->local;
  if (!l->n || !e->n) return SHOAL_OK;
  const shoal_region *r = shoal_region_of(e->f.g->w, e->x, e->n * sizeof *e->x);
  SHOAL_CHECK(r, SHOAL_ERR_ARG, "%s: its vector is not in memory of shoal_group_share, which sums inside a node need",
              e->name);
  l->here = 0;
  l->pushed = 0;
  shoal_lane_rewind(&l->adding);
  shoal_lane_rewind(&l->giving);
  l->line->region = r->id;
  l->line->offset = (uint64_t)((const char *)e->x - r->base);
  atomic_store_explicit(&l->line->started, start_word(e), memory_order_release);
  return SHOAL_OK;
}

static bool has_started(const shoal_exchange *e, const shoal_mate *m)
{
  return atomic_load_explicit(&m->line->started, memory_order_acquire) == start_word(e);
}

/* A mate that has started cannot go on to the next start before we have pushed, so what it says stays true. */
static shoal_status meet_mates(shoal_exchange *e)
{
  shoal_local *l = &e->local;
  for (; l->here < l->n && has_started(e, &l->mates[l->here]); l->here++) {
    shoal_mate *m = &l->mates[l->here];
    int rank = e->f.g->world_ranks[m->peer];
    m->x = (float *)(void *)shoal_region_at(e->f.g->w, m->line->region, rank, m->line->offset);
    SHOAL_CHECK(m->x, SHOAL_ERR_INTERNAL, "%s: the vector of rank %d is in memory that this rank does not share",
                e->name, rank);
  }
  return SHOAL_OK;
}

shoal_status shoal_local_collect(shoal_exchange *e, bool *moved)
{
  shoal_local *l = &e->local;
  if (e->summed == e->all) return SHOAL_OK;
  SHOAL_TRY(meet_mates(e));
  if (l->here < l->n) return SHOAL_OK;
  for (int burst = 0; burst < BURST && e->summed < e->all; burst++, e->summed++) {
    const shoal_cursor *c = &l->adding.posted;
    size_t n = shoal_lane_length(&l->adding, c);
    for (int i = 0; i < l->n; i++) {
      shoal_wire_add(SHOAL_WIRE_F32, n, l->mates[i].x + c->at, e->x + c->at);
      shoal_flight_count(&e->f, l->mates[i].peer, n * sizeof(float));
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
      memcpy(l->mates[i].x + c->at, e->x + c->at, n * sizeof(float));
      shoal_flight_count(&e->f, l->mates[i].peer, n * sizeof(float));
    }
    shoal_lane_advance(&l->giving, &l->giving.posted);
  }
  atomic_store_explicit(&l->line->pushed, (e->f.number - 1) * e->all + l->pushed, memory_order_release);
  *moved = true;
}

static bool has_pushed(const shoal_exchange *e, const shoal_mate *m)
{
  return atomic_load_explicit(&m->line->pushed, memory_order_acquire) >= e->f.number * m->all;
}

bool shoal_local_over(const shoal_exchange *e)
{
  const shoal_local *l = &e->local;
  if (!l->n) return true;
  if (l->pushed < e->all) return false;
  for (int i = 0; i < l->n; i++)
    if (!has_pushed(e, &l->mates[i])) return false;
  return true;
}

/* Who has not started is missing; of who has started something else the line tells what. */
int shoal_local_describe(const shoal_exchange *e, shoal_str *where, bool *missing)
{
  int peer = -1, waiting = -1;
  for (int i = e->local.n - 1; i >= 0; i--) {
    const shoal_mate *m = &e->local.mates[i];
    uint64_t word = atomic_load_explicit(&m->line->started, memory_order_acquire);
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
