/* Features that hold something else than numbers, as far as the first rows tell: who is told of the first is told of all. */
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_date.h"
#include "data/csv_field.h"
#include "data/csv_layout_impl.h"
#include "data/csv_number.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A tenth or more of the first rows have words in a column, or all that have something there: not slips of single rows. */
static bool holds_words(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  enum { LEAST = 10 }; /* one row in so many */
  size_t words = 0;
  if (column == l->label || l->dropped[column] || p->blanks[column] == p->rows - 1) return false;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    words += text[0] && !shoal_csv_is_number(l, text) && !shoal_csv_is_quoted_number(text) &&
             !shoal_csv_is_list(text) && !shoal_csv_marks_gap(text) && !shoal_csv_is_beyond(&l->dialect, text) &&
             shoal_csv_tells_decimal(&l->dialect, text, NULL) == SHOAL_CSV_NEITHER;
  }
  return words > 0 && (!p->numbers[column] || (words > 1 && LEAST * words >= p->rows - 1));
}

static bool has_gaps(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  bool found = p->blanks[column] > 0;
  for (size_t r = 1; r < p->rows && !found; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    found = shoal_csv_marks_gap(text) || shoal_csv_is_beyond(&l->dialect, text);
  }
  return found && column != l->label && !l->dropped[column];
}

/* Whether the words of a column come again, as those do that stand for kinds of things. */
static bool are_few(const shoal_csv_probe *p, size_t column)
{
  enum { VALUES = 50 };
  const char *seen[VALUES];
  size_t n = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t k = 0;
    while (k < n && strcmp(seen[k], shoal_csv_cell(p, r, column)) != 0) k++;
    if (k == VALUES) return false;
    if (k == n) seen[n++] = shoal_csv_cell(p, r, column);
  }
  return 2 * n <= p->rows;
}

bool shoal_csv_are_texts(const shoal_csv_probe *p, size_t column, size_t least)
{
  size_t texts = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t words = 1;
    for (const char *at = shoal_csv_cell(p, r, column); *at; at++) words += *at == ' ' && at[1] != ' ';
    texts += words >= least;
  }
  return 2 * texts >= p->rows;
}

char *shoal_csv_find_dates(const shoal_csv_probe *p, size_t column)
{
  const char **fields;
  size_t n = 0;
  shoal_str form = { 0 };
  if (SHOAL_ALLOC(p->rows, &fields) != SHOAL_OK) return NULL;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    if (!text[0] || shoal_csv_marks_gap(text)) continue;
    if (!shoal_csv_is_date(text)) goto done;
    fields[n++] = text;
  }
  if (n) shoal_csv_date_formats(fields, n, &form);
done:
  free(fields);
  return form.text;
}

/* What is beside the numbers of a column, if it is the same in all fields that are none alone: a sign in a tenth of them, a unit in
 * half. */
static char *find_sign(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  char sign[16] = "", here[16];
  size_t all = 0, signs = 0;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    if (!text[0] || shoal_csv_marks_gap(text)) continue;
    all++;
    if (shoal_csv_is_number(l, text)) continue;
    if (!shoal_csv_beside_number(&l->dialect, text, here) || (sign[0] && strcmp(sign, here) != 0)) return NULL;
    strcpy(sign, here);
    signs++;
  }
  const size_t least = isalpha((unsigned char)sign[0]) ? 2 : 10; /* one field in so many */
  return signs && least * signs >= all ? shoal_strdup_printf("%s", sign) : NULL;
}

/* Whether all fields of a column are truth values, or 1 and 0. */
static bool holds_truth(const shoal_csv_probe *p, size_t column)
{
  size_t truths = 0;
  for (size_t r = 1; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    if (!text[0] || shoal_csv_marks_gap(text) || strcmp(text, "0") == 0 || strcmp(text, "1") == 0) continue;
    if (!shoal_csv_is_truth(text)) return false;
    truths++;
  }
  return truths > 0;
}

static bool holds_lists(const shoal_csv_probe *p, size_t column)
{
  size_t lists = 0;
  for (size_t r = 1; r < p->rows; r++) lists += shoal_csv_is_list(shoal_csv_cell(p, r, column));
  return lists > 0 && 2 * lists >= p->rows - 1;
}

static shoal_csv_holds look_at(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column, char **form)
{
  *form = find_sign(p, l, column);
  if (*form) return SHOAL_CSV_SIGNS;
  if (shoal_csv_is_target(l, column)) return SHOAL_CSV_NUMBERS;
  if (holds_lists(p, column)) return SHOAL_CSV_LISTS;
  if (holds_truth(p, column)) return SHOAL_CSV_TRUTH;
  if (!holds_words(p, l, column)) return SHOAL_CSV_NUMBERS;
  *form = shoal_csv_find_dates(p, column);
  if (*form) return shoal_csv_is_clock_form(*form) ? SHOAL_CSV_TIMES : SHOAL_CSV_DATES;
  if (l->like) return SHOAL_CSV_NUMBERS; /* which the model has: words there are slips */
  if (are_few(p, column)) return SHOAL_CSV_KINDS;
  return shoal_csv_are_texts(p, column, 4) ? SHOAL_CSV_TEXT : SHOAL_CSV_NAMES;
}

void shoal_csv_look_at_columns(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  enum { MOST = 40, SHOWN = 6 };
  shoal_str drop = { 0 };
  size_t n = 0, rare = 0, n_gaps = 0;
  for (size_t i = 0; i < l->columns; i++) {
    const bool target = shoal_csv_is_target(l, i);
    if (i == l->label || (l->dropped[i] && !target)) continue;
    if (l->holds[i] == SHOAL_CSV_NUMBERS) l->holds[i] = look_at(p, l, i, &l->form[i]);
    const shoal_csv_holds kind = l->holds[i];
    if (kind != SHOAL_CSV_NUMBERS) l->odd++;
    const bool single = kind == SHOAL_CSV_NUMBERS || kind == SHOAL_CSV_SIGNS || kind == SHOAL_CSV_TRUTH ||
                        kind == SHOAL_CSV_DATES || kind == SHOAL_CSV_TIMES; /* stays one column */
    if (!target && single && has_gaps(p, l, i) && n_gaps++ < SHOWN)
      shoal_str_add(&l->gaps, "%s%zu", n_gaps > 1 ? ", " : "", i + 1);
    if (kind != SHOAL_CSV_KINDS && kind != SHOAL_CSV_NAMES && kind != SHOAL_CSV_TEXT && kind != SHOAL_CSV_DATES &&
        kind != SHOAL_CSV_TIMES)
      continue;
    if (n++ >= MOST) continue;
    rare += p->numbers[i] > 0;
    shoal_str_add(&l->words, "%s%zu", n > 1 ? ", " : "; columns ", i + 1);
    shoal_str_add(&drop, " --drop %zu", i + 1);
  }
  l->unlabelled = l->label != SHOAL_CSV_NO_LABEL && p->rows > 1 && p->blanks[l->label] > 0;
  if (n_gaps > SHOWN) shoal_str_add(&l->gaps, ", ...");
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
    shoal_str_add(&l->words, "; %s ha%s gaps, which --missing mean fills", l->gaps.text, n_gaps > 1 ? "ve" : "s");
  shoal_str_free(&drop);
}
