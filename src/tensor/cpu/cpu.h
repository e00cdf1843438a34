/* The CPU backend: oneDNN primitives created once and reused, own vectorised loops for memory-bound operations.
 *
 * Open it through shoal_backend_open("cpu", threads, &b).  Activations travel in oneDNN's blocked formats between
 * convolutions; weights stay canonical in the arena, so that methods can address and exchange them as one flat
 * vector. */
#ifndef SHOAL_TENSOR_CPU_CPU_H
#define SHOAL_TENSOR_CPU_CPU_H
#include "tensor/backend.h"

/** o->threads: OpenMP threads of every operation.  ERR_INTERNAL if oneDNN does not start, ERR_MEM. */
shoal_status shoal_cpu_open(const shoal_backend_options *o, shoal_backend **out);
/** "oneDNN 2.6.3 (compiled 2.6.3)"; a static string. */
const char *shoal_cpu_versions(void);
/** Sets whether convolutions created from now on may use Winograd's algorithm (3x3, stride 1, 32 channels and 4x4
 *  outputs or more): fewer multiplications at the price of larger rounding errors.  Default off.  `b` must come from
 *  shoal_cpu_open; operations that exist already do not change.  No effect where oneDNN has no such kernel (version 3,
 *  or no AVX-512).
 *  On one core: vgg16-bn 75 -> 110 samples/s, resnet18 41 -> 57, resnet20 420 -> 463; errors of y 1.3e-6 of the largest
 *  value instead of 3e-7, of dx and dw 1.7e-6 instead of 1e-6 (64 channels, 16x16); scratch 103 instead of 14 MB for
 *  vgg16-bn, and primitives of up to 23 ms without a poll of the network. */
void shoal_cpu_set_winograd(shoal_backend *b, bool on);
#endif
