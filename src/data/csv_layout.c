/* Header, columns of label or targets, and dropped columns of a CSV file, from its options and its first rows.  See csv_layout.h.
 *
 * The first row is the header if
 *     --header says so, or --label or --target is one of its words
 *     it has text where the rows below have numbers
 *     all is text, and its words come only there, while others come again
 *     it counts 0, 1, 2, ... as a program writes columns without names, and the rows below are no such numbers
 *
 * The decimal sign is the one that more numbers of these rows show; a number further down that shows the other one makes the
 * importer read all again (import_csv.c).
 *
 * A column is dropped without being asked if it is empty, or has no name in the header ("" or "Unnamed: 0") and counts
 * the rows: the index that pandas writes. */
#include "data/csv_layout.h"
#include "base/alike.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_command.h"
#include "data/csv_field.h"
#include "data/csv_number.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROBE_BYTES = 256 << 10, PROBE_ROWS = 20, MOST_ROWS = 1000, SHOWN = 6 };

/* The first rows of a file, and what is known about each column. */
typedef struct {
  const shoal_import_args *args;
  const shoal_csv_like *like; /* or NULL */
  const char *path;
  char *text;
  const char **cells; /* [rows, columns] */
  size_t rows, columns;
  bool tail;                /* the header ends with a separator, the rows do not */
  size_t *numbers, *blanks; /* [columns] cells of that kind below the first row */
} probe;

static const char *cell(const probe *p, size_t row, size_t column)
{
  return p->cells[row * p->columns + column];
}

static bool number(const shoal_csv_layout *l, const char *text, double *out)
{
  return shoal_csv_number(&l->dialect, text, out, NULL);
}

static bool is_number(const shoal_csv_layout *l, const char *text)
{
  double v;
  return number(l, text, &v);
}

/* In single quotes, which are refused as what they are. */
static bool is_quoted_number(const char *text)
{
  const size_t n = strlen(text);
  return n > 2 && text[0] == '\'' && text[n - 1] == '\'' && strspn(text + 1, "0123456789+-.,eE") == n - 2;
}

/* ---- the first rows ---- */

static void close_probe(probe *p)
{
  free(p->text);
  free(p->cells);
  free(p->numbers);
}

/* Reads rows of the first `bytes` of a file.  If the text is cut there, its last row may be, and is left out. */
static shoal_status read_rows(probe *p, const shoal_csv_layout *l, const char *text, size_t bytes, bool cut)
{
  shoal_csv c;
  bool end = false;
  shoal_status st = SHOAL_OK;
  shoal_error kept;
  free(p->text);
  free(p->cells);
  p->cells = NULL;
  p->rows = p->columns = 0;
  p->tail = false;
  SHOAL_TRY(SHOAL_ALLOC(bytes + 1, &p->text));
  memcpy(p->text, text, bytes);
  shoal_csv_init(&c, p->path, p->text, bytes, l->dialect);
  for (size_t row = 0; row < MOST_ROWS; row++) {
    st = shoal_csv_next(&c, &end);
    if (st != SHOAL_OK || end) break;
    if (row == 0) {
      p->columns = c.n;
      SHOAL_TRY_GOTO(st, SHOAL_ALLOC(SHOAL_MIN(bytes / c.n + 1, (size_t)MOST_ROWS) * c.n, &p->cells), done);
    }
    if (row == 1 && c.n > 1 && c.n + 1 == p->columns && !p->cells[c.n][0]) {
      p->tail = true;
      p->columns = c.n;
    }
    if (c.n != p->columns || (cut && c.at >= c.end)) break; /* the importer says what is wrong with it */
    for (size_t i = 0; i < c.n; i++) p->cells[p->rows * c.n + i] = c.fields[i].text;
    p->rows++;
  }
  if (st != SHOAL_OK && cut && p->rows > 0) {
    shoal_error_take(&kept); /* a quote that the cut left open */
    st = SHOAL_OK;
  }
done:
  shoal_csv_fini(&c);
  return st;
}

static shoal_status open_probe(probe *p, const shoal_csv_layout *l, const char *text, size_t n)
{
  size_t bytes = SHOAL_MIN(n, (size_t)PROBE_BYTES);
  SHOAL_TRY(read_rows(p, l, text, bytes, bytes < n));
  while (p->rows < PROBE_ROWS && bytes < n) {
    bytes = SHOAL_MIN(n, 8 * bytes);
    SHOAL_TRY(read_rows(p, l, text, bytes, bytes < n));
  }
  SHOAL_CHECK(p->rows > 0, SHOAL_ERR_IO, "%s is empty: no rows", p->path);
  SHOAL_TRY(SHOAL_ALLOC(2 * p->columns, &p->numbers));
  p->blanks = p->numbers + p->columns;
  for (size_t r = 1; r < p->rows; r++)
    for (size_t i = 0; i < p->columns; i++) {
      p->numbers[i] +=
          is_number(l, cell(p, r, i)) || is_quoted_number(cell(p, r, i)) || shoal_csv_is_list(cell(p, r, i));
      p->blanks[i] += !cell(p, r, i)[0];
    }
  return SHOAL_OK;
}

/* ---- what a column looks like ---- */

/* The cells below the first row count up by one, or from where the first row does without a header. */
static bool counts_rows(const probe *p, const shoal_csv_layout *l, size_t column)
{
  size_t first = l->header ? 1 : 0;
  double v, expected = 0;
  if (p->rows < first + 2) return false;
  for (size_t r = first; r < p->rows; r++, expected++) {
    if (!number(l, cell(p, r, column), &v)) return false;
    if (r == first) expected = floor(v);
    if (v != expected) return false;
  }
  return true;
}

static int by_number(const void *a, const void *b)
{
  double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

/* Whole numbers of which no two are equal: a row number, perhaps after shuffling. */
static shoal_status numbers_rows(const probe *p, const shoal_csv_layout *l, size_t column, bool *out)
{
  size_t n = p->rows - 1;
  double *v;
  *out = n >= 2;
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &v));
  for (size_t r = 0; r < n && *out; r++) *out = number(l, cell(p, r + 1, column), &v[r]) && v[r] == floor(v[r]);
  if (*out) qsort(v, n, sizeof *v, by_number);
  for (size_t r = 1; r < n && *out; r++) *out = v[r] != v[r - 1];
  free(v);
  return SHOAL_OK;
}

static bool is_unnamed(const char *name)
{
  return !name[0] || strncasecmp(name, "unnamed:", 8) == 0;
}

static bool is_label_name(const char *name)
{
  static const char *const names[] = { "label", "labels", "class", "target", "targets" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if (strcasecmp(name, names[i]) == 0) return true;
  return false;
}

/* ---- the header ---- */

/* The first row counts 0, 1, 2, ...; its first cell may be empty, above an index.  Returns how many cells count. */
static size_t counting_cells(const probe *p)
{
  size_t skipped = cell(p, 0, 0)[0] ? 0 : 1;
  for (size_t i = skipped; i < p->columns; i++) {
    int64_t v;
    if (shoal_parse_i64(cell(p, 0, i), &v) != SHOAL_OK || v != (int64_t)(i - skipped)) return 0;
  }
  return p->columns - skipped;
}

/* Some column writes numbers with a fraction, but not in the first row. */
static bool is_written_differently(const probe *p)
{
  for (size_t i = 0; i < p->columns; i++) {
    size_t fractions = 0;
    for (size_t r = 1; r < p->rows; r++) fractions += strpbrk(cell(p, r, i), ".,eE") != NULL;
    if (p->rows > 1 && fractions == p->rows - 1) return true;
  }
  return false;
}

static bool has_text_above_numbers(const probe *p, const shoal_csv_layout *l, size_t label)
{
  for (size_t i = 0; i < p->columns; i++) {
    const char *top = cell(p, 0, i);
    if (!top[0] || is_number(l, top) || shoal_csv_is_list(top)) continue;
    if (p->rows == 1 ? i != label : 2 * p->numbers[i] >= p->rows - 1) return true;
  }
  return false;
}

/* Most cells of a column below its name are words that come again there. */
static bool repeats_words(const probe *p, size_t column)
{
  enum { ROWS = 100 };
  const size_t rows = SHOAL_MIN(p->rows, (size_t)ROWS);
  size_t again = 0;
  for (size_t r = 1; r < rows; r++)
    for (size_t k = 1; k < rows; k++)
      if (k != r && strcmp(cell(p, r, column), cell(p, k, column)) == 0) {
        again++;
        break;
      }
  return 10 * again >= 9 * (rows - 1);
}

/* A table of words alone: none of the first row comes again in its column, and in some column those below do. */
static bool has_names_above_words(const probe *p, const shoal_csv_layout *l)
{
  enum { LEAST = 8 };
  if (p->rows < LEAST) return false;
  for (size_t i = 0; i < p->columns; i++) {
    const char *top = cell(p, 0, i);
    if (!top[0] || is_number(l, top) || p->numbers[i]) return false;
    for (size_t r = 1; r < p->rows; r++)
      if (strcmp(cell(p, r, i), top) == 0) return false;
  }
  for (size_t i = 0; i < p->columns; i++)
    if (repeats_words(p, i)) return true;
  return false;
}

static shoal_status find_header(const probe *p, shoal_csv_layout *l, bool *header)
{
  const shoal_import_args *a = p->args;
  size_t counting = counting_cells(p), last = p->columns - 1;
  *header = a->header && strcmp(a->header, "yes") == 0;
  if (a->header) return SHOAL_OK;
  for (size_t i = 0; i < p->columns && a->label; i++)
    *header |= strcmp(cell(p, 0, i), a->label) == 0 && !is_number(l, a->label);
  for (size_t i = 0; i < p->columns; i++)
    for (size_t k = 0; k < a->n_target; k++)
      *header |= strcmp(cell(p, 0, i), a->target[k]) == 0 && !is_number(l, a->target[k]);
  for (size_t i = 0; i < p->columns && p->like; i++)
    *header |= shoal_texts_have(&p->like->names, cell(p, 0, i)) && !is_number(l, cell(p, 0, i));
  *header |= has_text_above_numbers(p, l, last) || (is_label_name(cell(p, 0, last)) && p->numbers[last] == 0) ||
             has_names_above_words(p, l);
  if (*header || counting < 2 || p->rows < 2) return SHOAL_OK;
  int64_t below;
  bool goes_on = shoal_parse_i64(cell(p, 1, 0), &below) == SHOAL_OK && below == (int64_t)p->columns;
  bool sure = counting < p->columns || is_written_differently(p) || (counting >= 4 && !goes_on);
  SHOAL_CHECK(
      sure, SHOAL_ERR_IO,
      "%s: the first row counts %s, %s, ...: it may be a header without names or a sample; give --header yes or "
      "--header no",
      p->path, cell(p, 0, 0), cell(p, 0, 1));
  *header = true;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the first row counts 0 to %zu: taken as the header; if it is a sample, give --header no",
                          p->path, counting - 1));
}

static shoal_status copy_header(const probe *p, shoal_csv_layout *l)
{
  if (!l->header) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(p->columns, &l->names));
  for (size_t i = 0; i < p->columns; i++) l->names[i] = shoal_strdup_printf("%s", cell(p, 0, i));
  return SHOAL_OK;
}

/* ---- the label and what is dropped ---- */

/* Names of columns that count are UTF-8: other programs write the same ones so, and a model knows its columns by them. */
static shoal_status check_names(const probe *p, const shoal_csv_layout *l)
{
  char what[512];
  for (size_t i = 0; l->header && i < l->columns; i++) {
    if ((l->dropped[i] && !shoal_csv_is_target(l, i)) || l->place[i] != SIZE_MAX) continue;
    snprintf(what, sizeof what, "%s: the name of column %zu", p->path, i + 1);
    SHOAL_TRY(shoal_csv_check_text(p->path, what, l->names[i]));
  }
  return SHOAL_OK;
}

/* No column of that name: those that there are, the nearest first. */
static shoal_status refuse_column(const probe *p, const shoal_csv_layout *l, const char *option, const char *name)
{
  enum { MOST = 8 };
  char shown[48];
  shoal_str has = { 0 };
  size_t told = 0;
  const char *near = l->header ? shoal_nearest(name, (const char *const *)l->names, l->columns) : NULL;
  if (near) shoal_str_add(&has, "; did you mean \"%s\"?", shoal_show(near, shown, sizeof shown));
  for (size_t i = 0; l->header && i < l->columns && told < MOST; i++)
    if (!near || strcmp(l->names[i], near) != 0)
      shoal_str_add(&has, "%s\"%s\"",
                    told++ ? ", "
                    : near ? " It also has "
                           : ", which has ",
                    shoal_show(l->names[i], shown, sizeof shown));
  const size_t rest = l->header ? l->columns - told - (near ? 1 : 0) : 0;
  if (told && rest) shoal_str_add(&has, " and %zu more", rest);
  if (!near) shoal_str_add(&has, "; give %s one of them, or the number of the column", option);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_ARG, "%s has no column \"%s\" in its first row%s", p->path, name, has.text);
  shoal_str_free(&has);
  return st;
}

/* The column that an option names: by its name in the header, else by its number from 1. */
static shoal_status find_column(const probe *p, const shoal_csv_layout *l, const char *option, const char *name,
                                size_t *out)
{
  size_t found = 0;
  for (size_t i = 0; i < l->columns && l->header; i++)
    if (strcmp(l->names[i], name) == 0 && found++ == 0) *out = i;
  SHOAL_CHECK(found < 2, SHOAL_ERR_ARG, "%s has %zu columns called \"%s\": give %s the number of the right one",
              p->path, found, name, option);
  if (found) return SHOAL_OK;
  int64_t count;
  if (shoal_parse_i64(name, &count) == SHOAL_OK) {
    SHOAL_CHECK(count >= 1 && (size_t)count <= l->columns, SHOAL_ERR_ARG,
                "%s has %zu columns, there is no column %s for %s", p->path, l->columns, name, option);
    *out = (size_t)count - 1;
    return SHOAL_OK;
  }
  SHOAL_TRY(check_names(p, l));
  return refuse_column(p, l, option, name);
}

static shoal_status drop_asked(const probe *p, shoal_csv_layout *l)
{
  for (size_t i = 0; i < p->args->n_drop; i++) {
    size_t column;
    SHOAL_TRY(find_column(p, l, "--drop", p->args->drop[i], &column));
    l->dropped[column] = true;
  }
  return SHOAL_OK;
}

bool shoal_csv_is_target(const shoal_csv_layout *l, size_t column)
{
  size_t k = 0;
  while (k < l->targets && l->target[k] != column) k++;
  return k < l->targets;
}

static shoal_status add_target(const probe *p, shoal_csv_layout *l, size_t column)
{
  char text[96];
  SHOAL_CHECK(!shoal_csv_is_target(l, column), SHOAL_ERR_ARG, "%s: column %s is given by --target twice: leave one out",
              p->path, shoal_csv_column_text(l, column, text, sizeof text));
  SHOAL_CHECK(!l->dropped[column], SHOAL_ERR_ARG, "%s: column %s is a target and cannot be dropped", p->path,
              shoal_csv_column_text(l, column, text, sizeof text));
  l->target[l->targets++] = column;
  return SHOAL_OK;
}

/* Those that options name; of a table like that of a model its targets, if all of them are there. */
static shoal_status find_targets(const probe *p, shoal_csv_layout *l)
{
  const shoal_import_args *a = p->args;
  const size_t known = p->like ? p->like->target_names.n : 0;
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX(a->n_target, known), &l->target));
  for (size_t k = 0; k < a->n_target; k++) {
    size_t column;
    SHOAL_TRY(find_column(p, l, "--target", a->target[k], &column));
    SHOAL_TRY(add_target(p, l, column));
  }
  for (size_t k = 0; k < known && l->header && !a->n_target && !a->label; k++) {
    size_t i = 0;
    while (i < l->columns && (l->dropped[i] || strcmp(l->names[i], p->like->target_names.at[k]) != 0)) i++;
    if (i == l->columns) {
      l->targets = 0;
      return SHOAL_OK;
    }
    SHOAL_TRY(add_target(p, l, i));
  }
  return SHOAL_OK;
}

/* A column that is called label, and has none: the next best column would be learnt without a word of it. */
static shoal_status refuse_empty_label(const probe *p, const shoal_csv_layout *l, size_t column)
{
  char text[96];
  if (p->args->label || !l->header || !is_label_name(l->names[column])) return SHOAL_OK;
  for (size_t i = 0; i < l->columns; i++)
    if (p->blanks[i] < p->rows - 1 && !l->dropped[i] && is_label_name(l->names[i])) return SHOAL_OK;
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s: column %s is empty: there is no label to learn; fill it, or name the right column with --label; "
      "of a table to be predicted, give --label none",
      p->path, shoal_csv_column_text(l, column, text, sizeof text));
}

static shoal_status drop_empty_and_index(const probe *p, shoal_csv_layout *l)
{
  char text[96];
  for (size_t i = 0; i < l->columns; i++) {
    bool empty = p->blanks[i] == p->rows - 1 && (l->header ? p->rows > 1 : !cell(p, 0, i)[0]), index = false;
    if (l->dropped[i]) continue;
    if (empty && shoal_import_unlabelled(p->args) && (l->header ? l->names[i][0] != 0 : i + 1 < l->columns))
      continue; /* the model may know it */
    if (empty) SHOAL_TRY(refuse_empty_label(p, l, i));
    if (!empty && l->header && is_unnamed(l->names[i])) SHOAL_TRY(numbers_rows(p, l, i, &index));
    l->dropped[i] = empty || index;
    bool counts = !l->dropped[i] && i != l->label && p->rows > 4 && counts_rows(p, l, i);
    shoal_csv_column_text(l, i, text, sizeof text);
    char *warning = NULL;
    if (empty) warning = shoal_strdup_printf("%s: column %s is empty: dropped", p->path, text);
    if (index && !l->names[i][0]) snprintf(text, sizeof text, "%zu, without a name,", i + 1);
    if (index)
      warning = shoal_strdup_printf(
          "%s: column %s numbers the rows, as pandas writes its index: dropped; to keep it, give it another name",
          p->path, text);
    if (counts)
      warning = shoal_strdup_printf("%s: column %s counts the rows: if it is an index and no feature, give --drop %zu",
                                    p->path, text, i + 1);
    if (warning) SHOAL_TRY(shoal_texts_take(&l->warnings, warning));
  }
  return SHOAL_OK;
}

/* ---- numbers ---- */

static void find_decimal(const probe *p, shoal_csv_layout *l)
{
  size_t tell[SHOAL_CSV_EITHER + 1] = { 0 };
  if (l->dialect.decimal) return;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++)
    for (size_t i = 0; i < p->columns; i++)
      if (!l->dropped[i] || shoal_csv_is_target(l, i))
        tell[shoal_csv_tells_decimal(&l->dialect, cell(p, r, i), NULL)]++;
  l->dialect.decimal = tell[SHOAL_CSV_COMMA] > tell[SHOAL_CSV_POINT] ? ',' : '.';
}

/* A sign of numbers that separates fields, too, can only be in quotes: some field must have it. */
static shoal_status check_sign(const probe *p, const shoal_csv_layout *l, const char *option, char sign)
{
  if (sign != l->dialect.separator) return SHOAL_OK;
  for (size_t i = 0; i < p->rows * p->columns; i++)
    if (strchr(p->cells[i], sign)) return SHOAL_OK;
  return SHOAL_FAIL(SHOAL_ERR_ARG,
                    "%s: the %s separates fields, so numbers with one would be in quotes, and none is: leave %s out%s",
                    p->path, shoal_csv_sign_name(sign), option,
                    p->args->separator ? "" : ", or give the right separator with --separator");
}

/* Without --label: the one column that is called label, class or target, else the last that is not dropped. */
static shoal_status guess_label(const probe *p, shoal_csv_layout *l)
{
  size_t last = l->columns, named = l->columns, n_named = 0;
  while (last > 0 && l->dropped[last - 1]) last--;
  SHOAL_CHECK(last > 0, SHOAL_ERR_IO, "%s: all %zu columns are dropped", p->path, l->columns);
  l->label = --last;
  for (size_t i = 0; i <= last && l->header; i++)
    if (!l->dropped[i] && (is_label_name(l->names[i]) || (i == 0 && strcasecmp(l->names[i], "y") == 0))) {
      named = i;
      n_named++;
    }
  if (n_named == 0 || is_label_name(l->names[last])) return SHOAL_OK;
  char name[48], other[48];
  shoal_show(l->names[named], name, sizeof name);
  SHOAL_CHECK(n_named == 1, SHOAL_ERR_IO,
              "%s: %zu columns have names of labels (\"%s\" is one), and none of them is the last: give --label",
              p->path, n_named, name);
  l->label = named;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the label is column %zu because it is called \"%s\", not the last one, "
                          "\"%s\"; --label %zu takes that",
                          p->path, named + 1, name, shoal_show(l->names[last], other, sizeof other), last + 1));
}

const char *shoal_csv_column_text(const shoal_csv_layout *l, size_t column, char *buf, size_t cap)
{
  char name[48];
  if (l->header)
    snprintf(buf, cap, "%zu, \"%s\"", column + 1, shoal_show(l->names[column], name, sizeof name));
  else
    snprintf(buf, cap, "%zu", column + 1);
  return buf;
}

void shoal_csv_add_label(const shoal_csv_layout *l, shoal_str *out)
{
  char word[SHOAL_WORD];
  if (!l->header) return;
  if (l->label != SHOAL_CSV_NO_LABEL) shoal_str_add(out, " --label %s", shoal_shell_word(l->names[l->label], word));
  for (size_t k = 0; k < l->targets; k++)
    shoal_str_add(out, " --target %s", shoal_shell_word(l->names[l->target[k]], word));
}

size_t shoal_csv_feature_column(const shoal_csv_layout *l, size_t feature)
{
  size_t i = 0;
  while (l->dropped[i] || i == l->label || l->place[i] != feature) i++;
  return i;
}

/* "a, b, c", or "a, b, c, d, e, ... z" of many features. */
static void add_names(const shoal_csv_layout *l, shoal_str *s)
{
  char name[48];
  size_t shown = 0;
  while (shown < l->features) {
    const size_t i = shoal_csv_feature_column(l, shown);
    if (++shown < SHOWN || shown == l->features)
      shoal_str_add(s, "%s%s", shown > 1 ? ", " : "",
                    l->names[i][0] ? shoal_show(l->names[i], name, sizeof name) : "(no name)");
    else {
      shoal_str_add(s, ", ...");
      shown = l->features - 1;
    }
  }
}

void shoal_csv_layout_tell(const shoal_csv_layout *l, const char *path)
{
  char dialect[64], text[96], name[48];
  shoal_str s = { 0 };
  for (size_t i = 0, shown = 0; i < l->columns && shown <= SHOWN; i++) {
    if (!l->dropped[i] || shoal_csv_is_target(l, i)) continue;
    if (shown == SHOWN)
      shoal_str_add(&s, ", ...");
    else
      shoal_str_add(&s, "%s%zu", shown ? ", " : "; dropped: ", i + 1);
    if (shown < SHOWN && l->header && l->names[i][0])
      shoal_str_add(&s, " \"%s\"", shoal_show(l->names[i], name, sizeof name));
    shown++;
  }
  const bool none = l->label == SHOAL_CSV_NO_LABEL && !l->targets;
  shoal_str label = { 0 };
  if (l->label != SHOAL_CSV_NO_LABEL)
    shoal_str_add(&label, "the label is column %s", shoal_csv_column_text(l, l->label, text, sizeof text));
  for (size_t k = 0; k < SHOAL_MIN(l->targets, (size_t)SHOWN); k++)
    shoal_str_add(&label, "%s%s",
                  k                ? ", "
                  : l->targets > 1 ? "the targets are columns "
                                   : "the target is column ",
                  shoal_csv_column_text(l, l->target[k], text, sizeof text));
  if (l->targets > SHOWN) shoal_str_add(&label, ", ...");
  shoal_info("%s: fields are separated by %s; %s; %s; %s %zu%s", path,
             shoal_csv_dialect_text(&l->dialect, dialect, sizeof dialect),
             l->header ? "the first row is the header" : "no header", none ? "there is no label" : label.text,
             none ? "columns that are features:" : "features are the other", l->features, s.len ? s.text : "");
  shoal_str_free(&label);
  shoal_str_clear(&s);
  if (l->header) {
    add_names(l, &s);
    shoal_info("%s: features: %s", path, s.text);
  }
  shoal_str_free(&s);
  for (size_t i = 0; i < l->warnings.n; i++) shoal_warn("%s", l->warnings.at[i]);
}

typedef struct {
  const char *name;
  size_t column;
} named_column;

static int by_name(const void *a, const void *b)
{
  const named_column *p = a, *q = b;
  const int order = strcmp(p->name, q->name);
  return order ? order : (p->column > q->column) - (p->column < q->column);
}

/* Columns of one name stay what they are; mostly one of them was not meant to be there. */
static shoal_status warn_of_twins(const probe *p, shoal_csv_layout *l)
{
  named_column *all;
  size_t n = 0, twins = 0, one = 0, other = 0;
  char text[96], more[80] = "";
  if (!l->header) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &all));
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && l->names[i][0]) all[n++] = (named_column){ l->names[i], i };
  qsort(all, n, sizeof *all, by_name);
  for (size_t i = 1; i < n; i++)
    if (strcmp(all[i].name, all[i - 1].name) == 0 && twins++ == 0) {
      one = all[i - 1].column;
      other = all[i].column;
    }
  free(all);
  if (!twins || l->features < 2) return SHOAL_OK;
  if (twins > 1) snprintf(more, sizeof more, ", and %zu more columns have a name that is taken", twins - 1);
  return shoal_texts_take(&l->warnings,
                          shoal_strdup_printf("%s: column %zu has the same name as column %s%s: both are used; --drop "
                                              "%zu leaves one out",
                                              p->path, other + 1, shoal_csv_column_text(l, one, text, sizeof text),
                                              more, other == l->label ? one + 1 : other + 1));
}

/* Columns whose names look the same; each may have half of the numbers, as tables that were joined have it. */
static shoal_status warn_of_alike(const probe *p, shoal_csv_layout *l)
{
  size_t one, other;
  char text[96], name[48], what[96];
  if (!l->header || !shoal_find_alike((const char *const *)l->names, l->columns, &one, &other)) return SHOAL_OK;
  if (l->dropped[one] || l->dropped[other]) return SHOAL_OK;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the names of column %s and column %zu, \"%s\", differ only in %s: are they one?",
                          p->path, shoal_csv_column_text(l, one, text, sizeof text), other + 1,
                          shoal_show(l->names[other], name, sizeof name),
                          shoal_difference(l->names[one], l->names[other], what, sizeof what)));
}

/* A tenth or more of the first rows have words in a column, or all that have something there: not slips of single rows. */
static bool holds_words(const probe *p, const shoal_csv_layout *l, size_t column)
{
  enum { LEAST = 10 }; /* one row in so many */
  size_t words = 0;
  if (column == l->label || l->dropped[column] || p->blanks[column] == p->rows - 1) return false;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = cell(p, r, column);
    words += text[0] && !is_number(l, text) && !is_quoted_number(text) && !shoal_csv_is_list(text) &&
             !shoal_csv_marks_gap(text) && shoal_csv_tells_decimal(&l->dialect, text, NULL) == SHOAL_CSV_NEITHER;
  }
  return words > 0 && (!p->numbers[column] || (words > 1 && LEAST * words >= p->rows - 1));
}

static bool has_gaps(const probe *p, const shoal_csv_layout *l, size_t column)
{
  bool found = p->blanks[column] > 0;
  for (size_t r = 1; r < p->rows && !found; r++) found = shoal_csv_marks_gap(cell(p, r, column));
  return found && column != l->label && !l->dropped[column];
}

/* Whether the words of a column come again, as those do that stand for kinds of things. */
static bool are_few(const probe *p, size_t column)
{
  enum { VALUES = 50 };
  const char *seen[VALUES];
  size_t n = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t k = 0;
    while (k < n && strcmp(seen[k], cell(p, r, column)) != 0) k++;
    if (k == VALUES) return false;
    if (k == n) seen[n++] = cell(p, r, column);
  }
  return 2 * n <= p->rows;
}

/* Most cells below the first have so many words. */
static bool are_texts(const probe *p, size_t column, size_t least)
{
  size_t texts = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t words = 1;
    for (const char *at = cell(p, r, column); *at; at++) words += *at == ' ' && at[1] != ' ';
    texts += words >= least;
  }
  return 2 * texts >= p->rows;
}

/* The first field of a column that has something, if that is a date; else NULL. */
static const char *find_date(const probe *p, size_t column)
{
  size_t r = 1;
  while (r < p->rows && (!cell(p, r, column)[0] || shoal_csv_marks_gap(cell(p, r, column)))) r++;
  return r < p->rows && shoal_csv_is_date(cell(p, r, column)) ? cell(p, r, column) : NULL;
}

static void note_words(const probe *p, shoal_csv_layout *l, size_t column)
{
  const bool few = are_few(p, column);
  shoal_str *list = few ? &l->few : &l->many;
  shoal_str_add(list, "%s%zu", list->len ? ", " : "", column);
  l->text[column] = !few && are_texts(p, column, 4);
}

/* Features with words in the first rows, for who is told of the first of them; of the others, which have gaps. */
static void list_words(const probe *p, shoal_csv_layout *l)
{
  enum { MOST = 40 };
  shoal_str drop = { 0 }, gaps = { 0 };
  size_t n = 0, rare = 0, n_gaps = 0;
  for (size_t i = 0; i < l->columns; i++) {
    if (!holds_words(p, l, i)) {
      if (has_gaps(p, l, i) && n_gaps++ < SHOWN) shoal_str_add(&gaps, "%s%zu", n_gaps > 1 ? ", " : "", i + 1);
      continue;
    }
    if (find_date(p, i))
      shoal_str_add(&l->dates, "%s%zu", l->dates.len ? ", " : "", i + 1);
    else
      note_words(p, l, i);
    if (n++ >= MOST) continue;
    rare += p->numbers[i] > 0;
    shoal_str_add(&l->words, "%s%zu", n > 1 ? ", " : "; columns ", i + 1);
    shoal_str_add(&drop, " --drop %zu", i + 1);
  }
  const bool guessed = l->label != SHOAL_CSV_NO_LABEL && !p->args->label && l->numeric[l->label];
  if (n < 2 || n > MOST || (n >= l->features && !guessed))
    shoal_str_clear(&l->words);
  else
    shoal_str_add(&l->words, " hold %s%s", rare ? "words" : "no numbers",
                  guessed ? ": --label takes one of them," : ", and");
  if (l->words.len && n >= l->features)
    shoal_str_add(&l->words, " --drop leaves one out");
  else if (l->words.len)
    shoal_str_add(&l->words, "%s leave all of these out", drop.text);
  if (l->words.len && n_gaps && !p->args->missing)
    shoal_str_add(&l->words, "; %s%s ha%s gaps, which --missing mean fills", gaps.text, n_gaps > SHOWN ? ", ..." : "",
                  n_gaps > 1 ? "ve" : "s");
  shoal_str_free(&gaps);
  shoal_str_free(&drop);
}

/* ---- files whose first row has one column ---- */

typedef struct {
  size_t line;   /* the first one below the first row that has signs between fields; 0: none */
  bool uneven;   /* and below that a row with more or fewer of them: no table, but words with commas */
  size_t spaces; /* in the first row, as in all others, none beside another; 0: they differ */
  bool aligned;  /* all rows have as many words, two or more, with spaces between and around them */
  bool pairs;    /* rows such as "1 1:0.5 7:0.25", of LIBSVM */
} lines;

static lines look_at_lines(const char *text, size_t n)
{
  enum { MOST = 100 };
  lines l = { 0 };
  const char *end = text + n;
  size_t first = 0, first_words = 0, first_signs = 0;
  bool alike = true;
  l.aligned = true;
  for (size_t line = 1; line <= MOST && text < end; line++) {
    size_t spaces = 0, signs = 0, colons = 0, words = 0;
    char before = ' ';
    bool doubled = false;
    for (; text < end && *text != '\n'; text++) {
      doubled |= *text == ' ' && text + 1 < end && (text[1] == ' ' || text[1] == '\n');
      spaces += *text == ' ';
      words += before == ' ' && *text != ' ' && *text != '\r';
      before = *text;
      colons += *text == ':';
      signs += strchr(",;\t|", *text) != NULL && *text;
    }
    text += text < end;
    if (line == 1) first = spaces;
    if (line == 1) first_words = words;
    l.aligned &= words == first_words && words > 1;
    if (line == 1) l.pairs = colons > 0 && colons == spaces;
    alike &= spaces == first && !doubled;
    if (signs && line > 1 && !l.line) {
      l.line = line;
      first_signs = signs;
    }
    l.uneven |= l.line && words && signs != first_signs;
  }
  l.spaces = alike ? first : 0;
  return l;
}

static shoal_status check_columns(const probe *p, const shoal_csv_layout *l, const char *text, size_t n)
{
  char word[SHOAL_WORD];
  const char *file = shoal_shell_word(p->path, word);
  if (l->columns >= 2) return SHOAL_OK;
  const lines found = look_at_lines(text, n);
  SHOAL_CHECK(
      text[0] != '"' || !strpbrk(cell(p, 0, 0), ",;\t|"), SHOAL_ERR_IO,
      "%s:1:1: the row is in quotes as a whole, so it is one field: remove these, as sed 's/^\"//;s/\"[[:space:]]*$//' "
      "%s >NEW does",
      p->path, file);
  SHOAL_CHECK(text[0] != '#' || !found.line, SHOAL_ERR_IO,
              "%s:1:1: lines with # are no comments here: remove them, as grep -v '^#' %s >NEW does", p->path, file);
  SHOAL_CHECK(
      !found.line || !found.uneven, SHOAL_ERR_IO,
      "%s:1:1: one column only, with words between commas or the like from line %zu on, and not equally many in "
      "all rows: features are numbers, in columns, beside a label; text alone is read by shoal data import text",
      p->path, found.line);
  SHOAL_CHECK(
      !found.line, SHOAL_ERR_IO,
      "%s:1:1: one column only, and more in line %zu: if the table begins there, remove what is above it, as tail "
      "-n +%zu %s >NEW does",
      p->path, found.line, found.line, file);
  static const char *const packages[] = { "sklearn", "numpy", NULL };
  char from[SHOAL_WORD], to[SHOAL_WORD], *npz = shoal_strdup_printf("%s.npz", p->path);
  shoal_python python;
  shoal_python_text(p->path, from);
  shoal_python_text(npz, to);
  free(npz);
  shoal_find_python(packages, &python);
  SHOAL_CHECK(!found.pairs, SHOAL_ERR_IO,
              "%s: rows of LIBSVM (index:value) are not read: %s -c \"import numpy, sklearn.datasets; x, y = "
              "sklearn.datasets.load_svmlight_file(%s); numpy.savez(%s, x=x.toarray(), y=y)\" makes arrays to be "
              "imported with kind npy%s%s",
              p->path, python.run, from, to, python.needs[0] ? "; it " : "", python.needs);
  SHOAL_CHECK(found.spaces || !found.aligned, SHOAL_ERR_IO,
              "%s:1:1: one column only, whose words are aligned by spaces: write one comma for each gap, as sed 's/^ "
              "*//;s/ *$//;s/  "
              "*/,/g' %s >NEW does",
              p->path, file);
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s:1:1: one column only; features and a label are needed, between commas, semicolons, tabs or bars, "
      "or what --separator says%s",
      p->path, found.spaces ? ", as in --separator ' '" : "");
}

/* ---- like what a model was trained on ---- */

/* Half or more of the cells that are not empty are classes of the model; `any`: some cell is not empty. */
static bool holds_classes(const probe *p, const shoal_csv_layout *l, size_t column, bool *any)
{
  size_t fits = 0, all = 0;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    all += cell(p, r, column)[0] != 0;
    fits += cell(p, r, column)[0] && shoal_csv_like_class(p->like, cell(p, r, column)) >= 0;
  }
  *any = all > 0;
  return all > 0 && 2 * fits >= all;
}

/* Half or more of the cells that are not empty are nearly classes of the model, as with a dot behind them: labels that are misspelt, which
 * are refused by their rows. */
static bool holds_misspelt(const probe *p, const shoal_csv_layout *l, size_t column)
{
  const shoal_texts *classes = &p->like->class_names;
  size_t near = 0, all = 0;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    const char *text = cell(p, r, column);
    all += text[0] != 0;
    near += text[0] && shoal_nearest(text, (const char *const *)classes->at, classes->n);
  }
  return all > 0 && 2 * near >= all && !l->numeric[column];
}

/* Of the columns that the model does not know one may be the label: by its name, or the last if it holds classes, or what is nearly
 * so. */
static void guess_known_label(const probe *p, shoal_csv_layout *l)
{
  bool any;
  l->label = SHOAL_CSV_NO_LABEL;
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && l->header && is_label_name(l->names[i])) {
      (void)holds_classes(p, l, i, &any);
      if (any) l->label = i;
      if (any) return;
    }
  for (size_t i = l->columns; i-- > 0;)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && holds_classes(p, l, i, &any)) {
      l->label = i;
      return;
    }
  for (size_t i = l->columns; i-- > 0 && l->label == SHOAL_CSV_NO_LABEL;)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && holds_misspelt(p, l, i)) l->label = i;
}

/* The first column with that name, or one that looks like it, that is no feature yet; else `columns`. */
static size_t find_named(const shoal_csv_layout *l, const char *name, bool alike)
{
  char shown[256];
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && l->place[i] == SIZE_MAX &&
        (alike ? shoal_look_alike(l->names[i], name) : strcmp(shoal_show(l->names[i], shown, sizeof shown), name) == 0))
      return i;
  return l->columns;
}

/* Whether a missing feature was made of a column: "sex_male" of "sex". */
static bool is_made_of(const char *feature, const char *column)
{
  const size_t n = strlen(column);
  return n > 0 && strncmp(feature, column, n) == 0 && feature[n] == '_';
}

/* Whether the columns whose names begin with the first n bytes of a feature's, up to a "_", are one-hot as far as the first rows tell:
 * 0 and 1, and at most one 1 in a row. */
static bool are_one_hot(const probe *p, const shoal_csv_layout *l, const char *feature, size_t n)
{
  size_t found = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t ones = 0;
    found = 0;
    for (size_t i = 0; i < l->columns; i++) {
      if (strncmp(l->names[i], feature, n) != 0 || l->names[i][n] != '_') continue;
      const char *text = cell(p, r, i);
      if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) return false;
      ones += *text == '1';
      found++;
    }
    if (ones > 1) return false;
  }
  return found > 0;
}

/* How many bytes of a missing feature's name are that of the column with words that it was made of: of one that the table has, else
 * of one whose other words it has as columns; 0 if there is none. */
static size_t find_origin(const probe *p, const shoal_csv_layout *l, const char *feature)
{
  size_t n = 0;
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && !l->numeric[i] && is_made_of(feature, l->names[i]))
      n = SHOAL_MAX(n, strlen(l->names[i]));
  for (size_t k = strlen(feature); k-- > 1 && !n;)
    if (feature[k] == '_' && are_one_hot(p, l, feature, k)) n = k;
  return n;
}

/* The command that makes missing features of words, as those of the table that the model was trained on were made; nothing where none
 * can be.  *all: it makes all of them. */
static shoal_status add_known(const probe *p, const shoal_csv_layout *l, const shoal_texts *missing, shoal_str *command,
                              bool *all)
{
  shoal_str words = { 0 };
  shoal_csv_known known = { .text = l->columns };
  size_t made = 0;
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &known.dates));
  for (size_t i = 0; i < l->columns; i++) {
    if (l->place[i] != SIZE_MAX)
      known.dates[i] = find_date(p, i);
    else if (known.text == l->columns && are_texts(p, i, 2))
      known.text = i;
  }
  bool text = false;
  for (size_t k = 0; k < missing->n; k++) {
    const char *feature = missing->at[k];
    const size_t n = find_origin(p, l, feature);
    const bool word = !n && known.text < l->columns && is_made_of(feature, "word");
    char *name = shoal_strdup_printf("\"%.*s\"", (int)n, feature);
    const bool plain = n && !memchr(feature, '"', n) && !memchr(feature, '\'', n) && !memchr(feature, '\\', n);
    if (plain && !(words.len && strstr(words.text, name))) shoal_str_add(&words, "%s%s", words.len ? ", " : "", name);
    free(name);
    text |= word;
    made += plain || word;
  }
  if (!text) known.text = l->columns;
  known.words = words.len ? words.text : "";
  if (made) shoal_csv_command_known(l, p->path, p->like->path, &known, command);
  *all = made == missing->n;
  shoal_str_free(&words);
  free(known.dates);
  return SHOAL_OK;
}

static shoal_status refuse_missing(const probe *p, const shoal_csv_layout *l, const shoal_texts *missing)
{
  char shown[48];
  SHOAL_TRY(check_names(p, l));
  shoal_str lacks = { 0 }, has = { 0 };
  size_t others = 0;
  for (size_t i = 0; i < missing->n && i < SHOWN; i++) shoal_str_add(&lacks, "%s\"%s\"", i ? ", " : "", missing->at[i]);
  if (missing->n > SHOWN) shoal_str_add(&lacks, " and %zu more", missing->n - SHOWN);
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && others++ < SHOWN)
      shoal_str_add(&has, "%s\"%s\"", others > 1 ? ", " : "", shoal_show(l->names[i], shown, sizeof shown));
  shoal_str command = { 0 };
  bool all = false;
  const bool more = missing->n > 1;
  shoal_status st = add_known(p, l, missing, &command, &all);
  if (st == SHOAL_OK)
    st = SHOAL_FAIL(SHOAL_ERR_ARG, "%s lacks the column%s %s, which %s was trained on%s%s%s: %s%s%s%s%s", p->path,
                    more ? "s" : "", lacks.text, p->like->path, has.len ? "; that does not know " : "",
                    has.len ? has.text : "", others > SHOWN ? ", ..." : "",
                    all    ? ""
                    : more ? "add them (where their values are not known, empty, with --missing mean), or name them as "
                             "there"
                           : "add it (where its values are not known, empty, with --missing mean), or name it as there",
                    command.len && !all ? "; those of words: " : "",
                    command.len ? "make columns of 1 and 0 of its words, as those of the model were made" : "",
                    command.len ? shoal_csv_command_order(&command) : "", command.len ? ", as " : "");
  if (command.len) st = shoal_error_append(st, "%s", command.text);
  shoal_str_free(&command);
  shoal_str_free(&lacks);
  shoal_str_free(&has);
  return st;
}

/* By their names, in the order of the model. */
static shoal_status place_named(const probe *p, shoal_csv_layout *l)
{
  const shoal_texts *names = &p->like->names;
  shoal_texts missing = { 0 };
  char shown[48], what[96];
  bool *found;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(names->n, &found));
  for (int alike = 0; alike < 2 && st == SHOAL_OK; alike++)
    for (size_t k = 0; k < names->n && st == SHOAL_OK; k++) {
      const size_t i = found[k] ? l->columns : find_named(l, names->at[k], alike);
      if (i < l->columns) {
        found[k] = true;
        l->place[i] = k;
      }
      if (alike && !found[k]) st = shoal_texts_add(&missing, names->at[k]);
      if (alike && i < l->columns)
        st = shoal_texts_take(
            &l->warnings,
            shoal_strdup_printf("%s: column %zu, \"%s\", is taken for \"%s\" of %s: they differ only in %s", p->path,
                                i + 1, shoal_show(l->names[i], shown, sizeof shown), names->at[k], p->like->path,
                                shoal_difference(l->names[i], names->at[k], what, sizeof what)));
    }
  if (st == SHOAL_OK && missing.n) st = refuse_missing(p, l, &missing);
  shoal_texts_free(&missing);
  free(found);
  return st;
}

/* By their order, of a table without a header; one column more is the label. */
static shoal_status place_counted(const probe *p, shoal_csv_layout *l)
{
  size_t kept = 0, k = 0;
  for (size_t i = 0; i < l->columns; i++) kept += !l->dropped[i] && i != l->label;
  if (kept == p->like->features + 1 && !p->args->label && !p->like->targets) {
    SHOAL_TRY(guess_label(p, l));
    kept--;
  }
  SHOAL_CHECK(kept == p->like->features, SHOAL_ERR_ARG,
              "%s has %zu columns for features, %s was trained on %zu%s: give the same ones (--drop leaves one out)",
              p->path, kept, p->like->path, p->like->features,
              p->like->names.n && !l->header ? ", and the table has no header that names them" : "");
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && i != l->label) l->place[i] = k++;
  if (!p->like->names.n) return SHOAL_OK;
  return shoal_texts_take(
      &l->warnings, shoal_strdup_printf("%s has no header that names its columns: they are taken in the order of %s",
                                        p->path, p->like->path));
}

static shoal_status find_known(const probe *p, shoal_csv_layout *l)
{
  const char *label = p->args->label;
  const bool none = shoal_import_unlabelled(p->args);
  const bool numbers = p->like->targets > 0;
  l->like = true;
  l->label = SHOAL_CSV_NO_LABEL;
  SHOAL_CHECK(!numbers || !label || none, SHOAL_ERR_ARG,
              "--label: %s was trained to predict numbers: give --target, or leave it out", p->like->path);
  SHOAL_CHECK(l->targets == 0 || l->targets == p->like->targets, SHOAL_ERR_ARG,
              "%s was trained on %zu target%s%s, and %zu %s given: name the same ones, or leave --target out",
              p->like->path, p->like->targets, p->like->targets == 1 ? "" : "s", numbers ? "" : " but classes",
              l->targets, l->targets == 1 ? "is" : "are");
  if (label && !none) SHOAL_TRY(find_column(p, l, "--label", label, &l->label));
  if (!l->header || !p->like->names.n) {
    SHOAL_TRY(place_counted(p, l));
  } else {
    SHOAL_TRY(place_named(p, l));
    SHOAL_CHECK(!label || none || l->place[l->label] == SIZE_MAX, SHOAL_ERR_ARG,
                "%s: column %zu is a feature of %s, and not the label", p->path, l->label + 1, p->like->path);
    if (!label && !numbers) guess_known_label(p, l);
  }
  for (size_t i = 0; i < l->columns; i++) l->dropped[i] |= i != l->label && l->place[i] == SIZE_MAX;
  l->features = p->like->features;
  return SHOAL_OK;
}

/* Whether all cells of a column are words for a split, such as "train" and "test", of two kinds or more. */
static bool holds_splits(const probe *p, const shoal_csv_layout *l, size_t column)
{
  enum { LONGEST = 16 };
  bool training = false, others = false;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    const char *text = cell(p, r, column);
    if (strlen(text) > LONGEST || !shoal_import_names_split(text)) return false;
    training |= shoal_import_trains(text);
    others |= !shoal_import_trains(text);
  }
  return training && others;
}

/* Of a column called "is_train" or "isTest" whose cells are 1 and 0, or truth values, what 1 stands for; else NULL. */
static const char *split_marks(const probe *p, const shoal_csv_layout *l, size_t column)
{
  static const char *const values[] = { "1", "0", "true", "false" };
  if (!l->header || strncasecmp(l->names[column], "is", 2) != 0 || !shoal_import_names_split(l->names[column]))
    return NULL;
  for (size_t r = 1; r < p->rows; r++) {
    bool known = false;
    for (size_t k = 0; k < SHOAL_COUNT(values); k++) known |= strcasecmp(cell(p, r, column), values[k]) == 0;
    if (!known) return NULL;
  }
  return shoal_import_trains(l->names[column]) ? "train" : "test";
}

/* A column that says which rows are for tests is no feature, nor the label; it is told once fields with lists are mended. */
static shoal_status refuse_splits(const probe *p, const shoal_csv_layout *l)
{
  char text[96];
  for (size_t i = 0; i < l->columns; i++)
    if (p->rows > 1 && shoal_csv_is_list(cell(p, 1, i)) && !l->dropped[i]) return SHOAL_OK;
  for (size_t i = 0; i < l->columns; i++) {
    if (l->dropped[i] || (p->args->label && i == l->label)) continue;
    const char *marks = split_marks(p, l, i);
    if (!marks && !holds_splits(p, l, i)) continue;
    shoal_str command = { 0 }, label = { 0 };
    shoal_csv_command_splits(l, p->path, i, marks, &command);
    shoal_str_add(&label, "%s", "");
    if (p->args->label || l->targets) shoal_csv_add_label(l, &label);
    shoal_status st = SHOAL_FAIL(
        SHOAL_ERR_IO,
        "%s: column %s says which rows are for tests: make a table of each part, as %s, and shoal data import "
        "csv NEW%s -o NEW.h5; or leave the column out with --drop %zu, and test samples are drawn",
        p->path, shoal_csv_column_text(l, i, text, sizeof text), command.text, label.text, i + 1);
    shoal_str_free(&command);
    shoal_str_free(&label);
    return st;
  }
  return SHOAL_OK;
}

/* The label is settled after what is dropped, since an empty last column is not the label. */
static shoal_status find_all(const probe *p, shoal_csv_layout *l)
{
  const char *label = p->args->label;
  SHOAL_TRY(find_header(p, l, &l->header));
  SHOAL_TRY(copy_header(p, l));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->dropped));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->numeric));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->text));
  for (size_t i = 0; i < l->columns; i++) l->numeric[i] = p->rows > 1 && 2 * p->numbers[i] >= p->rows - 1;
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->place));
  for (size_t i = 0; i < l->columns; i++) l->place[i] = SIZE_MAX;
  SHOAL_TRY(drop_asked(p, l));
  SHOAL_TRY(find_targets(p, l));
  for (size_t k = 0; k < l->targets; k++) l->dropped[l->target[k]] = true;
  find_decimal(p, l);
  if (p->like) return find_known(p, l);
  SHOAL_TRY(check_names(p, l));
  const bool none = shoal_import_unlabelled(p->args) || l->targets > 0;
  l->label = none ? SHOAL_CSV_NO_LABEL : l->columns - 1;
  if (label && !none) SHOAL_TRY(find_column(p, l, "--label", label, &l->label));
  SHOAL_TRY(drop_empty_and_index(p, l));
  if (!label && !none) SHOAL_TRY(guess_label(p, l));
  SHOAL_CHECK(none || !l->dropped[l->label], SHOAL_ERR_ARG, "%s: column %zu is the label and cannot be dropped",
              p->path, l->label + 1);
  l->features = 0;
  for (size_t i = 0; i < l->columns; i++)
    if (i != l->label && !l->dropped[i]) l->place[i] = l->features++;
  SHOAL_CHECK(l->features > 0, SHOAL_ERR_ARG, "%s: no column is left for a feature", p->path);
  SHOAL_TRY(refuse_splits(p, l));
  list_words(p, l);
  SHOAL_TRY(warn_of_alike(p, l));
  return warn_of_twins(p, l);
}

/* The signs that options give; a sign between thousands leaves the other one for decimals. */
static shoal_csv_dialect given_dialect(const shoal_import_args *a)
{
  shoal_csv_dialect d = { shoal_import_separator(a), a->decimal ? a->decimal[0] : '\0', shoal_import_thousands(a) };
  if (d.thousands == ',') d.decimal = '.';
  if (d.thousands == '.') d.decimal = ',';
  return d;
}

shoal_status shoal_csv_layout_find(const shoal_import_args *a, const shoal_csv_like *like, char decimal,
                                   const char *path, const char *text, size_t n, shoal_csv_layout *out)
{
  probe p = { .args = a, .like = like, .path = path };
  shoal_csv_layout l = { .dialect = given_dialect(a) };
  shoal_status st;
  if (decimal) l.dialect.decimal = decimal;
  SHOAL_TRY_GOTO(st, shoal_csv_find_separator(path, text, n, &l.dialect), done);
  SHOAL_TRY_GOTO(st, open_probe(&p, &l, text, n), done);
  l.columns = p.columns;
  l.tail = p.tail;
  if (p.tail)
    SHOAL_TRY_GOTO(st,
                   shoal_texts_take(&l.warnings, shoal_strdup_printf(
                                                     "%s: the first row ends with a separator, and the rows below do "
                                                     "not: the empty column behind it is left out",
                                                     path)),
                   done);
  if (a->decimal) SHOAL_TRY_GOTO(st, check_sign(&p, &l, "--decimal", a->decimal[0]), done);
  if (a->thousands) SHOAL_TRY_GOTO(st, check_sign(&p, &l, "--thousands", l.dialect.thousands), done);
  SHOAL_TRY_GOTO(st, check_columns(&p, &l, text, n), done);
  st = find_all(&p, &l);
done:
  close_probe(&p);
  if (st == SHOAL_OK)
    *out = l;
  else
    shoal_csv_layout_fini(&l);
  return st;
}

void shoal_csv_layout_fini(shoal_csv_layout *l)
{
  for (size_t i = 0; l->names && i < l->columns; i++) free(l->names[i]);
  free(l->names);
  free(l->dropped);
  free(l->target);
  free(l->place);
  free(l->numeric);
  free(l->text);
  shoal_str_free(&l->few);
  shoal_str_free(&l->many);
  shoal_str_free(&l->dates);
  shoal_str_free(&l->words);
  shoal_texts_free(&l->warnings);
  *l = (shoal_csv_layout){ 0 };
}
