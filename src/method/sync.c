/* The synchronous baseline: gradients are summed over all ranks in every step, while backward still runs.
 *
 *   backward:   [fc]   [conv9]  [conv8]  ...  [conv1]        (announces ranges, last layer first)
 *   buckets:    |---- bucket 0 ----|-- bucket 1 --|-- 2 --|   a bucket starts when its last range is announced
 *   exchange:                       ~~~~~~0~~~~~~~ ~~~1~~~ ~~2~~
 *
 * Buckets are cut once, from the plan's static order of announcements, and never rebuilt: the same bits in every run.
 * Two rules of the DDP paper are kept: the first bucket to be ready is small, so that communication starts early, and
 * buckets start in index order on every rank.  Ours differs in one way: gradients are scaled by 1 / (global batch) in
 * the loss, so the sum over ranks is the mean over samples, also when ranks hold unequal shares (a rank may have none).
 *
 * A bucket is one contiguous range of the arena, reduced in place: no copy into bucket memory.
 * Source: Li et al., PyTorch Distributed, VLDB 2020; specification in docs/methods/sync.md. */
#include "base/mem.h"
#include "method/method.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t offset, count;
  size_t left; /* elements not yet announced in this step */
  shoal_exchange *exchange;
} bucket;

typedef struct {
  shoal_wire wire;
  size_t n_buckets, next;           /* next: the first bucket not yet started */
  bucket *buckets;                  /* in the order in which they become ready */
  uint64_t bytes[SHOAL_LINK_COUNT]; /* per step */
} sync_state;

static const shoal_option options[] = {
  { "method.wire", SHOAL_OPT_ENUM, "f32", NULL, "f32|bf16|f16", "Number format of gradients on the wire; sums are f32.",
    "shoal" },
  { "method.bucket", SHOAL_OPT_FLOAT, "4", "MiB", "(0,4096]",
    "Gradients are exchanged in buckets of at least this size, started while backward runs.",
    "Li et al., VLDB 2020 (25 MiB there)" },
  { "method.first_bucket", SHOAL_OPT_FLOAT, "1", "MiB", "(0,4096]", "Size of the bucket that is ready first.",
    "Li et al., VLDB 2020" },
  { NULL, SHOAL_OPT_BOOL, NULL, NULL, NULL, NULL, NULL }
};

/* Walk the announcements and close a bucket when it is full.  Announced ranges may come in any order that keeps every
 * bucket contiguous; backward order does, since the arena is laid out in forward order. */
static shoal_status cut_buckets(shoal_run *r, sync_state *s)
{
  const shoal_range *range;
  size_t n = shoal_plan_ranges(r->plan, &range);
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &s->buckets)); /* at most one bucket per range */
  double limit = shoal_config_float(r->config, "method.first_bucket") * 0x1p20;
  for (size_t i = 0; i < n; i++) {
    bucket *b = &s->buckets[s->n_buckets];
    if (b->count == 0) {
      b->offset = range[i].offset;
    } else {
      SHOAL_CHECK(range[i].offset + range[i].count == b->offset || range[i].offset == b->offset + b->count,
                  SHOAL_ERR_INTERNAL, "gradient ranges of the plan are not contiguous at element %zu", range[i].offset);
      b->offset = SHOAL_MIN(b->offset, range[i].offset);
    }
    b->count += range[i].count;
    if ((double)b->count * sizeof(float) >= limit) {
      s->n_buckets++;
      limit = shoal_config_float(r->config, "method.bucket") * 0x1p20;
    }
  }
  if (s->buckets[s->n_buckets].count) s->n_buckets++;
  return SHOAL_OK;
}

static shoal_wire wire_from_name(const char *name)
{
  for (shoal_wire w = SHOAL_WIRE_F32; w <= SHOAL_WIRE_F16; w++)
    if (strcmp(shoal_wire_name(w), name) == 0) return w;
  return SHOAL_WIRE_F32;
}

static void rewind_buckets(sync_state *s)
{
  s->next = 0;
  for (size_t i = 0; i < s->n_buckets; i++) s->buckets[i].left = s->buckets[i].count;
}

static shoal_status sync_open(shoal_run *r, void *state)
{
  sync_state *s = state;
  s->wire = wire_from_name(shoal_config_string(r->config, "method.wire"));
  SHOAL_TRY(cut_buckets(r, s));
  for (size_t i = 0; i < s->n_buckets; i++) {
    char name[32];
    snprintf(name, sizeof name, "bucket %zu", i);
    SHOAL_TRY(shoal_exchange_create_sum(r->all, name, s->buckets[i].count, s->wire, SHOAL_SUM_AUTO, &s->buckets[i].exchange));
    uint64_t bytes[SHOAL_LINK_COUNT] = { 0 };
    shoal_exchange_bytes(r->all, s->buckets[i].count, s->wire, SHOAL_SUM_AUTO, bytes);
    for (int link = 0; link < SHOAL_LINK_COUNT; link++) s->bytes[link] += bytes[link];
  }
  rewind_buckets(s);
  return SHOAL_OK;
}

static void sync_close(shoal_run *r, void *state)
{
  sync_state *s = state;
  for (size_t i = 0; i < s->n_buckets; i++) shoal_exchange_destroy(s->buckets[i].exchange);
  free(s->buckets);
}

static shoal_status start_ready(shoal_run *r, sync_state *s)
{
  for (; s->next < s->n_buckets && s->buckets[s->next].left == 0; s->next++) {
    const bucket *b = &s->buckets[s->next];
    shoal_exchange_stamp(b->exchange, r->step);
    SHOAL_TRY(shoal_exchange_start(b->exchange, r->params->g + b->offset));
  }
  return SHOAL_OK;
}

static shoal_status sync_announce(shoal_run *r, void *state, size_t offset, size_t count)
{
  sync_state *s = state;
  size_t i = s->next;
  while (i < s->n_buckets && (offset < s->buckets[i].offset || offset >= s->buckets[i].offset + s->buckets[i].count))
    i++;
  assert(i < s->n_buckets && s->buckets[i].left >= count);
  s->buckets[i].left -= count;
  return start_ready(r, s);
}

static shoal_status sync_grads_ready(shoal_run *r, void *state)
{
  sync_state *s = state;
  /* A rank without samples announced nothing: its zeros join now. */
  for (size_t i = s->next; i < s->n_buckets; i++) s->buckets[i].left = 0;
  SHOAL_TRY(start_ready(r, s));
  for (size_t i = 0; i < s->n_buckets; i++) SHOAL_TRY(shoal_exchange_wait(s->buckets[i].exchange));
  rewind_buckets(s);
  return SHOAL_OK;
}

static void sync_step_bytes(const shoal_run *r, const void *state, uint64_t out[SHOAL_LINK_COUNT])
{
  const sync_state *s = state;
  memcpy(out, s->bytes, sizeof s->bytes);
}

const shoal_method shoal_method_sync = {
  .name = "sync",
  .about = "gradients averaged in every step: buckets, overlap with backward",
  .explanation =
      "Every rank holds the same weights and computes the gradient of its share of the global batch.  Gradients are\n"
      "summed over all ranks by ring all-reduces, bucket by bucket, while backward still runs; then every rank takes\n"
      "the same optimizer step.  The result equals one process with the whole batch, up to rounding (batch norm uses\n"
      "each rank's own batch).  Per step a rank sends 2 (P-1)/P of the gradient.",
  .source = "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020",
  .options = options,
  .state_size = sizeof(sync_state),
  .replicas_equal = true,
  .share = SHOAL_SHARE_BATCH,
  .open = sync_open,
  .close = sync_close,
  .announce = sync_announce,
  .grads_ready = sync_grads_ready,
  .step_bytes = sync_step_bytes,
};
