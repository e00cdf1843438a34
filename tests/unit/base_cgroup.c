/* Limits of control groups, read from made-up trees: versions 1 and 2, both at once, nested groups, mounts that show a part
 * of the hierarchy, namespaces, and files that make no sense. */
#include "base/cgroup.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "check.h"
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/shoal-cgroup-XXXXXX";

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
  return remove(path);
}

static void clear_tree(void)
{
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file below the tree's root, with the folders it needs. */
static void put(const char *path, const char *text)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  char *slash = strrchr(whole, '/');
  *slash = '\0';
  REQUIRE(shoal_make_dirs(whole) == SHOAL_OK, "%s", whole);
  *slash = '/';
  FILE *f = fopen(whole, "w");
  REQUIRE(f, "%s", whole);
  fputs(text, f);
  fclose(f);
}

/* Begins a new tree. */
static void machine(const char *groups, const char *mounts)
{
  clear_tree();
  put("/proc/self/cgroup", groups);
  put("/proc/self/mountinfo", mounts);
}

static shoal_cgroup limits(void)
{
  shoal_cgroup c = { 0 };
  shoal_cgroup_read(root, &c);
  return c;
}

#define NO_MEMORY(c)   (CHECK_EQ((c).memory, UINT64_MAX), CHECK_EQ((c).memory_left, UINT64_MAX))
#define MOUNTS_2       "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_1(c, at) "35 31 0:33 " at " /sys/fs/cgroup/" c " rw,relatime shared:9 - cgroup cgroup rw," c "\n"

static void version_2_nested(void)
{
  machine("0::/slurm/job_7/step_0\n", "27 1 254:0 / / rw - ext4 /dev/vda rw\n" MOUNTS_2);
  put("/sys/fs/cgroup/slurm/memory.max", "max\n");
  put("/sys/fs/cgroup/slurm/cpu.max", "800000 100000\n");
  put("/sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
  put("/sys/fs/cgroup/slurm/job_7/memory.current", "700000\n");
  put("/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\nfile 500000\ninactive_file 150000\nactive_file 50000\n");
  put("/sys/fs/cgroup/slurm/job_7/cpu.max", "75000 50000\n");
  put("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "2000000\n");
  put("/sys/fs/cgroup/slurm/job_7/step_0/memory.current", "600000\n");
  put("/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n");
  shoal_cgroup c = limits();
  CHECK_EQ(c.memory, 1000000, "that of the job, not of the step or the machine");
  CHECK_EQ(c.memory_left, 500000, "1000000 - (700000 - 150000 - 50000): the cache of files can go");
  CHECK_EQ(c.cpus, 1.5);
  uint64_t job = c.cpus_group;
  CHECK_NE(job, 0);
  put("/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "150000 100000\n");
  CHECK_NE(limits().cpus_group, job, "an equal quota further in is the one that is reached");
  put("/sys/fs/cgroup/slurm/job_7/step_0/memory.high", "650000\n");
  CHECK_EQ(limits().memory_left, 50000, "a limit that slows down");
  put("/sys/fs/cgroup/slurm/job_7/step_0/memory.current", "5000000\n");
  CHECK_EQ(limits().memory_left, 0, "more used than allowed");
}

static void version_1(void)
{
  machine("5:cpu,cpuacct:/docker/a b\n4:memory:/docker/a b\n1:name=systemd:/x\n",
          MOUNT_1("memory", "/") MOUNT_1("cpu,cpuacct", "/"));
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/docker/a b/memory.limit_in_bytes", "4096000\n");
  put("/sys/fs/cgroup/memory/docker/a b/memory.usage_in_bytes", "4096000\n");
  put("/sys/fs/cgroup/memory/docker/a b/memory.stat",
      "inactive_file 1\ntotal_inactive_file 4000\ntotal_active_file 96\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/a b/cpu.cfs_quota_us", "50000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/a b/cpu.cfs_period_us", "100000\n");
  shoal_cgroup c = limits();
  CHECK_EQ(c.memory, 4096000);
  CHECK_EQ(c.memory_left, 4096);
  CHECK_EQ(c.cpus, 0.5);
  put("/sys/fs/cgroup/cpu,cpuacct/docker/a b/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/memory/docker/a b/memory.limit_in_bytes", "9223372036854771712\n");
  c = limits();
  NO_MEMORY(c);
  CHECK_EQ(c.cpus, 0, "a quota of -1 is none");
  CHECK_EQ(c.cpus_group, 0);
}

/* Controllers that version 1 holds have no files in version 2's hierarchy, whose groups go by other names. */
static void both(void)
{
  machine("3:memory:/job\n1:name=systemd:/s\n0::/user.slice\n",
          MOUNT_1("memory", "/") "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  put("/sys/fs/cgroup/unified/user.slice/cpu.max", "250000 100000\n");
  put("/sys/fs/cgroup/unified/job/cpu.max", "1 100000\n"); /* another's group */
  shoal_cgroup c = limits();
  CHECK_EQ(c.memory, 1000);
  CHECK_EQ(c.memory_left, 1000, "no use is known");
  CHECK_EQ(c.cpus, 2.5);
}

/* Containers see a part of the hierarchy; where the group cannot be followed, the mount itself still limits. */
static void parts(void)
{
  machine("4:memory:/docker/ab/inner\n0::/\n", "31 1 0:9 / /sys rw - sysfs sysfs rw\n" MOUNT_1("memory", "/docker/ab"));
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "3000\n");
  CHECK_EQ(limits().memory, 3000, "the group below the mount's root");
  machine("4:memory:/docker/abc\n", MOUNT_1("memory", "/docker/ab"));
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  put("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
  CHECK_EQ(limits().memory, 5000, "/docker/abc is not below /docker/ab");
  machine("0::/\n", "29 23 0:26 /../.. /mnt/c\\040g rw - cgroup2 cgroup2 rw\n");
  put("/mnt/c g/memory.max", "7000\n");
  CHECK_EQ(limits().memory, 7000, "a namespace: a group around it, mounted at a name with a space");
  machine("0::/../other\n", MOUNTS_2);
  put("/sys/fs/cgroup/memory.max", "1\n");
  NO_MEMORY(limits());
}

static void nonsense(void)
{
  clear_tree();
  NO_MEMORY(limits());
  CHECK_EQ(limits().cpus, 0, "no files at all");
  static const char *const groups[] = {
    "", "0", "0:", "0::", "\n\n", "::::\n", "0::relative\n", "4:memory\n", "\xff\xfe:\xff:/\n"
  };
  static const char *const mounts[] = { "",
                                        " - \n",
                                        "1 2 3 - cgroup2 cgroup2 rw\n",
                                        "29 23 0:26 / /c rw - cgroup2\n",
                                        "29 23 0:26 / /c rw - cgroup2 cgroup2\n",
                                        "- - - - - - -\n",
                                        "29 23 0:26 / /c\\77 rw - cgroup x \\\n" };
  for (size_t i = 0; i < SHOAL_COUNT(groups); i++)
    for (size_t k = 0; k < SHOAL_COUNT(mounts); k++) {
      machine(groups[i], mounts[k]);
      NO_MEMORY(limits());
    }
  static const char *const values[] = { "",       "\n",         "max",      "-5\n",
                                        "lots\n", "0x10\n 5\n", "16 MiB\n", "99999999999999999999999999\n",
                                        "\xff\n" };
  machine("0::/a\n5:cpu,memory:/a\n", MOUNTS_2 MOUNT_1("cpu,memory", "/"));
  for (size_t i = 0; i < SHOAL_COUNT(values); i++) {
    put("/sys/fs/cgroup/a/memory.max", values[i]);
    put("/sys/fs/cgroup/cpu,memory/a/memory.limit_in_bytes", values[i]);
    put("/sys/fs/cgroup/a/cpu.max", values[i]);
    put("/sys/fs/cgroup/cpu,memory/a/cpu.cfs_quota_us", values[i]);
    put("/sys/fs/cgroup/cpu,memory/a/cpu.cfs_period_us", "0\n");
    shoal_cgroup c = limits();
    CHECK_EQ(c.memory, UINT64_MAX, "\"%s\"", values[i]);
    CHECK_EQ(c.cpus, 0, "\"%s\"", values[i]);
  }
  put("/sys/fs/cgroup/a/cpu.max", "100000 0\n");
  CHECK_EQ(limits().cpus, 0, "a period of 0");
}

/* The file limit of this process follows its own groups. */
static void this_machine(void)
{
  shoal_cgroup c = { 0 };
  unsetenv("SHOAL_MEMORY_LIMIT_MIB");
  shoal_cgroup_read("", &c);
  CHECK_GT(c.memory_left, 0);
  CHECK_LE(c.memory_left, c.memory);
  if (c.memory_left < UINT64_MAX - (64 << 20)) CHECK_LE(shoal_memory_limit(), c.memory_left / 2 + (64 << 20));
}

static void memory_kills(void)
{
  clear_tree();
  CHECK_EQ(shoal_memory_kills(root), 0);
  put("/proc/vmstat", "pgfault 12\noom_kill 3\noom_kill_other 9\nunevictable_pgs_culled 1\n");
  CHECK_EQ(shoal_memory_kills(root), 3);
}

int main(void)
{
  REQUIRE(mkdtemp(root), "a folder");
  version_2_nested();
  version_1();
  both();
  parts();
  nonsense();
  this_machine();
  memory_kills();
  clear_tree();
  return check_done();
}
