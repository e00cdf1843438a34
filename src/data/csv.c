/* CSV as in RFC 4180 and in practice: optional quotes, doubled inside quoted fields, which may contain separators and
 * line ends; blanks around fields; LF, CRLF or CR line ends.
 *
 * Fields are parsed in place: a NUL replaces the separator, and a doubled quote shifts the rest of its field left by
 * one.  So a row needs no allocation, and the text must outlive its fields. */
#include "data/csv.h"
#include <stdlib.h>
#include <string.h>

static char find_separator(const char *at, const char *end)
{
  static const char known[] = { ',', ';', '\t' };
  size_t count[3] = { 0 }, best = 0;
  bool quoted = false;
  for (; at < end && (quoted || (*at != '\n' && *at != '\r')); at++) {
    if (*at == '"') quoted = !quoted;
    for (size_t i = 0; !quoted && i < 3; i++) count[i] += *at == known[i];
  }
  for (size_t i = 1; i < 3; i++)
    if (count[i] > count[best]) best = i;
  return known[best];
}

void shoal_csv_init(shoal_csv *c, const char *path, char *text, size_t n)
{
  char *start = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
  *c = (shoal_csv){ .path = path, .at = start, .end = text + n, .line_start = start, .line = 1 };
  c->separator = find_separator(c->at, c->end);
}

void shoal_csv_fini(shoal_csv *c)
{
  free(c->fields);
  *c = (shoal_csv){ 0 };
}

static size_t column(const shoal_csv *c, const char *at)
{
  return (size_t)(at - c->line_start) + 1;
}

static bool blank(const shoal_csv *c, char ch)
{
  return ch == ' ' || (ch == '\t' && c->separator != '\t');
}

static bool ends_field(const shoal_csv *c, const char *at)
{
  return at == c->end || *at == c->separator || *at == '\n' || *at == '\r';
}

static void count_line(shoal_csv *c, const char *next)
{
  c->line++;
  c->line_start = (char *)next;
}

static shoal_status add_field(shoal_csv *c, shoal_csv_field f)
{
  if (c->n == c->cap) {
    size_t cap = c->cap ? 2 * c->cap : 64;
    shoal_csv_field *more = realloc(c->fields, cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory for %zu fields of %s", cap, c->path);
    c->fields = more;
    c->cap = cap;
  }
  c->fields[c->n++] = f;
  return SHOAL_OK;
}

/* On entry c->at is after the opening quote, on return at the end of the field. */
static shoal_status quoted_field(shoal_csv *c, shoal_csv_field *f, char **text_end)
{
  char *to = f->text = c->at;
  for (;; c->at++) {
    SHOAL_CHECK(c->at < c->end, SHOAL_ERR_IO, "%s:%zu:%zu: this quote is never closed", c->path, f->line, f->column);
    if (*c->at == '"' && c->at[1] != '"') break;
    if (*c->at == '"') c->at++;
    if (*c->at == '\n') count_line(c, c->at + 1);
    *to++ = *c->at;
  }
  c->at++;
  while (c->at < c->end && blank(c, *c->at)) c->at++;
  SHOAL_CHECK(ends_field(c, c->at), SHOAL_ERR_IO,
              "%s:%zu:%zu: text after a closing quote; a quote inside a field is written twice", c->path, c->line,
              column(c, c->at));
  *text_end = to;
  return SHOAL_OK;
}

/* Reads one field; sets *more if another follows in the row. */
static shoal_status read_field(shoal_csv *c, bool *more)
{
  while (c->at < c->end && blank(c, *c->at)) c->at++;
  shoal_csv_field f = { c->at, c->line, column(c, c->at) };
  char *text_end = f.text;
  if (c->at < c->end && *c->at == '"') {
    c->at++;
    SHOAL_TRY(quoted_field(c, &f, &text_end));
  } else {
    while (!ends_field(c, c->at)) c->at++;
    text_end = c->at;
    while (text_end > f.text && blank(c, text_end[-1])) text_end--;
  }
  SHOAL_CHECK(!memchr(f.text, '\0', (size_t)(text_end - f.text)), SHOAL_ERR_IO,
              "%s:%zu:%zu: a NUL byte: this is not a text file", c->path, f.line, f.column);
  char ended_by = c->at < c->end ? *c->at : '\0';
  *text_end = '\0'; /* may overwrite the separator, hence ended_by */
  *more = ended_by == c->separator;
  if (c->at < c->end) c->at++;
  if (ended_by == '\r' && c->at < c->end && *c->at == '\n') c->at++;
  if (!*more) count_line(c, c->at);
  return add_field(c, f);
}

shoal_status shoal_csv_next(shoal_csv *c, bool *end)
{
  do {
    bool more = true;
    c->n = 0;
    *end = c->at >= c->end;
    if (*end) return SHOAL_OK;
    while (more) SHOAL_TRY(read_field(c, &more));
  } while (c->n == 1 && c->fields[0].text[0] == '\0');
  return SHOAL_OK;
}
