/* Numbers as tables have them: with a decimal point or comma, and thousands that may be set apart. */
#ifndef SHOAL_DATA_CSV_NUMBER_H
#define SHOAL_DATA_CSV_NUMBER_H
#include "data/csv.h"

/** The number in a field by the dialect's signs; false if it is none.
 *  @param thousands  the sign between its groups of digits, one of , . ' and space, or 0; may be NULL */
bool shoal_csv_number(const shoal_csv_dialect *d, const char *text, double *out, char *thousands);

/* What a field tells about the decimal sign.  SHOAL_CSV_EITHER: 1,200 and 1.200, which are other numbers by the other sign. */
typedef enum { SHOAL_CSV_NEITHER, SHOAL_CSV_POINT, SHOAL_CSV_COMMA, SHOAL_CSV_EITHER } shoal_csv_tells;
/** @param values  the number by point and by comma, where it is one; may be NULL */
shoal_csv_tells shoal_csv_tells_decimal(const shoal_csv_dialect *d, const char *text, double values[2]);

/** The sign between groups of digits that `text` begins with, and its bytes: all spaces that do not break lines are a space,
 *  both apostrophes are one.  0: none. */
size_t shoal_csv_group_sign(const char *text, char *sign);
/** How messages call such a sign. */
const char *shoal_csv_sign_name(char sign);
#endif
