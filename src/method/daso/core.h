/* What DASO does when its schedule says so: start, collect, block and drop sums between nodes.
 *
 *   node 0   [0  1  2]        node groups: gradients in every step, and what a sum brought, from one rank to the others
 *   node 1   [3  4]           groups across nodes: {0, 3, 5} and {1, 4, 6}, as many as the smallest node has ranks;
 *   node 2   [5  6  7]        they take turns, so that each node sends its model once in every sum
 *
 * Ranks beyond the smallest node's size (2 and 7) are in no group across; they learn from their node like all others.
 * Every rank hears every event, so node broadcasts match whatever its part in the sum is.  With one rank per node there
 * is one group of all ranks, which may have two sums under way; with one node there is nothing to do between nodes. */
#ifndef SHOAL_METHOD_DASO_CORE_H
#define SHOAL_METHOD_DASO_CORE_H
#include "method/daso/parcel.h"
#include "method/daso/schedule.h"
#include "method/method.h"

/* One sum of my group: a private copy of the weights, which becomes their sum over the nodes. */
typedef struct {
  shoal_exchange *exchange;
  float *x;        /* [n] */
  bool busy;       /* between start and collect or drop */
  bool complete;   /* read from a checkpoint, where sums are complete */
  uint64_t serial; /* the older sum has the smaller one */
} shoal_daso_slot;

typedef struct {
  int nodes, groups;
  shoal_group *node, *across; /* across: NULL for a rank that is in none */
  float adjustment;           /* how much the own weights count per batch of age */
  int slots;                  /* 0: this rank is in no sum */
  shoal_daso_slot slot[SHOAL_DASO_SUMS];
  uint64_t serial;
  shoal_parcels *parcels; /* of blocking sums in 16 bits; NULL: in f32 */
  float *common;          /* [n] what all ranks had after the last blocking sum; NULL: parcels hold values */
  bool equal;             /* all ranks have the same weights, to the bit */
  uint64_t (*broadcast)[SHOAL_LINK_COUNT]; /* [groups] bytes I send when local rank j hands weights to its node */
  uint64_t ring[SHOAL_LINK_COUNT], half[SHOAL_LINK_COUNT]; /* bytes I send in a sum in f32, and in parcels */
  uint32_t (*op)[4];                                       /* [groups] names of the events in the trace */
  uint32_t op_parcels;
} shoal_daso;

/** Groups, exchanges and memory.  Collective.  `c` is zeroed.
 *  @param wire   of the blocking sums of warm-up and cool-down
 *  @param delta  their parcels hold the change since the last blocking sum */
shoal_status shoal_daso_open(shoal_run *r, shoal_wire wire, bool delta, float adjustment, shoal_daso *c);
void shoal_daso_close(shoal_daso *c); /* after half an open too */
/** An event after the optimizer's step.  Collective.
 *  @param half  a blocking sum goes in 16 bits, if there are parcels
 *  @return ERR_NUMERIC on a rank that would have to send what is not finite */
shoal_status shoal_daso_perform(shoal_run *r, shoal_daso *c, const shoal_daso_event *e, bool half);
/** Wait until sums under way are complete; they stay to be collected.  For checkpoints. */
shoal_status shoal_daso_settle(shoal_daso *c);
/** The sum of my group number `i` from the oldest that is under way; NULL if there is none. */
shoal_daso_slot *shoal_daso_pending(shoal_daso *c, int i);
/** A slot for one more sum of my group, read from elsewhere: its x is to be filled. */
shoal_daso_slot *shoal_daso_restore(shoal_daso *c);
/** Weights were read from a checkpoint, the same on all ranks if `equal`. */
void shoal_daso_adopt(shoal_run *r, shoal_daso *c, bool equal);
#endif
