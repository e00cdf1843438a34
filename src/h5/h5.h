/* Shoal's interface to HDF5: library errors become one line that names file and object, files are written in the
 * earliest format, reading does not depend on file locks, and external links, external storage and plug-in filters are
 * rejected.
 *
 * No other folder calls HDF5 (tests/lint/hdf5 and the linker check that).  This header has files, attributes and whole
 * data sets; table.h has data sets that are read and written by rows; draft.h has files that are renamed to their final
 * name when they are complete.
 *
 * Every function may be called from any thread: the library is built thread-safe and serialises its calls. */
#ifndef SHOAL_H5_H5_H
#define SHOAL_H5_H5_H
#include "base/status.h"
#include "h5/dtype.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An open file, or the data set of a table (table.h), borrowed for its attributes.  { 0 } is an invalid handle. */
typedef struct {
  int64_t id;
} shoal_h5;

static inline bool shoal_h5_is_open(shoal_h5 h)
{
  return h.id > 0;
}

void shoal_h5_init(void); /* turns off HDF5's error printing in this thread; the other functions call it */
/** "HDF5 1.10.8 (compiled 1.10.8)": version of the loaded library and of the headers. */
void shoal_h5_versions(char *buf, size_t cap);

/* ---- files ---- */
/** Open for reading, without a lock if the file system refuses one (reported once per process) or another process writes
 *  the file (a warning).  ERR_IO distinguishes a missing file, not HDF5, truncated, marked as open for writing, and locked
 *  (with file system type and advice). */
shoal_status shoal_h5_open(const char *path, shoal_h5 *file_out);
/** The same for a file whose end may be missing, *missing bytes of it: they read as zeros, and objects that lie there, or are
 *  described there, fail.  Only for a reader that can tell zeros from its data, as shoal_h5_table_read_sound helps to. */
shoal_status shoal_h5_open_as_far(const char *path, uint64_t *missing, shoal_h5 *file_out);
/** Create for writing a file that is new, never through a link, in the earliest format, without a lock. */
shoal_status shoal_h5_create(const char *path, shoal_h5 *file_out);
/** Write all buffers to the operating system (H5Fflush).  After a failure only shoal_h5_discard may be called. */
shoal_status shoal_h5_flush(shoal_h5 file);
/** Keep metadata in memory between flushes.  The file on disk is then always that of the last flush, plus raw data that
 *  its metadata does not refer to yet, so a killed writer leaves a readable file. */
shoal_status shoal_h5_hold_metadata(shoal_h5 file);
/** Ignores { 0 }.  Closing a file also closes its open objects; tables must still be closed or finished to free their
 *  memory.  A failure here is only a warning: flush first if all data must be known to be written. */
void shoal_h5_close(shoal_h5 h);
/** Close a file that is already known to be lost; a failure is ignored silently. */
void shoal_h5_discard(shoal_h5 file);
/** Keep the file on disk as of its last flush and drop whatever HDF5 still has to write; call shoal_h5_discard next.
 *  HDF5 cannot close a file without flushing it, and a flush to a full disk would leave metadata without its data. */
void shoal_h5_abandon(shoal_h5 file);

/* ---- whole data sets: dense and row-major, little-endian in the file ---- */
/** Creates the groups of the path.  ndim 0 to 8; 0 is a scalar.  Equal contents give equal bytes: no time stamps. */
shoal_status shoal_h5_write(shoal_h5 at, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                            const void *data);
/** A further name of a data set of this file (a hard link); creates the groups of the path.  ERR_IO if the name exists. */
shoal_status shoal_h5_link(shoal_h5 file, const char *existing, const char *name);
/** Read a whole data set of exactly `n` elements, converted to `type`. */
shoal_status shoal_h5_read(shoal_h5 at, const char *name, shoal_dtype type, size_t n, void *data);
bool shoal_h5_exists(shoal_h5 at, const char *name);      /* also false if a group of the path does not exist */
bool shoal_h5_is_data_set(shoal_h5 at, const char *name); /* exists in this file and is a data set */
/** ERR_IO if `name`, or a group on its way, is a soft link that leads to nothing in this file, as one to itself does: names the
 *  link, where it points, and a cure.  Accepts a name of which there is not even a link. */
shoal_status shoal_h5_refuse_dangling(shoal_h5 file, const char *path, const char *name);
/** Call `each` with the full name of every link below the root ("train/x"), groups before their members. */
shoal_status shoal_h5_list(shoal_h5 file, void (*each)(void *context, const char *name), void *context);

typedef enum {
  SHOAL_H5_OTHER,
  SHOAL_H5_INTEGER,
  SHOAL_H5_FLOAT,
  SHOAL_H5_ENUM,
  SHOAL_H5_TEXT,
  SHOAL_H5_BITS,   /* bit fields, as PyTables writes truth values */
  SHOAL_H5_RECORD, /* compound, of numbers, texts and enumerations */
} shoal_h5_class;
#define SHOAL_H5_NO_OFFSET UINT64_MAX
/* Type, shape and storage of a data set. */
typedef struct {
  int ndim;
  uint64_t dims[8];
  shoal_h5_class class;
  char described[128]; /* "i32", "compound {id: i64, label: f32}"; for messages */
  char member[48];     /* RECORD: the name of its only member; "" if it has several */
  bool only_numbers;   /* RECORD: all of its members are numbers */
  size_t size;         /* bytes of an element */
  bool has_sign;       /* integers only */
  bool exact;          /* the file type is exactly `type`, little-endian */
  shoal_dtype type;
  uint64_t chunk[8]; /* [ndim]; chunk[0] is 0 if not chunked */
  char filters[96];  /* "shuffle, deflate", or "" */
  uint64_t offset;   /* file offset of the elements if they are contiguous, else SHOAL_H5_NO_OFFSET */
} shoal_h5_facts;
/** ERR_IO if the data set is missing, has more than 8 dimensions or more elements than fit 64 bits or than the file can
 *  hold, or is external, virtual or filtered by a plug-in. */
shoal_status shoal_h5_look(shoal_h5 at, const char *name, shoal_h5_facts *out);

/* ---- attributes of a file or data set; writing an existing one replaces it ---- */
shoal_status shoal_h5_put_string(shoal_h5 at, const char *name, const char *text);
shoal_status shoal_h5_put_i64(shoal_h5 at, const char *name, int64_t value);
shoal_status shoal_h5_put_f64s(shoal_h5 at, const char *name, size_t n, const double *values);
shoal_status shoal_h5_put_i64s(shoal_h5 at, const char *name, size_t n, const int64_t *values);
shoal_status shoal_h5_get_string(shoal_h5 at, const char *name, char **out); /* caller frees */
shoal_status shoal_h5_get_i64(shoal_h5 at, const char *name, int64_t *out);
shoal_status shoal_h5_get_i64s(shoal_h5 at, const char *name, size_t n, int64_t *values);
shoal_status shoal_h5_get_f64s(shoal_h5 at, const char *name, size_t n, double *values);
bool shoal_h5_has_attribute(shoal_h5 at, const char *name);
bool shoal_h5_has_attribute_at(shoal_h5 at, const char *object, const char *name); /* of a group or array below */
size_t shoal_h5_attribute_length(shoal_h5 at, const char *name); /* number of values; 0 if there is no such attribute */

/** Walks the whole file and rejects external links, external storage, virtual data sets and any filter other than
 *  deflate, shuffle and fletcher32: ERR_IO names the object. */
shoal_status shoal_h5_refuse_foreign(shoal_h5 file, const char *path);
/** Rejects only `name`, the groups above it and what soft links on the way lead to, for the same reasons; accepts a name
 *  that does not exist.
 *  @param[out] packed  rejected only for a filter: a program that has it can write a copy without */
shoal_status shoal_h5_refuse_foreign_at(shoal_h5 file, const char *path, const char *name, bool *packed);
#endif
