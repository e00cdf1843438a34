/* JSON, the one way to write it and the one way to read it.
 *
 * Writing streams: calls follow the shape of the document, and commas, quotes and indentation follow from them.  A writer
 * that has a file passes its text on as it goes, so a document larger than memory is no problem.
 *
 *     shoal_json j = { .lines = 1 };                  {
 *     shoal_json_object(&j, NULL);                      "rank": 3,
 *     shoal_json_int(&j, "rank", 3);                    "host": "n1"
 *     shoal_json_string(&j, "host", "n1");            }
 *     shoal_json_end(&j);
 *
 * Reading is jansson's: shoal_json_read gives its tree, json_object_get and friends look into it. */
#ifndef SHOAL_BASE_JSON_H
#define SHOAL_BASE_JSON_H
#include "base/status.h"
#include "base/str.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SHOAL_JSON_DEPTH = 16 };

/* Starts as { .lines = ..., .out = ... }; the rest is the writer's own.  Calls out of order (a value without a key in an
 * object, an end too many) are bugs and caught by assertions. */
typedef struct {
  int lines;      /* members of this many outer levels stand on lines of their own; 0: everything on one line */
  FILE *out;      /* text goes here as it is made; NULL: it stays in `text` */
  shoal_str text; /* free with shoal_str_free, unless shoal_json_finish did */
  int depth;
  bool has_members[SHOAL_JSON_DEPTH], is_array[SHOAL_JSON_DEPTH];
} shoal_json;

/* `key` is the member's name in an object, NULL in an array and for the document itself. */
void shoal_json_object(shoal_json *j, const char *key);
void shoal_json_array(shoal_json *j, const char *key);
void shoal_json_end(shoal_json *j); /* of the innermost object or array; the last one ends the document's last line */

/** Text as UTF-8; bytes that are not become U+FFFD.  NULL writes null. */
void shoal_json_string(shoal_json *j, const char *key, const char *text);
void shoal_json_format(shoal_json *j, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void shoal_json_int(shoal_json *j, const char *key, int64_t value);
void shoal_json_uint(shoal_json *j, const char *key, uint64_t value);
/** The shortest of 15 or 17 digits that reads back as the same number; null for NaN and infinities, which JSON lacks. */
void shoal_json_real(shoal_json *j, const char *key, double value);
/** As many decimals as given, for times whose last digits are noise; null likewise. */
void shoal_json_fixed(shoal_json *j, const char *key, double value, int decimals);
void shoal_json_bool(shoal_json *j, const char *key, bool value);
void shoal_json_null(shoal_json *j, const char *key);

/** Passes the rest of the text to `out` and frees it.  A write that failed stays noted in the stream (ferror), as with
 *  any other print: whoever owns the stream asks once, at the end. */
void shoal_json_finish(shoal_json *j);

/** Parse a document.  `origin` names it in messages.  ERR_IO: "ORIGIN:LINE:COLUMN: what is wrong".  The caller releases the
 *  tree with json_decref. */
shoal_status shoal_json_read(const char *text, const char *origin, json_t **out);
shoal_status shoal_json_read_file(const char *path, json_t **out); /* ERR_IO too when it cannot be read */
#endif
