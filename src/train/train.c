/* A run from start to end on one rank: open, check, resume, train, report; and the one rule about leaving.
 *
 * A verdict that all ranks share ends the process in order.  One that only some ranks know (a lost peer, a read that
 * failed here) ends every rank by abort, after status.json has been written; ranks that merely noticed wait a moment, so
 * that the culprit's exit code is the one that counts. */
#include "train/train.h"
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
    if (st == SHOAL_OK) st = shoal_folder_write(&s->world.folder, "placement.json", placement.text.text);
    shoal_str_free(&placement.text);
    if (st == SHOAL_OK) st = shoal_folder_status(&s->world.folder, "running", 0, "", s->run.step, s->clock.epoch);
    shoal_session_print_columns(s, &text);
    if (st == SHOAL_OK) st = shoal_folder_open_metrics(&s->world.folder, s->run.step, text.text ? text.text : "");
    shoal_str_free(&text);
  }
  s->world.started = shoal_group_agree(s->run.control, st) == SHOAL_OK;
  return s->world.started || st != SHOAL_OK ? st : SHOAL_ERR_PEER;
}

static shoal_status prepare(shoal_session *s, const shoal_train_args *args)
{
  SHOAL_TRY(shoal_session_open(s, args));
  SHOAL_TRY(shoal_session_check_replicas(s));
  SHOAL_TRY(shoal_session_resume(s));
  return write_start(s);
}

/* A fault found while preparing ended in an agreement, so all ranks are here: share the culprit's own word for it. */
static shoal_status share_verdict(shoal_session *s, shoal_status st)
{
  if (!s->run.world || shoal_world_size(s->run.world) == 1) return st;
  int64_t code = st == SHOAL_ERR_PEER ? 0 : (int64_t)st;
  if (shoal_group_max_i64(s->run.control, &code, 1) != SHOAL_OK || code == 0) return st;
  return (shoal_status)code;
}

/* Clocks against rank 0 at the start and at the end: what lies between is drift.  Both go into the trace, so that spans
 * of different hosts can be laid over each other within a stated bound; of a run that is killed the first stays. */
static shoal_status train(shoal_session *s)
{
  shoal_trace_reading start, end;
  SHOAL_TRY(shoal_world_measure_clock(s->run.world, &start));
  shoal_trace_set_clock(s->run.trace, &start, NULL);
  shoal_status st = shoal_session_train(s);
  if (st != SHOAL_OK && st != SHOAL_STOPPED) return st;
  SHOAL_TRY(shoal_world_measure_clock(s->run.world, &end));
  shoal_trace_set_clock(s->run.trace, &start, &end);
  return st;
}

static void write_end(shoal_session *s, shoal_status st)
{
  static const char *const states[] = { "done", "stopped", "failed" };
  const char *state = states[st == SHOAL_OK ? 0 : st == SHOAL_STOPPED ? 1 : 2];
  const char *reason = st == SHOAL_OK || st == SHOAL_STOPPED ? shoal_status_text(st) : shoal_first_error();
  /* A run that was refused leaves the folder as it is; of several ranks that see it fail the first one speaks. */
  if (s->world.started && !shoal_folder_says_failed(&s->world.folder))
    (void)shoal_folder_status(&s->world.folder, state, shoal_status_exit_code(st), reason, s->run.step, s->clock.epoch);
}

shoal_status shoal_train(const shoal_train_args *args)
{
  shoal_session *s = calloc(1, sizeof *s);
  SHOAL_CHECK(s, SHOAL_ERR_MEM, "a session of %zu bytes", sizeof *s);
  shoal_stop_install();
  shoal_status st = prepare(s, args);
  bool prepared = st == SHOAL_OK;
  if (!prepared) {
    st = share_verdict(s, st);
  } else {
    shoal_session_report_start(s);
    st = train(s);
  }
  bool alone = !s->run.world || shoal_world_size(s->run.world) == 1;
  bool agreed = st == SHOAL_OK || s->meet.agreed || !prepared || alone;
  bool speaks = agreed ? !s->run.world || shoal_session_is_root(s) : st != SHOAL_ERR_PEER;
  if (speaks && s->world.folder.dir) write_end(s, st);
  if (!agreed) {
    (void)shoal_trace_flush(s->run.trace, true);
    if (st == SHOAL_ERR_PEER) sleep(2);
    if (speaks) shoal_folder_release(&s->world.folder);
    shoal_world_abort(s->run.world, shoal_status_exit_code(st));
  }
  if (prepared && (st == SHOAL_OK || st == SHOAL_STOPPED)) shoal_session_report_end(s, st);
  shoal_session_close(s);
  free(s);
  return st;
}
