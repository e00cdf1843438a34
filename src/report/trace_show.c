/* `shoal trace show`: an attempt of a run as tables, or as CSV with a line per rank and step.
 *
 *     time       step durations and the time breakdown of each rank; the percentages of a line add up to 100 %
 *     exchange   transfer time and its hidden and exposed parts; clock offset and drift
 *     run        bytes per link class, the slowest rank, efficiencies (trace_efficiency.c), energy, overhead of tracing
 *
 * One attempt is shown: the last one that completed a step, unless another one is requested.  If there are several,
 * they are listed first.  The same numbers as JSON: trace_json.c.  Definitions: docs/trace-format.md. */
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Columns of the first table, in the order of a step.  EXCHANGE stands for the agreement, which is not a kind. */
static const struct {
  shoal_trace_kind kind;
  const char *title;
} columns[] = {
  { SHOAL_TRACE_FORWARD, "forward" },       { SHOAL_TRACE_BACKWARD, "backward" },
  { SHOAL_TRACE_OPTIMIZER, "optimizer" },   { SHOAL_TRACE_INPUT, "input" },
  { SHOAL_TRACE_WAIT, "exposed" },          { SHOAL_TRACE_EXCHANGE, "agreement" },
  { SHOAL_TRACE_CHECKPOINT, "checkpoint" }, { SHOAL_TRACE_EVALUATION, "evaluation" },
  { SHOAL_TRACE_OTHER, "other" },
};

static double percent(double part, double whole)
{
  return whole > 0 ? 100 * part / whole : 0;
}

static double ms(double ns, uint64_t steps)
{
  return steps ? ns * 1e-6 / (double)steps : 0;
}

static const char *utc(uint64_t unix_ns, char *buf, size_t cap)
{
  struct tm parts;
  time_t s = (time_t)(unix_ns / 1000000000u);
  if (!gmtime_r(&s, &parts) || strftime(buf, cap, "%Y-%m-%d %H:%M:%S", &parts) == 0) buf[0] = '\0';
  return buf;
}

/* ---- attempts ---- */

static const char *steps_text(const shoal_trace_summary *summary, char *buf, size_t cap)
{
  if (summary->min_steps == summary->max_steps)
    snprintf(buf, cap, "%llu", (unsigned long long)summary->max_steps);
  else
    snprintf(buf, cap, "%llu-%llu", (unsigned long long)summary->min_steps, (unsigned long long)summary->max_steps);
  return buf;
}

static void print_attempts(const shoal_trace_table *t, FILE *out)
{
  char steps[48], when[32];
  fprintf(out, "attempt  ranks  nodes     steps  began (UTC)          end\n");
  for (size_t i = 0; i + 1 < t->n_summaries; i++) {
    const shoal_trace_summary *summary = &t->summaries[i];
    if (summary->lines == 0) continue;
    fprintf(out, "%7d  %5d  %5zu  %8s  %s  %s\n", summary->attempt, summary->size, summary->nodes,
            steps_text(summary, steps, sizeof steps), utc(summary->started_ns, when, sizeof when),
            summary->closed ? "in order" : "killed, still running, or not written to its end");
  }
  fputc('\n', out);
}

static void print_head(const shoal_trace_table *t, const shoal_trace_run *r, FILE *out)
{
  char steps[48], which[32] = "all attempts", length[32], run[256], speed[32] = "";
  if (r->summary->attempt != SHOAL_TRACE_ALL) snprintf(which, sizeof which, "attempt %d", r->summary->attempt);
  if (!r->summary->mixed && r->samples_per_s > 0) snprintf(speed, sizeof speed, ", %.0f samples/s", r->samples_per_s);
  steps_text(r->summary, steps, sizeof steps);
  fprintf(out, "%s, %s: %zu rank%s on %zu node%s, %s step%s each, %s%s\n\n", shoal_show(t->run, run, sizeof run), which,
          r->n, r->n == 1 ? "" : "s", r->summary->nodes, r->summary->nodes == 1 ? "" : "s", steps,
          strcmp(steps, "1") == 0 ? "" : "s",
          shoal_format_seconds((double)r->wall_ns * 1e-9 / (double)r->n, length, sizeof length), speed);
  if (r->summary->mixed)
    fprintf(out,
            "attempts with different numbers of ranks are not averaged, only summed: see each with --attempt N\n\n");
}

/* ---- tables with a line per rank ---- */

/* Of many ranks there are the extremes, by own time per step, and how each column is distributed. */
enum { LINES_MOST = 16, EXTREMES = 3, COLUMNS_MOST = 16 };

/* A table: the numbers of a rank's line, and how a line is printed.  `l` NULL: it is of no single rank. */
typedef struct {
  size_t columns;
  void (*values)(const shoal_trace_line *l, double *out);
  void (*print)(const char *name, const shoal_trace_line *l, const double *values, FILE *out);
} rank_table;

static const char *line_name(const shoal_trace_line *l, char *buf, size_t cap)
{
  snprintf(buf, cap, "%d%s", l->rank, shoal_trace_is_contended(l) ? "*" : "");
  return buf;
}

static void print_line(const rank_table *table, const shoal_trace_line *l, FILE *out)
{
  char name[16];
  double values[COLUMNS_MOST];
  table->values(l, values);
  table->print(line_name(l, name, sizeof name), l, values, out);
}

static int by_own_time(const void *a, const void *b)
{
  double x = shoal_trace_own_ms(*(const shoal_trace_line *const *)a);
  double y = shoal_trace_own_ms(*(const shoal_trace_line *const *)b);
  return (x < y) - (x > y);
}

static int by_value(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Nearest rank, as for steps; a column is unknown if it is on any rank. */
static double quantile(const shoal_trace_run *r, const rank_table *table, size_t column, double at, double *scratch)
{
  double values[COLUMNS_MOST];
  for (size_t i = 0; i < r->n; i++) {
    table->values(r->lines[i], values);
    if (isnan(values[column])) return NAN;
    scratch[i] = values[column];
  }
  qsort(scratch, r->n, sizeof *scratch, by_value);
  return scratch[(size_t)(at * (double)(r->n - 1) + 0.5)];
}

static void print_spread(const shoal_trace_run *r, const rank_table *table, double *scratch, FILE *out)
{
  static const char *const names[] = { "least", "5 %", "median", "95 %", "most" };
  static const double at[] = { 0, 0.05, 0.5, 0.95, 1 };
  double values[COLUMNS_MOST];
  for (size_t k = 0; k < SHOAL_COUNT(at); k++) {
    for (size_t c = 0; c < table->columns; c++) values[c] = quantile(r, table, c, at[k], scratch);
    table->print(names[k], NULL, values, out);
  }
}

static void print_lines(const shoal_trace_run *r, const rank_table *table, FILE *out)
{
  if (r->n <= LINES_MOST) {
    for (size_t i = 0; i < r->n; i++) print_line(table, r->lines[i], out);
    return;
  }
  const shoal_trace_line **order = calloc(r->n, sizeof *order);
  double *scratch = calloc(r->n, sizeof *scratch);
  if (order && scratch) {
    memcpy(order, r->lines, r->n * sizeof *order);
    qsort(order, r->n, sizeof *order, by_own_time);
    for (size_t i = 0; i < EXTREMES; i++) print_line(table, order[i], out);
    fprintf(out, "%6s of %zu ranks, those whose own steps are longest and shortest; then each column by itself\n",
            "...", r->n);
    for (size_t i = r->n - EXTREMES; i < r->n; i++) print_line(table, order[i], out);
    print_spread(r, table, scratch, out);
  }
  free(order);
  free(scratch);
}

/* ---- time ---- */

enum { MEAN, MEDIAN, P95, SHARES };

static void time_shares(const shoal_trace_times *t, uint64_t wall_ns, double *out)
{
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++) {
    uint64_t ns = columns[c].kind == SHOAL_TRACE_EXCHANGE ? t->agreement_ns : t->ns[columns[c].kind];
    out[SHARES + c] = percent((double)ns, (double)wall_ns);
  }
}

static void time_values(const shoal_trace_line *l, double *out)
{
  out[MEAN] = ms((double)l->inside.ns[SHOAL_TRACE_STEP], l->steps);
  out[MEDIAN] = (double)l->median_ns * 1e-6;
  out[P95] = (double)l->p95_ns * 1e-6;
  time_shares(&l->whole, l->wall_ns, out);
}

static void print_time_of(const char *name, uint64_t steps, const double *values, FILE *out)
{
  fprintf(out, "%6s ", name);
  if (steps == UINT64_MAX)
    fprintf(out, "%7s", "");
  else
    fprintf(out, "%7llu", (unsigned long long)steps);
  for (size_t c = 0; c < SHARES; c++)
    if (isnan(values[c]))
      fprintf(out, " %9s", "-");
    else
      fprintf(out, " %9.3f", values[c]);
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++)
    fprintf(out, " %*.1f", (int)strlen(columns[c].title), values[SHARES + c]);
  fputc('\n', out);
}

static void print_time(const char *name, const shoal_trace_line *l, const double *values, FILE *out)
{
  print_time_of(name, l ? l->steps : UINT64_MAX, values, out);
}

static void print_times(const shoal_trace_run *r, FILE *out)
{
  static const rank_table table = { SHARES + SHOAL_COUNT(columns), time_values, print_time };
  fprintf(out, "%6s %7s %9s %9s %9s  share of the time, %%\n%6s %7s %9s %9s %9s", "", "", "", "step, ms", "", "rank",
          "steps", "mean", "median", "p95");
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++) fprintf(out, " %s", columns[c].title);
  fputc('\n', out);
  print_lines(r, &table, out);
  double all[COLUMNS_MOST] = { [MEAN] = ms((double)r->inside.ns[SHOAL_TRACE_STEP], r->rank_steps),
                               [MEDIAN] = (double)r->median_ns * 1e-6,
                               [P95] = (double)r->p95_ns * 1e-6 };
  if (r->summary->mixed) all[MEAN] = all[MEDIAN] = all[P95] = NAN;
  time_shares(&r->whole, r->wall_ns, all);
  print_time_of("all", r->summary->max_steps, all, out);
}

/* ---- exchange ---- */

enum { PARTS = 4 };

static void exchange_parts(const shoal_trace_times *t, uint64_t steps, uint64_t wall_ns, bool placed, double *out)
{
  const double ns[PARTS] = { (double)t->ns[SHOAL_TRACE_EXCHANGE], (double)t->hidden_ns, (double)t->ns[SHOAL_TRACE_WAIT],
                             (double)t->beside_ns };
  for (size_t i = 0; i < PARTS; i++) {
    bool known = placed || i == 2;
    out[2 * i] = known ? ms(ns[i], steps) : NAN;
    out[2 * i + 1] = known ? percent(ns[i], (double)wall_ns) : NAN;
  }
}

static void exchange_values(const shoal_trace_line *l, double *out)
{
  exchange_parts(&l->whole, l->steps, l->wall_ns, l->placed, out);
}

static void print_parts(const char *name, const double *values, FILE *out)
{
  fprintf(out, "%6s", name);
  for (size_t i = 0; i < PARTS; i++) {
    if (isnan(values[2 * i]))
      fprintf(out, " %9s %5s  ", "-", "-");
    else
      fprintf(out, " %9.3f %5.1f %%", values[2 * i], values[2 * i + 1]);
  }
}

static void print_clock(const shoal_trace_line *l, FILE *out)
{
  const shoal_trace_attempt *a = &l->row;
  if (a->clock_readings == 0) {
    fprintf(out, "  not measured");
    return;
  }
  fprintf(out, " %13.3f %7.3f", shoal_trace_offset_ns(a) * 1e-3, a->clock_bound_ns * 1e-3);
  if (a->clock_readings == 2)
    fprintf(out, " %9.3f %7.3f", (a->clock_drift - 1) * 1e6, shoal_trace_drift_bound_ppm(l));
  else
    fprintf(out, " %9s %7s", "-", "-");
}

/* Clocks of several attempts have nothing in common. */
static void print_exchange_line(const char *name, const shoal_trace_line *l, const double *values, FILE *out)
{
  print_parts(name, values, out);
  if (l && l->attempt != SHOAL_TRACE_ALL) print_clock(l, out);
  fputc('\n', out);
}

static void print_exchange(const shoal_trace_run *r, FILE *out)
{
  static const rank_table table = { 2 * PARTS, exchange_values, print_exchange_line };
  bool clocks = r->summary->attempt != SHOAL_TRACE_ALL;
  double all[COLUMNS_MOST];
  fprintf(out, "\n%6s  exchange: ms per step, and share of the time", "");
  if (clocks) fprintf(out, "%44s", "clock against rank 0");
  fprintf(out, "\n%6s %17s %17s %17s %17s", "rank", "transfer    ", "hidden    ", "exposed    ",
          clocks ? "beside    " : "beside");
  fprintf(out, clocks ? " %13s %7s %9s %7s\n" : "\n", "offset us", "+-", "drift ppm", "+-");
  print_lines(r, &table, out);
  exchange_parts(&r->whole, r->rank_steps, r->wall_ns, r->placed, all);
  for (size_t i = 0; i < PARTS && r->summary->mixed; i++) all[2 * i] = NAN;
  print_parts("all", all, out);
  fputc('\n', out);
  if (!r->placed)
    fprintf(out, "the trace sums spans by step: with trace.level op transfer and hidden are known, too\n");
}

/* ---- the run ---- */

static void print_per_step(const shoal_trace_run *r, int link, FILE *out)
{
  char each[2][32];
  if (isnan(r->payload_per_step[link]))
    fprintf(out, "  %14s %12s %14s", "-", "-", "-");
  else
    fprintf(out, "  %14s %12s %14.1f", shoal_format_bytes(r->payload_per_step[link], each[0], sizeof each[0]),
            shoal_format_bytes(r->wire_per_step[link], each[1], sizeof each[1]), r->messages_per_step[link]);
}

/* Agreement is in no formula, and older traces have none. */
static void print_formula(const shoal_trace_run *r, int link, FILE *out)
{
  char text[32];
  bool known = false;
  for (int i = 0; i < SHOAL_LINK_CONTROL; i++) known |= r->formula[i] > 0;
  if (!known || link == SHOAL_LINK_CONTROL)
    fprintf(out, "  -\n");
  else if (r->formula[link] == r->counters.payload[link])
    fprintf(out, "  equal to payload\n");
  else
    fprintf(out, "  %s\n", shoal_format_bytes((double)r->formula[link], text, sizeof text));
}

static void print_links(const shoal_trace_run *r, FILE *out)
{
  char each[2][32];
  fprintf(out, "\nsent by all ranks together:\n%-8s  %14s %12s %14s  %14s %12s  %s\n", "link", "payload/step",
          "wire/step", "messages/step", "payload", "wire", "the method's formula");
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    fprintf(out, "%-8s", shoal_link_name((shoal_link)link));
    print_per_step(r, link, out);
    fprintf(out, "  %14s %12s", shoal_format_bytes((double)r->counters.payload[link], each[0], sizeof each[0]),
            shoal_format_bytes((double)r->counters.wire[link], each[1], sizeof each[1]));
    print_formula(r, link, out);
  }
}

static void print_balance(const shoal_trace_run *r, FILE *out)
{
  if (!r->slowest) return;
  double own = 0;
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->lines[i]->steps) own += shoal_trace_own_ms(r->lines[i]), n++;
  const shoal_trace_line *s = r->slowest;
  char host[256];
  fprintf(out, "\nslowest: rank %d on %s, %.3f ms per step of its own (mean %.3f); it waits %.3f ms%s\n", s->rank,
          shoal_show(s->row.host, host, sizeof host), shoal_trace_own_ms(s), own / (double)n,
          ms((double)s->whole.ns[SHOAL_TRACE_WAIT], s->steps), r->slowest_waits_least ? ", least of all" : "");
}

typedef bool (*remark)(const shoal_trace_line *l, char *text, size_t cap);

static bool was_killed(const shoal_trace_line *l, char *text, size_t cap)
{
  snprintf(text, cap, "was killed, or still runs");
  return l->attempt != SHOAL_TRACE_ALL && !l->row.closed;
}

static bool was_overwritten(const shoal_trace_line *l, char *text, size_t cap)
{
  snprintf(text, cap, "has the last of its %llu steps; %llu earlier records were overwritten (trace.keep: last)",
           (unsigned long long)shoal_trace_steps_made(l), (unsigned long long)l->row.overwritten);
  return l->row.overwritten > 0;
}

static bool was_dropped(const shoal_trace_line *l, char *text, size_t cap)
{
  snprintf(text, cap, "lacks %llu records, its memory for them or the file was full",
           (unsigned long long)l->row.dropped);
  return l->row.dropped > 0;
}

static bool was_cut(const shoal_trace_line *l, char *text, size_t cap)
{
  snprintf(text, cap, "lacks %llu records at its end: its file is cut off", (unsigned long long)l->cut);
  return l->cut > 0;
}

/* Names the ranks whose trace was not closed, and those whose records are not complete: of many only the first. */
static void print_incomplete(const shoal_trace_run *r, FILE *out)
{
  static const remark remarks[] = { was_killed, was_overwritten, was_dropped, was_cut };
  char text[160];
  for (size_t k = 0; k < SHOAL_COUNT(remarks); k++) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
      if (remarks[k](r->lines[i], text, sizeof text) && ++n <= LINES_MOST)
        fprintf(out, "rank %d %s\n", r->lines[i]->rank, text);
    if (n > LINES_MOST) fprintf(out, "and so %zu more ranks\n", n - LINES_MOST);
  }
}

/* Counters of whole nodes: what else runs there is in them. */
static void print_energy(const shoal_trace_run *r, FILE *out)
{
  const shoal_trace_joules *e = &r->energy;
  if (!e->packages) return;
  fprintf(out, "energy: %.1f kJ in %zu processor packages of %zu of %zu nodes, without memory and network; ",
          (double)e->uj * 1e-9, e->packages, e->nodes, r->summary->nodes);
  if (!e->job_cpus)
    fprintf(out, "other jobs on them are in it\n");
  else if (e->job_cpus < e->node_cpus)
    fprintf(out, "other jobs on them are in it (this one has %llu of %llu hardware threads)\n",
            (unsigned long long)e->job_cpus, (unsigned long long)e->node_cpus);
  else
    fprintf(out, "the job has them to itself\n");
}

static void print_remarks(const shoal_trace_run *r, FILE *out)
{
  bool contended = false, crowded = false;
  for (size_t i = 0; i < r->n; i++) {
    contended |= shoal_trace_is_contended(r->lines[i]);
    crowded |= shoal_trace_is_crowded(r->lines[i]);
  }
  double overhead = percent((double)r->overhead_ns, (double)r->wall_ns);
  fprintf(out, "tracing took %.3f %% of the time%s\n", overhead,
          overhead > 1 ? ": more than 1 %, trace.level step takes less" : "");
  if (contended)
    fprintf(out, "* contended, %s (%.1f involuntary switches per second)\n",
            crowded ? "more threads than cores: its waits hold other ranks' work"
                    : "though ranks have no more threads than cores: other programs run on these, and its times hold "
                      "their work",
            r->wall_ns ? (double)r->involuntary_switches * 1e9 / (double)r->wall_ns : 0);
}

static void print_text(const shoal_trace_table *t, const shoal_trace_run *r, const shoal_trace_replay *x, FILE *out)
{
  if (t->n_summaries > 2) print_attempts(t, out);
  print_head(t, r, out);
  print_times(r, out);
  print_exchange(r, out);
  print_links(r, out);
  print_balance(r, out);
  shoal_trace_print_efficiency(r, x, out);
  print_energy(r, out);
  print_remarks(r, out);
  print_incomplete(r, out);
}

/* ---- steps ---- */

static void print_step(const shoal_trace_attempt *a, int rank, const shoal_trace_times *s, bool placed, FILE *out)
{
  fprintf(out, "%d,%d,%llu,%lld", a->attempt, rank, (unsigned long long)s->step,
          (long long)shoal_trace_to_rank0(a, s->begin_ns));
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE) fprintf(out, ",%llu", (unsigned long long)s->ns[kind]);
  if (placed)
    fprintf(out, ",%llu,%llu,%llu\n", (unsigned long long)s->ns[SHOAL_TRACE_EXCHANGE], (unsigned long long)s->hidden_ns,
            (unsigned long long)s->beside_ns);
  else
    fprintf(out, ",,,\n");
}

/* Prints the CSV.  begin_ns is on rank 0's clock.  Cells unknown at level `step` are empty. */
static shoal_status print_steps(const shoal_trace_table *t, int attempt, FILE *out)
{
  shoal_status st = SHOAL_OK;
  fprintf(out, "attempt,rank,step,begin_ns");
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE) fprintf(out, ",%s_ns", shoal_trace_kind_name((shoal_trace_kind)kind));
  fprintf(out, ",transfer_ns,hidden_ns,beside_ns\n");
  for (size_t part = 0; part < t->n_parts && st == SHOAL_OK; part++) {
    shoal_trace_data *d = t->parts[part];
    if (!shoal_trace_table_needs(t, part, attempt)) continue;
    st = shoal_trace_load(d);
    for (size_t row = 0; row < d->attempts && st == SHOAL_OK; row++) {
      shoal_trace_split s;
      if (!shoal_trace_table_counts(t, part, row, attempt)) continue;
      if ((st = shoal_trace_split_create(d, row, &s)) != SHOAL_OK) break;
      for (size_t k = 0; k < s.n; k++) print_step(&d->attempt_rows[row], d->info.rank, &s.steps[k], s.placed, out);
      shoal_trace_split_free(&s);
    }
    shoal_trace_unload(d);
  }
  return st;
}

static shoal_status print_run(const shoal_trace_table *t, const shoal_trace_run *r, shoal_trace_form form, FILE *out)
{
  shoal_trace_replay replay = { .n = 0 }, *x = r->summary->attempt == SHOAL_TRACE_ALL ? NULL : &replay;
  if (x) SHOAL_TRY(shoal_trace_replay_create(t, r->summary->attempt, x));
  if (form == SHOAL_TRACE_TEXT)
    print_text(t, r, x, out);
  else
    shoal_trace_print_json(t, r, x, out);
  shoal_trace_replay_free(&replay);
  return SHOAL_OK;
}

shoal_status shoal_trace_show(const char *const *paths, size_t n, int attempt, shoal_trace_form form, FILE *out)
{
  shoal_trace_table *t;
  shoal_trace_run r;
  SHOAL_TRY(shoal_trace_table_create(paths, n, &attempt, &t));
  shoal_status st = shoal_trace_run_create(t, attempt, &r);
  if (st == SHOAL_OK) {
    st = form == SHOAL_TRACE_STEPS ? print_steps(t, attempt, out) : print_run(t, &r, form, out);
    shoal_trace_run_free(&r);
  }
  shoal_trace_table_destroy(t);
  return st;
}
