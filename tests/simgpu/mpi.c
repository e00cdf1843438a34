/* A stand-in for MPI that takes memory of devices, put before the real one by LD_PRELOAD: a message from or to the simulated device
 * goes through memory of the host.  The device's memory is read when a send is posted and written when a receive completes, on no
 * stream, as a real one does.
 *
 * Mistakes: queued work uses what is sent or received, at either of these moments; what is sent changes in between.
 *
 * Environment: SIMGPU_MPI=no: it says that it does not; wrong: a receive of more than 4 KiB has a wrong bit. */
#include "simgpu.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  MPI_Request request;
  void *there;
  char *here;
  size_t bytes;
  bool receives;
} flight;
static flight *flights;
static int n, room;
static int (*touch)(void *, void *, size_t, int); /* NULL: no simulated device in this process */

int simgpu_mpi_messages; /* so many were from or to a device */

static bool says(const char *word)
{
  const char *v = getenv("SIMGPU_MPI");
  return v && strcmp(v, word) == 0;
}

int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void)
{
  return !says("no");
}

/* The host's side of a message that is in device memory, as that is now; NULL: it is not. */
static char *host_side(const void *there, size_t bytes)
{
  if (!touch) *(void **)&touch = dlsym(RTLD_DEFAULT, "simgpu_touch");
  char *here = touch ? malloc(bytes + 1) : NULL;
  if (here && touch((void *)(size_t)there, here, bytes, 0)) return here;
  free(here);
  return NULL;
}

static void add(flight f)
{
  if (n == room) flights = realloc(flights, (size_t)(room = 2 * room + 64) * sizeof *flights);
  if (!flights) abort();
  flights[n++] = f;
  simgpu_mpi_messages++;
}

static void end(MPI_Request request)
{
  int i = 0;
  while (i < n && flights[i].request != request) i++;
  if (i == n) return;
  flight f = flights[i];
  flights[i] = flights[--n];
  if (f.receives && says("wrong") && f.bytes > 4096) f.here[f.bytes - 1] ^= 1;
  if (f.receives) {
    touch(f.there, f.here, f.bytes, 1);
  } else {
    char *now = host_side(f.there, f.bytes);
    if (!now || memcmp(now, f.here, f.bytes) != 0) {
      fprintf(stderr, "simgpu: MISTAKE: MPI sends %zu bytes of device memory, which have changed meanwhile\n", f.bytes);
      _exit(99);
    }
    free(now);
  }
  free(f.here);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
  char *here = host_side(data, (size_t)count);
  int rc = PMPI_Isend(here ? here : data, count, type, to, tag, comm, request);
  if (here) add((flight){ *request, (void *)(size_t)data, here, (size_t)count, false });
  return rc;
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
  char *here = host_side(data, (size_t)count);
  int rc = PMPI_Irecv(here ? here : data, count, type, from, tag, comm, request);
  if (here) add((flight){ *request, data, here, (size_t)count, true });
  return rc;
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
  MPI_Request before[count + 1];
  memcpy(before, requests, (size_t)count * sizeof *before);
  int rc = PMPI_Testsome(count, requests, done, indices, statuses);
  for (int i = 0; n && i < *done; i++) end(before[indices[i]]);
  return rc;
}
