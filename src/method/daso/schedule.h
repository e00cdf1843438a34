/* When DASO exchanges between nodes: pure functions of batch, epoch and agreed loss, the same on every rank.
 *
 * Within an epoch, with a global sum every B = 4 batches, collected W = 1 batch later, groups taking turns:
 *
 *   batch     0     1     2     3     4     5     6     7     8     9
 *             S0    R0                S1    R1                S2    X3
 *
 * S starts a sum, R collects it and blends it in, X is a blocking sum that overwrites the weights.  The last batch of
 * an epoch always ends in X; sums in flight are dropped then (D), and the turn goes back to group 0.  With B = 0 every
 * batch is an X.  From epoch to epoch B and W follow a schedule and the loss: warm-up with B = 0, then cycling, where B
 * is halved whenever the loss stagnates and goes back to its maximum after 1, and a cool-down with B = 0.
 *
 * Source: Coquelin et al., Journal of Big Data 9:14, 2022, and the authors' code (helmholtz-analytics/heat); decisions
 * and differences in docs/methods/daso.md. */
#ifndef SHOAL_METHOD_DASO_SCHEDULE_H
#define SHOAL_METHOD_DASO_SCHEDULE_H
#include <stdbool.h>
#include <stdint.h>

/* ---- within an epoch ---- */

typedef enum { SHOAL_DASO_START, SHOAL_DASO_COLLECT, SHOAL_DASO_BLOCK, SHOAL_DASO_DROP } shoal_daso_act;
typedef struct {
  shoal_daso_act act;
  int group;
  uint64_t wait; /* S: for START the batches until it is collected, for COLLECT the age used in the blend */
} shoal_daso_event;

typedef struct {
  int group;
  uint64_t batch; /* of the epoch, in which it was started */
  uint64_t wait;
} shoal_daso_sum;

enum { SHOAL_DASO_SUMS = 2, SHOAL_DASO_EVENTS = 4 };
typedef struct {
  int turn;                            /* the group that starts the next sum */
  int n;                               /* sums in flight */
  shoal_daso_sum sum[SHOAL_DASO_SUMS]; /* oldest first */
} shoal_daso_flow;

typedef struct {
  int groups;           /* a group is all ranks with the same local rank, one per node */
  bool quirks;          /* collect when the reference does; see below */
  uint64_t every, wait; /* B and W; W <= B */
} shoal_daso_cycle;

/** Lists the events after the optimizer's step of batch `b` of `batches`, in order, in `out`; returns their number.
 *  Updates `flow`, which is zeroed at the start of a run and empty after the last batch of an epoch.
 *
 *  With `quirks` sums are collected when the reference collects them, although they keep the age they were started
 *  with: not in the batch before a start, but after that start (so late when W = B - 1), and, near the end of an epoch,
 *  already when as many batches have passed as are left. */
int shoal_daso_events(const shoal_daso_cycle *c, uint64_t b, uint64_t batches, shoal_daso_flow *flow,
                      shoal_daso_event out[SHOAL_DASO_EVENTS]);
/** How many batches there are from `b`, the next one, to the first in which nodes may wait for each other, with it; at most
 *  `most`.  The epoch's last one is such a batch. */
uint64_t shoal_daso_until(const shoal_daso_cycle *c, uint64_t b, uint64_t batches, const shoal_daso_flow *flow,
                          uint64_t most);
/** Whether batch `b` ends in a blocking sum. */
bool shoal_daso_blocks(const shoal_daso_cycle *c, uint64_t b, uint64_t batches);

/* ---- from epoch to epoch ---- */

typedef struct {
  uint64_t epochs, warmup, cooldown; /* of the run, and of its phases with blocking sums at start and end */
  uint64_t max_every;                /* B goes back to this after 1 */
  uint64_t patience;                 /* epochs without improvement before B changes */
  double threshold;                  /* relative decrease of the loss that counts as an improvement */
} shoal_daso_plan;

typedef struct {
  uint64_t every, wait; /* B and W */
  uint64_t bad;         /* epochs since the last improvement or change */
  double best;
} shoal_daso_phase;

/** Default warm-up and cool-down: a tenth of the run each, 1 to 4 epochs; a run of two epochs has no cool-down and one
 *  of a single epoch has neither, so that at least one epoch is left between them. */
void shoal_daso_default_phases(uint64_t epochs, uint64_t *warmup, uint64_t *cooldown);
/** The initial phase of a run that starts after `done` epochs without a known loss. */
void shoal_daso_begin(const shoal_daso_plan *p, uint64_t done, shoal_daso_phase *out);
/** Updates the phase after an epoch: `done` includes it, `loss` is its agreed mean training loss. */
void shoal_daso_next(const shoal_daso_plan *p, uint64_t done, double loss, shoal_daso_phase *phase);
#endif
