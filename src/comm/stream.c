/* Streams: a message of any length as an ordered sequence of pieces, and sets of streams that form one blocking call.
 *
 * A piece is as long as the world's largest message allows, and not longer than 1 MiB or what the stream says, so that a rank in
 * the middle of a chain can forward data before it has received all of it.  A few pieces are posted at a time: enough to keep a link
 * busy, few enough not to flood a late receiver.  Both ends know the length and so cut at the same offsets.  An empty
 * message is not sent at all. */
#include "base/mem.h"
#include "comm/group_impl.h"

enum { STREAM_PIECE = 1 << 20 };

size_t shoal_stream_longest(const shoal_world *w)
{
  return SHOAL_MIN(w->o.max_message, (size_t)STREAM_PIECE);
}

static size_t piece_at(const shoal_world *w, const shoal_stream *s, size_t at)
{
  size_t piece = s->piece ? s->piece : shoal_stream_longest(w);
  return SHOAL_MIN(piece, s->bytes - at);
}

shoal_status shoal_stream_reap(shoal_flight *f, shoal_stream *s, bool *moved)
{
  shoal_world *w = f->g->w;
  while (s->count) {
    size_t n = piece_at(w, s, s->finished);
    bool finished;
    SHOAL_TRY(shoal_flight_look(f, s->slot[s->head], s->peer, n, &finished));
    if (!finished) break;
    if (s->peer == SHOAL_FROM_ANY) {
      (void)w->transport->state(w, s->slot[s->head], &s->got);
      s->sender = w->transport->sender(w, s->slot[s->head]);
    }
    w->transport->release(w, s->slot[s->head]);
    s->head = (s->head + 1) % SHOAL_STREAM_WINDOW;
    s->count--;
    s->finished += n;
    *moved = true;
  }
  return SHOAL_OK;
}

shoal_status shoal_stream_post(shoal_flight *f, shoal_stream *s, bool *moved)
{
  while (s->count < SHOAL_STREAM_WINDOW && s->posted < s->bytes) {
    size_t n = piece_at(f->g->w, s, s->posted);
    if (s->limit && s->posted + n > *s->limit) break;
    int *slot = &s->slot[(s->head + s->count) % SHOAL_STREAM_WINDOW];
    if (s->sending)
      SHOAL_TRY(shoal_flight_send(f, s->data + s->posted, n, s->peer, slot));
    else
      SHOAL_TRY(shoal_flight_recv(f, s->data + s->posted, n, s->peer, slot));
    s->count++;
    s->posted += n;
    *moved = true;
  }
  return SHOAL_OK;
}

static shoal_status streams_advance(shoal_flight *f, bool *moved, bool *done)
{
  enum { AT_ONCE = 256 };
  shoal_streams *all = (shoal_streams *)f;
  /* Complete streams first: what one has received another may forward, wherever it is in the list. */
  for (size_t i = all->first; i < SHOAL_MIN(all->first + AT_ONCE, all->n); i++)
    SHOAL_TRY(shoal_stream_reap(f, &all->streams[i], moved));
  while (all->first < all->n && all->streams[all->first].finished == all->streams[all->first].bytes) all->first++;
  for (size_t i = all->first; i < SHOAL_MIN(all->first + AT_ONCE, all->n); i++)
    SHOAL_TRY(shoal_stream_post(f, &all->streams[i], moved));
  *done = all->first == all->n;
  return SHOAL_OK;
}

static int streams_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_streams *all = (shoal_streams *)f;
  size_t finished = 0, bytes = 0;
  int peer = -1;
  for (size_t i = 0; i < all->n; i++) {
    const shoal_stream *s = &all->streams[i];
    finished += s->finished;
    bytes += s->bytes;
    if (s->finished == s->bytes || s->peer == SHOAL_FROM_ANY) continue;
    missing[s->peer] = true;
    if (!s->sending || peer < 0) peer = s->peer;
  }
  shoal_str_add(where, "%zu of %zu bytes moved", finished, bytes);
  return peer;
}

void shoal_stream_give_up(shoal_flight *f, shoal_stream *s)
{
  for (; s->count; s->count--, s->head = (s->head + 1) % SHOAL_STREAM_WINDOW)
    f->g->w->transport->release(f->g->w, s->slot[s->head]);
}

static void streams_give_up(shoal_flight *f)
{
  shoal_streams *all = (shoal_streams *)f;
  for (size_t i = 0; i < all->n; i++) shoal_stream_give_up(f, &all->streams[i]);
}

const shoal_flight_ops shoal_streams_ops = { streams_advance, streams_describe, streams_give_up };

shoal_status shoal_streams_run(shoal_group *g, const char *name, uint64_t number, int tag, bool control,
                               shoal_stream *streams, size_t n)
{
  shoal_streams all = {
    .f = { .ops = &shoal_streams_ops, .g = g, .name = name, .number = number, .tag = tag, .control = control },
    .streams = streams,
    .n = n,
  };
  shoal_status st = shoal_flight_start(&all.f);
  if (st == SHOAL_OK) st = shoal_flight_wait(&all.f);
  shoal_flight_end(&all.f, st); /* if another flight's error ended the wait: `all` goes out of scope */
  return st;
}
