/* See numbers.h. */
#include "train/numbers.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "train/session.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SPIKE_LEARNS = 20, SPIKE_SPAN = 50, WARNINGS = 10 };

/* ---- opening ---- */

shoal_status shoal_numbers_open(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  int64_t before = 0;
  n->policy = s->world.choice.bad;
  n->spike = s->world.choice.spike;
  n->limit = s->world.choice.bad_limit;
  s->run.judge = shoal_numbers_judge;
  if (s->world.resume && shoal_ckpt_has(s->world.resume, "train/rollbacks"))
    SHOAL_TRY(shoal_ckpt_get_i64(s->world.resume, "train/rollbacks", &before));
  n->rollbacks = SHOAL_MAX(n->rollbacks, (uint64_t)SHOAL_MAX(before, 0));
  return SHOAL_OK;
}

void shoal_numbers_close(shoal_session *s)
{
  free(s->numbers.stats);
  s->numbers.stats = NULL;
  s->numbers.room = 0;
}

uint64_t shoal_numbers_order_seed(const shoal_session *s)
{
  return s->numbers.rollbacks ? shoal_rng_seed(s->run.seed, UINT64_C(0x726f6c6c) << 32 | s->numbers.rollbacks)
                              : s->run.seed;
}

/* ---- noticing ---- */

static void note(shoal_found *have, char *text, size_t cap, shoal_found found, const char *format, va_list args)
{
  if (found <= *have) return; /* the first of its kind */
  *have = found;
  vsnprintf(text, cap, format, args);
}

/* In the current step; told to all unless its update is left out. */
__attribute__((format(printf, 3, 4))) static void note_here(shoal_session *s, shoal_found found, const char *format,
                                                            ...)
{
  va_list args;
  va_start(args, format);
  note(&s->numbers.here, s->numbers.here_text, sizeof s->numbers.here_text, found, format, args);
  va_end(args);
}

/* To be told to all ranks. */
__attribute__((format(printf, 3, 4))) static void note_for_all(shoal_session *s, shoal_found found, const char *format,
                                                               ...)
{
  va_list args;
  va_start(args, format);
  note(&s->numbers.found, s->numbers.text, sizeof s->numbers.text, found, format, args);
  va_end(args);
}

/* "feature 3", "channel 0, row 5, column 7" */
static void name_feature(const shoal_shape *sample, size_t at, char *out, size_t cap)
{
  if (sample->ndim != 3) {
    snprintf(out, cap, "feature %zu", at);
    return;
  }
  size_t plane = (size_t)(sample->dim[1] * sample->dim[2]), width = (size_t)sample->dim[2];
  snprintf(out, cap, "channel %zu, row %zu, column %zu", at / plane, at % plane / width, at % width);
}

/* ", where the mean is 0.1 and the standard deviation 0.001": what makes a finite value infinite */
static void name_scale(const shoal_session *s, size_t feature, char *out, size_t cap)
{
  const double *mean, *std;
  size_t n;
  shoal_dataset_scale(s->data.set, &n, &mean, &std);
  size_t g = feature / ((size_t)shoal_shape_count(&shoal_dataset_info(s->data.set)->sample) / n);
  snprintf(out, cap, ", where the mean is %.4g and the standard deviation %.4g", mean[g], std[g]);
}

/* "sample 377 of /X_train is not finite: feature 3 is nan" */
static void name_sample(const shoal_session *s, shoal_split split, const shoal_bad_samples *bad, char *out, size_t cap)
{
  char feature[96], scale[96] = "";
  uint64_t id = bad->id;
  const shoal_dataset *file = shoal_dataset_file_of(s->data.set, split, &id);
  name_feature(&shoal_dataset_info(s->data.set)->sample, bad->feature, feature, sizeof feature);
  if (isfinite(bad->value)) name_scale(s, bad->feature, scale, sizeof scale);
  snprintf(out, cap, "sample %llu of /%s%s%s is not finite%s: %s is %g%s", (unsigned long long)id,
           shoal_dataset_array(file, split), file == s->data.set ? "" : " in ",
           file == s->data.set ? "" : shoal_path_base(shoal_dataset_path(file)),
           isfinite(bad->value) ? " once normalised" : "", feature, isnan(bad->value) ? NAN : (double)bad->value,
           scale); /* not "-nan" */
}

void shoal_numbers_begin(shoal_session *s, const shoal_batch *b)
{
  shoal_session_numbers *n = &s->numbers;
  const shoal_params *p = s->run.form->params;
  char text[256];
  n->here = SHOAL_FOUND_NOTHING;
  n->left_out = false;
  if (b->bad.n > 0) {
    name_sample(s, SHOAL_TRAIN, &b->bad, text, sizeof text);
    note_here(s, SHOAL_FOUND_INPUT, "step %llu: %s", (unsigned long long)s->run.step, text);
  }
  if (n->policy != SHOAL_BAD_SKIP || p->n_stats == 0) return;
  if (n->room < p->n_stats) {
    float *more = realloc(n->stats, p->n_stats * sizeof *more);
    if (!more) {
      note_for_all(s, SHOAL_FOUND_UPDATE, "step %llu: no memory for a copy of the running statistics",
                   (unsigned long long)s->run.step);
      return;
    }
    n->stats = more;
    n->room = p->n_stats;
  }
  memcpy(n->stats, p->stats, p->n_stats * sizeof *n->stats);
}

/* Far above its running range: mean and mean deviation of the last losses, the deviation at least 1 % of the mean. */
static bool is_spike(const shoal_session_numbers *n, double loss)
{
  return n->spike > 0 && n->seen >= SPIKE_LEARNS &&
         loss > n->mean + n->spike * SHOAL_MAX(n->deviation, 0.01 * fabs(n->mean));
}

static void learn_range(shoal_session_numbers *n, double loss)
{
  n->seen++;
  double rate = 1 / (double)SHOAL_MIN(n->seen, (uint64_t)SPIKE_SPAN);
  n->deviation += rate * (fabs(loss - n->mean) * (n->seen > 1) - n->deviation);
  n->mean += rate * (loss - n->mean);
}

void shoal_numbers_judge(shoal_run *r, shoal_score *own, bool of_network)
{
  shoal_session *s = (shoal_session *)r; /* its first member */
  shoal_session_numbers *n = &s->numbers;
  unsigned long long step = (unsigned long long)r->step;
  shoal_session_spoil_loss(s, own);
  double loss = own->loss / (double)SHOAL_MAX(own->samples, 1);
  if (!isfinite(loss))
    note_here(s, SHOAL_FOUND_LOSS, "the training loss is not finite at step %llu", step);
  else if (of_network && is_spike(n, loss))
    note_here(s, SHOAL_FOUND_LOSS, "the training loss is %.4g at step %llu, far above its range of %.4g +- %.4g", loss,
              step, n->mean, n->deviation);
  else if (of_network)
    learn_range(n, loss);
  r->spoil |= n->policy == SHOAL_BAD_SKIP && n->here >= SHOAL_FOUND_LOSS;
}

/* ---- after the update ---- */

static bool all_finite(const shoal_session *s, size_t n, const float *x)
{
  double sum = 0;
  return n == 0 || (s->run.backend->ops->sumsq(s->run.backend, n, x, &sum) == SHOAL_OK && isfinite(sum));
}

static bool finite_form(const shoal_session *s)
{
  const shoal_form *f = s->run.form;
  bool good = all_finite(s, f->params->n, f->params->w) && all_finite(s, f->params->n_stats, f->params->stats);
  for (int i = 0; i < f->optim->slots; i++) good &= all_finite(s, f->optim->n, f->optim->slot[i]);
  return good;
}

static void warn_of_skip(const shoal_session *s)
{
  const shoal_session_numbers *n = &s->numbers;
  bool alike = s->method->trains == SHOAL_TRAINS_ALIKE || s->method->trains == SHOAL_TRAINS_PHASES;
  bool own = n->here > SHOAL_FOUND_UPDATE || !alike; /* else rank 0 says it for all */
  if ((!own && !shoal_session_is_root(s)) || (n->total > WARNINGS && (n->total & (n->total - 1)) != 0)) return;
  shoal_warn("rank %d, %s: this update is left out (numbers.bad: skip), number %llu%s", shoal_world_rank(s->run.world),
             n->here_text, (unsigned long long)n->total,
             n->total < WARNINGS ? "" : "; from here on said at every power of two");
}

/* The optimizer has taken its step back. */
static void leave_out(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  shoal_params *p = s->run.form->params;
  n->left_out = true;
  n->total++;
  n->in_row++;
  if (p->n_stats) memcpy(p->stats, n->stats, p->n_stats * sizeof *p->stats);
  warn_of_skip(s);
  if (!finite_form(s))
    note_for_all(s, SHOAL_FOUND_UPDATE, "%s, and weights or statistics were not finite before it either", n->here_text);
  else if (n->in_row > n->limit)
    note_for_all(s, SHOAL_FOUND_LOSS, "%llu updates in a row were to be left out (numbers.limit), the last one: %s",
                 (unsigned long long)n->in_row, n->here_text);
  n->here = SHOAL_FOUND_NOTHING;
}

/* Other ranks may receive zeros until all know, but no NaN. */
static void withdraw(shoal_session *s)
{
  shoal_form *f = s->run.form;
  memset(f->params->w, 0, f->params->n * sizeof(float));
  memset(f->params->stats, 0, f->params->n_stats * sizeof(float));
  for (int i = 0; i < f->optim->slots; i++) memset(f->optim->slot[i], 0, f->optim->n * sizeof(float));
  f->params->version++;
}

void shoal_numbers_updated(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  shoal_optim *o = s->run.form->optim;
  bool bad = o->bad;
  o->bad = false;
  if (bad)
    note_here(s, SHOAL_FOUND_UPDATE, "the update is not finite at step %llu: a gradient, a weight or optimizer state",
              (unsigned long long)s->run.step);
  if (n->policy == SHOAL_BAD_SKIP) {
    if (bad)
      leave_out(s);
    else
      n->in_row = 0;
  }
  if (n->here == SHOAL_FOUND_NOTHING) return;
  note_for_all(s, n->here, "%s", n->here_text);
  if (bad) withdraw(s);
}

/* ---- the test split ---- */

void shoal_numbers_look_at_test(shoal_session *s, const shoal_batch *b)
{
  char text[256];
  if (b->bad.n == 0 || s->numbers.told_test) return;
  s->numbers.told_test = true;
  name_sample(s, SHOAL_TEST, &b->bad, text, sizeof text);
  shoal_warn("rank %d: %s; such samples of the test split are left out of every evaluation",
             shoal_world_rank(s->run.world), text);
}

/* ---- all together ---- */

shoal_status shoal_numbers_agree(shoal_session *s)
{
  int64_t most = s->numbers.found;
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &most, 1));
  return most > SHOAL_FOUND_NOTHING ? shoal_numbers_act(s) : SHOAL_OK;
}

static const char *cure(shoal_found what)
{
  return what == SHOAL_FOUND_INPUT
             ? "mend the file (`shoal data inspect` counts NaN and infinity), or set numbers.bad to skip"
             : "the last checkpoint is untouched: resume from it with a smaller optim.lr, with "
               "optim.clip, or with numbers.bad";
}

/* The ranks closest to the cause print it; if several have the same text, the lowest one. */
shoal_status shoal_numbers_act(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  char who[32] = "";
  int64_t most = n->found;
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &most, 1));
  bool speaks = n->found == (shoal_found)most;
  int64_t first = speaks ? shoal_world_size(s->run.world) - shoal_world_rank(s->run.world) : 0;
  double speakers = speaks;
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, &speakers, 1));
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &first, 1));
  n->rolls_back = n->policy == SHOAL_BAD_ROLLBACK && n->rollbacks < n->limit;
  if (speakers == 1 || most == SHOAL_FOUND_INPUT)
    snprintf(who, sizeof who, "rank %d, ", shoal_world_rank(s->run.world));
  s->meet.agreed = true;
  if (n->rolls_back) {
    if (shoal_world_size(s->run.world) - first == shoal_world_rank(s->run.world))
      shoal_warn("%s%s: going back to the last checkpoint", who, n->text);
    return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s", n->text));
  }
  shoal_status st = SHOAL_OK;
  if (speaks && n->policy == SHOAL_BAD_ROLLBACK)
    st = SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s%s; the run went back %llu times already (numbers.limit): %s", who, n->text,
                    (unsigned long long)n->rollbacks, cure((shoal_found)most));
  else if (speaks)
    st = SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s%s; %s", who, n->text, cure((shoal_found)most));
  return shoal_group_agree(s->run.control, st);
}

shoal_status shoal_numbers_check_saved(const shoal_session *s)
{
  const char *what = !all_finite(s, s->model.scratch->n, s->model.scratch->w)             ? "weights are"
                     : !all_finite(s, s->model.scratch->n_stats, s->model.scratch->stats) ? "running statistics are"
                     : !finite_form(s) ? "weights, statistics or optimizer state of a rank are"
                                       : NULL;
  SHOAL_CHECK(!what, SHOAL_ERR_NUMERIC, "the %s not finite at step %llu: nothing is saved; %s", what,
              (unsigned long long)s->run.step, cure(SHOAL_FOUND_UPDATE));
  return SHOAL_OK;
}
