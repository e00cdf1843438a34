/* The folder: latest skips what is damaged and says why, sweep follows its rule, prune never takes the last good one. */
#include "base/file.h"
#include "base/log.h"
#include "unit/ckpt_fixture.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const char *dir;

/* What the log says meanwhile, also what it prints to the terminal's place. */
static char *log_text;
static size_t log_bytes;
static FILE *log_file;
static void log_begin(void)
{
  REQUIRE(log_file = open_memstream(&log_text, &log_bytes), "open_memstream");
  shoal_log_set_file(log_file, "log");
}
static void log_end(void)
{
  shoal_log_set_file(NULL, NULL);
  fclose(log_file);
  free(log_text);
  log_text = NULL;
}
static int log_lines(void)
{
  int n = 0;
  fflush(log_file);
  for (const char *c = log_text; (c = strchr(c, '\n')); c++) n++;
  return n;
}

static void empty_folder(void)
{
  char *command = shoal_strdup_printf("rm -rf '%s'/* '%s'/.step*", dir, dir);
  REQUIRE(system(command) == 0, "%s", command);
  free(command);
}

static char *name_of(uint64_t step)
{
  return shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
}
static void make(uint64_t step)
{
  free(fixture_write(dir, step));
}
static bool there(uint64_t step)
{
  char *path = name_of(step);
  bool yes = shoal_path_exists(path);
  free(path);
  return yes;
}

/* The checkpoints of these steps, one digit each, and no others stand in the folder. */
static void check_stand(const char *steps, const char *why)
{
  for (int step = 1; step <= 6; step++)
    CHECK_EQ(there((uint64_t)step), strchr(steps, '0' + step) != NULL, "step %d: %s", step, why);
}
static void damage(uint64_t step)
{
  unsigned char *bytes;
  size_t n;
  char *path = name_of(step);
  fixture_read(path, &bytes, &n);
  bytes[n / 2] ^= 4;
  fixture_spoil(path, bytes, n);
  free(bytes);
  free(path);
}

static void check_latest(const char *what, uint64_t want, int warnings)
{
  char *path = NULL, *expected = name_of(want);
  uint64_t step = 0;
  log_begin();
  CHECK_OK(shoal_ckpt_latest(dir, &path, &step), "%s", what);
  CHECK_EQ(log_lines(), warnings, "%s: \"%s\"", what, log_text ? log_text : "");
  CHECK_EQ(check_error()[0], '\0', "%s: what is skipped is no error", what);
  if (want) {
    CHECK_STR(path, expected, "%s", what);
    CHECK_EQ(step, want, "%s", what);
  } else
    CHECK(!path, "%s: %s", what, path);
  log_end();
  free(path);
  free(expected);
}

static void latest_skips_what_is_damaged(void)
{
  char *missing = shoal_strdup_printf("%s/none", dir), *path = NULL;
  uint64_t step;
  CHECK_OK(shoal_ckpt_latest(missing, &path, &step), "no folder, no checkpoint");
  CHECK(!path);
  free(missing);
  check_latest("an empty folder", 0, 0);
  make(9);
  make(10);
  make(100);
  check_latest("by number, not by letter", 100, 0);
  damage(100);
  check_latest("damaged", 10, 1);
  char *name = name_of(1000), *old = name_of(9), *same = name_of(500);
  fixture_spoil(name, "", 0);
  check_latest("and an empty one with the newest name", 10, 2);
  REQUIRE(link(old, same) == 0, "link");
  check_latest("and one whose name lies", 10, 3);
  char *other = shoal_strdup_printf("%s/step-2000.h5.bak", dir), *text = shoal_strdup_printf("%s/step-x.h5", dir);
  fixture_spoil(other, "x", 1);
  fixture_spoil(text, "x", 1);
  check_latest("other names do not count", 10, 3);
  damage(10);
  damage(9);
  check_latest("none is good", 0, 5);
  free(name);
  free(old);
  free(same);
  free(other);
  free(text);
  empty_folder();
}

static void an_earlier_error_is_kept(void)
{
  make(1);
  damage(1);
  SHOAL_FAIL(SHOAL_ERR_NUMERIC, "the first reason");
  char *path;
  uint64_t step;
  CHECK_OK(shoal_ckpt_latest(dir, &path, &step));
  CHECK(!path);
  CHECK_STR(check_error(), "the first reason");
  empty_folder();
}

static void prune_keeps_the_good(void)
{
  CHECK_OK(shoal_ckpt_prune(dir, 2, SHOAL_CKPT_NOT_ONE));
  for (uint64_t s = 1; s <= 5; s++) make(s);
  CHECK_OK(shoal_ckpt_prune(dir, 6, SHOAL_CKPT_NOT_ONE));
  CHECK_EQ(fixture_count(dir), 5, "nothing to remove");
  CHECK_OK(shoal_ckpt_prune(dir, 3, SHOAL_CKPT_NOT_ONE));
  CHECK_EQ(fixture_count(dir), 3);
  check_stand("345", "the newest three");
  damage(5);
  CHECK_OK(shoal_ckpt_prune(dir, 1, SHOAL_CKPT_NOT_ONE));
  check_stand("45", "a damaged one does not count, and stays while it is the newest");
  damage(4);
  CHECK_OK(shoal_ckpt_prune(dir, 1, SHOAL_CKPT_NOT_ONE));
  check_stand("45", "none is good: nothing goes");
  make(2);
  CHECK_OK(shoal_ckpt_prune(dir, 0, SHOAL_CKPT_NOT_ONE));
  check_stand("245", "the last good one stays, however old, also when 0 are wanted");
  CHECK_OK(shoal_ckpt_prune(dir, -3, SHOAL_CKPT_NOT_ONE));
  check_stand("245", "and when fewer than that are");
  make(6);
  CHECK_OK(shoal_ckpt_prune(dir, 1, SHOAL_CKPT_NOT_ONE));
  CHECK_EQ(fixture_count(dir), 1);
  check_stand("6", "damaged ones go once they are older than what is kept");
  empty_folder();
}

/* What was just saved counts, though it is not the newest and damaged by now, and is not removed for newer ones. */
static void prune_spares_what_was_saved(void)
{
  for (uint64_t s = 1; s <= 6; s++) make(s);
  damage(4);
  CHECK_OK(shoal_ckpt_prune(dir, 2, 4));
  check_stand("3456", "it and one more; newer ones are left alone");
  CHECK_OK(shoal_ckpt_prune(dir, 1, 4));
  check_stand("456", "it alone");
  empty_folder();
}

static void set_aside(void)
{
  size_t n = 0;
  char *branch = shoal_path_join(dir, "before-attempt-2"), *moved = shoal_path_join(branch, "step-000000003.h5"), *path;
  uint64_t step;
  CHECK_OK(shoal_ckpt_set_aside(dir, 7, "before-attempt-2", &n));
  CHECK(!shoal_path_exists(branch), "a folder for nothing");
  for (uint64_t s = 1; s <= 4; s++) make(s);
  CHECK_OK(shoal_ckpt_set_aside(dir, 2, "before-attempt-2", &n));
  CHECK_EQ(n, 2);
  check_stand("12", "later ones are gone");
  CHECK(shoal_path_exists(moved), "%s", moved);
  CHECK_OK(shoal_ckpt_latest(dir, &path, &step));
  CHECK_EQ(step, 2);
  free(path);
  CHECK_OK(shoal_ckpt_set_aside(dir, -1, "before-attempt-2", &n));
  CHECK_EQ(n, 4);
  shoal_ckpt_folder f;
  CHECK_OK(shoal_ckpt_folder_scan(branch, &f));
  CHECK_EQ(f.n, 4);
  for (size_t i = 0; i < f.n; i++) unlink(f.at[i].path);
  shoal_ckpt_folder_free(&f);
  CHECK_EQ(rmdir(branch), 0);
  free(moved);
  free(branch);
  empty_folder();
}

/* A process that is gone for certain: our own child, waited for. */
static long dead_process(void)
{
  pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(child > 0, "fork");
  REQUIRE(waitpid(child, NULL, 0) == child, "fork");
  return (long)child;
}

static void sweep_rule(void)
{
  char host[128] = "", *own = shoal_temporary_name("step-000000001.h5");
  const char *mark = strstr(own, ".tmp-") + 5;
  snprintf(host, sizeof host, "%.*s", (int)(strrchr(own, '-') - mark), mark);
  const struct {
    const char *what, *host;
    long pid;
    int age_s;
    bool goes;
  } cases[] = {
    { "gone", host, dead_process(), 0, true },
    { "alive", host, (long)getpid(), 0, false },
    { "alive, but a day old", host, (long)getpid(), 90000, true },
    { "another host", "node-with-dashes-7", 4711, 3600, false },
    { "another host, old", "node-with-dashes-7", 4712, 90000, true },
    { "another host, whose name ours begins with", "x", dead_process(), 0, false },
  };
  make(1);
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    char *path = shoal_strdup_printf("%s/.step-%09zu.h5.tmp-%s-%ld", dir, i, cases[i].host, cases[i].pid);
    struct timespec times[2] = { { .tv_sec = time(NULL) - cases[i].age_s }, { .tv_sec = time(NULL) - cases[i].age_s } };
    fixture_spoil(path, "half", 4);
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0, "age of %s", path);
    log_begin();
    CHECK_OK(shoal_ckpt_sweep(dir), "%s", cases[i].what);
    CHECK_EQ(shoal_path_exists(path), !cases[i].goes, "%s", cases[i].what);
    CHECK_EQ(log_lines(), cases[i].goes ? 1 : 0, "%s: \"%s\"", cases[i].what, log_text);
    if (cases[i].goes) CHECK_HAS(log_text, path, "%s: the log names it", cases[i].what);
    log_end();
    unlink(path);
    free(path);
  }
  char *odd = shoal_strdup_printf("%s/.step-1.h5.tmp-nonsense", dir);
  fixture_spoil(odd, "x", 1);
  CHECK_OK(shoal_ckpt_sweep(dir));
  CHECK(shoal_path_exists(odd), "a name without a process stays for a day, checkpoints stay");
  CHECK(there(1));
  free(odd);
  free(own);
  empty_folder();
}

int main(void)
{
  dir = fixture_make();
  latest_skips_what_is_damaged();
  an_earlier_error_is_kept();
  prune_keeps_the_good();
  prune_spares_what_was_saved();
  set_aside();
  sweep_rule();
  return check_done();
}
