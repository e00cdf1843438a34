/* Inputs that come in other formats than an operation of several inputs works in: reordered into scratch before it, their
 * gradients back behind it. */
#ifndef SHOAL_TENSOR_CPU_MOVES_H
#define SHOAL_TENSOR_CPU_MOVES_H
#include "tensor/cpu/cpu_impl.h"

typedef struct {
  shoal_dnn_call in, out; /* given -> wanted and back; empty: they are equal */
  size_t at;              /* in scratch: the input, or its gradient, as wanted */
} shoal_cpu_move;

/** Plans the moves of all inputs of `op`, whose formats are set, to the formats `wanted` ([inputs]).  Scratch is carved; the array
 *  is freed by `shoal_cpu_moves_free`, in every case. */
shoal_status shoal_cpu_moves_plan(shoal_cpu *b, shoal_op *op, const shoal_format *wanted, shoal_cpu_move **out);
void shoal_cpu_moves_free(const shoal_op *op, shoal_cpu_move *moves);
static inline bool shoal_cpu_is_moved(const shoal_cpu_move *m)
{
  return m->in.primitive != NULL;
}
/** The input in the wanted format. */
shoal_status shoal_cpu_move_in(const shoal_op *op, const shoal_cpu_move *m, const shoal_op_args *a, const float *x,
                               const float **out);
/** Where its gradient is to be written: in scratch if it is moved, else dx itself; NULL if dx is. */
static inline float *shoal_cpu_move_target(const shoal_cpu_move *m, const shoal_op_args *a, float *dx)
{
  return dx && shoal_cpu_is_moved(m) ? shoal_cpu_at(a->scratch, m->at) : dx;
}
/** Brings a gradient of the wanted format to where it belongs, if it is moved and dx not NULL. */
shoal_status shoal_cpu_move_out(const shoal_op *op, const shoal_cpu_move *m, const shoal_op_args *a, const float *from,
                                float *dx);
#endif
