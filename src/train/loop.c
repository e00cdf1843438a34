/* The training loop: one step after another, epoch after epoch.
 *
 * Position is counted in samples of the epoch.  The end of an epoch is reached when the loader has no batch left, so a
 * stop before or after the epoch's evaluation resumes into the same sequence of events.
 *
 * Decisions that all ranks must share between two steps (save, evaluate, stop) use the method's meeting policy:
 * meet.h. */
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include <math.h>
#include <string.h>

static shoal_status announce(void *ctx, size_t offset, size_t count, size_t *bad)
{
  shoal_session *s = ctx;
  SHOAL_TRY(shoal_numbers_look(&s->run, s->run.form->model, s->run.form->params->g, offset, count, bad));
  return s->method->announce && !s->faults.left_out ? s->method->announce(&s->run, s->method_state, offset, count)
                                                    : SHOAL_OK;
}

static shoal_status read_loss(shoal_session *s, shoal_plan *plan, shoal_score *score)
{
  SHOAL_TRY(shoal_plan_score(plan, score));
  shoal_numbers_judge(&s->run, score, true);
  return SHOAL_OK;
}

/* Forward and backward over this rank's share; a rank without samples contributes zeros.  *out: the plan that still has the
 * loss; NULL: there is none, or it was read. */
static shoal_status compute(shoal_session *s, const shoal_batch *b, shoal_score *score, shoal_plan **out)
{
  shoal_run *r = &s->run;
  bool at_once = s->numbers.policy == SHOAL_BAD_SKIP;
  *out = NULL;
  if (b->n == 0) return r->backend->ops->fill(r->backend, r->form->params->n, 0, r->form->params->g);
  shoal_plan *plan;
  SHOAL_TRY(shoal_plans_get(r->form->plans, b->n, SHOAL_PLAN_TRAIN, &plan));
  double samples = s->method->samples ? s->method->samples(r, s->method_state, b->total) : (double)b->total;
  shoal_address at = { .seed = r->seed, .step = (uint32_t)r->step, .slot0 = b->slot0 };
  uint64_t t0 = shoal_now_ns();
  const float *x;
  SHOAL_TRY(shoal_batch_input(r, b, &x));
  SHOAL_TRY(shoal_plan_forward(plan, r->form->params, &at, x, b->y, 1.0f / (float)samples, NULL));
  if (at_once) SHOAL_TRY(read_loss(s, plan, score));
  uint64_t t1 = shoal_now_ns();
  shoal_trace_span(r->trace, SHOAL_TRACE_FORWARD, s->record.op.forward, t0, t1);
  SHOAL_TRY(shoal_plan_backward(plan, r->form->params, announce, s));
  shoal_trace_span(r->trace, SHOAL_TRACE_BACKWARD, s->record.op.backward, t1, shoal_now_ns());
  if (!at_once) *out = plan;
  return SHOAL_OK;
}

static double scheduled_rate(const shoal_session *s)
{
  return shoal_lr_at(&s->model.lr, &s->model.plateau,
                     (double)s->clock.epoch + (double)s->clock.position / (double)s->data.epoch_samples);
}

static float learning_rate(shoal_session *s)
{
  double scheduled = scheduled_rate(s);
  s->clock.rate = s->method->rate ? s->method->rate(&s->run, s->method_state, scheduled) : scheduled;
  s->run.rate = s->clock.rate;
  return (float)s->clock.rate * s->faults.lr;
}

static shoal_status update(shoal_session *s)
{
  shoal_run *r = &s->run;
  float lr = learning_rate(s);
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_form_step(r->form, lr));
  shoal_trace_span(r->trace, SHOAL_TRACE_OPTIMIZER, s->record.op.optimizer, t0, shoal_now_ns());
  return SHOAL_OK;
}

void shoal_session_count_bytes(shoal_session *s)
{
  for (int i = 0; i < SHOAL_LINK_COUNT; i++) s->record.claimed[i] += s->run.sent[i];
  shoal_trace_add_formula(s->run.trace, s->run.sent);
  memset(s->run.sent, 0, sizeof s->run.sent);
}

/* The next batch of the epoch, if the loader has it already: on its way while the backend computes this one. */
static shoal_status bring_next(shoal_session *s)
{
  const shoal_batch *b = shoal_loader_peek(s->data.train);
  if (!b || b->n == 0 || s->run.backend->host_memory) return SHOAL_OK;
  return shoal_input_ahead(s->run.input, b->x, (size_t)(b->n * shoal_shape_count(&s->run.model->input)) * sizeof *b->x);
}

static shoal_status learn(shoal_session *s, const shoal_batch *b, shoal_score *score)
{
  shoal_run *r = &s->run;
  if (s->method->step) {
    SHOAL_TRY(s->method->step(r, s->method_state, b, learning_rate(s), score));
    return shoal_numbers_updated(s);
  }
  shoal_plan *unread;
  SHOAL_TRY(compute(s, b, score, &unread));
  SHOAL_TRY(bring_next(s));
  if (s->method->grads_ready && !s->faults.left_out) SHOAL_TRY(s->method->grads_ready(r, s->method_state));
  /* With strided shares a rank out of samples makes no update; otherwise it uses the gradients of the others. */
  if (b->n > 0 || !shoal_session_strided(s)) SHOAL_TRY(update(s));
  if (unread) SHOAL_TRY(read_loss(s, unread, score));
  SHOAL_TRY(shoal_numbers_updated(s));
  return s->method->weights_ready && !s->faults.left_out ? s->method->weights_ready(r, s->method_state) : SHOAL_OK;
}

static shoal_status one_step(shoal_session *s, const shoal_batch *b, shoal_score *score)
{
  shoal_run *r = &s->run;
  r->position = s->clock.position;
  r->shares = NULL;
  SHOAL_TRY(shoal_numbers_begin(s, b));
  SHOAL_TRY(shoal_session_act_faults(s, b));
  SHOAL_TRY(learn(s, b, score));
  if (!s->faults.left_out) shoal_session_count_bytes(s);
  if (!s->numbers.left_out) {
    s->clock.loss_sum += score->loss;
    s->clock.samples += (double)score->samples;
  }
  bool strided = shoal_session_strided(s); /* then positions count slots, equally many on every rank, some empty */
  s->clock.position = SHOAL_MIN(s->clock.position + (strided ? s->data.own_batch : b->total), s->data.epoch_samples);
  s->clock.trained_own += r->reads_none ? 0 : (uint64_t)b->n;
  s->clock.trained += b->total * (strided ? (uint64_t)shoal_world_size(r->world) : 1);
  r->step++;
  return SHOAL_OK;
}

void shoal_session_record_agreement(shoal_session *s, uint32_t op, shoal_group *g, uint64_t number, uint64_t posted_ns,
                                    uint64_t waits_ns)
{
  uint64_t now = shoal_now_ns();
  shoal_trace_exchange x = { .op = op,
                             .group = shoal_group_trace_id(g),
                             .role = SHOAL_TRACE_ROLE_ALL,
                             .link = SHOAL_LINK_CONTROL,
                             .peer = -1,
                             .seq = number };
  shoal_trace_transfer(s->run.trace, SHOAL_TRACE_EXCHANGE, &x, posted_ns, now);
  shoal_trace_transfer(s->run.trace, SHOAL_TRACE_WAIT, &x, waits_ns, now);
}

static shoal_status between_steps(shoal_session *s)
{
  shoal_session_tell_stop(s);
  shoal_session_tell_pause(s);
  SHOAL_TRY(s->meet.way->between(s));
  if (shoal_session_is_root(s)) shoal_folder_progress(&s->world.folder, s->run.step, s->clock.epoch);
  shoal_session_flush_trace(s, false);
  return SHOAL_OK;
}

bool shoal_session_reached_end(const shoal_session *s)
{
  uint64_t steps = s->world.choice.steps;
  return s->best.ends || s->clock.epoch >= (uint64_t)s->run.epochs || (steps && s->run.step >= steps);
}

/* Gets the next batch; *out NULL at the end of the epoch; an empty batch if only other ranks have samples left.  One that
 * cannot be read is a matter of all ranks, which learn of it after the step. */
static shoal_status next_batch(shoal_session *s, shoal_batch *none, const shoal_batch **out)
{
  *out = NULL;
  if (s->clock.position >= s->data.epoch_end) return SHOAL_OK;
  shoal_status st = shoal_loader_next(s->data.train, out);
  if (st != SHOAL_OK) {
    if (shoal_world_size(s->run.world) == 1) return st;
    shoal_numbers_miss_batch(s, st);
    shoal_loader_blank(s->data.train, out);
  }
  *none = (shoal_batch){ .epoch = s->clock.epoch, .position = s->clock.position };
  if (!*out && shoal_session_strided(s)) *out = none;
  return SHOAL_OK;
}

/* Computes the index of the current batch in its epoch.  After a resume with another batch size the first one may not
 * start at a multiple of it. */
static void number_batch(shoal_session *s)
{
  uint64_t b = s->data.global_batch, left = s->data.epoch_end - s->clock.position;
  s->run.batch = (s->clock.position + b - 1) / b;
  s->run.batches = s->run.batch + (left + b - 1) / b;
}

/* Runs batches of one epoch from the current position until the loader is empty (*finished) or the last step is
 * done. */
static shoal_status run_epoch(shoal_session *s, bool *finished)
{
  *finished = false;
  shoal_trace *t = s->run.trace;
  shoal_input_forget(s->run.input);
  SHOAL_TRY(shoal_loader_seek(s->data.train, s->clock.epoch,
                              SHOAL_MIN(s->clock.position, shoal_loader_samples(s->data.train))));
  while (!shoal_session_reached_end(s)) {
    uint64_t t0 = shoal_now_ns();
    shoal_batch none;
    const shoal_batch *b;
    shoal_trace_set_step(t, s->run.step);
    shoal_world_set_step(s->run.world, s->run.step);
    SHOAL_TRY(next_batch(s, &none, &b));
    uint64_t t1 = shoal_now_ns();
    if (!b) {
      *finished = true;
      return SHOAL_OK;
    }
    shoal_trace_span(t, SHOAL_TRACE_INPUT, s->record.op.input, t0, t1);
    shoal_score score = { 0 };
    number_batch(s);
    SHOAL_TRY(one_step(s, b, &score));
    uint64_t t2 = shoal_now_ns();
    shoal_trace_end_step(t, s->record.op.step, t0, t2, s->run.reads_none ? 0 : (uint64_t)b->n);
    shoal_session_keep_pace(s, t2);
    shoal_session_report_live(s, score.samples ? score.loss / (double)score.samples : s->run.shown_loss);
    SHOAL_TRY(between_steps(s));
  }
  *finished = s->clock.position >= s->data.epoch_end; /* the run's last step may be the epoch's last, too */
  return SHOAL_OK;
}

/* Calls the method's finish hook before the run's last evaluation. */
static shoal_status finish(shoal_session *s)
{
  bool changed = false;
  if (s->model.finished || !s->method->finish) return SHOAL_OK;
  s->model.finished = true;
  if (s->run.form->model != s->run.model) { /* ranks' own models, which the method may now merge */
    SHOAL_TRY(shoal_session_score_own(s));
    shoal_session_report_own(s);
  }
  SHOAL_TRY(s->method->finish(&s->run, s->method_state, &changed));
  shoal_session_count_bytes(s);
  if (changed) s->clock.saved_epoch = UINT64_MAX; /* a checkpoint of this step has the old weights */
  return SHOAL_OK;
}

/* Ranks on their own clocks may enter the next epoch alone, so that its end has no row. */
bool shoal_session_owes_row(const shoal_session *s)
{
  bool epoch_row = s->clock.position >= s->data.epoch_end && s->run.meet.kind != SHOAL_MEET_FREELY;
  return shoal_session_due(s->world.choice.eval_every, SHOAL_PER_STEPS, s->run.step) && s->run.step > 0 &&
         s->record.row_step != s->run.step && !epoch_row && !shoal_session_reached_end(s);
}

shoal_status shoal_session_evaluate_and_record(shoal_session *s)
{
  shoal_status st = shoal_session_evaluate(s);
  if (st == SHOAL_STOPPED) return shoal_session_stop(s);
  SHOAL_TRY(st);
  shoal_session_record_metrics(s, false);
  return shoal_session_weigh(s);
}

/* The evaluation that was due where an earlier attempt ended.  Rank 0's steps count, where ranks have their own. */
static shoal_status catch_up(shoal_session *s)
{
  int64_t owed = shoal_session_is_root(s) && shoal_session_owes_row(s);
  SHOAL_TRY(shoal_group_agree_max(s->run.control, "evaluation", &owed));
  return owed ? shoal_session_evaluate_and_record(s) : SHOAL_OK;
}

/* A stop comes back to the end of the epoch. */
static shoal_status evaluate_epoch(shoal_session *s)
{
  shoal_status st = shoal_session_evaluate(s);
  if (st != SHOAL_STOPPED) return st;
  s->clock.epoch--;
  return shoal_session_stop(s);
}

static shoal_status end_epoch_together(shoal_session *s, bool *saved)
{
  double sums[] = { s->clock.loss_sum, s->clock.samples, s->numbers.found };
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, sums, SHOAL_COUNT(sums)));
  shoal_session_record_agreement(s, s->record.op.epoch, s->run.control, s->clock.epoch, t0, t0);
  if (sums[2] > 0) return shoal_numbers_act(s);
  s->record.loss_before = s->record.train_loss;
  s->record.train_loss = sums[0] / sums[1]; /* NAN if no sample counted */
  s->record.rose |= s->record.train_loss > s->record.loss_before;
  s->clock.epoch++;
  if (shoal_session_reached_end(s)) SHOAL_TRY(finish(s));
  shoal_period every = s->world.choice.eval_every;
  int64_t by_steps = shoal_session_is_root(s) && shoal_session_due(every, SHOAL_PER_STEPS, s->run.step) &&
                     s->record.row_step != s->run.step;
  SHOAL_TRY(shoal_group_agree_max(s->run.control, "evaluation", &by_steps));
  bool evaluate =
      by_steps || shoal_session_due(every, SHOAL_PER_EPOCHS, s->clock.epoch) || shoal_session_reached_end(s);
  if (evaluate) SHOAL_TRY(evaluate_epoch(s));
  if (!isnan(s->record.train_loss)) shoal_lr_plateau_feed(&s->model.lr, &s->model.plateau, s->record.train_loss);
  if (s->method->epoch_end) SHOAL_TRY(s->method->epoch_end(&s->run, s->method_state, s->record.train_loss));
  shoal_session_record_metrics(s, true);
  shoal_session_report_epoch(s);
  s->clock.position = 0;
  s->clock.loss_sum = s->clock.samples = 0;
  if (evaluate) SHOAL_TRY(shoal_session_weigh(s));
  *saved = shoal_session_due(s->world.choice.save_every, SHOAL_PER_EPOCHS, s->clock.epoch);
  return *saved ? shoal_session_save_due(s) : SHOAL_OK;
}

static shoal_status end_epoch(shoal_session *s)
{
  bool saved;
  if (s->meet.way->goes_on_alone(s)) {
    s->clock.epoch++;
    s->clock.position = 0; /* loss and samples are carried into the epoch at which all meet */
    return SHOAL_OK;
  }
  SHOAL_TRY(s->meet.way->gather(s));
  SHOAL_TRY(end_epoch_together(s, &saved));
  return s->meet.way->leave(s, saved);
}

/* May take long, and can be stopped: then there is no step to save. */
static shoal_status start_method(shoal_session *s)
{
  if (!s->method->start || shoal_session_reached_end(s)) return SHOAL_OK;
  shoal_status st = shoal_session_agree(s, s->method->start(&s->run, s->method_state));
  if (st == SHOAL_STOPPED)
    shoal_info("asked to stop by a signal: stopped before the first step%s",
               s->clock.saved_any ? "" : "; nothing was saved yet, so the next start begins as this one did");
  return st;
}

shoal_status shoal_session_train(shoal_session *s)
{
  shoal_trace *t = s->run.trace;
  s->record.op = (shoal_session_ops){ .step = shoal_trace_op(t, "step"),
                                      .input = shoal_trace_op(t, "loader"),
                                      .forward = shoal_trace_op(t, "forward"),
                                      .backward = shoal_trace_op(t, "backward"),
                                      .optimizer = shoal_trace_op(t, "optimizer"),
                                      .agreement = shoal_trace_op(t, "agreement"),
                                      .promise = shoal_trace_op(t, "promise"),
                                      .notice = shoal_trace_op(t, "notice"),
                                      .epoch = shoal_trace_op(t, "end of epoch"),
                                      .pretended = shoal_trace_op(t, "pretended compute") };
  shoal_trace_set_batch(t, s->run.reads_none ? 0 : (int)s->data.own_batch);
  s->clock.started_ns = s->clock.saved_ns = s->record.logged_ns = shoal_now_ns();
  if (!s->world.resume_path || s->clock.rate == 0) s->clock.rate = scheduled_rate(s);
  SHOAL_TRY(start_method(s));
  shoal_session_begin(s);
  shoal_session_start_totals(s);
  SHOAL_TRY(catch_up(s));
  while (!shoal_session_reached_end(s)) {
    s->run.epoch = s->clock.epoch;
    bool finished;
    SHOAL_TRY(run_epoch(s, &finished));
    if (finished) SHOAL_TRY(end_epoch(s));
  }
  SHOAL_TRY(s->meet.way->end(s));
  SHOAL_TRY(finish(s));
  bool owes =
      s->clock.position > 0 && s->record.row_step != s->run.step; /* not if only an ended run is started again */
  if (owes) {
    SHOAL_TRY(shoal_session_evaluate_and_record(s));
  } else if (isnan(s->record.test_loss)) {
    shoal_status evaluated = shoal_session_evaluate(s);
    if (evaluated != SHOAL_OK) return evaluated == SHOAL_STOPPED ? shoal_session_stop(s) : evaluated;
  }
  SHOAL_TRY(shoal_session_save_last(s, false));
  shoal_status st = s->world.folder.metrics ? shoal_rows_flush(s->world.folder.metrics) : SHOAL_OK;
  return shoal_group_agree(s->run.control, st);
}
