/* What a test may tell the simulator, found by dlsym(RTLD_DEFAULT, ...): on a real device these functions do not exist.
 *
 * Environment: SIMGPU_SEED (order of streams, blocks and threads), SIMGPU_DEVICES (1; 0: cudaErrorNoDevice),
 * SIMGPU_DRIVER=0 (cudaErrorInsufficientDriver), SIMGPU_INJECT (an error: as simgpu_inject, "FUNCTION:AFTER:ERROR"),
 * CUDA_VISIBLE_DEVICES (numbers), SIMGPU_TF32=1 (convolutions in TF32 are no mistake), SIMGPU_NO_EPILOGUE (cuBLASLt has no algorithm for a
 * product), SIMGPU_LAUNCHES (a file for names, blocks and arguments of all launches); nccl.cpp and mpi.c have their own. */
#ifndef SIMGPU_SIMGPU_H
#define SIMGPU_SIMGPU_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
/* As an error: the kernel does not end. */
enum { SIMGPU_NEVER = -1 };
/** Between `on` and off an allocation, a release or a wait for the device is a mistake. */
void simgpu_step(int on);
/** Draws anew from here on: as SIMGPU_SEED. */
void simgpu_seed(unsigned seed);
/** The call number `after` from now (0: the next) of a function of the run time returns `error`; with "kernel NAME" the launch
 *  fails while it runs, and every later call returns the error, as on a device. */
void simgpu_inject(const char *function, int after, int error);
/** As a library that moves device memory on no stream: copies it at once to `host`, or from there.  A mistake if queued work writes these
 *  bytes, or uses what is written.  @return 0: it is no device memory, and nothing was done */
int simgpu_touch(void *device, void *host, size_t bytes, int write);
#ifdef __cplusplus
}
#endif
#endif
