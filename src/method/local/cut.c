/* Maps layers to ranks: the network into blocks, blocks into stages, stages onto ranks.
 *
 * Block boundaries come from the run file (method.cut), or from the checkpoint to resume from, because heads are at the
 * ends of blocks; otherwise blocks have about equal cost, counted from the network's shapes or measured on rank 0.
 * Every rank computes the same result; only the measurement is broadcast. */
#include "base/log.h"
#include "base/mem.h"
#include "method/local/local.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------ the blocks */

static shoal_local_form wanted_form(const shoal_config *c)
{
  const char *name = shoal_config_string(c, "method.form");
  return strcmp(name, "greedy") == 0        ? SHOAL_LOCAL_GREEDY
         : strcmp(name, "overlapping") == 0 ? SHOAL_LOCAL_OVERLAPPING
                                            : SHOAL_LOCAL_CHUNKED;
}

shoal_status shoal_local_check(const shoal_config *c)
{
  const int64_t *cut;
  bool cuts = shoal_config_ints(c, "method.cut", &cut) > 0;
  SHOAL_CHECK(!cuts || shoal_config_int(c, "method.chunks") == 0, SHOAL_ERR_USAGE,
              "method.chunks and method.cut are both set: keep one of them");
  SHOAL_CHECK(
      wanted_form(c) != SHOAL_LOCAL_OVERLAPPING || shoal_config_int(c, "method.replay") == 0, SHOAL_ERR_USAGE,
      "method.replay needs blocks that share nothing: set method.form to chunked or greedy, or method.replay to 0");
  SHOAL_CHECK(shoal_config_int(c, "method.max_uses") != 1, SHOAL_ERR_USAGE,
              "method.max_uses is 1, which allows no use at all; choose 2 for one use, or 0 for no limit");
  return SHOAL_OK;
}

/* Costs of all layers; a measurement of rank 0 is broadcast.  Collective if measured. */
static shoal_status find_costs(shoal_run *r, shoal_head head, int layers, int chunks, double *cost, double *heads)
{
  if (strcmp(shoal_config_string(r->config, "method.balance"), "measured") != 0)
    return shoal_local_count(r->model, head, r->global_batch, cost, heads); /* independent of a rank's share */
  shoal_local_grid grid;
  uint64_t first, own;
  SHOAL_TRY(shoal_local_arrange(shoal_group_size(r->all), chunks, (int)shoal_config_int(r->config, "method.replicas"),
                                &grid));
  shoal_share_of(r->global_batch, 0, grid.replicas, &first, &own);
  shoal_status st = SHOAL_OK;
  if (shoal_group_rank(r->control) == 0)
    st = shoal_local_measure(r->backend, r->model, head, (int64_t)SHOAL_MAX(own, 2), cost, heads);
  SHOAL_TRY(shoal_group_agree(r->control, st));
  SHOAL_TRY(shoal_group_broadcast(r->control, cost, (size_t)layers * sizeof *cost, 0));
  return shoal_group_broadcast(r->control, heads, (size_t)layers * sizeof *heads, 0);
}

/* "cut: [3, 7]", so that a measured cut can be repeated by hand. */
static void report_cut(const shoal_run *r, const int *bounds, int chunks)
{
  shoal_str text = { 0 };
  for (int k = 1; k < chunks; k++) shoal_str_add(&text, "%s%d", k > 1 ? ", " : "", bounds[k]);
  if (chunks > 1)
    shoal_info("chunks by %s cost; the same again: method.cut [%s]", shoal_config_string(r->config, "method.balance"),
               text.text);
  shoal_str_free(&text);
}

/* @param cost  out, [2 * layers] of layers, then of heads */
static shoal_status balance(shoal_run *r, shoal_head head, int layers, int chunks, double *cost, int *bounds)
{
  SHOAL_TRY(find_costs(r, head, layers, chunks, cost, cost + layers));
  SHOAL_TRY(shoal_local_cut(layers, cost, cost + layers, chunks, bounds));
  report_cut(r, bounds, chunks);
  return SHOAL_OK;
}

/* Sets the parts' costs to those counted or measured for their layers, if any. */
static void set_costs(shoal_local_parts *p, int layers, const double *cost)
{
  for (int k = 0; k < p->n; k++) {
    int last = SHOAL_MIN(p->part[k].units.last, layers);
    double sum = cost[layers + last - 1];
    for (int l = p->part[k].units.first; l < last; l++) sum += cost[l];
    if (sum > 0) p->part[k].cost = sum;
  }
}

/* The block boundaries given in the run file. */
static shoal_status given_bounds(const int64_t *cut, int n, int layers, int *bounds)
{
  bounds[0] = 0;
  for (int k = 0; k < n; k++) {
    SHOAL_CHECK(cut[k] > bounds[k] && cut[k] < layers, SHOAL_ERR_USAGE,
                "method.cut: unit %lld; units must rise from 1 to %d, the last layer", (long long)cut[k], layers - 1);
    bounds[k + 1] = (int)cut[k];
  }
  bounds[n + 1] = layers;
  return SHOAL_OK;
}

static shoal_status choose_bounds(shoal_run *r, shoal_head head, double *cost, int *bounds, int *chunks)
{
  int ranks = shoal_group_size(r->all), layers = shoal_local_layers(r->model->units);
  const int64_t *cut;
  int replicas = (int)shoal_config_int(r->config, "method.replicas");
  size_t n = shoal_config_ints(r->config, "method.cut", &cut);
  SHOAL_CHECK(n < (size_t)layers, SHOAL_ERR_USAGE, "method.cut names %zu units, but %s has %d layers: name %d at most",
              n, r->model->name, layers, layers - 1);
  *chunks = n ? (int)n + 1 : (int)shoal_config_int(r->config, "method.chunks");
  if (n) return given_bounds(cut, (int)n, layers, bounds);
  SHOAL_CHECK(*chunks <= layers, SHOAL_ERR_USAGE, "method.chunks is %d, but %s has %d layers; choose 1 to %d", *chunks,
              r->model->name, layers, layers);
  if (*chunks == 0)
    *chunks = replicas ? SHOAL_MIN(SHOAL_MAX(ranks / replicas, 1), layers) : shoal_local_auto_chunks(ranks, layers);
  return balance(r, head, layers, *chunks, cost, bounds);
}

/* Unless the run file says otherwise, a run keeps its blocks on any number of ranks.  With measured costs, an unchanged
 * number of chunks does not ask for a new cut: a second measurement could give other boundaries. */
static bool may_keep(const shoal_run *r, const shoal_local_parts *old, shoal_local_form form, shoal_head head)
{
  const int64_t *cut, chunks = shoal_config_int(r->config, "method.chunks");
  bool measured = strcmp(shoal_config_string(r->config, "method.balance"), "measured") == 0;
  return old && old->form == form && old->head == head && (chunks == 0 || (measured && chunks == old->n)) &&
         shoal_config_ints(r->config, "method.cut", &cut) == 0;
}

static shoal_status make_parts(shoal_run *r, shoal_local *s)
{
  shoal_local_form form = wanted_form(r->config);
  shoal_head head = shoal_head_from_name(shoal_config_string(r->config, "method.head"));
  int layers = shoal_local_layers(r->model->units), chunks = 0, *bounds;
  shoal_local_block *blocks = NULL;
  double *cost = NULL;
  shoal_status st;
  SHOAL_TRY(shoal_local_read_parts(r, r->from, &s->parts));
  if (may_keep(r, s->parts, form, head)) return SHOAL_OK;
  shoal_local_parts_destroy(s->parts);
  s->parts = NULL;
  SHOAL_TRY(SHOAL_ALLOC((size_t)layers + 1, &bounds));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)layers, &blocks), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(2 * (size_t)layers, &cost), done);
  if (form == SHOAL_LOCAL_CHUNKED) SHOAL_TRY_GOTO(st, choose_bounds(r, head, cost, bounds, &chunks), done);
  int n = shoal_local_blocks(form, r->model->units, bounds, chunks, blocks);
  st = shoal_local_parts_create(r->model, form, head, r->global_batch, blocks, n, &s->parts);
  if (st == SHOAL_OK && form == SHOAL_LOCAL_CHUNKED) set_costs(s->parts, layers, cost);
done:
  free(cost);
  free(bounds);
  free(blocks);
  return st;
}

/* ------------------------------------------------------------------------------------------------------- the grid */

/* Compares bytes per step: of a pipeline over its boundaries, and of a rank to sum its gradients. */
static bool pipeline_inside(const shoal_run *r, const shoal_local_parts *p, const shoal_local_grid *g)
{
  uint64_t sent = 0, largest = 0;
  for (int k = 0; k + 1 < p->n; k++)
    sent += shoal_local_message_bytes(r->global_batch / (uint64_t)g->replicas, p->part[k].elements,
                                      (uint64_t)shoal_model_labels(r->model));
  for (int k = 0; k < p->n; k++) largest = SHOAL_MAX(largest, p->part[k].model->weights);
  uint64_t n = (uint64_t)g->replicas;
  return shoal_local_pipeline_inside(sent, n > 1 ? 2 * (n - 1) * largest * sizeof(float) / n : 0);
}

static shoal_status make_grid(shoal_run *r, shoal_local *s)
{
  shoal_local_grid g;
  int ranks = shoal_group_size(r->all), replicas = (int)shoal_config_int(r->config, "method.replicas");
  shoal_local_parts *p = s->parts;
  SHOAL_TRY(shoal_local_arrange(ranks, p->n, replicas, &g));
  if (!p->stage_first || p->grid.stages != g.stages || p->grid.replicas != g.replicas) {
    g.pipeline_inside = pipeline_inside(r, p, &g);
    SHOAL_TRY(shoal_local_deal(p, &g));
  }
  s->rank = shoal_group_rank(r->all);
  s->stage = shoal_local_stage(&p->grid, s->rank);
  s->replica = shoal_local_replica(&p->grid, s->rank);
  s->n = p->stage_first[s->stage + 1] - p->stage_first[s->stage];
  r->share_rank = s->replica;
  r->share_size = p->grid.replicas;
  r->reads_none = s->stage > 0;
  return SHOAL_OK;
}

shoal_status shoal_local_outline(shoal_run *r, void *state, shoal_outline *out)
{
  shoal_local *s = state;
  size_t *at = NULL;
  SHOAL_TRY(make_parts(r, s));
  SHOAL_TRY(make_grid(r, s));
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->n, &s->block));
  SHOAL_TRY(SHOAL_ALLOC(2 * (size_t)s->n, &at));
  shoal_status st = shoal_local_join(s->parts, s->stage, at, at + s->n, &s->arena);
  for (int i = 0; i < s->n; i++) {
    int number = s->parts->stage_first[s->stage] + i;
    s->block[i] = (shoal_local_trained){
      .part = &s->parts->part[number], .number = number, .at = at[i], .stats_at = at[s->n + i]
    };
  }
  free(at);
  out->model = s->arena;
  return st;
}
