/* The split against sums known beforehand, and the table and JSON made from it. */
#include "trace/trace.h"
#include "unit/h5_temp.h"

static const uint64_t ms = 1000000;

static void check_seconds(const double *got, shoal_trace_kind kind, double want_ms)
{
  CHECK(fabs(got[kind] * 1e3 - want_ms) < 1e-6, "%s is %.6f ms, %.6f expected", shoal_trace_kind_name(kind),
        got[kind] * 1e3, want_ms);
}

/* Two steps of 100 ms; all numbers in ms from the step's begin.
 *   forward 0-30   backward 30-70 with a wait 50-60 inside   optimizer 70-85   wait 85-90   a gap of 10 is other
 *   exchange 40-90 runs beside.  Between the steps: input 4, checkpoint 6 with a wait of 2 inside; evaluation 40. */
static void one_step(shoal_trace *t, uint64_t b)
{
  shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, b, b + 30 * ms);
  shoal_trace_span(t, SHOAL_TRACE_WAIT, 4, b + 50 * ms, b + 60 * ms);
  shoal_trace_span(t, SHOAL_TRACE_BACKWARD, 1, b + 30 * ms, b + 70 * ms);
  shoal_trace_span(t, SHOAL_TRACE_OPTIMIZER, 2, b + 70 * ms, b + 85 * ms);
  shoal_trace_span(t, SHOAL_TRACE_WAIT, 4, b + 85 * ms, b + 90 * ms);
  shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, 3, b + 40 * ms, b + 90 * ms, SHOAL_LINK_BETWEEN, 1, 1000, 1);
  shoal_trace_span(t, SHOAL_TRACE_STEP, 9, b, b + 100 * ms);
}

static void record_known(const char *path, shoal_trace_level level, int rank, uint64_t scale)
{
  shoal_trace *t;
  shoal_trace_info info = { .run_name = "known", .rank = rank, .size = 2, .host = "a\"b" };
  REQUIRE(shoal_trace_open(path, level, &info, &t) == SHOAL_OK, "open");
  for (uint64_t step = 0; step < 2 * scale; step++) {
    uint64_t b = (1 + 200 * step) * ms;
    shoal_trace_set_step(t, step);
    one_step(t, b);
    shoal_trace_span(t, SHOAL_TRACE_INPUT, 5, b + 100 * ms, b + 104 * ms);
    if (level == SHOAL_TRACE_BY_OP) shoal_trace_span(t, SHOAL_TRACE_WAIT, 4, b + 105 * ms, b + 107 * ms);
    shoal_trace_span(t, SHOAL_TRACE_CHECKPOINT, 6, b + 104 * ms, b + 110 * ms);
    shoal_trace_span(t, SHOAL_TRACE_EVALUATION, 7, b + 120 * ms, b + 160 * ms);
  }
  shoal_trace_counters(t)->payload[SHOAL_LINK_BETWEEN] = 2000 * scale;
  shoal_trace_counters(t)->wire[SHOAL_LINK_BETWEEN] = 2100 * scale;
  shoal_trace_counters(t)->messages[SHOAL_LINK_BETWEEN] = 2 * scale;
  CHECK_OK(shoal_trace_close(t));
}

static void split_by_op(void)
{
  const char *path = temp_path("known.h5");
  shoal_trace_data *d;
  double s[SHOAL_TRACE_KIND_COUNT], sum = 0;
  uint64_t steps;
  record_known(path, SHOAL_TRACE_BY_OP, 0, 1);
  record_known(path, SHOAL_TRACE_BY_OP, 0, 1); /* a second attempt on the same clock values must not mix in */
  REQUIRE(shoal_trace_read(path, &d) == SHOAL_OK, "read");
  shoal_trace_split(d, s, &steps);
  CHECK(steps == 4, "%llu steps", (unsigned long long)steps);
  check_seconds(s, SHOAL_TRACE_STEP, 400);
  check_seconds(s, SHOAL_TRACE_FORWARD, 120);
  check_seconds(s, SHOAL_TRACE_BACKWARD, 120);
  check_seconds(s, SHOAL_TRACE_OPTIMIZER, 60);
  check_seconds(s, SHOAL_TRACE_WAIT, 60 + 8);
  check_seconds(s, SHOAL_TRACE_EXCHANGE, 200);
  check_seconds(s, SHOAL_TRACE_INPUT, 16);
  check_seconds(s, SHOAL_TRACE_CHECKPOINT, 16);
  check_seconds(s, SHOAL_TRACE_EVALUATION, 160);
  check_seconds(s, SHOAL_TRACE_OTHER, 40);
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE) sum += s[kind];
  CHECK(fabs(sum * 1e3 - (400 + 8 + 16 + 16 + 160)) < 1e-6, "kinds add up to the frame and what lies between: %g", sum);
  shoal_trace_data_destroy(d);
}

/* Sums per step cannot know that a wait lay inside backward: there it counts for both, and other takes the loss. */
static void split_by_step(void)
{
  const char *path = temp_path("sums.h5");
  shoal_trace_data *d;
  double s[SHOAL_TRACE_KIND_COUNT];
  uint64_t steps;
  record_known(path, SHOAL_TRACE_BY_STEP, 0, 1);
  REQUIRE(shoal_trace_read(path, &d) == SHOAL_OK, "read");
  shoal_trace_split(d, s, &steps);
  CHECK(steps == 2, "steps");
  check_seconds(s, SHOAL_TRACE_STEP, 200);
  check_seconds(s, SHOAL_TRACE_FORWARD, 60);
  check_seconds(s, SHOAL_TRACE_BACKWARD, 80);
  check_seconds(s, SHOAL_TRACE_WAIT, 30);
  check_seconds(s, SHOAL_TRACE_INPUT, 8);
  check_seconds(s, SHOAL_TRACE_EVALUATION, 80);
  check_seconds(s, SHOAL_TRACE_OTHER, 0);
  shoal_trace_data_destroy(d);
}

/* Spans in any order, overlapping without nesting, reaching out of the step: every moment is given once. */
static void odd_shapes(void)
{
  shoal_trace_record r[] = {
    { .t0_ns = 100 * ms, .t1_ns = 200 * ms, .kind = SHOAL_TRACE_STEP },
    { .t0_ns = 150 * ms, .t1_ns = 180 * ms, .kind = SHOAL_TRACE_BACKWARD },
    { .t0_ns = 110 * ms, .t1_ns = 160 * ms, .kind = SHOAL_TRACE_FORWARD }, /* 150-160 goes to backward */
    { .t0_ns = 190 * ms, .t1_ns = 230 * ms, .kind = SHOAL_TRACE_INPUT },   /* 10 inside, 30 after */
    { .t0_ns = 170 * ms, .t1_ns = 170 * ms, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 185 * ms, .t1_ns = 184 * ms, .kind = SHOAL_TRACE_WAIT },
  };
  shoal_trace_data d = { .n = sizeof r / sizeof r[0], .records = r };
  double s[SHOAL_TRACE_KIND_COUNT];
  uint64_t steps;
  shoal_trace_split(&d, s, &steps);
  CHECK(steps == 1, "steps");
  check_seconds(s, SHOAL_TRACE_STEP, 100);
  check_seconds(s, SHOAL_TRACE_FORWARD, 40);
  check_seconds(s, SHOAL_TRACE_BACKWARD, 30);
  check_seconds(s, SHOAL_TRACE_INPUT, 40);
  check_seconds(s, SHOAL_TRACE_WAIT, 0);
  check_seconds(s, SHOAL_TRACE_OTHER, 20);
  d.n = 0;
  shoal_trace_split(&d, s, &steps);
  CHECK(steps == 0 && s[SHOAL_TRACE_OTHER] == 0, "no records, no time");
}

static void show(const char *const *paths, size_t n, bool json, char text[8192])
{
  FILE *f = tmpfile();
  REQUIRE(f, "tmpfile");
  CHECK_OK(shoal_trace_show(paths, n, json, f));
  rewind(f);
  text[fread(text, 1, 8191, f)] = '\0';
  fclose(f);
}

static void tables(void)
{
  char text[8192];
  const char *paths[] = { temp_path("rank-0.h5"), temp_path("rank-1.h5") };
  record_known(paths[0], SHOAL_TRACE_BY_OP, 0, 1);
  record_known(paths[1], SHOAL_TRACE_BY_OP, 1, 3);
  show(paths, 2, false, text);
  printf("%s\n", text);
  /* Of 150 ms accounted per step (100 + 2 + 4 + 4 + 40): forward and backward 30, wait 17, evaluation 40. */
  CHECK(strstr(text, "     1         6    100.000   20.0 %    20.0 %"), "the line of rank 1");
  CHECK(strstr(text, "exposed exchange") && strstr(text, "11.3 %") && strstr(text, "26.7 %"), "shares");
  CHECK(strstr(text, "  mean         4    100.000"), "the mean line");
  CHECK(strstr(text, "slowest: rank 0 on a\"b, 100.000 ms per step"), "the slowest rank");
  CHECK(strstr(text, "between") && strstr(text, "control") && strstr(text, "messages"), "link classes");
  show(paths, 2, true, text);
  CHECK(strstr(text, "{\"rank\": 1, \"host\": \"a\\\"b\", \"attempts\": 1, \"steps\": 6, \"step_ms\": 100.000000"),
        "json: %s", text);
  CHECK(strstr(text, "\"between\": {\"payload\": 8000, \"wire\": 8400, \"messages\": 8}"), "json links: %s", text);
  CHECK_REFUSED(shoal_trace_show(paths, 0, false, stdout), SHOAL_ERR_USAGE, "no trace");
  paths[1] = temp_path("missing.h5");
  CHECK_REFUSED(shoal_trace_show(paths, 2, false, stdout), SHOAL_ERR_IO, "missing.h5");
}

int main(void)
{
  temp_make();
  split_by_op();
  split_by_step();
  odd_shapes();
  tables();
  return check_done();
}
