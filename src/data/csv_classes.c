/* See csv_classes.h.  Rows keep the index of their label, and the text of each distinct label is kept once, so the
 * memory for labels does not depend on their length. */
#include "data/csv_classes.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/texts.h"
#include "data/csv_number.h"
#include "data/labels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_ROOM = 64 };
/* Doubles have all whole numbers below. */
static const double EXACT = 0x1p53;

void shoal_csv_classes_fini(shoal_csv_classes *c)
{
  for (size_t i = 0; i < c->n; i++) free(c->all[i].text);
  free(c->all);
  free(c->slots);
  shoal_str_free(&c->names);
  *c = (shoal_csv_classes){ 0 };
}

/* ---- counting ---- */

/* The slot of a text: the one that has it, or the free one where it belongs.  There are twice as many slots as labels. */
static size_t find_slot(const shoal_csv_classes *c, const char *text)
{
  size_t mask = 2 * c->cap - 1, at = shoal_crc32c(0, text, strlen(text)) & mask;
  while (c->slots[at] && strcmp(c->all[c->slots[at] - 1].text, text) != 0) at = (at + 1) & mask;
  return at;
}

static shoal_status make_room(shoal_csv_classes *c)
{
  const size_t cap = c->cap ? 2 * c->cap : FIRST_ROOM;
  uint32_t *slots;
  SHOAL_CHECK(cap <= INT32_MAX, SHOAL_ERR_MEM, "more than %zu different labels", c->cap);
  SHOAL_TRY(SHOAL_ALLOC(2 * cap, &slots));
  shoal_csv_class *all = realloc(c->all, cap * sizeof *all);
  if (!all) {
    free(slots);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu labels", cap);
  }
  free(c->slots);
  c->all = all;
  c->slots = slots;
  c->cap = cap;
  for (size_t i = 0; i < c->n; i++) slots[find_slot(c, all[i].text)] = (uint32_t)i + 1;
  return SHOAL_OK;
}

shoal_status shoal_csv_classes_add(shoal_csv_classes *c, const char *path, const shoal_csv_field *f, int32_t *id)
{
  if (c->n == c->cap) SHOAL_TRY(make_room(c));
  size_t at = find_slot(c, f->text);
  if (!c->slots[at]) {
    char what[512];
    snprintf(what, sizeof what, "%s:%zu:%zu: the label", path, f->line, f->column);
    SHOAL_TRY(shoal_csv_check_text(path, what, f->text));
    char *text = strdup(f->text);
    SHOAL_CHECK(text, SHOAL_ERR_MEM, "out of memory for a label");
    c->all[c->n++] = (shoal_csv_class){ .text = text, .path = path, .line = f->line, .column = f->column };
    c->slots[at] = (uint32_t)c->n;
  }
  *id = (int32_t)(c->slots[at] - 1);
  c->all[*id].count++;
  return SHOAL_OK;
}

/* ---- sorting ---- */

static int by_text(const void *a, const void *b)
{
  return strcmp((*(shoal_csv_class *const *)a)->text, (*(shoal_csv_class *const *)b)->text);
}

/* The digits of a whole number without zeros in front; NULL: it has other signs, too. */
static const char *digits_of(const char *text)
{
  text += *text == '-' || *text == '+';
  text += strspn(text, "0");
  return text[strspn(text, "0123456789")] ? NULL : text;
}

/* Ids that doubles do not tell apart are compared by their digits. */
static int compare_numbers(const shoal_csv_class *p, const shoal_csv_class *q)
{
  const char *a = digits_of(p->text), *b = digits_of(q->text);
  if (p->number != q->number || fabs(p->number) < EXACT || !a || !b)
    return (p->number > q->number) - (p->number < q->number);
  const size_t m = strlen(a), n = strlen(b);
  const int order = m != n ? (m > n) - (m < n) : strcmp(a, b);
  return p->number < 0 ? -order : order;
}

/* Of equal ones the first in the files is the first, which names the class. */
static int by_number(const void *a, const void *b)
{
  const shoal_csv_class *p = *(shoal_csv_class *const *)a, *q = *(shoal_csv_class *const *)b;
  const int order = compare_numbers(p, q);
  return order ? order : (p > q) - (p < q);
}

/* Decides whether labels are integers or text; fractions are an error. */
static shoal_status judge(shoal_csv_classes *c, const shoal_csv_dialect *d, const char *column, bool *numbers)
{
  const shoal_csv_class *broken = NULL;
  *numbers = true;
  for (size_t i = 0; i < c->n; i++) {
    shoal_csv_class *l = &c->all[i];
    if (!shoal_csv_number(d, l->text, &l->number, NULL))
      *numbers = false;
    else if (!broken && l->number != floor(l->number))
      broken = l;
  }
  SHOAL_CHECK(
      !*numbers || !broken, SHOAL_ERR_IO,
      "%s:%zu:%zu: label %s is not a class; classes are integers or text: if column %s has the numbers that are to be "
      "predicted (regression), give --target %.*s; else --label names the label, and without labels --label none",
      broken ? broken->path : "", broken ? broken->line : 0, broken ? broken->column : 0, broken ? broken->text : "",
      column, (int)strcspn(column, ","), column);
  return SHOAL_OK;
}

static void name_classes(shoal_csv_classes *c, shoal_csv_class **sorted, bool numbers)
{
  const shoal_csv_class *broken = NULL;
  bool as_is = numbers;
  for (size_t i = 0; i < c->n; i++) {
    if (i == 0 || (numbers ? compare_numbers(sorted[i - 1], sorted[i]) : by_text(&sorted[i - 1], &sorted[i])) != 0) {
      as_is &= sorted[i]->number == (double)c->classes;
      if (shoal_labels_add_name(&c->names, c->classes == 0, sorted[i]->text) && !broken) broken = sorted[i];
      c->classes++;
    }
    sorted[i]->rank = c->classes - 1;
  }
  if (as_is) shoal_str_clear(&c->names);
  if (!broken) return;
  char shown[64];
  shoal_str name = { 0 };
  (void)shoal_labels_add_name(&name, true, broken->text);
  shoal_warn("%s:%zu:%zu: label \"%s\" has a line end, which the name of its class has as it is shown here: if none is "
             "meant, correct the label",
             broken->path, broken->line, broken->column, shoal_show(name.text, shown, sizeof shown));
  shoal_str_free(&name);
}

/* ---- labels that look wrong ---- */

static bool means_none(const char *text)
{
  static const char *const words[] = {
    "na", "n/a", "nan", "null", "none", "?", "-", "unknown", "#n/a", "k.a.", "k. a."
  };
  for (size_t i = 0; i < SHOAL_COUNT(words); i++)
    if (strcasecmp(text, words[i]) == 0) return true;
  return false;
}

static void warn_none(const shoal_csv_class *l)
{
  char shown[48];
  shoal_warn("%s:%zu:%zu: label \"%s\" (%" PRIu64 " rows) becomes a class of its own: if it marks rows without a "
             "label, remove them",
             l->path, l->line, l->column, shoal_show(l->text, shown, sizeof shown), l->count);
}

/* A number apart from all others, such as -1 or 255. */
static shoal_status warn_mark(const shoal_csv_classes *c)
{
  shoal_labels l;
  shoal_labels_init(&l, 0);
  for (size_t i = 0; i < c->n; i++) {
    shoal_status st = SHOAL_OK;
    if (fabs(c->all[i].number) < 1e15) st = shoal_labels_add(&l, SHOAL_TRAIN, (int64_t)c->all[i].number);
    if (st != SHOAL_OK) {
      shoal_labels_fini(&l);
      return st;
    }
  }
  shoal_labels_finish(&l);
  const shoal_label *mark = shoal_labels_mark(&l);
  for (size_t i = 0; mark && i < c->n; i++)
    if (c->all[i].number == (double)mark->value) warn_none(&c->all[i]);
  shoal_labels_fini(&l);
  return SHOAL_OK;
}

/* "1" and "01" are one class, as numbers that are equal.  One warning has all labels of the first classes that several became. */
static void warn_equal(const shoal_csv_class *const *sorted, size_t n)
{
  enum { SHOWN = 8, GROUPS = 3 };
  const shoal_csv_class *l = NULL;
  size_t groups = 0;
  shoal_str all = { 0 };
  for (size_t i = 0, end; i < n; i = end) {
    char shown[48];
    for (end = i + 1; end < n && compare_numbers(sorted[end], sorted[i]) == 0;) end++;
    if (end == i + 1) continue;
    if (!l) l = sorted[i + 1];
    if (groups++ >= GROUPS) continue;
    shoal_str_add(&all, "%s", groups > 1 ? "; and so do " : "");
    for (size_t k = i; k < SHOAL_MIN(end, i + SHOWN); k++)
      shoal_str_add(&all, "%s\"%s\"",
                    k == i         ? ""
                    : k + 1 == end ? " and "
                                   : ", ",
                    shoal_show(sorted[k]->text, shown, sizeof shown));
    if (end > i + SHOWN) shoal_str_add(&all, " and %zu more", end - i - SHOWN);
    if (groups == 1) shoal_str_add(&all, " are equal as numbers, and become one class");
  }
  if (groups > GROUPS) shoal_str_add(&all, "; and so for %zu more numbers", groups - GROUPS);
  char shown[48];
  if (l)
    shoal_warn("%s:%zu:%zu: labels %s; if they are several, put a letter in front of all labels, as in \"c%s\"",
               l->path, l->line, l->column, all.text, shoal_show(l->text, shown, sizeof shown));
  shoal_str_free(&all);
}

/* Adds what a label has between signs to the parts at the first place, and at later ones. */
static shoal_status take_apart(const char *text, char sign, shoal_texts *first, shoal_texts *later)
{
  static const char around[] = " []{}()'\"";
  for (const char *at = text;;) {
    const char *end = strchr(at, sign), *to = end ? end : at + strlen(at);
    const char *from = at + SHOAL_MIN(strspn(at, around), (size_t)(to - at));
    while (to > from && strchr(around, to[-1])) to--;
    if (to > from) SHOAL_TRY(shoal_texts_add_n(at == text ? first : later, from, (size_t)(to - from)));
    if (!end) return SHOAL_OK;
    at = end + 1;
  }
}

static bool share_a_text(shoal_texts *a, shoal_texts *b)
{
  shoal_texts_sort(a, 0);
  shoal_texts_sort(b, 0);
  for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
    const int order = strcmp(a->at[i], b->at[k]);
    if (order == 0) return true;
    if (order < 0)
      i++;
    else
      k++;
  }
  return false;
}

/* Lists of labels in one cell ("0|1" beside "0" and "1|2"): what is in a list is elsewhere a label of its own, or stands at
 * another place of a list.  In names with such signs ("animal/cat", "animal/dog") each part has its place. */
static shoal_status warn_lists(const shoal_csv_classes *c)
{
  static const char signs[] = "|;,/+&";
  for (const char *sign = signs; *sign; sign++) {
    const shoal_csv_class *list = NULL;
    shoal_texts first = { 0 }, later = { 0 };
    shoal_status st = SHOAL_OK;
    for (size_t i = 0; i < c->n && st == SHOAL_OK; i++) {
      if (!list && strchr(c->all[i].text, *sign)) list = &c->all[i];
      st = take_apart(c->all[i].text, *sign, &first, &later);
    }
    char shown[48];
    if (st == SHOAL_OK && share_a_text(&first, &later))
      shoal_warn(
          "%s:%zu:%zu: label \"%s\" looks like several labels of one sample, between %c: each such list becomes a "
          "class of its own, since a sample has one class; keep one label per row if that is not meant",
          list->path, list->line, list->column, shoal_show(list->text, shown, sizeof shown), *sign);
    shoal_texts_free(&first);
    shoal_texts_free(&later);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

/* Whole numbers with gaps between them, and many of them: prices, years, amounts. */
static void warn_quantities(const shoal_csv_classes *c, const char *path, const char *column)
{
  enum { MANY = 50 };
  if (c->classes < MANY || !c->names.len) return;
  shoal_warn("%s: column %s has %" PRId32
             " different whole numbers, each of which becomes a class: if numbers are to be "
             "predicted (regression), give --target %.*s",
             path, column, c->classes, (int)strcspn(column, ","), column);
}

static shoal_status warn_odd(const shoal_csv_classes *c, bool numbers, uint64_t rows)
{
  if (numbers) return warn_mark(c);
  SHOAL_TRY(warn_lists(c));
  for (size_t i = 0; i < c->n; i++)
    if (means_none(c->all[i].text)) warn_none(&c->all[i]);
  const shoal_csv_class *first = &c->all[0];
  char shown[48];
  bool others = c->n > 1;
  for (size_t i = 1; i < c->n; i++) others &= c->all[i].count > 1;
  if (first->count == 1 && others && rows >= 4 && first->line <= 2)
    shoal_warn("%s:%zu:%zu: label \"%s\" is in the first row only: if that row is a header, give --header yes",
               first->path, first->line, first->column, shoal_show(first->text, shown, sizeof shown));
  return SHOAL_OK;
}

shoal_status shoal_csv_classes_finish(shoal_csv_classes *c, const shoal_csv_dialect *d, const char *path,
                                      const char *column)
{
  shoal_csv_class **sorted;
  bool numbers;
  uint64_t rows = 0;
  SHOAL_TRY(judge(c, d, column, &numbers));
  SHOAL_TRY(SHOAL_ALLOC(c->n, &sorted));
  for (size_t i = 0; i < c->n; i++) {
    sorted[i] = &c->all[i];
    rows += c->all[i].count;
  }
  qsort(sorted, c->n, sizeof *sorted, numbers ? by_number : by_text);
  name_classes(c, sorted, numbers);
  if (numbers) warn_equal((const shoal_csv_class *const *)sorted, c->n);
  free(sorted);
  SHOAL_CHECK(rows < 20 || (uint64_t)c->classes <= rows / 2, SHOAL_ERR_IO,
              "%s: column %s has %" PRId32 " different labels in %" PRIu64
              " rows: %s%.*s%sname the column of the label "
              "with --label",
              path, column, c->classes, rows,
              numbers ? "if it has numbers that are to be predicted (regression), give --target " : "",
              numbers ? (int)strcspn(column, ",") : 0, column, numbers ? "; else " : "");
  if (numbers) warn_quantities(c, path, column);
  return warn_odd(c, numbers, rows);
}
