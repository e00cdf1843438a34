/* Lanes: the pieces of a vector, sent to or received from one peer in an order that both ends compute.
 *
 * A lane moves chunks in descending order (modulo the number of chunks), as a ring does, or legs.  Both are cut into pieces,
 * so the whole state of a lane is two cursors, pieces posted and pieces finished, and the slots between them.  An empty
 * chunk has no pieces and no message. */
#include "base/mem.h"
#include "comm/exchange_impl.h"

size_t shoal_part_begin(size_t n, size_t grain, int parts, int k)
{
  size_t grains = (n + grain - 1) / grain, p = (size_t)parts, i = (size_t)k;
  return SHOAL_MIN((grains / p * i + SHOAL_MIN(i, grains % p)) * grain, n);
}

size_t shoal_part_size(size_t n, size_t grain, int parts, int k)
{
  return shoal_part_begin(n, grain, parts, k + 1) - shoal_part_begin(n, grain, parts, k);
}

uint64_t shoal_cut_pieces(const shoal_cut *c, int chunk)
{
  return (shoal_part_size(c->n, c->grain, c->chunks, chunk) + c->piece - 1) / c->piece;
}

static int chunk_before(const shoal_lane *l, int chunk)
{
  return (chunk + l->cut.chunks - 1) % l->cut.chunks;
}

static void enter_step(const shoal_lane *l, shoal_cursor *c)
{
  for (; c->step < l->steps; c->step++, c->chunk = chunk_before(l, c->chunk)) {
    const shoal_cut *cut = &l->cut;
    c->at = l->legs ? l->legs[c->step].at : cut->begin + shoal_part_begin(cut->n, cut->grain, cut->chunks, c->chunk);
    c->end = l->legs ? l->legs[c->step].end : c->at + shoal_part_size(cut->n, cut->grain, cut->chunks, c->chunk);
    if (c->at < c->end) return;
  }
}

int shoal_lane_peer(const shoal_lane *l, const shoal_cursor *c)
{
  return l->legs ? l->legs[c->step].peer : l->peer;
}

void shoal_lane_count(shoal_lane *l)
{
  shoal_cursor c = { .chunk = l->first_chunk };
  l->all = 0;
  for (enter_step(l, &c); c.step < l->steps; c.step++, c.chunk = chunk_before(l, c.chunk), enter_step(l, &c))
    l->all += (c.end - c.at + l->cut.piece - 1) / l->cut.piece;
}

void shoal_lane_advance(const shoal_lane *l, shoal_cursor *c)
{
  c->pieces++;
  c->at += shoal_lane_length(l, c);
  if (c->at < c->end) return;
  c->step++;
  c->chunk = chunk_before(l, c->chunk);
  enter_step(l, c);
}

void shoal_lane_rewind(shoal_lane *l)
{
  l->posted = (shoal_cursor){ .chunk = l->first_chunk };
  enter_step(l, &l->posted);
  l->finished = l->posted;
}

size_t shoal_lane_length(const shoal_lane *l, const shoal_cursor *c)
{
  return SHOAL_MIN(l->cut.piece, c->end - c->at);
}

char *shoal_lane_buffer(const shoal_lane *l, const shoal_cursor *c)
{
  return l->buffer + c->pieces % (uint64_t)l->window * shoal_wire_bytes(l->wire, l->cut.piece);
}

static int *slot_at(shoal_lane *l, const shoal_cursor *c)
{
  return &l->slot[c->pieces % SHOAL_LANE_WINDOW];
}

shoal_status shoal_lane_look(shoal_flight *f, const shoal_lane *l, bool *yes)
{
  const shoal_cursor *c = &l->finished;
  *yes = false;
  if (c->pieces == l->posted.pieces) return SHOAL_OK;
  return shoal_flight_look(f, l->slot[c->pieces % SHOAL_LANE_WINDOW], shoal_lane_peer(l, c),
                           shoal_wire_bytes(l->wire, shoal_lane_length(l, c)), yes);
}

void shoal_lane_pop(shoal_flight *f, shoal_lane *l)
{
  f->g->w->transport->release(f->g->w, *slot_at(l, &l->finished));
  shoal_lane_advance(l, &l->finished);
}

shoal_status shoal_lane_post(shoal_flight *f, shoal_lane *l, void *data)
{
  size_t bytes = shoal_wire_bytes(l->wire, shoal_lane_length(l, &l->posted));
  int *slot = slot_at(l, &l->posted), peer = shoal_lane_peer(l, &l->posted);
  if (l->sending)
    SHOAL_TRY(shoal_flight_send(f, data, bytes, peer, slot));
  else
    SHOAL_TRY(shoal_flight_recv(f, data, bytes, peer, slot));
  shoal_lane_advance(l, &l->posted);
  return SHOAL_OK;
}

shoal_status shoal_lane_reap(shoal_flight *f, shoal_lane *l, bool *moved)
{
  for (;;) {
    bool yes;
    SHOAL_TRY(shoal_lane_look(f, l, &yes));
    if (!yes) return SHOAL_OK;
    shoal_lane_pop(f, l);
    *moved = true;
  }
}

void shoal_lane_give_up(shoal_flight *f, shoal_lane *l)
{
  while (l->finished.pieces < l->posted.pieces) shoal_lane_pop(f, l);
}
