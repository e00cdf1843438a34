/* Alignment of the clocks of different hosts.
 *
 * Monotonic clocks start at boot and run at slightly different rates.  A reading states that when this rank's clock was
 * at L, rank 0's clock was at R = L - offset, within a bound.  Two readings define a line,
 *
 *     local = drift * (time of rank 0) + offset,      drift = (L_end - L_start) / (R_end - R_start)
 *
 * through both points.  Between them the error of a converted time is at most the larger of the two bounds, provided
 * that the rate is constant.  With one reading (a run that was killed or is still running) equal rates are assumed and
 * the bound holds at the start only.
 *
 * The numbers are large (nanoseconds since boot) and their differences small, so the arithmetic uses long double, and
 * the offset is computed from the drift rounded to double, as stored: the line then passes through the first point to
 * the nanosecond. */
#include "trace/trace_impl.h"
#include <math.h>

void shoal_trace_clock_fit(const shoal_trace_reading *start, const shoal_trace_reading *end, double *offset_ns,
                           double *drift, double *bound_ns)
{
  long double l0 = (long double)start->at_ns, r0 = l0 - (long double)start->offset_ns;
  *drift = 1;
  *bound_ns = start->bound_ns;
  if (end) {
    long double l1 = (long double)end->at_ns, r1 = l1 - (long double)end->offset_ns;
    if (l1 > l0 && r1 > r0) *drift = (double)((l1 - l0) / (r1 - r0));
    if (end->bound_ns > *bound_ns) *bound_ns = end->bound_ns;
  }
  *offset_ns = (double)(l0 - (long double)*drift * r0);
}

int64_t shoal_trace_to_rank0(const shoal_trace_attempt *a, uint64_t local_ns)
{
  if (a->clock_readings == 0 || !(a->clock_drift > 0)) return (int64_t)local_ns;
  long double t = ((long double)local_ns - (long double)a->clock_offset_ns) / (long double)a->clock_drift;
  if (!(fabsl(t) <= (long double)SHOAL_TRACE_LATEST_NS)) return (int64_t)local_ns; /* a damaged line */
  int64_t down = (int64_t)t;
  return t - (long double)down >= 0.5L ? down + 1 : t - (long double)down < -0.5L ? down - 1 : down;
}

double shoal_trace_offset_ns(const shoal_trace_attempt *a)
{
  return (double)((int64_t)a->opened_ns - shoal_trace_to_rank0(a, a->opened_ns));
}
