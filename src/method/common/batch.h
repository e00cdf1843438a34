/* Plans for the batches an epoch is made of. */
#ifndef SHOAL_METHOD_BATCH_H
#define SHOAL_METHOD_BATCH_H
#include "nn/form.h"

/** A training plan for an epoch's last batch, of which `samples` are this rank's (0: nothing to do).  Made before step 1, so
 *  that a batch the model cannot take (one sample under batch norm) is refused early: ERR_USAGE with the cure. */
shoal_status shoal_plan_last_batch(shoal_form *f, uint64_t samples);
#endif
