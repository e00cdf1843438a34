/* Planning local parallelism: which rank trains which layers, and message sizes.  Pure functions.
 *
 * Terms.  A *layer* is a unit of the model that is never cut (a residual block counts as one); the network's classifier
 * belongs to the last layer.  A *block* is trained by one loss: some consecutive layers and a head.  Blocks are
 * assigned to *stages* in order; a stage is what one rank holds.  Every stage has as many *replicas*, which share each
 * minibatch: ranks = stages x replicas.
 *
 *     layers    [conv1][res1][res2][res3][fc]         blocks, chunked in 2:  {conv1 res1 | head}  {res2 res3 fc}
 *                                                     greedy:                {conv1|h} {res1|h} {res2|h} {res3 fc}
 *                                                     overlapping:           {conv1 res1|h} {res1 res2|h} {res2 res3 fc}
 *
 * Source: Laskin et al., Parallel Training of Deep Networks with Local Updates, 2020 (figure 2); the cut is ours. */
#ifndef SHOAL_METHOD_LOCAL_PLAN_H
#define SHOAL_METHOD_LOCAL_PLAN_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum { SHOAL_LOCAL_CHUNKED, SHOAL_LOCAL_GREEDY, SHOAL_LOCAL_OVERLAPPING } shoal_local_form;

/* ---- blocks ---- */

typedef struct {
  int first, last; /* units [first, last) of the model */
} shoal_local_block;

/** Number of layers of a model with `units` units: the classifier is not a separate layer. */
int shoal_local_layers(int units);
/** Cuts layers into contiguous chunks that minimise the cost of the most expensive one; of several such cuts, takes the
 *  one whose earlier chunks are longest, so that equal costs give the usual ceil(layers/chunks) each.
 *  @param cost    of each layer, [layers], any unit, >= 0
 *  @param head    cost of the head of a chunk that ends with this layer, [layers]; NULL: 0
 *  @param chunks  1 <= chunks <= layers; ERR_ARG otherwise
 *  @param bounds  out, [chunks + 1]: chunk k holds layers [bounds[k], bounds[k+1])
 *  Cost: O(layers^2 chunks) */
shoal_status shoal_local_cut(int layers, const double *cost, const double *head, int chunks, int *bounds);
/** The blocks of a form, [the return value] of `out` [layers].  Chunked takes the chunks of `bounds`; greedy has one
 *  layer per block; overlapping has blocks (1,2), (2,3), … (one block if there is only one layer). */
int shoal_local_blocks(shoal_local_form form, int units, const int *bounds, int chunks, shoal_local_block *out);

/* ---- ranks ---- */

typedef struct {
  int stages, replicas;
  bool pipeline_inside; /* ranks of a pipeline are consecutive; else the replicas of a stage are */
} shoal_local_grid;

/** Default number of chunks: the largest number of stages from 1 to 4 that divides the ranks and is at most the layers;
 *  if that is 1, the smallest above 4.  The other ranks are replicas. */
int shoal_local_auto_chunks(int ranks, int layers);
/** Stages and replicas for these blocks.  @param replicas  requested; 0: as few as possible.  ERR_ARG names the
 *  cure. */
shoal_status shoal_local_arrange(int ranks, int blocks, int replicas, shoal_local_grid *out);
int shoal_local_rank(const shoal_local_grid *g, int stage, int replica);
int shoal_local_stage(const shoal_local_grid *g, int rank);
int shoal_local_replica(const shoal_local_grid *g, int rank);
/** Whether pipelines should be inside nodes: compares the bytes per step of a pipeline's activations with those of the
 *  replicas' sums; the larger belongs inside a node. */
bool shoal_local_pipeline_inside(uint64_t activation_bytes, uint64_t sum_bytes);

/* ---- time: which minibatch is in the step that begins k steps from now ---- */

typedef struct {
  uint64_t samples;       /* of an epoch */
  uint64_t batch;         /* of the global batch */
  bool pads;              /* the last batch is padded; else it is short, or already excluded from `samples` */
  uint64_t epochs, steps; /* the run ends after this many epochs, or steps in total (0: no limit) */
} shoal_local_calendar;

typedef struct {
  uint64_t epoch, position, step;
} shoal_local_date;

/** Samples of the global batch in the step at this date; 0: after the end of the run. */
uint64_t shoal_local_samples(const shoal_local_calendar *c, const shoal_local_date *d);
void shoal_local_advance(const shoal_local_calendar *c, shoal_local_date *d);

/** Steps between a question all ranks answer and its answer: so long that no full queue ever waits for it. */
uint64_t shoal_local_lag(int stages, int depth);

/* ---- bytes ---- */

/* What goes from one block to the next.  64 bytes, so that the activations behind it stay aligned. */
typedef struct {
  uint64_t step;     /* number of the minibatch in the run */
  uint32_t samples;  /* of this replica */
  uint32_t elements; /* per sample */
  uint64_t slot0;    /* its first sample's slot in the global batch */
  uint64_t total;    /* samples of the global batch */
  uint64_t reserved[4];
} shoal_local_header;

/** Header, activations in f32, labels; the latter two of a sample. */
uint64_t shoal_local_message_bytes(uint64_t samples, uint64_t elements, uint64_t labels);

#endif
