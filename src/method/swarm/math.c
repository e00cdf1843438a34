/* See math.h. */
#include "method/swarm/math.h"
#include "base/mem.h"
#include <math.h>

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

void shoal_swarm_exponents(int bits, size_t blocks, const double *distance, double own, double pair, int8_t *exponent)
{
  double most = SHOAL_MAX(own, pair);
  for (size_t b = 0; b < blocks; b++) {
    double d = distance[b];
    if (most > own) d = own > 0 ? most * (d / own) : most; /* never measured: as far as the partner's farthest */
    exponent[b] = (int8_t)shoal_swarm_exponent(bits, SHOAL_MAX(d, SHOAL_SWARM_FLOOR * most));
  }
}
