/* shoalread: data sets, checkpoints and traces of Shoal, read from C and C++.  The only public header.
 *
 *   cc my.c $(pkg-config --cflags --libs shoalread)          or find_package(shoalread), target shoalread::shoalread
 *
 * Calls that can fail return NULL, or -1, and then shoalread_error() says what is wrong; nothing is printed.  Texts and arrays
 * that are returned belong to the handle and live until it is closed; closing NULL does nothing.  A handle is used by one thread
 * at a time, different handles by any threads.  Files are only read.  Opening a checkpoint or a data set tries the file in a child
 * process first, because HDF5 crashes on some damaged files: no other thread may be inside HDF5 meanwhile.
 *
 * Names, members and numbers in this header stay; new ones may be added.  Symbols carry the version SHOALREAD_0. */
#ifndef SHOALREAD_H
#define SHOALREAD_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

const char *shoalread_version(void);
/** Message for the last call of this thread that failed. */
const char *shoalread_error(void);

/* ---- data sets ---- */

typedef struct shoalread_data shoalread_data;
typedef enum { SHOALREAD_TRAIN, SHOALREAD_TEST } shoalread_split;
typedef enum { SHOALREAD_IMAGES, SHOALREAD_FEATURES, SHOALREAD_TEXT } shoalread_kind;

/** Opens n files, or patterns of files, that are one data set, as data.file of a run. */
shoalread_data *shoalread_data_open(const char *const *files, size_t n);
void shoalread_data_close(shoalread_data *d);
shoalread_kind shoalread_data_kind(const shoalread_data *d);
uint64_t shoalread_data_samples(const shoalread_data *d, shoalread_split split); /* 0: there is no such split */
/** Shape of a sample: [channels, height, width] or [features]; of text [1], a token.  Returns the number of dimensions. */
int shoalread_data_shape(const shoalread_data *d, int64_t shape[4]);
int64_t shoalread_data_classes(const shoalread_data *d); /* of data with numbers to be predicted: these of a sample */
const char *shoalread_data_class_names(const shoalread_data *d); /* one per line; NULL: the classes are their numbers */
/** Mean and standard deviation of the training split, n values each: one per channel or feature, or one for all. */
void shoalread_data_scale(const shoalread_data *d, size_t *n, const double **mean, const double **std);
/** Reads samples [first, first + n) as stored, not normalised: x [n][elements], y [n], or NULL if labels are not wanted.  A label of
 *  text is the next token; data with numbers to be predicted has no labels. */
int shoalread_data_read(shoalread_data *d, shoalread_split split, uint64_t first, uint64_t n, float *x, int32_t *y);

/* ---- checkpoints ---- */

typedef struct shoalread_ckpt shoalread_ckpt;
typedef enum {
  SHOALREAD_F32,
  SHOALREAD_F64,
  SHOALREAD_I32,
  SHOALREAD_I64,
  SHOALREAD_U8,
  SHOALREAD_U16,
  SHOALREAD_U32,
  SHOALREAD_U64
} shoalread_type;

/** Opens a checkpoint, or the newest good one of a run folder, after everything in it was read and its checksums compared. */
shoalread_ckpt *shoalread_ckpt_open(const char *path);
void shoalread_ckpt_close(shoalread_ckpt *c);
const char *shoalread_ckpt_path(const shoalread_ckpt *c);
const char *shoalread_ckpt_run(const shoalread_ckpt *c);
const char *shoalread_ckpt_model(const shoalread_ckpt *c);
const char *shoalread_ckpt_method(const shoalread_ckpt *c);
const char *shoalread_ckpt_config(const shoalread_ckpt *c);      /* the resolved run file, YAML */
const char *shoalread_ckpt_class_names(const shoalread_ckpt *c); /* one per line; NULL: the classes are their numbers */
uint64_t shoalread_ckpt_step(const shoalread_ckpt *c);
uint64_t shoalread_ckpt_epoch(const shoalread_ckpt *c);
/** Scale of the data that the model was trained on, as shoalread_data_scale; n is 0 in files from before it was recorded. */
void shoalread_ckpt_scale(const shoalread_ckpt *c, size_t *n, const double **mean, const double **std);
/** The arrays, sorted by name: "model/..." are the weights and statistics of the whole model (checkpoints/format.md). */
size_t shoalread_ckpt_arrays(const shoalread_ckpt *c);
const char *shoalread_ckpt_name(const shoalread_ckpt *c, size_t i); /* NULL if there are not that many */
/** Type and shape of an array; returns the number of dimensions, 0 for a scalar. */
int shoalread_ckpt_shape(const shoalread_ckpt *c, const char *name, shoalread_type *type, uint64_t dims[8]);
/** Reads a whole array of exactly n elements of this type. */
int shoalread_ckpt_read(const shoalread_ckpt *c, const char *name, shoalread_type type, uint64_t n, void *out);

/* ---- traces ---- */

typedef struct shoalread_trace shoalread_trace;
typedef enum { /* docs/trace-format.md */
               SHOALREAD_FORWARD,
               SHOALREAD_BACKWARD,
               SHOALREAD_OPTIMIZER,
               SHOALREAD_EXCHANGE,
               SHOALREAD_WAIT,
               SHOALREAD_INPUT,
               SHOALREAD_CHECKPOINT,
               SHOALREAD_EVALUATION,
               SHOALREAD_OTHER,
               SHOALREAD_STEP
} shoalread_activity;
typedef enum {
  SHOALREAD_SELF,
  SHOALREAD_NODE,
  SHOALREAD_BETWEEN,
  SHOALREAD_CONTROL,
  SHOALREAD_NO_LINK = 255
} shoalread_link;
typedef struct {
  uint64_t begin_ns, end_ns; /* on the rank's clock */
  uint64_t step, bytes;      /* bytes: payload that the rank sent */
  shoalread_activity activity;
  shoalread_link link;
  int peer;         /* world rank; -1: none or several */
  const char *name; /* of the operation */
} shoalread_span;

/** Opens a trace file (runs/NAME/trace/attempt-*-node-*.h5), also one that is cut off or being written. */
shoalread_trace *shoalread_trace_open(const char *path);
void shoalread_trace_close(shoalread_trace *t);
const char *shoalread_trace_run(const shoalread_trace *t);
size_t shoalread_trace_ranks(const shoalread_trace *t); /* that this file has: those of one node */
/** World rank of entry i, and how many ranks the run had; -1 if there is no such entry. */
int shoalread_trace_rank(const shoalread_trace *t, size_t i, int *size);
/** What converts its times to rank 0's clock: rank 0's = (t - offset) / drift, within `bound`. */
int shoalread_trace_clock(const shoalread_trace *t, size_t i, double *offset_ns, double *drift, double *bound_ns);
/** Reads all spans of entry i, in the order in which they ended; they live until the next such call with this handle. */
int shoalread_trace_spans(shoalread_trace *t, size_t i, const shoalread_span **spans, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
