/* The contents of a run's checkpoint; read by resume.c.
 *
 *   model/NAME            weights and statistics of the method's model, named tensors     any layout
 *   replica/K/weights     only where replicas differ                                      same layout
 *   replica/K/stats       running statistics of rank K
 *   replica/K/SLOT        optimizer state; replica/0 alone where replicas are equal, or the method trains parts now and
 *                         then: there it is the whole model's, and the parts are the method's to save
 *   replica/K/score       loss sum and samples of the epoch so far
 *   replica/K/judged      what a loss or an update of rank K is judged by: see numbers.c
 *   replica/K/place       epoch, position, steps: where every rank has samples of its own
 *                         arrays of two ranks that are equal are written once, under both names (ckpt/together)
 *   train/…               position, optimizer steps, schedule, seconds, data identity; network: the text of model.file
 *   method/…              whatever the method saves
 *
 * The file's own epoch and samples say how much all ranks together have consumed. */
#include "base/activity.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pause.h"
#include "ckpt/draft.h"
#include "ckpt/folder.h"
#include "train/network.h"
#include "train/session.h"
#include "train/stop.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  shoal_ckpt_writer *writer;
  shoal_backend *backend;
  const float *stats;
} stat_target;

static void put_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  stat_target *t = ctx;
  char full[SHOAL_NAME_MAX + 32];
  snprintf(full, sizeof full, "model/%s", name);
  shoal_ckpt_put_arena(t->writer, t->backend, full, 1, (uint64_t[]){ count }, t->stats + offset);
}

/* The tensors are assembled in scratch, or cut from a sum over ranks that has the same order. */
static void put_model(shoal_session *s, shoal_ckpt_writer *w)
{
  const shoal_model *m = s->run.model;
  const bool from_sum = shoal_session_saves_sum(s);
  shoal_ckpt_sum sum;
  if (from_sum) s->method->sum(&s->run, s->method_state, &sum);
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    char name[SHOAL_NAME_MAX + 8];
    uint64_t dims[SHOAL_MAX_DIMS];
    for (int d = 0; d < p->shape.ndim; d++) dims[d] = (uint64_t)p->shape.dim[d];
    snprintf(name, sizeof name, "model/%s", p->name);
    if (from_sum)
      shoal_ckpt_put_slice(w, &sum, name, p->shape.ndim, dims, p->offset);
    else
      shoal_ckpt_put_arena(w, s->run.backend, name, p->shape.ndim, dims, s->model.scratch->w + p->offset);
  }
  shoal_model_each_stat(m, put_stat, &(stat_target){ w, s->run.backend, s->model.scratch->stats });
}

static void put_replicas(shoal_session *s, shoal_ckpt_writer *w)
{
  shoal_run *r = &s->run;
  const shoal_optim *o = s->model.form.optim;
  if (!shoal_session_one_copy(s))
    shoal_ckpt_put_arena_replica(w, r->backend, "weights", r->form->params->n, r->form->params->w);
  for (int i = 0; i < o->slots; i++) {
    const char *slot = shoal_optim_slot_name(o, i);
    char name[64];
    snprintf(name, sizeof name, "replica/0/%s", slot);
    if (shoal_session_one_copy(s))
      shoal_ckpt_put_arena(w, r->backend, name, 1, (uint64_t[]){ o->n }, o->slot[i]);
    else
      shoal_ckpt_put_arena_replica(w, r->backend, slot, o->n, o->slot[i]);
  }
  /* collective: parts without statistics contribute none */
  if (s->run.model->stats || shoal_session_cuts(s))
    shoal_ckpt_put_arena_replica(w, r->backend, "stats", r->form->params->n_stats, r->form->params->stats);
  double score[] = { s->clock.loss_sum, s->clock.samples };
  shoal_ckpt_put_replica(w, "score", SHOAL_F64, SHOAL_COUNT(score), score);
  shoal_numbers_put(s, w);
}

static void put_place(shoal_session *s, shoal_ckpt_writer *w)
{
  int64_t place[SHOAL_PLACES] = { [SHOAL_PLACE_EPOCH] = (int64_t)s->clock.epoch,
                                  [SHOAL_PLACE_POSITION] = (int64_t)s->clock.position,
                                  [SHOAL_PLACE_STEP] = (int64_t)s->run.step,
                                  [SHOAL_PLACE_OPTIMIZER_STEPS] = (int64_t)s->run.form->optim->steps };
  if (shoal_session_strided(s)) shoal_ckpt_put_replica(w, "place", SHOAL_I64, SHOAL_PLACES, place);
}

/* Strided shares: samples of one rank in an epoch. */
static uint64_t share_of(const shoal_session *s, uint64_t rank)
{
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), n = shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN];
  return SHOAL_MIN((n - rank + p - 1) / p, s->data.epoch_end);
}

/* Samples of one epoch over all ranks. */
static uint64_t whole_epoch(const shoal_session *s)
{
  uint64_t sum = 0;
  for (uint64_t r = 0; r < (uint64_t)shoal_world_size(s->run.world); r++) sum += share_of(s, r);
  return SHOAL_MAX(sum, UINT64_C(1));
}

/* Sums what all ranks have consumed, as epochs and samples, and averages their steps.  Collective. */
static shoal_status sum_places(shoal_session *s, shoal_ckpt_info *info)
{
  int64_t sums[2] = { 0, (int64_t)s->run.step };
  info->step = s->run.step;
  info->epoch = s->clock.epoch;
  info->samples = s->clock.position;
  if (!shoal_session_strided(s)) return SHOAL_OK;
  uint64_t own = share_of(s, (uint64_t)shoal_world_rank(s->run.world)), whole = whole_epoch(s);
  sums[0] = (int64_t)(s->clock.epoch * own + SHOAL_MIN(s->clock.position, own));
  SHOAL_TRY(shoal_group_sum_i64(s->run.control, sums, SHOAL_COUNT(sums)));
  info->epoch = (uint64_t)sums[0] / whole;
  info->samples = (uint64_t)sums[0] % whole;
  info->step = (uint64_t)sums[1] / (uint64_t)shoal_world_size(s->run.world);
  return SHOAL_OK;
}

/* What the model was read from: its file may be elsewhere, or another one by then. */
static void put_network(const shoal_session *s, shoal_ckpt_writer *w)
{
  const char *text = s->run.model->text;
  const uint64_t bytes = text ? strlen(text) : 0;
  if (text) shoal_ckpt_put(w, SHOAL_NETWORK_TEXT, SHOAL_U8, 1, &bytes, text);
}

/* What tokens are, for predictions: the data set may be elsewhere by then. */
static void put_vocabulary(const shoal_session *s, shoal_ckpt_writer *w)
{
  const char *text = shoal_dataset_vocabulary_text(s->data.set);
  const uint64_t bytes = text ? strlen(text) : 0;
  if (text) shoal_ckpt_put(w, SHOAL_CKPT_VOCABULARY, SHOAL_U8, 1, &bytes, text);
}

static void put_train(shoal_session *s, shoal_ckpt_writer *w)
{
  const uint64_t sums = s->data.n_sums;
  shoal_ckpt_put_i64(w, "train/optimizer_steps", (int64_t)s->model.form.optim->steps);
  shoal_ckpt_put_f64(w, "train/seconds", s->clock.seconds + shoal_worked_since(s->clock.started_ns));
  shoal_ckpt_put_f64(w, "train/plateau_best", s->model.plateau.best);
  shoal_ckpt_put_f64(w, "train/plateau_scale", s->model.plateau.scale);
  shoal_ckpt_put_i64(w, "train/plateau_bad", s->model.plateau.bad);
  shoal_ckpt_put_i64(w, "train/plateau_seen", s->model.plateau.seen);
  shoal_ckpt_put_i64(w, "train/data_checksum", shoal_dataset_info(s->data.set)->checksum);
  shoal_ckpt_put_i64(w, "train/data_samples", (int64_t)shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN]);
  shoal_ckpt_put(w, "train/data_sums", SHOAL_U32, 1, &sums, s->data.sums);
  shoal_ckpt_put_i64(w, "train/seed", (int64_t)s->run.seed);
  if (s->model.weights_checksum >= 0) shoal_ckpt_put_i64(w, "train/weights_checksum", s->model.weights_checksum);
  shoal_ckpt_put_f64(w, "record/rate", s->clock.rate);
  shoal_ckpt_put_i64(w, "record/rows", s->world.folder.metrics ? shoal_rows_count(s->world.folder.metrics) : 0);
  shoal_ckpt_put_i64(w, "record/row_step", s->record.row_step == UINT64_MAX ? -1 : (int64_t)s->record.row_step);
  if (s->record.from >= 0) shoal_ckpt_put_i64(w, "record/from", s->record.from);
  shoal_session_put_best(s, w);
  if (s->numbers.rollbacks) shoal_ckpt_put_i64(w, "train/rollbacks", (int64_t)s->numbers.rollbacks);
}

/* Puts everything, in the same order for a writer that measures and for one that writes; ranks agree on the status. */
static shoal_status put_all(shoal_session *s, shoal_ckpt_writer *w)
{
  put_model(s, w);
  put_replicas(s, w);
  put_place(s, w);
  put_train(s, w);
  put_network(s, w);
  put_vocabulary(s, w);
  return shoal_group_agree(s->run.control, s->method->save ? s->method->save(&s->run, s->method_state, w) : SHOAL_OK);
}

/* Size in bytes, including the state that the method saves, which only the method knows; and what this rank writes of it, at most. */
static shoal_status measure(shoal_session *s, uint64_t *bytes, uint64_t *own)
{
  shoal_ckpt_writer *w;
  SHOAL_TRY(shoal_ckpt_measure(s->run.control, s->run.copies, &w));
  shoal_status st = put_all(s, w);
  if (st == SHOAL_OK) return shoal_ckpt_measured(w, bytes, own);
  shoal_ckpt_abandon(w);
  return st;
}

/* Where every rank has the same failure.  One of the disk is told to who can go on without this checkpoint. */
static shoal_status failed_alike(shoal_session *s, shoal_status st)
{
  s->meet.agreed = true;
  s->record.save_failed = st == SHOAL_ERR_IO;
  return st;
}

/* Asked by each rank that writes a file, before that gets its name.  A delay for tests comes before the main file's. */
static shoal_status may_save(void *session)
{
  const shoal_session *s = session;
  if (s->faults.ckpt_s > 0 && shoal_session_is_root(s)) usleep((useconds_t)(s->faults.ckpt_s * 1e6));
  return shoal_folder_check(&s->world.folder);
}

/* On rank 0, by the thread that has written the checkpoint. */
static void after_save(void *session, const char *path, bool beside)
{
  shoal_session *s = session;
  shoal_session_saving *v = &s->saving;
  uint64_t launched = atomic_load(&v->launched_ns);
  v->seconds = shoal_worked_since(v->began_ns);
  if (beside && launched)
    shoal_info("checkpoint %s, %.2f s, for %.2f s of which training waited%s", path, v->seconds,
               (double)(launched - v->began_ns) * 1e-9, v->again);
  else
    shoal_info("checkpoint %s, %.2f s%s", path, v->seconds, v->again);
  if (v->stops) shoal_session_tell_saved(s, v->file_step);
  if (v->best && beside) shoal_error_keep(&v->failure, shoal_ckpt_keep_best(path));
  shoal_session_prune(s, v->file_step);
}

void shoal_session_prune(shoal_session *s, uint64_t step)
{
  shoal_status st = shoal_ckpt_prune(s->world.folder.ckpt, s->world.choice.keep, (int64_t)step);
  if (st != SHOAL_OK && !s->record.unpruned)
    shoal_warn("%s; more checkpoints than ckpt.keep stay, training goes on", shoal_error_text(st));
  s->record.unpruned = st != SHOAL_OK;
}

/* ---- the checkpoint that is being written ---- */

/* All ranks, once it is there. */
static shoal_status book(shoal_session *s, char *path)
{
  shoal_session_saving *v = &s->saving;
  shoal_error failure = v->failure;
  s->clock.saved_step = v->step;
  s->clock.saved_epoch = v->epoch;
  s->clock.saved_row_step = v->row_step;
  s->clock.saved_any = true;
  free(s->clock.saved_path);
  s->clock.saved_path = path;
  s->record.save_s = SHOAL_MAX(s->record.save_s, v->seconds);
  if (shoal_session_is_root(s)) {
    shoal_session_note_lead(s);
    if (!s->ears.saved) shoal_session_refresh_status(s, "running", "");
  }
  shoal_error_keep(&failure, shoal_session_count_traces(s));
  return shoal_group_agree(s->run.control, failure.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&failure));
}

static void record_span(shoal_session *s, uint64_t since_ns)
{
  shoal_trace_span(s->run.trace, SHOAL_TRACE_CHECKPOINT, shoal_trace_op(s->run.trace, "checkpoint"), since_ns,
                   shoal_now_ns());
  shoal_session_flush_trace(s, true);
}

/* @param since_ns  training waits */
static shoal_status join_save(shoal_session *s, uint64_t since_ns)
{
  char *path;
  shoal_ckpt_writer *w = s->saving.writer;
  s->saving.writer = NULL;
  shoal_status st = shoal_ckpt_join(w, &path);
  s->saving.best = false;
  if (st != SHOAL_OK) return failed_alike(s, st);
  shoal_session_drop_whole(s);
  record_span(s, since_ns);
  return book(s, path);
}

shoal_status shoal_session_finish_save(shoal_session *s)
{
  if (!s->saving.writer) return SHOAL_OK;
  s->record.save_failed = false;
  shoal_activity_begin(true, "finishing the checkpoint of step %llu in %s", (unsigned long long)s->saving.step,
                       s->world.folder.ckpt);
  shoal_status st = join_save(s, shoal_now_ns());
  shoal_activity_end();
  if (st == SHOAL_OK || !s->record.save_failed || !s->world.choice.retries_save) return st;
  s->meet.agreed = false;
  if (!shoal_session_is_root(s)) return SHOAL_OK;
  shoal_error_report(st); /* of a single rank: nobody has */
  shoal_warn("there is no checkpoint of step %llu: training has gone on meanwhile (ckpt.failure: retry)",
             (unsigned long long)s->saving.step);
  return SHOAL_OK;
}

void shoal_session_abandon_save(shoal_session *s)
{
  shoal_ckpt_abandon(s->saving.writer);
  s->saving.writer = NULL;
  shoal_ckpt_copies_free(&s->saving.copies);
}

static void tell_launched(const shoal_session *s, const shoal_ckpt_launched *l)
{
  char amount[32];
  if (!shoal_session_is_root(s)) return;
  shoal_format_bytes((double)l->bytes, amount, sizeof amount);
  if (l->lacks_memory)
    shoal_warn(
        "the checkpoint of step %llu is written while training waits: a rank has no memory for a copy of what it "
        "writes, %s at most (ckpt.beside)",
        (unsigned long long)s->run.step, amount);
  else if (l->beside && !s->clock.saved_any)
    shoal_info("checkpoints are written beside the training, from a copy of at most %s in the memory of each rank "
               "(ckpt.beside)",
               amount);
}

/* @param last  nobody goes on without it: it is waited for */
static shoal_status launch(shoal_session *s, shoal_ckpt_writer *w, bool last)
{
  shoal_ckpt_launched l;
  shoal_ckpt_how how = { .gather = s->world.choice.gather_bytes,
                         .beside = last ? SHOAL_CKPT_NEVER : s->world.choice.beside,
                         .copies = &s->saving.copies,
                         .done = after_save,
                         .context = s };
  shoal_status st = shoal_ckpt_launch(w, &how, &l);
  if (st != SHOAL_OK) return failed_alike(s, st);
  s->saving.writer = w;
  s->clock.saved_ns = shoal_now_ns();
  atomic_store(&s->saving.launched_ns, s->clock.saved_ns);
  tell_launched(s, &l);
  if (!l.beside) return join_save(s, s->saving.began_ns);
  shoal_session_drop_whole(s);
  record_span(s, s->saving.began_ns);
  return SHOAL_OK;
}

/* Why there is another checkpoint of the same step; "" for its first one. */
static const char *what_is_new(const shoal_session *s)
{
  if (!s->clock.saved_any || s->clock.saved_step != s->run.step) return "";
  return s->clock.saved_row_step != s->record.row_step ? "; it replaces the one before this step's evaluation"
                                                       : "; it replaces the one before the end of the epoch";
}

/* A checkpoint that is due comes before the evaluation of its step; only the run's last one has to know of its row, too. */
static shoal_status save(shoal_session *s, bool last)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_session_finish_save(s));
  int64_t news = !s->clock.saved_any || s->clock.saved_step != r->step || s->clock.saved_epoch != s->clock.epoch ||
                 (last && s->clock.saved_row_step != s->record.row_step);
  SHOAL_TRY(s->meet.way->share_news(s, &news));
  if (!news) return SHOAL_OK;
  SHOAL_TRY(shoal_numbers_agree(s));
  uint64_t t0 = shoal_now_ns(), need, own;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_session_assemble_to_save(s));
  SHOAL_TRY(shoal_numbers_check_saved(s));
  SHOAL_TRY(shoal_session_check_alike(s));
  SHOAL_TRY(measure(s, &need, &own));
  if (shoal_session_is_root(s)) /* a folder that was moved away is not made again */
    st = shoal_folder_check(&s->world.folder);
  if (st == SHOAL_OK && s->world.folder.metrics) { /* rows first: a checkpoint must not tell of what is lost */
    shoal_folder_renew(&s->world.folder);
    st = shoal_rows_flush(s->world.folder.metrics);
  }
  if ((st = shoal_group_settle(r->control, st)) != SHOAL_OK) return failed_alike(s, st);
  shoal_str config = { 0 };
  shoal_json placement = { .lines = 2 };
  shoal_config_print(s->world.config, &config);
  shoal_topo_put_json(shoal_world_topo(r->world), &placement, NULL);
  shoal_ckpt_info info = { .size = shoal_world_size(r->world),
                           .config = config.text,
                           .placement = placement.text.text };
  info.data = shoal_session_describe_data(s);
  info.may = may_save;
  info.context = s;
  st = sum_places(s, &info);
  snprintf(info.run, sizeof info.run, "%s", shoal_config_string(s->world.config, "run.name"));
  snprintf(info.method, sizeof info.method, "%s", s->method->name);
  snprintf(info.model, sizeof info.model, "%s", s->run.model->name);
  shoal_topo_layout_text(shoal_world_topo(r->world), info.layout, sizeof info.layout);
  shoal_topo_layout_hash(shoal_world_topo(r->world), info.layout_hash);
  shoal_ckpt_writer *w;
  bool summed = st == SHOAL_OK;
  if (summed) st = shoal_ckpt_begin(r->control, s->world.folder.ckpt, &info, need, &w);
  shoal_str_free(&config);
  shoal_str_free(&placement.text);
  if (st != SHOAL_OK) return summed ? failed_alike(s, st) : st; /* begin failed */
  st = put_all(s, w);
  if (st != SHOAL_OK) {
    shoal_ckpt_abandon(w);
    return st;
  }
  shoal_session_saving *v = &s->saving; /* no thread looks at it before it is launched */
  *v = (shoal_session_saving){
    .copies = v->copies, .best = v->best, .stops = last && s->ears.stops, .began_ns = t0, .file_step = info.step
  };
  v->step = r->step;
  v->epoch = s->clock.epoch;
  v->row_step = s->record.row_step;
  v->again = what_is_new(s);
  return launch(s, w, last);
}

static shoal_status save_announced(shoal_session *s, bool last)
{
  shoal_activity_begin(true, "saving the checkpoint of step %llu in %s", (unsigned long long)s->run.step,
                       s->world.folder.ckpt);
  shoal_status st = save(s, last);
  shoal_activity_end();
  return st;
}

/* @param again  out, whether it failed on all ranks for want of room, or by an error of the disk, and ckpt.failure lets it */
static shoal_status try_save(shoal_session *s, bool last, bool *again)
{
  s->record.save_failed = false;
  shoal_status st = save_announced(s, last);
  *again = st != SHOAL_OK && s->record.save_failed && s->world.choice.retries_save;
  return st;
}

/* After a save that failed on all ranks: as if it had not been tried. */
static void forget_save(shoal_session *s)
{
  s->meet.agreed = false;
  shoal_session_drop_whole(s);
}

/* ---- the last save, where nothing can go on without it ---- */

/* At a stop somebody waits, and may kill the run; at the end nobody does, and the allocation is only idle. */
enum { AT_STOP_S = 60, AT_END_S = 600, BETWEEN_S = 5, NAP_US = 200000 };

typedef struct {
  uint64_t began_ns;
  int limit_s, signals;
} patience;

static void tell_wait(const shoal_session *s, int limit_s)
{
  char until[16], saved[48] = "there is none yet";
  time_t end = time(NULL) + limit_s;
  struct tm when;
  strftime(until, sizeof until, "%H:%M:%S", localtime_r(&end, &when));
  if (s->clock.saved_any)
    snprintf(saved, sizeof saved, "the newest is of step %llu", (unsigned long long)s->clock.saved_step);
  shoal_warn(
      "the last checkpoint, of step %llu, is tried again every %d s until %s, for %d s: make room; another signal ends "
      "the wait; %s (ckpt.failure: retry)",
      (unsigned long long)s->run.step, BETWEEN_S, until, limit_s, saved);
}

/* All ranks wait together, so that nobody takes it for a hang; *over if there is no time for another try, or a signal came.  One
 * signal may reach the ranks at different times, so those of the first seconds do not count. */
static shoal_status wait_for_room(shoal_session *s, patience *p, bool *over)
{
  enum { ON, TRY, END };
  uint64_t t0 = shoal_now_ns();
  for (int64_t what = ON; what == ON;) {
    usleep(NAP_US);
    if (shoal_seconds_since(p->began_ns) < 2) p->signals = shoal_stop_count();
    if (shoal_session_is_root(s) && shoal_seconds_since(t0) >= BETWEEN_S) what = TRY;
    if (shoal_session_is_root(s) && shoal_seconds_since(p->began_ns) >= p->limit_s) what = END;
    if (shoal_stop_count() > p->signals) what = END;
    SHOAL_TRY(shoal_group_agree_max(s->run.control, "room", &what));
    *over = what == END;
  }
  return SHOAL_OK;
}

/* After a first try that failed with `st`, the thread's error. */
static shoal_status save_again(shoal_session *s, shoal_status st, bool stops)
{
  patience p = { .began_ns = shoal_now_ns(), .limit_s = stops ? AT_STOP_S : AT_END_S };
  bool again = true, over = false;
  if (shoal_session_is_root(s)) {
    shoal_error_report(st); /* of a single rank: nobody has */
    tell_wait(s, p.limit_s);
  }
  for (int tries = 2; again; tries++) {
    forget_save(s);
    SHOAL_TRY(wait_for_room(s, &p, &over));
    st = try_save(s, true, &again);
    if (st == SHOAL_OK || !over) continue;
    if (shoal_session_is_root(s))
      shoal_warn("the last checkpoint was tried %d times in %.0f s: the run ends without it", tries,
                 shoal_seconds_since(p.began_ns));
    return st;
  }
  return st;
}

shoal_status shoal_session_save_last(shoal_session *s, bool stops)
{
  bool again;
  shoal_status st = try_save(s, true, &again);
  return again ? save_again(s, st, stops) : st;
}

/* ---- saves in between ---- */

shoal_status shoal_session_save_due(shoal_session *s)
{
  bool again;
  shoal_status st = try_save(s, false, &again);
  if (!again) return st;
  shoal_error failure;
  shoal_error_take(&failure);
  int64_t goes_on = !shoal_session_reached_end(s);
  SHOAL_TRY(shoal_group_agree_max(s->run.control, "end", &goes_on));
  st = shoal_error_put(&failure);
  if (!goes_on) return save_again(s, st, false);
  forget_save(s);
  s->clock.saved_ns = shoal_now_ns();
  if (!shoal_session_is_root(s)) return SHOAL_OK;
  shoal_error_report(st); /* of a single rank: nobody has */
  bool trained = (double)s->clock.epoch + 1 >= s->run.epochs && s->clock.position >= s->data.epoch_end;
  const char *next = trained ? "the last save is still to come" : "training goes on";
  if (s->clock.saved_any)
    shoal_warn("there is no checkpoint of step %llu: %s, and the last one is of step %llu (ckpt.failure: retry)",
               (unsigned long long)s->run.step, next, (unsigned long long)s->clock.saved_step);
  else
    shoal_warn("there is no checkpoint of step %llu: %s without any of this start (ckpt.failure: retry)",
               (unsigned long long)s->run.step, next);
  return SHOAL_OK;
}

/* ---- before the training ---- */

/* Checkpoints that are there will be replaced, one by one, so the room they take counts. */
static shoal_status compare_room(const shoal_session *s, uint64_t need)
{
  const char *type, *dir = s->world.folder.ckpt;
  char one[32], all[32], have[32];
  uint64_t free_bytes, keep = (uint64_t)s->world.choice.keep, there = 0;
  shoal_ckpt_folder files;
  SHOAL_TRY(shoal_folder_check_writable(&s->world.folder));
  char *path = shoal_path_join(dir, "step.h5");
  bool shards = need > s->world.choice.gather_bytes; /* possibly; how large each is, only the save decides */
  shoal_status st = shoal_ckpt_check_space(path, need, shards ? shoal_group_size(s->run.control) : 1);
  free(path);
  SHOAL_TRY(st);
  if (need > shoal_limit_file_size())
    shoal_warn("a checkpoint of about %s may not fit, with its shards: a file may have %s at most (ulimit -f)",
               shoal_format_bytes((double)need, one, sizeof one),
               shoal_format_bytes((double)shoal_limit_file_size(), have, sizeof have));
  SHOAL_TRY(shoal_disk_facts(dir, &free_bytes, &type));
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &files));
  there = SHOAL_MIN(files.n, keep);
  shoal_ckpt_folder_free(&files);
  double room = (double)need * (double)(keep + 1 - there);
  if (room > (double)free_bytes)
    shoal_warn(
        "%llu more checkpoints of about %s (ckpt.keep, and the one being written) need %s, but %s is free on %s in %s: "
        "make room, lower ckpt.keep, or move run.dir",
        (unsigned long long)(keep + 1 - there), shoal_format_bytes((double)need, one, sizeof one),
        shoal_format_bytes(room, all, sizeof all), shoal_format_bytes((double)free_bytes, have, sizeof have), type,
        dir);
  return SHOAL_OK;
}

/* For the first save, if one is due before the end; of a device's memory nothing is borrowed, and so nothing is copied. */
static void prepare_copies(shoal_session *s, uint64_t bytes)
{
  enum { TO_ALIGN = 1 << 20 }; /* of 64 bytes for each array */
  const shoal_ckpt_beside beside = s->world.choice.beside;
  if (beside == SHOAL_CKPT_NEVER || (beside == SHOAL_CKPT_AUTO && bytes < SHOAL_CKPT_LARGE)) return;
  if (s->run.backend->host_memory && s->world.choice.save_every.unit != SHOAL_PER_NEVER)
    shoal_ckpt_copies_prepare(&s->saving.copies, (size_t)bytes + TO_ALIGN);
}

shoal_status shoal_session_check_room(shoal_session *s)
{
  uint64_t need, own;
  if (shoal_session_reached_end(s)) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_make_whole(s)));
  shoal_status st = measure(s, &need, &own);
  shoal_session_drop_whole(s);
  SHOAL_TRY(st);
  prepare_copies(s, own);
  return shoal_group_agree(s->run.control, shoal_session_is_root(s) ? compare_room(s, need) : SHOAL_OK);
}
