/* Columns that are neither one feature nor the label, by the first rows: which rows are for tests, classes that have a column each,
 * several labels of one sample.  They are told before anything else, together with the command for all other columns. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_command.h"
#include "data/csv_field.h"
#include "data/csv_layout_impl.h"
#include "data/data_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- which rows are for tests ---- */

/* Whether all cells of a column are words for a split, such as "train" and "test", of two kinds or more. */
static bool holds_splits(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  enum { LONGEST = 16 };
  bool training = false, others = false;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    if (strlen(text) > LONGEST || !shoal_import_names_split(text)) return false;
    training |= shoal_import_trains(text);
    others |= !shoal_import_trains(text);
  }
  return training && others;
}

/* Of a column called "is_train" or "isTest" whose cells are 1 and 0, or truth values, what 1 stands for; else NULL. */
static const char *split_marks(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  static const char *const values[] = { "1", "0", "true", "false" };
  if (!l->header || strncasecmp(l->names[column], "is", 2) != 0 || !shoal_import_names_split(l->names[column]))
    return NULL;
  for (size_t r = 1; r < p->rows; r++) {
    bool known = false;
    for (size_t k = 0; k < SHOAL_COUNT(values); k++) known |= strcasecmp(shoal_csv_cell(p, r, column), values[k]) == 0;
    if (!known) return NULL;
  }
  return shoal_import_trains(l->names[column]) ? "train" : "test";
}

/* The first column that says which rows are for tests, or `columns`. */
static size_t find_splits(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  for (size_t i = 0; i < l->columns; i++) {
    if (l->dropped[i] || (p->args->label && i == l->label)) continue;
    const char *marks = split_marks(p, l, i);
    if (!marks && !holds_splits(p, l, i)) continue;
    l->holds[i] = SHOAL_CSV_SPLITS;
    if (marks) l->form[i] = shoal_strdup_printf("%s", marks);
    return i;
  }
  return l->columns;
}

/* The label of a table whose last column was not it: that of the others which holds no lists, if there is one. */
static shoal_status guess_other_label(const shoal_csv_probe *p, shoal_csv_layout *l, size_t splits)
{
  size_t found = 0;
  l->dropped[splits] = true;
  shoal_status st = shoal_csv_guess_label(p, l);
  l->dropped[splits] = false;
  if (st != SHOAL_OK || !shoal_csv_is_list(shoal_csv_cell(p, p->rows - 1, l->label))) return st;
  for (size_t i = 0; i < l->columns; i++) {
    if (l->dropped[i] || i == splits || shoal_csv_is_list(shoal_csv_cell(p, p->rows - 1, i))) continue;
    if (found++ == 0) l->label = i;
  }
  return SHOAL_OK;
}

static shoal_status refuse_splits(const shoal_csv_layout *l, const char *path, size_t column)
{
  char text[96];
  shoal_str what = { 0 };
  shoal_csv_explain_command(l, &what);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO,
                 "%s: column %s says which rows are for tests: %s; or leave the column out with --drop %zu, and test "
                 "samples are drawn",
                 path, shoal_csv_column_text(l, column, text, sizeof text), what.text, column + 1);
  shoal_str_free(&what);
  return st;
}

/* ---- pixels ---- */

/* If lists of bytes are the only features, as many as a grey square has pixels, that is what they are. */
static void find_shape(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  enum { SMALLEST = 4 };
  size_t lists = 0, others = 0, n = 0;
  for (size_t i = 0; i < l->columns; i++) {
    if (l->dropped[i] || i == l->label || l->holds[i] == SHOAL_CSV_SPLITS) continue;
    others += l->holds[i] != SHOAL_CSV_LISTS;
    if (l->holds[i] != SHOAL_CSV_LISTS || lists++ > 0) continue;
    char *end = NULL;
    for (const char *at = shoal_csv_cell(p, p->rows - 1, i); *at && n != SIZE_MAX; at = end, n++) {
      const double v = strtod(at, &end);
      if (end == at || v < 0 || v > UINT8_MAX || v != floor(v)) return;
      end += strspn(end, " ");
    }
  }
  const size_t side = (size_t)lround(sqrt((double)n));
  if (lists == 1 && !others && side * side == n && side >= SMALLEST)
    snprintf(l->shape, sizeof l->shape, "1,%zu,%zu", side, side);
}

/* ---- labels in several columns ---- */

/* Whether all fields of a column are 1 or 0, and both occur. */
static bool holds_bits(const shoal_csv_probe *p, size_t column)
{
  size_t ones = 0, zeros = 0;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    const bool plain = (text[0] == '0' || text[0] == '1') && (!text[1] || strcmp(text + 1, ".0") == 0);
    if (!plain) return false;
    ones += text[0] == '1';
    zeros += text[0] == '0';
  }
  return ones > 0 && zeros > 0;
}

/* Whether two columns were made of one that had words: "port_S" and "port_C"; labels may be called so, too. */
static bool are_of_one(const char *a, const char *b)
{
  char prefix[64];
  size_t n = 0;
  while (a[n] && a[n] == b[n]) n++;
  while (n > 0 && a[n - 1] != '_') n--;
  if (n < 2 || n >= sizeof prefix) return false;
  snprintf(prefix, sizeof prefix, "%.*s", (int)n - 1, a);
  return !shoal_csv_is_label_name(prefix) && strcasecmp(prefix, "y") != 0;
}

/* Names by which the last column of a table is its only label, whatever is before it. */
static bool is_outcome(const char *name)
{
  static const char *const names[] = { "y",        "outcome",     "output",   "result",    "survived", "diagnosis",
                                       "response", "churn",       "exited",   "fraud",     "default",  "died",
                                       "death",    "death_event", "approved", "purchased", "status",   "bought",
                                       "disease",  "positive",    "spam" };
  if (shoal_csv_is_label_name(name) || strncasecmp(name, "is_", 3) == 0) return true;
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if (strcasecmp(name, names[i]) == 0) return true;
  return false;
}

/* How many of the last `most` columns up to the label hold one 1 in each row together, the fewest; 0 if none do. */
static size_t count_classes(const shoal_csv_probe *p, size_t label, size_t most)
{
  for (size_t width = 2; width <= most; width++) {
    bool one = true;
    for (size_t r = 1; r < p->rows && one; r++) {
      size_t ones = 0;
      for (size_t k = 0; k < width; k++) ones += shoal_csv_cell(p, r, label - k)[0] == '1';
      one = ones == 1;
    }
    if (one) return width;
  }
  return 0;
}

static shoal_status refuse_one_hot(const shoal_csv_layout *l, const char *path, size_t width)
{
  char text[96];
  shoal_str what = { 0 };
  shoal_csv_explain_command(l, &what);
  shoal_status st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s: column %s and the %zu before it hold one 1 in every row, as classes one-hot do: %s; or give --label %zu if "
      "that column alone is the label",
      path, shoal_csv_column_text(l, l->label, text, sizeof text), width - 1, what.text, l->label + 1);
  shoal_str_free(&what);
  return st;
}

/* Several labels of one sample can be learnt as numbers, all at once, or each alone. */
static shoal_status refuse_several(const shoal_csv_layout *l, const char *path, size_t first)
{
  enum { MOST = 40 };
  char text[96], last[96], word[SHOAL_WORD];
  shoal_str targets = { 0 }, drop = { 0 };
  for (size_t i = first; i <= l->label && i < first + MOST; i++) {
    shoal_str_add(&targets, " --target %zu", i + 1);
    if (i > first) shoal_str_add(&drop, " --drop %zu", i + 1);
  }
  shoal_csv_column_text(l, first, text, sizeof text);
  shoal_csv_column_text(l, l->label, last, sizeof last);
  shoal_status st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s: columns %s to %s hold 1 and 0, and some rows several 1: if these are labels of which a sample has several, "
      "a network cannot have them as classes, but as numbers from 0 to 1: shoal data import csv %s%s -o NEW.h5 (or "
      "one of them as classes: --label %zu%s); if column %zu alone is the label and the others are features, give "
      "--label %zu",
      path, text, last, shoal_shell_word(path, word), targets.text, first + 1, drop.text, l->label + 1, l->label + 1);
  shoal_str_free(&targets);
  shoal_str_free(&drop);
  return st;
}

/* Of two columns the first may as well be a feature. */
static shoal_status warn_two(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  char text[96], last[96], word[SHOAL_WORD];
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: columns %s and %s hold 1 and 0, and some rows both 1: only the last is the label here; "
                          "if both are, a network has them as numbers from 0 to 1: shoal data import csv %s --target "
                          "%zu --target %zu -o NEW.h5; --label %zu says that the last alone is",
                          p->path, shoal_csv_column_text(l, l->label - 1, text, sizeof text),
                          shoal_csv_column_text(l, l->label, last, sizeof last), shoal_shell_word(p->path, word),
                          l->label, l->label + 1, l->label + 1));
}

/* A last column that was taken for the label, and is one of several. */
static shoal_status find_several_labels(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  enum { ROWS = 8, COLUMNS = 3 }; /* so many at least; two behind words alone */
  size_t n = 0, several = 0, before = 0, numbers = 0;
  if (l->label == SHOAL_CSV_NO_LABEL || p->args->label || p->rows <= ROWS) return SHOAL_OK;
  while (n <= l->label && !l->dropped[l->label - n] && l->holds[l->label - n] != SHOAL_CSV_SPLITS &&
         holds_bits(p, l->label - n))
    n++;
  const size_t width = count_classes(p, l->label, n);
  for (size_t i = 0; i + SHOAL_MAX(width, n) <= l->label; i++) before += !l->dropped[i];
  for (size_t i = 0; i < l->label; i++) numbers += !l->dropped[i] && l->numeric[i];
  if (width && width <= l->label) {
    for (size_t k = 0; k < width; k++) l->holds[l->label - k] = SHOAL_CSV_ONE_HOT;
    shoal_csv_look_at_columns(p, l);
    return refuse_one_hot(l, p->path, width);
  }
  if (!l->header || is_outcome(l->names[l->label])) return SHOAL_OK;
  size_t run = n > 0;
  while (run < n && !are_of_one(l->names[l->label - run], l->names[l->label - run + 1]) &&
         !(run + 1 < n && are_of_one(l->names[l->label - run], l->names[l->label - run - 1])))
    run++;
  for (size_t r = 1; r < p->rows; r++) {
    size_t ones = 0;
    for (size_t k = 0; k < run; k++) ones += shoal_csv_cell(p, r, l->label - k)[0] == '1';
    several += ones > 1;
  }
  if (run < 2 || !several || !before) return SHOAL_OK;
  if (run >= COLUMNS || numbers == 1) return refuse_several(l, p->path, l->label - run + 1);
  return warn_two(p, l);
}

shoal_status shoal_csv_find_roles(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  const size_t splits = find_splits(p, l);
  if (splits < l->columns && splits == l->label) SHOAL_TRY(guess_other_label(p, l, splits));
  SHOAL_TRY(find_several_labels(p, l));
  shoal_csv_look_at_columns(p, l);
  find_shape(p, l);
  return splits < l->columns ? refuse_splits(l, p->path, splits) : SHOAL_OK;
}
