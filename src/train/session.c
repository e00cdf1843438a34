/* Builds a session from the run file and refuses early: all checks come before step 1 and before anything is
 * overwritten.  All ranks agree after each, so a common error is printed once. */
#include "train/session.h"
#include "base/mem.h"
#include "method/common/svd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static shoal_status open_method(shoal_session *s)
{
  if (s->method->trains == SHOAL_TRAINS_OWN || s->method->trains == SHOAL_TRAINS_PHASES)
    SHOAL_TRY(SHOAL_ALLOC((size_t)shoal_world_size(s->run.world), &s->record.own.score));
  if (s->method->open) SHOAL_TRY(s->method->open(&s->run, s->method_state));
  if (s->run.n_columns) SHOAL_TRY(SHOAL_ALLOC(s->run.n_columns, &s->record.column_value));
  return shoal_session_open_meeting(s);
}

/* What is trained, and on what; what the world is found with stays as it is.  A signal ends it at any of the agreements. */
static shoal_status open_training(shoal_session *s)
{
  s->run.shown_loss = NAN;
  s->record.row_step = UINT64_MAX;
  s->best = (shoal_session_best){ .step = UINT64_MAX };
  s->record.rows_kept = 0;
  s->record.from = -1;
  s->record.test_loss = s->record.test_acc = s->record.train_loss = s->record.loss_before = s->record.own.consensus =
      NAN;
  s->record.fit = (shoal_fit_scores){ NAN, NAN, NAN };
  SHOAL_TRY(shoal_session_agree(s, shoal_numbers_open(s)));
  SHOAL_TRY(shoal_session_open_dataset(s));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_compare_features(s)));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_keep_scale(s)));
  SHOAL_TRY(shoal_session_size_data(s));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_build_model(s)));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_open_loaders(s)));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_check_test_batches(s)));
  SHOAL_TRY(shoal_session_share_gradients(s));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_open_model(s)));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_take_weights(s, false)));
  if (shoal_config_bool(s->world.config, "model.orthogonal"))
    SHOAL_TRY(shoal_orthogonal_start(s->run.control, &s->model.form));
  SHOAL_TRY(shoal_session_agree(s, open_method(s)));
  return shoal_session_agree(s, shoal_session_take_weights(s, true));
}

static void close_training(shoal_session *s)
{
  shoal_session_abandon_save(s);
  shoal_session_close_meeting(s);
  if (s->model.opened && s->method->close) s->method->close(&s->run, s->method_state);
  free(s->method_state);
  free(s->clock.saved_path);
  free(s->record.own.score);
  free(s->record.column_value);
  free(s->world.resume_path);
  shoal_ckpt_close(s->world.resume);
  shoal_session_close_weights(s);
  shoal_session_close_model(s);
  shoal_session_close_data(s);
  shoal_numbers_close(s);
}

/* Each part can fail on one rank alone, so all ranks agree after each. */
static shoal_fabric_use nccl_use(const shoal_config *c)
{
  const char *word = shoal_config_string(c, "comm.nccl");
  if (strcmp(word, "off") == 0) return SHOAL_FABRIC_OFF;
  return strcmp(word, "all") == 0 ? SHOAL_FABRIC_ALL : SHOAL_FABRIC_NODE;
}

shoal_status shoal_session_open(shoal_session *s, const shoal_train_args *args)
{
  *s = (shoal_session){ .world.args = args };
  SHOAL_TRY(shoal_session_open_world(s));
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_read_faults(s)));
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_open_ears(s)));
  SHOAL_TRY(shoal_session_open_folder(s));
  SHOAL_TRY(shoal_session_find(s));
  SHOAL_TRY(shoal_session_find_weights(s));
  SHOAL_TRY(shoal_session_open_trace(s));
  SHOAL_TRY(shoal_session_load_costs(s));
  SHOAL_TRY(shoal_session_agree(s, shoal_session_open_backend(s)));
  SHOAL_TRY(shoal_world_open_fabric(s->run.world, nccl_use(s->world.config)));
  SHOAL_TRY(shoal_world_try_direct(s->run.world, shoal_config_bool(s->world.config, "comm.cuda_aware")));
  return open_training(s);
}

/* All but the world is forgotten: as if the program had been started again, with the same folder, trace and attempt. */
shoal_status shoal_session_reopen(shoal_session *s)
{
  const shoal_run old = s->run;
  close_training(s);
  s->method_state = NULL;
  s->world.resume_path = NULL;
  s->world.resume = NULL;
  s->data = (shoal_session_data){ 0 };
  s->model = (shoal_session_model){ 0 };
  s->meet = (shoal_session_meet){ 0 };
  s->clock = (shoal_session_clock){ 0 };
  s->record.own = (shoal_own_scores){ 0 };
  s->record.column_value = NULL;
  s->run = (shoal_run){ .world = old.world,
                        .all = old.all,
                        .control = old.control,
                        .backend = old.backend,
                        .trace = old.trace,
                        .config = old.config,
                        .seed = old.seed,
                        .epochs = old.epochs };
  SHOAL_TRY(shoal_session_find(s));
  SHOAL_TRY(shoal_session_find_weights(s));
  return open_training(s);
}

void shoal_session_close(shoal_session *s)
{
  close_training(s);
  shoal_session_close_ears(s);
  shoal_session_close_world(s);
}
