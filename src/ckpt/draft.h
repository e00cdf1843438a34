/* Writing a file of a checkpoint by one process: it has a temporary name until it is complete and verified.
 *
 *     open -> put ... -> finish: seal, fsync, read back, rename, fsync the folder
 *
 * Shards are finished first, by whichever process, then attached to the main file, whose name makes the checkpoint exist.
 *
 * Collective writing is in ckpt/together; there rank 0 uses this. */
#ifndef SHOAL_CKPT_DRAFT_H
#define SHOAL_CKPT_DRAFT_H
#include "ckpt/ckpt.h"
#include "h5/draft.h"
#include "h5/table.h"

typedef struct {
  shoal_h5_draft file;
  shoal_h5_table *set; /* the current data set, while it is put */
  shoal_ckpt_index index;
  shoal_status (*may)(void *context); /* of shoal_ckpt_info */
  void *context;
} shoal_ckpt_draft;

/** ERR_IO if a checkpoint of `need` bytes at `path`, in an existing folder, has no room on the disk, or one of its files must exceed
 *  the limit of file sizes.
 *  @param files  at most so many, >= 1 */
shoal_status shoal_ckpt_check_space(const char *path, uint64_t need, int64_t files);
/** Create the folder, check that `need` bytes are free (0: not checked), and create the temporary file with its
 *  attributes.  Initialise `d` as {0}, and call discard in any case.
 *  @param path  of the main file, also for a shard (info->shard > 0), whose own path follows from it */
shoal_status shoal_ckpt_draft_open(shoal_ckpt_draft *d, const char *path, const shoal_ckpt_info *info, uint64_t need);
/** Write a data set, in pieces, between which other threads use HDF5.  ERR_ARG for an invalid name or shape; ERR_IO, with the free bytes if the disk is full.
 *  @param name  parts of printable ASCII without blanks, joined by slashes, at most 240 bytes; must not exist yet
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0 */
shoal_status shoal_ckpt_draft_put(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                  const uint64_t *dims, const void *data);
/** Another name of a whole data set of this file, for equal data: same type, shape and bytes, written once. */
shoal_status shoal_ckpt_draft_link(shoal_ckpt_draft *d, const char *name, const char *existing);
/** Path of a shard of the checkpoint whose main file has or will have this path.  Caller frees. */
char *shoal_ckpt_shard_path(const char *main, const char *save, uint32_t number);
/** List the next shard, 1, 2, …, of this save in the main file's draft, and what is in it.  The shard is finished.
 *  @param[out] out  the shard, for reading its arrays by their names; caller closes */
shoal_status shoal_ckpt_draft_attach(shoal_ckpt_draft *d, shoal_ckpt **out);
/** Close, seal, fsync, read back, rename, fsync the folder. */
shoal_status shoal_ckpt_draft_finish(shoal_ckpt_draft *d);
/** Free everything, and remove the temporary file if it still exists.  Silent; accepts a draft never opened. */
void shoal_ckpt_draft_discard(shoal_ckpt_draft *d);
#endif
