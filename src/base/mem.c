/* Zeroed, aligned memory, with the size checked for overflow.
 *
 * 64 bytes is the size of a cache line and of the widest vector register, so kernels need no peel loop, and threads
 * that own adjacent buffers have no false sharing.  Zeroing touches every page at allocation, which keeps page faults
 * out of the first training step. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

shoal_status shoal_alloc(size_t n, size_t size, const char *what, void **out)
{
  size_t bytes;
  void *memory = NULL;
  char amount[32];
  *out = NULL;
  bool fits = !__builtin_mul_overflow(n, size, &bytes) && bytes <= SIZE_MAX - SHOAL_ALIGN;
  if (fits) {
    bytes = SHOAL_MAX(shoal_round_up(bytes, SHOAL_ALIGN), (size_t)SHOAL_ALIGN);
    if (posix_memalign(&memory, SHOAL_ALIGN, bytes) != 0) memory = NULL;
  }
  SHOAL_CHECK(memory, SHOAL_ERR_MEM, "out of memory: %s needs %s (%zu x %zu bytes)", what,
              shoal_format_bytes((double)n * (double)size, amount, sizeof amount), n, size);
  *out = memset(memory, 0, bytes);
  return SHOAL_OK;
}

static void *map(int fd, size_t bytes)
{
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return at == MAP_FAILED ? NULL : at;
}

shoal_status shoal_mappable_alloc(size_t bytes, const char *what, void **out, int *file)
{
  size_t whole = SHOAL_MAX(bytes, (size_t)1);
  *out = NULL;
  *file = memfd_create("shoal", MFD_CLOEXEC);
  if (*file >= 0 && (errno = posix_fallocate(*file, 0, (off_t)whole)) == 0) *out = map(*file, whole);
  int error = errno;
  if (!*out && *file >= 0) close(*file);
  SHOAL_CHECK(*out, SHOAL_ERR_MEM, "%zu bytes of %s: %s%s", bytes, what, strerror(error),
              error == EFBIG ? " (it counts as a file: raise ulimit -f)" : "");
  (void)madvise(*out, whole, MADV_HUGEPAGE); /* fewer TLB misses, if the system allows it */
  return SHOAL_OK;
}

void shoal_mappable_free(void *memory, size_t bytes)
{
  if (memory) munmap(memory, SHOAL_MAX(bytes, (size_t)1));
}
