/* The weights in a checkpoint: whether they are those of this run's model, reading them, and fine-tuning.
 *
 * model.weights starts a run from the weights and running statistics of a checkpoint, by whatever method and on however
 * many ranks it was trained.  Nothing else of it counts: epochs, schedule, optimizer and the order of samples begin anew,
 * where --resume FILE goes on with them.  Inputs are normalised as those weights have learnt to see them.
 *
 * A run that has a checkpoint of its own goes on from that, so that a job can be queued again with the same run file. */
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/network.h"
#include "train/session.h"
#include <string.h>

/* ---- names and shapes ---- */

static const char prefix[] = "model/";

typedef struct {
  const shoal_ckpt *ckpt;
  shoal_str first; /* what is wrong with the first tensor that does not match */
  size_t faults;
} comparison;

/* Looks for one tensor of the model in the checkpoint. */
static void compare(comparison *c, const char *name, int ndim, const uint64_t *dims)
{
  char full[SHOAL_NAME_MAX + 32], now[96], then[96];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  const shoal_ckpt_entry *e = shoal_ckpt_index_find(shoal_ckpt_get_index(c->ckpt), full);
  if (e && e->ndim == ndim && memcmp(e->dims, dims, (size_t)ndim * sizeof *dims) == 0) return;
  shoal_ckpt_shape_text(ndim, dims, now, sizeof now);
  if (c->faults++ > 0) return;
  if (e)
    shoal_str_add(&c->first, "%s has the shape %s there and %s in this run's model", name,
                  shoal_ckpt_shape_text(e->ndim, e->dims, then, sizeof then), now);
  else
    shoal_str_add(&c->first, "it lacks %s %s of this run's model", name, now);
}

static void compare_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  (void)offset;
  compare(ctx, name, 1, (uint64_t[]){ count });
}

typedef struct {
  const char *name;
  bool found;
} search;

static void match_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  search *t = ctx;
  (void)offset;
  (void)count;
  t->found |= strcmp(name, t->name) == 0;
}

static bool has_tensor(const shoal_model *m, const char *name)
{
  search t = { name, false };
  for (int i = 0; i < m->params && !t.found; i++) t.found = strcmp(m->param[i].name, name) == 0;
  if (!t.found) shoal_model_each_stat(m, match_stat, &t);
  return t.found;
}

/* Tensors that the model lacks would be lost: batch norm that was switched off. */
static void compare_rest(comparison *c, const shoal_model *m)
{
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c->ckpt);
  char shape[96];
  for (size_t i = 0; i < x->n; i++) {
    const char *name = x->at[i].name + sizeof prefix - 1;
    if (strncmp(x->at[i].name, prefix, sizeof prefix - 1) != 0 || has_tensor(m, name) || c->faults++ > 0) continue;
    shoal_str_add(&c->first, "it has %s %s, which this run's model has not", name,
                  shoal_ckpt_shape_text(x->at[i].ndim, x->at[i].dims, shape, sizeof shape));
  }
}

shoal_status shoal_weights_match(const shoal_model *m, const shoal_ckpt *ckpt, const char *cure)
{
  comparison c = { .ckpt = ckpt };
  char more[48] = "";
  for (int i = 0; i < m->params; i++) {
    uint64_t dims[SHOAL_MAX_DIMS];
    for (int d = 0; d < m->param[i].shape.ndim; d++) dims[d] = (uint64_t)m->param[i].shape.dim[d];
    compare(&c, m->param[i].name, m->param[i].shape.ndim, dims);
  }
  shoal_model_each_stat(m, compare_stat, &c);
  compare_rest(&c, m);
  if (c.faults > 1) snprintf(more, sizeof more, " (and %zu other%s)", c.faults - 1, c.faults == 2 ? "" : "s");
  shoal_status st = c.faults == 0
                        ? SHOAL_OK
                        : SHOAL_FAIL(SHOAL_ERR_USAGE, "%s holds the weights of another %s: %s%s; %s",
                                     shoal_ckpt_path(ckpt), shoal_ckpt_get_info(ckpt)->model, c.first.text, more, cure);
  shoal_str_free(&c.first);
  return st;
}

/* ---- reading ---- */

typedef struct {
  const shoal_ckpt *ckpt;
  shoal_backend *backend;
  float *stats;
  shoal_status st;
} stat_source;

static void get_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  stat_source *t = ctx;
  char full[SHOAL_NAME_MAX + 32];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  if (t->st == SHOAL_OK) t->st = shoal_ckpt_get_arena(t->ckpt, t->backend, full, count, t->stats + offset);
}

shoal_status shoal_weights_read(shoal_backend *b, const shoal_model *m, const shoal_ckpt *c, shoal_params *params)
{
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    char name[SHOAL_NAME_MAX + 32];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    SHOAL_TRY(shoal_ckpt_get_arena(c, b, name, p->count, params->w + p->offset));
  }
  stat_source t = { c, b, params->stats, SHOAL_OK };
  shoal_model_each_stat(m, get_stat, &t);
  params->version++;
  return t.st;
}

/* ---- model.weights ---- */

/* Checksum of the tensors' names and bytes: the same for the same weights in another file. */
static uint32_t identify(const shoal_ckpt *c)
{
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c);
  uint32_t crc = 0;
  for (size_t i = 0; i < x->n; i++) {
    if (strncmp(x->at[i].name, prefix, sizeof prefix - 1) != 0) continue;
    crc = shoal_crc32c(crc, x->at[i].name, strlen(x->at[i].name));
    crc = shoal_crc32c(crc, &x->at[i].crc, sizeof x->at[i].crc);
  }
  return crc;
}

static shoal_status check_weights_alone(const shoal_session *s, const char *path)
{
  const char *resume = s->world.args->resume;
  SHOAL_CHECK(!resume || strcmp(resume, "auto") == 0 || strcmp(resume, "never") == 0, SHOAL_ERR_USAGE,
              "--resume %s and model.weights %s both say where weights come from: --resume goes on with that run, "
              "model.weights begins a new one; leave one out",
              resume, path);
  SHOAL_CHECK(
      !shoal_folder_holds(&s->world.folder, path), SHOAL_ERR_USAGE,
      "model.weights names %s, a checkpoint of the run in this folder, which goes on from its newest one and does "
      "not read it: to begin a new run with these weights give --set run.name=NAME",
      path);
  return SHOAL_OK;
}

shoal_status shoal_session_find_weights(shoal_session *s)
{
  const char *path = shoal_config_string(s->world.config, "model.weights");
  shoal_group *control = s->run.control;
  shoal_ckpt *verified = NULL;
  if (!*path) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(control, check_weights_alone(s, path)));
  if (s->world.resume) {
    shoal_info("model.weights is not read again: this run has a checkpoint of its own");
    return SHOAL_OK;
  }
  shoal_status st = shoal_session_is_root(s) ? shoal_ckpt_open(path, true, &verified) : SHOAL_OK;
  shoal_ckpt_close(verified);
  SHOAL_TRY(shoal_group_agree(control, shoal_error_prefix(st, "model.weights: ")));
  st = shoal_ckpt_open(path, false, &s->world.weights);
  return shoal_session_agree_on_reading(s, shoal_error_prefix(st, "model.weights: "));
}

/* Parts are cut from the whole model, which exists for this moment only. */
static shoal_status cut(shoal_session *s)
{
  SHOAL_TRY(shoal_session_make_whole(s));
  SHOAL_TRY(shoal_weights_read(s->run.backend, s->run.model, s->world.weights, s->model.scratch));
  SHOAL_TRY(s->method->adopt(&s->run, s->method_state, 0, s->model.scratch->w));
  SHOAL_TRY(shoal_model_gather_stats(s->run.backend, s->run.model, s->run.form->model, s->model.scratch->stats,
                                     s->run.form->params->stats));
  shoal_session_drop_whole(s);
  return SHOAL_OK;
}

shoal_status shoal_session_take_weights(shoal_session *s, bool method_is_open)
{
  const shoal_ckpt *c = s->world.weights;
  if (!c || method_is_open != shoal_session_cuts(s)) return SHOAL_OK;
  SHOAL_TRY(shoal_error_prefix(shoal_weights_match(s->run.model, c, "give a checkpoint of the same model options"),
                               "model.weights: "));
  SHOAL_TRY(method_is_open ? cut(s) : shoal_weights_read(s->run.backend, s->run.model, c, s->model.form.params));
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  s->model.weights_checksum = identify(c);
  shoal_info(
      "weights from %s (checksum %08x: run %s, method %s, step %llu), a new schedule from epoch 0, a new optimizer",
      shoal_ckpt_path(c), (unsigned)s->model.weights_checksum, info->run, info->method, (unsigned long long)info->step);
  shoal_ckpt_close(s->world.weights);
  s->world.weights = NULL;
  return SHOAL_OK;
}
