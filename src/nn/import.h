/* A network of another program: of a file of ONNX, as PyTorch's exporters write it.
 *
 *   net.onnx -> shoal_import -> description (text.h) and tensors with the names of its layers (foreign.h writes them)
 *
 * Read are networks for one input with a fixed shape, the batch first, from operators that are layers here; arithmetic of
 * shapes is computed.  Inputs that are scaled by constants to begin with give mean and standard deviation, and a softmax at
 * the end is left out, since the loss has it. */
#ifndef SHOAL_NN_IMPORT_H
#define SHOAL_NN_IMPORT_H
#include "base/texts.h"
#include "nn/foreign.h"

typedef struct shoal_import shoal_import;
/** Reads a file, and weights beside it if it names any.
 *  @return ERR_UNSUPPORTED, with node and operator, for what cannot be a network here; ERR_IO for what is damaged; each in one
 *          line that begins with the path */
shoal_status shoal_import_open(const char *path, shoal_import **out);
void shoal_import_close(shoal_import *im);
const shoal_model *shoal_import_model(const shoal_import *im);
/** Of the inputs, as foreign.h has them, in `f`: scales is 0 where the file says nothing of them. */
void shoal_import_scale(const shoal_import *im, shoal_foreign *f);
/** What whoever imports it should know, a text for each: a batch norm that is in a convolution, outputs that are left out. */
const shoal_texts *shoal_import_notes(const shoal_import *im);
/** shoal_foreign.tensor; ctx is the import. */
shoal_status shoal_import_tensor(void *import, const char *name, size_t n, shoal_host_float *out);
#endif
