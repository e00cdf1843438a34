/* The inside of method ab: what ab.c (hooks), ab_phase.c (split and reconcile) and ab_save.c (checkpoints) share.
 *
 *   whole   the model of full-rank weights: the loop's own, borrowed.  While factors are trained its weights' places hold
 *           the products, and its optimizer state waits
 *   part    the model of factors: an arena of its own, sized for full rank once, cut anew at every split
 *
 *   part's arena   [ trained factors, biases, norms, exempt layers, in order of the model | frozen factors ]
 *                    trained, summed inside the group                                       read only            */
#ifndef SHOAL_METHOD_AB_IMPL_H
#define SHOAL_METHOD_AB_IMPL_H
#include "method/ab/ab.h"
#include "method/common/buckets.h"
#include "method/method.h"

/* How groups come together again. */
typedef enum { SHOAL_AB_WITH_STALE, SHOAL_AB_ONLY_LEARNED, SHOAL_AB_FULL, SHOAL_AB_ONLY_B } shoal_ab_mode;

typedef struct {
  shoal_ab_mode mode;
  shoal_ab_schedule schedule;
  uint64_t steps; /* of the whole run */
  int64_t batch;  /* usual samples per rank, the largest of all ranks: decides how layers are computed */
  double cutoff, ramp_from;
  bool cut_first, cap, reset, swap;
  shoal_sum_algorithm algorithm;
  shoal_wire wire;
  shoal_ab_layers layers;
  shoal_ab_groups groups;
  int group;               /* mine */
  shoal_group *own, *half; /* my group, or NULL: all; the ranks of my half, where only-learned sums over them */
  shoal_buckets *full;     /* sums of full-rank steps */
  shoal_form *whole;       /* the loop's, borrowed */
  shoal_form part;
  bool factored;                  /* part is trained now */
  shoal_model *cut;               /* == part.model */
  int64_t *rank;                  /* [layers.n] of `cut` */
  shoal_product *product;         /* [layers.n] factors in `cut` */
  shoal_factor_training training; /* of `cut` */
  shoal_buckets *buckets;         /* sums of steps on factors */
  shoal_range *range;             /* == part.ranges: factors and the rest in turn */
  uint64_t *age;                  /* [ranges] steps each was trained */
  bool *is_factor;                /* [ranges] */
  size_t ranges;
  uint64_t splits;          /* so far, in all attempts */
  uint64_t phase_steps;     /* since the last one */
  uint64_t factor_steps[2]; /* this rank's steps on A and on B before that */
  shoal_ab_ramp ramp;
  uint32_t op_split, op_reconcile;
  bool advised; /* how to make factors smaller: once is enough */
} shoal_ab_state;

/* ---- ab_phase.c; all collective ---- */
/** Weights become products, cut at `cutoff` if `cut`, and the part is what is trained.  The ramp starts. */
shoal_status shoal_ab_split(shoal_run *r, shoal_ab_state *s, bool cut);
/** Groups come together, and the whole is what is trained.  The ramp starts. */
shoal_status shoal_ab_reconcile(shoal_run *r, shoal_ab_state *s);
/** What reconcile would give, in scratch: over the control group, nothing is changed but gradients, which are nobody's
 *  between steps. */
shoal_status shoal_ab_observe(shoal_run *r, shoal_ab_state *s, float *weights, float *stats);
/** The part of these ranks becomes the one that is trained next: model, plans, places of the optimizer's state, which
 *  comes along cut or padded, sums.  Weights are the caller's to fill. */
shoal_status shoal_ab_cut_part(shoal_run *r, shoal_ab_state *s, const int64_t *rank);
void shoal_ab_take(shoal_run *r, shoal_ab_state *s, bool factored); /* trains part or whole from now on */
void shoal_ab_set_ages(shoal_ab_state *s);
void shoal_ab_phase_close(shoal_run *r, shoal_ab_state *s);

/** Says what a split before step number `done` made of the model: ranks, sizes, ways.  Not collective. */
void shoal_ab_print_split(const shoal_run *r, shoal_ab_state *s, uint64_t done, bool cut);

/* ---- ab.c ---- */
/** Steps of the whole run, when `done` led to this place. */
uint64_t shoal_ab_run_length(const shoal_run *r, uint64_t done, uint64_t epoch, uint64_t position);

/* ---- ab_save.c ---- */
shoal_status shoal_ab_save(shoal_run *r, void *state, shoal_ckpt_writer *c);
shoal_status shoal_ab_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);

static inline bool shoal_ab_only_b(const shoal_ab_state *s)
{
  return s->mode == SHOAL_AB_ONLY_B;
}
/* What a group trains after `splits` splits. */
static inline bool shoal_ab_role_a(const shoal_ab_state *s, int group)
{
  return shoal_ab_trains_a(&s->groups, group) != (s->swap && s->splits % 2 == 0);
}
#endif
