/* A look at samples when a data set is opened, for what its attributes do not tell: mean, standard deviation and check sum
 * of a file from elsewhere, and whether its numbers survive as 32-bit floats.
 *
 * Subnormal numbers count here even if the run flushes them: they are only small until they are normalised. */
#include "base/crc32c.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/subnormal.h"
#include "data/data_impl.h"
#include "data/narrow.h"
#include "data/stats.h"
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SURVEY = 4096 }; /* places where a large split is looked at, and samples that its check sum is of */

/* ---- missing values ---- */

/* What an array says that its missing values are, by an attribute of netCDF or CF. */
typedef struct {
  const char *attribute; /* NULL: it says nothing */
  double value;
} fill_value;

static fill_value find_fill(const shoal_dataset *d)
{
  static const char *const names[] = { "_FillValue", "missing_value" };
  const shoal_h5 x = shoal_h5_table_object(d->part[SHOAL_TRAIN].x);
  shoal_error ignored;
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) {
    double value;
    if (!shoal_h5_has_attribute(x, names[i])) continue;
    if (shoal_h5_get_f64s(x, names[i], 1, &value) == SHOAL_OK) return (fill_value){ names[i], value };
    shoal_error_take(&ignored);
  }
  return (fill_value){ NULL, 0 };
}

static bool has_value(const shoal_dataset *d, const void *x, double value)
{
  for (size_t i = 0; i < d->elements; i++)
    if (d->x_type == SHOAL_U8 ? ((const uint8_t *)x)[i] == value : ((const float *)x)[i] == (float)value) return true;
  return false;
}

static size_t warn_of_fill(const shoal_dataset *d, const fill_value *fill, uint64_t looks, uint64_t filled)
{
  if (!filled) return 0;
  shoal_warn("%s: %" PRIu64 " of %" PRIu64
             " samples of /%s have %.6g, which its attribute %s says is no value: fill these, "
             "or remove the samples",
             d->path, filled, looks, d->names.x[0], fill->value, fill->attribute);
  return 1;
}

static size_t warn_of_marks(const shoal_dataset *d, const shoal_data_stats *t)
{
  char *array = shoal_strdup_printf("/%.80s", d->names.x[0]);
  size_t found = shoal_data_stats_warn(t, d->path, array, d->info.kind == SHOAL_DATA_IMAGES ? "channel" : "feature");
  free(array);
  return found;
}

/* A training sample in the i-th of `places` equal parts of the split: evenly spaced ones would be of one kind alone where the
 * kinds alternate. */
static uint64_t draw_place(const shoal_dataset *d, uint64_t i, uint64_t places)
{
  const unsigned __int128 n = d->info.n[SHOAL_TRAIN];
  const uint64_t part = (uint64_t)(i * n / places), next = (uint64_t)((i + 1) * n / places);
  const shoal_rng_block r = shoal_rng(0, SHOAL_RNG_SURVEY, i, 0);
  return part + shoal_rng_below(&r, next - part);
}

static bool is_read_whole(const shoal_dataset *d)
{
  return d->info.n[SHOAL_TRAIN] <= SHOAL_MAX(d->look_bytes / d->sample_bytes, (uint64_t)SURVEY);
}

/* At how many places a split is looked at.  A sample of a packed chunk costs the whole chunk, so there are fewer if all these
 * chunks would be more than what is to be looked at. */
static uint64_t count_places(const shoal_dataset *d)
{
  const uint64_t together = shoal_dataset_unpacks(d, SHOAL_TRAIN);
  if (together <= 1 || is_read_whole(d)) return SURVEY;
  const uint64_t chunks = d->look_bytes / d->sample_bytes / together;
  return SHOAL_MAX(SHOAL_MIN(chunks, (uint64_t)SURVEY), d->look_places);
}

/* ---- identity ---- */

/* Of a file without a check sum: one over evenly spaced samples and all labels.  Runs know the data by it, so it must not change. */
static shoal_status identify(shoal_dataset *d)
{
  const uint64_t n = d->info.n[SHOAL_TRAIN], looks = SHOAL_MIN(n, count_places(d));
  uint32_t crc[4] = { 0 };
  uint8_t *x;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(d->sample_bytes, &x));
  for (uint64_t i = 0; i < looks && st == SHOAL_OK; i++) {
    uint64_t at = (uint64_t)((unsigned __int128)i * n / looks);
    st = shoal_interrupt_check();
    if (st == SHOAL_OK) st = shoal_dataset_rows(d, SHOAL_TRAIN, at, 1, x, NULL);
    crc[0] = shoal_crc32c(crc[0], x, d->sample_bytes);
  }
  free(x);
  SHOAL_TRY(st);
  SHOAL_TRY(shoal_dataset_hold_labels(d));
  for (int s = 0; s < 2; s++) crc[2 * s + 1] = shoal_data_sum_labels(d, (shoal_split)s);
  d->info.checksum = shoal_data_checksum(crc);
  return SHOAL_OK;
}

/* ---- mean and standard deviation ---- */

/* What is seen of the training samples that are looked at. */
typedef struct {
  shoal_data_stats stats;
  shoal_data_fit fit;
  fill_value fill;
  uint64_t looked, filled;
} findings;

static shoal_status look_at(shoal_dataset *d, uint64_t first, uint64_t n, void *x, findings *f)
{
  SHOAL_TRY(shoal_interrupt_check());
  SHOAL_TRY(shoal_dataset_rows(d, SHOAL_TRAIN, first, n, x, NULL));
  f->stats.number = first;
  shoal_data_stats_add(&f->stats, n, x);
  for (uint64_t i = 0; i < n; i++) {
    const char *one = (const char *)x + i * d->sample_bytes;
    SHOAL_TRY(shoal_data_fit_add(d, one, &f->fit));
    if (f->fill.attribute) f->filled += has_value(d, one, f->fill.value);
  }
  f->looked += n;
  return SHOAL_OK;
}

/* All samples, or of a split that is too large for that some behind each of many places: those of a packed chunk, all of which
 * are unpacked for one. */
static shoal_status look(shoal_dataset *d, findings *f)
{
  enum { BLOCK_BYTES = 1 << 20 };
  const bool all = is_read_whole(d);
  const uint64_t n = d->info.n[SHOAL_TRAIN], together = shoal_dataset_unpacks(d, SHOAL_TRAIN), drawn = count_places(d);
  const uint64_t block = SHOAL_MAX((all ? BLOCK_BYTES : d->look_bytes / drawn) / d->sample_bytes, UINT64_C(1));
  const uint64_t rows = all ? block : SHOAL_MAX(block - block % together, together);
  const uint64_t places = all ? (n + rows - 1) / rows : drawn;
  void *x;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_alloc(rows, d->sample_bytes, "samples to look at", &x));
  for (uint64_t i = 0, next = 0; i < places && next < n && st == SHOAL_OK; i++) {
    uint64_t first = all ? next : draw_place(d, i, places);
    first = SHOAL_MAX(first - first % together, next);
    next = SHOAL_MIN(first + rows, n);
    st = look_at(d, first, next - first, x, f);
  }
  free(x);
  return st;
}

static shoal_status keep_scale(shoal_dataset *d, const findings *f)
{
  const shoal_data_stats *t = &f->stats;
  const uint64_t n = d->info.n[SHOAL_TRAIN];
  SHOAL_TRY(SHOAL_ALLOC(2 * t->groups, &d->mean));
  d->std = d->mean + t->groups;
  d->scales = t->groups;
  shoal_data_stats_result(t, d->mean, d->std);
  d->measured = f->looked;
  if (d->alone) shoal_data_tell_measured(d->path, n, f->looked);
  return SHOAL_OK;
}

void shoal_data_tell_measured(const char *path, uint64_t n, uint64_t looked)
{
  if (looked && looked == n)
    shoal_info("%s: mean and std are measured over all %" PRIu64 " training samples", path, n);
  else if (looked)
    shoal_info("%s: mean and std are estimated from %" PRIu64 " of %" PRIu64
               " training samples (`shoal data repack` stores exact ones)",
               path, looked, n);
}

static shoal_status measure(shoal_dataset *d)
{
  findings f = { .fill = find_fill(d) };
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_data_stats_init(&f.stats, d->info.kind, &d->info.sample, d->info.x_bytes), done);
  if (d->info.n[SHOAL_TRAIN] > 0) SHOAL_TRY_GOTO(st, look(d, &f), done);
  d->warned_of_marks = warn_of_fill(d, &f.fill, f.looked, f.filled) || warn_of_marks(d, &f.stats);
  if (f.looked > 0) shoal_data_doubt_scale(d, &f.stats, &f.fit);
  if (!d->has_scale) st = keep_scale(d, &f);
done:
  shoal_data_stats_fini(&f.stats);
  free(f.fit.far);
  return st;
}

static const char *feature_text(const void *context, size_t feature, char *buf, size_t cap)
{
  const shoal_dataset *d = context;
  if (d->info.kind == SHOAL_DATA_FEATURES && d->elements <= SHOAL_DATA_SCALES)
    snprintf(buf, cap, "/%.40s, feature %zu", d->names.x[0], feature);
  else
    snprintf(buf, cap, "/%.40s", d->names.x[0]);
  return buf;
}

static bool has_tiny_scale(const shoal_dataset *d)
{
  for (size_t g = 0; g < d->scales; g++)
    if (d->std[g] < (double)FLT_MIN) return true;
  return false;
}

/* Doubles and wide integers of some training samples, as they are in the file and as training sees them; floats if their
 * standard deviation shows that there is something to find. */
static shoal_status look_for_loss(const shoal_dataset *d)
{
  enum { ROWS = 1000, MOST_VALUES = 1 << 20, PLACES = 10 };
  const uint64_t n = d->info.n[SHOAL_TRAIN], most = SHOAL_MIN((uint64_t)ROWS, MOST_VALUES / d->elements);
  const uint64_t places = n > most ? SHOAL_MIN(most, (uint64_t)PLACES) : 1, rows = n > most ? most / places : n;
  const bool by_feature = d->info.kind == SHOAL_DATA_FEATURES && d->elements <= SHOAL_DATA_SCALES;
  shoal_h5_table *x = NULL;
  shoal_narrow narrow = { 0 };
  double *values = NULL;
  shoal_h5_facts f;
  shoal_status st;
  SHOAL_TRY(shoal_h5_look(d->file, d->names.x[0], &f));
  bool fits = f.size < 4 || (f.class == SHOAL_H5_FLOAT && f.size == 4);
  if (d->x_type != SHOAL_F32 || (fits && !has_tiny_scale(d)) || !most || !n) return SHOAL_OK;
  SHOAL_TRY_GOTO(st, shoal_narrow_init(&narrow, by_feature ? d->elements : 1), done);
  narrow.stays = true;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(rows * d->elements, &values), done);
  SHOAL_TRY_GOTO(st, shoal_h5_table_open(d->file, d->names.x[0], &(shoal_h5_row){ SHOAL_F64 }, &x), done);
  for (uint64_t k = 0; k < places; k++) {
    const uint64_t first = places > 1 ? SHOAL_MIN(draw_place(d, k, places), n - rows) : 0;
    SHOAL_TRY_GOTO(st, shoal_h5_table_read(x, first, rows, values), done);
    for (size_t i = 0; i < rows * d->elements; i++)
      (void)shoal_narrow_convert(&narrow, by_feature ? i % d->elements : 0, values[i]);
  }
  shoal_narrow_warn(&narrow, d->path, feature_text, NULL, d);
done:
  shoal_h5_table_close(x);
  shoal_narrow_fini(&narrow);
  free(values);
  return st;
}

shoal_status shoal_data_survey(shoal_dataset *d)
{
  shoal_status st = SHOAL_OK;
  bool flushes = shoal_subnormals_flush(false);
  if (!d->has_checksum) st = identify(d);
  if (st == SHOAL_OK && !d->names.text && !(d->has_checksum && d->has_scale)) st = measure(d);
  if (st == SHOAL_OK) st = look_for_loss(d);
  (void)shoal_subnormals_flush(flushes);
  return st;
}
