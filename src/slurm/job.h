/* Batch jobs: the script of one, handing it to sbatch, and what the queue says.
 *
 *     what is asked for  -> script, a text that people read and may change ->  sbatch: the number of the job
 *
 * There is one script for all jobs, of `shoal submit`, of `shoal scale --submit` and in jobs/: it asks for resources and calls
 * `shoal launch --requeue`, which decides everything else.  Slurm is asked by its commands, and only where they are on the PATH. */
#ifndef SHOAL_SLURM_JOB_H
#define SHOAL_SLURM_JOB_H
#include "base/status.h"
#include "base/str.h"
#include "base/texts.h"
#include <stdbool.h>

enum { SHOAL_JOB_TIME = 32 };

/* An element of a job array: the words that `shoal launch` has for it. */
typedef struct {
  int index;
  shoal_texts words;
} shoal_job_element;

typedef struct {
  const char *about;                 /* of what it is: "digits.yaml" */
  const char *made_by;               /* the command that makes this script */
  const char *name, *output;         /* of the job; its log, with Slurm's %j */
  int nodes, ranks, per_node, cores; /* per_node, cores: 0 if not asked for; ranks are nodes * per_node then */
  const char *time, *partition, *account, *qos; /* NULL: the cluster's default */
  const shoal_texts *options, *setup;           /* of sbatch, as "--exclusive"; lines of shell before the launch */
  int lead_s;                                   /* of the signal before the time limit */
  const char *lead_from;                        /* what that is by: "the default" */
  bool chain;                                   /* the next job goes on, so this one is not requeued */
  const char *program;                          /* shoal, as the shell finds it */
  const shoal_texts *words;                     /* of `shoal launch`; of an array: of all its elements */
  const shoal_job_element *elements;            /* [n_elements] of an array; none: no array */
  size_t n_elements;
  int at_once; /* elements; 0: no limit */
} shoal_job;

/** The whole script. */
void shoal_job_script(const shoal_job *j, shoal_str *out);

/** Reads "90min", "2h" or what sbatch takes ("1-12:00:00", "30"), writes it as [D-]HH:MM:SS.  ERR_USAGE says what would do. */
shoal_status shoal_job_time(const char *text, char out[SHOAL_JOB_TIME], double *seconds);

/** The log of a job, or of an array's element ("70_3"), from the name that sbatch was given; what else Slurm replaces stays.  Caller
 *  frees. */
char *shoal_job_log(const char *output, const char *job);

/** Hands a script to sbatch.  *id: the number of the job; caller frees.  Within a job the new one does not get its variables.
 *  ERR_WORLD: there is no sbatch, or it has refused, and said why.
 *  @param more  further options, such as --dependency=afterany:12 */
shoal_status shoal_job_submit(const char *script, const shoal_texts *more, char **id);

/* A variable of ranks in a job that `shoal launch --requeue` puts back into the queue after a stop. */
#define SHOAL_REQUEUES "SHOAL_REQUEUES"

/* This process's job: "77", of an array's element "70_3", which alone is then meant.  NULL: none.  Caller frees. */
char *shoal_job_here(void);
/** Puts a job back into the queue.  False if Slurm refuses, which it has said. */
bool shoal_job_requeue(const char *id);

typedef struct {
  char *id, *state, *start,
      *reason;             /* "70_3"; "PENDING"; "2026-01-31T12:00:00" or NULL: not known; why it waits, or NULL */
  char *partition, *nodes, /* how many it asks for, "8" */
      *limit,              /* of its time, "1:00:00" */
      *cpus;               /* of all its nodes, "32" */
} shoal_queued;
typedef struct {
  bool asked; /* else there is no squeue, or it does not answer */
  char *why;  /* it does not, in one line, as it says itself; NULL: it does, or there is none */
  shoal_queued *at;
  size_t n;
} shoal_queue;
/** This user's jobs, elements of arrays each for itself.  Without Slurm none.  Waits 10 s for an answer, no longer. */
void shoal_queue_read(shoal_queue *out);
const shoal_queued *shoal_queue_find(const shoal_queue *q, const char *id); /* NULL: not there, or `id` is NULL */
void shoal_queue_free(shoal_queue *q);

typedef struct {
  long nodes;  /* that it has, no more than a job may have */
  long cpus;   /* of the node with the most; 0: not known */
  char *limit; /* of time; NULL: not known */
} shoal_partition;
/** What a partition has; free(limit).  False if Slurm does not say. */
bool shoal_partition_read(const char *name, shoal_partition *out);

/** Whether a program is on the PATH. */
bool shoal_in_path(const char *program);
#endif
