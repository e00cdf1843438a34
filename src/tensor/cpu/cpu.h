/* The CPU backend: oneDNN primitives created once and reused, own vectorised loops for memory-bound operations.
 *
 * Open it through shoal_backend_open("cpu", threads, &b).  Activations travel in oneDNN's blocked formats between
 * convolutions; weights stay canonical in the arena, so that methods can address and exchange them as one flat
 * vector. */
#ifndef SHOAL_TENSOR_CPU_CPU_H
#define SHOAL_TENSOR_CPU_CPU_H
#include "tensor/backend.h"

/** o->threads: OpenMP threads of every operation.  ERR_INTERNAL if oneDNN does not start, ERR_MEM; ERR_UNSUPPORTED for TF32, and
 *  for bf16 on a processor without instructions for it, unless o->emulate and AVX-512. */
shoal_status shoal_cpu_open(const shoal_backend_options *o, shoal_backend **out);
/** "oneDNN 2.6.3 (compiled 2.6.3)"; a static string. */
const char *shoal_cpu_versions(void);
/** Sets whether convolutions created from now on may use Winograd's algorithm (3x3, stride 1, one group, no dilation, 16
 *  channels and on average half of a 4x4 tile of outputs or more): fewer multiplications, and rounding errors of up to 5e-6
 *  of the largest value (512 channels) instead of 5e-7.  Default off.  `b` must come from shoal_cpu_open; operations that
 *  exist already do not change.  No effect without AVX2: then convolutions are direct. */
void shoal_cpu_set_winograd(shoal_backend *b, bool on);
#endif
