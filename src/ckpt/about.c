/* What a checkpoint and an exported model say about the data: without mean and std a model is of no use to whoever has
 * only the file.  The attributes have the names and meanings that they have in a data set. */
#include "base/mem.h"
#include "ckpt/ckpt_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t shoal_ckpt_data_bytes(const shoal_ckpt_data *d)
{
  const char *const texts[] = { d->class_names, d->feature_names, d->target_names };
  size_t bytes = 2 * (d->scales + d->targets) * sizeof(double);
  for (size_t i = 0; i < SHOAL_COUNT(texts); i++) bytes += texts[i] ? strlen(texts[i]) : 0;
  return bytes;
}

static shoal_status put_text(shoal_h5 file, const char *name, const char *text)
{
  return text ? shoal_h5_put_string(file, name, text) : SHOAL_OK;
}

static shoal_status get_text(shoal_h5 file, const char *name, char **out)
{
  return shoal_h5_has_attribute(file, name) ? shoal_h5_get_string(file, name, out) : SHOAL_OK;
}

/* There are as many outputs as targets, and none is predicted in units of 0. */
static shoal_status get_targets(shoal_ckpt *c, size_t n, double *mean)
{
  double *std = mean + n;
  const size_t m = shoal_h5_attribute_length(c->file, "target_std");
  SHOAL_CHECK(n == m && c->info.data.classes == (int64_t)n, SHOAL_ERR_IO,
              "%s: attributes target_mean and target_std have %zu and %zu values for %" PRId64 " outputs", c->path, n,
              m, c->info.data.classes);
  SHOAL_TRY(shoal_h5_get_f64s(c->file, "target_mean", n, mean));
  SHOAL_TRY(shoal_h5_get_f64s(c->file, "target_std", n, std));
  for (size_t i = 0; i < n; i++)
    SHOAL_CHECK(isfinite(mean[i]) && isfinite(std[i]) && std[i] > 0, SHOAL_ERR_IO,
                "%s: mean %g and deviation %g of target %zu cannot turn outputs into predictions", c->path, mean[i],
                std[i], i);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_put_data(shoal_h5 file, const shoal_ckpt_data *d)
{
  if (!d->kind) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_put_string(file, "kind", d->kind));
  SHOAL_TRY(shoal_h5_put_i64s(file, "sample", (size_t)d->ndim, d->sample));
  SHOAL_TRY(shoal_h5_put_i64(file, "classes", d->classes));
  SHOAL_TRY(put_text(file, "class_names", d->class_names));
  SHOAL_TRY(put_text(file, "feature_names", d->feature_names));
  SHOAL_TRY(put_text(file, "target_names", d->target_names));
  if (d->targets > 0) {
    SHOAL_TRY(shoal_h5_put_f64s(file, "target_mean", d->targets, d->target_mean));
    SHOAL_TRY(shoal_h5_put_f64s(file, "target_std", d->targets, d->target_std));
  }
  if (d->scales == 0) return SHOAL_OK; /* tokens */
  SHOAL_TRY(shoal_h5_put_f64s(file, "mean", d->scales, d->mean));
  return shoal_h5_put_f64s(file, "std", d->scales, d->std);
}

shoal_status shoal_ckpt_get_data(shoal_ckpt *c)
{
  shoal_ckpt_data *d = &c->info.data;
  if (!shoal_h5_has_attribute(c->file, "kind")) return SHOAL_OK;
  size_t ndim = shoal_h5_attribute_length(c->file, "sample"), n = shoal_h5_attribute_length(c->file, "mean");
  const size_t targets = shoal_h5_attribute_length(c->file, "target_mean");
  SHOAL_CHECK(ndim >= 1 && ndim <= SHOAL_COUNT(d->sample) && n <= SHOAL_CKPT_SCALES && targets <= SHOAL_CKPT_SCALES,
              SHOAL_ERR_IO, "%s: attributes sample, mean and target_mean have %zu, %zu and %zu values", c->path, ndim,
              n, targets);
  SHOAL_TRY(shoal_h5_get_i64s(c->file, "sample", ndim, d->sample));
  SHOAL_TRY(shoal_h5_get_i64(c->file, "classes", &d->classes));
  SHOAL_TRY(SHOAL_ALLOC(2 * (n + targets), &c->scale));
  if (n > 0) SHOAL_TRY(shoal_h5_get_f64s(c->file, "mean", n, c->scale));
  if (n > 0) SHOAL_TRY(shoal_h5_get_f64s(c->file, "std", n, c->scale + n));
  if (targets > 0) SHOAL_TRY(get_targets(c, targets, c->scale + 2 * n));
  SHOAL_TRY(get_text(c->file, "class_names", &c->class_names));
  SHOAL_TRY(get_text(c->file, "feature_names", &c->feature_names));
  SHOAL_TRY(get_text(c->file, "target_names", &c->target_names));
  SHOAL_TRY(shoal_h5_get_string(c->file, "kind", &c->kind));
  d->kind = c->kind;
  d->class_names = c->class_names;
  d->feature_names = c->feature_names;
  d->ndim = (int)ndim;
  d->scales = n;
  d->mean = c->scale;
  d->std = c->scale + n;
  d->targets = targets;
  d->target_mean = c->scale + 2 * n;
  d->target_std = d->target_mean + targets;
  d->target_names = c->target_names;
  return SHOAL_OK;
}
