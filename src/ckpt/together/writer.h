/* Collective writing of a checkpoint: all ranks call the same functions, and each writes its part.
 *
 *     begin -> put ... -> launch -> (training goes on) -> join
 *                      -> commit
 */
#ifndef SHOAL_CKPT_TOGETHER_WRITER_H
#define SHOAL_CKPT_TOGETHER_WRITER_H
#include "ckpt/ckpt.h"
#include "ckpt/together/copies.h"
#include "comm/group.h"
#include "tensor/backend.h"

typedef struct shoal_ckpt_writer shoal_ckpt_writer;
/** Collective over `control`, which is borrowed to the end.  ERR_IO (the same code on every rank) if the folder is
 *  not writable or has less than `need_bytes` free (0: not checked); no file is left then.  Cost: one agreement.
 *  @param info  on rank 0 of the main file; shards take what they need of it: info->data must last until launch, info->may and its
 *               context to the end, and is asked on every rank that writes a file */
shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out);
/** Write an array that is equal on all ranks: rank 0 writes its copy.  Not collective; the other ranks return at once.
 *  Errors are stored in the writer and returned by launch; after an error further puts do nothing.
 *  @param name  parts of printable ASCII without blanks, joined by slashes, at most 240 bytes; must not exist yet
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0
 *  @param data  copied: for small arrays */
void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data);
void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value); /* scalar data sets */
void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value);
/** Write an array [n] of every rank K as "replica/K/NAME".  Not collective, but every rank puts the same names of the same types in
 *  the same order (ERR_ARG); n may differ.
 *  An array that equals one of a lower rank, bit for bit, is written once: it becomes another name of that one.
 *  @param data  copied: for small arrays.  Cost: a hash of it (3 GB/s) */
void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data);
/** The same two for f32 in a backend's memory, of any size: it is not copied where the host reaches it, and must stay as it is until
 *  launch or, if nothing is written beside the training, until join; and reading an array of n elements into it. */
void shoal_ckpt_put_arena(shoal_ckpt_writer *c, shoal_backend *b, const char *name, int ndim, const uint64_t *dims,
                          const float *x);
void shoal_ckpt_put_arena_replica(shoal_ckpt_writer *c, shoal_backend *b, const char *name, uint64_t n, const float *x);
shoal_status shoal_ckpt_get_arena(const shoal_ckpt *c, shoal_backend *b, const char *name, uint64_t n, float *x);

/* A sum over all ranks K of arrays that they put:  Σ_K weight_K · Σ_i factor_i · replica/K/name_i. */
enum { SHOAL_CKPT_TERMS = 3 };
typedef struct {
  int terms;
  struct {
    const char *name; /* of an f32 replica of the same length on all ranks; borrowed to the end */
    float factor;
  } term[SHOAL_CKPT_TERMS];
  double weight; /* of this rank */
} shoal_ckpt_sum;
/** Write an f32 array of all that is cut from such a sum, the same one for all such arrays: dims elements of it from number `first`
 *  on.  Nothing is sent for it: the thread that writes the main file takes the sum from what that file has and from the shards, once
 *  they are there, in f32 and in rank order, so that its bits do not depend on where arrays were written; arrays that are equal on
 *  all ranks give the same bits where weights add up to 1.  A sum that is not finite fails the checkpoint, in join (ERR_NUMERIC).
 *  Not collective, but every rank calls it with the same terms (ERR_ARG).
 *  Cost: rank 0 keeps the sum in memory, and reads the shards' arrays once. */
void shoal_ckpt_put_slice(shoal_ckpt_writer *c, const shoal_ckpt_sum *sum, const char *name, int ndim,
                          const uint64_t *dims, uint64_t first);

typedef enum { SHOAL_CKPT_AUTO, SHOAL_CKPT_ALWAYS, SHOAL_CKPT_NEVER } shoal_ckpt_beside;
enum { SHOAL_CKPT_LARGE = 32 << 20 }; /* bytes to write by one rank: from there on beside the training, with AUTO */
typedef void (*shoal_ckpt_done)(void *context, const char *path, bool beside);
typedef struct {
  uint64_t
      gather; /* rank 0 writes other ranks' arrays, if together they have at most so many bytes; else those beyond 64 KiB
                               go to shards, which each rank writes itself */
  shoal_ckpt_beside beside;  /* whether it is written beside the training, from a copy */
  shoal_ckpt_copies *copies; /* used until join; needed only for writing beside the training */
  shoal_ckpt_done
      done; /* on rank 0, once the checkpoint is there, by the thread that has written it; NULL: nothing is called */
  void *context;
} shoal_ckpt_how;
typedef struct {
  uint64_t bytes;    /* of data that one rank writes, at most: so much memory the copy takes; the same on all ranks */
  bool beside;       /* it is being written beside the training: what was put may change */
  bool lacks_memory; /* it is not, because a rank had no memory for its copy */
  uint32_t shards;   /* on rank 0 */
} shoal_ckpt_launched;
/** Agree on who writes what, and begin to write it beside the training, or leave all of it to join.  Collective.  ERR_ARG, ERR_IO, …
 *  of any put or rank, the same on every rank; the writer is freed then, and no file is left.  Cost: 36 bytes per array and rank come to
 *  rank 0; the arrays that it writes for others; a copy of what this rank writes. */
shoal_status shoal_ckpt_launch(shoal_ckpt_writer *c, const shoal_ckpt_how *how, shoal_ckpt_launched *out);
/** Wait until it is written: every file closed, fsynced, verified, renamed, the main file last; frees the writer.  Collective; all ranks
 *  return the same status.  On failure the new files are removed and older checkpoints are not changed. */
shoal_status shoal_ckpt_join(shoal_ckpt_writer *c, char **path_out /* may be NULL; caller frees */);
/** Launch, with all in one file, and join. */
shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out);
/** Not collective, for the end of a run that fails: before launch the temporary file is removed; after it what is being written is
 *  finished if the other ranks finish theirs within 10 s. */
void shoal_ckpt_abandon(shoal_ckpt_writer *c);

/** Start a dry run, which computes the size of a checkpoint: nothing is written, and the bytes of all puts are counted.
 *  Puts take the same arguments, but are local and do not read the data.  Collective over `control`, which is borrowed
 *  until shoal_ckpt_measured.
 *  @param copies  how many of the ranks' replicas differ, from what is known: the size of `control` if nothing is */
shoal_status shoal_ckpt_measure(shoal_group *control, int copies, shoal_ckpt_writer **out);
/** End a dry run: the bytes of data to write, the same on every rank; frees the writer.  The file will be larger by the
 *  metadata of HDF5, index and seal, less than 2 KiB per array.  Collective.
 *  @param own_out  bytes of data that this rank writes itself, at most */
shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out, uint64_t *own_out);
#endif
