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
static inline size_t shoal_round_up(size_t n, size_t to)
{
  return (n + to - 1) / to * to;
}
#endif
