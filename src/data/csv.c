/* CSV as in RFC 4180 and in practice: optional quotes, doubled inside quoted fields, which may contain separators and
 * line ends; blanks around fields; LF, CRLF or CR line ends; separators of other countries.
 *
 * The separator is found by counting signs in the first lines: it occurs equally often in all of them, and a comma in a
 * number is none.  Of spaces, which have to be asked for, several are one, and those around a row none: columns that are aligned.
 *
 * Fields are parsed in place: a NUL replaces the separator, and a doubled quote shifts the rest of its field left by
 * one.  So a row needs no allocation, and the text must outlive its fields. */
#include "data/csv.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_number.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SURVEY_LINES = 100, SIGNS = 4 };
static const char signs[SIGNS] = { ',', ';', '\t', '|' };
static const char *const sign_names[SIGNS] = { "commas", "semicolons", "tabs", "bars (|)" };

/* ---- the dialect ---- */

/* What is in front of the first row: a byte-order mark and a line "sep=;", as Excel writes it; *separator is set by it. */
static const char *skip_preamble(const char *at, const char *end, char *separator)
{
  if (end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
  const char *line = at;
  if (end - line > 5 && strncasecmp(line, "sep=", 4) == 0 && (line[5] == '\n' || line[5] == '\r')) {
    *separator = line[4];
    at = line + 6;
    if (line[5] == '\r' && at < end && *at == '\n') at++;
  }
  return at;
}

const char *shoal_csv_wide_encoding(const char *text, size_t n)
{
  const unsigned char *t = (const unsigned char *)text;
  const char *name = NULL;
  size_t zeros[4] = { 0 };
  const size_t looked = SHOAL_MIN(n, (size_t)64), some = SHOAL_MAX(looked / 8, (size_t)1);
  for (size_t i = 0; i < looked; i++) zeros[i % 4] += t[i] == 0;
  const bool even = zeros[0] >= some && zeros[2] >= some, odd = zeros[1] >= some && zeros[3] >= some;
  if (n >= 2 && ((t[0] == 0xff && t[1] == 0xfe) || (t[0] == 0xfe && t[1] == 0xff))) name = "UTF-16";
  if (n >= 4 && (memcmp(t, "\xff\xfe\0\0", 4) == 0 || memcmp(t, "\0\0\xfe\xff", 4) == 0)) name = "UTF-32";
  if (!name && n >= 8 && odd && zeros[2] >= some && zeros[0] == 0) name = "UTF-32LE"; /* without a mark, */
  if (!name && n >= 8 && even && zeros[1] >= some && zeros[3] == 0)
    name = "UTF-32BE"; /* iconv must be told the order */
  if (!name && n >= 4 && odd && zeros[0] + zeros[2] == 0) name = "UTF-16LE";
  if (!name && n >= 4 && even && zeros[1] + zeros[3] == 0) name = "UTF-16BE";
  return name;
}

static shoal_status check_encoding(const char *path, const char *text, size_t n)
{
  const char *name = shoal_csv_wide_encoding(text, n);
  char word[SHOAL_WORD];
  SHOAL_CHECK(!name, SHOAL_ERR_IO, "%s is %s text, UTF-8 is read: convert it with iconv -f %s -t UTF-8 %s >NEW", path,
              name, name, shoal_shell_word(path, word));
  return SHOAL_OK;
}

/* A text in WINDOWS-1252 as UTF-8, or NULL: it has a byte that means nothing there.  Caller frees. */
static char *read_as_western(const char *text)
{
  static const uint16_t signs_from_80[32] = {
    /* the others are those of Unicode */
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178,
  };
  shoal_str s = { 0 };
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    const unsigned sign = *c >= 0x80 && *c < 0xa0 ? signs_from_80[*c - 0x80] : *c;
    if (sign == 0) {
      shoal_str_free(&s);
      return NULL;
    }
    if (sign < 0x80)
      shoal_str_add(&s, "%c", (int)sign);
    else if (sign < 0x800)
      shoal_str_add(&s, "%c%c", (int)(0xc0 | sign >> 6), (int)(0x80 | (sign & 0x3f)));
    else
      shoal_str_add(&s, "%c%c%c", (int)(0xe0 | sign >> 12), (int)(0x80 | (sign >> 6 & 0x3f)),
                    (int)(0x80 | (sign & 0x3f)));
  }
  return s.text;
}

shoal_status shoal_csv_check_text(const char *path, const char *what, const char *text)
{
  char word[SHOAL_WORD], bytes[64], read[64];
  if (shoal_is_utf8(text)) return SHOAL_OK;
  char *western = read_as_western(text);
  const char *file = shoal_shell_word(path, word);
  shoal_show(text, bytes, sizeof bytes);
  shoal_status st =
      western
          ? SHOAL_FAIL(
                SHOAL_ERR_IO,
                "%s, \"%s\", is no UTF-8 text; in WINDOWS-1252, of Windows in Western Europe, it reads \"%s\": if "
                "that is right, convert the file with iconv -f WINDOWS-1252 -t UTF-8 %s >NEW",
                what, bytes, shoal_show(western, read, sizeof read), file)
          : SHOAL_FAIL(SHOAL_ERR_IO,
                       "%s, \"%s\", is no UTF-8 text: convert the file from its encoding, of which iconv -l has the "
                       "names, with iconv -f ENCODING -t UTF-8 %s >NEW",
                       what, bytes, file);
  free(western);
  return st;
}

/* What the first lines have of each sign, outside quotes. */
typedef struct {
  size_t lines;
  size_t first[SIGNS]; /* in the first line */
  bool same[SIGNS];    /* all lines have as many, one or more */
  bool in_numbers;     /* commas: all of them, but for the first line's, are inside numbers */
  size_t commas;       /* behind the first line, or in it if it is the only one */
  size_t count[SIGNS]; /* in the current line */
} survey;

static bool in_number(char c)
{
  return (c >= '0' && c <= '9') || c == ',' || c == '.';
}

/* Looks at the comma at `at`, of a text from `begin` to `end`: are the digits and signs around it a number? */
static void judge_comma(survey *s, const shoal_csv_dialect *d, const char *begin, const char *at, const char *end)
{
  enum { LONGEST = 64 };
  char number[LONGEST];
  double unused;
  const char *left = at, *right = at;
  while (left > begin && right - left < LONGEST && in_number(left[-1])) left--;
  while (right < end && right - left < LONGEST && in_number(*right)) right++;
  s->commas++;
  snprintf(number, sizeof number, "%.*s", (int)(right - left), left);
  s->in_numbers &= right - left < LONGEST && shoal_csv_number(d, number, &unused, NULL) &&
                   (left == begin || (signed char)left[-1] < 0 || strchr(";\t|\n\r+- '\"", left[-1])) &&
                   (right == end || (signed char)*right < 0 || strchr(";\t|\n\r '\"eE", *right));
}

static void end_line(survey *s)
{
  for (int i = 0; i < SIGNS; i++) {
    if (s->lines == 0) s->first[i] = s->count[i];
    s->same[i] &= s->count[i] == s->first[i] && s->first[i] > 0;
    s->count[i] = 0;
  }
  s->lines++;
}

static survey look_at(const shoal_csv_dialect *d, const char *at, const char *end)
{
  survey s = { .same = { true, true, true, true }, .in_numbers = true }, first = s;
  const char *begin = at, *line = at;
  bool quoted = false;
  for (; at < end && s.lines < SURVEY_LINES; at++) {
    if (*at == '"') quoted = !quoted;
    if (quoted) continue;
    for (int i = 0; i < SIGNS; i++) s.count[i] += *at == signs[i];
    if (*at == ',') judge_comma(s.lines ? &s : &first, d, begin, at, end);
    if (*at != '\n' && *at != '\r') continue;
    if (at > line) end_line(&s);
    line = at + 1;
  }
  if (at == end && at > line) end_line(&s);
  if (s.lines > 1) return s;
  s.in_numbers = first.in_numbers;
  s.commas = first.commas;
  return s;
}

/* The sign that all lines have equally often, or else the most frequent one of the first line.  A comma that may belong to
 * numbers loses to the others. */
static int choose_sign(const survey *s, bool comma_in_numbers)
{
  int best = -1;
  for (int i = 0; i < SIGNS; i++)
    if (s->same[i] && !(i == 0 && comma_in_numbers) && (best < 0 || s->first[i] > s->first[best])) best = i;
  if (best >= 0) return best;
  best = 0;
  for (int i = 1; i < SIGNS; i++)
    if (s->first[i] > s->first[best]) best = i;
  return best;
}

static shoal_status check_rivals(const char *path, const survey *s, int sign, bool comma_in_numbers)
{
  for (int i = 0; i < SIGNS; i++)
    SHOAL_CHECK(i == sign || !s->same[i] || !s->same[sign] || (i == 0 && comma_in_numbers) || s->lines < 2,
                SHOAL_ERR_IO,
                "%s: all lines have %zu %s and %zu %s: say which sign separates fields, as in --separator '%c'%s", path,
                s->first[sign], sign_names[sign], s->first[i], sign_names[i], signs[sign],
                i == 0 || sign == 0 ? ", and the decimal sign with --decimal" : "");
  return SHOAL_OK;
}

shoal_status shoal_csv_find_separator(const char *path, const char *text, size_t n, shoal_csv_dialect *d)
{
  SHOAL_TRY(check_encoding(path, text, n));
  char stated = 0;
  const char *at = skip_preamble(text, text + n, &stated);
  if (d->separator) return SHOAL_OK;
  d->stated = stated != 0;
  d->separator = stated;
  if (stated) return SHOAL_OK;
  const survey s = look_at(d, at, text + n);
  bool others = s.same[1] || s.same[2] || s.same[3];
  bool in_numbers = d->decimal == ',' || d->thousands == ',' || (others && s.commas > 0 && s.in_numbers);
  int sign = choose_sign(&s, in_numbers);
  SHOAL_TRY(check_rivals(path, &s, sign, in_numbers));
  d->separator = signs[sign];
  return SHOAL_OK;
}

const char *shoal_csv_dialect_text(const shoal_csv_dialect *d, char *buf, size_t cap)
{
  char one[16], line[32] = "";
  const char *name = one;
  snprintf(one, sizeof one, "\"%c\"", d->separator);
  for (int i = 0; i < SIGNS; i++)
    if (signs[i] == d->separator) name = sign_names[i];
  if (d->separator == ' ') name = "spaces";
  if (d->stated) snprintf(line, sizeof line, ", as its line \"sep=%c\" says", d->separator);
  snprintf(buf, cap, "%s%s%s", name, line, d->decimal == ',' ? ", with a decimal comma" : "");
  return buf;
}

/* ---- rows ---- */

void shoal_csv_init(shoal_csv *c, const char *path, char *text, size_t n, shoal_csv_dialect dialect)
{
  char stated = 0;
  const char *start = skip_preamble(text, text + n, &stated);
  if (n > 0 && text[n - 1] == '\x1a') n--; /* the end of a text for DOS */
  *c = (shoal_csv){ .path = path, .at = text + (start - text), .end = text + n, .dialect = dialect };
  c->line_start = c->at;
  c->line = stated ? 2 : 1;
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
  return ch != c->dialect.separator && (ch == ' ' || ch == '\t');
}

static bool ends_field(const shoal_csv *c, const char *at)
{
  return at == c->end || *at == c->dialect.separator || *at == '\n' || *at == '\r';
}

static void count_line(shoal_csv *c, const char *next)
{
  c->line++;
  c->line_start = (char *)next;
}

static shoal_status refuse_many(const shoal_csv *c, const shoal_csv_field *f)
{
  SHOAL_CHECK(
      c->first, SHOAL_ERR_IO,
      "%s:%zu:%zu: the first row has more than %d fields, the most there may be: a row is one sample, end it with "
      "a line end, or name the sign between fields with --separator",
      c->path, f->line, f->column, SHOAL_CSV_COLUMNS);
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s:%zu:%zu: this row has more than %d fields, the first row has %zu; put a field that holds the "
                    "separator in double quotes, or correct the row",
                    c->path, f->line, f->column, SHOAL_CSV_COLUMNS, c->first);
}

static shoal_status add_field(shoal_csv *c, shoal_csv_field f)
{
  if (c->n == c->cap) {
    if (c->n >= SHOAL_CSV_COLUMNS) return refuse_many(c, &f);
    size_t cap = c->cap ? 2 * c->cap : 64;
    shoal_csv_field *more = realloc(c->fields, cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory for %zu fields of %s", cap, c->path);
    c->fields = more;
    c->cap = cap;
  }
  c->fields[c->n++] = f;
  return SHOAL_OK;
}

/* The quote that opens a field of several lines was mostly not meant to, and what closes it opens another one; `escaped`: a
 * backslash is in front of what closed it, as other programs write a quote inside a field. */
static shoal_status refuse_after_quote(const shoal_csv *c, const shoal_csv_field *f, bool escaped)
{
  char word[SHOAL_WORD];
  SHOAL_CHECK(!escaped, SHOAL_ERR_IO,
              "%s:%zu:%zu: a quote inside a field is written twice here, not behind a backslash: write it so, as sed "
              "'s/\\\\\"/\"\"/g' %s >NEW does",
              c->path, c->line, column(c, c->at), shoal_shell_word(c->path, word));
  if (c->line > f->line)
    return SHOAL_FAIL(
        SHOAL_ERR_IO,
        "%s:%zu:%zu: this quote opens a field that goes on to line %zu, with text after the closing quote there: "
        "close the quote in its own line, or remove it",
        c->path, f->line, f->column, c->line);
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s:%zu:%zu: text after a closing quote; a quote inside a field is written twice",
                    c->path, c->line, column(c, c->at));
}

/* On entry c->at is after the opening quote, on return at the end of the field. */
static shoal_status quoted_field(shoal_csv *c, shoal_csv_field *f, char **text_end)
{
  char *to = f->text = c->at;
  for (;; c->at++) {
    SHOAL_CHECK(c->at < c->end, SHOAL_ERR_IO, "%s:%zu:%zu: this quote is never closed: close it, or remove it", c->path,
                f->line, f->column);
    if (*c->at == '"' && c->at[1] != '"') break;
    if (*c->at == '"') c->at++;
    if (*c->at == '\n') count_line(c, c->at + 1);
    *to++ = *c->at;
  }
  c->at++;
  while (c->at < c->end && blank(c, *c->at)) c->at++;
  if (!ends_field(c, c->at)) return refuse_after_quote(c, f, to > f->text && to[-1] == '\\');
  *text_end = to;
  return SHOAL_OK;
}

/* What a write that did not come to its end leaves: zero bytes in the place of text. */
static shoal_status refuse_zero(const shoal_csv *c, const shoal_csv_field *f, const char *text_end)
{
  const char *zero = memchr(f->text, '\0', (size_t)(text_end - f->text));
  size_t n = 1;
  char word[SHOAL_WORD];
  while (zero + n < c->end && !zero[n]) n++;
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s:%zu:%zu: %zu zero byte%s: what was there is lost, or this is no text. Restore the file, or remove "
      "them as tr -d '\\0' <%s >NEW does, and look at line %zu of it",
      c->path, f->line, c->line == f->line ? column(c, zero) : f->column, n, n > 1 ? "s" : "",
      shoal_shell_word(c->path, word), f->line);
}

/* Reads one field; sets *more if another follows in the row. */
static shoal_status read_field(shoal_csv *c, bool *more)
{
  const bool spaces = c->dialect.separator == ' ';
  while (c->at < c->end && (blank(c, *c->at) || (spaces && *c->at == ' '))) c->at++;
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
  if (memchr(f.text, '\0', (size_t)(text_end - f.text))) return refuse_zero(c, &f, text_end);
  char ended_by = c->at < c->end ? *c->at : '\0';
  *text_end = '\0'; /* may overwrite the separator, hence ended_by */
  if (c->at < c->end) c->at++;
  if (spaces && ended_by == ' ') {
    while (c->at < c->end && *c->at == ' ') c->at++;
    if (ends_field(c, c->at)) ended_by = c->at < c->end ? *c->at++ : '\0';
  }
  *more = ended_by == c->dialect.separator;
  if (ended_by == '\r' && c->at < c->end && *c->at == '\n') c->at++;
  if (!*more) count_line(c, c->at);
  return add_field(c, f);
}

static bool is_blank(const shoal_csv *c)
{
  for (size_t i = 0; i < c->n; i++)
    if (c->fields[i].text[0]) return false;
  return true;
}

shoal_status shoal_csv_next(shoal_csv *c, bool *end)
{
  for (;;) {
    bool more = true;
    c->n = 0;
    *end = c->at >= c->end;
    if (*end) return SHOAL_OK;
    while (more) SHOAL_TRY(read_field(c, &more));
    if (!is_blank(c)) {
      c->empty += c->waiting;
      c->waiting = 0;
      c->begun = true;
      if (!c->first) c->first = c->n;
      return SHOAL_OK;
    }
    if (c->n > 1 && c->blanks++ == 0) c->first_blank = c->fields[0].line;
    if (c->n == 1 && c->begun && c->waiting++ == 0 && c->empty == 0) c->first_empty = c->fields[0].line;
  }
}
