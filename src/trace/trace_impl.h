/* What the files of trace/ share: the recorder's insides, and its open file. */
#ifndef SHOAL_TRACE_TRACE_IMPL_H
#define SHOAL_TRACE_TRACE_IMPL_H
#include "base/error.h"
#include "trace/format.h"

enum { SHOAL_TRACE_RING = 16384 }; /* records held in memory: 896 KiB */

/* Where an attempt's records go. */
typedef struct {
  shoal_h5 file;
  shoal_h5_table *records, *ops, *attempts;
  uint64_t own_row; /* of this attempt in /attempts, rewritten by every flush */
} shoal_trace_file;

struct shoal_trace {
  shoal_trace_level level;
  shoal_trace_record *ring; /* NULL: nothing is written */
  size_t fill;
  uint64_t step, total_ns[SHOAL_TRACE_KIND_COUNT];
  uint64_t spans, flush_ns;
  double span_ns; /* measured cost of one span with its two clock readings */
  shoal_counters counters;
  /* level BY_STEP: this step's sums, apart by link so that bytes stay apart */
  struct {
    uint64_t t0_ns, ns, bytes, n;
  } sums[SHOAL_TRACE_KIND_COUNT][SHOAL_LINK_COUNT + 1];
  char **ops;
  size_t n_ops, cap_ops;
  shoal_error broken; /* the first write that failed */
  uint64_t last_flush_ns, flush_every_ns;
  uint64_t switches_before[2]; /* voluntary and involuntary ones of this thread, at open */
  char *path;
  shoal_trace_attempt row; /* what the file says of this attempt, kept up to date */
  shoal_trace_file out;
};

/** Create the file, or append to the one of earlier attempts; `t` has path, row and the string table so far. */
shoal_status shoal_trace_file_open(shoal_trace *t, const shoal_trace_info *info);
/** Append the string table's news and the ring, empty it, and rewrite the attempt's row. */
shoal_status shoal_trace_file_write(shoal_trace *t);
void shoal_trace_file_close(shoal_trace *t);

uint32_t shoal_trace_add_op(shoal_trace *t, const char *name); /* without looking for it first */
#endif
