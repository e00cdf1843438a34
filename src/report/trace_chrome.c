/* An export as JSON for Chrome's about:tracing, which Perfetto reads, too: the "Trace Event Format".  Times are in microseconds with
 * three decimals, so that no nanosecond is lost.  A flow is the member bind_id, with flow_out on spans that others depend on and
 * flow_in on those that depend on others. */
#include "base/json.h"
#include "base/mem.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
  shoal_trace_sink sink;
  shoal_json json;
} chrome;

static shoal_json *json_of(shoal_trace_sink *s)
{
  return &((chrome *)s)->json;
}

static void put_us(shoal_json *j, const char *key, int64_t ns)
{
  shoal_json_fixed(j, key, (double)ns * 1e-3, 3);
}

static void begin_event(shoal_json *j, const char *phase, int rank, int track)
{
  shoal_json_object(j, NULL);
  shoal_json_string(j, "ph", phase);
  shoal_json_int(j, "pid", rank);
  shoal_json_int(j, "tid", track);
}

static void put_meta(shoal_json *j, int rank, int track, const char *what, const char *key, const char *value)
{
  begin_event(j, "M", rank, track);
  shoal_json_string(j, "name", what);
  shoal_json_object(j, "args");
  shoal_json_string(j, key, value);
  shoal_json_end(j);
  shoal_json_end(j);
}

static void put_process(shoal_trace_sink *s, const shoal_trace_line *l, const char *name, const char *label,
                        size_t order)
{
  shoal_json *j = json_of(s);
  put_meta(j, l->rank, 0, "process_name", "name", name);
  put_meta(j, l->rank, 0, "process_labels", "labels", label);
  begin_event(j, "M", l->rank, 0);
  shoal_json_string(j, "name", "process_sort_index");
  shoal_json_object(j, "args");
  shoal_json_uint(j, "sort_index", order);
  shoal_json_end(j);
  shoal_json_end(j);
}

static void put_names(shoal_trace_sink *s, const shoal_trace_data *d)
{
  (void)s, (void)d; /* every span has its own */
}

static void put_track(shoal_trace_sink *s, int rank, int track, const char *name)
{
  put_meta(json_of(s), rank, track, "thread_name", "name", name);
}

static void put_flow(shoal_json *j, uint8_t role, uint64_t flow)
{
  bool gives = role != SHOAL_TRACE_ROLE_SINK && role != SHOAL_TRACE_ROLE_RECEIVE;
  bool takes = role != SHOAL_TRACE_ROLE_SOURCE && role != SHOAL_TRACE_ROLE_SEND;
  char text[24];
  snprintf(text, sizeof text, "0x%016llx", (unsigned long long)flow);
  shoal_json_string(j, "bind_id", text);
  if (gives) shoal_json_bool(j, "flow_out", true);
  if (takes) shoal_json_bool(j, "flow_in", true);
}

static void put_span(shoal_trace_sink *s, const shoal_trace_data *d, const shoal_trace_record *r, int track, int64_t t0,
                     int64_t t1, uint64_t flow)
{
  shoal_json *j = json_of(s);
  begin_event(j, "X", d->info.rank, track);
  shoal_json_string(j, "cat", shoal_trace_kind_name((shoal_trace_kind)r->kind));
  shoal_json_string(j, "name", d->op_names[r->op]);
  put_us(j, "ts", t0);
  put_us(j, "dur", t1 - t0);
  if (flow) put_flow(j, r->role, flow);
  shoal_json_object(j, "args");
  shoal_json_uint(j, "step", r->step);
  if (r->link != SHOAL_LINK_NONE) {
    shoal_json_string(j, "link", shoal_link_name((shoal_link)r->link));
    shoal_json_int(j, "peer", r->peer);
    shoal_json_uint(j, "bytes", r->bytes);
    shoal_json_uint(j, "number", r->seq);
  }
  shoal_json_end(j);
  shoal_json_end(j);
}

static void put_end(shoal_trace_sink *s, int rank, int track, int64_t t1)
{
  (void)s, (void)rank, (void)track, (void)t1; /* a span has its length */
}

/* The metadata of the trace: the run, time 0, and the clock of each rank. */
static void put_tail(shoal_trace_sink *s, const shoal_trace_table *t, int attempt, int64_t zero_unix_ns)
{
  shoal_json *j = json_of(s);
  double bound = 0;
  bool known = true;
  shoal_json_end(j);
  shoal_json_string(j, "displayTimeUnit", "ms");
  shoal_json_object(j, "otherData");
  shoal_json_string(j, "run", t->run);
  if (attempt == SHOAL_TRACE_ALL)
    shoal_json_string(j, "attempt", "all");
  else
    shoal_json_int(j, "attempt", attempt);
  shoal_json_format(j, "zero_unix_ns", "%lld", (long long)zero_unix_ns); /* a double is not exact enough */
  shoal_json_string(j, "clock", "rank 0");
  shoal_json_array(j, "clocks");
  for (size_t i = 0; i < t->n_lines; i++) {
    const shoal_trace_line *l = &t->lines[i];
    bool shown = attempt == SHOAL_TRACE_ALL ? l->attempt != SHOAL_TRACE_ALL : l->attempt == attempt;
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
  shoal_json_end(j);
  shoal_json_finish(j);
}

static void release(shoal_trace_sink *s)
{
  shoal_str_free(&json_of(s)->text);
  free(s);
}

shoal_status shoal_trace_chrome_open(FILE *out, shoal_trace_sink **sink)
{
  chrome *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->sink = (shoal_trace_sink){ put_process, put_names, put_track, put_span, put_end, put_tail, release, out };
  c->json = (shoal_json){ .lines = 2, .out = out };
  shoal_json_object(&c->json, NULL);
  shoal_json_array(&c->json, "traceEvents");
  *sink = &c->sink;
  return SHOAL_OK;
}
