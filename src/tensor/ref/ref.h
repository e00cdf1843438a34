/* The reference backend: plain loops over dense row-major arrays, one thread, written to be read.
 *
 * It is the oracle the fast backends are tested against, so it prefers the textbook formula to the fast one and adds
 * up in double wherever a sum is long.  It is also what runs where nothing else is available. */
#ifndef SHOAL_TENSOR_REF_REF_H
#define SHOAL_TENSOR_REF_REF_H
#include "tensor/backend.h"

/** @param threads accepted and ignored: one thread does everything. */
shoal_status shoal_ref_open(int threads, shoal_backend **out);
const char *shoal_ref_versions(void);
#endif
