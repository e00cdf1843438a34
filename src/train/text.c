/* `shoal predict` of networks that read text: text drawn from a network, a token at a time.  What it makes of a given text is in
 * predict_text.c.
 *
 * A network reads `context` tokens.  A text that grows beyond them is read through a window of its last ones, so every
 * token is drawn knowing as many before it as the network was trained with. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "train/network.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 256 }; /* a vocabulary of as many is of bytes */

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
