/* Philox4x32-10: a counter-based generator, built like a block cipher but reduced for speed; it passes the statistical
 * test suites.
 *
 * Ten rounds of two 32x32 multiplications mix a 128-bit counter with a 64-bit key:
 *
 *     (c0, c1, c2, c3)  ->  ( hi(M1*c2) ^ c1 ^ k0,  lo(M1*c2),  hi(M0*c0) ^ c3 ^ k1,  lo(M0*c0) )
 *
 * and each round increments the key by two constants.  There is no state, so a checkpoint has nothing to save and the
 * numbers do not depend on the order of calls.  Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As
 * Easy as 1, 2, 3", SC 2011; the unit test compares with the known answers published there.  Not for cryptography. */
#include "base/rng.h"
#include <math.h>

enum { ROUNDS = 10 };
static const uint32_t multiplier[2] = { 0xd2511f53u, 0xcd9e8d57u };
static const uint32_t key_step[2] = { 0x9e3779b9u, 0xbb67ae85u }; /* golden ratio, sqrt(3) - 1 */

/* No purpose has the value 0, so the counters that derive sub-stream seeds are not used for anything else. */
enum { PURPOSE_SEED = 0 };

static shoal_rng_block philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t p0 = (uint64_t)multiplier[0] * c0, p1 = (uint64_t)multiplier[1] * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += key_step[0];
    k1 += key_step[1];
  }
  return (shoal_rng_block){ { c0, c1, c2, c3 } };
}

shoal_rng_block shoal_rng(uint64_t seed, shoal_rng_purpose purpose, uint64_t index, uint32_t step)
{
  return philox(seed, (uint32_t)index, (uint32_t)(index >> 32), step, (uint32_t)purpose);
}

uint64_t shoal_rng_seed(uint64_t seed, uint64_t stream)
{
  shoal_rng_block r = philox(seed, (uint32_t)stream, (uint32_t)(stream >> 32), 0, PURPOSE_SEED);
  return (uint64_t)r.v[1] << 32 | r.v[0];
}

/* Computed in double and rounded once, because the float functions of different C libraries differ in the last bit far
 * more often, and initial weights should not.  a = 0 gives the largest radius, sqrt(2 * 32 * ln 2) = 6.66, so no result
 * is infinite. */
void shoal_rng_normal2(uint32_t a, uint32_t b, float out[2])
{
  double radius = sqrt(-2.0 * log(((double)a + 1.0) * 0x1p-32));
  double angle = 6.283185307179586 * ((double)b * 0x1p-32);
  out[0] = (float)(radius * cos(angle));
  out[1] = (float)(radius * sin(angle));
}
