/* The index of a checkpoint file: of which save it is, its shards if it has some, and one entry per data set, sorted by
 * name. */
#ifndef SHOAL_CKPT_INDEX_H
#define SHOAL_CKPT_INDEX_H
#include "base/status.h"
#include "h5/dtype.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SHOAL_CKPT_MAX_DIMS = 8,   /* as in h5/ */
  SHOAL_CKPT_MAX_NAME = 240, /* bytes of a data set's name */
  SHOAL_CKPT_SAVE = 33       /* bytes of the text of a save's number: 128 bits in hexadecimal digits */
};

typedef struct {
  char *name; /* "model/conv1.weight" */
  shoal_dtype type;
  int ndim;
  uint64_t dims[SHOAL_CKPT_MAX_DIMS];
  uint64_t n, bytes, offset; /* n elements, stored as `bytes` contiguous bytes at file offset `offset`; equal arrays may
                                have the same */
  uint32_t crc;
  uint32_t shard; /* the file that holds it: 0, the main one, or a shard */
} shoal_ckpt_entry;
typedef struct {
  uint64_t bytes; /* of the file */
  uint32_t seal;  /* checksum of its seal, which has those of all its bytes */
} shoal_ckpt_shard;
typedef struct {
  shoal_ckpt_entry *at;
  size_t n, cap;
  char save[SHOAL_CKPT_SAVE]; /* random number of the save, the same in all its files; "" in version 1 */
  uint32_t number;            /* of this file: 0, the main one, or a shard */
  shoal_ckpt_shard *shards;   /* [n_shards] shard k is shards[k - 1]; only in the main file */
  size_t n_shards;
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
/** Whether two entries describe the same bytes: type, shape, checksum, and where they are. */
bool shoal_ckpt_same_bytes(const shoal_ckpt_entry *a, const shoal_ckpt_entry *b);
void shoal_ckpt_index_sort(shoal_ckpt_index *x);
void shoal_ckpt_index_free(shoal_ckpt_index *x);
#endif
