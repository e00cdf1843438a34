/* Declarations private to ckpt/: the seal at the end of a file, the steps of opening, and the list of faults. */
#ifndef SHOAL_CKPT_CKPT_IMPL_H
#define SHOAL_CKPT_CKPT_IMPL_H
#include "base/error.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "h5/h5.h"
#include <stddef.h>

enum {
  SHOAL_CKPT_VERSION = 2,    /* of the format; readers must support all earlier versions */
  SHOAL_CKPT_PIECE = 4 << 20 /* bytes read and checked at a time */
};

/* ---- the seal: index and checksums after the HDF5 part, readable without HDF5 ---- */
typedef struct {
  uint64_t hdf5_bytes, index_bytes;
  uint32_t hdf5_crc, index_crc, version;
  shoal_ckpt_shard file; /* how the main file of a checkpoint lists this one */
} shoal_ckpt_seal;
/** Append index and seal to a closed HDF5 file, fsync it, and drop it from the page cache, so that a verification reads
 *  from the disk.  ERR_IO, with the free bytes if the disk is full. */
shoal_status shoal_ckpt_seal_write(const char *path, const shoal_ckpt_index *index);
/** Read seal and index of an open file; cheap, since the data is not read.  ERR_IO states why it is no checkpoint. */
shoal_status shoal_ckpt_seal_read(int fd, const char *path, shoal_ckpt_seal *seal, shoal_ckpt_index *index);
/** CRC-32C of `bytes` bytes at `offset`, read in pieces.  ERR_IO with the system's error text. */
shoal_status shoal_ckpt_crc_range(int fd, const char *path, uint64_t offset, uint64_t bytes, uint32_t *crc_out);
/** Read exactly n bytes, or fail with ERR_IO. */
shoal_status shoal_ckpt_read_at(int fd, const char *path, uint64_t offset, void *data, size_t n);

/** Write n bytes.  ERR_IO, with the free bytes if the disk is full. */
shoal_status shoal_ckpt_write_at(int fd, const char *path, uint64_t offset, const void *data, size_t n);

/* ---- a checkpoint open for reading ---- */
struct shoal_ckpt {
  char *path;
  int fd;
  bool own; /* written by this run: HDF5 opens it without a trial in a child process */
  shoal_h5 file;
  shoal_ckpt_info info;
  char *config, *placement;                                /* storage of info.config and info.placement */
  char *kind, *class_names, *feature_names, *target_names; /* of info.data, as is scale */
  double *scale;
  shoal_ckpt_seal seal;
  shoal_ckpt_index index, here; /* here: the entries of this file alone; names are borrowed from `index` */
  const char **names;
  shoal_ckpt **shard; /* [1] the shard that was read last, or NULL */
};

/* ---- the files of a checkpoint (shards.c) ---- */
enum {
  SHOAL_CKPT_SAVE_SHOWN = 8, /* digits of a save's number in the names of its shards */
  SHOAL_CKPT_STEM = 64       /* bytes of "step-000001234" */
};
/** Parses the name of a shard: the main file's name without ".h5", and the first digits of the save's number. */
bool shoal_ckpt_shard_name(const char *name, char stem[SHOAL_CKPT_STEM], char save[SHOAL_CKPT_SAVE_SHOWN + 1]);
/** Open a shard of a main file, number 1 to n_shards, by plain reads.  ERR_IO if it is missing or not the one meant. */
shoal_status shoal_ckpt_open_shard(const shoal_ckpt *c, uint32_t number, shoal_ckpt **out);
/** The file that holds a data set: `c` itself or one of its shards, which stays open until another one is needed. */
shoal_status shoal_ckpt_file_of(const shoal_ckpt *c, const shoal_ckpt_entry *e, const shoal_ckpt **out);

/* ---- the faults of a file, as text ---- */
typedef struct {
  shoal_str lines; /* each ends with a newline */
  size_t n;
} shoal_ckpt_faults;
void shoal_ckpt_faults_add(shoal_ckpt_faults *f, char *line);              /* frees the line; ignores NULL */
void shoal_ckpt_faults_add_failure(shoal_ckpt_faults *f, shoal_status st); /* its text, unless it is OK */
/** "LINE", or "LINE (and 3 more: shoal ckpt verify)"; NULL if there is no fault.  Caller frees. */
char *shoal_ckpt_faults_first(const shoal_ckpt_faults *f);
/** Verify everything, also the shards, and collect the faults, without printing; `c` comes from shoal_ckpt_open_seal.
 *  Opens c->file if all bytes of it are correct. */
void shoal_ckpt_examine(shoal_ckpt *c, shoal_ckpt_faults *faults);
void shoal_ckpt_examine_file(shoal_ckpt *c, shoal_ckpt_faults *faults); /* the same without the shards */
/** The part of it that uses HDF5, on c->file: are the data sets those of the index? */
void shoal_ckpt_check_sets(const shoal_ckpt *c, shoal_ckpt_faults *faults);
/** Verify a file that this process wrote, without its shards. */
shoal_status shoal_ckpt_check_written(const char *path);
/** The steps of opening; see reader.c. */
shoal_status shoal_ckpt_open_seal(const char *path, shoal_ckpt **out);
shoal_status shoal_ckpt_open_hdf5(shoal_ckpt *c);

/* ---- what is known of the data, as attributes (about.c) ---- */
/** Writes nothing if the kind is not known. */
shoal_status shoal_ckpt_put_data(shoal_h5 file, const shoal_ckpt_data *data);
/** Reads them into c->info.data if they are there. */
shoal_status shoal_ckpt_get_data(shoal_ckpt *c);
size_t shoal_ckpt_data_bytes(const shoal_ckpt_data *data); /* on disk, at most */
#endif
