/* DASO: gradients are averaged inside a node in every step; parameters between nodes rarely, with a delay, by one rank
 * per node.
 *
 *   gradient --sum over the node--> optimizer --> [start | collect and blend | block], as the schedule says
 *
 * A sum between nodes overlaps with the next batches: it works on a private copy of the weights, and when it is
 * collected S batches later it is blended into the weights, which were updated since.  core.h defines the groups,
 * schedule.h the times; this file has the hooks, the options and the checkpoint.
 *
 * A node's gradient is the mean over its own samples.  In a batch that ends in a blocking sum nodes are
 * weighted by their samples instead: the mean of their updates is then the update of the mean over all samples for any
 * shares, and a run that only blocks is synchronous SGD (up to rounding, for optimizers linear in the gradient).
 *
 * Source: Coquelin et al., Journal of Big Data 9:14, 2022 (arXiv 2104.05588); docs/methods/daso.md lists what the
 * paper and its code leave open, and our decisions. */
#include "base/log.h"
#include "base/mem.h"
#include "method/common/average.h"
#include "method/common/buckets.h"
#include "method/daso/core.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_daso_plan plan;
  uint64_t fixed_every; /* 0: by the schedule */
  int64_t fixed_wait;   /* -1: by the schedule */
  bool quirks;
  shoal_daso_phase phase;
  shoal_daso_flow flow;
  shoal_daso core;
  shoal_buckets *buckets; /* gradient sums over the node */
  shoal_model_sum models; /* for assemble */
} daso_state;

static const shoal_option options[] = {
  { "method.warmup_epochs", SHOAL_OPT_INT, "", "epochs", "[0,1000000]",
    "Epochs at the start with a blocking sum in every batch; unset: a tenth of run.epochs, 1 to 4.",
    "Coquelin et al." },
  { "method.cooldown_epochs", SHOAL_OPT_INT, "", "epochs", "[0,1000000]", "The same at the end.", "Coquelin et al." },
  { "method.max_every", SHOAL_OPT_INT, "8", "batches", "[1,1000000]",
    "B starts at 4, is halved when the loss stagnates, and goes back to this after 1.", "Coquelin et al." },
  { "method.threshold", SHOAL_OPT_FLOAT, "0.05", NULL, "[0,1)",
    "Decrease of the training loss, relative to the best so far, that counts as an improvement.", "Coquelin et al." },
  { "method.patience", SHOAL_OPT_INT, "2", "epochs", "[0,1000000]",
    "The loss stagnates after more than this many epochs in a row without an improvement.", "Coquelin et al. (code)" },
  { "method.every", SHOAL_OPT_INT, "", "batches", "[1,1000000]",
    "Fixed B between warm-up and cool-down; unset: adapted to the loss.", "shoal" },
  { "method.wait", SHOAL_OPT_INT, "", "batches", "[0,1000000]",
    "W: batches from the start of a sum until it is collected; unset: by the schedule.", "shoal" },
  { "method.staleness_adjustment", SHOAL_OPT_FLOAT, "2", NULL, "(0,1000]",
    "Weight of the local parameters in a blend, per batch of age, against 1 for each node of the sum.",
    "Coquelin et al. (code)" },
  { "method.wire", SHOAL_OPT_ENUM, "bf16", NULL, "bf16|f16|f32",
    "Number format of parameters between nodes in warm-up and cool-down; otherwise f32.", "Coquelin et al." },
  { "method.delta", SHOAL_OPT_ENUM, "auto", NULL, "auto|on|off",
    "16-bit parcels hold the change since the last blocking sum; auto: unless ref_quirks is on.", "shoal" },
  { "method.ref_quirks", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Collect sums exactly when the authors' code does, to compare with it.", "Coquelin et al. (code)" },
  SHOAL_BUCKET_SIZE_OPTIONS,
  { .name = NULL },
};

/* ------------------------------------------------------------------------------------------------------- schedule */

static shoal_daso_cycle cycle_now(const daso_state *s)
{
  shoal_daso_cycle c = { s->core.groups, s->quirks, s->phase.every, s->phase.wait };
  if (c.every == 0) return c;
  if (s->fixed_every) c.every = s->fixed_every;
  if (s->fixed_wait >= 0) c.wait = (uint64_t)s->fixed_wait;
  c.wait = SHOAL_MIN(c.wait, c.every);
  return c;
}

static void print_phase(const daso_state *s, uint64_t epoch)
{
  shoal_daso_cycle c = cycle_now(s);
  if (s->core.nodes == 1) return;
  if (c.every <= 1 && c.wait == 0)
    shoal_info("daso: from epoch %llu on a blocking sum between nodes in every batch", (unsigned long long)epoch + 1);
  else if (c.wait == 0)
    shoal_info("daso: from epoch %llu on a blocking sum between nodes every B = %llu batch%s",
               (unsigned long long)epoch + 1, (unsigned long long)c.every, c.every == 1 ? "" : "es");
  else
    shoal_info("daso: from epoch %llu on a sum between nodes every B = %llu batch%s, collected W = %llu later",
               (unsigned long long)epoch + 1, (unsigned long long)c.every, c.every == 1 ? "" : "es",
               (unsigned long long)c.wait);
}

static int64_t wait_wanted(const shoal_config *c)
{
  return shoal_config_given(c, "method.wait") ? shoal_config_int(c, "method.wait") : -1;
}

static shoal_status daso_check(const shoal_config *c)
{
  const long long wait = (long long)wait_wanted(c), every = (long long)shoal_config_int(c, "method.every");
  const long long most = (long long)shoal_config_int(c, "method.max_every");
  SHOAL_CHECK(!every || wait <= every, SHOAL_ERR_USAGE,
              "method.wait is %lld but a sum starts every method.every = %lld batches: more than two would be under "
              "way; lower wait or raise every",
              wait, every);
  SHOAL_CHECK(every || wait <= most, SHOAL_ERR_USAGE,
              "method.wait is %lld, but B is never above method.max_every = %lld and W never above B; lower wait or "
              "raise max_every",
              wait, most);
  return SHOAL_OK;
}

static void read_schedule(const shoal_config *c, daso_state *s, double epochs)
{
  shoal_daso_plan *p = &s->plan;
  p->epochs = (uint64_t)epochs;
  shoal_daso_default_phases(p->epochs, &p->warmup, &p->cooldown);
  if (shoal_config_given(c, "method.warmup_epochs")) p->warmup = (uint64_t)shoal_config_int(c, "method.warmup_epochs");
  if (shoal_config_given(c, "method.cooldown_epochs"))
    p->cooldown = (uint64_t)shoal_config_int(c, "method.cooldown_epochs");
  p->max_every = (uint64_t)shoal_config_int(c, "method.max_every");
  p->threshold = shoal_config_float(c, "method.threshold");
  p->patience = (uint64_t)shoal_config_int(c, "method.patience");
  s->fixed_every = (uint64_t)shoal_config_int(c, "method.every");
  s->fixed_wait = wait_wanted(c);
  s->quirks = shoal_config_bool(c, "method.ref_quirks");
  shoal_daso_begin(p, 0, &s->phase);
}

static void warn_of_blocking(const daso_state *s, bool root)
{
  const shoal_daso_plan *p = &s->plan;
  if (root && s->core.nodes > 1 && p->warmup + p->cooldown >= p->epochs)
    shoal_warn("method.warmup_epochs and cooldown_epochs, %llu and %llu, leave none of run.epochs = %llu to cycle in: "
               "nodes wait for each other in every batch",
               (unsigned long long)p->warmup, (unsigned long long)p->cooldown, (unsigned long long)p->epochs);
}

/* The next meeting of all ranks, when `done` steps were made and batch `b` of `batches` comes next.  A sum that is collected
 * waits for nodes that have not started it yet, W batches before. */
static void set_meeting(shoal_run *r, const daso_state *s, uint64_t done, uint64_t b, uint64_t batches)
{
  shoal_daso_cycle c = cycle_now(s);
  if (s->core.nodes == 1 || (r->meet.next > done && b > 0)) return;
  r->meet.next = done + shoal_daso_until(&c, b, batches, &s->flow, SHOAL_MEET_LONGEST + 1);
  r->meet.lag = SHOAL_MIN(c.wait + 1, SHOAL_MAX(c.every, 1));
}

static shoal_status daso_epoch_end(shoal_run *r, void *state, double loss)
{
  daso_state *s = state;
  shoal_daso_cycle before = cycle_now(s);
  shoal_daso_next(&s->plan, r->epoch + 1, loss, &s->phase);
  shoal_daso_cycle now = cycle_now(s);
  bool changed = now.every != before.every || now.wait != before.wait;
  if (changed && r->epoch + 1 < s->plan.epochs) print_phase(s, r->epoch + 1);
  set_meeting(r, s, r->step, 0, r->steps_per_epoch);
  return SHOAL_OK;
}

/* ------------------------------------------------------------------------------------------------------- the step */

static shoal_status daso_open(shoal_run *r, void *state)
{
  daso_state *s = state;
  const char *delta = shoal_config_string(r->config, "method.delta");
  s->models = (shoal_model_sum){ .backend = r->backend, .control = r->control };
  read_schedule(r->config, s, r->epochs);
  bool changes = strcmp(delta, "on") == 0 || (strcmp(delta, "auto") == 0 && !s->quirks);
  SHOAL_TRY(shoal_daso_open(r, shoal_wire_wanted(r->config), changes,
                            (float)shoal_config_float(r->config, "method.staleness_adjustment"), &s->core));
  r->copies = s->core.nodes;
  if (s->core.nodes > 1) {
    r->meet.together = s->core.node;
    r->meet.apart = s->fixed_every ? s->fixed_every : s->plan.max_every;
  }
  SHOAL_TRY(shoal_buckets_create(r->config, r->form, s->core.node, "exchange inside nodes", "node bucket",
                                 SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &s->buckets));
  if (s->core.nodes == 1)
    shoal_info(
        "daso: all ranks are on one node, where gradients are averaged in every step: nothing else is exchanged");
  else
    shoal_info("daso: %d group%s across %d nodes", s->core.groups, s->core.groups == 1 ? "" : "s", s->core.nodes);
  warn_of_blocking(s, shoal_world_rank(r->world) == 0);
  if (!r->from) print_phase(s, 0);
  return SHOAL_OK;
}

static void daso_close(shoal_run *r, void *state)
{
  daso_state *s = state;
  shoal_model_sum_fini(&s->models);
  shoal_buckets_destroy(s->buckets);
  shoal_daso_close(r, &s->core);
}

static double daso_samples(const shoal_run *r, const void *state, uint64_t total)
{
  const daso_state *s = state;
  shoal_daso_cycle c = cycle_now(s);
  if (shoal_daso_blocks(&c, r->batch, r->batches)) return (double)total / s->core.nodes;
  return (double)shoal_node_samples(r->world, total);
}

static shoal_status daso_announce(shoal_run *r, void *state, size_t offset, size_t count)
{
  daso_state *s = state;
  return shoal_buckets_announce(s->buckets, r->step, offset, count);
}

static shoal_status daso_grads_ready(shoal_run *r, void *state)
{
  daso_state *s = state;
  return shoal_buckets_grads_ready(s->buckets, r);
}

static shoal_status daso_weights_ready(shoal_run *r, void *state)
{
  daso_state *s = state;
  shoal_daso_cycle c = cycle_now(s);
  shoal_daso_event e[SHOAL_DASO_EVENTS];
  if (s->core.nodes == 1) return SHOAL_OK;
  s->core.equal = false;
  int n = shoal_daso_events(&c, r->batch, r->batches, &s->flow, e);
  for (int i = 0; i < n; i++) SHOAL_TRY(shoal_daso_perform(r, &s->core, &e[i], c.every == 0));
  if (r->batch + 1 < r->batches) set_meeting(r, s, r->step + 1, r->batch + 1, r->batches);
  return SHOAL_OK;
}

/* A run that goes back to a checkpoint leaves no sum in flight. */
static shoal_status daso_settle(shoal_run *r, void *state, shoal_settle stage)
{
  daso_state *s = state;
  return stage == SHOAL_GATHERED ? shoal_daso_settle(&s->core) : SHOAL_OK;
}

/* The mean over nodes counts each rank with its part of its node. */
static double share_of_rank(const shoal_run *r, const daso_state *s)
{
  return 1.0 / s->core.nodes / shoal_world_place(r->world)->local_size;
}

/* The weights that a blocking sum would give now: the mean over nodes. */
static shoal_status daso_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  daso_state *s = state;
  if (s->core.equal)
    SHOAL_TRY(r->backend->ops->copy(r->backend, r->form->params->n * sizeof *weights, r->form->params->w, weights));
  else
    SHOAL_TRY(shoal_model_sum_weighted(&s->models, r->form, share_of_rank(r, s), weights));
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, stats);
}

/* ---------------------------------------------------------------------------------------------------- checkpoints */

static void daso_sum(const shoal_run *r, const void *state, shoal_ckpt_sum *out)
{
  *out = (shoal_ckpt_sum){ .terms = 1, .term = { { "weights", 1 } }, .weight = share_of_rank(r, state) };
}

/* The first member of a group across nodes, which writes the sum that all members hold. */
static int first_of(const shoal_run *r, int group)
{
  const shoal_topo *t = shoal_world_topo(r->world);
  int rank = 0;
  while (t->places[rank].local_rank != group) rank++;
  return rank;
}

/* Group, batch and wait of each sum in flight, oldest first. */
static void put_flow(const daso_state *s, shoal_ckpt_writer *c)
{
  int64_t rows[3 * SHOAL_DASO_SUMS];
  uint64_t dims[] = { (uint64_t)s->flow.n, 3 };
  for (int i = 0; i < s->flow.n; i++) {
    rows[3 * i] = s->flow.sum[i].group;
    rows[3 * i + 1] = (int64_t)s->flow.sum[i].batch;
    rows[3 * i + 2] = (int64_t)s->flow.sum[i].wait;
  }
  shoal_ckpt_put(c, "method/sums", SHOAL_I64, 2, dims, rows);
  shoal_ckpt_put_i64(c, "method/turn", s->flow.turn);
}

/* The index of sum i among the sums of its group; not 0 only if there is a single group. */
static int number_in_group(const daso_state *s, int i)
{
  return i == 1 && s->flow.sum[0].group == s->flow.sum[1].group;
}

static shoal_status daso_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  daso_state *s = state;
  SHOAL_TRY(shoal_daso_settle(&s->core));
  shoal_ckpt_put_i64(c, "method/every", (int64_t)s->phase.every);
  shoal_ckpt_put_i64(c, "method/wait", (int64_t)s->phase.wait);
  shoal_ckpt_put_i64(c, "method/bad", (int64_t)s->phase.bad);
  shoal_ckpt_put_f64(c, "method/best", s->phase.best);
  shoal_ckpt_put_i64(c, "method/equal", s->core.equal);
  put_flow(s, c);
  int rank = shoal_world_rank(r->world);
  for (int i = 0; i < s->flow.n; i++) {
    char name[16];
    bool mine = first_of(r, s->flow.sum[i].group) == rank;
    const shoal_daso_slot *slot = mine ? shoal_daso_pending(&s->core, number_in_group(s, i)) : NULL;
    snprintf(name, sizeof name, "sum_%d", i);
    shoal_ckpt_put_arena_replica(c, r->backend, name, slot ? r->form->params->n : 0,
                                 slot ? slot->x.at : r->form->params->w);
  }
  return shoal_buckets_save_own(s->buckets, c, "node_algorithms");
}

static shoal_status get_phase(daso_state *s, const shoal_ckpt *c)
{
  int64_t every, wait, bad;
  SHOAL_TRY(shoal_ckpt_get_count(c, "method/every", 0, SHOAL_CKPT_MOST, &every));
  SHOAL_TRY(shoal_ckpt_get_count(c, "method/wait", 0, SHOAL_CKPT_MOST, &wait));
  SHOAL_TRY(shoal_ckpt_get_count(c, "method/bad", 0, SHOAL_CKPT_MOST, &bad));
  s->phase.every = (uint64_t)every;
  s->phase.wait = (uint64_t)wait;
  s->phase.bad = (uint64_t)bad;
  return shoal_ckpt_get_real(c, "method/best", -HUGE_VAL, HUGE_VAL, &s->phase.best);
}

static shoal_status get_sum(shoal_run *r, daso_state *s, const shoal_ckpt *c, int i)
{
  char name[64];
  int group = s->flow.sum[i].group;
  if (!s->core.across || shoal_world_place(r->world)->local_rank != group) return SHOAL_OK;
  snprintf(name, sizeof name, "replica/%d/sum_%d", first_of(r, group), i);
  return shoal_ckpt_get_arena(c, r->backend, name, r->form->params->n, shoal_daso_restore(&s->core)->x.at);
}

/* Whether these can be sums in flight here: of groups there are, and two of one group only if there is no other. */
static bool plausible(const daso_state *s, int n, const int64_t *rows)
{
  bool good = n < 2 || s->core.groups == 1 || rows[0] != rows[3];
  for (int i = 0; i < n; i++) good &= rows[3 * i] < s->core.groups;
  return good;
}

static shoal_status get_flow(shoal_run *r, daso_state *s, const shoal_ckpt *c)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  int64_t rows[3 * SHOAL_DASO_SUMS], turn;
  SHOAL_TRY(shoal_ckpt_shape(c, "method/sums", &type, &ndim, dims));
  SHOAL_CHECK(ndim == 2 && dims[0] <= SHOAL_DASO_SUMS && dims[1] == 3, SHOAL_ERR_IO,
              "method/sums of the checkpoint is no list of sums in flight");
  SHOAL_TRY(shoal_ckpt_get_counts(c, "method/sums", 3 * dims[0], 0, SHOAL_CKPT_MOST, rows));
  SHOAL_CHECK(plausible(s, (int)dims[0], rows), SHOAL_ERR_IO,
              "method/sums of the checkpoint has sums of groups that do not exist here: it is damaged or made up");
  SHOAL_TRY(shoal_ckpt_get_count(c, "method/turn", 0, INT32_MAX, &turn));
  s->flow = (shoal_daso_flow){ .turn = (int)(turn % s->core.groups), .n = (int)dims[0] };
  for (int i = 0; i < s->flow.n; i++) {
    s->flow.sum[i] = (shoal_daso_sum){ (int)rows[3 * i], (uint64_t)rows[3 * i + 1], (uint64_t)rows[3 * i + 2] };
    SHOAL_TRY(get_sum(r, s, c, i));
  }
  return SHOAL_OK;
}

/* In another layout training continues from the model, and sums in flight are dropped: they are older than the
 * model. */
static shoal_status load_elsewhere(shoal_run *r, daso_state *s, const shoal_ckpt *c)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8] = { 0 };
  SHOAL_TRY(shoal_daso_adopt(r, &s->core, true));
  if (strcmp(shoal_ckpt_get_info(c)->method, "daso") != 0) {
    shoal_daso_begin(&s->plan, shoal_ckpt_get_info(c)->epoch, &s->phase);
    return SHOAL_OK;
  }
  SHOAL_TRY(get_phase(s, c));
  SHOAL_TRY(shoal_ckpt_shape(c, "method/sums", &type, &ndim, dims));
  if (dims[0])
    shoal_info("daso: %llu sum%s in flight when the checkpoint was written will not be collected",
               (unsigned long long)dims[0], dims[0] == 1 ? "" : "s");
  return SHOAL_OK;
}

static shoal_status load_here(shoal_run *r, daso_state *s, const shoal_ckpt *c)
{
  int64_t equal;
  char name[64];
  SHOAL_TRY(get_phase(s, c));
  SHOAL_TRY(shoal_ckpt_get_i64(c, "method/equal", &equal));
  SHOAL_TRY(shoal_daso_adopt(r, &s->core, equal != 0));
  SHOAL_TRY(get_flow(r, s, c));
  snprintf(name, sizeof name, "replica/%d/node_algorithms", shoal_world_rank(r->world));
  return shoal_buckets_load(s->buckets, c, name);
}

static shoal_status daso_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  daso_state *s = state;
  SHOAL_TRY(same_layout ? load_here(r, s, c) : load_elsewhere(r, s, c));
  print_phase(s, shoal_ckpt_get_info(c)->epoch);
  return SHOAL_OK;
}

const shoal_method shoal_method_daso = {
  .name = "daso",
  .about = "gradients averaged inside a node in every step; parameters between nodes rarely and asynchronously",
  .explanation =
      "Ranks of a node average gradients in every step.  Every B batches one rank of each node starts a sum of\n"
      "the parameters over the nodes.  The sum overlaps with the next W batches and is then blended in: with P\n"
      "nodes and age S the local parameters have the weight 2S/(2S+P), and each node's old ones 1/(2S+P).  The\n"
      "ranks of a node take turns, and broadcast the result to the others.  The last batch of an epoch ends in a\n"
      "blocking sum, after which all ranks are equal.  Warm-up and cool-down epochs use a blocking sum in every\n"
      "batch, in 16 bits.  In between B starts at 4 and is halved each time the training loss stagnates; after 1\n"
      "it returns to method.max_every.  Designed for SGD; other optimizers work, but do not equal sync even when\n"
      "every batch blocks.",
  .source = "Coquelin, Debus, Götz, von der Lehr, Kahn, Siggel, Streit, Accelerating neural network training with "
            "distributed asynchronous and selective optimization (DASO), Journal of Big Data 9:14, 2022",
  .memory = "sums in flight and the position in the schedule",
  .options = options,
  .state_size = sizeof(daso_state),
  .trains = SHOAL_TRAINS_OWN,
  .share = SHOAL_SHARE_BATCH,
  .check = daso_check,
  .open = daso_open,
  .close = daso_close,
  .samples = daso_samples,
  .announce = daso_announce,
  .grads_ready = daso_grads_ready,
  .weights_ready = daso_weights_ready,
  .settle = daso_settle,
  .epoch_end = daso_epoch_end,
  .assemble = daso_assemble,
  .sum = daso_sum,
  .save = daso_save,
  .load = daso_load,
};
