/* The loader: this rank's samples in the global order, augmented, as f32 batches, prefetched by one thread.
 *
 * Order: position p of epoch e holds sample perm(seed, e)[p]; the order does not depend on the number of ranks.  The
 * global batch at position p takes positions [p, p+B) (the last one fewer) and rank r of P takes a contiguous share,
 * sizes differing by at most one:
 *
 *   positions  p ......................... p+B
 *   ranks      |--- 0 ---|--- 1 ---|-- 2 --|       slot0 = offset of the share within the batch
 *
 * Strided shares (slots r, r+P, …) are for methods without a common step.  A rank may also keep the same samples for
 * the whole run, in a new order in every epoch: a shard drawn at random once, or one sorted by label.  Augmentation
 * depends only on (seed, epoch, sample): crop4 (pad by 4, random crop), hflip.  The padding is 0 after normalisation,
 * that is the mean colour. */
#ifndef SHOAL_DATA_LOADER_H
#define SHOAL_DATA_LOADER_H
#include "data/dataset.h"

typedef enum {
  SHOAL_LAST_SHORT,
  SHOAL_LAST_DROP,
  SHOAL_LAST_PAD
} shoal_last_batch; /* PAD repeats samples from the start of the epoch */
typedef enum { SHOAL_SHARE_BATCH, SHOAL_SHARE_STRIDED } shoal_share;
/* Strided shares only.  DRAWN: slots of a new permutation in every epoch.  FIXED: the slots of epoch 0.  SORTED: the
 * r-th of P consecutive parts of all samples sorted by label (then by number). */
typedef enum { SHOAL_SHARD_DRAWN, SHOAL_SHARD_FIXED, SHOAL_SHARD_SORTED } shoal_shard;
typedef struct {
  shoal_split split;
  uint64_t seed;
  int rank, size;
  uint64_t batch; /* global batch (SHARE_BATCH) or own batch (STRIDED) */
  shoal_last_batch last;
  shoal_share share;
  shoal_shard shard;
  bool shuffle; /* test split: false */
  bool crop4, hflip;
  bool sizes_only; /* read nothing: x, y and ids are NULL */
  float
      far; /* 0, or samples that are not finite or reach this once normalised become zeros without label or target, which no
                      loss and no accuracy counts */
  int depth; /* batches prefetched; 0: no thread, read on request */
} shoal_loader_config;

/* Samples of a batch that are not finite, or reach the limit once normalised (SHOAL_DATA_FAR if `far` is 0), looked at while they
 * are normalised.  `feature` counts within the sample as it is read ([c,h,w]), `value` is that of the file; a finite one has become
 * too large when it was normalised. */
typedef struct {
  int64_t n;
  uint64_t id; /* of the first one; the rest is about it */
  size_t feature;
  float value;
  float far; /* 0, or the limit that it reaches once normalised, and is finite */
} shoal_bad_samples;
/* From here on outputs overflow, or have a loss of 0 or of 1e29 that says nothing; or the variance of a batch overflows, which
 * would take the batch's other samples along where batch norm measures them. */
#define SHOAL_DATA_FAR       1e30f
#define SHOAL_DATA_FAR_BATCH 1e15f

/* With strided shares a position counts this rank's own samples, `total` is n, and slot0 is rank * batch, so that no
 * two ranks use the same dropout mask. */
typedef struct {
  uint64_t epoch, position; /* position of the global batch's first sample in the epoch */
  uint64_t total;           /* samples in the global batch */
  uint64_t slot0;           /* my first slot within it */
  int64_t n;                /* my samples; may be 0 */
  const float *x;           /* [n, …sample], normalised: (raw - mean) / std, tokens as they are; 64-byte aligned */
  union {
    const int32_t *y; /* [n, labels of a sample] */
    const float *t;   /* [n, targets of a sample], normalised; NaN: it has none */
  };
  const uint64_t *ids; /* [n] sample numbers */
  shoal_bad_samples bad;
} shoal_batch;

typedef struct shoal_loader shoal_loader;
/** The data set is borrowed and must outlive the loader; with depth > 0 the loader's thread reads from it.  Starts at
 *  position 0 of epoch 0; prefetching begins with the first seek or next.
 *  @return ERR_ARG for a batch of 0, a rank outside the size, DROP that leaves no batch, augmentation of data
 *          other than images, or parts sorted by label of text
 *  Cost    memory for depth + 1 batches of this rank; no allocation afterwards */
shoal_status shoal_loader_create(shoal_dataset *d, const shoal_loader_config *c, shoal_loader **out);
void shoal_loader_destroy(shoal_loader *l);
/** (Re)starts at a position, in samples consumed in the epoch (not only multiples of the batch).  Costs nothing if the
 *  loader is there already, as at the start of each epoch.  ERR_ARG beyond the end of the epoch. */
shoal_status shoal_loader_seek(shoal_loader *l, uint64_t epoch, uint64_t position);
/** Returns the next batch, valid until the next call; *out is NULL at the end of the epoch (then seek to the next one).
 *  Errors of the prefetch thread are returned here, by every call until a seek. */
shoal_status shoal_loader_next(shoal_loader *l, const shoal_batch **out);
/** The batch that next will return, if it is ready: valid as long as that one, if neither seek nor blank comes before it.  NULL:
 *  it is not ready, or the epoch ends.  Waits for nothing. */
const shoal_batch *shoal_loader_peek(shoal_loader *l);
/** After next has failed: the batch that it owed, of the same size, place and sample numbers, with zeros instead of samples and
 *  labels (out NULL at the end of the epoch), so that a rank can finish a step that it shares with others.  The one after
 *  it may be asked for in the same way, or sought.  Nothing is read, and nothing fails. */
void shoal_loader_blank(shoal_loader *l, const shoal_batch **out);
uint64_t shoal_loader_batches(const shoal_loader *l); /* per epoch, from position 0; strided: this rank's own */
uint64_t shoal_loader_samples(const shoal_loader *l); /* per epoch: of the split, or of this rank's part */
int64_t shoal_loader_max_batch(const shoal_loader *l);
/** The share of rank r of P in a batch of b: first slot and count; sizes differ by at most one, larger ones first. */
void shoal_share_of(uint64_t b, int rank, int size, uint64_t *first, uint64_t *count);
#endif
