/* What is recorded is what is read back: records, names, counters; a file is made new and nothing that is there is touched; a
 * ring that nobody empties, and a file at its limit, count what they leave out. */
#include "base/file.h"
#include "base/log.h"
#include "h5/h5.h"
#include "report/trace.h"
#include "trace/format.h"
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

static shoal_trace_file_data *read_back(const char *path)
{
  shoal_trace_file_data *f = NULL;
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "reading %s: %s", path, check_error());
  for (size_t i = 0; i < f->n; i++) REQUIRE(shoal_trace_load(&f->ranks[i]) == SHOAL_OK, "%s: %s", path, check_error());
  return f;
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
      shoal_trace_transfer(
          t, SHOAL_TRACE_EXCHANGE,
          &(shoal_trace_exchange){
              .op = ring, .link = SHOAL_LINK_BETWEEN, .peer = (int)(i % 8), .bytes = 1ull << 40, .seq = i },
          1000 + i, 1500 + i);
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

  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
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
  CHECK_EQ(d->info.rank, 3);
  CHECK_EQ(d->info.size, 8);
  CHECK_EQ(d->info.node, 1);
  CHECK_EQ(d->info.local_rank, 1);
  CHECK_EQ(d->info.attempt, 1);
  CHECK_STR(d->info.host, "n2");
  CHECK_EQ(d->attempts, 1);
  CHECK_EQ(d->attempt_rows[0].closed, 1);
  CHECK_EQ(d->attempt_rows[0].spans, n);
  shoal_trace_file_data_destroy(f);
}

/* In turns with records and without; totals count both. */
static void paused(void)
{
  const char *path = temp_path("paused.h5");
  shoal_trace *t;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  for (uint64_t step = 0; step < 20; step++) {
    shoal_trace_pause(t, step / 5 % 2 == 1);
    shoal_trace_set_step(t, step);
    shoal_trace_end_step(t, 12, 1000 * step, 1000 * step + 10, 8);
    CHECK_OK(shoal_trace_flush(t, false));
  }
  CHECK_NEAR(shoal_trace_total_s(t, SHOAL_TRACE_STEP), 20 * 10e-9, 1e-15);
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  REQUIRE(d->n == 10, "%zu records", (size_t)d->n);
  for (uint64_t i = 0; i < 10; i++) CHECK_EQ(d->records[i].step, i < 5 ? i : i + 5);
  CHECK_EQ(d->attempt_rows[0].spans, 10);
  CHECK_EQ(d->attempt_rows[0].samples, 20 * 8);
  shoal_trace_file_data_destroy(f);
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
    shoal_trace_transfer(
        t, SHOAL_TRACE_EXCHANGE,
        &(shoal_trace_exchange){ .op = 13, .link = SHOAL_LINK_NODE, .peer = 1, .bytes = 100, .seq = 1 }, b, b + 7);
    shoal_trace_transfer(
        t, SHOAL_TRACE_EXCHANGE,
        &(shoal_trace_exchange){ .op = 13, .link = SHOAL_LINK_BETWEEN, .peer = 2, .bytes = 200, .seq = 2 }, b, b + 8);
    shoal_trace_transfer(
        t, SHOAL_TRACE_EXCHANGE,
        &(shoal_trace_exchange){ .op = 13, .link = SHOAL_LINK_BETWEEN, .peer = 3, .bytes = 300, .seq = 3 }, b, b + 9);
    shoal_trace_span(t, SHOAL_TRACE_INPUT, 14, b, b + 1);
    shoal_trace_span(t, SHOAL_TRACE_INPUT, 14, b, b + 2);
    shoal_trace_span(t, SHOAL_TRACE_STEP, SHOAL_TRACE_STEP, b, b + 500);
  }
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
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
  shoal_trace_file_data_destroy(f);
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
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &again, &t) == SHOAL_OK, "attempt %d: %s", attempt, check_error());
  uint32_t op = shoal_trace_op(t, name);
  for (uint64_t i = 0; i < spans; i++) shoal_trace_span(t, SHOAL_TRACE_STEP, op, 100 * i + 1, 100 * i + 51);
  shoal_trace_counters(t)->payload[SHOAL_LINK_NODE] = spans;
  CHECK_OK(shoal_trace_close(t));
}

static void check_attempt(const char *path, int attempt, uint64_t spans)
{
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  CHECK_EQ(d->n, spans, "%s", path);
  CHECK_EQ(d->info.attempt, attempt, "%s", path);
  CHECK_EQ(d->counters.payload[SHOAL_LINK_NODE], spans, "%s", path);
  shoal_trace_file_data_destroy(f);
}

/* What is there stays as it is: a trace, any other file, a folder, and what a link leads to, or nowhere. */
static void made_new(void)
{
  const char *path = temp_path("new.h5"), *precious = temp_path("precious");
  char *text = NULL;
  size_t n;
  one_attempt(path, 0, 50, "a");
  one_attempt(path, 1, 7, "b");
  check_attempt(path, 0, 50);
  check_attempt(temp_path("new-2.h5"), 1, 7);
  temp_write(temp_path("new-3.h5"), "planted", 7);
  temp_write(precious, "precious", 8);
  CHECK_EQ(symlink(precious, temp_path("new-4.h5")), 0);
  CHECK_EQ(symlink(temp_path("nowhere"), temp_path("new-5.h5")), 0);
  CHECK_EQ(link(precious, temp_path("new-6.h5")), 0);
  CHECK_EQ(mkfifo(temp_path("new-7.h5"), 0600), 0);
  one_attempt(path, 2, 3, "a");
  check_attempt(temp_path("new-8.h5"), 2, 3);
  CHECK_NE(access(temp_path("nowhere"), F_OK), 0, "a link was followed");
  REQUIRE(shoal_read_file(precious, &text, &n) == SHOAL_OK, "%s", check_error());
  CHECK_EQ(n, 8, "a link was followed");
  CHECK_STR(text, "precious");
  free(text);
  REQUIRE(shoal_read_file(temp_path("new-3.h5"), &text, &n) == SHOAL_OK, "%s", check_error());
  CHECK_STR(text, "planted");
  free(text);
  check_attempt(path, 0, 50);
}

/* Long names differ still, none is cut within a character, and too many have one name. */
static void names(void)
{
  const char *path = temp_path("names.h5");
  enum { MANY = 3000 };
  shoal_trace *t;
  char name[3][200], text[32];
  uint32_t op[3], last = 0;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  for (int i = 0; i < 3; i++) {
    memset(name[i], 'x', sizeof name[i]);
    for (size_t k = 0; k < 60; k += 2) memcpy(name[i] + k + 1, "\xc3\xb6", 2);
    name[i][sizeof name[i] - 1] = '\0';
  }
  name[1][198] = 'y'; /* the last of 199 characters */
  name[2][63] = '\0'; /* as many as fit */
  for (int i = 0; i < 3; i++) op[i] = shoal_trace_op(t, name[i]);
  CHECK_NE(op[0], op[1]);
  CHECK_EQ(shoal_trace_op(t, name[0]), op[0], "found again");
  for (int i = 0; i < MANY; i++) {
    snprintf(text, sizeof text, "op %d", i);
    last = shoal_trace_op(t, text);
  }
  CHECK_EQ(last, SHOAL_TRACE_OTHER, "there are limits");
  shoal_trace_span(t, SHOAL_TRACE_STEP, last, 1, 2);
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  CHECK_EQ(strlen(d->op_names[op[0]]), 62, "%s", d->op_names[op[0]]); /* one byte less, for a whole character */
  CHECK_EQ(strncmp(d->op_names[op[0]], name[0], 53), 0, "%s", d->op_names[op[0]]);
  CHECK_EQ(d->op_names[op[0]][53], '~');
  CHECK_NE(strcmp(d->op_names[op[0]], d->op_names[op[1]]), 0);
  CHECK_STR(d->op_names[op[2]], name[2]);
  CHECK_STR(d->op_names[op[2] + 1], "op 0");
  CHECK_STR(d->op_names[d->records[0].op], "other");
  shoal_trace_file_data_destroy(f);
}

/* A rank whose records nobody takes drops what does not fit, and says how many; its writer gets the others. */
static void ring_full(void)
{
  const char *path = temp_path("ring.h5");
  enum { FIT = 16384, MORE = 100 };
  shoal_trace *t[2];
  shoal_trace_ring rings[2];
  shoal_trace_info of[2] = { info, info };
  for (int i = 0; i < 2; i++) {
    of[i].rank = 3 + i;
    rings[i] = (shoal_trace_ring){ 3 + i, calloc(1, shoal_trace_ring_bytes()) };
    REQUIRE(rings[i].memory, "memory");
    REQUIRE(shoal_trace_open_ring(rings[i].memory, SHOAL_TRACE_BY_OP, &of[i], &t[i]) == SHOAL_OK, "open");
  }
  CHECK_OK(shoal_trace_write(t[0], path, &of[0], rings, 2));
  for (uint64_t i = 0; i < FIT + MORE; i++) shoal_trace_span(t[1], SHOAL_TRACE_OTHER, 8, i + 1, i + 2);
  CHECK_OK(shoal_trace_flush(t[1], false));
  CHECK_OK(shoal_trace_flush(t[0], false)); /* not due, but that ring is full */
  shoal_trace_span(t[1], SHOAL_TRACE_STEP, 9, 7, 8);
  shoal_trace_counters(t[1])->payload[SHOAL_LINK_NODE] = 42;
  CHECK_OK(shoal_trace_close(t[1]));
  CHECK_OK(shoal_trace_close(t[0]));
  for (int i = 0; i < 2; i++) free(rings[i].memory);
  shoal_trace_file_data *f = read_back(path);
  REQUIRE(f->n == 2, "%zu ranks", f->n);
  CHECK_EQ(f->ranks[0].n, 0);
  const shoal_trace_data *d = &f->ranks[1];
  CHECK_EQ(d->info.rank, 4);
  CHECK_EQ(d->n, FIT + 1);
  CHECK_EQ(d->records[FIT - 1].t0_ns, FIT, "the first ones are kept");
  CHECK_EQ(d->records[FIT].kind, SHOAL_TRACE_STEP, "and what came when there was room again");
  CHECK_EQ(d->attempt_rows[0].dropped, MORE);
  CHECK_EQ(d->attempt_rows[0].spans, FIT + MORE + 1);
  CHECK_EQ(d->attempt_rows[0].payload[SHOAL_LINK_NODE], 42);
  CHECK_EQ(d->attempt_rows[0].closed, 1);
  shoal_trace_file_data_destroy(f);
}

/* At its limit a file gets no more records, its counters stay those of the records that it has, and it is closed. */
static void limit(void)
{
  const char *path = temp_path("limit.h5");
  enum { N = 100000 };
  struct stat s;
  shoal_trace *t;
  shoal_trace_info small = info;
  small.most_bytes = 2 << 20;
  small.placement = NULL;
  shoal_log_set_level(SHOAL_LOG_ERROR); /* the warning is expected */
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &small, &t) == SHOAL_OK, "open");
  for (uint64_t i = 0; i < N; i++) {
    shoal_trace_span(t, SHOAL_TRACE_STEP, 9, i + 1, i + 2);
    shoal_trace_counters(t)->payload[SHOAL_LINK_NODE]++;
  }
  CHECK_OK(shoal_trace_flush(t, true));
  CHECK_NEAR(shoal_trace_total_s(t, SHOAL_TRACE_STEP), N * 1e-9, 1e-12, "totals go on");
  CHECK_OK(shoal_trace_close(t));
  shoal_log_set_level(SHOAL_LOG_INFO);
  CHECK_EQ(stat(path, &s), 0);
  CHECK_LT(s.st_size, (2 << 20) + 65536);
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  CHECK_GT(d->n, (2u << 20) / 56 / 3);
  CHECK_EQ(d->records[d->n - 1].t0_ns, d->n, "without a gap");
  CHECK_EQ(d->attempt_rows[0].dropped, N - d->n);
  CHECK_EQ(d->attempt_rows[0].payload[SHOAL_LINK_NODE], d->n, "counters are those of the records");
  CHECK_EQ(d->attempt_rows[0].closed, 1);
  shoal_trace_file_data_destroy(f);
}

static void refused(void)
{
  const char *path = temp_path("other.h5");
  shoal_trace *t = NULL;
  shoal_trace_file_data *f = NULL;
  shoal_h5 file;
  CHECK_OK(shoal_h5_create(temp_fresh(path), &file));
  CHECK_OK(shoal_h5_put_string(file, "format", SHOAL_TRACE_FORMAT));
  CHECK_OK(shoal_h5_put_i64(file, "version", 3));
  shoal_h5_close(file);
  CHECK_REFUSED(shoal_trace_read(path, &f), SHOAL_ERR_IO, "trace format 3");
  CHECK_OK(shoal_h5_create(temp_fresh(path), &file));
  shoal_h5_close(file);
  CHECK_REFUSED(shoal_trace_read(path, &f), SHOAL_ERR_IO, "is not a Shoal trace");
  CHECK_REFUSED(shoal_trace_open(temp_path("no/folder.h5"), SHOAL_TRACE_BY_OP, &info, &t), SHOAL_ERR_IO,
                "cannot create");
  CHECK(!t, "outputs are written only on success");
  CHECK(!f);
}

/* The disk is full (here: the file may not grow beyond 1 MiB): one line, totals go on, flush and close tell. */
static void full_disk(void)
{
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = { 1 << 20, 1 << 20 };
    shoal_trace_info small = info;
    shoal_trace *t;
    small.placement = NULL;
    int bad = 0;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    bad |=
        shoal_trace_open(temp_path("never.h5"), SHOAL_TRACE_BY_OP, &info, &t) != SHOAL_ERR_IO ? 32 : 0; /* too long */
    bad |= shoal_trace_open(temp_path("full.h5"), SHOAL_TRACE_BY_OP, &small, &t) != SHOAL_OK;
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
  shoal_trace_file_data *f = read_back(temp_path("full.h5"));
  const shoal_trace_data *d = &f->ranks[0];
  CHECK_GE(d->n, 5000, "what was flushed before is still there");
  CHECK_EQ(d->records[4999].t0_ns, 5000);
  shoal_trace_file_data_destroy(f);
}

/* trace.keep last: the newest records of a share of the limit, in order, however much came before. */
static void newest(uint64_t n)
{
  const char *path = temp_fresh(temp_path("last.h5"));
  enum { KEPT = 8192 }; /* 500 000 bytes hold 8928 records, which are two chunks and some */
  shoal_trace_info last = info;
  shoal_trace *t;
  last.placement = NULL;
  last.most_bytes = 500000;
  last.keep_last = true;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &last, &t) == SHOAL_OK, "open");
  for (uint64_t i = 1; i <= n; i++) {
    shoal_trace_end_step(t, SHOAL_TRACE_STEP, i * 10, i * 10 + 9, 3);
    if (i % 5000 == 0) CHECK_OK(shoal_trace_flush(t, true));
  }
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  uint64_t kept = n < KEPT ? n : KEPT;
  CHECK_EQ(d->n, kept, "%llu records", (unsigned long long)n);
  CHECK_EQ(d->attempt_rows[0].overwritten, n - kept);
  CHECK_EQ(d->attempt_rows[0].dropped, 0);
  CHECK_EQ(d->attempt_rows[0].steps, n);
  CHECK_EQ(d->attempt_rows[0].samples, 3 * n);
  for (uint64_t i = 0; i < d->n; i++) {
    REQUIRE(d->records[i].t0_ns == (n - kept + i + 1) * 10, "record %llu begins at %llu", (unsigned long long)i,
            (unsigned long long)d->records[i].t0_ns);
    CHECK_EQ(d->records[i].seq, 3);
  }
  shoal_trace_file_data_destroy(f);
  REQUIRE(shoal_trace_read_last(path, 50, &f) == SHOAL_OK, "the last 50: %s", check_error());
  REQUIRE(f->ranks[0].n == 50, "%zu of the last 50", f->ranks[0].n);
  for (uint64_t i = 0; i < 50; i++) CHECK_EQ(f->ranks[0].records[i].t0_ns, (n - 50 + i + 1) * 10);
  shoal_trace_file_data_destroy(f);
}

/* What tells which records belong together, and what a method predicts. */
static void exchanges(void)
{
  const char *path = temp_path("groups.h5");
  const int all[] = { 0, 1, 2, 3 }, others[] = { 0, 1, 2, 4 };
  shoal_trace *t;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) == SHOAL_OK, "open");
  uint32_t world = shoal_trace_group(t, "world", all, 4), again = shoal_trace_group(t, "world", all, 4);
  uint32_t part = shoal_trace_group(t, "world", all, 3), other = shoal_trace_group(t, "world", others, 4);
  uint32_t named = shoal_trace_group(t, "control", all, 4);
  const uint32_t ids[] = { world, again, part, other, named };
  for (int i = 0; i < 5; i++) {
    CHECK_GT(ids[i], 0);
    for (int k = 0; k < i; k++) CHECK_NE(ids[i], ids[k], "each group has its own identity");
  }
  /* On another rank: the same where name and members are, whatever groups it has besides. */
  shoal_trace *there;
  REQUIRE(shoal_trace_open(temp_path("there.h5"), SHOAL_TRACE_BY_OP, &info, &there) == SHOAL_OK, "open");
  CHECK_EQ(shoal_trace_group(there, "world", others, 4), other, "by its members");
  CHECK_EQ(shoal_trace_group(there, "control", all, 4), named, "by its name");
  CHECK_EQ(shoal_trace_group(there, "world", all, 4), world);
  CHECK_EQ(shoal_trace_group(there, "world", all, 4), again, "by its order");
  CHECK_OK(shoal_trace_close(there));
  shoal_trace_exchange x = { 5, again, SHOAL_TRACE_ROLE_SINK, SHOAL_LINK_NODE, 2, 70, 9 };
  shoal_trace_blocked(t, &x, 100, 200);
  shoal_trace_set_batch(t, 32);
  for (int i = 0; i < 2; i++) shoal_trace_add_formula(t, (uint64_t[]){ 1, 2, 3, 4 });
  CHECK_OK(shoal_trace_close(t));
  shoal_trace_file_data *f = read_back(path);
  const shoal_trace_data *d = &f->ranks[0];
  REQUIRE(d->n == 2, "%zu records", d->n);
  REQUIRE(d->n_groups == 5, "%zu groups", d->n_groups);
  for (int i = 0; i < 2; i++) {
    const shoal_trace_record *r = &d->records[i];
    CHECK_EQ(r->kind, i ? SHOAL_TRACE_WAIT : SHOAL_TRACE_EXCHANGE);
    CHECK_EQ(r->t0_ns, 100);
    CHECK_EQ(r->t1_ns, 200);
    CHECK_EQ(r->op, 5);
    CHECK_EQ(r->group, again);
    CHECK_EQ(r->role, SHOAL_TRACE_ROLE_SINK);
    CHECK_EQ(r->link, SHOAL_LINK_NODE);
    CHECK_EQ(r->peer, 2);
    CHECK_EQ(r->seq, 9);
    CHECK_EQ(r->bytes, i ? 0 : 70);
  }
  CHECK_EQ(d->groups[1].id, again);
  CHECK_EQ(d->groups[2].size, 3);
  CHECK_STR(d->groups[4].name, "control");
  CHECK_EQ(d->attempt_rows[0].batch, 32);
  CHECK_EQ(d->attempt_rows[0].formula[SHOAL_LINK_BETWEEN], 6);
  shoal_trace_file_data_destroy(f);
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
  shoal_trace_file_data *f = read_back(temp_path("cost2.h5"));
  CHECK_EQ(f->ranks[0].n, N + 10000);
  shoal_trace_file_data_destroy(f);
}

int main(void)
{
  temp_make();
  layout();
  every_field();
  paused();
  by_step();
  exchanges();
  newest(100);
  newest(8192);
  newest(8193);
  newest(61234);
  without_file();
  made_new();
  names();
  ring_full();
  limit();
  refused();
  full_disk();
  cost();
  return check_done();
}
