/* The layout of a trace file, for whoever writes or reads one: docs/trace-format.md. */
#ifndef SHOAL_TRACE_FORMAT_H
#define SHOAL_TRACE_FORMAT_H
#include "h5/h5.h"
#include "trace/trace.h"

#define SHOAL_TRACE_FORMAT "shoal-trace"
enum {
  SHOAL_TRACE_VERSION = 1,
  SHOAL_TRACE_CHUNK = 4096 /* records per chunk in the file: 224 KiB */
};

hid_t shoal_trace_record_type(bool stored); /* stored: little-endian; else as in memory.  Caller closes */
hid_t shoal_trace_attempt_type(bool stored);
hid_t shoal_trace_text_type(void); /* variable-length UTF-8 */
#endif
