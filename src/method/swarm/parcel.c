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

shoal_status shoal_swarm_deal_init(const shoal_swarm *s, shoal_swarm_deal *d)
{
  const shoal_backend_ops *ops = s->backend->ops;
  *d = (shoal_swarm_deal){ 0 };
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, s->blocks, &d->exponent));
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, s->marks, &d->bad));
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

void shoal_swarm_count_parcel(shoal_swarm *s, const shoal_swarm_deal *d, int peer)
{
  s->sent[shoal_group_link(s->all, peer)] += d->bytes;
  s->parcels++;
  s->full_parcels += !d->quantised;
}

void shoal_swarm_count_again(shoal_swarm *s, const shoal_swarm_deal *d, int peer)
{
  s->sent[shoal_group_link(s->all, peer)] += d->resend;
  s->resent_bytes += d->resend;
}

/* Both ranks of a pair number their interactions as initiator; the lower one's are even. */
void shoal_swarm_record(shoal_swarm *s, const shoal_swarm_deal *d, int peer, bool initiator, uint64_t number,
                        uint64_t t0_ns, uint64_t waited_ns)
{
  if (!s->trace) return;
  uint64_t now = shoal_now_ns();
  shoal_trace_exchange x = { .op = s->op,
                             .group = shoal_group_trace_id(s->all),
                             .role = SHOAL_TRACE_ROLE_SWAP,
                             .link = shoal_group_link(s->all, peer),
                             .peer = peer,
                             .bytes = d->bytes + d->resend,
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
  if (d->quantised) shoal_swarm_exponents(r->bits, s->blocks, s->distance, distance, d->exponent.at);
  d->bytes = shoal_swarm_parcel_bytes(d->quantised ? r->bits : 0, s->node.n);
  d->resend = 0;
  d->refused = false;
  memset(d->bad.at, 0, s->marks);
}

shoal_status shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from)
{
  const shoal_backend_ops *ops = s->backend->ops;
  if (d->quantised)
    SHOAL_TRY(ops->encode(s->backend, &d->quant, s->node.n, from, d->exponent.at, s->outbox.at));
  else
    SHOAL_TRY(ops->copy(s->backend, d->bytes, from, s->outbox.at));
  return ops->settle(s->backend);
}

/* Unquantised numbers; the parcel is refused if one is not finite. */
static shoal_status take(shoal_swarm *s, shoal_swarm_deal *d, size_t n, const float *from, float *to)
{
  return s->backend->ops->copy_checked(s->backend, n, from, to, d->flag.at);
}

static shoal_status see_whether_refused(shoal_swarm *s, shoal_swarm_deal *d)
{
  uint32_t *flag = d->flag.at;
  SHOAL_TRY(s->backend->ops->settle(s->backend));
  d->refused |= *flag != 0;
  *flag = 0;
  return SHOAL_OK;
}

shoal_status shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d)
{
  const shoal_backend_ops *ops = s->backend->ops;
  if (d->quantised)
    SHOAL_TRY(ops->decode(s->backend, d->quant.bits, s->node.n, s->inbox.at, s->node.c, s->theirs, d->bad.at));
  else
    SHOAL_TRY(take(s, d, s->node.n, s->inbox.at, s->theirs));
  return see_whether_refused(s, d);
}

void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *theirs)
{
  uint8_t *bad = d->bad.at;
  for (size_t i = 0; theirs && i < s->marks; i++) bad[i] |= theirs[i];
  d->resend = 0;
  for (size_t b = 0; b < s->blocks; b++)
    if (shoal_quant_marked(bad, b)) d->resend += shoal_swarm_block_length(s, b) * sizeof(float);
}

shoal_status shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from)
{
  const shoal_backend_ops *ops = s->backend->ops;
  float *to = s->outbox.at;
  for (size_t b = 0; b < s->blocks; b++) {
    if (!shoal_quant_marked(d->bad.at, b)) continue;
    size_t count = shoal_swarm_block_length(s, b);
    SHOAL_TRY(ops->copy(s->backend, count * sizeof *to, from + b * SHOAL_QUANT_BLOCK, to));
    to += count;
  }
  return ops->settle(s->backend);
}

shoal_status shoal_swarm_unpack_again(shoal_swarm *s, shoal_swarm_deal *d)
{
  const float *from = s->inbox.at;
  for (size_t b = 0; b < s->blocks; b++) {
    if (!shoal_quant_marked(d->bad.at, b)) continue;
    size_t count = shoal_swarm_block_length(s, b);
    SHOAL_TRY(take(s, d, count, from, s->theirs + b * SHOAL_QUANT_BLOCK));
    from += count;
  }
  return see_whether_refused(s, d);
}

static void refuse(shoal_swarm *s)
{
  if (s->refused++ == 0) shoal_warn("rank %d: a partner's model is not finite: it is not averaged with", s->rank);
}

shoal_status shoal_swarm_deal_end(shoal_swarm *s, const shoal_swarm_deal *d)
{
  const shoal_backend_ops *ops = s->backend->ops;
  shoal_meet_args a = { .quant = d->quantised ? &d->quant : NULL,
                        .exponent = d->exponent.at,
                        .bad = d->bad.at,
                        .average = shoal_swarm_averages(s->rules.variant) };
  if (d->refused) {
    refuse(s);
    return SHOAL_OK;
  }
  SHOAL_TRY(ops->meet(s->backend, &a, s->node.n, s->theirs, s->node.c, s->measured));
  SHOAL_TRY(ops->settle(s->backend));
  for (size_t b = 0; b < s->blocks; b++) s->distance[b] = shoal_swarm_observe(s->distance[b], (double)s->measured[b]);
  return SHOAL_OK;
}
