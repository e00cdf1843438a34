/* More than 2^31 elements of one byte: nothing may be counted in an int.  Needs memory for two copies, else it skips. */
#include "comm.h"
#include <unistd.h>

/* MemAvailable of /proc/meminfo in GiB, 0 if it cannot be read. */
static double available_gib(void)
{
  char line[128];
  double kib = 0;
  FILE *f = fopen("/proc/meminfo", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
  if (f) fclose(f);
  return kib / (1 << 20);
}

static unsigned char at(size_t i)
{
  return (unsigned char)(i ^ i >> 8 ^ i >> 16 ^ i >> 24 ^ i >> 32);
}

int main(void)
{
  enum { MARK = 4099 }; /* bytes looked at, 64-bit apart */
  const size_t bytes = ((size_t)1 << 31) + 1234567, stride = bytes / MARK;
  int rank, size, enough;
  mpi_start(&rank, &size);
  enough = available_gib() > 3.0 * (double)size;
  MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!enough) {
    MPI_Finalize();
    CHECK_SKIP("needs 3 GiB of memory per rank");
  }
  unsigned char *data = malloc(bytes);
  REQUIRE(data != NULL, "%zu bytes", bytes);
  if (rank == 0) /* before the world is open: its limit on waiting does not count how long this takes */
    for (size_t i = 0; i < bytes; i++) data[i] = at(i);
  shoal_world *w = open_world("2x1", 0);
  shoal_counters c = { 0 };
  shoal_world_set_counters(w, &c);
  CHECK_OK(shoal_group_broadcast(shoal_world_group(w), data, bytes, 0));
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; i += stride) wrong += data[i] != at(i);
  for (size_t i = bytes - MARK; i < bytes; i++) wrong += data[i] != at(i);
  CHECK(!wrong, "%zu bytes wrong", wrong);
  CHECK_EQ(c.payload[SHOAL_LINK_BETWEEN], rank == 0 ? bytes : 0);
  CHECK(rank || c.wire[SHOAL_LINK_BETWEEN] > bytes + bytes / 1448 * 66, "wire %llu",
        (unsigned long long)c.wire[SHOAL_LINK_BETWEEN]);
  free(data);
  shoal_world_close(w);
  return mpi_done();
}
