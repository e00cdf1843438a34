/* Checkpoints do not depend on file locks.
 *
 * This program brings its own flock(), which HDF5 then calls: it refuses with the numbers network file systems use (11,
 * 37, 524), or really locks.  Checkpoints are written, verified and read under each; then while another open file of
 * this program holds an exclusive lock on the very file. */
#include "base/log.h"
#include "unit/ckpt_fixture.h"
#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>

static int refuse_with, calls;

int flock(int fd, int operation)
{
  calls++;
  if (!refuse_with) return (int)syscall(SYS_flock, fd, operation);
  errno = refuse_with;
  return -1;
}

static void write_and_read(const char *dir, uint64_t step)
{
  shoal_ckpt *c = NULL;
  char *path = fixture_write(dir, step), *latest = NULL;
  uint64_t found = 0;
  if (CHECK_OK(shoal_ckpt_open(path, true, &c), "errno %d: read", refuse_with))
    CHECK(fixture_matches(c, step), "errno %d: read", refuse_with);
  shoal_ckpt_close(c);
  CHECK_OK(shoal_ckpt_latest(dir, &latest, &found), "errno %d: latest", refuse_with);
  CHECK_EQ(found, step, "errno %d: latest", refuse_with);
  if (CHECK_OK(shoal_ckpt_prune(dir, 1, SHOAL_CKPT_NOT_ONE), "errno %d: prune", refuse_with))
    CHECK_EQ(fixture_count(dir), 1, "errno %d: prune", refuse_with);
  free(latest);
  free(path);
}

/* The lock is on the inode, so a second open file of one process is as foreign as another process. */
static void locked_by_another(const char *dir)
{
  shoal_ckpt *c = NULL;
  char *path = fixture_write(dir, 99);
  int fd = open(path, O_RDWR);
  REQUIRE(fd >= 0, "lock");
  REQUIRE(syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0, "lock");
  if (CHECK_OK(shoal_ckpt_open(path, true, &c), "read under a foreign lock")) CHECK(fixture_matches(c, 99));
  shoal_ckpt_close(c);
  free(path);
  path = fixture_write(dir, 99); /* replaces the locked file by its name */
  CHECK_OK(shoal_ckpt_open(path, true, &c), "and replaced");
  shoal_ckpt_close(c);
  close(fd);
  free(path);
}

int main(void)
{
  static const int numbers[] = { 11, 37, 524, 0 };
  const char *dir = fixture_make();
  for (size_t i = 0; i < SHOAL_COUNT(numbers); i++) {
    refuse_with = numbers[i];
    write_and_read(dir, 1 + i);
  }
  CHECK_GT(calls, 0, "the library does ask for locks, so the refusals were real");
  locked_by_another(dir);
  CHECK_STR(check_error(), "");
  return check_done();
}
