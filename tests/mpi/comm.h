/* What the tests of comm/ share: pretended topologies for a number of ranks, numbers to sum, and counters to compare.
 *
 * The tests start MPI themselves, because a process can do so only once and they open many worlds. */
#ifndef SHOAL_TESTS_MPI_COMM_H
#define SHOAL_TESTS_MPI_COMM_H
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "comm/exchange.h"
#include <mpi.h>

static const struct {
  int size;
  const char *pretend;
} topologies[] = {
  { 1, "1x1" },   { 2, "2x1" }, { 2, "1x2" }, { 3, "3x1" },     { 3, "2,1" }, { 3, "1,2" },
  { 4, "2x2" },   { 4, "4x1" }, { 4, "1x4" }, { 4, "2,1,1" },   { 5, "3,2" }, { 5, "1,1,3" },
  { 7, "3,3,1" }, { 7, "7x1" }, { 8, "4x2" }, { 8, "2,1,2,3" },
};

static inline void mpi_start(int *rank, int *size)
{
  int given;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

static inline shoal_world *open_world(const char *pretend, size_t max_message)
{
  shoal_world *w = NULL;
  int in_order = max_message ? 2 : 0; /* where messages are short, sums are as those of many ranks */
  shoal_world_options o = {
    .pretend = pretend, .max_message = max_message, .in_order = in_order, .warn_s = 20, .hang_s = 40
  };
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "open, pretending %s", pretend ? pretend : "nothing");
  return w;
}

/* The number member `rank` brings for element i: a small integer, or any float of moderate size. */
static inline float small_integer(uint64_t i, int rank)
{
  return (float)((int)(i * 7 + (uint64_t)rank * 13) % 41 - 20);
}

static inline float any_float(uint64_t i, int rank)
{
  shoal_rng_block b = shoal_rng(5, SHOAL_RNG_TEST, i, (uint32_t)rank);
  return (shoal_rng_unit(b.v[0]) - 0.5f) * (float)(1 << (b.v[1] % 12)) * 0.01f;
}

static inline void *room(size_t bytes)
{
  void *p = NULL;
  REQUIRE(shoal_alloc(bytes, 1, "test buffer", &p) == SHOAL_OK, "%zu bytes", bytes);
  return p;
}

/* Memory that sums on two levels can work on. */
static inline void *shared_room(shoal_group *g, size_t bytes)
{
  void *p = NULL;
  REQUIRE(shoal_group_share(g, bytes, &p) == SHOAL_OK, "%zu shared bytes", bytes);
  return p;
}

/* All ranks fail together, so that mpiexec reports one thing. */
static inline int mpi_done(void)
{
  int mine = check_done(), any = 0;
  MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any;
}
#endif
