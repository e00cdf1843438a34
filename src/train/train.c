/* A run from start to end on one rank: open, check, resume, train, report; and the rule for exiting.
 *
 * A status that all ranks share ends the process normally.  One that only some ranks know (a lost peer, a local read
 * error) ends all ranks by abort, after status.json was written; ranks that only noticed it wait a moment, so that the
 * exit code of the failed rank counts. */
#include "train/train.h"
#include "base/activity.h"
#include "base/bus.h"
#include "base/log.h"
#include "train/session.h"
#include "train/stop.h"
#include <stdlib.h>
#include <unistd.h>

static shoal_status write_start(shoal_session *s)
{
  shoal_status st = SHOAL_OK;
  if (shoal_session_is_root(s)) {
    shoal_str text = { 0 };
    shoal_config_print(s->world.config, &text);
    st = shoal_folder_write(&s->world.folder, "run.yaml", text.text);
    shoal_str_free(&text);
    shoal_json placement = { .lines = 2 };
    shoal_topo_put_json(shoal_world_topo(s->run.world), &placement, NULL);
    if (st == SHOAL_OK) shoal_folder_begin(&s->world.folder);
    if (st == SHOAL_OK) st = shoal_folder_write(&s->world.folder, "placement.json", placement.text.text);
    shoal_str_free(&placement.text);
    if (st == SHOAL_OK) st = shoal_session_status(s, "running", 0, "");
    s->world.started = st == SHOAL_OK;
    shoal_session_print_columns(s, &text);
    if (st == SHOAL_OK && !s->world.resumes_own) st = shoal_folder_set_rows_aside(&s->world.folder);
    if (st == SHOAL_OK)
      st = shoal_folder_open_metrics(&s->world.folder, s->record.rows_kept, s->run.step, text.text ? text.text : "");
    shoal_str_free(&text);
  }
  st = shoal_group_agree(s->run.control, st);
  s->world.started |= st == SHOAL_OK;
  return st;
}

static shoal_status prepare(shoal_session *s, const shoal_train_args *args)
{
  SHOAL_TRY(shoal_session_open(s, args));
  SHOAL_TRY(shoal_session_check_replicas(s));
  SHOAL_TRY(shoal_session_resume(s));
  SHOAL_TRY(shoal_session_agree(s, SHOAL_OK));
  SHOAL_TRY(shoal_session_check_room(s));
  return write_start(s);
}

/* Finishes what is in flight between ranks; then everything is as after a new start, except for the order of samples.  Rows
 * of metrics.csv from after the checkpoint are dropped. */
static shoal_status roll_back(shoal_session *s)
{
  int64_t ignored;
  SHOAL_TRY(shoal_session_take_vote(s, &ignored));
  if (s->method->settle) SHOAL_TRY(s->method->settle(&s->run, s->method_state, SHOAL_GATHERED));
  SHOAL_TRY(shoal_group_barrier(s->run.control));
  s->numbers.rollbacks++;
  SHOAL_TRY(shoal_session_reopen(s));
  s->numbers.rolls_back = false;
  s->numbers.found = SHOAL_FOUND_NOTHING;
  SHOAL_TRY(shoal_session_resume(s));
  shoal_status st = SHOAL_OK;
  if (shoal_session_is_root(s)) {
    shoal_str columns = { 0 };
    shoal_session_print_columns(s, &columns);
    st =
        shoal_folder_open_metrics(&s->world.folder, s->record.rows_kept, s->run.step, columns.text ? columns.text : "");
    shoal_str_free(&columns);
    if (!s->world.resume_path) shoal_info("there is no checkpoint yet: the run starts from step 0");
  }
  return shoal_group_agree(s->run.control, st);
}

/* Measures clock offsets against rank 0 at start and end, to correct for drift.  Both go into the trace, so that spans
 * of different hosts can be aligned within a stated bound; a run that is killed has the first only. */
static shoal_status train(shoal_session *s)
{
  shoal_trace_reading start, end;
  SHOAL_TRY(shoal_world_measure_clock(s->run.world, &start));
  shoal_trace_set_clock(s->run.trace, &start, NULL);
  shoal_status st = shoal_session_train(s);
  while (st != SHOAL_OK && s->numbers.rolls_back) {
    SHOAL_TRY(roll_back(s));
    st = shoal_session_train(s);
  }
  if (st != SHOAL_OK && st != SHOAL_STOPPED) return st;
  SHOAL_TRY(shoal_world_measure_clock(s->run.world, &end));
  shoal_trace_set_clock(s->run.trace, &start, &end);
  return st;
}

/* A refused run does not change the folder; of several failed ranks the first one writes status.json. */
static void write_end(shoal_session *s, shoal_status end, int exit_code, const char *reason)
{
  static const char *const states[] = { "done", "stopped", "failed" };
  const char *state = states[end == SHOAL_OK ? 0 : end == SHOAL_STOPPED ? 1 : 2];
  char *both = NULL;
  if (!s->world.started || !shoal_folder_is_ours(&s->world.folder)) return;
  if (shoal_session_is_root(s)) shoal_session_note_lead(s);
  s->world.folder.ends = false;
  if (s->ears.saved && exit_code != shoal_status_exit_code(SHOAL_STOPPED)) { /* what then failed was the end alone */
    reason = both = shoal_strdup_printf("a signal asked to stop, and the checkpoint was written; then: %s", reason);
    state = states[1];
    exit_code = shoal_status_exit_code(SHOAL_STOPPED);
  }
  shoal_status st = shoal_session_status(s, state, exit_code, reason);
  if (st != SHOAL_OK) shoal_warn("status.json does not say how the run ended: %s", shoal_error_text(st));
  free(both);
}

/* Stopped before this attempt wrote anything: the folder is as it was, but status.json may still be that of a killed attempt. */
static void end_before_training(shoal_session *s)
{
  const shoal_folder *f = &s->world.folder;
  shoal_info("asked to stop by a signal: stopped before the training began");
  if (!s->world.resumes_own || !shoal_folder_is_ours(f)) return;
  const shoal_ckpt_info *i = s->world.resume ? shoal_ckpt_get_info(s->world.resume) : NULL;
  shoal_status st =
      shoal_folder_status(&s->world.folder, "stopped", shoal_error_exit_code(SHOAL_STOPPED),
                          shoal_status_text(SHOAL_STOPPED), i ? i->step : s->run.step, i ? i->epoch : s->clock.epoch);
  if (st != SHOAL_OK) shoal_warn("status.json does not say how the run ended: %s", shoal_error_text(st));
}

/* Only rank 0 writes the log file, so it adds errors printed by other ranks. */
static void note_in_log(const shoal_folder *f, const char *text)
{
  char now[40];
  if (!f->log || !shoal_folder_is_ours(f)) return;
  fprintf(f->log, "%s shoal: error: %s\n", shoal_wall_clock(now, sizeof now), text);
  fflush(f->log);
}

/* Layers below notice that a rank is lost or a device has failed; which, and what there is to go on from, is known here. */
static shoal_status tell_what_is_saved(const shoal_session *s, shoal_status st)
{
  if (st != SHOAL_ERR_COMM && st != SHOAL_ERR_DEVICE) return st;
  const shoal_place *p = shoal_world_place(s->run.world);
  if (st == SHOAL_ERR_DEVICE)
    (void)shoal_error_append(st, "; that is %s of %s", p->gpu ? p->gpu->id : "a device", p->host);
  if (!s->clock.saved_any) return shoal_error_append(st, "; nothing was saved yet, the next start begins anew");
  return shoal_error_append(st, "; the checkpoint of step %llu is untouched, the next start goes on from it",
                            (unsigned long long)s->clock.saved_step);
}

/* @return  the status of the run; its error is printed and stays the thread's error */
static shoal_status run(shoal_session *s, const shoal_train_args *args)
{
  shoal_error end;
  shoal_status st = prepare(s, args);
  bool prepared = st == SHOAL_OK;
  if (prepared) {
    shoal_session_report_start(s);
    st = shoal_session_reached_end(s) ? SHOAL_OK : shoal_session_offer_stop(s); /* else nothing is left to be stopped */
    if (st == SHOAL_OK) st = train(s);
  } else if (s->run.world && st != SHOAL_STOPPED && !shoal_world_broken(s->run.world)) {
    st = shoal_group_agree(s->run.control, st); /* errors of single ranks are printed and get one exit code */
  }
  bool root = !s->run.world || shoal_session_is_root(s), alone = !s->run.world || shoal_world_size(s->run.world) == 1;
  /* an agreement that hung is one of this rank alone, whatever it was about */
  if (s->run.world && shoal_world_broken(s->run.world)) s->meet.agreed = false;
  bool agreed = st == SHOAL_OK || s->meet.agreed || !prepared || alone;
  bool speaks = agreed ? root : st != SHOAL_ERR_PEER;
  if (!prepared && st == SHOAL_STOPPED && root) end_before_training(s);
  if (s->meet.agreed && !root) st = shoal_error_told(st); /* rank 0 has the same */
  if (prepared) st = tell_what_is_saved(s, st);
  shoal_error_report(st);
  int exit_code = shoal_error_exit_code(st);
  shoal_error_take(&end); /* the clean-up may set another error */
  if (st == SHOAL_ERR_PEER && root) note_in_log(&s->world.folder, end.text);
  const char *reason = st == SHOAL_OK || st == SHOAL_STOPPED ? shoal_status_text(st) : end.text;
  if (st == SHOAL_STOPPED && prepared && !s->clock.saved_any)
    reason = "stopped on request before the first step; nothing was saved yet";
  if (speaks && s->world.folder.dir) write_end(s, st, exit_code, reason);
  if (!agreed) {
    shoal_session_flush_trace(s, true);
    if (st == SHOAL_ERR_PEER) sleep(2);
    if (speaks) shoal_folder_release(&s->world.folder);
    shoal_world_abort(s->run.world, shoal_error_put(&end));
  }
  if (prepared && (st == SHOAL_OK || st == SHOAL_STOPPED)) shoal_session_report_end(s, st);
  shoal_session_close(s);
  (void)shoal_error_put(&end);
  return st;
}

shoal_status shoal_train(const shoal_train_args *args)
{
  shoal_session *s = calloc(1, sizeof *s);
  SHOAL_CHECK(s, SHOAL_ERR_MEM, "a session of %zu bytes", sizeof *s);
  shoal_stop_install();
  shoal_bus_hear();
  shoal_log_remember();
  shoal_activity_announce(true);
  shoal_status st = run(s, args);
  free(s);
  return st;
}
