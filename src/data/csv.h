/* Reader of CSV rows, with the position of every field for error messages. */
#ifndef SHOAL_DATA_CSV_H
#define SHOAL_DATA_CSV_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char *text;          /* NUL-terminated, without surrounding blanks and quotes; points into the caller's text */
  size_t line, column; /* from 1; columns count bytes */
} shoal_csv_field;
typedef struct {
  const char *path; /* for messages; borrowed */
  char *at, *end, *line_start;
  char separator;
  size_t line;
  shoal_csv_field *fields; /* of the current row */
  size_t n, cap;
} shoal_csv;

/** @param text  n bytes followed by a NUL; borrowed and modified: fields are terminated in place.
 *  The separator is the most frequent of comma, semicolon and tab in the first line; a byte-order mark is skipped. */
void shoal_csv_init(shoal_csv *c, const char *path, char *text, size_t n);
void shoal_csv_fini(shoal_csv *c);
/** Reads the next row into c->fields; skips empty lines; sets *end after the last row.  ERR_IO with file:line:column
 *  for an unclosed quote, text after a closing quote, or a NUL byte. */
shoal_status shoal_csv_next(shoal_csv *c, bool *end);
#endif
