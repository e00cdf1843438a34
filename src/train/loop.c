/* The training loop: one step after another, and at its end the two questions all ranks must answer alike:
 * is it time to save, and has anybody asked to stop?
 *
 *   step s:    batch, forward, backward, exchange, optimizer
 *              result of the vote posted at the end of step s-1   →  save or stop here, on all ranks
 *              post the vote of step s
 *
 * The vote travels while the next step computes, so asking costs nothing; a stop takes effect one step later.  Position
 * is counted in samples of the epoch.  The end of an epoch is reached when the loader has no batch left, so a stop
 * before or behind the epoch's evaluation resumes into the same sequence of events.
 *
 * Methods whose ranks run on their own clocks do without the vote; they meet (meet.c). */
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "train/session.h"
#include "train/stop.h"
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct { /* numbers of the trace's string table, asked for once */
  uint32_t step, input, forward, backward, optimizer, agreement, pretended;
} ops;

static shoal_status announce(void *ctx, size_t offset, size_t count)
{
  shoal_session *s = ctx;
  if ((int64_t)s->run.step == s->faults.nan_step) s->run.form->params->g[offset] = NAN;
  return s->method->announce && !s->left_out ? s->method->announce(&s->run, s->method_state, offset, count) : SHOAL_OK;
}

/* Compute that takes time and no core.  It looks after exchanges as often as real compute does, and counts as such. */
static shoal_status pretend_compute(shoal_session *s, const ops *op, double seconds)
{
  const uint64_t poll_us = 1000, t0 = shoal_now_ns(), end = t0 + (uint64_t)(seconds * 1e9);
  for (uint64_t now = t0; now < end; now = shoal_now_ns()) {
    usleep((useconds_t)SHOAL_MIN((end - now) / 1000 + 1, poll_us));
    SHOAL_TRY(shoal_world_progress(s->run.world));
  }
  shoal_trace_span(s->run.trace, SHOAL_TRACE_FORWARD, op->pretended, t0, shoal_now_ns());
  return SHOAL_OK;
}

/* Another time on every rank and in every step, though the same in every run. */
static double jitter(const shoal_session *s)
{
  shoal_rng_block r = shoal_rng(s->run.seed, SHOAL_RNG_TEST, s->run.step, (uint32_t)shoal_world_rank(s->run.world));
  return s->faults.jitter_s * shoal_rng_unit(r.v[0]);
}

static shoal_status act_faults(shoal_session *s, const ops *op)
{
  s->left_out = s->faults.no_exchange && (s->run.step + 1) % s->faults.no_exchange == 0;
  if ((int64_t)s->run.step == s->faults.stop_step) raise(SIGUSR1);
  if ((int64_t)s->run.step == s->faults.kill_step) raise(SIGKILL);
  if ((int64_t)s->run.step == s->faults.exit_step) _exit(0);
  double seconds = s->faults.compute_s + (s->faults.jitter_s > 0 ? jitter(s) : 0);
  return seconds > 0 ? pretend_compute(s, op, seconds) : SHOAL_OK;
}

/* Forward and backward over this rank's share; a rank without samples contributes zeros. */
static shoal_status compute(shoal_session *s, const ops *op, const shoal_batch *b, shoal_score *score)
{
  shoal_run *r = &s->run;
  if (b->n == 0) {
    memset(r->form->params->g, 0, r->form->params->n * sizeof(float));
    return SHOAL_OK;
  }
  shoal_plan *plan;
  SHOAL_TRY(shoal_plans_get(r->form->plans, b->n, SHOAL_PLAN_TRAIN, &plan));
  double samples = s->method->samples ? s->method->samples(r, s->method_state, b->total) : (double)b->total;
  shoal_address at = { .seed = r->seed, .step = (uint32_t)r->step, .slot0 = b->slot0 };
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_plan_forward(plan, r->form->params, &at, b->x, b->y, 1.0f / (float)samples, score));
  uint64_t t1 = shoal_now_ns();
  shoal_trace_span(r->trace, SHOAL_TRACE_FORWARD, op->forward, t0, t1);
  SHOAL_TRY(shoal_plan_backward(plan, r->form->params, &at, announce, s));
  shoal_trace_span(r->trace, SHOAL_TRACE_BACKWARD, op->backward, t1, shoal_now_ns());
  return SHOAL_OK;
}

static double scheduled_rate(const shoal_session *s)
{
  return shoal_lr_at(&s->lr, &s->plateau, (double)s->at.epoch + (double)s->at.position / (double)s->epoch_samples);
}

static float learning_rate(shoal_session *s)
{
  double scheduled = scheduled_rate(s);
  s->rate = s->method->rate ? s->method->rate(&s->run, s->method_state, scheduled) : scheduled;
  return (float)s->rate * s->faults.lr;
}

static shoal_status update(shoal_session *s, const ops *op)
{
  shoal_run *r = &s->run;
  float lr = learning_rate(s);
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_form_step(r->form, lr));
  shoal_trace_span(r->trace, SHOAL_TRACE_OPTIMIZER, op->optimizer, t0, shoal_now_ns());
  return SHOAL_OK;
}

void shoal_session_count_bytes(shoal_session *s)
{
  uint64_t bytes[SHOAL_LINK_COUNT] = { 0 };
  if (s->method->step_bytes) s->method->step_bytes(&s->run, s->method_state, bytes);
  for (int i = 0; i < SHOAL_LINK_COUNT; i++) s->claimed[i] += bytes[i];
}

static shoal_status learn(shoal_session *s, const ops *op, const shoal_batch *b, shoal_score *score)
{
  shoal_run *r = &s->run;
  if (s->method->step) {
    r->spoil = (int64_t)r->step == s->faults.nan_step;
    return s->method->step(r, s->method_state, b, learning_rate(s), score);
  }
  SHOAL_TRY(compute(s, op, b, score));
  if (s->method->grads_ready && !s->left_out) SHOAL_TRY(s->method->grads_ready(r, s->method_state));
  /* A rank whose own share has run out has nothing to learn; where gradients are shared, it learns from the others. */
  if (b->n > 0 || !shoal_session_strided(s)) SHOAL_TRY(update(s, op));
  return s->method->weights_ready && !s->left_out ? s->method->weights_ready(r, s->method_state) : SHOAL_OK;
}

static shoal_status one_step(shoal_session *s, const ops *op, const shoal_batch *b, shoal_score *score)
{
  shoal_run *r = &s->run;
  r->position = s->at.position;
  SHOAL_TRY(act_faults(s, op));
  SHOAL_TRY(learn(s, op, b, score));
  if (!s->left_out) shoal_session_count_bytes(s);
  s->at.loss_sum += score->loss;
  s->at.samples += (double)score->samples;
  bool strided = shoal_session_strided(s); /* then positions are slots, as many on every rank, some without a sample */
  s->at.position = SHOAL_MIN(s->at.position + (strided ? s->own_batch : b->total), s->epoch_samples);
  s->trained_own += r->reads_none ? 0 : (uint64_t)b->n;
  s->trained += b->total * (strided ? (uint64_t)shoal_world_size(r->world) : 1);
  r->step++;
  return SHOAL_OK;
}

/* What this rank would like to happen.  Time is asked of rank 0 only; a bad loss speaks for itself. */
static shoal_ask my_ask(const shoal_session *s, const shoal_score *score)
{
  if (!isfinite(score->loss)) return SHOAL_ASK_NUMERIC;
  if (shoal_stop_requested()) return SHOAL_ASK_STOP;
  shoal_period every = shoal_config_period(s->config, "ckpt.every");
  if (every.unit == SHOAL_PER_SECONDS && shoal_session_is_root(s) && shoal_seconds_since(s->saved_ns) >= every.value)
    return SHOAL_ASK_SAVE;
  return SHOAL_ASK_NOTHING;
}

static bool due(shoal_period p, shoal_period_unit unit, uint64_t count)
{
  return p.unit == unit && count % (uint64_t)p.value == 0;
}

static shoal_status stop_here(shoal_session *s)
{
  SHOAL_TRY(shoal_session_save(s));
  s->agreed = true;
  return SHOAL_STOPPED;
}

shoal_status shoal_session_act(shoal_session *s, shoal_ask ask)
{
  switch (ask) {
  case SHOAL_ASK_NUMERIC:
    s->agreed = true;
    return SHOAL_AGREE_ONCE(
        s->run.control,
        SHOAL_FAIL(
            SHOAL_ERR_NUMERIC,
            "the training loss is not finite at step %llu; the last checkpoint is untouched: resume from it with "
            "a smaller optim.lr or with optim.clip",
            (unsigned long long)s->run.step - 1));
  case SHOAL_ASK_STOP:
    shoal_info("asked to stop by a signal: stopping after step %llu", (unsigned long long)s->run.step);
    return stop_here(s);
  case SHOAL_ASK_SAVE:
    return shoal_session_save(s);
  default:
    return SHOAL_OK;
  }
}

/* A stop asked for while a checkpoint was being written takes effect right there: that checkpoint is the one. */
static shoal_status stop_after_save(shoal_session *s)
{
  if (!s->saved_any || s->last_saved_step != s->run.step) return SHOAL_OK;
  int64_t stop = shoal_stop_requested();
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &stop, 1));
  return stop ? shoal_session_act(s, SHOAL_ASK_STOP) : SHOAL_OK;
}

/* A wait for what all ranks have to say: no payload, so the trace keeps it apart from exposed exchange. */
static void record_agreement(shoal_session *s, const ops *op, uint64_t t0)
{
  shoal_trace_transfer(s->run.trace, SHOAL_TRACE_WAIT, op->agreement, t0, shoal_now_ns(), SHOAL_LINK_CONTROL, -1, 0, 0);
}

static shoal_status take_vote(shoal_session *s, const ops *op, int64_t *ask)
{
  if (!s->voted) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_vote_result(s->vote, ask));
  record_agreement(s, op, t0);
  s->voted = false;
  return SHOAL_OK;
}

/* Whether ranks ask each other between this step and the next. */
static bool asks_here(const shoal_session *s)
{
  if (s->method->meets) return s->method->meets(&s->run, s->method_state);
  return s->run.vote_every <= 1 || s->run.step % s->run.vote_every == 0;
}

static shoal_status post_vote(shoal_session *s, const shoal_score *score)
{
  shoal_ask ask = SHOAL_MAX(s->ask, my_ask(s, score));
  s->voted = true;
  s->ask = SHOAL_ASK_NOTHING;
  return shoal_vote_post(s->vote, ask);
}

/* What all ranks together ask for: the answer to the question posted when they last asked, usually one step ago.  Where
 * ranks go their own ways for a while, they ask when they meet, and wait for the answer there, since they have just waited
 * for each other. */
static shoal_status ask_all(shoal_session *s, const ops *op, const shoal_score *score, int64_t *ask)
{
  if (s->method->meets) SHOAL_TRY(post_vote(s, score));
  return take_vote(s, op, ask);
}

/* Everything between two steps that all ranks do alike. */
static shoal_status agree_between_steps(shoal_session *s, const ops *op, const shoal_score *score)
{
  int64_t ask = SHOAL_ASK_NOTHING;
  bool asks = asks_here(s);
  if (!isfinite(score->loss)) s->ask = SHOAL_ASK_NUMERIC; /* signals and clocks can be asked again */
  if (asks) SHOAL_TRY(ask_all(s, op, score, &ask));
  SHOAL_TRY(shoal_session_act(s, (shoal_ask)ask));
  if (due(shoal_config_period(s->config, "ckpt.every"), SHOAL_PER_STEPS, s->run.step)) SHOAL_TRY(shoal_session_save(s));
  SHOAL_TRY(stop_after_save(s));
  if (due(shoal_config_period(s->config, "eval.every"), SHOAL_PER_STEPS, s->run.step)) {
    SHOAL_TRY(shoal_session_evaluate(s));
    shoal_session_record_metrics(s, false);
  }
  return asks && !s->method->meets ? post_vote(s, score) : SHOAL_OK;
}

static shoal_status between_steps(shoal_session *s, const ops *op, const shoal_score *score)
{
  SHOAL_TRY(s->call ? shoal_session_between_meetings(s, score) : agree_between_steps(s, op, score));
  if (shoal_session_is_root(s)) shoal_lease_touch(&s->folder.lease);
  return shoal_trace_flush(s->run.trace, false);
}

static bool reached_end(const shoal_session *s)
{
  uint64_t steps = (uint64_t)shoal_config_int(s->config, "run.steps");
  return s->at.epoch >= (uint64_t)s->run.epochs || (steps && s->run.step >= steps);
}

/* The next batch; none (*out NULL) where the epoch ends; one without samples where only others have some left. */
static shoal_status next_batch(shoal_session *s, shoal_batch *none, const shoal_batch **out)
{
  *out = NULL;
  if (s->at.position >= s->epoch_end) return SHOAL_OK;
  SHOAL_TRY(shoal_loader_next(s->loader, out));
  *none = (shoal_batch){ .epoch = s->at.epoch, .position = s->at.position };
  if (!*out && shoal_session_strided(s)) *out = none;
  return SHOAL_OK;
}

/* Where in its epoch the batch at the present position is.  After a resume with another batch size the first one may
 * not begin at a multiple of it. */
static void number_batch(shoal_session *s)
{
  uint64_t b = s->global_batch, left = s->epoch_end - s->at.position;
  s->run.batch = (s->at.position + b - 1) / b;
  s->run.batches = s->run.batch + (left + b - 1) / b;
}

/* Batches of one epoch from the present position on, until the loader is empty (*finished) or the last step is done. */
static shoal_status run_epoch(shoal_session *s, const ops *op, bool *finished)
{
  *finished = false;
  shoal_trace *t = s->run.trace;
  SHOAL_TRY(shoal_loader_seek(s->loader, s->at.epoch, SHOAL_MIN(s->at.position, shoal_loader_samples(s->loader))));
  while (!reached_end(s)) {
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
    shoal_trace_span(t, SHOAL_TRACE_INPUT, op->input, t0, t1);
    shoal_score score = { 0 };
    number_batch(s);
    SHOAL_TRY(one_step(s, op, b, &score));
    shoal_trace_span(t, SHOAL_TRACE_STEP, op->step, t0, shoal_now_ns());
    shoal_session_report_live(s, score.samples ? score.loss / (double)score.samples : s->run.shown_loss);
    SHOAL_TRY(between_steps(s, op, &score));
  }
  *finished = s->at.position >= s->epoch_end; /* the run's last step may be the epoch's last, too */
  return SHOAL_OK;
}

/* The method's last word on the weights, before the run's last evaluation. */
static shoal_status finish(shoal_session *s)
{
  bool changed = false;
  if (s->finished || !s->method->finish) return SHOAL_OK;
  s->finished = true;
  if (s->run.form->model != s->run.model) { /* the method may now make one model of them */
    SHOAL_TRY(shoal_session_score_own(s));
    shoal_session_report_own(s);
  }
  SHOAL_TRY(s->method->finish(&s->run, s->method_state, &changed));
  shoal_session_count_bytes(s);
  if (changed) s->saved_any = false; /* a checkpoint of this very step is not the end */
  return SHOAL_OK;
}

/* Where ranks run freely an epoch's end is theirs alone, unless something is to be done there that takes all. */
static bool all_meet_at_end(const shoal_session *s)
{
  uint64_t done = s->at.epoch + 1;
  return !s->call || s->lr.kind == SHOAL_LR_PLATEAU || s->method->epoch_end || done >= (uint64_t)s->run.epochs ||
         due(shoal_config_period(s->config, "eval.every"), SHOAL_PER_EPOCHS, done) ||
         due(shoal_config_period(s->config, "ckpt.every"), SHOAL_PER_EPOCHS, done);
}

static shoal_status end_epoch_together(shoal_session *s, const ops *op)
{
  double sums[] = { s->at.loss_sum, s->at.samples };
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, sums, SHOAL_COUNT(sums)));
  record_agreement(s, op, t0);
  s->train_loss = sums[0] / sums[1];
  s->at.epoch++;
  if (reached_end(s)) SHOAL_TRY(finish(s));
  bool evaluate = due(shoal_config_period(s->config, "eval.every"), SHOAL_PER_EPOCHS, s->at.epoch) || reached_end(s);
  if (evaluate) SHOAL_TRY(shoal_session_evaluate(s));
  shoal_lr_plateau_feed(&s->lr, &s->plateau, s->train_loss);
  if (s->method->epoch_end) SHOAL_TRY(s->method->epoch_end(&s->run, s->method_state, s->train_loss));
  shoal_session_record_metrics(s, true);
  shoal_session_report_epoch(s);
  s->at.position = 0;
  s->at.loss_sum = s->at.samples = 0;
  if (!due(shoal_config_period(s->config, "ckpt.every"), SHOAL_PER_EPOCHS, s->at.epoch)) return SHOAL_OK;
  SHOAL_TRY(shoal_session_save(s));
  /* Who asks in every step hears of a stop in the next one; the next meeting may be epochs away. */
  return s->method->meets && !reached_end(s) ? stop_after_save(s) : SHOAL_OK;
}

static shoal_status end_epoch(shoal_session *s, const ops *op)
{
  if (!all_meet_at_end(s)) {
    s->at.epoch++;
    s->at.position = 0; /* loss and samples go on to the epoch where all meet */
    return SHOAL_OK;
  }
  if (s->call) SHOAL_TRY(shoal_session_gather(s));
  SHOAL_TRY(end_epoch_together(s, op));
  return s->call ? shoal_session_part(s) : SHOAL_OK;
}

shoal_status shoal_session_train(shoal_session *s)
{
  shoal_trace *t = s->run.trace;
  ops op = { .step = shoal_trace_op(t, "step"),
             .input = shoal_trace_op(t, "loader"),
             .forward = shoal_trace_op(t, "forward"),
             .backward = shoal_trace_op(t, "backward"),
             .optimizer = shoal_trace_op(t, "optimizer"),
             .agreement = shoal_trace_op(t, "agreement"),
             .pretended = shoal_trace_op(t, "pretended compute") };
  s->started_ns = s->saved_ns = s->logged_ns = shoal_now_ns();
  s->rate = scheduled_rate(s);
  if (s->method->start && !reached_end(s)) SHOAL_TRY(s->method->start(&s->run, s->method_state));
  s->start_wait_s = shoal_trace_total_s(t, SHOAL_TRACE_WAIT);
  while (!reached_end(s)) {
    s->run.epoch = s->at.epoch;
    bool finished;
    SHOAL_TRY(run_epoch(s, &op, &finished));
    if (finished) SHOAL_TRY(end_epoch(s, &op));
  }
  int64_t ignored;
  SHOAL_TRY(take_vote(s, &op, &ignored));
  if (s->call) SHOAL_TRY(shoal_session_gather(s));
  SHOAL_TRY(finish(s));
  if (isnan(s->test_acc) || s->at.position > 0) {
    SHOAL_TRY(shoal_session_evaluate(s));
    if (s->at.position > 0) shoal_session_record_metrics(s, false);
  }
  return shoal_session_save(s);
}
