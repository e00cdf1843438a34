/* What the labels of a data set say about its classes, and what is wrong or odd about them.
 *
 * One summary counts every distinct label per split, whatever its value, so a single label of 2^40 costs 48 bytes and
 * not an array of 2^40 counters.  Importers, `shoal data inspect` and training fill it and use the same words:
 *
 *     refused   a label below 0, at or above the stated number of classes, or above SHOAL_CLASSES_MOST - 1; without a stated
 *               number, a label in the thousands and 16 times the second largest
 *     warned    one class only; classes without a training sample (labels that count from 1); a label that stands apart
 *               (255, 999: often a mark for "no label"); classes that one split lacks; a class of 95 % of all samples */
#ifndef SHOAL_DATA_LABELS_H
#define SHOAL_DATA_LABELS_H
#include "base/status.h"
#include "base/str.h"
#include "data/dataset.h"
#include <stdbool.h>

/* Class numbers are 0 .. SHOAL_CLASSES_MOST - 1.  The limit keeps one wrong label from asking for gigabytes of weights. */
#define SHOAL_CLASSES_MOST (INT64_C(1) << 24)

/* The one class of samples without labels. */
#define SHOAL_LABELS_NONE "?"

typedef struct {
  int64_t value;
  uint64_t count[2], first[2]; /* per split: samples with this label, and the number of the first of them */
} shoal_label;

typedef struct {
  int64_t stated;     /* number of classes that the data set states; 0: one more than the largest label */
  uint64_t n[2];      /* labels counted per split */
  size_t distinct;    /* different labels */
  shoal_label *all;   /* [distinct]; ascending after shoal_labels_finish */
  uint32_t *slots;    /* hash table over `all`: index + 1, 0 is free */
  size_t cap;         /* of `slots`, a power of two */
  bool may_state;     /* the data set can state its number of classes: HDF5, by an attribute */
  const char *names;  /* of the classes, one per line, or NULL; borrowed */
  const char *source; /* "csv: a.csv", what it was imported from, "" or NULL; borrowed */
} shoal_labels;

void shoal_labels_init(shoal_labels *l, int64_t stated);
void shoal_labels_fini(shoal_labels *l);
/** Counts the next label of a split.  ERR_MEM if there is no memory for another distinct label. */
shoal_status shoal_labels_add(shoal_labels *l, shoal_split split, int64_t label);
/** The class for a label of a file that numbers its n classes by itself: class_of[label], or -1 if it is none of them; the label
 *  itself without class_of. */
int64_t shoal_labels_map(const int32_t *class_of, size_t n, int64_t label);
/** Adds the counts of another summary behind those that are there, its labels mapped likewise. */
shoal_status shoal_labels_merge(shoal_labels *l, const shoal_labels *from, const int32_t *class_of, size_t n);
/** Sorts the labels; call it once after the last one and before the functions below. */
void shoal_labels_finish(shoal_labels *l);

/** The stated number of classes, or one more than the largest label. */
int64_t shoal_labels_classes(const shoal_labels *l);
/** Labels of a split that are not in 0 .. classes-1. */
uint64_t shoal_labels_outside(const shoal_labels *l, shoal_split split);
/** ERR_IO naming path, array, sample, value and the cure if a label is no class number. `array` has the names of the
 *  labels' arrays per split, without the leading slash. */
shoal_status shoal_labels_check(const shoal_labels *l, const char *path, const char *const array[2]);
/** Whether they are -1 and 1 alone, as of two classes that a sign tells. */
bool shoal_labels_are_signs(const shoal_labels *l);
/** The summary of all labels of a data set as they are in its file, whatever their width; borrowed.  They are read once,
 *  in parts, and kept for training.  Call it first from one thread. */
shoal_status shoal_dataset_labels(shoal_dataset *d, const shoal_labels **out);
/** Reads the labels and refuses or warns by the rules above. */
shoal_status shoal_dataset_check_labels(shoal_dataset *d);
/** ERR_IO for a target that is the same in all training samples. */
shoal_status shoal_dataset_check_targets(const shoal_dataset *d);
/** The command of h5py that fills samples' values that are not finite by the mean of the others in the training split, of the same
 *  feature, or of all where samples are no features; NULL for several files.  Caller frees. */
char *shoal_dataset_fill_command(const shoal_dataset *d);
/** "this writes SET.h5.plain.h5, with a tenth of the samples for tests: COMMAND", of a data set in one file that has no test split; NULL of
 *  text and of several files.  Caller frees. */
char *shoal_dataset_test_cure(const shoal_dataset *d);
/** The command of h5py that makes images of that shape of the samples of a file, which are the numbers of their pixels.  Caller frees. */
char *shoal_dataset_reshape_command(const shoal_dataset *d, const shoal_shape *shape);
/** Warns of such a target: samples that are only to be predicted may have one. */
void shoal_dataset_warn_of_targets(const shoal_dataset *d);
/** Adds one line to `out` for everything that looks wrong, "" if nothing does.  @return the number of lines */
size_t shoal_labels_odd(const shoal_labels *l, shoal_str *out);
/** Whether two labels are one but for a dot behind the other: ">50K" and ">50K.". */
bool shoal_labels_dotted(const char *one, const char *other);
/** Prints the lines of shoal_labels_odd as warnings, each with `path` in front. */
void shoal_labels_warn(const shoal_labels *l, const char *path);
/** What is wrong with the n numbers of a sample where labels should be one-hot, with the cure; NULL if just one is 1 and all
 *  others are 0. */
const char *shoal_labels_row(uint64_t n, const double *row);
/** Adds a name to the names, which are one per line: a line end inside becomes "\\n" or "\\r", as it is typed.
 *  @return whether there was one */
bool shoal_labels_add_name(shoal_str *names, bool first, const char *name);
/** The k-th of the names, which are one per line, with control characters as escapes; "" if there is none. */
const char *shoal_labels_name(const char *names, int64_t k, char *buf, size_t cap);
/** The largest or smallest label if it stands apart from all others and looks like a mark for "no label": -1 beside
 *  0 .. 9, 255 beside 0 .. 9; else NULL. */
const shoal_label *shoal_labels_mark(const shoal_labels *l);
#endif
