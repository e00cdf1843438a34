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
#include <stdlib.h>
#include <string.h>

shoal_status shoal_swarm_deal_init(const shoal_swarm *s, shoal_swarm_deal *d)
{
  *d = (shoal_swarm_deal){ 0 };
  SHOAL_TRY(SHOAL_ALLOC(s->blocks, &d->exponent));
  return SHOAL_ALLOC(s->marks, &d->bad);
}

void shoal_swarm_deal_fini(shoal_swarm_deal *d)
{
  free(d->exponent);
  free(d->bad);
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
  if (d->quantised) shoal_swarm_exponents(r->bits, s->blocks, s->distance, distance, d->exponent);
  d->bytes = shoal_swarm_parcel_bytes(d->quantised ? r->bits : 0, s->node.n);
  d->resend = 0;
  d->refused = false;
  memset(d->bad, 0, s->marks);
}

void shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from)
{
  if (d->quantised)
    shoal_quant_encode(&d->quant, s->node.n, from, d->exponent, s->outbox);
  else
    memcpy(s->outbox, from, d->bytes);
}

void shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d)
{
  if (d->quantised)
    (void)shoal_quant_decode(d->quant.bits, s->node.n, s->inbox, s->node.c, s->theirs, d->bad);
  else
    d->refused = !shoal_swarm_copy(s->node.n, (const float *)s->inbox, s->theirs);
}

void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *theirs)
{
  for (size_t i = 0; theirs && i < s->marks; i++) d->bad[i] |= theirs[i];
  d->resend = 0;
  for (size_t b = 0; b < s->blocks; b++)
    if (shoal_quant_marked(d->bad, b)) d->resend += shoal_swarm_block_length(s, b) * sizeof(float);
}

void shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from)
{
  float *to = (float *)s->outbox;
  for (size_t b = 0; b < s->blocks; b++) {
    if (!shoal_quant_marked(d->bad, b)) continue;
    size_t count = shoal_swarm_block_length(s, b);
    memcpy(to, from + b * SHOAL_QUANT_BLOCK, count * sizeof *to);
    to += count;
  }
}

void shoal_swarm_unpack_again(shoal_swarm *s, shoal_swarm_deal *d)
{
  const float *from = (const float *)s->inbox;
  for (size_t b = 0; b < s->blocks; b++) {
    if (!shoal_quant_marked(d->bad, b)) continue;
    size_t count = shoal_swarm_block_length(s, b);
    d->refused |= !shoal_swarm_copy(count, from, s->theirs + b * SHOAL_QUANT_BLOCK);
    from += count;
  }
}

static void refuse(shoal_swarm *s)
{
  if (s->refused++ == 0) shoal_warn("rank %d: a partner's model is not finite: it is not averaged with", s->rank);
}

/* Block by block, so that the three passes hit the cache. */
void shoal_swarm_deal_end(shoal_swarm *s, const shoal_swarm_deal *d)
{
  bool average = shoal_swarm_averages(s->rules.variant);
  if (d->refused) {
    refuse(s);
    return;
  }
  for (size_t b = 0; b < s->blocks; b++) {
    size_t at = b * SHOAL_QUANT_BLOCK, count = shoal_swarm_block_length(s, b);
    float *c = s->node.c + at;
    const float *theirs = s->theirs + at;
    s->distance[b] = shoal_swarm_observe(s->distance[b], shoal_swarm_distance(count, theirs, c));
    if (!average) continue;
    if (d->quantised && !shoal_quant_marked(d->bad, b)) shoal_quant_value(&d->quant, at, count, c, d->exponent + b, c);
    shoal_swarm_average(count, c, theirs, c);
  }
}
