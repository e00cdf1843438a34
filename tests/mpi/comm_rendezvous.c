/* Meetings of ranks that step at their own pace: every rank notices a request, and all learn the largest one; a rank
 * that is late is not a hang, one that is silent is. */
#include "base/clock.h"
#include "comm.h"
#include <unistd.h>

static int rank, size;

static uint64_t dice(uint64_t i, uint32_t step, uint64_t n)
{
  shoal_rng_block r = shoal_rng(51, SHOAL_RNG_TEST, i, step);
  return shoal_rng_below(&r, n);
}

/* Ranks step at random speeds; in each round one or two of them call after some steps of theirs, and all must come to
 * the same meeting, for the larger wish, without anybody having been told of the round. */
static void random_calls(shoal_world *w)
{
  shoal_rendezvous *c;
  REQUIRE(shoal_rendezvous_create(shoal_world_control(w), "test", &c) == SHOAL_OK, "create");
  for (uint64_t round = 0; round < 60; round++) {
    int first = (int)dice(round, 1, (uint64_t)size), second = (int)dice(round, 2, (uint64_t)size);
    int64_t wish = 1 + (int64_t)dice(round, 3, 5), other = 1 + (int64_t)dice(round, 4, 5), got;
    uint64_t steps = dice(round, 5, 4);
    for (uint64_t step = 0;; step++) {
      usleep((useconds_t)dice(round * 100 + step, (uint32_t)(10 + rank), 1500));
      CHECK_OK(shoal_world_progress(w));
      if (step == steps && rank == first) CHECK_OK(shoal_rendezvous_request(c, wish));
      if (step == steps && rank == second) CHECK_OK(shoal_rendezvous_request(c, other));
      if (shoal_rendezvous_requested(c) || step > 2000) break;
    }
    CHECK_OK(shoal_rendezvous_meet(c, 0, NULL, NULL, &got));
    /* The second may not have got to its step before it heard; the first to call always counts. */
    CHECK(got == wish || got == other || got == SHOAL_MAX(wish, other), "round %llu: %lld of %lld and %lld",
          (unsigned long long)round, (long long)got, (long long)wish, (long long)other);
    int64_t largest = got;
    CHECK_OK(shoal_group_max_i64(shoal_world_control(w), &largest, 1));
    CHECK_EQ(largest, got, "round %llu: ranks learned different things", (unsigned long long)round);
    CHECK(shoal_rendezvous_requested(c) == 0 || size == 1, "a request outlives its meeting");
    CHECK_OK(shoal_group_barrier(shoal_world_control(w)));
  }
  shoal_rendezvous_destroy(c);
}

static int64_t change_of_mind(void *context)
{
  uint64_t *since = context;
  return shoal_seconds_since(*since) > 0.05 ? 7 : 0;
}

/* A wish that comes while waiting brings those who were in no hurry. */
static void second_thoughts(shoal_world *w)
{
  shoal_rendezvous *c;
  int64_t got;
  REQUIRE(shoal_rendezvous_create(shoal_world_control(w), "test", &c) == SHOAL_OK, "create");
  uint64_t t0 = shoal_now_ns();
  if (rank == 0) {
    CHECK_OK(shoal_rendezvous_meet(c, 1, change_of_mind, &t0, &got));
  } else {
    while (shoal_rendezvous_requested(c) < 7 && shoal_seconds_since(t0) < 20) CHECK_OK(shoal_world_progress(w));
    CHECK_OK(shoal_rendezvous_meet(c, 0, NULL, NULL, &got));
  }
  CHECK(got == 7 || size == 1, "came for %lld", (long long)got);
  shoal_rendezvous_destroy(c);
}

/* The last rank is late by far more than the limit, but lives (or does not). */
static void late(bool alive)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .warn_s = 0.2, .hang_s = 0.4 };
  shoal_rendezvous *c;
  int64_t got = 0;
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "open");
  REQUIRE(shoal_rendezvous_create(shoal_world_control(w), "late", &c) == SHOAL_OK, "open");
  uint64_t t0 = shoal_now_ns();
  bool last = rank == size - 1;
  while (last && shoal_seconds_since(t0) < 1.5) {
    usleep(1000);
    if (!alive) continue;
    CHECK_OK(shoal_world_progress(w));
    CHECK_OK(shoal_rendezvous_heartbeat(c));
  }
  if (alive) {
    CHECK_OK(shoal_rendezvous_meet(c, 3, NULL, NULL, &got));
    CHECK_EQ(got, 3);
  } else if (!last) {
    CHECK_STATUS(shoal_rendezvous_meet(c, 3, NULL, NULL, &got), SHOAL_ERR_HANG, "silence was not noticed");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  shoal_rendezvous_destroy(c);
  shoal_world_close(w);
}

int main(void)
{
  mpi_start(&rank, &size);
  shoal_world *w = open_world(NULL, 0);
  random_calls(w);
  second_thoughts(w);
  shoal_world_close(w);
  late(true);
  if (size > 1) late(false);
  return mpi_done();
}
