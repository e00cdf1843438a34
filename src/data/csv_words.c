/* Features that hold words, texts or dates, as far as the first rows tell: who is told of the first is told of all. */
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_field.h"
#include "data/csv_layout_impl.h"
#include "data/csv_number.h"
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
             !shoal_csv_is_list(text) && !shoal_csv_marks_gap(text) &&
             shoal_csv_tells_decimal(&l->dialect, text, NULL) == SHOAL_CSV_NEITHER;
  }
  return words > 0 && (!p->numbers[column] || (words > 1 && LEAST * words >= p->rows - 1));
}

static bool has_gaps(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  bool found = p->blanks[column] > 0;
  for (size_t r = 1; r < p->rows && !found; r++) found = shoal_csv_marks_gap(shoal_csv_cell(p, r, column));
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

const char *shoal_csv_find_date(const shoal_csv_probe *p, size_t column)
{
  size_t r = 1;
  while (r < p->rows && (!shoal_csv_cell(p, r, column)[0] || shoal_csv_marks_gap(shoal_csv_cell(p, r, column)))) r++;
  return r < p->rows && shoal_csv_is_date(shoal_csv_cell(p, r, column)) ? shoal_csv_cell(p, r, column) : NULL;
}

static void note_words(const shoal_csv_probe *p, shoal_csv_layout *l, size_t column)
{
  const bool few = are_few(p, column);
  shoal_str *list = few ? &l->few : &l->many;
  shoal_str_add(list, "%s%zu", list->len ? ", " : "", column);
  l->text[column] = !few && shoal_csv_are_texts(p, column, 4);
}

void shoal_csv_list_words(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  enum { MOST = 40, SHOWN = 6 };
  shoal_str drop = { 0 }, gaps = { 0 };
  size_t n = 0, rare = 0, n_gaps = 0;
  for (size_t i = 0; i < l->columns; i++) {
    if (!holds_words(p, l, i)) {
      if (has_gaps(p, l, i) && n_gaps++ < SHOWN) shoal_str_add(&gaps, "%s%zu", n_gaps > 1 ? ", " : "", i + 1);
      continue;
    }
    if (shoal_csv_find_date(p, i))
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
