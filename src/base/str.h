/* Strings for messages and small files: a growing buffer, readable units, the nearest known word. */
#ifndef SHOAL_BASE_STR_H
#define SHOAL_BASE_STR_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Initialise as {0} and release with shoal_str_free.  `text` is NUL-terminated, or NULL while empty.  Running out of
 * memory aborts the program. */
typedef struct {
  char *text;
  size_t len, cap;
} shoal_str;
void shoal_str_add(shoal_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shoal_str_add_quoted(shoal_str *s, const char *text); /* in double quotes, with the escapes of JSON and YAML */
/** Add `text`, wrapped at spaces so that lines end before column `width`, and a newline.  The first line continues the
 *  current one, which must be at column `indent`; the others are indented to that column. */
void shoal_str_add_wrapped(shoal_str *s, const char *text, size_t indent, size_t width);
void shoal_str_clear(shoal_str *s);
void shoal_str_free(shoal_str *s);
char *shoal_strdup_printf(const char *format, ...) __attribute__((format(printf, 1, 2))); /* caller frees */

/** Writes `text` for people to see: control characters, which a terminal would obey, and bytes that are no UTF-8, as \n, \t or \x1b; newlines and tabs
 *  stay if `lines`.  Truncates like snprintf and returns the length that was needed, without the NUL. */
size_t shoal_escape(const char *text, bool lines, char *buf, size_t cap);
/** shoal_escape on one line; returns buf. */
const char *shoal_show(const char *text, char *buf, size_t cap);

/** Whether a shell, and Python between quotes, take `text` for nothing but itself. */
bool shoal_is_plain(const char *text);
/** Adds `text` as one word of a shell command, whatever is in it: as it is, or in quotes.  Control characters, which a terminal
 *  would obey, and bytes that are no UTF-8 are in the form $'\x1b' of bash, ksh and zsh. */
void shoal_str_add_word(shoal_str *s, const char *text);
enum { SHOAL_WORD = 4096 };
/** A path as shoal_str_add_word writes it, for a command that a message prints; with ./ in front of a dash, which would begin
 *  an option.  Returns buf; of a word that does not fit in, dots. */
const char *shoal_shell_word(const char *path, char buf[SHOAL_WORD]);

bool shoal_is_utf8(const char *text);
/** Columns of a terminal that UTF-8 text takes: two for signs of East Asia and pictures, none for marks on the one before. */
size_t shoal_text_width(const char *text);
/** Bytes of the longest beginning of `text` that takes at most `width` columns. */
size_t shoal_text_fit(const char *text, size_t width);
/** Adds `text` to a table: in at most `width` columns of a terminal, cut with "..." if it takes more, and blanks up to there.
 *  @return whether it was cut */
bool shoal_str_add_cell(shoal_str *s, const char *text, int width);

/** Prints lines that hold text from files: with control characters as escapes. */
void shoal_str_print(const shoal_str *s, FILE *out);

/** The entry of words[n] nearest to `word` by edit distance, or NULL if none is near enough to suggest. */
const char *shoal_nearest(const char *word, const char *const *words, size_t n);

/** "97.53 %"; only what is all is "100.00 %".  Writes into `buf` and returns it. */
const char *shoal_format_share(double share, char *buf, size_t cap);
/* Human-readable units: "1.5 GiB", "83.2 ms", "2 h 03 min".  Both write into `buf` and return it. */
const char *shoal_format_bytes(double bytes, char *buf, size_t cap);
const char *shoal_format_seconds(double seconds, char *buf, size_t cap);

/* Strict parsing: the whole text must be a number, otherwise ERR_ARG without a message. */
shoal_status shoal_parse_i64(const char *text, int64_t *out);
shoal_status shoal_parse_f64(const char *text, double *out);
/* "90", "90s", "10min", "2h", "250 steps", "3 epochs": a time above 0, or an integer number of steps or epochs, 1 or
 * more. The upper bounds guarantee an exact conversion to a 64-bit integer, of counts and of times in nanoseconds. */
#define SHOAL_PERIOD_MOST_SECONDS 1e9
#define SHOAL_PERIOD_MOST_COUNT   1e15
typedef enum { SHOAL_PER_SECONDS, SHOAL_PER_STEPS, SHOAL_PER_EPOCHS, SHOAL_PER_NEVER } shoal_period_unit;
typedef struct {
  double value; /* seconds, or an integer number of steps or epochs */
  shoal_period_unit unit;
} shoal_period;
shoal_status shoal_parse_period(const char *text, shoal_period *out);
#endif
