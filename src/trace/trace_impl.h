/* Declarations private to trace/: the recorder and its open file. */
#ifndef SHOAL_TRACE_TRACE_IMPL_H
#define SHOAL_TRACE_TRACE_IMPL_H
#include "base/error.h"
#include "trace/format.h"

enum { SHOAL_TRACE_RING = 16384 }; /* records held in memory: 896 KiB */

/* The open file, with its three tables. */
typedef struct {
  shoal_h5 file;
  shoal_h5_table *records, *ops, *attempts;
  uint64_t own_row; /* row of this attempt in /attempts, rewritten by every flush */
} shoal_trace_file;

struct shoal_trace {
  shoal_trace_level level;
  shoal_trace_record *ring; /* NULL: nothing is written */
  size_t fill;
  uint64_t step, total_ns[SHOAL_TRACE_KIND_COUNT];
  uint64_t spans, flush_ns;
  double span_ns; /* measured cost of one span, including its two clock readings */
  shoal_counters counters;
  /* level BY_STEP: sums over the current step, per kind and link */
  struct {
    uint64_t t0_ns, ns, bytes, n;
  } sums[SHOAL_TRACE_KIND_COUNT][SHOAL_LINK_COUNT + 1];
  char **ops;
  size_t n_ops, cap_ops;
  shoal_error broken; /* error of the first failed write */
  uint64_t last_flush_ns, flush_every_ns;
  uint64_t switches_before[2]; /* this thread's voluntary and involuntary context switches at open */
  char *path;
  shoal_trace_attempt row; /* this attempt's row in the file, updated before each write */
  shoal_trace_file out;
};

/** Create the file, or append to that of earlier attempts.  Needs t->path, t->row and the kinds' names in t->ops. */
shoal_status shoal_trace_file_open(shoal_trace *t, const shoal_trace_info *info);
/** Append new strings and the records of the ring, empty the ring, and rewrite the attempt's row. */
shoal_status shoal_trace_file_write(shoal_trace *t);
void shoal_trace_file_close(shoal_trace *t);

uint32_t shoal_trace_add_op(shoal_trace *t, const char *name); /* appends without searching for the name */
#endif
