/* Declarations shared by the files that read and print traces: lines per rank, the table of a run, and its summary. */
#ifndef SHOAL_REPORT_TRACE_IMPL_H
#define SHOAL_REPORT_TRACE_IMPL_H
#include "base/json.h"
#include "report/trace.h"

/** True if the record is a sum over its step (level BY_STEP) and so has no position in time. */
bool shoal_trace_is_sum(const shoal_trace_record *r, uint8_t level);
/** The records of the attempt in row `row`. */
const shoal_trace_record *shoal_trace_records_of(const shoal_trace_data *d, size_t row, size_t *n);
void shoal_trace_add_times(shoal_trace_times *to, const shoal_trace_times *t); /* except step and begin_ns */

/* One rank in one attempt, or in all attempts (attempt == SHOAL_TRACE_ALL): then times, steps and counters are sums,
 * and the other members of `row` are those of its last attempt. */
typedef struct {
  int attempt, rank;
  size_t rows; /* number of attempts summed */
  shoal_trace_attempt row;
  uint64_t begin_ns;                          /* of its first span, on its clock; of one attempt */
  uint64_t first_step, last_step;             /* numbers of those in the records; of one attempt */
  uint64_t steps, median_ns, p95_ns, wall_ns; /* percentiles of the step duration: nearest rank, no interpolation */
  uint64_t exchanges, exchange_bytes;
  uint64_t pace_samples, pace_ns; /* as in shoal_trace_split */
  uint64_t cut;                   /* records of a file that is cut off, behind the cut */
  bool placed;
  shoal_trace_times inside, whole;
} shoal_trace_line;

typedef struct {
  uint64_t step, ns; /* ns: duration of the step, summed over ranks */
  uint64_t ranks;    /* number of ranks summed */
} shoal_trace_mean;

/* Summary of an attempt, or of all attempts (the last entry of the table). */
typedef struct {
  int attempt, size;   /* size: number of ranks it ran with, also if not all traces are given; for ALL: of the last */
  uint64_t started_ns; /* start of the rank that started last, since 1970 */
  size_t lines, nodes; /* number of ranks whose traces are given, and of nodes among them */
  uint64_t min_steps, max_steps; /* smallest and largest number of steps of a rank */
  bool closed;                   /* closed on every rank, and no file cut off */
  bool mixed;                    /* the sum of attempts with different numbers of ranks: nothing is averaged */
  shoal_trace_mean *means;       /* [n_means] ordered by step */
  size_t n_means;
} shoal_trace_summary;

typedef struct {
  const char *run; /* owned by the first file */
  shoal_trace_file_data **files;
  size_t n_files;
  shoal_trace_data **parts; /* [n_parts] what the files have of ranks, ordered by rank and start */
  size_t n_parts;
  shoal_trace_line *lines; /* ordered by rank; a rank's sum precedes its attempts */
  size_t n_lines;
  shoal_trace_summary *summaries; /* ordered by attempt; SHOAL_TRACE_ALL last */
  size_t n_summaries;
} shoal_trace_table;

/** Read all files.  Records are loaded part by part and not kept.
 *  @param wanted  attempt that must exist; LAST is replaced by its number */
shoal_status shoal_trace_table_create(const char *const *paths, size_t n, int *wanted, shoal_trace_table **out);
void shoal_trace_table_destroy(shoal_trace_table *t);
const shoal_trace_summary *shoal_trace_table_summary(const shoal_trace_table *t,
                                                     int attempt); /* NULL if there is none */
/** True if this row of a part belongs to `attempt` (a number or ALL).  False for a start that failed early, whose number
 *  was used again. */
bool shoal_trace_table_counts(const shoal_trace_table *t, size_t part, size_t row, int attempt);
/** True if any row of a part does, so that its records are needed. */
bool shoal_trace_table_needs(const shoal_trace_table *t, size_t part, int attempt);
/** Percentiles over steps of the step duration averaged over ranks. */
shoal_status shoal_trace_mean_percentiles(const shoal_trace_summary *summary, uint64_t *median_ns, uint64_t *p95_ns);

/* Energy of the nodes that can count it, from the first rank's file on. */
typedef struct {
  uint64_t uj;
  size_t packages, nodes;       /* counted */
  uint64_t node_cpus, job_cpus; /* of these nodes together; 0: not known of all */
} shoal_trace_joules;

/** The row by which times of this rank in this attempt are converted to rank 0's clock.  Processes of a host have one clock, so it is
 *  that of the host's rank that compared it best: within a host the order of events is exact.  (The own one, if the two contradict
 *  each other: a container may have a clock of its own.) */
const shoal_trace_attempt *shoal_trace_clock_of(const shoal_trace_table *t, int attempt, int rank);

/* Summary of an attempt over all its ranks. */
typedef struct {
  const shoal_trace_summary *summary;
  size_t n;                       /* lines */
  const shoal_trace_line **lines; /* [n] ordered by rank; the array is owned, the lines are borrowed from the table */
  uint64_t rank_steps, wall_ns;   /* summed over ranks, like all times here */
  uint64_t median_ns, p95_ns;     /* percentiles of the step duration averaged over ranks */
  uint64_t exchanges, exchange_bytes, overhead_ns, involuntary_switches;
  shoal_trace_times inside, whole;
  bool placed; /* true for all lines */
  shoal_counters counters;
  uint64_t formula[SHOAL_LINK_COUNT];
  uint64_t batch, samples; /* of all ranks together; 0: not known */
  double samples_per_s;    /* sum over ranks */
  shoal_trace_joules energy;
  double payload_per_step[SHOAL_LINK_COUNT], wire_per_step[SHOAL_LINK_COUNT], messages_per_step[SHOAL_LINK_COUNT];
  /* Set only for a single attempt with steps; otherwise slowest is NULL and the efficiencies are NAN. */
  const shoal_trace_line *slowest; /* rank with the longest step duration, waits excluded */
  bool slowest_waits_least;
  double load_balance, communication,
      parallel; /* POP efficiencies of the steps; parallel is the product of the others */
} shoal_trace_run;
shoal_status shoal_trace_run_create(const shoal_trace_table *t, int attempt, shoal_trace_run *out);
void shoal_trace_run_free(shoal_trace_run *r);

/* ---- trace_key.c: which records belong together ---- */

uint64_t shoal_trace_mix(uint64_t x);                /* spreads differences over all bits */
uint64_t shoal_trace_name_hash(const char *op_name); /* not 0 */
/** Equal for the parts of one exchange on all ranks, and for later ones of the same number.  A hash: two that should differ have 64
 *  bits to do so. */
uint64_t shoal_trace_key(const shoal_trace_record *r, int rank, uint64_t name_hash);

/* ---- where an export goes: trace_chrome.c, trace_perfetto.c ---- */

typedef struct shoal_trace_sink shoal_trace_sink;
/* Called in this order: for each rank its process, then names before the first span of each of its files, tracks before their
 * first span, and spans; begins and ends of a track are in order of time. */
struct shoal_trace_sink {
  void (*process)(shoal_trace_sink *s, const shoal_trace_line *l, const char *name, const char *label, size_t order);
  void (*names)(shoal_trace_sink *s, const shoal_trace_data *d);
  void (*track)(shoal_trace_sink *s, int rank, int track, const char *name);
  /* Nanoseconds since time 0.  flow: the same number on all spans of an exchange; 0: none. */
  void (*begin)(shoal_trace_sink *s, const shoal_trace_data *d, const shoal_trace_record *r, int track, int64_t t0,
                int64_t t1, uint64_t flow);
  void (*end)(shoal_trace_sink *s, int rank, int track, int64_t t1);
  void (*finish)(shoal_trace_sink *s, const shoal_trace_table *t, int attempt, int64_t zero_unix_ns);
  void (*release)(shoal_trace_sink *s);
  FILE *out;
};
shoal_status shoal_trace_chrome_open(FILE *out, shoal_trace_sink **sink);
shoal_status shoal_trace_perfetto_open(FILE *out, shoal_trace_sink **sink);

/* ---- trace_replay.c ---- */

enum { SHOAL_TRACE_KIND_NAME = 64 };
/* Exchanges of one kind: whose names differ in a number at most. */
typedef struct {
  char name[SHOAL_TRACE_KIND_NAME]; /* "bucket" */
  uint64_t exchanges;               /* of several ranks that others depend on; who began last is counted for these: */
  uint64_t undecided;               /* the last two were closer than their clocks are known */
  uint64_t *last;                   /* [n] otherwise, by rank */
  uint64_t others;                  /* parts other than the last one, and in sum how much earlier these began */
  uint64_t ahead_ns;
  uint64_t wait_ns; /* blocked in them, summed over ranks */
} shoal_trace_arrivals;

/* An attempt with steps; efficiencies are NAN where they are not known. */
typedef struct {
  size_t n; /* ranks whose traces are given */
  uint64_t steps;
  bool replayed;                /* false: useful_share, serialisation and transfer are not known */
  const char *why;              /* for what reason */
  int64_t runtime_ns, ideal_ns; /* from the first step to the last, without pauses: as it was, and replayed */
  int64_t useful_ns, most_useful_ns, most_own_ns; /* sum over ranks; the largest of a rank */
  double parallel, load_balance, communication, useful_share, serialisation, transfer;
  shoal_trace_arrivals *kinds; /* [n_kinds] */
  size_t n_kinds;
} shoal_trace_replay;
/** Compute them for one attempt, not for SHOAL_TRACE_ALL.  Keeps the records of exchanges of all its ranks in memory, about 50 bytes
 *  each.  ERR_MEM. */
shoal_status shoal_trace_replay_create(const shoal_trace_table *t, int attempt, shoal_trace_replay *out);
void shoal_trace_replay_free(shoal_trace_replay *r);

/** Steps of the attempt, also those whose records were not kept: counters are of all of them. */
uint64_t shoal_trace_steps_made(const shoal_trace_line *l);
/** Samples of this rank per second of training; 0 if unknown. */
double shoal_trace_samples_per_s(const shoal_trace_line *l);
double shoal_trace_own_ms(const shoal_trace_line *l); /* mean step duration without waits; 0 if there are no steps */
/** Whether its cores were shared: with other ranks, by the placement, or with whatever it was preempted for. */
bool shoal_trace_is_contended(const shoal_trace_line *l);
/** By the placement alone: the ranks on its cores have more threads than these. */
bool shoal_trace_is_crowded(const shoal_trace_line *l);
/** Error bound of the drift.  Each reading has an error of at most its bound, so their difference at most twice the
 *  larger bound; this is divided by the time from the first span to the last, which is a little shorter than the time
 *  between the readings, so the result is an upper bound. */
double shoal_trace_drift_bound_ppm(const shoal_trace_line *l);

/** One run as an object: an element of an array, or the document. */
void shoal_trace_put_json(shoal_json *j, const shoal_trace_table *t, const shoal_trace_run *r,
                          const shoal_trace_replay *x);
void shoal_trace_print_json(const shoal_trace_table *t, const shoal_trace_run *r, const shoal_trace_replay *x,
                            FILE *out);
/** The tree of efficiencies, who begins last, and what to try: trace_efficiency.c.  `x` NULL: several attempts. */
void shoal_trace_print_efficiency(const shoal_trace_run *r, const shoal_trace_replay *x, FILE *out);
void shoal_trace_put_efficiency(shoal_json *j, const shoal_trace_run *r, const shoal_trace_replay *x);

#endif
