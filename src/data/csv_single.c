/* Files whose first row has one column, and what they are instead of a table. */
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_layout_impl.h"
#include "data/python.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t line; /* the first one below the first row that has signs between fields; 0: none */
  bool uneven; /* and below that a row with more or fewer of them: no table, but words with commas */
  bool spaces; /* all rows have as many words, two or more, with spaces between and around them */
  bool pairs;  /* rows such as "1 1:0.5 7:0.25", of LIBSVM */
} lines;

static lines look_at_lines(const char *text, size_t n)
{
  enum { MOST = 100 };
  lines l = { 0 };
  const char *end = text + n;
  size_t first_words = 0, first_signs = 0;
  l.spaces = true;
  for (size_t line = 1; line <= MOST && text < end; line++) {
    size_t spaces = 0, signs = 0, colons = 0, words = 0;
    char before = ' ';
    for (; text < end && *text != '\n'; text++) {
      spaces += *text == ' ';
      words += before == ' ' && *text != ' ' && *text != '\r';
      before = *text;
      colons += *text == ':';
      signs += strchr(",;\t|", *text) != NULL && *text;
    }
    text += text < end;
    if (line == 1) first_words = words;
    l.spaces &= words == first_words && words > 1;
    if (line == 1) l.pairs = colons > 0 && colons == spaces;
    if (signs && line > 1 && !l.line) {
      l.line = line;
      first_signs = signs;
    }
    l.uneven |= l.line && words && signs != first_signs;
  }
  return l;
}

shoal_status shoal_csv_check_columns(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *text, size_t n)
{
  char word[SHOAL_WORD];
  const char *file = shoal_shell_word(p->path, word);
  if (l->columns >= 2) return SHOAL_OK;
  const lines found = look_at_lines(text, n);
  SHOAL_CHECK(
      text[0] != '"' || !strpbrk(shoal_csv_cell(p, 0, 0), ",;\t|"), SHOAL_ERR_IO,
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
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s:1:1: one column only; features and a label are needed, between commas, semicolons, tabs or bars, "
      "or what --separator says%s",
      p->path, found.spaces ? ", as in --separator ' '" : "");
}
