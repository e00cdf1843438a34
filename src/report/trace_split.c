/* Time breakdown of a rank: every moment is attributed to one kind, that of the innermost span covering it.
 *
 *     STEP      |------------------------------------|
 *     BACKWARD       |---------------|
 *     WAIT                 |----|
 *     counts as other|backw|wait|back|     other     |    other, between steps
 *
 *     EXCHANGE         |========|                         two exchanges: where they overlap,
 *     EXCHANGE               |========|                   time counts once
 *     transfer         |==============|
 *                       hidd|exp.|hid.
 *
 * So the kinds add up to the total even if spans nest, and a wait inside backward is not counted twice.  Transfers run
 * concurrently with the compute thread: their union is intersected with the breakdown, and each part of it is exposed
 * (during a wait), hidden (during own compute) or beside (during anything else).  An exchange that crosses a step
 * boundary counts for each step, and for the time between them, with the part that lies there.
 *
 * The algorithm is one sweep over the spans sorted by start, with the enclosing spans on a stack, and over the union in
 * parallel.  Times are integer nanoseconds, so sums are exact.  Attempts are processed separately, since each has its
 * own clock. */
#include "base/mem.h"
#include "report/trace_impl.h"
#include <stdlib.h>

typedef struct {
  uint64_t t0, t1, step;
  uint8_t kind;
  bool agreement;
} span;

typedef struct {
  uint64_t t0, t1;
} interval;

typedef struct {
  shoal_trace_split *out;
  const interval *transfers; /* union of the transfers: disjoint intervals in chronological order */
  size_t n_transfers, at;    /* at: first interval that does not end before `now` */
  uint64_t step_end;         /* end of the latest step that has begun; 0 before the first */
  uint64_t now;              /* time up to which everything is attributed */
} sweep;

/* ---- sorting ---- */

/* By start; of spans with the same start the longer, enclosing one first, and a step before all others. */
static int by_start(const void *a, const void *b)
{
  const span *x = a, *y = b;
  if (x->t0 != y->t0) return x->t0 < y->t0 ? -1 : 1;
  if (x->t1 != y->t1) return x->t1 > y->t1 ? -1 : 1;
  return (y->kind == SHOAL_TRACE_STEP) - (x->kind == SHOAL_TRACE_STEP);
}

static int by_begin(const void *a, const void *b)
{
  const interval *x = a, *y = b;
  return (x->t0 > y->t0) - (x->t0 < y->t0);
}

/* Sorts intervals and merges overlapping ones in place; returns the number that remain. */
static size_t merge_intervals(interval *x, size_t n)
{
  size_t kept = 0;
  qsort(x, n, sizeof *x, by_begin);
  for (size_t i = 0; i < n; i++) {
    if (kept > 0 && x[i].t0 <= x[kept - 1].t1)
      x[kept - 1].t1 = SHOAL_MAX(x[kept - 1].t1, x[i].t1);
    else
      x[kept++] = x[i];
  }
  return kept;
}

/* ---- attributing time ---- */

/* Length of the overlap of [from, to) with transfers; must be called in chronological order. */
static uint64_t transfer_overlap(sweep *w, uint64_t from, uint64_t to)
{
  uint64_t ns = 0;
  while (w->at < w->n_transfers && w->transfers[w->at].t1 <= from) w->at++;
  for (size_t i = w->at; i < w->n_transfers && w->transfers[i].t0 < to; i++)
    ns += SHOAL_MIN(to, w->transfers[i].t1) - SHOAL_MAX(from, w->transfers[i].t0);
  return ns;
}

static bool is_own_compute(uint8_t kind)
{
  return kind == SHOAL_TRACE_FORWARD || kind == SHOAL_TRACE_BACKWARD || kind == SHOAL_TRACE_OPTIMIZER ||
         kind == SHOAL_TRACE_EVALUATION;
}

static void add_piece(shoal_trace_times *t, const span *s, uint64_t ns, uint64_t transfer)
{
  uint8_t kind = s->kind == SHOAL_TRACE_STEP ? SHOAL_TRACE_OTHER : s->kind;
  *(s->agreement ? &t->agreement_ns : &t->ns[kind]) += ns;
  t->ns[SHOAL_TRACE_EXCHANGE] += transfer;
  if (is_own_compute(kind))
    t->hidden_ns += transfer;
  else if (kind != SHOAL_TRACE_WAIT || s->agreement)
    t->beside_ns += transfer;
}

/* Attributes the time from w->now to `until` to span `s`; the part before step_end counts for the step, too. */
static void attribute(sweep *w, const span *s, uint64_t until)
{
  if (until <= w->now) return;
  uint64_t cut = SHOAL_MIN(SHOAL_MAX(w->now, w->step_end), until);
  if (cut > w->now) {
    uint64_t transfer = transfer_overlap(w, w->now, cut);
    add_piece(&w->out->steps[w->out->n - 1], s, cut - w->now, transfer);
    add_piece(&w->out->whole, s, cut - w->now, transfer);
  }
  if (until > cut) add_piece(&w->out->whole, s, until - cut, transfer_overlap(w, cut, until));
  w->now = until;
}

static void begin_step(sweep *w, const span *s)
{
  shoal_trace_times *t = &w->out->steps[w->out->n++];
  *t = (shoal_trace_times){ .step = s->step, .begin_ns = s->t0 };
  t->ns[SHOAL_TRACE_STEP] = s->t1 - s->t0;
  w->out->whole.ns[SHOAL_TRACE_STEP] += s->t1 - s->t0;
  w->step_end = SHOAL_MAX(w->step_end, s->t1);
}

/* Runs the sweep.  All spans lie in [w->now, end); `stack` has space for n. */
static void run_sweep(sweep *w, const span *spans, size_t n, span *stack, uint64_t end)
{
  static const span unattributed = { .kind = SHOAL_TRACE_OTHER };
  size_t depth = 0;
  for (size_t i = 0; i <= n; i++) {
    uint64_t until = i < n ? spans[i].t0 : end;
    while (depth > 0 && stack[depth - 1].t1 <= until) {
      attribute(w, &stack[depth - 1], stack[depth - 1].t1);
      depth--;
    }
    attribute(w, depth > 0 ? &stack[depth - 1] : &unattributed, until);
    if (i == n) return;
    if (spans[i].kind == SHOAL_TRACE_STEP) begin_step(w, &spans[i]);
    stack[depth++] = spans[i];
  }
}

/* ---- level BY_STEP ---- */

/* At level BY_STEP most kinds are recorded as a sum per step, which has no position within the step. */
bool shoal_trace_is_sum(const shoal_trace_record *r, uint8_t level)
{
  return level == SHOAL_TRACE_BY_STEP && r->kind != SHOAL_TRACE_STEP && r->kind != SHOAL_TRACE_INPUT &&
         r->kind != SHOAL_TRACE_CHECKPOINT && r->kind != SHOAL_TRACE_EVALUATION;
}

/* Attributes a sum to its kind and subtracts it from OTHER, as far as there is unattributed time; returns the time
 * subtracted. */
static uint64_t attribute_sum(shoal_trace_times *t, const span *s, uint64_t unattributed)
{
  uint64_t ns = s->t1 - s->t0, taken = SHOAL_MIN(ns, unattributed);
  *(s->agreement ? &t->agreement_ns : &t->ns[s->kind]) += ns;
  t->ns[SHOAL_TRACE_OTHER] -= taken;
  return taken;
}

/* Adds a sum to its step and to the whole.  Waits for agreement happen between steps.  Sums are ordered by step, so
 * `at` only advances. */
static void add_sum(shoal_trace_split *out, const span *s, size_t *at)
{
  if (s->kind == SHOAL_TRACE_OTHER || s->kind == SHOAL_TRACE_EXCHANGE) return;
  while (*at < out->n && out->steps[*at].step < s->step) ++*at;
  uint64_t rest = out->whole.ns[SHOAL_TRACE_OTHER];
  if (*at < out->n && out->steps[*at].step == s->step && !s->agreement)
    rest = attribute_sum(&out->steps[*at], s, out->steps[*at].ns[SHOAL_TRACE_OTHER]);
  attribute_sum(&out->whole, s, rest);
}

/* ---- an attempt ---- */

void shoal_trace_add_times(shoal_trace_times *to, const shoal_trace_times *t)
{
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) to->ns[kind] += t->ns[kind];
  to->agreement_ns += t->agreement_ns;
  to->hidden_ns += t->hidden_ns;
  to->beside_ns += t->beside_ns;
}

static span span_of(const shoal_trace_record *r)
{
  return (span){ .t0 = r->t0_ns,
                 .t1 = SHOAL_MAX(r->t0_ns, r->t1_ns),
                 .step = r->step,
                 .kind = r->kind,
                 .agreement = r->kind == SHOAL_TRACE_WAIT && r->link == SHOAL_LINK_CONTROL };
}

/* True for a record that the reader dropped, and for an agreement under way, which is no transfer: its wait tells all. */
static bool is_left_out(const shoal_trace_record *r)
{
  return (r->t0_ns == 0 && r->t1_ns == 0) || (r->kind == SHOAL_TRACE_EXCHANGE && r->link == SHOAL_LINK_CONTROL);
}

/* What samples per second are computed from.  Waits within a checkpoint or an evaluation are part of it here. */
static void measure_pace(const shoal_trace_record *r, size_t n, shoal_trace_split *out)
{
  const shoal_trace_record *first = NULL;
  uint64_t end = 0;
  for (size_t i = 0; i < n; i++) {
    if (r[i].kind != SHOAL_TRACE_STEP) continue;
    if (!first || r[i].t0_ns < first->t0_ns) first = &r[i];
    end = SHOAL_MAX(end, r[i].t1_ns);
    out->pace_samples += r[i].seq;
  }
  if (!first) return;
  out->pace_samples -= first->seq;
  out->pace_ns = end - first->t1_ns;
  for (size_t i = 0; i < n; i++) {
    bool pause = r[i].kind == SHOAL_TRACE_CHECKPOINT || r[i].kind == SHOAL_TRACE_EVALUATION;
    if (pause && r[i].t0_ns >= first->t1_ns && r[i].t1_ns <= end) out->pace_ns -= r[i].t1_ns - r[i].t0_ns;
  }
}

/* Breaks down n records.  `spans`, `stack` and `transfers` have space for n each, and out->steps for all steps. */
static void split(const shoal_trace_record *r, size_t n, uint8_t level, span *spans, span *stack, interval *transfers,
                  shoal_trace_split *out)
{
  sweep w = { .out = out, .transfers = transfers, .now = UINT64_MAX };
  size_t m = 0, at = 0;
  uint64_t end = 0;
  for (size_t i = 0; i < n; i++) {
    span s = span_of(&r[i]);
    if (is_left_out(&r[i])) continue;
    if (s.kind == SHOAL_TRACE_EXCHANGE) {
      out->exchanges += shoal_trace_is_sum(&r[i], level) ? r[i].seq : 1;
      out->exchange_bytes += r[i].bytes;
    }
    if (shoal_trace_is_sum(&r[i], level)) continue;
    if (s.kind == SHOAL_TRACE_EXCHANGE)
      transfers[w.n_transfers++] = (interval){ s.t0, s.t1 };
    else
      spans[m++] = s;
    w.now = SHOAL_MIN(w.now, s.t0);
    end = SHOAL_MAX(end, s.t1);
  }
  if (end == 0) return;
  out->begin_ns = w.now;
  out->wall_ns = end - w.now;
  w.n_transfers = merge_intervals(transfers, w.n_transfers);
  qsort(spans, m, sizeof *spans, by_start);
  run_sweep(&w, spans, m, stack, end);
  measure_pace(r, n, out);
  for (size_t i = 0; i < n; i++) {
    span s = span_of(&r[i]);
    if (shoal_trace_is_sum(&r[i], level) && !is_left_out(&r[i])) add_sum(out, &s, &at);
  }
  for (size_t i = 0; i < out->n; i++) shoal_trace_add_times(&out->inside, &out->steps[i]);
}

const shoal_trace_record *shoal_trace_records_of(const shoal_trace_data *d, size_t row, size_t *n)
{
  uint64_t begin = d->attempt_rows[row].first_record;
  uint64_t end = row + 1 < d->attempts ? d->attempt_rows[row + 1].first_record : d->n;
  end = SHOAL_MIN(end, d->n);
  *n = begin < end ? end - begin : 0;
  return *n ? d->records + begin : NULL;
}

shoal_status shoal_trace_split_create(const shoal_trace_data *d, size_t row, shoal_trace_split *out)
{
  size_t n, steps = 0;
  const shoal_trace_record *r = shoal_trace_records_of(d, row, &n);
  span *spans = NULL;
  interval *transfers = NULL;
  *out = (shoal_trace_split){ .placed = d->attempt_rows[row].level != SHOAL_TRACE_BY_STEP };
  for (size_t i = 0; i < n; i++) steps += r[i].kind == SHOAL_TRACE_STEP;
  shoal_status st = SHOAL_ALLOC(steps, &out->steps);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(2 * n, &spans);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(n, &transfers);
  if (st == SHOAL_OK) split(r, n, d->attempt_rows[row].level, spans, spans + n, transfers, out);
  free(spans);
  free(transfers);
  if (st != SHOAL_OK) shoal_trace_split_free(out);
  return st;
}

void shoal_trace_split_free(shoal_trace_split *s)
{
  free(s->steps);
  s->steps = NULL;
  s->n = 0;
}
