/* The replay buffer in front of a block: earlier minibatches of its predecessor.
 *
 *       producer: add ──→ [ 7 | 8 | 9 | 6 ]  ──→ select: the newest of the least used entries
 *                                       ^ write pointer: the oldest is replaced first
 *
 * A block with a buffer never waits for its predecessor once there is an entry, and the predecessor never waits for it;
 * the price is that entries are stale and used several times or never.  Counts how often each entry was used and how
 * many were overwritten unused.  Bookkeeping only; the caller owns the memory of the slots.
 *
 * Counts start at 1 when an entry is written, and an entry is exhausted at max_uses (so max_uses 2 allows one use), as
 * in the released code.  Differences: there the slot at the write pointer, the oldest, counts as the newest once the
 * buffer has wrapped; and a buffer of one entry has no accounting.
 * Source: Belilovsky et al., Decoupled Greedy Learning of CNNs, ICML 2020, section on asynchronous learning. */
#ifndef SHOAL_METHOD_LOCAL_REPLAY_H
#define SHOAL_METHOD_LOCAL_REPLAY_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
  int size, next;                 /* next: the write pointer */
  int max_uses;                   /* 0: no limit */
  uint64_t written, used, unused; /* unused: overwritten before any use */
  int *uses;                      /* [size] 0: empty; else 1 + uses; owned */
  uint64_t *when;                 /* [size] number of the write; owned */
} shoal_local_replay;

shoal_status shoal_local_replay_init(int size, int max_uses, shoal_local_replay *out);
void shoal_local_replay_fini(shoal_local_replay *b); /* also for a zeroed one */
/** The slot of the next entry, without changing anything.  Data may be received into it before add. */
int shoal_local_replay_next(const shoal_local_replay *b);
/** Records that an entry was written to that slot. */
void shoal_local_replay_add(shoal_local_replay *b);
/** Returns the slot to train on and counts the use; -1: none yet, or all exhausted.  *age: number of later writes. */
int shoal_local_replay_select(shoal_local_replay *b, uint64_t *age);
#endif
