/* The recorder: totals, which are always kept, and a buffer of records.
 *
 * A span costs a few additions and one 56-byte store, so that recording does not perturb the step it measures: no lock
 * (one thread owns a recorder), no allocation (the buffer is allocated at open), and no system call except when the
 * buffer is full or a flush is due.  The cost of a span is measured at open, and the overhead is reported with the
 * trace.
 *
 *     span ──► totals ──► BY_OP:   ring ──► full, or flush_s passed ──► file ──► flush
 *                    └──► BY_STEP: sums per kind and link ── next step ──► ring
 */
#include "trace/trace.h"
#include "base/mem.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

const char *shoal_link_name(shoal_link link)
{
  static const char *const names[] = { "self", "node", "between", "control" };
  return (unsigned)link < SHOAL_LINK_COUNT ? names[link] : "none";
}

const char *shoal_trace_kind_name(shoal_trace_kind kind)
{
#define X(name, text) text,
  static const char *const names[] = { SHOAL_TRACE_KINDS(X) };
#undef X
  return (unsigned)kind < SHOAL_TRACE_KIND_COUNT ? names[kind] : "unknown";
}

/* ---- recording ---- */

/* Stores a failed write, to be returned by the next flush, and stops recording.  A full ring is written in the middle
 * of a step, where an error cannot be returned. */
static void keep_failure(shoal_trace *t, shoal_status st)
{
  if (st == SHOAL_OK) return;
  shoal_error_keep(&t->broken, st);
  shoal_h5_abandon(t->out.file); /* keeps the file as of the last flush */
  free(t->ring);
  t->ring = NULL;
}

/* Context switches of the calling thread since it started. */
static void count_switches(uint64_t *voluntary, uint64_t *involuntary)
{
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return;
  *voluntary = (uint64_t)usage.ru_nvcsw;
  *involuntary = (uint64_t)usage.ru_nivcsw;
}

uint64_t shoal_trace_peak_bytes(void)
{
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static void update_row(shoal_trace *t)
{
  t->row.peak_bytes = shoal_trace_peak_bytes();
  t->row.flushed_ns = shoal_now_ns();
  t->row.overhead_ns = (uint64_t)(shoal_trace_overhead_s(t) * 1e9);
  t->row.spans = t->spans;
  memcpy(t->row.payload, t->counters.payload, sizeof t->row.payload);
  memcpy(t->row.wire, t->counters.wire, sizeof t->row.wire);
  memcpy(t->row.messages, t->counters.messages, sizeof t->row.messages);
  count_switches(&t->row.voluntary_switches, &t->row.involuntary_switches);
  t->row.voluntary_switches -= t->switches_before[0];
  t->row.involuntary_switches -= t->switches_before[1];
}

/* The ring is full in the middle of a step: write it now. */
static void spill(shoal_trace *t)
{
  uint64_t begin = shoal_now_ns();
  update_row(t); /* so that the counters include the records being written */
  keep_failure(t, shoal_trace_file_write(t));
  t->flush_ns += shoal_now_ns() - begin;
}

static inline void store(shoal_trace *t, const shoal_trace_record *r)
{
  if (t->fill == SHOAL_TRACE_RING) spill(t);
  if (t->ring) t->ring[t->fill++] = *r;
}

static inline bool is_summed(shoal_trace_kind kind)
{
  return kind != SHOAL_TRACE_STEP && kind != SHOAL_TRACE_INPUT && kind != SHOAL_TRACE_CHECKPOINT &&
         kind != SHOAL_TRACE_EVALUATION;
}

static void add_to_sum(shoal_trace *t, const shoal_trace_record *r, uint64_t ns)
{
  size_t link = r->link < SHOAL_LINK_COUNT ? r->link : SHOAL_LINK_COUNT;
  if (t->sums[r->kind][link].n++ == 0) t->sums[r->kind][link].t0_ns = r->t0_ns;
  t->sums[r->kind][link].ns += ns;
  t->sums[r->kind][link].bytes += r->bytes;
}

/* Emits one record per kind and link for the step that ends; op is the kind's name, seq the number of spans. */
static void emit_sums(shoal_trace *t)
{
  for (unsigned kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++)
    for (unsigned link = 0; link <= SHOAL_LINK_COUNT; link++) {
      if (t->sums[kind][link].n == 0) continue;
      store(t, &(shoal_trace_record){ .t0_ns = t->sums[kind][link].t0_ns,
                                      .t1_ns = t->sums[kind][link].t0_ns + t->sums[kind][link].ns,
                                      .step = t->step,
                                      .op = kind,
                                      .kind = (uint8_t)kind,
                                      .link = link < SHOAL_LINK_COUNT ? (uint8_t)link : SHOAL_LINK_NONE,
                                      .peer = -1,
                                      .bytes = t->sums[kind][link].bytes,
                                      .seq = t->sums[kind][link].n });
    }
  memset(t->sums, 0, sizeof t->sums);
}

static inline void record(shoal_trace *t, const shoal_trace_record *r)
{
  uint64_t ns = r->t1_ns > r->t0_ns ? r->t1_ns - r->t0_ns : 0;
  if (r->kind != SHOAL_TRACE_WAIT || r->link != SHOAL_LINK_CONTROL) t->total_ns[r->kind] += ns;
  if (!t->ring) return;
  t->spans++;
  if (t->level == SHOAL_TRACE_BY_STEP && is_summed((shoal_trace_kind)r->kind))
    add_to_sum(t, r, ns);
  else
    store(t, r);
}

void shoal_trace_span(shoal_trace *t, shoal_trace_kind kind, uint32_t op, uint64_t t0_ns, uint64_t t1_ns)
{
  record(t, &(shoal_trace_record){ .t0_ns = t0_ns,
                                   .t1_ns = t1_ns,
                                   .step = t->step,
                                   .op = op,
                                   .kind = (uint8_t)kind,
                                   .link = SHOAL_LINK_NONE,
                                   .peer = -1 });
}

void shoal_trace_transfer(shoal_trace *t, shoal_trace_kind kind, uint32_t op, uint64_t t0_ns, uint64_t t1_ns,
                          shoal_link link, int peer, uint64_t bytes, uint64_t seq)
{
  record(t, &(shoal_trace_record){ .t0_ns = t0_ns,
                                   .t1_ns = t1_ns,
                                   .step = t->step,
                                   .op = op,
                                   .kind = (uint8_t)kind,
                                   .link = (uint8_t)link,
                                   .peer = peer,
                                   .bytes = bytes,
                                   .seq = seq });
}

void shoal_trace_set_step(shoal_trace *t, uint64_t step)
{
  if (step == t->step) return;
  if (t->level == SHOAL_TRACE_BY_STEP) emit_sums(t);
  t->step = step;
}

uint32_t shoal_trace_add_op(shoal_trace *t, const char *name)
{
  if (t->n_ops == t->cap_ops) {
    size_t cap = t->cap_ops ? 2 * t->cap_ops : 64;
    char **grown = realloc(t->ops, cap * sizeof *grown);
    if (!grown) return SHOAL_TRACE_OTHER; /* out of memory: record the span under a generic name */
    t->ops = grown;
    t->cap_ops = cap;
  }
  t->ops[t->n_ops] = shoal_strdup_printf("%s", name);
  return (uint32_t)t->n_ops++;
}

uint32_t shoal_trace_op(shoal_trace *t, const char *name)
{
  for (size_t i = 0; i < t->n_ops; i++)
    if (strcmp(t->ops[i], name) == 0) return (uint32_t)i;
  return shoal_trace_add_op(t, name);
}

/* ---- totals and counters ---- */

double shoal_trace_total_s(const shoal_trace *t, shoal_trace_kind kind)
{
  return (double)t->total_ns[kind] * 1e-9;
}

double shoal_trace_overhead_s(const shoal_trace *t)
{
  return ((double)t->spans * t->span_ns + (double)t->flush_ns) * 1e-9;
}

shoal_counters *shoal_trace_counters(shoal_trace *t)
{
  return &t->counters;
}

void shoal_trace_set_clock(shoal_trace *t, const shoal_trace_reading *start, const shoal_trace_reading *end)
{
  shoal_trace_clock_fit(start, end, &t->row.clock_offset_ns, &t->row.clock_drift, &t->row.clock_bound_ns);
  t->row.clock_readings = end ? 2 : 1;
}

/* ---- opening, flushing, closing ---- */

/* Returns the stored failure.  The first caller decides whether to print it; later ones get it marked as printed. */
static shoal_status failure(shoal_trace *t)
{
  if (t->broken.code == SHOAL_OK) return SHOAL_OK;
  shoal_status st = shoal_error_put(&t->broken);
  t->broken.told = true;
  return st;
}

shoal_status shoal_trace_flush(shoal_trace *t, bool even_if_recent)
{
  if (!t->ring) return failure(t);
  uint64_t begin = shoal_now_ns();
  if (!even_if_recent && begin - t->last_flush_ns < t->flush_every_ns) return SHOAL_OK;
  update_row(t);
  keep_failure(t, shoal_trace_file_write(t));
  if (t->broken.code == SHOAL_OK) keep_failure(t, shoal_h5_flush(t->out.file));
  t->last_flush_ns = shoal_now_ns();
  t->flush_ns += t->last_flush_ns - begin;
  return failure(t);
}

/* Measures the cost of a span, including its two clock readings, and then resets what the measurement recorded. */
static void measure_span(shoal_trace *t)
{
  enum { REPEAT = 1000 };
  uint64_t begin = shoal_now_ns();
  for (int i = 0; i < REPEAT; i++) {
    uint64_t t0 = shoal_now_ns();
    shoal_trace_span(t, SHOAL_TRACE_OTHER, SHOAL_TRACE_OTHER, t0, shoal_now_ns());
  }
  t->span_ns = (double)(shoal_now_ns() - begin) / REPEAT;
  memset(t->total_ns, 0, sizeof t->total_ns);
  memset(t->sums, 0, sizeof t->sums);
  t->fill = 0;
  t->spans = 0;
}

static void fill_row(shoal_trace *t, const shoal_trace_info *info)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->row = (shoal_trace_attempt){ .attempt = info->attempt,
                                  .size = info->size,
                                  .node = info->node,
                                  .local_rank = info->local_rank,
                                  .started_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                                  .opened_ns = shoal_now_ns(),
                                  .clock_drift = 1,
                                  .level = (uint8_t)t->level,
                                  .contended = info->contended };
  snprintf(t->row.host, sizeof t->row.host, "%s", info->host ? info->host : "");
  count_switches(&t->switches_before[0], &t->switches_before[1]);
}

static void free_recorder(shoal_trace *t)
{
  shoal_trace_file_close(t);
  for (size_t i = 0; i < t->n_ops; i++) free(t->ops[i]);
  free(t->ops);
  free(t->ring);
  free(t->path);
  free(t);
}

shoal_status shoal_trace_open(const char *path, shoal_trace_level level, const shoal_trace_info *info,
                              shoal_trace **out)
{
  shoal_status st = SHOAL_OK;
  shoal_trace *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "trace recorder");
  t->level = path ? level : SHOAL_TRACE_OFF;
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) shoal_trace_add_op(t, shoal_trace_kind_name(kind));
  if (t->level != SHOAL_TRACE_OFF) {
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC(SHOAL_TRACE_RING, &t->ring), fail);
    t->path = shoal_strdup_printf("%s", path);
    t->flush_every_ns = (uint64_t)((info->flush_s > 0 ? info->flush_s : 5) * 1e9);
    fill_row(t, info);
    measure_span(t);
    SHOAL_TRY_GOTO(st, shoal_trace_file_open(t, info), fail);
    SHOAL_TRY_GOTO(st, shoal_trace_flush(t, true), fail); /* the file is readable from now on */
    t->flush_ns = 0;                                      /* count only flushes during training as overhead */
  }
  *out = t;
  return SHOAL_OK;
fail:
  free_recorder(t);
  return st;
}

shoal_status shoal_trace_close(shoal_trace *t)
{
  if (!t) return SHOAL_OK;
  if (t->level == SHOAL_TRACE_BY_STEP) emit_sums(t);
  t->row.closed = 1;
  shoal_status st = shoal_trace_flush(t, true);
  free_recorder(t);
  return st;
}
