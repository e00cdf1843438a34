/* Raw settings: names and texts, each with its file, line and column, before they are checked against the tables.
 *
 *     optim:                          optim.lr      "0.1"            run.yaml:2:7
 *       lr: 0.1            ->         data.augment  [crop4, hflip]   run.yaml:3:18
 *     data: { augment: [crop4, hflip] }
 *
 * The subset of YAML that a settings file needs is accepted: maps, scalars, flat lists.  Anchors, aliases, tags,
 * multiple documents and nested lists are rejected, because with each of them a file can mean something other than it
 * seems to. Duplicate keys are rejected, too: YAML forbids them, but many parsers silently take the last one. */
#include "base/file.h"
#include "config/option_impl.h"
#include <ctype.h>
#include <libfyaml.h>
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
  const char *origin, *text;
  struct fy_diag *diag;
  struct fy_parser *parser;
  struct fy_event *event; /* current event */
  shoal_texts sections;   /* dotted names of the maps read so far */
  size_t keys, depth;
} reader;

#define AT "%s:%d:%d: "

static bool has_tab_indent(const char *text, int up_to_line)
{
  for (int line = 1; line <= up_to_line && *text; line++) {
    size_t blank = strspn(text, " \t");
    if (memchr(text, '\t', blank)) return true;
    text += strcspn(text, "\n");
    text += *text == '\n';
  }
  return false;
}

static shoal_status syntax_fault(reader *r)
{
  void *position = NULL;
  const struct fy_diag_error *e = fy_diag_errors_iterate(r->diag, &position);
  SHOAL_CHECK(e, SHOAL_ERR_USAGE, "%s: not valid YAML", r->origin);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, AT "not valid YAML: %s%s", r->origin, e->line, e->column, e->msg,
                    has_tab_indent(r->text, e->line + 1) ? "; indent with spaces, not tabs" : "");
}

/* Advances to the next event.  The end of the stream is an event as well, so NULL always means a parse error. */
static shoal_status advance(reader *r)
{
  if (r->event) fy_parser_event_free(r->parser, r->event);
  r->event = fy_parser_parse(r->parser);
  return r->event ? SHOAL_OK : syntax_fault(r);
}

/* Whether the value is missing, as in "batch:".  libfyaml 0.7 then returns no token, 0.8 an empty one. */
static bool is_absent(const struct fy_event *event)
{
  struct fy_token *token = event->scalar.value;
  if (!token || fy_token_scalar_style(token) != FYSS_PLAIN) return !token;
  size_t n = 0;
  return !fy_token_get_text(token, &n) || n == 0;
}

/* Line and column of an event for messages.  The library's mark points behind an opening quote or star; users count
 * from the quote.  For a missing value line and column are left unchanged: those of its key. */
static void event_place(const struct fy_event *event, int *line, int *column)
{
  const struct fy_mark *mark = fy_event_start_mark((struct fy_event *)event);
  if (!mark || (event->type == FYET_SCALAR && is_absent(event))) return;
  bool behind = event->type == FYET_ALIAS;
  if (event->type == FYET_SCALAR) {
    enum fy_scalar_style style = fy_token_scalar_style(event->scalar.value);
    behind = style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
  }
  *line = mark->line + 1;
  *column = mark->column + 1 - behind;
}

/* Rejects YAML features that make a file mean something other than it shows. */
static shoal_status refuse_anchors_and_tags(const reader *r, const char *name, int line, int column)
{
  const struct fy_event *e = r->event;
  const struct fy_token *anchor = NULL, *tag = NULL;
  if (e->type == FYET_SCALAR) anchor = e->scalar.anchor, tag = e->scalar.tag;
  if (e->type == FYET_MAPPING_START) anchor = e->mapping_start.anchor, tag = e->mapping_start.tag;
  if (e->type == FYET_SEQUENCE_START) anchor = e->sequence_start.anchor, tag = e->sequence_start.tag;
  SHOAL_CHECK(!anchor && e->type != FYET_ALIAS, SHOAL_ERR_USAGE, AT "%s uses a YAML %s; write the value out instead",
              r->origin, line, column, name, anchor ? "anchor (&)" : "alias (*)");
  SHOAL_CHECK(!tag, SHOAL_ERR_USAGE, AT "%s has a YAML tag (!); write the plain value", r->origin, line, column, name);
  return SHOAL_OK;
}

/* The text of a scalar event.  An unquoted null, "~" or a missing value gives the empty text. */
static const char *scalar_text(struct fy_event *event, size_t *n)
{
  struct fy_token *token = event->scalar.value;
  *n = 0;
  if (!token) return "";
  const char *text = fy_token_get_text(token, n);
  if (!text) return "";
  bool plain = fy_token_scalar_style(token) == FYSS_PLAIN;
  if (plain && ((*n == 1 && text[0] == '~') || (*n == 4 && memcmp(text, "null", 4) == 0))) *n = 0;
  return text;
}

static shoal_status read_item(reader *r, shoal_setting *e)
{
  size_t n;
  int line = e->line, column = e->column;
  event_place(r->event, &line, &column);
  SHOAL_TRY(refuse_anchors_and_tags(r, e->name, line, column));
  SHOAL_CHECK(r->event->type == FYET_SCALAR, SHOAL_ERR_USAGE, AT "%s holds a %s inside a list; lists are flat",
              r->origin, line, column, e->name, r->event->type == FYET_SEQUENCE_START ? "list" : "map");
  const char *text = scalar_text(r->event, &n);
  const char *fault = shoal_text_fault(text, n);
  SHOAL_CHECK(!fault, SHOAL_ERR_USAGE, AT "%s contains a control character; remove it", r->origin, line, column,
              e->name);
  return shoal_texts_add_n(&e->items, text, n);
}

static shoal_status read_leaf(reader *r, shoal_setting *e)
{
  e->is_list = r->event->type == FYET_SEQUENCE_START;
  if (!e->is_list) return read_item(r, e);
  for (;;) {
    SHOAL_TRY(advance(r));
    if (r->event->type == FYET_SEQUENCE_END) return SHOAL_OK;
    SHOAL_TRY(read_item(r, e));
  }
}

/* Names get long and are compared with each other: a file that has nothing to do with settings ends here. */
static shoal_status refuse_excess(reader *r, const char *name, int line, int column)
{
  enum { MOST_KEYS = 2000, MOST_DEPTH = 16 };
  SHOAL_CHECK(++r->keys <= MOST_KEYS, SHOAL_ERR_USAGE, AT "more than %d keys; a run file has about a hundred at most",
              r->origin, line, column, MOST_KEYS);
  SHOAL_CHECK(r->depth <= MOST_DEPTH, SHOAL_ERR_USAGE,
              AT "%s: more than %d sections inside each other; a run file has 2", r->origin, line, column, name,
              MOST_DEPTH);
  return SHOAL_OK;
}

/* A name may occur once per source, whether as a value, as a section, or in dotted form ("optim.lr: 0.1"). */
static shoal_status refuse_duplicate(reader *r, const char *name, bool is_section, int line, int column)
{
  const shoal_setting *old = settings_find(r->settings, name, false);
  bool twice = (old && old->reading == r->settings->readings) || shoal_texts_have(&r->sections, name);
  SHOAL_CHECK(!twice, SHOAL_ERR_USAGE, AT "%s is given twice; keep one of the two", r->origin, line, column, name);
  return is_section ? shoal_texts_add(&r->sections, name) : SHOAL_OK;
}

static shoal_status read_map(reader *r, const char *prefix);

/* Reads the value of `name`, whose key is at line:column; the current event is its first. */
static shoal_status read_value(reader *r, const char *name, int line, int column)
{
  shoal_setting e = { .key_line = line, .key_column = column, .line = line, .column = column };
  event_place(r->event, &e.line, &e.column);
  SHOAL_TRY(refuse_anchors_and_tags(r, name, e.line, e.column));
  bool is_section = r->event->type == FYET_MAPPING_START;
  SHOAL_TRY(refuse_excess(r, name, line, column));
  SHOAL_TRY(refuse_duplicate(r, name, is_section, line, column));
  if (is_section) return read_map(r, name);
  e.reading = r->settings->readings;
  e.name = shoal_strdup_printf("%s", name);
  e.origin = shoal_strdup_printf("%s", r->origin);
  shoal_status st = read_leaf(r, &e);
  if (st == SHOAL_OK)
    st = settings_put(r->settings, &e);
  else
    setting_clear(&e);
  return st;
}

/* Reads a map.  The current event is its start on entry and its end on return. */
static shoal_status read_map(reader *r, const char *prefix)
{
  for (r->depth++;;) {
    SHOAL_TRY(advance(r));
    if (r->event->type == FYET_MAPPING_END) {
      r->depth--;
      return SHOAL_OK;
    }
    int line = 0, column = 0;
    size_t n;
    event_place(r->event, &line, &column);
    SHOAL_CHECK(r->event->type == FYET_SCALAR, SHOAL_ERR_USAGE, AT "a key must be a plain word", r->origin, line,
                column);
    const char *key = scalar_text(r->event, &n);
    SHOAL_TRY(refuse_anchors_and_tags(r, "a key", line, column));
    SHOAL_CHECK(n > 0 && !shoal_text_fault(key, n), SHOAL_ERR_USAGE, AT "a key must be a plain word", r->origin, line,
                column);
    char *name = shoal_strdup_printf("%s%s%.*s", prefix, prefix[0] ? "." : "", (int)n, key);
    shoal_status st = advance(r);
    if (st == SHOAL_OK) st = read_value(r, name, line, column);
    free(name);
    SHOAL_TRY(st);
  }
}

static shoal_status read_stream(reader *r)
{
  bool seen = false;
  do {
    int line = 1, column = 1;
    SHOAL_TRY(advance(r));
    event_place(r->event, &line, &column);
    switch (r->event->type) {
    case FYET_DOCUMENT_START:
      SHOAL_CHECK(!seen, SHOAL_ERR_USAGE, AT "a second YAML document; a run file is one", r->origin, line, column);
      seen = true;
      break;
    case FYET_SCALAR: /* a document that contains only comments between its markers is accepted */
    case FYET_SEQUENCE_START:
    case FYET_ALIAS:
      if (r->event->type == FYET_SCALAR && is_absent(r->event)) break;
      return SHOAL_FAIL(SHOAL_ERR_USAGE, AT "expected sections such as \"optim: { lr: 0.1 }\"", r->origin, line,
                        column);
    case FYET_MAPPING_START:
      SHOAL_TRY(refuse_anchors_and_tags(r, "the file", line, column));
      SHOAL_TRY(read_map(r, ""));
      break;
    default:
      break;
    }
  } while (r->event->type != FYET_STREAM_END);
  return SHOAL_OK;
}

/* libfyaml stops silently at bytes that are not UTF-8, so they are searched for first. */
static shoal_status refuse_strange_bytes(const char *text, size_t n, const char *origin)
{
  const char *fault = shoal_text_fault(text, n);
  if (!fault) return SHOAL_OK;
  int line = 1;
  const char *start = text;
  for (const char *c = text; c < fault; c++)
    if (*c == '\n') {
      line++;
      start = c + 1;
    }
  return SHOAL_FAIL(SHOAL_ERR_USAGE, AT "byte 0x%02x is a control character or not UTF-8; save the file as UTF-8",
                    origin, line, (int)(fault - start) + 1, (unsigned char)*fault);
}

static shoal_status read_text(shoal_settings *s, const char *text, size_t n, const char *origin)
{
  shoal_status st;
  reader r = { .settings = s, .origin = origin, .text = text };
  struct fy_diag_cfg diag_cfg;
  SHOAL_TRY(refuse_strange_bytes(text, n, origin));
  fy_diag_cfg_default(&diag_cfg);
  diag_cfg.fp = NULL;
  r.diag = fy_diag_create(&diag_cfg);
  SHOAL_CHECK(r.diag, SHOAL_ERR_INTERNAL, "libfyaml cannot create diagnostics for %s", origin);
  fy_diag_set_collect_errors(r.diag, true);
  struct fy_parse_cfg cfg = { .flags = FYPCF_JSON_NONE, .diag = r.diag };
  r.parser = fy_parser_create(&cfg);
  SHOAL_CHECK_GOTO(st, r.parser && fy_parser_set_string(r.parser, text, n) == 0, done, SHOAL_ERR_INTERNAL,
                   "libfyaml cannot create a parser for %s", origin);
  s->readings++;
  st = read_stream(&r);
done:
  if (r.event) fy_parser_event_free(r.parser, r.event);
  if (r.parser) fy_parser_destroy(r.parser);
  fy_diag_destroy(r.diag);
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
  SHOAL_TRY(shoal_read_file(path, &text, &n));
  shoal_status st = read_text(s, text, n, path);
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

/* Length of the UTF-8 character at p, or 0 if it is invalid (overlong forms, surrogates and control characters are). */
static size_t character_length(const unsigned char *p, size_t n)
{
  if (p[0] < 0x80) return (p[0] >= 0x20 && p[0] != 0x7f) || p[0] == '\n' || p[0] == '\r' || p[0] == '\t';
  size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  uint32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (p[0] < 0xc0 || p[0] > 0xf4 || length > n) return 0;
  uint32_t code = p[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (p[i] & 0x3fu);
  }
  bool fine = code >= smallest && code >= 0xa0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) &&
              code != 0xfffe && code != 0xffff;
  return fine ? length : 0;
}

const char *shoal_text_fault(const char *text, size_t n)
{
  for (size_t i = 0; i < n;) {
    size_t length = character_length((const unsigned char *)text + i, n - i);
    if (length == 0) return text + i;
    i += length;
  }
  return NULL;
}
