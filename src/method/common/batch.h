/* The plan for the last batch of an epoch. */
#ifndef SHOAL_METHOD_BATCH_H
#define SHOAL_METHOD_BATCH_H
#include "nn/form.h"

/** Creates the training plan for an epoch's last batch with `samples` on this rank (0: nothing to do).  Called before
 *  step 1, so that a batch the model cannot take (one sample with batch norm) is refused early: ERR_USAGE with the
 *  cure.
 *  @param only  the epoch has no other batch, so that dropping it would leave none */
shoal_status shoal_plan_last_batch(shoal_form *f, uint64_t samples, bool only);
#endif
