/* Whether a thread's arithmetic flushes subnormal numbers to zero, as operands and as results.
 *
 * It is a state of each thread's floating-point unit, which a thread that is created later takes over from its creator. */
#include "base/subnormal.h"
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>

static void set_here(bool flush)
{
  const unsigned both = 0x8040; /* flush results to zero, take operands for zero */
  _mm_setcsr(flush ? _mm_getcsr() | both : _mm_getcsr() & ~both);
}

bool shoal_subnormals_flushed(void)
{
  return (_mm_getcsr() & 0x8040) == 0x8040;
}
#elif defined(__aarch64__)
static void set_here(bool flush)
{
  const uint64_t both = UINT64_C(1) << 24;
  uint64_t state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  state = flush ? state | both : state & ~both;
  __asm__ volatile("msr fpcr, %0" : : "r"(state));
}

bool shoal_subnormals_flushed(void)
{
  uint64_t state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state >> 24 & 1;
}
#else
static void set_here(bool flush)
{
  (void)flush;
}

bool shoal_subnormals_flushed(void)
{
  return false;
}
#endif

bool shoal_subnormals_flush(bool flush)
{
  bool before = shoal_subnormals_flushed();
  set_here(flush);
  return before;
}
