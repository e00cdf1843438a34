/* Progress output of a run: a header, a live line or log lines, a line per epoch, and the result table. */
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pause.h"
#include "data/labels.h"
#include "slurm/launcher.h"
#include "train/class_weights.h"
#include "train/network.h"
#include "train/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

double shoal_session_total_s(const shoal_session *s, shoal_trace_kind kind)
{
  return shoal_trace_total_s(s->run.trace, kind) - s->record.before_s[kind];
}

void shoal_session_start_totals(shoal_session *s)
{
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++)
    s->record.before_s[kind] = shoal_trace_total_s(s->run.trace, (shoal_trace_kind)kind);
  s->record.row_step_s = s->record.row_wait_s = s->record.evaluations_s = 0;
  s->record.evaluations = 0;
  s->record.pace = s->record.row_pace = (shoal_session_pace){ .begun_ns = 0 };
}

static double wait_share(const shoal_session *s)
{
  double step = shoal_session_total_s(s, SHOAL_TRACE_STEP);
  return step > 0 ? shoal_session_total_s(s, SHOAL_TRACE_WAIT) / step : 0;
}

void shoal_session_keep_pace(shoal_session *s, uint64_t now_ns)
{
  shoal_session_pace *p = &s->record.pace;
  double pauses = shoal_session_total_s(s, SHOAL_TRACE_EVALUATION) + shoal_session_total_s(s, SHOAL_TRACE_CHECKPOINT);
  if (!p->begun_ns) {
    p->begun_ns = now_ns;
    p->pauses_before = pauses;
    p->trained_before = (double)s->clock.trained;
  }
  p->seconds =
      (double)(now_ns - p->begun_ns - shoal_paused_ns(p->begun_ns, now_ns)) * 1e-9 - (pauses - p->pauses_before);
  p->samples = SHOAL_MAX((double)s->clock.trained - p->trained_before, 0.0);
}

/* Of all ranks, since the first step of this start; NAN: not known yet. */
static double samples_per_second(const shoal_session *s)
{
  const shoal_session_pace *p = &s->record.pace;
  return p->seconds > 0 ? p->samples / p->seconds : NAN;
}

/* Ranks that never get a sample: their gradient has weight zero. */
static void warn_of_idle(const shoal_session *s)
{
  uint64_t n = shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN], ranks = (uint64_t)s->run.share_size;
  uint64_t most = SHOAL_MIN(n, s->data.global_batch);
  if (shoal_session_strided(s) || most >= ranks) return;
  const bool one = most == 1, one_idle = ranks - most == 1;
  shoal_warn("%llu %s%s%s for %llu ranks: %llu of them ha%s nothing to compute, and only take%s the updates of the "
             "others; use %llu rank%s%s",
             (unsigned long long)most, most == n ? "training sample" : "sample", one ? "" : "s",
             most == n ? "" : " in a global batch", (unsigned long long)ranks, (unsigned long long)(ranks - most),
             one_idle ? "s" : "ve", one_idle ? "s" : "", (unsigned long long)most, one ? "" : "s or fewer",
             most == n ? "" : ", or a larger data.global_batch");
}

/* Started by hand in an allocation for more: allowed, but seldom meant. */
static void warn_of_alone(const shoal_session *s)
{
  int tasks = shoal_allocation_tasks(),
      nodes = shoal_in_allocation() ? shoal_env_int(NULL, "SLURM_JOB_NUM_NODES", 1) : 0;
  bool meant = shoal_config_bool(s->world.config, "run.allow_singletons");
  if ((tasks <= 1 && nodes <= 1) || meant || shoal_world_size(s->run.world) > 1 || shoal_world_launched()) return;
  shoal_warn(
      "this allocation has %d %s and this is one rank: `shoal launch` in place of `shoal train` starts them all; if "
      "one is meant, set run.allow_singletons",
      tasks > 1 ? tasks : nodes, tasks > 1 ? "tasks" : "nodes");
}

/* ", device auto: no NVIDIA driver is loaded on this host": what it took, and why; "" if the run file says it. */
static void explain_auto(const shoal_session *s, char *out, size_t cap)
{
  static const char prefix[] = "device cuda: ";
  const char *none = s->world.no_device;
  *out = '\0';
  if (strcmp(shoal_config_string(s->world.config, "device"), "auto") != 0 || !shoal_backend_built("cuda")) return;
  if (!none) none = s->run.backend->host_memory ? "not every rank has a GPU of its own" : "a GPU for each rank";
  if (strncmp(none, prefix, strlen(prefix)) == 0) none += strlen(prefix);
  snprintf(out, cap, ", device auto: %.*s", (int)strcspn(none, ";"), none);
}

/* The first GPU that several ranks have. */
static void tell_of_sharing(const shoal_topo *t)
{
  int sharing = 0, first = -1;
  for (int r = 0; r < t->size; r++) {
    const shoal_gpu_use *gpu = t->places[r].gpu;
    sharing += gpu && gpu->ranks > 1;
    if (gpu && gpu->ranks > 1 && first < 0) first = r;
  }
  if (sharing == 0) return;
  const shoal_place *p = &t->places[first];
  shoal_warn(
      "%d ranks have no GPU of their own: %d of them share %s of %s; they take turns on it and sum through the host; "
      "for one each use srun's --gpus-per-task=1, or fewer ranks",
      sharing, p->gpu->ranks, p->gpu->id, p->host);
}

/* OpenMP's own number, of the outermost level in "2,1", does not count: threads are by the cores that a rank has. */
static void tell_of_threads(const shoal_session *s)
{
  const char *text = getenv("OMP_NUM_THREADS");
  int asked = text ? atoi(text) : 0, threads = s->run.backend->threads;
  if (asked > 0 && asked != threads && !shoal_config_given(s->world.config, "threads"))
    shoal_info("OMP_NUM_THREADS=%s does not count here: %d thread%s by the cores of a rank; --set threads=%d sets them",
               text, threads, threads == 1 ? "" : "s", asked);
}

/* "of (price - 296386) / 63203.9; times 3.99473e+09 they are mean squared errors of price": what losses of targets are, which are
 * in another scale than rmse and mae.  Several targets have no common factor.  The caller frees. */
static char *describe_losses(const shoal_session *s)
{
  enum { SHOWN = 6 };
  const shoal_data_targets *t = shoal_dataset_targets(s->data.set);
  const bool squared = s->run.model->loss == SHOAL_LOSS_MSE;
  const char *error = squared ? "mean squared errors" : "mean absolute errors";
  char name[80];
  shoal_targets_name(t, 0, name, sizeof name);
  if (t->n == 1)
    return shoal_strdup_printf("of (%s %c %.6g) / %.6g; times %.6g they are %s of %s", name, t->mean[0] < 0 ? '+' : '-',
                               fabs(t->mean[0]), t->std[0], squared ? t->std[0] * t->std[0] : t->std[0], error, name);
  shoal_str text = { 0 };
  shoal_str_add(&text, "%s over %zu targets, each as (y - mean) / deviation; deviations:", error, t->n);
  for (size_t k = 0; k < SHOAL_MIN(t->n, (size_t)SHOWN); k++)
    shoal_str_add(&text, "%s %.6g of %s", k ? "," : "", t->std[k], shoal_targets_name(t, k, name, sizeof name));
  if (t->n > SHOWN) shoal_str_add(&text, ", ...");
  return text.text;
}

/* "losses are of ..." at the start, "  losses         of ..." in the result. */
static void tell_losses(const shoal_session *s, const char *before)
{
  if (!shoal_session_has_targets(s)) return;
  char *text = describe_losses(s);
  shoal_info("%s%s", before, text);
  free(text);
}

static void tell_of_recomputing(const shoal_session *s)
{
  const shoal_plan *p = s->run.form->plan; /* NULL: the method's blocks have their own */
  if (!s->run.model->recompute || !p) return;
  const shoal_repeated r = shoal_plan_repeated(p);
  const double bytes = (double)shoal_plan_bytes(p);
  if (r.saved_bytes <= 0) {
    shoal_info("compute.recompute: units saves no memory here, so nothing is computed twice");
    return;
  }
  shoal_info("activations and their gradients, of %lld samples: %.1f MiB instead of %.1f MiB, with %.0f %% of forward "
             "computed twice (compute.recompute: units)",
             (long long)shoal_plan_batch(p), bytes / 1048576, (bytes + r.saved_bytes) / 1048576,
             100 * r.macs / ((double)shoal_plan_batch(p) * shoal_model_macs(s->run.form->model)));
}

/* What no data set that could be trained on lacks: its labels were read before. */
static const shoal_labels *labels_of(const shoal_session *s)
{
  const shoal_labels *l;
  shoal_error ignored;
  if (shoal_dataset_labels(s->data.set, &l) == SHOAL_OK) return l;
  shoal_error_take(&ignored);
  return NULL;
}

static void tell_class_weights(const shoal_session *s)
{
  const shoal_labels *l = s->run.model->class_weights ? labels_of(s) : NULL;
  shoal_str text = { 0 };
  if (!l) return;
  shoal_class_weights_add(s->run.model->class_weights, l, &text);
  if (text.text) shoal_info("class weights in the training loss: %s; test losses have none", text.text);
  shoal_str_free(&text);
}

void shoal_session_report_start(const shoal_session *s)
{
  if (!shoal_session_is_root(s)) return;
  const shoal_run *r = &s->run;
  const shoal_data_info *d = shoal_dataset_info(s->data.set);
  shoal_str text = { 0 };
  shoal_topo_print_short(shoal_world_topo(r->world), &text);
  if (text.text) shoal_log_text(text.text);
  shoal_str_free(&text);
  const shoal_topo *t = shoal_world_topo(r->world);
  shoal_info("%s: %s on %s, method %s, attempt %d", s->world.folder.dir, s->run.model->name,
             shoal_dataset_path(s->data.set), s->method->name, s->world.folder.attempt);
  if (!s->world.resume_path) shoal_folder_tell_beginning(&s->world.folder);
  char chosen[256];
  explain_auto(s, chosen, sizeof chosen);
  const bool f32 = s->world.choice.products == SHOAL_PRODUCTS_F32;
  shoal_info("%d rank%s on %d node%s%s, %d thread%s each, backend %s%s%s%s%s%s", t->size, t->size == 1 ? "" : "s",
             t->nodes, t->nodes == 1 ? "" : "s", t->pretended ? " (pretended)" : "", r->backend->threads,
             r->backend->threads == 1 ? "" : "s", r->backend->name, r->backend->card ? " on " : "",
             r->backend->card ? r->backend->card : "", f32 ? "" : " in ", f32 ? "" : r->backend->dtype, chosen);
  tell_of_threads(s);
  tell_of_sharing(t);
  shoal_info("%zu parameters, %.0f multiply-accumulates per sample", s->run.model->weights,
             shoal_model_macs(s->run.model));
  tell_of_recomputing(s);
  uint64_t rest = d->n[SHOAL_TRAIN] % s->data.global_batch;
  shoal_info("%llu training and %llu test samples; global batch %llu, %llu step%s per epoch%s",
             (unsigned long long)d->n[SHOAL_TRAIN], (unsigned long long)d->n[SHOAL_TEST],
             (unsigned long long)s->data.global_batch, (unsigned long long)r->steps_per_epoch,
             r->steps_per_epoch == 1 ? "" : "s",
             rest ? s->world.choice.last == SHOAL_LAST_SHORT  ? ", the last one short"
                    : s->world.choice.last == SHOAL_LAST_DROP ? ", the rest dropped"
                                                              : ", the last one padded"
                  : "");
  if (d->n[SHOAL_TEST] == 0) {
    char *cure = shoal_dataset_test_cure(s->data.set);
    shoal_info("nothing will be evaluated: %s has no test split%s%s", shoal_dataset_path(s->data.set), cure ? "; " : "",
               cure ? cure : "");
    free(cure);
  }
  tell_losses(s, "losses are ");
  tell_class_weights(s);
  warn_of_idle(s);
  warn_of_alone(s);
  shoal_session_warn_of_schedule(s);
}

/* Epochs that are done.  At the end of one the loop counts it before it goes back to position 0. */
static double epochs_done(const shoal_session *s, bool epoch_ended)
{
  double part = epoch_ended ? 0 : (double)s->clock.position / (double)s->data.epoch_samples;
  return (double)s->clock.epoch + part;
}

/* What a progress line shows.  Loss and rate are those of the last step; the means are over the steps of this attempt, speeds without
 * its first one. */
typedef struct {
  double loss, step_rate, sample_rate, left_s;        /* rates and left_s NAN: not known yet */
  uint64_t since;                                     /* the step from which on rates count */
  char loss_of[16], score[48], waiting[24], left[32]; /* score: accuracy, or error of targets */
} progress_figures;

static progress_figures measure_progress(const shoal_session *s, double done, double loss)
{
  const shoal_run *r = &s->run;
  double seconds = s->record.pace.seconds;
  progress_figures f = { .loss = loss,
                         .since = s->clock.first_step + 1,
                         .sample_rate = samples_per_second(s),
                         .left_s = shoal_session_seconds_left(s, done) };
  f.step_rate = seconds > 0 ? (double)(r->step - f.since) / seconds : NAN;
  if (shoal_world_size(r->world) > 1) {
    snprintf(f.loss_of, sizeof f.loss_of, " on rank 0");
    snprintf(f.waiting, sizeof f.waiting, ", waiting %.0f %%", 100 * wait_share(s));
  }
  char share[16];
  if (!isnan(s->record.test_acc))
    snprintf(f.score, sizeof f.score, "test accuracy %s", shoal_format_share(s->record.test_acc, share, sizeof share));
  if (!isnan(s->record.fit.rmse)) snprintf(f.score, sizeof f.score, "test rmse %.4g", s->record.fit.rmse);
  if (!isnan(s->record.fit.r2))
    snprintf(f.score + strlen(f.score), sizeof f.score - strlen(f.score), ", R2 %.4g", s->record.fit.r2);
  if (isfinite(f.left_s))
    shoal_format_seconds(f.left_s, f.left, sizeof f.left);
  else
    snprintf(f.left, sizeof f.left, "unknown time");
  return f;
}

/* The share of the run that is done: of its epochs, or of run.steps if those end it first. */
static double share_done(const shoal_session *s, double epochs)
{
  double steps = s->world.choice.steps ? (double)s->run.step / (double)s->world.choice.steps : 0;
  return SHOAL_MIN(SHOAL_MAX(epochs / s->run.epochs, steps), 1.0);
}

/* For status.json, which is written by the lease's thread.  Tells nothing before the training begins. */
static void tell_folder(shoal_session *s, bool epoch_ended)
{
  if (!s->clock.started_ns) return;
  double done = epochs_done(s, epoch_ended);
  progress_figures f = measure_progress(s, done, s->record.loss);
  const shoal_topo *t = shoal_world_topo(s->run.world);
  shoal_folder_tell(&s->world.folder,
                    &(shoal_folder_figures){ .step = s->run.step,
                                             .epoch = s->clock.epoch,
                                             .model = s->run.model->name,
                                             .method = s->method->name,
                                             .ranks = t->size,
                                             .nodes = t->nodes,
                                             .epochs = s->run.epochs,
                                             .done = share_done(s, done),
                                             .loss = s->run.step > s->clock.first_step ? s->record.loss : NAN,
                                             .lr = s->clock.rate,
                                             .test_loss = s->record.test_loss,
                                             .test_acc = s->record.test_acc,
                                             .fit = s->record.fit,
                                             .samples_per_s = f.sample_rate,
                                             .waiting = wait_share(s),
                                             .left_s = f.left_s });
  s->record.told_ns = shoal_now_ns();
}

shoal_status shoal_session_status(shoal_session *s, const char *state, int exit_code, const char *reason)
{
  tell_folder(s, false);
  return shoal_folder_status(&s->world.folder, state, exit_code, reason, s->run.step, s->clock.epoch);
}

void shoal_session_refresh_status(shoal_session *s, const char *state, const char *reason)
{
  int exit_code = strcmp(state, "stopped") == 0 ? shoal_status_exit_code(SHOAL_STOPPED) : 0;
  shoal_status st = shoal_session_status(s, state, exit_code, reason);
  if (st != SHOAL_OK && !s->record.untrue)
    shoal_warn("status.json is not up to date, training goes on: %s", shoal_error_text(st));
  s->record.untrue = st != SHOAL_OK;
}

/* The live line: as many parts as the terminal has room for, the most important ones first, none cut. */
static void show_live(const shoal_session *s, const progress_figures *f)
{
  enum { EPOCH, WHOSE, LOSS, RATE, LEFT, ACCURACY, MEANS, WAITING, STEPS, PARTS }; /* as they stand in the line */
  static const int by_importance[] = { EPOCH, LOSS, RATE, LEFT, MEANS, ACCURACY, WAITING, STEPS, WHOSE };
  char part[PARTS][64] = { "" }, line[PARTS * sizeof part[0]] = "";
  bool shown[PARTS] = { false };
  size_t room = shoal_log_live_width();
  snprintf(part[EPOCH], sizeof *part, "epoch %llu  step %llu  loss", (unsigned long long)s->clock.epoch + 1,
           (unsigned long long)s->run.step);
  snprintf(part[WHOSE], sizeof *part, "%s", f->loss_of);
  snprintf(part[LOSS], sizeof *part, " %.4g", f->loss);
  snprintf(part[RATE], sizeof *part, "  lr %.4g", s->clock.rate);
  snprintf(part[LEFT], sizeof *part, "  %s left", f->left);
  snprintf(part[ACCURACY], sizeof *part, "%s%s", f->score[0] ? "  " : "", f->score);
  if (isfinite(f->sample_rate)) {
    snprintf(part[MEANS], sizeof *part, "  since step %llu: %.0f samples/s", (unsigned long long)f->since,
             f->sample_rate);
    snprintf(part[WAITING], sizeof *part, "%s", f->waiting);
    snprintf(part[STEPS], sizeof *part, ", %.1f step/s", f->step_rate);
  }
  for (size_t i = 0; i < SHOAL_COUNT(by_importance); i++) {
    int p = by_importance[i];
    size_t n = strlen(part[p]);
    if (n > room || ((p == WAITING || p == STEPS) && !shown[MEANS])) continue;
    shown[p] = true;
    room -= n;
  }
  for (int p = 0; p < PARTS; p++)
    if (shown[p]) strcat(line, part[p]);
  shoal_log_live("%s", line);
}

static void log_line(const shoal_session *s, const progress_figures *f)
{
  char means[96] = "";
  if (isfinite(f->sample_rate))
    snprintf(means, sizeof means, "since step %llu: %.1f step/s, %.0f samples/s%s; ", (unsigned long long)f->since,
             f->step_rate, f->sample_rate, f->waiting);
  shoal_progress("epoch %llu step %llu: loss%s %.4g, lr %.4g%s%s; %s%s left", (unsigned long long)s->clock.epoch + 1,
                 (unsigned long long)s->run.step, f->loss_of, f->loss, s->clock.rate, f->score[0] ? ", " : "", f->score,
                 means, f->left);
}

void shoal_session_tell_pause(shoal_session *s)
{
  enum { LEAST_S = 5 };
  char time[32];
  double seconds = (double)shoal_paused_ns(1, shoal_now_ns()) * 1e-9;
  if (!shoal_session_is_root(s) || seconds < s->record.paused_s + LEAST_S) return;
  shoal_info(
      "the run was paused for %s, as by Ctrl-Z or by a batch system that suspends it: speeds and times leave that out",
      shoal_format_seconds(seconds - s->record.paused_s, time, sizeof time));
  s->record.paused_s = seconds;
}

void shoal_session_report_live(shoal_session *s, double loss)
{
  s->record.loss = loss; /* also where this rank has the last word, because rank 0 is lost */
  if (!shoal_session_is_root(s)) return;
  bool live = shoal_log_is_tty() && !s->world.args->quiet && shoal_seconds_since(s->record.shown_ns) >= 0.1;
  shoal_period every = s->world.choice.log_every;
  bool line = every.unit == SHOAL_PER_SECONDS ? shoal_seconds_since(s->record.logged_ns) >= every.value
                                              : shoal_session_due(every, SHOAL_PER_STEPS, s->run.step);
  if (shoal_seconds_since(s->record.told_ns) >= 1) tell_folder(s, false);
  if (!live && !line) return;
  progress_figures f = measure_progress(s, epochs_done(s, false), loss);
  if (live) show_live(s, &f);
  if (line) log_line(s, &f);
  if (live) s->record.shown_ns = shoal_now_ns();
  if (line) s->record.logged_ns = shoal_now_ns();
}

/* ", accuracy 97.1 %", or the errors of targets. */
static const char *format_scores(const shoal_session *s, char *buf, size_t cap)
{
  char text[128];
  if (shoal_session_has_targets(s))
    snprintf(buf, cap, ", %s",
             shoal_fit_text(&s->record.fit, shoal_dataset_targets(s->data.set)->n, text, sizeof text));
  else
    snprintf(buf, cap, ", accuracy %s", shoal_format_share(s->record.test_acc, text, sizeof text));
  return buf;
}

static bool reads_text(const shoal_session *s)
{
  return shoal_dataset_info(s->data.set)->kind == SHOAL_DATA_TEXT;
}

/* The test loss in other words, after a comma; "" where samples are no text. */
static const char *format_text_loss(const shoal_session *s, char *buf, size_t cap)
{
  if (!reads_text(s)) return "";
  const double token_bytes = shoal_dataset_token_bytes(s->data.set, SHOAL_TEST);
  char words[96];
  snprintf(buf, cap, ", %s", shoal_text_loss_words(s->record.test_loss, token_bytes, words, sizeof words));
  return buf;
}

void shoal_session_report_epoch(shoal_session *s)
{
  if (!shoal_session_is_root(s)) return;
  char time[32], test[256] = "", text[100], scores[96], loss[48] = "no update counted",
                 speed[32] = ""; /* none without a step since the last row */
  if (!isnan(s->record.test_loss) && s->record.test_step == s->run.step)
    snprintf(test, sizeof test, ", test loss %.4g%s%s", s->record.test_loss, format_scores(s, scores, sizeof scores),
             format_text_loss(s, text, sizeof text));
  if (!isnan(s->record.train_loss)) snprintf(loss, sizeof loss, "train loss %.4g", s->record.train_loss);
  if (!isnan(s->record.row_speed)) snprintf(speed, sizeof speed, ", %.0f samples/s", s->record.row_speed);
  shoal_info("epoch %llu done at step %llu: %s%s, lr %.4g%s, %s", (unsigned long long)s->clock.epoch,
             (unsigned long long)s->run.step, loss, test, s->clock.rate, speed,
             shoal_format_seconds(s->clock.seconds + shoal_worked_since(s->clock.started_ns), time, sizeof time));
}

static void csv_number(shoal_str *row, double value, int digits, char format, const char *end)
{
  if (isfinite(value) && format == 'f') shoal_str_add(row, "%.*f", digits, value);
  if (isfinite(value) && format == 'g') shoal_str_add(row, "%.*g", digits, value);
  shoal_str_add(row, "%s", end);
}

/* What the score of a rank's own model is called in the names of columns. */
static const char *own_score(const shoal_session *s)
{
  return shoal_session_has_targets(s) ? "loss" : "acc";
}

void shoal_session_print_columns(const shoal_session *s, shoal_str *out)
{
  const char *own = own_score(s);
  if (shoal_session_has_targets(s)) shoal_str_add(out, ",test_rmse,test_mae,test_r2");
  if (reads_text(s)) shoal_str_add(out, ",perplexity,bits_per_byte");
  if (s->record.own.score)
    shoal_str_add(out, ",consensus,own_%s_min,own_%s_mean,own_%s_max,own_%s", own, own, own, own);
  for (size_t i = 0; i < s->run.n_columns; i++) shoal_str_add(out, ",%s", s->run.columns[i]);
}

void shoal_session_report_own(const shoal_session *s)
{
  double sum = 0;
  int scored = 0;
  for (int i = 0; s->record.own.score && s->data.test && i < shoal_world_size(s->run.world); i++)
    if (isfinite(s->record.own.score[i])) sum += s->record.own.score[i], scored++;
  if (scored && shoal_session_has_targets(s))
    shoal_info("ranks' own models before they become one: mean loss %.4g, each on its share", sum / scored);
  else if (scored)
    shoal_info("ranks' own models before they become one: mean accuracy %.2f %%, each on its share",
               100 * sum / scored);
}

/* Columns for text: the test loss in other words. */
static void record_text(const shoal_session *s, shoal_str *row, bool tested)
{
  if (!reads_text(s)) return;
  const double loss = tested ? s->record.test_loss : NAN;
  shoal_str_add(row, ",");
  csv_number(row, exp(loss), 6, 'g', ",");
  csv_number(row, loss / log(2) / shoal_dataset_token_bytes(s->data.set, SHOAL_TEST), 6, 'g', "");
}

/* Columns for ranks with their own models; with few ranks the score of each, "-" where a rank has no test sample. */
static void record_own(const shoal_session *s, shoal_str *row, bool tested)
{
  enum { NAMED_MAX = 8 };
  int size = shoal_world_size(s->run.world);
  if (!s->record.own.score) return;
  bool compared = isfinite(s->record.own.consensus);
  if (!tested || isnan(s->record.test_loss) || (!compared && s->method->trains != SHOAL_TRAINS_PHASES)) {
    shoal_str_add(row, ",,,,,");
    return;
  }
  double low = INFINITY, high = -INFINITY, sum = 0;
  int scored = 0;
  for (int i = 0; i < size; i++) {
    double score = s->record.own.score[i];
    if (isnan(score)) continue; /* no test sample */
    low = SHOAL_MIN(low, score);
    high = SHOAL_MAX(high, score);
    sum += score;
    scored++;
  }
  shoal_str_add(row, ",");
  csv_number(row, s->record.own.consensus, 6, 'g', ",");
  csv_number(row, low, 6, 'f', ",");
  csv_number(row, sum / scored, 6, 'f', ",");
  csv_number(row, high, 6, 'f', ",");
  for (int i = 0; size <= NAMED_MAX && i < size; i++) {
    if (i) shoal_str_add(row, " ");
    if (isnan(s->record.own.score[i])) shoal_str_add(row, "-");
    csv_number(row, s->record.own.score[i], 6, 'f', "");
  }
}

/* Errors of targets; test_acc stays empty. */
static void record_fit(const shoal_session *s, shoal_str *row, bool tested)
{
  const double values[] = { s->record.fit.rmse, s->record.fit.mae, s->record.fit.r2 };
  for (size_t i = 0; i < SHOAL_COUNT(values); i++) {
    shoal_str_add(row, ",");
    csv_number(row, tested ? values[i] : NAN, 6, 'g', "");
  }
}

static void write_row(const shoal_session *s, bool epoch_end, double wait_share, shoal_str *row)
{
  bool tested = s->record.test_step == s->run.step;
  double epoch = (double)s->clock.epoch;
  if (!epoch_end) epoch += (double)s->clock.position / (double)s->data.epoch_samples;
  csv_number(row, epoch, 6, 'g', ",");
  shoal_str_add(row, "%llu,", (unsigned long long)s->run.step);
  csv_number(row, s->clock.seconds + shoal_worked_since(s->clock.started_ns), 3, 'f', ",");
  csv_number(row, epoch_end ? s->record.train_loss : NAN, 6, 'g', ",");
  csv_number(row, tested ? s->record.test_loss : NAN, 6, 'g', ",");
  csv_number(row, tested ? s->record.test_acc : NAN, 6, 'f', ",");
  csv_number(row, s->clock.rate, 6, 'g', ",");
  csv_number(row, s->record.row_speed, 1, 'f', ",");
  csv_number(row, wait_share, 4, 'f', "");
  if (shoal_session_has_targets(s)) record_fit(s, row, tested);
  record_text(s, row, tested);
  record_own(s, row, tested);
  for (size_t i = 0; i < s->run.n_columns; i++) {
    shoal_str_add(row, ",");
    csv_number(row, tested ? s->record.column_value[i] : NAN, 6, 'f', "");
  }
}

void shoal_session_record_metrics(shoal_session *s, bool epoch_end)
{
  double step_s = shoal_session_total_s(s, SHOAL_TRACE_STEP) - s->record.row_step_s;
  double wait_s = shoal_session_total_s(s, SHOAL_TRACE_WAIT) - s->record.row_wait_s;
  double seconds = s->record.pace.seconds - s->record.row_pace.seconds;
  s->record.row_speed = seconds > 0 ? (s->record.pace.samples - s->record.row_pace.samples) / seconds : NAN;
  s->record.row_step_s += step_s;
  s->record.row_wait_s += wait_s;
  s->record.row_pace = s->record.pace;
  s->record.row_step = s->run.step;
  if (shoal_session_is_root(s)) tell_folder(s, epoch_end);
  if (!s->world.folder.metrics || !shoal_folder_is_ours(&s->world.folder)) return;
  shoal_folder_renew(&s->world.folder);
  shoal_str row = { 0 };
  write_row(s, epoch_end, wait_s / step_s, &row);
  shoal_rows_add(s->world.folder.metrics, row.text);
  shoal_str_free(&row);
}

static void report_split(const shoal_session *s)
{
  static const shoal_trace_kind kinds[] = { SHOAL_TRACE_FORWARD, SHOAL_TRACE_BACKWARD, SHOAL_TRACE_OPTIMIZER,
                                            SHOAL_TRACE_WAIT, SHOAL_TRACE_INPUT };
  static const char *const names[] = { "forward", "backward", "optimizer", "exposed exchange", "input" };
  double step = shoal_session_total_s(s, SHOAL_TRACE_STEP), rest = step;
  uint64_t steps = s->run.step - s->clock.first_step;
  if (!steps || step <= 0) return;
  shoal_str line = { 0 };
  shoal_str_add(&line, "  step split     %.1f ms:", 1e3 * step / (double)steps);
  for (size_t i = 0; i < SHOAL_COUNT(kinds); i++) {
    double t = shoal_session_total_s(s, kinds[i]);
    rest -= t;
    shoal_str_add(&line, " %s %.0f %%,", names[i], 100 * t / step);
  }
  shoal_str_add(&line, " other %.0f %% (rank 0)", SHOAL_MAX(0.0, 100 * rest / step));
  shoal_info("%s", line.text);
  shoal_str_free(&line);
}

static void report_bytes(const shoal_session *s)
{
  const shoal_counters *c = shoal_trace_counters(s->run.trace);
  for (int link = SHOAL_LINK_NODE; link <= SHOAL_LINK_BETWEEN; link++) {
    if (!c->payload[link] && !s->record.claimed[link]) continue;
    char sent[32];
    shoal_info("  sent, %-8s %s by rank 0 in this attempt, %s the method's formula",
               link == SHOAL_LINK_NODE ? "node" : "between",
               shoal_format_bytes((double)c->payload[link], sent, sizeof sent),
               c->payload[link] == s->record.claimed[link] ? "equal to" : "DIFFERENT from");
  }
}

static void report_tracing(const shoal_session *s)
{
  double elapsed = shoal_worked_since(s->clock.started_ns);
  if (s->world.choice.trace == SHOAL_TRACE_OFF || !(elapsed > 0)) return;
  shoal_str command = { 0 };
  shoal_str_add(&command, "shoal trace show ");
  shoal_str_add_word(&command, s->world.folder.dir);
  shoal_info("  tracing        took %.3f %% of the time (rank 0); %s",
             100 * shoal_trace_overhead_s(s->run.trace) / elapsed, command.text);
  shoal_str_free(&command);
}

/* Loss of an output of 0 for each target, which is its mean: 1 of squares, as targets are normalised. */
static double loss_of_means(const shoal_session *s)
{
  const shoal_data_targets *t = shoal_dataset_targets(s->data.set);
  const uint64_t n = shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN];
  double sum = 0;
  if (s->run.model->loss == SHOAL_LOSS_MSE) return 1;
  for (uint64_t i = 0; i < n; i++)
    for (size_t k = 0; k < t->n; k++)
      sum += fabs(shoal_dataset_target(s->data.set, SHOAL_TRAIN, i)[k] - t->mean[k]) / t->std[k];
  return sum / (double)(n * t->n);
}

/* Cross entropy of the best answer that is the same for all training samples: the shares of the classes, or in training
 * those of their weights, which have a mean of 1, and smoothed. */
static double loss_of_shares(const shoal_model *m, const shoal_labels *l, bool trained)
{
  const double smoothing = trained ? (double)m->smoothing : 0, rest = smoothing / (double)m->classes;
  int64_t seen = 0;
  double sum = 0;
  for (size_t i = 0; i < l->distinct; i++) {
    const shoal_label *v = &l->all[i];
    const double weight = trained && m->class_weights ? (double)m->class_weights[v->value] : 1;
    const double share = (1 - smoothing) * weight * (double)v->count[SHOAL_TRAIN] / (double)l->n[SHOAL_TRAIN] + rest;
    if (share > 0) sum -= share * log(share);
    seen++;
  }
  return rest > 0 ? sum - (double)(m->classes - seen) * rest * log(rest) : sum;
}

/* Of guessing: the means of targets, or the same answer for all samples, by the loss that is trained or by that of tests; NAN: not
 * known. */
static double guessing_loss(const shoal_session *s, bool trained)
{
  if (shoal_model_reads_tokens(s->run.model)) return NAN;
  if (shoal_session_has_targets(s)) return loss_of_means(s);
  const shoal_labels *l = labels_of(s);
  return l ? loss_of_shares(s->run.model, l, trained) : NAN;
}

/* A run that ends no better than by guessing was too short if its loss has only fallen; else its rate mostly does not suit it. */
static void warn_of_guessing(const shoal_session *s)
{
  enum { STEPS = 50 };
  const double loss = s->record.train_loss, no_better = 0.98, diverged = 1.2, falling = 0.98,
               lr = shoal_config_float(s->world.config, "optim.lr");
  if (s->run.step < STEPS || !s->clock.trained || !isfinite(loss)) return;
  const double guess = guessing_loss(s, true);
  if (!(guess > 0) || loss < no_better * guess || s->record.test_loss < no_better * guessing_loss(s, false)) return;
  const bool targets = shoal_session_has_targets(s);
  const char *guesses = targets ? "the targets' mean for all" : "by the classes' shares";
  if (!s->record.rose && loss < falling * s->record.loss_before)
    shoal_warn("train loss %.4g is no better than %.4g, that of guessing %s, but it only fell: give "
               "more run.epochs, or a larger optim.lr (it is %g)",
               loss, guess, guesses, lr);
  else if (loss > diverged * guess)
    shoal_warn("train loss %.4g is above %.4g, that of guessing %s: training diverged; give a "
               "smaller optim.lr (it is %g)",
               loss, guess, guesses, lr);
  else
    shoal_warn("train loss %.4g is that of guessing %s (%.4g): nothing was learnt; try an optim.lr "
               "ten times smaller and ten times larger (it is %g), and see whether %s belong to their samples",
               loss, guesses, guess, lr, targets ? "targets" : "labels");
}

void shoal_session_report_end(const shoal_session *s, shoal_status st)
{
  if (!shoal_session_is_root(s)) return;
  char time[32], memory[32], scores[96], text[100];
  shoal_log_live("%s", "");
  shoal_info("%s", st == SHOAL_OK ? "result" : "stopped on request");
  shoal_info("  run            %s, attempt %d", s->world.folder.dir, s->world.folder.attempt);
  shoal_info("  trained        %llu epoch%s, %llu step%s, %s", (unsigned long long)s->clock.epoch,
             s->clock.epoch == 1 ? "" : "s", (unsigned long long)s->run.step, s->run.step == 1 ? "" : "s",
             shoal_format_seconds(s->clock.seconds + shoal_worked_since(s->clock.started_ns), time, sizeof time));
  if (!isnan(s->record.train_loss)) shoal_info("  train loss     %.4g", s->record.train_loss);
  if (!isnan(s->record.test_loss))
    shoal_info("  test           loss %.4g%s%s", s->record.test_loss, format_scores(s, scores, sizeof scores),
               format_text_loss(s, text, sizeof text));
  tell_losses(s, "  losses         ");
  if (isfinite(samples_per_second(s)))
    shoal_info("  speed          %.0f samples/s over all ranks", samples_per_second(s));
  if (!s->clock.trained)
    shoal_info("  nothing to do  %s to train on, or give another run.name to begin anew",
               s->best.ends ? "eval.patience ended the run before: raise it, or unset it,"
                            : "all of run.epochs or run.steps was done already: raise it");
  report_split(s);
  report_bytes(s);
  shoal_info("  memory         %s at most (rank 0)",
             shoal_format_bytes((double)shoal_trace_peak_bytes(), memory, sizeof memory));
  report_tracing(s);
  shoal_info("  files          metrics.csv, log.txt, ckpt/, trace/ in %s", s->world.folder.dir);
  if (st == SHOAL_OK) warn_of_guessing(s);
  if (st == SHOAL_STOPPED && s->clock.saved_any)
    shoal_info("  to go on       the same command again, from the checkpoint of step %llu",
               (unsigned long long)s->clock.saved_step);
}
