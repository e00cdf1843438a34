/* A stand-in for the part of cuDNN that is used: convolutions, computed by the loops of the backend ref.  It insists on what cuDNN
 * wants or may want: tensors at multiples of 16 bytes, all of one type, a workspace, and only algorithms that give the same bits
 * every time.  In bf16 it writes bf16. */
#include "product.h"
#include <cstdlib>
#include <cudnn.h>
#include <memory>
extern "C" {
#define _Static_assert static_assert
#include "tensor/ref/ref_impl.h"
}

struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int n[4];
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  int n[4];
};
struct cudnnConvolutionStruct {
  int pad[2], stride[2], dilation[2], groups;
  cudnnMathType_t math;
};

namespace
{
const size_t workspace = 4096; /* what each call wants, and writes */

size_t count(const int n[4])
{
  return static_cast<size_t>(n[0]) * n[1] * n[2] * n[3];
}

struct problem {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct c;
};

bool fits(const problem &p)
{
  for (int i = 0; i < 2; i++)
    if ((p.x.n[2 + i] + 2 * p.c.pad[i] - (p.w.n[2 + i] - 1) * p.c.dilation[i] - 1) / p.c.stride[i] + 1 != p.y.n[2 + i])
      return false;
  return p.x.type == p.w.type && p.x.type == p.y.type && p.x.n[0] == p.y.n[0] && p.x.n[1] == p.w.n[1] * p.c.groups &&
         p.y.n[1] == p.w.n[0] && p.w.n[0] % p.c.groups == 0;
}

shoal_shape shape(const int n[4])
{
  return { 4, { n[0], n[1], n[2], n[3] } };
}

void check_aligned(const char *what, std::initializer_list<const void *> all)
{
  for (const void *p : all)
    if (reinterpret_cast<uintptr_t>(p) % 16) sim::mistake("%s: %p is not a multiple of 16", what, p);
}

/* A tensor as floats, rounded to TF32 if products are. */
std::vector<float> floats(const void *x, size_t n, bool bf16, bool rounds)
{
  std::vector<float> out(x ? n : 0);
  for (size_t i = 0; i < out.size(); i++) {
    out[i] = static_cast<float>(bf16 ? sim::value(static_cast<const uint16_t *>(x) + i)
                                     : sim::value(static_cast<const float *>(x) + i));
    if (rounds) out[i] = sim::tf32(out[i]);
  }
  return out;
}

void touch(sim::ranges &r, const void *x, size_t n, bool bf16, bool written)
{
  const size_t grain = bf16 ? sizeof(uint16_t) : sizeof(float);
  if (x) r.list.push_back({ x, n * grain, grain, written });
}

enum which { FORWARD, DATA, FILTER };

cudnnStatus_t run(cudnnHandle_t h, which way, const problem &p, const void *alpha, const void *beta, const void *x,
                  const void *w, const void *y, void *out, void *space, size_t bytes)
{
  static const char *const names[] = { "cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                       "cudnnConvolutionBackwardFilter" };
  const bool bf16 = p.x.type == CUDNN_DATA_BFLOAT16,
             rounds = !bf16 && p.c.math != CUDNN_FMA_MATH; /* cuDNN's default: TF32 */
  if (!fits(p) || *static_cast<const float *>(alpha) != 1 || *static_cast<const float *>(beta) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  if (bytes < workspace) sim::mistake("%s: a workspace of %zu bytes", names[way], bytes);
  if (rounds && !getenv("SIMGPU_TF32")) sim::mistake("%s: products in less than f32", names[way]);
  if (bf16 && p.c.math != CUDNN_TENSOR_OP_MATH) sim::mistake("%s: bf16 without tensor cores", names[way]);
  check_aligned(names[way], { x ? x : out, w ? w : out, y ? y : out, space });
  const size_t x_n = count(p.x.n), w_n = count(p.w.n), y_n = count(p.y.n),
               out_n = way == FORWARD ? y_n
                       : way == DATA  ? x_n
                                      : w_n;
  sim::ranges r;
  touch(r, x, x_n, bf16, false);
  touch(r, w, w_n, bf16, false);
  touch(r, y, y_n, bf16, false);
  touch(r, out, out_n, bf16, true);
  r.writes(static_cast<char *>(space), bytes);
  sim::submit(h->stream, names[way], r, [=] {
    shoal_op op = {};
    shoal_op_args a = {};
    memset(space, 0xff, bytes); /* it is nobody else's, first and last */
    op.desc.kind = SHOAL_OP_CONV;
    op.desc.in[0] = shape(p.x.n);
    op.desc.out = shape(p.y.n);
    for (int i = 0; i < 2; i++) {
      op.desc.kernel[i] = p.w.n[2 + i];
      op.desc.stride[i] = p.c.stride[i];
      op.desc.pad[i] = p.c.pad[i];
      op.desc.gap[i] = p.c.dilation[i] - 1;
    }
    op.desc.groups = p.c.groups;
    op.in_format[0].bytes = x_n * sizeof(float);
    shoal_ref_plan_conv(&op);
    const std::vector<float> of_x = floats(x, x_n, bf16, rounds), of_w = floats(w, w_n, bf16, rounds),
                             of_y = floats(y, y_n, bf16, rounds);
    std::vector<float> result(out_n);
    a.x[0] = of_x.data();
    a.w[0] = of_w.data();
    a.dy = of_y.data();
    (way == FORWARD ? a.y : way == DATA ? a.dx[0] : a.dw[0]) = result.data();
    (way == FORWARD ? op.forward : way == DATA ? op.backward_data : op.backward_weights)(&op, &a);
    for (size_t i = 0; i < out_n; i++)
      if (bf16)
        static_cast<uint16_t *>(out)[i] = sim::bf16(result[i]);
      else
        static_cast<float *>(out)[i] = result[i];
    memset(space, 0xff, bytes);
  });
  return CUDNN_STATUS_SUCCESS;
}
} // namespace

extern "C" {
cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
  *h = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
  delete h;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
  h->stream = s;
  return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion(void)
{
  return CUDNN_VERSION;
}
const char *cudnnGetErrorString(cudnnStatus_t)
{
  return "an error of the simulated cuDNN";
}

#define DESCRIPTOR(name, type)                                                                                         \
  cudnnStatus_t cudnnCreate##name##Descriptor(type *d)                                                                 \
  {                                                                                                                    \
    *d = new cudnn##name##Struct();                                                                                    \
    return CUDNN_STATUS_SUCCESS;                                                                                       \
  }                                                                                                                    \
  cudnnStatus_t cudnnDestroy##name##Descriptor(type d)                                                                 \
  {                                                                                                                    \
    delete d;                                                                                                          \
    return CUDNN_STATUS_SUCCESS;                                                                                       \
  }
DESCRIPTOR(Tensor, cudnnTensorDescriptor_t)
DESCRIPTOR(Filter, cudnnFilterDescriptor_t)
DESCRIPTOR(Convolution, cudnnConvolutionDescriptor_t)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t f, cudnnDataType_t t, int n,
                                         int c, int h, int w)
{
  if (f != CUDNN_TENSOR_NCHW || (t != CUDNN_DATA_FLOAT && t != CUDNN_DATA_BFLOAT16)) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = { t, { n, c, h, w } };
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t t, cudnnTensorFormat_t f, int k,
                                         int c, int h, int w)
{
  if (f != CUDNN_TENSOR_NCHW || (t != CUDNN_DATA_FLOAT && t != CUDNN_DATA_BFLOAT16)) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = { t, { k, c, h, w } };
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t t)
{
  if (mode != CUDNN_CROSS_CORRELATION || t != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = { { pad_h, pad_w }, { u, v }, { dilation_h, dilation_w }, 1, CUDNN_DEFAULT_MATH };
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups)
{
  d->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t m)
{
  d->math = m;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t, size_t *bytes)
{
  *bytes = workspace;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algo,
                                                           size_t *bytes)
{
  *bytes = workspace;
  return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
  *bytes = workspace;
  return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3
             ? CUDNN_STATUS_NOT_SUPPORTED
             : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t xd, const void *x,
                                      cudnnFilterDescriptor_t wd, const void *w, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t, void *space, size_t bytes, const void *beta,
                                      cudnnTensorDescriptor_t yd, void *y)
{
  return run(h, FORWARD, { *xd, *yd, *wd, *c }, alpha, beta, x, w, nullptr, y, space, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void *alpha, cudnnFilterDescriptor_t wd,
                                           const void *w, cudnnTensorDescriptor_t yd, const void *dy,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t, void *space,
                                           size_t bytes, const void *beta, cudnnTensorDescriptor_t xd, void *dx)
{
  return run(h, DATA, { *xd, *yd, *wd, *c }, alpha, beta, nullptr, w, dy, dx, space, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t xd,
                                             const void *x, cudnnTensorDescriptor_t yd, const void *dy,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t,
                                             void *space, size_t bytes, const void *beta, cudnnFilterDescriptor_t wd,
                                             void *dw)
{
  return run(h, FILTER, { *xd, *yd, *wd, *c }, alpha, beta, x, nullptr, dy, dw, space, bytes);
}
}
