/* Names of features: a table whose columns are in another order has the same shape, and would be read wrongly without a word. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/dataset.h"
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a, b, c, ..." */
static char *list_names(const shoal_texts *t)
{
  enum { MOST = 12 };
  shoal_str s = { 0 };
  for (size_t i = 0; i < t->n && i < MOST; i++) shoal_str_add(&s, "%s%s", i ? ", " : "", t->at[i]);
  if (t->n > MOST) shoal_str_add(&s, ", ...");
  return s.text;
}

/* Other tables, by the number of columns or by most of their names: which are missing, and which are too many. */
static shoal_status refuse_others(const char *one, const shoal_texts *here, const char *other, const shoal_texts *there)
{
  shoal_texts missing = { 0 }, more = { 0 };
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; st == SHOAL_OK && i < there->n; i++)
    if (!shoal_texts_have(here, there->at[i])) st = shoal_texts_add(&missing, there->at[i]);
  for (size_t i = 0; st == SHOAL_OK && i < here->n; i++)
    if (!shoal_texts_have(there, here->at[i])) st = shoal_texts_add(&more, here->at[i]);
  if (st == SHOAL_OK) {
    char *lacks = missing.n ? list_names(&missing) : NULL, *has = more.n ? list_names(&more) : NULL;
    st = SHOAL_FAIL(
        SHOAL_ERR_USAGE,
        "%s has %zu feature%s, %s has %zu%s%s%s%s: shoal data import csv TABLE --like %s -o NEW.h5 takes the "
        "same columns from its table",
        one, here->n, here->n == 1 ? "" : "s", other, there->n, lacks ? "; missing: " : "", lacks ? lacks : "",
        has ? "; not known there: " : "", has ? has : "", other);
    free(lacks);
    free(has);
  }
  shoal_texts_free(&missing);
  shoal_texts_free(&more);
  return st;
}

/* Whether most of `here` are not among `there`, sorted. */
static bool most_differ(const shoal_texts *here, const shoal_texts *there)
{
  size_t unknown = 0;
  for (size_t i = 0; i < here->n; i++)
    unknown += bsearch(&here->at[i], there->at, there->n, sizeof *there->at, by_name) == NULL;
  return 2 * unknown > here->n;
}

static shoal_status compare(const char *one, shoal_texts *here, const char *other, shoal_texts *there)
{
  size_t at = 0;
  char a[80], b[80];
  if (here->n != there->n) return refuse_others(one, here, other, there);
  while (at < here->n && strcmp(here->at[at], there->at[at]) == 0) at++;
  if (at == here->n) return SHOAL_OK;
  shoal_show(here->at[at], a, sizeof a);
  shoal_show(there->at[at], b, sizeof b);
  char *order = list_names(there);
  qsort(here->at, here->n, sizeof *here->at, by_name);
  qsort(there->at, there->n, sizeof *there->at, by_name);
  bool same = true;
  for (size_t i = 0; i < here->n; i++) same = same && strcmp(here->at[i], there->at[i]) == 0;
  shoal_status st = SHOAL_OK;
  if (same)
    st = SHOAL_FAIL(
        SHOAL_ERR_USAGE,
        "%s has the features of %s in another order: number %zu is \"%s\" here and \"%s\" there; write its columns in "
        "the order %s, and import it again",
        one, other, at, a, b, order);
  else if (most_differ(here, there))
    st = refuse_others(one, here, other, there);
  else
    shoal_warn("%s: feature %zu is called \"%s\", that of %s \"%s\": are they the same?", one, at, a, other, b);
  free(order);
  return st;
}

shoal_status shoal_features_compare(const char *one, const char *names, const char *other, const char *trained)
{
  shoal_texts here = { 0 }, there = { 0 };
  if (!names || !trained || strcmp(names, trained) == 0) return SHOAL_OK;
  shoal_status st = shoal_texts_add_lines(&here, names);
  if (st == SHOAL_OK) st = shoal_texts_add_lines(&there, trained);
  if (st == SHOAL_OK) st = compare(one, &here, other, &there);
  shoal_texts_free(&here);
  shoal_texts_free(&there);
  return st;
}
