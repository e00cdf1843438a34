/* The state of one rank of a run, in groups.  `run` is the part visible to the method.
 *
 *   world    ranks, folder and configuration               world.c
 *   data     samples and their distribution                data.c
 *   model    what is trained, and the optimizer            model.c
 *   meet     how ranks agree                               meet.c and a file per policy
 *   clock    position, steps and times                     updated by loop.c
 *   record   measurements and output                       evaluate.c, progress.c
 *   numbers  those that are not finite                     numbers.c
 *   ears     requests to stop                              hear.c, stop.c
 *
 * session.c opens one after another and closes them in reverse. */
#ifndef SHOAL_TRAIN_SESSION_H
#define SHOAL_TRAIN_SESSION_H
#include "method/method.h"
#include "nn/given.h"
#include "train/fit.h"
#include "train/folder.h"
#include "train/meet.h"
#include "train/numbers.h"
#include "train/options.h"
#include "train/train.h"
#include <string.h>

typedef struct {
  const shoal_train_args *args;
  shoal_config *config;
  shoal_run_choice choice; /* of its words and periods */
  shoal_folder folder;
  bool started;        /* this attempt may write the folder's records */
  char *resume_path;   /* owned; NULL: a fresh start */
  bool resumes_own;    /* that file is in the run's own folder; the same on every rank */
  shoal_ckpt *resume;  /* open until it is loaded */
  shoal_ckpt *weights; /* of model.weights, likewise; NULL if there is something to resume from */
  shoal_given *given;  /* the same where that is no checkpoint */
  char *no_device;     /* owned: why device auto finds no GPU here; NULL: it does, or none was looked for */
  void *trace_ring;    /* of the recorder, shared by the ranks of a node; NULL: it has memory of its own */
  uint64_t polled_ns;  /* last poll of asynchronous ranks */
  bool trace_ended;    /* the file could not be written any more */
  int64_t told_ended;  /* so many ranks, when rank 0 warned last */
} shoal_session_world;

typedef struct {
  shoal_dataset *set;
  shoal_loader *train, *test;
  shoal_loader *sample;             /* training batches to recompute statistics; NULL if not needed */
  uint64_t global_batch, own_batch; /* own: strided shares */
  uint64_t epoch_samples;           /* the end of positions */
  uint64_t epoch_end;               /* the end of an epoch, earlier if samples are dropped */
  uint32_t *sums;                   /* [n_sums] check sums of evenly spaced training samples with their labels */
  size_t n_sums;
} shoal_session_data;

typedef struct {
  shoal_model *whole;     /* the network: run.model */
  bool opened;            /* outline was called, so the method must be closed */
  bool finished;          /* the method's finish was called */
  shoal_outline outline;  /* of the form */
  shoal_form form;        /* what this rank trains; run.form, unless the method trains something else for a while */
  shoal_memory gradients; /* of form.params->g, registered; none if they are summed with nobody */
  shoal_params *scratch;  /* the assembled model, for evaluation and checkpoints; temporary if parts are trained */
  shoal_plans *plans;     /* of the whole model; == form.plans unless parts are trained, then temporary */
  shoal_optim_config optim;
  shoal_lr_schedule lr;
  shoal_lr_plateau plateau;
  int64_t weights_checksum; /* of the weights that the run began with, if they are from a file; -1: from the seed */
} shoal_session_model;

typedef struct {
  const shoal_meeting *way;
  shoal_vote *vote;             /* of all; asynchronous ranks: of those that step together, or NULL */
  shoal_rendezvous *rendezvous; /* asynchronous ranks: replaces the vote */
  bool voted;                   /* a vote is in flight */
  shoal_vote *promise;          /* in rounds: where a rank can stop before the end of one */
  shoal_vote *notice;           /* in rounds: whether one of those in lockstep has heard; NULL: there are none */
  bool promising, noticed;      /* these are in flight */
  uint64_t voted_ns, promised_ns, noticed_ns;  /* when they were posted */
  uint64_t votes, promises, notices, meetings; /* so far: their numbers in the trace */
  uint64_t together_at, promised;              /* steps: the round's end; this rank's promise, 0: none yet */
  int64_t stop_at;                             /* the largest of all; 0: not known */
  uint64_t lag;                                /* of this round: steps from its vote to its end */
  bool promises_now;                           /* in this round */
  bool agreed;                                 /* all ranks are known to have the same final status */
  uint64_t saved_own_step;                     /* asynchronous: rank 0's steps at the last periodic one */
} shoal_session_meet;

/* Position of the training: samples consumed of the epoch, and this rank's measurements in it. */
typedef struct {
  uint64_t epoch, position;
  double loss_sum, samples;      /* own samples of this epoch */
  double seconds;                /* training time of earlier attempts */
  double rate;                   /* of the last step; before the first, that of the schedule */
  uint64_t first_step;           /* this attempt began at */
  uint64_t trained, trained_own; /* samples in this attempt: all ranks; this one */
  uint64_t started_ns, saved_ns;
  bool saved_any;                                   /* this run's folder has a checkpoint, of this step and epoch */
  uint64_t saved_step, saved_epoch, saved_row_step; /* the last: record.row_step then */
  char *saved_path;                                 /* of this attempt's last checkpoint; owned */
} shoal_session_clock;

/* Training without evaluations and checkpoints, from the end of the start's first step, which has one-time costs, to that of the last
 * one: what samples per second are computed from (docs/runs.md).  Of ranks on their own clocks: of rank 0's. */
typedef struct {
  uint64_t begun_ns;                    /* 0: no step yet */
  double pauses_before, trained_before; /* by then: seconds of evaluations and checkpoints, samples of all ranks */
  double seconds, samples;
} shoal_session_pace;

/* For ranks with their own models: their distance from the model, and the score of each on its share of the test
 * split.  Measured in every evaluation, equal on all ranks. */
typedef struct {
  double consensus; /* Γ: sum over ranks of |own weights - the model|^2; NAN: not measured */
  double *score;    /* [size] accuracy, or loss of targets; owned; NULL where replicas are equal */
} shoal_own_scores;

/* The best evaluation so far; the same on all ranks. */
typedef struct {
  double value;
  uint64_t step;  /* UINT64_MAX: none */
  uint64_t worse; /* evaluations since */
  bool ends;      /* the run: there were too many */
} shoal_session_best;

/* A checkpoint that is being written beside the training; of the members, `writer` tells whether there is one. */
typedef struct {
  shoal_ckpt_writer *writer;
  shoal_ckpt_copies copies;
  uint64_t step, epoch, row_step; /* of the clock then, and record.row_step */
  uint64_t file_step;             /* of its name: the mean over ranks on their own clocks */
  uint64_t began_ns;
  atomic_uint_least64_t launched_ns; /* training has waited from began_ns on */
  bool best;                         /* it is kept as the best, too */
  bool stops;                        /* it is that of a stop */
  const char *again;                 /* what is said of a second one of the same step; else "" */
  double seconds;                    /* rank 0: until it was there; set by the writing thread, as is failure */
  shoal_error failure;               /* rank 0: of what comes after it: prune, keeping the best */
} shoal_session_saving;

typedef struct { /* indices in the trace's string table */
  uint32_t step, input, forward, backward, optimizer, agreement, promise, notice, epoch, pretended;
} shoal_session_ops;

typedef struct {
  shoal_session_ops op;
  double test_loss, test_acc, train_loss, loss; /* latest, loss of a step on this rank; NAN if none */
  double loss_before;                           /* train_loss of the epoch before, in this attempt; NAN if none */
  bool rose;                                    /* train_loss did in some epoch of this attempt */
  shoal_fit_scores fit;                         /* of targets, which have no accuracy; NAN of classes */
  uint64_t test_step;                           /* the step that test_loss, test_acc and fit belong to */
  uint64_t evaluations;                         /* since this attempt began to train, ... */
  double evaluations_s;                         /* ... and their seconds */
  shoal_own_scores own;
  double *column_value;               /* [run.n_columns] of the last evaluation; owned */
  uint64_t claimed[SHOAL_LINK_COUNT]; /* the method's formula, summed over the steps of this attempt */
  double save_s;                      /* longest checkpoint so far */
  bool unpruned, untrue;              /* rank 0: the last time, old checkpoints stayed, status.json was not written */
  bool save_failed;                   /* the last one, on all ranks, for want of room or by an error of the disk */
  double before_s[SHOAL_TRACE_KIND_COUNT]; /* spent before the first step, or before going back to a checkpoint */
  double row_step_s, row_wait_s;           /* totals at the last row of metrics.csv: shares are per row */
  uint64_t row_step;                       /* of the last row; UINT64_MAX: none */
  double row_speed;                        /* samples/s over all ranks of that row */
  shoal_session_pace pace, row_pace;       /* now, and at the last row */
  int64_t rows_kept;                       /* of earlier attempts, as the checkpoint says */
  int64_t from;    /* checksum of the seal of the checkpoint from elsewhere that the run began from; -1: of none */
  double paused_s; /* of this process, told in the log */
  uint64_t logged_ns, shown_ns, told_ns; /* of the last log line, live line, and figures for status.json */
} shoal_session_record;

typedef struct {
  int64_t stop_step, kill_step, exit_step, nan_step; /* -1: never */
  shoal_fault_place nan_place;                       /* of nan_step */
  double compute_s, ckpt_s, start_s, eval_s, end_s, jitter_s, delay_s;
  uint64_t no_exchange; /* 0: never */
  uint64_t trace_off;   /* 0: never */
  bool left_out;        /* this step's exchange is skipped */
  int64_t seed;
  float lr;
} shoal_faults;

typedef struct {
  shoal_rendezvous *spread; /* requests go to all ranks; nobody joins it */
  bool drops;               /* what is under way can be dropped */
  bool told;                /* the log and status.json say that the run will stop */
  bool stops, saved;        /* what is saved now is for a stop; rank 0: it was written, and status.json says so */
  bool looked, lost;        /* at the first request: whether a rank of this node was gone */
} shoal_session_ears;

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
  shoal_session_numbers numbers;
  shoal_session_best best;
  shoal_session_saving saving;
  shoal_session_ears ears;
  shoal_faults faults;
};

/* session.c */
shoal_status shoal_session_open(shoal_session *s, const shoal_train_args *args);
void shoal_session_close(shoal_session *s);
/* Closes all but the world, and opens it anew from the last good checkpoint of the run, or from the start.  Collective. */
shoal_status shoal_session_reopen(shoal_session *s);
/* world.c.  Collective; ranks agree on the status. */
shoal_status shoal_session_open_world(shoal_session *s);
shoal_status shoal_session_open_folder(shoal_session *s);
/* everywhere.c: ERR_WORLD if a node sees another folder than rank 0 has taken, or none: told once, with path and host.  One
 * rank of a node reads a small file; waits for up to 75 s where a network file system may show it late.  Collective. */
shoal_status shoal_session_see_folder(shoal_session *s);
shoal_status shoal_session_open_trace(shoal_session *s);
/** Sets the costs of messages that comm.costs names.  Collective; ERR_USAGE, ERR_IO. */
shoal_status shoal_session_load_costs(shoal_session *s);
/* A trace that cannot be written never ends the training: rank 0 warns once, and nothing more is recorded.  Local. */
void shoal_session_flush_trace(shoal_session *s, bool even_if_recent);
shoal_status shoal_session_count_traces(shoal_session *s); /* warns if other ranks' ended; collective */
shoal_status shoal_session_open_backend(shoal_session *s); /* local */
void shoal_session_close_world(shoal_session *s);
/* faults.c: hooks for tests.  Local. */
shoal_status shoal_session_read_faults(shoal_session *s);
shoal_status shoal_session_act_faults(shoal_session *s, const shoal_batch *b); /* at the beginning of a step */
shoal_status shoal_session_delay_start(shoal_session *s);                      /* while the data set is opened */
void shoal_session_delay_evaluation(const shoal_session *s);                   /* in every batch */
void shoal_session_spoil_loss(const shoal_session *s, shoal_score *score);
/* data.c */
shoal_status shoal_session_open_dataset(shoal_session *s); /* collective; ranks agree on the status */
/* stage.c, data.stage: copies the files to each node's disk, and names the copies instead.  Collective; ranks agree on the status. */
shoal_status shoal_session_stage(shoal_session *s, shoal_texts *files);
shoal_status shoal_session_size_data(shoal_session *s);    /* likewise: batches and epochs */
shoal_status shoal_session_open_loaders(shoal_session *s); /* local */
/* The batches by which statistics are measured; once is enough.  Local. */
shoal_status shoal_session_open_sample(shoal_session *s);
/* With eval.batch_norm batch, checks that test batches are large enough; early, like training batches.  Local. */
shoal_status shoal_session_check_test_batches(shoal_session *s);
/* ERR_USAGE where the features are those of model.weights in another order; a warning if their names differ.  Local. */
shoal_status shoal_session_compare_features(const shoal_session *s);
/* Normalise as the run did that goes on, or as the weights it begins with were trained, if they say how.  Local. */
shoal_status shoal_session_keep_scale(shoal_session *s);
shoal_ckpt_data shoal_session_describe_data(const shoal_session *s); /* borrowed from the data set */
void shoal_session_close_data(shoal_session *s);
/* model.c.  Build: description, rules, the method's outline of the form.  Then memory for gradients (collective), then
 * the form with its weights and plans. */
shoal_status shoal_session_build_model(shoal_session *s);
shoal_status shoal_session_share_gradients(shoal_session *s);
shoal_status shoal_session_open_model(shoal_session *s);
void shoal_session_close_model(shoal_session *s);
/* Creates memory and plans for a whole model; dropped again if parts are trained.  Not collective. */
shoal_status shoal_session_make_whole(shoal_session *s);
void shoal_session_drop_whole(shoal_session *s);
/** Plans the last batch of an epoch resumed at the current position, which differs from that of a whole epoch if ranks
 *  or batch size changed.  ERR_USAGE if the model cannot take it. */
shoal_status shoal_session_plan_rest(shoal_session *s);
static inline bool shoal_session_strided(const shoal_session *s)
{
  return s->method->share == SHOAL_SHARE_STRIDED;
}
static inline bool shoal_session_due(shoal_period every, shoal_period_unit unit, uint64_t count)
{
  return every.unit == unit && count % (uint64_t)every.value == 0;
}
/* Whether numbers are learnt, and not classes. */
static inline bool shoal_session_has_targets(const shoal_session *s)
{
  return shoal_dataset_info(s->data.set)->targets > 0;
}
/* Whether ranks train parts, so that the whole model exists only temporarily. */
static inline bool shoal_session_cuts(const shoal_session *s)
{
  return s->method->trains == SHOAL_TRAINS_PARTS;
}
static inline bool shoal_session_is_root(const shoal_session *s)
{
  return shoal_world_rank(s->run.world) == 0;
}
/* check.c: checks that replicas have equal parameters, configuration and data set; names a deviating rank.
 * Collective. */
shoal_status shoal_session_check_replicas(shoal_session *s);
/* ERR_WORLD if weights or optimizer state are not equal within run.alike; names a rank that differs from most.  For
 * checkpoints: a checksum of all of it.  Collective. */
shoal_status shoal_session_check_alike(shoal_session *s);
/* hear.c: requests to stop, by a signal at any rank.  Open: from now on they spread to all ranks, and interrupt the start
 * (base/interrupt.h); collective. */
shoal_status shoal_session_open_ears(shoal_session *s);
void shoal_session_close_ears(shoal_session *s); /* also if never opened */
/* From now on the run has something to lose: only between steps, and in evaluation, a request is acted on.  Local. */
void shoal_session_begin(shoal_session *s);
/* Whether this rank knows of a request; looks for those of others.  Local. */
bool shoal_session_heard(shoal_session *s);
/* STOPPED if it does, in work that can be dropped: in the start, and in an evaluation.  Local; to be agreed on. */
shoal_status shoal_session_may_go_on(shoal_session *s);
/* shoal_group_agree where the start can stop: STOPPED on all ranks if any has it or knows of a request.  Collective. */
shoal_status shoal_session_agree(shoal_session *s, shoal_status st);
/* shoal_group_agree where ranks read samples, or a checkpoint that their nodes may lack: if one fails, the run ends alike on
 * all.  The lowest that failed tells it, with its host, and the others only what is another error.  Collective. */
shoal_status shoal_session_agree_on_reading(shoal_session *s, shoal_status st);
/* After a step: says once, when rank 0 knows of a request, how long the stop may take, also in status.json.  Local. */
void shoal_session_tell_stop(shoal_session *s);
/* Rank 0, as soon as the checkpoint of a stop is written, that of `step`: status.json says so at once, for a kill may be next.  From
 * then on the run counts as stopped, whatever its end brings. */
void shoal_session_tell_saved(shoal_session *s, uint64_t step);
/* For status.json: how long steps and checkpoints of this attempt take.  On rank 0. */
void shoal_session_note_lead(shoal_session *s);
/* Tells how to stop the run, and which signals do not.  Collective. */
shoal_status shoal_session_offer_stop(const shoal_session *s);
/* save.c.  Collective.  Due: one that is not the run's last may fail, if ckpt.failure says so.  Last, before a stop or at the end:
 * then it is tried again for a while, until there is room or a further signal comes.  Check: ERR_IO, before the
 * training, if the disk has no room for one checkpoint; a warning if it has not for all. */
shoal_status shoal_session_save_due(shoal_session *s);
shoal_status shoal_session_save_last(shoal_session *s, bool stops);
shoal_status shoal_session_check_room(shoal_session *s);
/* Waits until the checkpoint that is being written beside the training is there.  Collective, also if there is none.  One that fails
 * may do so if ckpt.failure says so.  Abandon: at the end of a run that fails; local. */
shoal_status shoal_session_finish_save(shoal_session *s);
/* Removes what ckpt.keep leaves out, beside the checkpoint of `step`.  Rank 0.  A file that cannot be removed stays: told once. */
void shoal_session_prune(shoal_session *s, uint64_t step);
void shoal_session_abandon_save(shoal_session *s);
enum { SHOAL_PLACE_EPOCH, SHOAL_PLACE_POSITION, SHOAL_PLACE_STEP, SHOAL_PLACE_OPTIMIZER_STEPS, SHOAL_PLACES };
/* Whether the loop saves one copy of weights and optimizer state for all ranks. */
static inline bool shoal_session_one_copy(const shoal_session *s)
{
  return s->method->trains == SHOAL_TRAINS_ALIKE || s->method->trains == SHOAL_TRAINS_PHASES;
}
/* best.c.  After an evaluation and its row: keeps the model if it is the best, and may end the run.  Collective. */
shoal_status shoal_session_weigh(shoal_session *s);
shoal_status shoal_session_find_best(shoal_session *s); /* after a resume; collective */
void shoal_session_put_best(const shoal_session *s, shoal_ckpt_writer *w);
shoal_status shoal_session_get_best(shoal_session *s, const shoal_ckpt *c);
/* loop.c.  Whether an evaluation is due after this step by the number of steps; that at an epoch's or the run's end is part of
 * its row.  The other saves and returns STOPPED if a signal ends the evaluation; collective. */
bool shoal_session_owes_row(const shoal_session *s);
shoal_status shoal_session_evaluate_and_record(shoal_session *s);
/* resume.c.  Find the checkpoint to resume from, early, so that methods can read it (run.from); load it.  Both
 * collective. */
shoal_status shoal_session_find(shoal_session *s);
shoal_status shoal_session_resume(shoal_session *s);
/* mean.c.  Mean over all replicas of a checkpoint that have an f32 array `name` [n], into `out` [n] of the backend; *found: there was
 * one.  Every rank reads a part of each, and sends it to all; bits do not depend on that.  Collective; ranks agree on the status. */
shoal_status shoal_session_mean_of_replicas(shoal_session *s, const shoal_ckpt *c, const char *name, size_t n,
                                            float *out, bool *found);
/* weights.c: model.weights.  Find: after a checkpoint to resume from was looked for; collective.  Take: called before and after the
 * method is opened, because a method sees weights when it is opened, but can only then cut parts of them; local. */
shoal_status shoal_session_find_weights(shoal_session *s);
shoal_status shoal_session_take_weights(shoal_session *s, bool method_is_open);
void shoal_session_close_weights(shoal_session *s);
/* rate.c: warns if the next step's learning rate is another than by the `resolved` run file of the checkpoint. */
shoal_status shoal_session_report_rate(const shoal_session *s, const char *resolved);
/* rate.c: the share of a weight that decay takes away in one update at the full learning rate. */
double shoal_session_decay(const shoal_session *s);
/* rate.c: warns of a warm-up or a drop that the run does not live to see the end of. */
void shoal_session_warn_of_schedule(const shoal_session *s);
/* evaluate.c.  Collective; evaluate sets test_loss, and test_acc or fit. */
shoal_status shoal_session_assemble(shoal_session *s);
/* What a checkpoint needs of it: statistics alone, if its weights are to be the method's sum, taken beside the training. */
shoal_status shoal_session_assemble_to_save(shoal_session *s);
bool shoal_session_saves_sum(const shoal_session *s); /* local */
shoal_status shoal_session_evaluate(shoal_session *s);
shoal_status shoal_session_score_own(shoal_session *s); /* for ranks with their own models; sets own.score */
/* loop.c */
shoal_status shoal_session_train(shoal_session *s);
bool shoal_session_reached_end(const shoal_session *s); /* all epochs or steps of the run are done */
void shoal_session_count_bytes(shoal_session *s);       /* by the method's formula, since the last call */
/* Records an agreement of a group that this rank began at posted_ns and has waited for since waits_ns.  It has no payload, so the
 * trace separates it from exposed exchange.  `number`: of this op, equal on all members. */
void shoal_session_record_agreement(shoal_session *s, uint32_t op, shoal_group *g, uint64_t number, uint64_t posted_ns,
                                    uint64_t waits_ns);
/* estimate.c: seconds to the end of the run, with so many epochs done; NAN: not known yet. */
double shoal_session_seconds_left(const shoal_session *s, double done);
/* progress.c: terminal and log output.  Times and speeds count from start_totals on. */
void shoal_session_start_totals(shoal_session *s);
double shoal_session_total_s(const shoal_session *s, shoal_trace_kind kind); /* in steps, since then */
void shoal_session_keep_pace(shoal_session *s,
                             uint64_t now_ns); /* after a step, and where clock.trained was counted anew */
void shoal_session_report_start(const shoal_session *s);
void shoal_session_tell_pause(shoal_session *s); /* once each, on rank 0 */
void shoal_session_report_live(shoal_session *s, double loss);
shoal_status shoal_session_status(shoal_session *s, const char *state, int exit_code,
                                  const char *reason); /* status.json; rank 0 */
/* The same while the run goes on, which it does whatever happens: a failure is told once, until one succeeds. */
void shoal_session_refresh_status(shoal_session *s, const char *state, const char *reason);
void shoal_session_report_epoch(shoal_session *s);
void shoal_session_report_own(const shoal_session *s);                    /* logs the score of the ranks' own models */
void shoal_session_print_columns(const shoal_session *s, shoal_str *out); /* header of columns that some runs have */
void shoal_session_report_end(const shoal_session *s, shoal_status st);
void shoal_session_record_metrics(shoal_session *s, bool epoch_end); /* a row; cells not measured here stay empty */
#endif
