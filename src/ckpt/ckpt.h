/* Checkpoints: named arrays in one HDF5 file that verifies or does not exist.
 *
 *   ckpt/.step-000001234.h5.tmp-HOST-PID   written, closed, sealed, fsynced, verified
 *   ckpt/step-000001234.h5                 renamed, folder fsynced
 *
 *   /            attributes: format, version, run, step, epoch, samples, size, method, created, config (YAML), placement (JSON)
 *   /model/…     the method's model: global named tensors and mean batch-norm statistics; independent of rank count
 *   /replica/K/… weights, optimizer, statistics, loader position of rank K where ranks differ (shared: replica/0 only)
 *   /method/…    schedule state; sums already exchanged but not yet applied
 *
 * Every data set carries the attribute crc32c of its little-endian bytes.  Behind the HDF5 part stand the index (names,
 * types, shapes, check sums, places) and the seal, a check sum over everything: damage is found and named without
 * HDF5, which does not survive every damaged file, and a data set that is missing or was added is noticed too (seal.c).
 * Format, field by field: checkpoints/format.md; golden files beside it must stay readable for ever. */
#ifndef SHOAL_CKPT_CKPT_H
#define SHOAL_CKPT_CKPT_H
#include "base/status.h"
#include "comm/group.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum { SHOAL_F32, SHOAL_F64, SHOAL_I32, SHOAL_I64, SHOAL_U8, SHOAL_U16, SHOAL_U32, SHOAL_U64 } shoal_dtype;
size_t shoal_dtype_size(shoal_dtype t);
const char *shoal_dtype_name(shoal_dtype t);

typedef struct {
  char run[64], method[32], model[64];
  uint64_t step, epoch, samples; /* samples consumed in the epoch */
  int64_t size;                  /* ranks that wrote it */
  const char *config;            /* resolved run file; borrowed while writing, owned by the reader */
  const char *placement;         /* of all ranks, as in placement.json; NULL or "": not recorded; owned likewise */
  char layout[256];              /* placement, "2x2" or ranks per node */
} shoal_ckpt_info;

/* ---- writing: rank 0 holds the file; the others call the same functions and only send ---- */
typedef struct shoal_ckpt_writer shoal_ckpt_writer;
/** Collective over `control`, which is borrowed until commit.  ERR_IO (agreed: the same code on every rank) if the
 * folder is not writable or the disk has less than `need_bytes` free (0: not checked); nothing is left behind.  Cost:
 * one agreement; 4 MiB at rank 0 of several. */
shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out);
/** An array that is the same everywhere: rank 0 writes its own.  Not collective; others return at once.
 *  Errors are kept in the writer and come out of commit; further puts after an error do nothing.
 *  @param name  parts of visible ASCII joined by slashes, 240 bytes at most; a name that exists is an error
 *  @param dims  [ndim], row-major, ndim 0 to 8 (0: a scalar, dims may be NULL); may contain 0 */
void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data);
void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value); /* scalar data sets */
void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value);
/** An array [n] of every rank, written as "replica/K/NAME": collective; streamed to rank 0 one rank at a time in pieces
 *  of 4 MiB.  n may differ between ranks, name and type may not (ERR_ARG).  `data` is borrowed for the call.  Cost: the
 *  data of the other ranks travels once, and 24 bytes per rank before it. */
void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data);
/** Close, fsync, verify, rename, fsync the folder; frees the writer.  Collective; all ranks return the same verdict.
 *  On failure the temporary is removed and older checkpoints are untouched.  Cost at rank 0: the file is read back
 *  from the disk. */
shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out /* may be NULL; caller frees */);
void shoal_ckpt_abandon(shoal_ckpt_writer *c); /* not collective; removes the temporary */

/** What a checkpoint would hold, before it is begun: a writer that writes nothing and adds up what is put.  Its puts are
 *  local and read no data; each takes the same arguments as the real one.  Collective over `control`, borrowed until
 *  measured. */
shoal_status shoal_ckpt_measure(shoal_group *control, shoal_ckpt_writer **out);
/** Bytes of data that all ranks have put, the same on every rank; frees the writer.  The file is larger by what HDF5 and
 *  the seal add, less than 2 KiB for an array.  Collective. */
shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out);

/* ---- reading: any process, no communication ---- */
typedef struct shoal_ckpt shoal_ckpt;
/** @param verify  read everything and compare check sums first; ERR_IO names the first data set that fails.  Cost: every
 *                 byte is read twice (the second time mostly from the page cache), and about 0.1 ms per data set */
shoal_status shoal_ckpt_open(const char *path, bool verify, shoal_ckpt **out);
void shoal_ckpt_close(shoal_ckpt *c);
const shoal_ckpt_info *shoal_ckpt_get_info(const shoal_ckpt *c);
bool shoal_ckpt_has(const shoal_ckpt *c, const char *name);
shoal_status shoal_ckpt_shape(const shoal_ckpt *c, const char *name, shoal_dtype *type, int *ndim, uint64_t dims[8]);
/** Read exactly n elements of exactly this type; ERR_IO says what stands there instead; check sum compared again. */
shoal_status shoal_ckpt_get(const shoal_ckpt *c, const char *name, shoal_dtype type, uint64_t n, void *data);
shoal_status shoal_ckpt_get_i64(const shoal_ckpt *c, const char *name, int64_t *out);
shoal_status shoal_ckpt_get_f64(const shoal_ckpt *c, const char *name, double *out);
size_t shoal_ckpt_names(const shoal_ckpt *c, const char *const **out); /* sorted */

/* ---- folders ---- */
/** Newest (by step) that verifies; says in one warning line each what it skipped and why.  *path_out NULL if none, also
 *  when there is no folder.  Caller frees. */
shoal_status shoal_ckpt_latest(const char *dir, char **path_out, uint64_t *step_out);
/** Remove temporaries of writers that are gone (same host and dead pid, or older than a day), listed in the log. */
shoal_status shoal_ckpt_sweep(const char *dir);
/** Keep the newest `keep` that verify (at least 1): each is read again before an older file goes.  Damaged files newer
 *  than the oldest kept one stay.  With fewer than `keep` good ones nothing goes. */
shoal_status shoal_ckpt_prune(const char *dir, int keep);

/* ---- for `shoal ckpt` ---- */
shoal_status shoal_ckpt_verify(const char *path, FILE *out); /* every fault, one line each */
/** The model alone as an HDF5 file: a data set per tensor, named as in PyTorch's reference models, f32; attributes model, run,
 *  method, step, epoch.  The checkpoint is verified first.  ERR_IO if `out` exists; nothing half-written is left. */
shoal_status shoal_ckpt_export(const char *path, const char *out);
#endif
