/* See batch.h. */
#include "method/common/batch.h"

static shoal_status refuse(uint64_t samples)
{
  return SHOAL_FAIL(
      SHOAL_ERR_USAGE,
      "the epoch's last batch leaves %llu sample%s for a rank, too few to train this model: set data.last "
      "to drop or pad, or choose another batch",
      (unsigned long long)samples, samples == 1 ? "" : "s");
}

shoal_status shoal_plan_last_batch(shoal_form *f, uint64_t samples)
{
  shoal_plan *plan;
  if (samples == 0) return SHOAL_OK;
  shoal_status st = shoal_plans_get(f->plans, (int64_t)samples, SHOAL_PLAN_TRAIN, &plan);
  return st == SHOAL_ERR_ARG ? refuse(samples) : st;
}
