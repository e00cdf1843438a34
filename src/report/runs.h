/* All runs below a folder, from their folders alone: one small file each, so a thousand are as easy as one.
 *
 *   status.json   state, step, loss, attempt, job           written by the run, every 5 s while it lives
 *   job*.json     numbers of jobs, log, names of elements,  written by `shoal submit`: of runs that have not begun, too
 *                 and what they train to */
#ifndef SHOAL_REPORT_RUNS_H
#define SHOAL_REPORT_RUNS_H
#include "base/cgroup.h"
#include "base/json.h"
#include "base/texts.h"
#include <stdbool.h>

/* A run says running while it lives.  DEAD: it does not any more, its process is gone or it has been silent for two minutes.
 * SUBMITTED: there are jobs for it, and no word of it yet. */
typedef enum {
  SHOAL_LIFE_SUBMITTED,
  SHOAL_LIFE_RUNNING,
  SHOAL_LIFE_STOPPING,
  SHOAL_LIFE_STOPPED,
  SHOAL_LIFE_DONE,
  SHOAL_LIFE_FAILED,
  SHOAL_LIFE_DEAD
} shoal_life;

typedef struct {
  char *dir, *name; /* name: below the folder that was asked about (of several: with it); its own, if it is a run */
  shoal_life life;
  bool cut;     /* stopped, its checkpoint was written, and it was killed before it ended: `reason` says so */
  bool silent;  /* dead only because nothing was heard: its host cannot be asked from here */
  long stopped; /* its process on this host, which is stopped, as by SIGSTOP; 0: it is not, or not known */
  int exit_code, attempt;
  double epoch;                      /* that are done; NAN: not known */
  double step, done, loss, test_acc; /* done: 0 to 1; loss: of the last step; NAN: not known */
  double age_s;                      /* of its last word; NAN: none */
  char *reason;                      /* of a failure or a stop; "" or more */
  char *log; /* of the job that was submitted last, as sbatch was told (slurm/job.h); NULL: not known */
  /* of the jobs that were submitted last; 0, NULL: not known, or none */
  int to_epoch, to_step;           /* that they train to; to_step 0: no limit */
  char *resume;                    /* the checkpoint that they go back to, or "never" */
  int study_ranks;                 /* of a scaling study, that the run is for */
  char memory[SHOAL_MEMORY_KILLS]; /* that it ran out, if the run was killed or has failed on this host; else "" */
  shoal_texts jobs; /* numbers of its jobs: that of its last start, then those that were submitted for it */
} shoal_run_facts;

typedef struct {
  shoal_run_facts *at; /* [n] sorted by name */
  size_t n, cap;
} shoal_runs;

/** Looks for runs in `n` folders and the folders in them, at most four deep, and not inside of run folders.  ERR_USAGE if there is no
 *  such folder; what cannot be read is left out. */
shoal_status shoal_runs_find(const char *const *folders, size_t n, shoal_runs *out);
void shoal_runs_free(shoal_runs *r);

/** Whether a run is done and has so many epochs, or steps (0: no limit), so that a job of it would end at once. */
bool shoal_run_finished(const shoal_run_facts *r, double epochs, double steps);

/** Whether the process that wrote a status.json ran on this kernel and does not any more: its member "process". */
bool shoal_run_process_gone(const json_t *process);
#endif
