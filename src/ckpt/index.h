/* The index of a checkpoint: one entry per data set, sorted by name. */
#ifndef SHOAL_CKPT_INDEX_H
#define SHOAL_CKPT_INDEX_H
#include "base/status.h"
#include "h5/dtype.h"
#include <stddef.h>
#include <stdint.h>

enum {
  SHOAL_CKPT_MAX_DIMS = 8,  /* as in h5/ */
  SHOAL_CKPT_MAX_NAME = 240 /* bytes of a data set's name */
};

typedef struct {
  char *name; /* "model/conv1.weight" */
  shoal_dtype type;
  int ndim;
  uint64_t dims[SHOAL_CKPT_MAX_DIMS];
  uint64_t n, bytes, offset; /* n elements, stored as `bytes` contiguous bytes at file offset `offset` */
  uint32_t crc;
} shoal_ckpt_entry;
typedef struct {
  shoal_ckpt_entry *at;
  size_t n, cap;
} shoal_ckpt_index;

/** Index of the first entry whose name is not less than `name`, or x->n. */
size_t shoal_ckpt_index_lower_bound(const shoal_ckpt_index *x, const char *name);
const shoal_ckpt_entry *shoal_ckpt_index_find(const shoal_ckpt_index *x, const char *name); /* NULL if there is none */
/** Format a shape as "[64, 3, 3, 3]" or "scalar"; writes into buf and returns it. */
const char *shoal_ckpt_shape_text(int ndim, const uint64_t *dims, char *buf, size_t cap);
/** Number of elements of a shape (1 for a scalar).  ERR_ARG, without a message, if it or the bytes exceed 63 bits. */
shoal_status shoal_ckpt_elements(shoal_dtype type, int ndim, const uint64_t *dims, uint64_t *n_out);

/* ---- building an index ---- */
/** Append a zeroed entry with a copy of `name`; NULL if out of memory. */
shoal_ckpt_entry *shoal_ckpt_index_add(shoal_ckpt_index *x, const char *name);
void shoal_ckpt_index_sort(shoal_ckpt_index *x);
void shoal_ckpt_index_free(shoal_ckpt_index *x);
#endif
