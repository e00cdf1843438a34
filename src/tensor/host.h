/* Entries of the tables of the backends whose memory is the host's: every function has done its work when it returns, so there is no
 * order to keep, and a copy beside the work is a copy.  Passes from the first element to the last are one thread's. */
#ifndef SHOAL_TENSOR_HOST_H
#define SHOAL_TENSOR_HOST_H
#include "tensor/backend.h"

void shoal_host_release(shoal_backend *b, shoal_memory *m);
shoal_status shoal_host_settle(shoal_backend *b);
uint64_t shoal_host_mark(shoal_backend *b);
bool shoal_host_reached(shoal_backend *b, uint64_t number);
shoal_status shoal_host_copy_beside(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                                    uint64_t *number);
shoal_status shoal_host_await(shoal_backend *b, uint64_t number);
shoal_status shoal_host_target_loss(shoal_backend *b, int64_t rows, int64_t width, const float *y, const float *targets,
                                    bool absolute, const float *scale, bool leave_out, float *dy, shoal_loss *out);
shoal_status shoal_host_clip(shoal_backend *b, float limit, const double *squares, float *scale);
shoal_status shoal_host_find_bad(shoal_backend *b, size_t n, const float *x, size_t *out);
shoal_status shoal_host_distance2(shoal_backend *b, size_t n, const float *x, const float *y, double *out);
#endif
