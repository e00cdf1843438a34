/* Strings for messages and small files: a growing buffer, readable units, strict number parsing, the nearest known
 * word.
 *
 * Composing a message should not need error handling, so the buffer aborts when memory runs out; nothing that scales
 * with the size of a model uses it.  Numbers are parsed strictly, because a run file in which "1e-3x" or "0x10" is
 * silently accepted can cost days. */
#include "base/str.h"
#include "base/mem.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void str_reserve(shoal_str *s, size_t more)
{
  if (s->len + more + 1 <= s->cap) return;
  size_t cap = SHOAL_MAX(s->len + more + 1, 2 * s->cap);
  char *text = realloc(s->text, cap);
  if (!text) {
    fprintf(stderr, "shoal: error: out of memory for a text of %zu bytes\n", cap);
    abort();
  }
  s->text = text;
  s->cap = cap;
}

static void str_add_n(shoal_str *s, const char *text, size_t n)
{
  str_reserve(s, n);
  memcpy(s->text + s->len, text, n);
  s->len += n;
  s->text[s->len] = '\0';
}

static void str_vadd(shoal_str *s, const char *format, va_list args)
{
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (n < 0) return; /* only for a failed multibyte conversion, which no format here uses */
  str_reserve(s, (size_t)n);
  vsnprintf(s->text + s->len, (size_t)n + 1, format, args);
  s->len += (size_t)n;
}

void shoal_str_add(shoal_str *s, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  str_vadd(s, format, args);
  va_end(args);
}

/* Bytes from 0x80 up are copied unchanged, so UTF-8 stays UTF-8. */
void shoal_str_add_quoted(shoal_str *s, const char *text)
{
  static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  str_add_n(s, "\"", 1);
  for (const char *c = text; *c; c++) {
    const char *special = strchr(plain, *c);
    if (special)
      shoal_str_add(s, "\\%c", letter[special - plain]);
    else if ((unsigned char)*c < 0x20)
      shoal_str_add(s, "\\u%04x", (unsigned)*c);
    else
      str_add_n(s, c, 1);
  }
  str_add_n(s, "\"", 1);
}

void shoal_str_add_wrapped(shoal_str *s, const char *text, size_t indent, size_t width)
{
  size_t column = indent;
  while (*text) {
    size_t word = strcspn(text, " \n");
    if (column > indent && column + word + 1 >= width) {
      shoal_str_add(s, "\n%*s", (int)indent, "");
      column = indent;
    }
    shoal_str_add(s, "%s%.*s", column > indent ? " " : "", (int)word, text);
    column += word + (column > indent);
    text += word + strspn(text + word, " \n");
  }
  shoal_str_add(s, "\n");
}

void shoal_str_clear(shoal_str *s)
{
  s->len = 0;
  if (s->text) s->text[0] = '\0';
}

void shoal_str_free(shoal_str *s)
{
  free(s->text);
  *s = (shoal_str){ 0 };
}

char *shoal_strdup_printf(const char *format, ...)
{
  shoal_str s = { 0 };
  va_list args;
  va_start(args, format);
  str_vadd(&s, format, args);
  va_end(args);
  return s.text;
}

/* Bytes of the UTF-8 character at `c`, or 0 if there is none.  Overlong forms and surrogates pass. */
static size_t utf8_length(const unsigned char *c)
{
  const size_t n = *c < 0x80                 ? 1
                   : *c >= 0xc2 && *c < 0xe0 ? 2
                   : (*c & 0xf0) == 0xe0     ? 3
                   : *c >= 0xf0 && *c < 0xf5 ? 4
                                             : 0;
  for (size_t i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  return n;
}

bool shoal_is_utf8(const char *text)
{
  const unsigned char *c = (const unsigned char *)text;
  while (*c && utf8_length(c)) c += utf8_length(c);
  return !*c;
}

/* Columns that a character takes, by the ranges of Unicode's wide and combining ones that people write in names. */
static size_t width_of(uint32_t c)
{
  static const struct {
    uint32_t first, last;
    size_t width;
  } ranges[] = { { 0x300, 0x36f, 0 },    { 0x1100, 0x115f, 2 }, { 0x200b, 0x200f, 0 }, { 0x20d0, 0x20ff, 0 },
                 { 0x2e80, 0xa4cf, 2 },  { 0xac00, 0xd7a3, 2 }, { 0xf900, 0xfaff, 2 }, { 0xfe00, 0xfe0f, 0 },
                 { 0xfe30, 0xfe6f, 2 },  { 0xff01, 0xff60, 2 }, { 0xffe0, 0xffe6, 2 }, { 0x1f300, 0x1faff, 2 },
                 { 0x20000, 0x3fffd, 2 } };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (c >= ranges[i].first && c <= ranges[i].last) return ranges[i].width;
  return 1;
}

size_t shoal_text_fit(const char *text, size_t width)
{
  const unsigned char *c = (const unsigned char *)text;
  for (size_t taken = 0; *c;) {
    const size_t bytes = SHOAL_MAX(utf8_length(c), (size_t)1);
    uint32_t code = bytes == 1 ? *c : *c & (0xffU >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) code = code << 6 | (c[i] & 0x3fU);
    taken += width_of(code);
    if (taken > width) break;
    c += bytes;
  }
  return (size_t)((const char *)c - text);
}

size_t shoal_text_width(const char *text)
{
  size_t width = 0;
  while (text[shoal_text_fit(text, width)]) width++;
  return width;
}

bool shoal_str_add_cell(shoal_str *s, const char *text, int width)
{
  const bool cut = shoal_text_width(text) > (size_t)width;
  const size_t n = shoal_text_fit(text, (size_t)(cut ? width - 3 : width)), at = s->len;
  shoal_str_add(s, "%.*s%s", (int)n, text, cut ? "..." : "");
  shoal_str_add(s, "%*s", width - (int)shoal_text_width(s->text + at), "");
  return cut;
}

/* ASCII's control characters, and those that UTF-8 writes as C2 80 to C2 9F; and what is no UTF-8. */
size_t shoal_escape(const char *text, bool lines, char *buf, size_t cap)
{
  size_t n = 0;
  if (cap) buf[0] = '\0';
  for (const unsigned char *c = (const unsigned char *)text; *c;) {
    const size_t bytes = utf8_length(c);
    char piece[12] = { 0 };
    if (*c == '\n' || *c == '\t')
      snprintf(piece, sizeof piece, lines ? "%c" : "\\%c", lines ? *c : *c == '\n' ? 'n' : 't');
    else if (*c < 0x20 || *c == 0x7f || bytes == 0)
      snprintf(piece, sizeof piece, "\\x%02x", *c);
    else if (*c == 0xc2 && c[1] < 0xa0)
      snprintf(piece, sizeof piece, "\\x%02x\\x%02x", c[0], c[1]);
    else
      memcpy(piece, c, bytes);
    const size_t add = strlen(piece);
    if (n + add < cap) memcpy(buf + n, piece, add + 1);
    n += add;
    c += SHOAL_MAX(bytes, (size_t)1);
  }
  return n;
}

const char *shoal_show(const char *text, char *buf, size_t cap)
{
  shoal_escape(text, false, buf, cap);
  return buf;
}

bool shoal_is_plain(const char *text)
{
  return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-")] == '\0';
}

/* Bytes of the sign at c that a terminal shows; 0 for control characters, and for a byte that is no UTF-8. */
static size_t visible(const unsigned char *c)
{
  const size_t bytes = utf8_length(c);
  return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0) ? 0 : bytes;
}

/* Within '...' only the quote ends it; within $'...' backslashes escape. */
void shoal_str_add_word(shoal_str *s, const char *text)
{
  static const char more[] = "=,:@%"; /* plain in a word of a command, but for the first character */
  bool hidden = false, plain = text[0] && text[0] != '=';
  for (const char *c = text; *c; c += SHOAL_MAX(visible((const unsigned char *)c), (size_t)1)) {
    char one[2] = { *c, '\0' };
    hidden = hidden || visible((const unsigned char *)c) == 0;
    plain = plain && (shoal_is_plain(one) || strchr(more, *c));
  }
  shoal_str_add(s, "%s", plain ? "" : hidden ? "$'" : "'");
  for (const char *c = text; *c;) {
    const size_t bytes = visible((const unsigned char *)c);
    if (bytes == 0)
      shoal_str_add(s, "\\x%02x", (unsigned char)*c);
    else if (hidden && (*c == '\'' || *c == '\\'))
      shoal_str_add(s, "\\%c", *c);
    else if (*c == '\'')
      shoal_str_add(s, "'\\''");
    else
      shoal_str_add(s, "%.*s", (int)bytes, c);
    c += SHOAL_MAX(bytes, (size_t)1);
  }
  shoal_str_add(s, "%s", plain ? "" : "'");
}

const char *shoal_shell_word(const char *path, char buf[SHOAL_WORD])
{
  shoal_str word = { 0 };
  char *marked = shoal_strdup_printf("%s%s", path[0] == '-' ? "./" : "", path);
  shoal_str_add_word(&word, marked);
  snprintf(buf, SHOAL_WORD, "%s", word.len < SHOAL_WORD ? word.text : "...");
  shoal_str_free(&word);
  free(marked);
  return buf;
}

void shoal_str_print(const shoal_str *s, FILE *out)
{
  if (!s->text) return;
  size_t needed = shoal_escape(s->text, true, NULL, 0);
  shoal_str shown = { 0 };
  if (needed > s->len) {
    str_reserve(&shown, needed);
    shoal_escape(s->text, true, shown.text, needed + 1);
  }
  fputs(shown.text ? shown.text : s->text, out);
  shoal_str_free(&shown);
}

enum { LONGEST_WORD = 63 };

/* Edit distance in which swapping two adjacent letters counts as one edit ("dsao" is at distance 1 from "daso").
 * Three rows suffice: row[i % 3] holds the distances of a's first i letters to every prefix of b. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
  size_t row[3][LONGEST_WORD + 1];
  for (size_t i = 0; i <= na; i++) {
    size_t *here = row[i % 3], *above = row[(i + 2) % 3], *two_above = row[(i + 1) % 3];
    here[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      if (i == 0) {
        here[j] = j;
        continue;
      }
      int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
      here[j] = SHOAL_MIN(SHOAL_MIN(above[j], here[j - 1]) + 1, above[j - 1] + (ca != cb));
      if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == cb)
        here[j] = SHOAL_MIN(here[j], two_above[j - 2] + 1);
    }
  }
  return row[na % 3][nb];
}

/* Up to one edit per three letters counts as a typo; a suggestion beyond that is likely wrong. */
const char *shoal_nearest(const char *word, const char *const *words, size_t n)
{
  size_t len = strlen(word), best = SHOAL_MAX(len / 3, (size_t)1) + 1;
  const char *nearest = NULL;
  if (len > LONGEST_WORD) return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t other = strlen(words[i]);
    if (other > LONGEST_WORD) continue;
    size_t d = edit_distance(word, len, words[i], other);
    if (d < best && d < SHOAL_MAX(len, other)) {
      best = d;
      nearest = words[i];
    }
  }
  return nearest;
}

const char *shoal_format_share(double share, char *buf, size_t cap)
{
  bool almost = share < 1 && share > 0.9999; /* a mistake in a million is not rounded away */
  snprintf(buf, cap, "%.2f %%", almost ? 99.99 : 100 * share);
  return buf;
}

const char *shoal_format_bytes(double bytes, char *buf, size_t cap)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  size_t unit = 0;
  while (fabs(bytes) >= (unit ? 1023.5 : 1024) && unit + 1 < SHOAL_COUNT(units)) {
    bytes /= 1024;
    unit++;
  }
  snprintf(buf, cap, unit == 0 || fabs(bytes) >= 99.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return buf;
}

const char *shoal_format_seconds(double seconds, char *buf, size_t cap)
{
  static const struct {
    double below, per_second;
    const char *unit;
  } small[] = { { 999.5e-9, 1e9, "ns" }, { 999.5e-6, 1e6, "us" }, { 999.5e-3, 1e3, "ms" }, { 59.95, 1, "s" } };
  double size = fabs(seconds);
  if (!isfinite(seconds) || size >= 1e15) {
    snprintf(buf, cap, "unknown");
    return buf;
  }
  if (size == 0) {
    snprintf(buf, cap, "0 s");
    return buf;
  }
  for (size_t i = 0; i < SHOAL_COUNT(small); i++)
    if (size < small[i].below) {
      double value = seconds * small[i].per_second;
      snprintf(buf, cap, fabs(value) >= 99.95 || i == 0 ? "%.0f %s" : "%.1f %s", value, small[i].unit);
      return buf;
    }
  const char *sign = seconds < 0 ? "-" : "";
  uint64_t s = (uint64_t)(size + 0.5), m = s / 60, h = m / 60;
  if (h == 0)
    snprintf(buf, cap, "%s%d min %02d s", sign, (int)m, (int)(s % 60));
  else if (h < 24)
    snprintf(buf, cap, "%s%d h %02d min", sign, (int)h, (int)(m % 60));
  else
    snprintf(buf, cap, "%s%llu d %02d h", sign, (unsigned long long)(h / 24), (int)(h % 24));
  return buf;
}

/* An optional sign and then a digit or ".digit".  Other forms strtod accepts (spaces, hex, "nan") are rejected. */
static bool looks_decimal(const char *text)
{
  text += *text == '-' || *text == '+';
  if (*text == '.') text++;
  return isdigit((unsigned char)*text) && !strpbrk(text, "xX");
}

shoal_status shoal_parse_i64(const char *text, int64_t *out)
{
  char *end;
  if (!looks_decimal(text)) return SHOAL_ERR_ARG;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || *end || end == text) return SHOAL_ERR_ARG;
  *out = value;
  return SHOAL_OK;
}

shoal_status shoal_parse_f64(const char *text, double *out)
{
  char *end;
  const char *unsigned_text = text + (*text == '-' || *text == '+');
  if (strcmp(unsigned_text, "inf") == 0 || strcmp(unsigned_text, ".inf") == 0) {
    *out = *text == '-' ? -HUGE_VAL : HUGE_VAL;
    return SHOAL_OK;
  }
  if (!looks_decimal(text)) return SHOAL_ERR_ARG;
  double value = strtod(text, &end);
  if (*end || !isfinite(value)) return SHOAL_ERR_ARG;
  *out = value;
  return SHOAL_OK;
}

/* Bounds that every user of a period can rely on: a count, or a time in nanoseconds, fits a 64-bit integer. */
static bool period_in_range(const shoal_period *p)
{
  if (!isfinite(p->value) || p->value <= 0) return false;
  if (p->unit == SHOAL_PER_SECONDS) return p->value <= SHOAL_PERIOD_MOST_SECONDS;
  return p->value == floor(p->value) && p->value <= SHOAL_PERIOD_MOST_COUNT;
}

shoal_status shoal_parse_period(const char *text, shoal_period *out)
{
  static const struct {
    const char *name;
    double factor;
    shoal_period_unit unit;
  } units[] = {
    { "", 1, SHOAL_PER_SECONDS },       { "s", 1, SHOAL_PER_SECONDS },       { "sec", 1, SHOAL_PER_SECONDS },
    { "second", 1, SHOAL_PER_SECONDS }, { "seconds", 1, SHOAL_PER_SECONDS }, { "m", 60, SHOAL_PER_SECONDS },
    { "min", 60, SHOAL_PER_SECONDS },   { "minute", 60, SHOAL_PER_SECONDS }, { "minutes", 60, SHOAL_PER_SECONDS },
    { "h", 3600, SHOAL_PER_SECONDS },   { "hour", 3600, SHOAL_PER_SECONDS }, { "hours", 3600, SHOAL_PER_SECONDS },
    { "d", 86400, SHOAL_PER_SECONDS },  { "day", 86400, SHOAL_PER_SECONDS }, { "days", 86400, SHOAL_PER_SECONDS },
    { "step", 1, SHOAL_PER_STEPS },     { "steps", 1, SHOAL_PER_STEPS },     { "epoch", 1, SHOAL_PER_EPOCHS },
    { "epochs", 1, SHOAL_PER_EPOCHS },
  };
  char *end;
  if (!looks_decimal(text)) return SHOAL_ERR_ARG;
  double value = strtod(text, &end);
  while (*end == ' ') end++;
  for (size_t i = 0; i < SHOAL_COUNT(units); i++)
    if (strcasecmp(end, units[i].name) == 0) {
      shoal_period p = { value * units[i].factor, units[i].unit };
      if (!period_in_range(&p)) return SHOAL_ERR_ARG;
      *out = p;
      return SHOAL_OK;
    }
  return SHOAL_ERR_ARG;
}
