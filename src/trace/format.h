/* The layout of a trace file, for recorder and readers; described in docs/trace-format.md. */
#ifndef SHOAL_TRACE_FORMAT_H
#define SHOAL_TRACE_FORMAT_H
#include "h5/table.h"
#include "trace/trace.h"

#define SHOAL_TRACE_FORMAT "shoal-trace"
enum {
  SHOAL_TRACE_VERSION = 2,  /* 1: a file per rank, with all attempts; only read */
  SHOAL_TRACE_CHUNK = 4096, /* records per chunk in the file: 224 KiB */
  SHOAL_TRACE_NAME = 64     /* bytes of an operation's name, which is cut to 63 */
};

/* The rows of a rank's records, info and ops; info has the rows of version 1's /attempts.  Members added after the first
 * release of the format are optional; if absent they read as zero, "not known". */
extern const shoal_h5_row shoal_trace_records, shoal_trace_attempts, shoal_trace_ops, shoal_trace_groups;
extern const shoal_h5_row shoal_trace_energies;
extern const shoal_h5_row shoal_trace_ops_1; /* of version 1 */
#endif
