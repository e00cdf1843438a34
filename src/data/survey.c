/* A look at samples when a data set is opened, for what its attributes do not tell: mean, standard deviation and check sum
 * of a file from elsewhere, and whether its numbers survive as 32-bit floats.
 *
 * Subnormal numbers count here even if the run flushes them: they are only small until they are normalised. */
#include "base/crc32c.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/subnormal.h"
#include "data/data_impl.h"
#include "data/narrow.h"
#include "data/stats.h"
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SURVEY = 4096 }; /* samples used to estimate mean and std */

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

/* Estimates mean, std and checksum from evenly spaced training samples. */
static shoal_status estimate(shoal_dataset *d)
{
  shoal_data_stats t = { 0 };
  shoal_data_fit fit = { 0 };
  uint8_t *x = NULL;
  uint64_t n = d->info.n[SHOAL_TRAIN], looks = SHOAL_MIN(n, (uint64_t)SURVEY);
  uint64_t filled = 0;
  uint32_t crc[4] = { 0 };
  fill_value fill = find_fill(d);
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(d->sample_bytes, &x), done);
  SHOAL_TRY_GOTO(st, shoal_data_stats_init(&t, d->info.kind, &d->info.sample, d->info.x_bytes), done);
  for (uint64_t i = 0; i < looks; i++) {
    uint64_t at = (uint64_t)((unsigned __int128)i * n / looks);
    SHOAL_TRY_GOTO(st, shoal_interrupt_check(), done);
    SHOAL_TRY_GOTO(st, shoal_dataset_rows(d, SHOAL_TRAIN, at, 1, x, NULL), done);
    t.number = at;
    if (!d->names.text) shoal_data_stats_add(&t, 1, x);
    SHOAL_TRY_GOTO(st, shoal_data_fit_add(d, x, &fit), done);
    if (fill.attribute) filled += has_value(d, x, fill.value);
    crc[0] = shoal_crc32c(crc[0], x, d->sample_bytes);
  }
  SHOAL_TRY_GOTO(st, shoal_dataset_hold_labels(d), done);
  for (int s = 0; s < 2; s++) {
    if (d->part[s].labels) crc[2 * s + 1] = shoal_crc32c(0, d->part[s].labels, d->info.n[s] * sizeof(int32_t));
  }
  if (!d->has_checksum) d->info.checksum = shoal_data_checksum(crc);
  d->warned_of_marks = warn_of_fill(d, &fill, looks, filled) || warn_of_marks(d, &t);
  shoal_data_doubt_scale(d, &t, &fit);
  if (d->has_scale || d->names.text) goto done;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(2 * t.groups, &d->mean), done);
  d->std = d->mean + t.groups;
  d->scales = t.groups;
  shoal_data_stats_result(&t, d->mean, d->std);
  shoal_info("%s: no mean and std stored; estimated from %" PRIu64
             " training samples (`shoal data repack` stores them)",
             d->path, looks);
done:
  shoal_data_stats_fini(&t);
  free(fit.far);
  free(x);
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

/* Doubles and wide integers of the first training samples, as they are in the file and as training sees them; floats if their
 * standard deviation shows that there is something to find. */
static shoal_status look_for_loss(const shoal_dataset *d)
{
  enum { ROWS = 1000, MOST_VALUES = 1 << 20 };
  const uint64_t rows = SHOAL_MIN(d->info.n[SHOAL_TRAIN], (uint64_t)SHOAL_MIN(ROWS, MOST_VALUES / d->elements));
  const bool by_feature = d->info.kind == SHOAL_DATA_FEATURES && d->elements <= SHOAL_DATA_SCALES;
  shoal_h5_table *x = NULL;
  shoal_narrow narrow = { 0 };
  double *values = NULL;
  shoal_h5_facts f;
  shoal_status st;
  SHOAL_TRY(shoal_h5_look(d->file, d->names.x[0], &f));
  bool fits = f.size < 4 || (f.class == SHOAL_H5_FLOAT && f.size == 4);
  if (d->x_type != SHOAL_F32 || (fits && !has_tiny_scale(d)) || !rows) return SHOAL_OK;
  SHOAL_TRY_GOTO(st, shoal_narrow_init(&narrow, by_feature ? d->elements : 1), done);
  narrow.stays = true;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(rows * d->elements, &values), done);
  SHOAL_TRY_GOTO(st, shoal_h5_table_open(d->file, d->names.x[0], &(shoal_h5_row){ SHOAL_F64 }, &x), done);
  SHOAL_TRY_GOTO(st, shoal_h5_table_read(x, 0, rows, values), done);
  for (size_t i = 0; i < rows * d->elements; i++)
    (void)shoal_narrow_convert(&narrow, by_feature ? i % d->elements : 0, values[i]);
  shoal_narrow_warn(&narrow, d->path, feature_text, d);
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
  if (!d->has_checksum || !(d->has_scale || d->names.text)) st = estimate(d);
  if (st == SHOAL_OK) st = look_for_loss(d);
  (void)shoal_subnormals_flush(flushes);
  return st;
}
