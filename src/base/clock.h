/* Time: monotonic nanoseconds for measurements, and the wall clock as text. */
#ifndef SHOAL_BASE_CLOCK_H
#define SHOAL_BASE_CLOCK_H
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t shoal_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline double shoal_seconds_since(uint64_t start_ns)
{
  return (double)(shoal_now_ns() - start_ns) * 1e-9;
}
const char *shoal_wall_clock(char *buf, size_t cap); /* "2026-01-31T12:00:00Z" */
#endif
