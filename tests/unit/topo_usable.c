/* Threads per rank under a mask, a quota and OpenMP's binding, and what is told of each, from made-up facts. */
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "topo/topo.h"
#include <unistd.h>

enum { MOST = 4 };

/* `size` ranks of one node, which share a mask of `cores` and, if `quota` > 0, one control group. */
static void node(shoal_facts *all, int size, int cores, double quota)
{
  for (int r = 0; r < size; r++)
    all[r] = (shoal_facts){ .host = "n0",
                            .node_id = "n0/1",
                            .cores = cores,
                            .pus = cores,
                            .mask_hash = 1,
                            .cpu_list = "0-7",
                            .quota = quota,
                            .quota_group = 9 };
}

static void threads_are(const shoal_facts *all, int size, const int *want)
{
  shoal_topo *t;
  REQUIRE(shoal_topo_create(all, size, NULL, &t) == SHOAL_OK, "create");
  for (int r = 0; r < size; r++) CHECK_EQ(t->places[r].on->threads, want[r], "rank %d of %d", r, size);
  shoal_topo_destroy(t);
}

/* What a check prints, from stderr; it has to succeed. */
static const char *told(const shoal_facts *all, int size, int asked)
{
  static char text[2048];
  FILE *f = tmpfile();
  REQUIRE(f, "tmpfile");
  fflush(stderr);
  int kept = dup(2);
  dup2(fileno(f), 2);
  shoal_status st = shoal_topo_check_threads(all, size, asked, false);
  fflush(stderr);
  dup2(kept, 2);
  close(kept);
  rewind(f);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  CHECK_OK(st);
  const char *end = strchr(text, '\n');
  CHECK(!end || end[1] == '\0', "one line: %s", text);
  return text;
}

static void quota_limits_threads(void)
{
  shoal_facts all[MOST];
  node(all, 1, 8, 0);
  threads_are(all, 1, (int[]){ 8 });
  node(all, 1, 8, 3.5);
  threads_are(all, 1, (int[]){ 3 });
  node(all, 1, 8, 0.5);
  threads_are(all, 1, (int[]){ 1 });
  node(all, 1, 8, 64);
  threads_are(all, 1, (int[]){ 8 });
  node(all, 4, 8, 4);
  threads_are(all, 4, (int[]){ 1, 1, 1, 1 });
  all[3].quota_group = 8; /* a container of its own */
  all[3].quota = 2;
  threads_are(all, 4, (int[]){ 1, 1, 1, 2 });
  strcpy(all[3].node_id, "n1/1"); /* another node, whose groups may have the same number */
  all[3].quota_group = 9;
  all[3].quota = 4;
  threads_are(all, 4, (int[]){ 1, 1, 1, 4 });
}

static void quota_is_told(void)
{
  shoal_facts all[MOST];
  node(all, 1, 2, 0.5);
  const char *text = told(all, 1, 0);
  CHECK_HAS(
      text,
      "warning: processor time: a control group on n0 allows 0.5 cores for 1 rank, the affinity mask has 2: 1 thread "
      "each, stopped for a part of every step; raise the quota of the container");
  CHECK_HAS(text, "more cores per task do not help");
  CHECK_LACKS(text, "--cpus-per-task");
  CHECK_STATUS(shoal_topo_check_threads(all, 1, 0, true), SHOAL_ERR_WORLD, "strict");
  CHECK_HAS(check_error(), "0.5 cores");
  node(all, 2, 8, 4);
  CHECK_HAS(told(all, 2, 0), "allows 4 cores for 2 ranks, the affinity mask has 8: 2 threads each; raise");
  CHECK_HAS(told(all, 2, 3), "threads is 3, so each is stopped for a part of every step; set it to 2, or raise");
  CHECK_STR(told(all, 2, 2), "", "what fits needs no words");
  node(all, 2, 8, 8);
  CHECK_STR(told(all, 2, 0), "", "the quota is the mask");
}

static void openmp_is_told(void)
{
  shoal_facts all[MOST];
  node(all, 2, 4, 0);
  for (int r = 0; r < 2; r++) {
    strcpy(all[r].bound_by, "OMP_PROC_BIND=true");
    all[r].first_cores = 1;
  }
  const char *text = told(all, 2, 0);
  CHECK_HAS(text,
            "OMP_PROC_BIND=true makes OpenMP bind the first threads of 2 ranks on n0 to the same 1 core of 4: set "
            "OMP_PROC_BIND=false, or bind the ranks");
  CHECK_STR(told(all, 1, 0), "", "one rank has the core to itself");
  for (int r = 0; r < 2; r++) all[r].first_cores = 2;
  CHECK_STR(told(all, 2, 0), "", "bound to a socket with room for both");
  node(all, 1, 1, 0);
  strcpy(all[0].bound_by, "GOMP_CPU_AFFINITY=5");
  all[0].bound_list = true;
  all[0].first_cores = 1;
  CHECK_STR(told(all, 1, 0), "");
  CHECK_HAS(told(all, 1, 4),
            "GOMP_CPU_AFFINITY=5 leaves 1 core on n0 for 4 threads of 1 rank: set OMP_PROC_BIND=false, or threads "
            "to 1");
  all[0].claimed_cores = 4;
  CHECK_STATUS(shoal_topo_check_cores(all, 1, true), SHOAL_ERR_WORLD);
  CHECK_HAS(check_error(), "asked 4, have 1");
  CHECK_HAS(check_error(), "threads follow GOMP_CPU_AFFINITY=5; set OMP_PROC_BIND=false");
  CHECK_LACKS(check_error(), "--cpus-per-task", "the list is the limit");
}

static void crowd_is_told(void)
{
  shoal_facts all[MOST];
  FILE *log = tmpfile();
  char text[2048];
  REQUIRE(log, "tmpfile");
  node(all, 2, 2, 0);
  CHECK_STR(told(all, 2, 0), "");
  shoal_log_set_file(log, "log");
  CHECK_OK(shoal_topo_check_threads(all, 2, 4, true), "known from the run file, so no error");
  CHECK_OK(shoal_topo_check_threads(all, 2, 1, false));
  node(all, 4, 2, 0);
  CHECK_OK(shoal_topo_check_threads(all, 4, 0, false));
  shoal_log_set_file(NULL, NULL);
  rewind(log);
  text[fread(text, 1, sizeof text - 1, log)] = '\0';
  fclose(log);
  CHECK_HAS(text, "8 threads of 2 ranks on n0 take turns on 2 cores (cpu 0-7): set threads to 1, or give each rank "
                  "more cores (srun "
                  "--cpus-per-task=4");
  CHECK_HAS(text, "4 ranks on n0 take turns on 2 cores (cpu 0-7): start fewer there, or give them more cores");
}

typedef shoal_status check_of(const shoal_facts *all, int size);

static shoal_status threads_of_one(const shoal_facts *all, int size)
{
  return shoal_topo_check_threads(all, size, 1, true);
}

static shoal_status cores_of(const shoal_facts *all, int size)
{
  return shoal_topo_check_cores(all, size, true);
}

/* What a check says without warning, from the log. */
static const char *noted(check_of *check, const shoal_facts *all, int size)
{
  static char text[2048];
  FILE *log = tmpfile();
  REQUIRE(log, "tmpfile");
  shoal_log_set_file(log, "log");
  CHECK_OK(check(all, size));
  shoal_log_set_file(NULL, NULL);
  rewind(log);
  text[fread(text, 1, sizeof text - 1, log)] = '\0';
  fclose(log);
  return text;
}

/* A mask that is a part of the machine is told with both numbers, and with no cure, which would depend on who set it. */
static void part_is_told(void)
{
  shoal_facts all[MOST];
  node(all, 2, 4, 0);
  for (int r = 0; r < 2; r++) all[r].present = 4;
  CHECK_STR(noted(threads_of_one, all, 2), "", "the whole machine");
  for (int r = 0; r < 2; r++) all[r].present = 64;
  CHECK_HAS(noted(threads_of_one, all, 2),
            "n0 has 64 hardware threads, of which the affinity masks of 2 ranks have 4 (cpu 0-7)");
  all[1].mask_hash = 2; /* another four */
  CHECK_HAS(noted(threads_of_one, all, 2), "of 2 ranks have 8 (cpu 0-7, ...)");
  for (int r = 0; r < 2; r++) all[r].present = 8;
  CHECK_STR(noted(threads_of_one, all, 2), "", "all of it, between them");
  strcpy(all[1].node_id, "n1/1");
  strcpy(all[1].host, "n1");
  all[0].present = 4;
  CHECK_HAS(noted(threads_of_one, all, 2), "n1 has 8 hardware threads, of which the affinity mask of 1 rank has 4");
}

static shoal_status threads_by_mask(const shoal_facts *all, int size)
{
  return shoal_topo_check_threads(all, size, 0, true);
}

/* Slurm that binds nothing: as many threads as the mask has cores, which is told; not where the run file says how many. */
static void unbound_is_told(void)
{
  shoal_facts all[MOST];
  node(all, 1, 2, 0);
  CHECK_STR(noted(threads_by_mask, all, 1), "");
  all[0].claimed_cores = 1;
  CHECK_HAS(
      noted(threads_by_mask, all, 1),
      "Slurm gives each rank 1 CPU, and binds it to none: its mask on n0 has 2 cores (cpu 0-7), so 2 threads run, "
      "which nobody asked for; where others share the node, set threads to 1 (--set threads=1)");
  CHECK_STR(noted(threads_of_one, all, 1), "");
  all[0].claimed_cores = 2;
  CHECK_STR(noted(threads_by_mask, all, 1), "");
}

/* Cores with two hardware threads each, which Slurm counts: told, and no lack. */
static void shared_cores_are_told(void)
{
  shoal_facts all[MOST];
  node(all, 2, 4, 0);
  for (int r = 0; r < 2; r++) all[r].pus = 8;
  CHECK_STR(noted(cores_of, all, 2), "", "nothing asked for");
  all[1].claimed_cores = 4;
  CHECK_STR(noted(cores_of, all, 2), "", "a core for each");
  all[1].claimed_cores = 8;
  CHECK_HAS(noted(cores_of, all, 2),
            "the 8 asked for are hardware threads of 4 cores (cpu 0-7 on n0): a thread for each core");
}

int main(void)
{
  quota_limits_threads();
  quota_is_told();
  unbound_is_told();
  openmp_is_told();
  crowd_is_told();
  part_is_told();
  shared_cores_are_told();
  return check_done();
}
