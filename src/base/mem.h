/* Memory with 64-byte alignment, overflow-checked sizes, and an error message that states the amount requested. */
#ifndef SHOAL_BASE_MEM_H
#define SHOAL_BASE_MEM_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

#define SHOAL_ALIGN        64
#define SHOAL_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHOAL_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define SHOAL_MAX(a, b)    ((a) > (b) ? (a) : (b))

/** Zeroed and 64-byte aligned; release with free().  ERR_MEM, which states the amount, if there is not enough memory or
 *  n * size overflows; *out is NULL then, so that clean-up code may free it in any case.  n = 0 is allowed. */
shoal_status shoal_alloc(size_t n, size_t size, const char *what, void **out);
#define SHOAL_ALLOC(n, ptr_out) shoal_alloc((n), sizeof **(ptr_out), #ptr_out, (void **)(ptr_out))
/** Memory that other processes of this machine can map: zeroed and page-aligned, and there, so that lack of memory is an error
 *  here and not a SIGBUS later.  *file is its open file, which has no name: a killed process leaves nothing behind, and it does
 *  not count against the size of /dev/shm, which containers keep small.  After an error *out is NULL. */
shoal_status shoal_mappable_alloc(size_t bytes, const char *what, void **out, int *file);
void shoal_mappable_free(void *memory, size_t bytes); /* NULL is fine; the caller closes the file, at any time */
static inline size_t shoal_round_up(size_t n, size_t to)
{
  return (n + to - 1) / to * to;
}
#endif
