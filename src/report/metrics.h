/* metrics.csv of a run, read by the names of its columns (docs/runs.md), whatever else a method adds. */
#ifndef SHOAL_REPORT_METRICS_H
#define SHOAL_REPORT_METRICS_H
#include "base/status.h"
#include <stddef.h>

#define SHOAL_METRICS(X)                                                                                               \
  X(epoch) X(step) X(train_loss) X(test_loss) X(test_acc) X(time_s) X(samples_per_s) X(wait_share)
#define X(name) double name;
typedef struct {
  SHOAL_METRICS(X) /* NAN: an empty cell, or a column that is not there */
} shoal_metrics_row;
#undef X

typedef struct {
  size_t n;
  shoal_metrics_row *rows; /* [n] in the order of the file: of those with a step */
} shoal_metrics;

/** Reads the file in the run folder `run`; without one there are no rows.  ERR_IO if it cannot be read, ERR_MEM. */
shoal_status shoal_metrics_read(const char *run, shoal_metrics *out);
void shoal_metrics_free(shoal_metrics *m);
#endif
