/* Clocks made up with drifts that floating point holds exactly: conversions must be right to the nanosecond. */
#include "base/mem.h"
#include "report/trace.h"
#include "unit/h5_temp.h"

static shoal_trace_attempt fit(const shoal_trace_reading *start, const shoal_trace_reading *end)
{
  shoal_trace_attempt a = { .clock_readings = end ? 2 : 1 };
  shoal_trace_clock_fit(start, end, &a.clock_offset_ns, &a.clock_drift, &a.clock_bound_ns);
  return a;
}

static void check_at(const shoal_trace_attempt *a, uint64_t local, int64_t want)
{
  int64_t got = shoal_trace_to_rank0(a, local);
  CHECK_EQ(got, want, "local %llu", (unsigned long long)local);
}

/* Rank 0's clock goes from R to R + 2^30; this one, booted 2^43 ns (2.4 h) earlier, gains 2^20 in that time. */
static void two_readings(void)
{
  const uint64_t r = 1ull << 40, ahead = 1ull << 43, gone = 1ull << 30, gained = 1ull << 20;
  shoal_trace_reading start = { .at_ns = r + ahead, .offset_ns = (double)ahead, .bound_ns = 500 };
  shoal_trace_reading end = { .at_ns = r + ahead + gone + gained,
                              .offset_ns = (double)(ahead + gained),
                              .bound_ns = 300 };
  shoal_trace_attempt a = fit(&start, &end);
  CHECK_EQ(a.clock_drift, 1 + 0x1p-10);
  CHECK_EQ(a.clock_bound_ns, 500, "the larger bound");
  check_at(&a, start.at_ns, (int64_t)r);
  check_at(&a, end.at_ns, (int64_t)(r + gone));
  for (uint64_t i = 0; i <= 1024; i++) /* linear in between, and on either side */
    check_at(&a, start.at_ns + i * 1025 * 1024, (int64_t)(r + i * 1024 * 1024));
  check_at(&a, start.at_ns - 1025, (int64_t)r - 1024);
  check_at(&a, end.at_ns + 1025, (int64_t)(r + gone) + 1024);
  start.bound_ns = 200;
  CHECK_EQ(fit(&start, &end).clock_bound_ns, 300, "the larger bound");
}

/* A clock that loses, and was started after rank 0's. */
static void behind(void)
{
  const uint64_t r = 1ull << 42, late = 1ull << 41, gone = 1ull << 32, lost = 1ull << 22;
  shoal_trace_reading start = { .at_ns = r - late, .offset_ns = -(double)late };
  shoal_trace_reading end = { .at_ns = r - late + gone - lost, .offset_ns = -(double)(late + lost) };
  shoal_trace_attempt a = fit(&start, &end);
  CHECK_EQ(a.clock_drift, 1 - 0x1p-10);
  check_at(&a, start.at_ns, (int64_t)r);
  check_at(&a, end.at_ns, (int64_t)(r + gone));
  check_at(&a, start.at_ns + 1023, (int64_t)r + 1024);
}

/* A year of uptime and a drift no binary fraction holds: right within 4 ns at both readings, in order everywhere. */
static void a_year(void)
{
  const uint64_t r = 31536000000000000ull, ahead = 12345678901234567ull, hour = 3600000000000ull, gained = 36000123;
  shoal_trace_reading start = { .at_ns = r + ahead, .offset_ns = (double)ahead };
  shoal_trace_reading end = { .at_ns = r + ahead + hour + gained, .offset_ns = (double)(ahead + gained) };
  shoal_trace_attempt a = fit(&start, &end);
  int64_t at_start = shoal_trace_to_rank0(&a, start.at_ns), at_end = shoal_trace_to_rank0(&a, end.at_ns);
  /* An offset of this size is itself a double: it has steps of 2 ns. */
  CHECK_LE(llabs(at_start - (int64_t)r), 4, "start off by %lld ns", (long long)(at_start - (int64_t)r));
  CHECK_LE(llabs(at_end - (int64_t)(r + hour)), 4, "end off by %lld ns", (long long)(at_end - (int64_t)(r + hour)));
  for (uint64_t i = 1; i < 1000; i++)
    CHECK_GE(shoal_trace_to_rank0(&a, start.at_ns + i), shoal_trace_to_rank0(&a, start.at_ns + i - 1), "order at %d",
             (int)i);
}

static void one_reading(void)
{
  shoal_trace_reading start = { .at_ns = 5000, .offset_ns = 1200, .bound_ns = 7 };
  shoal_trace_attempt a = fit(&start, NULL);
  CHECK_EQ(a.clock_drift, 1, "offset alone");
  CHECK_EQ(a.clock_offset_ns, 1200);
  CHECK_EQ(a.clock_bound_ns, 7);
  check_at(&a, 9000, 7800);
  check_at(&a, 200, -1000);
  a = fit(&start, &start); /* no time in between: no drift to be seen */
  CHECK_EQ(a.clock_drift, 1);
  check_at(&a, 9000, 7800);
  a = (shoal_trace_attempt){ 0 };
  check_at(&a, 9000, 9000); /* never measured */
}

/* What a rank records at its start is in the file if it is killed; both readings if it ends in order. */
static void recorded(void)
{
  const char *path = temp_path("clock.h5");
  shoal_trace_info info = { .run_name = "clock", .size = 1, .attempt = 1, .contended = true };
  shoal_trace_reading start = { 1024, 512, 9 }, end = { 2049, 513, 4 };
  shoal_trace *t;
  shoal_trace_file_data *f;
  const shoal_trace_data *d;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_STEP, &info, &t) == SHOAL_OK, "open");
  shoal_trace_set_clock(t, &start, NULL);
  CHECK_OK(shoal_trace_flush(t, true));
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "read");
  d = &f->ranks[0];
  CHECK_EQ(d->n, 0, "records are not loaded yet");
  CHECK_EQ(d->attempts, 1);
  CHECK_EQ(d->attempt_rows[0].clock_readings, 1, "the start");
  CHECK_EQ(d->clock_offset_ns, 512);
  CHECK_EQ(d->clock_drift, 1);
  CHECK_EQ(d->attempt_rows[0].contended, 1);
  CHECK_GT(d->attempt_rows[0].peak_bytes, 500000);
  CHECK_LE(d->attempt_rows[0].peak_bytes, shoal_trace_peak_bytes());
  shoal_trace_file_data_destroy(f);
  shoal_trace_set_clock(t, &start, &end);
  CHECK_OK(shoal_trace_close(t));
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "read");
  d = &f->ranks[0];
  CHECK_EQ(d->attempt_rows[0].clock_readings, 2);
  CHECK_EQ(d->clock_bound_ns, 9);
  check_at(&d->attempt_rows[0], 1024, 512);
  check_at(&d->attempt_rows[0], 2049, 1536);
  shoal_trace_file_data_destroy(f);
}

/* Lines and times that no clock can have shown: they come from damaged files. */
static void damaged(void)
{
  shoal_trace_attempt a = { .opened_ns = 1000, .clock_readings = 1, .clock_drift = 1e-300 };
  CHECK_EQ(shoal_trace_to_rank0(&a, 1000), 1000, "a drift that leaves 64 bits");
  a.clock_drift = 1;
  a.clock_offset_ns = -1e30;
  CHECK_EQ(shoal_trace_to_rank0(&a, 1000), 1000, "an offset that leaves 64 bits");
  a.clock_offset_ns = NAN;
  CHECK_EQ(shoal_trace_to_rank0(&a, 1000), 1000, "an offset of NaN");
}

int main(void)
{
  temp_make();
  damaged();
  two_readings();
  behind();
  a_year();
  one_reading();
  recorded();
  return check_done();
}
