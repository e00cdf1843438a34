/* Where did the time go?  Every moment of a rank is given to one kind: that of the innermost span covering it.
 *
 *     STEP      |------------------------------------|
 *     BACKWARD       |---------------|
 *     WAIT                 |----|
 *     given to  other|backw|wait|back|     other     |
 *
 * So kinds add up to the frame even where spans nest, and a wait inside backward is not counted twice.  Transfers
 * (EXCHANGE) run beside the compute thread and stay out of this.  One sweep over the spans, sorted by start, with the
 * open ones on a stack; O(n log n).  Attempts are swept one by one, since each has a clock of its own. */
#include "base/mem.h"
#include "trace/trace_impl.h"
#include <stdlib.h>

typedef struct {
  uint64_t t0, t1;
  uint8_t kind;
} span;

/* Earlier first; of two that start together the longer one is outside, and a step is outside of everything. */
static int by_start(const void *a, const void *b)
{
  const span *x = a, *y = b;
  if (x->t0 != y->t0) return x->t0 < y->t0 ? -1 : 1;
  if (x->t1 != y->t1) return x->t1 > y->t1 ? -1 : 1;
  return (y->kind == SHOAL_TRACE_STEP) - (x->kind == SHOAL_TRACE_STEP);
}

/* [from, to) belongs to `kind`; the part before step_end lies inside a step. */
static void give(shoal_trace_parts *p, uint8_t kind, uint64_t from, uint64_t to, uint64_t step_end)
{
  if (to <= from) return;
  uint64_t cut = SHOAL_MIN(SHOAL_MAX(from, step_end), to);
  if (kind == SHOAL_TRACE_STEP) kind = SHOAL_TRACE_OTHER;
  p->inside[kind] += (double)(cut - from) * 1e-9;
  p->between[kind] += (double)(to - cut) * 1e-9;
}

/* Close the open spans that end by `until`, handing out their time; returns the new depth. */
static size_t close_until(shoal_trace_parts *p, const span *stack, size_t depth, uint64_t *now, uint64_t until,
                          uint64_t step_end)
{
  while (depth > 0 && stack[depth - 1].t1 <= until) {
    give(p, stack[depth - 1].kind, *now, stack[depth - 1].t1, step_end);
    *now = SHOAL_MAX(*now, stack[depth - 1].t1);
    depth--;
  }
  return depth;
}

/* `stack` has room for n. */
static void sweep(const span *spans, size_t n, span *stack, shoal_trace_parts *p)
{
  size_t depth = 0;
  uint64_t now = 0, step_end = 0;
  for (size_t i = 0; i < n; i++) {
    depth = close_until(p, stack, depth, &now, spans[i].t0, step_end);
    if (depth > 0) give(p, stack[depth - 1].kind, now, spans[i].t0, step_end);
    now = spans[i].t0;
    if (spans[i].kind == SHOAL_TRACE_STEP) step_end = SHOAL_MAX(step_end, spans[i].t1);
    stack[depth++] = spans[i];
  }
  close_until(p, stack, depth, &now, UINT64_MAX, step_end);
}

/* At level BY_STEP most kinds come as a sum per step, which has no place in time: it lies inside the steps. */
static bool is_sum(const shoal_trace_record *r, uint8_t level)
{
  return level == SHOAL_TRACE_BY_STEP && r->kind != SHOAL_TRACE_STEP && r->kind != SHOAL_TRACE_INPUT &&
         r->kind != SHOAL_TRACE_CHECKPOINT && r->kind != SHOAL_TRACE_EVALUATION;
}

static void split_attempt(const shoal_trace_record *r, size_t n, uint8_t level, span *room, shoal_trace_parts *total)
{
  shoal_trace_parts p = { .steps = 0 };
  double summed = 0;
  size_t m = 0;
  span *spans = room, *stack = room + n;
  for (size_t i = 0; i < n; i++) {
    uint64_t ns = r[i].t1_ns > r[i].t0_ns ? r[i].t1_ns - r[i].t0_ns : 0;
    double s = (double)ns * 1e-9;
    if (r[i].kind == SHOAL_TRACE_STEP) {
      p.steps++;
      p.inside[SHOAL_TRACE_STEP] += s;
    }
    if (r[i].kind == SHOAL_TRACE_EXCHANGE)
      p.inside[SHOAL_TRACE_EXCHANGE] += s;
    else if (!is_sum(&r[i], level))
      spans[m++] = (span){ r[i].t0_ns, r[i].t0_ns + ns, r[i].kind };
    else if (r[i].kind != SHOAL_TRACE_OTHER) { /* a sum of OTHER explains nothing either */
      p.inside[r[i].kind] += s;
      summed += s;
    }
  }
  qsort(spans, m, sizeof *spans, by_start);
  sweep(spans, m, stack, &p);
  p.inside[SHOAL_TRACE_OTHER] = SHOAL_MAX(0, p.inside[SHOAL_TRACE_OTHER] - summed);
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) {
    total->inside[kind] += p.inside[kind];
    total->between[kind] += p.between[kind];
  }
  total->steps += p.steps;
}

void shoal_trace_split_parts(const shoal_trace_data *d, shoal_trace_parts *out)
{
  span *room = NULL;
  *out = (shoal_trace_parts){ .steps = 0 };
  if (shoal_alloc(d->n, 2 * sizeof *room, "sorting a trace", (void **)&room) != SHOAL_OK) return;
  if (d->attempts == 0) split_attempt(d->records, d->n, SHOAL_TRACE_BY_OP, room, out);
  for (size_t i = 0; i < d->attempts; i++) {
    const shoal_trace_attempt *a = &d->attempt_rows[i];
    uint64_t end = i + 1 < d->attempts ? d->attempt_rows[i + 1].first_record : d->n;
    end = SHOAL_MIN(end, d->n);
    if (a->first_record < end) split_attempt(d->records + a->first_record, end - a->first_record, a->level, room, out);
  }
  free(room);
}

void shoal_trace_split(const shoal_trace_data *d, double seconds[SHOAL_TRACE_KIND_COUNT], uint64_t *steps)
{
  shoal_trace_parts p;
  shoal_trace_split_parts(d, &p);
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) seconds[kind] = p.inside[kind] + p.between[kind];
  *steps = p.steps;
}
