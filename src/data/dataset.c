/* Opening a data set: finds the arrays of a file, their meaning, and checks that they are consistent.
 *
 * Our own files describe themselves by attributes.  Foreign files (other names, channels last, no mean and std) are
 * accepted if they are unambiguous; missing values are computed from their labels and samples, of large splits from some, so
 * that opening stays cheap.  Labels are not checked here but when they are read.
 *
 * Reading is in dataset_read.c, matching of names in match.c, whole-file checks in inspect.c. */
#include "base/child.h"
#include "base/error.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include "data/series.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t hold_default = UINT64_C(256) << 20;

const char *shoal_split_name(shoal_split split)
{
  return split == SHOAL_TRAIN ? "train" : "test";
}

const char *shoal_data_shape_text(const shoal_shape *s, char *buf, size_t cap)
{
  size_t at = (size_t)snprintf(buf, cap, "[");
  for (int i = 0; i < s->ndim && at < cap; i++)
    at += (size_t)snprintf(buf + at, cap - at, i ? ", %" PRId64 : "%" PRId64, s->dim[i]);
  if (at < cap) snprintf(buf + at, cap - at, "]");
  return buf;
}

/* ---- opening ---- */

/* u8 stays u8, all other types become f32; tokens keep their width. */
static shoal_status choose_type(shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  bool whole = f->class == SHOAL_H5_INTEGER, number = whole || f->class == SHOAL_H5_FLOAT;
  size_t size = f->size;
  SHOAL_CHECK(whole || !d->names.text, SHOAL_ERR_IO,
              "%s: /%s holds no unsigned integers but %s; tokens are u8, u16 or u32: shoal data import text FILE makes "
              "them",
              d->path, name, f->described);
  if (!number) return shoal_data_refuse_samples(d, name, f);
  if (d->names.text) {
    SHOAL_CHECK(!f->has_sign && (size == 1 || size == 2 || size == 4), SHOAL_ERR_IO,
                "%s: /%s has %zu-byte %s integers; tokens are u8, u16 or u32, as .astype('u4') makes them", d->path,
                name, size, f->has_sign ? "signed" : "unsigned");
    d->x_type = size == 1 ? SHOAL_U8 : size == 2 ? SHOAL_U16 : SHOAL_U32;
    d->info.x_bytes = (int)size;
  } else {
    bool bytes = whole && size == 1 && !f->has_sign;
    d->x_type = bytes ? SHOAL_U8 : SHOAL_F32;
    d->info.x_bytes = bytes ? 1 : 4;
  }
  return SHOAL_OK;
}

static bool few(uint64_t channels)
{
  return channels == 1 || channels == 3 || channels == 4;
}

/* Converts the file's dimensions [n, …] to the shape of a sample as read. */
static shoal_status choose_shape(shoal_dataset *d, const char *name, const shoal_h5_facts *f, bool ours)
{
  const int ndim = f->ndim;
  const uint64_t *dims = f->dims;
  shoal_shape *s = &d->info.sample;
  d->info.kind = d->names.text ? SHOAL_DATA_TEXT : ndim <= 2 ? SHOAL_DATA_FEATURES : SHOAL_DATA_IMAGES;
  SHOAL_CHECK(!d->names.text || ndim == 1, SHOAL_ERR_IO, "%s: /%s has %d dimensions; tokens have 1", d->path, name,
              ndim);
  for (int i = 1; i < ndim; i++)
    SHOAL_CHECK(dims[i] > 0 && dims[i] <= INT32_MAX, SHOAL_ERR_IO,
                "%s: dimension %d of /%s is %" PRIu64 ", and may be 1 to %d: %s", d->path, i, name, dims[i], INT32_MAX,
                dims[i] ? "cut the samples into smaller ones" : "its samples hold nothing; write the array anew");
  if (ndim < 1 || ndim > 4) return shoal_data_refuse_dimensions(d, name, f);
  if (ndim == 1) *s = SHOAL_SHAPE(1);
  if (ndim == 2) *s = SHOAL_SHAPE((int64_t)dims[1]);
  if (ndim == 3) *s = SHOAL_SHAPE(1, (int64_t)dims[1], (int64_t)dims[2]);
  if (ndim == 4) {
    d->channels_last = !ours && few(dims[3]) && !few(dims[1]);
    int c = d->channels_last ? 3 : 1, h = d->channels_last ? 1 : 2;
    *s = SHOAL_SHAPE((int64_t)dims[c], (int64_t)dims[h], (int64_t)dims[h + 1]);
    if (dims[c] > SHOAL_DATA_CHANNELS) return shoal_data_refuse_dimensions(d, name, f);
  }
  d->elements = 1;
  for (int i = 0; i < s->ndim; i++)
    SHOAL_CHECK(!__builtin_mul_overflow(d->elements, (size_t)s->dim[i], &d->elements), SHOAL_ERR_IO,
                "%s: a sample of /%s has more elements than fit 64 bits", d->path, name);
  SHOAL_TRY(shoal_limit_memory(d->path, "a sample", d->elements, (uint64_t)d->info.x_bytes));
  d->sample_bytes = d->elements * (size_t)d->info.x_bytes;
  return SHOAL_OK;
}

static shoal_status open_x(shoal_dataset *d, shoal_split split)
{
  const char *name = d->names.x[split];
  shoal_data_part *p = &d->part[split];
  const shoal_data_info before = d->info;
  const bool before_last = d->channels_last;
  shoal_h5_facts f;
  SHOAL_TRY(shoal_h5_look(d->file, name, &f));
  SHOAL_TRY(choose_type(d, name, &f));
  SHOAL_TRY(choose_shape(d, name, &f, shoal_data_states_kind(d->file)));
  char one[96], other[96];
  if (split == SHOAL_TEST)
    SHOAL_CHECK(before.x_bytes == d->info.x_bytes && before_last == d->channels_last &&
                    shoal_shape_equal(&before.sample, &d->info.sample),
                SHOAL_ERR_IO,
                "%s: /%s and /%s differ in type or shape of a sample: %s of %d bytes and %s of %d; write both alike",
                d->path, d->names.x[0], name, shoal_data_shape_text(&before.sample, one, sizeof one), before.x_bytes,
                shoal_data_shape_text(&d->info.sample, other, sizeof other), d->info.x_bytes);
  d->info.n[split] = p->rows = f.dims[0];
  p->raw = f.exact && f.type == d->x_type ? f.offset : SHOAL_H5_NO_OFFSET;
  SHOAL_TRY(shoal_h5_table_open(d->file, name, &(shoal_h5_row){ d->x_type }, &p->x));
  if (!shoal_data_states_kind(d->file)) /* ours are written whole */
    shoal_h5_table_unwritten(p->x, &p->missing, &p->chunks, &p->first_missing);
  return SHOAL_OK;
}

static shoal_status open_y(shoal_dataset *d, shoal_split split)
{
  const char *name = d->names.y[split];
  shoal_data_part *p = &d->part[split];
  shoal_h5_facts f;
  if (!name[0]) return SHOAL_OK;
  if (d->names.targets) return shoal_targets_open(d, split);
  SHOAL_TRY(shoal_h5_look(d->file, name, &f));
  SHOAL_TRY(shoal_data_check_labels_form(d, name, &f));
  SHOAL_CHECK(f.dims[0] == d->info.n[split], SHOAL_ERR_IO,
              "%s: /%s has %" PRIu64 " samples, /%s has %" PRIu64 " labels: each sample needs one, in the same order",
              d->path, d->names.x[split], d->info.n[split], name, f.dims[0]);
  p->wide = !f.has_sign && f.size > 4;
  return shoal_h5_table_open(d->file, name, &(shoal_h5_row){ p->wide ? SHOAL_U64 : SHOAL_I64 }, &p->y);
}

/* What was never written is no sample, although it reads as one. */
static void warn_of_unwritten(const shoal_dataset *d)
{
  for (int s = 0; s < 2; s++) {
    const shoal_data_part *p = &d->part[s];
    if (p->missing)
      shoal_warn("%s: %" PRIu64 " of %" PRIu64 " chunks of /%s were never written, the first is that of sample %" PRIu64
                 ": its samples hold the fill value; write them, or cut the arrays there",
                 d->path, p->missing, p->chunks, d->names.x[s], p->first_missing);
  }
}

/* MATLAB reverses dimensions, so that its [height, width, channels, n] are [n, channels, width, height] here. */
static void tell_matlab(const shoal_dataset *d)
{
  if (d->info.kind == SHOAL_DATA_IMAGES && shoal_h5_has_attribute(shoal_h5_table_object(d->part[0].x), "MATLAB_class"))
    shoal_info(
        "%s: MATLAB wrote /%s, and it reverses dimensions: what is width there is height here, so images lie on their "
        "side; that matters only where the model is used with images from elsewhere",
        d->path, d->names.x[0]);
}

/* ---- values missing in a foreign file ---- */

/* Size of the vocabulary: 256 for bytes; for wider tokens all of them are read. */
static shoal_status count_tokens(shoal_dataset *d)
{
  enum { BLOCK = 1 << 16 };
  uint32_t largest = 255;
  void *x;
  if (d->info.x_bytes > 1) {
    SHOAL_TRY(shoal_alloc(BLOCK, sizeof(uint32_t), "tokens", &x));
    shoal_status st = SHOAL_OK;
    for (int s = 0; s < 2 && st == SHOAL_OK; s++)
      for (uint64_t at = 0; at < d->info.n[s] && st == SHOAL_OK; at += BLOCK) {
        uint64_t n = SHOAL_MIN(d->info.n[s] - at, (uint64_t)BLOCK);
        st = shoal_dataset_rows(d, (shoal_split)s, at, n, x, NULL);
        for (uint64_t i = 0; i < n && st == SHOAL_OK; i++)
          largest = SHOAL_MAX(largest, d->info.x_bytes == 2 ? ((uint16_t *)x)[i] : ((uint32_t *)x)[i]);
      }
    free(x);
    SHOAL_TRY(st);
  }
  SHOAL_CHECK(largest < SHOAL_CLASSES_MOST, SHOAL_ERR_IO,
              "%s: token %" PRIu32 " is too large: a vocabulary has at most %" PRId64 " entries", d->path, largest,
              SHOAL_CLASSES_MOST);
  d->info.classes = (int64_t)largest + 1;
  return SHOAL_OK;
}

static shoal_status count_classes(shoal_dataset *d)
{
  if (d->names.text) return count_tokens(d);
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  SHOAL_TRY(shoal_data_check_labels(d));
  d->info.classes = shoal_labels_classes(&d->labels);
  shoal_data_check_class_names(d);
  return SHOAL_OK;
}

/* Fills the summary in `info`: per channel, or one value over all features. */
void shoal_dataset_fill_scale(shoal_dataset *d)
{
  shoal_data_info *i = &d->info;
  i->channels = i->kind == SHOAL_DATA_IMAGES ? (int)i->sample.dim[0] : 1;
  if (d->names.text) {
    i->std[0] = 1;
    return;
  }
  if (d->scales == (size_t)i->channels) {
    memcpy(i->mean, d->mean, d->scales * sizeof(double));
    memcpy(i->std, d->std, d->scales * sizeof(double));
    return;
  }
  shoal_data_overall(d->scales, d->mean, d->std, &i->mean[0], &i->std[0]);
}

/* Each of the numbers of a series is a channel, of one column; they are turned if these come last in the file.  Many are features. */
static void take_series(shoal_dataset *d, const char *name, const shoal_series *found)
{
  shoal_shape *s = &d->info.sample;
  const int64_t numbers = s->dim[found->axis], steps = s->dim[3 - found->axis];
  char what[SHOAL_DATA_NAME + 256];
  if (numbers > SHOAL_DATA_CHANNELS && d->elements > SHOAL_DATA_SCALES) return;
  snprintf(what, sizeof what, "%.200s: /%s", d->path, name);
  shoal_tell_series(found, what, (size_t)steps, (size_t)numbers);
  if (numbers > SHOAL_DATA_CHANNELS) {
    d->info.kind = SHOAL_DATA_FEATURES;
    *s = SHOAL_SHAPE(numbers * steps);
  } else {
    *s = SHOAL_SHAPE(numbers, steps, 1);
    d->channels_last = found->axis == 2;
  }
}

/* Samples of two dimensions in somebody else's file may be series. */
static shoal_status look_for_series(shoal_dataset *d)
{
  const shoal_split split = d->info.n[SHOAL_TRAIN] ? SHOAL_TRAIN : SHOAL_TEST;
  const size_t n = shoal_series_samples(d->info.n[split], d->elements);
  const shoal_shape *s = &d->info.sample;
  shoal_h5_facts f;
  float *x;
  if (d->info.kind != SHOAL_DATA_IMAGES || d->info.x_bytes == 1 || shoal_data_states_kind(d->file)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_look(d->file, d->names.x[split], &f));
  if (f.ndim != 3) return SHOAL_OK;
  SHOAL_TRY(shoal_alloc(n, d->sample_bytes, "samples", (void **)&x));
  shoal_status st = shoal_h5_table_read(d->part[split].x, 0, n, x);
  shoal_series found = { 0 };
  if (st == SHOAL_OK) st = shoal_find_series(x, n, (size_t)s->dim[1], (size_t)s->dim[2], &found);
  if (found.axis) take_series(d, d->names.x[split], &found);
  free(x);
  return st;
}

/* Something must be there to train with; one of several files may have nothing at all, whatever its empty arrays look like. */
static shoal_status look_for_samples(shoal_dataset *d)
{
  bool none[2] = { false }, any = false;
  for (int s = 0; s < 2; s++) {
    shoal_h5_facts f;
    if (!d->names.x[s][0]) continue;
    SHOAL_TRY(shoal_h5_look(d->file, d->names.x[s], &f));
    none[s] = f.ndim > 0 && f.dims[0] == 0;
    any |= !none[s];
  }
  d->empty = !any && !d->alone;
  if (!none[SHOAL_TRAIN] || !d->alone) return SHOAL_OK;
  char other[SHOAL_DATA_NAME + 16] = "", word[SHOAL_WORD];
  if (none[SHOAL_TEST]) snprintf(other, sizeof other, " and /%s", d->names.x[SHOAL_TEST]);
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s: /%s%s %s no samples: write some, or give a file that has, also beside this one, as in "
                    "data.file=[train.h5,%s]",
                    d->path, d->names.x[SHOAL_TRAIN], other, other[0] ? "have" : "has",
                    shoal_shell_word(d->path, word));
}

static shoal_status open_parts(shoal_dataset *d)
{
  char host[SHOAL_HOST_NAME];
  SHOAL_TRY(shoal_data_refuse_source(d->path, NULL));
  SHOAL_TRY(shoal_error_append(shoal_h5_open(d->path, &d->file), " (host %s)", shoal_host_name(host)));
  SHOAL_TRY(shoal_data_match(d->file, d->path, d->alone, &d->names));
  SHOAL_TRY(look_for_samples(d));
  if (d->empty) return SHOAL_OK;
  for (int s = 0; s < 2; s++) {
    if (!d->names.x[s][0]) continue;
    SHOAL_TRY(open_x(d, (shoal_split)s));
    SHOAL_TRY(open_y(d, (shoal_split)s));
  }
  if (d->channels_last)
    shoal_info("%s: images have their channels last; they are turned to [channels, height, width] as they are read",
               d->path);
  SHOAL_TRY(look_for_series(d));
  if (d->channels_last) SHOAL_TRY(shoal_alloc(d->sample_bytes, 1, "a sample", &d->scratch));
  if (d->part[0].raw != SHOAL_H5_NO_OFFSET || d->part[1].raw != SHOAL_H5_NO_OFFSET) {
    d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
    SHOAL_CHECK(d->fd >= 0, SHOAL_ERR_IO, "cannot read %s: %s", d->path, strerror(errno));
  }
  return SHOAL_OK;
}

shoal_status shoal_dataset_create(const char *path, shoal_dataset **out)
{
  shoal_dataset *d;
  SHOAL_TRY(SHOAL_ALLOC(1, &d));
  *d = (shoal_dataset){
    .path = shoal_strdup_printf("%s", path), .fd = -1, .hold_bytes = hold_default, .span = 1, .info = { .labels = 1 }
  };
  d->part[0].raw = d->part[1].raw = SHOAL_H5_NO_OFFSET;
  pthread_mutex_init(&d->lock, NULL);
  *out = d;
  return SHOAL_OK;
}

/* What asks HDF5 for its structures: opening, attributes, and a sample at each end. */
static shoal_status try_to_open(void *dataset)
{
  shoal_dataset *d = dataset;
  int32_t y;
  SHOAL_TRY(open_parts(d));
  if (d->empty) return SHOAL_OK;
  SHOAL_TRY(shoal_data_read_attributes(d));
  SHOAL_TRY(shoal_data_read_vocabulary(d));
  void *x = malloc(d->sample_bytes);
  for (int s = 0; x && s < 2; s++)
    for (uint64_t last = d->info.n[s], i = 0; last > 0 && i < 2; i++)
      (void)shoal_dataset_rows(d, (shoal_split)s, i * (last - 1), 1, x, d->part[s].y && !d->names.targets ? &y : NULL);
  free(x);
  if (d->names.targets) (void)shoal_targets_hold(d);
  return SHOAL_OK;
}

/* n: how many files the data set has.  All together are looked at as much as one is. */
static shoal_status open_file(const char *path, size_t n, bool alone, shoal_dataset **out)
{
  enum { TRY_S = 5, PLACES = 64 };
  shoal_dataset *d;
  SHOAL_TRY(shoal_dataset_create(path, &d));
  d->alone = alone;
  d->look_bytes = hold_default / n;
  d->look_places = SHOAL_MAX(PLACES / n, (size_t)1);
  shoal_status st, tried = SHOAL_OK;
  char place[SHOAL_CHILD_PLACE];
  SHOAL_CHECK_GOTO(st, shoal_survives(try_to_open, d, TRY_S, shoal_memory_limit(), place, &tried), fail, SHOAL_ERR_IO,
                   "%s is damaged: HDF5 crashes on it, or does not come to an end%s%s", path, place[0] ? ", at " : "",
                   place);
  SHOAL_TRY_GOTO(st, tried, fail);
  SHOAL_TRY_GOTO(st, open_parts(d), fail);
  *out = d;
  if (d->empty) return SHOAL_OK;
  SHOAL_TRY_GOTO(st, shoal_data_read_attributes(d), fail);
  SHOAL_TRY_GOTO(st, shoal_data_read_vocabulary(d), fail);
  if (d->names.targets)
    SHOAL_TRY_GOTO(st, shoal_targets_hold(d), fail);
  else if (!d->has_classes)
    SHOAL_TRY_GOTO(st, count_classes(d), fail);
  SHOAL_TRY_GOTO(st, shoal_data_survey(d), fail);
  warn_of_unwritten(d);
  tell_matlab(d);
  shoal_dataset_fill_scale(d);
  return SHOAL_OK;
fail:
  *out = NULL;
  shoal_dataset_close(d);
  return st;
}

shoal_status shoal_dataset_open(const char *path, shoal_dataset **out)
{
  return open_file(path, 1, true, out);
}

shoal_status shoal_dataset_open_member(const char *path, size_t n, shoal_dataset **out)
{
  return open_file(path, n, false, out);
}

void shoal_dataset_close(shoal_dataset *d)
{
  if (!d) return;
  for (size_t i = 0; i < d->n_members; i++) shoal_dataset_close(d->member[i]);
  free(d->member);
  for (int s = 0; s < 2; s++) {
    shoal_data_part *p = &d->part[s];
    shoal_h5_table_close(p->x);
    shoal_h5_table_close(p->y);
    free(p->held);
    free(p->labels);
    free(p->targets);
    free(p->sums);
  }
  shoal_h5_close(d->file);
  if (d->fd >= 0) close(d->fd);
  free(d->mean);
  free(d->class_names);
  free(d->class_of);
  free(d->feature_names);
  shoal_vocabulary_destroy(d->vocabulary);
  free(d->vocabulary_text);
  if (d->has_labels) shoal_labels_fini(&d->labels);
  shoal_targets_fini(&d->targets);
  free(d->scratch);
  free(d->path);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

const shoal_data_info *shoal_dataset_info(const shoal_dataset *d)
{
  return &d->info;
}

const char *shoal_dataset_path(const shoal_dataset *d)
{
  return d->path;
}

const char *shoal_dataset_array(const shoal_dataset *d, shoal_split s)
{
  return d->names.x[s];
}

shoal_status shoal_dataset_set_context(shoal_dataset *d, int64_t context)
{
  const size_t span = (size_t)context;
  SHOAL_CHECK(d->names.text && context >= 1, SHOAL_ERR_ARG, "%s: samples of %" PRId64 " tokens of %s", d->path, context,
              shoal_data_kind_name(d->info.kind));
  for (int s = 0; s < 2; s++) {
    const uint64_t rows = d->part[s].rows;
    d->info.n[s] = rows ? (rows - 1) / span : 0;
    SHOAL_CHECK(d->info.n[s] > 0 || s == SHOAL_TEST, SHOAL_ERR_USAGE,
                "%s: /%s has %" PRIu64 " tokens, and a sample needs %zu and the one that follows: lower data.context",
                d->path, d->names.x[s], rows, span);
    if (d->info.n[s] == 0 && rows > 0)
      shoal_warn("%s: /%s has %" PRIu64 " tokens, and a sample needs %zu and the one that follows: it is not used",
                 d->path, d->names.x[s], rows, span);
  }
  d->info.sample = SHOAL_SHAPE(context);
  d->info.labels = context;
  d->span = d->elements = span;
  d->sample_bytes = span * (size_t)d->info.x_bytes;
  return SHOAL_OK;
}

double shoal_dataset_token_bytes(const shoal_dataset *d, shoal_split split)
{
  if (!d->vocabulary) return d->info.x_bytes == 1 ? 1 : NAN;
  return d->text_bytes[split] ? (double)d->text_bytes[split] / (double)d->part[split].rows : NAN;
}

void shoal_dataset_scale(const shoal_dataset *d, size_t *n, const double **mean, const double **std)
{
  *n = d->scales;
  *mean = d->mean;
  *std = d->std;
}

/* One for each channel or feature. */
static size_t most_scales(const shoal_dataset *d)
{
  return d->info.kind == SHOAL_DATA_IMAGES ? (size_t)d->info.sample.dim[0] : d->elements;
}

bool shoal_dataset_takes_scale(const shoal_dataset *d, size_t n)
{
  return d->scales > 0 && (n == 1 || n == most_scales(d));
}

shoal_status shoal_dataset_set_scale(shoal_dataset *d, size_t n, const double *mean, const double *std)
{
  double *more;
  if (n > d->scales) {
    SHOAL_TRY(SHOAL_ALLOC(2 * n, &more));
    free(d->mean);
    d->mean = more;
    d->std = more + n;
    d->scales = n;
  }
  for (size_t g = 0; g < d->scales; g++) {
    d->mean[g] = mean[n == 1 ? 0 : g];
    d->std[g] = std[n == 1 ? 0 : g];
  }
  return SHOAL_OK;
}

const char *shoal_dataset_class_names(const shoal_dataset *d)
{
  return d->class_names;
}

const char *shoal_dataset_feature_names(const shoal_dataset *d)
{
  return d->feature_names;
}

const shoal_vocabulary *shoal_dataset_vocabulary(const shoal_dataset *d)
{
  return d->vocabulary;
}

const char *shoal_dataset_vocabulary_text(const shoal_dataset *d)
{
  return d->vocabulary_text;
}

const char *shoal_data_kind_name(shoal_data_kind kind)
{
  static const char *const names[] = { "images", "features", "text" };
  return names[kind];
}

shoal_data_stored shoal_dataset_stored(const shoal_dataset *d)
{
  return (shoal_data_stored){ .x = { d->names.x[0], d->names.x[1] },
                              .y = { d->names.y[0], d->names.y[1] },
                              .foreign = d->names.foreign,
                              .has_checksum = d->has_checksum,
                              .checksum = d->checksum,
                              .has_scale = d->has_scale,
                              .class_names = d->class_names,
                              .warned_of_marks = d->warned_of_marks,
                              .sample_bytes = d->sample_bytes };
}

shoal_status shoal_dataset_layout(const shoal_dataset *d, shoal_split split, shoal_h5_facts *out)
{
  return shoal_h5_table_facts(d->part[split].x, out);
}
