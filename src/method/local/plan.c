/* See plan.h.  The cut is dynamic programming: the best cut of the first i layers into k chunks ends with some
 * chunk [j, i) after the best cut of the first j layers into k - 1. */
#include "method/local/plan.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>

/* ---- blocks ---- */

int shoal_local_layers(int units)
{
  return units > 1 ? units - 1 : units;
}

typedef struct {
  int layers, chunks;
  const double *head;
  double *before; /* [layers + 1] cost of the layers before this one */
  double *best;   /* [(chunks + 1) * (layers + 1)] most expensive chunk of the best cut of layers [from, end) into k */
} cutting;

static double chunk_cost(const cutting *c, int from, int to)
{
  return c->before[to] - c->before[from] + (c->head ? c->head[to - 1] : 0);
}

/* Filled from the end, so that a forward pass can choose the longest first chunk. */
static void fill_best(cutting *c)
{
  int n = c->layers;
  for (int k = 0; k <= c->chunks; k++)
    for (int from = n; from >= 0; from--) {
      double *best = &c->best[k * (n + 1) + from];
      *best = k == 0 && from == n ? 0 : INFINITY;
      for (int to = from + 1; k > 0 && to <= n; to++)
        *best = fmin(*best, fmax(chunk_cost(c, from, to), c->best[(k - 1) * (n + 1) + to]));
    }
}

static void walk_best(const cutting *c, int *bounds)
{
  int n = c->layers, from = 0;
  double limit = c->best[c->chunks * (n + 1)];
  bounds[0] = 0;
  for (int k = c->chunks; k > 0; k--) {
    int to = n;
    while (chunk_cost(c, from, to) > limit || c->best[(k - 1) * (n + 1) + to] > limit) to--;
    bounds[c->chunks - k + 1] = from = to;
  }
}

shoal_status shoal_local_cut(int layers, const double *cost, const double *head, int chunks, int *bounds)
{
  SHOAL_CHECK(chunks >= 1 && chunks <= layers, SHOAL_ERR_ARG,
              "%d chunks of a model with %d layers; choose 1 to %d, or a deeper model", chunks, layers, layers);
  cutting c = { .layers = layers, .chunks = chunks, .head = head };
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)layers + 1, &c.before), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)(layers + 1) * (size_t)(chunks + 1), &c.best), done);
  for (int i = 0; i < layers; i++) c.before[i + 1] = c.before[i] + cost[i];
  fill_best(&c);
  walk_best(&c, bounds);
done:
  free(c.before);
  free(c.best);
  return st;
}

int shoal_local_blocks(shoal_local_form form, int units, const int *bounds, int chunks, shoal_local_block *out)
{
  int layers = shoal_local_layers(units), n = 0;
  if (form == SHOAL_LOCAL_CHUNKED)
    for (; n < chunks; n++) out[n] = (shoal_local_block){ bounds[n], bounds[n + 1] };
  if (form == SHOAL_LOCAL_GREEDY)
    for (; n < layers; n++) out[n] = (shoal_local_block){ n, n + 1 };
  if (form == SHOAL_LOCAL_OVERLAPPING) {
    for (; n + 1 < layers; n++) out[n] = (shoal_local_block){ n, n + 2 };
    if (n == 0) out[n++] = (shoal_local_block){ 0, 1 };
  }
  out[n - 1].last = units; /* includes the classifier */
  return n;
}

/* ---- ranks ---- */

int shoal_local_auto_chunks(int ranks, int layers)
{
  enum { FEW = 4 }; /* many local losses cost accuracy */
  for (int n = SHOAL_MIN(FEW, layers); n > 1; n--)
    if (ranks % n == 0) return n;
  for (int n = FEW + 1; n <= SHOAL_MIN(layers, ranks); n++)
    if (ranks % n == 0) return n;
  return 1;
}

shoal_status shoal_local_arrange(int ranks, int blocks, int replicas, shoal_local_grid *out)
{
  int stages = SHOAL_MIN(ranks, blocks);
  if (replicas > 0) {
    SHOAL_CHECK(ranks % replicas == 0, SHOAL_ERR_ARG,
                "method.replicas is %d, which does not divide %d ranks; choose a divisor, or 0 for automatic", replicas,
                ranks);
    stages = ranks / replicas;
    SHOAL_CHECK(
        stages <= blocks, SHOAL_ERR_ARG,
        "%d ranks with method.replicas %d make %d stages, but there %s %d block%s to train: raise method.replicas "
        "or method.chunks, or use fewer ranks",
        ranks, replicas, stages, blocks == 1 ? "is" : "are", blocks, blocks == 1 ? "" : "s");
  }
  while (ranks % stages) stages--;
  *out = (shoal_local_grid){ stages, ranks / stages, false };
  return SHOAL_OK;
}

int shoal_local_rank(const shoal_local_grid *g, int stage, int replica)
{
  return g->pipeline_inside ? replica * g->stages + stage : stage * g->replicas + replica;
}

int shoal_local_stage(const shoal_local_grid *g, int rank)
{
  return g->pipeline_inside ? rank % g->stages : rank / g->replicas;
}

int shoal_local_replica(const shoal_local_grid *g, int rank)
{
  return g->pipeline_inside ? rank / g->stages : rank % g->replicas;
}

bool shoal_local_pipeline_inside(uint64_t activation_bytes, uint64_t sum_bytes)
{
  return activation_bytes > sum_bytes;
}

/* ---- time ---- */

uint64_t shoal_local_samples(const shoal_local_calendar *c, const shoal_local_date *d)
{
  if (d->epoch >= c->epochs || (c->steps && d->step >= c->steps)) return 0;
  return c->pads ? c->batch : SHOAL_MIN(c->batch, c->samples - d->position);
}

void shoal_local_advance(const shoal_local_calendar *c, shoal_local_date *d)
{
  d->position += c->batch;
  d->step++;
  if (d->position < c->samples) return;
  d->epoch++;
  d->position = 0;
}

/* The first stage may be ahead of the last by a full queue and one batch in flight per boundary. */
uint64_t shoal_local_lag(int stages, int depth)
{
  return 1 + (uint64_t)(stages - 1) * ((uint64_t)depth + 2);
}

/* ---- bytes ---- */

uint64_t shoal_local_message_bytes(uint64_t samples, uint64_t elements, uint64_t labels)
{
  return sizeof(shoal_local_header) + samples * (elements * sizeof(float) + labels * sizeof(int32_t));
}
