/* Which samples of an import train and which test.
 *
 * By the names of the files, if some have "test" or "val" as a word; by a count from the start, if asked; else a share of
 * each class, so that rows sorted by label do not leave classes out of one split.  Rows keep their order within a split:
 * training shuffles them anyway, and an import can be compared with its source. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/data_impl.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double default_share = 0.1;

/* ---- by names ---- */

typedef enum { NAME_PLAIN, NAME_TRAIN, NAME_TEST, NAME_VALIDATION } name_word;

/* "latest_batch" has no word test, "t10k-images" is MNIST's name for its test images. */
static name_word read_name(const char *path)
{
  const char *name = shoal_path_base(path);
  char text[SHOAL_DATA_WORD];
  name_word found = NAME_PLAIN;
  if (strncasecmp(name, "t10k", 4) == 0 && !isalnum((unsigned char)name[4])) return NAME_TEST;
  for (const char *c = name; (c = shoal_data_next_word(c, text)) != NULL;) {
    const char *word = (text[0] == 'x' || text[0] == 'y') && text[1] ? text + 1 : text; /* "xtrain", "Yte" */
    if (strcmp(word, "train") == 0 || strcmp(word, "training") == 0 || strcmp(word, "tr") == 0) return NAME_TRAIN;
    if (strcmp(word, "test") == 0 || strcmp(word, "testing") == 0 || strcmp(word, "te") == 0) found = NAME_TEST;
    if (strcmp(word, "val") == 0 || strcmp(word, "valid") == 0 || strcmp(word, "validation") == 0)
      found = NAME_VALIDATION;
  }
  return found;
}

bool shoal_import_trains(const char *path)
{
  return read_name(path) == NAME_TRAIN;
}

bool shoal_import_names_split(const char *path)
{
  return read_name(path) != NAME_PLAIN;
}

size_t shoal_import_leave_out(const shoal_import_args *a, const char *const *names, size_t n, bool *out)
{
  const char *first[4] = { NULL };
  size_t left = 0;
  for (size_t i = 0; i < n; i++) {
    name_word word = read_name(names[i]);
    if (!first[word]) first[word] = names[i];
    out[i] = false;
  }
  if (!first[NAME_TEST] || !first[NAME_VALIDATION] || a->train_count || !(first[NAME_PLAIN] || first[NAME_TRAIN]))
    return 0;
  for (size_t i = 0; i < n; i++) left += out[i] = read_name(names[i]) == NAME_VALIDATION;
  char more[32] = "";
  snprintf(more, sizeof more, " and %zu more are", left - 1);
  shoal_warn("%s%s for validation, by %s, and left out: %s is the test split, and a data set has one",
             first[NAME_VALIDATION], left > 1 ? more : " is", left > 1 ? "their names" : "its name", first[NAME_TEST]);
  return left;
}

static shoal_status check_roles(const shoal_import_args *a, const char *const first[4], bool all)
{
  const char *named = first[NAME_TEST] ? first[NAME_TEST] : first[NAME_VALIDATION];
  SHOAL_CHECK(!named || all || !a->test_share, SHOAL_ERR_USAGE,
              "--test-share does nothing: %s is the test split, by its name", named);
  SHOAL_CHECK(!(a->seed && (a->train_count || (named && !all))), SHOAL_ERR_USAGE,
              "--seed does nothing: no test samples are drawn beside %s", a->train_count ? "--train-count" : named);
  SHOAL_CHECK(
      !all || a->train_count || a->test_share, SHOAL_ERR_ARG,
      "there would be no training samples: %s is for testing, by its name; add the files to train with, or split "
      "this one with --train-count or --test-share",
      named);
  return SHOAL_OK;
}

shoal_status shoal_import_find_roles(const shoal_import_args *a, shoal_import_roles *out)
{
  const char *first[4] = { NULL };
  bool all = true;
  SHOAL_CHECK(!a->train_count || !a->test_share, SHOAL_ERR_USAGE,
              "--train-count and --test-share both say where to cut: leave one out");
  for (size_t i = 0; i < a->n_sources; i++) {
    name_word word = read_name(a->sources[i]);
    if (!first[word]) first[word] = a->sources[i];
    all &= word == NAME_TEST || word == NAME_VALIDATION;
  }
  SHOAL_TRY(check_roles(a, first, all));
  SHOAL_TRY(SHOAL_ALLOC(a->n_sources, &out->test));
  out->by_name = (first[NAME_TEST] || first[NAME_VALIDATION]) && !all && !a->train_count;
  for (size_t i = 0; i < a->n_sources && out->by_name; i++) {
    name_word word = read_name(a->sources[i]);
    out->test[i] = word == NAME_TEST || word == NAME_VALIDATION;
  }
  return SHOAL_OK;
}

void shoal_import_roles_fini(shoal_import_roles *r)
{
  free(r->test);
  *r = (shoal_import_roles){ 0 };
}

/* ---- by order ---- */

shoal_split shoal_import_nth(const shoal_import_args *a, uint64_t index, bool test)
{
  if (a->train_count) return index < a->train_count ? SHOAL_TRAIN : SHOAL_TEST;
  return test ? SHOAL_TEST : SHOAL_TRAIN;
}

static double share_of(const shoal_import_args *a)
{
  return a->test_share ? *a->test_share : default_share;
}

shoal_status shoal_import_cut(const shoal_import_args *a, uint64_t n, const char *what, uint64_t *train_out)
{
  SHOAL_CHECK(a->train_count <= n, SHOAL_ERR_ARG,
              "%" PRIu64 " %s are there, the training split cannot have %" PRIu64 "; give --train-count %" PRIu64
              " or less",
              n, what, a->train_count, n);
  *train_out = a->train_count ? a->train_count : n - (uint64_t)((double)n * share_of(a));
  return SHOAL_OK;
}

void shoal_import_warn_untested(uint64_t n, const char *what)
{
  shoal_warn("no test split: of %" PRIu64 " %s none is for testing; nothing will be evaluated", n, what);
}

/* ---- by a draw from each class ---- */

/* Only classes that occur have one: a single label can be millions. */
typedef struct {
  uint64_t samples, test; /* of a class; how many of them will test */
  double rest;            /* what rounding down took away */
  int64_t class;
} quota;

static int by_rest(const void *a, const void *b)
{
  const quota *p = a, *q = b;
  if (p->rest != q->rest) return p->rest < q->rest ? 1 : -1;
  return (p->class > q->class) - (p->class < q->class);
}

static int by_class(const void *a, const void *b)
{
  const quota *p = a, *q = b;
  return (p->class > q->class) - (p->class < q->class);
}

/* Shares of each class that add up to `total` by the largest remainders.  No class loses its last training sample. */
static void share_out(quota *q, size_t classes, double share, uint64_t total)
{
  for (size_t k = 0; k < classes; k++) {
    double exact = (double)q[k].samples * share;
    q[k].test = (uint64_t)(exact + 1e-9);
    q[k].rest = exact - (double)q[k].test;
    total -= SHOAL_MIN(total, q[k].test);
  }
  qsort(q, classes, sizeof *q, by_rest);
  for (size_t k = 0; k < classes && total > 0; k++)
    if (q[k].rest > 1e-9 && q[k].test + 1 < q[k].samples) {
      q[k].test++;
      total--;
    }
  qsort(q, classes, sizeof *q, by_class);
  for (size_t k = 0; k < classes; k++)
    if (q[k].samples > 0 && q[k].test >= q[k].samples) q[k].test = q[k].samples - 1;
}

static int by_label(const void *a, const void *b)
{
  int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;
  return (p > q) - (p < q);
}

/* The classes that occur among n >= 1 labels, sorted, with their samples. */
static shoal_status count_classes(uint64_t n, const int32_t *y, quota **out, size_t *classes)
{
  int32_t *sorted;
  size_t runs = 1;
  SHOAL_TRY(SHOAL_ALLOC(n, &sorted));
  memcpy(sorted, y, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_label);
  for (uint64_t i = 1; i < n; i++) runs += sorted[i] != sorted[i - 1];
  shoal_status st = SHOAL_ALLOC(runs, out);
  quota *q = *out;
  for (uint64_t i = 0; st == SHOAL_OK && i < n; i++) {
    if (i > 0 && sorted[i] != sorted[i - 1]) q++;
    q->class = sorted[i];
    q->samples++;
  }
  *classes = runs;
  free(sorted);
  return st;
}

static shoal_status draw(const shoal_import_args *a, uint64_t n, const int32_t *y, uint8_t *test)
{
  quota *q = NULL;
  size_t classes;
  shoal_perm order;
  const uint64_t tests = (uint64_t)((double)n * share_of(a) + 1e-9);
  if (n == 0) return SHOAL_OK;
  shoal_perm_init(&order, a->seed ? *a->seed : 1, SHOAL_RNG_SPLIT, 0, n);
  for (uint64_t i = 0; !y && i < tests; i++) test[shoal_perm_at(&order, i)] = 1;
  if (!y) return SHOAL_OK;
  SHOAL_TRY(count_classes(n, y, &q, &classes));
  share_out(q, classes, share_of(a), tests);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t sample = shoal_perm_at(&order, i);
    quota *own = bsearch(&(quota){ .class = y[sample] }, q, classes, sizeof *q, by_class);
    test[sample] = own->test > 0;
    own->test -= test[sample];
  }
  free(q);
  return SHOAL_OK;
}

shoal_status shoal_import_split(const shoal_import_args *a, uint64_t n, const int32_t *y, uint8_t *test)
{
  uint64_t train, tests = 0;
  SHOAL_TRY(shoal_import_cut(a, n, "samples", &train));
  if (a->train_count)
    memset(test + train, 1, n - train);
  else
    SHOAL_TRY(draw(a, n, y, test));
  for (uint64_t i = 0; i < n; i++) tests += test[i];
  if (tests == 0)
    shoal_import_warn_untested(n, "samples");
  else if (!a->train_count)
    shoal_info("%" PRIu64 " of %" PRIu64 " samples, drawn %s, are the test split", tests, n,
               y ? "from each class" : "at random");
  return SHOAL_OK;
}
