/* Internal interface of the method `local`.
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
  shoal_head head;     /* its kind, never `auto` */
  size_t head_weights; /* at the end of the arena; 0: the network's classifier */
  size_t head_stats;   /* likewise, of the statistics */
  int out_node;        /* whose output the next block reads; -1: none */
  size_t elements;     /* of that output, per sample */
  shoal_range lower,
      upper; /* overlapping: in the arena, the layer shared with the block before, and behind; or empty */
  double cost;
} shoal_local_part;

/* All blocks and their stages: stage s holds parts [stage_first[s], stage_first[s + 1]). */
typedef struct {
  shoal_local_form form;
  shoal_head head;
  int n, *stage_first; /* owned: [grid.stages + 1] */
  shoal_local_part *part;
  shoal_local_grid grid;
} shoal_local_parts;

/** Counts the cost of layers per sample: multiply-accumulates, values written, and weights once per minibatch.
 *  @param batch  samples of a minibatch   @param cost, heads  out, [layers] */
shoal_status shoal_local_count(const shoal_model *m, shoal_head head, uint64_t batch, double *cost, double *heads);
/** The same in seconds, measured on this rank with training steps of single layers at this batch size. */
shoal_status shoal_local_measure(shoal_backend *b, const shoal_model *m, shoal_head head, int64_t batch, double *cost,
                                 double *heads);
/** Creates the models of these blocks, without stages.  @param batch  for their cost   @param blocks  [n] */
shoal_status shoal_local_parts_create(const shoal_model *m, shoal_local_form form, shoal_head head, uint64_t batch,
                                      const shoal_local_block *blocks, int n, shoal_local_parts **out);
void shoal_local_parts_destroy(shoal_local_parts *p);
/** Assigns the parts to the grid's stages, by cost. */
shoal_status shoal_local_deal(shoal_local_parts *p, const shoal_local_grid *grid);
/** Joins the parts of a stage in one arena, with the offset of each, [parts of the stage].  The caller owns *out. */
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
  shoal_form form;     /* of the block: these params, plans owned; the optimizer is that of the whole arena */
  shoal_plan *plan;    /* of this step */
  shoal_memory input;  /* none for the rank's first block, whose input is external */
  shoal_buckets *sums; /* over the replicas; NULL: there is one */
} shoal_local_trained;

/* A minibatch on its way through the blocks. */
typedef struct {
  shoal_local_header head;
  const float *x;
  const void *y; /* labels or targets, 4 bytes each */
  uint64_t age;  /* replay: minibatches that arrived after it */
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
  double clip; /* overlapping: norm to clip each block to; 0: the optimizer clips */
  uint32_t op_forward, op_backward, op_optimizer;
  const char **columns; /* owned, names too */
  size_t n_columns;
  shoal_params **whole;   /* [parts] during evaluation: weights of all blocks, with heads */
  shoal_plans **plans;    /* [parts] likewise */
  shoal_memory square;    /* double, pinned: of a block's gradient, for clipping */
  shoal_memory passed[2]; /* activations between blocks */
  double observed;        /* samples */
} shoal_local;

/* ---- the cut ---- */

/** Sets up parts, grid, this rank's blocks and their joint arena; a hook of the method.  Collective. */
shoal_status shoal_local_check(const shoal_config *c); /* see shoal_method */
shoal_status shoal_local_outline(shoal_run *r, void *state, shoal_outline *out);

/* ---- feed: one message per step and boundary, forward only ---- */

/** @param depth   minibatches that may queue here; @param replay  entries of the buffer, 0: none */
shoal_status shoal_local_feed_create(shoal_run *r, const shoal_local *s, int depth, int replay, int max_uses,
                                     shoal_local_feed **out);
void shoal_local_feed_destroy(shoal_local_feed *f);
/** Waits for this step's minibatch from the previous stage.  Replay: waits only while the buffer is empty, and not
 *  while a meeting is called; head.total is 0 then, and the caller skips this step. */
shoal_status shoal_local_feed_take(shoal_local_feed *f, shoal_run *r, shoal_local_batch *out);
/** Releases the memory of the minibatch. */
shoal_status shoal_local_feed_release(shoal_local_feed *f, shoal_run *r);
/** Memory for the next message's activations: waits until the last one was sent (replay: NULL if it was not). */
shoal_status shoal_local_feed_room(shoal_local_feed *f, shoal_run *r, float **activations);
/** Sends that memory with these labels; adds to r->sent by formula.  Non-blocking. */
shoal_status shoal_local_feed_send(shoal_local_feed *f, shoal_run *r, const shoal_local_batch *b);
/** Completes all sends.  In step: between steps, where every message has been received or is awaited. */
shoal_status shoal_local_feed_drain(shoal_local_feed *f);
/** Replay, in a meeting: completes all messages and stores them in the buffers.  Collective over all ranks. */
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
void shoal_local_forget(shoal_run *r, shoal_local *s); /* undo assemble, also a failed one */
shoal_status shoal_local_save(shoal_run *r, void *state, shoal_ckpt_writer *c);
bool shoal_local_fits(const shoal_run *r, const void *state, const shoal_ckpt *c);
shoal_status shoal_local_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);
shoal_status shoal_local_adopt(shoal_run *r, void *state, int array, float *x);
/** Blocks, stages and grid of a checkpoint; *out NULL if it is not one of this method and model. */
shoal_status shoal_local_read_parts(const shoal_run *r, const shoal_ckpt *c, shoal_local_parts **out);
#endif
