/* Limits on what a file may ask for.  Sizes in a file are claims: before memory is allocated for them, they are compared
 * with what the file can hold and with the memory that there is.  Check sums are no protection: whoever makes a file up
 * makes them up, too. */
#ifndef SHOAL_BASE_LIMIT_H
#define SHOAL_BASE_LIMIT_H
#include "base/status.h"
#include <stdint.h>

/** Most bytes of memory for the contents of one file: half of what this process could still get by the kernel, its
 *  control group and its resource limits; or SHOAL_MEMORY_LIMIT_MIB from the environment. */
uint64_t shoal_memory_limit(void);
/** Most bytes that a file this process writes may have (ulimit -f); UINT64_MAX: no limit. */
uint64_t shoal_limit_file_size(void);
/** ERR_MEM naming the file if `n` items of `size` bytes overflow or exceed shoal_memory_limit(). */
shoal_status shoal_limit_memory(const char *path, const char *what, uint64_t n, uint64_t size);
/** ERR_IO naming the file if `n` items of `size` bytes overflow or are more than the `held` bytes it can hold. */
shoal_status shoal_limit_held(const char *path, const char *what, uint64_t n, uint64_t size, uint64_t held);
#endif
