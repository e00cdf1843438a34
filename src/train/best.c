/* The best checkpoint beside the newest, and early stopping.
 *
 * After every evaluation the model is compared with the best one so far, by ckpt.best, or by the test loss if only
 * eval.patience is set.  A better one is saved at once and kept in ckpt/best/, a second name of the same file where the file
 * system allows it, so that it stays when the newest ones move on.  All ranks know the same numbers and decide alike. */
#include "base/file.h"
#include "base/log.h"
#include "ckpt/folder.h"
#include "train/session.h"
#include <math.h>
#include <stdlib.h>

static bool is_better(const shoal_session *s, double value)
{
  if (s->best.step == UINT64_MAX) return true;
  return s->world.choice.best == SHOAL_BEST_ACCURACY ? value > s->best.value : value < s->best.value;
}

static double measured(const shoal_session *s)
{
  return s->world.choice.best == SHOAL_BEST_ACCURACY ? s->record.test_acc : s->record.test_loss;
}

static shoal_status keep_best(shoal_session *s)
{
  SHOAL_TRY(shoal_session_finish_save(s)); /* of the last one, which is not meant */
  s->saving.best = true;
  SHOAL_TRY(shoal_session_save_due(s));
  if (s->saving.writer) return SHOAL_OK; /* who writes it does the rest */
  s->saving.best = false;
  if (s->record.save_failed) return SHOAL_OK; /* and training goes on */
  shoal_status st = SHOAL_OK;
  if (shoal_session_is_root(s)) {
    st = shoal_folder_check(&s->world.folder);
    if (st == SHOAL_OK) st = shoal_ckpt_keep_best(s->clock.saved_path);
  }
  return shoal_group_agree(s->run.control, st);
}

shoal_status shoal_session_weigh(shoal_session *s)
{
  const shoal_run_choice *c = &s->world.choice;
  double value = measured(s);
  if (c->best == SHOAL_BEST_NONE && !c->patience) return SHOAL_OK;
  if (isnan(value)) {
    if (shoal_session_is_root(s))
      shoal_warn("no test sample has a finite loss at step %llu: %s over this evaluation",
                 (unsigned long long)s->run.step,
                 c->best == SHOAL_BEST_NONE ? "eval.patience passes"
                 : c->patience              ? "ckpt.best and eval.patience pass"
                                            : "ckpt.best passes");
    return SHOAL_OK;
  }
  if (is_better(s, value)) {
    s->best.value = value;
    s->best.step = s->run.step;
    s->best.worse = 0;
    return c->best == SHOAL_BEST_NONE ? SHOAL_OK : keep_best(s);
  }
  s->best.worse++;
  if (!c->patience || s->best.worse < c->patience || shoal_session_reached_end(s)) return SHOAL_OK;
  s->best.ends = true;
  shoal_info("%s has not improved in %llu evaluation%s (best %.6g at step %llu): the run ends here (eval.patience)",
             c->best == SHOAL_BEST_ACCURACY ? "test accuracy" : "test loss", (unsigned long long)s->best.worse,
             s->best.worse == 1 ? "" : "s", s->best.value, (unsigned long long)s->best.step);
  return SHOAL_OK;
}

/* The file of an earlier best model may be gone, by hand or with another branch, or be damaged.  *why: NULL if it is whole; caller
 * frees. */
static shoal_status try_best(const char *folder, char **why)
{
  shoal_ckpt_folder f = { 0 };
  *why = NULL;
  shoal_status st = shoal_ckpt_folder_scan(folder, &f);
  if (st == SHOAL_OK && f.n == 0) *why = shoal_strdup_printf("is not there any more");
  if (st == SHOAL_OK && f.n > 0) shoal_ckpt_close(shoal_ckpt_folder_try(&f.at[0], false, why));
  shoal_ckpt_folder_free(&f);
  return st;
}

/* A kill can come between the save of the best model and its second name.  Without the file of an earlier best one the next
 * evaluation counts as the best. */
shoal_status shoal_session_find_best(shoal_session *s)
{
  int64_t gone = 0;
  char *why = NULL;
  shoal_status st = SHOAL_OK;
  if (s->world.choice.best == SHOAL_BEST_NONE || s->best.step == UINT64_MAX) return SHOAL_OK;
  if (shoal_session_is_root(s)) {
    char *folder = shoal_path_join(s->world.folder.ckpt, "best");
    if (s->best.step == s->run.step)
      st = shoal_ckpt_keep_best(s->world.resume_path);
    else
      st = try_best(folder, &why);
    gone = why != NULL;
    if (why)
      shoal_warn("the best checkpoint, of step %llu in %s, %s: the next evaluation counts as the best",
                 (unsigned long long)s->best.step, folder, why);
    free(why);
    free(folder);
  }
  SHOAL_TRY(shoal_group_agree(s->run.control, st));
  SHOAL_TRY(shoal_group_agree_max(s->run.control, "best", &gone));
  if (!gone) return SHOAL_OK;
  s->best = (shoal_session_best){ .step = UINT64_MAX };
  return SHOAL_OK;
}

void shoal_session_put_best(const shoal_session *s, shoal_ckpt_writer *w)
{
  if (s->best.step == UINT64_MAX) return;
  shoal_ckpt_put_f64(w, "record/best", s->best.value);
  shoal_ckpt_put_i64(w, "record/best_step", (int64_t)s->best.step);
  shoal_ckpt_put_i64(w, "record/best_by", s->world.choice.best);
  shoal_ckpt_put_i64(w, "record/worse", (int64_t)s->best.worse);
}

/* What was best by another measure does not count. */
shoal_status shoal_session_get_best(shoal_session *s, const shoal_ckpt *c)
{
  int64_t step, by, worse;
  s->best = (shoal_session_best){ .step = UINT64_MAX };
  if (!s->world.resumes_own || !shoal_ckpt_has(c, "record/best")) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_count(c, "record/best_by", 0, SHOAL_BEST_LOSS, &by));
  SHOAL_TRY(shoal_ckpt_get_count(c, "record/best_step", 0, SHOAL_CKPT_MOST, &step));
  SHOAL_TRY(shoal_ckpt_get_count(c, "record/worse", 0, SHOAL_CKPT_MOST, &worse));
  if ((by == SHOAL_BEST_ACCURACY) != (s->world.choice.best == SHOAL_BEST_ACCURACY)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_real(c, "record/best", -HUGE_VAL, HUGE_VAL, &s->best.value));
  s->best.step = (uint64_t)step;
  s->best.worse = (uint64_t)worse;
  s->best.ends = s->world.choice.patience && s->best.worse >= s->world.choice.patience;
  return SHOAL_OK;
}
