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
/** Writes days since 1970, or hours of times alone, for a column of which `text` is a date. */
void shoal_csv_command_dates(const shoal_csv_layout *l, const char *path, size_t column, const char *text,
                             shoal_str *out);
/** Makes the features that a model has of columns with words, as the two commands above made them for its training: those whose names
 *  begin with the column's, and "word_..." of a text.  @param columns  their names, as a list for Python; `text` the column with
 *  the text, or columns */
void shoal_csv_command_known(const shoal_csv_layout *l, const char *path, const char *model, const char *columns,
                             size_t text, shoal_str *out);
/** Leaves out the rows in which a column is empty. */
void shoal_csv_command_filled(const shoal_csv_layout *l, const char *path, size_t column, shoal_str *out);
/** Makes a folder NEW with a table for each word of a column that says which rows are for tests.
 *  @param marks  its values are 1 and 0, or truth values: what 1 stands for, "train" or "test"; else NULL */
void shoal_csv_command_splits(const shoal_csv_layout *l, const char *path, size_t column, const char *marks,
                              shoal_str *out);
#endif
