/* A training method: how ranks share what they learn.  The loop (train/) runs batches; a method hooks into it.
 *
 *   loader → forward → backward ──announce(range)──→ grads_ready → [clip, optimizer] → weights_ready → next step
 *                                                                                    ↘ epoch_end
 *
 * A method is a schedule (a pure function of step, epoch and agreed loss) and an exchange (groups only): it never names
 * MPI, NCCL or CUDA, and knows layers only as ranges of the arena and as cuts of the description.  Its state is one
 * zeroed block that the loop allocates; everything that must survive a stop goes through save and load.  A new method is
 * one .c file, one line in methods.c, one test, one page in docs/. */
#ifndef SHOAL_METHOD_METHOD_H
#define SHOAL_METHOD_METHOD_H
#include "ckpt/together/writer.h"
#include "comm/exchange.h"
#include "config/option.h"
#include "data/loader.h"
#include "nn/form.h"

/* What a method may see and change of the run; owned by the loop. */
typedef struct {
  shoal_world *world;
  shoal_group *all, *control; /* owned by the world */
  shoal_backend *backend;
  shoal_trace *trace;
  const shoal_config *config;
  const shoal_model *model; /* the whole network */
  shoal_form *form;         /* what this rank trains: the session's, of the whole model or of the part that `cut` gave;
                                a method with forms of its own may switch between steps; the session's again after close */
  uint64_t seed, step, epoch; /* step: number of the step now running, from 0 */
  uint64_t batch, batches;    /* number of that step in its epoch, from 0, and how many the epoch has */
  double epochs;              /* the run's length */
  uint64_t steps_per_epoch;
  const shoal_ckpt *from; /* while methods cut and open: the checkpoint the run goes on from; NULL: none */
  /* How samples reach this rank: its share of every global batch.  The rank's own number among all, unless cut says that
   * several ranks work on the same samples; reads_none: on what another rank sends, so batches come as sizes only. */
  int share_rank, share_size;
  bool reads_none;
  uint64_t position, epoch_samples; /* samples of the epoch done before this step, and in all */
  uint64_t global_batch;            /* samples in a step; fewer in an epoch's last one, unless it is padded */
  bool pads;
  /* Set in open: steps from one vote of all ranks to the next, at least as many as ranks may be apart; 0: every step. */
  uint64_t vote_every;
  double shown_loss;      /* a loss of this rank to show people where it has not the network's own */
  bool spoil;             /* fault hook: a gradient of this step is to be NaN (for methods with a step of their own) */
  const shoal_call *call; /* of ranks that run freely: whether they are called to meet; NULL: they are not that free */
  bool free_running;      /* set in open: ranks step on their own clocks and meet only where they must (train/meet.c) */
  shoal_group *together;  /* set in open: those of them that take every step with this one; NULL: nobody does */
} shoal_run;

/* Around a meeting of ranks that run freely.  ARRIVING: finish what this rank began, go on answering others.  GATHERED: all
 * have arrived; finish what others began; weights and state stay at rest from here on.  LEAVING: go on. */
typedef enum { SHOAL_ARRIVING, SHOAL_GATHERED, SHOAL_LEAVING } shoal_settle;

typedef struct {
  const char *name;            /* the word in the run file */
  const char *about;           /* one line for `shoal methods` */
  const char *explanation;     /* paragraphs for `shoal methods NAME` */
  const char *source;          /* authors, title, venue, year */
  const char *memory;          /* what a checkpoint has of it that no other method can go on with; NULL: nothing */
  const shoal_option *options; /* under "method."; ends with name NULL; may be NULL */
  size_t state_size;
  bool replicas_equal; /* weights and optimizer state are the same on all ranks between steps */
  bool mean_model;     /* the model is a mean that no rank trains: its batch-norm statistics are measured anew */
  bool sums_parts;     /* some ranks sum the gradients of their parts: these lie in memory they can reach */
  shoal_share share;   /* how samples are dealt */
  /* What this rank trains where that is a part of the model: called before there are weights, optimizer state and plans,
   * which are then those of the part.  It belongs to the method, until close; between steps the method may put another of
   * the same shapes in its place (r->form->model).  A whole model exists only while it is assembled.  NULL: the whole model. */
  shoal_status (*cut)(shoal_run *r, void *state, const shoal_model **part);
  /* The method trains parts now and then, whose weights and optimizer state its save and load carry; the loop keeps one
   * copy of the whole model's optimizer state, which is the same on all ranks. */
  bool own_state;
  /* Room for gradients, in numbers, where a part may be larger than the model; NULL: the model's. */
  shoal_status (*gradients)(const shoal_run *r, size_t *n);
  /* Groups, exchanges, buffers, which weights live here.  Collective. */
  shoal_status (*open)(shoal_run *r, void *state);
  void (*close)(shoal_run *r, void *state); /* after half an open too */
  /* What this rank's gradients, summed over its samples, are divided by in this step; NULL: the `total` samples of the
   * global batch, so that sums over all ranks are means over samples.  Need not be whole. */
  double (*samples)(const shoal_run *r, const void *state, uint64_t total);
  /* Before the first step of an attempt, everything is loaded; and after the last one of the run, where *changed says
   * whether the weights are no longer as they were.  Collective.  NULL: nothing to do. */
  shoal_status (*start)(shoal_run *r, void *state);
  shoal_status (*finish)(shoal_run *r, void *state, bool *changed);
  /* The learning rate of this step, asked for once; NULL: as scheduled. */
  double (*rate)(const shoal_run *r, void *state, double scheduled);
  /* A whole step by the method itself, where there is more than one loss: forward, backward, exchange, update with this
   * learning rate.  `score`: of the network's own loss, on ranks that have it.  No other hook is called in the step.  NULL:
   * the loop's step, which calls the next four. */
  shoal_status (*step)(shoal_run *r, void *state, const shoal_batch *b, float lr, shoal_score *score);
  shoal_status (*announce)(shoal_run *r, void *state, size_t offset, size_t count); /* during backward; or NULL */
  shoal_status (*grads_ready)(shoal_run *r, void *state); /* every step, also on a rank that had no samples; or NULL */
  shoal_status (*weights_ready)(shoal_run *r, void *state);              /* after the optimizer; or NULL */
  shoal_status (*epoch_end)(shoal_run *r, void *state, double loss);     /* the agreed mean training loss; or NULL */
  shoal_status (*settle)(shoal_run *r, void *state, shoal_settle stage); /* free-running methods; or NULL */
  /* Assemble the method's model in scratch, whole-network arenas: only observes.  Collective.  NULL: own weights and the
   * mean statistics over all ranks. */
  shoal_status (*assemble)(shoal_run *r, void *state, float *weights, float *stats);
  /* Further columns of metrics.csv.  Names, the same on all ranks, once open: returns how many.  Then in every evaluation,
   * behind assemble: once for each batch of this rank's share of the test split, adding what it likes to values [columns],
   * which began as zeros; at last with b NULL, collective, to leave the numbers to be written there.  Both or neither. */
  size_t (*columns)(const shoal_run *r, const void *state, const char *const **names);
  shoal_status (*observe)(shoal_run *r, void *state, const shoal_batch *b, double *values);
  /* The inverse, for methods that cut: take over the whole model of a checkpoint of another layout or method, after load.
   * `array` 0 is the weights, 1 and 2 the optimizer's slots where there are any to be had; `x` may be changed.  Local. */
  shoal_status (*adopt)(shoal_run *r, void *state, int array, float *x);
  /* Whether ranks meet at the end of the step that just ended: only there they ask each other whether to stop or save, and
   * the answer takes effect at once.  NULL: they meet in every step, and the answer comes one step later. */
  bool (*meets)(const shoal_run *r, const void *state);
  /* Payload bytes this rank sent since the last call, one step ago, by the formula of the method's page. */
  void (*step_bytes)(const shoal_run *r, void *state, uint64_t out[SHOAL_LINK_COUNT]);
  /* State beyond weights, optimizer, statistics and loader position, which the loop saves.  NULL: none. */
  shoal_status (*save)(shoal_run *r, void *state, shoal_ckpt_writer *c);
  /* Whether a checkpoint of this method, placement and rank count can be gone on with bit for bit.  NULL: yes. */
  bool (*fits)(const shoal_run *r, const void *state, const shoal_ckpt *c);
  shoal_status (*load)(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout);
} shoal_method;

size_t shoal_methods(const shoal_method *const **out);
const shoal_method *shoal_method_find(const char *name); /* NULL if unknown */

extern const shoal_method shoal_method_sync, shoal_method_local_sgd, shoal_method_daso, shoal_method_swarm,
    shoal_method_ab, shoal_method_ist, shoal_method_local;
#endif
