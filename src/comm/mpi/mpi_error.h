/* Converts MPI return codes to shoal_status at the call, with MPI's error text. */
#ifndef SHOAL_COMM_MPI_ERROR_H
#define SHOAL_COMM_MPI_ERROR_H
#include "base/status.h"
#include <mpi.h>

static inline shoal_status shoal_mpi_fail(int rc, const char *call, const char *file, int line)
{
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(rc, words, &length) != MPI_SUCCESS || !length)
    return shoal_fail(SHOAL_ERR_COMM, file, line, "%s failed with code %d", call, rc);
  return shoal_fail(SHOAL_ERR_COMM, file, line, "%s: %s", call, words);
}

#define SHOAL_TRY_MPI(call)                                                                                            \
  do {                                                                                                                 \
    int rc_ = (call);                                                                                                  \
    if (rc_ != MPI_SUCCESS) return shoal_mpi_fail(rc_, #call, __FILE__, __LINE__);                                     \
  } while (0)
#define SHOAL_TRY_MPI_GOTO(st, call, label)                                                                            \
  do {                                                                                                                 \
    int rc_ = (call);                                                                                                  \
    if (rc_ != MPI_SUCCESS) {                                                                                          \
      (st) = shoal_mpi_fail(rc_, #call, __FILE__, __LINE__);                                                           \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#endif
