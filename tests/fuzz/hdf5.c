/* Reads every data set and attribute of a file with HDF5 alone, in a child process. */
#include "fuzz/hdf5.h"
#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGEST = 1 << 24 };

static void read_all(hid_t space, hid_t type, hid_t object, bool is_attribute)
{
  hid_t native = H5Tget_native_type(type, H5T_DIR_DEFAULT);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  size_t size = native < 0 ? 0 : H5Tget_size(native);
  void *data = n > 0 && size > 0 && (size_t)n <= LARGEST / size ? calloc((size_t)n, size) : NULL;
  if (data && is_attribute) H5Aread(object, native, data);
  if (data && !is_attribute) H5Dread(object, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
}

static herr_t read_attribute(hid_t at, const char *name, const H5A_info_t *info, void *nothing)
{
  hid_t a = H5Aopen(at, name, H5P_DEFAULT);
  if (a >= 0) read_all(H5Aget_space(a), H5Aget_type(a), a, true);
  return 0;
}

static herr_t read_object(hid_t at, const char *name, const H5O_info_t *info, void *nothing)
{
  hid_t object = H5Oopen(at, name, H5P_DEFAULT);
  if (object < 0) return 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, read_attribute, NULL);
  if (H5Iget_type(object) == H5I_DATASET) read_all(H5Dget_space(object), H5Dget_type(object), object, false);
  return 0;
}

bool fuzz_hdf5_survives(const char *path)
{
  int how = 0;
  pid_t child = fork();
  if (child == 0) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    alarm(1);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file >= 0) H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, read_object, NULL);
    if (file >= 0) H5Fclose(file);
    _exit(0);
  }
  return child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}
