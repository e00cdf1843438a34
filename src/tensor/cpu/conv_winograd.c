/* Convolutions by Winograd's algorithm: tiles, threads and memory around the kernels (winograd_kernels.h).
 *
 *   forward            blocks of 64 tiles: inputs transformed, then for each group of outputs their product with the weights,
 *                      transformed back into y, bias and relu included
 *   backward_data      the same with dy, and the kernels turned
 *   backward_weights   blocks of tiles: inputs and gradients transformed and multiplied into the sum of their transformed dW
 *
 * A block and its products stay in the cache of the thread that works on it.  Each y and dx is summed by one thread, over its
 * channels in order: their bits depend neither on the number of threads nor on the batch.  Those of dW depend on the threads
 * where these share the tiles, each with a sum of its own; where the sums would be large they share the outputs instead.
 *
 * Weights are transformed anew in every call: in training they have changed.  With batch 64 that takes 1 % of a layer of 64
 * channels and a quarter of one of 512 on images of 4x4. */
#include "tensor/cpu/conv.h"
#include "tensor/cpu/winograd.h"
#include <omp.h>
#include <stdlib.h>

enum { BLOCK = 64, SUMS_BYTES = 16 << 20 };
#define MACS_PER_BYTE 12 /* of work that takes as long as passing over a byte (shoal_cpu_parallel) */

typedef struct {
  shoal_op op;
  shoal_winograd forward, backward; /* backward reads dy */
  shoal_dnn_call x_in, dx_out;      /* to and from the format of the kernels; empty if x has it */
  shoal_cpu_conv_end end;
  int shares, ranges;                  /* dW: threads that share the outputs, and the tiles */
  size_t u_at, v_at, m_at, moved_at;   /* offsets in scratch */
  size_t v_floats, m_floats, u_floats; /* of a thread; of a sum of dW */
} winograd_op;

/* Where tiles are cut so much that less than half of the multiplications is saved, direct convolution is faster (bench.winograd). */
bool shoal_cpu_suits_winograd(const shoal_cpu *b, const shoal_op_desc *d)
{
  int64_t p = d->out.dim[2], q = d->out.dim[3], tiles = (p + 3) / 4 * ((q + 3) / 4);
  bool plain3x3 = d->kernel[0] == 3 && d->kernel[1] == 3 && d->stride[0] == 1 && d->stride[1] == 1 &&
                  shoal_op_groups(d) == 1 && d->gap[0] == 0 && d->gap[1] == 0;
  bool wide = d->in[0].dim[1] >= 16 && d->out.dim[1] >= 16;
  return b->winograd && b->elements == SHOAL_ELEMENTS_F32 && plain3x3 && wide && p * q >= 8 * tiles &&
         shoal_dnn_lanes() > 0;
}

/* --- forward and backward_data --- */
typedef struct {
  const shoal_winograd *g;
  int64_t parts; /* of the groups: a thread takes one part of a block */
  const float *x, *u, *bias;
  bool relu;
  float *y, *v, *m;
  size_t v_floats, m_floats;
} convolve_args;

static void convolve_parts(const void *context, size_t begin, size_t end)
{
  const convolve_args *a = context;
  const shoal_winograd *g = a->g;
  int64_t groups = g->out / shoal_winograd_group(g);
  size_t each = shoal_winograd_weights_floats(g) / (size_t)groups, me = (size_t)omp_get_thread_num();
  float *v = a->v + me * a->v_floats, *m = a->m + me * a->m_floats;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    int64_t first = i / a->parts * BLOCK, last = SHOAL_MIN(first + BLOCK, g->tiles), part = i % a->parts;
    if (part == 0 || i == (int64_t)begin) g->run->input(g, a->x, first, last, v);
    for (int64_t k = part * groups / a->parts; k < (part + 1) * groups / a->parts; k++) {
      g->run->product(g, last - first, v, a->u + (size_t)k * each, m);
      g->run->output(g, m, first, last, k, a->bias, a->relu, a->y);
    }
  }
}

typedef struct {
  const shoal_winograd *g;
  bool flip;
  const float *w;
  float *u, *dw;
} weights_args;

static void transform_weights(const void *context, size_t begin, size_t end)
{
  const weights_args *a = context;
  a->g->run->weights(a->g, a->flip, a->w, (int64_t)begin, (int64_t)end, a->u);
}

static int64_t blocks_of(const shoal_winograd *g)
{
  return (g->tiles + BLOCK - 1) / BLOCK;
}

/* The least number of parts that lets all threads have as much to do, as far as there are groups. */
static int64_t parts_of(const shoal_winograd *g, int threads)
{
  int64_t blocks = blocks_of(g), parts = 1, groups = g->out / shoal_winograd_group(g);
  while (parts < groups && blocks * parts % threads != 0 && blocks * parts < 8 * threads) parts++;
  return parts;
}

static size_t group_bytes(const shoal_winograd *g)
{
  return (size_t)(2 * SHOAL_WINOGRAD_POINTS * g->in * shoal_winograd_group(g)) * sizeof(float);
}

static void convolve(winograd_op *p, const shoal_winograd *g, bool flip, const shoal_op_args *a, const float *x,
                     const float *bias, bool relu, float *y)
{
  shoal_cpu *b = shoal_cpu_of(&p->op);
  float *u = shoal_cpu_at(a->scratch, p->u_at);
  weights_args w = { g, flip, a->w[0], u, NULL };
  shoal_cpu_parallel(b, (size_t)(g->out / shoal_winograd_group(g)), 1, group_bytes(g), transform_weights, &w);
  int64_t parts = parts_of(g, b->base.threads);
  convolve_args c = {
    g,           parts,      x, u, bias, relu, y, shoal_cpu_at(a->scratch, p->v_at), shoal_cpu_at(a->scratch, p->m_at),
    p->v_floats, p->m_floats
  };
  size_t work = (size_t)(BLOCK * SHOAL_WINOGRAD_POINTS * g->in * g->out / parts / MACS_PER_BYTE);
  shoal_cpu_parallel(b, (size_t)(blocks_of(g) * parts), 1, work, convolve_parts, &c);
}

static shoal_status input_of(winograd_op *p, const shoal_op_args *a, const float **out)
{
  *out = a->x[0];
  if (!p->x_in.primitive) return SHOAL_OK;
  float *moved = shoal_cpu_at(a->scratch, p->moved_at);
  *out = moved;
  return shoal_dnn_call_run(&shoal_cpu_of(&p->op)->dnn, &p->x_in, a->scratch, (const void *const[]){ a->x[0], moved });
}

static shoal_status winograd_forward(shoal_op *op, const shoal_op_args *a)
{
  winograd_op *p = (winograd_op *)op;
  const float *x;
  shoal_dnn_enter(&shoal_cpu_of(op)->dnn);
  SHOAL_TRY(input_of(p, a, &x));
  convolve(p, &p->forward, false, a, x, op->desc.bias ? a->w[1] : NULL, op->desc.relu, a->y);
  return SHOAL_OK;
}

static shoal_status winograd_backward_data(shoal_op *op, const shoal_op_args *a)
{
  winograd_op *p = (winograd_op *)op;
  const float *dy = shoal_cpu_conv_end_again(op, &p->end, a);
  float *dx = p->dx_out.primitive ? shoal_cpu_at(a->scratch, p->moved_at) : a->dx[0];
  shoal_dnn_enter(&shoal_cpu_of(op)->dnn);
  convolve(p, &p->backward, true, a, dy, NULL, false, dx);
  if (!p->dx_out.primitive) return SHOAL_OK;
  return shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, &p->dx_out, a->scratch, (const void *const[]){ dx, a->dx[0] });
}

/* --- backward_weights --- */
typedef struct {
  const winograd_op *p;
  const float *x, *dy;
  float *u, *v, *m;
  int64_t from, to; /* blocks of each range that are due */
} correlate_args;

/* Share i % shares of the outputs, range i / shares of the tiles. */
static void correlate_shares(const void *context, size_t begin, size_t end)
{
  const correlate_args *a = context;
  const winograd_op *p = a->p;
  const shoal_winograd *g = &p->forward;
  int64_t groups = g->out / shoal_winograd_group(g), blocks = blocks_of(g);
  size_t each = shoal_winograd_weights_floats(g) / (size_t)groups, me = (size_t)omp_get_thread_num();
  float *v = a->v + me * p->v_floats, *m = a->m + me * p->m_floats;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    int64_t share = i % p->shares, range = i / p->shares;
    int64_t start = range * blocks / p->ranges, stop = (range + 1) * blocks / p->ranges;
    float *u = a->u + (size_t)range * p->u_floats;
    for (int64_t n = start + a->from; n < SHOAL_MIN(start + a->to, stop); n++) {
      int64_t first = n * BLOCK, last = SHOAL_MIN(first + BLOCK, g->tiles);
      g->run->input(g, a->x, first, last, v);
      for (int64_t k = share * groups / p->shares; k < (share + 1) * groups / p->shares; k++) {
        g->run->gradient(g, a->dy, first, last, k, m);
        g->run->correlate(g, last - first, v, m, n == start, u + (size_t)k * each);
      }
    }
  }
}

static void transform_dw(const void *context, size_t begin, size_t end)
{
  const weights_args *a = context;
  a->g->run->dw(a->g, a->u, (int64_t)begin, (int64_t)end, a->dw);
}

static shoal_status winograd_backward_weights(shoal_op *op, const shoal_op_args *a)
{
  winograd_op *p = (winograd_op *)op;
  shoal_cpu *b = shoal_cpu_of(op);
  const shoal_winograd *g = &p->forward;
  const float *x, *dy = shoal_cpu_conv_end_back(op, &p->end, a);
  if (!a->dw[0]) return SHOAL_OK;
  shoal_dnn_enter(&b->dnn);
  SHOAL_TRY(input_of(p, a, &x));
  float *u = shoal_cpu_at(a->scratch, p->u_at);
  correlate_args c = { p, x, dy, u, shoal_cpu_at(a->scratch, p->v_at), shoal_cpu_at(a->scratch, p->m_at), 0, 0 };
  int64_t most = (blocks_of(g) + p->ranges - 1) / p->ranges,
          macs = BLOCK * SHOAL_WINOGRAD_POINTS * g->in * g->out / p->shares;
  int64_t step = SHOAL_MAX((int64_t)SHOAL_CPU_PIECE_MACS / macs, INT64_C(1));
  for (c.from = 0; c.from < most; c.from = c.to) {
    c.to = SHOAL_MIN(c.from + step, most);
    shoal_cpu_parallel(b, (size_t)p->shares * (size_t)p->ranges, 1, (size_t)((c.to - c.from) * macs / MACS_PER_BYTE),
                       correlate_shares, &c);
  }
  for (int i = 1; i < p->ranges; i++)
    SHOAL_TRY(shoal_cpu_add(op->backend, p->u_floats, u + (size_t)i * p->u_floats, u));
  weights_args w = { g, false, NULL, u, a->dw[0] };
  shoal_cpu_parallel(b, (size_t)(g->out / shoal_winograd_group(g)), 1, group_bytes(g), transform_dw, &w);
  return SHOAL_OK;
}

/* --- planning --- */
static shoal_winograd describe(const shoal_shape *x, const shoal_shape *y, int pad_h, int pad_w)
{
  shoal_winograd g = { .w_in = x->dim[1], .w_out = y->dim[1] };
  g.run = shoal_dnn_lanes() == 16 ? &shoal_winograd_avx512 : &shoal_winograd_avx2;
  g.in = (int64_t)shoal_round_up((size_t)g.w_in, (size_t)g.run->lanes);
  g.out = (int64_t)shoal_round_up((size_t)g.w_out, (size_t)g.run->lanes);
  g.h = x->dim[2];
  g.w = x->dim[3];
  g.p = y->dim[2];
  g.q = y->dim[3];
  g.pad[0] = pad_h;
  g.pad[1] = pad_w;
  g.across = (g.q + 3) / 4;
  g.each = g.across * ((g.p + 3) / 4);
  g.tiles = g.each * x->dim[0];
  return g;
}

/* Reorders of x and dx where x comes in another format: dense from a loader or another rank, or from a narrow layer. */
static shoal_status plan_moves(const shoal_cpu *b, winograd_op *p, shoal_dnn_cmd given, shoal_dnn_cmd blocked)
{
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, given, blocked, &p->x_in));
  if (!p->op.desc.training || !p->op.desc.need_dx) return SHOAL_OK;
  return shoal_dnn_call_init_reorder(&b->dnn, blocked, given, &p->dx_out);
}

static shoal_status plan_formats(shoal_cpu *b, winograd_op *p, size_t *moved_bytes)
{
  shoal_op *op = &p->op;
  shoal_dnn_md given = NULL, blocked = NULL;
  shoal_cpu_layout layout = p->forward.run->lanes == 16 ? SHOAL_CPU_BLOCK16 : SHOAL_CPU_BLOCK8;
  SHOAL_TRY(shoal_cpu_format_of_layout(b, &op->desc.out, SHOAL_ELEMENTS_F32, layout, &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_layout(&op->desc.out, layout, &p->end.y));
  shoal_status st = shoal_cpu_md_of(&op->desc.in[0], &op->in_format[0], &given);
  if (st == SHOAL_OK) st = shoal_cpu_md_of_layout(&op->desc.in[0], SHOAL_ELEMENTS_F32, layout, &blocked);
  if (st == SHOAL_OK) st = plan_moves(b, p, given, blocked);
  *moved_bytes = st == SHOAL_OK && p->x_in.primitive ? shoal_dnn_md_bytes(blocked) : 0;
  shoal_dnn_md_free(given);
  shoal_dnn_md_free(blocked);
  return st;
}

/* Threads share the tiles of dW, unless their sums of it are larger than SUMS_BYTES in all: then so many share the outputs that
 * the sums are smaller, or each has one group. */
static void plan_shares(winograd_op *p)
{
  int threads = p->op.backend->threads;
  int64_t groups = p->forward.out / shoal_winograd_group(&p->forward);
  p->shares = 1;
  for (int s = 2; s <= threads && s <= groups; s++) {
    if ((size_t)(threads / p->shares) * p->u_floats * sizeof(float) <= SUMS_BYTES) break;
    if (threads % s == 0) p->shares = s;
  }
  p->ranges = (int)SHOAL_MIN((int64_t)(threads / p->shares), blocks_of(&p->forward));
}

static size_t in_floats(const shoal_winograd *g)
{
  return (size_t)(SHOAL_WINOGRAD_POINTS * shoal_winograd_in_point(g, BLOCK));
}
static size_t out_floats(const shoal_winograd *g)
{
  return (size_t)(SHOAL_WINOGRAD_POINTS * shoal_winograd_out_point(g, BLOCK));
}

static void plan_memory(winograd_op *p, size_t moved_bytes)
{
  shoal_op *op = &p->op;
  const shoal_winograd *f = &p->forward, *back = &p->backward;
  size_t threads = (size_t)op->backend->threads;
  p->u_floats = shoal_winograd_weights_floats(f);
  p->v_floats = in_floats(f);
  p->m_floats = out_floats(f);
  size_t weights = p->u_floats;
  op->scratch_bytes = SHOAL_MAX(p->x_in.scratch_bytes, p->dx_out.scratch_bytes);
  if (op->desc.training) {
    plan_shares(p);
    weights = SHOAL_MAX(weights * (size_t)p->ranges, shoal_winograd_weights_floats(back));
    p->v_floats = SHOAL_MAX(p->v_floats, in_floats(back));
    p->m_floats = SHOAL_MAX(p->m_floats, out_floats(back));
    shoal_cpu_conv_end_plan(op, &p->end);
  }
  p->u_at = shoal_cpu_carve(&op->scratch_bytes, weights * sizeof(float));
  p->v_at = shoal_cpu_carve(&op->scratch_bytes, threads * p->v_floats * sizeof(float));
  p->m_at = shoal_cpu_carve(&op->scratch_bytes, threads * p->m_floats * sizeof(float));
  p->moved_at = shoal_cpu_carve(&op->scratch_bytes, moved_bytes);
}

static void winograd_destroy(shoal_op *op)
{
  winograd_op *p = (winograd_op *)op;
  shoal_dnn_call_fini(&p->x_in);
  shoal_dnn_call_fini(&p->dx_out);
  free(p);
}

shoal_status shoal_cpu_plan_winograd(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  winograd_op *p;
  size_t moved_bytes;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = winograd_destroy;
  op->forward = winograd_forward;
  op->backward_weights = winograd_backward_weights;
  op->backward_data = winograd_backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = d->relu;
  p->forward = describe(&d->in[0], &d->out, d->pad[0], d->pad[1]);
  p->backward = describe(&d->out, &d->in[0], 2 - d->pad[0], 2 - d->pad[1]);
  shoal_status st = plan_formats(b, p, &moved_bytes);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  plan_memory(p, moved_bytes);
  *out = op;
  return SHOAL_OK;
}
