/* `--like RUN|FILE`: what a checkpoint, a model exported as .h5, or a data set says of the samples that its model reads.  All three
 * have the same attributes; what a table, a folder of images and text take of them is in csv_like.h, import_images.c and import_text.c. */
#ifndef SHOAL_DATA_LIKE_H
#define SHOAL_DATA_LIKE_H
#include "base/status.h"
#include "base/texts.h"
#include "h5/h5.h"
#include <stdint.h>

/* Reads what it needs from the open file `path` into `out`. */
typedef shoal_status (*shoal_like_reader)(shoal_h5 file, const char *path, void *out);
/** Opens the file and reads it, twice: first in a child, so that a damaged file which crashes HDF5 is an error.  `out` is written by the
 *  second alone.  ERR_IO, and what the reader returns. */
shoal_status shoal_like_read(const char *path, shoal_like_reader read, void *out);

/* For readers. */
/** Whether its samples are images; else they are features.  ERR_USAGE if they are neither, or `shoal data import MAKER` made no such file. */
shoal_status shoal_like_images(shoal_h5 file, const char *path, const char *maker, bool *out);
/** The shape of a sample.  ERR_IO unless it has `ndim` dimensions, and INT32_MAX numbers at most. */
shoal_status shoal_like_sample(shoal_h5 file, const char *path, int ndim, int64_t *dims);
/** The numbers that it predicts; 0: it tells classes. */
shoal_status shoal_like_targets(shoal_h5 file, const char *path, size_t *out);
/** The number of classes. */
shoal_status shoal_like_classes(shoal_h5 file, const char *path, int64_t *out);
/** The names in an attribute, one per line; none if it is not there, or has not n of them. */
shoal_status shoal_like_names(shoal_h5 file, const char *attribute, size_t n, shoal_texts *out);
/** The class of a label, by its name or as a number; -1 if there is none.  Without names classes are their numbers. */
int32_t shoal_like_class(const shoal_texts *names, int64_t classes, const char *label);
#endif
