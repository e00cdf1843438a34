/* See batch.h. */
#include "method/common/batch.h"

static shoal_status refuse(uint64_t samples, bool only)
{
  return SHOAL_FAIL(
      SHOAL_ERR_USAGE,
      "the epoch's last batch leaves %llu sample%s for a rank, too few to train this model: set data.last "
      "to %s, or choose another batch",
      (unsigned long long)samples, samples == 1 ? "" : "s", only ? "pad" : "drop or pad");
}

shoal_status shoal_plan_last_batch(shoal_form *f, uint64_t samples, bool only)
{
  shoal_plan *plan;
  if (samples == 0) return SHOAL_OK;
  shoal_status st = shoal_plans_get(f->plans, (int64_t)samples, SHOAL_PLAN_TRAIN, &plan);
  return st == SHOAL_ERR_ARG ? refuse(samples, only) : st;
}
