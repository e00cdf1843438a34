/* See error.h.  Each thread has one error in thread-local storage, so that the prefetching thread cannot overwrite the
 * error that the training thread is about to report. */
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local shoal_error kept;

/* Copies only the used bytes of the 8 KiB text buffer. */
static void copy(shoal_error *to, const shoal_error *from)
{
  if (to == from) return;
  to->code = from->code;
  to->verdict = from->verdict;
  to->told = from->told;
  to->file = from->file;
  to->line = from->line;
  memcpy(to->text, from->text, strlen(from->text) + 1);
}

/* Makes sure that the thread's error has code `st`.  A code that was returned without SHOAL_FAIL gets the general text
 * of that code. */
static void own(shoal_status st)
{
  if (kept.code == st) return;
  kept.code = st;
  kept.verdict = SHOAL_OK;
  kept.told = false;
  kept.file = NULL;
  snprintf(kept.text, sizeof kept.text, "%s", shoal_status_text(st));
}

/* Names from files may hold line breaks and what a terminal obeys; a line break in a text only separates faults (join). */
static void format_line(char text[SHOAL_ERROR_TEXT], const char *format, va_list args)
{
  char raw[SHOAL_ERROR_TEXT];
  vsnprintf(raw, sizeof raw, format, args);
  shoal_show(raw, text, SHOAL_ERROR_TEXT);
}

/* Callers say what the memory was for; what is told has the word, and the limit that a shell or a job may have set. */
static void name_memory(char text[SHOAL_ERROR_TEXT])
{
  static const char words[] = "out of memory: ";
  struct rlimit l;
  char limit[32];
  size_t n = strlen(text), used = sizeof words - 1;
  if (!strstr(text, "memory") && n + used < SHOAL_ERROR_TEXT) {
    memmove(text + used, text, n + 1);
    memcpy(text, words, used);
    n += used;
  }
  if (getrlimit(RLIMIT_AS, &l) != 0 || l.rlim_cur == RLIM_INFINITY || strstr(text, "ulimit")) return;
  snprintf(text + n, SHOAL_ERROR_TEXT - n, " (a process may have %s, ulimit -v)",
           shoal_format_bytes((double)l.rlim_cur, limit, sizeof limit));
}

shoal_status shoal_fail(shoal_status code, const char *file, int line, const char *format, ...)
{
  char text[SHOAL_ERROR_TEXT]; /* formatted here first, because the arguments may point into kept.text */
  va_list args;
  va_start(args, format);
  format_line(text, format, args);
  va_end(args);
  if (code == SHOAL_ERR_MEM) name_memory(text);
  kept.code = code;
  kept.verdict = SHOAL_OK;
  kept.told = false;
  kept.file = file;
  kept.line = line;
  memcpy(kept.text, text, strlen(text) + 1);
  return code;
}

const char *shoal_error_text(shoal_status st)
{
  return st != SHOAL_OK && kept.code == st ? kept.text : shoal_status_text(st);
}

shoal_status shoal_error_prefix(shoal_status st, const char *format, ...)
{
  char text[SHOAL_ERROR_TEXT];
  if (st == SHOAL_OK) return st;
  own(st);
  va_list args;
  va_start(args, format);
  format_line(text, format, args);
  va_end(args);
  size_t n = strlen(text);
  snprintf(text + n, sizeof text - n, "%s", kept.text);
  memcpy(kept.text, text, strlen(text) + 1);
  return st;
}

shoal_status shoal_error_append(shoal_status st, const char *format, ...)
{
  char text[SHOAL_ERROR_TEXT];
  if (st == SHOAL_OK) return st;
  own(st);
  size_t n = strlen(kept.text);
  va_list args;
  va_start(args, format);
  format_line(text, format, args);
  va_end(args);
  snprintf(kept.text + n, sizeof kept.text - n, "%s", text);
  return st;
}

shoal_status shoal_error_as(shoal_status st, shoal_status code)
{
  own(st);
  kept.code = code;
  return code;
}

void shoal_error_take(shoal_error *out)
{
  copy(out, &kept);
  kept.code = SHOAL_OK;
}

shoal_status shoal_error_put(const shoal_error *e)
{
  copy(&kept, e);
  return e->code;
}

void shoal_error_keep(shoal_error *first, shoal_status st)
{
  if (st == SHOAL_OK || first->code != SHOAL_OK) return;
  own(st);
  copy(first, &kept);
}

void shoal_error_join(shoal_error *all, shoal_status st)
{
  if (st == SHOAL_OK) return;
  if (all->code == SHOAL_OK) {
    shoal_error_keep(all, st);
    return;
  }
  own(st);
  size_t n = strlen(all->text);
  snprintf(all->text + n, sizeof all->text - n, "\n%s", kept.text);
}

static void print(const char *line, int length)
{
  if (kept.file && shoal_log_get_level() >= SHOAL_LOG_DEBUG)
    shoal_log(SHOAL_LOG_ERROR, "%.*s [%s at %s:%d]", length, line, shoal_status_name(kept.code), kept.file, kept.line);
  else
    shoal_log(SHOAL_LOG_ERROR, "%.*s", length, line);
}

void shoal_error_report(shoal_status st)
{
  if (st == SHOAL_OK || st == SHOAL_STOPPED) return;
  own(st);
  if (kept.told) return;
  kept.told = true;
  for (const char *line = kept.text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    print(line, (int)strcspn(line, "\n"));
}

shoal_status shoal_error_told(shoal_status st)
{
  if (st == SHOAL_OK) return st;
  own(st);
  kept.told = true;
  return st;
}

shoal_status shoal_error_verdict(shoal_status st)
{
  return st != SHOAL_OK && kept.code == st && kept.verdict != SHOAL_OK ? kept.verdict : st;
}

int shoal_error_exit_code(shoal_status st)
{
  return shoal_status_exit_code(shoal_error_verdict(st));
}
