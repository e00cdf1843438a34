/* A rank killed at any moment leaves a trace that can be read, with at least what its last flush wrote; but a kill between
 * two writes of a later flush can take the chunk that grew last.
 *
 * A child records without pause, flushes, and after each flush tells through a pipe how many records are safe.  It is
 * killed at a moment that differs from round to round, often inside a write or a flush; then the file is read, and a
 * second attempt continues it or sets it aside. */
#include "base/log.h"
#include "report/trace.h"
#include "unit/h5_temp.h"
#include <signal.h>
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

/* Records of one attempt count up from 1; returns how many stand in a row from `first`. */
static uint64_t in_order(const shoal_trace_data *d, uint64_t first)
{
  uint64_t i = 0;
  while (first + i < d->n && d->records[first + i].t0_ns == i + 1 && d->records[first + i].t1_ns == i + 2) i++;
  return i;
}

int main(void)
{
  enum { ROUNDS = 20 };
  unsigned continued = 0;
  shoal_log_set_level(SHOAL_LOG_ERROR); /* records cut off by a kill are expected */
  temp_make();
  for (unsigned round = 0; round < ROUNDS; round++) {
    char name[32];
    snprintf(name, sizeof name, "killed-%u.h5", round);
    const char *path = temp_path(name);
    shoal_trace_data *d = NULL;
    uint64_t safe = run_and_kill(path, 1237 * round);
    REQUIRE(shoal_trace_read(path, &d) == SHOAL_OK, "round %u: %s", round, check_error());
    CHECK(keeps(in_order(d, 0), safe), "round %u: %llu of %llu records", round, (unsigned long long)in_order(d, 0),
          (unsigned long long)safe);
    CHECK_EQ(d->attempts, 1, "an attempt that did not close");
    CHECK_EQ(d->attempt_rows[0].closed, 0);
    shoal_trace_data_destroy(d);

    uint64_t more = run_and_kill(path, 500);
    REQUIRE(shoal_trace_read(path, &d) == SHOAL_OK, "round %u, second attempt: %s", round, check_error());
    char aside[64];
    snprintf(aside, sizeof aside, "%s.damaged-1", name);
    bool kept = access(temp_path(aside), F_OK) != 0; /* killed inside a flush it may be readable, yet not writable */
    continued += kept;
    CHECK_EQ(d->attempts, kept ? 2 : 1, "round %u", round);
    uint64_t first = d->attempt_rows[d->attempts - 1].first_record;
    CHECK(keeps(in_order(d, first), more), "round %u: %llu of %llu records in the second attempt", round,
          (unsigned long long)in_order(d, first), (unsigned long long)more);
    shoal_trace_data_destroy(d);
  }
  printf("%u of %d killed files were continued, the others set aside\n", continued, ROUNDS);
  CHECK_GT(continued, 0, "no killed file could be continued");
  return check_done();
}
