/* Contents of the file of an open data set, for inspection: its arrays, its attributes, and all samples in file order.
 * Training uses dataset.h. */
#ifndef SHOAL_DATA_CONTENTS_H
#define SHOAL_DATA_CONTENTS_H
#include "data/dataset.h"
#include "h5/h5.h"

typedef struct {
  const char *x[2], *y[2]; /* names of the arrays per split, without the leading slash; "" when absent; tokens are x */
  bool foreign;            /* the file does not use our names */
  bool has_checksum, has_scale;
  uint32_t checksum;       /* as stored */
  const char *class_names; /* one per line, or NULL */
  bool warned_of_marks;    /* of missing values, when the data set was opened */
  size_t sample_bytes;
} shoal_data_stored;
/** All texts are owned by the data set. */
shoal_data_stored shoal_dataset_stored(const shoal_dataset *d);
/** Storage layout of the samples of a non-empty split. */
shoal_status shoal_dataset_layout(const shoal_dataset *d, shoal_split split, shoal_h5_facts *out);
/** n consecutive samples, x [n, sample bytes]; y [n] unchecked labels, NULL for text and targets.  Either may be NULL.  Not thread-safe.
 *  ERR_IO naming array and sample for a label that does not fit 32 bits. */
shoal_status shoal_dataset_rows(shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, void *x, int32_t *y);

/** Samples whose check sums differ from those that were written with them. */
typedef struct {
  uint64_t samples, first, last;
} shoal_data_damage;
/** Adds those of n consecutive samples x, as shoal_dataset_rows reads them; none of a file without such sums. */
shoal_status shoal_dataset_find_damage(shoal_dataset *d, shoal_split split, uint64_t first, uint64_t n, const void *x,
                                       shoal_data_damage *found);
/** ERR_IO naming the array if the labels are not those that were written. */
shoal_status shoal_dataset_check_label_sums(shoal_dataset *d);

const char *shoal_split_name(shoal_split split); /* "train", "test" */
/** "[3, 32, 32]" */
const char *shoal_data_shape_text(const shoal_shape *s, char *buf, size_t cap);
#endif
