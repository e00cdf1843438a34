/* Reading a trace file, of version 2 (a node's ranks in one attempt) or 1 (a rank with all its attempts).
 *
 *     version 2   /rank-00003/records  /rank-00003/ops               /rank-00003/info, one row
 *     version 1   /records             /ops, of variable length      /attempts, a row per attempt
 *
 * The file may come from a rank that was killed, in the worst case during a flush, so that a chunk is in the metadata
 * but was not written.  Records are read block by block up to the first block that fails, and records that were never
 * written (all zero) or are invalid are dropped.  One warning gives the number of lost records.
 *
 * A file that is cut off, as by a copy to a full disk, is read as far as it is there: what is behind the cut is zero, and
 * ranks of which not even the tables are there are left out. */
#include "base/child.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "h5/table.h"
#include "report/trace_impl.h"
#include "trace/format.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ATTEMPTS = 10000, MOST_RANKS = 1 << 20, OP_BYTES = 256, MOST_GROUPS = 1 << 16, MOST_DOMAINS = 1 << 10 };

static bool makes_sense(const shoal_trace_record *r)
{
  return (r->t0_ns || r->t1_ns) && r->t0_ns <= SHOAL_TRACE_LATEST_NS && r->t1_ns <= SHOAL_TRACE_LATEST_NS &&
         r->kind < SHOAL_TRACE_KIND_COUNT;
}

/* A data set of a rank: version 2 has a group for each. */
static const char *set_name(const shoal_trace_data *d, const char *what, char buf[48])
{
  if (d->version == 1)
    snprintf(buf, 48, "%s", what);
  else
    snprintf(buf, 48, "rank-%05d/%s", d->info.rank, what);
  return buf;
}

static const char *rows_name(const shoal_trace_data *d, char buf[48])
{
  return set_name(d, d->version == 1 ? "attempts" : "info", buf);
}

/* Numbers of attempts select rows, ranks and sizes count them, and clocks divide. */
static shoal_status check_attempt(const shoal_trace_attempt *a, size_t row, const shoal_trace_data *d)
{
  char name[48];
  bool counts = a->attempt >= 0 && a->size >= 1 && a->size <= MOST_RANKS && a->node >= 0 && a->local_rank >= 0;
  bool clock = a->clock_readings == 0 || (isfinite(a->clock_offset_ns) && a->clock_drift > 0.5 && a->clock_drift < 2 &&
                                          a->clock_bound_ns >= 0 && a->clock_bound_ns < DBL_MAX);
  SHOAL_CHECK(counts, SHOAL_ERR_IO,
              "row %zu of /%s in %s is of attempt %d, %d ranks, node %d: it is damaged or made up", row,
              rows_name(d, name), d->path, a->attempt, a->size, a->node);
  SHOAL_CHECK(a->opened_ns <= SHOAL_TRACE_LATEST_NS && a->started_ns <= SHOAL_TRACE_LATEST_NS, SHOAL_ERR_IO,
              "row %zu of /%s in %s began at %llu ns, which no clock shows: it is damaged or made up", row,
              rows_name(d, name), d->path, (unsigned long long)SHOAL_MAX(a->opened_ns, a->started_ns));
  SHOAL_CHECK(clock, SHOAL_ERR_IO,
              "row %zu of /%s in %s has a clock with drift %g, offset %g and bound %g ns: it is damaged or made up",
              row, rows_name(d, name), d->path, a->clock_drift, a->clock_offset_ns, a->clock_bound_ns);
  return SHOAL_OK;
}

static void reverse(shoal_trace_record *r, uint64_t n)
{
  for (uint64_t i = 0; i < n / 2; i++) {
    shoal_trace_record swapped = r[i];
    r[i] = r[n - 1 - i];
    r[n - 1 - i] = swapped;
  }
}

/* With trace.keep last the records go round: the oldest is behind the newest, where time falls most. */
static void unroll(shoal_trace_record *r, uint64_t n)
{
  uint64_t most = 0, begin = 0;
  for (uint64_t i = 1; i < n; i++)
    if (r[i - 1].t1_ns > r[i].t1_ns && r[i - 1].t1_ns - r[i].t1_ns > most) {
      most = r[i - 1].t1_ns - r[i].t1_ns;
      begin = i;
    }
  reverse(r, begin);
  reverse(r + begin, n - begin);
  reverse(r, n);
}

static uint64_t read_newest(shoal_h5_table *t, uint64_t n, uint64_t overwritten, shoal_trace_record *out)
{
  uint64_t rows = shoal_h5_table_rows(t);
  if (n == 0) return 0;
  uint64_t first = (overwritten + rows - n) % rows, part = SHOAL_MIN(n, rows - first);
  uint64_t got = shoal_h5_table_read_sound(t, first, part, out);
  if (got == part && part < n) got += shoal_h5_table_read_sound(t, 0, n - part, out + part);
  if (overwritten > 0) unroll(out, got);
  return got;
}

/* The last `most` records. */
static shoal_status read_records(shoal_h5 file, uint64_t most, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st;
  char name[48];
  SHOAL_TRY(shoal_h5_table_open(file, set_name(d, "records", name), &shoal_trace_records, &t));
  uint64_t n = SHOAL_MIN(shoal_h5_table_rows(t), most), got, kept = 0;
  SHOAL_TRY_GOTO(st, shoal_limit_memory(d->path, "the records", n, sizeof *d->records), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->records), end);
  got = read_newest(t, n, d->attempt_rows[0].overwritten, d->records);
  /* Attempts refer to records by index, so a dropped record in the middle becomes an empty span, and only the end of
   * the array is cut off. */
  d->n = 0;
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
  d->lost = n - kept;
  if (kept < n)
    shoal_warn("%llu of %llu records of rank %d in %s %s", (unsigned long long)d->lost, (unsigned long long)n,
               d->info.rank, d->path,
               d->cut ? "are behind the cut" : "are not readable; was the rank killed while it wrote them?");
end:
  shoal_h5_table_close(t);
  return st;
}

/* Version 1 wrote texts of variable length. */
static shoal_status read_names(shoal_h5_table *t, uint64_t n, shoal_trace_data *d)
{
  char(*fixed)[SHOAL_TRACE_NAME];
  if (d->version == 1) {
    SHOAL_TRY(shoal_h5_table_read(t, 0, n, d->op_names));
    d->ops = n;
    return SHOAL_OK;
  }
  SHOAL_TRY(SHOAL_ALLOC(n, &fixed));
  shoal_status st = shoal_h5_table_read(t, 0, n, fixed);
  for (; d->ops < n && st == SHOAL_OK; d->ops++) {
    d->op_names[d->ops] = fixed[d->ops][0] ? strndup(fixed[d->ops], SHOAL_TRACE_NAME) : strdup("?"); /* behind a cut */
    if (d->op_names[d->ops]) continue;
    st = SHOAL_FAIL(SHOAL_ERR_MEM, "the names of %s", d->path);
    break;
  }
  free(fixed);
  return st;
}

static shoal_status read_ops(shoal_h5 file, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st = SHOAL_OK;
  char name[48];
  SHOAL_TRY(
      shoal_h5_table_open(file, set_name(d, "ops", name), d->version == 1 ? &shoal_trace_ops_1 : &shoal_trace_ops, &t));
  uint64_t n = shoal_h5_table_rows(t);
  SHOAL_CHECK_GOTO(st, n >= SHOAL_TRACE_KIND_COUNT && n < UINT32_MAX, end, SHOAL_ERR_IO,
                   "/%s in %s lacks the names of the kinds", name, d->path);
  SHOAL_TRY_GOTO(st, shoal_limit_memory(d->path, "the names", n, OP_BYTES), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->op_names), end);
  st = read_names(t, n, d);
end:
  shoal_h5_table_close(t);
  return st;
}

/* All rows of a table that older files lack. */
static shoal_status read_all(shoal_h5 file, const char *path, const char *name, const shoal_h5_row *row, size_t each,
                             uint64_t most, size_t *n_out, void **out)
{
  shoal_h5_table *t;
  if (!shoal_h5_exists(file, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_h5_table_open(file, name, row, &t));
  uint64_t n = shoal_h5_table_rows(t);
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK_GOTO(st, n <= most, end, SHOAL_ERR_IO, "/%s in %s has %llu rows, at most %llu make sense", name, path,
                   (unsigned long long)n, (unsigned long long)most);
  SHOAL_TRY_GOTO(st, shoal_alloc(n, each, name, out), end);
  SHOAL_TRY_GOTO(st, shoal_h5_table_read(t, 0, n, *out), end);
  *n_out = n;
end:
  shoal_h5_table_close(t);
  return st;
}

static shoal_status read_groups(shoal_h5 file, shoal_trace_data *d)
{
  char name[48];
  SHOAL_TRY(read_all(file, d->path, set_name(d, "groups", name), &shoal_trace_groups, sizeof *d->groups, MOST_GROUPS,
                     &d->n_groups, (void **)&d->groups));
  for (size_t i = 0; i < d->n_groups; i++) d->groups[i].name[SHOAL_TRACE_GROUP_NAME - 1] = '\0';
  return SHOAL_OK;
}

/* Reads the rows, ordered by their records.  Counters are summed; clock and placement are those of the last row. */
static shoal_status read_attempts(shoal_h5 file, shoal_trace_data *d)
{
  shoal_h5_table *t;
  shoal_status st = SHOAL_OK;
  char name[48];
  int most = d->version == 1 ? MOST_ATTEMPTS : 1;
  SHOAL_TRY(shoal_h5_table_open(file, rows_name(d, name), &shoal_trace_attempts, &t));
  uint64_t n = shoal_h5_table_rows(t);
  SHOAL_CHECK_GOTO(st, n > 0, end, SHOAL_ERR_IO, "/%s in %s is empty", name, d->path);
  SHOAL_CHECK_GOTO(st, n <= (uint64_t)most, end, SHOAL_ERR_IO, "/%s in %s has %llu rows, at most %d make sense", name,
                   d->path, (unsigned long long)n, most);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->attempt_rows), end);
  SHOAL_TRY_GOTO(st, shoal_h5_table_read(t, 0, n, d->attempt_rows), end);
  d->attempts = n;
  for (size_t i = 0; i < n; i++) {
    shoal_trace_attempt *a = &d->attempt_rows[i];
    a->host[sizeof a->host - 1] = '\0';
    if (d->version != 1) a->first_record = 0;
    SHOAL_TRY_GOTO(st, check_attempt(a, i, d), end);
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

static shoal_status read_rank(shoal_h5 file, const shoal_trace_file_data *f, shoal_trace_data *d)
{
  d->path = f->path;
  d->version = f->version;
  d->cut = f->missing > 0;
  SHOAL_TRY(read_attempts(file, d));
  const shoal_trace_attempt *last = &d->attempt_rows[d->attempts - 1];
  d->info = (shoal_trace_info){ .run_name = f->run,
                                .config_text = f->config,
                                .placement = f->placement,
                                .rank = d->info.rank,
                                .size = last->size,
                                .node = last->node,
                                .local_rank = last->local_rank,
                                .attempt = last->attempt,
                                .host = last->host };
  d->clock_offset_ns = last->clock_offset_ns;
  d->clock_drift = last->clock_drift;
  d->clock_bound_ns = last->clock_bound_ns;
  if (d->version > 1) SHOAL_TRY(read_groups(file, d));
  return read_ops(file, d);
}

/* ---- the file ---- */

static shoal_status read_attributes(shoal_h5 file, shoal_trace_file_data *f)
{
  int64_t version;
  char *format = NULL;
  SHOAL_CHECK(shoal_h5_has_attribute(file, "format"), SHOAL_ERR_IO, "%s is not a Shoal trace", f->path);
  SHOAL_TRY(shoal_h5_get_string(file, "format", &format));
  bool ours = strcmp(format, SHOAL_TRACE_FORMAT) == 0;
  free(format);
  SHOAL_CHECK(ours, SHOAL_ERR_IO, "%s is not a Shoal trace", f->path);
  SHOAL_TRY(shoal_h5_refuse_foreign(file, f->path));
  SHOAL_TRY(shoal_h5_get_i64(file, "version", &version));
  SHOAL_CHECK(version <= SHOAL_TRACE_VERSION, SHOAL_ERR_IO, "%s has trace format %lld, this Shoal reads up to %d",
              f->path, (long long)version, SHOAL_TRACE_VERSION);
  SHOAL_CHECK(version >= 1, SHOAL_ERR_IO, "%s has trace format %lld: it is damaged or made up", f->path,
              (long long)version);
  f->version = (int)version;
  SHOAL_TRY(shoal_h5_get_string(file, "run", &f->run));
  SHOAL_TRY(shoal_h5_get_string(file, "config", &f->config));
  return shoal_h5_has_attribute(file, "placement") ? shoal_h5_get_string(file, "placement", &f->placement) : SHOAL_OK;
}

static shoal_status get_cpus(shoal_h5 file, const char *name, int *out)
{
  int64_t n = 0;
  if (shoal_h5_has_attribute(file, name)) SHOAL_TRY(shoal_h5_get_i64(file, name, &n));
  *out = n > 0 && n <= INT32_MAX ? (int)n : 0;
  return SHOAL_OK;
}

static shoal_status read_energy(shoal_h5 file, shoal_trace_file_data *f)
{
  if (f->version == 1) return SHOAL_OK;
  SHOAL_TRY(read_all(file, f->path, "energy", &shoal_trace_energies, sizeof *f->energies, MOST_DOMAINS, &f->n_energies,
                     (void **)&f->energies));
  for (size_t i = 0; i < f->n_energies; i++) f->energies[i].domain[SHOAL_TRACE_DOMAIN_NAME - 1] = '\0';
  SHOAL_TRY(get_cpus(file, "node_cpus", &f->node_cpus));
  return get_cpus(file, "job_cpus", &f->job_cpus);
}

/* ---- a file that is cut off ---- */

static uint64_t size_of(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

static void warn_of_cut(const shoal_trace_file_data *f)
{
  char there[32], whole[32];
  uint64_t bytes = size_of(f->path);
  shoal_warn("%s is cut off, %s of %s are there (was it copied to a full disk?): it is read as far as it goes", f->path,
             shoal_format_bytes((double)bytes, there, sizeof there),
             shoal_format_bytes((double)(bytes + f->missing), whole, sizeof whole));
}

/* The ranks that a file has groups of. */
typedef struct {
  int *ranks;
  size_t n;
  bool memory;
} rank_list;

static void add_rank(void *context, const char *name)
{
  rank_list *l = context;
  char again[48];
  int rank;
  if (sscanf(name, "rank-%d", &rank) != 1 || rank < 0 || rank >= MOST_RANKS) return;
  snprintf(again, sizeof again, "rank-%05d", rank);
  if (strcmp(name, again) != 0) return; /* something else, or within that group */
  int *grown = l->memory ? realloc(l->ranks, (l->n + 1) * sizeof *grown) : NULL;
  l->memory = grown != NULL;
  if (!grown) return;
  l->ranks = grown;
  l->ranks[l->n++] = rank;
}

static int by_rank(const void *a, const void *b)
{
  const int *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static shoal_status list_ranks(shoal_h5 file, const shoal_trace_file_data *f, rank_list *l)
{
  int64_t rank;
  if (f->version == 1) {
    SHOAL_TRY(shoal_h5_get_i64(file, "rank", &rank));
    SHOAL_CHECK(rank >= 0 && rank < MOST_RANKS, SHOAL_ERR_IO, "%s is the trace of rank %lld: it is damaged or made up",
                f->path, (long long)rank);
    SHOAL_TRY(SHOAL_ALLOC(1, &l->ranks));
    l->ranks[l->n++] = (int)rank;
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_h5_list(file, add_rank, l));
  SHOAL_CHECK(l->memory, SHOAL_ERR_MEM, "the ranks of %s", f->path);
  SHOAL_CHECK(l->n > 0, SHOAL_ERR_IO, "%s has no group of a rank (rank-00000)", f->path);
  qsort(l->ranks, l->n, sizeof *l->ranks, by_rank);
  return SHOAL_OK;
}

static void free_rank(shoal_trace_data *d)
{
  for (size_t k = 0; k < d->ops; k++) free(d->op_names[k]);
  free(d->op_names);
  free(d->groups);
  free(d->attempt_rows);
  shoal_trace_unload(d);
  *d = (shoal_trace_data){ .path = NULL };
}

static shoal_status read_ranks(shoal_h5 file, shoal_trace_file_data *f)
{
  rank_list l = { .memory = true };
  shoal_status st = list_ranks(file, f, &l);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(l.n, &f->ranks);
  for (size_t i = 0; st == SHOAL_OK && i < l.n; i++) {
    shoal_trace_data *d = &f->ranks[f->n];
    d->info.rank = l.ranks[i];
    st = read_rank(file, f, d);
    if (st == SHOAL_OK)
      f->n++;
    else
      free_rank(d);
    if (st != SHOAL_ERR_IO || f->missing == 0) continue;
    shoal_warn("rank %d in %s begins behind the cut: it is left out", l.ranks[i], f->path);
    st = SHOAL_OK;
  }
  free(l.ranks);
  if (st == SHOAL_OK && f->n == 0) st = SHOAL_FAIL(SHOAL_ERR_IO, "nothing of a rank is there in %s", f->path);
  return st;
}

/* Energy, which is of whole nodes and little, is left out if it is behind the cut. */
static shoal_status read_energy_there(shoal_h5 file, shoal_trace_file_data *f)
{
  shoal_status st = read_energy(file, f);
  if (st != SHOAL_ERR_IO || f->missing == 0) return st;
  free(f->energies);
  f->energies = NULL;
  f->n_energies = 0;
  return SHOAL_OK;
}

static shoal_status read_here(const char *path, shoal_trace_file_data **out)
{
  shoal_h5 file = { 0 };
  shoal_status st;
  shoal_trace_file_data *f = calloc(1, sizeof *f);
  SHOAL_CHECK(f, SHOAL_ERR_MEM, "trace %s", path);
  f->path = strdup(path);
  SHOAL_CHECK_GOTO(st, f->path, end, SHOAL_ERR_MEM, "trace %s", path);
  SHOAL_TRY_GOTO(st, shoal_h5_open_as_far(path, &f->missing, &file), end);
  if (f->missing) warn_of_cut(f);
  SHOAL_TRY_GOTO(st, read_attributes(file, f), end);
  SHOAL_TRY_GOTO(st, read_ranks(file, f), end);
  SHOAL_TRY_GOTO(st, read_energy_there(file, f), end);
end:
  shoal_h5_close(file);
  if (st == SHOAL_ERR_IO && f->missing)
    st = shoal_error_append(st, "; it is cut off, %" PRIu64 " of %" PRIu64 " bytes are there", size_of(path),
                            size_of(path) + f->missing);
  if (st == SHOAL_OK)
    *out = f;
  else
    shoal_trace_file_data_destroy(f);
  return st;
}

typedef struct {
  const char *path;
  uint64_t most; /* records of a rank */
} request;

static shoal_status load(shoal_trace_data *d, uint64_t most)
{
  shoal_h5 file = { 0 };
  uint64_t missing;
  SHOAL_TRY(shoal_h5_open_as_far(d->path, &missing, &file));
  shoal_status st = read_records(file, most, d);
  shoal_h5_close(file);
  return st;
}

static shoal_status try_to_read(void *context)
{
  const request *q = context;
  shoal_trace_file_data *f;
  SHOAL_TRY(read_here(q->path, &f));
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < f->n && st == SHOAL_OK; i++) {
    st = load(&f->ranks[i], q->most);
    shoal_trace_unload(&f->ranks[i]);
  }
  shoal_trace_file_data_destroy(f);
  return st;
}

/* HDF5 crashes on some damaged files, and loops on others: everything is read in a child process first. */
static shoal_status survive(const request *q)
{
  uint64_t bytes = size_of(q->path);
  /* of a processor's time, with much to spare: a core with other work, or a sanitizer, takes several times what it takes else */
  int seconds = 4 + (q->most == UINT64_MAX ? (int)(bytes >> 25) : 0);
  shoal_status st;
  char place[SHOAL_CHILD_PLACE];
  SHOAL_CHECK(shoal_survives(try_to_read, (void *)q, seconds, shoal_memory_limit(), place, &st), SHOAL_ERR_IO,
              "%s is damaged: HDF5 crashes on it, or does not come to an end%s%s", q->path, place[0] ? ", at " : "",
              place);
  return st;
}

shoal_status shoal_trace_read(const char *path, shoal_trace_file_data **out)
{
  SHOAL_TRY(survive(&(request){ path, UINT64_MAX }));
  return read_here(path, out);
}

shoal_status shoal_trace_read_last(const char *path, uint64_t most, shoal_trace_file_data **out)
{
  shoal_trace_file_data *f;
  SHOAL_TRY(survive(&(request){ path, most }));
  SHOAL_TRY(read_here(path, &f));
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < f->n && st == SHOAL_OK; i++) st = load(&f->ranks[i], most);
  if (st == SHOAL_OK)
    *out = f;
  else
    shoal_trace_file_data_destroy(f);
  return st;
}

shoal_status shoal_trace_load(shoal_trace_data *d)
{
  return load(d, UINT64_MAX);
}

void shoal_trace_unload(shoal_trace_data *d)
{
  free(d->records);
  d->records = NULL;
  d->n = 0;
}

void shoal_trace_file_data_destroy(shoal_trace_file_data *f)
{
  if (!f) return;
  for (size_t i = 0; i < f->n; i++) free_rank(&f->ranks[i]);
  free(f->ranks);
  free(f->energies);
  free(f->path);
  free(f->run);
  free(f->config);
  free(f->placement);
  free(f);
}
