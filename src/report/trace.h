/* Traces after the run: read, split into kinds of time, tabulated, shown and exported.  Every number is defined in
 * docs/trace-format.md; the recorder and the file format are trace/. */
#ifndef SHOAL_REPORT_TRACE_H
#define SHOAL_REPORT_TRACE_H
#include "trace/trace.h"

typedef struct {
  shoal_trace_info info; /* of the last attempt; strings owned by the reader */
  size_t n;
  shoal_trace_record *records;
  size_t ops;
  char **op_names;
  size_t attempts;
  shoal_trace_attempt *attempt_rows;
  shoal_counters counters;                             /* summed over the attempts */
  double clock_offset_ns, clock_drift, clock_bound_ns; /* of the last attempt */
} shoal_trace_data;
/** Read a whole trace.  A rank may have been killed at any moment: what cannot be read any more is left out, with a
 *  warning that counts it.  ERR_IO when it is no trace or of a newer version. */
shoal_status shoal_trace_read(const char *path, shoal_trace_data **out);
void shoal_trace_data_destroy(shoal_trace_data *d);
/** The same without the records: the rows of /attempts, names and texts. */
shoal_status shoal_trace_read_head(const char *path, shoal_trace_data **out);

/* Times of one rank in whole nanoseconds: in one step, or in all of an attempt.  Every moment is given to one kind,
 * that of the innermost span covering it (a wait inside a backward span is wait), and what no span explains is OTHER.
 * So all kinds but STEP and EXCHANGE, and the agreement, add up to the time they split.
 *
 *   transfer   ns[EXCHANGE]: at least one exchange was under way, from its start to its completion as this rank saw it.
 *              A union: exchanges under way together count once.
 *   exposed    ns[WAIT]: blocked in an exchange.
 *   hidden     transfer under own forward, backward, optimizer or evaluation.
 *   beside     transfer under anything else: input, checkpoint, waits for agreement, unexplained time.
 *
 * Waits lie inside the transfers waited for, so transfer = exposed + hidden + beside. */
typedef struct {
  uint64_t step, begin_ns; /* of a step: its number, and when it began on the rank's clock */
  uint64_t ns[SHOAL_TRACE_KIND_COUNT];
  uint64_t agreement_ns; /* waits of link class control, kept out of WAIT: votes, not payload */
  uint64_t hidden_ns, beside_ns;
} shoal_trace_times;

typedef struct {
  size_t n;
  shoal_trace_times *steps; /* [n] in the order of time */
  shoal_trace_times inside; /* all steps together */
  shoal_trace_times whole;  /* and what lies between them, from the first span to the last; ns[STEP] as in `inside` */
  uint64_t wall_ns;         /* from the begin of the first span to the end of the last */
  uint64_t exchanges, exchange_bytes; /* completed, and the payload this rank sent in them */
  bool
      placed; /* level BY_OP.  Else spans were summed by step: transfer, hidden and beside are unknown and 0, and a wait
                  inside another span counts for both, at the cost of OTHER */
} shoal_trace_split;
/** Split row `row` of d->attempt_rows.  O(n log n) in the attempt's records.  ERR_MEM. */
shoal_status shoal_trace_split_create(const shoal_trace_data *d, size_t row, shoal_trace_split *out);
void shoal_trace_split_free(shoal_trace_split *s);

/* Which attempt of a run: its number, or one of these. */
enum {
  SHOAL_TRACE_LAST = -1, /* the last one that made a step */
  SHOAL_TRACE_ALL = -2   /* all together */
};
typedef enum { SHOAL_TRACE_TEXT, SHOAL_TRACE_JSON, SHOAL_TRACE_STEPS } shoal_trace_form;
/** `shoal trace show`: where the time and the bytes of an attempt went, for people, as JSON, or a CSV line per rank and
 *  step.  Every number is defined in docs/trace-format.md.  Holds the records of one file at a time.
 *  @param paths  trace files of one run, a rank each
 *  ERR_USAGE: no such attempt, or a rank given twice */
shoal_status shoal_trace_show(const char *const *paths, size_t n, int attempt, shoal_trace_form form, FILE *out);
/** `shoal trace export`: the same spans as JSON for Chrome's about:tracing and Perfetto.  A process per rank, in the
 *  order of nodes; times on rank 0's clock, with its bound in the metadata; exchanges on tracks of their own, as many
 *  as were under way together. */
shoal_status shoal_trace_export(const char *const *paths, size_t n, int attempt, FILE *out);
#endif
