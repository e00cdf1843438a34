/* Pauses of the whole process: Ctrl-Z, SIGSTOP, a batch system that suspends its jobs, a frozen container.
 *
 * The clock goes on meanwhile, but nothing works: speeds and the time left leave pauses out.  A thread that does nothing else looks at
 * the clock every half second; where two looks are further apart, the process did not run.  (The monotonic clock itself stands still
 * while a laptop sleeps.) */
#ifndef SHOAL_BASE_PAUSE_H
#define SHOAL_BASE_PAUSE_H
#include "base/clock.h"

enum { SHOAL_PAUSE_LOOK_MS = 500, SHOAL_PAUSE_LEAST_MS = 2000 };
/** One look, at least every SHOAL_PAUSE_LOOK_MS; the first one begins.  Any thread. */
void shoal_pause_look(uint64_t now_ns);
/** The nanoseconds of pauses between two readings of the clock, of which the second may be that of now; 0 before the first look. */
uint64_t shoal_paused_ns(uint64_t from_ns, uint64_t to_ns);
/** Seconds since a reading of the clock, without pauses. */
double shoal_worked_since(uint64_t start_ns);
#endif
