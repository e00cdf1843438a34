/* See swarm_math.h.  Plain loops, one pass each. */
#include "method/swarm/math.h"
#include "base/mem.h"
#include "base/wide.h"
#include <math.h>
#include <string.h>

SHOAL_WIDE void shoal_swarm_average(size_t n, const float *mine, const float *theirs, float *c)
{
  for (size_t i = 0; i < n; i++) c[i] = 0.5f * (mine[i] + theirs[i]);
}

SHOAL_WIDE double shoal_swarm_fold(const shoal_swarm_node *a)
{
  float *restrict x = a->x, *restrict c = a->c, *restrict b = a->b, largest = 0;
  for (size_t i = 0; i < a->n; i++) {
    float u = b[i] - x[i];
    largest = fabsf(u) > largest ? fabsf(u) : largest;
    x[i] = b[i] = c[i] = c[i] - u;
  }
  return (double)largest;
}

void shoal_swarm_pull(const shoal_swarm_node *a, const float *theirs)
{
  shoal_swarm_average(a->n, a->x, theirs, a->x);
}

SHOAL_WIDE bool shoal_swarm_copy(size_t n, const float *from, float *to)
{
  uint32_t marks = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &from[i], sizeof bits);
    marks |= (bits & 0x7f800000u) + 0x00800000u; /* carries if the exponent is all ones */
    memcpy(&to[i], &bits, sizeof bits);
  }
  return marks >> 31 == 0;
}

SHOAL_WIDE double shoal_swarm_distance(size_t n, const float *a, const float *b)
{
  float largest = 0;
  for (size_t i = 0; i < n; i++) {
    float d = fabsf(a[i] - b[i]);
    largest = d > largest ? d : largest;
  }
  return (double)largest;
}

double shoal_swarm_observe(double distance, double measured)
{
  return SHOAL_MAX(0.9 * distance, isfinite(measured) ? measured : 0);
}

double shoal_swarm_largest(size_t blocks, const double *distance)
{
  double largest = 0;
  for (size_t b = 0; b < blocks; b++) largest = SHOAL_MAX(largest, distance[b]);
  return largest;
}

int shoal_swarm_exponent(int bits, double distance)
{
  enum { FINEST = -40, COARSEST = 100 };
  int e;
  double fraction = frexp(4 * distance / (double)(1 << bits), &e); /* fraction in [1/2, 1) times 2^e */
  if (fraction == 0.5) e--;
  return SHOAL_MIN(SHOAL_MAX(e, FINEST), COARSEST);
}

void shoal_swarm_exponents(int bits, size_t blocks, const double *distance, double pair, int8_t *exponent)
{
  double own = shoal_swarm_largest(blocks, distance), most = SHOAL_MAX(own, pair);
  for (size_t b = 0; b < blocks; b++) {
    double d = distance[b];
    if (most > own) d = own > 0 ? most * (d / own) : most; /* never measured: as far as the partner's farthest */
    exponent[b] = (int8_t)shoal_swarm_exponent(bits, SHOAL_MAX(d, SHOAL_SWARM_FLOOR * most));
  }
}
