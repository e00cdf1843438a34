/* Everything one rank of a run holds, in rooms.  `run` is what the method sees of it.
 *
 *   world    where it runs and what it was told            world.c
 *   data     samples, and how they are dealt               data.c
 *   model    what is trained, by which rules               model.c
 *   meet     how ranks come together                       meet.c and one file for each way
 *   clock    where training is, and since when             loop.c counts
 *   record   what was measured and shown                   evaluate.c, progress.c
 *
 * session.c opens one after another and closes them in reverse. */
#ifndef SHOAL_TRAIN_SESSION_H
#define SHOAL_TRAIN_SESSION_H
#include "method/method.h"
#include "train/folder.h"
#include "train/meet.h"
#include "train/options.h"
#include "train/train.h"
#include <string.h>

typedef struct {
  const shoal_train_args *args;
  shoal_config *config;
  shoal_run_choice choice; /* of its words and periods */
  shoal_folder folder;
  bool started;       /* the folder's records are ours to write from here on */
  char *resume_path;  /* owned; NULL: a fresh start */
  bool resumes_own;   /* that file is in the run's own folder; the same on every rank */
  shoal_ckpt *resume; /* open until it is loaded */
  uint64_t polled_ns; /* when ranks on their own clocks listened last */
} shoal_session_world;

typedef struct {
  shoal_dataset *set;
  shoal_loader *train, *test;
  shoal_loader *sample;             /* training batches that measure statistics anew; NULL where a replica has them */
  uint64_t global_batch, own_batch; /* own: strided shares */
  uint64_t epoch_samples;           /* what positions count up to */
  uint64_t epoch_end;               /* where an epoch is over: earlier if some are dropped */
} shoal_session_data;

typedef struct {
  shoal_model *whole;    /* the network: run.model */
  bool opened;           /* the method may have been asked for its outline: it is to be closed */
  bool finished;         /* the method has had its last word on the weights */
  shoal_outline outline; /* of the form */
  shoal_form form;       /* what this rank trains; run.form, unless the method trains something else for a while */
  float *gradients;      /* memory of form.params->g, which the ranks of a node share */
  shoal_params *scratch; /* the assembled model, for evaluation and checkpoints; where parts are trained, only then */
  shoal_plans *plans;    /* of the whole model; == form.plans where nothing is cut, else only then */
  shoal_optim_config optim;
  shoal_lr_schedule lr;
  shoal_lr_plateau plateau;
} shoal_session_model;

typedef struct {
  const shoal_meeting *way;
  shoal_vote *vote;                            /* where ranks run freely: of those that step together, or NULL */
  shoal_rendezvous *rendezvous;                /* instead of the vote, where ranks run freely */
  bool voted;                                  /* a vote is under way */
  bool bad_loss;                               /* seen here */
  bool agreed;                                 /* the verdict that ends the run is known to be the same on all ranks */
  shoal_ask ask;                               /* where ranks meet rarely: what this one must tell at the next vote */
  uint64_t saved_own_step, evaluated_own_step; /* where ranks run freely: rank 0's own steps at the last periodic one */
} shoal_session_meet;

/* Where training is: samples consumed of the epoch, and what this rank measured in it so far. */
typedef struct {
  uint64_t epoch, position;
  double loss_sum, samples;      /* own samples of this epoch */
  double seconds;                /* training time of earlier attempts */
  double rate;                   /* of the last step; before the first, that of the schedule */
  uint64_t first_step;           /* this attempt began at */
  uint64_t trained, trained_own; /* samples in this attempt: all ranks; this one */
  uint64_t started_ns, saved_ns;
  bool saved_any; /* there is a checkpoint, of this step and epoch */
  uint64_t saved_step, saved_epoch;
} shoal_session_clock;

/* Where ranks hold models of their own: how far apart they are, and how good each is on its own share of the test split.
 * Measured in each evaluation, known to every rank. */
typedef struct {
  double consensus; /* Γ: sum over ranks of |own weights - the model|^2; NAN: not measured */
  double *acc;      /* [size]; owned; NULL where replicas are equal */
} shoal_own_scores;

typedef struct { /* numbers of the trace's string table, asked for once */
  uint32_t step, input, forward, backward, optimizer, agreement, pretended;
} shoal_session_ops;

typedef struct {
  shoal_session_ops op;
  double test_loss, test_acc, train_loss; /* last known; NAN before */
  uint64_t test_step;                     /* the step test_loss and test_acc belong to */
  shoal_own_scores own;
  double *column_value;               /* [run.n_columns] of the last evaluation; owned */
  uint64_t claimed[SHOAL_LINK_COUNT]; /* the method's formula, summed over the steps of this attempt */
  double save_s;                      /* longest checkpoint so far */
  double start_wait_s;                /* waited before the first step */
  double row_step_s, row_wait_s;      /* totals at the last row of metrics.csv: speeds are per row */
  uint64_t row_trained;
  uint64_t logged_ns, shown_ns;
} shoal_session_record;

typedef struct {
  int64_t stop_step, kill_step, exit_step, nan_step; /* -1: never */
  double compute_s, ckpt_s, jitter_s;
  uint64_t no_exchange; /* 0: never */
  bool left_out;        /* so this step's exchange is left out */
  int64_t seed;
  float lr;
} shoal_faults;

struct shoal_session {
  shoal_run run;
  const shoal_method *method;
  void *method_state;
  shoal_session_world world;
  shoal_session_data data;
  shoal_session_model model;
  shoal_session_meet meet;
  shoal_session_clock clock;
  shoal_session_record record;
  shoal_faults faults;
};

/* session.c */
shoal_status shoal_session_open(shoal_session *s, const shoal_train_args *args);
void shoal_session_close(shoal_session *s);
/* world.c.  Collective; a fault is everybody's. */
shoal_status shoal_session_open_world(shoal_session *s);
shoal_status shoal_session_open_folder(shoal_session *s);
shoal_status shoal_session_open_trace(shoal_session *s);
shoal_status shoal_session_open_backend(shoal_session *s); /* local */
void shoal_session_close_world(shoal_session *s);
/* faults.c: hooks for tests.  Local. */
shoal_status shoal_session_read_faults(shoal_session *s);
shoal_status shoal_session_act_faults(shoal_session *s); /* at the beginning of a step */
/* data.c */
shoal_status shoal_session_open_dataset(shoal_session *s); /* collective; a fault is everybody's */
shoal_status shoal_session_size_data(shoal_session *s);    /* the same: batches and epochs */
shoal_status shoal_session_open_loaders(shoal_session *s); /* local */
/* A batch whose own statistics normalise it must have some: asked for early, like the batches of training.  Local. */
shoal_status shoal_session_check_test_batches(shoal_session *s);
void shoal_session_close_data(shoal_session *s);
/* model.c.  Build: description, rules, the method's outline of the form.  Then memory for gradients (collective), then the
 * form with its weights and plans. */
shoal_status shoal_session_build_model(shoal_session *s);
shoal_status shoal_session_share_gradients(shoal_session *s);
shoal_status shoal_session_open_model(shoal_session *s);
void shoal_session_close_model(shoal_session *s);
/* Memory and plans for a whole model; dropped where parts are trained.  Not collective. */
shoal_status shoal_session_make_whole(shoal_session *s);
void shoal_session_drop_whole(shoal_session *s);
/** Plan the last batch of an epoch that goes on at the present position: not that of a whole epoch where ranks or batch
 *  changed.  ERR_USAGE if the model cannot take it. */
shoal_status shoal_session_plan_rest(shoal_session *s);
static inline bool shoal_session_strided(const shoal_session *s)
{
  return s->method->share == SHOAL_SHARE_STRIDED;
}
static inline bool shoal_session_due(shoal_period every, shoal_period_unit unit, uint64_t count)
{
  return every.unit == unit && count % (uint64_t)every.value == 0;
}
static inline bool shoal_session_cuts(const shoal_session *s) /* ranks train parts: the whole model is rarely there */
{
  return s->method->trains == SHOAL_TRAINS_PARTS;
}
static inline bool shoal_session_is_root(const shoal_session *s)
{
  return shoal_world_rank(s->run.world) == 0;
}
/* check.c: replicas begin equal: parameters, configuration, data set; names the odd rank.  Collective. */
shoal_status shoal_session_check_replicas(shoal_session *s);
/* save.c.  Collective. */
shoal_status shoal_session_save(shoal_session *s);
enum { SHOAL_PLACE_EPOCH, SHOAL_PLACE_POSITION, SHOAL_PLACE_STEP, SHOAL_PLACE_OPTIMIZER_STEPS, SHOAL_PLACES };
static inline bool
shoal_session_one_copy(const shoal_session *s) /* of weights and optimizer state: all the loop saves */
{
  return s->method->trains == SHOAL_TRAINS_ALIKE || s->method->trains == SHOAL_TRAINS_PHASES;
}
/* resume.c.  Find the checkpoint to go on from, early, so that methods may look at it (run.from); load it.  Both
 * collective. */
shoal_status shoal_session_find(shoal_session *s);
shoal_status shoal_session_resume(shoal_session *s);
/* evaluate.c.  Collective; evaluate sets test_loss and test_acc. */
shoal_status shoal_session_assemble(shoal_session *s);
shoal_status shoal_session_evaluate(shoal_session *s);
shoal_status shoal_session_score_own(shoal_session *s); /* where ranks hold models of their own; sets own.acc */
/* loop.c */
shoal_status shoal_session_train(shoal_session *s);
bool shoal_session_reached_end(const shoal_session *s); /* all epochs or steps of the run are done */
void shoal_session_count_bytes(shoal_session *s);       /* by the method's formula, since the last call */
/* A wait since t0 for what all ranks have to say: no payload, so the trace keeps it apart from exposed exchange. */
void shoal_session_record_agreement(shoal_session *s, uint64_t t0_ns);
/* progress.c: what people see */
void shoal_session_report_start(const shoal_session *s);
void shoal_session_report_live(shoal_session *s, double loss);
void shoal_session_report_epoch(shoal_session *s);
void shoal_session_report_own(const shoal_session *s); /* a line: how good the ranks' own models are */
void shoal_session_print_columns(const shoal_session *s, shoal_str *out); /* header of columns only some methods have */
void shoal_session_report_end(const shoal_session *s, shoal_status st);
void shoal_session_record_metrics(shoal_session *s, bool epoch_end); /* a row; cells not measured here stay empty */
#endif
