/* The lease of a run folder: many processes at once, leases of the gone and of those that cannot be asked. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "check.h"
#include "train/lease.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/shoal-lease-XXXXXX";

static void put(const char *text, int seconds_old)
{
  char *path = shoal_path_join(folder, "lease");
  FILE *f = fopen(path, "w");
  REQUIRE(f, "%s", path);
  fputs(text, f);
  fclose(f);
  struct timespec then[2] = { { time(NULL) - seconds_old, 0 }, { time(NULL) - seconds_old, 0 } };
  CHECK(utimensat(AT_FDCWD, path, then, 0) == 0, "%s", path);
  free(path);
}

static int entries(void)
{
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
  closedir(d);
  return n;
}

/* @return  1: taken, 0: wait, 2: refused */
static int attempt(bool patient, shoal_lease **l)
{
  double left_s;
  if (!*l) REQUIRE(shoal_lease_create(folder, patient, NULL, NULL, l) == SHOAL_OK, "lease");
  shoal_status st = shoal_lease_try(*l, &left_s);
  if (st == SHOAL_OK) return left_s == 0 ? 1 : 0;
  CHECK(st == SHOAL_ERR_WORLD, "status %d", st);
  return 2;
}

/* A child that tries until it has the lease or is refused, says so, and lives on: its lease is not given back. */
static void race(int start, int results)
{
  char go, got = 0;
  shoal_lease *l = NULL;
  REQUIRE(read(start, &go, 1) == 0, "the start");
  uint64_t begin = shoal_now_ns();
  while ((got = (char)attempt(false, &l)) == 0 && shoal_seconds_since(begin) < 2) {}
  REQUIRE(write(results, &got, 1) == 1, "the result");
  for (;;) pause();
}

static void test_race(const char *text)
{
  enum { MANY = 24 };
  pid_t child[MANY];
  int start[2], results[2], taken = 0;
  put(text, 600);
  REQUIRE(pipe(start) == 0, "pipe");
  REQUIRE(pipe(results) == 0, "pipe");
  for (int i = 0; i < MANY; i++)
    if ((child[i] = fork()) == 0) {
      close(start[1]);
      race(start[0], results[1]);
    }
  close(start[0]);
  close(start[1]); /* all at once */
  for (int i = 0; i < MANY; i++) {
    char got;
    REQUIRE(read(results[0], &got, 1) == 1, "result %d", i);
    taken += got == 1;
  }
  close(results[0]);
  close(results[1]);
  for (int i = 0; i < MANY; i++) {
    kill(child[i], SIGKILL);
    waitpid(child[i], NULL, 0);
  }
  CHECK_EQ(taken, 1);
  CHECK_EQ(entries(), 1);
}

static void test_one(void)
{
  shoal_lease *l = NULL, *other = NULL;
  put("job 11 host n9 pid 4242 started 1\n", 0);
  CHECK(attempt(true, &l) == 0, "a fresh lease of another host was taken, or not waited for");
  CHECK(attempt(false, &other) == 2, "an interactive start waits two minutes");
  shoal_lease_destroy(other);
  other = NULL;
  uint64_t since;
  int got;
  do { /* three seconds are left, or two and a bit; once more if this machine took them for the attempt itself */
    shoal_lease_destroy(other);
    other = NULL;
    since = shoal_now_ns();
    put("job 11 host n9 pid 4242 started 1\n", 117);
    got = attempt(false, &other);
  } while (shoal_seconds_since(since) > 2);
  CHECK(got == 0, "three seconds are not waited for");
  put("job 11 host n9 pid 4242 started 1\n", 121);
  CHECK(attempt(true, &l) == 1, "a stale lease was not taken");
  shoal_lease_destroy(other);
  other = NULL;
  int pid = fork(); /* another process of this kernel, while we live */
  if (pid == 0) {
    uint64_t start = shoal_now_ns();
    while ((got = attempt(true, &other)) == 0) usleep(100000);
    _exit(got == 2 && shoal_seconds_since(start) > 4 ? 0 : 1);
  }
  int status;
  waitpid(pid, &status, 0);
  CHECK(status == 0, "the lease of a living process was taken, or not waited for: %x", (unsigned)status);
  CHECK(!shoal_lease_lost(l), "the lease was lost");
  put("job - host n7 pid 1 started 1 restarts 0 boot b pids p token 00000000000000ff\n", 0);
  while (!shoal_lease_lost(l)) usleep(100000); /* the thread finds out */
  shoal_lease_destroy(l);
  CHECK(entries() == 1, "the lease of the one that took over was removed");
}

/* A lease touched in an hour, by a clock that was set back: a job waits two minutes, and who does not wait is told why. */
static void test_future(void)
{
  shoal_lease *l = NULL, *other = NULL;
  double left_s = 0;
  put("job 11 host n9 pid 4242 started 1\n", -3600);
  REQUIRE(shoal_lease_create(folder, true, NULL, NULL, &l) == SHOAL_OK, "lease");
  CHECK_OK(shoal_lease_try(l, &left_s));
  CHECK_GT(left_s, 0);
  CHECK(left_s <= 120, "%g s", left_s);
  CHECK_EQ(attempt(false, &other), 2);
  CHECK_HAS(check_error(), "still to come");
  shoal_lease_destroy(l);
  shoal_lease_destroy(other);
}

/* A job that was requeued: the earlier start has ended.  Another step of the same start has not. */
static void test_requeued(void)
{
  shoal_lease *l = NULL;
  setenv("SLURM_JOB_ID", "12", 1);
  put("job 12 host n9 pid 4242 started 1 restarts 0 boot b pids p token 0000000000000001\n", 0);
  CHECK(attempt(true, &l) == 0, "the lease of another step was taken");
  shoal_lease_destroy(l);
  l = NULL;
  setenv("SLURM_RESTART_COUNT", "1", 1);
  CHECK(attempt(true, &l) == 1, "a requeued job waits for itself");
  shoal_lease_destroy(l);
  CHECK(entries() == 0, "%d files are left", entries());
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_RESTART_COUNT");
}

/* A folder that was copied with the lease of a run that lives, here this process: nobody works in the copy. */
static void test_copied(void)
{
  char copy[] = "/tmp/shoal-lease-XXXXXX", *text = NULL;
  size_t n = 0;
  double left_s = -1;
  shoal_lease *l = NULL, *other = NULL;
  CHECK(attempt(false, &l) == 1, "a folder without a lease");
  char *from = shoal_path_join(folder, "lease");
  REQUIRE(mkdtemp(copy), "a folder");
  char *to = shoal_path_join(copy, "lease");
  REQUIRE(shoal_read_file(from, &text, &n) == SHOAL_OK, "%s", from);
  REQUIRE(shoal_write_file(to, text, n) == SHOAL_OK, "%s", to);
  REQUIRE(shoal_lease_create(copy, false, NULL, NULL, &other) == SHOAL_OK, "lease");
  CHECK(shoal_lease_try(other, &left_s) == SHOAL_OK, "the lease of a copied folder counts");
  CHECK(left_s == 0, "the lease of a copied folder is waited for");
  CHECK(!shoal_lease_lost(l), "the lease was lost");
  shoal_lease_destroy(other);
  shoal_lease_destroy(l);
  CHECK(rmdir(copy) == 0, "files are left");
  free(from);
  free(to);
  free(text);
}

/* Garbage, and a process number that another process has now. */
static void test_odd(void)
{
  static const char *const odd[] = { "", "\n", "job", "job x host y pid zz started 1\n", "lease\n" };
  for (size_t i = 0; i < SHOAL_COUNT(odd); i++) {
    shoal_lease *l = NULL;
    bool cut = !strchr(odd[i], '\n'); /* whoever makes it writes it at once, or was killed */
    put(odd[i], cut ? 2 : 10);
    CHECK(attempt(!cut, &l) == 0, "\"%s\", fresh", odd[i]);
    put(odd[i], cut ? 6 : 121);
    CHECK(attempt(!cut, &l) == 1, "\"%s\", stale", odd[i]);
    shoal_lease_destroy(l);
  }
  CHECK(entries() == 0, "%d files are left", entries());
}

static void test_jobs(void)
{
  static const char *const all[] = { "SLURM_JOB_ID", "PBS_JOBID",   "LSB_JOBID",     "LSB_JOBINDEX",
                                     "JOB_ID",       "SGE_TASK_ID", "SGE_O_WORKDIR", "KUBERNETES_SERVICE_HOST",
                                     "FLUX_JOB_ID",  "HOSTNAME" };
  char job[SHOAL_LEASE_JOB];
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) unsetenv(all[i]);
  CHECK(!shoal_lease_job(job));
  setenv("HOSTNAME", "pod-0", 1);
  CHECK(!shoal_lease_job(job), "every host has a name");
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  CHECK(shoal_lease_job(job));
  CHECK_STR(job, "pod-0");
  setenv("FLUX_JOB_ID", "f2x", 1);
  CHECK(shoal_lease_job(job));
  CHECK_STR(job, "f2x");
  unsetenv("FLUX_JOB_ID");
  unsetenv("KUBERNETES_SERVICE_HOST");
  setenv("JOB_ID", "7", 1);
  CHECK(!shoal_lease_job(job), "anybody's variable");
  setenv("SGE_O_WORKDIR", "/x", 1);
  setenv("SGE_TASK_ID", "undefined", 1);
  CHECK(shoal_lease_job(job));
  CHECK_STR(job, "7");
  setenv("LSB_JOBID", "55", 1);
  setenv("LSB_JOBINDEX", "3", 1);
  CHECK(shoal_lease_job(job));
  CHECK_STR(job, "55[3]");
  setenv("PBS_JOBID", "12[4].server", 1);
  CHECK(shoal_lease_job(job));
  CHECK_STR(job, "12[4].server");
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) unsetenv(all[i]);
}

int main(void)
{
  REQUIRE(mkdtemp(folder), "%s", folder);
  test_jobs();
  test_one();
  test_future();
  test_requeued();
  test_copied();
  test_odd();
  test_race("job 11 host n9 pid 4242 started 1\n");
  test_race("");
  char *path = shoal_path_join(folder, "lease");
  unlink(path);
  free(path);
  rmdir(folder);
  return check_done();
}
