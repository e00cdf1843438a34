/* What the files of ckpt/ share: the index of data sets, the seal at the end of a file, and asking without noise. */
#ifndef SHOAL_CKPT_CKPT_IMPL_H
#define SHOAL_CKPT_CKPT_IMPL_H
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "h5/h5.h"
#include <stddef.h>

enum {
  SHOAL_CKPT_VERSION = 1,    /* of the format; raised only with a reader for all earlier ones */
  SHOAL_CKPT_MAX_DIMS = 8,   /* as in h5/ */
  SHOAL_CKPT_MAX_NAME = 240, /* bytes of a data set's name */
  SHOAL_CKPT_PIECE = 4 << 20 /* bytes that are sent, read or checked at a time */
};

hid_t shoal_ckpt_file_type(shoal_dtype t);   /* little-endian, as it stands in the file */
hid_t shoal_ckpt_native_type(shoal_dtype t); /* borrowed handles, both */
/** Elements of a shape (1 for a scalar).  ERR_ARG, quietly, when they or their bytes do not fit 63 bits. */
shoal_status shoal_ckpt_elements(shoal_dtype type, int ndim, const uint64_t *dims, uint64_t *n_out);
/** "[64, 3, 3, 3]", "scalar"; writes into buf and returns it. */
const char *shoal_ckpt_shape_text(int ndim, const uint64_t *dims, char *buf, size_t cap);

/* ---- the index: one entry per data set, sorted by name ---- */
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
/** A zeroed entry at the end, or NULL when there is no memory. */
shoal_ckpt_entry *shoal_ckpt_index_add(shoal_ckpt_index *x, const char *name);
void shoal_ckpt_index_sort(shoal_ckpt_index *x);
/** First entry whose name is not below `name`; x->n when there is none. */
size_t shoal_ckpt_index_lower(const shoal_ckpt_index *x, const char *name);
const shoal_ckpt_entry *shoal_ckpt_index_find(const shoal_ckpt_index *x, const char *name);
void shoal_ckpt_index_free(shoal_ckpt_index *x);

/* ---- the seal: index and check sums behind the HDF5 bytes, readable without HDF5 ---- */
typedef struct {
  uint64_t hdf5_bytes, index_bytes;
  uint32_t hdf5_crc, index_crc;
} shoal_ckpt_seal;
/** Append index and seal to a closed HDF5 file, push it to the disk and out of the page cache, so that a check which
 *  follows reads what the disk holds.  ERR_IO with the free bytes when the disk is full. */
shoal_status shoal_ckpt_seal_write(const char *path, const shoal_ckpt_index *index);
/** Read seal and index of an open file: cheap, the data is not read.  ERR_IO says what the file is instead. */
shoal_status shoal_ckpt_seal_read(int fd, const char *path, shoal_ckpt_seal *seal, shoal_ckpt_index *index);
/** CRC-32C of `bytes` bytes at `offset`, read piece by piece.  ERR_IO with the system's words. */
shoal_status shoal_ckpt_crc_range(int fd, const char *path, uint64_t offset, uint64_t bytes, uint32_t *crc_out);
/** Exactly n bytes, or ERR_IO. */
shoal_status shoal_ckpt_read_at(int fd, const char *path, uint64_t offset, void *data, size_t n);

/* ---- a checkpoint open for reading ---- */
struct shoal_ckpt {
  char *path;
  int fd;
  hid_t file;
  shoal_ckpt_info info;
  char *config, *placement; /* what info.config and info.placement point at */
  char created[32];         /* when it was written */
  shoal_ckpt_seal seal;
  shoal_ckpt_index index;
  const char **names;
};

/* ---- every fault of a file, in words ---- */
typedef struct {
  shoal_str lines; /* each ends with a newline */
  size_t n;
} shoal_ckpt_faults;
void shoal_ckpt_faults_add(shoal_ckpt_faults *f, char *line); /* frees the line; NULL is no fault */
/** "LINE", or "LINE (and 3 more: shoal ckpt verify)"; NULL when there is none.  Caller frees. */
char *shoal_ckpt_faults_first(const shoal_ckpt_faults *f);
/** Compare everything that can be compared and collect the faults, without printing; `c` comes from open_seal.  Opens
 *  c->file when the bytes are whole. */
void shoal_ckpt_examine(shoal_ckpt *c, shoal_ckpt_faults *faults);
/** The steps of opening, for reader.c and check.c. */
shoal_status shoal_ckpt_open_seal(const char *path, shoal_ckpt **out);
shoal_status shoal_ckpt_open_hdf5(shoal_ckpt *c);

/* Looking at files that may be damaged must neither print nor become "the first error" of the run.  Between begin and
 * end failures are silent; end restores what was kept and gives the words of the failure, or NULL when `st` is OK
 * (caller frees). */
typedef struct {
  char *before;
} shoal_ckpt_hush;
void shoal_ckpt_hush_begin(shoal_ckpt_hush *h);
char *shoal_ckpt_hush_end(shoal_ckpt_hush *h, shoal_status st);

/* ---- folders ---- */
typedef struct {
  char *path;
  uint64_t step;
} shoal_ckpt_file;
typedef struct {
  shoal_ckpt_file *at; /* newest first */
  size_t n;
  char **temporaries; /* names below the folder */
  size_t n_temporaries;
} shoal_ckpt_folder;
/** What lies in a folder; a missing folder is an empty one. */
shoal_status shoal_ckpt_folder_scan(const char *dir, shoal_ckpt_folder *out);
void shoal_ckpt_folder_free(shoal_ckpt_folder *f);
/** Open with full verification, silently.  NULL and *why (caller frees) when it cannot be used. */
shoal_ckpt *shoal_ckpt_folder_try(const shoal_ckpt_file *file, char **why);
#endif
