/* A table whose columns are those of a model: found by their names or their order, and what is said where some are missing. */
#include "base/alike.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_command.h"
#include "data/csv_layout_impl.h"
#include "data/data_impl.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6 };

/* Half or more of the cells that are not empty are classes of the model; `any`: some cell is not empty. */
static bool holds_classes(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column, bool *any)
{
  size_t fits = 0, all = 0;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    all += shoal_csv_cell(p, r, column)[0] != 0;
    fits += shoal_csv_cell(p, r, column)[0] && shoal_csv_like_class(p->like, shoal_csv_cell(p, r, column)) >= 0;
  }
  *any = all > 0;
  return all > 0 && 2 * fits >= all;
}

/* Half or more of the cells that are not empty are nearly classes of the model, as with a dot behind them: labels that are misspelt, which
 * are refused by their rows. */
static bool holds_misspelt(const shoal_csv_probe *p, const shoal_csv_layout *l, size_t column)
{
  const shoal_texts *classes = &p->like->class_names;
  size_t near = 0, all = 0;
  for (size_t r = l->header ? 1 : 0; r < p->rows; r++) {
    const char *text = shoal_csv_cell(p, r, column);
    all += text[0] != 0;
    near += text[0] && shoal_nearest(text, (const char *const *)classes->at, classes->n);
  }
  return all > 0 && 2 * near >= all && !l->numeric[column];
}

/* Of the columns that the model does not know one may be the label: by its name, or the last if it holds classes, or what is nearly
 * so. */
static void guess_known_label(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  bool any;
  l->label = SHOAL_CSV_NO_LABEL;
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && l->header && shoal_csv_is_label_name(l->names[i])) {
      (void)holds_classes(p, l, i, &any);
      if (any) l->label = i;
      if (any) return;
    }
  for (size_t i = l->columns; i-- > 0;)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && holds_classes(p, l, i, &any)) {
      l->label = i;
      return;
    }
  for (size_t i = l->columns; i-- > 0 && l->label == SHOAL_CSV_NO_LABEL;)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && holds_misspelt(p, l, i)) l->label = i;
}

/* The first column with that name, or one that looks like it, that is no feature yet; else `columns`. */
static size_t find_named(const shoal_csv_layout *l, const char *name, bool alike)
{
  char shown[256];
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && l->place[i] == SIZE_MAX &&
        (alike ? shoal_look_alike(l->names[i], name) : strcmp(shoal_show(l->names[i], shown, sizeof shown), name) == 0))
      return i;
  return l->columns;
}

/* Whether a missing feature was made of a column: "sex_male" of "sex". */
static bool is_made_of(const char *feature, const char *column)
{
  const size_t n = strlen(column);
  return n > 0 && strncmp(feature, column, n) == 0 && feature[n] == '_';
}

/* Whether the columns whose names begin with the first n bytes of a feature's, up to a "_", are one-hot as far as the first rows tell:
 * 0 and 1, and at most one 1 in a row. */
static bool are_one_hot(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *feature, size_t n)
{
  size_t found = 0;
  for (size_t r = 1; r < p->rows; r++) {
    size_t ones = 0;
    found = 0;
    for (size_t i = 0; i < l->columns; i++) {
      if (strncmp(l->names[i], feature, n) != 0 || l->names[i][n] != '_') continue;
      const char *text = shoal_csv_cell(p, r, i);
      if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) return false;
      ones += *text == '1';
      found++;
    }
    if (ones > 1) return false;
  }
  return found > 0;
}

/* How many bytes of a missing feature's name are that of the column with words that it was made of: of one that the table has, else
 * of one whose other words it has as columns; 0 if there is none. */
static size_t find_origin(const shoal_csv_probe *p, const shoal_csv_layout *l, const char *feature)
{
  size_t n = 0;
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && !l->numeric[i] && is_made_of(feature, l->names[i]))
      n = SHOAL_MAX(n, strlen(l->names[i]));
  for (size_t k = strlen(feature); k-- > 1 && !n;)
    if (feature[k] == '_' && are_one_hot(p, l, feature, k)) n = k;
  return n;
}

/* The command that makes missing features of words, as those of the table that the model was trained on were made; nothing where none
 * can be.  *all: it makes all of them. */
static shoal_status add_known(const shoal_csv_probe *p, const shoal_csv_layout *l, const shoal_texts *missing,
                              shoal_str *command, bool *all)
{
  shoal_str words = { 0 };
  shoal_csv_known known = { 0 };
  shoal_str texts = { 0 };
  size_t made = 0;
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &known.dates));
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] != SIZE_MAX) known.dates[i] = shoal_csv_find_dates(p, i);
  for (size_t least = 4; least > 1 && !texts.len;
       least -= 2) /* words in most of their fields, as where the model learnt */
    for (size_t i = 0; i < l->columns && (least == 4 || !texts.len); i++)
      if (l->place[i] == SIZE_MAX && shoal_csv_are_texts(p, i, least))
        shoal_str_add(&texts, "%s%zu", texts.len ? ", " : "", i);
  bool text = false;
  for (size_t k = 0; k < missing->n; k++) {
    const char *feature = missing->at[k];
    const size_t n = find_origin(p, l, feature);
    const bool word = !n && texts.len && is_made_of(feature, "word");
    char *name = shoal_strdup_printf("\"%.*s\"", (int)n, feature);
    const bool plain = n && !memchr(feature, '"', n) && !memchr(feature, '\'', n) && !memchr(feature, '\\', n);
    if (plain && !(words.len && strstr(words.text, name))) shoal_str_add(&words, "%s%s", words.len ? ", " : "", name);
    free(name);
    text |= word;
    made += plain || word;
  }
  known.texts = text ? texts.text : "";
  known.words = words.len ? words.text : "";
  if (made) shoal_csv_command_known(l, p->path, p->like->path, &known, command);
  *all = made == missing->n;
  shoal_str_free(&words);
  shoal_str_free(&texts);
  for (size_t i = 0; i < l->columns; i++) free(known.dates[i]);
  free(known.dates);
  return SHOAL_OK;
}

/* The first word of a column that the model has as columns of 1 and 0, and has none for: ", of which it does not know ..." */
static void tell_unknown(const shoal_csv_probe *p, const shoal_csv_layout *l, const shoal_texts *missing,
                         shoal_str *out)
{
  char shown[256], word[48], text[96];
  for (size_t i = 0; i < l->columns && !out->len; i++) {
    size_t made = 0;
    if (l->place[i] != SIZE_MAX || l->dropped[i] || l->numeric[i]) continue;
    while (made < missing->n && !is_made_of(missing->at[made], l->names[i])) made++;
    for (size_t r = l->header ? 1 : 0; r < p->rows && made < missing->n && !out->len; r++) {
      const char *cell = shoal_csv_cell(p, r, i);
      char *name = shoal_strdup_printf("%s_%s", l->names[i], cell);
      if (cell[0] && !shoal_texts_have(&p->like->names, shoal_show(name, shown, sizeof shown)))
        shoal_str_add(out, " (\"%s\" in column %s is not known to the model, and is 0 in all of them)",
                      shoal_show(cell, word, sizeof word), shoal_csv_column_text(l, i, text, sizeof text));
      free(name);
    }
  }
}

static shoal_status refuse_missing(const shoal_csv_probe *p, const shoal_csv_layout *l, const shoal_texts *missing)
{
  char shown[48];
  SHOAL_TRY(shoal_csv_check_names(p, l));
  shoal_str lacks = { 0 }, has = { 0 };
  size_t others = 0;
  for (size_t i = 0; i < missing->n && i < SHOWN; i++) shoal_str_add(&lacks, "%s\"%s\"", i ? ", " : "", missing->at[i]);
  if (missing->n > SHOWN) shoal_str_add(&lacks, " and %zu more", missing->n - SHOWN);
  for (size_t i = 0; i < l->columns; i++)
    if (l->place[i] == SIZE_MAX && !l->dropped[i] && others++ < SHOWN)
      shoal_str_add(&has, "%s\"%s\"", others > 1 ? ", " : "", shoal_show(l->names[i], shown, sizeof shown));
  shoal_str command = { 0 }, unknown = { 0 };
  bool all = false;
  tell_unknown(p, l, missing, &unknown);
  const bool more = missing->n > 1;
  shoal_status st = add_known(p, l, missing, &command, &all);
  if (st == SHOAL_OK)
    st = SHOAL_FAIL(SHOAL_ERR_ARG, "%s lacks the column%s %s, which %s was trained on%s%s%s: %s%s%s%s%s%s", p->path,
                    more ? "s" : "", lacks.text, p->like->path, has.len ? "; that does not know " : "",
                    has.len ? has.text : "", others > SHOWN ? ", ..." : "",
                    all    ? ""
                    : more ? "add them (where their values are not known, empty, with --missing mean), or name them as "
                             "there"
                           : "add it (where its values are not known, empty, with --missing mean), or name it as there",
                    command.len && !all ? "; those of words: " : "",
                    command.len ? "make columns of 1 and 0 of its words, as those of the model were made" : "",
                    command.len && unknown.len ? unknown.text : "",
                    command.len ? shoal_csv_command_order(&command) : "", command.len ? ", as " : "");
  char word[SHOAL_WORD];
  if (command.len)
    st = shoal_error_append(st, "%s, and shoal data import csv NEW --like %s -o NEW.h5", command.text,
                            shoal_shell_word(p->args->like, word));
  shoal_str_free(&command);
  shoal_str_free(&unknown);
  shoal_str_free(&lacks);
  shoal_str_free(&has);
  return st;
}

/* By their names, in the order of the model. */
static shoal_status place_named(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  const shoal_texts *names = &p->like->names;
  shoal_texts missing = { 0 };
  char shown[48], what[96];
  bool *found;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(names->n, &found));
  for (int alike = 0; alike < 2 && st == SHOAL_OK; alike++)
    for (size_t k = 0; k < names->n && st == SHOAL_OK; k++) {
      const size_t i = found[k] ? l->columns : find_named(l, names->at[k], alike);
      if (i < l->columns) {
        found[k] = true;
        l->place[i] = k;
      }
      if (alike && !found[k]) st = shoal_texts_add(&missing, names->at[k]);
      if (alike && i < l->columns)
        st = shoal_texts_take(
            &l->warnings,
            shoal_strdup_printf("%s: column %zu, \"%s\", is taken for \"%s\" of %s: they differ only in %s", p->path,
                                i + 1, shoal_show(l->names[i], shown, sizeof shown), names->at[k], p->like->path,
                                shoal_difference(l->names[i], names->at[k], what, sizeof what)));
    }
  if (st == SHOAL_OK && missing.n) st = refuse_missing(p, l, &missing);
  shoal_texts_free(&missing);
  free(found);
  return st;
}

/* By their order, of a table without a header; one column more is the label. */
static shoal_status place_counted(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  size_t kept = 0, k = 0;
  for (size_t i = 0; i < l->columns; i++) kept += !l->dropped[i] && i != l->label;
  if (kept == p->like->features + 1 && !p->args->label && !p->like->targets) {
    SHOAL_TRY(shoal_csv_guess_label(p, l));
    kept--;
  }
  SHOAL_CHECK(kept == p->like->features, SHOAL_ERR_ARG,
              "%s has %zu columns for features, %s was trained on %zu%s: give the same ones (--drop leaves one out)",
              p->path, kept, p->like->path, p->like->features,
              p->like->names.n && !l->header ? ", and the table has no header that names them" : "");
  for (size_t i = 0; i < l->columns; i++)
    if (!l->dropped[i] && i != l->label) l->place[i] = k++;
  if (!p->like->names.n) return SHOAL_OK;
  return shoal_texts_take(
      &l->warnings, shoal_strdup_printf("%s has no header that names its columns: they are taken in the order of %s",
                                        p->path, p->like->path));
}

/* Whether a model's features are called as a command calls the columns of a table without a header: "column1", "column2_red". */
static bool counts_columns(const shoal_texts *names)
{
  size_t n = 0;
  while (n < names->n && (strncmp(names->at[n], "word_", 5) == 0 || (strncmp(names->at[n], "column", 6) == 0 &&
                                                                     names->at[n][6] >= '1' && names->at[n][6] <= '9')))
    n++;
  return n > 0 && n == names->n;
}

static shoal_status name_by_number(shoal_csv_layout *l)
{
  SHOAL_TRY(SHOAL_ALLOC(l->columns, &l->names));
  for (size_t i = 0; i < l->columns; i++) l->names[i] = shoal_strdup_printf("column%zu", i + 1);
  return SHOAL_OK;
}

shoal_status shoal_csv_find_known(const shoal_csv_probe *p, shoal_csv_layout *l)
{
  const char *label = p->args->label;
  const bool none = shoal_import_unlabelled(p->args);
  const bool numbers = p->like->targets > 0;
  l->like = true;
  l->label = SHOAL_CSV_NO_LABEL;
  SHOAL_CHECK(!numbers || !label || none, SHOAL_ERR_ARG,
              "--label: %s was trained to predict numbers: give --target, or leave it out", p->like->path);
  SHOAL_CHECK(l->targets == 0 || l->targets == p->like->targets, SHOAL_ERR_ARG,
              "%s was trained on %zu target%s%s, and %zu %s given: name the same ones, or leave --target out",
              p->like->path, p->like->targets, p->like->targets == 1 ? "" : "s", numbers ? "" : " but classes",
              l->targets, l->targets == 1 ? "is" : "are");
  if (label && !none) SHOAL_TRY(shoal_csv_find_column(p, l, "--label", label, &l->label));
  if (!l->header && counts_columns(&p->like->names)) SHOAL_TRY(name_by_number(l));
  if (!l->names || !p->like->names.n) {
    SHOAL_TRY(place_counted(p, l));
  } else {
    SHOAL_TRY(place_named(p, l));
    SHOAL_CHECK(!label || none || l->place[l->label] == SIZE_MAX, SHOAL_ERR_ARG,
                "%s: column %zu is a feature of %s, and not the label", p->path, l->label + 1, p->like->path);
    if (!label && !numbers) guess_known_label(p, l);
  }
  for (size_t i = 0; i < l->columns; i++) l->dropped[i] |= i != l->label && l->place[i] == SIZE_MAX;
  l->features = p->like->features;
  shoal_csv_look_at_columns(p, l);
  return SHOAL_OK;
}
