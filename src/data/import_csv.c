/* Tables: one column is the label, all others that are not dropped are features (csv_layout.h); labels become classes
 * (csv_classes.h).
 *
 * The first file says how all are written and what their columns are; the others must have the same columns.  What was
 * understood is printed, with the first and the last row, so that a mistake is noticed.  The table is kept in memory
 * during the import: 4 bytes per number and 5 per row.
 *
 * One decimal sign holds for all features.  Most numbers tell which: 0,5 and 1.234,56 have a comma, 0.5 and 1,200,300 a
 * point.  1,200 is 1200 or 1.2.  Between commas it is in quotes, which programs write around thousands; elsewhere some
 * other number of the files must tell, and if none does the import is refused.  If the first number that tells comes late
 * and contradicts the first rows, all is read again by its sign. */
#include "base/error.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_classes.h"
#include "data/csv_field.h"
#include "data/csv_layout.h"
#include "data/csv_number.h"
#include "data/data_impl.h"
#include "data/narrow.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6, MOST_COMPARED = 1000 };

/* A number that shows the decimal sign, or could have either. */
typedef struct {
  const char *path; /* NULL: none was found */
  char text[48];
  size_t line, at, column;
  shoal_csv_tells tells;
  double values[2]; /* by point and by comma */
} witness;

typedef struct {
  const shoal_import_args *args;
  witness proof, doubt; /* the first number that tells the decimal sign; the first that can be two numbers */
  bool read_again;      /* the proof contradicts how the rows before it were read */
  char *thousands;      /* [features] the sign between groups of digits, or 0 */
  shoal_csv_layout layout;
  shoal_csv_classes classes;
  shoal_narrow narrow;
  float *x;      /* [rows, features] */
  int32_t *y;    /* [rows] index into classes.all; after map_labels the class */
  uint8_t *test; /* [rows] */
  size_t rows, cap;
  size_t file_rows;              /* rows before those of the current file */
  size_t headers, repeated_line; /* rows of the current file that repeat the header; line of the first of them */
  struct {
    size_t fields, rows; /* of all files: fields without a value, NaN in x until they are filled, and rows with some */
    const char *path;    /* of the first, or NULL */
    size_t line, column;
  } gaps;
} table;

static const char *column_text(const void *layout, size_t feature, char *buf, size_t cap)
{
  const shoal_csv_layout *l = layout;
  size_t i = 0;
  char text[80];
  for (;; i++) {
    if (i == l->label || l->dropped[i]) continue;
    if (feature-- == 0) break;
  }
  snprintf(buf, cap, "column %s", shoal_csv_column_text(l, i, text, sizeof text));
  return buf;
}

/* ---- rows ---- */

static shoal_status make_room(table *t)
{
  if (t->rows < t->cap) return SHOAL_OK;
  size_t cap = t->cap ? t->cap + t->cap / 2 : 1024, row = t->layout.features * sizeof *t->x;
  SHOAL_TRY(shoal_limit_memory(t->args->sources[0], "the table", cap, row + sizeof *t->y + 1));
  float *x = realloc(t->x, cap * row);
  if (x) t->x = x;
  int32_t *y = realloc(t->y, cap * sizeof *y);
  if (y) t->y = y;
  uint8_t *test = realloc(t->test, cap);
  if (test) t->test = test;
  SHOAL_CHECK(x && y && test, SHOAL_ERR_MEM, "out of memory for a table of %zu rows and %zu columns", cap,
              t->layout.columns);
  t->cap = cap;
  return SHOAL_OK;
}

static bool signs_given(const table *t)
{
  return t->args->decimal || t->args->thousands;
}

/* Remembers what a field says about the decimal sign, while nothing is known of it. */
static void look_for_proof(table *t, const shoal_csv *c, size_t column)
{
  const shoal_csv_field *f = &c->fields[column];
  witness w = { .path = c->path, .line = f->line, .at = f->column, .column = column };
  w.tells = shoal_csv_tells_decimal(&t->layout.dialect, f->text, w.values);
  if (w.tells == SHOAL_CSV_NEITHER) return;
  snprintf(w.text, sizeof w.text, "%.40s", f->text);
  bool doubtful = t->layout.dialect.separator != ',' && strchr(f->text, ',');
  if (w.tells != SHOAL_CSV_EITHER)
    t->proof = w;
  else if (doubtful && !t->doubt.path)
    t->doubt = w;
}

/* A field that has the other decimal sign than the rest. */
static shoal_status refuse_sign(const table *t, const shoal_csv *c, const shoal_csv_field *f, const char *column)
{
  const char *other = shoal_csv_sign_name(t->layout.dialect.decimal == '.' ? ',' : '.');
  if (signs_given(t))
    return SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s:%zu:%zu: \"%.40s\" in column %s has a decimal %s, which %s excludes: leave that out", c->path,
                      f->line, f->column, f->text, column, other, t->args->decimal ? "--decimal" : "--thousands");
  const size_t here = (size_t)(f - c->fields), there = t->proof.column;
  char drop[64] = "";
  if (here != there)
    snprintf(drop, sizeof drop, ", or leave one column out with --drop %zu or %zu", here + 1, there + 1);
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s:%zu:%zu: \"%.40s\" in column %s has a decimal %s, but \"%s\" at %s:%zu:%zu has not: write all "
                    "numbers alike%s",
                    c->path, f->line, f->column, f->text, column, other, t->proof.text, t->proof.path, t->proof.line,
                    t->proof.at, drop);
}

/* A row of words below the header, above numbers: mostly units. */
static bool is_second_header(const table *t, const shoal_csv *c, size_t column)
{
  const shoal_csv_layout *l = &t->layout;
  double unused;
  if (!l->header || t->rows > t->file_rows || l->features < 2 || !l->numeric[column]) return false;
  for (size_t i = 0; i < c->n; i++)
    if (i != l->label && !l->dropped[i] && shoal_csv_number(&l->dialect, c->fields[i].text, &unused, NULL))
      return false;
  return true;
}

static shoal_status refuse_field(table *t, const shoal_csv *c, size_t i, bool number, double v)
{
  const shoal_csv_field *f = &c->fields[i];
  char column[96], shown[48];
  shoal_csv_column_text(&t->layout, i, column, sizeof column);
  shoal_csv_tells tells = number ? SHOAL_CSV_NEITHER : shoal_csv_tells_decimal(&t->layout.dialect, f->text, NULL);
  t->read_again = tells != SHOAL_CSV_NEITHER && !signs_given(t) && t->proof.tells == tells;
  if (tells != SHOAL_CSV_NEITHER) return refuse_sign(t, c, f, column);
  const size_t n = strlen(f->text);
  char word[256];
  SHOAL_CHECK(
      n < 2 || f->text[0] != '\'' || f->text[n - 1] != '\'', SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s is in single quotes, which are no quotes in a CSV: write double ones, as tr "
      "\"'\" '\"' <%s >NEW does",
      c->path, f->line, f->column, shoal_show(f->text, shown, sizeof shown), column,
      shoal_shell_word(c->path, "FILE", word, sizeof word));
  SHOAL_CHECK(
      !is_second_header(t, c, i), SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s is not a number, and no other field of this row is one: if it is a second "
      "header or has the units, remove it, as sed %zud %s >NEW does",
      c->path, f->line, f->column, shoal_show(f->text, shown, sizeof shown), column, c->fields[0].line,
      shoal_shell_word(c->path, "FILE", word, sizeof word));
  char reason[SHOAL_CSV_REASON];
  const shoal_csv_wrong wrong = { c->path, f->text, i, number, v };
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: \"%s\" in column %s %s", c->path, f->line, f->column,
                    shoal_show(f->text, shown, sizeof shown), column,
                    shoal_csv_why_not(&t->layout, !t->args->label, &wrong, reason));
}

static void note_gap(table *t, const shoal_csv *c, size_t column)
{
  if (t->gaps.fields++ > 0) return;
  t->gaps.path = c->path;
  t->gaps.line = c->fields[column].line;
  t->gaps.column = column;
}

static shoal_status read_feature(table *t, const shoal_csv *c, size_t i, size_t feature, float *out)
{
  double v = 0;
  char thousands;
  const char *text = c->fields[i].text;
  if (t->args->missing && (!text[0] || shoal_csv_marks_gap(text))) {
    note_gap(t, c, i);
    *out = NAN;
    return SHOAL_OK;
  }
  bool number = shoal_csv_number(&t->layout.dialect, c->fields[i].text, &v, &thousands);
  if (!t->proof.path) look_for_proof(t, c, i);
  if (!number || !isfinite((float)v)) return refuse_field(t, c, i, number, v);
  if (thousands) t->thousands[feature] = thousands;
  *out = shoal_narrow_convert(&t->narrow, feature, v);
  return SHOAL_OK;
}

/* Whether a row is the header of the other files without the label, as those have it whose labels are kept secret. */
static bool lacks_label(const shoal_csv_layout *l, const shoal_csv *c)
{
  if (!l->header || c->fields[0].line > 1 || c->n + 1 != l->columns) return false;
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->fields[i].text, l->names[i + (i >= l->label)]) != 0) return false;
  return true;
}

/* The sign that would make as many fields of a row that has none of its own, or 0. */
static char other_separator(const shoal_csv_layout *l, const char *row)
{
  static const char signs[] = ",;\t|";
  for (const char *s = signs; *s; s++) {
    size_t n = 1;
    for (const char *at = row; *at; at++) n += *at == *s;
    if (n == l->columns && *s != l->dialect.separator) return *s;
  }
  return '\0';
}

/* A row that has another number of fields than the first one. */
static shoal_status refuse_row(const table *t, const shoal_csv *c)
{
  const shoal_csv_layout *l = &t->layout;
  const shoal_csv_field *first = &c->fields[0], *last = &c->fields[c->n - 1];
  const bool own = c->path == t->args->sources[0];
  const bool comment = first->text[0] == '#', headed = l->header && l->names[0][0] == '#';
  char word[256], cure[512], shown[64];
  const char *file = shoal_shell_word(headed ? t->args->sources[0] : c->path, "FILE", word, sizeof word);
  if (lacks_label(l, c))
    snprintf(cure, sizeof cure, "the label, \"%.60s\", is missing: nothing can be tested without, leave the file out",
             shoal_show(l->names[l->label], shown, sizeof shown));
  else if (comment || headed)
    snprintf(cure, sizeof cure, "lines with # are no comments here: remove them, as grep -v '^#' %s >NEW does", file);
  else if (c->n == l->columns + 1 && !last->text[0])
    snprintf(cure, sizeof cure, "it ends with a separator: remove these, as sed 's/%c[[:space:]]*$//' %s >NEW does",
             l->dialect.separator, file);
  else if (c->n == 1 && l->columns > 1 && other_separator(l, first->text))
    snprintf(cure, sizeof cure,
             "it has another separator than the others: write all alike, as sed '%zus/%s/%s/g' %s >NEW does",
             first->line,
             other_separator(l, first->text) == '\t' ? "\\t" : (char[]){ other_separator(l, first->text), '\0' },
             l->dialect.separator == '\t' ? "\\t" : (char[]){ l->dialect.separator, '\0' }, file);
  else if (c->n == 1 && strchr(first->text, l->dialect.separator))
    snprintf(cure, sizeof cure, "it is in quotes as a whole: remove these");
  else
    snprintf(cure, sizeof cure, "%s",
             c->n > l->columns ? "put a field that holds the separator in double quotes, or correct the row"
                               : "correct the row, or remove it");
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: this row has %zu field%s, the first row%s%s has %zu; %s", c->path,
                    last->line, last->column, c->n, c->n == 1 ? "" : "s", own ? "" : " of ",
                    own ? "" : t->args->sources[0], l->columns, cure);
}

static shoal_status add_row(table *t, const shoal_csv *c, bool test)
{
  const shoal_csv_layout *l = &t->layout;
  const shoal_csv_field *label = &c->fields[l->label];
  if (c->n != l->columns) return refuse_row(t, c);
  SHOAL_TRY(make_room(t));
  float *x = t->x + t->rows * l->features;
  const size_t gaps = t->gaps.fields;
  for (size_t i = 0, feature = 0; i < l->columns; i++)
    if (i != l->label && !l->dropped[i]) {
      SHOAL_TRY(read_feature(t, c, i, feature, &x[feature]));
      feature++;
    }
  if (t->gaps.fields > gaps) {
    t->gaps.rows++;
    if (strcmp(t->args->missing, "drop") == 0) return SHOAL_OK;
  }
  SHOAL_CHECK(label->text[0], SHOAL_ERR_IO,
              "%s:%zu:%zu: the label is empty (column %zu): remove the row, or name the right "
              "column with --label",
              c->path, label->line, label->column, l->label + 1);
  SHOAL_TRY(shoal_csv_classes_add(&t->classes, c->path, label, &t->y[t->rows]));
  t->test[t->rows++] = test;
  return SHOAL_OK;
}

/* Whether the first row of another file is the header again.  A header with other columns is an error. */
static shoal_status repeats_header(const table *t, const shoal_csv *c, bool *header)
{
  const shoal_csv_layout *l = &t->layout;
  const shoal_csv_field *f = &c->fields[0];
  size_t equal = 0, known = 0;
  *header = false;
  if (!l->header || c->n != l->columns) return SHOAL_OK; /* add_row says what is wrong with the number of fields */
  for (size_t i = 0; i < l->columns; i++) {
    bool found = false;
    for (size_t k = 0; k < l->columns && l->columns <= MOST_COMPARED && !found; k++)
      found = strcmp(c->fields[i].text, l->names[k]) == 0;
    known += found;
    if (strcmp(c->fields[i].text, l->names[i]) == 0)
      equal++;
    else
      f = &c->fields[i];
  }
  *header = equal == l->columns;
  char here[48], there[48];
  SHOAL_CHECK(*header || 2 * SHOAL_MAX(equal, known) < l->columns, SHOAL_ERR_IO,
              "%s:%zu:%zu: this header has \"%s\" as column %zu, that of %s has \"%s\"; the files must have the same "
              "columns in the same order",
              c->path, f->line, f->column, shoal_show(f->text, here, sizeof here), (size_t)(f - c->fields) + 1,
              t->args->sources[0], shoal_show(l->names[f - c->fields], there, sizeof there));
  return SHOAL_OK;
}

static void show_row(const table *t, const char *which, const char *path, size_t row)
{
  const float *x = t->x + row * t->layout.features;
  char label[48];
  shoal_str s = { 0 };
  for (size_t i = 0; i < SHOAL_MIN(t->layout.features, (size_t)SHOWN); i++) shoal_str_add(&s, "%.7g ", x[i]);
  shoal_info("%s: %s row: %s%s-> %s", path, which, s.text, t->layout.features > SHOWN ? "... " : "",
             shoal_show(t->classes.all[t->y[row]].text, label, sizeof label));
  shoal_str_free(&s);
}

/* A row further down that is the header once more, as in files that were joined.  One of numbers alone may be a sample. */
static bool is_header_again(const table *t, const shoal_csv *c)
{
  const shoal_csv_layout *l = &t->layout;
  double unused;
  bool words = false;
  if (!l->header || c->n != l->columns) return false;
  for (size_t i = 0; i < l->columns; i++) {
    if (strcmp(c->fields[i].text, l->names[i]) != 0) return false;
    words |= i != l->label && !l->dropped[i] && !shoal_csv_number(&l->dialect, l->names[i], &unused, NULL);
  }
  return words;
}

static shoal_status read_rows(table *t, shoal_csv *c, bool first, bool test)
{
  bool end, header = first && t->layout.header;
  t->file_rows = t->rows;
  t->headers = 0;
  SHOAL_TRY(shoal_csv_next(c, &end));
  if (!end && !first) SHOAL_TRY(repeats_header(t, c, &header));
  while (!end) {
    if (!header && is_header_again(t, c)) {
      if (t->headers++ == 0) t->repeated_line = c->fields[0].line;
      header = true;
    }
    if (!header) SHOAL_TRY(add_row(t, c, test));
    header = false;
    SHOAL_TRY(shoal_csv_next(c, &end));
  }
  return SHOAL_OK;
}

/* Rows that are no samples. */
static void warn_left_out(const table *t, const shoal_csv *c)
{
  if (c->blanks)
    shoal_warn("%s:%zu: %zu row%s of separators alone %s left out", c->path, c->first_blank, c->blanks,
               c->blanks > 1 ? "s" : "", c->blanks > 1 ? "are" : "is");
  if (t->headers)
    shoal_warn("%s:%zu: %zu row%s the header and %s left out: was the file joined of several?", c->path,
               t->repeated_line, t->headers, t->headers > 1 ? "s repeat" : " repeats", t->headers > 1 ? "are" : "is");
}

static shoal_status find_layout(table *t, const char *text, size_t n)
{
  const char signs[] = { '\0', '.', ',' };
  SHOAL_TRY(shoal_csv_layout_find(t->args, signs[t->proof.tells], t->args->sources[0], text, n, &t->layout));
  SHOAL_TRY(shoal_narrow_init(&t->narrow, t->layout.features));
  return SHOAL_ALLOC(t->layout.features, &t->thousands);
}

static shoal_status read_file(table *t, size_t source, bool test)
{
  const char *path = t->args->sources[source];
  size_t n, before = t->rows;
  char *text;
  shoal_csv c = { 0 };
  SHOAL_TRY(shoal_source_slurp(path, &text, &n));
  shoal_status st = SHOAL_OK;
  if (source == 0) SHOAL_TRY_GOTO(st, find_layout(t, text, n), done);
  shoal_csv_init(&c, path, text, n, t->layout.dialect);
  st = read_rows(t, &c, source == 0, test);
  if (source == 0 && !t->read_again) shoal_csv_layout_tell(&t->layout, path);
  if (st != SHOAL_OK) goto done;
  SHOAL_CHECK_GOTO(st, t->rows > before, done, SHOAL_ERR_IO, "%s is empty: no rows with data%s%s", path,
                   t->gaps.rows ? ", without those in which a value is missing" : "",
                   source == 0 && t->layout.header && !t->args->header && !t->gaps.rows
                       ? " below its header; if it has none, give --header no"
                       : "");
  warn_left_out(t, &c);
  show_row(t, "first", path, before);
  show_row(t, "last", path, t->rows - 1);
done:
  shoal_csv_fini(&c);
  free(text);
  return st;
}

static void forget_rows(table *t)
{
  shoal_csv_layout_fini(&t->layout);
  shoal_csv_classes_fini(&t->classes);
  shoal_narrow_fini(&t->narrow);
  free(t->thousands);
  free(t->x);
  free(t->y);
  free(t->test);
  *t = (table){ .args = t->args, .proof = t->proof };
}

static shoal_status read_files(table *t, const shoal_import_roles *roles)
{
  for (size_t i = 0; i < t->args->n_sources; i++) SHOAL_TRY(read_file(t, i, roles->test[i]));
  return SHOAL_OK;
}

/* All rows of all files, by one decimal sign. */
static shoal_status read_table(table *t, const shoal_import_roles *roles)
{
  char column[96];
  shoal_error contradiction;
  shoal_status st = read_files(t, roles);
  if (t->read_again) {
    shoal_error_take(&contradiction);
    forget_rows(t);
    shoal_info("%s:%zu:%zu: \"%s\" has a decimal %s: all is read so", t->proof.path, t->proof.line, t->proof.at,
               t->proof.text, shoal_csv_sign_name(t->proof.tells == SHOAL_CSV_COMMA ? ',' : '.'));
    st = read_files(t, roles);
  }
  SHOAL_TRY(st);
  const witness *d = &t->doubt;
  SHOAL_CHECK(
      !d->path || t->proof.path || signs_given(t), SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s can be %.10g or %.10g, and no other number tells: give --thousands , for the "
      "first, --decimal , for the second",
      d->path, d->line, d->at, d->text, shoal_csv_column_text(&t->layout, d->column, column, sizeof column),
      d->values[0], d->values[1]);
  return SHOAL_OK;
}

/* ---- the data set ---- */

static void tell_thousands(const table *t)
{
  size_t found = 0;
  char text[96];
  for (size_t i = 0; i < t->layout.features; i++)
    if (t->thousands[i] && found++ < SHOWN)
      shoal_info("%s: %s: thousands separator %s", t->args->sources[0], column_text(&t->layout, i, text, sizeof text),
                 t->thousands[i] == ' ' ? "space" : (char[]){ t->thousands[i], '\0' });
  if (found > SHOWN) shoal_info("%s: and in %zu more columns", t->args->sources[0], found - SHOWN);
}

/* Columns in front of the label that hold one 1 in every row together with it, and else 0: classes one-hot, of which the last
 * column was taken for the label, and the others tell it.  Returns how many there are, 0 for none. */
static size_t find_one_hot(const table *t, uint8_t *ones)
{
  const shoal_csv_layout *l = &t->layout;
  size_t before = 0;
  for (size_t i = 0; i < l->label; i++) before += !l->dropped[i];
  for (size_t i = 0; i < t->rows; i++) ones[i] = (uint8_t)(t->y[i] == 1);
  for (size_t width = 1; width <= before; width++) {
    bool one = true;
    for (size_t i = 0; i < t->rows; i++) {
      const float x = t->x[i * l->features + before - width];
      if (x != 0 && (x != 1 || ones[i])) return 0;
      ones[i] |= x == 1;
      one &= ones[i];
    }
    if (one && width > 1) return width;
  }
  return 0;
}

static shoal_status warn_of_one_hot(const table *t)
{
  uint8_t *ones;
  char text[80];
  if (t->classes.classes != 2 || t->classes.names.len) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(t->rows, &ones));
  const size_t width = find_one_hot(t, ones);
  free(ones);
  if (width)
    shoal_warn(
        "%s: column %s and the %zu before it hold one 1 in every row: if they are classes one-hot, make one column "
        "of class numbers of them, for the others tell the label",
        t->args->sources[0], shoal_csv_column_text(&t->layout, t->layout.label, text, sizeof text), width);
  return SHOAL_OK;
}

/* "labels become classes 0 to 99 in sorted order: a, b, c, d, e, f, ... (100 in all)" */
static void tell_classes(const table *t)
{
  char name[48];
  size_t shown = 0;
  shoal_str s = { 0 };
  for (const char *at = t->classes.names.text; *at && shown < SHOWN; shown++) {
    const size_t n = strcspn(at, "\n");
    char *one = shoal_strdup_printf("%.*s", (int)SHOAL_MIN(n, sizeof name - 1), at);
    shoal_str_add(&s, "%s%s", shown ? ", " : "", shoal_show(one, name, sizeof name));
    free(one);
    at += n + (at[n] == '\n');
  }
  if (t->classes.classes > SHOWN) shoal_str_add(&s, ", ... (%" PRId32 " in all)", t->classes.classes);
  shoal_info("labels become classes 0 to %" PRId32 " in sorted order: %s", t->classes.classes - 1, s.text);
  shoal_str_free(&s);
}

static shoal_status map_labels(table *t)
{
  char column[80];
  shoal_csv_column_text(&t->layout, t->layout.label, column, sizeof column);
  SHOAL_TRY(shoal_csv_classes_finish(&t->classes, &t->layout.dialect, t->args->sources[0], column));
  for (size_t i = 0; i < t->rows; i++) t->y[i] = t->classes.all[t->y[i]].rank;
  if (t->classes.names.len)
    tell_classes(t);
  else
    shoal_info("labels are classes 0 to %" PRId32, t->classes.classes - 1);
  return SHOAL_OK;
}

/* Fills what is missing with the mean of its column over the training split. */
static shoal_status fill_gaps(table *t)
{
  const size_t features = t->layout.features;
  char text[96];
  for (size_t k = 0; k < features; k++) {
    double sum = 0, n = 0;
    size_t gaps = 0;
    for (size_t i = 0; i < t->rows; i++) {
      const float v = t->x[i * features + k];
      gaps += isnan(v);
      if (isnan(v) || t->test[i]) continue;
      sum += v;
      n++;
    }
    if (!gaps) continue;
    SHOAL_CHECK(n > 0, SHOAL_ERR_IO, "%s: %s has no value in the training split: %s", t->args->sources[0],
                column_text(&t->layout, k, text, sizeof text),
                features > 1 ? "leave it out with --drop" : "there is nothing to learn from");
    for (size_t i = 0; i < t->rows; i++)
      if (isnan(t->x[i * features + k])) t->x[i * features + k] = (float)(sum / n);
  }
  return SHOAL_OK;
}

static shoal_status mend_gaps(table *t)
{
  const bool drops = t->args->missing && strcmp(t->args->missing, "drop") == 0;
  char text[80];
  if (t->args->missing && !t->gaps.fields)
    shoal_info("%s: no value is missing; --missing does nothing", t->args->sources[0]);
  if (!t->gaps.fields) return SHOAL_OK;
  shoal_csv_column_text(&t->layout, t->gaps.column, text, sizeof text);
  shoal_info("%s:%zu: column %s has no value, the first of %zu such fields in %zu rows: %s", t->gaps.path, t->gaps.line,
             text, t->gaps.fields, t->gaps.rows,
             drops ? "these rows are left out" : "filled with the mean of their column in the training split");
  return drops ? SHOAL_OK : fill_gaps(t);
}

static shoal_status write_table(const table *t, const char *out_path)
{
  char source[256];
  size_t features = t->layout.features;
  shoal_data_writer *w;
  shoal_import_source_text(t->args, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_FEATURES, SHOAL_SHAPE((int64_t)features), 4, source };
  SHOAL_TRY(shoal_data_expect(out_path, &spec, t->rows));
  SHOAL_TRY(shoal_data_writer_create(out_path, &spec, &w));
  shoal_status st = SHOAL_OK;
  for (size_t i = 0, n; i < t->rows && st == SHOAL_OK; i += n) { /* runs of rows of one split */
    for (n = 1; i + n < t->rows && t->test[i + n] == t->test[i];) n++;
    st = shoal_data_writer_add(w, t->test[i] ? SHOAL_TEST : SHOAL_TRAIN, n, t->x + i * features, t->y + i);
  }
  if (st == SHOAL_OK)
    st = shoal_data_writer_commit(w, t->classes.classes, t->classes.names.len ? t->classes.names.text : NULL);
  shoal_data_writer_destroy(w);
  return st;
}

static shoal_status import_all(const shoal_import_args *a, const char *out_path)
{
  table t = { .args = a };
  shoal_import_roles roles = { 0 };
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, read_table(&t, &roles), done);
  tell_thousands(&t);
  shoal_narrow_warn(&t.narrow, a->sources[0], column_text, &t.layout);
  SHOAL_TRY_GOTO(st, map_labels(&t), done);
  SHOAL_TRY_GOTO(st, warn_of_one_hot(&t), done);
  if (!roles.by_name) SHOAL_TRY_GOTO(st, shoal_import_split(a, t.rows, t.y, t.test), done);
  SHOAL_TRY_GOTO(st, mend_gaps(&t), done);
  st = write_table(&t, out_path);
done:
  shoal_import_roles_fini(&roles);
  forget_rows(&t);
  return st;
}

/* ---- parts without rows ---- */

/* The first line of a file, "" if it has none, and whether another one with something on it follows.  Caller frees. */
static shoal_status read_first_line(const char *path, char **line, bool *more)
{
  enum { MOST = 1 << 16 };
  static const char blanks[] = " \t\r\n";
  shoal_source *s;
  size_t n = 0;
  char *text;
  SHOAL_TRY(SHOAL_ALLOC(MOST + 1, &text));
  shoal_status st = shoal_source_open(path, &s);
  if (st == SHOAL_OK) {
    st = shoal_source_read(s, text, MOST, &n);
    shoal_source_close(s);
  }
  text[st == SHOAL_OK ? n : 0] = '\0';
  const size_t from = strspn(text, blanks), end = from + strcspn(text + from, "\r\n");
  *more = n == MOST || strlen(text) < n || text[end + strspn(text + end, blanks)] != '\0';
  text[end] = '\0';
  memmove(text, text + from, end - from + 1);
  *line = text;
  return st;
}

/* Of several files those that are empty, or have the header of another one alone, as writers of parts leave them: marked in out
 * [n_sources], and told. */
static shoal_status find_empty(const shoal_import_args *a, bool *out)
{
  const size_t n = a->n_sources;
  char **lines = NULL;
  bool *more = NULL;
  size_t found = 0, first = 0;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &lines), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &more), done);
  for (size_t i = 0; i < n; i++) SHOAL_TRY_GOTO(st, read_first_line(a->sources[i], &lines[i], &more[i]), done);
  for (size_t i = 0; i < n; i++) {
    out[i] = !more[i] && !lines[i][0];
    for (size_t k = 0; k < n && !more[i] && !out[i]; k++) out[i] = more[k] && strcmp(lines[i], lines[k]) == 0;
    if (out[i] && found++ == 0) first = i;
  }
  if (found == n)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s and the %zu other files are empty: no rows with data", a->sources[0], n - 1);
  else if (found > 1)
    shoal_warn("%s and %zu more of the %zu files have no rows with data, and are left out", a->sources[first],
               found - 1, n);
  else if (found)
    shoal_warn("%s has no rows with data, and is left out", a->sources[first]);
done:
  for (size_t i = 0; lines && i < n; i++) free(lines[i]);
  free(lines);
  free(more);
  return st;
}

shoal_status shoal_import_csv(const shoal_import_args *a, const char *out_path)
{
  shoal_import_args kept = *a;
  const char **sources = NULL;
  bool *empty = NULL;
  shoal_status st;
  if (a->n_sources < 2) return import_all(a, out_path);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &sources), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &empty), done);
  SHOAL_TRY_GOTO(st, find_empty(a, empty), done);
  kept.n_sources = 0;
  for (size_t i = 0; i < a->n_sources; i++)
    if (!empty[i]) sources[kept.n_sources++] = a->sources[i];
  kept.sources = sources;
  st = import_all(&kept, out_path);
done:
  free(sources);
  free(empty);
  return st;
}
