/* Convolutions by cuDNN's plain calls, in f32 or TF32, by algorithms that give the same bits every time.  Bias and relu are a pass
 * of our own: cuDNN does not say what its relu does with a NaN.  With bf16 factors it would write bf16 outputs, so where products
 * are bf16 convolutions are TF32, which is more exact.
 *
 * cuDNN wants tensors at multiples of 16 bytes.  Activations are; weights and their gradients are views into an arena, so where
 * one is not, it goes through the scratch:
 *
 *     | dy without what the relu blocked | w or dw | cuDNN's workspace |                                              */
#include "tensor/cuda/cuda_impl.h"
#include <stdlib.h>

typedef struct {
  shoal_op op;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  size_t w_bytes, workspace;
  size_t w_at, workspace_at; /* in the scratch */
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

static float *at(const shoal_op_args *a, size_t offset)
{
  return (float *)(void *)((char *)a->scratch + offset);
}

static shoal_status weights(conv_op *c, const shoal_op_args *a, const float **out)
{
  *out = a->w[0];
  if (aligned(a->w[0])) return SHOAL_OK;
  *out = at(a, c->w_at);
  return shoal_cuda_copy(c->op.backend, c->w_bytes, a->w[0], at(a, c->w_at));
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  shoal_cuda_channels y = outputs_of(op);
  const float *w;
  SHOAL_TRY(weights(c, a, &w));
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionForward(b->lib.dnn, &one, c->x, a->x[0], c->w, w, c->conv, forward_algo,
                                                 at(a, c->workspace_at), c->workspace, &zero, c->y, a->y));
  SHOAL_TRY(shoal_cuda_bias(b, &y, op->desc.bias ? a->w[1] : NULL, op->desc.relu, a->y));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  shoal_cuda_channels y = outputs_of(op);
  const float *dy;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &dy));
  if (op->desc.bias) SHOAL_TRY(shoal_cuda_bias_back(b, &y, dy, a->dw[1]));
  if (a->dw[0]) {
    float *dw = aligned(a->dw[0]) ? a->dw[0] : at(a, c->w_at);
    SHOAL_TRY_CUDA(cudaSetDevice(b->device));
    SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionBackwardFilter(b->lib.dnn, &one, c->x, a->x[0], c->y, dy, c->conv,
                                                          filter_algo, at(a, c->workspace_at), c->workspace, &zero,
                                                          c->w, dw));
    SHOAL_TRY(shoal_cuda_copy(op->backend, c->w_bytes, dw, a->dw[0]));
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  shoal_cuda *b = shoal_cuda_of(op);
  const float *dy, *w;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &dy));
  SHOAL_TRY(weights(c, a, &w));
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDNN(b->lib.cudnnConvolutionBackwardData(b->lib.dnn, &one, c->w, w, c->y, dy, c->conv, data_algo,
                                                      at(a, c->workspace_at), c->workspace, &zero, c->x, a->dx[0]));
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

static shoal_status set_tensor(const shoal_cuda_libraries *l, const shoal_shape *s, cudnnTensorDescriptor_t *out)
{
  const int64_t *n = s->dim;
  SHOAL_TRY_CUDNN(l->cudnnCreateTensorDescriptor(out));
  SHOAL_TRY_CUDNN(l->cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)n[0], (int)n[1],
                                                (int)n[2], (int)n[3]));
  return SHOAL_OK;
}

static shoal_status describe(conv_op *c, const shoal_cuda_libraries *l, bool tf32)
{
  const shoal_op_desc *d = &c->op.desc;
  shoal_shape w[SHOAL_OP_WEIGHTS];
  shoal_op_weight_shapes(d, w);
  c->w_bytes = (size_t)shoal_shape_count(&w[0]) * sizeof(float);
  SHOAL_TRY(set_tensor(l, &d->in[0], &c->x));
  SHOAL_TRY(set_tensor(l, &d->out, &c->y));
  SHOAL_TRY_CUDNN(l->cudnnCreateFilterDescriptor(&c->w));
  SHOAL_TRY_CUDNN(l->cudnnSetFilter4dDescriptor(c->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, (int)w[0].dim[0],
                                                (int)w[0].dim[1], d->kernel[0], d->kernel[1]));
  SHOAL_TRY_CUDNN(l->cudnnCreateConvolutionDescriptor(&c->conv));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolution2dDescriptor(c->conv, d->pad[0], d->pad[1], d->stride[0], d->stride[1],
                                                     d->gap[0] + 1, d->gap[1] + 1, CUDNN_CROSS_CORRELATION,
                                                     CUDNN_DATA_FLOAT));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolutionGroupCount(c->conv, shoal_op_groups(d)));
  SHOAL_TRY_CUDNN(l->cudnnSetConvolutionMathType(c->conv, tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
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

shoal_status shoal_cuda_plan_conv_dnn(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  conv_op *c;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *c, &c));
  c->op.destroy = destroy;
  shoal_status st = describe(c, &b->lib, b->products != SHOAL_PRODUCTS_F32);
  if (st == SHOAL_OK) st = size_workspace(c, &b->lib);
  if (st != SHOAL_OK) {
    destroy(&c->op);
    return st;
  }
  c->w_at = d->relu && d->training ? shoal_round_up(c->op.out_format.bytes, SHOAL_ALIGN) : 0;
  c->workspace_at = c->w_at + shoal_round_up(c->w_bytes, SHOAL_ALIGN);
  c->op.scratch_bytes = c->workspace_at + c->workspace;
  c->op.forward = forward;
  c->op.backward_weights = backward_weights;
  c->op.backward_data = backward_data;
  c->op.backward_reads_x = true;
  c->op.backward_reads_y = d->relu;
  *out = &c->op;
  return SHOAL_OK;
}
