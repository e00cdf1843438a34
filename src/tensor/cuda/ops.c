/* Operations that need no library: a launch each, or two.  All tensors are dense. */
#include "tensor/cuda/cuda_impl.h"
#include <stdlib.h>

static void op_free(shoal_op *op)
{
  free(op);
}

shoal_status shoal_cuda_op_new(shoal_cuda *b, const shoal_op_desc *d, size_t bytes, void *out)
{
  shoal_op *op = calloc(1, bytes);
  SHOAL_CHECK(op, SHOAL_ERR_MEM, "plan of one %s", shoal_op_kind_name(d->kind));
  op->desc = *d;
  op->backend = &b->base;
  for (int i = 0; i < shoal_op_inputs(d); i++) op->in_format[i] = shoal_format_dense(&d->in[i], SHOAL_ELEMENTS_F32);
  op->out_format = shoal_format_dense(&d->out, SHOAL_ELEMENTS_F32);
  op->destroy = op_free;
  *(shoal_op **)out = op;
  return SHOAL_OK;
}

static size_t count_of(const shoal_op *op)
{
  return (size_t)shoal_shape_count(&op->desc.out);
}

/* What every operation ends with. */
static shoal_status launched(const shoal_op *op, shoal_status st)
{
  if (st == SHOAL_OK) shoal_backend_poll(op->backend);
  return st;
}

shoal_status shoal_cuda_unmasked(shoal_op *op, const shoal_op_args *a, float *masked, const float **out)
{
  const size_t n = count_of(op);
  *out = op->desc.relu ? masked : a->dy;
  if (!op->desc.relu) return SHOAL_OK;
  return SHOAL_EACH(shoal_cuda_of(op), mask, n, .n = n, .y = a->y, .dy = a->dy, .dx = masked);
}

shoal_status shoal_cuda_bias(shoal_cuda *b, const shoal_cuda_channels *s, const float *bias, bool relu, float *y)
{
  if (!bias && !relu) return SHOAL_OK;
  return SHOAL_EACH(b, bias, s->n, .n = s->n, .channels = s->channels, .plane = s->plane, .relu = relu, .bias = bias,
                    .y = y);
}

shoal_status shoal_cuda_bias_back(shoal_cuda *b, const shoal_cuda_channels *s, const float *dy, float *db)
{
  return SHOAL_BLOCKS(b, bias_back, s->channels, .n = s->n, .channels = s->channels, .plane = s->plane, .dy = dy,
                      .db = db);
}

/* ---- relu, other activations, add, flatten, dropout ---- */

static shoal_status relu_forward(shoal_op *op, const shoal_op_args *a)
{
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), relu, count_of(op), .n = count_of(op), .x = a->x[0], .y = a->y));
}

static shoal_status relu_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), mask, n, .n = n, .y = a->y, .dy = a->dy, .dx = a->dx[0]));
}

static void plan_relu(shoal_op *op)
{
  op->forward = relu_forward;
  op->backward_data = relu_backward;
  op->backward_reads_y = true;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

_Static_assert(SHOAL_OP_HARDSIGMOID - SHOAL_OP_GELU == SHOAL_K_HARDSIGMOID, "kernels.h and op.h");
_Static_assert(SHOAL_OP_LEAKYRELU - SHOAL_OP_GELU == SHOAL_K_LEAKYRELU, "kernels.h and op.h");

static shoal_status curve_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), curve, n, .n = n, .kind = (int)op->desc.kind - SHOAL_OP_GELU,
                                 .slope = op->desc.slope, .x = a->x[0], .y = a->y));
}

static shoal_status curve_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), curve_back, n, .n = n, .kind = (int)op->desc.kind - SHOAL_OP_GELU,
                                 .slope = op->desc.slope, .x = a->x[0], .dy = a->dy, .dx = a->dx[0]));
}

static void plan_curve(shoal_op *op)
{
  op->forward = curve_forward;
  op->backward_data = curve_backward;
  op->backward_reads_x = true;
  op->y_may_be_x = !op->desc.training; /* backward reads x */
  op->dx_may_be_dy = true;
}

static shoal_status add_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  int last = shoal_op_inputs(&op->desc) - 1;
  const float *sum = a->x[0];
  for (int k = 1; k <= last; k++, sum = a->y)
    SHOAL_TRY(SHOAL_EACH(shoal_cuda_of(op), sum, n, .n = n, .relu = op->desc.relu && k == last, .x0 = sum,
                         .x1 = a->x[k], .y = a->y));
  return launched(op, SHOAL_OK);
}

/* Two gradients at a time.  One may lie in dy's place: what is masked twice is masked once. */
static shoal_status add_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  int inputs = shoal_op_inputs(&op->desc);
  for (int k = 0; k < inputs; k += 2)
    SHOAL_TRY(SHOAL_EACH(shoal_cuda_of(op), sum_back, n, .n = n, .y = op->desc.relu ? a->y : NULL, .dy = a->dy,
                         .dx0 = a->dx[k], .dx1 = a->dx[k + 1 < inputs ? k + 1 : k]));
  return launched(op, SHOAL_OK);
}

static void plan_add(shoal_op *op)
{
  op->forward = add_forward;
  op->backward_data = add_backward;
  op->backward_reads_y = op->desc.relu;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

/* How many values of x0 one of x1 is multiplied with, and how many of x1 lie beside each other in a row of x0. */
static size_t plane_of(const shoal_op *op)
{
  return count_of(op) / (size_t)shoal_shape_count(&op->desc.in[1]);
}

static size_t row_of(const shoal_op *op)
{
  const shoal_shape *x0 = &op->desc.in[0];
  return shoal_op_mul_form(&op->desc) == SHOAL_MUL_LAST ? (size_t)x0->dim[x0->ndim - 1] : 1;
}

static shoal_status mul_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), product, n, .n = n, .plane = plane_of(op), .width = row_of(op),
                                 .x = a->x[0], .s = a->x[1], .y = a->y));
}

static shoal_status mul_backward(shoal_op *op, const shoal_op_args *a)
{
  shoal_cuda *b = shoal_cuda_of(op);
  const size_t n = count_of(op), plane = plane_of(op), width = row_of(op);
  SHOAL_TRY(SHOAL_EACH(b, product, n, .n = n, .plane = plane, .width = width, .x = a->dy, .s = a->x[1], .y = a->dx[0]));
  if (plane == 1)
    return launched(op,
                    SHOAL_EACH(b, product, n, .n = n, .plane = 1, .width = 1, .x = a->dy, .s = a->x[0], .y = a->dx[1]));
  return launched(op, SHOAL_BLOCKS(b, product_sum, n / plane, .n = n, .plane = plane, .width = width, .x = a->x[0],
                                   .dy = a->dy, .ds = a->dx[1]));
}

static void plan_mul(shoal_op *op)
{
  op->forward = mul_forward;
  op->backward_data = mul_backward;
  op->backward_reads_x = true;
}

/* Input k of all samples as a rectangle. */
static shoal_tile part_of(const shoal_op *op, int k)
{
  const shoal_op_desc *d = &op->desc;
  const int64_t part = shoal_shape_count(&d->in[k]) / d->in[k].dim[0];
  return (shoal_tile){ .rows = (size_t)d->out.dim[0], .cols = 1, .width = (size_t)part, .grain = 1 };
}

static shoal_status concat_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t whole = count_of(op) / (size_t)op->desc.out.dim[0];
  float *y = a->y;
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++) {
    shoal_tile t = part_of(op, k);
    t.from.stride = t.width;
    t.to.stride = whole;
    SHOAL_TRY(shoal_cuda_copy_tile(op->backend, &t, a->x[k], y));
    y += t.width;
  }
  return launched(op, SHOAL_OK);
}

static shoal_status concat_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t whole = count_of(op) / (size_t)op->desc.out.dim[0];
  const float *dy = a->dy;
  for (int k = 0; k < shoal_op_inputs(&op->desc); k++) {
    shoal_tile t = part_of(op, k);
    t.from.stride = whole;
    t.to.stride = t.width;
    SHOAL_TRY(shoal_cuda_copy_tile(op->backend, &t, dy, a->dx[k]));
    dy += t.width;
  }
  return launched(op, SHOAL_OK);
}

static void plan_concat(shoal_op *op)
{
  op->forward = concat_forward;
  op->backward_data = concat_backward;
}

/* The part of every sample as a rectangle, and in *first where it begins in the whole. */
static shoal_tile range_of(const shoal_op *op, size_t *whole, size_t *first)
{
  const shoal_op_desc *d = &op->desc;
  const size_t each = (size_t)(shoal_shape_count(&d->out) / (d->out.dim[0] * d->out.dim[1]));
  *whole = each * (size_t)d->in[0].dim[1];
  *first = each * (size_t)d->first;
  return (shoal_tile){ .rows = (size_t)d->out.dim[0], .cols = 1, .width = each * (size_t)d->out.dim[1], .grain = 1 };
}

static shoal_status slice_forward(shoal_op *op, const shoal_op_args *a)
{
  size_t whole, first;
  shoal_tile t = range_of(op, &whole, &first);
  t.from.stride = whole;
  t.to.stride = t.width;
  return launched(op, shoal_cuda_copy_tile(op->backend, &t, a->x[0] + first, a->y));
}

static shoal_status slice_backward(shoal_op *op, const shoal_op_args *a)
{
  size_t whole, first;
  shoal_tile t = range_of(op, &whole, &first);
  t.from.stride = t.width;
  t.to.stride = whole;
  SHOAL_TRY(shoal_cuda_fill(op->backend, t.rows * whole, 0, a->dx[0]));
  return launched(op, shoal_cuda_copy_tile(op->backend, &t, a->dy, a->dx[0] + first));
}

static void plan_slice(shoal_op *op)
{
  op->forward = slice_forward;
  op->backward_data = slice_backward;
}

static shoal_status parameter_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t samples = (size_t)op->desc.out.dim[0], each = count_of(op) / samples;
  const shoal_tile t = { .rows = samples, .cols = 1, .width = each, .grain = 1, .to = { .stride = each } };
  return launched(op, shoal_cuda_copy_tile(op->backend, &t, a->w[0], a->y)); /* from: stride 0, one row for all */
}

static shoal_status parameter_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_cuda_channels s = { count_of(op), count_of(op) / (size_t)op->desc.out.dim[0], 1 };
  return launched(op, shoal_cuda_bias_back(shoal_cuda_of(op), &s, a->dy, a->dw[0]));
}

static void plan_parameter(shoal_op *op)
{
  op->forward = parameter_forward;
  op->backward_weights = parameter_backward;
}

static size_t table_width(const shoal_op *op)
{
  return count_of(op) / (size_t)shoal_shape_count(&op->desc.in[0]);
}

static shoal_status embedding_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), table, n, .n = n, .width = table_width(op), .rows = op->desc.rows,
                                 .x = a->x[0], .w = a->w[0], .y = a->y));
}

static shoal_status embedding_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t width = table_width(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), table_back, width, .n = count_of(op), .width = width,
                                 .rows = op->desc.rows, .x = a->x[0], .dy = a->dy, .dw = a->dw[0]));
}

static void plan_embedding(shoal_op *op)
{
  op->forward = embedding_forward;
  op->backward_weights = embedding_backward;
  op->backward_reads_x = true;
}

static shoal_status flatten_forward(shoal_op *op, const shoal_op_args *a)
{
  return shoal_cuda_copy(op->backend, op->out_format.bytes, a->x[0], a->y);
}

static shoal_status flatten_backward(shoal_op *op, const shoal_op_args *a)
{
  return shoal_cuda_copy(op->backend, op->out_format.bytes, a->dy, a->dx[0]);
}

static void plan_flatten(shoal_op *op)
{
  op->forward = flatten_forward;
  op->backward_data = flatten_backward;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

_Static_assert((int)SHOAL_K_DIMS == (int)SHOAL_MAX_DIMS, "kernels.h and shape.h");

static shoal_status transpose(const shoal_op *op, const float *x, float *y, bool back)
{
  const shoal_op_desc *d = &op->desc;
  shoal_k_transpose_args t = { .n = count_of(op), .dims = d->out.ndim, .back = back, .x = x, .y = y };
  int64_t step[SHOAL_MAX_DIMS], all = 1;
  for (int k = d->in[0].ndim - 1; k >= 0; all *= d->in[0].dim[k--]) step[k] = all;
  for (int k = 0; k < d->out.ndim; k++) {
    t.size[k] = d->out.dim[k];
    t.step[k] = step[k ? 1 + d->order[k - 1] : 0];
  }
  return launched(op, shoal_cuda_launch(shoal_cuda_of(op), (const void *)shoal_k_transpose, "transpose",
                                        shoal_cuda_blocks(t.n), &t));
}

static shoal_status transpose_forward(shoal_op *op, const shoal_op_args *a)
{
  return transpose(op, a->x[0], a->y, false);
}

static shoal_status transpose_backward(shoal_op *op, const shoal_op_args *a)
{
  return transpose(op, a->dy, a->dx[0], true);
}

static void plan_transpose(shoal_op *op)
{
  op->forward = transpose_forward;
  op->backward_data = transpose_backward;
}

_Static_assert(sizeof(shoal_k_address) == sizeof(shoal_address), "kernels.h and op.h");
_Static_assert(offsetof(shoal_k_address, step) == offsetof(shoal_address, step), "kernels.h and op.h");
_Static_assert(offsetof(shoal_k_address, slot0) == offsetof(shoal_address, slot0), "kernels.h and op.h");

static shoal_status apply_mask(const shoal_op *op, const shoal_op_args *a, const float *x, float *y)
{
  const size_t n = count_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), dropout, n, .n = n, .per_sample = n / (size_t)op->desc.out.dim[0],
                                 .p = op->desc.p, .keep = 1.0f / (1.0f - op->desc.p), .stream = op->desc.stream,
                                 .at = (const shoal_k_address *)a->at, .x = x, .y = y));
}

static shoal_status dropout_forward(shoal_op *op, const shoal_op_args *a)
{
  return op->desc.training ? apply_mask(op, a, a->x[0], a->y) : flatten_forward(op, a);
}

static shoal_status dropout_backward(shoal_op *op, const shoal_op_args *a)
{
  return apply_mask(op, a, a->dy, a->dx[0]);
}

static void plan_dropout(shoal_op *op)
{
  op->forward = dropout_forward;
  op->backward_data = dropout_backward;
  op->y_may_be_x = op->dx_may_be_dy = true;
}

/* ---- norms ---- */

static shoal_cuda_channels channels_of(const shoal_op_desc *d)
{
  const shoal_shape *x = &d->in[0];
  const int64_t n = shoal_shape_count(x);
  return (shoal_cuda_channels){ (size_t)n, (size_t)x->dim[1], (size_t)(n / (x->dim[0] * x->dim[1])) };
}

static shoal_status batchnorm_forward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  const shoal_cuda_channels s = channels_of(d);
  return launched(op, SHOAL_BLOCKS(shoal_cuda_of(op), batchnorm, s.channels, .n = s.n, .channels = s.channels,
                                   .plane = s.plane, .training = d->training, .relu = d->relu, .eps = (double)d->eps,
                                   .momentum = (double)d->momentum, .x = a->x[0], .scale = a->w[0], .shift = a->w[1],
                                   .y = a->y, .mean = a->stats[0], .var = a->stats[1], .saved = a->saved));
}

static shoal_status batchnorm_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_cuda_channels s = channels_of(&op->desc);
  return launched(op, SHOAL_BLOCKS(shoal_cuda_of(op), batchnorm_back, s.channels, .n = s.n, .channels = s.channels,
                                   .plane = s.plane, .x = a->x[0], .dy = a->dy, .y = op->desc.relu ? a->y : NULL,
                                   .scale = a->w[0], .saved = a->saved, .dx = op->desc.need_dx ? a->dx[0] : NULL,
                                   .dscale = a->dw[0], .dshift = a->dw[1]));
}

static void plan_batchnorm(shoal_op *op)
{
  op->forward = batchnorm_forward;
  op->backward_data = batchnorm_backward;
  op->dw_with_dx = op->backward_reads_x = op->dx_may_be_dy = true;
  op->backward_reads_y = op->desc.relu;
  op->saved_bytes = (size_t)op->desc.in[0].dim[1] * sizeof(shoal_k_moments);
  op->y_may_be_x = !op->desc.training;
}

static size_t width_of(const shoal_op *op)
{
  return (size_t)op->desc.in[0].dim[op->desc.in[0].ndim - 1];
}

static shoal_status layernorm_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t width = width_of(op), rows = count_of(op) / width;
  return launched(op, SHOAL_BLOCKS(shoal_cuda_of(op), layernorm, rows, .rows = rows, .width = width,
                                   .eps = (double)op->desc.eps, .x = a->x[0], .scale = a->w[0], .shift = a->w[1],
                                   .y = a->y, .saved = op->desc.training ? a->saved : NULL));
}

static shoal_status layernorm_backward(shoal_op *op, const shoal_op_args *a)
{
  shoal_cuda *b = shoal_cuda_of(op);
  const size_t width = width_of(op), rows = count_of(op) / width;
  SHOAL_TRY(SHOAL_BLOCKS(b, layernorm_dw, width, .rows = rows, .width = width, .x = a->x[0], .dy = a->dy,
                         .saved = a->saved, .dscale = a->dw[0], .dshift = a->dw[1]));
  return launched(op, SHOAL_BLOCKS(b, layernorm_back, op->desc.need_dx ? rows : 0, .rows = rows, .width = width,
                                   .x = a->x[0], .dy = a->dy, .scale = a->w[0], .saved = a->saved, .dx = a->dx[0]));
}

static void plan_layernorm(shoal_op *op)
{
  op->forward = layernorm_forward;
  op->backward_data = layernorm_backward;
  op->dw_with_dx = op->backward_reads_x = op->dx_may_be_dy = true;
  op->saved_bytes = count_of(op) / width_of(op) * sizeof(shoal_k_moments);
  op->y_may_be_x = !op->desc.training;
}

/* ---- pools ---- */

/* The members that all four kernels of pools have. */
#define POOL(d)                                                                                                        \
  .planes = (d)->in[0].dim[0] * (d)->in[0].dim[1], .h = (d)->in[0].dim[2], .w = (d)->in[0].dim[3],                     \
  .p = (d)->out.dim[2], .q = (d)->out.dim[3], .kernel = { (d)->kernel[0], (d)->kernel[1] },                            \
  .stride = { (d)->stride[0], (d)->stride[1] }, .pad = { (d)->pad[0], (d)->pad[1] }

static size_t inputs_of(const shoal_op *op)
{
  return (size_t)shoal_shape_count(&op->desc.in[0]);
}

static shoal_status maxpool_forward(shoal_op *op, const shoal_op_args *a)
{
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), maxpool, count_of(op), POOL(&op->desc), .x = a->x[0], .y = a->y,
                                 .winner = op->desc.training ? a->saved : NULL));
}

static shoal_status maxpool_backward(shoal_op *op, const shoal_op_args *a)
{
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), maxpool_back, inputs_of(op), POOL(&op->desc), .dy = a->dy,
                                 .winner = a->saved, .dx = a->dx[0]));
}

static void plan_maxpool(shoal_op *op)
{
  op->forward = maxpool_forward;
  op->backward_data = maxpool_backward;
  op->saved_bytes = count_of(op) * sizeof(int32_t);
}

static shoal_status avgpool_forward(shoal_op *op, const shoal_op_args *a)
{
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), avgpool, count_of(op), POOL(&op->desc),
                                 .count_pad = op->desc.count_pad, .x = a->x[0], .y = a->y));
}

static shoal_status avgpool_backward(shoal_op *op, const shoal_op_args *a)
{
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), avgpool_back, inputs_of(op), POOL(&op->desc),
                                 .count_pad = op->desc.count_pad, .dy = a->dy, .dx = a->dx[0]));
}

static void plan_avgpool(shoal_op *op)
{
  op->forward = avgpool_forward;
  op->backward_data = avgpool_backward;
}

static shoal_status globalpool_forward(shoal_op *op, const shoal_op_args *a)
{
  const size_t planes = count_of(op), plane = inputs_of(op) / planes;
  return launched(op, SHOAL_BLOCKS(shoal_cuda_of(op), globalpool, planes, .planes = planes, .plane = plane,
                                   .x = a->x[0], .y = a->y));
}

static shoal_status globalpool_backward(shoal_op *op, const shoal_op_args *a)
{
  const size_t n = inputs_of(op);
  return launched(op, SHOAL_EACH(shoal_cuda_of(op), globalpool_back, n, .n = n, .plane = n / count_of(op), .dy = a->dy,
                                 .dx = a->dx[0]));
}

static void plan_globalpool(shoal_op *op)
{
  op->forward = globalpool_forward;
  op->backward_data = globalpool_backward;
}

/* ---- the list ---- */

typedef void planner(shoal_op *op);
static planner *const planners[SHOAL_OP_COUNT] = {
  [SHOAL_OP_BATCHNORM] = plan_batchnorm,
  [SHOAL_OP_LAYERNORM] = plan_layernorm,
  [SHOAL_OP_RELU] = plan_relu,
  [SHOAL_OP_GELU] = plan_curve,
  [SHOAL_OP_GELU_TANH] = plan_curve,
  [SHOAL_OP_SIGMOID] = plan_curve,
  [SHOAL_OP_TANH] = plan_curve,
  [SHOAL_OP_SILU] = plan_curve,
  [SHOAL_OP_LEAKYRELU] = plan_curve,
  [SHOAL_OP_RELU6] = plan_curve,
  [SHOAL_OP_HARDSWISH] = plan_curve,
  [SHOAL_OP_HARDSIGMOID] = plan_curve,
  [SHOAL_OP_MAXPOOL] = plan_maxpool,
  [SHOAL_OP_AVGPOOL] = plan_avgpool,
  [SHOAL_OP_GLOBALPOOL] = plan_globalpool,
  [SHOAL_OP_ADD] = plan_add,
  [SHOAL_OP_MUL] = plan_mul,
  [SHOAL_OP_CONCAT] = plan_concat,
  [SHOAL_OP_SLICE] = plan_slice,
  [SHOAL_OP_FLATTEN] = plan_flatten,
  [SHOAL_OP_RESHAPE] = plan_flatten,
  [SHOAL_OP_TRANSPOSE] = plan_transpose,
  [SHOAL_OP_PARAMETER] = plan_parameter,
  [SHOAL_OP_EMBEDDING] = plan_embedding,
  [SHOAL_OP_DROPOUT] = plan_dropout,
};

static shoal_status plan(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  if (d->kind == SHOAL_OP_LINEAR) return shoal_cuda_plan_linear(b, d, out);
  if (d->kind == SHOAL_OP_CONV) return shoal_cuda_plan_conv(b, d, out);
  if (d->kind == SHOAL_OP_ATTENTION) return shoal_cuda_plan_attention(b, d, out);
  shoal_op *op;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *op, &op));
  planners[d->kind](op);
  *out = op;
  return SHOAL_OK;
}

shoal_status shoal_cuda_op_create(shoal_backend *base, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  for (int i = 0; in && i < shoal_op_inputs(d); i++)
    SHOAL_CHECK(shoal_format_plain(&in[i]), SHOAL_ERR_ARG,
                "%s: input %d comes in a format of another backend; backend cuda reads dense tensors only",
                shoal_op_kind_name(d->kind), i);
  shoal_op *op;
  SHOAL_TRY(plan((shoal_cuda *)base, d, &op));
  if (!d->training) {
    op->backward_weights = op->backward_data = NULL;
    op->dw_with_dx = op->backward_reads_x = op->backward_reads_y = false;
    op->saved_bytes = 0;
  }
  if (!d->need_dx && !op->dw_with_dx) op->backward_data = NULL;
  *out = op;
  return SHOAL_OK;
}
