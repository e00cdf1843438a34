/* Overlapping blocks: every inner layer is trained by two blocks, and both continue with the mean.
 *
 *     block 0   [ layer 1 ][ layer 2 ]                   the mean of both gradients (or, by option, of both updated
 *     block 1              [ layer 2 ][ layer 3 ]        weights), so that the two copies stay equal bit for bit
 *     block 2                         [ layer 3 ]...
 *
 * If both blocks are on one rank, no message is needed; else the two ranks exchange their copies simultaneously and
 * both compute (a + b) / 2, which is symmetric.  A rank has at most two such neighbours, since blocks are assigned in
 * order.  Replicas have already summed their gradients. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/local/local.h"
#include <stdlib.h>

enum { TAG = 1000 }; /* distinct from the feed's tags */

typedef struct {
  int peer;            /* -1: none on this side */
  shoal_range range;   /* in the rank's arena */
  shoal_memory theirs; /* float [range.count], pinned */
  shoal_memory ours;   /* likewise, to send from; none where the host reaches the arena */
  uint64_t started_ns;
  shoal_message *out, *in;
} side;

struct shoal_local_pairs {
  shoal_group *g;
  shoal_backend *backend;
  shoal_trace *trace;
  uint32_t op;
  uint64_t number; /* averages so far */
  side side[2];    /* the stage before, the one behind */
};

static shoal_status open_side(shoal_run *r, const shoal_local *s, int stage, shoal_range range, size_t at, side *out)
{
  if (stage < 0 || stage >= s->parts->grid.stages) return SHOAL_OK;
  out->peer = shoal_local_rank(&s->parts->grid, stage, s->replica);
  out->range = (shoal_range){ range.offset + at, range.count };
  const size_t bytes = range.count * sizeof(float);
  SHOAL_TRY(r->backend->ops->alloc(r->backend, SHOAL_MEMORY_PINNED, bytes, &out->theirs));
  if (!r->backend->host_memory) SHOAL_TRY(r->backend->ops->alloc(r->backend, SHOAL_MEMORY_PINNED, bytes, &out->ours));
  SHOAL_TRY(shoal_message_create(r->all, "shared layer out", &out->out));
  return shoal_message_create(r->all, "shared layer in", &out->in);
}

shoal_status shoal_local_pairs_create(shoal_run *r, const shoal_local *s, shoal_local_pairs **out)
{
  const shoal_local_trained *first = &s->block[0], *last = &s->block[s->n - 1];
  shoal_local_pairs *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  *p = (shoal_local_pairs){ .g = r->all,
                            .backend = r->backend,
                            .trace = r->trace,
                            .op = shoal_trace_op(r->trace, "shared layers"),
                            .side = { { .peer = -1 }, { .peer = -1 } } };
  shoal_status st = open_side(r, s, s->stage - 1, first->part->lower, first->at, &p->side[0]);
  if (st == SHOAL_OK) st = open_side(r, s, s->stage + 1, last->part->upper, last->at, &p->side[1]);
  if (st == SHOAL_OK)
    *out = p;
  else
    shoal_local_pairs_destroy(p);
  return st;
}

void shoal_local_pairs_destroy(shoal_local_pairs *p)
{
  if (!p) return;
  for (int i = 0; i < 2; i++) {
    shoal_message_destroy(p->side[i].out);
    shoal_message_destroy(p->side[i].in);
    p->backend->ops->release(p->backend, &p->side[i].theirs);
    p->backend->ops->release(p->backend, &p->side[i].ours);
  }
  free(p);
}

/* Also waits until the last average has read what was received for it. */
static shoal_status pack(shoal_local_pairs *p, const float *array)
{
  const shoal_backend_ops *ops = p->backend->ops;
  for (int i = 0; i < 2; i++) {
    const side *d = &p->side[i];
    if (d->ours.at)
      SHOAL_TRY(ops->copy(p->backend, d->range.count * sizeof(float), array + d->range.offset, d->ours.at));
  }
  return ops->settle(p->backend);
}

static shoal_status start(shoal_local_pairs *p, float *array, uint64_t bytes[SHOAL_LINK_COUNT])
{
  SHOAL_TRY(pack(p, array));
  for (int i = 0; i < 2; i++) {
    side *d = &p->side[i];
    size_t n = d->range.count * sizeof(float);
    if (d->peer < 0) continue;
    d->started_ns = shoal_now_ns();
    SHOAL_TRY(shoal_message_recv(d->in, d->theirs.at, n, d->peer, TAG));
    SHOAL_TRY(shoal_message_send(d->out, d->ours.at ? d->ours.at : array + d->range.offset, n, d->peer, TAG));
    bytes[shoal_group_link(p->g, d->peer)] += n;
  }
  return SHOAL_OK;
}

/* Both copies on this rank: blocks i and i + 1. */
static shoal_status average_here(const shoal_local_pairs *p, const shoal_local *s, float *array)
{
  const shoal_backend_ops *ops = p->backend->ops;
  for (int i = 0; i + 1 < s->n; i++) {
    const shoal_local_trained *a = &s->block[i], *b = &s->block[i + 1];
    size_t n = a->part->upper.count;
    float *x = array + a->at + a->part->upper.offset, *y = array + b->at + b->part->lower.offset;
    SHOAL_TRY(ops->axpby(p->backend, n, 0.5f, y, 0.5f, x));
    SHOAL_TRY(ops->copy(p->backend, n * sizeof *y, x, y));
  }
  return SHOAL_OK;
}

static void record(shoal_local_pairs *p, const side *d, uint64_t waits_from)
{
  uint64_t now = shoal_now_ns();
  shoal_trace_exchange x = { .op = p->op,
                             .group = shoal_group_trace_id(p->g),
                             .role = SHOAL_TRACE_ROLE_SWAP,
                             .link = shoal_group_link(p->g, d->peer),
                             .peer = d->peer,
                             .bytes = d->range.count * sizeof(float),
                             .seq = p->number };
  shoal_trace_transfer(p->trace, SHOAL_TRACE_EXCHANGE, &x, d->started_ns, now);
  shoal_trace_transfer(p->trace, SHOAL_TRACE_WAIT, &x, waits_from, now);
}

static shoal_status finish(shoal_local_pairs *p, float *array)
{
  p->number++;
  for (int i = 0; i < 2; i++) {
    side *d = &p->side[i];
    if (d->peer < 0) continue;
    uint64_t t0 = shoal_now_ns();
    SHOAL_TRY(shoal_message_wait(d->in));
    SHOAL_TRY(shoal_message_wait(d->out));
    record(p, d, t0);
  }
  for (int i = 0; i < 2; i++) {
    side *d = &p->side[i];
    if (d->peer >= 0)
      SHOAL_TRY(p->backend->ops->axpby(p->backend, d->range.count, 0.5f, d->theirs.at, 0.5f, array + d->range.offset));
  }
  return SHOAL_OK;
}

shoal_status shoal_local_pairs_average(shoal_local_pairs *p, shoal_run *r, const shoal_local *s, float *array)
{
  SHOAL_TRY(start(p, array, r->sent));
  SHOAL_TRY(average_here(p, s, array));
  return finish(p, array);
}
