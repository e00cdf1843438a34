/* Sum of a short vector: every member gathers all parts and adds them in rank order.
 *
 * Bruck's all-gather.  Block j is the part of the j-th member after this one.  A member that has the first `have`
 * blocks sends them to the member `have` before it, and receives as many:
 *
 *     round 0:  r has [r]                gets [r+1]             from r+1
 *     round 1:         [r r+1]                [r+2 r+3]         from r+2
 *     round 2:         [r r+1 r+2 r+3]        [r+4 ...]         from r+4      until all members are covered
 *
 * log2(p) rounds instead of the ring's 2(p-1), for (p-1) n elements sent instead of 2 n: better where the latency of a
 * message costs more than its bytes.  In a 16-bit wire format each member's part is rounded once; sums are in f32 and
 * equal on every member, so they are not rounded.
 * Source: Bruck et al., IEEE TPDS 8(11), 1997. */
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST_BYTES = 1 << 20 };

static size_t block_bytes(const shoal_exchange *e)
{
  return shoal_wire_bytes(e->wire, e->n);
}

shoal_status shoal_small_plan(shoal_exchange *e)
{
  const shoal_group *g = e->f.g;
  SHOAL_CHECK(
      block_bytes(e) <= LARGEST_BYTES, SHOAL_ERR_ARG,
      "%s: %zu elements are too many for the algorithm \"small\", which keeps those of all members; choose ring "
      "or two-level above 1 MiB",
      e->name, e->n);
  while ((int64_t)1 << e->rounds < g->size) e->rounds++;
  e->trace_peer = (g->rank - (1 << (e->rounds - 1)) + g->size) % g->size;
  e->slots = 2 * e->rounds * SHOAL_STREAM_WINDOW;
  SHOAL_TRY(SHOAL_ALLOC((size_t)(2 * e->rounds), &e->streams));
  return shoal_alloc((size_t)g->size, block_bytes(e), e->name, (void **)&e->blocks);
}

void shoal_small_start(shoal_exchange *e)
{
  int64_t p = e->f.g->size, r = e->f.g->rank, have = 1;
  size_t bytes = block_bytes(e);
  e->there = 0;
  for (int k = 0; k < e->rounds; k++, have *= 2) {
    size_t more = (size_t)SHOAL_MIN(have, p - have) * bytes;
    e->streams[2 * k] = shoal_stream_in(e->blocks + (size_t)have * bytes, more, (int)((r + have) % p));
    e->streams[2 * k + 1] = shoal_stream_out(e->blocks, more, (int)((r - have + p) % p));
    e->streams[2 * k + 1].limit = &e->there;
  }
}

static void add_in_rank_order(shoal_exchange *e)
{
  int p = e->f.g->size;
  for (int r = 0; r < p; r++) {
    const char *block = e->blocks + (size_t)((r - e->f.g->rank + p) % p) * block_bytes(e);
    if (r == 0)
      shoal_wire_unpack(e->wire, e->n, block, e->x);
    else
      shoal_wire_add(e->wire, e->n, block, e->x);
  }
}

static shoal_status small_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_exchange *e = (shoal_exchange *)f;
  bool gapless = true;
  if (!e->there) {
    if (e->stage.backend && !shoal_stage_fetch(e, moved)) return SHOAL_OK;
    shoal_wire_round(e->wire, e->n, e->x, e->error, e->blocks);
  }
  e->there = block_bytes(e);
  *done = true;
  for (int k = 0; k < 2 * e->rounds; k += 2) {
    shoal_stream *in = &e->streams[k];
    SHOAL_TRY(shoal_stream_reap(f, in, moved));
    if (gapless) e->there += in->finished;
    gapless &= in->finished == in->bytes;
  }
  for (int k = 0; k < 2 * e->rounds; k++) {
    SHOAL_TRY(shoal_stream_reap(f, &e->streams[k], moved));
    SHOAL_TRY(shoal_stream_post(f, &e->streams[k], moved));
    if (e->streams[k].finished < e->streams[k].bytes) *done = false;
  }
  if (!*done) return SHOAL_OK;
  add_in_rank_order(e);
  if (e->stage.backend) {
    SHOAL_TRY(shoal_stage_give(e, 0, UINT64_MAX, moved));
    SHOAL_TRY(shoal_stage_end(e));
  }
  shoal_exchange_record_end(e);
  return SHOAL_OK;
}

static int small_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_exchange *e = (shoal_exchange *)f;
  int p = f->g->size, peer = -1;
  for (int k = 2 * e->rounds - 1; k >= 0; k--) {
    const shoal_stream *s = &e->streams[k];
    if (s->finished < s->bytes && (!s->sending || peer < 0)) peer = s->peer;
  }
  int64_t have = 1;
  for (int k = 0; k < e->rounds; k++, have *= 2) {
    const shoal_stream *in = &e->streams[2 * k];
    for (int64_t j = have + (int64_t)(in->finished / SHOAL_MAX(block_bytes(e), (size_t)1)); j < SHOAL_MIN(2 * have, p);
         j++)
      missing[(f->g->rank + j) % p] = true;
  }
  shoal_str_add(where, "%zu of %zu bytes of all members are here", e->there, (size_t)p * block_bytes(e));
  return peer;
}

static void small_give_up(shoal_flight *f)
{
  shoal_exchange *e = (shoal_exchange *)f;
  for (int k = 0; k < 2 * e->rounds; k++) shoal_stream_give_up(f, &e->streams[k]);
}

const shoal_flight_ops shoal_small_ops = { small_advance, small_describe, small_give_up };
