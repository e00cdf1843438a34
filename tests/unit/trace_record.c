/* What is recorded is what is read back: records, names, counters, attempts; and a damaged file is set aside. */
#include "base/log.h"
#include "h5/h5.h"
#include "report/trace.h"
#include "unit/h5_temp.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char placement[1 << 20]; /* of some thousand ranks: more than HDF5 keeps in an object header */
static const shoal_trace_info info = { .run_name = "cifar \"daso\"",
                                       .placement = placement,
                                       .config_text = "run: {name: x}\n",
                                       .rank = 3,
                                       .size = 8,
                                       .node = 1,
                                       .local_rank = 1,
                                       .attempt = 1,
                                       .host = "n2" };

static shoal_trace_data *read_back(const char *path)
{
  shoal_trace_data *d = NULL;
  REQUIRE(shoal_trace_read(path, &d) == SHOAL_OK, "reading %s: %s", path, check_error());
  return d;
}

static void layout(void)
{
  CHECK_EQ(sizeof(shoal_trace_record), 56);
  CHECK_STR(shoal_link_name(SHOAL_LINK_BETWEEN), "between", "link name");
  CHECK_STR(shoal_link_name((shoal_link)SHOAL_LINK_NONE), "none", "no link");
  CHECK_STR(shoal_trace_kind_name(SHOAL_TRACE_STEP), "step", "kind name");
}

/* More spans than the ring holds, in records whose every field follows from the index. */
static void every_field(void)
{
  const char *path = temp_path("op.h5");
  const size_t n = 50000;
  shoal_trace *t;
  memset(placement, 'p', sizeof placement - 1);
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  uint32_t conv = shoal_trace_op(t, "conv1"), ring = shoal_trace_op(t, "bucket 0");
  CHECK_EQ(shoal_trace_op(t, "conv1"), conv, "names are numbered once");
  CHECK_NE(conv, ring);
  for (uint64_t i = 0; i < n; i++) {
    if (i % 100 == 0) shoal_trace_set_step(t, i / 100);
    if (i % 3)
      shoal_trace_span(t, SHOAL_TRACE_FORWARD, conv, 1000 + i, 1010 + i);
    else
      shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, ring, 1000 + i, 1500 + i, SHOAL_LINK_BETWEEN, (int)(i % 8),
                           1ull << 40, i);
  }
  shoal_counters *c = shoal_trace_counters(t);
  c->payload[SHOAL_LINK_BETWEEN] = 1ull << 50;
  c->wire[SHOAL_LINK_NODE] = 77;
  c->messages[SHOAL_LINK_CONTROL] = 5;
  shoal_trace_set_clock(t, &(shoal_trace_reading){ 1ull << 20, 512, 800 },
                        &(shoal_trace_reading){ 3ull << 20, 512 + 1024, 200 });
  double want = 10e-9 * (double)(n - (n + 2) / 3);
  CHECK_NEAR(shoal_trace_total_s(t, SHOAL_TRACE_FORWARD), want, 1e-12);
  CHECK_GT(shoal_trace_overhead_s(t), 0);
  CHECK_OK(shoal_trace_close(t));

  shoal_trace_data *d = read_back(path);
  CHECK_EQ(d->n, n);
  for (uint64_t i = 0; i < d->n; i++) {
    const shoal_trace_record *r = &d->records[i];
    bool transfer = i % 3 == 0;
    bool same = r->t0_ns == 1000 + i && r->t1_ns == (transfer ? 1500 : 1010) + i && r->step == i / 100 &&
                r->kind == (transfer ? SHOAL_TRACE_EXCHANGE : SHOAL_TRACE_FORWARD) &&
                r->op == (transfer ? ring : conv) && r->link == (transfer ? SHOAL_LINK_BETWEEN : SHOAL_LINK_NONE) &&
                r->peer == (transfer ? (int)(i % 8) : -1) && r->bytes == (transfer ? 1ull << 40 : 0) &&
                r->seq == (transfer ? i : 0);
    REQUIRE(same, "record %llu differs", (unsigned long long)i);
  }
  CHECK_STR(d->op_names[conv], "conv1");
  CHECK_STR(d->op_names[ring], "bucket 0");
  CHECK_STR(d->op_names[SHOAL_TRACE_WAIT], "wait", "the first names are the kinds");
  CHECK_EQ(d->counters.payload[SHOAL_LINK_BETWEEN], 1ull << 50);
  CHECK_EQ(d->counters.wire[SHOAL_LINK_NODE], 77);
  CHECK_EQ(d->counters.messages[SHOAL_LINK_CONTROL], 5);
  CHECK_EQ(shoal_trace_to_rank0(&d->attempt_rows[0], 3ull << 20), (3ll << 20) - 1536);
  CHECK_EQ(d->clock_bound_ns, 800);
  CHECK_STR(d->info.run_name, info.run_name);
  CHECK_STR(d->info.config_text, info.config_text);
  CHECK_STR(d->info.placement, placement);
  strcpy(placement, "another"); /* from now on; attempts that follow replace it */
  CHECK_EQ(d->info.rank, 3);
  CHECK_EQ(d->info.size, 8);
  CHECK_EQ(d->info.node, 1);
  CHECK_EQ(d->info.local_rank, 1);
  CHECK_EQ(d->info.attempt, 1);
  CHECK_STR(d->info.host, "n2");
  CHECK_EQ(d->attempts, 1);
  CHECK_EQ(d->attempt_rows[0].closed, 1);
  CHECK_EQ(d->attempt_rows[0].spans, n);
  shoal_trace_data_destroy(d);
}

/* One record per step, kind and link for what is summed; single ones for what is not. */
static void by_step(void)
{
  const char *path = temp_path("step.h5");
  shoal_trace *t;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_STEP, &info, &t) == SHOAL_OK, "open");
  for (uint64_t step = 5; step < 8; step++) {
    uint64_t b = step * 1000;
    shoal_trace_set_step(t, step);
    for (uint64_t i = 0; i < 10; i++) shoal_trace_span(t, SHOAL_TRACE_BACKWARD, 12, b + 10 * i, b + 10 * i + 4);
    shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, 13, b, b + 7, SHOAL_LINK_NODE, 1, 100, 1);
    shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, 13, b, b + 8, SHOAL_LINK_BETWEEN, 2, 200, 2);
    shoal_trace_transfer(t, SHOAL_TRACE_EXCHANGE, 13, b, b + 9, SHOAL_LINK_BETWEEN, 3, 300, 3);
    shoal_trace_span(t, SHOAL_TRACE_INPUT, 14, b, b + 1);
    shoal_trace_span(t, SHOAL_TRACE_INPUT, 14, b, b + 2);
    shoal_trace_span(t, SHOAL_TRACE_STEP, SHOAL_TRACE_STEP, b, b + 500);
  }
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_data *d = read_back(path);
  CHECK_EQ(d->n, 3 * 6, "6 per step are expected");
  uint64_t bytes[SHOAL_LINK_COUNT] = { 0 }, spans = 0, backward = 0, inputs = 0;
  for (size_t i = 0; i < d->n; i++) {
    const shoal_trace_record *r = &d->records[i];
    CHECK_GE(r->step, 5);
    CHECK_LT(r->step, 8);
    if (r->kind == SHOAL_TRACE_EXCHANGE) bytes[r->link] += r->bytes;
    if (r->kind == SHOAL_TRACE_BACKWARD) {
      spans += r->seq;
      backward += r->t1_ns - r->t0_ns;
      CHECK_EQ(r->t0_ns, r->step * 1000, "a sum begins with its first span");
      CHECK_EQ(r->op, SHOAL_TRACE_BACKWARD);
    }
    inputs += r->kind == SHOAL_TRACE_INPUT;
  }
  CHECK_EQ(bytes[SHOAL_LINK_NODE], 300, "bytes by link");
  CHECK_EQ(bytes[SHOAL_LINK_BETWEEN], 1500);
  CHECK_EQ(spans, 30);
  CHECK_EQ(backward, 120);
  CHECK_EQ(inputs, 6);
  shoal_trace_data_destroy(d);
}

static void without_file(void)
{
  shoal_trace *t;
  REQUIRE(shoal_trace_open(NULL, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  shoal_trace_span(t, SHOAL_TRACE_WAIT, shoal_trace_op(t, "x"), 5, 25);
  shoal_trace_span(t, SHOAL_TRACE_WAIT, 0, 30, 20); /* a clock that steps back must not add 600 years */
  CHECK_NEAR(shoal_trace_total_s(t, SHOAL_TRACE_WAIT), 20e-9, 1e-15, "totals run without a file");
  CHECK(shoal_trace_counters(t) != NULL, "counters");
  CHECK_OK(shoal_trace_flush(t, true));
  CHECK_OK(shoal_trace_close(t));
  CHECK_OK(shoal_trace_close(NULL));
  CHECK_OK(shoal_trace_open(temp_path("off.h5"), SHOAL_TRACE_OFF, &info, &t));
  CHECK_OK(shoal_trace_close(t));
  CHECK_NE(access(temp_path("off.h5"), F_OK), 0, "level off writes nothing");
}

static void one_attempt(const char *path, int attempt, uint64_t spans, const char *name)
{
  shoal_trace *t;
  shoal_trace_info again = info;
  again.attempt = attempt;
  again.size = 8 - attempt;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &again, &t) == SHOAL_OK, "attempt %d", attempt);
  uint32_t op = shoal_trace_op(t, name);
  for (uint64_t i = 0; i < spans; i++) shoal_trace_span(t, SHOAL_TRACE_STEP, op, 100 * i + 1, 100 * i + 51);
  shoal_trace_counters(t)->payload[SHOAL_LINK_NODE] = spans;
  CHECK_OK(shoal_trace_close(t));
}

static void attempts(void)
{
  const char *path = temp_path("attempts.h5");
  one_attempt(path, 0, 5000, "a");
  one_attempt(path, 1, 7, "b");
  one_attempt(path, 2, 1, "a");
  shoal_trace_data *d = read_back(path);
  CHECK_EQ(d->n, 5008);
  CHECK_EQ(d->attempts, 3);
  CHECK_EQ(d->attempt_rows[1].first_record, 5000, "where they begin");
  CHECK_EQ(d->attempt_rows[2].first_record, 5007);
  CHECK_EQ(d->attempt_rows[1].attempt, 1, "what they were");
  CHECK_EQ(d->attempt_rows[1].size, 7);
  CHECK_EQ(d->info.size, 6);
  CHECK_EQ(d->counters.payload[SHOAL_LINK_NODE], 5008, "counters add up");
  CHECK_EQ(d->ops, SHOAL_TRACE_KIND_COUNT + 2);
  CHECK_EQ(d->records[0].op, d->records[5007].op, "one string table for all attempts");
  CHECK_STR(d->op_names[d->records[5000].op], "b");
  shoal_trace_data_destroy(d);
}

/* Each kind of damage: the old file survives under another name, and recording goes on. */
static void damaged(void)
{
  const char *path = temp_path("hurt.h5"),
             *aside[] = { temp_path("hurt.h5.damaged-1"), temp_path("hurt.h5.damaged-2") };
  struct stat s;
  shoal_log_set_level(SHOAL_LOG_ERROR); /* the warnings are expected */
  one_attempt(path, 0, 5000, "a");
  CHECK_EQ(stat(path, &s), 0);
  CHECK_EQ(truncate(path, s.st_size - 5000), 0);
  one_attempt(path, 1, 9, "a");
  CHECK_EQ(access(aside[0], F_OK), 0, "first damage is kept as .damaged-1");
  CHECK_NE(access(aside[1], F_OK), 0);
  shoal_trace_data *d = read_back(path);
  CHECK_EQ(d->n, 9, "a new one began");
  CHECK_EQ(d->attempts, 1);
  shoal_trace_data_destroy(d);

  temp_write(path, "", 0);
  one_attempt(path, 2, 4, "a");
  CHECK_EQ(access(aside[1], F_OK), 0, "second damage is kept as .damaged-2");
  d = read_back(path);
  CHECK_EQ(d->n, 4, "a new one began, with its own names");
  CHECK_EQ(d->ops, SHOAL_TRACE_KIND_COUNT + 1);
  shoal_trace_data_destroy(d);
  shoal_log_set_level(SHOAL_LOG_INFO);
}

static void refused(void)
{
  const char *path = temp_path("other.h5");
  shoal_trace *t = NULL;
  shoal_trace_data *d = NULL;
  shoal_trace_info other = info;
  shoal_h5 file;
  other.rank = 4;
  one_attempt(path, 0, 3, "a");
  CHECK_REFUSED(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &other, &t), SHOAL_ERR_IO, "is the trace of rank 3, not 4");
  CHECK_OK(shoal_h5_append(path, &file));
  CHECK_OK(shoal_h5_put_i64(file, "version", 2));
  shoal_h5_close(file);
  CHECK_REFUSED(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t), SHOAL_ERR_IO, "trace format 2");
  CHECK_REFUSED(shoal_trace_read(path, &d), SHOAL_ERR_IO, "trace format 2");
  CHECK_OK(shoal_h5_create(temp_fresh(path), &file));
  shoal_h5_close(file);
  CHECK_REFUSED(shoal_trace_read(path, &d), SHOAL_ERR_IO, "is not a Shoal trace");
  CHECK_REFUSED(shoal_trace_open(temp_path("no/folder.h5"), SHOAL_TRACE_BY_OP, &info, &t), SHOAL_ERR_IO,
                "cannot create");
  CHECK(!t, "outputs are written only on success");
  CHECK(!d);
}

/* The disk is full (here: the file may not grow beyond 1 MiB): one line, totals go on, flush and close tell. */
static void full_disk(void)
{
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = { 1 << 20, 1 << 20 };
    shoal_trace *t;
    int bad = 0;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    bad |= shoal_trace_open(temp_path("full.h5"), SHOAL_TRACE_BY_OP, &info, &t) != SHOAL_OK;
    for (uint64_t i = 1; i <= 5000 && !bad; i++) shoal_trace_span(t, SHOAL_TRACE_OTHER, 0, i, i + 10);
    bad |= shoal_trace_flush(t, true) != SHOAL_OK;
    for (uint64_t i = 1; i <= 100000 && !bad; i++) shoal_trace_span(t, SHOAL_TRACE_STEP, 0, i, i + 10);
    bad |= fabs(shoal_trace_total_s(t, SHOAL_TRACE_STEP) - 1e-3) > 1e-12 ? 2 : 0;
    bad |= shoal_trace_flush(t, false) != SHOAL_ERR_IO ? 4 : 0;
    bad |= !strstr(check_error(), "full.h5") || !strstr(check_error(), "File too large") ? 8 : 0;
    bad |= shoal_trace_close(t) != SHOAL_ERR_IO ? 16 : 0;
    _exit(bad);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status), "status %x", (unsigned)status);
  CHECK_EQ(WEXITSTATUS(status), 0, "status %x", (unsigned)status);
  shoal_trace_data *d = NULL;
  CHECK_OK(shoal_trace_read(temp_path("full.h5"), &d));
  if (CHECK(d, "what was flushed before is still there")) {
    CHECK_GE(d->n, 5000);
    CHECK_EQ(d->records[4999].t0_ns, 5000);
  }
  shoal_trace_data_destroy(d);
}

/* Printed, not asserted: this machine is shared. */
static void cost(void)
{
  enum { N = 2000000 };
  shoal_trace *t;
  uint64_t begin;
  REQUIRE(shoal_trace_open(temp_path("cost.h5"), SHOAL_TRACE_BY_STEP, &info, &t) == SHOAL_OK, "open");
  begin = shoal_now_ns();
  for (uint64_t i = 0; i < N; i++) shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, i, i + 1);
  printf("span by step: %.1f ns\n", (double)(shoal_now_ns() - begin) / N);
  CHECK_OK(shoal_trace_close(t));
  REQUIRE(shoal_trace_open(temp_path("cost2.h5"), SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  begin = shoal_now_ns();
  for (uint64_t i = 0; i < 10000; i++) shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, i, i + 1);
  printf("span by op, ring not full: %.1f ns\n", (double)(shoal_now_ns() - begin) / 10000);
  begin = shoal_now_ns();
  for (uint64_t i = 0; i < N; i++) shoal_trace_span(t, SHOAL_TRACE_FORWARD, 0, i, i + 1);
  printf("span by op, writing included: %.1f ns\n", (double)(shoal_now_ns() - begin) / N);
  begin = shoal_now_ns();
  CHECK_OK(shoal_trace_flush(t, true));
  printf("flush: %.0f us\n", (double)(shoal_now_ns() - begin) * 1e-3);
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_data *d = read_back(temp_path("cost2.h5"));
  CHECK_EQ(d->n, N + 10000);
  shoal_trace_data_destroy(d);
}

int main(void)
{
  temp_make();
  layout();
  every_field();
  by_step();
  without_file();
  attempts();
  damaged();
  refused();
  full_disk();
  cost();
  return check_done();
}
