/* Labels that lie in a table of their own, beside that of the features, row by row:
 *
 *     X_train.csv, y_train.csv, X_test.csv, y_test.csv  ->  X_train-joined.csv, X_test-joined.csv
 *
 * as scripts save arrays, with commas or, by numpy.savetxt, spaces.  The command joins them by pandas; a row number that pandas wrote is
 * left out, and names of columns are those of the features' table, if it has some. */
#include "data/csv_beside.h"
#include "base/file.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <stdlib.h>
#include <string.h>

/* Samples and labels of a split, NULL: there are none. */
typedef struct {
  const char *x, *y;
} pair;

/* False: not every file is one of these, or two are the same. */
static bool find_pairs(const shoal_import_args *a, pair of[2])
{
  for (size_t i = 0; i < a->n_sources; i++) {
    const char *base = shoal_path_base(a->sources[i]);
    char *name = shoal_strdup_printf("%.*s", (int)strcspn(base, "."), base);
    const shoal_data_role role = shoal_data_role_of(name, true);
    free(name);
    const bool test = shoal_import_names_split(base) && !shoal_import_trains(base);
    const char **at = role == SHOAL_ROLE_X ? &of[test].x : role == SHOAL_ROLE_Y ? &of[test].y : NULL;
    if (!at || *at) return false;
    *at = a->sources[i];
  }
  return of[0].x && of[0].y && !of[1].x == !of[1].y;
}

/* "X_train-joined.csv", in the working folder.  Caller frees. */
static char *joined_name(const char *path)
{
  const char *base = shoal_path_base(path);
  return shoal_strdup_printf("%.*s-joined.csv", (int)strcspn(base, "."), base);
}

static char *write_command(const pair of[2], const char *out_path)
{
  static const char *const packages[] = { "pandas", NULL };
  char x[SHOAL_WORD], y[SHOAL_WORD], to[SHOAL_WORD], word[SHOAL_WORD];
  shoal_python python;
  shoal_str list = { 0 }, made = { 0 };
  shoal_find_python(packages, &python);
  for (int s = 0; s < 2 && of[s].x; s++) {
    char *name = joined_name(of[s].x);
    shoal_str_add(&list, "%s(%s, %s, %s)", s ? ", " : "", shoal_python_text(of[s].x, x), shoal_python_text(of[s].y, y),
                  shoal_python_text(name, to));
    shoal_str_add(&made, "%s ", shoal_shell_word(name, word));
    free(name);
  }
  char *command = shoal_strdup_printf(
      "%s -c \"import pandas, re; L = lambda f: open(f, encoding='utf-8-sig').readline(); R = lambda f, h: (lambda d: "
      "d[[c "
      "for c in d if not str(c).startswith('Unnamed')]])(pandas.read_csv(f, sep=next((s for s in ',;\\t' if s in "
      "L(f)), "
      "'\\\\s+'), header=h, skipinitialspace=True)); H = lambda f: 0 if re.search('[A-Za-df-z]', L(f)) else None; "
      "[(len(d) == "
      "len(l) or exit(x + ' and ' + y + ' have not as many rows'), l.shape[1] == 1 or exit(y + ' has several "
      "columns'), "
      "pandas.concat([d.set_axis([c if isinstance(c, str) else 'x%%d' %% c for c in d], axis=1), l.set_axis(['label'], "
      "axis=1)], axis=1).to_csv(o, index=False)) for x, y, o in [%s] for d, l in [(R(x, H(x)), R(y, H(x)))]]\" && "
      "shoal data "
      "import csv %s--label label -o %s%s%s",
      python.run, list.text, made.text, shoal_shell_word(out_path, word), python.needs[0] ? "  # " : "", python.needs);
  shoal_str_free(&list);
  shoal_str_free(&made);
  return command;
}

shoal_status shoal_csv_refuse_beside(const shoal_import_args *a, const char *out_path)
{
  pair of[2] = { { NULL, NULL } };
  if (!find_pairs(a, of)) return SHOAL_OK;
  char *command = write_command(of, out_path);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO,
                 "%s has features and %s their labels, by their names: a table has both, and this joins them, row by "
                 "row, and imports that: %s",
                 of[0].x, of[0].y, command);
  free(command);
  return st;
}
