/* The synchronous baseline: gradients are summed over all ranks in every step, overlapped with backward (buckets.h).
 *
 * The loss scales gradients by 1 / (global batch), so the sum over ranks is the mean over samples, even if ranks have
 * unequal shares or none; the DDP paper scales by 1 / P in the bucket.
 * Source: Li et al., PyTorch Distributed, VLDB 2020; specification in docs/methods/sync.md. */
#include "method/common/buckets.h"
#include "method/method.h"

typedef struct {
  shoal_buckets *buckets;
} sync_state;

static const shoal_option options[] = { SHOAL_BUCKET_SUM_OPTIONS, SHOAL_BUCKET_SIZE_OPTIONS, { .name = NULL } };

static const char algorithms[] = "method/algorithms";

static shoal_status sync_open(shoal_run *r, void *state)
{
  sync_state *s = state;
  return shoal_buckets_create(r->config, r->form, r->all, "exchange", "bucket", shoal_wire_wanted(r->config),
                              shoal_algorithm_wanted(r->config), &s->buckets);
}

static void sync_close(shoal_run *r, void *state)
{
  sync_state *s = state;
  shoal_buckets_destroy(s->buckets);
}

static shoal_status sync_announce(shoal_run *r, void *state, size_t offset, size_t count)
{
  sync_state *s = state;
  return shoal_buckets_announce(s->buckets, r->step, offset, count);
}

static shoal_status sync_grads_ready(shoal_run *r, void *state)
{
  sync_state *s = state;
  return shoal_buckets_grads_ready(s->buckets, r);
}

static shoal_status sync_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  sync_state *s = state;
  return shoal_buckets_save(s->buckets, c, algorithms);
}

static shoal_status sync_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  sync_state *s = state;
  return same_layout ? shoal_buckets_load(s->buckets, c, algorithms) : SHOAL_OK;
}

const shoal_method shoal_method_sync = {
  .name = "sync",
  .about = "gradients averaged in every step, in buckets that overlap with backward",
  .explanation =
      "Every rank holds the same weights and computes the gradient of its share of the global batch.  Gradients\n"
      "are summed over all ranks, bucket by bucket, while backward still runs; then every rank takes the same\n"
      "optimizer step.  The result equals one process with the whole batch, up to rounding (batch norm uses each\n"
      "rank's own batch).  A bucket is summed by a ring over all ranks, where a rank sends 2 (P-1)/P of the\n"
      "gradient per step; by a two-level sum, where each of N nodes sends 2 (N-1)/N of it to other nodes; or, if\n"
      "it is small, by an all-gather.",
  .source = "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020",
  .options = options,
  .state_size = sizeof(sync_state),
  .trains = SHOAL_TRAINS_ALIKE,
  .share = SHOAL_SHARE_BATCH,
  .open = sync_open,
  .close = sync_close,
  .announce = sync_announce,
  .grads_ready = sync_grads_ready,
  .save = sync_save,
  .load = sync_load,
};
