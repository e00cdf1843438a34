/* See launcher.h.  Open MPI 5 hands processes to PRRTE, which has names of its own for the same settings; each version
 * ignores those of the other. */
#include "slurm/launcher.h"
#include "base/env.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "slurm/step.h"
#include "topo/topo.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool in_path(const char *program)
{
  const char *path = getenv("PATH");
  for (const char *dir = path ? path : "/usr/bin:/bin"; *dir;) {
    size_t n = strcspn(dir, ":");
    char *file = shoal_strdup_printf("%.*s/%s", (int)n, dir, program);
    bool found = access(file, X_OK) == 0;
    free(file);
    if (found) return true;
    dir += n + (dir[n] == ':');
  }
  return false;
}

bool shoal_in_allocation(void)
{
  return shoal_env_int(NULL, "SLURM_JOB_ID", 0) >= 0;
}

/* A task of srun has the number of its own step in SLURM_NTASKS; the interactive step's shell has the job's. */
int shoal_allocation_tasks(void)
{
  shoal_step s;
  if (!shoal_in_allocation()) return 0;
  int tasks = shoal_env_int(NULL, "SLURM_NTASKS", 1);
  if (tasks < 0 && shoal_step_read(NULL, &s) == SHOAL_OK) { /* tasks per node were asked for */
    tasks = s.inside ? 0 : s.tasks;
    shoal_step_free(&s);
  }
  return SHOAL_MAX(tasks, 0);
}

static shoal_status add_srun(int ranks, shoal_texts *words)
{
  shoal_facts cores = { .pid = 0 }; /* which Slurm may count by node */
  SHOAL_TRY(shoal_topo_read_cores(NULL, &cores));
  int each = shoal_env_int(NULL, "SLURM_NTASKS_PER_NODE", 1);
  SHOAL_CHECK(in_path("srun"), SHOAL_ERR_WORLD,
              "this is Slurm job %s, and srun is not on the PATH: add Slurm's bin folder to it",
              getenv("SLURM_JOB_ID"));
  SHOAL_TRY(shoal_texts_add(words, "srun"));
  SHOAL_TRY(shoal_texts_add(words, "--mpi=pmix"));
  SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("--ntasks=%d", ranks)));
  if (each > 0) SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("--nodes=%d", (ranks + each - 1) / each)));
  if (cores.claimed_cores > 0)
    SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("--cpus-per-task=%d", cores.claimed_cores)));
  return shoal_texts_add(words, "--kill-on-bad-exit=1");
}

static shoal_status add_mpirun(int ranks, shoal_texts *words)
{
  static const char *const options[] = { "--oversubscribe", "--bind-to", "none" };
  SHOAL_CHECK(in_path("mpirun"), SHOAL_ERR_WORLD,
              "%d ranks need mpirun, which is not on the PATH: install Open MPI (openmpi-bin), or load its module",
              ranks);
  SHOAL_TRY(shoal_texts_add(words, "mpirun"));
  SHOAL_TRY(shoal_texts_add(words, "-n"));
  SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("%d", ranks)));
  for (size_t i = 0; i < SHOAL_COUNT(options); i++) SHOAL_TRY(shoal_texts_add(words, options[i]));
  return SHOAL_OK;
}

shoal_status shoal_launcher_words(int ranks, shoal_texts *words)
{
  if (shoal_in_allocation()) return add_srun(ranks, words);
  return ranks > 1 ? add_mpirun(ranks, words) : SHOAL_OK;
}

void shoal_launcher_environment(void)
{
  static const char *const root[] = { "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                      "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM" };
  for (size_t i = 0; geteuid() == 0 && i < SHOAL_COUNT(root); i++) setenv(root[i], "1", 0);
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* ranks that wait leave the core to those that compute */
  setenv("OMP_WAIT_POLICY", "passive", 0);
}
