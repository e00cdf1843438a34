/* What a `.cu` file needs to be compiled for the host: included before it, in place of CUDA's own headers.
 *
 * Such a copy of a kernel is its *twin*.  The simulator runs it with one thread of the host: blocks one after another, the
 * threads of a block as fibres that change only at barriers and shuffles, both in an order drawn from the seed.  Twins are
 * compiled with -fsanitize=thread, and the functions that this makes them call at every load and store are the simulator's own
 * (kernels.cpp), which so sees each access: is it in a range that the kernel declares, and does another block or thread touch
 * the same element? */
#ifndef SIMGPU_TWIN_H
#define SIMGPU_TWIN_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("simgpu_shared"))) /* filled with NaN before every block */

struct sim_dim {
  unsigned x, y, z;
};
struct sim_place {
  sim_dim thread, block, block_dim, grid_dim;
};
extern "C" {
extern sim_place sim_here;
void sim_barrier(void);
unsigned long long sim_shuffle(unsigned long long value, int lane_from); /* lane_from: of the calling thread's warp */
void sim_atomic(void *address, size_t bytes);                            /* the access of an atomic operation */
}
#define threadIdx       sim_here.thread
#define blockIdx        sim_here.block
#define blockDim        sim_here.block_dim
#define gridDim         sim_here.grid_dim
#define __syncthreads() sim_barrier()

#define SIM_BARE static inline __attribute__((no_sanitize("thread"), unused))

template <class T> SIM_BARE T sim_shuffled(T value, int lane_from)
{
  unsigned long long bits = 0;
  T result;
  static_assert(sizeof value <= sizeof bits, "a shuffle moves 8 bytes at most");
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = sim_shuffle(bits, lane_from);
  __builtin_memcpy(&result, &bits, sizeof result);
  return result;
}
/* Whole warps only, as everywhere in these kernels: the mask is not looked at. */
template <class T> SIM_BARE T __shfl_xor_sync(unsigned, T value, int lane_mask)
{
  return sim_shuffled(value, (int)(sim_here.thread.x % 32) ^ lane_mask);
}

template <class T> SIM_BARE T atomicOr(T *p, T value)
{
  sim_atomic(p, sizeof *p);
  T old = *p;
  *p = old | value;
  return old;
}
template <class T> SIM_BARE T atomicMin(T *p, T value)
{
  sim_atomic(p, sizeof *p);
  T old = *p;
  *p = value < old ? value : old;
  return old;
}

SIM_BARE unsigned __float_as_uint(float x)
{
  unsigned u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
SIM_BARE float __uint_as_float(unsigned u)
{
  float x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}
SIM_BARE int __float_as_int(float x)
{
  return (int)__float_as_uint(x);
}
SIM_BARE unsigned __umulhi(unsigned a, unsigned b)
{
  return (unsigned)((uint64_t)a * b >> 32);
}
#endif
