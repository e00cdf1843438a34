/* Tables: one column is the label, all others are features.
 *
 * The first row is a header if one of its feature columns is not a number; this is printed, so that a mistake is
 * noticed. Labels become classes 0, 1, … in sorted order: as numbers if all are integers, else as strings; the original
 * names are stored in the file.  The end of the table is the test split, so rows sorted by label cause a warning.  The
 * table is kept in memory during the import. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *path;
  const char *text;
  size_t line, column;
  double number; /* value of a numeric label */
} label;

typedef struct {
  const shoal_import_args *args;
  size_t columns, label_column;
  char **header; /* [columns] or NULL; point into texts */
  char **texts;  /* [n_sources], whole files; labels point into them */
  float *x;      /* [rows, columns - 1] */
  label *labels; /* [rows] */
  size_t rows, cap;
  int32_t *y;      /* [rows] */
  shoal_str names; /* one per line, if not 0 .. classes-1 */
  int64_t classes;
} table;

static bool is_number(const char *text)
{
  double v;
  return shoal_parse_f64(text, &v) == SHOAL_OK;
}

/* ---- the header ---- */

static shoal_status find_by_name(const table *t, const shoal_csv *c, const char *name, size_t *out)
{
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->fields[i].text, name) == 0) {
      *out = i;
      return SHOAL_OK;
    }
  int64_t number;
  bool counted = shoal_parse_i64(name, &number) == SHOAL_OK;
  SHOAL_CHECK(!counted || (number >= 1 && (size_t)number <= c->n), SHOAL_ERR_ARG,
              "%s has %zu columns, there is no column %s for the label", c->path, c->n, name);
  if (counted) {
    *out = (size_t)number - 1;
    return SHOAL_OK;
  }
  const char **known;
  SHOAL_TRY(SHOAL_ALLOC(c->n, &known));
  for (size_t i = 0; i < c->n; i++) known[i] = c->fields[i].text;
  const char *near = shoal_nearest(name, known, c->n);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_ARG, "%s has no column \"%s\" in its first row%s%s%s", c->path, name,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "; give the number of the column");
  free(known);
  return st;
}

/* From the first row of the first file: the number of columns, the label column, and whether the row is a header. */
static shoal_status begin_table(table *t, const shoal_csv *c, bool *is_header)
{
  t->columns = c->n;
  SHOAL_CHECK(c->n >= 2, SHOAL_ERR_IO,
              "%s:%zu:1: one column only; features and a label are needed, between commas, "
              "semicolons or tabs",
              c->path, c->fields[0].line);
  t->label_column = c->n - 1;
  if (t->args->label) SHOAL_TRY(find_by_name(t, c, t->args->label, &t->label_column));
  *is_header =
      t->args->label && strcmp(c->fields[t->label_column].text, t->args->label) == 0 && !is_number(t->args->label);
  for (size_t i = 0; i < c->n; i++)
    *is_header |= i != t->label_column && c->fields[i].text[0] && !is_number(c->fields[i].text);
  if (!*is_header) {
    shoal_info("%s: no header; the label is column %zu", c->path, t->label_column + 1);
    return SHOAL_OK;
  }
  SHOAL_TRY(SHOAL_ALLOC(c->n, &t->header));
  for (size_t i = 0; i < c->n; i++) t->header[i] = c->fields[i].text;
  shoal_info("%s: the first row is the header; the label is column %zu, \"%s\"", c->path, t->label_column + 1,
             t->header[t->label_column]);
  return SHOAL_OK;
}

static bool repeats_header(const table *t, const shoal_csv *c)
{
  if (!t->header || c->n != t->columns) return false;
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->fields[i].text, t->header[i]) != 0) return false;
  return true;
}

/* ---- rows ---- */

static shoal_status make_room(table *t)
{
  if (t->rows < t->cap) return SHOAL_OK;
  size_t cap = t->cap ? 2 * t->cap : 1024;
  float *x = realloc(t->x, cap * (t->columns - 1) * sizeof *x);
  if (x) t->x = x;
  label *labels = realloc(t->labels, cap * sizeof *labels);
  if (labels) t->labels = labels;
  SHOAL_CHECK(x && labels, SHOAL_ERR_MEM, "out of memory for a table of %zu rows and %zu columns", cap, t->columns);
  t->cap = cap;
  return SHOAL_OK;
}

static shoal_status read_feature(const table *t, const shoal_csv *c, size_t i, float *out)
{
  const shoal_csv_field *f = &c->fields[i];
  double v = 0;
  bool number = shoal_parse_f64(f->text, &v) == SHOAL_OK;
  *out = (float)v;
  SHOAL_CHECK(number && isfinite(*out), SHOAL_ERR_IO,
              "%s:%zu:%zu: \"%.40s\" is %s (column %zu%s%s); features are numbers", c->path, f->line, f->column,
              f->text,
              !f->text[0]   ? "empty"
              : !number     ? "not a number"
              : isfinite(v) ? "too large for f32"
                            : "not finite",
              i + 1, t->header ? ", " : "", t->header ? t->header[i] : "");
  return SHOAL_OK;
}

static shoal_status add_row(table *t, const shoal_csv *c)
{
  const shoal_csv_field *last = &c->fields[c->n - 1];
  SHOAL_CHECK(c->n == t->columns, SHOAL_ERR_IO, "%s:%zu:%zu: this row has %zu fields, the first row has %zu", c->path,
              last->line, last->column, c->n, t->columns);
  SHOAL_TRY(make_room(t));
  float *x = t->x + t->rows * (t->columns - 1);
  for (size_t i = 0; i < t->columns; i++)
    if (i != t->label_column) SHOAL_TRY(read_feature(t, c, i, x++));
  const shoal_csv_field *f = &c->fields[t->label_column];
  SHOAL_CHECK(f->text[0], SHOAL_ERR_IO, "%s:%zu:%zu: the label is empty (column %zu)", c->path, f->line, f->column,
              t->label_column + 1);
  t->labels[t->rows++] = (label){ c->path, f->text, f->line, f->column, 0 };
  return SHOAL_OK;
}

static shoal_status read_file(table *t, size_t source)
{
  const char *path = t->args->sources[source];
  size_t n, before = t->rows;
  bool end, header = false;
  shoal_csv c;
  SHOAL_TRY(shoal_source_slurp(path, &t->texts[source], &n));
  shoal_csv_init(&c, path, t->texts[source], n);
  shoal_status st = shoal_csv_next(&c, &end);
  if (st == SHOAL_OK && !end && !t->columns)
    st = begin_table(t, &c, &header);
  else if (st == SHOAL_OK && !end)
    header = repeats_header(t, &c);
  while (st == SHOAL_OK && !end) {
    if (!header) st = add_row(t, &c);
    header = false;
    if (st == SHOAL_OK) st = shoal_csv_next(&c, &end);
  }
  shoal_csv_fini(&c);
  SHOAL_TRY(st);
  SHOAL_CHECK(t->rows > before, SHOAL_ERR_IO, "%s is empty: no rows with data", path);
  return SHOAL_OK;
}

/* ---- labels to classes ---- */

static int by_text(const void *a, const void *b)
{
  return strcmp((*(label *const *)a)->text, (*(label *const *)b)->text);
}

static int by_number(const void *a, const void *b)
{
  double p = (*(label *const *)a)->number, q = (*(label *const *)b)->number;
  return (p > q) - (p < q);
}

/* Decides whether labels are integers or strings; fractional numbers are an error. */
static shoal_status judge_labels(table *t, bool *numbers)
{
  const label *broken = NULL;
  *numbers = true;
  for (size_t i = 0; i < t->rows; i++) {
    label *l = &t->labels[i];
    if (shoal_parse_f64(l->text, &l->number) != SHOAL_OK)
      *numbers = false;
    else if (!broken && l->number != floor(l->number))
      broken = l;
  }
  SHOAL_CHECK(!*numbers || !broken, SHOAL_ERR_IO,
              "%s:%zu:%zu: label %s is not a class; classes are integers or strings (is column %zu the label?)",
              broken ? broken->path : "", broken ? broken->line : 0, broken ? broken->column : 0,
              broken ? broken->text : "", t->label_column + 1);
  return SHOAL_OK;
}

static shoal_status name_classes(table *t, label **sorted, bool numbers)
{
  bool as_is = numbers, plain = true;
  int64_t classes = 0;
  for (size_t i = 0; i < t->rows; i++) {
    bool fresh = i == 0 || (numbers ? by_number : by_text)(&sorted[i - 1], &sorted[i]) != 0;
    if (fresh) {
      as_is &= sorted[i]->number == (double)classes;
      plain &= !strpbrk(sorted[i]->text, "\r\n");
      shoal_str_add(&t->names, "%s%s", classes ? "\n" : "", sorted[i]->text);
      classes++;
    }
    t->y[sorted[i] - t->labels] = (int32_t)(classes - 1);
  }
  t->classes = classes;
  SHOAL_CHECK(t->rows < 20 || (size_t)classes <= t->rows / 2, SHOAL_ERR_IO,
              "%s: column %zu has %" PRId64 " different labels in %zu rows; name the column of the label",
              t->args->sources[0], t->label_column + 1, classes, t->rows);
  if (as_is || !plain) shoal_str_clear(&t->names);
  if (!as_is) shoal_info("labels become classes 0 to %" PRId64 " in sorted order", classes - 1);
  return SHOAL_OK;
}

static shoal_status map_labels(table *t)
{
  label **sorted;
  bool numbers;
  SHOAL_TRY(judge_labels(t, &numbers));
  SHOAL_TRY(SHOAL_ALLOC(t->rows, &t->y));
  SHOAL_TRY(SHOAL_ALLOC(t->rows, &sorted));
  for (size_t i = 0; i < t->rows; i++) sorted[i] = &t->labels[i];
  qsort(sorted, t->rows, sizeof *sorted, numbers ? by_number : by_text);
  shoal_status st = name_classes(t, sorted, numbers);
  free(sorted);
  return st;
}

/* Warns about classes that are in one split only: the rows are probably sorted by label. */
static shoal_status warn_if_sorted(const table *t, uint64_t train)
{
  uint8_t *seen;
  int64_t missing = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)t->classes, &seen));
  for (size_t i = 0; i < t->rows; i++) seen[t->y[i]] |= i < train ? 1 : 2;
  for (int64_t c = 0; c < t->classes; c++) missing += seen[c] == 2;
  if (missing)
    shoal_warn("%" PRId64 " of %" PRId64
               " classes are in the test split only: the rows seem sorted; shuffle them first "
               "(shuf), the end of the table is the test split",
               missing, t->classes);
  free(seen);
  return SHOAL_OK;
}

static shoal_status write_table(const table *t, const char *out_path)
{
  char source[256];
  uint64_t train;
  size_t features = t->columns - 1;
  shoal_data_writer *w;
  SHOAL_TRY(shoal_import_cut(t->args, t->rows, "rows", &train));
  SHOAL_TRY(warn_if_sorted(t, train));
  shoal_import_source_text(t->args, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_FEATURES, SHOAL_SHAPE((int64_t)features), 4, source };
  SHOAL_TRY(shoal_data_writer_create(out_path, &spec, &w));
  shoal_status st = shoal_data_writer_add(w, SHOAL_TRAIN, train, t->x, t->y);
  if (st == SHOAL_OK) st = shoal_data_writer_add(w, SHOAL_TEST, t->rows - train, t->x + train * features, t->y + train);
  if (st == SHOAL_OK) st = shoal_data_writer_commit(w, t->classes, t->names.len ? t->names.text : NULL);
  shoal_data_writer_destroy(w);
  return st;
}

shoal_status shoal_import_csv(const shoal_import_args *a, const char *out_path)
{
  table t = { .args = a };
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &t.texts), done);
  for (size_t i = 0; i < a->n_sources; i++) SHOAL_TRY_GOTO(st, read_file(&t, i), done);
  SHOAL_TRY_GOTO(st, map_labels(&t), done);
  st = write_table(&t, out_path);
done:
  for (size_t i = 0; t.texts && i < a->n_sources; i++) free(t.texts[i]);
  free(t.texts);
  free(t.header);
  free(t.x);
  free(t.labels);
  free(t.y);
  shoal_str_free(&t.names);
  return st;
}
