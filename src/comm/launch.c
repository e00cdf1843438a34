/* What the launcher claims, and whether MPI agrees.
 *
 * The costliest start is the one that looks fine: `srun` without a PMIx plugin starts four tasks, MPI finds no server,
 * and each becomes a world of one that trains the whole model alone and overwrites its neighbours' files.  The
 * environment tells beforehand.  Three facts are read from it, before MPI starts:
 *
 *   a launcher that MPI can talk to     PMIX_RANK, OMPI_COMM_WORLD_SIZE, PMI_RANK, ...     none: MPI is not started
 *   the ranks it claims                 OMPI_COMM_WORLD_SIZE, PMI_SIZE                     MPI must see as many
 *   the Slurm step around us            SLURM_STEP_NUM_TASKS, SLURM_PROCID                 more than one, and alone:
 * wrong
 *
 * A batch script that runs the program directly is not in a step and counts as a plain start.  Under mpirun the step
 * may be that of its daemons, one task per node, so there only the flagrant case (MPI sees one rank) is refused. */
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>
#include <string.h>

static int number(const char *name)
{
  const char *text = getenv(name);
  int64_t v;
  if (!text || shoal_parse_i64(text, &v) != SHOAL_OK || v < 0 || v > INT32_MAX) return -1;
  return (int)v;
}

static int first_number(const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    int v = number(names[i]);
    if (v > 0) return v;
  }
  return 0;
}

/* SLURM_STEP_TASKS_PER_NODE reads "4(x2),3": the largest number outside parentheses. */
static int tasks_per_node(const char *text)
{
  int largest = 0;
  while (text && *text) {
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text) break;
    if (v > largest && v < INT32_MAX) largest = (int)v;
    text = strchr(end, ',');
    if (text) text++;
  }
  return largest;
}

/* Some sites and older versions set only the variables of the job; a process number above zero proves a step too. */
static int step_tasks(void)
{
  static const char *const claims[] = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS" };
  int proc = number("SLURM_PROCID");
  int tasks = number(claims[0]);
  bool in_step = tasks > 0 || getenv("SLURM_STEP_ID") || getenv("SLURM_STEPID") || proc > 0;
  if (!in_step) return 0;
  if (tasks <= 0) tasks = first_number(claims, SHOAL_COUNT(claims));
  return SHOAL_MAX(tasks, proc + 1);
}

void shoal_launch_read(shoal_launch *out)
{
  static const struct {
    const char *name;
    bool mpirun;
  } launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", true }, { "MV2_COMM_WORLD_SIZE", true }, { "PMIX_RANK", false },
    { "PMIX_NAMESPACE", false },      { "PMI_RANK", false },           { "PMI_FD", false },
  };
  static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE" };
  static const char *const local_sizes[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE",
                                             "MPI_LOCALNRANKS" };
  *out = (shoal_launch){ .step_tasks = step_tasks() };
  for (size_t i = 0; i < SHOAL_COUNT(launchers) && !out->launcher; i++)
    if (getenv(launchers[i].name)) {
      out->launcher = launchers[i].name;
      out->mpirun = launchers[i].mpirun;
    }
  out->size = first_number(sizes, SHOAL_COUNT(sizes));
  out->local_size = first_number(local_sizes, SHOAL_COUNT(local_sizes));
  if (!out->local_size) out->local_size = tasks_per_node(getenv("SLURM_STEP_TASKS_PER_NODE"));
}

/* Open MPI 5 speaks PMIx only, and 4 does too unless it was built for Slurm's older PMI: then MPI_Init ends the process
 * itself, with exit code 1 and a page of text.  Whoever has such a build names the component, which is taken as a word. */
shoal_status shoal_launch_refuse(const shoal_launch *l)
{
  bool old_pmi = l->launcher && strncmp(l->launcher, "PMI_", 4) == 0;
  if (!old_pmi || getenv("OMPI_MCA_pmix") || strncmp(shoal_world_library(), "Open MPI", 8) != 0) return SHOAL_OK;
  return SHOAL_FAIL(SHOAL_ERR_WORLD,
                    "Slurm offers PMI-1 or PMI-2 (%s is set), but %s needs PMIx: start it with `srun --mpi=pmix` "
                    "(`srun --mpi=list` shows what this site has); if this MPI was built for the older PMI, set "
                    "OMPI_MCA_pmix=s2 (or s1)",
                    l->launcher, shoal_world_library());
}

shoal_status shoal_launch_check(const shoal_launch *l, int mpi_size, bool allow_singletons)
{
  if (allow_singletons && mpi_size == 1) return SHOAL_OK;
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
      "mpirun that belongs to %s, or `srun --mpi=pmix`",
      l->size, l->launcher ? l->launcher : "PMI_SIZE", mpi_size, shoal_world_library());
  return SHOAL_OK;
}
