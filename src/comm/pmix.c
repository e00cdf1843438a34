/* A real barrier between MPI_Init and the first message, where PMIx started us.
 *
 * Open MPI ends MPI_Init with a PMIx fence that collects no data.  Under Slurm's plugin such a fence returns as soon as
 * the ranks of the own node have come.  A rank may then send over TCP to one that is still inside MPI_Init and has not
 * set up its receiving side: that start dies (seen in 33 of 928 starts over several nodes).  A fence that collects data
 * is a true barrier, and after it 0 of 300 starts failed.  PMIx_Init only counts up, since MPI has already called it.
 *
 * On the way the size of the job is compared with what MPI sees. */
#include "base/log.h"
#include "comm/group_impl.h"
#include <stdlib.h>

#ifdef SHOAL_HAVE_PMIX
#include <pmix.h>

static shoal_status compare_size(const pmix_proc_t *all, int mpi_size)
{
  pmix_value_t *value = NULL;
  uint32_t size = 0;
  if (PMIx_Get(all, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS || !value) return SHOAL_OK;
  if (value->type == PMIX_UINT32) size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  SHOAL_CHECK(!size || size == (uint32_t)mpi_size, SHOAL_ERR_WORLD,
              "PMIx started %u ranks, but MPI sees %d: this MPI (%s) does not talk to the launcher's PMIx; use an MPI "
              "built with it, or `mpirun`",
              size, mpi_size, shoal_world_library());
  return SHOAL_OK;
}

shoal_status shoal_pmix_settle(int mpi_size)
{
  pmix_proc_t me, all;
  pmix_info_t collect;
  bool yes = true;
  if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK")) return SHOAL_OK;
  pmix_status_t rc = PMIx_Init(&me, NULL, 0);
  if (rc != PMIX_SUCCESS) {
    shoal_debug("no PMIx fence after MPI_Init: %s", PMIx_Error_string(rc));
    return SHOAL_OK;
  }
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  shoal_status st = compare_size(&all, mpi_size);
  if (st == SHOAL_OK) {
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    rc = PMIx_Fence(&all, 1, &collect, 1);
    if (rc != PMIX_SUCCESS) shoal_debug("the PMIx fence after MPI_Init failed: %s", PMIx_Error_string(rc));
  }
  PMIx_Finalize(NULL, 0);
  return st;
}
#else
shoal_status shoal_pmix_settle(int mpi_size)
{
  if (getenv("PMIX_NAMESPACE") && getenv("SLURM_STEP_ID"))
    shoal_debug("built without PMIx: no fence after MPI_Init, %d ranks", mpi_size);
  return SHOAL_OK;
}
#endif
