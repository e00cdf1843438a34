/* The cuda backend: one GPU, kernels of our own, cuBLAS for products and cuDNN for convolutions.
 *
 * Everything goes to one stream, in order; the host runs ahead of it and waits only where a function returns a number.  All
 * arithmetic is f32 or better, but for the factors of products if shoal_products allows it.  docs/gpu.md says what was run on
 * hardware and what was not. */
#ifndef SHOAL_TENSOR_CUDA_CUDA_H
#define SHOAL_TENSOR_CUDA_CUDA_H
#include "tensor/backend.h"

/** o->threads is ignored.
 *  @return ERR_DEVICE with the reason where there is no driver, no device or no cuBLAS */
shoal_status shoal_cuda_open(const shoal_backend_options *o, shoal_backend **out);
/** Those that CUDA_VISIBLE_DEVICES leaves, in CUDA's order; at most SHOAL_GPUS_MAX. */
shoal_status shoal_cuda_devices(shoal_gpu out[SHOAL_GPUS_MAX], int *n);
const char *shoal_cuda_versions(void);

/* For a library that works on the memory of this backend in a stream of its own (comm/nccl). */
bool shoal_cuda_is(const shoal_backend *b);
int shoal_cuda_device(const shoal_backend *b);
/** What is asked of `stream`, a cudaStream_t, from here on begins once `number` is reached, a mark or a copy beside the work. */
shoal_status shoal_cuda_hold(shoal_backend *b, uint64_t number, void *stream);
#endif
