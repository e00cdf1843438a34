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

static shoal_status split_lines(const char *text, shoal_texts *out)
{
  for (const char *at = text;; at++) {
    const size_t n = strcspn(at, "\n");
    SHOAL_TRY(shoal_texts_add_n(out, at, n));
    at += n;
    if (!*at) return SHOAL_OK;
  }
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

static shoal_status compare(const char *one, shoal_texts *here, const char *other, shoal_texts *there)
{
  size_t at = 0;
  char a[80], b[80];
  if (here->n != there->n) return SHOAL_OK; /* the shape says so */
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
  else
    shoal_warn("%s: feature %zu is called \"%s\", that of %s \"%s\": are they the same?", one, at, a, other, b);
  free(order);
  return st;
}

shoal_status shoal_features_compare(const char *one, const char *names, const char *other, const char *trained)
{
  shoal_texts here = { 0 }, there = { 0 };
  if (!names || !trained || strcmp(names, trained) == 0) return SHOAL_OK;
  shoal_status st = split_lines(names, &here);
  if (st == SHOAL_OK) st = split_lines(trained, &there);
  if (st == SHOAL_OK) st = compare(one, &here, other, &there);
  shoal_texts_free(&here);
  shoal_texts_free(&there);
  return st;
}
