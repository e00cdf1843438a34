/* `shoal predict` of a model that predicts numbers: outputs in the units of the data, beside what was to be predicted, and how far
 * they are apart.
 *
 * A sample of data without targets has a prediction alone. */
#include "base/mem.h"
#include "base/texts.h"
#include "data/labels.h"
#include "train/predict_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_targets(const shoal_predictor *p)
{
  return shoal_dataset_info(p->set)->targets > 0;
}

shoal_status shoal_predict_match_targets(shoal_predictor *p)
{
  const shoal_data_targets *t = shoal_dataset_targets(p->set);
  const char *path = shoal_dataset_path(p->set), *names = shoal_dataset_class_names(p->set);
  const shoal_ckpt_data *trained = p->trained;
  const bool none = names && strcmp(names, SHOAL_LABELS_NONE) == 0;
  SHOAL_CHECK(
      t->n > 0 || none, SHOAL_ERR_USAGE,
      "%s has classes, and %s predicts numbers: import its table with --like %s, which finds them by their names", path,
      p->network.path, p->network.path);
  SHOAL_TRY(SHOAL_ALLOC(trained->targets, &p->fit));
  if (t->n == 0) return SHOAL_OK;
  SHOAL_CHECK(t->n == trained->targets, SHOAL_ERR_USAGE,
              "%s has %zu targets per sample, %s predicts %zu: give the same ones", path, t->n, p->network.path,
              trained->targets);
  SHOAL_CHECK(
      !t->names || !trained->target_names || strcmp(t->names, trained->target_names) == 0, SHOAL_ERR_USAGE,
      "%s has other targets than %s was trained to predict, or in another order: import its table with --like %s", path,
      p->network.path, p->network.path);
  shoal_dataset_set_target_scale(p->set, trained->target_mean, trained->target_std);
  return SHOAL_OK;
}

static double predicted(const shoal_predictor *p, uint64_t i, size_t k)
{
  const double y = p->output[i * p->trained->targets + k];
  return y * p->trained->target_std[k] + p->trained->target_mean[k];
}

/* What was to be predicted; NAN: not known. */
static double wanted(const shoal_predictor *p, uint64_t i, size_t k)
{
  return has_targets(p) ? shoal_dataset_target(p->set, p->split, i)[k] : NAN;
}

void shoal_predict_score_targets(shoal_predictor *p, const shoal_batch *b, uint64_t at)
{
  const size_t n = p->trained->targets;
  for (uint64_t i = 0; i < (uint64_t)b->n; i++) {
    shoal_host_float *y = p->output + (at + i) * n;
    bool finite = true;
    for (size_t k = 0; k < n; k++) finite &= isfinite(y[k]);
    if (!finite && p->lost++ == 0) p->first_lost = at + i;
    for (size_t k = 0; k < n && !finite; k++) y[k] = NAN;
    p->known += has_targets(p) && shoal_fit_add(p->fit, n, y, b->t + i * n);
  }
}

/* ---- files ---- */

/* "predicted", or of several targets "predicted_price". */
static char *column(const shoal_predictor *p, const char *word, size_t k)
{
  const shoal_data_targets t = { .n = p->trained->targets, .names = (char *)p->trained->target_names };
  char name[256];
  if (t.n == 1) return shoal_strdup_printf("%s", word);
  if (!t.names) return shoal_strdup_printf("%s_%zu", word, k);
  return shoal_strdup_printf("%s_%s", word, shoal_targets_name(&t, k, name, sizeof name));
}

void shoal_predict_write_targets(const shoal_predictor *p, FILE *f)
{
  static const char *const words[] = { "target", "predicted", "error" };
  const size_t n = p->trained->targets;
  fputs(p->files.n ? "sample,file" : "sample", f);
  for (size_t k = 0; k < n; k++)
    for (size_t w = 0; w < SHOAL_COUNT(words); w++) {
      char *name = column(p, words[w], k);
      shoal_predict_put_field(f, ",", name);
      free(name);
    }
  for (uint64_t i = 0; i < p->n; i++) {
    fprintf(f, "\n%" PRIu64, i);
    if (p->files.n) shoal_predict_put_field(f, ",", p->files.at[i]);
    for (size_t k = 0; k < n; k++) {
      const double values[] = { wanted(p, i, k), predicted(p, i, k), predicted(p, i, k) - wanted(p, i, k) };
      for (size_t w = 0; w < SHOAL_COUNT(values); w++) fprintf(f, isfinite(values[w]) ? ",%.9g" : ",", values[w]);
    }
  }
  fputc('\n', f);
}

shoal_status shoal_predict_fill_targets(const shoal_predictor *p, shoal_h5_draft *d)
{
  const size_t n = p->trained->targets;
  double *values;
  SHOAL_TRY(SHOAL_ALLOC(2 * p->n * n, &values));
  double *to = values + p->n * n;
  for (uint64_t i = 0; i < p->n; i++)
    for (size_t k = 0; k < n; k++) {
      values[i * n + k] = wanted(p, i, k);
      to[i * n + k] = predicted(p, i, k);
    }
  shoal_status st = shoal_predict_put_array(d, "target", SHOAL_F64, p->n, n, values);
  if (st == SHOAL_OK) st = shoal_predict_put_array(d, "predicted", SHOAL_F64, p->n, n, to);
  free(values);
  if (st == SHOAL_OK && p->trained->target_names)
    st = shoal_h5_put_string(d->file, "target_names", p->trained->target_names);
  return st;
}

/* ---- the summary ---- */

void shoal_predict_print_targets(const shoal_predictor *p, shoal_str *out)
{
  const size_t n = p->trained->targets;
  const shoal_data_targets t = { .n = n, .names = (char *)p->trained->target_names };
  char name[96], text[96];
  if (!p->known) {
    shoal_str_add(out, "%s", has_targets(p) ? "" : "no targets to compare with\n");
    return;
  }
  for (size_t k = 0; k < n; k++) {
    const shoal_fit_scores s = shoal_fit_score(&p->fit[k], p->trained->target_std[k]);
    shoal_str_add(out, "%s: %s\n", shoal_targets_name(&t, k, name, sizeof name),
                  shoal_fit_text(&s, 1, text, sizeof text));
  }
}

void shoal_predict_json_targets(const shoal_predictor *p, shoal_json *j)
{
  const size_t n = p->trained->targets;
  const shoal_data_targets t = { .n = n, .names = (char *)p->trained->target_names };
  char name[96];
  shoal_json_array(j, "targets");
  for (size_t k = 0; k < n; k++) {
    const shoal_fit_scores s = shoal_fit_score(&p->fit[k], p->trained->target_std[k]);
    shoal_json_object(j, NULL);
    shoal_json_string(j, "name", shoal_targets_name(&t, k, name, sizeof name));
    shoal_json_real(j, "rmse", s.rmse);
    shoal_json_real(j, "mae", s.mae);
    shoal_json_real(j, "r2", s.r2);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}
