/* What the files of ckpt/ share: the seal at the end of a file, the steps of opening, and every fault in words. */
#ifndef SHOAL_CKPT_CKPT_IMPL_H
#define SHOAL_CKPT_CKPT_IMPL_H
#include "base/error.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "h5/h5.h"
#include <stddef.h>

enum {
  SHOAL_CKPT_VERSION = 1,    /* of the format; raised only with a reader for all earlier ones */
  SHOAL_CKPT_PIECE = 4 << 20 /* bytes that are read and checked at a time */
};

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
  shoal_h5 file;
  shoal_ckpt_info info;
  char *config, *placement; /* what info.config and info.placement point at */
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
#endif
