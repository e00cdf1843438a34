/* The loader: a pure function from (epoch, position) to a batch, and a thread that prefetches.
 *
 * Everything about a batch follows from its position: which samples (a keyed permutation), which of them are this
 * rank's (a share), and their augmentation (from seed, epoch and sample).  So a seek just sets the position, and
 * prefetching cannot change the batches.
 *
 * The thread fills a ring of depth + 1 slots; the caller holds the one returned last.  At the end of an epoch it stores
 * an end mark and continues with the next epoch, as training does; a seek to that position keeps the prefetched
 * batches.  Any other seek increments the generation, and the slot being filled at that moment is discarded:
 *
 *     taken                    filled
 *       |  held | ready | ready | filling |           slots are numbers modulo depth + 1
 *
 * An error is stored in a slot instead of a batch, and the thread pauses until the next seek. */
#include "data/loader.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_batch batch;
  float *x;
  union {
    int32_t *y;
    float *t;
  };
  uint64_t *ids;
  bool end;            /* end mark after the last batch of an epoch */
  shoal_status status; /* error code; l->error holds the error itself */
} slot;

typedef struct {
  uint64_t epoch, position;
} place;

struct shoal_loader {
  shoal_dataset *data;
  shoal_loader_config config;
  shoal_shape sample;
  size_t elements, labels;
  bool text;               /* tokens are not normalised */
  bool targets;            /* samples have these, and no class */
  uint64_t split_n, own_n; /* samples of the split; of this rank if strided, else the same */
  int64_t max_batch;
  shoal_normal normal;
  void *raw; /* one sample */
  shoal_perm perm;
  bool perm_ready;
  uint64_t perm_epoch;
  uint64_t *shard; /* [own_n] this rank's samples with a fixed shard; else NULL */

  slot *slots;
  uint64_t n_slots;
  uint64_t filled, taken;            /* total slots filled, and taken by the caller */
  place reader, caller;              /* next place to fill; place of the caller */
  bool at_end;                       /* the caller has seen the end of the epoch */
  bool running, stop, resting, idle; /* idle: nothing requested yet */
  uint64_t generation;
  shoal_error error; /* of the slot that failed; the thread pauses after it, so there is at most one */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t more_slots, more_batches;
};

void shoal_share_of(uint64_t b, int rank, int size, uint64_t *first, uint64_t *count)
{
  uint64_t r = (uint64_t)rank, p = (uint64_t)size, base = b / p, larger = b % p;
  *count = base + (r < larger);
  *first = r * base + SHOAL_MIN(r, larger);
}

/* ---- batches as a function of the position ---- */

/* A permutation of the split, or of the shard, which uses a separate seed. */
static uint64_t sample_at(shoal_loader *l, uint64_t epoch, uint64_t position)
{
  if (!l->config.shuffle) return position;
  if (!l->perm_ready || l->perm_epoch != epoch) {
    uint64_t seed = l->shard ? shoal_rng_seed(l->config.seed, 1 + (uint64_t)l->config.rank) : l->config.seed;
    shoal_perm_init(&l->perm, seed, SHOAL_RNG_ORDER, epoch, l->shard ? l->own_n : l->split_n);
    l->perm_epoch = epoch;
    l->perm_ready = true;
  }
  return shoal_perm_at(&l->perm, position);
}

/* Sample number `own` of this rank's part of the epoch. */
static uint64_t own_sample(shoal_loader *l, uint64_t epoch, uint64_t own)
{
  if (l->shard) return l->shard[sample_at(l, epoch, own)];
  if (l->config.share == SHOAL_SHARE_BATCH) return sample_at(l, epoch, own);
  return sample_at(l, epoch, (uint64_t)l->config.rank + own * (uint64_t)l->config.size);
}

/* Samples of the (global, or own strided) batch at a position; 0 at the end of the epoch. */
static uint64_t batch_total(const shoal_loader *l, uint64_t position)
{
  uint64_t left = l->own_n - position, b = l->config.batch;
  if (left == 0) return 0;
  if (left >= b || l->config.last == SHOAL_LAST_PAD) return b;
  return l->config.last == SHOAL_LAST_DROP ? 0 : left;
}

/* Where sample `id`, whose normalised values are x, is not finite: in what was read (4 bytes each: u8 always is), or only
 * in x, where a value becomes too large. */
static void note_bad(const shoal_loader *l, slot *s, uint64_t id, const float *x)
{
  const float *raw = l->raw;
  shoal_bad_samples *bad = &s->batch.bad;
  if (bad->n++ > 0) return;
  bad->id = id;
  for (size_t k = 0; k < l->elements; k++) {
    bad->feature = k;
    bad->value = raw[k];
    if (!isfinite(raw[k])) return;
  }
  for (size_t k = 0; k < l->elements; k++)
    if (!isfinite(x[k])) {
      bad->feature = k;
      bad->value = raw[k];
      return;
    }
}

/* The first feature that reaches a limit once normalised, or is not finite; `elements` if none does. */
static size_t find_far(const shoal_loader *l, const float *x, float limit)
{
  size_t k = 0;
  while (k < l->elements && fabsf(x[k]) < limit) k++;
  return k;
}

static void note_far(const shoal_loader *l, slot *s, uint64_t id, size_t k, float limit)
{
  shoal_bad_samples *bad = &s->batch.bad;
  if (bad->n++ > 0) return;
  *bad = (shoal_bad_samples){ 1, id, k, ((const float *)l->raw)[k], limit };
}

static bool is_finite(const shoal_loader *l, const float *x)
{
  size_t k = 0;
  while (k < l->elements && isfinite(x[k])) k++;
  return k == l->elements;
}

static shoal_status fill_sample(shoal_loader *l, slot *s, size_t i, uint64_t epoch, uint64_t id)
{
  const shoal_loader_config *c = &l->config;
  float *x = s->x + i * l->elements;
  s->ids[i] = id;
  SHOAL_TRY(shoal_dataset_read(l->data, c->split, id, l->raw, s->y + i * l->labels));
  for (size_t k = 0; l->text && k < l->elements; k++) x[k] = (float)shoal_data_token(l->data, l->raw, k);
  if (l->text) return SHOAL_OK;
  const float limit = c->far > 0 ? c->far : SHOAL_DATA_FAR;
  bool near;
  if (c->crop4 || c->hflip) {
    shoal_augment a = shoal_augment_choose(c->seed, epoch, id, c->crop4, c->hflip);
    near = shoal_augment_apply(&a, &l->normal, &l->sample, l->raw, x);
  } else {
    near = shoal_normal_apply(&l->normal, l->raw, x);
  }
  if (!near) (void)shoal_normal_apply(&l->normal, l->raw, x); /* where it is, is told as it is in the file */
  const size_t far = near && c->far == 0 ? l->elements : find_far(l, x, limit);
  if (far == l->elements) return SHOAL_OK;
  if (is_finite(l, x))
    note_far(l, s, id, far, limit);
  else
    note_bad(l, s, id, x);
  if (c->far > 0) {
    if (l->targets)
      s->t[i * l->labels] = NAN;
    else
      s->y[i] = -1;
    memset(x, 0, l->elements * sizeof *x);
  }
  return SHOAL_OK;
}

/* The slot's batch at a place, or the end mark, without its samples.  @return  their first position in the epoch */
static uint64_t lay_out(const shoal_loader *l, slot *s, place at)
{
  const shoal_loader_config *c = &l->config;
  bool strided = c->share == SHOAL_SHARE_STRIDED;
  uint64_t total = batch_total(l, at.position), first = 0, count = total;
  s->end = total == 0;
  s->status = SHOAL_OK;
  if (!strided) shoal_share_of(total, c->rank, c->size, &first, &count);
  s->batch = (shoal_batch){ .epoch = at.epoch,
                            .position = at.position,
                            .total = total,
                            .slot0 = strided ? (uint64_t)c->rank * c->batch : first,
                            .n = (int64_t)count,
                            .x = s->x,
                            .y = s->y,
                            .ids = s->ids };
  return at.position + first;
}

/* The `i`-th sample of this rank in a batch whose first is at position `from`; wraps around only for padding. */
static uint64_t sample_of(shoal_loader *l, const slot *s, uint64_t from, uint64_t i)
{
  return own_sample(l, s->batch.epoch, (from + i) % l->own_n);
}

/* Fills a slot with the batch at a place, the end mark, or an error. */
static void fill(shoal_loader *l, slot *s, place at)
{
  uint64_t from = lay_out(l, s, at), count = (uint64_t)s->batch.n;
  for (uint64_t i = 0; i < count && s->status == SHOAL_OK && !l->config.sizes_only; i++)
    s->status = fill_sample(l, s, i, at.epoch, sample_of(l, s, from, i));
}

static place place_after(const shoal_loader *l, const slot *s)
{
  if (s->end) return (place){ s->batch.epoch + 1, 0 };
  return (place){ s->batch.epoch, SHOAL_MIN(s->batch.position + s->batch.total, l->own_n) };
}

/* ---- the thread ---- */

static bool may_fill(const shoal_loader *l)
{
  return !l->idle && !l->resting && l->filled - l->taken < l->n_slots - 1;
}

static void *run(void *context)
{
  shoal_loader *l = context;
  pthread_mutex_lock(&l->lock);
  while (!l->stop) {
    if (!may_fill(l)) {
      pthread_cond_wait(&l->more_slots, &l->lock);
      continue;
    }
    uint64_t generation = l->generation;
    slot *s = &l->slots[l->filled % l->n_slots];
    place at = l->reader;
    pthread_mutex_unlock(&l->lock);
    fill(l, s, at);
    pthread_mutex_lock(&l->lock);
    if (generation != l->generation) continue;
    l->reader = place_after(l, s);
    if (s->status != SHOAL_OK) shoal_error_take(&l->error);
    /* Prefetching the next epoch is useful in training only; a test split is read rarely. */
    l->resting = s->status != SHOAL_OK || (s->end && !l->config.shuffle);
    l->filled++;
    pthread_cond_signal(&l->more_batches);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static shoal_status start_thread(shoal_loader *l)
{
  int error = pthread_create(&l->thread, NULL, run, l);
  SHOAL_CHECK(error == 0, SHOAL_ERR_MEM, "cannot start the thread that reads ahead (error %d); set the depth to 0",
              error);
  l->running = true;
  return SHOAL_OK;
}

/* ---- creation ---- */

static shoal_status check_config(const shoal_dataset *d, const shoal_loader_config *c)
{
  const shoal_data_info *info = shoal_dataset_info(d);
  uint64_t n = info->n[c->split];
  const char *path = shoal_dataset_path(d);
  SHOAL_CHECK(n > 0, SHOAL_ERR_ARG, "%s has no %s samples", path, shoal_split_name(c->split));
  SHOAL_CHECK(c->size >= 1 && c->rank >= 0 && c->rank < c->size, SHOAL_ERR_ARG, "rank %d of %d does not exist", c->rank,
              c->size);
  SHOAL_CHECK(c->batch >= 1 && c->batch <= INT32_MAX, SHOAL_ERR_ARG, "a batch of %" PRIu64 " samples is out of range",
              c->batch);
  SHOAL_CHECK(c->shard == SHOAL_SHARD_DRAWN || c->share == SHOAL_SHARE_STRIDED, SHOAL_ERR_ARG,
              "ranks that share batches have no shards of their own: a shard needs strided shares");
  SHOAL_CHECK(c->depth >= 0 && c->depth <= 1024, SHOAL_ERR_ARG, "reading %d batches ahead is out of range (0 to 1024)",
              c->depth);
  /* The minimum over the ranks, so that all decide alike. */
  uint64_t least = c->share == SHOAL_SHARE_STRIDED ? n / (uint64_t)c->size : n;
  SHOAL_CHECK(c->last != SHOAL_LAST_DROP || least >= c->batch, SHOAL_ERR_ARG,
              "dropping the last batch would drop everything: a batch has %" PRIu64 " samples, %s has %" PRIu64
              "%s; lower "
              "the batch or keep the last one short",
              c->batch, path, least, c->share == SHOAL_SHARE_STRIDED ? " per rank" : "");
  SHOAL_CHECK((!c->crop4 && !c->hflip) || info->kind == SHOAL_DATA_IMAGES, SHOAL_ERR_ARG,
              "%s holds %s; %s is for images", path, shoal_data_kind_name(info->kind), c->crop4 ? "crop4" : "hflip");
  SHOAL_CHECK(c->shard != SHOAL_SHARD_SORTED || info->kind != SHOAL_DATA_TEXT, SHOAL_ERR_ARG,
              "%s holds text, whose samples have no label to sort them by: set data.shards to drawn or fixed", path);
  return SHOAL_OK;
}

static shoal_status make_normal(shoal_loader *l)
{
  const double least = 1e-30, most = 1e30; /* standard deviations that leave f32 room on both sides */
  const double *mean, *std;
  shoal_normal *n = &l->normal;
  shoal_dataset_scale(l->data, &n->groups, &mean, &std);
  if (l->text) return SHOAL_OK;
  n->plane = l->elements / n->groups;
  if (shoal_dataset_info(l->data)->x_bytes == 1) {
    SHOAL_TRY(SHOAL_ALLOC(n->groups * 256, &n->table));
    for (size_t g = 0; g < n->groups; g++)
      for (int v = 0; v < 256; v++) n->table[g * 256 + (size_t)v] = (float)((v - mean[g]) / std[g]);
    for (size_t i = 0; i < n->groups * 256; i++)
      SHOAL_CHECK(isfinite(n->table[i]), SHOAL_ERR_IO,
                  "%s: mean %g and std %g make %zu infinite: remove these attributes, or `shoal data repack` the file",
                  shoal_dataset_path(l->data), mean[i / 256], std[i / 256], i % 256);
    return SHOAL_OK;
  }
  SHOAL_TRY(SHOAL_ALLOC(2 * n->groups, &n->mean));
  SHOAL_TRY(SHOAL_ALLOC(2 * n->groups, &n->mean_f64));
  n->scale = n->mean + n->groups;
  n->std_f64 = n->mean_f64 + n->groups;
  for (size_t g = 0; g < n->groups; g++) {
    n->mean[g] = (float)mean[g];
    n->scale[g] = std[g] > least && std[g] < most ? (float)(1 / std[g]) : 0;
    n->mean_f64[g] = mean[g];
    n->std_f64[g] = std[g];
  }
  return SHOAL_OK;
}

typedef struct {
  double label; /* its class, or first target */
  uint64_t id;
} labelled;

static int compare_labels(const void *a, const void *b)
{
  const labelled *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

static shoal_status sort_shard(shoal_loader *l)
{
  labelled *all;
  uint64_t first, count;
  SHOAL_TRY(shoal_dataset_hold_labels(l->data));
  SHOAL_TRY(SHOAL_ALLOC(l->split_n, &all));
  const shoal_split split = l->config.split;
  const int32_t *labels = l->data->part[split].labels;
  for (uint64_t i = 0; i < l->split_n; i++)
    all[i] = (labelled){ l->targets ? *shoal_dataset_target(l->data, split, i) : labels[i], i };
  qsort(all, l->split_n, sizeof *all, compare_labels);
  shoal_share_of(l->split_n, l->config.rank, l->config.size, &first, &count);
  for (uint64_t i = 0; i < count; i++) l->shard[i] = all[first + i].id;
  free(all);
  return SHOAL_OK;
}

static shoal_status make_shard(shoal_loader *l)
{
  const shoal_loader_config *c = &l->config;
  shoal_perm perm;
  uint64_t *shard;
  if (c->shard == SHOAL_SHARD_DRAWN) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(l->own_n, &shard));
  l->shard = shard;
  if (c->shard == SHOAL_SHARD_SORTED) return sort_shard(l);
  shoal_perm_init(&perm, c->seed, SHOAL_RNG_ORDER, 0, l->split_n);
  for (uint64_t i = 0; i < l->own_n; i++) {
    uint64_t position = (uint64_t)c->rank + i * (uint64_t)c->size;
    shard[i] = c->shuffle ? shoal_perm_at(&perm, position) : position;
  }
  return SHOAL_OK;
}

static shoal_status make_slots(shoal_loader *l)
{
  SHOAL_TRY(SHOAL_ALLOC(l->n_slots, &l->slots));
  size_t n = (size_t)l->max_batch;
  for (uint64_t i = 0; i < l->n_slots; i++) {
    slot *s = &l->slots[i];
    if (l->config.sizes_only) break;
    SHOAL_TRY(shoal_alloc(n * l->elements, sizeof *s->x, "a batch", (void **)&s->x));
    SHOAL_TRY(SHOAL_ALLOC(n * l->labels, &s->y));
    SHOAL_TRY(SHOAL_ALLOC(n, &s->ids));
  }
  return SHOAL_OK;
}

static int64_t largest_share(const shoal_loader *l)
{
  const shoal_loader_config *c = &l->config;
  uint64_t b = c->last == SHOAL_LAST_PAD ? c->batch : SHOAL_MIN(c->batch, l->own_n), first;
  if (c->share == SHOAL_SHARE_BATCH) shoal_share_of(b, c->rank, c->size, &first, &b);
  return (int64_t)SHOAL_MAX(b, UINT64_C(1));
}

shoal_status shoal_loader_create(shoal_dataset *d, const shoal_loader_config *c, shoal_loader **out)
{
  shoal_loader *l;
  shoal_status st;
  SHOAL_TRY(check_config(d, c));
  SHOAL_TRY(SHOAL_ALLOC(1, &l));
  const shoal_data_info *info = shoal_dataset_info(d);
  l->data = d;
  l->config = *c;
  l->sample = info->sample;
  l->elements = (size_t)shoal_shape_count(&info->sample);
  l->labels = (size_t)info->labels;
  l->text = info->kind == SHOAL_DATA_TEXT;
  l->targets = info->targets > 0;
  l->split_n = l->own_n = info->n[c->split];
  if (c->share == SHOAL_SHARE_STRIDED) {
    uint64_t r = (uint64_t)c->rank, p = (uint64_t)c->size;
    l->own_n = l->split_n > r ? (l->split_n - r + p - 1) / p : 0;
  }
  l->max_batch = largest_share(l);
  l->n_slots = (uint64_t)c->depth + 1;
  l->idle = true;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->more_slots, NULL);
  pthread_cond_init(&l->more_batches, NULL);
  SHOAL_TRY_GOTO(st, make_normal(l), fail);
  SHOAL_TRY_GOTO(st, make_shard(l), fail);
  SHOAL_TRY_GOTO(st, shoal_alloc(l->elements, (size_t)info->x_bytes, "a sample", &l->raw), fail);
  SHOAL_TRY_GOTO(st, make_slots(l), fail);
  if (c->depth > 0) SHOAL_TRY_GOTO(st, start_thread(l), fail);
  *out = l;
  return SHOAL_OK;
fail:
  shoal_loader_destroy(l);
  return st;
}

void shoal_loader_destroy(shoal_loader *l)
{
  if (!l) return;
  if (l->running) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->more_slots);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
  }
  for (uint64_t i = 0; l->slots && i < l->n_slots; i++) {
    free(l->slots[i].x);
    free(l->slots[i].y);
    free(l->slots[i].ids);
  }
  free(l->slots);
  free(l->raw);
  free(l->shard);
  free(l->normal.table);
  free(l->normal.mean);
  free(l->normal.mean_f64);
  pthread_cond_destroy(&l->more_batches);
  pthread_cond_destroy(&l->more_slots);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

/* ---- use ---- */

shoal_status shoal_loader_seek(shoal_loader *l, uint64_t epoch, uint64_t position)
{
  SHOAL_CHECK(position <= l->own_n, SHOAL_ERR_ARG, "position %" PRIu64 " is beyond the end of the epoch at %" PRIu64,
              position, l->own_n);
  SHOAL_CHECK(epoch <= UINT32_MAX, SHOAL_ERR_ARG, "epoch %" PRIu64 " is out of range", epoch);
  pthread_mutex_lock(&l->lock);
  /* A caller that counts batches seeks without having read the end mark: skip it. */
  if (!l->at_end && l->filled > l->taken && l->slots[l->taken % l->n_slots].end) {
    l->taken++;
    l->at_end = true;
  }
  bool there = l->caller.epoch == epoch && l->caller.position == position && !l->at_end && !l->idle;
  there |= l->at_end && l->caller.epoch + 1 == epoch && position == 0 && l->config.shuffle;
  bool failed = l->resting && l->filled > 0 && l->slots[(l->filled - 1) % l->n_slots].status != SHOAL_OK;
  l->caller = (place){ epoch, position };
  l->at_end = false;
  if (!there || failed) {
    l->generation++;
    l->filled = l->taken;
    l->reader = l->caller;
    l->resting = false;
  }
  l->idle = false;
  pthread_cond_signal(&l->more_slots);
  pthread_mutex_unlock(&l->lock);
  return SHOAL_OK;
}

/* The slot for the caller's place: waits for the thread, or fills it here. */
static slot *take(shoal_loader *l)
{
  if (!l->running) {
    l->idle = false;
    fill(l, &l->slots[0], l->caller);
    return &l->slots[0];
  }
  pthread_mutex_lock(&l->lock);
  l->idle = false;
  pthread_cond_signal(&l->more_slots);
  if (l->filled == l->taken) {
    shoal_activity_begin(false, "waiting for a batch of %s", shoal_dataset_path(l->data));
    while (l->filled == l->taken) pthread_cond_wait(&l->more_batches, &l->lock);
    shoal_activity_end();
  }
  slot *s = &l->slots[l->taken % l->n_slots];
  if (s->status == SHOAL_OK) {
    l->taken++;
    pthread_cond_signal(&l->more_slots);
  } else {
    (void)shoal_error_put(&l->error); /* created by the thread; becomes the caller's error */
  }
  pthread_mutex_unlock(&l->lock);
  return s;
}

shoal_status shoal_loader_next(shoal_loader *l, const shoal_batch **out)
{
  *out = NULL;
  if (l->at_end) return SHOAL_OK;
  slot *s = take(l);
  if (s->status != SHOAL_OK) return s->status;
  l->at_end = s->end;
  if (s->end) return SHOAL_OK;
  l->caller = place_after(l, s);
  *out = &s->batch;
  return SHOAL_OK;
}

const shoal_batch *shoal_loader_peek(shoal_loader *l)
{
  const slot *s = NULL;
  if (!l->running || l->at_end) return NULL;
  pthread_mutex_lock(&l->lock);
  if (l->filled > l->taken) s = &l->slots[l->taken % l->n_slots];
  pthread_mutex_unlock(&l->lock);
  return s && s->status == SHOAL_OK && !s->end ? &s->batch : NULL;
}

/* The thread rests, and so leaves the slot that failed and the order of samples to the caller. */
void shoal_loader_blank(shoal_loader *l, const shoal_batch **out)
{
  slot *s = &l->slots[l->taken % l->n_slots];
  shoal_status failed = s->status; /* stays: the next seek begins anew */
  uint64_t from = lay_out(l, s, l->caller), count = (uint64_t)s->batch.n;
  s->status = failed;
  l->at_end = s->end;
  *out = s->end ? NULL : &s->batch;
  if (s->end) return;
  memset(s->x, 0, count * l->elements * sizeof *s->x);
  memset(s->y, 0, count * l->labels * sizeof *s->y);
  for (uint64_t i = 0; i < count; i++) s->ids[i] = sample_of(l, s, from, i);
  l->caller = place_after(l, s);
}

uint64_t shoal_loader_batches(const shoal_loader *l)
{
  uint64_t b = l->config.batch, whole = l->own_n / b;
  return whole + (l->config.last != SHOAL_LAST_DROP && l->own_n % b != 0);
}

uint64_t shoal_loader_samples(const shoal_loader *l)
{
  return l->own_n;
}

int64_t shoal_loader_max_batch(const shoal_loader *l)
{
  return l->max_batch;
}
