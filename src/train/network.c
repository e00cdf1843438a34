/* A trained network outside a run: what it is, by its checkpoint. */
#include "train/network.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/texts.h"
#include "ckpt/folder.h"
#include "config/option.h"
#include "nn/text.h"
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* By the description in the checkpoint; *out is NULL where the model is built in. */
static shoal_status build_text(const shoal_ckpt *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  char *text = NULL;
  size_t n = 0;
  *out = NULL;
  if (!shoal_ckpt_has(c, SHOAL_NETWORK_TEXT)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_text(c, SHOAL_NETWORK_TEXT, &text, &n));
  shoal_status st = shoal_model_from_text(text, n, "the network in the checkpoint", input, classes, out);
  free(text);
  return st;
}

/* By the options in the checkpoint's run file, whatever else that says. */
static shoal_status build_named(const shoal_ckpt *c, const shoal_shape *input, int64_t classes, shoal_model **out)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  const shoal_model_entry *entry = shoal_model_find(info->model);
  SHOAL_CHECK(entry, SHOAL_ERR_UNSUPPORTED, "%s holds a model \"%s\", which this version does not have",
              shoal_ckpt_path(c), info->model);
  shoal_option_table table = { entry->name, entry->options };
  shoal_config *config;
  SHOAL_TRY(shoal_config_recall(info->config, "the checkpoint's run file", &table, entry->options ? 1 : 0, &config));
  shoal_status st = entry->build(config, input, classes, out);
  shoal_config_destroy(config);
  return st;
}

shoal_status shoal_network_build(const shoal_ckpt *c, shoal_model **out)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  SHOAL_CHECK(
      info->data.kind, SHOAL_ERR_UNSUPPORTED,
      "%s is from an older version, which did not record the shape of its inputs, their mean and their std; train "
      "one more step from it with this version",
      shoal_ckpt_path(c));
  shoal_shape input = { .ndim = info->data.ndim };
  for (int d = 0; d < input.ndim; d++) input.dim[d] = info->data.sample[d];
  SHOAL_TRY(build_text(c, &input, info->data.classes, out));
  shoal_status st = *out ? SHOAL_OK : build_named(c, &input, info->data.classes, out);
  if (st == SHOAL_OK) st = shoal_weights_match(*out, c, "it was made by another version of Shoal");
  return st;
}

static shoal_status read_vocabulary(shoal_network *n)
{
  char *origin;
  size_t bytes;
  if (!shoal_ckpt_has(n->ckpt, SHOAL_CKPT_VOCABULARY)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_text(n->ckpt, SHOAL_CKPT_VOCABULARY, &n->vocabulary_text, &bytes));
  origin = shoal_strdup_printf("%s: %s", n->path, SHOAL_CKPT_VOCABULARY);
  shoal_status st = shoal_vocabulary_read(n->vocabulary_text, bytes, origin, &n->vocabulary);
  free(origin);
  SHOAL_TRY(st);
  SHOAL_CHECK((int64_t)shoal_vocabulary_size(n->vocabulary) == n->model->classes, SHOAL_ERR_IO,
              "%s: %s has %zu tokens, and the network %lld outputs for each: the file is damaged or made up", n->path,
              SHOAL_CKPT_VOCABULARY, shoal_vocabulary_size(n->vocabulary), (long long)n->model->classes);
  return SHOAL_OK;
}

shoal_status shoal_network_open(const char *path, shoal_network *out)
{
  SHOAL_TRY(shoal_ckpt_find(path, &out->path));
  SHOAL_TRY(shoal_ckpt_open(out->path, true, &out->ckpt));
  SHOAL_TRY(shoal_network_build(out->ckpt, &out->model));
  return read_vocabulary(out);
}

void shoal_network_close(shoal_network *n)
{
  shoal_model_destroy(n->model);
  shoal_vocabulary_destroy(n->vocabulary);
  free(n->vocabulary_text);
  shoal_ckpt_close(n->ckpt);
  free(n->path);
  *n = (shoal_network){ 0 };
}

shoal_status shoal_forward_open(const shoal_network *n, int threads, shoal_forward *out)
{
  SHOAL_TRY(shoal_backend_open("cpu", threads, &out->backend));
  SHOAL_TRY(shoal_params_create_forward(out->backend, n->model, &out->params));
  SHOAL_TRY(shoal_weights_read(out->backend, n->model, n->ckpt, out->params));
  return shoal_plans_create(out->backend, n->model, &out->plans);
}

void shoal_forward_close(shoal_forward *f)
{
  shoal_plans_destroy(f->plans);
  if (f->backend) shoal_params_destroy(f->backend, f->params);
  shoal_backend_close(f->backend);
  *f = (shoal_forward){ 0 };
}

/* ---- changes ---- */

/* Lines of `a` that are not among those of `b`: the layers that differ, since each has a line of its own. */
static size_t count_lines(const shoal_texts *a, const shoal_texts *b, const char *where, shoal_str *out)
{
  enum { SHOWN = 3 };
  size_t found = 0;
  for (size_t i = 0; i < a->n; i++) {
    const char *line = a->at[i] + strspn(a->at[i], " -");
    if (strchr(line, '{') == NULL || shoal_texts_have(b, a->at[i])) continue;
    if (found++ < SHOWN) shoal_str_add(out, "%s%s %s", out->len ? "; " : "", where, line);
  }
  return found;
}

static shoal_status split_lines(const shoal_model *m, shoal_texts *out)
{
  shoal_str text = { 0 };
  shoal_status st = SHOAL_OK;
  shoal_model_add_text(m, &text);
  for (const char *at = text.text; at && *at && st == SHOAL_OK;) {
    size_t n = strcspn(at, "\n");
    st = shoal_texts_add_n(out, at, n);
    at += n + (at[n] == '\n');
  }
  shoal_str_free(&text);
  return st;
}

shoal_status shoal_network_report_changes(const shoal_model *m, const shoal_ckpt *c)
{
  shoal_model *then;
  shoal_texts was = { 0 }, is = { 0 };
  shoal_str lines = { 0 };
  SHOAL_TRY(build_text(c, &m->input, m->classes, &then));
  if (!then) return SHOAL_OK;
  shoal_status st = split_lines(then, &was);
  if (st == SHOAL_OK) st = split_lines(m, &is);
  if (st == SHOAL_OK) {
    size_t n = count_lines(&was, &is, "was", &lines);
    n = SHOAL_MAX(n, count_lines(&is, &was, "is", &lines));
    if (n > 0)
      shoal_warn("%zu layer%s of the network %s changed since the checkpoint: %s", n, n == 1 ? "" : "s",
                 n == 1 ? "has" : "have", lines.text);
  }
  shoal_texts_free(&was);
  shoal_texts_free(&is);
  shoal_str_free(&lines);
  shoal_model_destroy(then);
  return st;
}
