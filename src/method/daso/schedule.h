/* When DASO's nodes talk to each other: pure functions of batch, epoch and agreed loss, the same on every rank.
 *
 * Within an epoch, with a global sum every B = 4 batches that is collected W = 1 batch later, on groups taking turns:
 *
 *   batch     0     1     2     3     4     5     6     7     8     9
 *             S0    R0                S1    R1                S2    X3
 *
 * S starts a sum, R collects it and blends it in, X is a blocking sum that overwrites.  The last batch of an epoch ends
 * in X always, whatever is under way then is dropped (D), and the turn goes back to group 0.  With B = 0 every batch is
 * an X.  From epoch to epoch B and W follow a schedule and the loss: warm-up with B = 0, then cycling, where B is halved
 * whenever the loss stands still and goes back to its largest value after 1, and a cool-down with B = 0.
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
  uint64_t wait; /* S: for START when it will be collected, for COLLECT the age that enters the blend */
} shoal_daso_event;

typedef struct {
  int group;
  uint64_t batch; /* of the epoch, that started it */
  uint64_t wait;
} shoal_daso_sum;

enum { SHOAL_DASO_SUMS = 2, SHOAL_DASO_EVENTS = 4 };
typedef struct {
  int turn;                            /* the group whose sum is next */
  int n;                               /* sums under way */
  shoal_daso_sum sum[SHOAL_DASO_SUMS]; /* oldest first */
} shoal_daso_flow;

typedef struct {
  int groups;           /* ranks with equal local rank, one per node, are a group */
  bool quirks;          /* collect when the reference does; see below */
  uint64_t every, wait; /* B and W; W <= B */
} shoal_daso_cycle;

/** What happens after the optimizer's step of batch `b` of `batches`, in order, into `out`; returns how many.  Moves
 *  `flow` on, which is zeroed at the start of a run and empty after the last batch of an epoch.
 *
 *  With `quirks` sums are collected when the reference collects them, although they keep the age they were started with:
 *  not in the batch before a start, but after that start (so late when W = B - 1), and, near the end of an epoch, already
 *  when as many batches have passed as are left. */
int shoal_daso_events(const shoal_daso_cycle *c, uint64_t b, uint64_t batches, shoal_daso_flow *flow,
                      shoal_daso_event out[SHOAL_DASO_EVENTS]);
/** Does batch `b` end in a blocking sum? */
bool shoal_daso_blocks(const shoal_daso_cycle *c, uint64_t b, uint64_t batches);

/* ---- from epoch to epoch ---- */

typedef struct {
  uint64_t epochs, warmup, cooldown; /* of the run, and of them with blocking sums at its start and end */
  uint64_t max_every;                /* B goes back to this after 1 */
  uint64_t patience;                 /* epochs without improvement that change nothing yet */
  double threshold;                  /* fall of the loss that is an improvement, as a share of the best */
} shoal_daso_plan;

typedef struct {
  uint64_t every, wait; /* B and W */
  uint64_t bad;         /* epochs since the last improvement or change */
  double best;
} shoal_daso_phase;

/** Warm-up and cool-down of a run that names none: a tenth of it each, 1 to 4 epochs; a run of two epochs has no
 *  cool-down and one of a single epoch neither, so that there is always something between them. */
void shoal_daso_default_phases(uint64_t epochs, uint64_t *warmup, uint64_t *cooldown);
/** The phase of a run that begins with `done` epochs behind it and has heard no loss yet. */
void shoal_daso_begin(const shoal_daso_plan *p, uint64_t done, shoal_daso_phase *out);
/** After an epoch: `done` counts it, `loss` is its mean training loss as all ranks agree on it. */
void shoal_daso_next(const shoal_daso_plan *p, uint64_t done, double loss, shoal_daso_phase *phase);
#endif
