/* Arrays as NumPy saves them: .npy (one array, plain or gzip) and .npz (a zip archive of them).  Only headers are read at
 * first; the elements come row by row, in blocks, so that memory does not grow with the array.  Pickled objects are never
 * loaded: they are programs. */
#ifndef SHOAL_DATA_NPY_H
#define SHOAL_DATA_NPY_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *name; /* "X_train", of the file or the member, without ".npy" */
  char *
      refused; /* why it cannot be used, or NULL; of an archive's, which may have others, or one that can be rewritten */
  const char *path;    /* of the file; borrowed */
  void *archive;       /* the open zip archive, borrowed, or NULL: the file is the array */
  uint64_t member;     /* its number in there */
  uint64_t packed;     /* bytes it takes in the archive */
  size_t header;       /* bytes before the first element */
  char kind;           /* 'b' boolean, 'u', 'i', 'f'; refused: 'U', 'S' text, 'O' objects, 'V' records */
  size_t size;         /* bytes of an element: 1, 2, 4, 8 */
  bool swapped;        /* not in this machine's order of bytes */
  bool empty;          /* it has no rows */
  bool scattered;      /* in Fortran order: a row has its elements all over the array */
  int ndim;            /* 1 to 4; refused: more */
  uint64_t dims[5];    /* a product that fits; dims[0] are rows; of more dimensions the first */
  uint64_t strides[4]; /* in elements, for C and Fortran order */
} shoal_npy;
typedef struct {
  shoal_npy *all;
  size_t n;
  void **archives;
  size_t n_archives;
} shoal_npys;

/** Appends the arrays of a file.  ERR_IO naming file and array if it is none of NumPy's, holds something other than numbers,
 *  or has another size than its header says; of an array in an archive that is kept as `refused`, for it may not be used. */
shoal_status shoal_npy_find(const char *path, shoal_npys *out);
/** Whether it holds texts, objects, records or wider numbers, or has more dimensions, of which NumPy may make what is read. */
bool shoal_npy_is_rewritable(const shoal_npy *a);
void shoal_npys_fini(shoal_npys *l);
/** ERR_IO with both sizes and the cure if a member of an archive is packed tighter than data is. */
shoal_status shoal_npy_check(const shoal_npy *a);

/** Samples and labels of a split where names do not tell both, by their shapes: of the arrays that are `free` [l->n]; one that is known is
 *  given.  Leaves x and y as they are if no two belong together. */
void shoal_npy_pair(const shoal_npys *l, const bool *free, const shoal_npy **x, shoal_npy **y);

typedef struct shoal_npy_reader shoal_npy_reader;
/** Begins to read rows.  ERR_MEM if that takes more memory than there is: for one row, or for all of an array in Fortran
 *  order. */
shoal_status shoal_npy_open(const shoal_npy *a, shoal_npy_reader **out);
void shoal_npy_close(shoal_npy_reader *r);
/** The next row, valid until the next call; element [i, j, k] of it is number i*strides[1] + j*strides[2] + k*strides[3].
 *  ERR_IO if the array is cut short or damaged; the last row tells whether its check sum is right. */
shoal_status shoal_npy_next(shoal_npy_reader *r, const uint8_t **row);
/** Element number `at` of a row. */
double shoal_npy_real(const shoal_npy *a, const uint8_t *row, uint64_t at);
/** The same of an integer array; unsigned numbers beyond 2^63 - 1 become that. */
int64_t shoal_npy_whole(const shoal_npy *a, const uint8_t *row, uint64_t at);
#endif
