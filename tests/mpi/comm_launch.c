/* Under a launcher the world starts MPI itself, and refuses a Slurm step of two tasks around `mpirun -n 1`. */
#include "base/log.h"
#include "check.h"
#include "comm/group.h"
#include <mpi.h>

int main(void)
{
  shoal_world *w = NULL;
  shoal_world_options o = { 0 };
  const char *claim = getenv("OMPI_COMM_WORLD_SIZE");
  int running = 0, size = claim ? atoi(claim) : 1;
  if (!claim) CHECK_SKIP("needs Open MPI's mpirun");
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_NODEID", "1", 1);
  setenv("SLURM_STEP_NODELIST", "elsewhere[1-2]", 1);
  setenv("SLURM_STEP_NUM_NODES", "2", 1);
  setenv("SLURM_STEP_TASKS_PER_NODE", "1(x2)", 1);
  setenv("SLURMD_NODENAME", "elsewhere1", 1);
  if (size == 1) {
    shoal_status st = shoal_world_open(&o, &w);
    CHECK_STATUS(st, SHOAL_ERR_WORLD);
    CHECK_EQ(shoal_status_exit_code(st), 3);
    CHECK(!w, "%s", shoal_status_name(st));
    CHECK_HAS(check_error(), "2 tasks");
    CHECK_HAS(check_error(), "MPI sees 1");
    CHECK_HAS(check_error(), "srun --mpi=pmix");
    MPI_Finalized(&running);
    CHECK(running, "MPI was ended again");
    return check_done();
  }
  /* The daemons of mpirun are a step too: one task per node, however many ranks. */
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "%s", check_error());
  CHECK_EQ(shoal_world_size(w), size, "the world");
  CHECK_EQ(shoal_world_topo(w)->nodes, 1);
  CHECK_EQ(shoal_log_rank(), shoal_world_rank(w), "log knows the rank");
  const shoal_claims *c = shoal_world_claims(w);
  CHECK_EQ(c->by[SHOAL_SOURCE_LAUNCHER].number[SHOAL_CLAIM_RANKS], size,
           "mpirun's word counts, the daemons' step does not");
  CHECK_EQ(c->step_tasks, 2);
  CHECK_EQ(c->by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANKS], -1);
  CHECK_EQ(c->by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_RANK], shoal_world_rank(w), "PMIx: rank");
  CHECK(strncmp(shoal_world_library(), "Open MPI ", 9) == 0, "%s", shoal_world_library());
  CHECK_HAS(shoal_world_library(), "(compiled ");
  CHECK_OK(shoal_group_barrier(shoal_world_group(w)));
  shoal_world_close(w);
  MPI_Finalized(&running);
  CHECK(running, "MPI was ended");
  return check_done();
}
