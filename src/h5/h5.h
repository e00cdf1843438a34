/* HDF5 with our manners: library errors become one line of ours that names file and object, files written for others
 * use the earliest format, reading does not depend on locks, and nothing foreign is trusted.
 *
 * All handles are hid_t and are closed by the caller; every function may be called from any thread (thread-safe HDF5
 * serialises them). */
#ifndef SHOAL_H5_H5_H
#define SHOAL_H5_H5_H
#include "base/status.h"
#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Turn a failed HDF5 call (negative result) into our status, keeping the library's own innermost words. */
shoal_status shoal_h5_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define SHOAL_TRY_H5(call, ...)                                                                                        \
  do {                                                                                                                 \
    if ((call) < 0) return shoal_h5_fail(__FILE__, __LINE__, __VA_ARGS__);                                             \
  } while (0)

void shoal_h5_init(void); /* silences HDF5's own error printing; safe to call often; the others call it */

/** Open for reading, without a lock if the file system refuses one (says so once per process).
 *  ERR_IO tells missing file, not HDF5, truncated, locked (with file system type and HDF5_USE_FILE_LOCKING). */
shoal_status shoal_h5_open(const char *path, hid_t *file_out);
/** Create (truncate) for writing, earliest format, no lock needed. */
shoal_status shoal_h5_create(const char *path, hid_t *file_out);
/** Open an existing file for reading and writing, no lock needed.  Same errors as shoal_h5_open. */
shoal_status shoal_h5_append(const char *path, hid_t *file_out);
/** Any kind of handle; ignores < 0.  Closing a file closes what is still open in it.  H5Fflush before, if you must know
 *  that everything was written: here a failure is only printed. */
void shoal_h5_close(hid_t id);

/* Datasets are dense and row-major.  `type` is a native memory type (H5T_NATIVE_FLOAT, …); the file stores the
 * little-endian form.  ndim 0 is a scalar. */
shoal_status shoal_h5_write(hid_t at, const char *name, hid_t type, int ndim, const uint64_t *dims, const void *data);
/** Shape and class of a data set: ndim <= 8.  ERR_IO if it is missing or is external, virtual or filtered by a plug-in.
 */
shoal_status shoal_h5_shape(hid_t at, const char *name, int *ndim, uint64_t dims[8], H5T_class_t *type_class,
                            size_t *type_size);
/** Read a whole data set of exactly `n` elements, converted to `type`. */
shoal_status shoal_h5_read(hid_t at, const char *name, hid_t type, size_t n, void *data);
bool shoal_h5_exists(hid_t at, const char *name); /* every part of a path */

shoal_status shoal_h5_put_string(hid_t at, const char *name, const char *text); /* attributes of object `at` */
shoal_status shoal_h5_put_i64(hid_t at, const char *name, int64_t value);
shoal_status shoal_h5_put_f64s(hid_t at, const char *name, size_t n, const double *values);
shoal_status shoal_h5_get_string(hid_t at, const char *name, char **out); /* caller frees */
shoal_status shoal_h5_get_i64(hid_t at, const char *name, int64_t *out);
shoal_status shoal_h5_get_f64s(hid_t at, const char *name, size_t n, double *values);
bool shoal_h5_has_attribute(hid_t at, const char *name);
/** Walks the whole file and refuses external and soft links out of it, external storage, virtual data sets and any
 *  filter but deflate, shuffle and fletcher32: ERR_IO names the object. */
shoal_status shoal_h5_refuse_foreign(hid_t file, const char *path);
#endif
