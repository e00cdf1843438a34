/* What MPI says about itself: its version, compiled against and loaded (a mismatch of the two is a common cause of a wrong world
 * size), and the threads that it allows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/group_impl.h"
#include "comm/mpi/mpi_error.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x)   #x
#define NUMBER(x) TEXT(x)
#ifdef OMPI_MAJOR_VERSION
#define COMPILED NUMBER(OMPI_MAJOR_VERSION) "." NUMBER(OMPI_MINOR_VERSION) "." NUMBER(OMPI_RELEASE_VERSION)
#elif defined MPICH_VERSION
#define COMPILED MPICH_VERSION
#else
#define COMPILED "MPI " NUMBER(MPI_VERSION) "." NUMBER(MPI_SUBVERSION)
#endif

/* "Open MPI v4.1.4, package: ..." becomes "Open MPI 4.1.4"; MPICH separates by line and tab. */
const char *shoal_world_library(void)
{
  static char text[160];
  char loaded[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(loaded, &length) != MPI_SUCCESS) snprintf(loaded, sizeof loaded, "unknown MPI");
  loaded[strcspn(loaded, ",\n")] = '\0';
  char *v = strstr(loaded, " v");
  if (v && isdigit((unsigned char)v[2])) memmove(v + 1, v + 2, strlen(v + 2) + 1);
  for (char *c = loaded; *c; c++)
    if (*c == '\t') *c = ' ';
  snprintf(text, sizeof text, "%.100s (compiled %s)", loaded, COMPILED);
  return text;
}

const char *shoal_world_threads(void)
{
  int running = 0, level = MPI_THREAD_SINGLE;
  if (MPI_Initialized(&running) != MPI_SUCCESS || !running || MPI_Query_thread(&level) != MPI_SUCCESS) return "none";
  return level == MPI_THREAD_MULTIPLE     ? "multiple"
         : level == MPI_THREAD_SERIALIZED ? "serialized"
         : level == MPI_THREAD_FUNNELED   ? "funneled"
                                          : "single";
}

/* Looked for when it runs: Open MPI and those that descend from MPICH have it under this name, in different headers, and a program
 * may be started with another build of the library than it was compiled with. */
bool shoal_mpi_takes_device(const shoal_backend *b)
{
  int (*query)(void) = NULL;
  *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  return strcmp(b->name, "cuda") == 0 && query && query() == 1;
}
