/* YAML, item by item, over libfyaml's events; what its header promises. */
#include "config/yaml.h"
#include "base/error.h"
#include "base/mem.h"
#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

struct shoal_yaml_parser {
  const char *text;
  struct fy_diag *diag;
  struct fy_parser *parser;
  struct fy_event *event; /* current event */
  bool seen;              /* a document */
};

/* ---- text ---- */

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
  return SHOAL_FAIL(SHOAL_ERR_USAGE,
                    SHOAL_YAML_AT "byte 0x%02x is a control character or not UTF-8; save the file as UTF-8", origin,
                    line, (int)(fault - start) + 1, (unsigned char)*fault);
}

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

/* ---- events ---- */

static shoal_status syntax_fault(const shoal_yaml *y)
{
  const struct shoal_yaml_parser *p = y->parser;
  void *position = NULL;
  const struct fy_diag_error *e = fy_diag_errors_iterate(p->diag, &position);
  SHOAL_CHECK(e, SHOAL_ERR_USAGE, "%s: not valid YAML", y->origin);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, SHOAL_YAML_AT "not valid YAML: %s%s", y->origin, e->line, e->column, e->msg,
                    has_tab_indent(p->text, e->line + 1) ? "; indent with spaces, not tabs" : "");
}

/* Whether the value is missing, as in "batch:".  libfyaml 0.7 then returns no token, 0.8 an empty one. */
static bool is_absent(const struct fy_event *event)
{
  struct fy_token *token = event->scalar.value;
  if (!token || fy_token_scalar_style(token) != FYSS_PLAIN) return !token;
  size_t n = 0;
  return !fy_token_get_text(token, &n) || n == 0;
}

/* The library's mark points behind an opening quote or star; users count from the quote. */
static void take_place(shoal_yaml *y, const struct fy_event *event)
{
  const struct fy_mark *mark = fy_event_start_mark((struct fy_event *)event);
  if (!mark || (event->type == FYET_SCALAR && is_absent(event))) return;
  bool behind = event->type == FYET_ALIAS;
  if (event->type == FYET_SCALAR) {
    enum fy_scalar_style style = fy_token_scalar_style(event->scalar.value);
    behind = style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
  }
  y->line = mark->line + 1;
  y->column = mark->column + 1 - behind;
}

/* Rejects YAML features that make a file mean something other than it shows. */
static shoal_status refuse_anchors_and_tags(const shoal_yaml *y, const struct fy_event *e, const char *name)
{
  const struct fy_token *anchor = NULL, *tag = NULL;
  if (e->type == FYET_SCALAR) anchor = e->scalar.anchor, tag = e->scalar.tag;
  if (e->type == FYET_MAPPING_START) anchor = e->mapping_start.anchor, tag = e->mapping_start.tag;
  if (e->type == FYET_SEQUENCE_START) anchor = e->sequence_start.anchor, tag = e->sequence_start.tag;
  SHOAL_CHECK(!anchor && e->type != FYET_ALIAS, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "%s uses a YAML %s; write the value out instead", SHOAL_YAML_PLACE(y), name,
              anchor ? "anchor (&)" : "alias (*)");
  SHOAL_CHECK(!tag, SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s has a YAML tag (!); write the plain value", SHOAL_YAML_PLACE(y),
              name);
  return SHOAL_OK;
}

/* The text of a scalar event.  An unquoted null, "~" or a missing value gives the empty text. */
static shoal_status take_text(shoal_yaml *y, const struct fy_event *event, const char *name)
{
  struct fy_token *token = event->scalar.value;
  y->absent = is_absent(event);
  const char *text = token ? fy_token_get_text(token, &y->n) : NULL;
  if (!text) y->n = 0;
  y->text = text ? text : "";
  bool plain = token && fy_token_scalar_style(token) == FYSS_PLAIN;
  if (plain && ((y->n == 1 && text[0] == '~') || (y->n == 4 && memcmp(text, "null", 4) == 0))) y->n = 0;
  SHOAL_CHECK(!shoal_text_fault(y->text, y->n), SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "%s contains a control character; remove it", SHOAL_YAML_PLACE(y), name);
  return SHOAL_OK;
}

/* Takes the current event as an item; false for the bounds of stream and document. */
static shoal_status take(shoal_yaml *y, const char *name, bool *is_item)
{
  struct shoal_yaml_parser *p = y->parser;
  const struct fy_event *e = p->event;
  y->text = "";
  y->n = 0;
  y->absent = false;
  *is_item = true;
  take_place(y, e);
  SHOAL_TRY(refuse_anchors_and_tags(y, e, name));
  switch (e->type) {
  case FYET_MAPPING_START:
    y->kind = SHOAL_YAML_MAP;
    return SHOAL_OK;
  case FYET_MAPPING_END:
    y->kind = SHOAL_YAML_MAP_END;
    return SHOAL_OK;
  case FYET_SEQUENCE_START:
    y->kind = SHOAL_YAML_LIST;
    return SHOAL_OK;
  case FYET_SEQUENCE_END:
    y->kind = SHOAL_YAML_LIST_END;
    return SHOAL_OK;
  case FYET_SCALAR:
    y->kind = SHOAL_YAML_SCALAR;
    return take_text(y, e, name);
  case FYET_STREAM_END:
    y->kind = SHOAL_YAML_END;
    return SHOAL_OK;
  case FYET_DOCUMENT_START:
    SHOAL_CHECK(!p->seen, SHOAL_ERR_USAGE, SHOAL_YAML_AT "a second YAML document; write one file for each",
                SHOAL_YAML_PLACE(y));
    p->seen = true;
    break;
  default:
    break;
  }
  *is_item = false;
  return SHOAL_OK;
}

shoal_status shoal_yaml_next(shoal_yaml *y, const char *name)
{
  struct shoal_yaml_parser *p = y->parser;
  bool is_item;
  do {
    if (p->event) fy_parser_event_free(p->parser, p->event);
    p->event = fy_parser_parse(p->parser); /* the end of the stream is an event as well, so NULL is always an error */
    if (!p->event) return syntax_fault(y);
    SHOAL_TRY(take(y, name, &is_item));
  } while (!is_item);
  return SHOAL_OK;
}

shoal_status shoal_yaml_open(const char *text, size_t n, const char *origin, shoal_yaml *y)
{
  *y = (shoal_yaml){ .origin = origin, .line = 1, .column = 1, .text = "" };
  SHOAL_TRY(refuse_strange_bytes(text, n, origin));
  SHOAL_TRY(SHOAL_ALLOC(1, &y->parser));
  struct shoal_yaml_parser *p = y->parser;
  struct fy_diag_cfg diag;
  fy_diag_cfg_default(&diag);
  diag.fp = NULL;
  p->text = text;
  p->diag = fy_diag_create(&diag);
  SHOAL_CHECK(p->diag, SHOAL_ERR_INTERNAL, "libfyaml cannot create diagnostics for %s", origin);
  fy_diag_set_collect_errors(p->diag, true);
  struct fy_parse_cfg cfg = { .flags = FYPCF_JSON_NONE, .diag = p->diag };
  p->parser = fy_parser_create(&cfg);
  SHOAL_CHECK(p->parser && fy_parser_set_string(p->parser, text, n) == 0, SHOAL_ERR_INTERNAL,
              "libfyaml cannot create a parser for %s", origin);
  return SHOAL_OK;
}

void shoal_yaml_close(shoal_yaml *y)
{
  struct shoal_yaml_parser *p = y->parser;
  if (!p) return;
  if (p->event) fy_parser_event_free(p->parser, p->event);
  if (p->parser) fy_parser_destroy(p->parser);
  if (p->diag) fy_diag_destroy(p->diag);
  free(p);
  y->parser = NULL;
}
