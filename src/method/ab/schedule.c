/* When AB-training splits, reconciles and ramps the learning rate: computed from the number of steps, so that a resumed
 * run needs no state except the position in a ramp. */
#include "base/mem.h"
#include "method/ab/ab.h"

shoal_status shoal_ab_schedule_check(const shoal_ab_schedule *s)
{
  SHOAL_CHECK(s->cycle >= 2, SHOAL_ERR_USAGE,
              "method.cycle is %llu steps: a cycle holds a rebound and steps on factors, give at least 2",
              (unsigned long long)s->cycle);
  SHOAL_CHECK(s->rebound >= 1 && s->rebound < s->cycle, SHOAL_ERR_USAGE,
              "method.rebound is %llu of %llu steps of a cycle: must be 1 to %llu", (unsigned long long)s->rebound,
              (unsigned long long)s->cycle, (unsigned long long)s->cycle - 1);
  return SHOAL_OK;
}

shoal_ab_schedule shoal_ab_schedule_of(uint64_t steps)
{
  uint64_t cycle = SHOAL_MAX(steps / 15, 10), rebound = cycle / 10;
  return (shoal_ab_schedule){ .warmup = 3 * cycle + rebound, .cycle = cycle, .rebound = rebound, .ramp = cycle / 4 };
}

/* The last reconciliation at or before k, or 0. */
static uint64_t reconciled(const shoal_ab_schedule *s, uint64_t k)
{
  uint64_t last = k / s->cycle * s->cycle;
  return last > s->warmup ? last : 0;
}

shoal_ab_event shoal_ab_event_at(const shoal_ab_schedule *s, uint64_t k)
{
  if (k < s->warmup) return SHOAL_AB_NOTHING;
  if (k == s->warmup) return SHOAL_AB_SPLIT;
  if (k % s->cycle == 0) return SHOAL_AB_RECONCILE;
  if (k < s->cycle || k % s->cycle != s->rebound) return SHOAL_AB_NOTHING;
  return reconciled(s, k) ? SHOAL_AB_SPLIT_CUT : SHOAL_AB_RAMP_ONLY;
}

bool shoal_ab_factored(const shoal_ab_schedule *s, uint64_t k)
{
  if (k < s->warmup) return false;
  uint64_t last = reconciled(s, k);
  return !last || k - last >= s->rebound;
}

bool shoal_ab_first_phase(const shoal_ab_schedule *s, uint64_t k)
{
  return k >= s->warmup && !reconciled(s, k);
}

void shoal_ab_ramp_start(shoal_ab_ramp *r, uint64_t steps)
{
  *r = (shoal_ab_ramp){ .active = steps > 0 };
}

double shoal_ab_ramp_rate(shoal_ab_ramp *r, uint64_t steps, double from, double scheduled)
{
  if (!r->active) return scheduled;
  if (r->done == 0 && scheduled <= from) {
    r->active = false;
    return scheduled;
  }
  double now = scheduled;
  if (r->done == 0) {
    r->slope = (scheduled - from) / (double)steps;
    now = from;
  }
  double candidate = r->slope * (double)++r->done;
  r->active = r->done < steps;
  return SHOAL_MIN(candidate, now);
}
