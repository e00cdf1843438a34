#include "base/texts.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

shoal_status shoal_texts_add_lines(shoal_texts *t, const char *text)
{
  for (const char *at = text ? text : ""; *at;) {
    const size_t n = strcspn(at, "\n");
    SHOAL_TRY(shoal_texts_add_n(t, at, n));
    at += n + (at[n] == '\n');
  }
  return SHOAL_OK;
}

shoal_status shoal_texts_take(shoal_texts *t, char *text)
{
  enum { FIRST = 16 };
  SHOAL_CHECK(text, SHOAL_ERR_MEM, "out of memory for a text");
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : FIRST;
    char **more = realloc(t->at, cap * sizeof *more);
    if (!more) {
      free(text);
      return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for a list of %zu texts", cap);
    }
    t->at = more;
    t->cap = cap;
  }
  t->at[t->n++] = text;
  return SHOAL_OK;
}

shoal_status shoal_texts_add(shoal_texts *t, const char *text)
{
  return shoal_texts_take(t, strdup(text));
}

shoal_status shoal_texts_add_n(shoal_texts *t, const char *text, size_t n)
{
  return shoal_texts_take(t, strndup(text, n));
}

bool shoal_texts_have(const shoal_texts *t, const char *text)
{
  for (size_t i = 0; i < t->n; i++)
    if (strcmp(t->at[i], text) == 0) return true;
  return false;
}

static int by_bytes(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void shoal_texts_sort(shoal_texts *t, size_t from)
{
  if (t->n > from) qsort(t->at + from, t->n - from, sizeof *t->at, by_bytes);
}

void shoal_texts_free(shoal_texts *t)
{
  for (size_t i = 0; i < t->n; i++) free(t->at[i]);
  free(t->at);
  *t = (shoal_texts){ 0 };
}
