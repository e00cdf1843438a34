/* `shoal data import`: the kinds, and the options that each of them has. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv_number.h"
#include "data/data_impl.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  TRAIN_COUNT = 1,
  TEST_SHARE = 2,
  SEED = 4,
  LABEL = 8,
  DROP = 16,
  HEADER = 32,
  SEPARATOR = 64,
  DECIMAL = 128,
  THOUSANDS = 256,
  MISSING = 512,
  LIKE = 1024,
  TARGET = 2048,
  VOCABULARY = 4096,
  SHAPE = 8192,
  SIZE = 16384
};

static const struct {
  const char *name;
  shoal_status (*import)(const shoal_import_args *a, const char *out_path);
  const char *files[6]; /* patterns of the files that a folder is replaced by; none: the importer reads folders */
  unsigned options;
} kinds[] = {
  { "cifar10",
    shoal_import_cifar,
    { "data_batch*.bin", "test_batch*.bin", "data_batch*.gz", "test_batch*.gz" },
    TRAIN_COUNT },
  { "cifar100", shoal_import_cifar, { "train*.bin", "test*.bin", "train*.gz", "test*.gz" }, TRAIN_COUNT },
  { "idx", shoal_import_idx, { "*ubyte", "*ubyte.gz", "*.idx", "*.idx.gz", "*[.-]idx[1-9]-*" }, TRAIN_COUNT },
  { "csv",
    shoal_import_csv,
    { "*.csv", "*.csv.gz", "*.tsv", "*.tsv.gz" },
    TRAIN_COUNT | TEST_SHARE | SEED | LABEL | TARGET | DROP | HEADER | SEPARATOR | DECIMAL | THOUSANDS | MISSING |
        LIKE | SHAPE },
  { "npy", shoal_import_npy, { "*.npy", "*.npz" }, TRAIN_COUNT | TEST_SHARE | SEED | TARGET | SHAPE },
  { "images", shoal_import_images, { NULL }, TEST_SHARE | SEED | LIKE | SIZE },
  { "text", shoal_import_text, { "*.txt", "*.txt.gz" }, TRAIN_COUNT | TEST_SHARE | VOCABULARY | LIKE },
};

const char *shoal_data_import_kind(size_t i)
{
  return i < SHOAL_COUNT(kinds) ? kinds[i].name : NULL;
}

void shoal_import_source_text(const shoal_import_args *a, char *buf, size_t cap)
{
  size_t at = (size_t)snprintf(buf, cap, "%s:", a->kind);
  for (size_t i = 0; i < a->n_sources && at < cap; i++)
    at += (size_t)snprintf(buf + at, cap - at, "%s %s", i ? "," : "", shoal_path_base(a->sources[i]));
}

/* An option that does nothing is an error: whoever gives it expects something else. */
static shoal_status check_options(const shoal_import_args *a, unsigned has)
{
  const struct {
    const char *flag;
    unsigned option;
    bool given;
  } options[] = {
    { "--train-count", TRAIN_COUNT, a->train_count > 0 },
    { "--test-share", TEST_SHARE, a->test_share != NULL },
    { "--seed", SEED, a->seed != NULL },
    { "--label", LABEL, a->label != NULL },
    { "--target", TARGET, a->n_target > 0 },
    { "--drop", DROP, a->n_drop > 0 },
    { "--header", HEADER, a->header != NULL },
    { "--separator", SEPARATOR, a->separator != NULL },
    { "--decimal", DECIMAL, a->decimal != NULL },
    { "--thousands", THOUSANDS, a->thousands != NULL },
    { "--missing", MISSING, a->missing != NULL },
    { "--like", LIKE, a->like != NULL },
    { "--shape", SHAPE, a->shape != NULL },
    { "--size", SIZE, a->size != NULL },
    { "--vocab", VOCABULARY, a->vocab != NULL },
    { "--merges", VOCABULARY, a->merges != NULL },
    { "--tokenizer", VOCABULARY, a->tokenizer != NULL },
  };
  for (size_t i = 0; i < SHOAL_COUNT(options); i++) {
    if (!options[i].given || (has & options[i].option)) continue;
    shoal_str whose = { 0 };
    for (size_t k = 0; k < SHOAL_COUNT(kinds); k++)
      if (kinds[k].options & options[i].option) shoal_str_add(&whose, "%s%s", whose.len ? ", " : "", kinds[k].name);
    shoal_status st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s does nothing for %s, it is for %s: leave it out%s",
                                 options[i].flag, a->kind, whose.text,
                                 options[i].option == MISSING && strcmp(a->kind, "npy") == 0
                                     ? "; x = x[numpy.isfinite(x).all(1)] leaves rows with a missing value out, "
                                       "numpy.nan_to_num(x) fills"
                                     : "");
    shoal_str_free(&whose);
    return st;
  }
  return SHOAL_OK;
}

bool shoal_import_unlabelled(const shoal_import_args *a)
{
  return a->label && strcmp(a->label, "none") == 0;
}

char shoal_import_separator(const shoal_import_args *a)
{
  if (!a->separator) return 0;
  if (strcmp(a->separator, "tab") == 0 || strcmp(a->separator, "\\t") == 0) return '\t';
  return strlen(a->separator) == 1 && !strchr("\"\r\n", a->separator[0]) ? a->separator[0] : '\0';
}

char shoal_import_thousands(const shoal_import_args *a)
{
  char sign;
  size_t bytes = a->thousands ? shoal_csv_group_sign(a->thousands, &sign) : 0;
  return bytes && !a->thousands[bytes] ? sign : '\0';
}

/* Three whole numbers from 1 between commas; channels as many as a data set may have. */
static bool read_shape(const char *text, shoal_shape *out)
{
  *out = (shoal_shape){ .ndim = 3 };
  for (int i = 0; i < 3; i++) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    out->dim[i] = strtoll(text, &end, 10);
    if (errno || out->dim[i] < 1 || out->dim[i] > (i ? INT16_MAX : SHOAL_DATA_CHANNELS)) return false;
    if (*end != (i < 2 ? ',' : '\0')) return false;
    text = end + 1;
  }
  return true;
}

shoal_status shoal_import_sample_shape(const shoal_import_args *a, size_t numbers, shoal_shape *out)
{
  *out = SHOAL_SHAPE((int64_t)numbers);
  if (!a->shape) return SHOAL_OK;
  SHOAL_CHECK(read_shape(a->shape, out), SHOAL_ERR_ARG,
              "--shape is \"%s\": must be channels (1 to %d), height and width, as 1,28,28", a->shape,
              SHOAL_DATA_CHANNELS);
  const int64_t wanted = shoal_shape_count(out);
  SHOAL_CHECK(wanted == (int64_t)numbers, SHOAL_ERR_ARG,
              "--shape %s is %lld numbers, and samples of %s have %zu: give another shape%s", a->shape,
              (long long)wanted, a->sources[0], numbers,
              strcmp(a->kind, "csv") == 0 ? ", or name the columns that are no pixels with --label and --drop" : "");
  return SHOAL_OK;
}

static shoal_status check_values(const shoal_import_args *a)
{
  SHOAL_CHECK(!a->shape || !a->like, SHOAL_ERR_USAGE,
              "--shape does nothing beside --like, whose samples have a shape: leave it out");
  SHOAL_CHECK(!a->size || !a->like, SHOAL_ERR_USAGE,
              "--size does nothing beside --like, whose images have a size, to which all are scaled: leave it out");
  SHOAL_CHECK(!a->seed || a->test_share || a->train_count || (!a->like && !shoal_import_unlabelled(a)), SHOAL_ERR_USAGE,
              "--seed does nothing beside %s, of which no test samples are drawn: leave it out",
              a->like ? "--like" : "--label none");
  SHOAL_CHECK(
      !a->label || !a->n_target, SHOAL_ERR_USAGE,
      "--label is for a column of classes, --target for columns of numbers that are to be predicted: leave one out");
  SHOAL_CHECK(a->n_sources > 0, SHOAL_ERR_ARG, "nothing to import: name the files of the %s data set", a->kind);
  SHOAL_CHECK(!a->test_share || (*a->test_share >= 0 && *a->test_share < 1), SHOAL_ERR_ARG,
              "the test share is %g, it must be in [0, 1)", *a->test_share);
  SHOAL_CHECK(!a->header || strcmp(a->header, "yes") == 0 || strcmp(a->header, "no") == 0, SHOAL_ERR_ARG,
              "--header is \"%s\": must be yes or no", a->header);
  SHOAL_CHECK(!a->separator || shoal_import_separator(a), SHOAL_ERR_ARG,
              "--separator is \"%s\": must be one character, or tab", a->separator);
  SHOAL_CHECK(!a->decimal || strcmp(a->decimal, ".") == 0 || strcmp(a->decimal, ",") == 0, SHOAL_ERR_ARG,
              "--decimal is \"%s\": must be . or ,", a->decimal);
  SHOAL_CHECK(!a->missing || strcmp(a->missing, "drop") == 0 || strcmp(a->missing, "mean") == 0, SHOAL_ERR_ARG,
              "--missing is \"%s\": must be drop or mean", a->missing);
  SHOAL_CHECK(
      !a->vocab == !a->merges, SHOAL_ERR_USAGE,
      "%s alone is no vocabulary: give --vocab vocab.json and --merges merges.txt, or --tokenizer tokenizer.json",
      a->vocab ? "--vocab" : "--merges");
  SHOAL_CHECK(!a->like || !(a->vocab || a->tokenizer), SHOAL_ERR_USAGE,
              "%s does nothing beside --like, which has a vocabulary: leave it out",
              a->vocab ? "--vocab" : "--tokenizer");
  SHOAL_CHECK(!a->vocab || !a->tokenizer, SHOAL_ERR_USAGE,
              "--tokenizer is a vocabulary, and so are --vocab and --merges: leave one out");
  char thousands = shoal_import_thousands(a);
  SHOAL_CHECK(!a->thousands || thousands, SHOAL_ERR_ARG, "--thousands is \"%s\": must be one of , . ' and a space",
              a->thousands);
  SHOAL_CHECK(!a->decimal || a->decimal[0] != thousands, SHOAL_ERR_ARG,
              "--decimal and --thousands are both \"%c\", which stands for one of them in a number: leave one out",
              thousands);
  return SHOAL_OK;
}

/* Of a file by its name. */
static const char *kind_of(const char *name)
{
  for (size_t k = 0; k < SHOAL_COUNT(kinds); k++)
    for (size_t i = 0; i < SHOAL_COUNT(kinds[k].files) && kinds[k].files[i]; i++)
      if (fnmatch(kinds[k].files[i], name, 0) == 0) return kinds[k].name;
  return NULL;
}

const char *shoal_import_guess_kind(const char *path)
{
  DIR *folder = opendir(path);
  const char *found = folder ? NULL : kind_of(path);
  for (struct dirent *e; folder && !found && (e = readdir(folder)) != NULL;) found = kind_of(e->d_name);
  if (folder) closedir(folder);
  return found ? found : folder ? "images" : "KIND";
}

static shoal_status unknown_kind(const char *kind)
{
  if (shoal_path_exists(kind)) {
    char word[SHOAL_WORD];
    return SHOAL_FAIL(SHOAL_ERR_ARG,
                      "%s lies there, and before it its kind is wanted: shoal data import %s %s -o NAME.h5", kind,
                      shoal_import_guess_kind(kind), shoal_shell_word(kind, word));
  }
  const char *names[SHOAL_COUNT(kinds)];
  for (size_t k = 0; k < SHOAL_COUNT(kinds); k++) names[k] = kinds[k].name;
  const char *near = shoal_nearest(kind, names, SHOAL_COUNT(kinds));
  shoal_str list = { 0 };
  for (size_t k = 0; k < SHOAL_COUNT(kinds); k++) shoal_str_add(&list, "%s%s", k ? ", " : "", names[k]);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_ARG, "there is no import of kind \"%s\"%s%s%s; the kinds are %s", kind,
                               near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "", list.text);
  shoal_str_free(&list);
  return st;
}

/* Files for validation beside files for testing. */
static shoal_status drop_validation(shoal_import_list *l)
{
  bool *drop;
  size_t kept = 0;
  SHOAL_TRY(SHOAL_ALLOC(l->paths.n, &drop));
  shoal_import_leave_out(&l->args, l->args.sources, l->paths.n, drop);
  for (size_t i = 0; i < l->paths.n; i++)
    if (drop[i])
      free(l->paths.at[i]);
    else
      l->paths.at[kept++] = l->paths.at[i];
  l->args.n_sources = l->paths.n = kept;
  free(drop);
  return SHOAL_OK;
}

static shoal_status import_kind(size_t k, const shoal_import_args *a, const char *out_path)
{
  if (!kinds[k].files[0]) return kinds[k].import(a, out_path);
  shoal_import_list list = { 0 };
  shoal_status st = shoal_import_expand(a, kinds[k].files, &list);
  if (st == SHOAL_OK) st = drop_validation(&list);
  for (size_t i = 0; st == SHOAL_OK && i < list.paths.n; i++) st = shoal_data_refuse_alien(list.paths.at[i], a->kind);
  if (st == SHOAL_OK) st = kinds[k].import(&list.args, out_path);
  shoal_import_list_fini(&list);
  return st;
}

static bool is_source(const shoal_import_args *a, const char *name)
{
  for (size_t i = 0; i < a->n_sources; i++)
    if (strcmp(a->sources[i], name) == 0) return true;
  return false;
}

/* The number of the first name of NEW, NEW2, NEW3, … that nothing has here: what another cure made may be what somebody trains on. */
static size_t find_output(const shoal_import_args *a)
{
  char name[32] = "NEW", set[40] = "NEW.h5", arrays[40] = "NEW.npz";
  size_t n = 1;
  while (is_source(a, name) || shoal_path_exists(name) || shoal_path_exists(set) || shoal_path_exists(arrays)) {
    snprintf(name, sizeof name, "NEW%zu", ++n);
    snprintf(set, sizeof set, "%s.h5", name);
    snprintf(arrays, sizeof arrays, "%s.npz", name);
  }
  return n;
}

/* Bytes of a place at which a cure names its output, also where a source is called NEW; 0: it does not. */
static size_t names_output(const char *at)
{
  static const char *const places[] = { ">NEW",           " NEW does",         "import NEW",
                                        "import csv NEW", "import images NEW", "import npy NEW",
                                        "-o NEW",         "'NEW/' ",           " NEW/\"",
                                        " NEW/all" };
  for (size_t i = 0; i < SHOAL_COUNT(places); i++) {
    const size_t n = strlen(places[i]);
    if (strncmp(at, places[i], n) == 0 && !isalnum((unsigned char)at[n])) return n;
  }
  return 0;
}

/* What cures write is called NEW in their commands: or another name, where there is a file of this one.  Caller frees. */
static char *name_another(const shoal_import_args *a, const char *words)
{
  const size_t number = find_output(a);
  shoal_str text = { 0 };
  for (const char *at = words; *at;) {
    const bool named = number > 1 && names_output(at) > 0;
    const size_t n = named ? (size_t)(strstr(at, "NEW") - at) + 3 : 1;
    shoal_str_add(&text, named ? "%.*s%zu" : "%.*s", (int)n, at, number);
    at += n;
  }
  return text.text ? text.text : shoal_strdup_printf("%s", "");
}

/* Warnings are about the data set that is made.  If none is, the reason is all that is said. */
shoal_status shoal_data_import(const shoal_import_args *a, const char *out_path)
{
  size_t k = 0;
  while (k < SHOAL_COUNT(kinds) && strcmp(a->kind, kinds[k].name) != 0) k++;
  if (k == SHOAL_COUNT(kinds)) return unknown_kind(a->kind);
  SHOAL_TRY(check_options(a, kinds[k].options));
  SHOAL_TRY(check_values(a));
  shoal_log_keep_warnings();
  shoal_status st = import_kind(k, a, out_path);
  char *warnings = shoal_log_kept();
  shoal_error e = { 0 };
  if (st != SHOAL_OK) shoal_error_take(&e);
  char *words = name_another(a, st == SHOAL_OK ? (warnings ? warnings : "") : e.text);
  if (st == SHOAL_OK)
    shoal_log_warn_lines(words);
  else
    snprintf(e.text, sizeof e.text, "%s", words);
  free(words);
  free(warnings);
  return st == SHOAL_OK ? st : shoal_error_put(&e);
}
