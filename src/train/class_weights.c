/* Weights of classes, for classes of unequal size.
 *
 * The loss of a batch of n samples is  1/n * sum of w[y] * l, with the weights scaled so that w[y] has a mean of 1 over the training
 * split.  Over an epoch this is  sum of w[y] * l / sum of w[y], PyTorch's weighted mean.  Within a batch PyTorch divides by the batch's
 * own sum of weights; here the divisor is the number of samples, because then a sample's gradient depends on no other sample: shares of
 * a batch add up to the same on any number of ranks, no rank needs the labels of others, and batches of one rank or of a short end
 * are no special case, whatever the method.  Multiplying all weights by a number changes nothing, so a rate that suits the run without
 * weights suits it with them.
 *
 * balanced is n / (classes * count), whose mean is 1 by itself; classes without a training sample do not count. */
#include "train/class_weights.h"
#include "base/mem.h"
#include "train/session.h"
#include <inttypes.h>
#include <stdlib.h>

#define OPTION "model.class_weights"

/* The words, if there is anything to do; else 0. */
static size_t wanted(const shoal_config *c, const char *const **words)
{
  const size_t n = shoal_config_has(c, OPTION) ? shoal_config_words(c, OPTION, words) : 0;
  return n == 1 && strcmp(**words, "none") == 0 ? 0 : n;
}

static bool is_balanced(const char *const *words, size_t n)
{
  return n == 1 && strcmp(words[0], "balanced") == 0;
}

shoal_status shoal_class_weights_check(const shoal_config *c)
{
  const char *const *words;
  const size_t n = wanted(c, &words);
  for (size_t i = 0; i < n && !is_balanced(words, n); i++) {
    double value;
    if (shoal_parse_f64(words[i], &value) == SHOAL_OK && value >= 0 && value <= 1e30) continue;
    return SHOAL_FAIL(
        SHOAL_ERR_USAGE,
        OPTION " has \"%s\": must be none, balanced, or a list of numbers from 0 to 1e30, one for each class, such as "
               "[1, 20]",
        words[i]);
  }
  return SHOAL_OK;
}

static void add_samples(uint64_t n, shoal_str *out)
{
  shoal_str_add(out, "%" PRIu64 " sample%s)", n, n == 1 ? "" : "s");
}

static void add_class(float weight, const shoal_labels *l, const shoal_label *of, shoal_str *out)
{
  char name[160];
  shoal_labels_name(l->names, of->value, name, sizeof name);
  shoal_str_add(out, "%.4g (class %" PRId64 "%s%s%s, ", (double)weight, of->value, *name ? " \"" : "", name,
                *name ? "\"" : "");
  add_samples(of->count[SHOAL_TRAIN], out);
}

void shoal_class_weights_add(const shoal_host_float *weights, const shoal_labels *l, shoal_str *out)
{
  const shoal_label *least = NULL, *most = NULL;
  for (size_t i = 0; i < l->distinct; i++) {
    const shoal_label *v = &l->all[i];
    if (v->count[SHOAL_TRAIN] == 0) continue;
    if (!least || weights[v->value] < weights[least->value]) least = v;
    if (!most || weights[v->value] > weights[most->value]) most = v;
  }
  if (!least) return;
  add_class(weights[least->value], l, least, out);
  shoal_str_add(out, " to ");
  add_class(weights[most->value], l, most, out);
}

/* Each class of the training split alike: those of the split are `present`. */
static double balanced(const shoal_labels *l, const shoal_label *of, size_t present)
{
  const double n = (double)l->n[SHOAL_TRAIN], count = (double)of->count[SHOAL_TRAIN];
  return count > 0 ? n / ((double)present * count) : 0;
}

/* Of all classes, before they are scaled. */
static shoal_status read_weights(const char *const *words, size_t n, const shoal_labels *l, double *out)
{
  size_t present = 0;
  for (size_t i = 0; i < l->distinct; i++) present += l->all[i].count[SHOAL_TRAIN] > 0;
  for (size_t i = 0; i < l->distinct && is_balanced(words, n); i++)
    out[l->all[i].value] = balanced(l, &l->all[i], present);
  for (size_t i = 0; i < n && !is_balanced(words, n); i++) SHOAL_TRY(shoal_parse_f64(words[i], &out[i]));
  return SHOAL_OK;
}

static shoal_status check_fit(const shoal_dataset *d, const shoal_model *m, bool list, size_t n)
{
  const char *path = shoal_dataset_path(d);
  SHOAL_CHECK(shoal_dataset_info(d)->targets == 0, SHOAL_ERR_USAGE,
              OPTION " is for classes, and %s has targets: leave it out", path);
  SHOAL_CHECK(!shoal_model_reads_tokens(m), SHOAL_ERR_USAGE,
              OPTION " is for samples that have a class, and %s holds text: leave it out", path);
  SHOAL_CHECK(!list || n == (size_t)m->classes, SHOAL_ERR_USAGE,
              OPTION " has %zu number%s, but %s has %lld classes: give one number for each, in the order in which "
                     "`shoal data inspect` lists the classes",
              n, n == 1 ? "" : "s", path, (long long)m->classes);
  return SHOAL_OK;
}

/* To a mean of 1 over the training samples. */
static shoal_status scale_weights(const shoal_labels *l, int64_t classes, const double *weights, shoal_host_float *out)
{
  double sum = 0;
  for (size_t i = 0; i < l->distinct; i++) sum += weights[l->all[i].value] * (double)l->all[i].count[SHOAL_TRAIN];
  SHOAL_CHECK(sum > 0, SHOAL_ERR_USAGE,
              OPTION " is 0 for every class that has training samples: nothing would be learnt; give one of them a "
                     "number above 0");
  const double mean = sum / (double)l->n[SHOAL_TRAIN];
  for (int64_t k = 0; k < classes; k++) out[k] = (float)(weights[k] / mean);
  return SHOAL_OK;
}

shoal_status shoal_class_weights_take(const shoal_config *c, shoal_dataset *d, shoal_model *m)
{
  const char *const *words;
  const shoal_labels *l;
  const size_t n = wanted(c, &words);
  double *weights = NULL;
  shoal_host_float *scaled = NULL;
  if (n == 0) return SHOAL_OK;
  SHOAL_TRY(check_fit(d, m, !is_balanced(words, n), n));
  SHOAL_TRY(shoal_dataset_labels(d, &l));
  shoal_status st = SHOAL_ALLOC((size_t)m->classes, &weights);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)m->classes, &scaled);
  if (st == SHOAL_OK) st = read_weights(words, n, l, weights);
  if (st == SHOAL_OK) st = scale_weights(l, m->classes, weights, scaled);
  if (st == SHOAL_OK) st = shoal_model_weigh(m, scaled);
  free(scaled);
  free(weights);
  return st;
}
