/* Internal interface of method ab: ab.c (hooks), phase.c (split and reconcile) and save.c (checkpoints).
 *
 *   whole   the model of full-rank weights: borrowed from the loop.  While factors are trained its weights hold the
 *           products, and its optimizer state is not used
 *   part    the model of factors: its own arena, allocated once for full rank, laid out again at every split
 *
 *   part's arena   [ trained factors, biases, norms, exempt layers, in order of the model | frozen factors ]
 *                    trained, summed inside the group                                       read only            */
#ifndef SHOAL_METHOD_AB_IMPL_H
#define SHOAL_METHOD_AB_IMPL_H
#include "method/ab/ab.h"
#include "method/common/buckets.h"
#include "method/method.h"

/* How groups reconcile. */
typedef enum { SHOAL_AB_WITH_STALE, SHOAL_AB_ONLY_LEARNED, SHOAL_AB_FULL, SHOAL_AB_ONLY_B } shoal_ab_mode;

typedef struct {
  shoal_ab_mode mode;
  shoal_ab_schedule schedule;
  uint64_t steps; /* of the whole run */
  int64_t batch;  /* samples per rank of a full batch, maximum over ranks: decides how layers are computed */
  double cutoff, ramp_from;
  bool cut_first, cap, reset, swap;
  shoal_sum_algorithm algorithm;
  shoal_wire wire;
  shoal_ab_layers layers;
  shoal_ab_groups groups;
  int group;               /* of this rank */
  shoal_group *own, *half; /* this rank's group, NULL: all; the ranks of its half, for only-learned */
  shoal_buckets *full;     /* sums of full-rank steps */
  shoal_form *whole;       /* the loop's, borrowed */
  shoal_form part;
  bool factored;                  /* the part is being trained */
  shoal_model *cut;               /* == part.model */
  int64_t *rank;                  /* [layers.n] of `cut` */
  shoal_product *product;         /* [layers.n] factors in `cut` */
  shoal_factor_training training; /* of `cut` */
  shoal_buckets *buckets;         /* sums of steps on factors */
  shoal_range *range;             /* == part.ranges: factors and the rest alternate */
  uint64_t *age;                  /* [ranges] steps of training */
  bool *is_factor;                /* [ranges] */
  size_t ranges;
  uint64_t splits;          /* so far, in all attempts */
  uint64_t phase_steps;     /* since the last split */
  uint64_t factor_steps[2]; /* this rank's steps on A and on B before it */
  shoal_ab_ramp ramp;
  uint32_t op_split, op_reconcile;
  bool advised; /* the hint on smaller factors was printed */
} shoal_ab_state;

/* ---- phase.c; all collective ---- */
/** Splits weights into products, truncated at `cutoff` if `cut`, and trains the part from now on.  Starts the ramp. */
shoal_status shoal_ab_split(shoal_run *r, shoal_ab_state *s, bool cut);
/** Reconciles the groups and trains the whole from now on.  Starts the ramp. */
shoal_status shoal_ab_reconcile(shoal_run *r, shoal_ab_state *s);
/** Writes the result that reconcile would give into `weights` and `stats`, over the control group.  Overwrites
 *  gradients, nothing else. */
shoal_status shoal_ab_observe(shoal_run *r, shoal_ab_state *s, float *weights, float *stats);
/** Builds the part with these ranks for training: model, plans, sums, and the optimizer's state, truncated or padded.
 *  The caller sets the weights. */
shoal_status shoal_ab_cut_part(shoal_run *r, shoal_ab_state *s, const int64_t *rank);
void shoal_ab_take(shoal_run *r, shoal_ab_state *s, bool factored); /* train the part or the whole from now on */
void shoal_ab_set_ages(shoal_ab_state *s);
void shoal_ab_phase_close(shoal_run *r, shoal_ab_state *s);

/** Logs the result of a split before step `done`: ranks, sizes, how layers are computed.  Not collective. */
void shoal_ab_print_split(const shoal_run *r, shoal_ab_state *s, uint64_t done, bool cut);

/* ---- ab.c ---- */
/** Steps of the whole run, if `done` steps led to this epoch and position. */
uint64_t shoal_ab_run_length(const shoal_run *r, uint64_t done, uint64_t epoch, uint64_t position);

/* ---- save.c ---- */
shoal_status shoal_ab_save(shoal_run *r, void *state, shoal_ckpt_writer *c);
shoal_status shoal_ab_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);

static inline bool shoal_ab_only_b(const shoal_ab_state *s)
{
  return s->mode == SHOAL_AB_ONLY_B;
}
/* Steps that groups make between two places where all wait for each other, at most. */
static inline uint64_t shoal_ab_apart(const shoal_ab_state *s)
{
  return s->own && s->schedule.warmup < s->steps ? s->schedule.cycle - s->schedule.rebound : 1;
}
/* Whether a group trains A after `splits` splits. */
static inline bool shoal_ab_role_a(const shoal_ab_state *s, int group)
{
  return shoal_ab_trains_a(&s->groups, group) != (s->swap && s->splits % 2 == 0);
}
#endif
