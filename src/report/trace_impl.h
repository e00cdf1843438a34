/* What the files that read and show traces share: lines per rank, the table of a run, and its summary. */
#ifndef SHOAL_REPORT_TRACE_IMPL_H
#define SHOAL_REPORT_TRACE_IMPL_H
#include "report/trace.h"

/** Is this record a sum over its step, which has no place in time? */
bool shoal_trace_is_sum(const shoal_trace_record *r, uint8_t level);
/** Records of row `row`: up to the next row's first, or the end. */
const shoal_trace_record *shoal_trace_records_of(const shoal_trace_data *d, size_t row, size_t *n);
void shoal_trace_add_times(shoal_trace_times *to, const shoal_trace_times *t); /* all but step and begin */

/* One rank in one attempt; or in all of them (attempt SHOAL_TRACE_ALL): then times, steps and counters are sums, and
 * the other facts in `row` those of its last attempt. */
typedef struct {
  int attempt, rank;
  size_t rows; /* how many attempts it sums */
  shoal_trace_attempt row;
  uint64_t steps, median_ns, p95_ns, wall_ns; /* of the steps' lengths: nearest rank, no interpolation */
  uint64_t exchanges, exchange_bytes;
  bool placed;
  shoal_trace_times inside, whole;
} shoal_trace_line;

typedef struct {
  uint64_t step, ns; /* summed over ranks */
  uint64_t ranks;
} shoal_trace_mean;

/* One attempt of the run, or all of them (the last entry of the table). */
typedef struct {
  int attempt, size;   /* size: ranks it ran with, whether their traces are here or not; of ALL: of the last */
  uint64_t started_ns; /* of the rank that started last, since 1970 */
  size_t lines, nodes; /* ranks whose traces are here, and nodes among them */
  uint64_t steps_least, steps_most; /* of a rank */
  bool closed;                      /* on every rank */
  shoal_trace_mean *means;          /* by step */
  size_t n_means;
} shoal_trace_try;

typedef struct {
  char *run;
  size_t n_files;
  shoal_trace_line *lines; /* by file and row, each file's sum after its rows */
  size_t n_lines;
  shoal_trace_try *tries; /* in the order of attempts; SHOAL_TRACE_ALL last */
  size_t n_tries;
} shoal_trace_table;

/** Read all files, one after the other.  @param wanted  checked to exist; LAST is replaced by the number it means */
shoal_status shoal_trace_table_create(const char *const *paths, size_t n, int *wanted, shoal_trace_table **out);
void shoal_trace_table_destroy(shoal_trace_table *t);
const shoal_trace_try *shoal_trace_table_try(const shoal_trace_table *t, int attempt); /* NULL: there is none */
/** Does this row of a rank's file count for `attempt` (a number or ALL)?  Not when its start was refused and the number
 *  used again. */
bool shoal_trace_table_counts(const shoal_trace_table *t, const shoal_trace_data *d, size_t row, int attempt);
/** Percentiles over steps of the mean over ranks of a step's length. */
shoal_status shoal_trace_mean_percentiles(const shoal_trace_try *is, uint64_t *median_ns, uint64_t *p95_ns);

/* The run in one attempt: what its ranks come to together. */
typedef struct {
  const shoal_trace_try *is;
  size_t n;                       /* lines */
  const shoal_trace_line **lines; /* [n] in the order of ranks; borrowed from the table, the array is owned */
  uint64_t rank_steps, wall_ns;   /* summed over ranks, as all times here */
  uint64_t median_ns, p95_ns;     /* of the mean over ranks of each step's length */
  uint64_t exchanges, exchange_bytes, overhead_ns, involuntary_switches;
  shoal_trace_times inside, whole;
  bool placed; /* all of them */
  shoal_counters counters;
  double payload_per_step[SHOAL_LINK_COUNT], wire_per_step[SHOAL_LINK_COUNT], messages_per_step[SHOAL_LINK_COUNT];
  /* The rest only of one attempt, and with steps: else slowest is NULL and the efficiencies are NAN. */
  const shoal_trace_line *slowest; /* most time per step of its own, waits not counted */
  bool slowest_waits_least;
  double load_balance, communication, parallel; /* POP: of the compute inside steps; parallel is their product */
} shoal_trace_run;
shoal_status shoal_trace_run_create(const shoal_trace_table *t, int attempt, shoal_trace_run *out);
void shoal_trace_run_free(shoal_trace_run *r);

double shoal_trace_own_ms(const shoal_trace_line *l); /* a step's time without waits, mean; 0 without steps */
bool shoal_trace_is_contended(const shoal_trace_line *l);
/** Of the drift.  Each reading may be off by its bound, so their difference by two of the larger, over the time between
 *  them; the time from the first span to the last is a little shorter, so this is on the safe side. */
double shoal_trace_drift_bound_ppm(const shoal_trace_line *l);

void shoal_trace_print_json(const shoal_trace_table *t, const shoal_trace_run *r, FILE *out);

#endif
