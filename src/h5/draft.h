/* A file that gets its name when it is complete, on a disk that may run full.
 *
 *     open -> tables, data sets, attributes, each after a reservation -> close -> commit: fsync, rename, fsync the folder
 *
 * HDF5 does not get over a full disk: a failed write of its cached structure leaves the cache in a state in which the
 * file can be neither written nor closed (seen with 1.10.8: "slist not empty"), its handle stays for the life of the
 * process, and the library may crash as the program ends.  So HDF5 never gets to see a full disk.  Before each write,
 * space is reserved for all bytes HDF5 could touch:
 *
 *     0                 end of the HDF5 file       + data + structure
 *     |=================================|...................|          reserved by fallocate, returned when unused
 *
 * and when the disk refuses, the error is ours and the file is still in order.  File systems that cannot reserve are
 * trusted to fail late: the draft is then removed all the same. */
#ifndef SHOAL_H5_DRAFT_H
#define SHOAL_H5_DRAFT_H
#include "h5/h5.h"

typedef struct {
  char *path, *tmp; /* tmp: only while that file exists */
  shoal_h5 file;
  int fd;            /* the same file, for reserving space */
  uint64_t reserved; /* bytes from the start that the disk has promised */
} shoal_h5_draft;

/** Create the temporary of `path`, in the same folder, with space for `bytes` of attributes.  Discard it in any case.
 *  ERR_IO names the path and the reason; when the disk is full, the free bytes too. */
shoal_status shoal_h5_draft_open(shoal_h5_draft *d, const char *path, uint64_t bytes);
/** Make sure that the disk has room for `bytes` more of data in `chunks` chunks (0: contiguous), besides HDF5's own
 *  structure of one data set.  @param what  names the data in the error: "cannot write WHAT into PATH: ..." */
shoal_status shoal_h5_draft_reserve(shoal_h5_draft *d, const char *what, uint64_t bytes, uint64_t chunks);
/** Write out and close the HDF5 file; it keeps its temporary name, and more may be appended to d->tmp by other means.
 *  Tables are finished or closed before. */
shoal_status shoal_h5_draft_close(shoal_h5_draft *d);
/** Return the space not used, make the file durable and give it its name.  The draft is closed. */
shoal_status shoal_h5_draft_commit(shoal_h5_draft *d);
/** Free everything; the temporary goes if it is still there.  Silent; also for a draft that is { 0 }. */
void shoal_h5_draft_discard(shoal_h5_draft *d);
#endif
