/* AB-training, the pure part: the schedule, which ranks train which factor together, which layers become products, and
 * message sizes.  Pure functions of their arguments, tested without MPI.
 *
 *   step      0 ........ Tw ............ mT .. mT+D ............ (m+1)T .. (m+1)T+D ....
 *   mode      full rank  | A B, no cut   | full | A B, cut       | full    | A B, cut
 *                      split         reconcile split         reconcile   split
 *
 * Source: Coquelin et al., AB-Training, arXiv 2405.01067; docs/methods/ab.md says what follows the paper
 * and what the authors' code. */
#ifndef SHOAL_METHOD_AB_H
#define SHOAL_METHOD_AB_H
#include "nn/model.h"

/* ---- schedule.c ---- */

typedef struct {
  uint64_t warmup;  /* T_w: full-rank steps before the first split */
  uint64_t cycle;   /* T: reconciliations are at its multiples, counted from step 0 */
  uint64_t rebound; /* D: full-rank steps after a reconciliation */
  uint64_t ramp;    /* R: steps of the learning rate ramp after a transition; 0: none */
} shoal_ab_schedule;
typedef enum {
  SHOAL_AB_NOTHING,
  SHOAL_AB_SPLIT, /* into factors, without truncation */
  SHOAL_AB_RECONCILE,
  SHOAL_AB_SPLIT_CUT,
  SHOAL_AB_RAMP_ONLY /* a rebound would end here, but factors are trained already: only the ramp restarts */
} shoal_ab_event;

/** ERR_USAGE unless cycle >= 2 and 1 <= rebound < cycle. */
shoal_status shoal_ab_schedule_check(const shoal_ab_schedule *s);
/** In proportion to the authors' ResNet-50 runs: a run of K steps has cycles of K/15 (at least 10), rebounds of a tenth
 *  of one, ramps of a quarter; the first split is where a rebound would end, after 3 cycles. */
shoal_ab_schedule shoal_ab_schedule_of(uint64_t steps);
/** The event after k steps (k = 0: before the first). */
shoal_ab_event shoal_ab_event_at(const shoal_ab_schedule *s, uint64_t k);
bool shoal_ab_factored(const shoal_ab_schedule *s, uint64_t k);    /* whether step k, from 0, trains factors */
bool shoal_ab_first_phase(const shoal_ab_schedule *s, uint64_t k); /* ... of the phase that starts at T_w */

/* The learning rate ramp after a transition: start it, then call rate once per step. */
typedef struct {
  uint64_t done; /* steps of this ramp */
  double slope;
  bool active;
} shoal_ab_ramp;
void shoal_ab_ramp_start(shoal_ab_ramp *r, uint64_t steps); /* 0: there is none */
/** The rate of this step: min(scheduled, slope j) in step j = 1, 2, ... of the ramp, but min(from, slope) in the first;
 *  slope = (scheduled - from) / steps with the rate scheduled for that first step.  If the scheduled rate is at most
 *  `from`, the ramp ends. */
double shoal_ab_ramp_rate(shoal_ab_ramp *r, uint64_t steps, double from, double scheduled);

/* ---- groups.c ---- */

enum { SHOAL_AB_AUTO = 0, SHOAL_AB_HALVES = -1 }; /* special group sizes */
typedef struct {
  int size, groups, a_groups; /* number of ranks and groups; the first a_groups train A, the others B */
  int *rank;                  /* [size] ranks, node by node */
  int *first;                 /* [groups + 1] group i holds rank[first[i]] ... rank[first[i + 1] - 1] */
} shoal_ab_groups;
/** Ranks are taken node by node, in order within a node.
 *  @param node    [size] the node of each rank
 *  @param ranks   per group: s consecutive ones, size div s groups, the first groups get one of the remaining ranks
 *                 each; HALVES: one A- and one B-group; AUTO: the ranks of a node, or HALVES where there is one node
 *  @param only_b  there is no A: all groups train B, and AUTO and HALVES are one group of all
 *  @return ERR_USAGE if there is no A-group, or groups of one half differ in size */
shoal_status shoal_ab_groups_make(const int *node, int size, int64_t ranks, bool only_b, shoal_ab_groups *out);
void shoal_ab_groups_free(shoal_ab_groups *g);
int shoal_ab_group_of(const shoal_ab_groups *g, int rank);
bool shoal_ab_trains_a(const shoal_ab_groups *g, int group);

/* ---- layers.c ---- */

/* A weight that becomes a product.  In 2-D form it is rows x cols; m is the longer side, n the shorter. */
typedef struct {
  int node, param;
  int64_t rows, cols, m, n;
} shoal_ab_layer;
typedef struct {
  size_t n;
  shoal_ab_layer *layer; /* [n] in order of the model; owned */
  size_t others;         /* elements of all other parameters: N_1 + N_X */
} shoal_ab_layers;
/** Linear layers and convolutions whose weight has more than one dimension that is not 1, except those named.
 *  @param exempt  names of layers, or the words "first" and "last", which mean the first and last such layer; none: no
 *                 layer is exempt
 *  @return ERR_USAGE for an unknown name, or if no layer is left */
shoal_status shoal_ab_layers_make(const shoal_model *m, const char *const *exempt, size_t n_exempt,
                                  shoal_ab_layers *out);
void shoal_ab_layers_free(shoal_ab_layers *l);
/** The largest rank that stores no more than the weight itself: floor(m n / (m + n)), at least 1. */
int64_t shoal_ab_rank_cap(const shoal_ab_layer *l);

/* Elements in one exchange, by rank [n] of each layer (section "Bytes" of docs/methods/ab.md). */
typedef struct {
  size_t weights; /* sum of m n */
  size_t a, b;    /* sums of m r and r n */
  size_t others;
} shoal_ab_volume;
shoal_ab_volume shoal_ab_volume_of(const shoal_ab_layers *l, const int64_t *rank);
/** Resizes the optimizer state of a factor whose rank has changed: from [rows, cols] to [to_rows, to_cols], truncated
 *  or padded with zeros at the end of each dimension. */
shoal_status shoal_ab_fit(shoal_backend *b, const float *from, int64_t rows, int64_t cols, float *to, int64_t to_rows,
                          int64_t to_cols);
#endif
