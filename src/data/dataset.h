/* Data sets in HDF5, read by any rank at any sample.
 *
 *   /train/x /train/y /test/x /test/y    x u8 or f32 [n, …] (images NCHW), y i32 [n]
 *   /train/tokens /test/tokens           u8, u16 or u32 [n]     (text)
 *   attributes of /: classes, mean, std (per channel, of x as read: u8 counts 0..255), source, checksum (CRC-32C over the
 *   four data sets), kind ("images", "features", "text")
 *
 * Foreign names (images/labels, X_train/y_train, …) are matched when they are unambiguous, and the match is printed. */
#ifndef SHOAL_DATA_DATASET_H
#define SHOAL_DATA_DATASET_H
#include "base/status.h"
#include "tensor/shape.h"
#include <stdio.h>

typedef enum { SHOAL_TRAIN, SHOAL_TEST } shoal_split;
typedef enum { SHOAL_DATA_IMAGES, SHOAL_DATA_FEATURES, SHOAL_DATA_TEXT } shoal_data_kind;
typedef struct {
  shoal_data_kind kind;
  uint64_t n[2];        /* samples per split */
  shoal_shape sample;   /* [c,h,w], [features] */
  int64_t classes;
  int x_bytes;          /* 1: u8, 4: f32 */
  int channels;         /* length of mean and std: c, or 1 for features without channels */
  double mean[16], std[16];
  uint32_t checksum;    /* identity of the data, compared between ranks (H16) */
  char source[256];
} shoal_data_info;

typedef struct shoal_dataset shoal_dataset;
/** Opens, checks shapes, types and attributes, not yet the labels.  Read-only; no locks needed. */
shoal_status shoal_dataset_open(const char *path, shoal_dataset **out);
void shoal_dataset_close(shoal_dataset *d);
const shoal_data_info *shoal_dataset_info(const shoal_dataset *d);
/** Raw samples by id, one call per sample; x [sample bytes], y label.  ERR_IO names file, sample and value if a label is
 *  out of range.  Any one thread at a time. */
shoal_status shoal_dataset_read(shoal_dataset *d, shoal_split split, uint64_t id, void *x, int32_t *y);

/* ---- making data sets: every one writes to a temporary name and leaves nothing behind on error ---- */
/** `shoal data import KIND`: cifar10 (binary or gzip; files whose name contains "test" are the test split), idx (images
 *  and labels pairs; a name with t10k or test is test unless `train_count` cuts one pair into both), csv, text. */
typedef struct {
  const char *kind;
  const char *const *sources;
  size_t n_sources;
  uint64_t train_count;   /* 0: as the kind says; else the first that many samples are the training split */
  const char *label;      /* csv: column name or number; NULL: last column */
  double test_share;      /* csv, text: share of the end that becomes the test split; default 0.1 */
} shoal_import_args;
shoal_status shoal_data_import(const shoal_import_args *a, const char *out_path);
/** `shoal data synth KIND`: glyphs (digits drawn from strokes, noise, shift, shear), blobs (Gaussian), text (a small
 *  grammar).  Same arguments and seed give the same file content. */
typedef struct {
  const char *kind;
  uint64_t train, test, seed;
  int64_t classes, size, features; /* size: image side; features: blobs */
  double noise;
} shoal_synth_args;
void shoal_synth_defaults(const char *kind, shoal_synth_args *out); /* unknown kind: kind NULL in out */
shoal_status shoal_data_synth(const shoal_synth_args *a, const char *out_path);
/** Tables: shapes, classes histogram, mean, std, chunk layout, read amplification of shuffled reads; verifies labels and
 *  the checksum. */
shoal_status shoal_data_inspect(const char *path, bool json, FILE *out);
/** A copy with chunks of a few samples, contiguous types, and our names. */
shoal_status shoal_data_repack(const char *path, const char *out_path);
#endif
