/* What the files of the method `local` share.
 *
 *     local_plan.c    on paper: cuts, blocks, grids, dates                 (pure)
 *     local_replay.c  bookkeeping of a replay buffer                       (pure)
 *     local_parts.c   blocks as models, what they cost, who holds them
 *     local_cut.c     where blocks begin and which rank trains which
 *     local_feed.c    activations from the stage before and to the one behind
 *     local_pair.c    overlapping: the layers that two blocks train
 *     local_state.c   the whole model, scores of all heads, checkpoints
 *     local.c         options, opening, the step                           start reading here */
#ifndef SHOAL_METHOD_LOCAL_H
#define SHOAL_METHOD_LOCAL_H
#include "method/common/buckets.h"
#include "method/local/plan.h"
#include "method/local/replay.h"
#include "method/method.h"
#include "nn/heads.h"

/* ---- parts: every rank knows all of them ---- */

/* A block as a model: its units and a head, or the network's own classifier. */
typedef struct {
  shoal_local_block units;
  shoal_model *model;  /* owned */
  shoal_head head;     /* its kind: not `auto` */
  size_t head_weights; /* the last ones of the arena; 0: the network's own */
  size_t head_stats;   /* of the statistics, too */
  int out_node;        /* whose output the next block reads; -1: nobody does */
  size_t elements;     /* of that, per sample */
  shoal_range lower,
      upper; /* overlapping: in the arena, the layer shared with the block before, and behind; or empty */
  double cost;
} shoal_local_part;

/* All blocks and where they are: stage s holds parts [stage_first[s], stage_first[s + 1]). */
typedef struct {
  shoal_local_form form;
  shoal_head head;
  int n, *stage_first; /* owned: [grid.stages + 1] */
  shoal_local_part *part;
  shoal_local_grid grid;
} shoal_local_parts;

/** What layers cost per sample: multiply-accumulates, what they write, and weights once per minibatch, counted.
 *  @param batch  samples of a minibatch   @param cost, heads  out, [layers] */
shoal_status shoal_local_count(const shoal_model *m, shoal_head head, uint64_t batch, double *cost, double *heads);
/** The same in seconds, measured on this rank with training steps of single layers at this batch size. */
shoal_status shoal_local_measure(shoal_backend *b, const shoal_model *m, shoal_head head, int64_t batch, double *cost,
                                 double *heads);
/** Models of these blocks.  Stages are not dealt yet.  @param batch  for their cost   @param blocks  [n] */
shoal_status shoal_local_parts_create(const shoal_model *m, shoal_local_form form, shoal_head head, uint64_t batch,
                                      const shoal_local_block *blocks, int n, shoal_local_parts **out);
void shoal_local_parts_destroy(shoal_local_parts *p);
/** Deal the parts to the grid's stages, by cost. */
shoal_status shoal_local_deal(shoal_local_parts *p, const shoal_local_grid *grid);
/** One arena for the parts of a stage, where each begins, [parts of the stage].  *out belongs to the caller. */
shoal_status shoal_local_join(const shoal_local_parts *p, int stage, size_t *weights_at, size_t *stats_at,
                              shoal_model **out);
static inline int shoal_local_stage_of(const shoal_local_parts *p, int part)
{
  int s = 0;
  while (p->stage_first[s + 1] <= part) s++;
  return s;
}

/* ---- what one rank trains ---- */

typedef struct {
  const shoal_local_part *part;
  int number;          /* of the part */
  size_t at, stats_at; /* its piece of the rank's arena */
  shoal_params params; /* a view of that piece */
  shoal_form form;     /* of the block: these params, plans that are owned; the optimizer is the whole arena's */
  shoal_plan *plan;    /* of this step */
  float *input;        /* owned; NULL for the rank's first block, whose input comes from elsewhere */
  shoal_buckets *sums; /* with the other replicas; NULL: there are none */
} shoal_local_trained;

/* A minibatch on its way through the blocks. */
typedef struct {
  shoal_local_header head;
  const float *x;
  const int32_t *y;
  uint64_t age; /* replay: minibatches that came after it */
} shoal_local_batch;

typedef struct shoal_local_feed shoal_local_feed;
typedef struct shoal_local_pairs shoal_local_pairs;

typedef struct {
  shoal_local_parts *parts;
  shoal_model *arena; /* joined models of this rank's parts: the model of the run's form */
  int rank, stage, replica, n;
  shoal_local_trained *block; /* [n] */
  shoal_group *replicas;      /* of this stage; NULL: alone */
  int64_t max_samples;        /* of this replica in a step */
  shoal_local_feed *feed;
  shoal_local_pairs *pairs; /* overlapping only */
  bool averages_parameters;
  double clip; /* overlapping: what blocks clip to, in place of the optimizer; 0: it does */
  uint32_t op_forward, op_backward, op_optimizer;
  const char **columns; /* owned, names too */
  size_t n_columns;
  shoal_params **whole; /* [parts] while the model is being looked at: weights of all blocks, heads too */
  shoal_plans **plans;  /* [parts] for that */
  float *passed[2];     /* activations between them */
  double observed;      /* samples */
} shoal_local;

/* ---- the cut ---- */

/** Parts, grid, what of them is this rank's, and one arena for that: the hook of the method.  Collective. */
shoal_status shoal_local_outline(shoal_run *r, void *state, shoal_outline *out);

/* ---- feed: one message per step and boundary, forward only ---- */

/** @param depth   minibatches that may wait here; @param replay  entries of the buffer, 0: none */
shoal_status shoal_local_feed_create(shoal_run *r, const shoal_local *s, int depth, int replay, int max_uses,
                                     shoal_local_feed **out);
void shoal_local_feed_destroy(shoal_local_feed *f);
/** The minibatch of this step from the stage before: waits for it.  Replay: waits only while there is nothing at all, and
 *  not while ranks are called to meet; head.total is 0 then, and this turn is to be left out. */
shoal_status shoal_local_feed_take(shoal_local_feed *f, shoal_run *r, shoal_local_batch *out);
/** Its memory is free again. */
shoal_status shoal_local_feed_release(shoal_local_feed *f, shoal_run *r);
/** Where the next message's activations go: waits until the one before has left (replay: NULL if it has not). */
shoal_status shoal_local_feed_room(shoal_local_feed *f, shoal_run *r, float **activations);
/** Send what stands there, with these labels; adds to r->sent by the formula.  Returns at once. */
shoal_status shoal_local_feed_send(shoal_local_feed *f, shoal_run *r, const shoal_local_batch *b);
/** Replay, when ranks meet: everything sent has arrived and stands in buffers.  Collective over all ranks. */
shoal_status shoal_local_feed_settle(shoal_local_feed *f, shoal_run *r);
enum { SHOAL_LOCAL_TALLY = 5 };
/** Replay: minibatches used, arrived, overwritten unused, not sent because the link was busy, and the sum of ages. */
void shoal_local_feed_tally(const shoal_local_feed *f, double out[SHOAL_LOCAL_TALLY]);

/* ---- pairs: overlapping blocks ---- */

shoal_status shoal_local_pairs_create(shoal_run *r, const shoal_local *s, shoal_local_pairs **out);
void shoal_local_pairs_destroy(shoal_local_pairs *p);
/** Mean of both copies of every layer that two blocks share, in `array` (the gradients or the weights of this rank's
 *  arena).  Neighbouring stages exchange one message each way.  Adds to r->sent by the formula. */
shoal_status shoal_local_pairs_average(shoal_local_pairs *p, shoal_run *r, const shoal_local *s, float *array);

/* ---- state ---- */

shoal_status shoal_local_assemble(shoal_run *r, void *state, float *weights, float *stats);
shoal_status shoal_local_observe(shoal_run *r, void *state, const shoal_batch *b, double *values);
void shoal_local_forget(shoal_run *r, shoal_local *s); /* what assemble left for observe; also after half an assemble */
shoal_status shoal_local_save(shoal_run *r, void *state, shoal_ckpt_writer *c);
bool shoal_local_fits(const shoal_run *r, const void *state, const shoal_ckpt *c);
shoal_status shoal_local_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);
shoal_status shoal_local_adopt(shoal_run *r, void *state, int array, float *x);
/** Blocks, stages and grid of a checkpoint; *out NULL if it is not one of this method and model. */
shoal_status shoal_local_read_parts(const shoal_run *r, const shoal_ckpt *c, shoal_local_parts **out);
#endif
