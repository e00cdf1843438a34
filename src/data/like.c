/* See like.h. */
#include "data/like.h"
#include "base/child.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

typedef struct {
  const char *path;
  shoal_like_reader read;
  void *out;
} reading;

static shoal_status read_all(void *context)
{
  const reading *r = context;
  shoal_h5 file;
  shoal_status st = shoal_h5_open(r->path, &file);
  if (st != SHOAL_OK)
    return shoal_error_append(st, "; --like takes a run, a checkpoint, a model exported as .h5, or a data set");
  st = r->read(file, r->path, r->out);
  shoal_h5_close(file);
  return st;
}

shoal_status shoal_like_read(const char *path, shoal_like_reader read, void *out)
{
  enum { TRY_S = 5 };
  reading r = { path, read, out };
  shoal_status tried = SHOAL_OK;
  char place[SHOAL_CHILD_PLACE];
  SHOAL_TRY(shoal_data_refuse_source(path, NULL));
  SHOAL_CHECK(shoal_survives(read_all, &r, TRY_S, shoal_memory_limit(), place, &tried), SHOAL_ERR_IO,
              "%s is damaged: HDF5 crashes on it, or does not come to an end%s%s", path, place[0] ? ", at " : "",
              place);
  return tried == SHOAL_OK ? read_all(&r) : tried;
}

/* ---- what is in it ---- */

shoal_status shoal_like_images(shoal_h5 file, const char *path, const char *maker, bool *out)
{
  char *kind = NULL;
  SHOAL_CHECK(shoal_h5_has_attribute(file, "kind"), SHOAL_ERR_USAGE,
              "--like %s: it is no run, checkpoint, model exported as .h5, or data set made by `shoal data import %s`",
              path, maker);
  SHOAL_TRY(shoal_h5_get_string(file, "kind", &kind));
  *out = strcmp(kind, shoal_data_kind_name(SHOAL_DATA_IMAGES)) == 0;
  const bool either = *out || strcmp(kind, shoal_data_kind_name(SHOAL_DATA_FEATURES)) == 0;
  free(kind);
  SHOAL_CHECK(either, SHOAL_ERR_USAGE, "--like %s: it was made of neither a table nor images", path);
  return SHOAL_OK;
}

/* Checkpoints say the shape of a sample, data sets have samples. */
shoal_status shoal_like_sample(shoal_h5 file, const char *path, int ndim, int64_t *dims)
{
  static const char *const arrays[] = { "train/x", "test/x" };
  bool found = shoal_h5_attribute_length(file, "sample") == (size_t)ndim;
  if (found) SHOAL_TRY(shoal_h5_get_i64s(file, "sample", (size_t)ndim, dims));
  for (size_t i = 0; i < SHOAL_COUNT(arrays) && !found; i++) {
    shoal_h5_facts f;
    if (!shoal_h5_is_data_set(file, arrays[i])) continue;
    SHOAL_TRY(shoal_h5_look(file, arrays[i], &f));
    found = f.ndim == ndim + 1;
    for (int d = 0; found && d < ndim; d++) dims[d] = (int64_t)SHOAL_MIN(f.dims[d + 1], (uint64_t)INT64_MAX);
  }
  double numbers = 1;
  for (int d = 0; found && d < ndim; d++) {
    numbers *= (double)dims[d];
    found = dims[d] > 0 && numbers <= INT32_MAX;
  }
  SHOAL_CHECK(found, SHOAL_ERR_IO, "--like %s: it does not say %s", path,
              ndim == 1 ? "how many features it has" : "of what size its images are");
  return SHOAL_OK;
}

/* Checkpoints have their means, data sets the targets themselves. */
shoal_status shoal_like_targets(shoal_h5 file, const char *path, size_t *out)
{
  static const char *const arrays[] = { "train/targets", "test/targets" };
  uint64_t n = shoal_h5_attribute_length(file, "target_mean");
  for (size_t i = 0; i < SHOAL_COUNT(arrays) && n == 0; i++) {
    shoal_h5_facts f;
    if (!shoal_h5_is_data_set(file, arrays[i])) continue;
    SHOAL_TRY(shoal_h5_look(file, arrays[i], &f));
    n = f.ndim == 2 ? f.dims[1] : 1;
  }
  SHOAL_CHECK(n <= SHOAL_DATA_SCALES, SHOAL_ERR_IO, "--like %s: it has %" PRIu64 " targets, at most %d are read", path,
              n, SHOAL_DATA_SCALES);
  *out = (size_t)n;
  return SHOAL_OK;
}

shoal_status shoal_like_classes(shoal_h5 file, const char *path, int64_t *out)
{
  SHOAL_TRY(shoal_h5_get_i64(file, "classes", out));
  SHOAL_CHECK(*out >= 1 && *out <= SHOAL_CLASSES_MOST, SHOAL_ERR_IO, "--like %s: it has %lld classes", path,
              (long long)*out);
  return SHOAL_OK;
}

shoal_status shoal_like_names(shoal_h5 file, const char *attribute, size_t n, shoal_texts *out)
{
  char *text = NULL;
  if (!shoal_h5_has_attribute(file, attribute)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_get_string(file, attribute, &text));
  shoal_status st = shoal_texts_add_lines(out, text);
  free(text);
  if (out->n != n) shoal_texts_free(out);
  return st;
}

int32_t shoal_like_class(const shoal_texts *names, int64_t classes, const char *label)
{
  double number, other;
  const bool counts = shoal_parse_f64(label, &number) == SHOAL_OK && fabs(number) < 0x1p53; /* ids beyond are texts */
  for (size_t k = 0; k < names->n; k++)
    if (strcmp(names->at[k], label) == 0) return (int32_t)k;
  for (size_t k = 0; k < names->n && counts; k++)
    if (shoal_parse_f64(names->at[k], &other) == SHOAL_OK && number == other) return (int32_t)k;
  if (names->n || !counts || number < 0 || number >= (double)classes || number != floor(number)) return -1;
  return (int32_t)number;
}
