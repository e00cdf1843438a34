/* A swarm's memory: see swarm_impl.h. */
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { C, B, THEIRS, MEASURED }; /* of shoal_swarm.own */

static shoal_status allocate(shoal_swarm *s, int which, size_t n, float **out)
{
  SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_DEVICE, n * sizeof **out, &s->own[which]));
  *out = s->own[which].at;
  return SHOAL_OK;
}

static shoal_status alloc_vectors(shoal_swarm *s)
{
  const shoal_backend_ops *ops = s->backend->ops;
  shoal_swarm_variant v = s->rules.variant;
  size_t n = s->node.n;
  if (v == SHOAL_SWARM_BLOCKING)
    s->node.c = s->node.x;
  else
    SHOAL_TRY(allocate(s, C, n, &s->node.c));
  if (v == SHOAL_SWARM_SYMMETRIC || v == SHOAL_SWARM_NONBLOCKING) SHOAL_TRY(allocate(s, B, n, &s->node.b));
  s->whole = s->rules.lockstep || v == SHOAL_SWARM_PULL;
  SHOAL_TRY(allocate(s, THEIRS, s->whole ? n : SHOAL_MIN(n, s->segment * SHOAL_QUANT_BLOCK), &s->theirs));
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, s->blocks * sizeof(float), &s->own[MEASURED]));
  s->measured = s->own[MEASURED].at;
  if (s->rules.lockstep) SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, n * sizeof(float), &s->outbox));
  if (s->rules.lockstep) SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, n * sizeof(float), &s->inbox));
  SHOAL_TRY(SHOAL_ALLOC(s->segments, &s->due));
  SHOAL_TRY(SHOAL_ALLOC(s->blocks, &s->distance));
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->size, &s->begun));
  return SHOAL_ALLOC((size_t)s->size, &s->since);
}

shoal_status shoal_swarm_create(shoal_world *w, shoal_backend *b, const shoal_swarm_rules *rules, float *x, size_t n,
                                shoal_swarm **out)
{
  shoal_status st;
  shoal_swarm *s;
  SHOAL_TRY(SHOAL_ALLOC(1, &s));
  *s = (shoal_swarm){ .rules = *rules,
                      .world = w,
                      .backend = b,
                      .all = shoal_world_group(w),
                      .control = shoal_world_control(w),
                      .rank = shoal_world_rank(w),
                      .size = shoal_world_size(w),
                      .node = { .n = n, .x = x },
                      .blocks = shoal_quant_blocks(n),
                      .marks = (shoal_quant_blocks(n) + 7) / 8 };
  s->segment = SHOAL_MIN(SHOAL_MAX(s->blocks / SHOAL_SWARM_SEGMENTS, (size_t)1), (size_t)SHOAL_SWARM_SEGMENT);
  s->segments = (s->blocks + s->segment - 1) / s->segment;
  SHOAL_TRY_GOTO(st,
                 shoal_graph_create(rules->graph, s->size, rules->p, rules->seed,
                                    rules->lockstep ? SHOAL_GRAPH_ALL : s->rank, &s->graph),
                 fail);
  SHOAL_TRY_GOTO(st, alloc_vectors(s), fail);
  SHOAL_TRY_GOTO(st, shoal_swarm_restart(s), fail);
  *out = s;
  return SHOAL_OK;
fail:
  shoal_swarm_destroy(s);
  return st;
}

void shoal_swarm_destroy(shoal_swarm *s)
{
  if (!s) return;
  shoal_graph_destroy(s->graph);
  for (size_t i = 0; i < SHOAL_COUNT(s->own); i++) s->backend->ops->release(s->backend, &s->own[i]);
  s->backend->ops->release(s->backend, &s->outbox);
  s->backend->ops->release(s->backend, &s->inbox);
  free(s->due);
  free(s->distance);
  free(s->begun);
  free(s->since);
  free(s);
}

shoal_status shoal_swarm_restart(shoal_swarm *s)
{
  size_t bytes = s->node.n * sizeof(float);
  SHOAL_TRY(shoal_swarm_publish(s));
  if (!s->node.b) return SHOAL_OK;
  SHOAL_TRY(s->backend->ops->copy(s->backend, bytes, s->node.x, s->node.b));
  return s->backend->ops->copy(s->backend, bytes, s->node.x, s->node.c);
}

/* Distances become exponents of the wire format: no others fit into it. */
static shoal_status check_distances(size_t n, const double *distance)
{
  for (size_t i = 0; i < n; i++)
    SHOAL_CHECK(distance[i] >= 0 && distance[i] <= FLT_MAX, SHOAL_ERR_IO,
                "the distance of block %zu in the checkpoint is %g: it is damaged or made up", i, distance[i]);
  return SHOAL_OK;
}

shoal_status shoal_swarm_load_distances(shoal_swarm *s, const shoal_ckpt *c, const char *name)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  double *saved;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  if (ndim != 1 || dims[0] == 0 || dims[0] == s->blocks) {
    SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, s->blocks, s->distance));
    return check_distances(s->blocks, s->distance);
  }
  SHOAL_TRY(SHOAL_ALLOC(dims[0], &saved));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_F64, dims[0], saved);
  if (st == SHOAL_OK) st = check_distances(dims[0], saved);
  double largest = st == SHOAL_OK ? shoal_swarm_largest(dims[0], saved) : 0;
  for (size_t b = 0; st == SHOAL_OK && b < s->blocks; b++) s->distance[b] = largest;
  free(saved);
  return st;
}

shoal_status shoal_swarm_publish(shoal_swarm *s)
{
  if (s->rules.variant != SHOAL_SWARM_PULL) return SHOAL_OK;
  return s->backend->ops->copy(s->backend, s->node.n * sizeof(float), s->node.x, s->node.c);
}

shoal_status shoal_swarm_fold(shoal_swarm *s, size_t first, size_t blocks)
{
  const shoal_backend_ops *ops = s->backend->ops;
  size_t at = first * SHOAL_QUANT_BLOCK, n = SHOAL_MIN(blocks * SHOAL_QUANT_BLOCK, s->node.n - at);
  SHOAL_TRY(ops->fold(s->backend, n, s->node.x + at, s->node.c + at, s->node.b + at, s->measured + first));
  SHOAL_TRY(ops->settle(s->backend));
  for (size_t b = first; b < first + blocks; b++)
    if (isfinite(s->measured[b])) s->distance[b] = SHOAL_MAX(s->distance[b], (double)s->measured[b]);
  return SHOAL_OK;
}

static shoal_status apply_run(shoal_swarm *s, size_t begin, size_t end)
{
  size_t first = begin * s->segment, blocks = SHOAL_MIN(end * s->segment, s->blocks) - first;
  for (size_t g = begin; g < end; g++) s->due[g] = false;
  if (s->rules.variant != SHOAL_SWARM_PULL) return shoal_swarm_fold(s, first, blocks);
  size_t at = first * SHOAL_QUANT_BLOCK, n = SHOAL_MIN(blocks * SHOAL_QUANT_BLOCK, s->node.n - at);
  return s->backend->ops->average(s->backend, n, s->node.x + at, s->theirs + at, s->node.x + at);
}

shoal_status shoal_swarm_apply_due(shoal_swarm *s, const bool *locked, bool *changed)
{
  for (size_t begin = 0, end; begin < s->segments; begin = end) {
    for (end = begin; end < s->segments && s->due[end] && !locked[end];) end++;
    if (end > begin) SHOAL_TRY(apply_run(s, begin, end));
    *changed |= end > begin;
    end += end == begin;
  }
  return SHOAL_OK;
}
