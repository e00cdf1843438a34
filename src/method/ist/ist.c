/* Independent subnet training: the network is cut into disjoint narrow subnets, which ranks train independently for a
 * round; then every element returns to its home rank, and the units are dealt again.
 *
 *     round t      | J local steps, no waiting   |  collect   deal t+1   dispatch  |  J local steps …
 *     rank r       [ own subnet, own samples     ] arena → homes         homes → arena
 *
 * A rank holds its subnet (weights, gradients, optimizer state) and its store: the n-th part of the model it is home
 * to, trained in this round by the owners of the units, or dormant.  A round ends with one packed all-to-all to the
 * homes and one from them: a copy, or a mean if several ranks trained an element (shared tensors, blocks with several
 * owners).  Every rank computes the owners (draw.c) and the sizes of all messages (layout.c) without communication.
 *
 * Rounds are counted in steps from the start of the first one; evaluation, checkpoints and epochs do not end a round:
 * the model is assembled in scratch, by a collect into a copy of the store.  Within a round ranks do not wait for each
 * other, unless the run is stopped; they vote on saves only at the end of a round.
 * Source: Yuan et al., PVLDB 15(8), 2022; residual blocks: Dun et al. (ResIST), UAI 2022; docs/methods/ist.md. */
#include "method/ist/ist.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/common/average.h"
#include "method/method.h"
#include <stdlib.h>
#include <string.h>

enum { ARRAYS_MAX = 3 }; /* weights and up to two slots of optimizer state */

typedef struct {
  shoal_ist_plan *plan;
  shoal_ist_deal *now, *next;
  shoal_ist_view *view;
  shoal_model *part; /* this rank's subnet in `now` */
  int arrays;        /* arrays exchanged: weights, and slots if carried */
  size_t store_n;    /* elements of each array of the store */
  float *store[ARRAYS_MAX];
  float *parcel, *bundle; /* packed: one block per home; one block per part.  Pinned */
  shoal_memory memory[3]; /* of the store, the parcel and the bundle */
  size_t parcel_n, bundle_n;
  uint64_t *out, *in; /* [size] bytes of the blocks */
  uint64_t round, began, length;
} ist_state;

static const shoal_option options[] = {
  { "method.cut", SHOAL_OPT_ENUM, "auto", NULL, "auto|units|blocks",
    "What is dealt: hidden units and channels, or residual blocks; auto: blocks if the model has any to "
    "skip.",
    "units: Yuan et al., PVLDB 2022; blocks: Dun et al., UAI 2022" },
  { "method.round", SHOAL_OPT_INT, "0", "steps", "[0,1000000000]",
    "Local steps per round; then units or blocks are dealt again; 0: 20 for units, 50 for blocks.",
    "Yuan et al. (20 to 160); Dun et al. (50)" },
  { "method.partition", SHOAL_OPT_ENUM, "uniform", NULL, "uniform|stratified",
    "How units are dealt: freely, or the same number from every rank's store, so that all messages have equal size.",
    "IST_Release, centralised and sharded scripts" },
  { "method.moments", SHOAL_OPT_ENUM, "reset", NULL, "reset|carry",
    "Optimizer state at the start of a round: zero, or sent along with the weights, which multiplies the bytes.",
    "reset: the ResIST and GIST scripts" },
  { "method.min_blocks", SHOAL_OPT_INT, "0", "blocks", "[0,100000]",
    "Blocks: least number of dealt blocks in a subnet; 0: 5 of 22, in proportion, at least 1 of each stage.",
    "Dun et al., UAI 2022 (5 of 22)" },
  { "method.stages", SHOAL_OPT_INTS, "", NULL, "[1,inf)",
    "Blocks: stages whose blocks are dealt, from 1; a stage is all blocks of one shape. None: all.",
    "Dun et al., UAI 2022 (the third of four)" },
  { .name = NULL }
};

static bool deals_blocks(const shoal_run *r)
{
  const char *cut = shoal_config_string(r->config, "method.cut");
  bool any = false;
  for (int b = 0; b < r->model->residuals; b++) any |= shoal_model_residual_can_drop(r->model, b);
  return strcmp(cut, "blocks") == 0 || (strcmp(cut, "auto") == 0 && any);
}

/* ---- opening ---- */

/* Settings of the other kind of cut would have no effect, so they are refused. */
static shoal_status refuse_unused(const char *model, const shoal_ist_options *o)
{
  SHOAL_CHECK(
      o->blocks || (o->min_blocks == 0 && o->n_stages == 0), SHOAL_ERR_USAGE,
      "%s is for residual blocks, but of model %s hidden units are dealt: leave it out, or set method.cut to blocks",
      o->n_stages ? "method.stages" : "method.min_blocks", model);
  SHOAL_CHECK(
      !o->blocks || !o->stratified, SHOAL_ERR_USAGE,
      "method.partition stratified is for hidden units, but of model %s residual blocks are dealt: leave it out, or "
      "set method.cut to units",
      model);
  return SHOAL_OK;
}

static shoal_ist_options read_options(const shoal_config *c, bool blocks)
{
  shoal_ist_options o = {
    .blocks = blocks,
    .stratified = strcmp(shoal_config_string(c, "method.partition"), "stratified") == 0,
    .min_blocks = (int)shoal_config_int(c, "method.min_blocks"),
  };
  o.n_stages = shoal_config_ints(c, "method.stages", &o.stages);
  return o;
}

/* What is dealt by default depends on the model, so ist_outline asks once more. */
static shoal_status ist_check(const shoal_config *c)
{
  const char *cut = shoal_config_string(c, "method.cut");
  const shoal_ist_options o = read_options(c, strcmp(cut, "blocks") == 0);
  return strcmp(cut, "auto") == 0 ? SHOAL_OK : refuse_unused(shoal_config_string(c, "model.name"), &o);
}

static shoal_status ist_outline(shoal_run *r, void *state, shoal_outline *out)
{
  ist_state *s = state;
  shoal_ist_options o = read_options(r->config, deals_blocks(r));
  o.parts = shoal_group_size(r->all);
  o.seed = r->seed;
  SHOAL_TRY(refuse_unused(r->model->name, &o));
  SHOAL_TRY(shoal_ist_plan_create(r->model, &o, &s->plan));
  SHOAL_TRY(shoal_ist_deal_create(s->plan, &s->now));
  SHOAL_TRY(shoal_ist_deal_create(s->plan, &s->next));
  SHOAL_TRY(shoal_ist_view_create(s->plan, shoal_group_rank(r->all), &s->view));
  shoal_ist_draw(s->plan, 0, s->now);
  SHOAL_TRY(shoal_ist_part(s->plan, s->now, shoal_group_rank(r->all), &s->part));
  *out = (shoal_outline){ .model = s->part, .own_gradients = true };
  return SHOAL_OK;
}

static void report(const shoal_run *r, const ist_state *s)
{
  char part[32], store[32], messages[32];
  size_t own = r->form->params->n;
  shoal_info("%d subnet%s of %s%s, rounds of %llu step%s; this one trains %zu of %zu parameters and stores %zu",
             s->plan->o.parts, s->plan->o.parts == 1 ? "" : "s", s->plan->o.blocks ? "residual blocks" : "hidden units",
             s->plan->o.blocks       ? ""
             : s->plan->o.stratified ? ", stratified"
                                     : ", uniform",
             (unsigned long long)s->length, s->length == 1 ? "" : "s", own, r->model->weights, s->store_n);
  shoal_info("memory: %s of weights, gradients and optimizer state, %s of store, %s of messages",
             shoal_format_bytes((double)(own * (size_t)(2 + r->form->optim->slots)) * sizeof(float), part, sizeof part),
             shoal_format_bytes((double)(s->store_n * (size_t)s->arrays) * sizeof(float), store, sizeof store),
             shoal_format_bytes((double)(s->parcel_n + s->bundle_n) * sizeof(float), messages, sizeof messages));
}

static shoal_status allocate(shoal_run *r, ist_state *s, size_t arrays)
{
  const shoal_backend_ops *ops = r->backend->ops;
  const size_t f = sizeof(float);
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, s->store_n * arrays * f, &s->memory[0]));
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_PINNED, s->parcel_n * f, &s->memory[1]));
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_PINNED, s->bundle_n * f, &s->memory[2]));
  s->store[0] = s->memory[0].at;
  s->parcel = s->memory[1].at;
  s->bundle = s->memory[2].at;
  return SHOAL_OK;
}

static shoal_status init_store(shoal_run *r, ist_state *s)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(r->backend, SHOAL_WINDOW_BOTH, s->store_n, s->store[0], &w));
  shoal_status st = shoal_ist_store_init(s->plan, s->view->rank, r->seed, w.at);
  if (st == SHOAL_OK) return shoal_window_close(r->backend, &w);
  shoal_window_drop(&w);
  return st;
}

/* Allocates all memory that rounds need, for the whole run. */
static shoal_status ist_open(shoal_run *r, void *state)
{
  ist_state *s = state;
  int me = shoal_group_rank(r->all);
  size_t size = (size_t)shoal_group_size(r->all), arrays;
  bool carry = strcmp(shoal_config_string(r->config, "method.moments"), "carry") == 0;
  s->arrays = 1 + (carry ? r->form->optim->slots : 0);
  arrays = (size_t)s->arrays;
  s->length = (uint64_t)shoal_config_int(r->config, "method.round");
  if (s->length == 0) s->length = s->plan->o.blocks ? 50 : 20;
  s->store_n = shoal_ist_store_room(s->plan, me);
  s->parcel_n = r->form->params->n * arrays;
  s->bundle_n = shoal_ist_bundle_room(s->plan, me) * arrays;
  SHOAL_TRY(allocate(r, s, arrays));
  for (int a = 1; a < s->arrays; a++) s->store[a] = s->store[a - 1] + s->store_n;
  SHOAL_TRY(SHOAL_ALLOC(size, &s->out));
  SHOAL_TRY(SHOAL_ALLOC(size, &s->in));
  SHOAL_TRY(init_store(r, s));
  r->meet.next = r->meet.apart = s->length;
  r->meet.lag = 0;
  report(r, s);
  return SHOAL_OK;
}

static void ist_close(shoal_run *r, void *state)
{
  ist_state *s = state;
  shoal_ist_view_destroy(s->view);
  if (s->plan) shoal_ist_deal_destroy(s->plan, s->now);
  if (s->plan) shoal_ist_deal_destroy(s->plan, s->next);
  shoal_ist_plan_destroy(s->plan);
  shoal_model_destroy(s->part);
  for (size_t i = 0; i < SHOAL_COUNT(s->memory); i++) r->backend->ops->release(r->backend, &s->memory[i]);
  free(s->out);
  free(s->in);
}

/* ---- a round's end ---- */

static void arena_of(const shoal_run *r, float *arena[ARRAYS_MAX])
{
  arena[0] = r->form->params->w;
  for (int i = 0; i < r->form->optim->slots; i++) arena[1 + i] = r->form->optim->slot[i];
}

/* Block sizes in bytes, for the all-to-all. */
static void set_sizes(ist_state *s, int arrays, const uint64_t *out, const uint64_t *in)
{
  for (int k = 0; k < s->plan->o.parts; k++) {
    s->out[k] = out[k] * (uint64_t)arrays * sizeof(float);
    s->in[k] = in[k] * (uint64_t)arrays * sizeof(float);
  }
}

/* Adds the bytes this rank sends, by formula and link; its own block is not sent. */
static void count_bytes(shoal_run *r, const ist_state *s)
{
  for (int k = 0; k < s->plan->o.parts; k++)
    if (k != s->view->rank) r->sent[shoal_group_link(r->all, k)] += s->out[k];
}

/* Parts → homes.  `g` decides how traffic is counted: the training group, or control if the model is only observed. */
static shoal_status collect(shoal_run *r, ist_state *s, shoal_group *g, int arrays, float *const *store)
{
  float *arena[ARRAYS_MAX];
  arena_of(r, arena);
  shoal_ist_view_set(s->view, s->now, s->now, s->part);
  SHOAL_CHECK(s->view->sum_worker * (size_t)arrays <= s->bundle_n, SHOAL_ERR_INTERNAL, "a collect of %zu elements",
              s->view->sum_worker);
  SHOAL_TRY(shoal_ist_pack_part(r->backend, s->view, arrays, arena, s->parcel));
  SHOAL_TRY(r->backend->ops->settle(r->backend));
  set_sizes(s, arrays, s->view->to_home, s->view->to_worker);
  SHOAL_TRY(shoal_group_alltoall(g, s->parcel, s->out, s->bundle, s->in));
  return shoal_ist_unpack_store(r->backend, s->view, arrays, store, s->bundle);
}

/* Replaces the current subnet by `part`, that of deal `next`. */
static shoal_status change_part(shoal_run *r, ist_state *s, shoal_model *part)
{
  SHOAL_CHECK(part->weights == s->part->weights && part->stats == s->part->stats && part->nodes == s->part->nodes,
              SHOAL_ERR_INTERNAL, "the subnet has changed its shape: %zu numbers were %zu", part->weights,
              s->part->weights);
  shoal_model_destroy(s->part);
  r->form->model = s->part = part;
  shoal_ist_deal *deal = s->now;
  s->now = s->next;
  s->next = deal;
  return SHOAL_OK;
}

/* Homes → the parts of deal `next`; blocks are still held by the holders of `now`. */
static shoal_status dispatch(shoal_run *r, ist_state *s, const shoal_model *part)
{
  float *arena[ARRAYS_MAX];
  arena_of(r, arena);
  shoal_ist_view_set(s->view, s->now, s->next, part);
  SHOAL_CHECK(s->view->sum_worker * (size_t)s->arrays <= s->bundle_n && s->view->sum_home == r->form->params->n,
              SHOAL_ERR_INTERNAL, "a dispatch of %zu and %zu elements", s->view->sum_worker, s->view->sum_home);
  SHOAL_TRY(shoal_ist_pack_store(r->backend, s->view, s->arrays, s->store, s->bundle));
  SHOAL_TRY(r->backend->ops->settle(r->backend));
  set_sizes(s, s->arrays, s->view->to_worker, s->view->to_home);
  SHOAL_TRY(shoal_group_alltoall(r->all, s->bundle, s->out, s->parcel, s->in));
  count_bytes(r, s);
  SHOAL_TRY(shoal_ist_unpack_part(r->backend, s->view, s->arrays, arena, s->parcel));
  r->form->params->version++;
  return SHOAL_OK;
}

static shoal_status reset_moments(shoal_run *r)
{
  shoal_optim *o = r->form->optim;
  for (int i = 0; i < o->slots; i++) SHOAL_TRY(r->backend->ops->fill(r->backend, o->n, 0, o->slot[i]));
  o->steps = 0;
  return SHOAL_OK;
}

static shoal_status turn(shoal_run *r, ist_state *s)
{
  shoal_model *part;
  SHOAL_TRY(collect(r, s, r->all, s->arrays, s->store));
  count_bytes(r, s);
  shoal_ist_draw(s->plan, s->round + 1, s->next);
  SHOAL_TRY(shoal_ist_part(s->plan, s->next, s->view->rank, &part));
  shoal_status st = dispatch(r, s, part);
  if (st == SHOAL_OK) st = change_part(r, s, part);
  if (st != SHOAL_OK) {
    shoal_model_destroy(part);
    return st;
  }
  if (s->arrays == 1) SHOAL_TRY(reset_moments(r));
  s->round++;
  s->began = r->step + 1;
  r->meet.next = s->began + s->length;
  return SHOAL_OK;
}

static shoal_status ist_weights_ready(shoal_run *r, void *state)
{
  ist_state *s = state;
  return r->step + 1 - s->began >= s->length ? turn(r, s) : SHOAL_OK;
}

/* ---- the model ---- */

/* Broadcasts every rank's store in turn.  `own` is this rank's, `other` is large enough for any. */
static shoal_status spread(shoal_run *r, ist_state *s, const float *own, float *other, float *weights)
{
  for (int home = 0; home < s->plan->o.parts; home++) {
    size_t n = shoal_ist_store_size(s->plan, s->now, home, NULL);
    if (home == s->view->rank) SHOAL_TRY(r->backend->ops->copy(r->backend, n * sizeof(float), own, other));
    SHOAL_TRY(shoal_broadcast_arena(r->backend, r->control, other, n, home));
    SHOAL_TRY(shoal_ist_store_write(r->backend, s->plan, s->now, home, other, weights));
  }
  return SHOAL_OK;
}

static shoal_status ist_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  ist_state *s = state;
  const shoal_backend_ops *ops = r->backend->ops;
  shoal_memory room;
  size_t largest = 0;
  for (int home = 0; home < s->plan->o.parts; home++)
    largest = SHOAL_MAX(largest, shoal_ist_store_size(s->plan, s->now, home, NULL));
  shoal_status st = ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, (s->store_n + largest) * sizeof(float), &room);
  float *copy[1] = { room.at };
  SHOAL_TRY_GOTO(st, shoal_group_agree(r->control, st), done);
  SHOAL_TRY_GOTO(st, ops->copy(r->backend, s->store_n * sizeof(float), s->store[0], copy[0]), done);
  SHOAL_TRY_GOTO(st, collect(r, s, r->control, 1, copy), done);
  SHOAL_TRY_GOTO(st, spread(r, s, copy[0], copy[0] + s->store_n, weights), done);
  SHOAL_TRY_GOTO(st, shoal_ist_scale(r->backend, s->plan, false, weights), done);
  /* complete if there is a single part */
  st = shoal_model_scatter_stats(r->backend, r->model, s->part, r->form->params->stats, stats);
done:
  ops->release(r->backend, &room);
  return st;
}

static shoal_status ist_adopt(shoal_run *r, void *state, int array, float *x)
{
  ist_state *s = state;
  float *arena[ARRAYS_MAX];
  arena_of(r, arena);
  if (array >= s->arrays) { /* moments are reset in every round, so in this one too */
    r->form->optim->steps = 0;
    return SHOAL_OK;
  }
  if (array == 0) SHOAL_TRY(shoal_ist_scale(r->backend, s->plan, true, x));
  SHOAL_TRY(shoal_model_gather(r->backend, r->model, s->part, x, arena[array]));
  SHOAL_TRY(shoal_ist_store_read(r->backend, s->plan, s->now, s->view->rank, x, s->store[array]));
  r->form->params->version++;
  return SHOAL_OK;
}

/* ---- checkpoints ---- */

/* Hash of everything that decides the meaning of the saved arrays: homes, dealing, stored arrays. */
static int64_t fingerprint(const ist_state *s)
{
  uint32_t crc = shoal_crc32c(0, s->plan->stage_min, (size_t)s->plan->stages * sizeof(int));
  for (int i = 0; i < s->plan->model->params; i++) {
    int32_t place[] = { (int32_t)s->plan->tensor[i].home, s->plan->tensor[i].block };
    crc = shoal_crc32c(crc, place, sizeof place);
  }
  return (int64_t)crc << 8 | s->arrays << 1 | s->plan->o.stratified;
}

static shoal_status ist_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  ist_state *s = state;
  shoal_ckpt_put_i64(c, "method/plan", fingerprint(s));
  shoal_ckpt_put_i64(c, "method/round", (int64_t)s->round);
  shoal_ckpt_put_i64(c, "method/began", (int64_t)s->began);
  /* With blocks the store is valid only from a collect to the next dispatch. */
  if (!s->plan->o.blocks)
    shoal_ckpt_put_arena_replica(c, r->backend, "store", s->store_n * (size_t)s->arrays, s->store[0]);
  return SHOAL_OK;
}

static bool ist_fits(const shoal_run *r, const void *state, const shoal_ckpt *c)
{
  int64_t plan;
  return shoal_ckpt_has(c, "method/plan") && shoal_ckpt_get_i64(c, "method/plan", &plan) == SHOAL_OK &&
         plan == fingerprint(state);
}

/* The same layout resumes in the middle of its round; another one starts the next round at once. */
static shoal_status ist_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  ist_state *s = state;
  int64_t round = -1, began;
  shoal_model *part;
  char name[64];
  if (shoal_ckpt_has(c, "method/began")) SHOAL_TRY(shoal_ckpt_get_count(c, "method/round", 0, SHOAL_CKPT_MOST, &round));
  s->began = r->step;
  r->meet.next = s->began + s->length;
  s->round = (uint64_t)(round + !same_layout);
  shoal_ist_draw(s->plan, s->round, s->next);
  SHOAL_TRY(shoal_ist_part(s->plan, s->next, s->view->rank, &part));
  SHOAL_TRY(change_part(r, s, part));
  if (!same_layout) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_count(c, "method/began", 0, (int64_t)r->step + 1, &began));
  s->began = (uint64_t)began;
  r->meet.next = s->began + s->length;
  snprintf(name, sizeof name, "replica/%d/store", s->view->rank);
  if (s->plan->o.blocks) return SHOAL_OK;
  return shoal_ckpt_get_arena(c, r->backend, name, s->store_n * (size_t)s->arrays, s->store[0]);
}

const shoal_method shoal_method_ist = {
  .name = "ist",
  .about = "every rank trains a narrow subnet of the network alone; units are dealt again in every round",
  .explanation =
      "For a round of local steps every rank trains a subnet of its own: as deep as the network, but with only a\n"
      "share of the units of each hidden layer (channels of a convolution), dealt again in every round.  Inputs\n"
      "and outputs are not divided.  So a rank stores, computes and sends about 1/n^2 of a hidden-hidden matrix\n"
      "and 1/n of the first and the last; only parameters that belong to no unit, such as the bias of the output,\n"
      "are averaged.  At the end of a round each parameter returns to its home, the rank that stores it, which\n"
      "sends it to the rank that trains it next: two all-to-alls per round.  Residual networks are divided by\n"
      "whole blocks instead (ResIST): a rank skips the blocks it does not have; transformers by heads of attention\n"
      "and units of the two layers behind it, their residual stream whole.  The whole model is assembled for\n"
      "evaluation and checkpoints without ending the round.  Its batch-norm statistics are recomputed on\n"
      "eval.statistics training batches (or eval.batch_norm: batch).  A layer that reads dealt units and has no\n"
      "norm after it is scaled by 1/n, because the whole network has n times as many units.  Every rank has its\n"
      "own samples, selected by data.shards; data.batch is the batch of a subnet.",
  .source = "Yuan et al., Distributed Learning of Fully Connected Neural Networks using Independent Subnet Training, "
            "PVLDB 15(8), 2022; Dun et al., ResIST, UAI 2022",
  .memory = "the subnets of the round, and their optimizer state",
  .options = options,
  .state_size = sizeof(ist_state),
  .trains = SHOAL_TRAINS_PARTS,
  .share = SHOAL_SHARE_STRIDED,
  .measures_stats = true,
  .outline = ist_outline,
  .check = ist_check,
  .open = ist_open,
  .close = ist_close,
  .weights_ready = ist_weights_ready,
  .assemble = ist_assemble,
  .adopt = ist_adopt,
  .save = ist_save,
  .fits = ist_fits,
  .load = ist_load,
};
