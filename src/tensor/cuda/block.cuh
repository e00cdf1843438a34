/* What the kernels share: the loop over elements, sums and maxima of a block, bits of numbers, bf16, random numbers.
 *
 * A sum of a block is the same bits whatever the device: each thread sums every 256th element in order, and the threads' sums meet
 * in a tree of fixed shape. */
#ifndef SHOAL_TENSOR_CUDA_BLOCK_CUH
#define SHOAL_TENSOR_CUDA_BLOCK_CUH
#include "tensor/cuda/kernels.h"

/* Number of the thread in the launch, and all others that it stands for. */
#define EACH(i, n)                                                                                                     \
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, step_ = gridDim.x * (size_t)blockDim.x;               \
       i < (size_t)(n); i += step_)
/* Every element of what a block has for itself. */
#define OF_BLOCK(i, n) for (size_t i = threadIdx.x; i < (size_t)(n); i += SHOAL_CUDA_THREADS)

static __device__ __forceinline__ bool is_finite(float x)
{
  return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* See tensor/half.c. */
static __device__ __forceinline__ uint16_t to_bf16(float x)
{
  uint32_t u = __float_as_uint(x), rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded);
}

/* Several threads only set it. */
static __device__ __forceinline__ void raise_flag(uint32_t *flag)
{
  atomicOr(flag, 1u);
}

static __device__ __forceinline__ double block_sum(double v)
{
  __shared__ double part[SHOAL_CUDA_THREADS / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < SHOAL_CUDA_THREADS / 32; w++) v += part[w];
  __syncthreads(); /* it may be used again at once */
  return v;
}

static __device__ __forceinline__ unsigned long long block_sum_u64(unsigned long long v)
{
  __shared__ unsigned long long part[SHOAL_CUDA_THREADS / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < SHOAL_CUDA_THREADS / 32; w++) v += part[w];
  __syncthreads();
  return v;
}

static __device__ __forceinline__ unsigned block_max(unsigned v)
{
  __shared__ unsigned part[SHOAL_CUDA_THREADS / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    unsigned other = __shfl_xor_sync(0xffffffffu, v, lanes);
    v = other > v ? other : v;
  }
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < SHOAL_CUDA_THREADS / 32; w++) v = part[w] > v ? part[w] : v;
  __syncthreads();
  return v;
}

/* Philox4x32-10, word `lane` of four: see base/rng.c.  `purpose` is a shoal_rng_purpose. */
static __device__ __forceinline__ uint32_t philox(uint64_t seed, uint32_t purpose, uint64_t index, uint32_t step,
                                                  int lane)
{
  uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = step, c3 = purpose;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint32_t h0 = __umulhi(0xd2511f53u, c0), l0 = 0xd2511f53u * c0, h1 = __umulhi(0xcd9e8d57u, c2),
             l1 = 0xcd9e8d57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
}
#endif
