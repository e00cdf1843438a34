/* See csv_like.h. */
#include "data/csv_like.h"
#include "base/child.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/mem.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static shoal_status get_names(shoal_h5 file, const char *attribute, shoal_texts *out)
{
  char *text = NULL;
  if (!shoal_h5_has_attribute(file, attribute)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_get_string(file, attribute, &text));
  shoal_status st = shoal_texts_add_lines(out, text);
  free(text);
  return st;
}

/* Checkpoints say the shape of a sample, data sets have samples. */
static shoal_status find_shape(shoal_h5 file, int ndim, shoal_csv_like *l)
{
  static const char *const arrays[] = { "train/x", "test/x" };
  shoal_shape *s = &l->sample;
  if (shoal_h5_attribute_length(file, "sample") == (size_t)ndim) {
    s->ndim = ndim;
    SHOAL_TRY(shoal_h5_get_i64s(file, "sample", (size_t)ndim, s->dim));
  }
  for (size_t i = 0; i < SHOAL_COUNT(arrays) && !s->ndim; i++) {
    shoal_h5_facts f;
    if (!shoal_h5_is_data_set(file, arrays[i])) continue;
    SHOAL_TRY(shoal_h5_look(file, arrays[i], &f));
    if (f.ndim != ndim + 1) continue;
    s->ndim = ndim;
    for (int k = 0; k < ndim; k++) s->dim[k] = (int64_t)SHOAL_MIN(f.dims[k + 1], UINT64_C(1) << 32);
  }
  double features = s->ndim > 0;
  for (int k = 0; k < s->ndim; k++) features *= (double)SHOAL_MAX(s->dim[k], INT64_C(0));
  SHOAL_CHECK(features > 0 && features <= INT32_MAX, SHOAL_ERR_IO,
              "--like %s: it does not say how many features it has", l->path);
  l->features = (size_t)shoal_shape_count(s);
  return SHOAL_OK;
}

/* Checkpoints have their means, data sets the targets themselves. */
static shoal_status count_targets(shoal_h5 file, shoal_csv_like *l)
{
  static const char *const arrays[] = { "train/targets", "test/targets" };
  uint64_t n = shoal_h5_attribute_length(file, "target_mean");
  for (size_t i = 0; i < SHOAL_COUNT(arrays) && n == 0; i++) {
    shoal_h5_facts f;
    if (!shoal_h5_is_data_set(file, arrays[i])) continue;
    SHOAL_TRY(shoal_h5_look(file, arrays[i], &f));
    n = f.ndim == 2 ? f.dims[1] : 1;
  }
  SHOAL_CHECK(n <= SHOAL_DATA_SCALES, SHOAL_ERR_IO, "--like %s: it has %" PRIu64 " targets, at most %d are read",
              l->path, n, SHOAL_DATA_SCALES);
  l->targets = (size_t)n;
  return SHOAL_OK;
}

static shoal_status read_file(shoal_h5 file, shoal_csv_like *l)
{
  char *kind = NULL;
  SHOAL_CHECK(shoal_h5_has_attribute(file, "kind"), SHOAL_ERR_USAGE,
              "--like %s: it is no run, checkpoint, model exported as .h5, or data set made by `shoal data import csv`",
              l->path);
  SHOAL_TRY(shoal_h5_get_string(file, "kind", &kind));
  const bool row = strcmp(kind, "features") == 0, image = strcmp(kind, "images") == 0;
  free(kind);
  SHOAL_CHECK(row || image, SHOAL_ERR_USAGE, "--like %s: it was not made of a table", l->path);
  SHOAL_TRY(find_shape(file, image ? 3 : 1, l));
  SHOAL_TRY(get_names(file, "feature_names", &l->names));
  if (l->names.n != l->features) shoal_texts_free(&l->names);
  SHOAL_TRY(count_targets(file, l));
  SHOAL_TRY(get_names(file, "target_names", &l->target_names));
  if (l->target_names.n != l->targets) shoal_texts_free(&l->target_names);
  l->classes = (int64_t)l->targets;
  if (!l->targets) SHOAL_TRY(shoal_h5_get_i64(file, "classes", &l->classes));
  SHOAL_CHECK(l->classes >= 1 && l->classes <= SHOAL_CLASSES_MOST, SHOAL_ERR_IO, "--like %s: it has %lld classes",
              l->path, (long long)l->classes);
  SHOAL_TRY(get_names(file, "class_names", &l->class_names));
  if (l->class_names.n != (size_t)l->classes) shoal_texts_free(&l->class_names);
  l->scales = shoal_h5_attribute_length(file, "mean");
  const bool fits = image ? l->scales == (size_t)l->sample.dim[0] : l->scales == l->features || l->scales == 1;
  SHOAL_CHECK(fits, SHOAL_ERR_IO, "--like %s: it has %zu means for %zu features", l->path, l->scales, l->features);
  SHOAL_TRY(SHOAL_ALLOC(l->scales, &l->mean));
  SHOAL_TRY(shoal_h5_get_f64s(file, "mean", l->scales, l->mean));
  for (size_t i = 0; i < l->scales; i++)
    SHOAL_CHECK(isfinite((float)l->mean[i]), SHOAL_ERR_IO, "--like %s: mean %zu is not finite", l->path, i);
  return SHOAL_OK;
}

static shoal_status read_all(void *like)
{
  shoal_csv_like *l = like;
  shoal_h5 file;
  shoal_status st = shoal_h5_open(l->path, &file);
  if (st != SHOAL_OK)
    return shoal_error_append(st, "; --like takes a run, a checkpoint, a model exported as .h5, or a data set");
  st = read_file(file, l);
  shoal_h5_close(file);
  return st;
}

shoal_status shoal_csv_like_read(const char *path, shoal_csv_like *out)
{
  enum { TRY_S = 5 };
  shoal_status tried = SHOAL_OK;
  char place[SHOAL_CHILD_PLACE];
  *out = (shoal_csv_like){ .path = path };
  SHOAL_TRY(shoal_data_refuse_source(path));
  SHOAL_CHECK(shoal_survives(read_all, out, TRY_S, shoal_memory_limit(), place, &tried), SHOAL_ERR_IO,
              "%s is damaged: HDF5 crashes on it, or does not come to an end%s%s", path, place[0] ? ", at " : "",
              place);
  return tried == SHOAL_OK ? read_all(out) : tried;
}

void shoal_csv_like_fini(shoal_csv_like *l)
{
  shoal_texts_free(&l->names);
  shoal_texts_free(&l->class_names);
  shoal_texts_free(&l->target_names);
  free(l->mean);
  *l = (shoal_csv_like){ 0 };
}

int32_t shoal_csv_like_class(const shoal_csv_like *l, const char *label)
{
  double number, other;
  const bool counts = shoal_parse_f64(label, &number) == SHOAL_OK && fabs(number) < 0x1p53; /* ids beyond are texts */
  for (size_t k = 0; k < l->class_names.n; k++)
    if (strcmp(l->class_names.at[k], label) == 0) return (int32_t)k;
  for (size_t k = 0; k < l->class_names.n && counts; k++)
    if (shoal_parse_f64(l->class_names.at[k], &other) == SHOAL_OK && number == other) return (int32_t)k;
  if (l->class_names.n || !counts || number < 0 || number >= (double)l->classes || number != floor(number)) return -1;
  return (int32_t)number;
}
