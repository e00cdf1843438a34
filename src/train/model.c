/* The run's model: the network's description, the form that this rank trains, and memory to assemble the whole
 * model. */
#include "base/mem.h"
#include "method/common/batch.h"
#include "train/class_weights.h"
#include "train/session.h"

/* Tokens are numbers of rows, not quantities: they are for tables, and tables for nothing else. */
static shoal_status check_tokens(const shoal_session *s, const shoal_data_info *i, const shoal_model *m)
{
  const bool text = i->kind == SHOAL_DATA_TEXT;
  const char *path = shoal_dataset_path(s->data.set);
  SHOAL_CHECK(!text || shoal_model_reads_tokens(m), SHOAL_ERR_USAGE,
              "%s holds text, and model %s has no layer that reads tokens: begin it with { op: embedding, rows: "
              "classes, width: 64 }",
              path, m->name);
  SHOAL_CHECK(text || !shoal_model_reads_tokens(m), SHOAL_ERR_USAGE,
              "model %s reads tokens, and %s holds %s: give it text, made by `shoal data import text`", m->name, path,
              shoal_data_kind_name(i->kind));
  return SHOAL_OK;
}

/* Numbers that are predicted have a loss of their own. */
static shoal_status choose_loss(const shoal_session *s, const shoal_data_info *i, shoal_model *m)
{
  const shoal_config *c = s->world.config;
  const char *path = shoal_dataset_path(s->data.set);
  SHOAL_CHECK(i->targets == 0 || m->smoothing == 0, SHOAL_ERR_USAGE,
              "model.smoothing is for classes, and %s has targets: leave it out", path);
  const char *loss = shoal_model_reads_tokens(m) ? "auto" : shoal_config_string(c, "model.loss");
  SHOAL_CHECK(
      i->targets > 0 || strcmp(loss, "auto") == 0, SHOAL_ERR_USAGE,
      "model.loss is %s, which is for targets, and %s has classes: leave it out, or import the numbers that are to be "
      "learnt with --target",
      loss, path);
  if (i->targets > 0) m->loss = strcmp(loss, "mae") == 0 ? SHOAL_LOSS_MAE : SHOAL_LOSS_MSE;
  return SHOAL_OK;
}

shoal_status shoal_session_build_model(shoal_session *s)
{
  SHOAL_TRY(shoal_optim_configure(s->world.config, &s->model.optim));
  s->model.optim.takes_back = s->numbers.policy == SHOAL_BAD_SKIP;
  SHOAL_TRY(shoal_lr_configure(s->world.config, s->run.epochs, &s->model.lr));
  shoal_lr_plateau_init(&s->model.plateau);
  s->model.weights_checksum = -1;
  const shoal_data_info *info = shoal_dataset_info(s->data.set);
  const shoal_model_entry *entry = shoal_model_find(shoal_config_string(s->world.config, "model.name"));
  SHOAL_TRY(entry->build(s->world.config, &info->sample, info->classes, &s->model.whole));
  SHOAL_TRY(check_tokens(s, info, s->model.whole));
  SHOAL_TRY(choose_loss(s, info, s->model.whole));
  SHOAL_TRY(shoal_class_weights_take(s->world.config, s->data.set, s->model.whole));
  s->model.whole->recompute = s->world.choice.recompute;
  s->run.model = s->model.whole;
  s->run.form = &s->model.form;
  s->run.alike = shoal_session_one_copy(s) ? s->run.all : NULL;
  s->run.eval_mode = s->world.choice.eval_by_batch && s->run.model->stats > 0 ? SHOAL_PLAN_MEASURE : SHOAL_PLAN_EVAL;
  if (s->method->state_size) SHOAL_TRY(shoal_alloc(1, s->method->state_size, "the method's state", &s->method_state));
  s->model.opened = true;
  s->model.outline = (shoal_outline){ .model = s->model.whole };
  if (s->method->outline) SHOAL_TRY(s->method->outline(&s->run, s->method_state, &s->model.outline));
  s->model.form.model = s->model.outline.model;
  return SHOAL_OK;
}

/* Says whose memory it was that there is too little of. */
static shoal_status name_size(const shoal_session *s, shoal_status st)
{
  if (st != SHOAL_ERR_MEM) return st;
  return shoal_error_prefix(st,
                            "model %s with a batch of %llu samples per rank (data.%s) needs more memory than there is, "
                            "make one of them smaller%s: ",
                            s->model.whole->name, (unsigned long long)s->data.own_batch,
                            shoal_config_int(s->world.config, "data.global_batch") ? "global_batch" : "batch",
                            s->model.whole->recompute ? "" : ", or set compute.recompute to units");
}

shoal_status shoal_session_share_gradients(shoal_session *s)
{
  const shoal_outline *o = &s->model.outline;
  const shoal_run *r = &s->run;
  size_t bytes = SHOAL_MAX(o->model->weights, o->gradients) * sizeof(float);
  if (o->own_gradients) return SHOAL_OK;
  shoal_status st = r->backend->ops->alloc(r->backend, shoal_group_memory_kind(r->all), bytes, &s->model.gradients);
  SHOAL_TRY(shoal_group_agree(r->all, name_size(s, st)));
  return shoal_group_register(r->all, &s->model.gradients);
}

/* Plans the epoch's last batch, which may be short, if `left` samples of the epoch are left. */
static shoal_status plan_last_batch(shoal_session *s, uint64_t left)
{
  const shoal_run *r = &s->run;
  uint64_t rest = s->world.choice.last != SHOAL_LAST_SHORT ? 0 : left % r->global_batch, first, count = rest;
  if (!shoal_session_strided(s)) shoal_share_of(rest, r->share_rank, r->share_size, &first, &count);
  return shoal_plan_last_batch(&s->model.form, count, r->steps_per_epoch == 1);
}

/* Plans for a full batch (of no more samples than there are) and for the epoch's last one, created now so that a batch the model cannot take (one sample
 * under batch norm) is refused before step 1 and not at the end of the first epoch. */
static shoal_status open_plans(shoal_session *s)
{
  shoal_run *r = &s->run;
  uint64_t first, most = r->global_batch, n = shoal_loader_samples(s->data.train);
  if (s->world.choice.last == SHOAL_LAST_SHORT) most = SHOAL_MIN(most, SHOAL_MAX(n, 2 * (uint64_t)r->share_size));
  uint64_t count = most;
  if (!shoal_session_strided(s)) shoal_share_of(most, r->share_rank, r->share_size, &first, &count);
  SHOAL_TRY(shoal_form_plan(r->backend, (int64_t)SHOAL_MAX(count, 1), &s->model.form));
  return plan_last_batch(s, n);
}

shoal_status shoal_session_plan_rest(shoal_session *s)
{
  uint64_t n = shoal_loader_samples(s->data.train);
  return s->model.form.plans ? plan_last_batch(s, n - SHOAL_MIN(s->clock.position, n)) : SHOAL_OK;
}

static shoal_status open_model(shoal_session *s)
{
  shoal_run *r = &s->run;
  shoal_form *f = &s->model.form;
  SHOAL_TRY(shoal_form_init(r->backend, f->model, &s->model.optim, s->model.gradients.at, f));
  SHOAL_TRY(shoal_model_init(r->backend, f->model, r->seed + (uint64_t)s->faults.seed, f->params->w, f->params->stats));
  f->params->version++;
  if (s->method->step) return SHOAL_OK; /* the method has its own plans */
  SHOAL_TRY(open_plans(s));
  return shoal_session_cuts(s) ? SHOAL_OK : shoal_session_make_whole(s);
}

shoal_status shoal_session_open_model(shoal_session *s)
{
  return name_size(s, open_model(s));
}

shoal_status shoal_session_make_whole(shoal_session *s)
{
  if (!s->model.scratch) SHOAL_TRY(shoal_params_create_forward(s->run.backend, s->run.model, &s->model.scratch));
  if (s->model.plans) return SHOAL_OK;
  if (shoal_session_cuts(s)) return shoal_plans_create(s->run.backend, s->run.model, &s->model.plans);
  s->model.plans = s->model.form.plans;
  return SHOAL_OK;
}

/* A rank that trains a part may not have memory for the whole model all the time. */
void shoal_session_drop_whole(shoal_session *s)
{
  if (!shoal_session_cuts(s)) return;
  shoal_params_destroy(s->run.backend, s->model.scratch);
  shoal_plans_destroy(s->model.plans);
  s->model.scratch = NULL;
  s->model.plans = NULL;
}

void shoal_session_close_model(shoal_session *s)
{
  shoal_run *r = &s->run;
  if (s->model.plans != s->model.form.plans) shoal_plans_destroy(s->model.plans);
  shoal_params_destroy(r->backend, s->model.scratch);
  shoal_form_fini(r->backend, &s->model.form);
  if (r->world) shoal_group_unregister(r->all, &s->model.gradients);
  if (r->backend) r->backend->ops->release(r->backend, &s->model.gradients);
  shoal_model_destroy(s->model.whole);
}
