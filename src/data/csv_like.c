/* See csv_like.h. */
#include "data/csv_like.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/data_impl.h"
#include "data/like.h"
#include <math.h>
#include <stdlib.h>

static shoal_status read_file(shoal_h5 file, const char *path, void *out)
{
  shoal_csv_like *l = out;
  shoal_shape *s = &l->sample;
  bool images = false;
  SHOAL_TRY(shoal_like_images(file, path, "csv", &images));
  s->ndim = images ? 3 : 1;
  SHOAL_TRY(shoal_like_sample(file, path, s->ndim, s->dim));
  l->features = (size_t)shoal_shape_count(s);
  SHOAL_TRY(shoal_like_names(file, "feature_names", l->features, &l->names));
  SHOAL_TRY(shoal_like_targets(file, path, &l->targets));
  SHOAL_TRY(shoal_like_names(file, "target_names", l->targets, &l->target_names));
  l->classes = (int64_t)l->targets;
  if (!l->targets) SHOAL_TRY(shoal_like_classes(file, path, &l->classes));
  SHOAL_TRY(shoal_like_names(file, "class_names", (size_t)l->classes, &l->class_names));
  l->scales = shoal_h5_attribute_length(file, "mean");
  const bool fits = images ? l->scales == (size_t)s->dim[0] : l->scales == l->features || l->scales == 1;
  SHOAL_CHECK(fits, SHOAL_ERR_IO, "--like %s: it has %zu means for %zu features", path, l->scales, l->features);
  SHOAL_TRY(SHOAL_ALLOC(l->scales, &l->mean));
  SHOAL_TRY(shoal_h5_get_f64s(file, "mean", l->scales, l->mean));
  for (size_t i = 0; i < l->scales; i++)
    SHOAL_CHECK(isfinite((float)l->mean[i]), SHOAL_ERR_IO, "--like %s: mean %zu is not finite", path, i);
  return SHOAL_OK;
}

shoal_status shoal_csv_like_read(const char *path, shoal_csv_like *out)
{
  *out = (shoal_csv_like){ .path = path };
  return shoal_like_read(path, read_file, out);
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
  return shoal_like_class(&l->class_names, l->classes, label);
}
