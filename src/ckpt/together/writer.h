/* Writing a checkpoint together: rank 0 holds the file; the others call the same functions and only send.  */
#ifndef SHOAL_CKPT_TOGETHER_WRITER_H
#define SHOAL_CKPT_TOGETHER_WRITER_H
#include "ckpt/ckpt.h"
#include "comm/group.h"

typedef struct shoal_ckpt_writer shoal_ckpt_writer;
/** Collective over `control`, which is borrowed until commit.  ERR_IO (agreed: the same code on every rank) if the
 * folder is not writable or the disk has less than `need_bytes` free (0: not checked); nothing is left behind.  Cost:
 * one agreement; 4 MiB at rank 0 of several. */
shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out);
/** An array that is the same everywhere: rank 0 writes its own.  Not collective; others return at once.
 *  Errors are kept in the writer and come out of commit; further puts after an error do nothing.
 *  @param name  parts of visible ASCII joined by slashes, 240 bytes at most; a name that exists is an error
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0 */
void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data);
void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value); /* scalar data sets */
void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value);
/** An array [n] of every rank, written as "replica/K/NAME": collective; streamed to rank 0 one rank at a time in pieces
 *  of 4 MiB.  n may differ between ranks, name and type may not (ERR_ARG).  `data` is borrowed for the call.  Cost: the
 *  data of the other ranks travels once, and 24 bytes per rank before it. */
void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data);
/** Close, fsync, verify, rename, fsync the folder; frees the writer.  Collective; all ranks return the same verdict.
 *  On failure the temporary is removed and older checkpoints are untouched.  Cost at rank 0: the file is read back
 *  from the disk. */
shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out /* may be NULL; caller frees */);
void shoal_ckpt_abandon(shoal_ckpt_writer *c); /* not collective; removes the temporary */

/** What a checkpoint would hold, before it is begun: a writer that writes nothing and adds up what is put.  Its puts are
 *  local and read no data; each takes the same arguments as the real one.  Collective over `control`, borrowed until
 *  measured. */
shoal_status shoal_ckpt_measure(shoal_group *control, shoal_ckpt_writer **out);
/** Bytes of data that all ranks have put, the same on every rank; frees the writer.  The file is larger by what HDF5 and
 *  the seal add, less than 2 KiB for an array.  Collective. */
shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out);
#endif
