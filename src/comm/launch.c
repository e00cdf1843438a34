/* What the launcher's environment says, and whether MPI agrees.
 *
 * The worst failed start is one that looks fine: `srun` without a PMIx plugin starts four tasks, MPI finds no server,
 * and each task becomes a world of one that trains the whole model alone and overwrites the others' files.  The
 * environment shows this beforehand (slurm/claims.h reads it).  Three facts are checked before MPI starts:
 *
 *   a launcher that MPI can talk to     PMIX_RANK, OMPI_COMM_WORLD_SIZE, PMI_RANK, ...     none: MPI is not started
 *   the ranks it claims                 OMPI_COMM_WORLD_SIZE, PMI_SIZE                     MPI must see as many
 *   the Slurm step around us            SLURM_STEP_NUM_TASKS, SLURM_PROCID                 many tasks, one rank: wrong
 *
 * A program run directly in a batch script is not in a step and counts as a start without a launcher.  Under mpirun the
 * step may be that of its daemons, one task per node, so only the clear case (MPI sees one rank) is refused.
 * Everything else is compared once all ranks can communicate (world.c). */
#include "base/env.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shoal_launch_read(const shoal_claims *c, shoal_launch *out)
{
  static const struct {
    const char *name;
    bool mpirun;
  } launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", true }, { "MV2_COMM_WORLD_SIZE", true }, { "PMIX_RANK", false },
    { "PMIX_NAMESPACE", false },      { "PMI_RANK", false },           { "PMI_FD", false },
  };
  const int32_t *says = c->by[SHOAL_SOURCE_LAUNCHER].number;
  *out = (shoal_launch){ .step_tasks = c->step_tasks };
  for (size_t i = 0; i < SHOAL_COUNT(launchers) && !out->launcher; i++)
    if (getenv(launchers[i].name)) {
      out->launcher = launchers[i].name;
      out->mpirun = launchers[i].mpirun;
    }
  out->size = SHOAL_MAX(says[SHOAL_CLAIM_RANKS], 0);
  out->local_size = SHOAL_MAX(says[SHOAL_CLAIM_LOCAL_RANKS], 0);
  if (!out->local_size) out->local_size = SHOAL_MAX(c->by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_LOCAL_RANKS], 0);
}

bool shoal_world_launched(void)
{
  shoal_launch l;
  shoal_claims none;
  memset(&none, 0, sizeof none);
  shoal_launch_read(&none, &l);
  return l.launcher != NULL;
}

/* Open MPI 5 supports PMIx only, and so does 4 unless it was built for Slurm's older PMI.  Without support MPI_Init
 * ends the process with exit code 1 and a page of text.  A user whose build supports it sets OMPI_MCA_pmix, which we
 * trust. */
shoal_status shoal_launch_refuse(const shoal_launch *l)
{
  bool old_pmi = l->launcher && strncmp(l->launcher, "PMI_", 4) == 0;
  int version = 0;
  if (!old_pmi || sscanf(shoal_world_library(), "Open MPI %d", &version) != 1) return SHOAL_OK;
  bool may_speak_it = version < 5;
  if (may_speak_it && getenv("OMPI_MCA_pmix")) return SHOAL_OK;
  SHOAL_CHECK(
      shoal_env_int(NULL, "SLURM_JOB_ID", 0) >= 0, SHOAL_ERR_WORLD,
      "a launcher of another MPI has started this, as MPICH's or Intel's mpirun (%s is set), and %s needs its own: "
      "`shoal launch -n RANKS` starts them; or, if the variable is left over, unset ${!PMI_@}",
      l->launcher, shoal_world_library());
  return SHOAL_FAIL(
      SHOAL_ERR_WORLD,
      "Slurm offers PMI-1 or PMI-2 (%s is set), but %s needs PMIx: start it with `srun --mpi=pmix` "
      "(`srun --mpi=list` shows what this site has)%s; or, if the variable is left over from another launcher, "
      "unset ${!PMI_@}",
      l->launcher, shoal_world_library(),
      may_speak_it ? "; if this MPI was built for the older PMI, set OMPI_MCA_pmix=s2 (or s1)" : "");
}

/* What the names of the launcher's variables begin with. */
static const char *variables_of(const shoal_launch *l)
{
  if (!l->mpirun || !l->launcher) return "PMI_";
  return strncmp(l->launcher, "MV2", 3) == 0 ? "MV2_COMM_WORLD_" : "OMPI_COMM_WORLD_";
}

shoal_status shoal_launch_check(const shoal_launch *l, int mpi_size, bool allow_singletons)
{
  if (allow_singletons && mpi_size == 1) return SHOAL_OK;
  int apart = l->launcher ? 0 : shoal_torch_processes(NULL);
  SHOAL_CHECK(apart <= 1, SHOAL_ERR_WORLD,
              "torchrun or the like has started %d processes (WORLD_SIZE), which are no ranks of MPI, so each would "
              "train alone: "
              "`shoal launch -n %d` starts them; or, if the variables are left over, unset RANK LOCAL_RANK WORLD_SIZE; "
              "or set run.allow_singletons if one process is meant",
              apart, apart);
  int claimed = l->mpirun && mpi_size > 1 ? 0 : l->step_tasks;
  SHOAL_CHECK(
      mpi_size >= claimed, SHOAL_ERR_WORLD,
      "the Slurm step has %d tasks, but MPI sees %d rank%s, so they would train apart and overwrite each other's "
      "files: start it with `srun --mpi=pmix` (`srun --mpi=list` shows what this site has), or set "
      "run.allow_singletons if that is meant",
      claimed, mpi_size, mpi_size == 1 ? "" : "s");
  SHOAL_CHECK(
      !l->size || l->size == mpi_size, SHOAL_ERR_WORLD,
      "the launcher started %d ranks (%s), but MPI sees %d: launcher and library are of different MPIs; use the "
      "mpirun that belongs to %s, or `srun --mpi=pmix`; or the variable is left over from another launcher: "
      "unset ${!%s@}",
      l->size, l->launcher ? l->launcher : "PMI_SIZE", mpi_size, shoal_world_library(), variables_of(l));
  return SHOAL_OK;
}
