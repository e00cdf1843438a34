/* What the files of trace/ share: the recorder's insides, and the layout of the file. */
#ifndef SHOAL_TRACE_TRACE_IMPL_H
#define SHOAL_TRACE_TRACE_IMPL_H
#include "h5/h5.h"
#include "trace/trace.h"

#define SHOAL_TRACE_FORMAT "shoal-trace"
enum {
  SHOAL_TRACE_VERSION = 1,
  SHOAL_TRACE_RING = 16384, /* records held in memory: 896 KiB */
  SHOAL_TRACE_CHUNK = 4096  /* records per chunk in the file: 224 KiB */
};

/* Where an attempt's records go. */
typedef struct {
  hid_t file, records, ops, attempts;       /* open data sets, < 0 when not */
  hid_t record_type, attempt_type, op_type; /* memory types */
  uint64_t n_records, n_attempts, n_ops;    /* in the file */
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
  shoal_status broken; /* the first write that failed */
  uint64_t last_flush_ns, flush_every_ns;
  uint64_t switches_before[2]; /* voluntary and involuntary ones of this thread, at open */
  char *path;
  shoal_trace_attempt row; /* what the file says of this attempt, kept up to date */
  shoal_trace_file out;
};

hid_t shoal_trace_record_type(bool stored); /* stored: little-endian; else as in memory.  Caller closes */
hid_t shoal_trace_attempt_type(bool stored);
hid_t shoal_trace_text_type(void); /* variable-length UTF-8 */

/** Create the file, or append to the one of earlier attempts; `t` has path, row and the string table so far. */
shoal_status shoal_trace_file_open(shoal_trace *t, const shoal_trace_info *info);
/** Append the string table's news and the ring, empty it, and rewrite the attempt's row. */
shoal_status shoal_trace_file_write(shoal_trace *t);
/** After a failed write: leave the file as the last flush left it, whatever HDF5 still wants to write. */
void shoal_trace_file_abandon(shoal_trace *t);
void shoal_trace_file_close(shoal_trace *t);

uint32_t shoal_trace_add_op(shoal_trace *t, const char *name); /* without looking for it first */

/* The split in two parts: what lies inside steps (STEP itself, and OTHER for the rest) and what lies between them. */
typedef struct {
  double inside[SHOAL_TRACE_KIND_COUNT], between[SHOAL_TRACE_KIND_COUNT];
  uint64_t steps;
} shoal_trace_parts;
void shoal_trace_split_parts(const shoal_trace_data *d, shoal_trace_parts *out);
#endif
