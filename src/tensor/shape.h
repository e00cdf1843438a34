/* Shapes: up to five dimensions, the batch first, row-major, 64-bit. */
#ifndef SHOAL_TENSOR_SHAPE_H
#define SHOAL_TENSOR_SHAPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOAL_MAX_DIMS = 5 };
typedef struct {
  int ndim;
  int64_t dim[SHOAL_MAX_DIMS];
} shoal_shape;

#define SHOAL_SHAPE(...) ((shoal_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })

enum { SHOAL_SHAPE_TEXT = 128 }; /* five 20-digit numbers, brackets and commas */
/** Writes "[64,3,32,32]" and returns buf. */
const char *shoal_shape_text(const shoal_shape *s, char buf[SHOAL_SHAPE_TEXT]);

static inline int64_t shoal_shape_count(const shoal_shape *s) /* elements; 1 for ndim 0 */
{
  int64_t n = 1;
  for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}
static inline bool shoal_shape_equal(const shoal_shape *a, const shoal_shape *b)
{
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}
#endif
