/* Data sets in HDF5; any rank reads any sample.
 *
 *   /train/x /train/y /test/x /test/y    x u8 or f32 [n, …] (images NCHW), y i32 [n]
 *   /train/x_crc32c /test/x_crc32c       u32 [n], CRC-32C of each sample of x (missing in older files); y has its own as
 *                                        attribute crc32c
 *   /train/targets /test/targets         in place of y: f64 [n, targets], numbers that are to be predicted
 *   /train/tokens /test/tokens           u8, u16 or u32 [n]     (text)
 *   /vocabulary                          u8, a tokenizer.json (vocabulary.h): tokens are of byte-pair encoding, and their arrays have
 *                                        the length of the text as attribute bytes (optional)
 *   attributes of /:
 *     kind         "images", "features" or "text"
 *     classes      labels are 0 .. classes-1; for text the size of the vocabulary; absent beside targets
 *     target_names names of the targets, one per line (optional)
 *     mean, std    of the training split, of x as read (u8 counts 0..255): one per channel of images, one per feature
 *                  (one for all beyond 4096 features); std is 1 for a constant channel or feature; absent for text
 *     source       where the data came from, one line
 *     class_names  the original labels, one per line, if they were not 0 .. classes-1 (optional)
 *     feature_names  names of the columns of a table, one per line (optional)
 *     identity     checksum by which the data was known before it was repacked: runs that began with the original go on
 *                  (optional)
 *     checksum     CRC-32C over four little-endian u32: the CRC-32C of the bytes of train x, train y, test x, test y
 *                  (tokens count as x, absent arrays as 0)
 *
 * Foreign names (images/labels, X_train/y_train, …) are matched when they are unambiguous, and the match is printed.
 * What a foreign file does not state is determined on opening, from its labels and from its training samples: all, if they take
 * at most 256 MiB, else those at 4096 places drawn at random; `repack` computes it exactly, once. */
#ifndef SHOAL_DATA_DATASET_H
#define SHOAL_DATA_DATASET_H
#include "base/status.h"
#include "base/texts.h"
#include "data/vocabulary.h"
#include "tensor/shape.h"
#include <stdio.h>

typedef enum { SHOAL_TRAIN, SHOAL_TEST } shoal_split;
typedef enum { SHOAL_DATA_IMAGES, SHOAL_DATA_FEATURES, SHOAL_DATA_TEXT } shoal_data_kind;
typedef struct {
  shoal_data_kind kind;
  uint64_t n[2];      /* samples per split; the test split may have none */
  shoal_shape sample; /* [c,h,w], [features]; text: [1], a token, or what shoal_dataset_set_context makes */
  int64_t labels;     /* of a sample: 1; of text one for each token of it; of targets these */
  int64_t classes;    /* outputs of a network for it: of targets as many */
  int64_t targets;    /* numbers to be predicted of a sample; 0: it has a class, or is text */
  int x_bytes;        /* 1: u8, 4: f32; tokens: 1, 2 or 4 */
  int channels;       /* length of mean and std: c, or 1 for features without channels */
  double mean[16], std[16];
  uint32_t checksum; /* identity of the data; compared between ranks, which could open different files */
  char source[256];
} shoal_data_info;

/* Numbers that are to be predicted, in the units of the file.  Networks learn (target - mean) / std. */
typedef struct {
  size_t n;                        /* of a sample; 0: it has a class */
  double *mean, *std, *low, *high; /* [n] of the training split; std is 1 of a constant */
  char *names;                     /* one per line, or NULL */
} shoal_data_targets;

typedef struct shoal_dataset shoal_dataset;
/** Opens the file read-only and checks shapes, types and attributes, not yet the labels.  Needs no file locks.
 *  @return ERR_IO if the file is missing, not HDF5, truncated, has foreign parts (external links, virtual data sets,
 *          plug-in filters), lacks arrays, or has inconsistent shapes; the message names file and array */
shoal_status shoal_dataset_open(const char *path, shoal_dataset **out);
/** Opens several files as one data set (several.c); patterns such as "part-*.h5" stand for what they match, sorted by name.
 *  @return also ERR_USAGE if a file comes twice, ERR_IO if the files do not fit together */
shoal_status shoal_dataset_open_all(const char *const *patterns, size_t n, shoal_dataset **out);
/** A network that is to predict: a file that has to be imported for it is refused with the command. */
typedef struct {
  const char *run; /* as it was typed, for --like */
  bool text;       /* it reads tokens */
} shoal_data_reader;
/** The same for predictions: one file or all of them may have tests alone, which are then the test split, and no training split.
 *  ERR_USAGE if there is no sample. */
shoal_status shoal_dataset_open_to_predict(const char *const *patterns, size_t n, const shoal_data_reader *reader,
                                           shoal_dataset **out);
/** The files that these names and patterns stand for, in the order of that data set.  ERR_IO. */
shoal_status shoal_dataset_match(const char *const *patterns, size_t n, shoal_texts *out);
/** The files of a data set, in order; of one in a single file that itself. */
size_t shoal_dataset_files(const shoal_dataset *d);
shoal_dataset *shoal_dataset_file(shoal_dataset *d, size_t i);
/** The file that holds sample *id, and its number in there; of a data set in one file that itself. */
shoal_dataset *shoal_dataset_file_of(shoal_dataset *d, shoal_split split, uint64_t *id);
void shoal_dataset_close(shoal_dataset *d);
const shoal_data_info *shoal_dataset_info(const shoal_dataset *d);
const char *shoal_dataset_path(const shoal_dataset *d);
const char *shoal_dataset_class_names(const shoal_dataset *d);   /* one per line, or NULL */
const char *shoal_dataset_feature_names(const shoal_dataset *d); /* likewise */
#define SHOAL_DATA_FILES "files"                                 /* beside x: names of files, a line for each sample */
/** The files that the samples of a split were read from, in their order, relative to the folder that was imported; none if any of the
 *  data set's files does not say. */
shoal_status shoal_dataset_sources(shoal_dataset *d, shoal_split split, shoal_texts *out);
const shoal_vocabulary *
shoal_dataset_vocabulary(const shoal_dataset *d);                  /* of text; NULL: tokens are bytes, or numbers */
const char *shoal_dataset_vocabulary_text(const shoal_dataset *d); /* as a tokenizer.json, or NULL */
const char *shoal_data_kind_name(shoal_data_kind kind);            /* "images", "features", "text" */
const char *shoal_dataset_array(const shoal_dataset *d, shoal_split s); /* of the samples, in the file: "X_train" */
/** Text: samples are `context` tokens, one sample behind the other, and have as labels the tokens that follow each of them.  What is
 *  left at the end of a split is left out.  Call before the first read.  ERR_USAGE if there is no training sample then. */
shoal_status shoal_dataset_set_context(shoal_dataset *d, int64_t context);
/** Text: bytes that a token of this split stands for, on average; 1 where tokens are bytes, NAN where that is not known. */
double shoal_dataset_token_bytes(const shoal_dataset *d, shoal_split split);
/** Mean and std for normalisation, `n` values each; element i of a sample uses value i / (elements / n). */
void shoal_dataset_scale(const shoal_dataset *d, size_t *n, const double **mean, const double **std);
/** Whether samples can be normalised by n values: one for all, or one for each channel or feature. */
bool shoal_dataset_takes_scale(const shoal_dataset *d, size_t n);
/** Normalise by these n values instead, which it takes, as a run did that goes on.  Loaders made before keep what they had. */
shoal_status shoal_dataset_set_scale(shoal_dataset *d, size_t n, const double *mean, const double *std);

/** The targets; `n` is 0 for a data set of classes. */
const shoal_data_targets *shoal_dataset_targets(const shoal_dataset *d);
/** Those of a sample as they are in the file, [n]; of a data set that has some.  Borrowed. */
const double *shoal_dataset_target(shoal_dataset *d, shoal_split split, uint64_t id);
/** Normalise targets by these [n] instead, as a run did that goes on. */
void shoal_dataset_set_target_scale(shoal_dataset *d, const double *mean, const double *std);
/** The name of target k as a terminal shows it, or "target 3". */
const char *shoal_targets_name(const shoal_data_targets *t, size_t k, char *buf, size_t cap);

/** Warns if these are far from the data set's own mean and std, in one feature or all: a model that was trained with them would
 *  see its samples in another scale or unit.  `n` of them, which it takes. */
void shoal_dataset_warn_of_scale(const shoal_dataset *d, size_t n, const double *mean, const double *std);

/** Compares the names of features, one per line or NULL, with those that a model was trained on.  ERR_USAGE if most of them differ, or
 *  both are the same in another order: what is read as one feature is another.  Warns if a few differ: they may have been renamed.
 *  @param one, other  what the messages call the two */
shoal_status shoal_features_compare(const char *one, const char *names, const char *other, const char *trained);

/** Reads one raw sample by id; x [sample bytes], y [labels] i32; of targets f32, normalised, where y may be NULL.  For text x are tokens, and y for each of them the next one (-1 after
 *  the last of all).
 *
 *  All labels of a split (4 bytes per sample) are read on its first use.  So are its samples if they take at most 256
 *  MiB (see shoal_dataset_hold): parallel file systems are good at one long sequential read, and shuffled reads are
 *  then memory copies.  Larger splits are read sample by sample, and only the sample's own bytes, unless the chunks are
 *  compressed.
 *
 *  What has a check sum is verified as it is read: each sample by its own, labels by theirs.  Older files have only one
 *  over everything: it is verified where both splits are held in memory.
 *
 *  @return ERR_IO naming file, sample and value if a label is out of range or a check sum is wrong; ERR_ARG if there is no such sample
 *  Thread-safe; calls that read the file are serialised. */
shoal_status shoal_dataset_read(shoal_dataset *d, shoal_split split, uint64_t id, void *x, void *y);
/** Samples that are unpacked for every one that is read in random order: those of a chunk, if it is compressed. */
uint64_t shoal_dataset_unpacks(const shoal_dataset *d, shoal_split split);
/** Warns where training in random order unpacks many samples for each one, with the command that cures it. */
void shoal_dataset_warn_of_cost(const shoal_dataset *d);
/** Caches splits of at most `bytes` in memory from their first use on; 0: never.  Call before the first read. */
void shoal_dataset_hold(shoal_dataset *d, uint64_t bytes);

/* ---- creating data sets: all write to a temporary file and remove it on error ---- */
/** `shoal data import KIND`: cifar10 and cifar100 (binary or gzip), idx (pairs of images and labels), csv, text (bytes
 *  as they are, or by a vocabulary).
 *
 *  Files that have "test", "t10k" or "val" as a word of their names are the test split.  Without such a file csv draws one
 *  from each class, text takes the end, and the others have none; `train_count` cuts the samples in their order
 *  instead. */
typedef struct {
  const char *kind;
  const char *const *sources;
  size_t n_sources;
  uint64_t train_count;     /* 0: as above; else so many samples from the start are the training split */
  const double *test_share; /* csv, text: share of the samples that become the test split; NULL: 0.1 */
  const uint64_t *seed;     /* of that draw; NULL: 1 */
  const char *vocab, *merges,
      *tokenizer;    /* text: files of a vocabulary (vocabulary.h), the first two or the last; NULL: bytes */
  const char *label; /* csv: name or number (from 1) of a column, "none"; NULL: one called label, else the last */
  const char *const
      *target; /* csv: names or numbers of columns of numbers that are to be predicted, in place of a label; npy:
                                names of the arrays of such numbers */
  size_t n_target;
  const char *const *drop; /* csv: names or numbers of columns that are left out */
  size_t n_drop;
  const char *header;              /* csv: whether the first row is one: "yes", "no"; NULL: as it looks */
  const char *separator, *decimal; /* csv: one character each; NULL: as it looks */
  const char *thousands;           /* csv: the sign between groups of three digits; NULL: as it looks */
  const char *
      missing; /* csv: of rows with an empty feature or a mark like NA: "drop", or "mean" of the column; NULL: an error */
  const char *
      like; /* csv, images, text: a checkpoint, model exported as .h5, or data set, whose columns or shape, classes and means, or vocabulary, are taken; NULL: none */
  const char
      *size; /* images: "WxH" or "SIDE", to which all are scaled; NULL: all must have one size, or that of `like` */
  const char
      *shape; /* csv, npy: "C,H,W", as which the numbers of a row are the pixels of an image; NULL: they are features */
} shoal_import_args;
/** ERR_USAGE for an option that does nothing for this kind or beside another one. */
shoal_status shoal_data_import(const shoal_import_args *a, const char *out_path);
const char *shoal_data_import_kind(size_t i); /* NULL after the last one */

/** `shoal data synth KIND`: glyphs (digits drawn from strokes, noise, shift, shear), blobs (Gaussian), text (a small
 *  grammar).  Same arguments and seed give the same file content. */
typedef struct {
  const char *kind;
  uint64_t train, test, seed;      /* samples; text: bytes */
  int64_t classes, size, features; /* size: image side; features: blobs */
  double noise; /* glyphs: standard deviation, white is 1; blobs: of a cluster (centres have 1); text: typos per byte */
} shoal_synth_args;
void shoal_synth_defaults(const char *kind, shoal_synth_args *out); /* unknown kind: kind NULL in out */
shoal_status shoal_data_synth(const shoal_synth_args *a, const char *out_path);
size_t shoal_data_synth_kinds(const char *const **out);

/** Copies a data set of n files, or patterns of files, to one file with chunks of a few samples, our element types and our
 *  names.  `out_path` may be one of them. */
shoal_status shoal_data_repack(const char *const *paths, size_t n, const char *out_path);
#endif
