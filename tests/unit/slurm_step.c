/* Slurm's variables from files of lines as `env` writes them, and what is wrong with broken ones. */
#include "base/mem.h"
#include "check.h"
#include "slurm/claims.h"
#include <stdlib.h>
#include <unistd.h>

static shoal_env *make_env(const char *text)
{
  shoal_env *e = NULL;
  char path[] = "/tmp/shoal-step-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0, "a file");
  REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
  close(fd);
  shoal_status st = shoal_env_read(path, &e);
  unlink(path);
  CHECK_EQ(st == SHOAL_OK, e != NULL, "written only on success");
  return e;
}

/* What `env` prints: values with blanks, equals signs and several lines; shell functions; the last one counts. */
static void variables(void)
{
  shoal_env *e = make_env("A=1\nBASH_FUNC_x%%=() {  echo a=b\n}\nB=two words = 2\nC=first\n second=no\nEMPTY=\nA=3\r\n"
                          "AB=4\n_D9=x");
  REQUIRE(e, "variables");
  static const char *const want[][2] = { { "A", "3" },       { "B", "two words = 2" }, { "C", "first" }, { "AB", "4" },
                                         { "_D9", "x" },     { "EMPTY", NULL },        { "x%%", NULL },  { "D9", NULL },
                                         { "second", NULL }, { "BASH_FUNC_x%%", NULL } };
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    const char *got = shoal_env_get(e, want[i][0]);
    CHECK_STR(got, want[i][1], "%s", want[i][0]);
  }
  CHECK_EQ(shoal_env_int(e, "A", 0), 3);
  CHECK_EQ(shoal_env_int(e, "A", 4), -1);
  CHECK_EQ(shoal_env_int(e, "C", 0), -1);
  shoal_env_destroy(e);
  CHECK(!make_env("# nothing\nhost n1\n"), "a file without variables");
  CHECK(!make_env(""));
  setenv("SHOAL_TEST_VARIABLE", "7", 1);
  CHECK_EQ(shoal_env_int(NULL, "SHOAL_TEST_VARIABLE", 0), 7, "our own environment");
}

static void counts(const char *text, const char *want)
{
  int *list = NULL;
  size_t n = 0;
  char got[256] = "";
  CHECK_OK(shoal_step_parse_counts("T", text, &list, &n));
  for (size_t i = 0; i < n; i++) snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", list[i]);
  free(list);
  CHECK_STR(got, want, "%s", text);
}

static void bad_counts(const char *text, const char *words)
{
  int *list = NULL;
  size_t n = 7;
  CHECK_STATUS(shoal_step_parse_counts("TASKS", text, &list, &n), SHOAL_ERR_USAGE, "\"%s\" was taken", text);
  CHECK(!list, "\"%s\" was taken", text);
  CHECK_EQ(n, 7, "\"%s\" was taken", text);
  CHECK_HAS(check_error(), words, "\"%s\"", text);
}

static void tasks_per_node(void)
{
  counts("2", "2");
  counts("2(x4)", "2 2 2 2");
  counts("2,1,2,3", "2 1 2 3");
  counts("4(x1),1(x3)", "4 1 1 1");
  counts("3,1(x2),12", "3 1 1 12");
  bad_counts("", "TASKS \"\", position 1: a number, 1 or more");
  bad_counts("2,", "position 3: a number, 1 or more");
  bad_counts(",2", "position 1: a number, 1 or more");
  bad_counts("0", "position 1: a number, 1 or more");
  bad_counts("2(x0)", "position 4: a number of nodes");
  bad_counts("2(x3", "position 5: a ) is expected");
  bad_counts("2(3)", "position 2: a comma");
  bad_counts("2 ,1", "position 2: a comma");
  bad_counts("2x4", "position 2: a comma");
  bad_counts("-2", "position 1: a number, 1 or more");
  bad_counts("99999999", "position 1: a number, 1 or more");
  bad_counts("1(x100001)", "more than 100000 nodes");
  bad_counts("1(x99999),1(x2)", "more than 100000 nodes");
}

/* Read a step from lines; on a fault the words it must say. */
static shoal_step read_step(const char *text, const char *fault)
{
  shoal_step s = { .tasks = 77 };
  shoal_env *e = make_env(text);
  REQUIRE(e, "%s", text);
  shoal_status st = shoal_step_read(e, &s);
  if (fault) {
    CHECK_STATUS(st, SHOAL_ERR_USAGE);
    CHECK_EQ(s.tasks, 77);
    CHECK_HAS(check_error(), fault);
  } else
    CHECK_OK(st);
  if (fault) s = (shoal_step){ .tasks = -1 };
  s.distribution = s.mapping = NULL; /* borrowed; of the list only NULL or not is asked */
  shoal_env_destroy(e);
  return s;
}

static void steps(void)
{
  shoal_step s =
      read_step("SLURM_STEP_NUM_TASKS=8\nSLURM_STEP_NUM_NODES=3\nSLURM_STEP_NODELIST=n[1-2,4]\nSLURM_NTASKS=99\n"
                "SLURM_JOB_NODELIST=n[1-9]\nSLURM_STEP_TASKS_PER_NODE=3(x2),2\nSLURM_PROCID=5\nSLURM_NODEID=1\n"
                "SLURM_LOCALID=2\nSLURM_TASKS_PER_NODE=9(x9)\nSLURM_JOB_NUM_NODES=9\n",
                NULL);
  CHECK(s.inside);
  CHECK_EQ(s.tasks, 8);
  CHECK_EQ(s.nodes, 3);
  CHECK_EQ(s.rank, 5);
  CHECK_EQ(s.node, 1);
  CHECK_EQ(s.local_rank, 2);
  CHECK(!s.job_list);
  if (CHECK_EQ(s.n_hosts, 3)) CHECK_STR(s.hosts[2], "n4");
  if (CHECK_EQ(s.n_per_node, 3)) CHECK_EQ(s.per_node[2], 2);
  shoal_step_free(&s);
  CHECK(!s.hosts);
  CHECK(!s.per_node);
  CHECK(!s.list);

  /* Only the job's variables and a process number above zero: the list may have more nodes than the step. */
  s = read_step("SLURM_NTASKS=4\nSLURM_PROCID=3\nSLURM_JOB_NODELIST=n[1-9]\nSLURM_NNODES=9\n", NULL);
  CHECK(s.inside, "old step");
  CHECK_EQ(s.tasks, 4);
  CHECK_EQ(s.nodes, -1);
  CHECK_EQ(s.rank, 3);
  CHECK_EQ(s.node, -1);
  CHECK(s.job_list);
  CHECK_EQ(s.n_hosts, 9);
  shoal_step_free(&s);
  s = read_step("SLURM_PROCID=3\n", NULL);
  CHECK(s.inside, "a fourth task proves four: %d", s.tasks);
  CHECK_EQ(s.tasks, 4);

  /* A batch script: its own numbers are no claims. */
  s = read_step("SLURM_NTASKS=7\nSLURM_PROCID=0\nSLURM_NODEID=0\nSLURM_LOCALID=0\nSLURM_JOB_NODELIST=n[1-4]\n"
                "SLURM_TASKS_PER_NODE=4,1(x3)\nSLURM_JOB_NUM_NODES=4\n",
                NULL);
  CHECK(!s.inside);
  CHECK_EQ(s.tasks, 7);
  CHECK_EQ(s.nodes, 4);
  CHECK_EQ(s.rank, -1);
  CHECK_EQ(s.node, -1);
  CHECK_EQ(s.n_per_node, 4);
  shoal_step_free(&s);
  s = read_step("SLURM_JOB_ID=1\nSLURM_NTASKS_PER_NODE=2\nSLURM_JOB_NODELIST=n[1-4]\nSLURM_TASKS_PER_NODE=16(x4)\n",
                NULL);
  CHECK_EQ(s.tasks, 8, "tasks per node asked for");
  if (CHECK_EQ(s.n_per_node, 4)) CHECK_EQ(s.per_node[3], 2);
  shoal_step_free(&s);
  s = read_step("SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=n[1-4]\nSLURM_TASKS_PER_NODE=16(x4)\n", NULL);
  CHECK_EQ(s.tasks, 4, "srun's default: one on each node");
  CHECK_EQ(s.per_node[0], 1);
  shoal_step_free(&s);
  s = read_step("HOME=/root\n", NULL);
  CHECK(!s.inside, "no Slurm");
  CHECK_EQ(s.tasks, -1);
  CHECK(!s.list);

  read_step("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-2\n", "SLURM_STEP_NODELIST \"n[1-2\", position 6");
  read_step("SLURM_STEP_NUM_TASKS=2\nSLURM_JOB_NODELIST=n[2-1]\n", "SLURM_JOB_NODELIST \"n[2-1]\", position 3");
  read_step("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-2]\nSLURM_STEP_TASKS_PER_NODE=1(y2)\n",
            "SLURM_STEP_TASKS_PER_NODE \"1(y2)\", position 2");
}

/* A number that is none is told with variable and value, whichever it is; an empty one counts as not set. */
static void numbers(void)
{
  static const char *const names[] = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",        "SLURM_NPROCS",
                                       "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES",
                                       "SLURM_PROCID",         "SLURM_NODEID",        "SLURM_LOCALID",
                                       "SLURM_DIST_PLANESIZE" };
  static const char *const wrong[] = { "four", "4x", "-1", "4 ", "1e3", "99999999999", "0x4", "$SLURM_NNODES" };
  char text[128], said[128];
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    for (size_t k = 0; k < SHOAL_COUNT(wrong); k++) {
      snprintf(text, sizeof text, "HOME=/\n%s=%s\n", names[i], wrong[k]);
      snprintf(said, sizeof said, "%s is \"%s\": must be a whole number", names[i], wrong[k]);
      read_step(text, said);
    }
  read_step("SLURM_NTASKS_PER_NODE=two\nSLURM_JOB_NODELIST=n1\n", "SLURM_NTASKS_PER_NODE is \"two\"");
  read_step("SLURM_STEP_NUM_TASKS=0\n", "SLURM_STEP_NUM_TASKS is \"0\": must be a whole number, 1 or more");
  read_step("SLURM_JOB_CPUS_PER_NODE=4(x2\n", "SLURM_JOB_CPUS_PER_NODE \"4(x2\", position 5");
  shoal_step s = read_step("SLURM_NTASKS=\nSLURM_JOB_CPUS_PER_NODE=4(x2),2\n", NULL);
  CHECK_EQ(s.tasks, -1);
  CHECK_EQ(s.n_cpus, 3);
}

/* What the job's variables say of each other, in an allocation where mpirun goes by them. */
static void sums(void)
{
  static const struct {
    const char *text, *fault; /* NULL: they agree */
  } cases[] = {
    { "SLURM_NTASKS=6\nSLURM_TASKS_PER_NODE=1(x2),2(x2)\nSLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=4\n"
      "SLURM_JOB_CPUS_PER_NODE=8(x4)\n",
      NULL },
    { "SLURM_NTASKS=6\nSLURM_NPROCS=6\n", NULL },
    { "SLURM_NTASKS=6\nSLURM_TASKS_PER_NODE=1(x4)\nSLURM_JOB_NODELIST=n[1-4]\n",
      "SLURM_TASKS_PER_NODE adds up to 4 tasks, but SLURM_NTASKS is 6" },
    { "SLURM_NTASKS=4\nSLURM_TASKS_PER_NODE=1(x4)\nSLURM_JOB_NODELIST=n[1-3]\n",
      "SLURM_TASKS_PER_NODE counts the tasks of 4 nodes, but SLURM_JOB_NODELIST=n[1-3] names 3" },
    { "SLURM_NTASKS=4\nSLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=2\n",
      "SLURM_JOB_NODELIST=n[1-4] names 4 nodes, but SLURM_NNODES is 2" },
    { "SLURM_NTASKS=4\nSLURM_JOB_NODELIST=n[1-4]\nSLURM_JOB_CPUS_PER_NODE=8(x3)\n",
      "SLURM_JOB_CPUS_PER_NODE counts the cores of 3 nodes, but SLURM_JOB_NODELIST=n[1-4] names 4" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    shoal_env *e = make_env(cases[i].text);
    shoal_claims c;
    shoal_status st = shoal_claims_read(e, "n1", &c);
    CHECK_STATUS(st, cases[i].fault ? SHOAL_ERR_WORLD : SHOAL_OK, "%s", cases[i].text);
    if (cases[i].fault) CHECK_HAS(check_error(), cases[i].fault);
    shoal_env_destroy(e);
  }
}

int main(void)
{
  variables();
  tasks_per_node();
  steps();
  numbers();
  sums();
  return check_done();
}
