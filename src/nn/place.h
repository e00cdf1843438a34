/* Where buffers go: each lives from one moment of the step to another, and two that never live together may share
 * memory.
 *
 *   offset
 *     ^   +-----------+      +---------+
 *     |   | saved 1   |      |  dx 3   |
 *     |   +---------+-+------+--+------+
 *     |   |   y 1   |   dx 4    |
 *     +---+---------+-----------+------------> time: forward 0..n-1, loss, backward n-1..0
 */
#ifndef SHOAL_NN_PLACE_H
#define SHOAL_NN_PLACE_H
#include "base/status.h"
#include <stddef.h>

typedef struct {
  size_t bytes;
  int birth, death; /* both moments included; birth <= death */
  size_t offset;    /* out: a multiple of 64 */
} shoal_slot;

/** Give every slot an offset so that slots alive at the same moment do not overlap; *total is the arena they need.
 *  Largest first, each at the lowest free place: simple, the same every time, and close to the largest sum alive. */
shoal_status shoal_place(shoal_slot *slots, int n, size_t *total);
#endif
