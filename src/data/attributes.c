/* What a file says about itself by attributes, and how far it is believed.
 *
 * A file that states its kind in our words was made by our rules: check sum and identity mean what ours mean.  Files may have
 * attributes of the same names in another form or meaning: the mean of pixels that were scaled to 0..1 beside the pixels
 * themselves, classes as a list of words.  Those are named and not used; nothing that can be read is refused for them.  Only a
 * check sum shows that the program that computed mean and std was this one. */
#include "base/error.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((format(printf, 3, 4)))
ignore(const shoal_dataset *d, const char *name, const char *format, ...)
{
  char why[512];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  shoal_warn("%s: %s not used: %s", d->path, name, why);
}

/* The text, or NULL if there is none of this form. */
static char *get_text(const shoal_dataset *d, const char *name)
{
  char *text = NULL, shown[80];
  if (!shoal_h5_has_attribute(d->file, name)) return NULL;
  snprintf(shown, sizeof shown, "attribute %s is", name);
  if (shoal_h5_get_string(d->file, name, &text) != SHOAL_OK) ignore(d, shown, "it is not one text");
  return text;
}

static bool get_number(const shoal_dataset *d, const char *name, int64_t least, int64_t most, int64_t *out)
{
  char shown[80];
  int64_t value;
  if (!shoal_h5_has_attribute(d->file, name)) return false;
  snprintf(shown, sizeof shown, "attribute %s is", name);
  bool number = shoal_h5_get_i64(d->file, name, &value) == SHOAL_OK;
  if (!number)
    ignore(d, shown, "it is not one integer");
  else if (value < least || value > most)
    ignore(d, shown, "%" PRId64 " is not in %" PRId64 " to %" PRId64, value, least, most);
  if (!number || value < least || value > most) return false;
  *out = value;
  return true;
}

bool shoal_data_states_kind(shoal_h5 file)
{
  char *text = NULL;
  bool known = false;
  shoal_error pending;
  shoal_error_take(&pending);
  if (shoal_h5_get_string(file, "kind", &text) == SHOAL_OK)
    for (int k = SHOAL_DATA_IMAGES; k <= SHOAL_DATA_TEXT; k++)
      known = known || strcmp(text, shoal_data_kind_name((shoal_data_kind)k)) == 0;
  free(text);
  (void)shoal_error_put(&pending);
  return known;
}

static void read_kind(shoal_dataset *d)
{
  const char *want = shoal_data_kind_name(d->info.kind);
  char *text = get_text(d, "kind");
  d->ours = text && strcmp(text, want) == 0;
  if (text && !d->ours) ignore(d, "attribute kind is", "\"%s\" does not describe the arrays, which are %s", text, want);
  free(text);
}

/* ---- mean and std ---- */

/* Whether a file may have n means: one per channel, one per feature, or one for all. */
static bool scale_fits(const shoal_dataset *d, size_t n)
{
  if (d->info.kind == SHOAL_DATA_IMAGES) return n == (size_t)d->info.sample.dim[0];
  return n == 1 || (n == d->elements && n <= SHOAL_DATA_SCALES);
}

static void drop_scale(shoal_dataset *d)
{
  free(d->mean);
  d->mean = d->std = NULL;
  d->scales = 0;
  d->has_scale = false;
}

static shoal_status read_scale(shoal_dataset *d)
{
  static const char both[] = "attributes mean and std are";
  size_t n = shoal_h5_attribute_length(d->file, "mean"), m = shoal_h5_attribute_length(d->file, "std");
  if ((!n && !m) || d->names.text) return SHOAL_OK;
  if (n != m || !scale_fits(d, n)) {
    char text[96];
    ignore(d, both, "they have %zu and %zu values, samples are %s", n, m,
           shoal_data_shape_text(&d->info.sample, text, sizeof text));
    return SHOAL_OK;
  }
  SHOAL_TRY(SHOAL_ALLOC(2 * n, &d->mean));
  d->scales = n;
  d->std = d->mean + n;
  d->has_scale = true;
  if (shoal_h5_get_f64s(d->file, "mean", n, d->mean) != SHOAL_OK ||
      shoal_h5_get_f64s(d->file, "std", n, d->std) != SHOAL_OK) {
    ignore(d, both, "they are not numbers");
    drop_scale(d);
  }
  for (size_t i = 0; i < d->scales; i++)
    if (!isfinite(d->mean[i]) || !isfinite(d->std[i]) || d->std[i] <= 0) {
      ignore(d, both, "%g and %g of %s %zu cannot normalise anything", d->mean[i], d->std[i],
             d->info.kind == SHOAL_DATA_IMAGES ? "channel" : "feature", i);
      drop_scale(d);
    }
  return SHOAL_OK;
}

enum { FAR = 8 }; /* standard deviations, or factors of one */

shoal_status shoal_data_fit_add(const shoal_dataset *d, const void *x, shoal_data_fit *fit)
{
  const size_t plane = d->elements / SHOAL_MAX(d->scales, (size_t)1);
  if (!d->has_scale) return SHOAL_OK;
  if (!fit->far) SHOAL_TRY(SHOAL_ALLOC(d->scales, &fit->far));
  fit->samples++;
  for (size_t g = 0, i = 0; g < d->scales; g++) {
    const double mean = d->mean[g], scale = 1 / d->std[g];
    for (const size_t end = i + plane; i < end; i++) {
      const double value = d->x_type == SHOAL_U8 ? ((const uint8_t *)x)[i] : (double)((const float *)x)[i];
      const double z = (value - mean) * scale;
      if (!(fabs(z) <= FAR)) {
        fit->far[g]++;
        continue;
      }
      fit->near++;
      fit->sum += z;
      fit->squares += z * z;
    }
  }
  return SHOAL_OK;
}

/* Whether all but one in a hundred values of each feature, or those of one sample, are near 0 and not all at one place. */
static bool fits_mass(const shoal_dataset *d, const shoal_data_fit *fit)
{
  const uint64_t plane = d->elements / d->scales, few = SHOAL_MAX(plane, fit->samples * plane / 100);
  for (size_t g = 0; g < d->scales; g++)
    if (fit->far[g] > few) return false;
  const double mean = fit->sum / fit->near, variance = fit->squares / fit->near - mean * mean;
  return variance * FAR * FAR >= 1;
}

/* The first channel or feature most of whose values are far; d->scales if there is none. */
static size_t find_far(const shoal_dataset *d, const shoal_data_fit *fit)
{
  size_t g = 0;
  while (g < d->scales && 2 * fit->far[g] <= fit->samples * (d->elements / d->scales)) g++;
  return g;
}

/* Values that normalise to a few standard deviations around 0 are good enough: people round, and take those of a larger
 * data set.  A few damaged samples are no reason to doubt. */
void shoal_data_doubt_scale(shoal_dataset *d, const shoal_data_stats *seen, const shoal_data_fit *fit)
{
  double *real, mean, std, real_mean, real_std;
  char where[40] = "";
  if (!d->has_scale || SHOAL_ALLOC(2 * seen->groups, &real) != SHOAL_OK) return;
  shoal_data_stats_result(seen, real, real + seen->groups);
  shoal_data_overall(seen->groups, real, real + seen->groups, &real_mean, &real_std);
  shoal_data_overall(d->scales, d->mean, d->std, &mean, &std);
  bool fits = fabs(mean - real_mean) <= FAR * real_std && std <= FAR * real_std && real_std <= FAR * std;
  const size_t far = find_far(d, fit);
  if (fits && far < d->scales && d->scales == seen->groups) {
    snprintf(where, sizeof where, " in %s %zu", d->info.kind == SHOAL_DATA_IMAGES ? "channel" : "feature", far);
    mean = d->mean[far];
    std = d->std[far];
    real_mean = real[far];
    real_std = real[seen->groups + far];
  }
  free(real);
  if ((fits && far == d->scales) || fits_mass(d, fit)) return;
  ignore(d, "attributes mean and std are",
         "%.4g and %.4g%s are not those of /%s, which has %.4g and %.4g (of values scaled "
         "to 0..1?)",
         mean, std, where, d->names.x[SHOAL_TRAIN], real_mean, real_std);
  drop_scale(d);
}

/* ` in feature 3, "age", and 2 more`. */
static void add_place(const shoal_dataset *d, size_t first, size_t far, shoal_str *out)
{
  char shown[48];
  const char *name = d->scales == d->elements ? d->feature_names : NULL;
  for (size_t g = 0; name && g < first; g++) name = strchr(name, '\n') ? strchr(name, '\n') + 1 : NULL;
  shoal_str_add(out, " in %s %zu", d->info.kind == SHOAL_DATA_IMAGES ? "channel" : "feature", first);
  if (name) {
    char *own = shoal_strdup_printf("%.*s", (int)strcspn(name, "\n"), name);
    shoal_str_add(out, ", \"%s\"", shoal_show(own, shown, sizeof shown));
    free(own);
  }
  if (far > 1) shoal_str_add(out, ", and as far off in %zu more", far - 1);
}

void shoal_dataset_warn_of_scale(const shoal_dataset *d, size_t n, const double *means, const double *stds)
{
  double own, own_std, other, other_std;
  size_t first = 0, far = 0; /* of the features that are in another scale, too */
  bool moved = false;
  if (d->scales == 0 || n > d->scales || d->info.n[SHOAL_TRAIN] == 0) return;
  for (size_t g = d->scales; g-- > 0;) {
    const double mean = means[n == 1 ? 0 : g], std = stds[n == 1 ? 0 : g];
    const bool away = fabs(d->mean[g] - mean) > FAR * std;
    moved |= away;
    if (!away && d->std[g] <= FAR * std && std <= FAR * d->std[g]) continue;
    first = g;
    far++;
  }
  shoal_data_overall(d->scales, d->mean, d->std, &own, &own_std);
  shoal_data_overall(n, means, stds, &other, &other_std);
  const bool fits = fabs(own - other) <= FAR * other_std && own_std <= FAR * other_std && other_std <= FAR * own_std;
  if (fits && !moved) return;
  shoal_str where = { 0 };
  if (far > 0 && far < d->scales) { /* the mean over all would be that of a few */
    add_place(d, first, far, &where);
    own = d->mean[first];
    own_std = d->std[first];
    other = means[n == 1 ? 0 : first];
    other_std = stds[n == 1 ? 0 : first];
  }
  shoal_warn(
      "%s has mean %.4g and standard deviation %.4g%s, what the model was trained on %.4g and %.4g: are both scaled "
      "alike, in the same units?",
      d->path, own, own_std, where.len ? where.text : "", other, other_std);
  shoal_str_free(&where);
}

/* ---- all of them ---- */

static size_t count_lines(const char *text)
{
  size_t n = 1;
  for (; *text; text++) n += *text == '\n';
  return n;
}

static void read_class_names(shoal_dataset *d)
{
  d->class_names = get_text(d, "class_names");
  shoal_data_check_class_names(d);
}

static void read_target_names(shoal_dataset *d)
{
  d->targets.names = get_text(d, "target_names");
  const size_t n = d->targets.names ? count_lines(d->targets.names) : d->targets.n;
  if (n == d->targets.n && (!d->targets.names || strlen(d->targets.names) < SHOAL_DATA_NAMES)) return;
  ignore(d, "attribute target_names is", "it has %zu line%s for %zu targets", n, n > 1 ? "s" : "", d->targets.n);
  free(d->targets.names);
  d->targets.names = NULL;
}

/* Of our own files: elsewhere the attribute has many forms, and nothing depends on it. */
static void read_feature_names(shoal_dataset *d)
{
  if (!d->ours || d->info.kind == SHOAL_DATA_TEXT) return;
  d->feature_names = get_text(d, "feature_names");
  const size_t n = d->feature_names ? count_lines(d->feature_names) : d->elements;
  if (n == d->elements) return;
  ignore(d, "attribute feature_names is", "it has %zu line%s for %zu features", n, n > 1 ? "s" : "", d->elements);
  free(d->feature_names);
  d->feature_names = NULL;
}

void shoal_data_check_class_names(shoal_dataset *d)
{
  const size_t n = d->class_names ? count_lines(d->class_names) : 0, bytes = n ? strlen(d->class_names) : 0;
  const bool known = d->info.classes > 0,
             fits = !known || (d->has_classes ? n == (size_t)d->info.classes : n >= (size_t)d->info.classes);
  if (!n || (fits && bytes < SHOAL_DATA_NAMES)) return;
  if (fits)
    ignore(d, "attribute class_names is", "it takes %zu bytes, checkpoints hold %d", bytes, SHOAL_DATA_NAMES);
  else
    ignore(d, "attribute class_names is", "it has %zu line%s for %" PRId64 " classes", n, n > 1 ? "s" : "",
           d->info.classes);
  free(d->class_names);
  d->class_names = NULL;
  d->labels.names = NULL;
}

shoal_status shoal_data_read_vocabulary(shoal_dataset *d)
{
  static const char name[] = "vocabulary";
  shoal_h5_facts f;
  char origin[512];
  if (!d->ours || d->info.kind != SHOAL_DATA_TEXT || !shoal_h5_is_data_set(d->file, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_look(d->file, name, &f));
  SHOAL_CHECK(f.ndim == 1 && f.exact && f.type == SHOAL_U8, SHOAL_ERR_IO,
              "%s: /%s is %s of %d dimensions; must be u8 of one, a tokenizer.json", d->path, name, f.described,
              f.ndim);
  SHOAL_TRY(shoal_limit_memory(d->path, name, f.dims[0], 1));
  SHOAL_TRY(SHOAL_ALLOC(f.dims[0] + 1, &d->vocabulary_text));
  SHOAL_TRY(shoal_h5_read(d->file, name, SHOAL_U8, f.dims[0], d->vocabulary_text));
  snprintf(origin, sizeof origin, "%s: /%s", d->path, name);
  SHOAL_TRY(shoal_vocabulary_read(d->vocabulary_text, f.dims[0], origin, &d->vocabulary));
  SHOAL_CHECK((int64_t)shoal_vocabulary_size(d->vocabulary) == d->info.classes, SHOAL_ERR_IO,
              "%s: /%s has %zu tokens, and the attribute classes says %" PRId64, d->path, name,
              shoal_vocabulary_size(d->vocabulary), d->info.classes);
  for (int s = 0; s < 2; s++) {
    int64_t bytes;
    if (!d->part[s].x || !shoal_h5_has_attribute(shoal_h5_table_object(d->part[s].x), "bytes")) continue;
    SHOAL_TRY(shoal_h5_get_i64(shoal_h5_table_object(d->part[s].x), "bytes", &bytes));
    d->text_bytes[s] = (uint64_t)SHOAL_MAX(bytes, INT64_C(0));
  }
  return SHOAL_OK;
}

shoal_status shoal_data_read_attributes(shoal_dataset *d)
{
  int64_t value;
  shoal_error pending;
  shoal_error_take(&pending); /* what fails here is told and over */
  read_kind(d);
  char *source = get_text(d, "source");
  snprintf(d->info.source, sizeof d->info.source, "%s", source ? source : "");
  free(source);
  if (d->names.targets) {
    read_target_names(d);
  } else {
    d->has_classes = get_number(d, "classes", 1, SHOAL_CLASSES_MOST, &d->info.classes);
    read_class_names(d);
  }
  read_feature_names(d);
  if (d->ours && get_number(d, "checksum", 0, UINT32_MAX, &value)) {
    d->info.checksum = d->checksum = (uint32_t)value;
    d->has_checksum = true;
    if (get_number(d, "identity", 0, UINT32_MAX, &value)) d->info.checksum = (uint32_t)value;
  }
  (void)shoal_error_put(&pending);
  return read_scale(d);
}
