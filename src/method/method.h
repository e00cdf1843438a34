/* A training method: how ranks exchange gradients or weights.  The loop (train/) runs batches; a method provides hooks.
 *
 *   outline → open → [fits → load → adopt] → start →  steps, meetings, epochs  → finish → close
 *
 *   a step     forward → backward ──announce(range)──→ grads_ready → rate → optimizer → weights_ready   or: rate → step
 *   between    settle (ranks on their own clocks)       the epoch's end    epoch_end
 *   evaluation assemble → observe                       a checkpoint       assemble or sum → save
 *
 * A method is a schedule (a pure function of step, epoch and agreed loss) and an exchange (groups only).  It never
 * names MPI, NCCL or CUDA, and knows layers only as ranges of the arena and as cuts of the description.  Its state is
 * one zeroed block allocated by the loop; save and load carry everything that must survive a restart.  A new method is
 * one folder, one line in methods.c, one test, one page in docs/. */
#ifndef SHOAL_METHOD_METHOD_H
#define SHOAL_METHOD_METHOD_H
#include "ckpt/together/writer.h"
#include "comm/exchange.h"
#include "config/option.h"
#include "data/loader.h"
#include "nn/form.h"
#include "nn/input.h"

/* How ranks synchronise to save, evaluate and stop: the two policies of train/meet.h. */
typedef enum {
  SHOAL_MEET_IN_ROUNDS, /* a vote for each round of steps, which ends where ranks wait for each other anyway */
  SHOAL_MEET_FREELY     /* ranks step asynchronously; any rank can call the others to meet */
} shoal_meet_kind;
/* Set by the method in `open`, except `rendezvous`; next and lag also by its hooks, alike on all ranks.
 *
 * In rounds: `next` is the number of steps after the next step in which this rank may wait for ranks that are not in lockstep with
 * it; not above the steps so far: after every step.  What it waits for there, others begin `lag` steps before: the vote is posted
 * then.  With 0 it is posted after that step, and waited for. */
typedef struct {
  shoal_meet_kind kind;
  shoal_group *together; /* ranks in lockstep with this one, which wait for it in every step; NULL: none, or all */
  uint64_t next, lag;    /* preset: 0 and 1 */
  bool chained;          /* in rounds: ranks wait for others within a round, so that none may stop by itself in it */
  uint64_t apart;        /* in rounds: steps of the longest, for what the log says of a stop; 0: one */
  const shoal_rendezvous *rendezvous; /* freely: tells whether a meeting was called; set by the loop */
} shoal_meet_policy;
/* A longer round is divided, so that what a rank has to tell all others does not wait for ever; they then stay apart as far as
 * the vote may lag. */
enum { SHOAL_MEET_LONGEST = 64, SHOAL_MEET_SLACK = 16 };

/* The part of the run that a method may read and change; owned by the loop. */
typedef struct shoal_run shoal_run;
struct shoal_run {
  shoal_world *world;
  shoal_group *all, *control; /* owned by the world */
  shoal_backend *backend;
  shoal_input *input; /* brings batches to the backend: shoal_batch_input */
  shoal_trace *trace;
  const shoal_config *config; /* for outline, open and load; options are not looked up in a step */
  const shoal_model *model;   /* the whole network */
  shoal_form *form; /* what this rank trains, as outlined; owned by the loop.  A method with other forms may set one of
                       them here between steps; the loop restores its own after close */
  uint64_t seed, step, epoch; /* step: number of the step now running, from 0 */
  uint64_t batch, batches;    /* index of that step in its epoch, from 0, and steps of the epoch */
  double epochs;              /* the run's length */
  uint64_t steps_per_epoch;
  double rate;            /* the learning rate of this step, before the update; that of the last one between steps */
  const shoal_ckpt *from; /* in outline and open: the checkpoint to resume from; NULL: none */
  /* This rank's share of every global batch: rank and size of the world, unless outline lets several ranks work on the
   * same samples.  reads_none: the input comes from another rank, so the loader gives batch sizes only. */
  int share_rank, share_size;
  bool reads_none;
  int copies; /* how many of the ranks' replicas differ, for the size of a checkpoint; preset: all.  Set in open */
  uint64_t position, epoch_samples; /* samples of the epoch before this step, and its total */
  uint64_t global_batch;            /* samples per step; fewer in an epoch's last one unless padded */
  bool pads;
  shoal_plan_mode eval_mode; /* for plans that evaluate the test split */
  shoal_meet_policy meet;
  uint64_t sent[SHOAL_LINK_COUNT]; /* payload bytes sent by this rank, by the formula of the method's page: hooks add,
                                      the loop collects and clears after each step and meeting */
  const char *const *columns;      /* set in open: extra columns of metrics.csv, the same on all ranks, */
  size_t n_columns;                /* measured by observe */
  double shown_loss;               /* loss to display on a rank that does not compute the network's loss */
  shoal_group *shares; /* ranks that use the same sum of gradients in this step, and so judge it alike; NULL: nobody, or
                          more than one group.  Set by grads_ready, cleared by the loop */
  shoal_group
      *alike; /* ranks whose forms must be equal bit for bit between steps: compared at checkpoints.  Preset: all, if
                          the method trains them alike, else NULL.  Set by the method in open, and with its form */
  /* For methods with their own `step`; the loop calls them otherwise.  judge: after each forward pass of training, with
   * its score; of_network: it is the network's own loss.  look: a range of this rank's gradient of `m` is final, and not
   * yet summed with others; `bad` as it was announced. */
  void (*judge)(shoal_run *r, shoal_score *score, bool of_network);
  shoal_status (*look)(shoal_run *r, const shoal_model *m, float *g, size_t offset, size_t count, size_t *bad);
};

/* What ranks train, which decides what is equal on all ranks between steps. */
typedef enum {
  SHOAL_TRAINS_ALIKE, /* the whole model; weights and optimizer state are the same on all ranks */
  SHOAL_TRAINS_OWN,   /* a whole model per rank: saved per rank, compared in every evaluation */
  SHOAL_TRAINS_PHASES, /* the whole model, and in some phases parts, which the method saves; the loop saves one copy of the
                          whole model's optimizer state, which is equal on all ranks */
  SHOAL_TRAINS_PARTS /* a part on each rank: the whole model exists only while it is assembled */
} shoal_trains;

/* What to build this rank's form from; preset for the whole network. */
typedef struct {
  const shoal_model *model; /* what to train; owned by the method until close.  Preset: the whole network */
  size_t gradients;         /* elements of gradient memory if a later form needs more than this one; preset: 0 */
  bool own_gradients;       /* gradients are not summed with other ranks: no shared memory needed */
} shoal_outline;

/* Stages of a meeting of ranks that run freely.  ARRIVING: finish what this rank began, keep answering others.
 * GATHERED: all ranks have arrived; finish what others began; weights and state do not change from here on.  LEAVING:
 * resume. */
typedef enum { SHOAL_ARRIVING, SHOAL_GATHERED, SHOAL_LEAVING } shoal_settle;

/* Hooks are listed in the order of the calls; any may be NULL.  "Collective": all ranks call the hook at the same
 * point, so it may use collective calls; an error that can occur on one rank alone must be agreed on before the next
 * such call.  After an error of any hook only close is called, which must accept a state in any condition. */
typedef struct {
  const char *name;            /* the word in the run file */
  const char *about;           /* one line for `shoal methods` */
  const char *explanation;     /* paragraphs for `shoal methods NAME` */
  const char *source;          /* authors, title, venue, year */
  const char *memory;          /* its state in a checkpoint that other methods cannot use; NULL: none */
  const shoal_option *options; /* under "method."; ends with name NULL; may be NULL */
  size_t state_size;
  shoal_trains trains;
  shoal_share share;   /* how samples are distributed */
  bool measures_stats; /* no rank trains the assembled model: recompute its batch-norm statistics */

  /* ---- the run file ---- */

  /* Refuses options that contradict each other whatever the data, the model and the ranks are: every verb that reads a run file
   * asks.  Local.  NULL: none do. */
  shoal_status (*check)(const shoal_config *c);

  /* ---- opening ---- */

  /* Says what this rank's form is built from, before weights, optimizer state and plans exist, and which ranks work on
   * the same samples (share_rank, share_size, reads_none).  Collective; ranks agree on its status.  NULL: the whole
   * model. */
  shoal_status (*outline)(shoal_run *r, void *state, shoal_outline *out);
  /* Creates groups, exchanges and buffers; sets `meet` and `columns`.  Collective; ranks agree on its status. */
  shoal_status (*open)(shoal_run *r, void *state);

  /* ---- resuming from a checkpoint ---- */

  /* Whether a checkpoint of this method and layout can be resumed bit for bit.  Local; must return the same on all
   * ranks.  NULL: yes. */
  bool (*fits)(const shoal_run *r, const void *state, const shoal_ckpt *c);
  /* Reads what save has written, after the loop has loaded weights, optimizer, statistics and position.  In another
   * layout: only what is still valid there.  Collective; ranks agree on its status. */
  shoal_status (*load)(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);
  /* For methods that train parts, after load, in another layout or from another method: takes this rank's part of a
   * whole model.  `array` 0: weights; 1 and 2: optimizer slots, if the checkpoint has them; `x` may be overwritten.
   * Local. */
  shoal_status (*adopt)(shoal_run *r, void *state, int array, float *x);

  /* ---- training ---- */

  /* Before the first step of an attempt, after loading.  Collective. */
  shoal_status (*start)(shoal_run *r, void *state);
  /* The divisor of this rank's gradient sum in this step; NULL: the `total` samples of the global batch, so that the
   * sum over all ranks is the mean over samples.  Need not be an integer.  Local. */
  double (*samples)(const shoal_run *r, const void *state, uint64_t total);
  /* Called during backward when a range of the gradient is final; not on a rank without samples.  Local: may start an
   * exchange but must not wait. */
  shoal_status (*announce)(shoal_run *r, void *state, size_t offset, size_t count);
  /* The gradient is complete.  Called in every step, also on a rank without samples.  May wait for other ranks. */
  shoal_status (*grads_ready)(shoal_run *r, void *state);
  /* The learning rate of this step, called once per step; NULL: as scheduled.  Local. */
  double (*rate)(const shoal_run *r, void *state, double scheduled);
  /* The optimizer has updated the weights.  May wait for other ranks. */
  shoal_status (*weights_ready)(shoal_run *r, void *state);
  /* Replaces samples, announce, grads_ready and weights_ready if there are several losses: forward, backward, exchange
   * and update with learning rate `lr`.  `score`: of the network's own loss, on ranks that compute it. */
  shoal_status (*step)(shoal_run *r, void *state, const shoal_batch *b, float lr, shoal_score *score);
  /* Called around a meeting, if ranks run freely: all ranks call it, but not at the same time.  With GATHERED also, and
   * collectively, before a run goes back to a checkpoint, under any policy. */
  shoal_status (*settle)(shoal_run *r, void *state, shoal_settle stage);
  /* All ranks have finished the epoch; `loss`: the agreed mean training loss.  Collective. */
  shoal_status (*epoch_end)(shoal_run *r, void *state, double loss);
  /* After the last step of the run, before its last evaluation.  *changed: the hook changed the weights.  Once more if that
   * evaluation is stopped and made again after a resume: then nothing is left to do.  Collective. */
  shoal_status (*finish)(shoal_run *r, void *state, bool *changed);

  /* ---- evaluation and checkpoints ---- */

  /* Writes the method's model into arenas of the whole network.  May overwrite gradients, nothing else.  Collective.
   * NULL: this rank's weights and the mean statistics over all ranks. */
  shoal_status (*assemble)(shoal_run *r, void *state, float *weights, float *stats);
  /* Measures the extra columns in every evaluation, after assemble.  Called for each batch of this rank's share of the
   * test split (local), to accumulate in values [n_columns], initially 0; then with b NULL (collective), to replace
   * them by the final values. */
  shoal_status (*observe)(shoal_run *r, void *state, const shoal_batch *b, double *values);
  /* For methods whose model's weights are a sum over ranks of arrays that each saves, "weights" and those of save.  A checkpoint then
   * takes them from the files, beside the training, without assemble, unless statistics are measured with them.  May set another
   * sum at each save, the same on all ranks but for the weight.  Local.  NULL: there is no such sum. */
  void (*sum)(const shoal_run *r, const void *state, shoal_ckpt_sum *out);
  /* Saves state beyond weights, optimizer, statistics and loader position, which the loop saves.  Called after
   * assemble, where that is called, and twice: for a writer that computes the size and for one that writes.  Collective; ranks agree on its
   * status. */
  shoal_status (*save)(shoal_run *r, void *state, shoal_ckpt_writer *c);

  /* ---- the end ---- */

  void (*close)(shoal_run *r, void *state); /* also after a failed outline or open; local */
} shoal_method;

/** Where plans may read a batch of a loader of this run, until the next call but one. */
static inline shoal_status shoal_batch_input(const shoal_run *r, const shoal_batch *b, const float **x)
{
  size_t bytes = (size_t)(b->n * shoal_shape_count(&r->model->input)) * sizeof **x;
  return shoal_input_take(r->input, b->x, bytes, x);
}

size_t shoal_methods(const shoal_method *const **out);
const shoal_method *shoal_method_find(const char *name); /* NULL if unknown */

extern const shoal_method shoal_method_sync, shoal_method_local_sgd, shoal_method_daso, shoal_method_swarm,
    shoal_method_ab, shoal_method_ist, shoal_method_local;
#endif
