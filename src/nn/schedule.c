/* The learning rate as a function of the position in the run, so that a resumed run needs no state for it; only
 * `plateau` looks back, at four numbers that the checkpoint keeps.
 *
 *   lr |    /---.____            warm-up: linear from warmup_from * lr
 *      |   /         `--.        cosine:  half a period over what remains, down to min_factor * lr
 *      |  /              `--.    step:    times gamma at each milestone (counted from the start of the run)
 *      | '                        plateau: times factor after `patience` epochs without improvement
 *      +--------------------- epoch */
#include "base/mem.h"
#include "nn/optim.h"
#include <float.h>
#include <math.h>
#include <string.h>

shoal_status shoal_lr_configure(const shoal_config *c, double epochs, shoal_lr_schedule *out)
{
  static const char *const kinds[] = { "constant", "step", "cosine", "plateau" };
  shoal_lr_schedule s = {
    .lr = shoal_config_float(c, "optim.lr"),
    .warmup_epochs = shoal_config_float(c, "optim.warmup_epochs"),
    .warmup_from = shoal_config_float(c, "optim.warmup_from"),
    .epochs = epochs,
    .min_factor = shoal_config_float(c, "optim.min_factor"),
    .gamma = shoal_config_float(c, "optim.gamma"),
    .factor = shoal_config_float(c, "optim.plateau_factor"),
    .threshold = shoal_config_float(c, "optim.plateau_threshold"),
    .patience = shoal_config_int(c, "optim.plateau_patience"),
  };
  s.milestones = shoal_config_floats(c, "optim.milestones", &s.milestone);
  for (size_t i = 0; i < SHOAL_COUNT(kinds); i++)
    if (strcmp(shoal_config_string(c, "optim.schedule"), kinds[i]) == 0) s.kind = (shoal_lr_kind)i;
  SHOAL_CHECK(s.kind != SHOAL_LR_STEP || s.milestones > 0, SHOAL_ERR_ARG,
              "optim.schedule is step but optim.milestones is empty; give the epochs at which the rate drops");
  for (size_t i = 1; i < s.milestones; i++)
    SHOAL_CHECK(s.milestone[i] > s.milestone[i - 1], SHOAL_ERR_ARG,
                "optim.milestones: %g after %g; give them in rising order", s.milestone[i], s.milestone[i - 1]);
  SHOAL_CHECK(s.kind != SHOAL_LR_COSINE || s.warmup_epochs < epochs, SHOAL_ERR_ARG,
              "optim.warmup_epochs is %g and run.epochs %g: the cosine falls in what remains; lower it, or raise "
              "run.epochs",
              s.warmup_epochs, epochs);
  *out = s;
  return SHOAL_OK;
}

void shoal_lr_plateau_init(shoal_lr_plateau *p)
{
  *p = (shoal_lr_plateau){ .best = DBL_MAX, .scale = 1 }; /* none yet; infinite in older checkpoints */
}

static double cosine_factor(const shoal_lr_schedule *s, double epoch)
{
  double t = (epoch - s->warmup_epochs) / (s->epochs - s->warmup_epochs);
  if (t >= 1) return s->min_factor;
  return s->min_factor + (1 - s->min_factor) * 0.5 * (1 + cos(M_PI * t));
}

double shoal_lr_at(const shoal_lr_schedule *s, const shoal_lr_plateau *p, double epoch)
{
  if (epoch < s->warmup_epochs) return s->lr * (s->warmup_from + (1 - s->warmup_from) * epoch / s->warmup_epochs);
  double lr = s->lr;
  switch (s->kind) {
  case SHOAL_LR_CONSTANT:
    break;
  case SHOAL_LR_STEP:
    for (size_t i = 0; i < s->milestones; i++)
      if (epoch >= s->milestone[i]) lr *= s->gamma;
    break;
  case SHOAL_LR_COSINE:
    lr *= cosine_factor(s, epoch);
    break;
  case SHOAL_LR_PLATEAU:
    lr *= p->scale;
    break;
  }
  return lr;
}

/* A NaN loss never counts as an improvement.  The best loss is kept when the rate drops. */
void shoal_lr_plateau_feed(const shoal_lr_schedule *s, shoal_lr_plateau *p, double loss)
{
  p->seen++;
  if (loss < p->best - s->threshold * fabs(p->best) || (p->best >= DBL_MAX && isfinite(loss))) {
    p->best = loss;
    p->bad = 0;
    return;
  }
  p->bad++;
  if (p->bad < s->patience) return;
  p->scale *= s->factor;
  p->bad = 0;
}
