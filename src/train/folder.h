/* The run folder: its lease, its attempts and its files.
 *
 *   runs/NAME/ run.yaml log.txt metrics.csv placement.json status.json lease ckpt/ trace/
 *
 * One run at a time (lease.h).  Rank 0 owns everything here; the other ranks only know the paths. */
#ifndef SHOAL_TRAIN_FOLDER_H
#define SHOAL_TRAIN_FOLDER_H
#include "train/fit.h"
#include "train/lease.h"
#include "train/rows.h"
#include <stdatomic.h>
#include <stdio.h>

/* What status.json tells of a run besides its state, for whoever watches it: rank 0's view.  NAN: not known. */
typedef struct {
  uint64_t step, epoch;
  const char *model, *method; /* names, borrowed */
  int ranks, nodes;
  double epochs, done;           /* epochs of the run, and the share of it that is done, 0 to 1 */
  double loss, lr;               /* of the last step, on rank 0 */
  double test_loss, test_acc;    /* of the last evaluation */
  shoal_fit_scores fit;          /* likewise, of targets */
  double samples_per_s, waiting; /* over all ranks, and rank 0's share of waits, both since this start's first step */
  double left_s;                 /* until the end */
} shoal_folder_figures;

/* What a stop has been measured to take, told in status.json so that the next attempt knows it from its start.  0: not known. */
typedef struct {
  double step_s, save_s; /* mean of the steps; slowest checkpoint */
} shoal_folder_lead;

typedef struct {
  char *dir, *ckpt, *trace; /* paths, owned */
  int attempt;              /* 1 for the first */
  atomic_int rank;          /* that status.json tells of: this one, unless all end for another's failure */
  char *made;               /* rank 0: the topmost folder that this attempt made for the run; NULL: none; owned */
  int64_t kills;            /* that the kernel of this host had made for want of memory when this attempt began */
  bool found, untold;       /* rank 0: the folder was there before this attempt; it had no status.json */
  bool begun;               /* rank 0: not refused any more */
  bool ends;                /* rank 0: status.json says stopped, and the run has yet to end */
  uint64_t token;           /* of the lease, on every rank; 0: not taken */
  shoal_lease *lease;       /* rank 0; its thread also keeps status.json up to date */
  atomic_bool running;      /* status.json says so */
  atomic_uint_least64_t step, epoch;
  bool told;         /* the lease's thread has written that */
  atomic_bool asked; /* a signal has asked to stop: status.json says so instead of running */
  struct {
    uint64_t step;
    double loss;
  } before;               /* rank 0: what status.json said last: it stays until this start has a step of its own */
  shoal_folder_lead lead; /* rank 0: of earlier attempts, and then of this one; save_s 0: none saved anything */
  shoal_folder_figures figures; /* model is NULL before the first */
  FILE *log;                    /* rank 0 */
  int64_t heading;              /* where this attempt begins in it */
  shoal_rows *metrics;          /* rank 0 */
} shoal_folder;

shoal_status shoal_folder_check_name(const char *name); /* ERR_USAGE if it is not a plain name */
/** Sets the paths, on every rank.  ERR_USAGE if `name` is not a plain name. */
shoal_status shoal_folder_name(const char *root, const char *name, shoal_folder *out);
/** Rank 0: creates the folders, takes the lease, numbers the attempt, opens the log for append.  *again: not taken yet, to
 *  be called again soon; a job of a batch system waits until the lease of a run that cannot be asked is stale.
 *  ERR_WORLD if another run holds it: the message names job, host and process. */
shoal_status shoal_folder_take(shoal_folder *f, bool *again);
/** Makes and removes a file where checkpoints go.  ERR_IO: the first one could not be written either. */
shoal_status shoal_folder_check_writable(const shoal_folder *f);
/** Whether the lease is still ours, on any rank; to be asked before anything is written.  Reads a small file. */
bool shoal_folder_is_ours(const shoal_folder *f);
shoal_status shoal_folder_check(const shoal_folder *f); /* the same, as ERR_WORLD */
/** The errno with which the lease cannot be read; 0 if it can, or if it is gone. */
int shoal_folder_lease_fault(const shoal_folder *f);
/** Rank 0, after every step: what status.json shall say within seconds.  Costs nothing. */
void shoal_folder_progress(shoal_folder *f, uint64_t step, uint64_t epoch);
void shoal_folder_tell(shoal_folder *f, const shoal_folder_figures *figures); /* the same for the rest; copied */
/** Rank 0: a measurement of `lead`; 0 leaves what is known. */
void shoal_folder_measure(shoal_folder *f, double step_s, double save_s);
/** A signal was heard, here or from another rank: within a second status.json says stopping instead of running.  Costs nothing. */
void shoal_folder_hear(shoal_folder *f);
/** From now on what this attempt has made stays: the run is not refused any more. */
void shoal_folder_begin(shoal_folder *f);
/** Closes files, releases the lease, frees; also after a failed open.  Unless this attempt has begun, its traces and the folders that it
 *  made are removed: a run that is refused leaves nothing, in a folder of earlier attempts only its lines in the log. */
void shoal_folder_release(shoal_folder *f);
/** Rank 0, before rows are written: metrics.csv stays open, so if it was removed they would be lost; it is made anew, and a line says
 *  so.  log.txt looks for itself.  Cheap. */
void shoal_folder_renew(const shoal_folder *f);
/** Opens metrics.csv, with the rows of earlier attempts that the checkpoint has; see shoal_rows_open. */
shoal_status shoal_folder_open_metrics(shoal_folder *f, int64_t keep, uint64_t step, const char *more);
/** Before a run begins anew in a folder where an earlier one has saved checkpoints, which are not here any more, or that was emptied
 *  but for metrics.csv: copies that, if it has rows, into ckpt/before-attempt-N and says so.  Rows of a run that was killed before its
 *  first checkpoint come again. */
shoal_status shoal_folder_set_rows_aside(const shoal_folder *f);
/** Rank 0, where a run begins at step 0 in a folder that was there before: says so, and warns if an earlier attempt had saved. */
void shoal_folder_tell_beginning(const shoal_folder *f);
/** Copies metrics.csv, if there is one, into another folder. */
shoal_status shoal_folder_copy_metrics(const shoal_folder *f, const char *to);

/** status.json, atomically: state is running, done, stopped or failed.  Any rank may say failed, and that stays for this
 *  attempt, unless rank 0 has said stopped before: then the checkpoint of the stop is there.  ERR_WORLD if the folder is
 *  not ours any more, as in shoal_folder_write. */
shoal_status shoal_folder_status(shoal_folder *f, const char *state, int exit_code, const char *reason, uint64_t step,
                                 uint64_t epoch);
shoal_status shoal_folder_write(const shoal_folder *f, const char *name, const char *text);
/** Whether the file `path` is directly in the run's checkpoint folder.  Folders are compared by device and inode, not
 *  by name: "ckpt-old/" is another one, a link to "ckpt/" is not. */
bool shoal_folder_owns(const shoal_folder *f, const char *path);
bool shoal_folder_holds(const shoal_folder *f, const char *path); /* or in a folder in it: best/, before-attempt-N/ */
bool shoal_folder_has_checkpoints(const shoal_folder *f);
/** What to type for a new run beside the one that is in the folder, as the end of a message.  Caller frees. */
char *shoal_folder_begin_anew(const shoal_folder *f);
#endif
