/* Resuming from a checkpoint (see save.c for its contents).
 *
 * The same layout (which ranks share a node, and so rank count) resumes to the same bits.  Another one continues the
 * same global sample order from the model: for equal replicas nothing is lost but the ranks' own running statistics,
 * which start from their mean.  Where each rank takes samples of its own, another number of them shares out evenly what
 * all together had consumed.  Another method takes the model and, where there is one of the whole model, the
 * optimizer's state; what else the first one knew is named in the log, for it is lost. */
#include "base/activity.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "train/network.h"
#include "train/session.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Logs an option that has changed since the checkpoint. */
static void report_change(void *ctx, const char *name, const char *was, const char *is)
{
  (void)ctx;
  shoal_info("changed since the checkpoint: %s: %s (%s%s)", name, is, was ? "was " : "not set then", was ? was : "");
}

/* Whether rank `owner` saved an optimizer slot of n elements; that of a part of the model has another size. */
static bool has_slot(const shoal_session *s, const shoal_ckpt *c, int owner, int slot, size_t n)
{
  char name[96];
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  snprintf(name, sizeof name, "replica/%d/%s", owner, shoal_optim_slot_name(s->model.form.optim, slot));
  return shoal_ckpt_has(c, name) && shoal_ckpt_shape(c, name, &type, &ndim, dims) == SHOAL_OK && ndim == 1 &&
         dims[0] == n;
}

static shoal_status get_slot(const shoal_session *s, const shoal_ckpt *c, int owner, int slot, size_t n, float *out)
{
  char name[96];
  snprintf(name, sizeof name, "replica/%d/%s", owner, shoal_optim_slot_name(s->model.form.optim, slot));
  return shoal_ckpt_get_arena(c, s->run.backend, name, n, out);
}

/* Another layout continues with the mean of the replicas' optimizer states, as it does with the mean of their weights:
 * for momentum that is what the mean of the replicas would have.  Equal replicas saved one, which is its own mean.
 * Collective. */
static shoal_status get_mean_slot(shoal_session *s, const shoal_ckpt *c, int slot, size_t n, float *out, bool *found)
{
  return shoal_session_mean_of_replicas(s, c, shoal_optim_slot_name(s->model.form.optim, slot), n, out, found);
}

static shoal_status get_optimizer_steps(shoal_session *s, const shoal_ckpt *c)
{
  int64_t steps;
  SHOAL_TRY(shoal_ckpt_get_count(c, "train/optimizer_steps", 0, SHOAL_CKPT_MOST, &steps));
  s->model.form.optim->steps = (uint64_t)steps;
  return SHOAL_OK;
}

/* Reads this rank's own optimizer state, or the mean over all; the latter is collective. */
static shoal_status get_optimizer(shoal_session *s, const shoal_ckpt *c, bool own)
{
  shoal_optim *o = s->model.form.optim;
  int rank = shoal_world_rank(s->run.world);
  for (int i = 0; i < o->slots; i++) {
    bool found = own && has_slot(s, c, rank, i, o->n);
    if (!own)
      SHOAL_TRY(get_mean_slot(s, c, i, o->n, o->slot[i], &found));
    else if (found)
      SHOAL_TRY(get_slot(s, c, rank, i, o->n, o->slot[i]));
    if (!found) {
      shoal_info("the checkpoint has no %s of the whole model: the optimizer is reset", shoal_optim_slot_name(o, i));
      return SHOAL_OK;
    }
  }
  return get_optimizer_steps(s, c);
}

/* A method that trains parts takes its part of the whole model's weights and, if saved, optimizer state. */
static shoal_status cut_weights(shoal_session *s, const shoal_ckpt *c)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_session_make_whole(s));
  SHOAL_TRY(shoal_weights_read(r->backend, r->model, c, s->model.scratch));
  SHOAL_TRY(s->method->adopt(r, s->method_state, 0, s->model.scratch->w));
  return shoal_model_gather_stats(r->backend, r->model, r->form->model, s->model.scratch->stats,
                                  r->form->params->stats);
}

/* Collective. */
static shoal_status cut_model(shoal_session *s, const shoal_ckpt *c)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_group_agree(r->control, cut_weights(s, c)));
  bool found = s->model.form.optim->slots > 0;
  for (int i = 0; found && i < s->model.form.optim->slots; i++) {
    SHOAL_TRY(get_mean_slot(s, c, i, s->run.model->weights, s->model.scratch->w, &found));
    shoal_status st = found && i == 0 ? get_optimizer_steps(s, c) : SHOAL_OK; /* the method may still reset them */
    if (found && st == SHOAL_OK) st = s->method->adopt(r, s->method_state, 1 + i, s->model.scratch->w);
    SHOAL_TRY(shoal_group_agree(r->control, st));
  }
  shoal_session_drop_whole(s);
  return SHOAL_OK;
}

/* Reads each rank's own position, if ranks have one. */
static shoal_status get_place(shoal_session *s, const shoal_ckpt *c)
{
  char name[64];
  int64_t place[SHOAL_PLACES];
  snprintf(name, sizeof name, "replica/%d/place", shoal_world_rank(s->run.world));
  if (!shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_counts(c, name, SHOAL_PLACES, 0, SHOAL_CKPT_MOST, place));
  s->clock.epoch = (uint64_t)place[SHOAL_PLACE_EPOCH];
  s->clock.position = SHOAL_MIN((uint64_t)place[SHOAL_PLACE_POSITION], s->data.epoch_samples);
  s->run.step = (uint64_t)place[SHOAL_PLACE_STEP];
  s->run.form->optim->steps = (uint64_t)place[SHOAL_PLACE_OPTIMIZER_STEPS];
  return SHOAL_OK;
}

static shoal_status get_own(shoal_session *s, const shoal_ckpt *c)
{
  shoal_run *r = &s->run;
  int rank = shoal_world_rank(r->world);
  char name[96];
  double score[2];
  if (r->form->params->n_stats) {
    snprintf(name, sizeof name, "replica/%d/stats", rank);
    SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, name, r->form->params->n_stats, r->form->params->stats));
  }
  if (!shoal_session_one_copy(s)) {
    snprintf(name, sizeof name, "replica/%d/weights", rank);
    SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, name, r->form->params->n, r->form->params->w));
  }
  snprintf(name, sizeof name, "replica/%d/score", rank);
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, 2, score));
  s->clock.loss_sum = score[0];
  s->clock.samples = score[1];
  SHOAL_TRY(shoal_numbers_get(s, c));
  return get_place(s, c);
}

/* Another layout: the scores of this epoch so far are summed on rank 0. */
static shoal_status get_scores(shoal_session *s, const shoal_ckpt *c)
{
  for (int64_t k = 0; shoal_session_is_root(s) && k < shoal_ckpt_get_info(c)->size; k++) {
    char name[64];
    double score[2];
    snprintf(name, sizeof name, "replica/%lld/score", (long long)k);
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, 2, score));
    s->clock.loss_sum += score[0];
    s->clock.samples += score[1];
  }
  return SHOAL_OK;
}

/* Which checkpoint the run that saved this one began from, as in s->record.from; older files do not tell. */
static shoal_status get_from(const shoal_ckpt *c, int64_t *from)
{
  *from = -1;
  return shoal_ckpt_has(c, "record/from") ? shoal_ckpt_get_count(c, "record/from", 0, UINT32_MAX, from) : SHOAL_OK;
}

/* What metrics.csv had when the checkpoint was saved; older ones do not tell. */
static shoal_status get_rows(shoal_session *s, const shoal_ckpt *c)
{
  int64_t step;
  s->record.rows_kept = SHOAL_ROWS_BY_STEP;
  s->record.row_step = shoal_ckpt_get_info(c)->step;
  if (!s->world.resumes_own) s->record.rows_kept = 0; /* another run's */
  if (!shoal_ckpt_has(c, "record/rows")) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_count(c, "record/row_step", -1, SHOAL_CKPT_MOST, &step));
  SHOAL_TRY(shoal_ckpt_get_real(c, "record/rate", 0, DBL_MAX, &s->clock.rate));
  s->record.row_step = step < 0 ? UINT64_MAX : (uint64_t)step;
  return s->world.resumes_own ? shoal_ckpt_get_count(c, "record/rows", 0, SHOAL_CKPT_MOST, &s->record.rows_kept)
                              : SHOAL_OK;
}

/* How many of the samples that a checkpoint has check sums of are others now; none are compared with one from before it had them. */
static shoal_status count_others(const shoal_session *s, const shoal_ckpt *c, size_t *compared, size_t *others)
{
  const size_t n = s->data.n_sums;
  uint32_t *sums;
  *compared = *others = 0;
  if (!shoal_ckpt_has(c, "train/data_sums")) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(n, &sums));
  shoal_status st = shoal_ckpt_get(c, "train/data_sums", SHOAL_U32, n, sums);
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) *others += sums[i] != s->data.sums[i];
  free(sums);
  *compared = n;
  return st;
}

/* The data set of the checkpoint, or one of as many samples, if the user says that it was changed: a bad value was mended.  The order
 * of samples is that of their numbers, so it goes on.  Samples most of which are others were not mended.  Checkpoints from before the
 * number was saved do not tell it. */
static shoal_status check_data(const shoal_session *s, const shoal_ckpt *c)
{
  const shoal_data_info *data = shoal_dataset_info(s->data.set);
  const char *path = shoal_dataset_path(s->data.set), *change = shoal_config_string(s->world.config, "data.changed");
  const unsigned long long n = (unsigned long long)data->n[SHOAL_TRAIN];
  int64_t then, samples = (int64_t)data->n[SHOAL_TRAIN];
  size_t compared, others;
  char found[96] = "";
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/data_checksum", &then));
  if ((uint32_t)then == data->checksum) return SHOAL_OK;
  if (shoal_ckpt_has(c, "train/data_samples"))
    SHOAL_TRY(shoal_ckpt_get_count(c, "train/data_samples", 0, SHOAL_CKPT_MOST, &samples));
  SHOAL_CHECK(
      (uint64_t)samples == data->n[SHOAL_TRAIN], SHOAL_ERR_USAGE,
      "data.file %s is not the data set this run was trained on: it has %llu training samples and checksum %08x, "
      "that one had %lld and %08x; give the same file, or choose another run.name (and model.weights, to begin "
      "with these weights)",
      path, n, (unsigned)data->checksum, (long long)samples, (unsigned)(uint32_t)then);
  SHOAL_TRY(count_others(s, c, &compared, &others));
  if (compared) snprintf(found, sizeof found, ", and %zu of %zu that were compared are others", others, compared);
  SHOAL_CHECK(2 * others <= compared, SHOAL_ERR_USAGE,
              "data.file %s is not the data set this run was trained on: its %llu training samples are as many%s; give "
              "the same file, or choose another run.name (and model.weights, to begin with these weights)",
              path, n, found);
  SHOAL_CHECK(strcmp(change, "accept") == 0, SHOAL_ERR_USAGE,
              "data.file %s was changed since this run was trained on it: it has %llu training samples and checksum "
              "%08x, then it had %08x%s; give the same file, or if samples were mended, set "
              "data.changed to accept: the run goes on with them",
              path, n, (unsigned)data->checksum, (unsigned)(uint32_t)then, found);
  if (shoal_session_is_root(s))
    shoal_warn(
        "%s was changed since the checkpoint: its checksum was %08x and is %08x, its %llu training samples are as "
        "many as then%s; the run goes on with them (data.changed: accept)",
        path, (unsigned)(uint32_t)then, (unsigned)data->checksum, n, found);
  return SHOAL_OK;
}

static shoal_status get_train(shoal_session *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  SHOAL_TRY(check_data(s, c));
  int64_t seed;
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/seed", &seed));
  SHOAL_CHECK((uint64_t)seed == s->run.seed, SHOAL_ERR_USAGE,
              "run.seed is %llu but the checkpoint was trained with %lld: the sample order would change in mid-run; "
              "set run.seed to %lld, or choose another run.name",
              (unsigned long long)s->run.seed, (long long)seed, (long long)seed);
  if (shoal_ckpt_has(c, "train/weights_checksum"))
    SHOAL_TRY(shoal_ckpt_get_count(c, "train/weights_checksum", 0, UINT32_MAX, &s->model.weights_checksum));
  SHOAL_TRY(shoal_ckpt_get_real(c, "train/seconds", 0, DBL_MAX, &s->clock.seconds));
  SHOAL_TRY(shoal_ckpt_get_real(c, "train/plateau_best", -HUGE_VAL, HUGE_VAL, &s->model.plateau.best));
  SHOAL_TRY(shoal_ckpt_get_real(c, "train/plateau_scale", 0, DBL_MAX, &s->model.plateau.scale));
  SHOAL_TRY(shoal_ckpt_get_count(c, "train/plateau_bad", 0, SHOAL_CKPT_MOST, &s->model.plateau.bad));
  SHOAL_TRY(shoal_ckpt_get_count(c, "train/plateau_seen", 0, SHOAL_CKPT_MOST, &s->model.plateau.seen));
  SHOAL_TRY(get_rows(s, c));
  s->record.from = shoal_ckpt_seal_checksum(c);
  if (s->world.resumes_own) SHOAL_TRY(get_from(c, &s->record.from));
  SHOAL_TRY(shoal_session_get_best(s, c));
  s->run.step = info->step;
  s->clock.epoch = info->epoch;
  s->clock.position = info->samples / (shoal_session_strided(s) ? (uint64_t)shoal_world_size(s->run.world) : 1);
  s->clock.position = SHOAL_MIN(s->clock.position, s->data.epoch_samples);
  return SHOAL_OK;
}

/* State that only the checkpoint's method can use; NULL: none. */
static const char *lost(const shoal_session *s, const shoal_ckpt_info *old)
{
  const shoal_method *m = shoal_method_find(old->method);
  return m && m != s->method ? m->memory : NULL;
}

/* Whether the same ranks share nodes as in the run that saved.  Files from before the hash was added have a placement.
 * Older ones have only the ranks per node: enough where all ranks hold the same weights, but the weights of nodes that
 * train apart could come to ranks of other nodes. */
static bool same_layout(const shoal_session *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *old = shoal_ckpt_get_info(c);
  const shoal_topo *t = shoal_world_topo(s->run.world);
  char now[SHOAL_LAYOUT_HASH], then[SHOAL_LAYOUT_HASH], text[sizeof old->layout];
  if (old->size != t->size) return false;
  shoal_topo_layout_hash(t, now);
  if (old->layout_hash[0]) return strcmp(old->layout_hash, now) == 0;
  if (old->placement && shoal_topo_read_layout(old->placement, old->size, then) == SHOAL_OK)
    return strcmp(then, now) == 0;
  shoal_topo_layout_text(t, text, sizeof text);
  if (strcmp(text, old->layout) != 0) return false;
  bool apart = shoal_ckpt_has(c, "replica/1/weights");
  if (apart)
    shoal_info(
        "the checkpoint does not tell which ranks shared a node, and their weights differ: it is taken for one of "
        "another layout");
  return !apart;
}

static void report_layout(const shoal_session *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *old = shoal_ckpt_get_info(c);
  char layout[sizeof old->layout];
  shoal_topo_layout_text(shoal_world_topo(s->run.world), layout, sizeof layout);
  bool optimizer = s->model.form.optim->steps > 0;
  bool mean =
      s->model.form.optim->slots > 0 && has_slot(s, c, 1, 0, s->run.model->weights); /* more than one was saved */
  shoal_info(
      "the layout changed: %lld rank%s (%s, method %s) then, %d rank%s (%s, method %s) now; weights%s and the sample "
      "order are kept, %s%s%s",
      (long long)old->size, old->size == 1 ? "" : "s", old->layout, old->method, shoal_world_size(s->run.world),
      shoal_world_size(s->run.world) == 1 ? "" : "s", layout, s->method->name,
      !optimizer ? ""
      : mean     ? ", the mean optimizer state"
                 : ", optimizer state",
      !shoal_session_cuts(s) ? "running statistics start from their mean"
      : optimizer            ? "the parts are cut again"
                             : "the parts are cut again and their optimizer state is reset",
      lost(s, old) ? "; lost: " : "", lost(s, old) ? lost(s, old) : "");
}

static void add_model_change(void *ctx, const char *name, const char *was, const char *is)
{
  shoal_str *out = ctx;
  if (strncmp(name, "model.", strlen("model.")) != 0) return;
  shoal_str_add(out, "%s%s is %s%s%s", out->len ? ", " : " (", name, is, was ? " and was " : ", not set then",
                was ? was : "");
}

static shoal_status match_model(const shoal_session *s, const shoal_ckpt *c)
{
  const char *config = shoal_ckpt_get_info(c)->config;
  shoal_str cure = { 0 }, changes = { 0 };
  shoal_status st =
      config ? shoal_config_changes(s->world.config, config, "the checkpoint's run file", add_model_change, &changes)
             : SHOAL_OK;
  shoal_str_add(&cure,
                "resume with the same model options%s%s, or train this one in a folder of its own: --set run.name=",
                changes.len ? changes.text : "", changes.len ? ")" : "");
  char *other = shoal_strdup_printf("%s-2", shoal_config_string(s->world.config, "run.name"));
  shoal_str_add_word(&cure, other);
  if (st == SHOAL_OK) st = shoal_weights_match(s->run.model, c, cure.text);
  free(other);
  shoal_str_free(&changes);
  shoal_str_free(&cure);
  return st;
}

/* What every rank reads by itself, of the run and of the whole model. */
static shoal_status load_common(shoal_session *s, const shoal_ckpt *c)
{
  SHOAL_TRY(get_train(s, c));
  SHOAL_TRY(match_model(s, c));
  return shoal_session_cuts(s) ? SHOAL_OK : shoal_weights_read(s->run.backend, s->run.model, c, s->model.form.params);
}

/* Collective. */
static shoal_status load(shoal_session *s)
{
  shoal_run *r = &s->run;
  const shoal_ckpt *c = s->world.resume;
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  bool same = same_layout(s, c) && strcmp(info->method, s->method->name) == 0 &&
              (!s->method->fits || s->method->fits(r, s->method_state, c));
  SHOAL_TRY(shoal_group_agree(r->control, load_common(s, c)));
  if (same || !shoal_session_cuts(s)) SHOAL_TRY(get_optimizer(s, c, same && !shoal_session_one_copy(s)));
  SHOAL_TRY(same ? get_own(s, c) : get_scores(s, c));
  if (s->method->load) SHOAL_TRY(s->method->load(r, s->method_state, c, same));
  if (shoal_session_cuts(s) && !same) SHOAL_TRY(cut_model(s, c));
  shoal_info("resumed from %s: %llu epoch%s and %llu sample%s done, step %llu", s->world.resume_path,
             (unsigned long long)info->epoch, info->epoch == 1 ? "" : "s", (unsigned long long)info->samples,
             info->samples == 1 ? "" : "s", (unsigned long long)info->step);
  if (!same) report_layout(s, c);
  if (shoal_session_is_root(s)) SHOAL_TRY(shoal_network_report_changes(s->run.model, c));
  if (!info->config) return SHOAL_OK;
  SHOAL_TRY(shoal_config_changes(s->world.config, info->config, "the checkpoint's run file", report_change, NULL));
  return shoal_session_report_rate(s, info->config);
}

/* A command that is repeated names a file again that the run in this folder has begun from: it goes on from its newest checkpoint,
 * *out, and nothing is lost.  A file of this folder is meant as it is said: to go back.  NULL: this is no such command. */
static shoal_status find_continuation(const shoal_session *s, const shoal_ckpt *named, char **out)
{
  const shoal_folder *f = &s->world.folder;
  const char *path = shoal_ckpt_path(named);
  uint64_t step;
  int64_t from = -1;
  char *own = NULL;
  shoal_ckpt *c = NULL;
  if (shoal_folder_holds(f, path)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_latest(f->ckpt, &own, &step));
  if (!own) return SHOAL_OK;
  shoal_status st = shoal_ckpt_open(own, false, &c);
  if (st == SHOAL_OK) st = get_from(c, &from);
  shoal_ckpt_close(c);
  if (st == SHOAL_OK && from == (int64_t)shoal_ckpt_seal_checksum(named)) {
    char *anew = shoal_folder_begin_anew(f);
    shoal_info("%s began from %s and goes on from its own step %llu; to begin from that file again, %s", f->dir, path,
               (unsigned long long)step, anew);
    free(anew);
    *out = own;
    own = NULL;
  }
  free(own);
  return st;
}

/* --resume FOLDER: which file of it may be meant. */
static shoal_status refuse_folder(const char *path)
{
  uint64_t step;
  char *newest = NULL, *inside = shoal_path_join(path, "ckpt");
  struct stat s;
  if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
    free(inside);
    return SHOAL_OK;
  }
  shoal_status st = shoal_ckpt_latest(stat(inside, &s) == 0 ? inside : path, &newest, &step);
  if (st == SHOAL_OK)
    st = SHOAL_FAIL(
        SHOAL_ERR_USAGE,
        "--resume %s: that is a folder; name a checkpoint%s%s, or leave --resume out to go on from the newest "
        "one of this run",
        path, newest ? ", as in --resume " : "", newest ? newest : "");
  free(newest);
  free(inside);
  return st;
}

/* Rank 0 chooses and verifies; all read the same file. */
static shoal_status choose(shoal_session *s, char *path, size_t cap)
{
  const char *resume = s->world.args->resume ? s->world.args->resume : "auto";
  if (s->numbers.rolls_back) resume = "auto"; /* its own newest; until it has one, as it was started */
  bool own = !s->numbers.rolls_back || shoal_folder_has_checkpoints(&s->world.folder);
  if (!own && s->world.args->resume) resume = s->world.args->resume;
  path[0] = 0;
  if (strcmp(resume, "never") == 0) return SHOAL_OK;
  char *found = NULL;
  if (strcmp(resume, "auto") == 0) {
    uint64_t step;
    SHOAL_TRY(shoal_ckpt_latest(s->world.folder.ckpt, &found, &step));
  } else {
    shoal_ckpt *c;
    SHOAL_TRY(refuse_folder(resume));
    SHOAL_TRY(shoal_ckpt_open(resume, true, &c));
    shoal_status st = find_continuation(s, c, &found);
    shoal_ckpt_close(c);
    SHOAL_TRY(st);
    if (!found) found = strdup(resume);
  }
  if (!found) return SHOAL_OK;
  bool fits = snprintf(path, cap, "%s", found) < (int)cap;
  free(found);
  SHOAL_CHECK(fits, SHOAL_ERR_USAGE, "the path of the checkpoint is longer than %zu characters", cap - 1);
  return SHOAL_OK;
}

static shoal_status find(shoal_session *s)
{
  char path[4096] = "";
  shoal_group *control = s->run.control;
  SHOAL_TRY(shoal_group_agree(control, shoal_session_is_root(s) ? choose(s, path, sizeof path) : SHOAL_OK));
  SHOAL_TRY(shoal_group_broadcast(control, path, sizeof path, 0));
  if (path[0] == 0) return SHOAL_OK;
  if (shoal_session_is_root(s)) s->world.resumes_own = shoal_folder_owns(&s->world.folder, path);
  SHOAL_TRY(shoal_group_broadcast(control, &s->world.resumes_own, sizeof s->world.resumes_own, 0));
  s->world.resume_path = strdup(path);
  shoal_status st = s->world.resume_path ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "the path of a checkpoint");
  if (st == SHOAL_OK) st = shoal_ckpt_open_own(path, false, &s->world.resume);
  s->run.from = s->world.resume;
  return shoal_session_agree_on_reading(s, st);
}

shoal_status shoal_session_find(shoal_session *s)
{
  shoal_activity_begin(true, "looking for a checkpoint to go on from, for %s", s->world.folder.dir);
  shoal_status st = find(s);
  shoal_activity_end();
  return st;
}

/* Going back to an earlier checkpoint, or to one of another run, begins another branch: what came after it is set aside
 * under a name that neither `auto` nor prune look at. */
static shoal_status begin_branch(shoal_session *s)
{
  const shoal_folder *f = &s->world.folder;
  size_t n = 0;
  int64_t step = s->world.resumes_own ? (int64_t)shoal_ckpt_get_info(s->world.resume)->step : -1;
  SHOAL_TRY(shoal_folder_check(f));
  char *name = shoal_strdup_printf("before-attempt-%d", f->attempt);
  size_t best = 0; /* of the later ones, mostly: not counted */
  char *best_folder = shoal_path_join(f->ckpt, "best"), *beside = shoal_strdup_printf("../%s", name);
  shoal_status st = shoal_ckpt_set_aside(f->ckpt, step, name, &n);
  if (st == SHOAL_OK) st = shoal_ckpt_set_aside(best_folder, step, beside, &best);
  free(best_folder);
  free(beside);
  if (n > 0) {
    char *to = shoal_strdup_printf("%s/%s", f->ckpt, name);
    if (st == SHOAL_OK) st = shoal_folder_copy_metrics(f, to);
    shoal_info("%zu checkpoint%s of %s %s set aside in %s: from here on this run is another branch", n,
               n == 1 ? "" : "s", step >= 0 ? "later steps" : "this folder's own steps", n == 1 ? "is" : "are", to);
    free(to);
  }
  free(name);
  if (st == SHOAL_OK && s->world.resumes_own) /* a kill may have come before it, and ckpt.keep may be smaller now */
    shoal_session_prune(s, (uint64_t)step);
  return st;
}

shoal_status shoal_session_resume(shoal_session *s)
{
  if (!s->world.resume_path) return SHOAL_OK;
  shoal_activity_begin(true, "reading %s", s->world.resume_path);
  shoal_status st = shoal_group_agree(s->run.control, load(s));
  shoal_activity_end();
  if (st == SHOAL_OK && shoal_session_is_root(s)) st = begin_branch(s);
  shoal_ckpt_close(s->world.resume);
  s->world.resume = NULL;
  s->run.from = NULL;
  SHOAL_TRY(shoal_group_agree(s->run.control, st));
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_plan_rest(s)));
  s->clock.first_step = s->clock.saved_step = s->run.step;
  s->clock.saved_epoch = s->clock.epoch;
  s->clock.saved_row_step = s->record.row_step;
  s->clock.saved_any = s->world.resumes_own; /* a checkpoint in another folder may be deleted: this run saves its own */
  if (s->clock.saved_any) s->clock.saved_path = shoal_strdup_printf("%s", s->world.resume_path);
  return shoal_session_find_best(s);
}
