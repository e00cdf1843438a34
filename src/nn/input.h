/* The way of a batch from the host to where plans read it.
 *
 *     host     [ batch s ][ batch s+1 ]         the loader's memory
 *                  |           |
 *     pinned   [ room 0  ][ room 1   ]          ahead: copied to by the host while the backend computes step s
 *                  |           |
 *     backend  [ room 0  ][ room 1   ]          and beside it to the backend's memory, once step s-1 is done with that room
 *
 * Where the host reaches the backend's memory, a batch is read where it lies and nothing of this exists. */
#ifndef SHOAL_NN_INPUT_H
#define SHOAL_NN_INPUT_H
#include "tensor/backend.h"

typedef struct shoal_input shoal_input;
shoal_status shoal_input_create(shoal_backend *b, shoal_input **out);
void shoal_input_destroy(shoal_input *in); /* NULL is fine */
/** Where a plan may read the `bytes` at `x`, host memory, until the next call but one.  `x` may change after it, unless it is
 *  *out.  Allocates where no earlier batch was as large. */
shoal_status shoal_input_take(shoal_input *in, const float *x, size_t bytes, const float **out);
/** Begins to bring a batch that will be taken next, if no other comes before it: `x` and its contents stay as they are until then.
 *  Waits for nothing. */
shoal_status shoal_input_ahead(shoal_input *in, const float *x, size_t bytes);
void shoal_input_forget(shoal_input *in); /* what was begun: it will not be taken */
#endif
