/* Commands of pandas that make another table of a CSV, where what its fields are to be is known: they keep all other columns as they
 * are written, and never change the table itself.
 *
 * Each is the end of a sentence, "/usr/bin/python3 -c '...' t.csv NEW does", and says what it needs behind that. */
#ifndef SHOAL_DATA_CSV_COMMAND_H
#define SHOAL_DATA_CSV_COMMAND_H
#include "data/csv_layout.h"

/** What makes numbers of all columns that hold something else by l->holds, as a sentence that ends with a command and the import of what
 *  it makes: "give each value of columns 1, 4 a column of 1 and 0, as python3 ... NEW does, and shoal data import csv NEW ...".  It reads
 *  all files, leaves dropped columns out, and puts the label last; NEW is a table, or a folder with one for each file or part. */
void shoal_csv_explain_command(const shoal_csv_layout *l, shoal_str *out);
/** " (day and month in the order that all rows fit; ...)" if a command tries both; else "". */
const char *shoal_csv_command_order(const shoal_str *command);
/* What a new table has, or lacks, of a model's features that commands made for its training. */
typedef struct {
  const char *
      words; /* what the names of features made of words begin with, in front of "_", as a list for Python: columns of the
                         table, or others, whose features are 0 where the table lacks them */
  const char *texts; /* "1, 4": the columns, from 0, of which "word_..." were made; "" */
  char **
      dates; /* [l->columns] of columns with dates that the model has as numbers how to read them (csv_date.h), else NULL */
} shoal_csv_known;

/** Makes the features of a model that the other command made for its training, each by its name, 0 where none of its value is in the
 *  table.  The command warns of words that the model does not know. */
void shoal_csv_command_known(const shoal_csv_layout *l, const char *path, const char *model,
                             const shoal_csv_known *known, shoal_str *out);
/** Leaves out the rows that have something else than a number, or a mark of a missing value, where the others have numbers. */
void shoal_csv_command_numbers(const shoal_csv_layout *l, const char *path, shoal_str *out);
/** Leaves out the rows in which a column is empty, or with `marks` has a mark of a missing value. */
void shoal_csv_command_filled(const shoal_csv_layout *l, const char *path, size_t column, bool marks, shoal_str *out);
#endif
