/* Files: whole or absent, folders made on the way, and clear words when it cannot be done. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/shoal-base-file-XXXXXX";

static char *in_folder(const char *name)
{
  return shoal_path_join(folder, name);
}

/* Entries of the test's folder, "." and ".." aside. */
static int count_entries(void)
{
  int n = 0;
  DIR *dir = opendir(folder);
  REQUIRE(dir, "%s", folder);
  for (struct dirent *e; (e = readdir(dir));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(dir);
  return n;
}

static void test_paths(void)
{
  static const struct {
    const char *dir, *name, *joined;
  } joins[] = { { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" }, { "a", "/b", "/b" }, { "/", "b", "/b" } };
  for (size_t i = 0; i < SHOAL_COUNT(joins); i++) {
    char *joined = shoal_path_join(joins[i].dir, joins[i].name);
    CHECK_STR(joined, joins[i].joined);
    free(joined);
  }
  CHECK_STR(shoal_path_base("/a/b.h5"), "b.h5");
  CHECK_STR(shoal_path_base("b"), "b");
}

static void test_temporary_names(void)
{
  char *a = shoal_temporary_name("runs/x/step.h5"), *b = shoal_temporary_name("step.h5"),
       *c = shoal_temporary_name("/f");
  CHECK(strncmp(a, "runs/x/.step.h5.tmp-", 20) == 0, "%s", a);
  CHECK(strncmp(b, ".step.h5.tmp-", 13) == 0, "%s", b);
  CHECK(strncmp(c, "/.f.tmp-", 8) == 0, "%s", c);
  CHECK(shoal_is_temporary(a));
  CHECK(shoal_is_temporary(b));
  static const char *const others[] = { "runs/.tmp-x/step.h5", "step.tmp-3", ".bashrc" };
  for (int i = 0; i < 3; i++) CHECK(!shoal_is_temporary(others[i]), "%s", others[i]);
  free(a);
  free(b);
  free(c);
}

static void test_write_and_read(void)
{
  char *path = in_folder("data"), *text = NULL;
  size_t n = 0;
  CHECK_OK(shoal_write_file(path, "first", 5));
  CHECK_OK(shoal_write_file(path, "second\0part", 11));
  CHECK_OK(shoal_read_file(path, &text, &n));
  if (CHECK_EQ(n, 11)) CHECK_BYTES(text, "second\0part", 12);
  free(text);
  CHECK_OK(shoal_write_file(path, "", 0));
  CHECK_OK(shoal_read_file(path, &text, &n));
  CHECK_EQ(n, 0);
  CHECK_STR(text, "");
  free(text);
  CHECK_EQ(count_entries(), 1);
  unlink(path);
  free(path);
  CHECK_OK(shoal_read_file("/proc/self/maps", &text, &n));
  CHECK_GT(n, 100, "a file of unknown size");
  CHECK_EQ(strlen(text), n);
  free(text);
}

/* An old file survives a write that fails, and no temporary file stays behind. */
static void test_failures(void)
{
  char *text = NULL, *missing = in_folder("no/such/file"), *sub = in_folder("sub"), *plain = in_folder("plain");
  size_t n = 99;
  CHECK_OK(shoal_make_dirs(sub));
  CHECK_OK(shoal_write_file(plain, "x", 1));
  CHECK_STATUS(shoal_read_file(missing, &text, &n), SHOAL_ERR_IO);
  CHECK(!text);
  CHECK_EQ(n, 99);
  CHECK_HAS(check_error(), missing);
  CHECK_HAS(check_error(), "No such file");
  CHECK_STATUS(shoal_read_file(folder, &text, &n), SHOAL_ERR_IO, "a folder is no file");
  CHECK_STATUS(shoal_write_file(missing, "x", 1), SHOAL_ERR_IO);
  CHECK_STATUS(shoal_write_file(sub, "x", 1), SHOAL_ERR_IO, "a folder stands in the way");
  char *below = shoal_path_join(plain, "below");
  CHECK_STATUS(shoal_make_dirs(below), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "Not a directory");
  CHECK_EQ(count_entries(), 2);
  rmdir(sub);
  unlink(plain);
  free(below);
  free(missing);
  free(sub);
  free(plain);
}

/* Whoever can foresee the temporary name could lay a link there: what it points to must stay as it is. */
static void test_link_in_the_way(void)
{
  char *path = in_folder("new"), *tmp = shoal_temporary_name(path), *victim = in_folder("victim"), *text = NULL;
  size_t n = 0;
  CHECK_OK(shoal_write_file(victim, "precious", 8));
  REQUIRE(symlink(victim, tmp) == 0, "symlink");
  CHECK_STATUS(shoal_write_file(path, "x", 1), SHOAL_ERR_IO);
  CHECK(!shoal_path_exists(path));
  CHECK_OK(shoal_read_file(victim, &text, &n));
  CHECK_EQ(n, 8);
  CHECK_STR(text, "precious");
  free(text);
  unlink(tmp);
  unlink(victim);
  free(victim);
  free(tmp);
  free(path);
}

/* A write that stops in the middle (here at a limit on the file size) leaves the old file and nothing else. */
static void test_broken_write(void)
{
  static char big[100000];
  struct rlimit old, small;
  char *path = in_folder("kept"), *text = NULL;
  size_t n = 0;
  CHECK_OK(shoal_write_file(path, "old", 3));
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0, "getrlimit");
  small = (struct rlimit){ 4096, old.rlim_max };
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
  CHECK_STATUS(shoal_write_file(path, big, sizeof big), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), path);
  CHECK_HAS(check_error(), "too large");
  setrlimit(RLIMIT_FSIZE, &old);
  CHECK_OK(shoal_read_file(path, &text, &n));
  CHECK_EQ(n, 3);
  CHECK_STR(text, "old");
  CHECK_EQ(count_entries(), 1);
  free(text);
  unlink(path);
  free(path);
}

static void test_folders(void)
{
  char *deep = in_folder("a/b//c/"), *ab = in_folder("a/b"), *abc = in_folder("a/b/c"), *a = in_folder("a");
  struct stat info;
  CHECK_OK(shoal_make_dirs(deep));
  CHECK_EQ(stat(abc, &info), 0);
  CHECK(S_ISDIR(info.st_mode));
  CHECK_OK(shoal_make_dirs(deep));
  CHECK_OK(shoal_make_dirs("/"));
  CHECK_OK(shoal_make_dirs("."));
  rmdir(abc);
  rmdir(ab);
  rmdir(a);
  free(deep);
  free(abc);
  free(ab);
  free(a);
}

static void test_disk_facts(void)
{
  uint64_t bytes = 0;
  const char *type = NULL;
  char *later = in_folder("not/there/yet");
  CHECK_OK(shoal_disk_facts(folder, &bytes, &type));
  CHECK_GT(bytes, 0);
  if (CHECK(type)) CHECK(*type);
  CHECK_OK(shoal_disk_facts(later, &bytes, &type));
  CHECK_OK(shoal_disk_facts("relative-and-absent", &bytes, &type));
  CHECK_OK(shoal_disk_facts("/proc", &bytes, &type));
  CHECK_STR(type, "unknown");
  free(later);
}

/* The limit, and the command that shows and raises it. */
static void test_many_open(void)
{
  struct rlimit before, none = { 0 };
  int fd = -1;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0, "limit");
  none.rlim_max = before.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0, "limit");
  CHECK_STATUS(shoal_open_file("/proc/self/stat", &fd, NULL), SHOAL_ERR_IO);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0, "limit");
  CHECK_HAS(check_error(), "Too many open files (at most 0 at a time: ulimit -n)");
}

int main(void)
{
  REQUIRE(mkdtemp(folder), "mkdtemp");
  test_paths();
  test_temporary_names();
  test_write_and_read();
  test_failures();
  test_link_in_the_way();
  test_broken_write();
  test_folders();
  test_disk_facts();
  test_many_open();
  CHECK_EQ(rmdir(folder), 0, "the folder is not empty");
  return check_done();
}
