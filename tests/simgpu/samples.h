/* Kernels of the simulator's own test: each does one thing wrong if its argument says so. */
#ifndef SIMGPU_SAMPLES_H
#define SIMGPU_SAMPLES_H
#include <stddef.h>

typedef struct {
  size_t n;
  float value;
  float *y;
  size_t beyond; /* writes so many elements behind the end */
} sample_fill_args;
typedef struct {
  size_t n; /* of 128 a block */
  const float *x;
  float *sums; /* [blocks] */
  int no_barrier;
} sample_sum_args;
typedef struct {
  size_t n;
  float *y;   /* y[i] = the number of the block that ... */
  int shared; /* 1: all blocks write y[0]; 2: block b reads what block b + 1 writes; 3: writes what it declares to read */
} sample_blocks_args;
typedef struct {
  const float *x;
  float *y;    /* sum of 32 */
  int diverge; /* half of the warp does not come */
} sample_shuffle_args;

#ifdef __cplusplus
#define SAMPLE(name) extern "C" __global__ void name(name##_args a)
#else
#define SAMPLE(name) void name(name##_args a)
#endif
#ifndef __cplusplus
SAMPLE(sample_fill);
SAMPLE(sample_sum);
SAMPLE(sample_blocks);
SAMPLE(sample_shuffle);
#endif
#endif
