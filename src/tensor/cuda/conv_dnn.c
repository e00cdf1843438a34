/* Convolutions by cuDNN's plain calls, in f32, TF32 or bf16, by algorithms that give the same bits every time.  Bias and relu are a
 * pass of our own: cuDNN does not say what its relu does with a NaN.
 *
 * cuDNN wants tensors at multiples of 16 bytes.  Activations are; weights and their gradients are views into an arena, so where
 * one is not, it goes through the scratch.  In bf16 all tensors do: cuDNN sums in f32, but with bf16 factors it writes bf16.
 *
 *     | dy without what the relu blocked | x or dx | y or dy | w or dw | cuDNN's workspace |                                       */
#include "tensor/cuda/cuda_impl.h"
#include <stdlib.h>

typedef struct {
  shoal_op op;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  bool bf16;
  size_t x_n, y_n, w_n, workspace;
  size_t x_at, y_at, w_at, workspace_at; /* in the scratch */
} conv_op;

static const cudnnConvolutionFwdAlgo_t forward_algo = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
static const cudnnConvolutionBwdDataAlgo_t data_algo = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1; /* 0 sums in any order */
static const cudnnConvolutionBwdFilterAlgo_t filter_algo = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; /* so does 0 here */
static const float one = 1, zero = 0;

static bool aligned(const void *p)
{
  return (uintptr_t)p % 16 == 0;
}

static shoal_cuda_channels outputs_of(const shoal_op *op)
{
  const int64_t *y = op->desc.out.dim;
  return (shoal_cuda_channels){ (size_t)(y[0] * y[1] * y[2] * y[3]), (size_t)y[1], (size_t)(y[2] * y[3]) };
}

static void *at(const shoal_op_args *a, size_t offset)
{
  return (char *)a->scratch + offset;
}

/* What cuDNN reads for x: itself, or its copy in the scratch. */
static shoal_status give(conv_op *c, size_t n, const float *x, void *copy, const void **out)
{
  *out = copy;
  if (c->bf16) return shoal_cuda_to_bf16(shoal_cuda_of(&c->op), n, x, copy);
  if (!aligned(x)) return shoal_cuda_copy(c->op.backend, n * sizeof *x, x, copy);
  *out = x;
  return SHOAL_OK;
}

/* Where cuDNN writes y: there, or in the scratch, from where it is taken. */
static void *room(const conv_op *c, float *y, void *copy)
{
  return c->bf16 || !aligned(y) ? copy : y;
}
static shoal_status take(conv_op *c, size_t n, const void *from, float *y)
{
  if (c->bf16) return shoal_cuda_unpack16(c->op.backend, SHOAL_BF16, n, from, NULL, y);
  return shoal_cuda_copy(c->op.backend, n * sizeof *y, from, y);
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  shoal_cuda_channels channels = outputs_of(op);
  const void *x, *w;
  void *y = room(c, a->y, at(a, c->y_at));
  SHOAL_TRY(give(c, c->x_n, a->x[0], at(a, c->x_at), &x));
  SHOAL_TRY(give(c, c->w_n, a->w[0], at(a, c->w_at), &w));
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionForward(b->lib.dnn, &one, c->x, x, c->w, w, c->conv, forward_algo,
                                                 at(a, c->workspace_at), c->workspace, &zero, c->y, y));
  SHOAL_TRY(take(c, c->y_n, y, a->y));
  SHOAL_TRY(shoal_cuda_bias(b, &channels, op->desc.bias ? a->w[1] : NULL, op->desc.relu, a->y));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  shoal_cuda_channels channels = outputs_of(op);
  const float *unmasked;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &unmasked));
  if (op->desc.bias) SHOAL_TRY(shoal_cuda_bias_back(b, &channels, unmasked, a->dw[1]));
  if (a->dw[0]) {
    const void *x, *dy;
    void *dw = room(c, a->dw[0], at(a, c->w_at));
    SHOAL_TRY(give(c, c->x_n, a->x[0], at(a, c->x_at), &x));
    SHOAL_TRY(give(c, c->y_n, unmasked, at(a, c->y_at), &dy));
    SHOAL_TRY_CUDA(cudaSetDevice(b->device));
    SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionBackwardFilter(b->lib.dnn, &one, c->x, x, c->y, dy, c->conv, filter_algo,
                                                          at(a, c->workspace_at), c->workspace, &zero, c->w, dw));
    SHOAL_TRY(take(c, c->w_n, dw, a->dw[0]));
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  const float *unmasked;
  const void *dy, *w;
  void *dx = room(c, a->dx[0], at(a, c->x_at));
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &unmasked));
  SHOAL_TRY(give(c, c->y_n, unmasked, at(a, c->y_at), &dy));
  SHOAL_TRY(give(c, c->w_n, a->w[0], at(a, c->w_at), &w));
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionBackwardData(b->lib.dnn, &one, c->w, w, c->y, dy, c->conv, data_algo,
                                                      at(a, c->workspace_at), c->workspace, &zero, c->x, dx));
  SHOAL_TRY(take(c, c->x_n, dx, a->dx[0]));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static void destroy(shoal_op *op)
{
  conv_op *c = (conv_op *)op;
  const shoal_cuda_libraries *l = &shoal_cuda_of(op)->lib;
  if (c->x) (void)l->cudnnDestroyTensorDescriptor(c->x);
  if (c->y) (void)l->cudnnDestroyTensorDescriptor(c->y);
  if (c->w) (void)l->cudnnDestroyFilterDescriptor(c->w);
  if (c->conv) (void)l->cudnnDestroyConvolutionDescriptor(c->conv);
  free(c);
}

static shoal_status set_tensor(const shoal_cuda_libraries *l, cudnnDataType_t type, const shoal_shape *s,
                               cudnnTensorDescriptor_t *out)
{
  const int64_t *n = s->dim;
  SHOAL_TRY_CUDNN(l->cudnnCreateTensorDescriptor(out));
  SHOAL_TRY_CUDNN(
      l->cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NCHW, type, (int)n[0], (int)n[1], (int)n[2], (int)n[3]));
  return SHOAL_OK;
}

static shoal_status describe(conv_op *c, const shoal_cuda_libraries *l, shoal_products products)
{
  static const cudnnMathType_t math[] = { [SHOAL_PRODUCTS_F32] = CUDNN_FMA_MATH,
                                          [SHOAL_PRODUCTS_TF32] = CUDNN_DEFAULT_MATH,
                                          [SHOAL_PRODUCTS_BF16] = CUDNN_TENSOR_OP_MATH };
  const shoal_op_desc *d = &c->op.desc;
  const cudnnDataType_t type = c->bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  shoal_shape w[SHOAL_OP_WEIGHTS];
  shoal_op_weight_shapes(d, w);
  c->x_n = (size_t)shoal_shape_count(&d->in[0]);
  c->y_n = (size_t)shoal_shape_count(&d->out);
  c->w_n = (size_t)shoal_shape_count(&w[0]);
  SHOAL_TRY(set_tensor(l, type, &d->in[0], &c->x));
  SHOAL_TRY(set_tensor(l, type, &d->out, &c->y));
  SHOAL_TRY_CUDNN(l->cudnnCreateFilterDescriptor(&c->w));
  SHOAL_TRY_CUDNN(l->cudnnSetFilter4dDescriptor(c->w, type, CUDNN_TENSOR_NCHW, (int)w[0].dim[0], (int)w[0].dim[1],
                                                d->kernel[0], d->kernel[1]));
  SHOAL_TRY_CUDNN(l->cudnnCreateConvolutionDescriptor(&c->conv));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolution2dDescriptor(c->conv, d->pad[0], d->pad[1], d->stride[0], d->stride[1],
                                                     d->gap[0] + 1, d->gap[1] + 1, CUDNN_CROSS_CORRELATION,
                                                     CUDNN_DATA_FLOAT));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolutionGroupCount(c->conv, shoal_op_groups(d)));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolutionMathType(c->conv, math[products]));
  return SHOAL_OK;
}

static shoal_status size_workspace(conv_op *c, const shoal_cuda_libraries *l)
{
  size_t bytes = 0;
  SHOAL_TRY_CUDNN(l->cudnnGetConvolutionForwardWorkspaceSize(l->dnn, c->x, c->w, c->conv, c->y, forward_algo, &bytes));
  c->workspace = bytes;
  if (!c->op.desc.training) return SHOAL_OK;
  SHOAL_TRY_CUDNN(
      l->cudnnGetConvolutionBackwardFilterWorkspaceSize(l->dnn, c->x, c->y, c->conv, c->w, filter_algo, &bytes));
  c->workspace = SHOAL_MAX(c->workspace, bytes);
  SHOAL_TRY_CUDNN(
      l->cudnnGetConvolutionBackwardDataWorkspaceSize(l->dnn, c->w, c->y, c->conv, c->x, data_algo, &bytes));
  c->workspace = SHOAL_MAX(c->workspace, bytes);
  return SHOAL_OK;
}

static void place(conv_op *c)
{
  const shoal_op_desc *d = &c->op.desc;
  const size_t each = c->bf16 ? sizeof(uint16_t) : sizeof(float), activations = c->bf16 ? each : 0;
  c->x_at = d->relu && d->training ? shoal_round_up(c->op.out_format.bytes, SHOAL_ALIGN) : 0;
  c->y_at = c->x_at + shoal_round_up(c->x_n * activations, SHOAL_ALIGN);
  c->w_at = c->y_at + shoal_round_up(c->y_n * activations, SHOAL_ALIGN);
  c->workspace_at = c->w_at + shoal_round_up(c->w_n * each, SHOAL_ALIGN);
  c->op.scratch_bytes = c->workspace_at + c->workspace;
}

shoal_status shoal_cuda_plan_conv_dnn(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  conv_op *c;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *c, &c));
  c->op.destroy = destroy;
  c->bf16 = b->products == SHOAL_PRODUCTS_BF16;
  shoal_status st = describe(c, &b->lib, b->products);
  if (st == SHOAL_OK) st = size_workspace(c, &b->lib);
  if (st != SHOAL_OK) {
    destroy(&c->op);
    return st;
  }
  place(c);
  c->op.forward = forward;
  c->op.backward_weights = backward_weights;
  c->op.backward_data = backward_data;
  c->op.backward_reads_x = true;
  c->op.backward_reads_y = d->relu;
  *out = &c->op;
  return SHOAL_OK;
}
