/* A scaling study: the runs that a run file becomes with several rank counts and methods, in a folder of their own.
 *
 *     digits.yaml, --ranks 1,2 --methods sync,daso
 *       runs/digits-scale/   sync-1.yaml sync-2.yaml daso-1.yaml daso-2.yaml     run files
 *                            sync-1/ sync-2/ daso-1/ daso-2/                     and their run folders */
#ifndef SHOAL_CLI_STUDY_H
#define SHOAL_CLI_STUDY_H
#include "base/str.h"
#include "base/texts.h"

typedef enum { SHOAL_RUN_NEW, SHOAL_RUN_BEGUN, SHOAL_RUN_DONE } shoal_run_state;

typedef struct {
  const char *method; /* borrowed from the request */
  int ranks, nodes;   /* nodes: that they are spread over; 0: as they are */
  char *file, *dir;   /* its run file and its run folder */
  shoal_run_state state;
  /* of a run that is done, NAN where metrics.csv does not say */
  double speed, wait_share, test_acc, time_s; /* speed in samples/s; of all its attempts */
  /* that it was done with, if they are not `ranks` and `nodes`: it has no speed then; else 0 */
  int other_ranks, other_nodes;
} shoal_study_run;

typedef struct {
  const char *run_file;
  const char *const *sets;
  size_t n_sets;
  shoal_texts methods; /* none: that of the run file */
  int *ranks;          /* [n_ranks] ascending */
  size_t n_ranks;
  bool weak;
  int per_node; /* ranks of a node; 0: nodes are as they are */
  int threads;  /* of each rank; 0: as the run file says */
} shoal_study_request;

typedef struct {
  char *dir;
  shoal_study_run *runs; /* [n] methods in the order asked for, each with its rank counts */
  size_t n;
  bool weak;
} shoal_study;

/** Checks all runs and makes nothing.  ERR_USAGE if one of them would be refused, if its batch does not fit the kind of scaling, or if
 *  its run file is there and says something else, with the cure. */
shoal_status shoal_study_open(const shoal_study_request *q, shoal_study *out);
/** Makes the run files that are not there, each whole or not at all.
 *  @param ranks  of the runs of this rank count; 0: of all
 *  @param made   what was not there before is added (run_file.h) */
shoal_status shoal_study_write(const shoal_study_request *q, const shoal_study *s, int ranks, shoal_texts *made);
void shoal_study_close(shoal_study *s);
/** Reads state and speed of a run from its folder. */
void shoal_study_look(shoal_study_run *r);
/** Speeds, speed-up and efficiency of the runs that are done, from all rows of their metrics.csv (docs/runs.md: samples per second). */
void shoal_study_print(const shoal_study *s, shoal_str *out);
#endif
