/* Local parallelism: layers on different ranks, each block of layers with its own loss, so that no gradient is sent
 * between stages.  What remains is a forward-only pipeline:
 *
 *     stage 0:  f0 g0 f1 g1 f2 g2 f3 g3 ...           f: forward of a minibatch, g: local loss, backward, update
 *     stage 1:     f0 g0 f1 g1 f2 g2 f3 ...           starts as soon as f0 of stage 0 is on the wire
 *     stage 2:        f0 g0 f1 g1 f2 g2 ...
 *
 * Nothing is stale: block k gets minibatch t as block k-1 computed it after exactly t updates, however far ahead that
 * is; so the result does not depend on timing, on queue depth, or on the number of ranks that share the blocks, and one
 * process that trains all blocks one after the other gets the same bits.
 *
 * A rank may hold several neighbouring blocks, which it trains in order, and several ranks may hold the same ones: they
 * share each minibatch and sum their gradients.  The pipeline is empty at checkpoints and evaluation, because all ranks
 * reach them after the same step.
 *
 * Forms: chunked, greedy, overlapping (pair.c); with a replay buffer (feed.c) no stage waits for another.
 * Sources: Laskin et al., 2020; Belilovsky et al., ICML 2020; Nokland and Eidnes, ICML 2019; docs/methods/local.md. */
#include "method/local/local.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/common/batch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const shoal_option options[] = {
  { "method.form", SHOAL_OPT_ENUM, "chunked", NULL, "chunked|greedy|overlapping",
    "Layers trained by one loss: a chunk of several, a single layer, or two, each shared with a neighbour.",
    "Laskin et al., 2020, figure 2" },
  { "method.chunks", SHOAL_OPT_INT, "0", "chunks", "[0,100000]",
    "Number of chunks; 0: one for each stage, at most 4 stages where the ranks can be divided so.", "shoal",
    .when = "method.form=chunked" },
  { "method.cut", SHOAL_OPT_INTS, "", "units", "[1,inf)",
    "First unit of each chunk but the first. None: by method.balance.", "shoal", .when = "method.form=chunked" },
  { "method.balance", SHOAL_OPT_ENUM, "counted", NULL, "counted|measured",
    "Cost that chunks share equally: counted, the same in every run, or measured on rank 0 at the start.", "shoal",
    .when = "method.form=chunked" },
  { "method.head", SHOAL_OPT_ENUM, "auto", NULL, "auto|linear|mlp-sr|nokland",
    "Head of every block but the last; auto: mlp-sr after a spatial layer, else linear.",
    "mlp-sr: Belilovsky et al., ICML 2020; nokland: Nokland and Eidnes, ICML 2019" },
  { "method.replicas", SHOAL_OPT_INT, "0", "ranks", "[0,100000]",
    "Ranks that hold the same blocks and share each minibatch; 0: as few as the ranks allow.", "shoal" },
  { "method.queue", SHOAL_OPT_INT, "2", "minibatches", "[1,256]", "Minibatches that may be queued in front of a stage.",
    "shoal" },
  { "method.replay", SHOAL_OPT_INT, "0", "minibatches", "[0,100000]",
    "Size of the replay buffer in front of each stage: no waiting, but stale inputs; 0: lockstep.",
    "Belilovsky et al., ICML 2020" },
  { "method.max_uses", SHOAL_OPT_INT, "0", NULL, "[0,1000000]",
    "Replay: an entry's count is 1 on arrival, plus 1 per use; it is used while below this; 0: no limit.",
    "Belilovsky et al., buffer_experiments" },
  { "method.average", SHOAL_OPT_ENUM, "gradients", NULL, "gradients|parameters",
    "What two blocks average for a shared layer.", "shoal; the paper does not say", .when = "method.form=overlapping" },
  SHOAL_BUCKET_SUM_OPTIONS,
  SHOAL_BUCKET_SIZE_OPTIONS,
  { .name = NULL }
};

/* ------------------------------------------------------------------------------------------------------- opening */

static void report(const shoal_run *r, const shoal_local *s)
{
  const shoal_local_parts *p = s->parts;
  shoal_str text = { 0 };
  double most = 0, sum = 0;
  for (int k = 0; k < p->n; k++)
    shoal_str_add(&text, "%s%d-%d",
                  k == 0                                            ? ""
                  : p->stage_first[shoal_local_stage_of(p, k)] == k ? " | "
                                                                    : ", ",
                  p->part[k].units.first, p->part[k].units.last - 1);
  for (int i = 0; i < p->grid.stages; i++) {
    double cost = 0;
    for (int k = p->stage_first[i]; k < p->stage_first[i + 1]; k++) cost += p->part[k].cost;
    most = fmax(most, cost);
    sum += cost;
  }
  shoal_info("%d block%s on %d stage%s of %d replica%s, units %s; the slowest stage has %.2f times the mean cost", p->n,
             p->n == 1 ? "" : "s", p->grid.stages, p->grid.stages == 1 ? "" : "s", p->grid.replicas,
             p->grid.replicas == 1 ? "" : "s", text.text ? text.text : "", most * p->grid.stages / sum);
  if (p->grid.stages == 1 && shoal_group_size(r->all) > 1)
    shoal_info(
        "every rank holds all layers, so this is data-parallel training%s; for a pipeline choose method.chunks and a "
        "number of ranks that have a divisor in common",
        p->n > 1 ? " with local losses" : "");
  shoal_str_free(&text);
}

static shoal_status open_block(shoal_run *r, shoal_local *s, int i)
{
  shoal_local_trained *b = &s->block[i];
  const shoal_params *all = r->form->params;
  b->params = (shoal_params){ .n = b->part->model->weights,
                              .w = all->w + b->at,
                              .g = all->g + b->at,
                              .n_stats = b->part->model->stats,
                              .stats = all->stats + b->stats_at };
  b->form = (shoal_form){ .backend = r->backend, .model = b->part->model, .params = &b->params };
  SHOAL_TRY(shoal_form_plan(r->backend, s->max_samples, &b->form));
  if (i == 0) return SHOAL_OK;
  size_t n = (size_t)s->max_samples * s->block[i - 1].part->elements;
  return r->backend->ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, n * sizeof(float), &b->input);
}

/* Plans for the epoch's short last batch. */
static shoal_status plan_last_batch(shoal_run *r, shoal_local *s)
{
  uint64_t rest = r->pads ? 0 : r->epoch_samples % r->global_batch, first, own;
  shoal_share_of(rest, r->share_rank, r->share_size, &first, &own);
  for (int i = 0; i < s->n; i++) SHOAL_TRY(shoal_plan_last_batch(&s->block[i].form, own, r->steps_per_epoch == 1));
  return SHOAL_OK;
}

static shoal_status open_replicas(shoal_run *r, shoal_local *s)
{
  const shoal_local_grid *g = &s->parts->grid;
  char name[32];
  int *ranks;
  if (g->replicas == 1) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)g->replicas, &ranks));
  for (int i = 0; i < g->replicas; i++) ranks[i] = shoal_local_rank(g, s->stage, i);
  snprintf(name, sizeof name, "stage %d", s->stage);
  shoal_status st = shoal_group_create(r->world, name, ranks, g->replicas, &s->replicas);
  free(ranks);
  r->alike = s->replicas;
  for (int i = 0; st == SHOAL_OK && i < s->n; i++) {
    st = shoal_buckets_create(r->config, &s->block[i].form, s->replicas, "gradients of a block", "bucket",
                              shoal_wire_wanted(r->config), shoal_algorithm_wanted(r->config), &s->block[i].sums);
  }
  return st;
}

static shoal_status name_columns(const shoal_run *r, shoal_local *s, bool replay)
{
  const char *head = r->model->loss == SHOAL_LOSS_CLASSES ? "acc" : "loss";
  static const char *const more[] = { "replay_uses", "replay_age", "replay_unused", "replay_left_out" };
  size_t heads = (size_t)s->parts->n, n = heads + (replay ? SHOAL_COUNT(more) : 0);
  if (heads == 1) return SHOAL_OK; /* the model's score is that of the only head */
  SHOAL_TRY(SHOAL_ALLOC(n, &s->columns));
  for (s->n_columns = 0; s->n_columns < n; s->n_columns++) {
    size_t i = s->n_columns;
    char *name = i < heads ? shoal_strdup_printf("head_%s_%zu", head, i + 1) : strdup(more[i - heads]);
    SHOAL_CHECK(name, SHOAL_ERR_MEM, "the name of a column");
    s->columns[i] = name;
  }
  return SHOAL_OK;
}

static shoal_status open_blocks(shoal_run *r, shoal_local *s)
{
  for (int i = 0; i < s->n; i++) SHOAL_TRY(open_block(r, s, i));
  return plan_last_batch(r, s);
}

static shoal_status local_open(shoal_run *r, void *state)
{
  shoal_local *s = state;
  const shoal_config *c = r->config;
  int depth = (int)shoal_config_int(c, "method.queue"), replay = (int)shoal_config_int(c, "method.replay");
  uint64_t first, own;
  shoal_share_of(r->global_batch, r->share_rank, r->share_size, &first, &own);
  s->max_samples = (int64_t)SHOAL_MAX(own, 1);
  s->averages_parameters = strcmp(shoal_config_string(c, "method.average"), "parameters") == 0;
  s->op_forward = shoal_trace_op(r->trace, "forward");
  s->op_backward = shoal_trace_op(r->trace, "backward");
  s->op_optimizer = shoal_trace_op(r->trace, "optimizer");
  SHOAL_TRY(shoal_group_agree(r->control, open_blocks(r, s))); /* sums are planned together */
  SHOAL_TRY(open_replicas(r, s));
  SHOAL_TRY(shoal_local_feed_create(r, s, depth, replay, (int)shoal_config_int(c, "method.max_uses"), &s->feed));
  if (s->parts->form == SHOAL_LOCAL_OVERLAPPING) SHOAL_TRY(shoal_local_pairs_create(r, s, &s->pairs));
  SHOAL_TRY(r->backend->ops->alloc(r->backend, SHOAL_MEMORY_PINNED, sizeof(double), &s->square));
  if (s->pairs && !s->averages_parameters) {
    s->clip = r->form->optim->config.clip;
    r->form->optim->config.clip = 0;
  }
  bool freely = replay > 0 && s->parts->grid.stages > 1;
  uint64_t lag = shoal_local_lag(s->parts->grid.stages, depth);
  r->meet = (shoal_meet_policy){ .kind = freely ? SHOAL_MEET_FREELY : SHOAL_MEET_IN_ROUNDS,
                                 .together = freely ? s->replicas : NULL,
                                 .lag = lag,
                                 .chained = true,
                                 .apart = 2 * lag - 2 };
  report(r, s);
  SHOAL_TRY(name_columns(r, s, freely));
  r->columns = s->columns;
  r->n_columns = s->n_columns;
  return SHOAL_OK;
}

static void local_close(shoal_run *r, void *state)
{
  shoal_local *s = state;
  shoal_local_pairs_destroy(s->pairs);
  shoal_local_feed_destroy(s->feed);
  r->backend->ops->release(r->backend, &s->square);
  if (s->parts) shoal_local_forget(r, s);
  for (int i = 0; s->block && i < s->n; i++) {
    shoal_buckets_destroy(s->block[i].sums);
    shoal_plans_destroy(s->block[i].form.plans);
    r->backend->ops->release(r->backend, &s->block[i].input);
  }
  shoal_group_destroy(s->replicas);
  for (size_t i = 0; i < s->n_columns; i++) free((void *)s->columns[i]);
  free(s->columns);
  free(s->block);
  shoal_model_destroy(s->arena);
  shoal_local_parts_destroy(s->parts);
}

/* ------------------------------------------------------------------------------------------------------- the step */

typedef struct {
  shoal_run *run;
  const shoal_local_trained *block;
} announcing;

static shoal_status announce(void *context, size_t offset, size_t count, size_t *bad)
{
  announcing *a = context;
  const shoal_local_trained *t = a->block;
  SHOAL_TRY(a->run->look(a->run, t->form.model, t->params.g, offset, count, bad));
  return t->sums ? shoal_buckets_announce(t->sums, a->run->step, offset, count) : SHOAL_OK;
}

/* Passes this block's output on: to the next block's input, or in a message that is sent at once. */
static shoal_status hand_on(shoal_run *r, shoal_local *s, int i, shoal_local_batch *b)
{
  shoal_local_trained *t = &s->block[i];
  bool inside = i + 1 < s->n;
  float *to = NULL;
  if (t->part->out_node < 0 || b->head.total == 0) return SHOAL_OK;
  if (inside)
    to = s->block[i + 1].input.at;
  else
    SHOAL_TRY(shoal_local_feed_room(s->feed, r, &to));
  if (to && b->head.samples) SHOAL_TRY(shoal_plan_output(t->plan, t->part->out_node, to));
  if (inside) b->x = to;
  return inside || !to ? SHOAL_OK : shoal_local_feed_send(s->feed, r, b);
}

/* Forward, pass the output on, local loss and backward; then the sum over replicas. */
static shoal_status differentiate(shoal_run *r, shoal_local *s, int i, shoal_local_batch *b, shoal_score *score)
{
  shoal_local_trained *t = &s->block[i];
  shoal_address at = { .seed = r->seed, .step = (uint32_t)b->head.step, .slot0 = b->head.slot0 };
  const float *x = b->x;
  announcing to = { r, t };
  t->params.version = r->form->params->version;
  if (b->head.samples == 0) {
    SHOAL_TRY(r->backend->ops->fill(r->backend, t->params.n, 0, t->params.g));
    SHOAL_TRY(hand_on(r, s, i, b));
    return t->sums ? shoal_buckets_finish(t->sums, r->step) : SHOAL_OK;
  }
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_plans_get(t->form.plans, b->head.samples, SHOAL_PLAN_TRAIN, &t->plan));
  SHOAL_TRY(shoal_plan_forward(t->plan, &t->params, &at, x, b->y, 1.0f / (float)b->head.total, score));
  r->judge(r, score, s->block[i].number + 1 == s->parts->n);
  shoal_trace_span(r->trace, SHOAL_TRACE_FORWARD, s->op_forward, t0, shoal_now_ns());
  SHOAL_TRY(hand_on(r, s, i, b));
  uint64_t t1 = shoal_now_ns();
  SHOAL_TRY(shoal_plan_backward(t->plan, &t->params, announce, &to));
  shoal_trace_span(r->trace, SHOAL_TRACE_BACKWARD, s->op_backward, t1, shoal_now_ns());
  return t->sums ? shoal_buckets_finish(t->sums, r->step) : SHOAL_OK;
}

/* One call per block, so that each clips by its own norm; the step count advances once per step. */
static shoal_status update(shoal_run *r, shoal_local *s, int i, float lr)
{
  const shoal_local_trained *t = &s->block[i];
  const shoal_range range = { t->at, t->params.n };
  uint64_t steps = r->form->optim->steps, t0 = shoal_now_ns();
  SHOAL_TRY(shoal_optim_step(r->form->optim, r->form->model, r->form->params, &range, 1, lr));
  if (i + 1 < s->n) r->form->optim->steps = steps; /* counted once, after the last block */
  shoal_trace_span(r->trace, SHOAL_TRACE_OPTIMIZER, s->op_optimizer, t0, shoal_now_ns());
  return SHOAL_OK;
}

/* The last block has the network's own loss; the others only report a loss that is not finite. */
static void add_score(shoal_run *r, const shoal_local *s, int i, const shoal_score *own, shoal_score *score)
{
  r->shown_loss = own->loss / (double)own->samples;
  if (s->block[i].number + 1 == s->parts->n) {
    score->loss += own->loss;
    score->correct += own->correct;
    score->samples += own->samples;
  } else if (!isfinite(own->loss)) {
    score->loss = own->loss;
  }
}

static shoal_status train_in_order(shoal_run *r, shoal_local *s, shoal_local_batch *b, float lr, shoal_score *score)
{
  for (int i = 0; i < s->n; i++) {
    shoal_score own = { 0 };
    SHOAL_TRY(differentiate(r, s, i, b, &own));
    SHOAL_TRY(update(r, s, i, lr));
    add_score(r, s, i, &own, score);
  }
  return SHOAL_OK;
}

/* Clips a block's gradient before it is averaged with the neighbours': after it, the copies of a layer would be scaled
 * by two different norms and drift apart.  If the norm is not finite, neither are the shared ranges afterwards, so that
 * the neighbours leave their update out as well. */
static shoal_status clip(const shoal_run *r, const shoal_local *s, const shoal_local_trained *t)
{
  const shoal_backend_ops *ops = r->backend->ops;
  const shoal_range shared[] = { t->part->lower, t->part->upper };
  double *square = s->square.at;
  *square = 0;
  SHOAL_TRY(ops->sumsq(r->backend, t->params.n, t->params.g, square));
  SHOAL_TRY(ops->settle(r->backend));
  for (size_t i = 0; i < SHOAL_COUNT(shared) && !isfinite(*square); i++)
    if (shared[i].count) SHOAL_TRY(ops->fill(r->backend, 1, NAN, t->params.g + shared[i].offset));
  double scale = s->clip > 0 ? s->clip / sqrt(*square) : 1;
  return scale < 1 ? ops->axpby(r->backend, t->params.n, (float)scale, t->params.g, 0, t->params.g) : SHOAL_OK;
}

/* All gradients before any update, since blocks share layers. */
static shoal_status train_overlapping(shoal_run *r, shoal_local *s, shoal_local_batch *b, float lr, shoal_score *score)
{
  for (int i = 0; i < s->n; i++) {
    shoal_score own = { 0 };
    SHOAL_TRY(differentiate(r, s, i, b, &own));
    if (s->clip > 0 || r->form->optim->config.takes_back) SHOAL_TRY(clip(r, s, &s->block[i]));
    add_score(r, s, i, &own, score);
  }
  if (!s->averages_parameters) SHOAL_TRY(shoal_local_pairs_average(s->pairs, r, s, r->form->params->g));
  for (int i = 0; i < s->n; i++) SHOAL_TRY(update(r, s, i, lr));
  if (!s->averages_parameters) return SHOAL_OK;
  SHOAL_TRY(shoal_local_pairs_average(s->pairs, r, s, r->form->params->w));
  r->form->params->version++;
  return SHOAL_OK;
}

static shoal_status local_step(shoal_run *r, void *state, const shoal_batch *b, float lr, shoal_score *score)
{
  shoal_local *s = state;
  shoal_local_batch in = { .head = { .step = r->step, .samples = (uint32_t)b->n, .slot0 = b->slot0, .total = b->total },
                           .x = b->x,
                           .y = b->y };
  if (r->reads_none)
    SHOAL_TRY(shoal_local_feed_take(s->feed, r, &in));
  else if (b->n)
    SHOAL_TRY(shoal_batch_input(r, b, &in.x));
  r->meet.next = (r->step + 1) / r->meet.lag * r->meet.lag + r->meet.lag;
  if (in.head.total == 0 && !s->replicas) return SHOAL_OK;
  SHOAL_TRY(s->pairs ? train_overlapping(r, s, &in, lr, score) : train_in_order(r, s, &in, lr, score));
  if (r->reads_none) SHOAL_TRY(shoal_local_feed_release(s->feed, r));
  if (s->replicas)
    for (int i = 0; i < s->n; i++) shoal_buckets_add_bytes(s->block[i].sums, r->sent);
  return SHOAL_OK;
}

static shoal_status local_settle(shoal_run *r, void *state, shoal_settle stage)
{
  shoal_local *s = state;
  bool freely = r->meet.kind == SHOAL_MEET_FREELY; /* in step nothing is in flight at a vote */
  return freely && stage == SHOAL_GATHERED ? shoal_local_feed_settle(s->feed, r) : SHOAL_OK;
}

const shoal_method shoal_method_local = {
  .name = "local",
  .about = "blocks of layers on different ranks, each trained by its own loss: a forward-only pipeline",
  .explanation =
      "The network is divided into blocks of layers.  Every block but the last gets a small auxiliary classifier,\n"
      "its head, and is trained by the loss of that head alone, so no gradient passes from a block to the one\n"
      "before it.  Ranks hold the blocks in order and send activations and labels forward as soon as they are\n"
      "computed; no rank waits for a gradient.  The result is bitwise that of one process which trains all blocks\n"
      "in turn.  Further ranks are replicas: they share minibatches and sum the gradients of their blocks.  The\n"
      "model is the chain of blocks without heads; metrics.csv has the accuracy of each head (head_acc_1, …;\n"
      "of targets head_loss_1, …).\n"
      "With few blocks and strong heads little accuracy is lost; with many blocks much.",
  .source = "Laskin et al., Parallel Training of Deep Networks with Local Updates, arXiv 2012.03837, 2020",
  .memory = "the heads",
  .options = options,
  .state_size = sizeof(shoal_local),
  .trains = SHOAL_TRAINS_PARTS,
  .share = SHOAL_SHARE_BATCH,
  .outline = shoal_local_outline,
  .check = shoal_local_check,
  .open = local_open,
  .close = local_close,
  .step = local_step,
  .settle = local_settle,
  .assemble = shoal_local_assemble,
  .observe = shoal_local_observe,
  .adopt = shoal_local_adopt,
  .save = shoal_local_save,
  .fits = shoal_local_fits,
  .load = shoal_local_load,
};
