/* What a checkpoint and an exported model say about the data: without mean and std a model is of no use to whoever has
 * only the file.  The attributes have the names and meanings that they have in a data set. */
#include "base/mem.h"
#include "ckpt/ckpt_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 60000 }; /* the earliest format limits an attribute to 64 KiB */

size_t shoal_ckpt_data_bytes(const shoal_ckpt_data *d)
{
  return 2 * d->scales * sizeof(double) + (d->class_names ? strlen(d->class_names) : 0) +
         (d->feature_names ? strlen(d->feature_names) : 0);
}

shoal_status shoal_ckpt_put_data(shoal_h5 file, const shoal_ckpt_data *d)
{
  if (!d->kind) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_put_string(file, "kind", d->kind));
  SHOAL_TRY(shoal_h5_put_i64s(file, "sample", (size_t)d->ndim, d->sample));
  SHOAL_TRY(shoal_h5_put_i64(file, "classes", d->classes));
  if (d->class_names && strlen(d->class_names) < TEXT_BYTES)
    SHOAL_TRY(shoal_h5_put_string(file, "class_names", d->class_names));
  if (d->feature_names && strlen(d->feature_names) < TEXT_BYTES)
    SHOAL_TRY(shoal_h5_put_string(file, "feature_names", d->feature_names));
  if (d->scales == 0) return SHOAL_OK; /* tokens */
  SHOAL_TRY(shoal_h5_put_f64s(file, "mean", d->scales, d->mean));
  return shoal_h5_put_f64s(file, "std", d->scales, d->std);
}

shoal_status shoal_ckpt_get_data(shoal_ckpt *c)
{
  shoal_ckpt_data *d = &c->info.data;
  if (!shoal_h5_has_attribute(c->file, "kind")) return SHOAL_OK;
  size_t ndim = shoal_h5_attribute_length(c->file, "sample"), n = shoal_h5_attribute_length(c->file, "mean");
  SHOAL_CHECK(ndim >= 1 && ndim <= SHOAL_COUNT(d->sample) && n <= SHOAL_CKPT_SCALES, SHOAL_ERR_IO,
              "%s: attributes sample and mean have %zu and %zu values", c->path, ndim, n);
  SHOAL_TRY(shoal_h5_get_i64s(c->file, "sample", ndim, d->sample));
  SHOAL_TRY(shoal_h5_get_i64(c->file, "classes", &d->classes));
  SHOAL_TRY(SHOAL_ALLOC(2 * n, &c->scale));
  if (n > 0) SHOAL_TRY(shoal_h5_get_f64s(c->file, "mean", n, c->scale));
  if (n > 0) SHOAL_TRY(shoal_h5_get_f64s(c->file, "std", n, c->scale + n));
  if (shoal_h5_has_attribute(c->file, "class_names"))
    SHOAL_TRY(shoal_h5_get_string(c->file, "class_names", &c->class_names));
  if (shoal_h5_has_attribute(c->file, "feature_names"))
    SHOAL_TRY(shoal_h5_get_string(c->file, "feature_names", &c->feature_names));
  SHOAL_TRY(shoal_h5_get_string(c->file, "kind", &c->kind));
  d->kind = c->kind;
  d->class_names = c->class_names;
  d->feature_names = c->feature_names;
  d->ndim = (int)ndim;
  d->scales = n;
  d->mean = c->scale;
  d->std = c->scale + n;
  return SHOAL_OK;
}
