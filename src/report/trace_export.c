/* `shoal trace export`: spans as JSON for Chrome's about:tracing and for Perfetto (the "Trace Event Format").
 *
 *     process   node 1 (n2), rank 3          one per rank, ordered by node; labelled with the bound of its clock
 *     track 0   work                         steps, which contain forward, backward, waits, ...
 *     track 1.. exchanges                    overlapping exchanges are on different tracks
 *
 * All times are on rank 0's clock and start when it opened its trace.  The conversion is monotonic, so nested spans
 * stay nested.  Several attempts are placed by the wall clock, since monotonic clocks restart when a machine boots.
 * One attempt of a rank is in memory at a time, and events are written to the output immediately.
 *
 * Spans that were only summed (level `step`) have no start time and are omitted. */
#include "base/json.h"
#include "base/mem.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_TRACKS = 256 };
typedef struct {
  const shoal_trace_table *table;
  int attempt;
  int64_t zero_ns; /* time 0 of the output, in nanoseconds since 1970 */
  shoal_json json;
  /* state of the rank being written */
  const shoal_trace_data *data;
  size_t tracks;  /* number of tracks named so far */
  uint64_t *ends; /* end of the last span on each exchange track, in the attempt being written */
} writer;

/* ---- time ---- */

/* Offset from rank 0's clock to nanoseconds since 1970, according to the lowest rank whose trace is given. */
static int64_t attempt_base(const shoal_trace_table *t, int attempt)
{
  for (size_t i = 0; i < t->n_lines; i++) {
    const shoal_trace_attempt *a = &t->lines[i].row;
    if (t->lines[i].attempt == attempt) return (int64_t)a->started_ns - shoal_trace_to_rank0(a, a->opened_ns);
  }
  return 0;
}

/* The begin of the earliest attempt shown. */
static int64_t find_zero(const shoal_trace_table *t, int attempt)
{
  for (size_t i = 0; i < t->n_summaries; i++) {
    if (t->summaries[i].lines == 0 || (attempt != SHOAL_TRACE_ALL && t->summaries[i].attempt != attempt)) continue;
    for (size_t k = 0; k < t->n_lines; k++)
      if (t->lines[k].attempt == t->summaries[i].attempt) return (int64_t)t->lines[k].row.started_ns;
  }
  return 0;
}

/* Writes a time in microseconds with three decimals, so that no nanosecond is lost. */
static void put_us(shoal_json *j, const char *key, int64_t ns)
{
  shoal_json_fixed(j, key, (double)ns * 1e-3, 3);
}

/* ---- events ---- */

static void begin_event(writer *w, const char *phase, int tid)
{
  shoal_json_object(&w->json, NULL);
  shoal_json_string(&w->json, "ph", phase);
  shoal_json_int(&w->json, "pid", w->data->info.rank);
  shoal_json_int(&w->json, "tid", tid);
}

static void begin_meta(writer *w, int tid, const char *what)
{
  begin_event(w, "M", tid);
  shoal_json_string(&w->json, "name", what);
  shoal_json_object(&w->json, "args");
}

static void end_event(writer *w)
{
  shoal_json_end(&w->json);
  shoal_json_end(&w->json);
}

static void put_meta(writer *w, int tid, const char *what, const char *key, const char *value)
{
  begin_meta(w, tid, what);
  shoal_json_string(&w->json, key, value);
  end_event(w);
}

static void put_span(writer *w, const shoal_trace_record *r, const shoal_trace_attempt *a, int64_t base, int tid)
{
  shoal_json *j = &w->json;
  int64_t t0 = shoal_trace_to_rank0(a, r->t0_ns), t1 = shoal_trace_to_rank0(a, SHOAL_MAX(r->t0_ns, r->t1_ns));
  begin_event(w, "X", tid);
  shoal_json_string(j, "cat", shoal_trace_kind_name((shoal_trace_kind)r->kind));
  shoal_json_string(j, "name", w->data->op_names[r->op]);
  put_us(j, "ts", t0 + base - w->zero_ns);
  put_us(j, "dur", t1 - t0);
  shoal_json_object(j, "args");
  shoal_json_uint(j, "step", r->step);
  if (r->link != SHOAL_LINK_NONE) {
    shoal_json_string(j, "link", shoal_link_name((shoal_link)r->link));
    shoal_json_int(j, "peer", r->peer);
    shoal_json_uint(j, "bytes", r->bytes);
    shoal_json_uint(j, "number", r->seq);
  }
  end_event(w);
}

/* By start; of spans with the same start the longer, enclosing one first. */
static int by_start(const void *a, const void *b)
{
  const shoal_trace_record *x = *(const shoal_trace_record *const *)a, *y = *(const shoal_trace_record *const *)b;
  if (x->t0_ns != y->t0_ns) return x->t0_ns < y->t0_ns ? -1 : 1;
  if (x->t1_ns != y->t1_ns) return x->t1_ns > y->t1_ns ? -1 : 1;
  return (y->kind == SHOAL_TRACE_STEP) - (x->kind == SHOAL_TRACE_STEP);
}

/* The first exchange track that is idle at the start of `r`. */
static int find_track(writer *w, const shoal_trace_record *r, size_t *used)
{
  char name[32];
  size_t k = 0;
  while (k < *used && w->ends[k] > r->t0_ns) k++;
  if (k == MOST_TRACKS) k--; /* nobody looks at more, and a search in each would be slow */
  if (k == *used) ++*used;
  w->ends[k] = SHOAL_MAX(r->t0_ns, r->t1_ns);
  if (k >= w->tracks) {
    snprintf(name, sizeof name, "exchanges %zu", k + 1);
    put_meta(w, (int)k + 1, "thread_name", "name", name);
    w->tracks = k + 1;
  }
  return (int)k + 1;
}

static shoal_status print_row(writer *w, size_t row)
{
  const shoal_trace_attempt *a = &w->data->attempt_rows[row];
  int64_t base = attempt_base(w->table, a->attempt);
  size_t n, m = 0, used = 0;
  const shoal_trace_record *r = shoal_trace_records_of(w->data, row, &n), **order = NULL;
  shoal_status st = SHOAL_ALLOC(n, &order);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(n, &w->ends);
  for (size_t i = 0; i < n && st == SHOAL_OK; i++)
    if ((r[i].t0_ns || r[i].t1_ns) && !shoal_trace_is_sum(&r[i], a->level)) order[m++] = &r[i];
  if (m > 0) qsort(order, m, sizeof *order, by_start);
  for (size_t i = 0; i < m; i++)
    put_span(w, order[i], a, base, order[i]->kind == SHOAL_TRACE_EXCHANGE ? find_track(w, order[i], &used) : 0);
  free(order);
  free(w->ends);
  w->ends = NULL;
  return st;
}

/* ---- ranks ---- */

static void print_clock(shoal_str *s, const shoal_trace_attempt *a)
{
  static const char *const until[] = { "clock not measured", " at its start", "" };
  int readings = SHOAL_MIN(a->clock_readings, 2);
  if (readings)
    shoal_str_add(s, "clock within %.3f us of rank 0%s", a->clock_bound_ns * 1e-3, until[readings]);
  else
    shoal_str_add(s, "%s", until[0]);
}

/* Position among all ranks shown, ordered by node and then by local rank. */
static size_t sort_index(const writer *w, const shoal_trace_line *mine)
{
  size_t before = 0;
  for (size_t i = 0; i < w->table->n_lines; i++) {
    const shoal_trace_line *l = &w->table->lines[i];
    if (l->attempt != w->attempt) continue;
    before += l->row.node != mine->row.node ? l->row.node < mine->row.node : l->row.local_rank < mine->row.local_rank;
  }
  return before;
}

static void print_process(writer *w, const shoal_trace_line *l)
{
  shoal_str text = { 0 };
  shoal_str_add(&text, "node %d (%s), rank %d", l->row.node, l->row.host, l->rank);
  put_meta(w, 0, "process_name", "name", text.text);
  shoal_str_clear(&text);
  print_clock(&text, &l->row);
  put_meta(w, 0, "process_labels", "labels", text.text);
  shoal_str_free(&text);
  begin_meta(w, 0, "process_sort_index");
  shoal_json_uint(&w->json, "sort_index", sort_index(w, l));
  end_event(w);
  put_meta(w, 0, "thread_name", "name", "work");
}

static const shoal_trace_line *find_line(const writer *w, int rank)
{
  for (size_t i = 0; i < w->table->n_lines; i++)
    if (w->table->lines[i].attempt == w->attempt && w->table->lines[i].rank == rank) return &w->table->lines[i];
  return NULL;
}

/* Parts of a rank follow each other. */
static shoal_status print_part(writer *w, size_t part)
{
  shoal_trace_data *d = w->table->parts[part];
  const shoal_trace_line *l = find_line(w, d->info.rank);
  if (!l) return SHOAL_OK;
  bool begins = part == 0 || w->table->parts[part - 1]->info.rank != d->info.rank;
  w->data = d;
  if (begins) {
    w->tracks = 0;
    print_process(w, l);
  }
  if (!shoal_trace_table_needs(w->table, part, w->attempt)) return SHOAL_OK;
  shoal_status st = shoal_trace_load(d);
  for (size_t row = 0; row < d->attempts && st == SHOAL_OK; row++)
    if (shoal_trace_table_counts(w->table, part, row, w->attempt)) st = print_row(w, row);
  shoal_trace_unload(d);
  return st;
}

/* ---- the file ---- */

/* Writes the metadata of the trace: the run, time 0, and the clock of each rank. */
static void put_tail(writer *w)
{
  shoal_json *j = &w->json;
  double bound = 0;
  bool known = true;
  shoal_json_string(j, "displayTimeUnit", "ms");
  shoal_json_object(j, "otherData");
  shoal_json_string(j, "run", w->table->run);
  if (w->attempt == SHOAL_TRACE_ALL)
    shoal_json_string(j, "attempt", "all");
  else
    shoal_json_int(j, "attempt", w->attempt);
  shoal_json_format(j, "zero_unix_ns", "%lld",
                    (long long)w->zero_ns); /* as text, because a double is not exact enough */
  shoal_json_string(j, "clock", "rank 0");
  shoal_json_array(j, "clocks");
  for (size_t i = 0; i < w->table->n_lines; i++) {
    const shoal_trace_line *l = &w->table->lines[i];
    bool shown = w->attempt == SHOAL_TRACE_ALL ? l->attempt != SHOAL_TRACE_ALL : l->attempt == w->attempt;
    if (!shown) continue;
    bound = SHOAL_MAX(bound, l->row.clock_bound_ns);
    known &= l->row.clock_readings > 0;
    shoal_json_object(j, NULL);
    shoal_json_int(j, "rank", l->rank);
    shoal_json_int(j, "attempt", l->attempt);
    shoal_json_int(j, "readings", l->row.clock_readings);
    shoal_json_fixed(j, "offset_ns", shoal_trace_offset_ns(&l->row), 3);
    shoal_json_real(j, "drift", l->row.clock_drift);
    shoal_json_fixed(j, "bound_ns", l->row.clock_bound_ns, 3);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  shoal_json_fixed(j, "clock_bound_ns", known ? bound : NAN, 3);
  shoal_json_end(j);
}

shoal_status shoal_trace_export(const char *const *paths, size_t n, int attempt, FILE *out)
{
  shoal_trace_table *t;
  SHOAL_TRY(shoal_trace_table_create(paths, n, &attempt, &t));
  writer w = { .table = t, .attempt = attempt, .zero_ns = find_zero(t, attempt), .json = { .lines = 2, .out = out } };
  shoal_status st = SHOAL_OK;
  shoal_json_object(&w.json, NULL);
  shoal_json_array(&w.json, "traceEvents");
  for (size_t i = 0; i < t->n_parts && st == SHOAL_OK; i++) st = print_part(&w, i);
  if (st == SHOAL_OK) {
    shoal_json_end(&w.json);
    put_tail(&w);
    shoal_json_end(&w.json);
    shoal_json_finish(&w.json);
  }
  shoal_str_free(&w.json.text);
  shoal_trace_table_destroy(t);
  return st;
}
