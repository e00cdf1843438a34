/* What `shoal submit` and `shoal scale --submit` ask of a batch job: flags, and what a site and a user have set for all jobs. */
#ifndef SHOAL_CLI_JOB_FLAGS_H
#define SHOAL_CLI_JOB_FLAGS_H
#include "config/args.h"
#include "config/option.h"
#include "slurm/job.h"

/* clang-format off */
#define SHOAL_JOB_FLAGS                                                                                                \
  { "--cores", "-c", "CORES", SHOAL_FLAG_VALUE, "cores of each rank, as Slurm counts CPUs" },                          \
  { "--time", "-t", "TIME", SHOAL_FLAG_VALUE, "time limit of a job, as 90min, 2h, 1:30:00 or 2-12:00:00" },            \
  { "--partition", "-p", "NAME", SHOAL_FLAG_VALUE, "Slurm's partition" },                                              \
  { "--account", "-A", "NAME", SHOAL_FLAG_VALUE, "whom the job is charged to" },                                       \
  { "--qos", NULL, "NAME", SHOAL_FLAG_VALUE, "Slurm's quality of service" },                                           \
  { "--lead", NULL, "SECONDS", SHOAL_FLAG_VALUE,                                                                       \
    "the signal to stop comes so long before the time limit; default: what earlier starts needed to save, else 120" }, \
  { "--at-once", NULL, "N", SHOAL_FLAG_VALUE, "no more than N elements of an array run at a time" },                   \
  { "--after", NULL, "JOB,JOB,...", SHOAL_FLAG_LIST, "begin when these jobs have ended well" },                        \
  { "--sbatch", NULL, "OPTION", SHOAL_FLAG_LIST, "another option of sbatch, as in --sbatch=--exclusive" }
/* clang-format on */

typedef struct {
  shoal_config *site; /* of the two files; private */
  char *files[2];     /* that were read, the site's and the user's; NULL: none */
  char time[SHOAL_JOB_TIME];
  double time_s;       /* 0: not known */
  int lead_s;          /* 0: not given */
  char lead_from[192]; /* what the job's lead is by */
  shoal_texts options; /* of sbatch: the files', then the flags' */
  const char *output,
      *error;        /* files that these name, as Slurm writes names; output is none of the options; NULL: not named */
  shoal_texts setup; /* lines of shell */
  shoal_texts dependency; /* --dependency, if jobs are waited for */
  /* for the record, where it is of one: what the run trains to (steps 0: no limit), and the checkpoint that it goes back to, or "never" */
  int64_t epochs, steps;
  const char *resume;
  int study_ranks; /* of the runs of a scaling study */
  shoal_job job;   /* resources and setup are filled in; borrows from this and from the arguments */
} shoal_job_request;

/** Reads both files and the flags.  Files are called shoal/submit.yaml: the site's in a folder of $XDG_CONFIG_DIRS, in /etc/xdg or in
 *  etc/ of the installation, the first of these; the user's in $XDG_CONFIG_HOME, or in ~/.config.  A flag counts more than the user's,
 *  that more than the site's.  ERR_USAGE. */
shoal_status shoal_job_request_read(const shoal_args *a, shoal_job_request *out);
void shoal_job_request_free(shoal_job_request *r);
/** Ranks of each node that the files name, or 1. */
int shoal_job_request_per_node(const shoal_job_request *r);
/** A whole number, 1 or more, of a flag; 0: not given.  ERR_USAGE. */
shoal_status shoal_flag_number(const shoal_args *a, const char *flag, int *out);
/** Sets the lead of the signal: by --lead, or what the runs in these folders have been measured to need.  ERR_USAGE if the time limit
 *  is no longer than that. */
shoal_status shoal_job_request_lead(shoal_job_request *r, const shoal_texts *folders);

/** Writes the script of r->job, whose other members are filled in, into `folder` as `name`, makes the folders of logs, and hands it to sbatch, `chain` jobs
 *  that begin after each other.  What it has done is in FOLDER/job.json (of job.sbatch), which says of an array the names of the elements' folders
 *  in it, and is printed.  If not one job comes of it, nothing of it stays.
 *  @param made  files and folders that were made for it before (run_file.h), which are then removed, too; empty on return */
shoal_status shoal_job_request_submit(shoal_job_request *r, const char *folder, const char *name, int chain,
                                      const shoal_texts *elements, shoal_texts *made);
/** What submits the run in folder `dir` again, whose job was `job`: "submit it again", or of an array's element, which must not take the
 *  others along, "sbatch --array=3 runs/digits-array/job.sbatch".  Caller frees. */
char *shoal_job_again(const char *job, const char *dir);
/** "shoal" if that is this program on the PATH, else its path; caller frees. */
char *shoal_program_name(void);
#endif
