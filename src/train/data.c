/* The run's samples: the data set, how an epoch is cut into batches, and loaders for training, evaluation and
 * statistics. */
#include "base/activity.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/contents.h"
#include "data/labels.h"
#include "train/session.h"
#include <stdlib.h>
#include <string.h>

static bool has_word(const shoal_config *c, const char *option, const char *word)
{
  const char *const *words;
  size_t n = shoal_config_words(c, option, &words);
  for (size_t i = 0; i < n; i++)
    if (strcmp(words[i], word) == 0) return true;
  return false;
}

/* data.last is drop and would drop all of n samples. */
static shoal_status refuse_drop(const shoal_session *s, uint64_t n, uint64_t ranks)
{
  char cure[64] = "use fewer ranks";
  const uint64_t p = SHOAL_MAX(ranks, 1);
  const uint64_t most = shoal_session_strided(s) ? n / p * p : n; /* each rank has a batch of its own */
  if (shoal_config_int(s->world.config, "data.global_batch") && most)
    snprintf(cure, sizeof cure, "data.global_batch to at most %llu", (unsigned long long)most);
  else if (n >= p)
    snprintf(cure, sizeof cure, "data.batch to at most %llu", (unsigned long long)(n / p));
  return SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "data.last is drop, but the global batch of %llu is larger than the %llu training samples: set "
                    "data.last to short or pad, or %s",
                    (unsigned long long)s->data.global_batch, (unsigned long long)n, cure);
}

/* Global and local batch size, and the length of an epoch in positions.  With strided shares every
 * rank takes as many steps as the one with the largest share; in the last step it may have no sample. */
static shoal_status size_batches(shoal_session *s)
{
  const shoal_config *c = s->world.config;
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), n = shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN];
  uint64_t global = (uint64_t)shoal_config_int(c, "data.global_batch");
  s->data.global_batch = global ? global : (uint64_t)shoal_config_int(c, "data.batch") * p;
  bool drops = s->world.choice.last == SHOAL_LAST_DROP;
  if (drops && n < s->data.global_batch) return refuse_drop(s, n, p);
  s->data.own_batch = s->data.global_batch / p;
  s->data.epoch_samples = n;
  s->data.epoch_end = drops ? n / s->data.global_batch * s->data.global_batch : n;
  if (!shoal_session_strided(s)) return SHOAL_OK;
  SHOAL_CHECK(
      s->data.global_batch % p == 0, SHOAL_ERR_USAGE,
      "data.global_batch is %llu: with method %s every rank has a batch of its own, so it must be a multiple of "
      "the %llu ranks",
      (unsigned long long)s->data.global_batch, s->method->name, (unsigned long long)p);
  SHOAL_CHECK(n >= p, SHOAL_ERR_USAGE, "%llu training sample%s for %llu ranks: use %llu rank%s", (unsigned long long)n,
              n == 1 ? "" : "s", (unsigned long long)p, (unsigned long long)n, n == 1 ? "" : "s or fewer");
  s->data.epoch_samples = (n + p - 1) / p;
  s->data.epoch_end = drops ? n / p / s->data.own_batch * s->data.own_batch : s->data.epoch_samples;
  return SHOAL_OK;
}

shoal_status shoal_session_size_data(shoal_session *s)
{
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_group_agree(r->control, size_batches(s)));
  r->share_rank = shoal_world_rank(r->world);
  r->share_size = shoal_world_size(r->world);
  r->copies = shoal_world_size(r->world);
  r->meet.lag = 1;
  r->epoch_samples = s->data.epoch_end;
  r->global_batch = shoal_session_strided(s) ? s->data.own_batch : s->data.global_batch;
  r->pads = s->world.choice.last == SHOAL_LAST_PAD;
  r->steps_per_epoch = (s->data.epoch_end + r->global_batch - 1) / r->global_batch;
  return SHOAL_OK;
}

/* Warnings about the data, kept while it was opened: each text is told once, by the lowest rank that has it. */
static shoal_status tell_warnings(shoal_session *s, const char *text)
{
  int rank = shoal_world_rank(s->run.world), size = shoal_world_size(s->run.world);
  uint32_t mine = text ? shoal_crc32c(0, text, strlen(text)) : 0, *all;
  SHOAL_TRY(SHOAL_ALLOC((size_t)size, &all));
  shoal_status st = shoal_group_allgather(s->run.control, &mine, sizeof mine, all);
  bool first = text != NULL;
  for (int r = 0; r < rank; r++) first = first && all[r] != mine;
  if (st == SHOAL_OK && first) shoal_log_warn_lines(text);
  free(all);
  return st;
}

static shoal_status check_labelled(const shoal_session *s)
{
  const char *names = shoal_dataset_class_names(s->data.set), *path = shoal_dataset_path(s->data.set);
  char word[SHOAL_WORD];
  SHOAL_CHECK(
      !names || strcmp(names, SHOAL_LABELS_NONE) != 0, SHOAL_ERR_IO,
      "%s has no labels: its samples can be predicted, as shoal predict RUN %s does, and not trained on; import "
      "the table with the column that is to be learnt, by --label",
      path, shoal_shell_word(path, word));
  return SHOAL_OK;
}

/* What is chosen by evaluations needs some. */
static shoal_status check_evaluated(const shoal_session *s)
{
  const shoal_run_choice *c = &s->world.choice;
  const shoal_data_info *i = shoal_dataset_info(s->data.set);
  const char *path = shoal_dataset_path(s->data.set);
  const bool best = c->best != SHOAL_BEST_NONE, patience = c->patience > 0;
  const char *options = best && patience ? "ckpt.best and eval.patience" : best ? "ckpt.best" : "eval.patience";
  SHOAL_CHECK(
      i->n[SHOAL_TEST] > 0 || !(best || patience), SHOAL_ERR_USAGE,
      "%s need%s evaluations, but %s has no test split: leave %s out, or add /test/x and /test/y to it, or name a "
      "file that has them beside it, as in data.file=[train.h5,test.h5]",
      options, best && patience ? "" : "s", path, best && patience ? "them" : "it");
  SHOAL_CHECK(i->targets == 0 || c->best != SHOAL_BEST_ACCURACY, SHOAL_ERR_USAGE,
              "ckpt.best is test_acc, but %s has targets, which have no accuracy: give test_loss", path);
  return SHOAL_OK;
}

/* The files that are read: those of the run file, or their copies. */
static shoal_status find_files(shoal_session *s, shoal_texts *files)
{
  const char *const *patterns;
  size_t n = shoal_config_paths(s->world.config, "data.file", &patterns);
  SHOAL_TRY(shoal_session_agree(s, shoal_dataset_match(patterns, n, files)));
  return shoal_session_stage(s, files);
}

/* By these a run that goes on tells samples that were mended from other samples. */
static shoal_status sum_samples(shoal_session *s)
{
  enum { MOST = 256 };
  shoal_session_data *d = &s->data;
  const shoal_data_info *i = shoal_dataset_info(d->set);
  const uint64_t n = i->n[SHOAL_TRAIN];
  const size_t bytes = (size_t)shoal_shape_count(&i->sample) * (size_t)i->x_bytes;
  const bool labelled = i->kind != SHOAL_DATA_TEXT && !i->targets;
  int32_t y = 0;
  void *x;
  d->n_sums = (size_t)SHOAL_MIN(n, (uint64_t)MOST);
  SHOAL_TRY(SHOAL_ALLOC(d->n_sums, &d->sums));
  SHOAL_TRY(shoal_alloc(bytes, 1, "a sample", &x));
  shoal_status st = SHOAL_OK;
  for (size_t k = 0; k < d->n_sums && st == SHOAL_OK; k++) {
    const uint64_t at = (uint64_t)((unsigned __int128)k * n / d->n_sums);
    st = shoal_dataset_rows(d->set, SHOAL_TRAIN, at, 1, x, labelled ? &y : NULL);
    d->sums[k] = shoal_crc32c(0, x, bytes);
    if (i->targets)
      d->sums[k] =
          shoal_crc32c(d->sums[k], shoal_dataset_target(d->set, SHOAL_TRAIN, at), (size_t)i->targets * sizeof(double));
    else
      d->sums[k] = shoal_crc32c(d->sums[k], &y, sizeof y);
  }
  free(x);
  return st;
}

/* Samples of text are as long as the run says. */
static shoal_status take_context(const shoal_session *s)
{
  const shoal_data_info *i = shoal_dataset_info(s->data.set);
  const shoal_config *c = s->world.config;
  if (i->kind == SHOAL_DATA_TEXT) return shoal_dataset_set_context(s->data.set, shoal_config_int(c, "data.context"));
  SHOAL_CHECK(!shoal_config_given(c, "data.context"), SHOAL_ERR_USAGE,
              "data.context is for text, and %s holds %s: leave it out", shoal_dataset_path(s->data.set),
              shoal_data_kind_name(i->kind));
  return SHOAL_OK;
}

static shoal_status open_dataset(shoal_session *s)
{
  shoal_texts files = { 0 };
  shoal_status st = find_files(s, &files);
  if (st != SHOAL_OK) {
    shoal_texts_free(&files);
    return st;
  }
  shoal_log_keep_warnings();
  st = shoal_dataset_open_all((const char *const *)files.at, files.n, &s->data.set);
  shoal_texts_free(&files);
  if (st == SHOAL_OK) st = take_context(s);
  if (st == SHOAL_OK) st = check_labelled(s);
  if (st == SHOAL_OK) st = check_evaluated(s);
  if (st == SHOAL_OK) st = shoal_dataset_check_labels(s->data.set);
  if (st == SHOAL_OK) st = shoal_dataset_check_targets(s->data.set);
  if (st == SHOAL_OK) st = sum_samples(s);
  if (st == SHOAL_OK && shoal_config_bool(s->world.config, "data.shuffle")) shoal_dataset_warn_of_cost(s->data.set);
  if (st == SHOAL_OK) st = shoal_session_delay_start(s);
  char *warnings = shoal_log_kept();
  st = shoal_session_agree(s, st);
  if (st == SHOAL_OK) st = tell_warnings(s, warnings);
  free(warnings);
  return st;
}

shoal_status shoal_session_open_dataset(shoal_session *s)
{
  const char *const *files;
  size_t n = shoal_config_paths(s->world.config, "data.file", &files);
  shoal_activity_begin(true, "opening the data set %s", n ? files[0] : "");
  shoal_status st = open_dataset(s);
  shoal_activity_end();
  return st;
}

shoal_status shoal_session_agree_on_reading(shoal_session *s, shoal_status st)
{
  int rank = shoal_world_rank(s->run.world), size = shoal_world_size(s->run.world);
  bool failed = st != SHOAL_OK && st != SHOAL_STOPPED;
  int64_t lowest = failed ? size - rank : 0; /* the largest is that of the lowest rank */
  shoal_error own = { .code = SHOAL_OK };
  if (size == 1) return st;
  if (failed) shoal_error_keep(&own, st);
  SHOAL_TRY(shoal_group_agree_max(s->run.control, "reading", &lowest));
  if (lowest > 0) {
    int first = size - (int)lowest;
    uint32_t mine = failed ? shoal_crc32c(0, own.text, strlen(own.text)) : 0, told = mine;
    SHOAL_TRY(shoal_group_broadcast(s->run.control, &told, sizeof told, first));
    s->meet.agreed = true;
    atomic_store(&s->world.folder.rank, first);
    if (failed && rank != first && mine == told)
      st = SHOAL_OK; /* quotes the first */
    else if (failed)
      st = shoal_error_append(shoal_error_put(&own), " (host %s)", shoal_world_place(s->run.world)->host);
  }
  return shoal_group_agree(s->run.control, st);
}

/* With eval.batch_norm batch, a test batch needs at least two samples; checked early, like training batches. */
shoal_status shoal_session_check_test_batches(shoal_session *s)
{
  if (!s->data.test || s->run.eval_mode != SHOAL_PLAN_MEASURE) return SHOAL_OK;
  uint64_t p = (uint64_t)shoal_world_size(s->run.world), batch = s->world.choice.eval_batch;
  uint64_t rest = shoal_dataset_info(s->data.set)->n[SHOAL_TEST] % (batch * p);
  SHOAL_CHECK(
      batch > 1 && (rest == 0 || rest >= 2 * p), SHOAL_ERR_USAGE,
      "eval.batch_norm is batch, but eval.batch %llu leaves a rank with less than two of the %llu test samples: "
      "choose another eval.batch, or eval.batch_norm model",
      (unsigned long long)batch, (unsigned long long)shoal_dataset_info(s->data.set)->n[SHOAL_TEST]);
  return SHOAL_OK;
}

/* Of a model whose weights a run begins with; told by rank 0. */
shoal_status shoal_session_compare_features(const shoal_session *s)
{
  const shoal_ckpt *c = s->world.weights;
  if (!c || !shoal_session_is_root(s)) return SHOAL_OK;
  return shoal_features_compare(shoal_dataset_path(s->data.set), shoal_dataset_feature_names(s->data.set),
                                shoal_ckpt_path(c), shoal_ckpt_get_info(c)->data.feature_names);
}

static bool same_as_floats(size_t n, const double *a, const double *b)
{
  bool same = true;
  for (size_t i = 0; i < n; i++) same &= (float)a[i] == (float)b[i];
  return same;
}

/* Of the numbers that are learnt: outputs keep their meaning where a run goes on, or begins with a model of as many targets. */
static void keep_target_scale(const shoal_session *s, const shoal_ckpt *c)
{
  const shoal_ckpt_data *saved = &shoal_ckpt_get_info(c)->data;
  const shoal_data_targets *t = shoal_dataset_targets(s->data.set);
  const size_t bytes = t->n * sizeof *t->mean;
  if (t->n == 0 || saved->targets != t->n) return;
  if (memcmp(saved->target_mean, t->mean, bytes) == 0 && memcmp(saved->target_std, t->std, bytes) == 0) return;
  shoal_dataset_set_target_scale(s->data.set, saved->target_mean, saved->target_std);
  shoal_info("targets are normalised by mean and std of the checkpoint, which differ from those of the data set");
}

/* Estimates differ from what a repacked file states exactly, and a run must not change its inputs half way. */
shoal_status shoal_session_keep_scale(shoal_session *s)
{
  const double *mean, *std, *was_mean, *was_std;
  size_t n, was_n;
  const shoal_ckpt *c = s->world.resume ? s->world.resume : s->world.weights;
  if (c) {
    const shoal_ckpt_data *saved = &shoal_ckpt_get_info(c)->data;
    keep_target_scale(s, c);
    was_n = saved->kind ? saved->scales : 0;
    was_mean = saved->mean;
    was_std = saved->std;
  } else if (s->world.given) {
    was_n = shoal_given_scale(s->world.given, &was_mean, &was_std);
    if (was_n == 0)
      shoal_info("%s does not say how inputs were normalised: this run's are by mean and std of the data set",
                 shoal_given_path(s->world.given));
  } else {
    return SHOAL_OK;
  }
  shoal_dataset_scale(s->data.set, &n, &mean, &std);
  if (was_n == 0) return SHOAL_OK;
  if (!shoal_dataset_takes_scale(s->data.set, was_n)) { /* of other data: the identity will tell */
    if (!c)
      shoal_warn("%s has %zu means of inputs, which fit no sample of this data set: inputs are normalised by mean and "
                 "std of the data set",
                 shoal_given_path(s->world.given), was_n);
    return SHOAL_OK;
  }
  const bool alike =
      was_n == n && same_as_floats(n, was_mean, mean) && same_as_floats(n, was_std, std); /* ONNX has no more digits */
  if (shoal_session_is_root(s)) shoal_dataset_warn_of_scale(s->data.set, was_n, was_mean, was_std);
  if (!alike)
    shoal_info("inputs are normalised by mean and std of the %s, which differ from those of the data set",
               c ? "checkpoint" : "weights");
  return shoal_dataset_set_scale(s->data.set, was_n, was_mean, was_std);
}

shoal_ckpt_data shoal_session_describe_data(const shoal_session *s)
{
  const shoal_data_info *i = shoal_dataset_info(s->data.set);
  const shoal_data_targets *t = shoal_dataset_targets(s->data.set);
  shoal_ckpt_data d = { .kind = shoal_data_kind_name(i->kind),
                        .ndim = i->sample.ndim,
                        .classes = i->classes,
                        .class_names = shoal_dataset_class_names(s->data.set),
                        .feature_names = shoal_dataset_feature_names(s->data.set),
                        .targets = t->n,
                        .target_mean = t->mean,
                        .target_std = t->std,
                        .target_names = t->names };
  for (int k = 0; k < d.ndim; k++) d.sample[k] = i->sample.dim[k];
  shoal_dataset_scale(s->data.set, &d.scales, &d.mean, &d.std);
  return d;
}

static shoal_loader_config for_training(const shoal_session *s)
{
  const shoal_config *c = s->world.config;
  const shoal_run *r = &s->run;
  return (shoal_loader_config){
    .split = SHOAL_TRAIN,
    .seed = shoal_numbers_order_seed(s),
    .rank = r->share_rank,
    .size = r->share_size,
    .batch = r->global_batch,
    .last = s->world.choice.last,
    .share = s->method->share,
    .shard = s->world.choice.shard,
    .shuffle = shoal_config_bool(c, "data.shuffle"),
    .crop4 = has_word(c, "data.augment", "crop4"),
    .hflip = has_word(c, "data.augment", "hflip"),
    .sizes_only = r->reads_none,
    .depth = r->reads_none ? 0 : (int)shoal_config_int(c, "data.prefetch"),
  };
}

shoal_status shoal_session_open_sample(shoal_session *s)
{
  shoal_loader_config l = for_training(s);
  l.seed = s->run.seed;
  l.rank = shoal_world_rank(s->run.world);
  l.size = shoal_world_size(s->run.world);
  l.sizes_only = false;
  l.depth = 0;
  if (l.last == SHOAL_LAST_DROP) l.last = SHOAL_LAST_SHORT; /* a share that fills no batch is padded as in training */
  l.share = SHOAL_SHARE_STRIDED;
  l.batch = s->data.own_batch;
  return s->data.sample ? SHOAL_OK : shoal_loader_create(s->data.set, &l, &s->data.sample);
}

shoal_status shoal_session_open_loaders(shoal_session *s)
{
  const shoal_config *c = s->world.config;
  const shoal_run *r = &s->run;
  int rank = shoal_world_rank(r->world), size = shoal_world_size(r->world);
  const shoal_data_info *info = shoal_dataset_info(s->data.set);
  SHOAL_TRY(shoal_input_create(r->backend, &s->run.input));
  shoal_loader_config l = for_training(s);
  SHOAL_TRY(shoal_loader_create(s->data.set, &l, &s->data.train));
  if (s->method->measures_stats || s->world.choice.eval_measured) SHOAL_TRY(shoal_session_open_sample(s));
  if (info->n[SHOAL_TEST] == 0 && shoal_session_is_root(s) && shoal_config_given(c, "eval.every"))
    shoal_warn("eval.every does nothing: %s has no test split", shoal_dataset_path(s->data.set));
  if (info->n[SHOAL_TEST] == 0) return SHOAL_OK;
  shoal_loader_config t = { .split = SHOAL_TEST,
                            .rank = rank,
                            .size = size,
                            .batch = s->world.choice.eval_batch * (uint64_t)size,
                            .far = s->run.eval_mode == SHOAL_PLAN_MEASURE ? SHOAL_DATA_FAR_BATCH : SHOAL_DATA_FAR };
  return shoal_loader_create(s->data.set, &t, &s->data.test);
}

void shoal_session_close_data(shoal_session *s)
{
  shoal_input_destroy(s->run.input);
  shoal_loader_destroy(s->data.sample);
  shoal_loader_destroy(s->data.test);
  shoal_loader_destroy(s->data.train);
  shoal_dataset_close(s->data.set);
  free(s->data.sums);
}
