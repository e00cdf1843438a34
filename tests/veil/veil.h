/* A backend behind a veil: computes as the one it wraps, on memory that pretends to be elsewhere.
 *
 *   DEVICE           no access but inside a function of the backend
 *   PINNED, SHARED   what a call writes is hidden, each byte 0xff, until `settle` or until a mark drawn after it is reached; who
 *                    writes there is told
 *   copy_beside      takes place at the second question whether it is reached, or when it is awaited; until then its target
 *                    holds NaN, and its source must not change
 *   arguments        those that have to be the backend's memory are: all of them, to their last byte
 *
 * Host code that breaks a rule of docs/memory.md ends the process with a line and a list of callers, exit code 99, or reads
 * NaN.  Else results are bit for bit those of the backend behind the veil. */
#ifndef SHOAL_TESTS_VEIL_H
#define SHOAL_TESTS_VEIL_H
#include "tensor/backend.h"

/** @param inner  owned by the veil from here on; one veil per process at a time */
shoal_status veil_over(shoal_backend *inner, shoal_backend **out);
shoal_backend *veil_behind(shoal_backend *b); /* the one it wraps */
#endif
