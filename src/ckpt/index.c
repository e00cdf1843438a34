/* The index of all data sets of a checkpoint, and functions for shapes.
 *
 * The index is needed because HDF5 cannot detect a missing data set: a file whose group lost an entry is still valid.
 * It is stored after the HDF5 part (seal.c), and verification compares the two. */
#include "ckpt/index.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checksums are taken over memory, which must be "
                                                          "little-endian like the file");

shoal_status shoal_ckpt_elements(shoal_dtype type, int ndim, const uint64_t *dims, uint64_t *n_out)
{
  const uint64_t most = (uint64_t)INT64_MAX / 8; /* 8 bytes: the widest type */
  if (shoal_dtype_size(type) == 0 || ndim < 0 || ndim > SHOAL_CKPT_MAX_DIMS) return SHOAL_ERR_ARG;
  uint64_t n = 1, product = 1; /* `product` ignores zeros: [0, 2^63] is empty but not a valid shape */
  for (int i = 0; i < ndim; i++) {
    n = dims[i] == 0 ? 0 : n;
    if (dims[i] > 1 && product > most / dims[i]) return SHOAL_ERR_ARG;
    product *= dims[i] ? dims[i] : 1;
  }
  *n_out = n ? product : 0;
  return SHOAL_OK;
}

const char *shoal_ckpt_shape_text(int ndim, const uint64_t *dims, char *buf, size_t cap)
{
  size_t used = (size_t)snprintf(buf, cap, ndim ? "[" : "scalar");
  for (int i = 0; i < ndim && used < cap; i++)
    used +=
        (size_t)snprintf(buf + used, cap - used, "%s%" PRIu64 "%s", i ? ", " : "", dims[i], i + 1 == ndim ? "]" : "");
  return buf;
}

shoal_ckpt_entry *shoal_ckpt_index_add(shoal_ckpt_index *x, const char *name)
{
  if (x->n == x->cap) {
    size_t cap = x->cap ? 2 * x->cap : 64;
    shoal_ckpt_entry *more = realloc(x->at, cap * sizeof *more);
    if (!more) return NULL;
    x->at = more;
    x->cap = cap;
  }
  shoal_ckpt_entry *e = &x->at[x->n];
  memset(e, 0, sizeof *e);
  e->name = strdup(name);
  if (!e->name) return NULL;
  x->n++;
  return e;
}

bool shoal_ckpt_same_bytes(const shoal_ckpt_entry *a, const shoal_ckpt_entry *b)
{
  return a->type == b->type && a->ndim == b->ndim && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
         a->crc == b->crc && a->shard == b->shard && a->offset == b->offset;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const shoal_ckpt_entry *)a)->name, ((const shoal_ckpt_entry *)b)->name);
}

void shoal_ckpt_index_sort(shoal_ckpt_index *x)
{
  if (x->n > 1) qsort(x->at, x->n, sizeof *x->at, by_name);
}

size_t shoal_ckpt_index_lower_bound(const shoal_ckpt_index *x, const char *name)
{
  size_t low = 0, high = x->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(x->at[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const shoal_ckpt_entry *shoal_ckpt_index_find(const shoal_ckpt_index *x, const char *name)
{
  size_t i = shoal_ckpt_index_lower_bound(x, name);
  return i < x->n && strcmp(x->at[i].name, name) == 0 ? &x->at[i] : NULL;
}

void shoal_ckpt_index_free(shoal_ckpt_index *x)
{
  for (size_t i = 0; i < x->n; i++) free(x->at[i].name);
  free(x->at);
  free(x->shards);
  *x = (shoal_ckpt_index){ 0 };
}
