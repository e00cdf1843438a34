/* An HDF5 file that is renamed to its final name when it is complete, safe against a full disk.
 *
 *     open -> tables, data sets, attributes, each after reserving space -> close -> commit: fsync, rename, fsync folder
 *
 * HDF5 cannot recover from a full disk: after a failed write of its metadata cache the file can be neither written nor
 * closed (seen with 1.10.8: "slist not empty"), its handle stays open for the life of the process, and the library may
 * crash at exit.  So HDF5 must never see a full disk.  Before each write, space is reserved for all bytes that HDF5 may
 * write:
 *
 *     0                 end of the HDF5 file       + data + metadata
 *     |=================================|...................|          reserved by fallocate, released if unused
 *
 * If the reservation fails, Shoal reports the error and the file is still consistent.  On file systems that cannot
 * reserve space the write itself may fail; the draft is removed in that case, too. */
#ifndef SHOAL_H5_DRAFT_H
#define SHOAL_H5_DRAFT_H
#include "h5/h5.h"

typedef struct {
  char *path, *tmp; /* tmp: NULL unless that file exists */
  shoal_h5 file;
  int fd;            /* a second descriptor of the file, for reserving space */
  uint64_t reserved; /* bytes reserved, counted from the start of the file */
} shoal_h5_draft;

/** Create a temporary file in the folder of `path`, with space for `bytes` of attributes.  Call discard in any case,
 *  also after an error.  ERR_IO names the path, the reason and, if the disk is full, the free bytes. */
shoal_status shoal_h5_draft_open(shoal_h5_draft *d, const char *path, uint64_t bytes);
/** Reserve space for `bytes` more of data in `chunks` chunks (0: contiguous), plus HDF5's metadata for one data set.
 *  @param what  name of the data in the error: "cannot write WHAT into PATH: ..." */
shoal_status shoal_h5_draft_reserve(shoal_h5_draft *d, const char *what, uint64_t bytes, uint64_t chunks);
/** Flush and close the HDF5 file.  It keeps its temporary name, and the caller may append to d->tmp.  Finish or close
 *  all tables first. */
shoal_status shoal_h5_draft_close(shoal_h5_draft *d);
/** Release unused space, fsync the file and rename it.  The draft must be closed. */
shoal_status shoal_h5_draft_commit(shoal_h5_draft *d);
/** Free everything, and remove the temporary file if it still exists.  Silent; accepts a draft that is { 0 }. */
void shoal_h5_draft_discard(shoal_h5_draft *d);
#endif
