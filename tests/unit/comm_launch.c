/* Starts without a launcher, in the environments that launchers leave behind.  Each runs in a child process, because a
 * process can open its first world only once; the child exits with the exit code for the status of shoal_world_open. */
#include "base/mem.h"
#include "check.h"
#include "comm/group.h"
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const launch_variables[] = {
  "OMPI_COMM_WORLD_SIZE",
  "OMPI_COMM_WORLD_LOCAL_SIZE",
  "PMIX_RANK",
  "PMIX_NAMESPACE",
  "PMI_RANK",
  "RANK",
  "LOCAL_RANK",
  "WORLD_SIZE",
  "PMI_SIZE",
  "PMI_FD",
  "SLURM_STEP_NUM_TASKS",
  "SLURM_PROCID",
  "SLURM_STEP_ID",
  "SLURM_NTASKS",
  "SLURM_NPROCS",
  "SLURM_STEPID",
  "SLURM_LOCALID",
  "SLURM_JOB_ID",
  "SLURM_NNODES",
  "MV2_COMM_WORLD_SIZE",
  "SLURM_STEP_NODELIST",
  "SLURM_JOB_NODELIST",
  "SLURM_NODELIST",
  "SLURM_STEP_NUM_NODES",
  "SLURM_JOB_NUM_NODES",
  "SLURM_STEP_TASKS_PER_NODE",
  "SLURM_TASKS_PER_NODE",
  "SLURM_NODEID",
  "SLURMD_NODENAME",
};

/* `setting` is "A=1 B=2"; the child's errors go to a pipe.  Returns its exit code. */
static int start(const char *setting, bool allow_singletons, char *said, size_t cap)
{
  int ends[2], status;
  char copy[512];
  snprintf(copy, sizeof copy, "%s", setting);
  REQUIRE(pipe(ends) == 0, "pipe");
  fflush(NULL);
  pid_t pid = fork();
  REQUIRE(pid >= 0, "fork");
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    for (size_t i = 0; i < SHOAL_COUNT(launch_variables); i++) unsetenv(launch_variables[i]);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) putenv(word);
    execl("/proc/self/exe", "child", allow_singletons ? "singletons" : "plain", (char *)NULL);
    _exit(99);
  }
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; n + 1 < cap && (got = read(ends[0], said + n, cap - 1 - n)) > 0;) n += (size_t)got;
  said[n] = '\0';
  close(ends[0]);
  REQUIRE(waitpid(pid, &status, 0) == pid, "child of %s", setting);
  REQUIRE(WIFEXITED(status), "child of %s", setting);
  return WEXITSTATUS(status);
}

static int child(bool allow_singletons)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .allow_singletons = allow_singletons };
  int initialised = 0;
  shoal_status st = shoal_world_open(&o, &w);
  MPI_Initialized(&initialised);
  if (initialised) return 98; /* alone, MPI is left alone */
  if (st == SHOAL_OK && shoal_world_size(w) != 1) return 97;
  shoal_world_close(w);
  shoal_error_report(st);
  if (st != SHOAL_OK) fprintf(stderr, "%s\n", shoal_error_text(st));
  return shoal_status_exit_code(st);
}

/* Slurm's PMI-1 and PMI-2 are refused by an Open MPI.  Before version 5 it may have been built for them, and the
 * message names a workaround; from 5 on it cannot have been. */
static void test_old_pmi(void)
{
  char said[4096];
  int version = 0;
  if (sscanf(shoal_world_library(), "Open MPI %d", &version) != 1) return;
  int code = start("PMI_RANK=0", false, said, sizeof said);
  CHECK_EQ(code, 3);
  CHECK_HAS(said, "a launcher of another MPI has started this");
  code = start("PMI_RANK=0 SLURM_JOB_ID=7", false, said, sizeof said);
  CHECK_EQ(code, 3);
  CHECK_HAS(said, "PMI_RANK is set");
  CHECK_EQ(!strstr(said, "OMPI_MCA_pmix"), version >= 5);
  if (version < 5) return;
  code = start("PMI_RANK=0 SLURM_JOB_ID=7 OMPI_MCA_pmix=s2", false, said, sizeof said);
  CHECK_EQ(code, 3);
  CHECK_HAS(said, "PMI_RANK is set");
}

int main(int argc, char **argv)
{
  static const struct {
    const char *setting;
    int exit_code;
    const char *words;
  } cases[] = {
    { "A=1", 0, "" },                                                   /* a laptop */
    { "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0", 0, "" },          /* directly in a batch script */
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", 0, "" }, /* srun -n 1 */
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0", 3, "4 tasks" },
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1", 3, "4 tasks" },
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2", 3, "4 tasks" },
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", 3, "4 tasks" },
    { "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0", 3, "4 tasks" },
    { "SLURM_NTASKS=4 SLURM_PROCID=3", 3, "4 tasks" },
    { "SLURM_STEP_ID=1 SLURM_NPROCS=4 SLURM_PROCID=0", 3, "4 tasks" },
    { "SLURM_PROCID=2", 3, "3 tasks" },
    { "RANK=0 LOCAL_RANK=0 WORLD_SIZE=4", 3, "torchrun or the like has started 4 processes" },
    { "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1", 0, "" },
    { "WORLD_SIZE=4", 0, "" }, /* for a program that is yet to be started */
    /* Directly in the batch script of a job of four nodes; and in a step of one task, where everything must fit. */
    { "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_JOB_NODELIST=n[1-4] SLURM_JOB_NUM_NODES=4 "
      "SLURM_TASKS_PER_NODE=1(x4) SLURMD_NODENAME=n1",
      0, "" },
    { "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=1 "
      "SLURM_STEP_NODELIST=n1 SLURM_STEP_TASKS_PER_NODE=1 SLURMD_NODENAME=n1",
      0, "" },
    { "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_NODELIST=elsewhere[1-2]", 3,
      "SLURM_STEP_NODELIST is elsewhere[1-2]" },
    { "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=n[1-2] SLURMD_NODENAME=n2", 3,
      "SLURM_STEP_NODELIST=n[1-2] names 2 nodes" },
    { "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NUM_NODES=2", 3, "SLURM_STEP_NUM_NODES says 2" },
    { "SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=1", 3, "SLURM_LOCALID says 1" },
  };
  char said[4096];
  if (argc == 2 && !strcmp(argv[0], "child")) return child(!strcmp(argv[1], "singletons"));
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    int code = start(cases[i].setting, false, said, sizeof said);
    CHECK_EQ(code, cases[i].exit_code, "%s, said: %s", cases[i].setting, said);
    CHECK_HAS(said, cases[i].words, "%s", cases[i].setting);
    CHECK(!code || strstr(said, "srun --mpi=pmix") || strstr(said, "shoal launch -n 4"), "%s: %s", cases[i].setting,
          said);
    bool first = !strstr(cases[i].setting, "SLURM_PROCID=") || strstr(cases[i].setting, "SLURM_PROCID=0");
    CHECK(!code || first == !strncmp(said, "shoal: error: ", 14), "%s: the first process speaks: %s", cases[i].setting,
          said);
    CHECK(code || !said[0], "%s: nothing to say, but: %s", cases[i].setting, said);
    code = start(cases[i].setting, true, said, sizeof said);
    CHECK(!code, "%s, singletons allowed: exit %d, said: %s", cases[i].setting, code, said);
  }
  test_old_pmi();
  return check_done();
}
