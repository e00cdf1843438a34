/* Random numbers without hidden state.  Every number is a pure function of (seed, purpose, index, step).  So any rank
 * can compute any number, in any order, and a checkpoint has no generator state to save.
 *
 * Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011): key = seed, counter =
 * (index low, index high, step, purpose); checked against the published known answers. */
#ifndef SHOAL_BASE_RNG_H
#define SHOAL_BASE_RNG_H
#include <stddef.h>
#include <stdint.h>

/* What a random number is used for.  Each purpose has its own stream.  Append only: the values are part of the file
 * formats.
 * Users that need several streams of one purpose (a layer, an epoch) put that number into the upper half of `step`
 * or mix it into the seed with shoal_rng_seed. */
typedef enum {
  SHOAL_RNG_INIT = 1,    /* initial weights: index = global element of the parameter, step = parameter number */
  SHOAL_RNG_ORDER = 2,   /* data order */
  SHOAL_RNG_AUGMENT = 3, /* index = sample, step = epoch */
  SHOAL_RNG_DROPOUT = 4, /* index = slot in the global batch * elements + element, step = training step; node in seed */
  SHOAL_RNG_SYNTH = 5,   /* generated data sets */
  SHOAL_RNG_METHOD = 6,  /* of a method: partners, partitions, geometric step counts */
  SHOAL_RNG_ROUND = 7,   /* stochastic rounding */
  SHOAL_RNG_TEST = 8,
  SHOAL_RNG_SPLIT = 9,    /* which samples of an import are the test split */
  SHOAL_RNG_SURVEY = 10,  /* where a large data set without statistics is looked at */
  SHOAL_RNG_GENERATE = 11 /* tokens drawn from a network: index = how many were drawn before */
} shoal_rng_purpose;

typedef struct {
  uint32_t v[4];
} shoal_rng_block;

shoal_rng_block shoal_rng(uint64_t seed, shoal_rng_purpose purpose, uint64_t index, uint32_t step);
/** The seed of a sub-stream; a pure function of both arguments. */
uint64_t shoal_rng_seed(uint64_t seed, uint64_t stream);
/** Uniform in [0, 1), with 24 bits. */
static inline float shoal_rng_unit(uint32_t u)
{
  return (float)(u >> 8) * 0x1p-24f;
}
/** Two standard normal numbers from two random words (Box-Muller); always finite. */
void shoal_rng_normal2(uint32_t a, uint32_t b, float out[2]);
/** Uniform integer in [0, n), n >= 1, by 64-bit multiply-shift: the bias is below n / 2^64. */
static inline uint64_t shoal_rng_below(const shoal_rng_block *r, uint64_t n)
{
  uint64_t u = (uint64_t)r->v[0] << 32 | r->v[1];
  return (uint64_t)(((unsigned __int128)u * n) >> 64);
}

/* A keyed permutation of 0..n-1 that any rank can evaluate at any position: a Feistel network on the smallest even
 * number of bits that can represent n, with cycle walking.  Expected cost: fewer than 4 evaluations per value. */
typedef struct {
  uint64_t n;
  uint32_t half_bits;
  uint32_t key[6];
} shoal_perm;
void shoal_perm_init(shoal_perm *p, uint64_t seed, shoal_rng_purpose purpose, uint64_t epoch, uint64_t n);
uint64_t shoal_perm_at(const shoal_perm *p, uint64_t position);
#endif
