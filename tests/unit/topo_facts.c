/* Facts of a process against masks and environments it is put into; each case in a child of its own. */
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "topo/machine.h"
#include "topo/topo_impl.h"
#include <sched.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*body)(void);

/* Run a case in a child, whose environment and mask end with it. */
static void apart(body f)
{
  pid_t pid = fork();
  if (pid == 0) {
    check_failures = 0;
    f();
    fflush(NULL);
    _exit(check_failures != 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status), "a case in a child failed, status %x", (unsigned)status);
  CHECK_EQ(WEXITSTATUS(status), 0, "a case in a child failed, status %x", (unsigned)status);
}

static int allowed[CPU_SETSIZE], n_allowed;

static void pin(const int *cpus, int n)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < n; i++) CPU_SET(cpus[i], &set);
  REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0, "setting the mask");
}

static void clear_claims(void)
{
  unsetenv("SLURM_CPUS_PER_TASK");
  unsetenv("SRUN_CPUS_PER_TASK");
}

static shoal_facts facts(void)
{
  shoal_facts f;
  REQUIRE(shoal_topo_facts(&f) == SHOAL_OK, "facts");
  return f;
}

static void identity(void)
{
  struct utsname name;
  uname(&name);
  shoal_facts f = facts();
  CHECK(strncmp(f.host, name.nodename, sizeof f.host - 1) == 0, "host is %s", f.host);
  CHECK_EQ(f.pid, (int)getpid());
  const char *boot = strchr(f.node_id, '/');
  if (CHECK(boot, "host/boot id: %s", f.node_id)) CHECK_EQ(strlen(boot), 37, "host/boot id: %s", f.node_id);
  CHECK_EQ(f.pus, n_allowed);
  CHECK_GE(f.cores, 1);
  CHECK_LE(f.cores, f.pus);
  CHECK_GE(f.numa_nodes, 1);
  CHECK_EQ(f.claimed_cores, 0, "no claims");
  CHECK_EQ(f.claimed_by_srun, 0);
}

/* A mask of one hardware thread is one core, wherever it lies. */
static void one_cpu(void)
{
  char want[16];
  int last = allowed[n_allowed - 1];
  pin(&last, 1);
  shoal_facts f = facts();
  snprintf(want, sizeof want, "%d", last);
  CHECK_EQ(f.cores, 1);
  CHECK_EQ(f.pus, 1);
  CHECK_EQ(f.numa_nodes, 1);
  CHECK_STR(f.cpu_list, want);
}

static void masks_compare(void)
{
  shoal_facts a = facts(), b = facts();
  CHECK_EQ(a.mask_hash, b.mask_hash, "equal masks");
  if (n_allowed < 2) return;
  pin(&allowed[0], 1);
  a = facts();
  pin(&allowed[1], 1);
  b = facts();
  CHECK_NE(a.mask_hash, b.mask_hash, "different masks on one node");
  CHECK_STR(a.node_id, b.node_id);
}

/* The description of another machine must neither add cores to the mask nor join its threads. */
static void foreign_description(void)
{
  shoal_log_set_level(SHOAL_LOG_WARN); /* a line about it is expected */
  setenv("HWLOC_SYNTHETIC", "node:2 core:1 pu:512", 1);
  shoal_facts f = facts();
  CHECK_EQ(f.cores, n_allowed);
  CHECK_EQ(f.pus, n_allowed);
  CHECK_EQ(f.numa_nodes, 1);
}

static void claims(void)
{
  setenv("SLURM_CPUS_PER_TASK", "4", 1);
  pin(&allowed[0], 1);
  shoal_facts f = facts();
  CHECK_EQ(f.claimed_cores, 4);
  CHECK_STATUS(shoal_topo_check_cores(&f, 1, true), SHOAL_ERR_WORLD);
  CHECK_HAS(check_error(), "asked 4, have 1");
  CHECK_HAS(check_error(), "--cpus-per-task=4");
  shoal_log_set_level(SHOAL_LOG_ERROR);
  static const char *const wrong[] = { "four", "0", "-2", "4(x2", "4(x)", "4,", ",4", "4(y2)", "2 ", "99999999" };
  for (size_t i = 0; i < SHOAL_COUNT(wrong); i++) {
    char said[64];
    setenv("SLURM_CPUS_PER_TASK", wrong[i], 1);
    snprintf(said, sizeof said, "SLURM_CPUS_PER_TASK is \"%s\"", wrong[i]);
    CHECK_STATUS(shoal_topo_facts(&f), SHOAL_ERR_WORLD, "%s", wrong[i]);
    CHECK_HAS(check_error(), said);
  }
  setenv("SLURM_CPUS_PER_TASK", "", 1);
  CHECK_EQ(facts().claimed_cores, 0, "empty is not set");
  setenv("SLURM_CPUS_PER_TASK", "4(x2),2,3(x4)", 1);
  CHECK_EQ(facts().claimed_cores, 2, "by node: the least");
  unsetenv("SLURM_CPUS_PER_TASK");
  setenv("SRUN_CPUS_PER_TASK", "2(x3)", 1);
  CHECK_EQ(facts().claimed_cores, 2, "the other variable");
}

/* What the two warnings say, read from the child's stderr. */
static void warnings(void)
{
  char text[2048];
  FILE *f = tmpfile();
  REQUIRE(f, "tmpfile");
  fflush(stderr);
  int kept = dup(2);
  dup2(fileno(f), 2);
  shoal_facts all[3] = { { .host = "n0", .cpu_list = "0-7", .cores = 8, .pus = 8, .claimed_cores = 4 } };
  all[1] =
      (shoal_facts){ .host = "n1", .cpu_list = "5", .cores = 1, .pus = 1, .claimed_cores = 4, .claimed_by_srun = 8 };
  all[2] = all[1];
  shoal_status first = shoal_topo_check_cores(all, 3, false);
  for (int r = 0; r < 3; r++) all[r].claimed_cores = all[r].claimed_by_srun = 1;
  shoal_status second = shoal_topo_check_cores(all, 3, true);
  fflush(stderr);
  dup2(kept, 2);
  rewind(f);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  CHECK_OK(first, "warnings are not errors");
  CHECK_OK(second);
  const char *asked = strstr(text, "asked 4, have 1 (cpu 5 on n1; 2 of 3 ranks have too few)");
  if (CHECK(asked, "said \"%s\"", text)) CHECK_LACKS(asked + 1, "asked", "said \"%s\"", text); /* once for all ranks */
  CHECK_HAS(text, "SLURM_CPUS_PER_TASK is 4 but SRUN_CPUS_PER_TASK is 8");
}

static void saved_machine(void)
{
  shoal_machine *m;
  shoal_facts f;
  char path[] = "/tmp/shoal-topo-XXXXXX";
  static const char xml[] =
      "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
      "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000f0\" complete_cpuset=\"0x000000ff\" "
      "allowed_cpuset=\"0x000000f0\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" "
      "gp_index=\"1\"><info name=\"HostName\" value=\"big7\"/>"
      "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x000000f0\" complete_cpuset=\"0x000000ff\" "
      "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"2\" local_memory=\"1000\"/>"
      "<object type=\"Core\" os_index=\"2\" cpuset=\"0x30\" complete_cpuset=\"0x30\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"3\">"
      "<object type=\"PU\" os_index=\"4\" cpuset=\"0x10\" complete_cpuset=\"0x10\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"5\"/>"
      "<object type=\"PU\" os_index=\"5\" cpuset=\"0x20\" complete_cpuset=\"0x20\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"6\"/></object>"
      "<object type=\"Core\" os_index=\"3\" cpuset=\"0xc0\" complete_cpuset=\"0xc0\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"4\">"
      "<object type=\"PU\" os_index=\"6\" cpuset=\"0x40\" complete_cpuset=\"0x40\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"7\"/>"
      "<object type=\"PU\" os_index=\"7\" cpuset=\"0x80\" complete_cpuset=\"0x80\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"8\"/></object></object></topology>";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0, "the saved machine");
  REQUIRE(write(fd, xml, sizeof xml - 1) == (ssize_t)sizeof xml - 1, "the saved machine");
  close(fd);
  REQUIRE(shoal_machine_open(path, &m) == SHOAL_OK, "open");
  f = *shoal_machine_facts(m);
  shoal_machine_close(m);
  CHECK_EQ(f.cores, 2);
  CHECK_EQ(f.pus, 4);
  CHECK_EQ(f.numa_nodes, 1);
  CHECK_STR(f.cpu_list, "4-7");
  CHECK_STR(f.host, "big7");
  CHECK_EQ(f.pid, 0);
  CHECK_STR(f.numa_list, "0");
  unlink(path);
  CHECK_STATUS(shoal_machine_open(path, &m), SHOAL_ERR_IO, "a missing file");
}

static void check_count(hwloc_topology_t t, const char *list, int cores, int pus, int numa, const char *numbers)
{
  shoal_facts f = { .pid = 0 };
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  hwloc_bitmap_list_sscanf(mask, list);
  shoal_topo_count(t, mask, &f);
  CHECK_EQ(f.cores, cores, "cpus %s", list);
  CHECK_EQ(f.pus, pus, "cpus %s", list);
  CHECK_EQ(f.numa_nodes, numa, "cpus %s", list);
  CHECK_STR(f.cpu_list, list);
  CHECK_STR(f.numa_list, numbers, "cpus %s", list);
  hwloc_bitmap_free(mask);
}

/* Masks on a made-up machine: 2 memory nodes of 4 cores of 2 hardware threads, cpus 0-15. */
static void counting(void)
{
  setenv("HWLOC_SYNTHETIC", "node:2 core:4 pu:2", 1);
  hwloc_topology_t t = shoal_topo_load(NULL, false);
  REQUIRE(t, "a synthetic machine");
  check_count(t, "0-15", 8, 16, 2, "0-1");
  check_count(t, "10-11", 1, 2, 1, "1");
  check_count(t, "5,7", 2, 2, 1, "0"); /* H04: one hardware thread of each of two cores */
  check_count(t, "7-8", 2, 2, 2, "0-1");
  check_count(t, "15,100-101", 3, 3, 1, "1"); /* cpus hwloc does not know count as cores */
  check_count(NULL, "0-15", 16, 16, 1, "");
  hwloc_topology_destroy(t);
}

/* A list too long for its field ends at a comma; the hash still tells such masks apart. */
static void long_list(void)
{
  shoal_facts f[2];
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  for (unsigned cpu = 0; cpu < 400; cpu += 2) hwloc_bitmap_set(mask, cpu);
  shoal_topo_count(NULL, mask, &f[0]);
  hwloc_bitmap_set(mask, 1001);
  shoal_topo_count(NULL, mask, &f[1]);
  size_t n = strlen(f[0].cpu_list);
  CHECK_LT(n, sizeof f[0].cpu_list, "list %s", f[0].cpu_list);
  CHECK_STR(f[0].cpu_list + n - 4, ",...", "list %s", f[0].cpu_list);
  CHECK(strncmp(f[0].cpu_list, "0,2,4,", 6) == 0, "list %s", f[1].cpu_list);
  CHECK_STR(f[0].cpu_list, f[1].cpu_list);
  CHECK_NE(f[0].mask_hash, f[1].mask_hash, "hash of the whole mask");
  hwloc_bitmap_free(mask);
}

int main(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0, "this test's own mask");
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) allowed[n_allowed++] = i;
  clear_claims();
  apart(identity);
  apart(one_cpu);
  apart(masks_compare);
  apart(foreign_description);
  apart(claims);
  apart(warnings);
  apart(saved_machine);
  apart(counting);
  apart(long_list);
  return check_done();
}
