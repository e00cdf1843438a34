/* When local SGD averages: a pure function of step number and epoch.
 *
 *   step          0    1    2    3    4    5    6    7    8      H = 4, switch_epoch 0
 *   whole model   A    -    -    -    A    -    -    -    A
 *
 *   fragment 0    s----a----c    -    s----a----c    -    s      two fragments, each under way for two steps: started after step s,
 *   fragment 1    -    -    s----a----c    -    s----a----c      collected after step c
 *
 * Before the switch every step is an ordinary synchronous one.  Steps are counted from the start of training and not
 * from the switch, as in the authors' code, so the first local period can be shorter than H.
 * Sources: Lin et al., Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020 (arXiv 1808.07217); fragments and overlap: Douillard et
 * al., Streaming DiLoCo, 2025 (arXiv 2501.18512). */
#ifndef SHOAL_METHOD_LOCAL_SGD_SCHEDULE_H
#define SHOAL_METHOD_LOCAL_SGD_SCHEDULE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t period, switch_epoch; /* H; epochs of synchronous steps at the start */
  uint64_t fragments, overlap;   /* at most H; below H: steps between the start of an average and its collection */
} shoal_local_sgd_plan;

typedef enum {
  SHOAL_LOCAL_SGD_SYNC,   /* gradients are summed over all ranks */
  SHOAL_LOCAL_SGD_ALONE,  /* gradients stay on the rank, or in the node; then fragments may be averaged */
  SHOAL_LOCAL_SGD_AVERAGE /* the same, and then the whole model is averaged over all ranks, without overlap */
} shoal_local_sgd_kind;

/* Whether the average of a fragment starts after a step of the local part. */
static inline bool shoal_local_sgd_starts(const shoal_local_sgd_plan *p, uint64_t step, uint64_t fragment)
{
  return step % p->period == fragment * p->period / p->fragments;
}

/* Whether what was started `overlap` steps before, if anything was, is collected after this step. */
static inline bool shoal_local_sgd_collects(const shoal_local_sgd_plan *p, uint64_t step, uint64_t fragment)
{
  return shoal_local_sgd_starts(p, step + p->period - p->overlap, fragment);
}

static inline shoal_local_sgd_kind shoal_local_sgd_at(const shoal_local_sgd_plan *p, uint64_t epoch, uint64_t step)
{
  if (epoch < p->switch_epoch) return SHOAL_LOCAL_SGD_SYNC;
  bool whole = p->overlap == 0 && (p->fragments == 1 || p->period == 1);
  return whole && step % p->period == 0 ? SHOAL_LOCAL_SGD_AVERAGE : SHOAL_LOCAL_SGD_ALONE;
}

/* The number of steps after the next step in which ranks may wait for each other, when `done` were made, the next one in `epoch`. */
static inline uint64_t shoal_local_sgd_next(const shoal_local_sgd_plan *p, uint64_t epoch, uint64_t done)
{
  uint64_t until = p->period;
  if (epoch < p->switch_epoch) return done + 1;
  for (uint64_t f = 0; f < p->fragments; f++) {
    uint64_t at = f * p->period / p->fragments + p->overlap, left = (at + p->period - done % p->period) % p->period;
    if (left < until) until = left;
  }
  return done + until + 1;
}
#endif
