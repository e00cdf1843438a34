/* Tracing, per rank: counters that are always kept, and timed spans that are written to HDF5 on request.
 *
 * One call per span appends a fixed-size record to a ring in memory (no lock, no allocation: the compute thread owns the
 * recorder).  One rank of a node writes the rings of all its ranks to one file, in shoal_trace_flush, so the others call
 * no HDF5, and what a killed one recorded is kept.  The file is new with every attempt, in the earliest HDF5 format and
 * flushed (H5Fflush) at fixed intervals, so that a killed writer leaves a readable file.
 * Format: docs/trace-format.md. */
#ifndef SHOAL_TRACE_TRACE_H
#define SHOAL_TRACE_TRACE_H
#include "base/clock.h"
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Link classes: which connection the bytes used.  CONTROL is agreement traffic, excluded from all formulas. */
typedef enum { SHOAL_LINK_SELF, SHOAL_LINK_NODE, SHOAL_LINK_BETWEEN, SHOAL_LINK_CONTROL, SHOAL_LINK_COUNT } shoal_link;
enum { SHOAL_LINK_NONE = 255 };               /* in a record: this span moved no bytes */
const char *shoal_link_name(shoal_link link); /* "self", "node", "between", "control"; "none" for anything else */

/* Counters of one rank.  payload: bytes the method sent; messages: their number; wire: payload plus modelled headers
 * (the model is documented in comm/, where it is computed). */
typedef struct {
  uint64_t payload[SHOAL_LINK_COUNT], wire[SHOAL_LINK_COUNT], messages[SHOAL_LINK_COUNT];
} shoal_counters;

#define SHOAL_TRACE_KINDS(X)                                                                                           \
  X(FORWARD, "forward")                                                                                                \
  X(BACKWARD, "backward")                                                                                              \
  X(OPTIMIZER, "optimizer")                                                                                            \
  X(EXCHANGE, "exchange") /* transfer, from start to completion; may overlap other spans */                            \
  X(WAIT, "wait")         /* compute thread blocked in an exchange: exposed communication */                           \
  X(INPUT, "input")       /* compute thread blocked because the loader had no batch ready */                           \
  X(CHECKPOINT, "checkpoint")                                                                                          \
  X(EVALUATION, "evaluation")                                                                                          \
  X(OTHER, "other")                                                                                                    \
  X(STEP, "step") /* one whole training step; encloses the spans of other kinds */
#define X(name, text) SHOAL_TRACE_##name,
typedef enum { SHOAL_TRACE_KINDS(X) SHOAL_TRACE_KIND_COUNT } shoal_trace_kind;
#undef X
const char *shoal_trace_kind_name(shoal_trace_kind kind);

typedef enum { SHOAL_TRACE_OFF, SHOAL_TRACE_BY_STEP, SHOAL_TRACE_BY_OP } shoal_trace_level;

/* What a rank does in an exchange, and so which records of other ranks it depends on. */
typedef enum {
  SHOAL_TRACE_ROLE_NONE,    /* not known: no other rank's record belongs to this one */
  SHOAL_TRACE_ROLE_ALL,     /* of a group: complete when all members have begun */
  SHOAL_TRACE_ROLE_SOURCE,  /* of a group: gives, and depends on nobody (the root of a broadcast) */
  SHOAL_TRACE_ROLE_SINK,    /* of a group: complete when its sources have begun (the root of a gather) */
  SHOAL_TRACE_ROLE_SWAP,    /* of two ranks: complete when both have begun */
  SHOAL_TRACE_ROLE_SEND,    /* of two ranks: gives */
  SHOAL_TRACE_ROLE_RECEIVE, /* of two ranks: complete when the peer has begun to send */
  SHOAL_TRACE_ROLE_COUNT
} shoal_trace_role;

typedef struct { /* as stored, little-endian, 56 bytes */
  uint64_t t0_ns, t1_ns, step;
  uint32_t op; /* index of the operation's name in the string table */
  uint8_t kind, link, role;
  uint8_t pad;
  int32_t peer;   /* world rank, -1: none or several */
  uint32_t group; /* identity of the group, the same on all its ranks; 0: none */
  uint64_t bytes, seq;
} shoal_trace_record;

/* A group of ranks that exchange: a row of the rank's table. */
enum { SHOAL_TRACE_GROUP_NAME = 56 };
typedef struct {
  uint32_t id;
  int32_t size;
  char name[SHOAL_TRACE_GROUP_NAME];
} shoal_trace_group_row;

/* An exchange.  Records with the same group, name of op, seq and, between two ranks, pair of ranks are parts of one. */
typedef struct {
  uint32_t op, group;
  shoal_trace_role role;
  shoal_link link;
  int peer;            /* world rank, -1: several */
  uint64_t bytes, seq; /* payload sent by this rank; number */
} shoal_trace_exchange;

typedef struct shoal_trace shoal_trace;
typedef struct {
  const char *run_name, *config_text; /* stored as attributes */
  const char *placement;              /* likewise, JSON; NULL: not recorded */
  int rank, size, node, local_rank, attempt;
  const char *host;
  double flush_s;       /* seconds between flushes, default 5 when 0 */
  uint64_t most_bytes;  /* of records in the file; 0: no limit */
  bool keep_last;       /* at the limit overwrite the oldest records, instead of recording no more */
  const char *powercap; /* folder with the node's energy counters, as in /sys/class/powercap; NULL: they are not read */
  int node_cpus, job_cpus; /* hardware threads of the node, and those of it that the job has; 0: unknown */
  bool contended; /* more compute threads than cores on this rank's node: its waits include time other ranks computed */
} shoal_trace_info;

/** Open a recorder that writes a file of its own.  With `path` NULL or level OFF nothing is written, but totals per kind
 *  are still kept (for the live line and the result table).  Not collective.  The file is new: if there is anything of
 *  this name, "-2", "-3", ... is put before its ending. */
shoal_status shoal_trace_open(const char *path, shoal_trace_level level, const shoal_trace_info *info,
                              shoal_trace **out);

/* The ring of a rank's recorder, as the rank that writes sees it. */
typedef struct {
  int rank;
  void *memory;
} shoal_trace_ring;
size_t shoal_trace_ring_bytes(void);
/** Open a recorder whose ring lies in `memory`: zeroed, 8-byte aligned, of shoal_trace_ring_bytes, and valid until the
 *  recorder is closed.  Level BY_STEP or BY_OP.  Never blocks: records are dropped while the ring is full. */
shoal_status shoal_trace_open_ring(void *memory, shoal_trace_level level, const shoal_trace_info *info,
                                   shoal_trace **out);
/** Make this recorder the one that writes, for these ranks [n], itself among them, to a new file as in shoal_trace_open.
 *  All of them must have been opened before. */
shoal_status shoal_trace_write(shoal_trace *t, const char *path, const shoal_trace_info *info,
                               const shoal_trace_ring *ranks, size_t n);
/** Ends the recording; ignores NULL.  A recorder that writes waits (some seconds) until the others of its file have
 *  closed, and then writes what they left. */
shoal_status shoal_trace_close(shoal_trace *t);

/** Index of a name in the string table; adds it on first use.  A linear search: call it once per name, not per step. */
uint32_t shoal_trace_op(shoal_trace *t, const char *name);
void shoal_trace_set_step(shoal_trace *t, uint64_t step);
/** Keeps no records while `pause`; totals and counters go on.  What is due to be written waits.  For measuring what recording costs. */
void shoal_trace_pause(shoal_trace *t, bool pause);
/** Record a completed span.  Cost: about 20 ns.  Level BY_STEP keeps totals, writes a record for each STEP, INPUT,
 *  CHECKPOINT and EVALUATION span, and sums the other kinds into one record per step and kind. */
void shoal_trace_span(shoal_trace *t, shoal_trace_kind kind, uint32_t op, uint64_t t0_ns, uint64_t t1_ns);
/** The end of a training step: a STEP span with the number of samples that this rank trained in it. */
void shoal_trace_end_step(shoal_trace *t, uint32_t op, uint64_t t0_ns, uint64_t t1_ns, uint64_t samples);
/** Record a part of an exchange: kind EXCHANGE, from its start to its completion, or WAIT, the time blocked in it.  A wait that
 *  found it complete has no length and is recorded as well, because the rank depended on it. */
void shoal_trace_transfer(shoal_trace *t, shoal_trace_kind kind, const shoal_trace_exchange *x, uint64_t t0_ns,
                          uint64_t t1_ns);
/** Record both for an exchange in which the rank was blocked from start to completion. */
void shoal_trace_blocked(shoal_trace *t, const shoal_trace_exchange *x, uint64_t t0_ns, uint64_t t1_ns);
/** Identity of a group for its exchanges, equal on all members if all register their groups in the same order.  Call it once per
 *  group.  0 if there are too many. */
uint32_t shoal_trace_group(shoal_trace *t, const char *name, const int *world_ranks, int n);
/** Samples of a step of this rank as planned, and payload it should have sent by the method's formula, since the last call. */
void shoal_trace_set_batch(shoal_trace *t, int samples);
void shoal_trace_add_formula(shoal_trace *t, const uint64_t bytes[SHOAL_LINK_COUNT]);
/** Sum of all spans of a kind since open; those of link class CONTROL (agreement) are not counted. */
double shoal_trace_total_s(const shoal_trace *t, shoal_trace_kind kind);
/** Overhead of tracing on this rank since open: spans times the cost measured at open, plus the time in flushes. */
double shoal_trace_overhead_s(const shoal_trace *t);
/** Peak resident set size of this process in bytes; 0 if unknown. */
uint64_t shoal_trace_peak_bytes(void);
shoal_counters *shoal_trace_counters(shoal_trace *t); /* comm/ adds to them; never NULL */
/** Call it between steps.  Makes this rank's counters known to the rank that writes.  That one writes all records and
 *  flushes the file, if flush_s have passed since the last flush or `even_if_recent`; and writes if a ring is half full.
 *  @return ERR_IO if this or an earlier write failed (the writer's own full ring is written at once).  Only the first
 *          failure is printed; afterwards nothing is written, but totals and counters are kept, so a run can continue
 *          without its trace. */
shoal_status shoal_trace_flush(shoal_trace *t, bool even_if_recent);
/* A clock comparison with rank 0, measured by comm/: when this rank's clock was at `at_ns`, rank 0's was at
 * at_ns - offset_ns, within bound_ns. */
typedef struct {
  uint64_t at_ns;
  double offset_ns, bound_ns;
} shoal_trace_reading;
/** Set this rank's clock readings: the one at the start (`end` NULL), and later both.  Stored in the attempt's row as a
 *  line, local = drift * rank 0 + offset, with the larger of the two bounds. */
void shoal_trace_set_clock(shoal_trace *t, const shoal_trace_reading *start, const shoal_trace_reading *end);

/* Later times, 146 years after a clock's zero, are damage: readers reject them, so that any two differ by an int64_t. */
#define SHOAL_TRACE_LATEST_NS ((uint64_t)1 << 62)

typedef struct { /* a rank's row of info, as stored; in version 1 of /attempts */
  int32_t attempt, size, node, local_rank;
  uint64_t first_record;          /* version 1: the attempt's records end where the next attempt's begin; else 0 */
  uint64_t started_ns, opened_ns; /* time of opening: in nanoseconds since 1970, and on the clock of the records */
  uint64_t flushed_ns;            /* when this row was last updated, on the clock of the records */
  uint64_t overhead_ns, spans;
  uint64_t voluntary_switches,
      involuntary_switches; /* of the recording thread; many involuntary context switches suggest contention */
  uint64_t peak_bytes;      /* peak resident set size of the process, as of the last flush */
  uint64_t dropped;         /* records that are missing: the ring was full, or the file had reached its limit */
  uint64_t overwritten;     /* older records that later ones have replaced (keep_last) */
  uint64_t steps, samples;  /* of this rank in this attempt, whatever became of their records */
  uint64_t formula[SHOAL_LINK_COUNT]; /* payload as the method predicts it */
  double clock_offset_ns, clock_drift, clock_bound_ns;
  uint64_t payload[SHOAL_LINK_COUNT], wire[SHOAL_LINK_COUNT], messages[SHOAL_LINK_COUNT];
  uint8_t level, closed;  /* closed is 0 if the rank was killed or is still running */
  uint8_t clock_readings; /* 2: start and end; 1: start only, drift unknown and set to 1; 0: none */
  uint8_t contended;      /* as in shoal_trace_info */
  int32_t batch;          /* samples of a step of this rank, as planned; 0: unknown */
  char host[64];
} shoal_trace_attempt;

/* The energy of a domain of a node since the file was made: a row of /energy. */
enum { SHOAL_TRACE_DOMAIN_NAME = 32 };
typedef struct {
  char domain[SHOAL_TRACE_DOMAIN_NAME]; /* "package-0" */
  uint64_t uj, t0_ns, t1_ns;            /* microjoules between two times on the clock of the rank that writes */
} shoal_trace_energy;

/** Convert a time on this rank's clock to rank 0's clock, within the row's bound; unchanged if there is no reading, or a damaged one.
 *  Monotonic: a later time never becomes an earlier one. */
int64_t shoal_trace_to_rank0(const shoal_trace_attempt *a, uint64_t local_ns);
double shoal_trace_offset_ns(const shoal_trace_attempt *a); /* local minus rank 0's time, at opening */
/** The line through one (`end` NULL) or two readings; see shoal_trace_set_clock. */
void shoal_trace_clock_fit(const shoal_trace_reading *start, const shoal_trace_reading *end, double *offset_ns,
                           double *drift, double *bound_ns);
#endif
