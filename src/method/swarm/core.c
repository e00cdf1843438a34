/* A swarm's memory: see swarm_impl.h. */
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { C, B, THEIRS, SHOWN, MEASURED }; /* of shoal_swarm.own */

static shoal_status allocate(shoal_swarm *s, int which, float **out)
{
  SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_DEVICE, s->node.n * sizeof **out, &s->own[which]));
  *out = s->own[which].at;
  return SHOAL_OK;
}

static shoal_status alloc_vectors(shoal_swarm *s)
{
  const shoal_backend_ops *ops = s->backend->ops;
  shoal_swarm_variant v = s->rules.variant;
  size_t parcel = s->node.n * sizeof(float);
  if (v == SHOAL_SWARM_BLOCKING)
    s->node.c = s->node.x;
  else
    SHOAL_TRY(allocate(s, C, &s->node.c));
  if (v == SHOAL_SWARM_SYMMETRIC || v == SHOAL_SWARM_NONBLOCKING) SHOAL_TRY(allocate(s, B, &s->node.b));
  if (v == SHOAL_SWARM_PULL) SHOAL_TRY(allocate(s, SHOWN, &s->shown));
  SHOAL_TRY(allocate(s, THEIRS, &s->theirs));
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, s->blocks * sizeof(float), &s->own[MEASURED]));
  s->measured = s->own[MEASURED].at;
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, parcel, &s->outbox));
  SHOAL_TRY(ops->alloc(s->backend, SHOAL_MEMORY_PINNED, parcel, &s->inbox));
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
  SHOAL_TRY_GOTO(st, shoal_graph_create(rules->graph, s->size, rules->p, rules->seed, &s->graph), fail);
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

shoal_status shoal_swarm_fold_own(shoal_swarm *s)
{
  const shoal_backend_ops *ops = s->backend->ops;
  SHOAL_TRY(ops->fold(s->backend, s->node.n, s->node.x, s->node.c, s->node.b, s->measured));
  SHOAL_TRY(ops->settle(s->backend));
  for (size_t b = 0; b < s->blocks; b++)
    if (isfinite(s->measured[b])) s->distance[b] = SHOAL_MAX(s->distance[b], (double)s->measured[b]);
  return SHOAL_OK;
}
