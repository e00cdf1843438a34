/* HDF5 as Shoal uses it: library errors become one line that names file and object, files are written in the earliest
 * format, reading does not depend on locks, and nothing foreign is trusted.
 *
 * No other folder calls HDF5 (tests/lint/hdf5 and the linker check that).  This header has files, attributes and whole
 * data sets; table.h has data sets that are read and written by rows; draft.h has files that get their name only when
 * they are complete.
 *
 * Every function may be called from any thread: the library is built thread-safe and serialises its calls. */
#ifndef SHOAL_H5_H5_H
#define SHOAL_H5_H5_H
#include "base/status.h"
#include "h5/dtype.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An open file; or a data set of one, lent by its table (table.h) for its attributes.  { 0 } is no handle. */
typedef struct {
  int64_t id;
} shoal_h5;

static inline bool shoal_h5_is_open(shoal_h5 h)
{
  return h.id > 0;
}

void shoal_h5_init(void); /* silences HDF5's own error printing in this thread; the other functions call it */
/** "HDF5 1.10.8 (compiled 1.10.8)": the version loaded and the version of the headers. */
void shoal_h5_versions(char *buf, size_t cap);

/* ---- files ---- */
/** Open for reading, without a lock if the file system refuses one (says so once per process).
 *  ERR_IO tells missing file, not HDF5, truncated, locked (with file system type and HDF5_USE_FILE_LOCKING). */
shoal_status shoal_h5_open(const char *path, shoal_h5 *file_out);
/** Create (truncate) for writing, earliest format, no lock needed. */
shoal_status shoal_h5_create(const char *path, shoal_h5 *file_out);
/** Open an existing file for reading and writing, no lock needed.  Same errors as shoal_h5_open. */
shoal_status shoal_h5_append(const char *path, shoal_h5 *file_out);
/** Hand everything written so far to the operating system.  After a failure only shoal_h5_discard is left. */
shoal_status shoal_h5_flush(shoal_h5 file);
/** Between flushes metadata stays in memory, so the file on disk is always that of the last flush, plus raw data that
 *  nothing points at yet: a writer that is killed leaves a readable file. */
shoal_status shoal_h5_hold_metadata(shoal_h5 file);
/** Ignores { 0 }.  Closing a file closes what is still open in it; its tables are closed or finished all the same, to
 *  free their memory.  Flush before, if you must know that everything was written: here a failure is only a warning. */
void shoal_h5_close(shoal_h5 h);
/** Close a file whose loss is known already: says nothing when that fails. */
void shoal_h5_discard(shoal_h5 file);
/** Leave a file as its last flush left it, whatever HDF5 still wants to write; shoal_h5_discard follows.  HDF5 cannot
 *  close a file without flushing it, and a flush onto a full disk would leave it announcing more than is there. */
void shoal_h5_abandon(shoal_h5 file);

/* ---- whole data sets: dense and row-major, little-endian in the file ---- */
/** Groups of the path are made.  ndim 0 to 8; 0 is a scalar.  Equal contents give equal bytes: no times of day. */
shoal_status shoal_h5_write(shoal_h5 at, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                            const void *data);
/** Read a whole data set of exactly `n` elements, converted to `type`. */
shoal_status shoal_h5_read(shoal_h5 at, const char *name, shoal_dtype type, size_t n, void *data);
bool shoal_h5_exists(shoal_h5 at, const char *name);      /* every part of a path */
bool shoal_h5_is_data_set(shoal_h5 at, const char *name); /* it exists, in this file, and is no group */
/** Call `each` with the full name of every link below the root ("train/x"), groups before what is in them. */
shoal_status shoal_h5_list(shoal_h5 file, void (*each)(void *context, const char *name), void *context);

typedef enum { SHOAL_H5_OTHER, SHOAL_H5_INTEGER, SHOAL_H5_FLOAT } shoal_h5_class;
#define SHOAL_H5_NO_OFFSET UINT64_MAX
/* What a data set is, and how it is stored. */
typedef struct {
  int ndim;
  uint64_t dims[8];
  shoal_h5_class class;
  size_t size;   /* bytes of an element */
  bool has_sign; /* integers only */
  bool exact;    /* stored as `type`, little-endian, to the bit */
  shoal_dtype type;
  uint64_t chunk[8]; /* [ndim]; chunk[0] is 0 when it is not chunked */
  char filters[96];  /* "shuffle, deflate", or "" */
  uint64_t offset;   /* byte of the file where its elements begin, when they are one run; else SHOAL_H5_NO_OFFSET */
} shoal_h5_facts;
/** ERR_IO if the data set is missing, has more than 8 dimensions or more elements than 64 bits count, or is external, virtual or
 *  filtered by a plug-in. */
shoal_status shoal_h5_look(shoal_h5 at, const char *name, shoal_h5_facts *out);

/* ---- attributes of a file or data set; putting one again replaces it ---- */
shoal_status shoal_h5_put_string(shoal_h5 at, const char *name, const char *text);
shoal_status shoal_h5_put_i64(shoal_h5 at, const char *name, int64_t value);
shoal_status shoal_h5_put_f64s(shoal_h5 at, const char *name, size_t n, const double *values);
shoal_status shoal_h5_get_string(shoal_h5 at, const char *name, char **out); /* caller frees */
shoal_status shoal_h5_get_i64(shoal_h5 at, const char *name, int64_t *out);
shoal_status shoal_h5_get_f64s(shoal_h5 at, const char *name, size_t n, double *values);
bool shoal_h5_has_attribute(shoal_h5 at, const char *name);
size_t shoal_h5_attribute_length(shoal_h5 at, const char *name); /* values it has; 0 when there is none */

/** Walks the whole file and refuses external and soft links out of it, external storage, virtual data sets and any
 *  filter but deflate, shuffle and fletcher32: ERR_IO names the object. */
shoal_status shoal_h5_refuse_foreign(shoal_h5 file, const char *path);
#endif
