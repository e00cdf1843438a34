/* The cuda backend: one GPU, kernels of our own, cuBLAS for products and cuDNN for convolutions.
 *
 * Everything goes to one stream, in order; the host runs ahead of it and waits only where a function returns a number.  All
 * arithmetic is f32 or better: no TF32, no 16 bits.  docs/gpu.md says what was run on hardware and what was not. */
#ifndef SHOAL_TENSOR_CUDA_CUDA_H
#define SHOAL_TENSOR_CUDA_CUDA_H
#include "tensor/backend.h"

/** o->threads is ignored.
 *  @return ERR_DEVICE with the reason where there is no driver, no device or no cuBLAS */
shoal_status shoal_cuda_open(const shoal_backend_options *o, shoal_backend **out);
/** Those that CUDA_VISIBLE_DEVICES leaves, in CUDA's order; at most SHOAL_GPUS_MAX. */
shoal_status shoal_cuda_devices(shoal_gpu out[SHOAL_GPUS_MAX], int *n);
const char *shoal_cuda_versions(void);
#endif
