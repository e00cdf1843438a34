/* Dealing units and residual blocks to parts at random: a pure function of (seed, round).
 *
 *   uniform      one permutation of a space, cut into n ranges                    [3 0 5 | 1 6 | 4 2]
 *   stratified   a permutation of every home's slice, each cut into n pieces     home 0: [1 0|2]  home 1: [3|4 5] …
 *
 * Within a part units are in ascending order: only the choice of units is random, and with a single part the subnet is
 * bitwise the network itself.  Part sizes are the same in every round and for both ways, so plans can be reused.
 *
 * Residual blocks are dealt stage by stage, because all blocks of a stage have the same shape, so the shape of a subnet
 * does not change between rounds either.  With a single stage this is the draw of ResIST. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/loader.h"
#include "method/ist/ist.h"
#include <stdlib.h>
#include <string.h>

/* Separates the streams from other users of the run's seed: a list is a unit space, or 2^32 + a stage. */
enum { LIST_STREAM = 0x157 };
static const uint64_t first_stage_list = UINT64_C(1) << 32;

void shoal_ist_shuffle(uint64_t seed, uint64_t round, uint64_t list, uint64_t shuffle, int64_t n, int64_t *out)
{
  uint64_t key = shoal_rng_seed(shoal_rng_seed(seed, LIST_STREAM), list);
  for (int64_t i = 0; i < n; i++) out[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    shoal_rng_block b = shoal_rng(key, SHOAL_RNG_METHOD, shuffle << 32 | (uint64_t)i, (uint32_t)round);
    int64_t j = (int64_t)shoal_rng_below(&b, (uint64_t)i + 1), swap = out[i];
    out[i] = out[j];
    out[j] = swap;
  }
}

static int compare_units(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void sort_parts(int64_t n, int parts, int64_t *units)
{
  for (int s = 0; s < parts; s++) {
    uint64_t first, count;
    shoal_share_of((uint64_t)n, s, parts, &first, &count);
    qsort(units + first, count, sizeof *units, compare_units);
  }
}

/* Each home's slice is shuffled and cut into pieces, one for each part; remainders are dealt round-robin across homes,
 * so that part sizes are the same as for one cut of the whole space.
 * `drawn` [n] and `next` [parts] are scratch. */
static void draw_stratified(const shoal_ist_plan *p, uint64_t round, int space, int64_t n, int64_t *drawn,
                            int64_t *next, int64_t *units)
{
  uint64_t parts = (uint64_t)p->o.parts, around = 0, begin, count;
  for (int s = 0; s < p->o.parts; s++) {
    shoal_share_of((uint64_t)n, s, p->o.parts, &begin, &count);
    next[s] = (int64_t)begin;
  }
  for (int home = 0; home < p->o.parts; home++) {
    shoal_share_of((uint64_t)n, home, p->o.parts, &begin, &count);
    shoal_ist_shuffle(p->o.seed, round, (uint64_t)space, 1 + (uint64_t)home, (int64_t)count, drawn);
    uint64_t base = count / parts, more = count % parts, at = 0;
    for (uint64_t k = 0; k < parts; k++) {
      uint64_t part = (around + k) % parts, piece = base + (k < more);
      for (uint64_t i = 0; i < piece; i++) units[next[part]++] = (int64_t)begin + drawn[at++];
    }
    around = (around + more) % parts;
  }
}

static shoal_status make_units(const shoal_ist_plan *p, shoal_ist_deal *d)
{
  const shoal_model *m = p->model;
  int64_t largest = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->spaces, &d->units));
  for (int space = 0; space < m->spaces; space++) {
    SHOAL_TRY(SHOAL_ALLOC((size_t)m->space_size[space], &d->units[space]));
    largest = SHOAL_MAX(largest, m->space_size[space]);
  }
  return SHOAL_ALLOC((size_t)largest + (size_t)p->o.parts, &d->work);
}

static shoal_status make_owners(const shoal_ist_plan *p, shoal_ist_deal *d)
{
  size_t n = (size_t)p->model->residuals;
  SHOAL_TRY(SHOAL_ALLOC(n * (size_t)p->o.parts, &d->owner));
  SHOAL_TRY(SHOAL_ALLOC(n, &d->holder));
  SHOAL_TRY(SHOAL_ALLOC(n * (size_t)p->o.parts, &d->drawn));
  return SHOAL_ALLOC(n, &d->work);
}

shoal_status shoal_ist_deal_create(const shoal_ist_plan *p, shoal_ist_deal **out)
{
  shoal_ist_deal *d;
  SHOAL_TRY(SHOAL_ALLOC(1, &d));
  shoal_status st = p->o.blocks ? make_owners(p, d) : make_units(p, d);
  if (st == SHOAL_OK)
    *out = d;
  else
    shoal_ist_deal_destroy(p, d);
  return st;
}

void shoal_ist_deal_destroy(const shoal_ist_plan *p, shoal_ist_deal *d)
{
  if (!d) return;
  for (int space = 0; d->units && space < p->model->spaces; space++) free(d->units[space]);
  free(d->units);
  free(d->owner);
  free(d->holder);
  free(d->drawn);
  free(d->work);
  free(d);
}

/* No block is repeated within a part: if the parts' minima add up to more than there are blocks, several shuffles are
 * concatenated and each part takes a range of them; duplicates in a range are replaced from a further shuffle of the
 * part.  `order` [n] is scratch.  Source: the ResIST training script; the paper says "permute and deal". */
void shoal_ist_draw_blocks(uint64_t seed, uint64_t round, uint64_t list, int n, int parts, int least, int64_t *order,
                           bool *owner)
{
  bool several = (int64_t)parts * least > n;
  uint64_t shuffles = several ? ((uint64_t)parts * (uint64_t)least + (uint64_t)n - 1) / (uint64_t)n : 1;
  uint64_t shuffle = UINT64_MAX, at = 0;
  memset(owner, 0, (size_t)n * (size_t)parts * sizeof *owner);
  for (int s = 0; s < parts; s++) {
    uint64_t first, count;
    shoal_share_of((uint64_t)n, s, parts, &first, &count);
    if (several) count = (uint64_t)least;
    int missing = 0;
    for (uint64_t i = 0; i < count; i++, at++) {
      if (shuffle != at / (uint64_t)n) shoal_ist_shuffle(seed, round, list, shuffle = at / (uint64_t)n, n, order);
      bool *mine = &owner[order[at % (uint64_t)n] * parts + s];
      missing += *mine;
      *mine = true;
    }
    if (!missing) continue;
    shoal_ist_shuffle(seed, round, list, shuffles + (uint64_t)s, n, order);
    for (int i = 0; missing && i < n; i++) {
      bool *mine = &owner[order[i] * parts + s];
      missing -= !*mine;
      *mine = true;
    }
    shuffle = UINT64_MAX; /* `order` was overwritten */
  }
}

/* Deals the blocks of one stage: their rows of `owner` are drawn together and scattered to the block numbers. */
static void deal_stage(const shoal_ist_plan *p, uint64_t round, int stage, shoal_ist_deal *d)
{
  int n = p->stage_size[stage], parts = p->o.parts, at = 0;
  shoal_ist_draw_blocks(p->o.seed, round, first_stage_list + (uint64_t)stage, n, parts, p->stage_min[stage], d->work,
                        d->drawn);
  for (int b = 0; b < p->model->residuals; b++) {
    if (p->stage[b] != stage) continue;
    memcpy(d->owner + (size_t)b * (size_t)parts, d->drawn + (size_t)at++ * (size_t)parts, (size_t)parts * sizeof(bool));
    d->holder[b] = 0;
    while (!d->owner[b * parts + d->holder[b]]) d->holder[b]++;
  }
}

void shoal_ist_draw(const shoal_ist_plan *p, uint64_t round, shoal_ist_deal *d)
{
  const shoal_model *m = p->model;
  for (int stage = 0; p->o.blocks && stage < p->stages; stage++) deal_stage(p, round, stage, d);
  for (int space = 0; !p->o.blocks && space < m->spaces; space++) {
    int64_t n = m->space_size[space], *units = d->units[space];
    if (p->o.stratified)
      draw_stratified(p, round, space, n, d->work, d->work + n, units);
    else
      shoal_ist_shuffle(p->o.seed, round, (uint64_t)space, 0, n, units);
    sort_parts(n, p->o.parts, units);
  }
}

uint32_t shoal_ist_hash(const shoal_ist_plan *p, const shoal_ist_deal *d)
{
  const shoal_model *m = p->model;
  if (p->o.blocks) return shoal_crc32c(0, d->owner, (size_t)m->residuals * (size_t)p->o.parts * sizeof(bool));
  uint32_t crc = 0;
  for (int space = 0; space < m->spaces; space++)
    crc = shoal_crc32c(crc, d->units[space], (size_t)m->space_size[space] * sizeof(int64_t));
  return crc;
}

shoal_status shoal_ist_part(const shoal_ist_plan *p, const shoal_ist_deal *d, int s, shoal_model **out)
{
  const shoal_model *m = p->model;
  const int64_t **keep = NULL;
  int64_t *count = NULL;
  bool *stays = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)m->spaces, &keep), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)m->spaces, &count), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)m->residuals, &stays), done);
  for (int b = 0; b < m->residuals; b++) stays[b] = p->o.blocks && (p->stage[b] < 0 || d->owner[b * p->o.parts + s]);
  for (int space = 0; !p->o.blocks && space < m->spaces; space++) {
    uint64_t first, n;
    shoal_share_of((uint64_t)m->space_size[space], s, p->o.parts, &first, &n);
    keep[space] = d->units[space] + first;
    count[space] = (int64_t)n;
  }
  st = shoal_model_narrow(m, keep, count, p->o.blocks ? stays : NULL, out);
done:
  free(keep);
  free(count);
  free(stays);
  return st;
}
