/* Tensors by name, of another program: of safetensors, or of a network of ONNX by the names of its layers (import.h). */
#ifndef SHOAL_NN_GIVEN_H
#define SHOAL_NN_GIVEN_H
#include "base/status.h"
#include "tensor/memory.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const char *name;
  int ndim;
  uint64_t dim[8];
  size_t count;
  /* private */
  int bytes; /* of an element in the file */
  bool bfloat;
  uint64_t offset;
} shoal_given_tensor;

typedef struct shoal_given shoal_given;
/** Whether a path is one of these files, by its ending. */
bool shoal_given_is(const char *path);
/** Reads names and shapes.  Of safetensors, tensors of whole numbers are left out: they are no weights.
 *  @return ERR_IO for what is damaged, in one line that begins with the path; else as shoal_import_open */
shoal_status shoal_given_open(const char *path, shoal_given **out);
void shoal_given_close(shoal_given *g);
const char *shoal_given_path(const shoal_given *g);
size_t shoal_given_tensors(const shoal_given *g, const shoal_given_tensor **out);
/** Reads the values of one of them, [count]. */
shoal_status shoal_given_read(const shoal_given *g, const shoal_given_tensor *t, shoal_host_float *out);
/** Mean and standard deviation of the inputs, one for each channel or feature or one for all; returns how many, 0 if the file
 *  does not say. */
size_t shoal_given_scale(const shoal_given *g, const double **mean, const double **std);
#endif
