/* For each open object or array the writer records whether it has members yet, which determines commas and line breaks.
 * The reader is the jansson library; its messages are brought into the form of Shoal's errors. */
#include "base/json.h"
#include "base/file.h"
#include "base/mem.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH_BYTES = 1 << 16 };

/* ---- writing ---- */

static void flush_text(shoal_json *j, size_t at_least)
{
  if (!j->out || j->text.len < at_least || j->text.len == 0) return;
  fwrite(j->text.text, 1, j->text.len, j->out);
  shoal_str_clear(&j->text);
}

/* Length of the UTF-8 sequence at `c`, or 0 if it is not well-formed (overlong forms and surrogates included). */
static size_t utf8_length(const unsigned char *c)
{
  size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f)) return 0;
  if ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f)) return 0;
  return n;
}

static void add_utf8(shoal_str *s, const char *text)
{
  const unsigned char *c = (const unsigned char *)text;
  bool valid = true;
  for (size_t n; valid && *c; c += n) valid = (n = utf8_length(c)) > 0;
  if (valid) {
    shoal_str_add_quoted(s, text);
    return;
  }
  shoal_str mended = { 0 };
  for (c = (const unsigned char *)text; *c;) {
    size_t n = utf8_length(c);
    if (n)
      shoal_str_add(&mended, "%.*s", (int)n, (const char *)c);
    else
      shoal_str_add(&mended, "\xef\xbf\xbd");
    c += n ? n : 1;
  }
  shoal_str_add_quoted(s, mended.text);
  shoal_str_free(&mended);
}

/* Writes what precedes a value: comma, line break, indentation and key. */
static void begin_value(shoal_json *j, const char *key)
{
  if (j->depth > 0) {
    int top = j->depth - 1;
    assert(!key == j->is_array[top]);
    if (j->has_members[top]) shoal_str_add(&j->text, ",");
    flush_text(j, FLUSH_BYTES);
    if (top < j->lines)
      shoal_str_add(&j->text, "\n%*s", 2 * j->depth, "");
    else if (j->has_members[top])
      shoal_str_add(&j->text, " ");
    j->has_members[top] = true;
  }
  if (!key) return;
  add_utf8(&j->text, key);
  shoal_str_add(&j->text, ": ");
}

static void open_level(shoal_json *j, const char *key, bool is_array)
{
  begin_value(j, key);
  assert(j->depth < SHOAL_JSON_DEPTH);
  j->is_array[j->depth] = is_array;
  j->has_members[j->depth] = false;
  j->depth++;
  shoal_str_add(&j->text, is_array ? "[" : "{");
}

void shoal_json_object(shoal_json *j, const char *key)
{
  open_level(j, key, false);
}

void shoal_json_array(shoal_json *j, const char *key)
{
  open_level(j, key, true);
}

void shoal_json_end(shoal_json *j)
{
  assert(j->depth > 0);
  int top = --j->depth;
  if (j->has_members[top] && top < j->lines) shoal_str_add(&j->text, "\n%*s", 2 * top, "");
  shoal_str_add(&j->text, j->is_array[top] ? "]" : "}");
  if (top == 0) shoal_str_add(&j->text, "\n");
}

void shoal_json_string(shoal_json *j, const char *key, const char *text)
{
  if (!text) {
    shoal_json_null(j, key);
    return;
  }
  begin_value(j, key);
  add_utf8(&j->text, text);
}

void shoal_json_format(shoal_json *j, const char *key, const char *format, ...)
{
  char small[256], *text = small;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= (int)sizeof small && (text = malloc((size_t)n + 1))) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  shoal_json_string(j, key, text ? text : small);
  if (text != small) free(text);
}

void shoal_json_int(shoal_json *j, const char *key, int64_t value)
{
  begin_value(j, key);
  shoal_str_add(&j->text, "%" PRId64, value);
}

void shoal_json_uint(shoal_json *j, const char *key, uint64_t value)
{
  begin_value(j, key);
  shoal_str_add(&j->text, "%" PRIu64, value);
}

void shoal_json_real(shoal_json *j, const char *key, double value)
{
  char digits[40];
  if (!isfinite(value)) {
    shoal_json_null(j, key);
    return;
  }
  snprintf(digits, sizeof digits, "%.15g", value);
  if (strtod(digits, NULL) != value) snprintf(digits, sizeof digits, "%.17g", value);
  begin_value(j, key);
  shoal_str_add(&j->text, "%s", digits);
}

void shoal_json_fixed(shoal_json *j, const char *key, double value, int decimals)
{
  if (!isfinite(value)) {
    shoal_json_null(j, key);
    return;
  }
  begin_value(j, key);
  shoal_str_add(&j->text, "%.*f", decimals, value);
}

void shoal_json_bool(shoal_json *j, const char *key, bool value)
{
  begin_value(j, key);
  shoal_str_add(&j->text, value ? "true" : "false");
}

void shoal_json_null(shoal_json *j, const char *key)
{
  begin_value(j, key);
  shoal_str_add(&j->text, "null");
}

void shoal_json_finish(shoal_json *j)
{
  assert(j->depth == 0);
  flush_text(j, 0);
  shoal_str_free(&j->text);
}

/* ---- reading ---- */

shoal_status shoal_json_read(const char *text, const char *origin, json_t **out)
{
  json_error_t e;
  json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES, &e);
  SHOAL_CHECK(tree, SHOAL_ERR_IO, "%s:%d:%d: %s", origin, e.line, e.column, e.text);
  *out = tree;
  return SHOAL_OK;
}

shoal_status shoal_json_read_file(const char *path, json_t **out)
{
  char *text;
  size_t n;
  SHOAL_TRY(shoal_read_file(path, &text, &n));
  shoal_status st = shoal_json_read(text, path, out);
  free(text);
  return st;
}

double shoal_json_real_of(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

int shoal_json_int_of(const json_t *object, const char *key)
{
  double value = shoal_json_real_of(object, key);
  return value >= 0 && value <= INT32_MAX ? (int)value : 0;
}
