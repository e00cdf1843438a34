/* Names of tensors in weights of another program. */
#ifndef SHOAL_TRAIN_WEIGHTS_NAMES_H
#define SHOAL_TRAIN_WEIGHTS_NAMES_H
#include "nn/given.h"
#include "nn/model.h"

/** "by their shapes and order this names them so, into X-named.safetensors: COMMAND" for safetensors none of whose names is one of the
 *  model, or NULL if a tensor of the model has none of its shape and kind there, or there are more than 40.  Caller frees. */
char *shoal_weights_rename(const shoal_model *m, const shoal_given *g);
#endif
