/* What people see of a run: a head, a live line or log lines, a line per epoch, and the result table. */
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include <math.h>
#include <string.h>

/* In steps. */
static double total_s(const shoal_session *s, shoal_trace_kind kind)
{
  return shoal_trace_total_s(s->run.trace, kind) - (kind == SHOAL_TRACE_WAIT ? s->start_wait_s : 0);
}

static double wait_share(const shoal_session *s)
{
  double step = total_s(s, SHOAL_TRACE_STEP);
  return step > 0 ? total_s(s, SHOAL_TRACE_WAIT) / step : 0;
}

static double samples_per_second(const shoal_session *s)
{
  double step = total_s(s, SHOAL_TRACE_STEP);
  return step > 0 ? (double)s->trained / step : 0;
}

/* A lower bound from what is known: the slowest save so far, or the bytes at a careful 100 MB/s. */
static double save_estimate_s(const shoal_session *s)
{
  double bytes = (double)s->form.params->n * sizeof(float) * (2 + s->form.optim->slots);
  return SHOAL_MAX(s->save_s, bytes / 100e6);
}

void shoal_session_report_start(const shoal_session *s)
{
  if (!shoal_session_is_root(s)) return;
  const shoal_run *r = &s->run;
  const shoal_data_info *d = shoal_dataset_info(s->data);
  shoal_str text = { 0 };
  shoal_topo_print_short(shoal_world_topo(r->world), &text);
  if (s->folder.log) fprintf(s->folder.log, "%s", text.text); /* long: the log has it, the terminal gets one line */
  shoal_str_free(&text);
  const shoal_topo *t = shoal_world_topo(r->world);
  shoal_info("%s: %s on %s, method %s, attempt %d", s->folder.dir, s->model->name,
             shoal_config_string(s->config, "data.file"), s->method->name, s->folder.attempt);
  shoal_info("%d rank%s on %d node%s%s, %d thread%s each, backend %s", t->size, t->size == 1 ? "" : "s", t->nodes,
             t->nodes == 1 ? "" : "s", t->pretended ? " (pretended)" : "", r->backend->threads,
             r->backend->threads == 1 ? "" : "s", r->backend->name);
  shoal_info("%zu parameters, %.3g multiply-accumulates per sample", s->model->weights, shoal_model_macs(s->model));
  uint64_t rest = d->n[SHOAL_TRAIN] % s->global_batch;
  shoal_info("%llu training and %llu test samples; global batch %llu, %llu steps per epoch%s",
             (unsigned long long)d->n[SHOAL_TRAIN], (unsigned long long)d->n[SHOAL_TEST],
             (unsigned long long)s->global_batch, (unsigned long long)r->steps_per_epoch,
             rest ? s->choice.last == SHOAL_LAST_SHORT  ? ", the last one short"
                    : s->choice.last == SHOAL_LAST_DROP ? ", the rest dropped"
                                                        : ", the last one padded"
                  : "");
  char lead[32];
  shoal_info("send USR1 to stop: allow at least %s for the checkpoint",
             shoal_format_seconds(2 * save_estimate_s(s), lead, sizeof lead));
}

/* Seconds to the end at the speed so far; 0: nothing is known yet. */
static double seconds_left(const shoal_session *s, double elapsed)
{
  const shoal_run *r = &s->run;
  uint64_t steps = s->choice.steps;
  double epochs = r->epochs - (double)s->at.epoch - (double)s->at.position / (double)s->epoch_samples;
  double samples = epochs * (double)shoal_dataset_info(s->data)->n[SHOAL_TRAIN];
  if (!s->trained || r->step == s->first_step) return 0;
  double left = samples * elapsed / (double)s->trained;
  if (!steps) return left;
  return SHOAL_MIN(left, ((double)steps - (double)r->step) * elapsed / (double)(r->step - s->first_step));
}

void shoal_session_report_live(shoal_session *s, double loss)
{
  if (!shoal_session_is_root(s)) return;
  bool live = shoal_log_is_tty() && !s->args->quiet && shoal_seconds_since(s->shown_ns) >= 0.1;
  shoal_period every = s->choice.log_every;
  bool line = every.unit == SHOAL_PER_SECONDS ? shoal_seconds_since(s->logged_ns) >= every.value
                                              : shoal_session_due(every, SHOAL_PER_STEPS, s->run.step);
  if (!live && !line) return;
  const shoal_run *r = &s->run;
  double elapsed = shoal_seconds_since(s->started_ns);
  char eta[32];
  shoal_format_seconds(seconds_left(s, elapsed), eta, sizeof eta);
  double steps = (double)(r->step - s->first_step) / elapsed;
  char acc[32] = "";
  if (!isnan(s->test_acc)) snprintf(acc, sizeof acc, ", test accuracy %.2f %%", 100 * s->test_acc);
  if (live)
    shoal_log_live(
        "epoch %llu  step %llu  %.1f step/s  %.0f samples/s  loss on rank 0 %.4g%s  waiting %.0f %%  %s left",
        (unsigned long long)s->at.epoch + 1, (unsigned long long)r->step, steps, (double)s->trained / elapsed, loss,
        acc, 100 * wait_share(s), eta);
  if (line && !shoal_log_is_tty())
    shoal_info("epoch %llu step %llu: loss on rank 0 %.4g%s, %.1f step/s, %.0f samples/s, waiting %.0f %%, %s left",
               (unsigned long long)s->at.epoch + 1, (unsigned long long)r->step, loss, acc, steps,
               (double)s->trained / elapsed, 100 * wait_share(s), eta);
  if (live) s->shown_ns = shoal_now_ns();
  if (line) s->logged_ns = shoal_now_ns();
}

void shoal_session_report_epoch(shoal_session *s)
{
  if (!shoal_session_is_root(s)) return;
  char time[32], test[64] = "";
  if (!isnan(s->test_loss) && s->test_step == s->run.step)
    snprintf(test, sizeof test, ", test loss %.4g, accuracy %.2f %%", s->test_loss, 100 * s->test_acc);
  shoal_info("epoch %llu done at step %llu: train loss %.4g%s, %.0f samples/s, %s", (unsigned long long)s->at.epoch,
             (unsigned long long)s->run.step, s->train_loss, test, samples_per_second(s),
             shoal_format_seconds(s->at.seconds + shoal_seconds_since(s->started_ns), time, sizeof time));
}

static void csv_number(FILE *f, double value, const char *format, const char *end)
{
  if (isfinite(value)) fprintf(f, format, value);
  fputs(end, f);
}

void shoal_session_print_columns(const shoal_session *s, shoal_str *out)
{
  if (s->own.acc) shoal_str_add(out, ",consensus,own_acc_min,own_acc_mean,own_acc_max,own_acc");
  for (size_t i = 0; i < s->run.n_columns; i++) shoal_str_add(out, ",%s", s->run.columns[i]);
}

void shoal_session_report_own(const shoal_session *s)
{
  double sum = 0;
  int scored = 0;
  for (int i = 0; s->own.acc && s->test && i < shoal_world_size(s->run.world); i++)
    if (isfinite(s->own.acc[i])) sum += s->own.acc[i], scored++;
  if (scored)
    shoal_info("ranks' own models before they become one: mean accuracy %.2f %%, each on its share",
               100 * sum / scored);
}

/* The columns of ranks with models of their own; each one's accuracy by name where there are few of them. */
static void record_own(const shoal_session *s, FILE *f, bool tested)
{
  enum { NAMED_MAX = 8 };
  int size = shoal_world_size(s->run.world);
  if (!s->own.acc) return;
  bool compared = isfinite(s->own.consensus);
  if (!tested || isnan(s->test_acc) || (!compared && s->method->trains != SHOAL_TRAINS_PHASES)) {
    fputs(",,,,,", f);
    return;
  }
  double low = s->own.acc[0], high = low, sum = 0;
  for (int i = 0; i < size; i++) {
    low = SHOAL_MIN(low, s->own.acc[i]);
    high = SHOAL_MAX(high, s->own.acc[i]);
    sum += s->own.acc[i];
  }
  fputs(",", f);
  csv_number(f, s->own.consensus, "%.6g", ",");
  fprintf(f, "%.6f,%.6f,%.6f,", low, sum / size, high);
  for (int i = 0; size <= NAMED_MAX && i < size; i++) fprintf(f, "%s%.6f", i ? " " : "", s->own.acc[i]);
}

void shoal_session_record_metrics(shoal_session *s, bool epoch_end)
{
  FILE *f = s->folder.metrics;
  double step_s = total_s(s, SHOAL_TRACE_STEP) - s->row_step_s;
  double wait_s = total_s(s, SHOAL_TRACE_WAIT) - s->row_wait_s;
  double speed = step_s > 0 ? (double)(s->trained - s->row_trained) / step_s : NAN;
  bool tested = s->test_step == s->run.step;
  s->row_step_s += step_s;
  s->row_wait_s += wait_s;
  s->row_trained = s->trained;
  if (!f) return;
  double epoch =
      (double)s->at.epoch +
      (s->at.samples > 0 && s->at.position < s->epoch_samples ? (double)s->at.position / (double)s->epoch_samples : 0);
  csv_number(f, epoch, "%.6g", ",");
  fprintf(f, "%llu,", (unsigned long long)s->run.step);
  csv_number(f, s->at.seconds + shoal_seconds_since(s->started_ns), "%.3f", ",");
  csv_number(f, epoch_end ? s->train_loss : NAN, "%.6g", ",");
  csv_number(f, tested ? s->test_loss : NAN, "%.6g", ",");
  csv_number(f, tested ? s->test_acc : NAN, "%.6f", ",");
  csv_number(f, s->rate, "%.6g", ",");
  csv_number(f, speed, "%.1f", ",");
  csv_number(f, wait_s / step_s, "%.4f", "");
  record_own(s, f, tested);
  for (size_t i = 0; i < s->run.n_columns; i++) {
    fputc(',', f);
    csv_number(f, tested ? s->column_value[i] : NAN, "%.6f", "");
  }
  for (int i = 0; i < s->folder.gone; i++) fputc(',', f);
  fputc('\n', f);
  fflush(f);
}

static void report_split(const shoal_session *s)
{
  static const shoal_trace_kind kinds[] = { SHOAL_TRACE_FORWARD, SHOAL_TRACE_BACKWARD, SHOAL_TRACE_OPTIMIZER,
                                            SHOAL_TRACE_WAIT, SHOAL_TRACE_INPUT };
  static const char *const names[] = { "forward", "backward", "optimizer", "exposed exchange", "input" };
  double step = total_s(s, SHOAL_TRACE_STEP), rest = step;
  uint64_t steps = s->run.step - s->first_step;
  if (!steps || step <= 0) return;
  shoal_str line = { 0 };
  shoal_str_add(&line, "  step split     %.1f ms:", 1e3 * step / (double)steps);
  for (size_t i = 0; i < SHOAL_COUNT(kinds); i++) {
    double t = total_s(s, kinds[i]);
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
    if (!c->payload[link] && !s->claimed[link]) continue;
    char sent[32];
    shoal_info("  sent, %-8s %s by rank 0 in this attempt, %s the method's formula",
               link == SHOAL_LINK_NODE ? "node" : "between",
               shoal_format_bytes((double)c->payload[link], sent, sizeof sent),
               c->payload[link] == s->claimed[link] ? "equal to" : "DIFFERENT from");
  }
}

static void report_tracing(const shoal_session *s)
{
  double elapsed = shoal_seconds_since(s->started_ns);
  if (s->choice.trace == SHOAL_TRACE_OFF || !(elapsed > 0)) return;
  shoal_info("  tracing        took %.3f %% of the time (rank 0); shoal trace show %s",
             100 * shoal_trace_overhead_s(s->run.trace) / elapsed, s->folder.dir);
}

void shoal_session_report_end(const shoal_session *s, shoal_status st)
{
  if (!shoal_session_is_root(s)) return;
  char time[32], memory[32];
  shoal_log_live("%s", "");
  shoal_info("%s", st == SHOAL_OK ? "result" : "stopped on request");
  shoal_info("  run            %s, attempt %d", s->folder.dir, s->folder.attempt);
  shoal_info("  trained        %llu epochs, %llu steps, %s", (unsigned long long)s->at.epoch,
             (unsigned long long)s->run.step,
             shoal_format_seconds(s->at.seconds + shoal_seconds_since(s->started_ns), time, sizeof time));
  if (!isnan(s->train_loss)) shoal_info("  train loss     %.4g", s->train_loss);
  if (!isnan(s->test_loss)) shoal_info("  test           loss %.4g, accuracy %.2f %%", s->test_loss, 100 * s->test_acc);
  if (s->trained)
    shoal_info("  speed          %.0f samples/s over all ranks", samples_per_second(s));
  else
    shoal_info("  nothing to do  all of run.epochs or run.steps was done already: raise it to train on");
  report_split(s);
  report_bytes(s);
  shoal_info("  memory         %s at most (rank 0)",
             shoal_format_bytes((double)shoal_trace_peak_bytes(), memory, sizeof memory));
  report_tracing(s);
  shoal_info("  files          metrics.csv, log.txt, ckpt/, trace/ in %s", s->folder.dir);
}
