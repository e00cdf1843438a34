/* Wrapper for operations on the last dimension (linear, layer norm), which read dense tensors only.  If the producer's
 * format is blocked, the input is reordered into scratch before each call and its gradient back afterwards.  The
 * built-in networks never need it, because flatten or globalpool comes before; with it every operation accepts every
 * format. */
#include "tensor/cpu/cpu_impl.h"
#include <stdlib.h>

typedef struct {
  shoal_op op;
  shoal_op *inner;
  shoal_dnn_call to_dense, from_dense;
  size_t inner_at, x_at, dx_at; /* scratch */
} wrapped_op;

typedef shoal_status step(shoal_op *op, const shoal_op_args *a);

static shoal_status run(shoal_op *op, const shoal_op_args *a, step *inner, bool reads_x, bool writes_dx)
{
  wrapped_op *p = (wrapped_op *)op;
  const shoal_dnn *d = &shoal_cpu_of(op)->dnn;
  float *x = shoal_cpu_at(a->scratch, p->x_at), *dx = shoal_cpu_at(a->scratch, p->dx_at);
  shoal_op_args b = *a;
  b.scratch = shoal_cpu_at(a->scratch, p->inner_at);
  b.x[0] = x;
  b.dx[0] = writes_dx ? dx : NULL;
  if (reads_x) SHOAL_TRY(shoal_dnn_call_run(d, &p->to_dense, a->scratch, (const void *const[]){ a->x[0], x }));
  SHOAL_TRY(inner(p->inner, &b));
  if (!writes_dx) return SHOAL_OK;
  return shoal_dnn_call_run(d, &p->from_dense, a->scratch, (const void *const[]){ dx, a->dx[0] });
}

static shoal_status wrapped_forward(shoal_op *op, const shoal_op_args *a)
{
  return run(op, a, ((wrapped_op *)op)->inner->forward, true, false);
}

static shoal_status wrapped_backward_weights(shoal_op *op, const shoal_op_args *a)
{
  return run(op, a, ((wrapped_op *)op)->inner->backward_weights, true, false);
}

static shoal_status wrapped_backward_data(shoal_op *op, const shoal_op_args *a)
{
  shoal_op *inner = ((wrapped_op *)op)->inner;
  return run(op, a, inner->backward_data, inner->dw_with_dx, op->desc.need_dx);
}

static void wrapped_destroy(shoal_op *op)
{
  wrapped_op *p = (wrapped_op *)op;
  shoal_dnn_call_fini(&p->to_dense);
  shoal_dnn_call_fini(&p->from_dense);
  shoal_op_destroy(p->inner);
  free(p);
}

static shoal_status plan(shoal_cpu *b, wrapped_op *p, shoal_cpu_planner *planner)
{
  shoal_op *op = &p->op;
  const shoal_shape *s = &op->desc.in[0];
  shoal_status st;
  shoal_format dense[SHOAL_OP_INPUTS] = { shoal_format_dense(s, op->in_format[0].elements) };
  shoal_dnn_md blocked = NULL, plain = NULL;
  SHOAL_TRY(planner(b, &op->desc, dense, &p->inner));
  SHOAL_TRY_GOTO(st, shoal_cpu_md_of(s, &op->in_format[0], &blocked), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_md_dense(s, dense[0].elements, &plain), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, blocked, plain, &p->to_dense), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, plain, blocked, &p->from_dense), done);
  shoal_cpu_carve(&op->scratch_bytes, SHOAL_MAX(p->to_dense.scratch_bytes, p->from_dense.scratch_bytes));
  p->inner_at = shoal_cpu_carve(&op->scratch_bytes, p->inner->scratch_bytes);
  p->x_at = shoal_cpu_carve(&op->scratch_bytes, dense[0].bytes);
  p->dx_at = shoal_cpu_carve(&op->scratch_bytes, dense[0].bytes);
done:
  shoal_dnn_md_free(blocked);
  shoal_dnn_md_free(plain);
  return st;
}

shoal_status shoal_cpu_plan_dense_wrapper(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in,
                                          shoal_cpu_planner *planner, shoal_op **out)
{
  wrapped_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = wrapped_destroy;
  shoal_status st = plan(b, p, planner);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = wrapped_forward;
  op->backward_weights = p->inner->backward_weights ? wrapped_backward_weights : NULL;
  op->backward_data = p->inner->backward_data ? wrapped_backward_data : NULL;
  op->out_format = p->inner->out_format;
  op->saved_bytes = p->inner->saved_bytes;
  op->backward_reads_x = p->inner->backward_reads_x;
  op->backward_reads_y = p->inner->backward_reads_y;
  op->dw_with_dx = p->inner->dw_with_dx;
  *out = op;
  return SHOAL_OK;
}
