/* The order of the samples in an epoch: a keyed permutation that is evaluated at a position, never stored.
 *
 * A Feistel network is a bijection of 2h-bit numbers whatever its round function is:
 *
 *     left, right  ->  right, left ^ F(right, key)          six times
 *
 * The numbers 0 .. n-1 lie inside the 2h-bit numbers, so a value that lands outside is put in again until it lands
 * inside ("cycle walking").  Walking along a cycle of a bijection must come back to the set it left, and two starts
 * cannot meet, so the result is a bijection of 0 .. n-1.  The larger set has less than 4n elements, hence fewer
 * than four passes on average.
 *
 * Every rank finds its own samples this way without a table of n numbers and without a message, and the order does
 * not depend on how many ranks there are.  It is part of what a checkpoint means, so the constants here are frozen:
 * the unit test pins values. */
#include "base/rng.h"
#include <assert.h>

enum { PASSES = 6 };

void shoal_perm_init(shoal_perm *p, uint64_t seed, shoal_rng_purpose purpose, uint64_t epoch, uint64_t n)
{
  assert(n >= 1 && n <= UINT64_C(1) << 62);
  uint32_t half = 1;
  while (UINT64_C(1) << (2 * half) < n) half++;
  shoal_rng_block a = shoal_rng(seed, purpose, epoch, 0), b = shoal_rng(seed, purpose, epoch, 1);
  *p = (shoal_perm){ n, half, { a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1] } };
}

/* The finishing steps of 32-bit hashes: multiplications carry low bits up, shifts bring high bits down. */
static uint32_t stir(uint32_t x, uint32_t key)
{
  x ^= key;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x + key;
}

static uint64_t feistel(const shoal_perm *p, uint64_t x)
{
  uint32_t mask = (uint32_t)((UINT64_C(1) << p->half_bits) - 1);
  uint32_t left = (uint32_t)(x >> p->half_bits), right = (uint32_t)x & mask;
  for (int i = 0; i < PASSES; i++) {
    /* The top bits of a product are the best mixed; with few bits that matters. */
    uint32_t f = stir(right, p->key[i]) >> (32 - p->half_bits);
    uint32_t next = left ^ f;
    left = right;
    right = next;
  }
  return (uint64_t)left << p->half_bits | right;
}

uint64_t shoal_perm_at(const shoal_perm *p, uint64_t position)
{
  assert(position < p->n);
  uint64_t x = position;
  do {
    x = feistel(p, x);
  } while (x >= p->n);
  return x;
}
