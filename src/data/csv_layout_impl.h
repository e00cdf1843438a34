/* What the files that find the columns of a table share: its first rows, and what is known of each column from them. */
#ifndef SHOAL_DATA_CSV_LAYOUT_IMPL_H
#define SHOAL_DATA_CSV_LAYOUT_IMPL_H
#include "data/csv_layout.h"

typedef struct {
  const shoal_import_args *args;
  const shoal_csv_like *like; /* or NULL */
  const char *path;
  char *text;
  const char **cells; /* [rows, columns] */
  size_t rows, columns;
  size_t head; /* rows from the first on without a gap; those behind have values in columns that have none in these */
  bool tail;   /* the header ends with a separator, the rows do not */
  size_t *numbers, *blanks; /* [columns] cells of that kind below the first row */
} shoal_csv_probe;

/* ---- csv_probe.c: the first rows ---- */
/** Reads the first rows of a file's n bytes, by the signs of l->dialect.  ERR_IO if there are none.  Closed by the caller, also
 *  after an error. */
shoal_status shoal_csv_probe_open(shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t n);
void shoal_csv_probe_close(shoal_csv_probe *p);
const char *shoal_csv_cell(const shoal_csv_probe *p, size_t row, size_t column);
bool shoal_csv_is_number(const shoal_csv_layout *l, const char *text);
/** In single quotes, which are refused as what they are. */
bool shoal_csv_is_quoted_number(const char *text);
/** Whether the cells of a column count up by one, below the header or from where the first row does. */
bool shoal_csv_counts_rows(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column);
/** Whether a column below the header has whole numbers of which no two are equal: a row number, perhaps after shuffling. */
shoal_status shoal_csv_numbers_rows(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column, bool *out);
/** "label", "class", "target" and their plurals. */
bool shoal_csv_is_label_name(const char *name);

/* ---- csv_header.c ---- */
/** Whether the first row is the header; copies it to l->names.  ERR_IO where that cannot be told. */
shoal_status shoal_csv_find_header(const shoal_csv_probe *p, shoal_csv_layout *l);

/* ---- csv_layout.c ---- */
/** Names of columns that are features, label or target are UTF-8: other programs write the same ones so. */
shoal_status shoal_csv_check_names(const shoal_csv_probe *p, const shoal_csv_layout *l);
/** The column that an option names: by its name in the header, else by its number from 1. */
shoal_status shoal_csv_find_column(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *option,
                                   const char *name, size_t *out);
/** Without --label: the one column that is called label, class or target, else the last that is not dropped. */
shoal_status shoal_csv_guess_label(const shoal_csv_probe *p, shoal_csv_layout *l);

/* ---- csv_words.c ---- */
/** How to read the fields of a column that has dates alone, and gaps (csv_date.h); else NULL.  The caller frees it. */
char *shoal_csv_find_dates(const shoal_csv_probe *p, size_t column);
/** Whether most cells of a column below the first have `least` words or more. */
bool shoal_csv_are_texts(const shoal_csv_probe *p, size_t column, size_t least);
/** Finds what features hold, in l->holds and l->form, unless that is known. */
void shoal_csv_look_at_columns(const shoal_csv_probe *p, shoal_csv_layout *l);

/* ---- csv_roles.c ---- */
/** Looks at all features (csv_words.c), and refuses columns that say which rows are for tests, and labels in several columns, with the
 *  command that mends them and all other columns.  ERR_IO. */
shoal_status shoal_csv_find_roles(const shoal_csv_probe *p, shoal_csv_layout *l);

/* ---- csv_single.c ---- */
/** ERR_IO if the first row has one column, with what the n bytes of the file may be instead of a table. */
shoal_status shoal_csv_check_columns(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t n);

/* ---- csv_known.c ---- */
/** Finds the columns of the model p->like, and a label or targets if the table has them.  ERR_ARG with what it lacks. */
shoal_status shoal_csv_find_known(const shoal_csv_probe *p, shoal_csv_layout *l);
#endif
