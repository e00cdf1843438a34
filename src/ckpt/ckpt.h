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
 * Here is reading; writing is in draft.h (this process alone) and together/writer.h (all ranks), folders in folder.h.
 * Reading needs no MPI, which the linker and tests/lint/no_mpi prove.  Format, field by field: checkpoints/format.md; golden files beside it must stay readable for ever. */
#ifndef SHOAL_CKPT_CKPT_H
#define SHOAL_CKPT_CKPT_H
#include "base/status.h"
#include "ckpt/index.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
  char run[64], method[32], model[64];
  uint64_t step, epoch, samples; /* samples consumed in the epoch */
  int64_t size;                  /* ranks that wrote it */
  const char *config;            /* resolved run file; borrowed while writing, owned by the reader */
  const char *placement;         /* of all ranks, as in placement.json; NULL or "": not recorded; owned likewise */
  char layout[256];              /* for people: ranks per node */
  char layout_hash[17];          /* which ranks shared a node (topo.h); "": not recorded */
  char created[32];              /* UTC, "2026-01-31T12:00:00Z"; set by the writer */
} shoal_ckpt_info;

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

/* ---- looking closer ---- */
const char *shoal_ckpt_path(const shoal_ckpt *c);
const shoal_ckpt_index *shoal_ckpt_get_index(const shoal_ckpt *c);
/** Elements [first, first + n) of a data set, as they stand in the file: no check sum is compared, so open with `verify`.
 *  For large arrays in pieces. */
shoal_status shoal_ckpt_get_part(const shoal_ckpt *c, const shoal_ckpt_entry *e, uint64_t first, uint64_t n,
                                 void *data);

/* ---- for `shoal ckpt` ---- */
shoal_status shoal_ckpt_verify(const char *path, FILE *out); /* every fault, one line each */
/** The model alone as an HDF5 file: a data set per tensor, named as in PyTorch's reference models, f32; attributes model, run,
 *  method, step, epoch.  The checkpoint is verified first.  ERR_IO if `out` exists; nothing half-written is left. */
shoal_status shoal_ckpt_export(const char *path, const char *out);
#endif
