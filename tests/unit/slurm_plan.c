/* Plans against placements that Slurm 22.05 itself made, written down from its tasks, and by hand. */
#include "check.h"
#include "slurm/plan.h"
#include <hwloc.h>
#include <stdlib.h>
#include <unistd.h>

static shoal_machine *machine; /* 2 memory nodes of 4 cores of 2 hardware threads */

static shoal_topo *plan(const char *text, const char *fault)
{
  shoal_env *e = NULL;
  shoal_step s;
  shoal_topo *t = NULL;
  char path[] = "/tmp/shoal-plan-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0, "a file");
  REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
  close(fd);
  REQUIRE(shoal_env_read(path, &e) == SHOAL_OK, "%s", text);
  REQUIRE(shoal_step_read(e, &s) == SHOAL_OK, "%s", text);
  unlink(path);
  shoal_status st = shoal_topo_plan((const shoal_machine *const[]){ machine }, 1, e, &s, &t);
  if (fault) {
    CHECK_STATUS(st, SHOAL_ERR_USAGE);
    CHECK(!t, "said \"%s\", expected \"%s\"", check_error(), fault);
    CHECK_HAS(check_error(), fault);
  } else {
    REQUIRE(st == SHOAL_OK, "%s", check_error());
    REQUIRE(t->planned, "%s", check_error());
  }
  shoal_step_free(&s);
  shoal_env_destroy(e);
  return t;
}

/* want: the host of each rank, as the digit of n1, n2, ... */
static void layout(const char *list, const char *counts, const char *more, const char *want)
{
  char text[512], got[64] = "";
  snprintf(text, sizeof text, "SLURM_STEP_NUM_TASKS=%zu\nSLURM_STEP_NODELIST=%s\nSLURM_STEP_TASKS_PER_NODE=%s\n%s",
           strlen(want), list, counts, more);
  shoal_topo *t = plan(text, NULL);
  for (int r = 0; r < t->size; r++) strcat(got, t->places[r].host + 1);
  CHECK_STR(got, want, "%s %s %s", list, counts, more);
  shoal_topo_destroy(t);
}

static void distributions(void)
{
  layout("n[1-4]", "2(x4)", "", "11223344");
  layout("n[1-4]", "4,2,1(x2)", "", "11112234");
  layout("n[1-4]", "2(x4)", "SLURM_DISTRIBUTION=cyclic\n", "12341234");
  layout("n[1-4]", "4,1(x3)", "SLURM_DISTRIBUTION=cyclic\n", "1234111");
  layout("n[1-4]", "2,1,2,3", "SLURM_DISTRIBUTION=cyclic:block,Pack\n", "12341344");
  layout("n[1-2,4]", "3,1(x2)", "SLURM_DISTRIBUTION=plane\nSLURM_DIST_PLANESIZE=2\n", "11241");
  layout("n[1-2,4]", "3,1(x2)", "SLURM_DISTRIBUTION=plane=2\n", "11241");
  layout("n[1-4]", "2,1,2,3", "SLURM_DISTRIBUTION=block:cyclic\n", "11233444");
  layout("n7", "3", "", "777");
  /* Slurm's own mapping knows more than the word, and is passed over when it does not fit. */
  layout("n[1,3-4]", "2(x2),3",
         "SLURM_DISTRIBUTION=arbitrary\nSLURM_PMIX_MAPPING_SERV=(vector,(1,1,2),(0,1,1),(2,1,2),(0,1,1),(2,1,1))\n",
         "3314414");
  layout("n[1-4]", "2,1,2,3", "SLURM_PMIX_MAPPING_SERV=(vector,(0,4,1),(0,1,1),(2,1,1),(3,1,2))\n", "12341344");
  layout("n[1-4]", "2(x4)", "SLURM_PMIX_MAPPING_SERV=(vector,(0,4,1))\n", "12341234");
  static const char *const broken[] = { "(vector,(0,4,3))",         "(vector,(0,5,1))", "(vector",
                                        "(vector,(0,4,1)",          "(vector)",         "x",
                                        "(vector,(-1,4,1))",        "(vector,(0,0,1))", "(vector,(2147483647,2,1))",
                                        "(vector,(0,4294967300,1))" };
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    char more[128];
    snprintf(more, sizeof more, "SLURM_PMIX_MAPPING_SERV=%s\n", broken[i]);
    layout("n[1-4]", "2(x4)", more, "11223344");
  }
}

static void cores(void)
{
  shoal_topo *t =
      plan("SLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=3,1\nSLURM_CPUS_PER_TASK=5\n",
           NULL);
  static const struct {
    int cores, threads;
    const char *cpus, *numa;
  } want[] = { { 3, 3, "0-4", "0" }, { 3, 3, "5-9", "0-1" }, { 3, 3, "10-14", "1" }, { 3, 3, "0-4", "0" } };
  for (int r = 0; r < 4; r++) {
    const shoal_place *p = &t->places[r];
    CHECK_EQ(p->on->cores, want[r].cores, "rank %d", r);
    CHECK_EQ(p->on->threads, want[r].threads, "rank %d", r);
    CHECK_STR(p->on->cpu_list, want[r].cpus, "rank %d", r);
    CHECK_STR(p->on->numa_list, want[r].numa, "rank %d", r);
    CHECK_EQ(p->pid, 0, "rank %d", r);
  }
  shoal_topo_destroy(t);
  t = plan("SLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=3,1\n", NULL);
  CHECK_EQ(t->places[0].on->threads, 2);
  CHECK_EQ(t->places[3].on->threads, 8);
  CHECK_STR(t->places[2].on->cpu_list, "8-11", "an equal share on one memory node");
  CHECK_STR(t->places[2].on->numa_list, "1");
  CHECK_STR(t->places[3].on->cpu_list, "0-15");
  shoal_topo_destroy(t);
  t = plan("SLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=3,1\nSLURM_CPUS_PER_TASK=5\n"
           "SLURM_CPU_BIND=quiet,mask_cpu:0xf0,0x300\n",
           NULL);
  static const char *const masks[] = { "4-7", "8-9", "4-7", "4-7" };
  for (int r = 0; r < 4; r++) CHECK_STR(t->places[r].on->cpu_list, masks[r], "explicit masks win, rank %d", r);
  shoal_topo_destroy(t);
  REQUIRE(shoal_topo_plan((const shoal_machine *const[]){ machine }, 1, NULL, NULL, &t) == SHOAL_OK, "alone");
  CHECK_EQ(t->size, 1);
  CHECK_EQ(t->nodes, 1);
  CHECK_EQ(t->places[0].on->threads, 8);
  shoal_topo_destroy(t);
}

/* Missing and contradictory variables are named; several nodes are never taken for one. */
static void refusals(void)
{
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n1\nSLURM_STEP_TASKS_PER_NODE=2\nSLURM_CPU_BIND=mask_cpu:0x1,"
       "0x10000\n",
       "mask 0x10000 of local rank 1 on n1 has no hardware thread");
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=2\n", "SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) is missing");
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-2]\n",
       "SLURM_STEP_TASKS_PER_NODE (or SLURM_TASKS_PER_NODE) is missing");
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=2\n",
       "SLURM_STEP_TASKS_PER_NODE counts the tasks of 1 nodes, but SLURM_STEP_NODELIST=n[1-2] names 2");
  plan("SLURM_STEP_NUM_TASKS=3\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=1(x2)\n",
       "SLURM_STEP_TASKS_PER_NODE adds up to 2 tasks, but SLURM_STEP_NUM_TASKS is 3");
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=3\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=1(x2)\n",
       "SLURM_STEP_NODELIST=n[1-2] names 2 nodes, but SLURM_STEP_NUM_NODES is 3");
  plan("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=1(x2)\nSLURM_DISTRIBUTION="
       "arbitrary\n",
       "SLURM_DISTRIBUTION is \"arbitrary\"");
}

int main(void)
{
  setenv("HWLOC_SYNTHETIC", "node:2 core:4 pu:2", 1);
  char path[] = "/tmp/shoal-xml-XXXXXX";
  int fd = mkstemp(path);
  hwloc_topology_t t;
  REQUIRE(fd >= 0, "a synthetic machine");
  REQUIRE(hwloc_topology_init(&t) == 0, "a synthetic machine");
  REQUIRE(hwloc_topology_load(t) == 0, "a synthetic machine");
  close(fd);
  REQUIRE(hwloc_topology_export_xml(t, path, 0) == 0, "saved");
  hwloc_topology_destroy(t);
  REQUIRE(shoal_machine_open(path, &machine) == SHOAL_OK, "loaded");
  unlink(path);
  distributions();
  cores();
  refusals();
  shoal_machine_close(machine);
  return check_done();
}
