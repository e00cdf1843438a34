/* Memory planning: every buffer is live during an interval of the step, and buffers that are never live together may
 * share memory.
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
  int birth, death; /* lifetime, both ends included; birth <= death */
  size_t offset;    /* out: a multiple of 64 */
} shoal_slot;

/** Assigns every slot an offset so that slots live at the same time do not overlap; *total is the size of the arena.
 *  Largest first, each at the lowest free offset: simple, deterministic, and close to the peak of live bytes. */
shoal_status shoal_place(shoal_slot *slots, int n, size_t *total);
#endif
