/* `shoal predict` of networks that read text: the loss of each token of a text that follows those before it, and text drawn from
 * a network, a token at a time.
 *
 * A network reads `context` tokens.  A text that grows beyond them is read through a window of its last ones, so every
 * token is drawn knowing as many before it as the network was trained with. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/loader.h"
#include "train/network.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 256 }; /* a vocabulary of as many is of bytes */

/* ---- a text's loss ---- */

typedef struct {
  shoal_dataset *set;
  shoal_loader *loader;
  shoal_split split;
  shoal_score score;
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

static shoal_status score_text(shoal_forward *f, reading *r)
{
  for (;;) {
    const shoal_batch *b;
    shoal_plan *plan;
    SHOAL_TRY(shoal_loader_next(r->loader, &b));
    if (!b) return SHOAL_OK;
    SHOAL_TRY(shoal_plans_get(f->plans, b->n, SHOAL_PLAN_EVAL, &plan));
    SHOAL_TRY(shoal_plan_forward(plan, f->params, NULL, b->x, b->y, 0, &r->score));
  }
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
}

shoal_status shoal_predict_text(const shoal_predict_args *a, const shoal_network *n, FILE *summary)
{
  reading r = { 0 };
  shoal_forward f = { 0 };
  SHOAL_CHECK(!a->out, SHOAL_ERR_UNSUPPORTED, "-o %s: of text no rows are written; leave -o out, and take --json",
              a->out);
  shoal_status st = open_text(a, n, &r);
  if (st == SHOAL_OK) st = shoal_forward_open(n, a->threads, &f);
  if (st == SHOAL_OK) st = score_text(&f, &r);
  if (st == SHOAL_OK) print_text(a, n, &r, summary);
  shoal_forward_close(&f);
  shoal_loader_destroy(r.loader);
  shoal_dataset_close(r.set);
  return st;
}

/* ---- drawing ---- */

typedef struct {
  int32_t *token; /* the prompt, then what was drawn */
  size_t n;
} text;

/* By a vocabulary. */
static shoal_status encode_prompt(const shoal_vocabulary *v, const char *prompt, text *t)
{
  uint32_t *token;
  SHOAL_TRY(shoal_vocabulary_encode(v, prompt, strlen(prompt), &token, &t->n));
  for (size_t i = 0; i < t->n; i++) t->token[i] = (int32_t)token[i];
  free(token);
  return SHOAL_OK;
}

/* Text, if there is a vocabulary or tokens are bytes, else tokens by their numbers.  Leaves room for `more`. */
static shoal_status read_prompt(const char *prompt, const shoal_network *n, size_t more, text *t)
{
  const int64_t classes = n->model->classes;
  const bool bytes = !n->vocabulary && classes == BYTES;
  if (!prompt) prompt = bytes || n->vocabulary ? "\n" : "0";
  SHOAL_TRY(SHOAL_ALLOC(strlen(prompt) + more, &t->token));
  if (n->vocabulary) {
    SHOAL_TRY(encode_prompt(n->vocabulary, prompt, t));
  } else if (bytes) {
    for (; prompt[t->n]; t->n++) t->token[t->n] = (unsigned char)prompt[t->n];
  } else {
    for (const char *c = prompt + strspn(prompt, " "); *c; c += strspn(c, " ")) {
      char *end;
      long long number = strtoll(c, &end, 10);
      SHOAL_CHECK((*end == 0 || *end == ' ') && number >= 0 && number < classes, SHOAL_ERR_USAGE,
                  "--prompt \"%s\": the network's tokens are numbers from 0 to %" PRId64 ", with blanks between",
                  prompt, classes - 1);
      t->token[t->n++] = (int32_t)number;
      c = end;
    }
  }
  SHOAL_CHECK(t->n > 0, SHOAL_ERR_USAGE, "--prompt is empty: a network goes on from one token at least");
  return SHOAL_OK;
}

/* A class by its share, softmax(logits / temperature), where the shares add up to more than the number drawn; without temperature
 * the most likely one. */
static int32_t draw(const shoal_host_float *logits, int64_t classes, double temperature, uint64_t seed, size_t at)
{
  int64_t best = 0;
  double sum = 0;
  for (int64_t k = 1; k < classes; k++)
    if (logits[k] > logits[best]) best = k;
  if (temperature == 0) return (int32_t)best;
  for (int64_t k = 0; k < classes; k++) sum += exp(((double)logits[k] - (double)logits[best]) / temperature);
  const shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_GENERATE, at, 0);
  double left = (double)((uint64_t)r.v[0] << 21 ^ r.v[1] >> 11) * 0x1p-53 * sum;
  for (int64_t k = 0; k < classes; k++) {
    left -= exp(((double)logits[k] - (double)logits[best]) / temperature);
    if (left < 0) return (int32_t)k;
  }
  return (int32_t)best; /* by rounding */
}

static shoal_status grow(const shoal_generate_args *a, const shoal_network *n, shoal_forward *f, text *t)
{
  const int64_t classes = n->model->classes;
  const size_t context = (size_t)n->model->input.dim[0], bytes = context * sizeof(float);
  shoal_memory x = { 0 };
  shoal_host_float *window = NULL, *y = NULL;
  shoal_plan *plan;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(context, &window), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(context * (size_t)classes, &y), done);
  SHOAL_TRY_GOTO(st, f->backend->ops->alloc(f->backend, SHOAL_MEMORY_DEVICE, bytes, &x), done);
  SHOAL_TRY_GOTO(st, shoal_plans_get(f->plans, 1, SHOAL_PLAN_EVAL, &plan), done);
  for (int64_t i = 0; i < a->count; i++) {
    const size_t used = SHOAL_MIN(t->n, context), first = t->n - used;
    for (size_t k = 0; k < used; k++) window[k] = (float)t->token[first + k];
    SHOAL_TRY_GOTO(st, f->backend->ops->copy(f->backend, bytes, window, x.at), done);
    SHOAL_TRY_GOTO(st, shoal_plan_forward(plan, f->params, NULL, x.at, NULL, 0, NULL), done);
    SHOAL_TRY_GOTO(st, shoal_plan_output(plan, n->model->nodes - 1, y), done);
    const shoal_host_float *logits = y + (used - 1) * (size_t)classes;
    for (int64_t k = 0; k < classes; k++)
      SHOAL_CHECK_GOTO(st, isfinite(logits[k]), done, SHOAL_ERR_NUMERIC,
                       "%s: the output for token %zu is not finite: take an earlier checkpoint", n->path, t->n);
    t->token[t->n++] = draw(logits, classes, a->temperature, a->seed, (size_t)i);
  }
done:
  f->backend->ops->release(f->backend, &x);
  free(window);
  free(y);
  return st;
}

/* The bytes of all tokens, with a NUL behind; caller frees. */
static shoal_status decode(const text *t, const shoal_vocabulary *v, char **out, size_t *n)
{
  size_t all = v ? 0 : t->n, bytes = 1;
  for (size_t i = 0; v && i < t->n; i++, all += bytes) shoal_vocabulary_token(v, (size_t)t->token[i], &bytes);
  SHOAL_TRY(SHOAL_ALLOC(all + 1, out));
  char *at = *out;
  for (size_t i = 0; i < t->n; i++, at += bytes) {
    const uint8_t byte = (uint8_t)t->token[i];
    const uint8_t *token = v ? shoal_vocabulary_token(v, (size_t)t->token[i], &bytes) : &byte;
    memcpy(at, token, bytes);
  }
  *n = all;
  return SHOAL_OK;
}

/* Text as it is into files, and as shoal_escape makes it for a terminal, which would obey some of it. */
static shoal_status print_drawn(const text *t, const shoal_network *net, FILE *out)
{
  if (!net->vocabulary && net->model->classes != BYTES) {
    for (size_t i = 0; i < t->n; i++) fprintf(out, i ? " %d" : "%d", (int)t->token[i]);
    fputc('\n', out);
    return SHOAL_OK;
  }
  char *bytes, *shown = NULL;
  size_t n;
  SHOAL_TRY(decode(t, net->vocabulary, &bytes, &n));
  shoal_status st = SHOAL_ALLOC(4 * n + 1, &shown);
  const bool raw = !isatty(fileno(out));
  if (raw) fwrite(bytes, 1, n, out);
  for (size_t i = 0; st == SHOAL_OK && !raw && i < n; i += strlen(bytes + i) + 1) {
    shoal_escape(bytes + i, true, shown, 4 * n + 1);
    fputs(shown, out);
    if (i + strlen(bytes + i) < n) fputs("\\x00", out);
  }
  fputc('\n', out);
  free(bytes);
  free(shown);
  return st;
}

/* Where every token knows those before it alone, what stands behind the last one changes nothing. */
static shoal_status check_causal(const shoal_network *n)
{
  const shoal_model *m = n->model;
  SHOAL_CHECK(shoal_model_reads_tokens(m), SHOAL_ERR_USAGE, "%s: model %s reads no text, so it goes on with none",
              n->path, m->name);
  for (int i = 0; i < m->nodes; i++)
    SHOAL_CHECK(
        m->node[i].kind != SHOAL_OP_ATTENTION || m->node[i].causal, SHOAL_ERR_UNSUPPORTED,
        "%s: attention %s is not causal, so the network has learnt from what follows and cannot go on with a text",
        n->path, m->node[i].name);
  return SHOAL_OK;
}

shoal_status shoal_generate(const shoal_generate_args *a, FILE *out)
{
  shoal_network n = { 0 };
  shoal_forward f = { 0 };
  text t = { 0 };
  shoal_status st = shoal_network_open(a->model, &n);
  if (st == SHOAL_OK) st = check_causal(&n);
  if (st == SHOAL_OK) st = read_prompt(a->prompt, &n, (size_t)a->count, &t);
  if (st == SHOAL_OK) st = shoal_forward_open(&n, a->threads, &f);
  if (st == SHOAL_OK) st = grow(a, &n, &f, &t);
  if (st == SHOAL_OK) st = print_drawn(&t, &n, out);
  free(t.token);
  shoal_forward_close(&f);
  shoal_network_close(&n);
  return st;
}
