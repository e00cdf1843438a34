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
  uint64_t n, bytes, offset; /* `bytes` stand at `offset` of the file, in one run */
  uint32_t crc;
} shoal_ckpt_entry;
typedef struct {
  shoal_ckpt_entry *at;
  size_t n, cap;
} shoal_ckpt_index;

/** First entry whose name is not below `name`; x->n when there is none. */
size_t shoal_ckpt_index_lower(const shoal_ckpt_index *x, const char *name);
const shoal_ckpt_entry *shoal_ckpt_index_find(const shoal_ckpt_index *x, const char *name); /* NULL: there is none */
/** "[64, 3, 3, 3]", "scalar"; writes into buf and returns it. */
const char *shoal_ckpt_shape_text(int ndim, const uint64_t *dims, char *buf, size_t cap);
/** Elements of a shape (1 for a scalar).  ERR_ARG, quietly, when they or their bytes do not fit 63 bits. */
shoal_status shoal_ckpt_elements(shoal_dtype type, int ndim, const uint64_t *dims, uint64_t *n_out);

/* ---- for those who fill one ---- */
/** A zeroed entry at the end, or NULL when there is no memory. */
shoal_ckpt_entry *shoal_ckpt_index_add(shoal_ckpt_index *x, const char *name);
void shoal_ckpt_index_sort(shoal_ckpt_index *x);
void shoal_ckpt_index_free(shoal_ckpt_index *x);
#endif
