/* A backend whose memory the host does not reach, shown as one whose memory it does, so that one suite tests both.
 *
 * Its memory is the host's.  A call copies the arguments into memory of the backend behind it, in allocations of their own that
 * have the same alignment, and a guard behind them; calls; and copies back what the function may write.  Arguments that are
 * the same or overlap stay so. */
#ifndef SHOAL_TESTS_TENSOR_MIRROR_H
#define SHOAL_TESTS_TENSOR_MIRROR_H
#include "tensor/backend.h"

/** @return a mirror of `b`, which it closes; `b` itself if the host reaches its memory. */
shoal_backend *mirror_of(shoal_backend *b);
bool mirrored(const shoal_backend *b);
#endif
