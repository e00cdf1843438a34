/* Internal header of data/: the open data set, the writer, and the reader of source files. */
#ifndef SHOAL_DATA_DATA_IMPL_H
#define SHOAL_DATA_DATA_IMPL_H
#include "base/alien.h"
#include "base/status.h"
#include "base/texts.h"
#include "data/contents.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/stats.h"
#include "h5/table.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOAL_DATA_NAME = 256, SHOAL_DATA_CHANNELS = 16 };
enum { SHOAL_DATA_NAMES = 1 << 22 }; /* bytes of the names of classes, of features or of targets */
#define SHOAL_DATA_SUMS "x_crc32c"   /* beside x: the check sum of each sample */

/* ---- the role of each array of a file (match.c) ---- */
enum { SHOAL_DATA_WORD = 32 };
/** The next word of a name, lower case, in `word`; returns where it ends, or NULL after the last.  Words end at anything
 *  that is not a letter and where a small letter is followed by a capital. */
const char *shoal_data_next_word(const char *c, char word[SHOAL_DATA_WORD]);

typedef struct {
  bool foreign, text;
  bool targets;    /* y are numbers to be predicted */
  bool plain;      /* no word of the names says for which split they are */
  bool tests_only; /* the file has test arrays alone; they are given as the training split */
  char x[2][SHOAL_DATA_NAME], y[2][SHOAL_DATA_NAME]; /* "" when absent; tokens are x */
} shoal_data_names;
typedef enum { SHOAL_ROLE_NONE, SHOAL_ROLE_X, SHOAL_ROLE_Y } shoal_data_role;
/** What an array is by the words of its name ("X_train", "labels"), for files of arrays other than HDF5; `loose`: whatever other words it
 *  has ("mnist_X_train"). */
shoal_data_role shoal_data_role_of(const char *name, bool loose);
/** @param alone  the file is the whole data set: it must have a training split
 *  Our names if present; else matched by the words in the names.  ERR_IO if nothing matches, two arrays match the same
 *  role, or one that is used is elsewhere or needs a plug-in. */
shoal_status shoal_data_match(shoal_h5 file, const char *path, bool alone, shoal_data_names *out);
/** Says which arrays were taken for which, of a file that does not use our names. */
void shoal_data_tell_match(const char *path, const shoal_data_names *m);

/* ---- an open data set (dataset.c, dataset_read.c) ---- */
typedef struct {
  shoal_h5_table *x, *y; /* NULL: none */
  bool wide;             /* labels are u64 in the file, which i64 would clamp */
  uint64_t rows;         /* of x in the file: samples, or tokens */
  uint64_t raw;          /* file offset of the samples if they are stored contiguously in the right type; else
                            SHOAL_H5_NO_OFFSET */
  void *held;            /* [n, sample] cached samples, and of text the token behind them; or NULL */
  int32_t *labels;       /* [n] */
  double *targets;       /* [n, targets] in place of labels */
  uint32_t *sums;        /* [n] check sums of the samples, or NULL */
  _Atomic bool ready;    /* labels, and samples if cached, are in memory */
  uint64_t missing, chunks,
      first_missing; /* chunks of samples that were never written, of how many; sample of the first */
} shoal_data_part;

struct shoal_dataset {
  char *path;
  shoal_dataset **member; /* [n_members] the files, if there are several; then there is no file, and no tables */
  size_t n_members;
  shoal_h5 file;
  shoal_data_info info;
  shoal_data_names names;
  shoal_data_part part[2];
  shoal_dtype x_type; /* in memory */
  size_t elements, sample_bytes;
  size_t span;        /* rows of the file in a sample: 1, or of text its tokens */
  int fd;             /* for raw reads; -1 */
  bool alone;         /* not one of several files */
  bool empty;         /* one of several that has no samples at all: nothing else is known of it */
  bool channels_last; /* the file has NHWC; samples are returned as NCHW */
  bool ours;          /* it says what kind it is, in our words: its attributes mean what ours mean */
  bool has_checksum, has_scale, has_classes;
  bool warned_of_marks; /* of missing values, when some samples were looked at */
  bool has_labels;      /* they are read: counted in `labels`, and kept per part */
  uint32_t checksum;    /* as stored; that of info is the identity */
  uint64_t measured;    /* samples that mean and std were measured over; 0: they are stated */
  size_t scales;        /* length of mean and std */
  double *mean, *std;
  char *class_names, *feature_names; /* or NULL */
  shoal_vocabulary *vocabulary; /* of text, or NULL; with the text that it was read from, and bytes of text per split */
  char *vocabulary_text;
  uint64_t text_bytes[2];
  int32_t
      *class_of; /* [n_class_of] of one of several files that number their classes differently: the class of all files
                        together for each of its own, by which its labels stay; or NULL */
  size_t n_class_of;
  shoal_labels labels;
  shoal_data_targets targets;
  void *scratch; /* one sample, for the conversion from NHWC */
  uint64_t hold_bytes;
  uint64_t look_bytes;  /* of the training split, that are looked at for what its attributes do not tell */
  uint64_t look_places; /* at no fewer places, even if these unpack more */
  pthread_mutex_t lock;
};
/** An empty data set, to be opened. */
shoal_status shoal_dataset_create(const char *path, shoal_dataset **out);
/** Opens one of n files, which may lack a training split, or be empty; n is 1 if it is to be predicted alone. */
shoal_status shoal_dataset_open_member(const char *path, size_t n, shoal_dataset **out);
/** Fills mean and std of the info from those of the data set. */
void shoal_dataset_fill_scale(shoal_dataset *d);
/** Reads training samples, all or at many places: finds the mean, std and check sum that the attributes lack, and warns of
 *  numbers that do not survive as 32-bit floats. */
shoal_status shoal_data_survey(shoal_dataset *d);
/** The check sum of the labels, or targets, of a split that are in memory; 0 if there are none. */
uint32_t shoal_data_sum_labels(const shoal_dataset *d, shoal_split split);
/** Number k of the tokens at x. */
int64_t shoal_data_token(const shoal_dataset *d, const void *x, size_t k);
/** Says that mean and std are of `looked` of n training samples; nothing if that is none. */
void shoal_data_tell_measured(const char *path, uint64_t n, uint64_t looked);
void shoal_dataset_forget_labels(shoal_dataset *d);
/** Reads all labels into memory and counts them, once; does not check them. */
shoal_status shoal_dataset_hold_labels(shoal_dataset *d);
/** Reads the attributes that say something, into d.  What has another form or meaning is named by a warning and not
 *  used (attributes.c). */
shoal_status shoal_data_read_attributes(shoal_dataset *d);
/** Reads the vocabulary of text, if there is one.  ERR_IO if it is none, or not of as many tokens as the data set has classes. */
shoal_status shoal_data_read_vocabulary(shoal_dataset *d);
/** Drops, by a warning, class names that are too long, or do not fit the number of classes as far as that is known. */
void shoal_data_check_class_names(shoal_dataset *d);
/** Whether the file states a kind in our words; its images then have their channels first. */
bool shoal_data_states_kind(shoal_h5 file);
/* What samples look like when they are normalised by the mean and std that a file states. */
typedef struct {
  uint64_t samples;
  uint64_t *far;             /* [scales] values that are many standard deviations away */
  double near, sum, squares; /* of all others: how many, and sums of what they are normalised to */
} shoal_data_fit;
/** Adds a sample; frees nothing: the caller frees `far`. */
shoal_status shoal_data_fit_add(const shoal_dataset *d, const void *x, shoal_data_fit *fit);
/** Drops mean and std of a foreign file, by a warning, if they describe neither all values seen nor all but a few of each
 *  feature. */
void shoal_data_doubt_scale(shoal_dataset *d, const shoal_data_stats *seen, const shoal_data_fit *fit);

/* ---- numbers to be predicted (targets.c) ---- */
/** Opens their array of a split.  ERR_IO if it is none of numbers, one row per sample. */
shoal_status shoal_targets_open(shoal_dataset *d, shoal_split split);
/** Reads all of them and measures mean and std.  ERR_IO naming sample and target that is not finite. */
shoal_status shoal_targets_hold(shoal_dataset *d);
/** Those of several files together.  ERR_IO if they have others. */
shoal_status shoal_targets_join(shoal_dataset *d);
void shoal_targets_normalise(const shoal_data_targets *t, const double *target, float *out); /* [n] each */
void shoal_targets_fini(shoal_data_targets *t);

/* ---- what is mended by a command of h5py (cure.c) ---- */
/** The command of h5py that makes one array of a file's many, which hold a sample each or those of a class, or NULL if they do not;
 *  `what` is how they are: "a group for each sample".  Caller frees. */
char *shoal_data_scattered_command(shoal_h5 file, const char *path, const char **what);
/** ERR_IO with the possible labels and the command that writes it in full if a file's samples are a sparse matrix. */
shoal_status shoal_data_refuse_sparse(shoal_h5 file, const char *path);
/** "if /spectra are the samples and /kind their classes, this writes PATH.plain.h5, which is read: COMMAND", of arrays whose names do
 *  not say so, or NULL if no two look like that (pairs.c).  Caller frees. */
char *shoal_data_pair_command(shoal_h5 file, const char *path);
bool shoal_data_names_label(const char *name); /* a word of it means labels: "y", "category" */
bool shoal_data_names_no_class(
    const char *name); /* a word of it tells samples apart, but not into classes: "id", "file" */
/** Elements of an array all of whose dimensions but one are 1; 0 of others. */
uint64_t shoal_data_vector_length(const shoal_h5_facts *f);
/** A shell command that copies n arrays as plain data sets to PATH.plain.h5; placeholders stand for names that a shell could
 *  misread.  Caller frees. */
char *shoal_data_copy_command(const char *path, const char *const *names, size_t n);
/** ERR_IO for an array of samples that holds no numbers, naming its type and, where there is one, the cure. */
shoal_status shoal_data_refuse_samples(const shoal_dataset *d, const char *name, const shoal_h5_facts *f);
/** ERR_IO for an array of samples that has more dimensions than images, or more channels, with the command that makes images of it. */
shoal_status shoal_data_refuse_dimensions(const shoal_dataset *d, const char *name, const shoal_h5_facts *f);
/** As shoal_labels_check, with the command for labels that are -1 and 1. */
shoal_status shoal_data_check_labels(const shoal_dataset *d);
/** ERR_IO if an array does not hold one integer per sample; likewise. */
shoal_status shoal_data_check_labels_form(const shoal_dataset *d, const char *name, const shoal_h5_facts *f);

/* ---- writing (writer.c) ---- */
typedef struct {
  shoal_data_kind kind;
  shoal_shape sample;
  int x_bytes;
  const char *source;
  const uint32_t *identity;           /* NULL: the checksum of what is written */
  const char *feature_names;          /* one per line, or NULL */
  size_t targets;                     /* numbers to be predicted of a sample; 0: it has a class */
  const char *target_names;           /* one per line, or NULL */
  const shoal_vocabulary *vocabulary; /* text: NULL: tokens are bytes, or numbers */
} shoal_data_spec;
typedef struct shoal_data_writer shoal_data_writer;
/** Before any work: ERR_IO with both sizes if so many samples in all do not fit where `path` is to be. */
shoal_status shoal_data_expect(const char *path, const shoal_data_spec *spec, uint64_t samples);
/** Creates the file under a temporary name next to `path`. */
shoal_status shoal_data_writer_create(const char *path, const shoal_data_spec *spec, shoal_data_writer **out);
/** Appends n samples to a split; x [n, sample], y [n] i32, or [n, targets] f64 (NULL for text).  Buffers only a few chunks. */
shoal_status shoal_data_writer_add(shoal_data_writer *w, shoal_split split, uint64_t n, const void *x, const void *y);
/** The name of the file that the next sample of a split is of, without a line end: of each sample of it, or of none. */
void shoal_data_writer_name(shoal_data_writer *w, shoal_split split, const char *file);
uint64_t shoal_data_writer_count(const shoal_data_writer *w, shoal_split split);
/** Writes the attributes, closes and syncs the file, and renames it.  `class_names` is NULL or one name per line; beside targets
 *  both do not count.  ERR_IO if there are no training samples.  Call destroy afterwards in any case. */
shoal_status shoal_data_writer_commit(shoal_data_writer *w, int64_t classes, const char *class_names);
/** Removes the temporary file unless it was committed. */
void shoal_data_writer_destroy(shoal_data_writer *w);
uint64_t shoal_data_chunk_rows(shoal_data_kind kind, size_t sample_bytes);

/* ---- source files, plain or gzip, recognised by their first bytes (source.c) ---- */
typedef struct shoal_source shoal_source;
shoal_status shoal_source_open(const char *path, shoal_source **out);
void shoal_source_close(shoal_source *s);
bool shoal_source_is_packed(const shoal_source *s);
uint64_t shoal_source_stored(const shoal_source *s); /* bytes of the file as it is */
/** How many bytes the sources of an import have that are not packed, so that they tell how much will be written. */
shoal_status shoal_import_plain_bytes(const shoal_import_args *a, uint64_t *out);
/** Reads up to n bytes; fewer only at the end.  ERR_IO if the file cannot be read or its gzip stream is truncated or
 *  corrupt, or unpacks to so much that it holds no data.
 */
shoal_status shoal_source_read(shoal_source *s, void *data, size_t n, size_t *got);
uint64_t shoal_source_most(const shoal_source *s);   /* upper bound of the bytes returned, after decompression */
uint64_t shoal_source_offset(const shoal_source *s); /* bytes returned so far, after decompression */
/** ERR_IO with both sizes and the cure if a packed file should unpack to so many bytes and data does not pack so well. */
shoal_status shoal_source_check(const shoal_source *s, uint64_t bytes);
/** The same of anything packed; the cure ends the sentence "if it is right, ...". */
shoal_status shoal_check_unpacked(const char *what, uint64_t packed, uint64_t unpacked, const char *cure);
const char *shoal_source_unit(const shoal_source *s); /* "byte" or "unpacked byte", for messages */
/** Reads the whole file and appends a NUL; caller frees. */
shoal_status shoal_source_slurp(const char *path, char **text_out, size_t *n_out);

/* ---- files of other kinds, known by their first bytes (recognise.c) ---- */
/** What a file is that neither training nor an import reads, by its first n bytes. */
shoal_alien shoal_data_find_alien(const unsigned char *head, size_t n);
/** What to do about it, with the path in its place.  Caller frees. */
char *shoal_data_alien_cure(const shoal_alien *alien, const char *path);
/** ERR_IO with the cure if the source of an import of that kind is such a file, or cannot be read. */
shoal_status shoal_data_refuse_alien(const char *path, const char *kind);
/** The kind of import that a file, or those in a folder, looks like by the names: "csv"; "KIND" of a file that looks like none. */
const char *shoal_import_guess_kind(const char *path);
/** ERR_IO with the command that imports it, for `reader` if that is not NULL, if `path` is a folder or a file of another format than
 *  HDF5; OK if it is HDF5 or nothing that is recognised (recognise.c). */
shoal_status shoal_data_refuse_source(const char *path, const shoal_data_reader *reader);

/* ---- importers: one per kind, called by import.c ---- */
/* Which source is for which split, by its name. */
typedef struct {
  bool *test;   /* [n_sources] */
  bool by_name; /* some sources are test files; else the samples are split */
} shoal_import_roles;
/** ERR_USAGE if an option would do nothing beside the names, ERR_ARG if there is no training file. */
shoal_status shoal_import_find_roles(const shoal_import_args *a, shoal_import_roles *out);
void shoal_import_roles_fini(shoal_import_roles *r);
/** Marks in out [n] the names for validation beside others for testing, since a data set has one test split; a warning tells
 *  of them.  @return how many there are */
size_t shoal_import_leave_out(const shoal_import_args *a, const char *const *names, size_t n, bool *out);
bool shoal_import_trains(const char *path);      /* its name has a word for training */
bool shoal_import_names_split(const char *path); /* its name has a word for training, testing or validation */
/** Whether the samples have no labels, --label none: they are to be predicted. */
bool shoal_import_unlabelled(const shoal_import_args *a);
/** Shape of a sample of so many numbers in a row: that of --shape, or [numbers].  ERR_ARG if it is not of as many. */
shoal_status shoal_import_sample_shape(const shoal_import_args *a, size_t numbers, shoal_shape *out);
/** The split of sample number `index` of an import: by `train_count` if given, else by its source. */
shoal_split shoal_import_nth(const shoal_import_args *a, uint64_t index, bool test);
/** How many of n consecutive samples form the training split: by train_count or test_share. */
shoal_status shoal_import_cut(const shoal_import_args *a, uint64_t n, const char *what, uint64_t *train_out);
/** Says that none of n samples (or bytes: `what`) is in the test split. */
void shoal_import_warn_untested(uint64_t n, const char *what);
/** Marks in `test` the samples that become the test split: what follows train_count, else a share of each class, drawn
 *  by the seed.  y [n] are classes; NULL: of all samples. */
shoal_status shoal_import_split(const shoal_import_args *a, uint64_t n, const int32_t *y, uint8_t *test);
char shoal_import_separator(const shoal_import_args *a); /* 0 if none is given, or it is not one character */
char shoal_import_thousands(const shoal_import_args *a); /* , . ' or a space for all spaces; 0 if it is none of them */
void shoal_import_source_text(const shoal_import_args *a, char *buf, size_t cap); /* "cifar10: a.bin, b.bin" */
/** Puts the files of a folder in the place of each folder among the sources: those whose names fit one of the patterns (a
 *  list that ends with NULL), sorted, which is told.  `args` is then a copy of `a` that lives as long as `list`. */
typedef struct {
  shoal_texts paths;
  shoal_import_args args;
} shoal_import_list;
shoal_status shoal_import_expand(const shoal_import_args *a, const char *const *patterns, shoal_import_list *list);
void shoal_import_list_fini(shoal_import_list *list);
shoal_status shoal_import_cifar(const shoal_import_args *a, const char *out_path);
shoal_status shoal_import_idx(const shoal_import_args *a, const char *out_path);
shoal_status shoal_import_csv(const shoal_import_args *a, const char *out_path);
shoal_status shoal_import_npy(const shoal_import_args *a, const char *out_path);
shoal_status shoal_import_images(const shoal_import_args *a, const char *out_path);
shoal_status shoal_import_text(const shoal_import_args *a, const char *out_path);
shoal_status shoal_synth_glyphs(const shoal_synth_args *a, shoal_data_writer *w);
#endif
