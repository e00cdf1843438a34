/* See csv_command.h. */
#include "data/csv_command.h"
#include "data/python.h"
#include <ctype.h>
#include <string.h>

/* How a table is read and written: arguments behind the name of the file. */
typedef struct {
  char sep[16]; /* sep="," */
  const char *no_header[2];
} form;

static form form_of(const shoal_csv_layout *l)
{
  form f = { .no_header = { l->header ? "" : ", header=None", l->header ? "" : ", header=False" } };
  snprintf(f.sep, sizeof f.sep, l->dialect.separator == '\t' ? "sep=\"\\t\"" : "sep=\"%c\"", l->dialect.separator);
  return f;
}

/* "python3 -c 'import sys, ...; t = pandas.read_csv(...); "; what follows uses no single quote. */
static void begin(const shoal_csv_layout *l, const char *modules, shoal_python *python, shoal_str *out)
{
  static const char *const packages[] = { "pandas", NULL };
  const form f = form_of(l);
  shoal_find_python(packages, python);
  shoal_str_add(out,
                "%s -c 'import sys, %spandas; t = pandas.read_csv(sys.argv[1], %s, dtype=str, keep_default_na=False, "
                "skipinitialspace=True%s); ",
                python->run, modules, f.sep, f.no_header[0]);
}

static void name_files(const char *path, const shoal_python *python, shoal_str *out)
{
  char word[SHOAL_WORD];
  shoal_str_add(out, "' %s NEW does%s%s", shoal_shell_word(path, word), python->needs[0] ? "; it " : "", python->needs);
}

/* Whether numbers that a command writes need decimal commas, as those have that it keeps. */
static bool has_commas(const shoal_csv_layout *l)
{
  return l->dialect.decimal == ',';
}

/* Writes the table that the expression before gives. */
static void end(const shoal_csv_layout *l, const char *path, const shoal_python *python, shoal_str *out)
{
  const form f = form_of(l);
  shoal_str_add(out, ".to_csv(sys.argv[2], %s, index=False%s)", f.sep, f.no_header[1]);
  name_files(path, python, out);
}

/* The label is the last column of what a command made; targets may be in other columns than before. */
static void name_label(const shoal_csv_layout *l, shoal_str *out)
{
  if (!l->targets && (l->label == SHOAL_CSV_NO_LABEL || l->label + 1 == l->columns)) return;
  if (l->header) {
    shoal_str_add(out, ", for an import with");
    shoal_csv_add_label(l, out);
  } else if (!l->targets)
    shoal_str_add(out, ", with the label in the last column");
}

void shoal_csv_command_lists(const shoal_csv_layout *l, const char *path, shoal_str *out)
{
  shoal_python python;
  begin(l, "re, ", &python, out);
  shoal_str_add(
      out,
      "n = r\"[-+.eE0-9]+\"; pandas.concat([t[k].str.strip(\"[]\").str.replace(\",\", \" \").str.split("
      "expand=True)%s.add_prefix(str(k) + \"_\") if re.fullmatch(r\"\\[[\\s\\S]*|\" + n + \"( +\" + n + \")+\", "
      "t[k][0]) else t[k] for k in t], axis=1)",
      has_commas(l) ? ".replace(r\"\\.\", \",\", regex=True)" : "");
  end(l, path, &python, out);
}

void shoal_csv_command_words(const shoal_csv_layout *l, const char *path, shoal_str *out)
{
  shoal_python python;
  begin(l, "", &python, out);
  shoal_str_add(out,
                "pandas.concat([pandas.get_dummies(t.iloc[:, i], prefix=t.columns[i], dtype=int) if i in [%s] else "
                "t.iloc[:, i] for i in ",
                l->few.text);
  if (l->label == SHOAL_CSV_NO_LABEL || l->label + 1 == l->columns)
    shoal_str_add(out, "range(t.shape[1])");
  else
    shoal_str_add(out, "[*range(%zu), *range(%zu, t.shape[1]), %zu]", l->label, l->label + 1, l->label);
  if (l->many.len) shoal_str_add(out, " if i not in [%s]", l->many.text);
  shoal_str_add(out, "], axis=1)");
  end(l, path, &python, out);
  name_label(l, out);
}

void shoal_csv_command_text(const shoal_csv_layout *l, const char *path, size_t column, shoal_str *out)
{
  shoal_python python;
  begin(l, "re, collections, ", &python, out);
  shoal_str_add(
      out,
      "w = [set(re.findall(r\"\\w+\", s.lower())) for s in t.iloc[:, %zu]]; c = collections.Counter(x for s in "
      "w for x in s); top = sorted(c, key=lambda x: (-c[x], x))[:1000]; pandas.concat([pandas.DataFrame("
      "[[int(x in s) for x in top] for s in w], columns=top).add_prefix(\"word_\"), "
      "t.drop(columns=t.columns[%zu])], axis=1)",
      column, column);
  end(l, path, &python, out);
  if (l->label + 2 != l->columns || l->label > column) name_label(l, out);
}

/* The formats that a date may have, as a list for Python, "\"%d/%m/%Y\", \"%m/%d/%Y\""; None where the year is in front. */
static void add_formats(const char *text, shoal_str *out)
{
  const char sign = text[strcspn(text, "-/.")];
  const char *behind = strpbrk(text, " T"), *clock = behind ? behind + 1 : text;
  const size_t colons = (size_t)(strchr(clock, ':') != NULL) + (strchr(clock, ':') != strrchr(clock, ':'));
  const char *half = strpbrk(clock, "aApP");
  char time[32] = "";
  if (isdigit((unsigned char)text[2]) && isdigit((unsigned char)text[3])) {
    shoal_str_add(out, "None");
    return;
  }
  if (colons)
    snprintf(time, sizeof time, "%%%c:%%M%s%s%s%s", half ? 'I' : 'H', colons > 1 ? ":%S" : "",
             strchr(clock, '.') ? ".%f" : "", half && half[-1] == ' ' ? " " : "", half ? "%p" : "");
  if (!sign || text[strcspn(text, "-/:")] == ':') {
    shoal_str_add(out, "\"%s\"", time);
    return;
  }
  const char *last = text; /* the year, behind the second sign */
  for (int i = 0; i < 2; i++) last += strcspn(last, "-/.") + 1;
  const char year = strspn(last, "0123456789") == 2 ? 'y' : 'Y', gap = behind ? *behind : ' ';
  for (int i = 0; i < (sign == '.' ? 1 : 2); i++) /* with points the day is in front */
    shoal_str_add(out, "%s\"%%%c%c%%%c%c%%%c%.*s%s\"", i ? ", " : "", i ? 'm' : 'd', sign, i ? 'd' : 'm', sign, year,
                  time[0] != '\0', &gap, time);
}

/* "s = ...; t[...] = ...; ": whole numbers where days are whole, and what is empty stays so. */
static void add_dates(const shoal_csv_layout *l, size_t column, const char *text, shoal_str *out)
{
  const bool clock = !strpbrk(text, "-/.");
  shoal_str_add(out, "s = t.iloc[:, %zu]; d, = [d for f in [", column);
  add_formats(text, out);
  shoal_str_add(out,
                "] for d in [pandas.to_datetime(s, format=f, errors=\"coerce\", utc=True)] if (d.notna() | (s == "
                "\"\")).all()]; t[t.columns[%zu]] = [\"\" if v != v else f\"{v:.15g}\"%s for v in (d - %s) / "
                "pandas.Timedelta(%s=1)]; ",
                column, has_commas(l) ? ".replace(\".\", \",\")" : "",
                clock ? "d.dt.normalize()" : "pandas.Timestamp(0, tz=\"UTC\")", clock ? "hours" : "days");
}

const char *shoal_csv_command_order(const shoal_str *command)
{
  return strstr(command->text, "%m/%d") || strstr(command->text, "%m-%d")
             ? " (day and month in the order that all rows fit; if both do, leave one of the two formats out)"
             : "";
}

void shoal_csv_command_dates(const shoal_csv_layout *l, const char *path, size_t column, const char *text,
                             shoal_str *out)
{
  shoal_python python;
  begin(l, "", &python, out);
  add_dates(l, column, text, out);
  shoal_str_add(out, "t");
  end(l, path, &python, out);
}

void shoal_csv_command_known(const shoal_csv_layout *l, const char *path, const char *model,
                             const shoal_csv_known *known, shoal_str *out)
{
  char word[SHOAL_WORD], file[SHOAL_WORD];
  shoal_python python;
  const form f = form_of(l);
  begin(l, "re, h5py, ", &python, out);
  for (size_t i = 0; i < l->columns; i++)
    if (known->dates[i]) add_dates(l, i, known->dates[i], out);
  shoal_str_add(
      out,
      "n = h5py.File(sys.argv[3]).attrs[\"feature_names\"]; n = (n.decode() if isinstance(n, bytes) else n)."
      "split(\"\\n\"); w = [%s]; o = {i: max((k for k in w if i.startswith(k + \"_\")), key=len, "
      "default=None) for i in n if i not in t}; c = {i: (t[k] == i[len(k) + 1:]).astype(int) if k in t else 0 "
      "for i, k in o.items() if k}; [print(f\"warning: {k} {v!r} is not known to the model: 0 in all of its "
      "columns\", file=sys.stderr) for k in w if k in t for v in sorted({*t[k]}) if k + \"_\" + v not in n]; ",
      known->words);
  if (known->text < l->columns)
    shoal_str_add(out,
                  "s = [set(re.findall(r\"\\w+\", v.lower())) for v in t.iloc[:, %zu]]; c.update({i: [int(i[5:] in v) "
                  "for v in s] for i in n if i.startswith(\"word_\")}); ",
                  known->text);
  shoal_str_add(out,
                "pandas.concat([t.drop(columns=w, errors=\"ignore\"), pandas.DataFrame(c, index=t.index)], axis=1)."
                "to_csv(sys.argv[2], %s, index=False)",
                f.sep);
  shoal_str_add(out, "' %s NEW %s does%s%s", shoal_shell_word(path, word), shoal_shell_word(model, file),
                python.needs[0] ? "; it " : "", python.needs);
}

void shoal_csv_command_filled(const shoal_csv_layout *l, const char *path, size_t column, shoal_str *out)
{
  shoal_python python;
  begin(l, "", &python, out);
  shoal_str_add(out, "t[t.iloc[:, %zu].str.strip() != \"\"]", column);
  end(l, path, &python, out);
}

void shoal_csv_command_splits(const shoal_csv_layout *l, const char *path, size_t column, const char *marks,
                              shoal_str *out)
{
  shoal_python python;
  const form f = form_of(l);
  begin(l, "os, ", &python, out);
  shoal_str_add(out, "s = t.pop(t.columns[%zu])", column);
  if (marks)
    shoal_str_add(out, ".str.lower().isin([\"1\", \"true\"]).map(lambda v: \"%s\" if v else \"%s\")", marks,
                  strcmp(marks, "train") == 0 ? "test" : "train");
  shoal_str_add(
      out,
      "; os.mkdir(sys.argv[2]); [g.to_csv(os.path.join(sys.argv[2], n + \".csv\"), %s, index=False%s) for n, g "
      "in t.groupby(s)]",
      f.sep, f.no_header[1]);
  name_files(path, &python, out);
}
