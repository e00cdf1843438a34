/* The labels of CSV files, which may be any text: every distinct one becomes a class, 0, 1, ... in sorted order. */
#ifndef SHOAL_DATA_CSV_CLASSES_H
#define SHOAL_DATA_CSV_CLASSES_H
#include "base/str.h"
#include "data/csv.h"
#include <stdint.h>

typedef struct {
  char *text;
  const char *path; /* where it was met first */
  size_t line, column;
  uint64_t count;
  double number; /* of a label that is one */
  int32_t rank;  /* its class, after shoal_csv_classes_finish */
} shoal_csv_class;
typedef struct {
  shoal_csv_class *all; /* [n] in the order they were met */
  size_t n, cap;
  uint32_t *slots; /* hash table: index + 1, 0 is free */
  int32_t classes; /* labels that are equal numbers (1, 1.0) are one class */
  shoal_str names; /* one per line in the order of the classes; empty if the labels are 0 .. classes-1 already */
} shoal_csv_classes;

void shoal_csv_classes_fini(shoal_csv_classes *c);
/** Counts a label; *id is its index in `all`.  `path` must outlive the table. */
shoal_status shoal_csv_classes_add(shoal_csv_classes *c, const char *path, const shoal_csv_field *f, int32_t *id);
/** Sorts, as numbers if all labels are integers, else as text, and warns about labels that may mean "none", and about a
 *  header that may have been taken for a sample.
 *  ERR_IO if labels are fractions, or if they are too many for the rows; `column` is what the messages call the label. */
shoal_status shoal_csv_classes_finish(shoal_csv_classes *c, const shoal_csv_dialect *d, const char *path,
                                      const char *column);
#endif
