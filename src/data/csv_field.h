/* Fields of a CSV that should be numbers and are none: what they are instead, and what to do about them. */
#ifndef SHOAL_DATA_CSV_FIELD_H
#define SHOAL_DATA_CSV_FIELD_H
#include "data/csv_layout.h"
#include <stdbool.h>
#include <stddef.h>

/** Whether a field that is not empty says that there is no value: "NA", "#DIV/0!", "-1.#IND", "-nan(ind)". */
bool shoal_csv_marks_gap(const char *text);
/** Whether it is a number, infinite or not, that no 32-bit float can hold; --missing takes it for a missing value. */
bool shoal_csv_is_beyond(const shoal_csv_dialect *d, const char *text);
/** Whether such a number is infinite. */
bool shoal_csv_is_infinite(const char *text);
/** Whether it is numbers as NumPy and pandas write an array into a cell, "[0.1 0.2]", "[1, 2]", or three or more with blanks between,
 *  as pixels are. */
bool shoal_csv_is_list(const char *text);

/** Whether it is "true", "no" or the like. */
bool shoal_csv_is_truth(const char *text);
/** What is beside the only number in a field: the sign of a currency, "%", or a unit such as "kg".  False if there is none. */
bool shoal_csv_beside_number(const shoal_csv_dialect *d, const char *text, char out[16]);

enum { SHOAL_CSV_REASON = 3072 + SHOAL_WORD };
typedef struct {
  const char *path, *text; /* of the file, of the field */
  size_t column;
  const char *slips; /* how to mend all fields that are none among numbers, if this or another one is so; else NULL */
  size_t gaps;       /* then, fields of the file that have no value, or none that --missing keeps */
  size_t beyond;     /* fields of the file that are no finite 32-bit float */
  const char *most;  /* of these the one that is farthest from 0, in this line */
  size_t most_line;
} shoal_csv_wrong;
/** The end of a sentence that begins with the field: "is empty; features are numbers: --missing mean ...".  Its commands work as
 *  they are printed; leaving the column out is advised only where others have numbers.
 *  @param guessed  the label was found without --label */
const char *shoal_csv_why_not(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f,
                              char out[SHOAL_CSV_REASON]);
#endif
