/* What a table must have to be predicted by a model: the columns that it was trained on, in their order, its classes, and the means
 * that stand for missing values. */
#ifndef SHOAL_DATA_CSV_LIKE_H
#define SHOAL_DATA_CSV_LIKE_H
#include "base/status.h"
#include "base/str.h"
#include "base/texts.h"
#include "tensor/shape.h"
#include <stdint.h>

typedef struct {
  const char *path;        /* borrowed */
  shoal_shape sample;      /* of a sample: [features], or of pixels [c, h, w] */
  size_t features;         /* numbers in it */
  shoal_texts names;       /* of the features, as shoal_show has them; none if the table had no header */
  shoal_texts class_names; /* none: classes are their numbers */
  int64_t classes;
  size_t targets;           /* numbers that it predicts; 0: it tells classes */
  shoal_texts target_names; /* none: not known */
  size_t scales;            /* features, 1 for all, or channels */
  double *mean;             /* [scales] */
} shoal_csv_like;

/** From a checkpoint, a model exported as .h5, or a data set: they have the same attributes.  ERR_USAGE if its samples are no
 *  features or images. */
shoal_status shoal_csv_like_read(const char *path, shoal_csv_like *out);
void shoal_csv_like_fini(shoal_csv_like *l);
/** The class of a label, by its name or as a number; -1 if there is none. */
int32_t shoal_csv_like_class(const shoal_csv_like *l, const char *label);
#endif
