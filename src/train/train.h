/* The training loop, on top of all other layers.  It reads the run file, opens world, data, model and method, and then
 * repeats  batch → forward → backward → exchange → optimizer  until the epochs are done or all ranks agreed to stop. */
#ifndef SHOAL_TRAIN_TRAIN_H
#define SHOAL_TRAIN_TRAIN_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const char *run_file;    /* NULL: settings from `sets` and the environment only */
  const char *const *sets; /* "a.b=c" */
  size_t n_sets;
  const char *resume;       /* "auto" (or NULL), "never", or a checkpoint file */
  const char *topology;     /* pretended topology, or NULL */
  bool allow_faults, quiet; /* quiet: no progress on the terminal, the log file still gets it */
  shoal_status failed;      /* error of the command line, to be agreed on with ranks that may have none */
} shoal_train_args;

/** Runs one rank from start to end.  Collective over all processes of the job; returns the same status on all ranks, or
 *  aborts all ranks if they cannot agree any more.
 *  Failures are printed before it returns or aborts.
 *  @return OK when all epochs are done, STOPPED after an agreed stop with a verified checkpoint, else the error. */
shoal_status shoal_train(const shoal_train_args *args);
#endif
