/* Execution of convolutions by oneDNN, including the reorders that keep the weight arena canonical.
 *
 * Activations stay in the format that oneDNN prefers (nChw16c on AVX-512); a dense input of an inner layer is
 * reordered into scratch.  The weights in the arena are OIHW; oneDNN is faster with its blocked format, so the plan
 * keeps a copy, refreshed when weights_version shows that the arena has changed:
 *
 *   arena w (OIHW) --reorder--> copy   --forward, backward_data-->
 *   arena dw       <--reorder-- scratch <--backward_weights--
 *
 * A large batch is processed in pieces of a few images, because one primitive over all of it can take 40 ms, without a
 * poll of the network.  The dW of the pieces are added in order.
 *
 * With bf16 the same holds, without Winograd and taps: activations, their gradients and the copies of the weights are bf16, dW and
 * the bias f32, so that both reorders also convert.
 *
 * A relu runs over a piece of y right behind its primitive, while it is in the cache: oneDNN's own, fused into the
 * primitive, turns NaN into 0, and training goes on as if nothing were wrong (docs/numbers.md).  Backward needs dy as it
 * was before the relu: backward_weights computes it once, together with the gradient of the bias, into `saved` if
 * backward_data needs it again, otherwise into scratch. */
#include "tensor/cpu/conv.h"
#include <stdlib.h>

static shoal_status run(shoal_op *op, const shoal_dnn_call *c, const shoal_op_args *a, const void *const *p)
{
  SHOAL_TRY(shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, c, a->scratch, p));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status weights_of(shoal_op *op, shoal_cpu_weights *w, const shoal_op_args *a, const void **out)
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

static const void *piece_of(const void *x, int64_t piece, int64_t step)
{
  return (const char *)x + piece * step;
}

static shoal_status input_of(shoal_op *op, const shoal_cpu_pieces *cut, const shoal_op_args *a, int64_t piece,
                             const void **out)
{
  const shoal_cpu_conv *p = (shoal_cpu_conv *)op;
  const void *x = piece_of(a->x[0], piece, cut->x_step);
  void *moved = shoal_cpu_at(a->scratch, p->moved_at), *packed = shoal_cpu_at(a->scratch, p->packed_at);
  if (cut->x_in.primitive) {
    SHOAL_TRY(run(op, &cut->x_in, a, (const void *const[]){ x, moved }));
    x = moved;
  }
  if (cut->x_sample.primitive) {
    SHOAL_TRY(run(op, &cut->x_sample, a, (const void *const[]){ x, packed }));
    x = packed;
  }
  *out = x;
  return SHOAL_OK;
}

static void relu_in_place(const shoal_op *op, size_t bytes, void *y)
{
  shoal_cpu *b = shoal_cpu_of(op);
  if (op->out_format.elements == SHOAL_ELEMENTS_BF16)
    shoal_cpu_mask_bf16(b, bytes / sizeof(uint16_t), y, y, y);
  else
    shoal_cpu_relu(b, bytes / sizeof(float), y);
}

static shoal_status conv_forward(shoal_op *op, const shoal_op_args *a)
{
  shoal_cpu_conv *p = (shoal_cpu_conv *)op;
  const void *x, *w;
  SHOAL_TRY(weights_of(op, &p->w_forward, a, &w));
  for (int64_t i = 0; i < p->data.count; i++) {
    SHOAL_TRY(input_of(op, &p->data, a, i, &x));
    void *y = shoal_cpu_at(a->y, (size_t)(i * p->data.y_step));
    SHOAL_TRY(run(op, &p->forward, a, (const void *const[]){ x, w, y, a->w[1] }));
    if (op->desc.relu) relu_in_place(op, (size_t)p->data.y_step, y);
  }
  return SHOAL_OK;
}

void shoal_cpu_conv_end_plan(shoal_op *op, shoal_cpu_conv_end *e)
{
  if (op->desc.bias) e->partial_at = shoal_cpu_carve(&op->scratch_bytes, shoal_cpu_bias_scratch(&e->y));
  if (!op->desc.relu) return;
  e->dy_saved = op->desc.need_dx;
  e->dy_at = shoal_cpu_carve(e->dy_saved ? &op->saved_bytes : &op->scratch_bytes, op->out_format.bytes);
}

static float *masked_at(const shoal_cpu_conv_end *e, const shoal_op_args *a)
{
  return shoal_cpu_at(e->dy_saved ? a->saved : a->scratch, e->dy_at);
}

const float *shoal_cpu_conv_end_again(const shoal_op *op, const shoal_cpu_conv_end *e, const shoal_op_args *a)
{
  return op->desc.relu ? masked_at(e, a) : a->dy;
}

const float *shoal_cpu_conv_end_back(shoal_op *op, const shoal_cpu_conv_end *e, const shoal_op_args *a)
{
  bool relu = op->desc.relu;
  if (op->desc.bias)
    shoal_cpu_bias_gradient(shoal_cpu_of(op), &e->y, op->out_format.elements, a->dy, relu ? a->y : NULL,
                            masked_at(e, a), shoal_cpu_at(a->scratch, e->partial_at), a->dw[1]);
  else if (relu && op->out_format.elements == SHOAL_ELEMENTS_BF16)
    shoal_cpu_mask_bf16(shoal_cpu_of(op), shoal_format_count(&op->out_format), a->dy, a->y, masked_at(e, a));
  else if (relu)
    shoal_cpu_mask(op, a->dy, a->y, masked_at(e, a));
  return shoal_cpu_conv_end_again(op, e, a);
}

static shoal_status conv_backward_weights(shoal_op *op, const shoal_op_args *a)
{
  shoal_cpu_conv *p = (shoal_cpu_conv *)op;
  const float *dy = shoal_cpu_conv_end_back(op, &p->end, a);
  const void *x;
  if (!a->dw[0]) return SHOAL_OK;
  if (p->taps.on) return shoal_cpu_taps_run(&p->taps, op, a->x[0], dy, a->scratch, a->dw[0]);
  float *sum = p->dw_out.primitive ? shoal_cpu_at(a->scratch, p->dw_at) : a->dw[0];
  float *more = shoal_cpu_at(a->scratch, p->dw_more_at);
  for (int64_t i = 0; i < p->weights.count; i++) {
    SHOAL_TRY(input_of(op, &p->weights, a, i, &x));
    const void *const at[] = { x, piece_of(dy, i, p->weights.y_step), i == 0 ? sum : more };
    SHOAL_TRY(run(op, &p->backward_weights, a, at));
    if (i > 0) SHOAL_TRY(shoal_cpu_add(op->backend, p->dw_floats, more, sum));
  }
  if (p->dw_out.primitive) SHOAL_TRY(run(op, &p->dw_out, a, (const void *const[]){ sum, a->dw[0] }));
  return SHOAL_OK;
}

static shoal_status conv_backward_data(shoal_op *op, const shoal_op_args *a)
{
  shoal_cpu_conv *p = (shoal_cpu_conv *)op;
  const float *dy = shoal_cpu_conv_end_again(op, &p->end, a);
  const void *w;
  SHOAL_TRY(weights_of(op, p->shared ? &p->w_forward : &p->w_backward, a, &w));
  for (int64_t i = 0; i < p->data.count; i++) {
    void *wanted = shoal_cpu_at(a->dx[0], (size_t)(i * p->data.x_step));
    void *dx = p->dx_out.primitive ? shoal_cpu_at(a->scratch, p->moved_at) : wanted;
    SHOAL_TRY(run(op, &p->backward_data, a, (const void *const[]){ piece_of(dy, i, p->data.y_step), w, dx }));
    if (p->dx_out.primitive) SHOAL_TRY(run(op, &p->dx_out, a, (const void *const[]){ dx, wanted }));
  }
  return SHOAL_OK;
}

static void conv_destroy(shoal_op *op)
{
  shoal_cpu_conv *p = (shoal_cpu_conv *)op;
  shoal_dnn_call *calls[] = { &p->forward,      &p->backward_data,   &p->backward_weights, &p->dx_out,
                              &p->dw_out,       &p->w_forward.fill,  &p->w_backward.fill,  &p->data.x_in,
                              &p->weights.x_in, &p->weights.x_sample };
  for (size_t i = 0; i < SHOAL_COUNT(calls); i++) shoal_dnn_call_fini(calls[i]);
  free(p->w_forward.data);
  free(p->w_backward.data);
  free(p);
}

shoal_status shoal_cpu_plan_conv(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  shoal_cpu_conv *p;
  if (shoal_cpu_suits_winograd(b, d)) return shoal_cpu_plan_winograd(b, d, in, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  if (op->in_format[0].dense) op->in_format[0] = shoal_format_dense(&d->in[0], b->elements);
  op->destroy = conv_destroy;
  op->forward = conv_forward;
  op->backward_weights = conv_backward_weights;
  op->backward_data = conv_backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = d->relu;
  shoal_status st = shoal_cpu_conv_plan(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  *out = op;
  return SHOAL_OK;
}
