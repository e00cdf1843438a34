/* Analysis of traces after a run: reading, time breakdown, tables, output and export.  Every number is defined in
 * docs/trace-format.md; recorder and file format are in trace/. */
#ifndef SHOAL_REPORT_TRACE_H
#define SHOAL_REPORT_TRACE_H
#include "trace/trace.h"

/* What a file has of one rank: one attempt, in files of version 1 several. */
typedef struct {
  const char *path;      /* like the strings of info owned by the file */
  int version;           /* of the file's format */
  bool cut;              /* the file is cut off */
  shoal_trace_info info; /* of the last attempt */
  size_t n;
  shoal_trace_record *records; /* [n] after shoal_trace_load */
  uint64_t lost;               /* records that could not be read, after shoal_trace_load */
  size_t ops;
  char **op_names;
  size_t n_groups;
  shoal_trace_group_row *groups; /* none in older files */
  size_t attempts;
  shoal_trace_attempt *attempt_rows;
  shoal_counters counters;                             /* summed over the attempts */
  double clock_offset_ns, clock_drift, clock_bound_ns; /* of the last attempt */
} shoal_trace_data;

typedef struct {
  char *path, *run, *config, *placement; /* placement may be NULL */
  int version;
  uint64_t missing; /* bytes of a file that is cut off */
  size_t n;
  shoal_trace_data *ranks; /* [n] in order of rank; those that begin behind a cut are not there */
  size_t n_energies;       /* 0: the node has no energy counters that could be read */
  shoal_trace_energy *energies;
  int node_cpus, job_cpus; /* of the node, known with its energy; 0: unknown */
} shoal_trace_file_data;
/** Read a trace file, but not its records.  One that is cut off is read as far as it is there, with a warning.  ERR_IO if it is not
 *  a trace or has a newer version. */
shoal_status shoal_trace_read(const char *path, shoal_trace_file_data **out);
void shoal_trace_file_data_destroy(shoal_trace_file_data *f);
/** The same with the last `most` records of every rank, which are all that is read of them: for a run that is going on. */
shoal_status shoal_trace_read_last(const char *path, uint64_t most, shoal_trace_file_data **out);
/** Read the records of a rank.  It may have been killed at any moment, and the file be cut off at any byte: unreadable records are
 *  skipped, with a warning that gives their number. */
shoal_status shoal_trace_load(shoal_trace_data *d);
void shoal_trace_unload(shoal_trace_data *d); /* frees the records */

/* Times of one rank in integer nanoseconds, within a step or within an attempt.  Every moment is attributed to one
 * kind, that of the innermost span covering it (a wait inside a backward span is WAIT); time outside all spans is
 * OTHER.  So all kinds except STEP and EXCHANGE, plus the agreement, add up to the total time.
 *
 *   transfer   ns[EXCHANGE]: at least one exchange was in progress, from its start to its completion on this rank.
 *              This is a union: overlapping exchanges count once.
 *   exposed    ns[WAIT]: the compute thread was blocked in an exchange.
 *   hidden     transfer overlapped by this rank's forward, backward, optimizer or evaluation.
 *   beside     transfer during anything else: input, checkpoint, waits for agreement, time outside spans.
 *
 * A wait lies within the transfer waited for, so transfer = exposed + hidden + beside. */
typedef struct {
  uint64_t step, begin_ns; /* of a step: its number and its begin on the rank's clock */
  uint64_t ns[SHOAL_TRACE_KIND_COUNT];
  uint64_t agreement_ns; /* waits of link class CONTROL, not counted in WAIT: agreement among ranks, no payload */
  uint64_t hidden_ns, beside_ns;
} shoal_trace_times;

typedef struct {
  size_t n;
  shoal_trace_times *steps; /* [n] in chronological order */
  shoal_trace_times inside; /* sum over all steps */
  shoal_trace_times whole;  /* from the first span to the last, time between steps included; ns[STEP] as in `inside` */
  uint64_t begin_ns;        /* of the first span, on the rank's clock */
  uint64_t wall_ns;         /* from there to the end of the last */
  uint64_t exchanges, exchange_bytes; /* number completed, and the payload this rank sent in them */
  /* What samples per second are computed from: the samples of all steps but the first, and the time from its end to that of the
   * last step, without checkpoints and evaluations.  0: not known, in older files or of one step. */
  uint64_t pace_samples, pace_ns;
  bool
      placed; /* level BY_OP.  Else spans were summed by step: transfer, hidden and beside are unknown and 0, and a wait
                  inside another span counts for both, at the cost of OTHER */
} shoal_trace_split;
/** Break down the time of the attempt in row `row` of d->attempt_rows.  O(n log n) in its records.  ERR_MEM. */
shoal_status shoal_trace_split_create(const shoal_trace_data *d, size_t row, shoal_trace_split *out);
void shoal_trace_split_free(shoal_trace_split *s);

/* The last steps of a rank, as its trace file has them: means per step. */
typedef struct {
  int rank, node;
  char host[64];
  uint64_t steps;        /* that were averaged; 0: none recorded yet */
  double step_s, wait_s; /* duration, and the part of it that was blocked in exchanges */
  double agreement_s;    /* waits for agreement, between steps */
} shoal_trace_pace;
/** Of all ranks of the last attempt in the run folder `run`, by rank; *n_out 0 if there is no trace.  A file that cannot be read
 *  is left out.  Caller frees.  ERR_MEM. */
shoal_status shoal_trace_read_pace(const char *run, shoal_trace_pace **out, size_t *n_out);

/* An attempt of a run: its number, or one of these. */
enum {
  SHOAL_TRACE_LAST = -1, /* the last attempt that completed a step */
  SHOAL_TRACE_ALL = -2   /* the sum of all attempts */
};
typedef enum { SHOAL_TRACE_TEXT, SHOAL_TRACE_JSON, SHOAL_TRACE_STEPS } shoal_trace_form;
/** `shoal trace show`: time and bytes of an attempt as text, as JSON, or as CSV with a line per rank and step.  Every
 *  number is defined in docs/trace-format.md.  Keeps the records of one rank and attempt in memory at a time.
 *  @param paths  trace files of one run
 *  @return ERR_USAGE if there is no such attempt or a rank is given twice */
shoal_status shoal_trace_show(const char *const *paths, size_t n, int attempt, shoal_trace_form form, FILE *out);
/* The traces of a run. */
typedef struct {
  const char *name; /* its folder */
  const char *const *paths;
  size_t n;
} shoal_trace_source;
/** `shoal trace show A B`: runs beside each other, each with its last attempt that made a step, or with `attempt`. */
shoal_status shoal_trace_compare(const shoal_trace_source *runs, size_t n, int attempt, bool as_json, FILE *out);
typedef enum { SHOAL_TRACE_CHROME, SHOAL_TRACE_PERFETTO } shoal_trace_program;
/* What is exported; zeroed: all of it. */
typedef struct {
  shoal_trace_program program; /* JSON of Chrome's about:tracing, or the protobuf of Perfetto */
  bool by_step, by_time;       /* only these steps; only what overlaps this time */
  uint64_t first_step, last_step;
  double from_s, to_s; /* since time 0 of the export */
  void (*tell)(uint64_t spans,
               double bytes); /* or NULL: is told before the first is written how much it will be, about */
} shoal_trace_choice;
/** `shoal trace export`: the spans for Chrome's about:tracing or Perfetto.  One process per rank, ordered by node; times on rank 0's
 *  clock from the first span on, with the bound of the conversion in the metadata; overlapping exchanges on separate tracks; flows
 *  between the parts of an exchange.  ERR_USAGE if nothing is in the window. */
shoal_status shoal_trace_export(const char *const *paths, size_t n, int attempt, const shoal_trace_choice *choice,
                                FILE *out);
#endif
