/* Pointwise operations: relu, add; and flatten, reshape and transpose, which give dense tensors.
 *
 * A relu passes NaN on, forward and backward, like everything that is not <= 0.
 *
 * They process the memory of a format in storage order, padding included: padding zeros give zeros.  Add uses the
 * format of its first blocked input; an input in another format is reordered. */
#include "tensor/cpu/moves.h"
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 1024 };

typedef struct {
  const float *a, *b;
  float *y, *z;
} pointers;

static void run(const shoal_op *op, int streams, shoal_cpu_range *f, pointers p)
{
  shoal_cpu_parallel(shoal_cpu_of(op), op->out_format.bytes / sizeof(float), GRAIN, (size_t)streams * sizeof(float), f,
                     &p);
}

SHOAL_CPU_KERNEL static void relu_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const float *x = p->a;
  float *y = p->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) y[i] = x[i] <= 0 ? 0.0f : x[i];
}

/* dx = y <= 0 ? 0 : dy */
SHOAL_CPU_KERNEL static void mask_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const float *dy = p->a, *y = p->b;
  float *dx = p->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) dx[i] = y[i] <= 0 ? 0.0f : dy[i];
}

SHOAL_CPU_KERNEL static void mask_twice_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const float *dy = p->a, *y = p->b;
  float *dx0 = p->y, *dx1 = p->z;
#pragma omp simd
  for (size_t i = begin; i < end; i++) {
    float d = y[i] <= 0 ? 0.0f : dy[i];
    dx0[i] = d;
    dx1[i] = d;
  }
}

void shoal_cpu_relu(shoal_cpu *b, size_t n, float *y)
{
  pointers p = { .a = y, .y = y };
  shoal_cpu_parallel(b, n, GRAIN, 2 * sizeof(float), relu_range, &p);
}

static shoal_status relu_forward(shoal_op *op, const shoal_op_args *a)
{
  run(op, 2, relu_range, (pointers){ .a = a->x[0], .y = a->y });
  return SHOAL_OK;
}

void shoal_cpu_mask(const shoal_op *op, const float *dy, const float *y, float *dx)
{
  run(op, 3, mask_range, (pointers){ .a = dy, .b = y, .y = dx });
}

static shoal_status relu_backward(shoal_op *op, const shoal_op_args *a)
{
  shoal_cpu_mask(op, a->dy, a->y, a->dx[0]);
  return SHOAL_OK;
}

shoal_status shoal_cpu_plan_relu(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  shoal_op *op;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *op, &op));
  op->out_format = op->in_format[0];
  op->forward = relu_forward;
  op->backward_data = relu_backward;
  op->backward_reads_y = true;
  op->y_may_be_x = op->dx_may_be_dy = true;
  *out = op;
  return SHOAL_OK;
}

/* --- add --- */
typedef struct {
  shoal_op op;
  shoal_cpu_move *moves;
} add_op;

SHOAL_CPU_KERNEL static void add_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const float *a = p->a, *b = p->b;
  float *y = p->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) y[i] = a[i] + b[i];
}

SHOAL_CPU_KERNEL static void add_relu_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const float *a = p->a, *b = p->b;
  float *y = p->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) {
    float sum = a[i] + b[i];
    y[i] = sum <= 0 ? 0.0f : sum;
  }
}

SHOAL_CPU_KERNEL static void copy_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  memmove(p->y + begin, p->a + begin, (end - begin) * sizeof(float));
}

static shoal_status add_forward(shoal_op *op, const shoal_op_args *a)
{
  const add_op *p = (add_op *)op;
  const float *sum, *x;
  int last = shoal_op_inputs(&op->desc) - 1;
  SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[0], a, a->x[0], &sum));
  for (int k = 1; k <= last; k++, sum = a->y) {
    SHOAL_TRY(shoal_cpu_move_in(op, &p->moves[k], a, a->x[k], &x));
    run(op, 3, op->desc.relu && k == last ? add_relu_range : add_range, (pointers){ .a = sum, .b = x, .y = a->y });
  }
  return SHOAL_OK;
}

/* All inputs get the same gradient.  One that is NULL is not needed, several may be one, and any may be dy itself, which is then
 * masked in place: what is masked twice is masked once. */
static shoal_status add_backward(shoal_op *op, const shoal_op_args *a)
{
  const add_op *p = (add_op *)op;
  int inputs = shoal_op_inputs(&op->desc), n = 0;
  float *to[SHOAL_OP_INPUTS];
  for (int k = 0; k < inputs; k++) {
    float *dx = shoal_cpu_move_target(&p->moves[k], a, a->dx[k]);
    int j = 0;
    while (j < n && to[j] != dx) j++;
    if (dx && j == n) to[n++] = dx;
  }
  for (int k = 0; k < n; k += op->desc.relu ? 2 : 1)
    if (op->desc.relu && k + 1 < n)
      run(op, 4, mask_twice_range, (pointers){ .a = a->dy, .b = a->y, .y = to[k], .z = to[k + 1] });
    else if (op->desc.relu)
      shoal_cpu_mask(op, a->dy, a->y, to[k]);
    else if (to[k] != a->dy)
      run(op, 2, copy_range, (pointers){ .a = a->dy, .y = to[k] });
  for (int k = 0; k < inputs; k++)
    SHOAL_TRY(shoal_cpu_move_out(op, &p->moves[k], a, shoal_cpu_move_target(&p->moves[k], a, a->dx[k]), a->dx[k]));
  return SHOAL_OK;
}

static void add_destroy(shoal_op *op)
{
  shoal_cpu_moves_free(op, ((add_op *)op)->moves);
  free(op);
}

shoal_status shoal_cpu_plan_add(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  add_op *p;
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  int inputs = shoal_op_inputs(d), blocked = 0;
  shoal_format wanted[SHOAL_OP_INPUTS];
  while (blocked < inputs - 1 && op->in_format[blocked].dense) blocked++;
  op->out_format = op->in_format[blocked];
  for (int k = 0; k < inputs; k++) wanted[k] = op->out_format;
  op->destroy = add_destroy;
  shoal_status st = shoal_cpu_moves_plan(b, op, wanted, &p->moves);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  bool moved = false;
  for (int k = 0; k < inputs; k++) moved |= shoal_cpu_is_moved(&p->moves[k]);
  op->forward = add_forward;
  op->backward_data = add_backward;
  op->backward_reads_y = d->relu;
  op->y_may_be_x = op->dx_may_be_dy = !moved;
  *out = op;
  return SHOAL_OK;
}

/* --- flatten, reshape, transpose: a reorder, or nothing --- */
typedef struct {
  shoal_op op;
  shoal_dnn_call to, from; /* empty: the values are in order already */
} flatten_op;

static shoal_status flatten_move(shoal_op *op, const shoal_dnn_call *call, const float *x, float *y, void *scratch)
{
  if (call->primitive)
    SHOAL_TRY(shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, call, scratch, (const void *const[]){ x, y }));
  else if (x != y)
    run(op, 2, copy_range, (pointers){ .a = x, .y = y });
  return SHOAL_OK;
}

static shoal_status flatten_forward(shoal_op *op, const shoal_op_args *a)
{
  return flatten_move(op, &((flatten_op *)op)->to, a->x[0], a->y, a->scratch);
}

static shoal_status flatten_backward(shoal_op *op, const shoal_op_args *a)
{
  return flatten_move(op, &((flatten_op *)op)->from, a->dy, a->dx[0], a->scratch);
}

static void flatten_destroy(shoal_op *op)
{
  flatten_op *p = (flatten_op *)op;
  shoal_dnn_call_fini(&p->to);
  shoal_dnn_call_fini(&p->from);
  free(p);
}

/* A dense input seen as the output, with its elements where they are. */
static shoal_status transposed_md(const shoal_op_desc *d, shoal_dnn_md *out)
{
  int64_t stride[SHOAL_MAX_DIMS] = { 0 }, step[SHOAL_MAX_DIMS], all = 1;
  for (int k = d->in[0].ndim - 1; k >= 0; all *= d->in[0].dim[k--]) step[k] = all;
  stride[0] = step[0];
  for (int k = 1; k < d->out.ndim; k++) stride[k] = step[1 + d->order[k - 1]];
  return shoal_dnn_md_strided(&d->out, SHOAL_ELEMENTS_F32, stride, out);
}

static shoal_status plan_moves(shoal_cpu *b, flatten_op *p)
{
  shoal_op *op = &p->op;
  shoal_status st;
  shoal_dnn_md in = NULL, dense = NULL;
  bool turns = op->desc.kind == SHOAL_OP_TRANSPOSE;
  st = turns ? transposed_md(&op->desc, &in) : shoal_cpu_md_of(&op->desc.in[0], &op->in_format[0], &in);
  if (st == SHOAL_OK) st = shoal_dnn_md_dense(turns ? &op->desc.out : &op->desc.in[0], SHOAL_ELEMENTS_F32, &dense);
  if (st != SHOAL_OK) goto done;
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, in, dense, &p->to), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init_reorder(&b->dnn, dense, in, &p->from), done);
  op->scratch_bytes = SHOAL_MAX(p->to.scratch_bytes, p->from.scratch_bytes);
done:
  shoal_dnn_md_free(in);
  shoal_dnn_md_free(dense);
  return st;
}

shoal_status shoal_cpu_plan_flatten(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  flatten_op *p;
  if (d->kind == SHOAL_OP_TRANSPOSE && in && in[0].bytes && !in[0].dense)
    return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_flatten, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  op->destroy = flatten_destroy;
  shoal_status st = plan_moves(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  op->forward = flatten_forward;
  op->backward_data = flatten_backward;
  op->y_may_be_x = op->dx_may_be_dy = !p->to.primitive;
  *out = op;
  return SHOAL_OK;
}
