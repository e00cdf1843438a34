/* Tells where the learning rate jumps when a run goes on with another configuration.
 *
 * The schedule is a function of the position in the whole run.  More epochs therefore stretch a cosine that had come down
 * to its end, and the rate goes up by orders of magnitude; a later milestone takes a drop back.  Both are easily meant
 * otherwise, so the first step's rate is compared with that of the checkpoint's own configuration at the same place. */
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"

typedef struct {
  bool cosine, other_schedule; /* now; other: the options of the old one say nothing more */
  shoal_str text;
} reasons;

static void explain(void *ctx, const char *name, const char *was, const char *is)
{
  static const char *const shaping[] = { "optim.lr",          "optim.schedule",   "optim.warmup_epochs",
                                         "optim.warmup_from", "optim.min_factor", "optim.milestones",
                                         "optim.gamma" };
  enum { OF_ONE_SCHEDULE = 4 };
  reasons *r = ctx;
  const char *comma = r->text.len ? ", and " : "";
  if (r->cosine && was && strcmp(name, "run.epochs") == 0)
    shoal_str_add(&r->text, "the cosine now covers %s epoch%s, not %s", is, strcmp(is, "1") == 0 ? "" : "s", was);
  for (size_t i = 0; i < SHOAL_COUNT(shaping); i++) {
    if (strcmp(name, shaping[i]) != 0 || (i >= (size_t)OF_ONE_SCHEDULE && r->other_schedule)) continue;
    shoal_str_add(&r->text, "%s%s is now %s, not %s", comma, name, is, was ? was : "unset");
    r->other_schedule |= strcmp(name, "optim.schedule") == 0;
  }
}

/* The rate of the next step by the configuration of the run that saved.  A cosine that was over has none: then the rate of
 * its last step. */
static shoal_status old_rate(const shoal_session *s, const char *resolved, double epoch, double *out)
{
  shoal_config *c;
  shoal_lr_schedule schedule;
  SHOAL_TRY(shoal_run_recall_schedule(resolved, &c));
  shoal_status st = shoal_lr_configure(c, (double)shoal_config_int(c, "run.epochs"), &schedule);
  bool over = st == SHOAL_OK && schedule.kind == SHOAL_LR_COSINE && epoch >= schedule.epochs;
  if (over) /* where its last step began, which may have been a short one */
    epoch = schedule.epochs - 1 +
            (double)((s->run.steps_per_epoch - 1) * s->run.global_batch) / (double)s->run.epoch_samples;
  if (st == SHOAL_OK) *out = shoal_lr_at(&schedule, &s->model.plateau, epoch);
  shoal_config_destroy(c);
  return st;
}

shoal_status shoal_session_report_rate(const shoal_session *s, const char *resolved)
{
  double old, epoch = (double)s->clock.epoch + (double)s->clock.position / (double)s->data.epoch_samples;
  if (!shoal_session_is_root(s) || shoal_session_reached_end(s)) return SHOAL_OK;
  shoal_status st = old_rate(s, resolved, epoch, &old);
  if (st != SHOAL_OK) {
    shoal_info("whether the learning rate jumps here is not known: %s", shoal_error_text(st));
    return SHOAL_OK;
  }
  char from[32], to[32]; /* a change that the numbers do not show is none worth a line */
  snprintf(from, sizeof from, "%.4g", old);
  snprintf(to, sizeof to, "%.4g", shoal_lr_at(&s->model.lr, &s->model.plateau, epoch));
  if (strcmp(from, to) == 0) return SHOAL_OK;
  reasons why = { .cosine = s->model.lr.kind == SHOAL_LR_COSINE };
  st = shoal_config_changes(s->world.config, resolved, "the checkpoint's run file", explain, &why);
  if (st == SHOAL_OK)
    shoal_warn("the learning rate goes from %s to %s here%s%s", from, to, why.text.len ? ": " : "",
               why.text.len ? why.text.text : "");
  shoal_str_free(&why.text);
  return st;
}

double shoal_session_decay(const shoal_session *s)
{
  const shoal_config *c = s->world.config;
  return shoal_config_float(c, "optim.weight_decay") * shoal_config_float(c, "optim.lr");
}

/* Often the run was made shorter, as for a first try. */
void shoal_session_warn_of_schedule(const shoal_session *s)
{
  const shoal_lr_schedule *l = &s->model.lr;
  const uint64_t steps = s->world.choice.steps, per_epoch = SHOAL_MAX(s->run.steps_per_epoch, UINT64_C(1));
  const double end = steps ? SHOAL_MIN(s->run.epochs, (double)steps / (double)per_epoch) : s->run.epochs;
  size_t reached = 0;
  if (shoal_session_decay(s) >= 1)
    shoal_warn("optim.weight_decay of %.4g times optim.lr of %.4g is %.4g: from 1 on, an update takes away more of a "
               "weight than there is of it, and nothing is learnt; make one of them smaller",
               shoal_config_float(s->world.config, "optim.weight_decay"), l->lr, shoal_session_decay(s));
  if (l->warmup_epochs > 0 && l->warmup_epochs >= end)
    shoal_warn(
        "the warm-up takes %.4g epochs (optim.warmup_epochs) and the run %.4g: it ends at a learning rate of %.4g, "
        "not at optim.lr, %.4g",
        l->warmup_epochs, end, shoal_lr_at(l, &s->model.plateau, end * (1 - 1e-9)), l->lr);
  if (l->kind != SHOAL_LR_STEP) return;
  if (l->milestone[0] < l->warmup_epochs)
    shoal_warn("optim.milestones: %.4g lies in the warm-up of %.4g epochs (optim.warmup_epochs), where the rate does "
               "not drop: it "
               "rises to %.4g, and is %.4g after it",
               l->milestone[0], l->warmup_epochs, l->lr, shoal_lr_at(l, &s->model.plateau, l->warmup_epochs));
  while (reached < l->milestones && l->milestone[reached] < end) reached++;
  if (reached < l->milestones)
    shoal_warn("optim.milestones: the learning rate does not drop at epoch %.4g, for the run has %.4g",
               l->milestone[reached], end);
}
