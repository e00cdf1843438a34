/* Commands of pandas that make another table of a CSV, where what its fields are to be is known: they keep all other columns as they
 * are written, and never change the table itself.
 *
 * Each is the end of a sentence, "/usr/bin/python3 -c '...' t.csv NEW does", and says what it needs behind that. */
#ifndef SHOAL_DATA_CSV_COMMAND_H
#define SHOAL_DATA_CSV_COMMAND_H
#include "data/csv_layout.h"

/** Gives each number of the lists in fields ("[1 2]", "1 2 3") a column. */
void shoal_csv_command_lists(const shoal_csv_layout *l, const char *path, shoal_str *out);
/** Gives each value of the columns l->few a column of 0 and 1, leaves l->many out, and puts the label last. */
void shoal_csv_command_words(const shoal_csv_layout *l, const char *path, shoal_str *out);
/** Gives each of the 1000 words that most texts of a column have a column of 0 and 1. */
void shoal_csv_command_text(const shoal_csv_layout *l, const char *path, size_t column, shoal_str *out);
/** Writes days since 1970, or hours of times alone, for a column of which `text` is a date: whole numbers where they are whole, else
 *  with the table's decimal sign. */
void shoal_csv_command_dates(const shoal_csv_layout *l, const char *path, size_t column, const char *text,
                             shoal_str *out);
/** " (day and month in the order that all rows fit; ...)" if a command tries both; else "". */
const char *shoal_csv_command_order(const shoal_str *command);

/* What a new table has, or lacks, of a model's features that commands made for its training. */
typedef struct {
  const char *
      words; /* what the names of features made of words begin with, in front of "_", as a list for Python: columns of the
                         table, or others, whose features are 0 where the table lacks them */
  size_t text;        /* the column of which "word_..." were made, or l->columns */
  const char **dates; /* [l->columns] of columns with dates that the model has as numbers one of these, else NULL */
} shoal_csv_known;

/** Makes the features of a model that the commands of words, text and dates made for its training, each by its name, 0 where none of
 *  its value is in the table.  The command warns of words that the model does not know. */
void shoal_csv_command_known(const shoal_csv_layout *l, const char *path, const char *model,
                             const shoal_csv_known *known, shoal_str *out);
/** Leaves out the rows in which a column is empty. */
void shoal_csv_command_filled(const shoal_csv_layout *l, const char *path, size_t column, shoal_str *out);
/** Makes a folder NEW with a table for each word of a column that says which rows are for tests.
 *  @param marks  its values are 1 and 0, or truth values: what 1 stands for, "train" or "test"; else NULL */
void shoal_csv_command_splits(const shoal_csv_layout *l, const char *path, size_t column, const char *marks,
                              shoal_str *out);
#endif
