/* The arithmetic of the swarm: what an interaction does to one node's vectors.  No messages, no clocks, no memory.
 *
 *   x   the live model, trained by local steps
 *   c   what partners read, and in most variants rewrite
 *   b   the value of x right after this node last folded its own updates in
 *
 *     blocking       V1   c is x itself           both: c ← (Q(c_i) + Q(c_j)) / 2
 *     symmetric      V2   c, b                    both: average c, then fold
 *     pull           V3   c is a copy of x, made after every local step; initiator only: x ← (x + Q(c_j)) / 2
 *     nonblocking    V4   c, b                    both average c; the initiator folds
 *
 * To fold is to apply everything learned since the last time, u = b - x, to the common copy: c ← c - u, b ← c, x ← c.
 * A partner of V4 does not fold: its updates wait in b - x and are applied, once, in its own next interaction.
 * Q(c_i) and Q(c_j) are the values both sides decoded, so both come to the same bits.
 *
 * Because averaging and folding are separate, another interaction may come between the two: that equals the order
 * "average with j, average with k, fold", and nothing is lost either way.
 * Source: Nadiradze et al., NeurIPS 2021; docs/methods/swarm.md says which text or code each variant follows. */
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

/** c ← (mine + theirs) / 2; any of them may be the same array.  The order of the two does not change the bits. */
void shoal_swarm_average(size_t n, const float *mine, const float *theirs, float *c);
/** u = b - x;  c ← c - u;  b ← c;  x ← c.  Returns max |u|. */
double shoal_swarm_fold(const shoal_swarm_node *a);
/** x ← (x + theirs) / 2 */
void shoal_swarm_pull(const shoal_swarm_node *a, const float *theirs);
/** Does this side of an interaction rewrite c; does it fold? */
static inline bool shoal_swarm_averages(shoal_swarm_variant v)
{
  return v != SHOAL_SWARM_PULL;
}
static inline bool shoal_swarm_folds(shoal_swarm_variant v, bool initiator)
{
  return v == SHOAL_SWARM_SYMMETRIC || (v == SHOAL_SWARM_NONBLOCKING && initiator);
}
/** max |a - b| */
double shoal_swarm_distance(size_t n, const float *a, const float *b);

/* The spacings follow the measured distances, so that the window of the quantiser stays twice as wide as what was seen.
 * Of every block b of 4096 numbers:
 *
 *     D_b ← max(0.9 D_b, max |Q(c_j) - c_i|) after each exchange,   D_b ← max(D_b, max |u|) at each fold
 *     s_b = the smallest power of two with q s >= 4 D_b    (half window q s / 2 >= 2 D_b, rounding error s / 2 <= 4 D_b / q)
 *
 * Each side of an interaction sends with spacings of its own.  What they tell each other is the largest of their D_b, and
 * whoever has the smaller one takes all its D_b larger by the ratio, since the partner has moved so much further.  No D_b
 * counts for less than 2^-12 of the largest: a block that never moved (a dead unit, a frozen layer) would else have a
 * window of nothing, and its numbers be rounded ever finer; at that floor its rounding is thousands of times below that of
 * the block which moves most.  While the largest is 0, nothing was measured yet and the exchange goes unquantised. */
#define SHOAL_SWARM_FLOOR 0x1p-12
double shoal_swarm_observe(double distance, double measured); /* what is not finite teaches nothing */
double shoal_swarm_largest(size_t blocks, const double *distance);
/** e of the spacing 2^e for a distance > 0, at least -40 and at most 100. */
int shoal_swarm_exponent(int bits, double distance);
/** Exponents of all blocks.  @param pair  the larger of the two sides' largest, > 0; less than the own is no harm */
void shoal_swarm_exponents(int bits, size_t blocks, const double *distance, double pair, int8_t *exponent);
#endif
