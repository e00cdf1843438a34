/* `shoal trace show --json`: the numbers of the tables, unrounded, for scripts.
 *
 * Keys carry their unit; *_ns are whole nanoseconds and sums over the attempt; what is not known is null.  A script
 * that finds a key may rely on its meaning in docs/trace-format.md: keys are added, not changed. */
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <math.h>

typedef unsigned long long u64;

static void add_number(shoal_str *s, const char *key, bool known, double value)
{
  if (known && isfinite(value))
    shoal_str_add(s, ", \"%s\": %.9g", key, value);
  else
    shoal_str_add(s, ", \"%s\": null", key);
}

static void add_ns(shoal_str *s, const char *key, bool known, uint64_t ns)
{
  if (known)
    shoal_str_add(s, ", \"%s\": %llu", key, (u64)ns);
  else
    shoal_str_add(s, ", \"%s\": null", key);
}

/* Kinds, then the agreement: they add up to wall_ns. */
static void add_kinds(shoal_str *s, const shoal_trace_times *t, uint64_t wall_ns)
{
  shoal_str_add(s, ", \"wall_ns\": %llu, \"ns\": {", (u64)wall_ns);
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE)
      shoal_str_add(s, "\"%s\": %llu, ", shoal_trace_kind_name((shoal_trace_kind)kind), (u64)t->ns[kind]);
  shoal_str_add(s, "\"agreement\": %llu}, \"share_percent\": {", (u64)t->agreement_ns);
  double unit = wall_ns ? 100 / (double)wall_ns : 0;
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE)
      shoal_str_add(s, "\"%s\": %.4f, ", shoal_trace_kind_name((shoal_trace_kind)kind), (double)t->ns[kind] * unit);
  shoal_str_add(s, "\"agreement\": %.4f}", (double)t->agreement_ns * unit);
}

static void add_part(shoal_str *s, const char *name, bool known, uint64_t ns, uint64_t steps, uint64_t wall_ns)
{
  char key[64];
  snprintf(key, sizeof key, "%s_ns", name);
  add_ns(s, key, known, ns);
  snprintf(key, sizeof key, "%s_ms_per_step", name);
  add_number(s, key, known && steps, (double)ns * 1e-6 / (double)steps);
  snprintf(key, sizeof key, "%s_percent", name);
  add_number(s, key, known && wall_ns, 100 * (double)ns / (double)wall_ns);
}

/* The same four of the time inside steps, as sums. */
static void add_exchange(shoal_str *s, const shoal_trace_times *whole, const shoal_trace_times *inside, bool placed,
                         uint64_t count, uint64_t bytes, uint64_t steps, uint64_t wall_ns)
{
  shoal_str_add(s, ", \"exchange\": {\"count\": %llu, \"payload\": %llu", (u64)count, (u64)bytes);
  add_part(s, "transfer", placed, whole->ns[SHOAL_TRACE_EXCHANGE], steps, wall_ns);
  add_part(s, "hidden", placed, whole->hidden_ns, steps, wall_ns);
  add_part(s, "exposed", true, whole->ns[SHOAL_TRACE_WAIT], steps, wall_ns);
  add_part(s, "beside", placed, whole->beside_ns, steps, wall_ns);
  add_ns(s, "transfer_in_steps_ns", placed, inside->ns[SHOAL_TRACE_EXCHANGE]);
  add_ns(s, "hidden_in_steps_ns", placed, inside->hidden_ns);
  add_ns(s, "exposed_in_steps_ns", true, inside->ns[SHOAL_TRACE_WAIT]);
  add_ns(s, "beside_in_steps_ns", placed, inside->beside_ns);
  shoal_str_add(s, "}");
}

static void add_links(shoal_str *s, const shoal_counters *c, const double *payload, const double *wire,
                      const double *messages)
{
  shoal_str_add(s, ", \"links\": {");
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    shoal_str_add(s, "%s\"%s\": {\"payload\": %llu, \"wire\": %llu, \"messages\": %llu", link ? ", " : "",
                  shoal_link_name((shoal_link)link), (u64)c->payload[link], (u64)c->wire[link], (u64)c->messages[link]);
    add_number(s, "payload_per_step", true, payload[link]);
    add_number(s, "wire_per_step", true, wire[link]);
    add_number(s, "messages_per_step", true, messages[link]);
    shoal_str_add(s, "}");
  }
  shoal_str_add(s, "}");
}

static void add_line_links(shoal_str *s, const shoal_trace_line *l)
{
  shoal_counters c;
  double each[3][SHOAL_LINK_COUNT], unit = l->steps ? 1 / (double)l->steps : 0;
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    each[0][link] = (double)(c.payload[link] = l->row.payload[link]) * unit;
    each[1][link] = (double)(c.wire[link] = l->row.wire[link]) * unit;
    each[2][link] = (double)(c.messages[link] = l->row.messages[link]) * unit;
  }
  add_links(s, &c, each[0], each[1], each[2]);
}

static void add_clock(shoal_str *s, const shoal_trace_line *l)
{
  const shoal_trace_attempt *a = &l->row;
  bool one = l->attempt != SHOAL_TRACE_ALL;
  shoal_str_add(s, ", \"clock\": {\"readings\": %d", a->clock_readings);
  add_number(s, "offset_ns", one && a->clock_readings, shoal_trace_offset_ns(a));
  add_number(s, "bound_ns", one && a->clock_readings, a->clock_bound_ns);
  add_number(s, "drift_ppm", one && a->clock_readings == 2, (a->clock_drift - 1) * 1e6);
  add_number(s, "drift_bound_ppm", one && a->clock_readings == 2, shoal_trace_drift_bound_ppm(l));
  shoal_str_add(s, "}");
}

static void add_line(shoal_str *s, const shoal_trace_line *l)
{
  shoal_str_add(s, "  {\"rank\": %d, \"host\": ", l->rank);
  shoal_str_add_json(s, l->row.host);
  shoal_str_add(s, ", \"node\": %d, \"attempts\": %zu, \"closed\": %s, \"level\": \"%s\", \"steps\": %llu", l->row.node,
                l->rows, l->row.closed ? "true" : "false", l->placed ? "op" : "step", (u64)l->steps);
  add_number(s, "step_ms", l->steps > 0, (double)l->inside.ns[SHOAL_TRACE_STEP] * 1e-6 / (double)l->steps);
  add_number(s, "step_median_ms", l->steps > 0, (double)l->median_ns * 1e-6);
  add_number(s, "step_p95_ms", l->steps > 0, (double)l->p95_ns * 1e-6);
  add_number(s, "own_ms_per_step", l->steps > 0, shoal_trace_own_ms(l));
  shoal_str_add(s, ", \"step_ns\": %llu", (u64)l->inside.ns[SHOAL_TRACE_STEP]);
  add_kinds(s, &l->whole, l->wall_ns);
  add_exchange(s, &l->whole, &l->inside, l->placed, l->exchanges, l->exchange_bytes, l->steps, l->wall_ns);
  add_line_links(s, l);
  add_clock(s, l);
  add_number(s, "overhead_percent", l->wall_ns > 0, 100 * (double)l->row.overhead_ns / (double)l->wall_ns);
  shoal_str_add(
      s, ", \"contended\": %s, \"voluntary_switches\": %llu, \"involuntary_switches\": %llu, \"peak_bytes\": %llu}",
      shoal_trace_is_contended(l) ? "true" : "false", (u64)l->row.voluntary_switches, (u64)l->row.involuntary_switches,
      (u64)l->row.peak_bytes);
}

static void add_attempts(shoal_str *s, const shoal_trace_table *t)
{
  shoal_str_add(s, "\"attempts\": [");
  for (size_t i = 0, n = 0; i + 1 < t->n_tries; i++) {
    const shoal_trace_try *is = &t->tries[i];
    if (is->lines == 0) continue;
    shoal_str_add(s,
                  "%s\n  {\"attempt\": %d, \"ranks\": %d, \"traces\": %zu, \"nodes\": %zu, \"steps_least\": %llu, "
                  "\"steps_most\": %llu, \"started_ns\": %llu, \"closed\": %s}",
                  n++ ? "," : "", is->attempt, is->size, is->lines, is->nodes, (u64)is->steps_least,
                  (u64)is->steps_most, (u64)is->started_ns, is->closed ? "true" : "false");
  }
  shoal_str_add(s, "],\n");
}

/* Sums over ranks; means of a rank where a key says per step or percent; but links per step are of all together. */
static void add_run(shoal_str *s, const shoal_trace_run *r)
{
  bool contended = false;
  for (size_t i = 0; i < r->n; i++) contended |= shoal_trace_is_contended(r->lines[i]);
  shoal_str_add(s,
                "\"run\": {\"ranks\": %zu, \"nodes\": %zu, \"steps_least\": %llu, \"steps_most\": %llu, "
                "\"rank_steps\": %llu",
                r->n, r->is->nodes, (u64)r->is->steps_least, (u64)r->is->steps_most, (u64)r->rank_steps);
  add_number(s, "step_ms", r->rank_steps > 0, (double)r->inside.ns[SHOAL_TRACE_STEP] * 1e-6 / (double)r->rank_steps);
  add_number(s, "step_median_ms", r->rank_steps > 0, (double)r->median_ns * 1e-6);
  add_number(s, "step_p95_ms", r->rank_steps > 0, (double)r->p95_ns * 1e-6);
  add_ns(s, "slowest_rank", r->slowest, r->slowest ? (uint64_t)r->slowest->rank : 0);
  add_number(s, "slowest_own_ms", r->slowest, r->slowest ? shoal_trace_own_ms(r->slowest) : 0);
  add_number(s, "load_balance", true, r->load_balance);
  add_number(s, "communication_efficiency", true, r->communication);
  add_number(s, "parallel_efficiency", true, r->parallel);
  shoal_str_add(s, ", \"step_ns\": %llu", (u64)r->inside.ns[SHOAL_TRACE_STEP]);
  add_kinds(s, &r->whole, r->wall_ns);
  add_exchange(s, &r->whole, &r->inside, r->placed, r->exchanges, r->exchange_bytes, r->rank_steps, r->wall_ns);
  add_links(s, &r->counters, r->payload_per_step, r->wire_per_step, r->messages_per_step);
  add_number(s, "overhead_percent", r->wall_ns > 0, 100 * (double)r->overhead_ns / (double)r->wall_ns);
  shoal_str_add(s, ", \"contended\": %s, \"involuntary_switches\": %llu}", contended ? "true" : "false",
                (u64)r->involuntary_switches);
}

void shoal_trace_print_json(const shoal_trace_table *t, const shoal_trace_run *r, FILE *out)
{
  shoal_str s = { 0 };
  shoal_str_add(&s, "{\"name\": ");
  shoal_str_add_json(&s, t->run);
  if (r->is->attempt == SHOAL_TRACE_ALL)
    shoal_str_add(&s, ", \"attempt\": \"all\",\n");
  else
    shoal_str_add(&s, ", \"attempt\": %d,\n", r->is->attempt);
  add_attempts(&s, t);
  shoal_str_add(&s, "\"ranks\": [\n");
  for (size_t i = 0; i < r->n; i++) {
    add_line(&s, r->lines[i]);
    shoal_str_add(&s, "%s\n", i + 1 < r->n ? "," : "");
  }
  shoal_str_add(&s, "],\n");
  add_run(&s, r);
  shoal_str_add(&s, "}\n");
  fputs(s.text, out);
  shoal_str_free(&s);
}
