/* What the columns of a CSV file are: whether the first row names them, which one is the label, which are dropped.
 *
 * Options decide; without them the first rows do, and whatever is guessed is told.  A guess that is as likely wrong as
 * right is refused with the option that settles it. */
#ifndef SHOAL_DATA_CSV_LAYOUT_H
#define SHOAL_DATA_CSV_LAYOUT_H
#include "base/str.h"
#include "base/texts.h"
#include "data/csv.h"
#include "data/csv_like.h"
#include "data/dataset.h"
#include <stdint.h>

#define SHOAL_CSV_NO_LABEL SIZE_MAX

/* What a column holds. */
typedef enum {
  SHOAL_CSV_NUMBERS,
  SHOAL_CSV_KINDS, /* words that come again, such as "male" and "female" */
  SHOAL_CSV_NAMES, /* words that hardly do */
  SHOAL_CSV_TEXT,  /* several words each */
  SHOAL_CSV_DATES,
  SHOAL_CSV_TIMES,  /* of day, without a date */
  SHOAL_CSV_SIGNS,  /* numbers with the sign of a currency, percent, or a unit */
  SHOAL_CSV_TRUTH,  /* "yes", "FALSE" */
  SHOAL_CSV_LISTS,  /* numbers between blanks or in brackets */
  SHOAL_CSV_SPLITS, /* which rows are for tests */
  SHOAL_CSV_ONE_HOT /* 1 for the rows of one class, 0 for others, in as many columns as there are classes */
} shoal_csv_holds;

typedef struct {
  const shoal_import_args *args;
  shoal_csv_dialect dialect;
  size_t columns, features,
      label;         /* columns in the file; those that are features; the label's, from 0, or SHOAL_CSV_NO_LABEL */
  bool header, tail; /* the header ends with a separator that the rows do not have; the field behind it is no column */
  char **names;      /* [columns] the header, NULL without */
  bool *dropped;     /* [columns] neither feature nor label: left out, or a target */
  size_t *target;    /* [targets] columns of numbers that are to be predicted */
  size_t targets;
  size_t *place;          /* [columns] number of the feature, of columns that are one */
  bool like;              /* features are those of a model: none may be left out */
  bool *numeric;          /* [columns] half or more of the first rows that have something there have a number */
  shoal_csv_holds *holds; /* [columns] what features hold, by the first rows */
  char **form;            /* [columns] of dates how to read them (csv_date.h), of signs what is beside the numbers, of
                             SHOAL_CSV_SPLITS whose values are truth values what 1 is for; else NULL */
  bool unlabelled;        /* some of the first rows have no label */
  size_t odd;             /* columns that hold something else than numbers */
  shoal_str gaps,         /* "3, 7": columns from 1, with numbers, that have gaps in the first rows */
      words;      /* "; columns 1, 4 hold words: --drop 1 --drop 4 leave them out" if there are several such features */
  char shape[48]; /* "1,48,48" if the only features are lists of as many pixels, else "" */
  shoal_texts warnings;
} shoal_csv_layout;

/** From the first rows of a file, whose n bytes stay as they are.  ERR_IO or ERR_ARG with the option that helps where nothing
 *  can be decided, or where an option does not fit the file.
 *  @param like  the model whose columns are looked for, or NULL
 *  @param decimal  the decimal sign that a later row turned out to have; 0: the first rows decide */
shoal_status shoal_csv_layout_find(const shoal_import_args *a, const shoal_csv_like *like, char decimal,
                                   const char *path, const char *text, size_t n, shoal_csv_layout *out);
/** Adds " --label NAME", or " --target NAME" for each target, of a table with a header. */
void shoal_csv_add_label(const shoal_csv_layout *l, shoal_str *out);
/** Whether a column is a target. */
bool shoal_csv_is_target(const shoal_csv_layout *l, size_t column);
/** The column of a feature. */
size_t shoal_csv_feature_column(const shoal_csv_layout *l, size_t feature);
/** Prints what was understood, and warns of guesses. */
void shoal_csv_layout_tell(const shoal_csv_layout *l, const char *path);
void shoal_csv_layout_fini(shoal_csv_layout *l);
/** "3, \"width\"" or "3": a column for messages */
const char *shoal_csv_column_text(const shoal_csv_layout *l, size_t column, char *buf, size_t cap);
#endif
