/* How an interaction updates one node's vectors; `average`, `fold` and `meet` of the backend do it.  Here is what depends on a
 * few numbers only.
 *
 *   x   the live model, trained by local steps
 *   c   the copy that partners read, and in most variants update
 *   b   the value of x right after this node last folded in its own updates
 *
 *     blocking       V1   c is x itself           both: c ← (Q(c_i) + Q(c_j)) / 2
 *     symmetric      V2   c, b                    both: average c, then fold
 *     pull           V3   c is a copy of x, made after every local step; initiator only: x ← (x + Q(c_j)) / 2
 *     nonblocking    V4   c, b                    both average c; the initiator folds
 *
 * Folding applies all local updates since the last fold, u = b - x, to the common copy: c ← c - u, b ← c, x ← c.
 * A partner of V4 does not fold: its updates wait in b - x and are applied, once, in its own next interaction.
 * Q(c_i) and Q(c_j) are the values that both sides decoded, so both compute the same bits.
 *
 * Because averaging and folding are separate, another interaction may happen between the two: this equals the order
 * "average with j, average with k, fold", and no update is lost.
 * Source: Nadiradze et al., NeurIPS 2021; docs/methods/swarm.md names the source of each variant. */
#ifndef SHOAL_METHOD_SWARM_MATH_H
#define SHOAL_METHOD_SWARM_MATH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  SHOAL_SWARM_BLOCKING,
  SHOAL_SWARM_SYMMETRIC,
  SHOAL_SWARM_PULL,
  SHOAL_SWARM_NONBLOCKING
} shoal_swarm_variant;

typedef struct {
  size_t n;
  float *x, *c, *b; /* [n]; c == x in V1; b NULL in V1 and V3 */
} shoal_swarm_node;

/** Whether this side of an interaction updates c, and whether it folds. */
static inline bool shoal_swarm_averages(shoal_swarm_variant v)
{
  return v != SHOAL_SWARM_PULL;
}
static inline bool shoal_swarm_folds(shoal_swarm_variant v, bool initiator)
{
  return v == SHOAL_SWARM_SYMMETRIC || (v == SHOAL_SWARM_NONBLOCKING && initiator);
}
/* Spacings follow the measured distances, so that the quantiser's window is twice as wide as the distances seen.
 * For every block b of 4096 values:
 *
 *     D_b ← max(0.9 D_b, max |Q(c_j) - c_i|) after each exchange,   D_b ← max(D_b, max |u|) at each fold
 *     s_b = the smallest power of two with q s >= 4 D_b    (half window q s / 2 >= 2 D_b, rounding error s / 2 <= 4 D_b / q)
 *
 * Each side of an interaction sends with its own spacings.  The sides exchange their largest D_b; the one with the
 * smaller value scales all its D_b by the ratio, since the partner has moved that much further.  Every D_b is at least
 * 2^-12 of the largest: otherwise a block that never moved (a dead unit, a frozen layer) would have an empty window; at
 * that floor its rounding error is thousands of times below that of the block that moves most.  While the largest is 0,
 * nothing was measured yet and values are sent unquantised. */
#define SHOAL_SWARM_FLOOR 0x1p-12
double shoal_swarm_observe(double distance, double measured); /* ignores NaN and infinity */
double shoal_swarm_largest(size_t blocks, const double *distance);
/** e of the spacing 2^e for a distance > 0, clamped to -40 ... 100. */
int shoal_swarm_exponent(int bits, double distance);
/** Exponents of some blocks.
 *  @param own   this side's largest D_b, of all blocks
 *  @param pair  the larger of both sides' largest, > 0; a smaller value is raised to `own` */
void shoal_swarm_exponents(int bits, size_t blocks, const double *distance, double own, double pair, int8_t *exponent);
#endif
