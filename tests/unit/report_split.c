/* The split of a rank's time against numbers worked out by hand, whole nanoseconds compared with ==. */
#include "base/mem.h"
#include "report/trace.h"
#include "unit/h5_temp.h"

/* A trace made by hand: one attempt, records as given. */
static shoal_trace_split split(const shoal_trace_record *r, size_t n, shoal_trace_level level)
{
  shoal_trace_attempt row = { .attempt = 1, .size = 1, .level = (uint8_t)level };
  shoal_trace_data d = { .n = n, .records = (shoal_trace_record *)r, .attempts = 1, .attempt_rows = &row };
  shoal_trace_split s;
  REQUIRE(shoal_trace_split_create(&d, 0, &s) == SHOAL_OK, "split");
  return s;
}

/* All kinds add up to the time they split, and the transfers to their three parts. */
static void check_sums(const shoal_trace_times *t, uint64_t whole, const char *what)
{
  uint64_t sum = t->agreement_ns;
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    if (kind != SHOAL_TRACE_EXCHANGE) sum += t->ns[kind];
  CHECK_EQ(sum, whole, "%s", what);
  CHECK_EQ(t->ns[SHOAL_TRACE_EXCHANGE], t->hidden_ns + t->ns[SHOAL_TRACE_WAIT] + t->beside_ns,
           "%s: transfer is hidden + exposed + beside", what);
}

static void check_exchange(const shoal_trace_times *t, uint64_t transfer, uint64_t hidden, uint64_t exposed,
                           uint64_t beside, const char *what)
{
  CHECK_EQ(t->ns[SHOAL_TRACE_EXCHANGE], transfer, "%s", what);
  CHECK_EQ(t->hidden_ns, hidden, "%s", what);
  CHECK_EQ(t->ns[SHOAL_TRACE_WAIT], exposed, "%s", what);
  CHECK_EQ(t->beside_ns, beside, "%s", what);
}

static void check_kind(const shoal_trace_times *t, shoal_trace_kind kind, uint64_t want, const char *what)
{
  CHECK_EQ(t->ns[kind], want, "%s: %s", what, shoal_trace_kind_name(kind));
}

/* A wait inside backward, a gap, and between the steps input, checkpoint with a wait inside, evaluation. */
static void nested(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 1000, .t1_ns = 1030, .kind = SHOAL_TRACE_FORWARD },
    { .t0_ns = 1050, .t1_ns = 1060, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 1030, .t1_ns = 1070, .kind = SHOAL_TRACE_BACKWARD },
    { .t0_ns = 1070, .t1_ns = 1085, .kind = SHOAL_TRACE_OPTIMIZER },
    { .t0_ns = 1085, .t1_ns = 1090, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 1040, .t1_ns = 1090, .kind = SHOAL_TRACE_EXCHANGE, .bytes = 700 },
    { .t0_ns = 1000, .t1_ns = 1100, .kind = SHOAL_TRACE_STEP, .step = 7 },
    { .t0_ns = 1100, .t1_ns = 1104, .kind = SHOAL_TRACE_INPUT },
    { .t0_ns = 1105, .t1_ns = 1107, .kind = SHOAL_TRACE_WAIT, .link = SHOAL_LINK_CONTROL },
    { .t0_ns = 1104, .t1_ns = 1110, .kind = SHOAL_TRACE_CHECKPOINT },
    { .t0_ns = 1120, .t1_ns = 1160, .kind = SHOAL_TRACE_EVALUATION },
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  REQUIRE(s.n == 1, "%zu steps", s.n);
  REQUIRE(s.placed, "%zu steps", s.n);
  const shoal_trace_times *t = &s.steps[0];
  CHECK_EQ(t->step, 7);
  CHECK_EQ(t->begin_ns, 1000);
  CHECK_EQ(s.wall_ns, 160);
  CHECK_EQ(s.exchanges, 1);
  CHECK_EQ(s.exchange_bytes, 700);
  check_kind(t, SHOAL_TRACE_STEP, 100, "step");
  check_kind(t, SHOAL_TRACE_FORWARD, 30, "step");
  check_kind(t, SHOAL_TRACE_BACKWARD, 30, "step");
  check_kind(t, SHOAL_TRACE_OPTIMIZER, 15, "step");
  check_kind(t, SHOAL_TRACE_OTHER, 10, "step");
  check_exchange(t, 50, 10 + 10 + 15, 15, 0, "step");
  check_sums(t, 100, "step");
  check_kind(&s.whole, SHOAL_TRACE_STEP, 100, "whole");
  check_kind(&s.whole, SHOAL_TRACE_INPUT, 4, "whole");
  check_kind(&s.whole, SHOAL_TRACE_CHECKPOINT, 4, "whole");
  check_kind(&s.whole, SHOAL_TRACE_EVALUATION, 40, "whole");
  check_kind(&s.whole, SHOAL_TRACE_OTHER, 10 + 10, "whole");
  CHECK_EQ(s.whole.agreement_ns, 2, "a vote is no exchange");
  CHECK_EQ(t->agreement_ns, 0);
  check_exchange(&s.whole, 50, 35, 15, 0, "whole");
  check_sums(&s.whole, 160, "whole");
  shoal_trace_split_free(&s);
}

/* Three exchanges under way together, one inside another, and one that touches: each moment counts once.
 *
 *     backward   0................60 wait 60...80 wait 80..95
 *     exchange     10.........50
 *     exchange          20..............70
 *     exchange            30..40
 *     exchange                          70.........95          in all 10 to 95 */
static void overlapping(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 530, .t1_ns = 540, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 510, .t1_ns = 550, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 500, .t1_ns = 560, .kind = SHOAL_TRACE_BACKWARD },
    { .t0_ns = 520, .t1_ns = 570, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 560, .t1_ns = 570, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 570, .t1_ns = 595, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 570, .t1_ns = 595, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 500, .t1_ns = 600, .kind = SHOAL_TRACE_STEP },
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  REQUIRE(s.n == 1, "steps");
  check_exchange(&s.steps[0], 85, 50, 35, 0, "overlapping");
  check_exchange(&s.whole, 85, 50, 35, 0, "overlapping, whole");
  check_sums(&s.steps[0], 100, "overlapping");
  CHECK_EQ(s.exchanges, 4, "exchanges are counted each");
  shoal_trace_split_free(&s);
}

/* Started in one step, waited for in the next, as delayed methods do; a checkpoint and a vote lie between.
 *
 *     step 0            0.....................100                       step 1  150....................250
 *     forward           0........50                                     input   150.160   forward 160......200
 *     exchange                       60.....................................................210
 *     wait                                                                                  200.210
 *     between: other 100-110, checkpoint 110-130, agreement 130-135, other 135-150 */
static void over_the_border(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 1000, .t1_ns = 1050, .kind = SHOAL_TRACE_FORWARD, .step = 0 },
    { .t0_ns = 1050, .t1_ns = 1090, .kind = SHOAL_TRACE_BACKWARD, .step = 0 },
    { .t0_ns = 1000, .t1_ns = 1100, .kind = SHOAL_TRACE_STEP, .step = 0 },
    { .t0_ns = 1110, .t1_ns = 1130, .kind = SHOAL_TRACE_CHECKPOINT, .step = 0 },
    { .t0_ns = 1130, .t1_ns = 1135, .kind = SHOAL_TRACE_WAIT, .step = 0, .link = SHOAL_LINK_CONTROL },
    { .t0_ns = 1150, .t1_ns = 1160, .kind = SHOAL_TRACE_INPUT, .step = 1 },
    { .t0_ns = 1160, .t1_ns = 1200, .kind = SHOAL_TRACE_FORWARD, .step = 1 },
    { .t0_ns = 1060, .t1_ns = 1210, .kind = SHOAL_TRACE_EXCHANGE, .step = 1, .link = SHOAL_LINK_BETWEEN },
    { .t0_ns = 1200, .t1_ns = 1210, .kind = SHOAL_TRACE_WAIT, .step = 1, .link = SHOAL_LINK_BETWEEN },
    { .t0_ns = 1150, .t1_ns = 1250, .kind = SHOAL_TRACE_STEP, .step = 1 },
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  REQUIRE(s.n == 2, "%zu steps", s.n);
  check_exchange(&s.steps[0], 40, 30, 0, 10, "begun here");
  check_exchange(&s.steps[1], 60, 40, 10, 10, "ended here");
  check_exchange(&s.inside, 100, 70, 10, 20, "inside steps");
  check_exchange(&s.whole, 150, 70, 10, 20 + 50, "whole");
  CHECK_EQ(s.whole.agreement_ns, 5);
  CHECK_EQ(s.inside.agreement_ns, 0);
  check_sums(&s.steps[0], 100, "begun here");
  check_sums(&s.steps[1], 100, "ended here");
  check_sums(&s.inside, 200, "inside");
  check_sums(&s.whole, 250, "whole");
  shoal_trace_split_free(&s);
}

/* An exchange that outlives the last span, and one before the first. */
static void at_the_ends(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 90, .t1_ns = 110, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 100, .t1_ns = 200, .kind = SHOAL_TRACE_STEP },
    { .t0_ns = 195, .t1_ns = 230, .kind = SHOAL_TRACE_EXCHANGE },
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  check_exchange(&s.inside, 15, 0, 0, 15, "inside");
  check_exchange(&s.whole, 55, 0, 0, 55, "whole");
  check_sums(&s.whole, 140, "whole");
  shoal_trace_split_free(&s);
}

static void without_exchange(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 10, .t1_ns = 20, .kind = SHOAL_TRACE_FORWARD, .step = 4 },
    { .t0_ns = 10, .t1_ns = 30, .kind = SHOAL_TRACE_STEP, .step = 4 },
    { .t0_ns = 0, .t1_ns = 0, .kind = SHOAL_TRACE_OTHER }, /* as the reader leaves what it cannot read */
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  CHECK_EQ(s.n, 1, "one step of 20");
  CHECK_EQ(s.exchanges, 0);
  CHECK_EQ(s.wall_ns, 20);
  check_exchange(&s.whole, 0, 0, 0, 0, "no exchange");
  check_sums(&s.whole, 20, "no exchange");
  shoal_trace_split_free(&s);
  s = split(r, 0, SHOAL_TRACE_BY_OP);
  CHECK_EQ(s.n, 0, "no records, no time");
  CHECK_EQ(s.wall_ns, 0);
  CHECK_EQ(s.whole.ns[SHOAL_TRACE_OTHER], 0);
  shoal_trace_split_free(&s);
}

/* Spans in any order, overlapping without nesting, reaching out of the step: every moment is given once. */
static void odd_shapes(void)
{
  const shoal_trace_record r[] = {
    { .t0_ns = 100, .t1_ns = 200, .kind = SHOAL_TRACE_STEP },
    { .t0_ns = 150, .t1_ns = 180, .kind = SHOAL_TRACE_BACKWARD },
    { .t0_ns = 110, .t1_ns = 160, .kind = SHOAL_TRACE_FORWARD }, /* 150-160 goes to backward */
    { .t0_ns = 190, .t1_ns = 230, .kind = SHOAL_TRACE_INPUT },   /* 10 inside, 30 after */
    { .t0_ns = 195, .t1_ns = 210, .kind = SHOAL_TRACE_EXCHANGE },
    { .t0_ns = 170, .t1_ns = 170, .kind = SHOAL_TRACE_WAIT },
    { .t0_ns = 185, .t1_ns = 184, .kind = SHOAL_TRACE_WAIT },
  };
  shoal_trace_split s = split(r, SHOAL_COUNT(r), SHOAL_TRACE_BY_OP);
  REQUIRE(s.n == 1, "steps");
  check_kind(&s.inside, SHOAL_TRACE_FORWARD, 40, "inside");
  check_kind(&s.inside, SHOAL_TRACE_BACKWARD, 30, "inside");
  check_kind(&s.inside, SHOAL_TRACE_INPUT, 10, "inside");
  check_kind(&s.inside, SHOAL_TRACE_OTHER, 20, "inside");
  check_kind(&s.whole, SHOAL_TRACE_INPUT, 40, "whole");
  check_exchange(&s.inside, 5, 0, 0, 5, "inside");
  check_exchange(&s.whole, 15, 0, 0, 15, "whole");
  check_sums(&s.inside, 100, "inside");
  check_sums(&s.whole, 130, "whole");
  shoal_trace_split_free(&s);
}

/* Recorded at level BY_STEP: sums without a place.  A wait inside backward counts for both; other takes the loss. */
static void summed(void)
{
  const char *path = temp_path("sums.h5");
  shoal_trace_info info = { .run_name = "sums", .size = 1, .attempt = 1 };
  shoal_trace *t;
  shoal_trace_file_data *f;
  shoal_trace_split s;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_STEP, &info, &t) == SHOAL_OK, "open");
  for (uint64_t step = 0, b = 1000; step < 2; step++, b += 200) {
    shoal_trace_set_step(t, step);
    shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, b, b + 30);
    shoal_trace_span(t, SHOAL_TRACE_WAIT, 4, b + 50, b + 60);
    shoal_trace_span(t, SHOAL_TRACE_BACKWARD, 1, b + 30, b + 70);
    shoal_trace_span(t, SHOAL_TRACE_WAIT, 4, b + 85, b + 90);
    shoal_trace_transfer(
        t, SHOAL_TRACE_EXCHANGE,
        &(shoal_trace_exchange){ .op = 3, .link = SHOAL_LINK_BETWEEN, .peer = 1, .bytes = 1000, .seq = 1 }, b + 40,
        b + 90);
    shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE,
                         &(shoal_trace_exchange){ .op = 3, .link = SHOAL_LINK_NODE, .peer = 2, .bytes = 10, .seq = 1 },
                         b + 50, b + 60);
    shoal_trace_span(t, SHOAL_TRACE_STEP, 9, b, b + 100);
    shoal_trace_transfer(t, SHOAL_TRACE_WAIT,
                         &(shoal_trace_exchange){ .op = 4, .link = SHOAL_LINK_CONTROL, .peer = -1, .seq = 0 }, b + 100,
                         b + 103);
    shoal_trace_span(t, SHOAL_TRACE_CHECKPOINT, 6, b + 103, b + 160);
  }
  CHECK_OK(shoal_trace_close(t));
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "read");
  REQUIRE(shoal_trace_load(&f->ranks[0]) == SHOAL_OK, "load");
  REQUIRE(shoal_trace_split_create(&f->ranks[0], 0, &s) == SHOAL_OK, "split");
  CHECK_EQ(s.n, 2, "what is known");
  CHECK(!s.placed);
  CHECK_EQ(s.exchanges, 4);
  CHECK_EQ(s.exchange_bytes, 2020);
  check_kind(&s.steps[1], SHOAL_TRACE_FORWARD, 30, "step");
  check_kind(&s.steps[1], SHOAL_TRACE_BACKWARD, 40, "step");
  check_kind(&s.steps[1], SHOAL_TRACE_WAIT, 15, "step");
  check_kind(&s.steps[1], SHOAL_TRACE_OTHER, 15, "step");
  CHECK_EQ(s.steps[1].ns[SHOAL_TRACE_EXCHANGE], 0, "what is not");
  CHECK_EQ(s.whole.hidden_ns, 0);
  check_kind(&s.whole, SHOAL_TRACE_WAIT, 30, "whole");
  check_kind(&s.whole, SHOAL_TRACE_CHECKPOINT, 114, "whole");
  CHECK_EQ(s.whole.agreement_ns, 6, "agreement lies between steps");
  CHECK_EQ(s.inside.agreement_ns, 0);
  check_kind(&s.whole, SHOAL_TRACE_OTHER, 30 + 40, "whole");
  CHECK_EQ(s.wall_ns, 360);
  shoal_trace_split_free(&s);
  shoal_trace_file_data_destroy(f);
}

int main(void)
{
  temp_make();
  nested();
  overlapping();
  over_the_border();
  at_the_ends();
  without_exchange();
  odd_shapes();
  summed();
  return check_done();
}
