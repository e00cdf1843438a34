/* An error is a value: a status code, a text, and where it was made.
 *
 * SHOAL_FAIL and SHOAL_CHECK (status.h) make one and keep it for the calling thread; like errno, a later failure of the
 * same thread takes its place.  Nothing is printed then, because the place of a fault rarely knows what it means: an
 * unreadable checkpoint ends a run or is skipped, a full disk is one rank's or everybody's.  Whoever decides that prints
 * the error once: the top of the program (shoal_error_report) or the agreement of all ranks (shoal_group_agree).
 *
 *   fault ── SHOAL_FAIL ──► kept by the thread ── prefix, as, keep, join ──► report or agree ──► one line, status.json
 *                                 │      ▲
 *                            take ▼      │ put
 *                            a shoal_error that waits, or goes to another thread
 *
 * A question whose failure is an answer (is this file a good checkpoint?) and a clean-up after a failure take the earlier
 * error first and put it back afterwards.  Nothing here allocates: running out of memory is one of the errors. */
#ifndef SHOAL_BASE_ERROR_H
#define SHOAL_BASE_ERROR_H
#include "base/status.h"
#include <stdbool.h>

enum { SHOAL_ERROR_TEXT = 8192 }; /* longer texts are cut; a run file may have many faults, a line each */

typedef struct {
  shoal_status code;    /* SHOAL_OK: no error */
  shoal_status verdict; /* what all ranks agreed to call the failure; SHOAL_OK: they have not */
  bool told;            /* printed, here or by another rank */
  const char *file;     /* where it was made; static */
  int line;
  char text[SHOAL_ERROR_TEXT]; /* one line for each fault, without a newline at the end */
} shoal_error;

/** The words for a failure: the text of this thread's error if its code is `st`, else the general text of that code. */
const char *shoal_error_text(shoal_status st);
/** Put words in front of the error's text, "layer norm1: ", for a caller that knows more about where.  Returns `st`;
 *  does nothing for SHOAL_OK. */
shoal_status shoal_error_prefix(shoal_status st, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The same error with another code.  Returns `code`. */
shoal_status shoal_error_as(shoal_status st, shoal_status code);

/** Move this thread's error into `out` (code SHOAL_OK if there is none); the thread has none then. */
void shoal_error_take(shoal_error *out);
/** Make `e` this thread's error and return its code; with code SHOAL_OK the thread has none afterwards. */
shoal_status shoal_error_put(const shoal_error *e);
/** Copy the error of a failed call into `first`, unless that holds one already.  Nothing happens for SHOAL_OK. */
void shoal_error_keep(shoal_error *first, shoal_status st);
/** Add the error of a failed call to `all` as a line of its own.  Nothing happens for SHOAL_OK. */
void shoal_error_join(shoal_error *all, shoal_status st);

/** Print the error of `st`, each line as "shoal: error: LINE", with its place at log level debug; and note that it was
 *  told, so that a second report prints nothing.  SHOAL_OK and SHOAL_STOPPED are no errors. */
void shoal_error_report(shoal_status st);
/** Note that somebody else prints this thread's error, or has printed it in other words.  Returns `st`. */
shoal_status shoal_error_told(shoal_status st);
/** What all ranks call this failure if they have agreed on that, else `st`; and the exit code that belongs to it. */
shoal_status shoal_error_verdict(shoal_status st);
int shoal_error_exit_code(shoal_status st);
#endif
