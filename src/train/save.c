/* What a checkpoint of a run holds, and how it comes back.
 *
 *   model/NAME            weights and statistics of the method's model, named tensors     any layout
 *   replica/K/weights     only where replicas differ                                      same layout
 *   replica/K/stats       running statistics of rank K
 *   replica/K/SLOT        optimizer state; replica/0 alone where replicas are equal, or the method trains parts now and
 *                         then: there it is the whole model's, and the parts are the method's to save
 *   replica/K/score       loss sum and samples of the epoch so far
 *   replica/K/place       epoch, position, steps: where every rank has samples of its own
 *   train/…               position, optimizer steps, schedule, seconds, data identity
 *   method/…              whatever the method saves
 *
 * The same layout (ranks per node, and so rank count) resumes to the same bits.  Another one continues the same global
 * sample order from the model: for equal replicas nothing is lost but the ranks' own running statistics, which start
 * from their mean.  The file's own epoch and samples say how much all ranks together have consumed; where each rank takes
 * samples of its own, another number of them shares that out evenly. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void layout_text(const shoal_session *s, char *out, size_t cap)
{
  const shoal_topo *t = shoal_world_topo(s->run.world);
  size_t used = 0;
  out[0] = 0;
  for (int node = 0; node < t->nodes && used < cap - 12; node++) {
    int ranks = 0;
    for (int i = 0; i < t->size; i++) ranks += t->places[i].node == node;
    used += (size_t)snprintf(out + used, cap - used, "%s%d", node ? "," : "", ranks);
  }
}

typedef struct {
  shoal_ckpt_writer *writer;
  const float *stats;
} stat_target;

static void put_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  stat_target *t = ctx;
  char full[SHOAL_NAME_MAX + 32];
  snprintf(full, sizeof full, "model/%s", name);
  shoal_ckpt_put(t->writer, full, SHOAL_F32, 1, (uint64_t[]){ count }, t->stats + offset);
}

static void put_model(shoal_session *s, shoal_ckpt_writer *w)
{
  const shoal_model *m = s->model;
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    char name[SHOAL_NAME_MAX + 8];
    uint64_t dims[SHOAL_MAX_DIMS];
    for (int d = 0; d < p->shape.ndim; d++) dims[d] = (uint64_t)p->shape.dim[d];
    snprintf(name, sizeof name, "model/%s", p->name);
    shoal_ckpt_put(w, name, SHOAL_F32, p->shape.ndim, dims, s->scratch->w + p->offset);
  }
  shoal_model_each_stat(m, put_stat, &(stat_target){ w, s->scratch->stats });
}

/* One copy of weights and optimizer state says all that the loop has to say. */
static bool one_copy(const shoal_session *s)
{
  return s->method->replicas_equal || s->method->own_state;
}

static void put_replicas(shoal_session *s, shoal_ckpt_writer *w)
{
  shoal_run *r = &s->run;
  const shoal_optim *o = s->optim;
  if (!one_copy(s)) shoal_ckpt_put_replica(w, "weights", SHOAL_F32, r->params->n, r->params->w);
  for (int i = 0; i < o->slots; i++) {
    const char *slot = shoal_optim_slot_name(o, i);
    char name[64];
    snprintf(name, sizeof name, "replica/0/%s", slot);
    if (one_copy(s))
      shoal_ckpt_put(w, name, SHOAL_F32, 1, (uint64_t[]){ o->n }, o->slot[i]);
    else
      shoal_ckpt_put_replica(w, slot, SHOAL_F32, o->n, o->slot[i]);
  }
  /* collective: parts without statistics bring none */
  if (s->model->stats || s->method->cut)
    shoal_ckpt_put_replica(w, "stats", SHOAL_F32, r->params->n_stats, r->params->stats);
  double score[] = { s->at.loss_sum, s->at.samples };
  shoal_ckpt_put_replica(w, "score", SHOAL_F64, SHOAL_COUNT(score), score);
}

enum { PLACE_EPOCH, PLACE_POSITION, PLACE_STEP, PLACE_OPTIMIZER_STEPS, PLACES };

static void put_place(shoal_session *s, shoal_ckpt_writer *w)
{
  int64_t place[PLACES] = { [PLACE_EPOCH] = (int64_t)s->at.epoch,
                            [PLACE_POSITION] = (int64_t)s->at.position,
                            [PLACE_STEP] = (int64_t)s->run.step,
                            [PLACE_OPTIMIZER_STEPS] = (int64_t)s->run.optim->steps };
  if (shoal_session_strided(s)) shoal_ckpt_put_replica(w, "place", SHOAL_I64, PLACES, place);
}

/* Strided shares: samples of one rank in an epoch. */
static uint64_t share_of(const shoal_session *s, uint64_t rank)
{
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), n = shoal_dataset_info(s->data)->n[SHOAL_TRAIN];
  return SHOAL_MIN((n - rank + p - 1) / p, s->epoch_end);
}

/* Samples of one epoch over all ranks. */
static uint64_t whole_epoch(const shoal_session *s)
{
  uint64_t sum = 0;
  for (uint64_t r = 0; r < (uint64_t)shoal_world_size(s->run.world); r++) sum += share_of(s, r);
  return SHOAL_MAX(sum, UINT64_C(1));
}

/* What all ranks together have consumed, as epochs and samples; and their mean number of steps.  Collective. */
static shoal_status sum_places(shoal_session *s, shoal_ckpt_info *info)
{
  int64_t sums[2] = { 0, (int64_t)s->run.step };
  info->step = s->run.step;
  info->epoch = s->at.epoch;
  info->samples = s->at.position;
  if (!shoal_session_strided(s)) return SHOAL_OK;
  uint64_t own = share_of(s, (uint64_t)shoal_world_rank(s->run.world)), whole = whole_epoch(s);
  sums[0] = (int64_t)(s->at.epoch * own + SHOAL_MIN(s->at.position, own));
  SHOAL_TRY(shoal_group_sum_i64(s->run.control, sums, SHOAL_COUNT(sums)));
  info->epoch = (uint64_t)sums[0] / whole;
  info->samples = (uint64_t)sums[0] % whole;
  info->step = (uint64_t)sums[1] / (uint64_t)shoal_world_size(s->run.world);
  return SHOAL_OK;
}

static void put_train(shoal_session *s, shoal_ckpt_writer *w)
{
  shoal_ckpt_put_i64(w, "train/optimizer_steps", (int64_t)s->optim->steps);
  shoal_ckpt_put_f64(w, "train/seconds", s->at.seconds + shoal_seconds_since(s->started_ns));
  shoal_ckpt_put_f64(w, "train/plateau_best", s->plateau.best);
  shoal_ckpt_put_f64(w, "train/plateau_scale", s->plateau.scale);
  shoal_ckpt_put_i64(w, "train/plateau_bad", s->plateau.bad);
  shoal_ckpt_put_i64(w, "train/plateau_seen", s->plateau.seen);
  shoal_ckpt_put_i64(w, "train/data_checksum", shoal_dataset_info(s->data)->checksum);
  shoal_ckpt_put_i64(w, "train/seed", (int64_t)s->run.seed);
}

/* A checkpoint of numbers that are none would push out a good one. */
static shoal_status refuse_bad_model(shoal_session *s)
{
  double sum;
  SHOAL_TRY(s->run.backend->ops->sumsq(s->run.backend, s->scratch->n, s->scratch->w, &sum));
  SHOAL_CHECK(isfinite(sum), SHOAL_ERR_NUMERIC,
              "the weights are not finite at step %llu: nothing is saved and the last checkpoint is untouched; resume "
              "from it with a smaller optim.lr or with optim.clip",
              (unsigned long long)s->run.step);
  return SHOAL_OK;
}

/* All of it, in the same order for a writer that measures and for one that writes; a failure is everybody's. */
static shoal_status put_all(shoal_session *s, shoal_ckpt_writer *w)
{
  put_model(s, w);
  put_replicas(s, w);
  put_place(s, w);
  put_train(s, w);
  return shoal_group_agree(s->run.control, s->method->save ? s->method->save(&s->run, s->method_state, w) : SHOAL_OK);
}

/* Bytes, what the method has to save included: nobody else knows how much that is just now. */
static shoal_status measure(shoal_session *s, uint64_t *bytes)
{
  shoal_ckpt_writer *w;
  SHOAL_TRY(shoal_ckpt_measure(s->run.control, &w));
  shoal_status st = put_all(s, w);
  if (st == SHOAL_OK) return shoal_ckpt_measured(w, bytes);
  shoal_ckpt_abandon(w);
  return st;
}

shoal_status shoal_session_save(shoal_session *s)
{
  shoal_run *r = &s->run;
  int64_t news = !s->saved_any || s->last_saved_step != r->step || s->last_saved_epoch != s->at.epoch;
  if (s->call) SHOAL_TRY(shoal_group_max_i64(r->control, &news, 1)); /* each rank has steps of its own */
  if (!news) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns(), need;
  SHOAL_TRY(shoal_session_assemble(s));
  shoal_status st = SHOAL_AGREE_ONCE(r->control, refuse_bad_model(s));
  if (st != SHOAL_OK) {
    s->agreed = st == SHOAL_ERR_NUMERIC; /* the same model on every rank */
    return st;
  }
  SHOAL_TRY(measure(s, &need));
  shoal_str config = { 0 }, placement = { 0 };
  shoal_config_print(s->config, &config);
  shoal_topo_print_json(shoal_world_topo(r->world), &placement);
  shoal_ckpt_info info = { .size = shoal_world_size(r->world), .config = config.text, .placement = placement.text };
  st = sum_places(s, &info);
  snprintf(info.run, sizeof info.run, "%s", shoal_config_string(s->config, "run.name"));
  snprintf(info.method, sizeof info.method, "%s", s->method->name);
  snprintf(info.model, sizeof info.model, "%s", s->model->name);
  layout_text(s, info.layout, sizeof info.layout);
  shoal_ckpt_writer *w;
  if (st == SHOAL_OK) st = shoal_ckpt_begin(r->control, s->folder.ckpt, &info, need, &w);
  shoal_str_free(&config);
  shoal_str_free(&placement);
  if (st != SHOAL_OK) {
    s->agreed = true;
    return st;
  }
  st = put_all(s, w);
  if (s->faults.ckpt_s > 0 && shoal_session_is_root(s)) usleep((useconds_t)(s->faults.ckpt_s * 1e6));
  if (st != SHOAL_OK) {
    shoal_ckpt_abandon(w);
    return st;
  }
  char *path;
  if ((st = shoal_ckpt_commit(w, &path)) != SHOAL_OK) {
    s->agreed = true; /* the same verdict on every rank */
    return st;
  }
  s->last_saved_step = r->step;
  s->last_saved_epoch = s->at.epoch;
  s->saved_any = true;
  s->saved_ns = shoal_now_ns();
  shoal_session_drop_whole(s);
  double seconds = shoal_seconds_since(t0);
  s->save_s = SHOAL_MAX(s->save_s, seconds);
  if (shoal_session_is_root(s)) {
    shoal_info("checkpoint %s, %.2f s", path, seconds);
    (void)shoal_folder_status(&s->folder, "running", 0, "", r->step, s->at.epoch);
    st = shoal_ckpt_prune(s->folder.ckpt, (int)shoal_config_int(s->config, "ckpt.keep"));
  }
  free(path);
  shoal_trace_span(r->trace, SHOAL_TRACE_CHECKPOINT, shoal_trace_op(r->trace, "checkpoint"), t0, shoal_now_ns());
  SHOAL_TRY(shoal_trace_flush(r->trace, true));
  return shoal_group_agree(r->control, st);
}

/* ---- coming back ---- */

/* What this attempt does differently from the one that saved: said, so that nobody has to guess. */
static void report_changes(const shoal_session *s, const char *old_text)
{
  shoal_str now = { 0 };
  shoal_config_print(s->config, &now);
  char section[64] = "";
  for (const char *line = now.text; line && *line;) {
    const char *end = strchrnul(line, '\n');
    int n = (int)(end - line);
    if (n > 0 && *line != ' ') snprintf(section, sizeof section, "%.*s", (int)strcspn(line, ":"), line);
    char *text = shoal_strdup_printf("%.*s\n", n, line);
    if (n > 0 && *line == ' ' && !strstr(old_text, text))
      shoal_info("changed since the checkpoint: %s.%.*s", section, n - 2, line + 2);
    free(text);
    line = *end ? end + 1 : NULL;
  }
  shoal_str_free(&now);
}

typedef struct {
  const shoal_ckpt *ckpt;
  float *stats;
  shoal_status st;
} stat_source;

static void get_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  stat_source *t = ctx;
  char full[SHOAL_NAME_MAX + 32];
  snprintf(full, sizeof full, "model/%s", name);
  if (t->st == SHOAL_OK) t->st = shoal_ckpt_get(t->ckpt, full, SHOAL_F32, count, t->stats + offset);
}

static shoal_status check_model(const shoal_session *s, const shoal_ckpt *c)
{
  for (int i = 0; i < s->model->params; i++) {
    const shoal_param *p = &s->model->param[i];
    char name[SHOAL_NAME_MAX + 8];
    snprintf(name, sizeof name, "model/%s", p->name);
    SHOAL_CHECK(shoal_ckpt_has(c, name), SHOAL_ERR_USAGE,
                "the checkpoint holds a %s without %s: resume with the same model, or choose another run.name",
                shoal_ckpt_get_info(c)->model, p->name);
    shoal_dtype type;
    int ndim;
    uint64_t dims[8];
    SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
    bool same = ndim == p->shape.ndim;
    for (int d = 0; same && d < ndim; d++) same = dims[d] == (uint64_t)p->shape.dim[d];
    SHOAL_CHECK(
        same, SHOAL_ERR_USAGE,
        "%s has another shape in the checkpoint: resume with the same model options, or choose another run.name",
        p->name);
  }
  return SHOAL_OK;
}

/* Weights by name into the arena of a whole model: the checkpoint may be of another method or rank count. */
static shoal_status get_model(const shoal_session *s, const shoal_ckpt *c, shoal_params *params)
{
  for (int i = 0; i < s->model->params; i++) {
    const shoal_param *p = &s->model->param[i];
    char name[SHOAL_NAME_MAX + 8];
    snprintf(name, sizeof name, "model/%s", p->name);
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F32, p->count, params->w + p->offset));
  }
  stat_source t = { c, params->stats, SHOAL_OK };
  shoal_model_each_stat(s->model, get_stat, &t);
  params->version++;
  return t.st;
}

/* Optimizer state of n numbers that rank `owner` saved; a part of the model has another size. */
static bool has_slot(const shoal_session *s, const shoal_ckpt *c, int owner, int slot, size_t n)
{
  char name[96];
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  snprintf(name, sizeof name, "replica/%d/%s", owner, shoal_optim_slot_name(s->optim, slot));
  return shoal_ckpt_has(c, name) && shoal_ckpt_shape(c, name, &type, &ndim, dims) == SHOAL_OK && ndim == 1 &&
         dims[0] == n;
}

static shoal_status get_slot(const shoal_session *s, const shoal_ckpt *c, int owner, int slot, size_t n, float *out)
{
  char name[96];
  snprintf(name, sizeof name, "replica/%d/%s", owner, shoal_optim_slot_name(s->optim, slot));
  return shoal_ckpt_get(c, name, SHOAL_F32, n, out);
}

/* Another layout continues with the mean of the replicas' optimizer states, as it does with the mean of their weights:
 * for momentum that is what the mean of the replicas would have.  Equal replicas saved one, which is its own mean. */
static shoal_status get_mean_slot(const shoal_session *s, const shoal_ckpt *c, int slot, size_t n, float *out,
                                  bool *found)
{
  float *one;
  int replicas = 0;
  shoal_status st = SHOAL_ALLOC(n, &one);
  for (int k = 0; st == SHOAL_OK && k < shoal_ckpt_get_info(c)->size; k++) {
    if (!has_slot(s, c, k, slot, n)) continue;
    st = get_slot(s, c, k, slot, n, replicas ? one : out); /* to the bit where there is one */
    for (size_t i = 0; replicas && i < n; i++) out[i] += one[i];
    replicas++;
  }
  for (size_t i = 0; replicas > 1 && i < n; i++) out[i] /= (float)replicas;
  free(one);
  *found = replicas > 0;
  return st;
}

static shoal_status get_optimizer_steps(shoal_session *s, const shoal_ckpt *c)
{
  int64_t steps;
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/optimizer_steps", &steps));
  s->optim->steps = (uint64_t)steps;
  return SHOAL_OK;
}

/* This rank's own state, or the mean of all. */
static shoal_status get_optimizer(shoal_session *s, const shoal_ckpt *c, bool own)
{
  shoal_optim *o = s->optim;
  int rank = shoal_world_rank(s->run.world);
  for (int i = 0; i < o->slots; i++) {
    bool found = own && has_slot(s, c, rank, i, o->n);
    if (!own)
      SHOAL_TRY(get_mean_slot(s, c, i, o->n, o->slot[i], &found));
    else if (found)
      SHOAL_TRY(get_slot(s, c, rank, i, o->n, o->slot[i]));
    if (!found) {
      shoal_info("the checkpoint has no %s of the whole model: the optimizer starts afresh",
                 shoal_optim_slot_name(o, i));
      return SHOAL_OK;
    }
  }
  return get_optimizer_steps(s, c);
}

/* A method that cuts takes its part of a whole model's weights, and of its optimizer state where there is one. */
static shoal_status cut_model(shoal_session *s, const shoal_ckpt *c)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_session_make_whole(s));
  SHOAL_TRY(get_model(s, c, s->scratch));
  SHOAL_TRY(s->method->adopt(r, s->method_state, 0, s->scratch->w));
  shoal_model_gather_stats(s->model, r->part, s->scratch->stats, r->params->stats);
  bool found = s->optim->slots > 0;
  for (int i = 0; found && i < s->optim->slots; i++) {
    SHOAL_TRY(get_mean_slot(s, c, i, s->model->weights, s->scratch->w, &found));
    if (found && i == 0) SHOAL_TRY(get_optimizer_steps(s, c)); /* unless the method begins anew */
    if (found) SHOAL_TRY(s->method->adopt(r, s->method_state, 1 + i, s->scratch->w));
  }
  shoal_session_drop_whole(s);
  return SHOAL_OK;
}

/* Each rank its own place, where it has one. */
static shoal_status get_place(shoal_session *s, const shoal_ckpt *c)
{
  char name[64];
  int64_t place[PLACES];
  snprintf(name, sizeof name, "replica/%d/place", shoal_world_rank(s->run.world));
  if (!shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_I64, PLACES, place));
  s->at.epoch = (uint64_t)place[PLACE_EPOCH];
  s->at.position = SHOAL_MIN((uint64_t)place[PLACE_POSITION], s->epoch_samples);
  s->run.step = (uint64_t)place[PLACE_STEP];
  s->run.optim->steps = (uint64_t)place[PLACE_OPTIMIZER_STEPS];
  return SHOAL_OK;
}

static shoal_status get_own(shoal_session *s, const shoal_ckpt *c)
{
  shoal_run *r = &s->run;
  int rank = shoal_world_rank(r->world);
  char name[96];
  double score[2];
  if (r->params->n_stats) {
    snprintf(name, sizeof name, "replica/%d/stats", rank);
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F32, r->params->n_stats, r->params->stats));
  }
  if (!one_copy(s)) {
    snprintf(name, sizeof name, "replica/%d/weights", rank);
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F32, r->params->n, r->params->w));
  }
  snprintf(name, sizeof name, "replica/%d/score", rank);
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, 2, score));
  s->at.loss_sum = score[0];
  s->at.samples = score[1];
  return get_place(s, c);
}

/* Another layout: what the ranks measured so far in this epoch is added up on rank 0. */
static shoal_status get_scores(shoal_session *s, const shoal_ckpt *c)
{
  for (int64_t k = 0; shoal_session_is_root(s) && k < shoal_ckpt_get_info(c)->size; k++) {
    char name[64];
    double score[2];
    snprintf(name, sizeof name, "replica/%lld/score", (long long)k);
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, 2, score));
    s->at.loss_sum += score[0];
    s->at.samples += score[1];
  }
  return SHOAL_OK;
}

static shoal_status get_train(shoal_session *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  int64_t checksum;
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/data_checksum", &checksum));
  SHOAL_CHECK(
      (uint32_t)checksum == shoal_dataset_info(s->data)->checksum, SHOAL_ERR_USAGE,
      "data.file %s is not the data set this run was trained on; give the same file, or choose another run.name",
      shoal_config_string(s->config, "data.file"));
  int64_t seed;
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/seed", &seed));
  SHOAL_CHECK((uint64_t)seed == s->run.seed, SHOAL_ERR_USAGE,
              "run.seed is %llu but the checkpoint was trained with %lld: the sample order would change in mid-run; "
              "set run.seed to %lld, or choose another run.name",
              (unsigned long long)s->run.seed, (long long)seed, (long long)seed);
  SHOAL_TRY(shoal_ckpt_get_f64(c, "train/seconds", &s->at.seconds));
  SHOAL_TRY(shoal_ckpt_get_f64(c, "train/plateau_best", &s->plateau.best));
  SHOAL_TRY(shoal_ckpt_get_f64(c, "train/plateau_scale", &s->plateau.scale));
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/plateau_bad", &s->plateau.bad));
  SHOAL_TRY(shoal_ckpt_get_i64(c, "train/plateau_seen", &s->plateau.seen));
  s->run.step = info->step;
  s->at.epoch = info->epoch;
  s->at.position = info->samples / (shoal_session_strided(s) ? (uint64_t)shoal_world_size(s->run.world) : 1);
  s->at.position = SHOAL_MIN(s->at.position, s->epoch_samples);
  return SHOAL_OK;
}

static void report_layout(const shoal_session *s, const shoal_ckpt *c, const char *layout)
{
  const shoal_ckpt_info *old = shoal_ckpt_get_info(c);
  bool optimizer = s->optim->steps > 0;
  bool mean = s->optim->slots > 0 && has_slot(s, c, 1, 0, s->model->weights); /* there was more than one */
  shoal_info(
      "the layout changed: %lld ranks (%s, method %s) then, %d ranks (%s, method %s) now; weights%s and the sample "
      "order go on, %s",
      (long long)old->size, old->layout, old->method, shoal_world_size(s->run.world), layout, s->method->name,
      !optimizer ? ""
      : mean     ? ", the mean optimizer state"
                 : ", optimizer state",
      !s->method->cut ? "running statistics start from their mean"
      : optimizer     ? "the parts are cut anew"
                      : "the parts are cut anew and their optimizer state starts afresh");
}

static shoal_status load(shoal_session *s)
{
  shoal_run *r = &s->run;
  const shoal_ckpt *c = s->resume;
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  char layout[sizeof info->layout];
  layout_text(s, layout, sizeof layout);
  bool same = info->size == shoal_world_size(r->world) && strcmp(layout, info->layout) == 0 &&
              strcmp(info->method, s->method->name) == 0 &&
              (!s->method->fits || s->method->fits(r, s->method_state, c));
  SHOAL_TRY(get_train(s, c));
  SHOAL_TRY(check_model(s, c));
  if (!s->method->cut) SHOAL_TRY(get_model(s, c, s->params));
  if (same || !s->method->cut) SHOAL_TRY(get_optimizer(s, c, same && !one_copy(s)));
  SHOAL_TRY(same ? get_own(s, c) : get_scores(s, c));
  if (s->method->load) SHOAL_TRY(s->method->load(r, s->method_state, c, same));
  if (s->method->cut && !same) SHOAL_TRY(cut_model(s, c));
  shoal_info("resumed from %s: %llu epochs and %llu samples done, step %llu", s->resume_path,
             (unsigned long long)info->epoch, (unsigned long long)info->samples, (unsigned long long)info->step);
  if (!same) report_layout(s, c, layout);
  if (info->config) report_changes(s, info->config);
  return SHOAL_OK;
}

/* Rank 0 chooses and verifies; all read the same file. */
static shoal_status choose(shoal_session *s, char *path, size_t cap)
{
  const char *resume = s->args->resume ? s->args->resume : "auto";
  path[0] = 0;
  if (strcmp(resume, "never") == 0) return SHOAL_OK;
  char *found = NULL;
  if (strcmp(resume, "auto") == 0) {
    SHOAL_TRY(shoal_ckpt_sweep(s->folder.ckpt));
    uint64_t step;
    SHOAL_TRY(shoal_ckpt_latest(s->folder.ckpt, &found, &step));
  } else {
    shoal_ckpt *c;
    SHOAL_TRY(shoal_ckpt_open(resume, true, &c));
    shoal_ckpt_close(c);
    found = strdup(resume);
  }
  if (!found) return SHOAL_OK;
  bool fits = snprintf(path, cap, "%s", found) < (int)cap;
  free(found);
  SHOAL_CHECK(fits, SHOAL_ERR_USAGE, "the path of the checkpoint is longer than %zu characters", cap - 1);
  return SHOAL_OK;
}

shoal_status shoal_session_find(shoal_session *s)
{
  char path[4096] = "";
  shoal_group *control = s->run.control;
  SHOAL_TRY(shoal_group_agree(control, shoal_session_is_root(s) ? choose(s, path, sizeof path) : SHOAL_OK));
  SHOAL_TRY(shoal_group_broadcast(control, path, sizeof path, 0));
  s->fresh = path[0] == 0;
  if (s->fresh) return SHOAL_OK;
  s->resume_path = strdup(path);
  shoal_status st = s->resume_path ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "the path of a checkpoint");
  if (st == SHOAL_OK) st = shoal_ckpt_open(path, false, &s->resume);
  s->run.from = s->resume;
  return shoal_group_agree(control, st);
}

shoal_status shoal_session_resume(shoal_session *s)
{
  if (s->fresh) return SHOAL_OK;
  bool root = shoal_session_is_root(s);
  if (!root) shoal_quiet_errors(1); /* the same file, the same complaint */
  shoal_status st = load(s);
  if (!root) shoal_quiet_errors(-1);
  shoal_ckpt_close(s->resume);
  s->resume = NULL;
  s->run.from = NULL;
  SHOAL_TRY(shoal_group_agree(s->run.control, st));
  SHOAL_TRY(SHOAL_AGREE_ONCE(s->run.control, shoal_session_plan_rest(s)));
  s->first_step = s->last_saved_step = s->run.step;
  s->last_saved_epoch = s->at.epoch;
  s->saved_any = strncmp(s->resume_path, s->folder.ckpt, strlen(s->folder.ckpt)) == 0;
  return SHOAL_OK;
}
