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
  s->run.look = shoal_numbers_look;
  if (s->world.resume && shoal_ckpt_has(s->world.resume, "train/rollbacks"))
    SHOAL_TRY(shoal_ckpt_get_i64(s->world.resume, "train/rollbacks", &before));
  n->rollbacks = SHOAL_MAX(n->rollbacks, (uint64_t)SHOAL_MAX(before, 0));
  return s->run.backend->ops->alloc(s->run.backend, SHOAL_MEMORY_PINNED, sizeof(double), &n->squares);
}

void shoal_numbers_close(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  shoal_memory *own[] = { &n->stats, &n->squares };
  for (size_t i = 0; s->run.backend && i < SHOAL_COUNT(own); i++) s->run.backend->ops->release(s->run.backend, own[i]);
  free(n->look);
  n->look = NULL;
  n->looks = n->look_room = 0;
}

/* The running range of this rank's loss, and the updates left out in a row. */
enum { JUDGED_SEEN, JUDGED_MEAN, JUDGED_DEVIATION, JUDGED_IN_ROW, JUDGED };

void shoal_numbers_put(const shoal_session *s, shoal_ckpt_writer *w)
{
  const shoal_session_numbers *n = &s->numbers;
  const double judged[JUDGED] = { [JUDGED_SEEN] = (double)n->seen,
                                  [JUDGED_MEAN] = n->mean,
                                  [JUDGED_DEVIATION] = n->deviation,
                                  [JUDGED_IN_ROW] = (double)n->in_row };
  if (n->spike > 0 || n->policy == SHOAL_BAD_SKIP) shoal_ckpt_put_replica(w, "judged", SHOAL_F64, JUDGED, judged);
}

static bool is_count(double x)
{
  return x >= 0 && x <= (double)SHOAL_CKPT_MOST;
}

shoal_status shoal_numbers_get(shoal_session *s, const shoal_ckpt *c)
{
  shoal_session_numbers *n = &s->numbers;
  double judged[JUDGED];
  char name[64];
  snprintf(name, sizeof name, "replica/%d/judged", shoal_world_rank(s->run.world));
  if (!shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, JUDGED, judged));
  SHOAL_CHECK(is_count(judged[JUDGED_SEEN]) && is_count(judged[JUDGED_IN_ROW]) && isfinite(judged[JUDGED_MEAN]) &&
                  isfinite(judged[JUDGED_DEVIATION]) && judged[JUDGED_DEVIATION] >= 0,
              SHOAL_ERR_IO, "%s has counts or a range of losses that no run has: it is damaged or made up", name);
  n->seen = (uint64_t)judged[JUDGED_SEEN];
  n->mean = judged[JUDGED_MEAN];
  n->deviation = judged[JUDGED_DEVIATION];
  n->in_row = (uint64_t)judged[JUDGED_IN_ROW];
  return SHOAL_OK;
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

void shoal_numbers_name_feature(const shoal_shape *sample, size_t at, char *out, size_t cap)
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
  char feature[96], scale[96] = "", what[32] = "not finite";
  uint64_t id = bad->id;
  const shoal_dataset *file = shoal_dataset_file_of(s->data.set, split, &id);
  shoal_numbers_name_feature(&shoal_dataset_info(s->data.set)->sample, bad->feature, feature, sizeof feature);
  if (isfinite(bad->value)) name_scale(s, bad->feature, scale, sizeof scale);
  if (bad->far > 0) snprintf(what, sizeof what, "beyond 1e%.0f", log10((double)bad->far));
  snprintf(out, cap, "sample %llu of /%s%s%s is %s%s: %s is %g%s", (unsigned long long)id,
           shoal_dataset_array(file, split), file == s->data.set ? "" : " in ",
           file == s->data.set ? "" : shoal_path_base(shoal_dataset_path(file)), what,
           isfinite(bad->value) ? " once normalised" : "", feature, isnan(bad->value) ? NAN : (double)bad->value,
           scale); /* not "-nan" */
}

void shoal_numbers_miss_batch(shoal_session *s, shoal_status st)
{
  shoal_error_keep(&s->numbers.unreadable, st);
  s->numbers.found = SHOAL_FOUND_UNREADABLE;
}

/* Kept for a step that is left out; allocated in the first one. */
static shoal_status keep_statistics(shoal_session *s)
{
  const shoal_backend_ops *ops = s->run.backend->ops;
  const shoal_params *p = s->run.form->params;
  shoal_memory *kept = &s->numbers.stats;
  size_t bytes = p->n_stats * sizeof *p->stats;
  if (kept->bytes < bytes) {
    ops->release(s->run.backend, kept);
    if (ops->alloc(s->run.backend, SHOAL_MEMORY_DEVICE, bytes, kept) != SHOAL_OK) {
      note_for_all(s, SHOAL_FOUND_UPDATE, "step %llu: no memory for a copy of the running statistics",
                   (unsigned long long)s->run.step);
      return SHOAL_OK;
    }
  }
  return ops->copy(s->run.backend, bytes, p->stats, kept->at);
}

shoal_status shoal_numbers_begin(shoal_session *s, const shoal_batch *b)
{
  shoal_session_numbers *n = &s->numbers;
  char text[256];
  n->here = SHOAL_FOUND_NOTHING;
  n->left_out = n->spoils = false;
  if (b->bad.n > 0) {
    name_sample(s, SHOAL_TRAIN, &b->bad, text, sizeof text);
    note_here(s, SHOAL_FOUND_INPUT, "step %llu: %s", (unsigned long long)s->run.step, text);
  }
  return n->policy == SHOAL_BAD_SKIP && s->run.form->params->n_stats > 0 ? keep_statistics(s) : SHOAL_OK;
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
  n->spoils |= n->policy == SHOAL_BAD_SKIP && n->here >= SHOAL_FOUND_LOSS;
}

static const char *parameter_at(const shoal_model *m, size_t offset)
{
  int i = 0;
  while (i + 1 < m->params && offset >= m->param[i].offset + m->param[i].count) i++;
  return m->param[i].name;
}

/* What was found in the gradients of this step. */
static shoal_status heed_looks(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  SHOAL_TRY(s->run.backend->ops->settle(s->run.backend));
  for (size_t i = 0; i < n->looks; i++) {
    const shoal_looked *l = &n->look[i];
    if (*l->bad < l->at.count)
      note_here(s, SHOAL_FOUND_GRADIENT, "the gradient of %s is not finite at step %llu",
                parameter_at(l->model, l->at.offset + *l->bad), (unsigned long long)s->run.step);
  }
  n->looks = 0;
  return SHOAL_OK;
}

/* In the first step. */
static shoal_status more_looks(shoal_session_numbers *n)
{
  size_t room = n->look_room ? 2 * n->look_room : 32;
  shoal_looked *grown = realloc(n->look, room * sizeof *grown);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "list of %zu ranges of gradients", room);
  n->look = grown;
  n->look_room = room;
  return SHOAL_OK;
}

/* The plan has looked at the range's end.  The whole gradient is tested after the sum, in the optimizer's pass; this says only
 * whose it was. */
shoal_status shoal_numbers_look(shoal_run *r, const shoal_model *m, float *g, size_t offset, size_t count, size_t *bad)
{
  shoal_session *s = (shoal_session *)r;
  const shoal_backend_ops *ops = r->backend->ops;
  shoal_session_numbers *n = &s->numbers;
  const shoal_range at = shoal_plan_looked_at(offset, count);
  if (n->spoils) {
    SHOAL_TRY(ops->fill(r->backend, 1, NAN, g + offset + count - 1));
    SHOAL_TRY(ops->find_bad(r->backend, at.count, g + at.offset, bad));
  }
  if (n->looks == n->look_room) SHOAL_TRY(more_looks(n));
  n->look[n->looks++] = (shoal_looked){ m, at, bad };
  return SHOAL_OK;
}

/* ---- after the update ---- */

static bool all_finite(const shoal_session *s, size_t n, const float *x)
{
  const shoal_backend_ops *ops = s->run.backend->ops;
  double *sum = s->numbers.squares.at;
  *sum = 0;
  return n == 0 || (ops->sumsq(s->run.backend, n, x, sum) == SHOAL_OK && ops->settle(s->run.backend) == SHOAL_OK &&
                    isfinite(*sum));
}

static bool finite_form(const shoal_session *s)
{
  const shoal_form *f = s->run.form;
  bool good = all_finite(s, f->params->n, f->params->w) && all_finite(s, f->params->n_stats, f->params->stats);
  for (int i = 0; i < f->optim->slots; i++) good &= all_finite(s, f->optim->n, f->optim->slot[i]);
  return good;
}

/* The ranks of a group that are closest to the cause of what was found. */
typedef struct {
  shoal_found most;
  int first;   /* the lowest of them, in the world */
  bool others; /* there are more of them */
  bool all;    /* they are the whole group, of more than one */
} culprits;

/* Collective over `g`; NULL: this rank alone. */
static shoal_status find_culprits(const shoal_session *s, shoal_group *g, shoal_found found, culprits *out)
{
  int rank = shoal_world_rank(s->run.world);
  int64_t most = found, least = -(int64_t)found, first = -rank, last = rank;
  if (g) {
    SHOAL_TRY(shoal_group_agree_max(g, "who found it", &most));
    SHOAL_TRY(shoal_group_agree_max(g, "who found it", &least));
    if (found != (shoal_found)most) first = last = INT64_MIN;
    SHOAL_TRY(shoal_group_agree_max(g, "who found it", &first));
    SHOAL_TRY(shoal_group_agree_max(g, "who found it", &last));
  }
  *out = (culprits){ .most = (shoal_found)most, .first = (int)-first, .others = last > -first };
  out->all = out->others && -least == most;
  return SHOAL_OK;
}

/* "rank 2, ", "rank 2 and others, "; nothing if no rank is to blame more than another. */
static const char *name_culprits(const culprits *c, char out[48])
{
  snprintf(out, 48, "rank %d%s, ", c->first, c->others ? " and others" : "");
  if (c->all) *out = 0;
  return out;
}

/* One rank tells it for all that share the update. */
static shoal_status warn_of_skip(const shoal_session *s)
{
  const shoal_session_numbers *n = &s->numbers;
  culprits c;
  char who[48];
  SHOAL_TRY(find_culprits(s, s->run.shares, n->here, &c));
  bool quiet = n->total > WARNINGS && (n->total & (n->total - 1)) != 0;
  if (quiet || c.first != shoal_world_rank(s->run.world)) return SHOAL_OK;
  shoal_warn("%s%s: this update is left out (numbers.bad: skip), number %llu%s", name_culprits(&c, who), n->here_text,
             (unsigned long long)n->total, n->total < WARNINGS ? "" : "; from here on said at every power of two");
  return SHOAL_OK;
}

/* The optimizer has taken its step back. */
static shoal_status leave_out(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  shoal_params *p = s->run.form->params;
  n->left_out = true;
  n->total++;
  n->in_row++;
  if (n->stats.at)
    SHOAL_TRY(s->run.backend->ops->copy(s->run.backend, p->n_stats * sizeof *p->stats, n->stats.at, p->stats));
  SHOAL_TRY(warn_of_skip(s));
  if (!finite_form(s))
    note_for_all(s, SHOAL_FOUND_UPDATE, "%s, and weights or statistics were not finite before it either", n->here_text);
  else if (n->in_row > n->limit)
    note_for_all(s, SHOAL_FOUND_LOSS, "%llu updates in a row were to be left out (numbers.limit), the last one: %s",
                 (unsigned long long)n->in_row, n->here_text);
  n->here = SHOAL_FOUND_NOTHING;
  return SHOAL_OK;
}

/* Other ranks may receive zeros until all know, but no NaN. */
static shoal_status withdraw(shoal_session *s)
{
  shoal_backend *b = s->run.backend;
  shoal_form *f = s->run.form;
  SHOAL_TRY(b->ops->fill(b, f->params->n, 0, f->params->w));
  SHOAL_TRY(b->ops->fill(b, f->params->n_stats, 0, f->params->stats));
  for (int i = 0; i < f->optim->slots; i++) SHOAL_TRY(b->ops->fill(b, f->optim->n, 0, f->optim->slot[i]));
  f->params->version++;
  return SHOAL_OK;
}

shoal_status shoal_numbers_updated(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  bool bad;
  SHOAL_TRY(shoal_optim_outcome(s->run.form->optim, &bad));
  SHOAL_TRY(heed_looks(s));
  if (bad)
    note_here(s, SHOAL_FOUND_UPDATE, "the update is not finite at step %llu: a gradient, a weight or optimizer state",
              (unsigned long long)s->run.step);
  if (n->policy == SHOAL_BAD_SKIP) {
    if (bad)
      SHOAL_TRY(leave_out(s));
    else
      n->in_row = 0;
  }
  if (n->here == SHOAL_FOUND_NOTHING) return SHOAL_OK;
  note_for_all(s, n->here, "%s", n->here_text);
  return bad ? withdraw(s) : SHOAL_OK;
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

void shoal_numbers_look_at_outputs(shoal_session *s, const shoal_batch *b, int64_t row)
{
  if (s->numbers.told_outputs) return;
  s->numbers.told_outputs = true;
  uint64_t id = b->ids[row];
  const shoal_dataset *file = shoal_dataset_file_of(s->data.set, SHOAL_TEST, &id);
  shoal_warn(
      "rank %d: the model's outputs for sample %llu of /%s%s%s are not finite at step %llu; test samples are left out "
      "of loss and accuracy where that is so",
      shoal_world_rank(s->run.world), (unsigned long long)id, shoal_dataset_array(file, SHOAL_TEST),
      file == s->data.set ? "" : " in ", file == s->data.set ? "" : shoal_path_base(shoal_dataset_path(file)),
      (unsigned long long)s->run.step);
}

/* ---- all together ---- */

shoal_status shoal_numbers_agree(shoal_session *s)
{
  int64_t most = s->numbers.found;
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &most, 1));
  return most > SHOAL_FOUND_NOTHING ? shoal_numbers_act(s) : SHOAL_OK;
}

typedef char advice[512];

/* What makes updates smaller. */
static void add_rate(const shoal_session *s, char *out, size_t cap)
{
  const shoal_config *c = s->world.config;
  const double share = shoal_session_decay(s);
  if (share >= 1)
    snprintf(out, cap, "a smaller optim.weight_decay (times optim.lr it is %.4g, and has to be below 1)", share);
  else
    snprintf(out, cap, "a smaller optim.lr%s",
             shoal_config_float(c, "optim.clip") > 0 ? " or optim.clip" : ", or with optim.clip (off now; 1, say)");
}

static const char *cure(const shoal_session *s, shoal_found what, advice out)
{
  static const char *const other[] = { ", or with numbers.bad set to skip or rollback", "", "" }; /* by policy */
  char rate[128];
  add_rate(s, rate, sizeof rate);
  if (what == SHOAL_FOUND_INPUT)
    return "mend the file (`shoal data inspect` counts NaN and infinity), or set numbers.bad to skip";
  if (s->clock.saved_any)
    snprintf(
        out, sizeof(advice),
        "the checkpoint of step %llu is untouched: resume from it with %s%s; if that fails, too, its weights are too "
        "large already: begin anew with it, under another run.name",
        (unsigned long long)s->clock.saved_step, rate, other[s->numbers.policy]);
  else
    snprintf(out, sizeof(advice), "this run has saved nothing yet: start it again with %s%s", rate,
             other[s->numbers.policy]);
  return out;
}

/* The ranks closest to the cause print it; if several have the same text, the lowest one. */
shoal_status shoal_numbers_act(shoal_session *s)
{
  shoal_session_numbers *n = &s->numbers;
  culprits c;
  advice text;
  char who[48];
  int rank = shoal_world_rank(s->run.world);
  SHOAL_TRY(shoal_session_finish_save(s)); /* what it saves was finite: the last good state */
  SHOAL_TRY(find_culprits(s, s->run.control, n->found, &c));
  bool speaks = n->found == c.most;
  if (c.most == SHOAL_FOUND_UNREADABLE)
    return shoal_session_agree_on_reading(s, speaks ? shoal_error_put(&n->unreadable) : SHOAL_OK);
  n->rolls_back = n->policy == SHOAL_BAD_ROLLBACK && n->rollbacks < n->limit;
  name_culprits(c.most == SHOAL_FOUND_INPUT ? &(culprits){ .first = rank } : &c, who); /* each its own sample */
  s->meet.agreed = true;
  if (n->rolls_back) {
    if (c.first == rank && speaks)
      shoal_warn("%s%s: going back to %s", who, n->text,
                 s->clock.saved_any ? "the last checkpoint" : "the start, for nothing was saved yet");
    return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s", n->text));
  }
  shoal_status st = SHOAL_OK;
  if (speaks && n->policy == SHOAL_BAD_ROLLBACK)
    st = SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s%s; the run went back %llu times already (numbers.limit): %s", who, n->text,
                    (unsigned long long)n->rollbacks, cure(s, n->found, text));
  else if (speaks)
    st = SHOAL_FAIL(SHOAL_ERR_NUMERIC, "%s%s; %s", who, n->text, cure(s, n->found, text));
  return shoal_group_agree(s->run.control, st);
}

shoal_status shoal_numbers_check_saved(shoal_session *s)
{
  const shoal_params *whole = s->model.scratch;
  unsigned long long step = (unsigned long long)s->run.step;
  if (!finite_form(s))
    note_for_all(s, SHOAL_FOUND_GRADIENT, "weights, running statistics or optimizer state are not finite at step %llu",
                 step);
  else if ((!shoal_session_saves_sum(s) && !all_finite(s, whole->n, whole->w)) ||
           !all_finite(s, whole->n_stats, whole->stats))
    note_for_all(s, SHOAL_FOUND_UPDATE, "the assembled model is not finite at step %llu", step);
  return shoal_numbers_agree(s);
}
