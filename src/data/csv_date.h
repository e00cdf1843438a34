/* Dates and times in digits, in the forms that tables have, and what Python calls these forms. */
#ifndef SHOAL_DATA_CSV_DATE_H
#define SHOAL_DATA_CSV_DATE_H
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>

/** Whether it is a date or a time in digits: "2020-01-31", "31.01.2020 12:30", "12:30"; also with the name of a month: "31-Jan-2020",
 *  "January 31, 2020". */
bool shoal_csv_is_date(const char *text);
/** Whether what shoal_csv_date_formats found are times of day alone. */
bool shoal_csv_is_clock_form(const char *form);
/** Adds the ways to read n fields of a column to `out`, the first one that fits all of them to be taken: a list for Python, of lists of
 *  formats, "[\"%d/%m/%Y\"], [\"%m/%d/%Y\"]"; None is a date with its year in front.  Fields that are no dates are passed over. */
void shoal_csv_date_formats(const char *const *fields, size_t n, shoal_str *out);
#endif
