/* Gather and scatter between the arena of a full model and that of a part of it.
 *
 * Every parameter of the part records its number in the full model and the rows and columns it holds, so both
 * directions are one walk over the part, in blocks that are contiguous on both sides. */
#include "nn/model_impl.h"
#include <string.h>

/* Called for each contiguous block: `part` and `full` are offsets in the arenas, `n` the elements. */
typedef void stretch_fn(size_t part, size_t full, size_t n, const float *from, float *to);

static void to_part(size_t part, size_t full, size_t n, const float *from, float *to)
{
  memcpy(to + part, from + full, n * sizeof *to);
}

static void to_full(size_t part, size_t full, size_t n, const float *from, float *to)
{
  memcpy(to + full, from + part, n * sizeof *to);
}

/* A tensor is rows x columns x remaining dimensions, which are never cut. */
static void walk_param(const shoal_param *p, size_t full_offset, stretch_fn *f, const float *from, float *to)
{
  size_t rows = (size_t)p->shape.dim[0], cols = p->shape.ndim > 1 ? (size_t)p->shape.dim[1] : 1;
  size_t full_cols = p->full.ndim > 1 ? (size_t)p->full.dim[1] : 1, rest = p->count / rows / cols;
  for (size_t i = 0; i < rows; i++) {
    size_t row = (p->rows ? (size_t)p->rows[i] : i) * full_cols, here = p->offset + i * cols * rest;
    if (!p->cols) {
      f(here, full_offset + row * rest, cols * rest, from, to);
      continue;
    }
    for (size_t j = 0; j < cols; j++)
      f(here + j * rest, full_offset + (row + (size_t)p->cols[j]) * rest, rest, from, to);
  }
}

static void walk(const shoal_model *full, const shoal_model *part, stretch_fn *f, const float *from, float *to)
{
  for (int i = 0; i < part->params; i++) {
    const shoal_param *p = &part->param[i];
    if (p->full_id >= 0 && p->family == 0) walk_param(p, full->param[p->full_id].offset, f, from, to);
  }
}

void shoal_model_gather(const shoal_model *full, const shoal_model *part, const float *full_w, float *part_w)
{
  walk(full, part, to_part, full_w, part_w);
}

void shoal_model_scatter(const shoal_model *full, const shoal_model *part, const float *part_w, float *full_w)
{
  walk(full, part, to_full, part_w, full_w);
}

/* Statistics of a batch norm follow its scale: same channels, same order. */
static void walk_stats(const shoal_model *full, const shoal_model *part, stretch_fn *f, const float *from, float *to)
{
  for (int i = 0; i < part->nodes; i++) {
    const shoal_node *n = &part->node[i];
    if (n->stats < 0 || part->param[n->weight[0]].family != 0) continue;
    const shoal_param *scale = &part->param[n->weight[0]];
    const shoal_node *origin = &full->node[full->param[scale->full_id].node];
    size_t c = scale->count, full_c = (size_t)origin->out.dim[0];
    for (size_t k = 0; k < c; k++) {
      size_t at = scale->rows ? (size_t)scale->rows[k] : k;
      f((size_t)n->stats + k, (size_t)origin->stats + at, 1, from, to);
      f((size_t)n->stats + c + k, (size_t)origin->stats + full_c + at, 1, from, to);
    }
  }
}

void shoal_model_gather_stats(const shoal_model *full, const shoal_model *part, const float *full_s, float *part_s)
{
  walk_stats(full, part, to_part, full_s, part_s);
}

void shoal_model_scatter_stats(const shoal_model *full, const shoal_model *part, const float *part_s, float *full_s)
{
  walk_stats(full, part, to_full, part_s, full_s);
}
