/* JSON: the only writer and the only reader of it in Shoal.
 *
 * The writer streams: calls follow the structure of the document, and it adds commas, quotes and indentation.  With an
 * output file it writes as it goes, so a document may be larger than memory.
 *
 *     shoal_json j = { .lines = 1 };                  {
 *     shoal_json_object(&j, NULL);                      "rank": 3,
 *     shoal_json_int(&j, "rank", 3);                    "host": "n1"
 *     shoal_json_string(&j, "host", "n1");            }
 *     shoal_json_end(&j);
 *
 * Reading is done by jansson: shoal_json_read returns its tree, to be accessed by json_object_get and similar calls. */
#ifndef SHOAL_BASE_JSON_H
#define SHOAL_BASE_JSON_H
#include "base/status.h"
#include "base/str.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SHOAL_JSON_DEPTH = 16 };

/* Initialise as { .lines = ..., .out = ... }; the other members are private.  Calls out of order (a value without a key
 * in an object, an unmatched end) are bugs and trigger assertions. */
typedef struct {
  int lines;      /* members of this many outer levels go on separate lines; 0: everything on one line */
  FILE *out;      /* receives the text as it is produced; NULL: all of it stays in `text` */
  shoal_str text; /* free with shoal_str_free, unless shoal_json_finish was called */
  int depth;
  bool has_members[SHOAL_JSON_DEPTH], is_array[SHOAL_JSON_DEPTH];
} shoal_json;

/* `key` is the member's name in an object, NULL in an array and for the document itself. */
void shoal_json_object(shoal_json *j, const char *key);
void shoal_json_array(shoal_json *j, const char *key);
void shoal_json_end(shoal_json *j); /* closes the innermost object or array; the last call also ends the line */

/** Text as UTF-8; invalid bytes become U+FFFD.  NULL writes null. */
void shoal_json_string(shoal_json *j, const char *key, const char *text);
void shoal_json_format(shoal_json *j, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void shoal_json_int(shoal_json *j, const char *key, int64_t value);
void shoal_json_uint(shoal_json *j, const char *key, uint64_t value);
/** With 15 digits, or 17 if 15 do not read back to the same value; null for NaN and infinities, which JSON lacks. */
void shoal_json_real(shoal_json *j, const char *key, double value);
/** With a fixed number of decimals, for times whose last digits are noise; null for NaN and infinities. */
void shoal_json_fixed(shoal_json *j, const char *key, double value, int decimals);
void shoal_json_bool(shoal_json *j, const char *key, bool value);
void shoal_json_null(shoal_json *j, const char *key);

/** Write the rest of the text to `out` and free it.  A failed write sets the stream's error indicator, as with printf:
 *  the owner of the stream checks ferror once, at the end. */
void shoal_json_finish(shoal_json *j);

/** Parse a document.  `origin` names it in messages.  ERR_IO: "ORIGIN:LINE:COLUMN: reason".  The caller releases the
 *  tree with json_decref. */
shoal_status shoal_json_read(const char *text, const char *origin, json_t **out);
shoal_status shoal_json_read_file(const char *path, json_t **out); /* ERR_IO also if the file cannot be read */
/** A member of an object, which may be NULL: NaN if it is missing or no number; 0 if it is that, negative, or too large. */
double shoal_json_real_of(const json_t *object, const char *key);
int shoal_json_int_of(const json_t *object, const char *key);
#endif
