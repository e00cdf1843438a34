/* Reading never dies of a lock, writing never asks for one.
 *
 * Two provocations: a preloaded flock() that fails with each number network file systems answer, in a child process
 * that this program starts from itself; and a second process that holds an exclusive lock on the file. */
#include "base/log.h"
#include "h5/h5.h"
#include "unit/h5_temp.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const float ones[4] = { 1, 1, 1, 1 };
static const uint64_t four = 4;

static int read_file(const char *path)
{
  shoal_h5 file;
  float x[4] = { 0 };
  if (shoal_h5_open(path, &file) != SHOAL_OK) return 1;
  shoal_status st = shoal_h5_read(file, "x", SHOAL_F32, 4, x);
  shoal_h5_close(file);
  return st != SHOAL_OK || memcmp(x, ones, sizeof x) != 0;
}

static int write_file(const char *path)
{
  shoal_h5 file;
  if (shoal_h5_create(temp_fresh(path), &file) != SHOAL_OK) return 1;
  shoal_status st = shoal_h5_write(file, "x", SHOAL_F32, 1, &four, ones);
  shoal_h5_close(file);
  return st != SHOAL_OK;
}

/* Run `self MODE FILE` with the given environment, its output going to the file "out"; returns the exit status. */
static int start(const char *self, const char *mode, const char *path, const char *const *environment)
{
  const char *out = temp_path("out");
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    for (; environment[0]; environment += 2) setenv(environment[0], environment[1], 1);
    execl(self, self, mode, path, (char *)NULL);
    _exit(126);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void slurp(const char *name, char text[4096])
{
  FILE *f = fopen(temp_path(name), "r");
  size_t n = f ? fread(text, 1, 4095, f) : 0;
  text[n] = '\0';
  if (f) fclose(f);
}

static long lock_calls(void)
{
  struct stat s;
  return stat(temp_path("calls"), &s) == 0 ? (long)s.st_size : 0;
}

/* One line, and it names the file system's answer and the setting; a lock that is held, or looks so, is a warning. */
static void check_note(const char *answer)
{
  char text[4096];
  slurp("out", text);
  char *end = strchr(text, '\n');
  CHECK_HAS(text, "without a file lock", "not one clear line");
  CHECK_HAS(text, answer);
  CHECK_HAS(text, "HDF5_USE_FILE_LOCKING");
  CHECK_EQ(strstr(text, "warning: another process is writing") != NULL, strstr(answer, "temporarily") != NULL);
  if (CHECK(end)) CHECK_EQ(end[1], '\0');
}

static void broken_locks(const char *self, const char *shim, const char *path)
{
  static const struct {
    const char *number, *wish, *answer;
  } cases[] = {
    { "11", NULL, "Resource temporarily unavailable" },
    { "37", NULL, "No locks available" },
    { "524", NULL, "Unknown error 524" },
    { "37", "TRUE", "No locks available" },
    { "11", "BEST_EFFORT", "temporarily unavailable" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unlink(temp_path("calls"));
    const char *env[] = { "LD_PRELOAD",
                          shim,
                          "NOLOCK_ERRNO",
                          cases[i].number,
                          "NOLOCK_LOG",
                          temp_path("calls"),
                          cases[i].wish ? "HDF5_USE_FILE_LOCKING" : NULL,
                          cases[i].wish,
                          NULL };
    CHECK_EQ(start(self, "write", temp_path("new.h5"), env), 0, "writing with errno %s", cases[i].number);
    CHECK_EQ(lock_calls(), 0);
    CHECK_EQ(start(self, "read", path, env), 0, "reading with errno %s", cases[i].number);
    CHECK_GT(lock_calls(), 0, "the shim was not used");
    check_note(cases[i].answer);
  }
}

static void locks_switched_off(const char *self, const char *shim, const char *path)
{
  char text[4096];
  unlink(temp_path("calls"));
  const char *env[] = { "LD_PRELOAD", shim, "NOLOCK_LOG", temp_path("calls"), "HDF5_USE_FILE_LOCKING", "FALSE", NULL };
  CHECK_EQ(start(self, "read", path, env), 0, "reading with locks off");
  slurp("out", text);
  CHECK_EQ(lock_calls(), 0, "said \"%s\"", text);
  CHECK_STR(text, "");
}

/* Eight readers while somebody else holds the file. */
static void held_elsewhere(const char *self, const char *path)
{
  int ready[2];
  char c;
  REQUIRE(pipe(ready) == 0, "pipe");
  pid_t holder = fork();
  if (holder == 0) {
    int fd = open(path, O_RDONLY);
    c = flock(fd, LOCK_EX) == 0 ? 'y' : 'n';
    if (write(ready[1], &c, 1) == 1) pause();
    _exit(0);
  }
  CHECK_EQ(read(ready[0], &c, 1), 1, "the holder has its lock");
  CHECK_EQ(c, 'y');
  const char *none[] = { NULL };
  for (int i = 0; i < 8; i++) {
    CHECK_EQ(start(self, "read", path, none), 0, "reader %d", i);
    check_note("Resource temporarily unavailable");
  }
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  close(ready[0]);
  close(ready[1]);
}

/* A file this process is still writing can be read by it too, without any message. */
static void own_writer(const char *self)
{
  char text[4096];
  const char *none[] = { NULL };
  CHECK_EQ(start(self, "both", temp_path("both.h5"), none), 0, "reading what is being written");
  slurp("out", text);
  CHECK_STR(text, "");
}

static int write_and_read(const char *path)
{
  shoal_h5 file;
  if (shoal_h5_create(temp_fresh(path), &file) != SHOAL_OK) return 1;
  shoal_status st = shoal_h5_write(file, "x", SHOAL_F32, 1, &four, ones);
  int bad = st != SHOAL_OK || shoal_h5_flush(file) != SHOAL_OK || read_file(path);
  shoal_h5_close(file);
  return bad;
}

int main(int argc, char **argv)
{
  if (argc == 3 && strcmp(argv[1], "read") == 0) return read_file(argv[2]) | read_file(argv[2]);
  if (argc == 3 && strcmp(argv[1], "write") == 0) return write_file(argv[2]);
  if (argc == 3 && strcmp(argv[1], "both") == 0) return write_and_read(argv[2]);
  REQUIRE(argc == 2, "usage: %s NOLOCK_SHIM", argv[0]);
  unsetenv("HDF5_USE_FILE_LOCKING");
  temp_make();
  const char *path = temp_path("data.h5");
  REQUIRE(write_file(path) == 0, "the data file");
  broken_locks(argv[0], argv[1], path);
  locks_switched_off(argv[0], argv[1], path);
  held_elsewhere(argv[0], path);
  own_writer(argv[0]);
  return check_done();
}
