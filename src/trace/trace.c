/* The recorder: totals, which are always kept, and a ring of records.
 *
 * A span costs a few additions and one 56-byte store, so that recording does not perturb the step it measures: no lock
 * (one thread owns a recorder), no allocation (the ring is allocated at open), and no system call except when a flush is
 * due.  The cost of a span is measured at open, and the overhead is reported with the trace.
 *
 *     span ──► totals ──► BY_OP:   ring ──► writer of the node: flush_s passed, or half full ──► file ──► flush
 *                    └──► BY_STEP: sums per kind and link ── next step ──► ring
 *
 * The ring has one producer, this recorder, and one consumer, the writer (file.c), often another process: `written` and
 * `drained` count records and are all that both look at. */
#include "trace/trace.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/pause.h"
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
  shoal_trace_file_abandon(t->out);
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

/* Makes the row known to the writer, which may read the other slot meanwhile. */
static void publish_row(shoal_trace *t)
{
  uint64_t words[SHOAL_TRACE_ROW_WORDS], n = atomic_load_explicit(&t->ring->rows, memory_order_relaxed) + 1;
  memcpy(words, &t->row, sizeof words);
  for (size_t i = 0; i < SHOAL_TRACE_ROW_WORDS; i++)
    atomic_store_explicit(&t->ring->row[n & 1][i], words[i], memory_order_release);
  atomic_store_explicit(&t->ring->rows, n, memory_order_release);
}

/* @param whole  with what only the system knows, which costs some microseconds */
static void update_row(shoal_trace *t, uint64_t now_ns, bool whole)
{
  t->row.flushed_ns = now_ns;
  t->row.overhead_ns = (uint64_t)(shoal_trace_overhead_s(t) * 1e9);
  t->row.spans = t->spans;
  memcpy(t->row.payload, t->counters.payload, sizeof t->row.payload);
  memcpy(t->row.wire, t->counters.wire, sizeof t->row.wire);
  memcpy(t->row.messages, t->counters.messages, sizeof t->row.messages);
  if (whole) {
    t->row.peak_bytes = shoal_trace_peak_bytes();
    count_switches(&t->row.voluntary_switches, &t->row.involuntary_switches);
    t->row.voluntary_switches -= t->switches_before[0];
    t->row.involuntary_switches -= t->switches_before[1];
  }
  publish_row(t);
}

/* The ring is full in the middle of a step.  A writer empties it now, another rank cannot wait for its writer. */
static bool make_room(shoal_trace *t)
{
  uint64_t drained = atomic_load_explicit(&t->ring->drained, memory_order_acquire);
  if (t->written - drained == SHOAL_TRACE_RING && t->out) {
    uint64_t begin = shoal_now_ns();
    update_row(t, begin, true); /* so that the counters include the records being written */
    keep_failure(t, shoal_trace_file_write(t->out));
    t->flush_ns += shoal_now_ns() - begin;
    if (!t->ring) return false;
    drained = atomic_load_explicit(&t->ring->drained, memory_order_acquire);
  }
  t->room = drained + SHOAL_TRACE_RING;
  if (t->written < t->room) return true;
  t->row.dropped++;
  return false;
}

static inline void store(shoal_trace *t, const shoal_trace_record *r)
{
  if (!t->ring || (t->written == t->room && !make_room(t))) return;
  t->ring->records[t->written % SHOAL_TRACE_RING] = *r;
  atomic_store_explicit(&t->ring->written, ++t->written, memory_order_release);
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
  if (ns >= SHOAL_PAUSE_LEAST_MS * 1000000ull) ns -= shoal_paused_ns(r->t0_ns, r->t1_ns); /* in totals, not in spans */
  if (r->link != SHOAL_LINK_CONTROL) t->total_ns[r->kind] += ns;
  if (!t->ring || t->paused) return;
  if (t->level == SHOAL_TRACE_BY_STEP && r->kind == SHOAL_TRACE_EXCHANGE && r->link == SHOAL_LINK_CONTROL) return;
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

void shoal_trace_end_step(shoal_trace *t, uint32_t op, uint64_t t0_ns, uint64_t t1_ns, uint64_t samples)
{
  t->row.steps++;
  t->row.samples += samples;
  record(t, &(shoal_trace_record){ .t0_ns = t0_ns,
                                   .t1_ns = t1_ns,
                                   .step = t->step,
                                   .op = op,
                                   .kind = SHOAL_TRACE_STEP,
                                   .link = SHOAL_LINK_NONE,
                                   .peer = -1,
                                   .seq = samples });
}

void shoal_trace_transfer(shoal_trace *t, shoal_trace_kind kind, const shoal_trace_exchange *x, uint64_t t0_ns,
                          uint64_t t1_ns)
{
  record(t, &(shoal_trace_record){ .t0_ns = t0_ns,
                                   .t1_ns = t1_ns,
                                   .step = t->step,
                                   .op = x->op,
                                   .kind = (uint8_t)kind,
                                   .link = (uint8_t)x->link,
                                   .role = (uint8_t)x->role,
                                   .peer = x->peer,
                                   .group = x->group,
                                   .bytes = kind == SHOAL_TRACE_EXCHANGE ? x->bytes : 0,
                                   .seq = x->seq });
}

void shoal_trace_blocked(shoal_trace *t, const shoal_trace_exchange *x, uint64_t t0_ns, uint64_t t1_ns)
{
  shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, x, t0_ns, t1_ns);
  shoal_trace_transfer(t, SHOAL_TRACE_WAIT, x, t0_ns, t1_ns);
}

void shoal_trace_pause(shoal_trace *t, bool pause)
{
  t->paused = pause;
}

void shoal_trace_set_step(shoal_trace *t, uint64_t step)
{
  if (step == t->step) return;
  if (t->level == SHOAL_TRACE_BY_STEP) emit_sums(t);
  t->step = step;
}

/* Cuts a long name so that it still differs from others which begin alike: a hash of the whole follows. */
static void fit_name(const char *name, char out[SHOAL_TRACE_NAME])
{
  enum { HASH = 1 + 8 }; /* "~" and digits */
  size_t n = strlen(name), keep = SHOAL_TRACE_NAME - 1 - HASH;
  memset(out, 0, SHOAL_TRACE_NAME);
  if (n < SHOAL_TRACE_NAME) {
    snprintf(out, SHOAL_TRACE_NAME, "%s", name);
    return;
  }
  while (keep > 0 && ((unsigned char)name[keep] & 0xc0) == 0x80) keep--; /* not within a character of UTF-8 */
  memcpy(out, name, keep);
  snprintf(out + keep, HASH + 1, "~%08x", shoal_crc32c(0, name, n));
}

uint32_t shoal_trace_op(shoal_trace *t, const char *name)
{
  char fit[SHOAL_TRACE_NAME];
  if (!t->ring) return SHOAL_TRACE_OTHER;
  uint32_t n = atomic_load_explicit(&t->ring->n_ops, memory_order_relaxed);
  fit_name(name, fit);
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(t->ring->ops[i], fit) == 0) return i;
  if (n == SHOAL_TRACE_OPS) return SHOAL_TRACE_OTHER; /* record the span under a generic name */
  memcpy(t->ring->ops[n], fit, sizeof fit);
  atomic_store_explicit(&t->ring->n_ops, n + 1, memory_order_release);
  return n;
}

/* Groups of the same name and ranks follow one another when a run goes back to a checkpoint, with exchanges numbered anew: the
 * identity tells them apart by their order. */
uint32_t shoal_trace_group(shoal_trace *t, const char *name, const int *world_ranks, int n)
{
  if (!t->ring) return 0;
  uint32_t count = atomic_load_explicit(&t->ring->n_groups, memory_order_relaxed);
  if (count == SHOAL_TRACE_GROUPS) return 0;
  shoal_trace_group_row row = { .size = n };
  snprintf(row.name, sizeof row.name, "%s", name);
  uint32_t like = shoal_crc32c(shoal_crc32c(0, name, strlen(name)), world_ranks, (size_t)n * sizeof *world_ranks);
  for (bool known = true; known || row.id == 0;) {
    row.id = like;
    known = false;
    for (uint32_t i = 0; i < count && !known; i++) known = t->ring->groups[i].id == row.id;
    like = shoal_crc32c(like, name, strlen(name) + 1);
  }
  t->ring->groups[count] = row;
  atomic_store_explicit(&t->ring->n_groups, count + 1, memory_order_release);
  return row.id;
}

void shoal_trace_set_batch(shoal_trace *t, int samples)
{
  t->row.batch = samples;
}

/* ---- totals and counters ---- */

void shoal_trace_add_formula(shoal_trace *t, const uint64_t bytes[SHOAL_LINK_COUNT])
{
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) t->row.formula[link] += bytes[link];
}

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
  if (!t->ring || (t->paused && !even_if_recent)) return failure(t);
  uint64_t begin = shoal_now_ns();
  bool due = even_if_recent || begin - t->last_flush_ns >= t->flush_every_ns;
  update_row(t, begin, due);
  if (due) t->last_flush_ns = begin;
  if (!t->out || !(due || shoal_trace_file_is_pressed(t->out))) return SHOAL_OK;
  keep_failure(t, shoal_trace_file_write(t->out));
  if (due && t->ring) keep_failure(t, shoal_trace_file_flush(t->out));
  t->flush_ns += shoal_now_ns() - begin;
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
  atomic_store_explicit(&t->ring->written, t->written = 0, memory_order_relaxed);
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
  shoal_trace_file_close(t->out);
  free(t->own);
  free(t);
}

size_t shoal_trace_ring_bytes(void)
{
  return sizeof(shoal_trace_shared);
}

static shoal_status open_recorder(shoal_trace_level level, const shoal_trace_info *info, shoal_trace_shared *ring,
                                  shoal_trace **out)
{
  shoal_trace *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "trace recorder");
  t->level = level;
  *out = t;
  if (!ring) return SHOAL_OK;
  t->ring = ring;
  t->room = SHOAL_TRACE_RING;
  t->flush_every_ns = (uint64_t)((info->flush_s > 0 ? info->flush_s : 5) * 1e9);
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++)
    (void)shoal_trace_op(t, shoal_trace_kind_name((shoal_trace_kind)kind));
  fill_row(t, info);
  measure_span(t);
  update_row(t, t->row.opened_ns, true);
  return SHOAL_OK;
}

shoal_status shoal_trace_open_ring(void *memory, shoal_trace_level level, const shoal_trace_info *info,
                                   shoal_trace **out)
{
  return open_recorder(level, info, memory, out);
}

shoal_status shoal_trace_write(shoal_trace *t, const char *path, const shoal_trace_info *info,
                               const shoal_trace_ring *ranks, size_t n)
{
  SHOAL_TRY(shoal_trace_file_create(path, info, ranks, n, &t->out));
  SHOAL_TRY(shoal_trace_flush(t, true)); /* the file is readable from now on */
  t->flush_ns = 0;                       /* count only flushes during training as overhead */
  return SHOAL_OK;
}

shoal_status shoal_trace_open(const char *path, shoal_trace_level level, const shoal_trace_info *info,
                              shoal_trace **out)
{
  shoal_trace_shared *own = NULL;
  shoal_trace *t = NULL;
  if (!path || level == SHOAL_TRACE_OFF) return open_recorder(SHOAL_TRACE_OFF, info, NULL, out);
  shoal_status st = SHOAL_ALLOC(1, &own);
  if (st == SHOAL_OK) st = open_recorder(level, info, own, &t);
  if (st != SHOAL_OK) {
    free(own);
    return st;
  }
  t->own = own;
  st = shoal_trace_write(t, path, info, &(shoal_trace_ring){ info->rank, own }, 1);
  if (st == SHOAL_OK)
    *out = t;
  else
    free_recorder(t);
  return st;
}

shoal_status shoal_trace_close(shoal_trace *t)
{
  if (!t) return SHOAL_OK;
  if (t->ring && t->level == SHOAL_TRACE_BY_STEP) emit_sums(t);
  t->row.closed = 1;
  if (t->ring && t->out) {
    update_row(t, shoal_now_ns(), true);
    keep_failure(t, shoal_trace_file_await(t->out));
  }
  shoal_status st = shoal_trace_flush(t, true);
  free_recorder(t);
  return st;
}
