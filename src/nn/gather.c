/* Gather and scatter between the arena of a full model and that of a part of it.
 *
 * Every parameter of the part records its number in the full model and the rows and columns it holds, so both
 * directions are one walk over the part, a rectangle per parameter. */
#include "nn/model_impl.h"

typedef enum { TO_PART, TO_FULL } direction;

static shoal_status move(shoal_backend *b, direction way, shoal_tile *t, shoal_tile_side part, shoal_tile_side full,
                         size_t part_at, size_t full_at, const float *from, float *to)
{
  t->from = way == TO_PART ? full : part;
  t->to = way == TO_PART ? part : full;
  return b->ops->copy_tile(b, t, from + (way == TO_PART ? full_at : part_at),
                           to + (way == TO_PART ? part_at : full_at));
}

/* A tensor is rows x columns x remaining dimensions, which are never cut. */
static shoal_status move_param(shoal_backend *b, direction way, const shoal_param *p, size_t full_offset,
                               const float *from, float *to)
{
  size_t rows = (size_t)p->shape.dim[0], cols = p->shape.ndim > 1 ? (size_t)p->shape.dim[1] : 1;
  size_t full_cols = p->full.ndim > 1 ? (size_t)p->full.dim[1] : 1, rest = p->count / rows / cols;
  shoal_tile t = { .rows = rows, .cols = cols, .width = rest, .grain = 1 };
  shoal_tile_side part = { .stride = cols * rest };
  shoal_tile_side full = { .rows = p->rows, .cols = p->cols, .stride = full_cols * rest };
  return move(b, way, &t, part, full, p->offset, full_offset, from, to);
}

static shoal_status walk(shoal_backend *b, direction way, const shoal_model *full, const shoal_model *part,
                         const float *from, float *to)
{
  for (int i = 0; i < part->params; i++) {
    const shoal_param *p = &part->param[i];
    if (p->full_id >= 0 && p->family == 0) SHOAL_TRY(move_param(b, way, p, full->param[p->full_id].offset, from, to));
  }
  return SHOAL_OK;
}

shoal_status shoal_model_gather(shoal_backend *b, const shoal_model *full, const shoal_model *part, const float *full_w,
                                float *part_w)
{
  return walk(b, TO_PART, full, part, full_w, part_w);
}

shoal_status shoal_model_scatter(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                 const float *part_w, float *full_w)
{
  return walk(b, TO_FULL, full, part, part_w, full_w);
}

/* Statistics of a batch norm follow its scale: same channels, same order; means, then variances. */
static shoal_status walk_stats(shoal_backend *b, direction way, const shoal_model *full, const shoal_model *part,
                               const float *from, float *to)
{
  for (int i = 0; i < part->nodes; i++) {
    const shoal_node *n = &part->node[i];
    if (n->stats < 0 || part->param[n->weight[0]].family != 0) continue;
    const shoal_param *scale = &part->param[n->weight[0]];
    const shoal_node *origin = &full->node[full->param[scale->full_id].node];
    size_t c = scale->count, full_c = (size_t)origin->out.dim[0];
    shoal_tile t = { .rows = 1, .cols = c, .width = 1, .grain = 1 };
    shoal_tile_side whole = { .cols = scale->rows };
    for (size_t k = 0; k < 2; k++)
      SHOAL_TRY(move(b, way, &t, (shoal_tile_side){ 0 }, whole, (size_t)n->stats + k * c,
                     (size_t)origin->stats + k * full_c, from, to));
  }
  return SHOAL_OK;
}

shoal_status shoal_model_gather_stats(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                      const float *full_s, float *part_s)
{
  return walk_stats(b, TO_PART, full, part, full_s, part_s);
}

shoal_status shoal_model_scatter_stats(shoal_backend *b, const shoal_model *full, const shoal_model *part,
                                       const float *part_s, float *full_s)
{
  return walk_stats(b, TO_FULL, full, part, part_s, full_s);
}
