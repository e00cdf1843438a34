/* Where every element is stored and how it is packed: the tiles that a part and a home have in common.
 *
 * A home keeps, of a tensor cut along columns, all rows and its own slice of the columns; a part trains its rows and
 * its columns.  What they have in common is a tile: the part's rows, and those of its columns whose home it is.
 *
 *         home r's columns                     the part's list of columns, ascending
 *          v-----v                              [2 3 | 7 8 9 | 12 14]
 *   W  . . x . x . .      x: the tile                  ^^^^^  those with home r are a contiguous range
 *      . . . . . . .         rows of the part
 *      . . x . x . .
 *
 * So on the part's side a tile is rows of consecutive columns, and on the home's side an index list selects rows and
 * columns.  Both sides walk the same tiles in the same order, and no index is ever sent. */
#include "base/mem.h"
#include "data/loader.h"
#include "method/ist/ist.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint64_t first, count;
} run;

static run share(int64_t n, int r, int parts)
{
  run s;
  shoal_share_of((uint64_t)n, r, parts, &s.first, &s.count);
  return s;
}

/* Index of the first value of an ascending list that is at least `least`. */
static uint64_t lower_bound(const int64_t *list, uint64_t n, int64_t least)
{
  uint64_t low = 0;
  while (low < n) {
    uint64_t middle = (low + n) / 2;
    if (list[middle] < least)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

/* The units of a space that a part has: its list, or all if the space is -1. */
typedef struct {
  const int64_t *list; /* NULL: 0, 1, 2, … */
  uint64_t n;
} units;

static units units_of(const shoal_ist_plan *p, const shoal_ist_deal *d, int space, int64_t all, int part)
{
  if (space < 0) return (units){ NULL, (uint64_t)all };
  run s = share(p->model->space_size[space], part, p->o.parts);
  return (units){ d->units[space] + s.first, s.count };
}

/* The units whose home is `home`, as a range of the list. */
static run at_home(const shoal_ist_plan *p, const units *u, int space, int home)
{
  run h = share(p->model->space_size[space], home, p->o.parts);
  uint64_t first = lower_bound(u->list, u->n, (int64_t)h.first);
  return (run){ first, lower_bound(u->list, u->n, (int64_t)(h.first + h.count)) - first };
}

/* The contiguous elements of a tensor at one home, if it is not cut into columns. */
static run stretch_of(const shoal_ist_plan *p, const shoal_ist_deal *homes, int param, int home)
{
  const shoal_ist_tensor *t = &p->tensor[param];
  int64_t n = (int64_t)p->model->param[param].count;
  if (t->home == SHOAL_IST_SLICE) return share(n, home, p->o.parts);
  return (run){ 0, homes->holder[t->block] == home ? (uint64_t)n : 0 };
}

static bool owns(const shoal_ist_plan *p, const shoal_ist_deal *d, int param, int part)
{
  const shoal_ist_tensor *t = &p->tensor[param];
  return t->home != SHOAL_IST_BLOCK || d->owner[t->block * p->o.parts + part];
}

static bool is_stretch(const shoal_ist_tensor *t)
{
  return t->home == SHOAL_IST_BLOCK || t->home == SHOAL_IST_SLICE;
}

/* ---- tiles ---- */

/* Rows and columns of a tensor in some memory.  Row unit i is at index (rows ? rows[i] : i) + row_shift, and is
 * row_grain rows of `stride` elements; columns likewise, each `width` consecutive elements. */
typedef struct {
  size_t offset, stride, width;
  const int64_t *rows, *cols;
  int64_t row_shift, col_shift, row_grain;
  uint64_t n_rows, n_cols;
} tile;

static size_t tile_size(const tile *t)
{
  return t->n_rows * (size_t)t->row_grain * t->n_cols * t->width;
}

/* A tensor that is not cut into columns: a stretch of n elements. */
static tile stretch_tile(size_t offset, size_t n)
{
  return (tile){ .offset = offset, .stride = n, .width = 1, .row_grain = 1, .n_rows = 1, .n_cols = n };
}

/* Which way elements go between memory and packed order.  The side that is read is not changed. */
typedef enum { PACK, UNPACK } direction;

/* Copies a tile between memory and packed order; adds its elements to *at. */
static shoal_status copy_tile(shoal_backend *b, const tile *t, direction way, const float *memory, const float *packed,
                              size_t *at)
{
  shoal_tile_side there = {
    .rows = t->rows, .cols = t->cols, .row_shift = t->row_shift, .col_shift = t->col_shift, .stride = t->stride
  };
  shoal_tile_side here = { .stride = t->n_cols * t->width };
  shoal_tile copy = { .rows = t->n_rows,
                      .cols = t->n_cols,
                      .width = t->width,
                      .grain = (size_t)t->row_grain,
                      .from = way == PACK ? there : here,
                      .to = way == PACK ? here : there };
  const float *from = way == PACK ? memory + t->offset : packed + *at;
  const float *to = way == PACK ? packed + *at : memory + t->offset;
  *at += tile_size(t);
  return b->ops->copy_tile(b, &copy, from, (float *)(uintptr_t)to);
}

/* The tile of a tensor cut by units that `home` and `part` have in common, in the part's memory. */
static tile part_tile(const shoal_ist_plan *p, const shoal_ist_deal *owners, int param, int home, int part,
                      size_t offset)
{
  const shoal_ist_tensor *t = &p->tensor[param];
  units rows = units_of(p, owners, t->cut.row_space, t->rows, part);
  units cols = units_of(p, owners, t->cut.col_space, t->cols, part);
  tile out = { .offset = offset, .stride = cols.n * t->width, .width = t->width, .row_grain = t->cut.row_grain };
  bool by_cols = t->home == SHOAL_IST_COLS;
  run r = by_cols ? (run){ 0, rows.n } : at_home(p, &rows, t->cut.row_space, home);
  run c = by_cols ? at_home(p, &cols, t->cut.col_space, home) : (run){ 0, cols.n };
  out.row_shift = (int64_t)r.first, out.n_rows = r.count;
  out.col_shift = (int64_t)c.first, out.n_cols = c.count;
  return out;
}

/* The same tile in the home's memory, where the tensor lacks rows or columns with other homes. */
static tile home_tile(const shoal_ist_plan *p, const shoal_ist_deal *owners, int param, int home, int part,
                      size_t offset)
{
  const shoal_ist_tensor *t = &p->tensor[param];
  units rows = units_of(p, owners, t->cut.row_space, t->rows, part);
  units cols = units_of(p, owners, t->cut.col_space, t->cols, part);
  tile out = {
    .offset = offset, .stride = (size_t)t->cols * t->width, .width = t->width, .row_grain = t->cut.row_grain
  };
  out.rows = rows.list, out.cols = cols.list;
  out.n_rows = rows.n, out.n_cols = cols.n;
  if (t->home == SHOAL_IST_COLS) {
    run h = share(p->model->space_size[t->cut.col_space], home, p->o.parts);
    run c = at_home(p, &cols, t->cut.col_space, home);
    out.stride = h.count * t->width;
    out.cols += c.first, out.n_cols = c.count;
    out.col_shift = -(int64_t)h.first;
  } else {
    run h = share(p->model->space_size[t->cut.row_space], home, p->o.parts);
    run r = at_home(p, &rows, t->cut.row_space, home);
    out.rows += r.first, out.n_rows = r.count;
    out.row_shift = -(int64_t)h.first;
  }
  return out;
}

/* ---- sizes ---- */

/* Elements of a tensor whose home is rank r. */
static size_t stored(const shoal_ist_plan *p, const shoal_ist_deal *homes, int param, int r)
{
  const shoal_ist_tensor *t = &p->tensor[param];
  if (is_stretch(t)) return stretch_of(p, homes, param, r).count;
  int space = t->home == SHOAL_IST_COLS ? t->cut.col_space : t->cut.row_space;
  run h = share(p->model->space_size[space], r, p->o.parts);
  return p->model->param[param].count / (size_t)p->model->space_size[space] * h.count;
}

size_t shoal_ist_store_size(const shoal_ist_plan *p, const shoal_ist_deal *homes, int r, size_t *offset)
{
  size_t at = 0;
  for (int i = 0; i < p->model->params; i++) {
    if (offset) offset[i] = at;
    at += stored(p, homes, i, r);
  }
  return at;
}

/* Blocks a part has of a stage: the holder of a block is one of its owners, so it holds at most as many. */
static size_t blocks_of(const shoal_ist_plan *p, int stage, int part)
{
  run even = share(p->stage_size[stage], part, p->o.parts);
  bool several = (int64_t)p->o.parts * p->stage_min[stage] > p->stage_size[stage];
  return several ? (size_t)p->stage_min[stage] : even.count;
}

static size_t block_size(const shoal_ist_plan *p, int stage)
{
  size_t n = 0;
  for (int i = 0; i < p->model->params; i++)
    if (p->tensor[i].home == SHOAL_IST_BLOCK && p->stage[p->tensor[i].block] == stage) n += p->model->param[i].count;
  return n / (size_t)p->stage_size[stage];
}

size_t shoal_ist_store_room(const shoal_ist_plan *p, int r)
{
  size_t n = 0;
  for (int i = 0; i < p->model->params; i++)
    if (p->tensor[i].home != SHOAL_IST_BLOCK) n += stored(p, NULL, i, r);
  for (int stage = 0; stage < p->stages; stage++) n += blocks_of(p, stage, r) * block_size(p, stage);
  return n;
}

size_t shoal_ist_bundle_room(const shoal_ist_plan *p, int r)
{
  size_t n = 0, parts = (size_t)p->o.parts;
  for (int i = 0; i < p->model->params; i++) {
    const shoal_ist_tensor *t = &p->tensor[i];
    if (t->home == SHOAL_IST_BLOCK) continue;
    size_t here = stored(p, NULL, i, r);
    if (t->home == SHOAL_IST_SLICE) here *= parts;          /* held by all parts */
    if (t->home == SHOAL_IST_COLS && t->cut.row_space >= 0) /* at most the largest part's rows in every column */
      here = here / (size_t)t->rows * share(t->rows, 0, p->o.parts).count;
    n += here;
  }
  for (int stage = 0; stage < p->stages; stage++) {
    size_t pairs = 0, held = blocks_of(p, stage, r);
    for (int s = 0; s < p->o.parts; s++) pairs += blocks_of(p, stage, s);
    n += SHOAL_MIN(held * parts, pairs) * block_size(p, stage);
  }
  return n;
}

static size_t common(const shoal_ist_plan *p, const shoal_ist_deal *homes, const shoal_ist_deal *owners, int param,
                     int home, int part)
{
  if (is_stretch(&p->tensor[param])) return owns(p, owners, param, part) ? stretch_of(p, homes, param, home).count : 0;
  tile t = part_tile(p, owners, param, home, part, 0);
  return tile_size(&t);
}

uint64_t shoal_ist_count(const shoal_ist_plan *p, const shoal_ist_deal *homes, const shoal_ist_deal *owners, int home,
                         int worker)
{
  uint64_t n = 0;
  for (int i = 0; i < p->model->params; i++) n += common(p, homes, owners, i, home, worker);
  return n;
}

/* ---- a store and the whole model ---- */

/* All elements with home r, in the whole tensor: the tile that r has in common with a part that has everything. */
static tile whole_tile(const shoal_ist_plan *p, const shoal_ist_deal *homes, int param, int r)
{
  const shoal_param *q = &p->model->param[param];
  const shoal_ist_tensor *t = &p->tensor[param];
  tile out = { .offset = q->offset,
               .stride = (size_t)t->cols * t->width,
               .width = t->width,
               .row_grain = t->cut.row_grain,
               .n_rows = (uint64_t)t->rows,
               .n_cols = (uint64_t)t->cols };
  if (is_stretch(t)) {
    run s = stretch_of(p, homes, param, r);
    return stretch_tile(q->offset + s.first, s.count);
  }
  bool by_cols = t->home == SHOAL_IST_COLS;
  run h = share(p->model->space_size[by_cols ? t->cut.col_space : t->cut.row_space], r, p->o.parts);
  *(by_cols ? &out.col_shift : &out.row_shift) = (int64_t)h.first;
  *(by_cols ? &out.n_cols : &out.n_rows) = h.count;
  return out;
}

static shoal_status move_whole(shoal_backend *b, const shoal_ist_plan *p, const shoal_ist_deal *homes, int r,
                               direction way, const float *model, const float *store)
{
  size_t at = 0;
  for (int i = 0; i < p->model->params; i++) {
    tile t = whole_tile(p, homes, i, r);
    SHOAL_TRY(copy_tile(b, &t, way, model, store, &at));
  }
  return SHOAL_OK;
}

shoal_status shoal_ist_store_read(shoal_backend *b, const shoal_ist_plan *p, const shoal_ist_deal *homes, int r,
                                  const float *model, float *store)
{
  return move_whole(b, p, homes, r, PACK, model, store);
}

shoal_status shoal_ist_store_write(shoal_backend *b, const shoal_ist_plan *p, const shoal_ist_deal *homes, int r,
                                   const float *store, float *model)
{
  return move_whole(b, p, homes, r, UNPACK, model, store);
}

/* Initialises the parameter as rank r stores it: a copy with the list of its rows or columns. */
static shoal_status init_tensor(const shoal_ist_plan *p, int param, int r, uint64_t seed, float *w)
{
  shoal_param q = p->model->param[param];
  const shoal_ist_tensor *t = &p->tensor[param];
  bool by_cols = t->home == SHOAL_IST_COLS;
  run h = share(p->model->space_size[by_cols ? t->cut.col_space : t->cut.row_space], r, p->o.parts);
  int64_t grain = by_cols ? t->cut.col_grain : t->cut.row_grain, n = (int64_t)h.count * grain, *list;
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, &list));
  for (int64_t i = 0; i < n; i++) list[i] = (int64_t)h.first * grain + i;
  q.rows = by_cols ? NULL : list;
  q.cols = by_cols ? list : NULL;
  q.shape.dim[by_cols] = n;
  q.count = stored(p, NULL, param, r);
  shoal_param_init(&q, param, seed, w);
  free(list);
  return SHOAL_OK;
}

shoal_status shoal_ist_store_init(const shoal_ist_plan *p, int r, uint64_t seed, float *store)
{
  for (int i = 0; i < p->model->params; i++) {
    if (is_stretch(&p->tensor[i])) {
      if (p->o.blocks) return SHOAL_OK; /* nothing is dormant: every collect fills the stores */
    } else {
      SHOAL_TRY(init_tensor(p, i, r, seed, store));
    }
    store += stored(p, NULL, i, r);
  }
  return SHOAL_OK;
}

/* ---- views ---- */

shoal_status shoal_ist_view_create(const shoal_ist_plan *p, int rank, shoal_ist_view **out)
{
  shoal_ist_view *v;
  shoal_status st;
  size_t params = (size_t)p->model->params, parts = (size_t)p->o.parts;
  SHOAL_TRY(SHOAL_ALLOC(1, &v));
  v->plan = p;
  v->rank = rank;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(params, &v->arena), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(params, &v->store), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(parts, &v->to_home), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(parts, &v->to_worker), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(parts, &v->cursor), fail);
  SHOAL_TRY_GOTO(st, shoal_alloc(parts, sizeof *v->parts, "parts of a subnet's rank", (void **)&v->parts), fail);
  *out = v;
  return SHOAL_OK;
fail:
  shoal_ist_view_destroy(v);
  return st;
}

void shoal_ist_view_destroy(shoal_ist_view *v)
{
  if (!v) return;
  free(v->arena);
  free(v->store);
  free(v->to_home);
  free(v->to_worker);
  free(v->cursor);
  free(v->parts);
  free(v);
}

void shoal_ist_view_set(shoal_ist_view *v, const shoal_ist_deal *homes, const shoal_ist_deal *owners,
                        const shoal_model *part)
{
  const shoal_ist_plan *p = v->plan;
  v->homes = homes;
  v->owners = owners;
  for (int i = 0; i < p->model->params; i++) v->arena[i] = SIZE_MAX;
  for (int i = 0; i < part->params; i++) v->arena[part->param[i].full_id] = part->param[i].offset;
  shoal_ist_store_size(p, homes, v->rank, v->store);
  v->sum_home = v->sum_worker = 0;
  for (int r = 0; r < p->o.parts; r++) {
    v->to_home[r] = shoal_ist_count(p, homes, owners, r, v->rank);
    v->to_worker[r] = shoal_ist_count(p, homes, owners, v->rank, r);
    v->sum_home += v->to_home[r];
    v->sum_worker += v->to_worker[r];
  }
}

/* Copies a tensor between this rank's arena and the block of a home. */
static shoal_status move_part(shoal_backend *b, const shoal_ist_view *v, int param, int home, direction way,
                              const float *arena, const float *packed, size_t *at)
{
  const shoal_ist_plan *p = v->plan;
  if (!is_stretch(&p->tensor[param])) {
    tile t = part_tile(p, v->owners, param, home, v->rank, v->arena[param]);
    return copy_tile(b, &t, way, arena, packed, at);
  }
  if (!owns(p, v->owners, param, v->rank)) return SHOAL_OK;
  run s = stretch_of(p, v->homes, param, home);
  tile t = stretch_tile(v->arena[param] + s.first, s.count);
  return copy_tile(b, &t, way, arena, packed, at);
}

static shoal_status move_parts(shoal_backend *b, const shoal_ist_view *v, int arrays, direction way,
                               float *const *arena, const float *packed)
{
  size_t at = 0;
  for (int home = 0; home < v->plan->o.parts; home++)
    for (int a = 0; a < arrays; a++)
      for (int i = 0; i < v->plan->model->params; i++) SHOAL_TRY(move_part(b, v, i, home, way, arena[a], packed, &at));
  return SHOAL_OK;
}

shoal_status shoal_ist_pack_part(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *arena,
                                 float *packed)
{
  return move_parts(b, v, arrays, PACK, arena, packed);
}

shoal_status shoal_ist_unpack_part(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *arena,
                                   const float *packed)
{
  return move_parts(b, v, arrays, UNPACK, arena, packed);
}

/* Copies a tensor between this rank's store and the block of a part; a stretch only into the block: see take_mean. */
static shoal_status move_store(shoal_backend *b, const shoal_ist_view *v, int param, int part, direction way,
                               const float *store, const float *packed, size_t *at)
{
  const shoal_ist_plan *p = v->plan;
  if (!is_stretch(&p->tensor[param])) {
    tile t = home_tile(p, v->owners, param, v->rank, part, v->store[param]);
    return copy_tile(b, &t, way, store, packed, at);
  }
  if (!owns(p, v->owners, param, part)) return SHOAL_OK;
  tile t = stretch_tile(v->store[param], stretch_of(p, v->homes, param, v->rank).count);
  if (way == PACK) return copy_tile(b, &t, way, store, packed, at);
  *at += tile_size(&t);
  return SHOAL_OK;
}

shoal_status shoal_ist_pack_store(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *store,
                                  float *packed)
{
  size_t at = 0;
  for (int part = 0; part < v->plan->o.parts; part++)
    for (int a = 0; a < arrays; a++)
      for (int i = 0; i < v->plan->model->params; i++)
        SHOAL_TRY(move_store(b, v, i, part, PACK, store[a], packed, &at));
  return SHOAL_OK;
}

/* Averages a tensor trained by several ranks, in double and rank order, so that equal values are kept bit for bit. */
static shoal_status take_mean(shoal_backend *b, const shoal_ist_view *v, int param, const float *packed, float *store)
{
  const shoal_ist_plan *p = v->plan;
  size_t n = stretch_of(p, v->homes, param, v->rank).count, owners = 0;
  for (int s = 0; s < p->o.parts; s++)
    if (owns(p, v->owners, param, s)) v->parts[owners++] = packed + v->cursor[s];
  return b->ops->mean(b, n, owners, v->parts, store + v->store[param]);
}

shoal_status shoal_ist_unpack_store(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *store,
                                    const float *packed)
{
  const shoal_ist_plan *p = v->plan;
  size_t begin = 0;
  for (int s = 0; s < p->o.parts; begin += v->to_worker[s++] * (size_t)arrays) v->cursor[s] = begin;
  for (int a = 0; a < arrays; a++)
    for (int i = 0; i < p->model->params; i++) {
      if (is_stretch(&p->tensor[i])) SHOAL_TRY(take_mean(b, v, i, packed, store[a]));
      for (int s = 0; s < p->o.parts; s++) SHOAL_TRY(move_store(b, v, i, s, UNPACK, store[a], packed, &v->cursor[s]));
    }
  return SHOAL_OK;
}
