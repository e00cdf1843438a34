/* Tables, JSON and export of runs made by hand: which attempt, which ranks, and numbers known beforehand.
 *
 * The recorder takes any times, so a rank's spans are written as if its clock had stood there. */
#include "base/mem.h"
#include "report/trace.h"
#include "unit/h5_temp.h"
#include <ctype.h>

enum { ROOM = 1 << 18 };
static char text[ROOM];
static const uint64_t ms = 1000000;

static void read_out(FILE *f)
{
  rewind(f);
  text[fread(text, 1, ROOM - 1, f)] = '\0';
  fclose(f);
}

/* Removes the * of ranks that were preempted often, which depends on what else this machine does: "0*" becomes " 0". */
static void remove_marks(void)
{
  for (char *mark = text + 1; (mark = strstr(mark, "* ")); mark++)
    if (isdigit((unsigned char)mark[-1]) && mark > text + 1 && mark[-2] == ' ') {
      mark[0] = mark[-1];
      mark[-1] = ' ';
    }
}

/* A document on one line: no breaks behind brackets, a space behind commas. */
static void join_lines(void)
{
  char *to = text;
  for (const char *from = text; *from; from++) {
    if (*from != '\n' || !from[1]) {
      *to++ = *from;
      continue;
    }
    if (to > text && to[-1] == ',') *to++ = ' ';
    while (from[1] == ' ') from++;
  }
  *to = '\0';
}

static void show(const char *const *paths, size_t n, int attempt, shoal_trace_form form)
{
  FILE *f = tmpfile();
  REQUIRE(f, "tmpfile");
  CHECK_OK(shoal_trace_show(paths, n, attempt, form, f));
  read_out(f);
  if (form == SHOAL_TRACE_JSON) join_lines();
  if (form == SHOAL_TRACE_TEXT) remove_marks();
}

static void export(const char *const *paths, size_t n, int attempt)
{
  FILE *f = tmpfile();
  REQUIRE(f, "tmpfile");
  CHECK_OK(shoal_trace_export(paths, n, attempt, &(shoal_trace_choice){ .tell = NULL }, f));
  read_out(f);
  join_lines();
}

static void has(const char *words)
{
  CHECK_HAS(text, words);
}

static void has_not(const char *words)
{
  CHECK_LACKS(text, words);
}

/* ---- one attempt, every number ---- */

/* Step of 100 ms, and 50 ms after it; all numbers in ms from the step's begin.
 *   forward 0-30   backward 30-70   optimizer 70-80   wait 80-(80+w)   other to 100      exchange 40-(80+w)
 *   then agreement 100-103, checkpoint 103-110, other 110-120, evaluation 120-150
 * `shift` is how far the rank's clock is ahead of rank 0's. */
static void one_step(shoal_trace *t, uint64_t step, uint64_t w, uint64_t shift)
{
  uint64_t b = shift + (1000 + 150 * step) * ms;
  shoal_trace_set_step(t, step);
  shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, b, b + 30 * ms);
  shoal_trace_span(t, SHOAL_TRACE_BACKWARD, 1, b + 30 * ms, b + 70 * ms);
  shoal_trace_span(t, SHOAL_TRACE_OPTIMIZER, 2, b + 70 * ms, b + 80 * ms);
  shoal_trace_transfer(
      t, SHOAL_TRACE_EXCHANGE,
      &(shoal_trace_exchange){ .op = 3, .link = SHOAL_LINK_BETWEEN, .peer = 1, .bytes = 1000, .seq = 1 + step },
      b + 40 * ms, b + (80 + w) * ms);
  shoal_trace_transfer(t, SHOAL_TRACE_WAIT,
                       &(shoal_trace_exchange){ .op = 3, .link = SHOAL_LINK_BETWEEN, .peer = 1, .seq = 1 + step },
                       b + 80 * ms, b + (80 + w) * ms);
  shoal_trace_span(t, SHOAL_TRACE_STEP, 9, b, b + 100 * ms);
  shoal_trace_transfer(t, SHOAL_TRACE_WAIT,
                       &(shoal_trace_exchange){ .op = 8, .link = SHOAL_LINK_CONTROL, .peer = -1, .seq = 0 },
                       b + 100 * ms, b + 103 * ms);
  shoal_trace_span(t, SHOAL_TRACE_CHECKPOINT, 6, b + 103 * ms, b + 110 * ms);
  shoal_trace_span(t, SHOAL_TRACE_EVALUATION, 7, b + 120 * ms, b + 150 * ms);
}

static void record(const char *path, int rank, int size, int attempt, uint64_t steps, uint64_t w)
{
  shoal_trace *t;
  uint64_t shift = rank ? 5 * ms : 0;
  shoal_trace_info info = { .run_name = "a \"run\"",
                            .rank = rank,
                            .size = size,
                            .node = rank / 2,
                            .local_rank = rank % 2,
                            .host = rank / 2 ? "n\"1" : "n0",
                            .attempt = attempt };
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  for (uint64_t step = 0; step < steps; step++) one_step(t, step, w, shift);
  shoal_trace_set_clock(t, &(shoal_trace_reading){ shift + ms, (double)shift, rank ? 2500 : 0 },
                        &(shoal_trace_reading){ shift + 9000 * ms, (double)shift, rank ? 1500 : 0 });
  shoal_counters *c = shoal_trace_counters(t);
  c->payload[SHOAL_LINK_BETWEEN] = 1000 * steps;
  c->wire[SHOAL_LINK_BETWEEN] = 1100 * steps;
  c->messages[SHOAL_LINK_BETWEEN] = 2 * steps;
  CHECK_OK(shoal_trace_close(t));
}

/* Rank 0 waits 8 ms, rank 1 2 ms: rank 1 is the slowest.  Of 150 ms forward is 20 %, backward 26.7 %. */
static void numbers(void)
{
  const char *paths[] = { temp_path("one-0.h5"), temp_path("one-1.h5") };
  record(paths[0], 0, 2, 1, 4, 8);
  record(paths[1], 1, 2, 1, 4, 2);
  show(paths, 2, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT);
  printf("%s\n", text);
  has("a \"run\", attempt 1: 2 ranks on 1 node, 4 steps each, 600 ms");
  has_not("attempt  ranks");
  has("     0       4   100.000   100.000   100.000    20.0     26.7       6.7   0.0     5.3       2.0        4.7     "
      "  20.0  14.7");
  has("   all       4   100.000   100.000   100.000    20.0     26.7       6.7   0.0     3.3       2.0        4.7     "
      "  20.0  16.7");
  has("     1    42.000  28.0 %    40.000  26.7 %     2.000   1.3 %     0.000   0.0 %      5000.000   2.500     0.000  "
      " "
      "8.333");
  has("   all    45.000  30.0 %    40.000  26.7 %     5.000   3.3 %     0.000   0.0 %");
  has("slowest: rank 1 on n0, 98.000 ms per step of its own (mean 95.000); it waits 2.000 ms, least of all");
  /* Of 4 steps and the 50 ms between them, without 7 ms checkpoint and 30 ms evaluation: 439 ms, of which 320 are useful. */
  has("parallel                72.9 %  of the time");
  has("  load balance         100.0 %  ");
  has("  communication         72.9 %  ");
  has("    transfer               -    ");
  has("not known: an older Shoal did not record which exchanges belong together");
  has("between          2.0 KiB      2.1 KiB            4.0         7.8 KiB      8.6 KiB");
  show(paths, 2, 1, SHOAL_TRACE_JSON);
  has("{\"name\": \"a \\\"run\\\"\", \"attempt\": 1,");
  has("{\"rank\": 0, \"host\": \"n0\", \"node\": 0, \"attempts\": 1, \"closed\": true, \"level\": \"op\", \"steps\": "
      "4, "
      "\"step_ms\": 100, \"step_median_ms\": 100, \"step_p95_ms\": 100, \"own_ms_per_step\": 92, \"step_ns\": "
      "400000000");
  has("\"wall_ns\": 600000000, \"ns\": {\"forward\": 120000000, \"backward\": 160000000, \"optimizer\": 40000000, "
      "\"wait\": 32000000, \"input\": 0, \"checkpoint\": 28000000, \"evaluation\": 120000000, \"other\": 88000000, "
      "\"agreement\": 12000000}");
  has("\"exchange\": {\"count\": 4, \"payload\": 4000, \"transfer_ns\": 192000000, \"transfer_ms_per_step\": 48, "
      "\"transfer_percent\": 32, \"hidden_ns\": 160000000, \"hidden_ms_per_step\": 40, \"hidden_percent\": "
      "26.666666666666668, "
      "\"exposed_ns\": 32000000, \"exposed_ms_per_step\": 8, \"exposed_percent\": 5.33333333333333");
  has("\"between\": {\"payload\": 4000, \"wire\": 4400, \"messages\": 8, \"payload_per_step\": 1000, "
      "\"wire_per_step\": 1100, \"messages_per_step\": 2, \"formula\": null}");
  has("\"between\": {\"payload\": 8000, \"wire\": 8800, \"messages\": 16, \"payload_per_step\": 2000, "
      "\"wire_per_step\": 2200, \"messages_per_step\": 4, \"formula\": null}");
  has("\"clock\": {\"readings\": 2, \"offset_ns\": 5000000, \"bound_ns\": 2500, \"drift_ppm\": 0, \"drift_bound_ppm\": "
      "8.33333333333333");
  has("\"efficiency\": {\"parallel\": 0.72892938496583");
  has("\"runtime_ns\": 439000000, \"ideal_ns\": null, \"useful_ns\": 640000000, \"useful_most_ns\": 320000000,");
  has("\"slowest_rank\": 1, \"slowest_own_ms\": 98, \"load_balance\": 1, \"communication_efficiency\": 0.8, "
      "\"parallel_efficiency\": 0.8");
  show(paths, 2, 1, SHOAL_TRACE_STEPS);
  has("attempt,rank,step,begin_ns,forward_ns,backward_ns,optimizer_ns,wait_ns,input_ns,checkpoint_ns,evaluation_ns,"
      "other_ns,"
      "step_ns,transfer_ns,hidden_ns,beside_ns\n");
  has("\n1,1,3,1450000000,30000000,40000000,10000000,2000000,0,0,0,18000000,100000000,42000000,40000000,0\n");
}

/* Lengths 1, 2, ... 40 ms: the median is the 20th, p95 the 38th; one step: both are it. */
static void percentiles(void)
{
  const char *paths[] = { temp_path("p-0.h5"), temp_path("p-1.h5") };
  for (int rank = 0; rank < 2; rank++) {
    shoal_trace *t;
    shoal_trace_info info = { .run_name = "p", .rank = rank, .size = 2, .attempt = 1 };
    REQUIRE(shoal_trace_open(paths[rank], SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
    for (uint64_t i = 0; i < 40; i++) {
      uint64_t length = (7 * i) % 40 + 1 + (rank ? 2 : 0),
               b = (100 + 100 * i) * ms; /* every length once, out of order */
      shoal_trace_set_step(t, i);
      shoal_trace_span(t, SHOAL_TRACE_STEP, 9, b, b + length * ms);
    }
    CHECK_OK(shoal_trace_close(t));
  }
  show(paths, 2, SHOAL_TRACE_LAST, SHOAL_TRACE_JSON);
  has("\"step_ms\": 20.5, \"step_median_ms\": 20, \"step_p95_ms\": 38");
  has("\"step_ms\": 22.5, \"step_median_ms\": 22, \"step_p95_ms\": 40");
  has("\"rank_steps\": 80, \"step_ms\": 21.5, \"step_median_ms\": 21, \"step_p95_ms\": 39");
}

/* ---- several attempts ---- */

/* The path of one more file. */
static const char *next_path(const char **paths, size_t *n)
{
  char name[16];
  snprintf(name, sizeof name, "a-%zu.h5", *n);
  return paths[(*n)++] = temp_path(name);
}

/* Attempt 1: four ranks, 3 steps.  Then starts with three and with two ranks that were refused, so their number is used
 * again by attempt 2: two ranks, 5 steps.  Attempt 3 found nothing to do. */
static void attempts(void)
{
  const char *paths[13];
  size_t n = 0;
  for (int rank = 0; rank < 4; rank++) record(next_path(paths, &n), rank, 4, 1, 3, rank == 3 ? 1 : 9);
  for (int rank = 0; rank < 3; rank++) record(next_path(paths, &n), rank, 3, 2, 0, 0);
  for (int rank = 0; rank < 2; rank++) record(next_path(paths, &n), rank, 2, 2, 0, 0);
  for (int rank = 0; rank < 2; rank++) record(next_path(paths, &n), rank, 2, 2, 5, 5 + (uint64_t)rank);
  show(paths, n, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT);
  printf("%s\n", text);
  has("\n      1      4      2         3  ");
  has("\n      2      2      1         5  ");
  has("attempt 2: 2 ranks on 1 node, 5 steps each");
  has("slowest: rank 0 on n0, 95.000 ms per step of its own");
  has_not("rank 3");
  show(paths, n, 1, SHOAL_TRACE_TEXT);
  has("attempt 1: 4 ranks on 2 nodes, 3 steps each");
  has("slowest: rank 3 on n\"1, 99.000 ms");
  show(paths, n, SHOAL_TRACE_ALL, SHOAL_TRACE_TEXT);
  has("all attempts: 4 ranks on 2 nodes, 3-8 steps each");
  has("     0       8   100.000");
  has("     3       3   100.000");
  has_not("slowest");
  show(paths, n, SHOAL_TRACE_ALL, SHOAL_TRACE_JSON);
  has("\"attempt\": \"all\", ");
  has("\"slowest_rank\": null");
  has("\"between\": {\"payload\": 22000, \"wire\": 24200, \"messages\": 44, \"payload_per_step\": null");
  has("{\"attempt\": 1, \"ranks\": 4, \"traces\": 4, \"nodes\": 2, \"steps_least\": 3, \"steps_most\": 3,");
  has("{\"attempt\": 2, \"ranks\": 2, \"traces\": 2, \"nodes\": 1, \"steps_least\": 5, \"steps_most\": 5,");
  for (int rank = 0; rank < 2; rank++) record(next_path(paths, &n), rank, 2, 3, 0, 0);
  show(paths, n, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT);
  has("attempt 2: 2 ranks on 1 node, 5 steps each"); /* 3 made no step */
  show(paths, n, 3, SHOAL_TRACE_TEXT);
  has("attempt 3: 2 ranks on 1 node, 0 steps each");
  CHECK_REFUSED(shoal_trace_show(paths, n, 4, SHOAL_TRACE_TEXT, stdout), SHOAL_ERR_USAGE,
                "there is no attempt 4 of a \"run\": it has 1 to 3");
}

/* ---- export ---- */

static void exported(void)
{
  const char *paths[] = { temp_path("one-0.h5"), temp_path("one-1.h5") };
  export(paths, 2, SHOAL_TRACE_LAST);
  has("\"name\": \"process_name\", \"args\": {\"name\": \"node 0 (n0), rank 1\"}}");
  has("\"args\": {\"labels\": \"clock within 2.500 us of rank 0\"}}");
  has("{\"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"name\": \"thread_name\", \"args\": {\"name\": \"exchanges 1\"}}");
  has("\"pid\": 1, \"tid\": 1, \"cat\": \"exchange\", \"name\": \"exchange\", \"ts\": ");
  has("\"dur\": 42000.000, \"args\": {\"step\": 3, \"link\": \"between\", \"peer\": 1, \"bytes\": 1000, \"number\": "
      "4}}");
  has("{\"rank\": 1, \"attempt\": 1, \"readings\": 2, \"offset_ns\": 5000000.000, \"drift\": 1, \"bound_ns\": "
      "2500.000}");
  has("\"clock_bound_ns\": 2500.000}}\n");
  has_not("exchanges 2");
  /* Steps of both ranks began together, though the clocks did not agree. */
  const char *first[2] = { NULL, NULL };
  for (int rank = 0; rank < 2; rank++) {
    char key[96];
    snprintf(key, sizeof key, "\"pid\": %d, \"tid\": 0, \"cat\": \"step\", \"name\": \"step\", \"ts\": ", rank);
    first[rank] = strstr(text, key);
    REQUIRE(first[rank], "a step of rank %d", rank);
    first[rank] += strlen(key);
  }
  CHECK(strncmp(first[0], first[1], strcspn(first[0], ",") + 1) == 0, "%.20s and %.20s", first[0], first[1]);
}

/* Two under way together, then one on a free track again; and a clock that was never read. */
static void tracks(void)
{
  const char *path = temp_path("tracks.h5");
  shoal_trace *t;
  shoal_trace_info info = { .run_name = "tracks", .size = 1, .attempt = 1, .host = "h" };
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  static const uint64_t at[][2] = { { 100, 200 }, { 150, 300 }, { 200, 250 }, { 260, 270 } };
  for (size_t i = 0; i < SHOAL_COUNT(at); i++)
    shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE,
                         &(shoal_trace_exchange){ .op = 3, .link = SHOAL_LINK_NODE, .peer = 1, .bytes = 8, .seq = i },
                         at[i][0], at[i][1]);
  CHECK_OK(shoal_trace_close(t));
  export(&path, 1, SHOAL_TRACE_LAST);
  int want[] = { 1, 2, 1, 1 };
  const char *p = text;
  for (size_t i = 0; i < SHOAL_COUNT(want); i++) {
    REQUIRE((p = strstr(p, "\"ph\": \"X\"")), "exchange %zu", i);
    int tid = 0;
    CHECK_EQ(sscanf(p, "\"ph\": \"X\", \"pid\": 0, \"tid\": %d", &tid), 1, "exchange %zu", i);
    CHECK_EQ(tid, want[i], "exchange %zu", i);
    p++;
  }
  has("exchanges 2");
  has_not("exchanges 3");
  has("clock not measured");
  has("\"clock_bound_ns\": null}}\n");
  show(&path, 1, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT);
  has("not measured");
  has("0 steps each");
}

static void refused(void)
{
  const shoal_trace_choice all = { .tell = NULL };
  const char *paths[] = { temp_path("one-0.h5"), temp_path("one-0.h5") };
  CHECK_REFUSED(shoal_trace_show(paths, 0, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT, stdout), SHOAL_ERR_USAGE, "no trace");
  CHECK_REFUSED(shoal_trace_show(paths, 2, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT, stdout), SHOAL_ERR_USAGE,
                "the trace of rank 0 is given twice");
  paths[1] = temp_path("missing.h5");
  CHECK_REFUSED(shoal_trace_show(paths, 2, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT, stdout), SHOAL_ERR_IO, "missing.h5");
  CHECK_REFUSED(shoal_trace_export(paths, 2, SHOAL_TRACE_LAST, &all, stdout), SHOAL_ERR_IO, "missing.h5");
}

int main(void)
{
  temp_make();
  numbers();
  percentiles();
  exported();
  attempts();
  tracks();
  refused();
  return check_done();
}
