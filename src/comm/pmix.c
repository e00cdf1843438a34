/* A true barrier between MPI_Init and the first message, if PMIx started us.
 *
 * Open MPI ends MPI_Init with a PMIx fence that collects no data.  Under Slurm's plugin such a fence returns as soon as
 * the ranks of the own node have entered it.  A rank may then send over TCP to one that is still inside MPI_Init and
 * has not set up its receiving side: that start fails (33 of 928 starts over several nodes).  A fence that collects
 * data is a true barrier; with it 0 of 300 starts failed.  PMIx_Init only increments a reference count, since MPI has
 * already called it.
 *
 * PMIx is also queried for its description of the job, which is compared with the real one (slurm/claims.h). */
#include "base/log.h"
#include "comm/group_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SHOAL_HAVE_PMIX
#include <pmix.h>

/* Value cached from the server.  The server is not queried again, so that a missing key costs nothing. */
static pmix_value_t *look_up(const pmix_proc_t *who, const char *key)
{
  pmix_value_t *value = NULL;
  pmix_info_t known;
  bool yes = true;
  PMIX_INFO_LOAD(&known, PMIX_OPTIONAL, &yes, PMIX_BOOL);
  return PMIx_Get(who, key, &known, 1, &value) == PMIX_SUCCESS ? value : NULL;
}

/* Servers use different integer types for these values. */
static int32_t number(const pmix_proc_t *who, const char *key)
{
  pmix_value_t *value = look_up(who, key);
  uint64_t n = UINT64_MAX;
  if (!value) return -1;
  if (value->type == PMIX_UINT32) n = value->data.uint32;
  if (value->type == PMIX_UINT16) n = value->data.uint16;
  if (value->type == PMIX_UINT64) n = value->data.uint64;
  if (value->type == PMIX_SIZE) n = value->data.size;
  if (value->type == PMIX_INT && value->data.integer >= 0) n = (uint64_t)value->data.integer;
  PMIX_VALUE_RELEASE(value);
  return n <= INT32_MAX ? (int32_t)n : -1;
}

/* The number of nodes, or -1 if the server contradicts itself: PRRTE 3.0 (Open MPI 5.0.7) under Slurm counts every node
 * twice but lists it once. */
static int32_t count_nodes(const pmix_proc_t *all)
{
  int32_t n = number(all, PMIX_NUM_NODES), listed = 0;
  pmix_value_t *list = look_up(all, PMIX_NODE_LIST);
  if (list && list->type == PMIX_STRING && list->data.string)
    for (const char *c = list->data.string; c; c = strchr(c + 1, ',')) listed++;
  if (list) PMIX_VALUE_RELEASE(list);
  return listed && listed != n ? -1 : n;
}

static void ask(const pmix_proc_t *me, const pmix_proc_t *all, shoal_claims *c)
{
  int32_t *says = c->by[SHOAL_SOURCE_PMIX].number;
  says[SHOAL_CLAIM_RANKS] = number(all, PMIX_JOB_SIZE);
  says[SHOAL_CLAIM_NODES] = count_nodes(all);
  says[SHOAL_CLAIM_LOCAL_RANKS] = number(all, PMIX_LOCAL_SIZE);
  says[SHOAL_CLAIM_LOCAL_RANK] = number(me, PMIX_LOCAL_RANK);
  says[SHOAL_CLAIM_NODE] = number(me, PMIX_NODEID);
  if (me->rank <= INT32_MAX) says[SHOAL_CLAIM_RANK] = (int32_t)me->rank;
  pmix_value_t *host = look_up(me, PMIX_HOSTNAME);
  if (host && host->type == PMIX_STRING && host->data.string)
    snprintf(c->by[SHOAL_SOURCE_PMIX].host, SHOAL_HOST_MAX, "%s", host->data.string);
  if (host) PMIX_VALUE_RELEASE(host);
}

/* Compared here and not with the other claims, because ranks of another world may never enter the fence. */
static shoal_status compare_size(const shoal_claims *c, int mpi_size)
{
  int size = c->by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_RANKS];
  SHOAL_CHECK(size < 0 || size == mpi_size, SHOAL_ERR_WORLD,
              "PMIx started %d ranks, but MPI sees %d: this MPI (%s) does not talk to the launcher's PMIx; use an MPI "
              "built with it, or `mpirun`",
              size, mpi_size, shoal_world_library());
  return SHOAL_OK;
}

static pmix_status_t collecting_fence(const pmix_proc_t *all)
{
  pmix_info_t collect;
  bool yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  return PMIx_Fence(all, 1, &collect, 1);
}

shoal_status shoal_world_fence(void)
{
  pmix_proc_t me, all;
  SHOAL_CHECK(getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK"), SHOAL_ERR_UNSUPPORTED, "not started by PMIx");
  pmix_status_t rc = PMIx_Init(&me, NULL, 0);
  SHOAL_CHECK(rc == PMIX_SUCCESS, SHOAL_ERR_COMM, "PMIx_Init: %s", PMIx_Error_string(rc));
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  rc = collecting_fence(&all);
  PMIx_Finalize(NULL, 0);
  SHOAL_CHECK(rc == PMIX_SUCCESS, SHOAL_ERR_COMM, "PMIx_Fence: %s", PMIx_Error_string(rc));
  return SHOAL_OK;
}

shoal_status shoal_pmix_settle(int mpi_size, shoal_claims *c)
{
  pmix_proc_t me, all;
  if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK")) return SHOAL_OK;
  pmix_status_t rc = PMIx_Init(&me, NULL, 0);
  if (rc != PMIX_SUCCESS) {
    shoal_debug("no PMIx fence after MPI_Init: %s", PMIx_Error_string(rc));
    return SHOAL_OK;
  }
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  ask(&me, &all, c);
  shoal_status st = compare_size(c, mpi_size);
  if (st == SHOAL_OK) {
    rc = collecting_fence(&all);
    if (rc != PMIX_SUCCESS) shoal_debug("the PMIx fence after MPI_Init failed: %s", PMIx_Error_string(rc));
  }
  PMIx_Finalize(NULL, 0);
  return st;
}
#else
shoal_status shoal_world_fence(void)
{
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "built without PMIx");
}

shoal_status shoal_pmix_settle(int mpi_size, shoal_claims *c)
{
  if (getenv("PMIX_NAMESPACE") && getenv("SLURM_STEP_ID"))
    shoal_debug("built without PMIx: no fence after MPI_Init, %d ranks", mpi_size);
  return SHOAL_OK;
}
#endif
