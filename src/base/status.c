/* The texts and exit codes of the status list, and the one place where a failure becomes a line for people.
 *
 * A fault is told once, where it happens.  The first one of a process is also kept: by the time a run writes its
 * status file the cause may be many calls away, and what follows a first fault is usually its echo.  Nothing here
 * allocates, because running out of memory is one of the things to report. */
#include "base/status.h"
#include "base/log.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

static const struct {
  const char *name, *text;
  int exit_code;
} statuses[] = {
#define X(name, exit_code, text) { #name, text, exit_code },
  SHOAL_STATUS_LIST(X)
#undef X
};

/* The text is written once, under the lock, and published by the flag; readers need no lock. */
enum { LONGEST_ERROR = 4096 };
static char first_error[LONGEST_ERROR];
static atomic_bool has_first_error;
static pthread_mutex_t first_error_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int quiet;

static unsigned known(shoal_status st)
{
  return (unsigned)st < SHOAL_STATUS_COUNT ? (unsigned)st : SHOAL_ERR_INTERNAL;
}

const char *shoal_status_text(shoal_status st)
{
  return statuses[known(st)].text;
}

const char *shoal_status_name(shoal_status st)
{
  return statuses[known(st)].name;
}

int shoal_status_exit_code(shoal_status st)
{
  return statuses[known(st)].exit_code;
}

static void keep_first(const char *text)
{
  pthread_mutex_lock(&first_error_lock);
  if (!atomic_load(&has_first_error)) {
    snprintf(first_error, sizeof first_error, "%s", text);
    atomic_store(&has_first_error, true);
  }
  pthread_mutex_unlock(&first_error_lock);
}

shoal_status shoal_fail(shoal_status code, const char *file, int line, const char *format, ...)
{
  char text[LONGEST_ERROR];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  keep_first(text);
  if (atomic_load(&quiet) <= 0) {
    if (shoal_log_get_level() >= SHOAL_LOG_DEBUG)
      shoal_log(SHOAL_LOG_ERROR, "%s [%s at %s:%d]", text, shoal_status_name(code), file, line);
    else
      shoal_log(SHOAL_LOG_ERROR, "%s", text);
  }
  return code;
}

const char *shoal_first_error(void)
{
  return atomic_load(&has_first_error) ? first_error : "";
}

void shoal_clear_error(void)
{
  pthread_mutex_lock(&first_error_lock);
  atomic_store(&has_first_error, false);
  pthread_mutex_unlock(&first_error_lock);
}

void shoal_quiet_errors(int delta)
{
  atomic_fetch_add(&quiet, delta);
}
