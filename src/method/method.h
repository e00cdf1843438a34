/* A training method: how ranks share what they learn.  The loop (train/) runs batches; a method hooks into it.
 *
 *   outline → open → [fits → load → adopt] → start →  steps, meetings, epochs  → finish → close
 *
 *   a step     forward → backward ──announce(range)──→ grads_ready → rate → optimizer → weights_ready     or: rate → step
 *   between    settle (ranks on their own clocks)       the epoch's end    epoch_end
 *   looking    assemble → observe                       a checkpoint       assemble → save
 *
 * A method is a schedule (a pure function of step, epoch and agreed loss) and an exchange (groups only): it never names
 * MPI, NCCL or CUDA, and knows layers only as ranges of the arena and as cuts of the description.  Its state is one
 * zeroed block that the loop allocates; everything that must survive a stop goes through save and load.  A new method is
 * one folder, one line in methods.c, one test, one page in docs/. */
#ifndef SHOAL_METHOD_METHOD_H
#define SHOAL_METHOD_METHOD_H
#include "ckpt/together/writer.h"
#include "comm/exchange.h"
#include "config/option.h"
#include "data/loader.h"
#include "nn/form.h"

/* How ranks come together to save, evaluate and stop: the three ways of train/meet.h. */
typedef enum {
  SHOAL_MEET_EVERY_STEP,    /* a vote in every step, or every few: it travels while the next one computes */
  SHOAL_MEET_AT_BOUNDARIES, /* only where ranks have just waited for each other; the answer takes effect at once */
  SHOAL_MEET_FREELY         /* ranks step on their own clocks; who wants something calls the others */
} shoal_meet_kind;
/* Set in `open`, but for two members. */
typedef struct {
  shoal_meet_kind kind;
  uint64_t every;        /* EVERY_STEP: steps from one vote to the next, at least as many as ranks may be apart; 0: 1 */
  shoal_group *together; /* FREELY: ranks that take every step with this one; NULL: nobody does */
  const shoal_rendezvous *rendezvous; /* FREELY: whether ranks are called to meet; the loop's, from the first step on */
  bool boundary; /* AT_BOUNDARIES: set by a hook of the step that ends in one; the loop clears it before each */
} shoal_meet_policy;

/* What a method may see and change of the run; owned by the loop. */
typedef struct {
  shoal_world *world;
  shoal_group *all, *control; /* owned by the world */
  shoal_backend *backend;
  shoal_trace *trace;
  const shoal_config *config; /* for outline, open and load: a step looks up no option */
  const shoal_model *model;   /* the whole network */
  shoal_form
      *form; /* what this rank trains: the loop's, as outlined.  A method with forms of its own may put one of them
                       here between steps; the loop's is back after close */
  uint64_t seed, step, epoch; /* step: number of the step now running, from 0 */
  uint64_t batch, batches;    /* number of that step in its epoch, from 0, and how many the epoch has */
  double epochs;              /* the run's length */
  uint64_t steps_per_epoch;
  const shoal_ckpt *from; /* in outline and open: the checkpoint the run goes on from; NULL: none */
  /* How samples reach this rank: its share of every global batch.  The rank's own number among all, unless outline says
   * that several ranks work on the same samples; reads_none: on what another rank sends, so batches come as sizes only. */
  int share_rank, share_size;
  bool reads_none;
  uint64_t position, epoch_samples; /* samples of the epoch done before this step, and in all */
  uint64_t global_batch;            /* samples in a step; fewer in an epoch's last one, unless it is padded */
  bool pads;
  shoal_plan_mode eval_mode; /* of plans that score the test split */
  shoal_meet_policy meet;
  uint64_t
      sent[SHOAL_LINK_COUNT]; /* payload bytes this rank has sent, by the formula of the method's page: hooks add, the
                                      loop takes them away after each step and meeting */
  const char *const *columns; /* set in open: names of further columns of metrics.csv, the same on all ranks, for */
  size_t n_columns;           /* what observe measures */
  double shown_loss;          /* a loss of this rank to show people where it has not the network's own */
  bool spoil; /* fault hook: a gradient of this step is to be NaN (for methods with a step of their own) */
} shoal_run;

/* What ranks train, and so what is the same on all of them between steps. */
typedef enum {
  SHOAL_TRAINS_ALIKE, /* the whole model; weights and optimizer state are the same on all ranks */
  SHOAL_TRAINS_OWN,   /* the whole model, each rank its own: saved for each, compared in every evaluation */
  SHOAL_TRAINS_PHASES, /* the whole model, and at times parts, whose weights and state the method saves; the loop keeps one
                          copy of the whole model's optimizer state, which is the same on all ranks */
  SHOAL_TRAINS_PARTS /* a part on each rank: the whole model exists only while it is assembled */
} shoal_trains;

/* What the form of this rank is to be made of. */
typedef struct {
  const shoal_model *model; /* what it trains; the method's until close.  As given: the whole network */
  size_t gradients;         /* numbers of gradient memory, where a later form needs more than this one; as given: 0 */
  bool own_gradients;       /* no other rank sums them: they need not lie in memory that the ranks of a node share */
} shoal_outline;

/* Around a meeting of ranks that run freely.  ARRIVING: finish what this rank began, go on answering others.  GATHERED: all
 * have arrived; finish what others began; weights and state stay at rest from here on.  LEAVING: go on. */
typedef enum { SHOAL_ARRIVING, SHOAL_GATHERED, SHOAL_LEAVING } shoal_settle;

/* Hooks stand in the order in which they are called; all may be NULL.  "Collective": all ranks call it at the same place, so
 * it may use collective calls, and an error that one rank alone may have is to be agreed on before the next of them.
 * After an error of any hook the run is over: the only hook still called is close, which takes any state it finds. */
typedef struct {
  const char *name;            /* the word in the run file */
  const char *about;           /* one line for `shoal methods` */
  const char *explanation;     /* paragraphs for `shoal methods NAME` */
  const char *source;          /* authors, title, venue, year */
  const char *memory;          /* what a checkpoint has of it that no other method can go on with; NULL: nothing */
  const shoal_option *options; /* under "method."; ends with name NULL; may be NULL */
  size_t state_size;
  shoal_trains trains;
  shoal_share share;   /* how samples are dealt */
  bool measures_stats; /* batch-norm statistics of the assembled model are nobody's: they are measured anew */

  /* ---- opening ---- */

  /* What this rank's form is made of, before there are weights, optimizer state and plans; and who works on the same
   * samples (share_rank, share_size, reads_none).  Collective; all ranks agree on its verdict.  NULL: the whole model. */
  shoal_status (*outline)(shoal_run *r, void *state, shoal_outline *out);
  /* Groups, exchanges, buffers, which weights live here; how ranks meet; columns.  Collective; the verdict is agreed. */
  shoal_status (*open)(shoal_run *r, void *state);

  /* ---- going on from a checkpoint ---- */

  /* Whether a checkpoint of this method, placement and rank count can be gone on with bit for bit.  Local, the same answer
   * on all ranks.  NULL: yes. */
  bool (*fits)(const shoal_run *r, const void *state, const shoal_ckpt *c);
  /* What save has written, after the loop has loaded its own: weights, optimizer, statistics, position.  Elsewhere than
   * in the same layout: whatever still makes sense.  Collective; the verdict is agreed. */
  shoal_status (*load)(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);
  /* Where parts are trained, after load, in another layout or from another method: take over the whole model.  `array` 0 is
   * the weights, 1 and 2 the optimizer's slots where there are any to be had; `x` may be changed.  Local. */
  shoal_status (*adopt)(shoal_run *r, void *state, int array, float *x);

  /* ---- training ---- */

  /* Before the first step of an attempt, everything is loaded.  Collective. */
  shoal_status (*start)(shoal_run *r, void *state);
  /* What this rank's gradients, summed over its samples, are divided by in this step; NULL: the `total` samples of the
   * global batch, so that sums over all ranks are means over samples.  Need not be whole.  Local. */
  double (*samples)(const shoal_run *r, const void *state, uint64_t total);
  /* A range of the gradient is final, during backward.  Not on a rank without samples.  Local: start, do not wait. */
  shoal_status (*announce)(shoal_run *r, void *state, size_t offset, size_t count);
  /* The gradient is complete; in every step, also on a rank that had no samples.  May wait for others. */
  shoal_status (*grads_ready)(shoal_run *r, void *state);
  /* The learning rate of this step, asked for once; NULL: as scheduled.  Local. */
  double (*rate)(const shoal_run *r, void *state, double scheduled);
  /* The optimizer has made its step.  May wait for others. */
  shoal_status (*weights_ready)(shoal_run *r, void *state);
  /* Instead of samples, announce, grads_ready and weights_ready, where there is more than one loss: forward, backward,
   * exchange, update with this learning rate.  `score`: of the network's own loss, on ranks that have it. */
  shoal_status (*step)(shoal_run *r, void *state, const shoal_batch *b, float lr, shoal_score *score);
  /* Around a meeting; only where ranks run freely.  Collective in effect: all come, each at its own time. */
  shoal_status (*settle)(shoal_run *r, void *state, shoal_settle stage);
  /* All have ended the epoch; `loss`: the agreed mean training loss.  Collective. */
  shoal_status (*epoch_end)(shoal_run *r, void *state, double loss);
  /* After the last step of the run, before its last evaluation.  *changed: the weights are no longer as they were.
   * Collective. */
  shoal_status (*finish)(shoal_run *r, void *state, bool *changed);

  /* ---- looking at the model ---- */

  /* The method's model, into arenas of the whole network: changes nothing but gradients, which are nobody's between steps.
   * Collective.  NULL: own weights and the mean statistics over all ranks. */
  shoal_status (*assemble)(shoal_run *r, void *state, float *weights, float *stats);
  /* Measures the run's columns in every evaluation, behind assemble: once for each batch of this rank's share of the test
   * split (local), adding what it likes to values [n_columns], which began as zeros; at last with b NULL (collective), to
   * leave the numbers to be written there. */
  shoal_status (*observe)(shoal_run *r, void *state, const shoal_batch *b, double *values);
  /* State beyond weights, optimizer, statistics and loader position, which the loop saves.  Behind assemble, and twice: for
   * a writer that measures and for one that writes.  Collective; the verdict is agreed. */
  shoal_status (*save)(shoal_run *r, void *state, shoal_ckpt_writer *c);

  /* ---- the end ---- */

  void (*close)(shoal_run *r, void *state); /* after half an outline or open too; local */
} shoal_method;

size_t shoal_methods(const shoal_method *const **out);
const shoal_method *shoal_method_find(const char *name); /* NULL if unknown */

extern const shoal_method shoal_method_sync, shoal_method_local_sgd, shoal_method_daso, shoal_method_swarm,
    shoal_method_ab, shoal_method_ist, shoal_method_local;
#endif
