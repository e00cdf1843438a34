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
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
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
  shoal_sum_algorithm algorithm;    /* as asked for */
  size_t n_buckets, next;           /* next: the first bucket not yet started */
  bucket *buckets;                  /* in the order in which they become ready */
  uint64_t bytes[SHOAL_LINK_COUNT]; /* per step */
} sync_state;

static const shoal_option options[] = {
  { "method.wire", SHOAL_OPT_ENUM, "f32", NULL, "f32|bf16|f16", "Number format of gradients on the wire; sums are f32.",
    "shoal" },
  { "method.algorithm", SHOAL_OPT_ENUM, "auto", NULL, "auto|ring|two-level|leaders|small",
    "How a bucket is summed; auto goes by its size and by where ranks are.", "shoal" },
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

static shoal_sum_algorithm algorithm_from_name(const char *name)
{
  for (shoal_sum_algorithm a = SHOAL_SUM_AUTO; a <= SHOAL_SUM_SMALL; a++)
    if (strcmp(shoal_sum_name(a), name) == 0) return a;
  return SHOAL_SUM_AUTO;
}

static void rewind_buckets(sync_state *s)
{
  s->next = 0;
  for (size_t i = 0; i < s->n_buckets; i++) s->buckets[i].left = s->buckets[i].count;
}

static shoal_status plan_bucket(shoal_run *r, sync_state *s, size_t i, shoal_sum_algorithm algorithm)
{
  char name[32];
  snprintf(name, sizeof name, "bucket %zu", i);
  return shoal_exchange_create_sum(r->all, name, s->buckets[i].count, s->wire, algorithm, &s->buckets[i].exchange);
}

static void add_bytes(shoal_run *r, sync_state *s)
{
  memset(s->bytes, 0, sizeof s->bytes);
  for (size_t i = 0; i < s->n_buckets; i++) {
    uint64_t bytes[SHOAL_LINK_COUNT];
    shoal_exchange_bytes(r->all, s->buckets[i].count, s->wire, shoal_exchange_algorithm(s->buckets[i].exchange), bytes);
    for (int link = 0; link < SHOAL_LINK_COUNT; link++) s->bytes[link] += bytes[link];
  }
}

/* "exchange: 3 buckets, 9.2 MiB as f32: 1 leaders, 2 two-level" */
static void print_choice(const shoal_run *r, const sync_state *s)
{
  if (shoal_group_size(r->all) == 1) return;
  size_t count[SHOAL_SUM_SMALL + 1] = { 0 }, elements = 0;
  shoal_str text = { 0 };
  char size[32];
  for (size_t i = 0; i < s->n_buckets; i++) {
    count[shoal_exchange_algorithm(s->buckets[i].exchange)]++;
    elements += s->buckets[i].count;
  }
  for (int a = SHOAL_SUM_SMALL; a > SHOAL_SUM_AUTO; a--)
    if (count[a]) shoal_str_add(&text, "%s %zu %s", text.text ? "," : "", count[a], shoal_sum_name(a));
  shoal_info("exchange: %zu bucket%s, %s as %s:%s", s->n_buckets, s->n_buckets == 1 ? "" : "s",
             shoal_format_bytes((double)elements * (double)shoal_wire_bytes(s->wire), size, sizeof size),
             shoal_wire_name(s->wire), text.text ? text.text : " nothing");
  shoal_str_free(&text);
}

static shoal_status sync_open(shoal_run *r, void *state)
{
  sync_state *s = state;
  s->wire = wire_from_name(shoal_config_string(r->config, "method.wire"));
  s->algorithm = algorithm_from_name(shoal_config_string(r->config, "method.algorithm"));
  SHOAL_TRY(cut_buckets(r, s));
  for (size_t i = 0; i < s->n_buckets; i++) SHOAL_TRY(plan_bucket(r, s, i, s->algorithm));
  add_bytes(r, s);
  print_choice(r, s);
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

static void sync_step_bytes(const shoal_run *r, void *state, uint64_t out[SHOAL_LINK_COUNT])
{
  const sync_state *s = state;
  memcpy(out, s->bytes, sizeof s->bytes);
}

/* What auto came to is part of the run: the order of a sum depends on it, and the rule may change with a version. */
static shoal_status sync_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  const sync_state *s = state;
  int32_t *chosen;
  uint64_t n = s->n_buckets;
  SHOAL_TRY(SHOAL_ALLOC(s->n_buckets, &chosen));
  for (size_t i = 0; i < s->n_buckets; i++) chosen[i] = (int32_t)shoal_exchange_algorithm(s->buckets[i].exchange);
  shoal_ckpt_put(c, "method/algorithms", SHOAL_I32, 1, &n, chosen);
  (void)r;
  free(chosen);
  return SHOAL_OK;
}

static shoal_status adopt(shoal_run *r, sync_state *s, const int32_t *chosen)
{
  bool changed = false;
  for (size_t i = 0; i < s->n_buckets; i++) {
    bucket *b = &s->buckets[i];
    shoal_sum_algorithm then = (shoal_sum_algorithm)chosen[i];
    if (chosen[i] <= SHOAL_SUM_AUTO || chosen[i] > SHOAL_SUM_SMALL || then == shoal_exchange_algorithm(b->exchange))
      continue;
    shoal_exchange_destroy(b->exchange);
    b->exchange = NULL;
    SHOAL_TRY(plan_bucket(r, s, i, then));
    changed = true;
  }
  if (!changed) return SHOAL_OK;
  add_bytes(r, s);
  print_choice(r, s);
  return SHOAL_OK;
}

static shoal_status sync_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  static const char name[] = "method/algorithms";
  sync_state *s = state;
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  if (!same_layout || s->algorithm != SHOAL_SUM_AUTO || !shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  if (ndim != 1 || dims[0] != s->n_buckets) return SHOAL_OK; /* buckets are cut otherwise now */
  int32_t *chosen;
  SHOAL_TRY(SHOAL_ALLOC(s->n_buckets, &chosen));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_I32, s->n_buckets, chosen);
  if (st == SHOAL_OK) st = adopt(r, s, chosen);
  free(chosen);
  return st;
}

const shoal_method shoal_method_sync = {
  .name = "sync",
  .about = "gradients averaged in every step: buckets, overlap with backward",
  .explanation =
      "Every rank holds the same weights and computes the gradient of its share of the global batch.  Gradients are\n"
      "summed over all ranks, bucket by bucket, while backward still runs; then every rank takes the same optimizer\n"
      "step.  The result equals one process with the whole batch, up to rounding (batch norm uses each rank's own\n"
      "batch).  A bucket is summed by a ring over all ranks, where a rank sends 2 (P-1)/P of the gradient per step; "
      "or\n"
      "on two levels, where a node of N sends 2 (N-1)/N of it to others; or, up to 4 KiB, by all-gather.",
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
  .save = sync_save,
  .load = sync_load,
};
