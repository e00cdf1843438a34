/* A file that cannot be opened says which of the many reasons it is, in one line, with the path. */
#include "h5/h5.h"
#include "unit/h5_temp.h"
#include <hdf5.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_good(const char *path)
{
  static float x[4096];
  uint64_t dim = 4096;
  shoal_h5 file;
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create %s", path);
  CHECK_OK(shoal_h5_write(file, "x", SHOAL_F32, 1, &dim, x));
  shoal_h5_close(file);
}

/* What a writer in the newest format leaves if it is killed. */
static void mark_as_open(const char *path)
{
  pid_t child = fork();
  if (child == 0) {
    shoal_h5_init();
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    _exit(f < 0 || H5Fflush(f, H5F_SCOPE_GLOBAL) < 0);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child, "child");
  CHECK_EQ(status, 0);
}

int main(void)
{
  shoal_h5 file = { 0 };
  struct stat s;
  temp_make();
  const char *good = temp_path("good.h5"), *bad = temp_path("bad.h5");

  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "there is no such file");
  CHECK_REFUSED(shoal_h5_open(temp_dir, &file), SHOAL_ERR_IO, "not a regular file");
  temp_write(bad, "", 0);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "it is empty (0 bytes)");
  temp_write(bad, "hello, I am a text\n", 19);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "not an HDF5 file");
  temp_write(bad, "\211HDF", 4);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "not an HDF5 file");

  make_good(bad);
  CHECK_EQ(stat(bad, &s), 0);
  CHECK_GT(s.st_size, 16384);
  char want[100];
  snprintf(want, sizeof want, "it is cut off, %lld of %lld bytes", (long long)s.st_size - 1024, (long long)s.st_size);
  CHECK_EQ(truncate(bad, s.st_size - 1024), 0);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, want);
  CHECK_EQ(truncate(bad, 40), 0);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "cut off, only 40 bytes");
  temp_write(
      bad,
      "\211HDF\r\n\032\nzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
      101);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "damaged");
  CHECK(!shoal_h5_is_open(file), "a failed open must not touch the handle");

  mark_as_open(bad);
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "bad.h5: it is marked as open for writing");
  CHECK_REFUSED(shoal_h5_open(bad, &file), SHOAL_ERR_IO, "h5clear -s ");

  CHECK_REFUSED(shoal_h5_create(temp_path("no/such/folder.h5"), &file), SHOAL_ERR_IO, "No such file or directory");
  CHECK_REFUSED(shoal_h5_create(temp_dir, &file), SHOAL_ERR_IO, "cannot create");
  make_good(temp_path("there.h5"));
  REQUIRE(symlink("elsewhere.h5", temp_path("link.h5")) == 0, "symlink");
  CHECK_REFUSED(shoal_h5_create(temp_path("there.h5"), &file), SHOAL_ERR_IO, "File exists");
  CHECK_REFUSED(shoal_h5_create(temp_path("link.h5"), &file), SHOAL_ERR_IO, "File exists");
  CHECK_NE(access(temp_path("elsewhere.h5"), F_OK), 0, "nothing is written through a link");

  make_good(good);
  CHECK_OK(shoal_h5_open(good, &file));
  CHECK_REFUSED(shoal_h5_write(file, "y", SHOAL_F32, 0, NULL, &s), SHOAL_ERR_IO, "cannot create /y in");
  shoal_h5_close(file);
  shoal_h5_close((shoal_h5){ 0 });
  return check_done();
}
