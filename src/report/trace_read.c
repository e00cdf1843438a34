/* Reading a trace file.
 *
 * The file may come from a rank that was killed, in the worst case during a flush, so that a chunk is in the metadata
 * but was not written.  Records are read block by block up to the first block that fails, and records that were never
 * written (all zero) or are invalid are dropped.  One warning gives the number of lost records. */
#include "base/child.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "h5/table.h"
#include "report/trace_impl.h"
#include "trace/format.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ATTEMPTS = 10000, MOST_RANKS = 1 << 20, OP_BYTES = 256 };

static bool makes_sense(const shoal_trace_record *r)
{
  return (r->t0_ns || r->t1_ns) && r->t0_ns <= SHOAL_TRACE_LATEST_NS && r->t1_ns <= SHOAL_TRACE_LATEST_NS &&
         r->kind < SHOAL_TRACE_KIND_COUNT;
}

/* Numbers of attempts select rows, ranks and sizes count them, and clocks divide. */
static shoal_status check_attempt(const shoal_trace_attempt *a, size_t row, const char *path)
{
  bool counts = a->attempt >= 0 && a->size >= 1 && a->size <= MOST_RANKS && a->node >= 0 && a->local_rank >= 0;
  bool clock = a->clock_readings == 0 || (isfinite(a->clock_offset_ns) && a->clock_drift > 0.5 && a->clock_drift < 2 &&
                                          a->clock_bound_ns >= 0 && a->clock_bound_ns < DBL_MAX);
  SHOAL_CHECK(counts, SHOAL_ERR_IO,
              "row %zu of /attempts in %s is of attempt %d, %d ranks, node %d: it is damaged or made up", row, path,
              a->attempt, a->size, a->node);
  SHOAL_CHECK(a->opened_ns <= SHOAL_TRACE_LATEST_NS && a->started_ns <= SHOAL_TRACE_LATEST_NS, SHOAL_ERR_IO,
              "row %zu of /attempts in %s began at %llu ns, which no clock shows: it is damaged or made up", row, path,
              (unsigned long long)SHOAL_MAX(a->opened_ns, a->started_ns));
  SHOAL_CHECK(
      clock, SHOAL_ERR_IO,
      "row %zu of /attempts in %s has a clock with drift %g, offset %g and bound %g ns: it is damaged or made up", row,
      path, a->clock_drift, a->clock_offset_ns, a->clock_bound_ns);
  return SHOAL_OK;
}

static shoal_status read_records(shoal_h5 file, const char *path, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st;
  SHOAL_TRY(shoal_h5_table_open(file, "records", &shoal_trace_records, &t));
  uint64_t n = shoal_h5_table_rows(t), got, kept = 0;
  SHOAL_TRY_GOTO(st, shoal_limit_memory(path, "the records", n, sizeof *d->records), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->records), end);
  got = shoal_h5_table_read_sound(t, 0, n, d->records);
  /* Attempts refer to records by index, so a dropped record in the middle becomes an empty span, and only the end of
   * the array is cut off. */
  for (uint64_t i = 0; i < got; i++) {
    shoal_trace_record *r = &d->records[i];
    if (makes_sense(r))
      d->n = i + 1, kept++;
    else
      *r = (shoal_trace_record){
        .kind = SHOAL_TRACE_OTHER, .op = SHOAL_TRACE_OTHER, .link = SHOAL_LINK_NONE, .peer = -1
      };
    if (r->op >= d->ops) r->op = r->kind;
  }
  if (kept < n)
    shoal_warn("%llu of %llu records of %s are not readable; was the rank killed while it wrote them?",
               (unsigned long long)(n - kept), (unsigned long long)n, path);
end:
  shoal_h5_table_close(t);
  return st;
}

static shoal_status read_ops(shoal_h5 file, const char *path, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_h5_table_open(file, "ops", &shoal_trace_ops, &t));
  uint64_t n = shoal_h5_table_rows(t);
  SHOAL_CHECK_GOTO(st, n >= SHOAL_TRACE_KIND_COUNT && n < UINT32_MAX, end, SHOAL_ERR_IO,
                   "/ops in %s lacks the names of the kinds", path);
  SHOAL_TRY_GOTO(st, shoal_limit_memory(path, "the names", n, OP_BYTES), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->op_names), end);
  SHOAL_TRY_GOTO(st, shoal_h5_table_read(t, 0, n, d->op_names), end);
  d->ops = n;
end:
  shoal_h5_table_close(t);
  return st;
}

/* Reads the rows, ordered by their records.  Counters are summed; clock and placement are those of the last row. */
static shoal_status read_attempts(shoal_h5 file, const char *path, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_h5_table_open(file, "attempts", &shoal_trace_attempts, &t));
  uint64_t n = shoal_h5_table_rows(t);
  SHOAL_CHECK_GOTO(st, n > 0, end, SHOAL_ERR_IO, "/attempts in %s is empty", path);
  SHOAL_CHECK_GOTO(st, n <= MOST_ATTEMPTS, end, SHOAL_ERR_IO, "/attempts in %s has %llu rows, at most %d make sense",
                   path, (unsigned long long)n, MOST_ATTEMPTS);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->attempt_rows), end);
  SHOAL_TRY_GOTO(st, shoal_h5_table_read(t, 0, n, d->attempt_rows), end);
  d->attempts = n;
  for (size_t i = 0; i < n; i++) {
    shoal_trace_attempt *a = &d->attempt_rows[i];
    a->host[sizeof a->host - 1] = '\0';
    SHOAL_TRY_GOTO(st, check_attempt(a, i, path), end);
    for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
      d->counters.payload[link] += a->payload[link];
      d->counters.wire[link] += a->wire[link];
      d->counters.messages[link] += a->messages[link];
    }
  }
end:
  shoal_h5_table_close(t);
  return st;
}

static shoal_status read_info(shoal_h5 file, const char *path, shoal_trace_data *d)
{
  int64_t version, rank;
  char *format = NULL, *run = NULL, *config = NULL, *placement = NULL;
  SHOAL_CHECK(shoal_h5_has_attribute(file, "format"), SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY(shoal_h5_get_string(file, "format", &format));
  bool ours = strcmp(format, SHOAL_TRACE_FORMAT) == 0;
  free(format);
  SHOAL_CHECK(ours, SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY(shoal_h5_get_i64(file, "version", &version));
  SHOAL_CHECK(version <= SHOAL_TRACE_VERSION, SHOAL_ERR_IO, "%s has trace format %lld, this Shoal reads up to %d", path,
              (long long)version, SHOAL_TRACE_VERSION);
  SHOAL_TRY(shoal_h5_get_i64(file, "rank", &rank));
  SHOAL_CHECK(version >= 1 && rank >= 0 && rank < MOST_RANKS, SHOAL_ERR_IO,
              "%s is the trace of rank %lld, format %lld: it is damaged or made up", path, (long long)rank,
              (long long)version);
  SHOAL_TRY(shoal_h5_get_string(file, "run", &run));
  d->info.run_name = run;
  SHOAL_TRY(shoal_h5_get_string(file, "config", &config));
  d->info.config_text = config;
  if (shoal_h5_has_attribute(file, "placement")) SHOAL_TRY(shoal_h5_get_string(file, "placement", &placement));
  d->info.placement = placement;
  const shoal_trace_attempt *last = &d->attempt_rows[d->attempts - 1];
  d->info.rank = (int)rank;
  d->info.size = last->size;
  d->info.node = last->node;
  d->info.local_rank = last->local_rank;
  d->info.attempt = last->attempt;
  d->info.host = strdup(last->host);
  SHOAL_CHECK(d->info.host, SHOAL_ERR_MEM, "no memory for the facts of %s", path);
  d->clock_offset_ns = last->clock_offset_ns;
  d->clock_drift = last->clock_drift;
  d->clock_bound_ns = last->clock_bound_ns;
  return SHOAL_OK;
}

static shoal_status read_here(const char *path, bool records, shoal_trace_data **out)
{
  shoal_h5 file = { 0 };
  shoal_status st;
  shoal_trace_data *d = calloc(1, sizeof *d);
  SHOAL_CHECK(d, SHOAL_ERR_MEM, "trace %s", path);
  SHOAL_TRY_GOTO(st, shoal_h5_open(path, &file), end);
  SHOAL_CHECK_GOTO(st, shoal_h5_has_attribute(file, "format"), end, SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY_GOTO(st, shoal_h5_refuse_foreign(file, path), end);
  SHOAL_TRY_GOTO(st, read_attempts(file, path, d), end);
  SHOAL_TRY_GOTO(st, read_info(file, path, d), end);
  SHOAL_TRY_GOTO(st, read_ops(file, path, d), end);
  if (records) SHOAL_TRY_GOTO(st, read_records(file, path, d), end);
end:
  shoal_h5_close(file);
  if (st == SHOAL_OK)
    *out = d;
  else
    shoal_trace_data_destroy(d);
  return st;
}

typedef struct {
  const char *path;
  bool records;
} attempt_to_read;

static shoal_status try_to_read(void *what)
{
  const attempt_to_read *a = what;
  shoal_trace_data *d;
  SHOAL_TRY(read_here(a->path, a->records, &d));
  shoal_trace_data_destroy(d);
  return SHOAL_OK;
}

/* HDF5 crashes on some damaged files, and loops on others. */
static shoal_status read_file(const char *path, bool records, shoal_trace_data **out)
{
  attempt_to_read a = { path, records };
  struct stat info;
  int seconds = 5 + (stat(path, &info) == 0 ? (int)(info.st_size >> 27) : 0); /* each takes 128 MiB of records */
  shoal_status st;
  SHOAL_CHECK(shoal_survives(try_to_read, &a, seconds, shoal_memory_limit(), &st), SHOAL_ERR_IO,
              "%s is damaged: HDF5 crashes on it, or does not come to an end", path);
  SHOAL_TRY(st);
  return read_here(path, records, out);
}

shoal_status shoal_trace_read(const char *path, shoal_trace_data **out)
{
  return read_file(path, true, out);
}

shoal_status shoal_trace_read_head(const char *path, shoal_trace_data **out)
{
  return read_file(path, false, out);
}

void shoal_trace_data_destroy(shoal_trace_data *d)
{
  if (!d) return;
  for (size_t i = 0; i < d->ops; i++) free(d->op_names[i]);
  free(d->op_names);
  free(d->records);
  free(d->attempt_rows);
  free((void *)d->info.run_name);
  free((void *)d->info.config_text);
  free((void *)d->info.placement);
  free((void *)d->info.host);
  free(d);
}
