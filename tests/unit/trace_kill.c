/* A rank killed at any moment leaves a trace that can be read.
 *
 * A writer: with at least what its last flush wrote; but a kill between two writes of a later flush can take the chunk that
 * grew last.  A child records without pause, flushes, and after each flush tells through a pipe how many records are safe.
 * It is killed at a moment that differs from round to round, often inside a write or a flush; then the file is read.
 *
 * Another rank: with everything that it recorded, as its writer lives on.  A child records in memory that it shares with
 * this process, and says so after each step. */
#include "base/log.h"
#include "report/trace.h"
#include "unit/h5_temp.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const shoal_trace_info info = { .run_name = "kill", .rank = 0, .size = 1, .host = "h" };

enum { CHUNK = 16384 }; /* records */

static bool keeps(uint64_t found, uint64_t safe)
{
  return found >= safe || (found % CHUNK == 0 && safe - found < CHUNK);
}

static void record_for_ever(const char *path, int pipe_end)
{
  shoal_trace *t;
  uint64_t n = 0;
  if (shoal_trace_open(path, SHOAL_TRACE_BY_OP, &info, &t) != SHOAL_OK) _exit(1);
  for (;;) {
    for (int i = 0; i < 3000; i++, n++) shoal_trace_span(t, SHOAL_TRACE_STEP, SHOAL_TRACE_STEP, n + 1, n + 2);
    if (shoal_trace_flush(t, true) != SHOAL_OK) _exit(2);
    if (write(pipe_end, &n, sizeof n) != (ssize_t)sizeof n) _exit(3);
  }
}

/* Start, let it run for `us` after its first flush, kill; returns the number of records it called safe. */
static uint64_t run_and_kill(const char *path, unsigned us)
{
  int ends[2], status;
  uint64_t safe = 0, n;
  REQUIRE(pipe(ends) == 0, "pipe");
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    record_for_ever(path, ends[1]);
  }
  close(ends[1]);
  if (read(ends[0], &n, sizeof n) == (ssize_t)sizeof n) safe = n;
  usleep(us);
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  while (read(ends[0], &n, sizeof n) == (ssize_t)sizeof n) safe = n;
  close(ends[0]);
  CHECK(WIFSIGNALED(status), "the child ended by itself, status %d", status);
  CHECK_GT(safe, 0, "the child ended by itself, status %d", status);
  return safe;
}

/* Records count up from 1; returns how many stand in a row. */
static uint64_t in_order(const shoal_trace_data *d)
{
  uint64_t i = 0;
  while (i < d->n && d->records[i].t0_ns == i + 1 && d->records[i].t1_ns == i + 2) i++;
  return i;
}

static shoal_trace_file_data *read_back(const char *path)
{
  shoal_trace_file_data *f = NULL;
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "%s: %s", path, check_error());
  for (size_t i = 0; i < f->n; i++) REQUIRE(shoal_trace_load(&f->ranks[i]) == SHOAL_OK, "%s: %s", path, check_error());
  return f;
}

static void writer_killed(unsigned round)
{
  char name[32];
  snprintf(name, sizeof name, "killed-%u.h5", round);
  uint64_t safe = run_and_kill(temp_path(name), 1237 * round);
  shoal_trace_file_data *f = read_back(temp_path(name));
  const shoal_trace_data *d = &f->ranks[0];
  CHECK(keeps(in_order(d), safe), "round %u: %llu of %llu records", round, (unsigned long long)in_order(d),
        (unsigned long long)safe);
  CHECK_EQ(d->attempt_rows[0].closed, 0, "an attempt that did not close");
  shoal_trace_file_data_destroy(f);
}

static void record_steps(void *memory, const shoal_trace_info *of, int pipe_end)
{
  shoal_trace *t;
  if (shoal_trace_open_ring(memory, SHOAL_TRACE_BY_OP, of, &t) != SHOAL_OK) _exit(1);
  for (uint64_t n = 0;;) {
    for (int i = 0; i < 10; i++, n++) shoal_trace_span(t, SHOAL_TRACE_STEP, shoal_trace_op(t, "late"), n + 1, n + 2);
    shoal_trace_counters(t)->payload[SHOAL_LINK_NODE] = n;
    if (shoal_trace_flush(t, false) != SHOAL_OK || write(pipe_end, &n, sizeof n) != (ssize_t)sizeof n) _exit(2);
    usleep(500); /* nothing is dropped, unless the writer does not run for a second */
  }
}

/* Recorders that are not closed, which would wait for the killed rank. */
enum { ROUNDS = 20 };
static shoal_trace *left[ROUNDS];

static void other_killed(unsigned round)
{
  char name[32];
  int ends[2], status;
  uint64_t n = 0, said = 0;
  size_t bytes = shoal_trace_ring_bytes();
  shoal_trace *t;
  snprintf(name, sizeof name, "other-%u.h5", round);
  shoal_trace_info of[2] = { info, info };
  shoal_trace_ring rings[2];
  of[1].rank = 1;
  for (int i = 0; i < 2; i++) {
    rings[i] = (shoal_trace_ring){ i, mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) };
    REQUIRE(rings[i].memory != MAP_FAILED, "memory");
  }
  REQUIRE(pipe(ends) == 0, "pipe");
  pid_t pid = fork();
  if (pid == 0) record_steps(rings[1].memory, &of[1], ends[1]);
  close(ends[1]);
  REQUIRE(read(ends[0], &n, sizeof n) == (ssize_t)sizeof n, "the child ended"); /* its recorder is open */
  REQUIRE(shoal_trace_open_ring(rings[0].memory, SHOAL_TRACE_BY_OP, &of[0], &t) == SHOAL_OK, "open");
  REQUIRE(shoal_trace_write(t, temp_path(name), &of[0], rings, 2) == SHOAL_OK, "%s", check_error());
  for (unsigned i = 0; i < round; i++) {
    usleep(700);
    CHECK_OK(shoal_trace_flush(t, i % 2));
  }
  usleep(137 * round);
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  CHECK(WIFSIGNALED(status), "the child ended by itself, status %d", status);
  while (read(ends[0], &n, sizeof n) == (ssize_t)sizeof n) said = n;
  close(ends[0]);
  CHECK_OK(shoal_trace_flush(t, true)); /* as a rank does that ends because another was lost */
  shoal_trace_file_data *f = read_back(temp_path(name));
  REQUIRE(f->n == 2, "%zu ranks", f->n);
  const shoal_trace_data *d = &f->ranks[1];
  CHECK_GE(d->n, said, "round %u", round);
  CHECK_EQ(in_order(d), d->n, "round %u: a hole, or a record twice", round);
  CHECK_GE(d->attempt_rows[0].payload[SHOAL_LINK_NODE], said, "round %u", round);
  CHECK_EQ(d->attempt_rows[0].dropped, 0);
  CHECK_EQ(d->attempt_rows[0].closed, 0);
  CHECK_STR(d->op_names[d->records[d->n - 1].op], "late");
  shoal_trace_file_data_destroy(f);
  if (round == 0)
    CHECK_OK(shoal_trace_close(t)); /* does not wait for ever */
  else
    left[round] = t;
  for (int i = 0; i < 2 && round == 0; i++) munmap(rings[i].memory, bytes);
}

int main(void)
{
  shoal_log_set_level(SHOAL_LOG_ERROR); /* records cut off by a kill are expected */
  temp_make();
  for (unsigned round = 0; round < ROUNDS; round++) {
    writer_killed(round);
    other_killed(round);
  }
  return check_done();
}
