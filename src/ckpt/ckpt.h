/* Checkpoints: named arrays in an HDF5 file, or in several, which get their names only after they were verified.
 *
 *   ckpt/.step-000001234.h5.tmp-HOST-PID   written, closed, sealed, fsynced, verified
 *   ckpt/step-000001234.h5                 renamed, folder fsynced
 *
 *   /            attributes: format, version, run, step, epoch, samples, size, method, created, config (YAML),
 *                placement (JSON); of the data: kind, sample, classes, mean, std, class_names, feature_names, target_mean, target_std,
 *                target_names
 *   /model/…     the method's model: global named tensors and mean batch-norm statistics; independent of rank count
 *   /replica/K/… weights, optimizer, statistics, loader position of rank K; replica/0 only if all ranks are equal
 *   /method/…    state of the schedule; sums that were exchanged but not yet applied
 *
 * Every data set has an attribute crc32c, the checksum of its little-endian bytes.  The HDF5 part is followed by the
 * index (names, types, shapes, checksums, offsets) and the seal, a checksum over everything: damage is detected and
 * located without HDF5, which crashes on some damaged files, and missing or added data sets are detected, too (seal.c).
 * A checkpoint may have shards beside that file, each such a file itself (shards.c); readers see all arrays as one.
 *
 * This header is for reading; writing is in draft.h (by one process) and together/writer.h (by all ranks), folders in
 * folder.h.  Reading needs no MPI, as checked by the linker and tests/lint/no_mpi.  The format is specified in
 * checkpoints/format.md; the golden files in that folder must remain readable. */
#ifndef SHOAL_CKPT_CKPT_H
#define SHOAL_CKPT_CKPT_H
#include "base/status.h"
#include "ckpt/index.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SHOAL_CKPT_MOST_RANKS = 1 << 20 };           /* that one checkpoint can be of */
#define SHOAL_CKPT_MOST INT64_C(999999999999999999) /* steps and other counts: 18 digits, as in a file's name */

/* The data that a model was trained on, for whoever uses the model: its inputs are (x - mean) / std, with one value per
 * channel of images or per feature, or one for all. */
enum { SHOAL_CKPT_SCALES = 1 << 15 }; /* most values of mean and std */
typedef struct {
  const char *kind; /* "images", "features"; NULL: not recorded, as in files from before it was added */
  int ndim;
  int64_t sample[4]; /* shape of a sample: [channels, height, width] or [features] */
  int64_t classes;
  size_t scales; /* values of mean and of std */
  const double *mean, *std;
  const char *class_names;   /* one per line; NULL: the classes are their numbers */
  const char *feature_names; /* likewise; NULL: not known */
  size_t targets;            /* numbers that are predicted, output * std + mean; 0: the outputs are for classes */
  const double *target_mean, *target_std;
  const char *target_names; /* one per line; NULL: not known */
} shoal_ckpt_data;

typedef struct {
  char run[64], method[32], model[64];
  uint64_t step, epoch, samples; /* samples: number consumed in the current epoch */
  int64_t size;                  /* number of ranks that wrote it */
  const char *config;            /* resolved run file; borrowed while writing, owned by the reader */
  const char *placement;         /* of all ranks, as in placement.json; NULL or "": not recorded; ownership as above */
  char layout[256];              /* ranks per node, for messages */
  char layout_hash[17];          /* which ranks share a node (topo.h); "": not recorded */
  shoal_ckpt_data data;          /* ownership as above */
  char created[32];              /* UTC, "2026-01-31T12:00:00Z"; set by the writer */
  /* For the writer of a shard: number of the save, as the main file's draft has it in its index, and number of the shard,
   * from 1.  Of the texts a shard only has the short ones. */
  char save[SHOAL_CKPT_SAVE];
  uint32_t shard;
  /* For the writer: asked just before the file gets its name; an error leaves the folder as it was.  NULL: not asked */
  shoal_status (*may)(void *context);
  void *context;
} shoal_ckpt_info;

typedef struct shoal_ckpt shoal_ckpt;
/** A file that anybody may have made: HDF5 tries it in a child process first, so no other thread may use HDF5 meanwhile.
 *  @param verify  first read everything and compare checksums; ERR_IO names the first data set that fails.  Cost: every
 *                 byte is read once, plus about 0.1 ms per data set and 2 ms for the child process */
shoal_status shoal_ckpt_open(const char *path, bool verify, shoal_ckpt **out);
/** The same without a child process: for files that this run wrote or has just opened. */
shoal_status shoal_ckpt_open_own(const char *path, bool verify, shoal_ckpt **out);
void shoal_ckpt_close(shoal_ckpt *c);
const shoal_ckpt_info *shoal_ckpt_get_info(const shoal_ckpt *c);
bool shoal_ckpt_has(const shoal_ckpt *c, const char *name);
shoal_status shoal_ckpt_shape(const shoal_ckpt *c, const char *name, shoal_dtype *type, int *ndim, uint64_t dims[8]);
/** Read a data set of exactly n elements of this type, and compare its checksum.  ERR_IO states what differs. */
shoal_status shoal_ckpt_get(const shoal_ckpt *c, const char *name, shoal_dtype type, uint64_t n, void *data);
shoal_status shoal_ckpt_get_i64(const shoal_ckpt *c, const char *name, int64_t *out);
shoal_status shoal_ckpt_get_f64(const shoal_ckpt *c, const char *name, double *out);
/** Read a count, or n of them, and refuse values outside [low, high] with ERR_IO: checksums only tell that the writer
 *  meant what it wrote, not that it meant well. */
shoal_status shoal_ckpt_get_count(const shoal_ckpt *c, const char *name, int64_t low, int64_t high, int64_t *out);
shoal_status shoal_ckpt_get_counts(const shoal_ckpt *c, const char *name, uint64_t n, int64_t low, int64_t high,
                                   int64_t *out);
/** Read a number and refuse NaN, infinity (except where `high` is infinite) and values outside [low, high]. */
shoal_status shoal_ckpt_get_real(const shoal_ckpt *c, const char *name, double low, double high, double *out);
/** Read a text, a data set of u8, with a NUL behind it.  Caller frees. */
shoal_status shoal_ckpt_get_text(const shoal_ckpt *c, const char *name, char **out, size_t *n);
/* Of a network that reads text: what its tokens are, a tokenizer.json (data/vocabulary.h); not there where they are bytes, or
 * numbers.  An exported model has it as data set `vocabulary`. */
#define SHOAL_CKPT_VOCABULARY "train/vocabulary"
size_t shoal_ckpt_names(const shoal_ckpt *c, const char *const **out); /* sorted */

/* ---- access to parts ---- */
const char *shoal_ckpt_path(const shoal_ckpt *c);
uint64_t shoal_ckpt_bytes(const shoal_ckpt *c); /* of all its files */
/** Checksum of the seal, which has those of all its bytes, also in shards: tells which checkpoint it is, wherever it lies. */
uint32_t shoal_ckpt_seal_checksum(const shoal_ckpt *c);
const shoal_ckpt_index *shoal_ckpt_get_index(const shoal_ckpt *c);
/** Read elements [first, first + n) of a data set, to process a large array in pieces.  No checksum is compared, so
 *  open with `verify`. */
shoal_status shoal_ckpt_get_part(const shoal_ckpt *c, const shoal_ckpt_entry *e, uint64_t first, uint64_t n,
                                 void *data);

/* ---- for `shoal ckpt` ---- */
shoal_status shoal_ckpt_verify(const char *path, FILE *out); /* prints every fault, one per line */
/** Export only the model as an HDF5 file: one f32 data set per tensor, named as in PyTorch's reference models;
 *  attributes model, run, method, step, epoch, those of the data, as a checkpoint has them, and layers,
 *  the text of that name or none if it is NULL.
 *  Verifies the checkpoint first.  ERR_IO if `out` exists; no partial file
 *  is left. */
shoal_status shoal_ckpt_export(const char *path, const char *layers, const char *out);
#endif
