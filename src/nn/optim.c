/* Optimizers: one fused pass of the backend over each range of the arena.
 *
 * A range ends where the trainable set ends or where weight decay starts or stops; the model lists these decay runs,
 * and a step intersects the trainable ranges with them.  The optimizer owns only its state arrays.  Clipping costs a
 * pass for the norm, but none for the scaling, which is part of the update.
 *
 * Nothing that a step finds comes back to the host in it: the clip scale is read by the update where it was made, and what
 * changes from step to step goes to the backend in one block. */
#include "nn/optim.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const shoal_option shoal_optim_options[] = {
  { "optim.name", SHOAL_OPT_ENUM, "sgd", NULL, "sgd|adamw", "Optimizer.", "Loshchilov and Hutter, ICLR 2019 (adamw)" },
  { "optim.lr", SHOAL_OPT_FLOAT, "0.02", NULL, "(0,inf)", "Learning rate after the warm-up.", "shoal" },
  { "optim.momentum", SHOAL_OPT_FLOAT, "0.9", NULL, "[0,1)", "Momentum; 0 keeps no state.", "Polyak, 1964",
    .when = "optim.name=sgd" },
  { "optim.nesterov", SHOAL_OPT_BOOL, "false", NULL, NULL, "Nesterov momentum.", "Sutskever et al., ICML 2013",
    .when = "optim.name=sgd" },
  { "optim.weight_decay", SHOAL_OPT_FLOAT, "0", NULL, "[0,inf)", "Weight decay: L2, or decoupled for adamw.", "shoal" },
  { "optim.decoupled", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Apply weight decay to the weights, not to the gradient; adamw always does.", "Loshchilov and Hutter, ICLR 2019",
    .when = "optim.name=sgd" },
  { "optim.decay_on", SHOAL_OPT_ENUM, "all", NULL, "all|weights",
    "What decays: all parameters, as in PyTorch, or only matrices and filters.", "shoal" },
  { "optim.beta1", SHOAL_OPT_FLOAT, "0.9", NULL, "[0,1)", "Decay of the mean of gradients.", "Kingma and Ba, 2015",
    .when = "optim.name=adamw" },
  { "optim.beta2", SHOAL_OPT_FLOAT, "0.999", NULL, "[0,1)", "Decay of the mean of squares.", "Kingma and Ba, 2015",
    .when = "optim.name=adamw" },
  { "optim.eps", SHOAL_OPT_FLOAT, "1e-8", NULL, "(0,inf)", "Added to the denominator.", "Kingma and Ba, 2015",
    .when = "optim.name=adamw" },
  { "optim.clip", SHOAL_OPT_FLOAT, "0", NULL, "[0,inf)", "Gradient clipping: largest global norm; 0: no limit.",
    "Pascanu et al., ICML 2013" },
  { "optim.schedule", SHOAL_OPT_ENUM, "constant", NULL, "constant|step|cosine|plateau",
    "Learning-rate schedule after the warm-up.", "shoal" },
  { "optim.warmup_epochs", SHOAL_OPT_FLOAT, "0", "epochs", "[0,inf)", "Length of the linear warm-up.",
    "Goyal et al., 2017" },
  { "optim.warmup_from", SHOAL_OPT_FLOAT, "0.1", NULL, "[0,1]", "The warm-up starts at this factor of optim.lr.",
    "Goyal et al., 2017" },
  { "optim.min_factor", SHOAL_OPT_FLOAT, "0", NULL, "[0,1]", "The schedule ends at this factor of optim.lr.",
    "Loshchilov and Hutter, ICLR 2017", .when = "optim.schedule=cosine" },
  { "optim.milestones", SHOAL_OPT_FLOATS, "", "epochs", "(0,inf)", "Epochs at which the rate drops.", "shoal",
    .when = "optim.schedule=step" },
  { "optim.gamma", SHOAL_OPT_FLOAT, "0.1", NULL, "(0,1]", "Factor of each drop.", "shoal",
    .when = "optim.schedule=step" },
  { "optim.plateau_factor", SHOAL_OPT_FLOAT, "0.5", NULL, "(0,1)", "Factor of each drop.", "shoal",
    .when = "optim.schedule=plateau" },
  { "optim.plateau_patience", SHOAL_OPT_INT, "5", "epochs", "[1,inf)", "Epochs without improvement before a drop.",
    "shoal", .when = "optim.schedule=plateau" },
  { "optim.plateau_threshold", SHOAL_OPT_FLOAT, "1e-4", NULL, "[0,1)",
    "Relative decrease of the training loss that counts as an improvement.", "shoal",
    .when = "optim.schedule=plateau" },
  { .name = NULL },
};

shoal_status shoal_optim_configure(const shoal_config *c, shoal_optim_config *out)
{
  shoal_optim_config o = {
    .kind = strcmp(shoal_config_string(c, "optim.name"), "adamw") == 0 ? SHOAL_OPTIM_ADAMW : SHOAL_OPTIM_SGD,
    .momentum = (float)shoal_config_float(c, "optim.momentum"),
    .beta1 = (float)shoal_config_float(c, "optim.beta1"),
    .beta2 = (float)shoal_config_float(c, "optim.beta2"),
    .eps = (float)shoal_config_float(c, "optim.eps"),
    .weight_decay = (float)shoal_config_float(c, "optim.weight_decay"),
    .clip = (float)shoal_config_float(c, "optim.clip"),
    .nesterov = shoal_config_bool(c, "optim.nesterov"),
    .decoupled = shoal_config_bool(c, "optim.decoupled"),
    .decay_all = strcmp(shoal_config_string(c, "optim.decay_on"), "all") == 0,
  };
  if (o.kind == SHOAL_OPTIM_ADAMW) o.decoupled = true;
  SHOAL_CHECK(!o.nesterov || o.kind == SHOAL_OPTIM_ADAMW || o.momentum > 0, SHOAL_ERR_ARG,
              "optim.nesterov needs momentum; set optim.momentum above 0 or optim.nesterov to false");
  *out = o;
  return SHOAL_OK;
}

const char *shoal_optim_slot_name(const shoal_optim *o, int slot)
{
  if (o->config.kind == SHOAL_OPTIM_SGD) return "momentum";
  return slot == 0 ? "exp_avg" : "exp_avg_sq";
}

static shoal_status allocate(shoal_optim *o, int which, float **out)
{
  SHOAL_TRY(o->backend->ops->alloc(o->backend, SHOAL_MEMORY_DEVICE, o->n * sizeof(float), &o->own[which]));
  *out = o->own[which].at;
  return SHOAL_OK;
}

static shoal_status allocate_all(shoal_optim *o)
{
  const shoal_backend_ops *ops = o->backend->ops;
  for (int i = 0; i < o->slots; i++) SHOAL_TRY(allocate(o, i, &o->slot[i]));
  for (int i = 0; i <= o->slots && o->config.takes_back; i++) SHOAL_TRY(allocate(o, 2 + i, &o->before[i]));
  return ops->alloc(o->backend, SHOAL_MEMORY_PINNED, sizeof(shoal_optim_seen), &o->seen);
}

/* Room for `n` of them. */
static shoal_status make_paces(shoal_optim *o, size_t n)
{
  const shoal_backend_ops *ops = o->backend->ops;
  if (o->paces >= n) return SHOAL_OK;
  free(o->pace);
  o->pace = NULL;
  o->paces = 0;
  ops->release(o->backend, &o->now);
  SHOAL_TRY(ops->alloc(o->backend, SHOAL_MEMORY_DEVICE, n * sizeof *o->pace, &o->now));
  SHOAL_TRY(SHOAL_ALLOC(n, &o->pace));
  o->paces = n;
  return SHOAL_OK;
}

shoal_status shoal_optim_create(shoal_backend *b, const shoal_optim_config *c, size_t n, shoal_optim **out)
{
  shoal_optim *o = calloc(1, sizeof *o);
  SHOAL_CHECK(o, SHOAL_ERR_MEM, "optimizer");
  o->config = *c;
  o->backend = b;
  o->n = n;
  o->slots = c->kind == SHOAL_OPTIM_ADAMW ? 2 : c->momentum > 0;
  shoal_status st = allocate_all(o);
  if (st == SHOAL_OK) st = make_paces(o, 1);
  if (st != SHOAL_OK) {
    shoal_optim_destroy(o);
    return st;
  }
  *out = o;
  return SHOAL_OK;
}

void shoal_optim_destroy(shoal_optim *o)
{
  if (!o) return;
  for (size_t i = 0; i < SHOAL_COUNT(o->own); i++) o->backend->ops->release(o->backend, &o->own[i]);
  o->backend->ops->release(o->backend, &o->now);
  o->backend->ops->release(o->backend, &o->seen);
  free(o->pace);
  free(o);
}

static shoal_status apply(shoal_optim *o, shoal_params *p, const shoal_pace *now, size_t offset, size_t n, bool decay,
                          const shoal_update_watch *watch)
{
  const shoal_optim_config *c = &o->config;
  const shoal_backend_ops *ops = o->backend->ops;
  shoal_optim_seen *seen = o->seen.at;
  const float *scale = c->clip > 0 ? &seen->scale : NULL;
  float wd = decay ? c->weight_decay : 0, l2 = c->decoupled ? 0 : wd, decoupled = c->decoupled ? wd : 0;
  float *first = o->slots > 0 ? o->slot[0] + offset : NULL, *second = o->slots > 1 ? o->slot[1] + offset : NULL;
  const float *g = p->g + offset;
  float *w = p->w + offset;
  if (c->kind == SHOAL_OPTIM_ADAMW) {
    shoal_adam_args a = { now, scale, c->beta1, c->beta2, c->eps, l2, decoupled };
    return ops->adam(o->backend, n, &a, g, first, second, w, watch);
  }
  if (o->slots == 0) { /* no state: an update that is linear in both */
    shoal_descend_args a = { now, scale, l2, decoupled };
    return ops->descend(o->backend, n, &a, g, w, watch);
  }
  shoal_sgd_args a = { now, scale, c->momentum, l2, decoupled, c->nesterov };
  return ops->sgd(o->backend, n, &a, g, first, w, watch);
}

static shoal_status update(shoal_optim *o, shoal_params *p, const shoal_pace *now, size_t offset, size_t n, bool decay)
{
  shoal_update_watch watch = { .bad = &((shoal_optim_seen *)o->seen.at)->bad };
  if (o->before[0]) watch.w = o->before[0] + offset;
  for (int i = 0; i < o->slots && watch.w; i++) watch.state[i] = o->before[1 + i] + offset;
  return apply(o, p, now, offset, n, decay, &watch);
}

/* Updates one range, split where decay starts or stops. */
static shoal_status update_range(shoal_optim *o, const shoal_model *m, shoal_params *p, const shoal_pace *now,
                                 const shoal_range *range)
{
  if (o->config.decay_all || o->config.weight_decay == 0)
    return range->count ? update(o, p, now, range->offset, range->count, true) : SHOAL_OK;
  size_t end = range->offset + range->count;
  for (int i = 0; i < m->runs; i++) {
    const shoal_decay_run *run = &m->run[i];
    size_t from = SHOAL_MAX(range->offset, run->offset), to = SHOAL_MIN(end, run->offset + run->count);
    if (from < to) SHOAL_TRY(update(o, p, now, from, to - from, run->decay));
  }
  return SHOAL_OK;
}

/* A norm that is not finite leaves the scale at 1: the update's own results are then not finite either. */
static shoal_status find_scale(shoal_optim *o, const shoal_params *p, const shoal_range *ranges, size_t n_ranges)
{
  const shoal_backend_ops *ops = o->backend->ops;
  shoal_optim_seen *seen = o->seen.at;
  if (o->config.clip <= 0) return SHOAL_OK;
  SHOAL_TRY(ops->fill(o->backend, sizeof seen->squares / sizeof(float), 0, (float *)(void *)&seen->squares));
  for (size_t i = 0; i < n_ranges; i++)
    SHOAL_TRY(ops->sumsq(o->backend, ranges[i].count, p->g + ranges[i].offset, &seen->squares));
  return ops->clip(o->backend, o->config.clip, &seen->squares, &seen->scale);
}

static shoal_status put_paces(shoal_optim *o, float lr, size_t n)
{
  SHOAL_TRY(make_paces(o, n));
  for (size_t i = 0; i < n; i++) {
    double t = (double)(o->ages ? o->ages[i] : o->steps) + 1;
    o->pace[i] = (shoal_pace){ .lr = lr,
                               .c1 = (float)(1 - pow(o->config.beta1, t)),
                               .c2 = (float)(1 - pow(o->config.beta2, t)),
                               .first = o->steps == 0 };
  }
  return o->backend->ops->copy(o->backend, n * sizeof *o->pace, o->pace, o->now.at);
}

static shoal_status take_back(shoal_optim *o, shoal_params *p, const shoal_range *ranges, size_t n_ranges)
{
  const shoal_backend_ops *ops = o->backend->ops;
  shoal_optim_seen *seen = o->seen.at;
  SHOAL_TRY(ops->settle(o->backend));
  if (!seen->bad) return SHOAL_OK;
  seen->bad = 0;
  o->took_back = true;
  for (size_t i = 0; i < n_ranges; i++) {
    size_t at = ranges[i].offset, bytes = ranges[i].count * sizeof(float);
    SHOAL_TRY(ops->copy(o->backend, bytes, o->before[0] + at, p->w + at));
    for (int k = 0; k < o->slots; k++) SHOAL_TRY(ops->copy(o->backend, bytes, o->before[1 + k] + at, o->slot[k] + at));
  }
  return SHOAL_OK;
}

shoal_status shoal_optim_step(shoal_optim *o, const shoal_model *m, shoal_params *p, const shoal_range *ranges,
                              size_t n_ranges, float lr)
{
  const shoal_range all = { 0, p->n };
  SHOAL_CHECK(p->n == o->n && p->n == m->weights, SHOAL_ERR_ARG,
              "optimizer for %zu numbers was given parameters of %zu and a model of %zu", o->n, p->n, m->weights);
  if (!ranges) ranges = &all, n_ranges = 1;
  SHOAL_TRY(put_paces(o, lr, o->ages ? n_ranges : 1));
  SHOAL_TRY(find_scale(o, p, ranges, n_ranges));
  const shoal_pace *now = o->now.at;
  for (size_t i = 0; i < n_ranges; i++) SHOAL_TRY(update_range(o, m, p, o->ages ? now + i : now, &ranges[i]));
  if (o->before[0]) SHOAL_TRY(take_back(o, p, ranges, n_ranges));
  o->steps++;
  p->version++;
  return SHOAL_OK;
}

shoal_status shoal_optim_outcome(shoal_optim *o, bool *bad)
{
  shoal_optim_seen *seen = o->seen.at;
  SHOAL_TRY(o->backend->ops->settle(o->backend));
  *bad = seen->bad || o->took_back;
  seen->bad = 0;
  o->took_back = false;
  return SHOAL_OK;
}
