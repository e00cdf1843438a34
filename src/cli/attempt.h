/* `shoal launch --requeue`: what a batch job does before and after its ranks.
 *
 *     status.json    the result that all ranks agreed on; srun may report the signal that ended a slower one
 *     starts.json    how often this job was started without a step forward
 *
 * A run that stopped with a checkpoint goes on in the same job, requeued, while it makes progress.  A job that Slurm itself has started
 * again although the run had no time for a last word, as after the failure of a node, may do so once without a new checkpoint.
 * A step that srun cannot launch, as where that node has just come back and has the first one's files, is tried once more; then the job is
 * requeued, which counts as a start without progress. */
#ifndef SHOAL_CLI_ATTEMPT_H
#define SHOAL_CLI_ATTEMPT_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

/* status.json of a run folder, as it was before a start. */
typedef struct {
  const char *dir; /* borrowed */
  char *before;    /* NULL: there was none */
} shoal_last_word;
enum { SHOAL_LAST_WORD_STATE = 16 };
void shoal_last_word_begin(const char *dir, shoal_last_word *out); /* free(before) */
/** The state that was written since then; "" if nothing was. */
const char *shoal_last_word_state(const shoal_last_word *w, char state[SHOAL_LAST_WORD_STATE]);
/** "rank 1 (n2, process 77)": the rank of which a run that has failed since then says that it is gone; "a rank" if it says of none. */
enum { SHOAL_LAST_WORD_RANK = 160 };
const char *shoal_last_word_gone(const shoal_last_word *w, char rank[SHOAL_LAST_WORD_RANK]);
/** For shoal_launcher_run: whether the run knows of a stop, or has ended. */
bool shoal_last_word_heard(void *last_word);

typedef struct {
  char *job, *dir;    /* "77" or "70_3"; the folder of the run */
  char *again;        /* what submits it again (job_flags.h) */
  char *before;       /* status.json as it was; NULL: there was none */
  int restarts;       /* of the job */
  int idle, failures; /* starts in a row: requeued without a trained step; after a failure without a checkpoint */
  long long stopped;  /* step of the last stop, -1: none */
  int64_t kills;      /* for want of memory on this host, before the ranks began */
  long long saved;    /* step of the newest checkpoint at the last start after a failure, -1: none */
} shoal_attempt;

/** Before the ranks start.  ERR_WORLD outside of a job; ERR_PEER if this start is one too many. */
shoal_status shoal_attempt_begin(const char *dir, shoal_attempt *out);
/** After they have ended with exit code `code`: whether srun could not launch them, so that they are to be started once more in this
 *  job, as a step of another number; says so. */
bool shoal_attempt_again(const shoal_attempt *b, int code);
/** After they have ended with exit code `code`: says what came of it, requeues the job if the run shall go on, and returns the exit
 *  code of the job.  Slurm ends this process when it has requeued the job. */
int shoal_attempt_end(const shoal_attempt *b, int code);
void shoal_attempt_free(shoal_attempt *b);
#endif
