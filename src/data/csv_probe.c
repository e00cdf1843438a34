/* The first rows of a table, and what a column looks like in them.  See csv_layout_impl.h. */
#include "base/error.h"
#include "base/mem.h"
#include "data/csv_field.h"
#include "data/csv_layout_impl.h"
#include "data/csv_number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROBE_BYTES = 256 << 10, PROBE_ROWS = 20, MOST_ROWS = 1000, LATE_BYTES = 256 << 20, LATE_ROWS = 200 };

const char *shoal_csv_cell(const shoal_csv_probe *p, size_t row, size_t column)
{
  return p->cells[row * p->columns + column];
}

static bool number(const shoal_csv_layout *l, const char *text, double *out)
{
  return shoal_csv_number(&l->dialect, text, out, NULL);
}

bool shoal_csv_is_number(const shoal_csv_layout *l, const char *text)
{
  double v;
  return number(l, text, &v);
}

bool shoal_csv_is_quoted_number(const char *text)
{
  const size_t n = strlen(text);
  return n > 2 && text[0] == '\'' && text[n - 1] == '\'' && strspn(text + 1, "0123456789+-.,eE") == n - 2;
}

/* ---- the first rows ---- */

void shoal_csv_probe_close(shoal_csv_probe *p)
{
  free(p->text);
  free(p->cells);
  free(p->numbers);
}

static bool has_value(const shoal_csv_probe *p, size_t row, size_t column)
{
  const char *text = shoal_csv_cell(p, row, column);
  return text[0] && !shoal_csv_marks_gap(text);
}

/* Whether the row behind the last one that is kept is worth it: it has a value in a column that has none in the first rows. */
static bool is_late(const shoal_csv_probe *p, const bool *silent)
{
  size_t i = 0;
  while (i < p->columns && !(silent[i] && has_value(p, p->rows, i))) i++;
  return i < p->columns;
}

/* Reads rows of the first `bytes` of a file.  If the text is cut there, its last row may be, and is left out.  `silent`: of rows behind
 * the first `most`, those that are late; or NULL. */
static shoal_status read_rows(shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t bytes, bool cut,
                              const bool *silent, size_t most)
{
  shoal_csv c;
  bool end = false;
  shoal_status st = SHOAL_OK;
  shoal_error kept;
  free(p->text);
  free(p->cells);
  p->cells = NULL;
  p->rows = p->columns = p->head = 0;
  p->tail = false;
  SHOAL_TRY(SHOAL_ALLOC(bytes + 1, &p->text));
  memcpy(p->text, text, bytes);
  shoal_csv_init(&c, p->path, p->text, bytes, l->dialect);
  for (size_t row = 0; (silent || row < most) && p->rows < most + LATE_ROWS; row++) {
    st = shoal_csv_next(&c, &end);
    if (st != SHOAL_OK || end) break;
    if (row == 0) {
      p->columns = c.n;
      SHOAL_TRY_GOTO(st, SHOAL_ALLOC((SHOAL_MIN(bytes / c.n + 1, most + LATE_ROWS) + 1) * c.n, &p->cells), done);
    }
    if (row == 1 && c.n > 1 && c.n + 1 == p->columns && !p->cells[c.n][0]) {
      p->tail = true;
      p->columns = c.n;
    }
    if (c.n != p->columns || (cut && c.at >= c.end)) break; /* the importer says what is wrong with it */
    for (size_t i = 0; i < c.n; i++) p->cells[p->rows * c.n + i] = c.fields[i].text;
    if (row < most || is_late(p, silent)) p->rows++;
    if (row < most) p->head = p->rows;
  }
  if (st != SHOAL_OK && (cut || silent) && p->rows > 0) {
    shoal_error_take(&kept); /* a quote that the cut left open, or what the importer will say */
    st = SHOAL_OK;
  }
done:
  shoal_csv_fini(&c);
  return st;
}

/* A column that has nothing in the first rows may have something below: a few such rows are looked at, too. */
static shoal_status read_late_rows(shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t n)
{
  const size_t bytes = SHOAL_MIN(n, (size_t)LATE_BYTES);
  bool *silent, any = false;
  SHOAL_TRY(SHOAL_ALLOC(p->columns, &silent));
  for (size_t i = 0; i < p->columns; i++) {
    size_t r = 1;
    while (r < p->rows && !has_value(p, r, i)) r++;
    silent[i] = r == p->rows;
    any |= silent[i];
  }
  shoal_status st = any ? read_rows(p, l, text, bytes, bytes < n, silent, p->rows) : SHOAL_OK;
  free(silent);
  return st;
}

shoal_status shoal_csv_probe_open(shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t n)
{
  size_t bytes = SHOAL_MIN(n, (size_t)PROBE_BYTES);
  SHOAL_TRY(read_rows(p, l, text, bytes, bytes < n, NULL, MOST_ROWS));
  while (p->rows < PROBE_ROWS && bytes < n) {
    bytes = SHOAL_MIN(n, 8 * bytes);
    SHOAL_TRY(read_rows(p, l, text, bytes, bytes < n, NULL, MOST_ROWS));
  }
  if (p->rows > 1 && (p->rows == MOST_ROWS || bytes < n)) SHOAL_TRY(read_late_rows(p, l, text, n));
  SHOAL_CHECK(p->rows > 0, SHOAL_ERR_IO, "%s is empty: no rows", p->path);
  SHOAL_TRY(SHOAL_ALLOC(2 * p->columns, &p->numbers));
  p->blanks = p->numbers + p->columns;
  for (size_t r = 1; r < p->rows; r++)
    for (size_t i = 0; i < p->columns; i++) {
      p->numbers[i] += shoal_csv_is_number(l, shoal_csv_cell(p, r, i)) ||
                       shoal_csv_is_quoted_number(shoal_csv_cell(p, r, i)) ||
                       shoal_csv_is_list(shoal_csv_cell(p, r, i));
      p->blanks[i] += !shoal_csv_cell(p, r, i)[0];
    }
  return SHOAL_OK;
}

/* ---- what a column looks like ---- */

bool shoal_csv_counts_rows(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  size_t first = l->header ? 1 : 0;
  double v, expected = 0;
  if (p->head < first + 2) return false;
  for (size_t r = first; r < p->head; r++, expected++) {
    if (!number(l, shoal_csv_cell(p, r, column), &v)) return false;
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

shoal_status shoal_csv_numbers_rows(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column, bool *out)
{
  size_t n = p->rows - 1;
  double *v;
  *out = n >= 2;
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &v));
  for (size_t r = 0; r < n && *out; r++)
    *out = number(l, shoal_csv_cell(p, r + 1, column), &v[r]) && v[r] == floor(v[r]);
  if (*out) qsort(v, n, sizeof *v, by_number);
  for (size_t r = 1; r < n && *out; r++) *out = v[r] != v[r - 1];
  free(v);
  return SHOAL_OK;
}

bool shoal_csv_is_label_name(const char *name)
{
  static const char *const names[] = { "label", "labels", "class", "target", "targets" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if (strcasecmp(name, names[i]) == 0) return true;
  return false;
}
