/* The layout of a trace file, for recorder and readers; described in docs/trace-format.md. */
#ifndef SHOAL_TRACE_FORMAT_H
#define SHOAL_TRACE_FORMAT_H
#include "h5/table.h"
#include "trace/trace.h"

#define SHOAL_TRACE_FORMAT "shoal-trace"
enum {
  SHOAL_TRACE_VERSION = 1,
  SHOAL_TRACE_CHUNK = 4096 /* records per chunk in the file: 224 KiB */
};

/* The rows of /records, /attempts and /ops.  Members added after the first release of the format are optional; if
 * absent they read as zero, "not known". */
extern const shoal_h5_row shoal_trace_records, shoal_trace_attempts, shoal_trace_ops;
#endif
