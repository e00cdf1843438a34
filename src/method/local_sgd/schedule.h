/* When local SGD averages: a pure function of step number and epoch.
 *
 *   step       0    1    2    3    4    5    6    7    8      H = 4, switch_epoch 0
 *              A    -    -    -    A    -    -    -    A
 *
 * Before the switch every step is an ordinary synchronous one.  Steps are counted from the start of training and not
 * from the switch, as in the authors' code, so the first local period can be shorter than H.
 * Source: Lin et al., Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020 (arXiv 1808.07217). */
#ifndef SHOAL_METHOD_LOCAL_SGD_SCHEDULE_H
#define SHOAL_METHOD_LOCAL_SGD_SCHEDULE_H
#include <stdint.h>

typedef enum {
  SHOAL_LOCAL_SGD_SYNC,   /* gradients are summed over all ranks */
  SHOAL_LOCAL_SGD_ALONE,  /* gradients stay on the rank, or in the node */
  SHOAL_LOCAL_SGD_AVERAGE /* the same, and then parameters are averaged over all ranks */
} shoal_local_sgd_kind;

static inline shoal_local_sgd_kind shoal_local_sgd_at(uint64_t period, uint64_t switch_epoch, uint64_t epoch,
                                                      uint64_t step)
{
  if (epoch < switch_epoch) return SHOAL_LOCAL_SGD_SYNC;
  return step % period == 0 ? SHOAL_LOCAL_SGD_AVERAGE : SHOAL_LOCAL_SGD_ALONE;
}

/* The number of steps after the next step in which all ranks wait for each other, when `done` were made, the next one in `epoch`. */
static inline uint64_t shoal_local_sgd_next(uint64_t period, uint64_t switch_epoch, uint64_t epoch, uint64_t done)
{
  if (epoch < switch_epoch) return done + 1;
  return (done + period - 1) / period * period + 1;
}
#endif
