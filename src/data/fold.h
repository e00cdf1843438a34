/* Samples that have more dimensions than images, and the expression of NumPy that makes images of them. */
#ifndef SHOAL_DATA_FOLD_H
#define SHOAL_DATA_FOLD_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  char expression[128]; /* of an array v: "v.reshape(len(v), 16, 32, 32)" */
  char what[128];       /* it makes: "images [16, 32, 32], with their planes as channels" */
} shoal_fold;
/** Of an array [n, ...] of `ndim` dimensions; of dims [ndim] only five are read.  False if it needs none: such samples are read as they
 *  are.  Which dimension holds channels is seen by its length, 1, 3 or 4: the last one, the first, or that behind the frames. */
bool shoal_data_fold(int ndim, const uint64_t *dims, shoal_fold *out);
#endif
