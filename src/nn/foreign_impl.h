/* Between foreign.c, onnx.c and safetensors.c: the file under construction, and the list of tensors. */
#ifndef SHOAL_NN_FOREIGN_IMPL_H
#define SHOAL_NN_FOREIGN_IMPL_H
#include "nn/foreign.h"
#include <stdio.h>

typedef struct {
  char name[SHOAL_NAME_MAX + 16];
  shoal_shape shape;
  size_t count;
} shoal_foreign_tensor;
/** All parameters, then all running statistics; caller frees. */
shoal_status shoal_foreign_tensors(const shoal_model *m, shoal_foreign_tensor **out, size_t *n);

typedef struct {
  const char *path;
  char *tmp;
  FILE *file;
} shoal_foreign_file;
/** Begins a file of `bytes` under a temporary name.  Close it in every case. */
shoal_status shoal_foreign_open(shoal_foreign_file *o, const char *path, double bytes);
void shoal_foreign_put(shoal_foreign_file *o, const void *bytes, size_t n);
/** The values of one tensor, little-endian. */
shoal_status shoal_foreign_put_tensor(shoal_foreign_file *o, const shoal_foreign *f, const shoal_foreign_tensor *t);
/** Gives the file its name if `st` is OK and everything was written, else removes it. */
shoal_status shoal_foreign_close(shoal_foreign_file *o, shoal_status st);
/** Calls f for each fact that a prediction needs and that is a text: "sample", "mean", "std", "class_names", … */
void shoal_foreign_facts(const shoal_foreign *f, void (*put)(void *ctx, const char *key, const char *text), void *ctx);
#endif
