/* The reference backend: plain loops over dense row-major arrays, one thread, written to be read.
 *
 * The fast backends are tested against it, so it uses textbook formulas and accumulates long sums in double.  It is
 * also the fallback where no other backend is available. */
#ifndef SHOAL_TENSOR_REF_REF_H
#define SHOAL_TENSOR_REF_REF_H
#include "tensor/backend.h"

/** One thread does everything, whatever o->threads says. */
shoal_status shoal_ref_open(const shoal_backend_options *o, shoal_backend **out);
const char *shoal_ref_versions(void);
#endif
