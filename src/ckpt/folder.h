/* A folder of checkpoints: its contents, the latest one, and removal of old ones. */
#ifndef SHOAL_CKPT_FOLDER_H
#define SHOAL_CKPT_FOLDER_H
#include "base/texts.h"
#include "ckpt/ckpt.h"

/** The newest checkpoint (by step) that verifies; a warning per skipped file gives the reason.  *path_out is NULL if
 *  there is none or the folder does not exist.  ERR_IO if one may not be read, which does not make it damaged,
 *  or if the only one is under the name of another step.  Caller frees. */
shoal_status shoal_ckpt_latest(const char *dir, char **path_out, uint64_t *step_out);
/** The folder of the checkpoints of a run: ckpt/ in `path` if there is one, else `path` itself; caller frees. */
char *shoal_ckpt_folder_of(const char *path);
/** The step of the newest checkpoint in the folder of a run, by the names of the files alone.  -1: there is none, or none is seen. */
long long shoal_ckpt_newest(const char *run);
/** The checkpoint that a user means by `path`: a file, or of a run folder the newest one that verifies.  ERR_IO if it holds none.
 *  Caller frees. */
shoal_status shoal_ckpt_find(const char *path, char **out);
/** Remove the temporary files of writers that have ended (this host and a dead pid, or older than a day), and shards that
 *  belong to no checkpoint; logs each.  Only for who owns the folder: shards of a save under way look like the latter. */
shoal_status shoal_ckpt_sweep(const char *dir);
enum { SHOAL_CKPT_NOT_ONE = -1 };
/** Keep the newest `keep` (at least 1) checkpoints that verify and remove older ones, each with its shards; each kept one is
 *  verified again first.  Damaged files newer than the oldest kept one stay.  With fewer than `keep` good ones nothing is removed.
 *  @param saved  step of a checkpoint that the run which asks verified just now, so that it counts without being read; newer
 *                ones are left alone and do not count, and no child process tries a file; it owns the folder, so orphaned shards go, too.  NOT_ONE: none */
shoal_status shoal_ckpt_prune(const char *dir, int keep, int64_t saved);
/** Move checkpoints of later steps than `step`, with their shards, into the folder DIR/NAME, so that neither latest nor prune see
 *  them.  Adds their number to *n. */
shoal_status shoal_ckpt_set_aside(const char *dir, int64_t step, const char *name, size_t *n);

/** Keep the checkpoint `path`, DIR/NAME, also as DIR/best/NAME, the only one there: other names of the same files, or copies
 *  where the file system has no hard links. */
shoal_status shoal_ckpt_keep_best(const char *path);

typedef struct {
  char *path;    /* of the main file */
  uint64_t step; /* according to the name */
} shoal_ckpt_file;
typedef struct {
  shoal_ckpt_file *at; /* newest first */
  size_t n;
  shoal_texts temporaries; /* names of temporary files, without the folder */
  shoal_texts shards;      /* names of shards, sorted */
} shoal_ckpt_folder;
/** List a folder, without opening the files; a missing folder counts as empty. */
shoal_status shoal_ckpt_folder_scan(const char *dir, shoal_ckpt_folder *out);
void shoal_ckpt_folder_free(shoal_ckpt_folder *f);
/** Names of those of f->shards whose main file is not there or is of another save; not of one whose index cannot be read. */
shoal_status shoal_ckpt_folder_orphans(const char *dir, const shoal_ckpt_folder *f, shoal_texts *out);
/** Open with full verification, silently; `own` as in shoal_ckpt_open_own.  Returns NULL, with the reason in *why (caller
 *  frees), if that fails. */
shoal_ckpt *shoal_ckpt_folder_try(const shoal_ckpt_file *file, bool own, char **why);
#endif
