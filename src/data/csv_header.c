/* Whether the first row is the header: it is if
 *     --header says so, or --label or --target is one of its words
 *     it has text where the rows below have numbers
 *     all is text, and its words come only there, while others come again
 *     it counts 0, 1, 2, ... as a program writes columns without names, and the rows below are no such numbers */
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_field.h"
#include "data/csv_layout_impl.h"
#include <string.h>

/* The first row counts 0, 1, 2, ...; its first cell may be empty, above an index.  Returns how many cells count. */
static size_t counting_cells(const shoal_csv_probe *p)
{
  size_t skipped = shoal_csv_cell(p, 0, 0)[0] ? 0 : 1;
  for (size_t i = skipped; i < p->columns; i++) {
    int64_t v;
    if (shoal_parse_i64(shoal_csv_cell(p, 0, i), &v) != SHOAL_OK || v != (int64_t)(i - skipped)) return 0;
  }
  return p->columns - skipped;
}

/* Some column writes numbers with a fraction, but not in the first row. */
static bool is_written_differently(const shoal_csv_probe *p)
{
  for (size_t i = 0; i < p->columns; i++) {
    size_t fractions = 0;
    for (size_t r = 1; r < p->rows; r++) fractions += strpbrk(shoal_csv_cell(p, r, i), ".,eE") != NULL;
    if (p->rows > 1 && fractions == p->rows - 1) return true;
  }
  return false;
}

static bool has_text_above_numbers(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t label)
{
  for (size_t i = 0; i < p->columns; i++) {
    const char *top = shoal_csv_cell(p, 0, i);
    if (!top[0] || shoal_csv_is_number(l, top) || shoal_csv_is_list(top)) continue;
    if (p->rows == 1 ? i != label : 2 * p->numbers[i] >= p->rows - 1) return true;
  }
  return false;
}

/* Most cells of a column below its name are words that come again there. */
static bool repeats_words(const shoal_csv_probe *p, size_t column)
{
  enum { ROWS = 100 };
  const size_t rows = SHOAL_MIN(p->rows, (size_t)ROWS);
  size_t again = 0;
  for (size_t r = 1; r < rows; r++)
    for (size_t k = 1; k < rows; k++)
      if (k != r && strcmp(shoal_csv_cell(p, r, column), shoal_csv_cell(p, k, column)) == 0) {
        again++;
        break;
      }
  return 10 * again >= 9 * (rows - 1);
}

/* A table of words alone: none of the first row comes again in its column, and in some column those below do. */
static bool has_names_above_words(const shoal_csv_probe *p, const shoal_csv_layout *l)
{
  enum { LEAST = 8 };
  if (p->rows < LEAST) return false;
  for (size_t i = 0; i < p->columns; i++) {
    const char *top = shoal_csv_cell(p, 0, i);
    if (!top[0] || shoal_csv_is_number(l, top) || p->numbers[i]) return false;
    for (size_t r = 1; r < p->rows; r++)
      if (strcmp(shoal_csv_cell(p, r, i), top) == 0) return false;
  }
  for (size_t i = 0; i < p->columns; i++)
    if (repeats_words(p, i)) return true;
  return false;
}

static shoal_status decide(const shoal_csv_probe *p, shoal_csv_layout *l, bool *header)
{
  const shoal_import_args *a = p->args;
  size_t counting = counting_cells(p), last = p->columns - 1;
  *header = a->header && strcmp(a->header, "yes") == 0;
  if (a->header) return SHOAL_OK;
  for (size_t i = 0; i < p->columns && a->label; i++)
    *header |= strcmp(shoal_csv_cell(p, 0, i), a->label) == 0 && !shoal_csv_is_number(l, a->label);
  for (size_t i = 0; i < p->columns; i++)
    for (size_t k = 0; k < a->n_target; k++)
      *header |= strcmp(shoal_csv_cell(p, 0, i), a->target[k]) == 0 && !shoal_csv_is_number(l, a->target[k]);
  for (size_t i = 0; i < p->columns && p->like; i++)
    *header |=
        shoal_texts_have(&p->like->names, shoal_csv_cell(p, 0, i)) && !shoal_csv_is_number(l, shoal_csv_cell(p, 0, i));
  *header |= has_text_above_numbers(p, l, last) ||
             (shoal_csv_is_label_name(shoal_csv_cell(p, 0, last)) && p->numbers[last] == 0) ||
             has_names_above_words(p, l);
  if (*header || counting < 2 || p->rows < 2) return SHOAL_OK;
  int64_t below;
  bool goes_on = shoal_parse_i64(shoal_csv_cell(p, 1, 0), &below) == SHOAL_OK && below == (int64_t)p->columns;
  bool sure = counting < p->columns || is_written_differently(p) || (counting >= 4 && !goes_on);
  SHOAL_CHECK(
      sure, SHOAL_ERR_IO,
      "%s: the first row counts %s, %s, ...: it may be a header without names or a sample; give --header yes or "
      "--header no",
      p->path, shoal_csv_cell(p, 0, 0), shoal_csv_cell(p, 0, 1));
  *header = true;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the first row counts 0 to %zu: taken as the header; if it is a sample, give --header no",
                          p->path, counting - 1));
}

shoal_status shoal_csv_find_header(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  SHOAL_TRY(decide(p, l, &l->header));
  if (!l->header) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(p->columns, &l->names));
  for (size_t i = 0; i < p->columns; i++) l->names[i] = shoal_strdup_printf("%s", shoal_csv_cell(p, 0, i));
  return SHOAL_OK;
}
