/* What is said of rows and fields of a CSV that cannot be read: where they are, what they look like, and the command or option
 * that mends them.  What a single field may be is in csv_field.c. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_command.h"
#include "data/csv_field.h"
#include "data/csv_table.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool shoal_csv_signs_given(const shoal_csv_table *t)
{
  return t->args->decimal || t->args->thousands;
}

/* A field that has the other decimal sign than the rest. */
static shoal_status refuse_sign(const shoal_csv_table *t, const shoal_csv *c, const shoal_csv_field *f,
                                const char *column)
{
  const char *other = shoal_csv_sign_name(t->layout.dialect.decimal == '.' ? ',' : '.');
  const char *option = t->args->decimal ? "--decimal" : "--thousands";
  const char *given = t->args->decimal ? t->args->decimal : t->args->thousands;
  if (shoal_csv_signs_given(t))
    return SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s:%zu:%zu: \"%.40s\" in column %s has a decimal %s, which %s %s excludes: leave %s out if all "
                      "numbers are written so, else write this one with the sign of the others",
                      c->path, f->line, f->column, f->text, column, other, option, given, option);
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
static bool is_second_header(const shoal_csv_table *t, const shoal_csv *c, size_t column)
{
  const shoal_csv_layout *l = &t->layout;
  double unused;
  if (!l->header || t->rows > t->file_rows || l->features < 2 || !l->numeric[column]) return false;
  if (!c->fields[column].text[0] || shoal_csv_is_list(c->fields[column].text)) return false;
  for (size_t i = 0; i < c->n; i++)
    if (i != l->label && !l->dropped[i] && shoal_csv_number(&l->dialect, c->fields[i].text, &unused, NULL))
      return false;
  return true;
}

/* The line where rows begin that all have as many fields, and others than the first row has, as a table below what an instrument
 * says about itself; 0 if there is none, or rows were read before.  Reads on, so that the current row is lost. */
static size_t find_table(const shoal_csv_table *t, shoal_csv *c)
{
  enum { AHEAD = 200, LEAST = 3, ABOVE = 3 };
  size_t fields = c->n, line = c->fields[0].line, rows = 1;
  bool end = false;
  shoal_error ignored;
  if (t->rows - t->file_rows > ABOVE || c->path != t->args->sources[0]) return 0;
  for (size_t k = 0; k < AHEAD && !end; k++) {
    if (shoal_csv_next(c, &end) != SHOAL_OK) {
      shoal_error_take(&ignored);
      break;
    }
    if (end) break;
    if (c->n != fields) {
      fields = c->n;
      line = c->fields[0].line;
      rows = 0;
    }
    rows++;
  }
  return fields > t->layout.columns && line > 2 && rows >= LEAST ? line : 0;
}

/* ---- a table that lies on its side ---- */

/* What a row has behind its first field, which is a word. */
typedef enum { ROW_NUMBERS, ROW_CLASSES, ROW_OTHER } row_kind;

/* Classes are words of which some come again. */
static row_kind kind_of_row(const shoal_csv_layout *l, const shoal_csv *c)
{
  enum { LOOKED_AT = 64 };
  double unused;
  bool again = false;
  if (c->n != l->columns || c->n < 4 || shoal_csv_number(&l->dialect, c->fields[0].text, &unused, NULL))
    return ROW_OTHER;
  const bool numbers = shoal_csv_number(&l->dialect, c->fields[1].text, &unused, NULL);
  for (size_t i = 1; i < SHOAL_MIN(c->n, LOOKED_AT); i++) {
    const char *text = c->fields[i].text;
    if (!text[0] || shoal_csv_number(&l->dialect, text, &unused, NULL) != numbers) return ROW_OTHER;
    for (size_t k = 1; k < i && !again; k++) again = strcmp(c->fields[k].text, text) == 0;
  }
  return numbers ? ROW_NUMBERS : again ? ROW_CLASSES : ROW_OTHER;
}

/* The field in front of the only row of classes, if all other rows are names and numbers: each column is a sample, as tables of
 * genes are written.  Reads on, to the first row that is something else. */
static bool find_side(const shoal_csv_table *t, shoal_csv *c, shoal_csv_field *classes)
{
  size_t found = 0, numbers = t->rows - t->file_rows;
  bool end = false;
  shoal_error ignored;
  if (t->like || c->path != t->args->sources[0] || (numbers > 0 && t->layout.numeric[0])) return false;
  do {
    const row_kind kind = kind_of_row(&t->layout, c);
    if (kind == ROW_OTHER) return false;
    numbers += kind == ROW_NUMBERS;
    if (kind == ROW_CLASSES && found++ == 0) *classes = c->fields[0];
    if (shoal_csv_next(c, &end) == SHOAL_OK) continue;
    shoal_error_take(&ignored);
    return false;
  } while (!end);
  return found == 1 && numbers >= 2;
}

static shoal_status refuse_side(const shoal_csv_table *t, const shoal_csv *c, const shoal_csv_field *classes)
{
  static const char *const packages[] = { "pandas", NULL };
  char word[SHOAL_WORD], label[SHOAL_WORD], shown[48], separator[16] = "";
  const char sign = t->layout.dialect.separator;
  shoal_python python;
  shoal_find_python(packages, &python);
  if (sign == '\t')
    snprintf(separator, sizeof separator, ", sep=\"\\t\"");
  else if (sign != ',')
    snprintf(separator, sizeof separator, ", sep=\"%c\"", sign);
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s lies on its side: line %zu, \"%s\", has classes and each other row numbers behind a name, but rows must be "
      "samples: turn it, as %s -c 'import sys, pandas; pandas.read_csv(sys.argv[1], dtype=str%s, index_col=0, "
      "keep_default_na=False%s).T.to_csv(sys.argv[2], index=False%s)' %s NEW does, and import NEW with --label %s%s%s",
      c->path, classes->line, shoal_show(classes->text, shown, sizeof shown), python.run,
      t->layout.header ? "" : ", header=None", separator, separator, shoal_shell_word(c->path, word),
      shoal_shell_word(classes->text, label), *python.needs ? "; it " : "", python.needs);
}

static shoal_status refuse_preamble(const shoal_csv *c, size_t line, size_t columns)
{
  char word[SHOAL_WORD];
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s:%zu:1: the rows from here on have more fields than the first one, which has %zu: if the table begins here, "
      "remove what is above it, as tail -n +%zu %s >NEW does",
      c->path, line, columns, line, shoal_shell_word(c->path, word));
}

/* ---- rows that have something else where the others have numbers ---- */

typedef struct {
  size_t rows, gaps; /* rows with such a field; fields that --missing mends */
  size_t beyond;     /* of these, numbers that no 32-bit float can hold */
  size_t most_line;  /* of the one that is farthest from 0 */
  char most[48];
  bool lines;          /* each is on one line */
  shoal_str list, sed; /* "3, 9", "3d;9d": lines of the first rows */
} slips;
enum { MOST_LINES = 20 };

static bool is_slip(const shoal_csv_layout *l, size_t column, const char *text)
{
  double unused;
  return l->numeric[column] && l->holds[column] == SHOAL_CSV_NUMBERS && text[0] && !shoal_csv_marks_gap(text) &&
         !shoal_csv_is_beyond(&l->dialect, text) && !shoal_csv_number(&l->dialect, text, &unused, NULL);
}

/* What strtold knows of a number beyond doubles is enough to compare. */
static long double size_of(const shoal_csv_layout *l, const char *text)
{
  double v;
  if (shoal_csv_is_infinite(text)) return INFINITY;
  return fabsl(shoal_csv_number(&l->dialect, text, &v, NULL) ? v : strtold(text, NULL));
}

static void note_beyond(const shoal_csv_layout *l, const char *text, size_t line, slips *s)
{
  if (s->beyond++ > 0 && size_of(l, text) <= size_of(l, s->most)) return;
  snprintf(s->most, sizeof s->most, "%.40s", text);
  s->most_line = line;
}

/* Whether a row is the header, which is no slip. */
static bool is_header(const shoal_csv_layout *l, const shoal_csv *c)
{
  size_t i = 0;
  while (l->header && i < l->columns && strcmp(c->fields[i].text, l->names[i]) == 0) i++;
  return i == l->columns;
}

/* All such rows of a file, which is read anew; nothing is found where that fails, or behind a row that has other columns. */
static slips find_slips(const shoal_csv_table *t, const char *path)
{
  const shoal_csv_layout *l = &t->layout;
  slips s = { .lines = true };
  shoal_csv c = { 0 };
  char *text = NULL;
  size_t n;
  bool end = false;
  shoal_status st = shoal_source_slurp(path, &text, &n);
  if (st == SHOAL_OK) shoal_csv_init(&c, path, text, n, l->dialect);
  while (st == SHOAL_OK && (st = shoal_csv_next(&c, &end)) == SHOAL_OK && !end && c.n == l->columns) {
    const shoal_csv_field *last = &c.fields[c.n - 1];
    const size_t line = c.fields[0].line;
    bool here = false;
    if (is_header(l, &c)) continue;
    for (size_t i = 0; i < l->columns; i++) {
      if (i == l->label || l->dropped[i]) continue;
      const char *field = c.fields[i].text;
      here |= is_slip(l, i, field);
      const bool beyond = l->holds[i] == SHOAL_CSV_NUMBERS && shoal_csv_is_beyond(&l->dialect, field);
      if (beyond) note_beyond(l, field, line, &s);
      s.gaps += !t->args->missing && (beyond || !field[0] || shoal_csv_marks_gap(field));
    }
    if (here) s.lines &= last->line == line && !strchr(last->text, '\n') && s.rows < MOST_LINES;
    if (here && s.rows++ < MOST_LINES) {
      shoal_str_add(&s.list, "%s%zu", s.rows > 1 ? ", " : "", line);
      shoal_str_add(&s.sed, "%s%zud", s.rows > 1 ? ";" : "", line);
    }
  }
  if (st != SHOAL_OK) {
    shoal_error ignored;
    shoal_error_take(&ignored);
  }
  shoal_csv_fini(&c);
  free(text);
  return s;
}

/* "correct it, or remove the row, as sed 9d t.csv >NEW does" */
static void explain_slips(const shoal_csv_table *t, const char *path, const slips *s, shoal_str *out)
{
  char word[SHOAL_WORD];
  const char *file = shoal_shell_word(path, word);
  if (s->rows == 1)
    shoal_str_add(out, "correct it, or remove the row");
  else
    shoal_str_add(out, "so it is in %zu rows (lines %s%s): correct them, or remove these rows", s->rows, s->list.text,
                  s->rows > MOST_LINES ? ", ..." : "");
  if (s->lines && s->rows == 1)
    shoal_str_add(out, ", as sed %s %s >NEW does", s->sed.text, file);
  else if (s->lines)
    shoal_str_add(out, ", as sed '%s' %s >NEW does", s->sed.text, file);
  else if (s->rows > 1) {
    shoal_str_add(out, ", as ");
    shoal_csv_command_numbers(&t->layout, path, out);
  }
}

shoal_status shoal_csv_refuse_field(shoal_csv_table *t, shoal_csv *c, size_t i, bool number)
{
  char column[96], shown[48];
  const shoal_csv_field *f = &c->fields[i];
  shoal_csv_column_text(&t->layout, i, column, sizeof column);
  shoal_csv_tells tells = number ? SHOAL_CSV_NEITHER : shoal_csv_tells_decimal(&t->layout.dialect, f->text, NULL);
  t->read_again = tells != SHOAL_CSV_NEITHER && !shoal_csv_signs_given(t) && t->proof.tells == tells;
  if (tells != SHOAL_CSV_NEITHER) return refuse_sign(t, c, f, column);
  const shoal_csv_field here = *f;
  shoal_csv_field classes = { 0 };
  const bool second = is_second_header(t, c, i);
  const size_t row = c->fields[0].line;
  if (find_side(t, c, &classes)) return refuse_side(t, c, &classes);
  const size_t begins = find_table(t, c);
  if (begins) return refuse_preamble(c, begins, t->layout.columns);
  f = &here;
  const size_t n = strlen(f->text);
  char word[SHOAL_WORD];
  SHOAL_CHECK(
      n < 2 || f->text[0] != '\'' || f->text[n - 1] != '\'', SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s is in single quotes, which are no quotes in a CSV: write double ones, as tr "
      "\"'\" '\"' <%s >NEW does",
      c->path, f->line, f->column, shoal_show(f->text, shown, sizeof shown), column, shoal_shell_word(c->path, word));
  SHOAL_CHECK(
      !second, SHOAL_ERR_IO,
      "%s:%zu:%zu: \"%s\" in column %s is not a number, and no other field of this row is one: if it is a second "
      "header or has the units, remove it, as sed %zud %s >NEW does",
      c->path, f->line, f->column, shoal_show(f->text, shown, sizeof shown), column, row,
      shoal_shell_word(c->path, word));
  const bool gap = !f->text[0] || shoal_csv_marks_gap(f->text) || shoal_csv_is_beyond(&t->layout.dialect, f->text);
  slips found = { 0 };
  shoal_str cure = { 0 };
  if (gap || is_slip(&t->layout, i, f->text)) found = find_slips(t, c->path);
  if (gap && found.rows) shoal_str_add(&cure, "; and other fields among numbers are none: ");
  if (found.rows && (gap || t->rows > t->file_rows)) explain_slips(t, c->path, &found, &cure);
  char reason[SHOAL_CSV_REASON];
  const shoal_csv_wrong wrong = { .path = c->path,
                                  .text = f->text,
                                  .column = i,
                                  .slips = cure.text,
                                  .gaps = gap ? 0 : found.gaps,
                                  .beyond = found.beyond,
                                  .most = found.most,
                                  .most_line = found.most_line };
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: \"%s\" in column %s %s", c->path, f->line, f->column,
                               shoal_show(f->text, shown, sizeof shown), column,
                               shoal_csv_why_not(&t->layout, !t->args->label && !t->args->n_target, &wrong, reason));
  shoal_str_free(&cure);
  shoal_str_free(&found.list);
  shoal_str_free(&found.sed);
  return st;
}

/* Whether a row is the header of the other files without the label, as those have it whose labels are kept secret. */
static bool lacks_label(const shoal_csv_layout *l, const shoal_csv *c)
{
  if (!l->header || l->label == SHOAL_CSV_NO_LABEL || c->fields[0].line > 1 || c->n + 1 != l->columns) return false;
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

/* The column that a row, the header of another file, has beside those of the first file, in the same order; or NULL. */
static const char *find_more(const shoal_csv_table *t, const shoal_csv *c)
{
  const shoal_csv_layout *l = &t->layout;
  const char *more = NULL;
  if (!l->header || c->path == t->args->sources[0] || c->fields[0].line > 1 || c->n != l->columns + 1) return NULL;
  for (size_t i = 0, k = 0; i < c->n; i++) {
    if (k < l->columns && strcmp(c->fields[i].text, l->names[k]) == 0)
      k++;
    else if (more)
      return NULL;
    else
      more = c->fields[i].text;
  }
  return more;
}

/* Whether the next row has as many fields, or there is none.  Reads on, so that the current row is lost. */
static bool others_have(const shoal_csv_table *t, shoal_csv *c, size_t fields)
{
  shoal_error ignored;
  bool end = false;
  if (c->path != t->args->sources[0]) return true;
  if (shoal_csv_next(c, &end) == SHOAL_OK) return end || c->n == fields;
  shoal_error_take(&ignored);
  return false;
}

/* A row that has another number of fields than the first one. */
shoal_status shoal_csv_refuse_row(const shoal_csv_table *t, shoal_csv *c)
{
  const shoal_csv_layout *l = &t->layout;
  const shoal_csv_field own_first = c->fields[0], own_last = c->fields[c->n - 1];
  const shoal_csv_field *first = &own_first, *last = &own_last;
  const size_t n = c->n;
  const bool secret = lacks_label(l, c);
  const char *more = find_more(t, c);
  const bool named = l->header && t->rows == 0 && n == l->columns + 1 && own_last.text[0] && others_have(t, c, n);
  const size_t begins = secret || named || more ? 0 : find_table(t, c);
  if (begins) return refuse_preamble(c, begins, l->columns);
  const bool own = c->path == t->args->sources[0];
  const bool comment = first->text[0] == '#', headed = l->header && l->names[0][0] == '#';
  char word[SHOAL_WORD], cure[1024 + SHOAL_WORD], shown[64];
  const char *file = shoal_shell_word(headed ? t->args->sources[0] : c->path, word);
  if (secret)
    snprintf(cure, sizeof cure,
             "the label, \"%.60s\", is missing: nothing can be tested without, leave the file out (for shoal predict, "
             "import "
             "it alone with --like RUN)",
             shoal_show(l->names[l->label], shown, sizeof shown));
  else if (more)
    snprintf(cure, sizeof cure,
             "%.300s lacks \"%.60s\": if that is the label, nothing can be learnt of it, leave the file out (for shoal "
             "predict, import it alone with --like RUN)",
             t->args->sources[0], shoal_show(more, shown, sizeof shown));
  else if (comment || headed)
    snprintf(cure, sizeof cure, "lines with # are no comments here: remove them, as grep -v '^#' %s >NEW does", file);
  else if (n == l->columns + 1 && !last->text[0])
    snprintf(cure, sizeof cure, "it ends with a separator: remove these, as sed 's/%c[[:space:]]*$//' %s >NEW does",
             l->dialect.separator, file);
  else if (named && own && !headed)
    snprintf(cure, sizeof cure,
             "if the rows begin with names, as R writes them, that column needs one, too, as sed '1s/^/row%s/' %s >NEW "
             "gives it",
             l->dialect.separator == '\t' ? "\\t" : (char[]){ l->dialect.separator, '\0' }, file);
  else if (n == 1 && l->columns > 1 && other_separator(l, first->text))
    snprintf(cure, sizeof cure,
             "it has another separator than the others: write all alike, as sed '%zus/%s/%s/g' %s >NEW does",
             first->line,
             other_separator(l, first->text) == '\t' ? "\\t" : (char[]){ other_separator(l, first->text), '\0' },
             l->dialect.separator == '\t' ? "\\t" : (char[]){ l->dialect.separator, '\0' }, file);
  else if (n == 1 && strchr(first->text, l->dialect.separator))
    snprintf(cure, sizeof cure, "it is in quotes as a whole: remove these");
  else
    snprintf(cure, sizeof cure, "%s",
             n > l->columns ? "put a field that holds the separator in double quotes, or correct the row"
                            : "correct the row, or remove it; a field with a line end in it belongs in double quotes");
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: this row has %zu field%s, the first row%s%s has %zu; %s", c->path,
                    last->line, last->column, n, n == 1 ? "" : "s", own ? "" : " of ", own ? "" : t->args->sources[0],
                    l->columns, cure);
}
