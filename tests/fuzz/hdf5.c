/* Reads every data set and attribute of a file with HDF5 alone, in a child process with limits. */
#include "fuzz/hdf5.h"
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <sanitizer/allocator_interface.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGEST = 1 << 24, MEMORY = 1 << 28, CPU_MS = 200, WALL_S = 10 };

/* The address sanitizer reserves more address space than RLIMIT_AS could allow, so memory is counted here. */
static void count_malloc(const volatile void *p, size_t n)
{
  static size_t total;
  if (n > MEMORY || (total += n) > MEMORY) _exit(1);
}

static void count_free(const volatile void *p)
{
}

/* libFuzzer's handlers, which the child inherits, would ignore the alarm and report the child's crash as one of ours. */
static void set_limits(void)
{
  static const int signals[] = { SIGALRM, SIGPROF, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT };
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
  setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_usec = CPU_MS * 1000 }, NULL);
  alarm(WALL_S);
  if (!__sanitizer_install_malloc_and_free_hooks(count_malloc, count_free)) _exit(1);
}

/* Reads all elements, or one if there are too many: HDF5 then still reads the chunk that the element is in. */
static void read_set(hid_t set, hid_t native, hid_t space, size_t elements, size_t size)
{
  hsize_t start[H5S_MAX_RANK] = { 0 }, one[H5S_MAX_RANK];
  hid_t memory = H5S_ALL;
  for (int i = 0; i < H5S_MAX_RANK; i++) one[i] = 1;
  if (elements > LARGEST / size) {
    elements = 1;
    memory = H5Screate(H5S_SCALAR);
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, one, NULL) < 0) return;
  }
  void *data = calloc(elements, size);
  if (data && H5Dread(set, native, memory, memory == H5S_ALL ? H5S_ALL : space, H5P_DEFAULT, data) >= 0 &&
      memory == H5S_ALL)
    H5Dvlen_reclaim(native, space, H5P_DEFAULT, data);
  free(data);
}

static void read_all(hid_t space, hid_t type, hid_t object, bool is_attribute)
{
  hid_t native = H5Tget_native_type(type, H5T_DIR_DEFAULT);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  size_t size = native < 0 ? 0 : H5Tget_size(native);
  if (n <= 0 || size == 0 || size > LARGEST) return;
  if (!is_attribute) {
    read_set(object, native, space, (size_t)n, size);
  } else if ((size_t)n <= LARGEST / size) {
    void *data = calloc((size_t)n, size);
    if (data && H5Aread(object, native, data) >= 0) H5Dvlen_reclaim(native, space, H5P_DEFAULT, data);
    free(data);
  }
}

static herr_t read_attribute(hid_t at, const char *name, const H5A_info_t *info, void *nothing)
{
  hid_t a = H5Aopen(at, name, H5P_DEFAULT);
  if (a >= 0) read_all(H5Aget_space(a), H5Aget_type(a), a, true);
  return 0;
}

static herr_t read_object(hid_t at, const char *name, const H5L_info_t *link, void *nothing)
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
    set_limits();
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file >= 0) {
      H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, read_attribute, NULL);
      H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, read_object, NULL);
      H5Fclose(file);
    }
    _exit(0);
  }
  pid_t ended = child;
  while (child > 0 && (ended = waitpid(child, &how, 0)) < 0 && errno == EINTR) continue; /* libFuzzer's own timer */
  return child > 0 && ended == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}
