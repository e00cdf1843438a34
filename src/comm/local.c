/* Inside a node: parts to the owner of a shard, finished shards to everybody.
 *
 *     rank a ──give──→ gather  owner q  spread ──→ take  rank a         a spoke, as rank a and as q see it
 *              f32     + + +            f32
 *
 * An owner adds the parts of a piece in a fixed order, its own first and then around the node, so the bits depend on
 * the group alone.  Parts go straight to the owner: with few ranks and fast links inside a node this sends no more
 * bytes than a ring would and takes one step instead of one per rank.
 *
 * From one rank to another pass first all the parts it gives, then the pieces it spreads: both ends post in that order,
 * since messages of one exchange share a tag.  No rank waits in a circle: giving depends on nothing, summing on giving,
 * the ring on summing, spreading on the ring. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>

enum { LOCAL_WINDOW = 4 };

shoal_status shoal_local_plan(shoal_exchange *e, shoal_spoke *s, int q, shoal_cut theirs)
{
  int nodes = e->shape.nodes, m = e->shape.node, before = (m + nodes - 1) % nodes;
  s->peer = shoal_shape_local(e->f.g, e->algorithm, q);
  s->give.sending = s->spread.sending = true;
  s->give.peer = s->gather.peer = s->spread.peer = s->take.peer = s->peer;
  if (q < e->shape.owners) {
    s->own = shoal_cut_pieces(&theirs, m);
    s->all = shoal_cut_all_pieces(&theirs);
    s->give.cut = s->take.cut = theirs;
    s->give.steps = s->take.steps = nodes;
    s->give.window = s->take.window = (int)SHOAL_MIN(s->all, (uint64_t)LOCAL_WINDOW);
    s->give.first_chunk = before;
    s->take.first_chunk = m;
    e->slots += 2 * s->give.window;
  }
  if (e->shape.local >= e->shape.owners) return SHOAL_OK;
  s->gather.cut = s->spread.cut = e->cut;
  s->gather.steps = s->spread.steps = nodes;
  s->gather.window = s->spread.window = (int)SHOAL_MIN(e->all, (uint64_t)LOCAL_WINDOW);
  s->gather.first_chunk = before;
  s->spread.first_chunk = m;
  e->slots += 2 * s->gather.window;
  size_t bytes = (size_t)s->gather.window * e->cut.piece * sizeof(float);
  return shoal_alloc(bytes, 1, e->name, (void **)&s->gather.buffer);
}

void shoal_local_start(shoal_exchange *e)
{
  e->turn = 0;
  for (int i = 0; i < e->shape.locals - 1; i++) {
    shoal_lane_rewind(&e->spokes[i].give);
    shoal_lane_rewind(&e->spokes[i].gather);
    shoal_lane_rewind(&e->spokes[i].spread);
    shoal_lane_rewind(&e->spokes[i].take);
  }
}

shoal_status shoal_local_collect(shoal_exchange *e, bool *moved)
{
  int others = e->shape.locals - 1;
  while (e->summed < e->all) {
    shoal_lane *l = &e->spokes[e->turn].gather;
    bool yes;
    SHOAL_TRY(shoal_lane_look(&e->f, l, &yes));
    if (!yes) break;
    const shoal_cursor *c = &l->finished;
    shoal_wire_add(SHOAL_WIRE_F32, shoal_lane_length(l, c), shoal_lane_buffer(l, c), e->x + c->at);
    shoal_lane_pop(&e->f, l);
    e->turn = (e->turn + 1) % others;
    e->summed += e->turn == 0;
    *moved = true;
  }
  for (int i = 0; i < others; i++)
    for (shoal_lane *l = &e->spokes[i].gather; shoal_lane_has_room(l); *moved = true)
      SHOAL_TRY(shoal_lane_post(&e->f, l, shoal_lane_buffer(l, &l->posted)));
  return SHOAL_OK;
}

static shoal_status send_to(shoal_exchange *e, shoal_spoke *s, uint64_t complete, bool *moved)
{
  SHOAL_TRY(shoal_lane_reap(&e->f, &s->give, moved));
  SHOAL_TRY(shoal_lane_reap(&e->f, &s->spread, moved));
  for (; shoal_lane_has_room(&s->give); *moved = true)
    SHOAL_TRY(shoal_lane_post(&e->f, &s->give, e->x + s->give.posted.at));
  if (!shoal_lane_all_posted(&s->give)) return SHOAL_OK;
  for (; shoal_lane_has_room(&s->spread) && s->spread.posted.pieces < complete; *moved = true)
    SHOAL_TRY(shoal_lane_post(&e->f, &s->spread, e->x + s->spread.posted.at));
  return SHOAL_OK;
}

/* What is finished first was given last: its chunk comes at the end of the one order and the start of the other. */
static bool given(const shoal_spoke *s, uint64_t take)
{
  uint64_t give = take < s->own ? s->all - s->own + take : take - s->own;
  return give < s->give.finished.pieces;
}

/* In place, so what lay there must have gone out, by the word of the library. */
static shoal_status take_from(shoal_exchange *e, shoal_spoke *s, bool *moved)
{
  SHOAL_TRY(shoal_lane_reap(&e->f, &s->take, moved));
  if (!shoal_lane_all_posted(&s->gather)) return SHOAL_OK;
  for (; shoal_lane_has_room(&s->take) && given(s, s->take.posted.pieces); *moved = true)
    SHOAL_TRY(shoal_lane_post(&e->f, &s->take, e->x + s->take.posted.at));
  return SHOAL_OK;
}

shoal_status shoal_local_spread(shoal_exchange *e, uint64_t complete, bool *moved)
{
  for (int i = 0; i < e->shape.locals - 1; i++) {
    SHOAL_TRY(send_to(e, &e->spokes[i], complete, moved));
    SHOAL_TRY(take_from(e, &e->spokes[i], moved));
  }
  return SHOAL_OK;
}

bool shoal_local_over(const shoal_exchange *e)
{
  if (e->summed < e->all) return false;
  for (int i = 0; i < e->shape.locals - 1; i++) {
    const shoal_spoke *s = &e->spokes[i];
    if (!shoal_lane_over(&s->give) || !shoal_lane_over(&s->spread) || !shoal_lane_over(&s->take)) return false;
  }
  return true;
}

void shoal_local_give_up(shoal_exchange *e)
{
  for (int i = 0; i < e->shape.locals - 1; i++) {
    shoal_lane_give_up(&e->f, &e->spokes[i].give);
    shoal_lane_give_up(&e->f, &e->spokes[i].gather);
    shoal_lane_give_up(&e->f, &e->spokes[i].spread);
    shoal_lane_give_up(&e->f, &e->spokes[i].take);
  }
}
