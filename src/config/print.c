/* Printing options: the resolved run file, its hash, and the tables as help text and JSON.
 *
 * The resolved file contains every option, defaults included, so that it keeps its meaning when a default changes.
 * Each value is printed in one canonical form (0.1 and 1e-1 both as 0.1; 600 as 10min), numbers with as many digits as
 * are needed to read back the same bits.  So reading inverts printing, and the hash is taken over the text: equal
 * configs have equal texts. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "config/option_impl.h"
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

/* --- values ---------------------------------------------------------------------------------------------------- */

/* Prints the shortest decimal that reads back to the same double. */
static void add_number(shoal_str *out, double value)
{
  char text[40];
  double back = 0;
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (shoal_parse_f64(text, &back) == SHOAL_OK && back == value) break;
  }
  shoal_str_add(out, "%s", text);
}

static void add_period(shoal_str *out, shoal_period p)
{
  if (p.unit == SHOAL_PER_NEVER) {
    shoal_str_add(out, "never");
    return;
  }
  static const char *const units[][2] = { { " s", " s" }, { " step", " steps" }, { " epoch", " epochs" } };
  if (p.unit == SHOAL_PER_SECONDS && p.value > 0 && fmod(p.value, 60) == 0) {
    bool hours = fmod(p.value, 3600) == 0;
    add_number(out, p.value / (hours ? 3600 : 60));
    shoal_str_add(out, hours ? "h" : "min");
    return;
  }
  add_number(out, p.value);
  shoal_str_add(out, "%s", units[p.unit][p.value != 1]);
}

/* Unquoted if every YAML parser reads it as a string, else in double quotes with JSON escapes. */
static void add_yaml_text(shoal_str *out, const char *text)
{
  static const char *const other_meaning[] = { "null", "true", "false", "yes", "no", "on", "off", "y", "n" };
  int64_t integer;
  double number;
  bool plain = isalpha((unsigned char)text[0]) || text[0] == '/' || text[0] == '_';
  for (const char *c = text; *c; c++) plain = plain && (isalnum((unsigned char)*c) || strchr("_./-+", *c));
  for (size_t i = 0; i < SHOAL_COUNT(other_meaning); i++) plain = plain && strcasecmp(text, other_meaning[i]) != 0;
  plain = plain && shoal_parse_i64(text, &integer) != SHOAL_OK && shoal_parse_f64(text, &number) != SHOAL_OK;
  if (plain)
    shoal_str_add(out, "%s", text);
  else
    shoal_str_add_quoted(out, text);
}

/* Reading it back must not expand anything again. */
static void add_path(shoal_str *out, const char *path)
{
  shoal_str s = { 0 };
  for (const char *c = path; *c; c++) shoal_str_add(&s, *c == '$' ? "$$" : "%c", *c);
  add_yaml_text(out, s.text ? s.text : "");
  shoal_str_free(&s);
}

static void add_item(shoal_str *out, const shoal_value *v, size_t i)
{
  switch (v->option->type) {
  case SHOAL_OPT_BOOL:
    shoal_str_add(out, v->ints[i] ? "true" : "false");
    break;
  case SHOAL_OPT_INT:
  case SHOAL_OPT_INTS:
    shoal_str_add(out, "%lld", (long long)v->ints[i]);
    break;
  case SHOAL_OPT_FLOAT:
  case SHOAL_OPT_FLOATS:
    add_number(out, v->floats[i]);
    break;
  case SHOAL_OPT_PERIOD:
    add_period(out, v->period);
    break;
  case SHOAL_OPT_PATH:
  case SHOAL_OPT_PATHS:
    add_path(out, v->texts.at[i]);
    break;
  case SHOAL_OPT_STRING:
  case SHOAL_OPT_ENUM:
  case SHOAL_OPT_WORDS:
    add_yaml_text(out, v->texts.at[i]);
    break;
  }
}

void shoal_option_add_value(shoal_str *out, const shoal_value *v)
{
  bool list = shoal_option_is_list(v->option) && !(v->option->type == SHOAL_OPT_PATHS && v->texts.n == 1);
  if (list) shoal_str_add(out, "[");
  if (v->unset && !list)
    shoal_str_add(out, v->option->type == SHOAL_OPT_STRING || v->option->type == SHOAL_OPT_PATH ? "\"\"" : "null");
  for (size_t i = 0; i < v->texts.n; i++) {
    if (i) shoal_str_add(out, ", ");
    add_item(out, v, i);
  }
  if (list) shoal_str_add(out, "]");
}

/* --- the resolved run file and its hash ------------------------------------------------------------------------ */

static bool in_section(const char *name, const char *section, size_t n)
{
  return strncmp(name, section, n) == 0 && name[n] == '.';
}

static void print_section(const shoal_config *c, size_t first, shoal_str *out)
{
  const char *section = c->values[first].option->name;
  size_t n = strcspn(section, ".");
  for (size_t i = 0; i < first; i++)
    if (in_section(c->values[i].option->name, section, n)) return; /* already printed for an earlier table */
  shoal_str_add(out, "%.*s:\n", (int)n, section);
  for (size_t i = first; i < c->n; i++) {
    const char *name = c->values[i].option->name;
    if (!in_section(name, section, n)) continue;
    shoal_str_add(out, "  %s: ", name + n + 1);
    shoal_option_add_value(out, &c->values[i]);
    shoal_str_add(out, "\n");
  }
}

void shoal_config_print(const shoal_config *c, shoal_str *out)
{
  for (size_t i = 0; i < c->n; i++) {
    const shoal_value *v = &c->values[i];
    if (strchr(v->option->name, '.')) {
      print_section(c, i, out);
      continue;
    }
    shoal_str_add(out, "%s: ", v->option->name);
    shoal_option_add_value(out, v);
    shoal_str_add(out, "\n");
  }
}

/* The option whose name comes next after `last` in the alphabet, or NULL. */
static const shoal_value *next_by_name(const shoal_config *c, const char *last)
{
  const shoal_value *next = NULL;
  for (size_t i = 0; i < c->n; i++) {
    const char *name = c->values[i].option->name;
    if (strcmp(name, last) > 0 && (!next || strcmp(name, next->option->name) < 0)) next = &c->values[i];
  }
  return next;
}

/* Sorted by name, so that the hash does not depend on the order of the tables, which a later version may change. */
uint32_t shoal_config_hash(const shoal_config *c, const char *const *except)
{
  shoal_str text = { 0 };
  for (const shoal_value *v = next_by_name(c, ""); v; v = next_by_name(c, v->option->name)) {
    const char *name = v->option->name;
    bool left_out = false;
    for (const char *const *e = except; e && *e; e++) left_out |= strncmp(name, *e, strlen(*e)) == 0;
    if (left_out) continue;
    shoal_str_add(&text, "%s=", name);
    shoal_option_add_value(&text, v);
    shoal_str_add(&text, "\n");
  }
  uint32_t crc = shoal_crc32c(0, text.text, text.len);
  shoal_str_free(&text);
  return crc;
}

/* --- the tables ------------------------------------------------------------------------------------------------ */

static const char *const type_words[][2] = {
  /* in messages, in JSON */
  [SHOAL_OPT_BOOL] = { "true or false", "bool" },
  [SHOAL_OPT_INT] = { "an integer", "int" },
  [SHOAL_OPT_FLOAT] = { "a number", "float" },
  [SHOAL_OPT_STRING] = { "a text", "string" },
  [SHOAL_OPT_ENUM] = { "one of", "enum" },
  [SHOAL_OPT_PERIOD] = { "a period such as 10min, 200 steps or 1 epoch (up to 1e9 s; steps and epochs whole, up to "
                         "1e15)",
                         "period" },
  [SHOAL_OPT_INTS] = { "a list of integers", "ints" },
  [SHOAL_OPT_FLOATS] = { "a list of numbers", "floats" },
  [SHOAL_OPT_PATH] = { "a path", "path" },
  [SHOAL_OPT_PATHS] = { "a path or a list of paths", "paths" },
  [SHOAL_OPT_WORDS] = { "a list of words", "words" },
};

static bool has_choices(const shoal_option *o)
{
  return o->range && (o->type == SHOAL_OPT_ENUM || o->type == SHOAL_OPT_WORDS);
}

void shoal_option_describe(const shoal_option *o, shoal_str *out)
{
  shoal_str_add(out, "%s", type_words[o->type][0]);
  if (has_choices(o)) {
    char choice[64];
    if (o->type == SHOAL_OPT_WORDS) shoal_str_add(out, " out of");
    for (size_t i = 0; shoal_option_choice(o, i, choice, sizeof choice); i++)
      shoal_str_add(out, "%s%s", i ? ", " : " ", choice);
  } else if (o->range) {
    shoal_str_add(out, o->type == SHOAL_OPT_PERIOD ? " or %s" : " in %s", o->range);
  }
}

const char *shoal_option_when(const shoal_option *o, char *name, size_t cap)
{
  const char *sign = strchr(o->when, '=');
  snprintf(name, cap, "%.*s", (int)(sign - o->when), o->when);
  return sign + 1;
}

void shoal_option_add_words(shoal_str *out, const char *words)
{
  for (const char *c = words; *c; c++) shoal_str_add(out, *c == '|' ? " or " : "%c", *c);
}

/* "; only with method.name ist or swarm" */
static void add_when(shoal_str *out, const shoal_option *o)
{
  if (!o->when) return;
  char name[64];
  const char *words = shoal_option_when(o, name, sizeof name);
  shoal_str_add(out, "; only with %s ", name);
  shoal_option_add_words(out, words);
}

void shoal_option_add_facts(const shoal_option *o, shoal_str *out)
{
  shoal_option_describe(o, out);
  if (o->unit) shoal_str_add(out, ", in %s", o->unit);
  if (!o->default_text)
    shoal_str_add(out, "; must be given");
  else if (!*o->default_text)
    shoal_str_add(out, "; unset by default");
  else
    shoal_str_add(out, "; default %s", o->default_text);
  add_when(out, o);
}

void shoal_option_print(const shoal_option_table *table, shoal_str *out)
{
  shoal_str_add(out, "%s\n", table->title);
  for (const shoal_option *o = table->options; o->name; o++) {
    shoal_str line = { 0 };
    shoal_option_add_facts(o, &line);
    shoal_str_add(out, "  %-24s ", o->name);
    shoal_str_add_wrapped(out, line.text, 27, 100);
    shoal_str_clear(&line);
    shoal_str_add(&line, "%s", o->help);
    if (o->source) shoal_str_add(&line, " [%s]", o->source);
    shoal_str_add(out, "%27s", "");
    shoal_str_add_wrapped(out, line.text, 27, 100);
    shoal_str_free(&line);
  }
}

void shoal_option_put_json(const shoal_option_table *table, shoal_json *j, const char *key)
{
  shoal_json_array(j, key);
  for (const shoal_option *o = table->options; o && o->name; o++) {
    char choice[64];
    shoal_json_object(j, NULL);
    shoal_json_string(j, "name", o->name);
    shoal_json_string(j, "type", type_words[o->type][1]);
    shoal_json_string(j, "default", o->default_text);
    shoal_json_string(j, "unit", o->unit);
    shoal_json_string(j, "range", has_choices(o) ? NULL : o->range);
    shoal_json_array(j, "choices");
    for (size_t i = 0; has_choices(o) && shoal_option_choice(o, i, choice, sizeof choice); i++)
      shoal_json_string(j, NULL, choice);
    shoal_json_end(j);
    shoal_json_string(j, "help", o->help);
    shoal_json_string(j, "source", o->source);
    shoal_json_string(j, "when", o->when);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}
