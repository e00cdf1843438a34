/* Tables: one column is the label, or some are targets, all others that are not dropped are features (csv_layout.h); labels become
 * classes (csv_classes.h), targets stay numbers.  The rows are read by csv_table.h. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_beside.h"
#include "data/csv_table.h"
#include "data/data_impl.h"
#include "data/labels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6 };

static void tell_thousands(const shoal_csv_table *t)
{
  size_t found = 0;
  char text[96];
  for (size_t i = 0; i < t->layout.features; i++)
    if (t->thousands[i] && found++ < SHOWN)
      shoal_info("%s: %s: thousands separator %s", t->args->sources[0],
                 shoal_csv_feature_text(&t->layout, i, text, sizeof text),
                 t->thousands[i] == ' ' ? "space" : (char[]){ t->thousands[i], '\0' });
  if (found > SHOWN) shoal_info("%s: and in %zu more columns", t->args->sources[0], found - SHOWN);
}

/* Whether the first column holds whole numbers of which some come again. */
static bool may_be_label(const shoal_csv_table *t)
{
  enum { VALUES = 1000 };
  bool seen[VALUES] = { false };
  size_t n = 0;
  for (size_t i = 0; i < t->rows; i++) {
    const float x = t->x[i * t->layout.features];
    if (x < 0 || x >= VALUES || x != (float)(int)x) return false;
    n += !seen[(int)x];
    seen[(int)x] = true;
  }
  return n > 1 && 2 * n <= t->rows;
}

/* The last column was taken for the label and is always the same, as the last pixel of images behind their labels is. */
static void warn_of_last(const shoal_csv_table *t)
{
  const shoal_csv_layout *l = &t->layout;
  if (t->like || t->args->label || l->label + 1 != l->columns || t->classes.classes != 1 || l->dropped[0]) return;
  if (may_be_label(t))
    shoal_warn(
        "%s: column %zu, taken for the label as it is the last, has one value in all rows: if the label is column 1, "
        "give --label 1",
        t->args->sources[0], l->columns);
}

/* Columns in front of the label that hold one 1 in every row together with it, and else 0: classes one-hot, of which the last
 * column was taken for the label, and the others tell it.  Returns how many there are, 0 for none. */
static size_t find_one_hot(const shoal_csv_table *t, uint8_t *ones)
{
  const shoal_csv_layout *l = &t->layout;
  size_t before = 0;
  for (size_t i = 0; i < l->label; i++) before += !l->dropped[i];
  for (size_t i = 0; i < t->rows; i++) ones[i] = (uint8_t)(t->y[i] == 1);
  for (size_t width = 1; width <= before; width++) {
    bool one = true;
    for (size_t i = 0; i < t->rows; i++) {
      const float x = t->x[i * l->features + before - width];
      if (x != 0 && (x != 1 || ones[i])) return 0;
      ones[i] |= x == 1;
      one &= ones[i];
    }
    if (one && width > 1) return width;
  }
  return 0;
}

static shoal_status warn_of_one_hot(const shoal_csv_table *t)
{
  uint8_t *ones;
  char text[80];
  if (t->like || t->classes.classes != 2 || t->classes.names.len) return SHOAL_OK; /* so none without labels */
  SHOAL_TRY(SHOAL_ALLOC(t->rows, &ones));
  const size_t width = find_one_hot(t, ones);
  free(ones);
  if (width)
    shoal_warn(
        "%s: column %s and the %zu before it hold one 1 in every row: if they are classes one-hot, make one column "
        "of class numbers of them, for the others tell the label",
        t->args->sources[0], shoal_csv_column_text(&t->layout, t->layout.label, text, sizeof text), width);
  return SHOAL_OK;
}

/* Whether a feature has one value for each class, and another one for every other; value [classes] is scratch. */
static bool names_classes(const shoal_csv_table *t, size_t feature, float *value)
{
  const int32_t classes = t->classes.classes;
  for (int32_t c = 0; c < classes; c++) value[c] = NAN;
  for (size_t i = 0; i < t->rows; i++) {
    const float x = t->x[i * t->layout.features + feature];
    float *of_class = &value[t->y[i]];
    if (!isnan(*of_class) && *of_class != x) return false;
    *of_class = x;
  }
  for (int32_t c = 0; c < classes; c++)
    for (int32_t k = 0; k < c; k++)
      if (value[c] == value[k]) return false;
  return true;
}

/* The label in another form beside itself, such as the number of a class beside its name, tells it to any model. */
static shoal_status warn_of_label_twice(const shoal_csv_table *t)
{
  enum { MOST = 1000, ROWS = 4 }; /* classes; rows of each, so that it is no chance */
  const int32_t classes = t->classes.classes;
  char text[80];
  float *value;
  if (t->like || classes < 2 || classes > MOST || t->rows < ROWS * (size_t)classes) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)classes, &value));
  for (size_t k = 0; k < t->layout.features && t->layout.features > 1; k++)
    if (names_classes(t, k, value)) {
      const size_t column = shoal_csv_feature_column(&t->layout, k);
      shoal_warn("%s: column %s has one value for each class: if it is the label in another form, give --drop %zu",
                 t->args->sources[0], shoal_csv_column_text(&t->layout, column, text, sizeof text), column + 1);
    }
  free(value);
  return SHOAL_OK;
}

/* "labels become classes 0 to 99 in sorted order: a, b, c, d, e, f, ... (100 in all)" */
static void tell_classes(const shoal_csv_table *t)
{
  char name[48];
  size_t shown = 0;
  shoal_str s = { 0 };
  for (const char *at = t->classes.names.text; *at && shown < SHOWN; shown++) {
    const size_t n = strcspn(at, "\n");
    char *one = shoal_strdup_printf("%.*s", (int)SHOAL_MIN(n, sizeof name - 1), at);
    shoal_str_add(&s, "%s%s", shown ? ", " : "", shoal_show(one, name, sizeof name));
    free(one);
    at += n + (at[n] == '\n');
  }
  if (t->classes.classes > SHOWN) shoal_str_add(&s, ", ... (%" PRId32 " in all)", t->classes.classes);
  shoal_info("labels become classes 0 to %" PRId32 " in sorted order: %s", t->classes.classes - 1, s.text);
  shoal_str_free(&s);
}

/* A label that the model does not know, with the class that is mostly meant. */
static shoal_status refuse_label(const shoal_csv_class *c, const shoal_csv_like *like)
{
  const char *near = shoal_nearest(c->text, (const char *const *)like->class_names.at, like->class_names.n);
  char shown[48], other[48], word[SHOAL_WORD], meant[SHOAL_WORD + 128] = "";
  if (near && shoal_labels_dotted(near, c->text))
    snprintf(meant, sizeof meant, " (\"%s\" with a dot: sed 's/\\.$//' %s >NEW takes those at the ends of lines away)",
             shoal_show(near, other, sizeof other), shoal_shell_word(c->path, word));
  else if (near)
    snprintf(meant, sizeof meant, " (did you mean \"%s\"?)", shoal_show(near, other, sizeof other));
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s:%zu:%zu: label \"%s\" is no class of %s%s: correct it, name the column of the labels with "
                    "--label, or predict without labels, by --label none",
                    c->path, c->line, c->column, shoal_show(c->text, shown, sizeof shown), like->path, meant);
}

/* The classes of a model, some of which may not occur. */
static shoal_status map_known(shoal_csv_table *t)
{
  const shoal_csv_like *like = t->like;
  for (size_t i = 0; i < t->classes.n; i++) {
    shoal_csv_class *c = &t->classes.all[i];
    c->rank = shoal_csv_like_class(like, c->text);
    if (c->rank < 0) return refuse_label(c, like);
  }
  for (size_t i = 0; i < t->rows; i++) t->y[i] = t->classes.all[t->y[i]].rank;
  for (size_t k = 0; k < like->class_names.n; k++)
    (void)shoal_labels_add_name(&t->classes.names, k == 0, like->class_names.at[k]);
  t->classes.classes = (int32_t)like->classes;
  shoal_info("labels are the %" PRId32 " classes of %s", t->classes.classes, like->path);
  return SHOAL_OK;
}

static shoal_status map_labels(shoal_csv_table *t)
{
  char column[80];
  if (t->layout.label == SHOAL_CSV_NO_LABEL) {
    t->classes.classes = 1;
    shoal_str_add(&t->classes.names, SHOAL_LABELS_NONE);
    return SHOAL_OK;
  }
  if (t->like) return map_known(t);
  shoal_csv_column_text(&t->layout, t->layout.label, column, sizeof column);
  SHOAL_TRY(shoal_csv_classes_finish(&t->classes, &t->layout.dialect, t->args->sources[0], column));
  for (size_t i = 0; i < t->rows; i++) t->y[i] = t->classes.all[t->y[i]].rank;
  if (t->classes.names.len)
    tell_classes(t);
  else
    shoal_info("labels are classes 0 to %" PRId32, t->classes.classes - 1);
  return SHOAL_OK;
}

/* Targets over the training split, as a network will see them; one that is always the same is refused. */
static shoal_status judge_targets(const shoal_csv_table *t)
{
  const shoal_csv_layout *l = &t->layout;
  char text[96];
  for (size_t k = 0; k < l->targets; k++) {
    double n = 0, mean = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < t->rows; i++) {
      const double v = t->target[i * l->targets + k], off = v - mean;
      if (t->test[i]) continue;
      mean += off / ++n;
      squares += off * (v - mean);
      low = fmin(low, v);
      high = fmax(high, v);
    }
    shoal_csv_column_text(l, l->target[k], text, sizeof text);
    SHOAL_CHECK(
        low < high || t->like, SHOAL_ERR_IO,
        "%s: column %s is %.9g in all %.0f training rows: there is nothing to learn; name another with --target",
        t->args->sources[0], text, low, n);
    if (k < SHOWN && n > 0)
      shoal_info("target %s: %.9g to %.9g, mean %.6g, standard deviation %.6g in %.0f training rows", text, low, high,
                 mean, sqrt(squares / n), n);
  }
  return SHOAL_OK;
}

/* As they are shown, one per line: names of columns may hold anything. */
static void list_features(const shoal_csv_layout *l, shoal_str *out)
{
  char name[256];
  for (size_t k = 0; l->header && k < l->features; k++)
    shoal_str_add(out, "%s%s", k ? "\n" : "", shoal_show(l->names[shoal_csv_feature_column(l, k)], name, sizeof name));
}

/* Likewise; without a header they have none. */
static void list_targets(const shoal_csv_layout *l, shoal_str *out)
{
  char name[256];
  for (size_t k = 0; l->header && k < l->targets; k++)
    shoal_str_add(out, "%s%s", k ? "\n" : "", shoal_show(l->names[l->target[k]], name, sizeof name));
}

/* Whether all features are pixels of images: whole numbers from 0 to 255. */
static bool are_pixels(const shoal_csv_table *t)
{
  const size_t n = t->rows * t->layout.features;
  size_t i = 0;
  if (t->sample.ndim != 3) return false;
  while (i < n && t->x[i] >= 0 && t->x[i] <= UINT8_MAX && t->x[i] == (float)(int)t->x[i]) i++;
  return i == n;
}

/* Makes bytes of all numbers, in their place: each is read before anything is written over it. */
static uint8_t *pack_pixels(const shoal_csv_table *t)
{
  uint8_t *to = (uint8_t *)t->x;
  for (size_t i = 0; i < t->rows * t->layout.features; i++) to[i] = (uint8_t)t->x[i];
  return to;
}

static shoal_status write_table(const shoal_csv_table *t, const char *out_path)
{
  char source[256];
  const bool pixels = are_pixels(t);
  shoal_data_writer *w;
  shoal_import_source_text(t->args, source, sizeof source);
  const size_t targets = t->layout.targets;
  shoal_str names = { 0 }, target_names = { 0 };
  list_targets(&t->layout, &target_names);
  if (t->like)
    for (size_t k = 0; k < t->like->names.n; k++) shoal_str_add(&names, "%s%s", k ? "\n" : "", t->like->names.at[k]);
  else
    list_features(&t->layout, &names);
  shoal_data_spec spec = { t->sample.ndim == 3 ? SHOAL_DATA_IMAGES : SHOAL_DATA_FEATURES,
                           t->sample,
                           pixels ? 1 : 4,
                           source,
                           .feature_names = names.text,
                           .targets = targets,
                           .target_names = target_names.text };
  shoal_status st = shoal_data_expect(out_path, &spec, t->rows);
  if (st == SHOAL_OK) st = shoal_data_writer_create(out_path, &spec, &w);
  shoal_str_free(&names);
  shoal_str_free(&target_names);
  SHOAL_TRY(st);
  const char *x = pixels ? (const char *)pack_pixels(t) : (const char *)t->x;
  const size_t row = t->layout.features * (size_t)spec.x_bytes;
  for (size_t i = 0, n; i < t->rows && st == SHOAL_OK; i += n) { /* runs of rows of one split */
    for (n = 1; i + n < t->rows && t->test[i + n] == t->test[i];) n++;
    st = shoal_data_writer_add(w, t->test[i] ? SHOAL_TEST : SHOAL_TRAIN, n, x + i * row,
                               targets ? (const void *)(t->target + i * targets) : t->y + i);
  }
  if (st == SHOAL_OK)
    st = shoal_data_writer_commit(w, t->classes.classes, t->classes.names.len ? t->classes.names.text : NULL);
  shoal_data_writer_destroy(w);
  return st;
}

/* No test samples are drawn from a table that a model is to predict, unless that is asked for. */
static bool is_for_predictions(const shoal_import_args *a)
{
  return shoal_import_unlabelled(a) || (a->like && !a->train_count && !*a->test_share);
}

/* Of a feature that is not the only one. */
static size_t drop_number(const void *layout, size_t feature)
{
  const shoal_csv_layout *l = layout;
  return l->features > 1 && !l->like ? shoal_csv_feature_column(l, feature) + 1 : 0;
}

static shoal_status import_all(const shoal_import_args *a, const char *out_path)
{
  shoal_csv_table t = { .args = a };
  shoal_csv_like like = { 0 };
  shoal_import_roles roles = { 0 };
  shoal_status st;
  if (a->like) SHOAL_TRY_GOTO(st, shoal_csv_like_read(a->like, &like), done);
  if (a->like) t.like = &like;
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, shoal_csv_table_read(&t, roles.test), done);
  tell_thousands(&t);
  shoal_narrow_warn(&t.narrow, a->sources[0], shoal_csv_feature_text, drop_number, &t.layout);
  SHOAL_TRY_GOTO(st, map_labels(&t), done);
  warn_of_last(&t);
  SHOAL_TRY_GOTO(st, warn_of_one_hot(&t), done);
  SHOAL_TRY_GOTO(st, warn_of_label_twice(&t), done);
  if (!roles.by_name && !is_for_predictions(a))
    SHOAL_TRY_GOTO(st, shoal_import_split(a, t.rows, t.layout.targets ? NULL : t.y, t.test), done);
  SHOAL_TRY_GOTO(st, judge_targets(&t), done);
  SHOAL_TRY_GOTO(st, shoal_csv_table_mend(&t), done);
  st = write_table(&t, out_path);
done:
  shoal_import_roles_fini(&roles);
  shoal_csv_table_fini(&t);
  shoal_csv_like_fini(&like);
  return st;
}

/* ---- parts without rows ---- */

/* The first line of a file, "" if it has none, and whether another one with something on it follows.  Caller frees. */
static shoal_status read_first_line(const char *path, char **line, bool *more)
{
  enum { MOST = 1 << 16 };
  static const char blanks[] = " \t\r\n";
  shoal_source *s;
  size_t n = 0;
  char *text;
  SHOAL_TRY(SHOAL_ALLOC(MOST + 1, &text));
  shoal_status st = shoal_source_open(path, &s);
  if (st == SHOAL_OK) {
    st = shoal_source_read(s, text, MOST, &n);
    shoal_source_close(s);
  }
  text[st == SHOAL_OK ? n : 0] = '\0';
  const size_t from = strspn(text, blanks), end = from + strcspn(text + from, "\r\n");
  *more = n == MOST || strlen(text) < n || text[end + strspn(text + end, blanks)] != '\0';
  text[end] = '\0';
  memmove(text, text + from, end - from + 1);
  *line = text;
  return st;
}

/* Of several files those that are empty, or have the header of another one alone, as writers of parts leave them: marked in out
 * [n_sources], and told. */
static shoal_status find_empty(const shoal_import_args *a, bool *out)
{
  const size_t n = a->n_sources;
  char **lines = NULL;
  bool *more = NULL;
  size_t found = 0, first = 0;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &lines), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &more), done);
  for (size_t i = 0; i < n; i++) SHOAL_TRY_GOTO(st, read_first_line(a->sources[i], &lines[i], &more[i]), done);
  for (size_t i = 0; i < n; i++) {
    out[i] = !more[i] && !lines[i][0];
    for (size_t k = 0; k < n && !more[i] && !out[i]; k++) out[i] = more[k] && strcmp(lines[i], lines[k]) == 0;
    if (out[i] && found++ == 0) first = i;
  }
  if (found == n)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s and the %zu other files are empty: no rows with data", a->sources[0], n - 1);
  else if (found > 1)
    shoal_warn("%s and %zu more of the %zu files have no rows with data, and are left out", a->sources[first],
               found - 1, n);
  else if (found)
    shoal_warn("%s has no rows with data, and is left out", a->sources[first]);
done:
  for (size_t i = 0; lines && i < n; i++) free(lines[i]);
  free(lines);
  free(more);
  return st;
}

shoal_status shoal_import_csv(const shoal_import_args *a, const char *out_path)
{
  shoal_import_args kept = *a;
  const char **sources = NULL;
  bool *empty = NULL;
  shoal_status st;
  static const double no_share = 0;
  if ((shoal_import_unlabelled(a) || a->like) && !a->test_share && !a->train_count) kept.test_share = &no_share;
  if (a->n_sources < 2) return import_all(&kept, out_path);
  SHOAL_TRY(shoal_csv_refuse_beside(a, out_path));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &sources), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &empty), done);
  SHOAL_TRY_GOTO(st, find_empty(a, empty), done);
  kept.n_sources = 0;
  for (size_t i = 0; i < a->n_sources; i++)
    if (!empty[i]) sources[kept.n_sources++] = a->sources[i];
  kept.sources = sources;
  st = import_all(&kept, out_path);
done:
  free(sources);
  free(empty);
  return st;
}
