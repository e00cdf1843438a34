/* Builds a session from the run file up, and refuses early: every check that can fail does so before step 1 and before
 * anything is overwritten.  Rank 0 speaks for faults all ranks share; the others stay quiet about the same run file. */
#include "train/session.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/common/batch.h"
#include "method/common/svd.h"
#include "tensor/cpu/cpu.h"
#include "train/options.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Seconds of a fault hook "sleep:MS"; 0 where it is not set. */
static shoal_status read_sleep(const shoal_config *c, const char *name, double *seconds)
{
  static const char prefix[] = "sleep:";
  const char *text = shoal_config_string(c, name);
  const double most_ms = 3600e3; /* an hour: its microseconds fit usleep's 32 bits */
  double ms = 0;
  bool ok = !*text || (strncmp(text, prefix, strlen(prefix)) == 0 &&
                       shoal_parse_f64(text + strlen(prefix), &ms) == SHOAL_OK && ms >= 0 && ms <= most_ms);
  SHOAL_CHECK(ok, SHOAL_ERR_USAGE, "%s: %s is \"%s\": must be sleep:MS with MS from 0 to %.0f, for example sleep:100",
              shoal_config_origin(c, name), name, text, most_ms);
  *seconds = ms * 1e-3;
  return SHOAL_OK;
}

static shoal_status read_faults(shoal_session *s)
{
  const shoal_config *c = s->config;
  static const char *const names[] = { "fault.stop_step",   "fault.kill_step", "fault.nan_step", "fault.seed",
                                       "fault.compute",     "fault.ckpt",      "fault.lr",       "fault.rank",
                                       "fault.no_exchange", "fault.jitter",    "fault.exit_step" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    SHOAL_CHECK(!shoal_config_given(c, names[i]) || s->args->allow_faults, SHOAL_ERR_USAGE,
                "%s is a fault hook: it needs --allow-faults on the command line", names[i]);
  s->faults = (shoal_faults){ .stop_step = -1, .kill_step = -1, .exit_step = -1, .nan_step = -1, .lr = 1 };
  s->faults.no_exchange = (uint64_t)shoal_config_int(c, "fault.no_exchange");
  s->faults.jitter_s = shoal_config_float(c, "fault.jitter") * 1e-3;
  bool here = shoal_config_int(c, "fault.rank") == shoal_world_rank(s->run.world);
  double compute_s;
  SHOAL_TRY(read_sleep(c, "fault.ckpt", &s->faults.ckpt_s));
  SHOAL_TRY(read_sleep(c, "fault.compute", &compute_s));
  if (!here) return SHOAL_OK;
  s->faults.compute_s = compute_s;
  s->faults.stop_step = shoal_config_int(c, "fault.stop_step");
  s->faults.kill_step = shoal_config_int(c, "fault.kill_step");
  s->faults.exit_step = shoal_config_int(c, "fault.exit_step");
  s->faults.nan_step = shoal_config_int(c, "fault.nan_step");
  s->faults.seed = shoal_config_int(c, "fault.seed");
  s->faults.lr = (float)shoal_config_float(c, "fault.lr");
  return SHOAL_OK;
}

static double period_seconds(const shoal_config *c, const char *name)
{
  shoal_period p = shoal_config_period(c, name);
  return p.unit == SHOAL_PER_SECONDS ? p.value : 0;
}

/* The run file is read before there is a world, by every rank; only the first in line complains about it. */
static shoal_status open_world(shoal_session *s)
{
  SHOAL_TRY(shoal_run_configure(s->args->run_file, s->args->sets, s->args->n_sets, &s->config));
  shoal_world_options o = {
    .pretend = s->args->topology,
    .allow_singletons = shoal_config_bool(s->config, "run.allow_singletons"),
    .strict_cores = shoal_config_bool(s->config, "run.strict"),
    .threads = (int)shoal_config_int(s->config, "threads"),
    .no_sharing = !shoal_config_bool(s->config, "comm.shared_memory"),
    .max_message = (size_t)shoal_config_int(s->config, "comm.max_message"),
    .warn_s = period_seconds(s->config, "comm.warn"),
    .hang_s = period_seconds(s->config, "comm.hang"),
  };
  shoal_run *r = &s->run;
  shoal_run_choose(s->config, &s->choice);
  SHOAL_TRY(shoal_world_open(&o, &r->world));
  if (s->args->hushed) shoal_quiet_errors(-1);
  r->config = s->config;
  r->all = shoal_world_group(r->world);
  r->control = shoal_world_control(r->world);
  r->seed = (uint64_t)shoal_config_int(s->config, "run.seed");
  r->epochs = (double)shoal_config_int(s->config, "run.epochs");
  s->method = shoal_method_find(shoal_config_string(s->config, "method.name"));
  return SHOAL_OK;
}

static shoal_status open_folder(shoal_session *s)
{
  const shoal_config *c = s->config;
  SHOAL_TRY(SHOAL_AGREE_ONCE(s->run.control, shoal_folder_name(shoal_config_string(c, "run.dir"),
                                                               shoal_config_string(c, "run.name"), &s->folder)));
  shoal_status st = SHOAL_OK;
  bool never = s->args->resume && strcmp(s->args->resume, "never") == 0;
  if (shoal_session_is_root(s)) {
    if (never && shoal_folder_has_checkpoints(&s->folder))
      st = SHOAL_FAIL(
          SHOAL_ERR_USAGE,
          "%s holds checkpoints and --resume never would train over them; choose another run.name or move it",
          s->folder.dir);
    if (st == SHOAL_OK) st = shoal_folder_take(&s->folder);
  }
  SHOAL_TRY(shoal_group_agree(s->run.control, st));
  return shoal_group_broadcast(s->run.control, &s->folder.attempt, sizeof s->folder.attempt, 0);
}

/* Do the ranks that share this one's cores have more threads than there are cores? */
static bool is_contended(const shoal_session *s, const shoal_place *p)
{
  const shoal_topo *t = shoal_world_topo(s->run.world);
  int threads = (int)shoal_config_int(s->config, "threads"), sharing = 0;
  for (int r = 0; r < t->size; r++)
    if (strcmp(t->places[r].host, p->host) == 0 && strcmp(t->places[r].cpu_list, p->cpu_list) == 0)
      sharing += threads ? threads : t->places[r].threads;
  return sharing > p->cores;
}

static shoal_status open_trace(shoal_session *s)
{
  const shoal_place *p = shoal_world_place(s->run.world);
  shoal_trace_level level = s->choice.trace;
  char file[32];
  snprintf(file, sizeof file, "rank-%05d.h5", p->rank);
  char *path = shoal_path_join(s->folder.trace, file);
  shoal_str text = { 0 };
  shoal_json place = { .lines = 2 };
  shoal_config_print(s->config, &text);
  if (p->rank == 0) /* the whole table once; all ranks' files together would hold its square */
    shoal_topo_put_json(shoal_world_topo(s->run.world), &place, NULL);
  else
    shoal_topo_put_json_row(shoal_world_topo(s->run.world), p->rank, &place, NULL);
  shoal_trace_info info = { .run_name = shoal_config_string(s->config, "run.name"),
                            .config_text = text.text,
                            .placement = place.text.text,
                            .rank = p->rank,
                            .size = shoal_world_size(s->run.world),
                            .node = p->node,
                            .local_rank = p->local_rank,
                            .attempt = s->folder.attempt,
                            .host = p->host,
                            .contended = is_contended(s, p) };
  shoal_status st = shoal_trace_open(level == SHOAL_TRACE_OFF ? NULL : path, level, &info, &s->run.trace);
  shoal_str_free(&place.text);
  shoal_str_free(&text);
  free(path);
  SHOAL_TRY(shoal_group_agree(s->run.control, st));
  shoal_world_set_counters(s->run.world, shoal_trace_counters(s->run.trace));
  shoal_world_set_trace(s->run.world, s->run.trace);
  return SHOAL_OK;
}

/* An error here is kept by the exchange, or by the method, and comes out of its wait.  Who runs freely listens all the
 * time, mostly to nothing; where ranks exceed cores a poll that finds nothing gives the core away, so not too often. */
static void progress(void *session)
{
  enum { LISTEN_NS = 500000 };
  shoal_session *s = session;
  if (s->run.meet.kind == SHOAL_MEET_FREELY) {
    uint64_t now = shoal_now_ns();
    if (now - s->polled_ns < LISTEN_NS) return;
    s->polled_ns = now;
  }
  (void)shoal_world_progress(s->run.world);
}

static shoal_status open_backend(shoal_session *s)
{
  const shoal_place *p = shoal_world_place(s->run.world);
  const char *device = shoal_config_string(s->config, "device");
  if (strcmp(device, "auto") == 0) device = "cpu";
  SHOAL_TRY(shoal_backend_open(device, p->threads, &s->run.backend));
  if (strcmp(device, "cpu") == 0) shoal_cpu_set_winograd(s->run.backend, shoal_config_bool(s->config, "cpu.winograd"));
  if (shoal_world_size(s->run.world) > 1) {
    s->run.backend->progress = progress;
    s->run.backend->progress_context = s;
  }
  return SHOAL_OK;
}

static bool has_word(const shoal_config *c, const char *option, const char *word)
{
  const char *const *words;
  size_t n = shoal_config_words(c, option, &words);
  for (size_t i = 0; i < n; i++)
    if (strcmp(words[i], word) == 0) return true;
  return false;
}

/* Batches over all ranks and of one, and how long an epoch is for whoever counts positions.  With strided shares every
 * rank takes as many steps as the one with the largest share, the last one perhaps without a sample. */
static shoal_status size_batches(shoal_session *s)
{
  const shoal_config *c = s->config;
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), n = shoal_dataset_info(s->data)->n[SHOAL_TRAIN];
  uint64_t global = (uint64_t)shoal_config_int(c, "data.global_batch");
  s->global_batch = global ? global : (uint64_t)shoal_config_int(c, "data.batch") * p;
  SHOAL_CHECK(!(global && shoal_config_given(c, "data.batch")), SHOAL_ERR_USAGE,
              "data.batch and data.global_batch are both set: keep one of them");
  bool drops = s->choice.last == SHOAL_LAST_DROP;
  SHOAL_CHECK(!drops || n >= s->global_batch, SHOAL_ERR_USAGE,
              "data.last is drop, but the global batch of %llu is larger than the %llu training samples",
              (unsigned long long)s->global_batch, (unsigned long long)n);
  s->own_batch = s->global_batch / p;
  s->epoch_samples = n;
  s->epoch_end = drops ? n / s->global_batch * s->global_batch : n;
  if (!shoal_session_strided(s)) return SHOAL_OK;
  SHOAL_CHECK(
      s->global_batch % p == 0, SHOAL_ERR_USAGE,
      "data.global_batch is %llu: with method %s every rank has a batch of its own, so it must be a multiple of "
      "the %llu ranks",
      (unsigned long long)s->global_batch, s->method->name, (unsigned long long)p);
  SHOAL_CHECK(n >= p, SHOAL_ERR_USAGE, "%llu training samples for %llu ranks: use fewer ranks", (unsigned long long)n,
              (unsigned long long)p);
  s->epoch_samples = (n + p - 1) / p;
  s->epoch_end = drops ? n / p / s->own_batch * s->own_batch : s->epoch_samples;
  return SHOAL_OK;
}

static shoal_status open_data(shoal_session *s)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(SHOAL_AGREE_ONCE(r->control, size_batches(s)));
  r->share_rank = shoal_world_rank(r->world);
  r->share_size = shoal_world_size(r->world);
  r->epoch_samples = s->epoch_end;
  r->global_batch = shoal_session_strided(s) ? s->own_batch : s->global_batch;
  r->pads = s->choice.last == SHOAL_LAST_PAD;
  r->steps_per_epoch = (s->epoch_end + r->global_batch - 1) / r->global_batch;
  return SHOAL_OK;
}

/* Rank 0 looks first: a file that is nowhere is one complaint, and one that only some nodes miss is theirs. */
static shoal_status open_dataset(shoal_session *s)
{
  const char *path = shoal_config_string(s->config, "data.file");
  bool root = shoal_session_is_root(s);
  SHOAL_TRY(SHOAL_AGREE_ONCE(s->run.control, root ? shoal_dataset_open(path, &s->data) : SHOAL_OK));
  return shoal_group_agree(s->run.control, root ? SHOAL_OK : shoal_dataset_open(path, &s->data));
}

/* A batch whose own statistics normalise it must have some: asked for early, like the batches of training. */
static shoal_status check_test_batches(shoal_session *s)
{
  if (!s->test || s->run.eval_mode != SHOAL_PLAN_MEASURE) return SHOAL_OK;
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), batch = s->choice.eval_batch;
  uint64_t rest = shoal_dataset_info(s->data)->n[SHOAL_TEST] % (batch * p);
  SHOAL_CHECK(
      batch > 1 && (rest == 0 || rest >= 2 * p), SHOAL_ERR_USAGE,
      "eval.batch_norm is batch, but eval.batch %llu leaves a rank with less than two of the %llu test samples: "
      "choose another eval.batch, or eval.batch_norm model",
      (unsigned long long)batch, (unsigned long long)shoal_dataset_info(s->data)->n[SHOAL_TEST]);
  return SHOAL_OK;
}

static shoal_status open_loaders(shoal_session *s)
{
  const shoal_config *c = s->config;
  const shoal_run *r = &s->run;
  int rank = shoal_world_rank(r->world), size = shoal_world_size(r->world);
  const shoal_data_info *info = shoal_dataset_info(s->data);
  shoal_loader_config l = {
    .split = SHOAL_TRAIN,
    .seed = s->run.seed,
    .rank = r->share_rank,
    .size = r->share_size,
    .batch = r->global_batch,
    .last = s->choice.last,
    .share = s->method->share,
    .shard = s->choice.shard,
    .shuffle = shoal_config_bool(c, "data.shuffle"),
    .crop4 = has_word(c, "data.augment", "crop4"),
    .hflip = has_word(c, "data.augment", "hflip"),
    .sizes_only = r->reads_none,
    .depth = r->reads_none ? 0 : (int)shoal_config_int(c, "data.prefetch"),
  };
  SHOAL_TRY(shoal_loader_create(s->data, &l, &s->loader));
  l.rank = rank;
  l.size = size;
  l.sizes_only = false;
  l.depth = 0;
  if (l.last == SHOAL_LAST_DROP) l.last = SHOAL_LAST_SHORT; /* a share that fills no batch is padded as in training */
  l.share = SHOAL_SHARE_STRIDED;
  l.batch = s->own_batch;
  if (s->method->measures_stats) SHOAL_TRY(shoal_loader_create(s->data, &l, &s->sample));
  if (info->n[SHOAL_TEST] == 0) return SHOAL_OK;
  shoal_loader_config t = {
    .split = SHOAL_TEST, .rank = rank, .size = size, .batch = s->choice.eval_batch * (uint64_t)size
  };
  return shoal_loader_create(s->data, &t, &s->test);
}

/* A plan for the epoch's last batch, which may be short, if so many samples of it are left. */
static shoal_status plan_last_batch(shoal_session *s, uint64_t left)
{
  const shoal_run *r = &s->run;
  uint64_t rest = s->choice.last != SHOAL_LAST_SHORT ? 0 : left % r->global_batch, first, count = rest;
  if (!shoal_session_strided(s)) shoal_share_of(rest, r->share_rank, r->share_size, &first, &count);
  return shoal_plan_last_batch(&s->form, count);
}

/* Plans for the usual batch and for the epoch's last one: made now, so that a batch the model cannot take (one sample
 * under batch norm) is refused before step 1 and not at the end of the first epoch. */
static shoal_status open_plans(shoal_session *s)
{
  shoal_run *r = &s->run;
  uint64_t first, count = r->global_batch;
  if (!shoal_session_strided(s)) shoal_share_of(r->global_batch, r->share_rank, r->share_size, &first, &count);
  SHOAL_TRY(shoal_form_plan(r->backend, (int64_t)SHOAL_MAX(count, 1), &s->form));
  return plan_last_batch(s, shoal_loader_samples(s->loader));
}

shoal_status shoal_session_plan_rest(shoal_session *s)
{
  uint64_t n = shoal_loader_samples(s->loader);
  return s->form.plans ? plan_last_batch(s, n - SHOAL_MIN(s->at.position, n)) : SHOAL_OK;
}

static shoal_status build_model(shoal_session *s)
{
  SHOAL_TRY(shoal_optim_configure(s->config, &s->optim_rules));
  SHOAL_TRY(shoal_lr_configure(s->config, s->run.epochs, &s->lr));
  shoal_lr_plateau_init(&s->plateau);
  const shoal_data_info *info = shoal_dataset_info(s->data);
  const shoal_model_entry *entry = shoal_model_find(shoal_config_string(s->config, "model.name"));
  SHOAL_TRY(entry->build(s->config, &info->sample, info->classes, &s->model));
  s->run.model = s->form.model = s->model;
  s->run.form = &s->form;
  s->run.eval_mode = s->choice.eval_by_batch && s->model->stats > 0 ? SHOAL_PLAN_MEASURE : SHOAL_PLAN_EVAL;
  if (s->method->state_size) SHOAL_TRY(shoal_alloc(1, s->method->state_size, "the method's state", &s->method_state));
  s->method_open = true;
  SHOAL_CHECK(!shoal_session_cuts(s) || !shoal_config_bool(s->config, "model.orthogonal"), SHOAL_ERR_USAGE,
              "model.orthogonal is true, but with method %s no rank holds whole weights to begin with; leave it out",
              s->method->name);
  s->outline = (shoal_outline){ .model = s->model };
  if (s->method->outline) SHOAL_TRY(s->method->outline(&s->run, s->method_state, &s->outline));
  s->form.model = s->outline.model;
  return SHOAL_OK;
}

static shoal_status share_gradients(shoal_session *s)
{
  void *memory;
  const shoal_outline *o = &s->outline;
  if (o->own_gradients) return SHOAL_OK;
  SHOAL_TRY(shoal_group_share(s->run.all, SHOAL_MAX(o->model->weights, o->gradients) * sizeof(float), &memory));
  s->gradients = memory;
  return SHOAL_OK;
}

static shoal_status open_model(shoal_session *s)
{
  shoal_run *r = &s->run;
  shoal_form *f = &s->form;
  SHOAL_TRY(shoal_form_init(r->backend, f->model, &s->optim_rules, s->gradients, f));
  shoal_model_init(f->model, r->seed + (uint64_t)s->faults.seed, f->params->w, f->params->stats);
  f->params->version++;
  if (s->method->step) return SHOAL_OK; /* which has plans of its own */
  SHOAL_TRY(open_plans(s));
  return shoal_session_cuts(s) ? SHOAL_OK : shoal_session_make_whole(s);
}

static shoal_status open_method(shoal_session *s)
{
  if (s->method->trains == SHOAL_TRAINS_OWN || s->method->trains == SHOAL_TRAINS_PHASES)
    SHOAL_TRY(SHOAL_ALLOC((size_t)shoal_world_size(s->run.world), &s->own.acc));
  if (s->method->open) SHOAL_TRY(s->method->open(&s->run, s->method_state));
  if (s->run.n_columns) SHOAL_TRY(SHOAL_ALLOC(s->run.n_columns, &s->column_value));
  return shoal_session_open_meeting(s);
}

/* Each part can fail on one rank alone, so all ranks agree after each. */
shoal_status shoal_session_open(shoal_session *s, const shoal_train_args *args)
{
  *s = (shoal_session){ .args = args,
                        .run = { .shown_loss = NAN },
                        .test_loss = NAN,
                        .test_acc = NAN,
                        .train_loss = NAN,
                        .own = { .consensus = NAN } };
  SHOAL_TRY(open_world(s));
  shoal_group *control = s->run.control;
  SHOAL_TRY(SHOAL_AGREE_ONCE(control, read_faults(s)));
  SHOAL_TRY(open_folder(s));
  SHOAL_TRY(shoal_session_find(s));
  SHOAL_TRY(open_trace(s));
  SHOAL_TRY(shoal_group_agree(control, open_backend(s)));
  SHOAL_TRY(open_dataset(s));
  SHOAL_TRY(open_data(s));
  SHOAL_TRY(SHOAL_AGREE_ONCE(control, build_model(s)));
  SHOAL_TRY(shoal_group_agree(control, open_loaders(s)));
  SHOAL_TRY(SHOAL_AGREE_ONCE(control, check_test_batches(s)));
  SHOAL_TRY(share_gradients(s));
  SHOAL_TRY(SHOAL_AGREE_ONCE(control, open_model(s)));
  if (shoal_config_bool(s->config, "model.orthogonal")) SHOAL_TRY(shoal_orthogonal_start(control, &s->form));
  return shoal_group_agree(control, open_method(s));
}

void shoal_session_close(shoal_session *s)
{
  shoal_run *r = &s->run;
  shoal_session_close_meeting(s);
  if (s->method_open && s->method->close) s->method->close(r, s->method_state);
  free(s->method_state);
  free(s->own.acc);
  free(s->column_value);
  free(s->resume_path);
  shoal_ckpt_close(s->resume);
  if (s->whole != s->form.plans) shoal_plans_destroy(s->whole);
  shoal_params_destroy(r->backend, s->scratch);
  shoal_form_fini(r->backend, &s->form);
  if (r->world) shoal_group_unshare(r->all, s->gradients);
  shoal_model_destroy(s->model);
  shoal_loader_destroy(s->sample);
  shoal_loader_destroy(s->test);
  shoal_loader_destroy(s->loader);
  shoal_dataset_close(s->data);
  shoal_backend_close(r->backend);
  if (r->world) {
    shoal_world_set_trace(r->world, NULL);
    shoal_world_set_counters(r->world, NULL);
  }
  (void)shoal_trace_close(r->trace);
  shoal_folder_release(&s->folder);
  shoal_world_close(r->world);
  shoal_config_destroy(s->config);
}
