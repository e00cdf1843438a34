/* Reduces trace files to numbers per rank and attempt.
 *
 * Of all files the rows of their ranks are kept; records are loaded, broken down and freed rank by rank.  What remains is
 * a line per rank and attempt and, per attempt, the mean duration of each step.  A resumed run has several attempts,
 * possibly with different numbers of ranks, so attempts are summed only on request, in the entry SHOAL_TRACE_ALL.
 *
 * A start that fails early (for example by an invalid option) leaves a file but no status, so the next start gets the
 * same number.  Of several rows with the same number only the last one counts, for the ranks it has. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static shoal_status add_file(shoal_trace_table *t, shoal_trace_file_data *f)
{
  t->files[t->n_files++] = f;
  if (!t->run) t->run = f->run;
  SHOAL_CHECK(strcmp(t->run, f->run) == 0, SHOAL_ERR_USAGE,
              "%s is of run %s, the files before it of %s: name files of one run", f->path, f->run, t->run);
  shoal_trace_data **grown = realloc(t->parts, (t->n_parts + f->n) * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu ranks", t->n_parts + f->n);
  t->parts = grown;
  for (size_t i = 0; i < f->n; i++) {
    shoal_trace_data *d = t->parts[t->n_parts++] = &f->ranks[i];
    for (size_t row = 0; row < d->attempts; row++) {
      const shoal_trace_attempt *a = &d->attempt_rows[row];
      SHOAL_TRY(add_attempt(t, a->attempt, a->size, a->started_ns));
    }
  }
  return SHOAL_OK;
}

/* By rank, and then by start. */
static int by_part(const void *a, const void *b)
{
  const shoal_trace_data *x = *(const shoal_trace_data *const *)a, *y = *(const shoal_trace_data *const *)b;
  uint64_t begin = x->attempt_rows[0].started_ns, other = y->attempt_rows[0].started_ns;
  if (x->info.rank != y->info.rank) return x->info.rank < y->info.rank ? -1 : 1;
  return (begin > other) - (begin < other);
}

static int by_attempt(const void *a, const void *b)
{
  const shoal_trace_summary *x = a, *y = b;
  return (x->attempt > y->attempt) - (x->attempt < y->attempt);
}

/* Of several files one that is damaged is left out, with a warning; the ranks that are missing for it are named later. */
static shoal_status add_files(shoal_trace_table *t, const char *const *paths, size_t n)
{
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(n, &t->files));
  for (size_t i = 0; i < n; i++) {
    shoal_trace_file_data *f;
    shoal_status here = shoal_trace_read(paths[i], &f);
    if (here == SHOAL_OK) {
      SHOAL_TRY(add_file(t, f));
      continue;
    }
    st = here;
    if (n == 1 || here != SHOAL_ERR_IO || access(paths[i], F_OK) != 0) return here;
    shoal_warn("%s; it is left out", shoal_error_text(here));
  }
  return t->n_files ? SHOAL_OK : st;
}

/* Lists all attempts with their sizes, and then the entry for all of them together. */
static shoal_status list_attempts(shoal_trace_table *t, const char *const *paths, size_t n)
{
  SHOAL_TRY(add_files(t, paths, n));
  SHOAL_CHECK(t->summaries, SHOAL_ERR_IO, "the traces hold no attempt");
  qsort(t->parts, t->n_parts, sizeof *t->parts, by_part);
  qsort(t->summaries, t->n_summaries, sizeof *t->summaries, by_attempt);
  const shoal_trace_summary *last = &t->summaries[t->n_summaries - 1];
  return add_attempt(t, SHOAL_TRACE_ALL, last->size, last->started_ns);
}

bool shoal_trace_table_counts(const shoal_trace_table *t, size_t part, size_t row, int attempt)
{
  const shoal_trace_data *d = t->parts[part];
  const shoal_trace_attempt *a = &d->attempt_rows[row];
  if (attempt != SHOAL_TRACE_ALL && a->attempt != attempt) return false;
  const shoal_trace_summary *summary = find_summary(t, a->attempt);
  for (size_t i = row + 1; i < d->attempts; i++)
    if (d->attempt_rows[i].attempt == a->attempt) return false;
  for (size_t k = part + 1; k < t->n_parts && t->parts[k]->info.rank == d->info.rank; k++)
    for (size_t i = 0; i < t->parts[k]->attempts; i++) {
      const shoal_trace_attempt *other = &t->parts[k]->attempt_rows[i];
      if (other->attempt == a->attempt && other->started_ns > a->started_ns) return false;
    }
  return summary && a->size == summary->size && d->info.rank < summary->size;
}

bool shoal_trace_table_needs(const shoal_trace_table *t, size_t part, int attempt)
{
  bool needed = false;
  for (size_t row = 0; row < t->parts[part]->attempts; row++) needed |= shoal_trace_table_counts(t, part, row, attempt);
  return needed;
}

/* ---- clocks ---- */

static bool is_same_clock(const shoal_trace_attempt *a, const shoal_trace_attempt *b)
{
  double apart = shoal_trace_offset_ns(a) - shoal_trace_offset_ns(b), most = a->clock_bound_ns + b->clock_bound_ns;
  return b->clock_readings > 0 && a->host[0] && strcmp(a->host, b->host) == 0 && apart <= most && -apart <= most;
}

const shoal_trace_attempt *shoal_trace_clock_of(const shoal_trace_table *t, int attempt, int rank)
{
  const shoal_trace_attempt *own = NULL, *best = NULL;
  for (size_t i = 0; i < t->n_lines && !own; i++)
    if (t->lines[i].attempt == attempt && t->lines[i].rank == rank) own = &t->lines[i].row;
  for (size_t i = 0; i < t->n_lines && own && own->clock_readings; i++) {
    const shoal_trace_attempt *other = &t->lines[i].row;
    if (t->lines[i].attempt != attempt || !is_same_clock(own, other)) continue;
    bool better = !best || other->clock_readings > best->clock_readings ||
                  (other->clock_readings == best->clock_readings && other->clock_bound_ns < best->clock_bound_ns);
    if (better) best = other;
  }
  return best ? best : own;
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

/* Adds a row of the same rank.  Counters are summed; the other members are replaced, because the row is later. */
static void add_row(shoal_trace_line *l, const shoal_trace_attempt *row, const shoal_trace_split *s)
{
  shoal_trace_attempt before = l->row;
  l->row = *row;
  l->rows++;
  l->row.overhead_ns += before.overhead_ns;
  l->row.spans += before.spans;
  l->row.dropped += before.dropped;
  l->row.overwritten += before.overwritten;
  l->row.steps += before.steps;
  l->row.samples += before.samples;
  l->row.voluntary_switches += before.voluntary_switches;
  l->row.involuntary_switches += before.involuntary_switches;
  l->row.peak_bytes = SHOAL_MAX(l->row.peak_bytes, before.peak_bytes);
  l->row.contended |= before.contended;
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    l->row.payload[link] += before.payload[link];
    l->row.formula[link] += before.formula[link];
    l->row.wire[link] += before.wire[link];
    l->row.messages[link] += before.messages[link];
  }
  l->steps += s->n;
  l->wall_ns += s->wall_ns;
  l->exchanges += s->exchanges;
  l->exchange_bytes += s->exchange_bytes;
  l->pace_samples += s->pace_samples;
  l->pace_ns += s->pace_ns;
  l->placed &= s->placed;
  shoal_trace_add_times(&l->inside, &s->inside);
  shoal_trace_add_times(&l->whole, &s->whole);
}

/* Adds one line, the sum of n rows that belong to `attempt`, `cut` of whose records are behind a cut. */
static shoal_status add_line(shoal_trace_table *t, int attempt, int rank, const shoal_trace_attempt *const *rows,
                             const shoal_trace_split *splits, size_t n, uint64_t cut)
{
  shoal_trace_summary *summary = find_summary(t, attempt);
  shoal_trace_line *grown = realloc(t->lines, (t->n_lines + 1) * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu lines", t->n_lines + 1);
  t->lines = grown;
  assert(summary); /* all attempts were listed before */
  shoal_trace_line *l = &t->lines[t->n_lines++];
  *l = (shoal_trace_line){ .attempt = attempt, .rank = rank, .cut = cut, .placed = true };
  for (size_t i = 0; i < n; i++) add_row(l, rows[i], &splits[i]);
  if (n == 1) l->begin_ns = splits[0].begin_ns;
  if (n == 1 && l->steps) {
    l->first_step = splits[0].steps[0].step;
    l->last_step = splits[0].steps[l->steps - 1].step;
  }
  summary->lines++;
  summary->min_steps = SHOAL_MIN(summary->min_steps, l->steps);
  summary->max_steps = SHOAL_MAX(summary->max_steps, l->steps);
  summary->closed &= l->row.closed != 0 && !cut;
  return add_steps(summary, l, splits, n);
}

/* The rows of a rank that count, and how their time splits. */
typedef struct {
  shoal_trace_split *splits;
  const shoal_trace_attempt **rows;
  size_t n;
  uint64_t cut; /* records behind the cut of a file */
} rank_rows;

static shoal_status add_part(shoal_trace_table *t, size_t part, rank_rows *all)
{
  shoal_trace_data *d = t->parts[part];
  if (!shoal_trace_table_needs(t, part, SHOAL_TRACE_ALL)) return SHOAL_OK;
  shoal_status st = shoal_trace_load(d);
  const uint64_t cut = d->cut ? d->lost : 0;
  all->cut += cut;
  for (size_t i = 0; i < d->attempts && st == SHOAL_OK; i++) {
    if (!shoal_trace_table_counts(t, part, i, SHOAL_TRACE_ALL)) continue;
    if ((st = shoal_trace_split_create(d, i, &all->splits[all->n])) != SHOAL_OK) break;
    size_t k = all->n++;
    all->rows[k] = &d->attempt_rows[i];
    st = add_line(t, d->attempt_rows[i].attempt, d->info.rank, &all->rows[k], &all->splits[k], 1, cut);
  }
  shoal_trace_unload(d);
  return st;
}

/* Adds the lines of a rank, of which the parts [from, to) are. */
static shoal_status add_rank(shoal_trace_table *t, size_t from, size_t to)
{
  rank_rows all = { NULL };
  size_t most = 0;
  for (size_t part = from; part < to; part++) most += t->parts[part]->attempts;
  shoal_status st = SHOAL_ALLOC(most, &all.splits);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(most, &all.rows);
  for (size_t part = from; part < to && st == SHOAL_OK; part++) st = add_part(t, part, &all);
  if (st == SHOAL_OK && all.n > 0)
    st = add_line(t, SHOAL_TRACE_ALL, t->parts[from]->info.rank, all.rows, all.splits, all.n, all.cut);
  for (size_t i = 0; i < all.n; i++) shoal_trace_split_free(&all.splits[i]);
  free(all.splits);
  free(all.rows);
  return st;
}

static shoal_status add_ranks(shoal_trace_table *t)
{
  for (size_t from = 0, to; from < t->n_parts; from = to) {
    for (to = from + 1; to < t->n_parts && t->parts[to]->info.rank == t->parts[from]->info.rank; to++) continue;
    SHOAL_TRY(add_rank(t, from, to));
  }
  return SHOAL_OK;
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

/* Names the ranks of an attempt that have no line: "1, 4, 5 and 3 more". */
static void add_missing(const shoal_trace_table *t, const shoal_trace_summary *summary, shoal_str *out)
{
  enum { NAMED_MAX = 8 };
  int named = 0, more = 0, next = 0;
  for (size_t i = 0; i <= t->n_lines; i++) { /* lines are ordered by rank */
    if (i < t->n_lines && t->lines[i].attempt != summary->attempt) continue;
    for (int end = i < t->n_lines ? t->lines[i].rank : summary->size; next < end; next++) {
      if (named < NAMED_MAX)
        shoal_str_add(out, named++ ? ", %d" : "%d", next);
      else
        more++;
    }
    next++;
  }
  if (more) shoal_str_add(out, " and %d more", more);
}

static void warn_of_missing(const shoal_trace_table *t, const shoal_trace_summary *summary)
{
  shoal_str missing = { 0 };
  add_missing(t, summary, &missing);
  shoal_warn("attempt %d of %s ran with %d ranks; %zu trace%s of them %s here, none of rank %s", summary->attempt,
             t->run, summary->size, summary->lines, summary->lines == 1 ? "" : "s", summary->lines == 1 ? "is" : "are",
             missing.text ? missing.text : "?");
  shoal_str_free(&missing);
}

/* The last entry is the sum of the others. */
static void find_mixed(shoal_trace_table *t)
{
  shoal_trace_summary *all = &t->summaries[t->n_summaries - 1];
  for (size_t i = 0, k = 0; i + 1 < t->n_summaries; i++) {
    if (t->summaries[i].max_steps == 0) continue;
    all->mixed |= t->summaries[i].size != t->summaries[k].size && t->summaries[k].max_steps > 0;
    k = i;
  }
}

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
  if (*wanted != SHOAL_TRACE_ALL && summary->lines < (size_t)summary->size) warn_of_missing(t, summary);
  return SHOAL_OK;
}

shoal_status shoal_trace_table_create(const char *const *paths, size_t n, int *wanted, shoal_trace_table **out)
{
  SHOAL_CHECK(n > 0, SHOAL_ERR_USAGE, "there is no trace to show: name its files");
  shoal_status st;
  shoal_trace_table *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "a table of %zu traces", n);
  SHOAL_TRY_GOTO(st, list_attempts(t, paths, n), fail);
  SHOAL_TRY_GOTO(st, add_ranks(t), fail);
  SHOAL_TRY_GOTO(st, sort_lines(t), fail);
  for (size_t i = 0; i < t->n_summaries; i++) count_nodes(t, &t->summaries[i]);
  find_mixed(t);
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
  for (size_t i = 0; i < t->n_files; i++) shoal_trace_file_data_destroy(t->files[i]);
  free(t->files);
  free(t->parts);
  free(t);
}
