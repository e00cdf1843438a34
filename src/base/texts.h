/* A growing list of texts that owns them: names of files, words of a setting.  A zeroed one is empty. */
#ifndef SHOAL_BASE_TEXTS_H
#define SHOAL_BASE_TEXTS_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char **at; /* [n] */
  size_t n, cap;
} shoal_texts;

/** Append a copy of `text`, or of its first `n` bytes.  ERR_MEM leaves the list as it was. */
shoal_status shoal_texts_add(shoal_texts *t, const char *text);
shoal_status shoal_texts_add_n(shoal_texts *t, const char *text, size_t n);
/** Append the lines of `text`; none of NULL and of "". */
shoal_status shoal_texts_add_lines(shoal_texts *t, const char *text);
/** Appends `text` itself, which came from malloc; it is freed if the list cannot grow. */
shoal_status shoal_texts_take(shoal_texts *t, char *text);
bool shoal_texts_have(const shoal_texts *t, const char *text); /* compares with each */
void shoal_texts_sort(shoal_texts *t, size_t from);            /* by bytes, from item `from` on */
void shoal_texts_free(shoal_texts *t);                         /* it is empty then */
#endif
