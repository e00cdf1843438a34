/* shoal data: synth, import, inspect, repack. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "report/data.h"
#include <stdlib.h>
#include <string.h>

/* A count on the command line; *out is unchanged if the flag was not given. */
static shoal_status count_flag(const shoal_args *a, const char *flag, uint64_t *out)
{
  const char *text = shoal_args_value(a, flag);
  int64_t value;
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_i64(text, &value) == SHOAL_OK && value >= 0, SHOAL_ERR_USAGE,
              "%s is \"%s\": must be a whole number, 0 or more", flag, text);
  *out = (uint64_t)value;
  return SHOAL_OK;
}

static shoal_status number_flag(const shoal_args *a, const char *flag, double *out)
{
  const char *text = shoal_args_value(a, flag);
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_f64(text, out) == SHOAL_OK, SHOAL_ERR_USAGE, "%s is \"%s\": must be a number", flag, text);
  return SHOAL_OK;
}

static const shoal_flag synth_flags[] = {
  { "-o", "--output", "FILE", SHOAL_FLAG_VALUE, "the HDF5 file to make" },
  { "--train", NULL, "N", SHOAL_FLAG_VALUE, "training samples (text: bytes)" },
  { "--test", NULL, "N", SHOAL_FLAG_VALUE, "test samples" },
  { "--seed", NULL, "N", SHOAL_FLAG_VALUE, "the same seed gives the same data" },
  { "--classes", NULL, "N", SHOAL_FLAG_VALUE, "number of classes" },
  { "--size", NULL, "N", SHOAL_FLAG_VALUE, "glyphs: side of the image" },
  { "--features", NULL, "N", SHOAL_FLAG_VALUE, "blobs: numbers per sample" },
  { "--noise", NULL, "X", SHOAL_FLAG_VALUE, "standard deviation of the noise" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const char *synth_kind(size_t i)
{
  const char *const *kinds;
  return i < shoal_data_synth_kinds(&kinds) ? kinds[i] : NULL;
}

static const shoal_verb_help synth_help = {
  "shoal data synth KIND -o FILE [options]",
  "Makes a data set: glyphs (digits drawn with distortion and noise, images), blobs (Gaussian clusters, features) or\n"
  "text (sentences of a small grammar, for networks such as gpt).",
  synth_flags,
  1,
  1,
  "  shoal data synth glyphs -o glyphs.h5\n",
  synth_kind,
};

static shoal_status synth(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&synth_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_args_words(a, &words);
  shoal_synth_args s;
  shoal_synth_defaults(words[0], &s);
  shoal_status st;
  uint64_t classes = (uint64_t)s.classes, size = (uint64_t)s.size, features = (uint64_t)s.features;
  const char *out = shoal_args_value(a, "-o");
  SHOAL_CHECK_GOTO(st, s.kind, done, SHOAL_ERR_USAGE, "\"%s\" is no kind of synthetic data: glyphs, blobs or text",
                   words[0]);
  SHOAL_CHECK_GOTO(st, out, done, SHOAL_ERR_USAGE, "no output file: give one with -o, as in -o %s.h5", words[0]);
  SHOAL_TRY_GOTO(st, count_flag(a, "--train", &s.train), done);
  SHOAL_TRY_GOTO(st, count_flag(a, "--test", &s.test), done);
  SHOAL_TRY_GOTO(st, count_flag(a, "--seed", &s.seed), done);
  SHOAL_TRY_GOTO(st, count_flag(a, "--classes", &classes), done);
  SHOAL_TRY_GOTO(st, count_flag(a, "--size", &size), done);
  SHOAL_TRY_GOTO(st, count_flag(a, "--features", &features), done);
  SHOAL_TRY_GOTO(st, number_flag(a, "--noise", &s.noise), done);
  s.classes = (int64_t)classes;
  s.size = (int64_t)size;
  s.features = (int64_t)features;
  SHOAL_TRY_GOTO(st, shoal_data_synth(&s, out), done);
  shoal_info("%s: %llu training and %llu test samples of %s", out, (unsigned long long)s.train,
             (unsigned long long)s.test, s.kind);
done:
  shoal_args_destroy(a);
  return st;
}

static const shoal_flag import_flags[] = {
  { "-o", "--output", "FILE", SHOAL_FLAG_VALUE, "the HDF5 file to make (a.h5 of a.csv, if there is none)" },
  { "--train-count", NULL, "N", SHOAL_FLAG_VALUE,
    "the first N samples are the training split, the rest the test split" },
  { "--test-share", NULL, "X", SHOAL_FLAG_VALUE,
    "share of the samples in the test split, 0 for none (0.1); csv, npy, images: drawn from each class, text: the "
    "end" },
  { "--seed", NULL, "N", SHOAL_FLAG_VALUE, "of the draw of test samples (1)" },
  { "--label", NULL, "COLUMN", SHOAL_FLAG_VALUE,
    "csv: name or number (from 1) of the label column; else one called label, class or target, else the last; none: "
    "there "
    "is no such column, the samples are to be predicted" },
  { "--target", NULL, "COLUMN", SHOAL_FLAG_LIST,
    "csv: name or number of a column of numbers that are to be predicted (regression), in place of a label; npy: name "
    "of "
    "the array that has them; may be given again" },
  { "--drop", NULL, "COLUMN", SHOAL_FLAG_LIST, "csv: name or number of a column to leave out; may be given again" },
  { "--header", NULL, "yes|no", SHOAL_FLAG_VALUE, "csv: whether the first row names the columns; else as it looks" },
  { "--separator", NULL, "C", SHOAL_FLAG_VALUE, "csv: the character between fields, or tab; else as it looks" },
  { "--decimal", NULL, ".|,", SHOAL_FLAG_VALUE, "csv: the decimal sign; else as it looks" },
  { "--thousands", NULL, "C", SHOAL_FLAG_VALUE,
    "csv: the sign between groups of three digits, one of , . ' and a space; else as it looks" },
  { "--missing", NULL, "drop|mean", SHOAL_FLAG_VALUE,
    "csv: leave out rows with an empty field or NA among the features, or fill these with the mean of their column in "
    "the training split; else an error" },
  { "--shape", NULL, "C,H,W", SHOAL_FLAG_VALUE,
    "csv, npy: rows are the pixels of images of that many channels, rows and columns, channel after channel, as "
    "1,28,28; else they are features" },
  { "--size", NULL, "WxH", SHOAL_FLAG_VALUE,
    "images: scale all to that width and height, as 64x48 or 64 for both, whatever their proportions; else all must "
    "have "
    "one size" },
  { "--vocab", NULL, "FILE", SHOAL_FLAG_VALUE,
    "text: vocab.json of a byte-pair encoding as GPT-2 has it, with --merges; else tokens are bytes" },
  { "--merges", NULL, "FILE", SHOAL_FLAG_VALUE, "text: merges.txt of that encoding" },
  { "--tokenizer", NULL, "FILE", SHOAL_FLAG_VALUE, "text: both in one, a tokenizer.json of Hugging Face" },
  { "--like", NULL, "RUN|FILE", SHOAL_FLAG_VALUE,
    "csv, images, text: to be predicted, or tested with: the columns and means, or the size and channels, and the "
    "classes, or the vocabulary of what that run was trained on (or of a checkpoint, a model exported as .h5, a data "
    "set)" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help import_help = {
  "shoal data import KIND SOURCE... [-o FILE] [options]",
  "Makes a data set from files: cifar10 and cifar100 (binary batches), idx (MNIST's image and label files), csv, npy "
  "(NumPy "
  "arrays, .npy or .npz), images (a folder of PNG and JPEG files with a folder for each class), text (bytes, or "
  "by a vocabulary, for networks such as gpt). A folder stands for "
  "the files in it. Gzip is recognised. Files with test, t10k or val as a word of their names become the test split.",
  import_flags,
  1,
  -1,
  "  shoal data import cifar10 data_batch_*.bin.gz test_batch.bin.gz -o cifar10.h5\n"
  "  shoal data import idx t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz --train-count 9000 -o digits.h5\n"
  "  shoal data import images flowers/ --test-share 0.2 -o flowers.h5\n"
  "  shoal data import images photos/ --size 64x64 -o photos.h5\n"
  "  shoal data import npy X_train.npy y_train.npy X_test.npy y_test.npy -o set.h5\n"
  "  shoal data import csv train.csv test.csv --label species --drop id -o flowers.h5\n"
  "  shoal data import csv houses.csv --target price -o houses.h5\n"
  "  shoal data import csv digits.csv --shape 1,28,28 -o digits.h5\n"
  "  shoal data import csv new.csv --like runs/flowers -o new.h5\n"
  "  shoal data import images new/ --like runs/flowers -o new.h5\n"
  "  shoal data import text new.txt --like runs/novels -o new.h5\n",
  shoal_data_import_kind,
};

/* What was given, as the importer wants it; numbers that were not given stay NULL. */
typedef struct {
  shoal_import_args args;
  char *like; /* path of the file */
  double test_share;
  uint64_t seed;
} import_options;

static shoal_status read_import_options(const shoal_args *a, import_options *o)
{
  const char *const *words;
  size_t n = shoal_args_words(a, &words);
  o->args = (shoal_import_args){ .kind = words[0],
                                 .sources = words + 1,
                                 .n_sources = n - 1,
                                 .label = shoal_args_value(a, "--label"),
                                 .header = shoal_args_value(a, "--header"),
                                 .separator = shoal_args_value(a, "--separator"),
                                 .decimal = shoal_args_value(a, "--decimal"),
                                 .thousands = shoal_args_value(a, "--thousands"),
                                 .missing = shoal_args_value(a, "--missing"),
                                 .size = shoal_args_value(a, "--size"),
                                 .shape = shoal_args_value(a, "--shape"),
                                 .vocab = shoal_args_value(a, "--vocab"),
                                 .merges = shoal_args_value(a, "--merges"),
                                 .tokenizer = shoal_args_value(a, "--tokenizer") };
  o->args.n_drop = shoal_args_list(a, "--drop", &o->args.drop);
  o->args.n_target = shoal_args_list(a, "--target", &o->args.target);
  SHOAL_TRY(count_flag(a, "--train-count", &o->args.train_count));
  SHOAL_TRY(count_flag(a, "--seed", &o->seed));
  SHOAL_TRY(number_flag(a, "--test-share", &o->test_share));
  SHOAL_CHECK(o->args.train_count > 0 || !shoal_args_value(a, "--train-count"), SHOAL_ERR_USAGE,
              "--train-count is 0: there must be a sample to train with");
  if (shoal_args_value(a, "--like")) SHOAL_TRY(shoal_ckpt_find(shoal_args_value(a, "--like"), &o->like));
  o->args.like = o->like;
  if (shoal_args_value(a, "--seed")) o->args.seed = &o->seed;
  if (shoal_args_value(a, "--test-share")) o->args.test_share = &o->test_share;
  return SHOAL_OK;
}

/* Without -o: the name of the first source in the current folder, as a.h5 of data/a.csv.gz.  Nothing is replaced that was not
 * named.  The caller frees. */
static shoal_status choose_output(const import_options *o, char **out)
{
  char word[SHOAL_WORD];
  *out = NULL;
  SHOAL_CHECK(o->args.n_sources > 0, SHOAL_ERR_USAGE, "nothing to import: name the files of the %s data set",
              o->args.kind);
  char *path = shoal_strdup_printf("%s", o->args.sources[0]);
  for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';) path[--n] = '\0';
  char *name = shoal_strdup_printf("%s", shoal_path_base(path)), *end = strrchr(name, '.');
  if (end && strcmp(end, ".gz") == 0) *end = '\0';
  end = strrchr(name, '.');
  if (end && end > name) *end = '\0';
  if (name[0] && name[0] != '.') *out = shoal_strdup_printf("%s.h5", name);
  free(name);
  free(path);
  SHOAL_CHECK(*out, SHOAL_ERR_USAGE, "no output file: give one with -o, as in -o set.h5");
  SHOAL_CHECK(!shoal_path_exists(*out), SHOAL_ERR_USAGE,
              "no output file, and %s is there already: give one with -o (-o %s replaces it)", *out,
              shoal_shell_word(*out, word));
  return SHOAL_OK;
}

static shoal_status import(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&import_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *out = shoal_args_value(a, "-o");
  import_options o = { 0 };
  shoal_args_words(a, &words);
  shoal_status st;
  char *chosen = NULL;
  SHOAL_TRY_GOTO(st, read_import_options(a, &o), done);
  if (!out) {
    SHOAL_TRY_GOTO(st, choose_output(&o, &chosen), done);
    out = chosen;
  }
  SHOAL_TRY_GOTO(st, shoal_data_import(&o.args, out), done);
  st = shoal_data_inspect(&out, 1, false, stdout);
done:
  free(chosen);
  free(o.like);
  shoal_args_destroy(a);
  return st;
}

static const shoal_flag inspect_flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help inspect_help = {
  "shoal data inspect FILE... [--json]",
  "Shapes, classes, mean, standard deviation, chunks, cost of shuffled reads; checks labels and checksum. Several "
  "files are\n"
  "one data set, as in data.file: each is shown, then all together.",
  inspect_flags,
  1,
  -1,
  "  shoal data inspect part-*.h5\n",
};

static shoal_status inspect(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&inspect_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  size_t n = shoal_args_words(a, &words);
  bool json = shoal_json_wanted(a);
  shoal_status st = shoal_data_inspect(words, n, json, stdout);
  shoal_args_destroy(a);
  return st;
}

static const shoal_flag repack_flags[] = {
  { "-o", "--output", "FILE", SHOAL_FLAG_VALUE, "the HDF5 file to make" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help repack_help = {
  "shoal data repack FILE... -o FILE",
  "Copies a data set with chunks of a few samples and Shoal's names, so that shuffled reads are fast. Several files, "
  "as in\n"
  "data.file, become one.",
  repack_flags,
  1,
  -1,
  "  shoal data repack part-*.h5 -o set.h5\n",
};

static shoal_status repack(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&repack_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *out = shoal_args_value(a, "-o");
  size_t n = shoal_args_words(a, &words);
  shoal_status st =
      out ? shoal_data_repack(words, n, out) : SHOAL_FAIL(SHOAL_ERR_USAGE, "no output file: give one with -o");
  shoal_args_destroy(a);
  return st;
}

const shoal_verb shoal_data_verbs[] = {
  { "synth", "make a synthetic data set: glyphs, blobs, text", synth, &synth_help },
  { "import", "convert CSV, NumPy, images, IDX (MNIST), CIFAR, text", import, &import_help },
  { "inspect", "contents of a data set, and the cost of reading it", inspect, &inspect_help },
  { "repack", "copy with chunks for fast shuffled reads", repack, &repack_help },
  { NULL },
};
