/* The rows of CSV files as a table of numbers and labels, in memory: 4 bytes per number and 5 per row.
 *
 * The first file says how all are written and what their columns are; the others must have the same columns.
 *
 * One decimal sign holds for all features.  Most numbers tell which: 0,5 and 1.234,56 have a comma, 0.5 and 1,200,300 a
 * point.  1,200 is 1200 or 1.2.  Between commas it is in quotes, which programs write around thousands; elsewhere some
 * other number of the files must tell, and if none does the import is refused.  If the first number that tells comes late
 * and contradicts the first rows, all is read again by its sign. */
#ifndef SHOAL_DATA_CSV_TABLE_H
#define SHOAL_DATA_CSV_TABLE_H
#include "data/csv_classes.h"
#include "data/csv_layout.h"
#include "data/csv_number.h"
#include "data/narrow.h"
#include <stdint.h>

/* A number that shows the decimal sign, or could have either. */
typedef struct {
  const char *path; /* NULL: none was found */
  char text[48];
  size_t line, at, column;
  shoal_csv_tells tells;
  double values[2]; /* by point and by comma */
} shoal_csv_witness;

typedef struct {
  const shoal_import_args *args;
  const shoal_csv_like *like;     /* or NULL */
  shoal_csv_witness proof, doubt; /* the first number that tells the decimal sign; the first that can be two numbers */
  bool read_again;                /* the proof contradicts how the rows before it were read */
  char *thousands;                /* [features] the sign between groups of digits, or 0 */
  shoal_csv_layout layout;
  shoal_shape sample; /* [features], or of pixels [c, h, w] */
  shoal_csv_classes classes;
  shoal_narrow narrow;
  float *x;       /* [rows, features] */
  double *target; /* [rows, targets] */
  int32_t *y;     /* [rows] index into classes.all; after map_labels the class */
  uint8_t *test;  /* [rows] */
  size_t rows, cap;
  size_t *from;                  /* [columns] where the current file has each column; NULL: in the same place */
  size_t file_rows;              /* rows before those of the current file */
  size_t headers, repeated_line; /* rows of the current file that repeat the header; line of the first of them */
  struct {
    size_t beyond; /* of the fields, numbers that no 32-bit float can hold; the first of them */
    char first[512];
    size_t fields, rows; /* of all files: fields without a value, NaN in x until they are filled, and rows with some */
    const char *path;    /* of the first, or NULL */
    size_t line, column;
    size_t *by_feature;     /* [features] fields */
    shoal_csv_classes lost; /* labels of rows that are left out, and how often each is */
  } gaps;
  struct {
    size_t bytes;
    uint32_t crc;
  } * sources; /* [n_sources] what each holds */
} shoal_csv_table;

/** Reads all rows of all files, prints what was understood of each with its first and last row, and warns of rows that are left
 *  out.  `t` holds the arguments and else zeros; test [sources] says which are for tests.  ERR_IO with file, line and column of what
 *  cannot be read, and the cure. */
shoal_status shoal_csv_table_read(shoal_csv_table *t, const bool *test);
/** Fills what is missing with the mean of its column over the training split, or of the model, if --missing says so, and tells. */
shoal_status shoal_csv_table_mend(shoal_csv_table *t);
void shoal_csv_table_fini(shoal_csv_table *t);
/** "column 3, \"width\"" of a feature; `layout` is a shoal_csv_layout. */
const char *shoal_csv_feature_text(const void *layout, size_t feature, char *buf, size_t cap);

/* ---- what is wrong with a row (csv_refuse.c); both read on, to see what follows ---- */
bool shoal_csv_signs_given(const shoal_csv_table *t); /* options say what the signs in numbers mean */
/** ERR_IO for field i, which is none that a feature can have; `number`: but a number.  Sets read_again if that would help. */
shoal_status shoal_csv_refuse_field(shoal_csv_table *t, shoal_csv *c, size_t i, bool number);
/** ERR_IO for a row that has another number of fields than the first one. */
shoal_status shoal_csv_refuse_row(const shoal_csv_table *t, shoal_csv *c);
#endif
