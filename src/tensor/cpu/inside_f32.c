/* Wrapper for operations whose loops compute with f32 memory only, where activations are bf16: what it reads is converted into
 * scratch before each call, what it writes is rounded behind it.
 *
 *   x bf16 --> x f32 --[operation]--> y f32 --> y bf16         (dy, dx likewise)
 *
 * A tensor keeps its layout, padding included, so both conversions are loops in storage order.  An input in f32 (the network's own:
 * images, tokens) is read where it is.  Weights, their gradients, statistics and `saved` are f32, as always. */
#include "tensor/cpu/cpu_impl.h"
#include <stdlib.h>

typedef struct {
  shoal_op op;
  shoal_op *inner;
  size_t inner_at, y_at, dy_at, x_at[SHOAL_OP_INPUTS], dx_at[SHOAL_OP_INPUTS]; /* scratch */
} wrapped_op;

static bool is_half(const shoal_format *f)
{
  return f->elements == SHOAL_ELEMENTS_BF16;
}

static const float *widened(const shoal_op *op, const shoal_format *f, const float *x, float *to)
{
  if (!is_half(f)) return x;
  shoal_cpu_from_bf16(shoal_cpu_of(op), shoal_format_count(f), x, to);
  return to;
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  const wrapped_op *p = (wrapped_op *)op;
  shoal_op_args in = *a;
  in.scratch = shoal_cpu_at(a->scratch, p->inner_at);
  in.y = shoal_cpu_at(a->scratch, p->y_at);
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++)
    in.x[k] = widened(op, &op->in_format[k], a->x[k], shoal_cpu_at(a->scratch, p->x_at[k]));
  SHOAL_TRY(p->inner->forward(p->inner, &in));
  shoal_cpu_to_bf16(shoal_cpu_of(op), shoal_format_count(&op->out_format), in.y, a->y);
  return SHOAL_OK;
}

/* A dx that several inputs share, or that is NULL, stays so. */
static void place_dx(const wrapped_op *p, const shoal_op_args *a, shoal_op_args *in)
{
  for (int k = 0; k < shoal_op_inputs(&p->op.desc); k++) {
    int same = 0;
    while (same < k && a->dx[same] != a->dx[k]) same++;
    if (a->dx[k] && is_half(&p->op.in_format[k])) in->dx[k] = shoal_cpu_at(a->scratch, p->dx_at[same]);
  }
}

static void backward_args(const wrapped_op *p, const shoal_op_args *a, shoal_op_args *in)
{
  const shoal_op *op = &p->op;
  *in = *a;
  in->scratch = shoal_cpu_at(a->scratch, p->inner_at);
  in->dy = widened(op, &op->out_format, a->dy, shoal_cpu_at(a->scratch, p->dy_at));
  in->y = shoal_cpu_at(a->scratch, p->y_at);
  if (op->backward_reads_y) widened(op, &op->out_format, a->y, in->y);
  for (int k = 0; k < shoal_op_inputs(&op->desc) && op->backward_reads_x; k++)
    in->x[k] = widened(op, &op->in_format[k], a->x[k], shoal_cpu_at(a->scratch, p->x_at[k]));
  place_dx(p, a, in);
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  const wrapped_op *p = (wrapped_op *)op;
  shoal_op_args in;
  backward_args(p, a, &in);
  return p->inner->backward_weights(p->inner, &in);
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  const wrapped_op *p = (wrapped_op *)op;
  shoal_op_args in;
  backward_args(p, a, &in);
  SHOAL_TRY(p->inner->backward_data(p->inner, &in));
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++)
    if (a->dx[k] && is_half(&op->in_format[k]))
      shoal_cpu_to_bf16(shoal_cpu_of(op), shoal_format_count(&op->in_format[k]), in.dx[k], a->dx[k]);
  return SHOAL_OK;
}

static void destroy(shoal_op *op)
{
  shoal_op_destroy(((wrapped_op *)op)->inner);
  free(op);
}

static shoal_status same_layout(shoal_cpu *b, const shoal_shape *s, const shoal_format *f, shoal_elements e,
                                shoal_format *out)
{
  return shoal_cpu_format_of_layout(b, s, e, shoal_cpu_layout_of(f), out);
}

static shoal_status plan(shoal_cpu *b, wrapped_op *p, shoal_cpu_planner *planner)
{
  shoal_op *op = &p->op;
  shoal_format in[SHOAL_OP_INPUTS];
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++)
    SHOAL_TRY(same_layout(b, &op->desc.in[k], &op->in_format[k], SHOAL_ELEMENTS_F32, &in[k]));
  SHOAL_TRY(planner(b, &op->desc, in, &p->inner));
  SHOAL_TRY(same_layout(b, &op->desc.out, &p->inner->out_format, SHOAL_ELEMENTS_BF16, &op->out_format));
  p->inner_at = shoal_cpu_carve(&op->scratch_bytes, p->inner->scratch_bytes);
  p->y_at = shoal_cpu_carve(&op->scratch_bytes, p->inner->out_format.bytes);
  if (op->desc.training) p->dy_at = shoal_cpu_carve(&op->scratch_bytes, p->inner->out_format.bytes);
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++) {
    if (!is_half(&op->in_format[k])) continue;
    p->x_at[k] = shoal_cpu_carve(&op->scratch_bytes, in[k].bytes);
    if (op->desc.training && op->desc.need_dx) p->dx_at[k] = shoal_cpu_carve(&op->scratch_bytes, in[k].bytes);
  }
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_inside_f32(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in,
                                       shoal_cpu_planner *planner, shoal_op **out)
{
  wrapped_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = destroy;
  shoal_status st = plan(b, p, planner);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = forward;
  op->backward_weights = p->inner->backward_weights ? backward_weights : NULL;
  op->backward_data = p->inner->backward_data ? backward_data : NULL;
  op->saved_bytes = p->inner->saved_bytes;
  op->backward_reads_x = p->inner->backward_reads_x;
  op->backward_reads_y = p->inner->backward_reads_y;
  op->dw_with_dx = p->inner->dw_with_dx;
  op->y_may_be_x = p->inner->y_may_be_x;
  op->dx_may_be_dy = p->inner->dx_may_be_dy && op->in_format[0].elements == op->out_format.elements;
  *out = op;
  return SHOAL_OK;
}
