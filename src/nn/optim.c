/* Optimizers: one fused pass of the backend over each range of the arena.
 *
 * A range ends where the trainable set ends or where weight decay starts or stops; the model lists these decay runs,
 * and a step intersects the trainable ranges with them.  The optimizer owns only its state arrays.  Clipping costs a
 * pass for the norm, but none for the scaling, which is part of the update. */
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

shoal_status shoal_optim_create(shoal_backend *b, const shoal_optim_config *c, size_t n, shoal_optim **out)
{
  shoal_optim *o = calloc(1, sizeof *o);
  SHOAL_CHECK(o, SHOAL_ERR_MEM, "optimizer");
  shoal_status st = SHOAL_OK;
  o->config = *c;
  o->backend = b;
  o->n = n;
  o->slots = c->kind == SHOAL_OPTIM_ADAMW ? 2 : c->momentum > 0;
  for (int i = 0; i < o->slots && st == SHOAL_OK; i++) st = allocate(o, i, &o->slot[i]);
  for (int i = 0; i <= o->slots && c->takes_back && st == SHOAL_OK; i++) st = allocate(o, 2 + i, &o->before[i]);
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
  free(o);
}

/* Arguments of one step that are the same for every range. */
typedef struct {
  float lr, scale;
  float c1, c2; /* AdamW: 1 - beta^t */
  bool bad;     /* seen */
} step;

static shoal_status apply(shoal_optim *o, shoal_params *p, const step *s, size_t offset, size_t n, bool decay,
                          shoal_update_watch *watch)
{
  const shoal_optim_config *c = &o->config;
  float wd = decay ? c->weight_decay : 0, l2 = c->decoupled ? 0 : wd, decoupled = c->decoupled ? wd : 0;
  float *first = o->slots > 0 ? o->slot[0] + offset : NULL, *second = o->slots > 1 ? o->slot[1] + offset : NULL;
  if (c->kind == SHOAL_OPTIM_ADAMW) {
    shoal_adam_args a = { .lr = s->lr,
                          .beta1 = c->beta1,
                          .beta2 = c->beta2,
                          .eps = c->eps,
                          .l2 = l2,
                          .decoupled = decoupled,
                          .scale = s->scale,
                          .c1 = s->c1,
                          .c2 = s->c2 };
    return o->backend->ops->adam(o->backend, n, &a, p->g + offset, first, second, p->w + offset, watch);
  }
  if (o->slots == 0) { /* no state: w = (w - lr (scale g + l2 w)) (1 - lr decoupled) is linear in both */
    float shrink = 1 - s->lr * decoupled;
    return o->backend->ops->descend(o->backend, n, -s->lr * s->scale * shrink, p->g + offset, (1 - s->lr * l2) * shrink,
                                    p->w + offset, watch);
  }
  shoal_sgd_args a = { .lr = s->lr,
                       .momentum = c->momentum,
                       .l2 = l2,
                       .decoupled = decoupled,
                       .scale = s->scale,
                       .nesterov = c->nesterov,
                       .first = o->steps == 0 };
  return o->backend->ops->sgd(o->backend, n, &a, p->g + offset, first, p->w + offset, watch);
}

static shoal_status update(shoal_optim *o, shoal_params *p, step *s, size_t offset, size_t n, bool decay)
{
  shoal_update_watch watch = { .bad = false };
  if (o->before[0]) watch.w = o->before[0] + offset;
  for (int i = 0; i < o->slots && watch.w; i++) watch.state[i] = o->before[1 + i] + offset;
  SHOAL_TRY(apply(o, p, s, offset, n, decay, &watch));
  s->bad |= watch.bad;
  return SHOAL_OK;
}

/* Updates one range, split where decay starts or stops. */
static shoal_status update_range(shoal_optim *o, const shoal_model *m, shoal_params *p, step *s,
                                 const shoal_range *range)
{
  if (o->config.decay_all || o->config.weight_decay == 0)
    return range->count ? update(o, p, s, range->offset, range->count, true) : SHOAL_OK;
  size_t end = range->offset + range->count;
  for (int i = 0; i < m->runs; i++) {
    const shoal_decay_run *run = &m->run[i];
    size_t from = SHOAL_MAX(range->offset, run->offset), to = SHOAL_MIN(end, run->offset + run->count);
    if (from < to) SHOAL_TRY(update(o, p, s, from, to - from, run->decay));
  }
  return SHOAL_OK;
}

static shoal_status gradient_norm(const shoal_optim *o, const shoal_params *p, const shoal_range *ranges,
                                  size_t n_ranges, double *out)
{
  double sum = 0;
  for (size_t i = 0; i < n_ranges; i++) {
    double part = 0;
    SHOAL_TRY(o->backend->ops->sumsq(o->backend, ranges[i].count, p->g + ranges[i].offset, &part));
    sum += part;
  }
  *out = sqrt(sum);
  return SHOAL_OK;
}

static shoal_status take_back(shoal_optim *o, shoal_params *p, const shoal_range *ranges, size_t n_ranges)
{
  const shoal_backend_ops *ops = o->backend->ops;
  for (size_t i = 0; i < n_ranges; i++) {
    size_t at = ranges[i].offset, bytes = ranges[i].count * sizeof(float);
    SHOAL_TRY(ops->copy(o->backend, bytes, o->before[0] + at, p->w + at));
    for (int k = 0; k < o->slots; k++) SHOAL_TRY(ops->copy(o->backend, bytes, o->before[1 + k] + at, o->slot[k] + at));
  }
  return SHOAL_OK;
}

static shoal_status finish(shoal_optim *o, shoal_params *p, bool bad)
{
  o->bad |= bad;
  o->steps++;
  p->version++;
  return SHOAL_OK;
}

shoal_status shoal_optim_step(shoal_optim *o, const shoal_model *m, shoal_params *p, const shoal_range *ranges,
                              size_t n_ranges, float lr, double *norm_out)
{
  const shoal_optim_config *c = &o->config;
  const shoal_range all = { 0, p->n };
  SHOAL_CHECK(p->n == o->n && p->n == m->weights, SHOAL_ERR_ARG,
              "optimizer for %zu numbers was given parameters of %zu and a model of %zu", o->n, p->n, m->weights);
  if (!ranges) ranges = &all, n_ranges = 1;
  step s = { .lr = lr, .scale = 1 };
  if (c->clip > 0 || norm_out) {
    double norm;
    SHOAL_TRY(gradient_norm(o, p, ranges, n_ranges, &norm));
    if (!isfinite(norm)) return finish(o, p, true); /* nothing has changed */
    if (c->clip > 0 && norm > c->clip) s.scale = (float)(c->clip / norm);
    if (norm_out) *norm_out = norm;
  }
  for (size_t i = 0; i < n_ranges; i++) {
    double t = (double)(o->ages ? o->ages[i] : o->steps) + 1;
    s.c1 = (float)(1 - pow(c->beta1, t));
    s.c2 = (float)(1 - pow(c->beta2, t));
    SHOAL_TRY(update_range(o, m, p, &s, &ranges[i]));
  }
  if (s.bad && o->before[0]) SHOAL_TRY(take_back(o, p, ranges, n_ranges));
  return finish(o, p, s.bad);
}
