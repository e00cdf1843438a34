/* Data sets of filtered chunks, read by rows.
 *
 * HDF5 finds a chunk and gives its bytes as they are stored; filters.c unpacks them, HDF5 converts the elements of the rows
 * asked for, and these are copied out.  Why HDF5 does not do all of it is said in filters.c; besides, its lock is
 * not held while a chunk is unpacked.
 *
 *              dims[1]
 *        ┌───────┬───────┬────┐      chunk i of a row of chunks starts at multiples of chunk[1], chunk[2], ...
 *     row│ 0     │ 1     │ 2  │      those at the edges reach beyond the data set and are stored whole
 *        ├───────┼───────┼────┤
 *        │ 3     │ 4     │ 5  │
 *        └───────┴───────┴────┘
 *
 * Chunks stay unpacked in slots, chunk i in slot i modulo their number: reads in order find them there,
 * and so do reads in random order of a data set that fits. */
#include "base/limit.h"
#include "base/mem.h"
#include "h5/h5_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE = 16 << 20, MOST_SLOTS = 4096 };

typedef struct {
  bool full;
  uint64_t chunk; /* its number */
  uint8_t *bytes; /* unpacked, as they are in the file */
} slot;

struct shoal_h5_chunks {
  hid_t set; /* borrowed */
  int ndim, flat;
  uint64_t dims[8], chunk[8], tiles[8];  /* tiles: chunks along each dimension */
  size_t chunk_stride[8], row_stride[8]; /* bytes from one index to the next, in a chunk and in the caller's rows */
  shoal_h5_filters filters;
  bool plain_edges;         /* chunks at the edges skip the filters */
  hid_t stored, type;       /* of an element, in the file and in memory; `type` is borrowed */
  size_t stored_size, size; /* of these, in bytes */
  size_t elements, bytes;   /* of a chunk as it is stored */
  uint8_t *blank;           /* the element where no chunk was written, as it is stored */
  uint8_t *converted;       /* rows of a chunk; NULL if both types are the same */
  uint8_t *background;      /* zeros that HDF5 needs to convert records, else NULL */
  shoal_h5_work work;
  size_t n_slots;
  slot *slots;
};

void shoal_h5_chunks_close(shoal_h5_chunks *c)
{
  if (!c) return;
  for (size_t i = 0; c->slots && i < c->n_slots; i++) free(c->slots[i].bytes);
  free(c->slots);
  free(c->blank);
  free(c->converted);
  free(c->background);
  free(c->work.bytes);
  free(c->work.spare);
  shoal_h5_release(c->stored);
  free(c);
}

/* Strides, tiles, and the first dimension behind which chunks have the full width. */
static void measure(shoal_h5_chunks *c)
{
  size_t chunk_stride = c->size, row_stride = c->size;
  for (int i = c->ndim - 1; i >= 0; i--) {
    c->chunk_stride[i] = chunk_stride;
    c->row_stride[i] = row_stride;
    chunk_stride *= c->chunk[i];
    row_stride *= c->dims[i];
    c->tiles[i] = c->dims[i] / c->chunk[i] + (c->dims[i] % c->chunk[i] > 0);
  }
  for (c->flat = c->ndim - 1; c->flat > 0 && c->chunk[c->flat] == c->dims[c->flat];) c->flat--;
}

static shoal_status count_bytes(shoal_h5_chunks *c, hid_t at, const char *name)
{
  char where[SHOAL_H5_WHERE];
  c->elements = 1;
  bool fits = true;
  for (int i = 0; i < c->ndim; i++) fits = fits && !__builtin_mul_overflow(c->elements, c->chunk[i], &c->elements);
  fits = fits && !__builtin_mul_overflow(c->elements, c->stored_size, &c->bytes);
  /* HDF5 stores a chunk unfiltered if a filter makes it longer, so hardly more than its bytes are stored. */
  fits = fits && !__builtin_add_overflow(c->bytes, c->bytes / 8 + 4096, &c->work.room);
  SHOAL_CHECK(fits && c->work.room <= UINT32_MAX, SHOAL_ERR_IO,
              "data set %s is filtered in chunks of more than 3.5 GiB, which is not read: write it with smaller chunks",
              shoal_h5_where(at, name, where));
  return shoal_limit_memory(shoal_h5_where(at, name, where), "a chunk", c->elements,
                            3 * (uint64_t)c->stored_size + 2 * (uint64_t)c->size);
}

static shoal_status allocate(shoal_h5_chunks *c)
{
  const size_t fit = SHOAL_MIN(CACHE / SHOAL_MAX(c->bytes, (size_t)1), (size_t)MOST_SLOTS);
  uint64_t all = 1;
  for (int i = 0; i < c->ndim; i++) all *= SHOAL_MAX(c->tiles[i], UINT64_C(1));
  c->n_slots = (size_t)SHOAL_MIN(all, SHOAL_MAX(fit, (size_t)1));
  SHOAL_TRY(SHOAL_ALLOC(c->n_slots, &c->slots));
  SHOAL_TRY(SHOAL_ALLOC(c->work.room, &c->work.bytes));
  SHOAL_TRY(SHOAL_ALLOC(c->work.room, &c->work.spare));
  SHOAL_TRY(SHOAL_ALLOC(c->stored_size, &c->blank));
  if (H5Tequal(c->stored, c->type) > 0) return SHOAL_OK;
  SHOAL_TRY(shoal_alloc(c->elements, SHOAL_MAX(c->stored_size, c->size), "a chunk", (void **)&c->converted));
  if (H5Tdetect_class(c->stored, H5T_COMPOUND) <= 0) return SHOAL_OK;
  return shoal_alloc(c->elements, c->size, "a chunk", (void **)&c->background);
}

/* Zeros if the fill value is undefined. */
static void read_blank(shoal_h5_chunks *c, hid_t dcpl)
{
  H5D_fill_value_t what;
  if (H5Pfill_value_defined(dcpl, &what) < 0 || what == H5D_FILL_VALUE_UNDEFINED) return;
  if (H5Pget_fill_value(dcpl, c->stored, c->blank) < 0) memset(c->blank, 0, c->stored_size);
  H5Eclear2(H5E_DEFAULT);
}

static shoal_status set_up(shoal_h5_chunks *c, hid_t dcpl, hid_t at, const char *name)
{
  unsigned options = 0;
  if ((c->stored = H5Dget_type(c->set)) < 0) return shoal_h5_fail_at(__FILE__, __LINE__, "open data set", at, name);
  c->stored_size = H5Tget_size(c->stored);
  c->size = H5Tget_size(c->type);
  SHOAL_TRY(shoal_h5_filters_of(dcpl, at, name, &c->filters));
  c->plain_edges = H5Pget_chunk_opts(dcpl, &options) >= 0 && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  SHOAL_TRY(count_bytes(c, at, name));
  measure(c);
  SHOAL_TRY(allocate(c));
  read_blank(c, dcpl);
  return SHOAL_OK;
}

shoal_status shoal_h5_chunks_open(hid_t set, const shoal_h5_facts *f, hid_t type, hid_t at, const char *name,
                                  shoal_h5_chunks **out)
{
  shoal_h5_chunks *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->set = set;
  c->type = type;
  c->stored = H5I_INVALID_HID;
  c->ndim = f->ndim;
  memcpy(c->dims, f->dims, sizeof c->dims);
  memcpy(c->chunk, f->chunk, sizeof c->chunk);
  hid_t dcpl = H5Dget_create_plist(set);
  shoal_status st =
      dcpl < 0 ? shoal_h5_fail_at(__FILE__, __LINE__, "open data set", at, name) : set_up(c, dcpl, at, name);
  shoal_h5_release(dcpl);
  if (st == SHOAL_OK)
    *out = c;
  else
    shoal_h5_chunks_close(c);
  return st;
}

/* ---- a chunk ---- */

/* Reads its bytes as they are stored; none if it was never written. */
static bool fetch(shoal_h5_chunks *c, const hsize_t offset[8], uint32_t *skipped, char reason[SHOAL_H5_REASON])
{
  hsize_t stored = 0;
  c->work.n = 0;
  if (H5Dget_chunk_storage_size(c->set, offset, &stored) < 0) {
    if (shoal_h5_stack_says("chunk storage is not allocated", NULL)) return true;
    shoal_h5_error_reason(reason);
    return false;
  }
  if (stored > c->work.room) {
    snprintf(reason, SHOAL_H5_REASON, "a chunk of %zu bytes is stored in %llu", c->bytes, (unsigned long long)stored);
    return false;
  }
  if (stored > 0 && H5Dread_chunk(c->set, H5P_DEFAULT, offset, skipped, c->work.bytes) < 0) {
    shoal_h5_error_reason(reason);
    return false;
  }
  c->work.n = stored;
  return true;
}

static bool load(shoal_h5_chunks *c, const hsize_t offset[8], uint8_t *bytes, char reason[SHOAL_H5_REASON])
{
  uint32_t skipped = 0;
  if (!fetch(c, offset, &skipped, reason)) return false;
  if (c->work.n == 0) {
    for (size_t i = 0; i < c->elements; i++) memcpy(bytes + i * c->stored_size, c->blank, c->stored_size);
    return true;
  }
  for (int i = 0; c->plain_edges && i < c->ndim; i++)
    if (offset[i] + c->chunk[i] > c->dims[i]) skipped = UINT32_MAX;
  if (!shoal_h5_unfilter(&c->filters, skipped, c->bytes, &c->work, reason)) return false;
  memcpy(bytes, c->work.bytes, c->bytes);
  return true;
}

/* The bytes of a chunk, or NULL with the reason. */
static const uint8_t *get_chunk(shoal_h5_chunks *c, uint64_t number, const hsize_t offset[8],
                                char reason[SHOAL_H5_REASON])
{
  slot *s = &c->slots[number % c->n_slots];
  if (s->full && s->chunk == number) return s->bytes;
  s->full = false;
  if (!s->bytes) s->bytes = malloc(c->bytes);
  if (!s->bytes) {
    snprintf(reason, SHOAL_H5_REASON, "no memory for a chunk");
    return NULL;
  }
  if (!load(c, offset, s->bytes, reason)) return NULL;
  s->chunk = number;
  s->full = true;
  return s->bytes;
}

/* The elements in memory of n rows of a chunk, or NULL with the reason. */
static const uint8_t *convert(shoal_h5_chunks *c, const uint8_t *bytes, uint64_t n, char reason[SHOAL_H5_REASON])
{
  const size_t elements = c->elements / c->chunk[0] * n;
  if (!c->converted) return bytes;
  memcpy(c->converted, bytes, elements * c->stored_size);
  if (c->background) memset(c->background, 0, elements * c->size);
  if (H5Tconvert(c->stored, c->type, elements, c->converted, c->background, H5P_DEFAULT) >= 0) return c->converted;
  shoal_h5_error_reason(reason);
  return NULL;
}

/* ---- rows ---- */

static void copy_box(const shoal_h5_chunks *c, int dim, const uint64_t extent[8], const uint8_t *from, uint8_t *to)
{
  if (dim == c->flat) {
    memcpy(to, from, extent[dim] * c->row_stride[dim]);
    return;
  }
  for (uint64_t i = 0; i < extent[dim]; i++)
    copy_box(c, dim + 1, extent, from + i * c->chunk_stride[dim], to + i * c->row_stride[dim]);
}

bool shoal_h5_chunks_read(shoal_h5_chunks *c, uint64_t first, uint64_t n, void *data, char reason[SHOAL_H5_REASON])
{
  uint64_t across = 1, extent[8];
  hsize_t offset[8];
  for (int i = 1; i < c->ndim; i++) across *= c->tiles[i];
  for (uint64_t row = first, end; row < first + n; row = end) {
    const uint64_t down = row / c->chunk[0], inside = row % c->chunk[0];
    offset[0] = row - inside;
    extent[0] = SHOAL_MIN(first + n - row, c->chunk[0] - inside);
    end = row + extent[0];
    for (uint64_t tile = 0; tile < across; tile++) {
      uint8_t *to = (uint8_t *)data + (row - first) * c->row_stride[0];
      uint64_t left = tile;
      for (int i = c->ndim - 1; i > 0; left /= c->tiles[i--]) {
        offset[i] = left % c->tiles[i] * c->chunk[i];
        extent[i] = SHOAL_MIN(c->chunk[i], c->dims[i] - offset[i]);
        to += offset[i] * c->row_stride[i];
      }
      const uint8_t *from = get_chunk(c, down * across + tile, offset, reason);
      if (from) from = convert(c, from + inside * (c->bytes / c->chunk[0]), extent[0], reason);
      if (!from) return false;
      copy_box(c, 0, extent, from, to);
    }
  }
  return true;
}
