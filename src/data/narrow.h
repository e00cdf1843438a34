/* Numbers that do not survive as 32-bit floats: time stamps and ids beyond 2^24 change, values that differ only after the
 * seventh digit become equal, those beyond 3.4e38 infinite, and those below 1.2e-38 lose digits.  Counted per column while
 * data is converted, and told by name. */
#ifndef SHOAL_DATA_NARROW_H
#define SHOAL_DATA_NARROW_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t values, changed, merged; /* integers that changed; equal to the value before, which was different */
  uint64_t dates;                   /* of the integers that changed those that are YYYYMMDD */
  uint64_t beyond;                  /* finite, and larger than any float */
  double previous, low, high;       /* value before; range of the finite ones */
  double example[2];                /* of a value that changed; else of two that became equal */
  double *kept; /* [n_kept] values from the first that changed on, of the columns that are told; or NULL */
  size_t n_kept;
} shoal_narrow_column;
typedef struct {
  size_t n;
  bool
      stays; /* the numbers are used as they are, so columns are told, too, whose numbers are all subnormal but distinct */
  size_t n_keeping;             /* columns with values kept */
  shoal_narrow_column *columns; /* [n] */
} shoal_narrow;

shoal_status shoal_narrow_init(shoal_narrow *t, size_t columns);
void shoal_narrow_fini(shoal_narrow *t);
/** Converts a value and remembers what is lost. */
float shoal_narrow_convert(shoal_narrow *t, size_t column, double value);
/** Warns about each column that lost whole numbers, or distinctions in at least 1 % of its values; the first few by
 *  name.  `name` writes what a column is called into `buf`, and is given `context`.
 *  @param drop  the number of a column for --drop, 0: it cannot be left out so; NULL: none can */
void shoal_narrow_warn(const shoal_narrow *t, const char *path,
                       const char *(*name)(const void *context, size_t column, char *buf, size_t cap),
                       size_t (*drop)(const void *context, size_t column), const void *context);
#endif
