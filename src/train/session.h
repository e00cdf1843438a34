/* Everything one rank of a run holds, built by session.c in the order of the fields and torn down in reverse. */
#ifndef SHOAL_TRAIN_SESSION_H
#define SHOAL_TRAIN_SESSION_H
#include "method/method.h"
#include "train/folder.h"
#include "train/meet.h"
#include "train/options.h"
#include "train/train.h"
#include <string.h>

/* Where training is: samples consumed of the epoch, and what this rank measured in it so far. */
typedef struct {
  uint64_t epoch, position;
  double loss_sum, samples; /* own samples of this epoch */
  double seconds;           /* training time of earlier attempts */
} shoal_progress;

/* Where ranks hold models of their own: how far apart they are, and how good each is on its own share of the test split.
 * Measured in each evaluation, known to every rank. */
typedef struct {
  double consensus; /* Γ: sum over ranks of |own weights - the model|^2; NAN: not measured */
  double *acc;      /* [size]; owned; NULL where replicas are equal */
} shoal_own_scores;

typedef struct {
  int64_t stop_step, kill_step, exit_step, nan_step; /* -1: never */
  double compute_s, ckpt_s, jitter_s;
  uint64_t no_exchange; /* 0: never */
  int64_t seed;
  float lr;
} shoal_faults;

typedef struct { /* numbers of the trace's string table, asked for once */
  uint32_t step, input, forward, backward, optimizer, agreement, pretended;
} shoal_session_ops;

struct shoal_session {
  shoal_run run; /* what the method sees */
  const shoal_train_args *args;
  shoal_config *config;
  shoal_run_choice choice; /* of its words and periods */
  shoal_session_ops op;
  const shoal_method *method;
  void *method_state;
  bool method_open;
  bool voted;            /* a vote is under way */
  bool bad_loss;         /* seen here */
  bool left_out;         /* the fault hook leaves this step's exchange out */
  bool saved_any, fresh; /* fresh: nothing was resumed */
  bool resumes_own;      /* the checkpoint it goes on from is in the run's own folder; the same on every rank */
  bool agreed;           /* the verdict that ends the run is known to be the same on all ranks */
  bool finished;         /* the method has had its last word */
  bool started;          /* the folder's records are ours to write from here on */
  shoal_folder folder;
  char *resume_path;  /* owned; NULL: a fresh start */
  shoal_ckpt *resume; /* open until it is loaded */
  shoal_dataset *data;
  shoal_loader *loader, *test;
  shoal_loader *sample; /* training batches that measure statistics anew; NULL where a replica has them */
  shoal_model *model;
  shoal_outline outline; /* of the form */
  shoal_form form;       /* what this rank trains; run.form, unless the method trains something else for a while */
  shoal_plans *whole;    /* of the whole model; == form.plans where nothing is cut */
  float *gradients;      /* memory of form.params->g, which the ranks of a node share */
  shoal_params *scratch; /* the assembled model, for evaluation and checkpoints; where parts are trained, only then */
  shoal_optim_config optim_rules;
  shoal_lr_schedule lr;
  shoal_lr_plateau plateau;
  double rate; /* of the last step; before the first, that of the schedule */
  const shoal_meeting *meeting;
  shoal_vote *vote;                            /* where ranks run freely: of those that step together, or NULL */
  shoal_call *call;                            /* instead of the vote, where ranks run freely */
  shoal_ask ask;                               /* where ranks meet rarely: what this one must tell at the next vote */
  uint64_t saved_own_step, evaluated_own_step; /* rank 0's own steps at the last periodic one */
  shoal_progress at;
  shoal_faults faults;
  uint64_t global_batch, own_batch; /* own: strided shares */
  uint64_t epoch_samples;           /* what positions count up to */
  uint64_t epoch_end;               /* where an epoch is over: earlier if some are dropped */
  uint64_t started_ns, saved_ns, logged_ns, shown_ns, polled_ns;
  uint64_t first_step, trained, trained_own; /* step this attempt began at; samples it trained, all ranks; this one */
  uint64_t claimed[SHOAL_LINK_COUNT];        /* the method's formula, summed over the steps of this attempt */
  double save_s;                             /* longest checkpoint so far */
  uint64_t last_saved_step, last_saved_epoch;
  double test_loss, test_acc, train_loss; /* last known; NAN before */
  shoal_own_scores own;
  double *column_value;          /* [run.n_columns] of the last evaluation; owned */
  uint64_t test_step;            /* the step test_loss and test_acc belong to */
  double start_wait_s;           /* waited before the first step */
  double row_step_s, row_wait_s; /* totals at the last row of metrics.csv: speeds are per row */
  uint64_t row_trained;
};

/* session.c */
shoal_status shoal_session_open(shoal_session *s, const shoal_train_args *args);
void shoal_session_close(shoal_session *s);
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
/* check.c: replicas begin equal (H16): parameters, configuration, data set; names the odd rank.  Collective. */
shoal_status shoal_session_check_replicas(shoal_session *s);
/* save.c.  Collective. */
shoal_status shoal_session_save(shoal_session *s);
void shoal_session_layout_text(const shoal_session *s, char *out, size_t cap); /* ranks per node: "2,2" */
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
/* Memory and plans for a whole model; dropped where parts are trained.  Not collective. */
shoal_status shoal_session_make_whole(shoal_session *s);
void shoal_session_drop_whole(shoal_session *s);
/* loop.c */
shoal_status shoal_session_train(shoal_session *s);
bool shoal_session_reached_end(const shoal_session *s); /* all epochs or steps of the run are done */
void shoal_session_count_bytes(shoal_session *s);       /* by the method's formula, since the last call */
/* A wait since t0 for what all ranks have to say: no payload, so the trace keeps it apart from exposed exchange. */
void shoal_session_record_agreement(shoal_session *s, uint64_t t0_ns);
/* report.c: what people see */
void shoal_session_report_start(const shoal_session *s);
void shoal_session_report_live(shoal_session *s, double loss);
void shoal_session_report_epoch(shoal_session *s);
void shoal_session_report_own(const shoal_session *s); /* a line: how good the ranks' own models are */
void shoal_session_print_columns(const shoal_session *s, shoal_str *out); /* header of columns only some methods have */
void shoal_session_report_end(const shoal_session *s, shoal_status st);
void shoal_session_record_metrics(shoal_session *s, bool epoch_end); /* a row; cells not measured here stay empty */
#endif
