/* Memory with a promise: 64-byte alignment, sizes that cannot wrap, and a message that says how much was wanted. */
#ifndef SHOAL_BASE_MEM_H
#define SHOAL_BASE_MEM_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

#define SHOAL_ALIGN        64
#define SHOAL_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHOAL_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define SHOAL_MAX(a, b)    ((a) > (b) ? (a) : (b))

/** Zeroed, 64-byte aligned, freed by free().  n * size may not overflow: ERR_MEM names the amount. n = 0 is fine.
 *  After an error *out is NULL, so that a caller may free on every path what it has asked for. */
shoal_status shoal_alloc(size_t n, size_t size, const char *what, void **out);
#define SHOAL_ALLOC(n, ptr_out) shoal_alloc((n), sizeof **(ptr_out), #ptr_out, (void **)(ptr_out))
static inline size_t shoal_round_up(size_t n, size_t to)
{
  return (n + to - 1) / to * to;
}
#endif
