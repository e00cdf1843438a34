/* The smallest test kit that prints useful failures: CHECK counts and reports, check_done() is main's return value. */
#ifndef SHOAL_TESTS_CHECK_H
#define SHOAL_TESTS_CHECK_H
#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that the files of one test program share one count. */
__attribute__((weak)) int check_failures;

#define CHECK(cond, ...)                                                                                               \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      check_failures++;                                                                                                \
      fprintf(stderr, "%s:%d: CHECK(%s) failed: ", __FILE__, __LINE__, #cond);                                         \
      fprintf(stderr, " " __VA_ARGS__);                                                                                \
      fputc('\n', stderr);                                                                                             \
    }                                                                                                                  \
  } while (0)

#define CHECK_OK(call)                                                                                                 \
  do {                                                                                                                 \
    shoal_status ok_ = (call);                                                                                         \
    CHECK(ok_ == SHOAL_OK, "%s: %s", #call, shoal_error_text(ok_));                                                    \
  } while (0)
/* The text of this thread's error, whatever its code; "" when there is none. */
static inline const char *check_error(void)
{
  static _Thread_local shoal_error e;
  shoal_error_take(&e);
  shoal_error_put(&e);
  return e.code == SHOAL_OK ? "" : e.text;
}

/* For what makes going on pointless. */
#define REQUIRE(cond, ...)                                                                                             \
  do {                                                                                                                 \
    int before_ = check_failures;                                                                                      \
    CHECK(cond, __VA_ARGS__);                                                                                          \
    if (check_failures != before_) exit(1);                                                                            \
  } while (0)
#define CHECK_SKIP(...)                                                                                                \
  do {                                                                                                                 \
    fprintf(stderr, "skipped: " __VA_ARGS__);                                                                          \
    fputc('\n', stderr);                                                                                               \
    exit(77);                                                                                                          \
  } while (0)

/* The larger of two errors.  NaN counts as infinite: fmax would drop it, and a comparison with it is never true. */
static inline double worse(double worst, double error)
{
  return error <= worst ? worst : isnan(error) ? INFINITY : error;
}

static inline int check_done(void)
{
  if (check_failures) fprintf(stderr, "%d checks failed\n", check_failures);
  return check_failures != 0;
}
#endif
