/* Columns of label or targets, and dropped columns of a CSV file, from its options and its first rows.  See csv_layout.h.
 *
 * The decimal sign is the one that more numbers of these rows show; a number further down that shows the other one makes the
 * importer read all again (import_csv.c).
 *
 * A column is dropped without being asked if it is empty, or has no name in the header ("" or "Unnamed: 0") and counts
 * the rows: the index that pandas writes. */
#include "data/csv_layout.h"
#include "base/alike.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_layout_impl.h"
#include "data/csv_number.h"
#include "data/data_impl.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 6 };

static bool is_unnamed(const char *name)
{
  return !name[0] || strncasecmp(name, "unnamed:", 8) == 0;
}

/* ---- the label and what is dropped ---- */

shoal_status shoal_csv_check_names(const shoal_csv_probe *p, const shoal_csv_layout *l)
{
  char what[512];
  for (size_t i = 0; l->header && i < l->columns; i++) {
    if ((l->dropped[i] && !shoal_csv_is_target(l, i)) || l->place[i] != SIZE_MAX) continue;
    snprintf(what, sizeof what, "%s: the name of column %zu", p->path, i + 1);
    SHOAL_TRY(shoal_csv_check_text(p->path, what, l->names[i]));
  }
  return SHOAL_OK;
}

/* No column of that name: those that there are, the nearest first. */
static shoal_status refuse_column(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *option,
                                  const char *name)
{
  enum { MOST = 8 };
  char shown[48];
  shoal_str has = { 0 };
  size_t told = 0;
  const char *near = l->header ? shoal_nearest(name, (const char *const *)l->names, l->columns) : NULL;
  if (near) shoal_str_add(&has, "; did you mean \"%s\"?", shoal_show(near, shown, sizeof shown));
  for (size_t i = 0; l->header && i < l->columns && told < MOST; i++)
    if (!near || strcmp(l->names[i], near) != 0)
      shoal_str_add(&has, "%s\"%s\"",
                    told++ ? ", "
                    : near ? " It also has "
                           : ", which has ",
                    shoal_show(l->names[i], shown, sizeof shown));
  const size_t rest = l->header ? l->columns - told - (near ? 1 : 0) : 0;
  if (told && rest) shoal_str_add(&has, " and %zu more", rest);
  if (!near) shoal_str_add(&has, "; give %s one of them, or the number of the column", option);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_ARG, "%s has no column \"%s\" in its first row%s", p->path, name, has.text);
  shoal_str_free(&has);
  return st;
}

shoal_status shoal_csv_find_column(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *option,
                                   const char *name, size_t *out)
{
  size_t found = 0;
  for (size_t i = 0; i < l->columns && l->header; i++)
    if (strcmp(l->names[i], name) == 0 && found++ == 0) *out = i;
  SHOAL_CHECK(found < 2, SHOAL_ERR_ARG, "%s has %zu columns called \"%s\": give %s the number of the right one",
              p->path, found, name, option);
  if (found) return SHOAL_OK;
  int64_t count;
  if (shoal_parse_i64(name, &count) == SHOAL_OK) {
    SHOAL_CHECK(count >= 1 && (size_t)count <= l->columns, SHOAL_ERR_ARG,
                "%s has %zu columns, there is no column %s for %s", p->path, l->columns, name, option);
    *out = (size_t)count - 1;
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_csv_check_names(p, l));
  return refuse_column(p, l, option, name);
}

static shoal_status drop_asked(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  for (size_t i = 0; i < p->args->n_drop; i++) {
    size_t column;
    SHOAL_TRY(shoal_csv_find_column(p, l, "--drop", p->args->drop[i], &column));
    l->dropped[column] = true;
  }
  return SHOAL_OK;
}

bool shoal_csv_is_target(const shoal_csv_layout *l, size_t column)
{
  size_t k = 0;
  while (k < l->targets && l->target[k] != column) k++;
  return k < l->targets;
}

static shoal_status add_target(const shoal_csv_probe *p, shoal_csv_layout *l, size_t column)
{
  char text[96];
  SHOAL_CHECK(!shoal_csv_is_target(l, column), SHOAL_ERR_ARG, "%s: column %s is given by --target twice: leave one out",
              p->path, shoal_csv_column_text(l, column, text, sizeof text));
  SHOAL_CHECK(!l->dropped[column], SHOAL_ERR_ARG, "%s: column %s is a target and cannot be dropped", p->path,
              shoal_csv_column_text(l, column, text, sizeof text));
  l->target[l->targets++] = column;
  return SHOAL_OK;
}

/* Those that options name; of a table like that of a model its targets, if all of them are there. */
static shoal_status find_targets(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  const shoal_import_args *a = p->args;
  const size_t known = p->like ? p->like->target_names.n : 0;
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX(a->n_target, known), &l->target));
  for (size_t k = 0; k < a->n_target; k++) {
    size_t column;
    SHOAL_TRY(shoal_csv_find_column(p, l, "--target", a->target[k], &column));
    SHOAL_TRY(add_target(p, l, column));
  }
  for (size_t k = 0; k < known && l->header && !a->n_target && !a->label; k++) {
    size_t i = 0;
    while (i < l->columns && (l->dropped[i] || strcmp(l->names[i], p->like->target_names.at[k]) != 0)) i++;
    if (i == l->columns) {
      l->targets = 0;
      return SHOAL_OK;
    }
    SHOAL_TRY(add_target(p, l, i));
  }
  return SHOAL_OK;
}

/* A column that is called label, and has none: the next best column would be learnt without a word of it. */
static shoal_status refuse_empty_label(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  char text[96];
  if (p->args->label || !l->header || !shoal_csv_is_label_name(l->names[column])) return SHOAL_OK;
  for (size_t i = 0; i < l->columns; i++)
    if (p->blanks[i] < p->rows - 1 && !l->dropped[i] && shoal_csv_is_label_name(l->names[i])) return SHOAL_OK;
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s: column %s is empty: there is no label to learn; fill it, or name the right column with --label; "
      "of a table to be predicted, give --label none",
      p->path, shoal_csv_column_text(l, column, text, sizeof text));
}

static shoal_status drop_empty_and_index(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  char text[96];
  for (size_t i = 0; i < l->columns; i++) {
    bool empty = p->blanks[i] == p->rows - 1 && (l->header ? p->rows > 1 : !shoal_csv_cell(p, 0, i)[0]), index = false;
    if (l->dropped[i]) continue;
    if (empty && shoal_import_unlabelled(p->args) && (l->header ? l->names[i][0] != 0 : i + 1 < l->columns))
      continue; /* the model may know it */
    if (empty) SHOAL_TRY(refuse_empty_label(p, l, i));
    if (!empty && l->header && is_unnamed(l->names[i])) SHOAL_TRY(shoal_csv_numbers_rows(p, l, i, &index));
    l->dropped[i] = empty || index;
    bool counts = !l->dropped[i] && i != l->label && p->rows > 4 && shoal_csv_counts_rows(p, l, i);
    shoal_csv_column_text(l, i, text, sizeof text);
    char *warning = NULL;
    if (empty) warning = shoal_strdup_printf("%s: column %s is empty: dropped", p->path, text);
    if (index && !l->names[i][0]) snprintf(text, sizeof text, "%zu, without a name,", i + 1);
    if (index)
      warning = shoal_strdup_printf(
          "%s: column %s numbers the rows, as pandas writes its index: dropped; to keep it, give it another name",
          p->path, text);
    if (counts)
      warning = shoal_strdup_printf("%s: column %s counts the rows: if it is an index and no feature, give --drop %zu",
                                    p->path, text, i + 1);
    if (warning) SHOAL_TRY(shoal_texts_take(&l->warnings, warning));
  }
  return SHOAL_OK;
}

/* ---- numbers ---- */

static void find_decimal(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  size_t tell[SHOAL_CSV_EITHER + 1] = { 0 };
  if (l->dialect.decimal) return;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++)
    for (size_t i = 0; i < p->columns; i++)
      if (!l->dropped[i] || shoal_csv_is_target(l, i))
        tell[shoal_csv_tells_decimal(&l->dialect, shoal_csv_cell(p, r, i), NULL)]++;
  l->dialect.decimal = tell[SHOAL_CSV_COMMA] > tell[SHOAL_CSV_POINT] ? ',' : '.';
}

/* A sign of numbers that separates fields, too, can only be in quotes: some field must have it. */
static shoal_status check_sign(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *option, char sign)
{
  if (sign != l->dialect.separator) return SHOAL_OK;
  for (size_t i = 0; i < p->rows * p->columns; i++)
    if (strchr(p->cells[i], sign)) return SHOAL_OK;
  return SHOAL_FAIL(SHOAL_ERR_ARG,
                    "%s: the %s separates fields, so numbers with one would be in quotes, and none is: leave %s out%s",
                    p->path, shoal_csv_sign_name(sign), option,
                    p->args->separator ? "" : ", or give the right separator with --separator");
}

shoal_status shoal_csv_guess_label(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  size_t last = l->columns, named = l->columns, n_named = 0;
  while (last > 0 && l->dropped[last - 1]) last--;
  SHOAL_CHECK(last > 0, SHOAL_ERR_IO, "%s: all %zu columns are dropped", p->path, l->columns);
  l->label = --last;
  for (size_t i = 0; i <= last && l->header; i++)
    if (!l->dropped[i] && (shoal_csv_is_label_name(l->names[i]) || (i == 0 && strcasecmp(l->names[i], "y") == 0))) {
      named = i;
      n_named++;
    }
  if (n_named == 0 || shoal_csv_is_label_name(l->names[last])) return SHOAL_OK;
  char name[48], other[48];
  shoal_show(l->names[named], name, sizeof name);
  SHOAL_CHECK(n_named == 1, SHOAL_ERR_IO,
              "%s: %zu columns have names of labels (\"%s\" is one), and none of them is the last: give --label",
              p->path, n_named, name);
  l->label = named;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the label is column %zu because it is called \"%s\", not the last one, "
                          "\"%s\"; --label %zu takes that",
                          p->path, named + 1, name, shoal_show(l->names[last], other, sizeof other), last + 1));
}

const char *shoal_csv_column_text(const shoal_csv_layout *l, size_t column, char *buf, size_t cap)
{
  char name[48];
  if (l->header)
    snprintf(buf, cap, "%zu, \"%s\"", column + 1, shoal_show(l->names[column], name, sizeof name));
  else
    snprintf(buf, cap, "%zu", column + 1);
  return buf;
}

void shoal_csv_add_label(const shoal_csv_layout *l, shoal_str *out)
{
  char word[SHOAL_WORD];
  if (!l->header) return;
  if (l->label != SHOAL_CSV_NO_LABEL) shoal_str_add(out, " --label %s", shoal_shell_word(l->names[l->label], word));
  for (size_t k = 0; k < l->targets; k++)
    shoal_str_add(out, " --target %s", shoal_shell_word(l->names[l->target[k]], word));
}

size_t shoal_csv_feature_column(const shoal_csv_layout *l, size_t feature)
{
  size_t i = 0;
  while (l->dropped[i] || i == l->label || l->place[i] != feature) i++;
  return i;
}

/* "a, b, c", or "a, b, c, d, e, ... z" of many features. */
static void add_names(const shoal_csv_layout *l, shoal_str *s)
{
  char name[48];
  size_t shown = 0;
  while (shown < l->features) {
    const size_t i = shoal_csv_feature_column(l, shown);
    if (++shown < SHOWN || shown == l->features)
      shoal_str_add(s, "%s%s", shown > 1 ? ", " : "",
                    l->names[i][0] ? shoal_show(l->names[i], name, sizeof name) : "(no name)");
    else {
      shoal_str_add(s, ", ...");
      shown = l->features - 1;
    }
  }
}

void shoal_csv_layout_tell(const shoal_csv_layout *l, const char *path)
{
  char dialect[64], text[96], name[48];
  shoal_str s = { 0 };
  for (size_t i = 0, shown = 0; i < l->columns && shown <= SHOWN; i++) {
    if (!l->dropped[i] || shoal_csv_is_target(l, i)) continue;
    if (shown == SHOWN)
      shoal_str_add(&s, ", ...");
    else
      shoal_str_add(&s, "%s%zu", shown ? ", " : "; dropped: ", i + 1);
    if (shown < SHOWN && l->header && l->names[i][0])
      shoal_str_add(&s, " \"%s\"", shoal_show(l->names[i], name, sizeof name));
    shown++;
  }
  const bool none = l->label == SHOAL_CSV_NO_LABEL && !l->targets;
  shoal_str label = { 0 };
  if (l->label != SHOAL_CSV_NO_LABEL)
    shoal_str_add(&label, "the label is column %s", shoal_csv_column_text(l, l->label, text, sizeof text));
  for (size_t k = 0; k < SHOAL_MIN(l->targets, (size_t)SHOWN); k++)
    shoal_str_add(&label, "%s%s",
                  k                ? ", "
                  : l->targets > 1 ? "the targets are columns "
                                   : "the target is column ",
                  shoal_csv_column_text(l, l->target[k], text, sizeof text));
  if (l->targets > SHOWN) shoal_str_add(&label, ", ...");
  shoal_info("%s: fields are separated by %s; %s; %s; %s %zu%s", path,
             shoal_csv_dialect_text(&l->dialect, dialect, sizeof dialect),
             l->header ? "the first row is the header" : "no header", none ? "there is no label" : label.text,
             none ? "columns that are features:" : "features are the other", l->features, s.len ? s.text : "");
  shoal_str_free(&label);
  shoal_str_clear(&s);
  if (l->header) {
    add_names(l, &s);
    shoal_info("%s: features: %s", path, s.text);
  }
  shoal_str_free(&s);
  for (size_t i = 0; i < l->warnings.n; i++) shoal_warn("%s", l->warnings.at[i]);
}

typedef struct {
  const char *name;
  size_t column;
} named_column;

static int by_name(const void *a, const void *b)
{
  const named_column *p = a, *q = b;
  const int order = strcmp(p->name, q->name);
  return order ? order : (p->column > q->column) - (p->column < q->column);
}

/* Columns of one name stay what they are; mostly one of them was not meant to be there. */
static shoal_status warn_of_twins(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  named_column *all;
  size_t n = 0, twins = 0, one = 0, other = 0;
  char text[96], more[80] = "";
  if (!l->header) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &all));
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && l->names[i][0]) all[n++] = (named_column){ l->names[i], i };
  qsort(all, n, sizeof *all, by_name);
  for (size_t i = 1; i < n; i++)
    if (strcmp(all[i].name, all[i - 1].name) == 0 && twins++ == 0) {
      one = all[i - 1].column;
      other = all[i].column;
    }
  free(all);
  if (!twins || l->features < 2) return SHOAL_OK;
  if (twins > 1) snprintf(more, sizeof more, ", and %zu more columns have a name that is taken", twins - 1);
  return shoal_texts_take(&l->warnings,
                          shoal_strdup_printf("%s: column %zu has the same name as column %s%s: both are used; --drop "
                                              "%zu leaves one out",
                                              p->path, other + 1, shoal_csv_column_text(l, one, text, sizeof text),
                                              more, other == l->label ? one + 1 : other + 1));
}

/* Columns whose names look the same; each may have half of the numbers, as tables that were joined have it. */
static shoal_status warn_of_alike(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  size_t one, other;
  char text[96], name[48], what[96];
  if (!l->header || !shoal_find_alike((const char *const *)l->names, l->columns, &one, &other)) return SHOAL_OK;
  if (l->dropped[one] || l->dropped[other]) return SHOAL_OK;
  return shoal_texts_take(
      &l->warnings,
      shoal_strdup_printf("%s: the names of column %s and column %zu, \"%s\", differ only in %s: are they one?",
                          p->path, shoal_csv_column_text(l, one, text, sizeof text), other + 1,
                          shoal_show(l->names[other], name, sizeof name),
                          shoal_difference(l->names[one], l->names[other], what, sizeof what)));
}

/* The label is settled after what is dropped, since an empty last column is not the label. */
static shoal_status find_all(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  const char *label = p->args->label;
  SHOAL_TRY(shoal_csv_find_header(p, l));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->dropped));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->numeric));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->holds));
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->form));
  for (size_t i = 0; i < l->columns; i++)
    l->numeric[i] = p->numbers[i] && 2 * p->numbers[i] >= p->rows - 1 - p->blanks[i];
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->place));
  for (size_t i = 0; i < l->columns; i++) l->place[i] = SIZE_MAX;
  SHOAL_TRY(drop_asked(p, l));
  SHOAL_TRY(find_targets(p, l));
  for (size_t k = 0; k < l->targets; k++) l->dropped[l->target[k]] = true;
  find_decimal(p, l);
  if (p->like) return shoal_csv_find_known(p, l);
  SHOAL_TRY(shoal_csv_check_names(p, l));
  const bool none = shoal_import_unlabelled(p->args) || l->targets > 0;
  l->label = none ? SHOAL_CSV_NO_LABEL : l->columns - 1;
  if (label && !none) SHOAL_TRY(shoal_csv_find_column(p, l, "--label", label, &l->label));
  SHOAL_TRY(drop_empty_and_index(p, l));
  if (!label && !none) SHOAL_TRY(shoal_csv_guess_label(p, l));
  SHOAL_CHECK(none || !l->dropped[l->label], SHOAL_ERR_ARG, "%s: column %zu is the label and cannot be dropped",
              p->path, l->label + 1);
  l->features = 0;
  for (size_t i = 0; i < l->columns; i++)
    if (i != l->label && !l->dropped[i]) l->place[i] = l->features++;
  SHOAL_CHECK(l->features > 0, SHOAL_ERR_ARG, "%s: no column is left for a feature", p->path);
  SHOAL_TRY(shoal_csv_find_roles(p, l));
  SHOAL_TRY(warn_of_alike(p, l));
  return warn_of_twins(p, l);
}

/* The signs that options give; a sign between thousands leaves the other one for decimals. */
static shoal_csv_dialect given_dialect(const shoal_import_args *a)
{
  shoal_csv_dialect d = { shoal_import_separator(a), a->decimal ? a->decimal[0] : '\0', shoal_import_thousands(a) };
  if (d.thousands == ',') d.decimal = '.';
  if (d.thousands == '.') d.decimal = ',';
  return d;
}

shoal_status shoal_csv_layout_find(const shoal_import_args *a, const shoal_csv_like *like, char decimal,
                                   const char *path, const char *text, size_t n, shoal_csv_layout *out)
{
  shoal_csv_probe p = { .args = a, .like = like, .path = path };
  shoal_csv_layout l = { .args = a, .dialect = given_dialect(a) };
  shoal_status st;
  if (decimal) l.dialect.decimal = decimal;
  SHOAL_TRY_GOTO(st, shoal_csv_find_separator(path, text, n, &l.dialect), done);
  SHOAL_TRY_GOTO(st, shoal_csv_probe_open(&p, &l, text, n), done);
  l.columns = p.columns;
  l.tail = p.tail;
  if (p.tail)
    SHOAL_TRY_GOTO(st,
                   shoal_texts_take(&l.warnings, shoal_strdup_printf(
                                                     "%s: the first row ends with a separator, and the rows below do "
                                                     "not: the empty column behind it is left out",
                                                     path)),
                   done);
  if (a->decimal) SHOAL_TRY_GOTO(st, check_sign(&p, &l, "--decimal", a->decimal[0]), done);
  if (a->thousands) SHOAL_TRY_GOTO(st, check_sign(&p, &l, "--thousands", l.dialect.thousands), done);
  SHOAL_TRY_GOTO(st, shoal_csv_check_columns(&p, &l, text, n), done);
  st = find_all(&p, &l);
done:
  shoal_csv_probe_close(&p);
  if (st == SHOAL_OK)
    *out = l;
  else
    shoal_csv_layout_fini(&l);
  return st;
}

void shoal_csv_layout_fini(shoal_csv_layout *l)
{
  for (size_t i = 0; l->names && i < l->columns; i++) free(l->names[i]);
  free(l->names);
  free(l->dropped);
  free(l->target);
  free(l->place);
  free(l->numeric);
  for (size_t i = 0; l->form && i < l->columns; i++) free(l->form[i]);
  free(l->form);
  free(l->holds);
  shoal_str_free(&l->gaps);
  shoal_str_free(&l->words);
  shoal_texts_free(&l->warnings);
  *l = (shoal_csv_layout){ 0 };
}
