/* Convolution by oneDNN, with everything around it that keeps the arena canonical.
 *
 * Activations stay in the format that oneDNN prefers (nChw16c on AVX-512); a dense input of an inner layer is
 * reordered once, into scratch.  The weights in the arena are OIHW; oneDNN multiplies faster with its own format, so
 * the plan keeps a copy, refreshed when weights_version says that the arena has changed:
 *
 *   arena w (OIHW) --reorder--> copy   --forward, backward_data-->
 *   arena dw       <--reorder-- scratch <--backward_weights--
 *
 * A fused relu costs nothing forward.  Backward needs dy where y > 0: backward_weights makes it once, into `saved` when
 * backward_data will want it again, otherwise into scratch. */
#include "tensor/cpu/conv_taps.h"
#include <stdlib.h>

typedef struct {
  float *data;         /* NULL: the format is OIHW, use the arena */
  shoal_dnn_call fill; /* OIHW -> data */
  uint64_t version;
  bool filled;
} weights_copy;

typedef struct {
  shoal_op op;
  shoal_dnn_call forward, backward_data, backward_weights;
  weights_copy w_forward, w_backward;
  bool shared;                      /* backward_data reads w_forward */
  shoal_dnn_call x_in;              /* input as it comes -> as the primitives want it; empty if equal */
  shoal_dnn_call dx_out;            /* and the gradient back */
  shoal_dnn_call dw_out;            /* dW -> OIHW */
  size_t x_at, dx_at, dw_at, dy_at; /* scratch offsets; dy_at in saved when dy_saved */
  size_t partial_at;                /* scratch for the bias gradient */
  bool dy_saved;
  shoal_cpu_view y_view;
  shoal_cpu_taps taps; /* instead of backward_weights, for small images */
} conv_op;

static const shoal_dnn *dnn_of(const shoal_op *op)
{
  return &shoal_cpu_of(op)->dnn;
}

static shoal_status run(shoal_op *op, const shoal_dnn_call *c, const shoal_op_args *a, const void *const *p)
{
  SHOAL_TRY(shoal_dnn_call_run(dnn_of(op), c, a->scratch, p));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status weights_of(shoal_op *op, weights_copy *w, const shoal_op_args *a, const float **out)
{
  if (!w->data) {
    *out = a->w[0];
    return SHOAL_OK;
  }
  if (!w->filled || w->version != a->weights_version) {
    SHOAL_TRY(run(op, &w->fill, a, (const void *const[]){ a->w[0], w->data }));
    w->version = a->weights_version;
    w->filled = true;
  }
  *out = w->data;
  return SHOAL_OK;
}

static shoal_status input_of(shoal_op *op, const shoal_op_args *a, const float **out)
{
  conv_op *p = (conv_op *)op;
  float *moved = shoal_cpu_at(a->scratch, p->x_at);
  *out = a->x[0];
  if (!p->x_in.primitive) return SHOAL_OK;
  *out = moved;
  return run(op, &p->x_in, a, (const void *const[]){ a->x[0], moved });
}

static shoal_status conv_forward(shoal_op *op, const shoal_op_args *a)
{
  conv_op *p = (conv_op *)op;
  const float *x, *w;
  SHOAL_TRY(weights_of(op, &p->w_forward, a, &w));
  SHOAL_TRY(input_of(op, a, &x));
  return run(op, &p->forward, a, (const void *const[]){ x, w, a->y, a->w[1] });
}

static float *masked_at(conv_op *p, const shoal_op_args *a)
{
  return shoal_cpu_at(p->dy_saved ? a->saved : a->scratch, p->dy_at);
}

static shoal_status conv_backward_weights(shoal_op *op, const shoal_op_args *a)
{
  conv_op *p = (conv_op *)op;
  const float *x, *dy = a->dy;
  float *dw = p->dw_out.primitive ? shoal_cpu_at(a->scratch, p->dw_at) : a->dw[0];
  if (op->desc.relu) dy = masked_at(p, a);
  if (op->desc.bias)
    shoal_cpu_bias_gradient(shoal_cpu_of(op), &p->y_view, a->dy, op->desc.relu ? a->y : NULL, masked_at(p, a),
                            shoal_cpu_at(a->scratch, p->partial_at), a->dw[1]);
  else if (op->desc.relu)
    shoal_cpu_mask(op, a->dy, a->y, masked_at(p, a));
  if (p->taps.on) return shoal_cpu_taps_run(&p->taps, op, a->x[0], dy, a->scratch, a->dw[0]);
  SHOAL_TRY(input_of(op, a, &x));
  SHOAL_TRY(run(op, &p->backward_weights, a, (const void *const[]){ x, dy, dw }));
  if (p->dw_out.primitive) SHOAL_TRY(run(op, &p->dw_out, a, (const void *const[]){ dw, a->dw[0] }));
  return SHOAL_OK;
}

static shoal_status conv_backward_data(shoal_op *op, const shoal_op_args *a)
{
  conv_op *p = (conv_op *)op;
  const float *w, *dy = op->desc.relu ? masked_at(p, a) : a->dy;
  float *dx = p->dx_out.primitive ? shoal_cpu_at(a->scratch, p->dx_at) : a->dx[0];
  SHOAL_TRY(weights_of(op, p->shared ? &p->w_forward : &p->w_backward, a, &w));
  SHOAL_TRY(run(op, &p->backward_data, a, (const void *const[]){ dy, w, dx }));
  if (p->dx_out.primitive) SHOAL_TRY(run(op, &p->dx_out, a, (const void *const[]){ dx, a->dx[0] }));
  return SHOAL_OK;
}

static void conv_destroy(shoal_op *op)
{
  conv_op *p = (conv_op *)op;
  shoal_dnn_call *calls[] = { &p->forward,         &p->backward_data, &p->backward_weights, &p->w_forward.fill,
                              &p->w_backward.fill, &p->x_in,          &p->dx_out,           &p->dw_out };
  for (size_t i = 0; i < SHOAL_COUNT(calls); i++) shoal_dnn_call_fini(calls[i]);
  free(p->w_forward.data);
  free(p->w_backward.data);
  free(p);
}

/* --- planning --- */

/* Everything a plan creates and drops again: descriptors, and the three primitive descriptors. */
typedef struct {
  shoal_shape w;
  bool winograd;
  shoal_dnn_md x_given, x_any, w_oihw, w_any, bias, y_any;
  dnnl_primitive_desc_t forward, backward_data, backward_weights;
} planning;

static void planning_fini(planning *g)
{
  shoal_dnn_md mds[] = { g->x_given, g->x_any, g->w_oihw, g->w_any, g->bias, g->y_any };
  dnnl_primitive_desc_t pds[] = { g->forward, g->backward_data, g->backward_weights };
  for (size_t i = 0; i < SHOAL_COUNT(mds); i++) shoal_dnn_md_free(mds[i]);
  for (size_t i = 0; i < SHOAL_COUNT(pds); i++)
    if (pds[i]) dnnl_primitive_desc_destroy(pds[i]);
}

static shoal_status planning_init(planning *g, const shoal_op *op)
{
  const shoal_op_desc *d = &op->desc;
  shoal_shape shapes[SHOAL_OP_WEIGHTS];
  shoal_op_weight_shapes(d, shapes);
  g->w = shapes[0];
  SHOAL_TRY(shoal_cpu_md_of(&d->in[0], &op->in_format[0], &g->x_given));
  SHOAL_TRY(shoal_dnn_md_tag(&d->in[0], dnnl_format_tag_any, &g->x_any));
  SHOAL_TRY(shoal_dnn_md_dense(&g->w, &g->w_oihw));
  SHOAL_TRY(shoal_dnn_md_tag(&g->w, dnnl_format_tag_any, &g->w_any));
  if (d->bias) SHOAL_TRY(shoal_dnn_md_dense(&shapes[1], &g->bias));
  return shoal_dnn_md_tag(&d->out, dnnl_format_tag_any, &g->y_any);
}

/* Winograd's algorithm works on tiles of 4x4 outputs and pays when there are channels enough to reuse its transforms. */
static bool suits_winograd(const shoal_op_desc *d)
{
  bool plain3x3 = d->kernel[0] == 3 && d->kernel[1] == 3 && d->stride[0] == 1 && d->stride[1] == 1;
  return plain3x3 && d->out.dim[2] >= 4 && d->out.dim[3] >= 4 && d->in[0].dim[1] >= 32 && d->out.dim[1] >= 32;
}

/* The forward primitive chooses the formats of x and y; the backward ones take them over. */
static shoal_status choose_primitives(const shoal_cpu *b, planning *g, const shoal_op *op)
{
  const shoal_op_desc *d = &op->desc;
  g->winograd = b->winograd && suits_winograd(d);
  shoal_dnn_conv c = { .training = d->training,
                       .relu = d->relu,
                       .winograd = g->winograd,
                       .stride = d->stride,
                       .pad = d->pad,
                       .src = op->in_format[0].dense ? g->x_any : g->x_given,
                       .weights = g->w_any,
                       .bias = g->bias,
                       .dst = g->y_any };
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &c, SHOAL_DNN_FORWARD, NULL, &g->forward));
  if (!d->training) return SHOAL_OK;
  c.bias = NULL; /* its gradient is made with the mask of the relu */
  c.src = shoal_dnn_pd_md(g->forward, DNNL_ARG_SRC);
  c.dst = shoal_dnn_pd_md(g->forward, DNNL_ARG_DST);
  SHOAL_TRY(shoal_dnn_conv_pd(&b->dnn, &c, SHOAL_DNN_BACKWARD_WEIGHTS, g->forward, &g->backward_weights));
  if (!d->need_dx) return SHOAL_OK;
  return shoal_dnn_conv_pd(&b->dnn, &c, SHOAL_DNN_BACKWARD_DATA, g->forward, &g->backward_data);
}

static shoal_status plan_weights(const shoal_cpu *b, shoal_dnn_cmd oihw, shoal_dnn_cmd wanted, weights_copy *w)
{
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, oihw, wanted, &w->fill));
  if (!w->fill.primitive) return SHOAL_OK;
  return shoal_alloc(shoal_dnn_md_bytes(wanted), 1, "blocked copy of convolution weights", (void **)&w->data);
}

static shoal_status plan_forward(shoal_cpu *b, conv_op *p, const planning *g)
{
  shoal_op *op = &p->op;
  shoal_dnn_cmd x = shoal_dnn_pd_md(g->forward, DNNL_ARG_SRC);
  const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS };
  SHOAL_TRY(shoal_cpu_format_of(b, &op->desc.out, shoal_dnn_pd_md(g->forward, DNNL_ARG_DST), &op->out_format));
  SHOAL_TRY(shoal_cpu_view_of_layout(&op->desc.out, shoal_cpu_layout_of(&op->out_format), &p->y_view));
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, g->forward, op->desc.bias ? 4 : 3, args, &p->forward));
  SHOAL_TRY(plan_weights(b, g->w_oihw, shoal_dnn_pd_md(g->forward, DNNL_ARG_WEIGHTS), &p->w_forward));
  /* 1x1 images are dense in every format: nothing to move then. */
  if (op->in_format[0].dense && shoal_dnn_md_is_dense(x, &op->desc.in[0])) return SHOAL_OK;
  return shoal_dnn_call_init_reorder(&b->dnn, g->x_given, x, &p->x_in);
}

static shoal_status plan_backward(shoal_cpu *b, conv_op *p, const planning *g)
{
  const shoal_op_desc *d = &p->op.desc;
  if (!g->winograd) SHOAL_TRY(shoal_cpu_taps_plan(&p->op, &p->op.scratch_bytes, &p->taps));
  const int args[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS };
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, g->backward_weights, 3, args, &p->backward_weights));
  SHOAL_TRY(shoal_dnn_call_init_reorder(&b->dnn, shoal_dnn_pd_md(g->backward_weights, DNNL_ARG_DIFF_WEIGHTS), g->w_oihw,
                                        &p->dw_out));
  if (!d->need_dx) return SHOAL_OK;
  const int data_args[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
  shoal_dnn_cmd w = shoal_dnn_pd_md(g->backward_data, DNNL_ARG_WEIGHTS);
  SHOAL_TRY(shoal_dnn_call_init(&b->dnn, g->backward_data, 3, data_args, &p->backward_data));
  p->shared = shoal_dnn_md_equal(w, shoal_dnn_pd_md(g->forward, DNNL_ARG_WEIGHTS));
  if (!p->shared) SHOAL_TRY(plan_weights(b, g->w_oihw, w, &p->w_backward));
  if (!p->x_in.primitive) return SHOAL_OK;
  return shoal_dnn_call_init_reorder(&b->dnn, shoal_dnn_pd_md(g->backward_data, DNNL_ARG_DIFF_SRC), g->x_given,
                                     &p->dx_out);
}

/* The front of scratch belongs to whichever primitive runs; behind it lies what passes from one to the next. */
static void plan_memory(conv_op *p, const planning *g)
{
  shoal_op *op = &p->op;
  const shoal_dnn_call *calls[] = { &p->forward,         &p->backward_data, &p->backward_weights, &p->w_forward.fill,
                                    &p->w_backward.fill, &p->x_in,          &p->dx_out,           &p->dw_out };
  size_t front = 0;
  for (size_t i = 0; i < SHOAL_COUNT(calls); i++) front = SHOAL_MAX(front, calls[i]->scratch_bytes);
  shoal_cpu_carve(&op->scratch_bytes, front);
  size_t x_bytes = shoal_dnn_md_bytes(shoal_dnn_pd_md(g->forward, DNNL_ARG_SRC));
  /* x is not needed any more when dx is made. */
  if (p->x_in.primitive) p->x_at = p->dx_at = shoal_cpu_carve(&op->scratch_bytes, x_bytes);
  if (p->dw_out.primitive)
    p->dw_at = shoal_cpu_carve(&op->scratch_bytes,
                               shoal_dnn_md_bytes(shoal_dnn_pd_md(g->backward_weights, DNNL_ARG_DIFF_WEIGHTS)));
  if (!op->desc.training) return;
  if (op->desc.bias) p->partial_at = shoal_cpu_carve(&op->scratch_bytes, shoal_cpu_bias_scratch(&p->y_view));
  if (!op->desc.relu) return;
  p->dy_saved = op->desc.need_dx;
  p->dy_at = shoal_cpu_carve(p->dy_saved ? &op->saved_bytes : &op->scratch_bytes, op->out_format.bytes);
}

static shoal_status plan(shoal_cpu *b, conv_op *p, planning *g)
{
  SHOAL_TRY(planning_init(g, &p->op));
  SHOAL_TRY(choose_primitives(b, g, &p->op));
  SHOAL_TRY(plan_forward(b, p, g));
  if (p->op.desc.training) SHOAL_TRY(plan_backward(b, p, g));
  plan_memory(p, g);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_conv(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  conv_op *p;
  planning g = { 0 };
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = conv_destroy;
  op->forward = conv_forward;
  op->backward_weights = conv_backward_weights;
  op->backward_data = conv_backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = d->relu;
  shoal_status st = plan(b, p, &g);
  planning_fini(&g);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  *out = op;
  return SHOAL_OK;
}
