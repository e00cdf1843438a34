/* See csv_table.h. */
#include "data/csv_table.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_command.h"
#include "data/csv_field.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6, MOST_COMPARED = 1000 };

const char *shoal_csv_feature_text(const void *layout, size_t feature, char *buf, size_t cap)
{
  const shoal_csv_layout *l = layout;
  char text[80];
  snprintf(buf, cap, "column %s", shoal_csv_column_text(l, shoal_csv_feature_column(l, feature), text, sizeof text));
  return buf;
}

/* ---- rows ---- */

static shoal_status make_room(shoal_csv_table *t)
{
  if (t->rows < t->cap) return SHOAL_OK;
  size_t cap = t->cap ? t->cap + t->cap / 2 : 1024, row = t->layout.features * sizeof *t->x;
  const size_t targets = t->layout.targets * sizeof *t->target;
  SHOAL_TRY(shoal_limit_memory(t->args->sources[0], "the table", cap, row + targets + sizeof *t->y + 1));
  float *x = realloc(t->x, cap * row);
  if (x) t->x = x;
  int32_t *y = realloc(t->y, cap * sizeof *y);
  if (y) t->y = y;
  double *target = realloc(t->target, cap * targets + 1); /* not 0 bytes, which are NULL */
  if (target) t->target = target;
  uint8_t *test = realloc(t->test, cap);
  if (test) t->test = test;
  SHOAL_CHECK(x && y && target && test, SHOAL_ERR_MEM, "out of memory for a table of %zu rows and %zu columns", cap,
              t->layout.columns);
  t->cap = cap;
  return SHOAL_OK;
}

/* Remembers what a field says about the decimal sign, while nothing is known of it. */
static void look_for_proof(shoal_csv_table *t, const shoal_csv *c, size_t column)
{
  const shoal_csv_field *f = &c->fields[column];
  shoal_csv_witness w = { .path = c->path, .line = f->line, .at = f->column, .column = column };
  w.tells = shoal_csv_tells_decimal(&t->layout.dialect, f->text, w.values);
  if (w.tells == SHOAL_CSV_NEITHER) return;
  snprintf(w.text, sizeof w.text, "%.40s", f->text);
  bool doubtful = t->layout.dialect.separator != ',' && strchr(f->text, ',');
  if (w.tells != SHOAL_CSV_EITHER)
    t->proof = w;
  else if (doubtful && !t->doubt.path)
    t->doubt = w;
}

static void note_gap(shoal_csv_table *t, const shoal_csv *c, size_t column, size_t feature)
{
  t->gaps.by_feature[feature]++;
  if (t->gaps.fields++ > 0) return;
  t->gaps.path = c->path;
  t->gaps.line = c->fields[column].line;
  t->gaps.column = column;
}

static void note_beyond(shoal_csv_table *t, const shoal_csv *c, size_t column)
{
  char shown[48], text[96];
  const shoal_csv_field *f = &c->fields[column];
  if (t->gaps.beyond++ == 0)
    snprintf(t->gaps.first, sizeof t->gaps.first, "%s:%zu: \"%s\" in column %s", c->path, f->line,
             shoal_show(f->text, shown, sizeof shown), shoal_csv_column_text(&t->layout, column, text, sizeof text));
}

static shoal_status read_feature(shoal_csv_table *t, shoal_csv *c, size_t i, size_t feature, float *out)
{
  double v = 0;
  char thousands;
  const char *text = c->fields[i].text;
  if (t->args->missing && (!text[0] || shoal_csv_marks_gap(text))) {
    note_gap(t, c, i, feature);
    *out = NAN;
    return SHOAL_OK;
  }
  bool number = shoal_csv_number(&t->layout.dialect, c->fields[i].text, &v, &thousands);
  if (!t->proof.path) look_for_proof(t, c, i);
  if (t->args->missing && shoal_csv_is_beyond(&t->layout.dialect, text)) {
    note_beyond(t, c, i);
    note_gap(t, c, i, feature);
    *out = NAN;
    return SHOAL_OK;
  }
  if (!number || !isfinite((float)v)) return shoal_csv_refuse_field(t, c, i, number);
  if (thousands) t->thousands[feature] = thousands;
  *out = shoal_narrow_convert(&t->narrow, feature, v);
  return SHOAL_OK;
}

static shoal_status read_label(shoal_csv_table *t, const shoal_csv *c, int32_t *out)
{
  const size_t column = t->layout.label;
  *out = 0;
  if (column == SHOAL_CSV_NO_LABEL) return SHOAL_OK;
  const shoal_csv_field *label = &c->fields[column];
  if (label->text[0]) return shoal_csv_classes_add(&t->classes, c->path, label, out);
  shoal_str command = { 0 };
  shoal_csv_command_filled(&t->layout, c->path, column, false, &command);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s:%zu:%zu: the label is empty (column %zu): name the right column with --label, or "
                               "remove all such rows, as %s%s",
                               c->path, label->line, label->column, column + 1, command.text,
                               t->args->missing ? "; --missing is for features" : "");
  shoal_str_free(&command);
  return st;
}

static shoal_status refuse_target_gap(const shoal_csv_table *t, const shoal_csv *c, size_t column)
{
  const shoal_csv_field *f = &c->fields[column];
  char text[96];
  shoal_str command = { 0 };
  shoal_csv_column_text(&t->layout, column, text, sizeof text);
  shoal_csv_command_filled(&t->layout, c->path, column, true, &command);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: the target is %s (column %s): remove all such rows, as %s%s",
                               c->path, f->line, f->column, shoal_csv_is_infinite(f->text) ? "infinite" : "missing",
                               text, command.text, t->args->missing ? "; --missing is for features" : "");
  shoal_str_free(&command);
  return st;
}

static shoal_status read_target(shoal_csv_table *t, shoal_csv *c, size_t column, double *out)
{
  const shoal_csv_field *f = &c->fields[column];
  if (!f->text[0] || shoal_csv_marks_gap(f->text) || shoal_csv_is_infinite(f->text))
    return refuse_target_gap(t, c, column);
  const bool number = shoal_csv_number(&t->layout.dialect, f->text, out, NULL);
  if (!t->proof.path) look_for_proof(t, c, column);
  return number && isfinite(*out) ? SHOAL_OK : shoal_csv_refuse_field(t, c, column, number);
}

static bool drops_gaps(const shoal_csv_table *t)
{
  return t->args->missing && strcmp(t->args->missing, "drop") == 0;
}

static shoal_status note_lost(shoal_csv_table *t, const shoal_csv *c)
{
  int32_t unused;
  const size_t label = t->layout.label;
  if (label == SHOAL_CSV_NO_LABEL || !c->fields[label].text[0]) return SHOAL_OK;
  return shoal_csv_classes_add(&t->gaps.lost, c->path, &c->fields[label], &unused);
}

static shoal_status add_row(shoal_csv_table *t, shoal_csv *c, bool test)
{
  const shoal_csv_layout *l = &t->layout;
  if (c->n != l->columns) return shoal_csv_refuse_row(t, c);
  SHOAL_TRY(make_room(t));
  float *x = t->x + t->rows * l->features;
  const size_t gaps = t->gaps.fields;
  for (size_t i = 0; i < l->columns; i++)
    if (i != l->label && !l->dropped[i]) SHOAL_TRY(read_feature(t, c, i, l->place[i], &x[l->place[i]]));
  if (t->gaps.fields > gaps) {
    t->gaps.rows++;
    if (drops_gaps(t)) return note_lost(t, c);
  }
  for (size_t k = 0; k < l->targets; k++)
    SHOAL_TRY(read_target(t, c, l->target[k], &t->target[t->rows * l->targets + k]));
  SHOAL_TRY(read_label(t, c, &t->y[t->rows]));
  t->test[t->rows++] = test;
  return SHOAL_OK;
}

/* The next row, with its fields in the order of the first file. */
static shoal_status next_row(const shoal_csv_table *t, shoal_csv *c, shoal_csv_field *copy, bool *end)
{
  SHOAL_TRY(shoal_csv_next(c, end));
  if (!t->from || *end || c->n != t->layout.columns) return SHOAL_OK;
  memcpy(copy, c->fields, c->n * sizeof *copy);
  for (size_t i = 0; i < c->n; i++) c->fields[i] = copy[t->from[i]];
  return SHOAL_OK;
}

/* Where the header of another file has each column of the first one, if it has all of them under names that are used once. */
static shoal_status find_columns(shoal_csv_table *t, const shoal_csv *c, bool *all)
{
  const size_t n = t->layout.columns;
  *all = false;
  SHOAL_TRY(SHOAL_ALLOC(n, &t->from));
  for (size_t i = 0; i < n; i++) {
    size_t found = 0;
    for (size_t k = 0; k < n; k++)
      if (strcmp(c->fields[k].text, t->layout.names[i]) == 0) {
        found++;
        t->from[i] = k;
      }
    if (found != 1) goto no;
    for (size_t k = 0; k < i; k++)
      if (t->from[k] == t->from[i]) goto no;
  }
  *all = true;
  return SHOAL_OK;
no:
  free(t->from);
  t->from = NULL;
  return SHOAL_OK;
}

/* Whether the first row of another file is the header again.  A header with other columns is an error. */
static shoal_status repeats_header(shoal_csv_table *t, const shoal_csv *c, bool *header)
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
  if (!*header && known == l->columns && l->columns <= MOST_COMPARED) {
    SHOAL_TRY(find_columns(t, c, header));
    if (*header && !t->read_again)
      shoal_info("%s: its columns are in another order, and are taken by their names", c->path);
    if (*header) return SHOAL_OK;
  }
  char here[48], there[48], what[512];
  snprintf(what, sizeof what, "%s:%zu:%zu: the name of column %zu", c->path, f->line, f->column,
           (size_t)(f - c->fields) + 1);
  if (!*header && 2 * SHOAL_MAX(equal, known) >= l->columns) SHOAL_TRY(shoal_csv_check_text(c->path, what, f->text));
  SHOAL_CHECK(*header || 2 * SHOAL_MAX(equal, known) < l->columns, SHOAL_ERR_IO,
              "%s:%zu:%zu: this header has \"%s\" as column %zu, that of %s has \"%s\"; the files must have the same "
              "columns in the same order",
              c->path, f->line, f->column, shoal_show(f->text, here, sizeof here), (size_t)(f - c->fields) + 1,
              t->args->sources[0], shoal_show(l->names[f - c->fields], there, sizeof there));
  return SHOAL_OK;
}

static void show_row(const shoal_csv_table *t, const char *which, const char *path, size_t row)
{
  const float *x = t->x + row * t->layout.features;
  char label[48];
  const bool none = t->layout.label == SHOAL_CSV_NO_LABEL;
  shoal_str s = { 0 }, targets = { 0 };
  for (size_t i = 0; i < SHOAL_MIN(t->layout.features, (size_t)SHOWN); i++)
    if (isnan(x[i]))
      shoal_str_add(&s, "(missing) ");
    else
      shoal_str_add(&s, "%.7g ", x[i]);
  for (size_t k = 0; k < SHOAL_MIN(t->layout.targets, (size_t)SHOWN); k++)
    shoal_str_add(&targets, "%s%.9g", k ? " " : "", t->target[row * t->layout.targets + k]);
  if (t->layout.targets > SHOWN) shoal_str_add(&targets, " ...");
  shoal_info("%s: %s row: %s%s-> %s", path, which, s.text, t->layout.features > SHOWN ? "... " : "",
             targets.len ? targets.text
             : none      ? SHOAL_LABELS_NONE
                         : shoal_show(t->classes.all[t->y[row]].text, label, sizeof label));
  shoal_str_free(&s);
  shoal_str_free(&targets);
}

/* A row further down that is the header once more, as in files that were joined.  One of numbers alone may be a sample. */
static bool is_header_again(const shoal_csv_table *t, const shoal_csv *c)
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

static shoal_status read_rows(shoal_csv_table *t, shoal_csv *c, bool first, bool test)
{
  bool end, header = first && t->layout.header;
  shoal_csv_field *copy = NULL;
  shoal_status st = SHOAL_OK;
  t->file_rows = t->rows;
  t->headers = 0;
  SHOAL_TRY(shoal_csv_next(c, &end));
  if (!end && t->layout.tail && c->n == t->layout.columns + 1 && !c->fields[c->n - 1].text[0]) c->n--;
  if (!end && !first) SHOAL_TRY(repeats_header(t, c, &header));
  while (!end) {
    if (!header && is_header_again(t, c)) {
      if (t->headers++ == 0) t->repeated_line = c->fields[0].line;
      header = true;
    }
    if (!header) SHOAL_TRY_GOTO(st, add_row(t, c, test), done);
    header = false;
    if (t->from && !copy) SHOAL_TRY_GOTO(st, SHOAL_ALLOC(t->layout.columns, &copy), done);
    SHOAL_TRY_GOTO(st, next_row(t, c, copy, &end), done);
  }
done:
  free(copy);
  free(t->from);
  t->from = NULL;
  return st;
}

/* Rows that are no samples. */
static void warn_left_out(const shoal_csv_table *t, const shoal_csv *c)
{
  if (c->blanks)
    shoal_warn("%s:%zu: %zu row%s of separators alone %s left out", c->path, c->first_blank, c->blanks,
               c->blanks > 1 ? "s" : "", c->blanks > 1 ? "are" : "is");
  if (c->empty)
    shoal_warn("%s:%zu: %zu empty line%s between rows: if a row is missing there, the file is damaged", c->path,
               c->first_empty, c->empty, c->empty > 1 ? "s are" : " is");
  if (t->headers)
    shoal_warn("%s:%zu: %zu row%s the header and %s left out: was the file joined of several?", c->path,
               t->repeated_line, t->headers, t->headers > 1 ? "s repeat" : " repeats", t->headers > 1 ? "are" : "is");
}

static shoal_status find_layout(shoal_csv_table *t, const char *text, size_t n)
{
  const char signs[] = { '\0', '.', ',' };
  SHOAL_TRY(shoal_csv_layout_find(t->args, t->like, signs[t->proof.tells], t->args->sources[0], text, n, &t->layout));
  t->sample = t->like ? t->like->sample : (shoal_shape){ 0 };
  if (!t->like) SHOAL_TRY(shoal_import_sample_shape(t->args, t->layout.features, &t->sample));
  SHOAL_TRY(shoal_narrow_init(&t->narrow, t->layout.features));
  SHOAL_TRY(SHOAL_ALLOC(t->layout.features, &t->gaps.by_feature));
  return SHOAL_ALLOC(t->layout.features, &t->thousands);
}

static shoal_status read_file(shoal_csv_table *t, size_t source, bool test)
{
  const char *path = t->args->sources[source];
  size_t n, before = t->rows;
  const size_t gaps = t->gaps.rows;
  char *text;
  shoal_csv c = { 0 };
  SHOAL_TRY(shoal_source_slurp(path, &text, &n));
  shoal_status st = SHOAL_OK;
  if (!t->sources) SHOAL_TRY_GOTO(st, SHOAL_ALLOC(t->args->n_sources, &t->sources), done);
  t->sources[source].bytes = n;
  t->sources[source].crc = shoal_crc32c(0, text, n);
  if (source == 0) SHOAL_TRY_GOTO(st, find_layout(t, text, n), done);
  shoal_csv_init(&c, path, text, n, t->layout.dialect);
  st = read_rows(t, &c, source == 0, test);
  if (source == 0 && !t->read_again) shoal_csv_layout_tell(&t->layout, path);
  if (st != SHOAL_OK) goto done;
  if (t->rows == before && t->gaps.rows > gaps) { /* none of them, told by who has read all files */
    if (t->args->n_sources > 1) shoal_warn("%s: every row has a missing value: none is left", path);
    goto done;
  }
  SHOAL_CHECK_GOTO(
      st, t->rows > before, done, SHOAL_ERR_IO, "%s is empty: no rows with data%s", path,
      source == 0 && t->layout.header && !t->args->header ? " below its header; if it has none, give --header no" : "");
  warn_left_out(t, &c);
  show_row(t, "first", path, before);
  show_row(t, "last", path, t->rows - 1);
done:
  shoal_csv_fini(&c);
  free(text);
  return st;
}

void shoal_csv_table_fini(shoal_csv_table *t)
{
  shoal_csv_layout_fini(&t->layout);
  shoal_csv_classes_fini(&t->classes);
  shoal_narrow_fini(&t->narrow);
  free(t->thousands);
  free(t->gaps.by_feature);
  free(t->sources);
  shoal_csv_classes_fini(&t->gaps.lost);
  free(t->x);
  free(t->y);
  free(t->target);
  free(t->test);
  *t = (shoal_csv_table){ .args = t->args, .like = t->like, .proof = t->proof };
}

static shoal_status read_files(shoal_csv_table *t, const bool *test)
{
  for (size_t i = 0; i < t->args->n_sources; i++) SHOAL_TRY(read_file(t, i, test[i]));
  return SHOAL_OK;
}

/* Each row has a gap.  Columns without any value cannot be filled, so both cures leave them out; if nothing else is left, none helps. */
static shoal_status refuse_gaps(const shoal_csv_table *t)
{
  enum { MOST = 20 };
  const size_t features = t->layout.features;
  size_t found = 0, empty = 0;
  char text[96];
  shoal_str columns = { 0 }, drop = { 0 };
  for (size_t k = 0; k < features; k++) {
    const size_t n = t->gaps.by_feature[k];
    const bool none = n == t->gaps.rows;
    if (n && found++ < SHOWN)
      shoal_str_add(&columns, "%s%s in %zu", found > 1 ? ", " : "",
                    shoal_csv_feature_text(&t->layout, k, text, sizeof text), n);
    if (none && empty++ < MOST) shoal_str_add(&drop, " --drop %zu", shoal_csv_feature_column(&t->layout, k) + 1);
  }
  if (found > SHOWN) shoal_str_add(&columns, ", and %zu more columns", found - SHOWN);
  const bool fills = empty == 0 || (empty < features && empty <= MOST && !t->like);
  shoal_status st = SHOAL_FAIL(
      SHOAL_ERR_IO, "%s: --missing drop leaves no row: %s %zu row%s a missing value (%s)%s%s%s", t->args->sources[0],
      t->gaps.rows == 1 ? "its" : "all", t->gaps.rows, t->gaps.rows == 1 ? " has" : "s have", columns.text,
      fills ? "; --missing mean fills them" : "; there is nothing to learn from in columns without any value",
      fills && empty ? ", beside columns without any value, which are left out with" : "",
      fills && empty ? drop.text : "");
  shoal_str_free(&columns);
  shoal_str_free(&drop);
  return st;
}

/* Classes of which rows were left out, and none or one is left. */
static void warn_of_lost(const shoal_csv_table *t)
{
  const shoal_csv_classes *lost = &t->gaps.lost, *left = &t->classes;
  size_t found = 0;
  for (size_t i = 0; i < lost->n; i++) {
    const shoal_csv_class *c = &lost->all[i];
    char name[48];
    uint64_t rows = 0;
    for (size_t k = 0; k < left->n && rows < 2; k++)
      if (strcmp(left->all[k].text, c->text) == 0) rows = left->all[k].count;
    if (rows >= 2 || found++ >= SHOWN) continue;
    shoal_warn("%s: --missing drop leaves %s of the %" PRIu64 " row%s of class \"%s\"%s: --missing mean keeps them",
               t->args->sources[0], rows ? "one" : "none", c->count + rows, c->count + rows == 1 ? "" : "s",
               shoal_show(c->text, name, sizeof name),
               rows ? ", too few to train and to test with" : ", so that the data has no such class");
  }
  if (found > SHOWN) shoal_warn("%s: and so for %zu more classes", t->args->sources[0], found - SHOWN);
}

/* "train (1).csv" beside "train.csv", as a browser names what it fetched twice. */
static void warn_of_copies(const shoal_csv_table *t)
{
  for (size_t i = 1; i < t->args->n_sources; i++)
    for (size_t k = 0; k < i; k++) {
      if (t->sources[i].bytes != t->sources[k].bytes || t->sources[i].crc != t->sources[k].crc) continue;
      shoal_warn("%s and %s are equal: their rows are there twice; if one is a copy, leave it out", t->args->sources[k],
                 t->args->sources[i]);
      break;
    }
}

/* All rows of all files, by one decimal sign. */
shoal_status shoal_csv_table_read(shoal_csv_table *t, const bool *test)
{
  char column[96];
  shoal_error contradiction;
  shoal_status st = read_files(t, test);
  if (t->read_again) {
    shoal_error_take(&contradiction);
    shoal_csv_table_fini(t);
    shoal_info("%s:%zu:%zu: \"%s\" has a decimal %s: all is read so", t->proof.path, t->proof.line, t->proof.at,
               t->proof.text, shoal_csv_sign_name(t->proof.tells == SHOAL_CSV_COMMA ? ',' : '.'));
    st = read_files(t, test);
  }
  SHOAL_TRY(st);
  if (t->rows == 0) return refuse_gaps(t);
  warn_of_copies(t);
  if (!t->like) warn_of_lost(t);
  const shoal_csv_witness *d = &t->doubt;
  SHOAL_CHECK(
      !d->path || t->proof.path || shoal_csv_signs_given(t), SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s can be %.10g or %.10g, and no other number tells: give --thousands , for the "
      "first, --decimal , for the second",
      d->path, d->line, d->at, d->text, shoal_csv_column_text(&t->layout, d->column, column, sizeof column),
      d->values[0], d->values[1]);
  return SHOAL_OK;
}

/* ---- missing values ---- */

/* Fills what is missing with the mean of its column over the training split. */
static shoal_status fill_gaps(shoal_csv_table *t)
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
    SHOAL_CHECK(n > 0 || t->like, SHOAL_ERR_IO, "%s: %s has no value in the training split: %s", t->args->sources[0],
                shoal_csv_feature_text(&t->layout, k, text, sizeof text),
                shoal_import_unlabelled(t->args) ? "--like RUN fills it with the mean that the model was trained with"
                : features > 1                   ? "leave it out with --drop"
                                                 : "there is nothing to learn from");
    const double mean = t->like ? t->like->mean[k / (features / t->like->scales)] : sum / n;
    for (size_t i = 0; i < t->rows; i++)
      if (isnan(t->x[i * features + k])) t->x[i * features + k] = (float)mean;
  }
  return SHOAL_OK;
}

shoal_status shoal_csv_table_mend(shoal_csv_table *t)
{
  const bool drops = drops_gaps(t);
  char text[80];
  if (t->args->missing && !t->gaps.fields)
    shoal_info("%s: no value is missing; --missing does nothing", t->args->sources[0]);
  if (!t->gaps.fields) return SHOAL_OK;
  shoal_csv_column_text(&t->layout, t->gaps.column, text, sizeof text);
  char count[80] = "";
  if (t->gaps.fields > 1)
    snprintf(count, sizeof count, ", the first of %zu such fields in %zu row%s", t->gaps.fields, t->gaps.rows,
             t->gaps.rows == 1 ? "" : "s");
  shoal_info("%s:%zu: column %s has no %svalue%s: %s", t->gaps.path, t->gaps.line, text,
             t->gaps.beyond ? "finite " : "", count,
             drops     ? t->gaps.rows > 1 ? "these rows are left out, and samples are numbered without them"
                                          : "the row is left out, and samples are numbered without it"
             : t->like ? "filled with the mean of what the model was trained on"
                       : "filled with the mean of their column in the training split");
  if (t->gaps.beyond) {
    char more[64] = "";
    if (t->gaps.beyond > 1) snprintf(more, sizeof more, ", as %zu more fields are", t->gaps.beyond - 1);
    shoal_warn("%s is infinite, or larger than any 32-bit float%s: taken for missing", t->gaps.first, more);
  }
  if (!drops && !t->like && shoal_import_unlabelled(t->args))
    shoal_warn(
        "%s: what is missing gets the mean of this table: --like RUN takes that of what the model was trained on",
        t->args->sources[0]);
  return drops ? SHOAL_OK : fill_gaps(t);
}
