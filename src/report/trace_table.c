/* From trace files to numbers per rank and attempt.
 *
 * Files are read one at a time, split, and let go; what stays is a line per rank and attempt and, per attempt, the mean
 * length of each step.  A run that was resumed has several attempts in one file, perhaps with other ranks, so nothing
 * is added up over attempts unless asked for: that is the entry SHOAL_TRACE_ALL.
 *
 * A start that was refused (a wrong option, say) leaves a row in the files but no status, so the next start gets the
 * same number.  Of rows with one number the one started last counts, and only for ranks it knows. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- attempts ---- */

static shoal_trace_try *find_try(const shoal_trace_table *t, int attempt)
{
  for (size_t i = 0; i < t->n_tries; i++)
    if (t->tries[i].attempt == attempt) return &t->tries[i];
  return NULL;
}

const shoal_trace_try *shoal_trace_table_try(const shoal_trace_table *t, int attempt)
{
  return find_try(t, attempt);
}

static shoal_status add_try(shoal_trace_table *t, int attempt, int size, uint64_t started_ns)
{
  shoal_trace_try *known = find_try(t, attempt);
  if (!known) {
    shoal_trace_try *grown = realloc(t->tries, (t->n_tries + 1) * sizeof *grown);
    SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu attempts", t->n_tries + 1);
    t->tries = grown;
    known = &t->tries[t->n_tries++];
    *known = (shoal_trace_try){ .attempt = attempt, .steps_least = UINT64_MAX, .closed = true };
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
    st = add_try(t, d->attempt_rows[i].attempt, d->attempt_rows[i].size, d->attempt_rows[i].started_ns);
  shoal_trace_data_destroy(d);
  return st;
}

static int by_attempt(const void *a, const void *b)
{
  const shoal_trace_try *x = a, *y = b;
  return (x->attempt > y->attempt) - (x->attempt < y->attempt);
}

/* All attempts with their sizes, then the entry for all together. */
static shoal_status list_tries(shoal_trace_table *t, const char *const *paths, size_t n)
{
  for (size_t i = 0; i < n; i++) SHOAL_TRY(read_rows(t, paths[i]));
  SHOAL_CHECK(t->tries, SHOAL_ERR_IO, "the traces hold no attempt");
  qsort(t->tries, t->n_tries, sizeof *t->tries, by_attempt);
  const shoal_trace_try *last = &t->tries[t->n_tries - 1];
  return add_try(t, SHOAL_TRACE_ALL, last->size, last->started_ns);
}

bool shoal_trace_table_counts(const shoal_trace_table *t, const shoal_trace_data *d, size_t row, int attempt)
{
  const shoal_trace_attempt *a = &d->attempt_rows[row];
  if (attempt != SHOAL_TRACE_ALL && a->attempt != attempt) return false;
  const shoal_trace_try *is = find_try(t, a->attempt);
  for (size_t i = row + 1; i < d->attempts; i++)
    if (d->attempt_rows[i].attempt == a->attempt) return false;
  return is && a->size == is->size && d->info.rank < is->size;
}

/* ---- lengths of steps ---- */

static int by_length(const void *a, const void *b)
{
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Nearest rank: the smallest value that at least `percent` of them do not exceed. */
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

/* Merge this rank's steps into the attempt's, both in order. */
static shoal_status merge_steps(shoal_trace_try *to, shoal_trace_mean *from, size_t n)
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

static shoal_status add_steps(shoal_trace_try *to, shoal_trace_line *l, const shoal_trace_split *s, size_t n)
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

shoal_status shoal_trace_mean_percentiles(const shoal_trace_try *is, uint64_t *median_ns, uint64_t *p95_ns)
{
  uint64_t *lengths;
  SHOAL_TRY(SHOAL_ALLOC(is->n_means, &lengths));
  for (size_t i = 0; i < is->n_means; i++) lengths[i] = is->means[i].ns / is->means[i].ranks;
  find_percentiles(lengths, is->n_means, median_ns, p95_ns);
  free(lengths);
  return SHOAL_OK;
}

/* ---- lines ---- */

/* A further row of the same file: it happened later, so its facts replace the others'. */
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

/* One line of n rows that belong to `attempt`. */
static shoal_status add_line(shoal_trace_table *t, int attempt, int rank, const shoal_trace_attempt *const *rows,
                             const shoal_trace_split *splits, size_t n)
{
  shoal_trace_try *is = find_try(t, attempt);
  shoal_trace_line *grown = realloc(t->lines, (t->n_lines + 1) * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a table of %zu lines", t->n_lines + 1);
  t->lines = grown;
  assert(is); /* all attempts were listed before */
  shoal_trace_line *l = &t->lines[t->n_lines++];
  *l = (shoal_trace_line){ .attempt = attempt, .rank = rank, .placed = true };
  for (size_t i = 0; i < n; i++) add_row(l, rows[i], &splits[i]);
  is->lines++;
  is->steps_least = SHOAL_MIN(is->steps_least, l->steps);
  is->steps_most = SHOAL_MAX(is->steps_most, l->steps);
  is->closed &= l->row.closed != 0;
  return add_steps(is, l, splits, n);
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
  return by_attempt(&(shoal_trace_try){ .attempt = x->attempt }, &(shoal_trace_try){ .attempt = y->attempt });
}

/* In the order of ranks; the sum of a rank, whose number is negative, comes before its attempts. */
static shoal_status sort_lines(shoal_trace_table *t)
{
  if (t->n_lines > 0) qsort(t->lines, t->n_lines, sizeof *t->lines, by_rank);
  for (size_t i = 1; i < t->n_lines; i++)
    SHOAL_CHECK(by_rank(&t->lines[i - 1], &t->lines[i]) < 0, SHOAL_ERR_USAGE,
                "the trace of rank %d is given twice: name each file of one run once", t->lines[i].rank);
  return SHOAL_OK;
}

static void count_nodes(shoal_trace_table *t, shoal_trace_try *is)
{
  for (size_t i = 0; i < t->n_lines; i++) {
    bool known = t->lines[i].attempt != is->attempt;
    for (size_t k = 0; k < i && !known; k++)
      known = t->lines[k].attempt == is->attempt && t->lines[k].row.node == t->lines[i].row.node;
    is->nodes += !known;
  }
}

/* ---- the table ---- */

static shoal_status choose(const shoal_trace_table *t, int *wanted)
{
  size_t n = t->n_tries - 1;
  if (*wanted == SHOAL_TRACE_LAST) {
    size_t i = n - 1;
    while (i > 0 && t->tries[i].steps_most == 0) i--;
    *wanted = t->tries[t->tries[i].steps_most ? i : n - 1].attempt;
  }
  const shoal_trace_try *is = find_try(t, *wanted);
  SHOAL_CHECK(is && is->lines > 0, SHOAL_ERR_USAGE, "there is no attempt %d of %s: it has %d to %d", *wanted, t->run,
              t->tries[0].attempt, t->tries[n - 1].attempt);
  if (*wanted != SHOAL_TRACE_ALL && is->lines < (size_t)is->size)
    shoal_warn("attempt %d of %s ran with %d ranks; the traces of %zu are here", *wanted, t->run, is->size, is->lines);
  return SHOAL_OK;
}

shoal_status shoal_trace_table_create(const char *const *paths, size_t n, int *wanted, shoal_trace_table **out)
{
  SHOAL_CHECK(n > 0, SHOAL_ERR_USAGE, "there is no trace to show: name its files, one per rank");
  shoal_status st;
  shoal_trace_table *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "a table of %zu traces", n);
  SHOAL_TRY_GOTO(st, list_tries(t, paths, n), fail);
  for (size_t i = 0; i < n; i++) {
    shoal_trace_data *d;
    SHOAL_TRY_GOTO(st, shoal_trace_read(paths[i], &d), fail);
    st = add_data(t, d);
    shoal_trace_data_destroy(d);
    if (st != SHOAL_OK) goto fail;
  }
  SHOAL_TRY_GOTO(st, sort_lines(t), fail);
  for (size_t i = 0; i < t->n_tries; i++) count_nodes(t, &t->tries[i]);
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
  for (size_t i = 0; i < t->n_tries; i++) free(t->tries[i].means);
  free(t->tries);
  free(t->lines);
  free(t->run);
  free(t);
}
