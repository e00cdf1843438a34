/* Rows of a CSV file, with the place of every field for error messages. */
#ifndef SHOAL_DATA_CSV_H
#define SHOAL_DATA_CSV_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char *text;          /* NUL-terminated, blanks around it and quotes removed; points into the text given */
  size_t line, column; /* from 1; columns count bytes */
} shoal_csv_field;
typedef struct {
  const char *path; /* for messages; borrowed */
  char *at, *end, *line_start;
  char separator;
  size_t line;
  shoal_csv_field *fields; /* of the present row */
  size_t n, cap;
} shoal_csv;

/** @param text  n bytes, NUL after them; borrowed and changed: fields are cut out of it in place.
 *  The separator is the most frequent of comma, semicolon and tab in the first line; a byte-order mark is skipped. */
void shoal_csv_init(shoal_csv *c, const char *path, char *text, size_t n);
void shoal_csv_fini(shoal_csv *c);
/** The next row into c->fields; empty lines are skipped; *end set after the last.
 *  ERR_IO with file:line:column for a quote that is not closed, text behind one, or a NUL byte. */
shoal_status shoal_csv_next(shoal_csv *c, bool *end);
#endif
