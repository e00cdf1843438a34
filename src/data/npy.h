/* Arrays as NumPy saves them: .npy (one array, plain or gzip) and .npz (a zip archive of them).  Pickled objects are never
 * loaded: they are programs. */
#ifndef SHOAL_DATA_NPY_H
#define SHOAL_DATA_NPY_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *name;          /* "X_train", of the file or the member, without ".npy" */
  const char *path;    /* of the file; borrowed */
  char *bytes;         /* the whole file */
  const uint8_t *data; /* elements, inside `bytes` */
  char kind;           /* 'b' boolean, 'u', 'i', 'f' */
  size_t size;         /* bytes of an element: 1, 2, 4, 8 */
  bool swapped;        /* not in this machine's order of bytes */
  int ndim;            /* 1 to 4 */
  uint64_t dims[4];    /* a product that fits */
  uint64_t strides[4]; /* in elements, for C and Fortran order */
} shoal_npy;
typedef struct {
  shoal_npy *all;
  size_t n;
} shoal_npys;

/** Appends the arrays of a file.  ERR_IO naming file and array if it is none of NumPy's, cut short, or holds something other
 *  than numbers; ERR_MEM beyond the memory limit. */
shoal_status shoal_npy_load(const char *path, shoal_npys *out);
void shoal_npys_fini(shoal_npys *l);
/** Element number `at` (a sum of index x stride). */
double shoal_npy_real(const shoal_npy *a, uint64_t at);
/** The same of an integer array; unsigned numbers beyond 2^63 - 1 become that. */
int64_t shoal_npy_whole(const shoal_npy *a, uint64_t at);
#endif
