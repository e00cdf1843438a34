/* Local SGD: every rank trains alone, and parameters are averaged every H steps; post-local SGD starts synchronously.
 *
 *   epoch    0 .. switch-1                    switch ..
 *   rank 0   [g+w][g+w][g+w][g+w][g+w]...     [w ][w ][w ][w ]∑[w ][w ][w ][w ]∑     g+  gradient sum over all ranks
 *   rank 1   [g+w][g+w][g+w][g+w][g+w]...     [w ][w ][w ][w ]∑[w ][w ][w ][w ]∑     w   own optimizer step
 *            bitwise like sync                H = 4                                  ∑   x ← mean of x over all ranks
 *
 * With `node_level` the ranks of a node sum gradients in every step, as sync does over all ranks, and so stay equal;
 * only nodes differ and are averaged.  Optimizer state is neither averaged nor reset.
 *
 * The parameters are averaged, not differences to a consensus copy as in the authors' code: equivalent in exact
 * arithmetic, with one copy of the weights less, and bitwise plain SGD on one rank.  The synchronous part averages
 * gradients instead of parameters: equivalent by linearity, and it overlaps with backward.
 *
 * A gradient is the mean over the samples of the ranks that share it.  In a step that ends in an average, ranks are
 * weighted by their samples instead, so that with H = 1 unequal shares (the last batch, more ranks than samples) give
 * the mean over all samples, as in sync.
 * With method.outer the averaged change is the gradient of another optimizer, and with method.outer_bits it is sent in fewer bits:
 * outer.h.  With method.fragments parts of the model
 * are averaged at different steps, with method.overlap while the next steps are computed: schedule.h.  What a rank has done
 * meanwhile is kept in part: w ← α w + (1 - α) x, with the model x that comes out of the average.
 *
 * Sources: Stich, ICLR 2019; Lin et al., ICLR 2020; the node level: PyTorch's post-local hook; fragments, overlap and α: Douillard
 * et al., Streaming DiLoCo, 2025.
 * docs/methods/local-sgd.md */
#include "base/log.h"
#include "base/mem.h"
#include "method/common/average.h"
#include "method/common/buckets.h"
#include "method/local_sgd/fragments.h"
#include "method/method.h"
#include <string.h>

typedef struct {
  shoal_local_sgd_plan plan;
  shoal_group *group;            /* the node's ranks, or NULL */
  shoal_buckets *all, *node;     /* NULL if not needed */
  shoal_model_sum models;        /* for assemble */
  shoal_sum_algorithm algorithm; /* as requested */
  shoal_outer outer;
  shoal_fragments averages;
  bool equal; /* weights are the same on all ranks */
  bool alone; /* a local step was taken: optimizer states differ between ranks */
} local_state;

static const char all_algorithms[] = "method/algorithms";

static const shoal_option options[] = {
  { "method.period", SHOAL_OPT_INT, "8", "steps", "[1,1000000000]",
    "H: steps between averages of the parameters; between them every rank (or node) trains alone.",
    "Stich, ICLR 2019" },
  { "method.switch_epoch", SHOAL_OPT_INT, "0", "epochs", "[0,1000000]",
    "Epochs of synchronous training at the start (post-local SGD).", "Lin et al., ICLR 2020" },
  { "method.node_level", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Ranks of a node sum their gradients in every step, so that only nodes train alone.",
    "PyTorch, post-local SGD hook" },
  { "method.fragments", SHOAL_OPT_INT, "1", NULL, "[1,65536]",
    "Parts of the model that are averaged at different steps of a period, one after another.",
    "Douillard et al., Streaming DiLoCo, 2025" },
  { "method.overlap", SHOAL_OPT_INT, "0", "steps", "[0,1000000]",
    "Steps that are computed while an average is under way; below method.period.",
    "Douillard et al., Streaming DiLoCo, 2025" },
  { "method.mixing", SHOAL_OPT_FLOAT, "", NULL, "[0,1)",
    "What a rank keeps of its own weights when an average comes that overlapped with its steps. Unset: 0.5.",
    "Douillard et al., Streaming DiLoCo, 2025" },
  SHOAL_OUTER_OPTIONS,
  SHOAL_BUCKET_SUM_OPTIONS,
  SHOAL_BUCKET_SIZE_OPTIONS,
  { .name = NULL },
};

static shoal_local_sgd_kind kind_now(const shoal_run *r, const local_state *s)
{
  return shoal_local_sgd_at(&s->plan, r->epoch, r->step);
}

/* The buckets that sum this step's gradients, or NULL. */
static shoal_buckets *buckets_now(const shoal_run *r, const local_state *s)
{
  return kind_now(r, s) == SHOAL_LOCAL_SGD_SYNC ? s->all : s->node;
}

/* ------------------------------------------------------------------------------------------------------- planning */

static shoal_status local_check(const shoal_config *c)
{
  const long long period = (long long)shoal_config_int(c, "method.period");
  const long long fragments = (long long)shoal_config_int(c, "method.fragments");
  const long long overlap = (long long)shoal_config_int(c, "method.overlap");
  SHOAL_CHECK(
      fragments <= period, SHOAL_ERR_USAGE,
      "method.fragments is %lld, but a period has %lld step%s, and one fragment is averaged after a step; lower "
      "fragments or raise method.period",
      fragments, period, period == 1 ? "" : "s");
  SHOAL_CHECK(
      overlap < period, SHOAL_ERR_USAGE,
      "method.overlap is %lld, but averages start every method.period = %lld steps: the next would start before "
      "the last one is collected; lower overlap or raise period",
      overlap, period);
  SHOAL_CHECK(overlap || !shoal_config_given(c, "method.mixing"), SHOAL_ERR_USAGE,
              "method.mixing has no effect with method.overlap 0, where ranks do nothing while they average; leave it "
              "out, or set method.overlap");
  return SHOAL_OK;
}

static float mixing_wanted(const shoal_config *c)
{
  if (shoal_config_int(c, "method.overlap") == 0) return 0;
  return shoal_config_given(c, "method.mixing") ? (float)shoal_config_float(c, "method.mixing") : 0.5f;
}

static shoal_status plan_node(shoal_run *r, local_state *s, shoal_wire wire)
{
  SHOAL_TRY(shoal_group_create_node(r->world, &s->group));
  return shoal_buckets_create(r->config, r->form, s->group, "exchange inside nodes", "node bucket", wire, s->algorithm,
                              &s->node);
}

/* Warns of settings that make the method equal to sync or to training without exchange. */
static void warn_if_ineffective(const shoal_run *r, const local_state *s)
{
  double steps = r->epochs * (double)r->steps_per_epoch;
  if (shoal_world_rank(r->world) != 0 || shoal_group_size(r->all) == 1) return;
  if (s->outer.wire == SHOAL_WIRE_F32 && strcmp(shoal_config_string(r->config, "method.outer_bits"), "32") != 0)
    shoal_warn(
        "method.outer_bits is %s, but all ranks are on one node, where parameters are averaged as they are: it has no "
        "effect here",
        shoal_config_string(r->config, "method.outer_bits"));
  if ((double)s->plan.switch_epoch >= r->epochs)
    shoal_warn("method.switch_epoch is %llu, but the run ends after %g epoch%s: all of it is synchronous",
               (unsigned long long)s->plan.switch_epoch, r->epochs, r->epochs == 1 ? "" : "s");
  else if ((double)s->plan.period >= steps)
    shoal_warn("method.period is %llu, but the run has %g step%s: %s", (unsigned long long)s->plan.period, steps,
               steps == 1 ? "" : "s",
               s->plan.switch_epoch ? "nothing is averaged after the switch" : "only the first one ends in an average");
}

static void print_plan(const shoal_run *r, const local_state *s)
{
  const shoal_local_sgd_plan *p = &s->plan;
  char from[64] = "", parts[64] = "", overlap[96] = "", outer[96] = "", bits[64] = "";
  if (shoal_group_size(r->all) == 1 && s->outer.kind == SHOAL_OUTER_NONE) {
    shoal_info("local-sgd: with one rank there is nothing to average: this is plain SGD");
    return;
  }
  if (p->switch_epoch) snprintf(from, sizeof from, ", from epoch %llu on", (unsigned long long)p->switch_epoch + 1);
  if (p->fragments > 1) snprintf(parts, sizeof parts, ", in %llu fragments", (unsigned long long)p->fragments);
  if (p->overlap)
    snprintf(overlap, sizeof overlap, ", beside %llu step%s, of whose result %g is kept",
             (unsigned long long)p->overlap, p->overlap == 1 ? "" : "s", (double)s->averages.mixing);
  if (s->outer.wire != SHOAL_WIRE_F32)
    snprintf(bits, sizeof bits, ", as changes of %s bits between nodes",
             shoal_config_string(r->config, "method.outer_bits"));
  if (s->outer.kind == SHOAL_OUTER_SLOWMO || s->outer.kind == SHOAL_OUTER_NESTEROV)
    snprintf(outer, sizeof outer, "; then a step of %s, rate %g, momentum %g",
             shoal_config_string(r->config, "method.outer"), (double)s->outer.lr, (double)s->outer.momentum);
  shoal_info("local-sgd: parameters averaged over %d ranks every %llu step%s%s, %s%s%s%s%s", shoal_group_size(r->all),
             (unsigned long long)p->period, p->period == 1 ? "" : "s", parts,
             shoal_sum_name(shoal_fragments_algorithm(&s->averages)), bits, overlap, from, outer);
}

static shoal_status local_open(shoal_run *r, void *state)
{
  local_state *s = state;
  shoal_wire wire = shoal_wire_wanted(r->config);
  s->plan = (shoal_local_sgd_plan){ .period = (uint64_t)shoal_config_int(r->config, "method.period"),
                                    .switch_epoch = (uint64_t)shoal_config_int(r->config, "method.switch_epoch"),
                                    .fragments = (uint64_t)shoal_config_int(r->config, "method.fragments"),
                                    .overlap = (uint64_t)shoal_config_int(r->config, "method.overlap") };
  s->algorithm = shoal_algorithm_wanted(r->config);
  s->equal = true;
  s->models = (shoal_model_sum){ .backend = r->backend, .control = r->control };
  if (s->plan.switch_epoch)
    SHOAL_TRY(shoal_buckets_create(r->config, r->form, r->all, "exchange", "bucket", wire, s->algorithm, &s->all));
  if (shoal_config_bool(r->config, "method.node_level")) SHOAL_TRY(plan_node(r, s, wire));
  if (s->node) r->copies = shoal_world_topo(r->world)->nodes;
  SHOAL_TRY(shoal_group_agree(r->all, shoal_outer_open(r, &s->outer)));
  SHOAL_TRY(shoal_fragments_open(r, &s->plan, &s->outer, mixing_wanted(r->config), s->algorithm, &s->averages));
  const uint64_t between = s->plan.period / s->plan.fragments; /* steps from one average to the next, at least */
  r->meet.together = s->group;
  r->meet.apart = s->plan.period - (s->plan.fragments - 1) * between;
  r->meet.lag = SHOAL_MIN(s->plan.overlap + 1, between);
  print_plan(r, s);
  warn_if_ineffective(r, s);
  return SHOAL_OK;
}

static void local_close(shoal_run *r, void *state)
{
  local_state *s = state;
  shoal_model_sum_fini(&s->models);
  shoal_fragments_close(r, &s->averages);
  shoal_outer_close(r, &s->outer);
  shoal_buckets_destroy(s->node);
  shoal_buckets_destroy(s->all);
  shoal_group_destroy(s->group);
}

/* ------------------------------------------------------------------------------------------------------- the step */

static double local_samples(const shoal_run *r, const void *state, uint64_t total)
{
  const local_state *s = state;
  const shoal_place *me = shoal_world_place(r->world);
  int size = shoal_group_size(r->all), sharing = s->node ? me->local_size : 1;
  uint64_t first, own;
  switch (kind_now(r, s)) {
  case SHOAL_LOCAL_SGD_SYNC:
    break;
  case SHOAL_LOCAL_SGD_ALONE:
    shoal_share_of(total, shoal_world_rank(r->world), size, &first, &own);
    return (double)(s->node ? shoal_node_samples(r->world, total) : own);
  case SHOAL_LOCAL_SGD_AVERAGE: /* `sharing` ranks contribute the same gradient to a mean over `size` */
    return (double)total * sharing / size;
  }
  return (double)total;
}

static shoal_status local_announce(shoal_run *r, void *state, size_t offset, size_t count)
{
  shoal_buckets *b = buckets_now(r, state);
  return b ? shoal_buckets_announce(b, r->step, offset, count) : SHOAL_OK;
}

static shoal_status local_grads_ready(shoal_run *r, void *state)
{
  shoal_buckets *b = buckets_now(r, state);
  return b ? shoal_buckets_grads_ready(b, r) : SHOAL_OK;
}

static shoal_status local_weights_ready(shoal_run *r, void *state)
{
  local_state *s = state;
  shoal_local_sgd_kind kind = kind_now(r, s);
  r->meet.next = shoal_local_sgd_next(&s->plan, r->epoch, r->step + 1);
  if (kind == SHOAL_LOCAL_SGD_SYNC) return SHOAL_OK;
  s->alone = true;
  s->equal = kind == SHOAL_LOCAL_SGD_AVERAGE;
  SHOAL_TRY(shoal_fragments_step(r, &s->averages));
  /* At the end of an epoch ranks wait for each other in any case. */
  return r->batch + 1 == r->batches ? shoal_fragments_finish(&s->averages) : SHOAL_OK;
}

/* A run that goes back to a checkpoint leaves nothing under way. */
static shoal_status local_settle(shoal_run *r, void *state, shoal_settle stage)
{
  local_state *s = state;
  (void)r;
  return stage == SHOAL_GATHERED ? shoal_fragments_drop(&s->averages) : SHOAL_OK;
}

static shoal_status local_epoch_end(shoal_run *r, void *state, double loss)
{
  local_state *s = state;
  const shoal_local_sgd_plan *p = &s->plan;
  r->meet.next = shoal_local_sgd_next(p, r->epoch + 1, r->step);
  if (r->epoch + 1 == p->switch_epoch) SHOAL_TRY(shoal_outer_take(r, &s->outer));
  if (r->epoch + 1 == p->switch_epoch && (double)p->switch_epoch < r->epochs)
    shoal_info("local-sgd: from now on parameters are averaged every %llu step%s", (unsigned long long)p->period,
               p->period == 1 ? "" : "s");
  return SHOAL_OK;
}

static shoal_status local_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  local_state *s = state;
  if (s->equal)
    SHOAL_TRY(r->backend->ops->copy(r->backend, r->form->params->n * sizeof *weights, r->form->params->w, weights));
  else
    SHOAL_TRY(shoal_model_sum_weighted(&s->models, r->form, 1.0 / shoal_group_size(r->all), weights));
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, stats);
}

/* ---------------------------------------------------------------------------------------------------- checkpoints */

static void local_sum(const shoal_run *r, const void *state, shoal_ckpt_sum *out)
{
  (void)state;
  *out = (shoal_ckpt_sum){ .terms = 1, .term = { { "weights", 1 } }, .weight = 1.0 / shoal_group_size(r->all) };
}

/* The schedule of averages depends on the step number only, so it has no state but what is under way. */
static shoal_status local_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  const local_state *s = state;
  SHOAL_TRY(shoal_fragments_put(r, &s->averages, c));
  shoal_ckpt_put_i64(c, "method/equal", s->equal);
  shoal_ckpt_put_i64(c, "method/alone", s->alone);
  shoal_outer_put(r, &s->outer, c);
  if (s->all) SHOAL_TRY(shoal_buckets_save(s->all, c, all_algorithms));
  return s->node ? shoal_buckets_save_own(s->node, c, "node_algorithms") : SHOAL_OK;
}

/* In another layout all ranks start from the model, so they are equal again. */
static shoal_status load_averages(shoal_run *r, local_state *s, const shoal_ckpt *c)
{
  int64_t equal, alone;
  char name[64];
  SHOAL_TRY(shoal_ckpt_get_i64(c, "method/equal", &equal));
  SHOAL_TRY(shoal_ckpt_get_i64(c, "method/alone", &alone));
  SHOAL_CHECK(!alone || shoal_ckpt_get_info(c)->epoch >= s->plan.switch_epoch, SHOAL_ERR_USAGE,
              "method.switch_epoch is %llu, but the checkpoint, in epoch %llu, holds ranks that have trained alone: "
              "synchronous steps would not bring them together; set method.switch_epoch to %llu at most",
              (unsigned long long)s->plan.switch_epoch, (unsigned long long)shoal_ckpt_get_info(c)->epoch,
              (unsigned long long)shoal_ckpt_get_info(c)->epoch);
  s->equal = equal != 0;
  s->alone = alone != 0;
  SHOAL_TRY(shoal_fragments_get(r, &s->averages, c));
  if (s->all) SHOAL_TRY(shoal_buckets_load(s->all, c, all_algorithms));
  if (!s->node) return SHOAL_OK;
  snprintf(name, sizeof name, "replica/%d/node_algorithms", shoal_world_rank(r->world));
  return shoal_buckets_load(s->node, c, name);
}

/* Without an average so far, or by a run without an outer optimizer, it starts from what an average would give here. */
static shoal_status load_outer(shoal_run *r, local_state *s, const shoal_ckpt *c)
{
  int64_t alone = 0;
  bool found = s->outer.kind == SHOAL_OUTER_NONE;
  if (shoal_ckpt_has(c, "method/alone")) SHOAL_TRY(shoal_ckpt_get_i64(c, "method/alone", &alone));
  shoal_status st = alone ? shoal_outer_get(r, &s->outer, c, &found) : SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(r->control, st));
  if (found) return SHOAL_OK;
  if (s->equal) return shoal_outer_take(r, &s->outer);
  return shoal_model_sum_weighted(&s->models, r->form, 1.0 / shoal_group_size(r->all), s->outer.x.at);
}

static shoal_status local_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  if (same_layout) SHOAL_TRY(load_averages(r, state, c));
  return load_outer(r, state, c);
}

const shoal_method shoal_method_local_sgd = {
  .name = "local-sgd",
  .about = "parameters averaged every H steps; with switch_epoch: post-local SGD",
  .explanation =
      "Every rank takes optimizer steps with the gradient of its own samples; every method.period steps\n"
      "parameters are averaged over all ranks.  That is H times fewer exchanges than sync, of the same size, but\n"
      "without overlap: parameters are final only after the optimizer step.  With method.switch_epoch the first\n"
      "epochs are bitwise those of sync (post-local SGD: a large H early in training costs accuracy).  With\n"
      "method.node_level the ranks of a node sum gradients in every step, so only nodes diverge.  Optimizer state\n"
      "stays local.  With method.fragments and method.overlap parts of the model are averaged one after another,\n"
      "while the next steps are computed.  With method.outer the averaged change is the gradient of a second\n"
      "optimizer, with momentum: SlowMo's, or DiLoCo's (nesterov), which make longer periods cost less accuracy.\n"
      "With method.outer_bits changes are sent between nodes in 16, 8 or 4 bits, and what rounding takes later.\n"
      "Evaluation and checkpoints use the mean over all ranks, which does not change the weights of any rank.",
  .source =
      "Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019; Lin, Stich, Patel, Jaggi, Don't Use Large "
      "Mini-Batches, Use Local SGD, ICLR 2020; Wang et al., SlowMo, ICLR 2020; Douillard et al., DiLoCo, 2023, and "
      "Streaming DiLoCo, 2025; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019",
  .memory = "each rank's own weights and statistics, of which the mean is kept, averages under way, what rounding took "
            "from changes, and the outer optimizer's momentum",
  .options = options,
  .state_size = sizeof(local_state),
  .trains = SHOAL_TRAINS_OWN,
  .share = SHOAL_SHARE_BATCH,
  .check = local_check,
  .open = local_open,
  .close = local_close,
  .samples = local_samples,
  .announce = local_announce,
  .grads_ready = local_grads_ready,
  .weights_ready = local_weights_ready,
  .settle = local_settle,
  .epoch_end = local_epoch_end,
  .assemble = local_assemble,
  .sum = local_sum,
  .save = local_save,
  .load = local_load,
};
