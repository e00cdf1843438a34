/* The backend for processors: oneDNN primitives made once and kept, own vectorised loops for what only moves memory.
 *
 * Open it through shoal_backend_open("cpu", threads, &b).  Activations travel in oneDNN's blocked formats between
 * convolutions; weights stay canonical in the arena (design, rule 2). */
#ifndef SHOAL_TENSOR_CPU_CPU_H
#define SHOAL_TENSOR_CPU_CPU_H
#include "tensor/backend.h"

/** @param threads >= 1: OpenMP threads of every operation.  ERR_INTERNAL if oneDNN does not start, ERR_MEM. */
shoal_status shoal_cpu_open(int threads, shoal_backend **out);
/** "oneDNN 2.6.3 (compiled 2.6.3)"; a static string. */
const char *shoal_cpu_versions(void);
/** Whether 3x3 convolutions with stride 1 created from now on may use Winograd's algorithm: fewer multiplications,
 *  and rounding errors a few times those of the direct sum (see convolution.c for measured numbers).  Default off.
 *  `b` must come from shoal_cpu_open; operations that exist already do not change. */
void shoal_cpu_set_winograd(shoal_backend *b, bool on);
#endif
