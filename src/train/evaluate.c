/* Evaluation: assembles the model in scratch; every rank scores its share of the test split; the scores are summed.
 * The training state is not changed.
 *
 * If every rank trains its own model, each also scores its own on the same share, and the distance to the assembled
 * model is measured.  If the model is a mean that no rank trains, or eval.batch_norm says so, its batch-norm statistics
 * are recomputed from the first training batches of epoch 0 on every rank, always the same ones.  Where the run ends,
 * running statistics that have not settled are told: scores of the same training samples by them and by each batch. */
#include "base/activity.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pause.h"
#include "base/str.h"
#include "method/common/average.h"
#include "train/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

/* Adds the moments of one batch.  A forward pass in training leaves (1 - m) old + m batch behind, so with old = 0 the
 * batch's own statistics are those divided by m.  The variance is the unbiased one there; squared means and variances
 * of batches add up to the variance of all samples together only if each is the biased one. */
static void add_batch_stats(const shoal_model *m, uint64_t samples, const shoal_host_float *stats,
                            shoal_host_float *own, double *sum)
{
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    if (n->stats < 0) continue;
    int64_t channels = n->out.dim[0];
    double values = (double)samples * (double)(shoal_shape_count(&n->out) / channels); /* of one channel */
    const shoal_host_float *mean = stats + n->stats, *var = mean + channels;
    shoal_host_float *own_mean = own + n->stats, *own_var = own_mean + channels;
    for (int64_t k = 0; k < channels; k++) {
      own_mean[k] = mean[k] / n->momentum;
      own_var[k] = (float)((double)var[k] / n->momentum * ((values - 1) / values));
    }
  }
  shoal_moments_add(m, own, sum);
}

/* Of *n batches; those with samples that are not finite are passed over, and *n is less where too few are left. */
static shoal_status measure_batches(shoal_session *s, shoal_host_float *own, double *sum, uint64_t *n)
{
  shoal_params *p = s->model.scratch;
  shoal_window w;
  SHOAL_TRY(shoal_loader_seek(s->data.sample, 0, 0));
  for (uint64_t i = 0; i < *n;) {
    const shoal_batch *b;
    shoal_plan *plan;
    shoal_address at = { .seed = s->run.seed };
    shoal_score ignored = { 0 };
    const float *x;
    SHOAL_TRY(shoal_session_may_go_on(s));
    SHOAL_TRY(shoal_loader_next(s->data.sample, &b));
    SHOAL_CHECK(b || i > 0, SHOAL_ERR_NUMERIC, "no batch of rank %d is finite: statistics cannot be measured",
                shoal_world_rank(s->run.world));
    if (!b) {
      *n = i;
      break;
    }
    if (b->bad.n > 0) continue;
    SHOAL_TRY(s->run.backend->ops->fill(s->run.backend, p->n_stats, 0, p->stats));
    SHOAL_TRY(shoal_plans_get(s->model.plans, b->n, SHOAL_PLAN_MEASURE, &plan));
    SHOAL_TRY(shoal_batch_input(&s->run, b, &x));
    SHOAL_TRY(shoal_plan_forward(plan, p, &at, x, b->y, 0, &ignored));
    SHOAL_TRY(shoal_window_open(s->run.backend, SHOAL_WINDOW_READ, p->n_stats, p->stats, &w));
    add_batch_stats(s->run.model, (uint64_t)b->n, w.at, own, sum);
    shoal_window_drop(&w);
    i++;
  }
  return SHOAL_OK;
}

/* Full batches only, equally many on every rank, so that all have the same weight. */
static uint64_t sample_batches(const shoal_session *s)
{
  uint64_t n =
      shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN] / (uint64_t)shoal_world_size(s->run.world) / s->data.own_batch;
  return SHOAL_MIN(SHOAL_MAX(n, 1), s->world.choice.eval_statistics);
}

static shoal_status measure_stats(shoal_session *s)
{
  uint64_t n = sample_batches(s);
  double *sum = NULL;
  shoal_host_float *own = NULL;
  float *stats = s->model.scratch->stats;
  shoal_window w;
  shoal_status st = SHOAL_ALLOC(s->run.model->stats, &sum);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(s->run.model->stats, &own);
  if (st == SHOAL_OK) st = shoal_session_agree_on_reading(s, measure_batches(s, own, sum, &n));
  if (st == SHOAL_OK) st = shoal_window_open(s->run.backend, SHOAL_WINDOW_BOTH, s->run.model->stats, stats, &w);
  if (st == SHOAL_OK) {
    shoal_moments_mean(s->run.model, sum, (double)n, w.at);
    st = shoal_window_close(s->run.backend, &w);
  }
  if (st == SHOAL_OK) st = shoal_mean_stats(s->run.backend, s->run.control, s->run.model, stats, stats);
  free(own);
  free(sum);
  return st;
}

/* Of the whole model, alone: the statistics of a method that assembles nothing by itself are its own on one rank. */
static bool measures(const shoal_session *s)
{
  if (s->run.model->stats == 0) return false;
  return s->world.choice.eval_measured || (s->method->measures_stats && shoal_world_size(s->run.world) > 1);
}

shoal_status shoal_session_assemble(shoal_session *s)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_group_agree(r->control, shoal_session_make_whole(s)));
  s->model.scratch->version++;
  if (s->method->assemble) {
    SHOAL_TRY(s->method->assemble(r, s->method_state, s->model.scratch->w, s->model.scratch->stats));
    return measures(s) ? measure_stats(s) : SHOAL_OK;
  }
  SHOAL_TRY(
      r->backend->ops->copy(r->backend, r->form->params->n * sizeof(float), r->form->params->w, s->model.scratch->w));
  if (measures(s)) return measure_stats(s);
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, s->model.scratch->stats);
}

bool shoal_session_saves_sum(const shoal_session *s)
{
  return s->method->sum && !measures(s);
}

shoal_status shoal_session_assemble_to_save(shoal_session *s)
{
  shoal_run *r = &s->run;
  if (!shoal_session_saves_sum(s)) return shoal_session_assemble(s);
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, s->model.scratch->stats);
}

/* ---- scores ---- */

/* Errors of targets, summed over this rank's share; its outputs are brought to memory that the host may touch. */
typedef struct {
  shoal_fit *of; /* [targets] */
  shoal_memory outputs;
} fit;

static shoal_status open_fit(const shoal_session *s, fit *f)
{
  const size_t n = (size_t)shoal_dataset_info(s->data.set)->targets;
  SHOAL_TRY(SHOAL_ALLOC(n, &f->of));
  return s->run.backend->ops->alloc(s->run.backend, SHOAL_MEMORY_PINNED,
                                    (size_t)shoal_loader_max_batch(s->data.test) * n * sizeof(float), &f->outputs);
}

static void close_fit(const shoal_session *s, fit *f)
{
  s->run.backend->ops->release(s->run.backend, &f->outputs);
  free(f->of);
}

static shoal_status add_to_fit(const shoal_session *s, shoal_plan *plan, const shoal_batch *b, fit *f)
{
  const size_t n = (size_t)shoal_dataset_info(s->data.set)->targets;
  const shoal_host_float *y = f->outputs.at;
  SHOAL_TRY(shoal_plan_output(plan, s->run.model->nodes - 1, f->outputs.at));
  SHOAL_TRY(s->run.backend->ops->settle(s->run.backend));
  for (size_t i = 0; i < (size_t)b->n; i++) (void)shoal_fit_add(f->of, n, y + i * n, b->t + i * n);
  return SHOAL_OK;
}

/* Over all ranks. */
static shoal_status sum_fit(shoal_session *s, const fit *f)
{
  const shoal_data_targets *t = shoal_dataset_targets(s->data.set);
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, &f->of->n, t->n * sizeof *f->of / sizeof(double)));
  s->record.fit = shoal_fit_mean_score(f->of, t->n, t->std);
  return SHOAL_OK;
}

/* @param f  NULL: not wanted */
static shoal_status score_share(shoal_session *s, shoal_plans *plans, const shoal_params *params, fit *f,
                                shoal_score *score)
{
  SHOAL_TRY(shoal_loader_seek(s->data.test, 0, 0));
  for (;;) {
    const shoal_batch *b;
    SHOAL_TRY(shoal_session_may_go_on(s));
    SHOAL_TRY(shoal_loader_next(s->data.test, &b));
    if (!b) return SHOAL_OK;
    if (b->n == 0) continue;
    shoal_session_delay_evaluation(s);
    shoal_numbers_look_at_test(s, b);
    shoal_plan *plan;
    SHOAL_TRY(shoal_plans_get(plans, b->n, s->run.eval_mode, &plan));
    shoal_address at = { .seed = s->run.seed };
    const float *x;
    score->left_out = 0;
    SHOAL_TRY(shoal_batch_input(&s->run, b, &x));
    SHOAL_TRY(shoal_plan_forward(plan, params, &at, x, b->y, 0, score));
    if (f && f->of) SHOAL_TRY(add_to_fit(s, plan, b, f));
    if (score->left_out) shoal_numbers_look_at_outputs(s, b, score->first_left_out / shoal_model_rows(s->run.model));
    SHOAL_TRY(shoal_world_progress(s->run.world));
  }
}

/* Scores each rank's own model, in the form in which it is trained. */
shoal_status shoal_session_score_own(shoal_session *s)
{
  shoal_score score = { 0 };
  if (!s->record.own.score || !s->data.test) return SHOAL_OK;
  SHOAL_TRY(shoal_session_agree_on_reading(s, score_share(s, s->run.form->plans, s->run.form->params, NULL, &score)));
  const double sum = shoal_session_has_targets(s) ? score.loss : (double)score.correct;
  double own = score.samples ? sum / (double)score.samples : NAN;
  return shoal_group_allgather(s->run.control, &own, sizeof own, s->record.own.score);
}

/* The method's extra columns, measured over the same share. */
static shoal_status observe_share(shoal_session *s, double *values)
{
  SHOAL_TRY(shoal_loader_seek(s->data.test, 0, 0));
  for (;;) {
    const shoal_batch *b;
    SHOAL_TRY(shoal_session_may_go_on(s));
    SHOAL_TRY(shoal_loader_next(s->data.test, &b));
    if (!b) return SHOAL_OK;
    if (b->n > 0) SHOAL_TRY(s->method->observe(&s->run, s->method_state, b, values));
    SHOAL_TRY(shoal_world_progress(s->run.world));
  }
}

static shoal_status score_columns(shoal_session *s)
{
  if (s->run.n_columns == 0) return SHOAL_OK;
  memset(s->record.column_value, 0, s->run.n_columns * sizeof *s->record.column_value);
  SHOAL_TRY(shoal_session_agree_on_reading(s, observe_share(s, s->record.column_value)));
  return s->method->observe(&s->run, s->method_state, NULL, s->record.column_value);
}

/* Only for ranks that train the whole model; parts of another form are not compared. */
static shoal_status measure_consensus(shoal_session *s)
{
  const shoal_params *own = s->run.form->params;
  double square = 0;
  s->record.own.consensus = NAN;
  if (!s->record.own.score || s->method->trains == SHOAL_TRAINS_PHASES) return SHOAL_OK;
  SHOAL_TRY(s->run.backend->ops->distance2(s->run.backend, own->n, own->w, s->model.scratch->w, &square));
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, &square, 1));
  s->record.own.consensus = square;
  return SHOAL_OK;
}

/* ---- running statistics that lag ---- */

/* Scores the batches by which statistics are measured.  In mode MEASURE the running statistics in scratch are lost. */
static shoal_status score_sample(shoal_session *s, shoal_plan_mode mode, shoal_score *score)
{
  SHOAL_TRY(shoal_loader_seek(s->data.sample, 0, 0));
  for (uint64_t i = 0; i < sample_batches(s); i++) {
    const shoal_batch *b;
    shoal_plan *plan;
    shoal_address at = { .seed = s->run.seed };
    const float *x;
    SHOAL_TRY(shoal_session_may_go_on(s));
    SHOAL_TRY(shoal_loader_next(s->data.sample, &b));
    if (!b) return SHOAL_OK;
    if (b->bad.n > 0) continue;
    SHOAL_TRY(shoal_plans_get(s->model.plans, b->n, mode, &plan));
    SHOAL_TRY(shoal_batch_input(&s->run, b, &x));
    SHOAL_TRY(shoal_plan_forward(plan, s->model.scratch, &at, x, b->y, 0, score));
  }
  return SHOAL_OK;
}

/* Running statistics that lag behind the weights, as after few steps with a high rate, spoil a network that has learnt.  Looked at
 * only where the run ends and the test loss is far above the training loss.  Collective; scratch loses its statistics. */
static shoal_status look_at_statistics(shoal_session *s)
{
  enum { LAGS = 2 };
  const double lost = 0.1;
  char word[SHOAL_WORD];
  shoal_score running = { 0 }, own = { 0 };
  if (s->run.model->stats == 0 || measures(s) || s->run.eval_mode != SHOAL_PLAN_EVAL) return SHOAL_OK;
  if (s->run.meet.kind == SHOAL_MEET_FREELY || !shoal_session_reached_end(s)) return SHOAL_OK;
  if (!(s->record.test_loss > LAGS * s->record.train_loss)) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_open_sample(s)));
  SHOAL_TRY(shoal_session_agree_on_reading(s, score_sample(s, SHOAL_PLAN_EVAL, &running)));
  SHOAL_TRY(shoal_session_agree_on_reading(s, score_sample(s, SHOAL_PLAN_MEASURE, &own)));
  double sums[] = { running.loss, (double)running.correct, own.loss, (double)own.correct, (double)own.samples };
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, sums, SHOAL_COUNT(sums)));
  if (shoal_session_is_root(s) && sums[0] > LAGS * sums[2] && sums[3] - sums[1] > lost * sums[4])
    shoal_warn(
        "batch norm's running statistics have not settled: with them %.3g %% of %.0f training samples are right, "
        "with those of each batch %.3g %%; give eval.batch_norm: measured, more epochs or a lower optim.lr; for this "
        "run's network the same command with --set eval.batch_norm=measured --set run.name=NEW --resume "
        "%s/ckpt/step-%09llu.h5%s",
        100 * sums[1] / sums[4], sums[4], 100 * sums[3] / sums[4], shoal_shell_word(s->world.folder.dir, word),
        (unsigned long long)s->run.step,
        shoal_config_given(s->world.config, "model.weights") ? " --set model.weights=" : "");
  return SHOAL_OK;
}

/* Of the assembled model, over all ranks. */
static shoal_status score_model(shoal_session *s)
{
  const bool targets = shoal_session_has_targets(s);
  shoal_score score = { 0 };
  fit f = { 0 };
  shoal_status st = targets ? open_fit(s, &f) : SHOAL_OK;
  if (st == SHOAL_OK) st = score_share(s, s->model.plans, s->model.scratch, &f, &score);
  st = shoal_session_agree_on_reading(s, st);
  double sums[] = { score.loss, (double)score.correct, (double)score.samples };
  if (st == SHOAL_OK) st = shoal_group_sum_f64(s->run.control, sums, SHOAL_COUNT(sums));
  if (st == SHOAL_OK && targets) st = sum_fit(s, &f);
  close_fit(s, &f);
  s->record.test_loss = sums[0] / sums[2];
  s->record.test_acc = targets ? NAN : sums[1] / sums[2];
  return st;
}

static shoal_status evaluate(shoal_session *s)
{
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_session_assemble(s));
  SHOAL_TRY(score_model(s));
  SHOAL_TRY(shoal_session_score_own(s));
  SHOAL_TRY(measure_consensus(s));
  SHOAL_TRY(score_columns(s));
  s->record.test_step = s->run.step;
  SHOAL_TRY(look_at_statistics(s));
  uint64_t t1 = shoal_now_ns();
  s->record.evaluations++;
  s->record.evaluations_s += (double)(t1 - t0 - shoal_paused_ns(t0, t1)) * 1e-9;
  shoal_trace_span(s->run.trace, SHOAL_TRACE_EVALUATION, shoal_trace_op(s->run.trace, "evaluation"), t0, t1);
  return SHOAL_OK;
}

/* A signal ends it after a batch; what was measured so far is dropped, and measured again after the resume. */
shoal_status shoal_session_evaluate(shoal_session *s)
{
  if (!s->data.test) return SHOAL_OK;
  SHOAL_TRY(shoal_numbers_agree(s));
  s->ears.drops = true;
  shoal_activity_begin(true, "evaluating on %s after step %llu", shoal_dataset_path(s->data.set),
                       (unsigned long long)s->run.step);
  shoal_status st = evaluate(s);
  shoal_activity_end();
  s->ears.drops = false;
  shoal_session_drop_whole(s);
  if (st == SHOAL_STOPPED)
    shoal_info("asked to stop by a signal: the evaluation after step %llu is done again after the resume",
               (unsigned long long)s->run.step);
  return st;
}
