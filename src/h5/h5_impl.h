/* Declarations private to h5/: HDF5 itself, conversion of its errors, and property lists that stay within the file. */
#ifndef SHOAL_H5_H5_IMPL_H
#define SHOAL_H5_H5_IMPL_H
#include "h5/h5.h"
#include "h5/table.h"
#include <hdf5.h>

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "shoal_h5 holds a handle of HDF5");

enum { SHOAL_H5_REASON = 384, SHOAL_H5_WHERE = 512 };

/** Turn a failed HDF5 call into ERR_IO, with HDF5's error text appended to the message. */
shoal_status shoal_h5_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define H5_TRY(call, ...)                                                                                              \
  do {                                                                                                                 \
    if ((call) < 0) return shoal_h5_fail(__FILE__, __LINE__, __VA_ARGS__);                                             \
  } while (0)
void shoal_h5_release(hid_t id); /* an identifier of any kind except a file; ignores < 0 */

/** The most specific text on this thread's HDF5 error stack: the system's error text if there is one, else the
 *  innermost description; "" if the stack is empty.  Call it before any other HDF5 function, which clears it. */
void shoal_h5_error_reason(char reason[SHOAL_H5_REASON]);
/** True if a description on the error stack contains `text`; copies that description to `out` unless NULL. */
bool shoal_h5_stack_says(const char *text, char out[SHOAL_H5_REASON]);

/** Location for messages, "/model/w in step-1.h5".  `name` may be NULL; "@x" names an attribute.  A temporary file
 *  appears under its final name.  Clears the error stack. */
const char *shoal_h5_where(hid_t at, const char *name, char buf[SHOAL_H5_WHERE]);
/** Notes for the parent what HDF5 is about to look at, if this is a child that tries a file (base/child.h); `name` as above. */
void shoal_h5_note(hid_t at, const char *name);
/** Fail with "cannot VERB WHERE: REASON" right after a failed HDF5 call on `name` below `at`; adds the free bytes if
 *  the disk is full.  Returns ERR_IO. */
shoal_status shoal_h5_fail_at(const char *file, int line, const char *verb, hid_t at, const char *name);
/** The same of a whole file: "cannot VERB PATH: REASON". */
shoal_status shoal_h5_fail_on(const char *file, int line, const char *verb, const char *path);
#define H5_GOTO(st, call, label, verb, at, name)                                                                       \
  do {                                                                                                                 \
    if ((call) < 0) {                                                                                                  \
      (st) = shoal_h5_fail_at(__FILE__, __LINE__, (verb), (at), (name));                                               \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)

/* Data types: predefined ones, not to be released, for numbers; new ones, released by the caller, for rows. */
hid_t shoal_h5_stored_type(shoal_dtype t); /* file type, little-endian */
hid_t shoal_h5_native_type(shoal_dtype t);
/** Type of a table's row in the file (`stored`) or in memory; the caller releases it. */
hid_t shoal_h5_row_type(const shoal_h5_row *row, bool stored);

/** Sets what facts say about an element type except its size: its class, its members, and its description. */
void shoal_h5_describe(hid_t type, shoal_h5_facts *f);

/** Whether every member of a type from a file lies in it, and the bits of every number in its bytes.  HDF5 1.10 believes what the
 *  file says, and converts beyond its buffers. */
bool shoal_h5_type_is_sound(hid_t type);

/** Open a data set to read it: stored entirely in this file, without plug-in filters.  Its chunk cache has no bytes, so
 *  that HDF5 reads only those asked for. */
shoal_status shoal_h5_open_data_set(hid_t at, const char *name, hid_t *out);
/** shoal_h5_create for a file that was just made and is open as `fd`, which the caller keeps. */
shoal_status shoal_h5_create_on(const char *path, int fd, shoal_h5 *file_out);
/* ---- filtered chunks (filters.c, chunks.c) ---- */
enum { SHOAL_H5_FILTERS = 32 }; /* the most that HDF5 allows */
typedef struct {
  int n; /* in the order of writing */
  H5Z_filter_t id[SHOAL_H5_FILTERS];
  size_t width; /* of a shuffled element, in bytes */
} shoal_h5_filters;
/* Contents of a chunk between two filters: `n` of the `room` bytes of `bytes`; `spare` is as large. */
typedef struct {
  uint8_t *bytes, *spare;
  size_t n, room;
} shoal_h5_work;
/** "deflate"; NULL if the filter is not one that is read. */
const char *shoal_h5_filter_name(H5Z_filter_t id);
/** The filters of a data set whose filters are all read; ERR_IO if their parameters are damaged. */
shoal_status shoal_h5_filters_of(hid_t dcpl, hid_t at, const char *name, shoal_h5_filters *out);
/** Undoes the filters of a chunk, from `w` into `w`, except those whose bit is set in `skipped`.  False, with the reason, if
 *  the result is not exactly `want` bytes. */
bool shoal_h5_unfilter(const shoal_h5_filters *f, uint32_t skipped, size_t want, shoal_h5_work *w,
                       char reason[SHOAL_H5_REASON]);

/* A data set of filtered chunks that is read without HDF5's filters. */
typedef struct shoal_h5_chunks shoal_h5_chunks;
/** @param[in] type  of an element in memory, without text of variable length.  `set` and `type` are borrowed until
 *                   shoal_h5_chunks_close, which ignores NULL */
shoal_status shoal_h5_chunks_open(hid_t set, const shoal_h5_facts *f, hid_t type, hid_t at, const char *name,
                                  shoal_h5_chunks **out);
/** Rows [first, first + n), which must exist.  False with the reason, and no error is set. */
bool shoal_h5_chunks_read(shoal_h5_chunks *c, uint64_t first, uint64_t n, void *data, char reason[SHOAL_H5_REASON]);
void shoal_h5_chunks_close(shoal_h5_chunks *c);

/** Type, shape and storage of an open data set; `at` and `name` are for messages. */
shoal_status shoal_h5_facts_of(hid_t set, hid_t at, const char *name, shoal_h5_facts *out);

/** A property list of class H5P_LINK_ACCESS, or a class derived from it, that never follows an external link. */
hid_t shoal_h5_stay_inside(hid_t property_class);
/** Reason to reject a data set with this creation property list ("is a virtual data set of another file, ..."), or NULL to
 *  accept it; `packed` as in shoal_h5_refuse_foreign_at. */
const char *shoal_h5_foreign(hid_t dcpl, bool *packed, char buf[SHOAL_H5_REASON]);
/** True if the environment turns off locks (HDF5_USE_FILE_LOCKING=FALSE). */
bool shoal_h5_locks_off(void);
#endif
