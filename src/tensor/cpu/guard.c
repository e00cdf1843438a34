/* Keeps oneDNN's memory apart from ours.
 *
 * The matrix product of oneDNN 2.6 reads up to 32 bytes beyond a buffer that it has packed ("0 bytes after a block of size
 * 16,640", says valgrind), and its generated code is checked by no sanitizer.  Reading is harmless unless nothing is mapped there;
 * writing as far would damage what malloc keeps between blocks, and the process would end in some later, innocent call.  oneDNN
 * allocates by posix_memalign alone, as few others do: with the one here, which takes precedence over the C library's, a
 * distance lies behind every block.  The sanitizers have their own. */
#include <errno.h>
#include <stdlib.h>

#if !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { DISTANCE = 512 };

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
  if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  size_t whole = (bytes + DISTANCE + alignment - 1) / alignment * alignment;
  int before = errno;
  void *p = whole < bytes ? NULL : aligned_alloc(alignment, whole);
  errno = before;
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

#endif
