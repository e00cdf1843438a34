/* See moves.h. */
#include "tensor/cpu/moves.h"
#include <stdlib.h>

static shoal_status plan_move(shoal_cpu *b, shoal_op *op, int k, const shoal_format *wanted, shoal_cpu_move *m)
{
  shoal_status st;
  shoal_dnn_md given = NULL, as = NULL;
  if (shoal_format_equal(&op->in_format[k], wanted)) return SHOAL_OK;
  SHOAL_TRY_GOTO(st, shoal_cpu_md_of(&op->desc.in[k], &op->in_format[k], &given), done);
  SHOAL_TRY_GOTO(st, shoal_cpu_md_of(&op->desc.in[k], wanted, &as), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, given, as, &m->in), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, as, given, &m->out), done);
  op->scratch_bytes = SHOAL_MAX(op->scratch_bytes, SHOAL_MAX(m->in.scratch_bytes, m->out.scratch_bytes));
done:
  shoal_dnn_md_free(given);
  shoal_dnn_md_free(as);
  return st;
}

/* The front of scratch is the workspace of the reorder that runs. */
shoal_status shoal_cpu_moves_plan(shoal_cpu *b, shoal_op *op, const shoal_format *wanted, shoal_cpu_move **out)
{
  int n = shoal_op_inputs(&op->desc);
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, out));
  for (int k = 0; k < n; k++) SHOAL_TRY(plan_move(b, op, k, &wanted[k], &(*out)[k]));
  for (int k = 0; k < n; k++)
    if (shoal_cpu_is_moved(&(*out)[k])) (*out)[k].at = shoal_cpu_carve(&op->scratch_bytes, wanted[k].bytes);
  return SHOAL_OK;
}

void shoal_cpu_moves_free(const shoal_op *op, shoal_cpu_move *moves)
{
  for (int k = 0; moves && k < shoal_op_inputs(&op->desc); k++) {
    shoal_dnn_call_fini(&moves[k].in);
    shoal_dnn_call_fini(&moves[k].out);
  }
  free(moves);
}

shoal_status shoal_cpu_move_in(const shoal_op *op, const shoal_cpu_move *m, const shoal_op_args *a, const float *x,
                               const float **out)
{
  *out = x;
  if (!shoal_cpu_is_moved(m)) return SHOAL_OK;
  float *moved = shoal_cpu_at(a->scratch, m->at);
  *out = moved;
  return shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, &m->in, a->scratch, (const void *const[]){ x, moved });
}

shoal_status shoal_cpu_move_out(const shoal_op *op, const shoal_cpu_move *m, const shoal_op_args *a, const float *from,
                                float *dx)
{
  if (!dx || !shoal_cpu_is_moved(m)) return SHOAL_OK;
  return shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, &m->out, a->scratch, (const void *const[]){ from, dx });
}
