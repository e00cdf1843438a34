/* `shoal predict` of networks that read text: the loss of each token of a text that follows those before it in its sample,
 * summed up, and for -o one by one. */
#include "base/file.h"
#include "base/mem.h"
#include "train/predict_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
  shoal_dataset *set;
  shoal_loader *loader;
  shoal_split split;
  shoal_score score;
  /* Of each token that follows another one of its sample, for -o; else NULL. */
  uint64_t n;                 /* of these: all of the split but the first, and a rest that is no sample */
  int32_t *label, *predicted; /* [n]; -1: outputs are not finite */
  double *loss;               /* [n], NaN likewise */
  shoal_host_float *output;   /* [batch][context][classes] */
} reading;

static shoal_status open_text(const shoal_predict_args *a, const shoal_network *n, reading *r)
{
  SHOAL_TRY(shoal_dataset_open_to_predict(a->data, a->n_data, &(shoal_data_reader){ .run = a->model, .text = true },
                                          &r->set));
  const shoal_data_info *info = shoal_dataset_info(r->set);
  SHOAL_CHECK(
      info->kind == SHOAL_DATA_TEXT, SHOAL_ERR_USAGE,
      "%s has no tokens, and the network reads text: shoal data import text FILE -o NAME.h5 makes a data set of it",
      shoal_dataset_path(r->set));
  SHOAL_CHECK(info->classes <= n->model->classes, SHOAL_ERR_USAGE,
              "%s has a vocabulary of %" PRId64 " tokens, and the network one of %" PRId64
              ": import the text again with --like RUN",
              shoal_dataset_path(r->set), info->classes, n->model->classes);
  SHOAL_CHECK(shoal_vocabulary_equal(shoal_dataset_vocabulary(r->set), n->vocabulary), SHOAL_ERR_USAGE,
              "%s has other tokens than the network was trained with: import the text again with --like RUN",
              shoal_dataset_path(r->set));
  SHOAL_TRY(shoal_dataset_set_context(r->set, n->model->input.dim[0]));
  bool test = a->split == SHOAL_PREDICT_TEST || (a->split == SHOAL_PREDICT_EITHER && info->n[SHOAL_TEST] > 0);
  r->split = test ? SHOAL_TEST : SHOAL_TRAIN;
  SHOAL_CHECK(info->n[r->split] > 0, SHOAL_ERR_USAGE,
              "%s has no %s split of %" PRId64
              " tokens, the context of the network: leave --split out, and the other one is "
              "taken",
              shoal_dataset_path(r->set), test ? "test" : "training", n->model->input.dim[0]);
  shoal_loader_config l = { .split = r->split, .size = 1, .batch = (uint64_t)a->batch, .depth = 1 };
  return shoal_loader_create(r->set, &l, &r->loader);
}

static shoal_status open_rows(const shoal_predict_args *a, const shoal_network *n, bool csv, reading *r)
{
  const int64_t context = n->model->input.dim[0];
  r->n = shoal_dataset_info(r->set)->n[r->split] * (uint64_t)context;
  const double least = csv ? 8 : 2 * sizeof *r->label + sizeof *r->loss; /* bytes of a row */
  SHOAL_TRY(shoal_expect_room(a->out, "the predictions", least * (double)r->n));
  SHOAL_TRY(SHOAL_ALLOC(r->n, &r->label));
  SHOAL_TRY(SHOAL_ALLOC(r->n, &r->predicted));
  SHOAL_TRY(SHOAL_ALLOC(r->n, &r->loss));
  return SHOAL_ALLOC((size_t)(a->batch * context * n->model->classes), &r->output);
}

/* What the outputs of one token, logits of `classes`, say of the next one, `label`. */
static void take_row(const shoal_host_float *x, int64_t classes, int32_t label, reading *r, uint64_t at)
{
  int64_t best = 0;
  double sum = 0;
  bool finite = true;
  for (int64_t k = 0; k < classes; k++) {
    finite &= isfinite(x[k]);
    if (x[k] > x[best]) best = k;
  }
  for (int64_t k = 0; k < classes; k++) sum += exp((double)x[k] - (double)x[best]);
  r->label[at] = label;
  r->predicted[at] = finite ? (int32_t)best : -1;
  r->loss[at] = finite ? log(sum) + (double)x[best] - (double)x[label] : NAN;
}

static shoal_status take_rows(shoal_plan *plan, const shoal_model *m, const shoal_batch *b, uint64_t *at, reading *r)
{
  const int64_t rows = b->n * m->input.dim[0];
  SHOAL_TRY(shoal_plan_output(plan, m->nodes - 1, r->output));
  for (int64_t i = 0; i < rows; i++) take_row(r->output + i * m->classes, m->classes, b->y[i], r, (*at)++);
  return SHOAL_OK;
}

static shoal_status score_text(const shoal_network *n, shoal_forward *f, reading *r)
{
  for (uint64_t at = 0;;) {
    const shoal_batch *b;
    shoal_plan *plan;
    SHOAL_TRY(shoal_loader_next(r->loader, &b));
    if (!b) return SHOAL_OK;
    SHOAL_TRY(shoal_plans_get(f->plans, b->n, SHOAL_PLAN_EVAL, &plan));
    SHOAL_TRY(shoal_plan_forward(plan, f->params, NULL, b->x, b->y, 0, &r->score));
    if (r->output) SHOAL_TRY(take_rows(plan, n->model, b, &at, r));
  }
}

/* ---- rows ---- */

static void put_rows(const void *context, FILE *f)
{
  const reading *r = context;
  fputs("token,label,predicted,loss\n", f);
  for (uint64_t i = 0; i < r->n; i++) {
    fprintf(f, "%" PRIu64 ",%d,", i + 1, (int)r->label[i]);
    if (r->predicted[i] >= 0)
      fprintf(f, "%d,%.9g", (int)r->predicted[i], r->loss[i]);
    else
      fputc(',', f);
    fputc('\n', f);
  }
}

static shoal_status fill_rows(const void *context, shoal_h5_draft *d)
{
  const reading *r = context;
  SHOAL_TRY(shoal_predict_put_array(d, "label", SHOAL_I32, r->n, 0, r->label));
  SHOAL_TRY(shoal_predict_put_array(d, "predicted", SHOAL_I32, r->n, 0, r->predicted));
  return shoal_predict_put_array(d, "loss", SHOAL_F64, r->n, 0, r->loss);
}

const char *shoal_text_loss_words(double loss, double token_bytes, char *buf, size_t cap)
{
  const double bits = loss / log(2);
  int n = snprintf(buf, cap, "perplexity %.4g, %.4g bits per %s", exp(loss), bits, token_bytes == 1 ? "byte" : "token");
  if (isfinite(token_bytes) && token_bytes != 1)
    snprintf(buf + n, cap - (size_t)n, ", %.4g per byte", bits / token_bytes);
  return buf;
}

static void print_text(const shoal_predict_args *a, const shoal_network *n, const reading *r, FILE *out)
{
  const shoal_data_info *info = shoal_dataset_info(r->set);
  char words[96];
  const double tokens = (double)r->score.samples, loss = r->score.loss / tokens,
               share = (double)r->score.correct / tokens, token_bytes = shoal_dataset_token_bytes(r->set, r->split);
  const char *unit = token_bytes == 1 ? "byte" : "token", *split = r->split == SHOAL_TEST ? "test" : "train";
  if (a->json) {
    shoal_json j = { .lines = 1, .out = out };
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "model", n->path);
    shoal_json_uint(&j, "step", shoal_ckpt_get_info(n->ckpt)->step);
    shoal_json_string(&j, "data", shoal_dataset_path(r->set));
    shoal_json_string(&j, "split", split);
    shoal_json_uint(&j, "samples", info->n[r->split]);
    shoal_json_uint(&j, "tokens", (uint64_t)r->score.samples);
    shoal_json_uint(&j, "without_prediction", (uint64_t)r->score.left_out);
    shoal_json_real(&j, "accuracy", share);
    shoal_json_real(&j, "loss", loss);
    shoal_json_real(&j, "perplexity", exp(loss));
    shoal_json_real(&j, "bits", loss / log(2));
    if (isfinite(token_bytes)) shoal_json_real(&j, "bits_per_byte", loss / log(2) / token_bytes);
    shoal_json_end(&j);
    shoal_json_finish(&j);
    return;
  }
  fprintf(out, "%s on %" PRId64 " %ss of the %s split of %s\n", n->path, r->score.samples, unit,
          r->split == SHOAL_TEST ? "test" : "training", shoal_dataset_path(r->set));
  if (r->score.left_out)
    fprintf(out, "%" PRId64 " without a prediction, for outputs are not finite\n", r->score.left_out);
  fprintf(out, "loss %.4f per %s, %s, accuracy %.2f%%\n", loss, unit,
          shoal_text_loss_words(loss, token_bytes, words, sizeof words), 100 * share);
  if (a->out)
    fprintf(out, "%s: %" PRIu64 " rows, a %s each: its number in the split, itself, the likeliest, loss in nats\n",
            a->out, r->n, unit);
}

shoal_status shoal_predict_text(const shoal_predict_args *a, const shoal_network *n, bool csv, FILE *summary)
{
  reading r = { 0 };
  shoal_forward f = { 0 };
  shoal_status st = open_text(a, n, &r);
  if (st == SHOAL_OK && a->out) st = open_rows(a, n, csv, &r);
  if (st == SHOAL_OK) st = shoal_forward_open(n, a->threads, &f);
  if (st == SHOAL_OK) st = score_text(n, &f, &r);
  if (st == SHOAL_OK && a->out)
    st = csv ? shoal_predict_write_csv(a->out, put_rows, &r)
             : shoal_predict_write_h5(a->out, n, r.set, r.split, fill_rows, &r);
  if (st == SHOAL_OK) print_text(a, n, &r, summary);
  shoal_forward_close(&f);
  shoal_loader_destroy(r.loader);
  shoal_dataset_close(r.set);
  free(r.label);
  free(r.predicted);
  free(r.loss);
  free(r.output);
  return st;
}
