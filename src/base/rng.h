/* Randomness without hidden state.  Every number is a pure function of an address: (seed, purpose, index, step).
 * So any rank can compute any number, in any order, and stop/resume has nothing to save.
 *
 * Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011): key = seed, counter =
 * (index low, index high, step, purpose); checked against the published known answers. */
#ifndef SHOAL_BASE_RNG_H
#define SHOAL_BASE_RNG_H
#include <stddef.h>
#include <stdint.h>

/* What a number is for.  Purposes keep streams apart; append only, the values are part of the file formats.
 * Users that need several streams of one purpose (a layer, an epoch) put that number into the upper half of `step`
 * or mix it into the seed with shoal_rng_seed. */
typedef enum {
  SHOAL_RNG_INIT = 1,    /* initial weights: index = global element of the parameter, step = parameter number */
  SHOAL_RNG_ORDER = 2,   /* data order */
  SHOAL_RNG_AUGMENT = 3, /* index = sample, step = epoch */
  SHOAL_RNG_DROPOUT = 4, /* index = slot in the global batch * elements + element, step = training step; node in seed */
  SHOAL_RNG_SYNTH = 5,   /* generated data sets */
  SHOAL_RNG_METHOD = 6,  /* partners, partitions, geometric steps */
  SHOAL_RNG_ROUND = 7,   /* stochastic rounding */
  SHOAL_RNG_TEST = 8
} shoal_rng_purpose;

typedef struct {
  uint32_t v[4];
} shoal_rng_block;

shoal_rng_block shoal_rng(uint64_t seed, shoal_rng_purpose purpose, uint64_t index, uint32_t step);
/** A new seed for a named sub-stream; a pure function of both. */
uint64_t shoal_rng_seed(uint64_t seed, uint64_t stream);
/* [0, 1), 24 bits */
static inline float shoal_rng_unit(uint32_t u)
{
  return (float)(u >> 8) * 0x1p-24f;
}
/** Two standard normal numbers from two words (Box-Muller, never infinite). */
void shoal_rng_normal2(uint32_t a, uint32_t b, float out[2]);
/** Uniform integer in [0, n), n >= 1, without modulo bias worth the name: 64-bit multiply-shift. */
static inline uint64_t shoal_rng_below(const shoal_rng_block *r, uint64_t n)
{
  uint64_t u = (uint64_t)r->v[0] << 32 | r->v[1];
  return (uint64_t)(((unsigned __int128)u * n) >> 64);
}

/* A keyed permutation of 0..n-1 that any rank can evaluate at any position: a Feistel network on the smallest even
 * number of bits that holds n, with cycle walking.  Expected cost: under 4 network passes per value. */
typedef struct {
  uint64_t n;
  uint32_t half_bits;
  uint32_t key[6];
} shoal_perm;
void shoal_perm_init(shoal_perm *p, uint64_t seed, shoal_rng_purpose purpose, uint64_t epoch, uint64_t n);
uint64_t shoal_perm_at(const shoal_perm *p, uint64_t position);
#endif
