/* Collective writing of a checkpoint: all ranks call the same functions; rank 0 writes the file, the others send. */
#ifndef SHOAL_CKPT_TOGETHER_WRITER_H
#define SHOAL_CKPT_TOGETHER_WRITER_H
#include "ckpt/ckpt.h"
#include "comm/group.h"
#include "tensor/backend.h"

typedef struct shoal_ckpt_writer shoal_ckpt_writer;
/** Collective over `control`, which is borrowed until commit.  ERR_IO (the same code on every rank) if the folder is
 *  not writable or has less than `need_bytes` free (0: not checked); no file is left then.  Cost: one agreement; a
 *  buffer of 4 MiB on rank 0 if there are several ranks. */
shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out);
/** Write an array that is equal on all ranks: rank 0 writes its copy.  Not collective; the other ranks return at once.
 *  Errors are stored in the writer and returned by commit; after an error further puts do nothing.
 *  @param name  parts of printable ASCII without blanks, joined by slashes, at most 240 bytes; must not exist yet
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0 */
void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data);
void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value); /* scalar data sets */
void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value);
/** Write an array [n] of every rank K as "replica/K/NAME".  Collective; sent to rank 0 in pieces of 4 MiB, one rank
 *  after the other.  n may differ between ranks, name and type may not (ERR_ARG).  `data` is borrowed for the call.
 *  An array that equals one of a lower rank, bit for bit, is neither sent nor written: it becomes another name of that one.
 *  Cost: a hash of the own array (3 GB/s), an allgather of 40 bytes per rank, then once the data of the ranks that
 *  differ. */
void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data);
/** The same two for f32 in a backend's memory; and reading an array of n elements into it. */
void shoal_ckpt_put_arena(shoal_ckpt_writer *c, shoal_backend *b, const char *name, int ndim, const uint64_t *dims,
                          const float *x);
void shoal_ckpt_put_arena_replica(shoal_ckpt_writer *c, shoal_backend *b, const char *name, uint64_t n, const float *x);
shoal_status shoal_ckpt_get_arena(const shoal_ckpt *c, shoal_backend *b, const char *name, uint64_t n, float *x);
/** Close, fsync, verify, rename, fsync the folder; frees the writer.  Collective; all ranks return the same status.  On
 *  failure the temporary file is removed and older checkpoints are not changed.  Cost on rank 0: the file is read back
 *  from disk. */
shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out /* may be NULL; caller frees */);
void shoal_ckpt_abandon(shoal_ckpt_writer *c); /* not collective; removes the temporary file */

/** Start a dry run, which computes the size of a checkpoint: nothing is written, and the bytes of all puts are counted.
 *  Puts take the same arguments, but are local and do not read the data.  Collective over `control`, which is borrowed
 *  until shoal_ckpt_measured.
 *  @param copies  how many of the ranks' replicas differ, from what is known: the size of `control` if nothing is */
shoal_status shoal_ckpt_measure(shoal_group *control, int copies, shoal_ckpt_writer **out);
/** End a dry run: the bytes of data to write, the same on every rank; frees the writer.  The file will be larger by the
 *  metadata of HDF5, index and seal, less than 2 KiB per array.  Collective. */
shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out);
#endif
