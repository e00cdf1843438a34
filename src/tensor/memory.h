/* Memory of a backend.  docs/memory.md shows who allocates what, and how a batch passes through it.
 *
 *   kind      who touches it                                     for
 *   DEVICE    only the backend's functions                       arenas: weights, gradients, state, activations
 *   SHARED    the same, and comm, which other ranks of the node  gradients and other arenas that are summed in place;
 *             let map it (shoal_group_register); where the     mirrors of those that the host cannot reach
 *             host cannot reach DEVICE memory as PINNED, too
 *   PINNED    the backend's functions, and the host once         parcels, results of operations, what is staged
 *             `settle` has returned
 *   host      host code: from malloc; not of this type           descriptions, schedules, files
 *
 * Backends on the host give memory that anybody may touch.  Code above tensor/ may not rely on it. */
#ifndef SHOAL_TENSOR_MEMORY_H
#define SHOAL_TENSOR_MEMORY_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum { SHOAL_MEMORY_DEVICE, SHOAL_MEMORY_SHARED, SHOAL_MEMORY_PINNED } shoal_memory_kind;

/* A float that host code may touch: behind a window, or from malloc.  The compiler sees no difference; tests/lint/arenas lets host code
 * loop over these only. */
typedef float shoal_host_float;

typedef struct {
  void *at;     /* NULL: none */
  size_t bytes; /* as asked for */
  shoal_memory_kind kind;
  int file; /* SHARED: of shoal_mappable_alloc */
} shoal_memory;

/** For backends on the host. */
shoal_status shoal_host_memory_alloc_shared(size_t bytes, const char *what, shoal_memory *out);
void shoal_host_memory_release(shoal_memory *m);

/* A rectangle of units, copied between two places.  Row unit i of a side is its rows (index[i] + shift) * grain and the
 * grain - 1 that follow, each `stride` elements after the last; column unit j starts at element (index[j] + shift) * width of a
 * row and is `width` elements.  Where a side has no list, index[i] is i.
 *
 *     from   . . a b . c . .        rows 1, cols 3, width 1, from.cols {2, 3, 5}, to: no list
 *     to     a b c                                                                              */
typedef struct {
  const int64_t *rows, *cols; /* host memory, read before the call returns; NULL: 0, 1, 2, ... */
  int64_t row_shift, col_shift;
  size_t stride;
} shoal_tile_side;
typedef struct {
  size_t rows, cols, width;
  size_t grain; /* rows of a row unit, 1 or more */
  shoal_tile_side from, to;
} shoal_tile;
static inline size_t shoal_tile_count(const shoal_tile *t) /* elements */
{
  return t->rows * t->grain * t->cols * t->width;
}

/* A mark in the order of a backend's work, reached once everything asked for before it is done.  {0}: reached.  A value, to be
 * copied freely; it is made by shoal_backend_mark. */
typedef struct shoal_backend shoal_backend;
typedef struct {
  shoal_backend *backend;
  uint64_t number;
} shoal_event;

/* 16-bit formats: see half.h. */
typedef enum { SHOAL_BF16, SHOAL_F16 } shoal_half;
#endif
