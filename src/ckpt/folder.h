/* A folder of checkpoints: what lies in it, which is the latest, which may go. */
#ifndef SHOAL_CKPT_FOLDER_H
#define SHOAL_CKPT_FOLDER_H
#include "ckpt/ckpt.h"

/** Newest (by step) that verifies; says in one warning line each what it skipped and why.  *path_out NULL if none, also
 *  when there is no folder.  Caller frees. */
shoal_status shoal_ckpt_latest(const char *dir, char **path_out, uint64_t *step_out);
/** Remove temporaries of writers that are gone (same host and dead pid, or older than a day), listed in the log. */
shoal_status shoal_ckpt_sweep(const char *dir);
/** Keep the newest `keep` that verify (at least 1): each is read again before an older file goes.  Damaged files newer
 *  than the oldest kept one stay.  With fewer than `keep` good ones nothing goes. */
shoal_status shoal_ckpt_prune(const char *dir, int keep);

typedef struct {
  char *path;
  uint64_t step; /* of the name */
} shoal_ckpt_file;
typedef struct {
  shoal_ckpt_file *at; /* newest first */
  size_t n;
  char **temporaries; /* names below the folder */
  size_t n_temporaries;
} shoal_ckpt_folder;
/** What lies in a folder, by its names; a missing folder is an empty one. */
shoal_status shoal_ckpt_folder_scan(const char *dir, shoal_ckpt_folder *out);
void shoal_ckpt_folder_free(shoal_ckpt_folder *f);
/** Open with full verification, silently.  NULL and *why (caller frees) when it cannot be used. */
shoal_ckpt *shoal_ckpt_folder_try(const shoal_ckpt_file *file, char **why);
#endif
