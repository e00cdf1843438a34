/* Planning a convolution: formats, pieces, primitives, memory.
 *
 * The forward primitive is created first and chooses the formats of x and y; the others adopt them.  A blocked input
 * keeps its format.  Descriptors exist only while planning. */
#include "tensor/cpu/conv.h"

/* Descriptors for a piece of the batch, and the primitive descriptors made from them. */
typedef struct {
  shoal_shape x_shape, y_shape;
  shoal_dnn_md x_given, x_any, y_any, x_last, y_last; /* _last: channels last */
  shoal_dnn_md x_strided, x_packed; /* the positions of x that a strided 1x1 kernel reads: in place, and copied */
  dnnl_primitive_desc_t forward, backward;
} side;

typedef struct {
  shoal_dnn_md w_oihw, w_any, dw_any, bias;
  side data, weights; /* forward with backward_data; backward_weights, whose forward is only a hint */
} planning;

static void side_fini(side *s)
{
  shoal_dnn_md_free(s->x_given);
  shoal_dnn_md_free(s->x_any);
  shoal_dnn_md_free(s->y_any);
  shoal_dnn_md_free(s->x_last);
  shoal_dnn_md_free(s->y_last);
  shoal_dnn_md_free(s->x_strided);
  shoal_dnn_md_free(s->x_packed);
  if (s->forward) dnnl_primitive_desc_destroy(s->forward);
  if (s->backward) dnnl_primitive_desc_destroy(s->backward);
}

static void planning_fini(planning *g)
{
  shoal_dnn_md_free(g->w_oihw);
  shoal_dnn_md_free(g->w_any);
  shoal_dnn_md_free(g->dw_any);
  shoal_dnn_md_free(g->bias);
  side_fini(&g->data);
  side_fini(&g->weights);
}

/* Images per piece.  Forward and backward_data use small pieces of 2 to 3 ms, but only if there is a progress function:
 * an image's values do not depend on the piece size.  The sum in dW does, so its pieces are the same in every run, and
 * large, because each piece adds cost.  A piece should use each weight `reuse` times, or reading the weights (for dW:
 * adding them up) for every piece becomes visible.  One primitive runs all pieces, so their size divides the batch; if
 * all divisors are far too small, there is one piece.
 *
 * Measured on one core, vgg16 with 64 images: small pieces cost 3.5 % of these convolutions, large ones nothing. */
static int64_t choose_images(const shoal_op *op, double macs, double reuse)
{
  const shoal_op_desc *d = &op->desc;
  int64_t n = d->in[0].dim[0], best = 1;
  double each = shoal_op_macs(d) / (double)n, positions = (double)(d->out.dim[2] * d->out.dim[3]);
  double wanted = SHOAL_MAX(macs * op->backend->threads / each, reuse / positions);
  for (int64_t k = 1; k <= n && (double)k <= wanted; k++)
    if (n % k == 0) best = k;
  return wanted > 4 * (double)best ? n : best;
}

static int64_t images_for_data(const shoal_op *op)
{
  return op->backend->progress ? choose_images(op, SHOAL_CPU_PIECE_MACS, 256) : op->desc.in[0].dim[0];
}

static int64_t images_for_weights(const shoal_op *op)
{
  return choose_images(op, 4 * SHOAL_CPU_PIECE_MACS, 8192);
}

static shoal_status start_side(const shoal_op *op, int64_t images, shoal_cpu_pieces *cut, side *s)
{
  const shoal_op_desc *d = &op->desc;
  const shoal_format *f = &op->in_format[0];
  if (shoal_cpu_layout_of(f) == SHOAL_CPU_OTHER) images = d->in[0].dim[0];
  cut->images = images;
  cut->count = d->in[0].dim[0] / images;
  s->x_shape = d->in[0];
  s->y_shape = d->out;
  s->x_shape.dim[0] = s->y_shape.dim[0] = images;
  if (cut->count == 1)
    SHOAL_TRY(shoal_cpu_md_of(&s->x_shape, f, &s->x_given));
  else
    SHOAL_TRY(shoal_cpu_md_of_layout(&s->x_shape, f->elements, shoal_cpu_layout_of(f), &s->x_given));
  SHOAL_TRY(shoal_dnn_md_tag(&s->x_shape, f->elements, dnnl_format_tag_any, &s->x_any));
  return shoal_dnn_md_tag(&s->y_shape, f->elements, dnnl_format_tag_any, &s->y_any);
}

static shoal_dnn_conv describe(const planning *g, const side *s, const shoal_op *op)
{
  const shoal_op_desc *d = &op->desc;
  return (shoal_dnn_conv){ .training = d->training,
                           .stride = d->stride,
                           .pad = d->pad,
                           .gap = d->gap,
                           .src = op->in_format[0].dense ? s->x_any : s->x_given,
                           .weights = g->w_any,
                           .bias = g->bias,
                           .dst = s->y_any };
}

static shoal_status start(shoal_cpu_conv *p, planning *g)
{
  const shoal_op *op = &p->op;
  shoal_shape w[SHOAL_OP_WEIGHTS];
  shoal_op_weight_shapes(&op->desc, w);
  int64_t groups = shoal_op_groups(&op->desc);
  if (groups > 1) /* the same memory, with a dimension more */
    w[0] = SHOAL_SHAPE(groups, w[0].dim[0] / groups, w[0].dim[1], w[0].dim[2], w[0].dim[3]);
  SHOAL_TRY(shoal_dnn_md_dense(&w[0], SHOAL_ELEMENTS_F32, &g->w_oihw));
  SHOAL_TRY(shoal_dnn_md_tag(&w[0], op->in_format[0].elements, dnnl_format_tag_any, &g->w_any));
  SHOAL_TRY(shoal_dnn_md_tag(&w[0], SHOAL_ELEMENTS_F32, dnnl_format_tag_any, &g->dw_any));
  if (op->desc.bias) SHOAL_TRY(shoal_dnn_md_dense(&w[1], SHOAL_ELEMENTS_F32, &g->bias));
  SHOAL_TRY(start_side(op, images_for_data(op), &p->data, &g->data));
  return start_side(op, images_for_weights(op), &p->weights, &g->weights);
}

/* For a dense input of 5 channels (activations that a block of layers receives from another rank) forward has a fast
 * implementation, but the weight gradient may have only the reference loop. */
static shoal_status has_reference_gradient(const shoal_cpu *b, const shoal_op *op, const planning *g, const side *s,
                                           shoal_dnn_conv c, bool *reference)
{
  dnnl_primitive_desc_t gradient = NULL;
  *reference = false;
  if (!op->desc.training) return SHOAL_OK;
  c.bias = NULL;
  c.weights = g->dw_any;
  c.src = shoal_dnn_pd_md(s->forward, DNNL_ARG_SRC);
  c.dst = shoal_dnn_pd_md(s->forward, DNNL_ARG_DST);
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &c, SHOAL_DNN_BACKWARD_WEIGHTS, s->forward, &gradient));
  *reference = shoal_dnn_is_reference(gradient);
  dnnl_primitive_desc_destroy(gradient);
  return SHOAL_OK;
}

/* What other operations could not read: for some groups oneDNN chooses blocks of 4 channels. */
static shoal_status is_foreign(const side *s, bool *yes)
{
  shoal_cpu_layout layout;
  SHOAL_TRY(shoal_cpu_layout_of_md(&s->y_shape, shoal_dnn_pd_md(s->forward, DNNL_ARG_DST), &layout));
  *yes = layout == SHOAL_CPU_OTHER;
  return SHOAL_OK;
}

/* For narrow layers (a subnet's 6 channels in blocks of 16) and for channels-last inputs oneDNN, if it may choose the
 * output format, falls back to its reference loop, 100 times slower.  With channels last on both sides it has fast code
 * for forward and backward; the input is reordered if necessary. */
static shoal_status avoid_reference_loop(const shoal_cpu *b, const shoal_op *op, const planning *g, side *s,
                                         shoal_dnn_conv *c)
{
  dnnl_primitive_desc_t other = NULL;
  bool reference = shoal_dnn_is_reference(s->forward), foreign;
  SHOAL_TRY(is_foreign(s, &foreign));
  if (op->in_format[0].dense) SHOAL_TRY(has_reference_gradient(b, op, g, s, *c, &reference));
  if (!reference && !foreign) return SHOAL_OK;
  SHOAL_TRY(shoal_cpu_md_of_layout(&s->x_shape, op->in_format[0].elements, SHOAL_CPU_CHANNELS_LAST, &s->x_last));
  SHOAL_TRY(shoal_cpu_md_of_layout(&s->y_shape, op->in_format[0].elements, SHOAL_CPU_CHANNELS_LAST, &s->y_last));
  shoal_dnn_conv last = *c;
  last.src = s->x_last;
  last.dst = s->y_last;
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &last, SHOAL_DNN_FORWARD, NULL, &other));
  if (shoal_dnn_is_reference(other) && !foreign) {
    dnnl_primitive_desc_destroy(other);
    return SHOAL_OK;
  }
  dnnl_primitive_desc_destroy(s->forward);
  s->forward = other;
  *c = last;
  return SHOAL_OK;
}

/* Creates a forward primitive and a backward one with the formats the forward one chose. */
static shoal_status choose_pair(const shoal_cpu *b, planning *g, side *s, const shoal_op *op,
                                shoal_dnn_direction backward, bool wanted)
{
  shoal_dnn_conv c = describe(g, s, op);
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &c, SHOAL_DNN_FORWARD, NULL, &s->forward));
  SHOAL_TRY(avoid_reference_loop(b, op, g, s, &c));
  if (!wanted) return SHOAL_OK;
  c.bias = NULL; /* its gradient is computed with the relu mask (bias.c) */
  /* dx may have another format than x: for a dense dx of 3 channels oneDNN has only its reference loop, 400 times
   * slower. */
  if (backward == SHOAL_DNN_BACKWARD_WEIGHTS) {
    c.src = shoal_dnn_pd_md(s->forward, DNNL_ARG_SRC);
    c.weights = g->dw_any;
  }
  c.dst = shoal_dnn_pd_md(s->forward, DNNL_ARG_DST);
  return shoal_dnn_conv_pd(&b->dnn, &c, backward, s->forward, &s->backward);
}

static shoal_status plan_weights(const shoal_cpu *b, shoal_dnn_cmd oihw, shoal_dnn_cmd wanted, shoal_cpu_weights *w)
{
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, oihw, wanted, &w->fill));
  if (!w->fill.primitive) return SHOAL_OK;
  return shoal_alloc(shoal_dnn_md_bytes(wanted), 1, "blocked copy of convolution weights", &w->data);
}

/* Reorder from the input format to that of a primitive, or back.  1x1 images are dense in every format. */
static shoal_status plan_move(const shoal_cpu *b, const shoal_op *op, const side *s, shoal_dnn_cmd wanted, bool in,
                              shoal_dnn_call *out)
{
  if (op->in_format[0].dense && shoal_dnn_md_is_dense(wanted, &s->x_shape)) return SHOAL_OK; /* of the same elements */
  return shoal_dnn_call_init_reorder(&b->dnn, in ? s->x_given : wanted, in ? wanted : s->x_given, out);
}

/* Strides between pieces, and whether their input must be reordered. */
static shoal_status plan_pieces(const shoal_cpu *b, const shoal_op *op, const side *s, shoal_cpu_pieces *cut)
{
  cut->x_step = (int64_t)op->in_format[0].bytes / cut->count;
  cut->y_step = (int64_t)op->out_format.bytes / cut->count;
  return plan_move(b, op, s, shoal_dnn_pd_md(s->forward, DNNL_ARG_SRC), true, &cut->x_in);
}

static shoal_status plan_forward(shoal_cpu *b, shoal_cpu_conv *p, planning *g)
{
  shoal_op *op = &p->op;
  const shoal_op_desc *d = &op->desc;
  side *s = &g->data;
  shoal_format piece;
  const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS };
  SHOAL_TRY(choose_pair(b, g, s, op, SHOAL_DNN_BACKWARD_DATA, d->training && d->need_dx));
  SHOAL_TRY(shoal_cpu_format_of(b, &s->y_shape, shoal_dnn_pd_md(s->forward, DNNL_ARG_DST), &piece));
  op->out_format = piece;
  if (p->data.count > 1)
    SHOAL_TRY(shoal_cpu_format_of_layout(b, &d->out, piece.elements, shoal_cpu_layout_of(&piece), &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_layout(&d->out, shoal_cpu_layout_of(&op->out_format), &p->end.y));
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, s->forward, d->bias ? 4 : 3, args, &p->forward));
  SHOAL_TRY(plan_weights(b, g->w_oihw, shoal_dnn_pd_md(s->forward, DNNL_ARG_WEIGHTS), &p->w_forward));
  return plan_pieces(b, op, s, &p->data);
}

static shoal_status plan_backward_data(shoal_cpu *b, shoal_cpu_conv *p, const planning *g)
{
  const side *s = &g->data;
  const int args[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
  shoal_dnn_cmd w = shoal_dnn_pd_md(s->backward, DNNL_ARG_WEIGHTS);
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, s->backward, 3, args, &p->backward_data));
  p->shared = shoal_dnn_md_equal(w, shoal_dnn_pd_md(s->forward, DNNL_ARG_WEIGHTS));
  if (!p->shared) SHOAL_TRY(plan_weights(b, g->w_oihw, w, &p->w_backward));
  return plan_move(b, &p->op, s, shoal_dnn_pd_md(s->backward, DNNL_ARG_DIFF_SRC), false, &p->dx_out);
}

/* For the weight gradient oneDNN's generated 1x1 kernels first copy the strided positions into their scratchpad.  For
 * channels-last tensors it is sized for c floats per position but indexed by whole blocks of 8 (AVX2) or 16 (AVX-512)
 * floats; with fewer channels the copy overruns the scratchpad and overwrites other threads' copies and the barrier of
 * their reduction.  Measured on AVX2 with versions 2.6.3 and 3.7.2, 4 images of 32x32, 3 to 7 channels, 1 and 2
 * threads: relative errors of 1 in gradients, SIGSEGV, aborts in free, deadlocks.  Version 3.12 has the same code
 * (oneDNN issue 6035).  AVX-512 processes more positions at once, so only larger images are affected. */
static shoal_status writes_past_scratchpad(const shoal_op *op, const side *s, bool *yes)
{
  enum { BLOCK = 16 };
  const shoal_op_desc *d = &op->desc;
  shoal_dnn_md last;
  *yes = shoal_dnn_is_1x1(s->backward) && (d->stride[0] > 1 || d->stride[1] > 1) &&
         d->in[0].dim[1] / shoal_op_groups(d) < BLOCK;
  if (!*yes) return SHOAL_OK;
  SHOAL_TRY(shoal_cpu_md_of_layout(&s->x_shape, op->in_format[0].elements, SHOAL_CPU_CHANNELS_LAST, &last));
  *yes = shoal_dnn_md_equal(shoal_dnn_pd_md(s->backward, DNNL_ARG_SRC), last);
  shoal_dnn_md_free(last);
  return SHOAL_OK;
}

/* Does that copy by a reorder, followed by the gradient of a 1x1 convolution of stride 1: the same kernel processes the
 * same values in the same order.  Measured on AVX2 with 8 to 170 channels, where both are correct: equal bits.  The
 * block sizes of AVX-512 do not depend on which code copies either.  It costs no time: 64 images of 15 channels, 32x32
 * to 16x16, one thread of an AMD EPYC, 0.76 ms against 1.02.  (oneDNN's next implementation, jit, has other bits.) */
static shoal_status plan_without_stride(const shoal_cpu *b, shoal_cpu_conv *p, const planning *g, side *s)
{
  const shoal_op_desc *d = &p->op.desc;
  int64_t c = s->x_shape.dim[1], row = s->x_shape.dim[3] * c;
  const int64_t stride[] = { s->x_shape.dim[2] * row, 1, d->stride[0] * row, d->stride[1] * c };
  dnnl_primitive_desc_t hint = NULL;
  shoal_shape packed = s->y_shape; /* [images, c, out.h, out.w] */
  packed.dim[1] = c;
  SHOAL_TRY(shoal_dnn_md_strided(&packed, p->op.in_format[0].elements, stride, &s->x_strided));
  SHOAL_TRY(shoal_cpu_md_of_layout(&packed, p->op.in_format[0].elements, SHOAL_CPU_CHANNELS_LAST, &s->x_packed));
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, s->x_strided, s->x_packed, &p->weights.x_sample));
  shoal_dnn_conv plain = { .training = true,
                           .stride = (const int[]){ 1, 1 },
                           .pad = d->pad,
                           .gap = d->gap,
                           .src = s->x_packed,
                           .weights = g->w_any,
                           .dst = shoal_dnn_pd_md(s->forward, DNNL_ARG_DST) };
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &plain, SHOAL_DNN_FORWARD, NULL, &hint));
  dnnl_primitive_desc_destroy(s->backward);
  s->backward = NULL;
  plain.weights = g->dw_any;
  shoal_status st = shoal_dnn_conv_pd(&b->dnn, &plain, SHOAL_DNN_BACKWARD_WEIGHTS, hint, &s->backward);
  dnnl_primitive_desc_destroy(hint);
  return st;
}

static shoal_status plan_backward_weights(shoal_cpu *b, shoal_cpu_conv *p, planning *g)
{
  side *s = &g->weights;
  const int args[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS };
  SHOAL_TRY(shoal_cpu_taps_plan(&p->op, &p->op.scratch_bytes, &p->taps));
  if (p->taps.on) return SHOAL_OK;
  bool overrun;
  SHOAL_TRY(choose_pair(b, g, s, &p->op, SHOAL_DNN_BACKWARD_WEIGHTS, true));
  SHOAL_TRY(writes_past_scratchpad(&p->op, s, &overrun));
  if (overrun) SHOAL_TRY(plan_without_stride(b, p, g, s));
  shoal_dnn_cmd dw = shoal_dnn_pd_md(s->backward, DNNL_ARG_DIFF_WEIGHTS);
  p->dw_floats = shoal_dnn_md_bytes(dw) / sizeof(float);
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, s->backward, 3, args, &p->backward_weights));
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, dw, g->w_oihw, &p->dw_out));
  return plan_pieces(b, &p->op, s, &p->weights);
}

/* Size of a piece of x or dx in the format of a primitive, if it must be reordered. */
static size_t moved_bytes(const shoal_dnn_call *move, const_dnnl_primitive_desc_t pd, int arg)
{
  return move->primitive ? shoal_dnn_md_bytes(shoal_dnn_pd_md(pd, arg)) : 0;
}

/* The front of scratch is the workspace of the primitive that runs; data passed between primitives follows.  (The taps,
 * planned before, use the front too: they never run at the same time as a primitive.) */
static void plan_memory(shoal_cpu_conv *p, const planning *g)
{
  shoal_op *op = &p->op;
  const shoal_dnn_call *calls[] = { &p->forward,      &p->backward_data,   &p->backward_weights, &p->dx_out,
                                    &p->dw_out,       &p->w_forward.fill,  &p->w_backward.fill,  &p->data.x_in,
                                    &p->weights.x_in, &p->weights.x_sample };
  for (size_t i = 0; i < SHOAL_COUNT(calls); i++)
    op->scratch_bytes = SHOAL_MAX(op->scratch_bytes, calls[i]->scratch_bytes);
  size_t moved[] = { moved_bytes(&p->data.x_in, g->data.forward, DNNL_ARG_SRC),
                     moved_bytes(&p->weights.x_in, g->weights.forward, DNNL_ARG_SRC),
                     moved_bytes(&p->dx_out, g->data.backward, DNNL_ARG_DIFF_SRC) };
  p->moved_at = shoal_cpu_carve(&op->scratch_bytes, SHOAL_MAX(moved[0], SHOAL_MAX(moved[1], moved[2])));
  if (!op->desc.training) return;
  if (p->weights.x_sample.primitive)
    p->packed_at = shoal_cpu_carve(&op->scratch_bytes, shoal_dnn_md_bytes(g->weights.x_packed));
  size_t dw_bytes = p->dw_floats * sizeof(float);
  if (p->dw_out.primitive) p->dw_at = shoal_cpu_carve(&op->scratch_bytes, dw_bytes);
  if (p->weights.count > 1 && !p->taps.on) p->dw_more_at = shoal_cpu_carve(&op->scratch_bytes, dw_bytes);
  shoal_cpu_conv_end_plan(op, &p->end);
}

static shoal_status plan(shoal_cpu *b, shoal_cpu_conv *p, planning *g)
{
  SHOAL_TRY(start(p, g));
  SHOAL_TRY(plan_forward(b, p, g));
  if (p->op.desc.training) {
    if (p->op.desc.need_dx) SHOAL_TRY(plan_backward_data(b, p, g));
    SHOAL_TRY(plan_backward_weights(b, p, g));
  }
  plan_memory(p, g);
  return SHOAL_OK;
}

shoal_status shoal_cpu_conv_plan(shoal_cpu *b, shoal_cpu_conv *p)
{
  planning g = { 0 };
  shoal_status st = plan(b, p, &g);
  planning_fini(&g);
  return st;
}
