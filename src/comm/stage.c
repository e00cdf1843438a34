/* Vectors that the host cannot reach: they are summed in a mirror in pinned memory, and copied piece by piece beside what is
 * computed.
 *
 *     the backend's vector   [ a a a a a a ]      fetched, in the order in which shards are sent, once `ready` is reached
 *            |      ^
 *     the mirror             [ a a A A . . ]      the algorithms work on it as on a vector of the host's, as far as it is there
 *                                                 delivered, in the order in which shards are completed
 *
 * Pieces are copied in runs of about 1 MiB, taken from all shards in turn, since every owner of the node waits for its own.
 * One number thus says how much the mirror holds: so many pieces of each shard.  Inside a node the mirrors are what the ranks
 * share, and `fetched` is told in the flags.  The exchange is done when the last copy back is asked for: the backend's work
 * from then on begins after it.
 *
 * Where MPI reaches the vector, too (direct.c), a ring without halving or 16 bits, of ranks that need not add inside their node, copies
 * only what the host adds.  Member m of a ring, N members:
 *
 *     chunk     m-1                  m-2 ... m+1             m
 *     sent      as it is, from x     sums, from the mirror   complete, from the mirror
 *     received  complete: all but m into x, and passed on from there
 *
 * So it fetches all chunks but one, and gives back only its own. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>

enum { RUN_BYTES = 1 << 20 };

/* Collective: a mirror that is shared must be registered by all. */
shoal_status shoal_stage_open(shoal_exchange *e)
{
  shoal_stage *s = &e->stage;
  shoal_group *g = e->f.g;
  if (g->size == 1 || (e->fabric.on && !e->fabric.rings)) return SHOAL_OK;
  s->backend = g->w->away;
  if (!s->backend) return SHOAL_OK;
  bool shared = e->local.flags != NULL;
  shoal_memory_kind kind = shared ? SHOAL_MEMORY_SHARED : SHOAL_MEMORY_PINNED;
  SHOAL_TRY(shoal_group_agree(g, s->backend->ops->alloc(s->backend, kind, e->n * sizeof(float), &s->mirror)));
  return shared ? shoal_region_register(g, &s->mirror) : SHOAL_OK;
}

void shoal_stage_close(shoal_exchange *e)
{
  shoal_stage *s = &e->stage;
  shoal_group_unregister(e->f.g, &s->mirror);
  free(s->fetching);
  free(s->giving);
  free(s->number);
  /* After an error the network or the backend may still be at it. */
  if (!s->mirror.at || e->f.status != SHOAL_OK || s->backend->ops->settle(s->backend) != SHOAL_OK) return;
  s->backend->ops->release(s->backend, &s->mirror);
}

/* `small` has one shard of one chunk. */
static void plan_orders(const shoal_exchange *e, int owner, shoal_lane *fetching, shoal_lane *giving)
{
  if (e->algorithm != SHOAL_SUM_SMALL) {
    shoal_ring_orders(e, owner, fetching, giving);
    return;
  }
  shoal_cut whole = { .n = e->n, .piece = SHOAL_MAX(e->n, (size_t)1), .grain = 1, .chunks = 1 };
  *fetching = *giving = (shoal_lane){ .cut = whole, .steps = 1, .all = e->n > 0 };
}

/* Neither the chunk that is sent as it is, nor those that are received complete. */
static void leave_out_direct(const shoal_exchange *e, shoal_lane *fetching, shoal_lane *giving)
{
  const int nodes = e->layout.nodes;
  fetching->first_chunk = (fetching->first_chunk + nodes - 1) % nodes;
  fetching->steps--;
  giving->steps = 1;
  shoal_lane_count(fetching);
  shoal_lane_count(giving);
}

shoal_status shoal_stage_plan(shoal_exchange *e)
{
  shoal_stage *s = &e->stage;
  if (!s->backend) return SHOAL_OK;
  uint64_t most = 0;
  size_t longest = 1;
  s->owners = e->algorithm == SHOAL_SUM_SMALL ? 1 : e->layout.owners;
  s->direct = e->f.g->w->direct && e->algorithm != SHOAL_SUM_SMALL && !e->halving && e->layout.locals == 1 &&
              e->layout.nodes > 1 && e->wire == SHOAL_WIRE_F32;
  e->f.watches = true; /* the backend gives no notice */
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->owners, &s->fetching));
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->owners, &s->giving));
  for (int i = 0; i < s->owners; i++) {
    plan_orders(e, i, &s->fetching[i], &s->giving[i]);
    if (s->direct) leave_out_direct(e, &s->fetching[i], &s->giving[i]);
    most = SHOAL_MAX(most, s->fetching[i].all);
    longest = SHOAL_MAX(longest, s->fetching[i].cut.piece);
  }
  s->run = SHOAL_MAX((uint64_t)RUN_BYTES / (longest * sizeof(float)), (uint64_t)1);
  s->runs = (most + s->run - 1) / s->run;
  return SHOAL_ALLOC(s->runs, &s->number);
}

/* Copies the next pieces of a lane, up to number `until`, as few stretches of the vector as they make. */
static shoal_status copy_pieces(shoal_exchange *e, shoal_lane *l, uint64_t until, bool back, uint64_t *number)
{
  shoal_stage *s = &e->stage;
  shoal_cursor *c = &l->posted;
  float *mirror = s->mirror.at;
  while (c->step < l->steps && c->pieces < until) {
    size_t at = c->at, end = at;
    for (; c->step < l->steps && c->pieces < until && c->at == end; shoal_lane_advance(l, c))
      end += shoal_lane_length(l, c);
    const float *from = back ? mirror + at : s->x + at;
    float *to = back ? s->x + at : mirror + at;
    SHOAL_TRY(
        s->backend->ops->copy_beside(s->backend, back ? 0 : s->ready, (end - at) * sizeof(float), from, to, number));
  }
  return SHOAL_OK;
}

/* All copies are asked for at once: the backend carries them out in order. */
shoal_status shoal_stage_start(shoal_exchange *e, float *x, shoal_event ready)
{
  shoal_stage *s = &e->stage;
  uint64_t number = 0;
  s->x = x;
  s->ready = ready.number;
  s->written = !s->direct;
  s->arrived = 0;
  s->last = 0;
  e->x = s->mirror.at;
  for (int i = 0; i < s->owners; i++) {
    shoal_lane_rewind(&s->fetching[i]);
    shoal_lane_rewind(&s->giving[i]);
  }
  for (uint64_t k = 0; k < s->runs; k++) {
    for (int i = 0; i < s->owners; i++) SHOAL_TRY(copy_pieces(e, &s->fetching[i], (k + 1) * s->run, false, &number));
    s->number[k] = number;
  }
  return SHOAL_OK;
}

bool shoal_stage_fetch(shoal_exchange *e, bool *moved)
{
  shoal_stage *s = &e->stage;
  if (!s->written && s->backend->ops->reached(s->backend, s->ready)) s->written = *moved = true;
  for (; s->arrived < s->runs && s->backend->ops->reached(s->backend, s->number[s->arrived]); s->arrived++)
    *moved = true;
  return s->arrived == s->runs;
}

float *shoal_stage_direct(const shoal_exchange *e)
{
  return e->stage.direct ? e->stage.x : e->x;
}

uint64_t shoal_stage_fetched(const shoal_exchange *e)
{
  const shoal_stage *s = &e->stage;
  if (!s->backend) return UINT64_MAX;
  if (!s->written) return 0;
  return s->arrived == s->runs ? UINT64_MAX : s->arrived * s->run + (s->direct ? e->first : 0);
}

shoal_status shoal_stage_give(shoal_exchange *e, int owner, uint64_t complete, bool *moved)
{
  shoal_lane *l = &e->stage.giving[owner];
  uint64_t all = l->all, before = l->posted.pieces;
  if (complete < all && complete < before + e->stage.run) return SHOAL_OK;
  SHOAL_TRY(copy_pieces(e, l, complete, true, &e->stage.last));
  *moved |= l->posted.pieces > before;
  return SHOAL_OK;
}

bool shoal_stage_over(const shoal_exchange *e)
{
  for (int i = 0; i < e->stage.owners; i++)
    if (e->stage.giving[i].posted.step < e->stage.giving[i].steps) return false;
  return true;
}

shoal_status shoal_stage_end(const shoal_exchange *e)
{
  return e->stage.last ? e->stage.backend->ops->await(e->stage.backend, e->stage.last) : SHOAL_OK;
}
