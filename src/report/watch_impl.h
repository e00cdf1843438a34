/* What `shoal watch` knows of a run, between reading (watch.c) and printing (watch_page.c). */
#ifndef SHOAL_REPORT_WATCH_IMPL_H
#define SHOAL_REPORT_WATCH_IMPL_H
#include "base/cgroup.h"
#include "report/trace.h"
#include "report/watch.h"

typedef struct {
  size_t n, cap;
  double *step, *value;
} shoal_watch_curve;

struct shoal_watch {
  char *dir;
  /* of status.json; numbers that it does not have are NAN or 0 */
  char state[16], reason[512], model[64], method[32];
  int exit_code, rank, attempt, ranks, nodes;
  uint64_t step;
  double epoch, epochs, done, loss, lr, test_loss, test_acc, test_rmse, test_r2, samples_per_s, waiting, left_s;
  double age_s;                    /* since it was written */
  bool gone;                       /* its process was on this host, and is there no more */
  bool saved;                      /* there is a checkpoint */
  char memory[SHOAL_MEMORY_KILLS]; /* that it has run out on this host since, or "" */
  /* of metrics.csv: the training loss of epochs and the test loss of evaluations; and of status.json while watching */
  shoal_watch_curve train, test, live;
  double best_acc, best_step; /* NAN if there was no evaluation */
  /* of the traces */
  shoal_trace_pace *paces; /* [n_paces] by rank */
  size_t n_paces;
  uint64_t paces_read_ns; /* when */
};
#endif
