/* Reader of CSV rows, with the position of every field for error messages, and what a file's first lines say about how
 * it is written: its separator and its encoding.  The signs in numbers are in csv_number.h. */
#ifndef SHOAL_DATA_CSV_H
#define SHOAL_DATA_CSV_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

/* Columns beyond this are refused: a file of commas would otherwise ask for many times its size. */
enum { SHOAL_CSV_COLUMNS = 1 << 20 };

typedef struct {
  char separator; /* between fields: , ; tab | or what the user gave; 0: to be found */
  char decimal;   /* '.' or ','; 0: to be found, and either is read */
  char thousands; /* , . ' or space between groups of three digits; 0: any of them that is not the decimal sign */
  bool stated;    /* the separator is from a first line "sep=;" */
} shoal_csv_dialect;

typedef struct {
  char *text;          /* NUL-terminated, without surrounding blanks and quotes; points into the caller's text */
  size_t line, column; /* from 1; columns count bytes */
} shoal_csv_field;
typedef struct {
  const char *path; /* for messages; borrowed */
  char *at, *end, *line_start;
  shoal_csv_dialect dialect;
  size_t line;
  shoal_csv_field *fields; /* of the current row */
  size_t n, cap;
  size_t blanks, first_blank; /* rows of separators alone that were skipped; line of the first of them */
  size_t empty, first_empty;  /* likewise, lines without anything between two rows */
  size_t waiting;             /* such lines behind the last row so far */
  bool begun;                 /* a row was read */
  size_t first;               /* fields of the first row; 0 before it is read */
} shoal_csv;

/** "UTF-16" and the like, of text with two or four bytes per character: by its byte-order mark, or as half of its bytes are NUL;
 *  else NULL. */
const char *shoal_csv_wide_encoding(const char *text, size_t n);
/** Finds the separator, if it is 0 in `dialect`, from the first lines of a file.
 *
 *  It is the sign that all of these lines have equally often; a first line "sep=;" decides it.  Commas that all are inside
 *  numbers separate no fields if another sign can.
 *
 *  @return ERR_IO naming the cure for UTF-16 and UTF-32, and for two signs that could both be the separator */
shoal_status shoal_csv_find_separator(const char *path, const char *text, size_t n, shoal_csv_dialect *dialect);
/** ERR_IO unless `text` of a table is UTF-8: with its bytes, how WINDOWS-1252 reads them, and the command that converts the file.
 *  @param what  of the table it is, with its place: "t.csv: the name of column 3" */
shoal_status shoal_csv_check_text(const char *path, const char *what, const char *text);
/** "commas", "semicolons, with a decimal comma" */
const char *shoal_csv_dialect_text(const shoal_csv_dialect *d, char *buf, size_t cap);

/** @param text  n bytes followed by a NUL; borrowed and modified: fields are terminated in place.
 *  A byte-order mark and a first line "sep=;" are skipped. */
void shoal_csv_init(shoal_csv *c, const char *path, char *text, size_t n, shoal_csv_dialect dialect);
void shoal_csv_fini(shoal_csv *c);
/** Reads the next row into c->fields; skips empty lines, which are counted where rows are on both sides, and rows without anything between the separators, as spreadsheets
 *  write them, which are counted; sets *end after the last row.  ERR_IO with file:line:column
 *  for an unclosed quote, text after a closing quote, a NUL byte, or more than SHOAL_CSV_COLUMNS fields. */
shoal_status shoal_csv_next(shoal_csv *c, bool *end);
#endif
