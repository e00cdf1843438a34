/* AB-training: large weights become products A B; groups of ranks train A or B without communication between groups,
 * and reconcile now and then.
 *
 *   full rank        W trained by all ranks, as in sync
 *   split            W = A B by SVD, small singular values truncated
 *   on factors       A-groups train A with B frozen, B-groups train B with A frozen; gradient sums inside a group only
 *   reconcile        factors averaged over all ranks, W = A B; a few full-rank steps ("rebound"), and again
 *
 * If a group is a node, nothing is sent between nodes in the steps on factors.  This file has the hooks: which of two
 * forms of the model a step trains (whole or part), with which ranks, at which rate.  schedule.c says when, groups.c
 * which ranks, layers.c which layers; phase.c converts one form into the other.
 *
 * Source: Coquelin et al., AB-Training, arXiv 2405.01067, and the authors' code; differences in docs/methods/ab.md. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "method/ab/ab_impl.h"
#include "method/common/average.h"
#include <stdlib.h>
#include <string.h>

#define SOURCE "Coquelin et al., 2024"

static const shoal_option options[] = {
  { "method.mode", SHOAL_OPT_ENUM, "with-stale", NULL, "with-stale|only-learned|full|only-b",
    "How groups reconcile: all factors averaged, only the trained ones, or the products; only-b: all train B.",
    SOURCE },
  { "method.group", SHOAL_OPT_INT, "0", "ranks", "[-1,1000000]",
    "Ranks per group; 0: those of a node, or two halves on one node; -1: two halves. With only-b both mean all ranks.",
    SOURCE " (4)" },
  { "method.warmup", SHOAL_OPT_INT, "", "steps", "[0,1000000000000]",
    "Full-rank steps before the first split. Unset: three cycles and a rebound.", SOURCE },
  { "method.cycle", SHOAL_OPT_INT, "", "steps", "[2,1000000000000]",
    "Groups reconcile at multiples of this, counted from step 0. Unset: a 15th of the run, at least 10.", SOURCE },
  { "method.rebound", SHOAL_OPT_INT, "", "steps", "[1,1000000000000]",
    "Full-rank steps after a reconciliation. Unset: a tenth of a cycle.", SOURCE },
  { "method.ramp", SHOAL_OPT_INT, "", "steps", "[0,1000000000000]",
    "Steps of the learning-rate ramp after each transition; 0: none. Unset: a quarter of a cycle.", SOURCE },
  { "method.ramp_from", SHOAL_OPT_FLOAT, "1e-5", NULL, "[0,inf)", "Learning rate of the first step after a transition.",
    SOURCE },
  { "method.cutoff", SHOAL_OPT_FLOAT, "0.15", NULL, "[0,1)",
    "Singular values up to this share of a layer's largest are truncated at a split.", SOURCE },
  { "method.cut_first", SHOAL_OPT_BOOL, "false", NULL, NULL, "Truncate at the first split too.", "shoal" },
  { "method.cap", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Truncate to ranks at which factors are no larger than their weight.", "shoal" },
  { "method.exempt", SHOAL_OPT_WORDS, "[first, last]", NULL, NULL,
    "Layers that are not split, by name; first and last: the first and last that could be; []: none.", SOURCE },
  { "method.reset", SHOAL_OPT_BOOL, "false", NULL, NULL, "Reset the optimizer's moments at each transition.", SOURCE },
  { "method.swap", SHOAL_OPT_BOOL, "false", NULL, NULL, "Groups alternate between A and B from split to split.",
    "shoal" },
  SHOAL_BUCKET_SUM_OPTIONS,
  SHOAL_BUCKET_SIZE_OPTIONS,
  { .name = NULL },
};

/* --------------------------------------------------------------------------------------------------------- opening */

static shoal_status find_layers(const shoal_run *r, shoal_ab_layers *out)
{
  const char *const *exempt;
  size_t n = shoal_config_words(r->config, "method.exempt", &exempt);
  return shoal_ab_layers_make(r->model, exempt, n, out);
}

/* Factors of full rank need more room than their weights. */
static shoal_status ab_outline(shoal_run *r, void *state, shoal_outline *out)
{
  shoal_ab_layers l;
  SHOAL_TRY(find_layers(r, &l));
  out->gradients = l.others;
  for (size_t i = 0; i < l.n; i++) out->gradients += (size_t)(l.layer[i].n * (l.layer[i].m + l.layer[i].n));
  shoal_ab_layers_free(&l);
  return SHOAL_OK;
}

/* The steps before a checkpoint may have had another batch size. */
uint64_t shoal_ab_run_length(const shoal_run *r, uint64_t done, uint64_t epoch, uint64_t position)
{
  uint64_t epochs = (uint64_t)r->epochs, left = r->epoch_samples - SHOAL_MIN(position, r->epoch_samples);
  if (epoch < epochs)
    done += (left + r->global_batch - 1) / r->global_batch + (epochs - epoch - 1) * r->steps_per_epoch;
  uint64_t steps = (uint64_t)shoal_config_int(r->config, "run.steps");
  return steps ? SHOAL_MIN(steps, done) : done;
}

static void read_steps(const shoal_config *c, const char *name, uint64_t *out)
{
  if (shoal_config_given(c, name)) *out = (uint64_t)shoal_config_int(c, name);
}

/* Defaults are derived from the cycle, and its default from the run's length. */
static void read_schedule(const shoal_config *c, uint64_t steps, shoal_ab_schedule *out)
{
  *out = shoal_ab_schedule_of(steps);
  read_steps(c, "method.cycle", &out->cycle);
  out->rebound = SHOAL_MAX(out->cycle / 10, 1);
  out->ramp = out->cycle / 4;
  read_steps(c, "method.rebound", &out->rebound);
  read_steps(c, "method.ramp", &out->ramp);
  out->warmup = 3 * out->cycle + out->rebound;
  read_steps(c, "method.warmup", &out->warmup);
}

static shoal_ab_mode mode_wanted(const shoal_config *c)
{
  static const char *const names[] = { "with-stale", "only-learned", "full", "only-b" };
  size_t mode = 0;
  while (strcmp(shoal_config_string(c, "method.mode"), names[mode]) != 0) mode++;
  return (shoal_ab_mode)mode;
}

static shoal_status ab_check(const shoal_config *c)
{
  shoal_ab_schedule s;
  SHOAL_CHECK(!shoal_config_bool(c, "method.swap") || mode_wanted(c) != SHOAL_AB_ONLY_B, SHOAL_ERR_USAGE,
              "method.swap changes groups between A and B, but with method.mode only-b all train B: take one back");
  read_schedule(c, 0, &s);
  return shoal_config_given(c, "method.cycle") ? shoal_ab_schedule_check(&s) : SHOAL_OK;
}

static shoal_status find_groups(const shoal_run *r, shoal_ab_state *s)
{
  const shoal_topo *t = shoal_world_topo(r->world);
  int *node;
  SHOAL_TRY(SHOAL_ALLOC((size_t)t->size, &node));
  for (int i = 0; i < t->size; i++) node[i] = t->places[i].node;
  shoal_status st =
      shoal_ab_groups_make(node, t->size, shoal_config_int(r->config, "method.group"), shoal_ab_only_b(s), &s->groups);
  free(node);
  SHOAL_TRY(st);
  s->group = shoal_ab_group_of(&s->groups, shoal_world_rank(r->world));
  return SHOAL_OK;
}

static shoal_status read_settings(const shoal_run *r, shoal_ab_state *s)
{
  const shoal_config *c = r->config;
  s->mode = mode_wanted(c);
  s->cutoff = shoal_config_float(c, "method.cutoff");
  s->ramp_from = shoal_config_float(c, "method.ramp_from");
  s->cut_first = shoal_config_bool(c, "method.cut_first");
  s->cap = shoal_config_bool(c, "method.cap");
  s->reset = shoal_config_bool(c, "method.reset");
  s->swap = shoal_config_bool(c, "method.swap");
  s->wire = shoal_wire_wanted(c);
  s->algorithm = shoal_algorithm_wanted(c);
  s->steps = shoal_ab_run_length(r, 0, 0, 0);
  read_schedule(c, s->steps, &s->schedule);
  SHOAL_TRY(shoal_ab_schedule_check(&s->schedule));
  SHOAL_TRY(find_layers(r, &s->layers));
  SHOAL_TRY(SHOAL_ALLOC(s->layers.n, &s->rank));
  return find_groups(r, s);
}

static shoal_status create_groups(shoal_run *r, shoal_ab_state *s)
{
  const shoal_ab_groups *g = &s->groups;
  char name[32];
  bool half_b = s->group >= g->a_groups;
  int first = half_b ? g->a_groups : 0, end = half_b ? g->groups : g->a_groups;
  if (g->groups > 1) {
    snprintf(name, sizeof name, "group %d", s->group);
    SHOAL_TRY(shoal_group_create(r->world, name, g->rank + g->first[s->group],
                                 g->first[s->group + 1] - g->first[s->group], &s->own));
  }
  if (s->mode != SHOAL_AB_ONLY_LEARNED || end - first == 1) return SHOAL_OK;
  snprintf(name, sizeof name, "half %d", half_b);
  return shoal_group_create(r->world, name, g->rank + g->first[first], g->first[end] - g->first[first], &s->half);
}

/* Arenas for factors of full rank; a part uses as much of them as its ranks need.  Products need no memory of their own: they go to the
 * whole model's arena. */
static shoal_status make_room(shoal_run *r, shoal_ab_state *s)
{
  shoal_factoring *how;
  shoal_model *most = NULL;
  SHOAL_TRY(SHOAL_ALLOC((size_t)r->model->nodes, &how));
  for (size_t i = 0; i < s->layers.n; i++)
    how[s->layers.layer[i].node] = (shoal_factoring){ s->layers.layer[i].n, false };
  shoal_status st = shoal_model_factor(r->model, how, SHOAL_TRAIN_BOTH, &most);
  if (st == SHOAL_OK) most->products = 0;
  if (st == SHOAL_OK) st = shoal_form_init(r->backend, most, &s->whole->optim->config, s->whole->params->g, &s->part);
  free(how);
  shoal_model_destroy(most);
  s->part.model = NULL; /* until the first split */
  SHOAL_TRY(st);
  s->part.params->products = s->whole->params->w;
  return SHOAL_OK;
}

static void add_ranks(shoal_str *text, const shoal_ab_groups *g, int from, int to)
{
  for (int i = from; i < to; i++) {
    shoal_str_add(text, "%s", i > from ? " |" : "");
    for (int k = g->first[i]; k < g->first[i + 1]; k++) shoal_str_add(text, " %d", g->rank[k]);
  }
}

static void print_plan(const shoal_run *r, const shoal_ab_state *s)
{
  const shoal_ab_groups *g = &s->groups;
  const shoal_ab_schedule *t = &s->schedule;
  shoal_str text = { 0 };
  if (g->a_groups) {
    shoal_str_add(&text, "A by ranks");
    add_ranks(&text, g, 0, g->a_groups);
    shoal_str_add(&text, ", ");
  }
  shoal_str_add(&text, "B by ranks");
  add_ranks(&text, g, g->a_groups, g->groups);
  shoal_info("ab: %zu layers become products; %s", s->layers.n, text.text);
  shoal_str_free(&text);
  if (t->warmup >= s->steps)
    shoal_info("ab: factors would come after %llu of %llu steps: the run is sync", (unsigned long long)t->warmup,
               (unsigned long long)s->steps);
  else
    shoal_info(
        "ab: factors after step %llu, reconciled (%s) every %llu, then %llu full-rank step%s; rate back over %llu",
        (unsigned long long)t->warmup, shoal_config_string(r->config, "method.mode"), (unsigned long long)t->cycle,
        (unsigned long long)t->rebound, t->rebound == 1 ? "" : "s", (unsigned long long)t->ramp);
}

static shoal_status ab_open(shoal_run *r, void *state)
{
  shoal_ab_state *s = state;
  SHOAL_TRY(shoal_group_agree(r->control, read_settings(r, s)));
  s->op_split = shoal_trace_op(r->trace, "split");
  s->op_reconcile = shoal_trace_op(r->trace, "reconcile");
  s->whole = r->form;
  SHOAL_TRY(shoal_group_agree(r->control, make_room(r, s)));
  s->batch = shoal_plan_batch(r->form->plan);
  SHOAL_TRY(shoal_group_max_i64(r->control, &s->batch, 1));
  SHOAL_TRY(create_groups(r, s));
  r->meet.together = s->own;
  r->meet.apart = shoal_ab_apart(s);
  return shoal_buckets_create(r->config, r->form, r->all, "exchange", "bucket", s->wire, s->algorithm, &s->full);
}

static void ab_close(shoal_run *r, void *state)
{
  shoal_ab_state *s = state;
  shoal_ab_phase_close(r, s);
  shoal_buckets_destroy(s->full);
  shoal_group_destroy(s->own);
  shoal_group_destroy(s->half);
  shoal_form_fini(r->backend, &s->part);
  shoal_ab_groups_free(&s->groups);
  shoal_ab_layers_free(&s->layers);
  free(s->rank);
}

/* -------------------------------------------------------------------------------------------------------- the step */

/* Gradients are means over the samples of the ranks that sum them. */
static double ab_samples(const shoal_run *r, const void *state, uint64_t total)
{
  const shoal_ab_state *s = state;
  const shoal_ab_groups *g = &s->groups;
  if (!s->factored) return (double)total;
  uint64_t sum = 0, first, count;
  for (int i = g->first[s->group]; i < g->first[s->group + 1]; i++) {
    shoal_share_of(total, g->rank[i], g->size, &first, &count);
    sum += count;
  }
  return (double)SHOAL_MAX(sum, 1);
}

static double ab_rate(const shoal_run *r, void *state, double scheduled)
{
  shoal_ab_state *s = state;
  (void)r;
  return shoal_ab_ramp_rate(&s->ramp, s->schedule.ramp, s->ramp_from, scheduled);
}

static shoal_buckets *buckets_now(const shoal_ab_state *s)
{
  return s->factored ? s->buckets : s->full;
}

static shoal_status ab_announce(shoal_run *r, void *state, size_t offset, size_t count)
{
  return shoal_buckets_announce(buckets_now(state), r->step, offset, count);
}

static shoal_status ab_grads_ready(shoal_run *r, void *state)
{
  return shoal_buckets_grads_ready(buckets_now(state), r);
}

/* On factors groups wait for each other only where they reconcile. */
static void set_meeting(shoal_run *r, const shoal_ab_state *s, uint64_t done)
{
  bool apart = s->factored && s->own;
  r->meet.next = apart ? (done / s->schedule.cycle + 1) * s->schedule.cycle : 0;
}

static shoal_status split_after(shoal_run *r, shoal_ab_state *s, uint64_t done)
{
  bool cut = s->cut_first || !shoal_ab_first_phase(&s->schedule, done);
  SHOAL_TRY(shoal_ab_split(r, s, cut));
  shoal_ab_print_split(r, s, done, cut);
  return SHOAL_OK;
}

/* Performs the schedule's event after a step.  No split after the last step: it would be reconciled at once. */
static shoal_status perform(shoal_run *r, shoal_ab_state *s, uint64_t done)
{
  switch (shoal_ab_event_at(&s->schedule, done)) {
  case SHOAL_AB_NOTHING:
    return SHOAL_OK;
  case SHOAL_AB_RAMP_ONLY:
    if (s->factored) shoal_ab_ramp_start(&s->ramp, s->schedule.ramp);
    return SHOAL_OK;
  case SHOAL_AB_RECONCILE:
    return s->factored ? shoal_ab_reconcile(r, s) : SHOAL_OK;
  case SHOAL_AB_SPLIT:
  case SHOAL_AB_SPLIT_CUT:
    break;
  }
  return s->factored || done >= s->steps ? SHOAL_OK : split_after(r, s, done);
}

static shoal_status ab_weights_ready(shoal_run *r, void *state)
{
  shoal_ab_state *s = state;
  for (size_t i = 0; s->factored && i < s->ranges; i++) s->age[i]++;
  s->phase_steps += s->factored;
  SHOAL_TRY(perform(r, s, r->step + 1));
  set_meeting(r, s, r->step + 1);
  return SHOAL_OK;
}

/* Switches the form if it is not the scheduled one: a run that starts on factors (warm-up 0), a full-rank checkpoint of
 * another layout or method or of the end of a shorter run, or a changed schedule. */
static shoal_status ab_start(shoal_run *r, void *state)
{
  shoal_ab_state *s = state;
  bool wanted = shoal_ab_factored(&s->schedule, r->step);
  print_plan(r, s); /* not earlier: a checkpoint may have set the schedule */
  if (wanted == s->factored) return SHOAL_OK;
  if (!wanted) return shoal_ab_reconcile(r, s);
  return r->step < s->steps ? split_after(r, s, r->step)
                            : SHOAL_OK; /* stopped after the last step: no reconciliation */
}

static shoal_status ab_finish(shoal_run *r, void *state, bool *changed)
{
  shoal_ab_state *s = state;
  *changed = s->factored;
  if (s->factored) SHOAL_TRY(shoal_ab_reconcile(r, s));
  if (!s->cut) return SHOAL_OK;
  double numbers = (double)s->cut->weights, whole = (double)r->model->weights;
  shoal_info("ab: the factors of the last phase hold %.0f of %.0f numbers: %.2f %%, compression %.2f : 1", numbers,
             whole, 100 * numbers / whole, whole / numbers);
  return SHOAL_OK;
}

static shoal_status ab_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  shoal_ab_state *s = state;
  if (s->factored) return shoal_ab_observe(r, s, weights, stats);
  SHOAL_TRY(r->backend->ops->copy(r->backend, r->form->params->n * sizeof *weights, r->form->params->w, weights));
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, stats);
}

const shoal_method shoal_method_ab = {
  .name = "ab",
  .about = "weights are factored into A B; groups of ranks train A or B alone, then reconcile",
  .explanation =
      "After a full-rank warm-up each large weight is split by SVD into a product A B, and small singular values\n"
      "are truncated.  Half of the groups train A with B frozen, the others B with A frozen.  Gradients are\n"
      "summed only inside a group, by default the ranks of one node, so these steps send nothing between nodes.\n"
      "Once per cycle the groups reconcile: factors are averaged over all ranks and multiplied, all ranks train\n"
      "the full-rank weights for a short rebound, and the weights are split again.  After each transition the\n"
      "learning rate ramps up again.  Between nodes a run sends what sync sends in its full-rank steps, a sum of\n"
      "all factors per reconciliation and a broadcast of them per split; in the authors' configurations 59 to\n"
      "72 % of the steps send nothing.  The first and last layers are not split.  The run ends with a\n"
      "reconciliation, and the model in a checkpoint always has full-rank weights.",
  .source = "Coquelin et al., AB-Training: A Communication-Efficient Approach for Distributed Low-Rank Learning, "
            "arXiv 2405.01067, 2024",
  .memory = "factors, their optimizer state and the position in the schedule",
  .options = options,
  .state_size = sizeof(shoal_ab_state),
  .trains = SHOAL_TRAINS_PHASES,
  .share = SHOAL_SHARE_BATCH,
  .outline = ab_outline,
  .check = ab_check,
  .open = ab_open,
  .close = ab_close,
  .start = ab_start,
  .finish = ab_finish,
  .samples = ab_samples,
  .rate = ab_rate,
  .announce = ab_announce,
  .grads_ready = ab_grads_ready,
  .weights_ready = ab_weights_ready,
  .assemble = ab_assemble,
  .save = shoal_ab_save,
  .load = shoal_ab_load,
};
