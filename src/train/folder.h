/* The run folder: who may write it, what happened in it, where things lie.
 *
 *   runs/NAME/ run.yaml log.txt metrics.csv placement.json status.json lease ckpt/ trace/
 *
 * One run at a time (lease.h).  Rank 0 owns everything here; the other ranks only know the paths. */
#ifndef SHOAL_TRAIN_FOLDER_H
#define SHOAL_TRAIN_FOLDER_H
#include "train/lease.h"
#include <stdio.h>

typedef struct {
  char *dir, *ckpt, *trace; /* paths, owned */
  int attempt;              /* 1 for the first */
  shoal_lease lease;        /* rank 0; touched while the run lives */
  FILE *log, *metrics;      /* rank 0 */
  int gone; /* last columns of metrics that only earlier attempts had: rows end in so many empty cells */
} shoal_folder;

/** Paths only; every rank.  ERR_USAGE if `name` is not a plain name. */
shoal_status shoal_folder_name(const char *root, const char *name, shoal_folder *out);
/** Rank 0: make the folders, take the lease, number the attempt, open the log for append.
 *  ERR_WORLD if another run holds it: the message names job, host and process. */
shoal_status shoal_folder_take(shoal_folder *f);
void shoal_folder_release(shoal_folder *f); /* closes files, gives the lease back, frees; also after half an open */
/** Open metrics.csv, first dropping rows of steps after `step` (they will be computed again).
 *  Rows that are kept have their numbers under the same names, whatever columns this attempt has.
 *  @param more  header of further columns, each with its comma before it */
shoal_status shoal_folder_open_metrics(shoal_folder *f, uint64_t step, const char *more);

/** status.json, atomically: state is running, done, stopped or failed.  Any rank may say failed. */
shoal_status shoal_folder_status(const shoal_folder *f, const char *state, int exit_code, const char *reason,
                                 uint64_t step, uint64_t epoch);
bool shoal_folder_says_failed(const shoal_folder *f); /* this attempt's status.json already tells of a failure */
shoal_status shoal_folder_write(const shoal_folder *f, const char *name, const char *text);
/** Is the file `path` directly in the run's folder of checkpoints?  Folders are compared as the file system knows them,
 *  not by their names: "ckpt-old/" is another one, a link to "ckpt/" is not. */
bool shoal_folder_owns(const shoal_folder *f, const char *path);
bool shoal_folder_has_checkpoints(const shoal_folder *f);
#endif
