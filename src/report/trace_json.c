/* `shoal trace show --json`: the numbers of the tables, not rounded, for scripts.
 *
 * Keys contain their unit; *_ns are integer nanoseconds, summed over the attempt; unknown values are null.  The meaning
 * of a key, as defined in docs/trace-format.md, never changes; new keys may be added. */
#include "base/json.h"
#include "base/mem.h"
#include "report/trace_impl.h"
#include <math.h>

static void put_number(shoal_json *j, const char *key, bool known, double value)
{
  shoal_json_real(j, key, known ? value : NAN);
}

static void put_ns(shoal_json *j, const char *key, bool known, uint64_t ns)
{
  if (known)
    shoal_json_uint(j, key, ns);
  else
    shoal_json_null(j, key);
}

/* Writes the time of each kind and the agreement, which add up to wall_ns. */
static void put_kinds(shoal_json *j, const shoal_trace_times *t, uint64_t wall_ns)
{
  double unit = wall_ns ? 100 / (double)wall_ns : 0;
  shoal_json_uint(j, "wall_ns", wall_ns);
  shoal_json_object(j, "ns");
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE) shoal_json_uint(j, shoal_trace_kind_name((shoal_trace_kind)kind), t->ns[kind]);
  shoal_json_uint(j, "agreement", t->agreement_ns);
  shoal_json_end(j);
  shoal_json_object(j, "share_percent");
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE)
      shoal_json_fixed(j, shoal_trace_kind_name((shoal_trace_kind)kind), (double)t->ns[kind] * unit, 4);
  shoal_json_fixed(j, "agreement", (double)t->agreement_ns * unit, 4);
  shoal_json_end(j);
}

static void put_part(shoal_json *j, const char *name, bool known, uint64_t ns, uint64_t steps, uint64_t wall_ns)
{
  char key[64];
  snprintf(key, sizeof key, "%s_ns", name);
  put_ns(j, key, known, ns);
  snprintf(key, sizeof key, "%s_ms_per_step", name);
  put_number(j, key, known && steps, (double)ns * 1e-6 / (double)steps);
  snprintf(key, sizeof key, "%s_percent", name);
  put_number(j, key, known && wall_ns, 100 * (double)ns / (double)wall_ns);
}

/* Writes transfer, exposed, hidden and beside, for the whole attempt and for the time inside steps, as sums. */
static void put_exchange(shoal_json *j, const shoal_trace_times *whole, const shoal_trace_times *inside, bool placed,
                         uint64_t count, uint64_t bytes, uint64_t steps, uint64_t wall_ns)
{
  shoal_json_object(j, "exchange");
  shoal_json_uint(j, "count", count);
  shoal_json_uint(j, "payload", bytes);
  put_part(j, "transfer", placed, whole->ns[SHOAL_TRACE_EXCHANGE], steps, wall_ns);
  put_part(j, "hidden", placed, whole->hidden_ns, steps, wall_ns);
  put_part(j, "exposed", true, whole->ns[SHOAL_TRACE_WAIT], steps, wall_ns);
  put_part(j, "beside", placed, whole->beside_ns, steps, wall_ns);
  put_ns(j, "transfer_in_steps_ns", placed, inside->ns[SHOAL_TRACE_EXCHANGE]);
  put_ns(j, "hidden_in_steps_ns", placed, inside->hidden_ns);
  put_ns(j, "exposed_in_steps_ns", true, inside->ns[SHOAL_TRACE_WAIT]);
  put_ns(j, "beside_in_steps_ns", placed, inside->beside_ns);
  shoal_json_end(j);
}

static void put_links(shoal_json *j, const shoal_counters *c, const uint64_t *formula, const double *payload,
                      const double *wire, const double *messages)
{
  bool known = false;
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) known |= formula[link] > 0;
  shoal_json_object(j, "links");
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    shoal_json_object(j, shoal_link_name((shoal_link)link));
    shoal_json_uint(j, "payload", c->payload[link]);
    shoal_json_uint(j, "wire", c->wire[link]);
    shoal_json_uint(j, "messages", c->messages[link]);
    shoal_json_real(j, "payload_per_step", payload[link]);
    shoal_json_real(j, "wire_per_step", wire[link]);
    shoal_json_real(j, "messages_per_step", messages[link]);
    put_ns(j, "formula", known && link != SHOAL_LINK_CONTROL, formula[link]);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_line_links(shoal_json *j, const shoal_trace_line *l)
{
  shoal_counters c;
  uint64_t steps = shoal_trace_steps_made(l);
  double each[3][SHOAL_LINK_COUNT], unit = steps ? 1 / (double)steps : 0;
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    each[0][link] = (double)(c.payload[link] = l->row.payload[link]) * unit;
    each[1][link] = (double)(c.wire[link] = l->row.wire[link]) * unit;
    each[2][link] = (double)(c.messages[link] = l->row.messages[link]) * unit;
  }
  put_links(j, &c, l->row.formula, each[0], each[1], each[2]);
}

static void put_clock(shoal_json *j, const shoal_trace_line *l)
{
  const shoal_trace_attempt *a = &l->row;
  bool one = l->attempt != SHOAL_TRACE_ALL;
  shoal_json_object(j, "clock");
  shoal_json_int(j, "readings", a->clock_readings);
  put_number(j, "offset_ns", one && a->clock_readings, shoal_trace_offset_ns(a));
  put_number(j, "bound_ns", one && a->clock_readings, a->clock_bound_ns);
  put_number(j, "drift_ppm", one && a->clock_readings == 2, (a->clock_drift - 1) * 1e6);
  put_number(j, "drift_bound_ppm", one && a->clock_readings == 2, shoal_trace_drift_bound_ppm(l));
  shoal_json_end(j);
}

/* Samples of a step as planned, of the attempt, and per second of training; null in older traces. */
static void put_samples(shoal_json *j, uint64_t batch, uint64_t samples, double per_second)
{
  put_ns(j, "batch", batch > 0, batch);
  put_ns(j, "samples", samples > 0, samples);
  put_number(j, "samples_per_s", samples > 0 && per_second > 0, per_second);
}

static void put_line(shoal_json *j, const shoal_trace_line *l)
{
  shoal_json_object(j, NULL);
  shoal_json_int(j, "rank", l->rank);
  shoal_json_string(j, "host", l->row.host);
  shoal_json_int(j, "node", l->row.node);
  shoal_json_uint(j, "attempts", l->rows);
  shoal_json_bool(j, "closed", l->row.closed);
  shoal_json_string(j, "level", l->placed ? "op" : "step");
  shoal_json_uint(j, "steps", l->steps);
  put_number(j, "step_ms", l->steps > 0, (double)l->inside.ns[SHOAL_TRACE_STEP] * 1e-6 / (double)l->steps);
  put_number(j, "step_median_ms", l->steps > 0, (double)l->median_ns * 1e-6);
  put_number(j, "step_p95_ms", l->steps > 0, (double)l->p95_ns * 1e-6);
  put_number(j, "own_ms_per_step", l->steps > 0, shoal_trace_own_ms(l));
  shoal_json_uint(j, "step_ns", l->inside.ns[SHOAL_TRACE_STEP]);
  put_kinds(j, &l->whole, l->wall_ns);
  put_exchange(j, &l->whole, &l->inside, l->placed, l->exchanges, l->exchange_bytes, l->steps, l->wall_ns);
  put_line_links(j, l);
  put_clock(j, l);
  put_number(j, "overhead_percent", l->wall_ns > 0, 100 * (double)l->row.overhead_ns / (double)l->wall_ns);
  shoal_json_bool(j, "contended", shoal_trace_is_contended(l));
  shoal_json_uint(j, "voluntary_switches", l->row.voluntary_switches);
  shoal_json_uint(j, "involuntary_switches", l->row.involuntary_switches);
  shoal_json_uint(j, "peak_bytes", l->row.peak_bytes);
  shoal_json_uint(j, "dropped", l->row.dropped);
  shoal_json_uint(j, "overwritten", l->row.overwritten);
  shoal_json_uint(j, "cut", l->cut);
  put_samples(j, (uint64_t)SHOAL_MAX(l->row.batch, 0), l->row.samples, shoal_trace_samples_per_s(l));
  shoal_json_end(j);
}

static void put_attempts(shoal_json *j, const shoal_trace_table *t)
{
  shoal_json_array(j, "attempts");
  for (size_t i = 0; i + 1 < t->n_summaries; i++) {
    const shoal_trace_summary *summary = &t->summaries[i];
    if (summary->lines == 0) continue;
    shoal_json_object(j, NULL);
    shoal_json_int(j, "attempt", summary->attempt);
    shoal_json_int(j, "ranks", summary->size);
    shoal_json_uint(j, "traces", summary->lines);
    shoal_json_uint(j, "nodes", summary->nodes);
    shoal_json_uint(j, "steps_least", summary->min_steps);
    shoal_json_uint(j, "steps_most", summary->max_steps);
    shoal_json_uint(j, "started_ns", summary->started_ns);
    shoal_json_bool(j, "closed", summary->closed);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_energy(shoal_json *j, const shoal_trace_run *r)
{
  const shoal_trace_joules *e = &r->energy;
  shoal_json_object(j, "energy");
  put_number(j, "joules", e->packages > 0, (double)e->uj * 1e-6);
  shoal_json_uint(j, "packages", e->packages);
  shoal_json_uint(j, "nodes", e->nodes);
  put_ns(j, "node_cpus", e->node_cpus > 0, e->node_cpus);
  put_ns(j, "job_cpus", e->job_cpus > 0, e->job_cpus);
  shoal_json_end(j);
}

/* Sums over ranks.  Keys with "per step" or "percent" are means over ranks, except links per step, which are totals of
 * all ranks. */
static void put_run(shoal_json *j, const shoal_trace_run *r, const shoal_trace_replay *x)
{
  bool contended = false;
  uint64_t steps = r->summary->mixed ? 0 : r->rank_steps; /* to divide by */
  for (size_t i = 0; i < r->n; i++) contended |= shoal_trace_is_contended(r->lines[i]);
  shoal_json_object(j, "run");
  shoal_json_uint(j, "ranks", r->n);
  shoal_json_uint(j, "nodes", r->summary->nodes);
  shoal_json_uint(j, "steps_least", r->summary->min_steps);
  shoal_json_uint(j, "steps_most", r->summary->max_steps);
  shoal_json_uint(j, "rank_steps", r->rank_steps);
  put_number(j, "step_ms", steps > 0, (double)r->inside.ns[SHOAL_TRACE_STEP] * 1e-6 / (double)steps);
  put_number(j, "step_median_ms", steps > 0, (double)r->median_ns * 1e-6);
  put_number(j, "step_p95_ms", steps > 0, (double)r->p95_ns * 1e-6);
  put_ns(j, "slowest_rank", r->slowest, r->slowest ? (uint64_t)r->slowest->rank : 0);
  put_number(j, "slowest_own_ms", r->slowest, r->slowest ? shoal_trace_own_ms(r->slowest) : 0);
  shoal_json_real(j, "load_balance", r->load_balance);
  shoal_json_real(j, "communication_efficiency", r->communication);
  shoal_json_real(j, "parallel_efficiency", r->parallel);
  shoal_trace_put_efficiency(j, r, x);
  put_samples(j, r->summary->mixed ? 0 : r->batch, r->samples, r->summary->mixed ? NAN : r->samples_per_s);
  put_energy(j, r);
  shoal_json_uint(j, "step_ns", r->inside.ns[SHOAL_TRACE_STEP]);
  put_kinds(j, &r->whole, r->wall_ns);
  put_exchange(j, &r->whole, &r->inside, r->placed, r->exchanges, r->exchange_bytes, steps, r->wall_ns);
  put_links(j, &r->counters, r->formula, r->payload_per_step, r->wire_per_step, r->messages_per_step);
  put_number(j, "overhead_percent", r->wall_ns > 0, 100 * (double)r->overhead_ns / (double)r->wall_ns);
  shoal_json_bool(j, "contended", contended);
  shoal_json_uint(j, "involuntary_switches", r->involuntary_switches);
  shoal_json_end(j);
}

void shoal_trace_put_json(shoal_json *j, const shoal_trace_table *t, const shoal_trace_run *r,
                          const shoal_trace_replay *x)
{
  shoal_json_object(j, NULL);
  shoal_json_string(j, "name", t->run);
  if (r->summary->attempt == SHOAL_TRACE_ALL)
    shoal_json_string(j, "attempt", "all");
  else
    shoal_json_int(j, "attempt", r->summary->attempt);
  put_attempts(j, t);
  shoal_json_array(j, "ranks");
  for (size_t i = 0; i < r->n; i++) put_line(j, r->lines[i]);
  shoal_json_end(j);
  put_run(j, r, x);
  shoal_json_end(j);
}

void shoal_trace_print_json(const shoal_trace_table *t, const shoal_trace_run *r, const shoal_trace_replay *x,
                            FILE *out)
{
  shoal_json j = { .lines = 2, .out = out };
  shoal_trace_put_json(&j, t, r, x);
  shoal_json_finish(&j);
}
