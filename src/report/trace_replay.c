/* Efficiencies of an attempt, and who arrives last: the records of all ranks are matched, and the attempt is replayed on an ideal
 * network.  Definitions: docs/efficiency.md.
 *
 *     recorded    rank 0  |--compute--|......wait......|--compute--|           an exchange is complete when the last
 *                 rank 1  |------compute------|..wait..|--compute--|           has begun it, and its bytes have moved
 *
 *     replayed    rank 0  |--compute--|.wait..|--compute--|                    its bytes move in no time
 *                 rank 1  |------compute------|--compute--|
 *
 * A rank's own time is kept as it was; of its waits remains what the beginning of another rank's part explains.  So the replay
 * has all dependencies and imbalance, and no transfer: what it takes longer than the busiest rank is serialisation, and what the
 * attempt took longer than the replay is transfer.
 *
 * A rank is a list of events in order of time: it begins its part of an exchange, waits for one, or makes a pause (a checkpoint or
 * an evaluation, which is left out, and where all meet).  It is followed until it waits for an exchange that not all of those it
 * depends on have begun; whoever begins the last part lets it go on. */
#include "base/mem.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { BEGINS, WAITS, PAUSES } act;
enum { UNMATCHED = UINT32_MAX };

/* On rank 0's clock.  A wait or pause lasts from t0 to t1. */
typedef struct {
  int64_t t0, t1;
  uint32_t exchange; /* index, or UNMATCHED; of a pause its number */
  uint8_t act, role;
  uint16_t kind; /* index of the name in the list of arrivals */
} event;

typedef struct {
  event *events; /* [n] in order of time */
  size_t n, at;
  size_t pauses;
  int64_t begin, end;   /* of the steps that count */
  int64_t ahead;        /* how much earlier the replay is than the recording */
  uint32_t next_asleep; /* the next rank that waits for the same exchange, + 1; 0: none */
  bool asleep;
  const shoal_trace_attempt *clock; /* of its host */
  double rate;                      /* of that against rank 0's */
} actor;

/* What an event belongs to: equal keys are parts of one exchange. */
typedef struct {
  uint64_t key;
  uint32_t rank, event;
} part;

typedef struct {
  uint32_t givers, begun; /* parts that others depend on; those begun in the replay */
  uint32_t asleep;        /* first rank that waits for it, + 1 */
  uint16_t kind;
  int64_t complete; /* in the replay, by what has begun */
  int64_t earliest; /* end of a pause on the rank that ends it first */
  /* As recorded: when the first, the last and the last but one giver began, the sum since the first, and who. */
  int64_t last, second;
  uint64_t sum;
  uint32_t last_rank, second_rank;
} exchange;

typedef struct {
  const shoal_trace_table *table;
  shoal_trace_replay *out;
  int attempt;
  bool lockstep_only; /* a trace is not complete: only steps that all ranks have count */
  uint64_t first_step, last_step;
  actor *actors; /* [out->n] in order of rank */
  part *parts;
  size_t n_parts, part_room;
  exchange *exchanges, *pauses;
  size_t n_exchanges, n_pauses;
  uint32_t *ready; /* ranks that may go on: a stack */
  size_t n_ready;
} replay;

static bool gives(uint8_t role)
{
  return role == SHOAL_TRACE_ROLE_ALL || role == SHOAL_TRACE_ROLE_SOURCE || role == SHOAL_TRACE_ROLE_SWAP ||
         role == SHOAL_TRACE_ROLE_SEND;
}

static bool depends(uint8_t role)
{
  return role == SHOAL_TRACE_ROLE_ALL || role == SHOAL_TRACE_ROLE_SINK || role == SHOAL_TRACE_ROLE_SWAP ||
         role == SHOAL_TRACE_ROLE_RECEIVE;
}

/* The first reason is kept. */
static void refuse(shoal_trace_replay *out, const char *why)
{
  if (out->replayed) out->why = why;
  out->replayed = false;
}

/* ---- kinds of exchanges ---- */

/* "exchange "bucket 12"" and its like are one kind: "bucket". */
static void kind_of(const char *name, char out[SHOAL_TRACE_KIND_NAME])
{
  static const char wrapping[] = "exchange \"";
  const char *from = strncmp(name, wrapping, sizeof wrapping - 1) == 0 ? name + sizeof wrapping - 1 : name;
  snprintf(out, SHOAL_TRACE_KIND_NAME, "%s", from);
  size_t n = strlen(out);
  if (from != name && n > 0 && out[n - 1] == '"') n--;
  size_t end = n;
  while (end > 0 && out[end - 1] >= '0' && out[end - 1] <= '9') end--;
  if (end > 1 && end < n && out[end - 1] == ' ') n = end - 1;
  out[n] = '\0';
}

static shoal_status find_kind(shoal_trace_replay *out, const char *op_name, uint16_t *kind)
{
  char name[SHOAL_TRACE_KIND_NAME];
  kind_of(op_name, name);
  for (size_t i = 0; i < out->n_kinds; i++)
    if (strcmp(out->kinds[i].name, name) == 0) {
      *kind = (uint16_t)i;
      return SHOAL_OK;
    }
  SHOAL_CHECK(out->n_kinds < UINT16_MAX, SHOAL_ERR_IO, "the trace names %zu kinds of exchanges: it is made up",
              out->n_kinds);
  shoal_trace_arrivals *grown = realloc(out->kinds, (out->n_kinds + 1) * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "a list of %zu kinds of exchanges", out->n_kinds + 1);
  out->kinds = grown;
  *kind = (uint16_t)out->n_kinds;
  grown[out->n_kinds] = (shoal_trace_arrivals){ .last = NULL };
  memcpy(grown[out->n_kinds].name, name, sizeof name);
  SHOAL_TRY(SHOAL_ALLOC(out->n, &grown[out->n_kinds].last));
  out->n_kinds++;
  return SHOAL_OK;
}

/* ---- the events of a rank ---- */

static int by_time(const void *a, const void *b)
{
  const event *x = a, *y = b;
  if (x->t0 != y->t0) return x->t0 < y->t0 ? -1 : 1;
  if (x->act != y->act) return x->act < y->act ? -1 : 1;
  return (x->t1 > y->t1) - (x->t1 < y->t1);
}

/* The pauses of a rank, in order and without those inside another. */
static size_t list_pauses(const shoal_trace_record *r, size_t n, const shoal_trace_attempt *clock, event *out)
{
  size_t m = 0, kept = 0;
  for (size_t i = 0; i < n; i++)
    if (r[i].kind == SHOAL_TRACE_CHECKPOINT || r[i].kind == SHOAL_TRACE_EVALUATION)
      out[m++] = (event){ .t0 = shoal_trace_to_rank0(clock, r[i].t0_ns),
                          .t1 = shoal_trace_to_rank0(clock, SHOAL_MAX(r[i].t0_ns, r[i].t1_ns)),
                          .act = PAUSES };
  if (m > 0) qsort(out, m, sizeof *out, by_time);
  for (size_t i = 0; i < m; i++)
    if (kept == 0 || out[i].t0 >= out[kept - 1].t1)
      out[kept++] = out[i];
    else
      out[kept - 1].t1 = SHOAL_MAX(out[kept - 1].t1, out[i].t1);
  return kept;
}

/* Removes what lies within a pause, from events in order of time. */
static size_t leave_out_pauses(event *e, size_t n)
{
  size_t kept = 0;
  int64_t until = INT64_MIN;
  for (size_t i = 0; i < n; i++) {
    if (e[i].act != PAUSES && e[i].t0 < until) continue;
    if (e[i].act == PAUSES) until = e[i].t1;
    e[kept++] = e[i];
  }
  return kept;
}

static event event_of(const shoal_trace_record *r, const shoal_trace_attempt *clock)
{
  return (event){ .t0 = shoal_trace_to_rank0(clock, r->t0_ns),
                  .t1 = shoal_trace_to_rank0(clock, SHOAL_MAX(r->t0_ns, r->t1_ns)),
                  .exchange = UNMATCHED,
                  .act = r->kind == SHOAL_TRACE_EXCHANGE ? BEGINS : WAITS,
                  .role = r->role };
}

/* What of a rank's records is an event in the time that counts; only pauses if spans were summed.  `out` has space for n. */
static size_t list_events(const actor *who, const shoal_trace_record *r, size_t n, uint8_t level, event *out,
                          size_t *pauses)
{
  size_t m = 0;
  *pauses = list_pauses(r, n, who->clock, out);
  for (size_t i = 0; i < *pauses; i++)
    if (out[i].t0 >= who->begin && out[i].t1 <= who->end) out[m++] = out[i];
  *pauses = m;
  for (size_t i = 0; i < n && level != SHOAL_TRACE_BY_STEP; i++) {
    bool matched = r[i].kind == SHOAL_TRACE_EXCHANGE && r[i].role != SHOAL_TRACE_ROLE_NONE;
    if (!matched && r[i].kind != SHOAL_TRACE_WAIT) continue;
    event e = event_of(&r[i], who->clock);
    if (e.t0 < who->begin || e.t0 > who->end) continue;
    e.t1 = SHOAL_MIN(e.t1, who->end);
    e.exchange = (uint32_t)i; /* the record, until the events are sorted */
    out[m++] = e;
  }
  if (m > 0) qsort(out, m, sizeof *out, by_time);
  return leave_out_pauses(out, m);
}

static shoal_status add_part(replay *x, const part *p)
{
  if (x->n_parts == x->part_room) {
    x->part_room = SHOAL_MAX(2 * x->part_room, (size_t)65536);
    part *grown = realloc(x->parts, x->part_room * sizeof *grown);
    SHOAL_CHECK(grown, SHOAL_ERR_MEM, "%zu records of exchanges", x->part_room);
    x->parts = grown;
  }
  x->parts[x->n_parts++] = *p;
  return SHOAL_OK;
}

/* Names the parts of the rank's events. */
static shoal_status add_parts(replay *x, uint32_t rank, const shoal_trace_data *d, const shoal_trace_record *r)
{
  actor *who = &x->actors[rank];
  uint64_t *names;
  uint16_t *kinds;
  SHOAL_TRY(SHOAL_ALLOC(d->ops, &names));
  shoal_status st = SHOAL_ALLOC(d->ops, &kinds);
  for (size_t i = 0; i < who->n && st == SHOAL_OK; i++) {
    event *e = &who->events[i];
    if (e->act == PAUSES) continue;
    const shoal_trace_record *from = &r[e->exchange];
    e->exchange = UNMATCHED;
    if (e->role == SHOAL_TRACE_ROLE_NONE || e->role >= SHOAL_TRACE_ROLE_COUNT) continue;
    if (!names[from->op]) {
      st = find_kind(x->out, d->op_names[from->op], &kinds[from->op]);
      names[from->op] = shoal_trace_name_hash(d->op_names[from->op]);
    }
    e->kind = kinds[from->op];
    if (st == SHOAL_OK)
      st = add_part(x, &(part){ shoal_trace_key(from, d->info.rank, names[from->op]), rank, (uint32_t)i });
  }
  free(names);
  free(kinds);
  return st;
}

/* ---- the time of a rank that counts ---- */

static bool counts(const replay *x, uint64_t step)
{
  return !x->lockstep_only || (step >= x->first_step && step <= x->last_step);
}

/* Between the begin of the first step and the end of the last that count; its useful time in them. */
static int64_t measure(const replay *x, const shoal_trace_split *s, actor *who)
{
  uint64_t useful = 0;
  bool any = false;
  for (size_t i = 0; i < s->n; i++) {
    const shoal_trace_times *t = &s->steps[i];
    if (!counts(x, t->step)) continue;
    if (!any) who->begin = shoal_trace_to_rank0(who->clock, t->begin_ns);
    any = true;
    who->end = SHOAL_MAX(who->end, shoal_trace_to_rank0(who->clock, t->begin_ns + t->ns[SHOAL_TRACE_STEP]));
    useful += t->ns[SHOAL_TRACE_FORWARD] + t->ns[SHOAL_TRACE_BACKWARD] + t->ns[SHOAL_TRACE_OPTIMIZER];
  }
  x->out->steps = SHOAL_MAX(x->out->steps, s->n);
  return (int64_t)llround((double)useful / who->rate);
}

/* Own time: neither waits nor pauses. */
static int64_t own_time(const actor *who)
{
  int64_t left_out = 0, until = who->begin;
  for (size_t i = 0; i < who->n; i++) {
    const event *e = &who->events[i];
    if (e->act == BEGINS || e->t1 <= until) continue;
    left_out += e->t1 - SHOAL_MAX(e->t0, until);
    until = e->t1;
  }
  return who->end - who->begin - left_out;
}

static shoal_status add_rank(replay *x, uint32_t rank, const shoal_trace_data *d, size_t row)
{
  const shoal_trace_attempt *a = &d->attempt_rows[row];
  actor *who = &x->actors[rank];
  shoal_trace_split s;
  size_t n;
  const shoal_trace_record *r = shoal_trace_records_of(d, row, &n);
  SHOAL_TRY(shoal_trace_split_create(d, row, &s));
  const shoal_trace_attempt *clock = shoal_trace_clock_of(x->table, x->attempt, d->info.rank);
  *who = (actor){ .end = INT64_MIN, .clock = clock, .rate = clock->clock_readings ? clock->clock_drift : 1 };
  int64_t useful = measure(x, &s, who);
  bool placed = s.placed;
  shoal_trace_split_free(&s);
  if (!placed) refuse(x->out, "with trace.level op they are known, too");
  if (who->end == INT64_MIN) who->end = who->begin;
  x->out->useful_ns += useful;
  x->out->most_useful_ns = SHOAL_MAX(x->out->most_useful_ns, useful);
  SHOAL_TRY(SHOAL_ALLOC(n, &who->events));
  who->n = list_events(who, r, n, a->level, who->events, &who->pauses);
  x->out->most_own_ns = SHOAL_MAX(x->out->most_own_ns, own_time(who));
  return add_parts(x, rank, d, r);
}

/* ---- matching ---- */

static int by_key(const void *a, const void *b)
{
  const part *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return (x->event > y->event) - (x->event < y->event);
}

static void add_giver(exchange *e, const event *by, uint32_t rank, int64_t since)
{
  if (e->givers++ == 0 || by->t0 > e->last) {
    e->second = e->givers == 1 ? INT64_MIN : e->last;
    e->second_rank = e->last_rank;
    e->last = by->t0;
    e->last_rank = rank;
  } else if (by->t0 > e->second) {
    e->second = by->t0;
    e->second_rank = rank;
  }
  e->sum += (uint64_t)(by->t0 - since);
  e->kind = by->kind;
}

/* The parts [from, to) have one key.  A rank's first is of the first exchange of the key, and so on. */
static void match(replay *x, size_t from, size_t to, int64_t since)
{
  size_t most = 0;
  for (size_t i = from; i < to;) {
    uint32_t rank = x->parts[i].rank;
    size_t begun = 0, waited = 0;
    for (; i < to && x->parts[i].rank == rank; i++) {
      event *e = &x->actors[rank].events[x->parts[i].event];
      size_t nth = e->act == BEGINS                      ? begun++
                   : e->role == SHOAL_TRACE_ROLE_RECEIVE ? waited++
                                                         : SHOAL_MAX(begun, (size_t)1) - 1;
      e->exchange = (uint32_t)(x->n_exchanges + nth);
      most = SHOAL_MAX(most, nth + 1);
      if (e->act == BEGINS && gives(e->role)) add_giver(&x->exchanges[e->exchange], e, rank, since);
    }
  }
  x->n_exchanges += most;
}

/* There are no more exchanges than parts. */
static shoal_status match_all(replay *x, int64_t since)
{
  SHOAL_TRY(SHOAL_ALLOC(x->n_parts, &x->exchanges));
  if (x->n_parts > 0) qsort(x->parts, x->n_parts, sizeof *x->parts, by_key);
  for (size_t from = 0, to; from < x->n_parts; from = to) {
    for (to = from + 1; to < x->n_parts && x->parts[to].key == x->parts[from].key; to++) continue;
    match(x, from, to, since);
  }
  return SHOAL_OK;
}

/* All ranks pause together: their pauses are matched by number. */
static shoal_status match_pauses(replay *x)
{
  x->n_pauses = x->actors[0].pauses;
  for (size_t r = 0; r < x->out->n; r++)
    if (x->actors[r].pauses != x->n_pauses) {
      refuse(x->out, "ranks made checkpoints and evaluations that others did not");
      x->n_pauses = 0;
      return SHOAL_OK;
    }
  SHOAL_TRY(SHOAL_ALLOC(x->n_pauses, &x->pauses));
  for (size_t i = 0; i < x->n_pauses; i++)
    x->pauses[i] = (exchange){ .givers = (uint32_t)x->out->n, .earliest = INT64_MAX, .last = INT64_MIN };
  for (size_t r = 0; r < x->out->n; r++) {
    uint32_t number = 0;
    for (size_t i = 0; i < x->actors[r].n; i++) {
      event *e = &x->actors[r].events[i];
      if (e->act != PAUSES) continue;
      exchange *p = &x->pauses[number];
      e->exchange = number++;
      p->earliest = SHOAL_MIN(p->earliest, e->t1);
      p->last = SHOAL_MAX(p->last, e->t0);
    }
  }
  return SHOAL_OK;
}

/* ---- who arrives last ---- */

/* Of the time between events of two ranks; none if they have one clock. */
static int64_t clock_error(const actor *a, const actor *b)
{
  return a->clock == b->clock ? 0 : (int64_t)(a->clock->clock_bound_ns + b->clock->clock_bound_ns);
}

static void count_arrivals(replay *x, int64_t since)
{
  for (size_t i = 0; i < x->n_exchanges; i++) {
    const exchange *e = &x->exchanges[i];
    if (e->givers < 2) continue;
    shoal_trace_arrivals *k = &x->out->kinds[e->kind];
    k->exchanges++;
    k->others += e->givers - 1;
    k->ahead_ns += (uint64_t)(e->last - since) * e->givers - e->sum;
    if (e->last - e->second > clock_error(&x->actors[e->last_rank], &x->actors[e->second_rank]))
      k->last[e->last_rank]++;
    else
      k->undecided++;
  }
}

static void count_waits(replay *x)
{
  for (size_t r = 0; r < x->out->n; r++)
    for (size_t i = 0; i < x->actors[r].n; i++) {
      const event *e = &x->actors[r].events[i];
      if (e->act == WAITS && e->exchange != UNMATCHED) x->out->kinds[e->kind].wait_ns += (uint64_t)(e->t1 - e->t0);
    }
}

/* ---- the replay ---- */

static void wake(replay *x, exchange *e)
{
  for (uint32_t rank = e->asleep; rank; rank = x->actors[rank - 1].next_asleep) x->ready[x->n_ready++] = rank - 1;
  e->asleep = 0;
}

static void begin_part(replay *x, exchange *e, int64_t now)
{
  e->complete = e->begun++ ? SHOAL_MAX(e->complete, now) : now;
  if (e->begun == e->givers) wake(x, e);
}

static void sleep_for(replay *x, uint32_t rank, exchange *e)
{
  x->actors[rank].next_asleep = e->asleep;
  x->actors[rank].asleep = true;
  e->asleep = rank + 1;
}

/* A pause begins when the last rank has come, and ranks leave it as far apart as they did.  It takes no time. */
static bool pause_at(replay *x, uint32_t rank, const event *e, bool woken)
{
  actor *who = &x->actors[rank];
  exchange *p = &x->pauses[e->exchange];
  if (!woken) begin_part(x, p, e->t0 - who->ahead);
  if (p->begun < p->givers) {
    sleep_for(x, rank, p);
    return false;
  }
  who->ahead = p->earliest - p->complete;
  return true;
}

/* Never later than it was: clocks have errors. */
static bool wait_at(replay *x, uint32_t rank, const event *e)
{
  actor *who = &x->actors[rank];
  int64_t now = e->t0 - who->ahead;
  if (e->exchange != UNMATCHED && depends(e->role)) {
    exchange *of = &x->exchanges[e->exchange];
    if (of->begun < of->givers) {
      sleep_for(x, rank, of);
      return false;
    }
    if (of->givers > 0) now = SHOAL_MIN(SHOAL_MAX(now, of->complete), e->t1);
  }
  who->ahead = e->t1 - now;
  return true;
}

/* Follows a rank until it must wait for another, or ends. */
static void follow(replay *x, uint32_t rank)
{
  actor *who = &x->actors[rank];
  bool woken = who->asleep;
  who->asleep = false;
  for (; who->at < who->n; who->at++) {
    const event *e = &who->events[who->at];
    if (e->act == BEGINS && e->exchange != UNMATCHED && gives(e->role))
      begin_part(x, &x->exchanges[e->exchange], e->t0 - who->ahead);
    if (e->act == WAITS && !wait_at(x, rank, e)) return;
    if (e->act == PAUSES && !pause_at(x, rank, e, woken)) return;
    woken = false;
  }
}

/* Records that contradict each other leave ranks asleep. */
static void run(replay *x, int64_t begin)
{
  int64_t end = begin;
  for (size_t r = 0; r < x->out->n; r++) x->ready[x->n_ready++] = (uint32_t)r;
  while (x->n_ready > 0) follow(x, x->ready[--x->n_ready]);
  for (size_t r = 0; r < x->out->n; r++) {
    if (x->actors[r].at < x->actors[r].n) refuse(x->out, "its records contradict each other");
    end = SHOAL_MAX(end, x->actors[r].end - x->actors[r].ahead);
  }
  x->out->ideal_ns = end - begin;
}

/* ---- an attempt ---- */

/* Steps that all ranks have, whole, if the records of any end early or begin late. */
static void find_steps(replay *x)
{
  const shoal_trace_table *t = x->table;
  x->last_step = UINT64_MAX;
  for (size_t i = 0; i < t->n_lines; i++) {
    const shoal_trace_line *l = &t->lines[i];
    if (l->attempt != x->attempt) continue;
    x->lockstep_only |= !l->row.closed || l->row.dropped || l->row.overwritten;
    x->first_step = SHOAL_MAX(x->first_step, l->first_step + (l->row.overwritten > 0));
    x->last_step = SHOAL_MIN(x->last_step, l->last_step);
  }
}

static shoal_status add_ranks(replay *x)
{
  const shoal_trace_table *t = x->table;
  uint32_t rank = 0;
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < t->n_parts && st == SHOAL_OK; i++) {
    shoal_trace_data *d = t->parts[i];
    if (!shoal_trace_table_needs(t, i, x->attempt)) continue;
    st = shoal_trace_load(d);
    for (size_t row = 0; row < d->attempts && st == SHOAL_OK; row++)
      if (rank < x->out->n && shoal_trace_table_counts(t, i, row, x->attempt)) st = add_rank(x, rank++, d, row);
    shoal_trace_unload(d);
  }
  return st;
}

/* Returns false if a rank has no step that counts. */
static bool find_bounds(const replay *x, int64_t *begin, int64_t *end)
{
  *begin = INT64_MAX;
  *end = INT64_MIN;
  for (size_t r = 0; r < x->out->n; r++) {
    if (x->actors[r].begin == x->actors[r].end) return false;
    *begin = SHOAL_MIN(*begin, x->actors[r].begin);
    *end = SHOAL_MAX(*end, x->actors[r].end);
  }
  return true;
}

/* Older recorders did not tell which records belong together. */
static bool has_unmatched(const replay *x)
{
  for (size_t r = 0; r < x->out->n; r++)
    for (size_t i = 0; i < x->actors[r].n; i++)
      if (x->actors[r].events[i].act == WAITS) return true;
  return false;
}

static shoal_status replay_all(replay *x)
{
  int64_t begin, end;
  shoal_trace_replay *out = x->out;
  if (!find_bounds(x, &begin, &end)) return SHOAL_OK;
  out->runtime_ns = end - begin;
  if (out->n < (size_t)shoal_trace_table_summary(x->table, x->attempt)->size)
    refuse(out, "the traces of some ranks are missing");
  if (x->n_parts == 0 && has_unmatched(x)) refuse(out, "an older Shoal did not record which exchanges belong together");
  SHOAL_TRY(match_all(x, begin));
  count_arrivals(x, begin);
  count_waits(x);
  SHOAL_TRY(match_pauses(x));
  for (size_t i = 0; i < x->n_pauses; i++) out->runtime_ns -= x->pauses[i].earliest - x->pauses[i].last;
  if (out->replayed) run(x, begin);
  return SHOAL_OK;
}

static double ratio(int64_t of, int64_t whole)
{
  return whole > 0 ? (double)of / (double)whole : NAN;
}

static void find_efficiencies(shoal_trace_replay *out)
{
  bool known = out->runtime_ns > 0 && out->most_useful_ns > 0;
  out->load_balance = out->communication = out->parallel = out->useful_share = out->serialisation = out->transfer = NAN;
  if (!known) return;
  double mean = (double)out->useful_ns / (double)out->n;
  out->load_balance = mean / (double)out->most_useful_ns;
  out->communication = ratio(out->most_useful_ns, out->runtime_ns);
  out->parallel = mean / (double)out->runtime_ns;
  if (!out->replayed) return;
  out->useful_share = ratio(out->most_useful_ns, out->most_own_ns);
  out->serialisation = ratio(out->most_own_ns, out->ideal_ns);
  out->transfer = ratio(out->ideal_ns, out->runtime_ns);
}

static void free_all(replay *x)
{
  for (size_t r = 0; x->actors && r < x->out->n; r++) free(x->actors[r].events);
  free(x->actors);
  free(x->parts);
  free(x->exchanges);
  free(x->pauses);
  free(x->ready);
}

shoal_status shoal_trace_replay_create(const shoal_trace_table *t, int attempt, shoal_trace_replay *out)
{
  replay x = { .table = t, .attempt = attempt, .out = out };
  *out = (shoal_trace_replay){ .n = shoal_trace_table_summary(t, attempt)->lines, .replayed = true };
  find_steps(&x);
  shoal_status st = SHOAL_ALLOC(out->n, &x.actors);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(out->n, &x.ready);
  if (st == SHOAL_OK) st = add_ranks(&x);
  if (st == SHOAL_OK) st = replay_all(&x);
  if (st == SHOAL_OK) find_efficiencies(out);
  free_all(&x);
  if (st != SHOAL_OK) shoal_trace_replay_free(out);
  return st;
}

void shoal_trace_replay_free(shoal_trace_replay *r)
{
  for (size_t i = 0; i < r->n_kinds; i++) free(r->kinds[i].last);
  free(r->kinds);
  *r = (shoal_trace_replay){ .n = 0 };
}
