/* A trained network outside a run: found in a checkpoint, used for predictions, and written for other programs. */
#ifndef SHOAL_TRAIN_NETWORK_H
#define SHOAL_TRAIN_NETWORK_H
#include "ckpt/ckpt.h"
#include "data/vocabulary.h"
#include "nn/plan.h"

/* weights.c.  Match: ERR_USAGE with the first tensor that differs in name or shape, both shapes, the number of others, and
 * a cure.  Read: weights and mean statistics, by name, into the arena of a whole model.  Both local. */
shoal_status shoal_weights_match(const shoal_model *m, const shoal_ckpt *ckpt, const char *cure);
shoal_status shoal_weights_read(shoal_backend *b, const shoal_model *m, const shoal_ckpt *c, shoal_params *params);

/* In checkpoints: the text that the model was read from, u8; of model.file only. */
#define SHOAL_NETWORK_TEXT "train/network"
/** Warns of layers that are not as they were, where a run goes on: names and shapes of their weights may still fit. */
shoal_status shoal_network_report_changes(const shoal_model *m, const shoal_ckpt *c);

typedef struct {
  char *path; /* of the checkpoint */
  shoal_ckpt *ckpt;
  shoal_model *model;
  shoal_vocabulary *vocabulary; /* NULL: samples are no text, or tokens are bytes or numbers */
  char *vocabulary_text;        /* as the checkpoint has it */
} shoal_network;
/** Opens a checkpoint, or the newest one of a run folder that verifies, and builds its model by the options it was trained with.
 *  ERR_UNSUPPORTED for a file from before the data was recorded in it.
 *  @param out  zeroed by the caller; after an error call close */
shoal_status shoal_network_open(const char *path, shoal_network *out);
void shoal_network_close(shoal_network *n);
/** The model of a checkpoint: by the text in it, or by the options it was trained with.  ERR_UNSUPPORTED as open. */
shoal_status shoal_network_build(const shoal_ckpt *c, shoal_model **out);
/* What forward passes of a network need, on backend cpu. */
typedef struct {
  shoal_backend *backend;
  shoal_params *params;
  shoal_plans *plans;
} shoal_forward;
/** @param out  zeroed by the caller; after an error call close.  The network is borrowed until then. */
shoal_status shoal_forward_open(const shoal_network *n, int threads, shoal_forward *out);
void shoal_forward_close(shoal_forward *f);
/** `shoal ckpt export`: the model alone.  NAME.onnx and NAME.safetensors as foreign.h says, NAME.h5 and NAME.hdf5 as HDF5 (ckpt.h), with its
 *  layers.  ERR_USAGE for other names. */
shoal_status shoal_network_export(const char *path, const char *out);

typedef enum {
  SHOAL_PREDICT_TEST,
  SHOAL_PREDICT_TRAIN,
  SHOAL_PREDICT_EITHER
} shoal_predict_split; /* EITHER: test if there is one */
typedef struct {
  const char *model; /* run folder or checkpoint */
  const char *const *data;
  size_t n_data;
  shoal_predict_split split;
  int64_t batch;
  int threads;
  const char *out; /* NAME.csv or NAME.h5; NULL: none */
  bool json;
} shoal_predict_args;
/** `shoal predict`: the class and the probabilities of every sample of a split into a file, the confusion table and the accuracy to
 *  `summary`.  Inputs are normalised as the model has learnt to see them.  Classes are matched by their names where model and
 *  data have names; a label that the model does not know counts for nothing.
 *  Of a network that reads text the loss of a split per token, perplexity and accuracy; into `out` a row for each token.
 *  @return ERR_USAGE if samples of the data do not have the shape of the model's input */
shoal_status shoal_predict(const shoal_predict_args *a, FILE *summary);
/* predict_text.c: what a loss per token in nats is in other words: "perplexity 4.8, 2.26 bits per byte"; of tokens of several
 * bytes both bits per token and per byte, where that is known (shoal_dataset_token_bytes). */
const char *shoal_text_loss_words(double loss, double token_bytes, char *buf, size_t cap);
/* predict_text.c: shoal_predict of a network that reads text; `csv`: what `out` is, else HDF5. */
shoal_status shoal_predict_text(const shoal_predict_args *a, const shoal_network *n, bool csv, FILE *summary);

typedef struct {
  const char *model; /* run folder or checkpoint */
  const char *
      prompt; /* text, where tokens are bytes or the checkpoint has a vocabulary; else numbers with blanks between; NULL: one token */
  int64_t count;      /* tokens to draw */
  double temperature; /* of softmax(logits / temperature); 0: the most likely token */
  uint64_t seed;
  int threads;
} shoal_generate_args;
/** `shoal predict --generate`: the prompt and the tokens drawn after it to `out`: a function of the checkpoint, the prompt, temperature
 *  and seed.  ERR_USAGE for a network that reads no text, or an empty prompt; ERR_UNSUPPORTED if attention is not causal. */
shoal_status shoal_generate(const shoal_generate_args *a, FILE *out);
#endif
