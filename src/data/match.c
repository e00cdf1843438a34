/* Finds the role of each array of a file: ours by their exact names, foreign ones by the words in their names.
 *
 * "X_train", "train/images", "train_set_x" and "xTrain" mean the same thing, so a name is split into words, and each
 * word may indicate the split or the part (x or y); filler words are ignored and any other word excludes the array:
 *
 *     train_set_x_orig  ->  train | set | x | orig      part x of the training split
 *     list_classes      ->  list ...                    excluded
 *
 * If two arrays match the same part, nothing is guessed: the error names both.  Arrays without a role are ignored,
 * whatever they hold; those with one must be stored in this file, in a way that Shoal reads.  A link that leads nowhere has a
 * role if no array has it: the array was meant to be there. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { PART_NONE, PART_X, PART_Y, PART_TOKENS } part_kind;
/* PLAIN: no word for a split, used as training split if no other array is.  VALIDATION replaces a missing test
 * split. */
typedef enum { SPLIT_PLAIN, SPLIT_TRAIN, SPLIT_TEST, SPLIT_VALIDATION } split_word;

enum { MAX_ARRAYS = 256 };
typedef struct {
  char name[SHOAL_DATA_NAME];
  part_kind part;
  split_word split;
  bool dangling; /* a link that leads nowhere */
} array;
typedef struct {
  shoal_h5 file;
  const char *path;
  array *list;
  size_t n;
} arrays;

typedef enum { WORD_PART, WORD_SPLIT, WORD_FILLER, WORD_DATA } word_kind;
static const struct {
  const char *word;
  word_kind kind;
  int value;
} words[] = {
  { "x", WORD_PART, PART_X },
  { "image", WORD_PART, PART_X },
  { "images", WORD_PART, PART_X },
  { "img", WORD_PART, PART_X },
  { "imgs", WORD_PART, PART_X },
  { "feature", WORD_PART, PART_X },
  { "features", WORD_PART, PART_X },
  { "input", WORD_PART, PART_X },
  { "inputs", WORD_PART, PART_X },
  { "pixels", WORD_PART, PART_X },
  { "y", WORD_PART, PART_Y },
  { "label", WORD_PART, PART_Y },
  { "labels", WORD_PART, PART_Y },
  { "target", WORD_PART, PART_Y },
  { "targets", WORD_PART, PART_Y },
  { "class", WORD_PART, PART_Y },
  { "output", WORD_PART, PART_Y },
  { "outputs", WORD_PART, PART_Y },
  { "token", WORD_PART, PART_TOKENS },
  { "tokens", WORD_PART, PART_TOKENS },
  { "train", WORD_SPLIT, SPLIT_TRAIN },
  { "training", WORD_SPLIT, SPLIT_TRAIN },
  { "tr", WORD_SPLIT, SPLIT_TRAIN },
  { "te", WORD_SPLIT, SPLIT_TEST },
  { "test", WORD_SPLIT, SPLIT_TEST },
  { "testing", WORD_SPLIT, SPLIT_TEST },
  { "val", WORD_SPLIT, SPLIT_VALIDATION },
  { "valid", WORD_SPLIT, SPLIT_VALIDATION },
  { "validation", WORD_SPLIT, SPLIT_VALIDATION },
  { "set", WORD_FILLER, 0 },
  { "orig", WORD_FILLER, 0 },
  { "dataset", WORD_FILLER, 0 },
  { "data", WORD_DATA, 0 },
};

const char *shoal_data_next_word(const char *c, char word[SHOAL_DATA_WORD])
{
  size_t n = 0;
  while (*c && !isalpha((unsigned char)*c)) c++;
  if (!*c) return NULL;
  do {
    if (n < SHOAL_DATA_WORD - 1) word[n++] = (char)tolower((unsigned char)*c);
    c++;
  } while (isalpha((unsigned char)*c) && !(islower((unsigned char)c[-1]) && isupper((unsigned char)*c)));
  word[n] = '\0';
  return c;
}

/* The index of a word in the list, or SHOAL_COUNT(words). */
static size_t find_word(const char *word)
{
  size_t i = 0;
  while (i < SHOAL_COUNT(words) && strcmp(word, words[i].word) != 0) i++;
  return i;
}

/* Parses a name; PART_NONE if it has contradictory words, or, unless `loose`, one that is not in the list.  Of "x_train/labels" the last part counts;
 * "xtr" is x and tr. */
static void read_name(const char *name, bool loose, part_kind *part, split_word *split)
{
  char word[SHOAL_DATA_WORD];
  const char *last = strrchr(name, '/');
  bool data = false, above = false; /* *part is from a group's name */
  *part = PART_NONE;
  *split = SPLIT_PLAIN;
  for (const char *c = name; (c = shoal_data_next_word(c, word)) != NULL;) {
    const bool glued = find_word(word) == SHOAL_COUNT(words) && (word[0] == 'x' || word[0] == 'y') && word[1];
    const char *const parts[] = { glued ? word + 1 : word, glued && word[0] == 'x' ? "x" : glued ? "y" : NULL };
    for (size_t k = 0; k < SHOAL_COUNT(parts) && parts[k]; k++) {
      const size_t i = find_word(parts[k]);
      const bool known = i < SHOAL_COUNT(words) && (!glued || k == 1 || words[i].kind == WORD_SPLIT);
      if (known && words[i].kind == WORD_PART && (*part == PART_NONE || above || *part == (part_kind)words[i].value)) {
        *part = (part_kind)words[i].value;
        above = last && c <= last;
      } else if (known && words[i].kind == WORD_SPLIT &&
                 (*split == SPLIT_PLAIN || *split == (split_word)words[i].value))
        *split = (split_word)words[i].value;
      else if (known && words[i].kind == WORD_DATA)
        data = true;
      else if (known ? words[i].kind != WORD_FILLER : !loose) {
        *part = PART_NONE;
        return;
      }
    }
  }
  if (*part == PART_NONE && data) *part = PART_X;
}

shoal_data_role shoal_data_role_of(const char *name, bool loose)
{
  part_kind part;
  split_word split;
  read_name(name, loose, &part, &split);
  return part == PART_X ? SHOAL_ROLE_X : part == PART_Y ? SHOAL_ROLE_Y : SHOAL_ROLE_NONE;
}

/* Whether the name leads out of the file; the array is then a candidate all the same, to be refused if it is chosen. */
static bool is_elsewhere(const arrays *a, const char *name)
{
  shoal_error pending;
  bool packed;
  shoal_error_take(&pending);
  bool is = shoal_h5_refuse_foreign_at(a->file, a->path, name, &packed) != SHOAL_OK;
  (void)shoal_error_put(&pending);
  return is;
}

static bool is_dangling(const arrays *a, const char *name)
{
  shoal_error pending;
  shoal_error_take(&pending);
  bool is = shoal_h5_refuse_dangling(a->file, a->path, name) != SHOAL_OK;
  (void)shoal_error_put(&pending);
  return is;
}

static void visit(void *context, const char *name)
{
  arrays *a = context;
  array found = { "", PART_NONE, SPLIT_PLAIN, false };
  if (!shoal_h5_is_data_set(a->file, name) && !is_elsewhere(a, name)) {
    found.dangling = is_dangling(a, name);
    if (!found.dangling) return; /* a group */
  }
  if (snprintf(found.name, sizeof found.name, "%s", name) < (int)sizeof found.name)
    read_name(name, false, &found.part, &found.split);
  if (found.part != PART_NONE && a->n < MAX_ARRAYS) a->list[a->n++] = found;
}

static shoal_status refuse_both(const arrays *a, const char *path, const char *one, const char *other, const char *role)
{
  char *command = shoal_data_pair_command(a->file, path);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO, "%s: both /%s and /%s could be the %s; %s", path, one, other, role,
                 command ? command : "copy the right one to a file with /train/x, /train/y, /test/x and /test/y");
  free(command);
  return st;
}

/* Chooses the array that matches, "" if none does. */
static shoal_status choose(const arrays *a, const char *path, part_kind part, split_word first, split_word second,
                           const char *role, char out[SHOAL_DATA_NAME])
{
  const array *one = NULL;
  for (int round = 0; round < 2 && !one; round++)
    for (size_t i = 0; i < a->n; i++) {
      if (a->list[i].part != part || a->list[i].split != (round == 0 ? first : second)) continue;
      if (one && a->list[i].dangling) continue;
      if (one && !one->dangling) return refuse_both(a, path, one->name, a->list[i].name, role);
      one = &a->list[i];
    }
  snprintf(out, SHOAL_DATA_NAME, "%s", one ? one->name : "");
  return SHOAL_OK;
}

static bool ends_with(const char *name, const char *end)
{
  const size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

/* Numbers to be predicted are floats: integers of that name are classes, as in many files. */
static bool has_fractions(const arrays *a, const char *name)
{
  shoal_h5_facts f;
  return shoal_h5_is_data_set(a->file, name) && shoal_h5_look(a->file, name, &f) == SHOAL_OK &&
         f.class == SHOAL_H5_FLOAT;
}

/* A file of test arrays alone, beside others. */
static shoal_status match_tests(const arrays *a, const char *path, shoal_data_names *out)
{
  SHOAL_TRY(choose(a, path, PART_X, SPLIT_TEST, SPLIT_VALIDATION, "test samples", out->x[0]));
  SHOAL_TRY(choose(a, path, PART_Y, SPLIT_TEST, SPLIT_VALIDATION, "test labels", out->y[0]));
  out->tests_only = out->x[0][0] && out->y[0][0];
  out->targets = ends_with(out->y[0], "/targets") && has_fractions(a, out->y[0]);
  return SHOAL_OK;
}

/* ---- what there is instead ---- */

enum { SHOWN = 6 };
typedef struct {
  shoal_h5 file;
  shoal_str text;
  size_t n;
  bool pandas;                 /* it has what pandas.DataFrame.to_hdf writes */
  char table[SHOAL_DATA_NAME]; /* the last array with a row of several members per sample, or "" */
} contents;

/* ", /images [60000, 28, 28] u8" */
static void add_array(void *context, const char *name)
{
  contents *c = context;
  char shown[80];
  shoal_h5_facts f;
  c->pandas |= ends_with(name, "/block0_values") || strstr(name, "/_i_table/");
  if (!shoal_h5_is_data_set(c->file, name) || c->n++ >= SHOWN) return;
  shoal_str_add(&c->text, "%s/%s", c->n > 1 ? ", " : "", shoal_show(name, shown, sizeof shown));
  if (shoal_h5_look(c->file, name, &f) != SHOAL_OK) return;
  if (f.class == SHOAL_H5_RECORD && f.ndim == 1 && !f.member[0]) snprintf(c->table, sizeof c->table, "%s", name);
  for (int i = 0; i < f.ndim; i++) shoal_str_add(&c->text, "%s%" PRIu64, i ? ", " : " [", f.dims[i]);
  shoal_str_add(&c->text, "%s %s", f.ndim ? "]" : "", f.described);
}

/* Adds the arrays of the file to an error about one that is missing. */
static shoal_status tell_contents(shoal_status st, shoal_h5 file, const char *path)
{
  contents c = { .file = file };
  shoal_error pending;
  shoal_error_take(&pending);
  shoal_status listed = shoal_h5_list(file, add_array, &c);
  char *pair = shoal_data_pair_command(file, path);
  (void)shoal_error_put(&pending);
  if (listed == SHOAL_OK && c.n == 0) st = shoal_error_append(st, "; it has no arrays");
  if (listed == SHOAL_OK && c.n > 0) st = shoal_error_append(st, "; it has %s", c.text.text);
  if (c.n > SHOWN) st = shoal_error_append(st, " and %zu more (h5ls -r lists them)", c.n - SHOWN);
  if (c.pandas) {
    static const char *const packages[] = { "pandas", "tables", NULL };
    char from[SHOAL_WORD], to[SHOAL_WORD], *table = shoal_strdup_printf("%s.csv", path);
    shoal_python python;
    shoal_find_python(packages, &python);
    st = shoal_error_append(st,
                            "; pandas wrote it: %s -c \"import pandas; pandas.read_hdf(%s).to_csv(%s, "
                            "index=False)\" makes a CSV to be imported%s%s",
                            python.run, shoal_python_text(path, from), shoal_python_text(table, to),
                            python.needs[0] ? "; it " : "", python.needs);
    free(table);
  }
  if (pair && !c.pandas) st = shoal_error_append(st, "; %s", pair);
  free(pair);
  if (c.n == 1 && c.table[0] && !c.pandas) {
    static const char *const packages[] = { "h5py", "pandas", NULL };
    char from[SHOAL_WORD], name[SHOAL_WORD], to[SHOAL_WORD], word[SHOAL_WORD],
        *table = shoal_strdup_printf("%s.csv", path);
    shoal_python python;
    shoal_find_python(packages, &python);
    st = shoal_error_append(st,
                            ", a table: %s -c \"import h5py, pandas; t = pandas.DataFrame(h5py.File(%s)[%s][()]); "
                            "t.apply(lambda x: x.str.decode('utf-8') if x.dtype == object else x).to_csv(%s, "
                            "index=False)\" makes a CSV of it, for shoal data import csv %s -o NEW.h5%s%s",
                            python.run, shoal_python_text(path, from), shoal_python_text(c.table, name),
                            shoal_python_text(table, to), shoal_shell_word(table, word), python.needs[0] ? "; it " : "",
                            python.needs);
    free(table);
  }
  shoal_str_free(&c.text);
  return st;
}

static shoal_status refuse_without_training(const arrays *a, const char *path)
{
  shoal_data_names tests = { 0 };
  shoal_status st = match_tests(a, path, &tests);
  if (st == SHOAL_OK && tests.tests_only)
    return SHOAL_FAIL(
        SHOAL_ERR_IO,
        "%s has no training samples: /%s and /%s are for tests; data.file takes it beside a file for training, "
        "as in data.file=[train.h5,%s]",
        path, tests.x[0], tests.y[0], path);
  if (st == SHOAL_OK && tests.x[0][0])
    return tell_contents(SHOAL_FAIL(SHOAL_ERR_IO,
                                    "%s: /%s has samples but no array has their labels: /%s is expected; for "
                                    "predictions any class does, as zeros",
                                    path, tests.x[0], strchr(tests.x[0], '/') ? "test/y" : "y_test"),
                         a->file, path);
  st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s has no training samples: /train/x and /train/y (or names like X_train, y_train, images, labels) are "
      "expected",
      path);
  return tell_contents(st, a->file, path);
}

static shoal_status refuse_without_labels(const arrays *a, const char *path, const char *x, const char *expected)
{
  return tell_contents(
      SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s has samples but no array has their labels: /%s is expected", path, x, expected),
      a->file, path);
}

/* Samples in many arrays, one for each or for each class. */
static shoal_status refuse_scattered(const arrays *a, const char *path)
{
  const char *what;
  char *command = shoal_data_scattered_command(a->file, path, &what);
  if (!command) return SHOAL_OK;
  shoal_status st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s has %s; samples are expected in one array, /train/x, and their classes in /train/y: this writes them so into "
      "%s.plain.h5, a tenth of them as test/x where no group is for tests: %s",
      path, what, path, command);
  free(command);
  return st;
}

static shoal_status match_foreign(const arrays *a, const char *path, bool alone, shoal_data_names *out)
{
  part_kind x = PART_X, part;
  split_word split;
  shoal_status st = choose(a, path, PART_X, SPLIT_TRAIN, SPLIT_PLAIN, "training samples", out->x[0]);
  if (st != SHOAL_OK || !out->x[0][0]) SHOAL_TRY(refuse_scattered(a, path));
  SHOAL_TRY(st);
  if (!out->x[0][0]) {
    x = PART_TOKENS;
    SHOAL_TRY(choose(a, path, x, SPLIT_TRAIN, SPLIT_PLAIN, "training tokens", out->x[0]));
  }
  shoal_data_names tests = { .foreign = true };
  if (!out->x[0][0] && !alone) SHOAL_TRY(match_tests(a, path, &tests));
  if (tests.tests_only) *out = tests;
  if (tests.tests_only) return SHOAL_OK;
  if (!out->x[0][0]) return refuse_without_training(a, path);
  out->text = x == PART_TOKENS;
  read_name(out->x[0], false, &part, &split);
  out->plain = split == SPLIT_PLAIN;
  SHOAL_TRY(choose(a, path, x, SPLIT_TEST, SPLIT_VALIDATION, "test samples", out->x[1]));
  if (out->text) return SHOAL_OK;
  SHOAL_TRY(choose(a, path, PART_Y, SPLIT_TRAIN, SPLIT_PLAIN, "training labels", out->y[0]));
  SHOAL_TRY(choose(a, path, PART_Y, SPLIT_TEST, SPLIT_VALIDATION, "test labels", out->y[1]));
  for (int s = 0; s < 2; s++) {
    bool grouped = strchr(out->x[s], '/') != NULL;
    const char *expected = s == 0 ? (grouped ? "train/y" : "y_train") : (grouped ? "test/y" : "y_test");
    if (out->x[s][0] && !out->y[s][0]) return refuse_without_labels(a, path, out->x[s], expected);
  }
  return SHOAL_OK;
}

void shoal_data_tell_match(const char *path, const shoal_data_names *m)
{
  if (!m->foreign) return;
  for (int s = 0; s < 2; s++) {
    const char *split = shoal_split_name((shoal_split)s);
    if (!m->x[s][0]) continue;
    if (m->text)
      shoal_info("%s: %s/tokens is /%s", path, split, m->x[s]);
    else
      shoal_info("%s: %s/x is /%s, %s/y is /%s", path, split, m->x[s], split, m->y[s]);
  }
}

/* A word that says which samples an array or an attribute tells of. */
static bool tells_split(const char *name)
{
  static const char *const of[] = { "idx", "index", "indexes", "indices", "ids", "mask" };
  static const char *const alone[] = { "split", "splits", "fold", "folds", "partition" };
  char word[SHOAL_DATA_WORD];
  bool split = false, which = false;
  for (const char *c = name; (c = shoal_data_next_word(c, word)) != NULL;) {
    for (size_t i = 0; i < SHOAL_COUNT(alone); i++)
      if (strcmp(word, alone[i]) == 0) return true;
    for (size_t i = 0; i < SHOAL_COUNT(of); i++) which |= strcmp(word, of[i]) == 0;
    for (size_t i = 0; i < SHOAL_COUNT(words); i++)
      split |= words[i].kind == WORD_SPLIT && strcmp(word, words[i].word) == 0;
  }
  return split && which;
}

typedef struct {
  shoal_h5 file;
  char found[SHOAL_DATA_NAME];
} split_search;

static void visit_split(void *context, const char *name)
{
  split_search *s = context;
  if (!s->found[0] && tells_split(name) && shoal_h5_is_data_set(s->file, name))
    snprintf(s->found, sizeof s->found, "/%.200s", name);
}

/* Samples for tests among the others, told by numbers beside them. */
static void warn_of_split(shoal_h5 file, const char *path, const shoal_data_names *m)
{
  split_search s = { .file = file };
  shoal_error ignored;
  if (m->tests_only || m->x[1][0]) return;
  if (shoal_h5_has_attribute(file, "split"))
    snprintf(s.found, sizeof s.found, "the attribute split");
  else if (shoal_h5_list(file, visit_split, &s) != SHOAL_OK)
    shoal_error_take(&ignored);
  if (s.found[0])
    shoal_warn("%s: %s may say which samples are for tests, and is not read: all of /%s are for training; write those "
               "for tests "
               "as test/x and test/y",
               path, s.found, m->x[0]);
}

/* "sample_weight", "train/weights": as many factors as samples or classes. */
static void visit_weights(void *context, const char *name)
{
  split_search *s = context;
  const char *last = strrchr(name, '/');
  last = last ? last + 1 : name;
  bool tells = strcmp(last, "weight") == 0 || strcmp(last, "weights") == 0 || strstr(last, "sample_weight") ||
               strstr(last, "class_weight");
  if (tells && !s->found[0] && shoal_h5_is_data_set(s->file, name))
    snprintf(s->found, sizeof s->found, "/%.200s", name);
}

static void warn_of_weights(shoal_h5 file, const char *path)
{
  split_search s = { .file = file };
  shoal_error ignored;
  if (shoal_h5_list(file, visit_weights, &s) != SHOAL_OK) shoal_error_take(&ignored);
  if (s.found[0])
    shoal_warn("%s: %s may weigh samples or classes, and is not read: each sample counts as much as any other", path,
               s.found);
}

static bool is_there(const arrays *a, const char *name)
{
  return shoal_h5_is_data_set(a->file, name) || is_elsewhere(a, name) || is_dangling(a, name);
}

/* Our own names, if the training split has them  A validation split is the test split of a file without one. */
static bool match_ours(const arrays *a, shoal_data_names *out)
{
  static const char *const tests[] = { "test", "val", "valid", "validation" };
  bool text = is_there(a, "train/tokens") && !(is_dangling(a, "train/tokens") && is_there(a, "train/x"));
  const char *part = text ? "tokens" : "x";
  const bool targets = !text && !is_there(a, "train/y") && has_fractions(a, "train/targets");
  if (!text && !(is_there(a, "train/x") && (targets || is_there(a, "train/y")))) return false;
  *out = (shoal_data_names){ .text = text, .targets = targets };
  strcpy(out->x[0], text ? "train/tokens" : "train/x");
  strcpy(out->y[0], text ? "" : targets ? "train/targets" : "train/y");
  for (size_t i = 0; i < SHOAL_COUNT(tests); i++) {
    char name[SHOAL_DATA_NAME];
    snprintf(name, sizeof name, "%s/%s", tests[i], part);
    if (!is_there(a, name)) continue;
    if (out->x[1][0]) {
      shoal_info("%s: /%s is not used: /%s is the test split", a->path, name, out->x[1]);
      continue;
    }
    strcpy(out->x[1], name);
    if (!text) snprintf(out->y[1], sizeof out->y[1], "%s/%s", tests[i], targets ? "targets" : "y");
    if (i > 0) shoal_info("%s: /%s is the test split", a->path, name);
  }
  return true;
}

static shoal_status check_ours(const arrays *a, const shoal_data_names *names)
{
  for (int s = 0; s < 2; s++)
    if (names->y[s][0] && !is_there(a, names->y[s])) return refuse_without_labels(a, a->path, names->x[s], names->y[s]);
  return SHOAL_OK;
}

/* Each array that is used must be here, and readable without plug-ins.  Where plug-ins are all that is wrong, h5py, which may
 * have them, copies the arrays. */
static shoal_status check_chosen(shoal_h5 file, const char *path, const shoal_data_names *names)
{
  const char *const all[] = { names->x[0], names->y[0], names->x[1], names->y[1] }, *here[SHOAL_COUNT(all)];
  shoal_error first = { 0 };
  size_t n = 0;
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) {
    bool packed = true;
    shoal_status st = all[i][0] ? shoal_h5_refuse_foreign_at(file, path, all[i], &packed) : SHOAL_OK;
    if (st == SHOAL_OK && all[i][0]) {
      packed = false;
      st = shoal_h5_refuse_dangling(file, path, all[i]);
    }
    if (st != SHOAL_OK && !packed) return st;
    shoal_error_keep(&first, st);
    if (all[i][0] && shoal_h5_exists(file, all[i])) here[n++] = all[i];
  }
  if (first.code == SHOAL_OK) return SHOAL_OK;
  char *command = shoal_data_copy_command(path, here, n);
  shoal_status st = shoal_error_append(shoal_error_put(&first),
                                       "; write a plain copy (h5py reads most filters with "
                                       "the Python package hdf5plugin): %s",
                                       command);
  free(command);
  return st;
}

/* Parts of a sparse matrix are called as samples are, "X/data". */
static shoal_status match_or_refuse_sparse(arrays *a, const char *path, bool alone, shoal_data_names *out)
{
  shoal_error none;
  shoal_status st = match_foreign(a, path, alone, out);
  const char *base = st == SHOAL_OK ? shoal_path_base(out->x[SHOAL_TRAIN]) : "data";
  if (strcmp(base, "data") != 0 && strcmp(base, "indices") != 0) return st;
  shoal_error_take(&none);
  shoal_status sparse = shoal_data_refuse_sparse(a->file, path);
  return sparse != SHOAL_OK || st == SHOAL_OK ? sparse : shoal_error_put(&none);
}

shoal_status shoal_data_match(shoal_h5 file, const char *path, bool alone, shoal_data_names *out)
{
  array list[MAX_ARRAYS];
  arrays found = { .file = file, .path = path, .list = list };
  if (match_ours(&found, out)) {
    SHOAL_TRY(check_ours(&found, out));
    if (!out->text) warn_of_weights(file, path);
  } else {
    *out = (shoal_data_names){ .foreign = true };
    SHOAL_TRY(shoal_h5_list(file, visit, &found));
    SHOAL_TRY(match_or_refuse_sparse(&found, path, alone, out));
    if (alone) shoal_data_tell_match(path, out);
    if (!out->text) warn_of_split(file, path, out);
    if (!out->text) warn_of_weights(file, path);
  }
  return check_chosen(file, path, out);
}
