/* Internal header of `shoal predict`: what predictions of classes (predict.c) and of numbers (predict_targets.c) share. */
#ifndef SHOAL_TRAIN_PREDICT_IMPL_H
#define SHOAL_TRAIN_PREDICT_IMPL_H
#include "base/json.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/loader.h"
#include "h5/draft.h"
#include "train/fit.h"
#include "train/network.h"
#include <stdio.h>

typedef struct {
  shoal_network network;
  shoal_forward forward;
  shoal_dataset *set;
  shoal_loader *loader;
  shoal_split split;
  bool asked; /* for this split */
  uint64_t n; /* samples */
  uint64_t known, lost,
      first_lost;           /* with a label or targets, and a prediction; lost: none, for outputs are not finite */
  shoal_bad_samples bad;    /* the first of these whose input was bad; n 0: none */
  int64_t classes;          /* outputs */
  shoal_host_float *output; /* [n][classes]; of classes the probabilities */
  shoal_texts files;        /* [n] of the samples; none if they are not of files */

  shoal_texts names;          /* of the classes; none if they are numbers */
  shoal_texts labels;         /* names of the data's labels, likewise */
  int32_t *class_of;          /* [labels of the data] the model's class of each, -1: unknown to it */
  int32_t unknown;            /* the first such label of a sample, -1 if there is none */
  int32_t *label, *predicted; /* [n] */
  uint64_t *confusion;        /* [classes][classes] by label, then by prediction */
  uint64_t correct;
  double loss; /* sum over known labels of -log p */

  const shoal_ckpt_data *trained; /* of numbers: how they were normalised; NULL: the model predicts classes */
  shoal_fit *fit;                 /* [classes] */
} shoal_predictor;

/** Begins a field of a CSV file: `text` in quotes if it needs them. */
void shoal_predict_put_field(FILE *f, const char *before, const char *text);
shoal_status shoal_predict_put_array(shoal_h5_draft *d, const char *name, shoal_dtype type, uint64_t rows,
                                     uint64_t columns, const void *data);

/* What writes the rows of a CSV file, and what fills the arrays of an HDF5 file. */
typedef void shoal_predict_rows(const void *context, FILE *f);
typedef shoal_status shoal_predict_arrays(const void *context, shoal_h5_draft *d);
/** Writes a file, or leaves what was there.  ERR_IO, on a full disk with what it needs.  The HDF5 file also says where it is from. */
shoal_status shoal_predict_write_csv(const char *path, shoal_predict_rows *put, const void *context);
shoal_status shoal_predict_write_h5(const char *path, const shoal_network *n, const shoal_dataset *set,
                                    shoal_split split, shoal_predict_arrays *fill, const void *context);

/* ---- of numbers (predict_targets.c) ---- */
/** ERR_USAGE if the data has others, or classes. */
shoal_status shoal_predict_match_targets(shoal_predictor *p);
/** A batch, whose outputs are in `output` from sample `at` on. */
void shoal_predict_score_targets(shoal_predictor *p, const shoal_batch *b, uint64_t at);
void shoal_predict_write_targets(const shoal_predictor *p, FILE *f); /* CSV */
shoal_status shoal_predict_fill_targets(const shoal_predictor *p, shoal_h5_draft *d);
void shoal_predict_print_targets(const shoal_predictor *p, shoal_str *out); /* the end of the summary */
void shoal_predict_json_targets(const shoal_predictor *p, shoal_json *j);
#endif
