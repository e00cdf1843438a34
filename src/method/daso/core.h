/* DASO's sums between nodes: start, collect, block and drop, as told by the schedule.
 *
 *   node 0   [0  1  2]        node groups: gradient sums in every step, and broadcasts of the result of a global sum
 *   node 1   [3  4]           groups across nodes: {0, 3, 5} and {1, 4, 6}, as many as the smallest node has ranks;
 *   node 2   [5  6  7]        they take turns, so that each node sends its model once per sum
 *
 * Ranks beyond the smallest node's size (2 and 7) are in no group across; they only receive the node's broadcast.
 * Every rank processes every event, so that node broadcasts match whether or not it takes part in the sum.  With one
 * rank per node there is one group of all ranks, which may have two sums in flight; with one node there are no global
 * sums. */
#ifndef SHOAL_METHOD_DASO_CORE_H
#define SHOAL_METHOD_DASO_CORE_H
#include "method/daso/parcel.h"
#include "method/daso/schedule.h"
#include "method/method.h"

/* A global sum of this rank's group: a private copy of the weights, replaced by the sum over the nodes. */
typedef struct {
  shoal_exchange *exchange;
  shoal_memory x;  /* float [n] */
  bool busy;       /* from start until collected or dropped */
  bool complete;   /* read from a checkpoint, which holds complete sums */
  uint64_t serial; /* smaller for the older sum */
} shoal_daso_slot;

typedef struct {
  int nodes, groups;
  shoal_group *node, *across; /* across: NULL if this rank is in none */
  float adjustment;           /* weight of the local parameters per batch of age */
  int slots;                  /* 0: this rank is in no group across */
  shoal_daso_slot slot[SHOAL_DASO_SUMS];
  uint64_t serial;
  shoal_parcels *parcels; /* for blocking sums in 16 bits; NULL: in f32 */
  shoal_memory
      common;        /* float [n] weights after the last blocking sum, equal on all ranks; none: parcels hold values */
  shoal_memory flag; /* uint32_t, pinned: weights are not finite */
  bool equal;        /* weights are bitwise equal on all ranks */
  uint64_t (*broadcast)[SHOAL_LINK_COUNT]; /* [groups] bytes this rank sends if local rank j broadcasts to its node */
  uint64_t ring[SHOAL_LINK_COUNT], half[SHOAL_LINK_COUNT]; /* bytes this rank sends in a sum in f32, and in parcels */
  uint32_t (*op)[4];                                       /* [groups] names of the events in the trace */
  uint32_t op_parcels;
} shoal_daso;

/** Creates groups, exchanges and memory.  Collective.  `c` is zeroed by the caller.
 *  @param wire   of the blocking sums of warm-up and cool-down
 *  @param delta  their parcels hold the change since the last blocking sum */
shoal_status shoal_daso_open(shoal_run *r, shoal_wire wire, bool delta, float adjustment, shoal_daso *c);
void shoal_daso_close(shoal_run *r, shoal_daso *c); /* also after a failed open */
/** Performs an event after the optimizer's step.  Collective.
 *  @param half  a blocking sum uses 16 bits, if there are parcels
 *  @return ERR_NUMERIC on a rank whose weights are not finite */
shoal_status shoal_daso_perform(shoal_run *r, shoal_daso *c, const shoal_daso_event *e, bool half);
/** Waits until sums in flight are complete, without collecting them.  For checkpoints. */
shoal_status shoal_daso_settle(shoal_daso *c);
/** The i-th oldest uncollected sum of this rank's group; NULL if there is none. */
shoal_daso_slot *shoal_daso_pending(shoal_daso *c, int i);
/** Reserves a slot for a sum read from a checkpoint; the caller fills x. */
shoal_daso_slot *shoal_daso_restore(shoal_daso *c);
/** Call after weights were read from a checkpoint; `equal`: they are the same on all ranks. */
shoal_status shoal_daso_adopt(shoal_run *r, shoal_daso *c, bool equal);
#endif
