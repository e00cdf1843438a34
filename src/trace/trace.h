/* What happened when, per rank: counters that always run, and timed spans written to HDF5 when asked.
 *
 * A span is closed by one call that appends a fixed-size record to a ring in memory (no lock, no allocation: the
 * compute thread owns the recorder); shoal_trace_flush appends full blocks to the file.  The file is in the earliest
 * HDF5 format and is H5Fflushed at fixed intervals, because a killed rank then leaves a readable file.
 * Format: docs/trace-format.md. */
#ifndef SHOAL_TRACE_TRACE_H
#define SHOAL_TRACE_TRACE_H
#include "base/clock.h"
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Link classes: where bytes went.  CONTROL is agreement traffic, kept out of every formula. */
typedef enum { SHOAL_LINK_SELF, SHOAL_LINK_NODE, SHOAL_LINK_BETWEEN, SHOAL_LINK_CONTROL, SHOAL_LINK_COUNT } shoal_link;
enum { SHOAL_LINK_NONE = 255 };               /* in a record: this span moved no bytes */
const char *shoal_link_name(shoal_link link); /* "self", "node", "between", "control"; "none" for anything else */

/* Counters of one rank.  payload: bytes the method meant to send; messages: how many; wire: payload plus the model of
 * headers (documented where it is computed, in comm/). */
typedef struct {
  uint64_t payload[SHOAL_LINK_COUNT], wire[SHOAL_LINK_COUNT], messages[SHOAL_LINK_COUNT];
} shoal_counters;

#define SHOAL_TRACE_KINDS(X)                                                                                           \
  X(FORWARD, "forward")                                                                                                \
  X(BACKWARD, "backward")                                                                                              \
  X(OPTIMIZER, "optimizer")                                                                                            \
  X(EXCHANGE, "exchange") /* transfer: from start to complete, may overlap others */                                   \
  X(WAIT, "wait")         /* this rank's compute thread blocked in an exchange: exposed */                             \
  X(INPUT, "input")       /* blocked because the loader had no batch */                                                \
  X(CHECKPOINT, "checkpoint")                                                                                          \
  X(EVALUATION, "evaluation")                                                                                          \
  X(OTHER, "other")                                                                                                    \
  X(STEP, "step") /* one whole training step: the frame the others are measured against */
#define X(name, text) SHOAL_TRACE_##name,
typedef enum { SHOAL_TRACE_KINDS(X) SHOAL_TRACE_KIND_COUNT } shoal_trace_kind;
#undef X
const char *shoal_trace_kind_name(shoal_trace_kind kind);

typedef enum { SHOAL_TRACE_OFF, SHOAL_TRACE_BY_STEP, SHOAL_TRACE_BY_OP } shoal_trace_level;

typedef struct { /* as stored, little-endian, 56 bytes */
  uint64_t t0_ns, t1_ns, step;
  uint32_t op; /* index into the string table */
  uint8_t kind, link;
  uint8_t pad[2];
  int32_t peer; /* world rank, -1: none or several */
  uint32_t pad2;
  uint64_t bytes, seq;
} shoal_trace_record;

typedef struct shoal_trace shoal_trace;
typedef struct {
  const char *run_name, *config_text; /* stored as attributes */
  const char *placement;              /* likewise, JSON; NULL: not recorded */
  int rank, size, node, local_rank, attempt;
  const char *host;
  double flush_s; /* seconds between flushes, default 5 when 0 */
  bool contended; /* more compute threads than cores where this rank runs: its waits hold other ranks' work, too */
} shoal_trace_info;

/** A recorder.  `path` NULL or level OFF: nothing is written, yet totals per kind are still kept (they feed the live
 *  line and the result table).  Not collective.  An existing file of an earlier attempt is kept: records append and
 *  `attempt` tells them apart (data set /attempts). */
shoal_status shoal_trace_open(const char *path, shoal_trace_level level, const shoal_trace_info *info,
                              shoal_trace **out);
shoal_status shoal_trace_close(shoal_trace *t); /* writes the counters and the rest; NULL is fine */

/** Number of a name in the string table; adds it on first use.  Not for the step: ask once, keep the number. */
uint32_t shoal_trace_op(shoal_trace *t, const char *name);
void shoal_trace_set_step(shoal_trace *t, uint64_t step);
/** One closed span.  Cost: about 20 ns.  Level BY_STEP keeps totals and STEP, INPUT, CHECKPOINT, EVALUATION records
 *  and sums the other kinds into one record per step and kind. */
void shoal_trace_span(shoal_trace *t, shoal_trace_kind kind, uint32_t op, uint64_t t0_ns, uint64_t t1_ns);
void shoal_trace_transfer(shoal_trace *t, shoal_trace_kind kind, uint32_t op, uint64_t t0_ns, uint64_t t1_ns,
                          shoal_link link, int peer, uint64_t bytes, uint64_t seq);
/** Plain sum of spans since open; waits of class control (agreement) are in none. */
double shoal_trace_total_s(const shoal_trace *t, shoal_trace_kind kind);
/** What tracing itself has cost this rank since open: spans times a cost measured at open, plus the time in flushes. */
double shoal_trace_overhead_s(const shoal_trace *t);
/* Most memory this process had resident at once so far, in bytes; 0: unknown. */
uint64_t shoal_trace_peak_bytes(void);
shoal_counters *shoal_trace_counters(shoal_trace *t); /* comm/ adds to them; never NULL */
/** Write what was recorded and make it readable for others, if flush_s have passed or `even_if_recent`.
 *  @return ERR_IO when this or an earlier write failed (a full ring writes itself); said once, by the first failure.
 *          After that nothing more is written; totals and counters go on, so a run can go on without its trace. */
shoal_status shoal_trace_flush(shoal_trace *t, bool even_if_recent);
/* A clock against rank 0's, measured by comm/: when this rank's clock stood at `at_ns`, rank 0's stood at
 * at_ns - offset_ns, within bound_ns. */
typedef struct {
  uint64_t at_ns;
  double offset_ns, bound_ns;
} shoal_trace_reading;
/** What is known of this rank's clock: the reading at the start, and later both (`end` is NULL before).  Kept in the
 *  attempt's row as a line, local = drift * rank 0 + offset, with the larger of the two bounds. */
void shoal_trace_set_clock(shoal_trace *t, const shoal_trace_reading *start, const shoal_trace_reading *end);

typedef struct { /* a row of /attempts, as stored */
  int32_t attempt, size, node, local_rank;
  uint64_t first_record;          /* the attempt's records go from here to the next attempt's first */
  uint64_t started_ns, opened_ns; /* the same moment: nanoseconds since 1970, and on the clock of the records */
  uint64_t flushed_ns;            /* last flush, clock of the records */
  uint64_t overhead_ns, spans;
  uint64_t voluntary_switches, involuntary_switches; /* of the recording thread; many involuntary ones: contended */
  uint64_t peak_bytes; /* most memory the process had resident at once, up to the last flush */
  double clock_offset_ns, clock_drift, clock_bound_ns;
  uint64_t payload[SHOAL_LINK_COUNT], wire[SHOAL_LINK_COUNT], messages[SHOAL_LINK_COUNT];
  uint8_t level, closed;  /* closed 0: killed, or still running */
  uint8_t clock_readings; /* 2: start and end; 1: start only, the drift is unknown and taken as 1; 0: none */
  uint8_t contended;      /* as in shoal_trace_info */
  uint8_t pad[4];
  char host[64];
} shoal_trace_attempt;

/** A time on this rank's clock as rank 0's clock would show it, within the row's bound; unchanged where no reading was
 *  taken.  Later stays later or equal. */
int64_t shoal_trace_to_rank0(const shoal_trace_attempt *a, uint64_t local_ns);
double shoal_trace_offset_ns(const shoal_trace_attempt *a); /* local - rank 0, when the recorder opened */
/** The line through one (`end` NULL) or two readings; see shoal_trace_set_clock. */
void shoal_trace_clock_fit(const shoal_trace_reading *start, const shoal_trace_reading *end, double *offset_ns,
                           double *drift, double *bound_ns);
#endif
