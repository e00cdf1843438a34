/* What `shoal launch` and `shoal scale` start, for environments as Slurm and Open MPI make them: rules of docs/topology.md. */
#include "base/mem.h"
#include "check.h"
#include "slurm/launcher.h"
#include <stdlib.h>
#include <unistd.h>

static const shoal_launcher_site vm = { .host = "vm", .cores = 2, .mpirun = "mpirun (Open MPI) 4.1.4" },
                                 vm5 = { .host = "vm", .cores = 2, .mpirun = "mpirun (Open MPI) 5.0.7" },
                                 root = { .host = "vm", .cores = 2, .root = true, .mpirun = "mpirun (Open MPI) 4.1.4" },
                                 root5 = { .host = "vm",
                                           .cores = 2,
                                           .root = true,
                                           .mpirun = "mpirun (Open MPI) 5.0.7" },
                                 bare = { .host = "vm", .cores = 2 },
                                 mpich = { .host = "vm", .cores = 2, .mpirun = "HYDRA build details:" },
                                 cluster = { .host = "n1", .cores = 4, .srun = true };

static bool judges; /* of the wish */

static shoal_status plan(const char *variables, int ranks, int nodes, int cores, const shoal_launcher_site *site,
                         shoal_launcher *out)
{
  shoal_env *e = NULL;
  char path[] = "/tmp/shoal-launcher-XXXXXX";
  int fd = mkstemp(path);
  char *text = shoal_strdup_printf("A=1\n%s", variables);
  REQUIRE(fd >= 0, "a file");
  REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
  close(fd);
  free(text);
  REQUIRE(shoal_env_read(path, &e) == SHOAL_OK, "variables");
  unlink(path);
  shoal_status st = shoal_launcher_plan(e, &(shoal_launcher_wish){ ranks, nodes, cores, judges }, site, out);
  shoal_env_destroy(e);
  return st;
}

/* The command of a plan, and a part of the line that tells. */
static void starts(const char *variables, int ranks, int nodes, int cores, const shoal_launcher_site *site,
                   const char *want, const char *told)
{
  shoal_launcher l = { .ranks = 0 };
  shoal_texts program = { 0 };
  shoal_str got = { 0 };
  CHECK_OK(plan(variables, ranks, nodes, cores, site, &l), "%s", variables);
  CHECK_OK(shoal_texts_add(&program, "shoal"));
  shoal_launcher_print(&l, &program, &got);
  CHECK_STR(got.text, want, "%s -n %d -N %d -c %d", variables, ranks, nodes, cores);
  CHECK_HAS(l.told.text, told, "%s", variables);
  CHECK(!strchr(l.told.text, '\n'), "one line");
  shoal_launcher_free(&l);
  shoal_texts_free(&program);
  shoal_str_free(&got);
}

static void refused(const char *variables, int ranks, int nodes, int cores, const shoal_launcher_site *site,
                    shoal_status code, const char *words, const char *cure)
{
  shoal_launcher l = { .ranks = 77 };
  CHECK_STATUS(plan(variables, ranks, nodes, cores, site, &l), code, "%s -n %d -N %d -c %d", variables, ranks, nodes,
               cores);
  CHECK_HAS(check_error(), words, "%s", variables);
  CHECK_HAS(check_error(), cure, "%s", variables);
  CHECK_EQ(l.ranks, 77, "written only on success");
}

#define MPIRUN4_ANYWHERE " --oversubscribe --bind-to none --quiet --mca mpi_yield_when_idle 1"
#define MPIRUN4          MPIRUN4_ANYWHERE " --mca plm isolated shoal"
#define MPIRUN5          " --map-by :OVERSUBSCRIBE --bind-to none --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo shoal"

static void here(void)
{
  starts("", 0, 0, 0, &vm, "shoal", "1 rank on this machine (vm: 2 cores), a plain process; -n starts more");
  starts("", 1, 1, 0, &bare, "shoal", "a plain process");
  starts("", 4, 0, 0, &vm, "mpirun -n 4" MPIRUN4,
         "4 ranks on this machine (vm: 2 cores) by mpirun (Open MPI) 4.1.4, more ranks than cores, not bound to cores");
  starts("", 2, 1, 0, &vm5, "mpirun -n 2" MPIRUN5, "mpirun (Open MPI) 5.0.7, not bound to cores");
  starts("", 2, 0, 0, &root, "mpirun --allow-run-as-root -n 2" MPIRUN4, ", as root, not bound");
  starts("", 2, 0, 0, &root5, "mpirun --allow-run-as-root -n 2" MPIRUN5, ", as root, not bound");
  starts("", 2, 0, 1, &vm,
         "mpirun -n 2 --map-by slot:PE=1 --bind-to core --quiet --mca mpi_yield_when_idle 1 --mca plm isolated shoal",
         "each bound to 1 core");
  starts("", 2, 0, 1, &vm5,
         "mpirun -n 2 --map-by slot:PE=1 --bind-to core --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo shoal",
         "each bound to 1 core");
  shoal_launcher_site slurm_is_here = vm;
  slurm_is_here.srun = true;
  starts("", 2, 0, 0, &slurm_is_here, "mpirun -n 2" MPIRUN4, "(vm: 2 cores, no Slurm job)");
}

/* What the user has set in the environment stays so; each version has its own names. */
static void settings(void)
{
  starts("OMPI_MCA_hwloc_base_binding_policy=core\nOMPI_MCA_mpi_yield_when_idle=0\nPRTE_MCA_rmaps_default_mapping_"
         "policy=x\n",
         2, 0, 0, &vm, "mpirun -n 2 --oversubscribe --quiet --mca plm isolated shoal", "2 ranks");
  starts("OMPI_MCA_hwloc_base_binding_policy=core\nPRTE_MCA_rmaps_default_mapping_policy=:oversubscribe\n", 2, 0, 0,
         &vm5, "mpirun -n 2 --bind-to none --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo shoal", "2 ranks");
  starts("OMPI_MCA_rmaps_base_oversubscribe=1\nOMPI_MCA_orte_execute_quiet=0\nOMPI_MCA_plm=rsh\n", 2, 0, 0, &vm,
         "mpirun -n 2 --bind-to none --mca mpi_yield_when_idle 1 shoal", "2 ranks");
}

static void not_here(void)
{
  refused("", 8, 4, 0, &vm, SHOAL_ERR_USAGE, "-N 4: this is no Slurm job, so there is 1 node, this machine (vm)",
          "salloc -N 4");
  refused("", 2, 0, 0, &bare, SHOAL_ERR_WORLD, "2 ranks need mpirun, which is not on the PATH", "install Open MPI");
  refused("", 2, 0, 0, &mpich, SHOAL_ERR_WORLD, "not Open MPI's, it says \"HYDRA build details:\"", "load the module");
  refused("", 2, 0, 2, &vm, SHOAL_ERR_USAGE, "need 4 cores, and this machine (vm) has 2", "leave out -c");
  refused("", 0, 0, 2, &vm, SHOAL_ERR_USAGE, "-c 2: one rank without Slurm is a plain process", "threads");
  refused("OMPI_COMM_WORLD_SIZE=4\n", 2, 0, 0, &vm, SHOAL_ERR_WORLD, "OMPI_COMM_WORLD_SIZE=4", "without one");
  refused("RANK=1\nLOCAL_RANK=1\nWORLD_SIZE=4\n", 2, 0, 0, &vm, SHOAL_ERR_WORLD, "4 processes (WORLD_SIZE)",
          "`shoal launch -n 4` without it");
  refused("PMI_SIZE=4\n", 0, 0, 0, &vm, SHOAL_ERR_WORLD, "PMI_SIZE=4", "shoal train");
}

/* Nodes of another batch system are mpirun's to take: never one rank on the first of them because nobody said more. */
static void other_systems(void)
{
  starts("PBS_NODEFILE=/var/nodes\n", 8, 0, 0, &vm, "mpirun -n 8" MPIRUN4_ANYWHERE " shoal",
         "8 ranks on the nodes of this PBS job");
  starts("PE_HOSTFILE=/var/nodes\n", 1, 0, 0, &vm, "mpirun -n 1" MPIRUN4_ANYWHERE " shoal",
         "1 rank on the nodes of this Grid Engine job");
  refused("PBS_NODEFILE=/var/nodes\n", 0, 0, 0, &vm, SHOAL_ERR_USAGE, "this is a job of PBS", "-n");
  refused("LSB_MCPU_HOSTS=n1 4 n2 4\nLSB_DJOB_NUMPROC=8\n", 0, 0, 0, &vm, SHOAL_ERR_USAGE, "job of LSF",
          "ranks, -n 8, ");
  FILE *f = fopen("nodes", "w"); /* a line for each slot */
  fputs("n1\nn1\nn2\n", f);
  fclose(f);
  refused("PBS_NODEFILE=nodes\n", 0, 0, 0, &vm, SHOAL_ERR_USAGE, "job of PBS", "ranks, -n 3, ");
  remove("nodes");
  refused("LSB_DJOB_HOSTFILE=/var/nodes\n", 8, 2, 0, &vm, SHOAL_ERR_USAGE, "this is a job of LSF", "no -N");
}

#define JOB4 "SLURM_JOB_ID=77\nSLURM_JOB_NUM_NODES=4\nSLURM_NNODES=4\nSLURM_JOB_NODELIST=n[1-4]\n"
#define BATCH42                                                                                                        \
  JOB4 "SLURM_NTASKS=8\nSLURM_NTASKS_PER_NODE=2\nSLURM_TASKS_PER_NODE=2(x4)\nSLURM_JOB_CPUS_PER_NODE=2(x4)\nSLURM_"    \
       "PROCID=0\n"
#define SRUN  "srun --mpi=pmix "
#define BOUND " --cpu-bind=cores --kill-on-bad-exit=1"

static void equal_nodes(void)
{
  starts(BATCH42, 0, 0, 0, &cluster, SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "8 ranks on 4 nodes of Slurm job 77 by srun, 1 CPU each");
  starts(BATCH42, 0, 2, 0, &cluster, SRUN "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "4 ranks on 2 nodes");
  /* fewer ranks fill nodes where tasks per node were asked for, and spread where only tasks were */
  starts(BATCH42, 4, 0, 0, &cluster, SRUN "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "4 ranks on 2 nodes");
  starts(BATCH42, 3, 0, 0, &cluster, SRUN "--nodes=2 --ntasks=3 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "3 ranks on 2 nodes");
  starts(BATCH42, 4, 4, 0, &cluster, SRUN "--nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=2" BOUND " shoal",
         "2 CPUs each");
  starts(BATCH42, 7, 0, 0, &cluster, SRUN "--nodes=4 --ntasks=7 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "1 CPU of the job left idle");
  starts(JOB4 "SLURM_NTASKS=8\nSLURM_JOB_CPUS_PER_NODE=2(x4)\n", 3, 0, 0, &cluster,
         SRUN "--nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=2" BOUND " shoal", "3 ranks on 3 nodes");
  starts("SLURM_JOB_ID=5\nSLURM_NTASKS_PER_NODE=2\nSLURM_CPUS_PER_TASK=3(x2),2\n", 3, 0, 0, &cluster,
         SRUN "--nodes=2 --ntasks=3 --cpus-per-task=2" BOUND " shoal", "3 ranks on 2 nodes");
  starts(BATCH42 "SLURM_EXPORT_ENV=NONE\n", 4, 2, 0, &cluster, /* of sbatch --export=NONE */
         SRUN "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1" BOUND " --export=ALL shoal",
         "4 ranks on 2 nodes");
  starts(BATCH42 "SLURM_EXPORT_ENV=ALL,A=1\n", 4, 2, 0, &cluster,
         SRUN "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal", "4 ranks on 2 nodes");
  starts(BATCH42, 4, 2, 0, &cluster, SRUN "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal",
         "4 ranks on 2 nodes");
  /* what the job asked for a task; and a variable that would contradict it */
  starts(JOB4 "SLURM_NTASKS=8\nSLURM_CPUS_PER_TASK=4\nSLURM_JOB_CPUS_PER_NODE=8(x4)\nSRUN_CPUS_PER_TASK=9\n", 0, 0, 0,
         &cluster,
         "env -u SRUN_CPUS_PER_TASK " SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=4" BOUND " shoal",
         "4 CPUs each");
  starts(JOB4 "SLURM_NTASKS=8\nSLURM_CPUS_PER_TASK=4\nSLURM_JOB_CPUS_PER_NODE=8(x4)\n", 0, 0, 2, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=2" BOUND " shoal",
         "16 CPUs of the job left idle");
  judges = true; /* a rank's code is a verdict, and no reason to end the others */
  starts(BATCH42, 0, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=1 --cpu-bind=cores --kill-on-bad-exit=0 shoal",
         "8 ranks");
  judges = false;
  /* how to bind: a person's choice stays, that of the step which submitted this job does not */
  starts(BATCH42 "SLURM_CPU_BIND=none\n", 0, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 shoal", "8 ranks");
  starts(BATCH42 "SLURM_CPU_BIND=quiet,mask_cpu:0x1\nSLURM_CPU_BIND_TYPE=mask_cpu:\nSLURM_CPU_BIND_LIST=0x1\n", 0, 0, 0,
         &cluster, SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal", "8 ranks");
  /* whole nodes: nobody said tasks, and their cores are shared out */
  starts(JOB4 "SLURM_JOB_CPUS_PER_NODE=64(x4)\nSLURM_TASKS_PER_NODE=64(x4)\n", 0, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=64" BOUND " shoal", "4 ranks on 4 nodes");
  starts(JOB4 "SLURM_JOB_CPUS_PER_NODE=64(x4)\n", 8, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=32" BOUND " shoal", "32 CPUs each");
  starts("SLURM_JOB_ID=5\nSLURM_JOB_NUM_NODES=1\nSLURM_NTASKS=1\nSLURM_JOB_CPUS_PER_NODE=1\n", 0, 0, 0, &cluster,
         SRUN "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1" BOUND " shoal",
         "1 rank on 1 node of Slurm job 5");
  starts("SLURM_JOB_ID=5\nSLURM_CPUS_PER_TASK=3\n", 2, 0, 0, &cluster,
         SRUN "--ntasks=2 --cpus-per-task=3" BOUND " shoal", "2 ranks of Slurm");
}

/* Nodes with other numbers of CPUs: ranks get equal cores, what the fullest node can give. */
static void unequal_nodes(void)
{
  starts(JOB4 "SLURM_NTASKS=7\nSLURM_TASKS_PER_NODE=4,1(x3)\nSLURM_JOB_CPUS_PER_NODE=4,1(x3)\n", 0, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=7 --cpus-per-task=1" BOUND " shoal", "7 ranks on 4 nodes");
  starts(JOB4 "SLURM_JOB_CPUS_PER_NODE=8(x2),16,32\n", 8, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=4" BOUND " shoal",
         "32 CPUs of the job left idle");
  starts(JOB4
         "SLURM_NTASKS=4\nSLURM_TASKS_PER_NODE=1,3\nSLURM_JOB_NUM_NODES=2\nSLURM_NNODES=2\nSLURM_JOB_NODELIST=n[1-2]\n"
         "SLURM_JOB_CPUS_PER_NODE=3,6\n",
         0, 0, 0, &cluster, SRUN "--nodes=2 --ntasks=4 --cpus-per-task=2" BOUND " shoal", "4 ranks on 2 nodes");
  /* too few on one node for an even share: srun goes by CPUs */
  starts(JOB4 "SLURM_JOB_CPUS_PER_NODE=1,8(x3)\n", 8, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --cpus-per-task=1" BOUND " shoal", "8 ranks");
  refused(JOB4 "SLURM_NTASKS=7\nSLURM_TASKS_PER_NODE=4,1(x3)\nSLURM_JOB_CPUS_PER_NODE=4,1(x3)\n", 0, 2, 0, &cluster,
          SHOAL_ERR_USAGE, "the 7 tasks of job 77 are not the same number on each of its 4 nodes", "-n");
}

static void less_than_asked(void)
{
  refused(BATCH42, 0, 8, 0, &cluster, SHOAL_ERR_USAGE, "-N 8: job 77 has 4 nodes", "salloc -N 8");
  refused(BATCH42, 9, 0, 0, &cluster, SHOAL_ERR_USAGE, "9 ranks: the 4 nodes of job 77 have 8 CPUs; give -n 8 or fewer",
          "salloc -n 9");
  refused(BATCH42, 5, 2, 0, &cluster, SHOAL_ERR_USAGE, "5 ranks: the 2 nodes of job 77 have 4 CPUs", "-n 4 or fewer");
  refused(BATCH42, 3, 4, 0, &cluster, SHOAL_ERR_USAGE, "-N 4: each node needs a rank, and there are 3",
          "-N 3 or fewer");
  refused(BATCH42, 0, 0, 2, &cluster, SHOAL_ERR_USAGE, "each can have 1 CPU", "give -c 1 or fewer");
}

static void steps(void)
{
#define INTERACTIVE                                                                                                    \
  JOB4 "SLURM_NTASKS=8\nSLURM_JOB_CPUS_PER_NODE=2(x4)\nSLURM_STEP_NODELIST=n1\nSLURM_STEP_NUM_TASKS=1\n"
  starts(INTERACTIVE "SLURM_STEP_ID=4294967290\n", 0, 0, 0, &cluster,
         SRUN "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=1" BOUND " shoal", "8 ranks on 4 nodes");
  /* `srun --pty bash`: its CPUs are taken, so a step that does not overlap would wait for ever */
  starts("SLURM_JOB_ID=77\nSLURM_JOB_NUM_NODES=1\nSLURM_NTASKS=1\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=1\nPMI_SIZE=1\n"
         "SLURM_JOB_CPUS_PER_NODE=4\n",
         2, 0, 0, &cluster, SRUN "--nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=2" BOUND " --overlap shoal",
         "2 ranks on 1 node");
  refused(JOB4 "SLURM_NTASKS=1\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=1\n", 0, 0, 0, &cluster, SHOAL_ERR_USAGE,
          "does not know the tasks of the job's 4 nodes", "-n");
  refused(BATCH42 "SLURM_STEP_ID=3\nSLURM_STEP_NUM_TASKS=8\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD,
          "one of the 8 tasks of a step of job 77", "once, from the batch script");
  refused(BATCH42 "OMPI_COMM_WORLD_SIZE=4\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD, "OMPI_COMM_WORLD_SIZE=4",
          "without one");
  refused(BATCH42 "SLURM_HET_SIZE=2\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD, "job 77 is heterogeneous, of 2 parts",
          "--het-group=0-1");
  refused("SLURM_JOB_ID=77\nSLURM_NTASKS=x\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD, "SLURM_NTASKS is \"x\"", "unset it");
  refused(BATCH42 "SLURM_JOB_NUM_NODES=3\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD, "names 4 nodes", "unset those");
  refused(BATCH42 "SLURM_CPUS_PER_TASK=x\n", 0, 0, 0, &cluster, SHOAL_ERR_WORLD, "SLURM_CPUS_PER_TASK is \"x\"",
          "unset it");
  refused(BATCH42, 0, 0, 0, &bare, SHOAL_ERR_WORLD, "this is Slurm job 77, and srun is not on the PATH", "bin folder");
}

int main(void)
{
  here();
  settings();
  not_here();
  other_systems();
  equal_nodes();
  unequal_nodes();
  less_than_asked();
  steps();
  return check_done();
}
