/* Zeroed, aligned memory, with the size checked for overflow.
 *
 * 64 bytes is the size of a cache line and of the widest vector register, so kernels need no peel loop, and threads
 * that own adjacent buffers have no false sharing.  Zeroing touches every page at allocation, which keeps page faults
 * out of the first training step. */
#include "base/mem.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
