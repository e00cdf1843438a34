/* The order of the samples in an epoch: a keyed permutation, evaluated one position at a time and never stored.
 *
 * A Feistel network is a bijection of 2h-bit numbers whatever its round function is:
 *
 *     left, right  ->  right, left ^ F(right, key)          six times
 *
 * The numbers 0 .. n-1 are a subset of the 2h-bit numbers.  A result outside that subset is fed in again until it lies
 * inside ("cycle walking").  Following a cycle of a bijection must return to the subset, and two starting points cannot
 * reach the same end, so the result is a bijection of 0 .. n-1.  The larger set has less than 4n elements, hence fewer
 * than four evaluations are needed on average.
 *
 * Every rank finds its own samples this way without a table of n numbers and without communication, and the order does
 * not depend on the number of ranks.  Checkpoints rely on this order, so the constants must not change; the unit test
 * compares with recorded values. */
#include "base/rng.h"
#include <assert.h>

enum { ROUNDS = 6 };

void shoal_perm_init(shoal_perm *p, uint64_t seed, shoal_rng_purpose purpose, uint64_t epoch, uint64_t n)
{
  assert(n >= 1 && n <= UINT64_C(1) << 62);
  uint32_t half = 1;
  while (UINT64_C(1) << (2 * half) < n) half++;
  shoal_rng_block a = shoal_rng(seed, purpose, epoch, 0), b = shoal_rng(seed, purpose, epoch, 1);
  *p = (shoal_perm){ n, half, { a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1] } };
}

/* A 32-bit hash finaliser: the multiplications propagate low bits upwards, the shifts high bits downwards. */
static uint32_t mix(uint32_t x, uint32_t key)
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
  for (int i = 0; i < ROUNDS; i++) {
    /* Takes the top bits of the product, which are mixed best; this matters for small n. */
    uint32_t f = mix(right, p->key[i]) >> (32 - p->half_bits);
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
