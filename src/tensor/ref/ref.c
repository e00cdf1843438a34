/* Function table of the reference backend and creation of its operations: one planner per kind, one struct for all.
 * Formats are always dense, so conversion to and from dense is a copy. */
#include "tensor/ref/ref.h"
#include "base/mem.h"
#include "tensor/host.h"
#include "tensor/ref/ref_impl.h"
#include <stdlib.h>
#include <string.h>

typedef void planner(shoal_op *op);

static planner *const planners[SHOAL_OP_COUNT] = {
  [SHOAL_OP_LINEAR] = shoal_ref_plan_linear,
  [SHOAL_OP_CONV] = shoal_ref_plan_conv,
  [SHOAL_OP_BATCHNORM] = shoal_ref_plan_batchnorm,
  [SHOAL_OP_LAYERNORM] = shoal_ref_plan_layernorm,
  [SHOAL_OP_RELU] = shoal_ref_plan_relu,
  [SHOAL_OP_GELU] = shoal_ref_plan_curve,
  [SHOAL_OP_GELU_TANH] = shoal_ref_plan_curve,
  [SHOAL_OP_SIGMOID] = shoal_ref_plan_curve,
  [SHOAL_OP_TANH] = shoal_ref_plan_curve,
  [SHOAL_OP_SILU] = shoal_ref_plan_curve,
  [SHOAL_OP_LEAKYRELU] = shoal_ref_plan_curve,
  [SHOAL_OP_RELU6] = shoal_ref_plan_curve,
  [SHOAL_OP_HARDSWISH] = shoal_ref_plan_curve,
  [SHOAL_OP_HARDSIGMOID] = shoal_ref_plan_curve,
  [SHOAL_OP_MAXPOOL] = shoal_ref_plan_maxpool,
  [SHOAL_OP_AVGPOOL] = shoal_ref_plan_avgpool,
  [SHOAL_OP_GLOBALPOOL] = shoal_ref_plan_globalpool,
  [SHOAL_OP_ADD] = shoal_ref_plan_add,
  [SHOAL_OP_MUL] = shoal_ref_plan_mul,
  [SHOAL_OP_CONCAT] = shoal_ref_plan_concat,
  [SHOAL_OP_SLICE] = shoal_ref_plan_slice,
  [SHOAL_OP_FLATTEN] = shoal_ref_plan_flatten,
  [SHOAL_OP_RESHAPE] = shoal_ref_plan_flatten,
  [SHOAL_OP_TRANSPOSE] = shoal_ref_plan_transpose,
  [SHOAL_OP_PARAMETER] = shoal_ref_plan_parameter,
  [SHOAL_OP_EMBEDDING] = shoal_ref_plan_embedding,
  [SHOAL_OP_ATTENTION] = shoal_ref_plan_attention,
  [SHOAL_OP_DROPOUT] = shoal_ref_plan_dropout,
};

static shoal_status alloc_ref(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  if (kind == SHOAL_MEMORY_SHARED) return shoal_host_memory_alloc_shared(bytes, "buffer of backend ref", out);
  *out = (shoal_memory){ .bytes = bytes, .kind = kind };
  return shoal_alloc(bytes, 1, "buffer of backend ref", &out->at);
}

static void op_destroy_ref(shoal_op *op)
{
  free(op);
}

static shoal_status op_create_ref(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  int inputs = shoal_op_inputs(d);
  for (int i = 0; in && i < inputs; i++)
    SHOAL_CHECK(shoal_format_plain(&in[i]), SHOAL_ERR_ARG,
                "%s: input %d comes in a format of another backend; backend ref reads dense tensors only",
                shoal_op_kind_name(d->kind), i);
  shoal_op *op = calloc(1, sizeof *op);
  SHOAL_CHECK(op, SHOAL_ERR_MEM, "plan of one %s", shoal_op_kind_name(d->kind));
  op->desc = *d;
  op->backend = b;
  for (int i = 0; i < inputs; i++) op->in_format[i] = shoal_format_dense(&d->in[i], SHOAL_ELEMENTS_F32);
  op->out_format = shoal_format_dense(&d->out, SHOAL_ELEMENTS_F32);
  op->destroy = op_destroy_ref;
  planners[d->kind](op);
  if (!d->training) op->backward_weights = op->backward_data = NULL;
  if (!d->need_dx && !op->dw_with_dx) op->backward_data = NULL;
  *out = op;
  return SHOAL_OK;
}

static shoal_status copy_ref(shoal_backend *b, const shoal_shape *s, const shoal_format *format, const float *x,
                             float *y)
{
  SHOAL_CHECK(shoal_format_plain(format), SHOAL_ERR_ARG, "backend ref was given a format of another backend");
  memmove(y, x, (size_t)shoal_shape_count(s) * sizeof(float));
  return SHOAL_OK;
}

static void close_ref(shoal_backend *b)
{
  free(b);
}

static const shoal_backend_ops ref_ops = {
  .alloc = alloc_ref,
  .release = shoal_host_release,
  .op_create = op_create_ref,
  .to_dense = copy_ref,
  .from_dense = copy_ref,
  .gemm = shoal_ref_gemm,
  .multiply = shoal_ref_multiply,
  .softmax_xent = shoal_ref_softmax_xent,
  .target_loss = shoal_host_target_loss,
  .add = shoal_ref_add,
  .axpby = shoal_ref_axpby,
  .sumsq = shoal_ref_sumsq,
  .clip = shoal_host_clip,
  .descend = shoal_ref_descend,
  .sgd = shoal_ref_sgd,
  .adam = shoal_ref_adam,
  .settle = shoal_host_settle,
  .mark = shoal_host_mark,
  .reached = shoal_host_reached,
  .copy_beside = shoal_host_copy_beside,
  .await = shoal_host_await,
  .fill = shoal_ref_fill,
  .copy = shoal_ref_copy,
  .copy_tile = shoal_ref_copy_tile,
  .copy_checked = shoal_ref_copy_checked,
  .find_bad = shoal_host_find_bad,
  .average = shoal_ref_average,
  .divide = shoal_ref_divide,
  .scale = shoal_ref_scale,
  .mean = shoal_ref_mean,
  .distance2 = shoal_host_distance2,
  .pack16 = shoal_ref_pack16,
  .unpack16 = shoal_ref_unpack16,
  .add16 = shoal_ref_add16,
  .encode = shoal_ref_encode,
  .decode = shoal_ref_decode,
  .meet = shoal_ref_meet,
  .fold = shoal_ref_fold,
  .close = close_ref,
};

shoal_status shoal_ref_open(const shoal_backend_options *o, shoal_backend **out)
{
  SHOAL_CHECK(o->products == SHOAL_PRODUCTS_F32, SHOAL_ERR_UNSUPPORTED,
              "backend ref computes in f32 only: set compute.dtype to f32");
  shoal_backend *b = calloc(1, sizeof *b);
  SHOAL_CHECK(b, SHOAL_ERR_MEM, "handle of backend ref");
  b->name = "ref";
  b->ops = &ref_ops;
  b->threads = 1;
  b->host_memory = true;
  *out = b;
  return SHOAL_OK;
}

const char *shoal_ref_versions(void)
{
  return "plain C loops, no library";
}
