/* See csv_command.h.
 *
 * The command reads all files as one table of texts, t; c is the list of its columns, which are changed one kind after the other:
 *
 *     c = [...]  ->  statements for dates, signs, truth values  ->  o = pieces side by side, the label last  ->  one file, or a
 *     folder with one for each file or part
 *
 * Nothing in it may be a single quote: it stands between these. */
#include "data/csv_command.h"
#include "base/mem.h"
#include "data/csv_date.h"
#include "data/csv_number.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <string.h>

static void add_separator(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str_add(out, l->dialect.separator == '\t' ? "sep=\"\\t\"" : "sep=\"%c\"", l->dialect.separator);
}

/* "pandas.read_csv(PATH, ...)" */
static void add_read(const shoal_csv_layout *l, const char *path, shoal_str *out)
{
  shoal_str_add(out, "pandas.read_csv(%s, ", path);
  if (l->dialect.separator == ' ')
    shoal_str_add(out, "sep=r\"\\s+\"");
  else
    add_separator(l, out);
  shoal_str_add(out, ", dtype=str, keep_default_na=False, skipinitialspace=True%s)", l->header ? "" : ", header=None");
}

/* "python3 -c 'import sys, ...; " */
static void begin(const char *modules, shoal_python *python, shoal_str *out)
{
  static const char *const packages[] = { "pandas", NULL };
  shoal_find_python(packages, python);
  shoal_str_add(out, "%s -c 'import sys, %spandas; ", python->run, modules);
}

static void add_needs(const shoal_python *python, shoal_str *out)
{
  if (python->needs[0]) shoal_str_add(out, "; it %s", python->needs);
}

/* Whether numbers that a command writes need decimal commas, as those have that it keeps. */
static bool has_commas(const shoal_csv_layout *l)
{
  return l->dialect.decimal == ',';
}

/* ---- what is in the columns ---- */

static size_t count(const shoal_csv_layout *l, shoal_csv_holds kind)
{
  size_t n = 0;
  for (size_t i = 0; i < l->columns; i++) n += l->holds[i] == kind;
  return n;
}

/* Whether values of `list` belong to column i: of the same kind, and of the same form where that matters. */
static bool is_like(const shoal_csv_layout *l, size_t i, size_t first)
{
  return l->holds[i] == l->holds[first] && (!l->form[first] || strcmp(l->form[i], l->form[first]) == 0);
}

/* "0, 3, 7": columns of one kind and form, the first of which is `first`. */
static void list_like(const shoal_csv_layout *l, size_t first, shoal_str *out)
{
  for (size_t i = first, n = 0; i < l->columns; i++)
    if (is_like(l, i, first)) shoal_str_add(out, "%s%zu", n++ ? ", " : "", i);
}

static void list_kind(const shoal_csv_layout *l, shoal_csv_holds kind, shoal_str *out)
{
  for (size_t i = 0, n = 0; i < l->columns; i++)
    if (l->holds[i] == kind) shoal_str_add(out, "%s%zu", n++ ? ", " : "", i);
}

/* Whether no column in front of it is of the same kind and form. */
static bool is_first(const shoal_csv_layout *l, size_t column)
{
  size_t i = 0;
  while (!is_like(l, i, column)) i++;
  return i == column;
}

/* Tables of several files or parts: the output is a folder. */
static bool makes_folder(const shoal_csv_layout *l)
{
  return l->args->n_sources > 1 || count(l, SHOAL_CSV_SPLITS) > 0;
}

/* A model knows its columns by names, so what was made of words gets some. */
static bool writes_header(const shoal_csv_layout *l)
{
  return l->header || count(l, SHOAL_CSV_KINDS) || count(l, SHOAL_CSV_TEXT) || count(l, SHOAL_CSV_ONE_HOT);
}

/* ---- statements ---- */

static const char gaps[] =
    "[\"\", \"na\", \"n/a\", \"nan\", \"nat\", \"null\", \"none\", \"?\", \"-\", \"#n/a\", \"<na>\"]",
                  infinite[] = "[\"inf\", \"-inf\", \"+inf\", \"infinity\", \"-infinity\", \"1.#inf\", \"-1.#inf\"]";

/* "D = ...; ", a function of a column and the ways to read it; what marks a gap becomes empty, and days or hours whole numbers where
 * they are whole. */
static void define_dates(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str_add(
      out,
      "D = lambda x, w: next(d for f in w for d in [functools.reduce(lambda a, b: a.fillna(b), [pandas.to_datetime(x "
      "if k "
      "else x.where(x.str.match(\"[0-9]{4}\")), format=k, errors=\"coerce\", utc=True) for k in f])] if (d.notna() | "
      "x.str.strip().str.lower().isin(%s)).all()); "
      "N = lambda x, d, z, u: pandas.Series([\"\" if v != v else f\"{v:.15g}\"%s for v in (d - z) / "
      "pandas.Timedelta(u)], x.index, name=x.name); ",
      gaps, has_commas(l) ? ".replace(\".\", \",\")" : "");
}

static void add_date(const char *column, const char *form, bool clock, shoal_str *out)
{
  shoal_str_add(out, "d = D(%s, [%s]); %s = N(%s, d, %s, \"%s\"); ", column, form, column, column,
                clock ? "d.dt.normalize()" : "pandas.Timestamp(0, tz=\"UTC\")", clock ? "1H" : "1D");
}

/* Columns that change in their place, all of a kind and form at once. */
static void add_changes(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str list = { 0 };
  char column[32];
  for (size_t i = 0; i < l->columns; i++) {
    const shoal_csv_holds kind = l->holds[i];
    snprintf(column, sizeof column, "c[%zu]", i);
    if (kind == SHOAL_CSV_DATES || kind == SHOAL_CSV_TIMES) add_date(column, l->form[i], kind == SHOAL_CSV_TIMES, out);
    if ((kind != SHOAL_CSV_SIGNS && kind != SHOAL_CSV_TRUTH) || !is_first(l, i)) continue;
    list_like(l, i, &list);
    if (kind == SHOAL_CSV_SIGNS)
      shoal_str_add(out, "c = [x.str.replace(\"%s\", \"\", regex=False).str.strip() if i in [%s] else x", l->form[i],
                    list.text);
    else
      shoal_str_add(out,
                    "c = [x.str.lower().map(dict(true=\"1\", yes=\"1\", false=\"0\", no=\"0\")).fillna(x) if i in [%s] "
                    "else x",
                    list.text);
    shoal_str_add(out, " for i, x in enumerate(c)]; ");
    shoal_str_clear(&list);
  }
  shoal_str_free(&list);
}

/* "w = ...; ": a table of the words that most texts have; all columns with texts are one. */
static void add_text(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str list = { 0 };
  list_kind(l, SHOAL_CSV_TEXT, &list);
  shoal_str_add(out,
                "s = [{*re.findall(r\"\\w+\", \" \".join(r).lower())} for r in zip(*[c[i] for i in [%s]])]; k = "
                "collections.Counter(x for r in s for x in r); k = sorted((x for x in k if k[x] > 1), key=lambda x: "
                "(-k[x], x))[:1000]; w = "
                "pandas.DataFrame([[int(x in r) for x in k] for r in s], columns=[\"word_\" + x for x in k]); ",
                list.text);
  shoal_str_free(&list);
}

/* "y = ...; ": the name of the column that has the 1 of a row. */
static void add_classes(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str list = { 0 };
  list_kind(l, SHOAL_CSV_ONE_HOT, &list);
  shoal_str_add(out,
                "y = pandas.concat([c[i] for i in [%s]], axis=1).astype(float); assert (y.sum(axis=1) == 1).all(), "
                "\"a row has no 1, or several\"; y = y.idxmax(axis=1).rename(\"label\"); ",
                list.text);
  shoal_str_free(&list);
}

/* "P = lambda i, x: ...; ": what a column becomes. */
static void define_pieces(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str list = { 0 };
  shoal_str_add(out, "P = lambda i, x: ");
  list_kind(l, SHOAL_CSV_KINDS, &list);
  if (list.len) shoal_str_add(out, "pandas.get_dummies(x, prefix=x.name, dtype=int) if i in [%s] else ", list.text);
  shoal_str_clear(&list);
  list_kind(l, SHOAL_CSV_LISTS, &list);
  if (list.len)
    shoal_str_add(out,
                  "x.str.strip(\"[]\").str.replace(\",\", \" \").str.split(expand=True)%s.add_prefix(str(x.name) + "
                  "\"_\") if i in [%s] else ",
                  has_commas(l) ? ".replace(r\"\\.\", \",\", regex=True)" : "", list.text);
  shoal_str_add(out, "x; ");
  shoal_str_free(&list);
}

/* "i for i in ...": columns of the output in their order, the label last. */
static void add_order(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str left = { 0 };
  size_t n = 0;
  for (size_t i = 0; i < l->columns; i++) {
    const shoal_csv_holds kind = l->holds[i];
    if (kind == SHOAL_CSV_NAMES || kind == SHOAL_CSV_TEXT || kind == SHOAL_CSV_SPLITS || kind == SHOAL_CSV_ONE_HOT ||
        (l->dropped[i] && !shoal_csv_is_target(l, i)))
      shoal_str_add(&left, "%s%zu", n++ ? ", " : "", i);
  }
  if (l->label == SHOAL_CSV_NO_LABEL || l->label + 1 == l->columns)
    shoal_str_add(out, "range(%zu)", l->columns);
  else
    shoal_str_add(out, "[*range(%zu), *range(%zu, %zu), %zu]", l->label, l->label + 1, l->columns, l->label);
  if (n) shoal_str_add(out, " if i not in [%s]", left.text);
  shoal_str_free(&left);
}

/* ---- options of the import that follows ---- */

static void add_options(const shoal_csv_layout *l, shoal_str *out)
{
  const shoal_import_args *a = l->args;
  char word[SHOAL_WORD];
  const struct {
    const char *option, *value;
  } given[] = { { "--separator", a->separator },
                { "--decimal", a->decimal },
                { "--thousands", a->thousands },
                { "--like", a->like },
                { "--missing", a->missing } };
  if (shoal_import_unlabelled(a))
    shoal_str_add(out, " --label none");
  else if (count(l, SHOAL_CSV_ONE_HOT))
    shoal_str_add(out, " --label label");
  else if (!l->header && writes_header(l) && l->label != SHOAL_CSV_NO_LABEL)
    shoal_str_add(out, " --label column%zu", l->label + 1);
  else
    shoal_csv_add_label(l, out);
  for (size_t i = 0; i < SHOAL_COUNT(given); i++)
    if (given[i].value) shoal_str_add(out, " %s %s", given[i].option, shoal_shell_word(given[i].value, word));
  if (!a->missing && l->gaps.len && !shoal_import_unlabelled(a)) shoal_str_add(out, " --missing mean");
  if (!makes_folder(l) && a->test_share && *a->test_share > 0) shoal_str_add(out, " --test-share %g", *a->test_share);
  if (!makes_folder(l) && a->train_count) shoal_str_add(out, " --train-count %llu", (unsigned long long)a->train_count);
  if (a->shape || l->shape[0]) shoal_str_add(out, " --shape %s", a->shape ? a->shape : l->shape);
}

/* ---- whole commands ---- */

static void name_files(const shoal_csv_layout *l, shoal_str *out)
{
  char word[SHOAL_WORD];
  for (size_t i = 0; i < l->args->n_sources; i++)
    shoal_str_add(out, " %s", shoal_shell_word(l->args->sources[i], word));
}

static void add_write(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str_add(out, "to_csv(");
  if (!makes_folder(l))
    shoal_str_add(out, "sys.argv[2]");
  else
    shoal_str_add(out, "os.path.join(sys.argv[-1], n + \".csv\")");
  shoal_str_add(out, ", ");
  add_separator(l, out);
  shoal_str_add(out, ", index=False%s)", writes_header(l) ? "" : ", header=False");
}

static void add_command(const shoal_csv_layout *l, shoal_str *out)
{
  const bool files = l->args->n_sources > 1, parts = count(l, SHOAL_CSV_SPLITS) > 0;
  const bool texts = count(l, SHOAL_CSV_TEXT) > 0, dates = count(l, SHOAL_CSV_DATES) || count(l, SHOAL_CSV_TIMES);
  const bool classes = count(l, SHOAL_CSV_ONE_HOT) > 0;
  shoal_python python;
  char modules[64];
  snprintf(modules, sizeof modules, "%s%s%s", makes_folder(l) ? "os, " : "", texts ? "re, collections, " : "",
           dates ? "functools, " : "");
  begin(modules, &python, out);
  if (files) {
    shoal_str_add(out, "r = [");
    add_read(l, "p", out);
    shoal_str_add(out, " for p in sys.argv[1:-1]]; t = pandas.concat(r, ignore_index=True); ");
  } else {
    shoal_str_add(out, "t = ");
    add_read(l, "sys.argv[1]", out);
    shoal_str_add(out, "; ");
  }
  if (!l->header && writes_header(l)) shoal_str_add(out, "t.columns = [f\"column{i + 1}\" for i in t]; ");
  shoal_str_add(out, "c = [t.iloc[:, i] for i in range(t.shape[1])]; ");
  if (dates) define_dates(l, out);
  add_changes(l, out);
  if (texts) add_text(l, out);
  if (classes) add_classes(l, out);
  define_pieces(l, out);
  shoal_str_add(out, "o = pandas.concat([%s*[P(i, c[i]) for i in ", texts ? "w, " : "");
  add_order(l, out);
  shoal_str_add(out, "]%s], axis=1); ", classes ? ", y" : "");
  if (parts)
    for (size_t i = 0; i < l->columns; i++) {
      if (l->holds[i] != SHOAL_CSV_SPLITS) continue;
      shoal_str_add(out, "g = c[%zu]", i);
      if (l->form[i])
        shoal_str_add(out, ".str.lower().isin([\"1\", \"true\"]).map(lambda v: \"%s\" if v else \"%s\")", l->form[i],
                      strcmp(l->form[i], "train") == 0 ? "test" : "train");
      shoal_str_add(out, "; ");
    }
  else if (files)
    shoal_str_add(out, "b = [os.path.basename(p) for p in sys.argv[1:-1]]; b = b if len({*b}) == len(b) else "
                       "[p.lstrip(\"./\").replace(\"/\", \"_\") for p in sys.argv[1:-1]]; g = pandas.Series([os.path."
                       "splitext(p)[0] for p, f in zip(b, r) for _ in f.index]); ");
  if (l->unlabelled)
    shoal_str_add(out, "f = c[%zu].str.strip() != \"\"; o = o[f]; %s", l->label, makes_folder(l) ? "g = g[f]; " : "");
  shoal_str_add(out, makes_folder(l) ? "os.mkdir(sys.argv[-1]); [o[g == n]." : "o.");
  add_write(l, out);
  if (makes_folder(l)) shoal_str_add(out, " for n in sorted({*g})]");
  shoal_str_add(out, "'");
  name_files(l, out);
  shoal_str_add(out, " NEW does");
  add_needs(&python, out);
  shoal_str_add(out, ", and shoal data import csv NEW");
  add_options(l, out);
  shoal_str_add(out, " -o NEW.h5");
}

/* " column 3, "sex"" or "columns 3, 5, 8" of a kind. */
static void name_columns(const shoal_csv_layout *l, shoal_csv_holds kind, shoal_str *out)
{
  enum { MOST = 8 };
  char text[96];
  size_t n = 0;
  const size_t all = count(l, kind);
  if (all > 1) shoal_str_add(out, "columns ");
  for (size_t i = 0; i < l->columns; i++) {
    if (l->holds[i] != kind) continue;
    if (all == 1)
      shoal_str_add(out, "column %s", shoal_csv_column_text(l, i, text, sizeof text));
    else if (n < MOST)
      shoal_str_add(out, "%s%zu", n ? ", " : "", i + 1);
    else if (n == MOST)
      shoal_str_add(out, ", ...");
    n++;
  }
}

const char *shoal_csv_command_order(const shoal_str *command)
{
  return strstr(command->text, "\"], [\"")
             ? " (day and month in the order that all rows fit; where both do, the day is in front: for the month, "
               "exchange the two lists of formats)"
             : "";
}

static void tell_kinds(const shoal_csv_layout *l, shoal_str *out)
{
  static const struct {
    shoal_csv_holds kind;
    const char *before, *behind;
  } clauses[] = {
    { SHOAL_CSV_KINDS, "give each value of ", " a column of 1 and 0" },
    { SHOAL_CSV_TEXT, "give each of the 1000 most frequent words of ", " a column of 1 and 0" },
    { SHOAL_CSV_LISTS, "give each number of the lists in ", " a column" },
    { SHOAL_CSV_DATES, "write days since 1970 in ", "" },
    { SHOAL_CSV_TIMES, "write hours of the day in ", "" },
    { SHOAL_CSV_SIGNS, "leave the numbers alone in ", "" },
    { SHOAL_CSV_TRUTH, "write 1 and 0 in ", "" },
    { SHOAL_CSV_ONE_HOT, "make one label of ", "" },
    { SHOAL_CSV_NAMES, "leave out ", ", whose words hardly come again" },
    { SHOAL_CSV_SPLITS, "make a table of each part that ", " tells" },
  };
  size_t all = 0, n = 0;
  for (size_t i = 0; i < SHOAL_COUNT(clauses); i++) all += count(l, clauses[i].kind) > 0;
  for (size_t i = 0; i < SHOAL_COUNT(clauses); i++) {
    if (!count(l, clauses[i].kind)) continue;
    shoal_str_add(out, "%s%s", n == 0 ? "" : n + 1 < all ? ", " : " and ", clauses[i].before);
    name_columns(l, clauses[i].kind, out);
    shoal_str_add(out, "%s", clauses[i].behind);
    n++;
  }
  if (l->unlabelled) shoal_str_add(out, " (rows without a label are left out)");
}

void shoal_csv_explain_command(const shoal_csv_layout *l, shoal_str *out)
{
  shoal_str command = { 0 };
  add_command(l, &command);
  tell_kinds(l, out);
  shoal_str_add(out, "%s, as %s", shoal_csv_command_order(&command), command.text);
  shoal_str_free(&command);
}

void shoal_csv_command_known(const shoal_csv_layout *l, const char *path, const char *model,
                             const shoal_csv_known *known, shoal_str *out)
{
  char word[SHOAL_WORD], file[SHOAL_WORD];
  shoal_python python;
  begin("re, functools, h5py, ", &python, out);
  shoal_str_add(out, "t = ");
  add_read(l, "sys.argv[1]", out);
  shoal_str_add(out, "; ");
  if (!l->header) shoal_str_add(out, "t.columns = [f\"column{i + 1}\" for i in t]; ");
  bool dates = false;
  for (size_t i = 0; i < l->columns; i++) dates |= known->dates[i] != NULL;
  if (dates) define_dates(l, out);
  for (size_t i = 0; i < l->columns; i++) {
    char column[48];
    snprintf(column, sizeof column, "t[t.columns[%zu]]", i);
    if (known->dates[i]) add_date(column, known->dates[i], shoal_csv_is_clock_form(known->dates[i]), out);
  }
  shoal_str_add(
      out,
      "n = h5py.File(sys.argv[2]).attrs[\"feature_names\"]; n = (n.decode() if isinstance(n, bytes) else n)."
      "split(\"\\n\"); w = [%s]; o = {i: max((k for k in w if i.startswith(k + \"_\")), key=len, "
      "default=None) for i in n if i not in t}; c = {i: (t[k] == i[len(k) + 1:]).astype(int) if k in t else 0 "
      "for i, k in o.items() if k}; [print(f\"warning: {k} {v!r} is not known to the model: 0 in all of its "
      "columns\", file=sys.stderr) for k in w if k in t for v in sorted({*t[k]}) if k + \"_\" + v not in n]; ",
      known->words);
  if (known->texts[0])
    shoal_str_add(out,
                  "s = [{*re.findall(r\"\\w+\", \" \".join(v).lower())} for v in zip(*[t.iloc[:, i] for i in "
                  "[%s]])]; c.update({i: [int(i[5:] in v) for v in s] for i in n if i.startswith(\"word_\")}); ",
                  known->texts);
  shoal_str_add(out,
                "pandas.concat([t.drop(columns=w, errors=\"ignore\"), pandas.DataFrame(c, index=t.index)], axis=1)."
                "to_csv(sys.argv[3], ");
  add_separator(l, out);
  shoal_str_add(out, ", index=False)' %s %s NEW does", shoal_shell_word(path, word), shoal_shell_word(model, file));
  add_needs(&python, out);
}

void shoal_csv_command_numbers(const shoal_csv_layout *l, const char *path, shoal_str *out)
{
  char word[SHOAL_WORD];
  shoal_python python;
  shoal_str list = { 0 };
  for (size_t i = 0; i < l->columns; i++)
    if (l->numeric[i] && l->holds[i] == SHOAL_CSV_NUMBERS && i != l->label && !l->dropped[i])
      shoal_str_add(&list, "%s%zu", list.len ? ", " : "", i);
  begin("", &python, out);
  shoal_str_add(out, "t = ");
  add_read(l, "sys.argv[1]", out);
  shoal_str_add(out,
                "; t[t.iloc[:, [%s]].apply(lambda x: x.str.lower().isin(%s) | pandas.to_numeric(x.str.replace(%s, "
                "\"\", regex=False)%s, errors=\"coerce\").notna()).all(axis=1)].to_csv(sys.argv[2], ",
                list.text, gaps, has_commas(l) ? "\".\"" : "\",\"",
                has_commas(l) ? ".str.replace(\",\", \".\", regex=False)" : "");
  add_separator(l, out);
  shoal_str_add(out, ", index=False%s)' %s NEW does", l->header ? "" : ", header=False", shoal_shell_word(path, word));
  add_needs(&python, out);
  shoal_str_free(&list);
}

void shoal_csv_command_filled(const shoal_csv_layout *l, const char *path, size_t column, bool marks, shoal_str *out)
{
  char word[SHOAL_WORD];
  shoal_python python;
  begin("", &python, out);
  shoal_str_add(out, "t = ");
  add_read(l, "sys.argv[1]", out);
  shoal_str_add(out, "; t[~t.iloc[:, %zu].str.strip().str.lower().isin(%s%s%s)].to_csv(sys.argv[2], ", column,
                marks ? gaps : "[\"\"]", marks ? " + " : "", marks ? infinite : "");
  add_separator(l, out);
  shoal_str_add(out, ", index=False%s)' %s NEW does", l->header ? "" : ", header=False", shoal_shell_word(path, word));
  add_needs(&python, out);
}
