/* The file a checkpoint is written into while it has only a temporary name; rank 0 holds one. */
#ifndef SHOAL_CKPT_DRAFT_H
#define SHOAL_CKPT_DRAFT_H
#include "ckpt/ckpt_impl.h"

typedef struct {
  char *path, *tmp; /* tmp: only while that file exists */
  hid_t file;
  int fd;            /* the same file, for reserving space */
  uint64_t reserved; /* bytes from the start that the disk has promised */
  shoal_ckpt_index index;
} shoal_ckpt_draft;

/** Make the folder, check for `need` free bytes (0: not checked), create the temporary of `path` with its attributes.
 *  `d` starts as {0}; discard it in any case. */
shoal_status shoal_ckpt_draft_open(shoal_ckpt_draft *d, const char *path, const shoal_ckpt_info *info, uint64_t need);
/** A whole data set.  ERR_ARG for a bad name or shape; ERR_IO with the free bytes. */
shoal_status shoal_ckpt_draft_put(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                  const uint64_t *dims, const void *data);
/** A data set [n] in pieces, in order: begin, add …, end.  After a failed add only `end` with ok = false is left. */
shoal_status shoal_ckpt_draft_begin(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                    const uint64_t *dims, hid_t *set_out);
shoal_status shoal_ckpt_draft_add(shoal_ckpt_draft *d, hid_t set, uint64_t first, uint64_t n, const void *data);
shoal_status shoal_ckpt_draft_end(shoal_ckpt_draft *d, hid_t set, bool ok);
/** Close, seal, fsync, read back, rename, fsync the folder. */
shoal_status shoal_ckpt_draft_finish(shoal_ckpt_draft *d);
/** Free everything; the temporary goes if it is still there.  Silent; also for a draft that was never opened. */
void shoal_ckpt_draft_discard(shoal_ckpt_draft *d);
#endif
