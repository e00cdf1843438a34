/* Writing a checkpoint of this process: a file with a temporary name until it is complete and verified.
 *
 *     open -> put ... or begin, add, add ..., end -> finish: seal, fsync, read back, rename, fsync the folder
 *
 * Writing together with other ranks is ckpt/together; its rank 0 holds one of these. */
#ifndef SHOAL_CKPT_DRAFT_H
#define SHOAL_CKPT_DRAFT_H
#include "ckpt/ckpt.h"
#include "h5/draft.h"
#include "h5/table.h"

typedef struct {
  shoal_h5_draft file;
  shoal_h5_table *set; /* between begin and end */
  shoal_ckpt_index index;
} shoal_ckpt_draft;

/** Make the folder, check for `need` free bytes (0: not checked), create the temporary of `path` with its attributes.
 *  `d` starts as {0}; discard it in any case. */
shoal_status shoal_ckpt_draft_open(shoal_ckpt_draft *d, const char *path, const shoal_ckpt_info *info, uint64_t need);
/** A whole data set.  ERR_ARG for a bad name or shape; ERR_IO with the free bytes.
 *  @param name  parts of visible ASCII joined by slashes, 240 bytes at most; a name that exists is an error
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0 */
shoal_status shoal_ckpt_draft_put(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                  const uint64_t *dims, const void *data);
/** A data set [n] in pieces, in order: begin, add …, end.  After a failed add only `end` with ok = false is left. */
shoal_status shoal_ckpt_draft_begin(shoal_ckpt_draft *d, const char *name, shoal_dtype type, uint64_t n);
shoal_status shoal_ckpt_draft_add(shoal_ckpt_draft *d, uint64_t n, const void *data);
shoal_status shoal_ckpt_draft_end(shoal_ckpt_draft *d, bool ok);
/** Close, seal, fsync, read back, rename, fsync the folder. */
shoal_status shoal_ckpt_draft_finish(shoal_ckpt_draft *d);
/** Free everything; the temporary goes if it is still there.  Silent; also for a draft that was never opened. */
void shoal_ckpt_draft_discard(shoal_ckpt_draft *d);
#endif
