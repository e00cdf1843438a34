/* shoal ckpt: list, show, verify, diff, export, prune. */
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "cli/cli.h"
#include "report/ckpt.h"
#include "train/network.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const shoal_flag json_flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};

static const shoal_verb_help list_help = {
  "shoal ckpt list FOLDER [--json]",
  "The checkpoints of a run folder, newest first, and whether each verifies.",
  json_flags,
  1,
  1,
  "  shoal ckpt list runs/digits\n",
};

static shoal_status list(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&list_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_args_words(a, &words);
  char *folder = shoal_ckpt_folder_of(words[0]);
  shoal_status st = shoal_ckpt_print_list(folder, shoal_json_wanted(a), stdout);
  free(folder);
  shoal_args_destroy(a);
  return st;
}

static const shoal_verb_help show_help = {
  "shoal ckpt show RUN|CHECKPOINT [--json]",
  "What a checkpoint holds: position, run file, arrays with shapes and checksums. RUN is a run folder, whose newest "
  "good "
  "checkpoint is taken.",
  json_flags,
  1,
  1,
  NULL,
};

static shoal_status show(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&show_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_args_words(a, &words);
  char *file = NULL;
  shoal_status st = shoal_ckpt_find(words[0], &file);
  if (st == SHOAL_OK) st = shoal_ckpt_print(file, shoal_json_wanted(a), stdout);
  free(file);
  shoal_args_destroy(a);
  return st;
}

static const shoal_flag no_flags[] = { { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL } };
static const shoal_verb_help verify_help = {
  "shoal ckpt verify RUN|CHECKPOINT...",
  "Reads everything and compares checksums; exit 7 if anything is wrong. RUN is a run folder, of which every "
  "checkpoint "
  "is verified, the newest first.",
  no_flags,
  1,
  -1,
  NULL,
};

/* A file, or all checkpoints of a run folder: the newest good one would hide what is wrong. */
static shoal_status verify_path(const char *path)
{
  struct stat s;
  shoal_ckpt_folder f;
  if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) return shoal_ckpt_verify(path, stdout);
  char *folder = shoal_ckpt_folder_of(path);
  shoal_status worst = shoal_ckpt_folder_scan(folder, &f);
  if (worst == SHOAL_OK) {
    if (f.n == 0) worst = SHOAL_FAIL(SHOAL_ERR_IO, "%s holds no checkpoint (step-*.h5)", folder);
    for (size_t i = 0; i < f.n; i++) {
      shoal_status st = shoal_ckpt_verify(f.at[i].path, stdout);
      if (st != SHOAL_OK) worst = st;
    }
    shoal_ckpt_folder_free(&f);
  }
  free(folder);
  return worst;
}

static shoal_status verify(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&verify_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  size_t n = shoal_args_words(a, &words);
  shoal_status worst = SHOAL_OK;
  for (size_t i = 0; i < n; i++) {
    shoal_status st = verify_path(words[i]);
    if (st != SHOAL_OK) worst = st;
  }
  shoal_args_destroy(a);
  return worst;
}

static const shoal_flag diff_flags[] = {
  { "--only", NULL, "PREFIX", SHOAL_FLAG_VALUE, "compare only arrays whose names start with PREFIX, as in model/" },
  { "--except", NULL, "PREFIX", SHOAL_FLAG_VALUE,
    "skip arrays whose names start with PREFIX, or with one of several joined by commas (train/seconds,record/)" },
  { "--tolerance", NULL, "X", SHOAL_FLAG_VALUE,
    "largest difference that counts as equal, relative to the array's largest value (0: bits)" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help diff_help = {
  "shoal ckpt diff A B [--only PREFIX] [--except PREFIX] [--tolerance X]",
  "Compares two checkpoints array by array, except for the clock and the records. Exit 0 if they are equal, else 7. A "
  "and "
  "B are checkpoints or run folders, of which the newest good checkpoint is taken.",
  diff_flags,
  2,
  2,
  NULL,
};

static shoal_status diff(int argc, char **argv)
{
  bool helped, different = false;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&diff_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *text = shoal_args_value(a, "--tolerance"), *except = shoal_args_value(a, "--except");
  shoal_args_words(a, &words);
  double tolerance = 0;
  char *first = NULL, *second = NULL;
  shoal_status st = text && shoal_parse_f64(text, &tolerance) != SHOAL_OK
                        ? SHOAL_FAIL(SHOAL_ERR_USAGE, "--tolerance is \"%s\": must be a number", text)
                        : shoal_ckpt_find(words[0], &first);
  if (st == SHOAL_OK) st = shoal_ckpt_find(words[1], &second);
  if (st == SHOAL_OK)
    st = shoal_ckpt_diff(first, second, shoal_args_value(a, "--only"), except ? except : "train/seconds,record/",
                         tolerance, shoal_json_wanted(a), stdout, &different);
  free(first);
  free(second);
  shoal_args_destroy(a);
  /* The differences are on standard output. */
  return st == SHOAL_OK && different ? shoal_error_told(SHOAL_FAIL(SHOAL_ERR_IO, "the checkpoints differ")) : st;
}

static const shoal_flag export_flags[] = {
  { "-o", "--output", "FILE", SHOAL_FLAG_VALUE,
    "the file to write: NAME.h5, NAME.onnx or NAME.safetensors (model.h5)" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help export_help = {
  "shoal ckpt export RUN|CHECKPOINT [-o FILE]",
  "Writes the model alone: full-rank weights and mean statistics of any method's checkpoint, for other programs.\n"
  "ONNX: a graph that takes raw samples, input [N, ...], and gives probabilities and logits. safetensors: the tensors, "
  "and\nwhat is known of them as metadata. HDF5: a data set for each tensor.\n"
  "In HDF5 attributes say how to use it: its inputs are (x - mean) / std, with one value per channel of images [c,h,w] "
  "or per\n"
  "feature; sample is the shape of an input, line k of class_names is the name of output k, and layers are the "
  "network's,\n"
  "in JSON: docs/predict.py evaluates it with NumPy alone. RUN is a run folder, whose newest good checkpoint is taken.",
  export_flags,
  1,
  1,
  "  shoal ckpt export runs/digits -o digits.onnx\n  shoal ckpt export runs/digits -o digits-model.h5\n"
  "  in Python: m = h5py.File('digits-model.h5'); x = (x - m.attrs['mean'][:, None, None]) / m.attrs['std'][:, None, "
  "None]\n",
};

static shoal_status export(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&export_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *out = shoal_args_value(a, "-o");
  shoal_args_words(a, &words);
  shoal_status st = shoal_network_export(words[0], out ? out : "model.h5");
  shoal_args_destroy(a);
  return st;
}

enum { KEEP_MAX = 1000000 };
static const shoal_flag prune_flags[] = {
  { "--keep", NULL, "N", SHOAL_FLAG_VALUE, "number of good checkpoints to keep (2)" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help prune_help = {
  "shoal ckpt prune FOLDER [--keep N]",
  "Removes old checkpoints. The newest that verify are kept, always at least one.",
  prune_flags,
  1,
  1,
  NULL,
};

static shoal_status prune(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&prune_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *text = shoal_args_value(a, "--keep");
  shoal_args_words(a, &words);
  int64_t keep = 2;
  shoal_status st;
  if (text && (shoal_parse_i64(text, &keep) != SHOAL_OK || keep < 1 || keep > KEEP_MAX)) {
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--keep is \"%s\": must be a whole number, 1 to %d", text, KEEP_MAX);
  } else {
    char *folder = shoal_ckpt_folder_of(words[0]);
    st = shoal_path_look(folder);
    if (st == SHOAL_OK)
      st = shoal_path_exists(folder) ? shoal_ckpt_prune(folder, (int)keep, SHOAL_CKPT_NOT_ONE)
                                     : SHOAL_FAIL(SHOAL_ERR_IO, "there is no folder %s", folder);
    free(folder);
  }
  shoal_args_destroy(a);
  return st;
}

const shoal_verb shoal_ckpt_verbs[] = {
  { "list", "the checkpoints of a run", list, &list_help },
  { "show", "contents of one", show, &show_help },
  { "verify", "read all and compare checksums", verify, &verify_help },
  { "diff", "compare two", diff, &diff_help },
  { "export", "write the model alone, for other programs", export, &export_help },
  { "prune", "remove old ones", prune, &prune_help },
  { NULL },
};
