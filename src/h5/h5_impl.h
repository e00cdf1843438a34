/* What the files of h5/ share: failing with the library's words, and handles that refuse to leave the file. */
#ifndef SHOAL_H5_H5_IMPL_H
#define SHOAL_H5_H5_IMPL_H
#include "h5/h5.h"

enum { SHOAL_H5_WORDS = 256, SHOAL_H5_WHERE = 512 };

/** The words of this thread's HDF5 error stack that say most: the system's error text if there is one, else the
 *  innermost description; "" when the stack is empty.  Must come before any other HDF5 call, which would clear them. */
void shoal_h5_words(char words[SHOAL_H5_WORDS]);
/** Does any description on the stack contain `text`?  Copies that description when `out` is given. */
bool shoal_h5_stack_says(const char *text, char out[SHOAL_H5_WORDS]);

/** "/model/w in step-1.h5"; `name` may be NULL, and "@x" names an attribute.  Clears the error stack. */
const char *shoal_h5_where(hid_t at, const char *name, char buf[SHOAL_H5_WHERE]);
/** Print "cannot VERB WHERE: WORDS" for a call that just failed on `name` below `at`; returns ERR_IO. */
shoal_status shoal_h5_fail_at(const char *file, int line, const char *verb, hid_t at, const char *name);
#define H5_GOTO(st, call, label, verb, at, name)                                                                       \
  do {                                                                                                                 \
    if ((call) < 0) {                                                                                                  \
      (st) = shoal_h5_fail_at(__FILE__, __LINE__, (verb), (at), (name));                                               \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)

/** A property list of class H5P_LINK_ACCESS or below whose lookups never follow an external link. */
hid_t shoal_h5_stay_inside(hid_t property_class);
/** Why this creation property list is not to be trusted ("is a virtual data set"), or NULL when it is plain. */
const char *shoal_h5_foreign(hid_t dcpl, char buf[SHOAL_H5_WORDS]);
/** The environment asked for no locks at all (HDF5_USE_FILE_LOCKING=FALSE). */
bool shoal_h5_locks_off(void);
#endif
