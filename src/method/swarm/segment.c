/* The two messages about a segment: see swarm.h.
 *
 * Everything is done to a whole segment at once, also where only some of its blocks take part: the others are averaged with
 * themselves, which changes nothing. */
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <math.h>
#include <string.h>

static void *numbers_of(const shoal_swarm_head *h)
{
  return (char *)h + sizeof *h;
}

void shoal_swarm_deal_segment(const shoal_swarm *s, shoal_swarm_deal *d, size_t segment)
{
  size_t first = segment * s->segment;
  shoal_swarm_deal_set(s, d, first, SHOAL_MIN(s->segment, s->blocks - first));
}

size_t shoal_swarm_message_most(const shoal_swarm *s)
{
  return sizeof(shoal_swarm_head) + SHOAL_MIN(s->segment * SHOAL_QUANT_BLOCK, s->node.n) * sizeof(float);
}

size_t shoal_swarm_message_bytes(const shoal_swarm *s, const shoal_swarm_head *h)
{
  shoal_swarm_deal d;
  size_t bytes = sizeof *h;
  if (h->segment >= s->segments) return 0;
  shoal_swarm_deal_segment(s, &d, h->segment);
  if (h->flags & SHOAL_SWARM_QUANTISED) return bytes + shoal_quant_bytes(s->rules.bits, d.n);
  for (size_t b = 0; b < d.blocks && h->flags & SHOAL_SWARM_EXACT; b++)
    if (h->blocks >> b & 1) bytes += shoal_swarm_block_length(s, d.first + b) * sizeof(float);
  return bytes;
}

/* ---------------------------------------------------------------------------------------------------- numbers */

/* The numbers of some blocks one after another: from a segment, or to it. */
static shoal_status move_exact(shoal_swarm *s, shoal_swarm_deal *d, unsigned blocks, float *segment, float *packed,
                               bool out)
{
  for (size_t b = 0, end; b < d->blocks; b = end) {
    size_t n = 0;
    for (end = b; end < d->blocks && blocks >> end & 1; end++) n += shoal_swarm_block_length(s, d->first + end);
    float *part = segment + b * SHOAL_QUANT_BLOCK;
    if (n) SHOAL_TRY(shoal_swarm_take(s, d, n, out ? part : packed, out ? packed : part));
    packed += n;
    end += end == b;
  }
  return shoal_swarm_see_whether_refused(s, d);
}

static bool is_full(const shoal_swarm_deal *d)
{
  const int8_t *exponent = d->exponent.at;
  for (size_t b = 0; b < d->blocks; b++)
    if (exponent[b] == SHOAL_QUANT_FULL) return true;
  return false;
}

/* Adds some blocks of c, quantised if the deal says so and that is possible.  Refused: c is not finite there, and nothing is
 * sent. */
static shoal_status put(shoal_swarm *s, shoal_swarm_deal *d, shoal_swarm_head *h)
{
  if (d->quantised) {
    SHOAL_TRY(shoal_swarm_pack(s, d, s->node.c, numbers_of(h)));
    d->quantised = !is_full(d);
  }
  if (!d->quantised) SHOAL_TRY(move_exact(s, d, h->blocks, s->node.c + d->at, numbers_of(h), true));
  h->flags |= d->refused ? SHOAL_SWARM_REFUSED : d->quantised ? SHOAL_SWARM_QUANTISED : SHOAL_SWARM_EXACT;
  return SHOAL_OK;
}

/* Reads what a message holds into `theirs`.  *unread: blocks that could not be decoded. */
static shoal_status get(shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *h, uint16_t *unread)
{
  *unread = 0;
  if (!(h->flags & SHOAL_SWARM_QUANTISED))
    return move_exact(s, d, h->blocks, shoal_swarm_theirs(s, d), numbers_of(h), false);
  const shoal_backend_ops *ops = s->backend->ops;
  const uint8_t *bad = d->bad.at;
  SHOAL_TRY(ops->decode(s->backend, s->rules.bits, d->n, numbers_of(h), s->node.c + d->at, shoal_swarm_theirs(s, d),
                        d->bad.at));
  SHOAL_TRY(ops->settle(s->backend));
  for (size_t b = 0; b < d->blocks; b++) *unread |= (uint16_t)(shoal_quant_marked(bad, b) << b);
  return SHOAL_OK;
}

/* ---------------------------------------------------------------------------------------------------- averaging */

/* Only `blocks` take part from here on. */
static shoal_status leave_others(shoal_swarm *s, shoal_swarm_deal *d, unsigned blocks)
{
  float *theirs = shoal_swarm_theirs(s, d);
  uint8_t *bad = d->bad.at;
  memset(bad, 0, (d->blocks + 7) / 8);
  for (size_t b = 0; b < d->blocks; b++) {
    if (blocks >> b & 1) continue;
    size_t at = b * SHOAL_QUANT_BLOCK, bytes = shoal_swarm_block_length(s, d->first + b) * sizeof(float);
    bad[b / 8] |= (uint8_t)(1 << b % 8);
    SHOAL_TRY(s->backend->ops->copy(s->backend, bytes, s->node.c + d->at + at, theirs + at));
  }
  return SHOAL_OK;
}

static void observe(shoal_swarm *s, const shoal_swarm_deal *d, unsigned blocks)
{
  for (size_t b = 0; b < d->blocks; b++) {
    double *distance = &s->distance[d->first + b];
    if (blocks >> b & 1) *distance = shoal_swarm_observe(*distance, (double)s->measured[d->first + b]);
  }
}

/* The reply's spacings.  The sender's c is within half a spacing of what was read, and D_b is now at least the distance to that;
 * as if D_b were at least that spacing, too, the window q s / 2 >= 2 D_b holds both.  The spacing is no distance that this side has
 * measured, so it is not scaled with those. */
static void choose_spacings(const shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *request)
{
  int8_t *exponent = d->exponent.at;
  const int8_t *parcel = numbers_of(request);
  shoal_swarm_exponents(s->rules.bits, d->blocks, s->distance + d->first, shoal_swarm_reach(s), request->reach,
                        exponent);
  size_t end = 0;
  for (size_t b = 0; b < d->blocks && request->flags & SHOAL_SWARM_QUANTISED; b++) {
    end += shoal_quant_bytes(s->rules.bits, shoal_swarm_block_length(s, d->first + b));
    int least = shoal_swarm_exponent(s->rules.bits, ldexp(1, parcel[end - 1]));
    exponent[b] = (int8_t)SHOAL_MAX(exponent[b], least);
  }
}

/* ---------------------------------------------------------------------------------------------------- messages */

shoal_status shoal_swarm_ask(shoal_swarm *s, shoal_swarm_deal *d, uint16_t again, shoal_swarm_head *out)
{
  out->reach = shoal_swarm_reach(s);
  out->blocks = again ? again : (uint16_t)((1u << d->blocks) - 1);
  out->unread = 0;
  out->flags = (out->flags & SHOAL_SWARM_INITIATOR) | (again ? SHOAL_SWARM_AGAIN : 0);
  shoal_swarm_deal_begin(s, d, again ? 0 : out->reach);
  return s->rules.variant == SHOAL_SWARM_PULL ? SHOAL_OK : put(s, d, out);
}

shoal_status shoal_swarm_answer(shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *request,
                                shoal_swarm_head *reply)
{
  bool averages = shoal_swarm_averages(s->rules.variant), again = request->flags & SHOAL_SWARM_AGAIN;
  uint16_t read = request->blocks;
  shoal_swarm_deal_segment(s, d, request->segment);
  shoal_swarm_deal_begin(s, d, 0);
  *reply = *request;
  reply->flags &= SHOAL_SWARM_INITIATOR | SHOAL_SWARM_AGAIN | SHOAL_SWARM_REFUSED;
  if (averages && !(request->flags & SHOAL_SWARM_REFUSED)) SHOAL_TRY(get(s, d, request, &reply->unread));
  if (d->refused || request->flags & SHOAL_SWARM_REFUSED) {
    shoal_swarm_refuse(s);
    reply->flags |= SHOAL_SWARM_REFUSED;
    return SHOAL_OK;
  }
  read &= (uint16_t)~reply->unread;
  if (averages) {
    SHOAL_TRY(leave_others(s, d, read));
    SHOAL_TRY(shoal_swarm_join(s, d, false));
    observe(s, d, read);
  }
  reply->reach = shoal_swarm_reach(s);
  d->quantised = s->rules.bits && !again && SHOAL_MAX(reply->reach, request->reach) > 0;
  if (d->quantised) choose_spacings(s, d, request);
  SHOAL_TRY(put(s, d, reply));
  if (d->refused) reply->unread = 0; /* nothing goes again */
  return averages && !d->refused ? shoal_swarm_join(s, d, true) : SHOAL_OK;
}

shoal_status shoal_swarm_finish(shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *request,
                                const shoal_swarm_head *reply, uint16_t *again)
{
  bool averages = shoal_swarm_averages(s->rules.variant);
  uint16_t unread;
  *again = 0;
  if (request->flags & SHOAL_SWARM_REFUSED) return SHOAL_OK; /* by this rank, whose own model is not finite */
  if (!(reply->flags & SHOAL_SWARM_REFUSED)) SHOAL_TRY(get(s, d, reply, &unread));
  if (d->refused || reply->flags & SHOAL_SWARM_REFUSED) {
    shoal_swarm_refuse(s);
    return SHOAL_OK;
  }
  *again = (reply->unread | unread) & reply->blocks;
  uint16_t read = reply->blocks & (uint16_t) ~*again;
  if (averages) SHOAL_TRY(leave_others(s, d, read));
  SHOAL_TRY(shoal_swarm_join(s, d, averages));
  observe(s, d, read);
  return SHOAL_OK;
}
