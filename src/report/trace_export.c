/* `shoal trace export`: which spans of which ranks go to another program, in which order, and when they were.
 *
 *     process   node 1 (n2), rank 3          one per rank, ordered by node; labelled with the bound of its clock
 *     track 0   work                         steps, which contain forward, backward, waits, ...
 *     track 1.. exchanges                    overlapping exchanges are on different tracks
 *     flows     between the parts of an exchange on different ranks
 *
 * All times are on rank 0's clock, and 0 is the begin of the earliest span, so that none is negative.  The conversion is monotonic,
 * so nested spans stay nested.  Several attempts are placed by the wall clock, since monotonic clocks restart when a machine boots.
 * One attempt of a rank is in memory at a time, and events are written to the output immediately.
 *
 * Spans that were only summed (level `step`) have no start time and are omitted. */
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_TRACKS = 256 };

/* A span to be written, and the number of the exchange it is part of; 0: none. */
typedef struct {
  const shoal_trace_record *r;
  uint64_t flow;
} chosen;

typedef struct {
  const shoal_trace_table *table;
  int attempt;
  const shoal_trace_choice *choice;
  shoal_trace_sink *sink; /* NULL: spans are only counted */
  int64_t zero_ns;        /* time 0 of the output, in nanoseconds since 1970 */
  uint64_t spans;
  /* state of the rank being written */
  const shoal_trace_data *data;
  const shoal_trace_attempt *row, *clock;
  int64_t base;   /* from its rank 0's clock to the time of the output */
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

/* The begin of the earliest span of the attempts shown. */
static int64_t find_zero(const shoal_trace_table *t, int attempt)
{
  int64_t zero = INT64_MAX;
  for (size_t i = 0; i < t->n_lines; i++) {
    const shoal_trace_line *l = &t->lines[i];
    if (l->attempt == SHOAL_TRACE_ALL || !l->wall_ns || (attempt != SHOAL_TRACE_ALL && l->attempt != attempt)) continue;
    const shoal_trace_attempt *clock = shoal_trace_clock_of(t, l->attempt, l->rank);
    zero = SHOAL_MIN(zero, attempt_base(t, l->attempt) + shoal_trace_to_rank0(clock, l->begin_ns));
  }
  return zero == INT64_MAX ? 0 : zero;
}

static int64_t output_time(const writer *w, uint64_t local_ns)
{
  return SHOAL_MAX(shoal_trace_to_rank0(w->clock, local_ns) + w->base, (int64_t)0);
}

/* ---- which spans ---- */

static bool is_wanted(const writer *w, const shoal_trace_record *r)
{
  const shoal_trace_choice *c = w->choice;
  if ((!r->t0_ns && !r->t1_ns) || shoal_trace_is_sum(r, w->row->level)) return false;
  if (c->by_step && (r->step < c->first_step || r->step > c->last_step)) return false;
  if (!c->by_time) return true;
  double t0 = (double)output_time(w, r->t0_ns) * 1e-9,
         t1 = (double)output_time(w, SHOAL_MAX(r->t0_ns, r->t1_ns)) * 1e-9;
  return t1 >= c->from_s && t0 <= c->to_s;
}

/* By start; of spans with the same start the longer, enclosing one first. */
static int by_start(const void *a, const void *b)
{
  const shoal_trace_record *x = ((const chosen *)a)->r, *y = ((const chosen *)b)->r;
  if (x->t0_ns != y->t0_ns) return x->t0_ns < y->t0_ns ? -1 : 1;
  if (x->t1_ns != y->t1_ns) return x->t1_ns > y->t1_ns ? -1 : 1;
  return (y->kind == SHOAL_TRACE_STEP) - (x->kind == SHOAL_TRACE_STEP);
}

/* ---- flows ---- */

typedef struct {
  uint64_t key;
  size_t at;
} numbered;

static int by_key(const void *a, const void *b)
{
  const numbered *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

/* A part is the exchange itself; of one that is only received, the wait. */
static bool has_flow(const shoal_trace_record *r)
{
  bool receives = r->role == SHOAL_TRACE_ROLE_RECEIVE;
  return r->role != SHOAL_TRACE_ROLE_NONE && r->role < SHOAL_TRACE_ROLE_COUNT &&
         r->kind == (receives ? SHOAL_TRACE_WAIT : SHOAL_TRACE_EXCHANGE);
}

/* Numbers the exchanges of all spans of an attempt, so that the same ones of other ranks get the same numbers: by their key, and by
 * how many of that key came before. */
static shoal_status number_flows(const writer *w, chosen *spans, size_t n)
{
  numbered *keys;
  size_t m = 0;
  SHOAL_TRY(SHOAL_ALLOC(n, &keys));
  for (size_t i = 0; i < n; i++)
    if (has_flow(spans[i].r))
      keys[m++] = (numbered){
        shoal_trace_key(spans[i].r, w->data->info.rank, shoal_trace_name_hash(w->data->op_names[spans[i].r->op])), i
      };
  if (m > 0) qsort(keys, m, sizeof *keys, by_key);
  for (size_t i = 0, nth = 0; i < m; i++) {
    nth = i > 0 && keys[i].key == keys[i - 1].key ? nth + 1 : 0;
    spans[keys[i].at].flow = shoal_trace_mix(keys[i].key + nth + (uint64_t)w->row->attempt) | 1;
  }
  free(keys);
  return SHOAL_OK;
}

/* ---- the spans of a rank ---- */

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
    w->sink->track(w->sink, w->data->info.rank, (int)k + 1, name);
    w->tracks = k + 1;
  }
  return (int)k + 1;
}

/* Spans of the work nest: those that began before and are over are ended first.  `stack` has space for all. */
static void write_spans(writer *w, const chosen *spans, size_t n, int64_t *stack)
{
  int rank = w->data->info.rank;
  size_t used = 0, depth = 0;
  for (size_t i = 0; i < n; i++) {
    const shoal_trace_record *r = spans[i].r;
    int64_t t0 = output_time(w, r->t0_ns), t1 = output_time(w, SHOAL_MAX(r->t0_ns, r->t1_ns));
    if (r->kind == SHOAL_TRACE_EXCHANGE) {
      int track = find_track(w, r, &used);
      w->sink->begin(w->sink, w->data, r, track, t0, t1, spans[i].flow);
      w->sink->end(w->sink, rank, track, t1);
      continue;
    }
    for (; depth > 0 && stack[depth - 1] <= t0; depth--) w->sink->end(w->sink, rank, 0, stack[depth - 1]);
    if (depth > 0) t1 = SHOAL_MIN(t1, stack[depth - 1]);
    w->sink->begin(w->sink, w->data, r, 0, t0, t1, spans[i].flow);
    stack[depth++] = t1;
  }
  for (; depth > 0; depth--) w->sink->end(w->sink, rank, 0, stack[depth - 1]);
}

static shoal_status write_sorted(writer *w, chosen *spans, size_t n)
{
  int64_t *stack = NULL;
  shoal_status st = SHOAL_OK;
  if (n > 0) qsort(spans, n, sizeof *spans, by_start);
  SHOAL_TRY_GOTO(st, number_flows(w, spans, n), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &stack), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(MOST_TRACKS + 1, &w->ends), end);
  write_spans(w, spans, n, stack);
end:
  free(stack);
  free(w->ends);
  w->ends = NULL;
  return st;
}

/* An exchange is numbered among all of its rank, and written if it is in the window; so flows of any window agree. */
static shoal_status write_row(writer *w, size_t row)
{
  size_t n, m = 0;
  const shoal_trace_record *r = shoal_trace_records_of(w->data, row, &n);
  chosen *spans;
  w->row = &w->data->attempt_rows[row];
  w->clock = shoal_trace_clock_of(w->table, w->row->attempt, w->data->info.rank);
  w->base = attempt_base(w->table, w->row->attempt) - w->zero_ns;
  SHOAL_TRY(SHOAL_ALLOC(n, &spans));
  for (size_t i = 0; i < n; i++)
    if (is_wanted(w, &r[i])) spans[m++].r = &r[i];
  w->spans += m;
  shoal_status st = w->sink ? write_sorted(w, spans, m) : SHOAL_OK;
  free(spans);
  return st;
}

/* ---- ranks ---- */

static void describe_clock(shoal_str *s, const shoal_trace_attempt *a)
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

static void write_process(writer *w, const shoal_trace_line *l)
{
  shoal_str name = { 0 }, label = { 0 };
  shoal_str_add(&name, "node %d (%s), rank %d", l->row.node, l->row.host, l->rank);
  describe_clock(&label, &l->row);
  w->sink->process(w->sink, l, name.text, label.text, sort_index(w, l));
  w->sink->track(w->sink, l->rank, 0, "work");
  shoal_str_free(&name);
  shoal_str_free(&label);
}

static const shoal_trace_line *find_line(const writer *w, int rank)
{
  for (size_t i = 0; i < w->table->n_lines; i++)
    if (w->table->lines[i].attempt == w->attempt && w->table->lines[i].rank == rank) return &w->table->lines[i];
  return NULL;
}

/* Parts of a rank follow each other. */
static shoal_status write_part(writer *w, size_t part)
{
  shoal_trace_data *d = w->table->parts[part];
  const shoal_trace_line *l = find_line(w, d->info.rank);
  if (!l) return SHOAL_OK;
  bool begins = part == 0 || w->table->parts[part - 1]->info.rank != d->info.rank;
  w->data = d;
  if (begins) w->tracks = 0;
  if (begins && w->sink) write_process(w, l);
  if (!shoal_trace_table_needs(w->table, part, w->attempt)) return SHOAL_OK;
  if (w->sink) w->sink->names(w->sink, d);
  shoal_status st = shoal_trace_load(d);
  for (size_t row = 0; row < d->attempts && st == SHOAL_OK; row++)
    if (shoal_trace_table_counts(w->table, part, row, w->attempt)) st = write_row(w, row);
  shoal_trace_unload(d);
  return st;
}

static shoal_status write_parts(writer *w)
{
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < w->table->n_parts && st == SHOAL_OK; i++) st = write_part(w, i);
  return st;
}

/* ---- the file ---- */

static bool has_window(const shoal_trace_choice *c)
{
  return c->by_step || c->by_time;
}

/* Counts first, so that the size is known before there is a file of that size. */
static shoal_status tell_size(writer *w)
{
  static const double bytes[] = { [SHOAL_TRACE_CHROME] = 205, [SHOAL_TRACE_PERFETTO] = 85 }; /* of a span, about */
  SHOAL_TRY(write_parts(w));
  SHOAL_CHECK(w->spans > 0 || !has_window(w->choice), SHOAL_ERR_USAGE,
              "no span of %s is in this window: `shoal trace show --steps` lists the steps and their times",
              w->table->run);
  if (w->choice->tell) w->choice->tell(w->spans, (double)w->spans * bytes[w->choice->program]);
  return SHOAL_OK;
}

static shoal_status write_all(writer *w, FILE *out)
{
  bool chrome = w->choice->program == SHOAL_TRACE_CHROME;
  SHOAL_TRY(tell_size(w));
  SHOAL_TRY(chrome ? shoal_trace_chrome_open(out, &w->sink) : shoal_trace_perfetto_open(out, &w->sink));
  shoal_status st = write_parts(w);
  if (st == SHOAL_OK) w->sink->finish(w->sink, w->table, w->attempt, w->zero_ns);
  w->sink->release(w->sink);
  return st;
}

shoal_status shoal_trace_export(const char *const *paths, size_t n, int attempt, const shoal_trace_choice *choice,
                                FILE *out)
{
  shoal_trace_table *t;
  SHOAL_TRY(shoal_trace_table_create(paths, n, &attempt, &t));
  writer w = { .table = t, .attempt = attempt, .choice = choice, .zero_ns = find_zero(t, attempt) };
  shoal_status st = write_all(&w, out);
  shoal_trace_table_destroy(t);
  return st;
}
