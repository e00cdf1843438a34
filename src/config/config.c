/* From raw settings to a typed, complete config; every fault is reported.
 *
 * For each option of the tables the source of highest precedence wins: a flag, the environment, a file, the default.
 * Its text is then parsed according to the option's type and checked against its range.  Two messages now are better
 * than a second typo found after another hour in the queue, so checking continues after a fault and the code is
 * returned at the end.
 *
 * A fault in a table itself (a default outside its own range, a duplicate name) is a bug in Shoal and aborts the
 * program at once, as does asking a finished config for a name it does not have. */
#include "base/mem.h"
#include "config/option_impl.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static _Noreturn void __attribute__((format(printf, 1, 2))) bug(const char *format, ...)
{
  va_list args;
  fputs("shoal: bug: ", stderr);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  abort();
}

/* --- ranges and choices ---------------------------------------------------------------------------------------- */

typedef struct {
  double low, high;
  bool low_open, high_open;
} bounds;

static bounds option_bounds(const shoal_option *o)
{
  bounds b = { -HUGE_VAL, HUGE_VAL, false, false };
  if (!o->range) return b;
  char low[32], high[32], left, right;
  int used = 0;
  if (sscanf(o->range, "%c%31[^,],%31[^])]%c%n", &left, low, high, &right, &used) != 4 || o->range[used] ||
      !strchr("[(", left) || !strchr("])", right) || shoal_parse_f64(low, &b.low) != SHOAL_OK ||
      shoal_parse_f64(high, &b.high) != SHOAL_OK)
    bug("option %s has the range \"%s\"; write it as [0,1) or (0,inf)", o->name, o->range);
  b.low_open = left == '(';
  b.high_open = right == ')';
  return b;
}

static bool in_range(const shoal_option *o, double value)
{
  bounds b = option_bounds(o);
  return (b.low_open ? value > b.low : value >= b.low) && (b.high_open ? value < b.high : value <= b.high);
}

/* Where numbers are computed with, 1e-50 would be 0, and 0.9999999999 would be 1. */
static bool fits_32_bits(const shoal_option *o, double value)
{
  const double f = (float)value;
  return (f != 0) == (value != 0) && isfinite(f) && in_range(o, f);
}

bool shoal_option_choice(const shoal_option *o, size_t i, char *buf, size_t cap)
{
  const char *at = o->type == SHOAL_OPT_ENUM || o->type == SHOAL_OPT_WORDS ? o->range : NULL;
  for (; at && i > 0; i--) {
    at = strchr(at, '|');
    if (at) at++;
  }
  if (!at) return false;
  snprintf(buf, cap, "%.*s", (int)strcspn(at, "|"), at);
  return true;
}

static bool is_one_of(const char *words, const char *word)
{
  size_t n = strlen(word);
  for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (strcspn(at, "|") == n && strncmp(at, word, n) == 0) return true;
  return false;
}

bool shoal_option_is_list(const shoal_option *o)
{
  return o->type == SHOAL_OPT_INTS || o->type == SHOAL_OPT_FLOATS || o->type == SHOAL_OPT_WORDS ||
         o->type == SHOAL_OPT_PATHS;
}

/* --- values ---------------------------------------------------------------------------------------------------- */

static void value_clear(shoal_value *v)
{
  shoal_texts_free(&v->texts);
  free(v->ints);
  free(v->floats);
  free(v->origin);
}

static bool parse_bool(const char *text, int64_t *out)
{
  static const char *const words[] = { "false", "no", "off", "true", "yes", "on" };
  for (size_t i = 0; i < SHOAL_COUNT(words); i++)
    if (strcasecmp(text, words[i]) == 0) {
      *out = i >= 3;
      return true;
    }
  return false;
}

/* Parses item `i` of a list, or the scalar, into the typed arrays. */
static bool parse_item(shoal_value *v, size_t i)
{
  const shoal_option *o = v->option;
  const char *text = v->texts.at[i];
  switch (o->type) {
  case SHOAL_OPT_BOOL:
    return parse_bool(text, &v->ints[i]);
  case SHOAL_OPT_INT:
  case SHOAL_OPT_INTS:
    return shoal_parse_i64(text, &v->ints[i]) == SHOAL_OK && in_range(o, (double)v->ints[i]);
  case SHOAL_OPT_FLOAT:
  case SHOAL_OPT_FLOATS:
    return shoal_parse_f64(text, &v->floats[i]) == SHOAL_OK && in_range(o, v->floats[i]) &&
           fits_32_bits(o, v->floats[i]);
  case SHOAL_OPT_PERIOD:
    if (o->range && is_one_of(o->range, text)) {
      v->period = (shoal_period){ HUGE_VAL, SHOAL_PER_NEVER };
      return true;
    }
    return shoal_parse_period(text, &v->period) == SHOAL_OK;
  case SHOAL_OPT_ENUM:
    return is_one_of(o->range, text);
  case SHOAL_OPT_WORDS:
    return *text && !shoal_text_fault(text, strlen(text)) && (!o->range || is_one_of(o->range, text));
  case SHOAL_OPT_PATHS:
    return *text && !shoal_text_fault(text, strlen(text));
  case SHOAL_OPT_PATH:
  case SHOAL_OPT_STRING:
    return !shoal_text_fault(text, strlen(text));
  }
  return false;
}

/* Splits a list given as one string by a flag or a variable: "1,2" or "[1, 2]"; an empty string is the empty list. */
static shoal_status split_list(shoal_value *v, const char *text)
{
  size_t n = strlen(text);
  if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
    text++;
    n -= 2;
  }
  const char *end = text + n;
  bool empty = strspn(text, " \t") >= n;
  while (!empty) {
    const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;
    const char *from = text, *to = stop;
    while (from < to && isspace((unsigned char)*from)) from++;
    while (to > from && isspace((unsigned char)to[-1])) to--;
    SHOAL_TRY(shoal_texts_add_n(&v->texts, from, (size_t)(to - from)));
    if (!comma) break;
    text = comma + 1;
  }
  return SHOAL_OK;
}

typedef struct {
  const char *origin;
  int line, column;
} place;

/* The type of one item of a list. */
static shoal_option_type item_type(const shoal_option *o)
{
  if (o->type == SHOAL_OPT_INTS) return SHOAL_OPT_INT;
  if (o->type == SHOAL_OPT_FLOATS) return SHOAL_OPT_FLOAT;
  if (o->type == SHOAL_OPT_PATHS) return SHOAL_OPT_PATH;
  return o->range ? SHOAL_OPT_ENUM : SHOAL_OPT_STRING;
}

/* Ways to write that something is not wanted; each option has one of its own. */
static bool is_off(const char *text)
{
  static const char *const words[] = { "",      "0",    "-1",    "off",     "no",      "none",
                                       "false", "null", "never", "disable", "disabled" };
  for (size_t i = 0; i < SHOAL_COUNT(words); i++)
    if (strcasecmp(text, words[i]) == 0) return true;
  return false;
}

/* Appends how to switch the option off, or that it cannot be, if that may be what `text` means. */
static bool add_off(shoal_str *s, const shoal_option *o, const char *text)
{
  if (!is_off(text)) return false;
  if (o->type == SHOAL_OPT_PERIOD)
    shoal_str_add(s, o->range ? "; to switch it off write never"
                              : "; it cannot be switched off: for hardly ever write 1000h");
  else if (o->type == SHOAL_OPT_ENUM && is_one_of(o->range, "off"))
    shoal_str_add(s, "; did you mean off?");
  else if (o->type == SHOAL_OPT_WORDS && *text)
    shoal_str_add(s, "; for none write []");
  else
    return false;
  return true;
}

/* Appends why a number that is within the range is not taken. */
static void add_why(shoal_str *s, const shoal_option *o, const char *text)
{
  double value;
  bool whole = o->type == SHOAL_OPT_INT || o->type == SHOAL_OPT_INTS;
  if (!whole && o->type != SHOAL_OPT_FLOAT && o->type != SHOAL_OPT_FLOATS) return;
  if (shoal_parse_f64(text, &value) != SHOAL_OK || !in_range(o, value)) return;
  if (whole && value >= 0x1p63) shoal_str_add(s, ", and the largest integer is %" PRId64, INT64_MAX);
  if (whole) return;
  const double f = (float)value;
  shoal_str_add(s, ", which is %g as a 32-bit float (%s)", f,
                f == 0 || isinf(f) ? "these hold 1.4e-45 to 3.4e38" : "these hold 7 digits");
}

/* The integer that "1e3" and "64.0" stand for, or false. */
static bool find_integer(const shoal_option *o, const char *text, int64_t *out)
{
  double value;
  if ((o->type != SHOAL_OPT_INT && o->type != SHOAL_OPT_INTS) || shoal_parse_f64(text, &value) != SHOAL_OK)
    return false;
  if (!(fabs(value) < 1e15) || value != floor(value) || !in_range(o, value)) return false;
  *out = (int64_t)value;
  return true;
}

/* Fails with "run.yaml:7:9: optim.lr is "abc": must be a number in (0,inf), for example 0.1". */
static shoal_status value_fault(const shoal_value *v, const char *text, size_t item, const place *at)
{
  const shoal_option *o = v->option;
  shoal_str s = { 0 };
  shoal_option_add_place(&s, at->origin, at->line, at->column);
  shoal_str_add(&s, "%s ", o->name);
  if (item) shoal_str_add(&s, "item %zu ", item);
  shoal_str_add(&s, "is \"%s\"", text);
  add_why(&s, o, text);
  shoal_str_add(&s, ": must be ");
  shoal_option expected = *o;
  if (item) expected.type = item_type(o);
  shoal_option_describe(&expected, &s);
  char storage[32][64];
  const char *choices[32];
  size_t n = 0;
  for (; n < SHOAL_COUNT(choices) && shoal_option_choice(o, n, storage[n], sizeof storage[n]); n++)
    choices[n] = storage[n];
  const char *near = shoal_nearest(text, choices, n);
  bool is_path = expected.type == SHOAL_OPT_PATH || expected.type == SHOAL_OPT_PATHS;
  int64_t integer;
  if (near)
    shoal_str_add(&s, "; did you mean %s?", near);
  else if (find_integer(o, text, &integer))
    shoal_str_add(&s, "; write %" PRId64, integer);
  else if (is_path && !*text && at->line)
    shoal_str_add(&s, "; a lone ~ means nothing in YAML: write ~/ for the home folder");
  else if (!add_off(&s, o, text) && n == 0 && !item && o->default_text && *o->default_text)
    shoal_str_add(&s, ", for example %s", o->default_text);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s", s.text);
  shoal_str_free(&s);
  return st;
}

/* A path that is not a list may hold commas. */
static bool in_brackets(const char *text)
{
  size_t n = strlen(text);
  return n >= 2 && text[0] == '[' && text[n - 1] == ']';
}

/* Fills v->texts from the raw setting. */
static shoal_status collect_texts(shoal_value *v, char *const *items, size_t n, bool is_list, const place *at)
{
  const shoal_option *o = v->option;
  if (shoal_option_is_list(o)) {
    if (!is_list && !(o->type == SHOAL_OPT_PATHS && !in_brackets(items[0]))) return split_list(v, items[0]);
  } else if (is_list) {
    shoal_str s = { 0 };
    shoal_str_add(&s, "[");
    for (size_t i = 0; i < n; i++) shoal_str_add(&s, "%s%s", i ? ", " : "", items[i]);
    shoal_str_add(&s, "]");
    shoal_status st = value_fault(v, s.text, 0, at);
    shoal_str_free(&s);
    return st;
  }
  for (size_t i = 0; i < n; i++) SHOAL_TRY(shoal_texts_add(&v->texts, items[i]));
  return SHOAL_OK;
}

static shoal_status expand_path(shoal_value *v, size_t i, const place *at)
{
  char *path;
  shoal_status st = shoal_path_expand(v->texts.at[i], &path);
  if (st != SHOAL_OK) {
    shoal_str s = { 0 };
    shoal_option_add_place(&s, at->origin, at->line, at->column);
    st = shoal_error_prefix(st, "%s%s is \"%s\": ", s.text, v->option->name, v->texts.at[i]);
    shoal_str_free(&s);
    return st;
  }
  free(v->texts.at[i]);
  v->texts.at[i] = path;
  return SHOAL_OK;
}

static shoal_status value_parse(shoal_value *v, char *const *items, size_t n, bool is_list, const place *at)
{
  const shoal_option *o = v->option;
  bool is_path = o->type == SHOAL_OPT_PATH || o->type == SHOAL_OPT_PATHS;
  bool may_be_empty = (shoal_option_is_list(o) && !is_path) || (o->default_text && !*o->default_text);
  if (!is_list && !*items[0] && may_be_empty) {
    v->unset = true;
    return SHOAL_OK;
  }
  SHOAL_TRY(collect_texts(v, items, n, is_list, at));
  v->ints = calloc(v->texts.n + 1, sizeof *v->ints);
  v->floats = calloc(v->texts.n + 1, sizeof *v->floats);
  SHOAL_CHECK(v->ints && v->floats, SHOAL_ERR_MEM, "out of memory for the setting %s", o->name);
  bool empty_string = v->texts.n == 0 ? o->type == SHOAL_OPT_PATHS
                                      : (o->type == SHOAL_OPT_STRING || o->type == SHOAL_OPT_PATH) && !*v->texts.at[0];
  shoal_error faults = { .code = SHOAL_OK };
  if (empty_string) shoal_error_join(&faults, value_fault(v, "", 0, at));
  for (size_t i = 0; i < v->texts.n; i++)
    if (!parse_item(v, i))
      shoal_error_join(&faults, value_fault(v, v->texts.at[i], shoal_option_is_list(o) ? i + 1 : 0, at));
    else if (is_path)
      shoal_error_join(&faults, expand_path(v, i, at));
  return faults.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&faults);
}

/* --- from settings to values ----------------------------------------------------------------------------------- */

static shoal_status missing_fault(const shoal_option *o)
{
  shoal_str s = { 0 };
  shoal_option_describe(o, &s);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_USAGE, "%s is missing: give it in the run file or by --set %s=...; it is %s (%s)", o->name,
                 o->name, s.text, o->help);
  shoal_str_free(&s);
  return st;
}

static shoal_status value_take_default(shoal_value *v)
{
  char *text = shoal_strdup_printf("%s", v->option->default_text);
  place at = { "default", 0, 0 };
  v->origin = shoal_strdup_printf("default");
  shoal_status st = value_parse(v, &text, 1, false, &at);
  if (st == SHOAL_ERR_USAGE) bug("option %s has a wrong default", v->option->name);
  free(text);
  return st;
}

static shoal_status is_default(const shoal_value *v, bool *same)
{
  *same = false;
  if (!v->option->default_text) return SHOAL_OK;
  shoal_value standard = { .option = v->option };
  shoal_status st = value_take_default(&standard);
  if (st == SHOAL_OK) {
    shoal_str a = { 0 }, b = { 0 };
    shoal_option_add_value(&a, v);
    shoal_option_add_value(&b, &standard);
    *same = strcmp(a.text, b.text) == 0;
    shoal_str_free(&a);
    shoal_str_free(&b);
  }
  value_clear(&standard);
  return st;
}

static shoal_status value_resolve(shoal_value *v, const shoal_settings *s, bool environment)
{
  const shoal_option *o = v->option;
  char *variable = shoal_option_variable(o->name), *text = environment ? getenv(variable) : NULL;
  const shoal_setting *e = shoal_settings_winner(s, o->name, true);
  shoal_status st = SHOAL_OK;
  if (!e && !text) e = shoal_settings_winner(s, o->name, false);
  if (e) {
    place at = { e->origin, e->line, e->column };
    v->origin =
        e->key_line ? shoal_strdup_printf("%s:%d", e->origin, e->key_line) : shoal_strdup_printf("%s", e->origin);
    st = value_parse(v, e->items.at, e->items.n, e->is_list, &at);
  } else if (text) {
    place at = { variable, 0, 0 };
    v->origin = shoal_strdup_printf("%s", variable);
    st = value_parse(v, &text, 1, false, &at);
  } else if (o->default_text) {
    st = value_take_default(v);
  } else {
    st = missing_fault(o);
  }
  v->given = (e || text) && !(v->unset && !shoal_option_is_list(o));
  /* A resolved run file has every option; it can be used again. */
  bool same = false;
  if (st == SHOAL_OK && v->given && e && !e->is_flag) st = is_default(v, &same);
  v->given &= !same;
  free(variable);
  return st;
}

const shoal_value *shoal_config_find(const shoal_config *c, const char *name)
{
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->values[i].option->name, name) == 0) return &c->values[i];
  return NULL;
}

/* --- values without effect ---------------------------------------------------------------------------------------- */

/* Rejects a value without effect, because the user probably forgot the other setting.  Defaults are accepted, since the
 * resolved run file contains all of them. */
static shoal_status check_has_effect(const shoal_config *c, const shoal_value *v)
{
  const shoal_option *o = v->option;
  bool standard;
  if (!o->when || !v->given) return SHOAL_OK;
  SHOAL_TRY(is_default(v, &standard));
  if (standard) return SHOAL_OK;
  char name[64];
  const char *words = shoal_option_when(o, name, sizeof name);
  const shoal_value *other = shoal_config_find(c, name);
  if (!other) bug("option %s depends on %s, which is in no table", o->name, name);
  const char *word = other->unset ? "" : other->texts.at[0];
  if (is_one_of(words, word)) return SHOAL_OK;
  shoal_str s = { 0 };
  shoal_option_add_words(&s, words);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s: %s does nothing with %s %s: leave it out, or set %s to %s",
                               v->origin, o->name, name, word, name, s.text);
  shoal_str_free(&s);
  return st;
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static shoal_status config_alloc(shoal_config *c)
{
  for (size_t t = 0; t < c->n_tables; t++)
    for (const shoal_option *o = c->tables[t].options; o->name; o++) c->n++;
  c->values = calloc(c->n + 1, sizeof *c->values);
  SHOAL_CHECK(c->values, SHOAL_ERR_MEM, "out of memory for %zu options", c->n);
  size_t i = 0;
  for (size_t t = 0; t < c->n_tables; t++)
    for (const shoal_option *o = c->tables[t].options; o->name; o++) c->values[i++].option = o;
  for (i = 0; i < c->n; i++)
    if (shoal_config_find(c, c->values[i].option->name) != &c->values[i])
      bug("option %s is in two tables", c->values[i].option->name);
  return SHOAL_OK;
}

shoal_status shoal_config_create(const shoal_settings *s, const shoal_option_table *tables, size_t n,
                                 shoal_config **out)
{
  shoal_status st;
  shoal_error faults = { .code = SHOAL_OK };
  shoal_config *c = calloc(1, sizeof *c);
  SHOAL_CHECK(c, SHOAL_ERR_MEM, "out of memory for a config");
  c->tables = tables;
  while (c->n_tables < n && !tables[c->n_tables].choice) c->n_tables++;
  c->n_others = n - c->n_tables;
  SHOAL_TRY_GOTO(st, config_alloc(c), fail);
  for (size_t i = 0; i < s->n; i++) shoal_error_join(&faults, shoal_config_check_known(c, &s->entries[i]));
  for (size_t i = 0; i < c->n; i++) shoal_error_join(&faults, value_resolve(&c->values[i], s, true));
  shoal_config_warn_of_variables(c);
  if (faults.code != SHOAL_OK) goto faulty;
  for (size_t i = 0; i < c->n; i++) shoal_error_join(&faults, check_has_effect(c, &c->values[i]));
  if (faults.code != SHOAL_OK) goto faulty;
  c->tables = NULL; /* the caller's */
  *out = c;
  return SHOAL_OK;
faulty:
  st = shoal_error_put(&faults);
fail:
  shoal_config_destroy(c);
  return st;
}

shoal_status shoal_config_recall(const char *resolved, const char *origin, const shoal_option_table *tables, size_t n,
                                 shoal_config **out)
{
  shoal_status st;
  shoal_error faults = { .code = SHOAL_OK };
  shoal_settings *s = NULL;
  shoal_config *c = calloc(1, sizeof *c);
  SHOAL_CHECK(c, SHOAL_ERR_MEM, "out of memory for a config");
  c->n_tables = n;
  c->tables = tables;
  SHOAL_TRY_GOTO(st, shoal_settings_create(&s), fail);
  SHOAL_TRY_GOTO(st, shoal_settings_read_text(s, resolved, origin), fail);
  SHOAL_TRY_GOTO(st, config_alloc(c), fail);
  for (size_t i = 0; i < c->n; i++) shoal_error_join(&faults, value_resolve(&c->values[i], s, false));
  SHOAL_TRY_GOTO(st, faults.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&faults), fail);
  c->tables = NULL;
  *out = c;
fail:
  shoal_settings_destroy(s);
  if (st != SHOAL_OK) shoal_config_destroy(c);
  return st;
}

void shoal_config_destroy(shoal_config *c)
{
  if (!c) return;
  for (size_t i = 0; c->values && i < c->n; i++) value_clear(&c->values[i]);
  free(c->values);
  free(c);
}

/* --- access ---------------------------------------------------------------------------------------------------- */

static const shoal_value *config_need(const shoal_config *c, const char *name)
{
  const shoal_value *v = shoal_config_find(c, name);
  if (!v) bug("the option %s is not declared", name);
  return v;
}

static const shoal_value *config_need_type(const shoal_config *c, const char *name, shoal_option_type type)
{
  const shoal_value *v = config_need(c, name);
  if (v->option->type != type) bug("option %s has type %d and was asked for as type %d", name, v->option->type, type);
  return v;
}

bool shoal_config_bool(const shoal_config *c, const char *name)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_BOOL);
  return !v->unset && v->ints[0];
}

int64_t shoal_config_int(const shoal_config *c, const char *name)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_INT);
  return v->unset ? 0 : v->ints[0];
}

double shoal_config_float(const shoal_config *c, const char *name)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_FLOAT);
  return v->unset ? 0 : v->floats[0];
}

const char *shoal_config_string(const shoal_config *c, const char *name)
{
  const shoal_value *v = config_need(c, name);
  if (v->option->type != SHOAL_OPT_STRING && v->option->type != SHOAL_OPT_PATH)
    v = config_need_type(c, name, SHOAL_OPT_ENUM);
  return v->unset ? "" : v->texts.at[0];
}

shoal_period shoal_config_period(const shoal_config *c, const char *name)
{
  return config_need_type(c, name, SHOAL_OPT_PERIOD)->period;
}

size_t shoal_config_ints(const shoal_config *c, const char *name, const int64_t **out)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_INTS);
  *out = v->ints;
  return v->texts.n;
}

size_t shoal_config_floats(const shoal_config *c, const char *name, const double **out)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_FLOATS);
  *out = v->floats;
  return v->texts.n;
}

size_t shoal_config_paths(const shoal_config *c, const char *name, const char *const **out)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_PATHS);
  *out = (const char *const *)v->texts.at;
  return v->texts.n;
}

size_t shoal_config_words(const shoal_config *c, const char *name, const char *const **out)
{
  const shoal_value *v = config_need_type(c, name, SHOAL_OPT_WORDS);
  *out = (const char *const *)v->texts.at;
  return v->texts.n;
}

bool shoal_config_has(const shoal_config *c, const char *name)
{
  return shoal_config_find(c, name) != NULL;
}

bool shoal_config_given(const shoal_config *c, const char *name)
{
  return config_need(c, name)->given;
}

const char *shoal_config_origin(const shoal_config *c, const char *name)
{
  return config_need(c, name)->origin;
}
