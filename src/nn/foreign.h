/* A trained network in the formats of other programs: ONNX, with its layers, and safetensors, its tensors alone.
 *
 * Both hold what a prediction needs beside the weights: mean and standard deviation of the inputs, names of classes and
 * features, shape and order of a sample.  In ONNX the inputs are raw samples, as they are in a data set: the graph begins with (x - mean) / std
 * and ends with the softmax.
 *
 *   input [N, …] -> Sub, Div -> layers -> logits [N, classes] -> Softmax -> probabilities
 *                                      -> logits [N, targets] -> Mul, Add -> predictions, of a network that predicts numbers
 *
 * Tensors come one at a time, so that none but the largest has to fit into memory beside the network. */
#ifndef SHOAL_NN_FOREIGN_H
#define SHOAL_NN_FOREIGN_H
#include "nn/model.h"

typedef struct {
  const shoal_model *model;
  /** Reads the n values of a parameter or statistic, "conv1.weight" or "bn1.running_mean". */
  shoal_status (*tensor)(void *ctx, const char *name, size_t n, float *out);
  void *ctx;
  size_t scales; /* of mean and of std: one, of each channel or of each feature; safetensors: 0, none known */
  const double *mean, *std;
  const char *kind;                        /* "images" or "features" */
  const char *class_names, *feature_names; /* one per line; NULL: none */
  const char *vocabulary;                  /* of text, a tokenizer.json; NULL: none */
  size_t targets; /* numbers that are predicted, output * std + mean; 0: the outputs are for classes */
  const double *target_mean, *target_std;
  const char *target_names; /* one per line; NULL: none */
  const char *run, *method; /* NULL: the network was imported, and position and method are left out */
  uint64_t step, epoch;
} shoal_foreign;

/** Writes the file, whole or not at all.  Operators are those of ONNX's opset 17; relus and gelus are nodes of their own, and
 *  dropout, which predictions do not have, is left out.
 *  @return ERR_UNSUPPORTED above 2 GiB, the limit of the format in one file; ERR_IO if `path` exists or has no room */
shoal_status shoal_foreign_onnx(const shoal_foreign *f, const char *path);
/** Likewise.  Names are those of the tensors; the rest is in its metadata, as texts. */
shoal_status shoal_foreign_safetensors(const shoal_foreign *f, const char *path);
#endif
