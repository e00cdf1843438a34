/* Evaluation and checkpoints of `local`: the model is the chain of blocks, the last of which ends in the network's
 * classifier; the other blocks' heads are scored as well.  Nothing of this changes the training state.
 *
 * For evaluation every rank gets the weights of all blocks, by one broadcast from the first replica of each stage;
 * batch-norm statistics are the mean over the replicas.  With overlapping blocks a layer is taken from the block that
 * has it as its lower one (both copies are equal).
 *
 * A checkpoint holds each rank's arena, as usual, and how the network was cut:
 *
 *     method/blocks   first and last unit of every block        method/stages   which blocks a stage holds
 *     method/grid     stages, replicas, order of ranks          method/form, method/head
 *
 * Another layout or cut takes the network's weights from /model, and from the old blocks the optimizer's state and
 * every head of the same kind after the same unit.  With the same blocks nothing is lost. */
#include "base/log.h"
#include "base/mem.h"
#include "method/common/average.h"
#include "method/local/local.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- evaluation ---- */

void shoal_local_forget(shoal_run *r, shoal_local *s)
{
  for (int k = 0; k < s->parts->n; k++) {
    if (s->whole) shoal_params_destroy(r->backend, s->whole[k]);
    if (s->plans) shoal_plans_destroy(s->plans[k]);
  }
  free(s->whole);
  free(s->plans);
  for (int i = 0; i < 2; i++) r->backend->ops->release(r->backend, &s->passed[i]);
  s->whole = NULL;
  s->plans = NULL;
}

static shoal_status make_room(shoal_run *r, shoal_local *s)
{
  size_t n = (size_t)s->parts->n;
  SHOAL_TRY(SHOAL_ALLOC(n, &s->whole));
  for (size_t k = 0; k < n; k++)
    SHOAL_TRY(shoal_params_create_forward(r->backend, s->parts->part[k].model, &s->whole[k]));
  return SHOAL_OK;
}

/* This rank's copy of a part, or NULL. */
static const shoal_local_trained *own_block(const shoal_local *s, int part)
{
  for (int i = 0; i < s->n; i++)
    if (s->block[i].number == part) return &s->block[i];
  return NULL;
}

/* Statistics of a part: the mean over its replicas, a plain copy if there is one.  Collective. */
static shoal_status gather_stats(shoal_run *r, const shoal_local *s, int part, shoal_params *out)
{
  const shoal_local_grid *g = &s->parts->grid;
  const shoal_local_trained *own = own_block(s, part);
  const shoal_model *m = s->parts->part[part].model;
  if (out->n_stats == 0) return SHOAL_OK;
  if (own)
    SHOAL_TRY(r->backend->ops->copy(r->backend, out->n_stats * sizeof *out->stats, own->params.stats, out->stats));
  if (g->replicas == 1) {
    int root = shoal_local_rank(g, shoal_local_stage_of(s->parts, part), 0);
    return shoal_broadcast_arena(r->backend, r->control, out->stats, out->n_stats, root);
  }
  double *sum;
  shoal_window w;
  SHOAL_TRY(SHOAL_ALLOC(out->n_stats, &sum));
  shoal_status st = shoal_window_open(r->backend, SHOAL_WINDOW_BOTH, out->n_stats, out->stats, &w);
  if (st == SHOAL_OK && own) shoal_moments_add(m, w.at, sum);
  if (st == SHOAL_OK) st = shoal_group_sum_f64(r->control, sum, out->n_stats);
  if (st == SHOAL_OK) shoal_moments_mean(m, sum, g->replicas, w.at);
  if (st == SHOAL_OK) st = shoal_window_close(r->backend, &w);
  shoal_window_drop(&w);
  free(sum);
  return st;
}

static shoal_status gather_part(shoal_run *r, const shoal_local *s, int part)
{
  const shoal_local_trained *own = own_block(s, part);
  shoal_params *p = s->whole[part];
  int root = shoal_local_rank(&s->parts->grid, shoal_local_stage_of(s->parts, part), 0);
  if (own) SHOAL_TRY(r->backend->ops->copy(r->backend, p->n * sizeof *p->w, own->params.w, p->w));
  SHOAL_TRY(shoal_broadcast_arena(r->backend, r->control, p->w, p->n, root));
  p->version++;
  return gather_stats(r, s, part, p);
}

shoal_status shoal_local_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  shoal_local *s = state;
  shoal_local_forget(r, s);
  /* The last send is recorded before an evaluation or a checkpoint takes its time. */
  SHOAL_TRY(shoal_local_feed_drain(s->feed));
  SHOAL_TRY(shoal_group_agree(r->control, make_room(r, s)));
  for (int k = 0; k < s->parts->n; k++) {
    SHOAL_TRY(gather_part(r, s, k));
    SHOAL_TRY(shoal_model_scatter(r->backend, r->model, s->parts->part[k].model, s->whole[k]->w, weights));
    SHOAL_TRY(shoal_model_scatter_stats(r->backend, r->model, s->parts->part[k].model, s->whole[k]->stats, stats));
  }
  return SHOAL_OK;
}

/* ---- scores of all heads ---- */

static shoal_status open_observation(shoal_run *r, shoal_local *s, int64_t batch)
{
  size_t most = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->parts->n, &s->plans));
  for (int k = 0; k < s->parts->n; k++) {
    SHOAL_TRY(shoal_plans_create(r->backend, s->parts->part[k].model, &s->plans[k]));
    most = SHOAL_MAX(most, s->parts->part[k].elements);
  }
  s->observed = 0;
  for (int i = 0; i < 2; i++)
    SHOAL_TRY(
        r->backend->ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, (size_t)batch * most * sizeof(float), &s->passed[i]));
  return SHOAL_OK;
}

/* One forward pass through all blocks, each of which ends in its own logits. */
static shoal_status score_heads(const shoal_run *r, shoal_local *s, const shoal_batch *b, double *values)
{
  const float *x;
  shoal_address at = { .seed = r->seed };
  SHOAL_TRY(shoal_batch_input(r, b, &x));
  for (int k = 0; k < s->parts->n; k++) {
    const shoal_local_part *p = &s->parts->part[k];
    shoal_score score = { 0 };
    shoal_plan *plan;
    SHOAL_TRY(shoal_plans_get(s->plans[k], b->n, r->eval_mode, &plan));
    SHOAL_TRY(shoal_plan_forward(plan, s->whole[k], &at, x, b->y, 0, &score));
    values[k] += r->model->loss == SHOAL_LOSS_CLASSES ? (double)score.correct : score.loss;
    if (p->out_node < 0) continue;
    SHOAL_TRY(shoal_plan_output(plan, p->out_node, s->passed[k % 2].at));
    x = s->passed[k % 2].at;
  }
  s->observed += (double)(b->n * shoal_model_rows(r->model));
  return SHOAL_OK;
}

/* Over all stages: uses per arrived minibatch, mean age of used ones, shares overwritten unused and never sent. */
static void rate(const double *sum, double *values)
{
  double used = sum[0], arrived = sum[1], unused = sum[2], left_out = sum[3], ages = sum[4];
  values[0] = arrived > 0 ? used / arrived : 0;
  values[1] = used > 0 ? ages / used : 0;
  values[2] = arrived > 0 ? unused / arrived : 0;
  values[3] = left_out / SHOAL_MAX(arrived + left_out, 1);
}

shoal_status shoal_local_observe(shoal_run *r, void *state, const shoal_batch *b, double *values)
{
  shoal_local *s = state;
  if (b) {
    if (!s->plans) SHOAL_TRY(open_observation(r, s, b->n));
    return score_heads(r, s, b, values);
  }
  double sums[SHOAL_LOCAL_TALLY + 1];
  int heads = s->parts->n;
  sums[SHOAL_LOCAL_TALLY] = s->observed;
  shoal_local_feed_tally(s->feed, sums);
  SHOAL_TRY(shoal_group_sum_f64(r->control, values, (size_t)heads));
  SHOAL_TRY(shoal_group_sum_f64(r->control, sums, SHOAL_COUNT(sums)));
  for (int k = 0; k < heads; k++) values[k] /= sums[SHOAL_LOCAL_TALLY];
  if (s->n_columns > (size_t)heads) rate(sums, values + heads);
  s->observed = 0;
  shoal_local_forget(r, s);
  return SHOAL_OK;
}

/* ---- checkpoints ---- */

shoal_status shoal_local_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  shoal_local *s = state;
  const shoal_local_parts *p = s->parts;
  int32_t *blocks, *stages, grid[] = { p->grid.stages, p->grid.replicas, p->grid.pipeline_inside };
  uint64_t n_stages = (uint64_t)p->grid.stages + 1, two[] = { (uint64_t)p->n, 2 };
  shoal_local_forget(r, s);
  SHOAL_TRY(SHOAL_ALLOC(2 * (size_t)p->n + (size_t)n_stages, &blocks));
  stages = blocks + 2 * p->n;
  for (int k = 0; k < p->n; k++) {
    blocks[2 * k] = p->part[k].units.first;
    blocks[2 * k + 1] = p->part[k].units.last;
  }
  for (uint64_t i = 0; i < n_stages; i++) stages[i] = p->stage_first[i];
  shoal_ckpt_put(c, "method/blocks", SHOAL_I32, 2, two, blocks);
  shoal_ckpt_put(c, "method/stages", SHOAL_I32, 1, &n_stages, stages);
  shoal_ckpt_put(c, "method/grid", SHOAL_I32, 1, (uint64_t[]){ SHOAL_COUNT(grid) }, grid);
  shoal_ckpt_put_i64(c, "method/form", p->form);
  shoal_ckpt_put_i64(c, "method/head", p->head);
  free(blocks);
  return SHOAL_OK;
}

typedef struct {
  int64_t form, head;
  int n;
  uint64_t bounds;                   /* elements of `stages` */
  int32_t grid[3], *blocks, *stages; /* owned */
} saved;

static shoal_status length_of(const shoal_ckpt *c, const char *name, uint64_t *n)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  *n = ndim > 0 ? dims[0] : 0;
  return SHOAL_OK;
}

static shoal_status read_saved(const shoal_ckpt *c, saved *out)
{
  uint64_t n;
  SHOAL_TRY(shoal_ckpt_get_i64(c, "method/form", &out->form));
  SHOAL_TRY(shoal_ckpt_get_i64(c, "method/head", &out->head));
  SHOAL_TRY(shoal_ckpt_get(c, "method/grid", SHOAL_I32, SHOAL_COUNT(out->grid), out->grid));
  SHOAL_TRY(length_of(c, "method/blocks", &n));
  SHOAL_TRY(length_of(c, "method/stages", &out->bounds));
  SHOAL_CHECK(n <= INT32_MAX / 2, SHOAL_ERR_IO, "method/blocks of the checkpoint lists %llu blocks",
              (unsigned long long)n);
  SHOAL_TRY(SHOAL_ALLOC(2 * n, &out->blocks));
  SHOAL_TRY(SHOAL_ALLOC(out->bounds, &out->stages));
  out->n = (int)n;
  SHOAL_TRY(shoal_ckpt_get(c, "method/blocks", SHOAL_I32, 2 * n, out->blocks));
  return shoal_ckpt_get(c, "method/stages", SHOAL_I32, out->bounds, out->stages);
}

/* Range check of indices read from a file. */
static bool plausible(const saved *v, const shoal_model *m, uint64_t ranks)
{
  bool good = v->n >= 1 && v->n <= m->units && v->form >= SHOAL_LOCAL_CHUNKED && v->form <= SHOAL_LOCAL_OVERLAPPING &&
              v->head >= 0 && v->head < SHOAL_HEADS && v->grid[0] >= 1 && v->grid[0] <= v->n && v->grid[1] >= 1 &&
              v->bounds == (uint64_t)v->grid[0] + 1 && (uint64_t)v->grid[0] * (uint64_t)v->grid[1] == ranks;
  for (int k = 0; good && k < v->n; k++)
    good = v->blocks[2 * k] >= 0 && v->blocks[2 * k] < v->blocks[2 * k + 1] && v->blocks[2 * k + 1] <= m->units;
  for (int i = 0; good && i < v->grid[0]; i++) good = v->stages[i] < v->stages[i + 1];
  return good && v->stages[0] == 0 && v->stages[v->grid[0]] == v->n && v->blocks[2 * v->n - 1] == m->units;
}

static shoal_status rebuild(const shoal_run *r, const saved *v, shoal_local_parts **out)
{
  shoal_local_block *blocks;
  shoal_local_parts *p;
  SHOAL_TRY(SHOAL_ALLOC((size_t)v->n, &blocks));
  for (int k = 0; k < v->n; k++) blocks[k] = (shoal_local_block){ v->blocks[2 * k], v->blocks[2 * k + 1] };
  shoal_status st = shoal_local_parts_create(r->model, (shoal_local_form)v->form, (shoal_head)v->head, r->global_batch,
                                             blocks, v->n, &p);
  free(blocks);
  SHOAL_TRY(st);
  st = shoal_local_deal(p, &(shoal_local_grid){ v->grid[0], v->grid[1], v->grid[2] != 0 });
  for (int i = 0; st == SHOAL_OK && i <= v->grid[0]; i++) p->stage_first[i] = v->stages[i];
  if (st == SHOAL_OK)
    *out = p;
  else
    shoal_local_parts_destroy(p);
  return st;
}

shoal_status shoal_local_read_parts(const shoal_run *r, const shoal_ckpt *c, shoal_local_parts **out)
{
  const shoal_model *m = r->model;
  const shoal_ckpt_info *info = c ? shoal_ckpt_get_info(c) : NULL;
  *out = NULL;
  if (!info || strcmp(info->method, "local") != 0 || strcmp(info->model, m->name) != 0) return SHOAL_OK;
  saved v = { 0 };
  shoal_status st = read_saved(c, &v);
  if (st == SHOAL_OK && plausible(&v, m, (uint64_t)info->size)) st = rebuild(r, &v, out);
  free(v.blocks);
  free(v.stages);
  return st;
}

static bool same_parts(const shoal_local_parts *a, const shoal_local_parts *b)
{
  bool same = a->form == b->form && a->head == b->head && a->n == b->n && a->grid.stages == b->grid.stages &&
              a->grid.replicas == b->grid.replicas && a->grid.pipeline_inside == b->grid.pipeline_inside;
  for (int k = 0; same && k < a->n; k++)
    same = a->part[k].units.first == b->part[k].units.first && a->part[k].units.last == b->part[k].units.last;
  for (int i = 0; same && i <= a->grid.stages; i++) same = a->stage_first[i] == b->stage_first[i];
  return same;
}

bool shoal_local_fits(const shoal_run *r, const void *state, const shoal_ckpt *c)
{
  const shoal_local *s = state;
  shoal_local_parts *old;
  if (shoal_local_read_parts(r, c, &old) != SHOAL_OK || !old) return false;
  bool same = same_parts(old, s->parts);
  shoal_local_parts_destroy(old);
  return same;
}

/* ---- another layout or cut ---- */

/* Moves one stage's arrays of an old checkpoint into this rank's blocks. */
typedef struct {
  shoal_run *r;
  shoal_local *s;
  const shoal_ckpt *c;
  const shoal_local_parts *old;
  shoal_memory full; /* float [model->weights], one assembled optimizer slot; or none */
} moving;

static shoal_status read_array(const moving *v, int rank, const char *what, size_t n, float *out)
{
  char name[64];
  snprintf(name, sizeof name, "replica/%d/%s", rank, what);
  return shoal_ckpt_get_arena(v->c, v->r->backend, name, n, out);
}

/* Whether both parts have a head of the same kind after the same unit; not the network's classifier. */
static bool same_head(const shoal_local_part *a, const shoal_local_part *b)
{
  return a->units.last == b->units.last && a->head == b->head && a->head_weights == b->head_weights &&
         a->head_weights > 0;
}

/* This rank's block that takes over the head of the old part, or NULL. */
static const shoal_local_trained *heir(const moving *v, const shoal_local_part *old)
{
  for (int i = 0; i < v->s->n; i++)
    if (same_head(v->s->block[i].part, old)) return &v->s->block[i];
  return NULL;
}

/* Copies an old part: the network's elements into `full` (if any), the head's to its heir. */
static shoal_status hand_over(const moving *v, const shoal_local_part *old, const float *from, float *to)
{
  const shoal_local_trained *b = heir(v, old);
  shoal_backend *backend = v->r->backend;
  if (v->full.at) SHOAL_TRY(shoal_model_scatter(backend, v->r->model, old->model, from, v->full.at));
  if (!b) return SHOAL_OK;
  return backend->ops->copy(backend, old->head_weights * sizeof *to, from + old->model->weights - old->head_weights,
                            to + b->at + b->part->model->weights - b->part->head_weights);
}

/* Mean of the statistics of a stage's replicas, into `out` [arena->stats]. */
static shoal_status mean_of_replicas(const moving *v, int stage, const shoal_model *arena, float *out)
{
  const shoal_local_grid *g = &v->old->grid;
  double *sum;
  shoal_window w;
  if (g->replicas == 1) return read_array(v, shoal_local_rank(g, stage, 0), "stats", arena->stats, out);
  SHOAL_TRY(SHOAL_ALLOC(arena->stats, &sum));
  shoal_status st = SHOAL_OK;
  for (int i = 0; st == SHOAL_OK && i < g->replicas; i++) {
    st = read_array(v, shoal_local_rank(g, stage, i), "stats", arena->stats, out);
    if (st == SHOAL_OK) st = shoal_window_open(v->r->backend, SHOAL_WINDOW_READ, arena->stats, out, &w);
    if (st != SHOAL_OK) break;
    shoal_moments_add(arena, w.at, sum);
    shoal_window_drop(&w);
  }
  if (st == SHOAL_OK) st = shoal_window_open(v->r->backend, SHOAL_WINDOW_BOTH, arena->stats, out, &w);
  if (st == SHOAL_OK) {
    shoal_moments_mean(arena, sum, g->replicas, w.at);
    st = shoal_window_close(v->r->backend, &w);
  }
  free(sum);
  return st;
}

/* Copies statistics of heads; those of the network come from /model. */
static shoal_status hand_over_stats(const moving *v, const shoal_local_part *old, const float *from)
{
  const shoal_local_trained *b = heir(v, old);
  shoal_backend *backend = v->r->backend;
  if (!b) return SHOAL_OK;
  return backend->ops->copy(backend, old->head_stats * sizeof *from, from + old->model->stats - old->head_stats,
                            b->params.stats + b->part->model->stats - old->head_stats);
}

/* Moves one stage, part by part: array `what` of its first replica into `to`; with `to` NULL, the statistics of all. */
static shoal_status move_stage(const moving *v, int stage, const char *what, float *to)
{
  int first = v->old->stage_first[stage], n = v->old->stage_first[stage + 1] - first;
  size_t *at, size;
  shoal_memory from = { 0 };
  shoal_backend *backend = v->r->backend;
  shoal_model *arena = NULL;
  shoal_status st;
  SHOAL_TRY(SHOAL_ALLOC(2 * (size_t)n, &at));
  SHOAL_TRY_GOTO(st, shoal_local_join(v->old, stage, at, at + n, &arena), done);
  size = to ? arena->weights : arena->stats;
  if (size == 0) goto done;
  SHOAL_TRY_GOTO(st, backend->ops->alloc(backend, SHOAL_MEMORY_DEVICE, size * sizeof(float), &from), done);
  st = to ? read_array(v, shoal_local_rank(&v->old->grid, stage, 0), what, size, from.at)
          : mean_of_replicas(v, stage, arena, from.at);
  for (int i = 0; st == SHOAL_OK && i < n; i++) {
    const shoal_local_part *old = &v->old->part[first + i];
    const float *array = from.at;
    st = to ? hand_over(v, old, array + at[i], to) : hand_over_stats(v, old, array + at[n + i]);
  }
done:
  shoal_model_destroy(arena);
  backend->ops->release(backend, &from);
  free(at);
  return st;
}

static bool has_slot(const moving *v, const char *slot)
{
  char name[64];
  snprintf(name, sizeof name, "replica/0/%s", slot);
  return shoal_ckpt_has(v->c, name);
}

/* Assembles the network's optimizer state from the old blocks, then cuts it again. */
static shoal_status move_optimizer(moving *v)
{
  shoal_run *r = v->r;
  int64_t steps;
  for (int i = 0; i < r->form->optim->slots; i++)
    if (!has_slot(v, shoal_optim_slot_name(r->form->optim, i))) return SHOAL_OK; /* another optimizer */
  SHOAL_TRY(r->backend->ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, r->model->weights * sizeof(float), &v->full));
  for (int i = 0; i < r->form->optim->slots; i++) {
    for (int stage = 0; stage < v->old->grid.stages; stage++)
      SHOAL_TRY(move_stage(v, stage, shoal_optim_slot_name(r->form->optim, i), r->form->optim->slot[i]));
    SHOAL_TRY(shoal_model_gather(r->backend, r->model, r->form->model, v->full.at, r->form->optim->slot[i]));
  }
  SHOAL_TRY(shoal_ckpt_get_count(v->c, "train/optimizer_steps", 0, SHOAL_CKPT_MOST, &steps));
  r->form->optim->steps = (uint64_t)steps;
  return SHOAL_OK;
}

static shoal_status move_all(moving *v)
{
  for (int stage = 0; stage < v->old->grid.stages; stage++) {
    SHOAL_TRY(move_stage(v, stage, "weights", v->r->form->params->w));
    SHOAL_TRY(move_stage(v, stage, NULL, NULL));
  }
  return move_optimizer(v);
}

static void report_heads(const shoal_local *s, const shoal_local_parts *old)
{
  int heads = 0, kept = 0;
  for (int k = 0; k < s->parts->n; k++) {
    const shoal_local_part *p = &s->parts->part[k];
    heads += p->head_weights > 0;
    for (int i = 0; old && i < old->n; i++) kept += same_head(p, &old->part[i]);
  }
  if (heads) shoal_info("of the %d heads %d are kept, %d are initialised", heads, kept, heads - kept);
}

shoal_status shoal_local_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  shoal_local *s = state;
  shoal_local_parts *old;
  if (same_layout) return SHOAL_OK;
  SHOAL_TRY(shoal_local_read_parts(r, c, &old));
  report_heads(s, old);
  if (!old) return SHOAL_OK;
  moving v = { .r = r, .s = s, .c = c, .old = old };
  shoal_status st = move_all(&v);
  r->backend->ops->release(r->backend, &v.full);
  shoal_local_parts_destroy(old);
  return st;
}

shoal_status shoal_local_adopt(shoal_run *r, void *state, int array, float *x)
{
  (void)state;
  float *to = array == 0 ? r->form->params->w : r->form->optim->slot[array - 1];
  SHOAL_TRY(shoal_model_gather(r->backend, r->model, r->form->model, x, to));
  r->form->params->version++;
  return SHOAL_OK;
}
