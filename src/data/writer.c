/* Writing a data set: used by importers, generators and repack, so that every file has the same layout.
 *
 * Samples are appended to a buffer of a few chunks, which is written when full; mean, std and checksums are accumulated
 * on the way.  The file has a temporary name until it is complete and on disk, so an importer that stops in the middle
 * leaves an existing output unchanged:
 *
 *     create .set.h5.tmp-host-pid -> add, add, … -> attributes, close -> fsync, rename to set.h5
 *
 * Disk space is reserved before each append, so that a full disk leaves the file consistent (h5/draft.h).
 *
 * A chunk is a few samples (16 KiB of them): readers that fetch whole chunks lose little on shuffled reads, and the
 * index stays small.  Timestamps are not stored, so equal content gives equal files. */
#include "base/crc32c.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "h5/draft.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16 << 10, CHUNK_SAMPLES = 64, CHUNK_TOKENS = 64 << 10, CHUNK_LABELS = 16 << 10, BUFFER = 1 << 20 };

typedef struct {
  shoal_h5_table *x, *y, *sums;
  uint64_t stored, waiting; /* samples in the file; in the buffer */
  char *buffer;             /* [rows, sample] */
  char *labels;             /* [rows] classes or targets; NULL: none */
  uint32_t *sum;            /* [rows] check sums of the samples in the buffer */
  uint32_t crc_x, crc_y;
  shoal_str files;     /* a line for each sample; empty: no names */
  uint64_t text_bytes; /* of tokens of a vocabulary */
} half;

struct shoal_data_writer {
  char *path;
  shoal_data_spec spec;
  char *source, *feature_names, *target_names; /* names are NULL if there are none, or too many for an attribute */
  shoal_h5_draft draft;
  shoal_dtype x_type;
  size_t sample_bytes, label_bytes; /* of a sample: its values, its class or targets */
  uint64_t rows;                    /* capacity of the buffer */
  half half[2];
  shoal_data_stats stats; /* of the training split */
};

uint64_t shoal_data_chunk_rows(shoal_data_kind kind, size_t sample_bytes)
{
  if (kind == SHOAL_DATA_TEXT) return CHUNK_TOKENS / sample_bytes;
  uint64_t rows = CHUNK_BYTES / sample_bytes;
  return SHOAL_MAX(UINT64_C(1), SHOAL_MIN(rows, (uint64_t)CHUNK_SAMPLES));
}

/* ---- creating ---- */

/* Creates an empty array, extendible along its first dimension.  Chunks are written without a cache, so that the file's
 * size shows what is reserved. */
static shoal_status make_array(const shoal_data_writer *w, const char *name, shoal_dtype type, const shoal_shape *row,
                               uint64_t chunk_rows, shoal_h5_table **out)
{
  shoal_h5_extent growing = { .ndim = row->ndim + 1, .chunk_rows = chunk_rows, .through = true };
  for (int i = 0; i < row->ndim; i++) growing.dims[i + 1] = (uint64_t)row->dim[i];
  return shoal_h5_table_create(w->draft.file, name, &(shoal_h5_row){ type }, &growing, out);
}

static shoal_dtype x_type_of(const shoal_data_spec *spec)
{
  if (spec->x_bytes == 1) return SHOAL_U8;
  if (spec->x_bytes == 2) return SHOAL_U16;
  return spec->kind == SHOAL_DATA_TEXT ? SHOAL_U32 : SHOAL_F32;
}

static size_t label_bytes_of(const shoal_data_spec *spec)
{
  return spec->targets ? spec->targets * sizeof(double) : sizeof(int32_t);
}

static shoal_status make_half(shoal_data_writer *w, shoal_split split)
{
  static const shoal_shape scalar = { 0 };
  half *h = &w->half[split];
  const char *name = shoal_split_name(split);
  bool text = w->spec.kind == SHOAL_DATA_TEXT;
  char path[32];
  snprintf(path, sizeof path, "%s/%s", name, text ? "tokens" : "x");
  SHOAL_TRY(make_array(w, path, w->x_type, text ? &scalar : &w->spec.sample,
                       shoal_data_chunk_rows(w->spec.kind, w->sample_bytes), &h->x));
  SHOAL_TRY(shoal_alloc(w->rows, w->sample_bytes, "samples to write", (void **)&h->buffer));
  if (text) return SHOAL_OK;
  snprintf(path, sizeof path, "%s/" SHOAL_DATA_SUMS, name);
  SHOAL_TRY(make_array(w, path, SHOAL_U32, &scalar, CHUNK_LABELS, &h->sums));
  SHOAL_TRY(SHOAL_ALLOC(w->rows, &h->sum));
  const shoal_shape targets = SHOAL_SHAPE((int64_t)w->spec.targets);
  snprintf(path, sizeof path, w->spec.targets ? "%s/targets" : "%s/y", name);
  SHOAL_TRY(make_array(w, path, w->spec.targets ? SHOAL_F64 : SHOAL_I32, w->spec.targets ? &targets : &scalar,
                       CHUNK_LABELS, &h->y));
  return shoal_alloc(w->rows, w->label_bytes, "labels to write", (void **)&h->labels);
}

shoal_status shoal_data_expect(const char *path, const shoal_data_spec *spec, uint64_t samples)
{
  const bool text = spec->kind == SHOAL_DATA_TEXT;
  const size_t beside = text ? 0 : label_bytes_of(spec) + sizeof(uint32_t); /* and a check sum */
  const double each = (double)shoal_shape_count(&spec->sample) * spec->x_bytes + (double)beside;
  char what[64];
  SHOAL_TRY(shoal_expect_folder(path));
  snprintf(what, sizeof what, "%" PRIu64 " %s", samples, text ? "tokens" : "samples");
  return shoal_expect_room(path, what, (double)samples * each);
}

static char *names_that_fit(const char *names)
{
  return names && strlen(names) < SHOAL_DATA_NAMES ? shoal_strdup_printf("%s", names) : NULL;
}

shoal_status shoal_data_writer_create(const char *path, const shoal_data_spec *spec, shoal_data_writer **out)
{
  shoal_data_writer *w;
  SHOAL_TRY(shoal_expect_folder(path)); /* before anything is read */
  SHOAL_CHECK(spec->targets <= SHOAL_DATA_SCALES, SHOAL_ERR_USAGE,
              "%s would have %zu targets per sample, at most %d are read: make several data sets", path, spec->targets,
              SHOAL_DATA_SCALES);
  SHOAL_TRY(SHOAL_ALLOC(1, &w));
  *w = (shoal_data_writer){ .path = shoal_strdup_printf("%s", path), .spec = *spec };
  w->source = shoal_strdup_printf("%s", spec->source);
  w->feature_names = names_that_fit(spec->feature_names);
  w->target_names = names_that_fit(spec->target_names);
  w->label_bytes = label_bytes_of(spec);
  w->sample_bytes = (size_t)shoal_shape_count(&spec->sample) * (size_t)spec->x_bytes;
  uint64_t chunk = shoal_data_chunk_rows(spec->kind, w->sample_bytes);
  w->rows = shoal_round_up(SHOAL_MAX(BUFFER / w->sample_bytes, 1), chunk);
  w->x_type = x_type_of(spec);
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_data_stats_init(&w->stats, spec->kind, &spec->sample, spec->x_bytes), fail);
  SHOAL_TRY_GOTO(st, shoal_h5_draft_open(&w->draft, path, 0), fail);
  SHOAL_TRY_GOTO(st, make_half(w, SHOAL_TRAIN), fail);
  SHOAL_TRY_GOTO(st, make_half(w, SHOAL_TEST), fail);
  *out = w;
  return SHOAL_OK;
fail:
  shoal_data_writer_destroy(w);
  return st;
}

/* ---- filling ---- */

static shoal_status flush_half(shoal_data_writer *w, shoal_split split)
{
  half *h = &w->half[split];
  if (h->waiting == 0) return SHOAL_OK;
  if (split == SHOAL_TRAIN && w->spec.kind != SHOAL_DATA_TEXT) shoal_data_stats_add(&w->stats, h->waiting, h->buffer);
  uint64_t chunk = shoal_data_chunk_rows(w->spec.kind, w->sample_bytes);
  size_t bytes = w->sample_bytes + (h->labels ? w->label_bytes + sizeof *h->sum : 0);
  SHOAL_TRY(shoal_h5_draft_reserve(&w->draft, "samples", h->waiting * bytes, h->waiting / chunk + 1));
  h->crc_x = shoal_crc32c(h->crc_x, h->buffer, h->waiting * w->sample_bytes);
  SHOAL_TRY(shoal_h5_table_append(h->x, h->waiting, h->buffer));
  if (h->y) {
    h->crc_y = shoal_crc32c(h->crc_y, h->labels, h->waiting * w->label_bytes);
    SHOAL_TRY(shoal_h5_table_append(h->y, h->waiting, h->labels));
    for (uint64_t i = 0; i < h->waiting; i++)
      h->sum[i] = shoal_crc32c(0, h->buffer + i * w->sample_bytes, w->sample_bytes);
    SHOAL_TRY(shoal_h5_table_append(h->sums, h->waiting, h->sum));
  }
  h->stored += h->waiting;
  h->waiting = 0;
  return SHOAL_OK;
}

static void count_bytes(const shoal_data_writer *w, half *h, uint64_t n, const void *tokens)
{
  for (uint64_t i = 0; i < n; i++) {
    size_t bytes;
    const uint32_t id = w->spec.x_bytes == 1   ? ((const uint8_t *)tokens)[i]
                        : w->spec.x_bytes == 2 ? ((const uint16_t *)tokens)[i]
                                               : ((const uint32_t *)tokens)[i];
    if (id >= shoal_vocabulary_size(w->spec.vocabulary))
      continue; /* of a data set that is repacked; readers refuse it */
    shoal_vocabulary_token(w->spec.vocabulary, id, &bytes);
    h->text_bytes += bytes;
  }
}

shoal_status shoal_data_writer_add(shoal_data_writer *w, shoal_split split, uint64_t n, const void *x, const void *y)
{
  half *h = &w->half[split];
  const char *from = x, *labels = y;
  if (w->spec.vocabulary) count_bytes(w, h, n, x);
  while (n > 0) {
    uint64_t take = SHOAL_MIN(n, w->rows - h->waiting);
    memcpy(h->buffer + h->waiting * w->sample_bytes, from, take * w->sample_bytes);
    if (h->labels) {
      memcpy(h->labels + h->waiting * w->label_bytes, labels, take * w->label_bytes);
      labels += take * w->label_bytes;
    }
    h->waiting += take;
    from += take * w->sample_bytes;
    n -= take;
    if (h->waiting == w->rows) SHOAL_TRY(flush_half(w, split));
  }
  return SHOAL_OK;
}

void shoal_data_writer_name(shoal_data_writer *w, shoal_split split, const char *file)
{
  shoal_str_add(&w->half[split].files, "%s\n", file);
}

/* Names of files, for people and tables: of a text with line ends, as one array. */
static shoal_status write_files(shoal_data_writer *w, shoal_split split)
{
  const shoal_str *s = &w->half[split].files;
  const uint64_t n = s->len;
  char name[32];
  if (n == 0) return SHOAL_OK;
  snprintf(name, sizeof name, "%s/" SHOAL_DATA_FILES, shoal_split_name(split));
  SHOAL_TRY(shoal_h5_draft_reserve(&w->draft, "names of files", n, 0));
  return shoal_h5_write(w->draft.file, name, SHOAL_U8, 1, &n, s->text);
}

uint64_t shoal_data_writer_count(const shoal_data_writer *w, shoal_split split)
{
  return w->half[split].stored + w->half[split].waiting;
}

/* ---- the end ---- */

static shoal_status put_classes(const shoal_data_writer *w, int64_t classes, const char *class_names)
{
  SHOAL_TRY(shoal_h5_put_i64(w->draft.file, "classes", classes));
  if (class_names && strlen(class_names) < SHOAL_DATA_NAMES)
    return shoal_h5_put_string(w->draft.file, "class_names", class_names);
  if (class_names)
    shoal_warn("%s: the names of its classes are not stored: they take %zu bytes, an attribute holds %d; classes are "
               "their numbers",
               w->path, strlen(class_names), SHOAL_DATA_NAMES);
  return SHOAL_OK;
}

static shoal_status write_attributes(shoal_data_writer *w, int64_t classes, const char *class_names)
{
  SHOAL_TRY(shoal_h5_put_string(w->draft.file, "kind", shoal_data_kind_name(w->spec.kind)));
  SHOAL_TRY(shoal_h5_put_string(w->draft.file, "source", w->source));
  if (!w->spec.targets) SHOAL_TRY(put_classes(w, classes, class_names));
  if (w->target_names) SHOAL_TRY(shoal_h5_put_string(w->draft.file, "target_names", w->target_names));
  if (w->feature_names) SHOAL_TRY(shoal_h5_put_string(w->draft.file, "feature_names", w->feature_names));
  uint32_t crc[4] = { w->half[0].crc_x, w->half[0].crc_y, w->half[1].crc_x, w->half[1].crc_y };
  SHOAL_TRY(shoal_h5_put_i64(w->draft.file, "checksum", shoal_data_checksum(crc)));
  if (w->spec.identity) SHOAL_TRY(shoal_h5_put_i64(w->draft.file, "identity", *w->spec.identity));
  if (w->spec.kind == SHOAL_DATA_TEXT) return SHOAL_OK;
  for (int s = 0; s < 2; s++)
    SHOAL_TRY(shoal_h5_put_i64(shoal_h5_table_object(w->half[s].y), "crc32c", w->half[s].crc_y));
  double *mean;
  SHOAL_TRY(SHOAL_ALLOC(2 * w->stats.groups, &mean));
  shoal_data_stats_result(&w->stats, mean, mean + w->stats.groups);
  shoal_status st = shoal_h5_put_f64s(w->draft.file, "mean", w->stats.groups, mean);
  if (st == SHOAL_OK) st = shoal_h5_put_f64s(w->draft.file, "std", w->stats.groups, mean + w->stats.groups);
  free(mean);
  return st;
}

static shoal_status write_vocabulary(shoal_data_writer *w)
{
  shoal_str text = { 0 };
  if (!w->spec.vocabulary) return SHOAL_OK;
  SHOAL_TRY(shoal_vocabulary_print(w->spec.vocabulary, &text));
  const uint64_t n = text.len;
  shoal_status st = shoal_h5_draft_reserve(&w->draft, "the vocabulary", n, 0);
  if (st == SHOAL_OK) st = shoal_h5_write(w->draft.file, "vocabulary", SHOAL_U8, 1, &n, text.text);
  for (int s = 0; s < 2 && st == SHOAL_OK; s++)
    st = shoal_h5_put_i64(shoal_h5_table_object(w->half[s].x), "bytes", (int64_t)w->half[s].text_bytes);
  shoal_str_free(&text);
  return st;
}

static shoal_status finish_arrays(shoal_data_writer *w)
{
  shoal_h5_table **open[] = { &w->half[0].x, &w->half[0].y, &w->half[0].sums,
                              &w->half[1].x, &w->half[1].y, &w->half[1].sums };
  for (size_t i = 0; i < SHOAL_COUNT(open); i++) {
    shoal_h5_table *t = *open[i];
    *open[i] = NULL;
    if (t) SHOAL_TRY(shoal_h5_table_finish(t)); /* a write error may be reported only here */
  }
  return SHOAL_OK;
}

shoal_status shoal_data_writer_commit(shoal_data_writer *w, int64_t classes, const char *class_names)
{
  SHOAL_TRY(flush_half(w, SHOAL_TRAIN));
  SHOAL_TRY(flush_half(w, SHOAL_TEST));
  SHOAL_CHECK(w->half[SHOAL_TRAIN].stored > 0, SHOAL_ERR_IO, "%s would have no training samples (%llu for testing)",
              w->path, (unsigned long long)w->half[SHOAL_TEST].stored);
  SHOAL_TRY(write_files(w, SHOAL_TRAIN));
  SHOAL_TRY(write_files(w, SHOAL_TEST));
  SHOAL_TRY(shoal_h5_draft_reserve(&w->draft, "attributes", 0, 0));
  SHOAL_TRY(write_attributes(w, classes, class_names));
  SHOAL_TRY(write_vocabulary(w));
  SHOAL_TRY(finish_arrays(w));
  SHOAL_TRY(shoal_h5_draft_close(&w->draft));
  return shoal_h5_draft_commit(&w->draft);
}

void shoal_data_writer_destroy(shoal_data_writer *w)
{
  if (!w) return;
  for (int s = 0; s < 2; s++) {
    shoal_h5_table_close(w->half[s].x);
    shoal_h5_table_close(w->half[s].y);
    shoal_h5_table_close(w->half[s].sums);
    free(w->half[s].buffer);
    free(w->half[s].labels);
    free(w->half[s].sum);
    shoal_str_free(&w->half[s].files);
  }
  shoal_h5_draft_discard(&w->draft);
  shoal_data_stats_fini(&w->stats);
  free(w->source);
  free(w->feature_names);
  free(w->target_names);
  free(w->path);
  free(w);
}
