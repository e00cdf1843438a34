/* What the files of h5/ share: HDF5 itself, failing with its words, and handles that refuse to leave the file. */
#ifndef SHOAL_H5_H5_IMPL_H
#define SHOAL_H5_H5_IMPL_H
#include "h5/h5.h"
#include "h5/table.h"
#include <hdf5.h>

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "shoal_h5 holds a handle of HDF5");

enum { SHOAL_H5_WORDS = 256, SHOAL_H5_WHERE = 512 };

/** Turn a failed HDF5 call into our status, keeping the library's own words. */
shoal_status shoal_h5_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define H5_TRY(call, ...)                                                                                              \
  do {                                                                                                                 \
    if ((call) < 0) return shoal_h5_fail(__FILE__, __LINE__, __VA_ARGS__);                                             \
  } while (0)
void shoal_h5_release(hid_t id); /* a handle of any kind, but of a file; ignores < 0 */

/** The words of this thread's HDF5 error stack that say most: the system's error text if there is one, else the
 *  innermost description; "" when the stack is empty.  Must come before any other HDF5 call, which would clear them. */
void shoal_h5_words(char words[SHOAL_H5_WORDS]);
/** Does any description on the stack contain `text`?  Copies that description when `out` is given. */
bool shoal_h5_stack_says(const char *text, char out[SHOAL_H5_WORDS]);

/** "/model/w in step-1.h5"; `name` may be NULL, and "@x" names an attribute.  A file with a temporary name is called
 *  by the name it is to get.  Clears the error stack. */
const char *shoal_h5_where(hid_t at, const char *name, char buf[SHOAL_H5_WHERE]);
/** Fail with "cannot VERB WHERE: WORDS" after a call that just failed on `name` below `at`, and with the free bytes if
 *  the words tell of a full disk; returns ERR_IO. */
shoal_status shoal_h5_fail_at(const char *file, int line, const char *verb, hid_t at, const char *name);
#define H5_GOTO(st, call, label, verb, at, name)                                                                       \
  do {                                                                                                                 \
    if ((call) < 0) {                                                                                                  \
      (st) = shoal_h5_fail_at(__FILE__, __LINE__, (verb), (at), (name));                                               \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)

/* Types: borrowed for numbers, made and released for the others. */
hid_t shoal_h5_stored_type(shoal_dtype t); /* little-endian, as it stands in the file */
hid_t shoal_h5_native_type(shoal_dtype t);
/** Of a row of a table, in the file or in memory; released by the caller. */
hid_t shoal_h5_row_type(const shoal_h5_row *row, bool stored);

/** Open a data set that lies in this file and is stored in a way we trust. */
shoal_status shoal_h5_open_data_set(hid_t at, const char *name, hid_t *out);
/** Everything about an open data set; `at` and `name` are for messages. */
shoal_status shoal_h5_facts_of(hid_t set, hid_t at, const char *name, shoal_h5_facts *out);

/** A property list of class H5P_LINK_ACCESS or below whose lookups never follow an external link. */
hid_t shoal_h5_stay_inside(hid_t property_class);
/** Why this creation property list is not to be trusted ("is a virtual data set"), or NULL when it is plain. */
const char *shoal_h5_foreign(hid_t dcpl, char buf[SHOAL_H5_WORDS]);
/** The environment asked for no locks at all (HDF5_USE_FILE_LOCKING=FALSE). */
bool shoal_h5_locks_off(void);
#endif
