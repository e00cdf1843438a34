/* The data of an interaction: a parcel each way, then the blocks that could not be decoded, unquantised.
 *
 *     initiator                              partner
 *     pack c_i   ------- parcel ------->     decode near c_j, compare hashes
 *     read       <------ parcel --------     pack c_j
 *                <------ bad blocks ---->    the union of both lists is resent as f32, both ways
 *     c_i ← (Q(c_i) + Q(c_j)) / 2            c_j ← the same bits;   resent blocks: the exact values of both
 *
 * Each side chooses the spacings of its parcel block by block and stores them in it.  While no distances are known,
 * parcels are plain f32 values.  V3 sends one parcel, to the initiator. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <string.h>

static size_t marks(const shoal_swarm_deal *d)
{
  return (d->blocks + 7) / 8;
}

void shoal_swarm_deal_set(const shoal_swarm *s, shoal_swarm_deal *d, size_t first, size_t blocks)
{
  d->first = first;
  d->blocks = blocks;
  d->at = first * SHOAL_QUANT_BLOCK;
  d->n = SHOAL_MIN(blocks * SHOAL_QUANT_BLOCK, s->node.n - d->at);
}

shoal_status shoal_swarm_deal_init(const shoal_swarm *s, size_t blocks, shoal_swarm_deal *d)
{
  const shoal_backend_ops *ops = s->backend->ops;
  *d = (shoal_swarm_deal){ 0 };
  shoal_swarm_deal_set(s, d, 0, blocks);
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, blocks, &d->exponent));
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, marks(d), &d->bad));
  return ops->alloc(s->backend, SHOAL_MEMORY_PINNED, sizeof(uint32_t), &d->flag);
}

void shoal_swarm_deal_fini(const shoal_swarm *s, shoal_swarm_deal *d)
{
  s->backend->ops->release(s->backend, &d->exponent);
  s->backend->ops->release(s->backend, &d->bad);
  s->backend->ops->release(s->backend, &d->flag);
}

size_t shoal_swarm_parcel_bytes(int bits, size_t n)
{
  return bits ? shoal_quant_bytes(bits, n) : n * sizeof(float);
}

void shoal_swarm_count_parcel(shoal_swarm *s, size_t bytes, bool quantised, int peer)
{
  s->sent[shoal_group_link(s->all, peer)] += bytes;
  s->parcels++;
  s->full_parcels += !quantised;
}

void shoal_swarm_count_again(shoal_swarm *s, size_t bytes, int peer)
{
  s->sent[shoal_group_link(s->all, peer)] += bytes;
  s->resent_bytes += bytes;
}

/* Both ranks of a pair number their interactions as initiator; the lower one's are even. */
void shoal_swarm_record(shoal_swarm *s, uint64_t bytes, int peer, bool initiator, uint64_t number, uint64_t t0_ns,
                        uint64_t waited_ns)
{
  if (!s->trace) return;
  uint64_t now = shoal_now_ns();
  shoal_trace_exchange x = { .op = s->op,
                             .group = shoal_group_trace_id(s->all),
                             .role = SHOAL_TRACE_ROLE_SWAP,
                             .link = shoal_group_link(s->all, peer),
                             .peer = peer,
                             .bytes = bytes,
                             .seq = 2 * number + (initiator == (peer < s->rank)) };
  shoal_trace_transfer(s->trace, SHOAL_TRACE_EXCHANGE, &x, t0_ns, now);
  if (waited_ns) shoal_trace_transfer(s->trace, SHOAL_TRACE_WAIT, &x, now - waited_ns, now);
}

double shoal_swarm_reach(const shoal_swarm *s)
{
  return shoal_swarm_largest(s->blocks, s->distance);
}

void shoal_swarm_deal_begin(shoal_swarm *s, shoal_swarm_deal *d, double distance)
{
  const shoal_swarm_rules *r = &s->rules;
  d->quant = (shoal_quant){ .bits = r->bits,
                            .stochastic = r->stochastic,
                            .seed = shoal_rng_seed(r->seed, (uint64_t)s->rank),
                            .turn = (uint32_t)s->turns++ };
  d->quantised = r->bits && distance > 0;
  if (d->quantised)
    shoal_swarm_exponents(r->bits, d->blocks, s->distance + d->first, shoal_swarm_reach(s), distance, d->exponent.at);
  d->bytes = shoal_swarm_parcel_bytes(d->quantised ? r->bits : 0, d->n);
  d->resend = 0;
  d->refused = false;
  memset(d->bad.at, 0, marks(d));
}

shoal_status shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from, void *to)
{
  const shoal_backend_ops *ops = s->backend->ops;
  if (d->quantised)
    SHOAL_TRY(ops->encode(s->backend, &d->quant, d->n, from + d->at, d->exponent.at, to));
  else
    SHOAL_TRY(ops->copy(s->backend, d->bytes, from + d->at, to));
  return ops->settle(s->backend);
}

float *shoal_swarm_theirs(const shoal_swarm *s, const shoal_swarm_deal *d)
{
  return s->whole ? s->theirs + d->at : s->theirs;
}

shoal_status shoal_swarm_take(const shoal_swarm *s, shoal_swarm_deal *d, size_t n, const float *from, float *to)
{
  return s->backend->ops->copy_checked(s->backend, n, from, to, d->flag.at);
}

shoal_status shoal_swarm_see_whether_refused(const shoal_swarm *s, shoal_swarm_deal *d)
{
  uint32_t *flag = d->flag.at;
  SHOAL_TRY(s->backend->ops->settle(s->backend));
  d->refused |= *flag != 0;
  *flag = 0;
  return SHOAL_OK;
}

shoal_status shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d, const void *from)
{
  const shoal_backend_ops *ops = s->backend->ops;
  float *theirs = shoal_swarm_theirs(s, d);
  if (d->quantised)
    SHOAL_TRY(ops->decode(s->backend, d->quant.bits, d->n, from, s->node.c + d->at, theirs, d->bad.at));
  else
    SHOAL_TRY(shoal_swarm_take(s, d, d->n, from, theirs));
  return shoal_swarm_see_whether_refused(s, d);
}

void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *other)
{
  uint8_t *bad = d->bad.at;
  for (size_t i = 0; other && i < marks(d); i++) bad[i] |= other[i];
  d->resend = 0;
  for (size_t b = 0; b < d->blocks; b++)
    if (shoal_quant_marked(bad, b)) d->resend += shoal_swarm_block_length(s, d->first + b) * sizeof(float);
}

shoal_status shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from, void *out)
{
  const shoal_backend_ops *ops = s->backend->ops;
  float *to = out;
  for (size_t b = d->first; b < d->first + d->blocks; b++) {
    if (!shoal_quant_marked(d->bad.at, b - d->first)) continue;
    size_t count = shoal_swarm_block_length(s, b);
    SHOAL_TRY(ops->copy(s->backend, count * sizeof *to, from + b * SHOAL_QUANT_BLOCK, to));
    to += count;
  }
  return ops->settle(s->backend);
}

shoal_status shoal_swarm_unpack_again(shoal_swarm *s, shoal_swarm_deal *d, const void *in)
{
  const float *from = in;
  float *theirs = shoal_swarm_theirs(s, d);
  for (size_t b = 0; b < d->blocks; b++) {
    if (!shoal_quant_marked(d->bad.at, b)) continue;
    size_t count = shoal_swarm_block_length(s, d->first + b);
    SHOAL_TRY(shoal_swarm_take(s, d, count, from, theirs + b * SHOAL_QUANT_BLOCK));
    from += count;
  }
  return shoal_swarm_see_whether_refused(s, d);
}

void shoal_swarm_refuse(shoal_swarm *s)
{
  if (s->refused++ == 0) shoal_warn("rank %d: a partner's model is not finite: it is not averaged with", s->rank);
}

shoal_status shoal_swarm_join(shoal_swarm *s, const shoal_swarm_deal *d, bool average)
{
  const shoal_backend_ops *ops = s->backend->ops;
  shoal_meet_args a = {
    .quant = d->quantised ? &d->quant : NULL, .exponent = d->exponent.at, .bad = d->bad.at, .average = average
  };
  SHOAL_TRY(ops->meet(s->backend, &a, d->n, shoal_swarm_theirs(s, d), s->node.c + d->at, s->measured + d->first));
  return ops->settle(s->backend);
}

shoal_status shoal_swarm_deal_end(shoal_swarm *s, const shoal_swarm_deal *d)
{
  if (d->refused) {
    shoal_swarm_refuse(s);
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_swarm_join(s, d, shoal_swarm_averages(s->rules.variant)));
  for (size_t b = d->first; b < d->first + d->blocks; b++)
    s->distance[b] = shoal_swarm_observe(s->distance[b], (double)s->measured[b]);
  return SHOAL_OK;
}
