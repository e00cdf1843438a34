/* H18.  Waiting for a rank that does not answer: late (one warning, then on), absent (the hang status and a name), ahead with
 * something else (told apart from silence), or with another length. */
#include "base/clock.h"
#include "base/log.h"
#include "comm.h"
#include <unistd.h>

enum { N = 64 }; /* short messages leave at once, so that nothing is left to send when a test gives up */
static int rank, size;
static FILE *log_file;

static shoal_world *impatient(const char *pretend, double warn_s, double hang_s)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .pretend = pretend, .warn_s = warn_s, .hang_s = hang_s };
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "open");
  log_file = tmpfile();
  REQUIRE(log_file != NULL, "tmpfile");
  shoal_log_set_file(log_file, "log");
  return w;
}

static int logged(const char *word)
{
  char line[4096];
  int n = 0;
  rewind(log_file);
  while (fgets(line, sizeof line, log_file)) n += strstr(line, word) != NULL;
  fseek(log_file, 0, SEEK_END);
  return n;
}

static void close_world(shoal_world *w)
{
  shoal_log_set_file(NULL, NULL);
  fclose(log_file);
  MPI_Barrier(MPI_COMM_WORLD);
  shoal_world_close(w);
}

static shoal_status sum(shoal_exchange *e, float *x)
{
  shoal_status st = shoal_exchange_start(e, x, (shoal_event){ 0 });
  return st == SHOAL_OK ? shoal_exchange_wait(e) : st;
}

static void late(const char *pretend, shoal_sum_algorithm algorithm)
{
  shoal_world *w = impatient(pretend, 0.2, 20);
  shoal_exchange *e = NULL;
  float *x = shared_room(shoal_world_group(w), N * sizeof *x);
  for (int i = 0; i < N; i++) x[i] = (float)rank;
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "late", N, SHOAL_WIRE_F32, algorithm, &e));
  shoal_world_set_step(w, 30);
  if (rank == size - 1) usleep(700 * 1000);
  CHECK_OK(sum(e, x));
  CHECK_EQ(x[0], (float)(size * (size - 1) / 2));
  if (rank == 0) {
    CHECK_EQ(logged("exchange \"late\" number 1 of group world"), 1, "one warning: %d", logged("late"));
    CHECK_EQ(logged("step 30"), 1, "names the training step");
  }
  shoal_exchange_destroy(e);
  close_world(w);
}

/* The lowest rank that lives reports for all; the others are silent, and give up later.  What each knows is in its error. */
static void absent(const char *pretend, shoal_sum_algorithm algorithm, int gone)
{
  enum { HANG_S = 2 };
  shoal_world *w = impatient(pretend, 0.6, HANG_S);
  shoal_exchange *e = NULL;
  float *x = shared_room(shoal_world_group(w), N * sizeof *x);
  char name[32], all[64];
  int reporter = gone == 0;
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket 0", N, SHOAL_WIRE_F32, algorithm, &e));
  for (int i = 0; i < 3; i++) CHECK_OK(sum(e, x));
  if (rank != gone) {
    uint64_t t0 = shoal_now_ns();
    CHECK_STATUS(sum(e, x), SHOAL_ERR_HANG);
    double seconds = shoal_seconds_since(t0);
    CHECK_LT(seconds, 15, "in time");
    CHECK(rank == reporter || seconds > 1.9 * HANG_S, "rank %d gives up after %g s, not after who reports", rank,
          seconds);
    snprintf(name, sizeof name, "rank %d", gone);
    snprintf(all, sizeof all, "%d of %d ranks wait for rank %d (", size - 1, size, gone);
    CHECK_EQ(logged("exchange \"bucket 0\" number 4"), rank == reporter, "warnings of rank %d", rank);
    if (size > 2) CHECK_EQ(logged(all), rank == reporter, "the warning names who is missing");
    if (size > 2 && rank == reporter) CHECK_HAS(check_error(), all);
    CHECK_HAS(check_error(), "exchange \"bucket 0\" number 4", "the error");
    CHECK_HAS(check_error(), "not heard from", "every rank lists the one that is gone");
    CHECK_HAS(strstr(check_error(), "not heard"), name);
    if (algorithm == SHOAL_SUM_RING && rank == gone + 1) CHECK_HAS(strstr(check_error(), "waiting for"), name);
    if (algorithm == SHOAL_SUM_RING && rank == (gone - 1 + size) % size && size > 2)
      CHECK_LACKS(strstr(check_error(), "not heard"), gone == 1 ? "rank 2" : "rank 1", "all others are heard from");
    CHECK_STATUS(shoal_exchange_start(e, x, (shoal_event){ 0 }), SHOAL_ERR_COMM,
                 "a failed exchange does not start again");
  }
  shoal_exchange_destroy(e);
  close_world(w);
}

/* Rank 1 leaves out bucket 0 and goes on to bucket 1; with a stamp it is also seen when there is no other bucket. */
static void skipped(shoal_sum_algorithm algorithm, bool stamped)
{
  shoal_world *w = impatient(NULL, 0.2, 1);
  shoal_exchange *e[2] = { 0 };
  float *x = shared_room(shoal_world_group(w), 2 * N * sizeof *x);
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket 0", N, SHOAL_WIRE_F32, algorithm, &e[0]));
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket 1", N, SHOAL_WIRE_F32, algorithm, &e[1]));
  if (stamped) shoal_exchange_stamp(e[0], rank == 1 ? 31 : 30);
  int from = rank == 1 && !stamped ? 1 : 0, to = stamped ? 0 : 1;
  for (int i = from; i <= to; i++) CHECK_OK(shoal_exchange_start(e[i], x + i * N, (shoal_event){ 0 }));
  CHECK_STATUS(shoal_exchange_wait(e[from]), SHOAL_ERR_HANG, "rank %d: hang", rank);
  int first = algorithm == SHOAL_SUM_HALVING ? 1 + (size + 1) / 2 : 2; /* the one whom rank 1 sends to first */
  if (rank == first % size)
    CHECK_HAS(check_error(), stamped ? "another start of it" : "another exchange of this group");
  for (int i = 0; i < 2; i++) shoal_exchange_destroy(e[i]);
  close_world(w);
}

static void other_length(void)
{
  shoal_world *w = impatient(NULL, 20, 20);
  char bytes[64] = { 0 };
  if (rank == 0) CHECK_OK(shoal_group_send(shoal_world_group(w), bytes, 40, 1, 5));
  if (rank == 0) CHECK_OK(shoal_group_send(shoal_world_group(w), bytes, 40, 1, 6));
  if (rank == 1) {
    CHECK_STATUS(shoal_group_recv(shoal_world_group(w), bytes, 44, 0, 5), SHOAL_ERR_COMM, "shorter than expected");
    CHECK_HAS(check_error(), "rank 0 ");
    CHECK_HAS(check_error(), "40 bytes");
    CHECK_HAS(check_error(), "44 were expected");
    CHECK_STATUS(shoal_group_recv(shoal_world_group(w), bytes, 36, 0, 6), SHOAL_ERR_COMM, "longer than expected");
  }
  close_world(w);
}

static void absent_from_barrier(void)
{
  shoal_world *w = impatient(NULL, 0.2, 1);
  if (rank) {
    CHECK_STATUS(shoal_group_barrier(shoal_world_group(w)), SHOAL_ERR_HANG);
    CHECK_HAS(check_error(), "barrier number 1 of group world");
    CHECK_HAS(check_error(), "rank 0 (");
  }
  close_world(w);
}

static shoal_status sleep_once(void *context)
{
  bool *slept = context;
  if (!*slept) usleep(3 * 1000 * 1000);
  *slept = true;
  return SHOAL_OK;
}

/* Rank 0 does not run for longer than the limit, from the first look at what it waits for: that is no hang of rank 1, which is late,
 * too. */
static void paused_at_once(void)
{
  shoal_world *w = impatient(NULL, 1, 2);
  shoal_exchange *e[2] = { 0 };
  float *x = shared_room(shoal_world_group(w), 2 * N * sizeof *x);
  bool slept = false;
  for (int i = 0; i < 2; i++)
    CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket", N, SHOAL_WIRE_F32, SHOAL_SUM_RING, &e[i]));
  CHECK_OK(shoal_exchange_start(e[0], x, (shoal_event){ 0 }));
  if (rank) usleep(3500 * 1000);
  CHECK_OK(shoal_exchange_start(e[1], x + N, (shoal_event){ 0 }));
  if (rank == 0) {
    usleep(200 * 1000); /* news of bucket 0 has come */
    shoal_world_set_hook(w, sleep_once, &slept);
  }
  CHECK_OK(shoal_exchange_wait(e[1]), "%s", check_error());
  if (rank == 0) CHECK(slept, "the first look brought news");
  CHECK_OK(shoal_exchange_wait(e[0]));
  for (int i = 0; i < 2; i++) shoal_exchange_destroy(e[i]);
  close_world(w);
}

int main(void)
{
  mpi_start(&rank, &size);
  if (size > 1) {
    for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) {
      late(NULL, a);
      absent(NULL, a, 1);
    }
    for (size_t i = 0; i < SHOAL_COUNT(topologies); i++)
      if (topologies[i].size == size)
        absent(topologies[i].pretend, i % 2 ? SHOAL_SUM_TWO_LEVEL : SHOAL_SUM_TWO_LEVEL_HALVING, 0);
    skipped(SHOAL_SUM_RING, false);
    skipped(SHOAL_SUM_RING, true);
    skipped(SHOAL_SUM_HALVING, false);
    skipped(SHOAL_SUM_HALVING, true);
    skipped(SHOAL_SUM_TWO_LEVEL, true);
    other_length();
    absent_from_barrier();
    if (size == 2) paused_at_once();
  }
  return mpi_done();
}
