/* Reading of single samples in any order, and of consecutive samples.
 *
 * Shuffled training asks for samples in random order, and a parallel file system answers a random read of 3 KiB as
 * slowly as a sequential read of a megabyte.  So a split that fits (256 MiB by default) is read once, sequentially,
 * when its first sample is requested; this happens in the loader's thread, not on opening.  The limit is low enough
 * that eight ranks on a node hold at most 2 GiB of training data.
 *
 * Larger splits are read sample by sample, and h5/table.h fetches only the bytes of the sample, unless the chunks are
 * compressed.  Plain contiguous arrays are read with pread(), because HDF5 would fetch 64 KiB around each sample.
 *
 * Not here: order and augmentation (loader.c). */
#include "base/crc32c.h"
#include "base/interrupt.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/subnormal.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t block_bytes = UINT64_C(8) << 20;

static shoal_status read_raw(const shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, void *x)
{
  const size_t row = d->sample_bytes / d->span;
  uint64_t at = d->part[split].raw + first * row, left = n * row;
  for (char *to = x; left > 0;) {
    ssize_t got = pread(d->fd, to, left, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    SHOAL_CHECK(got >= 0, SHOAL_ERR_IO, "cannot read %s at byte %" PRIu64 ": %s", d->path, at, strerror(errno));
    SHOAL_CHECK(got > 0, SHOAL_ERR_IO, "%s is cut short: it ends at byte %" PRIu64 ", inside /%s", d->path, at,
                d->names.x[split]);
    to += got;
    at += (uint64_t)got;
    left -= (uint64_t)got;
  }
  return SHOAL_OK;
}

/* Rows of the file. */
static shoal_status read_rows(const shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, void *x)
{
  const shoal_data_part *p = &d->part[split];
  if (p->raw != SHOAL_H5_NO_OFFSET) return read_raw(d, split, first, n, x);
  bool flushes = shoal_subnormals_flush(false); /* HDF5 converts doubles with the arithmetic of this thread */
  shoal_status st = shoal_h5_table_read(p->x, first, n, x);
  (void)shoal_subnormals_flush(flushes);
  return st;
}

/* [h, w, c] to [c, h, w], in place. */
static void nhwc_to_nchw(const shoal_dataset *d, void *x)
{
  size_t c = (size_t)d->info.sample.dim[0], plane = d->elements / c;
  memcpy(d->scratch, x, d->sample_bytes);
  for (size_t k = 0; k < c; k++)
    for (size_t i = 0; i < plane; i++) {
      if (d->info.x_bytes == 1)
        ((uint8_t *)x)[k * plane + i] = ((const uint8_t *)d->scratch)[i * c + k];
      else
        ((float *)x)[k * plane + i] = ((const float *)d->scratch)[i * c + k];
    }
}

enum { LABELS = 4096 }; /* read at a time */

static shoal_status rows_of_members(shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, void *x,
                                    int32_t *y)
{
  for (uint64_t done = 0, step; done < n; done += step) {
    uint64_t at = first + done;
    shoal_dataset *m = shoal_dataset_file_of(d, split, &at);
    step = SHOAL_MIN(n - done, m->info.n[split] - at);
    SHOAL_TRY(
        shoal_dataset_rows(m, split, at, step, x ? (char *)x + done * d->sample_bytes : NULL, y ? y + done : NULL));
    for (uint64_t i = done; y && m->class_of && i < done + step; i++)
      y[i] = (int32_t)shoal_labels_map(m->class_of, m->n_class_of, y[i]);
  }
  return SHOAL_OK;
}

shoal_status shoal_dataset_rows(shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, void *x, int32_t *y)
{
  if (n == 0) return SHOAL_OK;
  if (d->n_members) return rows_of_members(d, split, first, n, x, y);
  if (x) {
    SHOAL_TRY(read_rows(d, split, first * d->span, n * d->span, x));
    if (d->channels_last)
      for (uint64_t i = 0; i < n; i++) nhwc_to_nchw(d, (char *)x + i * d->sample_bytes);
  }
  if (!y) return SHOAL_OK;
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  memcpy(y, d->part[split].labels + first, n * sizeof *y);
  return SHOAL_OK;
}

/* Labels are counted as they are in the file, and kept as class numbers; what is none of 32 bits is kept as -1, for nobody
 * trains with labels that the count finds wrong. */
static shoal_status read_labels(shoal_dataset *d, shoal_split split)
{
  shoal_data_part *p = &d->part[split];
  uint64_t n = d->info.n[split];
  union {
    int64_t i[LABELS];
    uint64_t u[LABELS];
  } block;
  SHOAL_TRY(shoal_limit_memory(d->path, "the labels", n, sizeof *p->labels));
  SHOAL_TRY(SHOAL_ALLOC(n, &p->labels));
  for (uint64_t at = 0; at < n; at += LABELS) {
    uint64_t part = SHOAL_MIN(n - at, (uint64_t)LABELS);
    SHOAL_TRY(shoal_interrupt_check());
    SHOAL_TRY(shoal_h5_table_read(p->y, at, part, &block));
    for (uint64_t k = 0; k < part; k++) {
      SHOAL_CHECK(!p->wide || block.u[k] <= INT64_MAX, SHOAL_ERR_IO,
                  "%s: sample %" PRIu64 " of /%s has label %" PRIu64
                  "; such values often mark samples without a label: remove these samples",
                  d->path, at + k, d->names.y[split], block.u[k]);
      SHOAL_TRY(shoal_labels_add(&d->labels, split, block.i[k]));
      p->labels[at + k] = block.i[k] >= INT32_MIN && block.i[k] <= INT32_MAX ? (int32_t)block.i[k] : -1;
    }
  }
  return SHOAL_OK;
}

void shoal_dataset_forget_labels(shoal_dataset *d)
{
  for (int s = 0; s < 2; s++) {
    free(d->part[s].labels);
    d->part[s].labels = NULL;
  }
  shoal_labels_fini(&d->labels);
  d->has_labels = false;
}

/* Of all files, one behind the other. */
static shoal_status join_labels(shoal_dataset *d)
{
  if (d->names.targets) return SHOAL_OK;
  for (size_t i = 0; i < d->n_members; i++) {
    SHOAL_TRY(shoal_dataset_hold_labels(d->member[i]));
    SHOAL_TRY(shoal_labels_merge(&d->labels, &d->member[i]->labels, d->member[i]->class_of, d->member[i]->n_class_of));
  }
  for (int s = 0; s < 2; s++) {
    SHOAL_TRY(SHOAL_ALLOC(d->info.n[s], &d->part[s].labels));
    SHOAL_TRY(shoal_dataset_rows(d, (shoal_split)s, 0, d->info.n[s], NULL, d->part[s].labels));
  }
  return SHOAL_OK;
}

shoal_status shoal_dataset_hold_labels(shoal_dataset *d)
{
  shoal_status st = SHOAL_OK;
  if (d->has_labels) return st;
  shoal_labels_init(&d->labels, d->has_classes ? d->info.classes : 0);
  d->labels.names = d->class_names;
  d->labels.source = d->info.source;
  d->labels.may_state = true;
  if (d->n_members) st = join_labels(d);
  for (int s = 0; s < 2 && st == SHOAL_OK; s++)
    if (d->part[s].y && !d->names.targets) st = read_labels(d, (shoal_split)s);
  if (st == SHOAL_OK)
    shoal_labels_finish(&d->labels);
  else
    shoal_dataset_forget_labels(d);
  d->has_labels = st == SHOAL_OK;
  return st;
}

shoal_status shoal_dataset_labels(shoal_dataset *d, const shoal_labels **out)
{
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  *out = &d->labels;
  return SHOAL_OK;
}

uint32_t shoal_data_sum_labels(const shoal_dataset *d, shoal_split split)
{
  const shoal_data_part *p = &d->part[split];
  if (p->targets) return shoal_crc32c(0, p->targets, d->info.n[split] * d->targets.n * sizeof *p->targets);
  return p->labels ? shoal_crc32c(0, p->labels, d->info.n[split] * sizeof *p->labels) : 0;
}

static shoal_status check_label_sum(const shoal_dataset *d, shoal_split split)
{
  const shoal_data_part *p = &d->part[split];
  int64_t want;
  shoal_h5 object = shoal_h5_table_object(p->y);
  if (!d->ours || d->names.foreign || !shoal_h5_has_attribute(object, "crc32c")) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_get_i64(object, "crc32c", &want));
  uint32_t is = shoal_data_sum_labels(d, split);
  SHOAL_CHECK((uint32_t)want == is, SHOAL_ERR_IO,
              "%s: /%s is damaged: check sum %08" PRIx32 " was written, %08" PRIx32 " is read; make the file anew",
              d->path, d->names.y[split], (uint32_t)want, is);
  return SHOAL_OK;
}

shoal_status shoal_dataset_check_label_sums(shoal_dataset *d)
{
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  for (int s = 0; s < 2; s++)
    if (d->part[s].y) SHOAL_TRY(check_label_sum(d, (shoal_split)s));
  return SHOAL_OK;
}

static shoal_status check_file_labels(shoal_dataset *d)
{
  if (d->names.targets) return shoal_dataset_check_label_sums(d);
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  SHOAL_TRY(shoal_data_check_labels(d));
  return shoal_dataset_check_label_sums(d);
}

shoal_status shoal_dataset_check_labels(shoal_dataset *d)
{
  if (d->names.text) return SHOAL_OK;
  for (size_t i = 0; i < d->n_members; i++) SHOAL_TRY(check_file_labels(d->member[i]));
  if (d->n_members == 0) SHOAL_TRY(check_file_labels(d));
  if (d->names.targets) return SHOAL_OK;
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  shoal_labels_warn(&d->labels, d->path);
  return SHOAL_OK;
}

static bool fits_memory(const shoal_dataset *d, shoal_split split)
{
  return d->info.n[split] <= d->hold_bytes / d->sample_bytes;
}

uint64_t shoal_dataset_unpacks(const shoal_dataset *d, shoal_split split)
{
  shoal_h5_facts f;
  if (!d->part[split].x || shoal_h5_table_facts(d->part[split].x, &f) != SHOAL_OK || !f.filters[0]) return 1;
  return SHOAL_MIN(SHOAL_MAX(f.chunk[0] / d->span, UINT64_C(1)), d->info.n[split]);
}

void shoal_dataset_warn_of_cost(const shoal_dataset *d)
{
  enum { MANY = 16 };
  for (size_t i = 0; i < d->n_members; i++) shoal_dataset_warn_of_cost(d->member[i]);
  char word[SHOAL_WORD];
  uint64_t unpacks = shoal_dataset_unpacks(d, SHOAL_TRAIN);
  if (fits_memory(d, SHOAL_TRAIN) || unpacks < MANY) return;
  shoal_warn("%s: shuffled reads of /%s unpack %" PRIu64 " samples each; cure: shoal data repack %s -o FILE", d->path,
             d->names.x[SHOAL_TRAIN], unpacks, shoal_shell_word(d->path, word));
}

/* ---- check sums ---- */

static shoal_status read_sums(shoal_dataset *d, shoal_split split)
{
  char name[32];
  uint64_t n = d->info.n[split];
  snprintf(name, sizeof name, "%s/" SHOAL_DATA_SUMS, shoal_split_name(split));
  if (!d->ours || d->names.foreign || d->part[split].sums || !shoal_h5_exists(d->file, name)) return SHOAL_OK;
  uint32_t *sums;
  SHOAL_TRY(SHOAL_ALLOC(n, &sums));
  shoal_status st = shoal_h5_read(d->file, name, SHOAL_U32, n, sums);
  if (st == SHOAL_OK)
    d->part[split].sums = sums;
  else
    free(sums);
  return st;
}

static shoal_status check_samples(const shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, const void *x)
{
  const uint32_t *sums = d->part[split].sums;
  for (uint64_t i = 0; sums && i < n; i++) {
    uint32_t is = shoal_crc32c(0, (const char *)x + i * d->sample_bytes, d->sample_bytes);
    SHOAL_CHECK(is == sums[first + i], SHOAL_ERR_IO,
                "%s: sample %" PRIu64 " of /%s is damaged: check sum %08" PRIx32 " was written, %08" PRIx32
                " is read; make the file anew",
                d->path, first + i, d->names.x[split], sums[first + i], is);
  }
  return SHOAL_OK;
}

shoal_status shoal_dataset_find_damage(shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, const void *x,
                                       shoal_data_damage *found)
{
  SHOAL_TRY(read_sums(d, split));
  const uint32_t *sums = d->part[split].sums;
  for (uint64_t i = 0; sums && i < n; i++) {
    if (shoal_crc32c(0, (const char *)x + i * d->sample_bytes, d->sample_bytes) == sums[first + i]) continue;
    if (found->samples++ == 0) found->first = first + i;
    found->last = first + i;
  }
  return SHOAL_OK;
}

/* Of a file from before samples had check sums: the one over everything, where everything is in memory. */
static shoal_status check_all(const shoal_dataset *d)
{
  uint32_t crc[4] = { 0 };
  for (int s = 0; s < 2; s++) {
    const shoal_data_part *p = &d->part[s];
    if (d->info.n[s] == 0) continue;
    crc[2 * s] = shoal_crc32c(0, p->held, d->info.n[s] * d->sample_bytes);
    crc[2 * s + 1] = shoal_data_sum_labels(d, (shoal_split)s);
  }
  uint32_t is = shoal_data_checksum(crc);
  SHOAL_CHECK(is == d->checksum, SHOAL_ERR_IO,
              "%s is damaged: its data has check sum %08" PRIx32 ", %08" PRIx32 " was written; make it anew", d->path,
              is, d->checksum);
  return SHOAL_OK;
}

static shoal_status hold_samples(shoal_dataset *d, shoal_split split)
{
  shoal_data_part *p = &d->part[split];
  uint64_t n = d->info.n[split], step = SHOAL_MAX(block_bytes / d->sample_bytes, UINT64_C(1));
  if (p->held || !fits_memory(d, split)) return SHOAL_OK;
  void *held;
  SHOAL_TRY(shoal_alloc(n * d->span + 1, d->sample_bytes / d->span, "a split of the data set", &held));
  for (uint64_t at = 0; at < n; at += step) {
    uint64_t count = SHOAL_MIN(step, n - at);
    char *to = (char *)held + at * d->sample_bytes;
    shoal_status st = shoal_dataset_rows(d, split, at, count, to, NULL);
    if (st == SHOAL_OK) st = check_samples(d, split, at, count, to);
    if (st == SHOAL_OK && at + count == n && n * d->span < p->rows)
      st = read_rows(d, split, n * d->span, 1, to + count * d->sample_bytes);
    if (st != SHOAL_OK) {
      free(held);
      return st;
    }
  }
  p->held = held;
  return SHOAL_OK;
}

/* An older file is verified as a whole, with the first use of one of its splits. */
static shoal_status hold_and_check_all(shoal_dataset *d)
{
  bool whole = d->has_checksum && !d->names.text && !d->part[SHOAL_TRAIN].sums && fits_memory(d, SHOAL_TRAIN) &&
               fits_memory(d, SHOAL_TEST);
  if (!whole) return SHOAL_OK;
  SHOAL_TRY(hold_samples(d, SHOAL_TRAIN));
  if (d->info.n[SHOAL_TEST]) SHOAL_TRY(hold_samples(d, SHOAL_TEST));
  return check_all(d);
}

/* Reads labels, and samples if they are to be cached, on the first use of a split. */
static shoal_status make_ready(shoal_dataset *d, shoal_split split)
{
  shoal_data_part *p = &d->part[split];
  shoal_status st = SHOAL_OK;
  pthread_mutex_lock(&d->lock);
  if (!atomic_load_explicit(&p->ready, memory_order_relaxed)) {
    st = shoal_dataset_hold_labels(d);
    if (st == SHOAL_OK) st = read_sums(d, split);
    if (st == SHOAL_OK) st = hold_samples(d, split);
    if (st == SHOAL_OK && !d->part[1 - split].held) st = hold_and_check_all(d);
    if (st == SHOAL_OK) atomic_store_explicit(&p->ready, true, memory_order_release);
  }
  pthread_mutex_unlock(&d->lock);
  return st;
}

static shoal_status read_sample(shoal_dataset *d, shoal_split split, uint64_t id, void *x)
{
  const shoal_data_part *p = &d->part[split];
  if (p->held) {
    memcpy(x, (const char *)p->held + id * d->sample_bytes, d->sample_bytes);
    return SHOAL_OK;
  }
  pthread_mutex_lock(&d->lock);
  shoal_status st = shoal_dataset_rows(d, split, id, 1, x, NULL);
  pthread_mutex_unlock(&d->lock);
  return st == SHOAL_OK ? check_samples(d, split, id, 1, x) : st;
}

int64_t shoal_data_token(const shoal_dataset *d, const void *x, size_t k)
{
  return d->info.x_bytes == 1   ? ((const uint8_t *)x)[k]
         : d->info.x_bytes == 2 ? ((const uint16_t *)x)[k]
                                : ((const uint32_t *)x)[k];
}

/* Row `at` of the file. */
static shoal_status read_token(shoal_dataset *d, shoal_split split, uint64_t at, int64_t *out)
{
  const shoal_data_part *p = &d->part[split];
  uint32_t one = 0;
  if (p->held) {
    *out = shoal_data_token(d, p->held, at);
    return SHOAL_OK;
  }
  pthread_mutex_lock(&d->lock);
  shoal_status st = read_rows(d, split, at, 1, &one);
  pthread_mutex_unlock(&d->lock);
  *out = shoal_data_token(d, &one, 0);
  return st;
}

static shoal_status find_next(shoal_dataset *d, shoal_split split, uint64_t id, const void *x, int32_t *y)
{
  const uint64_t after = (id + 1) * d->span;
  int64_t next = -1;
  if (after < d->part[split].rows) SHOAL_TRY(read_token(d, split, after, &next));
  for (size_t k = 0; k < d->span; k++) {
    int64_t is = shoal_data_token(d, x, k), then = k + 1 < d->span ? shoal_data_token(d, x, k + 1) : next;
    SHOAL_CHECK(is < d->info.classes && then < d->info.classes, SHOAL_ERR_IO,
                "%s: token %" PRIu64 " of /%s is %" PRId64 ", and the vocabulary has %" PRId64
                "; give the file the right attribute classes",
                d->path, id * d->span + k + (is < d->info.classes), d->names.x[split], SHOAL_MAX(is, then),
                d->info.classes);
    y[k] = (int32_t)then;
  }
  return SHOAL_OK;
}

shoal_status shoal_dataset_read(shoal_dataset *d, shoal_split split, uint64_t id, void *x, void *y)
{
  shoal_data_part *p = &d->part[split];
  SHOAL_CHECK(id < d->info.n[split], SHOAL_ERR_ARG, "%s has %" PRIu64 " %s samples, there is no number %" PRIu64,
              d->path, d->info.n[split], shoal_split_name(split), id);
  if (d->n_members) {
    shoal_dataset *m = shoal_dataset_file_of(d, split, &id);
    SHOAL_TRY(shoal_dataset_read(m, split, id, x, y));
    int32_t *label = y;
    if (m->class_of) *label = (int32_t)shoal_labels_map(m->class_of, m->n_class_of, *label);
    return SHOAL_OK;
  }
  if (!atomic_load_explicit(&p->ready, memory_order_acquire)) SHOAL_TRY(make_ready(d, split));
  SHOAL_TRY(read_sample(d, split, id, x));
  if (d->names.text) return find_next(d, split, id, x, y);
  if (d->names.targets) {
    if (y) shoal_targets_normalise(&d->targets, p->targets + id * d->targets.n, y);
    return SHOAL_OK;
  }
  SHOAL_CHECK(p->labels[id] >= 0 && p->labels[id] < d->info.classes, SHOAL_ERR_IO,
              "%s: sample %" PRIu64 " of /%s has label %d, classes are 0 to %" PRId64
              "; `shoal data inspect` lists what is wrong with the file",
              d->path, id, d->names.y[split], p->labels[id], d->info.classes - 1);
  *(int32_t *)y = p->labels[id];
  return SHOAL_OK;
}

/* ---- names of files ---- */

static shoal_status add_files(shoal_dataset *d, shoal_split split, shoal_texts *out)
{
  char name[SHOAL_DATA_NAME + sizeof SHOAL_DATA_FILES], *text;
  const char *x = d->names.x[split], *slash = strrchr(x, '/');
  shoal_h5_facts f;
  snprintf(name, sizeof name, "%.*s" SHOAL_DATA_FILES, slash ? (int)(slash - x) + 1 : 0, x);
  if (!d->ours || !x[0] || !shoal_h5_exists(d->file, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_look(d->file, name, &f));
  if (f.class != SHOAL_H5_INTEGER || f.size != 1 || f.ndim != 1) return SHOAL_OK;
  SHOAL_TRY(shoal_limit_memory(d->path, name, f.dims[0], 1));
  SHOAL_TRY(SHOAL_ALLOC(f.dims[0] + 1, &text));
  shoal_status st = shoal_h5_read(d->file, name, SHOAL_U8, f.dims[0], text);
  const size_t end = strlen(text);
  if (end && text[end - 1] == '\n') text[end - 1] = '\0'; /* the last line ends, too */
  if (st == SHOAL_OK) st = shoal_texts_add_lines(out, text);
  free(text);
  return st;
}

shoal_status shoal_dataset_sources(shoal_dataset *d, shoal_split split, shoal_texts *out)
{
  const size_t n = SHOAL_MAX(d->n_members, (size_t)1);
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) st = add_files(shoal_dataset_file(d, i), split, out);
  if (out->n != d->info.n[split]) shoal_texts_free(out);
  return st;
}
