/* Counting of labels in a hash table of distinct values, and the judgement of the counts.  See labels.h. */
#include "data/labels.h"
#include "base/alike.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/texts.h"
#include "data/contents.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_SLOTS = 64, RANGES = 6, RARE = 5, MANY_UNTRAINED = 100 }; /* RARE: less than one label in so many */

void shoal_labels_init(shoal_labels *l, int64_t stated)
{
  *l = (shoal_labels){ .stated = stated };
}

void shoal_labels_fini(shoal_labels *l)
{
  free(l->all);
  free(l->slots);
  *l = (shoal_labels){ 0 };
}

/* ---- counting ---- */

/* The slot of a value: the one that has it, or the free one where it belongs. */
static size_t find_slot(const shoal_labels *l, int64_t value)
{
  size_t at = (size_t)((uint64_t)value * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (l->cap - 1);
  while (l->slots[at] && l->all[l->slots[at] - 1].value != value) at = (at + 1) & (l->cap - 1);
  return at;
}

/* Doubles the table; it is at most half full, so searches are short. */
static shoal_status grow(shoal_labels *l)
{
  const size_t cap = l->cap ? 2 * l->cap : FIRST_SLOTS;
  shoal_label *all;
  uint32_t *slots;
  SHOAL_CHECK(cap / 2 < UINT32_MAX, SHOAL_ERR_MEM, "more than %u different labels", UINT32_MAX);
  SHOAL_TRY(SHOAL_ALLOC(cap / 2, &all));
  shoal_status st = SHOAL_ALLOC(cap, &slots);
  if (st != SHOAL_OK) {
    free(all);
    return st;
  }
  if (l->distinct) memcpy(all, l->all, l->distinct * sizeof *all);
  free(l->all);
  free(l->slots);
  l->all = all;
  l->slots = slots;
  l->cap = cap;
  for (size_t i = 0; i < l->distinct; i++) l->slots[find_slot(l, all[i].value)] = (uint32_t)i + 1;
  return SHOAL_OK;
}

static shoal_status find_or_add(shoal_labels *l, int64_t value, shoal_label **out)
{
  if (2 * l->distinct >= l->cap) SHOAL_TRY(grow(l));
  size_t at = find_slot(l, value);
  if (!l->slots[at]) {
    l->all[l->distinct++] = (shoal_label){ .value = value };
    l->slots[at] = (uint32_t)l->distinct;
  }
  *out = &l->all[l->slots[at] - 1];
  return SHOAL_OK;
}

shoal_status shoal_labels_add(shoal_labels *l, shoal_split split, int64_t label)
{
  shoal_label *v;
  SHOAL_TRY(find_or_add(l, label, &v));
  if (v->count[split]++ == 0) v->first[split] = l->n[split];
  l->n[split]++;
  return SHOAL_OK;
}

int64_t shoal_labels_map(const int32_t *class_of, size_t n, int64_t label)
{
  if (!class_of) return label;
  return label >= 0 && (uint64_t)label < n ? class_of[label] : -1;
}

shoal_status shoal_labels_merge(shoal_labels *l, const shoal_labels *from, const int32_t *class_of, size_t n)
{
  for (size_t i = 0; i < from->distinct; i++) {
    shoal_label *v;
    SHOAL_TRY(find_or_add(l, shoal_labels_map(class_of, n, from->all[i].value), &v));
    for (int s = 0; s < 2; s++) {
      if (from->all[i].count[s] && v->count[s] == 0) v->first[s] = l->n[s] + from->all[i].first[s];
      v->count[s] += from->all[i].count[s];
    }
  }
  for (int s = 0; s < 2; s++) l->n[s] += from->n[s];
  return SHOAL_OK;
}

static int by_value(const void *a, const void *b)
{
  int64_t p = ((const shoal_label *)a)->value, q = ((const shoal_label *)b)->value;
  return (p > q) - (p < q);
}

void shoal_labels_finish(shoal_labels *l)
{
  if (l->distinct) qsort(l->all, l->distinct, sizeof *l->all, by_value);
  free(l->slots);
  l->slots = NULL;
  l->cap = 0;
}

/* ---- what is refused ---- */

int64_t shoal_labels_classes(const shoal_labels *l)
{
  if (l->stated) return l->stated;
  int64_t largest = l->distinct ? l->all[l->distinct - 1].value : 0;
  return largest < 0 ? 1 : largest < SHOAL_CLASSES_MOST ? largest + 1 : SHOAL_CLASSES_MOST;
}

static bool is_class(const shoal_labels *l, int64_t value)
{
  return value >= 0 && value < shoal_labels_classes(l);
}

uint64_t shoal_labels_outside(const shoal_labels *l, shoal_split split)
{
  uint64_t n = 0;
  for (size_t i = 0; i < l->distinct; i++) n += is_class(l, l->all[i].value) ? 0 : l->all[i].count[split];
  return n;
}

bool shoal_labels_are_signs(const shoal_labels *l)
{
  return l->distinct == 2 && l->all[0].value == -1 && l->all[1].value == 1;
}

/* What probably happened, and what to do about it. */
static const char *cure(const shoal_labels *l, const shoal_label *wrong)
{
  const shoal_label *smallest = &l->all[0], *largest = &l->all[l->distinct - 1];
  const uint64_t count = wrong->count[0] + wrong->count[1];
  if (wrong->value < 0 && smallest == wrong && RARE * count >= l->n[0] + l->n[1])
    return shoal_labels_are_signs(l) ? "; if -1 and 1 are the two classes, renumber them from 0"
                                     : "; if they mark samples without a label, remove these; if they are "
                                       "a class, renumber the classes from 0";
  if (wrong->value < 0 || wrong->value == UINT32_MAX || wrong->value == INT64_MAX)
    return "; such values often mark samples without a label: remove these samples";
  if (smallest->value == 1 && largest->value == l->stated) return "; classes count from 0: subtract 1 from every label";
  return l->stated ? "; correct the labels, or the attribute classes"
                   : "; classes are small numbers that count from 0: renumber them";
}

/* One damaged label must not make a model of millions of classes: the largest is then far beyond all others. */
static const shoal_label *find_stray(const shoal_labels *l)
{
  enum { MANY = 4096, FAR = 16 };
  if (l->stated || l->distinct < 2) return NULL;
  const shoal_label *high = &l->all[l->distinct - 1];
  return high->value >= MANY && high[-1].value < high->value / FAR ? high : NULL;
}

shoal_status shoal_labels_check(const shoal_labels *l, const char *path, const char *const array[2])
{
  for (int s = 0; s < 2; s++) {
    const shoal_label *first = NULL;
    for (size_t i = 0; i < l->distinct; i++) {
      const shoal_label *v = &l->all[i];
      if (v->count[s] && !is_class(l, v->value) && (!first || v->first[s] < first->first[s])) first = v;
    }
    SHOAL_CHECK(!first, SHOAL_ERR_IO,
                "%s: %" PRIu64 " labels of /%s are not in 0 to %" PRId64 ", the first is %" PRId64 " of sample %" PRIu64
                "%s",
                path, shoal_labels_outside(l, (shoal_split)s), array[s], shoal_labels_classes(l) - 1, first->value,
                first->first[s], cure(l, first));
  }
  const shoal_label *stray = find_stray(l);
  const int s = stray && !stray->count[0];
  SHOAL_CHECK(!stray, SHOAL_ERR_IO,
              "%s: sample %" PRIu64 " of /%s has label %" PRId64 ", the largest of all others is %" PRId64
              ": correct it, or if it is meant, %s",
              path, stray->first[s], array[s], stray->value, stray[-1].value,
              l->may_state ? "state the number of classes as the attribute classes"
                           : "renumber the classes without gaps (y = numpy.unique(y, return_inverse=True)[1])");
  return SHOAL_OK;
}

const char *shoal_labels_row(uint64_t n, const double *row)
{
  uint64_t ones = 0, zeros = 0;
  for (uint64_t k = 0; k < n; k++) {
    ones += row[k] == 1;
    zeros += row[k] == 0;
  }
  if (ones + zeros < n)
    return "is not one-hot: it has other numbers than 0 and 1; a sample has one class, a whole number from 0. Of "
           "probabilities y.argmax(1) keeps the largest alone; numbers that are to be predicted (regression) are "
           "targets, by "
           "--target of an import or as /train/targets";
  if (ones > 1) return "has more than one 1: several classes per sample (multi-label) are not learnt; keep one of them";
  return ones == 1 ? NULL : "has no 1: the sample is in no class; remove it, or give it a class of its own";
}

/* ---- what is odd ---- */

/* 9, 99, 999 and 2^k - 1 from 15 on: what people and file formats take for "none". */
static bool is_round_mark(int64_t v)
{
  int64_t nines = 9;
  while (nines < v) nines = 10 * nines + 9;
  return v >= 9 && (v == nines || (v >= 15 && (v & (v + 1)) == 0));
}

const shoal_label *shoal_labels_mark(const shoal_labels *l)
{
  if (l->distinct < 2) return NULL;
  const shoal_label *low = &l->all[0], *high = &l->all[l->distinct - 1];
  if (low->value < 0 && low[1].value >= 0 && l->distinct > 2) return low; /* -1 and 1 alone are two classes */
  int64_t below = high[-1].value;
  return is_round_mark(high->value) && below < high->value / 2 ? high : NULL;
}

bool shoal_labels_add_name(shoal_str *names, bool first, const char *name)
{
  bool broken = false;
  if (!first) shoal_str_add(names, "\n");
  for (const char *at = name; *at;) {
    const size_t n = strcspn(at, "\r\n");
    shoal_str_add(names, "%.*s%s", (int)n, at, at[n] == '\n' ? "\\n" : at[n] ? "\\r" : "");
    broken |= at[n] != '\0';
    at += n + (at[n] != '\0');
  }
  return broken;
}

const char *shoal_labels_name(const char *names, int64_t k, char *buf, size_t cap)
{
  const char *at = names ? names : "";
  for (; k > 0 && at; k--) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  char line[64];
  snprintf(line, sizeof line, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
  return shoal_show(line, buf, cap);
}

static void add_class(const shoal_labels *l, const char *before, int64_t k, shoal_str *out)
{
  char name[160];
  shoal_labels_name(l->names, k, name, sizeof name);
  shoal_str_add(out, "%s%" PRId64, before, k);
  if (name[0]) shoal_str_add(out, " \"%s\"", name);
}

/* Adds "3 to 5" to a list of ranges, of which the first RANGES are shown. */
static void add_range(const shoal_labels *l, int64_t first, int64_t last, int *ranges, shoal_str *out)
{
  if (first > last || (*ranges)++ > RANGES) return;
  if (*ranges > RANGES) {
    shoal_str_add(out, ", ...");
    return;
  }
  add_class(l, *ranges > 1 ? ", " : "", first, out);
  if (last > first) add_class(l, " to ", last, out);
}

/* The classes without a training sample, as "0, 3 to 5, 9", or with their names as "0 "cat", 3 "dog"". */
static void list_untrained(const shoal_labels *l, shoal_str *out)
{
  int64_t next = 0;
  int ranges = 0;
  for (size_t i = 0; i < l->distinct; i++) {
    if (!is_class(l, l->all[i].value) || !l->all[i].count[SHOAL_TRAIN]) continue;
    add_range(l, next, l->all[i].value - 1, &ranges, out);
    next = l->all[i].value + 1;
  }
  add_range(l, next, shoal_labels_classes(l) - 1, &ranges, out);
}

/* The same of classes that split `with` has and `without` has not. */
static void list_one_sided(const shoal_labels *l, shoal_split with, shoal_split without, shoal_str *out)
{
  int64_t first = 0, last = -1;
  int ranges = 0;
  for (size_t i = 0; i < l->distinct; i++) {
    const shoal_label *v = &l->all[i];
    if (!is_class(l, v->value) || !v->count[with] || v->count[without]) continue;
    if (v->value != last + 1 || last < first) {
      add_range(l, first, last, &ranges, out);
      first = v->value;
    }
    last = v->value;
  }
  add_range(l, first, last, &ranges, out);
}

/* Classes with a sample in split `with` (any split: -1) and none in `without`. */
static int64_t count_missing(const shoal_labels *l, shoal_split without, int with)
{
  int64_t here = 0, there = 0;
  for (size_t i = 0; i < l->distinct; i++) {
    const shoal_label *v = &l->all[i];
    if (!is_class(l, v->value)) continue;
    here += v->count[without] > 0;
    there += with >= 0 && v->count[with] > 0 && !v->count[without];
  }
  return with >= 0 ? there : shoal_labels_classes(l) - here;
}

static size_t add_missing(const shoal_labels *l, shoal_str *out)
{
  int64_t missing = count_missing(l, SHOAL_TRAIN, -1), classes = shoal_labels_classes(l);
  const shoal_label *mark = shoal_labels_mark(l), *smallest = &l->all[0];
  if (!missing) return 0;
  shoal_str_add(out, "%" PRId64 " of %" PRId64 " classes have no training sample (", missing, classes);
  list_untrained(l, out);
  shoal_str_add(out, ")");
  const bool spread = l->distinct > 1 && l->all[l->distinct - 2].value > classes / 2; /* not by one label alone */
  if (missing >= MANY_UNTRAINED && missing > classes / 2 && spread && !l->names)
    shoal_str_add(
        out,
        "; if they are no classes, renumber the labels without gaps (numpy.unique(y, return_inverse=True)[1]), or, if "
        "they are numbers that are to be predicted (regression), make them targets: floats in /train/targets");
  if (smallest->value == 1 && !l->names) shoal_str_add(out, "; if the labels count from 1, subtract 1");
  if (mark && is_class(l, mark->value))
    shoal_str_add(out,
                  "; is %" PRId64 " (%s sample %" PRIu64 ", %" PRIu64 " in all) a mark for \"no label\"? Remove these",
                  mark->value, shoal_split_name(mark->count[0] ? SHOAL_TRAIN : SHOAL_TEST),
                  mark->count[0] ? mark->first[0] : mark->first[1], mark->count[0] + mark->count[1]);
  shoal_str_add(out, "\n");
  return 1;
}

/* The command draws from all files, so it is printed only if none is a test file by its name. */
static void add_cut(const shoal_labels *l, shoal_str *out)
{
  static const char *const tests[] = { "test", "val", "t10k" };
  const double all = (double)(l->n[SHOAL_TRAIN] + l->n[SHOAL_TEST]);
  const char *source = l->source ? l->source : "", *at = source + strcspn(source, " ");
  char word[SHOAL_WORD];
  bool draws = strncmp(source, "csv: ", 5) == 0 || strncmp(source, "npy: ", 5) == 0;
  for (size_t i = 0; i < SHOAL_COUNT(tests); i++) draws &= !strcasestr(at, tests[i]);
  shoal_str_add(out, "): was the file sorted by label when it was cut? ");
  if (!draws) {
    shoal_str_add(out, "Shuffle the samples before the cut\n");
    return;
  }
  shoal_str_add(out, "Drawn from each class instead of by --train-count: shoal data import %.3s", source);
  for (at++; *at;) {
    const char *end = strstr(at, ", ");
    const size_t n = end ? (size_t)(end - at) : strlen(at);
    char *name = shoal_strdup_printf("%.*s", (int)n, at);
    shoal_str_add(out, " %s", shoal_shell_word(name, word));
    free(name);
    at += n + (end ? 2 : 0);
  }
  shoal_str_add(out, " --test-share %.2g -o NEW.h5, and its other options\n", (double)l->n[SHOAL_TEST] / all);
}

static size_t add_split(const shoal_labels *l, shoal_str *out)
{
  int64_t untrained = count_missing(l, SHOAL_TRAIN, SHOAL_TEST), untested = count_missing(l, SHOAL_TEST, SHOAL_TRAIN);
  size_t lines = 0;
  if (untrained && ++lines) {
    shoal_str_add(out, "%" PRId64 " class%s in the test split only (", untrained, untrained > 1 ? "es are" : " is");
    list_one_sided(l, SHOAL_TEST, SHOAL_TRAIN, out);
    add_cut(l, out);
  }
  if (untested && ++lines) {
    shoal_str_add(out, "%" PRId64 " class%s no test sample (", untested, untested > 1 ? "es have" : " has");
    list_one_sided(l, SHOAL_TRAIN, SHOAL_TEST, out);
    shoal_str_add(out, ")\n");
  }
  return lines;
}

/* Accuracy says little where one class is nearly everything. */
static size_t add_lopsided(const shoal_labels *l, shoal_str *out)
{
  enum { LEAST = 20 };
  const double most = 0.95;
  const shoal_label *v = &l->all[0];
  for (size_t i = 1; i < l->distinct; i++)
    if (l->all[i].count[SHOAL_TRAIN] > v->count[SHOAL_TRAIN]) v = &l->all[i];
  const double share = (double)v->count[SHOAL_TRAIN] / (double)l->n[SHOAL_TRAIN];
  if (l->n[SHOAL_TRAIN] < LEAST || share < most || !is_class(l, v->value)) return 0;
  add_class(l, "class ", v->value, out);
  shoal_str_add(out,
                " has %.4g %% of the training samples: a model that knows nothing else is right as often; "
                "model.class_weights: balanced trains all classes alike\n",
                100 * share);
  return 1;
}

bool shoal_labels_dotted(const char *one, const char *other)
{
  const size_t n = strlen(one), m = strlen(other);
  return (n + 1 == m && other[n] == '.' && strncmp(one, other, n) == 0) ||
         (m + 1 == n && one[m] == '.' && strncmp(one, other, m) == 0);
}

/* ">50K" and ">50K.", as in the two files of a set that is often used: the first such pair. */
static bool find_dotted(const shoal_texts *names, size_t *one, size_t *other)
{
  enum { MOST = 1000 };
  for (size_t i = 1; i < names->n && names->n <= MOST; i++)
    for (size_t k = 0; k < i; k++)
      if (shoal_labels_dotted(names->at[k], names->at[i])) {
        *one = k;
        *other = i;
        return true;
      }
  return false;
}

/* "cat" and "Cat", or a name with its accents in two ways: two classes, which is seldom meant. */
static size_t add_alike(const shoal_labels *l, shoal_str *out)
{
  shoal_texts names = { 0 };
  shoal_error ignored;
  size_t one = 0, other = 0;
  char what[96];
  if (shoal_texts_add_lines(&names, l->names) != SHOAL_OK) shoal_error_take(&ignored);
  const bool found = shoal_find_alike((const char *const *)names.at, names.n, &one, &other),
             dotted = !found && find_dotted(&names, &one, &other);
  if (found || dotted) {
    add_class(l, "classes ", (int64_t)one, out);
    add_class(l, " and ", (int64_t)other, out);
    shoal_str_add(out, " differ only in %s, and are two: if one is meant, write them alike%s\n",
                  dotted ? "a dot at the end" : shoal_difference(names.at[one], names.at[other], what, sizeof what),
                  dotted ? ", as sed 's/\\.$//' FILE >NEW does for labels in the last column" : "");
  }
  shoal_texts_free(&names);
  return found || dotted;
}

size_t shoal_labels_odd(const shoal_labels *l, shoal_str *out)
{
  size_t lines = 0;
  if (!l->distinct) return 0;
  if (l->distinct == 1 && l->names && strcmp(l->names, SHOAL_LABELS_NONE) == 0) {
    shoal_str_add(out, "no labels: these samples can be predicted, and not trained on\n");
    return 1;
  }
  if (l->distinct == 1) {
    const uint64_t n = l->n[0] + l->n[1];
    if (n > 1)
      shoal_str_add(out, "one class only: all %" PRIu64 " labels are", n);
    else
      shoal_str_add(out, "one class only: the one label is");
    add_class(l, " ", l->all[0].value, out);
    shoal_str_add(out, n > 1 ? "; are these the labels?\n" : "\n");
    return 1;
  }
  lines += add_missing(l, out);
  lines += add_alike(l, out);
  lines += add_lopsided(l, out);
  if (l->n[SHOAL_TEST]) lines += add_split(l, out);
  return lines;
}

void shoal_labels_warn(const shoal_labels *l, const char *path)
{
  shoal_str lines = { 0 };
  if (shoal_labels_odd(l, &lines))
    for (const char *at = lines.text; *at; at += strcspn(at, "\n") + 1)
      shoal_warn("%s: %.*s", path, (int)strcspn(at, "\n"), at);
  shoal_str_free(&lines);
}
