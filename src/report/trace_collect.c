/* Reduces trace files to numbers per rank and attempt.
 *
 * Files are read, broken down and freed one at a time; what remains is a line per rank and attempt and, per attempt,
 * the mean duration of each step.  A resumed run has several attempts in one file, possibly with different numbers of
 * ranks, so attempts are summed only on request, in the entry SHOAL_TRACE_ALL.
 *
 * A start that fails early (for example by an invalid option) leaves a row in the files but no status, so the next
 * start gets the same number.  Of several rows with the same number only the last one counts, for the ranks it has. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- attempts ---- */

static shoal_trace_summary *find_summary(const shoal_trace_table *t, int attempt)
{
  for (size_t i = 0; i < t->n_summaries; i++)
    if (t->summaries[i].attempt == attempt) return &t->summaries[i];
  return NULL;
}

const shoal_trace_summary *shoal_trace_table_summary(const shoal_trace_table *t, int attempt)
{
  return find_summary(t, attempt);
}

static shoal_status add_attempt(shoal_trace_table *t, int attempt, int size, uint64_t started_ns)
{
  shoal_trace_summary *known = find_summary(t, attempt);
  if (!known) {
    shoal_trace_summary *grown = realloc(t->summaries, (t->n_summaries + 1) * sizeof *grown);
    SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu attempts", t->n_summaries + 1);
    t->summaries = grown;
    known = &t->summaries[t->n_summaries++];
    *known = (shoal_trace_summary){ .attempt = attempt, .min_steps = UINT64_MAX, .closed = true };
  }
  if (started_ns < known->started_ns) return SHOAL_OK;
  known->started_ns = started_ns;
  known->size = size;
  return SHOAL_OK;
}

static shoal_status read_rows(shoal_trace_table *t, const char *path)
{
  shoal_trace_data *d;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_trace_read_head(path, &d));
  if (!t->run) t->run = shoal_strdup_printf("%s", d->info.run_name);
  if (!t->run)
    st = SHOAL_FAIL(SHOAL_ERR_MEM, "the name of a run");
  else if (strcmp(t->run, d->info.run_name) != 0)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s is of run %s, the files before it of %s: name files of one run", path,
                    d->info.run_name, t->run);
  for (size_t i = 0; i < d->attempts && st == SHOAL_OK; i++)
    st = add_attempt(t, d->attempt_rows[i].attempt, d->attempt_rows[i].size, d->attempt_rows[i].started_ns);
  shoal_trace_data_destroy(d);
  return st;
}

static int by_attempt(const void *a, const void *b)
{
  const shoal_trace_summary *x = a, *y = b;
  return (x->attempt > y->attempt) - (x->attempt < y->attempt);
}

/* Lists all attempts with their sizes, and then the entry for all of them together. */
static shoal_status list_attempts(shoal_trace_table *t, const char *const *paths, size_t n)
{
  for (size_t i = 0; i < n; i++) SHOAL_TRY(read_rows(t, paths[i]));
  SHOAL_CHECK(t->summaries, SHOAL_ERR_IO, "the traces hold no attempt");
  qsort(t->summaries, t->n_summaries, sizeof *t->summaries, by_attempt);
  const shoal_trace_summary *last = &t->summaries[t->n_summaries - 1];
  return add_attempt(t, SHOAL_TRACE_ALL, last->size, last->started_ns);
}

bool shoal_trace_table_counts(const shoal_trace_table *t, const shoal_trace_data *d, size_t row, int attempt)
{
  const shoal_trace_attempt *a = &d->attempt_rows[row];
  if (attempt != SHOAL_TRACE_ALL && a->attempt != attempt) return false;
  const shoal_trace_summary *summary = find_summary(t, a->attempt);
  for (size_t i = row + 1; i < d->attempts; i++)
    if (d->attempt_rows[i].attempt == a->attempt) return false;
  return summary && a->size == summary->size && d->info.rank < summary->size;
}

/* ---- step durations ---- */

static int by_length(const void *a, const void *b)
{
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Nearest-rank percentiles: the smallest value such that at least 50 % (95 %) of the values do not exceed it. */
static void find_percentiles(uint64_t *ns, size_t n, uint64_t *median, uint64_t *p95)
{
  *median = *p95 = 0;
  if (n == 0) return;
  qsort(ns, n, sizeof *ns, by_length);
  *median = ns[(n + 1) / 2 - 1];
  *p95 = ns[(95 * n + 99) / 100 - 1];
}

static int by_step(const void *a, const void *b)
{
  const shoal_trace_mean *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}

/* Merges this rank's steps into those of the attempt; both are sorted by step. */
static shoal_status merge_steps(shoal_trace_summary *to, shoal_trace_mean *from, size_t n)
{
  shoal_trace_mean *merged;
  size_t i = 0, j = 0, m = 0;
  SHOAL_TRY(SHOAL_ALLOC(to->n_means + n, &merged));
  qsort(from, n, sizeof *from, by_step);
  while (i < to->n_means || j < n) {
    bool ours = i < to->n_means && (j == n || to->means[i].step <= from[j].step);
    const shoal_trace_mean *next = ours ? &to->means[i++] : &from[j++];
    if (m > 0 && merged[m - 1].step == next->step) {
      merged[m - 1].ns += next->ns;
      merged[m - 1].ranks += next->ranks;
    } else {
      merged[m++] = *next;
    }
  }
  free(to->means);
  to->means = merged;
  to->n_means = m;
  return SHOAL_OK;
}

static shoal_status add_steps(shoal_trace_summary *to, shoal_trace_line *l, const shoal_trace_split *s, size_t n)
{
  uint64_t *lengths = NULL;
  shoal_trace_mean *steps = NULL;
  size_t m = 0;
  shoal_status st = SHOAL_ALLOC(l->steps, &lengths);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(l->steps, &steps);
  for (size_t i = 0; i < n && st == SHOAL_OK; i++)
    for (size_t k = 0; k < s[i].n; k++, m++) {
      lengths[m] = s[i].steps[k].ns[SHOAL_TRACE_STEP];
      steps[m] = (shoal_trace_mean){ s[i].steps[k].step, lengths[m], 1 };
    }
  if (st == SHOAL_OK) {
    find_percentiles(lengths, m, &l->median_ns, &l->p95_ns);
    st = merge_steps(to, steps, m);
  }
  free(lengths);
  free(steps);
  return st;
}

shoal_status shoal_trace_mean_percentiles(const shoal_trace_summary *summary, uint64_t *median_ns, uint64_t *p95_ns)
{
  uint64_t *lengths;
  SHOAL_TRY(SHOAL_ALLOC(summary->n_means, &lengths));
  for (size_t i = 0; i < summary->n_means; i++) lengths[i] = summary->means[i].ns / summary->means[i].ranks;
  find_percentiles(lengths, summary->n_means, median_ns, p95_ns);
  free(lengths);
  return SHOAL_OK;
}

/* ---- lines ---- */

/* Adds a row of the same file.  Counters are summed; the other members are replaced, because the row is later. */
static void add_row(shoal_trace_line *l, const shoal_trace_attempt *row, const shoal_trace_split *s)
{
  shoal_trace_attempt before = l->row;
  l->row = *row;
  l->rows++;
  l->row.overhead_ns += before.overhead_ns;
  l->row.spans += before.spans;
  l->row.voluntary_switches += before.voluntary_switches;
  l->row.involuntary_switches += before.involuntary_switches;
  l->row.peak_bytes = SHOAL_MAX(l->row.peak_bytes, before.peak_bytes);
  l->row.contended |= before.contended;
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    l->row.payload[link] += before.payload[link];
    l->row.wire[link] += before.wire[link];
    l->row.messages[link] += before.messages[link];
  }
  l->steps += s->n;
  l->wall_ns += s->wall_ns;
  l->exchanges += s->exchanges;
  l->exchange_bytes += s->exchange_bytes;
  l->placed &= s->placed;
  shoal_trace_add_times(&l->inside, &s->inside);
  shoal_trace_add_times(&l->whole, &s->whole);
}

/* Adds one line, the sum of n rows that belong to `attempt`. */
static shoal_status add_line(shoal_trace_table *t, int attempt, int rank, const shoal_trace_attempt *const *rows,
                             const shoal_trace_split *splits, size_t n)
{
  shoal_trace_summary *summary = find_summary(t, attempt);
  shoal_trace_line *grown = realloc(t->lines, (t->n_lines + 1) * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu lines", t->n_lines + 1);
  t->lines = grown;
  assert(summary); /* all attempts were listed before */
  shoal_trace_line *l = &t->lines[t->n_lines++];
  *l = (shoal_trace_line){ .attempt = attempt, .rank = rank, .placed = true };
  for (size_t i = 0; i < n; i++) add_row(l, rows[i], &splits[i]);
  summary->lines++;
  summary->min_steps = SHOAL_MIN(summary->min_steps, l->steps);
  summary->max_steps = SHOAL_MAX(summary->max_steps, l->steps);
  summary->closed &= l->row.closed != 0;
  return add_steps(summary, l, splits, n);
}

static shoal_status add_data(shoal_trace_table *t, const shoal_trace_data *d)
{
  shoal_trace_split *splits = NULL;
  const shoal_trace_attempt **rows = NULL;
  size_t n = 0;
  shoal_status st = SHOAL_ALLOC(d->attempts, &splits);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(d->attempts, &rows);
  for (size_t i = 0; i < d->attempts && st == SHOAL_OK; i++) {
    if (!shoal_trace_table_counts(t, d, i, SHOAL_TRACE_ALL)) continue;
    if ((st = shoal_trace_split_create(d, i, &splits[n])) != SHOAL_OK) break;
    rows[n++] = &d->attempt_rows[i];
    st = add_line(t, d->attempt_rows[i].attempt, d->info.rank, &rows[n - 1], &splits[n - 1], 1);
  }
  if (st == SHOAL_OK && n > 0) st = add_line(t, SHOAL_TRACE_ALL, d->info.rank, rows, splits, n);
  for (size_t i = 0; i < n; i++) shoal_trace_split_free(&splits[i]);
  free(splits);
  free(rows);
  return st;
}

static int by_rank(const void *a, const void *b)
{
  const shoal_trace_line *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return by_attempt(&(shoal_trace_summary){ .attempt = x->attempt }, &(shoal_trace_summary){ .attempt = y->attempt });
}

/* Sorts by rank.  The sum of a rank precedes its attempts, because SHOAL_TRACE_ALL is negative. */
static shoal_status sort_lines(shoal_trace_table *t)
{
  if (t->n_lines > 0) qsort(t->lines, t->n_lines, sizeof *t->lines, by_rank);
  for (size_t i = 1; i < t->n_lines; i++)
    SHOAL_CHECK(by_rank(&t->lines[i - 1], &t->lines[i]) < 0, SHOAL_ERR_USAGE,
                "the trace of rank %d is given twice: name each file of one run once", t->lines[i].rank);
  return SHOAL_OK;
}

static void count_nodes(shoal_trace_table *t, shoal_trace_summary *summary)
{
  for (size_t i = 0; i < t->n_lines; i++) {
    bool known = t->lines[i].attempt != summary->attempt;
    for (size_t k = 0; k < i && !known; k++)
      known = t->lines[k].attempt == summary->attempt && t->lines[k].row.node == t->lines[i].row.node;
    summary->nodes += !known;
  }
}

/* ---- the table ---- */

static shoal_status choose(const shoal_trace_table *t, int *wanted)
{
  size_t n = t->n_summaries - 1;
  if (*wanted == SHOAL_TRACE_LAST) {
    size_t i = n - 1;
    while (i > 0 && t->summaries[i].max_steps == 0) i--;
    *wanted = t->summaries[t->summaries[i].max_steps ? i : n - 1].attempt;
  }
  const shoal_trace_summary *summary = find_summary(t, *wanted);
  SHOAL_CHECK(summary && summary->lines > 0, SHOAL_ERR_USAGE, "there is no attempt %d of %s: it has %d to %d", *wanted,
              t->run, t->summaries[0].attempt, t->summaries[n - 1].attempt);
  if (*wanted != SHOAL_TRACE_ALL && summary->lines < (size_t)summary->size)
    shoal_warn("attempt %d of %s ran with %d ranks; the traces of %zu are here", *wanted, t->run, summary->size,
               summary->lines);
  return SHOAL_OK;
}

shoal_status shoal_trace_table_create(const char *const *paths, size_t n, int *wanted, shoal_trace_table **out)
{
  SHOAL_CHECK(n > 0, SHOAL_ERR_USAGE, "there is no trace to show: name its files, one per rank");
  shoal_status st;
  shoal_trace_table *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "a table of %zu traces", n);
  SHOAL_TRY_GOTO(st, list_attempts(t, paths, n), fail);
  for (size_t i = 0; i < n; i++) {
    shoal_trace_data *d;
    SHOAL_TRY_GOTO(st, shoal_trace_read(paths[i], &d), fail);
    st = add_data(t, d);
    shoal_trace_data_destroy(d);
    if (st != SHOAL_OK) goto fail;
  }
  SHOAL_TRY_GOTO(st, sort_lines(t), fail);
  for (size_t i = 0; i < t->n_summaries; i++) count_nodes(t, &t->summaries[i]);
  SHOAL_TRY_GOTO(st, choose(t, wanted), fail);
  *out = t;
  return SHOAL_OK;
fail:
  shoal_trace_table_destroy(t);
  return st;
}

void shoal_trace_table_destroy(shoal_trace_table *t)
{
  if (!t) return;
  for (size_t i = 0; i < t->n_summaries; i++) free(t->summaries[i].means);
  free(t->summaries);
  free(t->lines);
  free(t->run);
  free(t);
}
