/* Subnormal numbers are flushed on request: in the caller, in every thread of a loop, and in a thread created afterwards. */
#include "base/subnormal.h"
#include "check.h"
#include "tensor/backend.h"
#include <pthread.h>
#include <stdlib.h>

enum { N = 1 << 20 };

static void *look(void *flushed)
{
  *(bool *)flushed = shoal_subnormals_flushed();
  return NULL;
}

/* Every element of a product of subnormals with 1, computed by all threads. */
static void check(const char *name, int threads, bool flush)
{
  shoal_backend *b;
  pthread_t thread;
  bool inherited = !flush;
  shoal_memory own[2];
  CHECK_OK(shoal_backend_open(name, threads, &b));
  for (int i = 0; i < 2; i++)
    REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_PINNED, N * sizeof(float), &own[i]) == SHOAL_OK, "alloc");
  float *x = own[0].at, *y = own[1].at;
  for (size_t i = 0; i < N; i++) x[i] = 0x1p-140f;
  CHECK_OK(b->ops->axpby(b, N, 1, x, 0, y)); /* the threads exist from here on */
  shoal_backend_flush_subnormals(b, flush);
  CHECK_EQ(shoal_subnormals_flushed(), flush, "%s", name);
  CHECK_OK(b->ops->axpby(b, N, 1, x, 0, y));
  size_t zeros = 0;
  for (size_t i = 0; i < N; i++) {
    uint32_t bits;
    memcpy(&bits, &y[i], sizeof bits);
    zeros += bits == 0;
  }
  CHECK_EQ(zeros, flush ? (size_t)N : 0, "%s, %d threads", name, threads);
  REQUIRE(pthread_create(&thread, NULL, look, &inherited) == 0, "no thread");
  pthread_join(thread, NULL);
  CHECK_EQ(inherited, flush, "%s: a later thread", name);
  for (int i = 0; i < 2; i++) b->ops->release(b, &own[i]);
  shoal_backend_close(b);
}

int main(void)
{
#if !defined(__x86_64__) && !defined(__aarch64__)
  CHECK_SKIP("this processor has no such state that is known");
#endif
  static const bool order[] = { false, true, false };
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    check("cpu", 3, order[i]);
    check("ref", 1, order[i]);
  }
  return check_done();
}
