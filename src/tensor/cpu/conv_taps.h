/* The weight gradient of a convolution over small images, one matrix product per tap: see conv_taps.c. */
#ifndef SHOAL_TENSOR_CPU_CONV_TAPS_H
#define SHOAL_TENSOR_CPU_CONV_TAPS_H
#include "tensor/cpu/view.h"

typedef struct {
  bool on;
  shoal_cpu_view x, y;
  size_t x_at, dy_at, product_at; /* scratch offsets */
} shoal_cpu_taps;

/** Decides whether `op`, whose formats are known, is faster this way; if so reserves scratch after *scratch_bytes. */
shoal_status shoal_cpu_taps_plan(const shoal_op *op, size_t *scratch_bytes, shoal_cpu_taps *out);
/** dw [o,i,kh,kw], overwritten.  `dy` is already masked by a fused relu. */
shoal_status shoal_cpu_taps_run(const shoal_cpu_taps *t, const shoal_op *op, const float *x, const float *dy,
                                void *scratch, float *dw);
#endif
