/* An error is a value: a status code, a message, and the source line that raised it.
 *
 * SHOAL_FAIL and SHOAL_CHECK (status.h) create an error and store it for the calling thread; as with errno, a later
 * failure of the same thread replaces it.  Nothing is printed at that point, because the function that fails rarely
 * knows what the failure means: an unreadable checkpoint ends the run or is skipped, a full disk concerns one rank or
 * all of them.  The caller that decides prints the error once: the top of the program (shoal_error_report) or the
 * agreement of all ranks (shoal_group_agree).
 *
 *   fault ── SHOAL_FAIL ──► the thread's error ── prefix, as, keep, join ──► report or agree ──► one line, status.json
 *                                 │      ▲
 *                            take ▼      │ put
 *                            a shoal_error saved for later, or handed to another thread
 *
 * Probes, whose failure is a valid answer (is this file a good checkpoint?), and clean-up after a failure first take
 * the pending error and put it back afterwards.  Nothing here allocates: running out of memory is one of the errors. */
#ifndef SHOAL_BASE_ERROR_H
#define SHOAL_BASE_ERROR_H
#include "base/status.h"
#include <stdbool.h>

enum { SHOAL_ERROR_TEXT = 8192 }; /* longer messages are truncated; a run file may have many faults, a line each */

typedef struct {
  shoal_status code;    /* SHOAL_OK: no error */
  shoal_status verdict; /* the code all ranks agreed on; SHOAL_OK: not agreed yet */
  bool told;            /* already printed, by this rank or another one */
  const char *file;     /* source file that raised it; static storage */
  int line;
  char text[SHOAL_ERROR_TEXT]; /* one line per fault, without a trailing newline; control characters as escapes */
} shoal_error;

/** The message for a failure: the text of this thread's error if its code is `st`, else the general text of `st`. */
const char *shoal_error_text(shoal_status st);
/** Prepend context to the message, for example "layer norm1: ".  Returns `st`; does nothing for SHOAL_OK. */
shoal_status shoal_error_prefix(shoal_status st, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Append to the message, for example " on host n01" or a cure.  Returns `st`; does nothing for SHOAL_OK. */
shoal_status shoal_error_append(shoal_status st, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Replace the code of this thread's error and keep its message.  Returns `code`. */
shoal_status shoal_error_as(shoal_status st, shoal_status code);

/** Move this thread's error into `out` (code SHOAL_OK if there is none); afterwards the thread has no error. */
void shoal_error_take(shoal_error *out);
/** Make `e` this thread's error and return its code; code SHOAL_OK clears the thread's error. */
shoal_status shoal_error_put(const shoal_error *e);
/** Copy the error of a failed call into `first` unless it already holds one.  Does nothing for SHOAL_OK. */
void shoal_error_keep(shoal_error *first, shoal_status st);
/** Append the error of a failed call to `all` as a separate line.  Does nothing for SHOAL_OK. */
void shoal_error_join(shoal_error *all, shoal_status st);

/** Print the error of `st`, each line as "shoal: error: LINE", at log level debug with the source line.  Marks it as
 *  printed, so that a second report prints nothing.  SHOAL_OK and SHOAL_STOPPED are not errors and print nothing. */
void shoal_error_report(shoal_status st);
/** Mark this thread's error as printed: another rank prints it, or its content was already shown.  Returns `st`. */
shoal_status shoal_error_told(shoal_status st);
/** The code all ranks agreed on for this failure, or `st` if they have not agreed; and the matching exit code. */
shoal_status shoal_error_verdict(shoal_status st);
int shoal_error_exit_code(shoal_status st);
#endif
