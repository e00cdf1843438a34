/* Raw settings: names and texts, each with its file, line and column, before they are checked against the tables.
 *
 *     optim:                          optim.lr      "0.1"            run.yaml:2:7
 *       lr: 0.1            ->         data.augment  [crop4, hflip]   run.yaml:3:18
 *     data: { augment: [crop4, hflip] }
 *
 * Lists are flat.  Duplicate keys are rejected: YAML forbids them, but many parsers silently take the last one. */
#include "base/file.h"
#include "config/option_impl.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_settings_create(shoal_settings **out)
{
  shoal_settings *s = calloc(1, sizeof *s);
  SHOAL_CHECK(s, SHOAL_ERR_MEM, "out of memory for settings");
  *out = s;
  return SHOAL_OK;
}

static void setting_clear(shoal_setting *e)
{
  shoal_texts_free(&e->items);
  free(e->origin);
  free(e->name);
  *e = (shoal_setting){ 0 };
}

void shoal_settings_destroy(shoal_settings *s)
{
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) setting_clear(&s->entries[i]);
  free(s->entries);
  free(s);
}

static shoal_setting *settings_find(const shoal_settings *s, const char *name, bool is_flag)
{
  for (size_t i = 0; i < s->n; i++)
    if (s->entries[i].is_flag == is_flag && strcmp(s->entries[i].name, name) == 0) return &s->entries[i];
  return NULL;
}

/* Takes ownership of the contents of `e`, also on failure.  Replaces an earlier setting of the same precedence. */
static shoal_status settings_put(shoal_settings *s, shoal_setting *e)
{
  shoal_setting *old = settings_find(s, e->name, e->is_flag);
  if (!old && s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 32;
    shoal_setting *more = realloc(s->entries, cap * sizeof *more);
    if (!more) {
      setting_clear(e);
      return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu settings", cap);
    }
    s->entries = more;
    s->cap = cap;
  }
  if (old)
    setting_clear(old);
  else
    old = &s->entries[s->n++];
  e->order = ++s->orders;
  *old = *e;
  *e = (shoal_setting){ 0 };
  return SHOAL_OK;
}

/* --- YAML ------------------------------------------------------------------------------------------------------ */

typedef struct {
  shoal_settings *settings;
  shoal_yaml yaml;
  shoal_texts sections; /* dotted names of the maps read so far */
  size_t keys, depth;
} reader;

static shoal_status read_item(reader *r, shoal_setting *e)
{
  const shoal_yaml *y = &r->yaml;
  SHOAL_CHECK(y->kind == SHOAL_YAML_SCALAR, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "%s holds a %s inside a list; lists are flat", SHOAL_YAML_PLACE(y), e->name,
              y->kind == SHOAL_YAML_LIST ? "list" : "map");
  return shoal_texts_add_n(&e->items, y->text, y->n);
}

static shoal_status read_leaf(reader *r, shoal_setting *e)
{
  e->is_list = r->yaml.kind == SHOAL_YAML_LIST;
  if (!e->is_list) return read_item(r, e);
  for (;;) {
    SHOAL_TRY(shoal_yaml_next(&r->yaml, e->name));
    if (r->yaml.kind == SHOAL_YAML_LIST_END) return SHOAL_OK;
    SHOAL_TRY(read_item(r, e));
  }
}

/* Names get long and are compared with each other: a file that has nothing to do with settings ends here. */
static shoal_status refuse_excess(reader *r, const char *name, int line, int column)
{
  enum { MOST_KEYS = 2000, MOST_DEPTH = 16 };
  SHOAL_CHECK(++r->keys <= MOST_KEYS, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "more than %d keys; a run file has about a hundred at most", r->yaml.origin, line, column,
              MOST_KEYS);
  SHOAL_CHECK(r->depth <= MOST_DEPTH, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "%s: more than %d sections inside each other; a run file has 2", r->yaml.origin, line,
              column, name, MOST_DEPTH);
  return SHOAL_OK;
}

/* A name may occur once per source, whether as a value, as a section, or in dotted form ("optim.lr: 0.1"). */
static shoal_status refuse_duplicate(reader *r, const char *name, bool is_section, int line, int column)
{
  const shoal_setting *old = settings_find(r->settings, name, false);
  bool twice = (old && old->reading == r->settings->readings) || shoal_texts_have(&r->sections, name);
  SHOAL_CHECK(!twice, SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is given twice; keep one of the two", r->yaml.origin, line,
              column, name);
  return is_section ? shoal_texts_add(&r->sections, name) : SHOAL_OK;
}

static shoal_status read_map(reader *r, const char *prefix);

/* Reads the value of `name`, whose key is at line:column; the current item is its first. */
static shoal_status read_value(reader *r, const char *name, int line, int column)
{
  shoal_setting e = { .key_line = line, .key_column = column, .line = r->yaml.line, .column = r->yaml.column };
  bool is_section = r->yaml.kind == SHOAL_YAML_MAP;
  SHOAL_TRY(refuse_excess(r, name, line, column));
  SHOAL_TRY(refuse_duplicate(r, name, is_section, line, column));
  if (is_section) return read_map(r, name);
  e.reading = r->settings->readings;
  e.name = shoal_strdup_printf("%s", name);
  e.origin = shoal_strdup_printf("%s", r->yaml.origin);
  shoal_status st = read_leaf(r, &e);
  if (st == SHOAL_OK)
    st = settings_put(r->settings, &e);
  else
    setting_clear(&e);
  return st;
}

/* Reads a map.  The current item is its start on entry and its end on return. */
static shoal_status read_map(reader *r, const char *prefix)
{
  shoal_yaml *y = &r->yaml;
  for (r->depth++;;) {
    SHOAL_TRY(shoal_yaml_next(y, "a key"));
    if (y->kind == SHOAL_YAML_MAP_END) {
      r->depth--;
      return SHOAL_OK;
    }
    SHOAL_CHECK(y->kind == SHOAL_YAML_SCALAR && y->n > 0, SHOAL_ERR_USAGE, SHOAL_YAML_AT "a key must be a plain word",
                SHOAL_YAML_PLACE(y));
    int line = y->line, column = y->column;
    char *name = shoal_strdup_printf("%s%s%.*s", prefix, prefix[0] ? "." : "", (int)y->n, y->text);
    shoal_status st = shoal_yaml_next(y, name);
    if (st == SHOAL_OK) st = read_value(r, name, line, column);
    free(name);
    SHOAL_TRY(st);
  }
}

/* A document that contains only comments between its markers is accepted. */
static shoal_status read_document(reader *r)
{
  shoal_yaml *y = &r->yaml;
  do {
    SHOAL_TRY(shoal_yaml_next(y, "the file"));
    if (y->kind == SHOAL_YAML_MAP)
      SHOAL_TRY(read_map(r, ""));
    else
      SHOAL_CHECK(y->kind == SHOAL_YAML_END || (y->kind == SHOAL_YAML_SCALAR && y->absent), SHOAL_ERR_USAGE,
                  SHOAL_YAML_AT "expected sections such as \"optim: { lr: 0.1 }\"; is this a run file?",
                  SHOAL_YAML_PLACE(y));
  } while (y->kind != SHOAL_YAML_END);
  return SHOAL_OK;
}

static shoal_status read_text(shoal_settings *s, const char *text, size_t n, const char *origin)
{
  reader r = { .settings = s };
  shoal_status st = shoal_yaml_open(text, n, origin, &r.yaml);
  s->readings++;
  if (st == SHOAL_OK) st = read_document(&r);
  shoal_yaml_close(&r.yaml);
  shoal_texts_free(&r.sections);
  return st;
}

shoal_status shoal_settings_read_text(shoal_settings *s, const char *text, const char *origin)
{
  return read_text(s, text, strlen(text), origin);
}

shoal_status shoal_settings_read(shoal_settings *s, const char *path)
{
  char *text;
  size_t n;
  char *inside = shoal_path_join(path, "run.yaml");
  const bool is_run = shoal_path_exists(inside);
  free(inside);
  SHOAL_CHECK(!is_run, SHOAL_ERR_USAGE, "%s is the folder of a run: its run file is %s/run.yaml", path, path);
  SHOAL_TRY(shoal_read_file(path, &text, &n));
  const bool hdf5 = n > 4 && memcmp(text, "\x89HDF", 4) == 0;
  shoal_status st =
      hdf5 ? SHOAL_FAIL(SHOAL_ERR_USAGE,
                        "%s is an HDF5 file, as data sets and checkpoints are: a run file is wanted, which "
                        "names its data set as data.file",
                        path)
           : read_text(s, text, n, path);
  free(text);
  return st;
}

/* --- flags and look-up ----------------------------------------------------------------------------------------- */

shoal_status shoal_settings_set(shoal_settings *s, const char *assignment, const char *origin)
{
  const char *equals = strchr(assignment, '=');
  SHOAL_CHECK(equals, SHOAL_ERR_USAGE, "%s: \"%s\" has no '='; write it as optim.lr=0.1", origin, assignment);
  const char *start = assignment, *end = equals, *value = equals + 1;
  while (isspace((unsigned char)*start)) start++;
  while (end > start && isspace((unsigned char)end[-1])) end--;
  SHOAL_CHECK(end > start, SHOAL_ERR_USAGE, "%s: \"%s\" names no setting; write it as optim.lr=0.1", origin,
              assignment);
  while (isspace((unsigned char)*value)) value++;
  size_t n = strlen(value);
  while (n > 0 && isspace((unsigned char)value[n - 1])) n--;
  SHOAL_CHECK(!shoal_text_fault(assignment, strlen(assignment)), SHOAL_ERR_USAGE,
              "%s: \"%s\" contains a control character or is not UTF-8", origin, assignment);
  shoal_setting e = { .is_flag = true };
  e.name = shoal_strdup_printf("%.*s", (int)(end - start), start);
  e.origin = shoal_strdup_printf("%s", origin);
  shoal_status st = shoal_texts_add_n(&e.items, value, n);
  if (st == SHOAL_OK)
    st = settings_put(s, &e);
  else
    setting_clear(&e);
  return st;
}

const shoal_setting *shoal_settings_winner(const shoal_settings *s, const char *name, bool is_flag)
{
  const shoal_setting *full = settings_find(s, name, is_flag), *brief = NULL;
  size_t n = strlen(name), tail = strlen(".name");
  if (n > tail && strcmp(name + n - tail, ".name") == 0) {
    char *section = shoal_strdup_printf("%.*s", (int)(n - tail), name);
    brief = settings_find(s, section, is_flag);
    free(section);
  }
  if (!full || !brief) return full ? full : brief;
  return full->order > brief->order ? full : brief;
}

void shoal_settings_forget(shoal_settings *s, const char *prefix)
{
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (!s->entries[i].is_flag && strncmp(s->entries[i].name, prefix, strlen(prefix)) == 0)
      setting_clear(&s->entries[i]);
    else
      s->entries[kept++] = s->entries[i];
  }
  s->n = kept;
}

/* Follows the same precedence as shoal_config_create, because the result selects the tables. */
const char *shoal_settings_get(const shoal_settings *s, const char *name)
{
  const shoal_setting *e = shoal_settings_winner(s, name, true);
  if (!e) {
    char *variable = shoal_option_variable(name);
    const char *value = getenv(variable);
    free(variable);
    if (value) return value;
    e = shoal_settings_winner(s, name, false);
  }
  return e && !e->is_list ? e->items.at[0] : NULL;
}

char *shoal_option_variable(const char *name)
{
  char *variable = shoal_strdup_printf("SHOAL_%s", name);
  for (char *c = variable; *c; c++) *c = *c == '.' || *c == '-' ? '_' : (char)toupper((unsigned char)*c);
  return variable;
}
